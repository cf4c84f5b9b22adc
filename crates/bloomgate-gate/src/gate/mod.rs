//! The gate: one pointer for the filter, one shard for a key in flight, one cap for the source.

mod admission;
mod announce;
mod builder;
mod caps;
mod judge;
mod read;
mod turns;
mod write;

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bloomgate::Secret;

pub use announce::{Announced, Removal, Unnamed};
pub use builder::Builder;
pub(crate) use caps::{count_adds, refusal};
pub use judge::{Judgement, Passed, Seen};
pub use read::MOST_KEYS;
pub(crate) use read::{Verdict, fits};

use crate::audit::Audits;
use crate::background::Background;
use crate::baseline::Baseline;
use crate::caches::Cache;
use crate::callers::Callers;
use crate::counters::Counters;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, Events};
use crate::feed::{FeedOptions, Feeding, Mark};
use crate::filters::Filters;
use crate::ground::Ground;
use crate::keeping;
use crate::key::Key;
use crate::policy::{Policy, State, Writers};
use crate::puts::Puts;
use crate::rebuild::Rebuilds;
use crate::shards::Shards;
use crate::sources::Source;
use crate::tenants::Room;
use crate::times::Times;
use admission::Admission;
pub(crate) use admission::Entrance;
pub(crate) use turns::Turns;

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
    pub accept_fewer: bool,
    /// The smallest filter: a table that begins empty has room to grow before it is rebuilt.
    pub least_keys: u64,
    pub max_staleness: Duration,
    pub feed_save_every: Duration,
    pub feed_hold: Duration,
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
            accept_fewer: false,
            least_keys: 10_000,
            max_staleness: Duration::from_secs(5),
            feed_save_every: Duration::from_secs(300),
            feed_hold: Duration::from_secs(86_400),
        }
    }
}

/// What a gate is made of. Some of it is its own, some it may share with the gates of other tenants.
pub(crate) struct Parts {
    pub settings: Settings,
    pub source: Arc<dyn Source>,
    pub cache: Option<Arc<dyn Cache>>,
    pub callers: Option<Arc<Callers>>,
    /// The secret that the gate's own is derived from, by what its source is.
    pub secret: Secret,
    pub events: Events,
    pub lock: Option<File>,
    pub shards: Shards,
    pub counters: Counters,
    pub times: Arc<Times>,
    pub entrance: Entrance,
    pub audits: Audits,
    pub rebuilds: Rebuilds,
    pub room: Option<Room>,
    #[cfg(feature = "redis")]
    pub remote: Option<Arc<crate::filters::resp::RespFilters>>,
}

pub(crate) struct Inner {
    pub settings: Settings,
    /// Whether it ever says no: not if it only watches, or the source cannot list its keys.
    pub may_block: bool,
    pub events: Events,
    /// How many keys the source should have.
    pub baseline: Baseline,
    pub source: Arc<dyn Source>,
    pub cache: Option<Arc<dyn Cache>>,
    /// The caps on single clients.
    pub callers: Option<Arc<Callers>>,
    pub filters: Filters,
    /// Where the filters are made, if not in this process.
    #[cfg(feature = "redis")]
    pub remote: Option<Arc<crate::filters::resp::RespFilters>>,
    pub shards: Shards,
    pub puts: Arc<Puts>,
    /// Writes that make keys which only their answers tell.
    pub unnamed: announce::UnnamedWrites,
    pub counters: Counters,
    /// How long lookups and reads took; of many tenants, one for all.
    pub times: Arc<Times>,
    pub entrance: Entrance,
    pub audits: Audits,
    pub rebuilds: Rebuilds,
    pub background: Background,
    /// The folder is this gate's alone until it stops.
    pub lock: Mutex<Option<File>>,
    /// The version the next filter gets.
    pub next_version: AtomicU64,
    pub ground: Ground,
    /// The share of a budget that its filters may take, if it is one of many.
    pub room: Option<Room>,
    /// One saves at a time: bits and mark belong together.
    pub saving: tokio::sync::Mutex<()>,
    /// What others write, if the source tells it.
    pub feeding: Option<Feeding>,
}

impl Settings {
    /// Whether a gate of these settings ever says no.
    pub(crate) fn may_block(&self, source: &dyn Source) -> bool {
        self.policy != Policy::Shadow && self.writers != Writers::Unknown && source.lists_keys()
    }
}

impl Inner {
    pub(crate) fn assemble(parts: Parts) -> Result<Arc<Self>> {
        let Parts { settings, source, events, .. } = parts;
        let secret = parts.secret.derive(&format!("gate {}", source.describe()));
        let data = settings.data.as_deref();
        let (baseline, wrong) = Baseline::open(data, &source.describe(), settings.accept_fewer)?;
        let loaded =
            data.map_or(Ok(None), |folder| keeping::load(folder, &secret, source.key_type(), baseline.removed()));
        let (saved, mark) = loaded
            .unwrap_or_else(|why| {
                events.tell(Event::SavedUnusable { why });
                None
            })
            .unzip();
        if let Some(why) = wrong {
            events.tell(Event::SavedUnusable { why });
        }
        let next_version = saved.as_ref().map_or(1, |saved| saved.version() + 1);
        let feeding = feeding(&settings, &*source, mark.flatten())?;
        let inner = Self {
            filters: Filters::new(&secret, source.key_type(), saved, events.clone()),
            may_block: settings.may_block(&*source),
            events,
            baseline,
            shards: parts.shards,
            puts: Arc::default(),
            unnamed: announce::UnnamedWrites::default(),
            counters: parts.counters,
            times: parts.times,
            entrance: parts.entrance,
            audits: parts.audits,
            rebuilds: parts.rebuilds,
            background: Background::default(),
            lock: Mutex::new(parts.lock),
            next_version: AtomicU64::new(next_version),
            ground: Ground::default(),
            saving: tokio::sync::Mutex::default(),
            feeding,
            room: parts.room,
            #[cfg(feature = "redis")]
            remote: parts.remote,
            settings,
            source,
            cache: parts.cache,
            callers: parts.callers,
        };
        let inner = Arc::new(inner);
        inner.stand_on_source();
        Ok(inner)
    }
}

impl Gate {
    /// The settings of a gate before this source.
    pub fn builder(source: Arc<dyn Source>) -> Builder {
        Builder::new(source)
    }

    fn open(builder: Builder) -> Result<Self> {
        #[cfg(feature = "redis")]
        let remote = builder.remote;
        let Builder { source, cache, callers, secret, listener, settings, .. } = builder;
        let events = Events::new(listener);
        let lock = settings.data.as_deref().map(keeping::lock).transpose()?;
        let secret = match (secret, &settings.data) {
            (Some(secret), _) => secret,
            (None, Some(folder)) => keeping::secret(folder)?,
            (None, None) => Secret::generate()?,
        };
        let (at_once, waiting) = settings.source_limit;
        let may_block = settings.may_block(&*source);
        let inner = Inner::assemble(Parts {
            // A gate that does not see every write must not remember a "no".
            shards: Shards::new(if may_block { settings.negatives.0 } else { 0 }, settings.negatives.1),
            counters: Counters::new(),
            times: Arc::default(),
            entrance: Entrance::Own(Admission::new(at_once, waiting)),
            audits: Audits::new(settings.audit_share),
            rebuilds: Rebuilds::default(),
            room: None,
            #[cfg(feature = "redis")]
            remote,
            settings,
            source,
            cache,
            callers,
            secret,
            events,
            lock,
        })?;
        Ok(Self::of(inner))
    }

    /// A handle of a gate.
    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        Self { _alive: Arc::new(Alive(inner.clone())), inner }
    }

    /// What the filter is good for at this moment.
    #[must_use]
    pub fn state(&self) -> State {
        self.inner.state_of(self.inner.filters.face().state)
    }

    /// Whether this gate ever says no: not if it only watches, by its policy, because others write too, or because the
    /// source cannot list its keys.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.inner.may_block
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

/// The feed of a gate that others write beside.
fn feeding(settings: &Settings, source: &dyn Source, mark: Option<Mark>) -> Result<Option<Feeding>> {
    if settings.writers != Writers::Feed {
        return Ok(None);
    }
    let reader = match &settings.data {
        Some(folder) => keeping::reader(folder)?,
        None => keeping::new_reader()?,
    };
    let Some(feed) = source.feed(FeedOptions { reader, hold: settings.feed_hold }) else {
        let message = format!(
            "{} has no feed of what others write: only tables of SQLite and PostgreSQL have. Set writers to sole or unknown",
            source.describe()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    let times = [settings.max_staleness, settings.feed_save_every, settings.feed_hold];
    Ok(Some(Feeding::new(feed, times, mark)))
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
