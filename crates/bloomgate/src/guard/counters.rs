//! Counters that cost a lookup next to nothing: most threads have a line that nobody else writes.
//!
//! Raising a counter that others may raise takes a locked instruction, 5 to 8 ns: as much as the filter's own lookup. So up
//! to 32 threads at a time have a line each, in every guard, and add by a load and a store; those beyond share 16 lines
//! and pay. A line passes from a thread that ends to one that begins, through one atomic word, so nothing is lost.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Tally;
use crate::bits::counter::{STRIPES, stripe};

/// Threads that have a line of their own.
const OWN: usize = u32::BITS as usize;
/// A thread that has not asked for a line yet.
const UNASKED: usize = usize::MAX;
/// A thread that found none free, or that is ending.
const NONE: usize = usize::MAX - 1;

/// Which lines belong to a thread.
static TAKEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The number of this thread's line.
    static MINE: Cell<usize> = const { Cell::new(UNASKED) };
    /// Gives it back when the thread ends.
    static HELD: Held = const { Held };
}

struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        let mine = MINE.replace(NONE);
        if mine < OWN {
            // Release: the next owner adds to what this thread has left.
            TAKEN.fetch_and(!(1 << mine), Ordering::Release);
        }
    }
}

/// This thread's line, if it has one.
#[inline]
fn own() -> Option<usize> {
    match MINE.get() {
        own if own < OWN => Some(own),
        UNASKED => ask(),
        _ => None,
    }
}

#[cold]
fn ask() -> Option<usize> {
    // Who cannot give a line back at its end gets none.
    if HELD.try_with(|_| ()).is_err() {
        MINE.set(NONE);
        return None;
    }
    let taken = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
        (taken != u32::MAX).then(|| taken | 1 << taken.trailing_ones())
    });
    let mine = taken.map_or(NONE, |before| before.trailing_ones() as usize);
    MINE.set(mine);
    (mine < OWN).then_some(mine)
}

/// What is counted.
#[derive(Clone, Copy)]
pub(super) enum Event {
    Avoided,
    Reached,
    Bypassed,
    Found,
    NotFound,
    FalsePositive,
    Error,
}

/// A counter for each event, on a line (a pair of them: processors fetch two) that one thread writes, or a few.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line([AtomicU64; 7]);

/// Counters of all threads: 6 KB.
#[derive(Debug)]
pub(super) struct Counters {
    own: [Line; OWN],
    met: [Line; STRIPES],
}

impl Default for Counters {
    fn default() -> Self {
        Self { own: std::array::from_fn(|_| Line::default()), met: std::array::from_fn(|_| Line::default()) }
    }
}

impl Counters {
    /// One more.
    #[inline]
    pub(super) fn count(&self, event: Event) {
        match own() {
            Some(own) => {
                let counter = &self.own[own].0[event as usize];
                // No other thread writes here until this one has ended.
                counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            None => self.count_among_others(event),
        }
    }

    #[cold]
    fn count_among_others(&self, event: Event) {
        self.met[stripe()].0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The sums.
    pub(super) fn tally(&self) -> Tally {
        let sum = |event: Event| {
            self.own.iter().chain(&self.met).map(|line| line.0[event as usize].load(Ordering::Relaxed)).sum()
        };
        Tally {
            avoided: sum(Event::Avoided),
            found: sum(Event::Found),
            not_found: sum(Event::NotFound),
            false_positives: sum(Event::FalsePositive),
            errors: sum(Event::Error),
            reached: sum(Event::Reached),
            bypassed: sum(Event::Bypassed),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// More threads at once than there are lines, and more in all: nothing is lost, and lines are used again.
    #[test]
    fn no_count_is_lost_among_more_threads_than_lines() {
        const THREADS: usize = OWN + 9;
        let counters = Counters::default();
        for _ in 0..3 {
            let all_there = std::sync::Barrier::new(THREADS);
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        counters.count(Event::Found);
                        all_there.wait();
                        (0..2_000).for_each(|_| counters.count(Event::Avoided));
                    });
                }
            });
        }
        let tally = counters.tally();
        assert_eq!((tally.found, tally.avoided), (3 * THREADS as u64, 6_000 * THREADS as u64));
        let sum = |lines: &[Line]| -> u64 { lines.iter().map(|line| line.0[0].load(Ordering::Relaxed)).sum() };
        assert!(sum(&counters.own) > 0 && sum(&counters.met) > 0, "both ways were gone");
    }
}
