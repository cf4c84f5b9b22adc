//! What many keys came to: a bit each, in the form that the client wants.

use std::fmt::Write;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::Value;

use super::keys::{Form, MOST_JSON_KEYS};

/// What was answered: a bit a key, and which keys were refused.
#[derive(Debug, Default)]
pub(super) struct Bits {
    words: Vec<u8>,
    pub keys: usize,
    pub ones: usize,
    /// Keys that were refused, with why the first was.
    pub refused: usize,
    pub why: Option<String>,
    /// Which, for JSON; the rest has 0 for them.
    nulls: Vec<usize>,
}

impl Bits {
    #[inline]
    fn push(&mut self, bit: bool) {
        if self.keys.is_multiple_of(8) {
            self.words.push(0);
        }
        if let Some(last) = self.words.last_mut() {
            *last |= u8::from(bit) << (self.keys % 8);
        }
        self.keys += 1;
        self.ones += usize::from(bit);
    }

    /// Takes the reply to a command: an array of truths, with errors among them. Nothing if it is none: then it is an error of
    /// the whole command.
    pub(super) fn take(&mut self, mut reply: &[u8], keys: usize) -> Option<()> {
        if reply.first() != Some(&b'*') {
            return None;
        }
        reply = &reply[memchr::memchr(b'\n', reply)? + 1..];
        for _ in 0..keys {
            match reply {
                [b'#', truth, b'\r', b'\n', rest @ ..] => {
                    self.push(*truth == b't');
                    reply = rest;
                }
                [b'-', ..] => {
                    let end = memchr::memchr(b'\r', reply)?;
                    if self.refused == 0 {
                        let line = String::from_utf8_lossy(&reply[1..end]);
                        self.why = Some(line.trim_start_matches("ERR ").to_owned());
                    }
                    if self.nulls.len() < MOST_JSON_KEYS {
                        self.nulls.push(self.keys);
                    }
                    self.refused += 1;
                    self.push(false);
                    reply = reply.get(end + 2..)?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn bit(&self, at: usize) -> bool {
        self.words[at / 8] >> (at % 8) & 1 == 1
    }

    /// The answers in a form; `fields` go before them in JSON.
    pub(super) fn respond(self, form: Form, fields: &[(&str, Value)]) -> Response<Body> {
        match form {
            Form::Binary => super::answers::of(StatusCode::OK, "application/octet-stream", self.words),
            Form::Lines => {
                let mut text = Vec::with_capacity(2 * self.keys);
                for at in 0..self.keys {
                    text.extend_from_slice(if self.bit(at) { b"1\n" } else { b"0\n" });
                }
                super::answers::of(StatusCode::OK, "text/plain; charset=utf-8", text)
            }
            Form::Json => {
                let mut text = String::with_capacity(64 + 6 * self.keys);
                text.push('{');
                for (name, value) in fields {
                    // Writing to a string does not fail.
                    let _ = write!(text, "\"{name}\":{value},");
                }
                text.push_str("\"answers\":[");
                let mut nulls = self.nulls.iter().peekable();
                for at in 0..self.keys {
                    if at > 0 {
                        text.push(',');
                    }
                    text.push_str(match nulls.next_if(|null| **null == at) {
                        Some(_) => "null",
                        None if self.bit(at) => "true",
                        None => "false",
                    });
                }
                text.push_str("]}\n");
                super::answers::of(StatusCode::OK, "application/json", text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_a_bit_each_in_every_form() {
        let take = || {
            let mut bits = Bits::default();
            bits.take(b"*3\r\n#t\r\n#f\r\n-ERR the filter is full\r\n", 3).unwrap();
            bits.take(b"*1\r\n#t\r\n", 1).unwrap();
            bits
        };
        let bits = take();
        assert_eq!((bits.keys, bits.ones, bits.refused, bits.why.as_deref()), (4, 2, 1, Some("the filter is full")));
        let text = |form| {
            let body = take().respond(form, &[("keys", 4.into())]).into_body();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(axum::body::to_bytes(body, 1_000)).unwrap()
        };
        assert_eq!(text(Form::Json), "{\"keys\":4,\"answers\":[true,false,null,true]}\n");
        assert_eq!(text(Form::Lines), "1\n0\n0\n1\n");
        assert_eq!(&text(Form::Binary)[..], [0b1001]);
        assert!(Bits::default().take(b"-ERR not found\r\n", 1).is_none());
        assert!(Bits::default().take(b"*2\r\n#t\r\n", 2).is_none());
    }
}
