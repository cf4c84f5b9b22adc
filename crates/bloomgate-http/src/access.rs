//! Who may do what: bearer tokens with a role each, and for a service without tokens the check that a request was meant
//! for this machine.
//!
//! A service on 127.0.0.1 is reached by every web page that a browser on the machine opens: the page's name is made to
//! point to 127.0.0.1 (DNS rebinding), and the browser takes the answer for the page's own. What gives it away is the name
//! in `Host` and `Origin`, so those are looked at.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use ring::digest::{SHA256, digest};

use crate::error::Error;
use crate::problem::Problem;

/// The shortest token: 16 characters of hexadecimal digits hold 64 random bits.
const SHORTEST: usize = 16;
/// The longest token.
const LONGEST: usize = 512;
/// The most tokens: each request with a token is compared with all of them.
const MOST: usize = 1_000;

/// What a token allows. Each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// To ask.
    Read,
    /// To change rows too.
    Write,
    /// To change the service too.
    Admin,
}

impl Role {
    /// The name in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "admin" => Ok(Self::Admin),
            // Not repeated: who swaps the columns would find the token in the log.
            _ => Err(Error::new("the first word is no role: write read, write or admin")),
        }
    }
}

/// The tokens of a service. Only their SHA-256 is kept, so that no report, log or memory dump can give one away.
#[derive(Clone, Default)]
pub struct Tokens {
    known: Vec<(Role, [u8; 32])>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Tokens({})", self.known.len())
    }
}

impl Tokens {
    /// Reads a file of tokens: see [`parse`](Self::parse).
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::new(format!("the tokens {} cannot be read: {error}", path.display())))?;
        Self::parse(&text).map_err(|error| Error::new(format!("{}: {error}", path.display())))
    }

    /// One token a line: its role, then the token itself or `sha256:` and the 64 hexadecimal digits of its SHA-256. Empty
    /// lines and lines that begin with `#` do not count.
    ///
    /// ```text
    /// # the shop's own service
    /// write  sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    /// read   5c1d1e5e0f6f4c2bb0f4a6d1
    /// ```
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut known = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |why: &dyn fmt::Display| Error::new(format!("line {}: {why}", number + 1));
            let mut words = line.split_whitespace();
            let (Some(role), Some(token), None) = (words.next(), words.next(), words.next()) else {
                return Err(at(&"a line has a role and a token, nothing else: read, write or admin, then the token"));
            };
            let role = role.parse::<Role>().map_err(|error| at(&error))?;
            let sum = match token.strip_prefix("sha256:") {
                Some(digits) => from_hex(digits).ok_or_else(|| at(&"sha256: is followed by 64 hexadecimal digits"))?,
                None if token.len() < SHORTEST => {
                    return Err(at(&format_args!(
                        "the token has {} characters and needs at least {SHORTEST}: make one by `openssl rand -hex 24`",
                        token.len()
                    )));
                }
                None if token.len() > LONGEST => {
                    return Err(at(&format_args!("the token has more than {LONGEST} characters")));
                }
                None => sum_of(token.as_bytes()),
            };
            if known.iter().any(|(_, other)| *other == sum) {
                return Err(at(&"the token stands in the file already: give each client its own"));
            }
            known.push((role, sum));
            if known.len() > MOST {
                return Err(at(&format_args!("there are more than {MOST} tokens")));
            }
        }
        match known.is_empty() {
            true => Err(Error::new("there is no token in it: write a line like `write TOKEN`, or name no file")),
            false => Ok(Self { known }),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether any of them allows this.
    #[must_use]
    pub fn any(&self, role: Role) -> bool {
        self.known.iter().any(|(known, _)| *known >= role)
    }

    /// Lets a request pass whose token has the role, or a higher one.
    pub fn check(&self, headers: &HeaderMap, needed: Role) -> Result<Role, Problem> {
        let Some(value) = headers.get(AUTHORIZATION) else {
            return Err(Problem::unauthorized(format!(
                "this needs a token of the role {needed}: send the header `Authorization: Bearer TOKEN`"
            )));
        };
        let role = bearer(value.as_bytes()).and_then(|token| self.role_of(token));
        match role {
            // One answer for what is no token and for one that is not ours.
            None => Err(Problem::unauthorized(
                "the token is not known here: send the header `Authorization: Bearer TOKEN` with one of the tokens file",
            )),
            Some(role) if role >= needed => Ok(role),
            Some(role) => Err(Problem::forbidden(format!("the token has the role {role}; this needs {needed}"))),
        }
    }

    /// Compares with every token in full: how long it takes says nothing about which one is near.
    fn role_of(&self, token: &[u8]) -> Option<Role> {
        if token.len() < SHORTEST || token.len() > LONGEST {
            return None;
        }
        let sum = sum_of(token);
        let mut found = None;
        for (role, known) in &self.known {
            let difference = known.iter().zip(&sum).fold(0, |all, (a, b)| all | (a ^ b));
            if std::hint::black_box(difference) == 0 {
                found = Some(*role);
            }
        }
        found
    }
}

fn sum_of(token: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, token).as_ref());
    sum
}

fn from_hex(digits: &str) -> Option<[u8; 32]> {
    let digits = digits.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// The token of `Bearer TOKEN`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The names under which a service without tokens may be asked for. Those of this machine always, and those that were
/// named: a proxy in front passes on the name that its clients use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    named: Vec<String>,
}

impl Hosts {
    /// The machine's own names (localhost, 127.0.0.0/8, ::1) and these, without ports.
    pub fn new(named: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { named: named.into_iter().map(|name| name.into().to_ascii_lowercase()).collect() }
    }

    /// Lets a request pass that was meant for one of the names, and if it comes from a web page, for a page of theirs.
    pub fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let host = match (uri.authority(), headers.get(HOST)) {
            (Some(authority), _) => authority.as_str(),
            (None, Some(host)) => host.to_str().unwrap_or_default(),
            (None, None) => "",
        };
        if !self.allows(host) {
            return Err(Problem::forbidden(format!(
                "the request is for the host {:?}, and without tokens only this machine's own names are answered, against \
                 web pages that reach for it: ask for localhost, or name the host in the settings, or set tokens",
                shortened(host)
            )));
        }
        self.check_page(headers)
    }

    /// Lets a request pass that comes from no web page, or from a page of one of the names.
    fn check_page(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let page = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        match page.is_some_and(|page| self.allows(page)) {
            true => Ok(()),
            false => Err(Problem::forbidden(format!(
                "the request comes from the web page {:?}, which is none of this machine's",
                shortened(origin)
            ))),
        }
    }

    /// Lets a request pass that comes from no web page, or from a page of the service itself: a browser sends the login
    /// that it remembers along with whatever any page asks for, and what gives that away is `Origin` or `Sec-Fetch-Site`.
    pub fn check_same_site(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let site = headers.get("sec-fetch-site").map(|site| site.to_str().unwrap_or_default());
        if site.is_some_and(|site| site != "same-origin" && site != "none") {
            return Err(Problem::forbidden(
                "the request comes from a web page of another site, and this service answers its own pages and programs \
                 alone: send it from a program, or from the dashboard",
            ));
        }
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let page = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let host = uri.authority().map(|authority| authority.as_str());
        let host = host.or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok())).unwrap_or_default();
        match page.is_some_and(|page| !page.is_empty() && page.eq_ignore_ascii_case(host)) {
            true => Ok(()),
            false => Err(Problem::forbidden(format!(
                "the request comes from the web page {:?}, which is not of {:?}: send it from a program, or from the dashboard",
                shortened(origin),
                shortened(host)
            ))),
        }
    }

    /// Whether `HOST` or `HOST:PORT` is one of the names.
    fn allows(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
            || self.named.iter().any(|named| named.eq_ignore_ascii_case(name))
    }
}

/// Names from outside as they go into messages.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(100).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const READER: &str = "reader-0123456789";
    const WRITER: &str = "writer-0123456789";

    fn tokens() -> Tokens {
        let sum: String = sum_of(WRITER.as_bytes()).iter().map(|byte| format!("{byte:02X}")).collect();
        Tokens::parse(&format!("# comment\n\n read\t{READER} \nwrite sha256:{sum}\n")).unwrap()
    }

    fn with(name: axum::http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn roles_include_the_lower_ones_and_no_higher() {
        let tokens = tokens();
        let check =
            |value: &str, role| tokens.check(&with(AUTHORIZATION, value), role).map_err(|p| p.status().as_u16());
        assert_eq!(check(&format!("Bearer {READER}"), Role::Read), Ok(Role::Read));
        assert_eq!(check(&format!("bearer  {WRITER}"), Role::Read), Ok(Role::Write));
        assert_eq!(check(&format!("Bearer {WRITER}"), Role::Write), Ok(Role::Write));
        assert_eq!(check(&format!("Bearer {READER}"), Role::Write), Err(403));
        assert_eq!(check(&format!("Bearer {WRITER}"), Role::Admin), Err(403));
        for wrong in [
            &format!("Bearer {READER}x"),
            &format!("Bearer {}", &READER[1..]),
            &format!("Basic {READER}"),
            READER,
            "Bearer",
            "Bearer ",
            "",
        ] {
            assert_eq!(check(wrong, Role::Read), Err(401), "{wrong}");
        }
        assert_eq!(tokens.check(&HeaderMap::new(), Role::Read).unwrap_err().status(), 401);
        assert!(tokens.any(Role::Write) && !tokens.any(Role::Admin));
        assert!(!format!("{tokens:?}").contains("0123"));
    }

    #[test]
    fn a_hash_is_no_token_itself() {
        let sum: String = sum_of(WRITER.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        for stolen in [sum.clone(), format!("sha256:{sum}")] {
            let problem = tokens().check(&with(AUTHORIZATION, &format!("Bearer {stolen}")), Role::Read).unwrap_err();
            assert_eq!(problem.status(), 401);
        }
    }

    #[test]
    fn wrong_files_say_where_and_never_what() {
        for (text, says) in [
            ("", "no token"),
            ("# only\n", "no token"),
            ("read\n", "line 1: a line has a role and a token"),
            ("read abcdefabcdefabcdef more\n", "line 1: a line has a role"),
            ("\nread short-token-1\n", "line 2: the token has 13 characters and needs at least 16"),
            ("abcdefabcdefabcdef read\n", "line 1: the first word is no role"),
            ("read sha256:abcdefabcdefabcdef\n", "line 1: sha256: is followed by 64"),
            ("read abcdefabcdefabcdef\nadmin abcdefabcdefabcdef", "line 2: the token stands in the file already"),
        ] {
            let error = Tokens::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
            assert!(!error.contains("abcdef") && !error.contains("short-token"), "{error}");
        }
        assert!(Tokens::from_file(Path::new("/nowhere/tokens")).unwrap_err().to_string().contains("/nowhere/tokens"));
    }

    #[test]
    fn only_this_machines_names_pass_without_a_login() {
        let hosts = Hosts::new(["shop.example"]);
        let plain = Uri::from_static("/v1/products/1");
        for good in
            ["localhost", "LOCALHOST:8480", "127.0.0.1:8480", "127.8.9.1", "[::1]:8480", "[::1]", "shop.example:80"]
        {
            assert!(hosts.check(&with(HOST, good), &plain).is_ok(), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.1:8480",
            "[::2]",
            "",
            "[",
            ":",
        ] {
            assert_eq!(hosts.check(&with(HOST, bad), &plain).unwrap_err().status(), 403, "{bad}");
        }
        assert!(hosts.check(&HeaderMap::new(), &plain).is_err());
        // HTTP/2 has the name in the address.
        assert!(hosts.check(&HeaderMap::new(), &Uri::from_static("http://localhost:1/v1")).is_ok());
        assert!(hosts.check(&with(HOST, "localhost"), &Uri::from_static("http://evil.example/v1")).is_err());
        for (origin, passes) in [
            ("http://localhost:3000", true),
            ("https://shop.example", true),
            ("http://evil.example", false),
            ("null", false),
            ("file://localhost", false),
        ] {
            let mut headers = with(HOST, "localhost");
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            assert_eq!(hosts.check(&headers, &plain).is_ok(), passes, "{origin}");
        }
    }
}
