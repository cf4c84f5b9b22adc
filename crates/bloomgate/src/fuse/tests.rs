//! What a fuse filter promises: every member found, the rate to both sides, the size, the same bytes for the same set.

use super::build::build;
use super::{Fuse, FuseShape};
use crate::bits::mapped::Region;
use crate::bits::{Mapped, Owned};
use crate::error::ErrorKind;
use crate::hash::Digest;
use crate::key::Uuid;
use crate::kind::{Guarantee, Kind};
use crate::math::dice::Dice;
use crate::math::fuse::{build_bytes, shards_for, table_for};
use crate::promise::{Promise, WhenFull};

/// Different digests: SplitMix64 is a bijection, so its first `n` numbers are.
fn digests(n: usize, seed: u64) -> Vec<Digest> {
    let mut dice = Dice(seed);
    (0..n).map(|_| Digest::new(dice.next(), 0)).collect()
}

fn of(n: usize, seed: u64, width: u32) -> Fuse {
    Fuse::builder().fingerprint_bits(width).build_from_digests(&digests(n, seed)).unwrap()
}

fn all_there(filter: &Fuse, digests: &[Digest]) -> bool {
    let mut answers = vec![false; digests.len()];
    filter.contains_digests(digests, &mut answers).unwrap();
    answers.into_iter().all(|there| there) && digests.iter().all(|&digest| filter.contains_digest(digest))
}

fn words(filter: &Fuse) -> &[u64] {
    filter.store().as_slice()
}

/// T46 and the widths: every member of small sets is found at every width, one by one and by the batch.
#[test]
fn every_member_is_found_at_every_width() {
    for width in 1..=32 {
        for n in [1, 2, 3, 31, 32, 33, 1000] {
            let members = digests(n, n as u64 * 64 + u64::from(width));
            let filter = Fuse::builder().fingerprint_bits(width).build_from_digests(&members).unwrap();
            assert_eq!(filter.len(), n as u64);
            assert_eq!(filter.fingerprint_bits(), width);
            assert!(all_there(&filter, &members), "{n} keys of {width} bits");
        }
    }
}

/// T45, T46: a dense sample of all sizes to 20,000, and every size of the range that fails elsewhere, three sets each.
#[test]
fn every_size_is_solved() {
    let mut seeds = Dice(45);
    let sizes = (1..200).chain((200..20_000).step_by(97)).chain((11_480..=11_521).cycle().take(126));
    for n in sizes {
        let seed = seeds.next();
        let members = digests(n, seed);
        let filter = Fuse::builder().fingerprint_bits(7).build_from_digests(&members).unwrap();
        let mut answers = vec![false; n];
        filter.contains_digests(&members, &mut answers).unwrap();
        assert!(answers.iter().all(|&there| there), "{n} keys from seed {seed}");
        let per_key = filter.shape().cells() as f64 / n as f64;
        assert!(n < 1000 || per_key < 1.6, "{n} keys took {per_key} cells each");
    }
}

/// Sequential integers, the usual keys of tests elsewhere, at sizes that failed there.
#[test]
fn sequential_integers_are_solved() {
    for n in [2u64, 11_511, 100_000, 500_000] {
        let keys: Vec<u64> = (0..n).collect();
        let filter = Fuse::builder().keys::<u64>().build_from_slice(&keys).unwrap();
        let mut answers = vec![false; keys.len()];
        filter.contains_batch(&keys, &mut answers).unwrap();
        assert!(answers.iter().all(|&there| there) && filter.len() == n);
    }
}

/// T9: nothing in, "no" to everything, and no error but for keys of another type.
#[test]
fn the_empty_set_says_no_to_everything() {
    let filter = Fuse::builder().keys::<u64>().build_from(std::iter::empty::<u64>()).unwrap();
    assert!(filter.is_empty() && filter.is_full());
    assert_eq!((filter.len(), filter.capacity(), filter.remaining()), (0, 0, 0));
    assert_eq!((filter.expected_rate(), filter.estimated_rate(), filter.fill_ratio()), (0.0, 0.0, 0.0));
    let keys: Vec<u64> = (0..10_000).collect();
    let mut answers = vec![true; keys.len()];
    filter.contains_batch(&keys, &mut answers).unwrap();
    assert!(answers.iter().all(|&there| !there));
    assert!(keys.iter().all(|key| !filter.contains(key).unwrap()));
    assert_eq!(filter.contains(&Uuid([7; 16])).unwrap_err().kind(), ErrorKind::Encoding);
    assert_eq!(filter.contains_batch(&[Uuid([7; 16])], &mut [false]).unwrap_err().kind(), ErrorKind::Encoding);
}

/// T44: repetitions count once, whatever their number, and leave no trace.
#[test]
fn repeated_keys_count_once_and_leave_no_trace() {
    let members = digests(5000, 44);
    let plain = Fuse::builder().build_from_digests(&members).unwrap();
    let twice: Vec<Digest> = members.iter().chain(&members).copied().collect();
    let half: Vec<Digest> = members.iter().chain(&members[..2500]).copied().collect();
    let once_more: Vec<Digest> = members.iter().chain(&members[77..78]).copied().collect();
    let crowd: Vec<Digest> = members.iter().copied().chain(std::iter::repeat_n(members[9], 1000)).collect();
    for repeated in [twice, half, once_more, crowd] {
        let filter = Fuse::builder().build_from_digests(&repeated).unwrap();
        assert_eq!(filter.len(), 5000);
        assert_eq!(filter.shape(), plain.shape());
        assert_eq!(words(&filter), words(&plain));
    }
    for copies in [2, 3, 63, 64, 65, 121, 128, 129, 100_000] {
        let filter = Fuse::builder().keys::<u64>().build_from(std::iter::repeat_n(7u64, copies)).unwrap();
        assert_eq!(filter.len(), 1);
        assert!(filter.contains(&7u64).unwrap());
        let others = (8..10_008u64).filter(|key| filter.contains(key).unwrap()).count();
        assert!(others < 200, "{others} of 10,000 others, 78 expected");
    }
    // 121 keys of which some come two, three and four times.
    let some: Vec<u64> = (0..121u64).map(|i| i * i % 61).collect();
    let different: std::collections::BTreeSet<u64> = some.iter().copied().collect();
    let filter = Fuse::builder().keys::<u64>().build_from_slice(&some).unwrap();
    assert_eq!(filter.len(), different.len() as u64);
    assert!(some.iter().all(|key| filter.contains(key).unwrap()));
}

/// The measured rate of absent keys lies within 4.5 standard deviations of 2^-width, below and above.
#[test]
fn the_rate_is_two_to_the_minus_width() {
    for (width, n) in
        [(1, 100), (4, 50), (4, 30_000), (7, 100), (7, 200_000), (8, 1000), (8, 150_000), (10, 20_000), (16, 5000)]
    {
        let filter = of(n, 1000 + n as u64, width);
        let expected = filter.expected_rate();
        assert_eq!(expected, 0.5f64.powi(width as i32));
        let asked = if width > 10 { 6_000_000 } else { 1_000_000 };
        let mut dice = Dice(0xAB5E_4700 ^ u64::from(width));
        let mut found = 0u64;
        let mut answers = vec![false; 10_000];
        for _ in 0..asked / answers.len() {
            let absent: Vec<Digest> = answers.iter().map(|_| Digest::new(dice.next(), 0)).collect();
            filter.contains_digests(&absent, &mut answers).unwrap();
            found += answers.iter().filter(|&&there| there).count() as u64;
        }
        let mean = asked as f64 * expected;
        let deviation = (mean * (1.0 - expected)).sqrt();
        let off = (found as f64 - mean) / deviation;
        assert!(off.abs() < 4.5, "{width} bits, {n} keys: {found} of {asked}, {mean} expected");
    }
}

/// The rate over many tiny filters, where free cells are most of all: each alone is its own dice.
#[test]
fn the_rate_holds_over_many_tiny_filters() {
    let mut dice = Dice(3);
    for n in [1, 2, 5] {
        let (mut found, mut asked) = (0u64, 0u64);
        for seed in 0..400 {
            let filter = of(n, 9_000_000 + seed * 7, 5);
            for _ in 0..500 {
                found += u64::from(filter.contains_digest(Digest::new(dice.next(), 0)));
                asked += 1;
            }
        }
        let mean = asked as f64 / 32.0;
        let off = (found as f64 - mean) / (mean * 31.0 / 32.0).sqrt();
        assert!(off.abs() < 4.5, "{n} keys: {found} of {asked}, {mean} expected");
    }
}

/// What a rate costs: the bits that were promised, from a million keys on.
#[test]
fn a_million_keys_take_the_bits_that_were_promised() {
    let members = digests(1_000_000, 10);
    for (rate, most) in [(0.01, 7.95), (1.0 / 256.0, 9.05)] {
        let filter = Fuse::builder().rate(rate).build_from_digests(&members).unwrap();
        let bits = filter.size_in_bytes() as f64 * 8.0 / 1e6;
        assert!(bits <= most && bits > most - 0.2, "{bits} bits a key at {rate}");
        assert!(filter.expected_rate() <= rate && filter.promised_rate() == rate);
        assert!(all_there(&filter, &members));
        assert!((filter.fill_ratio() - 0.885).abs() < 0.01, "{}", filter.fill_ratio());
    }
}

/// The same for every size: the arithmetic alone, first size, in shards or not. The largest shard is three deviations above the mean.
#[test]
fn every_size_from_a_million_on_keeps_to_the_promised_bits() {
    let mut n = 1_000_000u64;
    while n < 200_000_000 {
        let shards = shards_for(n);
        let share = n / shards;
        let largest = if shards > 1 { share + 3 * share.isqrt() } else { n };
        let (segment, segments) = table_for(largest, 0);
        let cells = (segment * segments * shards) as f64;
        for (width, most) in [(7.0, 7.95), (8.0, 9.05)] {
            let bits = (cells * width + 128.0) / n as f64;
            assert!(bits <= most, "{n} keys in {shards} shards take {bits} bits each");
        }
        assert!(cells / n as f64 > 1.09, "{n} keys cannot be solved in {cells} cells");
        n += 1 + n / 3001;
    }
}

/// The same set gives the same words: in any order, on any number of threads, from keys or from digests.
#[test]
fn the_same_set_gives_the_same_words() {
    let keys: Vec<u64> = (0..4_000_000u64).map(|i| i * 7919).collect();
    assert!(shards_for(keys.len() as u64) > 1);
    let builder = || Fuse::builder().keys::<u64>().rate(0.01);
    let one = builder().threads(1).build_from_slice(&keys).unwrap();
    let backwards = builder().threads(3).build_from(keys.iter().rev().copied()).unwrap();
    assert_eq!(one.shape(), backwards.shape());
    assert!(words(&one) == words(&backwards) && one == backwards);
    let mut answers = vec![false; keys.len()];
    one.contains_batch(&keys, &mut answers).unwrap();
    assert!(answers.iter().all(|&there| there));
    let absent: Vec<u64> = (0..1_000_000u64).map(|i| i * 7919 + 1).collect();
    let mut answers = vec![false; absent.len()];
    one.contains_batch(&absent, &mut answers).unwrap();
    let found = answers.iter().filter(|&&there| there).count() as f64;
    let mean = absent.len() as f64 / 128.0;
    assert!((found - mean).abs() < 4.5 * mean.sqrt(), "{found} of a million, {mean} expected");
    assert!(answers.iter().zip(&absent).all(|(&there, key)| there == one.contains(key).unwrap()));
}

/// Every way in gives the same filter, and text is a key too.
#[test]
fn every_way_in_gives_the_same_filter() {
    let names: Vec<String> = (0..5000).map(|i| format!("name-{i}")).collect();
    let slice = Fuse::builder().rate(0.001).build_from_slice(&names).unwrap();
    let iterator = Fuse::builder().rate(0.001).build_from(names.iter()).unwrap();
    let digests: Vec<Digest> = names.iter().map(|name| slice.contract().digest(name.as_str()).unwrap()).collect();
    let digested = Fuse::builder().rate(0.001).build_from_digests(&digests).unwrap();
    assert!(slice == iterator && slice == digested && slice == slice.clone());
    assert_eq!(slice.fingerprint_bits(), 10);
    assert!(names.iter().all(|name| slice.contains(name.as_str()).unwrap()));
    assert!(format!("{slice:?}").len() < 1000);
    let other = Fuse::builder().rate(0.001).build_from(names[1..].iter()).unwrap();
    assert!(slice != other);
}

#[test]
fn what_it_says_of_itself() {
    let filter = of(1000, 5, 8);
    assert_eq!((filter.kind(), filter.guarantee()), (Kind::Fuse, Guarantee::Superset));
    assert_eq!((filter.len(), filter.capacity(), filter.remaining()), (1000, 1000, 0));
    assert!(filter.is_full() && !filter.is_empty() && filter.when_full() == WhenFull::Refuse);
    assert_eq!(filter.promised_rate(), 1.0 / 256.0);
    let count = filter.approximate_count();
    assert_eq!((count.value, count.low, count.high), (1000.0, 1000.0, Some(1000.0)));
    assert_eq!(filter.size_in_bytes(), filter.shape().words() * 8);
    assert_eq!(filter.promise().capacity, 1000);
}

/// What cannot be kept is refused, and the refusal says why.
#[test]
fn what_cannot_be_kept_is_refused() {
    let build = |builder: super::FuseBuilder| builder.build_from(["a", "b"]).unwrap_err();
    for rate in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, 1e-10, 1e-16] {
        assert_eq!(build(Fuse::builder().rate(rate)).kind(), ErrorKind::InvalidParameter, "{rate}");
    }
    for bits in [0, 33, u32::MAX] {
        assert_eq!(build(Fuse::builder().fingerprint_bits(bits)).kind(), ErrorKind::InvalidParameter);
    }
    assert_eq!(build(Fuse::builder().rate(0.01).fingerprint_bits(6)).kind(), ErrorKind::InvalidParameter);
    assert_eq!(build(Fuse::builder().build_memory(10)).kind(), ErrorKind::LimitExceeded);
    let keys: Vec<u64> = (0..100_000).collect();
    let needed = build_bytes(keys.len() as u64, 7, 1);
    assert!((35..60).contains(&(needed / keys.len() as u64)), "{needed}");
    let limited = |bytes| Fuse::builder().keys::<u64>().build_memory(bytes);
    assert!(limited(needed).build_from_slice(&keys).is_ok());
    assert_eq!(limited(needed - 1).build_from_slice(&keys).unwrap_err().kind(), ErrorKind::LimitExceeded);
    let endless = std::iter::repeat(1u64);
    assert_eq!(limited(1 << 20).build_from(endless).unwrap_err().kind(), ErrorKind::LimitExceeded);
    let mixed = Fuse::builder().keys::<u64>().build_from([Uuid([7; 16])]).unwrap_err();
    assert_eq!(mixed.kind(), ErrorKind::Encoding);
    let filter = of(10, 1, 8);
    assert_eq!(filter.contains_batch(&["a"], &mut []).unwrap_err().kind(), ErrorKind::InvalidParameter);
    assert!(filter.contains(&Uuid([7; 16])).is_err());
}

/// Digests whose halves are all alike but for the last bits still make a table: another seed is another graph.
#[test]
fn poor_digests_are_solved_all_the_same() {
    for shift in [0, 20, 43] {
        let poor: Vec<Digest> = (0..50_000u64).map(|i| Digest::new(i << shift, 0)).collect();
        let filter = Fuse::builder().build_from_digests(&poor).unwrap();
        assert_eq!(filter.len(), 50_000);
        assert!(all_there(&filter, &poor));
    }
}

/// Numbers from a hostile file: refused before anything is taken from them.
#[test]
fn hostile_shapes_are_refused() {
    let good = (7, 64, 3, 1, 9);
    assert!(FuseShape::new(good.0, good.1, good.2, good.3, good.4).is_ok());
    for (bits, length, count, shards) in [
        (0, 64, 3, 1),
        (33, 64, 3, 1),
        (7, 0, 3, 1),
        (7, 2, 3, 1),
        (7, 63, 3, 1),
        (7, 1 << 19, 3, 1),
        (7, u64::MAX, 3, 1),
        (7, 64, 0, 1),
        (7, 64, 2, 1),
        (7, 64, u64::MAX, 1),
        (7, 64, 3, 0),
        (7, 32, 3, 2),
        (7, 64, 3, u64::MAX),
        (32, 1 << 18, 1 << 40, 1 << 20),
        (32, 1 << 18, u64::MAX, 1 << 32),
    ] {
        let refusal = FuseShape::new(bits, length, count, shards, 0).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::InvalidParameter, "{bits} {length} {count} {shards}");
    }
    let largest = FuseShape::new(32, 1 << 18, 1 << 39, 1, u64::MAX).unwrap();
    assert_eq!(largest.words(), 1 << 56);
}

fn promise(capacity: u64) -> Promise {
    Promise { capacity, rate: 0.01, when_full: WhenFull::Refuse }
}

/// Any bits are answered by "maybe" or "no", never by a panic or a read elsewhere; numbers that disagree are refused.
#[test]
fn hostile_payloads_are_answered() {
    let mut dice = Dice(77);
    let contract = of(1, 1, 8).contract().clone();
    for width in 1..=32 {
        for (length, count, shards) in [(4, 3, 1), (64, 5, 3), (256, 3, 1)] {
            let shape = FuseShape::new(width, length, count, shards, dice.next()).unwrap();
            let mut store = Owned::zeroed(shape.words()).unwrap();
            store.as_mut_slice().iter_mut().for_each(|word| *word = dice.next());
            let filter = Fuse::from_parts(shape, contract.clone(), promise(5), 5, store).unwrap();
            let asked = digests(200, dice.next());
            let mut answers = vec![false; asked.len()];
            filter.contains_digests(&asked, &mut answers).unwrap();
            for (&digest, &answer) in asked.iter().zip(&answers) {
                assert_eq!(answer, filter.contains_digest(digest));
                // Against the plainest reading there is: bit by bit.
                let places = shape.places;
                let hash = places.hash(digest.lo);
                let base = places.shard(hash) * places.stride();
                let xor = places.local(hash).into_iter().fold(0, |xor, cell| {
                    assert!(cell < places.stride());
                    let value = bit_by_bit(words(&filter), base + cell, width);
                    assert_eq!(value, places.cell(words(&filter), base + cell));
                    xor ^ value
                });
                assert_eq!(answer, xor == places.fingerprint(hash));
            }
        }
    }
    let shape = FuseShape::new(7, 64, 3, 1, 0).unwrap();
    for (words, len) in [(shape.words() - 1, 1), (shape.words() + 1, 1), (0, 0), (shape.words(), shape.cells() + 1)] {
        let store = Owned::zeroed(words).unwrap();
        let refusal = Fuse::from_parts(shape, contract.clone(), promise(1), len, store).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Corrupt);
    }
}

fn bit_by_bit(words: &[u64], cell: u64, width: u32) -> u32 {
    let at = |bit: u64| (words[(bit / 64) as usize] >> (bit % 64)) as u32 & 1;
    (0..width).fold(0, |value, bit| value | at(cell * u64::from(width) + u64::from(bit)) << bit)
}

/// The spare bits are those that no solved table ever sets, and no more than those.
#[test]
fn spare_bits_are_zero_and_all_others_are_cells() {
    for width in 1..=32 {
        for n in [1, 3, 700] {
            let filter = of(n, u64::from(width), width);
            let shape = filter.shape();
            let last = words(&filter)[words(&filter).len() - 1];
            assert_eq!(last & shape.spare(), 0);
            let free = shape.words() * 64 - shape.cells() * u64::from(width);
            let counted = if free >= 64 { 64 } else { free };
            assert_eq!(u64::from(shape.spare().count_ones()), counted, "{width} bits, {n} keys");
        }
    }
}

/// A mapped payload gives the same answers; a damaged chunk of it says "maybe", and never "no" to a member.
#[test]
fn mapped_words_answer_alike_and_damage_says_maybe() {
    for width in [7, 8, 26] {
        let members = digests(100_000, 6);
        let owned = Fuse::builder().fingerprint_bits(width).build_from_digests(&members).unwrap();
        let asked: Vec<Digest> = members[..5000].iter().copied().chain(digests(20_000, 99)).collect();
        let mut expected = vec![false; asked.len()];
        owned.contains_digests(&asked, &mut expected).unwrap();
        let mut bytes: Vec<u8> = words(&owned).iter().flat_map(|word| word.to_le_bytes()).collect();
        let sums: Vec<u32> = bytes.chunks(64 * 1024).map(crc32c::crc32c).collect();
        let map = |bytes: &[u8]| {
            let region = Region::of_bytes(bytes).unwrap();
            let store = Mapped::new(region, 0, 0, owned.shape().words(), sums.clone()).unwrap();
            Fuse::from_parts(*owned.shape(), owned.contract().clone(), owned.promise(), owned.len(), store).unwrap()
        };
        let mapped = map(&bytes);
        let mut answers = vec![false; asked.len()];
        for _ in 0..2 {
            mapped.contains_digests(&asked, &mut answers).unwrap();
            assert_eq!(answers, expected);
        }
        assert!(mapped == owned);
        for byte in &mut bytes[70_000..70_100] {
            *byte ^= 0xFF;
        }
        let damaged = map(&bytes);
        damaged.contains_digests(&asked, &mut answers).unwrap();
        assert!(answers.iter().zip(&expected).all(|(&got, &good)| got || !good), "a wrong no");
        assert!(answers != expected, "the damage was not seen");
        let one_by_one: Vec<bool> = asked.iter().map(|&digest| damaged.contains_digest(digest)).collect();
        assert_eq!(one_by_one, answers);
    }
}

/// The builder's own loop: repetitions are found in the first trial, and a set without them is left alone.
#[test]
fn repetitions_are_dropped_from_the_halves() {
    let mut halves = [5u64, 3, 5, 5, 9, 3];
    let (_, _, len) = build(&mut halves, 7, 1).unwrap();
    assert_eq!(len, 3);
    let mut different = [9u64, 3, 5];
    let (_, _, len) = build(&mut different, 7, 1).unwrap();
    assert_eq!((len, different), (3, [9, 3, 5]));
}
