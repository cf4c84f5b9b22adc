//! What an HTTP request is to a gate that stands in its way: a lookup of a key, a write, a deletion, or nothing to it. The
//! proxy and the layer read requests alike.

use std::borrow::Cow;

use hyper::header::{HeaderMap, HeaderName, LOCATION};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use crate::gate::{Gate, Seen};
use crate::key::Key;
use crate::rules::{Reading, Rule, Written};

/// Frameworks that take another method from a header take these; a request with one is a write whatever its first line says.
const OVERRIDES: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
    HeaderName::from_static("x-http-method"),
];
/// WebDAV's COPY and MOVE make what this header names.
const DESTINATION: HeaderName = HeaderName::from_static("destination");
const CONTENT_LOCATION: HeaderName = HeaderName::from_static("content-location");

/// What a request is to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lookup,
    Removal,
    Write,
    /// Neither changes anything nor asks for a row.
    Other,
}

pub(crate) fn kind(method: &Method, headers: &HeaderMap) -> Kind {
    if OVERRIDES.iter().any(|name| headers.contains_key(name)) {
        return Kind::Write;
    }
    match *method {
        Method::GET | Method::HEAD => Kind::Lookup,
        Method::DELETE => Kind::Removal,
        Method::OPTIONS | Method::TRACE | Method::CONNECT => Kind::Other,
        _ => Kind::Write,
    }
}

/// The keys that a lookup may be for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    One(Key),
    Two([Key; 2]),
}

impl Asked {
    pub fn keys(&self) -> &[Key] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::Two(keys) => keys,
        }
    }
}

/// The key of a lookup, if it can be read with certainty and is one of the source's type. What is not of the type (`abc`
/// where keys are integers) passes: the service may read `42abc` as 42.
pub(crate) fn asked(gate: &Gate, rules: &[Rule], head: &Parts) -> Option<Asked> {
    let (path, query) = (head.uri.path(), head.uri.query());
    for rule in rules {
        match rule.read(path, query) {
            Reading::Other => {}
            Reading::Unsure => return None,
            Reading::Key(text, None) => return gate.parse_key(&text).ok().map(Asked::One),
            Reading::Key(text, Some(written)) => {
                let keys = [gate.parse_key(&text).ok()?, gate.parse_key(written).ok()?];
                return Some(Asked::Two(keys));
            }
        }
    }
    None
}

/// What a write may make.
#[derive(Debug, Default)]
pub(crate) struct Makes {
    pub keys: Vec<Key>,
    /// It is at a collection: the key is made by whoever answers.
    pub unnamed: bool,
}

pub(crate) fn makes(gate: &Gate, rules: &[Rule], head: &Parts) -> Makes {
    let mut makes = Makes::default();
    let add = |keys: &mut Vec<Key>, texts: Vec<String>| {
        for key in texts.iter().filter_map(|text| gate.parse_key(text).ok()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    };
    for rule in rules {
        match rule.written(head.uri.path(), head.uri.query()) {
            Written::Other => {}
            Written::Keys(texts) => add(&mut makes.keys, texts),
            Written::Collection => makes.unnamed = true,
        }
        for destination in head.headers.get_all(DESTINATION) {
            add(&mut makes.keys, rule.located(&String::from_utf8_lossy(destination.as_bytes())));
        }
    }
    makes
}

/// The keys that the head of an answer tells. `asked`: the path that was asked for, for locations that are relative.
pub(crate) fn located(gate: &Gate, rules: &[Rule], headers: &HeaderMap, asked: &str) -> Vec<Key> {
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

/// What an answer says of the row that was asked for.
pub(crate) fn seen(status: StatusCode) -> Seen {
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Seen::Absent,
        StatusCode::NOT_MODIFIED => Seen::Found,
        status if status.is_success() => Seen::Found,
        _ => Seen::Unclear,
    }
}

/// What an answer says of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// Nothing was done.
    Refused,
    /// Accepted and not done yet; or it failed, and who knows where.
    Unsure,
}

pub(crate) fn fate(status: StatusCode) -> Fate {
    match status {
        StatusCode::ACCEPTED => Fate::Unsure,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => Fate::Refused,
        status if status.is_server_error() => Fate::Unsure,
        status if status.is_client_error() => Fate::Refused,
        // A 303 is how many services say "made, look there".
        _ => Fate::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_locations_begin_where_was_asked() {
        for (location, asked, whole) in [
            ("/products/7", "/x", "/products/7"),
            ("http://h/products/7", "/x", "http://h/products/7"),
            ("7", "/products/", "/products/7"),
            ("products/7", "/products", "/products/7"),
        ] {
            assert_eq!(absolute(location, asked), whole);
        }
    }

    #[test]
    fn a_method_in_a_header_makes_a_write() {
        let mut headers = HeaderMap::new();
        assert_eq!(kind(&Method::GET, &headers), Kind::Lookup);
        assert_eq!(kind(&Method::from_bytes(b"MOVE").unwrap(), &headers), Kind::Write);
        headers.insert("x-http-method-override", "PUT".parse().unwrap());
        assert_eq!(kind(&Method::GET, &headers), Kind::Write);
    }
}
