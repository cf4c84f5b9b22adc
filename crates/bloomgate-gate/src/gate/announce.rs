//! Writes that somebody else does: a proxy or a layer says so before it passes them on, and tells what became of them.
//!
//! ```text
//! key known before:      ticket ─▶ filters ─▶ shard: epoch ─▶ passed on ─▶ shard: epoch ─▶ ticket back
//! key made by the write: ticket ─▶ passed on ─▶ filters ─▶ shard: epoch ─▶ ticket back ─▶ answer released
//! ```
//!
//! The second kind is the weaker one. Between the write and its answer the key exists and the filter does not know it; nobody
//! else can have been told of it, so a "no" in between is the answer of a moment before. What a rebuild needs holds for
//! both: whoever holds a ticket is waited for before the scan, and whoever takes one later finds the next filter installed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use bloomgate::Digest;

use super::{Gate, Inner};
use crate::counters::Count;
use crate::events::Event;
use crate::key::Key;
use crate::policy::State;
use crate::puts::Ticket;
use crate::rebuild::Reason;

/// Writes whose keys nobody knows before they are done, so that audits can tell a key that is just being made from one
/// that was missed.
#[derive(Debug, Default)]
pub(crate) struct UnnamedWrites {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl UnnamedWrites {
    /// Whether one is under way.
    pub fn under_way(&self) -> bool {
        // `ended` first: one that ends in between counts as under way.
        let ended = self.ended.load(SeqCst);
        self.begun.load(SeqCst) != ended
    }

    /// Moves with every one that begins or ends.
    pub fn epoch(&self) -> u64 {
        self.begun.load(SeqCst).wrapping_add(self.ended.load(SeqCst))
    }
}

/// A write of known keys that is about to be done. Dropped without a word, its outcome is unknown: the keys stay in every
/// filter until the write has happened or never will.
#[must_use = "tell what became of the write"]
#[derive(Debug)]
pub struct Announced {
    open: Option<Open>,
}

struct Open {
    inner: Arc<Inner>,
    /// Given back early by a write that takes long.
    ticket: Option<Ticket>,
    keys: Vec<Key>,
    digests: Vec<Digest>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Open").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

/// A write that makes keys which only its answer tells. Dropped without a word, its outcome is unknown: the filter may not
/// say no until a scan that begins after the write has happened or never will.
#[must_use = "tell what became of the write"]
#[derive(Debug)]
pub struct Unnamed {
    open: Option<Open>,
}

/// A deletion that somebody else does. Dropped without a word, it may have been done.
#[must_use = "tell what became of the deletion"]
#[derive(Debug)]
pub struct Removal {
    open: Option<(Gate, Digest, Key)>,
}

impl Gate {
    /// Says that somebody else is about to write these keys: they are in every filter that counts when this returns. Pass
    /// the write on only then. Keys that are not of the source's type are left out: nobody can ask for them.
    pub async fn announce(&self, mut keys: Vec<Key>) -> Announced {
        let inner = self.inner.clone();
        keys.retain(|key| inner.check(key).is_ok());
        inner.claim_or_lose().await;
        let digests = inner.filters.digests(&keys);
        // From before the filters are looked up until it is known what became of the write: see `puts`.
        let open = Open { ticket: Some(inner.puts.enter()), inner, keys, digests };
        open.add().await;
        Announced { open: Some(open) }
    }

    /// Says that somebody else is about to make rows whose keys only the answer will tell.
    pub async fn announce_unnamed(&self) -> Unnamed {
        let inner = self.inner.clone();
        inner.claim_or_lose().await;
        let ticket = Some(inner.puts.enter());
        inner.unnamed.begun.fetch_add(1, SeqCst);
        Unnamed { open: Some(Open { inner, ticket, keys: Vec::new(), digests: Vec::new() }) }
    }

    /// Says that somebody else is about to delete the row of a key. The filter keeps the key until the next rebuild; but a
    /// source that has fewer keys then is believed.
    pub async fn announce_removal(&self, key: Key) -> Removal {
        let inner = &self.inner;
        if inner.check(&key).is_err() {
            return Removal { open: None };
        }
        let digest = inner.filters.digest(&key);
        inner.shards.wrote(digest);
        // What the filter does not know was not there: to count it would excuse a source that lost other rows.
        let basis = inner.ask(&key, digest).await;
        if matches!(basis.verdict, super::Verdict::No | super::Verdict::Watching { no: true }) {
            return Removal { open: None };
        }
        inner.saved(inner.baseline.claim_removal().await);
        Removal { open: Some((self.clone(), digest, key)) }
    }

    /// Puts keys into the filters of which an answer has just told that they exist. The write was done before: a scan that
    /// begins from now on finds it.
    pub async fn learnt(&self, keys: Vec<Key>) {
        // The ticket is for the source's own list of what was written; the filters need none.
        let announced = self.announce(keys).await;
        announced.settled(true).await;
    }
}

impl Open {
    /// Tells the source and the filters of the keys.
    async fn add(&self) {
        let inner = &self.inner;
        if let Err(error) = inner.source.announced(&self.keys).await {
            inner.lost_sight(&error.to_string());
        }
        inner.filters.add(&self.keys, &self.digests).await;
        inner.wrote(&self.digests);
    }

    /// The write has ended. `done`: its keys were written.
    async fn end(self, done: bool) {
        let Self { inner, ticket, keys, digests } = self;
        inner.wrote(&digests);
        drop(ticket);
        inner.forget(&keys, &digests).await;
        if done {
            // One row, however many readings its key has.
            inner.counters.one(Count::Puts);
        }
    }

    /// The write may still happen.
    async fn doubt(self) {
        let inner = &self.inner;
        inner.counters.one(Count::UnknownWrites);
        inner.filters.doubt(&self.keys, &self.digests).await;
        self.digests.iter().for_each(|&digest| inner.shards.doubt(digest));
        self.end(false).await;
    }
}

impl Announced {
    /// The write takes long: its keys are kept in every filter to come from now on, and rebuilds wait for it no more. To be
    /// said again before five minutes have passed, for as long as it goes on.
    pub async fn lingers(&mut self) {
        if let Some(open) = &mut self.open {
            open.inner.filters.doubt(&open.keys, &open.digests).await;
            open.digests.iter().for_each(|&digest| open.inner.shards.doubt(digest));
            open.ticket = None;
        }
    }

    /// The write was done, or refused: nothing more comes of it.
    pub async fn settled(mut self, done: bool) {
        if let Some(open) = self.open.take() {
            open.end(done).await;
        }
    }

    /// The write may have been done, or still be.
    pub async fn unknown(mut self) {
        if let Some(open) = self.open.take() {
            open.doubt().await;
        }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        match tokio::runtime::Handle::try_current() {
            // The ticket is held until the keys are where they belong.
            Ok(runtime) => _ = runtime.spawn(open.doubt()),
            Err(_) => open.inner.clone().lost_write(open.ticket, true, "a write was given up outside of a runtime"),
        }
    }
}

impl Unnamed {
    /// It made these keys: they are in every filter that counts when this returns. Release the answer only then.
    pub async fn made(mut self, keys: Vec<Key>) {
        if let Some(open) = self.named(keys) {
            open.add().await;
            let inner = open.inner.clone();
            open.end(true).await;
            inner.unnamed.ended.fetch_add(1, SeqCst);
        }
    }

    /// It may make these keys, or have made them.
    pub async fn may_make(mut self, keys: Vec<Key>) {
        if let Some(open) = self.named(keys) {
            open.add().await;
            let inner = open.inner.clone();
            open.doubt().await;
            inner.unnamed.ended.fetch_add(1, SeqCst);
        }
    }

    fn named(&mut self, mut keys: Vec<Key>) -> Option<Open> {
        let mut open = self.open.take()?;
        keys.retain(|key| open.inner.check(key).is_ok());
        open.digests = open.inner.filters.digests(&keys);
        open.keys = keys;
        Some(open)
    }

    /// It made nothing, and never will.
    pub fn nothing(mut self) {
        if let Some(open) = self.open.take() {
            drop(open.ticket);
            open.inner.unnamed.ended.fetch_add(1, SeqCst);
        }
    }

    /// It was done, and nobody can tell which keys it made: the filter may not say no until it is rebuilt.
    pub fn lost(mut self, why: &str) {
        self.lose(false, why);
    }

    /// It may have been done, or still be, and nobody can tell which keys it makes.
    pub fn unknown(mut self, why: &str) {
        self.lose(true, why);
    }

    fn lose(&mut self, may_still_happen: bool, why: &str) {
        let Some(open) = self.open.take() else { return };
        if may_still_happen {
            open.inner.counters.one(Count::UnknownWrites);
        }
        open.inner.clone().lost_write(open.ticket, may_still_happen, why);
        open.inner.unnamed.ended.fetch_add(1, SeqCst);
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        self.lose(true, "it was given up before its answer came");
    }
}

impl Removal {
    /// The answer has come: whether the row was deleted.
    pub async fn settled(mut self, removed: bool) {
        let Some((gate, digest, key)) = self.open.take() else { return };
        let inner = &gate.inner;
        inner.baseline.settle_removal(removed);
        inner.shards.wrote(digest);
        inner.forget(&[key], &[digest]).await;
        if removed {
            inner.counters.one(Count::Deletes);
            if let Some(current) = &inner.filters.face().current {
                current.remove_one();
            }
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if let Some((gate, digest, _)) = self.open.take() {
            gate.inner.baseline.settle_removal(true);
            gate.inner.shards.wrote(digest);
        }
    }
}

impl Inner {
    /// Takes the table for this gate. One that cannot be had does not hold up somebody else's write: the filter loses its
    /// "no" instead.
    async fn claim_or_lose(&self) {
        if let Err(error) = self.claim().await {
            self.lost_sight(&error.to_string());
        }
    }

    /// The filters may miss a write that was or will be done.
    fn lost_sight(&self, why: &str) {
        self.filters.lose_ground(State::Stale);
        self.shards.forget_all();
        self.events.tell(Event::WriteMissed { why: why.to_owned() });
        self.rebuilds.ask(Reason::WriteMissed);
    }

    /// A write was done whose keys nobody knows; or it may still be, and then no scan of the next minutes is enough.
    fn lost_write(self: Arc<Self>, ticket: Option<Ticket>, may_still_happen: bool, why: &str) {
        if may_still_happen {
            self.filters.doubt_unnamed();
        }
        self.lost_sight(why);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                _ = runtime.spawn(async move {
                    // Before the ticket is back: a scan waits for that.
                    let noted = self.source.missed_write().await;
                    self.failed_at_source(&noted);
                    match noted {
                        Ok(()) => drop(ticket),
                        Err(_) => std::mem::forget(ticket),
                    }
                })
            }
            // Nobody can note it: a ticket that never comes back keeps every further scan from being believed.
            Err(_) => std::mem::forget(ticket),
        }
    }

    /// The epoch that a "no" is audited by: it moves with every write near the key, and with every one that may make it.
    pub(crate) fn epoch(&self, digest: Digest) -> u64 {
        self.shards.epoch(digest).wrapping_add(self.unnamed.epoch())
    }
}
