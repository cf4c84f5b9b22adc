//! Inserting, removing, listing, merging and growing, alone.

use super::entries::{Entries, Merged, Unwritten, damaged, no_room, write, written};
use super::filter::{Quotient, Table, shared};
use super::table::{COPIES, Copies, Insert, Put, Remove, Taken};
use super::{QuotientBuilder, QuotientShape};
use crate::arch::prefetch;
use crate::arch::quotient::{LINE, Plain, dispatch};
use crate::arch::words::{Ordering, ReadWords};
use crate::bits::{Mapped, Owned, Shared, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, pipeline};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::Kind;
use crate::promise::{Promise, WhenFull, full};

impl Quotient<Owned> {
    /// Starts a filter: `.items(n).rate(p)`, with `.grow_to(n)` if it may become larger, or `.bytes(b)` with `rate`.
    #[must_use]
    pub fn builder() -> QuotientBuilder {
        QuotientBuilder::new()
    }

    pub(crate) fn empty(shape: QuotientShape, contract: Contract, promise: Promise) -> Result<Self> {
        Ok(Self::from_table(Table { shape, store: Owned::zeroed(shape.words())? }, contract, promise, 0))
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.count.store(len, Ordering::Relaxed);
    }

    /// Inserts a key; true if it was certainly new.
    ///
    /// A key inserted twice must be removed twice. One that has 15 copies sticks: inserting it again changes nothing, and
    /// so does removing it.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    ///
    /// The table grows when it must; if it cannot, or the system has no memory, the key is refused and nothing changed.
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        let refusing = self.promise.when_full == WhenFull::Refuse && self.is_full();
        if refusing {
            // What sticks is in for good; a further copy of anything else must not be lost silently.
            let stuck = self.count_of_digest(digest)? >= COPIES;
            return if stuck { Ok(false) } else { Err(full(Kind::Quotient, self.promise.capacity)) };
        }
        if self.len() >= self.shape().room() && self.shape().larger().is_some() {
            self.grow()?;
        }
        loop {
            let Table { shape, store } = &mut self.first;
            let (geometry, home) = (shape.geometry(), shape.geometry().home(digest.lo));
            match dispatch(Insert { geometry, words: store.as_mut_slice(), home }) {
                Put::New => {
                    self.set_len(self.len() + 1);
                    return Ok(true);
                }
                Put::Again => {
                    self.set_len(self.len() + 1);
                    return Ok(false);
                }
                Put::Stuck => return Ok(false),
                Put::Damaged => return Err(damaged()),
                Put::NoRoom if !self.shape().grows_with(self.len()) => return Err(no_room(self.shape())),
                Put::NoRoom => self.grow()?,
            }
        }
    }

    /// Inserts many keys at once; how many were certainly new.
    ///
    /// If a key is refused (wrong encoding, full), the keys before it are in and those after it are not.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<u64> {
        let contract = self.contract.clone();
        self.insert_all_digests(KeyDigests { contract: &contract, keys })
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
        self.insert_all_digests(digests)
    }

    fn insert_all_digests(&mut self, mut digests: impl Digests) -> Result<u64> {
        let mut fresh = 0;
        let mut refused = None;
        pipeline(
            Digest::default(),
            |out| digests.next(out),
            |now, next| {
                for digest in next {
                    let Table { shape, store } = &self.first;
                    prefetch(store.as_slice(), shape.geometry().home(digest.lo).block * LINE);
                }
                for &digest in now {
                    if refused.is_none() {
                        match self.insert_digest(digest) {
                            Ok(new) => fresh += u64::from(new),
                            Err(error) => refused = Some(error),
                        }
                    }
                }
            },
        )?;
        refused.map_or(Ok(fresh), Err)
    }

    /// Inserts everything an iterator gives; how many were certainly new.
    pub fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        keys.into_iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(&key)?)))
    }

    /// Removes a key that was inserted; false if it was certainly absent, and then nothing changed.
    ///
    /// **Only remove what you inserted.** A key that was never inserted but seems to be there (a false positive) has the
    /// fingerprint of another, cannot be told from it, and removing it removes the other: a wrong "no" later. That is the
    /// contract of every filter with removal; ask your source of truth first if you are not sure.
    ///
    /// True does not mean that the key is gone: it may have been inserted more often, and one inserted 15 times sticks
    /// for good. Count your own removals; do not loop until false.
    #[doc(alias = "delete")]
    pub fn remove<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        Ok(self.remove_digest(self.contract.digest(key)?))
    }

    /// [`remove`](Self::remove) for a digest made elsewhere under the same contract.
    pub fn remove_digest(&mut self, digest: Digest) -> bool {
        let Table { shape, store } = &mut self.first;
        let (geometry, home) = (shape.geometry(), shape.geometry().home(digest.lo));
        match dispatch(Remove { geometry, words: store.as_mut_slice(), home }) {
            Taken::Gone => {
                self.set_len(self.len().saturating_sub(1));
                true
            }
            // Where the words make no sense nothing is certain: what cannot be removed stays, like what sticks.
            Taken::Stuck | Taken::Damaged => true,
            Taken::Absent => false,
        }
    }

    /// Makes the table larger by a third to a half, without the keys. The fingerprints and so the rate stay what they
    /// are. The filter does this by itself when it must.
    ///
    /// Refused where the fingerprints could not be spread over more slots.
    pub fn grow(&mut self) -> Result<()> {
        let larger = self.shape().larger().ok_or_else(|| no_room(self.shape()))?;
        self.first = resized(larger, QuotientShape::larger, self.len(), || self.entries())?.0;
        Ok(())
    }

    /// Makes room for so many more keys at once, so that inserting them does not grow the table step by step.
    pub fn reserve(&mut self, more: u64) -> Result<()> {
        let wanted = self.len().saturating_add(more);
        if self.promise.when_full == WhenFull::Refuse && wanted > self.promise.capacity {
            return Err(full(Kind::Quotient, self.promise.capacity));
        }
        let mut shape = *self.shape();
        while shape.room() < wanted {
            shape = shape.larger().ok_or_else(|| no_room(&shape))?;
        }
        if shape != *self.shape() {
            self.first = resized(shape, QuotientShape::larger, self.len(), || self.entries())?.0;
        }
        Ok(())
    }

    /// Takes in everything that another filter holds, as if its keys had been inserted here too.
    ///
    /// Both must have one contract and as many possible fingerprints ([`QuotientShape::fingerprints`]): those built for
    /// the same items, `grow_to` and rate have, however far each has grown. All or nothing: a refused merge changes
    /// nothing.
    #[doc(alias = "union")]
    pub fn merge<B: Store>(&mut self, other: &Quotient<B>) -> Result<()> {
        if self.contract != other.contract {
            return Err(Error::new(
                ErrorKind::Contract,
                format!(
                    "a quotient filter under {:?} cannot take in one under {:?}; build both under one contract",
                    self.contract, other.contract
                ),
            ));
        }
        let (a, b) = (*self.shape(), *other.shape());
        if a.fingerprints() != b.fingerprints() {
            return Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "a quotient filter of {} slots of {} fingerprints ({} in all) cannot take in one of {} slots of {} \
                     ({} in all); build both for the same items, grow_to and rate",
                    a.slots(),
                    a.interval(),
                    a.fingerprints(),
                    b.slots(),
                    b.interval(),
                    b.fingerprints()
                ),
            ));
        }
        if shared::<B>() {
            let (table, len) = other.copy()?;
            return self.take_in(table.shape, len, || Entries::new(*table.shape.geometry(), table.store.as_slice()));
        }
        if !other.admit_all() {
            return Err(damaged());
        }
        self.take_in(b, other.len(), || other.entries())
    }

    fn take_in<R: ReadWords>(
        &mut self,
        other: QuotientShape,
        len: u64,
        entries: impl Fn() -> Entries<R>,
    ) -> Result<()> {
        let all = self.len().saturating_add(len);
        if self.promise.when_full == WhenFull::Refuse && all > self.promise.capacity {
            return Err(full(Kind::Quotient, self.promise.capacity));
        }
        let mut shape = if other.slots() > self.shape().slots() { other } else { *self.shape() };
        while shape.room() < all {
            let Some(larger) = shape.larger() else { break };
            shape = larger;
        }
        let (table, taken) = resized(shape, QuotientShape::larger, all, || Merged::new(self.entries(), entries()))?;
        self.first = table;
        self.set_len(taken);
        Ok(())
    }

    /// The fingerprints in the filter, ascending, each with its number of copies: all that it knows of its keys.
    #[doc(alias = "iter")]
    #[must_use]
    pub fn fingerprints(&self) -> Fingerprints<'_> {
        Fingerprints(self.entries())
    }

    /// Forgets everything; the shape as grown, the contract and the promise stay.
    pub fn clear(&mut self) {
        self.first.store.as_mut_slice().fill(0);
        self.set_len(0);
    }

    /// The same filter for many threads at once. Moves; nothing is copied.
    pub fn into_shared(self) -> Result<Quotient<Shared>> {
        let len = self.len();
        let table = Table { shape: self.first.shape, store: Shared::from_owned(self.first.store)? };
        Ok(Quotient::from_table(table, self.contract, self.promise, len))
    }
}

/// A table with the listed fingerprints, and how many slots they took: of the first shape, or of the first after it
/// that has room.
pub(super) fn resized<I: Iterator<Item = (u64, u64)>>(
    mut shape: QuotientShape,
    next: impl Fn(&QuotientShape) -> Option<QuotientShape>,
    keys: u64,
    entries: impl Fn() -> I,
) -> Result<(Table<Owned>, u64)> {
    loop {
        let mut store = Owned::zeroed(shape.words())?;
        match (write(shape.geometry(), store.as_mut_slice(), entries()), next(&shape)) {
            (Err(Unwritten::NoRoom), Some(larger)) if shape.grows_with(keys) => shape = larger,
            (result, _) => return Ok((Table { shape, store }, written(result, &shape)?)),
        }
    }
}

/// How many copies of a fingerprint there are in words of one's own.
pub(super) fn copies<R: ReadWords>(shape: &QuotientShape, words: R, digest: Digest) -> Option<u64> {
    let (geometry, home) = (shape.geometry(), shape.geometry().home(digest.lo));
    dispatch(Copies { geometry, lines: Plain(words), home })
}

impl Quotient<Mapped> {
    /// The fingerprints in the filter, ascending, each with its number of copies. Verifies the whole file first.
    pub fn fingerprints(&self) -> Result<Fingerprints<'_>> {
        if self.admit_all() { Ok(Fingerprints(self.entries())) } else { Err(damaged()) }
    }
}

/// The fingerprints of a filter, ascending, each with its number of copies.
#[derive(Clone)]
pub struct Fingerprints<'a>(Entries<&'a [u64]>);

impl Iterator for Fingerprints<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.0.next()
    }
}

impl std::fmt::Debug for Fingerprints<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fingerprints").finish_non_exhaustive()
    }
}

impl Clone for Quotient<Owned> {
    fn clone(&self) -> Self {
        // The original was allocated, so a refusal here is the same as any failed allocation of a clone.
        let mut copy = Self::empty(*self.shape(), self.contract.clone(), self.promise).expect("memory for a clone");
        copy.first.store.as_mut_slice().copy_from_slice(self.first.store.as_slice());
        copy.set_len(self.len());
        copy
    }
}
