//! How many keys two sets have in common, from the set bits of their filters and of the two laid over each other.
//!
//! The three numbers of keys come from linear counting (Swamidass & Baldi, "Mathematical correction for fingerprint
//! similarity measures to improve chemical retrieval", 2007); the common keys are |A| + |B| - |A ∪ B|. The three guesses
//! err together, and the error bars must know how. Whether a bit of one filter and a bit of another are both still unset
//! hangs together only through the keys that both have, so the covariance of two guesses is the *variance that a filter
//! of the shared keys alone would have*: with V(n) that variance at n keys,
//!
//! ```text
//!   cov(A, A∪B) = V(|A|)      cov(B, A∪B) = V(|B|)      cov(A, B) = V(|A∩B|)
//!   var(|A∩B|)  = V(|A∪B|) - V(|A|) - V(|B|) + 2 V(|A∩B|)
//! ```
//!
//! Equal sets err as one filter does, V; disjoint ones only by the bits that fell together by chance.

use super::estimate::Estimate;

/// The sizes of two sets and of what they share, read off the bits, each with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overlap {
    /// Keys of the one.
    pub a: Estimate,
    /// Keys of the other.
    pub b: Estimate,
    /// Keys in one or the other.
    pub union: Estimate,
    /// Keys in both.
    pub intersection: Estimate,
    /// Keys in both by keys in one or the other (Jaccard 1901): 0 to 1; two empty sets are equal, 1.
    pub jaccard: Estimate,
}

/// The overlap by the three counts; `error(n)` is the standard error of a count with `n` keys in, and intervals are `z` of
/// them to either side.
///
/// A count without an upper end (every bit is set) leaves the overlap open: anything from nothing to the smaller set.
#[must_use]
pub fn overlap(a: Estimate, b: Estimate, union: Estimate, error: impl Fn(f64) -> f64, z: f64) -> Overlap {
    let most = a.value.min(b.value);
    let common = (a.value + b.value - union.value).clamp(0.0, most);
    if a.high.is_none() || b.high.is_none() || union.high.is_none() {
        let high = match (a.high, b.high) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
        let jaccard = Estimate { value: (common / union.value).clamp(0.0, 1.0), low: 0.0, high: Some(1.0) };
        return Overlap { a, b, union, intersection: Estimate { value: common, low: 0.0, high }, jaccard };
    }
    if union.value <= 0.0 {
        return Overlap { a, b, union, intersection: a, jaccard: Estimate { value: 1.0, low: 1.0, high: Some(1.0) } };
    }
    let variance = |keys: f64| error(keys).powi(2);
    let (of_a, of_b, of_union, of_common) =
        (variance(a.value), variance(b.value), variance(union.value), variance(common));
    let around = |value: f64, variance: f64, most: f64| {
        let spread = z.abs() * variance.max(0.0).sqrt();
        let value = value.clamp(0.0, most);
        Estimate { value, low: (value - spread).max(0.0), high: Some(value + spread) }
    };
    let intersection = around(common, of_union - of_a - of_b + 2.0 * of_common, most);
    // J = (A + B) / U - 1, and so dJ = (dA + dB) / U - (A + B) / U² dU.
    let (sum, u) = (a.value + b.value, union.value);
    let variance =
        ((of_a + of_b + 2.0 * of_common) + (sum / u).powi(2) * of_union - 2.0 * (sum / u) * (of_a + of_b)) / (u * u);
    let mut jaccard = around(sum / u - 1.0, variance, 1.0);
    jaccard.high = jaccard.high.map(|high| high.min(1.0));
    Overlap { a, b, union, intersection, jaccard }
}

#[cfg(test)]
mod tests {
    use super::super::dice::Dice;
    use super::super::estimate::{Z, classic, classic_error};
    use super::*;

    /// Throws keys into an ideal classic filter: (A, B, A∪B) set bits for `only_a`, `only_b` and `common` keys.
    fn throw(dice: &mut Dice, m: u64, k: u64, only_a: u64, only_b: u64, common: u64) -> (u64, u64, u64) {
        let mut bits = vec![0u8; m as usize];
        for (keys, mark) in [(only_a, 1), (only_b, 2), (common, 3)] {
            (0..keys * k).for_each(|_| bits[dice.below(m) as usize] |= mark);
        }
        let count = |mask: u8| bits.iter().filter(|&&bit| bit & mask != 0).count() as u64;
        (count(1), count(2), count(3))
    }

    /// The covariance rule itself, against ideal randomness: errors as large as they are said to be, in every regime.
    #[test]
    fn the_errors_are_as_large_as_the_rule_says() {
        let mut dice = Dice(41);
        let (m, k) = (16_384u64, 6u64);
        for (only_a, only_b, common) in [(1000, 1000, 0), (900, 400, 100), (10, 10, 990), (0, 500, 1000), (0, 0, 800)] {
            let runs = 600;
            let (mut squares, mut said, mut mean) = (0.0, 0.0, 0.0);
            for _ in 0..runs {
                let (a, b, union) = throw(&mut dice, m, k, only_a, only_b, common);
                let [a, b, union] = [a, b, union].map(|set| classic(set, m, k as u32, Z));
                let raw = a.value + b.value - union.value;
                let found = overlap(a, b, union, |n| classic_error(m, k as u32, n), 1.0);
                // Without the clamp at zero, which takes away half of the error where nothing is shared.
                squares += (raw - common as f64).powi(2) / f64::from(runs);
                mean += (raw - common as f64) / f64::from(runs);
                said += (found.intersection.high.unwrap() - found.intersection.value).powi(2) / f64::from(runs);
            }
            let (error, told) = (squares.sqrt(), said.sqrt());
            // The error of an error from 600 runs is 3 %: 4.5 of them.
            assert!((told / error - 1.0).abs() < 0.13, "{only_a} {only_b} {common}: {told} said, {error} found");
            assert!(mean.abs() < 0.25 * error, "{only_a} {only_b} {common}: off by {mean} with an error of {error}");
        }
    }

    #[test]
    fn empty_equal_and_saturated_sets() {
        let (m, k) = (1000, 7);
        let error = |n: f64| classic_error(m, k, n);
        let at = |set| classic(set, m, k, Z);
        let none = overlap(at(0), at(0), at(0), error, Z);
        assert_eq!((none.intersection.value, none.jaccard.value), (0.0, 1.0));
        let equal = overlap(at(400), at(400), at(400), error, Z);
        assert!((equal.intersection.value / at(400).value - 1.0).abs() < 1e-12);
        assert_eq!((equal.jaccard.value, equal.jaccard.high), (1.0, Some(1.0)));
        let one = overlap(at(400), at(0), at(400), error, Z);
        assert_eq!((one.intersection.value, one.jaccard.value), (0.0, 0.0));
        let open = overlap(at(600), at(700), at(1000), error, Z);
        assert_eq!((open.intersection.low, open.intersection.high), (0.0, at(600).high));
        assert_eq!((open.jaccard.low, open.jaccard.high), (0.0, Some(1.0)));
        let full = overlap(at(1000), at(1000), at(1000), error, Z);
        assert_eq!(full.intersection.high, None);
        assert!(full.intersection.value.is_finite() && full.jaccard.value <= 1.0);
    }
}
