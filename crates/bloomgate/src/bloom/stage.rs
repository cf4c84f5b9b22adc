//! A stage of a chain: any of the fixed-size kinds, by enum.

use super::{Blocked, Classic, Partitioned};
use crate::bits::{Owned, Shared, Store};
use crate::error::Result;
use crate::hash::Digest;
use crate::key::Key;
use crate::math::estimate::Estimate;
use crate::promise::Insertion;

/// One fixed-size filter of a chain.
pub(crate) enum Stage<S: Store> {
    Blocked(Blocked<S>),
    Classic(Classic<S>),
    Partitioned(Partitioned<S>),
}

/// The same call on whichever kind it is.
macro_rules! on {
    ($stage:expr, $filter:ident => $call:expr) => {
        match $stage {
            Stage::Blocked($filter) => $call,
            Stage::Classic($filter) => $call,
            Stage::Partitioned($filter) => $call,
        }
    };
}

impl<S: Store> Stage<S> {
    #[inline]
    pub(crate) fn contains_digest(&self, digest: Digest) -> bool {
        on!(self, filter => filter.contains_digest(digest))
    }
    pub(crate) fn contains_batch<K: Key>(&self, keys: &[K], answers: &mut [bool]) -> Result<()> {
        on!(self, filter => filter.contains_batch(keys, answers))
    }
    pub(crate) fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        on!(self, filter => filter.contains_digests(digests, answers))
    }
    pub(crate) fn len(&self) -> u64 {
        on!(self, filter => filter.len())
    }
    pub(crate) fn capacity(&self) -> u64 {
        on!(self, filter => filter.capacity())
    }
    pub(crate) fn remaining(&self) -> u64 {
        on!(self, filter => filter.remaining())
    }
    pub(crate) fn is_full(&self) -> bool {
        on!(self, filter => filter.is_full())
    }
    pub(crate) fn bits(&self) -> u64 {
        on!(self, filter => filter.bits())
    }
    pub(crate) fn size_in_bytes(&self) -> u64 {
        on!(self, filter => filter.size_in_bytes())
    }
    pub(crate) fn bring_in(&self) {
        on!(self, filter => filter.bring_in());
    }
    pub(crate) fn set_bits(&self) -> u64 {
        on!(self, filter => filter.set_bits())
    }
    pub(crate) fn expected_rate(&self) -> f64 {
        on!(self, filter => filter.expected_rate())
    }
    pub(crate) fn estimated_rate(&self) -> f64 {
        on!(self, filter => filter.estimated_rate())
    }
    pub(crate) fn approximate_count(&self) -> Estimate {
        on!(self, filter => filter.approximate_count())
    }
}

impl Stage<Owned> {
    #[inline]
    pub(crate) fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        on!(self, filter => filter.insert_digest(digest))
    }

    pub(crate) fn into_shared(self) -> Result<Stage<Shared>> {
        Ok(match self {
            Stage::Blocked(filter) => Stage::Blocked(filter.into_shared()?),
            Stage::Classic(filter) => Stage::Classic(filter.into_shared()?),
            Stage::Partitioned(filter) => Stage::Partitioned(filter.into_shared()?),
        })
    }
}

impl Clone for Stage<Owned> {
    fn clone(&self) -> Self {
        match self {
            Stage::Blocked(filter) => Stage::Blocked(filter.clone()),
            Stage::Classic(filter) => Stage::Classic(filter.clone()),
            Stage::Partitioned(filter) => Stage::Partitioned(filter.clone()),
        }
    }
}

impl<A: Store, B: Store> PartialEq<Stage<B>> for Stage<A> {
    fn eq(&self, other: &Stage<B>) -> bool {
        match (self, other) {
            (Stage::Blocked(a), Stage::Blocked(b)) => a == b,
            (Stage::Classic(a), Stage::Classic(b)) => a == b,
            (Stage::Partitioned(a), Stage::Partitioned(b)) => a == b,
            _ => false,
        }
    }
}

impl Stage<Shared> {
    #[inline]
    pub(crate) fn insert_digest_shared(&self, digest: Digest) -> Result<bool> {
        on!(self, filter => filter.insert_digest(digest))
    }

    pub(crate) fn insert_each_at_once(&self, digests: &[Digest], outcomes: &mut [Insertion]) {
        on!(self, filter => filter.insert_each_at_once(digests, outcomes));
    }

    pub(crate) fn replay(&self, digests: &[Digest]) -> Result<()> {
        on!(self, filter => filter.replay(digests))
    }

    pub(crate) fn has_room_for(&self, keys: usize) -> bool {
        on!(self, filter => filter.has_room_for(keys))
    }

    pub(crate) fn into_owned(self) -> Result<Stage<Owned>> {
        Ok(match self {
            Stage::Blocked(filter) => Stage::Blocked(filter.into_owned()?),
            Stage::Classic(filter) => Stage::Classic(filter.into_owned()?),
            Stage::Partitioned(filter) => Stage::Partitioned(filter.into_owned()?),
        })
    }
}
