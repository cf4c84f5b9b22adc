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
use super::{Job, dispatch, prefetch, scale};
use crate::hash::Digest;

/// The most layers. About one key in twenty goes on to the next, so that 2^40 keys leave 20,000 to the eighth.
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
        let mut word = probe.first;
        while word < last {
            prefetch(words, word);
            word += 8;
        }
        prefetch(words, last);
    }

    /// Whether all sums come out as they must.
    #[inline(always)]
    pub(crate) fn answer<W: ReadWords>(&self, words: W, probe: &Probe) -> bool {
        let Probe { first, second, low, high, .. } = *probe;
        let bits = self.bits as usize;
        let mut wanted = probe.result;
        // `first` is never past `second`. A shape that its words do not fit is refused before; were one to come this
        // far, nothing could be said of the key.
        if first > second || second.saturating_add(bits) > words.count() {
            return true;
        }
        let mut at = 0;
        loop {
            // Sixteen sums without a branch: a branch for each would be guessed wrong for half of all absent keys.
            let end = bits.min(at + 16);
            let mut wrong = 0;
            while at < end {
                // SAFETY: `at` is below `bits`, and `first + bits <= second + bits <= count`.
                let (a, b) = unsafe { (words.load_unchecked(first + at), words.load_unchecked(second + at)) };
                wrong |= ((a & low) ^ (b & high)).count_ones() ^ wanted;
                wanted >>= 1;
                at += 1;
            }
            if wrong & 1 != 0 {
                return false;
            }
            if at == bits {
                return true;
            }
        }
    }
}

/// [`dispatch`] for loops that live on parities: with POPCNT too, which every processor with AVX2 has.
#[inline]
pub(crate) fn dispatch_parity<J: Job>(job: J) -> J::Output {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if super::avx2() && is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi1") {
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
        fn run<J: Job>(job: J) -> J::Output {
            job.run()
        }
        // SAFETY: `avx2()` is true only where the processor has AVX2 and BMI2; POPCNT and BMI1 were asked for.
        return unsafe { run(job) };
    }
    dispatch(job)
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
        assert!(plan.answer(&[0u64; 3][..], &probe));
    }
}
