//! Counting what arrives: a database and a cache that note every question on the way in. The figures of a run come from
//! here, not from what a front says of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloomgate_gate::caches::Cache;
use bloomgate_gate::sources::{Scan, Source};
use bloomgate_gate::{Key, KeyType, Pending, Result};
use bytes::Bytes;

/// A source that counts.
pub struct WatchedSource {
    inner: Arc<dyn Source>,
    reads: AtomicU64,
}

impl WatchedSource {
    /// Counts what reaches this source.
    pub fn new(inner: Arc<dyn Source>) -> Self {
        Self { inner, reads: AtomicU64::new(0) }
    }

    /// Keys that were looked up.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

impl Source for WatchedSource {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn key_type(&self) -> KeyType {
        self.inner.key_type()
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key)
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        self.reads.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.inner.get_many(keys)
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

/// A cache that counts.
pub struct WatchedCache {
    inner: Arc<dyn Cache>,
    reads: AtomicU64,
}

impl WatchedCache {
    /// Counts what reaches this cache.
    pub fn new(inner: Arc<dyn Cache>) -> Self {
        Self { inner, reads: AtomicU64::new(0) }
    }

    /// Keys that were asked for.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

impl Cache for WatchedCache {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key)
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        self.reads.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.inner.get_many(keys)
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
