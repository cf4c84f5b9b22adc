//! Keys in paths: percent-decoded to bytes, which must be UTF-8. What is no key is refused, never guessed at.

use std::borrow::Cow;

use axum::http::StatusCode;
use bloomgate_http::problem::Problem;

/// The type of every problem with a key.
pub(super) fn bad_key(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad-key", "This is no key of the table", detail)
}

/// `/v1/TABLE/` with everything percent-encoded that must be.
pub(super) fn encoded_prefix(table: &str) -> String {
    format!("/v1/{}/", encoded(table))
}

/// Unreserved letters of RFC 3986 as they are, everything else percent-encoded.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The key that stands at the end of a path.
pub(super) fn key(rest: &str) -> Result<Cow<'_, str>, Problem> {
    if rest.contains('/') {
        return Err(bad_key("the key holds a bare slash: write it as %2F"));
    }
    decoded(rest).ok_or_else(|| {
        bad_key(
            "the key is not percent-encoded UTF-8: write every other byte than a-z A-Z 0-9 - . _ ~ as % and two digits",
        )
    })
}

/// Without its percent signs; `None` where one is not followed by two hexadecimal digits, or no UTF-8 comes out.
pub(super) fn decoded(text: &str) -> Option<Cow<'_, str>> {
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

    #[test]
    fn keys_are_decoded_once_and_exactly() {
        for (path, means) in [
            ("", Some("")),
            ("abc-123_~.", Some("abc-123_~.")),
            ("a%20b+c", Some("a b+c")),
            ("a%2Fb%2fc", Some("a/b/c")),
            ("%2541", Some("%41")),
            ("%C3%A9%00", Some("é\0")),
            ("a/b", None),
            ("%", None),
            ("%4", None),
            ("%4g", None),
            ("%+1", None),
            ("%FF", None),
            ("%C3", None),
        ] {
            assert_eq!(key(path).ok().as_deref(), means, "{path}");
        }
        for text in ["", "a/b", "100 %", "é", "~.-_", "\u{1F600}"] {
            assert_eq!(decoded(&encoded(text)).as_deref(), Some(text));
        }
        assert_eq!(encoded_prefix("my table"), "/v1/my%20table/");
    }
}
