//! How fast filters grow: their items now and some minutes ago, looked at every ten seconds.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::Engine;

/// How often it is looked.
pub(super) const EVERY_MS: u64 = 10_000;
/// Filters that are looked at: 20,000 take 5 ms.
const MOST: usize = 20_000;
/// How far apart the two looks are that a rate is made of, at least half of it.
const STRETCH_MS: u64 = 300_000;

#[derive(Debug, Clone, Copy)]
struct Look {
    at_ms: u64,
    items: u64,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    older: Look,
    newer: Look,
    rate: Option<f64>,
}

/// What is known about growth.
#[derive(Debug, Default)]
pub(super) struct Growth {
    seen: Mutex<HashMap<u64, Seen>>,
}

impl Growth {
    fn seen(&self) -> MutexGuard<'_, HashMap<u64, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Items a second of a filter over the last minutes; nothing of one that was seen once.
    pub(super) fn of(&self, id: u64) -> Option<f64> {
        self.seen().get(&id)?.rate
    }

    /// Looks at the filters there are.
    pub(super) fn look(&self, engine: &Engine) {
        let now_ms = engine.clock.now_ms();
        let entries = engine.names.visible_from_id(0, MOST);
        let mut before = std::mem::take(&mut *self.seen());
        let mut now = HashMap::with_capacity(entries.len());
        for entry in entries {
            let Some(items) = entry.with(|filter| filter.len()) else { continue };
            let look = Look { at_ms: now_ms, items };
            now.insert(entry.id, step(before.remove(&entry.id), look));
        }
        *self.seen() = now;
    }
}

fn step(before: Option<Seen>, now: Look) -> Seen {
    let Some(mut seen) = before else { return Seen { older: now, newer: now, rate: None } };
    if now.at_ms.saturating_sub(seen.newer.at_ms) >= STRETCH_MS / 2 {
        seen.older = std::mem::replace(&mut seen.newer, now);
    }
    let millis = now.at_ms.saturating_sub(seen.older.at_ms);
    if millis > 0 {
        // One that was merged, folded or emptied has fewer: it does not grow.
        seen.rate = Some(now.items.saturating_sub(seen.older.items) as f64 * 1_000.0 / millis as f64);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_last_minutes() {
        let look = |seconds: u64, items| Look { at_ms: seconds * 1_000, items };
        let mut seen = step(None, look(0, 100));
        assert_eq!(seen.rate, None);
        for ten in 1..=60 {
            seen = step(Some(seen), look(ten * 10, 100 + ten * 20));
            assert_eq!(seen.rate, Some(2.0), "{ten}");
        }
        // It stands still: after five minutes nothing of the growth before is left.
        for ten in 61..=120 {
            seen = step(Some(seen), look(ten * 10, 1_300));
        }
        assert_eq!(seen.rate, Some(0.0));
        assert_eq!(step(Some(seen), look(1_210, 0)).rate, Some(0.0));
    }
}
