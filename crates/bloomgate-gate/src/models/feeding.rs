//! The model of a feed: strangers commit rows, a follower reads them, a rebuild scans, lookups ask. In every order: what was
//! committed before the watermark that an answer names is in the filter, and is not remembered as absent.

use std::collections::BTreeSet;
use std::sync::Arc;

use bloomgate::{Digest, Secret};

use super::{Step, every_order, has, now};
use crate::events::Events;
use crate::filters::{Face, Filters, Generation};
use crate::key::{Key, KeyType};
use crate::policy::State;
use crate::shards::{Lead, Shards, Turn};
use crate::sources::KeyBatch;

/// How a follower or a rebuild is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The watermark rises before the filters are told.
    WatermarkFirst,
    /// The watermark is the moment after the read instead of the one before.
    LateMoment,
    /// The filters are looked up before the outbox is read.
    FaceFirst,
    /// Only the current filter is told.
    CurrentOnly,
    /// The scan begins before the next filter is installed.
    ScanFirst,
}

/// A stranger that commits a key, a follower that reads twice, and a rebuild.
struct Feeding {
    fault: Fault,
    filters: Filters,
    /// Keys in the order of their commits: the table and the outbox, which are one transaction.
    committed: Vec<usize>,
    /// How many of them are known, by the watermark.
    watermark: usize,
    follower: Follower,
    rebuild: Rebuild,
}

#[derive(Default)]
struct Follower {
    at: usize,
    reads: usize,
    /// How far it has read.
    position: usize,
    moment: usize,
    told: Vec<usize>,
    face: Option<Arc<Face>>,
}

#[derive(Default)]
struct Rebuild {
    at: usize,
    next: Option<Arc<Generation>>,
    scan: Vec<usize>,
}

fn key(number: usize) -> Key {
    Key::from(format!("key-{number}").as_str())
}

impl Feeding {
    fn new(secret: &Secret, fault: Fault) -> Self {
        let filters = Filters::new(secret, KeyType::Text, None, Events::default());
        let first = Arc::new(Generation::local(1, filters.contract(), 100, 0.001, 1 << 20).unwrap());
        now(filters.install(&first)).unwrap();
        filters.swap(&first, 0).unwrap();
        Self {
            fault,
            filters,
            committed: Vec::new(),
            watermark: 0,
            follower: Follower::default(),
            rebuild: Rebuild::default(),
        }
    }

    fn commit(&mut self, number: usize) -> Step {
        self.committed.push(number);
        Step::Over
    }

    /// Two reads: the first in all its steps, the second in one go, else there were 15,000 orders.
    fn follow(&mut self) -> Step {
        if self.follower.reads == 1 {
            while self.read_on() != Step::Over {}
            return Step::Over;
        }
        self.read_on()
    }

    /// A read: the moment, the outbox, the filters one by one, the watermark.
    fn read_on(&mut self) -> Step {
        let (fault, follower) = (self.fault, &mut self.follower);
        let look_up = |follower: &mut Follower| {
            follower.face = Some(arc_swap::Guard::into_inner(self.filters.face()));
        };
        let tell = |generation: Option<&Arc<Generation>>, told: &[usize]| {
            if let Some(generation) = generation {
                let keys: Vec<Key> = told.iter().map(|&number| key(number)).collect();
                now(generation.add(&self.filters.digests(&keys))).unwrap();
            }
        };
        match follower.at {
            0 => {
                follower.moment = self.committed.len();
                if fault == Fault::FaceFirst {
                    look_up(follower);
                }
            }
            1 => {
                follower.told = self.committed[follower.position..].to_vec();
                follower.position = self.committed.len();
            }
            2 => {
                if fault != Fault::FaceFirst {
                    look_up(follower);
                }
                if fault == Fault::LateMoment {
                    follower.moment = self.committed.len();
                }
                if fault == Fault::WatermarkFirst {
                    self.watermark = follower.moment;
                }
                tell(follower.face.as_ref().unwrap().current.as_ref(), &follower.told);
            }
            3 if fault != Fault::CurrentOnly => tell(follower.face.as_ref().unwrap().next.as_ref(), &follower.told),
            3 => {}
            _ => {
                self.watermark = follower.moment;
                (follower.at, follower.reads) = (0, follower.reads + 1);
                return if follower.reads == 2 { Step::Over } else { Step::Done };
            }
        }
        follower.at += 1;
        Step::Done
    }

    fn rebuild(&mut self) -> Step {
        let rebuild = &mut self.rebuild;
        match rebuild.at {
            0 => {
                if self.fault == Fault::ScanFirst {
                    rebuild.scan.clone_from(&self.committed);
                }
            }
            1 => {
                let next = Arc::new(Generation::local(2, self.filters.contract(), 100, 0.001, 1 << 20).unwrap());
                now(self.filters.install(&next)).unwrap();
                rebuild.next = Some(next);
            }
            2 if self.fault != Fault::ScanFirst => rebuild.scan.clone_from(&self.committed),
            2 => {}
            _ => {
                let next = rebuild.next.as_ref().unwrap();
                let mut batch = KeyBatch::default();
                rebuild.scan.iter().for_each(|&number| batch.push(key(number).canonical()));
                now(self.filters.fill(next, &mut batch)).unwrap();
                self.filters.swap(next, 0).unwrap();
                return Step::Over;
            }
        }
        rebuild.at += 1;
        Step::Done
    }

    /// Every key that was committed before the watermark is in the filter that would say no.
    fn holds(&self) -> bool {
        let face = self.filters.face();
        assert!(matches!(face.state, State::Ready { .. }));
        let current = face.current.as_ref().unwrap();
        let known: BTreeSet<usize> = self.committed[..self.watermark].iter().copied().collect();
        known.iter().all(|&number| has(current, self.filters.digest(&key(number))))
    }
}

fn follow_under_every_order(fault: Fault) -> (usize, usize) {
    let secret = Secret::from_hex(&"5a".repeat(32)).unwrap();
    let wrong = std::cell::Cell::new(0);
    let orders = every_order(
        3,
        || Feeding::new(&secret, fault),
        |_, _| true,
        |world, actor| {
            let step = match actor {
                0 => world.commit(actor),
                1 => world.follow(),
                _ => world.rebuild(),
            };
            if !world.holds() {
                wrong.set(wrong.get() + 1);
            }
            step
        },
    );
    (orders, wrong.get())
}

#[test]
fn no_order_of_commits_a_follower_and_a_rebuild_loses_a_row() {
    let (orders, wrong) = follow_under_every_order(Fault::None);
    assert_eq!(wrong, 0);
    assert!(orders > 2_000, "{orders} orders");
}

#[test]
fn every_fault_of_a_follower_is_caught() {
    use Fault::{CurrentOnly, FaceFirst, LateMoment, ScanFirst, WatermarkFirst};
    for fault in [WatermarkFirst, LateMoment, FaceFirst, CurrentOnly, ScanFirst] {
        let (orders, wrong) = follow_under_every_order(fault);
        assert!(wrong > 0, "{fault:?} was not caught in {orders} orders");
    }
}

/// How what is remembered as absent is kept wrongly beside a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slip {
    None,
    /// The epoch moves after the watermark has risen.
    EpochLate,
    /// The epoch does not move at all.
    NoEpoch,
}

/// A stranger that commits a key, a follower, and two lookups that may remember it as absent or join each other. The filter
/// says maybe to it from the start: a false positive.
struct Remembering {
    slip: Slip,
    shards: Shards,
    committed: bool,
    /// Whether the watermark is behind the commit.
    known: bool,
    follower: (usize, bool),
    lookups: [Lookup; 2],
    wrong: bool,
}

#[derive(Default)]
struct Lookup {
    at: usize,
    /// The watermark it names was behind the commit.
    known: bool,
    lead: Option<Lead>,
    joined: Option<tokio::sync::watch::Receiver<crate::shards::Outcome>>,
    row: bool,
}

impl Remembering {
    const KEY: Digest = Digest::new(1, 1);

    fn follow(&mut self) -> Step {
        let (at, read) = &mut self.follower;
        *at += 1;
        match (*at, self.slip) {
            (1, _) => *read = self.committed,
            (2, Slip::None) if *read => self.shards.wrote(Self::KEY),
            (3, _) => self.known |= *read,
            (4, slip) => {
                if slip == Slip::EpochLate && *read {
                    self.shards.wrote(Self::KEY);
                }
                return Step::Over;
            }
            _ => {}
        }
        Step::Done
    }

    fn can_look(&self, number: usize) -> bool {
        let lookup = &self.lookups[number];
        lookup.at < 2 || lookup.joined.as_ref().is_none_or(|joined| joined.borrow().is_some())
    }

    fn lookup(&mut self, number: usize) -> Step {
        let lookup = &mut self.lookups[number];
        match lookup.at {
            0 => {
                lookup.known = self.known;
                match self.shards.read(Self::KEY, true) {
                    Turn::Absent => {
                        self.wrong |= lookup.known;
                        return Step::Over;
                    }
                    Turn::Join(result) => lookup.joined = Some(result),
                    Turn::Lead(lead, _) => lookup.lead = Some(lead),
                }
            }
            1 => lookup.row = self.committed,
            _ => {
                let found = match (&lookup.lead, &lookup.joined) {
                    (Some(lead), _) => {
                        let row = lookup.row.then(|| bytes::Bytes::from_static(b"row"));
                        self.shards.done(lead, Ok(row));
                        lookup.row
                    }
                    (None, Some(joined)) => match &*joined.borrow() {
                        None => unreachable!("it waits for that"),
                        Some(result) => result.as_ref().unwrap().is_some(),
                    },
                    (None, None) => unreachable!("it leads or it joined"),
                };
                self.wrong |= lookup.known && !found;
                return Step::Over;
            }
        }
        lookup.at += 1;
        Step::Done
    }
}

fn remember_under_every_order(slip: Slip) -> (usize, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _within = runtime.enter();
    let wrong = std::cell::Cell::new(0);
    let make = || Remembering {
        slip,
        shards: Shards::new(1000, std::time::Duration::from_secs(60)),
        committed: false,
        known: false,
        follower: (0, false),
        lookups: Default::default(),
        wrong: false,
    };
    let can = |world: &Remembering, actor| actor >= 2 || world.can_look(actor);
    let orders = every_order(4, make, can, |world, actor| {
        let step = match actor {
            0 | 1 => world.lookup(actor),
            2 => world.follow(),
            _ => {
                world.committed = true;
                Step::Over
            }
        };
        if world.wrong {
            wrong.set(wrong.get() + 1);
        }
        step
    });
    (orders, wrong.get())
}

#[test]
fn no_order_of_a_commit_a_follower_and_lookups_remembers_a_key_as_absent() {
    let (orders, wrong) = remember_under_every_order(Slip::None);
    assert_eq!(wrong, 0);
    assert!(orders > 500, "{orders} orders");
}

#[test]
fn every_slip_of_the_memory_beside_a_feed_is_caught() {
    for slip in [Slip::EpochLate, Slip::NoEpoch] {
        let (_, wrong) = remember_under_every_order(slip);
        assert!(wrong > 0, "{slip:?}");
    }
}
