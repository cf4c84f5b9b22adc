//! Writes that somebody else does: a proxy or a layer says so before it passes them on, and tells what became of them.
//!
//! ```text
//! key known before:      ticket ─▶ filters ─▶ shard: epoch ─▶ passed on ─▶ shard: epoch ─▶ ticket back
//! key made by the write: passed on ─▶ ticket ─▶ filters ─▶ shard: epoch ─▶ ticket back ─▶ answer released
//! ```
//!
//! The second kind is the weaker one. Between the write and its answer the key exists and the filter does not know it; nobody
//! else can have been told of it, so a "no" in between is the answer of a moment before. What a rebuild needs holds for
//! both: whoever holds a ticket is waited for before the scan, and whoever takes one later finds the next filter installed.
//! The second kind takes its ticket when the answer is there, so that a client which sends slowly holds up no rebuild: its
//! write was done before, so a scan that began after the next filter was installed has seen it, or that filter is told.
//!
//! A source that cannot see such writes notes them, before they are passed on; one that cannot note them either has the write
//! refused, since nobody would know of it after a kill.
//!
//! A write of the second kind whose keys nobody can tell costs the filter its "no", unless others may write anyway and a
//! feed tells of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
#[cfg(any(feature = "layer", feature = "proxy"))]
use std::time::Duration;

use bloomgate::Digest;

use super::{Gate, Inner};
use crate::counters::Count;
use crate::error::Result;
use crate::events::Event;
use crate::key::Key;
use crate::policy::State;
use crate::puts::Ticket;
use crate::rebuild::Reason;

/// After so long, rebuilds wait for a write no more, and its keys are kept for them instead; and so often.
#[cfg(any(feature = "layer", feature = "proxy"))]
const LONG: Duration = Duration::from_secs(20);

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
    /// Whether the source has noted the keys, and is to be told how it ended.
    noted: bool,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    /// It was not done and never will be.
    Refused,
    /// It may have been done, or still be.
    Unknown,
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
    open: Option<Under>,
}

/// A write under way whose keys nobody knows yet.
struct Under {
    inner: Arc<Inner>,
    /// The source's, if it has noted it.
    mark: Option<u64>,
}

impl std::fmt::Debug for Under {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Under")
    }
}

impl Under {
    async fn begin(inner: Arc<Inner>) -> Result<Self> {
        let mark = inner.noted(inner.source.announced_unnamed().await)?;
        inner.unnamed.begun.fetch_add(1, SeqCst);
        Ok(Self { inner, mark })
    }

    /// It has ended; `known`: the source knows its keys, or that it missed them. Otherwise its mark stays.
    async fn end(self, known: bool) {
        if known {
            self.inner.ended_unnamed(self.mark).await;
        }
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        self.inner.unnamed.ended.fetch_add(1, SeqCst);
    }
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
    ///
    /// # Errors
    ///
    /// The source cannot note them: the next filter would miss what is written. Refuse the write.
    pub async fn announce(&self, keys: Vec<Key>) -> Result<Announced> {
        let inner = self.inner.clone();
        inner.claim_or_lose().await;
        Ok(Announced { open: Some(Open::begin(inner, keys).await?) })
    }

    /// Says that somebody else is about to make rows whose keys only the answer will tell.
    ///
    /// # Errors
    ///
    /// The source cannot note it: a kill before the answer would be forgotten. Refuse the write.
    pub async fn announce_unnamed(&self) -> Result<Unnamed> {
        self.inner.claim_or_lose().await;
        Ok(Unnamed { open: Some(Under::begin(self.inner.clone()).await?) })
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
        let basis = inner.ask(digest).await;
        if matches!(basis.verdict, super::Verdict::No | super::Verdict::Watching { no: true }) {
            return Removal { open: None };
        }
        inner.saved(inner.baseline.claim_removal().await);
        Removal { open: Some((self.clone(), digest, key)) }
    }

    /// Puts keys into the filters of which an answer has just told that they exist. The write was done before: a scan that
    /// begins from now on finds it.
    pub async fn learnt(&self, keys: Vec<Key>) {
        self.tell(keys).await.settled(true).await;
    }

    /// The same for keys that may have been written, or may still be.
    pub async fn may_exist(&self, keys: Vec<Key>) {
        self.tell(keys).await.unknown().await;
    }

    /// Says that a write that was passed on has these keys too.
    async fn tell(&self, keys: Vec<Key>) -> Announced {
        self.inner.claim_or_lose().await;
        // The ticket is for the source's own list of what was written; the filters need none.
        Announced { open: Some(Open::begin_late(self.inner.clone(), keys).await.0) }
    }
}

impl Open {
    /// Tells the source and the filters of the keys, before their write is passed on.
    async fn begin(inner: Arc<Inner>, keys: Vec<Key>) -> Result<Self> {
        let (open, noted) = Self::enter(inner, keys).await;
        open.inner.noted(noted)?;
        open.spread().await;
        Ok(open)
    }

    /// The same of a write that was passed on: what cannot be noted is missed. Whether the source knows that, at least.
    async fn begin_late(inner: Arc<Inner>, keys: Vec<Key>) -> (Self, bool) {
        let (mut open, noted) = Self::enter(inner, keys).await;
        let known = match noted {
            Ok(()) => true,
            Err(error) => {
                open.inner.lost_sight(&error.to_string());
                open.inner.missed(open.ticket.take()).await
            }
        };
        open.spread().await;
        (open, known)
    }

    /// Tells the source of the keys.
    async fn enter(inner: Arc<Inner>, mut keys: Vec<Key>) -> (Self, Result<()>) {
        keys.retain(|key| inner.check(key).is_ok());
        let digests = inner.filters.digests(&keys);
        // From before the filters are looked up until it is known what became of the write: see `puts`.
        let ticket = Some(inner.puts.enter());
        let noted = inner.source.announced(&keys).await;
        (Self { noted: noted.is_ok(), inner, ticket, keys, digests }, noted)
    }

    /// Tells the filters of the keys.
    async fn spread(&self) {
        self.inner.filters.add(&self.digests).await;
        self.inner.wrote(&self.digests);
    }

    /// The write has ended.
    async fn end(self, how: End) {
        let Self { inner, ticket, keys, digests, noted } = self;
        inner.wrote(&digests);
        if noted {
            inner.failed_at_source(&inner.source.ended(&keys, how == End::Refused).await);
        }
        drop(ticket);
        inner.forget(&keys, &digests).await;
        if how == End::Done {
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
        self.end(End::Unknown).await;
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

    /// Waits for what answers the write, and lets no rebuild wait if that takes long.
    #[cfg(any(feature = "layer", feature = "proxy"))]
    pub(crate) async fn answered<T>(announced: &mut Option<Self>, answer: impl Future<Output = T>) -> T {
        let mut answer = std::pin::pin!(answer);
        loop {
            match tokio::time::timeout(LONG, &mut answer).await {
                Ok(answered) => return answered,
                Err(_) => {
                    if let Some(announced) = announced {
                        announced.lingers().await;
                    }
                }
            }
        }
    }

    /// The write was done, or refused: nothing more comes of it.
    pub async fn settled(mut self, done: bool) {
        if let Some(open) = self.open.take() {
            open.end(if done { End::Done } else { End::Refused }).await;
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
            Err(_) => {
                open.inner.clone().lost_write(open.ticket, None, true, "a write was given up outside of a runtime")
            }
        }
    }
}

impl Unnamed {
    /// It made these keys: they are in every filter that counts when this returns. Release the answer only then.
    pub async fn made(mut self, keys: Vec<Key>) {
        if let Some(under) = self.open.take() {
            let (open, known) = Open::begin_late(under.inner.clone(), keys).await;
            open.end(End::Done).await;
            under.end(known).await;
        }
    }

    /// It may make these keys, or have made them.
    pub async fn may_make(mut self, keys: Vec<Key>) {
        if let Some(under) = self.open.take() {
            let (open, known) = Open::begin_late(under.inner.clone(), keys).await;
            open.doubt().await;
            under.end(known).await;
        }
    }

    /// It made nothing, and never will.
    pub async fn nothing(mut self) {
        if let Some(under) = self.open.take() {
            under.end(true).await;
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
        let Some(under) = self.open.take() else { return };
        let inner = under.inner.clone();
        if may_still_happen {
            inner.counters.one(Count::UnknownWrites);
        }
        let ticket = Some(inner.puts.enter());
        inner.lost_write(ticket, under.mark, may_still_happen, why);
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
    /// `mark`: the source's, if it has noted the write.
    fn lost_write(self: Arc<Self>, ticket: Option<Ticket>, mark: Option<u64>, may_still_happen: bool, why: &str) {
        if self.feeding.is_some() {
            // Others write unseen all the time: the feed tells the keys, and a "no" is as of what it has told.
            return;
        }
        if may_still_happen {
            self.filters.doubt_unnamed();
        }
        self.lost_sight(why);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                _ = runtime.spawn(async move {
                    if self.missed(ticket).await {
                        self.ended_unnamed(mark).await;
                    }
                })
            }
            // Nobody can note it: a ticket that never comes back keeps every further scan from being believed.
            Err(_) => std::mem::forget(ticket),
        }
    }

    /// What the source said to a write that it was to note. Only what failed is told: most sources note nothing.
    fn noted<T>(&self, noted: Result<T>) -> Result<T> {
        if noted.is_err() {
            self.failed_at_source(&noted);
        }
        noted
    }

    /// Has the source note that it missed a write, before the ticket is back: a scan waits for that. Whether it could.
    async fn missed(&self, ticket: Option<Ticket>) -> bool {
        let noted = self.source.missed_write().await;
        self.failed_at_source(&noted);
        if noted.is_err() {
            // A ticket that never comes back keeps every further scan from being believed.
            std::mem::forget(ticket);
        }
        noted.is_ok()
    }

    /// A write has ended that the source gave a mark, if it did.
    async fn ended_unnamed(&self, mark: Option<u64>) {
        if let Some(mark) = mark {
            self.failed_at_source(&self.source.ended_unnamed(mark).await);
        }
    }

    /// The epoch that a "no" is audited by: it moves with every write near the key, and with every one that may make it.
    pub(crate) fn epoch(&self, digest: Digest) -> u64 {
        self.shards.epoch(digest).wrapping_add(self.unnamed.epoch())
    }
}
