//! Union, intersection and overlap: the bits of one are the bits of all, refusals change nothing, and error bars hold.

use super::layout::Layout;
use super::{
    Blocked, BlockedLayout, Bloom, Classic, ClassicLayout, CounterBits, Counting, Partitioned, PartitionedLayout,
};
use crate::bits::{Mapped, Owned, Store};
use crate::error::ErrorKind;
use crate::format::OpenOptions;
use crate::hash::{Contract, Digest, Secret};
use crate::math::estimate::{Estimate, within};
use crate::math::overlap::Overlap;
use crate::promise::WhenFull;

fn mix(i: u64) -> u64 {
    let z = (i ^ (i >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The `i`-th key of a seeded world of keys.
fn key(seed: u64, i: u64) -> Digest {
    let i = i.wrapping_add(seed << 32).wrapping_add(1);
    Digest::new(mix(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)), mix(i.wrapping_mul(0xd134_2543_de82_ef95)))
}

fn keys(seed: u64, range: std::ops::Range<u64>) -> Vec<Digest> {
    range.map(|i| key(seed, i)).collect()
}

fn filled<L: Layout>(items: u64, rate: f64, digests: &[Digest]) -> Bloom<L, Owned> {
    let mut filter = Bloom::builder().items(items).rate(rate).build().unwrap();
    filter.insert_digests(digests).unwrap();
    filter
}

fn mapped<L: Layout>(filter: &Bloom<L, Owned>) -> Bloom<L, Mapped> {
    Bloom::map_bytes(&filter.to_bytes().unwrap(), &OpenOptions::new()).unwrap()
}

/// The union is what one filter of all keys is, bit for bit, wherever the right side lives, and counts as that one does.
fn unions_are_what_one_filter_is<L: Layout>(rate: f64) {
    let (a, b) = (keys(1, 0..6_000), keys(1, 4_000..10_000));
    let (one, other): (Bloom<L>, Bloom<L>) = (filled(10_000, rate, &a), filled(10_000, rate, &b));
    let all: Bloom<L> = filled(10_000, rate, &keys(1, 0..10_000));
    let check = |union: &Bloom<L>, place: &str| {
        assert!(*union == all, "{place}");
        let off = union.len() as f64 / all.len() as f64 - 1.0;
        // The estimate errs by 0.4 % of the keys here.
        assert!(off.abs() < 0.02, "{place}: counts {} for {}", union.len(), all.len());
        assert!((union.expected_rate() / all.expected_rate() - 1.0).abs() < 0.15, "{place}");
        assert_eq!((union.capacity(), union.promised_rate()), (10_000, rate));
    };
    check(&one.union(&other).unwrap(), "owned");
    check(&one.union(&mapped(&other)).unwrap(), "owned with mapped");
    check(&mapped(&one).union(&mapped(&other)).unwrap(), "mapped");
    check(&one.clone().into_shared().unwrap().union(&other).unwrap(), "shared with owned");
    let mut grown = one.clone();
    grown.union_with(&other.clone().into_shared().unwrap()).unwrap();
    check(&grown, "in place with shared");
    let shared = one.clone().into_shared().unwrap();
    shared.union_with(&mapped(&other)).unwrap();
    check(&shared.into_owned().unwrap(), "shared in place with mapped");
    // With itself nothing changes, nor with nothing.
    let len = grown.len();
    grown.union_with(&grown.clone()).unwrap();
    grown.union_with(&filled(10_000, rate, &[])).unwrap();
    assert!(grown == all && grown.len() == len);
    let nothing: Bloom<L> = filled(10_000, rate, &[]);
    assert_eq!(nothing.union(&nothing).unwrap().len(), 0);
}

#[test]
fn unions_are_what_one_filter_of_all_keys_is() {
    for rate in [0.01, 1e-5] {
        unions_are_what_one_filter_is::<BlockedLayout>(rate);
        unions_are_what_one_filter_is::<ClassicLayout>(rate);
        unions_are_what_one_filter_is::<PartitionedLayout>(rate);
    }
}

/// T60: a union never counts 0, also of few keys, where the count is exact; and it is never outside of what is certain.
#[test]
fn the_count_of_a_union_is_told() {
    for n in [1u64, 2, 7, 40, 500] {
        let (a, b): (Blocked, Blocked) =
            (filled(10_000, 0.01, &keys(2, 0..n)), filled(10_000, 0.01, &keys(2, n..2 * n)));
        let union = a.union(&b).unwrap();
        assert!(union.len().abs_diff(2 * n) <= 1 + n / 50, "{n}: {}", union.len());
        assert!(union.len() >= a.len().max(b.len()) && union.len() <= a.len() + b.len());
        assert!(!union.is_empty());
        // The same keys twice are not twice as many.
        assert_eq!(a.union(&a.clone()).unwrap().len(), a.len());
    }
}

fn intersections_answer_as_both<L: Layout>(rate: f64) {
    let (one, other): (Bloom<L>, Bloom<L>) =
        (filled(10_000, rate, &keys(3, 0..8_000)), filled(10_000, rate, &keys(3, 6_000..10_000)));
    let both = one.intersection(&mapped(&other)).unwrap();
    let mut placed = one.clone();
    placed.intersect_with(&other).unwrap();
    assert!(placed == both && placed.len() == both.len());
    let mut hits = 0;
    for i in 0..40_000 {
        let digest = key(3, i);
        let expected = one.contains_digest(digest) && other.contains_digest(digest);
        assert_eq!(both.contains_digest(digest), expected, "{i}");
        hits += u64::from(expected && i >= 10_000);
    }
    for i in 6_000..8_000 {
        assert!(both.contains_digest(key(3, i)), "{i} is in both");
    }
    // For keys of neither the two filters err apart, so the rate is about the product, and at most the lower one.
    let product = one.expected_rate() * other.expected_rate();
    assert!(within(hits, 30_000, product.max(1e-9), 4.5) || hits as f64 / 30_000.0 <= both.expected_rate(), "{hits}");
    assert!(both.expected_rate() <= one.expected_rate().min(other.expected_rate()) * 1.001);
    assert!(both.len() <= one.len().min(other.len()) && both.len() >= 1_900, "{}", both.len());
    let apart: Bloom<L> = filled(10_000, rate, &[]);
    assert_eq!(one.intersection(&apart).unwrap().len(), 0);
}

#[test]
fn intersections_answer_maybe_exactly_where_both_do() {
    for rate in [0.01, 1e-5] {
        intersections_answer_as_both::<BlockedLayout>(rate);
        intersections_answer_as_both::<ClassicLayout>(rate);
        intersections_answer_as_both::<PartitionedLayout>(rate);
    }
}

/// T60, T61: another shape or contract is refused with both named by their own numbers, and nothing has changed.
#[test]
fn what_does_not_fit_is_refused_with_both_named() {
    let secret = Secret::from_bytes([7; 32]);
    let plain = |items: u64| {
        let mut filter = Classic::builder().items(items).build().unwrap();
        filter.insert("a").unwrap();
        filter
    };
    let (one, small) = (plain(1000), plain(500));
    let seeded = Classic::builder().items(1000).contract(Contract::xxh3_seeded(9)).build().unwrap();
    let keyed = Classic::builder().items(1000).secret(&secret).build().unwrap();
    let typed = Classic::builder().items(500).keys::<u64>().build().unwrap();
    let numbers = |filter: &Classic| {
        format!("classic, {} bits, {} hashes ({})", filter.bits(), filter.hashes(), filter.contract())
    };
    for (other, kind, differ) in [
        (&small, ErrorKind::Shape, "differ in shape cannot"),
        (&seeded, ErrorKind::Contract, "differ in contract cannot"),
        (&keyed, ErrorKind::Contract, "differ in contract cannot"),
        (&typed, ErrorKind::Contract, "differ in shape and contract cannot"),
    ] {
        let mut mine = one.clone();
        let refusals = [
            mine.union_with(other).unwrap_err(),
            mine.intersect_with(other).unwrap_err(),
            mine.union(other).unwrap_err(),
            mine.intersection(other).unwrap_err(),
            mine.overlap(other).unwrap_err(),
            mine.clone().into_shared().unwrap().union_with(other).unwrap_err(),
        ];
        for refusal in refusals {
            assert_eq!(refusal.kind(), kind, "{refusal}");
            let said = refusal.to_string();
            let first = format!("the first is {}", numbers(&one));
            let second = format!("the second {}", numbers(other));
            assert!(said.contains(differ) && said.contains(&first) && said.contains(&second), "{said}");
        }
        assert!(mine == one && mine.len() == one.len(), "unchanged");
        assert!(other.len() <= 1);
    }
    // A shape that a fold would make fit is told so.
    let large = Blocked::builder().items(1000).fold_levels(2).build().unwrap();
    let half = large.folded(2).unwrap();
    let said = half.union(&large).unwrap_err().to_string();
    assert!(said.contains("fold the second by 2 first"), "{said}");
    assert!(half.union(&large.folded(2).unwrap()).is_ok());
    let one = Partitioned::builder().items(100).build().unwrap();
    let said = one.union(&Partitioned::builder().items(101).build().unwrap()).unwrap_err().to_string();
    assert!(said.contains(&format!("{} slices of {} bits", one.hashes(), one.layout().slice_bits())), "{said}");
}

/// T61: a damaged chunk is an error, never bits that are copied.
#[test]
fn damaged_right_sides_are_refused_and_nothing_changes() {
    let other: Blocked = filled(100_000, 0.01, &keys(4, 0..50_000));
    let mut bytes = other.to_bytes().unwrap();
    let at = bytes.len() - 70_000;
    bytes[at] ^= 0x10;
    let damaged: Blocked<Mapped> = Bloom::map_bytes(&bytes, &OpenOptions::new()).unwrap();
    let one: Blocked = filled(100_000, 0.01, &keys(4, 50_000..60_000));
    let mut mine = one.clone();
    let shared = one.clone().into_shared().unwrap();
    for refusal in [
        mine.union_with(&damaged).unwrap_err(),
        mine.intersect_with(&damaged).unwrap_err(),
        mine.union(&damaged).unwrap_err(),
        damaged.union(&mine).unwrap_err(),
        damaged.intersection(&mine).unwrap_err(),
        mine.overlap(&damaged).unwrap_err(),
        shared.union_with(&damaged).unwrap_err(),
        damaged.folded(1).unwrap_err(),
    ] {
        assert_eq!(refusal.kind(), ErrorKind::Corrupt, "{refusal}");
        assert!(refusal.to_string().contains("damaged"), "{refusal}");
    }
    assert!(mine == one && shared == one && mine.len() == one.len());
}

/// A union past the capacity is told: full, at a rate that is measured as it is expected. One that was told to refuse
/// refuses, with nothing changed; but never one that may be within its capacity.
#[test]
fn unions_past_the_capacity_are_told_or_refused() {
    let (a, b): (Blocked, Blocked) =
        (filled(10_000, 0.01, &keys(5, 0..9_000)), filled(10_000, 0.01, &keys(5, 9_000..18_000)));
    let union = a.union(&b).unwrap();
    assert!(union.is_full() && !a.is_full());
    assert!(union.expected_rate() > 0.05, "{}", union.expected_rate());
    let asked = 100_000;
    let hits = (0..asked).filter(|&i| union.contains_digest(key(6, i))).count() as u64;
    assert!(within(hits, asked, union.expected_rate_at(18_000), 4.5), "{hits}");
    assert!((union.expected_rate() / union.expected_rate_at(18_000) - 1.0).abs() < 0.05);

    for seed in 10..30 {
        let half = |range| {
            let mut filter = Blocked::builder().items(2_000).when_full(WhenFull::Refuse).build().unwrap();
            filter.insert_digests(&keys(seed, range)).unwrap();
            filter
        };
        let (one, other) = (half(0..1_000), half(1_000..2_000));
        let mut full = one.clone();
        full.union_with(&other).unwrap_or_else(|refusal| panic!("exactly the capacity: {refusal}"));
        let mut more = half(0..1_500);
        let before = more.clone();
        let refusal = more.union_with(&half(1_500..3_000)).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Full, "{refusal}");
        assert!(refusal.to_string().contains("2000"), "{refusal}");
        assert!(more == before && more.len() == before.len());
        let shared = before.clone().into_shared().unwrap();
        assert_eq!(shared.union_with(&half(1_500..3_000)).unwrap_err().kind(), ErrorKind::Full);
        assert!(shared == before);
    }
}

/// Unions, inserts and lookups at the same time: nothing that was in is ever missing, and nothing is lost.
#[test]
fn shared_filters_unite_while_others_insert() {
    let base: Blocked = filled(40_000, 0.01, &keys(7, 0..10_000));
    let shared = base.clone().into_shared().unwrap();
    let others: Vec<Blocked> = (1..=2).map(|i| filled(40_000, 0.01, &keys(7, i * 10_000..(i + 1) * 10_000))).collect();
    std::thread::scope(|scope| {
        for other in &others {
            scope.spawn(|| shared.union_with(other).unwrap());
        }
        scope.spawn(|| shared.insert_digests(&keys(7, 30_000..40_000)).unwrap());
        for i in 0..10_000 {
            assert!(shared.contains_digest(key(7, i)));
        }
    });
    let all: Blocked = filled(40_000, 0.01, &keys(7, 0..40_000));
    assert!(shared == all);
}

/// How often in `trials` worlds each interval held the truth: (a, b, union, intersection, jaccard).
fn coverage<L: Layout>(trials: u64, only_a: u64, only_b: u64, common: u64) -> [f64; 5] {
    let mut held = [0u64; 5];
    for trial in 0..trials {
        let seed = 1_000 + trial;
        let total = only_a + common + only_b;
        let a: Bloom<L> = filled(4_000, 0.01, &keys(seed, 0..only_a + common));
        let b: Bloom<L> = filled(4_000, 0.01, &keys(seed, only_a..total));
        let Overlap { a, b, union, intersection, jaccard } = a.overlap(&b).unwrap();
        let truths = [only_a + common, only_b + common, total, common].map(|n| n as f64);
        let truths = [truths[0], truths[1], truths[2], truths[3], common as f64 / total as f64];
        for ((held, estimate), truth) in held.iter_mut().zip([a, b, union, intersection, jaccard]).zip(truths) {
            let Estimate { value, low, high } = estimate;
            assert!(low <= value && high.is_some_and(|high| value <= high), "{estimate:?}");
            *held += u64::from(low <= truth && high.is_some_and(|high| truth <= high));
        }
    }
    held.map(|held| held as f64 / trials as f64)
}

/// The error bars are honest: 95 % intervals hold the truth in 91 to 99 % of 300 worlds, whether the sets are alike,
/// nearly apart or in between; of sets that share nothing one side is cut off at 0, which leaves 97.5 %.
fn error_bars_hold<L: Layout>() {
    for (only_a, only_b, common) in [(1_500, 1_500, 1_000), (1_900, 1_900, 40), (30, 30, 2_000), (3_000, 300, 200)] {
        let held = coverage::<L>(300, only_a, only_b, common);
        for (at, share) in held.into_iter().enumerate() {
            // Jaccard of nearly equal sets is cut off at 1, as the common keys of sets nearly apart are at 0.
            let most = if common == 1_000 || common == 200 { 0.99 } else { 1.0 };
            assert!((0.91..=most).contains(&share), "{only_a} {only_b} {common}, number {at}: {share}");
        }
    }
    let [.., intersection, jaccard] = coverage::<L>(300, 2_000, 2_000, 0);
    assert!(intersection >= 0.95 && jaccard >= 0.95, "nothing shared: {intersection}, {jaccard}");
}

#[test]
fn error_bars_hold_the_truth_as_often_as_they_say_blocked() {
    error_bars_hold::<BlockedLayout>();
}

#[test]
fn error_bars_hold_the_truth_as_often_as_they_say_classic() {
    error_bars_hold::<ClassicLayout>();
}

#[test]
fn error_bars_hold_the_truth_as_often_as_they_say_partitioned() {
    error_bars_hold::<PartitionedLayout>();
}

#[test]
fn counters_add_up_and_stick() {
    for width in [CounterBits::Four, CounterBits::Eight] {
        let make = || Counting::builder().items(1_000).counter_bits(width).build().unwrap();
        let (mut one, mut other, mut all) = (make(), make(), make());
        for i in 0..600 {
            one.insert_digest(key(8, i)).unwrap();
            all.insert_digest(key(8, i)).unwrap();
        }
        for i in 300..900 {
            other.insert_digest(key(8, i)).unwrap();
            all.insert_digest(key(8, i)).unwrap();
        }
        one.union_with(&other).unwrap();
        assert!(one == all && one.len() == 1_200, "the same counters as of all inserts");
        for i in (0..600).chain(300..900) {
            assert!(one.remove_digest(key(8, i)), "{i}");
        }
        assert_eq!((one.len(), one.set_cells()), (0, 0), "all removed, nothing left");
    }
    // 10 and 10 of a counter that counts to 14: it sticks, and the key never goes wrongly.
    let make = || Counting::builder().items(10).build().unwrap();
    let (mut one, mut other) = (make(), make());
    for _ in 0..10 {
        one.insert_digest(key(8, 1)).unwrap();
        other.insert_digest(key(8, 1)).unwrap();
    }
    one.union_with(&other).unwrap();
    for _ in 0..40 {
        one.remove_digest(key(8, 1));
        assert!(one.contains_digest(key(8, 1)));
    }
    let wide = Counting::builder().items(10).counter_bits(CounterBits::Eight).build().unwrap();
    let refusal = one.union_with(&wide).unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Shape);
    assert!(refusal.to_string().contains("4 bits") && refusal.to_string().contains("8 bits"), "{refusal}");
    let mut strict = Counting::builder().items(10).when_full(WhenFull::Refuse).build().unwrap();
    assert_eq!(strict.union_with(&other).map_err(|e| e.kind()), Ok(()));
    assert_eq!(strict.union_with(&other).map_err(|e| e.kind()), Err(ErrorKind::Full));
    assert_eq!(strict.len(), 10);
}

/// The places agree on what they compare: a mapped filter and an owned one give one answer.
#[test]
fn overlaps_are_the_same_in_every_place() {
    let (a, b): (Classic, Classic) = (filled(1_000, 0.01, &keys(9, 0..700)), filled(1_000, 0.01, &keys(9, 300..1_000)));
    let here = a.overlap(&b).unwrap();
    fn same<S: Store, T: Store>(a: &Classic<S>, b: &Classic<T>, here: Overlap) {
        assert_eq!(a.overlap(b).unwrap(), here);
    }
    same(&mapped(&a), &b, here);
    same(&a, &mapped(&b), here);
    same(&a.clone().into_shared().unwrap(), &b, here);
    let turned = b.overlap(&a).unwrap();
    assert!((turned.intersection.value - here.intersection.value).abs() < 1e-9);
    assert!((turned.jaccard.value - here.jaccard.value).abs() < 1e-12 && turned.a == here.b);
}

/// The figure on the page of `overlap`.
#[test]
fn half_shared_sets_are_known_to_a_third_of_a_percent() {
    let make = |range| filled::<ClassicLayout>(100_000, 0.01, &keys(20, range));
    let Estimate { value, low, high } = make(0..100_000).overlap(&make(50_000..150_000)).unwrap().intersection;
    let spread = (high.unwrap() - low) / 2.0 / value;
    assert!((0.003..0.0037).contains(&spread), "{spread}");
    assert!((value / 50_000.0 - 1.0).abs() < 0.008, "{value}");
}
