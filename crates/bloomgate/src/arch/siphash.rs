//! SipHash with 128 bits of output, of one key and of many.
//!
//! SipHash (Aumasson and Bernstein, 2012) is the keyed hash for keys that come from outside: who does
//! not know the secret can not aim at bits. `C` rounds for each eight-byte block and `D` at the end:
//! 1-3 is the default, 2-4 the one with the published margin. The 128-bit form is that of the authors'
//! reference code.
//!
//! `E` rounds come after the `lo` half is out and make the `hi` half: `E = D` is the whole digest; `E = 0` is for who
//! needs `lo` alone, and leaves nothing of use in `hi`.
//!
//! One key is a chain of dependent additions that leaves most of the processor idle. The AVX2 form (`avx2`) runs eight
//! keys as two interleaved vectors of four, of any lengths.
//!
//! Measured on a shared AMD EPYC (Zen 3), ns a key: words with 4,096 keys in cache, best pass; strings as they lie in a
//! request, in batches of 600 (`scripts/bench hashes`, which also has XXH3 beside them; the scalar ones are rounded, for
//! the machine was busy):
//!
//! | SipHash-1-3, 128 bits | scalar | AVX2 |
//! |---|---|---|
//! | 8-byte words | 10.3 | 4.0 |
//! | strings of 12 bytes | 12 | 7.0 |
//! | strings of 36 bytes | 17 | 8.8 |
//! | strings of 10 to 18 bytes, mixed | 13 | 9.4 |
//! | strings of 16 to 40 bytes, mixed | 15 | 11.0 |
//!
//! A round costs 0.5 ns a key; the 128-bit form has three rounds more than the 64-bit one, which [`strings_lo`] leaves
//! out. Rotations by 16 are written as shifts: the compiler makes a byte shuffle of them where that is better.

use crate::hash::Digest;

/// The two words of a SipHash key.
#[derive(Clone, Copy)]
pub(crate) struct SipKey {
    pub(crate) k0: u64,
    pub(crate) k1: u64,
}

/// Keys hashed by one call of [`strings`] at most.
pub(crate) const STRINGS: usize = super::CHUNK;

/// The constants of the initial state; `v1` has the mark of the 128-bit form.
#[inline]
fn start(key: SipKey) -> [u64; 4] {
    [
        key.k0 ^ 0x736f_6d65_7073_6575,
        key.k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        key.k0 ^ 0x6c79_6765_6e65_7261,
        key.k1 ^ 0x7465_6462_7974_6573,
    ]
}

#[inline]
fn rounds<const N: usize>(v: &mut [u64; 4]) {
    for _ in 0..N {
        v[0] = v[0].wrapping_add(v[1]);
        v[2] = v[2].wrapping_add(v[3]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].rotate_left(32).wrapping_add(v[3]);
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].rotate_left(32);
    }
}

#[inline]
fn absorb<const C: usize>(v: &mut [u64; 4], block: u64) {
    v[3] ^= block;
    rounds::<C>(v);
    v[0] ^= block;
}

#[inline]
fn finish<const D: usize, const E: usize>(mut v: [u64; 4]) -> Digest {
    v[2] ^= 0xee;
    rounds::<D>(&mut v);
    let lo = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    rounds::<E>(&mut v);
    Digest { lo, hi: v[0] ^ v[1] ^ v[2] ^ v[3] }
}

/// The last block: the up to seven bytes after the full blocks, and the length in the top byte.
#[inline(always)]
fn last_block(bytes: &[u8]) -> u64 {
    let rest = bytes.len() % 8;
    let top = (bytes.len() as u64) << 56;
    if let Some(end) = bytes.last_chunk::<8>() {
        // The last eight bytes end with the rest; what stands before it is shifted out.
        return (u64::from_le_bytes(*end) >> (8 * (7 - rest)) >> 8) | top;
    }
    if let (Some(first), Some(end)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // Four to seven bytes: the first four and the last four, which say the same where they overlap.
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*end)) << (8 * (rest - 4)) | top;
    }
    bytes.iter().rev().fold(0, |block, &byte| (block << 8) | u64::from(byte)) | top
}

/// The digest of the eight little-endian bytes of `word`.
#[inline]
pub(crate) fn word<const C: usize, const D: usize, const E: usize>(key: SipKey, word: u64) -> Digest {
    let mut v = start(key);
    absorb::<C>(&mut v, word);
    absorb::<C>(&mut v, 8 << 56);
    finish::<D, E>(v)
}

/// The digest of a byte string.
#[inline]
pub(crate) fn string<const C: usize, const D: usize, const E: usize>(key: SipKey, bytes: &[u8]) -> Digest {
    let mut v = start(key);
    for block in bytes.as_chunks::<8>().0 {
        absorb::<C>(&mut v, u64::from_le_bytes(*block));
    }
    absorb::<C>(&mut v, last_block(bytes));
    finish::<D, E>(v)
}

/// The digests of as many words as `out` has room for.
#[inline]
pub(crate) fn words<const C: usize, const D: usize, const E: usize>(key: SipKey, words: &[u64], out: &mut [Digest]) {
    #[cfg(target_arch = "x86_64")]
    if super::avx2() {
        // SAFETY: `avx2()` is true only where the processor has AVX2.
        return unsafe { avx2::words::<C, D, E>(key, words, out) };
    }
    words_scalar::<C, D, E>(key, words, out);
}

/// The `lo` halves of the digests of as many words as `out` has room for.
#[inline(always)]
pub(crate) fn words_lo<const C: usize, const D: usize>(key: SipKey, words: &[u64], out: &mut [u64]) {
    let count = words.len().min(out.len());
    #[cfg(target_arch = "x86_64")]
    if super::avx2() {
        // SAFETY: `avx2()` is true only where the processor has AVX2.
        return unsafe { avx2::words_lo::<C, D>(key, &words[..count], &mut out[..count]) };
    }
    words_lo_scalar::<C, D>(key, &words[..count], out);
}

#[inline]
fn words_lo_scalar<const C: usize, const D: usize>(key: SipKey, words: &[u64], out: &mut [u64]) {
    for (&w, out) in words.iter().zip(out) {
        *out = word::<C, D, 0>(key, w).lo;
    }
}

#[inline]
fn words_scalar<const C: usize, const D: usize, const E: usize>(key: SipKey, words: &[u64], out: &mut [Digest]) {
    for (&w, out) in words.iter().zip(out) {
        *out = word::<C, D, E>(key, w);
    }
}

/// The digests of up to [`STRINGS`] byte strings; strings beyond that are left alone.
#[inline]
pub(crate) fn strings<const C: usize, const D: usize>(key: SipKey, strings: &[&[u8]], out: &mut [Digest; STRINGS]) {
    #[cfg(target_arch = "x86_64")]
    if super::avx2() {
        // SAFETY: `avx2()` is true only where the processor has AVX2.
        return unsafe { avx2::strings::<C, D, D, Digest>(key, strings, out) };
    }
    for (bytes, out) in strings.iter().zip(out) {
        *out = string::<C, D, D>(key, bytes);
    }
}

/// The `lo` halves of the digests of up to [`STRINGS`] byte strings; strings beyond that are left alone.
#[inline]
pub(crate) fn strings_lo<const C: usize, const D: usize>(key: SipKey, strings: &[&[u8]], out: &mut [u64; STRINGS]) {
    #[cfg(target_arch = "x86_64")]
    if super::avx2() {
        // SAFETY: `avx2()` is true only where the processor has AVX2.
        return unsafe { avx2::strings::<C, D, 0, u64>(key, strings, out) };
    }
    for (bytes, out) in strings.iter().zip(out) {
        *out = string::<C, D, 0>(key, bytes).lo;
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2;

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use siphasher::sip128::{Hasher128, SipHasher13, SipHasher24};

    use super::*;

    const KEY: SipKey = SipKey { k0: 0x0706_0504_0302_0100, k1: 0x0f0e_0d0c_0b0a_0908 };

    fn reference<const C: usize>(key: SipKey, bytes: &[u8]) -> Digest {
        let hash = if C == 1 {
            let mut hasher = SipHasher13::new_with_keys(key.k0, key.k1);
            hasher.write(bytes);
            hasher.finish128()
        } else {
            let mut hasher = SipHasher24::new_with_keys(key.k0, key.k1);
            hasher.write(bytes);
            hasher.finish128()
        };
        Digest::new(hash.h1, hash.h2)
    }

    /// Bytes without a pattern.
    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut state = seed;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect()
    }

    /// All doors to a batch of strings: as dispatched, and AVX2 itself where the processor has it.
    fn every_door<const C: usize, const D: usize, const E: usize>(
        key: SipKey,
        keys: &[&[u8]],
    ) -> Vec<[Digest; STRINGS]> {
        let mut doors = vec![[Digest::default(); STRINGS]];
        strings::<C, D>(key, keys, &mut doors[0]);
        #[cfg(target_arch = "x86_64")]
        if crate::arch::processor_has_avx2() {
            doors.push([Digest::default(); STRINGS]);
            // SAFETY: the processor has AVX2.
            unsafe { avx2::strings::<C, D, E, Digest>(key, keys, &mut doors[1]) };
        }
        let mut halves = vec![[0; STRINGS]];
        strings_lo::<C, D>(key, keys, &mut halves[0]);
        #[cfg(target_arch = "x86_64")]
        if crate::arch::processor_has_avx2() {
            halves.push([0; STRINGS]);
            // SAFETY: the processor has AVX2.
            unsafe { avx2::strings::<C, D, 0, u64>(key, keys, &mut halves[1]) };
        }
        for half in halves {
            assert_eq!(half, doors[0].map(|digest| digest.lo));
        }
        doors
    }

    fn equals_reference<const C: usize, const D: usize, const E: usize>() {
        let bytes = noise(400, 1);
        for key in [KEY, SipKey { k0: 0, k1: 0 }, SipKey { k0: u64::MAX, k1: u64::MAX }] {
            let expected: Vec<Digest> = (0..400).map(|len| reference::<C>(key, &bytes[..len])).collect();
            for (len, expected) in expected.iter().enumerate() {
                assert_eq!(string::<C, D, E>(key, &bytes[..len]), *expected, "{len}");
            }
            // Every length alone, in a group of one length, and among its neighbours.
            for len in 0..400 {
                for count in [1, 2, 3, 5, 8, 11, 32] {
                    for step in [0, 1, 3] {
                        let lens: Vec<usize> = (0..count).map(|i| (len + i * step * 7) % 400).collect();
                        let keys: Vec<&[u8]> = lens.iter().map(|&len| &bytes[..len]).collect();
                        for got in every_door::<C, D, E>(key, &keys) {
                            for (at, &len) in lens.iter().enumerate() {
                                assert_eq!(got[at], expected[len], "length {len} at {at} of {count}");
                            }
                            assert!(got[count..].iter().all(|digest| *digest == Digest::default()));
                        }
                    }
                }
            }
        }
    }

    /// Batches of keys of 0 to 80 bytes, as different as `spread` allows, each key in memory of its own: who reads beyond
    /// one is found by Miri and the address sanitizer.
    fn mixed_equal_one_by_one<const C: usize, const D: usize>() {
        let batches = if cfg!(miri) { 2 } else { 40 };
        for spread in [1, 2, 8, 9, 17, 40, 81] {
            let mut seen = [false; 81];
            for (batch, noise) in noise(batches * 33, spread as u64).chunks(33).enumerate() {
                let count = 1 + batch % STRINGS;
                let least = usize::from(noise[32]) % (82 - spread);
                let lengths = noise[..count].iter().map(|&byte| least + usize::from(byte) % spread);
                let keys: Vec<Box<[u8]>> =
                    lengths.enumerate().map(|(at, len)| self::noise(len, at as u64).into()).collect();
                let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                for got in every_door::<C, D, D>(KEY, &keys) {
                    for (at, key) in keys.iter().enumerate() {
                        seen[key.len()] = true;
                        let expected = string::<C, D, D>(KEY, key);
                        assert_eq!(got[at], expected, "{} bytes at {at} of {count}, spread {spread}", key.len());
                    }
                    assert!(got[count..].iter().all(|digest| *digest == Digest::default()));
                }
            }
            assert!(cfg!(miri) || spread < 81 || seen.iter().all(|seen| *seen));
        }
    }

    #[test]
    fn batches_of_mixed_lengths_equal_one_by_one() {
        mixed_equal_one_by_one::<1, 3>();
        mixed_equal_one_by_one::<2, 4>();
    }

    #[test]
    fn siphash_1_3_equals_the_reference() {
        equals_reference::<1, 3, 3>();
    }

    #[test]
    fn siphash_2_4_equals_the_reference() {
        equals_reference::<2, 4, 4>();
    }

    #[test]
    fn siphash_2_4_has_the_authors_vectors() {
        // From the authors' vectors.h, 128-bit output, inputs 00 01 02 .. of length 0, 1 and 8.
        let input: Vec<u8> = (0..8).collect();
        for (len, hex) in [
            (0, "a3817f04ba25a8e66df67214c7550293"),
            (1, "da87c1d86b99af44347659119b22fc45"),
            (8, "3b62a9ba6258f5610f83e264f31497b4"),
        ] {
            assert_eq!(format!("{:?}", string::<2, 4, 4>(KEY, &input[..len])), format!("Digest({hex})"));
        }
    }

    fn words_equal_strings<const C: usize, const D: usize, const E: usize>() {
        let keys: Vec<u64> = noise(8 * 999, 7).as_chunks::<8>().0.iter().map(|c| u64::from_le_bytes(*c)).collect();
        let expected: Vec<Digest> = keys.iter().map(|key| reference::<C>(KEY, &key.to_le_bytes())).collect();
        for len in (0..70).chain([999]) {
            let mut got = vec![Digest::default(); len];
            words::<C, D, E>(KEY, &keys[..len], &mut got);
            let mut lows = vec![7; len];
            words_lo::<C, D>(KEY, &keys[..len], &mut lows);
            assert!(lows.iter().zip(&got).all(|(lo, digest)| *lo == digest.lo));
            assert_eq!(got, expected[..len]);
            words_scalar::<C, D, E>(KEY, &keys[..len], &mut got);
            assert_eq!(got, expected[..len]);
            #[cfg(target_arch = "x86_64")]
            if crate::arch::processor_has_avx2() {
                got.fill(Digest::default());
                // SAFETY: the processor has AVX2.
                unsafe { avx2::words::<C, D, E>(KEY, &keys[..len], &mut got) };
                assert_eq!(got, expected[..len]);
            }
        }
    }

    #[test]
    fn words_are_strings_of_eight_bytes() {
        words_equal_strings::<1, 3, 3>();
        words_equal_strings::<2, 4, 4>();
    }

    #[test]
    fn only_the_first_32_strings_are_hashed() {
        let many = vec![&b"key"[..]; 40];
        for got in every_door::<1, 3, 3>(KEY, &many) {
            assert!(got.iter().all(|digest| *digest == string::<1, 3, 3>(KEY, b"key")));
        }
    }
}
