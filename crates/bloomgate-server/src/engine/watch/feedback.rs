//! BG.FEEDBACK: items that a filter took for present and that a client has proved absent by asking its database. Until
//! their time is over, lookups of them answer "no".
//!
//! **A "no" must stay right**, so three things hold:
//!
//! - An add takes the item's tag away before its record and its bits are written. A lookup that finds the bits of an
//!   acknowledged add finds no tag.
//! - A report may be overtaken: a client finds an item absent, another adds it, then the report comes. So items that were
//!   added lately cannot be reported (the table of tags). From the first report on, a filter keeps its adds for that purpose,
//!   and its reports count from `feedback-settle` seconds later.
//! - Whoever reports an item that is there makes a "no" wrong, as one does who removes it. It takes the same right.
//!
//! Nothing of it is written to the log: after a start there are no reports. A filter that gets another name or is replaced
//! has none either.
//!
//! The idea of telling a filter about its false positives is that of adaptive filters (Bender and others, "Bloom Filters,
//! Adaptivity, and the Dictionary Problem", 2018), which change themselves; here the filter stays as it is, so that its
//! file and its log mean what they meant.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicU64 as Counter;
use std::sync::{Arc, OnceLock, PoisonError};

use bloomgate::{Digest, Kind};
use bloomgate_command::Refusal;

use super::WatchSettings;
use super::tags::{Put, Tags};
use crate::engine::entry::Entry;
use crate::engine::recipe::refused;
use crate::engine::{Engine, Permit, check_available};
use crate::sync::atomic::Ordering;
use crate::sync::{RwLock, point};

/// Filters that may have reports: each takes 200 bytes.
const MOST_FILTERS: usize = 65_536;

/// What clients have reported about one filter.
#[derive(Debug)]
pub struct Reported {
    /// Mixed into the digests, so that tags of one filter are none of another, nor of this one before it was forgotten.
    mask: u128,
    /// The namespace of the filter.
    space: u16,
    /// When the first report came, in milliseconds since 1970.
    pub since_ms: u64,
    /// Lookups and positives that were counted then.
    before: (u64, u64),
    /// Items reported.
    pub reports: Counter,
    /// Of these, taken.
    pub taken: Counter,
    /// Absent anyway.
    pub already_no: Counter,
    /// Refused because the filter has not kept its adds for long enough.
    pub too_early: Counter,
    /// Refused because they were added lately.
    pub lately_added: Counter,
    /// Lookups that were spared.
    pub spared: Counter,
}

impl Reported {
    /// The counters with their names.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, u64); 6] {
        let read = |counter: &Counter| counter.load(Ordering::Relaxed);
        [
            ("reports", read(&self.reports)),
            ("taken", read(&self.taken)),
            ("already_no", read(&self.already_no)),
            ("too_early", read(&self.too_early)),
            ("lately_added", read(&self.lately_added)),
            ("spared", read(&self.spared)),
        ]
    }

    /// The rate that clients have proved: false positives reported, over them and the answers of "no" since the first
    /// report. As low as clients report little.
    #[must_use]
    pub fn reported_rate(&self, entry: &Entry) -> Option<f64> {
        let taken = self.taken.load(Ordering::Relaxed);
        let counts = entry.counts();
        let lookups = counts.lookups.saturating_sub(self.before.0);
        let positives = counts.positives.saturating_sub(self.before.1);
        let spared = self.spared.load(Ordering::Relaxed);
        // What was spared was counted as a "no", and is the same false positive again.
        let negatives = lookups.saturating_sub(positives).saturating_sub(spared);
        (taken + negatives > 0).then(|| taken as f64 / (taken + negatives) as f64)
    }
}

/// What was counted for all filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Items reported.
    pub reports: u64,
    /// Lookups that were spared.
    pub spared: u64,
    /// Items in the table, some of which may have ended.
    pub entries: u64,
    /// Filters with reports.
    pub filters: u64,
}

/// Everything that clients have reported.
#[derive(Debug)]
pub struct Feedback {
    entries: u64,
    ttl_s: u32,
    settle_ms: u64,
    /// Made with the first report, and charged then.
    tags: OnceLock<Tags>,
    filters: RwLock<HashMap<u64, Arc<Reported>>>,
    reports: Counter,
    spared: Counter,
    held: Counter,
}

/// Refuses kinds that count or remove: what they count would contradict a "no".
fn check_kind(kind: Kind) -> Result<(), Refusal> {
    if !matches!(kind, Kind::Counting | Kind::Quotient | Kind::Cuckoo | Kind::GrowingCuckoo | Kind::RedisCuckoo) {
        return Ok(());
    }
    Err(Refusal::err(format_args!(
        "a {kind} filter takes no feedback: it counts or removes items, and a count would say otherwise; ask for the item \
         with BG.COUNT, or remove it"
    )))
}

impl Feedback {
    /// No reports.
    #[must_use]
    pub fn new(settings: &WatchSettings) -> Self {
        Self {
            entries: settings.feedback_entries,
            ttl_s: u32::try_from(settings.feedback_ttl).unwrap_or(u32::MAX),
            settle_ms: settings.feedback_settle.saturating_mul(1_000),
            tags: OnceLock::new(),
            filters: RwLock::default(),
            reports: Counter::new(0),
            spared: Counter::new(0),
            held: Counter::new(0),
        }
    }

    /// The table, made and charged if there is none.
    fn table(&self, engine: &Engine) -> Result<&Tags, Refusal> {
        if let Some(tags) = self.tags.get() {
            return Ok(tags);
        }
        if self.entries == 0 {
            return Err(Refusal::err("this server takes no feedback: feedback-entries is 0"));
        }
        let held = engine.budget.hold(Tags::bytes(self.entries)?).map_err(|refused| {
            Refusal::err(format_args!(
                "there is no memory for feedback: {}; lower feedback-entries, or raise max-memory",
                refused.to_string().trim_start_matches("ERR ")
            ))
        })?;
        let tags = Tags::new(self.entries, engine.clock.now_ms())?;
        if self.tags.set(tags).is_ok() {
            // Charged as long as the server runs.
            let _ = held.keep();
        }
        self.tags.get().ok_or_else(|| Refusal::err("there is no table for feedback: try again"))
    }

    /// Makes the table that reports of a filter go into, if there is none: better before everybody stands still than
    /// then.
    pub fn prepare(&self, engine: &Engine, entry: &Entry) -> Result<(), Refusal> {
        check_kind(entry.kind())?;
        self.table(engine).map(drop)
    }

    /// What clients have reported about a filter.
    #[must_use]
    pub fn of(&self, entry: &Entry) -> Option<Arc<Reported>> {
        if !entry.has_feedback() {
            return None;
        }
        self.filters.read().unwrap_or_else(PoisonError::into_inner).get(&entry.id).cloned()
    }

    /// From now on the adds of a filter are kept, and its reports count a little later. With nobody writing: an add that
    /// saw the filter without feedback has ended.
    pub fn begin(&self, permit: &Permit<'_>, entry: &Entry) -> Result<Arc<Reported>, Refusal> {
        debug_assert!(permit.is_alone(), "adds on their way would not be kept");
        if let Some(reported) = self.of(entry) {
            return Ok(reported);
        }
        check_available(entry)?;
        check_kind(entry.kind())?;
        let engine = permit.engine();
        self.table(engine)?;
        let mut filters = self.filters.write().unwrap_or_else(PoisonError::into_inner);
        // One namespace may have a quarter of them; counted only where that could be too many.
        let space = entry.space();
        let too_many_of_one = space != 0
            && filters.len() >= MOST_FILTERS / 4
            && filters.values().filter(|reported| reported.space == space).count() >= MOST_FILTERS / 4;
        if too_many_of_one {
            return Err(Refusal::err(format_args!(
                "{} filters of this namespace have feedback, the most that one may: rename or rebuild one that needs it no more",
                MOST_FILTERS / 4
            )));
        }
        if filters.len() >= MOST_FILTERS {
            return Err(Refusal::err(format_args!(
                "{MOST_FILTERS} filters have feedback, the most that may: rename or rebuild one that needs it no more"
            )));
        }
        let word = || u128::from(RandomState::new().hash_one(entry.id));
        let counts = entry.counts();
        let reported = Arc::new(Reported {
            mask: word() << 64 | word(),
            space,
            since_ms: engine.clock.now_ms(),
            before: (counts.lookups, counts.positives),
            reports: Counter::new(0),
            taken: Counter::new(0),
            already_no: Counter::new(0),
            too_early: Counter::new(0),
            lately_added: Counter::new(0),
            spared: Counter::new(0),
        });
        filters.insert(entry.id, reported.clone());
        entry.set_feedback(true);
        Ok(reported)
    }

    /// Takes reports of items that a client has proved absent; how many of them are answered with "no" from now on.
    pub fn report(&self, engine: &Engine, entry: &Entry, reported: &Reported, items: &[&[u8]]) -> Result<u64, Refusal> {
        let tags = self.table(engine)?;
        let contract = entry.contract().ok_or_else(|| Refusal::new("ERR the filter cannot answer"))?;
        let now_ms = engine.clock.now_ms();
        let until_s = ((now_ms / 1_000) as u32).saturating_add(self.ttl_s);
        let early = now_ms.saturating_sub(reported.since_ms) < self.settle_ms;
        let mut hidden = 0;
        for item in items {
            let digest = contract.digest(*item).map_err(|error| refused(&error))?;
            reported.reports.fetch_add(1, Ordering::Relaxed);
            self.reports.fetch_add(1, Ordering::Relaxed);
            let counter = if !entry.contains(digest) {
                &reported.already_no
            } else if early {
                &reported.too_early
            } else {
                point();
                match tags.put(digest.to_u128() ^ reported.mask, entry.space(), until_s, now_ms, self.settle_ms) {
                    (Put::AddedLately, _) => &reported.lately_added,
                    (Put::Known, _) => {
                        hidden += 1;
                        continue;
                    }
                    (Put::New, free) => {
                        hidden += 1;
                        self.held.fetch_add(u64::from(free), Ordering::Relaxed);
                        &reported.taken
                    }
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Ok(hidden)
    }

    /// Items are about to be added to a filter with feedback: before their record and their bits.
    pub fn adding(&self, engine: &Engine, entry: &Entry, digests: &[Digest]) {
        let (Some(tags), Some(reported)) = (self.tags.get(), self.of(entry)) else { return };
        let now_ms = engine.clock.now_ms();
        for digest in digests {
            let freed = tags.added(digest.to_u128() ^ reported.mask, now_ms, self.settle_ms);
            if freed > 0 {
                self.held.fetch_sub(freed, Ordering::Relaxed);
            }
        }
        point();
    }

    /// Answers "no" for items that were found and are reported absent.
    pub fn spare(&self, engine: &Engine, entry: &Entry, items: &[&[u8]], answers: &mut [bool]) -> Result<(), Refusal> {
        let (Some(tags), Some(reported)) = (self.tags.get(), self.of(entry)) else { return Ok(()) };
        let Some(contract) = entry.contract().filter(|_| answers.contains(&true)) else { return Ok(()) };
        let now_s = (engine.clock.now_ms() / 1_000) as u32;
        let mut spared = 0;
        for (item, answer) in items.iter().zip(answers).filter(|(_, answer)| **answer) {
            let digest = contract.digest(*item).map_err(|error| refused(&error))?;
            point();
            if tags.has(digest.to_u128() ^ reported.mask, now_s) {
                *answer = false;
                spared += 1;
            }
        }
        if spared > 0 {
            reported.spared.fetch_add(spared, Ordering::Relaxed);
            self.spared.fetch_add(spared, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A filter is gone or means something else: what was reported about it is void. With nobody writing.
    pub fn forget(&self, entry: &Entry) {
        if entry.has_feedback() {
            entry.set_feedback(false);
            // Its tags are under a number that nobody has any more.
            self.filters.write().unwrap_or_else(PoisonError::into_inner).remove(&entry.id);
        }
    }

    /// What was counted for all filters.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            reports: self.reports.load(Ordering::Relaxed),
            spared: self.spared.load(Ordering::Relaxed),
            entries: self.held.load(Ordering::Relaxed),
            filters: self.filters.read().unwrap_or_else(PoisonError::into_inner).len() as u64,
        }
    }
}
