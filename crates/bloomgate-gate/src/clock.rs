//! Time, so that tests can hold it: what ends and what waits asks a clock that it was given.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Where time comes from. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Nanoseconds, when it is moved by hand.
    by_hand: Option<Arc<AtomicU64>>,
}

impl Clock {
    /// The system's: it never runs backwards.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// One that stands until [`advance`](Self::advance) moves it.
    #[must_use]
    pub fn by_hand() -> Self {
        Self { by_hand: Some(Arc::default()) }
    }

    /// Moves a clock that is moved by hand; the system's takes no notice.
    pub fn advance(&self, by: Duration) {
        if let Some(nanos) = &self.by_hand {
            nanos.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// How long it is since some moment that stays the same while the process runs.
    #[must_use]
    pub fn now(&self) -> Duration {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        match &self.by_hand {
            Some(nanos) => Duration::from_nanos(nanos.load(Ordering::Relaxed)),
            None => BEGAN.get_or_init(Instant::now).elapsed(),
        }
    }
}
