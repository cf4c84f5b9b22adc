//! The promises of the growing chain: its rate over all stages, removals that never take the wrong copy, and growth
//! that duplicates do not cause.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::GrowingCuckoo;
use super::tests::digest;
use crate::error::ErrorKind;
use crate::hash::Digest;
use crate::math::dice::Dice;
use crate::math::estimate::within;
use crate::math::scalable::Tightening;
use crate::promise::WhenFull;

fn chain(first: u64, rate: f64) -> GrowingCuckoo {
    GrowingCuckoo::builder().items(first).rate(rate).build().unwrap()
}

/// Keys that a stranger chose to have the same two buckets: 186 of them made a chain of 19 stages and 12 GB.
#[test]
fn keys_that_crowd_do_not_make_it_grow() {
    let crowd = |fp: u64, copy: u64| Digest::new(12_345, 1 << 62 | fp << 50 | copy);
    let (mut alone, shared) = (chain(10_000, 0.01), chain(10_000, 0.01).into_shared().unwrap());
    let mut taken = Vec::new();
    for (fp, copy) in (0..3).flat_map(|copy| (0..64).map(move |fp| (fp, copy))) {
        let inserted = alone.insert_digest(crowd(fp, copy));
        assert_eq!(inserted.is_ok(), shared.insert_digest(crowd(fp, copy)).is_ok());
        match inserted {
            Ok(_) => taken.push(crowd(fp, copy)),
            Err(refused) => {
                assert_eq!(refused.kind(), ErrorKind::Full);
                assert!(refused.to_string().contains("secret"), "{refused}");
            }
        }
    }
    assert!(alone.stages() == 1 && shared.stages() == 1, "{alone:?}");
    assert!(taken.len() >= 8 && taken.iter().all(|&key| alone.contains_digest(key) && shared.contains_digest(key)));
    // Others still find room, and make it grow when there are enough of them.
    let mut dice = Dice(1);
    let others: Vec<Digest> = (0..20_000).map(|_| digest(&mut dice)).collect();
    alone.insert_digests(&others).unwrap();
    assert_eq!(alone.stages(), 2);
}

#[test]
fn the_rate_is_kept_over_all_stages() {
    for (first, rate, keys, growth) in [(100, 0.01, 60_000, 2.0), (1_000, 0.001, 200_000, 4.0), (10, 0.05, 5_000, 2.0)]
    {
        let mut dice = Dice(first);
        let mut filter = GrowingCuckoo::builder().items(first).rate(rate).growth(growth).build().unwrap();
        let members: Vec<Digest> = (0..keys).map(|_| digest(&mut dice)).collect();
        filter.insert_digests(&members).unwrap();
        assert!(filter.stages() >= 5, "{filter:?}");
        assert!(members.iter().all(|&key| filter.contains_digest(key)));
        assert_eq!(filter.len(), keys);
        let expected = filter.expected_rate();
        assert!(expected <= rate && expected > rate / 20.0, "{expected}: {filter:?}");
        let mut hits = 0;
        let mut answers = vec![false; 1 << 20];
        let strangers: Vec<Digest> = (0..1 << 20).map(|_| digest(&mut dice)).collect();
        filter.contains_digests(&strangers, &mut answers).unwrap();
        hits += answers.iter().filter(|&&answer| answer).count() as u64;
        assert!(within(hits, 1 << 20, expected, 4.5), "{hits}, {expected} expected: {filter:?}");
        assert!((0.999..1.3).contains(&(filter.estimated_rate() / expected)));
        let widths: Vec<u32> = filter.shapes().map(|shape| shape.fingerprint_bits()).collect();
        assert!(widths.is_sorted(), "{widths:?}");
    }
}

/// T34: ten thousand inserts of one key open no stage, in a chain of one stage and in one of many.
#[test]
fn one_key_ten_thousand_times_opens_no_stage() {
    for first in [1, 10, 1_000] {
        let mut dice = Dice(first);
        let mut filter = chain(first, 0.01);
        let one = digest(&mut dice);
        for _ in 0..10_000 {
            filter.insert_digest(one).unwrap();
        }
        assert_eq!((filter.stages(), filter.len()), (1, 4));
        for _ in 0..5 * first + 100 {
            filter.insert_digest(digest(&mut dice)).unwrap();
        }
        let (stages, len) = (filter.stages(), filter.len());
        assert!(stages > 1);
        for _ in 0..10_000 {
            filter.insert_digest(one).unwrap();
        }
        assert_eq!((filter.stages(), filter.len()), (stages, len));
        let late = digest(&mut dice);
        let copies = vec![late; 10_000];
        filter.insert_digests(&copies).unwrap();
        assert!(filter.stages() <= stages + 1 && filter.len() <= len + 8);
    }
}

/// T31: five stages, nine of ten keys removed, compacted: all survivors are there, and memory came back.
#[test]
fn compaction_keeps_every_survivor() {
    let mut dice = Dice(31);
    let mut filter = chain(500, 0.01);
    let sticky = digest(&mut dice);
    let keys: Vec<Digest> = (0..20_000).map(|_| digest(&mut dice)).collect();
    filter.insert_digests(&keys).unwrap();
    (0..10).for_each(|_| assert!(filter.insert_digest(sticky).is_ok()));
    let before = (filter.stages(), filter.size_in_bytes());
    assert!(before.0 >= 5);
    let (survivors, gone): (Vec<_>, Vec<_>) = keys.iter().enumerate().partition(|(at, _)| at % 10 == 0);
    for &(_, &key) in &gone {
        assert!(filter.remove_digest(key));
    }
    assert!(survivors.iter().all(|&(_, &key)| filter.contains_digest(key)));
    let len = filter.len();
    filter.compact();
    assert!(survivors.iter().all(|&(_, &key)| filter.contains_digest(key)), "T31");
    assert!(filter.contains_digest(sticky) && filter.remove_digest(sticky) && filter.contains_digest(sticky));
    assert!(filter.len() <= len && filter.len() + 8 >= len, "{len}: {filter:?}");
    assert!(filter.size_in_bytes() <= before.1 && filter.expected_rate() <= 0.01);
    // Not only there: they can still be removed one by one, and others come in their place.
    for &(_, &key) in &survivors {
        assert!(filter.contains_digest(key) && filter.remove_digest(key));
    }
    assert!(filter.len() <= 8, "{filter:?}");
    filter.compact();
    filter.insert_digests(&keys).unwrap();
    assert!(keys.iter().all(|&key| filter.contains_digest(key)));
}

#[test]
fn an_emptied_chain_gives_its_memory_back() {
    let mut dice = Dice(32);
    let mut filter = chain(500, 0.01);
    let keys: Vec<Digest> = (0..20_000).map(|_| digest(&mut dice)).collect();
    filter.insert_digests(&keys).unwrap();
    let stages = filter.stages();
    for &key in &keys[300..] {
        assert!(filter.remove_digest(key));
    }
    let freed = filter.compact();
    assert!(freed + 2 >= stages && filter.stages() + freed == stages, "{freed} of {stages}");
    assert!(keys[..300].iter().all(|&key| filter.contains_digest(key)));
}

/// Keys come and go for ever: room in older stages is used again, and the chain stays as it is.
#[test]
fn churn_does_not_grow_the_chain() {
    let mut dice = Dice(5);
    let mut filter = chain(1_000, 0.01);
    let mut live: Vec<Digest> = (0..6_500).map(|_| digest(&mut dice)).collect();
    filter.insert_digests(&live).unwrap();
    let stages = filter.stages();
    for _ in 0..60_000 {
        let at = dice.below(6_500) as usize;
        assert!(filter.remove_digest(live[at]));
        live[at] = digest(&mut dice);
        filter.insert_digest(live[at]).unwrap();
    }
    assert!(live.iter().all(|&key| filter.contains_digest(key)));
    assert_eq!((filter.stages(), filter.len()), (stages, 6_500));
}

#[test]
fn the_same_history_makes_the_same_words() {
    let mut dice = Dice(38);
    let keys: Vec<Digest> = (0..9_000).map(|_| digest(&mut dice)).collect();
    let (mut single, mut batched) = (chain(100, 0.01), chain(100, 0.01));
    let shared = chain(100, 0.01).into_shared().unwrap();
    for &key in &keys {
        single.insert_digest(key).unwrap();
    }
    batched.insert_digests(&keys).unwrap();
    shared.insert_digests(&keys).unwrap();
    for &key in keys.iter().step_by(3) {
        assert!(single.remove_digest(key) && batched.remove_digest(key) && shared.remove_digest(key));
    }
    assert!(single == batched && single == shared && single.clone() == single);
    assert!(shared.into_owned().unwrap() == single);
    single.clear().unwrap();
    assert!(single.is_empty() && single.stages() == 1 && single == chain(100, 0.01));
}

#[test]
fn chains_that_cannot_be_are_refused() {
    let with = GrowingCuckoo::builder;
    for built in [
        with().growth(1.75).build(),
        with().growth(3.0).build(),
        with().growth(1.0).build(),
        with().growth(f64::NAN).build(),
        with().growth(65_536.0).build(),
        with().when_full(WhenFull::GoOn).build(),
        with().tightening(Tightening::Geometric(2.0)).build(),
        with().rate(1e-14).build(),
        with().rate(1.5).build(),
    ] {
        assert_eq!(built.map(|_| ()).unwrap_err().kind(), ErrorKind::InvalidParameter);
    }
    let mut fixed = with().items(100).when_full(WhenFull::Refuse).build().unwrap();
    let mut dice = Dice(3);
    let refused = (0..300).map(|_| fixed.insert_digest(digest(&mut dice))).find_map(Result::err).unwrap();
    assert_eq!((refused.kind(), fixed.stages()), (ErrorKind::Full, 1));
    // Stages that do not refine each other would let a removal take the wrong copy.
    let parts = |a: (u64, u32), b: (u64, u32)| {
        let stage = |(buckets, bits)| super::Cuckoo::builder().buckets(buckets).fingerprint_bits(bits).build().unwrap();
        let chain = chain(100, 0.01);
        GrowingCuckoo::from_parts(
            chain.contract().clone(),
            chain.promise(),
            chain.growth_rule(),
            vec![stage(a), stage(b)],
        )
        .map(|_| ())
        .is_ok()
    };
    assert!(parts((40, 10), (80, 10)) && parts((40, 10), (160, 12)) && parts((40, 10), (40, 10)));
    assert!(!parts((40, 10), (82, 10)) && !parts((40, 10), (120, 10)) && !parts((40, 12), (80, 10)));
    assert!(!parts((80, 10), (40, 10)) && !parts((40, 7), (80, 10)));
}

/// Lookups beside a writer that grows the chain and takes keys out of it: never a wrong "no".
#[test]
fn lookups_beside_growth_never_miss_a_key() {
    let mut dice = Dice(8);
    let filter = GrowingCuckoo::builder().items(64).rate(0.01).build_shared().unwrap();
    let kept: Vec<Digest> = (0..500).map(|_| digest(&mut dice)).collect();
    filter.insert_digests(&kept).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (filter, kept, done) = (&filter, &kept, &done);
        scope.spawn(move || {
            let mut answers = vec![false; kept.len()];
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) || rounds < 3 {
                assert!(kept.iter().all(|&key| filter.contains_digest(key)), "missed in round {rounds}");
                filter.contains_digests(kept, &mut answers).unwrap();
                assert!(answers.iter().all(|&answer| answer), "missed by a batch in round {rounds}");
                rounds += 1;
            }
        });
        scope.spawn(move || {
            let mut dice = Dice(9);
            let guests: Vec<Digest> = (0..15_000).map(|_| digest(&mut dice)).collect();
            for _ in 0..6 {
                for &guest in &guests {
                    filter.insert_digest(guest).unwrap();
                }
                for &guest in &guests {
                    assert!(filter.remove_digest(guest));
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    });
    assert!(filter.stages() > 5 && filter.len() == 500, "{filter:?}");
}

/// Digests that look alike in old stages and are told apart, or not, in new ones.
fn alike(key: u16) -> Digest {
    let mut noise = Dice(u64::from(key));
    // Four buckets and three fingerprints at the first bits; what is behind them decides in wider stages.
    let lo = u64::from(key % 4) << 62 | noise.below(1 << 4) << 57;
    let hi = u64::from(key / 4 % 3) << 62 | noise.below(1 << 3) << 50;
    Digest::new(lo | noise.below(1 << 20), hi | noise.below(1 << 20))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, rng_seed: proptest::test_runner::RngSeed::Fixed(31), ..ProptestConfig::default() })]

    /// T30 over stages: a multiset as the model, keys that look alike in some stages, compaction now and then.
    #[test]
    fn a_multiset_never_misses_a_member(
        steps in proptest::collection::vec((0u8..20, 0u16..150), 1..500),
    ) {
        let mut filter = GrowingCuckoo::builder().items(8).rate(0.05).build().unwrap();
        let mut members: HashMap<u16, u32> = HashMap::new();
        for (step, key) in steps {
            let held = members.entry(key).or_default();
            match step {
                0..=10 => {
                    let fresh = filter.insert_digest(alike(key)).unwrap();
                    prop_assert!(!fresh || *held == 0, "a member is not new");
                    *held += 1;
                }
                11..=18 if *held > 0 => {
                    prop_assert!(filter.remove_digest(alike(key)));
                    *held -= 1;
                }
                19 => drop(filter.compact()),
                _ => {}
            }
            for (&key, &held) in &members {
                prop_assert!(held == 0 || filter.contains_digest(alike(key)), "{} is missing: {:?}", key, filter);
            }
        }
    }
}
