//! One budget of memory for the filters of all tenants, and who gets how much of it.
//!
//! While everything fits, each tenant has the rate it asks for. When it does not:
//!
//! - **strict**: a rate is a promise. Tenants keep theirs, those of more weight and of fewer keys first, and who does not fit
//!   has no filter: its lookups go on to the source.
//! - **cost-first**: rates are loosened where it costs the source least. A tenant with `n` keys and `L` lookups of absent keys
//!   sends `L * p` of them to the source at rate `p`, and its filter takes about `c * n * log2(1/p)` bits. The least
//!   `sum(L * p)` under `sum(c * n * log2(1/p)) <= B` has, by Lagrange, `L = lambda * c * n / (p * ln 2)` for each, so
//!   **`p` is proportional to `n / L`** between the rate asked for and the loosest that is worth its bits. The one number that
//!   is left is found by bisection, with the true sizes of the filters.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bloomgate::Blocked;

use crate::error::{Error, ErrorKind, Result};
use crate::filters::Generation;

/// The loosest rate: a filter that lets more than a quarter through is hardly worth the time to ask it.
pub const LOOSEST: f64 = 0.25;

/// What happens when the filters of all tenants do not fit into the memory there is for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spending {
    /// Who has a filter has it at the rate asked for; who does not fit has none.
    #[default]
    Strict,
    /// Rates are loosened where it costs the source least.
    CostFirst,
}

impl Spending {
    /// The name in settings and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::CostFirst => "cost-first",
        }
    }
}

impl fmt::Display for Spending {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

impl FromStr for Spending {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "strict" => Ok(Self::Strict),
            "cost-first" => Ok(Self::CostFirst),
            other => Err(Error::new(
                ErrorKind::Invalid,
                format!("{other:?} is no way to spend a budget: write one of strict, cost-first"),
            )),
        }
    }
}

/// What a tenant's filter should be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    /// Keys it is sized for.
    pub keys: u64,
    /// Lookups of absent keys, in any unit that is the same for all.
    pub lookups: f64,
    /// The rate asked for.
    pub rate: f64,
    /// How much its lookups count beside those of others.
    pub weight: f64,
    /// The most bytes it may take.
    pub most: u64,
}

/// The bytes of a filter for so many keys at this rate.
pub(crate) fn bytes(keys: u64, rate: f64) -> u64 {
    Blocked::builder().items(keys.max(1)).rate(rate).bytes_needed().unwrap_or(u64::MAX)
}

/// Steps of the table below, for each factor of ten of the rate.
const STEPS: f64 = 8.0;
/// The strictest rate in it.
const STRICTEST: i32 = -9;

/// About the bytes of a filter, by a table of what a key takes at rates a third apart: the exact size takes 20 us, and a
/// thousand tenants are weighed sixty times.
fn about(keys: u64, rate: f64) -> f64 {
    static TABLE: OnceLock<Vec<f64>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let many = 1_000_000;
        let last = (f64::from(-STRICTEST) * STEPS) as i32;
        (0..=last).map(|step| bytes(many, 10f64.powf(-f64::from(step) / STEPS).min(0.5)) as f64 / many as f64).collect()
    });
    let place = (-rate.log10() * STEPS).clamp(0.0, (table.len() - 1) as f64);
    let (low, part) = (place.floor() as usize, place.fract());
    let high = (low + 1).min(table.len() - 1);
    // Never less than one line of memory.
    (keys as f64 * (table[low] * (1.0 - part) + table[high] * part)).max(64.0)
}

/// The rate of each, or none where there is no room.
pub(crate) fn allot(spending: Spending, wants: &[Want], total: u64) -> Vec<Option<f64>> {
    match spending {
        Spending::Strict => strict(wants, total),
        Spending::CostFirst => cost_first(wants, total),
    }
}

fn strict(wants: &[Want], total: u64) -> Vec<Option<f64>> {
    let sizes: Vec<u64> = wants.iter().map(|want| bytes(want.keys, want.rate)).collect();
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by(|&one, &other| {
        let by_weight = wants[other].weight.total_cmp(&wants[one].weight);
        by_weight.then(sizes[one].cmp(&sizes[other]))
    });
    let (mut left, mut shares) = (total, vec![None; wants.len()]);
    for at in order {
        if sizes[at] <= left && sizes[at] <= wants[at].most {
            left -= sizes[at];
            shares[at] = Some(wants[at].rate);
        }
    }
    shares
}

fn cost_first(wants: &[Want], total: u64) -> Vec<Option<f64>> {
    let asked: Vec<Option<f64>> = wants.iter().map(|want| loosened(want.keys, want.rate, want.most)).collect();
    if sum(wants, &asked) <= total {
        return asked;
    }
    let weighed = Weighed { wants, asked: &asked };
    let everyone: Vec<usize> = (0..wants.len()).filter(|&at| asked[at].is_some()).collect();
    // At a price for a byte each tenant has its best rate, and the best may be none at all. The price at which they fit:
    let fits = |price: f64| {
        let with: Vec<usize> = everyone.iter().copied().filter(|&at| weighed.is_worth(at, price)).collect();
        (weighed.spent(&with, price) <= total as f64, with)
    };
    let price = bisected(|price| fits(price).0);
    // Some have no filter at that price and would at one a little lower: both sets are tried, since what the last of them
    // leaves is free for the others.
    let sets = [fits(price).1, fits(price * 0.999).1];
    let cost = |shares: &[Option<f64>]| -> f64 {
        wants.iter().zip(shares).map(|(want, share)| want.weight * want.lookups * share.unwrap_or(1.0)).sum()
    };
    let spent = sets.iter().map(|with| weighed.spend(with, total));
    spent.min_by(|one, other| cost(one).total_cmp(&cost(other))).unwrap_or_default()
}

/// Tenants, and the strictest rate of each that fits its own limit.
struct Weighed<'a> {
    wants: &'a [Want],
    asked: &'a [Option<f64>],
}

/// The lowest price, to a thousandth, that is enough. In logarithms: rates differ by a factor of a billion.
fn bisected(is_enough: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (-80.0f64, 80.0f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if is_enough(middle.exp()) { high = middle } else { low = middle }
    }
    high.exp()
}

impl Weighed<'_> {
    /// The best rate of a tenant at a price for what a key takes.
    fn rate(&self, at: usize, price: f64) -> f64 {
        let want = &self.wants[at];
        let strictest = self.asked[at].unwrap_or(want.rate);
        let even = price * want.keys as f64 / (want.weight * want.lookups).max(f64::MIN_POSITIVE);
        even.clamp(strictest, LOOSEST.max(strictest))
    }

    /// Whether a filter at its best rate costs less than none.
    fn is_worth(&self, at: usize, price: f64) -> bool {
        let (want, rate) = (&self.wants[at], self.rate(at, price));
        // What halves the rate takes so many bytes a key; the price is for that over ln 2.
        let halving = (about(1_000_000, 0.001) - about(1_000_000, 0.01)) / 1e6 / 10f64.log2();
        let lookups = want.weight * want.lookups;
        let for_bytes = price * std::f64::consts::LN_2 / halving * about(want.keys, rate);
        lookups * rate + for_bytes <= lookups
    }

    fn spent(&self, with: &[usize], price: f64) -> f64 {
        with.iter().map(|&at| about(self.wants[at].keys, self.rate(at, price))).sum()
    }

    /// Rates of these, so that they fit. The others have none.
    fn spend(&self, with: &[usize], total: u64) -> Vec<Option<f64>> {
        let mut shares = vec![None; self.wants.len()];
        // The table is off by about a percent: what is found is weighed exactly, and tightened until it fits.
        let mut aim = total as f64;
        for _ in 0..40 {
            let price = bisected(|price| self.spent(with, price) <= aim);
            with.iter().for_each(|&at| shares[at] = Some(self.rate(at, price)));
            if sum(self.wants, &shares) <= total {
                return shares;
            }
            aim *= 0.99;
        }
        // Too many, or so small that the table means nothing: as many as fit, the most useful first.
        let mut order = with.to_vec();
        let worth = |at: usize| self.wants[at].weight * self.wants[at].lookups / self.wants[at].keys.max(1) as f64;
        order.sort_by(|&one, &other| worth(other).total_cmp(&worth(one)));
        let mut left = total;
        for at in order {
            let size = shares[at].map_or(0, |rate| bytes(self.wants[at].keys, rate));
            if size <= left {
                left -= size;
            } else {
                shares[at] = None;
            }
        }
        shares
    }
}

fn sum(wants: &[Want], shares: &[Option<f64>]) -> u64 {
    let sizes = wants.iter().zip(shares).filter_map(|(want, share)| share.map(|rate| bytes(want.keys, rate)));
    sizes.fold(0, u64::saturating_add)
}

/// The rate nearest to the one asked for at which a filter takes no more than so much; none if there is none.
fn loosened(keys: u64, rate: f64, most: u64) -> Option<f64> {
    if bytes(keys, rate) <= most {
        return Some(rate);
    }
    let loosest = LOOSEST.max(rate);
    if bytes(keys, loosest) > most {
        return None;
    }
    let (mut too_strict, mut fits) = (rate.ln(), loosest.ln());
    for _ in 0..30 {
        let middle = (too_strict + fits) / 2.0;
        if bytes(keys, middle.exp()) <= most { fits = middle } else { too_strict = middle }
    }
    Some(fits.exp())
}

/// The budget of all tenants, and what each takes of it.
#[derive(Debug)]
pub(crate) struct Budget {
    pub total: u64,
    pub spending: Spending,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    of: HashMap<u64, Entry>,
    spent: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    asked: f64,
    /// None: there is no room for it.
    rate: Option<f64>,
    /// Its filter in force.
    bytes: u64,
    most: u64,
}

impl Budget {
    pub fn new(total: u64, spending: Spending) -> Self {
        Self { total, spending, entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all filters in force take.
    pub fn spent(&self) -> u64 {
        self.entries().spent
    }

    /// A place for a tenant that asks for this rate and may take so many bytes.
    pub fn room(self: &Arc<Self>, number: u64, asked: f64, most: u64) -> Room {
        self.entries().of.insert(number, Entry { asked, rate: Some(asked), bytes: 0, most });
        Room { budget: self.clone(), number }
    }
}

/// The share of one tenant.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Arc<Budget>,
    number: u64,
}

impl Room {
    /// The rate at which a filter for so many keys fits beside those of the others.
    pub fn rate_for(&self, keys: u64) -> Result<f64> {
        let (entry, left) = {
            let entries = self.budget.entries();
            let entry = entries.of.get(&self.number).copied();
            let own = entry.map_or(0, |entry| entry.bytes);
            (entry, self.budget.total.saturating_sub(entries.spent.saturating_sub(own)))
        };
        let fitting = entry.and_then(|entry| {
            let (rate, most) = (entry.rate?, entry.most.min(left));
            match self.budget.spending {
                Spending::Strict => (bytes(keys, rate) <= most).then_some(rate),
                Spending::CostFirst => loosened(keys, rate, most),
            }
        });
        fitting.ok_or_else(|| self.full(keys, left))
    }

    fn full(&self, keys: u64, left: u64) -> Error {
        let (total, spending) = (self.budget.total, self.budget.spending);
        Error::new(
            ErrorKind::Invalid,
            format!(
                "a filter for {keys} keys does not fit into what the other tenants leave of the budget ({left} of {total} \
                 bytes, {spending}), or into what it may take itself: allow more (--filter-memory), a higher rate, or \
                 --tenant-budget cost-first"
            ),
        )
    }

    /// This filter is in force.
    pub fn took(&self, filter: &Generation) {
        self.took_bytes(filter.local_bits().map_or(0, |bits| bits.size_in_bytes()));
    }

    /// A filter of so many bytes is in force.
    pub fn took_bytes(&self, bytes: u64) {
        let entries = &mut *self.budget.entries();
        if let Some(entry) = entries.of.get_mut(&self.number) {
            entries.spent = entries.spent.saturating_sub(entry.bytes).saturating_add(bytes);
            entry.bytes = bytes;
        }
    }

    /// The rate that it has from now on; none: there is no room for it.
    pub fn allot(&self, rate: Option<f64>) {
        if let Some(entry) = self.budget.entries().of.get_mut(&self.number) {
            entry.rate = rate;
        }
    }

    /// The rate asked for, the one that was allotted, and what its filter takes.
    pub fn share(&self) -> (f64, Option<f64>, u64) {
        self.budget
            .entries()
            .of
            .get(&self.number)
            .map_or((0.0, None, 0), |entry| (entry.asked, entry.rate, entry.bytes))
    }

    /// The most it may take itself.
    pub fn most(&self) -> u64 {
        self.budget.entries().of.get(&self.number).map_or(0, |entry| entry.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(keys: u64, lookups: f64) -> Want {
        Want { keys, lookups, rate: 0.001, weight: 1.0, most: u64::MAX }
    }

    fn cost(wants: &[Want], shares: &[Option<f64>]) -> f64 {
        wants.iter().zip(shares).map(|(want, share)| want.weight * want.lookups * share.unwrap_or(1.0)).sum()
    }

    #[test]
    fn everybody_has_what_he_asks_for_while_it_fits() {
        let wants = [want(1000, 1.0), want(100_000, 1e6), want(10, 0.0)];
        let all = sum(&wants, &[Some(0.001); 3]);
        for spending in [Spending::Strict, Spending::CostFirst] {
            assert_eq!(allot(spending, &wants, all), [Some(0.001); 3]);
            let fewer = allot(spending, &wants, all - 1);
            assert!(sum(&wants, &fewer) < all && fewer != [Some(0.001); 3], "{fewer:?}");
        }
    }

    #[test]
    fn strict_keeps_rates_and_leaves_the_largest_out_unless_it_weighs_more() {
        let mut wants = [want(50_000, 1e9), want(1_000, 1.0), want(10_000, 1.0)];
        let total = sum(&wants[1..], &[Some(0.001); 2]) + 1000;
        assert_eq!(allot(Spending::Strict, &wants, total), [None, Some(0.001), Some(0.001)]);
        wants[0].weight = 2.0;
        let total = bytes(50_000, 0.001) + bytes(1_000, 0.001);
        assert_eq!(allot(Spending::Strict, &wants, total), [Some(0.001), Some(0.001), None]);
        wants[1].most = 10;
        assert_eq!(allot(Spending::Strict, &wants, total), [Some(0.001), None, None], "its own limit counts too");
        assert_eq!(allot(Spending::Strict, &wants, 0), [None; 3]);
    }

    /// Every combination of rates on a fine grid, none at all included: what is found must cost no more than the best of them.
    #[test]
    fn cost_first_is_as_cheap_as_the_best_of_every_combination() {
        let grid: Vec<f64> = (0..=48).map(|step| 0.001 * 250f64.powf(f64::from(step) / 48.0)).collect();
        let cases = [
            [want(100_000, 1e6), want(100_000, 1e3), want(100_000, 10.0)],
            [want(200_000, 1e4), want(50_000, 1e4), want(20_000, 1e4)],
            [want(300_000, 5e5), want(10_000, 5e2), want(40_000, 9e6)],
            [want(50_000, 1.0), want(60_000, 1.0), want(70_000, 1.0)],
            [Want { weight: 50.0, ..want(90_000, 1e3) }, want(90_000, 1e3), want(90_000, 1e4)],
        ];
        for (number, wants) in cases.iter().enumerate() {
            let sizes: Vec<Vec<u64>> =
                wants.iter().map(|want| grid.iter().map(|&rate| bytes(want.keys, rate)).collect()).collect();
            let all = sum(wants, &[Some(0.001); 3]);
            for share in [0.9, 0.7, 0.5, 0.35, 0.2] {
                let total = (all as f64 * share) as u64;
                let found = allot(Spending::CostFirst, wants, total);
                assert!(sum(wants, &found) <= total, "{number} {share}: {found:?}");
                let choices = |at: usize| {
                    let sizes = &sizes[at];
                    grid.iter().enumerate().map(move |(step, &rate)| (Some(rate), sizes[step])).chain([(None, 0)])
                };
                let mut best = f64::INFINITY;
                for (one, first) in choices(0) {
                    for (two, second) in choices(1) {
                        for (three, third) in choices(2) {
                            if first + second + third <= total {
                                best = best.min(cost(wants, &[one, two, three]));
                            }
                        }
                    }
                }
                // The grid is 12 % wide, the table and the logarithm are off by about a percent.
                let cost = cost(wants, &found);
                assert!(cost <= best * 1.10, "{number} {share}: {cost} where {best} is possible: {found:?}");
            }
        }
    }

    #[test]
    fn a_thousand_tenants_are_weighed_in_no_time_and_fit() {
        let wants: Vec<Want> =
            (1..=1000).map(|number| want(number * 7 % 997 + 300, (number % 13) as f64 + 0.1)).collect();
        let all = sum(&wants, &vec![Some(0.001); 1000]);
        for share in [0.8, 0.3, 0.05] {
            let total = (all as f64 * share) as u64;
            let found = allot(Spending::CostFirst, &wants, total);
            assert!(sum(&wants, &found) <= total);
            let with = found.iter().flatten().count();
            assert!(with > 100 || share < 0.1, "{share}: {with}");
            assert!(found.iter().flatten().all(|&rate| (0.001..=LOOSEST).contains(&rate)));
        }
    }

    #[test]
    fn a_filter_that_grows_takes_what_the_others_leave() {
        for (spending, rate) in [(Spending::Strict, None), (Spending::CostFirst, Some(()))] {
            let budget = Arc::new(Budget::new(bytes(1000, 0.001) * 3, spending));
            let rooms: Vec<Room> = (0..2).map(|number| budget.room(number, 0.001, u64::MAX)).collect();
            rooms.iter().for_each(|room| room.took_bytes(bytes(1000, room.rate_for(1000).unwrap())));
            assert_eq!(rooms[0].rate_for(2000).unwrap(), 0.001, "what it has itself is its own to spend");
            let more = rooms[0].rate_for(3000);
            assert_eq!(more.is_ok(), rate.is_some(), "{more:?}");
            if let Ok(looser) = more {
                assert!(looser > 0.001 && bytes(3000, looser) <= bytes(1000, 0.001) * 2);
            }
            rooms[0].allot(None);
            assert!(rooms[0].rate_for(10).unwrap_err().to_string().contains("--filter-memory"));
            rooms[1].took_bytes(0);
            assert_eq!(budget.spent(), bytes(1000, 0.001));
        }
    }
}
