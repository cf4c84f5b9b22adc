//! How many keys a filter took: a plain number when it is alone, spread over cache lines when it is shared.

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

#[cfg(not(loom))]
const STRIPES: usize = 16;
#[cfg(loom)]
const STRIPES: usize = 1;

#[derive(Debug)]
#[repr(align(128))]
struct Stripe(AtomicU64);

/// A counter that many threads raise without meeting: each thread adds to one of 16 lines of its own.
///
/// One shared line would cost every insert a transfer between cores (50 ns and more), several times the insert.
#[derive(Debug)]
pub struct Counter([Stripe; STRIPES]);

impl Counter {
    /// Adds to this thread's stripe.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0[stripe()].0.fetch_add(more, Ordering::Relaxed);
    }

    /// Starts again at 0; what other threads add at that moment may or may not be counted.
    pub(crate) fn reset(&self) {
        self.0.iter().for_each(|stripe| stripe.0.store(0, Ordering::Relaxed));
    }
}

impl Count for Counter {
    fn starting_at(value: u64) -> Self {
        let counter = Self(std::array::from_fn(|_| Stripe(AtomicU64::new(0))));
        counter.0[0].0.store(value, Ordering::Relaxed);
        counter
    }
    #[inline]
    fn get(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
    fn set(&mut self, value: u64) {
        *self = Self::starting_at(value);
    }
}

#[cfg(not(loom))]
#[inline]
pub(super) fn stripe() -> usize {
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
fn stripe() -> usize {
    0
}
