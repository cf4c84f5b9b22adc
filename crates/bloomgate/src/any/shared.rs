//! A filter of any kind for many threads at once: what a program that serves filters of all kinds asks of them.

use std::time::Duration;

use super::{AnyFilter, never_removes};
use crate::bits::{Owned, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::format::save;
use crate::hash::Digest;
use crate::kind::Kind;
use crate::promise::Insertion;

#[cold]
fn for_one_owner(kind: Kind) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("a {kind} filter is not written by many threads: keep it with one owner, behind a lock of your own"),
    )
}

/// The same call on the kinds that many threads may write to; the others refuse.
macro_rules! on_shared {
    ($any:expr, $filter:ident => $call:expr) => {
        match $any {
            AnyFilter::Classic($filter) => $call,
            AnyFilter::Blocked($filter) => $call,
            AnyFilter::Partitioned($filter) => $call,
            AnyFilter::Counting($filter) => $call,
            AnyFilter::Scalable($filter) => $call,
            AnyFilter::Rotating($filter) => $call,
            AnyFilter::Cuckoo($filter) => $call,
            AnyFilter::GrowingCuckoo($filter) => $call,
            AnyFilter::Quotient($filter) => $call,
            other => Err(for_one_owner(other.kind())),
        }
    };
}

impl AnyFilter<Owned> {
    /// The same filter for many threads at once. Moves; nothing is copied. Refused by the kinds that one owner alone
    /// changes (stable filters, those of other systems) and by those that nobody does (fuse, ribbon): share these by an
    /// `Arc`, behind a lock where they are written to.
    ///
    /// ```
    /// use bloomgate::{AnyFilter, Blocked, Insertion};
    ///
    /// let owned: AnyFilter = Blocked::builder().items(1_000).build()?.into();
    /// let shared = owned.into_shared()?;
    /// let digests = [shared.contract().digest("a key")?];
    /// shared.insert_each(&digests, &mut [Insertion::Full])?;
    /// assert!(shared.contains("a key")? && shared.copy()?.contains("a key")?);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    pub fn into_shared(self) -> Result<AnyFilter<Shared>> {
        on_shared!(self, filter => Ok(filter.into_shared()?.into()))
    }
}

impl AnyFilter<Shared> {
    /// Has the kernel find the memory of the filter now, so that no insert waits for it later; others go on using it.
    /// Kinds that seldom are large enough for it to matter (rings, quotient filters, growing cuckoo filters) do nothing.
    pub fn bring_in(&self) {
        match self {
            AnyFilter::Classic(filter) => filter.bring_in(),
            AnyFilter::Blocked(filter) => filter.bring_in(),
            AnyFilter::Partitioned(filter) => filter.bring_in(),
            AnyFilter::Counting(filter) => filter.bring_in(),
            AnyFilter::Scalable(filter) => filter.bring_in(),
            AnyFilter::Cuckoo(filter) => filter.bring_in(),
            _ => {}
        }
    }

    /// Inserts many digests and says of each what became of it: `outcomes[i]` is that of `digests[i]`, and both must be
    /// of one length.
    pub fn insert_each(&self, digests: &[Digest], outcomes: &mut [Insertion]) -> Result<()> {
        on_shared!(self, filter => filter.insert_each(digests, outcomes))
    }

    /// Inserts digests that were new when they were first inserted, as a log tells, in its order. Kinds that have an
    /// [image](Self::image) count each of them, even if its bits are there already: after the image of one moment and the
    /// replay of everything since, stages and counts are those of before. The others insert them once more.
    pub fn replay(&self, digests: &[Digest]) -> Result<()> {
        match self {
            AnyFilter::Classic(filter) => filter.replay(digests),
            AnyFilter::Blocked(filter) => filter.replay(digests),
            AnyFilter::Partitioned(filter) => filter.replay(digests),
            AnyFilter::Scalable(filter) => filter.replay(digests),
            other => on_shared!(other, filter => filter.insert_digests(digests).map(drop)),
        }
    }

    /// Removes a digest that was inserted, if the kind can; false if it was certainly absent.
    pub fn remove_digest(&self, digest: Digest) -> Result<bool> {
        match self {
            AnyFilter::Counting(filter) => Ok(filter.remove_digest(digest)),
            AnyFilter::Cuckoo(filter) => Ok(filter.remove_digest(digest)),
            AnyFilter::GrowingCuckoo(filter) => Ok(filter.remove_digest(digest)),
            AnyFilter::Quotient(filter) => Ok(filter.remove_digest(digest)),
            other => Err(never_removes(other.kind())),
        }
    }

    /// Tells a rotating filter the time, since any beginning: see [`Rotating::advance`](crate::Rotating::advance). The
    /// other kinds know no time, and nothing happens.
    pub fn advance(&self, now: Duration) {
        if let AnyFilter::Rotating(filter) = self {
            filter.advance(now);
        }
    }

    /// A copy for one owner, of the filter as it is now. Kinds whose cells move are copied while nobody changes them; of
    /// the others every key inserted before the call is in the copy, and of those inserted during it, some.
    pub fn copy(&self) -> Result<AnyFilter<Owned>> {
        save::copy(self)
    }

    /// The same filter for one owner. Moves; nothing is copied.
    pub fn into_owned(self) -> Result<AnyFilter<Owned>> {
        on_shared!(self, filter => Ok(filter.into_owned()?.into()))
    }
}
