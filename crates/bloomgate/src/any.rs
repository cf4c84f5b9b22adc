//! [`AnyFilter`]: one enum over the kinds, for programs that learn the kind from a file or a user.

mod look;
#[cfg(test)]
mod look_tests;
mod parts;
mod sets;
mod shared;
#[cfg(test)]
mod tests;

pub use look::{LineSample, Look, Since};
pub use parts::{Heat, Lines, Part, Trace};

use crate::bits::{Owned, Store};
use crate::bloom::{Blocked, Classic, Counting, Partitioned, Rotating, Scalable, Stable};
use crate::cuckoo::{Cuckoo, GrowingCuckoo};
use crate::error::{Error, ErrorKind, Result};
use crate::foreign::{BfV1, Form, Guava, Parquet, RedisBloom, RedisCuckoo};
use crate::fuse::Fuse;
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::estimate::Estimate;
use crate::promise::WhenFull;
use crate::quotient::Quotient;
use crate::ribbon::Ribbon;

/// A filter of any kind.
///
/// Dispatch is by `match`, once per call and so once per batch. What a kind cannot do is refused with
/// [`ErrorKind::Unsupported`]; [`Kind`] says beforehand what it can ([`Kind::takes_inserts`], [`Kind::takes_removals`],
/// [`Kind::grows`], [`Kind::merges`]) and what its "no" means ([`Kind::guarantee`]).
///
/// **Ask [`guarantee`](Self::guarantee) before you rely on a "no"**: a rotating filter speaks of its window alone, and a
/// stable one proves nothing.
///
/// ```
/// use bloomgate::{AnyFilter, Cuckoo, Fuse, Guarantee};
///
/// let mut sessions = Cuckoo::builder().items(1_000).build()?;
/// sessions.insert("alice")?;
/// let mut any = AnyFilter::from_bytes(&sessions.to_bytes()?)?; // whatever the file holds
/// assert_eq!(any.guarantee(), Guarantee::Superset);            // its "no" is a proof
/// assert!(any.kind().takes_removals() && any.remove("alice")?);
///
/// let mut list: AnyFilter = Fuse::builder().build_from(["mallory"])?.into();
/// assert!(!list.kind().takes_inserts() && list.insert("eve").is_err()); // refused, never half done
/// # Ok::<(), bloomgate::Error>(())
/// ```
#[non_exhaustive]
#[derive(Debug)]
// One filter is one value, not an array of them: boxing would cost every call a step for a few hundred bytes.
#[allow(clippy::large_enum_variant)]
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
    /// Generations over a window of time.
    Rotating(Rotating<S>),
    /// Cells that decay.
    Stable(Stable<S>),
    /// Fingerprints in buckets.
    Cuckoo(Cuckoo<S>),
    /// A chain of cuckoo tables that grows.
    GrowingCuckoo(GrowingCuckoo<S>),
    /// Sorted remainders.
    Quotient(Quotient<S>),
    /// Three fingerprints that xor to the key's.
    Fuse(Fuse<S>),
    /// A system of equations over bits.
    Ribbon(Ribbon<S>),
    /// The `BFv1` wire form.
    BfV1(BfV1<S>),
    /// RedisBloom's Bloom filter.
    RedisBloom(RedisBloom<S>),
    /// RedisBloom's cuckoo filter.
    RedisCuckoo(RedisCuckoo<S>),
    /// Guava's `BloomFilter`.
    Guava(Guava<S>),
    /// Parquet's split-block filter.
    Parquet(Parquet<S>),
}

/// Calls another macro with the names of all kinds, which are those of the variants and of [`Kind`].
macro_rules! every_kind {
    ($work:ident) => {
        $work! {
            Classic,
            Blocked,
            Partitioned,
            Counting,
            Scalable,
            Rotating,
            Stable,
            Cuckoo,
            GrowingCuckoo,
            Quotient,
            Fuse,
            Ribbon,
            BfV1,
            RedisBloom,
            RedisCuckoo,
            Guava,
            Parquet
        }
    };
}
pub(crate) use every_kind;

/// The same call on whichever kind it is.
macro_rules! on {
    ($any:expr, $filter:ident => $call:expr) => {
        match $any {
            AnyFilter::Classic($filter) => $call,
            AnyFilter::Blocked($filter) => $call,
            AnyFilter::Partitioned($filter) => $call,
            AnyFilter::Counting($filter) => $call,
            AnyFilter::Scalable($filter) => $call,
            AnyFilter::Rotating($filter) => $call,
            AnyFilter::Stable($filter) => $call,
            AnyFilter::Cuckoo($filter) => $call,
            AnyFilter::GrowingCuckoo($filter) => $call,
            AnyFilter::Quotient($filter) => $call,
            AnyFilter::Fuse($filter) => $call,
            AnyFilter::Ribbon($filter) => $call,
            AnyFilter::BfV1($filter) => $call,
            AnyFilter::RedisBloom($filter) => $call,
            AnyFilter::RedisCuckoo($filter) => $call,
            AnyFilter::Guava($filter) => $call,
            AnyFilter::Parquet($filter) => $call,
        }
    };
}
pub(crate) use on;

/// The same for the kinds that take inserts; the others refuse.
macro_rules! on_growable {
    ($any:expr, $filter:ident => $call:expr) => {
        match $any {
            AnyFilter::Classic($filter) => $call,
            AnyFilter::Blocked($filter) => $call,
            AnyFilter::Partitioned($filter) => $call,
            AnyFilter::Counting($filter) => $call,
            AnyFilter::Scalable($filter) => $call,
            AnyFilter::Rotating($filter) => $call,
            AnyFilter::Stable($filter) => $call,
            AnyFilter::Cuckoo($filter) => $call,
            AnyFilter::GrowingCuckoo($filter) => $call,
            AnyFilter::Quotient($filter) => $call,
            AnyFilter::BfV1($filter) => $call,
            AnyFilter::RedisBloom($filter) => $call,
            AnyFilter::RedisCuckoo($filter) => $call,
            AnyFilter::Guava($filter) => $call,
            AnyFilter::Parquet($filter) => $call,
            AnyFilter::Fuse(_) | AnyFilter::Ribbon(_) => Err(built_once($any.kind())),
        }
    };
}

/// What some kinds do without fail and others may refuse.
trait Outcome<T> {
    fn outcome(self) -> Result<T>;
}

impl<T> Outcome<T> for T {
    fn outcome(self) -> Result<T> {
        Ok(self)
    }
}

impl<T> Outcome<T> for Result<T> {
    fn outcome(self) -> Result<T> {
        self
    }
}

impl<S: Store> AnyFilter<S> {
    /// Whether a key may have been inserted: false is as certain as [`guarantee`](Self::guarantee) says, true is "maybe".
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

    /// Keys that were certainly new when they were inserted; kinds that remove: inserted less removed; a stable filter: all
    /// insertions ever.
    #[must_use]
    pub fn len(&self) -> u64 {
        on!(self, filter => filter.len())
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys it was made for; a chain: its open stages; a ring: a window; a stable filter: the insertions that it
    /// certainly remembers.
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
        on!(self, filter => filter.estimated_rate().outcome())
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

impl<S: Store> AnyFilter<S> {
    /// How often a digest is there, inserted less removed, by kinds that count: never too low (up to the number at which
    /// theirs sticks), sometimes too high. Refused by the others.
    pub fn count_of_digest(&self, digest: Digest) -> Result<u64> {
        match self {
            AnyFilter::Counting(filter) => filter.count_of_digest(digest),
            AnyFilter::Cuckoo(filter) => filter.count_of_digest(digest),
            AnyFilter::GrowingCuckoo(filter) => filter.count_of_digest(digest),
            AnyFilter::Quotient(filter) => filter.count_of_digest(digest),
            AnyFilter::RedisCuckoo(filter) => filter.count_of_digest(digest),
            other => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "a {} filter does not count how often a key came: use a quotient, cuckoo or counting filter",
                    other.kind()
                ),
            )),
        }
    }
}

impl<S: Store> AnyFilter<S> {
    /// The most copies of one key that are held and removed exactly: one more sticks, or is refused where copies are
    /// [exact](crate::cuckoo::CopyRule::Exact). None for kinds whose copies have no slots of their own, and for those of
    /// other systems.
    #[must_use]
    pub fn max_copies(&self) -> Option<u64> {
        match self {
            AnyFilter::Cuckoo(filter) => Some(filter.max_copies()),
            AnyFilter::GrowingCuckoo(filter) => Some(filter.max_copies()),
            AnyFilter::Quotient(_) => Some(crate::quotient::MAX_COPIES),
            _ => None,
        }
    }
}

impl AnyFilter<Owned> {
    /// Inserts a key; true if it was certainly new. Refused by kinds that are built once.
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        on_growable!(self, filter => filter.insert(key))
    }

    /// [`insert`](Self::insert) for a digest made under the filter's contract.
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        on_growable!(self, filter => filter.insert_digest(digest))
    }

    /// The most bytes that inserting this digest may take beside what the filter has, for the filters of RedisBloom, which
    /// grow by themselves; 0 for the other kinds that one owner changes. Chains of ours say it by
    /// [`next_stage_bytes`](Scalable::next_stage_bytes).
    #[must_use]
    pub fn growth_for(&self, digest: Digest) -> u64 {
        match self {
            AnyFilter::RedisBloom(filter) => filter.growth_for(digest),
            AnyFilter::RedisCuckoo(filter) => filter.growth_for(digest),
            _ => 0,
        }
    }

    /// Inserts many keys at once; how many were certainly new.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<u64> {
        on_growable!(self, filter => filter.insert_batch(keys))
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
        on_growable!(self, filter => filter.insert_digests(digests))
    }

    /// Inserts everything an iterator gives; how many were certainly new.
    pub fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        on_growable!(self, filter => filter.insert_all(keys))
    }

    /// Forgets everything; a chain goes back to one stage. Refused by kinds that are built once.
    #[allow(clippy::unit_arg)] // what most kinds' `clear` gives, made a `Result` like the others'
    pub fn clear(&mut self) -> Result<()> {
        on_growable!(self, filter => Outcome::<()>::outcome(filter.clear()))
    }

    /// Removes a key, if the kind can; false if it was certainly absent.
    pub fn remove<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        let digest = self.contract().digest(key)?;
        self.remove_digest(digest)
    }

    /// [`remove`](Self::remove) for a digest made elsewhere under the same contract.
    pub fn remove_digest(&mut self, digest: Digest) -> Result<bool> {
        match self {
            AnyFilter::Counting(filter) => Ok(filter.remove_digest(digest)),
            AnyFilter::Cuckoo(filter) => Ok(filter.remove_digest(digest)),
            AnyFilter::GrowingCuckoo(filter) => Ok(filter.remove_digest(digest)),
            AnyFilter::Quotient(filter) => Ok(filter.remove_digest(digest)),
            AnyFilter::RedisCuckoo(filter) => Ok(filter.remove_digest(digest)),
            other => Err(never_removes(other.kind())),
        }
    }

    /// Takes in all keys of another filter of the same kind, shape and contract: bits are united (of chains stage by stage),
    /// counters and sorted fingerprints added. All or nothing: what does not fit is refused with both sides named.
    #[doc(alias = "merge")]
    pub fn union_with<T: Store>(&mut self, other: &AnyFilter<T>) -> Result<()> {
        match (self, other) {
            (AnyFilter::Classic(ours), AnyFilter::Classic(theirs)) => ours.union_with(theirs),
            (AnyFilter::Blocked(ours), AnyFilter::Blocked(theirs)) => ours.union_with(theirs),
            (AnyFilter::Partitioned(ours), AnyFilter::Partitioned(theirs)) => ours.union_with(theirs),
            (AnyFilter::Counting(ours), AnyFilter::Counting(theirs)) => ours.union_with(theirs),
            (AnyFilter::Scalable(ours), AnyFilter::Scalable(theirs)) => ours.union_with(theirs),
            (AnyFilter::Quotient(ours), AnyFilter::Quotient(theirs)) => ours.merge(theirs),
            (ours, theirs) if ours.kind() == theirs.kind() => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "two {} filters cannot be made into one without their keys: build it again from the keys of both, or \
                     ask both",
                    ours.kind()
                ),
            )),
            (ours, theirs) => Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "a {} filter ({}) and a {} filter ({}) do not unite: build both of one kind, shape and contract",
                    ours.kind(),
                    ours.contract(),
                    theirs.kind(),
                    theirs.contract()
                ),
            )),
        }
    }

    /// Reads a filter of another system, in the form that is named. RedisBloom's forms are dump files.
    ///
    /// Guava's and Parquet's forms do not say what their keys are: with the wrong encoding every answer would be "no".
    pub fn from_foreign(bytes: &[u8], form: Form) -> Result<Self> {
        Ok(match form {
            Form::BfV1 => BfV1::from_foreign(bytes)?.into(),
            Form::RedisBloom => RedisBloom::from_dump(bytes)?.into(),
            Form::RedisCuckoo => RedisCuckoo::from_dump(bytes)?.into(),
            Form::Guava(encoding) => Guava::from_foreign(bytes, encoding)?.into(),
            Form::Parquet(encoding) => Parquet::from_foreign(bytes, encoding)?.into(),
        })
    }
}

impl<S: Store> AnyFilter<S> {
    /// A filter of another system in its own form again, for that system to read. Refused for our own kinds.
    pub fn to_foreign(&self) -> Result<Vec<u8>> {
        match self {
            AnyFilter::BfV1(filter) => filter.to_foreign(),
            AnyFilter::RedisBloom(filter) => filter.to_dump(),
            AnyFilter::RedisCuckoo(filter) => filter.to_dump(),
            AnyFilter::Guava(filter) => filter.to_foreign(),
            AnyFilter::Parquet(filter) => filter.to_foreign(),
            ours => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "a {} filter is in no form but our own: save it, or build a filter in the form of the other system",
                    ours.kind()
                ),
            )),
        }
    }
}

#[cold]
fn never_removes(kind: Kind) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("a {kind} filter cannot remove keys: use a cuckoo, quotient or counting filter for keys that go again"),
    )
}

#[cold]
fn built_once(kind: Kind) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("a {kind} filter is built once from all its keys and cannot be changed: build a new one from all keys"),
    )
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
every_kind!(from_kind);
