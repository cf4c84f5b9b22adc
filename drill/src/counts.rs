//! Adds and deletes of items that are counted, and after a restart the question: did each happen exactly once?
//!
//! An operation whose reply came in time has happened; one that was refused, never answered or (where the policy allows
//! it) answered too shortly before the cut may have. So each item has a least and a most number of copies. A filter
//! may count a stranger's copy as an item's own, so `most` is exact only for the sum over all items, which the
//! server keeps as a number; `least` is exact for each item.
//!
//! Removals with a request id may be repeated: some are at once, and after a restart each that had no reply, which settles
//! what became of it.

use std::collections::{HashMap, VecDeque};
use std::io;

use crate::load::Script;
use crate::random::Random;
use crate::subject::{Answer, Copies, Kind, Subject, answer};
use crate::wire::{Reply, Wire};

/// Of 1,000 items this many may show a copy that is not theirs: the filters have rates of 0.001 and 0.000001. A replay done
/// twice shows in the sum at once.
const STRANGERS: u64 = 5;

/// So many items a counting filter, which does not grow, is given; then those come again that have no copies left.
const COUNTED: u32 = 50_000;
/// One of so many removals is repeated at once.
const REPEATED: u64 = 8;

#[derive(Clone)]
struct Operation {
    item: u32,
    delete: bool,
    /// The number of its request id.
    request: u64,
    /// It is a repetition, and does nothing.
    again: bool,
    /// When it was acknowledged; none: refused, or never answered.
    at: Option<u64>,
}

/// The counted items of one connection.
#[derive(Clone)]
pub struct Counts {
    way: Copies,
    prefix: String,
    random: Random,
    next: u32,
    /// Copies of each item by all acknowledged operations; items in doubt are not in it.
    copies: HashMap<u32, i32>,
    /// Items with at least one copy and nothing in flight: these may be deleted or added again.
    pool: Vec<u32>,
    /// Items without copies, and nothing in flight.
    spare: Vec<u32>,
    operations: Vec<Operation>,
    unanswered: VecDeque<usize>,
    /// Removals with a request id that have no reply.
    to_repeat: Vec<usize>,
    requests: u64,
    /// At the last check: exact copies of each item, and the server's own sum.
    exact: HashMap<u32, i32>,
    sum: i64,
    pub refused: u64,
}

/// What a check found.
#[derive(Default, Debug)]
pub struct Counted {
    pub asked: u64,
    /// Fewer copies than acknowledged.
    pub short: u64,
    /// More copies than possible.
    pub over: u64,
    pub errors: u64,
    /// The sums the server tells, of each way, and what they may be.
    pub sums: Vec<(i64, i64, i64)>,
    /// The first finding in words.
    pub example: Option<String>,
}

impl Counted {
    pub fn merge(&mut self, other: Counted) {
        self.asked += other.asked;
        self.short += other.short;
        self.over += other.over;
        self.errors += other.errors;
        self.sums.extend(other.sums);
        self.example = self.example.take().or(other.example);
    }

    /// What breaks a promise.
    pub fn verdict(&self, kind: Kind) -> Result<(), String> {
        let example = self.example.as_deref().unwrap_or("");
        if self.short > 0 || self.errors > 0 {
            let (short, errors, asked) = (self.short, self.errors, self.asked);
            return Err(format!("of {asked} counted items {short} have too few copies, {errors} no answer: {example}"));
        }
        if let Some((told, least, most)) = self.sums.iter().find(|(told, least, most)| !(least..=most).contains(&told))
        {
            return Err(format!("the counting filter says {told} items, possible are {least} to {most}"));
        }
        let allowed = if kind == Kind::Redis { 0 } else { 20 + self.asked * STRANGERS / 1_000 };
        if self.over > allowed {
            let (over, asked) = (self.over, self.asked);
            return Err(format!("of {asked} counted items {over} have too many copies ({allowed} allowed): {example}"));
        }
        Ok(())
    }
}

impl Counts {
    pub fn new(way: Copies, seed: u64, epoch: u64, connection: u64) -> Counts {
        Counts {
            way,
            prefix: format!("{seed:x}.{epoch}.c{connection}:"),
            random: Random::new(seed, epoch << 16 | connection),
            next: 0,
            copies: HashMap::new(),
            pool: Vec::new(),
            spare: Vec::new(),
            operations: Vec::new(),
            unanswered: VecDeque::new(),
            to_repeat: Vec::new(),
            requests: 0,
            exact: HashMap::new(),
            sum: 0,
            refused: 0,
        }
    }

    fn item(&self, number: u32) -> Vec<u8> {
        format!("{}{number:08}", self.prefix).into_bytes()
    }

    /// Puts an operation, or a repetition of it.
    fn put(&self, subject: &Subject, wire: &mut Wire, operation: &Operation) {
        let item = self.item(operation.item);
        match self.way {
            Copies::Cuckoo => subject.change(wire, &item, operation.delete),
            Copies::Requests => {
                let id = operation.delete.then(|| format!("{}r{}", self.prefix, operation.request));
                subject.change_by(wire, &item, id.as_deref());
            }
        }
    }

    /// Repeats the removals that had no reply, each under its id: what is answered now settles what became of it. Where a copy
    /// must have been there, the answer must be that it was. How many have happened by now that might not have.
    fn repeat(
        &mut self,
        subject: &Subject,
        wire: &mut Wire,
        bounds: &mut HashMap<u32, (i32, i32)>,
        found: &mut Counted,
    ) -> io::Result<i64> {
        let to_repeat = std::mem::take(&mut self.to_repeat);
        let mut settled = 0;
        for index in to_repeat.into_iter().filter(|_| subject.has_request_ids()) {
            let operation = &self.operations[index];
            self.put(subject, wire, operation);
            let (item, reply) = (operation.item, wire.reply()?);
            let Some((least, most)) = bounds.get_mut(&item) else { continue };
            match subject.changed(&reply, true) {
                Ok(true) => (*most, settled) = (*most - 1, settled + 1),
                Ok(false) if *least < 0 => {}
                Ok(false) => {
                    found.short += 1;
                    let text = format!("item {item}: a removal that is asked for again finds no copy, of at least one");
                    found.example.get_or_insert(text);
                }
                Err(text) => {
                    found.errors += 1;
                    found.example.get_or_insert(text);
                }
            }
        }
        Ok(settled)
    }

    /// Operations acknowledged since the last check.
    pub fn acknowledged(&self, until: u64) -> u64 {
        self.operations.iter().filter(|it| it.at.is_some_and(|at| at <= until)).count() as u64
    }

    /// Asks for every item ever touched whose history is known. `until`: acknowledgements up to then must have
    /// survived; later ones may have. Items in doubt are asked one last time and then left alone.
    pub fn check(&mut self, subject: &Subject, wire: &mut Wire, until: u64, thorough: bool) -> io::Result<Counted> {
        let mut bounds: HashMap<u32, (i32, i32)> = HashMap::new();
        if thorough {
            bounds.extend(self.exact.iter().map(|(&item, &copies)| (item, (copies, copies))));
        }
        let (mut least_sum, mut most_sum) = (self.sum, self.sum);
        for operation in self.operations.iter().filter(|operation| !operation.again) {
            let copies = self.exact.get(&operation.item).copied().unwrap_or(0);
            let (least, most) = bounds.entry(operation.item).or_insert((copies, copies));
            let sure = operation.at.is_some_and(|at| at <= until);
            match (operation.delete, sure) {
                (false, true) => (*least += 1, *most += 1, least_sum += 1, most_sum += 1),
                (true, true) => (*least -= 1, *most -= 1, least_sum -= 1, most_sum -= 1),
                (false, false) => ((), *most += 1, (), most_sum += 1),
                (true, false) => (*least -= 1, (), least_sum -= 1, ()),
            };
        }
        let mut items: Vec<u32> = bounds.keys().copied().collect();
        items.sort_unstable();
        let mut found = Counted::default();
        most_sum -= self.repeat(subject, wire, &mut bounds, &mut found)?;
        if let Some(told) = subject.total(wire, self.way)? {
            found.sums.push((told, least_sum, most_sum));
            self.sum = told;
        }
        // What is asked for comes back below, if it is beyond doubt.
        self.exact.retain(|item, _| !bounds.contains_key(item));
        for batch in items.chunks(500) {
            for &item in batch {
                subject.ask_count(wire, &self.item(item), self.way);
            }
            for &item in batch {
                let (least, most) = bounds[&item];
                found.asked += 1;
                match answer(wire.reply()?) {
                    Answer::Count(count) if count < i64::from(least.max(0)) => {
                        found.short += 1;
                        let text = format!("item {item}: {count} copies, at least {least}");
                        found.example.get_or_insert(text);
                    }
                    Answer::Count(count) => {
                        if count > i64::from(most) {
                            found.over += 1;
                            let text = format!("item {item}: {count} copies, at most {most}");
                            found.example.get_or_insert(text);
                        }
                        if least == most {
                            self.exact.insert(item, least);
                        }
                    }
                    Answer::Refused(text) => {
                        found.errors += 1;
                        found.example.get_or_insert(text);
                    }
                }
            }
        }
        self.operations.clear();
        self.refused = 0;
        self.copies = self.exact.clone();
        self.pool = self.exact.iter().filter(|(_, copies)| **copies > 0).map(|(item, _)| *item).collect();
        self.spare = self.exact.iter().filter(|(_, copies)| **copies == 0).map(|(item, _)| *item).collect();
        // Maps have no order; a seed's load has.
        self.pool.sort_unstable();
        self.spare.sort_unstable();
        Ok(found)
    }
}

impl Script for Counts {
    fn request(&mut self, subject: &Subject, wire: &mut Wire) -> u64 {
        // Of 10 operations 5 add a new item, 3 delete a copy, 2 add one more of an item that is there.
        let choice = self.random.below(10);
        let full = self.way == Copies::Requests && self.next >= COUNTED;
        let (item, delete) = if choice < 5 && full && !self.spare.is_empty() {
            let place = self.random.below(self.spare.len() as u64) as usize;
            (self.spare.swap_remove(place), false)
        } else if (choice < 5 && !full) || self.pool.is_empty() {
            self.next += 1;
            self.copies.insert(self.next - 1, 0);
            (self.next - 1, false)
        } else {
            let place = self.random.below(self.pool.len() as u64) as usize;
            let item = self.pool.swap_remove(place);
            // At most 3 copies: a filter with buckets of 2 has room for 4 of one item.
            (item, choice < 8 || self.copies.get(&item).is_none_or(|&copies| copies >= 3))
        };
        self.requests += 1;
        let operation = Operation { item, delete, request: self.requests, again: false, at: None };
        self.put(subject, wire, &operation);
        self.unanswered.push_back(self.operations.len());
        let repeats = delete && self.way == Copies::Requests && subject.has_request_ids();
        if repeats && self.random.below(REPEATED) == 0 {
            self.put(subject, wire, &operation);
            self.unanswered.push_back(self.operations.len() + 1);
            self.operations.push(operation.clone());
            self.operations.push(Operation { again: true, ..operation });
        } else {
            self.operations.push(operation);
        }
        1
    }

    fn reply(&mut self, subject: &Subject, reply: &Reply, at: u64) -> Result<(), String> {
        let Some(index) = self.unanswered.pop_front() else {
            return Err(format!("a reply to no request: {reply:?}"));
        };
        let operation = &mut self.operations[index];
        match subject.changed(reply, operation.delete) {
            Ok(true) if operation.again => Ok(()),
            Ok(true) => {
                operation.at = Some(at);
                let copies = self.copies.entry(operation.item).or_insert(0);
                *copies += if operation.delete { -1 } else { 1 };
                match *copies {
                    0 => self.spare.push(operation.item),
                    _ => self.pool.push(operation.item),
                }
                Ok(())
            }
            Ok(false) if operation.delete => {
                let name = String::from_utf8_lossy(&self.item(self.operations[index].item)).into_owned();
                Err(format!("a delete of {name}, acknowledged as added, was answered \"not there\""))
            }
            // Refused: in doubt until the next check, and touched by nothing until then.
            Ok(false) | Err(_) => {
                if operation.delete && !operation.again && self.way == Copies::Requests {
                    self.to_repeat.push(index);
                }
                self.refused += 1;
                Ok(())
            }
        }
    }

    fn hang_up(&mut self) {
        let unanswered = std::mem::take(&mut self.unanswered);
        if self.way == Copies::Requests {
            let removal = |index: &usize| self.operations[*index].delete && !self.operations[*index].again;
            self.to_repeat.extend(unanswered.into_iter().filter(removal));
        }
    }
}
