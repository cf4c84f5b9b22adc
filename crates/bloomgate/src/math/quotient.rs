//! Slots with remainders: a quotient filter of `m` home slots, each for an interval of `d` fingerprints.
//!
//! An absent key is taken for a present one when its fingerprint is one of those stored, out of `U = m·d`: after `n`
//! different keys `1 - (1 - 1/U)^n`, about n/U. Nothing else is ever wrong, so the rate is exact at any load, and growing
//! (more slots of narrower intervals, the same U) does not change it.
//!
//! Interval widths are powers of two, so that no remainder wastes a part of a bit, or three quarters of one on the way
//! between them. Every m is a multiple of 3, so that `4/3 m` and `3/4 d` are whole.

use super::allowed;
use super::search::greatest;
use crate::arch::quotient::{Geometry, LINE, MOST_INTERVAL, MOST_SLOTS};

/// The load a filter is sized for, in percent: so many of the home slots at its capacity.
///
/// Runs that end in another block than their quotient's cost a lookup one more line: at 1 % they are 4 % of all at a
/// load of 82 %, 5 % at 85 %, 8 % at 90 % and 17 % at 95 % (simulated), and slots are pushed on by 2.2, 2.8, 4.5 and 9.2
/// on average, which is what an insert moves. 95 % would save a seventh of the memory.
pub const LOAD_PERCENT: u64 = 82;

/// No capacity is searched beyond this.
const MOST_ITEMS: u64 = 1 << 40;

/// The load at which a table grows, in percent.
pub const GROW_PERCENT: u64 = 90;

/// The rate of `fingerprints` possible ones with `items` different keys: `1 - (1 - 1/U)^n`.
#[must_use]
pub fn rate(fingerprints: u64, items: u64) -> f64 {
    if fingerprints <= 1 {
        return if items == 0 { 0.0 } else { 1.0 };
    }
    -(items as f64 * (-1.0 / fingerprints as f64).ln_1p()).exp_m1()
}

/// The least number of fingerprints that keeps a rate with so many items: `1 / (1 - (1 - p)^(1/n))`.
#[must_use]
pub fn fingerprints_for(items: u64, rate: f64) -> f64 {
    let each = -((-allowed(rate).min(0.999_999)).ln_1p() / items.max(1) as f64).exp_m1();
    (1.0 / each).ceil().max(2.0)
}

/// Home slots for so many items at [`LOAD_PERCENT`]: a multiple of 3.
#[must_use]
pub fn slots_for(items: u64) -> u64 {
    threes((u128::from(items.max(1)) * 100).div_ceil(u128::from(LOAD_PERCENT)) as f64)
}

/// A number of slots, rounded up to a multiple of 3.
fn threes(slots: f64) -> u64 {
    (slots / 3.0).ceil() as u64 * 3
}

/// The words of a table; nothing if there is no such table.
#[must_use]
pub fn words(slots: u64, interval: u64) -> Option<u64> {
    Some(Geometry::new(slots, interval)?.blocks * LINE as u64)
}

/// The smallest table, as slots and interval, that takes `items` keys now and keeps `rate` up to `most` of them; nothing
/// if its fingerprints would not fit 60 bits.
#[must_use]
pub fn size(items: u64, most: u64, rate: f64) -> Option<(u64, u64)> {
    let needed = fingerprints_for(most.max(items), rate);
    let least = slots_for(items);
    let mut best: Option<(u64, (u64, u64))> = None;
    for bits in 1..=MOST_INTERVAL.ilog2() {
        let interval = 1u64 << bits;
        let slots = (needed / interval as f64).ceil();
        if slots > MOST_SLOTS as f64 {
            continue;
        }
        let slots = threes(slots).max(least);
        let Some(words) = words(slots, interval) else { continue };
        // Of two of one size the wider has the better rate and the lower load the quicker answer: the rate counts.
        if best.is_none_or(|(least, _)| words <= least) {
            best = Some((words, (slots, interval)));
        }
        // Six bits cost no more than one: blocks have 56 slots with either.
        if bits >= 6 && slots == least && slots as f64 * interval as f64 >= needed {
            break;
        }
    }
    best.map(|(_, shape)| shape)
}

/// The most items that a table of so many words keeps a rate with; 0 if none.
#[must_use]
pub fn capacity(allowed: u64, rate: f64) -> u64 {
    let fits = |items| size(items, items, rate).and_then(|(slots, interval)| words(slots, interval)) <= Some(allowed);
    let sized = |items| size(items, items, rate).is_some();
    greatest(allowed.saturating_mul(6), |items| items <= MOST_ITEMS && sized(items) && fits(items))
}

/// The next larger table of the same fingerprints: a third or a half more slots, in turn. Nothing if intervals of two
/// cannot be halved, or the numbers do not divide.
#[must_use]
pub fn step(slots: u64, interval: u64) -> Option<(u64, u64)> {
    if interval.is_multiple_of(4) && slots.is_multiple_of(3) {
        return Some((slots / 3 * 4, interval / 4 * 3));
    }
    if interval.is_multiple_of(3) && slots.is_multiple_of(2) && interval / 3 * 2 >= 2 {
        return Some((slots / 2 * 3, interval / 3 * 2));
    }
    doubled(slots, interval)
}

/// The table of the same fingerprints with twice the slots.
#[must_use]
pub fn doubled(slots: u64, interval: u64) -> Option<(u64, u64)> {
    (interval.is_multiple_of(2) && interval >= 4).then(|| (slots.saturating_mul(2), interval / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_the_rate_and_no_smaller_universe_does() {
        for items in [1, 2, 10, 1000, 1 << 20, (1 << 20) + 1, 3 << 18, 1 << 30, 1 << 40] {
            for asked in [0.3, 0.05, 0.01, 0.001, 1e-4, 1e-5] {
                let (slots, interval) = size(items, items, asked).unwrap();
                let kept = rate(slots * interval, items);
                assert!(kept <= asked * 1.0001, "{items} {asked}: {kept}");
                assert!(slots % 3 == 0 && slots * LOAD_PERCENT >= items * 100, "{items} {asked}");
                let needed = fingerprints_for(items, asked) as u64;
                assert!(rate(needed - needed / 500 - 2, items) > asked, "{items} {asked}: {needed} is not the least");
            }
        }
    }

    #[test]
    fn memory_follows_the_items_in_small_steps() {
        let mut before = 0;
        for items in (1000..40_000_000u64).step_by(77_777) {
            let (slots, interval) = size(items, items, 0.01).unwrap();
            let words = words(slots, interval).unwrap();
            let per_key = words as f64 * 64.0 / items as f64;
            assert!(per_key <= 12.5, "{items}: {per_key}");
            assert!(words >= before);
            before = words;
        }
    }

    #[test]
    fn steps_keep_the_fingerprints_and_grow_by_a_third_or_a_half() {
        let (mut slots, mut interval) = size(1000, 1 << 30, 0.01).unwrap();
        let all = slots * interval;
        let mut steps = 0;
        while let Some((more, narrower)) = step(slots, interval) {
            assert_eq!(more * narrower, all);
            let ratio = more as f64 / slots as f64;
            assert!(ratio > 1.3 && ratio < 1.51 || narrower <= 3, "{ratio} at {interval}");
            (slots, interval) = (more, narrower);
            steps += 1;
        }
        assert!(interval <= 3 && steps > 40, "{interval} after {steps}");
        assert_eq!(step(7, 5), None);
        assert_eq!(doubled(7, 2), None);
    }

    #[test]
    fn rates_stay_finite_at_the_edges() {
        assert_eq!(rate(1, 1), 1.0);
        assert_eq!(rate(1, 0), 0.0);
        assert_eq!(rate(100, 0), 0.0);
        assert!((rate(100, 1) - 0.01).abs() < 1e-15);
        assert!(rate(2, u64::MAX) <= 1.0);
        assert_eq!(size(1 << 40, 1 << 40, 1e-15), None);
        assert!(size(1, 1 << 40, 1e-15).is_none());
        assert!(fingerprints_for(0, f64::NAN).is_finite());
    }
}
