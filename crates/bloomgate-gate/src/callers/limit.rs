//! So many in so much time, as a leaky bucket: the whole number may come at once, and one comes back each part of the time.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// The largest number.
const MOST: u32 = 1_000_000;
/// The shortest and the longest time.
const TIMES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(7 * 86_400));

/// So many in so much time: `100` in a minute.
///
/// All of them may come at once; then one is given back every 600 ms. So no stretch of time `t` has more than
/// `100 + t / 600 ms` of them, and who took all of them has all of them back after a minute without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    count: u32,
    per: Duration,
}

impl Limit {
    /// A limit: 1 to 1,000,000, in 1 ms to 7 days.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for other numbers and times.
    pub fn new(count: u32, per: Duration) -> Result<Self> {
        if !(1..=MOST).contains(&count) {
            let message =
                format!("a limit of {count} for a client: from 1 to {MOST} are allowed; leave it out for none");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if per < TIMES.0 || per > TIMES.1 {
            let message = format!("a limit for a client over {per:?}: from {:?} to 7 days are allowed", TIMES.0);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Self { count, per })
    }

    /// How many.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// In how much time.
    #[must_use]
    pub fn per(self) -> Duration {
        self.per
    }

    /// After how many nanoseconds one is given back: rounded up, so that it is never too many.
    pub(super) fn one(self) -> u64 {
        (self.per.as_nanos() as u64).div_ceil(u64::from(self.count))
    }

    /// The debt of who has taken all of them, in nanoseconds.
    pub(super) fn all(self) -> u64 {
        self.one() * u64::from(self.count)
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} in {:?}", self.count, self.per)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_limits() {
        let minute = Duration::from_secs(60);
        let limit = Limit::new(100, minute).unwrap();
        assert_eq!((limit.one(), limit.all(), limit.to_string().as_str()), (600_000_000, 60_000_000_000, "100 in 60s"));
        // A third of a second does not go into nanoseconds: never too early.
        assert_eq!(Limit::new(3, Duration::from_secs(1)).unwrap().one(), 333_333_334);
        for (count, per) in
            [(0, minute), (MOST + 1, minute), (1, Duration::ZERO), (1, TIMES.1 + Duration::from_nanos(1))]
        {
            assert_eq!(Limit::new(count, per).unwrap_err().kind(), ErrorKind::Invalid, "{count} in {per:?}");
        }
    }
}
