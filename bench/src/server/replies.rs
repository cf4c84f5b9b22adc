//! Counts replies as they arrive in pieces: by their known length, or by the rules of RESP2.

use super::traffic::{Reply, Traffic};
use crate::args::Fault;

/// What a piece brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Replies completed by it.
    pub replies: usize,
    /// Answers `:1` in it.
    pub ones: usize,
    /// Whether the pipeline in flight is answered.
    pub whole: bool,
}

/// What one connection still waits for, and what it saw.
pub struct Replies {
    form: Reply,
    commands: usize,
    /// Bytes seen of the replies to the pipeline in flight, where their length is known.
    seen: usize,
    /// Replies to come, where it is not.
    owed: usize,
    /// Refusals so far; with known lengths the first one is the last, since nothing after it can be counted.
    pub errors: u64,
    /// The text of the first refusal.
    pub first_error: Option<String>,
    scan: Scan,
}

impl Replies {
    /// For pipelines of `traffic`.
    pub fn of(traffic: &Traffic) -> Self {
        Self {
            form: traffic.reply.clone(),
            commands: traffic.commands,
            seen: 0,
            owed: 0,
            errors: 0,
            first_error: None,
            scan: Scan::default(),
        }
    }

    /// A pipeline was sent.
    pub fn expect(&mut self) {
        self.seen = 0;
        self.owed = self.commands;
    }

    /// Takes in what was read.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Progress, Fault> {
        match self.form {
            Reply::Bytes { length, array } => {
                if let Some(at) = bytes.iter().position(|&byte| byte == b'-') {
                    let said = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 120)]);
                    return Err(Fault(format!("the server refused: {}", said.lines().next().unwrap_or_default())));
                }
                let (before, now, all) = (self.seen, self.seen + bytes.len(), length * self.commands);
                if now > all {
                    return Err(Fault(format!("{} bytes more than the replies should have", now - all)));
                }
                self.seen = now;
                // The 1 of `*100` is the second byte of each reply, and no answer.
                let heads = |bytes: usize| if array { (bytes + length - 2) / length } else { 0 };
                Ok(Progress {
                    replies: now / length - before / length,
                    ones: count(bytes, b'1') - (heads(now) - heads(before)),
                    whole: now == all,
                })
            }
            Reply::Any => {
                let mut progress = Progress::default();
                self.scan.take(bytes, |event| match event {
                    Event::Whole => progress.replies += 1,
                    Event::One => progress.ones += 1,
                    Event::Refused(text) => {
                        self.errors += 1;
                        self.first_error.get_or_insert_with(|| text.to_string());
                    }
                })?;
                self.owed = self.owed.saturating_sub(progress.replies);
                Ok(Progress { whole: self.owed == 0, ..progress })
            }
        }
    }
}

/// How often `wanted` is in `bytes`; the compiler makes vectors of it as long as the inner counter is a byte.
fn count(bytes: &[u8], wanted: u8) -> usize {
    bytes
        .chunks(255)
        .map(|chunk| usize::from(chunk.iter().fold(0u8, |sum, &byte| sum + u8::from(byte == wanted))))
        .sum()
}

enum Event<'a> {
    /// A reply is complete.
    Whole,
    /// An answer `:1`, alone or in an array.
    One,
    Refused(&'a str),
}

/// RESP2 in pieces: the line begun, the bytes to skip, and the elements still open.
#[derive(Default)]
struct Scan {
    line: Vec<u8>,
    skip: usize,
    /// Elements to come before the reply begun is whole; 0 between replies.
    open: u64,
}

impl Scan {
    fn take(&mut self, mut bytes: &[u8], mut tell: impl FnMut(Event<'_>)) -> Result<(), Fault> {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
                if self.skip == 0 {
                    self.close(&mut tell);
                }
                continue;
            }
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            let (piece, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if self.line.is_empty() {
                self.line_done(piece, &mut tell)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(piece);
                self.line_done(&line, &mut tell)?;
            }
        }
        Ok(())
    }

    fn line_done(&mut self, line: &[u8], tell: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let strange = || Fault(format!("{:?} is no RESP2 reply", String::from_utf8_lossy(line)));
        let (&kind, rest) = line.split_first().ok_or_else(strange)?;
        let number = || std::str::from_utf8(rest).ok().and_then(|text| text.parse::<i64>().ok()).ok_or_else(strange);
        if self.open == 0 {
            self.open = 1;
        }
        match kind {
            b':' => {
                if rest == b"1" {
                    tell(Event::One);
                }
            }
            b'+' => {}
            b'-' => tell(Event::Refused(&String::from_utf8_lossy(rest))),
            b'$' => {
                if let Ok(length) = usize::try_from(number()?) {
                    self.skip = length + 2;
                    return Ok(());
                }
            }
            b'*' => self.open += u64::try_from(number()?).unwrap_or(0),
            _ => return Err(strange()),
        }
        self.close(tell);
        Ok(())
    }

    fn close(&mut self, tell: &mut impl FnMut(Event<'_>)) {
        self.open -= 1;
        if self.open == 0 {
            tell(Event::Whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::{Dialect, by_hand};
    use super::*;

    /// Everything that comes of `stream` in pieces of `size`, the end being reached with the last piece and not before.
    fn in_pieces(replies: &mut Replies, stream: &[u8], size: usize) -> Progress {
        replies.expect();
        let mut all = Progress::default();
        for piece in stream.chunks(size) {
            assert!(!all.whole, "whole too soon in pieces of {size}");
            let next = replies.take(piece).unwrap();
            all = Progress { replies: all.replies + next.replies, ones: all.ones + next.ones, whole: next.whole };
        }
        all
    }

    #[test]
    fn replies_of_any_form_are_counted_in_any_pieces() {
        let stream = b"+OK\r\n:1\r\n$5\r\na\r\n-b\r\n*3\r\n:1\r\n$-1\r\n*1\r\n:0\r\n-ERR no\r\n*0\r\n*-1\r\n:11\r\n";
        for size in 1..=stream.len() {
            let mut replies = Replies::of(&by_hand("X", 8).unwrap());
            let seen = in_pieces(&mut replies, stream, size);
            assert_eq!(seen, Progress { replies: 8, ones: 2, whole: true }, "in pieces of {size}");
            assert_eq!((replies.errors, replies.first_error.as_deref()), (1, Some("ERR no")));
        }
    }

    #[test]
    fn replies_of_known_length_are_counted_by_their_bytes() {
        let one = format!("*100\r\n{}{}", ":1\r\n".repeat(30), ":0\r\n".repeat(70));
        let both = one.repeat(2);
        let mut replies = Replies::of(&Dialect::Filters.exists_many("f", 10, 2));
        for size in 1..=both.len() {
            let seen = in_pieces(&mut replies, both.as_bytes(), size);
            assert_eq!(seen, Progress { replies: 2, ones: 60, whole: true }, "in pieces of {size}");
        }
        replies.expect();
        let half = replies.take(one.as_bytes()).unwrap();
        assert_eq!(half, Progress { replies: 1, ones: 30, whole: false });
        assert!(replies.take(b"-ERR not found\r\n").unwrap_err().0.contains("-ERR not found"));
        let mut ping = Replies::of(&Dialect::Filters.ping(1));
        ping.expect();
        assert!(ping.take(b"+PONG\r\n+PONG\r\n").is_err(), "more than was asked for");
    }

    #[test]
    fn counting_a_byte_survives_long_runs() {
        assert_eq!(count(&[b'1'; 1000], b'1'), 1000);
        assert_eq!(count(b"a1b1", b'1'), 2);
    }
}
