//! What a guard promises: no wrong "no" in any order of adds, lookups, pauses and rebuilds; and tallies that add up.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::math::estimate::within;
use crate::{Blocked, Classic, Counting, Cuckoo, GrowingCuckoo, Partitioned, Quotient, Rotating, Scalable, WhenFull};

/// Room for so many numbers, at a rate at which no test meets a false positive by chance.
fn sure(items: u64) -> Blocked<Shared> {
    Blocked::builder().keys::<u64>().items(items).rate(1e-9).build_shared().unwrap()
}

fn is_absent(guard: &Guard, key: u64) -> bool {
    match guard.check(&key) {
        Verdict::Absent => true,
        Verdict::Maybe(token) => {
            guard.failed(token);
            false
        }
    }
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn only_kinds_that_keep_every_key_are_taken() {
    let filters: [AnyFilter<Shared>; 8] = [
        Blocked::builder().items(100).build_shared().unwrap().into(),
        Classic::builder().items(100).build_shared().unwrap().into(),
        Partitioned::builder().items(100).build_shared().unwrap().into(),
        Counting::builder().items(100).build_shared().unwrap().into(),
        Scalable::builder().items(100).build_shared().unwrap().into(),
        Cuckoo::builder().items(100).build_shared().unwrap().into(),
        GrowingCuckoo::builder().items(100).build_shared().unwrap().into(),
        Quotient::builder().items(100).build_shared().unwrap().into(),
    ];
    for filter in filters {
        let kind = filter.kind();
        let guard = Guard::new(filter).unwrap();
        drop(guard.add("there").unwrap());
        assert!(matches!(guard.check("there"), Verdict::Maybe(_)), "{kind}");
        assert_eq!(guard.check("not there, said so by all with this seed"), Verdict::Absent, "{kind}");
    }
    let rotating = || Rotating::builder().window(Duration::from_secs(1)).items(100).build_shared().unwrap();
    let guard = Guard::loading();
    for error in [
        Guard::new(rotating()).unwrap_err(),
        guard.swap(rotating()).unwrap_err(),
        guard.begin_rebuild(rotating()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("rotating") && error.to_string().contains("window"), "{error}");
    }
    assert_eq!((guard.state(), guard.version()), (State::Loading, 0));
}

#[test]
fn a_no_is_given_only_while_ready() {
    let guard = Guard::loading();
    let absent = |guard: &Guard| is_absent(guard, 5);
    assert!(!absent(&guard), "loading");
    assert!(guard.resume().is_err());
    guard.pause();
    assert_eq!(guard.state(), State::Loading);

    assert_eq!(guard.swap(sure(10)).unwrap(), 1);
    assert!(absent(&guard), "ready");
    guard.resume().unwrap();
    guard.pause();
    assert_eq!((guard.state(), absent(&guard)), (State::Stale, false));
    drop(guard.add(&5u64).unwrap());
    guard.resume().unwrap();
    assert!(!absent(&guard), "added while stale");
    assert!(is_absent(&guard, 6));

    guard.distrust();
    guard.pause();
    assert_eq!((guard.state(), absent(&guard)), (State::Broken, false));
    assert!(guard.resume().is_err(), "broken stays broken");
    assert!(!is_absent(&guard, 6));
    assert_eq!(guard.swap(sure(10)).unwrap(), 2);
    assert_eq!((guard.state(), guard.version()), (State::Ready, 2));
    assert!(absent(&guard));
    assert_eq!(
        ["loading", "ready", "stale", "broken"],
        [State::Loading.name(), State::Ready.name(), State::Stale.name(), State::Broken.name()]
    );
}

#[test]
fn a_key_of_another_type_is_a_maybe_and_cannot_be_added() {
    let guard = Guard::new(sure(10)).unwrap();
    let Verdict::Maybe(token) = guard.check(&-1i64) else { panic!("a wrong no") };
    assert_eq!(token.version(), None);
    guard.confirm(token, false);
    assert_eq!(guard.add(&-1i64).unwrap_err().kind(), ErrorKind::Encoding);
    let totals = guard.totals();
    assert_eq!((totals.bypassed, totals.not_found, totals.false_positives), (1, 1, 0));
    // The failed add left no ticket behind: nothing to wait for.
    assert_eq!(guard.begin_rebuild(sure(10)).unwrap().writes_in_flight(), 0);
}

#[test]
fn every_lookup_is_counted_once_and_where_it_belongs() {
    let guard = Guard::new(sure(100)).unwrap();
    let mut source = HashMap::new();
    for key in 0..10u64 {
        let _writing = guard.add(&key).unwrap();
        source.insert(key, key * key);
    }
    source.remove(&9);
    let look = |key: u64| guard.look(&key, |key| Ok::<_, Infallible>(source.get(key).copied())).unwrap();
    assert_eq!(look(3), Found::Source(9));
    assert_eq!(look(3).into_option(), Some(9));
    assert_eq!(look(9), Found::NotFound, "deleted: the bits stay");
    assert_eq!(look(50), Found::AbsentByFilter);
    assert_eq!(look(50).into_option(), None);
    assert_eq!(guard.look(&4u64, |_| Err::<Option<u64>, _>("down")), Err("down"));
    let first =
        Tally { avoided: 2, reached: 4, found: 2, not_found: 1, false_positives: 1, errors: 1, ..Tally::default() };
    assert_eq!(guard.totals(), first);
    assert_eq!(guard.tallies(), [(1, first)]);
    assert_eq!(first.measured_rate(), Some(1.0 / 3.0));
    assert_eq!((first.true_negatives(), first.open()), (3, 0));

    // A token from before a swap counts for the version that gave it, also while that is paused or after.
    let Verdict::Maybe(early) = guard.check(&3u64) else { panic!("a wrong no") };
    let Verdict::Maybe(earlier) = guard.check(&3u64) else { panic!("a wrong no") };
    assert_eq!((early.version(), guard.totals().open()), (Some(1), 2));
    guard.pause();
    guard.confirm(earlier, true);
    assert_eq!(guard.swap(sure(100)).unwrap(), 2);
    assert_eq!(look(3), Found::AbsentByFilter, "what a swap without its keys does");
    guard.confirm(early, true);
    let tallies = guard.tallies();
    assert_eq!(tallies.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((tallies[0].1.found, tallies[0].1.reached), (4, 6));
    assert_eq!(tallies[1].1, Tally { avoided: 1, ..Tally::default() });
    assert_eq!(guard.totals(), tallies[0].1 + tallies[1].1);
    assert_eq!(Tally::default().measured_rate(), None);
    assert_eq!(Tally::default().rate_interval(), (0.0, 1.0));
}

#[test]
fn tallies_of_old_versions_stay_in_the_totals() {
    let guard = Guard::new(sure(10)).unwrap();
    let Verdict::Maybe(old) = guard.add(&1u64).map(|_| guard.check(&1u64)).unwrap() else { panic!("a wrong no") };
    for version in 2..=30 {
        assert_eq!(guard.check(&77u64), Verdict::Absent);
        assert_eq!(guard.swap(sure(10)).unwrap(), version);
    }
    assert_eq!(guard.totals().avoided, 29);
    let versions: Vec<u64> = guard.tallies().iter().map(|(version, _)| *version).collect();
    assert_eq!(versions, (14..=30).collect::<Vec<_>>());
    guard.confirm(old, false);
    assert_eq!((guard.totals().false_positives, guard.totals().open()), (1, 0));
}

/// The rate, two-sided, of what was confirmed: false positives over absent keys alone, however many present ones there are.
#[test]
fn the_measured_rate_is_that_of_the_filter() {
    let filter = Blocked::builder().keys::<u64>().items(20_000).rate(0.01).build_shared().unwrap();
    let expected = filter.expected_rate_at(20_000);
    let guard = Guard::new(filter).unwrap();
    drop(guard.add_batch(&(0..20_000u64).collect::<Vec<_>>()).unwrap());
    for key in 0..420_000u64 {
        guard.look(&key, |&key| Ok::<_, Infallible>((key < 20_000).then_some(()))).unwrap();
    }
    let totals = guard.totals();
    assert_eq!((totals.found, totals.open(), totals.errors, totals.bypassed), (20_000, 0, 0, 0));
    assert_eq!(totals.true_negatives(), 400_000);
    assert!(within(totals.false_positives, totals.true_negatives(), expected, 4.5), "{totals:?}, {expected} expected");
    let (low, high) = totals.rate_interval();
    let measured = totals.measured_rate().unwrap();
    assert!(low < measured && measured < high && high - low < 0.001, "{low} {measured} {high}");
    assert!((guard.expected_rate().unwrap() / expected - 1.0).abs() < 0.02);
}

#[test]
fn a_rebuild_takes_no_key_before_the_writes_of_before_have_ended() {
    let guard = Guard::new(sure(10)).unwrap();
    let early = guard.add(&1u64).unwrap();
    let given_up = guard.begin_rebuild(sure(10)).unwrap();
    assert!(guard.begin_rebuild(sure(10)).is_err() && guard.swap(sure(10)).is_err(), "one at a time");
    drop(given_up);

    // The ticket is from two eras before: it counts still.
    let rebuild = guard.begin_rebuild(sure(10)).unwrap();
    assert_eq!(rebuild.writes_in_flight(), 1);
    let error = rebuild.add(&1u64).unwrap_err();
    assert!(error.to_string().contains("wait_for_writes"), "{error}");
    assert!(format!("{rebuild:?}").contains("writes_in_flight: 1"));
    assert!(rebuild.finish().is_err());

    let rebuild = guard.begin_rebuild(sure(10)).unwrap();
    let late = guard.add(&2u64).unwrap();
    drop(early);
    rebuild.wait_for_writes();
    rebuild.add_batch(&[1u64]).unwrap();
    assert_eq!(rebuild.len(), 2, "the late write went to both");
    assert_eq!(rebuild.finish().unwrap(), 2);
    assert!(!is_absent(&guard, 1) && !is_absent(&guard, 2) && is_absent(&guard, 3));

    // What began under the last rebuild is waited for by the next.
    let rebuild = guard.begin_rebuild(sure(10)).unwrap();
    assert_eq!(rebuild.writes_in_flight(), 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| rebuild.wait_for_writes());
        drop(late);
        waiting.join().unwrap();
    });
    assert!(rebuild.is_empty() && rebuild.finish().is_ok());
    assert!(is_absent(&guard, 1), "the source is empty now");
}

#[test]
fn a_rebuild_that_may_lack_keys_is_refused() {
    let small =
        || Blocked::builder().keys::<u64>().items(1).rate(1e-9).when_full(WhenFull::Refuse).build_shared().unwrap();
    let guard = Guard::new(sure(100)).unwrap();
    let rebuild = guard.begin_rebuild(small()).unwrap();
    for key in 0..50u64 {
        drop(guard.add(&key).unwrap()); // the write goes on
    }
    assert_eq!(rebuild.finish().unwrap_err().kind(), ErrorKind::Full);
    for doubt in [Guard::pause, Guard::distrust, |guard: &Guard| drop(guard.write_unseen())] {
        let rebuild = guard.begin_rebuild(sure(100)).unwrap();
        doubt(&guard);
        assert!(rebuild.finish().unwrap_err().to_string().contains("begin another"));
    }
    assert_eq!((guard.version(), guard.state()), (1, State::Broken));
    // A current filter that is full refuses the key, and its writer is told.
    guard.swap(small()).unwrap();
    let refused = (0..50u64).filter(|key| guard.add(key).is_err()).count();
    assert!(refused >= 40, "{refused}");
    // What is written all the same is waited for, and found in the source.
    let writing = guard.write_unseen();
    assert_eq!(guard.state(), State::Stale);
    let rebuild = guard.begin_rebuild(sure(100)).unwrap();
    assert_eq!(rebuild.writes_in_flight(), 1);
    drop(writing);
    rebuild.add(&40u64).unwrap();
    rebuild.finish().unwrap();
    assert!(!is_absent(&guard, 40) && is_absent(&guard, 41));
}

#[test]
fn a_copy_has_what_was_added() {
    assert!(Guard::loading().copy().unwrap().is_none() && Guard::loading().expected_rate().is_none());
    let guard = Guard::new(sure(100)).unwrap();
    drop(guard.add_batch(&[1u64, 2, 3]).unwrap());
    let copy = guard.copy().unwrap().unwrap();
    assert!((1..=3u64).all(|key| copy.contains(&key).unwrap()) && !copy.contains(&4u64).unwrap());
}

/// One step of somebody.
#[derive(Debug, Clone)]
enum Step {
    /// Add a key and keep the ticket.
    Add(u64),
    /// The source takes the oldest open write, and the ticket goes.
    Commit,
    /// The oldest open write fails.
    Fail,
    Delete(u64),
    Begin,
    /// Read the source, if the rebuild lets us.
    Read,
    Finish,
    GiveUp,
    Pause,
    Resume,
    /// A write that could not be added, and its end.
    Unseen(u64),
    Check(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..24u64;
    prop_oneof![
        6 => key.clone().prop_map(Step::Add),
        6 => Just(Step::Commit),
        1 => Just(Step::Fail),
        1 => key.clone().prop_map(Step::Delete),
        3 => Just(Step::Begin),
        5 => Just(Step::Read),
        4 => Just(Step::Finish),
        1 => Just(Step::GiveUp),
        1 => Just(Step::Pause),
        1 => key.clone().prop_map(Step::Unseen),
        1 => Just(Step::Resume),
        12 => key.prop_map(Step::Check),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(83), ..ProptestConfig::default() })]

    /// T83: whatever the order, a key that the source has, or that is on its way there, is never absent.
    #[test]
    fn no_order_of_steps_makes_a_no_wrong(steps in prop::collection::vec(step(), 1..120)) {
        let guard = Guard::loading();
        let mut source = HashSet::new();
        let mut open: VecDeque<(u64, Writing)> = VecDeque::new();
        let mut rebuild: Option<(Rebuild<'_>, bool)> = None;
        // Since when writes are missing from the filter: resuming would be the caller's lie.
        let mut lacking = true;
        for step in steps {
            match step {
                Step::Add(key) => open.push_back((key, guard.add(&key).unwrap())),
                Step::Commit => {
                    if let Some((key, writing)) = open.pop_front() {
                        source.insert(key);
                        drop(writing);
                    }
                }
                Step::Fail => drop(open.pop_front()),
                Step::Delete(key) => drop(source.remove(&key)),
                Step::Begin => {
                    if rebuild.is_none() {
                        rebuild = Some((guard.begin_rebuild(sure(24)).unwrap(), false));
                    }
                }
                Step::Read => {
                    if let Some((rebuild, read)) = &mut rebuild
                        && !*read
                        && rebuild.writes_in_flight() == 0
                    {
                        source.iter().for_each(|key| rebuild.add(key).unwrap());
                        *read = true;
                    }
                }
                Step::Finish => {
                    if let Some((done, true)) = rebuild.take_if(|(_, read)| *read) {
                        lacking &= done.finish().is_err();
                    }
                }
                Step::GiveUp => rebuild = None,
                Step::Pause => guard.pause(),
                Step::Resume => {
                    if !lacking {
                        guard.resume().unwrap();
                    }
                }
                Step::Unseen(key) => {
                    let writing = guard.write_unseen();
                    lacking = true;
                    source.insert(key);
                    drop(writing);
                }
                Step::Check(key) => {
                    let there = source.contains(&key) || open.iter().any(|(open, _)| *open == key);
                    prop_assert!(!(there && is_absent(&guard, key)), "a wrong no for {}", key);
                }
            }
        }
        for &key in source.iter().chain(open.iter().map(|(key, _)| key)) {
            prop_assert!(!is_absent(&guard, key), "a wrong no for {}", key);
        }
        // And it is no guard that never says no.
        if guard.state() == State::Ready {
            prop_assert!(is_absent(&guard, 1_000));
        }
    }
}

/// Writers, readers and rebuilds at once. A key that its writer has told of is never absent; and a rebuild that does not wait
/// for the writes of before loses keys here (seen by leaving the wait out).
#[test]
fn threads_that_add_look_and_rebuild_meet_no_wrong_no() {
    const WRITERS: u64 = 2;
    const EACH: u64 = 2_000;
    let guard = Guard::loading();
    // Of each writer: how many of its keys the source has, and how many it has told of.
    let source: [AtomicU64; WRITERS as usize] = Default::default();
    let told: [AtomicU64; WRITERS as usize] = Default::default();
    let done = AtomicBool::new(false);
    let key = |writer: u64, at: u64| writer << 32 | at;
    let (mut versions, mut noes, mut asked) = (0, 0u64, 0u64);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (guard, source, told) = (&guard, &source, &told);
                scope.spawn(move || {
                    let mut seed = writer;
                    for at in 0..EACH {
                        let writing = guard.add(&key(writer, at)).unwrap();
                        if random(&mut seed).is_multiple_of(3) {
                            std::thread::yield_now();
                        }
                        source[writer as usize].store(at + 1, Ordering::Release);
                        drop(writing);
                        told[writer as usize].store(at + 1, Ordering::Release);
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (guard, told, done) = (&guard, &told, &done);
                scope.spawn(move || {
                    let (mut seed, mut noes, mut asked) = (100 + reader, 0, 0);
                    while !done.load(Ordering::Relaxed) {
                        let writer = random(&mut seed) % WRITERS;
                        let known = told[writer as usize].load(Ordering::Acquire);
                        if known > 0 {
                            // Mostly the newest: those that a rebuild could lose.
                            let back = (random(&mut seed) % 16).min(known - 1);
                            assert!(!is_absent(guard, key(writer, known - 1 - back)), "a wrong no");
                            asked += 1;
                        }
                        noes += u64::from(is_absent(guard, u64::MAX - random(&mut seed) % 1000));
                    }
                    (noes, asked)
                })
            })
            .collect();
        loop {
            let last = writers.iter().all(|writer| writer.is_finished());
            let rebuild = guard.begin_rebuild(sure(WRITERS * EACH)).unwrap();
            rebuild.wait_for_writes();
            for writer in 0..WRITERS {
                let count = source[writer as usize].load(Ordering::Acquire);
                rebuild.add_batch(&(0..count).map(|at| key(writer, at)).collect::<Vec<_>>()).unwrap();
            }
            versions = rebuild.finish().unwrap();
            // However the threads are scheduled: readers have been told no and maybe, over several filters.
            let totals = guard.totals();
            if last && versions > 1 && totals.avoided > 0 && totals.errors > totals.bypassed {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            let (no, maybe) = reader.join().unwrap();
            (noes, asked) = (noes + no, asked + maybe);
        }
    });
    for writer in 0..WRITERS {
        assert!((0..EACH).all(|at| !is_absent(&guard, key(writer, at))));
    }
    let totals = guard.totals();
    assert!(noes > 0 && asked > 0 && versions > 1, "{noes} {asked} {versions}");
    assert_eq!(totals.avoided, noes);
    assert_eq!(totals.reached, totals.errors, "each maybe was answered once");
}
