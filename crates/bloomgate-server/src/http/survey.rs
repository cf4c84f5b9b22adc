//! What only a walk over all filters tells: which of them hold more than they were made for, and what those of a namespace
//! hold together.
//!
//! Taken by the [`Lookout`](super::lookout::Lookout), so that neither a scrape nor a lookup pays for it. A look goes on for
//! 200,000 filters at most (50 ms of one core, in ten seconds); a round over a million takes five looks, and is told when
//! it has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bloomgate::Kind;

use crate::engine::Engine;

/// Filters that one look goes through.
const A_LOOK: usize = 200_000;
/// Filters that are held at a time: whoever is deleted meanwhile keeps its memory no longer than that.
const AT_ONCE: usize = 4_096;
/// Overfull filters that are known by their names: of all, and of one namespace whatever others have.
pub(super) const NAMED: usize = 100;
pub(super) const NAMED_OF_ONE: usize = 20;

/// A filter that holds more than it was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overfull {
    pub name: Vec<u8>,
    /// The number of its namespace; 0 for none.
    pub space: u16,
    pub items: u64,
    pub capacity: u64,
}

/// What a round has found.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Survey {
    /// Filters that hold more items than they were made for.
    pub over_capacity: u64,
    /// The first of them, and the first of each namespace.
    pub overfull: Vec<Overfull>,
    /// The highest share of its capacity that a filter holds.
    pub worst_used: f64,
    /// What those of a namespace hold together, by its number; 0 for those in none.
    pub spaces: HashMap<u16, Together>,
}

/// What the filters of a namespace hold together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Together {
    pub items: u64,
    pub capacity: u64,
    /// How many of them are overfull.
    pub over_capacity: u64,
}

/// The way through the filters.
#[derive(Debug, Default)]
struct Walk {
    next: u64,
    so_far: Survey,
}

/// The last round, and the one that is under way.
#[derive(Debug, Default)]
pub(super) struct Surveys {
    walk: Mutex<Walk>,
    last: Mutex<Arc<Survey>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Surveys {
    /// What the last round has found.
    pub(super) fn last(&self) -> Arc<Survey> {
        lock(&self.last).clone()
    }

    /// Goes on for one look.
    pub(super) fn go_on(&self, engine: &Engine) {
        self.go(engine, A_LOOK);
    }

    fn go(&self, engine: &Engine, most: usize) {
        let mut walk = lock(&self.walk);
        let mut seen = 0;
        while seen < most {
            let entries = engine.names.visible_from_id(walk.next, AT_ONCE.min(most - seen));
            let Some(last) = entries.last() else {
                walk.next = 0;
                *lock(&self.last) = Arc::new(std::mem::take(&mut walk.so_far));
                return;
            };
            walk.next = last.id + 1;
            seen += entries.len();
            for entry in &entries {
                let Some((items, capacity)) = entry.with(|filter| (filter.len(), filter.capacity())) else { continue };
                let so_far = &mut walk.so_far;
                let space = entry.space();
                let together = so_far.spaces.entry(space).or_default();
                together.items = together.items.saturating_add(items);
                together.capacity = together.capacity.saturating_add(capacity);
                // Stable filters count every insertion and forget the old ones: they are never over their capacity.
                if entry.kind() == Kind::Stable {
                    continue;
                }
                so_far.worst_used = so_far.worst_used.max(items as f64 / capacity.max(1) as f64);
                if items > capacity {
                    so_far.over_capacity += 1;
                    together.over_capacity += 1;
                    let is_of_few = space != 0 && together.over_capacity <= NAMED_OF_ONE as u64;
                    if so_far.over_capacity <= NAMED as u64 || is_of_few {
                        so_far.overfull.push(Overfull { name: entry.name().into_owned(), space, items, capacity });
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bloomgate::Secret;

    use super::*;
    use crate::access::Namespace;
    use crate::engine::clock::Clock;
    use crate::engine::contracts::Contracts;
    use crate::engine::journal::Journal;
    use crate::engine::{Core, Defaults, Limits};
    use crate::session::Session;
    use crate::session::desk::Desk;

    /// A round that takes several looks is told when it has ended, and whoever was deleted is not in the next.
    #[test]
    fn a_round_goes_on_from_look_to_look() {
        let contracts = Contracts::new(Secret::from_hex(&"5a".repeat(32)).ok());
        let limits = Limits { max_memory: 1 << 24, max_filter_memory: 1 << 24, max_filters: 100 };
        let engine = Engine::new(Journal::nowhere(), contracts, Clock::start(), limits, Defaults::default(), 1);
        let (engine, desk) = (Arc::new(engine), Desk::new(1, None, "run".into(), Vec::new()));
        let (mut core, mut session) = (Core::new(engine.clone(), 0), Session::new(desk.welcome(None), &desk));
        let mut say = |line: &str| {
            let mut out = Vec::new();
            let turn = session.turn(&mut core, &desk, format!("{line}\r\n").as_bytes(), &mut out);
            session.forget(turn.consumed);
            assert!(!out.starts_with(b"-"), "{line}: {}", String::from_utf8_lossy(&out));
        };
        for name in ["one", "two", "three", "four", "five"] {
            say(&format!("BG.CREATE {name} KIND blocked CAPACITY 10 RATE 0.0001 ONFULL goon"));
        }
        say("BG.CREATE stable KIND stable CAPACITY 10 RATE 0.01");
        for name in ["two", "five", "stable"] {
            say(&format!("BF.MADD {name} a b c d e f g h i j k l m n o"));
        }
        let surveys = Surveys::default();
        for look in 0..3 {
            surveys.go(&engine, 2);
            assert_eq!(*surveys.last(), Survey::default(), "look {look} is not the last of the round");
        }
        surveys.go(&engine, 2);
        let found = surveys.last();
        let names: Vec<&[u8]> = found.overfull.iter().map(|one| &one.name[..]).collect();
        assert_eq!((found.over_capacity, names), (2, vec![&b"two"[..], b"five"]));
        assert!((found.worst_used - 1.5).abs() < 0.11, "{found:?}");
        let all = found.spaces[&0];
        assert!((42..=45).contains(&all.items) && all.capacity >= 50 && all.over_capacity == 2, "{found:?}");
        say("DEL two");
        surveys.go_on(&engine);
        assert_eq!(surveys.last().over_capacity, 1);
    }

    /// A hundred overfull filters of others do not hide those of a namespace.
    #[test]
    fn the_first_of_each_namespace_are_named() {
        let contracts = Contracts::new(Secret::from_hex(&"5a".repeat(32)).ok());
        let limits = Limits { max_memory: 1 << 24, max_filter_memory: 1 << 24, max_filters: 1_000 };
        let engine = Engine::new(Journal::nowhere(), contracts, Clock::start(), limits, Defaults::default(), 1);
        let (engine, desk) = (Arc::new(engine), Desk::new(1, None, "run".into(), Vec::new()));
        let declared = Namespace { prefix: "a:".to_owned(), ..Namespace::default() };
        engine.stop().declare(&[("a".to_owned(), declared)].into());
        let (mut core, mut session) = (Core::new(engine.clone(), 0), Session::new(desk.welcome(None), &desk));
        let others = (0..=NAMED).map(|number| format!("b:{number}"));
        for name in others.chain((0..=NAMED_OF_ONE).map(|number| format!("a:{number}"))) {
            let create = format!("BG.CREATE {name} KIND blocked CAPACITY 10 RATE 0.0001 ONFULL goon\r\n");
            for line in [create, format!("BF.MADD {name} a b c d e f g h i j k l m n o\r\n")] {
                let mut out = Vec::new();
                let turn = session.turn(&mut core, &desk, line.as_bytes(), &mut out);
                session.forget(turn.consumed);
                assert!(!out.starts_with(b"-"), "{line}: {}", String::from_utf8_lossy(&out));
            }
        }
        let surveys = Surveys::default();
        (0..2).for_each(|_| surveys.go_on(&engine));
        let found = surveys.last();
        let of_a = found.overfull.iter().filter(|one| one.name.starts_with(b"a:") && one.space != 0).count();
        assert_eq!((found.over_capacity, of_a, found.overfull.len()), (122, NAMED_OF_ONE, NAMED + NAMED_OF_ONE));
    }
}
