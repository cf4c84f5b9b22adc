//! What is counted about a filter since the server started or since BG.AUDIT RESET.
//!
//! Six counters of eight bytes are a fifth of what a small filter takes, so four of them begin as 16 bits each in one
//! word ([`Tally`]); when one comes near its end all four are added to the wide ones ([`Audit`]), which are made then.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Threads that count apart; more of them share.
const LANES: usize = 8;
/// A counter that comes so far is busy: a filter that was asked for so many keys has a kibibyte to spare for its counters. A
/// million filters do not get there, so that is not charged to the budget.
const BUSY: u64 = 1 << 24;

/// Counters that many threads add to: one of each until one is busy, from then on one of each for every thread (up to
/// eight), in lines of their own. A line that two cores write by turns costs each of them the way to the other, 50 to 100 ns
/// a batch; one of its own costs 5.
#[derive(Debug)]
pub struct Counters<const N: usize> {
    here: [AtomicU64; N],
    apart: OnceLock<Box<[Lane<N>; LANES]>>,
}

/// Two lines of 64 bytes, which processors fetch together.
#[derive(Debug)]
#[repr(align(128))]
struct Lane<const N: usize>([AtomicU64; N]);

fn zeros<const N: usize>() -> [AtomicU64; N] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self { here: zeros(), apart: OnceLock::new() }
    }
}

/// The lane of this thread.
#[inline]
fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let known = MINE.get();
    if known != usize::MAX {
        return known;
    }
    let mine = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    MINE.set(mine);
    mine
}

impl<const N: usize> Counters<N> {
    /// Counts. What is zero touches nothing: lookups and adds of many threads meet in their own counters alone.
    #[inline]
    pub fn add(&self, counts: [u64; N]) {
        let count = |counters: &[AtomicU64; N]| {
            let mut most = 0;
            for (counter, more) in counters.iter().zip(counts) {
                if more > 0 {
                    most = most.max(counter.fetch_add(more, Ordering::Relaxed));
                }
            }
            most
        };
        match self.apart.get() {
            Some(lanes) => _ = count(&lanes[lane()].0),
            None if count(&self.here) < BUSY => {}
            None => _ = self.apart.get_or_init(|| Box::new(std::array::from_fn(|_| Lane(zeros())))),
        }
    }

    /// What they come to.
    #[must_use]
    pub fn sums(&self) -> [u64; N] {
        let lanes = self.apart.get().into_iter().flat_map(|lanes| lanes.iter());
        let all = || lanes.clone().map(|lane| &lane.0).chain([&self.here]);
        std::array::from_fn(|at| all().map(|counters| counters[at].load(Ordering::Relaxed)).fold(0, u64::wrapping_add))
    }

    /// All back to zero.
    pub fn reset(&self) {
        let lanes = self.apart.get().into_iter().flat_map(|lanes| lanes.iter());
        let all = lanes.map(|lane| &lane.0).chain([&self.here]);
        all.flatten().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

/// The counters of a filter or a namespace, in the order of [`Counts::rows`].
#[derive(Debug, Default)]
pub struct Audit(Counters<6>);

/// What one command adds to the counters, or what they come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Keys asked for.
    pub lookups: u64,
    /// Answers of "maybe".
    pub positives: u64,
    /// Keys that were to be added.
    pub adds: u64,
    /// Of these, certainly new ones.
    pub fresh: u64,
    /// Keys removed.
    pub removed: u64,
    /// Keys refused because it was full.
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
    /// Counts.
    #[inline]
    pub fn add(&self, counts: Counts) {
        let Counts { lookups, positives, adds, fresh, removed, refused } = counts;
        self.0.add([lookups, positives, adds, fresh, removed, refused]);
    }

    /// What they come to.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let [lookups, positives, adds, fresh, removed, refused] = self.0.sums();
        Counts { lookups, positives, adds, fresh, removed, refused }
    }

    /// All counters back to zero.
    pub fn reset(&self) {
        self.0.reset();
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

    /// A busy counter becomes one for each thread, and nothing is lost on the way, nor counted twice.
    #[test]
    fn busy_counters_stand_apart_and_come_to_the_same() {
        let counters = Counters::<2>::default();
        counters.add([BUSY - 1, 0]);
        counters.add([1, 0]);
        assert!(counters.apart.get().is_none());
        std::thread::scope(|scope| {
            for _ in 0..LANES + 1 {
                scope.spawn(|| (0..10_000).for_each(|_| counters.add([3, 1])));
            }
        });
        let threads = LANES as u64 + 1;
        assert_eq!(counters.sums(), [BUSY + threads * 30_000, threads * 10_000]);
        let lanes = counters.apart.get().unwrap();
        let used = lanes.iter().filter(|lane| lane.0[1].load(Ordering::Relaxed) > 0).count();
        assert!(used > 1, "threads that count at once have counters of their own, not {used}");
        counters.reset();
        assert_eq!(counters.sums(), [0, 0]);
    }
}
