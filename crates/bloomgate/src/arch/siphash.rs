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
//! One key is a chain of dependent additions that leaves most of the processor idle. The AVX2 form runs
//! eight keys as two interleaved vectors of four. Keys of different length share a group: they are
//! sorted by their number of blocks first, and a lane that has ended keeps its state while the longest
//! of the group goes on. In sorted order most groups have one length or two, so this loses little and
//! leaves no group half empty.
//!
//! Measured on a shared AMD EPYC (Zen 3), 4,096 keys in cache, best pass, ns a key:
//!
//! | SipHash-1-3, 128 bits | scalar | AVX2 |
//! |---|---|---|
//! | 8-byte words | 10.3 | 4.0 |
//! | strings of 16 to 40 bytes, mixed | 16.4 | 11.5 |
//!
//! A round costs 0.5 ns a key; the 128-bit form has three rounds more than the 64-bit one. Of a string's
//! 11.5 ns the rounds are by that count about 6; the rest sorts, and loads eight keys from eight places.
//! Rotating by 16 with a byte shuffle instead of shifts: words 4.3 instead of 4.0 under 1-3 (the default),
//! but 6.6 instead of 7.5 under 2-4.

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
#[inline]
fn last_block(bytes: &[u8]) -> u64 {
    let rest = bytes.len() % 8;
    let top = (bytes.len() as u64) << 56;
    if let Some(end) = bytes.last_chunk::<8>() {
        // The last eight bytes end with the rest; what stands before it is shifted out.
        return (u64::from_le_bytes(*end) >> (8 * (7 - rest)) >> 8) | top;
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
pub(crate) fn strings<const C: usize, const D: usize, const E: usize>(
    key: SipKey,
    strings: &[&[u8]],
    out: &mut [Digest; STRINGS],
) {
    #[cfg(target_arch = "x86_64")]
    if super::avx2() {
        // SAFETY: `avx2()` is true only where the processor has AVX2.
        return unsafe { avx2::strings::<C, D, E>(key, strings, out) };
    }
    for (bytes, out) in strings.iter().zip(out) {
        *out = string::<C, D, E>(key, bytes);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{Digest, STRINGS, SipKey, last_block, start, string, words_scalar};

    /// Full blocks from which on a string is hashed alone: in a group it would make seven lanes wait.
    const LONG: usize = 32;
    /// A group smaller than this is faster one by one.
    const WORTH: usize = 3;

    /// The state of eight keys: two times the four words of four keys.
    type State = [[__m256i; 4]; 2];

    // The steps below are always inlined, which a function with `target_feature` cannot ask for: left to
    // itself the compiler keeps the end of the hash apart and passes the state through memory.

    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn rotate<const LEFT: i32, const RIGHT: i32>(x: __m256i) -> __m256i {
        // SAFETY: the processor has AVX2, as the caller says.
        unsafe {
            match LEFT {
                32 => _mm256_shuffle_epi32(x, 0b10_11_00_01),
                _ => _mm256_or_si256(_mm256_slli_epi64(x, LEFT), _mm256_srli_epi64(x, RIGHT)),
            }
        }
    }

    /// `N` rounds of both halves, each round of one beside the same round of the other.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn rounds<const N: usize>(state: &mut State) {
        for _ in 0..N {
            for v in state.iter_mut() {
                // SAFETY: the processor has AVX2, as the caller says.
                unsafe {
                    v[0] = _mm256_add_epi64(v[0], v[1]);
                    v[2] = _mm256_add_epi64(v[2], v[3]);
                    v[1] = _mm256_xor_si256(rotate::<13, 51>(v[1]), v[0]);
                    v[3] = _mm256_xor_si256(rotate::<16, 48>(v[3]), v[2]);
                    v[0] = _mm256_add_epi64(rotate::<32, 32>(v[0]), v[3]);
                    v[2] = _mm256_add_epi64(v[2], v[1]);
                    v[1] = _mm256_xor_si256(rotate::<17, 47>(v[1]), v[2]);
                    v[3] = _mm256_xor_si256(rotate::<21, 43>(v[3]), v[0]);
                    v[2] = rotate::<32, 32>(v[2]);
                }
            }
        }
    }

    /// Eight words as two vectors. Put together in registers: eight stores and a wide load of them would
    /// wait for each other.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn lanes(words: [u64; 8]) -> [__m256i; 2] {
        let [a, b, c, d, e, f, g, h] = words.map(|word| word as i64);
        // SAFETY: the processor has AVX2, as the caller says.
        unsafe { [_mm256_set_epi64x(d, c, b, a), _mm256_set_epi64x(h, g, f, e)] }
    }

    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn absorb<const C: usize>(state: &mut State, block: [__m256i; 2]) {
        // SAFETY: the processor has AVX2, as the caller says.
        unsafe {
            state[0][3] = _mm256_xor_si256(state[0][3], block[0]);
            state[1][3] = _mm256_xor_si256(state[1][3], block[1]);
            rounds::<C>(state);
            state[0][0] = _mm256_xor_si256(state[0][0], block[0]);
            state[1][0] = _mm256_xor_si256(state[1][0], block[1]);
        }
    }

    /// Takes back what [`absorb`] did to the lanes whose word in `live` is zero.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn keep_ended(state: &mut State, before: &State, live: [__m256i; 2]) {
        for half in 0..2 {
            for word in 0..4 {
                // SAFETY: the processor has AVX2, as the caller says.
                unsafe {
                    state[half][word] = _mm256_blendv_epi8(before[half][word], state[half][word], live[half]);
                }
            }
        }
    }

    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn begin(key: SipKey) -> State {
        // SAFETY: the processor has AVX2, as the caller says.
        let four = start(key).map(|word| unsafe { _mm256_set1_epi64x(word as i64) });
        [four, four]
    }

    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn finish<const D: usize, const E: usize>(mut state: State, out: &mut [Digest; 8]) {
        let out: *mut __m256i = out.as_mut_ptr().cast();
        // SAFETY: the processor has AVX2, as the caller says; `out` points to 128 writable bytes, for
        // `Digest` is two `u64` in C layout, and the stores need no alignment.
        unsafe {
            for v in &mut state {
                v[2] = _mm256_xor_si256(v[2], _mm256_set1_epi64x(0xee));
            }
            rounds::<D>(&mut state);
            let lows = [sum(&state[0]), sum(&state[1])];
            for v in &mut state {
                v[1] = _mm256_xor_si256(v[1], _mm256_set1_epi64x(0xdd));
            }
            rounds::<E>(&mut state);
            for half in 0..2 {
                let (lo, hi) = (lows[half], sum(&state[half]));
                // Lanes 0 and 2 beside each other, then 1 and 3; the permutation puts them in order.
                let even = _mm256_unpacklo_epi64(lo, hi);
                let odd = _mm256_unpackhi_epi64(lo, hi);
                _mm256_storeu_si256(out.add(2 * half), _mm256_permute2x128_si256(even, odd, 0x20));
                _mm256_storeu_si256(out.add(2 * half + 1), _mm256_permute2x128_si256(even, odd, 0x31));
            }
        }
    }

    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn sum(v: &[__m256i; 4]) -> __m256i {
        // SAFETY: the processor has AVX2, as the caller says.
        unsafe { _mm256_xor_si256(_mm256_xor_si256(v[0], v[1]), _mm256_xor_si256(v[2], v[3])) }
    }

    /// Eight words that lie side by side.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn load(group: &[u64; 8]) -> [__m256i; 2] {
        let from: *const __m256i = group.as_ptr().cast();
        // SAFETY: the processor has AVX2, as the caller says; `group` is 64 readable bytes, and the loads need no
        // alignment.
        unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    pub(super) fn words_lo<const C: usize, const D: usize>(key: SipKey, words: &[u64], out: &mut [u64]) {
        let (groups, rest) = words.as_chunks::<8>();
        let (outs, outs_rest) = out.as_chunks_mut::<8>();
        for (group, out) in groups.iter().zip(outs) {
            let out: *mut __m256i = out.as_mut_ptr().cast();
            // SAFETY: this function has AVX2; `out` is 64 writable bytes, and the stores need no alignment.
            unsafe {
                let mut state = begin(key);
                absorb::<C>(&mut state, load(group));
                absorb::<C>(&mut state, lanes([8 << 56; 8]));
                for v in &mut state {
                    v[2] = _mm256_xor_si256(v[2], _mm256_set1_epi64x(0xee));
                }
                rounds::<D>(&mut state);
                _mm256_storeu_si256(out, sum(&state[0]));
                _mm256_storeu_si256(out.add(1), sum(&state[1]));
            }
        }
        super::words_lo_scalar::<C, D>(key, rest, outs_rest);
    }

    #[target_feature(enable = "avx2,bmi2")]
    pub(super) fn words<const C: usize, const D: usize, const E: usize>(
        key: SipKey,
        words: &[u64],
        out: &mut [Digest],
    ) {
        let count = words.len().min(out.len());
        let (groups, rest) = words[..count].as_chunks::<8>();
        let (outs, outs_rest) = out[..count].as_chunks_mut::<8>();
        for (group, out) in groups.iter().zip(outs) {
            // SAFETY: this function has AVX2.
            unsafe {
                let mut state = begin(key);
                absorb::<C>(&mut state, load(group));
                absorb::<C>(&mut state, lanes([8 << 56; 8]));
                finish::<D, E>(state, out);
            }
        }
        if rest.len() < WORTH {
            return words_scalar::<C, D, E>(key, rest, outs_rest);
        }
        // A whole group through this same function: one copy of the rounds is enough.
        let mut group = [0; 8];
        let mut digests = [Digest::default(); 8];
        group[..rest.len()].copy_from_slice(rest);
        self::words::<C, D, E>(key, &group, &mut digests);
        outs_rest.copy_from_slice(&digests[..rest.len()]);
    }

    #[target_feature(enable = "avx2,bmi2")]
    pub(super) fn strings<const C: usize, const D: usize, const E: usize>(
        key: SipKey,
        strings: &[&[u8]],
        out: &mut [Digest; STRINGS],
    ) {
        let strings = &strings[..strings.len().min(STRINGS)];
        // A counting sort by full blocks: how many of each, where each begins, then each to its place.
        let mut begins = [0u8; LONG + 1];
        for bytes in strings {
            begins[(bytes.len() / 8).min(LONG)] += 1;
        }
        let mut begin = 0;
        for slot in &mut begins {
            begin += std::mem::replace(slot, begin);
        }
        let long = usize::from(begins[LONG]);
        let mut order = [0u8; STRINGS];
        for (at, bytes) in strings.iter().enumerate() {
            let slot = &mut begins[(bytes.len() / 8).min(LONG)];
            order[usize::from(*slot) % STRINGS] = at as u8;
            *slot += 1;
        }
        let (short, alone) = order[..strings.len()].split_at(long);
        for group in short.chunks(8) {
            if group.len() < WORTH {
                hash_alone::<C, D, E>(key, strings, group, out);
            } else {
                hash_group::<C, D, E>(key, strings, group, out);
            }
        }
        hash_alone::<C, D, E>(key, strings, alone, out);
    }

    fn hash_alone<const C: usize, const D: usize, const E: usize>(
        key: SipKey,
        strings: &[&[u8]],
        order: &[u8],
        out: &mut [Digest; STRINGS],
    ) {
        for &at in order {
            out[usize::from(at)] = string::<C, D, E>(key, strings[usize::from(at)]);
        }
    }

    /// Up to eight strings, in order of their full blocks; lanes without a string repeat the last.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn hash_group<const C: usize, const D: usize, const E: usize>(
        key: SipKey,
        strings: &[&[u8]],
        group: &[u8],
        out: &mut [Digest; STRINGS],
    ) {
        // Loops, not closures: a closure here has AVX2 and the library function that calls it has not, so
        // it would not be inlined.
        let mut blocks: [&[[u8; 8]]; 8] = [&[]; 8];
        let mut last = [[0; 8]; 8];
        for lane in 0..8 {
            let bytes = strings[usize::from(group[lane.min(group.len() - 1)])];
            blocks[lane] = bytes.as_chunks::<8>().0;
            last[lane] = last_block(bytes).to_le_bytes();
        }
        let (least, most) = (blocks[0].len(), blocks[7].len());
        let mut block = [0; 8];
        let mut digests = [Digest::default(); 8];
        // SAFETY: this function has AVX2.
        unsafe {
            let mut state = begin(key);
            for j in 0..least {
                for (word, blocks) in block.iter_mut().zip(&blocks) {
                    *word = u64::from_le_bytes(blocks[j]);
                }
                absorb::<C>(&mut state, lanes(block));
            }
            if least == most {
                absorb::<C>(&mut state, lanes(last.map(u64::from_le_bytes)));
            } else {
                for j in least..=most {
                    // All ones where the lane still has this block, be it a full one or the last. Both are
                    // picked without a branch, which random lengths would make the processor guess wrong.
                    let mut live = [0; 8];
                    for (lane, blocks) in blocks.iter().enumerate() {
                        live[lane] = u64::from(j <= blocks.len()).wrapping_neg();
                        block[lane] = u64::from_le_bytes(*blocks.get(j).unwrap_or(&last[lane]));
                    }
                    let before = state;
                    absorb::<C>(&mut state, lanes(block));
                    keep_ended(&mut state, &before, lanes(live));
                }
            }
            finish::<D, E>(state, &mut digests);
        }
        for (&at, digest) in group.iter().zip(digests) {
            out[usize::from(at)] = digest;
        }
    }
}

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
        strings::<C, D, E>(key, keys, &mut doors[0]);
        #[cfg(target_arch = "x86_64")]
        if crate::arch::processor_has_avx2() {
            doors.push([Digest::default(); STRINGS]);
            // SAFETY: the processor has AVX2.
            unsafe { avx2::strings::<C, D, E>(key, keys, &mut doors[1]) };
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
