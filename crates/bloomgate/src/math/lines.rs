//! What the lines of a filter look like after `n` random keys: how full they are, and how much they differ.
//!
//! A filter is read in lines of 512 bits (256 in Parquet's). `U` is the number of unset bits of a line. Its mean is
//! `line bits · e^(c n)`, `c` the logarithm of the chance that a key leaves a given bit alone. Lines of one filter are
//! exchangeable, so over any of them
//!
//! ```text
//! E[Σ (U - mean of these)²] = (lines read - 1) · (Var U - Cov(U, U'))
//! ```
//!
//! **Bits anywhere** (classic, partitioned, most foreign forms): a line is a hypergeometric draw, and the bracket is
//! `512 p (1 - p)` with a share `p` of bits set. **Blocked**: keys fall into lines first, so loads are binomial and lines
//! differ several times more than that; the bracket is the sum over pairs of bits of how much more often two of a line
//! stay unset together than two of different lines. The same pairs give the error of a count read off the bits
//! ([`super::estimate`]).

use super::blocked::LINE_BITS;
use super::{blocked, classic, estimate, partitioned, split_block};

/// How the bits of a key are spread, and over how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// Each of `hashes` bits anywhere.
    Anywhere {
        /// All bits.
        bits: u64,
        /// Bits of a key.
        hashes: u32,
    },
    /// One bit in each of some slices.
    Slices {
        /// Bits of a slice.
        slice_bits: u64,
        /// How many slices, and bits of a key.
        slices: u32,
    },
    /// Eight bits in a line of 512, in so many lines.
    Lines {
        /// All lines.
        lines: u64,
        /// Lines of a key.
        per_key: u32,
        /// Whether lanes choose their halves in pairs.
        paired: bool,
    },
    /// Eight bits in a block of 256.
    SplitBlocks {
        /// All blocks.
        blocks: u64,
    },
}

impl Pattern {
    /// Bits of what is read as one line.
    #[must_use]
    pub fn line_bits(&self) -> u64 {
        match self {
            Self::SplitBlocks { .. } => split_block::BLOCK_BITS,
            _ => LINE_BITS,
        }
    }

    /// All bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        match *self {
            Self::Anywhere { bits, .. } => bits,
            Self::Slices { slice_bits, slices } => slice_bits.saturating_mul(slices.into()),
            Self::Lines { lines, .. } => lines.saturating_mul(LINE_BITS),
            Self::SplitBlocks { blocks } => blocks.saturating_mul(split_block::BLOCK_BITS),
        }
    }

    /// Whole lines; what is left of the bits is not looked at.
    #[must_use]
    pub fn whole_lines(&self) -> u64 {
        self.bits() / self.line_bits()
    }

    /// `ln` of the chance that a key leaves a given bit alone.
    #[must_use]
    pub fn miss(&self) -> f64 {
        let one_of = |cells: f64| if cells <= 1.0 { -1.0 } else { (-1.0 / cells).ln_1p() };
        match *self {
            Self::Anywhere { bits, hashes } => f64::from(hashes) * one_of(bits as f64),
            Self::Slices { slice_bits, .. } => one_of(slice_bits as f64),
            Self::Lines { lines, per_key, .. } => {
                f64::from(per_key) * (-(1.0 - blocked::MISS_ONE) / lines.max(1) as f64).ln_1p()
            }
            Self::SplitBlocks { blocks } => one_of(blocks as f64 * 32.0),
        }
    }

    /// The standard error of a number of keys that is read off all bits, with `n` keys in.
    #[must_use]
    pub fn count_error(&self, n: f64) -> f64 {
        match *self {
            Self::Anywhere { bits, hashes } => estimate::classic_error(bits, hashes, n),
            Self::Slices { slice_bits, slices } => estimate::partitioned_error(slice_bits, slices, n),
            Self::Lines { lines, per_key, paired } => estimate::blocked_keys_error(lines, per_key, paired, n),
            Self::SplitBlocks { blocks } => {
                let blocks = blocks.max(1) as f64;
                // Every pair of bits of the filter: those of one block, and those of two.
                let spread = split_block_spread(blocks, n) / blocks + different_lines(1.0 / 32.0 / blocks, n).exp_m1();
                spread.max(0.0).sqrt() / -self.miss()
            }
        }
    }

    /// `(Var U - Cov(U, U')) / E[U]²` of a line, with `n` keys in.
    #[must_use]
    pub fn line_spread(&self, n: f64) -> f64 {
        match *self {
            Self::Lines { lines, per_key, paired } => {
                estimate::blocked_line_spread(lines.max(1) as f64, n * f64::from(per_key), paired)
            }
            Self::SplitBlocks { blocks } => split_block_spread(blocks.max(1) as f64, n),
            _ => {
                let unset = (n * self.miss()).exp();
                (1.0 - unset) / unset / self.line_bits() as f64
            }
        }
    }

    /// How much more often than a normal number's the square of a line's deviation is large (its excess kurtosis): that of
    /// a Poisson load where keys fall into lines, that of a binomial where bits do.
    #[must_use]
    pub fn line_tail(&self, n: f64) -> f64 {
        match *self {
            Self::Lines { lines, per_key, .. } => lines as f64 / (n * f64::from(per_key)),
            Self::SplitBlocks { blocks } => blocks as f64 / n,
            _ => {
                let unset = (n * self.miss()).exp();
                1.0 / (self.line_bits() as f64 * unset * (1.0 - unset))
            }
        }
    }

    /// The expected rate with `n` different keys.
    #[must_use]
    pub fn rate(&self, n: u64) -> f64 {
        match *self {
            // Exact chains take milliseconds where this needs a microsecond, and differ for a handful of keys only.
            Self::Anywhere { bits, hashes } if n > 128 => {
                (-(n as f64 * f64::from(hashes) / bits.max(1) as f64)).exp_m1().abs().powf(f64::from(hashes))
            }
            Self::Anywhere { bits, hashes } => classic::rate(bits, hashes, n),
            Self::Slices { slice_bits, slices } => partitioned::rate(slice_bits, slices, n),
            Self::Lines { lines, per_key, paired } => blocked::rate(lines, per_key, paired, n),
            Self::SplitBlocks { blocks } => split_block::rate(blocks, n),
        }
    }
}

/// How much more often than independent bits two of different lines stay unset together, as a logarithm: a key that sets
/// one with the chance `one` sets both never.
fn different_lines(one: f64, keys: f64) -> f64 {
    keys * (-(one / (1.0 - one)).powi(2)).ln_1p()
}

fn split_block_spread(blocks: f64, n: f64) -> f64 {
    let one = 1.0 / 32.0 / blocks;
    let miss = (-one).ln_1p();
    let together = |both: f64| (n * ((-(1.0 - both) / blocks).ln_1p() - 2.0 * miss)).exp();
    let same_bit = (-n * miss).exp();
    let same_word = together(30.0 / 32.0);
    let other_word = together((31.0f64 / 32.0).powi(2));
    (same_bit + 31.0 * same_word + 224.0 * other_word) / 256.0 - different_lines(one, n).exp()
}

/// A sum of `degrees` squares of normal numbers as one normal number (Wilson and Hilferty 1931): good to a tenth of a
/// standard deviation out to five of them, from three degrees on.
#[must_use]
pub fn chi_square_score(sum: f64, degrees: f64) -> f64 {
    let ninth = 2.0 / (9.0 * degrees);
    ((sum.max(0.0) / degrees).cbrt() - (1.0 - ninth)) / ninth.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::dice::Dice;

    /// Mean over many random filters of the squared differences between lines, against the theory.
    fn spread_of(pattern: Pattern, n: u64, filters: u64, mut key: impl FnMut(&mut [u64])) -> (f64, f64) {
        let words = (pattern.bits() / 64) as usize;
        let per_line = (pattern.line_bits() / 64) as usize;
        let (mut sum, mut sets) = (0.0, 0.0);
        for _ in 0..filters {
            let mut bits = vec![0u64; words];
            (0..n).for_each(|_| key(&mut bits));
            let set = |line: &[u64]| line.iter().map(|word| f64::from(word.count_ones())).sum::<f64>();
            let lines: Vec<f64> = bits.chunks_exact(per_line).map(set).collect();
            let mean = lines.iter().sum::<f64>() / lines.len() as f64;
            sum += lines.iter().map(|set| (set - mean).powi(2)).sum::<f64>() / (lines.len() - 1) as f64;
            sets += mean;
        }
        (sum / filters as f64, sets / filters as f64)
    }

    #[test]
    fn lines_differ_as_much_as_the_theory_says() {
        let mut dice = Dice(41);
        let mut check = |pattern: Pattern, n: u64, key: &mut dyn FnMut(&mut Dice, &mut [u64])| {
            let (spread, mean) = spread_of(pattern, n, 2_000, |bits| key(&mut dice, bits));
            let unset = pattern.line_bits() as f64 * (n as f64 * pattern.miss()).exp();
            let expected = pattern.line_spread(n as f64) * unset * unset;
            // 2,000 filters of 16 lines: the mean of the squares is known to 1 %.
            assert!((spread / expected - 1.0).abs() < 0.04, "{pattern:?} {n}: {spread}, not {expected}");
            assert!((mean / (pattern.line_bits() as f64 - unset) - 1.0).abs() < 0.01, "{pattern:?} {n}: {mean}");
        };
        for n in [100, 800, 1_600] {
            for (per_key, paired) in [(1, false), (1, true), (2, false)] {
                check(Pattern::Lines { lines: 16, per_key, paired }, n / u64::from(per_key), &mut |dice, bits| {
                    for _ in 0..per_key {
                        let line = 8 * dice.below(16) as usize;
                        let selects = [dice.below(2), dice.below(2), dice.below(2), dice.below(2)];
                        for lane in 0..4 {
                            let select = selects[if paired { lane / 2 } else { lane }] as usize;
                            bits[line + lane + 4 * select] |= 1 << dice.below(64) | 1 << dice.below(64);
                        }
                    }
                });
            }
            check(Pattern::SplitBlocks { blocks: 32 }, n, &mut |dice, bits| {
                let block = 4 * dice.below(32) as usize;
                for half in 0..8 {
                    bits[block + half / 2] |= 1 << (dice.below(32) + 32 * (half as u64 % 2));
                }
            });
            check(Pattern::Anywhere { bits: 16 * 512, hashes: 7 }, n / 2, &mut |dice, bits| {
                for _ in 0..7 {
                    let bit = dice.below(16 * 512);
                    bits[(bit / 64) as usize] |= 1 << (bit % 64);
                }
            });
        }
    }

    #[test]
    fn split_blocks_tell_their_keys_as_exactly_as_they_say() {
        let mut dice = Dice(42);
        let pattern = Pattern::SplitBlocks { blocks: 40 };
        let (n, filters) = (500u64, 3_000);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..filters {
            let mut bits = vec![0u64; 160];
            for _ in 0..n {
                let block = 4 * dice.below(40) as usize;
                (0..8).for_each(|half| bits[block + half / 2] |= 1 << (dice.below(32) + 32 * (half as u64 % 2)));
            }
            let unset = bits.iter().map(|word| f64::from(word.count_zeros())).sum::<f64>() / 10_240.0;
            let keys = unset.ln() / pattern.miss();
            sum += keys;
            squares += (keys - n as f64).powi(2);
        }
        let (mean, error) = (sum / f64::from(filters), (squares / f64::from(filters)).sqrt());
        assert!((mean / n as f64 - 1.0).abs() < 0.01, "{mean}");
        assert!((error / pattern.count_error(n as f64) - 1.0).abs() < 0.06, "{error}, {}", pattern.count_error(500.0));
    }

    #[test]
    fn sums_of_squares_become_normal_numbers() {
        // Tails of the chi-square distribution at one in a hundred and one in a million, from the tables.
        for (degrees, sum, score) in [
            (7.0, 18.475, 2.326),
            (7.0, 40.522, 4.753),
            (50.0, 76.154, 2.326),
            (50.0, 112.608, 4.753),
            (1000.0, 1106.97, 2.326),
            (1000.0, 1227.15, 4.753),
        ] {
            let got: f64 = chi_square_score(sum, degrees);
            assert!((got - score).abs() < 0.15, "{degrees} {sum}: {got}, not {score}");
        }
        assert!(chi_square_score(0.0, 7.0) < -4.0 && chi_square_score(7.0, 7.0).abs() < 0.3);
    }
}
