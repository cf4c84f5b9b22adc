//! A filter of any kind, shared between threads: inserted into, counted, removed from, copied.

use std::time::Duration;

use bloomgate::bits::Shared;
use bloomgate::foreign::{BfV1, RedisCuckoo};
use bloomgate::{
    AnyFilter, Blocked, Classic, Contract, Counting, Cuckoo, Digest, ErrorKind, Fuse, GrowingCuckoo, Insertion, Kind,
    Partitioned, Quotient, Ribbon, Rotating, Scalable, Stable, cuckoo, quotient,
};

/// One empty filter of every kind that many threads write to.
fn shareable() -> Vec<AnyFilter> {
    vec![
        Classic::builder().items(3_000).build().unwrap().into(),
        Blocked::builder().items(3_000).build().unwrap().into(),
        Partitioned::builder().items(3_000).build().unwrap().into(),
        Counting::builder().items(3_000).build().unwrap().into(),
        Scalable::builder().items(100).build().unwrap().into(),
        Rotating::builder().items(3_000).window(Duration::from_secs(60)).build().unwrap().into(),
        Cuckoo::builder().items(3_000).build().unwrap().into(),
        GrowingCuckoo::builder().items(100).build().unwrap().into(),
        Quotient::builder().items(100).grow_to(3_000).build().unwrap().into(),
    ]
}

fn digests(from: u64, to: u64) -> Vec<Digest> {
    let contract = Contract::xxh3_seeded(5).for_keys::<u64>();
    (from..to).map(|key| contract.digest(&key).unwrap()).collect()
}

#[test]
fn every_kind_is_written_copied_and_taken_back() {
    let (first, later) = (digests(0, 1_500), digests(1_500, 2_000));
    for owned in shareable() {
        let kind = owned.kind();
        let shared: AnyFilter<Shared> = owned.into_shared().unwrap();
        let mut outcomes = vec![Insertion::Full; first.len()];
        shared.insert_each(&first, &mut outcomes).unwrap();
        let new = outcomes.iter().filter(|&&outcome| outcome == Insertion::New).count();
        assert!(new > 1_400 && outcomes.iter().all(|outcome| outcome.is_in()), "{kind}: {new} new");
        let copy = shared.copy().unwrap();
        let before = shared.len();
        shared.insert_each(&later, &mut vec![Insertion::Full; later.len()]).unwrap();
        assert_eq!((copy.kind(), copy.len(), copy.capacity() > 0), (kind, before, true));
        assert!(shared.len() > before, "{kind}: the copy is another filter");
        assert!(first.iter().all(|&digest| copy.contains_digest(digest)), "{kind}");
        let strangers = later.iter().filter(|&&digest| copy.contains_digest(digest)).count();
        assert!(strangers < 50, "{kind}: {strangers} of {} not in the copy seem to be", later.len());
        // The copy is a filter like any other: it can be saved, and is the same when it comes back.
        let again = AnyFilter::from_bytes(&copy.to_bytes().unwrap()).unwrap();
        assert_eq!(again.to_bytes().unwrap(), copy.to_bytes().unwrap(), "{kind}");
        let back = shared.into_owned().unwrap();
        assert!(first.iter().chain(&later).all(|&digest| back.contains_digest(digest)), "{kind}");
    }
}

#[test]
fn removal_and_counts_where_there_are_any() {
    let one = digests(0, 1)[0];
    for owned in shareable() {
        let kind = owned.kind();
        let shared = owned.into_shared().unwrap();
        shared.insert_each(&[one, one], &mut [Insertion::Full; 2]).unwrap();
        if kind.takes_removals() {
            assert_eq!(shared.count_of_digest(one).unwrap(), 2, "{kind}");
            assert!(shared.remove_digest(one).unwrap() && shared.remove_digest(one).unwrap());
            assert_eq!((shared.count_of_digest(one).unwrap(), shared.len()), (0, 0), "{kind}");
            assert!(!shared.remove_digest(one).unwrap() && !shared.contains_digest(one));
        } else {
            assert_eq!(shared.remove_digest(one).unwrap_err().kind(), ErrorKind::Unsupported);
            assert_eq!(shared.count_of_digest(one).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }
    let mut redis = RedisCuckoo::builder().items(100).build().unwrap();
    let key = redis.contract().digest("a").unwrap();
    redis.insert_digest(key).unwrap();
    redis.insert_digest(key).unwrap();
    assert_eq!(AnyFilter::from(redis).count_of_digest(key).unwrap(), 2);
}

/// Up to the number that is named, copies go out exactly as they came in; the next one would stick, and can be seen to.
#[test]
fn copies_are_exact_up_to_the_number_that_is_named() {
    let most = |kind| match kind {
        Kind::Cuckoo | Kind::GrowingCuckoo => Some(cuckoo::MAX_COPIES),
        Kind::Quotient => Some(quotient::MAX_COPIES),
        _ => None,
    };
    for owned in shareable() {
        let Some(most) = most(owned.kind()) else { continue };
        let shared = owned.into_shared().unwrap();
        for &digest in &digests(0, 20) {
            for copies in 0..most {
                assert_eq!(shared.count_of_digest(digest).unwrap(), copies);
                shared.insert_each(&[digest], &mut [Insertion::Full]).unwrap();
            }
            assert_eq!(shared.count_of_digest(digest).unwrap(), most);
            for copies in (0..most).rev() {
                assert!(shared.remove_digest(digest).unwrap());
                assert_eq!(shared.count_of_digest(digest).unwrap(), copies);
            }
        }
        // One more than that is there for ever.
        let digest = digests(0, 1)[0];
        for _ in 0..=most {
            shared.insert_each(&[digest], &mut [Insertion::Full]).unwrap();
        }
        assert_eq!(shared.count_of_digest(digest).unwrap(), most + 1);
        (0..=most).for_each(|_| assert!(shared.remove_digest(digest).unwrap()));
        assert!(shared.contains_digest(digest));
    }
}

#[test]
fn kinds_of_one_owner_say_so() {
    let keys = ["a", "b"];
    let alone: Vec<AnyFilter> = vec![
        Stable::builder().items(100).build().unwrap().into(),
        Fuse::builder().build_from(keys).unwrap().into(),
        Ribbon::builder().build_from(keys).unwrap().into(),
        BfV1::builder().items(100).build().unwrap().into(),
    ];
    for filter in alone {
        assert_eq!(filter.into_shared().unwrap_err().kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn time_passes_for_rings_alone() {
    let digest = digests(0, 1);
    for owned in shareable() {
        let kind = owned.kind();
        let shared = owned.into_shared().unwrap();
        shared.advance(Duration::from_secs(0));
        shared.insert_each(&digest, &mut [Insertion::Full]).unwrap();
        shared.advance(Duration::from_secs(200));
        assert_eq!(shared.contains_digest(digest[0]), kind != Kind::Rotating, "{kind}");
    }
}
