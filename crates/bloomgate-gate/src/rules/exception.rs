//! Paths that are no keys, though they stand where keys do: `/products/search` beside `/products/{id}`. Lookups there pass.

use std::str::FromStr;

use super::spelling::{is_fixed, resolved, segments};
use crate::error::{Error, ErrorKind, Result};

/// A path at which lookups pass, whatever the rules say of it: `/products/search`, or `/products/admin/**` with everything
/// below it. Read tolerantly: what some service may take for it, as `/Products/Search.json`, passes too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    path: String,
    /// Whether everything below it passes as well.
    deep: bool,
}

impl FromStr for Exception {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (path, deep) = match text.strip_suffix("/**") {
            Some(path) => (path, true),
            None => (text, false),
        };
        let is_path = path.starts_with('/') && path.len() > 1 && !path.contains("//");
        let is_plain = !path.contains(['{', '}', '*', '?', '%', '#', ';', '\\', '+', ' ']);
        let has_dots = segments(path).any(|segment| matches!(segment, "." | ".."));
        if !is_path || !is_plain || has_dots {
            let message = format!(
                "{text:?} is no path that passes: write it as it is asked for, /products/search, or /products/admin/** with \
                 everything below"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Self { path: path.to_owned(), deep })
    }
}

impl std::fmt::Display for Exception {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}{}", self.path, if self.deep { "/**" } else { "" })
    }
}

impl Exception {
    /// Whether every reader takes a path for this one.
    #[must_use]
    pub fn is_at(&self, path: &str) -> bool {
        match path.strip_prefix(self.path.as_str()) {
            Some("") => true,
            Some(below) => self.deep && below.starts_with('/') && !super::is_odd(below),
            None => false,
        }
    }

    /// Whether some reader may take a path for this one.
    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        let asked = resolved(path);
        let mut rest = asked.iter().enumerate();
        let last = asked.len().wrapping_sub(1);
        let is_there = |wanted: &str| rest.next().is_some_and(|(at, segment)| is_fixed(segment, wanted, at == last));
        segments(&self.path).all(is_there) && (self.deep || rest.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(exception: &str, path: &str) -> bool {
        exception.parse::<Exception>().unwrap().covers(path)
    }

    #[test]
    fn a_path_passes_in_every_spelling() {
        for path in [
            "/products/search",
            "/products/search/",
            "/Products/Search",
            "/products/search.json",
            "/products/search;v=1",
            "/products/%73earch",
            "//products/./search",
        ] {
            assert!(covers("/products/search", path), "{path}");
            assert!(covers("/products/search/**", path), "{path}");
        }
        for path in ["/products", "/products/searches", "/products/kettle", "/search", "/products.json/search"] {
            assert!(!covers("/products/search", path), "{path}");
            assert!(!covers("/products/search/**", path), "{path}");
        }
        assert!(!covers("/products/search", "/products/search/all"));
        assert!(covers("/products/search/**", "/products/search/all/of/it.json"));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", "/", "/**", "search", "/p/{id}", "/p/*", "/p?x", "/p//q", "/p/../q", "/p%20"] {
            assert!(text.parse::<Exception>().unwrap_err().to_string().contains("/products/search"), "{text}");
        }
        assert_eq!("/p/admin/**".parse::<Exception>().unwrap().to_string(), "/p/admin/**");
    }
}
