//! Writes under way: a rebuild must not read the source before those that began without it have ended.

use std::sync::{Arc, PoisonError};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};

/// The writes that began between two rebuilds.
#[derive(Debug, Default)]
pub(super) struct Era {
    open: AtomicU64,
    waiting: Mutex<()>,
    ended: Condvar,
}

impl Era {
    /// A write begins. The caller holds the guard's lock, so that no rebuild begins at this moment.
    pub(super) fn begin(self: &Arc<Self>) -> Writing {
        self.open.fetch_add(1, Ordering::Relaxed);
        Writing { era: Arc::clone(self) }
    }

    pub(super) fn open(&self) -> u64 {
        // Acquire: what a write did before it ended is seen by who finds it ended.
        self.open.load(Ordering::Acquire)
    }

    /// Waits until no write of this era is open.
    pub(super) fn wait(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while self.open() > 0 {
            waiting = self.ended.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A write under way: the key is in the filter, and the source is about to get it. Keep this until the source has said
/// that the write is done, or that it never will be; then drop it.
///
/// A [rebuild](super::Rebuild) waits for the writes that began before it. So who does not know how a write ended (the
/// connection broke) keeps this until it is known.
#[must_use = "drop this after the source has the key, not before: a rebuild in between would miss it"]
#[derive(Debug)]
pub struct Writing {
    era: Arc<Era>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        if self.era.open.fetch_sub(1, Ordering::Release) == 1 {
            // Under the lock, so that nobody looks before and sleeps after.
            let _waiting = self.era.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            self.era.ended.notify_all();
        }
    }
}
