//! Time that never runs backwards and does not jump: the wall clock at the start, and from then on how long the machine
//! has been up, sleep included. Somebody who sets the clock neither brings a filter's end nearer nor moves a window.
//!
//! So it may be far from the wall clock: after one start in 2099 it stays there, since what is written is never gone back
//! behind. Times of the wall clock that clients give (EXPIREAT) and are told (EXPIRETIME, TIME) are therefore turned into its
//! own and back; otherwise a filter that is to end tomorrow would end at once, and answer "no" for all its keys.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Where time comes from.
#[derive(Debug)]
pub struct Clock {
    /// What is added to the time since boot, in nanoseconds.
    offset_ns: AtomicU64,
    /// How far it is ahead of the wall clock, in milliseconds, as it was found last.
    ahead_ms: AtomicI64,
    /// In tests: the time itself, and that of the wall clock.
    fixed_ns: Option<AtomicU64>,
    fixed_wall_ms: AtomicU64,
}

/// As long as both clocks drift apart by less they are taken to keep their distance: a time that was given is told as it was
/// given.
const DRIFT_MS: u64 = 10_000;
/// Being further ahead of the wall clock than a day is worth a word.
const FAR_MS: i64 = 86_400_000;

fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn since_boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

impl Clock {
    /// A clock that starts at the wall clock.
    #[must_use]
    pub fn start() -> Self {
        let offset = wall_ns().saturating_sub(since_boot_ns());
        Self { offset_ns: offset.into(), ahead_ms: 0.into(), fixed_ns: None, fixed_wall_ms: 0.into() }
    }

    /// Goes on from what was written last time, if the wall clock was set back since.
    pub fn not_before(&self, ms: u64) {
        let offset = ms.saturating_mul(1_000_000).saturating_sub(since_boot_ns());
        self.offset_ns.fetch_max(offset, Ordering::Relaxed);
    }

    /// A clock that stands until it is set.
    #[must_use]
    pub fn fixed(ms: u64) -> Self {
        let fixed_ns = Some(AtomicU64::new(ms * 1_000_000));
        Self { offset_ns: 0.into(), ahead_ms: 0.into(), fixed_ns, fixed_wall_ms: ms.into() }
    }

    /// Sets a clock that stands, and the wall clock with it.
    pub fn set(&self, ms: u64) {
        if let Some(fixed) = &self.fixed_ns {
            fixed.store(ms * 1_000_000, Ordering::Relaxed);
            self.fixed_wall_ms.store(ms, Ordering::Relaxed);
        }
    }

    /// Sets the wall clock beside a clock that stands.
    pub fn set_wall(&self, ms: u64) {
        self.fixed_wall_ms.store(ms, Ordering::Relaxed);
    }

    /// How many milliseconds it is ahead of the wall clock; less than nothing if it is behind.
    #[must_use]
    pub fn ahead_ms(&self) -> i64 {
        let wall = match self.fixed_ns {
            Some(_) => self.fixed_wall_ms.load(Ordering::Relaxed),
            None => wall_ns() / 1_000_000,
        };
        let (ahead, known) = (self.now_ms() as i64 - wall as i64, self.ahead_ms.load(Ordering::Relaxed));
        if ahead.abs_diff(known) <= DRIFT_MS {
            return known;
        }
        self.ahead_ms.store(ahead, Ordering::Relaxed);
        ahead
    }

    /// When it is that time of the wall clock, in milliseconds since 1970.
    #[must_use]
    pub fn of_wall(&self, wall_ms: u64) -> u64 {
        wall_ms.saturating_add_signed(self.ahead_ms()).min(i64::MAX as u64)
    }

    /// What the wall clock shows at one of its times.
    #[must_use]
    pub fn on_wall(&self, ms: u64) -> u64 {
        ms.saturating_add_signed(-self.ahead_ms())
    }

    /// What the wall clock shows now, in nanoseconds since 1970, to within ten seconds.
    #[must_use]
    pub fn wall_ns(&self) -> u64 {
        self.now_ns().saturating_add_signed(self.ahead_ms().saturating_mul(-1_000_000))
    }

    /// What is to be said if it is far ahead of the wall clock.
    #[must_use]
    pub fn worry(&self) -> Option<String> {
        let ahead = self.ahead_ms();
        (ahead > FAR_MS).then(|| {
            format!(
                "the server's time is {} days ahead of this machine's clock, which was ahead or has been set back: time never \
                 runs backwards here. Times to live and windows are right, and EXPIREAT goes by the machine's clock",
                ahead / FAR_MS
            )
        })
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
        assert!(clock.worry().is_none());
        assert!((940_000..=1_000_000).contains(&clock.ahead_ms()), "{}", clock.ahead_ms());
        assert_eq!(clock.on_wall(clock.of_wall(wall)), wall);
        clock.not_before(wall + 2 * 86_400_000 + 3_600_000);
        assert!(clock.worry().is_some_and(|worry| worry.contains("is 2 days ahead")), "{:?}", clock.worry());
    }

    #[test]
    fn small_steps_of_the_wall_clock_change_no_time_that_was_told() {
        let clock = Clock::fixed(1_000_000);
        clock.set_wall(991_000);
        assert_eq!((clock.ahead_ms(), clock.of_wall(5), clock.on_wall(5)), (0, 5, 5));
        clock.set_wall(900_000);
        assert_eq!((clock.ahead_ms(), clock.of_wall(5), clock.on_wall(100_005)), (100_000, 100_005, 5));
        clock.set_wall(909_000);
        assert_eq!(clock.ahead_ms(), 100_000);
        clock.set_wall(2_000_000);
        assert_eq!((clock.ahead_ms(), clock.of_wall(5), clock.of_wall(u64::MAX)), (-1_000_000, 0, i64::MAX as u64));
    }
}
