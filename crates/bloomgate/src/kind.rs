//! The kinds of filter, what each can do, and what a "no" from each of them means.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// A kind of filter. The numbers are part of the file format and never change their meaning.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// k bits anywhere in one array.
    Classic = 1,
    /// All bits of a key in one cache line.
    Blocked = 2,
    /// One bit in each of k slices.
    Partitioned = 3,
    /// Counters instead of bits: keys can be removed.
    Counting = 4,
    /// A chain of stages that grows.
    Scalable = 5,
    /// Generations over a window of time: the oldest go.
    Rotating = 6,
    /// Cells that decay: an endless stream in fixed memory.
    Stable = 7,
    /// Fingerprints in buckets that move to make room.
    Cuckoo = 8,
    /// A chain of cuckoo tables that grows.
    GrowingCuckoo = 9,
    /// Sorted remainders: can be listed, merged and grown.
    Quotient = 10,
    /// Three fingerprints that xor to the key's: built once.
    Fuse = 11,
    /// A system of equations over bits, near the least size there is: built once.
    Ribbon = 12,
    /// A filter in the `BFv1` wire form.
    BfV1 = 13,
    /// RedisBloom's Bloom filter (`BF.*`).
    RedisBloom = 14,
    /// RedisBloom's cuckoo filter (`CF.*`).
    RedisCuckoo = 15,
    /// Guava's `BloomFilter`.
    Guava = 16,
    /// Parquet's split-block Bloom filter.
    Parquet = 17,
}

impl Kind {
    /// Every kind this version knows.
    pub const ALL: [Kind; 17] = [
        Kind::Classic,
        Kind::Blocked,
        Kind::Partitioned,
        Kind::Counting,
        Kind::Scalable,
        Kind::Rotating,
        Kind::Stable,
        Kind::Cuckoo,
        Kind::GrowingCuckoo,
        Kind::Quotient,
        Kind::Fuse,
        Kind::Ribbon,
        Kind::BfV1,
        Kind::RedisBloom,
        Kind::RedisCuckoo,
        Kind::Guava,
        Kind::Parquet,
    ];

    /// The frozen number of this kind.
    #[must_use]
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The kind with this number, if this version knows it.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Its name, as the command line and `Display` write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Classic => "classic",
            Kind::Blocked => "blocked",
            Kind::Partitioned => "partitioned",
            Kind::Counting => "counting",
            Kind::Scalable => "scalable",
            Kind::Rotating => "rotating",
            Kind::Stable => "stable",
            Kind::Cuckoo => "cuckoo",
            Kind::GrowingCuckoo => "growing-cuckoo",
            Kind::Quotient => "quotient",
            Kind::Fuse => "fuse",
            Kind::Ribbon => "ribbon",
            Kind::BfV1 => "bfv1",
            Kind::RedisBloom => "redisbloom",
            Kind::RedisCuckoo => "rediscuckoo",
            Kind::Guava => "guava",
            Kind::Parquet => "parquet",
        }
    }

    /// What a "no" from this kind means.
    #[must_use]
    pub fn guarantee(self) -> Guarantee {
        match self {
            Kind::Rotating => Guarantee::Window,
            Kind::Stable => Guarantee::Forgetful,
            _ => Guarantee::Superset,
        }
    }

    /// Whether keys can be inserted after it was built.
    #[must_use]
    pub fn takes_inserts(self) -> bool {
        !matches!(self, Kind::Fuse | Kind::Ribbon)
    }

    /// Whether keys can be removed one by one.
    #[must_use]
    pub fn takes_removals(self) -> bool {
        matches!(self, Kind::Counting | Kind::Cuckoo | Kind::GrowingCuckoo | Kind::Quotient | Kind::RedisCuckoo)
    }

    /// Whether it becomes larger as keys come.
    #[must_use]
    pub fn grows(self) -> bool {
        matches!(self, Kind::Scalable | Kind::GrowingCuckoo | Kind::Quotient | Kind::RedisBloom | Kind::RedisCuckoo)
    }

    /// Whether two filters of one shape and contract can be made into one of all their keys.
    #[must_use]
    pub fn merges(self) -> bool {
        use Kind::{Blocked, Classic, Counting, Partitioned, Quotient, Scalable};
        matches!(self, Classic | Blocked | Partitioned | Counting | Scalable | Quotient)
    }

    /// Whether another system's form and hash are kept: such a filter merges with none of ours.
    #[must_use]
    pub fn is_foreign(self) -> bool {
        matches!(self, Kind::BfV1 | Kind::RedisBloom | Kind::RedisCuckoo | Kind::Guava | Kind::Parquet)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            Error::new(
                ErrorKind::InvalidParameter,
                format!("there is no kind of filter called {name:?}; choose one of {}", known.join(", ")),
            )
        })
    }
}

/// What a "no" means.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guarantee {
    /// The filter covers every key that was inserted (and not removed): a "no" is a proof of absence.
    Superset,
    /// It covers every key that was inserted within the window: a "no" is a proof of absence from the window.
    Window,
    /// It covers recent keys, as far as it remembers: a "no" means "not seen lately", and proves nothing.
    Forgetful,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Guarantee::Superset => "superset",
            Guarantee::Window => "window",
            Guarantee::Forgetful => "forgetful",
        })
    }
}
