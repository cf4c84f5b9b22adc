//! The table of promised figures: each row measured, judged, printed, and kept for `--json`.

use crate::args::Fault;
use std::fmt::Write as _;
use std::path::Path;

/// What is promised of a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Promise {
    /// At least so much.
    AtLeast(f64),
    /// At most so much.
    AtMost(f64),
    /// Nothing; shown all the same.
    None,
}

impl Promise {
    fn keeps(self, figure: f64) -> bool {
        match self {
            Promise::AtLeast(least) => figure >= least,
            Promise::AtMost(most) => figure <= most,
            Promise::None => true,
        }
    }

    fn text(self, unit: &str) -> String {
        match self {
            Promise::AtLeast(least) => format!(">={least}{unit}"),
            Promise::AtMost(most) => format!("<={most}{unit}"),
            Promise::None => String::new(),
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Line {
    /// What was measured.
    pub what: String,
    /// What is promised.
    pub promise: Promise,
    /// The figure to judge.
    pub figure: f64,
    /// What stands behind it: x, %, GB/s.
    pub unit: &'static str,
    /// The other side's figure, in words.
    pub peer: String,
    /// Our figure, in words.
    pub ours: String,
    /// What else is worth knowing.
    pub note: String,
    /// Why the figure does not count, whatever it is.
    pub void: Option<String>,
}

impl Line {
    fn verdict(&self) -> &'static str {
        match self.promise {
            Promise::None if self.void.is_none() => "-",
            promise if self.void.is_none() && promise.keeps(self.figure) => "ok",
            _ => "MISSED",
        }
    }

    fn json(&self) -> String {
        let target = match self.promise {
            Promise::AtLeast(limit) | Promise::AtMost(limit) => limit.to_string(),
            Promise::None => "null".to_string(),
        };
        let figure = if self.figure.is_finite() { format!("{:.4}", self.figure) } else { "null".to_string() };
        format!(
            "{{\"row\":{},\"target\":{target},\"measured\":{figure},\"unit\":{},\"peer\":{},\"ours\":{},\"note\":{},\"verdict\":{}}}",
            quoted(&self.what),
            quoted(self.unit),
            quoted(&self.peer),
            quoted(&self.ours),
            quoted(self.void.as_ref().unwrap_or(&self.note)),
            quoted(self.verdict())
        )
    }
}

/// All lines so far.
#[derive(Default)]
pub struct Table {
    lines: Vec<Line>,
    left_out: Vec<String>,
}

impl Table {
    /// Prints the names of the columns.
    pub fn head(&self) {
        println!("{:<66} {:>8} {:>9}  {:<17} {:<24} verdict", "what", "target", "measured", "peer", "ours (spread)");
    }

    /// Takes in a line and prints it.
    pub fn add(&mut self, line: Line) {
        println!(
            "{:<66} {:>8} {:>9}  {:<17} {:<24} {:<6} {}",
            line.what,
            line.promise.text(line.unit),
            format!("{:.2}{}", line.figure, line.unit),
            line.peer,
            line.ours,
            line.verdict(),
            line.void.as_ref().map_or_else(|| line.note.clone(), |why| format!("does not count: {why}")),
        );
        self.lines.push(line);
    }

    /// Says why `what` is not measured.
    pub fn leave_out(&mut self, what: &str, why: &str) {
        println!("{what}  left out: {why}");
        self.left_out.push(what.to_string());
    }

    /// How many promises were not kept.
    pub fn missed(&self) -> usize {
        self.lines.iter().filter(|line| line.verdict() == "MISSED").count()
    }

    /// The last line: how many were kept, missed and left out.
    pub fn summary(&self) -> String {
        let kept = self.lines.iter().filter(|line| line.verdict() == "ok").count();
        format!("{kept} kept, {} missed, {} left out", self.missed(), self.left_out.len())
    }

    /// Writes everything as one JSON object.
    pub fn write_json(&self, path: &Path, machine: &str, setting: &str) -> Result<(), Fault> {
        let rows: Vec<String> = self.lines.iter().map(Line::json).collect();
        let left_out: Vec<String> = self.left_out.iter().map(|what| quoted(what)).collect();
        let text = format!(
            "{{\"machine\":{},\"setting\":{},\"missed\":{},\"left_out\":[{}],\"rows\":[\n{}\n]}}\n",
            quoted(machine),
            quoted(setting),
            self.missed(),
            left_out.join(","),
            rows.join(",\n")
        );
        std::fs::write(path, text).map_err(|error| Fault(format!("{}: {error}", path.display())))
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter < ' ' => {
                // Writing into a String does not fail.
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out + "\""
}

/// Millions a second, short: 6.71 M, 98 k.
pub fn rate(figure: f64) -> String {
    if figure >= 1e6 { format!("{:.2} M", figure / 1e6) } else { format!("{:.1} k", figure / 1e3) }
}

/// The least and the most of some figures.
pub fn spread(figures: &[f64]) -> (f64, f64) {
    figures.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &figure| (low.min(figure), high.max(figure)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(promise: Promise, figure: f64) -> Line {
        let empty = String::new();
        Line {
            what: "a \"row\"".into(),
            promise,
            figure,
            unit: "x",
            peer: empty.clone(),
            ours: empty.clone(),
            note: empty,
            void: None,
        }
    }

    #[test]
    fn a_promise_is_kept_at_its_limit_and_not_beyond() {
        assert_eq!(line(Promise::AtLeast(3.0), 3.0).verdict(), "ok");
        assert_eq!(line(Promise::AtLeast(3.0), 2.99).verdict(), "MISSED");
        assert_eq!(line(Promise::AtMost(2.0), 2.01).verdict(), "MISSED");
        assert_eq!(line(Promise::AtLeast(3.0), f64::NAN).verdict(), "MISSED");
        assert_eq!(line(Promise::None, 0.0).verdict(), "-");
        let void = Line { void: Some("no new items".into()), ..line(Promise::AtLeast(3.0), 9.0) };
        assert_eq!(void.verdict(), "MISSED");
    }

    #[test]
    fn json_is_quoted() {
        let text = line(Promise::AtLeast(3.0), f64::NAN).json();
        assert!(text.starts_with("{\"row\":\"a \\\"row\\\"\",\"target\":3,\"measured\":null,"), "{text}");
        assert_eq!(quoted("a\nb"), "\"a\\u000ab\"");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!((rate(6_712_000.0).as_str(), rate(98_250.0).as_str()), ("6.71 M", "98.2 k"));
    }
}
