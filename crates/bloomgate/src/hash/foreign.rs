//! The hashes of other systems, so that their filters can be asked and written: never for keys from outside.
//!
//! | algorithm | who | `lo` | `hi` |
//! |---|---|---|---|
//! | `murmur64a-pair` | RedisBloom, Bloom | MurmurHash64A, seed c6a4a7935bd1e995 | MurmurHash64A, seed `lo` |
//! | `murmur64a` | RedisBloom, cuckoo | MurmurHash64A, seed 0 | mixed from `lo` |
//! | `xxh64` | Parquet | XXH64, seed 0 | mixed from `lo` |
//! | `blake2b-64-double` | `BFv1` | BLAKE2b-64, person `bf1` | BLAKE2b-64, person `bf2`, odd |
//!
//! MurmurHash64A is written from the description of Austin Appleby's public-domain algorithm; always little-endian.

use super::murmur3::avalanche;
use super::{Algorithm, Digest};

/// The multiplier of MurmurHash64A, and RedisBloom's seed.
const M: u64 = 0xc6a4_a793_5bd1_e995;

/// MurmurHash2 in its 64-bit form for 64-bit processors.
#[inline]
pub(super) fn murmur64a(seed: u64, bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(M);
        hash = (hash ^ (word ^ (word >> 47)).wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 47)).wrapping_mul(M);
    hash ^ (hash >> 47)
}

/// A hash of 64 bits as a digest: `hi` is made from `lo`, so that kinds which use both halves still work.
fn widened(lo: u64) -> Digest {
    Digest { lo, hi: avalanche(lo.wrapping_add(0x9e37_79b9_7f4a_7c15)) }
}

fn blake2b(person: &[u8], bytes: &[u8]) -> u64 {
    let hash = blake2b_simd::Params::new().hash_length(8).personal(person).hash(bytes);
    let mut word = [0; 8];
    word.copy_from_slice(hash.as_bytes());
    u64::from_le_bytes(word)
}

/// The digest of canonical bytes under a foreign algorithm.
pub(super) fn digest(algorithm: Algorithm, bytes: &[u8]) -> Digest {
    match algorithm {
        Algorithm::Murmur64aPair => {
            let lo = murmur64a(M, bytes);
            Digest { lo, hi: murmur64a(lo, bytes) }
        }
        Algorithm::Murmur64a => widened(murmur64a(0, bytes)),
        Algorithm::Blake2b64Double => Digest { lo: blake2b(b"bf1", bytes), hi: blake2b(b"bf2", bytes) | 1 },
        _ => widened(xxhash_rust::xxh64::xxh64(bytes, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur64a_equals_smhashers_verification_value() {
        // As for MurmurHash3: the hashes of 00, 00 01, .. under seeds 256 - length, hashed together.
        let key: Vec<u8> = (0..=255).collect();
        let mut hashes = Vec::new();
        for len in 0..256 {
            hashes.extend_from_slice(&murmur64a(256 - len as u64, &key[..len]).to_le_bytes());
        }
        assert_eq!(murmur64a(0, &hashes) as u32, 0x1f0d_3804);
    }

    #[test]
    fn known_values() {
        // XXH64 of nothing and of "a", as published with the algorithm.
        assert_eq!(digest(Algorithm::Xxh64, b"").lo, 0xef46_db37_51d8_e999);
        assert_eq!(digest(Algorithm::Xxh64, b"a").lo, 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(digest(Algorithm::Blake2b64Double, b"latte").hi & 1, 1);
        let pair = digest(Algorithm::Murmur64aPair, b"only");
        assert_eq!(pair.hi, murmur64a(pair.lo, b"only"));
    }
}
