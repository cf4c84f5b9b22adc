//! A folded filter is the filter that would have been built so: the same words, at every factor, in every layout.

use super::layout::Layout;
use super::{Blocked, BlockedLayout, Bloom, Classic, ClassicLayout, Counting, Partitioned, PartitionedLayout};
use crate::bits::{Mapped, Owned};
use crate::error::ErrorKind;
use crate::format::OpenOptions;
use crate::hash::{Contract, Digest};
use crate::math::estimate::within;
use crate::promise::{Promise, WhenFull};

fn mix(i: u64) -> u64 {
    let z = (i ^ (i >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn digests(range: std::ops::Range<u64>) -> Vec<Digest> {
    range.map(|i| Digest::new(mix(2 * i + 1), mix(mix(2 * i + 2)))).collect()
}

fn built<L: Layout>(layout: L, digests: &[Digest]) -> Bloom<L, Owned> {
    let promise = Promise { capacity: 1_000, rate: layout.expected_rate(1_000), when_full: WhenFull::GoOn };
    let mut filter = Bloom::empty(layout, Contract::given(), promise).unwrap();
    filter.insert_digests(digests).unwrap();
    filter
}

fn folds_as_built<L: Layout>(layout: L, factors: &[u32]) {
    // The corners of the hash too, where rounding would show.
    let mut keys = digests(0..700);
    for corner in [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1] {
        keys.extend([Digest::new(corner, corner), Digest::new(corner, 5), Digest::new(5, corner)]);
    }
    let large = built(layout, &keys);
    for &factor in factors {
        let small = built(layout.with_spread(layout.spread() / u64::from(factor)).unwrap(), &keys);
        let folded = large.folded(factor).unwrap();
        assert_eq!(folded.layout(), small.layout());
        assert_eq!(folded.store().as_slice(), small.store().as_slice(), "{layout:?} by {factor}");
        assert!(keys.iter().all(|&key| folded.contains_digest(key)));
        assert!(folded.len() <= large.len() && !folded.is_empty());
        // The count follows that of one which was built so, as far as an expected number can.
        let (told, is) = (folded.len() as f64, small.len() as f64);
        assert!((told - is).abs() <= 1.0 + 5.0 * is.sqrt(), "{layout:?} by {factor}: counts {told}, {is} if built so");
        let mapped: Bloom<L, Mapped> = Bloom::map_bytes(&large.to_bytes().unwrap(), &OpenOptions::new()).unwrap();
        assert!(mapped.folded(factor).unwrap() == folded);
        assert!(large.clone().into_shared().unwrap().folded(factor).unwrap() == folded);
        // What is folded can be written down: its promise is one that its shape keeps.
        let back = Bloom::<L>::from_bytes(&folded.to_bytes().unwrap()).unwrap();
        assert!(back == folded);
    }
}

#[test]
fn folded_filters_are_the_filters_built_so() {
    for lines_per_key in [1, 2, 3, 5, 8] {
        for paired in [false, true] {
            let layout = BlockedLayout::new(48, lines_per_key, paired).unwrap();
            folds_as_built(layout, &[1, 2, 3, 4, 6, 8, 12, 16, 24, 48]);
        }
    }
    folds_as_built(BlockedLayout::new(77, 1, false).unwrap(), &[7, 11, 77]);
    for (bits, hashes, factors) in [
        (9_600, 7, &[1, 2, 3, 4, 5, 8, 64, 75, 9_600][..]),
        (6_006, 3, &[2, 3, 7, 11, 13, 6_006][..]),
        (1 << 13, 13, &[2, 4, 64, 128, 1 << 13][..]),
        (65, 1, &[5, 13, 65][..]),
    ] {
        folds_as_built(ClassicLayout::new(bits, hashes).unwrap(), factors);
        folds_as_built(PartitionedLayout::new(bits, hashes).unwrap(), factors);
    }
}

#[test]
fn folds_of_folds_are_folds() {
    let large = built(BlockedLayout::new(64, 1, false).unwrap(), &digests(0..500));
    assert!(large.folded(2).unwrap().folded(4).unwrap() == large.folded(8).unwrap());
    // And the plain form of a counting filter folds as any other.
    let mut counting = Counting::builder().items(2_000).build().unwrap();
    counting.insert_digests(&digests(0..500)).unwrap();
    let plain = counting.to_plain().unwrap();
    let lines = plain.layout().lines() as u32;
    let one_line = plain.folded(lines).unwrap();
    assert!(digests(0..500).into_iter().all(|key| one_line.contains_digest(key)));
}

#[test]
fn what_does_not_divide_is_refused_and_what_does_is_named() {
    let filter = built(BlockedLayout::new(15, 1, false).unwrap(), &digests(0..10));
    for factor in [0, 2, 4, 16, 30, u32::MAX] {
        let refusal = filter.folded(factor).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::InvalidParameter);
        let said = refusal.to_string();
        assert!(said.contains("15 lines") && said.contains("3, 5, 15") && said.contains("fold_levels"), "{said}");
    }
    let prime = built(ClassicLayout::new(101, 2).unwrap(), &[]);
    assert!(prime.folded(2).unwrap_err().to_string().contains("none"));
    assert_eq!(prime.folded(101).unwrap().bits(), 1);
}

fn fits<L: Layout>(levels: u32) {
    let keys = digests(0..100_000);
    for (n, rate) in [(100_000u64, 0.01), (30_000, 0.01), (5_000, 0.01), (700, 0.02), (100_000, 0.05), (30_000, 0.001)]
    {
        let mut filter: Bloom<L> =
            Bloom::builder().items(100_000).rate(0.01).fold_levels(levels).contract(Contract::given()).build().unwrap();
        filter.insert_digests(&keys[..n as usize]).unwrap();
        let small = filter.fit(rate).unwrap();
        assert!(small.expected_rate_at(n) <= rate * 1.000_1, "{n} at {rate}");
        assert!(small.expected_rate() <= rate * 1.02, "{n} at {rate}: {}", small.expected_rate());
        assert!(small.capacity() >= n && small.promised_rate() == rate);
        assert!(small.expected_rate_at(small.capacity()) <= rate * 1.001, "a promise that its shape keeps");
        // At most twice what is needed: one fold more by two would break the rate.
        if let Ok(half) = small.folded(2) {
            assert!(half.expected_rate_at(n) > rate, "{n} at {rate}: {} bits, and half of them do", small.bits());
        }
        let asked = 60_000u64;
        let hits = digests(1 << 40..(1 << 40) + asked).into_iter().filter(|&key| small.contains_digest(key)).count();
        assert!(within(hits as u64, asked, small.expected_rate_at(n), 4.5), "{n} at {rate}: {hits}");
        assert!(keys[..n as usize].iter().all(|&key| small.contains_digest(key)));
        assert_eq!(small.to_bytes().and_then(|bytes| Bloom::<L>::from_bytes(&bytes)).unwrap(), small);
        // With room for more it is larger.
        let roomy = filter.fold_to(4 * n, rate).or_else(|_| filter.fold_to(n, rate)).unwrap();
        assert!(roomy.bits() >= small.bits());
    }
}

#[test]
fn filters_are_fitted_to_what_they_hold() {
    fits::<BlockedLayout>(6);
    fits::<ClassicLayout>(6);
    fits::<PartitionedLayout>(6);
}

#[test]
fn a_rate_that_does_not_hold_as_it_is_cannot_be_fitted() {
    let mut filter = Blocked::builder().keys::<u64>().items(1_000).fold_levels(3).build().unwrap();
    filter.insert_all(0..3_000u64).unwrap();
    for (result, says) in [
        (filter.fit(0.01), "keys the blocked filter"),
        (filter.fit(0.0), "between 0 and 1"),
        (filter.fold_to(1 << 50, 0.5), "1125899906842624"),
    ] {
        let refusal = result.unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::InvalidParameter);
        assert!(refusal.to_string().contains(says), "{refusal}");
    }
    // A count that is too low (from a file, say) is not believed against the bits.
    let mut lying = Blocked::builder().keys::<u64>().items(10_000).fold_levels(6).build().unwrap();
    lying.insert_all(0..10_000u64).unwrap();
    lying.set_len(3);
    let fitted = lying.fit(0.02).unwrap();
    assert!(fitted.estimated_rate() < 0.02, "{}", fitted.estimated_rate());
    // An empty filter fits into the least there is.
    let empty = Blocked::builder().items(1_000_000).fold_levels(10).build().unwrap();
    let least = empty.fit(0.01).unwrap();
    assert!(least.layout().lines() < 64 && least.is_empty());
}

#[test]
fn builders_round_to_what_folds() {
    for levels in 0..=8 {
        let multiple = 1u64 << levels;
        let plain = Blocked::builder().items(12_345).build().unwrap();
        let blocked = Blocked::builder().items(12_345).fold_levels(levels).build().unwrap();
        assert!(blocked.layout().lines().is_multiple_of(multiple));
        assert!((plain.layout().lines()..plain.layout().lines() + multiple).contains(&blocked.layout().lines()));
        assert_eq!((blocked.capacity(), blocked.promised_rate()), (12_345, 0.01));
        assert!(blocked.folded(multiple as u32).is_ok());
        let classic = Classic::builder().bits(100_003).items(9_000).fold_levels(levels).build().unwrap();
        assert!(classic.bits().is_multiple_of(multiple) && classic.bits() <= 100_003);
        let sliced = Partitioned::builder().bytes(20_000).rate(0.01).fold_levels(levels).build().unwrap();
        assert!(sliced.layout().slice_bits().is_multiple_of(multiple) && sliced.size_in_bytes() <= 20_000);
        assert!(sliced.expected_rate_at(sliced.capacity()) <= 0.010_001);
    }
    assert_eq!(Classic::builder().bits(1024).hashes(3).fold_levels(10).build().unwrap().bits(), 1024);
    for (result, says) in [
        (Classic::builder().bits(1000).hashes(3).fold_levels(4).build(), "1008 is the next"),
        (Classic::builder().items(1000).fold_levels(21).build(), "0 to 20 fold levels"),
        (Classic::builder().bits(100).rate(0.01).fold_levels(7).build(), "fewer fold levels"),
    ] {
        let refusal = result.unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::InvalidParameter);
        assert!(refusal.to_string().contains(says), "{refusal}");
    }
    let tight = Blocked::builder().items(1000).rate(0.01).bytes(1344).fold_levels(6).build().unwrap_err();
    assert_eq!(tight.kind(), ErrorKind::LimitExceeded, "{tight}");
}

/// The table of the module's page.
#[test]
fn the_table_is_what_comes_out() {
    let found = TABLE.map(|(n, ..)| {
        let mut filter = Blocked::builder().keys::<u64>().items(1_000_000).rate(0.01).fold_levels(6).build().unwrap();
        filter.insert_all(0..n).unwrap();
        let small = filter.fit(0.01).unwrap();
        let built = Blocked::builder().items(n).rate(0.01).build().unwrap();
        (n, filter.bits() / small.bits(), small.size_in_bytes(), built.size_in_bytes())
    });
    assert_eq!(found, TABLE);
}

const TABLE: [(u64, u64, u64, u64); 4] = [
    (1_000_000, 1, 1_265_664, 1_264_256),
    (400_000, 2, 632_832, 505_728),
    (100_000, 8, 158_208, 126_464),
    (3_000, 309, 4_096, 3_840),
];
