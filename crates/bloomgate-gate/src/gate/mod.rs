//! The gate: one pointer for the filter, one shard for a key in flight, one cap for the source.

mod admission;
mod builder;
mod read;
mod write;

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bloomgate::Secret;

pub use builder::Builder;
pub use read::MOST_KEYS;
pub(crate) use read::Verdict;

use crate::audit::Audits;
use crate::background::Background;
use crate::caches::Cache;
use crate::counters::Counters;
use crate::error::{Error, ErrorKind, Result};
use crate::filters::Filters;
use crate::ground::Ground;
use crate::keeping;
use crate::key::Key;
use crate::policy::{Policy, State, Writers};
use crate::puts::Puts;
use crate::rebuild::Rebuilds;
use crate::shards::Shards;
use crate::sources::Source;
use admission::Admission;

/// Stands before a cache and a source of truth, and keeps lookups of absent keys away from them.
///
/// A handle: clones share one gate. Its calls need a tokio runtime; [`look`](Self::look) alone does not.
#[derive(Clone)]
pub struct Gate {
    pub(crate) inner: Arc<Inner>,
    _alive: Arc<Alive>,
}

/// Ends what runs in the background when the last handle is gone.
struct Alive(Arc<Inner>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.background.stop();
    }
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub rate: f64,
    pub headroom: f64,
    pub filter_bytes: u64,
    pub policy: Policy,
    pub writers: Writers,
    pub data: Option<PathBuf>,
    pub rows_for: Duration,
    pub negatives: (usize, Duration),
    pub source_limit: (usize, usize),
    pub audit_share: f64,
    pub rebuild_every: Option<Duration>,
    pub write_patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate: 0.001,
            headroom: 1.5,
            filter_bytes: 4 << 30,
            policy: Policy::default(),
            writers: Writers::default(),
            data: None,
            rows_for: Duration::from_secs(60),
            negatives: (1_000_000, Duration::from_secs(60)),
            source_limit: (64, 4096),
            audit_share: 0.001,
            rebuild_every: Some(Duration::from_secs(86_400)),
            write_patience: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// Whether a gate with these ever says no.
    pub fn may_block(&self) -> bool {
        self.policy != Policy::Shadow && self.writers != Writers::Unknown
    }
}

pub(crate) struct Inner {
    pub settings: Settings,
    pub source: Arc<dyn Source>,
    pub cache: Option<Arc<dyn Cache>>,
    pub filters: Filters,
    /// Where the filters are made, if not in this process.
    #[cfg(feature = "redis")]
    pub remote: Option<Arc<crate::filters::resp::RespFilters>>,
    pub shards: Shards,
    pub puts: Arc<Puts>,
    pub counters: Counters,
    pub admission: Admission,
    pub audits: Audits,
    pub rebuilds: Rebuilds,
    pub background: Background,
    /// The folder is this gate's alone until it stops.
    pub lock: Mutex<Option<File>>,
    /// The version the next filter gets.
    pub next_version: AtomicU64,
    pub ground: Ground,
}

impl Gate {
    /// The settings of a gate before this source.
    pub fn builder(source: Arc<dyn Source>) -> Builder {
        Builder::new(source)
    }

    fn open(builder: Builder) -> Result<Self> {
        #[cfg(feature = "redis")]
        let remote = builder.remote;
        let Builder { source, cache, secret, settings, .. } = builder;
        let lock = settings.data.as_deref().map(keeping::lock).transpose()?;
        let secret = match (secret, &settings.data) {
            (Some(secret), _) => secret,
            (None, Some(folder)) => keeping::secret(folder)?,
            (None, None) => Secret::generate()?,
        };
        let secret = secret.derive(&format!("gate {}", source.describe()));
        let saved = settings.data.as_deref().and_then(|folder| keeping::load(folder, &secret, source.key_type()));
        let next_version = saved.as_ref().map_or(1, |saved| saved.version() + 1);
        let (at_once, waiting) = settings.source_limit;
        let may_block = settings.may_block();
        let inner = Inner {
            filters: Filters::new(&secret, source.key_type(), saved),
            // A gate that does not see every write must not remember a "no".
            shards: Shards::new(if may_block { settings.negatives.0 } else { 0 }, settings.negatives.1),
            puts: Arc::default(),
            counters: Counters::new(),
            admission: Admission::new(at_once, waiting),
            audits: Audits::new(settings.audit_share),
            rebuilds: Rebuilds::default(),
            background: Background::default(),
            lock: Mutex::new(lock),
            next_version: AtomicU64::new(next_version),
            ground: Ground::default(),
            #[cfg(feature = "redis")]
            remote,
            settings,
            source,
            cache,
        };
        let inner = Arc::new(inner);
        inner.stand_on_source();
        Ok(Self { _alive: Arc::new(Alive(inner.clone())), inner })
    }

    /// What the filter is good for at this moment.
    #[must_use]
    pub fn state(&self) -> State {
        self.inner.filters.face().state
    }

    /// Whether this gate ever says no: not if it only watches, by its policy or because others write too.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.inner.settings.may_block()
    }

    /// The key that a text writes in the type of the source's key column.
    pub fn parse_key(&self, text: &str) -> Result<Key> {
        self.inner.source.key_type().parse(text)
    }

    /// The source, for what the gate does not do.
    #[must_use]
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.inner.source
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Gate").field("source", &self.inner.source.describe()).field("state", &self.state()).finish()
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// An error that a task died with: it never should.
pub(crate) fn died(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Source, format!("the task that did it ended early: {error}"))
}
