//! The cuckoo table: fingerprints of `f` bits, four to a bucket, each in one of two buckets.
//!
//! A key is a fingerprint (one of `F` values) and a bucket (one of `m`); its other bucket follows from the two. An
//! absent key is taken for present by a stored one of the same fingerprint whose first bucket is one of its two: a
//! chance of `2 / (m F)` each, whatever moved where. So the rate of `n` keys is exactly
//!
//! ```text
//!  1 - (1 - 2 / (m F))^n        about 8 · load / F
//! ```
//!
//! (Fan, Andersen, Kaminsky, Mitzenmacher, "Cuckoo Filter: Practically Better Than Bloom", 2014, give `2b / 2^f`.)
//!
//! `F` is a little less than `2^f`: an empty slot is 0, so no fingerprint may be. The first 8 bits of a fingerprint are
//! never all zero, whatever its width; a wider one then only adds bits behind those of a narrower one, which is what
//! lets stages of a growing chain agree (255/256 of the values are left, 0.4 % of the rate).
//!
//! | keys, rate | buckets | width | load | bits per key | expected rate |
//! |---|---|---|---|---|---|
//! | 1,000, 1 % | 294 | 10 | 0.850 | 11.8 | 0.66 % |
//! | 1 M, 1 % | 264,554 | 10 | 0.945 | 10.58 | 0.74 % |
//! | 1 M, 0.1 % | 264,554 | 13 | 0.945 | 13.76 | 0.093 % |
//! | 10 M, 1e-4 | 2,641,668 | 17 | 0.946 | 17.96 | 0.0058 % |

use super::{allowed, tame};

/// Slots of a bucket.
pub const SLOTS: u64 = 4;
/// The narrowest fingerprint.
pub const MIN_WIDTH: u32 = 2;
/// The widest fingerprint: rates below 1e-15, which is the least that can be asked for.
pub const MAX_WIDTH: u32 = 56;
/// The bits of a fingerprint that are never all zero, and that alone say where the other bucket is.
pub const LEADING: u32 = 8;
/// The fewest buckets that are planned: below it a few keys may have to share two buckets.
pub const MIN_BUCKETS: u64 = 16;
/// The most buckets of a table: far beyond any memory, and their bits still count in 64.
pub const MAX_BUCKETS: u64 = 1 << 54;

/// The narrowest fingerprint that is planned. With fewer than 31 values a bucket has too few partners to fill up, and
/// in a small table, where several of them lead to one and the same bucket, with fewer than 255.
fn planned_width(items: u64) -> u32 {
    if items < 4096 { LEADING } else { 5 }
}

/// The narrowest fingerprint with which so many keys as [`capacity_of`] says always find room. The 3 or 7 fingerprints of
/// narrower ones lead from a bucket to at most 8 or 128 others where the buckets are a power of two: tables of 4,096
/// were refused at 63 % and 93 % of it.
const FILLING_WIDTH: u32 = 4;

/// The load of a large table. The threshold of four slots and two choices is 0.98; this far below it an insert at the
/// end looks at about ten buckets.
const LOAD: f64 = 0.947;

/// How many fingerprints there are of this width.
#[must_use]
pub fn fingerprints(width: u32) -> f64 {
    let leading = width.min(LEADING);
    f64::from((1u32 << leading) - 1) * 2f64.powi((width - leading) as i32)
}

/// The rate with so many different keys.
#[must_use]
pub fn rate(buckets: u64, width: u32, items: u64) -> f64 {
    -(items as f64 * (-meeting(buckets, width)).ln_1p()).exp_m1()
}

/// The chance that one key is taken for another.
fn meeting(buckets: u64, width: u32) -> f64 {
    (2.0 / (buckets as f64 * fingerprints(width))).min(1.0)
}

/// The keys a table for `items` accepts at most: room for a few that come more than once.
#[must_use]
pub fn limit(items: u64) -> u64 {
    items.saturating_add(items / 64).saturating_add(12)
}

/// The buckets in which so many keys always find room: 94.5 % full at 1 M keys, less for few.
///
/// A small table needs more air, since chance may crowd its keys into few buckets: of 200,000 tables of 64 slots one was
/// refused at 31 keys (8 are planned), of 125,000 of 160 slots one at 140 (88 are planned), of 20,000 of 1,024 slots one
/// at 968 (860 are planned), and beyond it the spread is that of a mean. What is left are nine keys with the same two
/// buckets: below 2e-9 at every size.
#[must_use]
pub fn buckets_for(items: u64) -> u64 {
    let items = items as f64;
    let slots = items / LOAD + 2.2 * items.sqrt() + 48.0;
    even((slots / SLOTS as f64).ceil().min(MAX_BUCKETS as f64) as u64).clamp(MIN_BUCKETS, MAX_BUCKETS)
}

/// Up to the next even number: the two buckets of a key are never one.
fn even(buckets: u64) -> u64 {
    buckets.saturating_add(buckets & 1)
}

/// The most keys that always find room in so many buckets; 0 if there are too few to plan with.
#[must_use]
pub fn capacity_of(buckets: u64) -> u64 {
    if buckets < MIN_BUCKETS {
        return 0;
    }
    let (mut low, mut high) = (0, buckets.saturating_mul(SLOTS));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if buckets_for(middle) <= buckets { low = middle } else { high = middle }
    }
    low
}

/// The most keys with which the rate is kept, whether there is room for them or not.
fn keys_at(buckets: u64, width: u32, rate: f64) -> u64 {
    let kept = (-allowed(rate).min(1.0 - 1e-9)).ln_1p() / (-meeting(buckets, width)).ln_1p();
    if kept.is_finite() { kept as u64 } else { 0 }
}

/// The most keys that always find room in so many buckets of fingerprints of this width; 0 if they cannot be relied on.
#[must_use]
pub fn room(buckets: u64, width: u32) -> u64 {
    if width < FILLING_WIDTH { 0 } else { capacity_of(buckets) }
}

/// The most keys that always find room and keep the rate, and [`limit`] of them too.
#[must_use]
pub fn capacity_at(buckets: u64, width: u32, rate: f64) -> u64 {
    // The inverse of `limit`, to be rounded down by a step or two.
    let most = keys_at(buckets, width, rate).saturating_sub(12);
    let mut keys = (most as f64 / (1.0 + 1.0 / 64.0)) as u64 + 2;
    while keys > 0 && limit(keys) > keys_at(buckets, width, rate) {
        keys -= 1;
    }
    keys.min(room(buckets, width))
}

/// The narrowest fingerprint with which so many keys, and [`limit`] of them, keep the rate; nothing when none does.
#[must_use]
pub fn width_for(buckets: u64, items: u64, asked: f64) -> Option<u32> {
    (planned_width(items)..=MAX_WIDTH).find(|&width| rate(buckets, width, limit(items)) <= allowed(asked))
}

/// The smallest table, in bits, for so many keys at a rate: buckets and width.
///
/// Widths are whole numbers and each halves the rate; where one bit less would nearly do, a table with a little more
/// air and that width is the smaller one.
#[must_use]
pub fn size_for(items: u64, asked: f64) -> (u64, u32) {
    let least = buckets_for(items);
    let width = width_for(least, items, asked).unwrap_or(MAX_WIDTH);
    let narrow = width - 1;
    if narrow >= planned_width(items) {
        // From 1 - (1 - x)^n = p, with x = 2 / (m F).
        let each = -((-tame(asked).min(1.0 - 1e-9)).ln_1p() / limit(items) as f64).exp_m1();
        let airy = even((2.0 / (each * fingerprints(narrow))).ceil().min(MAX_BUCKETS as f64) as u64);
        let saved = u128::from(airy) * u128::from(narrow) < u128::from(least) * u128::from(width);
        if saved && airy >= least && rate(airy, narrow, limit(items)) <= allowed(asked) {
            return (airy, narrow);
        }
    }
    (least, width)
}

/// The buckets of so many fingerprints that fit in so many bits, padding included.
fn buckets_in(bits: u64, width: u32) -> u64 {
    ((bits / 64).saturating_sub(1).saturating_mul(64) / (SLOTS * u64::from(width))).min(MAX_BUCKETS) & !1
}

/// The table that holds the most keys at a rate in so many bits, and how many; nothing when not even one fits.
#[must_use]
pub fn largest_in(bits: u64, asked: f64) -> Option<(u64, u32, u64)> {
    (planned_width(u64::MAX)..=MAX_WIDTH)
        .map(|width| (buckets_in(bits, width), width))
        .map(|(buckets, width)| (buckets, width, capacity_at(buckets, width, asked)))
        .filter(|&(_, width, keys)| keys > 0 && width >= planned_width(keys))
        .max_by_key(|&(_, width, keys)| (keys, MAX_WIDTH - width))
}

/// The table with the least rate for so many keys in so many bits; nothing when they do not fit.
#[must_use]
pub fn widest_in(bits: u64, items: u64) -> Option<(u64, u32)> {
    let buckets = buckets_for(items);
    let width = (planned_width(items)..=MAX_WIDTH).rev().find(|&width| buckets_in(bits, width) >= buckets)?;
    Some((buckets, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_known_figures() {
        assert_eq!(size_for(1_000_000, 0.01), (264_554, 10));
        assert_eq!(size_for(1_000_000, 0.001), (264_554, 13));
        for items in [1_000_000u64, 1_500_000, 10_000_000, 1 << 30, 1 << 40] {
            let (buckets, width) = size_for(items, 0.01);
            let bits = (buckets * SLOTS) as f64 * f64::from(width) / items as f64;
            assert!((10.5..=10.6).contains(&bits), "{items}: {bits}");
        }
    }

    #[test]
    fn the_rate_is_kept_at_every_size_and_never_far_below_what_was_paid_for() {
        for items in [1, 2, 10, 100, 1_000, 65_536, 1_000_000, 1 << 40] {
            for asked in [0.5, 0.3, 0.1, 0.05, 0.01, 0.0073, 0.001, 1e-4, 1e-6, 1e-9, 1e-12, 1e-15] {
                let (buckets, width) = size_for(items, asked);
                let kept = rate(buckets, width, limit(items));
                assert!(kept <= asked * 1.0002, "{items} {asked}: {kept}");
                assert!(buckets.is_multiple_of(2) && buckets >= buckets_for(items));
                if width > planned_width(items) {
                    assert!(rate(buckets, width - 1, limit(items)) > asked, "{items} {asked}: a bit too many");
                }
            }
        }
    }

    #[test]
    fn capacity_is_the_inverse_of_size() {
        for items in [1, 16, 17, 100, 1_000, 12_345, 1_000_000, 1 << 40] {
            let buckets = buckets_for(items);
            let capacity = capacity_of(buckets);
            assert!(capacity >= items && capacity <= items + 16, "{items}: {capacity}");
            assert!(buckets_for(capacity) <= buckets && buckets_for(capacity + 1) > buckets);
            let (buckets, width) = size_for(items, 0.01);
            assert!(capacity_at(buckets, width, 0.01) >= items, "{items}");
            let less = capacity_at(buckets, width, 0.002);
            assert!(less < items, "{items} {less}");
            assert!(less == 0 || rate(buckets, width, limit(less)) <= 0.002 * 1.0002, "{items} {less}");
        }
        assert_eq!(capacity_of(0), 0);
        assert_eq!(capacity_at(16, 2, 1e-9), 0);
    }

    #[test]
    fn nothing_overflows() {
        for items in [0, 1, u64::MAX] {
            for asked in [f64::NAN, 0.0, -1.0, 1e-300, 1.0, 2.0] {
                let (buckets, width) = size_for(items, asked);
                assert!((MIN_BUCKETS..=MAX_BUCKETS).contains(&buckets) && width <= MAX_WIDTH);
                let kept = rate(buckets, width, items);
                assert!((0.0..=1.0).contains(&kept), "{kept}");
            }
        }
        for width in MIN_WIDTH..=MAX_WIDTH {
            assert!(rate(2, width, 0) == 0.0 && capacity_at(MAX_BUCKETS, width, 0.5) <= MAX_BUCKETS * SLOTS);
        }
    }
}
