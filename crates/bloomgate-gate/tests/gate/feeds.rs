//! Feeds: others write, and a gate says no all the same, as of a watermark. Real files, a real server, and writers that know
//! nothing of the gate.

mod killing;
mod moves;
#[cfg(feature = "postgres")]
mod outbox;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bloomgate_gate::feed::{Change, ChangeKind, Receiver};
use bloomgate_gate::{Builder, Gate, Key, Outcome, Pending, State, Stats, Writers};

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn followed(builder: Builder) -> Gate {
    builder.writers(Writers::Feed).audit_share(1.0).build().unwrap()
}

async fn until(gate: &Gate, what: impl Fn(&Stats) -> bool) -> Stats {
    for _ in 0..4000 {
        let stats = gate.brief_stats();
        if what(&stats) {
            return stats;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not happen: {:?}", gate.stats());
}

/// Starts a gate and waits until it may say no.
async fn ready(gate: &Gate) {
    gate.start();
    until(gate, |stats| stats.blocking).await;
}

/// Waits until everything is told that was committed before this call.
async fn told(gate: &Gate) {
    let moment = now();
    until(gate, |stats| {
        let feed = stats.feed.as_ref().unwrap();
        stats.blocking && feed.watermark_ms.is_some_and(|watermark| watermark > moment)
    })
    .await;
}

/// What a lookup of a key gives: the row, and whether the filter alone said no.
async fn row(gate: &Gate, key: &str) -> Option<String> {
    let answer = gate.get(&gate.parse_key(key).unwrap()).await.unwrap();
    answer.row.map(|row| String::from_utf8(row.to_vec()).unwrap())
}

/// Whether the filter alone says no.
fn is_blocked(gate: &Gate, key: &str) -> bool {
    gate.look(&gate.parse_key(key).unwrap()).is_some_and(|answer| answer.outcome == Outcome::AbsentByFilter)
}

/// The feed was lost so many times, at last for a reason with these words.
async fn lost(gate: &Gate, losses: u64, words: &str) {
    let stats = until(gate, |stats| {
        let feed = stats.feed.as_ref().unwrap();
        feed.losses >= losses && feed.lost.as_ref().is_some_and(|why| why.contains(words))
    })
    .await;
    assert_eq!(stats.feed.as_ref().unwrap().losses, losses, "{:?}", stats.feed);
}

/// Asks for a key that was committed at a moment until the gate finds it: never a "no" as of a later watermark.
async fn never_wrongly_absent(gate: &Gate, key: &str, committed: u64) {
    let begun = std::time::Instant::now();
    loop {
        let answer = gate.get(&gate.parse_key(key).unwrap()).await.unwrap();
        if answer.row.is_some() {
            return;
        }
        assert!(
            answer.watermark.is_none_or(|watermark| watermark <= committed),
            "{key}: {answer:?}, committed {committed}"
        );
        assert!(begun.elapsed() < Duration::from_secs(20), "{key} is never found: {:?}", gate.stats());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Takes down what a feed tells.
#[derive(Default)]
pub struct Notes(Mutex<Vec<Change>>);

impl Receiver for Notes {
    fn take<'a>(&'a self, changes: &'a [Change]) -> Pending<'a, ()> {
        self.0.lock().unwrap().extend_from_slice(changes);
        Box::pin(std::future::ready(()))
    }

    fn forget<'a>(&'a self) -> Pending<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl Notes {
    fn taken(&self) -> Vec<(ChangeKind, Option<Key>, Option<String>)> {
        let changes = std::mem::take(&mut *self.0.lock().unwrap());
        changes.into_iter().map(|change| (change.kind, change.key, change.tenant)).collect()
    }
}

/// Whether a gate is ready or not, by name.
fn is_ready(gate: &Gate) -> bool {
    matches!(gate.state(), State::Ready { .. })
}
