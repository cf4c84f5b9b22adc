//! "A maybe costs what was promised": every kind, every rate, every size from one key to a million.
//!
//! For each case the measured rate is held against the exact expected rate of the shape that was built, on both
//! sides, 4.5 standard errors, fixed keys; and that expected rate against what was asked. Small filters differ from
//! one another by chance, so many of them are measured and the error is taken from how they differ.

use bloomgate::math::estimate::within;
use bloomgate::{Blocked, Classic, Counting, Digest, Partitioned, Scalable};

pub const RATES: [f64; 7] = [0.5, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6];
const SIZES: [u64; 11] = [1, 2, 3, 7, 10, 64, 100, 1_000, 10_000, 100_000, 1_000_000];
const Z: f64 = 4.5;

/// How many filters of this size are measured, and with how many absent keys each.
fn effort(items: u64) -> (u64, u64) {
    match items {
        0..=100 => (1_000, 1_000),
        101..=1_000 => (200, 5_000),
        1_001..=10_000 => (20, 50_000),
        10_001..=100_000 => (20, 50_000),
        _ => (1, 2_000_000),
    }
}

/// What a kind must offer to be measured.
trait Subject {
    fn clear(&mut self);
    fn insert(&mut self, digests: &[Digest]);
    fn ask(&self, digests: &[Digest], answers: &mut [bool]);
    fn expected(&self, items: u64) -> f64;
    fn estimated(&self) -> f64;
    fn capacity(&self) -> u64;
    /// How much the rates of two such filters differ by chance, relative to the rate.
    fn spread(&self) -> f64;
}

macro_rules! subject {
    ($kind:ty, $estimated:expr, $spread:expr) => {
        impl Subject for $kind {
            fn clear(&mut self) {
                <$kind>::clear(self);
            }
            fn insert(&mut self, digests: &[Digest]) {
                self.insert_digests(digests).unwrap();
            }
            fn ask(&self, digests: &[Digest], answers: &mut [bool]) {
                self.contains_digests(digests, answers).unwrap();
            }
            fn expected(&self, items: u64) -> f64 {
                self.expected_rate_at(items)
            }
            fn estimated(&self) -> f64 {
                $estimated(self)
            }
            fn capacity(&self) -> u64 {
                <$kind>::capacity(self)
            }
            fn spread(&self) -> f64 {
                $spread(self)
            }
        }
    };
}
subject!(Classic, |filter: &Classic| filter.estimated_rate(), |_: &Classic| 0.0);
subject!(Blocked, |filter: &Blocked| filter.estimated_rate(), |filter: &Blocked| line_spread(filter.layout().lines()));
subject!(Partitioned, |filter: &Partitioned| filter.estimated_rate(), |_: &Partitioned| 0.0);
subject!(Counting, |filter: &Counting| filter.estimated_rate().unwrap(), |filter: &Counting| line_spread(
    filter.layout().lines()
));

/// Lines differ in load, and so by up to 0.85 times their mean rate (at 1 %); a filter averages over its lines.
fn line_spread(lines: u64) -> f64 {
    0.85 / (lines as f64).sqrt()
}

/// The digest of the `i`-th key of the `filter`-th filter; absent keys have the top bit set.
fn digests(filter: u64, from: u64, count: u64) -> Vec<Digest> {
    let contract = bloomgate::Contract::xxh3();
    (from..from + count)
        .map(|i| {
            let mut key = [0u8; 16];
            key[..8].copy_from_slice(&filter.to_le_bytes());
            key[8..].copy_from_slice(&i.to_le_bytes());
            contract.digest_bytes(&key)
        })
        .collect()
}

const ABSENT: u64 = 1 << 63;

/// The keys of all filters of one size: the same for every rate, so hashed once.
struct Keys {
    members: Vec<Vec<Digest>>,
    absent: Vec<Vec<Digest>>,
}

impl Keys {
    fn new(items: u64) -> Self {
        let (filters, probes) = effort(items);
        Self {
            members: (0..filters).map(|filter| digests(filter, 0, items)).collect(),
            absent: (0..filters).map(|filter| digests(filter, ABSENT, probes)).collect(),
        }
    }
}

fn measure(name: &str, subject: &mut impl Subject, keys: &Keys, items: u64, rate: f64) {
    let case = format!("{name}, {items} items at {rate}");
    assert_eq!(subject.capacity(), items, "{case}");
    let (filters, probes) = effort(items);
    let mut answers = vec![false; probes.max(items) as usize];
    let (mut sum, mut squares, mut estimates) = (0.0, 0.0, 0.0);
    let mut hits = 0;
    let expected = subject.expected(items);
    let compare_estimates = filters >= 20 && expected > 1e-4;
    for (members, absent) in keys.members.iter().zip(&keys.absent) {
        subject.clear();
        subject.insert(members);
        subject.ask(members, &mut answers[..items as usize]);
        assert!(answers[..items as usize].iter().all(|&answer| answer), "{case}: a wrong no");
        subject.ask(absent, &mut answers[..probes as usize]);
        let found = answers[..probes as usize].iter().filter(|&&answer| answer).count() as u64;
        hits += found;
        let share = found as f64 / probes as f64;
        sum += share;
        squares += share * share;
        if compare_estimates {
            estimates += subject.estimated();
        }
    }
    let trials = filters * probes;
    let mean = sum / filters as f64;
    // How the filters differ, where there are several; where there is one, how such filters differ by theory.
    let between = ((squares / filters as f64 - mean * mean).max(0.0) / filters as f64).sqrt();
    let binomial = (expected * (1.0 - expected) / trials as f64).sqrt();
    let error = if filters > 1 { between.max(binomial) } else { binomial.hypot(expected * subject.spread()) };
    if expected * (trials as f64) < 200.0 {
        assert!(within(hits, trials, expected, Z), "{case}: {hits} hits of {trials}, expected rate {expected:e}");
    } else {
        assert!((mean - expected).abs() <= Z * error, "{case}: measured {mean:e}, expected {expected:e} +- {error:e}");
    }
    // What the bits say of themselves agrees too.
    if compare_estimates {
        let estimated = estimates / filters as f64;
        assert!((estimated / expected - 1.0).abs() < 0.1, "{case}: estimated {estimated:e}, expected {expected:e}");
    }
    assert!(expected <= rate * 1.0001, "{case}: the shape has {expected:e}");
}

macro_rules! promise {
    ($test:ident, $kind:ident) => {
        mod $test {
            use super::*;

            fn at(sizes: &[u64]) {
                for &items in sizes {
                    let keys = Keys::new(items);
                    for rate in RATES {
                        let mut filter = $kind::builder().items(items).rate(rate).build().unwrap();
                        measure(stringify!($kind), &mut filter, &keys, items, rate);
                    }
                }
            }
            // In parts, so that they run side by side.
            #[test]
            fn with_a_handful_of_keys() {
                at(&SIZES[..4]);
            }
            #[test]
            fn with_a_hundred_keys() {
                at(&SIZES[4..7]);
            }
            #[test]
            fn with_thousands_of_keys() {
                at(&SIZES[7..10]);
            }
            #[test]
            fn with_a_million_keys() {
                at(&SIZES[10..]);
            }
        }
    };
}
promise!(classic_keeps_its_promise, Classic);
promise!(blocked_keeps_its_promise, Blocked);
promise!(partitioned_keeps_its_promise, Partitioned);
promise!(counting_keeps_its_promise, Counting);

/// The shape is not larger than the promise needs: one step smaller would break it.
#[test]
fn shapes_are_as_small_as_they_can_be() {
    for rate in RATES {
        for items in SIZES {
            let blocked = Blocked::builder().items(items).rate(rate).build().unwrap();
            if blocked.bits() > 512 {
                let smaller = Blocked::builder().bits(blocked.bits() - 512).hashes(blocked.hashes()).build().unwrap();
                assert!(smaller.expected_rate_at(items) > rate, "blocked {items} {rate}");
            }
            let classic = Classic::builder().items(items).rate(rate).build().unwrap();
            if classic.bits() > 1 {
                let smaller = Classic::builder().bits(classic.bits() - 1).hashes(classic.hashes()).build().unwrap();
                assert!(smaller.expected_rate_at(items) > rate * 0.99999, "classic {items} {rate}");
            }
            let sliced = Partitioned::builder().items(items).rate(rate).build().unwrap();
            let step = u64::from(sliced.hashes());
            if sliced.bits() > step {
                let smaller =
                    Partitioned::builder().bits(sliced.bits() - step).hashes(sliced.hashes()).build().unwrap();
                assert!(smaller.expected_rate_at(items) > rate, "partitioned {items} {rate}");
            }
        }
    }
}

/// A chain keeps the asked rate over all its stages: T48, at 1, 10 and 1000 times its first capacity.
#[test]
fn scalable_keeps_its_promise() {
    for (rate, first) in [(0.1, 1_000u64), (0.01, 1_000), (0.01, 50), (1e-3, 1_000), (1e-4, 300)] {
        let mut chain = Scalable::builder().items(first).rate(rate).build().unwrap();
        let mut inserted = 0;
        for times in [1, 10, 1_000] {
            let until = first * times;
            chain.insert_digests(&digests(0, inserted, until - inserted)).unwrap();
            inserted = until;
            let mut answers = vec![false; 1_000_000];
            chain.contains_digests(&digests(0, 0, until), &mut answers[..until as usize]).unwrap();
            assert!(answers[..until as usize].iter().all(|&answer| answer), "a wrong no at {until}");
            chain.contains_digests(&digests(0, ABSENT, 1_000_000), &mut answers).unwrap();
            let hits = answers.iter().filter(|&&answer| answer).count() as u64;
            // Of one filter the bits as they are tell the rate; what the shape expects lies near.
            let estimated = chain.estimated_rate();
            assert!(within(hits, 1_000_000, estimated, Z), "{rate} x{times}: {hits}, estimated {estimated:e}");
            assert!(chain.expected_rate() <= rate, "{rate} x{times}: expected {}", chain.expected_rate());
            let (low, high) = bloomgate::math::estimate::rate_interval(hits, 1_000_000, Z);
            assert!(low <= rate, "{rate} x{times}: measured {hits} in a million, {low:e}..{high:e}");
        }
    }
}
