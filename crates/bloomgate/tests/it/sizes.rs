//! Sizes before memory: what a builder says it needs is what its filter has.

use std::time::Duration;

use bloomgate::bloom::counting::CounterBits;
use bloomgate::{
    Blocked, Classic, Counting, Cuckoo, ErrorKind, GrowingCuckoo, Kind, Partitioned, Quotient, Rotating, Scalable,
    Stable, WhenFull,
};

const ITEMS: [u64; 6] = [1, 7, 100, 999, 10_000, 123_457];
const RATES: [f64; 4] = [0.3, 0.01, 0.001, 1e-7];

/// Builds what the builder describes, and compares; or both refuse alike.
macro_rules! agrees {
    ($builder:expr) => {{
        let builder = $builder;
        match (builder.bytes_needed(), builder.clone().build()) {
            (Ok(bytes), Ok(built)) => {
                assert_eq!(bytes, built.size_in_bytes(), "{builder:?}");
                assert!(bytes > 0);
            }
            (Err(told), Err(refused)) => assert_eq!(told.to_string(), refused.to_string()),
            (told, built) => panic!("{builder:?}: {told:?} and {:?}", built.map(|built| built.size_in_bytes())),
        }
    }};
}

#[test]
fn a_builder_knows_the_size_of_what_it_builds() {
    let minute = Duration::from_secs(60);
    for items in ITEMS {
        for rate in RATES {
            agrees!(Blocked::builder().items(items).rate(rate));
            agrees!(Blocked::builder().items(items).rate(rate).headroom(1.5).fold_levels(3));
            agrees!(Classic::builder().items(items).rate(rate));
            agrees!(Partitioned::builder().items(items).rate(rate));
            agrees!(Counting::builder().items(items).rate(rate));
            agrees!(Counting::builder().items(items).rate(rate).counter_bits(CounterBits::Eight));
            agrees!(Cuckoo::builder().items(items).rate(rate));
            agrees!(GrowingCuckoo::builder().items(items).rate(rate));
            agrees!(Quotient::builder().items(items).rate(rate));
            agrees!(Quotient::builder().items(items).grow_to(items * 10).rate(rate));
            agrees!(Rotating::builder().items(items).rate(rate).window(minute).generations(5));
            agrees!(Stable::builder().items(items).rate(rate));
            for stages in [Kind::Blocked, Kind::Classic, Kind::Partitioned] {
                agrees!(Scalable::builder().items(items).rate(rate).stages(stages));
            }
        }
        agrees!(Blocked::builder().bytes(items * 64).items(items));
        agrees!(Blocked::builder().bytes(items * 64).rate(0.01));
        agrees!(Classic::builder().bits(items * 10).hashes(7));
        agrees!(Cuckoo::builder().bytes(items * 64).rate(0.01));
        agrees!(Counting::builder().bytes(items * 256).rate(0.01));
        agrees!(Stable::builder().bytes(items * 64).rate(0.01));
        agrees!(Rotating::builder().bytes(items * 640).rate(0.01).window(minute));
    }
}

#[test]
fn what_cannot_be_built_is_refused_alike() {
    agrees!(Blocked::builder());
    agrees!(Blocked::builder().items(10).rate(2.0));
    agrees!(Blocked::builder().items(10_000).rate(0.01).bytes(64));
    agrees!(Blocked::builder().items(10).when_full(WhenFull::Grow));
    agrees!(Counting::builder().items(10_000).bytes(64));
    agrees!(Counting::builder().counters(511, 8));
    agrees!(Counting::builder().items(10).when_full(WhenFull::Grow));
    agrees!(Cuckoo::builder().items(10).when_full(WhenFull::GoOn));
    agrees!(GrowingCuckoo::builder().when_full(WhenFull::GoOn));
    agrees!(GrowingCuckoo::builder().growth(3.0));
    agrees!(Scalable::builder().growth(0.5));
    agrees!(Scalable::builder().rate(1e-15));
    agrees!(Scalable::builder().stages(Kind::Cuckoo));
    agrees!(Quotient::builder());
    agrees!(Rotating::builder().items(10));
    agrees!(Stable::builder());
    agrees!(Stable::builder().items(10).when_full(WhenFull::Refuse));
    assert_eq!(Blocked::builder().items(1 << 41).bytes_needed().unwrap_err().kind(), ErrorKind::InvalidParameter);
}

/// A terabyte and more: answered, and not tried.
#[test]
fn the_largest_sizes_are_known_too() {
    let most = 1u64 << 40;
    let bits_per_key = |bytes: u64| bytes as f64 * 8.0 / most as f64;
    let near =
        |bytes: u64, bits: f64| assert!((bits_per_key(bytes) / bits - 1.0).abs() < 0.05, "{}", bits_per_key(bytes));
    near(Blocked::builder().items(most).bytes_needed().unwrap(), 10.11);
    near(Classic::builder().items(most).bytes_needed().unwrap(), 9.59);
    near(Partitioned::builder().items(most).bytes_needed().unwrap(), 9.59);
    near(Counting::builder().items(most).bytes_needed().unwrap(), 41.0);
    near(Cuckoo::builder().items(most).bytes_needed().unwrap(), 10.58);
    near(Quotient::builder().items(most).bytes_needed().unwrap(), 11.4);
    assert!(bits_per_key(Scalable::builder().items(most).bytes_needed().unwrap()) > 10.0);
    assert!(bits_per_key(GrowingCuckoo::builder().items(most).bytes_needed().unwrap()) > 10.0);
    assert!(bits_per_key(Stable::builder().items(most).bytes_needed().unwrap()) > 10.0);
    let ring = Rotating::builder().items(most).window(Duration::from_secs(60));
    near(ring.bytes_needed().unwrap(), 17.4);
}

/// What the next stage takes, stage after stage; and nothing where none will come.
#[test]
fn chains_know_their_next_stage() {
    for kind in [Kind::Blocked, Kind::Classic, Kind::Partitioned] {
        let mut chain = Scalable::builder().keys::<u64>().items(50).stages(kind).build().unwrap();
        let mut keys = 0u64..;
        for stages in 2..7 {
            let (before, next) = (chain.size_in_bytes(), chain.next_stage_bytes().unwrap());
            while chain.stages() < stages {
                chain.insert(&keys.next().unwrap()).unwrap();
            }
            assert_eq!(chain.size_in_bytes(), before + next);
        }
    }
    let mut chain = GrowingCuckoo::builder().keys::<u64>().items(50).build().unwrap();
    let mut keys = 0u64..;
    for stages in 2..6 {
        let (before, next) = (chain.size_in_bytes(), chain.next_stage_bytes().unwrap());
        while chain.stages() < stages {
            chain.insert(&keys.next().unwrap()).unwrap();
        }
        assert_eq!(chain.size_in_bytes(), before + next);
    }
    let refuses = WhenFull::Refuse;
    assert_eq!(Scalable::builder().when_full(refuses).build().unwrap().next_stage_bytes().unwrap(), 0);
    assert_eq!(Scalable::builder().when_full(WhenFull::GoOn).build().unwrap().next_stage_bytes().unwrap(), 0);
    assert_eq!(GrowingCuckoo::builder().when_full(refuses).build().unwrap().next_stage_bytes().unwrap(), 0);
    // A second stage of more than 2^40 keys cannot be.
    let widest = Scalable::builder().items(1 << 26).growth(32_768.0).build().unwrap();
    assert_eq!(widest.next_stage_bytes().unwrap_err().kind(), ErrorKind::Full);
}
