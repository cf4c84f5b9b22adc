//! What is counted about a filter since the server started or since BG.AUDIT RESET.
//!
//! Six counters of eight bytes are a fifth of what a small filter takes, so four of them begin as 16 bits each in one
//! word ([`Tally`]); when one comes near its end all four are added to the wide ones ([`Audit`]), which are made then.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters.
#[derive(Debug, Default)]
pub struct Audit {
    /// Keys asked for.
    lookups: AtomicU64,
    /// Answers of "maybe".
    positives: AtomicU64,
    /// Keys that were to be added.
    adds: AtomicU64,
    /// Of these, certainly new ones.
    fresh: AtomicU64,
    /// Keys removed.
    removed: AtomicU64,
    /// Keys refused because it was full.
    refused: AtomicU64,
}

/// What one command adds to the counters, or what they come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // Those of Audit.
pub struct Counts {
    pub lookups: u64,
    pub positives: u64,
    pub adds: u64,
    pub fresh: u64,
    pub removed: u64,
    pub refused: u64,
}

impl Counts {
    /// The counters with their names, in the order they are told.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, u64); 6] {
        [
            ("lookups", self.lookups),
            ("positives", self.positives),
            ("adds", self.adds),
            ("new", self.fresh),
            ("removed", self.removed),
            ("refused", self.refused),
        ]
    }
}

impl Audit {
    fn pairs(&self, counts: Counts) -> [(&AtomicU64, u64); 6] {
        [
            (&self.lookups, counts.lookups),
            (&self.positives, counts.positives),
            (&self.adds, counts.adds),
            (&self.fresh, counts.fresh),
            (&self.removed, counts.removed),
            (&self.refused, counts.refused),
        ]
    }

    /// Counts. What is zero touches nothing: lookups and adds of many threads meet in their own counters alone.
    #[inline]
    pub fn add(&self, counts: Counts) {
        for (counter, more) in self.pairs(counts) {
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// What they come to.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            lookups: read(&self.lookups),
            positives: read(&self.positives),
            adds: read(&self.adds),
            fresh: read(&self.fresh),
            removed: read(&self.removed),
            refused: read(&self.refused),
        }
    }

    /// All counters back to zero.
    pub fn reset(&self) {
        self.pairs(Counts::default()).iter().for_each(|(counter, zero)| counter.store(*zero, Ordering::Relaxed));
    }
}

/// The first few thousands of four counters in one word.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

/// A command that counts more than this goes to the wide counters: so it takes 128 threads at one moment to bring a lane
/// from its highest bit, which every one of them sees, to its end.
const MOST_AT_ONCE: u64 = 255;
const HIGHEST: u64 = 0x8000_8000_8000_8000;

impl Tally {
    /// Counts, if the counts are small and of the four; what has to go to the wide counters comes back.
    #[inline]
    pub fn add(&self, counts: Counts) -> Option<Counts> {
        let Counts { lookups, positives, adds, fresh, removed, refused } = counts;
        if (lookups | positives | adds | fresh) > MOST_AT_ONCE || (removed | refused) > 0 {
            return Some(counts);
        }
        let more = lookups | positives << 16 | adds << 32 | fresh << 48;
        let sum = self.0.fetch_add(more, Ordering::Relaxed).wrapping_add(more);
        (sum & HIGHEST != 0).then(|| self.take())
    }

    /// What it comes to; from zero after it.
    pub fn take(&self) -> Counts {
        Self::unpack(self.0.swap(0, Ordering::Relaxed))
    }

    /// What it comes to.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Self::unpack(self.0.load(Ordering::Relaxed))
    }

    fn unpack(word: u64) -> Counts {
        let lane = |at: u32| word >> (16 * at) & 0xffff;
        Counts { lookups: lane(0), positives: lane(1), adds: lane(2), fresh: lane(3), ..Counts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is lost on the way from the narrow counters to the wide ones, however many count at once.
    #[test]
    fn a_tally_and_its_audit_count_everything() {
        let (tally, audit) = (Tally::default(), Audit::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for at in 0..20_000u64 {
                        let asked = at % 300;
                        let counts = Counts {
                            lookups: asked,
                            positives: asked / 2,
                            adds: at % 7,
                            fresh: at % 3,
                            removed: u64::from(at % 1_000 == 0),
                            refused: u64::from(at % 500 == 0),
                        };
                        if let Some(more) = tally.add(counts) {
                            audit.add(more);
                        }
                    }
                });
            }
        });
        audit.add(tally.take());
        let sum = |one: &dyn Fn(u64) -> u64| 4 * (0..20_000u64).map(one).sum::<u64>();
        let all = Counts {
            lookups: sum(&|at| at % 300),
            positives: sum(&|at| at % 300 / 2),
            adds: sum(&|at| at % 7),
            fresh: sum(&|at| at % 3),
            removed: 80,
            refused: 160,
        };
        assert_eq!((audit.counts(), tally.counts()), (all, Counts::default()));
        audit.reset();
        assert_eq!(audit.counts(), Counts::default());
    }
}
