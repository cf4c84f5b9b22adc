//! A storm on a gate that has just started: its filter of before may not say no, and the source is not stampeded all the same.

use std::sync::Arc;

use bloomgate_gate::{Builder, ErrorKind, Gate, Key, Outcome, State, Writers};

use crate::memory_source::{MemorySource, row_of};

/// Lookups of different keys that exist, of different ones that do not, and of one key each.
const KNOWN: usize = 500;
const STRANGE: usize = 2000;
const EQUAL: usize = 3000;

/// A gate that starts with the filter of the last run, which may not say no.
async fn stale(source: &Arc<MemorySource>, folder: &tempfile::TempDir, set: impl Fn(Builder) -> Builder) -> Gate {
    let build = || {
        let builder = Gate::builder(source.clone()).writers(Writers::Sole).rate(1e-6).audit_share(0.0);
        set(builder.data(folder.path())).build().unwrap()
    };
    let first = build();
    first.rebuild().await.unwrap();
    first.stop().await;
    drop(first);
    let gate = build();
    assert_eq!(gate.state(), State::Stale);
    gate
}

#[tokio::test]
async fn a_storm_on_a_gate_that_starts_reads_each_key_once_and_never_more_than_the_cap_at_once() {
    let source = MemorySource::with((0..KNOWN).map(|number| format!("key-{number}")));
    let folder = tempfile::tempdir().unwrap();
    let gate = stale(&source, &folder, |builder| builder.source_limit(16, 100_000)).await;
    let before = source.reads();
    // Nobody is answered until all are there.
    let held = source.hold.write().await;
    let names = (0..STRANGE)
        .map(|number| format!("absent-{number}"))
        .chain((0..KNOWN).map(|number| format!("key-{number}")))
        .chain((0..EQUAL).flat_map(|_| ["key-7".to_owned(), "absent-7".to_owned()]));
    let lookups: Vec<_> = names
        .map(|name| {
            let gate = gate.clone();
            tokio::spawn(async move {
                let answer = gate.get(&Key::from(name.as_str())).await.unwrap();
                (name, answer)
            })
        })
        .collect();
    let waiting = || {
        let at_source = gate.brief_stats().at_source;
        at_source.at_once + at_source.waiting
    };
    while waiting() < KNOWN + STRANGE {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(waiting(), KNOWN + STRANGE, "one for each key, however many ask for it");
    let [known, strange] = &source.crowds;
    assert_eq!((known.now() + strange.now(), strange.now()), (16, 4), "strangers have a quarter of the cap");
    drop(held);
    for lookup in lookups {
        let (name, answer) = lookup.await.unwrap();
        assert_eq!(answer.row, name.starts_with("key").then(|| row_of(&name)), "{name}");
        assert_eq!(answer.outcome, Outcome::Bypass, "{name}");
    }
    assert_eq!(source.reads() - before, (KNOWN + STRANGE) as u64, "one read for each key");
    assert_eq!(gate.brief_stats().lookups.joined, 2 * EQUAL as u64);
    assert!(known.most() <= 16 && strange.most() == 4, "{} and {}", known.most(), strange.most());
    assert_eq!(gate.state(), State::Stale, "all of it before the first scan");
}

#[tokio::test]
async fn beyond_the_places_to_wait_a_storm_is_refused_at_once_and_those_before_are_answered() {
    let source = MemorySource::with((0..KNOWN).map(|number| format!("key-{number}")));
    let folder = tempfile::tempdir().unwrap();
    let gate = stale(&source, &folder, |builder| builder.source_limit(4, 8)).await;
    let held = source.hold.write().await;
    let lookups: Vec<_> = (0..KNOWN)
        .map(|number| {
            let gate = gate.clone();
            tokio::spawn(async move { gate.get(&Key::from(format!("key-{number}").as_str())).await })
        })
        .collect();
    while gate.brief_stats().lookups.refused_busy < (KNOWN - 12) as u64 {
        tokio::task::yield_now().await;
    }
    assert_eq!((source.crowds[0].now(), gate.brief_stats().at_source.waiting), (4, 8));
    drop(held);
    let mut found = 0;
    for lookup in lookups {
        match lookup.await.unwrap() {
            Ok(answer) => found += usize::from(answer.row.is_some()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy),
        }
    }
    assert_eq!((found, source.crowds[0].most()), (12, 4));
}
