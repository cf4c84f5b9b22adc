//! How many reads may be at the source, and who goes first when it is not enough.
//!
//! A gate that just started lets everything through, and everything is what a database behind a gate is not sized for. So
//! reads have a cap; and while a filter from before the restart is there, lookups of keys that it does not know (most of
//! an attack) share a quarter of the cap, and of the places to wait, so that those for real keys find room.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::turns::{Turn, Turns};
use crate::error::{Error, ErrorKind, Result};

/// The way to the source: a gate's own, or one that the tenants of a table share.
#[derive(Debug)]
pub(crate) enum Entrance {
    Own(Admission),
    /// The turns of all, and the number of this one.
    Shared(Arc<Turns>, u64),
}

/// Leave to read; ends when it is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held for its end")]
pub(crate) enum Passed<'a> {
    Own(Leave<'a>),
    Shared(Turn),
}

impl Entrance {
    /// Waits for a turn, or says at once that too many do.
    pub async fn enter(&self, unlikely: bool) -> Result<Passed<'_>> {
        self.enter_many(unlikely, 1).await
    }

    /// [`enter`](Self::enter) for what keeps the source as busy as so many single reads.
    pub async fn enter_many(&self, unlikely: bool, weight: usize) -> Result<Passed<'_>> {
        match self {
            Self::Own(admission) => admission.enter_many(unlikely, weight).await.map(Passed::Own),
            Self::Shared(turns, number) => turns.enter(*number, unlikely, weight).await.map(Passed::Shared),
        }
    }

    /// Reads at the source now.
    pub fn at_source(&self) -> usize {
        match self {
            Self::Own(admission) => admission.at_source(),
            Self::Shared(turns, number) => turns.of(*number).0,
        }
    }

    /// Lookups that wait for their turn.
    pub fn waiting(&self) -> usize {
        match self {
            Self::Own(admission) => admission.waiting(),
            Self::Shared(turns, number) => turns.of(*number).1,
        }
    }
}

/// The cap on reads at the source.
#[derive(Debug)]
pub(crate) struct Admission {
    all: Semaphore,
    unlikely: Semaphore,
    waiting: AtomicUsize,
    /// Of those, the ones for keys that no filter knows.
    unlikely_waiting: AtomicUsize,
    at_once: usize,
    most_waiting: usize,
}

/// Leave to read; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Leave<'a> {
    _all: SemaphorePermit<'a>,
    _unlikely: Option<SemaphorePermit<'a>>,
}

/// Counts one who waits, however the wait ends.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    /// One more, unless there are too many.
    fn begin(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let before = waiting.fetch_add(1, Relaxed);
        // Given back at once if there is no place.
        let one = Self(waiting);
        (before < most).then_some(one)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Admission {
    pub fn new(at_once: usize, most_waiting: usize) -> Self {
        Self {
            all: Semaphore::new(at_once),
            unlikely: Semaphore::new((at_once / 4).max(1)),
            waiting: AtomicUsize::new(0),
            unlikely_waiting: AtomicUsize::new(0),
            at_once,
            most_waiting,
        }
    }

    #[cfg(test)]
    async fn enter(&self, unlikely: bool) -> Result<Leave<'_>> {
        self.enter_many(unlikely, 1).await
    }

    /// Waits for a turn of what keeps the source as busy as so many single reads, or says at once that too many do. At most
    /// the whole cap.
    async fn enter_many(&self, unlikely: bool, weight: usize) -> Result<Leave<'_>> {
        let busy = || {
            let message = format!(
                "{} reads are at the source and {} wait: no more are taken on. Try again shortly",
                self.at_once, self.most_waiting
            );
            Error::new(ErrorKind::Busy, message)
        };
        let closed = |_| Error::new(ErrorKind::Busy, "the gate is closing");
        let few = (self.at_once / 4).max(1);
        let weight = weight.clamp(1, if unlikely { few } else { self.at_once });
        let many = weight as u32;
        if !unlikely && let Ok(leave) = self.all.try_acquire_many(many) {
            return Ok(Leave { _all: leave, _unlikely: None });
        }
        let _waiting = Waiting::begin(&self.waiting, self.most_waiting).ok_or_else(busy)?;
        let mut behind = None;
        let unlikely = match unlikely {
            true => {
                let most = (self.most_waiting / 4).max(1);
                behind = Some(Waiting::begin(&self.unlikely_waiting, most).ok_or_else(busy)?);
                Some(self.unlikely.acquire_many(many).await.map_err(closed)?)
            }
            false => None,
        };
        let all = self.all.acquire_many(many).await.map_err(closed)?;
        drop(behind);
        Ok(Leave { _all: all, _unlikely: unlikely })
    }

    fn at_source(&self) -> usize {
        self.at_once - self.all.available_permits().min(self.at_once)
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn no_more_than_the_cap_read_and_no_more_than_the_queue_wait() {
        let admission = Admission::new(2, 1);
        let first = admission.enter(false).await.unwrap();
        let _second = admission.enter(false).await.unwrap();
        assert_eq!((admission.at_source(), admission.waiting()), (2, 0));
        let mut third = Box::pin(admission.enter(false));
        assert!(third.as_mut().now_or_never().is_none());
        assert_eq!(admission.enter(false).await.unwrap_err().kind(), ErrorKind::Busy);
        drop(first);
        let _third = third.await.unwrap();
        assert_eq!((admission.at_source(), admission.waiting()), (2, 0));
        let given_up = Box::pin(admission.enter(false));
        assert!(given_up.now_or_never().is_none());
        assert_eq!(admission.waiting(), 0, "who gives up leaves the queue");
    }

    #[tokio::test]
    async fn unlikely_lookups_leave_room_for_the_others() {
        let admission = Admission::new(8, 100);
        let _unlikely = [admission.enter(true).await.unwrap(), admission.enter(true).await.unwrap()];
        assert!(admission.enter(true).now_or_never().is_none(), "a quarter of the cap");
        for _ in 0..6 {
            std::mem::forget(admission.enter(false).now_or_never().unwrap().unwrap());
        }
        assert!(admission.enter(false).now_or_never().is_none(), "the cap holds for all");
    }

    #[tokio::test]
    async fn unlikely_lookups_take_a_quarter_of_the_places_to_wait() {
        let admission = Admission::new(4, 8);
        let _all = admission.enter_many(false, 100).await.unwrap();
        assert_eq!(admission.at_source(), 4, "no more than there is");
        let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(admission.enter(true))).collect();
        waiting.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none()));
        assert_eq!(admission.enter(true).await.unwrap_err().kind(), ErrorKind::Busy);
        let mut known: Vec<_> = (0..6).map(|_| Box::pin(admission.enter(false))).collect();
        known.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none(), "there is room for them"));
        assert_eq!(admission.enter(false).await.unwrap_err().kind(), ErrorKind::Busy);
        drop((waiting, known));
        assert_eq!((admission.waiting(), admission.unlikely_waiting.load(Relaxed)), (0, 0));
    }

    #[tokio::test]
    async fn a_read_of_many_keys_counts_as_many() {
        let admission = Admission::new(8, 8);
        let many = admission.enter_many(false, 6).await.unwrap();
        assert_eq!(admission.at_source(), 6);
        assert!(admission.enter_many(false, 3).now_or_never().is_none());
        drop(many);
        assert_eq!(admission.at_source(), 0);
        let _few = admission.enter_many(true, 6).await.unwrap();
        assert_eq!(admission.at_source(), 2, "a quarter");
    }
}
