//! Connections that had their share of a thread and want more: they stand in a line, and are called one at a time.
//!
//! Before each call the sockets are looked at, and whoever has just asked something small goes first: a lookup waits for one
//! share of somebody's storm, not for one of each connection that storms. (Of plain yielding tasks all go round before the
//! runtime looks at its sockets again.) A call costs about a microsecond.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use tokio::sync::Notify;

/// The line of one thread.
#[derive(Debug, Default)]
pub struct Line {
    waiting: RefCell<VecDeque<Waker>>,
    /// How many were called so far.
    called: Cell<u64>,
    begun: Notify,
}

impl Line {
    /// Waits until the caller's turn comes.
    pub async fn stand(&self) {
        let number = self.called.get() + self.waiting.borrow().len() as u64;
        poll_fn(|context| {
            let Some(before) = number.checked_sub(self.called.get()) else { return Poll::Ready(()) };
            let mut waiting = self.waiting.borrow_mut();
            // A socket that has more to read wakes its connection too: that one stays where it is.
            match waiting.get_mut(before as usize) {
                Some(waker) => waker.clone_from(context.waker()),
                None => {
                    waiting.push_back(context.waker().clone());
                    self.begun.notify_one();
                }
            }
            Poll::Pending
        })
        .await;
    }

    /// Calls who stands in the line, for ever. One who has gone meanwhile is called in vain.
    pub async fn call(&self) {
        loop {
            // The runtime looks at its sockets before it comes back here.
            tokio::task::yield_now().await;
            let first = self.waiting.borrow_mut().pop_front();
            match first {
                Some(waker) => {
                    self.called.set(self.called.get() + 1);
                    waker.wake();
                }
                None => self.begun.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use tokio::task::LocalSet;

    #[test]
    fn they_are_called_in_order_and_sockets_are_looked_at_between() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (line, log) = (Rc::new(Line::default()), Rc::new(RefCell::new(Vec::new())));
            let calling = line.clone();
            tokio::task::spawn_local(async move { calling.call().await });
            let (mut near, mut far) = tokio::net::UnixStream::pair().unwrap();
            let heard = log.clone();
            let reader = tokio::task::spawn_local(async move {
                let mut byte = [0];
                while far.read_exact(&mut byte).await.is_ok() {
                    heard.borrow_mut().push(byte[0]);
                }
            });
            // Three who always want more.
            let mut crowd = Vec::new();
            for who in 0..3u8 {
                let (line, log) = (line.clone(), log.clone());
                crowd.push(tokio::task::spawn_local(async move {
                    for share in 1..=3u8 {
                        line.stand().await;
                        log.borrow_mut().push(10 * share + who);
                    }
                }));
            }
            tokio::task::yield_now().await;
            near.write_all(&[99]).await.unwrap();
            for one in crowd {
                one.await.unwrap();
            }
            drop(near);
            reader.await.unwrap();
            let log = log.borrow();
            let shares: Vec<u8> = log.iter().copied().filter(|&entry| entry != 99).collect();
            assert_eq!(shares, [10, 11, 12, 20, 21, 22, 30, 31, 32]);
            let heard = log.iter().position(|&entry| entry == 99).unwrap();
            assert!(heard <= 2, "it was heard before the line had gone round: {log:?}");
        });
    }
}
