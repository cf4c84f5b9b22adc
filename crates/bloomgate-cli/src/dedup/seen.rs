//! Which lines came before: a filter that is asked and told in one go, and the account of what it may get wrong.
//!
//! A filter that says "maybe" of a new line loses it. How many were lost nobody can count afterwards, but the rate of
//! the filter at each moment is known: every line that is certainly new at rate r stands for r / (1 - r) that were lost.

use std::time::{Duration, Instant, SystemTime};

use bloomgate::{AnyFilter, Digest, ErrorKind, Kind};

use super::store::Store;
use crate::asking::expected_rate;
use crate::digest;
use crate::failure::Failure;
use crate::keys::Keys;
use crate::number;

/// Digests that are asked for before the first of them is inserted: their places in memory are then near.
const CHUNK: usize = 512;
/// The rate is worked out again when the lines have become so much more: 500 times for ten million.
const STEP: u64 = 32;

/// What a rotating filter takes for the time.
pub enum Clock {
    /// None is needed.
    Still,
    /// The time of day when the run began and what has passed since, so that nobody who sets the clock disturbs it.
    Real(SystemTime, Instant),
    /// A millisecond a line.
    Lines,
}

/// The lines seen so far.
pub struct Seen {
    /// The filter, to be saved.
    pub filter: AnyFilter,
    /// The lines themselves, to look every maybe up.
    pub store: Option<Store>,
    clock: Clock,
    account: Account,
    digests: Vec<Digest>,
}

/// What the filter may have got wrong.
struct Account {
    /// Lines that are expected to be lost.
    lost: f64,
    /// The rate when it was last worked out, the lines that were certainly new since then, and all of them.
    rate: f64,
    since: u64,
    all: u64,
    /// The highest rate so far.
    highest: f64,
}

impl Account {
    /// Another line was certainly new.
    #[inline]
    fn count(&mut self, filter: &AnyFilter) -> Result<(), Failure> {
        self.since += 1;
        self.all += 1;
        if self.since * STEP >= self.all { self.settle(filter) } else { Ok(()) }
    }

    fn settle(&mut self, filter: &AnyFilter) -> Result<(), Failure> {
        let now = expected_rate(filter)?;
        let rate = f64::midpoint(self.rate, now).min(1.0 - 1e-9);
        self.lost += self.since as f64 * rate / (1.0 - rate);
        (self.rate, self.since, self.highest) = (now, 0, self.highest.max(now));
        Ok(())
    }
}

impl Seen {
    /// Goes on from a filter, with the lines themselves if every maybe is to be looked up.
    pub fn new(filter: AnyFilter, store: Option<Store>, clock: Clock) -> Result<Self, Failure> {
        let rate = expected_rate(&filter)?;
        let account = Account { lost: 0.0, rate, since: 0, all: filter.len(), highest: rate };
        Ok(Self { filter, store, clock, account, digests: Vec::new() })
    }

    /// Which of these lines came before; they have come now.
    pub fn see(&mut self, keys: &Keys<'_>, repeats: &mut Vec<bool>) -> Result<(), Failure> {
        repeats.clear();
        repeats.resize(keys.keys.len(), false);
        let mut digests = std::mem::take(&mut self.digests);
        digests.clear();
        let contract = self.filter.contract();
        if digest::takes_bytes(contract) {
            digests.extend(keys.keys.iter().map(|key| contract.digest_bytes(key)));
        } else {
            let mut scratch = Vec::new();
            for (at, key) in keys.keys.iter().enumerate() {
                let digest = digest::digest(contract, key, &mut scratch);
                digests.push(digest.map_err(|error| Failure::Message(format!("{}: {error}", keys.place(at))))?);
            }
        }
        let seen = match self.filter.kind() {
            Kind::Rotating | Kind::Stable => self.see_again(&digests, repeats),
            _ => self.see_once(&digests, keys, repeats),
        };
        self.digests = digests;
        seen.map_err(|(at, error)| match error {
            Refusal::Filter(error) if error.kind() == ErrorKind::Full => Failure::Message(format!(
                "{}: the filter holds the {} that it is for, and there is no room for another: give a larger --items, or \
                 a --kind that grows",
                keys.place(at),
                number::counted(self.filter.capacity(), "line"),
            )),
            Refusal::Filter(error) => error.into(),
            Refusal::Other(error) => error,
        })
    }

    /// Kinds that keep what they have: a line that may have come is not inserted again.
    fn see_once(&mut self, digests: &[Digest], keys: &Keys<'_>, repeats: &mut [bool]) -> Result<(), (usize, Refusal)> {
        // A key that comes again takes another place in these.
        let slots = self.filter.kind().takes_removals();
        for (number, (digests, known)) in digests.chunks(CHUNK).zip(repeats.chunks_mut(CHUNK)).enumerate() {
            let first = number * CHUNK;
            self.filter.contains_digests(digests, known).map_err(|error| (first, error.into()))?;
            for (at, (&digest, repeat)) in digests.iter().zip(known).enumerate() {
                let at = first + at;
                // It may have come earlier in the same chunk.
                let known = *repeat || (slots && self.filter.contains_digest(digest));
                let fresh = !known && self.filter.insert_digest(digest).map_err(|error| (at, error.into()))?;
                *repeat = match &mut self.store {
                    Some(store) if !fresh => store.has(keys.keys[at]).map_err(|error| (at, error.into()))?,
                    _ => !fresh,
                };
                if let (false, Some(store)) = (*repeat, &mut self.store) {
                    store.add(keys.keys[at]);
                }
                if fresh {
                    self.account.count(&self.filter).map_err(|error| (at, error.into()))?;
                }
            }
        }
        Ok(())
    }

    /// Kinds that forget: every line is inserted, so that it is remembered from its last time on.
    fn see_again(&mut self, digests: &[Digest], repeats: &mut [bool]) -> Result<(), (usize, Refusal)> {
        if let (AnyFilter::Rotating(filter), Clock::Real(day, start)) = (&mut self.filter, &self.clock) {
            filter.advance_to(*day + start.elapsed());
        }
        for (at, (&digest, repeat)) in digests.iter().zip(repeats).enumerate() {
            if let (AnyFilter::Rotating(filter), Clock::Lines) = (&mut self.filter, &self.clock) {
                filter.advance_by(Duration::from_millis(1));
            }
            *repeat = !self.filter.insert_digest(digest).map_err(|error| (at, error.into()))?;
            if !*repeat {
                self.account.count(&self.filter).map_err(|error| (at, error.into()))?;
            }
        }
        Ok(())
    }

    /// How many new lines the filter is expected to have taken for repeats.
    pub fn expected_lost(&mut self) -> Result<f64, Failure> {
        self.account.settle(&self.filter)?;
        Ok(self.account.lost)
    }

    /// The highest rate that the filter had, as far as it was worked out.
    pub fn highest_rate(&self) -> f64 {
        self.account.highest
    }
}

/// Why a line was not taken.
enum Refusal {
    Filter(bloomgate::Error),
    Other(Failure),
}

impl From<bloomgate::Error> for Refusal {
    fn from(error: bloomgate::Error) -> Self {
        Self::Filter(error)
    }
}

impl From<Failure> for Refusal {
    fn from(error: Failure) -> Self {
        Self::Other(error)
    }
}
