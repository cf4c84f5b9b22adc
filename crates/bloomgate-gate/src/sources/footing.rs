//! What a filter stands on: one server, one file, one table, and one gate that writes to it. A source that finds itself
//! somewhere else says so here, and every gate before it stops saying no until it has scanned again.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use std::time::Duration;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::error::{Error, ErrorKind};

/// How long a gate that begins to write waits for those that say no beside it: they look every second.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const LETTING_GO: Duration = Duration::from_secs(3);
/// How often it looks whether they have let go.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const AGAIN: Duration = Duration::from_millis(20);

/// What is said where another gate writes: to one that would say no, and to one that would write too.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn taken(what: &dyn fmt::Display) -> Error {
    let message = format!(
        "another gate writes to {what}. A gate that says no must see every write: stop the other one, or send all writes \
         through it; one without writes can run beside it with writers = unknown, or feed"
    );
    Error::new(ErrorKind::Source, message)
}

/// What is said to a gate that is about to write where another one goes on saying no.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn relied_on(what: &dyn fmt::Display, by: &str) -> Error {
    let message = format!(
        "another gate ({by}) says no to what is not in {what}, would not see this write, and has not let go within \
         {LETTING_GO:?}: nothing was written. Stop that gate, or run it with writers = unknown, or feed, and write again"
    );
    Error::new(ErrorKind::Source, message)
}

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
