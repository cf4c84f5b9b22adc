//! Adds that never repeat, what was acknowledged of them and when, and the question after a restart: is it all there?

use std::collections::VecDeque;
use std::io;

use crate::load::Script;
use crate::random::Random;
use crate::subject::{ADDS, Answer, Subject, WINDOW};
use crate::wire::{Reply, Wire};

/// Most items in one request: the acknowledged ones are bits of a `u32`.
const MOST: u64 = 16;

/// Items of a filter that stays small.
const FEW: u64 = 40;

/// Where adds go, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// To one filter that grows.
    Plain,
    /// To the same, as transactions.
    Together,
    /// To filters that stay so small that the server keeps them as words, each made by its first add.
    Small,
    /// To a window. It keeps items for longer than a run, and no longer than it must: those of earlier runs are not
    /// asked for.
    Window,
}

#[derive(Clone)]
struct Request {
    first: u64,
    count: u8,
    /// Replies that are still to come.
    due: u8,
    /// One bit per acknowledged item.
    acknowledged: u32,
    at: u64,
}

/// The adds of one connection.
#[derive(Clone)]
pub struct Adds {
    way: Way,
    prefix: String,
    random: Random,
    next: u64,
    /// Requests since the last check, in the order sent.
    requests: Vec<Request>,
    unanswered: VecDeque<usize>,
    /// Items that were there at the last check, as ranges: nothing may ever take them away again.
    held: Vec<(u64, u64)>,
    /// Errors answered, and the first of them.
    pub refused: u64,
    pub refusal: Option<String>,
}

/// What a check found.
#[derive(Default, Debug)]
pub struct Found {
    /// Acknowledged items that were asked for.
    pub asked: u64,
    /// Acknowledged, and answered "not there".
    pub lost: u64,
    /// The time of the earliest acknowledgement among the lost; 0 for an item that an earlier check had found.
    pub oldest: Option<u64>,
    /// Answered with an error, and the first of them.
    pub errors: u64,
    pub error: Option<String>,
}

impl Found {
    pub fn merge(&mut self, other: Found) {
        self.asked += other.asked;
        self.lost += other.lost;
        self.oldest = [self.oldest, other.oldest].into_iter().flatten().min();
        self.errors += other.errors;
        self.error = self.error.take().or(other.error);
    }
}

impl Adds {
    pub fn new(way: Way, seed: u64, epoch: u64, connection: u64) -> Adds {
        Adds {
            way,
            prefix: format!("{seed:x}.{epoch}.{connection}:"),
            random: Random::new(seed, epoch << 16 | connection),
            next: 0,
            requests: Vec::new(),
            unanswered: VecDeque::new(),
            held: Vec::new(),
            refused: 0,
            refusal: None,
        }
    }

    fn item(&self, number: u64) -> Vec<u8> {
        format!("{}{number:08}", self.prefix).into_bytes()
    }

    /// Which filter of its kind an item is in.
    fn part(&self, number: u64) -> u64 {
        if self.way == Way::Small { number / FEW } else { 0 }
    }

    fn filter(&self, number: u64) -> String {
        match self.way {
            Way::Plain | Way::Together => ADDS.to_string(),
            Way::Small => format!("drill:small:{}{}", self.prefix, self.part(number)),
            Way::Window => WINDOW.to_string(),
        }
    }

    /// Items acknowledged since the last check, up to a time.
    pub fn acknowledged(&self, until: u64) -> u64 {
        let counted = self.requests.iter().filter(|request| request.at <= until);
        counted.map(|request| u64::from(request.acknowledged.count_ones())).sum()
    }

    /// Some item that must be there.
    pub fn any_acknowledged(&mut self) -> Option<Vec<u8>> {
        let requests = self.requests.len() as u64;
        for _ in 0..64.min(requests) {
            let request = &self.requests[self.random.below(requests) as usize];
            if request.acknowledged != 0 {
                return Some(self.item(request.first + u64::from(request.acknowledged.trailing_zeros())));
            }
        }
        None
    }

    /// Asks for every item that was there at the last check, and for every one acknowledged since, up to `until`. What
    /// is there is held from now on; what is lost is counted once.
    pub fn check(&mut self, subject: &Subject, wire: &mut Wire, until: u64, thorough: bool) -> io::Result<Found> {
        let mut kept: Vec<(u64, u64)> = if thorough { Vec::new() } else { self.held.clone() };
        let earlier = if thorough { &self.held[..] } else { &[] };
        let held = earlier.iter().flat_map(|&(first, end)| (first..end).map(|number| (number, 0)));
        let recent = self.requests.iter().filter(|request| request.at <= until).flat_map(|request| {
            let bits = (0..u64::from(request.count)).filter(|bit| request.acknowledged >> bit & 1 == 1);
            bits.map(|bit| (request.first + bit, request.at))
        });
        let mut asked = held.chain(recent).peekable();
        let mut found = Found::default();
        let mut batches: VecDeque<Vec<(u64, u64)>> = VecDeque::new();
        loop {
            // Up to 8 questions of 250 in flight.
            while batches.len() < 8 {
                let Some(first) = asked.next() else { break };
                let mut batch = vec![first];
                while batch.len() < 250
                    && let Some(next) = asked.next_if(|next| self.part(next.0) == self.part(first.0))
                {
                    batch.push(next);
                }
                let items: Vec<Vec<u8>> = batch.iter().map(|&(number, _)| self.item(number)).collect();
                subject.ask_in(&self.filter(first.0), wire, &items);
                batches.push_back(batch);
            }
            let Some(batch) = batches.pop_front() else { break };
            let answers = subject.answers(wire.reply()?, batch.len());
            found.asked += batch.len() as u64;
            for ((number, at), answer) in batch.into_iter().zip(answers) {
                match answer {
                    Answer::Count(0) => {
                        found.lost += 1;
                        found.oldest = Some(found.oldest.map_or(at, |oldest| oldest.min(at)));
                    }
                    Answer::Count(_) => match kept.last_mut() {
                        Some((_, end)) if *end == number => *end += 1,
                        _ => kept.push((number, number + 1)),
                    },
                    Answer::Refused(text) => {
                        found.errors += 1;
                        found.error.get_or_insert(text);
                    }
                }
            }
        }
        drop(asked);
        if self.way == Way::Window {
            kept.clear();
        }
        self.held = kept;
        self.requests.clear();
        self.refused = 0;
        self.refusal = None;
        Ok(found)
    }
}

impl Script for Adds {
    fn request(&mut self, subject: &Subject, wire: &mut Wire) -> u64 {
        // Half are single adds, half of several: 5 items on average.
        let count = if self.random.below(2) == 0 { 1 } else { 2 + self.random.below(MOST - 1) };
        let count = if self.way == Way::Small { count.min(FEW - self.next % FEW) } else { count };
        let items: Vec<Vec<u8>> = (self.next..self.next + count).map(|number| self.item(number)).collect();
        let filter = self.filter(self.next);
        let before = wire.pushed;
        match self.way {
            Way::Together => subject.add_together(&filter, wire, &items),
            _ => subject.add_to(&filter, wire, &items),
        }
        let due = (wire.pushed - before) as u8;
        self.unanswered.push_back(self.requests.len());
        self.requests.push(Request { first: self.next, count: count as u8, due, acknowledged: 0, at: 0 });
        self.next += count;
        count
    }

    fn reply(&mut self, subject: &Subject, reply: &Reply, at: u64) -> Result<(), String> {
        let Some(&index) = self.unanswered.front() else {
            return Err(format!("a reply to no request: {reply:?}"));
        };
        let request = &mut self.requests[index];
        request.due -= 1;
        if request.due > 0 {
            // MULTI's own, or "queued": what was done is in the last one.
            return Ok(());
        }
        self.unanswered.pop_front();
        let (acknowledged, refusal) = subject.added(reply, usize::from(request.count));
        request.acknowledged = acknowledged;
        request.at = at;
        if let Some(text) = refusal {
            self.refused += 1;
            self.refusal.get_or_insert(text);
        }
        Ok(())
    }

    fn hang_up(&mut self) {
        self.unanswered.clear();
    }
}
