//! Counting what arrives: a database and a cache that note every question on the way in. The figures of a run come from
//! here, not from what a front says of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloomgate_gate::caches::Cache;
use bloomgate_gate::sources::{Scan, Source};
use bloomgate_gate::{Key, KeyType, Pending, Result};
use bytes::Bytes;

/// A source or a cache that counts the keys it is asked for.
pub struct Watched<T: ?Sized> {
    inner: Arc<T>,
    reads: AtomicU64,
}

impl<T: ?Sized> Watched<T> {
    /// Counts what reaches this one.
    pub fn new(inner: Arc<T>) -> Self {
        Self { inner, reads: AtomicU64::new(0) }
    }

    /// Keys that were asked for.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Notes a question for this many keys, and passes it on.
    fn asked(&self, keys: usize) -> &T {
        self.reads.fetch_add(keys as u64, Ordering::Relaxed);
        &self.inner
    }
}

impl Source for Watched<dyn Source> {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn key_type(&self) -> KeyType {
        self.inner.key_type()
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        self.asked(1).get(key)
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        self.asked(keys.len()).get_many(keys)
    }

    fn check_rows<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        self.inner.check_rows(rows)
    }

    fn lists_keys(&self) -> bool {
        self.inner.lists_keys()
    }

    fn put_many<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        self.inner.put_many(rows)
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<bool>> {
        self.inner.delete(key)
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        self.inner.count()
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        self.inner.scan()
    }
}

impl Cache for Watched<dyn Cache> {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        self.asked(1).get(key)
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        self.asked(keys.len()).get_many(keys)
    }

    fn store<'a>(&'a self, key: &'a Key, row: Bytes, keep: Duration) -> Pending<'a, Result<()>> {
        self.inner.store(key, row, keep)
    }

    fn forget<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<()>> {
        self.inner.forget(key)
    }

    fn leave_behind<'a>(&'a self) -> Pending<'a, Result<()>> {
        self.inner.leave_behind()
    }
}
