//! Writes under way, so that a rebuild can wait for those that began before it.
//!
//! A write holds a ticket from before it looks up which filters there are until the source has said what became of it. A
//! rebuild installs the next filter first and then waits until every ticket from before is given back: after that, each
//! write is either in the source (so the scan finds it) or began later (so it is put into the next filter too).
//!
//! Two counters in turn, as in Linux's SRCU: new tickets count on one side while the other side empties.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::sync::Notify;

/// The writes under way.
#[derive(Debug, Default)]
pub(crate) struct Puts {
    /// Even or odd says on which side new tickets count.
    turn: AtomicUsize,
    under_way: [AtomicUsize; 2],
    given_back: Notify,
}

/// A write under way; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    puts: Arc<Puts>,
    side: usize,
}

impl Puts {
    /// Begins a write.
    pub fn enter(self: &Arc<Self>) -> Ticket {
        loop {
            let turn = self.turn.load(SeqCst);
            let side = turn & 1;
            self.under_way[side].fetch_add(1, SeqCst);
            // If the turn passed on meanwhile, whoever waits for this side may have seen it empty before.
            if self.turn.load(SeqCst) == turn {
                return Ticket { puts: self.clone(), side };
            }
            self.leave(side);
        }
    }

    fn leave(&self, side: usize) {
        if self.under_way[side].fetch_sub(1, SeqCst) == 1 {
            self.given_back.notify_waiters();
        }
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.under_way.iter().map(|side| side.load(SeqCst)).sum()
    }

    /// Whether nobody counts on a side.
    pub fn is_empty(&self, side: usize) -> bool {
        self.under_way[side].load(SeqCst) == 0
    }

    /// Passes the turn on: tickets from now on count on the other side. The side of before, for [`is_empty`](Self::is_empty).
    /// Only once the other side is empty: see [`wait`](Self::wait).
    pub fn pass_turn(&self) -> usize {
        self.turn.fetch_add(1, SeqCst) & 1
    }

    /// Waits until every write that began before the call has ended. One at a time: the caller sees to that. May be
    /// given up at any point and begun again.
    pub async fn wait(&self) {
        // Left over only if a wait was given up half-way.
        self.wait_for(1 - (self.turn.load(SeqCst) & 1)).await;
        let before = self.pass_turn();
        self.wait_for(before).await;
    }

    async fn wait_for(&self, side: usize) {
        loop {
            let given_back = self.given_back.notified();
            tokio::pin!(given_back);
            // Listening before the look: a ticket given back between the two is not missed.
            given_back.as_mut().enable();
            if self.is_empty(side) {
                return;
            }
            given_back.await;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.puts.leave(self.side);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_wait_ends_with_the_writes_of_before_and_not_with_later_ones() {
        let puts = Arc::new(Puts::default());
        for _ in 0..3 {
            let (first, second) = (puts.enter(), puts.enter());
            let mut wait = Box::pin(puts.wait());
            assert!(wait.as_mut().now_or_never().is_none());
            let later = puts.enter();
            drop(first);
            assert!(wait.as_mut().now_or_never().is_none(), "one of before is under way");
            drop(second);
            assert!(wait.as_mut().now_or_never().is_some(), "the later one is not waited for");
            assert_eq!(puts.len(), 1);
            drop(later);
        }
    }

    #[tokio::test]
    async fn a_wait_that_was_given_up_loses_no_ticket() {
        let puts = Arc::new(Puts::default());
        let old = puts.enter();
        for _ in 0..5 {
            assert!(puts.wait().now_or_never().is_none(), "a ticket of before any of them is still out");
        }
        let newer = puts.enter();
        drop(old);
        assert!(puts.wait().now_or_never().is_none());
        drop(newer);
        assert!(puts.wait().now_or_never().is_some());
    }

    #[test]
    fn no_ticket_is_missed_by_a_wait_on_another_thread() {
        use std::sync::atomic::{AtomicBool, AtomicU64};
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let (puts, stop) = (Arc::new(Puts::default()), AtomicBool::new(false));
        // What a writer saw when it began, while it is under way; 0 while there is none.
        let (round, seen) = (AtomicU64::new(1), [const { AtomicU64::new(0) }; 2]);
        std::thread::scope(|scope| {
            for mine in &seen {
                let (puts, round, stop) = (&puts, &round, &stop);
                scope.spawn(move || {
                    while !stop.load(SeqCst) {
                        let ticket = puts.enter();
                        mine.store(round.load(SeqCst), SeqCst);
                        std::hint::spin_loop();
                        mine.store(0, SeqCst);
                        drop(ticket);
                    }
                });
            }
            for _ in 0..2_000 {
                let now = round.fetch_add(1, SeqCst) + 1;
                runtime.block_on(puts.wait());
                for mine in &seen {
                    let saw = mine.load(SeqCst);
                    assert!(saw == 0 || saw >= now, "a write of round {saw} is under way in round {now}");
                }
            }
            stop.store(true, SeqCst);
        });
    }
}
