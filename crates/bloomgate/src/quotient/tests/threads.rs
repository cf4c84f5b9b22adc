//! Lookups beside inserts, removals and growth: never a wrong "no".

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::bits::Shared;

fn growing() -> Quotient<Shared> {
    Quotient::builder().keys::<u64>().items(500).grow_to(60_000).rate(0.01).build_shared().unwrap()
}

#[test]
fn no_wrong_no_beside_shifts_and_growth() {
    let filter = growing();
    let inserted = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in 0..40_000u64 {
                filter.insert(&key).unwrap();
                inserted.store(key + 1, Ordering::Release);
                // Others come and go between them, so that slots move both ways.
                filter.insert(&(key + 1_000_000)).unwrap();
                if key % 2 == 0 {
                    assert!(filter.remove(&(key + 1_000_000)).unwrap());
                }
            }
            done.store(true, Ordering::Release);
        });
        for seed in 0..2 {
            let (filter, inserted, done) = (&filter, &inserted, &done);
            scope.spawn(move || {
                let mut dice = Dice(seed);
                let mut asked = 0u64;
                while !done.load(Ordering::Acquire) || asked < 1000 {
                    let known = inserted.load(Ordering::Acquire);
                    if known == 0 {
                        std::thread::yield_now();
                        continue;
                    }
                    let key = dice.below(known);
                    assert!(filter.contains(&key).unwrap(), "{key} of {known}");
                    assert!(filter.count_of(&key).unwrap() >= 1);
                    let keys: [u64; 70] = std::array::from_fn(|_| dice.below(known));
                    let mut answers = [false; 70];
                    filter.contains_batch(&keys, &mut answers).unwrap();
                    assert!(answers.iter().all(|&answer| answer));
                    asked += 1;
                }
            });
        }
        let (filter, inserted, done) = (&filter, &inserted, &done);
        scope.spawn(move || {
            while !done.load(Ordering::Acquire) {
                let known = inserted.load(Ordering::Acquire);
                let copy = filter.snapshot().unwrap();
                assert_eq!(copy.fingerprints().map(|(_, copies)| copies).sum::<u64>(), copy.len());
                assert!((0..known).step_by(97).all(|key| copy.contains(&key).unwrap()));
            }
        });
    });
    assert_eq!(filter.len(), 60_000);
    assert!(filter.shape().slots() > 60_000);
    let all = filter.size_in_bytes();
    assert!(all <= filter.shape().words() * 20 + 8192, "the tables before the newest: {all}");
    let mut alone = Quotient::builder().keys::<u64>().items(500).grow_to(60_000).rate(0.01).build().unwrap();
    alone.insert_all((0..40_000u64).chain((0..40_000).filter(|key| key % 2 == 1).map(|key| key + 1_000_000))).unwrap();
    let owned = filter.into_owned().unwrap();
    assert!(owned.size_in_bytes() < all);
    assert_eq!(list(&owned), list(&alone));
}

#[test]
fn several_writers_lose_nothing() {
    let filter = growing();
    std::thread::scope(|scope| {
        for part in 0..3u64 {
            let filter = &filter;
            scope.spawn(move || {
                let keys: Vec<u64> = (part * 5000..part * 5000 + 5000).collect();
                filter.insert_batch(&keys).unwrap();
            });
        }
    });
    assert_eq!(filter.len(), 15_000);
    assert!((0..15_000u64).all(|key| filter.contains(&key).unwrap()));
    let mut filter = filter;
    filter.clear();
    assert!(filter.is_empty() && filter.snapshot().unwrap().fingerprints().next().is_none());
}
