//! A circuit breaker: something slow or gone is not waited for by every lookup, but asked again by one now and then.
//!
//! ```text
//!            5 failures in a row, or half of the last 64 slow
//!   closed ───────────────────────────────────────────────────▶ open ◀───────────┐
//!      ▲                                                          │ back-off     │ fails or is slow:
//!      │                                                          ▼              │ twice the back-off
//!      └─────────────────── answers in time ─────────────────  half open ────────┘
//!                                                              (one call)
//! ```
//!
//! The idea and its words are Michael Nygard's (Release It!, 2007).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

/// How many of the last calls are remembered as slow or not: one word of bits.
const WINDOW: u32 = u64::BITS;
/// Fewer calls than this say nothing about their share.
const ENOUGH: u32 = 16;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerSettings {
    /// So many failures one after the other open it.
    pub failures: u32,
    /// A call that takes longer is slow.
    pub slow: Duration,
    /// So large a share of slow calls, among the last 64, opens it. Failures count as slow.
    pub slow_share: f64,
    /// How long it stays open the first time, give or take a half.
    pub first_back_off: Duration,
    /// How long at most: each failed probe doubles it.
    pub longest_back_off: Duration,
}

impl BreakerSettings {
    /// For calls that have this long: half of it is slow.
    #[must_use]
    pub fn for_deadline(deadline: Duration) -> Self {
        Self { slow: deadline / 2, ..Self::default() }
    }
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failures: 5,
            slow: Duration::from_millis(25),
            slow_share: 0.5,
            first_back_off: Duration::from_millis(100),
            longest_back_off: Duration::from_secs(5),
        }
    }
}

/// What a breaker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Everything.
    Closed,
    /// Nothing until the back-off has passed.
    Open,
    /// One call, whose outcome decides.
    HalfOpen,
}

impl BreakerState {
    /// The name in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// What a breaker has seen since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerCounts {
    /// What it lets through now.
    pub state: BreakerState,
    /// How often it opened; a probe that failed counts too.
    pub opened: u64,
    /// Calls it did not let through.
    pub refused: u64,
    /// Calls that failed, other than by their deadline.
    pub failed: u64,
    /// Calls that did not end before their deadline.
    pub timed_out: u64,
    /// Calls that ended well and were slow.
    pub slow: u64,
}

/// Why a call gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDone<E> {
    /// The breaker is open: nothing was asked.
    Refused,
    /// The deadline passed. What was asked may still happen.
    TimedOut,
    /// It was asked and failed.
    Failed(E),
}

#[derive(Debug)]
enum Phase {
    Closed {
        failures: u32,
        slow: u64,
        seen: u32,
    },
    Open {
        until: Duration,
    },
    /// One call is under way.
    HalfOpen,
}

const NEW: Phase = Phase::Closed { failures: 0, slow: 0, seen: 0 };

#[derive(Debug)]
struct Inside {
    phase: Phase,
    /// Rises with each change of phase: what began before it has no say after it.
    epoch: u64,
    /// The next back-off, before it is jittered.
    back_off: Duration,
    random: u64,
}

/// A circuit breaker.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    clock: Clock,
    inside: Mutex<Inside>,
    opened: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    slow: AtomicU64,
}

impl Breaker {
    /// A closed one.
    #[must_use]
    pub fn new(settings: BreakerSettings, clock: Clock) -> Self {
        let random = RandomState::new().hash_one(settings.failures) | 1;
        Self {
            settings,
            clock,
            inside: Mutex::new(Inside { phase: NEW, epoch: 0, back_off: settings.first_back_off, random }),
            opened: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            slow: AtomicU64::new(0),
        }
    }

    /// Waits for a call until its deadline, if it is let through. Dropping the returned future drops the call; if that was
    /// the probe of a half-open breaker, the next call is the probe.
    pub async fn call<T, E>(
        &self,
        deadline: Duration,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, NotDone<E>> {
        let Some(permit) = self.enter() else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(NotDone::Refused);
        };
        match tokio::time::timeout(deadline, call).await {
            Ok(Ok(value)) => {
                permit.end(End::Well);
                Ok(value)
            }
            Ok(Err(error)) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                permit.end(End::Badly);
                Err(NotDone::Failed(error))
            }
            Err(_) => {
                self.timed_out.fetch_add(1, Ordering::Relaxed);
                permit.end(End::Badly);
                Err(NotDone::TimedOut)
            }
        }
    }

    /// What it lets through now. Open becomes half open when somebody calls.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        match self.lock().phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen => BreakerState::HalfOpen,
        }
    }

    /// What it has seen so far.
    #[must_use]
    pub fn counts(&self) -> BreakerCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        BreakerCounts {
            state: self.state(),
            opened: read(&self.opened),
            refused: read(&self.refused),
            failed: read(&self.failed),
            timed_out: read(&self.timed_out),
            slow: read(&self.slow),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing that holds it can panic halfway through a change.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> Option<Permit<'_>> {
        let began = self.clock.now();
        let mut inside = self.lock();
        match inside.phase {
            Phase::Closed { .. } => {}
            Phase::Open { until } if began >= until => inside.turn(Phase::HalfOpen),
            Phase::Open { .. } | Phase::HalfOpen => return None,
        }
        Some(Permit { breaker: self, began, epoch: inside.epoch, ended: false })
    }

    fn leave(&self, began: Duration, epoch: u64, end: End) {
        let now = self.clock.now();
        let is_slow = now.saturating_sub(began) > self.settings.slow;
        if is_slow && end == End::Well {
            self.slow.fetch_add(1, Ordering::Relaxed);
        }
        let mut inside = self.lock();
        if inside.epoch != epoch {
            return;
        }
        let opens = match &mut inside.phase {
            Phase::Closed { failures, slow, seen } => {
                // A caller that went away early says nothing; one that waited for long does.
                if end == End::Unknown && !is_slow {
                    return;
                }
                *failures = if end == End::Badly { *failures + 1 } else { 0 };
                *slow = *slow << 1 | u64::from(is_slow || end == End::Badly);
                *seen = (*seen + 1).min(WINDOW);
                let share = f64::from(slow.count_ones()) / f64::from(*seen);
                *failures >= self.settings.failures || (*seen >= ENOUGH && share >= self.settings.slow_share)
            }
            Phase::HalfOpen => match end {
                End::Well if !is_slow => {
                    inside.turn(NEW);
                    inside.back_off = self.settings.first_back_off;
                    return;
                }
                // The probe's caller went away: the next one is the probe.
                End::Unknown if !is_slow => {
                    inside.turn(Phase::Open { until: now });
                    return;
                }
                _ => true,
            },
            Phase::Open { .. } => return,
        };
        if opens {
            let until = now + inside.jittered();
            inside.back_off = (inside.back_off * 2).min(self.settings.longest_back_off);
            inside.turn(Phase::Open { until });
            self.opened.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Inside {
    fn turn(&mut self, phase: Phase) {
        self.phase = phase;
        self.epoch += 1;
    }

    /// The back-off times 0.5 to 1.5, so that many processes do not probe at the same moment.
    fn jittered(&mut self) -> Duration {
        // xorshift64 (Marsaglia 2003): any numbers do that are not everybody's.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.back_off.mul_f64(0.5 + (self.random >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Well,
    Badly,
    /// Its caller went away.
    Unknown,
}

/// A call that was let through: it says how it ended even when it is dropped.
struct Permit<'a> {
    breaker: &'a Breaker,
    began: Duration,
    epoch: u64,
    ended: bool,
}

impl Permit<'_> {
    fn end(mut self, end: End) {
        self.ended = true;
        self.breaker.leave(self.began, self.epoch, end);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.breaker.leave(self.began, self.epoch, End::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);
    const MS: Duration = Duration::from_millis(1);

    fn breaker() -> (Breaker, Clock) {
        let clock = Clock::by_hand();
        (Breaker::new(BreakerSettings::default(), clock.clone()), clock)
    }

    async fn good(breaker: &Breaker) -> Result<u8, NotDone<u8>> {
        breaker.call(LONG, ready(Ok(1))).await
    }

    async fn bad(breaker: &Breaker) -> Result<u8, NotDone<u8>> {
        breaker.call(LONG, ready(Err(2))).await
    }

    #[tokio::test]
    async fn failures_in_a_row_open_it_and_one_good_probe_closes_it() {
        let (breaker, clock) = breaker();
        for _ in 0..4 {
            assert_eq!(bad(&breaker).await, Err(NotDone::Failed(2)));
        }
        assert_eq!(good(&breaker).await, Ok(1), "four are not five");
        for _ in 0..5 {
            assert_eq!(breaker.state(), BreakerState::Closed);
            assert_eq!(bad(&breaker).await, Err(NotDone::Failed(2)));
        }
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(good(&breaker).await, Err(NotDone::Refused));
        clock.advance(49 * MS);
        assert_eq!(good(&breaker).await, Err(NotDone::Refused), "the shortest back-off is half of 100 ms");
        clock.advance(101 * MS);
        assert_eq!(good(&breaker).await, Ok(1), "the longest is one and a half");
        assert_eq!(breaker.state(), BreakerState::Closed);
        let counts = breaker.counts();
        assert_eq!((counts.opened, counts.refused, counts.failed, counts.timed_out), (1, 2, 9, 0));
    }

    #[tokio::test]
    async fn failed_probes_wait_longer_up_to_a_limit() {
        let (breaker, clock) = breaker();
        for _ in 0..5 {
            let _ = bad(&breaker).await;
        }
        let mut back_off = 100 * MS;
        for _ in 0..10 {
            clock.advance(back_off / 2 - MS);
            assert_eq!(good(&breaker).await, Err(NotDone::Refused), "{back_off:?}");
            clock.advance(back_off + MS);
            assert_eq!(bad(&breaker).await, Err(NotDone::Failed(2)), "{back_off:?}");
            back_off = (back_off * 2).min(Duration::from_secs(5));
        }
        assert_eq!(breaker.counts().opened, 11);
        clock.advance(back_off * 2);
        assert_eq!(good(&breaker).await, Ok(1));
        // It begins anew with the short one.
        for _ in 0..5 {
            let _ = bad(&breaker).await;
        }
        clock.advance(151 * MS);
        assert_eq!(good(&breaker).await, Ok(1));
    }

    #[tokio::test]
    async fn half_of_the_calls_being_slow_opens_it() {
        let (breaker, clock) = breaker();
        let slowly = async || {
            let call = async {
                clock.advance(30 * MS);
                Ok::<u8, u8>(1)
            };
            breaker.call(LONG, call).await
        };
        for _ in 0..200 {
            for _ in 0..2 {
                assert_eq!(good(&breaker).await, Ok(1));
            }
            assert_eq!(slowly().await, Ok(1), "a third is no half");
        }
        let mut more = 0;
        while breaker.state() == BreakerState::Closed {
            assert_eq!(slowly().await, Ok(1));
            more += 1;
        }
        // 22 of the last 64 are slow, and every third that leaves is: n more make 22 + n - ceil(n / 3), which is 32 at 15.
        assert_eq!(more, 15);
        // A probe that is slow is no sign of health.
        clock.advance(151 * MS);
        assert_eq!(slowly().await, Ok(1));
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[tokio::test]
    async fn one_probe_at_a_time_and_one_whose_caller_leaves_is_no_verdict() {
        let (breaker, clock) = breaker();
        for _ in 0..5 {
            let _ = bad(&breaker).await;
        }
        clock.advance(151 * MS);
        let mut probe = Box::pin(breaker.call(LONG, pending::<Result<u8, u8>>()));
        assert!((&mut probe).now_or_never().is_none());
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(good(&breaker).await, Err(NotDone::Refused));
        drop(probe);
        assert_eq!(good(&breaker).await, Ok(1));
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[tokio::test]
    async fn what_began_before_it_opened_has_no_say_after_it() {
        let (breaker, clock) = breaker();
        let (tell, told) = tokio::sync::oneshot::channel::<Result<u8, u8>>();
        let late = breaker.call(LONG, async { told.await.unwrap_or(Err(3)) });
        let mut late = Box::pin(late);
        assert!((&mut late).now_or_never().is_none());
        for _ in 0..5 {
            let _ = bad(&breaker).await;
        }
        tell.send(Ok(1)).unwrap();
        assert_eq!(late.await, Ok(1));
        assert_eq!(breaker.state(), BreakerState::Open, "a late answer does not close it");
        clock.advance(151 * MS);
        assert_eq!(good(&breaker).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_kept() {
        let (breaker, _) = breaker();
        for _ in 0..5 {
            assert_eq!(breaker.call(50 * MS, pending::<Result<u8, u8>>()).await, Err(NotDone::TimedOut));
        }
        assert_eq!((breaker.state(), breaker.counts().timed_out), (BreakerState::Open, 5));
    }
}
