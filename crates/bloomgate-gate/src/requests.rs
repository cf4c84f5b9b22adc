//! What an HTTP request is to a gate that stands in its way: a lookup of a key, a write, a deletion, or nothing to it. The
//! proxy and the layer read requests alike.

use std::borrow::Cow;

use hyper::header::{HeaderMap, HeaderName, LOCATION};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use crate::callers::Place;
use crate::error::{Error, ErrorKind, Result};
use crate::gate::{Announced, Gate, Seen, Unnamed};
use crate::key::Key;
use crate::rules::{Exception, Reading, Rule, Written, keys_of};

/// Frameworks that take another method from a header take these; a request with one is a write whatever its first line says,
/// unless both only ask.
const OVERRIDES: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
    HeaderName::from_static("x-http-method"),
];
/// WebDAV's COPY and MOVE make what this header names.
const DESTINATION: HeaderName = HeaderName::from_static("destination");
const CONTENT_LOCATION: HeaderName = HeaderName::from_static("content-location");
/// More keys than this no request names: whoever makes the most of one segment has it read in 52 ways (the most that a search
/// among millions of spellings found), and what clients mean is read in one to ten.
const MOST_NAMED: usize = 64;

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
    // By the few names that are there: to look each of these up costs three hashes.
    if headers.keys().any(|name| OVERRIDES.contains(name)) && !(method.is_safe() && overrides(headers).all(only_asks)) {
        return Kind::Write;
    }
    match *method {
        Method::GET | Method::HEAD => Kind::Lookup,
        Method::DELETE => Kind::Removal,
        Method::OPTIONS | Method::TRACE | Method::CONNECT => Kind::Other,
        _ => Kind::Write,
    }
}

/// The methods that headers name in the place of the first line's.
fn overrides(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    OVERRIDES.into_iter().flat_map(|name| headers.get_all(name)).map(|method| method.as_bytes().trim_ascii())
}

/// Whether a method in the place of `GET` leaves it one that changes nothing. An empty one is none.
fn only_asks(method: &[u8]) -> bool {
    ["", "GET", "HEAD", "OPTIONS"].iter().any(|harmless| method.eq_ignore_ascii_case(harmless.as_bytes()))
}

/// The keys that a lookup may be for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    One(Key),
    Two([Key; 2]),
    /// By what the service may cut off. That such a one is not found does not mean that none of them is there.
    OneOf(Vec<Key>),
}

impl Asked {
    pub fn keys(&self) -> &[Key] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::Two(keys) => keys,
            Self::OneOf(keys) => keys,
        }
    }

    /// How what came of it is read.
    pub fn certainty(&self) -> Certainty {
        match self {
            Self::One(_) | Self::Two(_) => Certainty::Sure,
            Self::OneOf(_) => Certainty::Unsure,
        }
    }
}

/// Whether it is known which key a lookup was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    Sure,
    Unsure,
}

impl Certainty {
    /// What an answer says of the key.
    pub fn seen(self, status: StatusCode) -> Seen {
        match (self, seen(status)) {
            (Self::Unsure, Seen::Absent) => Seen::Unclear,
            (_, seen) => seen,
        }
    }
}

/// The key of a lookup, if it can be read with certainty and is one of the source's type. What is not of the type (`abc`
/// where keys are integers) passes: the service may read `42abc` as 42.
pub(crate) fn asked(gate: &Gate, rules: &[Rule], exceptions: &[Exception], head: &Parts) -> Option<Asked> {
    let (path, query) = (head.uri.path(), head.uri.query());
    let asked = read(gate, rules, path, query)?;
    // Only where there is a key: most requests are for one, or for none, and few services have exceptions.
    (!excepted(exceptions, path)).then_some(asked)
}

/// Whether a path is one of those at which lookups pass.
pub(crate) fn excepted(exceptions: &[Exception], path: &str) -> bool {
    exceptions.iter().any(|exception| exception.covers(path))
}

fn read(gate: &Gate, rules: &[Rule], path: &str, query: Option<&str>) -> Option<Asked> {
    // Read by rules that are not certain, so that the others count too.
    let mut several: Option<Vec<Key>> = None;
    for rule in rules {
        let certain = match rule.read(path, query) {
            Reading::Other => continue,
            Reading::Unsure => return None,
            Reading::OneOf(texts) => {
                several.get_or_insert_default().extend(keys_of(&texts, |text| gate.parse_key(text).ok())?);
                continue;
            }
            Reading::Key(text, None) => Asked::One(gate.parse_key(&text).ok()?),
            Reading::Key(text, Some(written)) => {
                Asked::Two([gate.parse_key(&text).ok()?, gate.parse_key(written).ok()?])
            }
        };
        let Some(mut all) = several else { return Some(certain) };
        all.extend_from_slice(certain.keys());
        return Some(Asked::OneOf(all));
    }
    several.map(Asked::OneOf)
}

/// What a write may make.
#[derive(Debug, Default)]
pub(crate) struct Makes {
    pub keys: Vec<Key>,
    /// It is at a collection: the key is made by whoever answers.
    pub unnamed: bool,
}

impl Makes {
    /// Whether it may make a key at all.
    pub fn any(&self) -> bool {
        self.unnamed || !self.keys.is_empty()
    }

    /// How many keys the filter may have to take.
    pub fn most(&self) -> usize {
        self.keys.len().max(1)
    }

    /// Says so, before the write is passed on. An error: it must not be.
    pub async fn announce(self, gate: &Gate) -> Result<(Option<Announced>, Option<Unnamed>)> {
        let announced = match self.keys.is_empty() {
            true => None,
            false => Some(gate.announce(self.keys).await?),
        };
        let unnamed = match self.unnamed {
            true => gate.announce_unnamed().await.map(Some),
            false => Ok(None),
        };
        match unnamed {
            Ok(unnamed) => Ok((announced, unnamed)),
            Err(error) => {
                if let Some(announced) = announced {
                    announced.settled(false).await;
                }
                Err(error)
            }
        }
    }
}

/// Every key that some reader may find in a request: who is on a deny list is on it however it is spelled. An error where
/// there may be one that nobody can tell, and where there are more than anybody means.
pub(crate) fn named(gate: &Gate, rules: &[Rule], head: &Parts) -> Result<Vec<Key>> {
    let mut keys = Vec::new();
    let destination = destination(head)?;
    for rule in rules {
        if let Some(destination) = &destination {
            add(gate, &mut keys, &rule.located(destination))?;
        }
    }
    for rule in rules {
        let texts = rule.every(head.uri.path(), head.uri.query());
        // Of `42abc` who reads a number as far as it goes takes 42.
        let is_told = |texts: &Vec<String>| texts.is_empty() || texts.iter().any(|text| gate.parse_key(text).is_ok());
        match texts.filter(is_told) {
            Some(texts) => add(gate, &mut keys, &texts)?,
            None => {
                let message =
                    "services read the key of this request in different ways, or not at all: write it plainly";
                return Err(Error::new(ErrorKind::BadKey, message));
            }
        }
    }
    Ok(keys)
}

/// Whether a write at a collection makes a key that only its answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collections {
    MakeKeys,
    MakeNone,
}

/// What a write may make. An error says why it must not be passed on.
pub(crate) fn makes(gate: &Gate, rules: &[Rule], collections: Collections, head: &Parts) -> Result<Makes> {
    let mut makes = Makes::default();
    let destination = destination(head)?;
    for rule in rules {
        match rule.written(head.uri.path(), head.uri.query()) {
            Written::Other => {}
            Written::Keys(texts) => add(gate, &mut makes.keys, &texts)?,
            Written::Collection => makes.unnamed = collections == Collections::MakeKeys,
        }
        if let Some(destination) = &destination {
            add(gate, &mut makes.keys, &rule.located(destination))?;
        }
    }
    // Most services look at such a header of a POST alone, and answer with the list: an answer of success without a key. Taken
    // for a write, it would cost the filter its "no"; taken for none, a service that makes a row of it would be missed.
    if makes.unnamed && head.method.is_safe() {
        let message = format!(
            "whether a {} at a collection with a header that names another method makes something nobody can tell: leave the \
             header out, or send it as POST",
            head.method
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(makes)
}

/// The key of a deletion, as it is written.
pub(crate) fn removed(gate: &Gate, rules: &[Rule], head: &Parts) -> Option<Key> {
    rules.iter().find_map(|rule| match rule.written(head.uri.path(), head.uri.query()) {
        Written::Keys(texts) => texts.iter().find_map(|text| gate.parse_key(text).ok()),
        Written::Other | Written::Collection => None,
    })
}

/// Adds what of texts is a key. An error: they are more than a request may name, and each would go into every filter.
fn add(gate: &Gate, keys: &mut Vec<Key>, texts: &[String]) -> Result<()> {
    for key in texts.iter().filter_map(|text| gate.parse_key(text).ok()) {
        if keys.contains(&key) {
            continue;
        }
        if keys.len() == MOST_NAMED {
            let message = format!(
                "services may read more than {MOST_NAMED} keys in this request: name one, and write it plainly, without what \
                 is escaped twice and without parameters"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        keys.push(key);
    }
    Ok(())
}

/// What a COPY or MOVE makes besides what is at its own path. An error where it says that in several ways.
fn destination(head: &Parts) -> Result<Option<Cow<'_, str>>> {
    let copies = |method: &[u8]| method.eq_ignore_ascii_case(b"COPY") || method.eq_ignore_ascii_case(b"MOVE");
    if !copies(head.method.as_str().as_bytes()) && !overrides(&head.headers).any(copies) {
        return Ok(None);
    }
    let mut named = head.headers.get_all(DESTINATION).iter();
    let first = named.next();
    if named.next().is_some() {
        let message = "a COPY or MOVE has one Destination, and this has several: send one for each";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(first.map(|destination| String::from_utf8_lossy(destination.as_bytes())))
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

/// Gives a client's place back, or has it count as a miss: nothing was found, and so nothing was made.
pub(crate) fn leave(place: Option<Place>, status: Option<StatusCode>) {
    if let (Some(place), Some(Seen::Absent)) = (place, status.map(seen)) {
        place.missed();
    }
}

/// Whether a client is charged by what comes of a request. Then the request is seen to the head of its answer in a task of its
/// own: whoever was passed on and hangs up pays for what it would have been told.
pub(crate) fn is_counted(place: Option<&Place>) -> bool {
    place.is_some_and(Place::is_counted)
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
    fn a_method_in_a_header_makes_a_write_unless_it_only_asks_as_the_first_line_does() {
        let of = |method: &str, overrides: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in overrides {
                headers.append(*name, value.parse().unwrap());
            }
            kind(&Method::from_bytes(method.as_bytes()).unwrap(), &headers)
        };
        assert_eq!((of("GET", &[]), of("MOVE", &[]), of("DELETE", &[])), (Kind::Lookup, Kind::Write, Kind::Removal));
        for name in ["x-http-method-override", "x-method-override", "x-http-method"] {
            for harmless in ["GET", "get", "HEAD", "OPTIONS", ""] {
                assert_eq!(of("GET", &[(name, harmless)]), Kind::Lookup, "{name}: {harmless}");
                assert_eq!(of("HEAD", &[(name, harmless)]), Kind::Lookup, "{name}: {harmless}");
                assert_eq!(of("OPTIONS", &[(name, harmless)]), Kind::Other, "{name}: {harmless}");
                for method in ["POST", "DELETE", "MOVE"] {
                    assert_eq!(of(method, &[(name, harmless)]), Kind::Write, "{method} {name}: {harmless}");
                }
            }
            for other in ["PUT", "post", "DELETE", "GET, PUT", "ODD", "\"GET\""] {
                for method in ["GET", "HEAD", "OPTIONS", "POST"] {
                    assert_eq!(of(method, &[(name, other)]), Kind::Write, "{method} {name}: {other}");
                }
                assert_eq!(of("GET", &[(name, "GET"), (name, other)]), Kind::Write, "{name}: {other}");
                assert_eq!(of("GET", &[(name, "GET"), ("x-http-method", other)]), Kind::Write, "{name}: {other}");
            }
        }
    }

    #[test]
    fn a_destination_counts_for_copy_and_move_and_there_is_one() {
        let of = |method: &str, overridden: Option<&'static str>, many: usize| {
            let mut request = hyper::Request::builder().method(method).uri("/products/a");
            for number in 0..many {
                request = request.header("destination", format!("/products/{number}"));
            }
            if let Some(overridden) = overridden {
                request = request.header("x-http-method-override", overridden);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            destination(&head).map(|one| one.map(Cow::into_owned)).map_err(|error| error.to_string())
        };
        for (method, overridden) in [("COPY", None), ("MOVE", None), ("POST", Some("move")), ("copy", Some("GET"))] {
            assert_eq!(of(method, overridden, 0), Ok(None), "{method}");
            assert_eq!(of(method, overridden, 1).unwrap().unwrap(), "/products/0", "{method}");
            assert!(of(method, overridden, 2).unwrap_err().contains("one Destination"), "{method}");
        }
        for method in ["PUT", "POST", "DELETE", "GET"] {
            assert_eq!(of(method, None, 88), Ok(None), "{method}");
        }
    }
}
