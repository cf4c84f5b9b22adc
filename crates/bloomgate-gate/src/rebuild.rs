//! Rebuilds: a new filter from the source, while writes go on and none of them is lost.
//!
//! The order is the proof (it is that of docs/design.md):
//!
//! 1. install the next filter: every write that begins from now on goes into it as well;
//! 2. wait for the writes under way, their commits included: the source has them now, or never will;
//! 3. begin the scan, as of one moment: it sees everything of step 2;
//! 4. check what came out: its size, that it knows keys of the scan, that the source knows them too;
//! 5. swap one pointer.
//!
//! With a feed, between 2 and 3, its place is taken if there is none: what others commit before it is in the scan, what they
//! commit later is read from the feed and put into the next filter, which was installed in step 1.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bloomgate::math::estimate::rate_interval;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::baseline::Belief;
use crate::counters::Count;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::filters::Generation;
use crate::gate::{Gate, Inner, now_ms};
use crate::ground::moved_meanwhile;
use crate::key::Key;
use crate::policy::State;
use crate::sources::KeyBatch;

/// Deletes after which the filter is worth rebuilding, as a share of its keys.
const MOST_REMOVED: f64 = 0.2;
/// How far the rate may rise above the one asked for.
const MOST_RATE: f64 = 2.0;
/// Keys of the scan that are asked of the source again before the swap.
const SAMPLE: usize = 64;
/// Of keys from a list beside the rows, one in so many may be unknown: a list is older than the rows, but one that spells keys
/// otherwise is to be found out. Of other keys, half: only deletes of a moment are missing.
const STRAY: usize = 10;
/// Fewer than this, and deletes of a moment can be most of them.
const FEW_KEYS: usize = 16;
/// After a failure: first one second, then twice as long each time, at most five minutes.
pub(crate) const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// How long a scan may go without a key.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a count may take: one of a view, or of a query, may take minutes and says nothing meanwhile.
const COUNTING: Duration = Duration::from_secs(3600);
/// A filter that is lost again and again, as one whose name two gates share, is rebuilt later each time, unless it was there
/// for so long.
const STEADY: Duration = Duration::from_secs(600);
/// A filter that is full or too often wrong is rebuilt again after so many times what the last such rebuild took: whoever adds
/// keys that the source refuses has it scanned a tenth of the time, and not all the time.
pub(crate) const REST: u32 = 10;
/// A rate that a rebuild did not mend is not mended by the next one: keys of the source itself may crowd into few places of the
/// filter, and whoever asks for known false positives again and again makes them many of the absent keys. So at most every hour.
const MENDED: Duration = Duration::from_secs(3600);
/// How sure a measured rate must be, in standard deviations: it is looked at every second for months, and one look in 300,000 is
/// wrong by chance.
const SURE: f64 = 4.5;
/// Rebuilds that are remembered for reports; of one tenant among many, a few.
const HISTORY: usize = 20;
const FEW: usize = 3;

/// Why a rebuild was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is none that may say no: the gate just started, or lost sight of a write.
    NotReady,
    /// Somebody asked.
    Asked,
    /// It was due.
    Schedule,
    /// Too many rows were deleted.
    Removals,
    /// The rate is twice the one asked for.
    Rate,
    /// It holds more keys than it was sized for.
    Capacity,
    /// It was caught in a wrong "no".
    WrongNo,
    /// It is gone from where it was kept, or another one has its name.
    Lost,
    /// The source is not where it was: another server, file or table, or somebody else may have written to it.
    Moved,
    /// What others wrote cannot be followed from where it was left.
    FeedGap,
    /// A write was done, or may have been, and nobody could tell the filter its keys.
    WriteMissed,
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl Reason {
    /// Whether keys that were added bring it about, such that the source has and such that it refused.
    pub(crate) fn is_of_adds(self) -> bool {
        matches!(self, Self::Rate | Self::Capacity)
    }

    /// The name in reports, as JSON has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotReady => "not-ready",
            Self::Asked => "asked",
            Self::Schedule => "schedule",
            Self::Removals => "removals",
            Self::Rate => "rate",
            Self::Capacity => "capacity",
            Self::WrongNo => "wrong-no",
            Self::Lost => "lost",
            Self::Moved => "moved",
            Self::FeedGap => "feed-gap",
            Self::WriteMissed => "write-missed",
        }
    }
}

/// A rebuild that ended.
#[derive(Clone, Debug, Serialize)]
pub struct Rebuilt {
    /// Why it was begun.
    pub reason: Reason,
    /// The version of the new filter; of a failed one, the version it would have had.
    pub version: u64,
    /// Keys that were scanned.
    pub keys: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// Why it failed, if it did: the filter of before, if there is one, is still in force.
    pub failure: Option<String>,
}

/// A rebuild under way.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// Why it was begun.
    pub reason: Reason,
    /// Keys scanned so far.
    pub scanned: u64,
    /// About how many there are.
    pub expected: u64,
}

/// Keys of a scan that the source was asked for before the filter came into force.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// How many.
    pub asked: u64,
    /// How many of them it did not know: deleted since, or spelled otherwise by the scan.
    pub unknown: u64,
}

/// What was before a scan.
#[derive(Debug)]
pub(crate) struct Moment {
    /// As of when the scan is, at the earliest.
    pub watermark: u64,
    /// What was deleted before it.
    removed: u64,
    /// The write epochs before it.
    epochs: Vec<u64>,
}

/// What a gate knows of its rebuilds.
#[derive(Debug, Default)]
pub(crate) struct Rebuilds {
    one_at_a_time: tokio::sync::Mutex<()>,
    asked: Arc<Notify>,
    reason: Mutex<Option<Reason>>,
    running: Mutex<Option<Reason>>,
    scanned: AtomicU64,
    expected: AtomicU64,
    history: Mutex<VecDeque<Rebuilt>>,
    sample: Mutex<Option<Sample>>,
    /// For the source to be back: what failed is tried again at once.
    pub back: Notify,
    /// Whether it is one of many.
    among_many: bool,
    /// When one last ended that was to mend the rate.
    mended: Mutex<Option<Instant>>,
    /// Failures since the last success.
    pub failures: AtomicU64,
    pub started: AtomicBool,
    /// When the gate was started.
    begun: Mutex<Option<Instant>>,
    /// Milliseconds from the start of the gate to its first ready filter; 0 until then.
    pub ready_after_ms: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rebuilds {
    /// Those of one among many, that one task rebuilds for all.
    pub fn among(asked: Arc<Notify>) -> Self {
        Self { asked, among_many: true, ..Self::default() }
    }

    /// Why one was asked for, if one was.
    pub fn take_reason(&self) -> Option<Reason> {
        lock(&self.reason).take()
    }

    /// Has the background task begin one soon.
    pub fn ask(&self, reason: Reason) {
        lock(&self.reason).get_or_insert(reason);
        self.asked.notify_one();
    }

    /// The gate was started: from now on the first filter is waited for.
    pub fn begin(&self) {
        *lock(&self.begun) = Some(Instant::now());
    }

    /// A filter is ready: how long the first one took since the start, in milliseconds, if this is it.
    pub fn first_ready(&self) -> Option<u64> {
        let after = (lock(&self.begun).as_ref()?.elapsed().as_millis() as u64).max(1);
        self.ready_after_ms.compare_exchange(0, after, Relaxed, Relaxed).is_ok().then_some(after)
    }

    /// The rebuilds that ended, the last one last.
    pub fn history(&self) -> Vec<Rebuilt> {
        lock(&self.history).iter().cloned().collect()
    }

    /// What the source said of the keys of the last scan.
    pub fn sample(&self) -> Option<Sample> {
        lock(&self.sample).clone()
    }

    /// The one under way.
    pub fn progress(&self) -> Option<Progress> {
        let reason = (*lock(&self.running))?;
        Some(Progress { reason, scanned: self.scanned.load(Relaxed), expected: self.expected.load(Relaxed) })
    }
}

impl Gate {
    /// Builds a new filter from the source now, and swaps it in. Waits for one that is under way.
    ///
    /// # Errors
    ///
    /// Why there is no new filter; the one of before, if there is one, is still in force. One reason is a source that has
    /// far fewer keys than at the last rebuild: [`rebuild_accepting_fewer`](Self::rebuild_accepting_fewer).
    pub async fn rebuild(&self) -> Result<Rebuilt> {
        self.rebuild_now(false).await
    }

    /// [`rebuild`](Self::rebuild) by somebody who knows that most rows were meant to go.
    pub async fn rebuild_accepting_fewer(&self) -> Result<Rebuilt> {
        self.rebuild_now(true).await
    }

    async fn rebuild_now(&self, accept_fewer: bool) -> Result<Rebuilt> {
        let inner = self.inner.clone();
        // In a task of its own: a caller that goes away does not leave a half-built filter installed.
        tokio::spawn(async move { inner.rebuild(Reason::Asked, accept_fewer).await })
            .await
            .map_err(crate::gate::died)?
    }
}

impl Inner {
    pub(crate) async fn rebuild(self: &Arc<Self>, reason: Reason, accept_fewer: bool) -> Result<Rebuilt> {
        let _alone = self.rebuilds.one_at_a_time.lock().await;
        let begun = Instant::now();
        let version = self.next_version.fetch_add(1, Relaxed);
        let running = Running::begin(&self.rebuilds, reason);
        let result = self.build(version, accept_fewer).await;
        drop(running);
        let rebuilt = Rebuilt {
            reason,
            version,
            keys: self.rebuilds.scanned.load(Relaxed),
            seconds: begun.elapsed().as_secs_f64(),
            ended_ms: now_ms(),
            failure: result.as_ref().err().map(ToString::to_string),
        };
        let first_after_ms = self.conclude(&rebuilt, result.as_ref().err());
        match result {
            Ok(()) => {
                let (blocking, told) = (self.may_block, rebuilt.clone());
                self.events.tell(Event::Rebuilt { rebuilt: told, first_after_ms, blocking });
                self.save().await;
                Ok(rebuilt)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes how a rebuild ended, and tells of a failure. How long the first one took since the start, if this is it.
    pub(crate) fn conclude(&self, rebuilt: &Rebuilt, error: Option<&Error>) -> Option<u64> {
        {
            let mut history = lock(&self.rebuilds.history);
            if history.len() >= if self.rebuilds.among_many { FEW } else { HISTORY } {
                history.pop_front();
            }
            history.push_back(rebuilt.clone());
        }
        let Some(error) = error else {
            if rebuilt.reason == Reason::Rate {
                *lock(&self.rebuilds.mended) = Some(Instant::now());
            }
            self.counters.one(Count::Rebuilds);
            self.rebuilds.failures.store(0, Relaxed);
            return self.rebuilds.first_ready();
        };
        self.counters.one(Count::RebuildsFailed);
        self.rebuilds.failures.fetch_add(1, Relaxed);
        if error.kind() == ErrorKind::Unsupported {
            // The column is not what it was: what its equality is now, the filter does not know.
            self.lose(State::Broken);
        }
        let still_ready = matches!(self.filters.face().state, State::Ready { .. });
        self.events.tell(Event::RebuildFailed { rebuilt: rebuilt.clone(), still_ready });
        None
    }

    async fn build(&self, version: u64, accept_fewer: bool) -> Result<()> {
        self.rebuilds.scanned.store(0, Relaxed);
        let moves = self.prepare_scan().await?;
        let counted = unless_endless(self.source.count()).await;
        self.events.of_source(&counted);
        let mut count = counted?;
        for _ in 0..2 {
            self.rebuilds.expected.store(count, Relaxed);
            let capacity = self.capacity_for(count);
            let next = self.make(version, capacity).await?;
            let next = Arc::new(next);
            let installed = Installed { inner: self, next: &next };
            self.filters.install(&next).await?;
            // From now on a move of the ground reaches this filter; before, there was none to mistrust.
            let result = match moves.is_none_or(|before| self.moves() == before) {
                true => self.fill_and_swap(&next, accept_fewer).await,
                false => Err(moved_meanwhile()),
            };
            drop(installed);
            match result {
                Ok(true) => return Ok(()),
                // The count was an estimate and far too low: once more, now that it is known.
                Ok(false) => count = next.scanned(),
                Err(error) => {
                    next.discard().await;
                    return Err(error);
                }
            }
            next.discard().await;
        }
        Err(Error::new(
            ErrorKind::Source,
            "the source grows faster than it can be counted: try again when it is quieter",
        ))
    }

    /// Keys that a filter is sized for when the source has so many: those whose write may still happen go into it too.
    pub(crate) fn capacity_for(&self, count: u64) -> u64 {
        let count = count.saturating_add(self.filters.doubtful() as u64);
        ((count as f64 * self.settings.headroom) as u64).max(self.settings.least_keys).max(1)
    }

    /// An empty filter where the filters of this gate are.
    async fn make(&self, version: u64, capacity: u64) -> Result<Generation> {
        #[cfg(feature = "redis")]
        if let Some(remote) = &self.remote {
            let filter = remote.create(version, capacity, self.settings.rate).await;
            match &filter {
                Ok(_) => self.events.answered(crate::Part::Filter),
                Err(error) if error.kind() == ErrorKind::Filter => self.events.failed(crate::Part::Filter, error),
                Err(_) => {}
            }
            return Ok(Generation::remote(version, filter?, capacity, self.settings.rate));
        }
        let rate = match &self.room {
            Some(room) => room.rate_for(capacity)?,
            None => self.settings.rate,
        };
        Generation::local(version, self.filters.contract(), capacity, rate, self.settings.filter_bytes)
    }

    /// Steps 2 to 5; false if the filter turned out far too small.
    async fn fill_and_swap(&self, next: &Arc<Generation>, accept_fewer: bool) -> Result<bool> {
        let patience = self.settings.write_patience;
        if tokio::time::timeout(patience, self.puts.wait()).await.is_err() {
            let message = format!(
                "{} writes were under way, and one of them for longer than {patience:?}: a filter built now could miss it. \
                 Look at what the source does with it",
                self.puts.len()
            );
            return Err(Error::new(ErrorKind::Source, message));
        }
        if let Some(feeding) = &self.feeding {
            feeding.anchor().await?;
        }
        // Every write answered before this moment is in the scan, every later one is put into the filter.
        let moment = self.moment();
        let mut scan = unless_silent(self.source.scan()).await?;
        let (mut batch, mut ahead, mut sample) = (KeyBatch::default(), KeyBatch::default(), Sampler::default());
        let mut goes_on = unless_silent(scan.next(&mut batch)).await?;
        while goes_on {
            batch.iter().for_each(|key| sample.offer(key));
            // The next keys are on their way while these are put in: the two cost the longer of their times, not both.
            // First the filling, which hands them to a thread.
            let filling = self.filters.fill(next, &mut batch);
            let (filled, read) = tokio::join!(filling, unless_silent(scan.next(&mut ahead)));
            filled?;
            self.rebuilds.scanned.store(next.scanned(), Relaxed);
            goes_on = read?;
            std::mem::swap(&mut batch, &mut ahead);
        }
        drop(scan);
        if next.scanned() > next.capacity() {
            // Without headroom it would be over its capacity from the first day.
            return Ok(false);
        }
        self.take_over(next, &sample.keys, &moment, accept_fewer).await?;
        self.saved(self.baseline.write_down().await);
        Ok(true)
    }

    /// The moment before a scan.
    pub(crate) fn moment(&self) -> Moment {
        Moment { watermark: now_ms(), removed: self.baseline.removed(), epochs: self.shards.epochs() }
    }

    /// Steps 4 and 5: checks what a scan gave and puts it in force, as of the moment before it.
    pub(crate) async fn take_over(
        &self,
        next: &Arc<Generation>,
        sample: &[Key],
        moment: &Moment,
        accept_fewer: bool,
    ) -> Result<()> {
        let is_list = self.may_block && self.source.keys_are_listed();
        if is_list && next.scanned() == 0 && !self.baseline.may_begin_empty(accept_fewer) {
            let message = "the list of keys is empty, and by it every key would be told to be absent: look at what writes it. If \
                           there is no key yet, accept it by POST /rebuild?accept-fewer=true, or by one start with --accept-fewer";
            return Err(Error::new(ErrorKind::Source, message));
        }
        let belief = self.baseline.judge(next.scanned(), accept_fewer, !self.may_block)?;
        let stray = self.check_sample(next, sample, moment).await?;
        next.publish().await?;
        if let Some(feeding) = &self.feeding {
            // Written down before the swap: a database that is set back to before this scan, where rows are that the scan did
            // not see any more, is known by its older place.
            feeding.release(self, None).await?;
        }
        // What was read before the scan may be older than what the scan saw.
        self.shards.forget_all();
        next.begins_after(self.counters.get(Count::AbsentByFilter), self.counters.get(Count::FalsePositiveReads));
        self.filters.swap(next, moment.watermark)?;
        if let Some(room) = &self.room {
            room.took(next);
        }
        self.baseline.believe(next.scanned(), moment.removed);
        if let Belief::Fewer(before, because) = belief {
            self.events.tell(Event::FewerAccepted { before, now: next.scanned(), because });
        }
        if let Some((Sample { asked, unknown }, example)) = stray.filter(|_| is_list) {
            self.events.tell(Event::KeysUnknown { asked, unknown, example });
        }
        Ok(())
    }

    /// Asks the new filter and the source for keys of the scan. A scan that spells keys otherwise than lookups do would
    /// make every "no" wrong; here it is found out. How many the source does not know, and one of them, if there are some.
    async fn check_sample(
        &self,
        next: &Generation,
        sample: &[Key],
        moment: &Moment,
    ) -> Result<Option<(Sample, String)>> {
        // What no text spells (NaN, more than 4,096 bytes) is in the filter and is never asked for: parsing refuses it.
        let key_type = self.source.key_type();
        let sample: Vec<Key> = sample.iter().filter(|key| key_type.holds(key)).cloned().collect();
        *lock(&self.rebuilds.sample) = None;
        if sample.is_empty() {
            return Ok(None);
        }
        let sample = &sample[..];
        let digests = self.filters.digests(sample);
        if next.ask(&digests).await?.iter().all(|&has| has) {
            let rows = self.source.get_many(sample).await?;
            let known = rows.iter().flatten().count();
            // Some may have been deleted since; not most of them. Of a few keys all may have been, but not unseen.
            let (few, listed) = (sample.len() < FEW_KEYS, self.may_block && self.source.keys_are_listed());
            let unseen: Vec<&Key> = rows
                .iter()
                .zip(&digests)
                .zip(sample)
                .filter(|((row, digest), _)| {
                    row.is_none() && !((few || listed) && self.shards.moved_since(&moment.epochs, **digest))
                })
                .map(|(_, key)| key)
                .collect();
            let example = unseen.first().map(|key| key_type.show(key)).unwrap_or_default();
            let counted = Sample { asked: sample.len() as u64, unknown: unseen.len() as u64 };
            *lock(&self.rebuilds.sample) = Some(counted.clone());
            if unseen.len() * if listed && !few { STRAY } else { 2 } <= sample.len() {
                return Ok((!unseen.is_empty()).then_some((counted, example)));
            }
            let message = if listed {
                format!(
                    "of {} keys of the list, the service knows {known} when asked for them, and {example:?} it does not know: the list \
                 spells keys otherwise than the service, or is old, and the keys that are meant would be told to be absent. \
                 Make it anew, and compare one of its lines with what the service answers",
                    sample.len()
                )
            } else {
                format!(
                    "of {} keys that the scan gave, the source knows {known} when asked for them, and {example:?} it does not \
                 know: keys are spelled in two ways, by scans and by lookups. This column cannot be gated as it is",
                    sample.len()
                )
            };
            return Err(Error::new(ErrorKind::Source, message));
        }
        Err(Error::new(ErrorKind::Filter, "the new filter does not know keys that were put into it: it is not used"))
    }

    /// Why the filter should be rebuilt, if it should.
    pub(crate) fn worn_out(&self) -> Option<Reason> {
        let face = self.filters.face();
        let current = match (&face.current, face.state) {
            (Some(current), State::Ready { .. }) => current,
            _ => return Some(Reason::NotReady),
        };
        if current.removed() as f64 > current.scanned().max(1) as f64 * MOST_REMOVED {
            Some(Reason::Removals)
        } else if current.items() > current.capacity() {
            Some(Reason::Capacity)
        } else if self.is_too_often_wrong(current) {
            Some(Reason::Rate)
        } else {
            None
        }
    }

    /// Whether the rate of a filter is past all that was asked for, and was not just mended.
    fn is_too_often_wrong(&self, current: &Arc<Generation>) -> bool {
        // A filter of the last run may have been made for another rate; one among many is made for its share of the memory.
        let asked = if self.room.is_some() { current.rate() } else { self.settings.rate };
        let rate = match current.local_bits() {
            // Many tenants are looked at every second: those without a new key are not counted.
            Some(_) if current.is_as_built() => return false,
            // By its bits, for the number of its keys does not say where they are.
            Some(_) => current.counted_soon().map_or(0.0, |counted| counted.rate),
            // Elsewhere it grows in stages that keep the rate, or says so: what is left is what came of its answers.
            None => self.measured_since(current).map_or(0.0, |(hits, trials)| rate_interval(hits, trials, SURE).0),
        };
        rate > asked * MOST_RATE && lock(&self.rebuilds.mended).is_none_or(|mended| mended.elapsed() >= MENDED)
    }

    /// Lookups of absent keys since a filter came into force: those that it let through and that were asked of the source (a
    /// key that is remembered as absent counts once), and all. None where it stops nobody.
    pub(crate) fn measured_since(&self, current: &Generation) -> Option<(u64, u64)> {
        let counted = (self.counters.get(Count::AbsentByFilter), self.counters.get(Count::FalsePositiveReads));
        let (stopped, passed) = current.since_it_began(counted.0, counted.1).filter(|_| self.may_block)?;
        Some((passed, stopped + passed))
    }
}

/// Waits for the source in a scan, but not for ever: a connection that died without a word would hold up every rebuild.
pub(crate) async fn unless_silent<T>(next: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(SILENCE, next).await.unwrap_or_else(|_| {
        let message =
            format!("the source sent no key for {SILENCE:?} in the middle of a scan: look at it and the network");
        Err(Error::new(ErrorKind::Source, message))
    })
}

/// Waits for the source to count its keys, but not for ever: no other rebuild begins before.
pub(crate) async fn unless_endless<T>(count: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(COUNTING, count).await.unwrap_or_else(|_| {
        let message = format!("the source did not count its keys within {COUNTING:?}: look at it and the network");
        Err(Error::new(ErrorKind::Source, message))
    })
}

/// Says that a rebuild runs for as long as it does.
struct Running<'a>(&'a Rebuilds);

impl<'a> Running<'a> {
    fn begin(rebuilds: &'a Rebuilds, reason: Reason) -> Self {
        *lock(&rebuilds.running) = Some(reason);
        Self(rebuilds)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *lock(&self.0.running) = None;
    }
}

/// The next filter while it is installed. Taken away however the rebuild ends, unless it was swapped in.
struct Installed<'a> {
    inner: &'a Inner,
    next: &'a Arc<Generation>,
}

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        self.inner.filters.abandon(self.next);
    }
}

/// A fixed number of keys out of any number, each as likely as the others (Vitter's algorithm R, 1985).
#[derive(Debug)]
pub(crate) struct Sampler {
    pub keys: Vec<Key>,
    most: usize,
    seen: u64,
    random: u64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::of(SAMPLE)
    }
}

impl Sampler {
    /// So many keys.
    pub fn of(most: usize) -> Self {
        Self { keys: Vec::new(), most, seen: 0, random: 0 }
    }

    pub fn offer(&mut self, canonical: &[u8]) {
        self.seen += 1;
        if self.keys.len() < self.most {
            self.keys.push(Key::from_canonical(canonical));
            return;
        }
        // SplitMix64 (Steele, Lea and Flood, 2014).
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let at = ((u128::from(mixed ^ (mixed >> 31)) * u128::from(self.seen)) >> 64) as usize;
        if let Some(slot) = self.keys.get_mut(at) {
            *slot = Key::from_canonical(canonical);
        }
    }
}

/// Rebuilds when it is due, asked for or needed, for as long as the gate runs.
pub(crate) async fn run(inner: Arc<Inner>) {
    if let Some(feeding) = &inner.feeding {
        feeding.catch_up(&inner).await;
    }
    let mut pause = BACK_OFF.0;
    // After a filter was lost, and the last time one was.
    let mut lost: (Duration, Option<Instant>) = (BACK_OFF.0, None);
    let mut rested = Instant::now();
    let mut is_overdue = false;
    loop {
        // What was due and failed is due still, unless somebody rebuilt meanwhile; what else there was to do shows again.
        let is_overdue_still = std::mem::take(&mut is_overdue) && inner.rebuilds.failures.load(Relaxed) > 0;
        let reason = match is_overdue_still {
            true => inner.rebuilds.take_reason().unwrap_or(Reason::Schedule),
            false => next_reason(&inner, rested).await,
        };
        if matches!(reason, Reason::Lost | Reason::WriteMissed) {
            if lost.1.is_some_and(|last| last.elapsed() < STEADY) {
                tokio::time::sleep(jitter(lost.0, 0.5)).await;
                lost.0 = (lost.0 * 2).min(BACK_OFF.1);
            } else {
                lost.0 = BACK_OFF.0;
            }
            lost.1 = Some(Instant::now());
        }
        let begun = Instant::now();
        let rebuilt = inner.rebuild(reason, false).await;
        if reason.is_of_adds() {
            rested = Instant::now() + begun.elapsed() * REST;
        }
        match rebuilt {
            Ok(_) => pause = BACK_OFF.0,
            Err(error) if error.kind() == ErrorKind::Gap && inner.feeding.is_some() => {
                if let Some(feeding) = &inner.feeding {
                    feeding.until_whole(&inner).await;
                }
            }
            Err(_) => {
                is_overdue = reason == Reason::Schedule;
                tokio::select! {
                    () = tokio::time::sleep(jitter(pause, 0.5)) => {}
                    () = inner.rebuilds.back.notified() => {}
                }
                pause = (pause * 2).min(BACK_OFF.1);
            }
        }
    }
}

/// Waits until there is a reason to rebuild. Not before `rested` for what added keys alone bring about.
async fn next_reason(inner: &Inner, rested: Instant) -> Reason {
    // Many gates that started together do not scan together.
    let due = inner.settings.rebuild_every.map(|every| Instant::now() + jitter(every, 0.1));
    loop {
        if let Some(reason) = lock(&inner.rebuilds.reason).take() {
            return reason;
        }
        if let Some(reason) = inner.worn_out().filter(|reason| !reason.is_of_adds() || Instant::now() >= rested) {
            return reason;
        }
        if due.is_some_and(|due| Instant::now() >= due) {
            return Reason::Schedule;
        }
        let second = tokio::time::sleep(Duration::from_secs(1));
        tokio::select! {
            () = inner.rebuilds.asked.notified() => {}
            () = second => {}
        }
    }
}

/// A time that is off by at most this share to either side.
pub(crate) fn jitter(time: Duration, share: f64) -> Duration {
    // Without randomness of the system there is no secret either, and no gate.
    let random = bloomgate::Secret::generate().map_or(1 << 63, |secret| u64::from_le_bytes(secret.check()));
    off_by(time, share, random)
}

/// A time that is off by a share to either side, the earliest for the number 0 and the latest for the largest one.
fn off_by(time: Duration, share: f64, random: u64) -> Duration {
    let random = (random >> 11) as f64 / (1u64 << 53) as f64;
    time.mul_f64(1.0 + share * (2.0 * random - 1.0))
}

#[cfg(test)]
mod tests;
