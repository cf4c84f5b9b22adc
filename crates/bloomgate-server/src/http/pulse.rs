//! The last ten seconds: what was counted each second, for rates and latencies of now. And the last five minutes of those
//! rates, so that whoever opens the dashboard sees where they come from.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::session::desk::{Desk, Totals};
use crate::session::tallies::{BOUNDS, BUCKETS};

/// How often it is looked.
pub(super) const EVERY_MS: u64 = 1_000;
/// Looks that are kept: ten seconds and one.
const KEPT: usize = 11;
/// Points of the curve that are kept: five minutes.
const CURVE: usize = 300;

/// What was counted at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beat {
    pub at_ms: u64,
    pub totals: Totals,
    pub took: [u64; BUCKETS],
}

impl Beat {
    /// What is counted now.
    pub(super) fn now(desk: &Desk, at_ms: u64) -> Self {
        let mut took = [0; BUCKETS];
        for (_, told) in desk.tallies.told() {
            took.iter_mut().zip(told.buckets()).for_each(|(sum, more)| *sum += more);
        }
        Self { at_ms, totals: desk.totals(), took }
    }
}

/// Rates and latencies between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lately {
    pub lookups: f64,
    pub definitely_not: f64,
    pub adds: f64,
    pub commands: f64,
    /// In seconds; nothing where nothing was asked.
    pub median: Option<f64>,
    pub slowest_of_hundred: Option<f64>,
}

/// The rates at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub at_ms: u64,
    pub lookups: f64,
    pub definitely_not: f64,
}

/// The moments that are kept.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    beats: Mutex<VecDeque<Beat>>,
    curve: Mutex<VecDeque<Point>>,
}

fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pulse {
    /// Keeps a moment.
    pub(super) fn push(&self, beat: Beat) {
        let mut beats = locked(&self.beats);
        // CONFIG RESETSTAT begins again.
        if beats.back().is_some_and(|last| last.totals.commands > beat.totals.commands) {
            beats.clear();
        }
        beats.push_back(beat);
        while beats.len() > KEPT {
            beats.pop_front();
        }
        drop(beats);
        let Some(Lately { lookups, definitely_not, .. }) = self.lately() else { return };
        let mut curve = locked(&self.curve);
        curve.push_back(Point { at_ms: beat.at_ms, lookups, definitely_not });
        while curve.len() > CURVE {
            curve.pop_front();
        }
    }

    /// The rates of the last minutes, the oldest first.
    pub(super) fn curve(&self) -> Vec<Point> {
        locked(&self.curve).iter().copied().collect()
    }

    /// What the last seconds were like; nothing before there are two moments.
    pub(super) fn lately(&self) -> Option<Lately> {
        let beats = locked(&self.beats);
        let (first, last) = (beats.front()?, beats.back()?);
        between(first, last)
    }
}

fn between(first: &Beat, last: &Beat) -> Option<Lately> {
    let millis = last.at_ms.saturating_sub(first.at_ms);
    if millis == 0 {
        return None;
    }
    let rate = |tell: fn(&Totals) -> u64| {
        tell(&last.totals).saturating_sub(tell(&first.totals)) as f64 * 1_000.0 / millis as f64
    };
    let mut took = last.took;
    took.iter_mut().zip(&first.took).for_each(|(now, before)| *now = now.saturating_sub(*before));
    Some(Lately {
        lookups: rate(|totals| totals.lookups),
        definitely_not: rate(|totals| totals.lookups.saturating_sub(totals.positives)),
        adds: rate(|totals| totals.adds),
        commands: rate(|totals| totals.commands),
        median: quantile(&took, 0.5),
        slowest_of_hundred: quantile(&took, 0.99),
    })
}

/// The bound below which so large a share lies.
fn quantile(took: &[u64; BUCKETS], share: f64) -> Option<f64> {
    let all: u64 = took.iter().sum();
    let wanted = (all as f64 * share).ceil() as u64;
    let mut sum = 0;
    let at = took.iter().position(|count| {
        sum += count;
        sum >= wanted && sum > 0
    })?;
    // The last bucket has no bound: twice the one before.
    Some(BOUNDS.get(at).copied().unwrap_or(BOUNDS[BOUNDS.len() - 1] * 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(at_ms: u64, lookups: u64, positives: u64, fast: u64, slow: u64) -> Beat {
        let mut took = [0; BUCKETS];
        (took[0], took[10]) = (fast, slow);
        let totals = Totals { lookups, positives, commands: fast + slow, ..Totals::default() };
        Beat { at_ms, totals, took }
    }

    #[test]
    fn rates_are_of_the_last_seconds() {
        let pulse = Pulse::default();
        assert_eq!(pulse.lately(), None);
        pulse.push(beat(1_000, 0, 0, 0, 0));
        assert_eq!(pulse.lately(), None);
        pulse.push(beat(2_000, 100, 40, 95, 5));
        let lately = pulse.lately().unwrap();
        assert_eq!((lately.lookups, lately.definitely_not, lately.commands), (100.0, 60.0, 100.0));
        assert_eq!((lately.median, lately.slowest_of_hundred), (Some(BOUNDS[0]), Some(BOUNDS[10])));
        for second in 3..30 {
            pulse.push(beat(second * 1_000, 100, 40, 95, 5));
        }
        let idle = pulse.lately().unwrap();
        assert_eq!((idle.lookups, idle.median), (0.0, None));
        assert_eq!(locked(&pulse.beats).len(), KEPT);
        pulse.push(beat(40_000, 0, 0, 0, 0));
        assert_eq!(pulse.lately(), None, "counters began again");
        // The curve has what was told each second, and goes on over that.
        let curve = pulse.curve();
        assert_eq!((curve.len(), curve[0]), (28, Point { at_ms: 2_000, lookups: 100.0, definitely_not: 60.0 }));
        for second in 41..1_000 {
            pulse.push(beat(second * 1_000, 0, 0, 0, 0));
        }
        let curve = pulse.curve();
        assert_eq!((curve.len(), curve[CURVE - 1].at_ms), (CURVE, 999_000));
    }
}
