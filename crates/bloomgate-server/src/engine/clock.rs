//! Time that never runs backwards and does not jump: the wall clock at the start, and from then on how long the machine
//! has been up, sleep included. Somebody who sets the clock neither brings a filter's end nearer nor moves a window.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Where time comes from.
#[derive(Debug)]
pub struct Clock {
    /// What is added to the time since boot, in nanoseconds.
    offset_ns: AtomicU64,
    /// In tests: the time itself.
    fixed_ns: Option<AtomicU64>,
}

fn since_boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

impl Clock {
    /// A clock that starts at the wall clock.
    #[must_use]
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        Self { offset_ns: AtomicU64::new(wall.saturating_sub(since_boot_ns())), fixed_ns: None }
    }

    /// Goes on from what was written last time, if the wall clock was set back since.
    pub fn not_before(&self, ms: u64) {
        let offset = ms.saturating_mul(1_000_000).saturating_sub(since_boot_ns());
        self.offset_ns.fetch_max(offset, Ordering::Relaxed);
    }

    /// A clock that stands until it is set.
    #[must_use]
    pub fn fixed(ms: u64) -> Self {
        Self { offset_ns: AtomicU64::new(0), fixed_ns: Some(AtomicU64::new(ms * 1_000_000)) }
    }

    /// Sets a clock that stands.
    pub fn set(&self, ms: u64) {
        if let Some(fixed) = &self.fixed_ns {
            fixed.store(ms * 1_000_000, Ordering::Relaxed);
        }
    }

    /// Nanoseconds since 1970.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match &self.fixed_ns {
            Some(fixed) => fixed.load(Ordering::Relaxed),
            None => self.offset_ns.load(Ordering::Relaxed).saturating_add(since_boot_ns()),
        }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ns() / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_goes_on_from_what_was_written() {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        let clock = Clock::start();
        clock.not_before(wall - 1_000_000);
        assert!((wall..wall + 60_000).contains(&clock.now_ms()));
        clock.not_before(wall + 1_000_000);
        assert!((wall + 1_000_000..wall + 1_060_000).contains(&clock.now_ms()));
    }
}
