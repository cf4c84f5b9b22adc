//! Headers on their way through: what belongs to one connection stays behind (RFC 9110, 7.6.1), and what is behind the
//! proxy is told who asked.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use bytes::{BufMut, BytesMut};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Uri, Version};

use crate::error::{Error, ErrorKind};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// How what is behind the proxy is told who asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// `X-Forwarded-For` is appended to; `-Proto` and `-Host` are set unless somebody before has set them. For a proxy
    /// behind others.
    #[default]
    Append,
    /// All three are set, whatever the client sent. For a proxy that clients reach directly.
    Replace,
    /// `Forwarded` (RFC 7239) is appended to.
    Standard,
    /// Nothing is touched.
    Keep,
}

impl FromStr for Forwarding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "append" => Ok(Self::Append),
            "replace" => Ok(Self::Replace),
            "standard" => Ok(Self::Standard),
            "keep" => Ok(Self::Keep),
            other => Err(Error::new(
                ErrorKind::Invalid,
                format!("{other:?} is no way to tell who asked: write append, replace, standard or keep"),
            )),
        }
    }
}

/// Which `Host` is sent on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Host {
    /// The client's.
    #[default]
    Keep,
    /// This one.
    Set(HeaderValue),
}

/// Who asked: made once for a connection.
#[derive(Clone, Debug)]
pub(super) struct Client {
    address: HeaderValue,
    /// As `Forwarded` writes it.
    node: String,
    scheme: &'static str,
}

impl Client {
    pub fn new(address: SocketAddr, secure: bool) -> Self {
        let ip = address.ip().to_canonical();
        let shown = ip.to_string();
        Self {
            node: if matches!(ip, IpAddr::V6(_)) { format!("\"[{shown}]\"") } else { shown.clone() },
            // An address is plain ASCII.
            address: HeaderValue::try_from(shown).unwrap_or(HeaderValue::from_static("unknown")),
            scheme: if secure { "https" } else { "http" },
        }
    }
}

/// Whether a request asks to leave HTTP for WebSocket. Other protocols are not passed: within them, writes would go past the
/// gate (`h2c` above all); a server may always ignore the wish (RFC 9110, 7.8).
pub(super) fn wants_websocket(version: Version, headers: &HeaderMap) -> bool {
    let named = |value: &HeaderValue| tokens(value).any(|token| token.eq_ignore_ascii_case("upgrade"));
    version == Version::HTTP_11
        && headers.get(UPGRADE).is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && headers.get_all(CONNECTION).iter().any(named)
}

fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim).filter(|token| !token.is_empty())
}

/// Takes off what belongs to the connection a message came by.
pub(super) fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        // Named ones first. Most connections name themselves alone.
        let mut named: Vec<HeaderName> = Vec::new();
        for value in headers.get_all(CONNECTION) {
            let other =
                |token: &&str| !token.eq_ignore_ascii_case("keep-alive") && !token.eq_ignore_ascii_case("close");
            named.extend(tokens(value).filter(other).filter_map(|token| HeaderName::try_from(token).ok()));
        }
        for name in named {
            // What frames the message, and whom it is for, no client can take away from it.
            if !matches!(name, HOST | CONTENT_LENGTH | TRANSFER_ENCODING) {
                headers.remove(name);
            }
        }
        headers.remove(CONNECTION);
    }
    for name in [KEEP_ALIVE, PROXY_CONNECTION, TE, UPGRADE] {
        headers.remove(name);
    }
}

/// Whether a header is about one connection, or about how a body is framed on it.
fn is_of_a_connection(name: &HeaderName) -> bool {
    const ALL: [HeaderName; 9] = [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        TE,
        UPGRADE,
        PROXY_AUTHORIZATION,
        PROXY_AUTHENTICATE,
        EXPECT,
        TRANSFER_ENCODING,
    ];
    ALL.contains(name)
}

/// Makes a client's head one that is sent on: HTTP/1.1 to where it goes. `has_body`: more than nothing follows.
pub(super) fn onward(
    head: &mut Parts,
    client: &Client,
    to: &Onward,
    has_body: bool,
    websocket: bool,
) -> Result<(), &'static str> {
    let headers = &mut head.headers;
    // One look at the few names that are there, instead of a dozen of those that mostly are not.
    if headers.keys().any(is_of_a_connection) {
        let named = |te: &HeaderValue| tokens(te).any(|token| token.eq_ignore_ascii_case("trailers"));
        let trailers = headers.get_all(TE).iter().any(named);
        strip(headers);
        headers.remove(PROXY_AUTHORIZATION);
        // Answered here, by the first read of the body: hyper sends it on at once in any case.
        headers.remove(EXPECT);
        if !has_body {
            headers.remove(TRANSFER_ENCODING);
        }
        if trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
            headers.insert(CONNECTION, HeaderValue::from_static("te"));
        }
    }
    if websocket {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    if has_body && !headers.contains_key(CONTENT_LENGTH) {
        // Said by ourselves: of a GET hyper would believe that nothing follows.
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if head.version == Version::HTTP_2 {
        join_cookies(headers);
    }
    // The target says it best: `:authority`, or the whole address in the first line (RFC 9112, 3.2.2).
    if let Some(authority) = head.uri.authority() {
        let named = HeaderValue::try_from(host_of(authority)).map_err(|_| "its target names no host")?;
        if head.version == Version::HTTP_2 && headers.get(HOST).is_some_and(|host| host != named) {
            return Err("its :authority and its host differ");
        }
        headers.insert(HOST, named);
    }
    tell(headers, client, to.forwarding);
    if let Host::Set(host) = &to.host {
        headers.insert(HOST, host.clone());
    } else if !headers.contains_key(HOST) {
        // HTTP/1.0 needs none, HTTP/1.1 does.
        headers.insert(HOST, to.authority_value.clone());
    }
    head.version = Version::HTTP_11;
    head.uri = to.uri(&head.uri)?;
    Ok(())
}

/// Without a user's name, which nobody has to know.
fn host_of(authority: &Authority) -> &str {
    let whole = authority.as_str();
    whole.rsplit_once('@').map_or(whole, |(_, host)| host)
}

/// HTTP/2 splits cookies into several lines; HTTP/1.1 has one (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let mut joined = BytesMut::new();
    for cookie in headers.get_all(COOKIE) {
        if !joined.is_empty() {
            joined.put_slice(b"; ");
        }
        joined.put_slice(cookie.as_bytes());
    }
    if let Ok(joined) = HeaderValue::from_maybe_shared(joined.freeze()) {
        headers.insert(COOKIE, joined);
    }
}

/// Tells who asked, by what name.
fn tell(headers: &mut HeaderMap, client: &Client, how: Forwarding) {
    match how {
        Forwarding::Keep => {}
        Forwarding::Append | Forwarding::Replace => {
            let replace = how == Forwarding::Replace;
            let before = if replace { None } else { joined(headers, &FORWARDED_FOR) };
            let told = match before {
                Some(before) => appended(&before, client.address.as_bytes()),
                None => Some(client.address.clone()),
            };
            if let Some(told) = told {
                headers.insert(FORWARDED_FOR, told);
            }
            if replace || !headers.contains_key(FORWARDED_PROTO) {
                headers.insert(FORWARDED_PROTO, HeaderValue::from_static(client.scheme));
            }
            if let Some(host) = headers.get(HOST).cloned()
                && (replace || !headers.contains_key(FORWARDED_HOST))
            {
                headers.insert(FORWARDED_HOST, host);
            }
        }
        Forwarding::Standard => {
            let mut element = format!("for={};proto={}", client.node, client.scheme);
            if let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) {
                element.push_str(&format!(";host=\"{}\"", host.replace(['"', '\\'], "")));
            }
            let told = match joined(headers, &FORWARDED) {
                Some(before) => appended(&before, element.as_bytes()),
                None => HeaderValue::try_from(element).ok(),
            };
            if let Some(told) = told {
                headers.insert(FORWARDED, told);
            }
        }
    }
}

/// The values of a header in one.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<HeaderValue> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.clone();
    all.try_fold(first, |before, value| appended(&before, value.as_bytes()))
}

fn appended(before: &HeaderValue, more: &[u8]) -> Option<HeaderValue> {
    let mut whole = BytesMut::with_capacity(before.len() + 2 + more.len());
    whole.put_slice(before.as_bytes());
    whole.put_slice(b", ");
    whole.put_slice(more);
    HeaderValue::from_maybe_shared(whole.freeze()).ok()
}

/// Makes the head of an answer one that is sent back.
pub(super) fn back(headers: &mut HeaderMap) {
    if headers.keys().any(is_of_a_connection) {
        strip(headers);
        headers.remove(TRANSFER_ENCODING);
        headers.remove(PROXY_AUTHENTICATE);
    }
}

/// Where requests go, and how they are told who asked.
#[derive(Clone, Debug)]
pub(super) struct Onward {
    pub scheme: hyper::http::uri::Scheme,
    pub authority: Authority,
    pub authority_value: HeaderValue,
    pub host: Host,
    pub forwarding: Forwarding,
}

impl Onward {
    /// The same path and query there.
    fn uri(&self, asked: &Uri) -> Result<Uri, &'static str> {
        let mut parts = hyper::http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query =
            Some(asked.path_and_query().cloned().unwrap_or_else(|| hyper::http::uri::PathAndQuery::from_static("/")));
        Uri::from_parts(parts).map_err(|_| "its target is none that can be asked for")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn to(forwarding: Forwarding, host: Host) -> Onward {
        Onward {
            scheme: hyper::http::uri::Scheme::HTTP,
            authority: Authority::from_static("catalog:8080"),
            authority_value: HeaderValue::from_static("catalog:8080"),
            host,
            forwarding,
        }
    }

    fn sent(request: hyper::http::request::Builder, to: &Onward, has_body: bool) -> Result<Parts, &'static str> {
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        let client = Client::new("192.0.2.7:999".parse().unwrap(), true);
        let websocket = wants_websocket(head.version, &head.headers);
        onward(&mut head, &client, to, has_body, websocket).map(|()| head)
    }

    fn value<'a>(head: &'a Parts, name: &str) -> Option<&'a str> {
        head.headers.get(name).map(|value| value.to_str().unwrap())
    }

    #[test]
    fn what_belongs_to_a_connection_stays_behind() {
        let request = Request::get("/a?b")
            .header("host", "shop.example")
            .header("connection", "close, X-Hop, host, content-length")
            .header("keep-alive", "timeout=5")
            .header("proxy-connection", "keep-alive")
            .header("proxy-authorization", "secret")
            .header("te", "trailers, deflate")
            .header("upgrade", "h2c")
            .header("expect", "100-continue")
            .header("x-hop", "1")
            .header("x-end", "2");
        let head = sent(request, &to(Forwarding::Keep, Host::Keep), false).unwrap();
        let names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
        for gone in ["keep-alive", "proxy-connection", "proxy-authorization", "upgrade", "expect", "x-hop"] {
            assert!(!names.contains(&gone), "{gone}: {names:?}");
        }
        assert_eq!((value(&head, "te"), value(&head, "connection")), (Some("trailers"), Some("te")));
        assert_eq!((value(&head, "x-end"), value(&head, "host")), (Some("2"), Some("shop.example")));
        assert_eq!(head.uri.to_string(), "http://catalog:8080/a?b");
    }

    #[test]
    fn who_asked_is_told_in_the_way_asked_for() {
        let request = || {
            Request::get("/")
                .header("host", "shop.example")
                .header("x-forwarded-for", "203.0.113.1")
                .header("x-forwarded-for", "203.0.113.2")
                .header("x-forwarded-proto", "gopher")
        };
        let head = sent(request(), &to(Forwarding::Append, Host::Keep), false).unwrap();
        assert_eq!(value(&head, "x-forwarded-for"), Some("203.0.113.1, 203.0.113.2, 192.0.2.7"));
        assert_eq!(value(&head, "x-forwarded-proto"), Some("gopher"));
        assert_eq!(value(&head, "x-forwarded-host"), Some("shop.example"));
        let set = Host::Set(HeaderValue::from_static("internal"));
        let head = sent(request(), &to(Forwarding::Replace, set), false).unwrap();
        assert_eq!(value(&head, "x-forwarded-for"), Some("192.0.2.7"));
        assert_eq!(value(&head, "x-forwarded-proto"), Some("https"));
        assert_eq!((value(&head, "x-forwarded-host"), value(&head, "host")), (Some("shop.example"), Some("internal")));
        let head = sent(request().header("forwarded", "for=a"), &to(Forwarding::Standard, Host::Keep), false).unwrap();
        assert_eq!(value(&head, "forwarded"), Some("for=a, for=192.0.2.7;proto=https;host=\"shop.example\""));
        assert_eq!(Client::new("[2001:db8::1]:5".parse().unwrap(), false).node, "\"[2001:db8::1]\"");
    }

    #[test]
    fn a_body_is_framed_and_cookies_are_one_line() {
        let keep = to(Forwarding::Keep, Host::Keep);
        let head = sent(Request::get("/").header("host", "h"), &keep, true).unwrap();
        assert_eq!(value(&head, "transfer-encoding"), Some("chunked"));
        let head = sent(Request::put("/").header("host", "h").header("content-length", "3"), &keep, true).unwrap();
        assert_eq!((value(&head, "transfer-encoding"), value(&head, "content-length")), (None, Some("3")));
        let second = || Request::get("http://shop.example/x").version(Version::HTTP_2);
        let head = sent(second().header("cookie", "a=1").header("cookie", "b=2"), &keep, false).unwrap();
        assert_eq!((value(&head, "cookie"), value(&head, "host")), (Some("a=1; b=2"), Some("shop.example")));
        assert!(sent(second().header("host", "other.example"), &keep, false).is_err());
        // The target of HTTP/1.1 outweighs its host.
        let whole = Request::get("http://me:secret@shop.example/x").header("host", "other.example");
        assert_eq!(value(&sent(whole, &keep, false).unwrap(), "host"), Some("shop.example"));
    }

    #[test]
    fn only_websocket_leaves_http() {
        let request = |upgrade: &str, connection: &str| {
            let request = Request::get("/").header("host", "h").header("upgrade", upgrade);
            sent(request.header("connection", connection), &to(Forwarding::Keep, Host::Keep), false).unwrap()
        };
        let head = request("WebSocket", "keep-alive, Upgrade");
        assert_eq!((value(&head, "upgrade"), value(&head, "connection")), (Some("websocket"), Some("upgrade")));
        for (upgrade, connection) in [("h2c", "upgrade"), ("websocket", "close"), ("websocket, h2c", "upgrade")] {
            assert_eq!(value(&request(upgrade, connection), "upgrade"), None, "{upgrade}");
        }
    }
}
