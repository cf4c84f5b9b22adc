//! Chains: what they cost, how they grow, and what they do when they may not.

use bloomgate::bloom::scalable::{DEFAULT_GROWTH, MAX_STAGES};
use bloomgate::math::estimate::within;
use bloomgate::math::scalable::Tightening;
use bloomgate::{Blocked, Classic, ErrorKind, Kind, Partitioned, Scalable, WhenFull};

use crate::keys::{ABSENT, Dice, mix, scattered};

/// At 1000 times its first capacity and beyond, on real filters: no more than 1.65 times the bits of a right-sized
/// filter when its last stage is full, and 3.0 times at the worst moment from 100 times on, just after a stage opened.
#[test]
fn a_thousandfold_chain_costs_what_is_promised() {
    let first = 500u64;
    for (rate, seed) in [(0.01, 1), (0.001, 2)] {
        let mut chain = Scalable::builder().keys::<u64>().items(first).rate(rate).build().unwrap();
        let right_sized = |keys: u64| Blocked::builder().items(keys).rate(rate).build().unwrap().bits() as f64;
        let (mut worst, mut full) = (0.0f64, 0.0);
        let (mut stages, mut inserted) = (1, 0u64);
        let mut full_at = 0;
        for key in scattered(seed, 0, 1_300 * first) {
            let bits = chain.bits() as f64;
            chain.insert(&key).unwrap();
            inserted += 1;
            if chain.stages() > stages {
                // The stage before was full with the keys so far; the new one is as empty as it gets.
                stages = chain.stages();
                full = bits / right_sized(inserted - 1);
                full_at = inserted - 1;
                // The second stage makes it 2.75 times the first at once; the sums of later ones weigh that down.
                if inserted > 100 * first {
                    worst = worst.max(chain.bits() as f64 / right_sized(inserted));
                }
            }
        }
        assert!((1_000 * first..1_300 * first).contains(&full_at), "the last stage opened at {full_at}");
        assert!(full <= 1.65 && full > 1.2, "rate {rate}: {full} when full at {full_at}");
        assert!(worst <= 3.0 && worst > 2.0, "rate {rate}: {worst} at worst");
        assert!(chain.expected_rate() <= rate);
        // A right-sized Bloom filter holds one key in a hundred fewer "new" ones than it was given; so does a chain.
        assert!(chain.len() as f64 > inserted as f64 * (1.0 - rate));
    }
}

/// An explicit growth and split are honoured to the key: RedisBloom's growth of 2, the textbook's halved rates.
#[test]
fn explicit_growth_and_split_are_honoured() {
    let mut chain = Scalable::builder()
        .keys::<u64>()
        .items(100)
        .rate(0.01)
        .growth(2.0)
        .tightening(Tightening::Geometric(0.5))
        .build()
        .unwrap();
    assert_eq!((chain.growth(), chain.tightening()), (2.0, Tightening::Geometric(0.5)));
    let mut capacities = vec![chain.capacity()];
    let mut bits = vec![chain.bits()];
    for key in scattered(3, 0, 6_500) {
        chain.insert(&key).unwrap();
        if chain.stages() > capacities.len() {
            capacities.push(chain.capacity());
            bits.push(chain.bits());
        }
    }
    assert_eq!(capacities, [100, 300, 700, 1_500, 3_100, 6_300, 12_700]);
    // Stage i is the filter for 100 * 2^i keys at 0.01 / 2^(i+1).
    let mut sum = 0;
    for (i, &bits) in bits.iter().enumerate() {
        let rate = 0.01 / f64::from(1 << (i + 1));
        sum += Blocked::builder().items(100 << i).rate(rate).build().unwrap().bits();
        assert_eq!(bits, sum, "stage {i}");
    }
    assert_eq!(Scalable::builder().items(1).build().unwrap().growth(), DEFAULT_GROWTH);
    // Growth 1: stages of (nearly) equal size; growth 4: few.
    let stages = |growth: f64| {
        let mut chain = Scalable::builder().keys::<u64>().items(100).growth(growth).build().unwrap();
        chain.insert_batch(&scattered(4, 0, 4_000)).unwrap();
        assert!(scattered(4, 0, 4_000).iter().all(|key| chain.contains(key).unwrap()));
        chain.stages()
    };
    assert!(stages(1.0) > 25);
    assert_eq!(stages(4.0), 4);
}

/// Grow, refuse, go on: the same chain, three answers to its first full stage.
#[test]
fn grow_refuse_or_go_on() {
    let build = |full| Scalable::builder().keys::<u64>().items(200).rate(0.01).when_full(full).build().unwrap();
    let keys = scattered(5, 0, 1_000);
    let mut grows = build(WhenFull::Grow);
    grows.insert_batch(&keys).unwrap();
    assert!(grows.stages() > 2 && !grows.is_full() && grows.expected_rate() <= 0.01);
    let mut refuses = build(WhenFull::Refuse);
    let error = refuses.insert_batch(&keys).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert_eq!((refuses.stages(), refuses.len(), refuses.is_full()), (1, 200, true));
    assert!(!refuses.insert(&keys[0]).unwrap());
    let mut goes_on = build(WhenFull::GoOn);
    goes_on.insert_batch(&keys).unwrap();
    assert_eq!(goes_on.stages(), 1);
    assert!(goes_on.expected_rate() > 0.01);
    for chain in [&grows, &goes_on] {
        assert!(keys.iter().all(|key| chain.contains(key).unwrap()));
    }
    // The default is to grow.
    assert_eq!(Scalable::builder().items(1).build().unwrap().when_full(), WhenFull::Grow);
}

/// T10, T11: sixty stages and their rates together stay within what was asked; no stage has more than 64 hashes.
#[test]
fn sixty_stages_keep_the_budget() {
    for (rate, tightening) in [
        (0.01, Tightening::default()),
        (0.01, Tightening::Geometric(0.5)),
        (1e-6, Tightening::default()),
        (1e-9, Tightening::Geometric(0.5)),
        (0.5, Tightening::Plateau { stages: 12, then: 0.5 }),
    ] {
        let build = |stages: Kind| {
            let chain = Scalable::builder().keys::<u64>().items(10).rate(rate).growth(1.0);
            chain.tightening(tightening).stages(stages).build().unwrap()
        };
        for kind in [Kind::Blocked, Kind::Classic, Kind::Partitioned] {
            let mut chain = build(kind);
            let mut i = 0;
            while chain.stages() < MAX_STAGES {
                chain.insert(&mix(i)).unwrap();
                i += 1;
            }
            assert!((0..i).all(|i| chain.contains(&mix(i)).unwrap()));
            assert!(chain.expected_rate() <= rate * 1.001, "{rate} {tightening:?} {kind}: {}", chain.expected_rate());
            // Each stage holds about 10 to 73 keys; with k capped and rates floored at 1e-15 none takes 72 hashes and more.
            assert!(chain.bits() as f64 / (chain.capacity() as f64) < 200.0, "{kind}: {} bits", chain.bits());
            let hits = (0..20_000).filter(|&j| chain.contains(&mix(ABSENT + j)).unwrap()).count() as u64;
            assert!(within(hits, 20_000, chain.estimated_rate(), 4.5), "{rate} {kind}: {hits}");
        }
    }
}

/// A chain of all the stages there can be refuses further keys rather than break its promise, and still knows its own.
#[test]
fn the_last_stage_refuses() {
    let build = || Scalable::builder().keys::<u64>().items(1).rate(0.01).growth(1.0);
    let mut chain = build().build().unwrap();
    let mut taken = Vec::new();
    let error = (0..)
        .find_map(|i| match chain.insert(&mix(i)) {
            Ok(_) => {
                taken.push(mix(i));
                None
            }
            Err(error) => Some(error),
        })
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert_eq!((chain.stages(), chain.is_full(), chain.remaining()), (MAX_STAGES, true, 0));
    assert!(chain.expected_rate() <= 0.01 && taken.len() as u64 >= chain.len());
    assert!(taken.iter().all(|key| chain.contains(key).unwrap() && !chain.insert(key).unwrap()));
    assert_eq!(chain.len(), (1..=64).sum::<u64>(), "growth 1 is one key more a stage");
    // The shared form says the same.
    let shared = build().build_shared().unwrap();
    let error = (0..).find_map(|i| shared.insert(&mix(i)).err()).unwrap();
    assert_eq!((error.kind(), shared.stages()), (ErrorKind::Full, MAX_STAGES));
    assert_eq!(shared.insert_batch(&taken).unwrap(), 0);
    // So does one whose next stage would be larger than any filter.
    let mut chain = Scalable::builder().keys::<u64>().items(1 << 26).growth(32_768.0).stages(Kind::Blocked);
    chain = chain.when_full(WhenFull::Grow);
    assert!(chain.build().is_ok());
}

/// First stages of a key or two, all kinds of stages, several rates: nothing lost, and the rate kept.
#[test]
fn small_first_stages_and_every_kind_of_stage() {
    for stages in [Kind::Blocked, Kind::Classic, Kind::Partitioned] {
        for (first, rate) in [(0, 0.5), (1, 0.1), (2, 0.01), (3, 1e-4), (10, 0.9)] {
            let mut chain = Scalable::builder().keys::<u64>().items(first).rate(rate).stages(stages).build().unwrap();
            assert_eq!(chain.stage_kind(), stages);
            let keys = scattered(6, 0, 3_000);
            for &key in &keys {
                let before = chain.contains(&key).unwrap();
                assert_eq!(chain.insert(&key).unwrap(), !before);
            }
            assert!(keys.iter().all(|key| chain.contains(key).unwrap()));
            assert!(chain.stages() > 4 && chain.expected_rate() <= rate, "{stages} {first} {rate}");
            let hits = scattered(6, ABSENT, 20_000).iter().filter(|key| chain.contains(key).unwrap()).count() as u64;
            assert!(within(hits, 20_000, chain.estimated_rate(), 4.5), "{stages} {first} {rate}: {hits}");
        }
    }
}

/// A stage is what a fixed-size filter of its capacity and share would be: a chain of one stage answers as that filter.
#[test]
fn one_stage_is_the_filter_itself() {
    let rate = bloomgate::math::scalable::stage_rate(0.01, Tightening::default(), 0);
    let keys = scattered(7, 0, 1_000);
    macro_rules! check {
        ($kind:ident) => {
            let mut chain =
                Scalable::builder().keys::<u64>().items(1_000).rate(0.01).stages(Kind::$kind).build().unwrap();
            let mut alone = $kind::builder().keys::<u64>().items(1_000).rate(rate).build().unwrap();
            assert_eq!(chain.insert_batch(&keys).unwrap(), alone.insert_batch(&keys).unwrap());
            assert_eq!((chain.bits(), chain.set_bits()), (alone.bits(), alone.set_bits()));
            for key in scattered(7, ABSENT, 5_000) {
                assert_eq!(chain.contains(&key).unwrap(), alone.contains(&key).unwrap());
            }
        };
    }
    check!(Blocked);
    check!(Classic);
    check!(Partitioned);
}

/// A key that comes again goes into no second stage, in whichever door and order it comes.
#[test]
fn duplicates_take_no_room() {
    let build = || Scalable::builder().keys::<u64>().items(50).rate(1e-6).build().unwrap();
    let keys = scattered(8, 0, 1_000);
    let mut once = build();
    once.insert_batch(&keys).unwrap();
    assert_eq!(once.len(), 1_000);
    let shape = |chain: &Scalable| (chain.stages(), chain.len(), chain.set_bits());
    let again = shape(&once);
    assert_eq!(once.insert_batch(&keys).unwrap(), 0);
    assert_eq!(shape(&once), again);
    // Every key twice in a row, and in one batch: stages open between the two.
    let doubled: Vec<u64> = keys.iter().flat_map(|&key| [key, key]).collect();
    let mut dice = Dice(9);
    let mut shuffled = doubled.clone();
    for i in (1..shuffled.len()).rev() {
        shuffled.swap(i, dice.below(i as u64 + 1) as usize);
    }
    for order in [&doubled, &shuffled] {
        let mut by_batch = build();
        assert_eq!(by_batch.insert_batch(order).unwrap(), 1_000);
        assert_eq!((by_batch.stages(), by_batch.len()), (again.0, 1_000));
        let shared = build().into_shared().unwrap();
        assert_eq!(shared.insert_batch(order).unwrap(), 1_000);
        assert_eq!((shared.stages(), shared.len()), (again.0, 1_000));
        let mut by_one = build();
        let fresh: u64 = order.iter().map(|key| u64::from(by_one.insert(key).unwrap())).sum();
        assert_eq!((fresh, by_one.stages()), (1_000, again.0));
    }
}

#[test]
fn clear_goes_back_to_one_stage() {
    let mut chain = Scalable::builder().keys::<u64>().items(100).rate(0.01).build().unwrap();
    let (bits, capacity) = (chain.bits(), chain.capacity());
    chain.insert_batch(&scattered(10, 0, 5_000)).unwrap();
    assert!(chain.stages() > 4 && chain.capacity() >= 5_000);
    let (room, stages) = (chain.remaining(), chain.stages());
    assert!(room <= chain.capacity() - chain.len());
    let mut more = scattered(12, 0, 10_000).into_iter();
    let mut new = 0;
    while chain.stages() == stages {
        new += u64::from(chain.insert(&more.next().unwrap()).unwrap());
    }
    assert_eq!(new, room + 1, "the first key past what remained opened a stage");
    chain.clear().unwrap();
    assert_eq!((chain.stages(), chain.bits(), chain.capacity(), chain.len()), (1, bits, capacity, 0));
    assert!(!scattered(10, 0, 5_000).iter().any(|key| chain.contains(key).unwrap()));
    chain.insert_batch(&scattered(11, 0, 5_000)).unwrap();
    assert!(scattered(11, 0, 5_000).iter().all(|key| chain.contains(key).unwrap()));
}

/// A copy is equal, and stays as it is when the original grows.
#[test]
fn a_clone_is_equal_and_apart() {
    let mut chain = Scalable::builder().keys::<u64>().items(100).rate(0.01).build().unwrap();
    (0..500u64).for_each(|key| assert!(chain.insert(&key).is_ok()));
    let copy = chain.clone();
    assert!(chain == copy);
    assert_eq!((copy.len(), copy.stages()), (chain.len(), chain.stages()));
    (500..2_000u64).for_each(|key| assert!(chain.insert(&key).is_ok()));
    assert!(chain != copy && chain.stages() > copy.stages());
    assert!((0..500u64).all(|key| copy.contains(&key).unwrap()));
    let shared = copy.clone().into_shared().unwrap();
    assert!(shared == copy);
}
