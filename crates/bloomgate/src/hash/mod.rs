//! Contracts: how a key becomes a digest, as frozen numbers that travel with every filter.

mod digest;

pub use digest::Digest;

use crate::error::{Error, ErrorKind, Result};
use crate::key::{Encoding, Key};

/// Keys hashed, prefetched and probed together: the width of every batch step.
pub const CHUNK: usize = 32;

/// How keys become digests: encoding, algorithm and seed or secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    encoding: Encoding,
    seed: u64,
}

impl Contract {
    /// XXH3-128 with seed 0 over bytes: the default for keys you trust.
    #[must_use]
    pub fn xxh3() -> Self {
        Self { encoding: Encoding::Bytes, seed: 0 }
    }

    /// The same contract for keys of another encoding.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// The encoding of the keys.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The digest of a key, or why the key is refused.
    #[inline]
    pub fn digest<K: Key + ?Sized>(&self, key: &K) -> Result<Digest> {
        if !self.encoding.accepts(K::ENCODING) {
            return Err(Error::new(ErrorKind::Encoding, "wrong encoding"));
        }
        Ok(self.digest_bytes(key.canonical(&mut Vec::new())))
    }

    /// The digest of canonical bytes.
    #[inline]
    #[must_use]
    pub fn digest_bytes(&self, canonical: &[u8]) -> Digest {
        Digest::from_u128(xxhash_rust::xxh3::xxh3_128_with_seed(canonical, self.seed))
    }

    /// The digests of up to [`CHUNK`] keys.
    pub(crate) fn digest_chunk<K: Key>(&self, keys: &[K], out: &mut [Digest; CHUNK]) -> Result<()> {
        for (key, out) in keys.iter().zip(out) {
            *out = self.digest(key)?;
        }
        Ok(())
    }
}
