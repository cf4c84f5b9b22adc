//! Honest filters look honest, of every kind and size; those of chosen keys do not.

use super::{AnyFilter, Look};
use crate::bloom::{Blocked, Classic, Counting, Partitioned, Rotating, Scalable};
use crate::foreign::{BfV1, Guava, Parquet, RedisBloom};
use crate::hash::{Contract, Digest, Secret};
use crate::math::dice::Dice;
use crate::promise::WhenFull;

fn looked(filter: &AnyFilter, lines: u64, dice: &mut Dice) -> Option<Look> {
    filter.look(&filter.sample_lines(lines, || dice.next()))
}

fn digest(dice: &mut Dice) -> Digest {
    Digest::new(dice.next(), dice.next())
}

/// An empty filter of one of the kinds whose bits are looked at.
fn made(kind: u64, items: u64, rate: f64) -> AnyFilter {
    let given = Contract::given;
    match kind {
        0 => Classic::builder().items(items).rate(rate).contract(given()).build().unwrap().into(),
        1 => Blocked::builder().items(items).rate(rate).contract(given()).build().unwrap().into(),
        2 => Partitioned::builder().items(items).rate(rate).contract(given()).build().unwrap().into(),
        3 => Counting::builder().items(items).rate(rate).contract(given()).build().unwrap().into(),
        4 => Scalable::builder().items(items / 4 + 1).rate(rate).contract(given()).build().unwrap().into(),
        5 => Rotating::builder()
            .items(items)
            .rate(rate)
            .window(std::time::Duration::from_secs(60))
            .contract(given())
            .build()
            .unwrap()
            .into(),
        6 => RedisBloom::builder().items(items).rate(rate).build().unwrap().into(),
        7 => BfV1::builder().items(items).rate(rate).build().unwrap().into(),
        8 => Guava::builder().items(items).rate(rate).build().unwrap().into(),
        _ => Parquet::builder().items(items).rate(rate).build().unwrap().into(),
    }
}

/// Mean and standard deviation.
fn moments(scores: &[f64]) -> (f64, f64) {
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    let square = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / scores.len() as f64;
    (mean, square.sqrt())
}

/// 10,000 filters of all kinds, of 50 to 3,000 keys, at four rates and filled to any degree: no score reaches five, and
/// the scores are those of the normal distribution: around 0, as far apart as they say.
#[test]
fn honest_filters_of_every_kind_and_size_look_honest() {
    let mut dice = Dice(71);
    let (mut fills, mut evens) = (vec![Vec::new(); 10], vec![Vec::new(); 10]);
    for trial in 0..10_000u64 {
        let kind = trial % 10;
        let items = [50, 200, 700, 3_000][(dice.next() % 4) as usize];
        let rate = [0.1, 0.01, 1e-3, 1e-4][(dice.next() % 4) as usize];
        let mut filter = made(kind, items, rate);
        for _ in 0..1 + dice.below(items) {
            // A ring or a chain may be full a little before.
            let _ = filter.insert_digest(digest(&mut dice));
        }
        let look = looked(&filter, if trial % 3 == 0 { 64 } else { 4_096 }, &mut dice).expect("bits to look at");
        assert!(look.score().is_none_or(|score| score < 5.0), "{trial}: {look:?} of {filter:?}");
        fills[kind as usize].extend(look.fill_score);
        // Worst of several parts: not normal.
        if kind != 4 && kind != 5 && kind != 6 {
            evens[kind as usize].extend(look.evenness_score);
        }
    }
    for kind in 0..10 {
        let (fill, even) = (moments(&fills[kind]), moments(&evens[kind]));
        // Forms that do not count have no fill to hold against, chains tell their worst stage.
        if kind < 4 {
            assert!(
                fills[kind].len() > 500 && fill.0.abs() < 0.15 && (0.85..1.15).contains(&fill.1),
                "{kind}: {fill:?}"
            );
        } else if kind < 7 {
            assert!(fills[kind].len() > 500 && (-0.2..1.5).contains(&fill.0) && fill.1 < 1.2, "{kind}: {fill:?}");
        } else {
            assert!(fills[kind].is_empty(), "{kind}");
        }
        if !evens[kind].is_empty() {
            assert!(evens[kind].len() > 100, "{kind}: {}", evens[kind].len());
            // Slices are all filled alike, so small ones are more even than independent bits.
            let least = if kind == 2 { -1.0 } else { -0.15 };
            assert!((least..0.2).contains(&even.0) && (0.85..1.15).contains(&even.1), "{kind}: {even:?}");
        }
    }
}

/// Larger ones, of which a part of the lines is read.
#[test]
fn samples_of_large_filters_look_honest() {
    let mut dice = Dice(72);
    let mut scores = Vec::new();
    for trial in 0..60 {
        let mut filter = made(trial % 4, 60_000, 0.01);
        let digests: Vec<Digest> = (0..60_000).map(|_| digest(&mut dice)).collect();
        filter.insert_digests(&digests).unwrap();
        for _ in 0..10 {
            let look = looked(&filter, 256, &mut dice).unwrap();
            assert_eq!(look.lines, 256);
            scores.push(look.fill_score.unwrap());
            assert!(look.score().unwrap() < 5.0, "{look:?}");
        }
    }
    let (mean, spread) = moments(&scores);
    assert!(mean.abs() < 0.25 && (0.85..1.15).contains(&spread), "{mean} {spread}");
}

/// Keys chosen at home against RedisBloom's public hash: of each few candidates the one that sets the most new bits.
fn chosen_for_redis_bloom(bits: u64, hashes: u64, count: usize, dice: &mut Dice) -> Vec<[u8; 8]> {
    let hash = Contract::murmur64a_pair();
    let mut copy = vec![false; bits as usize];
    let mut chosen = Vec::new();
    let places = |key: &[u8]| {
        let digest = hash.digest(key).unwrap();
        (0..hashes).map(move |i| (digest.lo.wrapping_add(digest.hi.wrapping_mul(i)) % bits) as usize)
    };
    while chosen.len() < count {
        let keys: Vec<[u8; 8]> = (0..24).map(|_| dice.next().to_le_bytes()).collect();
        let fresh = |key: &&[u8; 8]| places(&key[..]).filter(|&at| !copy[at]).count();
        let best = *keys.iter().max_by_key(fresh).unwrap();
        places(&best[..]).for_each(|at| copy[at] = true);
        chosen.push(best);
    }
    chosen
}

#[test]
fn keys_chosen_against_a_public_hash_show_and_fail_against_a_secret() {
    let mut dice = Dice(73);
    for items in [1_000u64, 10_000] {
        let mut theirs = RedisBloom::builder().items(items).rate(0.01).nonscaling().build().unwrap();
        let link = theirs.shape().links()[0];
        let chosen = chosen_for_redis_bloom(link.bits(), link.hashes().into(), items as usize, &mut dice);
        let secret = Secret::from_hex(&"5a".repeat(32)).unwrap();
        let mut ours = Blocked::builder().items(items).rate(0.01).contract(Contract::keyed(&secret)).build().unwrap();
        for key in &chosen {
            theirs.insert(&key[..]).unwrap();
            ours.insert(&key[..]).unwrap();
        }
        let theirs = looked(&theirs.into(), 4_096, &mut dice).unwrap();
        assert!(theirs.fill_score.unwrap() > 20.0 && theirs.fill > theirs.expected_fill + 0.08, "{theirs:?}");
        let ours = looked(&ours.into(), 4_096, &mut dice).unwrap();
        assert!(ours.score().unwrap().abs() < 4.0, "{ours:?}");
        // A quarter of the keys chosen is seen too, from some thousand keys on.
        let mut mixed = RedisBloom::builder().items(items).rate(0.01).nonscaling().build().unwrap();
        for (at, key) in chosen.iter().enumerate() {
            let honest = dice.next().to_le_bytes();
            mixed.insert(if at % 4 == 0 { &key[..] } else { &honest[..] }).unwrap();
        }
        let mixed = looked(&mixed.into(), 4_096, &mut dice).unwrap();
        assert!(items < 10_000 || mixed.fill_score.unwrap() > 5.0, "{mixed:?}");
    }
}

#[test]
fn keys_aimed_at_few_lines_show() {
    let mut dice = Dice(74);
    for kind in [1, 3] {
        let mut filter = made(kind, 20_000, 0.01);
        for at in 0..10_000 {
            let mut digest = digest(&mut dice);
            // The line comes from the highest bits: one key in four goes into the first quarter.
            if at % 4 == 0 {
                digest.lo >>= 2;
            }
            filter.insert_digest(digest).unwrap();
        }
        let look = looked(&filter, 4_096, &mut dice).unwrap();
        assert!(look.evenness_score.unwrap() > 8.0, "{look:?}");
        assert!(looked(&filter, 256, &mut dice).unwrap().evenness_score.unwrap() > 5.0);
    }
}

#[test]
fn kinds_without_such_bits_say_nothing_and_odd_ones_do_not_panic() {
    let mut dice = Dice(75);
    let cuckoo = crate::Cuckoo::builder().items(1_000).build().unwrap();
    assert_eq!(looked(&cuckoo.into(), 64, &mut dice), None);
    for kind in 0..10 {
        for items in [1, 2, 40] {
            let mut filter = made(kind, items, 0.9);
            let empty = looked(&filter, 4_096, &mut dice).unwrap();
            assert_eq!((empty.fill, empty.fill_score, empty.evenness_score), (0.0, None, None), "{kind}");
            (0..items).for_each(|_| drop(filter.insert_digest(digest(&mut dice))));
            let look = looked(&filter, 4_096, &mut dice).unwrap();
            assert!(look.fill.is_finite() && look.expected_fill.is_finite() && look.score().is_none_or(f64::is_finite));
        }
    }
    // Filled ten times over: whatever it says, it is a number or nothing.
    let mut full = Blocked::builder().items(100).when_full(WhenFull::GoOn).contract(Contract::given()).build().unwrap();
    (0..5_000).for_each(|_| drop(full.insert_digest(digest(&mut dice))));
    let look = looked(&full.into(), 64, &mut dice).unwrap();
    assert_eq!(look.fill_score, None, "{look:?}");
}

/// Whatever was there before, keys that come between two samples are those of the normal distribution too: all kinds that count and
/// remove nothing, all lines or some of them, few keys or many.
#[test]
fn random_keys_between_two_samples_look_random() {
    let mut dice = Dice(77);
    for kind in [0, 1, 2, 4, 6] {
        let mut scores = Vec::new();
        for number in 0..200u64 {
            let items = [400, 3_000, 12_000][number as usize % 3];
            let lines = if number % 2 == 0 { 4_096 } else { 64 };
            let mut filter = made(kind, items, 0.01);
            let add = |filter: &mut AnyFilter, count: u64, dice: &mut Dice| {
                (0..count).for_each(|_| _ = filter.insert_digest(digest(dice)).unwrap());
            };
            add(&mut filter, items / 2, &mut dice);
            let before = filter.sample_lines(lines, || dice.next());
            let same = filter.sample_lines(lines, || dice.next());
            assert_eq!(same.since(&before), None, "nothing came");
            let more = items / [3, 4, 10][number as usize % 3];
            add(&mut filter, more, &mut dice);
            let since = filter.sample_lines(lines, || dice.next()).since(&before).expect("enough keys");
            assert!(since.keys <= more && (kind == 4 || since.keys * 100 >= more * 95), "{since:?} of {more}");
            scores.push(since.score);
        }
        let (mean, spread) = moments(&scores);
        let worst = scores.iter().copied().fold(f64::MIN, f64::max);
        assert!(mean.abs() < 0.6 && (0.6..1.4).contains(&spread), "kind {kind}: {mean:.2} +- {spread:.2}");
        assert!(worst < 5.0, "kind {kind}: {worst}");
    }
}

/// A ring that lets its keys go while it is looked at: honest ones look honest in any lap, generations whose places were used
/// again are others, and keys chosen against the youngest show.
#[test]
fn rings_that_turned_between_two_samples_look_random() {
    let (mut dice, slice) = (Dice(78), std::time::Duration::from_secs(15));
    let add = |ring: &mut AnyFilter, dice: &mut Dice| {
        (0..400 + dice.below(600)).for_each(|_| _ = ring.insert_digest(digest(dice)).unwrap());
    };
    let turn = |ring: &mut AnyFilter| match ring {
        AnyFilter::Rotating(ring) => ring.advance_by(slice),
        other => unreachable!("{other:?}"),
    };
    let mut scores = Vec::new();
    for number in 0..60u64 {
        let ring = Rotating::builder().items(4_000).rate(0.01).window(slice * 4).contract(Contract::given());
        let mut ring = AnyFilter::from(ring.build().unwrap());
        for _ in 0..number % 7 {
            add(&mut ring, &mut dice);
            turn(&mut ring);
        }
        add(&mut ring, &mut dice);
        let base = ring.sample_lines(4_096, || dice.next());
        // Two laps of five generations, and one turn more.
        for turns in 0..=11 {
            add(&mut ring, &mut dice);
            let now = ring.sample_lines(4_096, || dice.next());
            let since = now.since(&base).expect("hundreds of keys");
            assert!(since.score.abs() <= 4.5, "{number}, {turns} turns: {since:?}");
            assert!(turns < 5 || since.keys == ring.len(), "{number}, {turns} turns: {since:?} of {}", ring.len());
            scores.push(since.score);
            turn(&mut ring);
            add(&mut ring, &mut dice);
            assert_eq!(ring.settle(&now), now, "what counts now in the place of another does not count for it");
        }
        if number % 10 > 0 {
            continue;
        }
        turn(&mut ring);
        let fresh = |ring: &AnyFilter, digest: Digest| {
            ring.trace(digest).last().unwrap().bits.iter().filter(|(_, set)| !set).count()
        };
        for _ in 0..800 {
            let tried: Vec<Digest> = (0..12).map(|_| digest(&mut dice)).collect();
            let best = *tried.iter().max_by_key(|&&tried| fresh(&ring, tried)).unwrap();
            ring.insert_digest(best).unwrap();
        }
        let since = ring.sample_lines(4_096, || dice.next()).since(&base).unwrap();
        assert!(since.score > 8.0, "{number}: {since:?}");
    }
    // The worst of up to five generations lies above 0.
    let (mean, spread) = moments(&scores);
    assert!((0.0..1.5).contains(&mean) && (0.4..1.2).contains(&spread), "{mean:.2} +- {spread:.2}");
}

/// Keys that come while a sample waits until what was on its way is counted are in its count and not in its bits. They are no
/// attack, though nothing came between two samples then but what set fewer bits than were seen.
#[test]
fn keys_that_come_before_a_sample_is_settled_accuse_nobody() {
    let mut dice = Dice(79);
    let add = |filter: &mut AnyFilter, count: u64, dice: &mut Dice| {
        (0..count).for_each(|_| _ = filter.insert_digest(digest(dice)).unwrap());
    };
    for kind in [0, 1, 2, 4, 5, 6] {
        for burst in [40, 300, 600] {
            let mut filter = made(kind, 8_000, 0.01);
            add(&mut filter, 600, &mut dice);
            let base = filter.sample_lines(4_096, || dice.next());
            add(&mut filter, burst, &mut dice);
            let base = filter.settle(&base);
            add(&mut filter, 200, &mut dice);
            let now = filter.sample_lines(4_096, || dice.next());
            let since = now.since(&base).unwrap();
            assert!(since.score.abs() <= 4.5 && since.keys > 200, "kind {kind}, {burst} on their way: {since:?}");
            // And those of the second sample.
            add(&mut filter, burst, &mut dice);
            let since = filter.settle(&now).since(&base).unwrap();
            assert!(since.score.abs() <= 4.5, "kind {kind}, {burst} on their way twice: {since:?}");
        }
    }
}

/// Some lines tell the rate that all bits tell, of every kind that has lines, from empty to twice what it was made for.
#[test]
fn some_lines_tell_the_rate_of_all() {
    let mut dice = Dice(76);
    for kind in 0..10 {
        for share in [0, 1, 2, 4] {
            let items = 60_000;
            let mut filter = made(kind, items, 0.01);
            (0..items * share / 2).for_each(|_| drop(filter.insert_digest(digest(&mut dice))));
            let all = filter.estimated_rate().unwrap();
            let some = filter.sample_lines(1_024, || dice.next()).estimated_rate().unwrap();
            // 1,024 lines know the fill of a blocked filter to 0.5 %, and the rate to eight times that; twice over is chance.
            let far = (some - all).abs() / all.max(1e-9);
            assert!(if share == 0 { some == 0.0 } else { far < 0.12 }, "kind {kind}, {share}: {some} for {all}");
        }
    }
    let cuckoo = AnyFilter::from(crate::Cuckoo::builder().items(1_000).build().unwrap());
    assert_eq!(cuckoo.sample_lines(64, || 0).estimated_rate(), None);
}
