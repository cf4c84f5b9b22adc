//! Many write at once, each through an own gate; who changes the structure closes all gates.
//!
//! **Why.** A write names a filter, finds it, puts its record into the log and its bits into the filter. If the filter
//! were deleted, renamed away or replaced in between, the write would go to nobody and still be acknowledged. A lock
//! around the whole keyspace would stop that and make the cores wait for each other; so each thread has a lock of its
//! own on a cache line of its own (10 ns to take, nobody else wants it), and the few who change names take them all.
//!
//! A transaction takes them all too: nothing of another writer comes between its commands. Lookups take none.

use std::sync::PoisonError;

use crate::sync::{Fault, Mutex, MutexGuard, broken};

/// One gate on its own pair of cache lines: processors fetch them in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Gate(Mutex<()>);

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
        // A panic under the lock leaves nothing half done that the lock protects: names change in one step.
        Passing(self.gates[thread % self.gates.len()].0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for every write in progress and holds off new ones until the guard is dropped.
    #[must_use]
    pub fn stop(&self) -> Standstill<'_> {
        // Always in the same order: two who stop cannot wait for each other.
        let gates = if broken(Fault::OpenGates) { &[] } else { &self.gates[..] };
        Standstill(gates.iter().map(|gate| gate.0.lock().unwrap_or_else(PoisonError::into_inner)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

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
}
