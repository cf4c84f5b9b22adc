//! Writing replies byte by byte: what both protocols look like on the wire, in functions small enough to inline.
//!
//! The hot path writes with these straight into the connection's buffer, without a [`Reply`](crate::Reply) in between.

use crate::reply::Protocol;

/// The most bytes of an error's text.
pub const MAX_ERROR: usize = 512;

/// `+OK`.
#[inline]
pub fn ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"+OK\r\n");
}

/// `:n`.
#[inline]
pub fn int(out: &mut Vec<u8>, value: i64) {
    match value {
        0 => out.extend_from_slice(b":0\r\n"),
        1 => out.extend_from_slice(b":1\r\n"),
        _ => {
            out.push(b':');
            digits(out, value);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// A yes or no: `:1` or `:0` in RESP2, `#t` or `#f` in RESP3.
#[inline]
pub fn bool(out: &mut Vec<u8>, value: bool, protocol: Protocol) {
    let wire: &[u8; 4] = match (protocol, value) {
        (Protocol::Resp2, true) => b":1\r\n",
        (Protocol::Resp2, false) => b":0\r\n",
        (Protocol::Resp3, true) => b"#t\r\n",
        (Protocol::Resp3, false) => b"#f\r\n",
    };
    out.extend_from_slice(wire);
}

/// Whether `CF.INSERT` stored an item: `:1` or `:-1` in RESP2, `#t` or `#f` in RESP3.
#[inline]
pub fn stored(out: &mut Vec<u8>, value: bool, protocol: Protocol) {
    match (protocol, value) {
        (Protocol::Resp2, false) => out.extend_from_slice(b":-1\r\n"),
        _ => bool(out, value, protocol),
    }
}

/// A number with a fraction: a bulk string in RESP2, `,` in RESP3.
pub fn double(out: &mut Vec<u8>, value: f64, protocol: Protocol) {
    let text = if value.is_nan() {
        "nan".to_string()
    } else if value.is_infinite() {
        if value > 0.0 { "inf".to_string() } else { "-inf".to_string() }
    } else if value != 0.0 && !(1e-5..1e17).contains(&value.abs()) {
        format!("{value:e}")
    } else {
        format!("{value}")
    };
    match protocol {
        Protocol::Resp2 => bulk(out, text.as_bytes()),
        Protocol::Resp3 => line(out, b',', text.as_bytes()),
    }
}

/// The start of an array of `n` replies.
#[inline]
pub fn array_header(out: &mut Vec<u8>, n: usize) {
    header(out, b'*', n);
}

/// The start of a map of `n` pairs: an array of twice as many in RESP2.
#[inline]
pub fn map_header(out: &mut Vec<u8>, n: usize, protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => header(out, b'*', n.saturating_mul(2)),
        Protocol::Resp3 => header(out, b'%', n),
    }
}

/// The start of a set of `n` replies: an array in RESP2.
#[inline]
pub fn set_header(out: &mut Vec<u8>, n: usize, protocol: Protocol) {
    header(out, if protocol == Protocol::Resp3 { b'~' } else { b'*' }, n);
}

/// Any bytes, with their length.
#[inline]
pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Text for people: a bulk string in RESP2, verbatim text in RESP3.
pub fn verbatim(out: &mut Vec<u8>, text: &str, protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => bulk(out, text.as_bytes()),
        Protocol::Resp3 => {
            header(out, b'=', text.len() + 4);
            out.extend_from_slice(b"txt:");
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// A short line of text; control characters would break the line, so they are escaped.
#[inline]
pub fn simple(out: &mut Vec<u8>, text: &str) {
    out.push(b'+');
    escaped(out, text, usize::MAX);
    out.extend_from_slice(b"\r\n");
}

/// An error: its whole line without the `-`, escaped and cut to [`MAX_ERROR`] bytes.
#[inline]
pub fn error(out: &mut Vec<u8>, text: &str) {
    out.push(b'-');
    escaped(out, text, MAX_ERROR);
    out.extend_from_slice(b"\r\n");
}

/// Nothing: `$-1` in RESP2, `_` in RESP3.
#[inline]
pub fn nil(out: &mut Vec<u8>, protocol: Protocol) {
    out.extend_from_slice(if protocol == Protocol::Resp3 { b"_\r\n" } else { b"$-1\r\n" });
}

/// Nothing where an array would be: `*-1` in RESP2, `_` in RESP3.
#[inline]
pub fn nil_array(out: &mut Vec<u8>, protocol: Protocol) {
    out.extend_from_slice(if protocol == Protocol::Resp3 { b"_\r\n" } else { b"*-1\r\n" });
}

#[inline]
fn header(out: &mut Vec<u8>, kind: u8, n: usize) {
    out.push(kind);
    digits(out, i64::try_from(n).unwrap_or(i64::MAX));
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// A number in decimal digits, without the detour over `fmt`.
#[inline]
fn digits(out: &mut Vec<u8>, value: i64) {
    let mut buffer = [0u8; 20];
    let mut at = buffer.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    out.extend_from_slice(&buffer[at..]);
}

/// One line of text within `most` bytes: `\r`, `\n` and the other control characters become escapes.
fn escaped(out: &mut Vec<u8>, text: &str, most: usize) {
    if text.len() <= most && !text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let end = out.len().saturating_add(most);
    for character in text.chars() {
        let mut buffer = [0u8; 4];
        let escape;
        let wire: &[u8] = match character {
            '\r' => b"\\r",
            '\n' => b"\\n",
            '\t' => b"\\t",
            '\0'..='\x1f' | '\x7f' => {
                let byte = character as usize;
                escape = [b'\\', b'x', HEX[byte >> 4], HEX[byte & 15]];
                &escape
            }
            _ => character.encode_utf8(&mut buffer).as_bytes(),
        };
        if out.len() + wire.len() > end {
            break;
        }
        out.extend_from_slice(wire);
    }
}
