//! The partitioned filter: `k` slices of `s` bits, and every key sets one bit in each.
//!
//! The slices are independent, so the expected rate is exact in closed form: `(1 - (1 - 1/s)^n)^k`
//! (Kirsch & Mitzenmacher 2006; Almeida et al. 2007).

use super::classic::{MAX_HASHES, optimal_bits, optimal_hashes};
use super::search::{greatest, least};
use super::{allowed, tame};

/// The exact expected rate of `k` slices of `s` bits after `n` distinct keys. No bits or no slices answer 1.
#[must_use]
pub fn rate(s: u64, k: u32, n: u64) -> f64 {
    if n == 0 && s > 0 && k > 0 {
        return 0.0;
    }
    if s <= 1 || k == 0 {
        return 1.0;
    }
    fill(s, n).powf(f64::from(k))
}

/// The expected share of set bits of a slice of `s` bits after `n` distinct keys.
#[must_use]
pub fn fill(s: u64, n: u64) -> f64 {
    match (s, n) {
        (_, 0) => 0.0,
        (0 | 1, _) => 1.0,
        _ => -(n as f64 * (-1.0 / s as f64).ln_1p()).exp_m1(),
    }
}

/// The fewest bits `(s, k)`, `s` a slice, that keep the rate `p` for `n` keys.
#[must_use]
pub fn size_for(n: u64, p: f64) -> (u64, u32) {
    let limit = allowed(p);
    let near = optimal_hashes(optimal_bits(n, p), n);
    let mut best = (u64::MAX, 1);
    let mut total = u64::MAX;
    for k in near.saturating_sub(2).max(1)..=(near + 2).min(MAX_HASHES) {
        // (1 - 1/s)^n = 1 - p^(1/k)
        let fill = tame(p).powf(1.0 / f64::from(k));
        let guess = if n == 0 { 1.0 } else { -1.0 / ((-fill).ln_1p() / n as f64).exp_m1() };
        let s = least(guess as u64, 1, |s| rate(s, k, n) <= limit);
        let bits = s.saturating_mul(u64::from(k));
        if bits < total {
            (best, total) = ((s, k), bits);
        }
    }
    best
}

/// The most keys that `k` slices of `s` bits hold at rate `p`; `u64::MAX` when every rate is allowed.
#[must_use]
pub fn capacity_for(s: u64, k: u32, p: f64) -> u64 {
    let limit = allowed(p);
    if limit >= 1.0 {
        return u64::MAX;
    }
    if s <= 1 || k == 0 {
        return 0;
    }
    let fill = tame(p).powf(1.0 / f64::from(k));
    let guess = (-fill).ln_1p() / (-1.0 / s as f64).ln_1p();
    greatest(guess as u64, |n| rate(s, k, n) <= limit)
}

/// The number of slices with the lowest rate when `bits` bits hold `n` keys (`s = bits / k`).
#[must_use]
pub fn best_hashes_for(bits: u64, n: u64) -> u32 {
    let near = optimal_hashes(bits, n);
    let rate_of = |k: u32| rate(bits / u64::from(k), k, n);
    (near.saturating_sub(2).max(1)..=(near + 2).min(MAX_HASHES))
        .min_by(|&a, &b| rate_of(a).total_cmp(&rate_of(b)))
        .unwrap_or(near)
}

/// The lowest rate that `bits` bits can keep for `n` keys.
#[must_use]
pub fn rate_for(bits: u64, n: u64) -> f64 {
    let k = best_hashes_for(bits, n);
    rate(bits / u64::from(k), k, n)
}

#[cfg(test)]
mod tests {
    use super::super::dice::Dice;
    use super::super::estimate::within;
    use super::*;

    #[test]
    fn a_simulation_agrees() {
        let mut dice = Dice(23);
        for (s, k, n) in [(4u64, 3u32, 2u64), (30, 4, 20), (61, 2, 40)] {
            let (mut hits, trials) = (0u64, 300_000u64);
            for _ in 0..trials {
                let passed = (0..k)
                    .map(|_| {
                        let slice = (0..n).fold(0u64, |bits, _| bits | 1 << dice.below(s));
                        slice >> dice.below(s) & 1
                    })
                    .sum::<u64>();
                hits += u64::from(passed == u64::from(k));
            }
            let expected = rate(s, k, n);
            assert!(within(hits, trials, expected, 4.5), "s {s} k {k} n {n}: {hits} of {trials}, expected {expected}");
        }
    }

    #[test]
    fn sizes_keep_the_promise_and_are_minimal() {
        for p in [0.9, 0.5, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6, 1e-9] {
            for n in [1u64, 2, 10, 1000, 1_000_000, 1 << 40] {
                let (s, k) = size_for(n, p);
                assert!(rate(s, k, n) <= allowed(p), "n {n} p {p}: ({s}, {k})");
                if n < 1 << 40 {
                    assert!(s == 1 || rate(s - 1, k, n) > allowed(p), "n {n} p {p}: {} would do", s - 1);
                }
                assert!(capacity_for(s, k, p) >= n);
            }
        }
        // About as large as the classic filter when there are many keys.
        let (s, k) = size_for(10_000_000, 0.01);
        let bits_per_key = s as f64 * f64::from(k) / 1e7;
        assert!((bits_per_key - 9.593).abs() < 0.002, "{bits_per_key}");
    }

    #[test]
    fn capacity_is_an_edge() {
        let n = capacity_for(100_000, 7, 0.01);
        assert!(rate(100_000, 7, n) <= allowed(0.01) && rate(100_000, 7, n + 1) > allowed(0.01));
    }

    #[test]
    fn finite_everywhere() {
        for p in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1.0, 5.0, 0.01] {
            for n in [0, 1, 1 << 40, u64::MAX] {
                let (s, k) = size_for(n, p);
                assert!(s >= 1 && (1..=MAX_HASHES).contains(&k));
                assert!((0.0..=1.0).contains(&rate(s, k, n)));
            }
            let _ = capacity_for(u64::MAX, 64, p);
        }
        for bits in [0, 1, 64, 1 << 60] {
            for n in [0, 1, 1 << 40] {
                assert!((0.0..=1.0).contains(&rate_for(bits, n)));
            }
        }
    }
}
