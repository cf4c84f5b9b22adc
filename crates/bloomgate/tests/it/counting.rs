//! The counting filter against an exact multiset: with legal removals no key is ever lost.

use std::collections::HashMap;

use bloomgate::Counting;
use bloomgate::bloom::CounterBits;
use proptest::prelude::*;

use crate::keys::{ABSENT, Dice, mix, scattered};

const WIDTHS: [CounterBits; 3] = [CounterBits::Four, CounterBits::Eight, CounterBits::Sixteen];

fn build(items: u64, rate: f64, width: CounterBits) -> Counting {
    Counting::builder().keys::<u64>().items(items).rate(rate).counter_bits(width).build().unwrap()
}

/// T40, T29, T30: random inserts and legal removals, thousands of them, in filters so small that keys collide all the
/// time. After each: the key is found as long as the multiset has it, and its estimate is not below its count.
#[test]
fn legal_removals_lose_nothing() {
    for width in WIDTHS {
        for (seed, items, rate) in [(1, 5, 0.5), (2, 50, 0.1), (3, 200, 0.01), (4, 50, 1e-5)] {
            let mut filter = build(items, rate, width);
            let mut model: HashMap<u64, u64> = HashMap::new();
            let mut dice = Dice(seed);
            let mut held = 0u64;
            for step in 0..20_000 {
                let key = mix(dice.below(items * 3));
                let count = model.entry(key).or_default();
                // Twice the capacity at most on the average: the chance to insert falls as it fills.
                if dice.below(4 * items) > held || *count == 0 {
                    let before = filter.contains(&key).unwrap();
                    assert_eq!(filter.insert(&key).unwrap(), !before);
                    *count += 1;
                    held += 1;
                } else {
                    assert!(filter.remove(&key).unwrap(), "a key that is there was not removed");
                    *count -= 1;
                    held -= 1;
                }
                let count = *count;
                assert!(count == 0 || filter.contains(&key).unwrap());
                assert!(filter.count_estimate(&key).unwrap() >= count.min(width.top()));
                assert_eq!(filter.len(), held);
                if step % 1_000 == 0 {
                    for (key, &count) in model.iter().filter(|&(_, &count)| count > 0) {
                        assert!(filter.contains(key).unwrap(), "a wrong no");
                        assert!(filter.count_estimate(key).unwrap() >= count.min(width.top()));
                    }
                }
            }
        }
    }
}

/// When nothing stuck, removing everything leaves nothing: not one counter.
#[test]
fn everything_removed_leaves_nothing() {
    for width in WIDTHS {
        for rate in [0.1, 0.01, 1e-6] {
            let mut filter = build(5_000, rate, width);
            let keys = scattered(5, 0, 5_000);
            filter.insert_batch(&keys).unwrap();
            filter.insert_batch(&keys[..1_000]).unwrap();
            assert!(filter.fill_ratio() > 0.3);
            for key in keys.iter().chain(&keys[..1_000]) {
                assert!(filter.remove(key).unwrap());
            }
            assert_eq!((filter.len(), filter.set_cells(), filter.fill_ratio()), (0, 0, 0.0), "{width:?} {rate}");
            assert_eq!(filter, build(5_000, rate, width));
            assert!(!filter.remove(&keys[0]).unwrap());
        }
    }
}

/// T40: a key inserted past the top of its counters, and removed as often, takes nobody else with it; nor does it itself
/// become a wrong "no" while it is still there.
#[test]
fn counters_stick_at_their_top() {
    for width in WIDTHS {
        let mut filter = build(100, 0.01, width);
        let others = scattered(6, 0, 100);
        filter.insert_batch(&others).unwrap();
        let heavy = mix(1 << 50);
        let times = (1u64 << 16) + 5;
        for i in 1..=times {
            filter.insert(&heavy).unwrap();
            if i.is_power_of_two() || i + 2 > width.top() && i < width.top() + 2 {
                assert!(filter.count_estimate(&heavy).unwrap() >= i.min(width.top()), "{width:?} {i}");
                assert!(filter.contains(&heavy).unwrap());
            }
        }
        assert_eq!(filter.count_estimate(&heavy).unwrap(), width.top());
        assert_eq!(filter.len(), 100 + times);
        for _ in 0..times {
            assert!(filter.remove(&heavy).unwrap());
        }
        for key in &others {
            assert!(filter.contains(key).unwrap(), "{width:?}: lost to a heavy key");
            assert!(filter.remove(key).unwrap());
        }
        // Stuck counters stay: the price of never losing a key.
        assert!(filter.contains(&heavy).unwrap() && filter.set_cells() >= 1);
        assert!(filter.set_cells() <= 8, "{width:?}: {} counters stuck", filter.set_cells());
        // Removals that lowered no counter took nothing from the count: what sticks stays counted.
        assert_eq!(filter.len(), times);
    }
    // One below the top nothing sticks.
    let mut filter = build(100, 0.01, CounterBits::Four);
    (0..14).for_each(|_| assert!(filter.insert(&7u64).is_ok()));
    assert_eq!(filter.count_estimate(&7u64).unwrap(), 14);
    (0..14).for_each(|_| assert!(filter.remove(&7u64).unwrap()));
    assert_eq!(filter.set_cells(), 0);
}

/// T42: what is certainly absent is not removed, and nothing moves.
#[test]
fn absent_keys_are_not_removed() {
    let mut filter = build(2_000, 0.01, CounterBits::Four);
    let keys = scattered(7, 0, 2_000);
    filter.insert_batch(&keys).unwrap();
    let (before, len) = (filter.to_plain().unwrap(), filter.len());
    let (mut absent, mut seeming) = (0, 0);
    for key in scattered(7, ABSENT, 20_000) {
        if filter.contains(&key).unwrap() {
            seeming += 1;
            continue;
        }
        let digest = filter.contract().digest(&key).unwrap();
        assert!(!filter.remove(&key).unwrap() && !filter.remove_digest(digest));
        assert_eq!(filter.count_estimate(&key).unwrap(), 0);
        absent += 1;
    }
    assert!(absent > 19_000 && seeming > 50);
    assert_eq!((filter.to_plain().unwrap(), filter.len()), (before, len));
    // Empty filters and single keys.
    filter.clear();
    assert!(!filter.remove(&keys[0]).unwrap());
    assert_eq!(filter.len(), 0);
}

/// The plain filter on demand: the same answers, the same rate, the same bits as its own inserts would set; and it goes
/// on as a plain filter.
#[test]
fn the_plain_form_has_the_same_bits() {
    for (width, rate) in [(CounterBits::Four, 0.01), (CounterBits::Eight, 0.1), (CounterBits::Sixteen, 1e-5)] {
        let mut filter = build(10_000, rate, width);
        let keys = scattered(8, 0, 10_000);
        filter.insert_batch(&keys).unwrap();
        let gone = scattered(9, 0, 3_000);
        filter.insert_batch(&gone).unwrap();
        for key in &gone {
            assert!(filter.remove(key).unwrap());
        }
        let plain = filter.to_plain().unwrap();
        assert_eq!(plain.set_bits(), filter.set_cells());
        assert_eq!((plain.len(), plain.capacity()), (filter.len(), filter.capacity()));
        assert_eq!(plain.size_in_bytes() * u64::from(width.bits()), filter.size_in_bytes());
        assert!(plain.layout() == filter.layout() && plain.layout().paired());
        let asked: Vec<u64> = keys.iter().copied().chain(scattered(8, ABSENT, 90_000)).collect();
        let (mut by_plain, mut by_counting) = (vec![false; 100_000], vec![false; 100_000]);
        plain.contains_batch(&asked, &mut by_plain).unwrap();
        filter.contains_batch(&asked, &mut by_counting).unwrap();
        assert_eq!(by_plain, by_counting);
        assert!(asked.iter().step_by(10).all(|key| plain.contains(key).unwrap() == filter.contains(key).unwrap()));
        // An empty plain filter of that layout, filled with the same keys.
        let mut refilled = filter.to_plain().unwrap();
        refilled.clear();
        refilled.insert_batch(&keys).unwrap();
        assert_eq!(refilled, plain);
        assert!((filter.estimated_rate().unwrap() - plain.estimated_rate()).abs() < 1e-15);
    }
}

/// The estimate of a key's count is exact for most keys of a filter that is not overfull, and never below.
#[test]
fn count_estimates_are_never_below() {
    let mut filter = build(3_000, 0.001, CounterBits::Eight);
    let keys = scattered(10, 0, 1_000);
    for (i, key) in keys.iter().enumerate() {
        for _ in 0..=i % 5 {
            filter.insert(key).unwrap();
        }
    }
    let exact = keys.iter().enumerate().filter(|&(i, key)| {
        let (estimate, truth) = (filter.count_estimate(key).unwrap(), i as u64 % 5 + 1);
        assert!(estimate >= truth);
        estimate == truth
    });
    let exact = exact.count();
    assert!(exact > 970, "{exact} of 1000 exact");
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Insert(u8),
    Remove(u8),
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same law for sequences that a shrinking generator finds: one line, 4-bit counters, few keys, so that counters
    /// pass their top.
    #[test]
    fn any_legal_history_keeps_every_key(
        ops in prop::collection::vec(prop_oneof![3 => (0u8..6).prop_map(Op::Insert), 2 => (0u8..6).prop_map(Op::Remove)], 1..300),
        rate in prop_oneof![Just(0.5), Just(0.01), Just(1e-4)],
    ) {
        let mut filter = build(2, rate, CounterBits::Four);
        let mut model = [0u64; 6];
        for op in ops {
            match op {
                Op::Insert(key) => {
                    filter.insert(&u64::from(key)).unwrap();
                    model[usize::from(key)] += 1;
                }
                Op::Remove(key) if model[usize::from(key)] > 0 => {
                    prop_assert!(filter.remove(&u64::from(key)).unwrap());
                    model[usize::from(key)] -= 1;
                }
                Op::Remove(_) => {}
            }
            for (key, &count) in model.iter().enumerate() {
                prop_assert!(count == 0 || filter.contains(&(key as u64)).unwrap());
                prop_assert!(filter.count_estimate(&(key as u64)).unwrap() >= count.min(15));
            }
            // Keys whose counters all stick stay counted when they are removed.
            prop_assert!(filter.len() >= model.iter().sum::<u64>());
        }
    }
}

/// A key whose counters all stick stays for ever, and stays counted: the filter never claims to be empty beside it.
#[test]
fn a_stuck_key_stays_counted() {
    let mut filter = Counting::builder().items(1_000).rate(0.01).build().unwrap();
    filter.insert("b").unwrap();
    (0..15).for_each(|_| assert!(filter.insert("a").is_ok()));
    (0..40).for_each(|_| assert!(filter.remove("a").unwrap()));
    assert!(filter.contains("a").unwrap() && filter.contains("b").unwrap());
    assert_eq!(filter.len(), 16);
    assert!(filter.remove("b").unwrap() && !filter.contains("b").unwrap());
    assert_eq!(filter.len(), 15);
}

/// The explicit shape: exactly these counters, the capacity that keeps the rate, and a refusal where none does.
#[test]
fn explicit_counters_are_honoured() {
    let filter = Counting::builder().counters(512 * 100, 8).rate(0.01).build().unwrap();
    assert_eq!((filter.size_in_bytes(), filter.layout().lines()), (512 * 100 / 2, 100));
    assert!(filter.expected_rate_at(filter.capacity()) <= 0.01 * 1.0001);
    assert!(filter.expected_rate_at(filter.capacity() + 1) > 0.01);
    assert!(Counting::builder().counters(512 * 100, 8).items(10_000).rate(0.01).build().is_err());
    assert!(Counting::builder().counters(500, 8).build().is_err());
    let plain = Counting::builder().counters(512, 16).build().unwrap();
    assert_eq!((plain.layout().lines_per_key(), plain.promised_rate()), (2, plain.expected_rate_at(plain.capacity())));
}
