//! Filters in tiers: how to share memory between the levels of a store that keeps its keys in runs of growing size.
//!
//! A lookup of an absent key asks every level, so what it costs is the *sum* of their rates. Bits are best spent where
//! they buy the most: `n` keys at the rate `p` take `n ln(1/p) / ln²2` bits, so one more bit lowers the rate of a level
//! by `p ln²2 / n`. At the best allocation that is the same everywhere (Lagrange), and so **the rate of a level is
//! proportional to its keys**: the small levels get very low rates for almost nothing, and the largest one, once its
//! share would pass 1, gets no filter at all. Dayan, Athanassoulis, Idreos, "Monkey: Optimal Navigable Key-Value Store",
//! SIGMOD 2017.
//!
//! Three levels of 1 M, 10 M and 100 M keys in 10 bits a key: 2.46 % of false positives for an absent key with the same
//! rate on each, 1.17 % with rates in proportion.

use super::tame;

/// Bits of a classic filter for each natural logarithm of 1/rate: 1 / ln²2 = 2.081.
const BITS_PER_NAT: f64 = 1.0 / (std::f64::consts::LN_2 * std::f64::consts::LN_2);

/// The bits that `sizes` keys take at these rates, in classic filters of the ideal number of hashes.
#[must_use]
pub fn bits(sizes: &[u64], rates: &[f64]) -> f64 {
    sizes.iter().zip(rates).map(|(&n, &rate)| n as f64 * -tame(rate).ln() * BITS_PER_NAT).sum()
}

/// Rates in proportion to the keys of each level, none above 1; those of empty levels are 0.
#[must_use]
pub fn proportional(sizes: &[u64], factor: f64) -> Vec<f64> {
    sizes.iter().map(|&n| (n as f64 * factor.max(0.0)).min(1.0)).collect()
}

/// The rates with the least sum that so many bits allow.
///
/// ```
/// use bloomgate::math::tiers::{bits, rates_for_bits};
/// let levels = [1_000_000, 10_000_000, 100_000_000];
/// let rates = rates_for_bits(&levels, 1.11e9);
/// assert!((bits(&levels, &rates) / 1.11e9 - 1.0).abs() < 1e-9);
/// assert!((rates[2] / rates[0] - 100.0).abs() < 1e-6);
/// ```
#[must_use]
pub fn rates_for_bits(sizes: &[u64], bits: f64) -> Vec<f64> {
    let nats = if bits > 0.0 { bits.min(1e300) / BITS_PER_NAT } else { 0.0 };
    solve(sizes, |open, _| {
        let (keys, entropy) =
            open.iter().fold((0.0, 0.0), |(keys, entropy), &n| (keys + n as f64, entropy + n as f64 * (n as f64).ln()));
        (-(nats + entropy) / keys).exp()
    })
}

/// The rates that take the fewest bits of those whose sum is `sum`: the false positives of an absent key over all
/// levels.
#[must_use]
pub fn rates_for_sum(sizes: &[u64], sum: f64) -> Vec<f64> {
    let sum = if sum > 0.0 { sum } else { 0.0 };
    solve(sizes, |open, closed| {
        let keys: f64 = open.iter().map(|&n| n as f64).sum();
        ((sum - closed as f64) / keys).max(0.0)
    })
}

/// Rates in proportion, with the factor that `factor` gives for the levels that have a filter and the number of those
/// that have none: the largest levels lose theirs one after the other until no rate is above 1.
fn solve(sizes: &[u64], factor: impl Fn(&[u64], usize) -> f64) -> Vec<f64> {
    let mut open: Vec<u64> = sizes.iter().copied().filter(|&n| n > 0).collect();
    open.sort_unstable();
    let levels = open.len();
    while let Some(&largest) = open.last() {
        let factor = factor(&open, levels - open.len());
        if largest as f64 * factor <= 1.0 {
            let closed = levels - open.len();
            let above = largest;
            // Levels as large as the largest open one may be closed too: as many as were taken off.
            let mut left = closed - sizes.iter().filter(|&&n| n > above).count();
            return sizes
                .iter()
                .map(|&n| match n {
                    _ if n > above => 1.0,
                    _ if n == above && left > 0 => {
                        left -= 1;
                        1.0
                    }
                    _ => n as f64 * factor,
                })
                .collect();
        }
        open.pop();
    }
    sizes.iter().map(|&n| if n > 0 { 1.0 } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least sum of rates in a grid over how the bits are shared, by trying all of it.
    fn brute_force(sizes: [u64; 3], total: f64, steps: u32) -> f64 {
        let rate = |n: u64, bits: f64| (-bits / (n as f64 * BITS_PER_NAT)).exp();
        let mut best = f64::INFINITY;
        for first in 0..=steps {
            for second in 0..=steps - first {
                let share = |steps_of: u32| total * f64::from(steps_of) / f64::from(steps);
                let rates = [
                    rate(sizes[0], share(first)),
                    rate(sizes[1], share(second)),
                    rate(sizes[2], share(steps - first - second)),
                ];
                best = best.min(rates.iter().sum());
            }
        }
        best
    }

    #[test]
    fn nothing_that_is_tried_is_better() {
        for (sizes, per_key) in [
            ([1_000u64, 10_000, 100_000], 10.0),
            ([1_000, 10_000, 100_000], 1.5),
            ([1_000, 1_000, 1_000], 8.0),
            ([5_000, 7_000, 9_000], 4.0),
            ([100, 1_000, 1_000_000], 0.02),
        ] {
            let total = per_key * sizes.iter().sum::<u64>() as f64;
            let rates = rates_for_bits(&sizes, total);
            let sum: f64 = rates.iter().sum();
            let tried = brute_force(sizes, total, 1000);
            // Never above what a grid of half a million finds, and the grid comes within a few percent of it.
            assert!(sum <= tried * (1.0 + 1e-9), "{sizes:?}: {sum} and {tried}");
            assert!(sum >= tried * 0.9, "{sizes:?}: {sum} and {tried}");
            assert!((bits(&sizes, &rates) / total - 1.0).abs() < 1e-9, "{sizes:?}: all bits are spent");
            // The same rates from the other side.
            let back = rates_for_sum(&sizes, sum);
            assert!(back.iter().zip(&rates).all(|(a, b)| (a / b - 1.0).abs() < 1e-6), "{back:?} {rates:?}");
        }
    }

    #[test]
    fn the_figures_of_the_module() {
        let sizes = [1_000_000, 10_000_000, 100_000_000];
        let total = 10.0 * 111e6;
        let best: f64 = rates_for_bits(&sizes, total).iter().sum();
        let uniform = 3.0 * (-10.0 / BITS_PER_NAT).exp();
        assert!((best - 0.01166).abs() < 1e-4 && (uniform - 0.0246).abs() < 1e-4, "{best} {uniform}");
    }

    #[test]
    fn the_largest_goes_without_when_bits_are_few() {
        let rates = rates_for_bits(&[10, 1_000_000], 100.0);
        assert!(rates[0] < 1e-2 && rates[1] == 1.0, "{rates:?}");
        assert_eq!(rates_for_bits(&[5, 5, 0], 0.0), [1.0, 1.0, 0.0]);
        assert_eq!(rates_for_sum(&[10, 100], 5.0), [1.0, 1.0]);
        let rates = rates_for_sum(&[10, 100, 100], 1.5);
        assert!((rates.iter().sum::<f64>() - 1.5).abs() < 1e-12, "{rates:?}");
    }

    #[test]
    fn hostile_numbers_stay_numbers() {
        for bits in [f64::NAN, -1.0, 0.0, 1.0, 1e300, f64::INFINITY] {
            for sizes in [&[][..], &[0], &[1, u64::MAX], &[7; 5]] {
                for rates in [rates_for_bits(sizes, bits), rates_for_sum(sizes, bits), proportional(sizes, bits)] {
                    assert!(rates.len() == sizes.len() && rates.iter().all(|rate| (0.0..=1.0).contains(rate)));
                }
            }
        }
    }
}
