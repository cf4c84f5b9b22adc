//! Rows in this process: the fastest cache, and the one that cannot be out of reach.

use std::time::Duration;

use bytes::Bytes;
use quick_cache::sync::{Cache as Map, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::Cache;
use crate::Pending;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;

/// What an entry costs beside the bytes of its key and its row: the entry with its links, its place in the table, and what
/// three pieces of memory (key, row, the count of those who hold the row) cost the allocator. Measured as growth of the
/// process: 154 bytes at 300,000 rows and at 500,000.
pub const OVERHEAD: u64 = 160;
/// A row larger than this part of the budget is not stored: it would push out thousands of others for one key.
pub const LARGEST_SHARE: u64 = 64;
/// Pieces with a lock each. A piece has an eighth of the budget, so the largest row is an eighth of a piece.
const PIECES: usize = 8;
/// The smallest budget in which the largest row still has room for a kilobyte.
const SMALLEST_BUDGET: u64 = 64 << 10;

/// Rows in this process, as many as a budget of bytes holds; those that are asked for often stay.
pub struct LocalCache {
    rows: Map<Key, Entry, Bytewise, DefaultHashBuilder>,
    budget: u64,
    clock: Clock,
}

#[derive(Clone)]
struct Entry {
    row: Bytes,
    ends: Duration,
}

/// Weighs an entry by the memory it takes.
#[derive(Clone)]
struct Bytewise;

impl Weighter<Key, Entry> for Bytewise {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        weight(key, &entry.row)
    }
}

fn weight(key: &Key, row: &Bytes) -> u64 {
    key.canonical().len() as u64 + row.len() as u64 + OVERHEAD
}

impl LocalCache {
    /// An empty one that takes about so many bytes of memory when it is full, at least 64 KiB.
    pub fn new(bytes_budget: u64) -> Result<Self> {
        Self::with_clock(bytes_budget, Clock::system())
    }

    /// [`new`](Self::new), with the clock by which rows end.
    pub fn with_clock(bytes_budget: u64, clock: Clock) -> Result<Self> {
        if bytes_budget < SMALLEST_BUDGET {
            let message = format!(
                "a cache of {bytes_budget} bytes holds next to nothing: give it at least {SMALLEST_BUDGET}, or use none"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        // Rows of half a kilobyte, for the sizes of tables: any order of magnitude will do.
        let items = usize::try_from(bytes_budget / (512 + OVERHEAD)).unwrap_or(usize::MAX).min(1 << 26);
        let options = OptionsBuilder::new()
            .shards(PIECES)
            .estimated_items_capacity(items)
            .weight_capacity(bytes_budget)
            .build()
            .map_err(|error| Error::new(ErrorKind::Invalid, format!("a cache of {bytes_budget} bytes: {error}")))?;
        let rows = Map::with_options(options, Bytewise, DefaultHashBuilder::default(), DefaultLifecycle::default());
        Ok(Self { rows, budget: bytes_budget, clock })
    }

    /// How many bytes its rows take now, their overhead included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.rows.weight()
    }

    /// How many rows there are, those that have ended and were not asked for since included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn find(&self, key: &Key) -> Option<Bytes> {
        let entry = self.rows.get(key)?;
        let now = self.clock.now();
        if now < entry.ends {
            return Some(entry.row);
        }
        // Another one may have been stored since it was read.
        self.rows.remove_if(key, |entry| entry.ends <= now);
        None
    }

    fn put(&self, key: &Key, row: &Bytes, keep: Duration) {
        if keep.is_zero() || weight(key, row) > self.budget / LARGEST_SHARE {
            // What was there before is not the row any more.
            self.rows.remove(key);
            return;
        }
        // Copied: a row that is a part of some larger buffer would keep all of it.
        let row = Bytes::copy_from_slice(row);
        self.rows.insert(key.clone(), Entry { row, ends: self.clock.now().saturating_add(keep) });
    }
}

/// A size in the largest unit that it has at least one of, of thousands: 64 MB.
fn spelled(bytes: u64) -> String {
    let (unit, name) = match bytes {
        1_000_000_000.. => (1e9, "GB"),
        1_000_000.. => (1e6, "MB"),
        _ => (1e3, "kB"),
    };
    let number = format!("{:.1}", bytes as f64 / unit);
    format!("{} {name}", number.trim_end_matches(".0"))
}

impl Cache for LocalCache {
    fn describe(&self) -> String {
        format!("in this process, {}", spelled(self.budget))
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        let found = self.find(key);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        let found = keys.iter().map(|key| self.find(key)).collect();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn store<'a>(&'a self, key: &'a Key, row: Bytes, keep: Duration) -> Pending<'a, Result<()>> {
        self.put(key, &row, keep);
        Box::pin(std::future::ready(Ok(())))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<()>> {
        self.rows.remove(key);
        Box::pin(std::future::ready(Ok(())))
    }

    fn leave_behind<'a>(&'a self) -> Pending<'a, Result<()>> {
        self.rows.clear();
        Box::pin(std::future::ready(Ok(())))
    }
}
