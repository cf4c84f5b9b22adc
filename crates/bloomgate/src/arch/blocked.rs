//! One 512-bit line per key: eight words, four lanes, two bits in one word of each lane.
//!
//! ```text
//!  hash  63 ──────────────── 32 31 ───────────────── 0
//!        which line (multiply-shift)   x = low 32 bits
//!  lane i: p = x · SALT[i];  bits (p>>26)&63 and (p>>20)&63, in word i or i+4 by bit 19 of p
//!
//!  line   word 0  1  2  3 │ 4  5  6  7
//!  lane        0  1  2  3 │ 0  1  2  3
//! ```
//!
//! Two layouts were measured before this one was frozen: eight words with one bit each (8x1), and four of eight words
//! with two bits each (4x2). `scripts/bench lines` runs the race; ns a key on an AMD EPYC (Zen 3), 2 cores, 10.12 bits a
//! key, batches with XXH3 inside, 8x1 → 4x2:
//!
//! | | 20 k keys | 1 M | 10 M | 50 M |
//! |---|---|---|---|---|
//! | shared insert, 1 thread | 20.7 → 10.8 | 23.2 → 13.0 | 27.7 → 15.8 | 27.2 → 17.1 |
//! | shared insert, 2 threads, aggregate | 10.4 → 5.5 | 11.9 → 6.5 | 13.2 → 7.2 | 13.1 → 8.0 |
//! | shared lookup, line by `asm!`, 2 threads | 1.48 → 1.49 | 1.7 → 1.7 | 3.1 → 2.5 | 4.8 → 5.1 |
//! | shared lookup, relaxed words, 2 threads | 2.78 → 2.42 | 2.9 → 2.6 | 5.5 → 3.7 | 6.1 → 6.1 |
//! | plain insert | 2.40 → 2.86 | 2.92 → 3.18 | 4.10 → 4.27 | 9.5 → 11.0 |
//! | plain hit | 2.80 → 2.78 | 2.98 → 3.02 | 4.37 → 4.49 | 10.6 → 10.5 |
//! | plain miss | 2.81 → 2.77 | 3.06 → 3.02 | 5.03 → 4.53 | 9.8 → 9.4 |
//!
//! The two right columns swing by 15 % between runs. Measured rate at 10.12 bits: 0.992 % → 0.997 %; at 15.85 bits:
//! 0.0962 % → 0.0992 %. Half the locked operations for half a percent of bits: 4x2. Two bits in the two *halves* of a
//! word, which could never fall together, would cost 10.16 bits at 1 % instead of 10.11; choosing the words in pairs
//! costs 10.24, and is done only where a counting filter needs it.
//!
//! The scalar functions are the specification. The AVX2 ones read the line in two loads, blend the two halves by
//! the select bits and test all eight bits with one instruction.

use super::words::{ReadWords, WriteWords};
use super::{CHUNK, prefetch_byte, scale};

/// Words in a line.
pub(crate) const LINE_WORDS: usize = 8;
/// Lanes in a line; each has two words to choose from.
pub(crate) const LANES: usize = 4;

/// One odd multiplier per lane: the first four of the Parquet split-block specification, whose evenness has been
/// tried at length. Frozen with file version 1.
const SALTS: [u32; LANES] = [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d];

/// The first word of the line that `hash` falls in.
#[inline(always)]
pub(crate) fn line_start(hash: u64, lines: u64) -> usize {
    scale(hash, lines) as usize * LINE_WORDS
}

/// The same in bytes: one shift less in the loops that read lines by vectors.
#[inline(always)]
fn line_byte(hash: u64, lines: u64) -> usize {
    scale(hash, lines) as usize * (LINE_WORDS * 8)
}

/// For each lane the word (0..8) and the two bits in it. With `PAIRED`, lanes 0 and 1 share one choice of half and
/// lanes 2 and 3 another, so that a key's cells lie in two quarter lines (what a counting filter wants).
#[inline(always)]
pub(crate) fn marks<const PAIRED: bool>(hash: u64) -> [(usize, u32, u32); LANES] {
    let x = hash & 0xffff_ffff;
    std::array::from_fn(|lane| {
        let product = x * u64::from(SALTS[lane]);
        let chooser = if PAIRED { x * u64::from(SALTS[lane & !1]) } else { product };
        let word = lane + LANES * ((chooser >> 19) & 1) as usize;
        (word, ((product >> 26) & 63) as u32, ((product >> 20) & 63) as u32)
    })
}

#[inline(always)]
pub(crate) fn contains_scalar<const PAIRED: bool, W: ReadWords>(words: W, lines: u64, hash: u64) -> bool {
    let start = line_start(hash, lines);
    let mut missing = 0;
    for (word, a, b) in marks::<PAIRED>(hash) {
        missing |= (1 << a | 1 << b) & !words.load(start + word);
    }
    missing == 0
}

#[inline(always)]
pub(crate) fn insert_scalar<const PAIRED: bool, W: WriteWords>(words: &mut W, lines: u64, hash: u64) -> bool {
    let start = line_start(hash, lines);
    let mut fresh = 0;
    for (word, a, b) in marks::<PAIRED>(hash) {
        let bits = 1 << a | 1 << b;
        fresh |= bits & !words.set(start + word, bits);
    }
    fresh != 0
}

/// What the AVX2 versions rely on: all lines are inside the words, and shared words are aligned to a vector.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
#[inline(always)]
fn check<W: ReadWords>(words: W, lines: u64) {
    assert!(lines <= (words.count() / LINE_WORDS) as u64);
    assert!(!W::SHARED || words.as_ptr().addr().is_multiple_of(32));
}

/// Whether all bits of `hash` are set.
#[inline]
pub(crate) fn contains<const PAIRED: bool, W: ReadWords>(words: W, lines: u64, hash: u64) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if super::avx2() {
        check(words, lines);
        // SAFETY: AVX2 is there, and `check` has seen that every line below `lines` lies inside the words.
        return unsafe { avx2::contains_one::<PAIRED, W>(words, lines, hash) };
    }
    contains_scalar::<PAIRED, W>(words, lines, hash)
}

/// Sets all bits of `hash`; true if any of them was not set before.
#[inline]
pub(crate) fn insert<const PAIRED: bool, W: WriteWords>(words: &mut W, lines: u64, hash: u64) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if super::avx2() {
        check(words.read(), lines);
        // SAFETY: AVX2 is there, and `check` has seen that every line below `lines` lies inside the words.
        return unsafe { avx2::insert_one::<PAIRED, W>(words, lines, hash) };
    }
    insert_scalar::<PAIRED, W>(words, lines, hash)
}

/// A chunk of keys on its way through the pipe: hashed, and where their lines begin.
pub(crate) struct Flight {
    /// The hashes; the first [`len`](Self::len) of them count.
    pub(crate) hashes: [u64; CHUNK],
    /// How many keys there are.
    pub(crate) len: usize,
    /// Where each line begins, in bytes: filled when the lines are asked for, read when they are probed.
    starts: [usize; CHUNK],
    /// The number of lines that `starts` was made for.
    lines: u64,
}

impl Flight {
    pub(crate) const EMPTY: Flight = Flight { hashes: [0; CHUNK], len: 0, starts: [0; CHUNK], lines: 0 };

    /// Notes where the lines begin and asks memory for them.
    #[inline(always)]
    fn depart<W: ReadWords>(&mut self, words: W, lines: u64) {
        for j in 0..self.len {
            self.starts[j] = line_byte(self.hashes[j], lines);
            prefetch_byte(words, self.starts[j]);
        }
    }
}

/// Probes `now` while asking memory for the lines of `next`: `answers[i]` says whether all bits of the i-th key are set,
/// or, with `MORE`, becomes false where one is missing (a key's second line and those after it).
///
/// One loop that probes an old key and prefetches a new one beats "prefetch all, then probe all" at every size.
#[inline(always)]
pub(crate) fn contains_chunk<const PAIRED: bool, const MORE: bool, W: ReadWords>(
    words: W,
    lines: u64,
    now: &Flight,
    next: &mut Flight,
    answers: &mut [bool],
) {
    board(lines, now, next, answers.len());
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if super::avx2() {
        check(words, lines);
        // SAFETY: AVX2 and BMI2 are there, `check` has seen that every line below `lines` lies inside the words, and
        // `board` that `now` was made for as many lines.
        return unsafe { avx2::contains_chunk::<PAIRED, MORE, W>(words, lines, now, next, answers) };
    }
    next.depart(words, lines);
    for (&hash, answer) in now.hashes[..now.len].iter().zip(answers) {
        *answer = (!MORE || *answer) & contains_scalar::<PAIRED, W>(words, lines, hash);
    }
}

/// Inserts `now` while asking memory for the lines of `next`; how many keys lacked a bit in this line. With `TELL`,
/// `fresh[i]` becomes true where the i-th key did (for keys with several lines).
#[inline(always)]
pub(crate) fn insert_chunk<const PAIRED: bool, const TELL: bool, W: WriteWords>(
    words: &mut W,
    lines: u64,
    now: &Flight,
    next: &mut Flight,
    fresh: &mut [bool; CHUNK],
) -> u64 {
    board(lines, now, next, CHUNK);
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if super::avx2() {
        check(words.read(), lines);
        // SAFETY: as in `contains_chunk`.
        return unsafe { avx2::insert_chunk::<PAIRED, TELL, W>(words, lines, now, next, fresh) };
    }
    next.depart(words.read(), lines);
    let mut count = 0;
    for (&hash, fresh) in now.hashes[..now.len].iter().zip(fresh) {
        let new = insert_scalar::<PAIRED, W>(words, lines, hash);
        count += u64::from(new);
        *fresh |= TELL & new;
    }
    count
}

/// What both ends of the pipe rely on: there is room for the answers, and `now` has its lines where it thinks.
#[inline(always)]
fn board(lines: u64, now: &Flight, next: &mut Flight, room: usize) {
    assert!(now.len <= CHUNK && now.len <= room && next.len <= CHUNK);
    assert!(now.len == 0 || now.lines == lines);
    next.lines = lines;
}

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
// The loops go over several arrays in step, by one index.
#[allow(clippy::needless_range_loop)]
mod avx2 {
    use super::super::words::{ReadWords, WriteWords};
    use super::super::{CHUNK, prefetch_byte};
    use super::{Flight, LANES, SALTS, line_byte};
    use std::arch::asm;
    use std::arch::x86_64::*;

    /// One multiplier for each lane.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    fn salts() -> __m256i {
        let [a, b, c, d] = SALTS.map(i64::from);
        _mm256_set_epi64x(d, c, b, a)
    }

    /// The products of the low halves of all lanes.
    ///
    /// As `asm!`, for the compiler knows too much of `_mm256_mul_epu32`: seeing which bits are used it multiplies twice
    /// instead of shifting one product, or in 64 bits with three multiplications (0.3 and 0.5 ns a key).
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    fn multiply(a: __m256i, b: __m256i) -> __m256i {
        let product: __m256i;
        // SAFETY: registers only.
        unsafe {
            asm!(
                "vpmuludq {product}, {a}, {b}",
                a = in(ymm_reg) a,
                b = in(ymm_reg) b,
                product = lateout(ymm_reg) product,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        product
    }

    /// The two bits of each lane, and a vector whose lanes' top bits choose the half.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    fn pattern<const PAIRED: bool>(salts: __m256i, hash: __m256i) -> (__m256i, __m256d) {
        let product = multiply(hash, salts);
        let six_bits = _mm256_set1_epi64x(63);
        let one = _mm256_set1_epi64x(1);
        let a = _mm256_and_si256(_mm256_srli_epi64::<26>(product), six_bits);
        let b = _mm256_and_si256(_mm256_srli_epi64::<20>(product), six_bits);
        let bits = _mm256_or_si256(_mm256_sllv_epi64(one, a), _mm256_sllv_epi64(one, b));
        let choice = _mm256_slli_epi64::<44>(product);
        let choice = if PAIRED { _mm256_permute4x64_epi64::<0b10_10_00_00>(choice) } else { choice };
        (bits, _mm256_castsi256_pd(choice))
    }

    /// A hash in every lane, in one instruction: left to itself the compiler sees that only the low half is used, loads
    /// that, and moves it over in three.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    fn spread<const N: usize>(hashes: &[u64; N], at: usize) -> __m256i {
        assert!(at < N);
        let lanes: __m256i;
        // SAFETY: reads the eight bytes of one of the hashes and nothing else.
        unsafe {
            asm!(
                "vpbroadcastq {lanes}, qword ptr [{hashes} + {at} * 8]",
                hashes = in(reg) hashes,
                at = in(reg) at,
                lanes = out(ymm_reg) lanes,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        lanes
    }

    /// Both halves of a line.
    ///
    /// Shared lines are read by `asm!`, which stands for eight relaxed loads of eight bytes each: aligned vector
    /// loads never tear inside an aligned eight-byte word on x86-64 (Intel SDM 9.1.1, AMD APM 7.3.2), no order
    /// between the words is assumed, and the compiler, which must not see a data race, sees an opaque instruction.
    ///
    /// # Safety
    /// `line` must point to 64 readable bytes; aligned to 32 if `SHARED`.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    unsafe fn load_line<const SHARED: bool>(line: *const u64) -> (__m256i, __m256i) {
        if SHARED {
            let low: __m256i;
            let high: __m256i;
            // SAFETY: the caller gives 64 readable bytes aligned to 32; the instructions only read them.
            unsafe {
                asm!(
                    "vmovdqa {low}, ymmword ptr [{line}]",
                    "vmovdqa {high}, ymmword ptr [{line} + 32]",
                    line = in(reg) line,
                    low = out(ymm_reg) low,
                    high = out(ymm_reg) high,
                    options(nostack, preserves_flags, readonly),
                );
            }
            (low, high)
        } else {
            // SAFETY: the caller gives 64 readable bytes.
            unsafe { (_mm256_loadu_si256(line.cast()), _mm256_loadu_si256(line.add(4).cast())) }
        }
    }

    /// # Safety
    /// As `load_line`.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    unsafe fn contains<const PAIRED: bool, const SHARED: bool>(
        line: *const u64,
        salts: __m256i,
        hash: __m256i,
    ) -> bool {
        let (bits, choice) = pattern::<PAIRED>(salts, hash);
        // SAFETY: passed on to the caller.
        let (low, high) = unsafe { load_line::<SHARED>(line) };
        let chosen = _mm256_blendv_pd(_mm256_castsi256_pd(low), _mm256_castsi256_pd(high), choice);
        _mm256_testc_si256(_mm256_castpd_si256(chosen), bits) != 0
    }

    /// # Safety
    /// `line` must point to 64 bytes that we alone may write.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    unsafe fn insert_alone<const PAIRED: bool>(line: *mut u64, salts: __m256i, hash: __m256i) -> bool {
        let (bits, choice) = pattern::<PAIRED>(salts, hash);
        // SAFETY: passed on to the caller.
        let (low, high) = unsafe { load_line::<false>(line) };
        let zero = _mm256_setzero_pd();
        let bits_pd = _mm256_castsi256_pd(bits);
        let chosen = _mm256_blendv_pd(_mm256_castsi256_pd(low), _mm256_castsi256_pd(high), choice);
        let into_low = _mm256_castpd_si256(_mm256_blendv_pd(bits_pd, zero, choice));
        let into_high = _mm256_castpd_si256(_mm256_blendv_pd(zero, bits_pd, choice));
        // SAFETY: the caller gives 64 bytes that we alone may write.
        unsafe {
            _mm256_storeu_si256(line.cast(), _mm256_or_si256(low, into_low));
            _mm256_storeu_si256(line.add(4).cast(), _mm256_or_si256(high, into_high));
        }
        _mm256_testc_si256(_mm256_castpd_si256(chosen), bits) == 0
    }

    /// Four locked ORs, unless a look shows that all bits are there: a locked read-modify-write costs 3.6-4.5 ns a
    /// word, which is why two bits share one. On new keys the look costs nothing that shows (10.7 against 10.8 ns at
    /// 20 k keys, 13.0 against 13.0 at 1 M); on keys already there it saves all four. What is said to be new comes
    /// from the ORs alone, so of several threads with one new key at least one hears it.
    ///
    /// # Safety
    /// The words must hold a line, aligned to 32 bytes, at `start`.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    unsafe fn insert_shared<const PAIRED: bool, W: WriteWords>(
        words: &mut W,
        start: usize,
        salts: __m256i,
        hash: __m256i,
    ) -> bool {
        let (bits, choice) = pattern::<PAIRED>(salts, hash);
        // SAFETY: passed on to the caller.
        let (low, high) = unsafe { load_line::<true>(words.read().as_ptr().add(start)) };
        let chosen = _mm256_blendv_pd(_mm256_castsi256_pd(low), _mm256_castsi256_pd(high), choice);
        if _mm256_testc_si256(_mm256_castpd_si256(chosen), bits) != 0 {
            return false;
        }
        let halves = _mm256_movemask_pd(choice) as usize;
        let mut lanes = [0u64; LANES];
        // SAFETY: `lanes` is 32 bytes, and the store does not ask for alignment.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), bits) };
        let mut fresh = 0;
        for (lane, bits) in lanes.into_iter().enumerate() {
            let word = lane + LANES * ((halves >> lane) & 1);
            fresh |= bits & !words.set(start + word, bits);
        }
        fresh != 0
    }

    /// # Safety
    /// A line must begin at byte `start`, aligned to 32 bytes if shared.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    unsafe fn contains_at<const PAIRED: bool, W: ReadWords>(
        words: W,
        start: usize,
        salts: __m256i,
        hash: __m256i,
    ) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
            let line = words.as_ptr().byte_add(start);
            if W::SHARED {
                contains::<PAIRED, true>(line, salts, hash)
            } else {
                contains::<PAIRED, false>(line, salts, hash)
            }
        }
    }

    /// # Safety
    /// A line must begin at byte `start`, aligned to 32 bytes if shared.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    unsafe fn insert_at<const PAIRED: bool, W: WriteWords>(
        words: &mut W,
        start: usize,
        salts: __m256i,
        hash: __m256i,
    ) -> bool {
        // SAFETY: passed on to the caller; `&mut` makes us alone where the words are not shared.
        unsafe {
            if W::SHARED {
                insert_shared::<PAIRED, W>(words, start / 8, salts, hash)
            } else {
                insert_alone::<PAIRED>(words.as_mut_ptr().byte_add(start), salts, hash)
            }
        }
    }

    /// # Safety
    /// The words must hold `lines` lines, aligned to 32 bytes if shared.
    #[target_feature(enable = "avx2,bmi2")]
    pub(super) unsafe fn contains_one<const PAIRED: bool, W: ReadWords>(words: W, lines: u64, hash: u64) -> bool {
        // SAFETY: `line_start` is below `lines` lines, which the caller promises to be there.
        unsafe { contains_at::<PAIRED, W>(words, line_byte(hash, lines), salts(), spread(&[hash], 0)) }
    }

    /// # Safety
    /// The words must hold `lines` lines, aligned to 32 bytes if shared.
    #[target_feature(enable = "avx2,bmi2")]
    pub(super) unsafe fn insert_one<const PAIRED: bool, W: WriteWords>(words: &mut W, lines: u64, hash: u64) -> bool {
        // SAFETY: `line_start` is below `lines` lines, which the caller promises to be there.
        unsafe { insert_at::<PAIRED, W>(words, line_byte(hash, lines), salts(), spread(&[hash], 0)) }
    }

    /// # Safety
    /// The words must hold `lines` lines, aligned to 32 bytes if shared, and `now` must have departed for as many.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    pub(super) unsafe fn contains_chunk<const PAIRED: bool, const MORE: bool, W: ReadWords>(
        words: W,
        lines: u64,
        now: &Flight,
        next: &mut Flight,
        answers: &mut [bool],
    ) {
        let salts = salts();
        if now.len == CHUNK && next.len == CHUNK {
            let answers = &mut answers[..CHUNK];
            for j in 0..CHUNK {
                // SAFETY: `starts` are lines below `lines`, which the caller promises to be there.
                let all = unsafe { contains_at::<PAIRED, W>(words, now.starts[j], salts, spread(&now.hashes, j)) };
                answers[j] = (!MORE || answers[j]) & all;
                next.starts[j] = line_byte(next.hashes[j], lines);
                prefetch_byte(words, next.starts[j]);
            }
            return;
        }
        next.depart(words, lines);
        for j in 0..now.len {
            // SAFETY: `starts` are lines below `lines`, which the caller promises to be there.
            let all = unsafe { contains_at::<PAIRED, W>(words, now.starts[j], salts, spread(&now.hashes, j)) };
            answers[j] = (!MORE || answers[j]) & all;
        }
    }

    /// # Safety
    /// The words must hold `lines` lines, aligned to 32 bytes if shared, and `now` must have departed for as many.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    pub(super) unsafe fn insert_chunk<const PAIRED: bool, const TELL: bool, W: WriteWords>(
        words: &mut W,
        lines: u64,
        now: &Flight,
        next: &mut Flight,
        fresh: &mut [bool; CHUNK],
    ) -> u64 {
        let salts = salts();
        let mut count = 0;
        if now.len == CHUNK && next.len == CHUNK {
            for j in 0..CHUNK {
                // SAFETY: `starts` are lines below `lines`, which the caller promises to be there.
                let new = unsafe { insert_at::<PAIRED, W>(words, now.starts[j], salts, spread(&now.hashes, j)) };
                count += u64::from(new);
                if TELL {
                    fresh[j] |= new;
                }
                next.starts[j] = line_byte(next.hashes[j], lines);
                prefetch_byte(words.read(), next.starts[j]);
            }
            return count;
        }
        next.depart(words.read(), lines);
        for j in 0..now.len {
            // SAFETY: `starts` are lines below `lines`, which the caller promises to be there.
            let new = unsafe { insert_at::<PAIRED, W>(words, now.starts[j], salts, spread(&now.hashes, j)) };
            count += u64::from(new);
            if TELL {
                fresh[j] |= new;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: usize, mut state: u64) -> Vec<u64> {
        (0..count)
            .map(|_| {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                mixed ^ (mixed >> 31)
            })
            .collect()
    }

    fn flight(hashes: &[u64]) -> Flight {
        let mut flight = Flight::EMPTY;
        flight.hashes[..hashes.len()].copy_from_slice(hashes);
        flight.len = hashes.len();
        flight
    }

    /// The AVX2 versions against the scalar specification: same bits, same "fresh", same answers.
    fn simd_equals_scalar<const PAIRED: bool>() {
        if !super::super::avx2() {
            return;
        }
        let lines = 97u64;
        let keys = hashes(4_000, 1);
        let mut by_scalar = vec![0u64; lines as usize * LINE_WORDS];
        let mut by_one = by_scalar.clone();
        let mut by_chunk = by_scalar.clone();
        for chunk in keys.chunks(CHUNK - 3) {
            let mut fresh = [false; CHUNK];
            let (mut now, mut next) = (flight(chunk), Flight::EMPTY);
            let words = &mut by_chunk.as_mut_slice();
            assert_eq!(insert_chunk::<PAIRED, true, _>(words, lines, &next, &mut now, &mut fresh), 0);
            let count = insert_chunk::<PAIRED, true, _>(words, lines, &now, &mut next, &mut fresh);
            assert_eq!(count, fresh.iter().filter(|&&new| new).count() as u64);
            for (&hash, fresh) in chunk.iter().zip(fresh) {
                let expected = insert_scalar::<PAIRED, _>(&mut by_scalar.as_mut_slice(), lines, hash);
                assert_eq!(insert::<PAIRED, _>(&mut by_one.as_mut_slice(), lines, hash), expected);
                assert_eq!(fresh, expected);
            }
            assert_eq!(by_scalar, by_one);
            assert_eq!(by_scalar, by_chunk);
            let asked = hashes(CHUNK, chunk[0]);
            let mut answers = [true; CHUNK];
            let (mut now, mut next) = (flight(&asked), flight(&asked));
            contains_chunk::<PAIRED, false, _>(by_chunk.as_slice(), lines, &Flight::EMPTY, &mut now, &mut []);
            contains_chunk::<PAIRED, true, _>(by_chunk.as_slice(), lines, &now, &mut next, &mut answers);
            for (&hash, answer) in asked.iter().zip(answers) {
                let expected = contains_scalar::<PAIRED, _>(by_scalar.as_slice(), lines, hash);
                assert_eq!(contains::<PAIRED, _>(by_one.as_slice(), lines, hash), expected);
                assert_eq!(answer, expected);
            }
        }
    }

    #[test]
    fn simd_equals_scalar_free_and_paired() {
        simd_equals_scalar::<false>();
        simd_equals_scalar::<true>();
    }

    /// T22: the line and the bits in it come from different halves of the hash.
    #[test]
    fn line_and_marks_share_no_bits() {
        let low = 0x0000_0000_89ab_cdef;
        let high = 0x0123_4567_0000_0000;
        for flip in 0..32 {
            assert_eq!(marks::<false>(low), marks::<false>(low ^ (1 << (32 + flip))));
            assert_eq!(line_start(high, 1 << 20), line_start(high ^ (1 << flip), 1 << 20));
        }
    }

    /// With `PAIRED`, lanes 0 and 1 lie in one half of the line and lanes 2 and 3 in one half.
    #[test]
    fn paired_lanes_share_their_half() {
        for hash in hashes(1_000, 2) {
            let halves = marks::<true>(hash).map(|(word, _, _)| word / LANES);
            assert_eq!(halves[0], halves[1]);
            assert_eq!(halves[2], halves[3]);
        }
    }

    /// Every bit of a line is as likely as every other, in each lane.
    #[test]
    fn marks_are_even() {
        for paired in [false, true] {
            let mut counts = [[0u32; 64]; LINE_WORDS];
            let draws = 1 << 18;
            for hash in hashes(draws, 3) {
                for (word, a, b) in if paired { marks::<true>(hash) } else { marks::<false>(hash) } {
                    counts[word][a as usize] += 1;
                    counts[word][b as usize] += 1;
                }
            }
            let mean = draws as f64 * 8.0 / 512.0;
            let chi: f64 = counts.iter().flatten().map(|&c| (f64::from(c) - mean).powi(2) / mean).sum();
            // About 511 degrees of freedom; the lane split removes a few. 4.5 standard deviations to both sides.
            assert!((chi - 511.0).abs() < 4.5 * (2.0f64 * 511.0).sqrt(), "paired {paired}: chi-square {chi}");
        }
    }
}
