//! The settings of gates for many tenants: those of one gate, what tenants share, and what single ones have of their own.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloomgate::Secret;
use tokio::sync::{Notify, mpsc};

use super::budget::{Budget, Spending};
use super::{All, PIECES, Strangers, Tenants};
use crate::background::Background;
use crate::caches::Cache;
use crate::callers::Callers;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, Events, Listener};
use crate::filters;
use crate::gate::{Settings, Turns};
use crate::keeping;
use crate::key::Key;
use crate::policy::{Policy, Writers};
use crate::sources::TenantTable;

/// Samples of all tenants that may wait for their audit.
const AUDITS: usize = 1024;
/// The smallest filter of a tenant, in keys: half a kilobyte at 0.1 %.
const LEAST_KEYS: u64 = 256;
/// Tenants that are allowed unless it is said.
pub const MOST: usize = 10_000;

/// What one tenant has of its own; what is none is as for all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Own {
    /// The share of absent keys that may pass its filter.
    pub rate: Option<f64>,
    /// What its lookups get while its filter cannot say no.
    pub policy: Option<Policy>,
    /// How much its lookups count where the memory does not suffice for all: 1 unless said otherwise.
    pub weight: Option<f64>,
    /// The most memory its filter may take, in bytes.
    pub filter_memory: Option<u64>,
}

/// The settings of [`Tenants`] to be.
#[must_use]
#[derive(Clone)]
pub struct TenantsBuilder {
    table: Arc<dyn TenantTable>,
    cache: Option<Arc<dyn Cache>>,
    callers: Option<Arc<Callers>>,
    secret: Option<Secret>,
    listener: Option<Listener>,
    settings: Settings,
    own: Vec<(String, Own)>,
    most: usize,
    spending: Spending,
}

impl TenantsBuilder {
    pub(super) fn new(table: Arc<dyn TenantTable>) -> Self {
        let settings = Settings { least_keys: LEAST_KEYS, ..Settings::default() };
        Self {
            table,
            cache: None,
            callers: None,
            secret: None,
            listener: None,
            settings,
            own: Vec::new(),
            most: MOST,
            spending: Spending::default(),
        }
    }

    /// Where rows of all tenants are kept that were read before.
    pub fn cache(mut self, cache: Arc<dyn Cache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Caps on single clients, whichever tenants they ask for: see [`Builder::callers`](crate::Builder::callers).
    pub fn callers(mut self, callers: Arc<Callers>) -> Self {
        self.callers = Some(callers);
        self
    }

    /// How long a row stays in the cache (60 s).
    pub fn rows_for(mut self, keep: Duration) -> Self {
        self.settings.rows_for = keep;
        self
    }

    /// The share of absent keys of a tenant that may pass its filter: 0.001 unless told otherwise.
    pub fn rate(mut self, rate: f64) -> Self {
        self.settings.rate = rate;
        self
    }

    /// A filter is sized for the tenant's count times this (1.5), so that it holds until the next rebuild.
    pub fn headroom(mut self, headroom: f64) -> Self {
        self.settings.headroom = headroom;
        self
    }

    /// A filter is sized for at least so many keys (256), so that a small tenant can grow before it is rebuilt.
    pub fn least_keys(mut self, keys: u64) -> Self {
        self.settings.least_keys = keys;
        self
    }

    /// The most memory that the filters of all tenants may take together, in bytes (4 GB), and what happens when they do not
    /// fit. While one is rebuilt, it comes on top.
    pub fn filter_bytes(mut self, most: u64, spending: Spending) -> Self {
        (self.settings.filter_bytes, self.spending) = (most, spending);
        self
    }

    /// The most tenants there may be (10,000). Each takes about 8 KB beside its bits.
    pub fn most_tenants(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// What one tenant has of its own.
    pub fn tenant(mut self, tenant: impl Into<String>, own: Own) -> Self {
        self.own.push((tenant.into(), own));
        self
    }

    /// What a lookup gets while the filter of its tenant cannot say no.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// Who changes the table. Only gates that see every write may say no.
    pub fn writers(mut self, writers: Writers) -> Self {
        self.settings.writers = writers;
        self
    }

    /// The secret that keys are hashed under, otherwise for each tenant; without one (and without a folder) one is made for
    /// this run.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// The folder in which the filters and their secret are kept over a restart.
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.settings.data = Some(folder.into());
        self
    }

    /// How many absent keys are remembered for all tenants together (a million, 100 bytes each), and for how long (60 s).
    pub fn negatives(mut self, entries: usize, ttl: Duration) -> Self {
        self.settings.negatives = (entries, ttl);
        self
    }

    /// How many reads may be at the source at once (64), and how many may wait for their turn (4,096), of all tenants.
    pub fn source_limit(mut self, at_once: usize, waiting: usize) -> Self {
        self.settings.source_limit = (at_once, waiting);
        self
    }

    /// The share of "no" answers that are checked at the source in the background (0.001).
    pub fn audit_share(mut self, share: f64) -> Self {
        self.settings.audit_share = share;
        self
    }

    /// How often the filters are rebuilt, one after the other, give or take a tenth (24 h); `None`: only when asked or needed.
    pub fn rebuild_every(mut self, every: Option<Duration>) -> Self {
        self.settings.rebuild_every = every;
        self
    }

    /// How long a rebuild may wait for writes of its tenant before it gives up (60 s).
    pub fn write_patience(mut self, patience: Duration) -> Self {
        self.settings.write_patience = patience;
        self
    }

    /// Believes the first scan of each tenant whatever it has.
    pub fn accept_fewer(mut self, accept: bool) -> Self {
        self.settings.accept_fewer = accept;
        self
    }

    /// Who is told what happens, from the call of [`build`](Self::build) on. Called where it happens, so it must not wait.
    pub fn on_event(mut self, listener: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// The gates, or why there are none. They have no filters yet, or those of the folder, which may not say no:
    /// [`Tenants::start`] or [`Tenants::rebuild_all`] goes on from there. Reads the folder: call it before the runtime is busy.
    pub fn build(self) -> Result<Tenants> {
        self.settings.check()?;
        check_writers(self.settings.writers)?;
        let own = self.checked_own()?;
        if self.most == 0 {
            return Err(Error::new(ErrorKind::Invalid, "no tenants are allowed: allow at least 1 (--tenants-most)"));
        }
        let settings = self.settings;
        let events = Events::new(self.listener);
        let lock = settings.data.as_deref().map(keeping::lock).transpose()?;
        let secret = match (self.secret, &settings.data) {
            (Some(secret), _) => secret,
            (None, Some(folder)) => keeping::secret(folder)?,
            (None, None) => Secret::generate()?,
        };
        let naming = filters::contract(&secret.derive("the folders of tenants"), self.table.tenant_type());
        let (offered, offered_to) = mpsc::channel(AUDITS);
        let all = Arc::new(All {
            own,
            most: self.most,
            table: self.table,
            cache: self.cache,
            callers: self.callers,
            secret,
            naming,
            events,
            times: Arc::default(),
            pieces: (0..PIECES).map(|_| std::sync::RwLock::default()).collect(),
            count: AtomicUsize::new(0),
            creating: Mutex::default(),
            known: arc_swap::ArcSwapOption::empty(),
            knowing: Mutex::default(),
            turns: Arc::new(Turns::new(settings.source_limit.0, settings.source_limit.1)),
            negatives: Arc::new(AtomicUsize::new(settings.negatives.0)),
            strangers: Strangers::new(settings.audit_share, offered.clone()),
            offered,
            offered_to: Mutex::new(Some(offered_to)),
            budget: Arc::new(Budget::new(settings.filter_bytes, self.spending)),
            asked: Arc::new(Notify::new()),
            rebuilding: tokio::sync::Mutex::default(),
            rolling: AtomicBool::new(false),
            started: AtomicBool::new(false),
            writes: AtomicBool::new(false),
            background: Background::default(),
            lock: Mutex::new(lock),
            next_number: AtomicU64::new(0),
            unsaved: AtomicBool::new(false),
            had_list: AtomicBool::new(false),
            progress: super::fill::Scanned::default(),
            past: super::past::Past::default(),
            #[cfg(feature = "service")]
            labelled: Mutex::default(),
            settings,
        });
        all.stand_on_table();
        all.load()?;
        Ok(Tenants::of(all))
    }

    /// What tenants have of their own, by tenant.
    fn checked_own(&self) -> Result<HashMap<Key, Own>> {
        let mut checked = HashMap::new();
        for (name, own) in &self.own {
            let wrong = |why: String| Error::new(ErrorKind::Invalid, format!("the tenant {name:?}: {why}"));
            let tenant = self.table.tenant_type().parse(name).map_err(|error| wrong(error.to_string()))?;
            if let Some(rate) = own.rate {
                Settings { rate, ..self.settings.clone() }.check().map_err(|error| wrong(error.to_string()))?;
            }
            if own.weight.is_some_and(|weight| !(1e-6..=1e6).contains(&weight)) {
                return Err(wrong("its weight is a number from 0.000001 to 1000000".to_owned()));
            }
            if checked.insert(tenant, *own).is_some() {
                return Err(wrong("its settings are there twice, in two spellings".to_owned()));
            }
        }
        Ok(checked)
    }
}

/// The one place that says which kinds of writers go with tenants.
fn check_writers(writers: Writers) -> Result<()> {
    if ["sole", "unknown"].contains(&writers.name()) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "tenants and writers = {writers} do not go together yet: let all writes pass the gate (writers = sole), or only \
             watch (writers = unknown), or leave the tenants out and gate one column that is unique over all of them, as a \
             generated one of tenant and key: of that a feed can tell"
        ),
    ))
}
