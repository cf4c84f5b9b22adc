//! Rows of a database or of a Parquet file, read on a thread of their own.
//!
//! Their readers borrow from one another, so they live on the stack of one function, which pushes rows; whoever wants
//! keys pulls blocks. At most three blocks are on their way: a slow reader slows the database, memory stays bounded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Once};

use super::{Block, FULL, Form, KeyStream, MOST_KEY, Span};
use crate::failure::Failure;
use crate::number;

/// Blocks that wait to be taken, besides the one that is being filled.
const WAITING: usize = 2;

/// The name of the thread.
const THREAD: &str = "keys";

/// Lets a thread that reads a file end without a word when the library that parses it stumbles over damage: whoever waits
/// for keys tells of it, with the name of the file.
fn quiet_about_faults() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |fault| {
            if std::thread::current().name() != Some(THREAD) {
                loud(fault);
            }
        }));
    });
}

/// The keys that a thread pushes.
pub struct Feed {
    name: Arc<str>,
    /// Nothing is the end: a thread that is gone without it has failed.
    blocks: Receiver<Result<Option<Block>, Failure>>,
    nulls: Arc<AtomicU64>,
    /// What a row with a null is called.
    what: &'static str,
}

impl Feed {
    /// Starts the thread, which pushes all rows. `what` is what is skipped where there is no value: `null`.
    pub fn start(
        name: &str,
        what: &'static str,
        keep_empty: bool,
        read: impl FnOnce(&mut Rows) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Self, Failure> {
        let name: Arc<str> = name.into();
        let nulls = Arc::<AtomicU64>::default();
        let (sender, blocks) = sync_channel(WAITING);
        let mut rows = Rows {
            sender,
            block: Block { name: name.clone(), ..Block::default() },
            spans: Vec::new(),
            row: 0,
            parts: 0,
            is_null: false,
            consumed: None,
            keep_empty,
            nulls: nulls.clone(),
        };
        quiet_about_faults();
        let thread = std::thread::Builder::new().name(THREAD.into()).spawn(move || {
            let end = read(&mut rows).and_then(|()| rows.flush()).map(|()| None);
            // Nobody waits for it when the verb has ended already.
            _ = rows.sender.send(end);
        });
        match thread {
            Ok(_) => Ok(Self { name, blocks, nulls, what }),
            Err(error) => Err(Failure::Message(format!("{name}: cannot start the thread that reads it: {error}"))),
        }
    }
}

impl KeyStream for Feed {
    fn next(&mut self, block: &mut Block) -> Result<bool, Failure> {
        match self.blocks.recv() {
            Ok(Ok(Some(filled))) => {
                *block = filled;
                Ok(true)
            }
            Ok(Ok(None)) => Ok(false),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                Err(Failure::Message(format!("{}: reading it stopped before the end: is it damaged?", self.name)))
            }
        }
    }

    fn skipped(&self) -> Option<String> {
        let nulls = self.nulls.load(Ordering::Relaxed);
        (nulls > 0).then(|| format!("{}: {} skipped", self.name, number::counted(nulls, self.what)))
    }
}

/// Where the thread pushes rows: the parts of a key one after the other, then the end of the row.
pub struct Rows {
    sender: SyncSender<Result<Option<Block>, Failure>>,
    block: Block,
    spans: Vec<Span>,
    /// Rows so far.
    row: u64,
    /// Parts of this row so far.
    parts: usize,
    is_null: bool,
    /// Bytes of the source that were read since the last block, where that is known.
    consumed: Option<u64>,
    keep_empty: bool,
    nulls: Arc<AtomicU64>,
}

impl Rows {
    /// Appends a part of the key; `several` says whether it has others.
    pub fn part(&mut self, bytes: &[u8], several: bool) -> Result<(), Failure> {
        if several && bytes.contains(&b'\t') {
            return Err(self.refuse(
                "a value holds a tab, which stands between the parts of a key: take one column, or replace the tab",
            ));
        }
        if bytes.len() > MOST_KEY {
            return Err(self.refuse(format_args!(
                "the value is {} bytes long; a key may have {}",
                number::grouped(bytes.len() as u64),
                number::grouped(MOST_KEY as u64)
            )));
        }
        self.separate();
        self.block.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends an integer in decimal digits.
    pub fn integer(&mut self, integer: impl std::fmt::Display) {
        use std::io::Write;
        self.separate();
        _ = write!(self.block.bytes, "{integer}");
    }

    /// This part is null: the row gives no key.
    pub fn null(&mut self) {
        self.is_null = true;
    }

    /// Ends the row (or, in a list, one of its values).
    pub fn end(&mut self) -> Result<(), Failure> {
        let begin = self.spans.last().map_or(0, |span| span.end);
        let len = self.block.bytes.len() - begin;
        // A key of several parts is empty when there is nothing but the tabs between them.
        let empty = len < self.parts.max(1) && !self.keep_empty;
        if self.is_null {
            self.nulls.fetch_add(1, Ordering::Relaxed);
        }
        if self.is_null || empty {
            self.block.bytes.truncate(begin);
        } else {
            self.spans.push(Span { end: self.block.bytes.len(), row: self.row + 1 });
        }
        (self.parts, self.is_null) = (0, false);
        if self.block.bytes.len() >= FULL || self.spans.len() >= FULL / 8 { self.flush() } else { Ok(()) }
    }

    /// Goes on to the next row.
    pub fn next_row(&mut self) {
        self.row += 1;
    }

    /// So many bytes of the source were read.
    #[cfg(feature = "parquet")]
    pub fn consumed(&mut self, bytes: u64) {
        *self.consumed.get_or_insert(0) += bytes;
    }

    /// An error in this row.
    pub fn refuse(&self, what: impl std::fmt::Display) -> Failure {
        Failure::Message(format!("{}: row {}: {what}", self.block.name, number::grouped(self.row + 1)))
    }

    fn separate(&mut self) {
        if self.parts > 0 {
            self.block.bytes.push(b'\t');
        }
        self.parts += 1;
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.spans.is_empty() {
            return Ok(());
        }
        let fresh = Block { name: self.block.name.clone(), ..Block::default() };
        let mut block = std::mem::replace(&mut self.block, fresh);
        block.consumed = match &mut self.consumed {
            Some(consumed) => std::mem::take(consumed),
            None => block.bytes.len() as u64,
        };
        block.form = Form::Spans(std::mem::take(&mut self.spans));
        // Nobody takes it any more: that ends the reading.
        self.sender.send(Ok(Some(block))).map_err(|_| Failure::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(feed: &mut Feed) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
        let (mut all, mut block) = (Vec::new(), Block::default());
        while feed.next(&mut block)? {
            let keys = block.keys();
            all.extend(keys.keys.iter().enumerate().map(|(at, key)| (keys.line(at), key.to_vec())));
        }
        Ok(all)
    }

    #[test]
    fn rows_become_keys_and_nulls_are_counted() {
        let mut feed = Feed::start("test", "null", false, |rows| {
            for row in 0..100_000u32 {
                match row % 10 {
                    3 => rows.null(),
                    4 => rows.part(b"", false)?,
                    _ => rows.integer(row),
                }
                rows.end()?;
                rows.next_row();
            }
            Ok(())
        })
        .unwrap();
        let keys = drain(&mut feed).unwrap();
        assert_eq!(keys.len(), 80_000);
        assert!(keys.iter().all(|(row, key)| (row - 1).to_string().as_bytes() == key));
        assert_eq!(feed.skipped().unwrap(), "test: 10,000 nulls skipped");
    }

    #[test]
    fn parts_are_joined_and_no_failure_looks_like_the_end() {
        let mut feed = Feed::start("test", "null", false, |rows| {
            let all: [[&[u8]; 2]; 3] = [[b"a", b"b"], [b"", b""], [b"", b"c"]];
            for parts in all {
                rows.part(parts[0], true)?;
                rows.part(parts[1], true)?;
                rows.end()?;
                rows.next_row();
            }
            rows.part(b"x\ty", true)
        })
        .unwrap();
        let mut block = Block::default();
        let error = match feed.next(&mut block) {
            Err(Failure::Message(error)) => error,
            _ => panic!("the tab was taken"),
        };
        assert!(error.starts_with("test: row 4: ") && error.contains("tab"), "{error}");
        let mut gone = Feed::start("test", "null", false, |_| std::panic::panic_any(())).unwrap();
        assert!(matches!(gone.next(&mut block), Err(Failure::Message(error)) if error.contains("before the end")));
    }
}
