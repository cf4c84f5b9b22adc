//! Asking for keys, adding them and taking them out: what every command on items comes down to.
//!
//! Bits that are only ever set: the record goes to the log first, then the bits are set, so that whoever sees the bits
//! can wait for the record ([`Scratch::add`]). Kinds whose order matters are written by one thread at a time, which changes
//! the filter and logs what it changed before it lets go.

use std::ops::Range;
use std::sync::PoisonError;

use bloomgate::{AnyFilter, Digest, GrowingCuckoo, Insertion, Kind, Shared, WhenFull};
use bloomgate_command::Refusal;

use super::audit::Counts;
use super::entry::{Body, Entry, Writer};
use super::namespaces::Owed;
use super::recipe::refused;
use super::record::{put_add, put_remove};
use super::repeated::Repeated;
use super::room::{Room, grow_up, make_room};
use super::small::Small;
use super::windows::tell_time;
use super::{Engine, Permit, check_available};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{Fault, broken, point};

/// What became of an item that was to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Added {
    /// It was certainly new, or another copy was taken.
    New,
    /// It may have been there before.
    #[default]
    Known,
    /// The filter is full.
    Full,
    /// The filter would have to grow and there is no memory for it.
    NoMemory,
    /// The filter has as many copies of it as it can tell apart.
    TooManyCopies,
}

/// How copies are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// A set: what is there stays as it is.
    One,
    /// Each add is one more (CF.ADD).
    Many,
}

/// Why an operation was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotDone {
    /// A refusal for the client.
    Refused(Refusal),
    /// Somebody else writes to this filter for longer than a reactor may wait: do it elsewhere.
    Busy,
}

impl From<Refusal> for NotDone {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Items that a chain takes at once: so many per thread may be on their way when a stage ends.
const PIECE: usize = 1_024;

/// Buffers of one thread.
#[derive(Debug, Default)]
pub struct Scratch {
    digests: Vec<Digest>,
    found: Vec<bool>,
    unknown: Vec<Digest>,
    /// Where each unknown one stands in the batch.
    places: Vec<u32>,
    /// Items that come again in the batch: where each stands, and which of the unknown ones it repeats.
    repeats: Vec<(u32, u32)>,
    record: Vec<u8>,
    repeated: Repeated,
    /// What is owed for items of namespaces, until whoever works here takes it.
    pub owed: Owed,
    /// The namespace and the items that were paid for last.
    pub(super) paid: (u16, u64),
    /// Whether what is done here cannot wait until its items are paid for: it holds others up.
    pub in_one_go: bool,
    /// What was answered, until whoever works here takes it: items that may be there, were new, refused or removed.
    pub answered: Counts,
}

/// Whether each item may be in the filter, whatever was reported about it.
pub fn look(entry: &Entry, items: &[&[u8]], answers: &mut Vec<bool>) -> Result<(), Refusal> {
    answers.clear();
    answers.resize(items.len(), false);
    point();
    let asked = match entry.body() {
        Body::Small(small) => small.contains_batch(items, answers),
        Body::Shared(filter) => filter.contains_batch(items, answers),
        Body::Guarded(filter) => filter.read().unwrap_or_else(PoisonError::into_inner).contains_batch(items, answers),
        Body::Unavailable { why, .. } => return Err(Refusal::new(why.to_owned())),
    };
    asked.map_err(|error| refused(&error))?;
    point();
    // Who has seen the bits of a write sees its sequence too.
    fence(Ordering::Acquire);
    Ok(())
}

/// Whether each item may be in the filter; how many may. Nobody counts it.
pub fn ask(engine: &Engine, entry: &Entry, items: &[&[u8]], answers: &mut Vec<bool>) -> Result<u64, Refusal> {
    look(entry, items, answers)?;
    if entry.has_feedback() {
        engine.watch.feedback.spare(engine, entry, items, answers)?;
    }
    let positives = answers.iter().filter(|&&answer| answer).count() as u64;
    Ok(positives)
}

/// How many copies of each item there are.
fn copies_of(entry: &Entry, items: &[&[u8]], counts: &mut Vec<u64>) -> Result<(), Refusal> {
    check_available(entry)?;
    counts.clear();
    point();
    let contract = entry.contract().ok_or_else(|| Refusal::new("ERR the filter cannot answer"))?;
    for item in items {
        let digest = contract.digest(*item).map_err(|error| refused(&error))?;
        let copies = entry.with(|filter| filter.count_of(digest)).flatten();
        counts.push(copies.ok_or_else(|| {
            Refusal::new(format!("ERR a {} filter keeps no copies to count; ask whether it has the item", entry.kind()))
        })?);
    }
    point();
    fence(Ordering::Acquire);
    Ok(())
}

impl Scratch {
    /// [`ask`] for a client: the filter and its namespace count it.
    pub fn ask(
        &mut self,
        engine: &Engine,
        entry: &Entry,
        items: &[&[u8]],
        answers: &mut Vec<bool>,
    ) -> Result<(), NotDone> {
        self.pay_for(engine, entry, items.len())?;
        let positives = ask(engine, entry, items, answers)?;
        let counts = Counts { lookups: items.len() as u64, positives, ..Counts::default() };
        entry.count(counts);
        self.note(engine, entry, counts);
        Ok(())
    }

    /// How many copies of each item there are.
    pub fn count(
        &mut self,
        engine: &Engine,
        entry: &Entry,
        items: &[&[u8]],
        counts: &mut Vec<u64>,
    ) -> Result<(), NotDone> {
        self.pay_for(engine, entry, items.len())?;
        Ok(copies_of(entry, items, counts)?)
    }

    /// Hashes the items under the filter's contract.
    fn hash(&mut self, entry: &Entry, items: &[&[u8]]) -> Result<(), Refusal> {
        self.digests.clear();
        let hashed = match entry.body() {
            Body::Small(small) => small.sprout.contract().digest_batch(items, &mut self.digests),
            Body::Shared(filter) => filter.contract().digest_batch(items, &mut self.digests),
            Body::Guarded(filter) => {
                let filter = filter.read().unwrap_or_else(PoisonError::into_inner);
                filter.contract().digest_batch(items, &mut self.digests)
            }
            Body::Unavailable { why, .. } => return Err(Refusal::new(why.to_owned())),
        };
        hashed.map_err(|error| refused(&error))
    }

    /// Adds items; what became of each. The sequence that the reply depends on comes back.
    pub fn add(
        &mut self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        items: &[&[u8]],
        copies: Copies,
        added: &mut Vec<Added>,
    ) -> Result<u64, NotDone> {
        self.pay_for(permit.engine(), entry, items.len())?;
        let done = self.add_uncounted(permit, entry, items, copies, added);
        if matches!(done, Err(NotDone::Busy)) {
            self.come_again(entry.space());
        }
        let (sequence, counts) = done?;
        self.note(permit.engine(), entry, counts);
        Ok(sequence)
    }

    /// The same without its namespace: items that go to a filter and its shadow count once.
    pub(super) fn add_uncounted(
        &mut self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        items: &[&[u8]],
        copies: Copies,
        added: &mut Vec<Added>,
    ) -> Result<(u64, Counts), NotDone> {
        let in_shadow = match entry.shadow() {
            Some(shadow) => self.add_to_shadow(permit, &shadow, items)?,
            None => 0,
        };
        added.clear();
        added.resize(items.len(), Added::Known);
        self.hash(entry, items)?;
        if entry.has_feedback() {
            // First: who finds the bits of this add must not find a report that says "no".
            permit.engine().watch.feedback.adding(permit.engine(), entry, &self.digests);
        }
        let sequence = match entry.body() {
            Body::Small(small) => self.add_to_small(permit, entry, small, added)?,
            Body::Shared(filter) if !entry.is_ordered() => self.add_unordered(permit, entry, filter, added)?,
            _ => {
                let mut writer = match permit.is_alone() {
                    true => entry.write(),
                    false => entry.try_write().ok_or(NotDone::Busy)?,
                };
                // A key is as old as the last reading of the clock before it.
                tell_time(permit, entry, &mut writer)?;
                self.add_ordered(permit, entry, &mut writer, copies, added)?
            }
        };
        let count = |wanted: Added| added.iter().filter(|&&one| one == wanted).count() as u64;
        let fresh = count(Added::New);
        let refused = items.len() as u64 - fresh - count(Added::Known);
        let counts = Counts { adds: items.len() as u64, fresh, refused, ..Counts::default() };
        entry.count(counts);
        Ok((sequence.max(in_shadow), counts))
    }

    /// Bits that are only ever set: ask, log what is new, set.
    fn add_unordered(
        &mut self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        filter: &AnyFilter<Shared>,
        added: &mut [Added],
    ) -> Result<u64, NotDone> {
        self.found.clear();
        self.found.resize(self.digests.len(), false);
        filter.contains_digests(&self.digests, &mut self.found).map_err(|error| refused(&error))?;
        // The bits may be those of a write that is not durable yet: whoever is told "it was there" waits for it. Who has
        // seen the bits sees the record, by this fence and the one below (a loom model of the library).
        fence(Ordering::Acquire);
        point();
        self.collect_unknown();
        if self.unknown.is_empty() {
            return Ok(permit.engine().journal.appended());
        }
        self.add_unknown(permit, entry, filter, 0, added)
    }

    /// The same for a small filter. All its adders hold its lock over growth, or what one of them adds while another makes
    /// a chain of it would be in the words that nobody asks any more.
    fn add_to_small(
        &mut self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        small: Small<'_>,
        added: &mut [Added],
    ) -> Result<u64, NotDone> {
        self.found.clear();
        self.found.resize(self.digests.len(), false);
        small.contains_digests(&self.digests, &mut self.found).map_err(|error| refused(&error))?;
        fence(Ordering::Acquire);
        point();
        self.collect_unknown();
        if self.unknown.is_empty() {
            return Ok(permit.engine().journal.appended());
        }
        let engine = permit.engine();
        let mut one_at_a_time = Some(engine.growth_of(entry));
        let (wanted, mut done) = (self.unknown.len(), 0);
        if let Body::Small(small) = entry.body() {
            let mut sequence = engine.journal.appended();
            let when_full = small.sprout.when_full();
            let room = usize::try_from(small.remaining()).unwrap_or(usize::MAX);
            let fit = if when_full == WhenFull::GoOn { wanted } else { room.min(wanted) };
            if fit > 0 {
                sequence = self.add_piece(permit, entry, |digests| small.replay(digests), 0..fit, added)?;
                done = fit;
            }
            let refusal = match when_full {
                _ if done == wanted => None,
                WhenFull::Grow if grow_up(engine, entry, small) => None,
                WhenFull::Grow => Some(Added::NoMemory),
                _ => Some(Added::Full),
            };
            if let Some(refusal) = refusal {
                self.places[done..].iter().for_each(|&place| added[place as usize] = refusal);
            }
            if done == wanted || refusal.is_some() {
                self.repeat_refusals(added);
                return Ok(sequence);
            }
        }
        // It is a chain of its own now, with a lock of its own.
        one_at_a_time.take();
        match entry.body() {
            Body::Shared(filter) => self.add_unknown(permit, entry, filter, done, added),
            _ => Err(Refusal::new("ERR the filter has no bits").into()),
        }
    }

    /// Logs the unknown digests that are not done yet and sets their bits, stage by stage.
    fn add_unknown(
        &mut self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        filter: &AnyFilter<Shared>,
        mut done: usize,
        added: &mut [Added],
    ) -> Result<u64, NotDone> {
        let margin = (PIECE * permit.engine().turnstile.gates()) as u64;
        // Before anything is done: what is begun is also ended. A transaction holds everybody up and does not wait.
        let wanted = (self.unknown.len() - done) as u64;
        if done == 0 && !permit.is_alone() && permit.engine().chores.is_growing(entry, filter, wanted + margin) {
            return Err(NotDone::Busy);
        }
        let mut sequence = permit.engine().journal.appended();
        while done < self.unknown.len() {
            let wanted = self.unknown.len() - done;
            let grows = filter.when_full() == bloomgate::WhenFull::Grow;
            let most = if grows { wanted.min(PIECE) } else { wanted };
            // Near the end of a stage one at a time: two that both saw the last free place would open a stage together
            // that nobody was charged for, and with an expansion of 32,768 that is gigabytes.
            let near = grows && filter.remaining() < most as u64 + margin && !broken(Fault::GrowthUnlocked);
            let _one_at_a_time = near.then(|| entry.growth().lock().unwrap_or_else(PoisonError::into_inner));
            let (allowed, beyond) = match make_room(permit.engine(), entry, filter, most) {
                Room::Enough => (most, None),
                Room::First(some) => (some, None),
                Room::Only(room) => (room.min(wanted), Some(Added::Full)),
                Room::NoMemory => (0, Some(Added::NoMemory)),
            };
            point();
            if allowed > 0 {
                let set = |digests: &[Digest]| filter.replay(digests);
                sequence = self.add_piece(permit, entry, set, done..done + allowed, added)?;
                done += allowed;
            }
            if let Some(beyond) = beyond {
                self.places[done..].iter().for_each(|&place| added[place as usize] = beyond);
                break;
            }
        }
        permit.engine().chores.look_at(entry, filter);
        self.repeat_refusals(added);
        Ok(sequence)
    }

    /// What came twice and was refused is refused twice: "it was there" would be a promise.
    fn repeat_refusals(&self, added: &mut [Added]) {
        for &(place, first) in &self.repeats {
            let outcome = added[self.places[first as usize] as usize];
            if outcome != Added::New {
                added[place as usize] = outcome;
            }
        }
    }

    /// Logs some of the unknown digests and sets their bits.
    fn add_piece(
        &mut self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        replay: impl Fn(&[Digest]) -> Result<(), bloomgate::Error>,
        piece: Range<usize>,
        added: &mut [Added],
    ) -> Result<u64, Refusal> {
        let (unknown, places) = (&self.unknown[piece.clone()], &self.places[piece]);
        self.record.clear();
        put_add(&mut self.record, entry.id, unknown);
        // Each is counted, as it will be when the log is read again: one that looks like another of the same batch is new
        // all the same, and was told to be absent a moment ago.
        let set = |when: bool| if when { replay(unknown).map_err(|error| refused(&error)) } else { Ok(()) };
        set(broken(Fault::BitsFirst))?;
        let sequence = permit.log(&self.record)?;
        entry.touch(sequence);
        fence(Ordering::Release);
        point();
        set(!broken(Fault::BitsFirst))?;
        places.iter().for_each(|&place| added[place as usize] = Added::New);
        Ok(sequence)
    }

    /// The digests that were not found, each once.
    fn collect_unknown(&mut self) {
        self.unknown.clear();
        self.places.clear();
        self.repeats.clear();
        self.repeated.begin(self.digests.len());
        for (place, (&digest, _)) in self.digests.iter().zip(&self.found).enumerate().filter(|(_, (_, found))| !**found)
        {
            // An item that comes twice in a batch is new once, and is counted once when the log is read again.
            if let Some(first) = self.repeated.find_or_keep(digest, &self.unknown) {
                self.repeats.push((place as u32, first));
                continue;
            }
            self.unknown.push(digest);
            self.places.push(place as u32);
        }
    }

    /// Kinds whose order matters: change, then log what was changed, before anybody else changes it.
    fn add_ordered(
        &mut self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        held: &mut Writer,
        copies: Copies,
        added: &mut [Added],
    ) -> Result<u64, Refusal> {
        permit.engine().journal.check_writable()?;
        let _until_recorded = entry.before_its_record(held);
        self.unknown.clear();
        for (&digest, added) in self.digests.iter().zip(added.iter_mut()) {
            *added = insert_one(permit.engine(), entry, digest, copies)?;
            if *added == Added::New || (*added == Added::Known && notes_repeats(entry)) {
                self.unknown.push(digest);
            }
            point();
        }
        if self.unknown.is_empty() {
            return Ok(permit.engine().journal.appended());
        }
        self.record.clear();
        put_add(&mut self.record, entry.id, &self.unknown);
        match permit.log(&self.record) {
            Ok(sequence) => {
                entry.touch(sequence);
                Ok(sequence)
            }
            Err(refusal) => {
                // The disk failed between the look and the record. What can be taken back is; what cannot only adds.
                for &digest in self.unknown.iter().rev() {
                    let _ = remove_one(entry, digest);
                }
                Err(refusal)
            }
        }
    }

    /// Removes items; whether each was there. Under a request id that was answered before, nothing is done and the
    /// answer is the same.
    pub fn remove(
        &mut self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        items: &[&[u8]],
        request: &[u8],
        removed: &mut Vec<bool>,
    ) -> Result<u64, NotDone> {
        removed.clear();
        // What is not there, or was answered before, takes as long to find out.
        self.pay_for(permit.engine(), entry, items.len())?;
        self.hash(entry, items)?;
        let writer = if permit.is_alone() { Some(entry.write()) } else { entry.try_write() };
        let Some(mut writer) = writer else {
            self.come_again(entry.space());
            return Err(NotDone::Busy);
        };
        if let Some(answered) = Some(request).filter(|id| !id.is_empty()).and_then(|id| writer.retries.answered(id)) {
            *removed = answered;
            if removed.len() != items.len() {
                let got = items.len();
                return Err(Refusal::new(format!(
                    "ERR request '{}' was answered before for {} items, not {got}: give each request an id of its own",
                    request.escape_ascii(),
                    removed.len(),
                ))
                .into());
            }
            return Ok(permit.engine().journal.appended());
        }
        permit.engine().journal.check_writable()?;
        self.unknown.clear();
        for &digest in &self.digests {
            let was_there = remove_one(entry, digest)?;
            removed.push(was_there);
            if was_there {
                self.unknown.push(digest);
            }
            point();
        }
        if self.unknown.is_empty() && request.is_empty() {
            return Ok(permit.engine().journal.appended());
        }
        self.record.clear();
        put_remove(&mut self.record, entry.id, request, removed, &self.unknown);
        let sequence = match permit.log(&self.record) {
            Ok(sequence) => sequence,
            Err(refusal) => {
                for &digest in &self.unknown {
                    let _ = insert_one(permit.engine(), entry, digest, Copies::Many);
                }
                return Err(refusal.into());
            }
        };
        entry.touch(sequence);
        if !request.is_empty() {
            let was = entry.overhead();
            entry.keep_answer(&mut writer, request, removed);
            permit.engine().recharge(entry, was);
        }
        let count = self.unknown.len() as u64;
        entry.add_deleted(count);
        let counts = Counts { removed: count, ..Counts::default() };
        entry.count(counts);
        self.note(permit.engine(), entry, counts);
        Ok(sequence)
    }
}

/// Whether a repeat changes the filter: counters count it, a window moves it to now, decaying cells freshen it.
fn notes_repeats(entry: &Entry) -> bool {
    matches!(entry.kind(), Kind::Counting | Kind::Quotient | Kind::Rotating | Kind::Stable)
}

/// One insert into an ordered kind, by its one writer.
pub(super) fn insert_one(engine: &Engine, entry: &Entry, digest: Digest, copies: Copies) -> Result<Added, Refusal> {
    if matches!(entry.family(), super::entry::Family::Cuckoo) {
        let counted = entry.with(|filter| (filter.count_of(digest).unwrap_or(0), filter.max_copies()));
        let (held, most) = counted.unwrap_or((0, None));
        if copies == Copies::One && held > 0 {
            return Ok(Added::Known);
        }
        // RedisBloom's own has no such number: it opens another table for them.
        if most.is_some_and(|most| held >= most) {
            return Ok(Added::TooManyCopies);
        }
    }
    let outcome = match entry.body() {
        // Only what is ordered comes here, and small filters are not.
        Body::Small(_) => return Err(Refusal::new("ERR items of a small filter are added together")),
        Body::Shared(AnyFilter::GrowingCuckoo(chain)) if chain.when_full() == bloomgate::WhenFull::Grow => {
            match insert_in_chain(engine, entry, chain, digest) {
                Ok(None) => return Ok(Added::NoMemory),
                Ok(Some(outcome)) => Ok(outcome),
                Err(error) => Err(error),
            }
        }
        Body::Shared(filter) => {
            match make_room(engine, entry, filter, 1) {
                Room::Enough | Room::First(_) => {}
                Room::Only(_) => return Ok(Added::Full),
                Room::NoMemory => return Ok(Added::NoMemory),
            }
            let mut outcome = [Insertion::Known];
            filter.insert_each(&[digest], &mut outcome).map(|()| outcome[0])
        }
        Body::Guarded(filter) => {
            let mut filter = filter.write().unwrap_or_else(PoisonError::into_inner);
            // RedisBloom's filters grow by themselves; they are charged for the most it may be, and it is put right after.
            let growth = filter.growth_for(digest);
            if growth > 0 && !engine.charge_growth(entry, growth) {
                return Ok(Added::NoMemory);
            }
            let before = filter.size_in_bytes();
            let inserted = filter.insert_digest(digest);
            if growth > 0 {
                let grown = filter.size_in_bytes().saturating_sub(before);
                engine.release_growth(entry, growth.saturating_sub(grown));
                entry.add_charged(grown);
            }
            match inserted {
                Ok(true) => Ok(Insertion::New),
                Ok(false) => Ok(Insertion::Known),
                Err(error) if error.kind() == bloomgate::ErrorKind::Full => Ok(Insertion::Full),
                Err(error) => Err(error),
            }
        }
        Body::Unavailable { why, .. } => return Err(Refusal::new(why.to_owned())),
    };
    match outcome.map_err(|error| refused(&error))? {
        Insertion::New => Ok(Added::New),
        // A cuckoo filter was asked before: what it calls known is one more copy of the same fingerprint.
        Insertion::Known if copies == Copies::Many => Ok(Added::New),
        Insertion::Known => Ok(Added::Known),
        Insertion::Full => Ok(Added::Full),
    }
}

/// One insert into a chain of cuckoo tables. A table may have no slot for a key before it holds what it was made for, or
/// have one after: so it is asked, and only when the chain must open another is that one charged, and then opened. Nothing
/// if there is no memory for it.
fn insert_in_chain(
    engine: &Engine,
    entry: &Entry,
    chain: &GrowingCuckoo<Shared>,
    digest: Digest,
) -> Result<Option<Insertion>, bloomgate::Error> {
    let outcome = chain.insert_in_place(digest)?;
    if outcome != Insertion::Full {
        return Ok(Some(outcome));
    }
    let Ok(next) = chain.next_stage_bytes() else { return Ok(Some(Insertion::Full)) };
    let charged = entry.charged();
    let more = chain.size_in_bytes().saturating_add(next).saturating_sub(charged);
    if !engine.charge_growth(entry, more) {
        return Ok(None);
    }
    let mut outcome = [Insertion::Full];
    let inserted = chain.insert_each(&[digest], &mut outcome);
    if inserted.is_ok() && outcome[0] != Insertion::Full {
        entry.add_charged(more);
    } else {
        // The chain does not grow for this key, or the system refused the memory: no stage was opened.
        engine.release_growth(entry, more);
    }
    inserted.map(|()| Some(outcome[0]))
}

/// One removal from an ordered kind, by its one writer.
pub(super) fn remove_one(entry: &Entry, digest: Digest) -> Result<bool, Refusal> {
    let removed = match entry.body() {
        Body::Small(small) => small.copy().and_then(|mut filter| filter.remove_digest(digest)),
        Body::Shared(filter) => filter.remove_digest(digest),
        Body::Guarded(filter) => filter.write().unwrap_or_else(PoisonError::into_inner).remove_digest(digest),
        Body::Unavailable { why, .. } => return Err(Refusal::new(why.to_owned())),
    };
    removed.map_err(|error| refused(&error))
}
