//! Filters in tiers: one for each level of a store, and memory shared between them where it saves the most.
//!
//! The rates are those of [`crate::math::tiers`], in proportion to the keys of each level; the sizes and the rates that
//! are told are those of the filters as they are built, which may differ a little from the formula that the proportion
//! comes from.

use super::{Shape, check_items, check_rate, lowest, refuse};
use crate::error::Result;
use crate::kind::Kind;
use crate::math::tiers;

/// The lowest rate that a level is planned for.
const LOWEST: f64 = 1e-15;
/// A filter of a higher rate is none.
const HIGHEST: f64 = 0.99;
/// The most levels; a store that grows tenfold has 18 for every key there can be.
const MOST_LEVELS: usize = 64;

/// One level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Its keys.
    pub items: u64,
    /// The rate that it is planned for; 1 without a filter.
    pub rate: f64,
    /// The expected rate of the filter as it is built.
    pub expected_rate: f64,
    /// The filter; nothing where memory is better spent on the other levels.
    pub shape: Option<Shape>,
}

/// Filters for all levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// The levels, in the order that they were given.
    pub levels: Vec<Level>,
    /// The bytes of all filters.
    pub bytes: u64,
    /// False positives of an absent key over all levels: the sum of the rates.
    pub false_positives: f64,
}

/// Two ways to share memory between levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Tiers {
    /// Rates in proportion to the keys.
    pub best: Allocation,
    /// The same rate on every level.
    pub uniform: Allocation,
}

/// Shares so many bytes between filters of one kind, for levels of these sizes.
///
/// ```
/// use bloomgate::Kind;
/// use bloomgate::advice::tiers_in_memory;
/// let tiers = tiers_in_memory(Kind::Blocked, &[1_000_000, 10_000_000, 100_000_000], 140_000_000)?;
/// assert!(tiers.best.false_positives < 0.5 * tiers.uniform.false_positives);
/// # Ok::<(), bloomgate::Error>(())
/// ```
///
/// # Errors
/// No levels or more than 64, a level without keys, or a kind that is not sized by keys and rate.
pub fn tiers_in_memory(kind: Kind, sizes: &[u64], memory: u64) -> Result<Tiers> {
    check(kind, sizes)?;
    // The lowest factor whose filters fit, or nothing.
    let fit = |low: f64, high: f64, rates: &dyn Fn(f64) -> Vec<f64>| {
        let found = lowest(low, high, |factor| allocate(kind, sizes, &rates(factor)).bytes <= memory)?;
        Some(allocate(kind, sizes, &rates(found)))
    };
    let none = allocate(kind, sizes, &vec![1.0; sizes.len()]);
    let mut ascending: Vec<usize> = (0..sizes.len()).collect();
    ascending.sort_by_key(|&level| sizes[level]);
    let mut best = none.clone();
    let mut has_filter = vec![false; sizes.len()];
    // The smallest filter has a size too, so levels go without one after the other and not by a formula: every number of
    // them is tried, the largest first.
    for &largest in &ascending {
        has_filter[largest] = true;
        let rates = |factor: f64| {
            let level = |(&items, &has): (&u64, &bool)| if has { (items as f64 * factor).min(HIGHEST) } else { 1.0 };
            sizes.iter().zip(&has_filter).map(level).collect()
        };
        if let Some(found) = fit(LOWEST / sizes[largest] as f64, HIGHEST / sizes[ascending[0]] as f64, &rates)
            && found.false_positives < best.false_positives
        {
            best = found;
        }
    }
    Ok(Tiers { best, uniform: fit(LOWEST, HIGHEST, &|rate| vec![rate; sizes.len()]).unwrap_or(none) })
}

/// Filters of one kind for levels of these sizes, whose false positives together are as many as with `rate` on each.
///
/// # Errors
/// A rate outside (0, 1), no levels or more than 64, a level without keys, or a kind that is not sized by keys and rate.
pub fn tiers_at_rate(kind: Kind, sizes: &[u64], rate: f64) -> Result<Tiers> {
    check(kind, sizes)?;
    let rate = check_rate(rate)?;
    let rates = tiers::rates_for_sum(sizes, rate * sizes.len() as f64);
    Ok(Tiers { best: allocate(kind, sizes, &rates), uniform: allocate(kind, sizes, &vec![rate; sizes.len()]) })
}

fn check(kind: Kind, sizes: &[u64]) -> Result<()> {
    if sizes.is_empty() || sizes.len() > MOST_LEVELS {
        return Err(refuse(format!("{} levels are no tiers: give 1 to {MOST_LEVELS} numbers of keys", sizes.len())));
    }
    sizes.iter().try_for_each(|&items| check_items(items).map(|_| ()))?;
    match Shape::of(kind, 1000, 0.01) {
        Some(_) => Ok(()),
        None => Err(refuse(format!("{kind} is not sized by keys and rate: ask for one of the kinds in `table`"))),
    }
}

fn allocate(kind: Kind, sizes: &[u64], rates: &[f64]) -> Allocation {
    let level = |(&items, &rate): (&u64, &f64)| {
        let rate = rate.max(LOWEST);
        let shape = if rate > HIGHEST { None } else { Shape::of(kind, items, rate) };
        let expected_rate = shape.map_or(1.0, |shape| shape.rate_at(items, rate).unwrap_or(rate));
        Level { items, rate: if shape.is_some() { rate } else { 1.0 }, expected_rate, shape }
    };
    let levels: Vec<Level> = sizes.iter().zip(rates).map(level).collect();
    Allocation {
        bytes: levels.iter().filter_map(|level| level.shape).fold(0, |sum, shape| shape.bytes().saturating_add(sum)),
        false_positives: levels.iter().map(|level| level.expected_rate).sum(),
        levels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [u64; 3] = [100_000, 1_000_000, 10_000_000];

    #[test]
    fn memory_is_kept_and_buys_more() {
        for kind in [Kind::Classic, Kind::Blocked, Kind::Fuse] {
            for memory in [500_000, 5_000_000, 14_000_000, 40_000_000] {
                let tiers = tiers_in_memory(kind, &LEVELS, memory).unwrap();
                assert!(tiers.best.bytes <= memory && tiers.uniform.bytes <= memory, "{kind} {memory} {tiers:?}");
                assert!(
                    tiers.best.false_positives <= tiers.uniform.false_positives * 1.0001,
                    "{kind} {memory} {tiers:?}"
                );
            }
        }
        // Half a byte a key and less: the largest level goes without, and the others are good.
        let few = tiers_in_memory(Kind::Blocked, &LEVELS, 1_500_000).unwrap();
        assert!(few.best.levels[2].shape.is_none() && few.best.levels[1].rate < 0.05, "{few:?}");
        assert!(few.uniform.false_positives > 1.5 * few.best.false_positives, "{few:?}");
    }

    /// Rates in proportion are the optimum of the formula; that of the blocked filters as they are built is close.
    #[test]
    fn nothing_that_is_tried_is_much_better_in_blocked_filters() {
        let memory = 14_000_000u64;
        let best = tiers_in_memory(Kind::Blocked, &LEVELS, memory).unwrap().best.false_positives;
        let mut tried = f64::INFINITY;
        for first in 0..6 {
            for second in 0..6 {
                let rates = [3.5 + f64::from(first) / 4.0, 2.5 + f64::from(second) / 4.0].map(|x| 10f64.powf(-x));
                let small = allocate(Kind::Blocked, &LEVELS[..2], &rates);
                let Some(left) = memory.checked_sub(small.bytes) else { continue };
                let last = tiers_in_memory(Kind::Blocked, &LEVELS[2..], left).unwrap().uniform;
                tried = tried.min(small.false_positives + last.false_positives);
            }
        }
        assert!(best < tried * 1.02, "{best} planned, {tried} by trying");
    }

    #[test]
    fn a_rate_is_kept_in_less_memory() {
        let tiers = tiers_at_rate(Kind::Blocked, &LEVELS, 0.01).unwrap();
        assert!((tiers.uniform.false_positives - 0.03).abs() < 1e-4, "{tiers:?}");
        assert!((tiers.best.false_positives - 0.03).abs() < 1e-4, "{tiers:?}");
        assert!(tiers.best.bytes < tiers.uniform.bytes * 9 / 10, "{tiers:?}");
        // 1.8 false positives on three levels: one goes without, and it is the largest.
        let high = tiers_at_rate(Kind::Blocked, &LEVELS, 0.6).unwrap();
        assert!(high.best.levels[2].shape.is_none() && high.best.levels[0].shape.is_some());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(tiers_in_memory(Kind::Blocked, &[], 1000).is_err());
        assert!(tiers_in_memory(Kind::Blocked, &[5; 65], 1000).is_err());
        assert!(tiers_in_memory(Kind::Blocked, &[5, 0], 1000).is_err());
        assert!(tiers_in_memory(Kind::Stable, &[5], 1000).is_err());
        assert!(tiers_at_rate(Kind::Blocked, &[5], 0.0).is_err());
        let none = tiers_in_memory(Kind::Blocked, &[1000, 1000], 0).unwrap();
        assert_eq!((none.best.bytes, none.best.false_positives, none.uniform.false_positives), (0, 2.0, 2.0));
    }
}
