//! The classic filter: `m` bits, `k` probes that may fall anywhere.
//!
//! The textbook rate `(1 - e^(-kn/m))^k` (Bloom 1970) is a little too low, because the number of set bits varies and
//! the rate is convex in it (Bose et al. 2008; Christensen, Roginsky, Jimeno 2010). With `X` set bits after `n k` uniform
//! throws the truth is `E[(X/m)^k]`. At a million keys the difference is invisible; at one key in 10 bits with 7 probes
//! the textbook says 0.8 % and the truth is 1.7 %, so small filters are sized by the exact value.

use super::search::{greatest, least};
use super::{allowed, tame};
use std::f64::consts::LN_2;

/// The most probes a key may make; beyond it rates are below 2^-64 and more memory is the better buy.
pub const MAX_HASHES: u32 = 64;

/// So few keys are always counted exactly: each collision is then a visible step of the number of set bits.
const FEW_KEYS: u64 = 128;

/// The closed formula `ceil(-n ln p / ln² 2)`, at least 1: the bits that an ideal number of hashes would need.
///
/// ```
/// assert_eq!(bloomgate::math::classic::optimal_bits(1_000_000, 0.001), 14_377_588);
/// ```
#[must_use]
pub fn optimal_bits(n: u64, p: f64) -> u64 {
    ((n as f64 * -tame(p).ln() / (LN_2 * LN_2)).ceil() as u64).max(1)
}

/// The closed formula `round(m / n ln 2)`, between 1 and [`MAX_HASHES`].
#[must_use]
pub fn optimal_hashes(m: u64, n: u64) -> u32 {
    if n == 0 {
        return 1;
    }
    (m as f64 / n as f64 * LN_2).round().clamp(1.0, f64::from(MAX_HASHES)) as u32
}

/// The exact expected false-positive rate `E[(X/m)^k]` of `m` bits and `k` probes after `n` distinct keys.
///
/// Up to `m = 1024 k` or 128 keys (and `k <= 256`) by an exact Markov chain, above by mean and variance of `X`:
/// `ln E = k ln μ + k(k-1)/2 · Var/μ²`, whose error is of the order `k³/m² + k²/(12 n m)`: below 1e-4 at the switch. No
/// bits, no filter: `m = 0` answers 1.
#[must_use]
pub fn rate(m: u64, k: u32, n: u64) -> f64 {
    if n == 0 && m > 0 && k > 0 {
        return 0.0;
    }
    if m <= 1 || k == 0 {
        return 1.0;
    }
    if k <= 256 && (n <= FEW_KEYS || m <= 1024 * u64::from(k)) && n <= 1 << 40 {
        by_chain(m, k, n * u64::from(k))
    } else {
        by_moments(m as f64, f64::from(k), n as f64)
    }
}

/// Mean and variance of the occupied cells (Feller I, II.11), and the first cumulants of `ln` of the rate.
fn by_moments(m: f64, k: f64, n: f64) -> f64 {
    let throws = n * k;
    let load = throws / m;
    let mean = -(throws * (-1.0 / m).ln_1p()).exp_m1();
    // Var(X)/m = u (1 - (1 + λ) u), u = e^-λ; the bracket loses its digits for small λ, where it is λ²/2 - λ³/3.
    let bracket = if load < 1e-3 { load * load * (0.5 - load / 3.0) } else { -(-load).exp_m1() - load * (-load).exp() };
    // The factor (1 - 1/throws) matters only for a handful of throws, which cannot collide with themselves.
    let relative_variance = (-load).exp() * bracket / (m * mean * mean) * (1.0 - 1.0 / throws);
    let correction = 0.5 * k * (k - 1.0) * relative_variance;
    (k * mean.ln() + correction).exp().min(1.0)
}

/// The exact rate, by a chain that adds positive numbers only.
///
/// Think of the absent key first: its `k` probes name `d` distinct cells. Then throw: with `u` of them still uncovered,
/// a throw covers one with probability `u/m`. The rate is the probability that none is left after all `throws`. The
/// chain has `k + 1` states whatever `m` and `n` are; its power is taken by squaring.
fn by_chain(m: u64, k: u32, throws: u64) -> f64 {
    let m = m as f64;
    let states = k as usize + 1;
    let mut open = distinct(k, m);
    let squarings = 64 - u64::from(throws.leading_zeros());
    // Walking costs 2k a throw, squaring k³/6 a doubling.
    if throws.saturating_mul(12) <= squarings * u64::from(k) * u64::from(k) {
        for _ in 0..throws {
            for u in 0..states {
                let come = if u + 1 < states { open[u + 1] * (u + 1) as f64 / m } else { 0.0 };
                open[u] = open[u] * (1.0 - u as f64 / m) + come;
            }
        }
        return open[0].clamp(0.0, 1.0);
    }
    let mut step = vec![0.0f64; states * states];
    for u in 0..states {
        // More distinct cells than there are never happens; its row must only stay a probability.
        let cover = (u as f64 / m).min(1.0);
        step[u * states + u] = 1.0 - cover;
        if u > 0 {
            step[u * states + u - 1] = cover;
        }
    }
    let mut square = vec![0.0f64; states * states];
    let mut next = vec![0.0f64; states];
    let mut left = throws;
    loop {
        if left & 1 == 1 {
            next.fill(0.0);
            for (from, &weight) in open.iter().enumerate() {
                for to in 0..=from {
                    next[to] += weight * step[from * states + to];
                }
            }
            std::mem::swap(&mut open, &mut next);
        }
        left >>= 1;
        if left == 0 {
            return open[0].clamp(0.0, 1.0);
        }
        square.fill(0.0);
        for from in 0..states {
            for middle in 0..=from {
                let weight = step[from * states + middle];
                if weight == 0.0 {
                    continue;
                }
                for to in 0..=middle {
                    square[from * states + to] += weight * step[middle * states + to];
                }
            }
        }
        std::mem::swap(&mut step, &mut square);
    }
}

/// The distribution of the number of distinct cells that `k` throws into `m` cells hit: index `d` of `0..=k`.
pub(super) fn distinct(k: u32, m: f64) -> Vec<f64> {
    let mut seen = vec![0.0; k as usize + 1];
    seen[0] = 1.0;
    for throw in 0..k as usize {
        for d in (0..=throw + 1).rev() {
            let fresh = if d > 0 { seen[d - 1] * (1.0 - (d - 1) as f64 / m).max(0.0) } else { 0.0 };
            seen[d] = seen[d] * (d as f64 / m).min(1.0) + fresh;
        }
    }
    seen
}

/// The bits that the textbook formula asks for with exactly `k` probes: `-k n / ln(1 - p^(1/k))`.
fn textbook_bits(n: u64, p: f64, k: u32) -> u64 {
    let fill = tame(p).powf(1.0 / f64::from(k));
    let bits = f64::from(k) * n as f64 / -(-fill).ln_1p();
    (bits.ceil() as u64).max(1)
}

/// The smallest `(m, k)` that keeps the rate `p` for `n` keys.
///
/// The closed formula as it is when its exact rate keeps the promise (within [`SLACK`](super::SLACK)); otherwise the
/// fewest bits over the numbers of hashes around the optimum.
///
/// ```
/// use bloomgate::math::classic::size_for;
/// assert_eq!(size_for(1_000_000, 0.001), (14_377_588, 10));
/// let (m, k) = size_for(10_000_000, 0.01);
/// assert_eq!((format!("{:.3}", m as f64 / 1e7), k), ("9.593".to_string(), 7));
/// ```
#[must_use]
pub fn size_for(n: u64, p: f64) -> (u64, u32) {
    let limit = allowed(p);
    let closed = optimal_bits(n, p);
    let near = optimal_hashes(closed, n);
    if rate(closed, near, n) <= limit {
        return (closed, near);
    }
    let mut best = (u64::MAX, 1);
    for k in near.saturating_sub(2).max(1)..=(near + 2).min(MAX_HASHES) {
        let m = least(textbook_bits(n, p, k), 1, |m| rate(m, k, n) <= limit);
        if m < best.0 {
            best = (m, k);
        }
    }
    best
}

/// The most keys that `m` bits and `k` probes hold at rate `p`; `u64::MAX` when every rate is allowed.
#[must_use]
pub fn capacity_for(m: u64, k: u32, p: f64) -> u64 {
    let limit = allowed(p);
    if limit >= 1.0 {
        return u64::MAX;
    }
    if m == 0 || k == 0 {
        return 0;
    }
    let fill = tame(p).powf(1.0 / f64::from(k));
    let guess = m as f64 / f64::from(k) * -(-fill).ln_1p();
    greatest(guess as u64, |n| rate(m, k, n) <= limit)
}

/// The number of hashes with the lowest exact rate for `n` keys in `m` bits.
///
/// Starts from the closed formula and walks downhill, since in small filters the exact optimum lies lower.
#[must_use]
pub fn best_hashes_for(m: u64, n: u64) -> u32 {
    let mut k = optimal_hashes(m, n);
    let mut lowest = rate(m, k, n);
    while k > 1 && rate(m, k - 1, n) <= lowest {
        k -= 1;
        lowest = rate(m, k, n);
    }
    while k < MAX_HASHES && rate(m, k + 1, n) < lowest {
        k += 1;
        lowest = rate(m, k, n);
    }
    k
}

/// The lowest rate that `m` bits can keep for `n` keys: that of [`best_hashes_for`].
#[must_use]
pub fn rate_for(m: u64, n: u64) -> f64 {
    rate(m, best_hashes_for(m, n), n)
}

#[cfg(test)]
mod tests {
    use super::super::dice::Dice;
    use super::super::estimate::within;
    use super::*;

    /// The definition, by brute force: the distribution of the occupied cells throw by throw.
    fn brute(m: usize, k: u32, n: u64) -> f64 {
        let mut cells = vec![0.0; m + 1];
        cells[0] = 1.0;
        for _ in 0..n * u64::from(k) {
            for x in (0..=m).rev() {
                let fresh = if x > 0 { cells[x - 1] * (m - x + 1) as f64 / m as f64 } else { 0.0 };
                cells[x] = cells[x] * x as f64 / m as f64 + fresh;
            }
        }
        cells.iter().enumerate().map(|(x, w)| w * (x as f64 / m as f64).powi(k as i32)).sum()
    }

    fn relative(a: f64, b: f64) -> f64 {
        (a - b).abs() / b
    }

    #[test]
    fn the_chain_is_the_definition() {
        for (m, k, n) in [
            (10, 7, 1),
            (2, 1, 1),
            (64, 3, 10),
            (100, 7, 10),
            (333, 20, 11),
            (1000, 7, 100),
            (500, 40, 9),
            (97, 1, 300),
        ] {
            let (got, want) = (rate(m, k, n), brute(m as usize, k, n));
            assert!(relative(got, want) < 1e-10, "m {m} k {k} n {n}: {got} against {want}");
        }
    }

    #[test]
    fn the_textbook_is_far_off_for_one_key_in_ten_bits() {
        let textbook = (1.0 - (-0.7f64).exp()).powi(7);
        let exact = rate(10, 7, 1);
        assert!(exact / textbook > 2.0, "exact {exact}, textbook {textbook}");
    }

    #[test]
    fn the_moments_meet_the_chain_at_the_switch() {
        for k in [1u32, 2, 7, 10, 20, 40, 64] {
            let m = 1024 * u64::from(k);
            for n in [FEW_KEYS, 200, 700, 3000] {
                let (chain, moments) = (rate(m, k, n), by_moments(m as f64, f64::from(k), n as f64));
                assert!(relative(moments, chain) < 1e-4, "k {k} n {n}: {moments} against {chain}");
            }
        }
        // And well below the switch for an everyday shape, against the definition.
        assert!(relative(by_moments(2000.0, 7.0, 200.0), brute(2000, 7, 200)) < 1e-4);
    }

    #[test]
    fn a_simulation_agrees() {
        let mut dice = Dice(11);
        for (m, k, n) in [(10u64, 7u32, 1u64), (40, 3, 8), (120, 7, 12)] {
            let expected = rate(m, k, n);
            let (mut hits, trials) = (0u64, 400_000u64);
            for _ in 0..trials {
                let mut bits = 0u128;
                for _ in 0..n * u64::from(k) {
                    bits |= 1 << dice.below(m);
                }
                hits += u64::from((0..k).all(|_| bits >> dice.below(m) & 1 == 1));
            }
            assert!(within(hits, trials, expected, 4.5), "m {m} k {k} n {n}: {hits} of {trials}, expected {expected}");
            let textbook = (1.0 - (-(n as f64) * f64::from(k) / m as f64).exp()).powi(k as i32);
            if n == 1 {
                assert!(!within(hits, trials, textbook, 4.5), "the textbook should be refuted at n = 1");
            }
        }
    }

    #[test]
    fn golden_sizes() {
        assert_eq!(optimal_bits(1_000_000, 0.001), 14_377_588);
        assert_eq!(size_for(1_000_000, 0.001), (14_377_588, 10));
        let (m, k) = size_for(10_000_000, 0.01);
        assert_eq!(k, 7);
        assert!((m as f64 / 1e7 - 9.593).abs() < 0.001, "{m}");
        let (m, _) = size_for(200_000_000, 0.005);
        assert!((m as f64 / 8e6 - 276.0).abs() < 1.0, "{m}");
        // A 1 % filter holding five times its keys.
        let (m, k) = size_for(1_000_000, 0.01);
        let overfull = rate(m, k, 5_000_000);
        assert!((overfull - 0.83).abs() < 0.01, "{overfull}");
    }

    #[test]
    fn sizes_keep_the_promise_and_waste_little() {
        for p in [0.9, 0.5, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6, 1e-9] {
            for n in [1u64, 2, 3, 10, 100, 1000, 12_345, 1_000_000] {
                let (m, k) = size_for(n, p);
                assert!(rate(m, k, n) <= allowed(p), "n {n} p {p}: ({m}, {k}) breaks the promise");
                if (m, k) != (optimal_bits(n, p), optimal_hashes(optimal_bits(n, p), n)) {
                    assert!(m == 1 || rate(m - 1, k, n) > allowed(p), "n {n} p {p}: {} bits would do", m - 1);
                }
                assert!(capacity_for(m, k, p) >= n);
                if n >= 1000 && p <= 0.1 {
                    let wasted = m as f64 / optimal_bits(n, p) as f64;
                    assert!(wasted < 1.03, "n {n} p {p}: {wasted} times the closed formula");
                }
            }
        }
    }

    #[test]
    fn capacity_is_an_edge() {
        for (m, k, p) in [(10_000u64, 7u32, 0.01), (1_000_000_000, 10, 1e-3), (64, 3, 0.2)] {
            let n = capacity_for(m, k, p);
            assert!(rate(m, k, n) <= allowed(p) && rate(m, k, n + 1) > allowed(p), "m {m} k {k} p {p}: {n}");
        }
        assert_eq!(capacity_for(8, 1, 1.0), u64::MAX);
        assert_eq!(capacity_for(0, 1, 0.5), 0);
    }

    #[test]
    fn best_hashes_is_the_minimum() {
        for (m, n) in [(10u64, 1u64), (64, 10), (1000, 100), (10_000_000, 1_000_000), (100, 1000)] {
            let best = best_hashes_for(m, n);
            let lowest = (1..=MAX_HASHES).map(|k| rate(m, k, n)).fold(1.0, f64::min);
            assert!(rate(m, best, n) <= lowest * (1.0 + 1e-9), "m {m} n {n}: k {best}");
            assert_eq!(rate_for(m, n), rate(m, best, n));
        }
    }

    #[test]
    fn finite_everywhere() {
        for p in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, 1e-15, 0.5, 1.0, 5.0] {
            for n in [0, 1, 1 << 40, u64::MAX] {
                let (m, k) = size_for(n, p);
                assert!(m >= 1 && (1..=MAX_HASHES).contains(&k), "n {n} p {p}: ({m}, {k})");
            }
            let _ = capacity_for(1 << 60, 7, p);
        }
        for m in [0, 1, 2, 1 << 20, 1 << 60, u64::MAX] {
            for k in [0, 1, 64, 255, u32::MAX] {
                for n in [0, 1, 1 << 20, 1 << 40, u64::MAX] {
                    let r = rate(m, k, n);
                    assert!((0.0..=1.0).contains(&r), "m {m} k {k} n {n}: {r}");
                }
            }
        }
    }
}
