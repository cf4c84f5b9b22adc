//! Time that never runs backwards and does not jump: the wall clock at the start, and from then on how long the machine
//! has been up, sleep included. Somebody who sets the clock neither brings a filter's end nearer nor moves a window.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Where time comes from.
#[derive(Debug)]
pub struct Clock {
    /// What is added to the time since boot, in nanoseconds.
    offset_ns: u64,
    /// In tests: the time itself.
    fixed_ns: Option<AtomicU64>,
}

fn since_boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

impl Clock {
    /// A clock that starts at the wall clock, or at `not_before_ms` if that is later: what was written last time.
    #[must_use]
    pub fn start(not_before_ms: u64) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let start = wall.max(not_before_ms.saturating_mul(1_000_000));
        Self { offset_ns: start.saturating_sub(since_boot_ns()), fixed_ns: None }
    }

    /// A clock that stands until it is set.
    #[must_use]
    pub fn fixed(ms: u64) -> Self {
        Self { offset_ns: 0, fixed_ns: Some(AtomicU64::new(ms * 1_000_000)) }
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
            None => self.offset_ns.saturating_add(since_boot_ns()),
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
        let ahead = Clock::start(wall + 1_000_000);
        assert!(ahead.now_ms() >= wall + 1_000_000);
        let now = Clock::start(0).now_ms();
        assert!((wall..wall + 60_000).contains(&now));
    }
}
