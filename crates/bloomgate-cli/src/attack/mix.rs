//! What the workers ask for: one stream of steps for each worker, the same in every run and against every front.
//!
//! Absent keys are drawn from 2^63, so that none comes twice: the worst case for a cache of "no" answers, and what bots
//! that guess numbers do.

use crate::random::{Random, scatter};
use crate::zipf::Zipf;

/// Of the lookups beside writes, the share that goes to the keys that are written: many, so that most writes are met in
/// flight.
const AT_WRITTEN_KEYS: f64 = 0.25;
/// Of the writes to a key that is there, the share that replaces its row; the others delete it.
const REPLACE: f64 = 0.3;
/// The bit that numbers of absent keys have, and those of products never.
const ABSENT: u64 = 1 << 63;

/// What the requests are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Another seed, other keys and other requests.
    pub seed: u64,
    /// Products that are there from the beginning and stay.
    pub products: u64,
    /// The share of lookups that is for keys that do not exist.
    pub absent: f64,
    /// The exponent of the popularity of products.
    pub exponent: f64,
    /// The share of requests that writes.
    pub writes: f64,
    /// Keys that come and go when there are writes.
    pub coming_and_going: u64,
    /// Who asks.
    pub workers: u64,
}

/// Whom a lookup is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A product that is there all the time, by its rank.
    Standing(u64),
    /// A key that comes and goes, by its place among them.
    Moving(u64),
    /// A key that never was.
    Absent(u64),
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look a key up.
    Get(Subject),
    /// Write the row of a key that comes and goes.
    Put(u64),
    /// Delete it.
    Delete(u64),
}

impl Mix {
    /// The number behind the key of a subject: different for different subjects, in no order.
    pub fn number(&self, subject: Subject) -> u64 {
        let index = match subject {
            Subject::Standing(rank) => rank,
            Subject::Moving(slot) => self.products + slot,
            Subject::Absent(number) => ABSENT | number,
        };
        scatter(index ^ (scatter(self.seed) >> 1))
    }

    /// The requests of one worker.
    pub fn stream(&self, worker: u64) -> Stream {
        let own =
            if self.writes > 0.0 { self.coming_and_going.saturating_sub(worker).div_ceil(self.workers) } else { 0 };
        Stream {
            mix: *self,
            worker,
            random: Random::of_worker(self.seed, worker),
            popular: Zipf::new(self.products, self.exponent),
            moving: Zipf::new(self.coming_and_going / self.workers, 1.0),
            present: vec![false; own as usize],
        }
    }
}

/// The requests of one worker. Each key that comes and goes is written by one worker only, so that its writes have an
/// order; everybody looks it up.
pub struct Stream {
    mix: Mix,
    worker: u64,
    random: Random,
    popular: Zipf,
    moving: Zipf,
    /// Which of the worker's own keys are there after the steps so far.
    present: Vec<bool>,
}

impl Stream {
    /// The next request.
    pub fn step(&mut self) -> Step {
        if self.mix.writes > 0.0 && !self.present.is_empty() {
            if self.random.happens(self.mix.writes) {
                return self.write();
            }
            if self.random.happens(AT_WRITTEN_KEYS) {
                return Step::Get(Subject::Moving(self.moving_slot()));
            }
        }
        Step::Get(if self.random.happens(self.mix.absent) {
            Subject::Absent(self.random.next() >> 1)
        } else {
            Subject::Standing(self.popular.draw(&mut self.random))
        })
    }

    fn write(&mut self) -> Step {
        let own = (self.moving.draw(&mut self.random) as usize).min(self.present.len() - 1);
        let slot = self.worker + own as u64 * self.mix.workers;
        let keep = !self.present[own] || self.random.happens(REPLACE);
        self.present[own] = keep;
        if keep { Step::Put(slot) } else { Step::Delete(slot) }
    }

    /// A key of any worker, the busiest most often.
    fn moving_slot(&mut self) -> u64 {
        let slot = self.random.below(self.mix.workers) + self.moving.draw(&mut self.random) * self.mix.workers;
        slot.min(self.mix.coming_and_going - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use bloomgate::math::estimate::within;

    use super::*;

    const MIX: Mix =
        Mix { seed: 1, products: 1000, absent: 0.95, exponent: 1.0, writes: 0.0, coming_and_going: 200, workers: 7 };

    #[test]
    fn shares_are_as_asked_and_streams_the_same_every_time() {
        let mut stream = MIX.stream(3);
        let steps: Vec<Step> = (0..50_000).map(|_| stream.step()).collect();
        let mut again = MIX.stream(3);
        assert!(steps.iter().all(|step| *step == again.step()));
        let absent = steps.iter().filter(|step| matches!(step, Step::Get(Subject::Absent(_)))).count() as u64;
        assert!(within(absent, 50_000, 0.95, 4.5), "{absent}");
        let standing = steps.iter().filter(|step| matches!(step, Step::Get(Subject::Standing(_)))).count() as u64;
        assert_eq!(absent + standing, 50_000, "no writes were asked for");
        let mut other = MIX.stream(4);
        assert!(steps.iter().filter(|step| **step == other.step()).count() < 100);
    }

    #[test]
    fn no_two_subjects_have_one_key() {
        let mut numbers = HashSet::new();
        let mut stream = MIX.stream(0);
        let absent = (0..20_000).filter_map(|_| match stream.step() {
            Step::Get(subject @ Subject::Absent(_)) => Some(subject),
            _ => None,
        });
        let all = (0..1000).map(Subject::Standing).chain((0..200).map(Subject::Moving)).chain(absent);
        let asked = all.map(|subject| numbers.insert(MIX.number(subject))).collect::<Vec<bool>>();
        assert!(asked.len() > 19_000 && asked.iter().all(|new| *new));
        let other = Mix { seed: 2, ..MIX };
        assert!(!numbers.contains(&other.number(Subject::Standing(0))));
    }

    #[test]
    fn writes_are_of_own_keys_in_an_order_that_makes_sense() {
        let mix = Mix { writes: 0.2, ..MIX };
        let (mut puts, mut deletes, mut moving) = (0, 0, 0);
        for worker in 0..7 {
            let mut stream = mix.stream(worker);
            let mut there = HashSet::new();
            for _ in 0..20_000 {
                match stream.step() {
                    Step::Put(slot) => {
                        assert!(slot % 7 == worker && slot < 200, "{slot} of {worker}");
                        there.insert(slot);
                        puts += 1;
                    }
                    Step::Delete(slot) => {
                        assert!(there.remove(&slot), "{slot} was not there");
                        deletes += 1;
                    }
                    Step::Get(Subject::Moving(slot)) => {
                        assert!(slot < 200);
                        moving += 1;
                    }
                    Step::Get(_) => {}
                }
            }
        }
        assert!(within(puts + deletes, 140_000, 0.2, 4.5) && within(moving, 140_000, 0.8 * 0.25, 4.5));
        // One delete to each insertion that is not the last, 0.3 / 0.7 replacements beside it.
        assert!((1.35..1.55).contains(&(puts as f64 / deletes as f64)), "{puts} {deletes}");
    }
}
