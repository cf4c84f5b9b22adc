//! What a guard has counted: how many lookups it kept away from the source, and at what false-positive rate.

use std::ops::{Add, AddAssign};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bits::counter::{STRIPES, stripe};
use crate::math::estimate::{Z, rate_interval};

/// What became of lookups. All numbers are exact once the lookups they speak of have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The filter said no: the source was not asked.
    pub avoided: u64,
    /// The source was asked, or its caller was told to.
    pub reached: u64,
    /// Of these, without the filter: it was not ready, or the key is none of its type.
    pub bypassed: u64,
    /// The source had the key.
    pub found: u64,
    /// The source did not have the key.
    pub not_found: u64,
    /// Of these, those of which the filter had said "maybe".
    pub false_positives: u64,
    /// The source failed to answer.
    pub errors: u64,
}

impl Tally {
    /// Lookups of absent keys that the filter was asked for: it said no, or it should have.
    #[must_use]
    pub fn true_negatives(&self) -> u64 {
        self.avoided + self.false_positives
    }

    /// The false-positive rate as measured: false positives over **lookups of absent keys**; none before the first.
    ///
    /// Not over all lookups: a filter that is asked for nothing but present keys has no false positives, and tells
    /// nothing about its rate.
    #[must_use]
    pub fn measured_rate(&self) -> Option<f64> {
        let negatives = self.true_negatives();
        (negatives > 0).then(|| self.false_positives as f64 / negatives as f64)
    }

    /// Where the true rate is, at 95 % confidence (Wilson); from 0 to 1 before the first lookup of an absent key.
    #[must_use]
    pub fn rate_interval(&self) -> (f64, f64) {
        rate_interval(self.false_positives, self.true_negatives(), Z)
    }

    /// Lookups that were sent to the source and have not been confirmed yet, or never will be.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.reached.saturating_sub(self.found + self.not_found + self.errors)
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            avoided: self.avoided + other.avoided,
            reached: self.reached + other.reached,
            bypassed: self.bypassed + other.bypassed,
            found: self.found + other.found,
            not_found: self.not_found + other.not_found,
            false_positives: self.false_positives + other.false_positives,
            errors: self.errors + other.errors,
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// One line of counters, used by a sixteenth of the threads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Line {
    pub(super) avoided: AtomicU64,
    pub(super) reached: AtomicU64,
    pub(super) bypassed: AtomicU64,
    pub(super) found: AtomicU64,
    pub(super) not_found: AtomicU64,
    pub(super) false_positives: AtomicU64,
    pub(super) errors: AtomicU64,
}

/// One more.
#[inline]
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counters that many threads raise without meeting: 16 lines, 2 KB.
#[derive(Debug, Default)]
pub(super) struct Counters {
    lines: [Line; STRIPES],
}

impl Counters {
    /// This thread's line.
    #[inline]
    pub(super) fn mine(&self) -> &Line {
        &self.lines[stripe()]
    }

    /// The sums.
    pub(super) fn tally(&self) -> Tally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of = |line: &Line| Tally {
            avoided: read(&line.avoided),
            found: read(&line.found),
            not_found: read(&line.not_found),
            false_positives: read(&line.false_positives),
            errors: read(&line.errors),
            reached: read(&line.reached),
            bypassed: read(&line.bypassed),
        };
        self.lines.iter().map(of).fold(Tally::default(), Add::add)
    }
}
