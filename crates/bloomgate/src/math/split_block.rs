//! The split-block filter of Parquet: a key has one bit in each of the 8 words of 32 bits of one 256-bit block.
//!
//! With `j` keys in a block, a given bit of a word is set with chance `1 - (31/32)^j`, so an absent key that falls there
//! passes with `(1 - (31/32)^j)^8` (to be exact, the mean of the product over eight independent words is the product of
//! the means). Over `b` blocks `j` is binomial, and the rate is the mean over it: uneven blocks cost 0.9 bits per key at
//! 1 % against a filter whose bits may fall anywhere.

use super::allowed;
use super::search::greatest;

/// Bits of a block.
pub const BLOCK_BITS: u64 = 256;
/// Bits that a key sets.
pub const PROBES: i32 = 8;

/// The chance that an absent key passes in a block of `j` keys.
fn pass(j: f64) -> f64 {
    (-(j * (-1.0f64 / 32.0).ln_1p()).exp_m1()).powi(PROBES)
}

/// The exact expected rate of `blocks` blocks with `n` different keys; 1 without blocks.
///
/// The binomial weights are taken outward from the likeliest load, each from its neighbour, and divided by their sum.
#[must_use]
pub fn rate(blocks: u64, n: u64) -> f64 {
    if blocks == 0 {
        return 1.0;
    }
    if blocks == 1 || n == 0 {
        return pass(n as f64);
    }
    // With 4,096 keys in a block one bit in 10^56 is not set.
    if n / blocks > 4096 {
        return 1.0;
    }
    let (b, n) = (blocks as f64, n as f64);
    let odds = 1.0 / (b - 1.0);
    let mode = ((n + 1.0) / b).floor().min(n);
    let (mut sum, mut passed) = (1.0, pass(mode));
    let (mut weight, mut j) = (1.0, mode);
    while j < n {
        weight *= (n - j) / (j + 1.0) * odds;
        j += 1.0;
        sum += weight;
        passed += weight * pass(j);
        if weight < 1e-18 {
            break;
        }
    }
    (weight, j) = (1.0, mode);
    while j > 0.0 {
        weight *= j / ((n - j + 1.0) * odds);
        j -= 1.0;
        sum += weight;
        passed += weight * pass(j);
        if weight < 1e-18 {
            break;
        }
    }
    (passed / sum).min(1.0)
}

/// The smallest power of two of blocks that keeps the rate `p` for `n` keys; nothing above 2^26, where
/// Parquet's lengths end.
#[must_use]
pub fn blocks_for(n: u64, p: f64) -> Option<u64> {
    let limit = allowed(p);
    (0..=26).map(|exponent| 1 << exponent).find(|&blocks| rate(blocks, n) <= limit)
}

/// The most keys that `blocks` blocks hold at the rate `p`.
#[must_use]
pub fn capacity_for(blocks: u64, p: f64) -> u64 {
    let limit = allowed(p);
    if limit >= 1.0 {
        return u64::MAX;
    }
    // At 1 % a block holds 24 keys.
    greatest(blocks.saturating_mul(24), |n| rate(blocks, n) <= limit)
}

#[cfg(test)]
mod tests {
    use super::super::dice::Dice;
    use super::*;

    #[test]
    fn the_rate_is_that_of_throws() {
        let (blocks, keys) = (64u64, 800u64);
        let mut dice = Dice(11);
        let (mut hits, trials) = (0, 400_000u64);
        for _ in 0..40 {
            let mut words = vec![0u32; (blocks * 8) as usize];
            let mut draw = |words: &mut [u32], set: bool| {
                let at = dice.below(blocks) as usize * 8;
                let bits = dice.next();
                let mut there = true;
                for lane in 0..8 {
                    let mask = 1 << (bits >> (lane * 5) & 31);
                    there &= words[at + lane] & mask != 0;
                    if set {
                        words[at + lane] |= mask;
                    }
                }
                there
            };
            for _ in 0..keys {
                draw(&mut words, true);
            }
            hits += (0..trials / 40).filter(|_| draw(&mut words, false)).count() as u64;
        }
        // The filters differ from one another too: with 40 of them that widens the interval by less than twice.
        let expected = rate(blocks, keys);
        let spread = 2.0 * 4.5 * (expected * (1.0 - expected) / trials as f64).sqrt();
        let measured = hits as f64 / trials as f64;
        assert!((measured - expected).abs() < spread, "{measured} against {expected}");
    }

    #[test]
    fn known_points_and_ends() {
        // Apache Parquet's table: 10.5 bits per key at 1 %, 16.9 at 0.1 %.
        let per_key = |p: f64| (1u64 << 20) as f64 * 256.0 / capacity_for(1 << 20, p) as f64;
        assert!((per_key(0.01) - 10.5).abs() < 0.1, "{}", per_key(0.01));
        assert!((per_key(0.001) - 16.9).abs() < 0.1, "{}", per_key(0.001));
        assert_eq!(rate(0, 5), 1.0);
        assert_eq!(rate(7, 0), 0.0);
        assert!(rate(1, 1_000_000) > 0.999_999);
        assert!(rate(1 << 20, 1 << 40) > 0.999_999);
        assert_eq!(blocks_for(1_000_000, 0.01), Some(1 << 16));
        assert_eq!(blocks_for(1 << 40, 0.01), None);
        assert_eq!(capacity_for(8, 1.0), u64::MAX);
    }
}
