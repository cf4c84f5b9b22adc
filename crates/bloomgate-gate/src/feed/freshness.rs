//! As of when the filter knows what others wrote, and whether that is recent enough for a "no".
//!
//! By two clocks. The wall's is told to clients, and may be set; the steady one runs evenly, but stands still while the
//! machine sleeps. The filter is fresh only if both say so.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::gate::now_ms;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) struct Moment {
    /// Milliseconds since the gate began, by the steady clock; one more, so that 0 means never.
    pub steady: u64,
    /// Milliseconds since 1970.
    pub wall: u64,
}

/// The moment before the feed was last read to its end.
#[derive(Debug)]
pub(crate) struct Watermark {
    begun: Instant,
    steady: AtomicU64,
    wall: AtomicU64,
}

impl Watermark {
    pub fn new() -> Self {
        Self { begun: Instant::now(), steady: AtomicU64::new(0), wall: AtomicU64::new(0) }
    }

    pub fn now(&self) -> Moment {
        Moment { steady: self.begun.elapsed().as_millis() as u64 + 1, wall: now_ms() }
    }

    /// Everything that was committed before this moment is in the filter. Called by one task, after it has put it there.
    pub fn raise(&self, to: Moment) {
        self.steady.store(to.steady, SeqCst);
        self.wall.store(to.wall, SeqCst);
    }

    /// Whether it is past a moment of the steady clock.
    pub fn is_past(&self, moment: Moment) -> bool {
        self.steady.load(SeqCst) > moment.steady
    }

    /// What to tell of it, in milliseconds since 1970; 0 before the first read.
    pub fn wall(&self) -> u64 {
        self.wall.load(SeqCst)
    }

    /// How long ago it was, by the clock that says more; none before the first read.
    pub fn lag(&self) -> Option<Duration> {
        let (wall, steady) = (self.wall.load(SeqCst), self.steady.load(SeqCst));
        if steady == 0 {
            return None;
        }
        let now = self.now();
        // A wall clock that was set back says nothing; the steady one still does.
        Some(Duration::from_millis(now.steady.saturating_sub(steady).max(now.wall.saturating_sub(wall))))
    }

    /// The watermark, if it is at most so long ago. Read before the filter is asked: what it says is in there then.
    #[inline]
    pub fn fresh(&self, most: Duration) -> Option<u64> {
        let wall = self.wall.load(SeqCst);
        self.lag().filter(|lag| *lag <= most).map(|_| wall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fresh_only_by_both_clocks() {
        let watermark = Watermark::new();
        let most = Duration::from_secs(5);
        assert_eq!(watermark.fresh(most), None, "never read");
        let now = watermark.now();
        watermark.raise(now);
        assert_eq!(watermark.fresh(most), Some(now.wall));
        // The machine slept for a minute: the steady clock did not notice.
        watermark.raise(Moment { wall: now.wall - 60_000, ..now });
        assert_eq!(watermark.fresh(most), None);
        assert!(watermark.lag().unwrap() >= Duration::from_secs(60));
        // The wall clock was set back by an hour: the steady one goes on.
        watermark.raise(Moment { wall: now.wall + 3_600_000, ..now });
        assert!(watermark.fresh(most).is_some());
        assert!(watermark.fresh(Duration::ZERO).is_none() || watermark.lag().unwrap().is_zero());
        assert!(watermark.is_past(Moment { steady: 0, wall: 0 }) && !watermark.is_past(now));
    }
}
