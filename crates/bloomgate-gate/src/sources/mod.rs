//! Sources: where the truth is. A table of SQLite or PostgreSQL, an HTTP service, or anything that has these few calls.

mod footing;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod object;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tenancy;
#[cfg(feature = "upstream")]
mod upstream;

pub use footing::Footing;
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresQuery, PostgresTenants};
#[cfg(feature = "sqlite")]
pub use sqlite::{Sqlite, SqliteQuery, SqliteTenants};
pub use tenancy::{TenantBatch, TenantScan, TenantTable};
#[cfg(feature = "upstream")]
pub use upstream::{KeyList, Upstream};

use std::sync::Arc;

use bytes::Bytes;

use crate::Pending;
use crate::error::Result;
use crate::feed::{Feed, FeedOptions};
use crate::key::{Key, KeyType};

/// The source of truth behind a gate.
///
/// Reads see every write that was answered before they began. An error of kind [`Unknown`](crate::ErrorKind::Unknown) from
/// a write means that it may still happen: the gate then keeps the key in every filter it builds.
pub trait Source: Send + Sync + 'static {
    /// What it is, for reports: `postgres table products`. Never with a password.
    fn describe(&self) -> String;

    /// The type of the key column.
    fn key_type(&self) -> KeyType;

    /// The row of a key, or `None` if there is none.
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>>;

    /// The rows of many keys in one question, in their order.
    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>>;

    /// Looks at rows that are to be written, and changes nothing: an error for those that [`put_many`](Self::put_many) would
    /// refuse whatever the table holds. The gate asks before it tells the filter, which keeps what it is told.
    fn check_rows<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        let _ = rows;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether it can list its keys at all: without that no filter can be built, and the gate only watches.
    fn lists_keys(&self) -> bool {
        true
    }

    /// Whether the keys come from a list that is kept beside the rows: it may be empty, old or spelled otherwise where they are
    /// not. A filter of it that says no is looked at more closely.
    fn keys_are_listed(&self) -> bool {
        false
    }

    /// How busy [`get_many`](Self::get_many) of so many keys keeps the source, in single reads at once. A statement of SQL
    /// for 500 keys takes about as long as one lookup with its way there and back.
    fn weight(&self, keys: usize) -> usize {
        keys.div_ceil(500)
    }

    /// Writes rows, all or none: inserts or replaces each. The built-in sources take JSON objects whose key column, if
    /// it is there, must be the key.
    fn put_many<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>>;

    /// Deletes a row; whether there was one.
    fn delete<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<bool>>;

    /// About how many keys there are: the next filter is sized by it.
    fn count(&self) -> Pending<'_, Result<u64>>;

    /// Begins to read every key, as of one moment not before the call.
    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>>;

    /// What a filter of it stands on; none if it cannot tell. Whoever finds that it has moved says so there.
    fn footing(&self) -> Option<&Footing> {
        None
    }

    /// What others write, if the source can tell it: for [`Writers::Feed`](crate::Writers::Feed).
    fn feed(&self, options: FeedOptions) -> Option<Arc<dyn Feed>> {
        let _ = options;
        None
    }

    /// Somebody else is about to write these keys, past this source's own [`put_many`](Self::put_many). A source whose
    /// [`scan`](Self::scan) does not see such writes by itself, as a list in a file, notes them here, and they are part of
    /// every scan from then on, also after a kill. An error: they are not, and the write is not passed on.
    fn announced<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<()>> {
        let _ = keys;
        Box::pin(std::future::ready(Ok(())))
    }

    /// A write of keys that were [announced](Self::announced), without an error, has ended; `refused`: it was not done and
    /// never will be. Told once for each that was announced, or never.
    fn ended<'a>(&'a self, keys: &'a [Key], refused: bool) -> Pending<'a, Result<()>> {
        let _ = (keys, refused);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Somebody else is about to make keys that only the answer will tell. A source that [notes](Self::announced) keys notes
    /// this too, so that a kill before the answer is not forgotten, and gives the mark that
    /// [`ended_unnamed`](Self::ended_unnamed) is told. An error: it is not, and the write is not passed on.
    fn announced_unnamed(&self) -> Pending<'_, Result<Option<u64>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// A write with this mark has ended: it made nothing, or its keys were announced, or it was [missed](Self::missed_write).
    fn ended_unnamed(&self, mark: u64) -> Pending<'_, Result<()>> {
        let _ = mark;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Somebody else wrote a key that nobody could read. A source whose scans do not see writes by themselves refuses to scan
    /// until it knows better.
    fn missed_write(&self) -> Pending<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Takes the table for this gate, which is about to write, and waits until every gate that says no by it has let go: an
    /// error if another gate writes, or does not let go. Called before each write, so it must be cheap once it is done. Lost
    /// again, the [footing](Self::footing) has moved.
    fn claim(&self) -> Pending<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Waits until every write that began before the call has happened or never will: one of a gate that was killed may
    /// still be under way at the server. And holds the table from then on for a gate that says no: another one that
    /// [claims](Self::claim) it waits until this one has moved its footing and let go. An error if that takes too long, or if
    /// another gate writes.
    fn settle(&self) -> Pending<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Looks whether it is still where it was and whether another gate is about to write, and tells the footing if so. Called
    /// every second. An error of kind
    /// [`Unsupported`](crate::ErrorKind::Unsupported): it cannot be gated any more.
    fn look_around(&self) -> Pending<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The gate was stopped and writes no more: the time to put away what only a running one needs. It may still be read.
    fn stopped(&self) -> Pending<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A scan under way: batches of keys, all of one moment.
pub trait Scan: Send {
    /// Replaces `batch` by the next keys; false when there are no more. An error ends the scan: what was read is not
    /// all there is.
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>>;
}

/// Keys in one piece of memory, so that ten million of them cost no ten million allocations.
#[derive(Clone, Debug, Default)]
pub struct KeyBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyBatch {
    /// Forgets the keys, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends a key by its canonical bytes.
    pub fn push(&mut self, canonical: &[u8]) {
        self.bytes.extend_from_slice(canonical);
        self.ends.push(self.bytes.len());
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The canonical bytes of each key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|at| {
            let begin = if at == 0 { 0 } else { self.ends[at - 1] };
            &self.bytes[begin..self.ends[at]]
        })
    }
}
