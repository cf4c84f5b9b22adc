//! T19: keys that look alike. The measured rate is the expected rate of the shape, on both sides, for every family of
//! structured keys and every hash: a weak hash or a careless index shows here first.

use bloomgate::bloom::Layout;
use bloomgate::math::estimate::within;
use bloomgate::{Blocked, Bloom, Classic, Contract, Digest, Encoding, Partitioned, Scalable, Secret};

use crate::keys::{FAMILIES, Family, mix, scattered};

const Z: f64 = 4.5;
const ITEMS: u64 = 100_000;
const RATE: f64 = 0.01;

/// Members are the even numbers of a family and absent keys the odd ones, then those above: neighbours of members.
fn digests(contract: &Contract, family: Family, members: u64, probes: u64) -> (Vec<Digest>, Vec<Digest>) {
    let mut bytes = Vec::new();
    let mut digest = |i: u64| {
        bytes.clear();
        (family.write)(i, &mut bytes);
        contract.digest_bytes(&bytes)
    };
    let inside = (0..members).map(|i| digest(2 * i)).collect();
    let outside = (0..probes).map(|i| digest(if i < members { 2 * i + 1 } else { members + i })).collect();
    (inside, outside)
}

/// How much the rate of one filter differs from that of its shape by chance, relative to the rate: lines differ in load
/// and so by up to 0.85 times their mean rate at 1 %; a filter of single bits by its fill alone, which is less.
fn spread(name: &str, bits: u64) -> f64 {
    if name == "blocked" { 0.85 / ((bits / 512) as f64).sqrt() } else { 3.0 / (bits as f64).sqrt() }
}

fn check<L: Layout>(name: &str, case: &str, inside: &[Digest], outside: &[Digest], contract: &Contract) {
    let items = inside.len() as u64;
    let mut filter = Bloom::<L>::builder().contract(contract.clone()).items(items).rate(RATE).build().unwrap();
    filter.insert_digests(inside).unwrap();
    let mut answers = vec![false; inside.len().max(outside.len())];
    filter.contains_digests(inside, &mut answers[..inside.len()]).unwrap();
    assert!(answers[..inside.len()].iter().all(|&answer| answer), "{name}, {case}: a wrong no");
    filter.contains_digests(outside, &mut answers[..outside.len()]).unwrap();
    let hits = answers[..outside.len()].iter().filter(|&&answer| answer).count() as f64;
    let trials = outside.len() as f64;
    let expected = filter.expected_rate_at(items);
    let error = (expected * (1.0 - expected) / trials).sqrt().hypot(expected * spread(name, filter.bits()));
    let measured = hits / trials;
    assert!(
        (measured - expected).abs() <= Z * error,
        "{name}, {case}: measured {measured}, expected {expected} +- {error}"
    );
    // The keys are counted: few were taken for present before they were inserted.
    assert!(filter.len() as f64 > 0.99 * items as f64, "{name}, {case}: {} of {items} new", filter.len());
}

fn all_kinds(case: &str, contract: &Contract, family: Family, items: u64, probes: u64) {
    let case = format!("{case}, {}", family.name);
    let (inside, outside) = digests(contract, family, items, probes);
    check::<bloomgate::bloom::BlockedLayout>("blocked", &case, &inside, &outside, contract);
    check::<bloomgate::bloom::ClassicLayout>("classic", &case, &inside, &outside, contract);
    check::<bloomgate::bloom::PartitionedLayout>("partitioned", &case, &inside, &outside, contract);
}

/// The families are sets: no two numbers give one key, or rates would be wrong for that reason.
#[test]
fn families_have_no_duplicates() {
    for family in FAMILIES {
        let mut bytes = Vec::new();
        let mut seen = std::collections::HashSet::new();
        // Digests of 128 bits stand for the keys: the long ones would fill the memory.
        for i in 0..1_100_000 {
            bytes.clear();
            (family.write)(i, &mut bytes);
            assert!(seen.insert(Contract::xxh3().digest_bytes(&bytes)), "{}: {i} again", family.name);
        }
    }
}

#[test]
fn xxh3_over_every_family() {
    for family in FAMILIES {
        all_kinds("xxh3", &Contract::xxh3(), family, ITEMS, 1_000_000);
    }
}

/// All seeds are good seeds: none, one, all ones, equal halves, single bits, and the seeds that undo XXH3's own
/// constants when they are added to or taken from them.
#[test]
fn every_seed_is_a_good_seed() {
    let seeds = [
        1,
        u64::MAX,
        0x1234_5678_1234_5678,
        0xffff_ffff_0000_0000,
        1 << 63,
        // The first words of XXH3's secret and their negatives.
        0x3920_04b9_64c8_bf5d_u64,
        0x3920_04b9_64c8_bf5d_u64.wrapping_neg(),
        0x9e37_79b9_7f4a_7c15,
    ];
    for seed in seeds {
        for family in [FAMILIES[0], FAMILIES[1], FAMILIES[3], FAMILIES[5], FAMILIES[9]] {
            all_kinds(&format!("seed {seed:#x}"), &Contract::xxh3_seeded(seed), family, 50_000, 200_000);
        }
    }
}

#[test]
fn keyed_hashes_over_the_families() {
    let secret = Secret::from_bytes(std::array::from_fn(|i| mix(i as u64) as u8));
    let zeros = Secret::from_bytes([0; 32]);
    for (name, contract, families) in [
        ("siphash13", Contract::siphash13(&secret), &FAMILIES[..]),
        ("siphash13, secret of zeros", Contract::siphash13(&zeros), &FAMILIES[..2]),
        ("siphash24", Contract::siphash24(&secret), &FAMILIES[..7]),
        ("blake2b", Contract::blake2b(&secret), &FAMILIES[..2]),
    ] {
        for &family in families {
            all_kinds(name, &contract, family, 50_000, 200_000);
        }
    }
}

#[test]
fn murmur3_over_the_families() {
    for seed in [0, 1, u32::MAX] {
        for family in FAMILIES {
            all_kinds(&format!("murmur3 seed {seed}"), &Contract::murmur3(seed), family, 50_000, 200_000);
        }
    }
}

/// Typed keys come in by their own doors: integers of either sign, UUIDs, tuples; single and batched.
#[test]
fn typed_keys_keep_the_rate() {
    fn check<K: bloomgate::Key>(name: &str, key: impl Fn(u64) -> K) {
        let (items, probes) = (ITEMS, 400_000u64);
        let mut filter = Blocked::builder().keys::<K>().items(items).rate(RATE).build().unwrap();
        let inside: Vec<K> = (0..items).map(|i| key(2 * i)).collect();
        let outside: Vec<K> = (0..probes).map(|i| key(if i < items { 2 * i + 1 } else { items + i })).collect();
        filter.insert_batch(&inside).unwrap();
        assert!(inside.iter().step_by(7).all(|key| filter.contains(key).unwrap()));
        let mut answers = vec![false; probes as usize];
        filter.contains_batch(&outside, &mut answers).unwrap();
        let measured = answers.iter().filter(|&&answer| answer).count() as f64 / probes as f64;
        let expected = filter.expected_rate_at(items);
        let error = (expected / probes as f64).sqrt().hypot(expected * spread("blocked", filter.bits()));
        assert!((measured - expected).abs() <= Z * error, "{name}: {measured}, expected {expected} +- {error}");
    }
    check("u32", |i| i as u32);
    check("u64", |i| i);
    check("i64", |i| -(i as i64));
    check("u128", |i| u128::from(i) << 64);
    check("text", |i| format!("user:{i:09}"));
    check("UUID", |i| bloomgate::key::Uuid((u128::from(i) << 80 | 0x7001_8002_0304_0506).to_be_bytes()));
    check("(u32, u32)", |i| ((i / 1_000) as u32, (i % 1_000) as u32));
    check("(text, u64)", |i| (format!("tenant-{}", i % 10), i / 10));
    check("(text, text)", |i| (format!("{}", i % 1_000), format!("{}", i / 1_000)));
}

/// Prefix encodings: a key stands for its prefix, so every key with the prefix of a member is found, and the others
/// meet the promised rate of so many prefixes.
#[test]
fn prefixes_keep_the_rate_of_their_number() {
    for (encoding, separator) in
        [(Encoding::PrefixLength { bytes: 12 }, ""), (Encoding::PrefixDelimiter { delimiter: b'/', count: 1 }, "/")]
    {
        let contract = Contract::xxh3().with_encoding(encoding);
        let (prefixes, probes) = (50_000u64, 200_000u64);
        let key = |prefix: u64, rest: u64| format!("{prefix:012}{separator}page-{rest}");
        let mut filter = Blocked::builder().contract(contract).items(prefixes).rate(RATE).build().unwrap();
        for i in 0..prefixes {
            filter.insert(key(i, 1).as_str()).unwrap();
            let again = filter.insert(key(i, 2).as_str()).unwrap();
            assert!(!again, "one prefix, two keys");
        }
        assert!((0..prefixes).all(|i| filter.contains(key(i, mix(i)).as_str()).unwrap()));
        let hits = (prefixes..prefixes + probes).filter(|&i| filter.contains(key(i, 1).as_str()).unwrap()).count();
        let (measured, expected) = (hits as f64 / probes as f64, filter.expected_rate_at(prefixes));
        let error = (expected / probes as f64).sqrt().hypot(expected * spread("blocked", filter.bits()));
        assert!((measured - expected).abs() <= Z * error, "{encoding:?}: {measured}, {expected} +- {error}");
    }
}

/// T16: far more entropy than 32 bits. Two million keys at one in a million: a 32-bit hash alone would give 4.7e-4, five
/// hundred times as much. 8 million probes expect eight hits.
#[test]
fn one_in_a_million_is_kept() {
    fn check<L: Layout>(name: &str) {
        let mut filter = Bloom::<L>::builder().keys::<u64>().items(2_000_000).rate(1e-6).build().unwrap();
        for from in (0..2_000_000u64).step_by(100_000) {
            filter.insert_batch(&(from..from + 100_000).collect::<Vec<_>>()).unwrap();
        }
        let mut answers = vec![false; 100_000];
        let mut hits = 0;
        let probes = 8_000_000;
        for from in (0..probes).step_by(100_000) {
            let keys: Vec<u64> = (2_000_000 + from..2_100_000 + from).collect();
            filter.contains_batch(&keys, &mut answers).unwrap();
            hits += answers.iter().filter(|&&answer| answer).count() as u64;
        }
        let expected = filter.expected_rate_at(2_000_000);
        assert!(expected <= 1.0001e-6);
        assert!(within(hits, probes, expected, Z), "{name}: {hits} of {probes}, expected {expected}");
        // Bits tell more than eight hits do: to a hundredth.
        assert!((filter.estimated_rate() / expected - 1.0).abs() < 0.02, "{name}: {}", filter.estimated_rate());
        assert!(filter.len() >= 1_999_980, "{name}: {} new of two million", filter.len());
    }
    check::<bloomgate::bloom::BlockedLayout>("blocked");
    check::<bloomgate::bloom::ClassicLayout>("classic");
}

/// T23: two filters with different seeds are independent, so both say "maybe" at the product of their rates; with the
/// same seed and shape they are one filter and gain nothing.
#[test]
fn two_seeds_multiply_their_rates() {
    fn check<L: Layout>(name: &str) {
        let (items, probes) = (50_000u64, 4_000_000u64);
        let build = |seed: u64| {
            let contract = Contract::xxh3_seeded(seed).for_keys::<u64>();
            let mut filter = Bloom::<L>::builder().contract(contract).items(items).rate(RATE).build().unwrap();
            filter.insert_batch(&(0..items).collect::<Vec<_>>()).unwrap();
            filter
        };
        let (a, b, same) = (build(0), build(1), build(0));
        let (mut both, mut twice, mut one) = (0, 0, 0);
        for from in (items..items + probes).step_by(50_000) {
            let keys: Vec<u64> = (from..from + 50_000).collect();
            let mut answers = [vec![false; 50_000], vec![false; 50_000], vec![false; 50_000]];
            for (filter, answers) in [&a, &b, &same].into_iter().zip(&mut answers) {
                filter.contains_batch(&keys, answers).unwrap();
            }
            for i in 0..50_000 {
                both += u64::from(answers[0][i] && answers[1][i]);
                twice += u64::from(answers[0][i] && answers[2][i]);
                one += u64::from(answers[0][i]);
            }
        }
        let expected = a.estimated_rate() * b.estimated_rate();
        assert!((expected / 1e-4 - 1.0).abs() < 0.15);
        assert!(within(both, probes, expected, Z), "{name}: {both} of {probes}, expected {expected}");
        assert_eq!(twice, one);
    }
    check::<bloomgate::bloom::BlockedLayout>("blocked");
    check::<bloomgate::bloom::ClassicLayout>("classic");
    check::<bloomgate::bloom::PartitionedLayout>("partitioned");
}

/// T23: the stages of a chain share one digest and still err independently: the compound rate over sequential keys is
/// that of the stages together.
#[test]
fn a_chain_over_structured_keys() {
    for family in [FAMILIES[0], FAMILIES[1], FAMILIES[3], FAMILIES[5]] {
        let (inside, outside) = digests(&Contract::xxh3(), family, 100_000, 1_000_000);
        let mut chain = Scalable::builder().items(1_000).rate(RATE).build().unwrap();
        chain.insert_digests(&inside).unwrap();
        let mut answers = vec![false; outside.len()];
        chain.contains_digests(&outside, &mut answers).unwrap();
        let hits = answers.iter().filter(|&&answer| answer).count() as u64;
        let estimated = chain.estimated_rate();
        assert!(within(hits, 1_000_000, estimated, Z), "{}: {hits}, estimated {estimated}", family.name);
        assert!(estimated <= RATE * 1.05 && estimated > RATE * 0.2);
    }
}

/// Digests given by others, of their own making, keep the rate as well: nothing relies on how they were made but that
/// all 128 bits are even. Random keys as a control of the method itself.
#[test]
fn given_digests_and_random_keys() {
    let contract = Contract::given();
    let inside: Vec<Digest> = scattered(1, 0, ITEMS).into_iter().map(|key| Digest::new(mix(key ^ 1), key)).collect();
    let outside: Vec<Digest> =
        scattered(2, 0, 1_000_000).into_iter().map(|key| Digest::new(mix(key ^ 1), key)).collect();
    check::<bloomgate::bloom::BlockedLayout>("blocked", "given", &inside, &outside, &contract);
    check::<bloomgate::bloom::ClassicLayout>("classic", "given", &inside, &outside, &contract);
    check::<bloomgate::bloom::PartitionedLayout>("partitioned", "given", &inside, &outside, &contract);
    // Keys are refused there.
    let filter = Classic::builder().contract(Contract::given()).items(10).build().unwrap();
    assert!(filter.contains("key").is_err() && filter.contains_batch(&["key"], &mut [false]).is_err());
    let mut filter = Partitioned::builder().contract(Contract::given()).items(10).build().unwrap();
    assert!(filter.insert(&7u64).is_err() && filter.is_empty());
}
