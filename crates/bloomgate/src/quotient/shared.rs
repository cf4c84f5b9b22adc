//! Inserting and removing beside threads that ask.
//!
//! One writer at a time moves slots inside a [version](crate::bits) change, and a reader believes a "no" only if no
//! change fell into it. Growing writes another table while readers go on with the old one, and then names it as the
//! newest; the old one stays until no reader can have it.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, OnceLock, PoisonError};

use super::QuotientShape;
use super::entries::{Entries, damaged, no_room};
use super::filter::{Later, Quotient, Table};
use super::owned::{copies, resized};
use super::table::{COPIES, Insert, Put, Remove, Taken};
use crate::arch::quotient::dispatch;
use crate::arch::words::Ordering as WordOrdering;
use crate::bits::{Owned, Shared};
use crate::error::Result;
use crate::hash::Digest;
use crate::key::Key;
use crate::kind::Kind;
use crate::promise::{WhenFull, full, insert_each_in_turn};

impl Quotient<Shared> {
    /// Inserts a key; true if it was certainly new. One thread inserts at a time; lookups go on beside it.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&self, digest: Digest) -> Result<bool> {
        let _alone = self.alone();
        if self.promise.when_full == WhenFull::Refuse && self.is_full() {
            let Table { shape, store } = self.table();
            let stuck = copies(shape, store.atomics(), digest).ok_or_else(damaged)? >= COPIES;
            return if stuck { Ok(false) } else { Err(full(Kind::Quotient, self.promise.capacity)) };
        }
        if self.len() >= self.shape().room() && self.shape().doubled().is_some() {
            self.grow_beside()?;
        }
        loop {
            let put = self.version.change(|| {
                let Table { shape, store } = self.table();
                let (geometry, home) = (shape.geometry(), shape.geometry().home(digest.lo));
                let put = dispatch(Insert { geometry, words: store.atomics(), home });
                if matches!(put, Put::New | Put::Again) {
                    self.count.store(self.len() + 1, WordOrdering::Relaxed);
                }
                put
            });
            match put {
                Put::New => return Ok(true),
                Put::Again | Put::Stuck => return Ok(false),
                Put::Damaged => return Err(damaged()),
                Put::NoRoom if !self.shape().grows_with(self.len()) => return Err(no_room(self.shape())),
                Put::NoRoom => self.grow_beside()?,
            }
        }
    }

    /// Inserts many keys, one after the other; how many were certainly new.
    pub fn insert_batch<K: Key>(&self, keys: &[K]) -> Result<u64> {
        keys.iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(key)?)))
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&self, digests: &[Digest]) -> Result<u64> {
        digests.iter().try_fold(0, |fresh, &digest| Ok(fresh + u64::from(self.insert_digest(digest)?)))
    }

    insert_each_in_turn!();

    /// Removes a key that was inserted; false if it was certainly absent. The same duties as for
    /// [one owner](Quotient::<Owned>::remove).
    #[doc(alias = "delete")]
    pub fn remove<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.remove_digest(self.contract.digest(key)?))
    }

    /// [`remove`](Self::remove) for a digest made elsewhere under the same contract.
    pub fn remove_digest(&self, digest: Digest) -> bool {
        let _alone = self.alone();
        self.version.change(|| {
            let Table { shape, store } = self.table();
            let (geometry, home) = (shape.geometry(), shape.geometry().home(digest.lo));
            match dispatch(Remove { geometry, words: store.atomics(), home }) {
                Taken::Gone => {
                    self.count.store(self.len().saturating_sub(1), WordOrdering::Relaxed);
                    true
                }
                Taken::Stuck | Taken::Damaged => true,
                Taken::Absent => false,
            }
        })
    }

    /// The right to write. A writer that panicked half-way is noticed by the version, not here.
    fn alone(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a table of twice the slots and makes it the newest. The caller is the one writer.
    fn grow_beside(&self) -> Result<()> {
        let Table { shape, store } = self.table();
        let larger = shape.doubled().ok_or_else(|| no_room(shape))?;
        let entries = || Entries::new(*shape.geometry(), store.atomics());
        let (table, _) = resized(larger, QuotientShape::doubled, self.len(), entries)?;
        let later = self.later.get_or_init(Later::new);
        let at = later.newest.load(Ordering::Relaxed);
        let place = later.tables.get(at).ok_or_else(|| no_room(shape))?;
        let table = Table { shape: table.shape, store: Shared::from_owned(table.store)? };
        self.version.change(|| {
            let placed = place.set(table).is_ok();
            later.newest.store(at + usize::from(placed), Ordering::Release);
        });
        Ok(())
    }

    /// A copy for one owner, of one moment: to list, to merge or to save.
    pub fn snapshot(&self) -> Result<Quotient<Owned>> {
        let (table, len) = self.copy()?;
        Ok(Quotient::from_table(table, self.contract.clone(), self.promise, len))
    }

    /// Forgets everything, and the tables before the newest; takes the only reference.
    pub fn clear(&mut self) {
        self.keep_newest();
        self.first.store.as_mut_slice().fill(0);
        self.count.store(0, WordOrdering::Relaxed);
    }

    /// Gives back the memory of the tables before the newest: with the only reference, nobody reads them.
    pub fn keep_newest(&mut self) {
        let Some(later) = self.later.take() else { return };
        let newest = later.newest.load(Ordering::Acquire);
        if let Some(table) = later.tables.into_iter().take(newest).filter_map(OnceLock::into_inner).last() {
            self.first = table;
        }
    }

    /// The same filter for one owner. Moves; nothing is copied.
    pub fn into_owned(mut self) -> Result<Quotient<Owned>> {
        self.keep_newest();
        let len = self.len();
        let table = Table { shape: self.first.shape, store: self.first.store.into_owned()? };
        Ok(Quotient::from_table(table, self.contract, self.promise, len))
    }
}
