//! The exact rate of keys that use several lines, when there are so few lines that they meet.
//!
//! With `g` lines a key and `b` lines in all, the product of `g` single-line rates forgets two things: two probes of one
//! key may fall into the same line (which raises the rate), and the loads of different lines share one total (which
//! lowers it). In 4 lines the truth is 4 % above the product at `g = 2`, 10 % at `g = 3`, 24 % at `g = 8`; in 60 lines
//! 0.5 % at `g = 3`; in a thousand 0.03 %.
//!
//! Exactly: let `P_c(j)` be the probability that `c` probes of an absent key all pass a line holding `j` insertions.
//! With `N = n g` insertions thrown over the lines, the rate is
//!
//! ```text
//! g! / b^g · N! / b^N · [x^g z^N] ( Σ_c x^c/c! Σ_j z^j/j! P_c(j) )^b
//! ```
//!
//! The power in `x` is taken by Miller's recurrence (Knuth, TAOCP 2, 4.7), the coefficient of `z^N` by a trapezoid sum
//! on the circle `|z| = N/b`, which converges faster than any power (Flajolet & Sedgewick, Analytic Combinatorics,
//! VIII): some 25 points, 50 µs.

use super::blocked::{MAX_LINES, WORD};
use super::classic::distinct;
use std::ops::{Add, Mul};
use std::sync::OnceLock;

/// Insertions per line that the tables cover.
const LOADS: usize = 512;
/// The heaviest mean load whose spread (12 standard deviations) fits the tables.
const MAX_MEAN: f64 = 250.0;
/// From this many lines on the product formula is right to 1e-5.
const MANY_LINES: u64 = 1 << 20;

/// A complex number; the three operations that the sums need.
#[derive(Clone, Copy)]
struct Complex(f64, f64);

impl Complex {
    const ZERO: Self = Self(0.0, 0.0);

    fn times(self, factor: f64) -> Self {
        Self(self.0 * factor, self.1 * factor)
    }

    /// `e^(x + iy)`.
    fn exp(x: f64, y: f64) -> Self {
        let (sin, cos) = y.sin_cos();
        Self(cos, sin).times(x.exp())
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0, self.1 + other.1)
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
    }
}

/// `words()[c][j]`: the probability that `2c` uniform probes of one word all find set bits after `j` keys set 2 each.
fn words() -> &'static [Vec<f64>] {
    static WORDS: OnceLock<Vec<Vec<f64>>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let most = 2 * MAX_LINES as usize;
        let patterns: Vec<Vec<f64>> = (0..=MAX_LINES).map(|c| distinct(2 * c, WORD)).collect();
        let mut table = vec![Vec::with_capacity(LOADS + 1); MAX_LINES as usize + 1];
        // covered[d]: the probability that d given bits are all set.
        let mut covered = vec![0.0; most + 1];
        covered[0] = 1.0;
        for _ in 0..=LOADS {
            for (row, pattern) in table.iter_mut().zip(&patterns) {
                row.push(pattern.iter().zip(&covered).map(|(weight, all)| weight * all).sum());
            }
            for _ in 0..2 {
                for d in (1..=most).rev() {
                    let share = d as f64 / WORD;
                    covered[d] = share * covered[d - 1] + (1.0 - share) * covered[d];
                }
            }
        }
        table
    })
}

/// `P_c(j)` for `j` in `0..=LOADS`: all of `c` probes pass a line that holds `j` insertions.
fn passes(c: usize, paired: bool) -> &'static [f64] {
    static TABLES: [[OnceLock<Vec<f64>>; MAX_LINES as usize + 1]; 2] =
        [const { [const { OnceLock::new() }; MAX_LINES as usize + 1] }; 2];
    TABLES[usize::from(paired)][c].get_or_init(|| {
        let words = words();
        let mut choose = vec![0.0; c + 1];
        choose[0] = 1.0;
        let mut row = vec![0.0; LOADS + 1];
        row[0] = 1.0;
        for done in 0..c {
            halve(&mut choose, done);
        }
        let mut table = Vec::with_capacity(LOADS + 1);
        for j in 0..=LOADS {
            // `low` of the j insertions, and `a` of the c probes, chose the lower word of the lane (or of the pair).
            let mut lane = 0.0;
            for (a, &weight) in choose.iter().enumerate() {
                let (lower, upper) = (&words[a], &words[c - a]);
                let mut sum = 0.0;
                for low in 0..=j {
                    let both = lower[low] * upper[j - low];
                    sum += row[low] * if paired { both * both } else { both };
                }
                lane += weight * sum;
            }
            table.push(lane.powi(if paired { 2 } else { 4 }).min(1.0));
            if j < LOADS {
                halve(&mut row, j);
            }
        }
        table
    })
}

/// The binomial(done, 1/2) weights become those of `done + 1`.
fn halve(row: &mut [f64], done: usize) {
    for i in (0..=done + 1).rev() {
        row[i] = 0.5 * (row[i] + if i > 0 { row[i - 1] } else { 0.0 });
    }
}

/// The exact rate, or nothing where the product of single-line rates is right: with many lines, or far overfull ones.
pub(super) fn rate(blocks: u64, lines: u32, paired: bool, insertions: u64) -> Option<f64> {
    let (b, total) = (blocks as f64, insertions as f64);
    let mean = total / b;
    if blocks >= MANY_LINES || mean > MAX_MEAN || insertions == 0 {
        return None;
    }
    let g = lines as usize;
    let tables: Vec<&[f64]> = (1..=g).map(|c| passes(c, paired)).collect();
    let last = ((mean + 12.0 * mean.sqrt() + 40.0) as usize).min(LOADS);
    let points = 16.0 * total.sqrt().ceil() + 64.0;
    let step = std::f64::consts::TAU / points;
    let (mut sum, mut norm) = (0.0, 0.0);
    let mut powers = vec![Complex::ZERO; g + 1];
    let mut psi = vec![Complex::ZERO; g + 1];
    let mut i = 0.0;
    while i <= points / 2.0 {
        let angle = i * step;
        // 1 - cos without losing its digits.
        let height = 2.0 * (angle / 2.0).sin().powi(2);
        if total * height > 45.0 {
            break;
        }
        // Points above and below the real line are conjugate: count the inner ones twice.
        let weight = if i == 0.0 || i == points / 2.0 { 1.0 } else { 2.0 };
        let kernel = Complex::exp(-total * height, total * (angle.sin() - angle)).times(weight);
        let (sin, cos) = angle.sin_cos();
        let z = Complex(mean * cos, mean * sin);
        let mut term = Complex::exp(-z.0, -z.1);
        psi.fill(Complex::ZERO);
        for j in 0..=last {
            for (c, table) in tables.iter().enumerate() {
                psi[c + 1] = psi[c + 1] + term.times(table[j]);
            }
            term = (term * z).times(1.0 / (j + 1) as f64);
        }
        // Coefficients of (1 + Σ psi_c (x/b)^c / c!)^b up to x^g.
        let mut scale = 1.0;
        for (c, value) in psi.iter_mut().enumerate().skip(1) {
            scale /= c as f64 * b;
            *value = value.times(scale);
        }
        powers[0] = Complex(1.0, 0.0);
        for m in 1..=g {
            let mut coefficient = Complex::ZERO;
            for c in 1..=m {
                let factor = (b + 1.0) * c as f64 - m as f64;
                coefficient = coefficient + (psi[c] * powers[m - c]).times(factor);
            }
            powers[m] = coefficient.times(1.0 / m as f64);
        }
        sum += (kernel * powers[g]).0;
        norm += kernel.0;
        i += 1.0;
    }
    let orders: f64 = (1..=g).map(|c| c as f64).product();
    Some((orders * sum / norm).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::super::blocked;
    use super::*;

    #[test]
    fn one_line_is_the_binomial_mixture() {
        for (blocks, n) in [(1u64, 20u64), (2, 3), (3, 100), (50, 2000), (1000, 51_200)] {
            for paired in [false, true] {
                let (circle, sum) = (rate(blocks, 1, paired, n).unwrap(), blocked::rate(blocks, 1, paired, n));
                assert!((circle / sum - 1.0).abs() < 1e-6, "{blocks} lines, {n} keys: {circle} against {sum}");
            }
        }
    }

    #[test]
    fn single_probe_tables_are_the_closed_form() {
        for paired in [false, true] {
            for j in [1u64, 2, 10, 50, 400] {
                let (table, closed) = (passes(1, paired)[j as usize], blocked::line_pass(j, paired));
                assert!((table / closed - 1.0).abs() < 1e-8, "j {j}: {table} against {closed}");
            }
        }
    }

    #[test]
    fn two_lines_by_hand() {
        // Both probes in one line (either of two), or one in each, with a binomial share of the insertions.
        for (keys, paired) in [(2usize, false), (10, false), (40, true), (90, false)] {
            let insertions = 2 * keys;
            let (one, two) = (passes(1, paired), passes(2, paired));
            let mut weight = 0.5f64.powi(insertions as i32);
            let mut want = 0.0;
            for j in 0..=insertions {
                let rest = insertions - j;
                want += weight * (0.25 * (two[j] + two[rest]) + 0.5 * one[j] * one[rest]);
                weight *= rest as f64 / (j + 1) as f64;
            }
            let got = rate(2, 2, paired, insertions as u64).unwrap();
            assert!((got / want - 1.0).abs() < 1e-6, "{keys} keys: {got} against {want}");
            let product = blocked::single(2, paired, insertions as u64).powi(2);
            assert!(got > product * 1.005, "{keys} keys: {got}, product {product}");
        }
    }

    #[test]
    fn many_lines_tend_to_the_product() {
        // Just under the switch the two formulas must meet.
        for (lines, load) in [(2u32, 50u64), (3, 50), (4, 45), (6, 50), (8, 50)] {
            let blocks = MANY_LINES - 1;
            let insertions = blocks * load;
            let exact = rate(blocks, lines, false, insertions).unwrap();
            let product = blocked::single(blocks, false, insertions).powi(lines as i32);
            assert!((exact / product - 1.0).abs() < 1e-4, "{lines} lines: {exact} against {product}");
        }
    }
}
