//! When a ring turns: its rule, its hands, and what a reading of a clock moves them by. No time source, no bits.
//!
//! The ring has a time of its own, which only ever moves forward: by what a reading of the given clock is later than
//! the one before. Two kinds of readings need a decision:
//!
//! | reading | without `max_step` | with `max_step` M |
//! |---|---|---|
//! | later by at most M | counts | counts |
//! | later by more than M | counts | counts as M; the rest was the clock being set |
//! | earlier by at most M | waits until the clock has caught up | waits until the clock has caught up |
//! | earlier by more than M | waits until the clock has caught up | the clock was set back: goes on from there |

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::math::rotating::slice;

/// The most generations of a window. One more is kept in the ring.
pub const MAX_GENERATIONS: u32 = 64;
/// The shortest window: a millisecond.
pub const MIN_WINDOW: Duration = Duration::from_millis(1);
/// The longest window: 100 years of 365 days.
pub const MAX_WINDOW: Duration = Duration::from_secs(100 * 365 * 86_400);
/// No limit to what one reading may move the ring by.
pub(crate) const NO_MAX_STEP: u64 = u64::MAX;

/// How a ring turns: what was asked for, and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotatingRule {
    window_ns: u64,
    generations: u32,
    max_step_ns: u64,
}

impl RotatingRule {
    /// A rule from its numbers (`u64::MAX` for no `max_step`), or why they are none.
    pub fn new(window_ns: u64, generations: u32, max_step_ns: u64) -> Result<Self> {
        let window = Duration::from_nanos(window_ns);
        if !(MIN_WINDOW..=MAX_WINDOW).contains(&window) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a window is between a millisecond and 100 years long, not {window:?}"),
            ));
        }
        if !(1..=MAX_GENERATIONS).contains(&generations) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a window has 1 to {MAX_GENERATIONS} generations, not {generations}; 4 is the default"),
            ));
        }
        if max_step_ns == 0 {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                "with a longest step of nothing the ring would never turn; leave it out, or give a few times the \
                 pause between two readings of the clock",
            ));
        }
        Ok(Self { window_ns, generations, max_step_ns })
    }

    /// How long a key is kept at least, in nanoseconds.
    #[must_use]
    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// Generations of a window; one more is in the ring.
    #[must_use]
    pub fn generations(&self) -> u32 {
        self.generations
    }

    /// The most that one reading of the clock may move the ring, in nanoseconds; `u64::MAX` if there is no limit.
    #[must_use]
    pub fn max_step_ns(&self) -> u64 {
        self.max_step_ns
    }

    /// How long a generation is filled, in nanoseconds: the window over the generations, rounded up.
    #[must_use]
    pub fn slice_ns(&self) -> u64 {
        slice(self.window_ns, self.generations)
    }

    /// Generations in the ring.
    pub(crate) fn ring(&self) -> usize {
        self.generations as usize + 1
    }
}

/// Where a ring stands: all that has to be saved besides the generations for it to go on as if nothing had happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotatingState {
    /// The number of the generation that is being filled. The first one has the number of generations in a window, so
    /// that the oldest in the ring is number 0.
    pub youngest: u64,
    /// For how long it has been filled, in nanoseconds: less than a slice.
    pub elapsed_ns: u64,
    /// The reading of the clock that later ones are measured from; none before the first.
    pub clock_ns: Option<u64>,
}

impl RotatingState {
    /// An empty ring whose clock has not been read.
    pub(crate) fn start(rule: &RotatingRule) -> Self {
        Self { youngest: u64::from(rule.generations), elapsed_ns: 0, clock_ns: None }
    }

    /// Whether a ring under this rule can stand so.
    pub(crate) fn check(&self, rule: &RotatingRule) -> Result<()> {
        let least = u64::from(rule.generations);
        // 2^62 slices of the least length are two million years.
        if !(least..1 << 62).contains(&self.youngest) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("the youngest generation is number {least} to 2^62, not {}", self.youngest),
            ));
        }
        if self.elapsed_ns >= rule.slice_ns() {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a generation is filled for {} ns, not for {} and more", rule.slice_ns(), self.elapsed_ns),
            ));
        }
        Ok(())
    }
}

/// The hands of a ring: [`RotatingState`] without the number of the youngest generation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hands {
    pub(super) elapsed_ns: u64,
    pub(super) clock_ns: Option<u64>,
}

impl Hands {
    /// Takes a reading of the clock; how many generations the ring turns by.
    pub(super) fn read(&mut self, rule: &RotatingRule, now_ns: u64) -> u64 {
        // The first reading starts the clock: nothing has passed yet.
        let Some(before) = self.clock_ns else {
            self.clock_ns = Some(now_ns);
            return 0;
        };
        if now_ns < before {
            // A small step back is waited out, a large one is the clock being set.
            if before - now_ns > rule.max_step_ns {
                self.clock_ns = Some(now_ns);
            }
            return 0;
        }
        self.clock_ns = Some(now_ns);
        self.pass(rule, (now_ns - before).min(rule.max_step_ns))
    }

    /// Lets time pass, whatever the clock says; how many generations the ring turns by.
    pub(super) fn pass(&mut self, rule: &RotatingRule, ns: u64) -> u64 {
        let slice = u128::from(rule.slice_ns());
        let total = u128::from(self.elapsed_ns) + u128::from(ns);
        // Below 2^64, since a slice is at least 15 µs; and the rest is less than a slice.
        self.elapsed_ns = (total % slice) as u64;
        (total / slice) as u64
    }
}

/// A time since any beginning as whole nanoseconds; 584 years is the end of time.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
