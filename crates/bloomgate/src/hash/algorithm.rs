//! The hash algorithms, as frozen numbers and names.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// How canonical bytes become 128 bits: part of every contract.
///
/// | number | algorithm | name | keyed by | for |
/// |---|---|---|---|---|
/// | 1 | [`Xxh3`](Self::Xxh3) | `xxh3` | 64-bit seed | keys you trust: the default of library and command line |
/// | 2 | [`SipHash13`](Self::SipHash13) | `siphash13` | secret | keys from outside: the default of servers |
/// | 3 | [`SipHash24`](Self::SipHash24) | `siphash24` | secret | the same, with the published margin |
/// | 4 | [`Blake2b`](Self::Blake2b) | `blake2b` | secret | the same, with a cryptographic hash |
/// | 5 | [`Murmur3`](Self::Murmur3) | `murmur3` | 32-bit seed | sharing with programs that have it |
/// | 6 | [`Given`](Self::Given) | `given` | nothing | keys that are digests already |
///
/// The numbers are frozen: a number never changes its meaning, and one that is retired is not reused.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// XXH3 with 128-bit output and a 64-bit seed.
    Xxh3,
    /// SipHash-1-3 with 128-bit output.
    SipHash13,
    /// SipHash-2-4 with 128-bit output.
    SipHash24,
    /// Keyed BLAKE2b with 16 bytes of output.
    Blake2b,
    /// MurmurHash3 x64-128 with a 32-bit seed.
    Murmur3,
    /// None: the caller gives digests, and keys are refused.
    Given,
}

impl Algorithm {
    /// Every algorithm, in the order of the numbers.
    pub const ALL: [Self; 6] =
        [Self::Xxh3, Self::SipHash13, Self::SipHash24, Self::Blake2b, Self::Murmur3, Self::Given];

    /// The frozen number of this algorithm.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Xxh3 => 1,
            Self::SipHash13 => 2,
            Self::SipHash24 => 3,
            Self::Blake2b => 4,
            Self::Murmur3 => 5,
            Self::Given => 6,
        }
    }

    /// The algorithm of this number, if this version knows it.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.number() == number)
    }

    /// The name, as a command line writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3",
            Self::SipHash13 => "siphash13",
            Self::SipHash24 => "siphash24",
            Self::Blake2b => "blake2b",
            Self::Murmur3 => "murmur3",
            Self::Given => "given",
        }
    }

    /// Whether the algorithm needs a secret.
    #[must_use]
    pub const fn is_keyed(self) -> bool {
        matches!(self, Self::SipHash13 | Self::SipHash24 | Self::Blake2b)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "{} is not a hash: use xxh3 or murmur3 (keys you trust), siphash13, siphash24 or blake2b \
                     (keys from outside, with a secret), or given (keys that are digests)",
                    crate::key::quoted(name)
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_frozen_and_read_back() {
        let table = [(1, "xxh3"), (2, "siphash13"), (3, "siphash24"), (4, "blake2b"), (5, "murmur3"), (6, "given")];
        for (algorithm, (number, name)) in Algorithm::ALL.into_iter().zip(table) {
            assert_eq!((algorithm.number(), algorithm.to_string().as_str()), (number, name));
            assert_eq!(Algorithm::from_number(number), Some(algorithm));
            assert_eq!(name.parse::<Algorithm>().unwrap(), algorithm);
        }
        for number in [0, 7, u16::MAX] {
            assert_eq!(Algorithm::from_number(number), None);
        }
        for name in ["", "XXH3", "md5", "siphash"] {
            assert_eq!(name.parse::<Algorithm>().unwrap_err().kind(), ErrorKind::InvalidParameter);
        }
    }
}
