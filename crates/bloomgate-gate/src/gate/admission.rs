//! How many reads may be at the source, and who goes first when it is not enough.
//!
//! A gate that just started lets everything through, and everything is what a database behind a gate is not sized for. So
//! reads have a cap; and while a filter from before the restart is there, lookups of keys that it does not know (most of
//! an attack) share a quarter of the cap, so that those for real keys find room.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{Error, ErrorKind, Result};

/// The cap on reads at the source.
#[derive(Debug)]
pub(crate) struct Admission {
    all: Semaphore,
    unlikely: Semaphore,
    waiting: AtomicUsize,
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
            at_once,
            most_waiting,
        }
    }

    /// Waits for a turn, or says at once that too many do.
    pub async fn enter(&self, unlikely: bool) -> Result<Leave<'_>> {
        let busy = || {
            let message = format!(
                "{} reads are at the source and {} wait: no more are taken on. Try again shortly",
                self.at_once, self.most_waiting
            );
            Error::new(ErrorKind::Busy, message)
        };
        let closed = |_| Error::new(ErrorKind::Busy, "the gate is closing");
        if !unlikely && let Ok(leave) = self.all.try_acquire() {
            return Ok(Leave { _all: leave, _unlikely: None });
        }
        if self.waiting.fetch_add(1, Relaxed) >= self.most_waiting {
            self.waiting.fetch_sub(1, Relaxed);
            return Err(busy());
        }
        let _waiting = Waiting(&self.waiting);
        let unlikely = match unlikely {
            true => Some(self.unlikely.acquire().await.map_err(closed)?),
            false => None,
        };
        Ok(Leave { _all: self.all.acquire().await.map_err(closed)?, _unlikely: unlikely })
    }

    /// Reads at the source now.
    pub fn at_source(&self) -> usize {
        self.at_once - self.all.available_permits().min(self.at_once)
    }

    /// Lookups that wait for their turn.
    pub fn waiting(&self) -> usize {
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
}
