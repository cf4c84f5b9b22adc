//! The scalable filter: a chain of stages that grows, and still keeps one rate over the whole chain.
//!
//! Every stage gets a share of the promised rate so that all shares together, for ever, are at most the promise
//! (Almeida, Baquero, Preguiça, Hutchison 2007, who halve the rate at each stage). Halving is dear: at 1000 times the
//! first capacity the chain costs 2.4 times one right-sized filter. Bits are saved where the keys are, in the last stages,
//! so the shares rise gently for the first dozen and fall from there; most chains never reach the fall.
//!
//! | growth, shares (blocked stages, 1 %) | 1x full | 1100x full | as its stage opens (628x) | as the next opens (1100x) |
//! |---|---|---|---|---|
//! | 1.75, 12 equal, then x 0.5 | 1.64 | 1.64 | 2.88 | 3.04 |
//! | 1.75, 12 equal, then x 0.7 | 1.67 | 1.67 | 2.93 | 3.01 |
//! | **1.75, rising x 1.05 for 12, then x 0.7** | 1.77 | 1.63 | 2.85 | 2.92 |
//! | 1.75, rising x 1.1 for 12, then x 0.7 | 1.89 | 1.60 | 2.80 | 2.85 |

use super::tame;

/// Each stage holds this many times the keys of the one before it, unless the user says otherwise.
pub const GROWTH: f64 = 1.75;

/// No stage is asked for less than this rate: below it a stage would only pay for a promise that a 64-bit hash cannot keep.
///
/// The shares then no longer add up to the promise for ever: each stage at the floor adds up to 1e-15. A chain runs out
/// of 64-bit capacities after 80 stages at growth 1.75, so the excess is at most 8e-14: 1e-5 of a promise of 1e-8. (A
/// promise near the floor itself, or a growth near 1 with thousands of stages, is for the caller to refuse.)
pub const LOWEST_STAGE_RATE: f64 = 1e-15;

/// How the promised rate is shared out over the stages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tightening {
    /// The same share for the first `stages`, then each `then` times the one before it.
    Plateau {
        /// Stages with equal shares.
        stages: u32,
        /// Factor from stage to stage after them, in `[0, 1)`.
        then: f64,
    },
    /// A plateau that rises: each of the first `stages` gets `rise` times the share of the one before it.
    Ramp {
        /// Stages with rising shares.
        stages: u32,
        /// Factor from stage to stage among them, at least 1.
        rise: f64,
        /// Factor from stage to stage after them, in `[0, 1)`.
        then: f64,
    },
    /// Each share this many times the one before it, in `[0, 1)`: `(1 - r) r^i` of the promise.
    Geometric(f64),
}

impl Default for Tightening {
    fn default() -> Self {
        Self::Ramp { stages: 12, rise: 1.05, then: 0.7 }
    }
}

impl Tightening {
    /// Whether the shares can be summed as asked: ratios in `[0, 1)`, a plateau of 1 to 64 stages.
    #[must_use]
    pub fn is_valid(self) -> bool {
        match self {
            Self::Plateau { stages, then } => (1..=64).contains(&stages) && (0.0..=0.999).contains(&then),
            Self::Ramp { stages, rise, then } => {
                (1..=64).contains(&stages) && (1.0..=4.0).contains(&rise) && (0.0..=0.999).contains(&then)
            }
            Self::Geometric(r) => (0.0..=0.999).contains(&r),
        }
    }
}

/// A ratio the shares can be summed with: in `[0, 0.999]`, one half when it is not a number.
fn ratio(r: f64) -> f64 {
    if r.is_nan() { 0.5 } else { r.clamp(0.0, 0.999) }
}

/// The rate of stage `i` (from 0) of a chain that promises `total`; never below [`LOWEST_STAGE_RATE`].
///
/// Geometric: `total (1 - r) r^i`. Plateau: `c = total / (stages + r/(1 - r))`, then `c r^(i - stages + 1)`. Ramp: the same
/// with `rise^i` in the place of 1.
#[must_use]
pub fn stage_rate(total: f64, tightening: Tightening, i: u32) -> f64 {
    let total = tame(total);
    let share = match tightening {
        Tightening::Geometric(r) => {
            let r = ratio(r);
            (1.0 - r) * r.powf(f64::from(i))
        }
        Tightening::Plateau { stages, then } => ramp(stages, 1.0, then, i),
        Tightening::Ramp { stages, rise, then } => ramp(stages, rise, then, i),
    };
    (total * share).max(LOWEST_STAGE_RATE)
}

/// The share of stage `i` when the first `stages` rise by `rise` and the others fall by `then`.
fn ramp(stages: u32, rise: f64, then: f64, i: u32) -> f64 {
    // Beyond 256 rising stages the powers would overflow, and no chain is that long.
    let (stages, r) = (stages.clamp(1, 256), ratio(then));
    let rise = if rise >= 1.0 { rise.min(4.0) } else { 1.0 };
    let top = rise.powf(f64::from(stages - 1));
    let rising = if rise == 1.0 { f64::from(stages) } else { (top * rise - 1.0) / (rise - 1.0) };
    let weight = if i < stages { rise.powf(f64::from(i)) } else { top * r.powf(f64::from(i - stages + 1)) };
    weight / (rising + top * r / (1.0 - r))
}

/// The keys of stage `i` (from 0): `ceil(first · growth^i)`, and at least one more than the stage before it.
///
/// Nothing when that is more than 2^62 keys.
#[must_use]
pub fn stage_capacity(first: u64, growth: f64, i: u32) -> Option<u64> {
    let growth = if growth >= 1.0 { growth } else { 1.0 };
    let steady = first.checked_add(u64::from(i))?;
    let grown = (first as f64 * growth.powf(f64::from(i))).ceil();
    // Not a number when 0 keys meet an infinite growth.
    if grown.is_nan() || grown > (1u64 << 62) as f64 {
        return None;
    }
    Some(steady.max(grown as u64)).filter(|&keys| keys <= 1 << 62)
}

/// The rate of a chain whose stages have these rates: `1 - Π (1 - p_i)`.
#[must_use]
pub fn chain_rate(rates: impl IntoIterator<Item = f64>) -> f64 {
    let quiet: f64 = rates.into_iter().map(|p| (-p.clamp(0.0, 1.0)).ln_1p()).sum();
    -quiet.exp_m1()
}

/// What a chain costs in bits against one filter of the right size for the same keys and the same rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainCost {
    /// Stages of the chain when it holds the asked keys.
    pub stages: u32,
    /// Keys it holds when its last stage is full.
    pub keys: u64,
    /// Bits against the right-sized filter when the last stage is full: the best moment.
    pub full: f64,
    /// Bits against the right-sized filter just as the last stage opens: the worst moment on the way to the asked keys.
    pub opening: f64,
    /// Bits against the right-sized filter at exactly the asked keys.
    pub now: f64,
}

/// The cost of a chain that has grown to `times` its first capacity, for stages that take `bits_of(keys, rate)` bits.
///
/// Nothing when the chain cannot grow that far.
#[must_use]
pub fn chain_cost(
    first: u64,
    growth: f64,
    tightening: Tightening,
    total: f64,
    times: f64,
    bits_of: impl Fn(u64, f64) -> f64,
) -> Option<ChainCost> {
    let first = first.max(1);
    let wanted = (first as f64 * times.max(1.0)) as u64;
    let (mut keys, mut bits, mut stages) = (0u64, 0.0, 0u32);
    loop {
        let before = keys;
        let capacity = stage_capacity(first, growth, stages)?;
        keys = keys.checked_add(capacity)?;
        bits += bits_of(capacity, stage_rate(total, tightening, stages));
        stages += 1;
        if keys >= wanted {
            let against = |held: u64| bits / bits_of(held.max(1), total);
            // The first stage opens on an empty filter: there is nothing to compare, so compare when it is full.
            let opening = if before == 0 { against(keys) } else { against(before) };
            return Some(ChainCost { stages, keys, full: against(keys), opening, now: against(wanted) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocked;
    use super::*;

    #[test]
    fn shares_sum_to_the_promise_and_never_above() {
        for tightening in [
            Tightening::default(),
            Tightening::Geometric(0.5),
            Tightening::Geometric(0.91),
            Tightening::Plateau { stages: 12, then: 0.7 },
            Tightening::Plateau { stages: 1, then: 0.5 },
            Tightening::Ramp { stages: 20, rise: 1.3, then: 0.5 },
            Tightening::Plateau { stages: 3, then: 0.0 },
        ] {
            for total in [0.5, 0.01, 1e-4] {
                let sum: f64 = (0..2000).map(|i| stage_rate(total, tightening, i)).sum();
                let floor = 2000.0 * LOWEST_STAGE_RATE;
                assert!(sum <= total + floor, "{tightening:?}: {sum}");
                assert!(sum >= total * 0.9999, "{tightening:?}: {sum}");
                let chain = chain_rate((0..2000).map(|i| stage_rate(total, tightening, i)));
                assert!(chain <= total + floor);
            }
        }
        assert_eq!(stage_rate(0.01, Tightening::default(), 500), LOWEST_STAGE_RATE);
    }

    #[test]
    fn capacities_grow_for_ever_or_refuse() {
        for growth in [f64::NAN, 0.0, 1.0, 1.001, 1.75, 2.0, 4.0] {
            let mut before = 0;
            for i in 0..200 {
                match stage_capacity(1, growth, i) {
                    Some(keys) => {
                        assert!(keys > before, "growth {growth} stage {i}: {keys} after {before}");
                        before = keys;
                    }
                    None => assert!(growth > 1.7 && before > 1 << 59, "growth {growth} refuses at {before}"),
                }
            }
        }
        assert_eq!(stage_capacity(1000, 2.0, 3), Some(8000));
        assert_eq!(stage_capacity(u64::MAX, 2.0, 1), None);
        assert_eq!(stage_capacity(0, f64::INFINITY, 1), None);
    }

    #[test]
    fn chain_rate_is_one_minus_the_product() {
        assert!((chain_rate([0.5, 0.5]) - 0.75).abs() < 1e-15);
        assert_eq!(chain_rate([]), 0.0);
        assert_eq!(chain_rate([0.1, 1.0]), 1.0);
        assert!((chain_rate([1e-12, 1e-12]) / 2e-12 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_chain_of_a_thousand_times_costs_what_is_promised() {
        let bits = |n: u64, p: f64| (blocked::size_for(n, p, false).0 * blocked::LINE_BITS) as f64;
        for first in [1000, 10_000] {
            let cost = chain_cost(first, GROWTH, Tightening::default(), 0.01, 1000.0, bits).unwrap();
            assert_eq!(cost.stages, 12);
            assert!((cost.full - 1.628).abs() < 0.01, "{cost:?}");
            assert!((cost.opening - 2.851).abs() < 0.01, "{cost:?}");
            assert!(cost.now > cost.full && cost.now < cost.opening, "{cost:?}");
            // The stage after it opens at 1100 times the first capacity; that moment is below 3 as well.
            let next = chain_cost(first, GROWTH, Tightening::default(), 0.01, 1200.0, bits).unwrap();
            assert_eq!(next.stages, 13);
            assert!((next.opening - 2.917).abs() < 0.01, "{next:?}");
        }
        // The textbook chain, for comparison: growth 2, each rate half the one before.
        let halving = chain_cost(1000, 2.0, Tightening::Geometric(0.5), 0.01, 1000.0, bits).unwrap();
        assert!(halving.full > 2.2, "{halving:?}");
    }
}
