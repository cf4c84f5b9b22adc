//! How long the probe sleeps: so that it takes no more than its share of a core.

use std::time::Duration;

/// What writers had on their way is counted after it.
pub const SETTLES: Duration = Duration::from_millis(10);
/// The shortest sleep.
const LEAST: Duration = Duration::from_millis(10);
/// The longest sleep, and the one after a round in which there was nothing to do.
const MOST: Duration = Duration::from_secs(1);

/// A share of one core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace(f64);

impl Pace {
    /// A share, up to one half.
    #[must_use]
    pub fn new(share: f64) -> Self {
        Self(share.clamp(1e-4, 0.5))
    }

    /// How long to sleep after so much work. Work is timed by the clock on the wall, so that what others took from the
    /// thread counts as its own: where cores are short it takes less.
    #[must_use]
    pub fn rest(self, worked: Duration, busy: bool) -> Duration {
        let rest = worked.mul_f64((1.0 / self.0 - 1.0).min(1e4));
        if busy { rest.clamp(LEAST, MOST.max(rest)) } else { rest.max(MOST) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_kept_whatever_the_work() {
        for share in [0.001, 0.01, 0.1, 0.5] {
            let pace = Pace::new(share);
            for micros in [1, 100, 1_000, 50_000, 3_000_000] {
                let worked = Duration::from_micros(micros);
                for busy in [true, false] {
                    let rest = pace.rest(worked, busy);
                    assert!(rest >= LEAST && (busy || rest >= MOST));
                    let taken = worked.as_secs_f64() / (worked + rest).as_secs_f64();
                    assert!(taken <= share * 1.000_001, "{taken} of {share} after {worked:?}");
                }
            }
        }
        assert_eq!(Pace::new(f64::INFINITY), Pace::new(0.5));
        assert_eq!(Pace::new(0.0), Pace::new(1e-4));
    }
}
