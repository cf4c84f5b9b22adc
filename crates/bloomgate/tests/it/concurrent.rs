//! Many threads at once: no key lost, none found late, and the same bits as one thread would set.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

use bloomgate::bloom::{BlockedLayout, ClassicLayout, CounterBits, Layout, PartitionedLayout};
use bloomgate::math::estimate::within;
use bloomgate::{Bloom, Counting, Cuckoo, ErrorKind, GrowingCuckoo, Kind, Quotient, Scalable, Shared, WhenFull};

use crate::keys::{ABSENT, scattered};

const THREADS: usize = 4;

/// Runs one closure per thread, all released at once.
fn together(work: impl Fn(usize) + Sync) {
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for at in 0..THREADS {
            let (work, start) = (&work, &start);
            scope.spawn(move || {
                start.wait();
                work(at);
            });
        }
    });
}

fn build<L: Layout>(items: u64, rate: f64) -> Bloom<L> {
    Bloom::<L>::builder().keys::<u64>().items(items).rate(rate).build().unwrap()
}

/// T78: each thread its own keys, in filters small enough that the threads meet in the same words.
fn disjoint_keys_are_all_kept<L: Layout>() {
    for (items, per_thread, rounds) in [(64, 40, 200u64), (20_000, 5_000, 5)] {
        for round in 0..rounds {
            let shared = build::<L>(items, 0.01).into_shared().unwrap();
            let keys: Vec<Vec<u64>> = (0..THREADS as u64).map(|at| scattered(round * 8 + at, 0, per_thread)).collect();
            let told = AtomicU64::new(0);
            together(|at| {
                // Odd threads in batches, even ones key by key.
                let fresh = if at % 2 == 1 {
                    keys[at].chunks(50).map(|keys| shared.insert_batch(keys).unwrap()).sum()
                } else {
                    keys[at].iter().map(|key| u64::from(shared.insert(key).unwrap())).sum()
                };
                told.fetch_add(fresh, Ordering::Relaxed);
                assert!(keys[at].iter().all(|key| shared.contains(key).unwrap()), "own keys, at once");
            });
            let mut alone = build::<L>(items, 0.01);
            for keys in &keys {
                alone.insert_batch(keys).unwrap();
            }
            assert_eq!(alone, shared, "not the bits of one thread");
            assert_eq!(shared.len(), told.into_inner());
            // Which keys are taken for present depends on the order: overfull filters count by it, others hardly.
            assert!(shared.len() <= per_thread * THREADS as u64);
            if items > 1_000 {
                let (together, alone) = (shared.len() as f64, alone.len() as f64);
                assert!((together / alone - 1.0).abs() <= 0.005, "{together} told, {alone} alone");
            }
        }
    }
}

/// T77: all threads the same keys in the same order, so that they race for each. Rates so low that no key is taken for
/// present by chance: each is new to somebody, and all threads together are told of little more than the keys there are.
fn the_same_keys_are_new_to_somebody<L: Layout>() {
    let keys = scattered(1, 0, 20_000);
    let shared = build::<L>(20_000, 1e-12).into_shared().unwrap();
    let told: Vec<AtomicU64> = keys.iter().map(|_| AtomicU64::new(0)).collect();
    together(|_| {
        for (key, told) in keys.iter().zip(&told) {
            if shared.insert(key).unwrap() {
                told.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let told: Vec<u64> = told.into_iter().map(AtomicU64::into_inner).collect();
    assert!(told.iter().all(|&times| (1..=THREADS as u64).contains(&times)), "a key that nobody was told of");
    let sum: u64 = told.iter().sum();
    assert_eq!(shared.len(), sum);
    assert!(sum >= 20_000);
    let mut alone = build::<L>(20_000, 1e-12);
    alone.insert_batch(&keys).unwrap();
    assert_eq!(alone, shared);
    assert_eq!(alone.len(), 20_000);
}

/// A key that a thread was told of is found by it: through a channel, and through an atomic.
fn acknowledged_keys_are_found<L: Layout>() {
    let shared = build::<L>(30_000, 0.01).into_shared().unwrap();
    acknowledged(|key| shared.insert(&key).map(|_| ()), |key| shared.contains(&key).unwrap(), 30_000);
}

fn acknowledged(
    insert: impl Fn(u64) -> bloomgate::Result<()> + Sync,
    contains: impl Fn(u64) -> bool + Sync,
    count: u64,
) {
    let keys = scattered(2, 0, count);
    let done = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        let (keys, done, over, insert) = (&keys, &done, &over, &insert);
        scope.spawn(move || {
            for (i, &key) in keys.iter().enumerate() {
                insert(key).unwrap();
                done.store(i as u64 + 1, Ordering::Release);
                if i % 3 == 0 {
                    send.send(key).unwrap();
                }
            }
            drop(send);
            over.store(true, Ordering::Release);
        });
        let contains = &contains;
        scope.spawn(move || {
            receive.into_iter().for_each(|key| assert!(contains(key), "told by a channel, not found"));
        });
        scope.spawn(move || {
            let mut asked = 0usize;
            while !over.load(Ordering::Acquire) {
                let known = done.load(Ordering::Acquire) as usize;
                // The newest, and one of the older ones.
                for at in [known.checked_sub(1), (known > 0).then(|| asked % known)].into_iter().flatten() {
                    assert!(contains(keys[at]), "told by an atomic, not found");
                }
                asked += 7;
            }
        });
    });
    assert!(keys.iter().all(|&key| contains(key)));
}

/// A full filter that refuses goes past its capacity by no more than the threads that insert at that moment.
fn refusing_together<L: Layout>() {
    let builder = Bloom::<L>::builder().keys::<u64>().items(1_000).rate(0.001).when_full(WhenFull::Refuse);
    let shared: Bloom<L, Shared> = builder.build_shared().unwrap();
    let taken = AtomicU64::new(0);
    together(|at| {
        for key in scattered(10 + at as u64, 0, 1_000) {
            match shared.insert(&key) {
                Ok(true) => {
                    taken.fetch_add(1, Ordering::Relaxed);
                    assert!(shared.contains(&key).unwrap());
                }
                Ok(false) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Full),
            }
        }
    });
    assert_eq!(shared.len(), taken.into_inner());
    assert!((1_000..1_000 + THREADS as u64).contains(&shared.len()), "{}", shared.len());
}

macro_rules! for_every_layout {
    ($($check:ident)*) => {$(
        mod $check {
            use super::*;
            #[test]
            fn classic() {
                super::$check::<ClassicLayout>();
            }
            #[test]
            fn blocked() {
                super::$check::<BlockedLayout>();
            }
            #[test]
            fn partitioned() {
                super::$check::<PartitionedLayout>();
            }
        }
    )*};
}
for_every_layout! {
    disjoint_keys_are_all_kept
    the_same_keys_are_new_to_somebody
    acknowledged_keys_are_found
    refusing_together
}

/// A chain that grows many times while four threads insert: every key kept, the rate kept, and the stages no more than
/// one thread would have needed.
#[test]
fn a_chain_grows_under_load() {
    for stages in [Kind::Blocked, Kind::Classic, Kind::Partitioned] {
        for (round, first) in [(0u64, 10), (1, 100), (2, 3_000)] {
            let builder = Scalable::builder().keys::<u64>().items(first).rate(0.01).stages(stages);
            let chain = builder.clone().build_shared().unwrap();
            let per_thread = 10_000;
            let keys: Vec<Vec<u64>> =
                (0..THREADS as u64).map(|at| scattered(20 + round * 8 + at, 0, per_thread)).collect();
            together(|at| {
                if at % 2 == 1 {
                    keys[at].chunks(300).for_each(|keys| assert!(chain.insert_batch(keys).is_ok()));
                } else {
                    keys[at].iter().for_each(|key| assert!(chain.insert(key).is_ok()));
                }
                assert!(keys[at].iter().all(|key| chain.contains(key).unwrap()));
            });
            for key in keys.iter().flatten() {
                assert!(chain.contains(key).unwrap(), "{stages} {first}: a wrong no");
            }
            let truth = per_thread * THREADS as u64;
            // One in a hundred keys at most was taken for present, a handful were told to two threads.
            assert!((truth * 985 / 1000..=truth + 100).contains(&chain.len()), "{} of {truth}", chain.len());
            let mut alone = builder.build().unwrap();
            keys.iter().for_each(|keys| assert!(alone.insert_batch(keys).is_ok()));
            assert!(chain.stages().abs_diff(alone.stages()) <= 1, "{} and {}", chain.stages(), alone.stages());
            // Each stage may go past its capacity by the threads that were inserting when it filled.
            assert!(chain.expected_rate() <= 0.0101, "{stages} {first}: {}", chain.expected_rate());
            let hits = scattered(20, ABSENT, 100_000).iter().filter(|key| chain.contains(key).unwrap()).count() as u64;
            assert!(within(hits, 100_000, chain.estimated_rate(), 4.5), "{stages} {first}: {hits}");
            let owned = chain.into_owned().unwrap();
            assert!(keys.iter().flatten().all(|key| owned.contains(key).unwrap()));
        }
    }
}

/// Keys that a chain acknowledged are found while it grows.
#[test]
fn a_growing_chain_never_forgets() {
    let chain = Scalable::builder().keys::<u64>().items(5).rate(0.01).build_shared().unwrap();
    acknowledged(|key| chain.insert(&key).map(|_| ()), |key| chain.contains(&key).unwrap(), 20_000);
    assert!(chain.stages() > 8);
}

/// The same keys from all threads into a growing chain: each is new to somebody, and few are in it twice.
#[test]
fn a_chain_told_the_same_keys_by_all() {
    let chain = Scalable::builder().keys::<u64>().items(100).rate(1e-9).build_shared().unwrap();
    let keys = scattered(40, 0, 10_000);
    let told: Vec<AtomicU64> = keys.iter().map(|_| AtomicU64::new(0)).collect();
    together(|_| {
        for (key, told) in keys.iter().zip(&told) {
            told.fetch_add(u64::from(chain.insert(key).unwrap()), Ordering::Relaxed);
        }
    });
    assert!(told.iter().all(|told| told.load(Ordering::Relaxed) >= 1));
    let sum: u64 = told.iter().map(|told| told.load(Ordering::Relaxed)).sum();
    assert_eq!(chain.len(), sum);
    assert!(keys.iter().all(|key| chain.contains(key).unwrap() && !chain.insert(key).unwrap()));
}

/// The shared forms cross threads and can be read by many; so can the owned ones.
#[test]
fn filters_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<bloomgate::Blocked>();
    check::<bloomgate::Blocked<Shared>>();
    check::<bloomgate::Classic<Shared>>();
    check::<bloomgate::Partitioned<Shared>>();
    check::<bloomgate::Counting>();
    check::<Scalable>();
    check::<Scalable<Shared>>();
}

/// T40 with threads: two insert and remove keys of their own, one asks for keys that stay. Filters so small that they all
/// meet in the same counters; what stays is never told to be absent, and in the end the counters are those of one thread.
#[test]
fn counters_lose_no_key_that_stays_while_others_go() {
    for (items, rounds) in [(40u64, 300u64), (400, 60)] {
        let build = || Counting::builder().keys::<u64>().items(items).rate(0.1);
        let shared = build().build_shared().unwrap();
        let stay = scattered(1, 0, items / 4);
        assert!(shared.insert_batch(&stay).unwrap() > 0);
        let working = AtomicU64::new(2);
        let asked = AtomicU64::new(0);
        together(|at| {
            if at < 2 {
                let own = scattered(10 + at as u64, 0, items / 4);
                let mut round = 0;
                // On a busy machine the asking thread may start late: they go on until it has asked.
                while round < rounds || asked.load(Ordering::Relaxed) == 0 {
                    round += 1;
                    if round % 2 == 0 {
                        for key in &own {
                            shared.insert(key).unwrap();
                        }
                    } else {
                        shared.insert_batch(&own).unwrap();
                    }
                    assert!(own.iter().all(|key| shared.contains(key).unwrap()), "own keys, at once");
                    assert!(own.iter().all(|key| shared.remove(key).unwrap()), "a key that is there was not removed");
                }
                working.fetch_sub(1, Ordering::Release);
                return;
            }
            let mut answers = vec![false; stay.len()];
            while working.load(Ordering::Acquire) > 0 {
                assert!(stay.iter().all(|key| shared.contains(key).unwrap()), "a wrong no");
                assert!(stay.iter().all(|key| shared.count_estimate(key).unwrap() >= 1));
                shared.contains_batch(&stay, &mut answers).unwrap();
                assert!(answers.iter().all(|&maybe| maybe), "a wrong no in a batch");
                assert!(shared.to_plain().unwrap().contains(&stay[0]).unwrap());
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut alone = build().build().unwrap();
        alone.insert_batch(&stay).unwrap();
        assert_eq!(alone, shared, "something of what was removed is left, or of what stays is not");
        assert_eq!((shared.len(), shared.to_bytes().unwrap()), (alone.len(), alone.to_bytes().unwrap()));
        let owned = shared.into_owned().unwrap();
        assert_eq!((owned.len(), &owned), (alone.len(), &alone));
    }
}

/// A key that was put in once can be taken out once, whoever tries; and is new to exactly one.
#[test]
fn one_key_is_counted_in_once_and_out_once() {
    // Eight bits: each key is counted four times, and no counter may stick.
    let build = Counting::builder().keys::<u64>().items(20_000).rate(1e-9).counter_bits(CounterBits::Eight);
    let shared = build.build_shared().unwrap();
    let keys = scattered(2, 0, 5_000);
    let (told, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    together(|_| {
        for key in &keys {
            told.fetch_add(u64::from(shared.insert(key).unwrap()), Ordering::Relaxed);
        }
    });
    assert_eq!(told.into_inner(), keys.len() as u64);
    assert_eq!(shared.len(), (THREADS * keys.len()) as u64);
    together(|_| {
        for key in &keys {
            // Once more than was put in: the last is refused.
            for _ in 0..2 {
                taken.fetch_add(u64::from(shared.remove(key).unwrap()), Ordering::Relaxed);
            }
        }
    });
    assert_eq!(taken.into_inner(), (THREADS * keys.len()) as u64);
    assert_eq!((shared.len(), shared.set_cells()), (0, 0));
}

/// A counting filter that refuses never goes past its capacity, however many threads insert.
#[test]
fn a_full_counting_filter_refuses_exactly() {
    let shared = Counting::builder().keys::<u64>().items(1_000).when_full(WhenFull::Refuse).build_shared().unwrap();
    let taken = AtomicU64::new(0);
    together(|at| {
        for chunk in scattered(30 + at as u64, 0, 500).chunks(10) {
            for key in chunk {
                match shared.insert(key) {
                    Ok(_) => {
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(refusal) => assert_eq!(refusal.kind(), ErrorKind::Full),
                }
            }
        }
    });
    assert_eq!((taken.into_inner(), shared.len()), (1_000, 1_000));
    assert_eq!(shared.insert_batch(&[1u64]).unwrap_err().kind(), ErrorKind::Full);
}

/// A filter whose cells move is copied while they do: every key that was in before the call is in each file.
#[test]
fn files_of_moving_filters_miss_no_key() {
    const KEPT: u64 = 20_000;
    macro_rules! saved_while_written {
        ($kind:ident, $filter:expr) => {{
            let filter = $filter;
            for key in 0..KEPT {
                filter.insert(&key).unwrap();
            }
            let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut rounds = 0u64;
                    while rounds == 0 || !done.load(Ordering::Relaxed) {
                        begun.store(true, Ordering::Relaxed);
                        let (from, to) = (KEPT + rounds % 5 * 1_000, KEPT + (rounds % 5 + 1) * 1_000);
                        for key in from..to {
                            filter.insert(&key).unwrap();
                        }
                        for key in from..to {
                            assert!(filter.remove(&key).unwrap());
                        }
                        rounds += 1;
                    }
                });
                let keys: Vec<u64> = (0..KEPT).collect();
                // On a busy machine all copies could be made before it has a turn.
                while !begun.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                for _ in 0..12 {
                    let copy = $kind::from_bytes(&filter.to_bytes().unwrap()).unwrap();
                    let mut answers = vec![false; keys.len()];
                    copy.contains_batch(&keys, &mut answers).unwrap();
                    let missed = answers.iter().filter(|&&answer| !answer).count();
                    assert_eq!(missed, 0, "{} keys are missing in the file of a {} filter", missed, copy.kind());
                    assert!(copy.len() >= KEPT && copy.len() <= KEPT + 1_000, "{}", copy.len());
                }
                done.store(true, Ordering::Relaxed);
                writer.join().unwrap();
            });
        }};
    }
    saved_while_written!(Counting, Counting::builder().keys::<u64>().items(25_000).build_shared().unwrap());
    saved_while_written!(Cuckoo, Cuckoo::builder().keys::<u64>().items(21_000).build_shared().unwrap());
    saved_while_written!(Quotient, Quotient::builder().keys::<u64>().items(21_000).build_shared().unwrap());
    saved_while_written!(GrowingCuckoo, GrowingCuckoo::builder().keys::<u64>().items(9_000).build_shared().unwrap());
}
