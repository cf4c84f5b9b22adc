//! Paths: cut at their slashes, then percent-decoded to bytes, so that a name may hold anything.

use bloomgate_http::problem::Problem;

/// Unreserved letters of RFC 3986 as they are, everything else percent-encoded.
pub(super) fn encoded(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            // Writing to a string does not fail.
            other => _ = write!(out, "%{other:02X}"),
        }
    }
    // Clients take these two for steps in a path and leave them out.
    match &*out {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => out,
    }
}

/// The bytes of a part of a path or a query.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).map(|digit| digit as u8);
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => {
                    return Err(Problem::bad_request(
                        "a % in the address is not followed by two hexadecimal digits: write a % itself as %25",
                    ));
                }
            },
            other => other,
        });
    }
    Ok(bytes)
}

/// What a path means as one of the forms of the table (`/v1/filters/{name}`): the parts that stand for names, still encoded.
pub(super) fn matched<'p>(form: &str, path: &'p str) -> Option<Vec<&'p str>> {
    let (mut wanted, mut given) = (form.split('/'), path.split('/'));
    let mut parts = Vec::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(parts),
            (Some(wanted), Some(given)) if wanted.starts_with('{') => parts.push(given),
            (Some(wanted), Some(given)) if wanted == given => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        for name in [&b""[..], b"a/b", b"100 %", b"\xff\0", b"~.-_", "é:x".as_bytes(), b".", b"..", b"..."] {
            assert_eq!(decoded(&encoded(name)).unwrap(), name);
            assert!(!encoded(name).contains('/') && encoded(name) != "..");
        }
        for wrong in ["%", "%4", "%4g", "%+1", "a%"] {
            assert_eq!(decoded(wrong).unwrap_err().status(), 400, "{wrong}");
        }
    }

    #[test]
    fn forms_match_whole_paths() {
        let form = "/v1/filters/{name}/keys/{key}";
        assert_eq!(matched(form, "/v1/filters/a/keys/b%2Fc"), Some(vec!["a", "b%2Fc"]));
        assert_eq!(matched(form, "/v1/filters/a/keys/"), Some(vec!["a", ""]));
        for other in ["/v1/filters/a/keys", "/v1/filters/a/keys/b/c", "/v1/filters/a", "/v2/filters/a/keys/b"] {
            assert_eq!(matched(form, other), None, "{other}");
        }
    }
}
