//! What a filter stands on: one server, one file, one table, and one gate that writes to it. A source that finds itself
//! somewhere else says so here, and every gate before it stops saying no until it has scanned again.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// Who is told; false when it is gone.
type Listener = Box<dyn Fn() -> bool + Send + Sync>;

/// What a source stands on, and who relies on it.
#[derive(Default)]
pub struct Footing {
    moves: AtomicU64,
    why: Mutex<Option<String>>,
    listeners: Mutex<Vec<Listener>>,
}

impl Footing {
    /// It is not what it was: whatever was scanned before this moment says nothing about it. Told at once, in this call.
    pub fn moved(&self, why: impl Into<String>) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.into());
        self.moves.fetch_add(1, SeqCst);
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).retain(|listener| listener());
    }

    /// How often it moved.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves.load(SeqCst)
    }

    /// Why it moved last.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has somebody told of each move, until it says that it is gone. It must not wait.
    pub(crate) fn on_move(&self, listener: impl Fn() -> bool + Send + Sync + 'static) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }
}

impl fmt::Debug for Footing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Footing").field("moves", &self.moves()).field("why", &self.why()).finish_non_exhaustive()
    }
}
