//! How often each command was given and how long it took, for INFO commandstats and LATENCY HISTOGRAM.
//!
//! Each thread counts on its own and whoever asks adds up. A command through the table is timed every time. Of batches
//! ([`super::batch`]) all calls are counted, and one batch in 16 is timed: its time stands for the calls of its command
//! since the last timed one. So a batch costs an addition or two, and the clock hardly shows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloomgate_command::{Spec, every_command, number_of};

/// Bounds of the histogram: 1,024 nanoseconds, and twice as much each time, up to a second; as Redis has them.
pub const BUCKETS: usize = 21;

/// The same in seconds, without the last one, which has no end.
pub static BOUNDS: [f64; BUCKETS - 1] = {
    let mut bounds = [0.0; BUCKETS - 1];
    let mut at = 0;
    while at < BUCKETS - 1 {
        bounds[at] = (1_024u64 << at) as f64 / 1e9;
        at += 1;
    }
    bounds
};

/// What is counted of one command by one thread.
#[derive(Debug, Default)]
struct Tally {
    calls: AtomicU64,
    nanos: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    took: [AtomicU64; BUCKETS],
}

/// What was counted of one command by all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// How often it was run.
    pub calls: u64,
    /// How long that took, in microseconds.
    pub micros: u64,
    /// How often it was refused before it was run.
    pub rejected: u64,
    /// How often it was run and answered an error.
    pub failed: u64,
    took: [u64; BUCKETS],
}

impl Told {
    /// How many calls lie in each bucket of the histogram.
    #[must_use]
    pub fn buckets(&self) -> &[u64; BUCKETS] {
        &self.took
    }

    /// Upper bounds in microseconds, each with how many calls took no longer; those that nothing is added at are left out.
    #[must_use]
    pub fn histogram(&self) -> Vec<(u64, u64)> {
        let mut sum = 0;
        let steps = self.took.iter().enumerate().filter(|(_, count)| **count > 0);
        steps
            .map(|(at, count)| {
                sum += count;
                ((1_024 << at) / 1_000, sum)
            })
            .collect()
    }
}

/// The counts of all threads.
#[derive(Debug)]
pub struct Tallies(Box<[Box<[Tally]>]>);

impl Tallies {
    /// For so many threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let commands = every_command().count();
        Self((0..threads.max(1)).map(|_| (0..commands).map(|_| Tally::default()).collect()).collect())
    }

    fn of(&self, thread: usize, command: usize) -> &Tally {
        let tallies = &self.0[thread % self.0.len()];
        &tallies[command.min(tallies.len() - 1)]
    }

    /// A command was run.
    pub fn ran(&self, thread: usize, spec: &Spec, took: Duration, failed: bool) {
        let command = number_of(spec);
        self.calls(thread, command, 1, u64::from(failed));
        self.took(thread, command, 1, took.as_nanos() as u64);
    }

    /// Calls of a command were answered, some of them with an error.
    #[inline]
    pub fn calls(&self, thread: usize, command: usize, calls: u64, failed: u64) {
        let tally = self.of(thread, command);
        tally.calls.fetch_add(calls, Ordering::Relaxed);
        if failed > 0 {
            tally.failed.fetch_add(failed, Ordering::Relaxed);
        }
    }

    /// Calls of a command took so long each.
    pub fn took(&self, thread: usize, command: usize, calls: u64, nanos_each: u64) {
        let tally = self.of(thread, command);
        tally.nanos.fetch_add(nanos_each.saturating_mul(calls), Ordering::Relaxed);
        let above = nanos_each.saturating_sub(1) >> 10;
        let at = (u64::BITS - above.leading_zeros()) as usize;
        tally.took[at.min(BUCKETS - 1)].fetch_add(calls, Ordering::Relaxed);
    }

    /// A command was refused before it was run.
    pub fn rejected(&self, thread: usize, spec: &Spec) {
        self.of(thread, number_of(spec)).rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted of each command that was given at all.
    pub fn told(&self) -> impl Iterator<Item = (&'static Spec, Told)> {
        every_command().enumerate().filter_map(|(command, spec)| {
            let (mut told, mut nanos) = (Told::default(), 0);
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            for tallies in &self.0 {
                let tally = &tallies[command];
                told.calls += read(&tally.calls);
                nanos += read(&tally.nanos);
                told.rejected += read(&tally.rejected);
                told.failed += read(&tally.failed);
                told.took.iter_mut().zip(&tally.took).for_each(|(sum, counter)| *sum += read(counter));
            }
            told.micros = nanos / 1_000;
            (told.calls + told.rejected > 0).then_some((spec, told))
        })
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        for tally in self.0.iter().flatten() {
            let counters = [&tally.calls, &tally.nanos, &tally.rejected, &tally.failed];
            counters.into_iter().chain(&tally.took).for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloomgate_command::find;

    #[test]
    fn threads_count_apart_and_are_told_together() {
        let tallies = Tallies::new(2);
        let (ping, add) = (find(b"ping").unwrap(), find(b"bf.add").unwrap());
        tallies.ran(0, ping, Duration::from_nanos(900), false);
        tallies.ran(1, ping, Duration::from_nanos(1_100), true);
        tallies.ran(1, ping, Duration::from_secs(3_600), false);
        tallies.rejected(0, add);
        tallies.calls(0, number_of(add), 10, 0);
        tallies.took(0, number_of(add), 10, 2_000);
        let told: Vec<_> = tallies.told().collect();
        let names: Vec<&str> = told.iter().map(|(spec, _)| spec.name).collect();
        assert_eq!(names, ["bf.add", "ping"]);
        let (add, ping) = (told[0].1, told[1].1);
        assert_eq!((add.calls, add.micros, add.rejected, add.failed), (10, 20, 1, 0));
        assert_eq!(add.histogram(), [(2, 10)]);
        assert_eq!((ping.calls, ping.rejected, ping.failed), (3, 0, 1));
        assert_eq!(ping.histogram(), [(1, 1), (2, 2), (1_073_741, 3)]);
        tallies.reset();
        assert_eq!(tallies.told().count(), 0);
    }
}
