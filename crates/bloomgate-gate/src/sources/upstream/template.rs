//! Where a key's row is: a URL with a place for the key, `http://catalog:8080/products/{key}`.

use hyper::Uri;

use crate::error::{Error, ErrorKind, Result};

/// The place of the key.
const PLACE: &str = "{key}";

/// A URL with a place for a key in its path or its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    before: String,
    after: String,
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// The part of a URL after its host, if it is one that can be asked: `http` or `https`, with a host, without a password.
fn after_host(url: &str) -> Result<usize> {
    let shown = without_secrets(url);
    let host = match url.split_once("://") {
        Some((scheme, _)) if ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {
            scheme.len() + "://".len()
        }
        _ => {
            return Err(invalid(format!(
                "{shown} is no URL of a source: write it like http://host:8080/products/{PLACE}, or https://"
            )));
        }
    };
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |end| host + end);
    if url[host..end].contains('@') {
        return Err(invalid(format!("{shown} has a password in it: give it as a header (authorization) instead")));
    }
    if url.contains('#') {
        return Err(invalid(format!("{shown} has a fragment (#), which is never sent: leave it out")));
    }
    Ok(end)
}

/// A URL for reports: without a query, which may hold a token, and without a password.
pub(super) fn without_secrets(url: &str) -> String {
    let (path, query) = url.split_once('?').map_or((url, ""), |(path, _)| (path, "?…"));
    match path.split_once("://") {
        Some((scheme, rest)) => {
            let host_end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..host_end].rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{}{query}", &rest[host_end..])
        }
        None => format!("{path}{query}"),
    }
}

/// A URL without a place for a key, as that of a list.
pub(super) fn plain(url: &str) -> Result<Uri> {
    after_host(url)?;
    Uri::try_from(url).map_err(|error| invalid(format!("{} is no URL: {error}", without_secrets(url))))
}

impl Template {
    /// Reads a template. The place must be behind the host, so that no key chooses who is asked.
    pub(super) fn new(url: &str) -> Result<Self> {
        let path = after_host(url)?;
        let shown = without_secrets(url);
        let places: Vec<usize> = url.match_indices(PLACE).map(|(at, _)| at).collect();
        let &[place] = &places[..] else {
            return Err(invalid(format!("{shown} has {} places for a key: write {PLACE} once", places.len())));
        };
        if place < path || !url[path..].starts_with('/') {
            return Err(invalid(format!("{shown} has {PLACE} in its host: put it into the path, behind a /")));
        }
        let template = Self { before: url[..place].to_owned(), after: url[place + PLACE.len()..].to_owned() };
        template.fill("a")?;
        Ok(template)
    }

    /// The URL of a key: every byte that is not a letter, a digit or one of `-._~` is written `%XX`, a `/` too.
    ///
    /// Some keys have no URL: as a whole part of a path, nothing and `.` and `..` mean other places, also when encoded.
    pub(super) fn fill(&self, key: &str) -> Result<Uri> {
        if !self.before.contains('?') {
            let begin = self.before.rfind('/').map_or(0, |slash| slash + 1);
            let end = self.after.find(['/', '?']).unwrap_or(self.after.len());
            let part = [&self.before[begin..], key, &self.after[..end]].concat();
            if matches!(part.as_str(), "" | "." | "..") {
                return Err(invalid(format!("the key {key:?} cannot be a part of a path: such a row has no URL")));
            }
        }
        let mut url = String::with_capacity(self.before.len() + 3 * key.len() + self.after.len());
        url.push_str(&self.before);
        for byte in key.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(char::from(byte)),
                other => {
                    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                    url.push('%');
                    url.push(char::from(DIGITS[usize::from(other >> 4)]));
                    url.push(char::from(DIGITS[usize::from(other & 15)]));
                }
            }
        }
        url.push_str(&self.after);
        let shown = || without_secrets(&url);
        Uri::try_from(url.as_str()).map_err(|error| invalid(format!("{} is no URL: {error}", shown())))
    }

    /// The template for reports.
    pub(super) fn shown(&self) -> String {
        without_secrets(&[&self.before, PLACE, &self.after].concat())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(6), failure_persistence: None, ..ProptestConfig::default() })]

        /// No key leaves its place, and none loses a byte.
        #[test]
        fn a_filled_place_reads_back_as_the_key(key in prop_oneof![".{0,40}", "[./%?#&{}a\\r\\n]{0,12}"]) {
            let template = Template::new("http://catalog:8080/products/{key}/row").unwrap();
            let Ok(uri) = template.fill(&key) else {
                prop_assert!(matches!(key.as_str(), "" | "." | ".."));
                return Ok(());
            };
            prop_assert_eq!(uri.authority().unwrap().as_str(), "catalog:8080");
            prop_assert_eq!(uri.query(), None);
            let parts: Vec<&str> = uri.path().split('/').collect();
            prop_assert_eq!((parts.len(), parts[1], parts[3]), (4, "products", "row"));
            let mut bytes = Vec::new();
            let mut rest = parts[2].as_bytes();
            while let [first, after @ ..] = rest {
                if *first == b'%' {
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap());
                    rest = &after[2..];
                } else {
                    bytes.push(*first);
                    rest = after;
                }
            }
            prop_assert_eq!(bytes, key.into_bytes());
        }
    }

    #[test]
    fn a_key_is_one_part_of_the_path_whatever_it_holds() {
        let template = Template::new("http://catalog:8080/products/{key}?full=1").unwrap();
        for (key, path) in [
            ("sku-1", "/products/sku-1?full=1"),
            ("a/b", "/products/a%2Fb?full=1"),
            ("../admin", "/products/..%2Fadmin?full=1"),
            ("a?b#c&d=e", "/products/a%3Fb%23c%26d%3De?full=1"),
            ("50% é\r\n", "/products/50%25%20%C3%A9%0D%0A?full=1"),
            ("...", "/products/...?full=1"),
            ("{key}", "/products/%7Bkey%7D?full=1"),
        ] {
            let uri = template.fill(key).unwrap();
            assert_eq!(uri.path_and_query().unwrap().as_str(), path);
            assert_eq!(uri.authority().unwrap().as_str(), "catalog:8080");
        }
        for key in ["", ".", ".."] {
            assert_eq!(template.fill(key).unwrap_err().kind(), ErrorKind::Invalid, "{key:?}");
        }
        let query = Template::new("http://catalog/find?sku={key}").unwrap();
        assert_eq!(query.fill("..").unwrap().path_and_query().unwrap().as_str(), "/find?sku=..");
        assert_eq!(query.fill("").unwrap().path_and_query().unwrap().as_str(), "/find?sku=");
        let inside = Template::new("http://catalog/p/{key}.json").unwrap();
        assert_eq!(inside.fill("..").unwrap().path(), "/p/...json");
    }

    #[test]
    fn what_cannot_be_asked_is_refused_and_no_secret_is_shown() {
        for (url, says) in [
            ("ftp://host/{key}", "is no URL"),
            ("{key}", "is no URL"),
            ("https://me:hidden@host/{key}", "as a header"),
            ("https://{key}.host/a", "in its host"),
            ("http://host/products", "0 places"),
            ("http://host/{key}/{key}", "2 places"),
            ("http://{key}.host/a", "in its host"),
            ("http://{key}", "in its host"),
            ("http://host?{key}", "in its host"),
            ("http://me:hidden@host/{key}", "as a header"),
            ("http://host/{key}#part", "fragment"),
            ("http://ho st/{key}", "is no URL"),
        ] {
            let error = Template::new(url).unwrap_err();
            assert!(error.to_string().contains(says), "{url}: {error}");
            assert!(!error.to_string().contains("hidden"));
        }
        assert_eq!(Template::new("http://h/{key}?token=hidden").unwrap().shown(), "http://h/{key}?…");
        assert_eq!(without_secrets("http://me:hidden@host:1/a?b=hidden"), "http://host:1/a?…");
        assert!(plain("http://host/keys?x=1").is_ok() && plain("https://host/keys").is_ok());
        assert!(plain("ftp://host/keys").is_err() && Template::new("https://host/p/{key}").is_ok());
    }
}
