//! Bodies of JSON: read with a limit, each field known and of its type.

use bloomgate_http::problem::Problem;
use serde_json::{Map, Value};

/// Values of one body: more than there may be keys.
const MOST_VALUES: usize = 1 << 18;

/// What a look at the letters of a body tells.
#[derive(Debug, PartialEq, Eq)]
struct Outline {
    /// How many values it has at most: each but the first stands behind a comma or a bracket.
    values: usize,
    /// How many fields the object has that is all of it: each has a colon, and none else.
    fields: usize,
}

impl Outline {
    fn of(body: &[u8]) -> Self {
        let (mut outline, mut depth) = (Self { values: 1, fields: 0 }, 0_usize);
        let (mut in_text, mut escaped) = (false, false);
        for &byte in body {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = in_text,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b',' => outline.values += 1,
                b'[' | b'{' => (outline.values, depth) = (outline.values + 1, depth + 1),
                b']' | b'}' => depth = depth.saturating_sub(1),
                b':' if depth == 1 => outline.fields += 1,
                _ => {}
            }
        }
        outline
    }
}

/// An object that a client sent; what is taken out of it is known, and what is left over is refused.
#[derive(Debug)]
pub(super) struct Object {
    fields: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Object {
    /// Reads a body.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        // Before anything is made of it: a value takes 32 bytes, and in a body two are enough.
        let Outline { values, fields } = Outline::of(body);
        if values > MOST_VALUES {
            return Err(Problem::too_large(format!(
                "the body has {values} values, at most {MOST_VALUES} are read: send less at once"
            )));
        }
        match serde_json::from_slice(body) {
            // Of two with one name the reader keeps the last: keys in the first would be missing, and nobody would know.
            Ok(Value::Object(read)) if read.len() != fields => {
                Err(Problem::bad_request("a field stands in the body twice: give each once"))
            }
            Ok(Value::Object(fields)) => Ok(Self { fields, known: Vec::new() }),
            Ok(other) => Err(Problem::bad_request(format!("the body is {}: send a JSON object", kind_of(&other)))),
            Err(error) => Err(Problem::bad_request(format!("the body is no JSON: {error}"))),
        }
    }

    /// A field as it is; `null` is none.
    pub(super) fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    /// Whether a field is there, also as `null`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// A text.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(name, &other, "a text")),
        }
    }

    /// A text that has to be there.
    pub(super) fn needed_text(&mut self, name: &'static str) -> Result<String, Problem> {
        self.text(name)?.ok_or_else(|| Problem::bad_request(format!("the body has no '{name}': give one, a text")))
    }

    /// A whole number, not below zero.
    pub(super) fn whole(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| wrong(name, &value, "a whole number of 0 or more")),
        }
    }

    /// Any number.
    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<f64>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or_else(|| wrong(name, &value, "a number")),
        }
    }

    /// Yes or no.
    pub(super) fn truth(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(truth)) => Ok(Some(truth)),
            Some(other) => Err(wrong(name, &other, "true or false")),
        }
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, Problem> {
        let list = match self.take(name) {
            None => return Ok(None),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(wrong(name, &other, "an array of texts")),
        };
        let texts = list.into_iter().map(|value| match value {
            Value::String(text) => Ok(text),
            other => Err(wrong(name, &other, "an array of texts")),
        });
        texts.collect::<Result<_, _>>().map(Some)
    }

    /// Refuses what was not taken: a misspelt field is no field.
    pub(super) fn end(self) -> Result<(), Problem> {
        let Some(name) = self.fields.keys().next() else { return Ok(()) };
        let name: String = name.chars().take(64).collect();
        let known = self.known.join(", ");
        Err(Problem::bad_request(format!("the body has no field '{name}': its fields are {known}")))
    }
}

fn wrong(name: &str, value: &Value, wanted: &str) -> Problem {
    Problem::bad_request(format!("'{name}' is {}: give {wanted}", kind_of(value)))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_and_the_rest_is_refused() {
        let read = |text: &str| Object::read(text.as_bytes());
        let mut object = read(r#"{"a":"x","n":5,"r":0.5,"yes":true,"list":["a","b"],"none":null}"#).unwrap();
        assert_eq!(object.text("a").unwrap().as_deref(), Some("x"));
        assert_eq!((object.whole("n").unwrap(), object.number("r").unwrap()), (Some(5), Some(0.5)));
        assert_eq!(object.truth("yes").unwrap(), Some(true));
        assert_eq!(object.texts("list").unwrap().unwrap().len(), 2);
        assert!(object.has("none") && object.text("none").unwrap().is_none());
        assert!(object.end().is_ok());
        let mut object = read(r#"{"kynd":"blocked"}"#).unwrap();
        assert!(object.text("kind").unwrap().is_none());
        let why = object.end().unwrap_err();
        assert!(why.detail().contains("'kynd'") && why.detail().contains("kind"), "{}", why.detail());
        for wrong in ["", "[]", "{", "{\"a\":1}x", r#"{"a":1,"a":1}"#, r#"{"a":[],"b":{"a":1},"\u0061":[]}"#] {
            assert_eq!(read(wrong).unwrap_err().status(), 400, "{wrong}");
        }
        assert!(read(r#"{"a":1}"#).unwrap().text("a").is_err() && read(r#"{"n":-1}"#).unwrap().whole("n").is_err());
        assert!(read(r#"{"l":[1]}"#).unwrap().texts("l").is_err());
        // Further down a name may stand once more.
        assert!(read(r#"{"a":{"a":1,"b":":"},"b":[{"a":1},{"a":1}]}"#).is_ok() && read("{}").is_ok());
    }

    #[test]
    fn values_are_counted_before_they_are_read() {
        for (text, values, fields) in [
            ("0", 1, 0),
            (r#"{"a":1,"b":[1,2]}"#, 5, 2),
            (r#"{"a":"1,2,[{\",\\","b":","}"#, 3, 2),
            (r#"["\\\\","\",",0]"#, 4, 0),
            (r#" {"a:":{"b":{"c":1}, "d" : ":"},"e\":" : [{"f":2}]} "#, 8, 2),
            ("]]}:", 1, 0),
        ] {
            assert_eq!(Outline::of(text.as_bytes()), Outline { values, fields }, "{text}");
        }
        let long = |count: usize| format!(r#"{{"l":[{}]}}"#, vec!["0"; count].join(","));
        assert!(Object::read(long(MOST_VALUES - 2).as_bytes()).is_ok());
        assert_eq!(Object::read(long(MOST_VALUES - 1).as_bytes()).unwrap_err().status(), 413);
    }
}
