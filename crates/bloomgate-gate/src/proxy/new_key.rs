//! Keys that are made behind the proxy, and that only an answer tells: a `POST` to `/products` whose answer says
//! `Location: /products/4711`, or has `{"id": 4711}` in its body.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderName, LOCATION};
use serde_json::value::RawValue;

use super::rules::Rule;
use crate::error::{Error, ErrorKind};
use crate::gate::Gate;
use crate::key::Key;

const CONTENT_LOCATION: HeaderName = HeaderName::from_static("content-location");

/// Where an answer tells the key that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NewKey {
    /// In its `Location`.
    #[default]
    Location,
    /// In its body, JSON, at this pointer (RFC 6901): `/id`, `/product/sku`.
    Json(Vec<String>),
    /// Nowhere: a `POST` to the collection makes no key.
    None,
}

impl FromStr for NewKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once(':') {
            None if text == "location" => Ok(Self::Location),
            None if text == "none" => Ok(Self::None),
            Some(("json", pointer)) if pointer.starts_with('/') => {
                let parts = pointer[1..].split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
                Ok(Self::Json(parts.collect()))
            }
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{text:?} is no place of a new key: write location, none, or json: and a pointer like json:/id"
                ),
            )),
        }
    }
}

/// The keys that the head of an answer tells. `asked`: the path that was asked for, for locations that are relative.
pub(super) fn in_head(gate: &Gate, rules: &[Rule], headers: &HeaderMap, asked: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    for value in headers.get_all(LOCATION).iter().chain(headers.get_all(CONTENT_LOCATION)) {
        let Ok(location) = std::str::from_utf8(value.as_bytes()) else { continue };
        let location = absolute(location.trim(), asked);
        for rule in rules {
            keys.extend(rule.located(&location).iter().filter_map(|text| gate.parse_key(text).ok()));
        }
    }
    keys
}

/// A location as a path or a whole URL.
fn absolute<'a>(location: &'a str, asked: &str) -> Cow<'a, str> {
    if location.starts_with('/') || location.contains("://") {
        return Cow::Borrowed(location);
    }
    let folder = asked.rfind('/').map_or("/", |at| &asked[..=at]);
    Cow::Owned(format!("{folder}{location}"))
}

/// Whether the body is what it seems: not compressed.
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// The key that a body tells: a text or a number, digit by digit.
pub(super) fn in_body(gate: &Gate, pointer: &[String], body: &[u8]) -> Option<Key> {
    let mut at: &RawValue = serde_json::from_slice(body).ok()?;
    for part in pointer {
        at = match at.get().as_bytes().first()? {
            b'{' => {
                serde_json::from_str::<BTreeMap<Cow<'_, str>, &RawValue>>(at.get()).ok()?.get(part.as_str()).copied()?
            }
            b'[' => serde_json::from_str::<Vec<&RawValue>>(at.get()).ok()?.get(part.parse::<usize>().ok()?).copied()?,
            _ => return None,
        };
    }
    let json = at.get();
    match json.as_bytes().first()? {
        b'"' => gate.parse_key(&serde_json::from_str::<String>(json).ok()?).ok(),
        b'-' | b'0'..=b'9' => gate.parse_key(json).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_typing_errors_told() {
        assert_eq!("location".parse::<NewKey>().unwrap(), NewKey::Location);
        assert_eq!("none".parse::<NewKey>().unwrap(), NewKey::None);
        assert_eq!("json:/a~1b/c~0d".parse::<NewKey>().unwrap(), NewKey::Json(vec!["a/b".into(), "c~d".into()]));
        for text in ["", "json", "json:id", "body", "Location"] {
            assert!(text.parse::<NewKey>().unwrap_err().to_string().contains("json:/id"), "{text}");
        }
        for (location, asked, whole) in [
            ("/products/7", "/x", "/products/7"),
            ("http://h/products/7", "/x", "http://h/products/7"),
            ("7", "/products/", "/products/7"),
            ("products/7", "/products", "/products/7"),
        ] {
            assert_eq!(absolute(location, asked), whole);
        }
    }
}
