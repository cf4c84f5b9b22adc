//! Streams of keys by the block, and how a block is cut into keys.
//!
//! A [`KeyStream`] fills blocks; a [`Block`] owns its bytes, so it can be cut, hashed or asked on another thread than the
//! one that reads. Lines stay as they were read until somebody asks for the keys: cutting is as dear as hashing.

mod columns;
mod csv;
#[cfg(any(feature = "parquet", feature = "postgres", feature = "sqlite"))]
mod feed;
pub mod hibp;
mod input;
mod jsonl;
mod lines;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "postgres")]
mod postgres;
mod reading;
#[cfg(test)]
mod slow;
mod source;
#[cfg(feature = "sqlite")]
mod sqlite;
mod strange;

use std::cell::Cell;
use std::sync::Arc;

use crate::failure::Failure;

pub use reading::{Reading, SOURCES};
pub use source::{Source, bytes_of};
pub use strange::Strange;

/// The longest key, in bytes. A longer one is more likely a file without line ends than a key.
pub const MOST_KEY: usize = 16 << 20;

/// How bytes are cut into keys.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Cut {
    /// Keys end with a NUL byte instead of a line feed (as from find -print0)
    #[arg(short = '0', long = "null", conflicts_with = "rows", help_heading = "Reading keys")]
    pub null: bool,
    /// Lines end with CR LF: drop the CR (otherwise it is part of the key)
    #[arg(long, conflicts_with = "rows", help_heading = "Reading keys")]
    pub crlf: bool,
    /// An empty line or field is a key (otherwise they are skipped)
    #[arg(long, help_heading = "Reading keys")]
    pub keep_empty: bool,
}

impl Cut {
    /// The byte after each key.
    pub fn separator(self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }
}

/// What hands out the keys of one source, in order.
pub trait KeyStream: Send {
    /// Fills the block with the next keys as soon as there are any (perhaps none: a block of empty lines); false at the
    /// end. What was in the block is gone, its memory is used again.
    fn next(&mut self, block: &mut Block) -> Result<bool, Failure>;

    /// What was passed over because it is no key, as a note to the user when all was read: `users.csv: 12 nulls
    /// skipped`.
    fn skipped(&self) -> Option<String> {
        None
    }
}

/// Some keys of one source, in memory of their own.
#[derive(Default)]
pub struct Block {
    bytes: Vec<u8>,
    form: Form,
    /// Bytes of the source that were read for it.
    consumed: u64,
    /// The source's name, for messages.
    name: Arc<str>,
}

/// How the keys lie in the bytes.
enum Form {
    /// As lines of the source, after so many others.
    Lines { cut: Cut, before: u64 },
    /// Without separators, each with the line or row that it came from.
    Spans(Vec<Span>),
}

/// Where a key ends (the next begins there), and the line or row of the source that it came from.
struct Span {
    end: usize,
    row: u64,
}

impl Default for Form {
    fn default() -> Self {
        Self::Spans(Vec::new())
    }
}

impl Block {
    /// Empties it for keys that are written one by one; its memory is used again.
    fn start(&mut self, name: &Arc<str>) -> Writer<'_> {
        self.bytes.clear();
        self.consumed = 0;
        if !Arc::ptr_eq(&self.name, name) {
            self.name = name.clone();
        }
        match &mut self.form {
            Form::Spans(spans) => spans.clear(),
            lines => *lines = Form::default(),
        }
        let Form::Spans(spans) = &mut self.form else { unreachable!("it was made so above") };
        Writer { bytes: &mut self.bytes, spans, consumed: &mut self.consumed }
    }

    /// Bytes of the source that were read for it.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The keys. Lines are cut here.
    pub fn keys(&self) -> Keys<'_> {
        let mut keys = Vec::with_capacity(self.bytes.len() / 16);
        let counted = Cell::new((0, 0));
        match &self.form {
            Form::Lines { cut, before } => {
                cut_into(&self.bytes, *cut, &mut keys);
                counted.set((0, *before));
            }
            Form::Spans(spans) => {
                let mut start = 0;
                for span in spans {
                    keys.push(&self.bytes[start..span.end]);
                    start = span.end;
                }
            }
        }
        Keys { keys, block: self, counted }
    }
}

/// What is handed out at once of keys that are written one by one.
const FULL: usize = 256 << 10;

/// Keys on their way into a block: the bytes of one are appended, then it is ended or taken back.
struct Writer<'b> {
    bytes: &'b mut Vec<u8>,
    spans: &'b mut Vec<Span>,
    /// Bytes of the source that were read for it.
    consumed: &'b mut u64,
}

impl Writer<'_> {
    /// Ends the key that was appended; it came from this line or row.
    fn end(&mut self, row: u64) {
        self.spans.push(Span { end: self.bytes.len(), row });
    }

    /// Where the key begins that is being appended.
    fn begin(&self) -> usize {
        self.spans.last().map_or(0, |span| span.end)
    }

    /// Forgets what was appended since the last key ended.
    fn take_back(&mut self) {
        let begin = self.begin();
        self.bytes.truncate(begin);
    }

    fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Whether it is time to hand the block out. Keys may be empty, so they are counted too.
    fn is_full(&self) -> bool {
        self.bytes.len() >= FULL || self.spans.len() >= FULL / 8
    }
}

/// The keys of a block, in the order of the source.
pub struct Keys<'b> {
    /// The keys, without their separators.
    pub keys: Vec<&'b [u8]>,
    block: &'b Block,
    /// The bytes of the block up to which separators were counted, and how many there were since the start.
    counted: Cell<(usize, u64)>,
}

impl Keys<'_> {
    /// The name of the source, for messages.
    pub fn source(&self) -> &str {
        &self.block.name
    }

    /// Where a key stands, as `file:line`.
    pub fn place(&self, index: usize) -> String {
        format!("{}:{}", self.block.name, self.line(index))
    }

    /// Whether every key ends in a carriage return: then it belongs to the line end, and somebody forgot to say so. A
    /// last line without its line end has none.
    pub fn end_in_carriage_return(&self) -> bool {
        let Form::Lines { cut, .. } = &self.block.form else { return false };
        let last = usize::from(!self.block.bytes.ends_with(&[cut.separator()]));
        let whole = &self.keys[..self.keys.len().saturating_sub(last)];
        !whole.is_empty() && whole.iter().all(|key| key.ends_with(b"\r"))
    }

    /// The line (or record, or row) of a key, from 1. Counted when asked, which is seldom; asked in order, each byte is
    /// counted once.
    pub fn line(&self, index: usize) -> u64 {
        let (cut, first) = match &self.block.form {
            Form::Lines { cut, before } => (cut, *before),
            Form::Spans(spans) => return spans[index].row,
        };
        let start = self.keys[index].as_ptr() as usize - self.block.bytes.as_ptr() as usize;
        let (from, before) = match self.counted.get() {
            (from, before) if from <= start => (from, before),
            _ => (0, first),
        };
        let line = before + count(cut.separator(), &self.block.bytes[from..start]);
        self.counted.set((start, line));
        line + 1
    }
}

/// The keys in a block of lines.
fn cut_into<'b>(bytes: &'b [u8], cut: Cut, keys: &mut Vec<&'b [u8]>) {
    let mut start = 0;
    for end in memchr::memchr_iter(cut.separator(), bytes).chain([bytes.len()]) {
        let mut key = &bytes[start..end];
        // The last line needs no line end; behind one there is no further key.
        if start == bytes.len() {
            break;
        }
        start = end + 1;
        if cut.crlf {
            key = key.strip_suffix(b"\r").unwrap_or(key);
        }
        if !key.is_empty() || cut.keep_empty {
            keys.push(key);
        }
    }
}

/// A UUID as it is written, and as `--keys uuid` reads it.
#[cfg(any(feature = "parquet", feature = "postgres"))]
fn uuid_text(bytes: [u8; 16]) -> String {
    bloomgate::Uuid(bytes).to_string()
}

fn count(byte: u8, bytes: &[u8]) -> u64 {
    memchr::memchr_iter(byte, bytes).count() as u64
}
