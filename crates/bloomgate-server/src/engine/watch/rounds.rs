//! The background probe: visits the filters one after the other, asks each for random digests and reads random lines.
//!
//! **What it costs.** At most the share of one core that it was given, 1 % unless said ([`super::pace`]), at a low priority.
//! It reads lines where they lie and asks the system for no memory; what a filter has never touched stays untouched (a read
//! of it finds the system's one page of zeros). A million small filters take 46 us each, so a round of them takes an hour
//! and a quarter; a hundred large ones, some seconds. Nothing is kept of a filter that is neither large nor asked about nor suspicious.
//!
//! **Why random digests.** Keys under a secret become uniform digests, so uniform digests are keys that nobody has. Filters
//! of other systems get random keys, hashed their way: their digests may have a structure.
//!
//! **Why a visit has two halves.** A writer sets bits and counts the keys after; up to 512 keys of each thread are on their
//! way, which is six standard deviations of a filter of 100,000. So bits are read in one step and held against the count in
//! the next one, 10 ms later at least: by then what was on its way has been counted.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use bloomgate::any::LineSample;
use bloomgate::bits::Store;
use bloomgate::{AnyFilter, Digest};

use super::pace::{Pace, SETTLES};
use super::random::Random;
use crate::engine::Engine;
use crate::engine::entry::{Body, Entry};
use crate::engine::shadows::is_reserved;

/// Filters up to this size are asked less: they are many, and in a cache.
const SMALL: u64 = 64 << 10;
/// Random digests for a small filter, and for a larger one.
const PROBES: [u64; 2] = [256, 1_024];
/// Lines read of a small filter (all of one for 3,000 keys), and of a larger one.
const LINES: [u64; 2] = [64, 1_024];
/// Digests asked at a time: a filter behind a lock is held for 20 us.
const PIECE: usize = 128;
/// Filters looked up at a time.
const AHEAD: usize = 64;
/// From so many probes on a filter that does not change is known well enough.
pub(super) const ENOUGH: u64 = 1 << 22;
/// A step begins no visit after so long; it is over a visit later, 0.2 ms of a filter that is in no cache. Whoever else
/// wants the core waits no longer.
const STEP: Duration = Duration::from_micros(250);

/// What random digests found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Probed {
    /// Digests asked.
    pub probes: u64,
    /// Those that it took for present.
    pub hits: u64,
}

/// Asks a filter for random digests. Not a lookup: BG.AUDIT does not count it.
#[must_use]
pub fn ask_random(entry: &Entry, count: u64, random: &mut Random) -> Probed {
    let mut probed = Probed::default();
    let mut digests = Vec::with_capacity(PIECE);
    while probed.probes < count {
        digests.clear();
        let asked = match entry.body() {
            Body::Small(small) => {
                digests.extend((0..PIECE).map(|_| random.digest()));
                let mut answers = [false; PIECE];
                small.contains_digests(&digests, &mut answers).ok().map(|()| hits(&answers))
            }
            Body::Shared(filter) => ask_piece(filter, &mut digests, random),
            Body::Guarded(filter) => {
                ask_piece(&*filter.read().unwrap_or_else(PoisonError::into_inner), &mut digests, random)
            }
            Body::Unavailable { .. } => None,
        };
        let Some(hits) = asked else { break };
        probed.probes += PIECE as u64;
        probed.hits += hits;
    }
    probed
}

fn ask_piece<S: Store>(filter: &AnyFilter<S>, digests: &mut Vec<Digest>, random: &mut Random) -> Option<u64> {
    for _ in 0..PIECE {
        let digest = random.digest();
        let foreign = filter.kind().is_foreign().then(|| filter.contract().digest(&digest.to_bytes()[..]).ok());
        // Keys that are no bytes, as those of a column of numbers, are as random as their digests.
        digests.push(foreign.flatten().unwrap_or(digest));
    }
    let mut answers = [false; PIECE];
    filter.contains_digests(digests, &mut answers).ok()?;
    Some(hits(&answers))
}

fn hits(answers: &[bool]) -> u64 {
    answers.iter().map(|&answer| u64::from(answer)).sum()
}

/// Reads some lines of a filter; nothing if it cannot answer.
#[must_use]
pub fn sample(entry: &Entry, lines: u64, random: &mut Random) -> Option<LineSample> {
    match entry.body() {
        Body::Small(_) => entry.copy().ok().map(|filter| filter.sample_lines(lines, || random.next())),
        Body::Shared(filter) => Some(filter.sample_lines(lines, || random.next())),
        Body::Guarded(filter) => {
            Some(filter.read().unwrap_or_else(PoisonError::into_inner).sample_lines(lines, || random.next()))
        }
        Body::Unavailable { .. } => None,
    }
}

/// A visit whose bits are read and not held against the count yet.
#[derive(Debug)]
struct Pending {
    id: u64,
    probed: Probed,
    lines: Option<LineSample>,
}

/// The way from filter to filter.
#[derive(Debug)]
pub struct Rounds {
    next: u64,
    ahead: Vec<Entry>,
    pending: Vec<Pending>,
    random: Random,
}

impl Rounds {
    /// From the first filter on.
    #[must_use]
    pub fn new(random: Random) -> Self {
        Self { next: 0, ahead: Vec::new(), pending: Vec::new(), random }
    }

    /// Ends the visits of the last step and begins others, until the time is over or all filters were visited once more.
    /// Whether there was anything to visit.
    pub fn step(&mut self, engine: &Engine, time: Duration) -> bool {
        let until = Instant::now() + time;
        self.end_visits(engine);
        let mut visited = 0;
        loop {
            let Some(entry) = self.take(engine) else { return visited > 0 };
            if self.visit(engine, &entry) {
                visited += 1;
            }
            if Instant::now() >= until {
                // Filters are not held while the thread sleeps: deleted ones would keep their memory.
                if let Some(first) = self.ahead.last() {
                    self.next = first.id;
                    self.ahead.clear();
                }
                return true;
            }
        }
    }

    /// Ends the visits of the last step: what was on its way then has been counted, and the less came since, the better is known
    /// how many keys have set the bits that were read.
    fn end_visits(&mut self, engine: &Engine) {
        for visit in std::mem::take(&mut self.pending) {
            if let Some(entry) = engine.names.by_id(visit.id) {
                engine.watch.findings.note(engine, &entry, visit.probed, visit.lines.as_ref(), false);
            }
        }
    }

    /// The next filter; none at the end of a round.
    fn take(&mut self, engine: &Engine) -> Option<Entry> {
        if self.ahead.is_empty() {
            self.ahead = engine.names.from_id(self.next, AHEAD);
            self.ahead.reverse();
        }
        let Some(entry) = self.ahead.pop() else {
            self.next = 0;
            engine.watch.rounds.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.next = entry.id + 1;
        Some(entry)
    }

    fn visit(&mut self, engine: &Engine, entry: &Entry) -> bool {
        let available = !matches!(entry.body(), Body::Unavailable { .. });
        if !available || is_reserved(&entry.name()) || engine.watch.findings.is_settled(entry) {
            return false;
        }
        let large = usize::from(entry.charged() > SMALL);
        let probed = ask_random(entry, PROBES[large], &mut self.random);
        let lines = sample(entry, LINES[large], &mut self.random);
        engine.watch.probes.fetch_add(probed.probes, Ordering::Relaxed);
        engine.watch.visits.fetch_add(1, Ordering::Relaxed);
        self.pending.push(Pending { id: entry.id, probed, lines });
        true
    }
}

impl Engine {
    /// Starts the thread that probes; it ends with the engine. Nothing for a share of 0.
    pub fn start_watch(self: &Arc<Self>) -> std::io::Result<()> {
        let share = self.watch.settings.share;
        if share <= 0.0 {
            return Ok(());
        }
        let engine = Arc::downgrade(self);
        std::thread::Builder::new().name("bloomgate-watch".into()).spawn(move || {
            crate::net::step_back(19);
            watch(&engine, Pace::new(share));
        })?;
        Ok(())
    }
}

fn watch(engine: &Weak<Engine>, pace: Pace) {
    let mut rounds = Rounds::new(Random::new());
    loop {
        let began = Instant::now();
        let busy = {
            let Some(engine) = engine.upgrade() else { return };
            !engine.is_loading() && rounds.step(&engine, STEP)
        };
        let mut worked = began.elapsed();
        std::thread::sleep(SETTLES);
        let began = Instant::now();
        let Some(engine) = engine.upgrade() else { return };
        rounds.end_visits(&engine);
        drop(engine);
        worked += began.elapsed();
        std::thread::sleep(pace.rest(worked, busy));
    }
}
