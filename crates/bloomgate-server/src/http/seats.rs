//! Places for what holds a thread, a file or memory for long: so many in all, and fewer for one tenant or user.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::holders::Holder;

/// The places, and who has one.
#[derive(Debug)]
pub(super) struct Seats {
    most: usize,
    most_of_one: usize,
    taken: Mutex<Vec<Holder>>,
}

/// Why there is no place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// Whoever asks has as many as one may have.
    OfOne(usize),
    /// All are taken.
    OfAll(usize),
}

/// A place, free again when this goes.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    holder: Holder,
}

impl Seats {
    pub(super) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Holder>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a holder.
    pub(super) fn take(self: &Arc<Self>, holder: Holder) -> Result<Seat, Full> {
        let mut taken = self.taken();
        if taken.iter().filter(|other| **other == holder).count() >= self.most_of_one {
            return Err(Full::OfOne(self.most_of_one));
        }
        if taken.len() >= self.most {
            return Err(Full::OfAll(self.most));
        }
        taken.push(holder.clone());
        Ok(Seat { seats: self.clone(), holder })
    }
}

impl Seat {
    /// Whose it is.
    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(at) = taken.iter().position(|other| *other == self.holder) {
            taken.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_more_than_one_may_and_all_not_more_than_there_are() {
        let seats = Seats::new(3, 2);
        let (shop, other) = (Holder::Namespace(1), Holder::User("other".into()));
        let first = seats.take(shop.clone()).unwrap();
        let _second = seats.take(shop.clone()).unwrap();
        assert_eq!(seats.take(shop.clone()).unwrap_err(), Full::OfOne(2));
        let _third = seats.take(other.clone()).unwrap();
        assert_eq!(seats.take(other.clone()).unwrap_err(), Full::OfAll(3));
        drop(first);
        assert_eq!(seats.take(other.clone()).unwrap().holder(), &other);
        seats.take(shop).unwrap();
    }
}
