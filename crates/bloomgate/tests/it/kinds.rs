//! What holds for every kind, said once and run over each of them, in owned and in shared form.

use bloomgate::bloom::{BlockedLayout, ClassicLayout, PartitionedLayout};
use bloomgate::math::estimate::{Estimate, within};
use bloomgate::{
    Blocked, Bloom, Classic, Counting, Digest, ErrorKind, Kind, Partitioned, Result, Scalable, Shared, WhenFull,
};

use crate::keys::{ABSENT, Dice, mix, scattered};

/// A kind as the tests see it; keys are `u64`.
trait Subject: Sized {
    /// Whether a key that is inserted twice counts twice, and whether a full filter refuses keys that it has.
    const MULTISET: bool = false;
    fn make(items: u64, rate: f64, when_full: WhenFull) -> Self;
    fn insert(&mut self, key: u64) -> Result<bool>;
    fn insert_digest(&mut self, digest: Digest) -> Result<bool>;
    fn insert_batch(&mut self, keys: &[u64]) -> Result<u64>;
    fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64>;
    fn contains(&self, key: u64) -> bool;
    fn contains_digest(&self, digest: Digest) -> bool;
    fn contains_batch(&self, keys: &[u64], answers: &mut [bool]) -> Result<()>;
    fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()>;
    fn digest(&self, key: u64) -> Digest;
    fn clear(&mut self);
    fn len(&self) -> u64;
    fn is_empty(&self) -> bool;
    fn capacity(&self) -> u64;
    fn remaining(&self) -> u64;
    fn is_full(&self) -> bool;
    fn promised_rate(&self) -> f64;
    fn expected_rate(&self) -> f64;
    fn estimated_rate(&self) -> f64;
    fn fill_ratio(&self) -> f64;
    fn approximate_count(&self) -> Estimate;
    fn same_bits(&self, other: &Self) -> bool;
}

macro_rules! subject {
    ($type:ty, $build:expr, multiset: $multiset:expr, clear: $clear:expr, estimated: $estimated:expr, same: $same:expr) => {
        impl Subject for $type {
            const MULTISET: bool = $multiset;
            fn make(items: u64, rate: f64, when_full: WhenFull) -> Self {
                $build(items, rate, when_full).unwrap()
            }
            fn insert(&mut self, key: u64) -> Result<bool> {
                <$type>::insert(self, &key)
            }
            fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
                <$type>::insert_digest(self, digest)
            }
            fn insert_batch(&mut self, keys: &[u64]) -> Result<u64> {
                <$type>::insert_batch(self, keys)
            }
            fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
                <$type>::insert_digests(self, digests)
            }
            fn contains(&self, key: u64) -> bool {
                <$type>::contains(self, &key).unwrap()
            }
            fn contains_digest(&self, digest: Digest) -> bool {
                <$type>::contains_digest(self, digest)
            }
            fn contains_batch(&self, keys: &[u64], answers: &mut [bool]) -> Result<()> {
                <$type>::contains_batch(self, keys, answers)
            }
            fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
                <$type>::contains_digests(self, digests, answers)
            }
            fn digest(&self, key: u64) -> Digest {
                self.contract().digest(&key).unwrap()
            }
            fn clear(&mut self) {
                $clear(self)
            }
            fn len(&self) -> u64 {
                <$type>::len(self)
            }
            fn is_empty(&self) -> bool {
                <$type>::is_empty(self)
            }
            fn capacity(&self) -> u64 {
                <$type>::capacity(self)
            }
            fn remaining(&self) -> u64 {
                <$type>::remaining(self)
            }
            fn is_full(&self) -> bool {
                <$type>::is_full(self)
            }
            fn promised_rate(&self) -> f64 {
                <$type>::promised_rate(self)
            }
            fn expected_rate(&self) -> f64 {
                <$type>::expected_rate(self)
            }
            fn estimated_rate(&self) -> f64 {
                $estimated(self)
            }
            fn fill_ratio(&self) -> f64 {
                <$type>::fill_ratio(self)
            }
            fn approximate_count(&self) -> Estimate {
                <$type>::approximate_count(self)
            }
            fn same_bits(&self, other: &Self) -> bool {
                $same(self, other)
            }
        }
    };
}

macro_rules! fixed_subject {
    ($layout:ident) => {
        subject!(
            Bloom<$layout>,
            |items, rate, full| Bloom::<$layout>::builder().keys::<u64>().items(items).rate(rate).when_full(full).build(),
            multiset: false,
            clear: |filter: &mut Bloom<$layout>| filter.clear(),
            estimated: |filter: &Bloom<$layout>| filter.estimated_rate(),
            same: |a: &Bloom<$layout>, b| a == b
        );
        subject!(
            Bloom<$layout, Shared>,
            |items, rate, full| {
                Bloom::<$layout>::builder().keys::<u64>().items(items).rate(rate).when_full(full).build_shared()
            },
            multiset: false,
            clear: |filter: &mut Bloom<$layout, Shared>| filter.clear(),
            estimated: |filter: &Bloom<$layout, Shared>| filter.estimated_rate(),
            same: |a: &Bloom<$layout, Shared>, b| a == b
        );
    };
}
fixed_subject!(ClassicLayout);
fixed_subject!(BlockedLayout);
fixed_subject!(PartitionedLayout);
subject!(
    Counting,
    |items, rate, full| Counting::builder().keys::<u64>().items(items).rate(rate).when_full(full).build(),
    multiset: true,
    clear: |filter: &mut Counting| filter.clear(),
    estimated: |filter: &Counting| filter.estimated_rate().unwrap(),
    same: |a: &Counting, b| a == b
);
subject!(
    Scalable,
    |items, rate, full| Scalable::builder().keys::<u64>().items(items).rate(rate).when_full(full).build(),
    multiset: false,
    clear: |filter: &mut Scalable| filter.clear().unwrap(),
    estimated: |filter: &Scalable| filter.estimated_rate(),
    same: same_chain
);
subject!(
    Scalable<Shared>,
    |items, rate, full| Scalable::builder().keys::<u64>().items(items).rate(rate).when_full(full).build_shared(),
    multiset: false,
    clear: |filter: &mut Scalable<Shared>| {
        let spare = Scalable::builder().items(1).build_shared().unwrap();
        let mut owned = std::mem::replace(filter, spare).into_owned().unwrap();
        owned.clear().unwrap();
        *filter = owned.into_shared().unwrap();
    },
    estimated: |filter: &Scalable<Shared>| filter.estimated_rate(),
    same: same_chain
);

/// Chains have no equality: the same stages, counts, set bits, and answers to many keys.
fn same_chain<S: bloomgate::bits::Store>(a: &Scalable<S>, b: &Scalable<S>) -> bool {
    (a.stages(), a.len(), a.set_bits(), a.bits()) == (b.stages(), b.len(), b.set_bits(), b.bits())
        && scattered(77, 0, 2_000).iter().all(|key| a.contains(key).unwrap() == b.contains(key).unwrap())
}

const LENGTHS: [u64; 9] = [0, 1, 31, 32, 33, 63, 64, 65, 1_000];

fn no_key_is_lost<T: Subject>() {
    for (items, rate) in [(1, 0.5), (100, 0.1), (3_000, 0.01), (3_000, 1e-6)] {
        let mut filter = T::make(items, rate, WhenFull::GoOn);
        for round in 0..2 {
            let keys = scattered(round, 0, items);
            for &key in &keys {
                filter.insert(key).unwrap();
                assert!(filter.contains(key));
            }
            assert!(keys.iter().all(|&key| filter.contains(key)), "{items} at {rate}, round {round}");
            filter.clear();
            assert!(filter.is_empty() && filter.len() == 0);
            assert!(!keys.iter().any(|&key| filter.contains(key)), "a cleared filter knows a key");
        }
    }
}

/// "Certainly new" is the opposite of "maybe there", at the moment before.
fn new_is_the_opposite_of_contained<T: Subject>() {
    let mut filter = T::make(1_000, 0.05, WhenFull::GoOn);
    let mut dice = Dice(3);
    let (mut new, mut old) = (0, 0);
    for _ in 0..4_000 {
        let key = mix(dice.below(1_500));
        let before = filter.contains(key);
        let said = filter.insert(key).unwrap();
        assert_eq!(said, !before);
        new += u64::from(said);
        old += u64::from(before);
    }
    assert!(new > 1_000 && old > 1_000);
    assert_eq!(filter.len(), if T::MULTISET { 4_000 } else { new });
}

/// Keys new and old, and some of them twice.
fn mixed_keys(dice: &mut Dice, count: u64) -> Vec<u64> {
    (0..count).map(|_| mix(dice.below(2_000))).collect()
}

/// A batch is its keys one by one: same answers, same bits, same count, whichever door they come in by.
fn batch_equals_single<T: Subject>() {
    for rate in [0.03, 1e-5] {
        let make = || T::make(500, rate, WhenFull::GoOn);
        let (mut single, mut batch, mut digests, mut one_digest) = (make(), make(), make(), make());
        let mut dice = Dice(5);
        for length in LENGTHS.into_iter().chain([32, 7, 96]) {
            let keys = mixed_keys(&mut dice, length);
            let as_digests: Vec<Digest> = keys.iter().map(|&key| single.digest(key)).collect();
            let new: u64 = keys.iter().map(|&key| u64::from(single.insert(key).unwrap())).sum();
            assert_eq!(batch.insert_batch(&keys).unwrap(), new, "batch of {length}");
            assert_eq!(digests.insert_digests(&as_digests).unwrap(), new, "digests, {length}");
            let by_one: u64 = as_digests.iter().map(|&d| u64::from(one_digest.insert_digest(d).unwrap())).sum();
            assert_eq!(by_one, new);
            for other in [&batch, &digests, &one_digest] {
                assert_eq!(other.len(), single.len());
                assert!(single.same_bits(other), "bits after {length}");
            }
            let asked = mixed_keys(&mut dice, length);
            let as_digests: Vec<Digest> = asked.iter().map(|&key| single.digest(key)).collect();
            let expected: Vec<bool> = asked.iter().map(|&key| single.contains(key)).collect();
            // Answers are written, whatever was in the slice before.
            for before in [true, false] {
                let mut answers = vec![before; asked.len()];
                batch.contains_batch(&asked, &mut answers).unwrap();
                assert_eq!(answers, expected);
                answers.fill(before);
                batch.contains_digests(&as_digests, &mut answers).unwrap();
                assert_eq!(answers, expected);
            }
            assert!(
                as_digests.iter().zip(&expected).all(|(&digest, &answer)| single.contains_digest(digest) == answer)
            );
        }
        let mut short = [false; 3];
        let error = single.contains_batch(&[1, 2, 3, 4], &mut short).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParameter);
        assert!(error.to_string().contains('4') && error.to_string().contains('3'), "{error}");
    }
}

/// T54: after `clear` nothing is left, neither bits nor counts, and a refill gives the bits of a new filter.
fn clear_forgets_everything<T: Subject>() {
    let mut filter = T::make(300, 0.01, WhenFull::GoOn);
    filter.insert_batch(&scattered(1, 0, 900)).unwrap();
    filter.clear();
    assert_eq!((filter.len(), filter.fill_ratio()), (0, 0.0));
    assert_eq!((filter.expected_rate(), filter.estimated_rate()), (0.0, 0.0));
    assert_eq!(filter.approximate_count(), Estimate { value: 0.0, low: 0.0, high: Some(0.0) });
    assert_eq!(filter.remaining(), filter.capacity());
    assert!(!filter.is_full());
    let mut fresh = T::make(300, 0.01, WhenFull::GoOn);
    assert!(filter.same_bits(&fresh));
    let keys = scattered(2, 0, 300);
    assert_eq!(filter.insert_batch(&keys).unwrap(), fresh.insert_batch(&keys).unwrap());
    assert!(filter.same_bits(&fresh));
    assert_eq!(filter.len(), fresh.len());
}

/// The count, what remains, and the exact rate as the filter fills; past the capacity it goes on.
fn going_on_raises_the_rate_and_loses_nothing<T: Subject>() {
    let mut filter = T::make(1_000, 0.01, WhenFull::GoOn);
    assert_eq!((filter.capacity(), filter.promised_rate()), (1_000, 0.01));
    let keys = scattered(4, 0, 5_000);
    let mut last = 0.0;
    for (i, chunk) in keys.chunks(100).enumerate() {
        assert_eq!(filter.remaining(), filter.capacity().saturating_sub(filter.len()));
        assert_eq!(filter.is_full(), filter.len() >= filter.capacity());
        filter.insert_batch(chunk).unwrap();
        let now = filter.expected_rate();
        assert!(now > last && now <= 1.0, "{now} after {last}, chunk {i}");
        if filter.len() <= 1_000 {
            // A key or two were taken for known on the way.
            assert!(now <= 0.01 * 1.02, "{now} at {}", filter.len());
        }
        last = now;
    }
    assert!(keys.iter().all(|&key| filter.contains(key)));
    assert!(filter.is_full() && filter.remaining() == 0);
    // Counts fall behind by the false positives; at five times the capacity the rate is far above the promise.
    assert!(filter.expected_rate() > 0.3 && filter.estimated_rate() > 0.4, "{} {}", last, filter.estimated_rate());
    let asked = scattered(4, ABSENT, 20_000);
    let hits = asked.iter().filter(|&&key| filter.contains(key)).count() as u64;
    assert!(within(hits, 20_000, filter.estimated_rate(), 4.5), "{hits} of 20000, {}", filter.estimated_rate());
}

/// A filter that refuses takes what it was made for, then says so and changes nothing.
fn refusing_keeps_the_rate<T: Subject>() {
    let mut filter = T::make(200, 0.01, WhenFull::Refuse);
    let mut taken = Vec::new();
    for key in scattered(5, 0, 1_000) {
        if filter.is_full() {
            break;
        }
        filter.insert(key).unwrap();
        taken.push(key);
    }
    assert_eq!((filter.len(), filter.remaining()), (200, 0));
    let before = (filter.len(), filter.fill_ratio());
    let mut refused = 0;
    for key in scattered(6, 0, 300) {
        let known = filter.contains(key);
        let digest = filter.digest(key);
        for answer in [filter.insert(key), filter.insert_digest(digest), filter.insert_batch(&[key]).map(|new| new > 0)]
        {
            match answer {
                Ok(new) => assert!(known && !new && !T::MULTISET),
                Err(error) => {
                    assert!(!known || T::MULTISET);
                    assert_eq!(error.kind(), ErrorKind::Full);
                    assert!(error.to_string().contains("200"), "{error}");
                    refused += 1;
                }
            }
        }
        assert_eq!(filter.contains(key), known);
    }
    assert!(refused > 800);
    for &key in &taken {
        assert!(filter.contains(key));
        match filter.insert(key) {
            Ok(new) => assert!(!new && !T::MULTISET),
            Err(error) => assert!(T::MULTISET && error.kind() == ErrorKind::Full),
        }
    }
    assert_eq!((filter.len(), filter.fill_ratio()), before);
    // Keys taken for known on the way are not counted: up to a few in a thousand more than the capacity.
    assert!(filter.expected_rate() <= 0.01 * 1.05);

    // A batch takes the keys before the refused one. Twice the same key is one key, also when the first of them was
    // the last that fitted.
    let mut filter = T::make(200, 0.01, WhenFull::Refuse);
    let mut keys = scattered(5, 0, 1_000);
    assert_eq!(filter.insert_batch(&keys).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(filter.len(), 200);
    assert!(taken.iter().all(|&key| filter.contains(key)));
    assert_eq!(filter.fill_ratio(), before.1);
    if !T::MULTISET {
        keys.truncate(taken.len());
        keys.extend(taken.iter().rev());
        filter.clear();
        assert_eq!(filter.insert_batch(&keys).unwrap(), 200);
    }
}

/// What the bits say: the interval covers the true number as often as it says, the estimated rate is the expected one.
fn the_bits_speak_of_the_keys<T: Subject>() {
    for (items, filters) in [(40u64, 400u64), (1_000, 200), (20_000, 20)] {
        let mut filter = T::make(items, 0.01, WhenFull::GoOn);
        let (mut covered, mut values, mut estimated) = (0, 0.0, 0.0);
        for i in 0..filters {
            filter.clear();
            filter.insert_batch(&scattered(100 + i, 0, items)).unwrap();
            let Estimate { value, low, high } = filter.approximate_count();
            let truth = items as f64;
            assert!(low <= value && value <= high.unwrap());
            covered += u64::from(low <= truth && truth <= high.unwrap());
            values += value / truth;
            estimated += filter.estimated_rate();
        }
        // 95 % by design; three in a hundred off, by the estimate of the error itself.
        let share = covered as f64 / filters as f64;
        assert!(share >= 0.92 - 4.5 * (0.05f64 * 0.95 / filters as f64).sqrt(), "{items}: {share}");
        let mean = values / filters as f64;
        assert!((mean - 1.0).abs() < 0.02, "{items}: the estimates are {mean} of the truth on average");
        let expected = filter.expected_rate();
        let estimated = estimated / filters as f64;
        assert!((estimated / expected - 1.0).abs() < 0.1, "{items}: {estimated} and {expected}");
    }
}

macro_rules! for_every_kind {
    ($($check:ident)*) => {$(
        mod $check {
            use super::*;
            #[test]
            fn classic() {
                super::$check::<Classic>();
                super::$check::<Classic<Shared>>();
            }
            #[test]
            fn blocked() {
                super::$check::<Blocked>();
                super::$check::<Blocked<Shared>>();
            }
            #[test]
            fn partitioned() {
                super::$check::<Partitioned>();
                super::$check::<Partitioned<Shared>>();
            }
            #[test]
            fn counting() {
                super::$check::<Counting>();
            }
            #[test]
            fn scalable() {
                super::$check::<Scalable>();
                super::$check::<Scalable<Shared>>();
            }
        }
    )*};
}
for_every_kind! {
    no_key_is_lost
    new_is_the_opposite_of_contained
    batch_equals_single
    clear_forgets_everything
    going_on_raises_the_rate_and_loses_nothing
    refusing_keeps_the_rate
    the_bits_speak_of_the_keys
}

/// `insert_all` takes any iterator and is a batch.
#[test]
fn insert_all_equals_insert_batch() {
    macro_rules! check {
        ($kind:ident, $same:expr) => {
            let make = || $kind::builder().keys::<u64>().items(500).rate(0.01).build().unwrap();
            let (mut all, mut batch) = (make(), make());
            let mut dice = Dice(9);
            for length in LENGTHS.into_iter().chain([256, 257, 3_000]) {
                let keys = mixed_keys(&mut dice, length);
                assert_eq!(all.insert_all(keys.iter().copied()).unwrap(), batch.insert_batch(&keys).unwrap());
                assert_eq!(all.len(), batch.len());
                assert!($same(&all, &batch), "{} after {length}", stringify!($kind));
            }
            // The first key that is refused ends it; those before it are in.
            let mut filter = $kind::builder().keys::<u64>().items(500).build().unwrap();
            let error = filter.insert_all(["1", "2", "three", "4"]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Encoding);
            assert!(filter.contains(&1u64).unwrap() && filter.contains(&2u64).unwrap());
            assert!(!filter.contains(&4u64).unwrap());
            assert_eq!(filter.len(), 2);
        };
    }
    check!(Classic, |a: &Classic, b| a == b);
    check!(Blocked, |a: &Blocked, b| a == b);
    check!(Partitioned, |a: &Partitioned, b| a == b);
    check!(Counting, |a: &Counting, b| a == b);
    check!(Scalable, same_chain);
}

/// The share of set bits is what theory says, to 4.5 standard errors on both sides, at a quarter, at the capacity and
/// at three times it (T20: a biased index sets fewer bits).
#[test]
fn fill_is_what_theory_says() {
    use bloomgate::math::{blocked, partitioned};
    let items = 50_000u64;
    for n in [items / 4, items, 3 * items] {
        for (seed, rate) in [(1, 0.1), (2, 0.01), (3, 1e-5)] {
            let keys = scattered(seed, 0, n);
            let check = |name: &str, fill: f64, estimate: Estimate, theory: &dyn Fn(f64) -> f64| {
                // The interval of the count is 1.96 standard errors wide to each side: turned back into a fill.
                let error = (estimate.high.unwrap() - estimate.value) / 1.96;
                let allowed = theory(n as f64 + 4.5 * error) - theory(n as f64);
                let expected = theory(n as f64);
                assert!((fill - expected).abs() <= allowed, "{name} {n} at {rate}: {fill}, {expected} +- {allowed}");
                assert!(allowed < 0.01, "{name}: a test that cannot fail");
            };
            let mut filter = Classic::builder().keys::<u64>().items(items).rate(rate).build().unwrap();
            filter.insert_batch(&keys).unwrap();
            let (m, k) = (filter.bits() as f64, f64::from(filter.hashes()));
            check("classic", filter.fill_ratio(), filter.approximate_count(), &|n| {
                -(n * k * (-1.0 / m).ln_1p()).exp_m1()
            });
            let mut filter = Partitioned::builder().keys::<u64>().items(items).rate(rate).build().unwrap();
            filter.insert_batch(&keys).unwrap();
            let slice = filter.layout().slice_bits();
            check("partitioned", filter.fill_ratio(), filter.approximate_count(), &|n| {
                partitioned::fill(slice, n as u64)
            });
            let mut filter = Blocked::builder().keys::<u64>().items(items).rate(rate).build().unwrap();
            filter.insert_batch(&keys).unwrap();
            let layout = *filter.layout();
            check("blocked", filter.fill_ratio(), filter.approximate_count(), &|n| {
                blocked::fill(layout.lines(), layout.lines_per_key(), n as u64)
            });
            let mut filter = Counting::builder().keys::<u64>().items(items).rate(rate).build().unwrap();
            filter.insert_batch(&keys).unwrap();
            let layout = *filter.layout();
            check("counting", filter.fill_ratio(), filter.approximate_count(), &|n| {
                blocked::fill(layout.lines(), layout.lines_per_key(), n as u64)
            });
        }
    }
}

/// A clone is equal and independent; equal means contract, whole shape and bits (T13: not k alone).
#[test]
fn clones_and_equality() {
    macro_rules! check {
        ($kind:ident, $bits:expr, $hashes:expr, $other_bits:expr) => {
            let shape = |bits| $kind::builder().keys::<u64>().bits(bits).hashes($hashes);
            let mut filter = shape($bits).build().unwrap();
            filter.insert_batch(&scattered(8, 0, 500)).unwrap();
            let mut copy = filter.clone();
            assert_eq!(copy, filter);
            assert_eq!((copy.len(), copy.capacity()), (filter.len(), filter.capacity()));
            copy.insert(&mix(1 << 60)).unwrap();
            assert_ne!(copy, filter);
            assert!(!filter.contains(&mix(1 << 60)).unwrap());
            filter.insert(&mix(1 << 60)).unwrap();
            assert_eq!(copy, filter);
            // The same keys in another order, and in a filter with another promise: the same bits.
            let mut other = shape($bits).items(7).build().unwrap();
            other.insert(&mix(1 << 60)).unwrap();
            for key in scattered(8, 0, 500).iter().rev() {
                other.insert(key).unwrap();
            }
            assert_eq!(other, filter);
            // Empty filters of two shapes or of two contracts are different.
            assert_ne!(shape($bits).build().unwrap(), shape($other_bits).build().unwrap());
            let seeded = bloomgate::Contract::xxh3_seeded(1).for_keys::<u64>();
            assert_ne!(shape($bits).build().unwrap(), shape($bits).contract(seeded).build().unwrap());
        };
    }
    check!(Classic, 10_000, 7, 10_001);
    check!(Partitioned, 10_003, 7, 10_010);
    check!(Blocked, 10_240, 8, 10_752);
}

/// Owned to shared and back: the same bits, the same count, the same settings.
#[test]
fn owned_and_shared_are_the_same_bits() {
    macro_rules! check {
        ($kind:ident) => {
            for items in [1u64, 10, 3_000, 4_000_000] {
                let keys = scattered(11, 0, items.min(3_000));
                let build = || $kind::builder().keys::<u64>().items(items).rate(0.01).when_full(WhenFull::Refuse);
                let mut owned = build().build().unwrap();
                owned.insert_batch(&keys).unwrap();
                let shared = build().build_shared().unwrap();
                shared.insert_batch(&keys).unwrap();
                assert_eq!(owned, shared);
                assert_eq!(shared, owned);
                let copy = owned.clone();
                let turned = owned.into_shared().unwrap();
                assert_eq!((turned.len(), turned.capacity()), (copy.len(), copy.capacity()));
                assert_eq!((turned.when_full(), turned.promised_rate()), (copy.when_full(), copy.promised_rate()));
                assert_eq!(turned, copy);
                assert_eq!(turned.set_bits(), copy.set_bits());
                let back = turned.into_owned().unwrap();
                assert_eq!((back.len(), back.huge_pages()), (copy.len(), copy.huge_pages()));
                assert_eq!(back, copy);
            }
        };
    }
    check!(Classic);
    check!(Blocked);
    check!(Partitioned);
    let mut chain = Scalable::builder().keys::<u64>().items(100).build().unwrap();
    let keys = scattered(12, 0, 2_000);
    chain.insert_batch(&keys).unwrap();
    let (stages, len, set) = (chain.stages(), chain.len(), chain.set_bits());
    assert!(stages > 3);
    let shared = chain.into_shared().unwrap();
    assert_eq!((shared.stages(), shared.len(), shared.set_bits()), (stages, len, set));
    assert!(keys.iter().all(|key| shared.contains(key).unwrap()));
    shared.insert_batch(&scattered(13, 0, 3_000)).unwrap();
    let back = shared.into_owned().unwrap();
    assert!(back.stages() > stages);
    assert!(keys.iter().chain(&scattered(13, 0, 3_000)).all(|key| back.contains(key).unwrap()));
}

/// `AnyFilter` is the filter inside it.
#[test]
fn any_filter_answers_as_the_filter_inside() {
    use bloomgate::AnyFilter;
    let items = 300u64;
    let filters: [AnyFilter; 5] = [
        AnyFilter::Classic(Classic::builder().keys::<u64>().items(items).build().unwrap()),
        AnyFilter::Blocked(Blocked::builder().keys::<u64>().items(items).build().unwrap()),
        AnyFilter::Partitioned(Partitioned::builder().keys::<u64>().items(items).build().unwrap()),
        AnyFilter::Counting(Counting::builder().keys::<u64>().items(items).build().unwrap()),
        AnyFilter::Scalable(Scalable::builder().keys::<u64>().items(items).build().unwrap()),
    ];
    for mut any in filters {
        let keys = scattered(14, 0, items);
        assert!(any.insert(&keys[0]).unwrap());
        any.insert_batch(&keys[1..]).unwrap();
        let mut answers = vec![false; keys.len()];
        any.contains_batch(&keys, &mut answers).unwrap();
        assert!(answers.iter().all(|&answer| answer), "{}", any.kind());
        assert!(any.expected_rate() > 0.0 && any.estimated_rate().unwrap() > 0.0 && any.fill_ratio() > 0.2);
        let Estimate { value, .. } = any.approximate_count();
        assert!((value / items as f64 - 1.0).abs() < 0.2, "{}: {value}", any.kind());
        let removed = any.remove(&keys[0]);
        match any {
            AnyFilter::Counting(_) => assert!(removed.unwrap()),
            _ => assert_eq!(removed.unwrap_err().kind(), ErrorKind::Unsupported),
        }
    }
}

/// A filter that refuses when full stops at its capacity of different keys, not of keys told to be new: the rate stays
/// what was promised, at high rates too.
#[test]
fn a_refusal_comes_at_the_capacity_of_different_keys() {
    for rate in [0.5, 0.3, 0.1, 0.01] {
        let items = 100_000u64;
        let mut filter =
            Blocked::builder().keys::<u64>().items(items).rate(rate).when_full(WhenFull::Refuse).build().unwrap();
        let mut taken = 0u64;
        while filter.insert(&taken).is_ok() {
            taken += 1;
        }
        // The last keys before the refusal are spread by the chance of being taken for known.
        assert!((taken as f64 / items as f64 - 1.0).abs() < 0.01, "{rate}: {taken} keys taken");
        assert!(filter.is_full() && filter.remaining() == 0);
        let estimated = filter.estimated_rate();
        assert!((estimated / rate - 1.0).abs() < 0.03, "{rate}: {estimated}");
    }
}

/// What is expected of a filter filled past its capacity is what its bits show.
#[test]
fn the_expected_rate_holds_past_the_capacity() {
    for times in [1u64, 2, 3, 5] {
        let mut filter = Blocked::builder().keys::<u64>().items(50_000).rate(0.01).build().unwrap();
        (0..50_000 * times).for_each(|key| assert!(filter.insert(&key).is_ok()));
        let (expected, estimated) = (filter.expected_rate(), filter.estimated_rate());
        assert!((expected / estimated - 1.0).abs() < 0.06, "x{times}: expected {expected}, by the bits {estimated}");
        let different = filter.different_keys() as f64 / (50_000 * times) as f64;
        assert!((different - 1.0).abs() < 0.05, "x{times}: {different}");
    }
}

/// What a kind says it can do is what it does; and two of one kind unite if it says so.
#[test]
fn every_kind_does_what_it_says_it_can() {
    for (name, mut filter, keys) in super::file::samples() {
        let kind = filter.kind();
        assert_eq!(filter.guarantee(), kind.guarantee());
        let other = filter.clone();
        let united = filter.union_with(&other);
        if kind.merges() {
            united.unwrap_or_else(|error| panic!("{name}: {error}"));
        } else {
            assert_eq!(united.unwrap_err().kind(), ErrorKind::Unsupported, "{name}");
        }
        let stranger = if kind == Kind::Classic { Kind::Blocked } else { Kind::Classic };
        let (_, stranger, _) =
            super::file::samples().into_iter().find(|(_, other, _)| other.kind() == stranger).unwrap();
        let refusal = filter.union_with(&stranger).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Shape, "{name}");
        assert!(refusal.to_string().contains(kind.name()), "{refusal}");
        match filter.insert("one more") {
            Ok(_) => assert!(kind.takes_inserts(), "{name}"),
            Err(error) if error.kind() == ErrorKind::Full => {}
            Err(error) => assert!(error.kind() == ErrorKind::Unsupported && !kind.takes_inserts(), "{name}: {error}"),
        }
        if keys > 0 {
            match filter.remove(&super::file::key(0)) {
                Ok(removed) => assert!(removed && kind.takes_removals(), "{name}"),
                Err(error) => {
                    assert!(error.kind() == ErrorKind::Unsupported && !kind.takes_removals(), "{name}: {error}")
                }
            }
        }
        assert_eq!(filter.to_foreign().is_ok(), kind.is_foreign(), "{name}");
    }
}
