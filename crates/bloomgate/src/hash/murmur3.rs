//! MurmurHash3 x64-128, for filters shared with programs that use it. Not for keys from outside:
//! collisions under every seed can be computed in microseconds.
//!
//! Written from the description of Austin Appleby's public-domain algorithm; always little-endian.

use super::Digest;

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

#[inline]
fn mix1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

#[inline]
fn mix2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

#[inline]
pub(super) fn avalanche(mut h: u64) -> u64 {
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

/// The first 16 bytes as two words.
#[inline]
fn halves(block: [u8; 16]) -> (u64, u64) {
    let block = Digest::from_bytes(block);
    (block.lo, block.hi)
}

/// The digest of `bytes` under a 32-bit seed.
pub(super) fn murmur3(seed: u32, bytes: &[u8]) -> Digest {
    let (mut h1, mut h2) = (u64::from(seed), u64::from(seed));
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let (k1, k2) = halves(*block);
        h1 = (h1 ^ mix1(k1)).rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ mix2(k2)).rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    // A half without bytes is zero, and its mix is zero: no case for the length of the tail.
    let (k1, k2) = halves(last);
    h1 ^= mix1(k1) ^ bytes.len() as u64;
    h2 ^= mix2(k2) ^ bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = avalanche(h1);
    h2 = avalanche(h2);
    h1 = h1.wrapping_add(h2);
    Digest { lo: h1, hi: h2.wrapping_add(h1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_smhashers_verification_value() {
        // SMHasher's own check of an implementation: the hashes of 00, 00 01, .. under seeds 256 - length,
        // hashed together, begin with this number. It covers every length of tail.
        let key: Vec<u8> = (0..=255).collect();
        let mut hashes = Vec::new();
        for len in 0..256 {
            hashes.extend_from_slice(&murmur3(256 - len as u32, &key[..len]).to_bytes());
        }
        assert_eq!(murmur3(0, &hashes).lo as u32, 0x6384_ba69);
    }

    #[test]
    fn has_known_values() {
        assert_eq!(murmur3(0, b""), Digest::new(0, 0));
        assert_eq!(murmur3(0, b"hello"), Digest::new(0xcbd8_a7b3_41bd_9b02, 0x5b1e_906a_48ae_1d19));
        assert_ne!(murmur3(1, b"hello"), murmur3(0, b"hello"));
    }
}
