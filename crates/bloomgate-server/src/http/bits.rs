//! What many keys came to: a bit each, in the form that the client wants.

use std::fmt::Write;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::Value;

use super::keys::Form;
use super::reply;

/// What was answered: a bit a key, and which keys were refused.
#[derive(Debug, Default)]
pub(super) struct Bits {
    words: Vec<u8>,
    pub keys: usize,
    pub ones: usize,
    /// Keys that were refused, with why the first was.
    pub refused: usize,
    pub why: Option<String>,
    /// Which were refused, a bit a key; as far as the last that was.
    not_done: Vec<u8>,
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

    fn push_refused(&mut self) {
        let at = self.keys / 8;
        if self.not_done.len() <= at {
            self.not_done.resize(at + 1, 0);
        }
        self.not_done[at] |= 1 << (self.keys % 8);
        self.refused += 1;
        self.push(false);
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
                [b'#', truth @ (b't' | b'f'), b'\r', b'\n', rest @ ..] => {
                    self.push(*truth == b't');
                    reply = rest;
                }
                [b'-', ..] => {
                    let end = memchr::memchr(b'\r', reply)?;
                    if self.refused == 0 {
                        let line = String::from_utf8_lossy(&reply[1..end]);
                        self.why = Some(line.trim_start_matches("ERR ").to_owned());
                    }
                    self.push_refused();
                    reply = reply.get(end + 2..)?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// What came of a key; nothing if it was refused.
    fn at(&self, at: usize) -> Option<bool> {
        let bit = |words: &[u8]| words.get(at / 8).is_some_and(|word| word >> (at % 8) & 1 == 1);
        (!bit(&self.not_done)).then(|| bit(&self.words))
    }

    /// The answers in a form; `fields` go before them in JSON. A key that was refused is never 0: that one would be in.
    pub(super) fn respond(self, form: Form, fields: &[(&str, Value)]) -> Response<Body> {
        match form {
            Form::Binary if self.refused > 0 => {
                // A bit has no third value.
                let (refused, keys, why) = (self.refused, self.keys, self.why.unwrap_or_default());
                let detail = format!(
                    "{refused} of {keys} keys were refused ({why}), and the others are done: ask for text/plain or application/json \
                     (Accept) to be told which"
                );
                reply::refused(detail).into_response()
            }
            Form::Binary => super::answers::of(StatusCode::OK, "application/octet-stream", self.words),
            Form::Lines => {
                let mut text = Vec::with_capacity(2 * self.keys);
                for at in 0..self.keys {
                    text.extend_from_slice(match self.at(at) {
                        Some(true) => b"1\n",
                        Some(false) => b"0\n",
                        None => b"-\n",
                    });
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
                for at in 0..self.keys {
                    if at > 0 {
                        text.push(',');
                    }
                    text.push_str(match self.at(at) {
                        Some(true) => "true",
                        Some(false) => "false",
                        None => "null",
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
        assert_eq!(text(Form::Lines), "1\n0\n-\n1\n");
        // A bitmap cannot say it: it says so, and how many.
        assert_eq!(take().respond(Form::Binary, &[]).status(), 422);
        let why = String::from_utf8(text(Form::Binary).to_vec()).unwrap();
        assert!(why.contains("1 of 4 keys were refused (the filter is full)"), "{why}");
        let mut plain = Bits::default();
        plain.take(b"*4\r\n#t\r\n#f\r\n#f\r\n#t\r\n", 4).unwrap();
        assert_eq!(plain.respond(Form::Binary, &[]).status(), 200);
        // However many there were before it.
        let mut many = Bits::default();
        (0..1_000_000).for_each(|_| many.push_refused());
        many.push(false);
        assert_eq!((many.at(999_999), many.at(1_000_000), many.refused), (None, Some(false), 1_000_000));
        assert!(Bits::default().take(b"-ERR not found\r\n", 1).is_none());
        assert!(Bits::default().take(b"*2\r\n#t\r\n", 2).is_none());
        assert!(Bits::default().take(b"*1\r\n#0\r\n", 1).is_none(), "that is no \"no\"");
    }
}
