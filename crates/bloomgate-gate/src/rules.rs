//! Where the key is in a request: `path:/products/{id}`, `path:/products/{id}/reviews`, `path:/products/{id}/**`,
//! `query:/lookup?sku={id}`.
//!
//! What stands behind reads the same request with code of its own, and perhaps otherwise: it may fold `//`, resolve
//! `..`, cut `;parameters` off, decode twice, take `+` for a space or `.json` for a format. So there are two ways to read:
//!
//! - **To look up**, strictly: a key is read only where every reader gets the same one. Everything else is *unsure*, and
//!   passes: a "no" to a key that was meant otherwise would be wrong.
//! - **To write**, loosely: every key that any reader may get goes into the filter. One too many costs a lookup, one too few
//!   a wrong "no".

use std::borrow::Cow;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::key::LONGEST;

/// Endings that frameworks cut off a path as the format of the answer.
const FORMATS: [&str; 14] =
    ["json", "xml", "html", "htm", "csv", "txt", "text", "yaml", "yml", "js", "rss", "atom", "pdf", "ics"];

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
        let (before, ending, after, deep) = match &self.place {
            Place::Path { before, ending, after, deep } => (before, ending, after, deep),
            Place::Query { path: fixed, name } => return written_in_query(fixed, name, path, query),
        };
        // Both sides as the most tolerant reader takes them; the key's own letters are looked at afterwards.
        let (fixed, own_beginning) = before.rsplit_once('/').unwrap_or(("", before));
        let fixed: Vec<String> = segments(fixed).map(tolerant).collect();
        let asked = resolved(path);
        let mut rest = asked.iter();
        for wanted in &fixed {
            match rest.next() {
                Some(segment) if tolerant(segment) == *wanted => {}
                _ => return Written::Other,
            }
        }
        let Some(segment) = rest.next() else { return Written::Collection };
        let mut below = rest.map(|segment| tolerant(segment));
        let mut wanted = segments(after).map(tolerant);
        loop {
            match (wanted.next(), below.next()) {
                (None, None) => break,
                (None, Some(_)) if *deep => break,
                (Some(wanted), Some(below)) if wanted == below => {}
                _ => return Written::Other,
            }
        }
        Written::Keys(readings(segment, own_beginning, ending))
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
fn written_in_query(fixed: &str, name: &str, path: &str, query: Option<&str>) -> Written {
    let wanted = segments(fixed).map(tolerant);
    let asked = resolved(path);
    if !asked.iter().map(|segment| tolerant(segment)).eq(wanted) {
        return Written::Other;
    }
    let mut keys = Vec::new();
    for parameter in query.unwrap_or_default().split(['&', ';']) {
        let (this, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if tolerant(this).trim_end_matches("[]") == name.to_lowercase() {
            keys.extend(readings(value, "", ""));
        }
    }
    if keys.is_empty() { Written::Collection } else { Written::Keys(keys) }
}

/// A key as it is written in one segment of a path, if all readers get the same one.
#[must_use]
pub fn segment(written: &str) -> Reading<'_> {
    key(written, true)
}

/// A key as it is written in one segment or value, if all readers get the same one. `format`: an ending may be a format.
fn key(written: &str, format: bool) -> Reading<'_> {
    if written.is_empty() || written.len() > 3 * LONGEST || written.contains(['+', ';', '\\', '/']) {
        return Reading::Unsure;
    }
    let Some(decoded) = decoded(written) else { return Reading::Unsure };
    let odd = |letter: char| matches!(letter, '/' | '\\' | '%' | ';' | '+') || letter.is_control();
    let is_format = |text: &str| {
        text.rsplit_once('.').is_some_and(|(stem, ending)| {
            !stem.is_empty() && FORMATS.iter().any(|format| ending.eq_ignore_ascii_case(format))
        })
    };
    if decoded.contains(odd) || decoded.trim() != decoded || matches!(&*decoded, "." | "..") {
        return Reading::Unsure;
    }
    if format && is_format(&decoded) {
        return Reading::Unsure;
    }
    let differs = matches!(decoded, Cow::Owned(_));
    Reading::Key(decoded, differs.then_some(written))
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

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

/// The segments of a path after everything was done to it that some reader does: encoded slashes and backslashes separate,
/// empty segments and dots are resolved.
fn resolved(path: &str) -> Vec<String> {
    let mut folded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(letter) = rest.chars().next() {
        let three = rest.get(..3).unwrap_or_default();
        if three.eq_ignore_ascii_case("%2f") || three.eq_ignore_ascii_case("%5c") {
            folded.push('/');
            rest = &rest[3..];
        } else if three.eq_ignore_ascii_case("%2e") {
            folded.push('.');
            rest = &rest[3..];
        } else {
            folded.push(if letter == '\\' { '/' } else { letter });
            rest = &rest[letter.len_utf8()..];
        }
    }
    let mut out: Vec<String> = Vec::new();
    for segment in segments(&folded) {
        match segment.split(';').next().unwrap_or_default() {
            "." => {}
            ".." => _ = out.pop(),
            _ => out.push(segment.to_owned()),
        }
    }
    out
}

/// A fixed segment as the most tolerant reader compares it: decoded, without parameters, in small letters.
fn tolerant(segment: &str) -> String {
    let once = decoded(segment).unwrap_or(Cow::Borrowed(segment));
    let twice = decoded(&once).unwrap_or(Cow::Borrowed(&once)).into_owned();
    twice.split(';').next().unwrap_or_default().trim().to_lowercase()
}

/// Every key that some reader may take a segment for.
fn readings(segment: &str, beginning: &str, ending: &str) -> Vec<String> {
    let mut all: Vec<String> = vec![segment.to_owned()];
    let add = |all: &mut Vec<String>, text: String| {
        if !text.is_empty() && !all.contains(&text) {
            all.push(text);
        }
    };
    // Each step is done to everything that was read so far: the steps may come together.
    type Step = fn(&str) -> Option<String>;
    let steps: [Step; 6] = [
        |text| decoded(text).map(Cow::into_owned),
        |text| decoded(text).map(Cow::into_owned),
        |text| Some(text.split(';').next().unwrap_or_default().to_owned()),
        |text| text.contains('+').then(|| text.replace('+', " ")),
        |text| Some(text.trim().to_owned()),
        |text| {
            let (stem, ending) = text.rsplit_once('.')?;
            FORMATS.iter().any(|format| ending.eq_ignore_ascii_case(format)).then(|| stem.to_owned())
        },
    ];
    for step in steps {
        for at in 0..all.len() {
            if let Some(text) = step(&all[at]) {
                add(&mut all, text);
            }
        }
    }
    for at in 0..all.len() {
        let text = &all[at];
        let inner = text.strip_prefix(beginning).unwrap_or(text);
        let inner = inner.strip_suffix(ending).unwrap_or(inner).to_owned();
        add(&mut all, inner);
    }
    all
}

/// Without its percent signs; `None` where one is not followed by two hexadecimal digits, or no UTF-8 comes out.
fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).map(|digit| digit as u8);
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(rest.next())? << 4 | digit(rest.next())?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
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
            ("/products/v1.2", is("v1.2")),
            ("/products/kettle?x=1", is("kettle")),
            ("/products", other.clone()),
            ("/products/kettle/", other.clone()),
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
            ("/products/a;v=1", unsure.clone()),
            ("/products/a%3Bv", unsure.clone()),
            ("/products/a+b", unsure.clone()),
            ("/products/a%2Bb", unsure.clone()),
            ("/products/kettle.json", unsure.clone()),
            ("/products/kettle.XML", unsure.clone()),
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
            ("/products/%20kettle", "kettle"),
        ] {
            match products.written(path, None) {
                Written::Keys(keys) => assert!(keys.iter().any(|read| read == key), "{path}: {keys:?}"),
                other => panic!("{path}: {other:?}"),
            }
        }
        for path in ["/products", "/products/", "/Products//", "/x/../products", "/%70roducts", "/products/x/.."] {
            assert_eq!(products.written(path, None), Written::Collection, "{path}");
        }
        for path in ["/", "/orders", "/products/kettle/reviews", "/orders/products/kettle", "/productsx/kettle"] {
            assert_eq!(products.written(path, None), Written::Other, "{path}");
        }
        assert!(matches!(rule("path:/p/{id}/**").written("/p/7/reviews", None), Written::Keys(_)));
        assert!(matches!(rule("path:/p/{id}/reviews").written("/P/7/Reviews/", None), Written::Keys(_)));
        assert_eq!(rule("path:/p/{id}/reviews").written("/p/7", None), Written::Other);
        assert_eq!(rule("path:/{id}").written("/", None), Written::Collection);
        let lookup = rule("query:/lookup?sku={id}");
        assert!(
            matches!(lookup.written("/Lookup/", Some("x=1&SKU=a+b")), Written::Keys(keys) if keys == ["a+b", "a b"])
        );
        assert_eq!(lookup.written("/lookup", None), Written::Collection);
        assert_eq!(lookup.written("/products/7", Some("sku=7")), Written::Other);
        assert!(
            matches!(rule("path:/p-{id}").written("/p-7", None), Written::Keys(keys) if keys.contains(&"7".to_owned()))
        );
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
