//! The filters of all tenants by one scan of the table, and of all of them one after the other.
//!
//! A thousand tenants are not a thousand scans. The order of steps is that of `rebuild`, for each tenant the same, since each
//! step is done for all of them before the next begins:
//!
//! 1. the next filter of every tenant is installed: each write that begins from now on goes into its tenant's;
//! 2. the writes under way are waited for, tenant by tenant: what began before step 1 is at the source now, or never will be;
//! 3. one scan begins, as of one moment, which is after step 2 for every tenant;
//! 4. each filter is checked by itself: one that fails, or whose tenant lost its rows, costs no other;
//! 5. each is swapped in by its own pointer.
//!
//! The set of tenants is whole from the end of the scan on: a tenant that has rows was met by the scan, or its rows came by a
//! write that passed here and put it into the set first. No write has to be waited for: the set has no second copy that one
//! could miss.
//!
//! All next filters are there at once, which is what they take in force anyway when there are none before them. While most are
//! in force, filters are replaced one by one instead: one more than there are, never twice as many.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use bloomgate::Digest;
use serde::Serialize;
use tokio::time::Instant;

use super::budget::{Want, allot};
use super::{All, Tenant};
use crate::counters::Count;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::filters::Generation;
use crate::gate::now_ms;
use crate::ground::{RESTS, moved_meanwhile};
use crate::key::Key;
use crate::policy::State;
use crate::rebuild::{Moment, Reason, Rebuilt, Sampler, unless_endless, unless_silent};
use crate::sources::TenantBatch;

/// Keys of each tenant that are asked of the source again before its swap: the columns are the same for all.
const SAMPLE: usize = 8;
/// Failures that are named one by one.
const NAMED: usize = 20;
/// The share of measured lookups that is spread by the number of keys: who was never asked for is not worth nothing.
const GUESSED: f64 = 0.01;

/// How the filters of all tenants were built.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Built {
    /// Tenants that have a new filter.
    pub built: usize,
    /// Tenants for whose filters the memory does not suffice.
    pub without_room: usize,
    /// Tenants whose filter failed: what they had stays.
    pub failed: usize,
    /// The first of those, and why.
    pub failures: Vec<(String, String)>,
    /// Keys of all of them.
    pub keys: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Built {
    fn fail(&mut self, tenant: &Tenant, error: &Error) {
        self.failed += 1;
        if self.failures.len() < NAMED {
            self.failures.push((tenant.name.to_string(), error.to_string()));
        }
    }
}

/// How far the scan of all tenants is.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub keys: AtomicU64,
    pub expected: AtomicU64,
    pub running: AtomicU64,
}

/// A tenant whose next filter is installed. It is taken away however the scan ends, unless it was swapped in.
struct Standing {
    tenant: Arc<Tenant>,
    next: Arc<Generation>,
    sample: Sampler,
    moment: Moment,
    failure: Option<Error>,
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.tenant.inner().filters.abandon(&self.next);
    }
}

impl All {
    /// Before a scan: nobody else writes, and what was written before is there or never will be. How often the ground had
    /// moved by then.
    async fn prepare(&self) -> Result<u64> {
        if !self.is_sole() {
            return Ok(self.moves());
        }
        for _ in 0..RESTS {
            let before = self.moves();
            if self.writes.load(SeqCst) {
                self.table.claim().await?;
            }
            self.table.settle().await?;
            if self.moves() == before {
                return Ok(before);
            }
        }
        Err(moved_meanwhile())
    }

    /// Counts the tenants, makes those that are new, and shares the budget among all. Each tenant with the keys its filter is
    /// to be sized for and its rate; none where there is no room.
    async fn share_out(self: &Arc<Self>) -> Result<Vec<(Arc<Tenant>, u64, Option<f64>)>> {
        let counted = unless_endless(self.table.census(self.most)).await;
        self.events.of_source(&counted);
        let counted: HashMap<Key, u64> = counted?.into_iter().collect();
        for tenant in counted.keys() {
            self.find_or_make(tenant, false)?;
        }
        let everyone = self.everyone();
        let lookups: Vec<f64> = everyone.iter().map(|tenant| tenant.absent_lookups() as f64).collect();
        let (measured, keys): (f64, f64) = (lookups.iter().sum(), counted.values().sum::<u64>() as f64);
        let wants: Vec<Want> = everyone
            .iter()
            .zip(&lookups)
            .map(|(tenant, lookups)| {
                let count = counted.get(&tenant.key).copied().unwrap_or(0);
                let guessed = (measured * GUESSED + 1.0) * (count + 1) as f64 / (keys + 1.0);
                let inner = tenant.inner();
                Want {
                    keys: inner.capacity_for(count),
                    lookups: lookups + guessed,
                    rate: inner.settings.rate,
                    weight: tenant.weight(),
                    most: tenant.room().map_or(u64::MAX, super::Room::most),
                }
            })
            .collect();
        self.progress.expected.store(keys as u64, Relaxed);
        let rates = allot(self.budget.spending, &wants, self.budget.total);
        let shared = everyone.into_iter().zip(wants).zip(rates).map(|((tenant, want), rate)| {
            if let Some(room) = tenant.room() {
                room.allot(rate);
            }
            (tenant, want.keys, rate)
        });
        Ok(shared.collect())
    }

    /// Gives up the filter of a tenant that has no room any more.
    fn evict(tenant: &Tenant) {
        let inner = tenant.inner();
        if inner.filters.face().current.is_some() {
            inner.lose(State::Stale);
            inner.filters.give_up();
        }
        if let Some(room) = tenant.room() {
            room.took_bytes(0);
        }
    }

    /// Builds the filters of all tenants by one scan.
    pub(super) async fn fill_all(self: &Arc<Self>, reason: Reason, accept_fewer: bool) -> Result<Built> {
        let _alone = self.rebuilding.lock().await;
        let begun = Instant::now();
        self.progress.keys.store(0, Relaxed);
        self.progress.running.store(1, Relaxed);
        let result = self.scan_everyone(reason, accept_fewer, begun).await;
        self.progress.running.store(0, Relaxed);
        self.past.of_all(reason, begun, &result);
        let counters = &self.strangers.counters;
        match &result {
            Ok(built) => {
                counters.one(Count::Rebuilds);
                self.events.tell(Event::TenantsBuilt {
                    built: built.built,
                    failed: built.failed,
                    without_room: built.without_room,
                    keys: built.keys,
                    seconds: built.seconds,
                    blocking: self.settings.policy != crate::Policy::Shadow && self.is_sole(),
                });
            }
            Err(error) => {
                counters.one(Count::RebuildsFailed);
                self.break_all_if(error);
                self.events.tell(Event::TenantsFailed { why: error.to_string() });
            }
        }
        result
    }

    /// A column that is not what it was: what its equality is now, no filter knows.
    fn break_all_if(&self, error: &Error) {
        if error.kind() == ErrorKind::Unsupported {
            self.everyone().iter().for_each(|tenant| tenant.inner().lose(State::Broken));
            self.forget_set();
        }
    }

    async fn scan_everyone(self: &Arc<Self>, reason: Reason, accept_fewer: bool, begun: Instant) -> Result<Built> {
        // Before anything of it is read: a move from now on makes it worthless.
        let moves = self.prepare().await?;
        let mut built = Built::default();
        let mut standing = Vec::new();
        for (tenant, capacity, rate) in self.share_out().await? {
            let Some(rate) = rate else {
                Self::evict(&tenant);
                built.without_room += 1;
                continue;
            };
            match install(&tenant, capacity, rate).await {
                Ok(next) => standing.push(next),
                Err(error) => {
                    note(&tenant, reason, 0, begun, Some(&error));
                    built.fail(&tenant, &error);
                }
            }
        }
        // From now on a move reaches these filters; before, there were none to mistrust.
        if self.moves() != moves {
            return Err(moved_meanwhile());
        }
        self.wait_for_writes(&mut standing).await;
        // Every write answered before this moment is in the scan, every later one is put into the filters.
        let watermark = now_ms();
        standing.iter_mut().for_each(|one| one.moment = one.tenant.inner().moment());
        let strangers = self.scan_into(&mut standing).await?;
        for tenant in strangers {
            // It came while this ran: it has a filter already, or gets one by itself.
            self.find_or_make(&tenant, false)?;
        }
        for one in &mut standing {
            let inner = one.tenant.inner();
            let taken = match one.failure.take() {
                Some(error) => Err(error),
                // Found far too small: rebuilt by itself, with room for what there is.
                None if one.next.scanned() > one.next.capacity() => {
                    inner.rebuilds.ask(Reason::Capacity);
                    continue;
                }
                None => inner.take_over(&one.next, &one.sample.keys, &one.moment, accept_fewer).await,
            };
            note(&one.tenant, reason, one.next.scanned(), begun, taken.as_ref().err());
            match &taken {
                Ok(()) => {
                    built.built += 1;
                    built.keys += one.next.scanned();
                    one.tenant.rebuilt();
                }
                Err(error) => built.fail(&one.tenant, error),
            }
        }
        drop(standing);
        self.learn_set(watermark, moves)?;
        built.seconds = begun.elapsed().as_secs_f64();
        self.tell_of_missing();
        // Files of a thousand tenants take longer than their scan: nobody waits for them.
        let all = Arc::downgrade(self);
        self.background.add([tokio::spawn(async move {
            if let Some(all) = all.upgrade() {
                all.save_everyone(false).await;
            }
        })
        .abort_handle()]);
        Ok(built)
    }

    /// Step 2. A tenant whose writes do not end in time fails by itself.
    async fn wait_for_writes(&self, standing: &mut [Standing]) {
        let patience = self.settings.write_patience;
        let until = Instant::now() + patience;
        for one in standing {
            let puts = &one.tenant.inner().puts;
            if tokio::time::timeout_at(until, puts.wait()).await.is_err() {
                let message = format!(
                    "{} writes were under way, and one of them for longer than {patience:?}: a filter built now could miss it",
                    puts.len()
                );
                one.failure = Some(Error::new(ErrorKind::Source, message));
            }
        }
    }

    /// Step 3. The tenants that the scan met and that have no filter in it.
    async fn scan_into(&self, standing: &mut [Standing]) -> Result<HashSet<Key>> {
        let places: HashMap<Key, usize> =
            standing.iter().enumerate().map(|(place, one)| (one.tenant.key.clone(), place)).collect();
        let mut strangers = HashSet::new();
        let mut scan = unless_silent(self.table.scan_all()).await?;
        let (mut batch, mut found) = (TenantBatch::default(), Vec::<(usize, Digest)>::new());
        // Rows of one tenant often stand side by side.
        let mut last: Option<(Key, Option<usize>)> = None;
        let mut digests = Vec::new();
        while unless_silent(scan.next(&mut batch)).await? {
            found.clear();
            for (tenant, key) in batch.iter() {
                let place = match &last {
                    Some((same, place)) if same.canonical() == tenant => *place,
                    _ => {
                        let tenant = Key::from_canonical(tenant);
                        let place = places.get(&tenant).copied();
                        if place.is_none() && self.find(&tenant).is_none() {
                            strangers.insert(tenant.clone());
                            if strangers.len() > self.most {
                                let message = format!(
                                    "the table got more than {} tenants while it was scanned: allow more (--tenants-most)",
                                    self.most
                                );
                                return Err(Error::new(ErrorKind::Invalid, message));
                            }
                        }
                        last = Some((tenant, place));
                        place
                    }
                };
                let Some(place) = place else { continue };
                let one = &mut standing[place];
                one.sample.offer(key);
                found.push((place, one.tenant.inner().filters.contract().digest_bytes(key)));
            }
            found.sort_unstable_by_key(|&(place, _)| place);
            for of_one in found.chunk_by(|one, other| one.0 == other.0) {
                digests.clear();
                digests.extend(of_one.iter().map(|&(_, digest)| digest));
                let one = &mut standing[of_one[0].0];
                if let Err(error) = one.next.fill_digests(&digests) {
                    one.failure.get_or_insert(error);
                }
            }
            self.progress.keys.fetch_add(batch.len() as u64, Relaxed);
        }
        Ok(strangers)
    }

    /// Rebuilds the filter of one tenant; the others are not touched.
    pub(super) async fn rebuild_one(
        self: &Arc<Self>,
        tenant: &Tenant,
        reason: Reason,
        accept_fewer: bool,
    ) -> Result<Rebuilt> {
        let _alone = self.rebuilding.lock().await;
        let begun = Instant::now();
        let result = tenant.inner().rebuild(reason, accept_fewer).await;
        self.past.of_one(&tenant.name, reason, begun, &result, self.rolling.load(SeqCst));
        match &result {
            Ok(_) => {
                tenant.rebuilt();
                tenant.is_saved();
            }
            Err(_) => tenant.failed(),
        }
        result
    }

    /// Rebuilds everyone, in the way that fits what is in force.
    pub(super) async fn rebuild_everyone(self: &Arc<Self>, accept_fewer: bool) -> Result<Built> {
        if self.needs_scan() {
            return self.fill_all(Reason::Asked, accept_fewer).await;
        }
        self.roll(Reason::Asked, accept_fewer).await
    }

    /// Whether one scan for all is the way: the set is not known, or more filters are missing than single scans are worth.
    pub(super) fn needs_scan(&self) -> bool {
        if self.known().is_none() {
            return true;
        }
        let everyone = self.everyone();
        let missing = everyone.iter().filter(|tenant| tenant.is_missing()).count();
        missing > 16 && missing * 4 > everyone.len()
    }

    /// Rebuilds all tenants one after the other; those first that come to need less.
    pub(super) async fn roll(self: &Arc<Self>, reason: Reason, accept_fewer: bool) -> Result<Built> {
        if self.rolling.swap(true, SeqCst) {
            let message = "the filters are being rebuilt one after the other already: /stats shows how far it is";
            return Err(Error::new(ErrorKind::Busy, message));
        }
        let _rolling = Rolling(self);
        let begun = Instant::now();
        let result = self.rebuild_in_turn(reason, accept_fewer, begun).await;
        self.past.of_all(reason, begun, &result);
        result
    }

    async fn rebuild_in_turn(self: &Arc<Self>, reason: Reason, accept_fewer: bool, begun: Instant) -> Result<Built> {
        let shared = {
            let _alone = self.rebuilding.lock().await;
            let prepared = self.prepare().await;
            match prepared {
                Ok(_) => self.share_out().await,
                Err(error) => Err(error),
            }
        };
        let mut shared = shared.inspect_err(|error| self.break_all_if(error))?;
        shared.sort_by_key(|(tenant, capacity, rate)| {
            let now = tenant.room().map_or(0, |room| room.share().2) as i64;
            rate.map_or(-now, |rate| super::budget::bytes(*capacity, rate) as i64 - now)
        });
        let mut built = Built::default();
        for (tenant, _, rate) in shared {
            if rate.is_none() {
                Self::evict(&tenant);
                built.without_room += 1;
                continue;
            }
            match self.rebuild_one(&tenant, reason, accept_fewer).await {
                Ok(rebuilt) => {
                    built.built += 1;
                    built.keys += rebuilt.keys;
                }
                Err(error) => built.fail(&tenant, &error),
            }
        }
        built.seconds = begun.elapsed().as_secs_f64();
        Ok(built)
    }
}

/// All are being rebuilt one after the other for as long as this is held.
struct Rolling<'a>(&'a All);

impl Drop for Rolling<'_> {
    fn drop(&mut self) {
        self.0.rolling.store(false, SeqCst);
    }
}

/// Step 1 for one tenant.
async fn install(tenant: &Arc<Tenant>, capacity: u64, rate: f64) -> Result<Standing> {
    let inner = tenant.inner();
    let version = inner.next_version.fetch_add(1, Relaxed);
    let most = inner.settings.filter_bytes;
    let next = Arc::new(Generation::local(version, inner.filters.contract(), capacity, rate, most)?);
    inner.filters.install(&next).await?;
    let (tenant, sample, moment) = (tenant.clone(), Sampler::of(SAMPLE), inner.moment());
    Ok(Standing { tenant, next, sample, moment, failure: None })
}

/// Notes in a tenant's history how its part of the scan ended.
fn note(tenant: &Tenant, reason: Reason, keys: u64, begun: Instant, error: Option<&Error>) {
    let inner = tenant.inner();
    let version = inner.next_version.load(Relaxed).saturating_sub(1);
    let (seconds, failure) = (begun.elapsed().as_secs_f64(), error.map(ToString::to_string));
    inner.conclude(&Rebuilt { reason, version, keys, seconds, ended_ms: now_ms(), failure }, error);
    if error.is_some() {
        tenant.failed();
    }
}
