//! The promises of one cuckoo table, and the bugs that such tables had elsewhere (T28 to T39), each as a test.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::{Cuckoo, CuckooShape};
use crate::bits::{Owned, Shared, Store};
use crate::error::ErrorKind;
use crate::hash::{Contract, Digest};
use crate::math::dice::Dice;
use crate::math::estimate::within;
use crate::promise::{Promise, WhenFull};

pub(super) fn digest(dice: &mut Dice) -> Digest {
    Digest::new(dice.next(), dice.next())
}

fn sized(items: u64, rate: f64) -> Cuckoo {
    Cuckoo::builder().items(items).rate(rate).build().unwrap()
}

/// A table that takes keys until there is no way to make room, whatever was planned.
fn to_the_brim(buckets: u64, bits: u32) -> Cuckoo {
    let shape = CuckooShape::new(buckets, bits).unwrap();
    let promise = Promise { capacity: shape.slots(), rate: 0.5, when_full: WhenFull::Refuse };
    Cuckoo::empty(shape, Contract::xxh3(), promise).unwrap()
}

fn check_rate<S: Store>(filter: &Cuckoo<S>, dice: &mut Dice, asked: u64, expected: f64) {
    let mut hits = 0;
    let mut digests = vec![Digest::default(); 4096];
    let mut answers = vec![false; 4096];
    for _ in 0..asked / 4096 {
        digests.iter_mut().for_each(|d| *d = digest(dice));
        filter.contains_digests(&digests, &mut answers).unwrap();
        hits += answers.iter().filter(|&&answer| answer).count() as u64;
    }
    let asked = asked / 4096 * 4096;
    assert!(within(hits, asked, expected, 4.5), "{hits} of {asked}, {expected} expected: {filter:?}");
}

/// T37: the asked rate is kept, and is what the filter says it expects, at every size.
#[test]
fn rates_are_kept_at_every_size() {
    for (items, rate, asked) in [
        (10, 0.01, 2 << 20),
        (1_000, 0.3, 1 << 20),
        (1_000, 0.01, 1 << 20),
        (1_000, 1e-4, 4 << 20),
        (100_000, 0.2, 1 << 20),
        (100_000, 0.01, 1 << 20),
        (100_000, 0.001, 4 << 20),
        (1_000_000, 0.01, 2 << 20),
        (1_000_000, 1e-4, 4 << 20),
    ] {
        let mut dice = Dice(items + 37);
        let mut filter = sized(items, rate);
        for _ in 0..items {
            filter.insert_digest(digest(&mut dice)).unwrap();
        }
        let expected = filter.expected_rate_at(items);
        assert!(expected <= rate * 1.0001, "{items} {rate}: {expected}");
        assert!((filter.expected_rate() / expected - 1.0).abs() < 0.001);
        assert!((filter.estimated_rate() / expected - 1.0).abs() < 0.001);
        check_rate(&filter, &mut dice, asked, expected);
    }
}

#[test]
fn a_million_keys_take_ten_and_a_half_bits_each() {
    let mut dice = Dice(106);
    let mut filter = sized(1_000_000, 0.01);
    let digests: Vec<Digest> = (0..1_000_000).map(|_| digest(&mut dice)).collect();
    let fresh = filter.insert_digests(&digests).unwrap();
    // Of the keys as they come, Σ rate(i) are taken for known: 3,700 here.
    assert!((995_500..997_000).contains(&fresh), "{fresh}");
    assert_eq!(filter.len(), 1_000_000);
    assert_eq!(filter.used_slots(), 1_000_000);
    let bits = filter.size_in_bytes() as f64 * 8.0 / 1e6;
    assert!(bits <= 10.6, "{bits}");
    let mut answers = vec![false; digests.len()];
    filter.contains_digests(&digests, &mut answers).unwrap();
    assert!(answers.iter().all(|&answer| answer));
}

/// T32: what was reserved always fits: powers of two exactly, small and large, many seeds; and the rate is still kept.
#[test]
fn what_was_reserved_always_fits() {
    for power in 0..=16u32 {
        let items = 1u64 << power;
        for rate in [0.3, 0.01, 1e-6] {
            for seed in 0..(400_000 >> power).clamp(2, 1_000) {
                let mut dice = Dice(seed * 1_000 + u64::from(power));
                let mut filter = sized(items, rate);
                for at in 0..items {
                    let inserted = filter.insert_digest(digest(&mut dice));
                    assert!(inserted.is_ok(), "key {at} of {items} at {rate}, seed {seed}");
                }
            }
        }
    }
    for items in [3, 7, 13, 39, 64, 100, 1_000, 4_095, 4_097, 50_000] {
        for seed in 0..(100_000 / items).clamp(1, 300) {
            let mut dice = Dice(seed + items);
            let mut filter = sized(items, 0.01);
            let digests: Vec<Digest> = (0..items).map(|_| digest(&mut dice)).collect();
            filter.insert_digests(&digests).unwrap();
            assert!(digests.iter().all(|&d| filter.contains_digest(d)) && filter.is_full());
        }
    }
}

/// T28: a refused insert changes nothing: no resident is thrown out, no word is touched.
#[test]
fn a_refused_insert_changes_nothing() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let mut filter = to_the_brim(2 * (1 + seed % 40), 3 + (seed % 30) as u32);
        let mut taken = Vec::new();
        for _ in 0..4 * filter.shape().slots() {
            let next = digest(&mut dice);
            let before = filter.clone();
            match filter.insert_digest(next) {
                Ok(_) => taken.push(next),
                Err(refused) => {
                    assert_eq!(refused.kind(), ErrorKind::Full);
                    assert!(filter == before && filter.len() == before.len());
                }
            }
        }
        assert!(filter.fill_ratio() > 0.5, "{seed}: {}", filter.fill_ratio());
        assert!(taken.iter().all(|&key| filter.contains_digest(key)), "{seed}");
    }
}

/// T28 at a size where the search is long: to the last free way, and everyone is still there.
#[test]
fn a_table_can_be_filled_to_ninety_seven_percent() {
    let mut dice = Dice(97);
    let mut filter = to_the_brim(20_000, 12);
    let mut taken = Vec::new();
    loop {
        let next = digest(&mut dice);
        match filter.insert_digest(next) {
            Ok(_) => taken.push(next),
            Err(_) => break,
        }
    }
    assert!(filter.fill_ratio() > 0.965, "{}", filter.fill_ratio());
    assert!(taken.iter().all(|&key| filter.contains_digest(key)));
    // Room made by removals can be used again.
    for &gone in &taken[..4_000] {
        assert!(filter.remove_digest(gone));
    }
    for _ in 0..3_000 {
        let next = digest(&mut dice);
        filter.insert_digest(next).unwrap();
        taken.push(next);
    }
    assert!(taken[4_000..].iter().all(|&key| filter.contains_digest(key)));
}

/// Keys that come and go for ever at full capacity: always room, never a wrong "no", and nothing is left behind.
#[test]
fn churn_at_capacity_goes_on_for_ever() {
    let mut dice = Dice(7);
    let mut filter = sized(5_000, 0.01);
    let mut live: Vec<Digest> = (0..5_000).map(|_| digest(&mut dice)).collect();
    filter.insert_digests(&live).unwrap();
    for _ in 0..100_000 {
        let at = dice.below(5_000) as usize;
        assert!(filter.remove_digest(live[at]));
        live[at] = digest(&mut dice);
        filter.insert_digest(live[at]).unwrap();
    }
    assert!(live.iter().all(|&key| filter.contains_digest(key)));
    for &key in &live {
        assert!(filter.remove_digest(key));
    }
    // Fingerprints that came to stick are all that may stay: none to a handful.
    assert!(filter.len() <= 8 && filter.used_slots() == filter.len(), "{filter:?}");
}

/// T30: two keys with one fingerprint and the same buckets: one goes, the other stays.
#[test]
fn removing_one_of_two_that_look_alike_leaves_the_other() {
    let mut filter = sized(1_000, 0.01);
    let (a, b) = (Digest::new(77, 1 << 63), Digest::new(78, (1 << 63) + 5));
    assert!(filter.insert_digest(a).unwrap());
    assert!(filter.contains_digest(b), "they look alike");
    assert!(!filter.insert_digest(b).unwrap(), "so it is not certainly new");
    assert!(filter.remove_digest(a));
    assert!(filter.contains_digest(b), "T30");
    assert!(filter.remove_digest(b));
    assert!(!filter.contains_digest(b) && !filter.remove_digest(b) && filter.is_empty());
}

/// T29: a removal that can be known to be wrong is told and changes nothing; with legal removals nobody is lost.
#[test]
fn removing_what_was_never_there_answers_no_and_changes_nothing() {
    let mut dice = Dice(29);
    let mut filter = sized(10_000, 0.001);
    let keys: Vec<Digest> = (0..10_000).map(|_| digest(&mut dice)).collect();
    filter.insert_digests(&keys).unwrap();
    let before = filter.clone();
    let mut seemed = 0;
    for _ in 0..20_000 {
        let stranger = digest(&mut dice);
        if filter.contains_digest(stranger) {
            seemed += 1;
        } else {
            assert!(!filter.remove_digest(stranger));
        }
    }
    assert!(filter == before && filter.len() == 10_000);
    assert!((1..60).contains(&seemed), "{seemed}: what a caller must not remove");
    for &key in &keys[..9_000] {
        assert!(filter.remove_digest(key));
    }
    assert!(keys[9_000..].iter().all(|&key| filter.contains_digest(key)));
    assert_eq!(filter.len(), 1_000);
}

/// T34: ten thousand inserts of one key take four slots, turn nobody away, and never lose anyone.
#[test]
fn one_key_ten_thousand_times_blocks_nobody() {
    for items in [16, 100, 1_000, 20_000] {
        let mut dice = Dice(34 + items);
        let mut filter = sized(items, 0.01);
        let one = digest(&mut dice);
        assert!(filter.insert_digest(one).unwrap());
        for _ in 1..10_000 {
            assert!(!filter.insert_digest(one).unwrap());
        }
        assert_eq!(filter.len(), 4);
        let others: Vec<Digest> = (1..items).map(|_| digest(&mut dice)).collect();
        filter.insert_digests(&others).unwrap();
        // And after them, in the full filter, again.
        assert!(!filter.insert_digest(one).unwrap());
        assert!(filter.contains_digest(one) && others.iter().all(|&key| filter.contains_digest(key)));
        // It sticks: it can be removed as often as one likes, and nobody who looks like it is lost.
        for _ in 0..20 {
            assert!(filter.remove_digest(one));
        }
        assert!(filter.contains_digest(one));
        assert!(others.iter().all(|&key| filter.remove_digest(key)));
    }
}

#[test]
fn copies_are_counted_up_to_four() {
    let mut filter = Cuckoo::builder().items(1_000).rate(1e-6).build().unwrap();
    for copies in 0..=3u64 {
        assert_eq!(filter.count_of("key").unwrap(), copies);
        assert_eq!(filter.insert("key").unwrap(), copies == 0);
    }
    assert_eq!(filter.count_of("key").unwrap(), 4);
    filter.insert("key").unwrap();
    assert_eq!((filter.count_of("key").unwrap(), filter.count_of("other").unwrap(), filter.len()), (4, 0, 4));
    let mut thrice = Cuckoo::builder().items(1_000).rate(1e-6).build().unwrap();
    (0..3).for_each(|_| assert!(thrice.insert("key").is_ok()));
    (0..3).for_each(|_| assert!(thrice.remove("key").unwrap()));
    assert!(!thrice.contains("key").unwrap() && !thrice.remove("key").unwrap());
}

/// T33: keys whose fingerprint would be the mark of an empty slot, with a hash of all zeros or all ones.
#[test]
fn digests_of_zeros_and_ones_are_keys_like_others() {
    for bits in [2, 8, 10, 16, 17, 32, 33, 56] {
        let mut filter = to_the_brim(64, bits);
        for key in [Digest::new(0, 0), Digest::new(u64::MAX, u64::MAX), Digest::new(0, u64::MAX), Digest::new(9, 0)] {
            filter.insert_digest(key).unwrap();
            assert!(filter.contains_digest(key), "{bits}");
        }
        assert_eq!(filter.used_slots(), 4);
        assert!(filter.remove_digest(Digest::new(u64::MAX, u64::MAX)));
        assert!(!filter.contains_digest(Digest::new(u64::MAX, u64::MAX)));
    }
}

/// T38: the same inserts and removals make the same words: one by one, by the batch, and shared between threads.
#[test]
fn the_same_history_makes_the_same_words() {
    let mut dice = Dice(38);
    let keys: Vec<Digest> = (0..20_000).map(|_| digest(&mut dice)).collect();
    let mut single = sized(20_000, 0.01);
    let mut batched = sized(20_000, 0.01);
    let shared = sized(20_000, 0.01).into_shared().unwrap();
    for &key in &keys {
        single.insert_digest(key).unwrap();
    }
    batched.insert_digests(&keys).unwrap();
    shared.insert_digests(&keys).unwrap();
    for &key in keys.iter().step_by(7) {
        assert!(single.remove_digest(key) && batched.remove_digest(key) && shared.remove_digest(key));
    }
    assert!(single == batched && single == shared);
    assert_eq!(single.len(), shared.len());
    let owned = shared.into_owned().unwrap();
    assert!(owned == single && owned.clone() == owned);
    let mut emptied = owned;
    emptied.clear();
    assert!(emptied.is_empty() && emptied == sized(20_000, 0.01) && emptied != single);
}

/// T39: numbers from a hostile file: refused, or harmless.
#[test]
fn hostile_numbers_are_refused() {
    for (buckets, bits) in [(0, 10), (1, 10), (3, 10), (u64::MAX, 10), (u64::MAX - 1, 56), (16, 0), (16, 1), (16, 57)] {
        assert_eq!(CuckooShape::new(buckets, bits).unwrap_err().kind(), ErrorKind::InvalidParameter);
    }
    let largest = CuckooShape::new(1 << 54, 56).unwrap();
    assert!(largest.words() < 1 << 57 && largest.slots() == 1 << 56);
    let shape = CuckooShape::new(16, 10).unwrap();
    let promise = Promise { capacity: u64::MAX, rate: 0.01, when_full: WhenFull::Refuse };
    let with = |len, words| {
        Cuckoo::from_parts(shape, Contract::xxh3(), promise, len, Owned::zeroed(words).unwrap()).map(|_| ()).is_ok()
    };
    assert!(with(0, 11) && with(64, 11));
    assert!(!with(0, 10) && !with(0, 12) && !with(65, 11) && !with(u64::MAX, 11));
}

/// T39: any words at all: no panic, no loop without end, no read outside; and what is inserted is there.
#[test]
fn any_words_are_survived() {
    let mut dice = Dice(39);
    for bits in 2..=56 {
        for mask in [u64::MAX, 0, 1 << 40] {
            let shape = CuckooShape::new(2 * (1 + dice.below(60)), bits).unwrap();
            let promise = Promise { capacity: dice.next(), rate: 0.01, when_full: WhenFull::Refuse };
            let mut store = Owned::zeroed(shape.words()).unwrap();
            store.as_mut_slice().iter_mut().for_each(|word| *word = dice.next() & dice.next() | mask);
            let len = dice.below(shape.slots() + 1);
            let mut filter = Cuckoo::from_parts(shape, Contract::xxh3(), promise, len, store).unwrap();
            for _ in 0..100 {
                let key = digest(&mut dice);
                if filter.insert_digest(key).is_ok() {
                    assert!(filter.contains_digest(key), "{bits} {mask:x}");
                }
                filter.remove_digest(digest(&mut dice));
                assert!(filter.copies_of(key) <= 4);
            }
            assert!(filter.fill_ratio() <= 1.0 && filter.estimated_rate() <= 1.0);
        }
    }
}

/// Narrow fingerprints lead from a bucket to few others: what is promised to find room must do so with them too.
#[test]
fn the_narrowest_explicit_shapes_take_what_they_promise() {
    let mut dice = Dice(44);
    for (buckets, tables) in [(64, 200), (4096, 4), (1 << 16, 1)] {
        for bits in 4..=6 {
            for _ in 0..tables {
                let mut filter = Cuckoo::builder().buckets(buckets).fingerprint_bits(bits).build().unwrap();
                for key in 0..filter.capacity() {
                    assert!(filter.insert_digest(digest(&mut dice)).is_ok(), "{buckets} of {bits} bits at {key}");
                }
            }
        }
    }
}

#[test]
fn builders_keep_or_refuse() {
    let refusal = |built: crate::Result<Cuckoo>| built.map(|_| ()).unwrap_err();
    let with = Cuckoo::builder;
    for built in [
        with().build(),
        with().items(100).when_full(WhenFull::GoOn).build(),
        with().items(100).when_full(WhenFull::Grow).build(),
        with().items(100).rate(0.0).build(),
        with().buckets(64).build(),
        with().fingerprint_bits(10).items(100).build(),
        with().buckets(63).fingerprint_bits(10).build(),
        with().buckets(64).fingerprint_bits(10).items(250).build(),
        with().buckets(64).fingerprint_bits(10).items(100).rate(0.001).build(),
        with().buckets(4).fingerprint_bits(10).build(),
        with().buckets(4096).fingerprint_bits(2).build(),
        with().buckets(4096).fingerprint_bits(3).items(14_000).build(),
        with().items(1 << 41).build(),
    ] {
        assert_eq!(refusal(built).kind(), ErrorKind::InvalidParameter);
    }
    assert!(refusal(with().items(9).when_full(WhenFull::GoOn).build()).to_string().contains("GrowingCuckoo"));
    for built in [
        with().bytes(100).items(1_000).build(),
        with().bytes(8).build(),
        with().bytes(10_000).items(10_000).rate(0.01).build(),
    ] {
        assert_eq!(refusal(built).kind(), ErrorKind::LimitExceeded);
    }
    let by_memory = with().bytes(1 << 20).rate(0.001).build().unwrap();
    assert!(by_memory.size_in_bytes() <= 1 << 20 && by_memory.capacity() > 600_000, "{by_memory:?}");
    assert!(by_memory.expected_rate_at(by_memory.capacity()) <= 0.001);
    let by_both = with().bytes(1 << 20).items(500_000).build().unwrap();
    assert_eq!(by_both.shape().fingerprint_bits(), 15);
    assert!(by_both.size_in_bytes() <= 1 << 20 && by_both.promised_rate() < 0.0003);
    let explicit = with().buckets(64).fingerprint_bits(10).build().unwrap();
    assert!(explicit.capacity() > 150 && explicit.promised_rate() < 0.01, "{explicit:?}");
    let empty = with().items(0).build().unwrap();
    assert!(empty.capacity() == 1 && !empty.contains("anything").unwrap());
}

#[test]
fn keys_of_all_doors_agree() {
    let mut filter = Cuckoo::builder().keys::<u64>().items(3_000).rate(0.001).build().unwrap();
    let keys: Vec<u64> = (0..1_000).map(|i| i * i).collect();
    filter.insert_batch(&keys).unwrap();
    filter.insert_all(2_000_000..2_001_000u64).unwrap();
    let asked: Vec<u64> = (0..1_000_000).step_by(997).collect();
    let mut answers = vec![false; asked.len()];
    filter.contains_batch(&asked, &mut answers).unwrap();
    for (&key, &answer) in asked.iter().zip(&answers) {
        assert_eq!(filter.contains(&key).unwrap(), answer);
    }
    assert!(keys.iter().all(|key| filter.contains(key).unwrap()) && filter.contains(&2_000_999u64).unwrap());
    assert!(filter.contains("text").is_err() && filter.contains_batch(&keys, &mut answers[..1]).is_err());
    let mut text = Cuckoo::builder().items(100).build().unwrap();
    text.insert_batch(&["a", "b"]).unwrap();
    assert!(text.contains("a").unwrap() && text.remove("b").unwrap() && text.len() == 1);
}

/// Lookups beside a writer that moves fingerprints in a nearly full table: never a wrong "no".
#[test]
fn lookups_beside_moves_never_miss_a_key() {
    let mut dice = Dice(99);
    // Small, so that every key moves all the time: without the version, readers miss one in every other run.
    let filter = to_the_brim(16, 12).into_shared().unwrap();
    let kept: Vec<Digest> = (0..48).map(|_| digest(&mut dice)).collect();
    filter.insert_digests(&kept).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (filter, kept, done): (&Cuckoo<Shared>, _, _) = (&filter, &kept, &done);
        for reader in 0..2 {
            scope.spawn(move || {
                let mut answers = vec![false; kept.len()];
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) || rounds < 3 {
                    if reader == 0 {
                        for (at, &key) in kept.iter().enumerate() {
                            assert!(filter.contains_digest(key), "key {at} was missed in round {rounds}");
                        }
                    } else {
                        filter.contains_digests(kept, &mut answers).unwrap();
                        assert!(answers.iter().all(|&answer| answer), "a key of a batch was missed in round {rounds}");
                    }
                    rounds += 1;
                }
            });
        }
        scope.spawn(move || {
            let mut dice = Dice(100);
            let mut guests: Vec<Digest> = Vec::new();
            for _ in 0..500_000 {
                if guests.len() < 12 {
                    let guest = digest(&mut dice);
                    match filter.insert_digest(guest) {
                        Ok(_) => guests.push(guest),
                        Err(_) => drop(guests.pop().map(|gone| assert!(filter.remove_digest(gone)))),
                    }
                } else {
                    let gone = guests.swap_remove(dice.below(12) as usize);
                    assert!(filter.contains_digest(gone) && filter.remove_digest(gone));
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    });
    assert!(filter.fill_ratio() > 0.8);
}

/// Many writers at once: every key that was accepted is there.
#[test]
fn many_writers_lose_nothing() {
    let filter = Cuckoo::builder().keys::<u64>().items(8_000).rate(0.001).build_shared().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let filter = &filter;
            scope.spawn(move || {
                let keys: Vec<u64> = (0..2_000).map(|i| thread * 1_000_000 + i).collect();
                filter.insert_batch(&keys[..1_000]).unwrap();
                for key in &keys[1_000..] {
                    filter.insert(key).unwrap();
                }
                for key in &keys[..500] {
                    assert!(filter.remove(key).unwrap());
                }
            });
        }
    });
    assert_eq!(filter.len(), 6_000);
    for thread in 0..4u64 {
        assert!((500..2_000).all(|i| filter.contains(&(thread * 1_000_000 + i)).unwrap()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: proptest::test_runner::RngSeed::Fixed(30), ..ProptestConfig::default() })]

    /// T29, T30: a multiset as the model. With legal removals alone nobody is ever missing, in tables so small and with
    /// fingerprints so narrow that keys look alike all the time.
    #[test]
    fn a_multiset_never_misses_a_member(
        halves in 1u64..12,
        bits in 2u32..6,
        steps in proptest::collection::vec((any::<bool>(), 0u16..120), 1..400),
    ) {
        let mut filter = to_the_brim(2 * halves, bits);
        let mut members: HashMap<u16, u32> = HashMap::new();
        let digest_of = |key: u16| { let mut dice = Dice(u64::from(key)); digest(&mut dice) };
        for (insert, key) in steps {
            let held = members.entry(key).or_default();
            if insert {
                let before = filter.clone();
                match filter.insert_digest(digest_of(key)) {
                    Ok(fresh) => {
                        prop_assert!(!fresh || *held == 0, "a member is not new");
                        prop_assert_eq!(fresh, !before.contains_digest(digest_of(key)));
                        *held += 1;
                    }
                    Err(_) => prop_assert!(filter == before),
                }
            } else if *held > 0 {
                prop_assert!(filter.remove_digest(digest_of(key)));
                *held -= 1;
            }
            for (&key, &held) in &members {
                prop_assert!(held == 0 || filter.contains_digest(digest_of(key)), "{} is missing", key);
                prop_assert!(filter.copies_of(digest_of(key)) >= held.min(4).min(1));
            }
        }
        prop_assert_eq!(filter.len(), filter.used_slots());
    }
}
