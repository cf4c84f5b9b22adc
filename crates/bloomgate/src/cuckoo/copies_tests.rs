//! The promises of exact copies: eight in and eight out, the ninth refused, nobody lost beside them; and that four exact
//! copies are never taken for four that stick, nor the other way round.

use std::collections::HashMap;

use super::tests::digest;
use super::{CopyRule, Cuckoo, CuckooShape, GrowingCuckoo};
use crate::bits::Shared;
use crate::error::ErrorKind;
use crate::hash::{Contract, Digest};
use crate::math::dice::Dice;
use crate::promise::{Insertion, Promise, WhenFull};

fn table(items: u64) -> Cuckoo {
    Cuckoo::builder().items(items).copies(CopyRule::Exact).build().unwrap()
}

fn chain(first: u64, rate: f64) -> GrowingCuckoo {
    GrowingCuckoo::builder().items(first).rate(rate).copies(CopyRule::Exact).build().unwrap()
}

/// A table of any size with fingerprints of any width: the narrower, the more keys look alike.
fn narrow(buckets: u64, bits: u32) -> Cuckoo {
    let shape = CuckooShape::new(buckets, bits).unwrap().with_copies(CopyRule::Exact);
    let promise = Promise { capacity: shape.slots(), rate: 0.9, when_full: WhenFull::Refuse };
    Cuckoo::empty(shape, Contract::xxh3(), promise).unwrap()
}

#[test]
fn eight_go_in_and_out_and_the_ninth_changes_nothing() {
    for items in [16, 100, 1_000, 20_000] {
        let mut dice = Dice(items);
        let one = digest(&mut dice);
        let mut filter = table(items);
        for copies in 0..8 {
            assert_eq!(filter.count_of_digest(one).unwrap(), copies);
            assert_eq!(filter.insert_digest(one).unwrap(), copies == 0);
        }
        let before = filter.clone();
        let refused = filter.insert_digest(one).unwrap_err();
        assert!(refused.kind() == ErrorKind::Full && refused.to_string().contains("8 copies"), "{refused}");
        assert!(filter == before && filter.len() == 8 && filter.count_of_digest(one).unwrap() == 8);
        for copies in (0..8).rev() {
            assert!(filter.contains_digest(one) && filter.remove_digest(one));
            assert_eq!((filter.count_of_digest(one).unwrap(), filter.len()), (copies, copies));
        }
        assert!(!filter.contains_digest(one) && !filter.remove_digest(one) && filter.used_slots() == 0);
    }
}

#[test]
fn shared_tables_and_chains_hold_eight_too() {
    let one = digest(&mut Dice(8));
    let (shared, long) = (table(100).into_shared().unwrap(), chain(16, 0.01).into_shared().unwrap());
    let mut outcomes = [Insertion::Full; 10];
    shared.insert_each(&[one; 10], &mut outcomes).unwrap();
    assert!(outcomes[0] == Insertion::New && outcomes[1..8] == [Insertion::Known; 7]);
    assert_eq!(outcomes[8..], [Insertion::Full; 2]);
    assert_eq!((shared.count_of_digest(one).unwrap(), shared.max_copies(), long.max_copies()), (8, 8, 8));
    (0..8).for_each(|at| assert_eq!(long.insert_digest(one).unwrap(), at == 0));
    assert!(long.insert_digest(one).unwrap_err().to_string().contains("8 copies"));
    assert_eq!(long.insert_in_place(one).unwrap(), Insertion::Full);
    (0..8).for_each(|_| assert!(shared.remove_digest(one) && long.remove_digest(one)));
    assert!(!shared.contains_digest(one) && !long.contains_digest(one) && long.is_empty());
}

/// Keys that look alike share the eight; each can take away as often as it came.
#[test]
fn look_alikes_share_copies() {
    let mut filter = narrow(64, 8);
    let (one, like) = (Digest::new(1 << 40, 1 << 63), Digest::new((1 << 40) + 1, (1 << 63) + 1));
    (0..5).for_each(|_| assert!(filter.insert_digest(one).is_ok()));
    (0..3).for_each(|_| assert!(!filter.insert_digest(like).unwrap()));
    assert!(filter.insert_digest(like).is_err() && filter.insert_digest(one).is_err());
    (0..5).for_each(|_| assert!(filter.remove_digest(one)));
    assert_eq!(filter.count_of_digest(like).unwrap(), 3);
    (0..3).for_each(|_| assert!(filter.contains_digest(like) && filter.remove_digest(like)));
    assert!(!filter.contains_digest(like));
}

/// Two doors to a filter of either kind, for a history that is checked against a plain count.
trait Held {
    fn take(&mut self, key: Digest) -> bool;
    fn give(&mut self, key: Digest) -> bool;
    fn count(&self, key: Digest) -> u64;
    fn all(&self) -> u64;
}

macro_rules! held {
    ($($filter:ty),*) => {$(
        impl Held for $filter {
            fn take(&mut self, key: Digest) -> bool {
                self.insert_digest(key).map_err(|error| assert_eq!(error.kind(), ErrorKind::Full)).is_ok()
            }
            fn give(&mut self, key: Digest) -> bool {
                self.remove_digest(key)
            }
            fn count(&self, key: Digest) -> u64 {
                assert_eq!(self.contains_digest(key), self.count_of_digest(key).unwrap() > 0);
                self.count_of_digest(key).unwrap()
            }
            fn all(&self) -> u64 {
                self.len()
            }
        }
    )*};
}
held!(Cuckoo, GrowingCuckoo, GrowingCuckoo<Shared>);

/// A long history of copies that come and go: what is there is never fewer than came less went, and everything goes.
fn live_through(filter: &mut impl Held, keys: usize, seed: u64) -> u64 {
    let mut dice = Dice(seed);
    let keys: Vec<Digest> = (0..keys).map(|_| digest(&mut dice)).collect();
    let mut there: HashMap<Digest, u64> = HashMap::new();
    let mut refused = 0;
    for step in 0..12_000 {
        let key = keys[dice.next() as usize % keys.len()];
        let held = there.entry(key).or_default();
        // It fills up, empties, and fills up again.
        let fills = (step / 2_000) % 2 == 0;
        if dice.next() % 4 < if fills { 3 } else { 1 } {
            let before = filter.count(key);
            match filter.take(key) {
                true => *held += 1,
                false => {
                    assert_eq!(filter.count(key), before);
                    refused += 1;
                }
            }
            assert!(*held <= 8);
        } else if *held > 0 {
            assert!(filter.give(key));
            *held -= 1;
        }
        assert_eq!(filter.all(), there.values().sum::<u64>());
        if step % 500 == 0 {
            assert!(there.iter().all(|(&key, &held)| filter.count(key) >= held));
        }
    }
    for (&key, &held) in &there {
        assert!(filter.count(key) >= held && (0..held).all(|_| filter.give(key)));
    }
    assert!(filter.all() == 0 && keys.iter().all(|&key| filter.count(key) == 0));
    refused
}

#[test]
fn nobody_is_lost_beside_eight_copies() {
    // Few buckets and narrow fingerprints: full tables, and keys that look alike.
    for (seed, (buckets, bits, keys)) in [(16, 4, 40), (16, 12, 20), (64, 6, 100), (256, 10, 300)].iter().enumerate() {
        let refused = live_through(&mut narrow(*buckets, *bits), *keys, seed as u64);
        assert!(refused > 20, "{buckets} buckets refused {refused}");
    }
    for (seed, (first, rate, keys)) in [(4, 0.3, 200), (100, 0.01, 600), (1_000, 0.1, 2_000)].iter().enumerate() {
        live_through(&mut chain(*first, *rate), *keys, seed as u64);
        live_through(&mut chain(*first, *rate).into_shared().unwrap(), *keys, 50 + seed as u64);
    }
}

/// Eight copies of a key fill its buckets: whoever hashes there moves on, and a chain opens a stage for them in the end,
/// without taking much more memory than slots that are in use.
#[test]
fn chains_make_room_beside_eight_copies() {
    for (first, keys, seeds) in
        [(16, 600, 10), (100, 600, 10), (1_024, 2_000, 4), (10_000, 2_000, 4), (1_000_000, 4_000, 1)]
    {
        for seed in 0..seeds {
            let mut dice = Dice(first + seed);
            let mut filter = chain(first, 1e-4);
            let keys: Vec<Digest> = (0..keys).map(|_| digest(&mut dice)).collect();
            for &key in &keys {
                for copy in 0..8 {
                    filter.insert_digest(key).unwrap_or_else(|error| panic!("copy {copy}: {error} in {filter:?}"));
                }
            }
            assert!(keys.iter().all(|&key| filter.count_of_digest(key).unwrap() == 8));
            assert!(filter.capacity() <= (9 * first).max(16 * filter.len()), "{filter:?}, {}", filter.capacity());
            keys.iter().for_each(|&key| (0..8).for_each(|_| assert!(filter.remove_digest(key))));
            assert!(filter.is_empty() && keys.iter().all(|&key| !filter.contains_digest(key)));
        }
    }
}

/// Keys that a stranger chose to have the same two buckets, eight copies of each, come to nine times the memory at most.
#[test]
fn a_crowd_of_copies_does_not_make_it_grow_for_ever() {
    for (growth, most) in [(2.0, 3), (4.0, 2), (8.0, 2), (32_768.0, 1)] {
        let build = GrowingCuckoo::builder().items(10_000).growth(growth).copies(CopyRule::Exact);
        let mut filter = build.build().unwrap();
        let mut refused = 0;
        for fp in 0..64 {
            for _ in 0..8 {
                // The same first bits of the fingerprint, so the same two buckets in every stage.
                refused += u64::from(filter.insert_digest(Digest::new(12_345, 1 << 62 | fp << 50)).is_err());
            }
        }
        assert!(filter.stages() == most && refused > 400, "{refused}: {filter:?}");
    }
}

#[test]
fn copies_over_several_stages_are_counted_together() {
    let mut dice = Dice(4);
    let mut filter = chain(16, 1e-6);
    let one = digest(&mut dice);
    (0..4).for_each(|_| assert!(filter.insert_digest(one).is_ok()));
    while filter.stages() < 3 {
        filter.insert_digest(digest(&mut dice)).unwrap();
    }
    (4..8).for_each(|copies| {
        assert_eq!(filter.count_of_digest(one).unwrap(), copies);
        filter.insert_digest(one).unwrap();
    });
    assert!(filter.shapes().count() >= 3 && filter.insert_digest(one).is_err());
    assert!(filter.insert_digests(&[one]).is_err() && filter.count_of_digest(one).unwrap() == 8);
    (0..8).for_each(|_| assert!(filter.remove_digest(one)));
    assert!(!filter.contains_digest(one));
}

#[test]
fn packing_a_chain_keeps_every_copy() {
    let mut dice = Dice(5);
    // Narrow enough that some of 300 keys look alike in the first stage.
    let mut filter = chain(100, 0.05);
    let keys: Vec<Digest> = (0..300).map(|_| digest(&mut dice)).collect();
    let mut there: HashMap<Digest, u64> = HashMap::new();
    for (at, &key) in keys.iter().enumerate() {
        for _ in 0..1 + at % 8 {
            *there.entry(key).or_default() += u64::from(filter.insert_digest(key).is_ok());
        }
    }
    assert!(filter.stages() > 3);
    for &key in &keys[..240] {
        (0..there.remove(&key).unwrap()).for_each(|_| assert!(filter.remove_digest(key)));
    }
    assert!(filter.compact() > 0);
    assert_eq!(filter.len(), there.values().sum::<u64>());
    assert!(there.iter().all(|(&key, &held)| filter.count_of_digest(key).unwrap() >= held));
    there.iter().for_each(|(&key, &held)| (0..held).for_each(|_| assert!(filter.remove_digest(key))));
    assert!(filter.is_empty());
}

/// What stuck stays, what is exact goes, and each is still what it was after a file: the rule is in its shape.
#[test]
fn files_keep_the_rule() {
    let one = digest(&mut Dice(6));
    let mut sticks = Cuckoo::builder().items(100).build().unwrap();
    let mut exact = table(100);
    let mut sticking_chain = GrowingCuckoo::builder().items(100).build().unwrap();
    let mut exact_chain = chain(100, 0.01);
    for _ in 0..4 {
        sticks.insert_digest(one).unwrap();
        exact.insert_digest(one).unwrap();
        sticking_chain.insert_digest(one).unwrap();
        exact_chain.insert_digest(one).unwrap();
    }
    // The same slots under two rules are two filters.
    assert!(sticks != exact && sticking_chain != exact_chain);
    let (old, new) = (sticks.to_bytes().unwrap(), exact.to_bytes().unwrap());
    let (old_chain, new_chain) = (sticking_chain.to_bytes().unwrap(), exact_chain.to_bytes().unwrap());
    // Field 66, critical, two bytes, 8: a file from before there were two rules has no such field.
    let field = [66, 0x80, 2, 0, 8, 0];
    let has = |bytes: &[u8]| bytes.windows(6).filter(|six| *six == field).count();
    assert_eq!([has(&old), has(&new), has(&old_chain), has(&new_chain)], [0, 1, 0, 2]);

    let (mut sticks, mut exact) = (Cuckoo::from_bytes(&old).unwrap(), Cuckoo::from_bytes(&new).unwrap());
    assert_eq!((sticks.max_copies(), exact.max_copies()), (3, 8));
    (0..9).for_each(|_| assert!(sticks.insert_digest(one).is_ok() && sticks.remove_digest(one)));
    (0..4).for_each(|_| assert!(exact.remove_digest(one)));
    assert!(sticks.contains_digest(one) && !exact.contains_digest(one));

    let mut sticks = GrowingCuckoo::from_bytes(&old_chain).unwrap();
    let mut exact = GrowingCuckoo::from_bytes(&new_chain).unwrap().into_shared().unwrap().into_owned().unwrap();
    assert_eq!((sticks.max_copies(), exact.max_copies()), (3, 8));
    (0..9).for_each(|_| assert!(sticks.insert_digest(one).is_ok() && sticks.remove_digest(one)));
    (0..4).for_each(|_| assert!(exact.remove_digest(one)));
    assert!(sticks.contains_digest(one) && !exact.contains_digest(one));
    exact.clear().unwrap();
    assert_eq!(exact.max_copies(), 8);
}

/// No stage is opened by the door that opens none, whatever the load; and what it takes, it takes as the other does.
#[test]
fn inserting_in_place_opens_no_stage() {
    for copies in [CopyRule::Stick, CopyRule::Exact] {
        let build = || GrowingCuckoo::builder().items(50).copies(copies).build_shared().unwrap();
        let (asked, plain) = (build(), build());
        let mut dice = Dice(7);
        let keys: Vec<Digest> = (0..300).map(|_| digest(&mut dice)).collect();
        for _ in 0..4_000 {
            let key = keys[dice.next() as usize % keys.len()];
            let (stages, len) = (asked.stages(), asked.len());
            let mut outcome = asked.insert_in_place(key).unwrap();
            assert_eq!(asked.stages(), stages);
            if outcome == Insertion::Full {
                assert_eq!(asked.len(), len);
                outcome = Insertion::of(asked.insert_digest(key)).unwrap();
                assert!(outcome == Insertion::Full || asked.stages() == stages + 1);
            }
            assert_eq!(outcome, Insertion::of(plain.insert_digest(key)).unwrap());
        }
        assert!(asked == plain && asked.stages() > 2);
    }
}
