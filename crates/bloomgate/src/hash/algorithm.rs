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
/// | 7 | [`Murmur64aPair`](Self::Murmur64aPair) | `murmur64a-pair` | nothing | RedisBloom's Bloom filters |
/// | 8 | [`Murmur64a`](Self::Murmur64a) | `murmur64a` | nothing | RedisBloom's cuckoo filters |
/// | 9 | [`Xxh64`](Self::Xxh64) | `xxh64` | nothing | Parquet's Bloom filters |
/// | 10 | [`Blake2b64Double`](Self::Blake2b64Double) | `blake2b-64-double` | nothing | the `BFv1` form |
///
/// Numbers 7 to 10 are what [foreign](crate::foreign) filters hash with; who knows them can choose keys, so they are
/// for keys you trust. 8 and 9 give 64 bits: their `lo` is the foreign hash, and `hi` is mixed from it.
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
    /// MurmurHash64A under RedisBloom's seed, and again under the first hash as the seed.
    Murmur64aPair,
    /// MurmurHash64A with seed 0.
    Murmur64a,
    /// XXH64 with seed 0.
    Xxh64,
    /// BLAKE2b with 8 bytes of output, personalised `bf1` and `bf2`; the second is odd.
    Blake2b64Double,
}

impl Algorithm {
    /// Every algorithm, in the order of the numbers.
    pub const ALL: [Self; 10] = [
        Self::Xxh3,
        Self::SipHash13,
        Self::SipHash24,
        Self::Blake2b,
        Self::Murmur3,
        Self::Given,
        Self::Murmur64aPair,
        Self::Murmur64a,
        Self::Xxh64,
        Self::Blake2b64Double,
    ];

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
            Self::Murmur64aPair => 7,
            Self::Murmur64a => 8,
            Self::Xxh64 => 9,
            Self::Blake2b64Double => 10,
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
            Self::Murmur64aPair => "murmur64a-pair",
            Self::Murmur64a => "murmur64a",
            Self::Xxh64 => "xxh64",
            Self::Blake2b64Double => "blake2b-64-double",
        }
    }

    /// Whether it is there for the filters of another system alone: it has neither seed nor secret.
    #[must_use]
    pub const fn is_foreign(self) -> bool {
        matches!(self, Self::Murmur64aPair | Self::Murmur64a | Self::Xxh64 | Self::Blake2b64Double)
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
                     (keys from outside, with a secret), given (keys that are digests), or one of other systems: \
                     murmur64a-pair, murmur64a, xxh64, blake2b-64-double",
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
        let table = [
            (1, "xxh3"),
            (2, "siphash13"),
            (3, "siphash24"),
            (4, "blake2b"),
            (5, "murmur3"),
            (6, "given"),
            (7, "murmur64a-pair"),
            (8, "murmur64a"),
            (9, "xxh64"),
            (10, "blake2b-64-double"),
        ];
        assert_eq!(Algorithm::ALL.len(), table.len());
        for (algorithm, (number, name)) in Algorithm::ALL.into_iter().zip(table) {
            assert_eq!((algorithm.number(), algorithm.to_string().as_str()), (number, name));
            assert_eq!(Algorithm::from_number(number), Some(algorithm));
            assert_eq!(name.parse::<Algorithm>().unwrap(), algorithm);
        }
        for number in [0, 11, u16::MAX] {
            assert_eq!(Algorithm::from_number(number), None);
        }
        for name in ["", "XXH3", "md5", "siphash"] {
            assert_eq!(name.parse::<Algorithm>().unwrap_err().kind(), ErrorKind::InvalidParameter);
        }
    }
}
