//! T27: keys chosen against a public hash spoil a filter that uses it, and do nothing to one with a secret.

use bloomgate::bloom::CounterBits;
use bloomgate::math::estimate::within;
use bloomgate::{Blocked, Classic, Contract, Counting, Digest, Partitioned, Scalable, Secret, Shared};

use crate::keys::{ABSENT, Dice, scattered};

const ITEMS: u64 = 20_000;
const PROBES: u64 = 400_000;
const RATE: f64 = 0.01;

/// The bytes are what a test may know: this one keys nothing else.
fn secret() -> Secret {
    let mut dice = Dice(0x5ec2e7);
    Secret::from_bytes(std::array::from_fn(|_| dice.roll() as u8))
}

fn contract(keyed: bool) -> Contract {
    if keyed { Contract::keyed(&secret()) } else { Contract::xxh3() }.for_keys::<u64>()
}

/// The rate on keys that nobody chose, with how many of the probes hit.
fn measured(contains: impl Fn(&u64) -> bool) -> (f64, u64) {
    let hits = scattered(3, ABSENT, PROBES).iter().filter(|key| contains(key)).count() as u64;
    (hits as f64 / PROBES as f64, hits)
}

/// Chosen insertions: of 32 candidates the attacker inserts the one that sets the most bits which are still clear in
/// his own copy. He knows the hash and the shape, and so everything.
fn keys_that_set_the_most_bits() -> Vec<u64> {
    let mut copy = Classic::builder().keys::<u64>().items(ITEMS).rate(RATE).build().unwrap();
    let (mut chosen, mut next) = (Vec::new(), 0u64);
    let mut set = vec![false; copy.bits() as usize];
    while chosen.len() < ITEMS as usize {
        let best = (next..next + 32)
            .max_by_key(|&key| {
                let digest = copy.contract().digest(&key).unwrap();
                bits_of(digest, copy.bits(), copy.hashes()).filter(|&bit| !set[bit as usize]).count()
            })
            .unwrap();
        next += 32;
        let digest = copy.contract().digest(&best).unwrap();
        bits_of(digest, copy.bits(), copy.hashes()).for_each(|bit| set[bit as usize] = true);
        copy.insert(&best).unwrap();
        chosen.push(best);
    }
    // The attacker's arithmetic is the filter's.
    assert_eq!(set.iter().filter(|&&set| set).count() as u64, copy.set_bits());
    chosen
}

/// Where the published layout of a classic filter puts a digest's bits.
fn bits_of(digest: Digest, bits: u64, hashes: u32) -> impl Iterator<Item = u64> {
    let mut x = digest.hi;
    let stride = (digest.lo ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd134_2543_de82_ef95) | 1;
    (0..hashes).map(move |_| {
        let bit = ((u128::from(x) * u128::from(bits)) >> 64) as u64;
        x = x.wrapping_add(stride).rotate_left(27);
        bit
    })
}

#[test]
fn chosen_insertions_spoil_only_an_unkeyed_filter() {
    let chosen = keys_that_set_the_most_bits();
    let fill = |keyed: bool| {
        let mut filter = Classic::builder().contract(contract(keyed)).items(ITEMS).rate(RATE).build().unwrap();
        filter.insert_batch(&chosen).unwrap();
        assert!(chosen.iter().all(|key| filter.contains(key).unwrap()));
        let (rate, hits) = measured(|key| filter.contains(key).unwrap());
        (filter, rate, hits)
    };
    let (open, spoiled, _) = fill(false);
    assert!(spoiled > 3.0 * RATE && open.estimated_rate() > 3.0 * RATE, "only {spoiled}");
    let (keyed, rate, hits) = fill(true);
    assert!(within(hits, PROBES, keyed.expected_rate_at(ITEMS), 4.5), "{rate}");
    assert!(rate <= 1.05 * RATE);
}

/// Chosen queries: keys that are absent and that the attacker knows to be taken for present, each costing a lookup
/// behind the filter. He finds them in his own copy of the filter's keys.
#[test]
fn chosen_queries_hit_only_an_unkeyed_filter() {
    let members = scattered(5, 0, ITEMS);
    let fill = |keyed: bool| {
        let mut filter = Blocked::builder().contract(contract(keyed)).items(ITEMS).rate(RATE).build().unwrap();
        filter.insert_batch(&members).unwrap();
        filter
    };
    let open = fill(false);
    let crafted: Vec<u64> =
        scattered(5, ABSENT, 1_000_000).into_iter().filter(|key| open.contains(key).unwrap()).collect();
    assert!(crafted.len() > 8_000);
    let keyed = fill(true);
    let hits = crafted.iter().filter(|key| keyed.contains(key).unwrap()).count() as u64;
    // Against the keyed filter they are keys like any others: lines differ in load, by 0.85 of the rate each.
    let trials = crafted.len() as u64;
    let expected = keyed.estimated_rate();
    assert!(within(hits, trials, expected, 4.5), "{hits} of {trials}, expected {expected}");
    assert!((hits as f64) < 2.0 * RATE * trials as f64);
}

/// Keys that all fall into a few lines of a blocked filter: those lines say yes to everything, and with them every key
/// that the attacker sends there.
#[test]
fn crowded_lines_harm_only_an_unkeyed_filter() {
    let shape = Blocked::builder().items(ITEMS).rate(RATE).build().unwrap();
    let lines = shape.layout().lines();
    let open = contract(false);
    // One line in sixteen, by the public rule: the high half of hash times lines.
    let crowded = |key: &u64| {
        let line = ((u128::from(open.digest(key).unwrap().lo) * u128::from(lines)) >> 64) as u64;
        line < lines / 16
    };
    let chosen: Vec<u64> = scattered(6, 0, 20 * ITEMS).into_iter().filter(crowded).take(ITEMS as usize).collect();
    assert_eq!(chosen.len() as u64, ITEMS);
    let probes: Vec<u64> = scattered(6, ABSENT, 2_000_000).into_iter().filter(crowded).take(100_000).collect();
    let rate = |keyed: bool| {
        let mut filter = Blocked::builder().contract(contract(keyed)).items(ITEMS).rate(RATE).build().unwrap();
        filter.insert_batch(&chosen).unwrap();
        let hits = probes.iter().filter(|key| filter.contains(key).unwrap()).count();
        (hits as f64 / probes.len() as f64, filter.expected_rate_at(ITEMS))
    };
    let (spoiled, _) = rate(false);
    assert!(spoiled > 0.9, "only {spoiled}");
    let (kept, expected) = rate(true);
    let error = (expected / probes.len() as f64).sqrt().hypot(expected * 0.85 / (lines as f64).sqrt());
    assert!((kept - expected).abs() <= 4.5 * error, "{kept}, expected {expected} +- {error}");
}

/// No filter, builder or contract shows its secret, in any form of `Debug` or in an error.
#[test]
fn no_secret_is_shown() {
    let bytes: [u8; 32] = std::array::from_fn(|i| 0xa0 + i as u8);
    let secret = Secret::from_bytes(bytes);
    let mut shown = Vec::new();
    for contract in [Contract::siphash13(&secret), Contract::siphash24(&secret), Contract::blake2b(&secret)] {
        let contract = contract.for_keys::<u64>();
        shown.extend([format!("{contract:?}"), format!("{contract:#?}"), contract.to_string(), contract.describe()]);
        let classic = Classic::builder().contract(contract.clone()).items(10);
        shown.push(format!("{classic:?}"));
        shown.push(format!("{:?}", classic.clone().build().unwrap()));
        shown.push(format!("{:#?}", classic.build_shared().unwrap()));
        shown.push(format!("{:?}", Blocked::builder().contract(contract.clone()).items(10).build().unwrap()));
        shown.push(format!("{:?}", Partitioned::builder().contract(contract.clone()).items(10).build().unwrap()));
        let counting = Counting::builder().contract(contract.clone()).items(10).counter_bits(CounterBits::Eight);
        shown.push(format!("{counting:?}"));
        shown.push(format!("{:?}", counting.build().unwrap()));
        let chain = Scalable::builder().contract(contract.clone()).items(10);
        shown.push(format!("{chain:?}"));
        let chain: Scalable<Shared> = chain.build_shared().unwrap();
        shown.push(format!("{chain:?}"));
        shown.push(format!("{:?}", bloomgate::AnyFilter::Scalable(chain)));
        shown.push(contract.ensure_same(&Contract::keyed(&Secret::from_bytes([7; 32]))).unwrap_err().to_string());
        shown.push(contract.digest("no number").unwrap_err().to_string());
    }
    shown.push(format!("{secret:?}"));
    // Any three bytes of it in a row, in hexadecimal of either case or as a list.
    for text in &shown {
        for three in bytes.windows(3) {
            let hex: String = three.iter().map(|byte| format!("{byte:02x}")).collect();
            let list = format!("{}, {}, {}", three[0], three[1], three[2]);
            assert!(!text.to_lowercase().contains(&hex) && !text.contains(&list), "{text}");
        }
        // Nor are the derived words there: nothing in it is a long number, but the greatest key.
        let longest = text
            .replace("18446744073709551615", "")
            .split(|c: char| !c.is_ascii_digit())
            .map(str::len)
            .max()
            .unwrap_or(0);
        assert!(longest < 17, "{text}");
    }
    // It says which secret it is.
    assert!(shown[0].contains(&secret.id().to_string()));
}
