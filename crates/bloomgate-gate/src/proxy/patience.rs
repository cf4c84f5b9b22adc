//! How long something is waited for, without a timer made and thrown away for each wait.
//!
//! Nearly everything that is waited for comes in time. To enter a timer in the runtime's wheel and take it out again costs
//! more than what a lookup costs the gate in all, twice a request. So timers are kept: one that is set to an earlier moment
//! than wanted stays as it is, and is set anew when it goes off too soon, once in a minute or so.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// How many timers are kept for later: as many as requests are mostly under way.
const MOST: usize = 256;

/// Timers that nobody waits for now.
#[derive(Debug, Default)]
pub(super) struct Timers(Mutex<Vec<Pin<Box<Sleep>>>>);

/// A wait that ends at a moment.
#[derive(Debug)]
pub(super) struct Patience {
    until: Instant,
    /// Taken when it is waited for the first time.
    timer: Option<Pin<Box<Sleep>>>,
    home: Arc<Timers>,
}

impl Patience {
    /// So long, from now on.
    pub fn new(home: &Arc<Timers>, limit: Duration) -> Self {
        Self { until: Instant::now() + limit, timer: None, home: home.clone() }
    }

    /// So long, from now on.
    pub fn begin_again(&mut self, limit: Duration) {
        self.until = Instant::now() + limit;
    }

    /// Whether it has ended; wakes whoever asks when it does.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let until = self.until;
        let timer = self.timer.get_or_insert_with(|| {
            // One that another thread is just looking for is not waited for.
            let kept = self.home.0.try_lock().ok().and_then(|mut timers| timers.pop());
            kept.unwrap_or_else(|| Box::pin(sleep_until(until)))
        });
        if timer.deadline() > until {
            timer.as_mut().reset(until);
        }
        while timer.as_mut().poll(context).is_ready() {
            if Instant::now() >= until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
        Poll::Pending
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take()
            && let Ok(mut timers) = self.home.0.try_lock()
            && timers.len() < MOST
        {
            timers.push(timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn wait(patience: &mut Patience) -> Duration {
        let begun = Instant::now();
        std::future::poll_fn(|context| patience.poll(context)).await;
        begun.elapsed()
    }

    /// Whether it has ended by now.
    async fn ended(patience: &mut Patience) -> bool {
        std::future::poll_fn(|context| Poll::Ready(patience.poll(context).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_takes_as_long_as_was_said_whichever_timer_it_gets() {
        let (home, second) = (Arc::new(Timers::default()), Duration::from_secs(1));
        // New; one that was set to an earlier moment; one that was set to a later one; one that has gone off.
        for (before, limit) in [(0, 5), (3, 60), (60, 3), (1, 1)] {
            if before > 0 {
                let mut other = Patience::new(&home, second * before);
                assert!(!ended(&mut other).await);
                tokio::time::sleep(second / 2).await;
            }
            let kept = home.0.lock().unwrap().len();
            let mut patience = Patience::new(&home, second * limit);
            let waited = wait(&mut patience).await;
            assert!(waited >= second * limit && waited < second * limit + second / 10, "{limit} s: {waited:?}");
            drop(patience);
            assert_eq!(home.0.lock().unwrap().len(), kept.max(1), "it was given back");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_begins_again_ends_later() {
        let (home, second) = (Arc::new(Timers::default()), Duration::from_secs(1));
        let mut patience = Patience::new(&home, second * 2);
        assert!(!ended(&mut patience).await);
        tokio::time::sleep(second).await;
        patience.begin_again(second * 2);
        let waited = wait(&mut patience).await;
        assert!(waited >= second * 2 && waited < second * 3, "{waited:?}");
        patience.begin_again(second);
        assert!(!ended(&mut patience).await, "it can be used once more");
    }

    #[tokio::test]
    async fn no_more_are_kept_than_are_needed() {
        let home = Arc::new(Timers::default());
        let mut many: Vec<Patience> = (0..MOST + 10).map(|_| Patience::new(&home, Duration::from_secs(9))).collect();
        for patience in &mut many {
            assert!(!ended(patience).await);
        }
        drop(many);
        assert_eq!(home.0.lock().unwrap().len(), MOST);
    }
}
