//! How long lookups took, and reads at the source: histograms whose bounds double, from a microsecond to half a minute.
//!
//! Each thread counts in a slot of its own, as for the other counts. What leaves the filter takes a microsecond at least, and
//! is timed every time. A "no" of a filter in this process takes about as long as reading the clock twice (50 ns), so of
//! those a thread times one in 64, which stands for all 64: a nanosecond each. To time them where HTTP is spoken alone, where
//! 50 ns do not show, would leave out whoever has the gate as a library or as a proxy.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::counters::{SLOTS, slot};
use crate::outcome::Outcome;

/// Of so many "no" of a thread one is timed.
const ONE_IN: u32 = 64;

/// How many buckets there are; the last one has no end.
pub(crate) const BUCKETS: usize = 27;

/// The upper bounds of the buckets, in seconds, but of the last: 1,024 ns and twice as much each time, up to 34 s.
pub(crate) static BOUNDS: [f64; BUCKETS - 1] = {
    let mut bounds = [0.0; BUCKETS - 1];
    let mut at = 0;
    while at < BUCKETS - 1 {
        bounds[at] = (1024u64 << at) as f64 / 1e9;
        at += 1;
    }
    bounds
};

/// The bucket of a time.
fn bucket(nanos: u64) -> usize {
    match nanos {
        0..=1024 => 0,
        more => ((more - 1).ilog2() as usize - 9).min(BUCKETS - 1),
    }
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed {
    /// A lookup, from the question to the answer.
    Lookup(Outcome),
    /// A lookup that ended in an error.
    Failed,
    /// A question to the source that lookups wait for, however it ends.
    Source,
}

impl Timed {
    const KINDS: usize = Outcome::ALL.len() + 2;

    fn at(self) -> usize {
        match self {
            Self::Lookup(outcome) => outcome as usize,
            Self::Failed => Self::KINDS - 2,
            Self::Source => Self::KINDS - 1,
        }
    }

    /// Every kind of lookup, with its name in metrics.
    pub fn lookups() -> impl Iterator<Item = (&'static str, Self)> {
        let answered = Outcome::ALL.into_iter().map(|outcome| (outcome.name(), Self::Lookup(outcome)));
        answered.chain([("failed", Self::Failed)])
    }
}

// Two lines: some processors fetch them in pairs.
#[repr(align(128))]
#[derive(Debug)]
struct Slot {
    counts: [[AtomicU64; BUCKETS]; Timed::KINDS],
    nanos: [AtomicU64; Timed::KINDS],
}

/// The times of a gate, or of all gates of a table's tenants.
#[derive(Debug)]
pub(crate) struct Times {
    slots: Box<[Slot]>,
}

thread_local! {
    static QUICK: Cell<u32> = const { Cell::new(0) };
}

impl Default for Times {
    fn default() -> Self {
        let slot = |_| Slot {
            counts: [const { [const { AtomicU64::new(0) }; BUCKETS] }; Timed::KINDS],
            nanos: [const { AtomicU64::new(0) }; Timed::KINDS],
        };
        Self { slots: (0..SLOTS).map(slot).collect() }
    }
}

impl Times {
    /// When a lookup that the filter may answer alone began, if it is one that is timed.
    #[inline]
    pub fn draw(&self) -> Option<Instant> {
        let number = QUICK.with(|quick| {
            quick.set(quick.get().wrapping_add(1));
            quick.get()
        });
        number.is_multiple_of(ONE_IN).then(Instant::now)
    }

    /// The filter said no to a lookup that was [drawn](Self::draw).
    #[cold]
    pub fn refused(&self, begun: Instant) {
        self.add(Timed::Lookup(Outcome::AbsentByFilter), begun.elapsed(), u64::from(ONE_IN));
    }

    /// So many took so long each.
    pub fn add(&self, what: Timed, took: Duration, many: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let slot = &self.slots[slot() % self.slots.len()];
        slot.counts[what.at()][bucket(nanos)].fetch_add(many, Relaxed);
        slot.nanos[what.at()].fetch_add(nanos.saturating_mul(many), Relaxed);
    }

    /// What was counted so far.
    pub fn of(&self, what: Timed) -> Told {
        let mut told = Told { counts: [0; BUCKETS], seconds: 0.0 };
        for slot in &self.slots {
            told.counts.iter_mut().zip(&slot.counts[what.at()]).for_each(|(sum, count)| *sum += count.load(Relaxed));
            told.seconds += slot.nanos[what.at()].load(Relaxed) as f64 / 1e9;
        }
        told
    }
}

/// What was counted of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// How many are in each bucket.
    pub counts: [u64; BUCKETS],
    /// How long all of them took together.
    pub seconds: f64,
}

impl Told {
    /// The time that this share of them did not exceed, if they are spread evenly within a bucket, in seconds.
    fn quantile(&self, share: f64) -> f64 {
        let rank = share * self.counts.iter().sum::<u64>() as f64;
        let mut before = 0.0;
        for (at, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            if before + count as f64 >= rank {
                let low = if at == 0 { 0.0 } else { BOUNDS[at - 1] };
                // Of the last one nobody knows the end.
                let high = BOUNDS.get(at).copied().unwrap_or(low);
                return low + (high - low) * ((rank - before) / count as f64);
            }
            before += count as f64;
        }
        0.0
    }

    fn took(&self) -> Option<Took> {
        let count: u64 = self.counts.iter().sum();
        let micros = |share| self.quantile(share) * 1e6;
        let mean_us = self.seconds * 1e6 / count as f64;
        (count > 0).then(|| Took { count, mean_us, p50_us: micros(0.5), p99_us: micros(0.99) })
    }
}

/// How long something took, as often as it was done.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Took {
    /// How often.
    pub count: u64,
    /// All of them together, divided by that, in microseconds.
    pub mean_us: f64,
    /// Half of them took no longer; known to a factor of two.
    pub p50_us: f64,
    /// Of a hundred one took longer.
    pub p99_us: f64,
}

/// How long lookups took by where they ended, none where there was none; with tenants, those of all of them. The proxy times
/// those that it refuses alone. A key of a batch took as long as its batch.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TimeStats {
    /// Stopped by the filter. Where that is in this process, one in 64 is timed.
    pub absent_by_filter: Option<Took>,
    /// Absent a short while ago.
    pub negative_cached: Option<Took>,
    /// From the cache.
    pub cache: Option<Took>,
    /// From the source.
    pub source: Option<Took>,
    /// Let through, and absent.
    pub not_found: Option<Took>,
    /// Not filtered.
    pub bypass: Option<Took>,
    /// Ended in an error.
    pub failed: Option<Took>,
    /// What the source took for the questions of lookups, without the wait for a turn.
    pub at_source: Option<Took>,
}

impl From<&Times> for TimeStats {
    fn from(times: &Times) -> Self {
        let took = |what| times.of(what).took();
        let lookup = |outcome| took(Timed::Lookup(outcome));
        Self {
            absent_by_filter: lookup(Outcome::AbsentByFilter),
            negative_cached: lookup(Outcome::NegativeCached),
            cache: lookup(Outcome::Cache),
            source: lookup(Outcome::Source),
            not_found: lookup(Outcome::NotFound),
            bypass: lookup(Outcome::Bypass),
            failed: took(Timed::Failed),
            at_source: took(Timed::Source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        for nanos in [0, 1, 1023, 1024, 1025, 2048, 2049, 1_000_000, 34_359_738_368, 34_359_738_369, u64::MAX] {
            let at = bucket(nanos);
            let seconds = nanos as f64 / 1e9;
            assert!(BOUNDS.get(at).is_none_or(|bound| seconds <= *bound), "{nanos} is in bucket {at}");
            assert!(at == 0 || seconds > BOUNDS[at - 1], "{nanos} is in bucket {at}");
        }
        assert_eq!((bucket(34_359_738_368), bucket(34_359_738_369)), (BUCKETS - 2, BUCKETS - 1));
    }

    #[test]
    fn what_many_threads_time_is_summed_by_kind() {
        let times = Times::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * SLOTS {
                scope.spawn(|| {
                    times.add(Timed::Source, Duration::from_millis(3), 1);
                    times.add(Timed::Lookup(Outcome::Bypass), Duration::from_micros(5), 10);
                });
            }
        });
        let (source, bypass) = (times.of(Timed::Source), times.of(Timed::Lookup(Outcome::Bypass)));
        assert_eq!(source.counts[bucket(3_000_000)], 64);
        assert!((source.seconds - 0.192).abs() < 1e-9, "{}", source.seconds);
        assert_eq!((bypass.counts[bucket(5_000)], bypass.counts.iter().sum::<u64>()), (640, 640));
        assert!(times.of(Timed::Failed).took().is_none());
    }

    #[test]
    fn one_no_in_64_is_timed_and_stands_for_them() {
        let times = Times::default();
        let drawn: Vec<Instant> = (0..6_400).filter_map(|_| times.draw()).collect();
        assert_eq!(drawn.len(), 100);
        drawn.into_iter().for_each(|begun| times.refused(begun));
        assert_eq!(times.of(Timed::Lookup(Outcome::AbsentByFilter)).counts.iter().sum::<u64>(), 6_400);
    }

    #[test]
    fn quantiles_lie_where_the_times_are() {
        let times = Times::default();
        times.add(Timed::Failed, Duration::from_micros(10), 98);
        times.add(Timed::Failed, Duration::from_millis(100), 2);
        let took = times.of(Timed::Failed).took().unwrap();
        assert_eq!(took.count, 100);
        assert!((took.mean_us - 2_009.8).abs() < 1e-6, "{took:?}");
        assert!((8.192..=16.384).contains(&took.p50_us) && (67_108.0..=134_218.0).contains(&took.p99_us), "{took:?}");
        times.add(Timed::Failed, Duration::from_secs(1_000), 1_000);
        assert!((times.of(Timed::Failed).quantile(0.99) - 34.359_738_368).abs() < 1e-9, "no longer than is known");
    }
}
