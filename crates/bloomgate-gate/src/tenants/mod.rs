//! Many tenants before one table: a filter for each, sized for its own keys, over one source, one cache and one budget.
//!
//! ```text
//! get: tenant known? ── yes ──▶ its own gate: filter, negative cache, cache, source
//!          └── no: every tenant is known and this is none of them: absent; else the source is asked
//! put: tenant known? ── no ──▶ its filter is made first, empty and ready ──▶ its gate
//! ```
//!
//! What tenants share: the connections, the cap on reads (a fair share each: `gate/turns`), the cache (names carry the tenant),
//! the memory for filters (`budget`), the places for remembered absences, one task that rebuilds, one that audits and one that
//! looks around. What each has alone: filter, versions, write epochs, reads under way, counters, policy, rate.
//!
//! **The set of tenants is a filter too, an exact one**, with the same rule: it says no only while it is known to be whole. A
//! scan of the whole table makes it so; after that a tenant can only come into being by a write that passes here, and that
//! write puts it into the set before it reaches the source. Whatever moves the ground under the filters takes the set back.
//!
//! **Lookups never make anything**: a tenant that nobody knows costs nothing to ask for, however many are made up.

mod budget;
mod builder;
mod fill;
mod past;
mod shared_cache;
mod stats;
mod store;
mod strangers;
mod upkeep;

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwapOption;
use bloomgate::{Contract, Secret};
use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

pub(crate) use budget::Room;
pub use budget::{LOOSEST, Spending};
pub use builder::{Own, TenantsBuilder};
pub use fill::Built;
pub use past::Ended;
pub use stats::{BudgetStats, OneTenant, StrangerStats, TenantCounts, TenantStats, TenantsStats};

use crate::audit::{Audits, Sample};
use crate::background::Background;
use crate::caches::Cache;
use crate::callers::{Callers, ClientId};
use crate::counters::Counters;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Events;
use crate::filters::Generation;
use crate::gate::{Entrance, Gate, Inner, Parts, Settings, Turns};
use crate::key::Key;
use crate::outcome::Answer;
use crate::policy::{Policy, State, Writers};
use crate::rebuild::{Rebuilds, Rebuilt};
use crate::shards::Shards;
use crate::sources::TenantTable;
use crate::stats::Explanation;
use budget::Budget;
use shared_cache::TenantCache;
use strangers::Strangers;

/// Pieces of the table of tenants, a lock each: a lookup takes one of them, to read.
const PIECES: usize = 64;
type Piece = RwLock<HashMap<Key, Arc<Tenant>>>;
/// Shards of a tenant's keys in flight: 250 bytes each. A gate of its own has 256.
const SHARDS: usize = 16;
/// Slots of a tenant's counters: 256 bytes each. A gate of its own has 32.
const SLOTS: usize = 4;
/// Absent keys that a tenant may have remembered whatever the number of tenants.
const LEAST_NEGATIVES: usize = 16;

/// Gates before one table, one for each tenant.
///
/// A handle: clones share one. Its calls need a tokio runtime; [`look`](Self::look) alone does not.
#[derive(Clone)]
pub struct Tenants {
    pub(crate) all: Arc<All>,
    _alive: Arc<Alive>,
}

/// Ends what runs in the background when the last handle is gone.
struct Alive(Arc<All>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.background.stop();
    }
}

/// Since when the set of tenants is known to be whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Rises by one with each scan of all tenants.
    pub version: u64,
    /// As of when, in milliseconds since 1970.
    pub watermark: u64,
}

pub(crate) struct All {
    /// What a tenant has unless it has its own.
    pub settings: Settings,
    pub own: HashMap<Key, Own>,
    pub most: usize,
    pub table: Arc<dyn TenantTable>,
    cache: Option<Arc<dyn Cache>>,
    /// The caps on single clients: one for all tenants.
    pub callers: Option<Arc<Callers>>,
    secret: Secret,
    /// How tenants become names of folders.
    naming: Contract,
    pub events: Events,
    /// How long lookups of all tenants took.
    pub times: Arc<crate::times::Times>,
    pieces: Box<[Piece]>,
    count: AtomicUsize,
    /// One tenant is made at a time.
    creating: Mutex<()>,
    /// Set while the set of tenants is known to be whole.
    known: ArcSwapOption<Known>,
    /// Held while that is changed.
    knowing: Mutex<u64>,
    pub turns: Arc<Turns>,
    /// Absent keys that each tenant may have remembered.
    negatives: Arc<AtomicUsize>,
    offered: mpsc::Sender<Sample>,
    offered_to: Mutex<Option<mpsc::Receiver<Sample>>>,
    pub budget: Arc<Budget>,
    pub strangers: Strangers,
    asked: Arc<Notify>,
    /// One rebuild at a time: beside the filters in force there is one more, not one more of each.
    rebuilding: tokio::sync::Mutex<()>,
    /// All are being rebuilt one after the other.
    rolling: AtomicBool,
    started: AtomicBool,
    writes: AtomicBool,
    background: Background,
    lock: Mutex<Option<File>>,
    next_number: AtomicU64,
    /// What the list of tenants in the folder has not.
    unsaved: AtomicBool,
    /// The last run left a list of tenants.
    had_list: AtomicBool,
    progress: fill::Scanned,
    /// Rebuilds that ended.
    past: past::Past,
    /// Tenants that have a label of their own in metrics.
    #[cfg(feature = "service")]
    labelled: Mutex<Vec<Arc<Tenant>>>,
}

/// A tenant: its gate, and what is done for it.
pub(crate) struct Tenant {
    pub name: Arc<str>,
    pub key: Key,
    pub gate: Gate,
    /// Lookups of absent keys in earlier runs: where the budget is short, it goes where it saves most.
    absent_before: AtomicU64,
    upkeep: Mutex<upkeep::Upkeep>,
    saved: store::Saved,
}

impl Tenant {
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.gate.inner
    }

    fn room(&self) -> Option<&Room> {
        self.inner().room.as_ref()
    }
}

impl All {
    fn piece(&self, tenant: &Key) -> &Piece {
        // Spread by the last bytes: tenants that are counted through differ there. Any spread is right.
        let sum = tenant.canonical().iter().fold(0usize, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        &self.pieces[sum % PIECES]
    }

    /// A tenant, if it is one.
    #[inline]
    pub fn find(&self, tenant: &Key) -> Option<Arc<Tenant>> {
        self.piece(tenant).read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    /// All of them.
    pub fn everyone(&self) -> Vec<Arc<Tenant>> {
        let mut all = Vec::with_capacity(self.len());
        for piece in &self.pieces {
            all.extend(piece.read().unwrap_or_else(PoisonError::into_inner).values().cloned());
        }
        all
    }

    pub fn len(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// Whether every write passes here.
    fn is_sole(&self) -> bool {
        self.settings.writers != Writers::Unknown
    }

    /// Since when the set is known to be whole, if it is. Asked **before** a tenant is looked up and again after: a set that
    /// becomes whole between the two may have got the tenant between the two.
    pub fn known(&self) -> Option<Arc<Known>> {
        self.known.load_full()
    }

    /// The set is not known to be whole any more.
    pub fn forget_set(&self) {
        let _changing = self.knowing.lock().unwrap_or_else(PoisonError::into_inner);
        self.known.store(None);
        self.asked.notify_one();
    }

    /// The set is whole as of the watermark, unless the ground has moved since it was so many times.
    fn learn_set(&self, watermark: u64, moves: u64) -> Result<()> {
        let mut version = self.knowing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.moves() != moves {
            let message = "the source is not where it was when the scan began: the tenants in it say nothing of now";
            return Err(Error::new(ErrorKind::Source, message));
        }
        *version += 1;
        self.known.store(Some(Arc::new(Known { version: *version, watermark })));
        Ok(())
    }

    fn moves(&self) -> u64 {
        self.table.footing().map_or(0, crate::sources::Footing::moves)
    }

    /// Listens for moves of the source. Before any tenant does: the set is forgotten before a new tenant could rely on it.
    fn stand_on_table(self: &Arc<Self>) {
        let Some(footing) = self.table.footing() else { return };
        let all = Arc::downgrade(self);
        footing.on_move(move || all.upgrade().map(|all| all.forget_set()).is_some());
    }

    /// A tenant's settings.
    fn settings_of(&self, tenant: &Key) -> (Settings, Own) {
        let own = self.own.get(tenant).cloned().unwrap_or_default();
        let mut settings = self.settings.clone();
        settings.policy = own.policy.unwrap_or(settings.policy);
        settings.rate = own.rate.unwrap_or(settings.rate);
        settings.data = self.settings.data.as_ref().map(|data| self.folder_of(data, tenant));
        (settings, own)
    }

    /// The tenant; made if it is not there. `empty`: whether the source has no row of it if the set is whole, so that an
    /// empty filter is right.
    pub fn find_or_make(self: &Arc<Self>, tenant: &Key, empty: bool) -> Result<Arc<Tenant>> {
        if let Some(found) = self.find(tenant) {
            return Ok(found);
        }
        let _alone = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.find(tenant) {
            return Ok(found);
        }
        if self.len() >= self.most {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "there are {} tenants, and no more are allowed: allow more (--tenants-most); one that has no rows any more \
                     is forgotten with the next start",
                    self.most
                ),
            ));
        }
        let made = Arc::new(self.make(tenant)?);
        if empty {
            self.begin_empty(&made);
        }
        let piece = self.piece(tenant);
        piece.write().unwrap_or_else(PoisonError::into_inner).insert(tenant.clone(), made.clone());
        let count = self.count.fetch_add(1, SeqCst) + 1;
        let negatives = self.settings.negatives.0;
        self.negatives.store((negatives / count).max(LEAST_NEGATIVES.min(negatives)), Relaxed);
        self.unsaved.store(true, SeqCst);
        Ok(made)
    }

    fn make(&self, tenant: &Key) -> Result<Tenant> {
        let name: Arc<str> = self.table.tenant_type().show(tenant).into();
        let (settings, own) = self.settings_of(tenant);
        let number = self.next_number.fetch_add(1, SeqCst);
        let source = self.table.of(tenant);
        if let Some(folder) = &settings.data {
            // What cannot be made is told of when something is to be saved there.
            let _ = std::fs::create_dir_all(folder);
        }
        // A gate that does not see every write must not remember a "no".
        let remembers = settings.may_block(&*source);
        let negatives = if remembers { self.negatives.clone() } else { Arc::default() };
        let most = own.filter_memory.unwrap_or(u64::MAX);
        let parts = Parts {
            shards: Shards::with(SHARDS, negatives, settings.negatives.1),
            counters: Counters::with_slots(SLOTS),
            times: self.times.clone(),
            entrance: Entrance::Shared(self.turns.clone(), number),
            audits: Audits::among(settings.audit_share, self.offered.clone()),
            rebuilds: Rebuilds::among(self.asked.clone()),
            room: Some(self.budget.room(number, settings.rate, most)),
            cache: self
                .cache
                .as_ref()
                .map(|cache| -> Arc<dyn Cache> { Arc::new(TenantCache::new(cache.clone(), tenant.clone())) }),
            secret: self.secret.clone(),
            events: self.events.of_tenant(name.clone()),
            callers: self.callers.clone(),
            lock: None,
            #[cfg(feature = "redis")]
            remote: None,
            settings,
            source,
        };
        let inner = Inner::assemble(parts)?;
        if let (Some(room), Some(saved)) = (&inner.room, &inner.filters.face().current) {
            room.took(saved);
        }
        let gate = Gate::of(inner);
        if self.writes.load(SeqCst) {
            gate.expect_writes();
        }
        Ok(Tenant {
            name,
            key: tenant.clone(),
            gate,
            absent_before: AtomicU64::new(0),
            upkeep: Mutex::new(upkeep::Upkeep::new(own.weight.unwrap_or(1.0))),
            saved: store::Saved::default(),
        })
    }

    /// Gives a new tenant an empty filter that may say no at once, if the source is known to have no row of it: the set is
    /// whole, every write passes here, and none of this tenant has begun.
    ///
    /// It listens for moves of the ground already. One that comes between the first look at the set and the second finds no
    /// filter to mistrust; the second look does.
    fn begin_empty(&self, tenant: &Tenant) {
        let inner = tenant.inner();
        let Some(known) = self.known().filter(|_| self.is_sole()) else { return };
        let capacity = inner.capacity_for(0);
        let first = tenant.room().map_or(Err(()), |room| room.rate_for(capacity).map_err(|_| ())).and_then(|rate| {
            let version = inner.next_version.fetch_add(1, SeqCst);
            Generation::local(version, inner.filters.contract(), capacity, rate, inner.settings.filter_bytes)
                .map_err(|_| ())
        });
        let Ok(first) = first else { return };
        if let Some(room) = tenant.room() {
            room.took(&first);
        }
        inner.filters.begin_empty(first, known.watermark);
        if self.known().is_none_or(|now| *now != *known) {
            inner.lose(State::Stale);
        }
    }

    fn check(&self, tenant: &Key, key: &Key) -> Result<()> {
        self.table.tenant_type().check(tenant)?;
        self.table.key_type().check(key)
    }
}

impl Tenants {
    /// The settings of gates before the tenants of this table.
    pub fn builder(table: Arc<dyn TenantTable>) -> TenantsBuilder {
        TenantsBuilder::new(table)
    }

    pub(crate) fn of(all: Arc<All>) -> Self {
        Self { _alive: Arc::new(Alive(all.clone())), all }
    }

    /// The tenant that a text writes in the type of the table's tenant column.
    pub fn parse_tenant(&self, text: &str) -> Result<Key> {
        self.all.table.tenant_type().parse(text)
    }

    /// The key that a text writes in the type of the table's key column.
    pub fn parse_key(&self, text: &str) -> Result<Key> {
        self.all.table.key_type().parse(text)
    }

    /// The answer, if filters alone give it: the key is absent, or its tenant is. See [`Gate::look`].
    #[inline]
    pub fn look(&self, tenant: &Key, key: &Key) -> Option<Answer> {
        match self.all.find(tenant) {
            Some(found) => found.gate.look(key),
            None => self.all.refuse_stranger(tenant, key),
        }
    }

    /// Looks a key of a tenant up.
    pub async fn get(&self, tenant: &Key, key: &Key) -> Result<Answer> {
        self.get_by(tenant, key, None).await
    }

    /// [`get`](Self::get) for a client that has a cap: see [`Gate::get_for`].
    pub async fn get_for(&self, tenant: &Key, key: &Key, client: &ClientId) -> Result<Answer> {
        self.get_by(tenant, key, Some(*client)).await
    }

    pub(crate) async fn get_by(&self, tenant: &Key, key: &Key, client: Option<ClientId>) -> Result<Answer> {
        match self.all.find(tenant) {
            Some(found) => found.gate.get_by(key, client).await,
            None => Box::pin(self.all.ask_for_stranger(tenant, key, client)).await,
        }
    }

    /// Looks many keys of a tenant up, with an answer or an error for each, in their order.
    pub async fn get_each(&self, tenant: &Key, keys: &[Key]) -> Result<Vec<Result<Answer>>> {
        self.get_each_by(tenant, keys, None).await
    }

    /// [`get_each`](Self::get_each) for a client that has a cap: each key counts.
    pub async fn get_each_for(&self, tenant: &Key, keys: &[Key], client: &ClientId) -> Result<Vec<Result<Answer>>> {
        self.get_each_by(tenant, keys, Some(*client)).await
    }

    pub(crate) async fn get_each_by(
        &self,
        tenant: &Key,
        keys: &[Key],
        client: Option<ClientId>,
    ) -> Result<Vec<Result<Answer>>> {
        match self.all.find(tenant) {
            Some(found) => found.gate.get_each_by(keys, client).await,
            None => Box::pin(self.all.ask_many_for_stranger(tenant, keys, client)).await,
        }
    }

    /// The caps on single clients, if there are any.
    #[must_use]
    pub fn callers(&self) -> Option<&Arc<Callers>> {
        self.all.callers.as_ref()
    }

    /// Writes a row of a tenant: inserts or replaces it. A tenant that is new gets its filter first.
    pub async fn put(&self, tenant: &Key, key: Key, row: Bytes) -> Result<()> {
        self.put_many_by(tenant, vec![(key, row)], None).await
    }

    /// [`put`](Self::put) for a client that has a cap on adds: see [`Gate::put_for`].
    pub async fn put_for(&self, tenant: &Key, key: Key, row: Bytes, client: &ClientId) -> Result<()> {
        self.put_many_by(tenant, vec![(key, row)], Some(*client)).await
    }

    /// Writes many rows of a tenant, all or none.
    pub async fn put_many(&self, tenant: &Key, rows: Vec<(Key, Bytes)>) -> Result<()> {
        self.put_many_by(tenant, rows, None).await
    }

    pub(crate) async fn put_many_by(
        &self,
        tenant: &Key,
        rows: Vec<(Key, Bytes)>,
        client: Option<ClientId>,
    ) -> Result<()> {
        let found = match self.all.find(tenant) {
            Some(found) => found,
            None => {
                rows.iter().try_for_each(|(key, _)| self.all.check(tenant, key))?;
                // Before anything is made: rows that cannot be written would leave a tenant without any.
                self.all.table.of(tenant).check_rows(&rows).await?;
                // Nor does a client that has added too much make tenants: its rows are counted first.
                self.all.count_adds(client, rows.len())?;
                return self.all.find_or_make(tenant, true)?.gate.put_many(rows).await;
            }
        };
        found.gate.put_many_by(rows, client).await
    }

    /// Deletes a row of a tenant; whether there was one.
    pub async fn delete(&self, tenant: &Key, key: &Key) -> Result<bool> {
        self.all.check(tenant, key)?;
        let found = match self.all.find(tenant) {
            Some(found) => found,
            None if self.all.is_absent(tenant) => return Ok(false),
            // Past a gate of its own, a lookup under way could put the row back into the cache.
            None => self.all.find_or_make(tenant, false)?,
        };
        found.gate.delete(key).await
    }

    /// The whole decision about a key of a tenant, step by step: see [`Gate::explain`].
    pub async fn explain(&self, tenant: &Key, key: &Key) -> Result<Explanation> {
        self.explain_by(tenant, key, None).await
    }

    pub(crate) async fn explain_by(&self, tenant: &Key, key: &Key, client: Option<ClientId>) -> Result<Explanation> {
        match self.all.find(tenant) {
            Some(found) => found.gate.explain_by(key, client).await,
            None => self.all.explain_stranger(tenant, key, client).await,
        }
    }

    /// What the filter of a tenant is good for at this moment; of one that nobody knows, what the set of tenants is.
    #[must_use]
    pub fn state_of(&self, tenant: &Key) -> State {
        match self.all.find(tenant) {
            Some(found) => found.gate.state(),
            None => self.state(),
        }
    }

    /// What the set of tenants is good for.
    #[must_use]
    pub fn state(&self) -> State {
        match self.all.known() {
            Some(known) => State::Ready { version: known.version, watermark: known.watermark },
            None => State::Loading,
        }
    }

    /// Whether a tenant is one of those that are known: nothing is made by asking.
    #[must_use]
    pub fn has(&self, tenant: &Key) -> bool {
        self.all.find(tenant).is_some()
    }

    /// How many tenants there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that writes will pass: the table is taken before the first filter is built.
    pub fn expect_writes(&self) {
        self.all.writes.store(true, SeqCst);
        self.all.everyone().iter().for_each(|tenant| tenant.gate.expect_writes());
    }

    /// Rebuilds the filter of one tenant now. No other is touched: not its filter, its counters or its lookups.
    ///
    /// # Errors
    ///
    /// Those of [`Gate::rebuild`], and [`ErrorKind::Invalid`] for a tenant that nobody knows.
    pub async fn rebuild(&self, tenant: &Key, accept_fewer: bool) -> Result<Rebuilt> {
        let all = self.all.clone();
        let Some(found) = all.find(tenant) else {
            let message = format!("there is no tenant {:?}", self.all.table.tenant_type().show(tenant));
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        // In a task of its own: a caller that goes away does not leave a half-built filter installed.
        tokio::spawn(async move { all.rebuild_one(&found, crate::rebuild::Reason::Asked, accept_fewer).await })
            .await
            .map_err(crate::gate::died)?
    }

    /// Rebuilds the filters of all tenants: one after the other while most of them are in force, so that there is never more
    /// than one filter beside them; by one scan of the table while most are not. Tenants that came into being past the gate
    /// are found.
    pub async fn rebuild_all(&self, accept_fewer: bool) -> Result<Built> {
        let all = self.all.clone();
        tokio::spawn(async move { all.rebuild_everyone(accept_fewer).await }).await.map_err(crate::gate::died)?
    }

    /// The policy of a tenant.
    #[must_use]
    pub fn policy_of(&self, tenant: &Key) -> Policy {
        let own = self.all.own.get(tenant).and_then(|own| own.policy);
        own.unwrap_or(self.all.settings.policy)
    }
}

impl std::fmt::Debug for Tenants {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Tenants")
            .field("table", &self.all.table.describe())
            .field("tenants", &self.len())
            .finish_non_exhaustive()
    }
}
