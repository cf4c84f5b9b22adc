//! The write path: filter first, then the source, then the cache. A "no" can never be older than a write it missed.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bloomgate::Digest;
use bytes::Bytes;
use futures_util::FutureExt;

use super::read::MOST_KEYS;
use super::{Gate, Inner, died};
use crate::callers::ClientId;
use crate::counters::Count;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;

impl Gate {
    /// Writes a row: inserts or replaces it.
    ///
    /// An error of kind [`Unknown`](ErrorKind::Unknown) says that the source may have done it, or do it yet; the key stays
    /// in the filter either way. It runs to its end even if the caller goes away.
    pub async fn put(&self, key: Key, row: Bytes) -> Result<()> {
        self.put_many_by(vec![(key, row)], None).await
    }

    /// [`put`](Self::put) for a client that has a cap on adds. It counts once the row has passed the check, whatever the
    /// source says then, for from there on its key is in the filter; a row that replaces another counts too.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooManyAdds`] if the client has added too many; nothing was changed then.
    pub async fn put_for(&self, key: Key, row: Bytes, client: &ClientId) -> Result<()> {
        self.put_many_by(vec![(key, row)], Some(*client)).await
    }

    /// Writes many rows, all or none.
    pub async fn put_many(&self, rows: Vec<(Key, Bytes)>) -> Result<()> {
        self.put_many_by(rows, None).await
    }

    /// [`put_many`](Self::put_many) for a client that has a cap on adds: each row counts.
    pub async fn put_many_for(&self, rows: Vec<(Key, Bytes)>, client: &ClientId) -> Result<()> {
        self.put_many_by(rows, Some(*client)).await
    }

    pub(crate) async fn put_many_by(&self, rows: Vec<(Key, Bytes)>, client: Option<ClientId>) -> Result<()> {
        if rows.len() > MOST_KEYS {
            let message = format!("{} rows in one call: at most {MOST_KEYS} are allowed, write in parts", rows.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        rows.iter().try_for_each(|(key, _)| self.inner.check(key))?;
        // Before the filter is told: a row that cannot be written would only fill it.
        let checked = self.inner.source.check_rows(&rows).await;
        self.inner.failed_at_source(&checked);
        checked?;
        self.inner.count_adds(client, rows.len())?;
        let inner = self.inner.clone();
        tokio::spawn(async move { inner.put(rows).await }).await.map_err(died)?
    }

    /// Deletes a row; whether there was one. The filter keeps its bits until the next rebuild.
    pub async fn delete(&self, key: &Key) -> Result<bool> {
        self.inner.check(key)?;
        let (inner, key) = (self.inner.clone(), key.clone());
        tokio::spawn(async move { inner.delete(key).await }).await.map_err(died)?
    }
}

impl Inner {
    async fn put(self: Arc<Self>, rows: Vec<(Key, Bytes)>) -> Result<()> {
        self.claim().await?;
        let keys: Vec<Key> = rows.iter().map(|(key, _)| key.clone()).collect();
        let digests = self.filters.digests(&keys);
        // From before the filters are looked up until the source has said what became of it: see `puts`.
        let ticket = self.puts.enter();
        self.filters.add(&digests).await;
        self.wrote(&digests);
        let result = whole(self.source.put_many(&rows)).await;
        if self.is_unknown(&result) {
            self.filters.doubt(&keys, &digests).await;
            digests.iter().for_each(|&digest| self.shards.doubt(digest));
        }
        self.wrote(&digests);
        drop(ticket);
        self.forget(&keys, &digests).await;
        if result.is_ok() {
            self.counters.add(Count::Puts, keys.len() as u64);
        }
        result
    }

    async fn delete(self: Arc<Self>, key: Key) -> Result<bool> {
        let (keys, digests) = ([key.clone()], [self.filters.digest(&key)]);
        self.wrote(&digests);
        // Before it is done: a kill right after it must not leave a source that has fewer keys than anybody can explain.
        // With a feed the triggers count it.
        let counts = self.feeding.is_none();
        if counts {
            self.saved(self.baseline.claim_removal().await);
        }
        let result = whole(self.source.delete(&key)).await;
        let unknown = self.is_unknown(&result);
        if counts {
            self.baseline.settle_removal(unknown || matches!(result, Ok(true)));
        }
        self.wrote(&digests);
        self.forget(&keys, &digests).await;
        if let Ok(true) = result {
            self.counters.one(Count::Deletes);
            if let (Some(current), true) = (&self.filters.face().current, counts) {
                current.remove_one();
            }
        }
        result
    }

    pub(super) fn wrote(&self, digests: &[Digest]) {
        digests.iter().for_each(|&digest| self.shards.wrote(digest));
    }

    /// Whether the source may still do it; counts what went wrong.
    fn is_unknown<T>(&self, result: &Result<T>) -> bool {
        self.failed_at_source(result);
        let unknown = matches!(result, Err(error) if error.kind() == ErrorKind::Unknown);
        if unknown {
            self.counters.one(Count::UnknownWrites);
        }
        unknown
    }

    /// Counts what the source itself did not do; what a client sent wrongly is none of its errors.
    pub(super) fn failed_at_source<T>(&self, result: &Result<T>) {
        if self.events.of_source(result) {
            self.counters.one(Count::SourceErrors);
        }
    }

    /// Takes rows out of the cache. The row that was written is not stored instead: the source may give it back with
    /// defaults, triggers and another spelling.
    pub(crate) async fn forget(&self, keys: &[Key], digests: &[Digest]) {
        let Some(cache) = &self.cache else { return };
        for (key, &digest) in keys.iter().zip(digests) {
            let _alone = self.shards.fill(digest).await;
            let forgotten = cache.forget(key).await;
            self.of_cache(&forgotten);
            if forgotten.is_err() {
                // The old row may still be there: nothing that was stored so far is found again.
                self.of_cache(&cache.leave_behind().await);
            }
        }
    }
}

/// Runs a write to its end; one that panics may have been done.
async fn whole<T>(write: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(write).catch_unwind().await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Unknown, "the source panicked in the middle of a write: it may have been done"))
    })
}
