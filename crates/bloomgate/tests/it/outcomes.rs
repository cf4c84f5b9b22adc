//! `insert_each`: for every kind the outcome of each key is that of inserting it alone.

use std::time::Duration;

use bloomgate::bloom::Scalable;
use bloomgate::{
    Blocked, Classic, Contract, Counting, Cuckoo, Digest, Error, ErrorKind, GrowingCuckoo, Insertion, Kind,
    Partitioned, Quotient, Rotating, WhenFull,
};

/// Keys in a scrambled order, of which every third comes again, some of them in the same batch.
fn stream(keys: u64) -> Vec<Digest> {
    let contract = Contract::xxh3_seeded(11).for_keys::<u64>();
    let digest = |key: u64| contract.digest(&key).unwrap();
    (0..keys)
        .flat_map(|key| {
            let again = if key % 5 == 0 { key } else { key.wrapping_mul(7919) % (key + 1) };
            [Some(digest(key)), (key % 3 == 0).then(|| digest(again))]
        })
        .flatten()
        .collect()
}

fn alone(inserted: Result<bool, Error>) -> Insertion {
    match inserted {
        Ok(true) => Insertion::New,
        Ok(false) => Insertion::Known,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Full);
            Insertion::Full
        }
    }
}

/// Inserts the stream by batches of several sizes and one by one, and compares outcomes and counts.
macro_rules! as_alone {
    ($build:expr, $keys:expr) => {{
        let stream = stream($keys);
        let expected: Vec<Insertion> = {
            let one_by_one = $build;
            let outcomes = stream.iter().map(|&digest| alone(one_by_one.insert_digest(digest))).collect();
            outcomes
        };
        for batch in [1, 31, 32, 33, 256, 1000, stream.len()] {
            let (filter, twin) = ($build, $build);
            let mut outcomes = vec![Insertion::Full; stream.len()];
            for (digests, outcomes) in stream.chunks(batch).zip(outcomes.chunks_mut(batch)) {
                filter.insert_each(digests, outcomes).unwrap();
            }
            assert_eq!(outcomes, expected, "batches of {batch}");
            stream.iter().for_each(|&digest| drop(twin.insert_digest(digest)));
            assert_eq!(filter.len(), twin.len());
            for (&digest, outcome) in stream.iter().zip(&outcomes) {
                assert!(!outcome.is_in() || filter.contains_digest(digest));
            }
            let short = filter.insert_each(&stream, &mut outcomes[1..]).unwrap_err();
            assert_eq!(short.kind(), ErrorKind::InvalidParameter);
        }
        expected
    }};
}

fn count(outcomes: &[Insertion], of: Insertion) -> usize {
    outcomes.iter().filter(|&&outcome| outcome == of).count()
}

#[test]
fn fixed_sizes() {
    let outcomes = as_alone!(Blocked::builder().items(2_000).rate(0.01).build_shared().unwrap(), 2_000);
    assert!(count(&outcomes, Insertion::New) > 1_950 && count(&outcomes, Insertion::Known) > 600);
    // Several lines a key, beyond the caches' size for classic filters, and small ones.
    as_alone!(Blocked::builder().items(2_000).rate(1e-6).build_shared().unwrap(), 2_000);
    as_alone!(Classic::builder().items(2_000).rate(0.01).build_shared().unwrap(), 2_000);
    as_alone!(Classic::builder().items(400_000).rate(0.001).build_shared().unwrap(), 2_000);
    as_alone!(Partitioned::builder().items(2_000).rate(0.001).build_shared().unwrap(), 2_000);
}

#[test]
fn a_full_filter_refuses_the_unknown_and_knows_the_rest() {
    let small = || Blocked::builder().items(1_000).rate(0.001).when_full(WhenFull::Refuse);
    let outcomes = as_alone!(small().build_shared().unwrap(), 2_000);
    assert_eq!(count(&outcomes, Insertion::New), 1_000);
    assert!(count(&outcomes, Insertion::Full) > 900);
    let last_new = outcomes.iter().rposition(|&outcome| outcome == Insertion::New).unwrap();
    assert!(outcomes[last_new..].contains(&Insertion::Known));
    // Far from full: the batches go in whole.
    as_alone!(small().items(100_000).build_shared().unwrap(), 2_000);
}

#[test]
fn chains_grow_inside_a_batch() {
    for stages in [Kind::Blocked, Kind::Classic, Kind::Partitioned] {
        let build = || Scalable::builder().items(100).rate(0.01).stages(stages).build_shared().unwrap();
        let outcomes = as_alone!(build(), 3_000);
        assert_eq!(count(&outcomes, Insertion::Full), 0);
    }
    let outcomes = as_alone!(
        Scalable::builder().items(500).rate(0.001).when_full(WhenFull::Refuse).build_shared().unwrap(),
        2_000
    );
    assert_eq!(count(&outcomes, Insertion::New), 500);
    as_alone!(Scalable::builder().items(500).when_full(WhenFull::GoOn).build_shared().unwrap(), 2_000);
    as_alone!(Scalable::builder().items(100_000).build_shared().unwrap(), 5_000);
}

#[test]
fn kinds_with_one_writer_at_a_time() {
    as_alone!(Counting::builder().items(2_000).build_shared().unwrap(), 2_000);
    as_alone!(Quotient::builder().items(500).grow_to(4_000).build_shared().unwrap(), 2_000);
    as_alone!(GrowingCuckoo::builder().items(100).build_shared().unwrap(), 1_000);
    let outcomes = as_alone!(Cuckoo::builder().items(1_000).build_shared().unwrap(), 2_000);
    assert!(count(&outcomes, Insertion::Full) > 500);
    as_alone!(Rotating::builder().items(2_000).window(Duration::from_secs(60)).build_shared().unwrap(), 2_000);
}

/// Threads that grow a chain together: every new key is told to be new at least once, and none is missed.
#[test]
fn many_threads_grow_a_chain() {
    let chain = Scalable::builder().items(1_000).rate(0.01).build_shared().unwrap();
    let contract = Contract::xxh3().for_keys::<u64>();
    let digests: Vec<Digest> = (0..40_000u64).map(|key| contract.digest(&key).unwrap()).collect();
    let new: u64 = std::thread::scope(|scope| {
        let (chain, digests) = (&chain, &digests);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                scope.spawn(move || {
                    let mut new = 0;
                    for digests in digests[writer * 10_000..(writer + 1) * 10_000].chunks(100) {
                        let mut outcomes = [Insertion::Full; 100];
                        chain.insert_each(digests, &mut outcomes).unwrap();
                        assert_eq!(count(&outcomes, Insertion::Full), 0);
                        new += count(&outcomes, Insertion::New) as u64;
                    }
                    new
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(chain.len(), new);
    assert!((39_500..=40_000).contains(&new), "{new}");
    assert!(digests.iter().all(|&digest| chain.contains_digest(digest)));
    // No stage went past what it was made for by more than a few keys: the promise holds.
    assert!(chain.expected_rate() <= 0.01 * 1.01, "{}", chain.expected_rate());
}
