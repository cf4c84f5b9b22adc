//! When a filter is rebuilt by itself: the rate of its bits, the schedule, and the pauses after failures.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloomgate::{Contract, Encoding, Secret};
use bloomgate_gate::{Builder, Event, Gate, Key, Reason, State, Writers};
use tokio::time::Instant;

use crate::memory_source::{Fate, MemorySource, row_of};

const HOUR: Duration = Duration::from_secs(3600);

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("key-{number}"))
}

fn builder(source: &Arc<MemorySource>) -> Builder {
    Gate::builder(source.clone()).writers(Writers::Sole).rebuild_every(None)
}

fn secret() -> Secret {
    Secret::from_bytes([7; 32])
}

/// Names that all fall into the first 128th of a filter: somebody who has the secret can find them.
fn crowded(count: usize) -> Vec<String> {
    // As a gate before a source in memory hashes.
    let contract = Contract::keyed(&secret().derive("gate memory")).with_encoding(Encoding::Bytes);
    (0..)
        .map(|number| format!("crowd-{number}"))
        .filter(|name| contract.digest_bytes(name.as_bytes()).lo >> 57 == 0)
        .take(count)
        .collect()
}

fn reasons(gate: &Gate) -> Vec<Reason> {
    gate.brief_stats().rebuild.history.iter().map(|past| past.reason).collect()
}

async fn until(gate: &Gate, what: impl Fn(&Gate) -> bool) {
    for _ in 0..4000 {
        if what(gate) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not happen: {:?}", gate.stats());
}

#[tokio::test]
async fn bits_that_are_fuller_than_the_count_says_ask_for_a_rebuild() {
    let source = MemorySource::with(names(1000));
    let gate = builder(&source).secret(secret()).build().unwrap();
    gate.start();
    until(&gate, |gate| matches!(gate.state(), State::Ready { .. })).await;
    let rate = |gate: &Gate| gate.stats().filter.unwrap().estimated_rate.unwrap();
    assert!(rate(&gate) < 0.0005, "{:?}", gate.stats());
    // Refused by the source, but in the filter: it has room for 10,000 keys, and the places of these are full.
    *source.fate.lock().unwrap() = Fate::Refused;
    let rows = crowded(1000).iter().map(|name| (Key::from(name.as_str()), row_of(name))).collect();
    assert!(gate.put_many(rows).await.is_err());
    let filter = gate.brief_stats().filter.unwrap();
    assert!(filter.version > 1 || filter.items * 4 < filter.capacity, "{filter:?}");
    assert!(filter.expected_rate < 0.0005, "the count says nothing of it: {filter:?}");
    until(&gate, |gate| matches!(gate.state(), State::Ready { version: 2, .. })).await;
    assert_eq!(reasons(&gate), [Reason::NotReady, Reason::Rate]);
    assert!(rate(&gate) < 0.0005, "the new one has what the source has: {:?}", gate.stats());
}

#[tokio::test]
async fn a_filter_has_room_for_keys_whose_write_may_still_happen() {
    let source = MemorySource::with(names(1000));
    let gate = builder(&source).secret(secret()).build().unwrap();
    gate.rebuild().await.unwrap();
    for part in 0..2 {
        *source.fate.lock().unwrap() = Fate::LaterUnknown;
        let rows = (0..10_000).map(|number| format!("doubtful-{part}-{number}"));
        let rows = rows.map(|name| (Key::from(name.as_str()), row_of(&name))).collect();
        assert!(gate.put_many(rows).await.is_err());
    }
    assert_eq!(gate.stats().writes.doubtful, 20_000);
    gate.rebuild().await.unwrap();
    let filter = gate.stats().filter.unwrap();
    assert!(filter.items >= 21_000 - 100 && filter.items <= filter.capacity, "{filter:?}");
    assert!(filter.estimated_rate.unwrap() < 0.0015, "{filter:?}");
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_a_rebuild_does_not_mend_is_tried_again_after_an_hour() {
    // The keys are in the source: under the same secret a new filter is as crowded as the old one.
    let source = MemorySource::with(names(1000).chain(crowded(1000)));
    let gate = builder(&source).secret(secret()).build().unwrap();
    gate.start();
    let minutes = async |minutes: u64| tokio::time::sleep(Duration::from_secs(60 * minutes)).await;
    let put = async |name: &str| gate.put(Key::from(name), row_of(name)).await.unwrap();
    minutes(10).await;
    assert_eq!(reasons(&gate), [Reason::NotReady], "from the same keys it would be the same");
    put("one").await;
    minutes(1).await;
    assert_eq!(reasons(&gate), [Reason::NotReady, Reason::Rate]);
    put("two").await;
    minutes(58).await;
    assert_eq!(reasons(&gate), [Reason::NotReady, Reason::Rate]);
    minutes(3).await;
    assert_eq!(reasons(&gate), [Reason::NotReady, Reason::Rate, Reason::Rate]);
    assert!(gate.stats().filter.unwrap().estimated_rate.unwrap() > 0.002, "{:?}", gate.stats());
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_is_as_full_as_it_may_be_is_left_alone() {
    let source = MemorySource::with(names(10_000));
    let gate = builder(&source).rate(0.01).headroom(2.0).least_keys(1).build().unwrap();
    gate.start();
    until(&gate, |gate| matches!(gate.state(), State::Ready { .. })).await;
    let rows = (0..9_990).map(|number| (Key::from(format!("more-{number}").as_str()), row_of("more"))).collect();
    gate.put_many(rows).await.unwrap();
    tokio::time::sleep(2 * HOUR).await;
    let filter = gate.stats().filter.unwrap();
    assert_eq!((filter.capacity, filter.scanned), (20_000, 10_000));
    let rate = filter.estimated_rate.unwrap();
    assert!((0.008..0.012).contains(&rate), "{rate}");
    assert_eq!(reasons(&gate), [Reason::NotReady]);
}

/// When a gate began a rebuild that ended so.
fn heard(builder: Builder, what: impl Fn(&Event) -> bool + Send + Sync + 'static) -> (Gate, Arc<Mutex<Vec<Instant>>>) {
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let told = times.clone();
    let tell = move |event| {
        if what(&event) {
            told.lock().unwrap().push(Instant::now());
        }
    };
    (builder.on_event(tell).build().unwrap(), times)
}

/// The seconds between one and the next.
fn pauses(times: &Mutex<Vec<Instant>>) -> Vec<f64> {
    times.lock().unwrap().windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect()
}

/// One second, two, four and so on, at most five minutes, each half as long to half as long again.
#[track_caller]
fn assert_growing(pauses: &[f64]) {
    for (number, pause) in pauses.iter().enumerate() {
        let middle = f64::from(1 << number.min(9)).min(300.0);
        assert!(*pause >= 0.499 * middle && *pause <= 1.501 * middle, "{number}: {pause} in {pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_after_failures_grow_to_five_minutes_and_begin_anew_after_a_success() {
    let source = MemorySource::with(names(100));
    source.is_down.store(true, SeqCst);
    let every = builder(&source).rebuild_every(Some(HOUR));
    let (gate, failed) = heard(every, |event| matches!(event, Event::RebuildFailed { .. }));
    gate.start();
    tokio::time::sleep(4 * HOUR).await;
    let first = pauses(&failed);
    assert_growing(&first);
    let at_most = &first[9..];
    assert!(at_most.len() > 25, "{first:?}");
    // All on one side of the middle: once in 2^25 runs.
    assert!(at_most.iter().any(|pause| *pause < 300.0) && at_most.iter().any(|pause| *pause > 300.0), "{first:?}");

    source.is_down.store(false, SeqCst);
    // Longer than the longest pause.
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert!(matches!(gate.state(), State::Ready { .. }), "{:?}", gate.stats());
    source.is_down.store(true, SeqCst);
    failed.lock().unwrap().clear();
    // The filter is ready, and what is due fails: it is tried again, not an hour later.
    tokio::time::sleep(2 * HOUR).await;
    let second = pauses(&failed);
    assert!(second.len() > 10, "{second:?}");
    assert_growing(&second);
    let history = gate.brief_stats().rebuild.history;
    assert!(history.iter().rev().take(5).all(|past| past.reason == Reason::Schedule), "{history:?}");
    assert!(
        matches!(gate.state(), State::Ready { version, .. } if version as usize == first.len() + 2),
        "the old one stays"
    );
    // What was tried again and went well is not tried once more.
    source.is_down.store(false, SeqCst);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let done = gate.brief_stats().rebuild;
    assert_eq!((done.done, done.failures_in_a_row), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_kept_give_or_take_a_tenth() {
    let source = MemorySource::with(names(100));
    let every = builder(&source).rebuild_every(Some(HOUR));
    let (gate, done) = heard(every, |event| matches!(event, Event::Rebuilt { .. }));
    gate.start();
    tokio::time::sleep(48 * HOUR).await;
    let minutes: Vec<f64> = pauses(&done).iter().map(|seconds| seconds / 60.0).collect();
    assert!((43..=54).contains(&minutes.len()), "{minutes:?}");
    // Looked at every second.
    assert!(minutes.iter().all(|time| (53.99..66.05).contains(time)), "{minutes:?}");
    // 43 in a row within half a minute of the hour, or on one side of it: never.
    assert!(minutes.iter().any(|time| *time < 59.5) && minutes.iter().any(|time| *time > 60.5), "{minutes:?}");
    let gate = gate.brief_stats();
    assert!(gate.rebuild.history.iter().all(|past| past.reason == Reason::Schedule));
}
