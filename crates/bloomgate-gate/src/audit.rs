//! Audits: a share of the "no" answers is checked at the source, afterwards and in the background. None should ever be
//! wrong; one that is turns the filter to "maybe" until it is rebuilt.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bloomgate::Digest;
use tokio::sync::mpsc;

use crate::counters::{Count, Counters};
use crate::events::Event;
use crate::gate::{Inner, Verdict};
use crate::key::Key;
use crate::policy::State;
use crate::rebuild::Reason;

/// Samples that may wait; beyond, they are counted as skipped. A source that is slow is not asked for more.
const WAITING: usize = 1024;
/// Samples asked of the source in one question.
const AT_ONCE: usize = 64;

/// A "no" to be checked.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Whose "no" it was.
    pub of: Weak<Inner>,
    pub key: Key,
    pub digest: Digest,
    /// The write epoch of the key's shard from before the filter was asked.
    pub epoch: u64,
}

/// How often a "no" is checked that a write came between.
const TRIES: usize = 3;

/// What is to be checked.
#[derive(Debug)]
pub(crate) struct Audits {
    /// A draw below this is taken: the share, of 2^32.
    below: u64,
    offered: mpsc::Sender<Sample>,
    taken: Mutex<Option<mpsc::Receiver<Sample>>>,
}

thread_local! {
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// 32 random bits, not for secrets: an attacker who guessed which lookups are audited would gain nothing.
#[inline]
fn draw() -> u64 {
    RANDOM.with(|state| {
        let mut value = state.get();
        if value == 0 {
            // The address of a thread's own variable differs between threads.
            value = (std::ptr::from_ref(state) as u64) | 1;
        }
        // xorshift64 (Marsaglia, 2003).
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        state.set(value);
        value >> 32
    })
}

impl Audits {
    pub fn new(share: f64) -> Self {
        let (offered, taken) = mpsc::channel(WAITING);
        Self { taken: Mutex::new(Some(taken)), ..Self::among(share, offered) }
    }

    /// Those of one among many, that one task checks for all.
    pub fn among(share: f64, offered: mpsc::Sender<Sample>) -> Self {
        Self { below: (share * (1u64 << 32) as f64) as u64, offered, taken: Mutex::default() }
    }

    /// Whether this lookup is audited, should it end in a "no".
    #[inline]
    pub fn draw(&self) -> bool {
        self.below > 0 && draw() < self.below
    }

    /// Hands a "no" in for an audit.
    #[cold]
    pub fn offer(&self, counters: &Counters, sample: Sample) {
        if self.offered.try_send(sample).is_err() {
            counters.one(Count::AuditSkipped);
        }
    }

    /// The samples, for the one task that checks them.
    pub fn take(&self) -> Option<mpsc::Receiver<Sample>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Checks samples for as long as there are any to come.
pub(crate) async fn run(mut samples: mpsc::Receiver<Sample>) {
    let mut batch = Vec::new();
    while samples.recv_many(&mut batch, AT_ONCE).await > 0 {
        while let Some(whose) = batch.first().map(|first| first.of.clone()) {
            let (mine, others) = batch.drain(..).partition(|sample: &Sample| Weak::ptr_eq(&sample.of, &whose));
            batch = others;
            if let Some(inner) = whose.upgrade() {
                check_all(&inner, mine).await;
            }
        }
    }
}

/// Checks the samples of one gate.
async fn check_all(inner: &Arc<Inner>, mut samples: Vec<Sample>) {
    for _ in 0..TRIES {
        samples = check(inner, samples).await;
        if samples.is_empty() {
            break;
        }
    }
    inner.counters.add(Count::AuditUndecided, samples.len() as u64);
}

/// Checks samples at the source. Those that cannot be judged, since somebody wrote nearby meanwhile, come back to be checked
/// again if the filter still says no to them.
async fn check(inner: &Arc<Inner>, samples: Vec<Sample>) -> Vec<Sample> {
    let keys: Vec<Key> = samples.iter().map(|sample| sample.key.clone()).collect();
    let rows = match inner.entrance.enter_many(true, inner.source.weight(keys.len())).await {
        Ok(_leave) => {
            let read = inner.source.get_many(&keys).await;
            inner.events.of_source(&read);
            read
        }
        Err(busy) => Err(busy),
    };
    let seen = inner.seen();
    let Ok(rows) = rows else {
        inner.counters.add(Count::AuditSkipped, samples.len() as u64);
        return Vec::new();
    };
    let mut undecided = Vec::new();
    for (sample, row) in samples.iter().zip(rows) {
        let being_made = inner.unnamed.under_way();
        if being_made || inner.epoch(sample.digest) != sample.epoch {
            // Written or deleted since, this key or another of its shard: what the source says now says nothing of then.
            // But what it has, the filter must know, whenever it is asked; unless it is only just being made, by a write
            // whose answer has not come yet.
            let epoch = inner.epoch(sample.digest);
            if inner.ask(sample.digest).await.verdict != Verdict::No {
                inner.counters.one(Count::AuditUndecided);
                continue;
            }
            if row.is_none() || being_made {
                undecided.push(Sample { of: sample.of.clone(), key: sample.key.clone(), digest: sample.digest, epoch });
                continue;
            }
        }
        if row.is_some() && !inner.is_wrong(sample.digest, seen).await {
            // Written by somebody else since the "no": the feed has told it meanwhile.
            inner.counters.one(Count::AuditUndecided);
            continue;
        }
        inner.counters.one(Count::Audited);
        if row.is_none() {
            continue;
        }
        inner.wrong_no(&sample.key, sample.digest, "an audit").await;
    }
    undecided
}

impl Inner {
    /// A "no" is proven wrong: the key goes in, the filter is not trusted until it is rebuilt, and everybody is told.
    pub(crate) async fn wrong_no(&self, key: &Key, digest: Digest, found_by: &'static str) {
        self.counters.one(Count::WrongNo);
        self.events.tell(Event::WrongNo { key: self.source.key_type().show(key), found_by });
        self.filters.add(&[digest]).await;
        self.lose(State::Broken);
        if self.feeding.is_some() {
            // Without its mark: what was saved lacks this key too, and must not be caught up after a kill.
            self.save().await;
        }
        self.rebuilds.ask(Reason::WrongNo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_is_drawn_is_the_share_asked_for() {
        for share in [0.0, 0.01, 0.5, 1.0] {
            let audits = Audits::new(share);
            let (drawn, all) = ((0..100_000).filter(|_| audits.draw()).count() as f64, 100_000.0);
            // 4.5 standard deviations to either side.
            let spread = 4.5 * (share * (1.0 - share) * all).sqrt();
            assert!((drawn - share * all).abs() <= spread, "{share}: {drawn}");
        }
    }
}
