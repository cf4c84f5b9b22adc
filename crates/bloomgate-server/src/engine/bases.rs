//! Files of filters that clients have: what BG.DUMP gave out is kept for an hour, so that BG.DELTA can say what has
//! changed since.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use bloomgate::Address;

use super::budget::Budget;
use crate::sync::Mutex;

/// Files kept of one filter.
pub const KEPT_OF_EACH: usize = 4;
/// Files kept in all.
pub const KEPT: usize = 64;
/// How long, in milliseconds.
pub const KEPT_MS: u64 = 3_600_000;
/// The longest file that is given out and kept: it is a reply in one piece.
pub const MAX_FILE: u64 = 16 << 20;

#[derive(Debug)]
struct Base {
    id: u64,
    /// What the filter was called then.
    name: Box<[u8]>,
    address: Address,
    file: Arc<[u8]>,
    at_ms: u64,
}

/// Files that were given out, oldest first, charged to the budget.
#[derive(Debug, Default)]
pub struct Bases(Mutex<VecDeque<Base>>);

impl Bases {
    fn with<T>(&self, work: impl FnOnce(&mut VecDeque<Base>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a file of a filter; older ones go where there are too many, or no memory for both.
    pub fn keep(&self, budget: &Budget, (id, name): (u64, &[u8]), address: Address, file: Arc<[u8]>, now_ms: u64) {
        self.forget_old(budget, now_ms);
        self.with(|all| {
            if let Some(at) = all.iter().position(|base| base.address == address && base.id == id) {
                release(budget, all.remove(at));
            }
            while all.iter().filter(|base| base.id == id).count() >= KEPT_OF_EACH {
                let oldest = all.iter().position(|base| base.id == id).unwrap_or(0);
                release(budget, all.remove(oldest));
            }
            while all.len() >= KEPT {
                release(budget, all.pop_front());
            }
            while budget.charge(0, file.len() as u64).is_err() {
                match all.pop_front() {
                    Some(oldest) => release(budget, Some(oldest)),
                    // Not kept: whoever asks for a delta from it is told to take a dump again.
                    None => return,
                }
            }
            all.push_back(Base { id, name: name.into(), address, file, at_ms: now_ms });
        });
    }

    /// A file that was given out, by its address; of filters with names that may be seen.
    #[must_use]
    pub fn find(&self, address: Address, may_see: impl Fn(&[u8]) -> bool) -> Option<Arc<[u8]>> {
        let wanted = |base: &&Base| base.address == address && may_see(&base.name);
        self.with(|all| all.iter().find(wanted).map(|base| base.file.clone()))
    }

    /// Lets go of what is older than an hour.
    pub fn forget_old(&self, budget: &Budget, now_ms: u64) {
        self.with(|all| {
            while all.front().is_some_and(|oldest| now_ms.saturating_sub(oldest.at_ms) > KEPT_MS) {
                release(budget, all.pop_front());
            }
        });
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

fn release(budget: &Budget, base: Option<Base>) {
    if let Some(base) = base {
        budget.release(base.file.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u8) -> (Address, Arc<[u8]>) {
        let bytes = vec![number; 100];
        (Address::of(&bytes), bytes.into())
    }

    #[test]
    fn the_newest_are_kept_for_an_hour_and_paid_for() {
        let (bases, budget) = (Bases::default(), Budget::new(100_000, 100_000));
        for number in 0..6 {
            let (address, bytes) = file(number);
            bases.keep(&budget, (1, b"f"), address, bytes, 1_000 + u64::from(number));
        }
        assert_eq!((bases.len(), budget.used()), (KEPT_OF_EACH, 400));
        let find = |number| bases.find(file(number).0, |_| true);
        assert!(find(1).is_none() && find(2).is_some());
        assert!(
            bases.find(file(2).0, |name| name == b"f").is_some()
                && bases.find(file(2).0, |name| name == b"g").is_none()
        );
        for number in 10..100 {
            let (address, bytes) = file(number);
            bases.keep(&budget, (u64::from(number), b"f"), address, bytes, 2_000);
        }
        assert_eq!((bases.len(), budget.used()), (KEPT, 6_400));
        bases.forget_old(&budget, 2_000 + KEPT_MS);
        assert_eq!(bases.len(), KEPT);
        bases.forget_old(&budget, 2_001 + KEPT_MS);
        assert_eq!((bases.len(), budget.used()), (0, 0));
    }

    #[test]
    fn a_file_that_does_not_fit_is_not_kept() {
        let (bases, budget) = (Bases::default(), Budget::new(250, 250));
        for number in 0..3 {
            let (address, bytes) = file(number);
            bases.keep(&budget, (u64::from(number), b"f"), address, bytes, 0);
        }
        assert!(bases.find(file(0).0, |_| true).is_none() && bases.find(file(2).0, |_| true).is_some());
        assert_eq!((bases.len(), budget.used()), (2, 200));
        budget.charge_anyway(200);
        let (address, bytes) = file(9);
        bases.keep(&budget, (9, b"f"), address, bytes, 0);
        assert_eq!((bases.len(), budget.used()), (0, 200));
    }
}
