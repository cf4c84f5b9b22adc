//! [`Foreign`]: everything that the foreign forms have in common, which is all but their header and where the cells go.

use std::fmt;

use super::shape::{Shape, check_contract};
use crate::arch::prefetch;
use crate::arch::words::ReadWords;
use crate::bits::{Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, check_lengths, pipeline};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::estimate::Estimate;
use crate::promise::{Promise, WhenFull, full, kept};

/// A filter of another system. Use it by the names of its forms: [`BfV1`](super::BfV1),
/// [`RedisBloom`](super::RedisBloom), [`RedisCuckoo`](super::RedisCuckoo), [`Guava`](super::Guava),
/// [`Parquet`](super::Parquet).
///
/// ```
/// use bloomgate::foreign::BfV1;
///
/// let mut seen = BfV1::builder().items(1_000).rate(0.01).build()?;
/// seen.insert("latte")?;
/// let there = BfV1::from_foreign(&seen.to_foreign()?)?;   // what the other program does with it
/// assert!(there.contains("latte")?);
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub struct Foreign<F: Shape, S: Store = Owned> {
    pub(super) shape: F,
    contract: Contract,
    promise: Promise,
    /// Keys counted here; forms that count in their header do so there.
    count: u64,
    pub(super) store: S,
}

/// Asking, in any place.
impl<F: Shape, S: Store> Foreign<F, S> {
    /// A filter from what a file holds. `len` is used by forms whose header does not count, and must agree with those
    /// that do.
    pub(crate) fn from_parts(shape: F, contract: Contract, promise: Promise, len: u64, store: S) -> Result<Self> {
        check_contract::<F>(&contract)?;
        let words = store.words().count() as u64;
        if words != shape.words() {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("a {} filter of this shape has {} words, and {words} are there", F::KIND, shape.words()),
            ));
        }
        if let Some(items) = shape.items().filter(|&items| items != len) {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("the {} filter counts {items} keys in its header and {len} beside it", F::KIND),
            ));
        }
        Ok(Self { shape, contract, promise, count: len, store })
    }

    /// Whether a key may have been inserted: false is certain, true is "maybe".
    #[doc(alias = "mightContain")]
    #[doc(alias = "exists")]
    pub fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.contains_digest(self.contract.digest(key)?))
    }

    /// [`contains`](Self::contains) for a digest made elsewhere under the same contract.
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        if S::CHECKED && !self.store.admitted() && !self.shape.each_word(digest, |word| self.store.admit(word)) {
            return true;
        }
        self.shape.contains(self.store.words(), digest)
    }

    /// Asks for many keys at once. `answers[i]` is the answer for `keys[i]`; both must be of one length.
    pub fn contains_batch<K: Key>(&self, keys: &[K], answers: &mut [bool]) -> Result<()> {
        check_lengths(keys.len(), answers.len())?;
        self.contains_all(KeyDigests { contract: &self.contract, keys }, answers)
    }

    /// [`contains_batch`](Self::contains_batch) for digests.
    pub fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        check_lengths(digests.len(), answers.len())?;
        self.contains_all(digests, answers)
    }

    fn contains_all(&self, mut digests: impl Digests, mut answers: &mut [bool]) -> Result<()> {
        pipeline(
            Digest::default(),
            |out| digests.next(out),
            |now, next| {
                next.iter().for_each(|&digest| self.fetch(digest));
                let (done, rest) = std::mem::take(&mut answers).split_at_mut(now.len());
                now.iter().zip(done).for_each(|(&digest, answer)| *answer = self.contains_digest(digest));
                answers = rest;
            },
        )
    }

    /// Asks memory for the first words of a key: a lookup of an absent one reads two on average.
    #[inline]
    fn fetch(&self, digest: Digest) {
        let mut left = 2;
        self.shape.each_word(digest, |word| {
            prefetch(self.store.words(), word);
            left -= 1;
            left > 0
        });
    }

    /// Refuses to write out words that cannot be believed (a damaged chunk of a mapped file).
    pub(super) fn check_words(&self) -> Result<()> {
        if S::CHECKED && !(0..self.store.words().count()).all(|word| self.store.admit(word)) {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "a chunk of the mapped filter is damaged and would be written out as it is; fetch the file again",
            ));
        }
        Ok(())
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        F::KIND
    }

    /// What a "no" means: the key was never inserted (or was removed, where the form can).
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        F::KIND.guarantee()
    }

    kept!(contract, when_full, promised_rate, is_empty);

    /// The numbers of its header.
    #[must_use]
    pub fn shape(&self) -> &F {
        &self.shape
    }

    pub(crate) fn promise(&self) -> Promise {
        Promise { capacity: self.capacity(), ..self.promise }
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    /// The memory of the cells, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.store.words().count() as u64 * 8
    }

    /// Keys that are in: as the header counts them, or else those that were certainly new when they were inserted here
    /// and those that the bits spoke of when the filter was read.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.shape.items().unwrap_or(self.count)
    }

    /// How many keys the filter was made for. A form that does not say was made, for all we know, for as many as set
    /// half its bits.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shape.capacity().unwrap_or(self.promise.capacity)
    }

    /// How many more keys fit before the promise ends, or before it grows.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.capacity().saturating_sub(self.len())
    }

    /// Whether the filter holds what it was made for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.remaining() == 0
    }

    /// The expected rate of this shape with what is in it now.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        self.shape.expected_rate(self.len())
    }

    /// The rate this shape would have with so many different keys.
    #[must_use]
    pub fn expected_rate_at(&self, items: u64) -> f64 {
        self.shape.expected_rate(items)
    }

    /// The rate that the cells as they are will show. Reads all of them.
    #[doc(alias = "expectedFpp")]
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        self.shape.estimated_rate(self.store.words())
    }

    /// How many bits are set, or how many slots hold a fingerprint. Reads all of them.
    #[must_use]
    pub fn set_cells(&self) -> u64 {
        self.shape.set_cells(self.store.words())
    }

    /// The share of bits that are set, or of slots that are taken. Reads all of them.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.set_cells() as f64 / self.shape.cells() as f64
    }

    /// How many different keys the cells speak of, with an interval. Reads all of them.
    #[doc(alias = "approximateElementCount")]
    #[must_use]
    pub fn approximate_count(&self) -> Estimate {
        self.shape.approximate_count(self.store.words())
    }
}

/// Inserting, alone.
impl<F: Shape> Foreign<F, Owned> {
    pub(super) fn empty(shape: F, contract: Contract, promise: Promise) -> Result<Self> {
        let store = Owned::zeroed(shape.words())?;
        Self::from_parts(shape, contract, promise, 0, store)
    }

    /// A filter that was read from its form: it counts the keys that its bits speak of, unless its header counts.
    pub(super) fn read(shape: F, contract: Contract, promise: Promise, store: Owned) -> Result<Self> {
        let len = shape.items().unwrap_or_else(|| shape.approximate_count(store.as_slice()).value.round() as u64);
        Self::from_parts(shape, contract, promise, len, store)
    }

    /// Inserts a key; true if it was certainly new.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        if !F::COPIES && self.promise.when_full == WhenFull::Refuse && self.is_full() {
            // A key that is there already needs no room.
            return if self.contains_digest(digest) { Ok(false) } else { Err(full(F::KIND, self.capacity())) };
        }
        let words = self.shape.words();
        let fresh = self.shape.insert(&mut self.store, digest)?;
        self.count = self.count.saturating_add(fresh.into());
        if self.shape.words() != words {
            // It grew: what it keeps now is that of the longer chain.
            self.promise.rate = self.promise.rate.max(self.shape.expected_rate(self.capacity()));
        }
        Ok(fresh)
    }

    /// The most bytes that inserting this digest may take beside what the filter has: 0 where there is room for it, or
    /// where it would be refused. For callers that have to find the memory first.
    #[must_use]
    pub fn growth_for(&self, digest: Digest) -> u64 {
        self.shape.growth(self.store.as_slice(), digest) * 8
    }

    /// Inserts many keys at once; how many were certainly new.
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
                next.iter().for_each(|&digest| self.fetch(digest));
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

    /// Forgets everything; the shape (links and tables that were opened too), the contract and the promise stay.
    pub fn clear(&mut self) {
        self.store.as_mut_slice().fill(0);
        self.shape.clear();
        self.count = 0;
    }
}

impl<F: Shape> Clone for Foreign<F, Owned> {
    fn clone(&self) -> Self {
        // The original was allocated, so a refusal here is the same as any failed allocation of a clone.
        let mut store = Owned::zeroed(self.shape.words()).expect("memory for a clone");
        store.as_mut_slice().copy_from_slice(self.store.as_slice());
        Self {
            shape: self.shape.clone(),
            contract: self.contract.clone(),
            promise: self.promise,
            count: self.count,
            store,
        }
    }
}

impl<F: Shape, S: Store> fmt::Debug for Foreign<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign")
            .field("shape", &self.shape)
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Same contract, same shape, same cells.
impl<F: Shape, A: Store, B: Store> PartialEq<Foreign<F, B>> for Foreign<F, A> {
    fn eq(&self, other: &Foreign<F, B>) -> bool {
        let (a, b) = (self.store.words(), other.store.words());
        self.shape == other.shape
            && self.contract == other.contract
            && (0..a.count()).all(|at| a.load(at) == b.load(at))
    }
}
