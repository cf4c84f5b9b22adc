//! Many write at once, each through an own gate; who changes the structure closes all gates.
//!
//! **Why.** A write names a filter, finds it, puts its record into the log and its bits into the filter. If the filter
//! were deleted, renamed away or replaced in between, the write would go to nobody and still be acknowledged. A lock
//! around the whole keyspace would stop that and make the cores wait for each other; so each thread has a lock of its
//! own on a cache line of its own (10 ns to take, nobody else wants it), and the few who change names take them all.
//!
//! A transaction takes them all too: nothing of another writer comes between its commands. Lookups take none.
//!
//! The locks are not fair: who lets one go and takes it again has it before a thread that sleeps for it is awake. One that
//! stopped everybody again and again (a pipeline of `CF.COMPACT`) kept the writes of other threads away for minutes, so
//! who stops lets a writer that waits at a gate pass before.

use std::sync::{PoisonError, TryLockError};

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Fault, Mutex, MutexGuard, broken, give_way, rest};

/// One gate on its own pair of cache lines: processors fetch them in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Gate {
    lock: Mutex<()>,
    /// Writers that found it closed and wait, and how many of those have passed.
    waiting: AtomicU64,
    passed: AtomicU64,
}

/// How often who stops looks whether a writer has passed before it rests in between: a thread is awake after some ten
/// microseconds, and another standstill may take milliseconds.
const LOOKS: u32 = 100;

/// A lock with one gate per thread.
#[derive(Debug)]
pub struct Turnstile {
    gates: Box<[Gate]>,
}

/// A thread is writing.
#[derive(Debug)]
pub struct Passing<'a>(#[allow(dead_code)] MutexGuard<'a, ()>);

/// Nobody is writing.
#[derive(Debug)]
pub struct Standstill<'a>(#[allow(dead_code)] Vec<MutexGuard<'a, ()>>);

impl Turnstile {
    /// Gates for so many threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self { gates: (0..threads.max(1)).map(|_| Gate::default()).collect() }
    }

    /// How many gates there are: so many may write at once.
    #[must_use]
    pub fn gates(&self) -> usize {
        self.gates.len()
    }

    /// Lets a thread write until the guard is dropped. A thread that holds one must not ask for [`stop`](Self::stop).
    #[inline]
    pub fn pass(&self, thread: usize) -> Passing<'_> {
        Passing(self.gates[thread % self.gates.len()].pass())
    }

    /// Waits for every write in progress and holds off new ones until the guard is dropped.
    #[must_use]
    pub fn stop(&self) -> Standstill<'_> {
        // Always in the same order: two who stop cannot wait for each other.
        let gates = if broken(Fault::OpenGates) { &[] } else { &self.gates[..] };
        // Before the first is taken: who waits here holds up nobody.
        gates.iter().for_each(Gate::let_one_pass);
        Standstill(gates.iter().map(Gate::close).collect())
    }
}

impl Gate {
    // A panic under the lock leaves nothing half done that the lock protects: names change in one step.
    fn close(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn pass(&self) -> MutexGuard<'_, ()> {
        match self.lock.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, ()> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.close();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.passed.fetch_add(1, Ordering::Relaxed);
        guard
    }

    /// If writers wait, one of them goes first.
    fn let_one_pass(&self) {
        let passed = self.passed.load(Ordering::Relaxed);
        let mut looks = 0;
        while self.waiting.load(Ordering::Relaxed) > 0 && self.passed.load(Ordering::Relaxed) == passed {
            looks += 1;
            if looks < LOOKS { give_way() } else { rest() }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn who_stops_is_alone() {
        let turnstile = Arc::new(Turnstile::new(3));
        let (left, right) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (turnstile, left, right) = (turnstile.clone(), left.clone(), right.clone());
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let _passing = turnstile.pass(thread);
                        left.fetch_add(1, Ordering::Relaxed);
                        right.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..500 {
                let _alone = turnstile.stop();
                assert_eq!(left.load(Ordering::Relaxed), right.load(Ordering::Relaxed));
            }
        });
        assert_eq!(left.load(Ordering::Relaxed), 60_000);
    }

    #[test]
    fn who_stops_again_and_again_lets_others_write() {
        const PASSES: u64 = 300;
        let turnstile = Turnstile::new(2);
        let (stops, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let work = || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(200) {}
        };
        let mut waited = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Enough to be over without the writer, and to show then how long it waited.
                while !is_over.load(Ordering::Relaxed) && stops.fetch_add(1, Ordering::Relaxed) < 20_000 {
                    let _alone = turnstile.stop();
                    work();
                }
            });
            while stops.load(Ordering::Relaxed) < 10 {}
            for _ in 0..PASSES {
                // Long enough for the other one to be at it again.
                work();
                let before = stops.load(Ordering::Relaxed);
                drop(turnstile.pass(1));
                waited += stops.load(Ordering::Relaxed) - before;
            }
            is_over.store(true, Ordering::Relaxed);
        });
        // Each for the one that is under way, and one that had looked already; for more where the system has other things to do.
        assert!(waited <= 10 * PASSES, "{PASSES} writes waited for {waited} others");
    }
}
