//! Where the key is in a request: `path:/products/{id}`, `path:/products/{id}/reviews`, `path:/products/{id}/**`,
//! `query:/lookup?sku={id}`.
//!
//! What stands behind reads the same request with code of its own, and perhaps otherwise: it may fold `//`, resolve
//! `..`, cut `;parameters` off, decode twice, take `+` for a space or `.json` for a format. So there are two ways to read:
//!
//! - **To look up**, strictly: a key is read only where every reader gets the same one, or one of a few that are known.
//!   Everything else is *unsure*, and passes: a "no" to a key that was meant otherwise would be wrong.
//! - **To write**, loosely: every key that any reader may get goes into the filter. One too many costs a lookup, one too few
//!   a wrong "no".

mod exception;
mod spelling;

use std::borrow::Cow;
use std::str::FromStr;

pub use exception::Exception;

use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, LONGEST};
use spelling::{Formats, decoded, is_at, is_fixed, readings, resolved, segments, tolerant};

/// Where the key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    place: Place,
    /// As it was written.
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Path {
        /// Up to the key, `/products/`.
        before: String,
        /// What the key's own segment ends with, mostly nothing.
        ending: String,
        /// The segments behind it, `/reviews`, mostly nothing.
        after: String,
        /// Whether anything may follow.
        deep: bool,
    },
    Query {
        path: String,
        name: String,
    },
}

/// What a strict look at a request gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<'a> {
    /// The rule is not about this request.
    Other,
    /// It may be, and what the key is cannot be said with certainty.
    Unsure,
    /// Every reader gets one of these: some cut off a format, a parameter or a last slash, or take `+` for a space.
    OneOf(Vec<String>),
    /// The key, decoded; and as it was written, if that differs: some readers do not decode.
    Key(Cow<'a, str>, Option<&'a str>),
}

/// What a loose look at a write gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The rule is not about this request.
    Other,
    /// It writes one of these keys.
    Keys(Vec<String>),
    /// It is at the collection: the key is made behind the proxy.
    Collection,
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let how =
            "write path:/products/{id}, path:/products/{id}/reviews, path:/products/{id}/** or query:/lookup?sku={id}";
        let refused = |why: &str| invalid(format!("{text:?} is no place of a key, {why}: {how}"));
        let (kind, template) = text.split_once(':').ok_or_else(|| refused("it names no part of a request"))?;
        if !template.starts_with('/') {
            return Err(refused("what follows the colon is a path and begins with /"));
        }
        let (before, rest) = template.split_once('{').ok_or_else(|| refused("it has no {id}"))?;
        let (_, after) = rest.split_once('}').ok_or_else(|| refused("its { is not closed"))?;
        let (after, deep) = match after.strip_suffix("/**") {
            Some(after) => (after, true),
            None => (after, false),
        };
        let fixed = [before, after];
        if fixed.iter().any(|part| part.contains(['{', '}', '*'])) {
            return Err(refused("one {id} is allowed, and /** at the end"));
        }
        if fixed.iter().any(|part| part.contains(['%', '#', ';', '\\', '+', ' ']) || part.contains("//")) {
            return Err(refused("its fixed parts have letters that are read in several ways"));
        }
        let place = match kind {
            "path" if fixed.iter().any(|part| part.contains('?')) => return Err(refused("a path has no query")),
            "path" => {
                let (ending, after) = after.split_at(after.find('/').unwrap_or(after.len()));
                if before.split('/').chain(after.split('/')).any(|segment| matches!(segment, "." | "..")) {
                    return Err(refused("it has a segment of dots"));
                }
                if after.ends_with('/') {
                    return Err(refused("it ends with a slash"));
                }
                let own = |part: &str| part.to_owned();
                Place::Path { before: own(before), ending: own(ending), after: own(after), deep }
            }
            "query" => {
                let (path, parameter) = before.split_once('?').ok_or_else(|| refused("it has no query"))?;
                let name = parameter.strip_suffix('=').unwrap_or_default();
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
                if name.is_empty() || !name.bytes().all(plain) || !after.is_empty() || deep {
                    return Err(refused("its query is one parameter, ?sku={id}"));
                }
                Place::Query { path: path.to_owned(), name: name.to_owned() }
            }
            _ => return Err(refused("it names another part than path or query")),
        };
        Ok(Self { place, text: text.to_owned() })
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.text)
    }
}

impl Rule {
    /// The path and query of a key, `{key}` in its place: how the same thing is asked for directly.
    #[must_use]
    pub fn template(&self) -> String {
        match &self.place {
            Place::Path { before, ending, after, .. } => format!("{before}{{key}}{ending}{after}"),
            Place::Query { path, name } => format!("{path}?{name}={{key}}"),
        }
    }

    /// Reads a lookup, strictly.
    #[must_use]
    pub fn read<'a>(&self, path: &'a str, query: Option<&'a str>) -> Reading<'a> {
        match &self.place {
            Place::Path { before, ending, after, deep } => {
                let Some(rest) = path.strip_prefix(before.as_str()) else { return Reading::Other };
                let (segment, tail) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let Some(written) = segment.strip_suffix(ending.as_str()) else { return Reading::Other };
                match tail.strip_prefix(after.as_str()) {
                    Some("") => {}
                    Some("/") if !deep => return before_slash(key(written, ending.is_empty())),
                    Some(below) if *deep && below.starts_with('/') => {
                        if is_odd(below) {
                            return Reading::Unsure;
                        }
                    }
                    _ => return Reading::Other,
                }
                key(written, ending.is_empty())
            }
            Place::Query { path: fixed, name } => {
                let (true, Some(query)) = (path == fixed, query) else { return Reading::Other };
                let mut found = Reading::Other;
                // Readers differ in which of several counts, in `;` between them, and in `name[]`.
                if query.contains([';', '+', '[', '\\']) {
                    return Reading::Unsure;
                }
                for parameter in query.split('&') {
                    let (this, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                    if this.contains('%') || found != Reading::Other && this.eq_ignore_ascii_case(name) {
                        return Reading::Unsure;
                    }
                    if this == name {
                        found = key(value, false);
                    } else if this.eq_ignore_ascii_case(name) {
                        return Reading::Unsure;
                    }
                }
                found
            }
        }
    }

    /// Reads a write, loosely.
    #[must_use]
    pub fn written(&self, path: &str, query: Option<&str>) -> Written {
        self.loosely(path, query, Formats::Any)
    }

    fn loosely(&self, path: &str, query: Option<&str>, formats: Formats) -> Written {
        let (before, ending, after, deep) = match &self.place {
            Place::Path { before, ending, after, deep } => (before, ending, after, deep),
            Place::Query { path: fixed, name } => return written_in_query(fixed, name, path, query, formats),
        };
        // Both sides as the most tolerant reader takes them; the key's own letters are looked at afterwards.
        let (fixed, own_beginning) = before.rsplit_once('/').unwrap_or(("", before));
        let asked = resolved(path);
        let mut rest = asked.iter().map(String::as_str).enumerate();
        let is_last = |at: usize| at + 1 == asked.len();
        for wanted in segments(fixed) {
            match rest.next() {
                Some((at, segment)) if is_fixed(segment, wanted, is_last(at)) => {}
                _ => return Written::Other,
            }
        }
        let Some((_, segment)) = rest.next() else { return Written::Collection };
        let mut wanted = segments(after);
        loop {
            match (wanted.next(), rest.next()) {
                (None, None) => break,
                (None, Some(_)) if *deep => break,
                (Some(wanted), Some((at, below))) if is_fixed(below, wanted, is_last(at)) => {}
                _ => return Written::Other,
            }
        }
        Written::Keys(readings(segment, own_beginning, ending, formats))
    }

    /// Every key that some reader may find in a request, of whatever method; none where the rule is not about it. `None` where
    /// there may be one that is not told here.
    #[must_use]
    pub fn every(&self, path: &str, query: Option<&str>) -> Option<Vec<String>> {
        let mut all = match self.loosely(path, query, Formats::Known) {
            Written::Keys(texts) => texts,
            Written::Other | Written::Collection => Vec::new(),
        };
        let strict = self.read(path, query);
        match &self.place {
            // Who resolves nothing takes what stands there.
            Place::Path { before, ending, .. } if strict != Reading::Other => {
                let rest = path.strip_prefix(before.as_str()).unwrap_or_default();
                all.extend(readings(rest.split('/').next().unwrap_or_default(), "", ending, Formats::Known));
            }
            // As `sku[0]=7`: what names the parameter somehow may be it.
            Place::Query { name, .. } if strict == Reading::Unsure && all.is_empty() => {
                if tolerant(&query.unwrap_or_default().replace(';', "&")).contains(&name.to_lowercase()) {
                    return None;
                }
            }
            Place::Path { .. } | Place::Query { .. } => {}
        }
        all.retain(|text| !text.is_empty());
        // Encoded more often than anybody was thought to decode.
        let is_told = |text: &String| decoded(text).is_none_or(|plain| all.iter().any(|told| *told == *plain));
        all.iter().all(is_told).then_some(all)
    }

    /// The keys that the target of a `Location` may mean: its path, wherever it is.
    #[must_use]
    pub fn located(&self, location: &str) -> Vec<String> {
        let behind_host = match location.split_once("://").map(|(_, rest)| rest).or(location.strip_prefix("//")) {
            Some(rest) => rest.find('/').map_or("", |at| &rest[at..]),
            None => location,
        };
        let path = behind_host.split(['?', '#']).next().unwrap_or_default();
        match self.written(path, None) {
            Written::Keys(keys) => keys,
            Written::Other | Written::Collection => Vec::new(),
        }
    }
}

/// The keys that a write may have in its query.
fn written_in_query(fixed: &str, name: &str, path: &str, query: Option<&str>, formats: Formats) -> Written {
    if !is_at(&resolved(path), fixed) {
        return Written::Other;
    }
    let mut keys = Vec::new();
    for parameter in query.unwrap_or_default().split(['&', ';']) {
        let (this, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if tolerant(this).trim_end_matches("[]") == name.to_lowercase() {
            keys.extend(readings(value, "", "", formats));
        }
    }
    if keys.is_empty() { Written::Collection } else { Written::Keys(keys) }
}

/// Every key that some reader may take one segment of a path for.
#[must_use]
pub fn every_reading(segment: &str) -> Vec<String> {
    readings(segment, "", "", Formats::Known)
}

/// The keys among texts of which every reader takes one. `None` if one of them is no key of the type, and what a reader makes
/// of it is not known: of `42.json` who reads a number as far as it goes takes 42.
pub(crate) fn keys_of(texts: &[String], parse: impl Fn(&str) -> Option<Key>) -> Option<Vec<Key>> {
    let keys: Vec<(&str, Key)> = texts.iter().filter_map(|text| Some((text.as_str(), parse(text)?))).collect();
    let is_known = |text: &String| {
        keys.iter().any(|(key, _)| {
            text.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ';', '/']))
        })
    };
    texts.iter().all(is_known).then(|| keys.into_iter().map(|(_, key)| key).collect())
}

/// A key as it is written in one segment of a path, if all readers get the same one.
#[must_use]
pub fn segment(written: &str) -> Reading<'_> {
    key(written, true)
}

/// A key as it is written in one segment or value, if all readers get the same one. `whole`: it is a whole segment, of which a
/// reader may cut off a format or a parameter.
fn key(written: &str, whole: bool) -> Reading<'_> {
    if written.is_empty() || written.len() > 3 * LONGEST || written.contains(['\\', '/']) {
        return Reading::Unsure;
    }
    let Some(decoded) = decoded(written) else { return Reading::Unsure };
    let odd = |letter: char| matches!(letter, '/' | '\\' | '%') || letter.is_control();
    if decoded.contains(odd) || decoded.trim() != decoded || matches!(&*decoded, "." | "..") {
        return Reading::Unsure;
    }
    if decoded.contains(['+', ';']) || whole && decoded.contains('.') {
        return if whole { one_of(written, &decoded) } else { Reading::Unsure };
    }
    let differs = matches!(decoded, Cow::Owned(_));
    Reading::Key(decoded, differs.then_some(written))
}

/// The few keys that a whole segment may be read as.
fn one_of(written: &str, decoded: &str) -> Reading<'static> {
    // Of several parameters, readers differ in which they cut off; of nothing but a parameter or a format, a reader may
    // take what is left, nothing, for the collection.
    if decoded.matches(';').count() > 1 || decoded.starts_with(['.', ';', '+']) {
        return Reading::Unsure;
    }
    let all = readings(written, "", "", Formats::Any);
    // What has spaces at its ends by now is trimmed by some, at one end or at both.
    match all.iter().any(|text| text.trim() != text || matches!(text.as_str(), "." | "..")) {
        true => Reading::Unsure,
        false => Reading::OneOf(all),
    }
}

/// The reading of a key behind which there is one more slash: who takes the rest of the path for the key has it in there.
fn before_slash(reading: Reading<'_>) -> Reading<'_> {
    let mut all = match reading {
        Reading::Key(text, written) => {
            std::iter::once(text.into_owned()).chain(written.map(ToOwned::to_owned)).collect::<Vec<_>>()
        }
        Reading::OneOf(all) => all,
        Reading::Other | Reading::Unsure => return reading,
    };
    all.extend(all.clone().into_iter().map(|text| text + "/"));
    Reading::OneOf(all)
}

/// Whether a path has something that readers take differently.
fn is_odd(path: &str) -> bool {
    path.contains("//")
        || path.contains(['\\', ';'])
        || segments(path).any(|segment| match decoded(segment) {
            Some(decoded) => matches!(&*decoded, "." | "..") || decoded.contains(['/', '\\', '%', ';']),
            None => true,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    fn read(text: &str, target: &str) -> Option<Option<String>> {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        match rule(text).read(path, query) {
            Reading::Other => None,
            Reading::Unsure => Some(None),
            Reading::Key(key, _) => Some(Some(key.into_owned())),
            Reading::OneOf(all) => Some(Some(all.join(" or "))),
        }
    }

    fn is(key: &str) -> Option<Option<String>> {
        Some(Some(key.to_owned()))
    }

    #[test]
    fn a_lookup_is_read_where_every_reader_gets_the_same_key() {
        let (other, unsure) = (None, Some(None));
        for (target, key) in [
            ("/products/kettle", is("kettle")),
            ("/products/a%20b", is("a b")),
            ("/products/%C3%A9", is("é")),
            ("/products/v1.2", is("v1.2 or v1")),
            ("/products/lamp.v2", is("lamp.v2 or lamp")),
            ("/products/1.2.3", is("1.2.3 or 1.2 or 1")),
            ("/products/a.b;v.c", is("a.b;v.c or a.b or a.b;v or a")),
            ("/products/.v2", unsure.clone()),
            ("/products/kettle%20.v2", unsure.clone()),
            ("/products/kettle?x=1", is("kettle")),
            ("/products", other.clone()),
            ("/products/kettle/", is("kettle or kettle/")),
            ("/products/a%20b/", is("a b or a%20b or a b/ or a%20b/")),
            ("/products/kettle//", other.clone()),
            ("/products/kettle/reviews", other.clone()),
            ("/Products/kettle", other.clone()),
            ("/%70roducts/kettle", other.clone()),
            ("//products/kettle", other.clone()),
            ("/products/", unsure.clone()),
            ("/products/.", unsure.clone()),
            ("/products/%2e%2E", unsure.clone()),
            ("/products/a%2Fb", unsure.clone()),
            ("/products/a%5cb", unsure.clone()),
            ("/products/%2541", unsure.clone()),
            ("/products/a;v=1", is("a;v=1 or a")),
            ("/products/a%3Bv", is("a%3Bv or a;v or a")),
            ("/products/a;v;w", unsure.clone()),
            ("/products/;v", unsure.clone()),
            ("/products/a+b", is("a+b or a b")),
            ("/products/a%2Bb", is("a%2Bb or a+b or a b")),
            ("/products/a+", unsure.clone()),
            ("/products/+a", unsure.clone()),
            ("/products/kettle.json", is("kettle.json or kettle")),
            ("/products/kettle.XML", is("kettle.XML or kettle")),
            ("/products/kettle.json;v=1", is("kettle.json;v=1 or kettle.json or kettle")),
            ("/products/kettle;v=1.json", is("kettle;v=1.json or kettle or kettle;v=1")),
            ("/products/kettle.json/", is("kettle.json or kettle or kettle.json/ or kettle/")),
            ("/products/kettle%20.json", unsure.clone()),
            ("/products/kettle+.json", unsure.clone()),
            ("/products/...json", unsure.clone()),
            ("/products/.json", unsure.clone()),
            ("/products/%20kettle", unsure.clone()),
            ("/products/kettle%00", unsure.clone()),
            ("/products/%4", unsure.clone()),
            ("/products/%FF", unsure),
        ] {
            assert_eq!(read("path:/products/{id}", target), key, "{target}");
        }
        assert_eq!(rule("path:/p/{id}").read("/p/%41", None), Reading::Key("A".into(), Some("%41")));
    }

    #[test]
    fn rules_have_endings_tails_and_depths() {
        assert_eq!(read("path:/p/{id}.json", "/p/7.json"), is("7"));
        assert_eq!(read("path:/p/{id}.json", "/p/7"), None);
        assert_eq!(read("path:/p/{id}/reviews", "/p/7/reviews"), is("7"));
        assert_eq!(read("path:/p/{id}/reviews", "/p/7/reviews/2"), None);
        assert_eq!(read("path:/p/{id}/reviews", "/p/7/reviews/"), is("7 or 7/"));
        assert_eq!(read("path:/p/{id}/**", "/p/7/"), is("7"));
        assert_eq!(read("path:/p/{id}.json", "/p/a;v.json"), Some(None));
        assert_eq!(read("path:/p/{id}.json", "/p/a+b.json"), Some(None));
        assert_eq!(read("path:/p/{id}/**", "/p/7/reviews/2"), is("7"));
        assert_eq!(read("path:/p/{id}/**", "/p/7"), is("7"));
        for odd in ["/p/7/../8", "/p/7//8", "/p/7/%2e%2e/8", "/p/7/a%2F..%2F8", "/p/7/a;b", "/p/7/a\\b", "/p/7/%zz"] {
            assert_eq!(read("path:/p/{id}/**", odd), Some(None), "{odd}");
        }
        let lookup = "query:/lookup?sku={id}";
        assert_eq!(read(lookup, "/lookup?sku=a%20b&x=1"), is("a b"));
        assert_eq!(read(lookup, "/lookup?skus=1"), None);
        assert_eq!(read(lookup, "/lookup"), None);
        assert_eq!(read(lookup, "/lookups?sku=1"), None);
        for odd in ["sku=a+b", "sku=1&sku=2", "sku=1;x=2", "SKU=1", "sku=1&Sku=2", "s%6Bu=1", "sku[]=1", "sku="] {
            assert_eq!(read(lookup, &format!("/lookup?{odd}")), Some(None), "{odd}");
        }
        assert_eq!(rule(lookup).template(), "/lookup?sku={key}");
        assert_eq!(rule("path:/p/{sku}/x/**").template(), "/p/{key}/x");
    }

    #[test]
    fn a_write_is_read_in_every_way_that_somebody_may_read_it() {
        let products = rule("path:/products/{id}");
        for (path, key) in [
            ("/products/kettle", "kettle"),
            ("/Products/Kettle", "Kettle"),
            ("//products///kettle/", "kettle"),
            ("/%70roducts/kettle", "kettle"),
            ("/x/../products/./kettle", "kettle"),
            ("/x/%2e%2e/products%2Fkettle", "kettle"),
            ("/products;v=1/kettle;v=2", "kettle"),
            ("/products\\kettle", "kettle"),
            ("/products/a+b", "a b"),
            ("/products/a+b", "a+b"),
            ("/products/a%2520b", "a b"),
            ("/products/a%20b", "a%20b"),
            ("/products/kettle.json", "kettle"),
            ("/products/kettle.json", "kettle.json"),
            ("/products/lamp.v2", "lamp"),
            ("/products/lamp%2Ev2", "lamp"),
            ("/products/lamp.v2/", "lamp"),
            ("/products/lamp.v2;x=1", "lamp"),
            ("/products/a.b.c", "a"),
            ("/products/a.b.c", "a.b"),
            ("/products/a.b.c", "a.b.c"),
            ("/products/%20kettle", "kettle"),
        ] {
            match products.written(path, None) {
                Written::Keys(keys) => assert!(keys.iter().any(|read| read == key), "{path}: {keys:?}"),
                other => panic!("{path}: {other:?}"),
            }
        }
        for path in [
            "/products",
            "/products/",
            "/Products//",
            "/x/../products",
            "/%70roducts",
            "/products/x/..",
            "/products.json",
            "/Products.XML/",
            "/products.v2",
            "/products%2Ejson",
            "/products.json;v=1",
            "/products;v=1",
            "/products+",
        ] {
            assert_eq!(products.written(path, None), Written::Collection, "{path}");
        }
        for path in [
            "/",
            "/orders",
            "/products/kettle/reviews",
            "/orders/products/kettle",
            "/productsx/kettle",
            "/productsx",
            "/products.json/kettle",
        ] {
            assert_eq!(products.written(path, None), Written::Other, "{path}");
        }
        assert!(matches!(rule("path:/p/{id}/**").written("/p/7/reviews", None), Written::Keys(_)));
        assert!(matches!(rule("path:/p/{id}/reviews").written("/P/7/Reviews/", None), Written::Keys(_)));
        assert!(matches!(rule("path:/p/{id}/reviews").written("/p/7/reviews.json", None), Written::Keys(_)));
        assert_eq!(rule("path:/p/{id}/reviews").written("/p/7", None), Written::Other);
        assert_eq!(rule("path:/{id}").written("/", None), Written::Collection);
        let lookup = rule("query:/lookup?sku={id}");
        assert!(
            matches!(lookup.written("/Lookup/", Some("x=1&SKU=a+b")), Written::Keys(keys) if keys == ["a+b", "a b"])
        );
        assert_eq!(lookup.written("/lookup", None), Written::Collection);
        assert!(matches!(lookup.written("/lookup.json", Some("sku=7")), Written::Keys(keys) if keys == ["7"]));
        assert_eq!(lookup.written("/lookup/x", Some("sku=7")), Written::Other);
        assert_eq!(lookup.written("/", Some("sku=7")), Written::Other);
        assert_eq!(lookup.written("/products/7", Some("sku=7")), Written::Other);
        assert!(
            matches!(rule("path:/p-{id}").written("/p-7", None), Written::Keys(keys) if keys.contains(&"7".to_owned()))
        );
    }

    /// Every reading of a request counts as its key there, and `ann.lee` is another one than `ann`.
    #[test]
    fn what_is_on_a_deny_list_is_not_cut_at_any_dot() {
        let users = rule("path:/users/{id}");
        assert!(users.every("/users/ann.lee", None).unwrap().iter().all(|text| text == "ann.lee"));
        assert_eq!(every_reading("ann.lee"), ["ann.lee"]);
        assert!(users.every("/users/ann.json", None).is_some_and(|all| all.contains(&"ann".to_owned())));
    }

    #[test]
    fn locations_lead_to_keys() {
        let products = rule("path:/products/{id}");
        for location in [
            "/products/7",
            "http://shop.example/products/7",
            "//shop.example/products/7?x=1",
            "https://h:8/products/7/#a",
        ] {
            assert_eq!(products.located(location), ["7"], "{location}");
        }
        for location in ["", "/", "http://shop.example", "/jobs/7", "/products", "products/7x/y"] {
            assert!(products.located(location).is_empty(), "{location}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_with_what_is_one() {
        for text in [
            "",
            "path",
            "path:products/{id}",
            "path:/products",
            "path:/products/{id",
            "path:/{a}/{b}",
            "path:/p/{id}?x",
            "path:/p/../{id}",
            "path:/p/{id}/",
            "path:/p//{id}",
            "path:/p%20/{id}",
            "header:X-Key",
            "query:/p/{id}",
            "query:/p?a=1&b={id}",
            "query:/p?a={id}/**",
            "body:/x/{id}",
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains("path:/products/{id}"), "{text}: {error}");
        }
    }
}
