//! Counting without a shared cache line: each thread adds to its own slot, a reader sums them.
//!
//! One atomic for all threads costs each lookup a cache miss of 50 to 100 ns as soon as two cores count; a slot of its own
//! costs about 1 ns.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::outcome::Outcome;

/// Slots; threads beyond that share, which stays correct.
pub(crate) const SLOTS: usize = 32;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Count {
    AbsentByFilter,
    /// Stopped by the filter too, for those who ask for nothing else and tell nobody what came of a "maybe": not measured by.
    AbsentByCheck,
    NegativeCached,
    Cache,
    Source,
    NotFound,
    Bypass,
    /// Of the bypassed, those that the source did not have.
    BypassAbsent,
    /// Lookups of absent keys to which a ready filter said maybe: its false positives, remembered ones included.
    FalsePositives,
    /// Of those, the ones that were read at the source.
    FalsePositiveReads,
    /// Lookups that ended in an error.
    Failed,
    /// Of those, the ones refused because the filter is not ready and the policy is closed.
    Closed,
    /// Of those, the ones refused because too much was waiting for the source.
    Busy,
    /// Of those, the ones refused because their client had too many misses.
    Capped,
    /// Rows that were not added because their client had added too many.
    CappedAdds,
    /// Lookups that took the answer of another one under way.
    Joined,
    /// Keys asked of the source, by lookups (not by audits, samples or scans).
    SourceReads,
    SourceErrors,
    CacheErrors,
    FilterErrors,
    Puts,
    Deletes,
    /// Writes of which the source did not say whether they were done.
    UnknownWrites,
    /// Lookups that a shadowing gate would have answered with no, and that the source had: they would have been wrong. Before
    /// those that they are among, for whoever reads the counts in their order.
    WouldBlockWrongly,
    /// All that it would have answered so.
    WouldBlock,
    Audited,
    /// Sampled for an audit but not audited: the queue was full or the source failed.
    AuditSkipped,
    /// Checked, but a write came between each time: neither right nor wrong.
    AuditUndecided,
    WrongNo,
    Rebuilds,
    RebuildsFailed,
    SaveErrors,
}

const COUNTS: usize = Count::SaveErrors as usize + 1;

impl Count {
    /// How many there are.
    pub const ALL: usize = COUNTS;
}

impl From<Outcome> for Count {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::AbsentByFilter => Self::AbsentByFilter,
            Outcome::NegativeCached => Self::NegativeCached,
            Outcome::Cache => Self::Cache,
            Outcome::Source => Self::Source,
            Outcome::NotFound => Self::NotFound,
            Outcome::Bypass => Self::Bypass,
        }
    }
}

// Two lines: some processors fetch them in pairs.
#[repr(align(128))]
#[derive(Debug)]
struct Slot([AtomicU64; COUNTS]);

/// All counts of a gate.
#[derive(Debug)]
pub(crate) struct Counters {
    slots: Box<[Slot]>,
}

thread_local! {
    static SLOT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The slot of this thread.
pub(crate) fn slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    SLOT.with(|slot| {
        if slot.get() == usize::MAX {
            slot.set(NEXT.fetch_add(1, Relaxed) % SLOTS);
        }
        slot.get()
    })
}

impl Counters {
    pub fn new() -> Self {
        Self::with_slots(SLOTS)
    }

    /// So many slots, a power of two, 256 bytes each. A tenant among a thousand has few: seldom do two threads count for it.
    pub fn with_slots(slots: usize) -> Self {
        Self { slots: (0..slots.next_power_of_two()).map(|_| Slot([const { AtomicU64::new(0) }; COUNTS])).collect() }
    }

    #[inline]
    pub fn add(&self, what: impl Into<Count>, many: u64) {
        self.slots[slot() & (self.slots.len() - 1)].0[what.into() as usize].fetch_add(many, Relaxed);
    }

    #[inline]
    pub fn one(&self, what: impl Into<Count>) {
        self.add(what, 1);
    }

    /// Adds every count to a sum, in the order of their numbers.
    pub fn add_to(&self, sums: &mut [u64; COUNTS]) {
        for slot in &self.slots {
            sums.iter_mut().zip(&slot.0).for_each(|(sum, count)| *sum += count.load(Relaxed));
        }
    }

    pub fn get(&self, what: Count) -> u64 {
        self.slots.iter().map(|slot| slot.0[what as usize].load(Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_count_is_summed() {
        let counters = Counters::new();
        std::thread::scope(|scope| {
            for _ in 0..2 * SLOTS {
                scope.spawn(|| (0..1000).for_each(|_| counters.one(Outcome::Cache)));
            }
        });
        assert_eq!(counters.get(Count::Cache), 2000 * SLOTS as u64);
        assert_eq!(counters.get(Count::Source), 0);
    }
}
