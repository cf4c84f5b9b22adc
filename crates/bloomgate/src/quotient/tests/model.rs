//! Inserting, removing, counting, listing, merging and growing against a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::table::COPIES;
use super::*;
use crate::hash::Contract;
use crate::promise::{Promise, WhenFull};
use crate::{Error, ErrorKind};

fn filter_of(slots: u64, interval: u64) -> Quotient {
    let shape = QuotientShape::new(slots, interval).unwrap();
    let promise = Promise { capacity: shape.room(), rate: 0.5, when_full: WhenFull::GoOn };
    Quotient::empty(shape, Contract::xxh3(), promise).unwrap()
}

/// The table of these fingerprints, written in one go: what the filter must look like after any history.
fn written(shape: &QuotientShape, model: &BTreeMap<u64, u64>) -> Quotient {
    let mut filter = filter_of(shape.slots(), shape.interval());
    let entries = model.iter().map(|(&fingerprint, &copies)| (fingerprint, copies));
    let taken = super::super::entries::write(shape.geometry(), filter.first.store.as_mut_slice(), entries).unwrap();
    filter.set_len(taken);
    filter
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64),
    Remove(u64),
    Grow,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Fingerprints from a narrow range meet each other: long runs, copies, clusters over several blocks.
    let step = prop_oneof![
        12 => any::<u64>().prop_map(Step::Insert),
        6 => any::<u64>().prop_map(Step::Remove),
        1 => Just(Step::Grow),
    ];
    prop::collection::vec(step, 1..500)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_gives_the_table_of_what_is_left(
        steps in steps(),
        thirds in 1u64..80,
        bits in 3u32..40,
        range in 1u64..4000,
        from in any::<u64>(),
        growing in any::<bool>(),
    ) {
        let mut filter = filter_of(thirds * 3, 1 << bits);
        let all = filter.shape().fingerprints();
        let narrow = |x: u64| (from % all + x % range) % all;
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(x) => {
                    let x = narrow(x);
                    let copies = model.get(&x).copied().unwrap_or(0);
                    let digest = digest_of(filter.shape(), x);
                    match filter.insert_digest(digest) {
                        Ok(new) => {
                            prop_assert_eq!(new, copies == 0);
                            model.insert(x, (copies + 1).min(COPIES));
                        }
                        // A crowd at the end of the table.
                        Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Full),
                    }
                }
                Step::Remove(x) => {
                    let x = narrow(x);
                    let copies = model.get(&x).copied().unwrap_or(0);
                    prop_assert_eq!(filter.remove_digest(digest_of(filter.shape(), x)), copies > 0);
                    match copies {
                        0 | COPIES => {}
                        1 => drop(model.remove(&x)),
                        more => drop(model.insert(x, more - 1)),
                    }
                }
                Step::Grow if growing => {
                    let _ = filter.grow();
                }
                Step::Grow => {}
            }
        }
        prop_assert_eq!(filter.len(), model.values().sum::<u64>());
        prop_assert_eq!(list(&filter), model.iter().map(|(&x, &n)| (x, n)).collect::<Vec<_>>());
        prop_assert!(filter == written(filter.shape(), &model), "bits depend on the history");
        for x in (0..range).map(narrow).chain([0, all - 1, all / 2]) {
            let digest = digest_of(filter.shape(), x);
            prop_assert_eq!(filter.contains_digest(digest), model.contains_key(&x), "{}", x);
            prop_assert_eq!(filter.count_of_digest(digest).unwrap(), model.get(&x).copied().unwrap_or(0));
        }
    }

    #[test]
    fn a_merge_is_the_insert_of_both(
        seed in any::<u64>(),
        first in 0u64..700,
        second in 0u64..700,
        grown in 0u32..4,
        bits in 6u32..20,
    ) {
        let mut dice = Dice(seed);
        let range = 600;
        let mut a = filter_of(600, 1 << bits);
        let mut b = a.clone();
        let mut both = a.clone();
        (0..grown).for_each(|_| b.grow().unwrap());
        for (filter, count) in [(&mut a, first), (&mut b, second)] {
            for _ in 0..count {
                let digest = digest_of(both.shape(), dice.below(range) * 7);
                filter.insert_digest(digest).unwrap();
                both.insert_digest(digest).unwrap();
            }
        }
        let mut shared = b.clone().into_shared().unwrap().snapshot().unwrap();
        prop_assert!(shared == b);
        shared.merge(&a.clone().into_shared().unwrap()).unwrap();
        a.merge(&b).unwrap();
        prop_assert_eq!(list(&a), list(&both));
        prop_assert_eq!(list(&shared), list(&both));
        prop_assert_eq!(a.len(), both.len());
    }
}

#[test]
fn remainders_of_every_width_are_kept() {
    for bits in 1..=48u32 {
        let mut filter = filter_of(99, 1 << bits);
        let all = filter.shape().fingerprints();
        let mut dice = Dice(u64::from(bits));
        let mut model = BTreeMap::new();
        for _ in 0..80 {
            let x = dice.below(all);
            filter.insert_digest(digest_of(filter.shape(), x)).unwrap();
            *model.entry(x).or_insert(0) += 1;
        }
        assert_eq!(list(&filter), model.iter().map(|(&x, &n)| (x, n)).collect::<Vec<_>>(), "{bits}");
        for &x in model.keys() {
            assert!(filter.contains_digest(digest_of(filter.shape(), x)));
        }
        for (&x, &copies) in &model {
            (0..copies).for_each(|_| assert!(filter.remove_digest(digest_of(filter.shape(), x))));
        }
        assert!(filter.is_empty() && filter.first.store.as_slice().iter().all(|&word| word == 0), "{bits}");
    }
}

/// Runs far from home: all keys in one block's quotients, pushed over many blocks, with spills behind the last slot.
#[test]
fn crowds_are_pushed_on_and_come_back() {
    for at in [0u64, 30_000, 57_000] {
        let mut filter = filter_of(60_000, 1 << 20);
        let interval = filter.shape().interval();
        let mut model = BTreeMap::new();
        let mut dice = Dice(at);
        for _ in 0..3000 {
            let x = (at + dice.below(10)) * interval + dice.below(interval);
            filter.insert_digest(digest_of(filter.shape(), x)).unwrap();
            *model.entry(x).or_insert(0) += 1;
        }
        assert_eq!(list(&filter), model.iter().map(|(&x, &n)| (x, n)).collect::<Vec<_>>());
        assert!(filter == written(filter.shape(), &model));
        for &x in model.keys() {
            assert!(filter.contains_digest(digest_of(filter.shape(), x)));
            assert!(!filter.contains_digest(digest_of(filter.shape(), x + 1)) || model.contains_key(&(x + 1)));
        }
        for (&x, &copies) in model.iter().step_by(2) {
            (0..copies).for_each(|_| assert!(filter.remove_digest(digest_of(filter.shape(), x))));
        }
        let left: BTreeMap<u64, u64> = model.iter().skip(1).step_by(2).map(|(&x, &n)| (x, n)).collect();
        assert!(filter == written(filter.shape(), &left));
    }
}

/// An offset has 16 bits. A crowd that would need more makes a table grow that is filled, and is refused by one that is
/// almost empty or cannot grow: whatever strangers choose, memory follows the number of keys.
#[test]
fn a_crowd_past_the_reach_of_an_offset_grows_or_is_refused_whole() {
    // The crowd: nearly as many fingerprints as can be pushed on, spread over a quarter of the table or over its first
    // quotients, and then a few more.
    let cases =
        [(150_000, 256, 93, 102_900, true), (900_000, 1 << 20, 65, 65_500, false), (99_999, 100_003, 6, 65_500, false)];
    for (slots, interval, apart, count, grows) in cases {
        let crowded = QuotientShape::new(slots, interval).unwrap();
        let model: BTreeMap<u64, u64> = (0..count).map(|x| (x * apart, 1)).collect();
        let mut filter = written(&crowded, &model);
        let mut refused = None;
        let mut held: Vec<u64> = model.into_keys().collect();
        for x in count..count + 200 {
            match filter.insert_digest(digest_of(filter.shape(), x * apart)) {
                Ok(_) => held.push(x * apart),
                Err(error) => refused = Some(error.kind()),
            }
        }
        assert_eq!(refused, (!grows).then_some(ErrorKind::Full));
        assert_eq!(filter.shape().slots() > slots, grows);
        let more = held.len() as u64 - count;
        assert!(more > 10 && (more < 190) != grows, "{more}");
        assert!(filter.fingerprints().map(|(x, _)| x).eq(held.iter().copied()));
        assert!(held.iter().all(|&x| filter.contains_digest(digest_of(filter.shape(), x))));
    }
}

/// T28: what is refused changes nothing, and what was taken before stays.
#[test]
fn a_full_table_that_cannot_grow_refuses_and_keeps_all() {
    for seed in 0..50 {
        let mut filter = filter_of(35, 1001);
        let mut dice = Dice(seed);
        let mut kept = Vec::new();
        let refusal: Error = loop {
            let digest = random(&mut dice);
            let before = filter.clone();
            match filter.insert_digest(digest) {
                Ok(_) => kept.push(digest),
                Err(error) => {
                    assert!(filter == before);
                    break error;
                }
            }
        };
        assert_eq!(refusal.kind(), ErrorKind::Full);
        assert!(kept.len() > 35);
        assert!(kept.iter().all(|&digest| filter.contains_digest(digest)));
        kept.iter().for_each(|&digest| assert!(filter.remove_digest(digest)));
        assert!(filter.is_empty());
    }
}
