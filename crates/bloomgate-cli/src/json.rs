//! JSON, written only: objects, lists and an escaper are all that the verbs need.
//!
//! By hand because objects that are only written do not earn a dependency; the tests of the command read them back.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::failure::Failure;

/// A JSON object in the making.
#[derive(Default)]
pub struct Object(String);

impl Object {
    fn key(&mut self, key: &str) -> &mut String {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&text(key));
        self.0.push(':');
        &mut self.0
    }

    /// A field that is JSON already.
    pub fn raw(mut self, key: &str, json: &str) -> Self {
        self.key(key).push_str(json);
        self
    }

    /// A text.
    pub fn text(self, key: &str, value: impl AsRef<str>) -> Self {
        let value = text(value.as_ref());
        self.raw(key, &value)
    }

    /// A whole number. Readers that keep numbers as doubles are exact up to 2^53.
    pub fn whole(self, key: &str, value: u64) -> Self {
        self.raw(key, &value.to_string())
    }

    /// A number; what JSON has no word for (infinity) is null.
    pub fn number(self, key: &str, value: f64) -> Self {
        self.raw(key, &number(value))
    }

    /// A number or null.
    pub fn maybe_number(self, key: &str, value: Option<f64>) -> Self {
        self.raw(key, &value.map_or_else(|| "null".into(), number))
    }

    /// True or false.
    pub fn flag(self, key: &str, value: bool) -> Self {
        self.raw(key, if value { "true" } else { "false" })
    }

    /// Prints the object, a line on standard output.
    pub fn print(self) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", self.close())?;
        out.flush()?;
        Ok(())
    }

    /// The object, closed.
    pub fn close(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('{');
        }
        self.0.push('}');
        self.0
    }
}

/// A list of things that are JSON already.
pub fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(","))
}

/// A number, in the shortest form that reads back the same.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { "null".into() }
}

/// A text in quotes, escaped.
pub fn text(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' || c == '\u{7f}' => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_lists_and_escapes() {
        assert_eq!(Object::default().close(), "{}");
        let object = Object::default()
            .text("a\"b", "x\\y\n\u{1}é")
            .whole("n", u64::MAX)
            .number("p", 1e-7)
            .number("i", f64::INFINITY)
            .maybe_number("h", None)
            .flag("f", true)
            .raw("l", &list(["1".to_string(), text("t")]))
            .close();
        assert_eq!(
            object,
            r#"{"a\"b":"x\\y\n\u0001é","n":18446744073709551615,"p":1e-7,"i":null,"h":null,"f":true,"l":[1,"t"]}"#
        );
    }
}
