//! What a drill found, as a row of a table in Markdown.

use crate::subject::Policy;

/// One drill under one policy.
pub struct Row {
    cells: Vec<(String, String)>,
    /// Losses or wrong answers: 0, or a control run that did what it should.
    pub found: u64,
}

impl Row {
    pub fn new(drill: &str, policy: Policy) -> Row {
        Row { cells: vec![("drill".into(), drill.into()), ("fsync".into(), policy.name().into())], found: 0 }
    }

    pub fn text(mut self, name: &str, value: impl Into<String>) -> Row {
        self.cells.push((name.into(), value.into()));
        self
    }

    pub fn number(self, name: &str, value: u64) -> Row {
        let digits = value.to_string();
        let mut text = String::new();
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        self.text(name, text)
    }

    pub fn found(mut self, found: u64) -> Row {
        self.found = found;
        self
    }
}

/// The rows under one head.
pub fn table(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(first.cells.iter().map(|(name, _)| name.as_str()).collect());
    text += &line(first.cells.iter().map(|_| "---").collect());
    for row in rows {
        text += &line(row.cells.iter().map(|(_, value)| value.as_str()).collect());
    }
    text
}
