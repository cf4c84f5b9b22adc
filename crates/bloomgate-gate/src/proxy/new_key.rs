//! Keys that are made behind the proxy, and that only an answer tells: a `POST` to `/products` whose answer says
//! `Location: /products/4711`, or has `{"id": 4711}` in its body.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

use hyper::header::{CONTENT_ENCODING, HeaderMap};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind};
use crate::gate::Gate;
use crate::key::Key;

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
    }
}
