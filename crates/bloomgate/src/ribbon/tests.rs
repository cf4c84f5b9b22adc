//! Every member is found, the rate is what was said (from both sides), the size is what was said, and no payload can
//! make a lookup panic.

use super::{Ribbon, RibbonShape};
use crate::bits::mapped::{CHUNK_BYTES, Region};
use crate::bits::{Mapped, Owned, Shared};
use crate::hash::{Contract, Digest};
use crate::math::dice::Dice;
use crate::math::estimate::within;
use crate::promise::{Promise, WhenFull};
use crate::{Error, ErrorKind, Guarantee, Kind};

fn digests(count: usize, seed: u64) -> Vec<Digest> {
    let mut dice = Dice(seed);
    (0..count).map(|_| Digest::new(dice.next(), dice.next())).collect()
}

fn of_digests(digests: &[Digest], rate: f64) -> Ribbon {
    Ribbon::builder().rate(rate).build_from_digests(digests).unwrap()
}

/// How many of the digests are answered with "maybe", one by one and by the batch, which must agree.
fn maybes(filter: &Ribbon<impl crate::bits::Store>, digests: &[Digest]) -> u64 {
    let mut answers = vec![false; digests.len()];
    filter.contains_digests(digests, &mut answers).unwrap();
    for (&digest, &answer) in digests.iter().zip(&answers).step_by(7) {
        assert_eq!(filter.contains_digest(digest), answer);
    }
    answers.iter().map(|&answer| u64::from(answer)).sum()
}

#[test]
fn every_member_is_found_at_every_small_size() {
    let all = digests(2100, 1);
    for count in (0..70).chain((70..1000).step_by(23)).chain(1015..1035).chain((1035..2100).step_by(67)) {
        for rate in [0.5, 0.01, 1e-9] {
            let filter = of_digests(&all[..count], rate);
            assert_eq!(maybes(&filter, &all[..count]), count as u64, "{count} at {rate}");
            assert_eq!(filter.len(), count as u64);
        }
    }
}

#[test]
fn every_member_is_found_at_large_sizes() {
    for (count, rate) in [(10_000, 0.3), (10_000, 0.01), (100_000, 0.01), (100_000, 1e-7), (1_000_000, 0.01)] {
        let all = digests(count, 2);
        let filter = of_digests(&all, rate);
        assert_eq!(maybes(&filter, &all), count as u64, "{count} at {rate}");
        assert!(filter.shape().columns().len() >= 2);
    }
}

/// The rate is exactly `2^-r`, at few keys and at many; and what was promised is kept.
#[test]
fn the_rate_is_two_to_the_minus_r_from_both_sides() {
    for (bits, sizes) in [
        (1, &[1, 100, 3000, 100_000][..]),
        (4, &[1, 2, 1000, 20_000]),
        (7, &[1, 500, 5000, 300_000]),
        (10, &[3, 1024, 50_000]),
        (16, &[1000, 100_000]),
    ] {
        let trials = if bits > 7 { 2_000_000 } else { 300_000 };
        let strangers = digests(trials, 99);
        for &size in sizes {
            let rate = (-f64::from(bits)).exp2();
            let filter = of_digests(&digests(size, 4), rate);
            assert_eq!(filter.shape().result_bits(), bits);
            assert_eq!((filter.expected_rate(), filter.estimated_rate()), (rate, rate));
            let hits = maybes(&filter, &strangers);
            assert!(within(hits, trials as u64, rate, 4.5), "{bits} bits, {size} keys: {hits} of {trials}");
        }
    }
    for asked in [0.9, 0.1, 0.01, 0.001, 1e-6, 2.4e-10] {
        let kept = of_digests(&digests(100, 5), asked).expected_rate();
        assert!(kept <= asked * 1.0001 && (kept > asked / 2.0 || asked > 0.5), "{asked}: {kept}");
    }
}

/// The whole memory against the least there is for the rate that was measured.
#[test]
fn the_size_is_within_a_hundredth_and_a_half_of_the_least() {
    for (rate, size) in [(0.01, 1_000_000), (0.001, 500_000)] {
        let filter = of_digests(&digests(size, 6), rate);
        let trials = 8_000_000;
        let hits: u64 = (0..8).map(|part| maybes(&filter, &digests(trials / 8, 700 + part))).sum();
        let measured = hits as f64 / trials as f64;
        let bits = filter.size_in_bytes() as f64 * 8.0 / size as f64;
        assert!(bits <= 1.015 * (1.0 / measured).log2(), "{bits} bits a key at {measured}");
        assert!(bits >= (1.0 / measured).log2() * 0.99, "{bits} bits a key at {measured}: less than there can be");
        assert_eq!(filter.size_in_bytes(), filter.store().as_slice().len() as u64 * 8);
    }
}

/// Smaller sets pay for whole words and for the last layer's room, but not without bounds.
#[test]
fn small_sets_have_small_filters() {
    for (size, most) in [(1, 448.0), (100, 9.0), (1000, 7.8), (10_000, 7.2), (100_000, 7.1)] {
        let bits = of_digests(&digests(size, 8), 0.01).size_in_bytes() as f64 * 8.0 / size as f64;
        assert!(bits <= most, "{size}: {bits} bits a key");
    }
}

#[test]
fn keys_that_come_again_cost_nothing_and_order_does_not_matter() {
    let once = digests(30_000, 9);
    let mut many: Vec<Digest> = once.iter().rev().chain(&once[..20_000]).chain(&once[100..5000]).copied().collect();
    many.extend(std::iter::repeat_n(once[3], 10_000));
    let (a, b) = (of_digests(&once, 0.01), of_digests(&many, 0.01));
    assert_eq!(b.len(), 30_000);
    assert_eq!(a, b);
    assert_eq!(a.store().as_slice(), b.store().as_slice());
    assert_eq!(of_digests(&[once[0]; 5000], 0.01).len(), 1);
    assert_ne!(a, of_digests(&once[1..], 0.01));
}

/// Digests that share a half, or whose bits are few: foreign hashes are not all as good as ours.
#[test]
fn digests_of_which_one_half_stands_still_are_told_apart() {
    let mut dice = Dice(10);
    for still in 0..4 {
        let half: Vec<Digest> = (0..20_000u64)
            .map(|i| match still {
                0 => Digest::new(dice.next(), 0),
                1 => Digest::new(0, dice.next()),
                2 => Digest::new(i, 0),
                _ => Digest::new(0, i),
            })
            .collect();
        let filter = of_digests(&half, 0.01);
        assert_eq!(maybes(&filter, &half), 20_000);
        let strangers: Vec<Digest> = (20_000..220_000).map(|i| Digest::new(i, 0)).collect();
        let hits = maybes(&filter, &strangers);
        assert!(within(hits, 200_000, filter.expected_rate(), 4.5), "{still}: {hits}");
    }
}

#[test]
fn no_keys_are_a_no_to_everything() {
    let filter = Ribbon::builder().keys::<u64>().build_from(std::iter::empty::<u64>()).unwrap();
    assert!(filter.is_empty() && filter.is_full());
    assert_eq!((filter.len(), filter.capacity(), filter.remaining(), filter.size_in_bytes()), (0, 0, 0, 8));
    assert_eq!((filter.expected_rate(), filter.fill_ratio()), (0.0, 0.0));
    assert_eq!(filter.shape().spare(), u64::MAX);
    assert!(!filter.contains(&0u64).unwrap());
    assert_eq!(maybes(&filter, &digests(1000, 11)), 0);
    assert_eq!(filter, filter.clone());
}

#[test]
fn keys_go_in_by_every_door_and_come_to_the_same() {
    let keys: Vec<u64> = (0..5000).map(|i| i * 7919).collect();
    let builder = || Ribbon::builder().rate(0.001).keys::<u64>();
    let slice = builder().build_from_slice(&keys).unwrap();
    assert_eq!(slice, builder().build_from(keys.iter().rev().copied()).unwrap());
    assert_eq!(slice, builder().build_from(keys.iter().copied().filter(|_| true)).unwrap());
    let contract = slice.contract().clone();
    let digests: Vec<Digest> = keys.iter().map(|key| contract.digest(key).unwrap()).collect();
    assert_eq!(slice, Ribbon::builder().rate(0.001).contract(contract).build_from_digests(&digests).unwrap());
    let mut answers = vec![false; keys.len()];
    slice.contains_batch(&keys, &mut answers).unwrap();
    assert!(answers.iter().all(|&answer| answer));
    assert!(keys.iter().all(|key| slice.contains(key).unwrap()));

    let words = ["one", "two", "three", "two"];
    let text = Ribbon::builder().build_from_slice(&words).unwrap();
    assert_eq!((text.len(), text.contains("two").unwrap()), (3, true));
    assert_eq!(
        (text.kind(), text.guarantee(), text.when_full()),
        (Kind::Ribbon, Guarantee::Superset, WhenFull::Refuse)
    );
    assert_eq!((text.capacity(), text.remaining(), text.is_full(), text.promised_rate()), (3, 0, true, 0.01));
    let count = text.approximate_count();
    assert_eq!((count.value, count.low, count.high), (3.0, 3.0, Some(3.0)));
    let shown = format!("{text:?}");
    assert!(shown.contains("result_bits: 7") && shown.len() < 1000, "{shown}");
}

fn refused<T>(result: Result<T, Error>, kind: ErrorKind, word: &str) {
    let Err(error) = result else { panic!("not refused: {word}") };
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(word), "{error}");
}

#[test]
fn what_cannot_be_built_is_refused_before_memory_is_asked_for() {
    let builder = || Ribbon::builder().keys::<u64>();
    for rate in [0.0, 1.0, -1.0, f64::NAN, 1e-16] {
        refused(builder().rate(rate).build_from_slice(&[1u64]), ErrorKind::InvalidParameter, "rate");
    }
    refused(builder().rate(1e-12).build_from_slice(&[1u64]), ErrorKind::InvalidParameter, "least rate");
    refused(builder().build_from(0..u64::MAX), ErrorKind::LimitExceeded, "2^40");
    refused(builder().build_memory(100_000).build_from(0..10_000u64), ErrorKind::LimitExceeded, "build_memory");
    let unknown = (0..1u64 << 50).filter(|_| true);
    refused(builder().build_memory(1 << 20).build_from(unknown), ErrorKind::LimitExceeded, "build_memory");
    assert!(builder().build_memory(1 << 20).build_from(0..10_000u64).is_ok());
    refused(builder().build_from_slice(&["text"]), ErrorKind::Encoding, "");
    let filter = builder().build_from_slice(&[1u64]).unwrap();
    refused(filter.contains_batch(&[1u64, 2], &mut [false]), ErrorKind::InvalidParameter, "2 keys");
    assert!(filter.contains("1x").is_err());
}

#[test]
fn hostile_shapes_are_refused() {
    for (bits, columns) in [
        (0, &[64][..]),
        (33, &[64]),
        (u32::MAX, &[64]),
        (7, &[0]),
        (7, &[63]),
        (7, &[64, 65]),
        (7, &[u64::MAX]),
        (7, &[u64::MAX - 63]),
        (7, &[1 << 42]),
        (7, &[64; 9]),
    ] {
        refused(RibbonShape::new(bits, 0, columns), ErrorKind::InvalidParameter, "ribbon");
    }
    let largest = RibbonShape::new(32, u64::MAX, &[(1 << 40) / 3 * 4 / 64 * 64; 8]).unwrap();
    assert!(largest.words() < 1 << 57);
    let shape = RibbonShape::new(7, 3, &[640, 64]).unwrap();
    assert_eq!((shape.result_bits(), shape.seed(), shape.columns()), (7, 3, &[640, 64][..]));
    assert_eq!((shape.words(), shape.spare(), shape.expected_rate(9)), (1 + 70 + 7, 0, 1.0 / 128.0));
    let promise = Promise { capacity: 5, rate: 0.01, when_full: WhenFull::Refuse };
    let parts =
        |shape, len, words| Ribbon::from_parts(shape, Contract::xxh3(), promise, len, Owned::zeroed(words).unwrap());
    refused(parts(shape, 5, 77), ErrorKind::Corrupt, "78 words");
    refused(parts(shape, 5, 79), ErrorKind::Corrupt, "78 words");
    refused(parts(shape, 0, 78), ErrorKind::Corrupt, "layers");
    refused(parts(RibbonShape::new(7, 0, &[]).unwrap(), 5, 1), ErrorKind::Corrupt, "layers");
    assert!(parts(shape, 5, 78).is_ok());
}

/// A payload may hold any bits: lookups answer something, one by one and by the batch alike.
#[test]
fn hostile_payloads_answer_and_do_not_panic() {
    let strangers = digests(5000, 12);
    let mut dice = Dice(13);
    let promise = Promise { capacity: 5, rate: 0.5, when_full: WhenFull::Refuse };
    for bits in [1, 7, 10, 17, 32] {
        for columns in [&[64][..], &[128, 64], &[4096, 320, 64], &[64; 8], &[64, 1024, 64, 1 << 16]] {
            for fill in [0, u64::MAX, 1] {
                let shape = RibbonShape::new(bits, 9, columns).unwrap();
                let mut store = Owned::zeroed(shape.words()).unwrap();
                for word in store.as_mut_slice() {
                    *word = if fill == 1 { dice.next() } else { fill };
                }
                let filter = Ribbon::from_parts(shape, Contract::xxh3(), promise, 5, store).unwrap();
                maybes(&filter, &strangers);
            }
        }
    }
}

/// The portable path and the one for this processor: the same columns and the same answers.
#[test]
fn shared_words_answer_as_owned_ones_do() {
    let all = digests(5000, 14);
    let filter = of_digests(&all, 0.001);
    let mut words = Owned::zeroed(filter.shape().words()).unwrap();
    words.as_mut_slice().copy_from_slice(filter.store().as_slice());
    let shared = Ribbon::from_parts(
        *filter.shape(),
        filter.contract().clone(),
        filter.promise(),
        filter.len(),
        Shared::from_owned(words).unwrap(),
    )
    .unwrap();
    assert_eq!(filter, shared);
    assert_eq!(maybes(&shared, &all), 5000);
    let strangers = digests(50_000, 15);
    assert_eq!(maybes(&shared, &strangers), maybes(&filter, &strangers));
}

fn mapped(filter: &Ribbon, spoil: impl Fn(usize, &mut u32)) -> Ribbon<Mapped> {
    let bytes: Vec<u8> = filter.store().as_slice().iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut sums: Vec<u32> = bytes.chunks(CHUNK_BYTES).map(crc32c::crc32c).collect();
    sums.iter_mut().enumerate().for_each(|(at, sum)| spoil(at, sum));
    let region = Region::of_bytes(&bytes).unwrap();
    let store = Mapped::new(region, 0, 0, filter.shape().words(), sums).unwrap();
    Ribbon::from_parts(*filter.shape(), filter.contract().clone(), filter.promise(), filter.len(), store).unwrap()
}

/// Damaged chunks answer "maybe" for all that they have a part in, and the others answer as ever.
#[test]
fn words_that_are_not_admitted_are_a_maybe() {
    let all = digests(400_000, 16);
    let filter = of_digests(&all, 0.01);
    assert!(filter.size_in_bytes() > 5 * CHUNK_BYTES as u64);
    let strangers = digests(100_000, 17);
    let sound = maybes(&filter, &strangers);

    let whole = mapped(&filter, |_, _| ());
    assert_eq!((maybes(&whole, &strangers), maybes(&whole, &all)), (sound, 400_000));
    assert!(whole.contains_digest(all[0]) && whole == filter);

    // Chunk 2 has nothing but columns: about a sixth of all keys.
    let bad = mapped(&filter, |at, sum| *sum ^= u32::from(at == 2));
    assert_eq!(maybes(&bad, &all), 400_000);
    let now = maybes(&bad, &strangers);
    assert!(now > sound + 10_000 && now < sound + 30_000, "{now}, sound {sound}");
    let mut answers = vec![false; strangers.len()];
    filter.contains_digests(&strangers, &mut answers).unwrap();
    assert!(strangers.iter().zip(&answers).all(|(&digest, &answer)| !answer || bad.contains_digest(digest)));

    // Chunk 0 has the thresholds: nothing can be said of anyone.
    let blind = mapped(&filter, |at, sum| *sum ^= u32::from(at == 0));
    assert_eq!(maybes(&blind, &strangers), 100_000);

    let none = of_digests(&[], 0.01);
    assert_eq!(maybes(&mapped(&none, |_, _| ()), &strangers), 0);
    assert_eq!(maybes(&mapped(&none, |_, sum| *sum ^= 1), &strangers), 100_000);
}

/// Words that never change their meaning: a filter that was written once is read for ever.
#[test]
fn the_words_of_a_known_set_stay_as_they_are() {
    let filter = Ribbon::builder().rate(0.01).keys::<u64>().build_from(0..3000u64).unwrap();
    let bytes: Vec<u8> = filter.store().as_slice().iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(
        (filter.shape().columns(), filter.shape().seed(), bytes.len(), crc32c::crc32c(&bytes)),
        (&[2880, 192][..], 0, 2704, 2_164_182_990)
    );
}
