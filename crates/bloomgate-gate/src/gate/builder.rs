//! A gate's settings: each has a default that is safe, and `build` alone says what does not fit.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bloomgate::Secret;

use super::{Gate, Settings};
use crate::caches::Cache;
use crate::callers::Callers;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, Listener};
use crate::policy::{Policy, Writers};
use crate::sources::Source;

/// The settings of a gate to be: see [`Gate::builder`].
#[must_use]
#[derive(Clone)]
pub struct Builder {
    pub(super) source: Arc<dyn Source>,
    pub(super) cache: Option<Arc<dyn Cache>>,
    pub(super) callers: Option<Arc<Callers>>,
    pub(super) secret: Option<Secret>,
    pub(super) listener: Option<Listener>,
    pub(super) settings: Settings,
    #[cfg(feature = "redis")]
    pub(super) remote: Option<Arc<crate::filters::resp::RespFilters>>,
}

impl Builder {
    pub(super) fn new(source: Arc<dyn Source>) -> Self {
        Self {
            source,
            cache: None,
            callers: None,
            secret: None,
            listener: None,
            settings: Settings::default(),
            #[cfg(feature = "redis")]
            remote: None,
        }
    }

    /// Where rows are kept that were read before. Without one every lookup of a row that exists reaches the source.
    pub fn cache(mut self, cache: Arc<dyn Cache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The caps on single clients, for calls that name one: [`Gate::get_for`], [`Gate::put_for`]. Without it there is none.
    pub fn callers(mut self, callers: Arc<Callers>) -> Self {
        self.callers = Some(callers);
        self
    }

    /// How long a row stays in the cache (60 s).
    pub fn rows_for(mut self, keep: Duration) -> Self {
        self.settings.rows_for = keep;
        self
    }

    /// The share of absent keys that may pass the filter: 0.001 unless told otherwise.
    pub fn rate(mut self, rate: f64) -> Self {
        self.settings.rate = rate;
        self
    }

    /// The filter is sized for the source's count times this (1.5), so that it holds until the next rebuild.
    pub fn headroom(mut self, headroom: f64) -> Self {
        self.settings.headroom = headroom;
        self
    }

    /// The most memory a filter may take, in bytes (4 GB).
    pub fn filter_bytes(mut self, most: u64) -> Self {
        self.settings.filter_bytes = most;
        self
    }

    /// Keeps the filter behind the Redis protocol instead of in this process. A filter there that is slow or gone is not
    /// waited for: the answer is "maybe" then.
    #[cfg(feature = "redis")]
    pub fn remote_filter(mut self, filters: crate::filters::resp::RespFilters) -> Self {
        self.remote = Some(Arc::new(filters));
        self
    }

    /// What a lookup gets while the filter cannot say no.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// Who changes the source. Only a gate that sees every write may say no.
    pub fn writers(mut self, writers: Writers) -> Self {
        self.settings.writers = writers;
        self
    }

    /// How old what is known of others' writes may be (5 s): a filter whose feed is further behind does not say no.
    pub fn max_staleness(mut self, most: Duration) -> Self {
        self.settings.max_staleness = most;
        self
    }

    /// How often a filter that follows a feed is saved (5 min): what was told since is read again after a kill.
    pub fn feed_save_every(mut self, every: Duration) -> Self {
        self.settings.feed_save_every = every;
        self
    }

    /// How long the feed keeps what a gate that is away has not read yet (24 h).
    pub fn feed_hold(mut self, hold: Duration) -> Self {
        self.settings.feed_hold = hold;
        self
    }

    /// The secret that keys are hashed under; without one (and without a folder) one is made for this run.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// The folder in which the filter and its secret are kept over a restart.
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.settings.data = Some(folder.into());
        self
    }

    /// How many absent keys are remembered (a million, 100 bytes each), and for how long (60 s). Zero of either: none.
    pub fn negatives(mut self, entries: usize, ttl: Duration) -> Self {
        self.settings.negatives = (entries, ttl);
        self
    }

    /// How many reads may be at the source at once (64), and how many may wait for their turn (4,096): beyond, lookups
    /// are refused as busy.
    pub fn source_limit(mut self, at_once: usize, waiting: usize) -> Self {
        self.settings.source_limit = (at_once, waiting);
        self
    }

    /// The share of "no" answers that are checked at the source in the background (0.001).
    pub fn audit_share(mut self, share: f64) -> Self {
        self.settings.audit_share = share;
        self
    }

    /// How often the filter is rebuilt, give or take a tenth (24 h); `None`: only when asked or needed.
    pub fn rebuild_every(mut self, every: Option<Duration>) -> Self {
        self.settings.rebuild_every = every;
        self
    }

    /// How long a rebuild may wait for writes under way before it gives up (60 s).
    pub fn write_patience(mut self, patience: Duration) -> Self {
        self.settings.write_patience = patience;
        self
    }

    /// Believes the first scan whatever it has: a source that has far fewer keys than at the last rebuild is refused
    /// otherwise.
    pub fn accept_fewer(mut self, accept: bool) -> Self {
        self.settings.accept_fewer = accept;
        self
    }

    /// A filter is sized for at least so many keys (10,000), so that a small table can grow before it is rebuilt.
    pub fn least_keys(mut self, keys: u64) -> Self {
        self.settings.least_keys = keys;
        self
    }

    /// Who is told what happens, from the call of [`build`](Self::build) on. Called where it happens, so it must not wait.
    pub fn on_event(mut self, listener: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// The gate, or why there is none. It has no filter yet, or one from its folder that may not say no:
    /// [`Gate::start`] or [`Gate::rebuild`] goes on from there.
    pub fn build(self) -> Result<Gate> {
        self.settings.check()?;
        Gate::open(self)
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<()> {
        let within = |name: &str, value: f64, least: f64, most: f64, what: &str| {
            if value >= least && value <= most {
                return Ok(());
            }
            let message = format!("{name} is {value}: {what}, from {least} to {most}");
            Err(Error::new(ErrorKind::Invalid, message))
        };
        within("the rate", self.rate, 1e-9, 0.5, "a share of absent keys")?;
        within("the headroom", self.headroom, 1.0, 100.0, "a factor")?;
        within("the share of audits", self.audit_share, 0.0, 1.0, "a share of answers")?;
        within("the reads at the source at once", self.source_limit.0 as f64, 1.0, 100_000.0, "a number")?;
        within("the negative entries", self.negatives.0 as f64, 0.0, 1e9, "a number")?;
        let year = Duration::from_secs(366 * 86_400);
        for (name, time) in [
            ("the time rows are kept", self.rows_for),
            ("the time absent keys are remembered", self.negatives.1),
            ("the time between rebuilds", self.rebuild_every.unwrap_or(year)),
            ("the staleness allowed", self.max_staleness),
            ("the time between saves", self.feed_save_every),
            ("the time a feed is held", self.feed_hold),
        ] {
            if time > year {
                let message = format!("{name} is {time:?}: at most a year is allowed");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        if self.max_staleness < Duration::from_millis(100) {
            let message =
                "the staleness allowed is less than 100 ms: a feed is read every 20 to 50 ms, allow some of that";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.feed_save_every < Duration::from_millis(100) || self.feed_hold < Duration::from_secs(1) {
            let message = "a filter is saved at most every 100 ms, and a feed held for at least a second: allow more";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.rebuild_every.is_some_and(|every| every < Duration::from_secs(1)) {
            let message = "the time between rebuilds is less than a second: give at least one, or none for no schedule";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }
}
