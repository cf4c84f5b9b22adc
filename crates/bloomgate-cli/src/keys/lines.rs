//! Lines and NUL-separated records of a reader.
//!
//! A block of 256 KiB is read and ends behind its last separator; what is left over begins the next. A key may be 16 MiB
//! long: the block grows for it, so memory is bounded whatever comes.

use std::io::{self, Read};
use std::sync::Arc;

use super::input::{Input, Meter};
use super::{Block, Cut, Form, KeyStream, MOST_KEY, count};
use crate::failure::Failure;

/// What is read at once: several reads of a pipe, small beside any filter worth building.
const BLOCK: usize = 256 << 10;

/// The lines of a reader.
pub struct Lines<R> {
    from: R,
    name: Arc<str>,
    cut: Cut,
    /// What was read behind the last separator.
    rest: Vec<u8>,
    /// Separators handed out so far.
    lines: u64,
    ended: bool,
    /// Counts what is read of the source itself, which may be compressed.
    meter: Option<Meter>,
}

impl Lines<Input> {
    /// The lines of an open source, decompressed where it is compressed.
    pub fn of(from: Input, name: &str, cut: Cut) -> Self {
        let meter = Some(from.meter());
        Self { meter, ..Self::new(from, name, cut) }
    }
}

impl<R: Read + Send> Lines<R> {
    /// The lines of this reader; `name` is for messages.
    pub fn new(from: R, name: &str, cut: Cut) -> Self {
        Self { from, name: name.into(), cut, rest: Vec::new(), lines: 0, ended: false, meter: None }
    }

    /// Reads until there is a whole key, and gives the place behind the last one.
    fn fill(&mut self, bytes: &mut Vec<u8>) -> Result<usize, Failure> {
        let separator = self.cut.separator();
        let mut filled = bytes.len();
        while !self.ended {
            if filled > MOST_KEY {
                return Err(Failure::Message(format!(
                    "{}:{}: the key is longer than {} bytes, the most that is allowed: is the separator right? \
                     keys end with {}",
                    self.name,
                    self.lines + 1,
                    crate::number::grouped(MOST_KEY as u64),
                    if self.cut.null { "a NUL byte because of --null" } else { "a line feed; --null is for NUL bytes" },
                )));
            }
            // A long key doubles the block, up to one byte more than is allowed.
            let room = if filled < BLOCK { BLOCK } else { (filled * 2).min(MOST_KEY + 1) };
            bytes.resize(room, 0);
            match self.from.read(&mut bytes[filled..]) {
                Ok(0) => self.ended = true,
                Ok(read) => {
                    let last = memchr::memrchr(separator, &bytes[filled..filled + read]);
                    filled += read;
                    if let Some(last) = last {
                        bytes.truncate(filled);
                        return Ok(filled - read + last + 1);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::Message(format!("{}: {error}", self.name))),
            }
        }
        // A last line without its line end is a key too.
        bytes.truncate(filled);
        Ok(filled)
    }
}

impl<R: Read + Send> KeyStream for Lines<R> {
    fn next(&mut self, block: &mut Block) -> Result<bool, Failure> {
        let mut bytes = std::mem::take(&mut block.bytes);
        bytes.clear();
        bytes.append(&mut self.rest);
        let end = self.fill(&mut bytes)?;
        self.rest.extend_from_slice(&bytes[end..]);
        bytes.truncate(end);
        let before = self.lines;
        self.lines += count(self.cut.separator(), &bytes);
        *block = Block {
            consumed: self.meter.as_mut().map_or(bytes.len() as u64, Meter::since),
            bytes,
            form: Form::Lines { cut: self.cut, before },
            name: self.name.clone(),
        };
        Ok(!block.bytes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::slow::Slow;
    use super::*;

    fn read(bytes: &[u8], step: usize, cut: Cut) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Lines::new(Slow(bytes, step), "test", cut);
        let (mut all, mut taken) = (Vec::new(), 0);
        let mut block = Block::default();
        while lines.next(&mut block).unwrap() {
            taken += block.consumed();
            let keys = block.keys();
            all.extend(keys.keys.iter().enumerate().map(|(at, key)| (keys.line(at), key.to_vec())));
        }
        assert_eq!(taken, bytes.len() as u64);
        all
    }

    #[test]
    fn lines_are_keys_however_they_arrive() {
        let text = b"one\n\ntwo\r\n\xff\0three\n\n\nfour";
        let expected: Vec<(u64, Vec<u8>)> =
            vec![(1, b"one".into()), (3, b"two\r".into()), (4, b"\xff\0three".into()), (7, b"four".into())];
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(read(text, step, Cut::default()), expected, "{step}");
        }
        let crlf = read(b"a\r\n\r\nb\r\nc\n", 3, Cut { crlf: true, ..Cut::default() });
        assert_eq!(crlf, [(1, b"a".to_vec()), (3, b"b".to_vec()), (4, b"c".to_vec())]);
        let returns = read(b"\r\n\r\r\n", 1, Cut { crlf: true, ..Cut::default() });
        assert_eq!(returns, [(2, b"\r".to_vec())], "one CR belongs to the line end, the other is the key");
        let empty = read(b"\na\n\n", 2, Cut { keep_empty: true, ..Cut::default() });
        assert_eq!(empty, [(1, b"".to_vec()), (2, b"a".to_vec()), (3, b"".to_vec())]);
        let null = read(b"a\nb\0\0c", 2, Cut { null: true, ..Cut::default() });
        assert_eq!(null, [(1, b"a\nb".to_vec()), (3, b"c".to_vec())]);
        assert!(read(b"", 1, Cut::default()).is_empty() && read(b"\n\n\n", 1, Cut::default()).is_empty());
    }

    #[test]
    fn blocks_join_without_a_seam() {
        let mut text = Vec::new();
        for i in 0..200_000u32 {
            text.extend_from_slice(format!("{}{}\n", "x".repeat(i as usize % 19), i).as_bytes());
        }
        let keys = read(&text, usize::MAX, Cut::default());
        assert_eq!(keys.len(), 200_000);
        for (at, (line, key)) in keys.iter().enumerate() {
            assert_eq!((*line, key.len()), (at as u64 + 1, at % 19 + at.to_string().len()));
        }
    }

    #[test]
    fn a_long_key_is_a_key_and_a_longer_one_an_error() {
        let mut long = vec![b'x'; MOST_KEY];
        long.splice(0..0, *b"a\n");
        long.extend_from_slice(b"\nb");
        assert_eq!(read(&long, usize::MAX, Cut::default())[1].1.len(), MOST_KEY);
        long.insert(5, b'x');
        let mut lines = Lines::new(&long[..], "test", Cut::default());
        let mut block = Block::default();
        let error = loop {
            match lines.next(&mut block) {
                Ok(true) => {}
                Ok(false) => panic!("the long key was taken"),
                Err(Failure::Message(error)) => break error,
                Err(Failure::Gone) => panic!("nothing was written"),
            }
        };
        assert!(error.starts_with("test:2:") && error.contains("16,777,216"), "{error}");
    }
}
