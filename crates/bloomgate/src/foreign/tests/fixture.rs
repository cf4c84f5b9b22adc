//! The fixtures of `tests/foreign`: a reader of the little JSON they use, and of base64.

use std::collections::HashMap;
use std::path::PathBuf;

/// A JSON value; numbers stay text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Word(String),
    Text(String),
    List(Vec<Json>),
    Map(HashMap<String, Json>),
}

impl Json {
    pub(super) fn get(&self, name: &str) -> &Json {
        match self {
            Json::Map(map) => map.get(name).unwrap_or_else(|| panic!("no {name}")),
            other => panic!("{name} of {other:?}"),
        }
    }

    pub(super) fn list(&self) -> &[Json] {
        match self {
            Json::List(list) => list,
            other => panic!("no list: {other:?}"),
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Json::Text(text) => text,
            other => panic!("no text: {other:?}"),
        }
    }

    pub(super) fn number<T: std::str::FromStr>(&self) -> T {
        match self {
            Json::Word(word) => word.parse().unwrap_or_else(|_| panic!("no number: {word}")),
            other => panic!("no number: {other:?}"),
        }
    }

    pub(super) fn texts(&self) -> Vec<&str> {
        self.list().iter().map(Json::text).collect()
    }

    pub(super) fn base64(&self) -> Vec<u8> {
        base64(self.text())
    }
}

pub(super) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/foreign").join(name)
}

/// The fixture of this name.
pub(super) fn load(name: &str) -> Json {
    let text = std::fs::read_to_string(path(name)).unwrap();
    let (value, rest) = value(text.trim());
    assert!(rest.is_empty(), "after the end of {name}: {rest}");
    value
}

fn value(text: &str) -> (Json, &str) {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('"') {
        let (text, rest) = string(rest);
        return (Json::Text(text), rest);
    }
    if let Some(mut rest) = text.strip_prefix('[') {
        let mut list = Vec::new();
        loop {
            rest = rest.trim_start().trim_start_matches(',').trim_start();
            if let Some(rest) = rest.strip_prefix(']') {
                return (Json::List(list), rest);
            }
            let (item, after) = value(rest);
            list.push(item);
            rest = after;
        }
    }
    if let Some(mut rest) = text.strip_prefix('{') {
        let mut map = HashMap::new();
        loop {
            rest = rest.trim_start().trim_start_matches(',').trim_start();
            if let Some(rest) = rest.strip_prefix('}') {
                return (Json::Map(map), rest);
            }
            let (name, after) = value(rest);
            let (item, after) = value(after.trim_start().strip_prefix(':').unwrap());
            map.insert(name.text().to_owned(), item);
            rest = after;
        }
    }
    let end = text.find([',', ']', '}', '\n', ' ']).unwrap_or(text.len());
    assert!(end > 0, "no value: {}", &text[..text.len().min(40)]);
    (Json::Word(text[..end].to_owned()), &text[end..])
}

fn string(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let at = rest.find(['"', '\\']).unwrap();
        out.push_str(&rest[..at]);
        if rest[at..].starts_with('"') {
            return (out, &rest[at + 1..]);
        }
        let escape = &rest[at + 1..];
        assert!(escape.starts_with('u'), "an escape that no fixture has: {}", &escape[..1]);
        out.push(char::from_u32(u32::from_str_radix(&escape[1..5], 16).unwrap()).unwrap());
        rest = &escape[5..];
    }
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for byte in text.bytes().filter(|&byte| byte != b'=') {
        let digit = DIGITS.iter().position(|&digit| digit == byte).unwrap();
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}
