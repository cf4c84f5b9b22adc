//! Eight keys at a time: two interleaved vectors of four.
//!
//! First every string's last block is made, in a loop of its own: a vector load that comes right after the stores it reads
//! would wait for them. Then eight strings at a time are read where they lie, in the order they came in, and their digests
//! go straight to their places. Strings with one number of full blocks, as ids of one form have it, do exactly what one of
//! them would. Where the numbers differ, a lane that has ended keeps its state while the longest of its group goes on.
//! Only if they are far apart are the strings sorted by them first: a counting sort adds to the same few counters again
//! and again, each time after the last. Twelve-byte keys took 12.2 ns when all were sorted, 7.0 since.

use std::arch::x86_64::*;

use super::{Digest, STRINGS, SipKey, last_block, start, string, words_scalar};

/// Full blocks from which on a string is hashed alone: in a group it would make seven lanes wait.
const LONG: usize = 32;
/// A group smaller than this is faster one by one.
const WORTH: usize = 3;
/// Strings that differ by so many full blocks at most are hashed as they come: sorting them costs more than lanes wait.
const NEAR: u64 = 3;

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

/// Takes back what [`absorb`] did to the lanes whose word in `ended` is all ones.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn keep_ended(state: &mut State, before: &State, ended: [__m256i; 2]) {
    for half in 0..2 {
        for word in 0..4 {
            // SAFETY: the processor has AVX2, as the caller says.
            unsafe {
                state[half][word] = _mm256_blendv_epi8(state[half][word], before[half][word], ended[half]);
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
unsafe fn finish<const D: usize, const E: usize, T: Kept>(mut state: State, out: &mut [T; 8]) {
    // SAFETY: the processor has AVX2, as the caller says.
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
        T::store(lows, [sum(&state[0]), sum(&state[1])], out);
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
pub(super) fn words<const C: usize, const D: usize, const E: usize>(key: SipKey, words: &[u64], out: &mut [Digest]) {
    let count = words.len().min(out.len());
    let (groups, rest) = words[..count].as_chunks::<8>();
    let (outs, outs_rest) = out[..count].as_chunks_mut::<8>();
    for (group, out) in groups.iter().zip(outs) {
        // SAFETY: this function has AVX2.
        unsafe {
            let mut state = begin(key);
            absorb::<C>(&mut state, load(group));
            absorb::<C>(&mut state, lanes([8 << 56; 8]));
            finish::<D, E, Digest>(state, out);
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

/// What a caller keeps of a digest.
pub(super) trait Kept: Copy + Default {
    /// Writes eight of them.
    ///
    /// # Safety
    /// The processor has AVX2.
    unsafe fn store(lows: [__m256i; 2], highs: [__m256i; 2], out: &mut [Self; 8]);
    /// What is kept of a whole digest.
    fn of(digest: Digest) -> Self;
}

impl Kept for Digest {
    #[inline(always)]
    unsafe fn store(lows: [__m256i; 2], highs: [__m256i; 2], out: &mut [Self; 8]) {
        let out: *mut __m256i = out.as_mut_ptr().cast();
        for half in 0..2 {
            // SAFETY: the processor has AVX2, as the caller says; `out` points to 128 writable bytes, for `Digest` is
            // two `u64` in C layout, and the stores need no alignment.
            unsafe {
                // Lanes 0 and 2 beside each other, then 1 and 3; the permutation puts them in order.
                let even = _mm256_unpacklo_epi64(lows[half], highs[half]);
                let odd = _mm256_unpackhi_epi64(lows[half], highs[half]);
                _mm256_storeu_si256(out.add(2 * half), _mm256_permute2x128_si256(even, odd, 0x20));
                _mm256_storeu_si256(out.add(2 * half + 1), _mm256_permute2x128_si256(even, odd, 0x31));
            }
        }
    }

    #[inline(always)]
    fn of(digest: Digest) -> Self {
        digest
    }
}

/// The `lo` half alone.
impl Kept for u64 {
    #[inline(always)]
    unsafe fn store(lows: [__m256i; 2], _: [__m256i; 2], out: &mut [Self; 8]) {
        let out: *mut __m256i = out.as_mut_ptr().cast();
        // SAFETY: the processor has AVX2, as the caller says; `out` points to 64 writable bytes, and the stores need no
        // alignment.
        unsafe {
            _mm256_storeu_si256(out, lows[0]);
            _mm256_storeu_si256(out.add(1), lows[1]);
        }
    }

    #[inline(always)]
    fn of(digest: Digest) -> Self {
        digest.lo
    }
}

#[target_feature(enable = "avx2,bmi2")]
pub(super) fn strings<const C: usize, const D: usize, const E: usize, T: Kept>(
    key: SipKey,
    strings: &[&[u8]],
    out: &mut [T; STRINGS],
) {
    let strings = &strings[..strings.len().min(STRINGS)];
    let count = strings.len();
    if count < WORTH {
        for (bytes, out) in strings.iter().zip(out) {
            *out = T::of(string::<C, D, E>(key, bytes));
        }
        return;
    }
    let mut last = [0; STRINGS];
    let mut differ = 0;
    for (bytes, last) in strings.iter().zip(&mut last) {
        *last = last_block(bytes);
        differ |= bytes.len() ^ strings[0].len();
    }
    if differ < 8 {
        // Lengths that differ in the lowest three bits alone.
        in_order::<C, D, E, true, T>(key, strings, &[0; STRINGS], &last, out);
    } else {
        mixed::<C, D, E, T>(key, strings, &last, out);
    }
}

/// Strings as they come, eight by eight; the last eight overlap those before where they would not be eight. With
/// `SAME`, all have one number of full blocks, and `blocks` is not read.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn in_order<const C: usize, const D: usize, const E: usize, const SAME: bool, T: Kept>(
    key: SipKey,
    strings: &[&[u8]],
    blocks: &[u64; STRINGS],
    last: &[u64; STRINGS],
    out: &mut [T; STRINGS],
) {
    let count = strings.len().min(STRINGS);
    if count < 8 {
        // The lanes beyond repeat the last string.
        let (mut eight, mut eight_blocks, mut eight_last) = ([&[][..]; 8], [0; 8], [0; 8]);
        for lane in 0..8 {
            let from = lane.min(count - 1);
            (eight[lane], eight_blocks[lane], eight_last[lane]) = (strings[from], blocks[from], last[from]);
        }
        let mut digests = [T::default(); 8];
        hash_eight::<C, D, E, SAME, T>(key, &eight, &eight_blocks, &eight_last, &mut digests);
        out[..count].copy_from_slice(&digests[..count]);
        return;
    }
    let mut at = 0;
    while let (Some(group), Some(blocks), Some(last), Some(out)) =
        (strings[at..].first_chunk(), blocks[at..].first_chunk(), last[at..].first_chunk(), out[at..].first_chunk_mut())
    {
        hash_eight::<C, D, E, SAME, T>(key, group, blocks, last, out);
        if at + 8 == count {
            return;
        }
        at = (at + 8).min(count - 8);
    }
}

/// Strings with different numbers of full blocks: sorted by them, if they are far apart.
#[inline(never)]
#[target_feature(enable = "avx2,bmi2")]
fn mixed<const C: usize, const D: usize, const E: usize, T: Kept>(
    key: SipKey,
    strings: &[&[u8]],
    last: &[u64; STRINGS],
    out: &mut [T; STRINGS],
) {
    let mut blocks = [0; STRINGS];
    let (mut least, mut most) = (u64::MAX, 0);
    for (bytes, blocks) in strings.iter().zip(&mut blocks) {
        *blocks = (bytes.len() / 8) as u64;
        least = least.min(*blocks);
        most = most.max(*blocks);
    }
    if most - least <= NEAR {
        return in_order::<C, D, E, false, T>(key, strings, &blocks, last, out);
    }
    // A counting sort by full blocks: how many of each, where each begins, then each to its place.
    let class = |bytes: &[u8]| (bytes.len() / 8).min(LONG);
    let mut begins = [0u8; LONG + 1];
    for bytes in strings {
        begins[class(bytes)] += 1;
    }
    let mut begin = 0;
    for slot in &mut begins {
        begin += std::mem::replace(slot, begin);
    }
    let short = usize::from(begins[LONG]);
    let mut order = [0u8; STRINGS];
    let (mut sorted, mut sorted_blocks, mut sorted_last) = ([&[][..]; STRINGS], [0; STRINGS], [0; STRINGS]);
    for (at, &bytes) in strings.iter().enumerate() {
        let slot = &mut begins[class(bytes)];
        let place = usize::from(*slot) % STRINGS;
        *slot += 1;
        (order[place], sorted[place], sorted_blocks[place], sorted_last[place]) =
            (at as u8, bytes, blocks[at], last[at]);
    }
    let mut digests = [T::default(); STRINGS];
    let together = if short < WORTH { 0 } else { short };
    if together > 0 {
        in_order::<C, D, E, false, T>(key, &sorted[..together], &sorted_blocks, &sorted_last, &mut digests);
    }
    for place in together..strings.len() {
        digests[place] = T::of(string::<C, D, E>(key, sorted[place]));
    }
    for (&at, digest) in order.iter().zip(digests).take(strings.len()) {
        out[usize::from(at) % STRINGS] = digest;
    }
}

/// Eight words of memory, one from each place.
///
/// # Safety
/// The processor has AVX2, and behind each pointer are eight readable bytes.
#[inline(always)]
unsafe fn gather(from: [*const u8; 8]) -> [__m256i; 2] {
    // SAFETY: as the caller says; the loads need no alignment.
    unsafe {
        let mut words = [0; 8];
        for lane in 0..8 {
            words[lane] = from[lane].cast::<u64>().read_unaligned();
        }
        lanes(words)
    }
}

/// The block at `byte` of all lanes, and the one after it.
///
/// # Safety
/// The processor has AVX2, and every string has 16 bytes from `byte` on.
#[inline(always)]
unsafe fn two_blocks(strings: &[&[u8]; 8], byte: usize) -> [[__m256i; 2]; 2] {
    // SAFETY: as the caller says; the loads need no alignment.
    unsafe {
        let mut first = [_mm256_setzero_si256(); 2];
        let mut second = first;
        for half in 0..2 {
            let pair = |lane: usize| -> __m128i { _mm_loadu_si128(strings[4 * half + lane].as_ptr().add(byte).cast()) };
            let even = _mm256_inserti128_si256(_mm256_castsi128_si256(pair(0)), pair(2), 1);
            let odd = _mm256_inserti128_si256(_mm256_castsi128_si256(pair(1)), pair(3), 1);
            first[half] = _mm256_unpacklo_epi64(even, odd);
            second[half] = _mm256_unpackhi_epi64(even, odd);
        }
        [first, second]
    }
}

/// Eight strings side by side, with their last blocks. With `SAME`, all have one number of full blocks; otherwise
/// `blocks` has that of each.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn hash_eight<const C: usize, const D: usize, const E: usize, const SAME: bool, T: Kept>(
    key: SipKey,
    strings: &[&[u8]; 8],
    blocks: &[u64; 8],
    last: &[u64; 8],
    out: &mut [T; 8],
) {
    let mut least = strings[0].len() / 8;
    let mut most = least;
    if !SAME {
        for bytes in &strings[1..] {
            least = least.min(bytes.len() / 8);
            most = most.max(bytes.len() / 8);
        }
    }
    // SAFETY: this function has AVX2; no string has fewer than `least` full blocks, and where one has ended its last
    // block is read instead.
    unsafe {
        let mut state = begin(key);
        let mut j = 0;
        while j + 2 <= least {
            let [first, second] = two_blocks(strings, 8 * j);
            absorb::<C>(&mut state, first);
            absorb::<C>(&mut state, second);
            j += 2;
        }
        if j < least {
            let mut from = [std::ptr::null(); 8];
            for lane in 0..8 {
                from[lane] = strings[lane].as_ptr().add(8 * j);
            }
            absorb::<C>(&mut state, gather(from));
        }
        if SAME || least == most {
            absorb::<C>(&mut state, load(last));
        } else {
            let ends = load(blocks);
            for j in least..=most {
                // Which block a lane takes is picked without a branch, which random lengths would make the processor
                // guess wrong.
                let mut from = [std::ptr::null(); 8];
                for lane in 0..8 {
                    let block = strings[lane].as_ptr().wrapping_add(8 * j);
                    from[lane] = if j < strings[lane].len() / 8 { block } else { (&raw const last[lane]).cast() };
                }
                // All ones where the lane had ended before this block.
                let now = _mm256_set1_epi64x(j as i64);
                let ended = [_mm256_cmpgt_epi64(now, ends[0]), _mm256_cmpgt_epi64(now, ends[1])];
                let before = state;
                absorb::<C>(&mut state, gather(from));
                keep_ended(&mut state, &before, ended);
            }
        }
        finish::<D, E, T>(state, out);
    }
}
