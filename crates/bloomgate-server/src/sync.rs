//! Locks and atomics of the engine, and the places between which others may act.
//!
//! In ordinary builds they are the standard library's, and [`point`] and [`broken`] are nothing. Under
//! `--cfg bloomgate_shuttle` they are shuttle's: the models in `tests/models` then run the engine, its sessions and its
//! snapshots through thousands of interleavings, each the same whenever it is run again. Memory orderings are not their
//! subject (shuttle's memory is sequentially consistent); the fences are proved by the library's loom models.

#[cfg(not(bloomgate_shuttle))]
mod chosen {
    use super::Fault;

    pub use std::sync::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
    /// Atomics.
    pub mod atomic {
        pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    }

    /// How names are spread over shards: by a secret of this run, so that nobody can choose names of one shard.
    pub type Spread = std::hash::RandomState;

    /// A place where another thread may act before this one goes on.
    #[inline(always)]
    pub fn point() {}

    /// Whether a step is left out or turned round: never.
    #[inline(always)]
    #[must_use]
    pub const fn broken(_: Fault) -> bool {
        false
    }

    /// Lets a thread go on that this one waits for, where that is a matter of microseconds.
    pub fn give_way() {
        std::thread::yield_now();
    }

    /// Lets others go first, where a thread may wait.
    pub fn rest() {
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

#[cfg(bloomgate_shuttle)]
mod chosen {
    use std::cell::Cell;

    use super::Fault;

    pub use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
    /// Atomics.
    pub mod atomic {
        pub use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
        pub use std::sync::atomic::fence;
    }

    /// How names are spread over shards: the same in every run.
    pub type Spread = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

    /// A place where another thread may act before this one goes on.
    pub fn point() {
        // Shuttle may change threads before any access to its atomics. Its `yield_now` would be more than that: a hint
        // that this thread waits for another.
        atomic::AtomicBool::new(false).load(atomic::Ordering::SeqCst);
    }

    thread_local! {
        // All threads of a model are run by the one that explores it.
        static BROKEN: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Whether a step is left out or turned round.
    #[must_use]
    pub fn broken(fault: Fault) -> bool {
        BROKEN.get() == Some(fault)
    }

    /// Breaks a step in what this thread explores from now on, or nothing any more.
    pub fn break_step(fault: Option<Fault>) {
        BROKEN.set(fault);
    }

    /// Lets a thread go on that this one waits for.
    pub fn give_way() {
        shuttle::thread::yield_now();
    }

    /// Lets others go first, where a thread may wait.
    pub fn rest() {
        shuttle::thread::yield_now();
    }
}

pub use chosen::*;

/// Steps that models can break, to show that they notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Who changes the structure stops nobody.
    OpenGates,
    /// Bits are set before their record is in the log.
    BitsFirst,
    /// A writer who sets bits before their record does not say so.
    Unannounced,
    /// A stage may be opened by two at once.
    GrowthUnlocked,
    /// A snapshot lets the one writer of a filter go before it has copied it.
    WriterLetGo,
    /// A snapshot is complete before the log is durable up to its images.
    LogBehind,
    /// A snapshot takes its sequence when it has let the writers go.
    SequenceLate,
    /// Threads are not told that a name has lost its filter.
    StaleNames,
    /// An add leaves the report that its item is absent.
    TagsKept,
    /// An add does not say to reports that its item was added.
    AddsForgotten,
    /// The log may refuse what was changed already.
    LateRefusals,
    /// A filter is watched while somebody writes to it.
    WatchBeside,
}
