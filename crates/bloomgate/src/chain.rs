//! Stages that are opened one after the other while others look at them: what a chain of filters is made of.
//!
//! The first stage lies in the chain itself, and room for others is made when there is a second: most chains of a program
//! that has many are small and never grow. A chain of 100 keys at 1 % took 168 KB when every place was ready from the
//! start; it takes its bits and less than a kilobyte.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most stages of a chain.
pub(crate) const MOST: usize = 64;

/// One to [`MOST`] stages, oldest first. Filled from the front and never emptied while it is shared: readers need no lock.
pub(crate) struct Chain<T> {
    first: T,
    later: OnceLock<Box<[OnceLock<Box<T>>]>>,
    open: AtomicUsize,
}

/// Empty places for all stages but the first.
fn places<T>() -> Box<[OnceLock<Box<T>>]> {
    (1..MOST).map(|_| OnceLock::new()).collect()
}

impl<T> Chain<T> {
    /// A chain of these stages; `None` if there are none, or too many.
    pub(crate) fn of(stages: Vec<T>) -> Option<Self> {
        if stages.len() > MOST {
            return None;
        }
        let mut stages = stages.into_iter();
        let chain = Self { first: stages.next()?, later: OnceLock::new(), open: AtomicUsize::new(1) };
        stages.all(|stage| chain.push(stage)).then_some(chain)
    }

    /// How many stages there are.
    #[inline]
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// The stage with this number.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        match at.checked_sub(1) {
            None => Some(&self.first),
            Some(later) => self.later.get()?.get(later)?.get().map(Box::as_ref),
        }
    }

    /// The stage with this number, for its owner.
    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match at.checked_sub(1) {
            None => Some(&mut self.first),
            Some(later) => self.later.get_mut()?.get_mut(later)?.get_mut().map(Box::as_mut),
        }
    }

    /// The open stages, oldest first.
    #[inline]
    pub(crate) fn each(&self) -> impl DoubleEndedIterator<Item = &T> {
        (0..self.open()).filter_map(|at| self.get(at))
    }

    /// The newest stage.
    #[inline]
    pub(crate) fn newest(&self) -> &T {
        self.get(self.open() - 1).unwrap_or(&self.first)
    }

    /// The newest stage, for its owner.
    pub(crate) fn newest_mut(&mut self) -> &mut T {
        let newest = *self.open.get_mut() - 1;
        let later = newest.checked_sub(1).zip(self.later.get_mut());
        match later.and_then(|(at, later)| later.get_mut(at)).and_then(OnceLock::get_mut) {
            Some(stage) => stage,
            None => &mut self.first,
        }
    }

    /// Opens another stage; false if there is no place for it. Only one thread at a time may: the holder of the lock of
    /// whoever has the chain.
    pub(crate) fn push(&self, stage: T) -> bool {
        let open = self.open();
        let Some(place) = self.later.get_or_init(places).get(open - 1) else { return false };
        let placed = place.set(Box::new(stage)).is_ok();
        self.open.store(open + usize::from(placed), Ordering::Release);
        placed
    }

    /// Takes a stage out, which is not the first, and leaves its place empty: to be [put back](Self::put_back), or given up
    /// with [`close`](Self::close).
    pub(crate) fn take(&mut self, at: usize) -> Option<Box<T>> {
        self.later.get_mut()?.get_mut(at.checked_sub(1)?)?.take()
    }

    /// Puts back what was [taken](Self::take).
    pub(crate) fn put_back(&mut self, at: usize, stage: Box<T>) {
        if let Some(place) = self.later.get_mut().zip(at.checked_sub(1)).and_then(|(later, at)| later.get_mut(at)) {
            *place = OnceLock::from(stage);
        }
    }

    /// Closes the newest stage, which was taken.
    pub(crate) fn close(&mut self) {
        let open = self.open.get_mut();
        *open = (*open - 1).max(1);
    }

    /// The stages, oldest first.
    pub(crate) fn into_stages(self) -> impl Iterator<Item = T> {
        let later = self.later.into_inner().map(Vec::from).unwrap_or_default();
        std::iter::once(self.first).chain(later.into_iter().filter_map(OnceLock::into_inner).map(|stage| *stage))
    }
}

impl<T: Clone> Clone for Chain<T> {
    fn clone(&self) -> Self {
        let open = AtomicUsize::new(self.open());
        Self { first: self.first.clone(), later: self.later.clone(), open }
    }
}
