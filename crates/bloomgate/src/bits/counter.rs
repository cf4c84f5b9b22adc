//! How many keys a filter took: a plain number when it is alone, spread over cache lines when it is shared.

use std::sync::OnceLock;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// A count that can be read and set.
pub trait Count: Send + Sync {
    /// A counter that starts at a value.
    fn starting_at(value: u64) -> Self;
    /// The value.
    fn get(&self) -> u64;
    /// Sets the value.
    fn set(&mut self, value: u64);
}

impl Count for u64 {
    fn starting_at(value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn get(&self) -> u64 {
        *self
    }
    fn set(&mut self, value: u64) {
        *self = value;
    }
}

/// Lines that threads share out among themselves.
#[cfg(not(loom))]
pub(crate) const STRIPES: usize = 16;
#[cfg(loom)]
pub(crate) const STRIPES: usize = 1;

#[derive(Debug)]
#[repr(align(128))]
struct Stripe(AtomicU64);

/// What a counter holds before it gets a line for each thread: up to here they meet in one.
const FEW: u64 = 1 << 16;

/// A counter that many threads raise without meeting: each thread adds to one of 16 lines of its own.
///
/// One shared line would cost every insert a transfer between cores (50 ns and more), several times the insert. But 16 of
/// them take 2 KB, more than the bits of a small filter: so there is one until the count is worth more (of 65,536 meetings
/// nobody notices the 3 ms).
#[derive(Debug)]
pub struct Counter {
    alone: AtomicU64,
    stripes: OnceLock<Box<[Stripe; STRIPES]>>,
}

impl Counter {
    /// Adds to this thread's stripe.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        match self.stripes.get() {
            Some(stripes) => drop(stripes[stripe()].0.fetch_add(more, Ordering::Relaxed)),
            None => self.add_alone(more),
        }
    }

    fn add_alone(&self, more: u64) {
        if self.alone.fetch_add(more, Ordering::Relaxed) >= FEW {
            self.stripes.get_or_init(|| Box::new(std::array::from_fn(|_| Stripe(AtomicU64::new(0)))));
        }
    }

    fn stripes(&self) -> &[Stripe] {
        self.stripes.get().map_or(&[], |stripes| &stripes[..])
    }

    /// Starts again at 0; what other threads add at that moment may or may not be counted.
    pub(crate) fn reset(&self) {
        self.alone.store(0, Ordering::Relaxed);
        self.stripes().iter().for_each(|stripe| stripe.0.store(0, Ordering::Relaxed));
    }
}

impl Count for Counter {
    fn starting_at(value: u64) -> Self {
        Self { alone: AtomicU64::new(value), stripes: OnceLock::new() }
    }
    #[inline]
    fn get(&self) -> u64 {
        let striped: u64 = self.stripes().iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum();
        self.alone.load(Ordering::Relaxed) + striped
    }
    fn set(&mut self, value: u64) {
        *self = Self::starting_at(value);
    }
}

/// The line of this thread.
#[cfg(not(loom))]
#[inline]
pub(crate) fn stripe() -> usize {
    use std::cell::Cell;
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.with(|mine| {
        let mut at = mine.get();
        if at == usize::MAX {
            at = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % STRIPES;
            mine.set(at);
        }
        at
    })
}

#[cfg(loom)]
pub(crate) fn stripe() -> usize {
    0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Small counts, the step to stripes, many threads over it, and starting again.
    #[test]
    fn counts_are_exact_through_the_step_to_stripes() {
        for start in [0, 10, FEW - 1, FEW + 5] {
            let mut counter = Counter::starting_at(start);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..50_000).for_each(|at| counter.add(1 + at % 3)));
                }
            });
            let added = 4 * (0..50_000u64).map(|at| 1 + at % 3).sum::<u64>();
            assert_eq!(counter.get(), start + added);
            assert!(counter.stripes.get().is_some());
            counter.reset();
            assert_eq!(counter.get(), 0);
            counter.add(7);
            assert_eq!(counter.get(), 7);
            counter.set(9);
            assert_eq!(counter.get(), 9);
        }
    }
}
