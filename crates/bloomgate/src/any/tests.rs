//! The kinds that read their words without bounds checks, small enough for Miri: one by one, in batches, and shared.

use super::AnyFilter;
use crate::cuckoo::Cuckoo;
use crate::fuse::Fuse;
use crate::hash::{Contract, Digest};
use crate::quotient::Quotient;
use crate::ribbon::Ribbon;

fn digest(i: u64) -> Digest {
    let lo = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let lo = (lo ^ (lo >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    Digest::new(lo ^ (lo >> 29), lo.wrapping_mul(0xd134_2543_de82_ef95) ^ i)
}

/// Every key, and as many strangers, alone and in a batch of no round number.
fn asked(filter: &AnyFilter) {
    let digests: Vec<Digest> = (0..80).map(digest).collect();
    let mut answers = vec![false; digests.len()];
    filter.contains_digests(&digests, &mut answers).unwrap();
    for (i, (&digest, &answer)) in digests.iter().zip(&answers).enumerate() {
        assert_eq!(filter.contains_digest(digest), answer, "{} {i}", filter.kind());
        assert!(answer || i >= 40, "{} lost {i}", filter.kind());
    }
}

#[test]
fn miri_small_fingerprint_tables_keep_every_key() {
    let keys: Vec<Digest> = (0..40).map(digest).collect();
    for width in [5, 10, 17, 40] {
        let mut filter =
            Cuckoo::builder().buckets(26).fingerprint_bits(width).contract(Contract::given()).build().unwrap();
        filter.insert_digests(&keys[..20]).unwrap();
        for &key in &keys[20..] {
            filter.insert_digest(key).unwrap();
        }
        asked(&filter.clone().into());
        assert!(keys.iter().all(|&key| filter.remove_digest(key)));
        assert!(filter.is_empty());
    }
    for rate in [0.3, 0.01, 1e-9] {
        let mut filter =
            Quotient::builder().items(10).grow_to(60).rate(rate).contract(Contract::given()).build().unwrap();
        for &key in &keys {
            filter.insert_digest(key).unwrap();
        }
        asked(&filter.clone().into());
        assert!(keys.iter().all(|&key| filter.remove_digest(key)));
        assert!(filter.is_empty());
    }
}

#[test]
fn miri_small_static_filters_keep_every_key() {
    let keys: Vec<Digest> = (0..40).map(digest).collect();
    for bits in [1, 7, 8, 11, 16, 29, 32] {
        let filter = Fuse::builder().fingerprint_bits(bits).threads(1).contract(Contract::given());
        asked(&filter.build_from_digests(&keys).unwrap().into());
    }
    for rate in [0.3, 0.01, 1e-9] {
        asked(&Ribbon::builder().rate(rate).contract(Contract::given()).build_from_digests(&keys).unwrap().into());
    }
}

#[test]
fn miri_readers_meet_a_writer_that_moves_fingerprints() {
    let cuckoo = Cuckoo::builder().buckets(26).fingerprint_bits(10).contract(Contract::given()).build_shared().unwrap();
    let quotient = Quotient::builder().items(30).contract(Contract::given()).build_shared().unwrap();
    (0..10).for_each(|i| {
        cuckoo.insert_digest(digest(i)).unwrap();
        quotient.insert_digest(digest(i)).unwrap();
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 10..30 {
                cuckoo.insert_digest(digest(i)).unwrap();
                quotient.insert_digest(digest(i)).unwrap();
            }
        });
        for i in 0..10 {
            assert!(cuckoo.contains_digest(digest(i)) && quotient.contains_digest(digest(i)));
        }
    });
    assert!((0..30).all(|i| cuckoo.contains_digest(digest(i)) && quotient.contains_digest(digest(i))));
}
