//! The kinds of filter, and what a "no" from each of them means.

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
}

impl Kind {
    /// Every kind this version knows.
    pub const ALL: [Kind; 5] = [Kind::Classic, Kind::Blocked, Kind::Partitioned, Kind::Counting, Kind::Scalable];

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
        }
    }

    /// What a "no" from this kind means.
    #[must_use]
    pub fn guarantee(self) -> Guarantee {
        match self {
            Kind::Classic | Kind::Blocked | Kind::Partitioned | Kind::Counting | Kind::Scalable => Guarantee::Superset,
        }
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
}
