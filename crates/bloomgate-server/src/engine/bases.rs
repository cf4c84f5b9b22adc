//! Files of filters that clients have: what BG.DUMP gave out is kept for an hour, so that BG.DELTA can say what has
//! changed since.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use bloomgate::Address;

use super::Engine;
use super::namespaces::Beside;
use crate::sync::Mutex;

/// Files kept of one filter.
pub const KEPT_OF_EACH: usize = 4;
/// Files kept of one namespace.
pub const KEPT_OF_SPACE: usize = 16;
/// Files kept in all.
pub const KEPT: usize = 64;
/// How long, in milliseconds.
pub const KEPT_MS: u64 = 3_600_000;
/// The longest file that is given out and kept: it is a reply in one piece.
pub const MAX_FILE: u64 = 16 << 20;

#[derive(Debug)]
struct Base {
    id: u64,
    /// What the filter was called then, and its namespace.
    name: Box<[u8]>,
    space: u16,
    address: Address,
    /// The filter's version, if it did not change while the file was made.
    version: Option<u64>,
    file: Arc<[u8]>,
    charge: Beside,
    at_ms: u64,
}

/// Files that were given out, oldest first, charged to the namespaces of their filters and to the budget: whoever needs
/// memory for a filter takes it from here first.
#[derive(Debug, Default)]
pub struct Bases(Mutex<VecDeque<Base>>);

impl Bases {
    fn with<T>(&self, work: impl FnOnce(&mut VecDeque<Base>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a file of a filter; older ones of its namespace go where there are too many, or no memory for both.
    pub fn keep(
        &self,
        engine: &Engine,
        (id, name): (u64, &[u8]),
        (address, version): (Address, Option<u64>),
        file: Arc<[u8]>,
    ) {
        self.forget_old(engine);
        let (space, bytes) = (engine.namespaces.of(name), file.len() as u64);
        self.with(|all| {
            drop_where(engine, all, 1, |base| base.address == address && base.id == id);
            let of_filter = all.iter().filter(|base| base.id == id).count();
            drop_where(engine, all, (of_filter + 1).saturating_sub(KEPT_OF_EACH), |base| base.id == id);
            let of_space = all.iter().filter(|base| base.space == space).count();
            let most = if space == 0 { KEPT } else { KEPT_OF_SPACE };
            drop_where(engine, all, (of_space + 1).saturating_sub(most), |base| base.space == space);
            let in_all = all.len();
            drop_where(engine, all, (in_all + 1).saturating_sub(KEPT), |_| true);
            let charge = loop {
                match engine.claim_beside(name, bytes, bytes) {
                    Ok(charge) => break charge,
                    // A tenant takes nothing from others; who has all names may.
                    Err(_) if drop_where(engine, all, 1, |base| space == 0 || base.space == space) => {}
                    // Not kept: whoever asks for a delta from it is told to take a dump again.
                    Err(_) => return,
                }
            };
            let at_ms = engine.clock.now_ms();
            all.push_back(Base { id, name: name.into(), space, address, version, file, charge, at_ms });
        });
    }

    /// A file that was given out, by its address; of filters with names that may be seen.
    #[must_use]
    pub fn find(&self, address: Address, may_see: impl Fn(&[u8]) -> bool) -> Option<Arc<[u8]>> {
        let wanted = |base: &&Base| base.address == address && may_see(&base.name);
        self.with(|all| all.iter().find(wanted).map(|base| base.file.clone()))
    }

    /// A file of a filter as of a version.
    #[must_use]
    pub fn of_version(&self, id: u64, version: u64) -> Option<Arc<[u8]>> {
        let wanted = |base: &&Base| base.id == id && base.version == Some(version);
        self.with(|all| all.iter().rev().find(wanted).map(|base| base.file.clone()))
    }

    /// Lets go of the oldest one, of a namespace or of all; whether there was one.
    pub fn drop_oldest(&self, engine: &Engine, space: Option<u16>) -> bool {
        self.with(|all| drop_where(engine, all, 1, |base| space.is_none_or(|space| base.space == space)))
    }

    /// Lets go of what is older than an hour.
    pub fn forget_old(&self, engine: &Engine) {
        let now_ms = engine.clock.now_ms();
        self.with(|all| drop_where(engine, all, usize::MAX, |base| now_ms.saturating_sub(base.at_ms) > KEPT_MS));
    }

    /// How many are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.with(|all| all.len())
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Lets go of so many that are meant, oldest first; whether one was.
fn drop_where(engine: &Engine, all: &mut VecDeque<Base>, most: usize, goes: impl Fn(&Base) -> bool) -> bool {
    let mut gone = 0;
    while gone < most
        && let Some(base) = all.iter().position(&goes).and_then(|at| all.remove(at))
    {
        engine.give_up_beside(base.charge);
        gone += 1;
    }
    gone > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::clock::Clock;
    use crate::engine::contracts::Contracts;
    use crate::engine::journal::Journal;
    use crate::engine::{Defaults, Limits};

    fn engine(max_memory: u64) -> Engine {
        let limits = Limits { max_memory, max_filter_memory: max_memory, max_filters: 10 };
        Engine::new(Journal::nowhere(), Contracts::new(None), Clock::fixed(1_000), limits, Defaults::default(), 1)
    }

    fn file(number: u8) -> (Address, Arc<[u8]>) {
        let bytes = vec![number; 100];
        (Address::of(&bytes), bytes.into())
    }

    fn keep(engine: &Engine, id: u64, name: &[u8], number: u8) {
        let (address, bytes) = file(number);
        engine.bases.keep(engine, (id, name), (address, None), bytes);
    }

    #[test]
    fn the_newest_are_kept_for_an_hour_and_paid_for() {
        let engine = engine(100_000);
        let (bases, budget) = (&engine.bases, &engine.budget);
        for number in 0..6 {
            keep(&engine, 1, b"f", number);
        }
        assert_eq!((bases.len(), budget.used()), (KEPT_OF_EACH, 400));
        let find = |number| bases.find(file(number).0, |_| true);
        assert!(find(1).is_none() && find(2).is_some());
        assert!(
            bases.find(file(2).0, |name| name == b"f").is_some()
                && bases.find(file(2).0, |name| name == b"g").is_none()
        );
        engine.clock.set(2_000);
        for number in 10..100 {
            keep(&engine, u64::from(number), b"f", number);
        }
        assert_eq!((bases.len(), budget.used()), (KEPT, 6_400));
        engine.clock.set(2_000 + KEPT_MS);
        bases.forget_old(&engine);
        assert_eq!(bases.len(), KEPT);
        engine.clock.set(2_001 + KEPT_MS);
        bases.forget_old(&engine);
        assert_eq!((bases.len(), budget.used()), (0, 0));
    }

    #[test]
    fn a_file_that_does_not_fit_is_not_kept() {
        let engine = engine(250);
        let (bases, budget) = (&engine.bases, &engine.budget);
        for number in 0..3 {
            keep(&engine, u64::from(number), b"f", number);
        }
        assert!(bases.find(file(0).0, |_| true).is_none() && bases.find(file(2).0, |_| true).is_some());
        assert_eq!((bases.len(), budget.used()), (2, 200));
        budget.charge_anyway(200);
        keep(&engine, 9, b"f", 9);
        assert_eq!((bases.len(), budget.used()), (0, 200));
    }
}
