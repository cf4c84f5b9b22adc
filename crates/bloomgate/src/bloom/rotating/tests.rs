//! The ring from inside: to the nanosecond, across reloads, and with threads that stall at the worst moment.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use super::clock::NO_MAX_STEP;
use super::*;
use crate::bloom::BlockedLayout;
use crate::bloom::layout::sealed::Layout as _;
use crate::math::dice::Dice;
use crate::math::estimate::within;
use crate::math::rotating::ring_rate;

thread_local! {
    static STALL: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// What a thread does between reading the tick and touching the generations: nothing, or once what a test has said.
pub(super) fn stall() {
    if let Some(meanwhile) = STALL.with(|stall| stall.borrow_mut().take()) {
        meanwhile();
    }
}

fn stall_once(meanwhile: impl FnOnce() + 'static) {
    STALL.with(|stall| *stall.borrow_mut() = Some(Box::new(meanwhile)));
}

fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn ring(window: Duration, generations: u32, items: u64, rate: f64) -> Rotating {
    Rotating::builder().keys::<u64>().window(window).generations(generations).items(items).rate(rate).build().unwrap()
}

/// The same filter out of what a file keeps of it.
fn reloaded(filter: &Rotating) -> Rotating {
    let generations = filter.each_generation().map(|one| {
        let mut store = Owned::zeroed(one.layout().words()).unwrap();
        store.as_mut_slice().copy_from_slice(one.store().as_slice());
        let promise = generation_promise(&filter.promise(), &filter.rule());
        Blocked::from_parts(*one.layout(), filter.contract().clone(), promise, one.len(), store)
    });
    let rule = filter.rule();
    let rule = RotatingRule::new(rule.window_ns(), rule.generations(), rule.max_step_ns()).unwrap();
    Rotating::from_parts(filter.contract().clone(), filter.promise(), rule, filter.state(), generations.collect())
        .unwrap()
}

/// Every key is found up to and including the age of the window, and gone at the age of the window and a generation;
/// both ends are reached. At 1e-9 no wrong "maybe" is to be expected in the 4 million questions.
#[test]
fn a_key_is_kept_for_the_window_and_a_generation_at_most() {
    // 1.000003 ms divides by none of these.
    let window = ns(1_000_003);
    for generations in [1, 2, 3, 5, 8] {
        let mut filter = ring(window, generations, 2_000, 1e-9);
        let most = filter.kept_at_most();
        let slice = most - ns(u64::from(generations) * filter.rule().slice_ns());
        let mut inserted: Vec<(u64, Duration)> = Vec::new();
        let (mut oldest_found, mut youngest_gone) = (ns(0), most);
        let mut dice = Dice(u64::from(generations));
        let mut now = ns(77_777);
        for key in 0..600 {
            filter.advance(now);
            filter.insert(&key).unwrap();
            inserted.push((key, now));
            for &(key, at) in &inserted {
                let age = now - at;
                let found = filter.contains(&key).unwrap();
                assert!(found || age > window, "{generations} generations: gone after {age:?}");
                assert!(!found || age < most, "{generations} generations: there after {age:?}");
                if found {
                    oldest_found = oldest_found.max(age);
                } else {
                    youngest_gone = youngest_gone.min(age);
                }
            }
            // Half the steps land exactly on the turn of a generation or one before it.
            let state = filter.state();
            let to_turn = filter.rule().slice_ns() - state.elapsed_ns;
            now += ns(match dice.below(8) {
                0 => to_turn,
                1 => to_turn - 1,
                _ => dice.below(40_000),
            });
        }
        assert!(oldest_found > window + slice * 4 / 5, "{generations}: {oldest_found:?}");
        assert!(youngest_gone < window + slice / 5, "{generations}: {youngest_gone:?}");
    }
}

/// A key that comes again is kept for the window from then.
#[test]
fn a_key_that_comes_again_stays() {
    let mut filter = ring(ms(100), 4, 1_000, 1e-6);
    for at in 0..50 {
        filter.advance(ms(at * 90));
        assert_eq!(filter.insert(&7u64).unwrap(), at == 0);
    }
    filter.advance(ms(49 * 90 + 100));
    assert!(filter.contains(&7u64).unwrap());
    filter.advance(ms(49 * 90 + 125));
    assert!(!filter.contains(&7u64).unwrap());
    assert_eq!((filter.len(), filter.set_bits()), (0, 0));
}

/// The ring keeps the rate when every generation is full, two-sided; also when all of them hold the same keys, which
/// without salts would be mistaken for the same strangers five times.
#[test]
fn the_whole_ring_keeps_the_rate() {
    for same in [false, true] {
        let mut filter = ring(ms(400), 4, 400_000, 0.01);
        for generation in 0..5u64 {
            filter.advance(ms(100 * generation));
            let from = if same { 0 } else { generation * 100_000 };
            filter.insert_batch(&(from..from + 100_000).collect::<Vec<u64>>()).unwrap();
        }
        let layout = *filter.each_generation().next().unwrap().layout();
        let expected = ring_rate(layout.expected_rate(100_000), 4);
        assert!(expected <= 0.010_001 && expected > 0.0099, "sized for {expected}");
        let strangers: Vec<u64> = (1 << 40..(1 << 40) + 600_000).collect();
        let mut answers = vec![false; strangers.len()];
        filter.contains_batch(&strangers, &mut answers).unwrap();
        let hits = answers.iter().filter(|&&hit| hit).count() as u64;
        assert!(within(hits, strangers.len() as u64, expected, 4.5), "same {same}: {hits} of 600000, {expected}");
        assert!((filter.expected_rate() / expected - 1.0).abs() < 0.01, "{}", filter.expected_rate());
        assert!((filter.estimated_rate() / expected - 1.0).abs() < 0.03, "{}", filter.estimated_rate());
        let count = filter.approximate_count();
        assert!((count.value / 500_000.0 - 1.0).abs() < 0.01, "{count:?}");
        // About 40 of the last generation's keys were taken for known; a refusal would wait for most of them.
        assert!(filter.remaining() < 60, "{}", filter.remaining());
        filter.advance(ms(500));
        assert!(!filter.is_full());
        let each = filter.remaining();
        assert!((99_800..=100_000).contains(&each), "{each}");
    }
}

/// What a key looks like to one generation says nothing about the next: strangers that one mistakes are mistaken by
/// another as often as anyone. Same keys in two generations of one line each, where it would show most.
#[test]
fn generations_err_independently() {
    let mut filter = ring(ms(100), 1, 20_000, 0.3);
    let keys: Vec<u64> = (0..20_000).collect();
    filter.advance(ms(0));
    filter.insert_batch(&keys).unwrap();
    filter.advance(ms(100));
    filter.insert_batch(&keys).unwrap();
    let (mut counts, trials) = ([0u64; 3], 200_000);
    for key in 1 << 40..(1 << 40) + trials {
        let digest = filter.contract().digest::<u64>(&key).unwrap();
        let found = [1, 2].map(|number| filter.generation(number).contains_digest(salted(digest, salt(number))));
        counts[0] += u64::from(found[0]);
        counts[1] += u64::from(found[1]);
        counts[2] += u64::from(found[0] && found[1]);
    }
    let both = (counts[0] as f64 / trials as f64) * (counts[1] as f64 / trials as f64);
    assert!(within(counts[2], trials, both, 4.5), "{counts:?}, both expected at {both}");
}

#[test]
fn a_clock_that_goes_back_is_waited_for() {
    let mut filter = ring(ms(100), 4, 1_000, 1e-6);
    filter.advance(ms(1_000));
    filter.insert(&1u64).unwrap();
    filter.advance(ms(400));
    filter.insert(&2u64).unwrap();
    let state = filter.state();
    // For 700 ms by the clock nothing happens: it is only back where it was.
    for at in 400..=1_000 {
        filter.advance(ms(at));
        assert_eq!(filter.state(), state);
    }
    filter.advance(ms(1_100));
    assert!(filter.contains(&1u64).unwrap() && filter.contains(&2u64).unwrap());
    filter.advance(ms(1_125));
    assert!(!filter.contains(&1u64).unwrap() && !filter.contains(&2u64).unwrap());
    assert_eq!(filter.now(), Some(ms(1_125)));
}

#[test]
fn a_long_pause_clears_the_ring_and_goes_on() {
    for pause in [125, 130, 1_000, 86_400_000, u64::MAX / 1_000_000] {
        let mut filter = ring(ms(100), 4, 1_000, 1e-6);
        filter.advance(ms(0));
        filter.insert_batch(&(0..500u64).collect::<Vec<_>>()).unwrap();
        filter.advance(ms(pause));
        assert_eq!((filter.len(), filter.set_bits()), (0, 0), "after {pause} ms");
        filter.insert(&9u64).unwrap();
        filter.advance(ms(pause) + ms(100));
        assert!(filter.contains(&9u64).unwrap());
    }
    // The end of time is 584 years after the beginning; nothing overflows there.
    let mut filter = ring(ms(1), 64, 10, 0.01);
    filter.advance(Duration::ZERO);
    filter.advance(Duration::MAX);
    filter.insert(&1u64).unwrap();
    filter.advance_by(Duration::MAX);
    assert!(filter.contains(&1u64).unwrap());
}

#[test]
fn the_first_reading_starts_the_clock() {
    let mut filter = ring(ms(100), 4, 1_000, 1e-6);
    assert_eq!(filter.now(), None);
    filter.insert(&1u64).unwrap();
    // A clock that counts from 1970 is no jump of 56 years.
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_770_000_000);
    filter.advance_to(start);
    assert!(filter.contains(&1u64).unwrap());
    filter.advance_to(start + ms(100));
    assert!(filter.contains(&1u64).unwrap());
    filter.advance_to(start + ms(125));
    assert!(!filter.contains(&1u64).unwrap());
    let mut by = ring(ms(100), 4, 1_000, 1e-6);
    by.advance_by(ms(30));
    by.insert(&1u64).unwrap();
    by.advance_by(ms(70));
    by.advance_by(ms(30));
    assert_eq!(by.now(), Some(ms(130)));
    assert!(by.contains(&1u64).unwrap());
    by.advance_by(ms(20));
    assert!(!by.contains(&1u64).unwrap());
}

/// Readings in between do not matter: many small steps and one large one leave the same ring.
#[test]
fn the_way_there_does_not_matter() {
    let mut dice = Dice(3);
    for generations in [1, 3, 4] {
        let mut often = ring(ms(10), generations, 1_000, 0.01);
        often.advance(ms(5));
        let mut seldom = often.clone();
        for round in 0..300u64 {
            often.insert(&round).unwrap();
            seldom.insert(&round).unwrap();
            let from = nanoseconds(often.now().unwrap());
            let to = from + dice.below(9_000_000);
            (0..dice.below(6)).map(|_| from + dice.below(to - from + 1)).for_each(|between| often.advance(ns(between)));
            often.advance(ns(to));
            seldom.advance(ns(to));
            assert_eq!(often.state(), seldom.state());
            assert_eq!(often, seldom);
        }
    }
}

#[test]
fn a_longest_step_bounds_what_a_wrong_clock_does() {
    let builder = Rotating::builder().keys::<u64>().window(ms(100)).items(1_000).rate(1e-6).max_step(ms(10));
    let mut filter = builder.build().unwrap();
    filter.advance(ms(1_000));
    filter.insert(&1u64).unwrap();
    // A year ahead, and back: 10 ms have passed, and time goes on at once.
    filter.advance(ms(1_000) + Duration::from_secs(31_536_000));
    assert!(filter.contains(&1u64).unwrap());
    filter.advance(ms(1_000));
    for at in 1..=90 {
        filter.advance(ms(1_000 + at));
    }
    assert!(filter.contains(&1u64).unwrap());
    for at in 91..=115 {
        filter.advance(ms(1_000 + at));
    }
    assert!(!filter.contains(&1u64).unwrap(), "10 ms of the jump and 115 ms by the clock have passed");
    // A small step back is waited out.
    let state = filter.state();
    filter.advance(ms(1_107));
    filter.advance(ms(1_115));
    assert_eq!(filter.state(), state);
}

/// T53: reloaded after every few operations it does what one does that was never saved.
#[test]
fn a_reloaded_ring_goes_on_as_if_nothing_had_happened() {
    for (every, max_step) in [(1, None), (3, Some(ms(4))), (17, None)] {
        let builder = Rotating::builder().keys::<u64>().window(ms(20)).generations(3).items(600).rate(0.01);
        let mut kept = match max_step {
            Some(step) => builder.max_step(step),
            None => builder,
        }
        .build()
        .unwrap();
        let mut saved = kept.clone();
        let mut dice = Dice(every);
        let (mut now, mut turns) = (50_000_000, 0);
        for step in 0..1_500 {
            match dice.below(5) {
                0 | 1 => {
                    now += dice.below(3_000_000);
                    // Now and then the clock is set back or far ahead.
                    let reading = match dice.below(20) {
                        0 => now.saturating_sub(dice.below(10_000_000)),
                        1 => now + dice.below(30_000_000),
                        _ => now,
                    };
                    let before = kept.state().youngest;
                    kept.advance(ns(reading));
                    saved.advance(ns(reading));
                    turns += kept.state().youngest - before;
                }
                _ => {
                    let keys: Vec<u64> = (0..dice.below(40)).map(|_| dice.below(3_000)).collect();
                    assert_eq!(kept.insert_batch(&keys).unwrap(), saved.insert_batch(&keys).unwrap());
                }
            }
            let key = dice.below(3_000);
            assert_eq!(kept.contains(&key).unwrap(), saved.contains(&key).unwrap());
            if step % every == 0 {
                saved = reloaded(&saved);
            }
            assert_eq!((kept.state(), kept.len()), (saved.state(), saved.len()));
        }
        assert_eq!(kept, saved);
        assert!(turns > 50, "the ring turned {turns} times");
    }
}

#[test]
fn hostile_parts_are_refused() {
    let good = ring(ms(100), 4, 1_000, 0.01);
    let (contract, promise, rule, state) = (good.contract().clone(), good.promise(), good.rule(), good.state());
    let parts = || -> Vec<Blocked> { good.each_generation().cloned().collect() };
    let made = |promise, rule, state, parts| Rotating::from_parts(contract.clone(), promise, rule, state, parts);
    assert!(made(promise, rule, state, parts()).is_ok());
    for youngest in [0, 3, 1 << 62, u64::MAX] {
        assert!(made(promise, rule, RotatingState { youngest, ..state }, parts()).is_err(), "youngest {youngest}");
    }
    for elapsed_ns in [rule.slice_ns(), u64::MAX] {
        assert!(made(promise, rule, RotatingState { elapsed_ns, ..state }, parts()).is_err());
    }
    let last = RotatingState { youngest: (1 << 62) - 1, elapsed_ns: rule.slice_ns() - 1, clock_ns: Some(u64::MAX) };
    let mut last = made(promise, rule, last, parts()).unwrap();
    last.advance(Duration::MAX);
    last.insert(&1u64).unwrap();
    assert!(last.contains(&1u64).unwrap());
    let early = RotatingState { youngest: (1 << 62) - 1, elapsed_ns: rule.slice_ns() - 1, clock_ns: Some(0) };
    let mut early = made(promise, rule, early, parts()).unwrap();
    early.advance(Duration::MAX);
    assert!(early.insert(&1u64).unwrap() && early.contains(&1u64).unwrap());
    let mut few = parts();
    few.pop();
    assert!(made(promise, rule, state, few).is_err());
    assert!(made(promise, rule, state, Vec::new()).is_err());
    let mut mixed = parts();
    mixed[2] = ring(ms(100), 4, 50_000, 0.01).each_generation().next().unwrap().clone();
    assert!(made(promise, rule, state, mixed).is_err());
    assert!(made(Promise { when_full: WhenFull::Grow, ..promise }, rule, state, parts()).is_err());
    assert!(made(Promise { capacity: 9, ..promise }, rule, state, parts()).is_err());
    assert!(Rotating::from_parts(Contract::given(), promise, rule, state, parts()).is_err());
    for (window, generations, step) in [(0, 4, 1), (999_999, 4, 1), (u64::MAX, 4, 1), (1 << 40, 0, 1), (1 << 40, 65, 1)]
    {
        assert!(RotatingRule::new(window, generations, step).is_err(), "{window} {generations}");
    }
    assert!(RotatingRule::new(1 << 40, 4, 0).is_err());
    assert!(RotatingRule::new(1 << 40, 4, NO_MAX_STEP).is_ok());
}

#[test]
fn builders_say_what_is_missing() {
    let kind = |builder: RotatingBuilder| builder.build().unwrap_err().kind();
    let builder = Rotating::builder;
    assert_eq!(kind(builder().items(10)), ErrorKind::InvalidParameter);
    assert_eq!(kind(builder().window(ms(10))), ErrorKind::InvalidParameter);
    assert_eq!(kind(builder().window(ms(10)).items(10).rate(1e-15)), ErrorKind::InvalidParameter);
    assert_eq!(kind(builder().window(ms(10)).items(10).when_full(WhenFull::Grow)), ErrorKind::InvalidParameter);
    assert_eq!(kind(builder().window(ms(10)).items(100_000).bytes(10_000)), ErrorKind::LimitExceeded);
    let limited = builder().window(ms(10)).bytes(1 << 20).rate(0.01).build().unwrap();
    assert!(limited.size_in_bytes() <= 1 << 20 && limited.size_in_bytes() > (1 << 20) - 5 * 64 - 64);
    let per_key = (1 << 20) as f64 * 8.0 / limited.capacity() as f64;
    assert!((per_key - 17.4).abs() < 0.1, "{per_key} bits per key");
    let same = builder().window(ms(10)).items(limited.capacity()).rate(0.01).bytes(1 << 20).build().unwrap();
    assert_eq!(same.size_in_bytes(), limited.size_in_bytes());
    assert_eq!((limited.kind(), limited.guarantee()), (Kind::Rotating, Guarantee::Window));
}

#[test]
fn a_full_generation_goes_on_or_refuses() {
    let builder = Rotating::builder().keys::<u64>().window(ms(100)).items(4_000).rate(1e-4);
    let mut refusing = builder.clone().when_full(WhenFull::Refuse).build().unwrap();
    refusing.advance(ms(0));
    let keys: Vec<u64> = (0..1_500).collect();
    assert_eq!(refusing.insert_batch(&keys).unwrap_err().kind(), ErrorKind::Full);
    // The share of a window is 1000 keys: they are in, those after them are not.
    assert_eq!(refusing.len(), 1_000);
    assert!((0..1_000).all(|key: u64| refusing.contains(&key).unwrap()));
    assert!(!refusing.insert(&5u64).unwrap(), "a key that is there is no reason to refuse");
    refusing.advance(ms(25));
    assert!(refusing.insert(&1_001u64).unwrap());
    // There, but not yet in this generation, and there is room: it is kept for longer.
    assert!(!refusing.insert(&5u64).unwrap());
    refusing.advance(ms(125));
    assert!(refusing.contains(&5u64).unwrap() && !refusing.contains(&6u64).unwrap());
    let mut going_on = builder.build().unwrap();
    going_on.insert_batch(&keys).unwrap();
    assert!(keys.iter().all(|key| going_on.contains(key).unwrap()));
    assert!(going_on.is_full() && going_on.len() >= 1_499);
    going_on.clear();
    assert_eq!((going_on.len(), going_on.set_bits()), (0, 0));
}

/// Batches do what single calls do, in every place, also with keys that come twice in one batch.
#[test]
fn batches_and_places_agree() {
    for rate in [0.05, 1e-5] {
        let mut single = ring(ms(30), 3, 3_000, rate);
        let mut batch = single.clone();
        let shared = single.clone().into_shared().unwrap();
        let mut dice = Dice(11);
        for round in 0..20u64 {
            let now = ms(round * 4);
            single.advance(now);
            batch.advance(now);
            shared.advance(now);
            let keys: Vec<u64> = (0..700).map(|_| dice.below(4_000)).collect();
            let mut fresh = 0;
            for key in &keys {
                let known = single.contains(key).unwrap();
                let new = single.insert(key).unwrap();
                assert_eq!(new, !known);
                fresh += u64::from(new);
            }
            assert_eq!(batch.insert_batch(&keys).unwrap(), fresh);
            assert_eq!(shared.insert_batch(&keys).unwrap(), fresh);
            assert_eq!(single, batch);
            assert_eq!(single, shared);
            assert_eq!((single.len(), single.state()), (shared.len(), shared.state()));
            let asked: Vec<u64> = (0..5_000).collect();
            let mut answers = [vec![false; 5_000], vec![true; 5_000]];
            batch.contains_batch(&asked, &mut answers[0]).unwrap();
            shared.contains_batch(&asked, &mut answers[1]).unwrap();
            assert_eq!(answers[0], answers[1]);
            assert!(asked.iter().zip(&answers[0]).all(|(key, &answer)| single.contains(key).unwrap() == answer));
        }
        assert!(batch.contains_batch(&[1u64], &mut []).is_err());
        let back = shared.into_owned().unwrap();
        assert_eq!(back, single);
        assert_eq!(back.state(), single.state());
    }
}

/// A thread that asks reads the tick and stalls. Meanwhile its key is inserted again and the generation that held it is
/// cleared: the key was there all the time, so the answer is not "no".
#[test]
fn who_asks_and_stalls_is_not_told_no() {
    let filter = Arc::new(ring(ms(100), 4, 1_000, 1e-6).into_shared().unwrap());
    filter.advance(ms(0));
    filter.insert(&7u64).unwrap();
    filter.advance(ms(99));
    let other = Arc::clone(&filter);
    stall_once(move || {
        other.advance(ms(110));
        other.insert(&7u64).unwrap();
        other.advance(ms(130));
    });
    assert!(filter.contains(&7u64).unwrap());
}

/// A thread that inserts reads the tick and stalls, until the generation it chose has been cleared and filled anew. The
/// key is kept for the window from when the insert is done.
#[test]
fn who_inserts_and_stalls_loses_nothing() {
    for stalled in [0, 24, 25, 99, 100, 124, 125, 126, 150, 1_000, 100_000] {
        let filter = Arc::new(ring(ms(100), 4, 1_000, 1e-6).into_shared().unwrap());
        filter.advance(ms(0));
        let other = Arc::clone(&filter);
        let digest = filter.contract().digest(&7u64).unwrap();
        stall_once(move || other.advance(ms(stalled)));
        filter.put_all(&[digest], &[false]).unwrap();
        filter.advance(ms(stalled + 100));
        assert!(filter.contains(&7u64).unwrap(), "stalled for {stalled} ms");
        filter.advance(ms(stalled + 125));
        assert!(!filter.contains(&7u64).unwrap());
    }
}

/// Two threads insert and ask while a third turns the ring as fast as it can: a "no" within the window is never seen.
#[test]
fn threads_insert_and_ask_while_the_ring_turns() {
    let filter = ring(ms(8), 2, 2_000, 1e-4).into_shared().unwrap();
    filter.advance(ms(0));
    // `announced` is never behind the ring, `reached` never ahead of it.
    let (announced, reached, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let tried = AtomicU64::new(0);
    thread::scope(|scope| {
        for from in [1u64, 2] {
            let (filter, announced, reached, over, tried) = (&filter, &announced, &reached, &over, &tried);
            scope.spawn(move || {
                let mut dice = Dice(from);
                let mut batch = 0;
                while !over.load(Ordering::SeqCst) {
                    let keys: Vec<u64> = (0..1 + dice.below(40)).map(|i| (from << 48) + (batch << 8) + i).collect();
                    let at = reached.load(Ordering::SeqCst);
                    if batch % 2 == 0 {
                        filter.insert_batch(&keys).unwrap();
                    } else {
                        filter.insert_all(keys.iter().copied()).unwrap();
                    }
                    let mut answers = vec![false; keys.len()];
                    if batch % 3 == 0 {
                        filter.contains_batch(&keys, &mut answers).unwrap();
                    } else {
                        keys.iter().zip(&mut answers).for_each(|(key, answer)| *answer = filter.contains(key).unwrap());
                    }
                    // Still within the window after all answers were given.
                    if announced.load(Ordering::SeqCst) <= at + 8_000 {
                        tried.fetch_add(keys.len() as u64, Ordering::SeqCst);
                        assert!(answers.iter().all(|&found| found), "a key of {at} µs is gone");
                    }
                    batch += 1;
                }
            });
        }
        let mut now = 0;
        for step in 0..20_000u64 {
            if step > 2_000 && tried.load(Ordering::SeqCst) > 20_000 {
                break;
            }
            now += 1_000;
            announced.store(now, Ordering::SeqCst);
            filter.advance(Duration::from_micros(now));
            reached.store(now, Ordering::SeqCst);
            if step % 4 == 0 {
                thread::yield_now();
            }
            (0..200).for_each(|_| std::hint::spin_loop());
        }
        over.store(true, Ordering::SeqCst);
    });
    assert!(tried.load(Ordering::SeqCst) > 1_000, "only {tried:?} keys were asked for in time");
    filter.advance(Duration::from_secs(3_600));
    assert_eq!((filter.len(), filter.set_bits()), (0, 0));
}

/// The smallest ring, made without the builder, whose exact mathematics takes Miri minutes.
#[test]
fn miri_a_small_ring_turns_under_two_threads() {
    let rule = RotatingRule::new(1_000_000, 1, NO_MAX_STEP).unwrap();
    let promise = Promise { capacity: 10, rate: 0.1, when_full: WhenFull::GoOn };
    let each = generation_promise(&promise, &rule);
    let layout = BlockedLayout::new(1, 1, false).unwrap();
    let parts = (0..2).map(|_| Blocked::empty(layout, Contract::given(), each).unwrap()).collect();
    let filter = Rotating::from_parts(Contract::given(), promise, rule, RotatingState::start(&rule), parts).unwrap();
    let filter = filter.into_shared().unwrap();
    filter.advance(ns(0));
    thread::scope(|scope| {
        scope.spawn(|| (1..6).for_each(|turn| filter.advance(ns(turn * 500_000))));
        for i in 0..10u64 {
            filter.insert_digest(Digest::new(i << 60, i)).unwrap();
            let _ = filter.contains_digest(Digest::new(i << 59, i));
        }
    });
    filter.insert_digest(Digest::new(5, 5)).unwrap();
    assert!(filter.into_owned().unwrap().contains_digest(Digest::new(5, 5)));
}
