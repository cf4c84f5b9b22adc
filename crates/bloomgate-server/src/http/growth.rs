//! How fast filters grow: their items now and some minutes ago, looked at every ten seconds.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::Engine;
use crate::engine::shadows::is_reserved;

/// How often it is looked.
pub(super) const EVERY_MS: u64 = 10_000;
/// Filters that are looked at, the first of all: 20,000 take 5 ms. As many more at most are the first of each namespace.
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
        self.look_at(engine, MOST);
    }

    fn look_at(&self, engine: &Engine, most: usize) {
        let now_ms = engine.clock.now_ms();
        let mut entries = engine.names.visible_from_id(0, most);
        let last = entries.last().map_or(0, |last| last.id);
        let spaces = engine.namespaces.numbers();
        // However many filters others have, each namespace has its share.
        let share = most / spaces.len().max(1);
        for space in spaces {
            let (own, _) = engine.filters_of(space, 0, share);
            entries.extend(own.into_iter().filter(|entry| entry.id > last && !is_reserved(&entry.name())));
        }
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
    use std::sync::Arc;

    use bloomgate::Secret;

    use super::*;
    use crate::access::Namespace;
    use crate::engine::clock::Clock;
    use crate::engine::contracts::Contracts;
    use crate::engine::journal::Journal;
    use crate::engine::{Core, Defaults, Limits};
    use crate::session::Session;
    use crate::session::desk::Desk;

    /// A namespace's first filters are looked at, however many others were made before them.
    #[test]
    fn each_namespace_has_its_share_of_the_looks() {
        let contracts = Contracts::new(Secret::from_hex(&"5a".repeat(32)).ok());
        let limits = Limits { max_memory: 1 << 24, max_filter_memory: 1 << 24, max_filters: 100 };
        let engine = Engine::new(Journal::nowhere(), contracts, Clock::start(), limits, Defaults::default(), 1);
        let (engine, desk) = (Arc::new(engine), Desk::new(1, None, "run".into(), Vec::new()));
        let declared =
            |prefix: &str| (prefix.to_owned(), Namespace { prefix: prefix.to_owned(), ..Namespace::default() });
        engine.stop().declare(&["a:", "b:"].map(declared).into());
        let (mut core, mut session) = (Core::new(engine.clone(), 0), Session::new(desk.welcome(None), &desk));
        for name in ["b:1", "b:2", "b:3", "b:4", "b:5", "a:1", "a:2", "a:3", "b:6"] {
            let (line, mut out) = (format!("BF.RESERVE {name} 0.01 100\r\n"), Vec::new());
            let turn = session.turn(&mut core, &desk, line.as_bytes(), &mut out);
            session.forget(turn.consumed);
            assert_eq!(out, b"+OK\r\n");
        }
        let growth = Growth::default();
        growth.look_at(&engine, 4);
        let looked_at = |name: &&str| growth.seen().contains_key(&engine.find(name.as_bytes()).unwrap().id);
        let known: Vec<&str> =
            ["b:1", "b:4", "b:5", "a:1", "a:2", "a:3", "b:6"].into_iter().filter(looked_at).collect();
        assert_eq!(known, ["b:1", "b:4", "a:1", "a:2"]);
    }

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
