//! The lookup of a bumped ribbon filter: from a digest to its row, from the row to its layer, and the row held against
//! the columns.
//!
//! A digest becomes a `spot` and 64 `coefficients` by a bijection. The spot, scaled, is the first column of the row; the
//! row's 64 coefficients say which of the columns from there are added up (modulo 2); the sum must be the key's result
//! bits. Columns lie as planes: 64 columns are `r` words, one for each result bit, so that one row is two runs of `r`
//! words side by side, and a sum is an `and` and a parity: 14 words in two or three cache lines at 7 bits.
//!
//! Which layer has a key is decided by thresholds alone, one byte for 256 columns: keys that start at or past it were
//! bumped to the next layer.

use super::words::ReadWords;
use super::{prefetch, scale};
use crate::hash::Digest;

/// The most layers. About one key in 25 goes on to the next, so that 2^40 keys leave a few hundred to the eighth.
pub(crate) const MAX_LAYERS: usize = 8;
/// The columns under one threshold.
pub(crate) const BUCKET: u64 = 256;
/// The threshold of a bucket that bumps nothing; 0 bumps all of it. The last two columns have one rank, which is why
/// a byte is enough for both.
pub(crate) const ALL_STAY: u8 = 255;

/// Odd numbers without a pattern (the fractions of the square roots of 2, 3 and 5).
const SPREAD: u64 = 0x6a09_e667_f3bc_c909;
const CROSS: u64 = 0xbb67_ae85_84ca_a73b;
const RESULT: u64 = 0x3c6e_f372_fe94_f82b;
/// The golden ratio: the step from salt to salt.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64 bits in which every bit depends on all (the finaliser of MurmurHash3; Appleby 2011).
#[inline(always)]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// What a digest becomes: another 128 bits, one to one, so that different digests stay different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Row {
    /// Scaled, the first column; and the result bits.
    pub(crate) spot: u64,
    /// The columns that are added up; the lowest counts as set.
    pub(crate) coefficients: u64,
}

impl Row {
    /// The row of a digest in the first layer.
    #[inline(always)]
    pub(crate) fn of(digest: Digest) -> Self {
        Self::at(mix(digest.lo ^ digest.hi.wrapping_mul(SPREAD)), digest.hi)
    }

    /// The row of the same key in another layer, one to one as well.
    #[inline(always)]
    pub(crate) fn moved(self, salt: u64) -> Self {
        Self::at(mix(self.spot ^ salt), self.coefficients)
    }

    #[inline(always)]
    fn at(spot: u64, other: u64) -> Self {
        let crossed = (other ^ spot).wrapping_mul(CROSS);
        Self { spot, coefficients: crossed ^ (crossed >> 32) }
    }

    /// The result bits: the top of a product, which every bit of the spot has a part in.
    #[inline(always)]
    pub(crate) fn result(self, bits: u32) -> u32 {
        (self.spot.wrapping_mul(RESULT) >> (64 - bits)) as u32
    }

    /// One number by which rows are put in order: by their first column, and never level unless they are the same.
    #[inline(always)]
    pub(crate) fn order(self) -> u128 {
        u128::from(self.spot) << 64 | u128::from(self.coefficients)
    }
}

/// The salt of a layer that bumps; the first has none.
pub(crate) fn layer_salt(layer: usize) -> u64 {
    mix((layer as u64).wrapping_mul(STEP))
}

/// The salt of the last layer under a seed.
pub(crate) fn last_salt(seed: u64) -> u64 {
    mix(mix(seed.wrapping_add(STEP)) ^ CROSS)
}

/// The rank of a column in its bucket, which the threshold is held against.
#[inline(always)]
pub(crate) fn rank(start: u64) -> u8 {
    (start % BUCKET).min(u64::from(ALL_STAY) - 1) as u8
}

/// Who is asked before a threshold is read.
pub(crate) trait Gate {
    /// Whether the word may be believed.
    fn admits(&self, word: usize) -> bool;
}

/// Every word may be believed.
pub(crate) struct Open;

impl Gate for Open {
    #[inline(always)]
    fn admits(&self, _word: usize) -> bool {
        true
    }
}

/// A layer: where rows can start, and where its words are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Layer {
    /// Columns in which a row can start: all but the last 63.
    pub(crate) starts: u64,
    /// The word of its first threshold.
    pub(crate) thresholds: usize,
    /// The word of its first column.
    pub(crate) planes: usize,
    /// What its spots are mixed with.
    pub(crate) salt: u64,
}

/// All layers of a filter that has any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) bits: u32,
    pub(crate) layers: [Layer; MAX_LAYERS],
    /// The last layer, which has no thresholds.
    pub(crate) last: usize,
}

/// Where a key's sums are taken, and what must come out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Probe {
    /// The first word of the first run, and of the second: the same when the row lies in one.
    first: usize,
    second: usize,
    /// The columns of the first run, and of the second.
    low: u64,
    high: u64,
    result: u32,
}

impl Probe {
    /// The first and last words of both runs.
    pub(crate) fn ends(&self, bits: u32) -> [usize; 4] {
        let more = bits as usize - 1;
        [self.first, self.first + more, self.second, self.second + more]
    }
}

impl Plan {
    /// Where the layer that answers for a digest, by the thresholds, has its sums; nothing if the gate refuses one.
    #[inline(always)]
    pub(crate) fn find<W: ReadWords>(&self, words: W, digest: Digest, gate: impl Gate) -> Option<Probe> {
        let mut row = Row::of(digest);
        for (at, layer) in self.layers.iter().enumerate().take(self.last) {
            if at > 0 {
                row = row.moved(layer.salt);
            }
            let start = scale(row.spot, layer.starts);
            let bucket = start / BUCKET;
            let word = layer.thresholds + (bucket / 8) as usize;
            if !gate.admits(word) {
                return None;
            }
            let threshold = (words.load(word) >> (bucket % 8 * 8)) as u8;
            if rank(start) < threshold {
                return Some(self.probe(layer, start, row));
            }
        }
        let layer = &self.layers[self.last];
        let row = row.moved(layer.salt);
        Some(self.probe(layer, scale(row.spot, layer.starts), row))
    }

    #[inline(always)]
    fn probe(&self, layer: &Layer, start: u64, row: Row) -> Probe {
        let shift = start % 64;
        let first = layer.planes + (start / 64) as usize * self.bits as usize;
        let coefficients = row.coefficients | 1;
        Probe {
            first,
            second: if shift == 0 { first } else { first + self.bits as usize },
            low: coefficients << shift,
            // In two steps: a shift by 64 is none.
            high: (coefficients >> 1) >> (63 - shift),
            result: row.result(self.bits),
        }
    }

    /// Asks memory for all lines that a probe will read.
    #[inline(always)]
    pub(crate) fn fetch<W: ReadWords>(&self, words: W, probe: &Probe) {
        let last = probe.second + self.bits as usize - 1;
        prefetch(words, probe.first);
        prefetch(words, probe.first + 8);
        let mut word = probe.first + 16;
        while word < last {
            prefetch(words, word);
            word += 8;
        }
        prefetch(words, last);
    }

    /// Whether all sums come out as they must.
    #[inline(always)]
    pub(crate) fn answer<W: ReadWords>(&self, words: W, probe: &Probe, sums: impl Sums) -> bool {
        // `first` is never past `second`. A shape that its words do not fit is refused before; were one to come this
        // far, nothing could be said of the key.
        if probe.first > probe.second || probe.second.saturating_add(self.bits as usize) > words.count() {
            return true;
        }
        // SAFETY: `first + bits <= second + bits <= count`, as was just seen.
        unsafe { sums.match_all(words, probe, self.bits as usize) }
    }
}

/// How a probe's sums are taken.
pub(crate) trait Sums: Copy {
    /// Whether all `bits` sums are the result's.
    ///
    /// # Safety
    /// `bits` words from `first` and from `second` must be there.
    unsafe fn match_all<W: ReadWords>(self, words: W, probe: &Probe, bits: usize) -> bool;
}

/// One sum after the other.
#[derive(Clone, Copy)]
pub(crate) struct OneByOne;

impl Sums for OneByOne {
    #[inline(always)]
    unsafe fn match_all<W: ReadWords>(self, words: W, probe: &Probe, bits: usize) -> bool {
        let Probe { first, second, low, high, result } = *probe;
        let mut wrong = 0;
        for plane in 0..bits {
            // SAFETY: `plane` is below `bits`; the rest is the caller's.
            let (a, b) = unsafe { (words.load_unchecked(first + plane), words.load_unchecked(second + plane)) };
            // No branch for each: it would be guessed wrong for half of all absent keys.
            wrong |= ((a & low) ^ (b & high)).count_ones() ^ (result >> plane);
        }
        wrong & 1 == 0
    }
}

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{OneByOne, Probe, ReadWords, Sums};

    /// Eight sums at once: 14 ns a lookup of 7 bits in the caches, hash included, where one after the other takes 18.
    #[derive(Clone, Copy)]
    pub(super) struct EightAtOnce(());

    impl EightAtOnce {
        /// # Safety
        /// The processor must have AVX2.
        #[inline(always)]
        pub(super) unsafe fn new() -> Self {
            Self(())
        }
    }

    impl Sums for EightAtOnce {
        #[inline(always)]
        unsafe fn match_all<W: ReadWords>(self, words: W, probe: &Probe, bits: usize) -> bool {
            if W::SHARED || bits < 4 {
                // SAFETY: passed on.
                return unsafe { OneByOne.match_all(words, probe, bits) };
            }
            // SAFETY: `self` is the proof of AVX2; the words are the caller's promise.
            unsafe { match_all(words.as_ptr(), probe, bits) }
        }
    }

    /// # Safety
    /// As for [`Sums::match_all`]; nobody may be writing, and there are four bits at least.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn match_all(words: *const u64, probe: &Probe, bits: usize) -> bool {
        let low = _mm256_set1_epi64x(probe.low as i64);
        let high = _mm256_set1_epi64x(probe.high as i64);
        // The last four planes are looked at from their end, so that nothing beyond them is read.
        let last = bits - 4;
        let mut plane = 0;
        loop {
            let (one, two) = (plane.min(last), (plane + 4).min(last));
            // SAFETY: `one` and `two` are `bits - 4` at most.
            let sums = unsafe {
                let (first, second) = (words.add(probe.first), words.add(probe.second));
                parities(
                    folded(first.add(one), second.add(one), low, high),
                    folded(first.add(two), second.add(two), low, high),
                )
            };
            let wanted = (probe.result >> one & 15) | (probe.result >> two & 15) << 4;
            if sums != wanted {
                return false;
            }
            plane += 8;
            if plane >= bits {
                return true;
            }
        }
    }

    /// Four planes: the chosen columns of each, folded into the low half of its 64 bits.
    ///
    /// # Safety
    /// Four words must be at both places.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn folded(first: *const u64, second: *const u64, low: __m256i, high: __m256i) -> __m256i {
        // SAFETY: four words are 32 bytes; the loads need no alignment.
        let (a, b) = unsafe { (_mm256_loadu_si256(first.cast()), _mm256_loadu_si256(second.cast())) };
        let chosen = _mm256_xor_si256(_mm256_and_si256(a, low), _mm256_and_si256(b, high));
        _mm256_xor_si256(chosen, _mm256_srli_epi64(chosen, 32))
    }

    /// The parities of the low halves of eight words, in order.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn parities(one: __m256i, two: __m256i) -> u32 {
        let halves = _mm256_shuffle_ps::<0b10_00_10_00>(_mm256_castsi256_ps(one), _mm256_castsi256_ps(two));
        let mut x = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(halves));
        x = _mm256_xor_si256(x, _mm256_slli_epi32(x, 16));
        x = _mm256_xor_si256(x, _mm256_slli_epi32(x, 8));
        x = _mm256_xor_si256(x, _mm256_slli_epi32(x, 4));
        x = _mm256_xor_si256(x, _mm256_slli_epi32(x, 2));
        x = _mm256_xor_si256(x, _mm256_slli_epi32(x, 1));
        _mm256_movemask_ps(_mm256_castsi256_ps(x)) as u32
    }
}

/// Work on sums that is compiled twice, as a [`Job`](super::Job) is.
pub(crate) trait SumJob {
    /// What comes out.
    type Output;
    /// Does the work; `#[inline(always)]`, with all that it calls on the hot path.
    fn run(self, sums: impl Sums) -> Self::Output;
}

/// [`dispatch`](super::dispatch) for sums: with POPCNT and BMI1 too, which every processor with AVX2 has.
#[inline]
pub(crate) fn dispatch<J: SumJob>(job: J) -> J::Output {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if super::avx2() && is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi1") {
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
        fn run<J: SumJob>(job: J) -> J::Output {
            // SAFETY: this function is called where there is AVX2 alone.
            job.run(unsafe { avx2::EightAtOnce::new() })
        }
        // SAFETY: `avx2()` is true only where the processor has AVX2 and BMI2; POPCNT and BMI1 were asked for.
        return unsafe { run(job) };
    }
    job.run(OneByOne)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Undoes [`Row::of`]: what shows that different digests have different rows.
    fn undo(row: Row) -> Digest {
        fn inverse(odd: u64) -> u64 {
            // Newton: each step doubles the good bits, from the three that an odd number is its own inverse in.
            (0..5).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
        }
        let crossed = row.coefficients ^ (row.coefficients >> 32);
        let hi = crossed.wrapping_mul(inverse(CROSS)) ^ row.spot;
        let mut x = row.spot ^ (row.spot >> 33);
        x = x.wrapping_mul(inverse(0xc4ce_b9fe_1a85_ec53));
        x = (x ^ (x >> 33)).wrapping_mul(inverse(0xff51_afd7_ed55_8ccd));
        x ^= x >> 33;
        Digest::new(x ^ hi.wrapping_mul(SPREAD), hi)
    }

    #[test]
    fn different_digests_have_different_rows() {
        let mut dice = crate::math::dice::Dice(3);
        for _ in 0..1000 {
            let digest = Digest::new(dice.next(), dice.next());
            assert_eq!(undo(Row::of(digest)), digest);
        }
        assert_eq!(undo(Row::of(Digest::new(0, 0))), Digest::new(0, 0));
    }

    #[test]
    fn the_last_two_columns_of_a_bucket_have_one_rank() {
        assert_eq!([0, 1, 253, 254, 255, 256, 511].map(rank), [0, 1, 253, 254, 254, 0, 254]);
        assert!(rank(255) < ALL_STAY, "nothing is bumped at the top threshold");
    }

    #[test]
    fn a_row_lies_in_one_word_or_in_two() {
        let layer = Layer { starts: 129, planes: 5, ..Layer::default() };
        let plan = Plan { bits: 3, layers: [layer; MAX_LAYERS], last: 0 };
        let row = Row { spot: 0, coefficients: 0xf000_0000_0000_0010 };
        let probe = plan.probe(&layer, 64, row);
        assert_eq!((probe.first, probe.second, probe.low, probe.high), (8, 8, row.coefficients | 1, 0));
        let probe = plan.probe(&layer, 4, row);
        assert_eq!((probe.first, probe.second, probe.low, probe.high), (5, 8, 0x110, 0xf));
        assert_eq!(probe.ends(3), [5, 7, 8, 10]);
    }

    #[test]
    fn words_that_are_missing_are_a_maybe() {
        let layer = Layer { starts: 1, planes: 0, ..Layer::default() };
        let plan = Plan { bits: 4, layers: [layer; MAX_LAYERS], last: 0 };
        let probe = plan.probe(&layer, 0, Row::of(Digest::new(1, 2)));
        assert!(plan.answer(&[0u64; 3][..], &probe, OneByOne));
    }

    struct Both<'a>(&'a [u64], Probe, usize);

    impl SumJob for Both<'_> {
        type Output = [bool; 2];
        fn run(self, sums: impl Sums) -> [bool; 2] {
            assert!(self.1.first.max(self.1.second) + self.2 <= self.0.len());
            // SAFETY: as was just seen.
            unsafe { [sums.match_all(self.0, &self.1, self.2), OneByOne.match_all(self.0, &self.1, self.2)] }
        }
    }

    /// Sums taken eight at once are those taken one by one, for every number of them; and each bit counts.
    #[test]
    fn eight_sums_at_once_are_the_sums() {
        let mut dice = crate::math::dice::Dice(4);
        for bits in 1..=32 {
            for round in 0..100 {
                let words: Vec<u64> = (0..2 * bits).map(|_| dice.next()).collect();
                let second = if round % 8 == 0 { 0 } else { bits };
                let mut probe = Probe { first: 0, second, low: dice.next(), high: dice.next(), result: 0 };
                for plane in 0..bits {
                    let chosen = words[plane] & probe.low ^ words[second + plane] & probe.high;
                    probe.result |= (chosen.count_ones() & 1) << plane;
                }
                assert_eq!(dispatch(Both(&words, probe, bits)), [true; 2], "{bits} bits");
                probe.result ^= 1 << (dice.next() as usize % bits);
                assert_eq!(dispatch(Both(&words, probe, bits)), [false; 2], "{bits} bits");
            }
        }
    }
}
