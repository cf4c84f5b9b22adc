//! The read path: filter, negative cache, cache, source. Each answer names where it ended.

use std::sync::Arc;
use std::time::Instant;

use bloomgate::Digest;
use bytes::Bytes;
use tokio::sync::watch;

use super::caps::leave;
use super::{Gate, Inner};
use crate::audit::Sample;
use crate::callers::{ClientId, Place};
use crate::counters::Count;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Part;
use crate::filters::Generation;
use crate::key::{Key, KeyType};
use crate::outcome::{Answer, Outcome};
use crate::policy::{Policy, State};
use crate::rebuild::Reason;
use crate::shards::{self, Lead, Turn};
use crate::times::Timed;

/// Keys one call may ask for.
pub const MOST_KEYS: usize = 10_000;

/// The duty of reading a key, and the place that this takes of a client's cap.
type Leading = (Lead, Option<Place>);

/// What the filter said, and what that is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is ready and does not have the key: absent.
    No,
    /// It is ready and may have it.
    Maybe,
    /// It is not ready. `unlikely`: one from before is there and does not have the key.
    NotReady { unlikely: bool },
    /// The gate only watches. `no`: a ready filter would have said no.
    Watching { no: bool },
}

/// The verdict with what answers name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis {
    pub verdict: Verdict,
    pub version: u64,
    pub watermark: Option<u64>,
}

impl Basis {
    /// Whether a filter from before does not know the key.
    fn is_unlikely(self) -> bool {
        matches!(self.verdict, Verdict::NotReady { unlikely: true })
    }

    /// Whether what is remembered as absent counts: only beside a filter that may say no. Without one, somebody may have
    /// written what the gate does not know of.
    fn remembers(self) -> bool {
        self.verdict == Verdict::Maybe
    }

    fn answer(self, outcome: Outcome, row: Option<Bytes>) -> Answer {
        Answer { outcome, row, version: self.version, watermark: self.watermark }
    }
}

impl Gate {
    /// The answer, if the filter alone gives it: the key is absent. Needs no runtime and waits for nothing; `None` means
    /// "ask [`get`](Self::get)". A filter behind a network is not asked here.
    #[inline]
    pub fn look(&self, key: &Key) -> Option<Answer> {
        let inner = &*self.inner;
        if !fits(inner.source.key_type(), key) {
            return None;
        }
        let timed = inner.times.draw();
        let digest = inner.filters.digest(key);
        // Before the filter is asked: a write after this moment moves the epoch, and the audit knows.
        let audited = inner.audits.draw().then(|| inner.epoch(digest));
        let face = inner.filters.face();
        // Before the filter is asked, too: what the watermark of a feed promises is in there by then.
        let State::Ready { version, watermark } = inner.state_of(face.state) else { return None };
        let generation = face.current.as_deref()?;
        let filter = generation.local_bits()?;
        if filter.contains_digest(digest) || !self.may_block() {
            return None;
        }
        inner.counters.one(Count::AbsentByFilter);
        if let Some(epoch) = audited {
            let of = Arc::downgrade(&self.inner);
            inner.audits.offer(&inner.counters, Sample { of, key: key.clone(), digest, epoch });
        }
        if let Some(begun) = timed {
            inner.times.refused(begun);
        }
        Some(Answer { outcome: Outcome::AbsentByFilter, row: None, version, watermark: Some(watermark) })
    }

    /// Looks a key up.
    pub async fn get(&self, key: &Key) -> Result<Answer> {
        self.get_by(key, None).await
    }

    /// [`get`](Self::get) for a client that has a cap on lookups that reach the source and find nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooManyMisses`] if the source would have to be asked and the client had too many of those. What the
    /// filter and the caches know, and what another lookup is reading just now, it is told all the same.
    pub async fn get_for(&self, key: &Key, client: &ClientId) -> Result<Answer> {
        self.get_by(key, Some(*client)).await
    }

    pub(crate) async fn get_by(&self, key: &Key, client: Option<ClientId>) -> Result<Answer> {
        if let Some(answer) = self.look(key) {
            return Ok(answer);
        }
        let begun = Instant::now();
        // Boxed: the future of a "no", by far the most frequent, stays small.
        let result = Box::pin(self.pass(key, client)).await;
        self.inner.count_failure(result.as_ref().err());
        self.inner.times.add(timed_as(&result), begun.elapsed(), 1);
        result
    }

    /// Looks many keys up: one question to each of filter, cache and source. The answers are in the order of the keys; if
    /// one of them is an error, so is this.
    pub async fn get_many(&self, keys: &[Key]) -> Result<Vec<Answer>> {
        self.get_each(keys).await?.into_iter().collect()
    }

    /// [`get_many`](Self::get_many) with an answer or an error for each key: what the filter and the caches know is not
    /// lost when the source is down.
    pub async fn get_each(&self, keys: &[Key]) -> Result<Vec<Result<Answer>>> {
        self.get_each_by(keys, None).await
    }

    /// [`get_each`](Self::get_each) for a client that has a cap: each key counts.
    pub async fn get_each_for(&self, keys: &[Key], client: &ClientId) -> Result<Vec<Result<Answer>>> {
        self.get_each_by(keys, Some(*client)).await
    }

    pub(crate) async fn get_each_by(&self, keys: &[Key], client: Option<ClientId>) -> Result<Vec<Result<Answer>>> {
        if keys.len() > MOST_KEYS {
            let message = format!("{} keys in one call: at most {MOST_KEYS} are allowed, ask in parts", keys.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        keys.iter().try_for_each(|key| self.inner.check(key))?;
        let begun = Instant::now();
        let answers = Box::pin(self.pass_many(keys, client)).await;
        answers.iter().for_each(|answer| self.inner.count_failure(answer.as_ref().err()));
        let took = begun.elapsed();
        for (_, kind) in Timed::lookups() {
            let many = answers.iter().filter(|answer| timed_as(answer) == kind).count();
            if many > 0 {
                self.inner.times.add(kind, took, many as u64);
            }
        }
        Ok(answers)
    }

    async fn pass(&self, key: &Key, client: Option<ClientId>) -> Result<Answer> {
        let inner = &self.inner;
        inner.check(key)?;
        let digest = inner.filters.digest(key);
        let audited = inner.audits.draw().then(|| inner.epoch(digest));
        let basis = inner.ask(digest).await;
        if basis.verdict == Verdict::No {
            // The filter became ready just now, or is behind a network.
            return Ok(inner.refuse(basis, key, digest, audited, Count::AbsentByFilter));
        }
        inner.ensure_open(basis)?;
        let remembered = basis.remembers();
        if remembered && inner.shards.is_absent(digest) {
            return Ok(inner.settle(basis, Some(Outcome::NegativeCached), None));
        }
        if let Some(row) = inner.cached(key).await {
            return Ok(inner.settle(basis, Some(Outcome::Cache), Some(row)));
        }
        let (turn, place) = inner.turn(digest, remembered, inner.counted(client)).await?;
        match turn {
            Turn::Absent => Ok(inner.settle(basis, Some(Outcome::NegativeCached), None)),
            Turn::Join(result) => {
                inner.counters.one(Count::Joined);
                let row = outcome_of(result).await?;
                Ok(inner.settle(basis, None, row))
            }
            Turn::Lead(lead, result) => {
                inner.read_one(key.clone(), lead, place, basis.is_unlikely());
                let row = outcome_of(result).await?;
                inner.count_false_positive_read(basis, row.is_none());
                Ok(inner.settle(basis, None, row))
            }
        }
    }

    async fn pass_many(&self, keys: &[Key], client: Option<ClientId>) -> Vec<Result<Answer>> {
        let (inner, counted) = (&self.inner, self.inner.counted(client));
        let digests = inner.filters.digests(keys);
        let audited: Vec<_> = digests.iter().map(|&digest| inner.audits.draw().then(|| inner.epoch(digest))).collect();
        let bases = inner.ask_many(&digests).await;
        let mut answers: Vec<Option<Result<Answer>>> = vec![None; keys.len()];
        let mut left = Vec::new();
        for (at, &basis) in bases.iter().enumerate() {
            if basis.verdict == Verdict::No {
                let refused = inner.refuse(basis, &keys[at], digests[at], audited[at], Count::AbsentByFilter);
                answers[at] = Some(Ok(refused));
                continue;
            }
            if let Err(closed) = inner.ensure_open(basis) {
                answers[at] = Some(Err(closed));
                continue;
            }
            match basis.remembers() && inner.shards.is_absent(digests[at]) {
                true => answers[at] = Some(Ok(inner.settle(basis, Some(Outcome::NegativeCached), None))),
                false => left.push(at),
            }
        }
        let wanted: Vec<Key> = left.iter().map(|&at| keys[at].clone()).collect();
        let mut wanting = Vec::new();
        for (&at, row) in left.iter().zip(inner.cached_many(&wanted).await) {
            match row {
                Some(row) => answers[at] = Some(Ok(inner.settle(bases[at], Some(Outcome::Cache), Some(row)))),
                None => wanting.push(at),
            }
        }
        // All at once; of a client with a cap, as many at a time as may miss. Later ones were asked of the filter a while ago:
        // what is remembered by then may not count beside the filter that is there by then.
        let mut is_first = true;
        while !wanting.is_empty() {
            let (mut reads, mut later) = (Vec::new(), Vec::new());
            // Those of keys that a filter from before does not know are read apart: they wait behind the others.
            let mut led: [(Vec<Key>, Vec<Leading>); 2] = Default::default();
            for at in wanting {
                let (digest, remembered) = (digests[at], bases[at].remembers() && is_first);
                // The first waits for a place, the others take what is free: nobody waits for a place and holds one.
                let turn = match reads.is_empty() && later.is_empty() {
                    true => inner.turn(digest, remembered, counted).await.map(Some),
                    false => inner.turn_now(digest, remembered, counted),
                };
                match turn {
                    Err(refused) => answers[at] = Some(Err(refused)),
                    Ok(None) => later.push(at),
                    Ok(Some((Turn::Absent, _))) => {
                        answers[at] = Some(Ok(inner.settle(bases[at], Some(Outcome::NegativeCached), None)));
                    }
                    Ok(Some((Turn::Join(result), _))) => {
                        inner.counters.one(Count::Joined);
                        reads.push((at, result, false));
                    }
                    Ok(Some((Turn::Lead(lead, result), place))) => {
                        let (keys_led, leads) = &mut led[usize::from(bases[at].is_unlikely())];
                        keys_led.push(keys[at].clone());
                        leads.push((lead, place));
                        reads.push((at, result, true));
                    }
                }
            }
            for (unlikely, (keys, leads)) in led.into_iter().enumerate().filter(|(_, (keys, _))| !keys.is_empty()) {
                inner.read_many(keys, leads, unlikely == 1);
            }
            for (at, result, is_lead) in reads {
                answers[at] = Some(outcome_of(result).await.map(|row| {
                    if is_lead {
                        inner.count_false_positive_read(bases[at], row.is_none());
                    }
                    inner.settle(bases[at], None, row)
                }));
            }
            (wanting, is_first) = (later, false);
        }
        let lost = || Err(Error::new(ErrorKind::Source, "an answer was lost: this is a fault of the gate"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }
}

/// Waits for what a read gives.
async fn outcome_of(mut result: watch::Receiver<shards::Outcome>) -> Result<Option<Bytes>> {
    let ended = || Error::new(ErrorKind::Source, "the read at the source ended without an answer: try again");
    match result.wait_for(Option::is_some).await {
        Ok(done) => done.clone().unwrap_or_else(|| Err(ended())),
        Err(_) => Err(ended()),
    }
}

/// What a lookup that ended so is timed as.
fn timed_as(result: &Result<Answer>) -> Timed {
    result.as_ref().map_or(Timed::Failed, |answer| Timed::Lookup(answer.outcome))
}

/// Whether a key can be one of this type: a key of another one was not parsed by this gate, and its digest says nothing.
#[inline]
pub(crate) fn fits(key_type: KeyType, key: &Key) -> bool {
    match key_type {
        KeyType::Integer { .. } => key.canonical().len() == 8,
        KeyType::Uuid => key.canonical().len() == 16,
        _ => true,
    }
}

impl Inner {
    pub(crate) fn check(&self, key: &Key) -> Result<()> {
        if fits(self.source.key_type(), key) {
            return Ok(());
        }
        let message = format!(
            "a key of {} bytes is none of the column's type, {:?}: make it by parse_key",
            key.canonical().len(),
            self.source.key_type()
        );
        Err(Error::new(ErrorKind::BadKey, message))
    }

    /// What the filter says of a key.
    pub(crate) async fn ask(&self, digest: Digest) -> Basis {
        // Whole, not a guard: it is held while a filter behind a network is asked.
        let face = arc_swap::Guard::into_inner(self.filters.face());
        // Before the filter is asked: what the watermark of a feed promises is in there by then.
        let state = self.state_of(face.state);
        match &face.current {
            None => self.basis(state, None, None),
            Some(current) => {
                let has = self.has(current, &[digest]).await;
                self.basis(state, Some(current), has.map(|has| has[0]))
            }
        }
    }

    /// What the filter says of many keys.
    async fn ask_many(&self, digests: &[Digest]) -> Vec<Basis> {
        // Whole, not a guard: it is held while a filter behind a network is asked.
        let face = arc_swap::Guard::into_inner(self.filters.face());
        let state = self.state_of(face.state);
        match &face.current {
            None => vec![self.basis(state, None, None); digests.len()],
            Some(current) => match self.has(current, digests).await {
                None => vec![self.basis(state, Some(current), None); digests.len()],
                Some(has) => has.iter().map(|&has| self.basis(state, Some(current), Some(has))).collect(),
            },
        }
    }

    /// Whether the filter may have each key; nothing if it cannot be asked.
    async fn has(&self, generation: &Arc<Generation>, digests: &[Digest]) -> Option<Vec<bool>> {
        match generation.ask(digests).await {
            Ok(answers) if answers.len() == digests.len() => {
                self.events.answered(Part::Filter);
                Some(answers)
            }
            failed => {
                self.counters.one(Count::FilterErrors);
                let why = failed.err().map_or_else(|| "it gave too few answers".to_owned(), |error| error.to_string());
                self.events.failed(Part::Filter, &why);
                if generation.is_lost() {
                    self.filters.lost(generation);
                    self.rebuilds.ask(Reason::Lost);
                }
                None
            }
        }
    }

    /// What an answer of the filter is worth in this state; `has` is nothing if there was none.
    pub(super) fn basis(&self, state: State, current: Option<&Arc<Generation>>, has: Option<bool>) -> Basis {
        let version = current.map_or(0, |current| current.version());
        let watching = !self.may_block;
        let (watermark, verdict) = match (state, has) {
            (State::Ready { watermark, .. }, Some(has)) if watching => {
                (Some(watermark), Verdict::Watching { no: !has })
            }
            (State::Ready { watermark, .. }, Some(true)) => (Some(watermark), Verdict::Maybe),
            (State::Ready { watermark, .. }, Some(false)) => (Some(watermark), Verdict::No),
            _ if watching => (None, Verdict::Watching { no: false }),
            (_, has) => (None, Verdict::NotReady { unlikely: has == Some(false) }),
        };
        Basis { verdict, version, watermark }
    }

    pub(super) fn refuse(
        self: &Arc<Self>,
        basis: Basis,
        key: &Key,
        digest: Digest,
        audited: Option<u64>,
        counted_as: Count,
    ) -> Answer {
        self.counters.one(counted_as);
        if let Some(epoch) = audited {
            let of = Arc::downgrade(self);
            self.audits.offer(&self.counters, Sample { of, key: key.clone(), digest, epoch });
        }
        basis.answer(Outcome::AbsentByFilter, None)
    }

    pub(super) fn ensure_open(&self, basis: Basis) -> Result<()> {
        if self.settings.policy != Policy::Closed || !matches!(basis.verdict, Verdict::NotReady { .. }) {
            return Ok(());
        }
        self.counters.one(Count::Closed);
        let message = format!(
            "the filter is {} and the policy is closed: nothing is looked up until it is ready",
            self.state_of(self.filters.face().state).name()
        );
        Err(Error::new(ErrorKind::NotReady, message))
    }

    /// Counts an answer and gives it. `ended`: where, unless it ended at the source.
    fn settle(&self, basis: Basis, ended: Option<Outcome>, row: Option<Bytes>) -> Answer {
        let outcome = self.count(basis, ended, row.is_some());
        basis.answer(outcome, row)
    }

    /// Counts an answer; where it ended.
    pub(super) fn count(&self, basis: Basis, ended: Option<Outcome>, found: bool) -> Outcome {
        let outcome = ended.unwrap_or(match (basis.verdict, found) {
            (Verdict::Maybe | Verdict::No, true) => Outcome::Source,
            (Verdict::Maybe | Verdict::No, false) => Outcome::NotFound,
            _ => Outcome::Bypass,
        });
        self.counters.one(outcome);
        match basis.verdict {
            Verdict::Maybe if !found => self.counters.one(Count::FalsePositives),
            Verdict::Watching { no: true } => {
                self.counters.one(Count::WouldBlock);
                if found {
                    self.counters.one(Count::WouldBlockWrongly);
                }
            }
            Verdict::Watching { no: false } if !found && basis.watermark.is_some() => {
                self.counters.one(Count::FalsePositives);
            }
            _ => {}
        }
        if outcome == Outcome::Bypass && !found {
            self.counters.one(Count::BypassAbsent);
        }
        outcome
    }

    pub(super) fn count_false_positive_read(&self, basis: Basis, is_absent: bool) {
        if is_absent && basis.verdict == Verdict::Maybe {
            self.counters.one(Count::FalsePositiveReads);
        }
    }

    pub(crate) fn count_failure(&self, error: Option<&Error>) {
        match error.map(Error::kind) {
            None => return,
            Some(ErrorKind::Busy) => self.counters.one(Count::Busy),
            Some(ErrorKind::TooManyMisses) => self.counters.one(Count::Capped),
            Some(_) => {}
        }
        self.counters.one(Count::Failed);
    }

    /// The row in the cache; a cache that fails has none.
    async fn cached(&self, key: &Key) -> Option<Bytes> {
        let found = self.cache.as_ref()?.get(key).await;
        self.of_cache(&found);
        found.unwrap_or(None)
    }

    /// Counts a failure of the cache, and tells when it is lost and regained.
    pub(crate) fn of_cache<T>(&self, result: &Result<T>) {
        match result {
            Ok(_) => self.events.answered(Part::Cache),
            Err(error) => {
                self.counters.one(Count::CacheErrors);
                self.events.failed(Part::Cache, error);
            }
        }
    }

    async fn cached_many(&self, keys: &[Key]) -> Vec<Option<Bytes>> {
        let none = || vec![None; keys.len()];
        let Some(cache) = self.cache.as_ref().filter(|_| !keys.is_empty()) else { return none() };
        let found = cache.get_many(keys).await.and_then(|rows| match rows.len() == keys.len() {
            true => Ok(rows),
            false => Err(Error::new(ErrorKind::Cache, format!("{} rows for {} keys", rows.len(), keys.len()))),
        });
        self.of_cache(&found);
        found.unwrap_or_else(|_| none())
    }

    /// Reads a key for all who want it, in a task of its own: it goes on when the one who led goes away.
    fn read_one(self: &Arc<Self>, key: Key, lead: Lead, place: Option<Place>, unlikely: bool) {
        let inner = self.clone();
        tokio::spawn(async move {
            let result = match inner.entrance.enter(unlikely).await {
                Err(busy) => Err(busy),
                Ok(_leave) => {
                    inner.counters.one(Count::SourceReads);
                    let begun = Instant::now();
                    let read = inner.source.get(&key).await;
                    inner.times.add(Timed::Source, begun.elapsed(), 1);
                    inner.failed_at_source(&read);
                    read
                }
            };
            inner.finish(&key, &lead, place, result).await;
        });
    }

    /// Reads many keys in one question.
    fn read_many(self: &Arc<Self>, keys: Vec<Key>, leads: Vec<Leading>, unlikely: bool) {
        let inner = self.clone();
        tokio::spawn(async move {
            let weight = inner.source.weight(keys.len());
            let result = match inner.entrance.enter_many(unlikely, weight).await {
                Err(busy) => Err(busy),
                Ok(_leave) => {
                    inner.counters.add(Count::SourceReads, keys.len() as u64);
                    let begun = Instant::now();
                    let rows = inner.source.get_many(&keys).await;
                    inner.times.add(Timed::Source, begun.elapsed(), 1);
                    let read = match rows {
                        Ok(rows) if rows.len() == keys.len() => Ok(rows),
                        Ok(rows) => {
                            let message = format!("the source gave {} rows for {} keys", rows.len(), keys.len());
                            Err(Error::new(ErrorKind::Source, message))
                        }
                        Err(error) => Err(error),
                    };
                    inner.failed_at_source(&read);
                    read
                }
            };
            let mut rows = result.as_ref().ok().cloned().unwrap_or_default().into_iter();
            for (key, (lead, place)) in keys.iter().zip(leads) {
                let one = match &result {
                    Ok(_) => Ok(rows.next().flatten()),
                    Err(error) => Err(error.clone()),
                };
                inner.finish(key, &lead, place, one).await;
            }
        });
    }

    /// Asks the source for a key that somebody wants explained: under the cap, behind lookups of keys that are known. In a task
    /// of its own: who goes away before the answer pays all the same.
    pub(crate) async fn read_to_explain(self: &Arc<Self>, key: &Key, place: Option<Place>) -> Result<Option<Bytes>> {
        let (inner, key) = (self.clone(), key.clone());
        let reading = tokio::spawn(async move {
            let read = match inner.entrance.enter(true).await {
                Err(busy) => Err(busy),
                Ok(_leave) => {
                    inner.counters.one(Count::SourceReads);
                    inner.source.get(&key).await.inspect_err(|_| inner.counters.one(Count::SourceErrors))
                }
            };
            leave(place, &read);
            read
        });
        reading.await.map_err(super::died)?
    }

    /// Puts what was read into the cache, unless somebody wrote meanwhile, and hands it out.
    async fn finish(&self, key: &Key, lead: &Lead, place: Option<Place>, result: Result<Option<Bytes>>) {
        // First, and here: a client that goes away before the answer pays all the same, and one that has it has paid.
        leave(place, &result);
        if let (Ok(Some(row)), Some(cache)) = (&result, &self.cache) {
            let _alone = self.shards.fill(lead.digest()).await;
            if self.shards.epoch(lead.digest()) == lead.epoch() {
                self.of_cache(&cache.store(key, row.clone(), self.settings.rows_for).await);
            }
        }
        self.shards.done(lead, result);
    }
}
