//! Rates, sizes, growth and the bugs that others had.

use super::super::table::COPIES;
use super::*;
use crate::hash::{Contract, Secret};
use crate::{ErrorKind, Kind, WhenFull};

fn built(items: u64, rate: f64) -> Quotient {
    Quotient::builder().keys::<u64>().items(items).rate(rate).build().unwrap()
}

/// Measured within 4.5 standard deviations of what the shape says, and that within the promise.
fn assert_rate(filter: &Quotient, different: u64, asks: u64, seed: u64) {
    let expected = filter.expected_rate_at(different);
    assert!(expected <= filter.promised_rate() * 1.0001);
    let mut dice = Dice(seed);
    let digests: Vec<_> = (0..asks).map(|_| random(&mut dice)).collect();
    let mut answers = vec![false; digests.len()];
    filter.contains_digests(&digests, &mut answers).unwrap();
    let wrong = answers.iter().filter(|&&answer| answer).count() as f64;
    let (mean, spread) = (asks as f64 * expected, (asks as f64 * expected * (1.0 - expected)).sqrt());
    assert!((wrong - mean).abs() <= 4.5 * spread, "{wrong} of {asks}, expected {mean} ± {spread}");
    // The bits say the same: distinct fingerprints are a little fewer than keys.
    let shown = filter.estimated_rate();
    let error = (expected * different as f64 / filter.shape().fingerprints() as f64).sqrt()
        / (different as f64).sqrt().max(1.0);
    assert!((shown - expected).abs() <= 4.5 * error + 1e-15, "{shown} {expected}");
}

#[test]
fn rates_are_kept_at_any_size() {
    for (items, rate) in
        [(1, 0.01), (10, 0.01), (1000, 0.01), (1000, 0.001), (100_000, 0.01), (100_000, 0.001), (65_537, 0.05)]
    {
        let mut filter = built(items, rate);
        let mut dice = Dice(items);
        for _ in 0..items {
            filter.insert_digest(random(&mut dice)).unwrap();
        }
        assert_eq!(filter.len(), items);
        assert_rate(&filter, items, 1_000_000, items + 1);
        let counted = filter.approximate_count();
        assert!((counted.value - items as f64).abs() <= 3.0 + 0.01 * items as f64, "{counted:?}");
        assert!(counted.low <= items as f64 + 3.0 && filter.fill_ratio() <= 0.9);
    }
}

#[test]
fn memory_follows_the_keys() {
    let sizes = (10..=24).flat_map(|k| [1u64 << k, (1 << k) + 1, 3 << (k - 1), (1 << k) - 1]);
    for items in sizes.chain([1000, 1_000_000, 10_000_000]) {
        let filter = built(items, 0.01);
        let per_key = filter.size_in_bytes() as f64 * 8.0 / items as f64;
        assert!(per_key <= 12.5, "{items}: {per_key} bits per key");
        assert!(items < 100_000 || per_key <= 11.4, "{items}: {per_key} bits per key");
    }
    assert!(built(1, 0.01).size_in_bytes() <= 64 && built(0, 0.01).capacity() == 1);
}

/// T32: what was asked for fits, at powers of two too; a filter that refuses takes its capacity and not one more.
#[test]
fn the_capacity_is_always_taken() {
    for items in [1u64, 2, 3, 10, 64, 1000, 1024, 4096] {
        for seed in 0..if items > 500 { 40 } else { 200 } {
            let mut filter = Quotient::builder().items(items).rate(0.01).when_full(WhenFull::Refuse).build().unwrap();
            let memory = filter.size_in_bytes();
            let mut dice = Dice(seed);
            for _ in 0..items {
                filter.insert_digest(random(&mut dice)).unwrap();
            }
            assert!(filter.is_full() && filter.size_in_bytes() == memory, "{items} {seed}");
            let before = filter.clone();
            assert_eq!(filter.insert_digest(random(&mut dice)).unwrap_err().kind(), ErrorKind::Full);
            assert!(filter == before && filter.len() == items);
        }
    }
}

#[test]
fn a_growing_filter_keeps_all_keys_its_list_and_its_rate() {
    let mut filter = Quotient::builder().keys::<u64>().items(100).grow_to(200_000).rate(0.01).build().unwrap();
    let start = filter.size_in_bytes();
    let mut shapes = vec![*filter.shape()];
    for key in 0..200_000u64 {
        filter.insert(&key).unwrap();
        if filter.shape() != shapes.last().unwrap() {
            shapes.push(*filter.shape());
            let list = list(&filter);
            assert!(list.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert_eq!(list.iter().map(|&(_, copies)| copies).sum::<u64>(), key + 1);
        }
    }
    assert!(shapes.len() > 15 && shapes.iter().all(|shape| shape.fingerprints() == shapes[0].fingerprints()));
    assert!(shapes.windows(2).all(|pair| pair[1].words() <= pair[0].words() * 3 / 2 + 64), "steps, not doublings");
    assert!(start < 1000 && filter.size_in_bytes() * 8 < 200_000 * 15);
    let keys: Vec<u64> = (0..200_000).collect();
    let mut answers = vec![false; keys.len()];
    filter.contains_batch(&keys, &mut answers).unwrap();
    assert!(answers.iter().all(|&answer| answer));
    assert_rate(&filter, 200_000, 1_000_000, 5);
    // Grown or built so from the start: the same list.
    let mut whole = Quotient::builder().keys::<u64>().items(100).grow_to(200_000).rate(0.01).build().unwrap();
    whole.reserve(200_000).unwrap();
    whole.insert_batch(&keys).unwrap();
    assert_eq!(list(&whole), list(&filter));
    // Past its promise it goes on, at the rate that it says.
    for key in 200_000..400_000u64 {
        filter.insert(&key).unwrap();
    }
    assert!((0..400_000u64).all(|key| filter.contains(&key).unwrap()));
    assert!(filter.is_full() && filter.expected_rate() > 0.0101);
}

/// T29: with only legal removals nothing is lost; removing what is certainly absent says so and changes nothing.
#[test]
fn legal_removals_lose_nobody() {
    let mut filter = built(20_000, 0.05);
    let keys: Vec<u64> = (0..20_000).collect();
    filter.insert_batch(&keys).unwrap();
    let mut refused = 0;
    for absent in 20_000..40_000u64 {
        if !filter.contains(&absent).unwrap() {
            assert!(!filter.remove(&absent).unwrap());
            refused += 1;
        }
    }
    assert!(refused > 18_000 && filter.len() == 20_000);
    for gone in keys.iter().filter(|&key| key % 3 != 0) {
        assert!(filter.remove(gone).unwrap());
    }
    assert!(keys.iter().filter(|&key| key % 3 == 0).all(|key| filter.contains(key).unwrap()));
    assert_eq!(filter.len(), 20_000u64.div_ceil(3));
}

/// T30: two keys with one fingerprint are two copies.
#[test]
fn the_removal_of_one_of_two_that_collide_keeps_the_other() {
    let mut filter = built(1000, 0.01);
    let a = digest_of(filter.shape(), 4711);
    let b = Digest::new(a.lo + 1, 77);
    assert!(filter.insert_digest(a).unwrap());
    assert!(!filter.insert_digest(b).unwrap());
    assert!(filter.remove_digest(a) && filter.contains_digest(b));
    assert!(filter.remove_digest(b) && !filter.contains_digest(b) && !filter.remove_digest(b));
    assert!(filter.is_empty());
}

/// T34: one key ten thousand times takes 15 slots, sticks, and leaves room for the others.
#[test]
fn a_key_inserted_ten_thousand_times_does_not_fill_it() {
    let mut filter = Quotient::builder().keys::<u64>().items(1000).when_full(WhenFull::Refuse).build().unwrap();
    let shape = *filter.shape();
    for _ in 0..10_000 {
        filter.insert(&7u64).unwrap();
    }
    assert_eq!((filter.count_of(&7u64).unwrap(), filter.len()), (COPIES, COPIES));
    for key in 1000..1985u64 {
        filter.insert(&key).unwrap();
    }
    assert!(filter.is_full() && *filter.shape() == shape);
    // Full, and the stuck key is still taken: it is in for good.
    assert!(!filter.insert(&7u64).unwrap());
    assert_eq!(filter.insert(&1000u64).unwrap_err().kind(), ErrorKind::Full, "a copy that would be lost is refused");
    for _ in 0..20_000 {
        assert!(filter.remove(&7u64).unwrap());
    }
    assert!(filter.contains(&7u64).unwrap() && (1000..1985u64).all(|key| filter.contains(&key).unwrap()));
}

/// T33, T38: the least and the greatest fingerprint are like any other, and the bits do not depend on the order.
#[test]
fn order_leaves_no_trace_and_no_fingerprint_is_special() {
    let mut dice = Dice(9);
    let mut digests: Vec<_> = (0..5000).map(|_| random(&mut dice)).collect();
    digests.extend([Digest::new(0, 0), Digest::new(u64::MAX, u64::MAX), Digest::new(0, 5)]);
    let mut forward = built(6000, 0.01);
    let mut backward = forward.clone();
    forward.insert_digests(&digests).unwrap();
    for _ in 0..300 {
        backward.insert_digest(random(&mut dice)).unwrap();
    }
    let others: Vec<_> = list(&backward);
    digests.reverse();
    backward.insert_digests(&digests).unwrap();
    for (x, copies) in others {
        (0..copies).for_each(|_| assert!(backward.remove_digest(digest_of(forward.shape(), x))));
    }
    assert!(forward == backward && forward.len() == 5003);
    assert_eq!(forward.count_of_digest(Digest::new(0, 0)).unwrap(), 2);
    assert_eq!(list(&forward).last().unwrap().0, forward.shape().fingerprints() - 1);
}

/// The bit instructions and the portable form give the same answers, one by one and in a batch, of any length.
#[test]
fn singles_and_batches_agree_in_both_forms() {
    let mut filter = built(5000, 0.01);
    let keys: Vec<u64> = (0..5000).collect();
    filter.insert_batch(&keys).unwrap();
    let asked: Vec<u64> = (2500..7500 + 17).collect();
    let single: Vec<bool> = asked.iter().map(|key| filter.contains(key).unwrap()).collect();
    assert!(single[..2500].iter().all(|&answer| answer));
    for length in [0, 1, 31, 32, 33, 64, asked.len()] {
        let mut answers = vec![false; length];
        filter.contains_batch(&asked[..length], &mut answers).unwrap();
        assert_eq!(answers, single[..length]);
    }
    let geometry = filter.shape().geometry();
    let lines = crate::arch::quotient::Plain(filter.first.store.as_slice());
    for (key, &answer) in asked.iter().zip(&single) {
        let home = geometry.home(filter.contract().digest(key).unwrap().lo);
        assert_eq!(geometry.contains::<crate::arch::quotient::Portable, _, true>(lines, home), answer);
    }
    assert_eq!(filter.contains_batch(&asked, &mut [false; 3]).unwrap_err().kind(), ErrorKind::InvalidParameter);
}

/// T60, T61: merges of what does not belong together are refused with both named, and change nothing.
#[test]
fn merges_are_refused_whole() {
    let mut filter = built(1000, 0.01);
    filter.insert_all(0..500u64).unwrap();
    let before = filter.clone();
    let refusal = filter.merge(&built(2000, 0.01)).unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Shape);
    let message = refusal.to_string();
    assert!(message.contains("1221 slots of 128") && message.contains("2442 slots of 128"), "{message}");
    let secret = Secret::from_bytes([7; 32]);
    for contract in [Contract::xxh3(), Contract::keyed(&secret).with_encoding(filter.contract().encoding())] {
        let other = Quotient::builder().contract(contract).items(1000).rate(0.01).build().unwrap();
        assert_eq!(filter.merge(&other).unwrap_err().kind(), ErrorKind::Contract);
    }
    let full = Quotient::builder().keys::<u64>().items(1000).rate(0.01).when_full(WhenFull::Refuse);
    let (mut a, mut b) = (full.clone().build().unwrap(), full.build().unwrap());
    a.insert_all(0..600u64).unwrap();
    b.insert_all(600..1200u64).unwrap();
    let untouched = a.clone();
    assert_eq!(a.merge(&b).unwrap_err().kind(), ErrorKind::Full);
    assert!(a == untouched && a.len() == 600 && filter == before && filter.len() == 500);
    filter.merge(&before).unwrap();
    assert_eq!(filter.len(), 1000);
    assert_eq!(filter.count_of(&3u64).unwrap(), 2);
}

#[test]
fn absurd_wishes_are_refused() {
    let refused = |builder: QuotientBuilder| builder.build().unwrap_err().kind();
    assert_eq!(refused(Quotient::builder()), ErrorKind::InvalidParameter);
    assert_eq!(refused(Quotient::builder().items(10).rate(0.0)), ErrorKind::InvalidParameter);
    assert_eq!(refused(Quotient::builder().items(u64::MAX)), ErrorKind::InvalidParameter);
    assert_eq!(refused(Quotient::builder().items(10).grow_to(u64::MAX)), ErrorKind::InvalidParameter);
    assert_eq!(refused(Quotient::builder().items(1 << 30).rate(1e-14)), ErrorKind::InvalidParameter);
    assert_eq!(refused(Quotient::builder().items(1000).bytes(1000)), ErrorKind::LimitExceeded);
    assert_eq!(refused(Quotient::builder().bytes(10)), ErrorKind::InvalidParameter);
    let filter = Quotient::builder().bytes(1 << 20).rate(0.01).build().unwrap();
    assert!(filter.size_in_bytes() <= 1 << 20 && filter.capacity() * 12 > 8 << 20, "{filter:?}");
    assert!(Quotient::builder().items(filter.capacity() + 100).bytes(1 << 20).build().is_err());
    assert_eq!(filter.kind(), Kind::Quotient);
    let mut wide = Quotient::builder().items(50).rate(1e-15).build().unwrap();
    wide.insert("a").unwrap();
    assert!(wide.contains("a").unwrap() && !wide.contains("b").unwrap());
}

#[test]
fn clear_forgets_everything() {
    let mut filter = built(100, 0.01);
    filter.insert_all(0..100u64).unwrap();
    filter.clear();
    assert!(filter.is_empty() && filter == built(100, 0.01) && list(&filter).is_empty());
}
