//! The cap on reads at a source that many tenants share: whoever waits gets its fair share of it, however many the others
//! send.
//!
//! Each tenant has a queue of its own, and the next turn is that of the tenant that has had the least so far (start-time fair
//! queueing: Goyal, Vin and Cheng, 1996), so a flood of one tenant costs another at most the end of a read. When all places to
//! wait are taken, the longest queue loses its newest (buffer stealing: McKenney, 1990): a flood pushes out its own.
//!
//! Lookups of keys that a filter from before the restart does not know have, as in `admission`, a quarter of the cap.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};

/// The cap on reads at the source, shared by tenants.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    at_once: usize,
    most_waiting: usize,
}

#[derive(Debug)]
struct State {
    /// Reads that may still begin, and those of them that may be for unlikely keys.
    free: usize,
    free_unlikely: usize,
    /// Likely and unlikely.
    lines: [Lines; 2],
    /// Likely ones that went since the last unlikely one: at most three in a row.
    in_a_row: u32,
    next_ticket: u64,
    /// Reads of each tenant that has any.
    at_source: HashMap<u64, usize>,
}

/// The queues of one class.
#[derive(Debug, Default)]
struct Lines {
    of: HashMap<u64, Line>,
    /// Tenants that wait, by what they have had.
    order: BTreeSet<(u64, u64)>,
    /// What the tenant of the last turn had had: who comes newly begins there, not at nothing.
    now: u64,
    waiting: usize,
}

#[derive(Debug)]
struct Line {
    had: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    weight: usize,
    tell: oneshot::Sender<Turn>,
}

/// Leave to read; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    number: u64,
    weight: usize,
    unlikely: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.free += self.weight;
        if self.unlikely {
            state.free_unlikely += self.weight;
        }
        if let Some(reads) = state.at_source.get_mut(&self.number) {
            *reads = reads.saturating_sub(self.weight);
            if *reads == 0 {
                state.at_source.remove(&self.number);
            }
        }
        self.turns.serve(state);
    }
}

/// One who waits; leaves its queue however the wait ends.
struct InLine<'a> {
    turns: &'a Turns,
    number: u64,
    class: usize,
    ticket: u64,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.lines[self.class].remove(self.number, |waiting| waiting.ticket == self.ticket);
    }
}

impl Lines {
    fn push(&mut self, number: u64, waiting: Waiting) {
        let now = self.now;
        let line = self.of.entry(number).or_insert_with(|| Line { had: now, waiting: VecDeque::new() });
        if line.waiting.is_empty() {
            line.had = line.had.max(now);
            self.order.insert((line.had, number));
        }
        line.waiting.push_back(waiting);
        self.waiting += 1;
    }

    /// Takes one out of a tenant's queue, if it is there.
    fn remove(&mut self, number: u64, is_it: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        let line = self.of.get_mut(&number)?;
        let at = line.waiting.iter().position(is_it)?;
        let found = line.waiting.remove(at)?;
        self.waiting -= 1;
        if line.waiting.is_empty() {
            self.order.remove(&(line.had, number));
            self.of.remove(&number);
        }
        Some(found)
    }

    /// Whose turn it is, and how much that takes.
    fn first(&self) -> Option<(u64, usize)> {
        let &(_, number) = self.order.first()?;
        Some((number, self.of.get(&number)?.waiting.front()?.weight))
    }

    fn pop(&mut self) -> Option<(u64, Waiting)> {
        let (had, number) = self.order.pop_first()?;
        let line = self.of.get_mut(&number)?;
        let next = line.waiting.pop_front()?;
        self.waiting -= 1;
        self.now = had;
        line.had = had + next.weight as u64;
        if line.waiting.is_empty() {
            self.of.remove(&number);
        } else {
            self.order.insert((line.had, number));
        }
        Some((number, next))
    }

    /// Makes room for one of a tenant by the newest of the longest queue; none if that is its own.
    fn steal(&mut self, number: u64) -> Option<Waiting> {
        let mine = self.of.get(&number).map_or(0, |line| line.waiting.len());
        let (&longest, length) =
            self.of.iter().map(|(number, line)| (number, line.waiting.len())).max_by_key(|&(_, length)| length)?;
        if length <= mine + 1 {
            return None;
        }
        let newest = self.of.get(&longest)?.waiting.back()?.ticket;
        self.remove(longest, |waiting| waiting.ticket == newest)
    }
}

impl Turns {
    pub fn new(at_once: usize, most_waiting: usize) -> Self {
        let state = State {
            free: at_once,
            free_unlikely: (at_once / 4).max(1),
            lines: Default::default(),
            in_a_row: 0,
            next_ticket: 0,
            at_source: HashMap::new(),
        };
        Self { state: Mutex::new(state), at_once, most_waiting }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of a tenant, or says that too many do. At most the whole cap.
    pub async fn enter(self: &Arc<Self>, number: u64, unlikely: bool, weight: usize) -> Result<Turn> {
        let class = usize::from(unlikely);
        let few = (self.at_once / 4).max(1);
        let weight = weight.clamp(1, if unlikely { few } else { self.at_once });
        let (ticket, told, pushed_out) = {
            let mut state = self.state();
            let nobody_waits = state.lines[class].waiting == 0;
            if nobody_waits && state.free >= weight && (!unlikely || state.free_unlikely >= weight) {
                state.take(number, unlikely, weight);
                return Ok(Turn { turns: self.clone(), number, weight, unlikely });
            }
            let places = if unlikely { (self.most_waiting / 4).max(1) } else { self.most_waiting };
            let pushed_out = match state.lines[class].waiting < places {
                true => None,
                false => Some(state.lines[class].steal(number).ok_or_else(|| self.busy())?),
            };
            let (tell, told) = oneshot::channel();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.lines[class].push(number, Waiting { ticket, weight, tell });
            (ticket, told, pushed_out)
        };
        // It is told by the end of its channel.
        drop(pushed_out);
        let _in_line = InLine { turns: self, number, class, ticket };
        told.await.map_err(|_| self.busy())
    }

    /// Gives turns to whoever waits, for as long as there are any.
    fn serve(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let mut granted = Vec::new();
        loop {
            let fits = |state: &State, class: usize| {
                let few = if class == 1 { state.free.min(state.free_unlikely) } else { state.free };
                state.lines[class].first().is_some_and(|(_, weight)| weight <= few)
            };
            let class = match (fits(&state, 0), fits(&state, 1)) {
                (true, true) => usize::from(state.in_a_row >= 3),
                (true, false) => 0,
                (false, true) => 1,
                (false, false) => break,
            };
            state.in_a_row = if class == 0 { state.in_a_row + 1 } else { 0 };
            let Some((number, next)) = state.lines[class].pop() else { break };
            state.take(number, class == 1, next.weight);
            let turn = Turn { turns: self.clone(), number, weight: next.weight, unlikely: class == 1 };
            granted.push((next.tell, turn));
        }
        drop(state);
        // Without the lock: who has gone away gives the turn back at once.
        for (tell, turn) in granted {
            drop(tell.send(turn));
        }
    }

    /// Reads of a tenant at the source, and how many of its lookups wait.
    pub fn of(&self, number: u64) -> (usize, usize) {
        let state = self.state();
        let waiting = state.lines.iter().filter_map(|lines| lines.of.get(&number)).map(|line| line.waiting.len()).sum();
        (state.at_source.get(&number).copied().unwrap_or(0), waiting)
    }

    /// Reads of all at the source, and how many lookups wait.
    pub fn all(&self) -> (usize, usize) {
        let state = self.state();
        (self.at_once - state.free, state.lines.iter().map(|lines| lines.waiting).sum())
    }

    fn busy(&self) -> Error {
        let message = format!(
            "{} reads are at the source and {} wait: no more are taken on of this tenant. Try again shortly",
            self.at_once, self.most_waiting
        );
        Error::new(ErrorKind::Busy, message)
    }
}

impl State {
    fn take(&mut self, number: u64, unlikely: bool, weight: usize) {
        self.free -= weight;
        if unlikely {
            self.free_unlikely -= weight;
        }
        *self.at_source.entry(number).or_default() += weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_flood_of_one_tenant_leaves_the_next_turn_to_another() {
        let turns = Arc::new(Turns::new(2, 100));
        let mut held: VecDeque<Turn> =
            (0..2).map(|_| turns.enter(1, false, 1).now_or_never().unwrap().unwrap()).collect();
        let mut flood: Vec<_> = (0..50).map(|_| Box::pin(turns.enter(1, false, 1))).collect();
        flood.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none()));
        let mut others: Vec<_> = (2..5).map(|number| Box::pin(turns.enter(number, false, 1))).collect();
        others.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none()));
        assert_eq!((turns.of(1), turns.of(2), turns.all()), ((2, 50), (0, 1), (2, 53)));
        // Of the next six turns three are the others', though fifty came before them.
        let mut served = 0;
        for _ in 0..6 {
            drop(held.pop_front());
            for one in others.iter_mut().chain(&mut flood) {
                if let Some(turn) = one.as_mut().now_or_never() {
                    held.push_back(turn.unwrap());
                    // A future that has ended is not polled again.
                    *one = Box::pin(turns.enter(99, false, 1));
                    served += 1;
                    break;
                }
            }
        }
        assert_eq!(served, 6);
        assert!((2..5).all(|number| turns.of(number).1 == 0), "none of the others waits any more");
    }

    #[tokio::test]
    async fn when_all_places_are_taken_the_longest_queue_loses_its_newest() {
        let turns = Arc::new(Turns::new(1, 4));
        let held = turns.enter(1, false, 1).await.unwrap();
        let mut flood: Vec<_> = (0..4).map(|_| Box::pin(turns.enter(1, false, 1))).collect();
        flood.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none()));
        assert_eq!(turns.enter(1, false, 1).await.unwrap_err().kind(), ErrorKind::Busy, "its own queue is the longest");
        let mut other = Box::pin(turns.enter(2, false, 1));
        assert!(other.as_mut().now_or_never().is_none(), "it has a place");
        let newest = flood.pop().unwrap();
        assert_eq!(newest.await.unwrap_err().kind(), ErrorKind::Busy);
        let mut again = Box::pin(turns.enter(2, false, 1));
        assert!(again.as_mut().now_or_never().is_none());
        assert_eq!((turns.of(1).1, turns.of(2).1), (2, 2));
        let third = turns.enter(2, false, 1).now_or_never();
        assert_eq!(third.unwrap().unwrap_err().kind(), ErrorKind::Busy, "as many as the other by now");
        drop(held);
        assert!(flood[0].as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_gives_up_leaves_the_queue_and_no_turn_is_lost() {
        let turns = Arc::new(Turns::new(4, 10));
        let all = turns.enter(1, false, 100).await.unwrap();
        assert_eq!(turns.all(), (4, 0), "no more than there is");
        let mut waits = Box::pin(turns.enter(2, false, 3));
        assert!(waits.as_mut().now_or_never().is_none());
        let mut given_up = Box::pin(turns.enter(3, false, 1));
        assert!(given_up.as_mut().now_or_never().is_none());
        drop(given_up);
        assert_eq!(turns.all(), (4, 1));
        drop(all);
        // Granted, and gone before it was taken.
        drop(waits);
        assert_eq!(turns.all(), (0, 0));
        assert!(turns.state().at_source.is_empty() && turns.state().lines[0].of.is_empty(), "nothing is kept of them");
    }

    #[tokio::test]
    async fn unlikely_lookups_have_a_quarter_and_are_not_starved() {
        let turns = Arc::new(Turns::new(8, 100));
        let unlikely: Vec<_> = (0..2).map(|_| turns.enter(1, true, 1).now_or_never().unwrap().unwrap()).collect();
        let mut third = Box::pin(turns.enter(1, true, 1));
        assert!(third.as_mut().now_or_never().is_none(), "a quarter of the cap");
        let likely: Vec<_> = (0..6).map(|_| turns.enter(2, false, 1).now_or_never().unwrap().unwrap()).collect();
        let mut more: Vec<_> = (0..20).map(|_| Box::pin(turns.enter(2, false, 1))).collect();
        more.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none()));
        drop(unlikely);
        drop(likely);
        assert!(third.as_mut().now_or_never().is_some(), "it had its turn among the likely ones");
    }
}
