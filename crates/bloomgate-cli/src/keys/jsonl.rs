//! A field of JSON lines: one value a line, of which only the way to the field is looked at.
//!
//! Texts give their characters, integers of any size their digits. What has more than one way to be written (1.0 and 1,
//! true) or is no single value is refused: a key that is written another way later would be a wrong "no".

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::input::Input;
use super::lines::Lines;
use super::{Block, Cut, KeyStream, Writer, columns};
use crate::failure::Failure;
use crate::number;

/// The way to a field through nested objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    path: Vec<String>,
    /// As it was written.
    name: String,
}

impl Field {
    /// `user.id`, or `/user/id` (a JSON pointer, RFC 6901) for names with dots.
    pub fn of(name: &str) -> Self {
        let path = match name.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect(),
            None => name.split('.').map(str::to_string).collect(),
        };
        Self { path, name: name.into() }
    }
}

/// The keys of a field, or of several with a tab between each.
pub struct JsonLines {
    lines: Lines<Input>,
    name: Arc<str>,
    fields: Vec<Field>,
    keep_empty: bool,
    /// The lines as they were read.
    block: Block,
    /// Lines with all fields, lines that lack one, lines where one is null.
    found: u64,
    missing: u64,
    null: u64,
    /// The names in the first line, for the message when none has the field.
    names: Option<Vec<String>>,
}

impl JsonLines {
    /// The fields of an open source, decompressed where it is compressed.
    pub fn of(from: Input, name: &str, fields: Vec<Field>, keep_empty: bool) -> Self {
        Self {
            // Empty lines are skipped by the parser, and a CR is white space to it.
            lines: Lines::of(from, name, Cut::default()),
            name: name.into(),
            fields,
            keep_empty,
            block: Block::default(),
            found: 0,
            missing: 0,
            null: 0,
            names: None,
        }
    }
}

/// What came of a line.
enum Taken {
    Key,
    Missing,
    Null,
}

/// Appends the key of a line; `Err` says why not, and at which byte of the line if that is known.
fn take(line: &[u8], fields: &[Field], writer: &mut Writer<'_>) -> Result<Taken, (Option<usize>, String)> {
    let several = fields.len() > 1;
    for (part, field) in fields.iter().enumerate() {
        if part > 0 {
            writer.bytes.push(b'\t');
        }
        let mut found = None;
        let mut reader = serde_json::Deserializer::from_slice(line);
        let read = Follow { path: &field.path, found: &mut found }.deserialize(&mut reader);
        read.and_then(|()| reader.end()).map_err(|error| (Some(error.column()), cause(&error)))?;
        let Some(value) = found else { return Ok(Taken::Missing) };
        let begin = writer.bytes.len();
        let text = value.get();
        match text.as_bytes()[0] {
            b'"' => match string(text) {
                Ok(text) => writer.bytes.extend_from_slice(text.as_bytes()),
                Err(error) => {
                    let at = text.as_ptr() as usize - line.as_ptr() as usize;
                    return Err((Some(at + error.column()), cause(&error)));
                }
            },
            b'n' => return Ok(Taken::Null),
            _ => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                if digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    // Minus nought is nought.
                    writer.bytes.extend_from_slice(if digits == "0" { b"0" } else { text.as_bytes() });
                } else {
                    return Err((None, refusal(&field.name, text)));
                }
            }
        }
        if several && writer.bytes[begin..].contains(&b'\t') {
            let what = "holds a tab, which stands between the parts of a key: take one field, or replace the tab";
            return Err((None, format!("the field {} {what}", field.name)));
        }
    }
    Ok(Taken::Key)
}

/// A text without its quotes; borrowed where nothing in it is escaped.
fn string(text: &str) -> Result<std::borrow::Cow<'_, str>, serde_json::Error> {
    match &text[1..text.len() - 1] {
        plain if !plain.contains('\\') => Ok(plain.into()),
        _ => serde_json::from_str::<String>(text).map(Into::into),
    }
}

fn refusal(field: &str, text: &str) -> String {
    let what = match text.as_bytes()[0] {
        b't' | b'f' => "a boolean",
        b'[' => "a list",
        b'{' => "an object",
        _ => "a number with a fraction or an exponent",
    };
    // What a terminal would take for a command is not shown.
    let shown = |sign: char| if sign.is_control() { char::REPLACEMENT_CHARACTER } else { sign };
    let told: String = text.chars().take(40).map(shown).collect();
    let dots = if text.chars().nth(40).is_some() { "..." } else { "" };
    format!(
        "the field {field} is {what}, {told}{dots}: a key is a text or an integer; name another field{}",
        if text.starts_with('{') { ", or one within it as outer.inner" } else { "" }
    )
}

/// What the parser says, without the place: it knows the column in the line, and not the line.
fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let cause = text.rsplit_once(" at line ").map_or(text.as_str(), |(cause, _)| cause);
    format!("this is not JSON: {cause}")
}

/// Goes down the path and keeps what is at its end, as it is written. Of two fields with one name the last counts.
struct Follow<'p, 'f, 'de> {
    path: &'p [String],
    found: &'f mut Option<&'de RawValue>,
}

impl<'de> DeserializeSeed<'de> for Follow<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        *self.found = None;
        if self.path.is_empty() {
            *self.found = Some(serde::Deserialize::deserialize(reader)?);
            return Ok(());
        }
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Follow<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (first, rest) = self.path.split_first().expect("the end of the path is not visited");
        while let Some(is_it) = map.next_key_seed(Is(first))? {
            if is_it {
                map.next_value_seed(Follow { path: rest, found: &mut *self.found })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    // Anything else than an object has no field.
    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Whether a name is the wanted one; nothing is copied to know it.
struct Is<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<bool, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// The names of an object's fields, those within others with dots, two levels deep.
fn names(line: &[u8]) -> Vec<String> {
    let Ok(serde_json::Value::Object(outer)) = serde_json::from_slice(line) else { return Vec::new() };
    let mut names = Vec::new();
    for (name, value) in &outer {
        match value {
            serde_json::Value::Object(inner) => names.extend(inner.keys().map(|inner| format!("{name}.{inner}"))),
            _ => names.push(name.clone()),
        }
    }
    names
}

impl KeyStream for JsonLines {
    fn next(&mut self, block: &mut Block) -> Result<bool, Failure> {
        let mut writer = block.start(&self.name);
        if !self.lines.next(&mut self.block)? {
            if self.found == 0 && self.missing > 0 {
                let wanted: Vec<&str> = self.fields.iter().map(|field| field.name.as_str()).collect();
                let names = self.names.take().unwrap_or_default();
                let there = match names.is_empty() {
                    true => "the first line is no object with fields".into(),
                    false => format!("the first line has: {}", columns::nearest(wanted[0], &names)),
                };
                return Err(Failure::Message(format!(
                    "{}: none of {} has the field {}; {there}",
                    self.name,
                    number::counted(self.missing + self.null, "line"),
                    wanted.join(" and ")
                )));
            }
            return Ok(false);
        }
        *writer.consumed = self.block.consumed();
        let keys = self.block.keys();
        for (at, line) in keys.keys.iter().enumerate() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match take(line, &self.fields, &mut writer) {
                Ok(Taken::Key) => {
                    self.found += 1;
                    let key = &writer.bytes[writer.begin()..];
                    if key.iter().all(|byte| *byte == b'\t') && key.len() + 1 == self.fields.len() && !self.keep_empty {
                        writer.take_back();
                    } else {
                        writer.end(keys.line(at));
                    }
                }
                Ok(Taken::Null) => {
                    self.null += 1;
                    writer.take_back();
                }
                Ok(Taken::Missing) => {
                    self.missing += 1;
                    self.names.get_or_insert_with(|| names(line));
                    writer.take_back();
                }
                Err((column, why)) => {
                    let column = column.map(|column| format!(":{column}")).unwrap_or_default();
                    return Err(Failure::Message(format!("{}{column}: {why}", keys.place(at))));
                }
            }
        }
        Ok(true)
    }

    fn skipped(&self) -> Option<String> {
        let told = |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", number::counted(count, "line")));
        let all: Vec<String> = [told(self.missing, "without the field"), told(self.null, "where it is null")]
            .into_iter()
            .flatten()
            .collect();
        (!all.is_empty()).then(|| format!("{}: {} skipped", self.name, all.join(" and ")))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::super::input::Decompress;
    use super::*;

    /// The keys, the note on what was skipped, or the message.
    type Read = Result<(Vec<(u64, String)>, Option<String>), String>;

    fn read(text: &[u8], fields: &[&str]) -> Read {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file.rewind().unwrap();
        let fields = fields.iter().map(|name| Field::of(name)).collect();
        let mut lines = JsonLines::of(Input::new(file, Decompress::Auto), "test", fields, false);
        let (mut all, mut block) = (Vec::new(), Block::default());
        loop {
            match lines.next(&mut block) {
                Ok(true) => {}
                Ok(false) => return Ok((all, lines.skipped())),
                Err(Failure::Message(message)) => return Err(message),
                Err(Failure::Gone) => unreachable!("nothing is written"),
            }
            let keys = block.keys();
            let key = |at: usize| (keys.line(at), String::from_utf8(keys.keys[at].to_vec()).unwrap());
            all.extend((0..keys.keys.len()).map(key));
        }
    }

    fn keys(text: &str, fields: &[&str]) -> Vec<String> {
        read(text.as_bytes(), fields).unwrap().0.into_iter().map(|(_, key)| key).collect()
    }

    #[test]
    fn texts_and_integers_are_keys() {
        let text = r#"
{"id": "plain", "other": [1, {"id": "not this"}]}
  {"x":{"id":"nor this"}, "id":"\u00e9\ud83d\ude00\n\"\\\/"}
{"id":18446744073709551616}
{"id":-0}
{"id":-17,"id":"the last counts"}
{"id":""}
{"\u0069d":"escaped name"}
"#;
        let found = ["plain", "é😀\n\"\\/", "18446744073709551616", "0", "the last counts", "escaped name"];
        assert_eq!(keys(text, &["id"]), found);
        assert_eq!(read(text.as_bytes(), &["id"]).unwrap().0[1].0, 3, "the line of the file");
        assert_eq!(keys("{\"a\":{\"b\":{\"c\":1}}}\r\n", &["a.b.c"]), ["1"]);
        assert_eq!(keys("{\"a.b\":{\"c/d\":1}}", &["/a.b/c~1d"]), ["1"]);
        assert_eq!(keys("{\"b\":\"x\",\"a\":7}", &["a", "b"]), ["7\tx"]);
    }

    #[test]
    fn nulls_and_missing_fields_are_counted() {
        let text = b"{\"id\":1}\n{\"id\":null}\n{}\n[]\n7\n\"x\"\nnull\ntrue\n1.5\n-1\n{\"id\":2}\n";
        let (keys, skipped) = read(text, &["id"]).unwrap();
        assert_eq!((keys.len(), keys[1].0), (2, 11));
        assert_eq!(skipped.unwrap(), "test: 8 lines without the field and 1 line where it is null skipped");
        assert_eq!(read(b"{\"id\":1}", &["id"]).unwrap().1, None);
        let error = read(b"{\"user\":{\"id\":1},\"time\":2}\n", &["user.idd"]).unwrap_err();
        assert!(error.contains("none of 1 line") && error.contains("user.id, time"), "{error}");
        assert!(read(b"", &["id"]).unwrap().0.is_empty() && read(b"{\"id\":null}", &["id"]).unwrap().0.is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let refused = |line: &str, said: &[&str]| {
            let error = read(format!("{{\"id\":1}}\n{line}\n").as_bytes(), &["id"]).unwrap_err();
            assert!(said.iter().all(|said| error.contains(said)), "{line}: {error}");
        };
        refused("{\"id\":true}", &["test:2: ", "boolean"]);
        refused("{\"id\":1.0}", &["test:2: ", "fraction"]);
        refused("{\"id\":1e3}", &["test:2: ", "exponent"]);
        refused("{\"id\":[1]}", &["test:2: ", "list"]);
        refused("{\"id\":{\"a\":1}}", &["test:2: ", "outer.inner"]);
        refused("{\"id\":\"\\ud800\"}", &["test:2:14: ", "escape"]);
        refused("{\"id\":1} 2", &["test:2:10: ", "trailing"]);
        refused("{\"id\":01}", &["test:2:8: "]);
        refused("{\"id\":", &["test:2:", "EOF"]);
        refused("id,name", &["test:2:1: "]);
        let error = read(b"{\"a\":\"x\ty\",\"b\":1}".as_slice(), &["a", "b"]).unwrap_err();
        assert!(error.contains("control character"), "{error}");
        let error = read(b"{\"a\":\"x\\ty\",\"b\":1}".as_slice(), &["a", "b"]).unwrap_err();
        assert!(error.contains("tab"), "{error}");
    }
}
