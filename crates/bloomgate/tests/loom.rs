//! The shared filters in every interleaving of two threads that the memory model allows (loom), over the code that
//! ships: under `--cfg loom` only the atomics are exchanged.
//!
//! Run by `scripts/soak loom`. Chains are not here: their stages are these filters, and what opens a stage is a lock
//! and a once-cell of the standard library.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool as Seen, Ordering::SeqCst};
use std::time::Duration;

use bloomgate::bits::Version;
use bloomgate::guard::{Guard, Verdict};
use bloomgate::{Blocked, Classic, Counting, Digest, Partitioned, Rotating, Shared};
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;

const KEY: Digest = Digest::new(3, 7 << 60);
const OTHER: Digest = Digest::new(1 << 63 | 1 << 40, 3 << 62 | 5);

/// Two slices of 64 bits: every key has one bit in each of two words, wherever the layout puts it there.
fn two_words() -> Arc<Partitioned<Shared>> {
    Arc::new(Partitioned::builder().bits(128).hashes(2).build_shared().unwrap())
}

/// T77: one key from two threads. At least one is told that it was new; all its bits are set; what was told is counted.
#[test]
fn one_key_from_two_threads_is_new_to_at_least_one() {
    static ONE: Seen = Seen::new(false);
    static BOTH: Seen = Seen::new(false);
    let digest = KEY;
    loom::model(move || {
        let filter = two_words();
        let other = {
            let filter = filter.clone();
            thread::spawn(move || filter.insert_digest(digest).unwrap())
        };
        let here = filter.insert_digest(digest).unwrap();
        let there = other.join().unwrap();
        assert!(here || there, "nobody was told");
        if here && there { &BOTH } else { &ONE }.store(true, SeqCst);
        assert!(filter.contains_digest(digest));
        assert_eq!(filter.set_bits(), 2);
        assert_eq!(filter.len(), u64::from(here) + u64::from(there));
    });
    // The documentation says that both may be told. The models saw it: they do explore.
    assert!(ONE.load(SeqCst) && BOTH.load(SeqCst));
}

/// A key whose bits are in one word is new to exactly one thread.
#[test]
fn one_word_is_new_to_exactly_one() {
    loom::model(|| {
        let filter = Arc::new(Classic::builder().bits(64).hashes(1).build_shared().unwrap());
        let other = {
            let filter = filter.clone();
            thread::spawn(move || filter.insert_digest(KEY).unwrap())
        };
        let here = filter.insert_digest(KEY).unwrap();
        assert!(here ^ other.join().unwrap());
        assert_eq!((filter.set_bits(), filter.len()), (1, 1));
    });
}

/// T78: two keys that share words; neither thread's bits are lost to the other's.
#[test]
fn two_keys_in_the_same_words_are_both_kept() {
    let digest = KEY;
    loom::model(move || {
        let filter = two_words();
        let other = {
            let filter = filter.clone();
            thread::spawn(move || filter.insert_digest(OTHER).unwrap())
        };
        filter.insert_digest(digest).unwrap();
        other.join().unwrap();
        assert!(filter.contains_digest(digest) && filter.contains_digest(OTHER));
        // The same bits as one thread sets.
        let mut alone = Partitioned::builder().bits(128).hashes(2).build().unwrap();
        alone.insert_digests(&[digest, OTHER]).unwrap();
        assert_eq!(alone, *filter);
    });
}

/// A reader that was told of a key, by a flag of its own, finds it; before that it may or may not.
#[test]
fn who_was_told_of_a_key_finds_it() {
    static EARLY_NO: Seen = Seen::new(false);
    let digest = KEY;
    loom::model(move || {
        let filter = two_words();
        let told = Arc::new(AtomicBool::new(false));
        let writer = {
            let (filter, told) = (filter.clone(), told.clone());
            thread::spawn(move || {
                filter.insert_digest(digest).unwrap();
                told.store(true, Ordering::Release);
            })
        };
        let knew = told.load(Ordering::Acquire);
        let found = filter.contains_digest(digest);
        assert!(found || !knew, "a wrong no");
        if !found {
            EARLY_NO.store(true, SeqCst);
        }
        writer.join().unwrap();
        assert!(filter.contains_digest(digest));
    });
    assert!(EARLY_NO.load(SeqCst));
}

/// What the server's adds rest on: a record is in the log before its bits are in the filter, so whoever finds the bits and
/// then looks at the log finds the record, and can wait for it to be durable. Without the two fences it may not: the bits
/// are relaxed.
#[test]
fn who_finds_a_key_finds_its_record() {
    static FOUND: Seen = Seen::new(false);
    let digest = KEY;
    loom::model(move || {
        let filter = two_words();
        let log = Arc::new(AtomicU64::new(0));
        let writer = {
            let (filter, log) = (filter.clone(), log.clone());
            thread::spawn(move || {
                log.store(1, Ordering::Relaxed);
                fence(Ordering::Release);
                filter.insert_digest(digest).unwrap();
            })
        };
        if filter.contains_digest(digest) {
            fence(Ordering::Acquire);
            assert_eq!(log.load(Ordering::Relaxed), 1, "the bits without the record");
            FOUND.store(true, SeqCst);
        }
        writer.join().unwrap();
    });
    assert!(FOUND.load(SeqCst));
}

/// The blocked filter: one line, four words a key, by the portable loops.
#[test]
fn a_line_takes_two_keys_at_once() {
    let (a, b) = (Digest::new(1, 0x1234_5678_9abc_def0), Digest::new(2, 0x0fed_cba9_8765_4321));
    for (first, second) in [(a, b), (a, a)] {
        loom::model(move || {
            let filter: Arc<Blocked<Shared>> = Arc::new(Blocked::builder().bits(512).hashes(8).build_shared().unwrap());
            let other = {
                let filter = filter.clone();
                thread::spawn(move || filter.insert_digest(second).unwrap())
            };
            let here = filter.insert_digest(first).unwrap();
            let there = other.join().unwrap();
            assert!(here || there);
            assert!(filter.contains_digest(first) && filter.contains_digest(second));
            let mut alone = Blocked::builder().bits(512).hashes(8).build().unwrap();
            alone.insert_digests(&[first, second]).unwrap();
            assert_eq!(alone, *filter);
        });
    }
}

/// Batches beside single inserts, in the bits of a classic filter.
#[test]
fn batches_lose_nothing() {
    loom::model(|| {
        let make = || Classic::builder().bits(256).hashes(2);
        let filter: Arc<Classic<Shared>> = Arc::new(make().build_shared().unwrap());
        let other = {
            let filter = filter.clone();
            thread::spawn(move || filter.insert_digests(&[OTHER, KEY]).unwrap())
        };
        let here = u64::from(filter.insert_digest(KEY).unwrap());
        let there = other.join().unwrap();
        assert!((2..=3).contains(&(here + there)));
        assert_eq!(filter.len(), here + there);
        let mut alone = make().build().unwrap();
        alone.insert_digests(&[OTHER, KEY]).unwrap();
        assert_eq!(alone, *filter);
        let mut answers = [false; 2];
        filter.contains_digests(&[OTHER, KEY], &mut answers).unwrap();
        assert_eq!(answers, [true; 2]);
    });
}

/// One fingerprint with two homes; the writer takes it away before it puts it there.
#[derive(Default)]
struct Homes {
    version: Version,
    words: [AtomicU64; 2],
}

impl Homes {
    fn move_over(&self, from: usize) {
        self.version.change(|| {
            self.words[from].store(0, Ordering::Relaxed);
            self.words[1 - from].store(1, Ordering::Relaxed);
        });
    }

    fn found(&self) -> bool {
        self.words.iter().any(|word| word.load(Ordering::Relaxed) == 1)
    }
}

/// A fingerprint that moves is found in every interleaving; and without the version it would not be.
#[test]
fn what_moves_is_never_told_to_be_absent() {
    static MISSED: Seen = Seen::new(false);
    loom::model(|| {
        let homes = Arc::new(Homes::default());
        homes.version.change(|| homes.words[0].store(1, Ordering::Relaxed));
        let writer = {
            let homes = homes.clone();
            thread::spawn(move || homes.move_over(0))
        };
        assert!(homes.version.ask(|| {
            let found = homes.found();
            if !found {
                MISSED.store(true, SeqCst);
            }
            found
        }));
        writer.join().unwrap();
        assert!(homes.version.ask(|| homes.found()));
        assert!(!homes.version.ask(|| homes.words[0].load(Ordering::Relaxed) == 1), "it is in its other home");
    });
    assert!(MISSED.load(SeqCst), "the models never met the writer half-way");
}

/// There and back again by two writers, and a reader of many keys: the homes hold one fingerprint in what is believed.
#[test]
fn two_writers_and_a_batch() {
    let mut models = loom::model::Builder::new();
    models.preemption_bound = Some(3);
    models.check(|| {
        let homes = Arc::new(Homes::default());
        homes.version.change(|| homes.words[0].store(1, Ordering::Relaxed));
        let writer = {
            let homes = homes.clone();
            thread::spawn(move || {
                homes.move_over(0);
                homes.move_over(1);
            })
        };
        let mut seen = [0; 2];
        assert!(homes.version.ask_all(|| seen = [0, 1].map(|at| homes.words[at].load(Ordering::Relaxed))));
        assert_eq!(seen[0] + seen[1], 1, "{seen:?}");
        writer.join().unwrap();
    });
}

/// Two keys of a counting filter that share four counters of eight: while one goes the other stays.
///
/// The remover runs on the first thread. It reads each word before it writes it, and loom looks back from an access to
/// the latest one alone: a remover that came second would hide from it what the reader had read.
#[test]
fn a_key_stays_while_another_is_removed() {
    static EARLY: Seen = Seen::new(false);
    static LATE: Seen = Seen::new(false);
    let (stays, goes) = (Digest::new(1, 0), Digest::new(6911, 0));
    loom::model(move || {
        let make = || Counting::builder().counters(512, 8);
        let filter: Arc<Counting<Shared>> = Arc::new(make().build_shared().unwrap());
        filter.insert_digest(stays).unwrap();
        filter.insert_digest(goes).unwrap();
        assert!(filter.set_cells() < 16, "the keys share no counter");
        let reader = {
            let filter = filter.clone();
            thread::spawn(move || {
                assert!(filter.contains_digest(stays), "a wrong no");
                if filter.contains_digest(goes) { &EARLY } else { &LATE }.store(true, SeqCst);
            })
        };
        assert!(filter.remove_digest(goes));
        reader.join().unwrap();
        let mut alone = make().build().unwrap();
        alone.insert_digest(stays).unwrap();
        assert_eq!(alone, *filter);
    });
    assert!(EARLY.load(SeqCst) && LATE.load(SeqCst), "the models never met the remover at work");
}

/// A key that was counted in once is counted out once, though two threads try.
#[test]
fn one_of_two_removers_is_told_no() {
    let mut models = loom::model::Builder::new();
    models.preemption_bound = Some(2);
    models.check(|| {
        let filter: Arc<Counting<Shared>> = Arc::new(Counting::builder().counters(512, 8).build_shared().unwrap());
        filter.insert_digest(KEY).unwrap();
        let other = {
            let filter = filter.clone();
            thread::spawn(move || filter.remove_digest(KEY))
        };
        let here = filter.remove_digest(KEY);
        assert!(here ^ other.join().unwrap());
        assert_eq!((filter.len(), filter.set_cells()), (0, 0));
    });
}

/// Two generations of one line each, which turn every millisecond.
fn two_generations() -> Arc<Rotating<Shared>> {
    let builder = Rotating::builder().window(Duration::from_millis(1)).generations(1).items(1).rate(0.5);
    let ring = builder.build_shared().unwrap();
    ring.advance(Duration::ZERO);
    Arc::new(ring)
}

/// Clearing a line alone is eight stores: two preemptions are what can be gone through in minutes.
fn ring_model(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// A key is inserted again before its generation is cleared: it is there all the time, and who asks is told so.
#[test]
fn a_turning_ring_never_says_no_to_a_key_that_is_there() {
    ring_model(|| {
        let ring = two_generations();
        ring.insert_digest(KEY).unwrap();
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || ring.contains_digest(KEY))
        };
        ring.advance(Duration::from_millis(1));
        ring.insert_digest(KEY).unwrap();
        ring.advance(Duration::from_millis(2));
        assert!(reader.join().unwrap(), "a wrong no");
    });
}

/// A write beside a rebuild of a guard's filter: whether the rebuild's read of the source finds the key or the writer puts it
/// into both filters, the new one has it. Without the wait there is an order in which neither happens.
#[test]
fn a_write_beside_a_rebuild_is_in_the_new_filter() {
    static READ: Seen = Seen::new(false);
    static ADDED: Seen = Seen::new(false);
    let filter = || Partitioned::builder().keys::<u64>().bits(128).hashes(2).build_shared().unwrap();
    let mut models = loom::model::Builder::new();
    models.preemption_bound = Some(3);
    models.check(move || {
        let guard = Arc::new(Guard::loading());
        let source = Arc::new(AtomicBool::new(false));
        let writer = {
            let (guard, source) = (guard.clone(), source.clone());
            thread::spawn(move || {
                let writing = guard.add(&7u64).unwrap();
                source.store(true, Ordering::Release);
                drop(writing);
            })
        };
        let rebuild = guard.begin_rebuild(filter()).unwrap();
        rebuild.wait_for_writes();
        let read = source.load(Ordering::Acquire);
        if read {
            rebuild.add(&7u64).unwrap();
        }
        rebuild.finish().unwrap();
        if read { &READ } else { &ADDED }.store(true, SeqCst);
        // The writer may still be on its way; but who knows that it has written is never told no.
        if source.load(Ordering::Acquire) {
            assert!(guard.check(&7u64) != Verdict::Absent, "a wrong no");
        }
        writer.join().unwrap();
        assert!(guard.check(&7u64) != Verdict::Absent, "a wrong no");
    });
    assert!(READ.load(SeqCst) && ADDED.load(SeqCst), "the models never met both");
}
