//! [`AnyFilter`]: one enum over the kinds, for programs that learn the kind from a file or a user.

use crate::bits::{Owned, Store};
use crate::bloom::{Blocked, Classic, Counting, Partitioned, Scalable};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::estimate::Estimate;
use crate::promise::WhenFull;

/// A filter of any kind.
///
/// Dispatch is by `match`, once per call and so once per batch.
#[non_exhaustive]
#[derive(Debug)]
pub enum AnyFilter<S: Store = Owned> {
    /// k bits anywhere in one array.
    Classic(Classic<S>),
    /// All bits of a key in one cache line.
    Blocked(Blocked<S>),
    /// One bit in each of k slices.
    Partitioned(Partitioned<S>),
    /// Counters instead of bits.
    Counting(Counting<S>),
    /// A chain of stages that grows.
    Scalable(Scalable<S>),
}

macro_rules! on {
    ($any:expr, $filter:ident => $call:expr) => {
        match $any {
            AnyFilter::Classic($filter) => $call,
            AnyFilter::Blocked($filter) => $call,
            AnyFilter::Partitioned($filter) => $call,
            AnyFilter::Counting($filter) => $call,
            AnyFilter::Scalable($filter) => $call,
        }
    };
}

impl<S: Store> AnyFilter<S> {
    /// Whether a key may have been inserted: false is certain, true is "maybe".
    pub fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        on!(self, filter => filter.contains(key))
    }

    /// [`contains`](Self::contains) for a digest made under the filter's contract.
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        on!(self, filter => filter.contains_digest(digest))
    }

    /// Asks for many keys at once. `answers[i]` is the answer for `keys[i]`; both must be of one length.
    pub fn contains_batch<K: Key>(&self, keys: &[K], answers: &mut [bool]) -> Result<()> {
        on!(self, filter => filter.contains_batch(keys, answers))
    }

    /// [`contains_batch`](Self::contains_batch) for digests.
    pub fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        on!(self, filter => filter.contains_digests(digests, answers))
    }

    /// The kind of the filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        on!(self, filter => filter.kind())
    }

    /// What a "no" means.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        self.kind().guarantee()
    }

    /// How keys become digests.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        on!(self, filter => filter.contract())
    }

    /// Keys that were certainly new when they were inserted (counting: inserted less removed).
    #[must_use]
    pub fn len(&self) -> u64 {
        on!(self, filter => filter.len())
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys it was made for; for a chain, its open stages.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        on!(self, filter => filter.capacity())
    }

    /// How many more keys fit.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        on!(self, filter => filter.remaining())
    }

    /// Whether it holds what it was made for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        on!(self, filter => filter.is_full())
    }

    /// What an insert does past the capacity.
    #[must_use]
    pub fn when_full(&self) -> WhenFull {
        on!(self, filter => filter.when_full())
    }

    /// The memory of the filter, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        on!(self, filter => filter.size_in_bytes())
    }

    /// The rate that was asked for.
    #[must_use]
    pub fn promised_rate(&self) -> f64 {
        on!(self, filter => filter.promised_rate())
    }

    /// The exact expected rate with what was inserted so far.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        on!(self, filter => filter.expected_rate())
    }

    /// The rate that the bits as they are will show. Reads all of them.
    pub fn estimated_rate(&self) -> Result<f64> {
        match self {
            AnyFilter::Classic(filter) => Ok(filter.estimated_rate()),
            AnyFilter::Blocked(filter) => Ok(filter.estimated_rate()),
            AnyFilter::Partitioned(filter) => Ok(filter.estimated_rate()),
            AnyFilter::Counting(filter) => filter.estimated_rate(),
            AnyFilter::Scalable(filter) => Ok(filter.estimated_rate()),
        }
    }

    /// The share of bits (or counters) that are set. Reads all of them.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        on!(self, filter => filter.fill_ratio())
    }

    /// How many different keys the bits speak of, with an interval. Reads all of them.
    #[must_use]
    pub fn approximate_count(&self) -> Estimate {
        on!(self, filter => filter.approximate_count())
    }
}

impl AnyFilter<Owned> {
    /// Inserts a key; true if it was certainly new.
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        on!(self, filter => filter.insert(key))
    }

    /// [`insert`](Self::insert) for a digest made under the filter's contract.
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        on!(self, filter => filter.insert_digest(digest))
    }

    /// Inserts many keys at once; how many were certainly new.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<u64> {
        on!(self, filter => filter.insert_batch(keys))
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
        on!(self, filter => filter.insert_digests(digests))
    }

    /// Inserts everything an iterator gives; how many were certainly new.
    pub fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        on!(self, filter => filter.insert_all(keys))
    }

    /// Forgets everything; a chain goes back to one stage.
    pub fn clear(&mut self) -> Result<()> {
        match self {
            AnyFilter::Classic(filter) => filter.clear(),
            AnyFilter::Blocked(filter) => filter.clear(),
            AnyFilter::Partitioned(filter) => filter.clear(),
            AnyFilter::Counting(filter) => filter.clear(),
            AnyFilter::Scalable(filter) => filter.clear()?,
        }
        Ok(())
    }

    /// Removes a key, if the kind can; false if it was certainly absent.
    pub fn remove<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        match self {
            AnyFilter::Counting(filter) => filter.remove(key),
            other => Err(Error::new(
                ErrorKind::Unsupported,
                format!("a {} filter cannot remove keys: its bits are shared; use a counting filter", other.kind()),
            )),
        }
    }
}

impl Clone for AnyFilter<Owned> {
    fn clone(&self) -> Self {
        on!(self, filter => filter.clone().into())
    }
}

macro_rules! from_kind {
    ($($variant:ident),*) => {$(
        impl<S: Store> From<$variant<S>> for AnyFilter<S> {
            fn from(filter: $variant<S>) -> Self {
                AnyFilter::$variant(filter)
            }
        }
    )*};
}
from_kind!(Classic, Blocked, Partitioned, Counting, Scalable);
