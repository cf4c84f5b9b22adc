//! The client that asks what is behind the proxy.

use std::path::Path;
use std::time::Duration;

use hyper::Uri;
use hyper::http::uri::{Authority, Scheme};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::body::ToUpstream;
use crate::dial::{Dial, name, tls};
use crate::error::{Error, ErrorKind, Result};

/// How long a connection that nobody uses is kept. Shorter than most servers keep it (5 s in Node.js and uvicorn): a write
/// that meets a connection which is just being closed cannot be sent again.
const KEPT: Duration = Duration::from_secs(4);
/// How many are kept.
const MOST_KEPT: usize = 1024;

/// The clients that ask what is behind the proxy.
pub(super) type Asking = Client<Dial, ToUpstream>;

/// Where it is: its scheme and its authority.
pub(super) fn parse(url: &str) -> Result<(Scheme, Authority)> {
    let how = "write it like http://catalog:8080 or https://catalog.example";
    // Not repeated whole: it may hold a password.
    let refused = |why: &str| Error::new(ErrorKind::Invalid, format!("the upstream {why}: {how}"));
    let uri = Uri::try_from(url).map_err(|error| refused(&format!("is no URL ({error})")))?;
    let scheme = match uri.scheme_str() {
        Some("http") => Scheme::HTTP,
        Some("https") => Scheme::HTTPS,
        _ => return Err(refused("is neither http nor https")),
    };
    let authority = uri.authority().cloned().ok_or_else(|| refused("names no host"))?;
    if authority.as_str().contains('@') {
        return Err(refused("has a user's name in it, which is never sent"));
    }
    if !matches!(uri.path_and_query().map_or("", |path| path.as_str()), "" | "/") {
        return Err(refused("has a path, and paths are passed on as they are: leave it out"));
    }
    Ok((scheme, authority))
}

/// The client for it.
pub(super) fn client(scheme: &Scheme, authority: &Authority, ca: Option<&Path>, patience: Duration) -> Result<Asking> {
    let tls = match (*scheme == Scheme::HTTPS, ca) {
        (true, ca) => {
            name(authority.host())?;
            Some(tls(ca, "upstream-ca")?)
        }
        (false, None) => None,
        (false, Some(_)) => {
            let message = "authorities are given, and the upstream is http: nothing is checked there; write https://";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    };
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(KEPT).pool_max_idle_per_host(MOST_KEPT).set_host(false);
    Ok(builder.build(Dial::new(tls, patience)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_scheme_and_a_host() {
        for url in ["http://catalog:8080", "http://catalog:8080/", "https://catalog.example", "http://[::1]:8080"] {
            assert!(parse(url).is_ok(), "{url}");
        }
        for (url, says) in [
            ("catalog:8080", "neither http nor https"),
            ("ftp://catalog", "neither http nor https"),
            ("http://me:secret@catalog", "user's name"),
            ("http://catalog/base", "paths are passed on"),
            ("http://catalog?x=1", "paths are passed on"),
            ("http://", "no URL"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
