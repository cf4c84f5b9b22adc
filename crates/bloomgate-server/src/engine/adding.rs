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
use super::record::{add_bytes, fill_bytes, put_add, put_fill, put_remove, remove_bytes};
use super::repeated::Repeated;
use super::retries::Answered;
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
    /// A set: what seems to be there stays as it is (CF.ADDNX). Where items are removed, one that only looked like another
    /// goes with it.
    One,
    /// Each add is one more, and new (CF.ADD).
    Many,
    /// Each add is one more, and new if it did not seem to be there (BG.ADD).
    Each,
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
    /// The bits that the unknown ones set in a small filter.
    bits: Vec<u64>,
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
        Body::Unavailable { why, .. } => return Err(entry.no_answer(why)),
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
        self.pay_for(engine, entry, items)?;
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
        self.pay_for(engine, entry, items)?;
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
            Body::Unavailable { why, .. } => return Err(entry.no_answer(why)),
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
        self.pay_for(permit.engine(), entry, items)?;
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
                sequence = self.add_piece_to_small(permit, entry, small, 0..fit, added)?;
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
            let has_end = filter.when_full() != WhenFull::GoOn;
            let most = if has_end { wanted.min(PIECE) } else { wanted };
            // Near the end of a stage one at a time: two that both saw the last free place would open a stage together
            // that nobody was charged for, and with an expansion of 32,768 that is gigabytes; and a filter that does not
            // grow would take more than it was made for. Far from it each thread has one piece under way at most, which the
            // margin has room for; whoever is near waits for those that were begun before, for they are not counted yet.
            let is_near = || filter.remaining() < most as u64 + margin && !broken(Fault::GrowthUnlocked);
            let afar = has_end.then(|| entry.keep_afar()).filter(|_| !is_near());
            let _one_at_a_time = (has_end && afar.is_none() && !broken(Fault::GrowthUnlocked)).then(|| {
                let lock = entry.growth().lock().unwrap_or_else(PoisonError::into_inner);
                entry.await_afar();
                lock
            });
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
        self.record.clear();
        put_add(&mut self.record, entry.id, &self.unknown[piece.clone()]);
        self.log_then_set(permit, entry, replay, piece, added)
    }

    /// The same for a small filter: as the bits that they set, where those are less than the digests. A filter that is
    /// filled with the hundred keys it was made for takes 209 bytes of the log for 1,613.
    fn add_piece_to_small(
        &mut self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        small: Small<'_>,
        piece: Range<usize>,
        added: &mut [Added],
    ) -> Result<u64, Refusal> {
        let count = piece.len();
        if fill_bytes(small.words.len()) >= add_bytes(count) {
            return self.add_piece(permit, entry, |digests| small.replay(digests), piece, added);
        }
        let mut bits = std::mem::take(&mut self.bits);
        small.sprout.bits_of(&self.unknown[piece.clone()], &mut bits);
        self.record.clear();
        put_fill(&mut self.record, entry.id, count, &bits);
        let done = self.log_then_set(permit, entry, |_| small.fill(&bits, count), piece, added);
        self.bits = bits;
        done
    }

    /// Logs the record of some of the unknown digests, and then sets their bits.
    fn log_then_set(
        &self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        replay: impl Fn(&[Digest]) -> Result<(), bloomgate::Error>,
        piece: Range<usize>,
        added: &mut [Added],
    ) -> Result<u64, Refusal> {
        let (unknown, places) = (&self.unknown[piece.clone()], &self.places[piece]);
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

    /// Kinds whose order matters: change, then log what was changed, before anybody else changes it. The log is asked first
    /// and cannot refuse after that: not every kind can take an item out again, and one that is in it and in no record would
    /// be acknowledged when it comes again, and lost.
    fn add_ordered(
        &mut self,
        permit: &mut Permit<'_>,
        entry: &Entry,
        held: &mut Writer,
        copies: Copies,
        added: &mut [Added],
    ) -> Result<u64, Refusal> {
        permit.check_log(add_bytes(self.digests.len()))?;
        let _until_recorded = entry.before_its_record(held);
        self.unknown.clear();
        let mut refused = None;
        for (&digest, added) in self.digests.iter().zip(added.iter_mut()) {
            match insert_one(permit.engine(), entry, digest, copies) {
                Ok(outcome) => *added = outcome,
                Err(refusal) => {
                    refused = Some(refusal);
                    break;
                }
            }
            if *added == Added::New || (*added == Added::Known && notes_repeats(entry, copies)) {
                self.unknown.push(digest);
            }
            point();
        }
        let mut sequence = permit.engine().journal.appended();
        if !self.unknown.is_empty() {
            self.record.clear();
            put_add(&mut self.record, entry.id, &self.unknown);
            sequence = self.log_done(permit)?;
            entry.touch(sequence);
        }
        refused.map_or(Ok(sequence), Err)
    }

    /// Puts the record of what was just changed into the log.
    fn log_done(&self, permit: &mut Permit<'_>) -> Result<u64, Refusal> {
        match broken(Fault::LateRefusals) {
            true => permit.log(&self.record),
            false => permit.log_applied(&self.record),
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
        self.pay_for(permit.engine(), entry, items)?;
        self.hash(entry, items)?;
        let writer = if permit.is_alone() { Some(entry.write()) } else { entry.try_write() };
        let Some(mut writer) = writer else {
            self.come_again(entry.space());
            return Err(NotDone::Busy);
        };
        if let Some(answered) = Some(request).filter(|id| !id.is_empty()).and_then(|id| writer.retries.answered(id)) {
            if !answered.is_for(&self.digests) {
                let (before, now) = (answered.answers.len(), items.len());
                let others =
                    if before == now { "other items".to_owned() } else { format!("{before} items, not {now}") };
                return Err(Refusal::new(format!(
                    "ERR request '{}' was answered before for {others}: give each request an id of its own",
                    request.escape_ascii(),
                ))
                .into());
            }
            *removed = answered.answers;
            return Ok(permit.engine().journal.appended());
        }
        // First: an item that goes and comes back would be a wrong "no" to whoever asks meanwhile.
        permit.check_log(remove_bytes(request, self.digests.len()))?;
        self.unknown.clear();
        let mut refused = None;
        for &digest in &self.digests {
            match remove_one(entry, digest) {
                Ok(was_there) => removed.push(was_there),
                Err(refusal) => {
                    refused = Some(refusal);
                    break;
                }
            }
            if removed.last() == Some(&true) {
                self.unknown.push(digest);
            }
            point();
        }
        // What is not answered may be asked for again.
        let request = if refused.is_some() { &[] } else { request };
        if self.unknown.is_empty() && request.is_empty() {
            return refused.map_or_else(|| Ok(permit.engine().journal.appended()), |refusal| Err(refusal.into()));
        }
        self.record.clear();
        let answers = std::mem::take(removed);
        let answered = match request.is_empty() {
            true => Answered::plain(answers),
            false => Answered::of(answers, &self.digests),
        };
        put_remove(&mut self.record, entry.id, request, &answered, &self.unknown);
        let sequence = self.log_done(permit)?;
        entry.touch(sequence);
        if !request.is_empty() {
            let was = entry.overhead();
            entry.keep_answer(&mut writer, request, &answered);
            permit.engine().recharge(entry, was);
        }
        *removed = answered.answers;
        let count = self.unknown.len() as u64;
        entry.add_deleted(count);
        let counts = Counts { removed: count, ..Counts::default() };
        entry.count(counts);
        self.note(permit.engine(), entry, counts);
        refused.map_or(Ok(sequence), |refusal| Err(refusal.into()))
    }
}

/// Whether a repeat changes the filter: counters count it, a window moves it to now, decaying cells freshen it, a cuckoo
/// filter has one copy more.
fn notes_repeats(entry: &Entry, copies: Copies) -> bool {
    match entry.kind() {
        Kind::Counting | Kind::Quotient | Kind::Rotating | Kind::Stable => true,
        _ => entry.family() == super::entry::Family::Cuckoo && copies == Copies::Each,
    }
}

/// One insert into an ordered kind, by its one writer.
pub(super) fn insert_one(engine: &Engine, entry: &Entry, digest: Digest, copies: Copies) -> Result<Added, Refusal> {
    let mut seemed_there = false;
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
        seemed_there = held > 0;
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
        Body::Unavailable { why, .. } => return Err(entry.no_answer(why)),
    };
    match outcome.map_err(|error| refused(&error))? {
        Insertion::New if copies == Copies::Each && seemed_there => Ok(Added::Known),
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
        Body::Unavailable { why, .. } => return Err(entry.no_answer(why)),
    };
    removed.map_err(|error| refused(&error))
}
