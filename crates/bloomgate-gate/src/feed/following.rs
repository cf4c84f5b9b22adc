//! Follows a feed for as long as the gate runs: reads what others wrote, puts it into every filter that counts, and then
//! says as of when the filters know it.
//!
//! The order is the proof. A change is read, then the filters are looked up and told, then the shards' epochs move, then the
//! cache forgets, and only then the watermark rises to the moment before the read. So whoever sees the watermark and asks
//! the filter, the memory of absent keys or a read under way afterwards sees the change too.
//!
//! A filter that is being built gets what is read after it was installed. What was read before was committed before, and
//! the scan, which begins later, sees it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::freshness::{Moment, Watermark};
use super::{Change, ChangeKind, Feed, Mark, Receiver};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, Part};
use crate::gate::{Inner, Verdict};
use crate::key::Key;
use crate::policy::State;
use crate::rebuild::Reason;

/// How often the gate says to the feed that it is there, at least; and so many times while its place is held.
const RELEASE: Duration = Duration::from_secs(10);
const RELEASES: u32 = 3;
/// How often a feed that is not whole is looked at again.
const LOOK: Duration = Duration::from_secs(1);
/// How long an audit waits until the feed has told what the source had when it was asked.
const TOLD: Duration = Duration::from_secs(3);
/// Rows that the cache is asked to forget at once.
const FORGET: usize = 64;

/// What a gate knows of its feed.
pub(crate) struct Feeding {
    feed: Arc<dyn Feed>,
    pub watermark: Watermark,
    max_staleness: Duration,
    save_every: Duration,
    hold: Duration,
    /// Whether it has a place in the feed. Held while it reads, takes one or writes it down: a loss and a new place never cross.
    placed: tokio::sync::Mutex<bool>,
    /// Places that were lost. Counted before the filter loses its "no".
    places: AtomicU64,
    /// The mark of the filter from the last run, until it was tried.
    saved: Mutex<Option<Mark>>,
    /// Changes by kind, as [`ChangeKind`] numbers them.
    pub told: [AtomicU64; 4],
    pub reads: AtomicU64,
    pub failures: AtomicU64,
    pub losses: AtomicU64,
    /// Why the feed was lost last.
    lost: Mutex<Option<String>>,
    /// Changes when the filter was saved last.
    saved_at: AtomicU64,
}

/// What a filter that is saved has: everything up to a mark, in the place of this number.
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    pub mark: Mark,
    place: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Feeding {
    /// Follows a feed. `times`: the staleness allowed, the time between saves and how long a place is held.
    pub fn new(feed: Arc<dyn Feed>, times: [Duration; 3], saved: Option<Mark>) -> Self {
        let [max_staleness, save_every, hold] = times;
        Self {
            feed,
            watermark: Watermark::new(),
            max_staleness,
            save_every,
            hold,
            placed: tokio::sync::Mutex::default(),
            places: AtomicU64::new(0),
            saved: Mutex::new(saved),
            told: Default::default(),
            reads: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            losses: AtomicU64::new(0),
            lost: Mutex::default(),
            saved_at: AtomicU64::new(0),
        }
    }

    pub fn describe(&self) -> String {
        self.feed.describe()
    }

    pub fn max_staleness(&self) -> Duration {
        self.max_staleness
    }

    /// Why the feed was lost last.
    pub fn why_lost(&self) -> Option<String> {
        lock(&self.lost).clone()
    }

    /// How far it was read, for reports.
    pub fn position(&self) -> Option<String> {
        self.feed.mark().map(|mark| mark.0)
    }

    /// A state of the filter as the feed leaves it: ready as of the watermark, or stale if that is too long ago.
    #[inline]
    pub fn state_of(&self, state: State) -> State {
        match state {
            State::Ready { version, .. } => match self.watermark.fresh(self.max_staleness) {
                Some(watermark) => State::Ready { version, watermark },
                None => State::Stale,
            },
            other => other,
        }
    }

    /// What the filters have, for one that is saved.
    pub fn reached(&self) -> Option<Reached> {
        // Before the mark: one of a place that is lost meanwhile is no longer of this place.
        let place = self.places.load(SeqCst);
        self.feed.mark().map(|mark| Reached { mark, place })
    }

    /// Before a scan: sees to it that the feed is followed from a place before it.
    pub async fn anchor(&self) -> Result<()> {
        let mut placed = self.placed.lock().await;
        if !*placed {
            self.feed.anchor().await?;
            *placed = true;
        }
        Ok(())
    }

    /// Writes the place down in the database. `kept`: a filter that has this is on disk. If the place is not there any more, it
    /// is lost, as by a read.
    pub async fn release(&self, inner: &Inner, kept: Option<&Reached>) -> Result<()> {
        let mut placed = self.placed.lock().await;
        if !*placed || kept.is_some_and(|kept| kept.place != self.places.load(SeqCst)) {
            // A mark from before the loss, written down beside the new place, would be taken for one of it after a restart.
            return Err(Error::new(
                ErrorKind::Gap,
                "the feed was lost, and nothing is known of what was told meanwhile",
            ));
        }
        let released = self.feed.release(kept.map(|kept| &kept.mark)).await;
        if let Err(error) = &released
            && error.kind() == ErrorKind::Gap
        {
            self.lose(inner, &mut placed, &error.to_string()).await;
        }
        released
    }

    /// Gives up the place in the database of a gate that keeps nothing for its next start.
    pub async fn leave(&self) {
        if self.feed.leave().await.is_err() {
            // It ends by itself.
            self.failures.fetch_add(1, Relaxed);
        }
    }

    fn changes(&self) -> u64 {
        self.told.iter().map(|told| told.load(Relaxed)).sum()
    }

    /// Reads what others wrote since the last time.
    async fn follow(&self, inner: &Inner) {
        let mut placed = self.placed.lock().await;
        if !*placed {
            return;
        }
        let moment = self.watermark.now();
        match self.feed.read(inner).await {
            Ok(()) => {
                self.reads.fetch_add(1, Relaxed);
                self.watermark.raise(moment);
                inner.events.answered(Part::Feed);
            }
            Err(error) if error.kind() == ErrorKind::Gap => {
                self.lose(inner, &mut placed, &error.to_string()).await;
            }
            Err(error) => {
                self.failures.fetch_add(1, Relaxed);
                inner.events.failed(Part::Feed, &error);
            }
        }
    }

    /// Nothing that was built so far is known to have what others wrote, and no row that was kept to be as it was.
    async fn lose(&self, inner: &Inner, placed: &mut bool, why: &str) {
        *placed = false;
        self.places.fetch_add(1, SeqCst);
        self.losses.fetch_add(1, Relaxed);
        inner.filters.lose_ground(State::Stale);
        inner.forget_everything().await;
        self.tell_loss(inner, why);
        inner.rebuilds.ask(Reason::FeedGap);
    }

    fn tell_loss(&self, inner: &Inner, why: &str) {
        let before = lock(&self.lost).replace(why.to_owned());
        if before.as_deref() != Some(why) {
            inner.events.tell(Event::FeedLost { why: why.to_owned() });
        }
    }

    /// The filter of the last run, if there is one with a mark: reads what was written since it was saved, and makes it
    /// ready. Returns when it is, or when it cannot be and a scan is needed.
    pub async fn catch_up(&self, inner: &Inner) {
        let Some(mark) = lock(&self.saved).take() else { return };
        let begun = Instant::now();
        loop {
            let mut placed = self.placed.lock().await;
            if *placed {
                // Somebody asked for a rebuild meanwhile.
                return;
            }
            let moment = self.watermark.now();
            let caught_up = match self.feed.resume(&mark).await {
                Ok(()) => self.feed.read(inner).await,
                Err(error) => Err(error),
            };
            match caught_up {
                Ok(()) => {
                    self.watermark.raise(moment);
                    *placed = true;
                    if let Some(version) = inner.filters.revive(moment.wall) {
                        let after_ms = inner.rebuilds.first_ready();
                        let told = Event::CaughtUp {
                            version,
                            changes: self.changes(),
                            after_ms: after_ms.unwrap_or(begun.elapsed().as_millis() as u64),
                            blocking: inner.may_block,
                        };
                        inner.events.tell(told);
                    }
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Gap => {
                    inner.events.tell(Event::SavedUnusable { why: error.to_string() });
                    return;
                }
                Err(error) => {
                    self.failures.fetch_add(1, Relaxed);
                    inner.events.failed(Part::Feed, &error);
                }
            }
            drop(placed);
            sleep(LOOK).await;
        }
    }

    /// After a rebuild that failed for want of a place: waits until the feed can be followed.
    pub async fn until_whole(&self, inner: &Inner) {
        loop {
            sleep(LOOK).await;
            match self.feed.check().await {
                Err(error) if error.kind() == ErrorKind::Gap => self.tell_loss(inner, &error.to_string()),
                _ => return,
            }
        }
    }

    /// Whether so much was told since the filter was saved that it is worth saving again.
    fn is_unsaved(&self) -> bool {
        self.changes() != self.saved_at.load(Relaxed)
    }

    /// The filter was saved with everything that was told up to now.
    pub fn saved(&self) {
        self.saved_at.store(self.changes(), Relaxed);
    }
}

/// Follows the feed for as long as the gate runs.
pub(crate) async fn run(inner: Arc<Inner>) {
    let Some(feeding) = &inner.feeding else { return };
    let following = async {
        loop {
            feeding.follow(&inner).await;
            sleep(feeding.feed.pause()).await;
        }
    };
    // Beside it: to save a large filter takes seconds, and its place must not be given up meanwhile.
    let saving = async {
        loop {
            sleep(feeding.save_every).await;
            if feeding.is_unsaved() && inner.settings.data.is_some() {
                inner.save().await;
            }
        }
    };
    let holding = async {
        loop {
            sleep(RELEASE.min(feeding.hold / RELEASES)).await;
            if let Err(error) = feeding.release(&inner, None).await
                && error.kind() != ErrorKind::Gap
            {
                // What cannot be written down now may be the next time. A loss was told.
                feeding.failures.fetch_add(1, Relaxed);
            }
        }
    };
    tokio::join!(following, saving, holding);
}

impl Receiver for Inner {
    fn forget<'a>(&'a self) -> Pending<'a, ()> {
        Box::pin(self.forget_everything())
    }

    fn take<'a>(&'a self, changes: &'a [Change]) -> Pending<'a, ()> {
        Box::pin(async move {
            let keys = |of: &[ChangeKind]| -> Vec<Key> {
                let told = changes.iter().filter(|change| of.contains(&change.kind));
                told.filter_map(|change| change.key.clone()).collect()
            };
            let written = keys(&[ChangeKind::Written]);
            self.filters.add(&self.filters.digests(&written)).await;
            let all = keys(&[ChangeKind::Written, ChangeKind::Changed, ChangeKind::Deleted]);
            let digests = self.filters.digests(&all);
            digests.iter().for_each(|&digest| self.shards.wrote(digest));
            for (keys, digests) in all.chunks(FORGET).zip(digests.chunks(FORGET)) {
                // Many at once: each may be a question to a cache behind a network.
                let each = keys
                    .iter()
                    .zip(digests)
                    .map(|(key, digest)| self.forget(std::slice::from_ref(key), std::slice::from_ref(digest)));
                join_all(each).await;
            }
            let count = |kind| changes.iter().filter(|change| change.kind == kind).count() as u64;
            let (deleted, emptied) = (count(ChangeKind::Deleted), count(ChangeKind::Emptied));
            if emptied > 0 {
                self.forget_everything().await;
            }
            if deleted + emptied > 0 {
                if let Some(current) = &self.filters.face().current {
                    current.remove_many(deleted + if emptied > 0 { current.scanned() } else { 0 });
                }
                self.saved(self.baseline.removed_elsewhere(deleted, emptied > 0).await);
            }
            if let Some(feeding) = &self.feeding {
                for change in changes {
                    feeding.told[change.kind as usize].fetch_add(1, Relaxed);
                }
            }
        })
    }
}

impl Inner {
    /// Nothing that was read before is answered any more, neither a row nor that there is none.
    async fn forget_everything(&self) {
        self.shards.forget_all();
        if let Some(cache) = &self.cache {
            self.of_cache(&cache.leave_behind().await);
        }
    }

    /// What the filter is good for at this moment, the feed considered.
    #[inline]
    pub(crate) fn state_of(&self, state: State) -> State {
        match &self.feeding {
            None => state,
            Some(feeding) => feeding.state_of(state),
        }
    }

    /// What to hold an answer of the source against, from when it was given.
    pub(crate) fn seen(&self) -> Option<(Moment, u64)> {
        let feeding = self.feeding.as_ref()?;
        let version = self.filters.face().current.as_ref().map_or(0, |current| current.version());
        Some((feeding.watermark.now(), version))
    }

    /// Whether a "no" to a key that the source had is wrong. With a feed the row may just have been written: then the filter
    /// knows it as soon as everything up to `seen` is told. If it still does not, somebody writes past the triggers.
    pub(crate) async fn is_wrong(&self, digest: bloomgate::Digest, seen: Option<(Moment, u64)>) -> bool {
        let (Some(feeding), Some((moment, version))) = (&self.feeding, seen) else { return true };
        let begun = Instant::now();
        while !feeding.watermark.is_past(moment) {
            if begun.elapsed() > TOLD {
                return false;
            }
            sleep(feeding.feed.pause()).await;
        }
        let basis = self.ask(digest).await;
        // A filter that was built meanwhile may lack it because it was deleted meanwhile.
        basis.version == version && basis.verdict == Verdict::No
    }
}
