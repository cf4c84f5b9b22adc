//! The forms by name, and which of them some bytes are.

use std::fmt;
use std::str::FromStr;

use super::chunks::Frames;
use super::{bfv1, redis_bloom, redis_cuckoo};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Contract;
use crate::key::{Encoding, quoted};
use crate::kind::Kind;

/// A foreign form, with the encoding of the keys where the form does not say it.
///
/// | name | form |
/// |---|---|
/// | `bfv1` | the `BFv1` wire form |
/// | `redisbloom` | a dump file of `BF.SCANDUMP` chunks |
/// | `rediscuckoo` | a dump file of `CF.SCANDUMP` chunks |
/// | `guava:utf8`, `guava:long`, `guava:bytes` | Guava's `writeTo`, and the funnel |
/// | `parquet`, `parquet:utf8`, `parquet:u64`, `parquet:i64` | Parquet's split block; bytes if not said |
///
/// After the colon any name of an [`Encoding`] may stand; `utf8` is `text` and `long` is `i64`.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// The `BFv1` wire form.
    BfV1,
    /// A dump file of RedisBloom's `BF.SCANDUMP` chunks.
    RedisBloom,
    /// A dump file of RedisBloom's `CF.SCANDUMP` chunks.
    RedisCuckoo,
    /// Guava's `BloomFilter.writeTo`, for keys of an encoding.
    Guava(Encoding),
    /// Parquet's header and split blocks, for keys of an encoding.
    Parquet(Encoding),
}

impl Form {
    /// The kind of filter in this form.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Form::BfV1 => Kind::BfV1,
            Form::RedisBloom => Kind::RedisBloom,
            Form::RedisCuckoo => Kind::RedisCuckoo,
            Form::Guava(_) => Kind::Guava,
            Form::Parquet(_) => Kind::Parquet,
        }
    }

    /// How keys become digests in this form: its own hash, without a secret, over keys of its encoding.
    #[must_use]
    pub fn contract(self) -> Contract {
        let contract = match self {
            Form::BfV1 => Contract::blake2b_64_double(),
            Form::RedisBloom => Contract::murmur64a_pair(),
            Form::RedisCuckoo => Contract::murmur64a(),
            Form::Guava(_) => Contract::murmur3(0),
            Form::Parquet(_) => Contract::xxh64(),
        };
        contract.with_encoding(self.encoding())
    }

    /// The encoding of the keys: bytes where the form leaves no choice.
    #[must_use]
    pub fn encoding(self) -> Encoding {
        match self {
            Form::Guava(encoding) | Form::Parquet(encoding) => encoding,
            Form::BfV1 | Form::RedisBloom | Form::RedisCuckoo => Encoding::Bytes,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Guava(encoding) | Form::Parquet(encoding) => f.pad(&format!("{}:{encoding}", self.kind())),
            form => f.pad(form.kind().name()),
        }
    }
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let (form, keys) = name.split_once(':').map_or((name, None), |(form, keys)| (form, Some(keys)));
        let encoding = keys.map(encoding).transpose()?;
        match (form, encoding) {
            ("bfv1", None) => Ok(Form::BfV1),
            ("redisbloom", None) => Ok(Form::RedisBloom),
            ("rediscuckoo", None) => Ok(Form::RedisCuckoo),
            ("guava", Some(encoding)) => Ok(Form::Guava(encoding)),
            ("guava", None) => Err(Error::new(
                ErrorKind::InvalidParameter,
                "Guava's form does not say what its keys are: write guava:utf8, guava:long or guava:bytes, as the funnel \
                 was",
            )),
            ("parquet", encoding) => Ok(Form::Parquet(encoding.unwrap_or(Encoding::Bytes))),
            _ => Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "{} is no form: use bfv1, redisbloom, rediscuckoo, guava:utf8, guava:long, guava:bytes, parquet, or \
                     parquet: and the type of the keys",
                    quoted(name)
                ),
            )),
        }
    }
}

/// The encoding of a name after the colon.
fn encoding(name: &str) -> Result<Encoding> {
    match name {
        "utf8" => Ok(Encoding::Text),
        "long" => Ok(Encoding::Signed),
        name => name.parse(),
    }
}

/// The form that these bytes certainly are: `BFv1` by its magic, RedisBloom dump files by a header that fits all
/// lengths. Guava's and Parquet's forms begin with nothing that others could not begin with and do not name the type of
/// their keys: they are never guessed.
#[must_use]
pub fn detect(bytes: &[u8]) -> Option<Form> {
    if bytes.starts_with(bfv1::MAGIC) {
        return Some(Form::BfV1);
    }
    // The cuckoo header has 38 bytes and the other 20 + 53 n: no dump is both.
    if redis_bloom::examine(Frames::new(bytes)).is_ok() {
        return Some(Form::RedisBloom);
    }
    redis_cuckoo::examine(Frames::new(bytes)).is_ok().then_some(Form::RedisCuckoo)
}
