//! Paying for the items of a namespace, before they are asked for or changed.
//!
//! ```text
//!  paid for until ──▶ moves on by each item's share of a second, at most 2 s ahead of the clock
//!  a command      ──▶ pays for as many items as fit below that, comes again for the rest, runs when all are paid for
//! ```
//!
//! Whoever comes finds what others have paid for, so that a new connection is not ahead of those that wait; and because
//! nobody pays further ahead than 2 s, one command does not make a namespace wait for minutes. What was paid for is kept
//! with the connection, so that everybody who waits gets on. A transaction and a worker, which hold others up, do not wait: they
//! bring what was paid for before ([`Scratch::pay_ahead`]).

use std::sync::atomic::Ordering;
use std::time::Duration;

use bloomgate_command::Refusal;

use super::{Namespace, Namespaces, read};
use crate::engine::Engine;
use crate::engine::adding::{NotDone, Scratch};
use crate::engine::audit::Counts;
use crate::engine::entry::Entry;

/// Items that may come at once however low the limit is: a turn of one connection.
pub(super) const LEAST_BURST: u64 = 512;
/// A connection waits so long at a time, then looks whether the limit has changed or it is to end.
pub const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// So far ahead of the clock items are paid for.
pub(super) const MOST_AHEAD_NS: u64 = 2_000_000_000;
/// A command that would have to wait longer for its items alone is refused.
const LONGEST_COMMAND_NS: u64 = 30_000_000_000;
/// One that waits so long beside others is.
const PATIENCE_NS: u64 = 60_000_000_000;

/// So many bytes of an item cost as much as an item.
const ITEM_BYTES: usize = 256;

/// What items cost: 1 each, and 1 for each 256 bytes of it, which take as long to hash as an item to look up.
#[must_use]
pub fn cost_of(items: &[&[u8]]) -> u64 {
    items.iter().map(|item| 1 + (item.len() / ITEM_BYTES) as u64).sum()
}

/// How long so many items last at a rate.
fn lasting(items: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(items) * 1_000_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX)
}

impl Namespace {
    /// Pays for items, as far ahead as may be; for how many, and until when they are paid for.
    pub(super) fn pay(&self, items: u64, rate: u64, now: u64) -> (u64, u64) {
        // Who did not come for a while may take a quarter of a second's worth at once.
        let earliest = now.saturating_sub(lasting((rate / 4).max(LEAST_BURST), rate));
        let latest = now.saturating_add(MOST_AHEAD_NS);
        let (mut paid, mut until) = (0, 0);
        let _ = self.paid_until_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
            let begin = before.max(earliest);
            let room = u128::from(latest.saturating_sub(begin)) * u128::from(rate) / 1_000_000_000;
            paid = items.min(u64::try_from(room).unwrap_or(u64::MAX));
            until = begin.saturating_add(lasting(paid, rate));
            (paid > 0).then_some(until)
        });
        (paid, until)
    }

    /// Takes items that nobody waits for: they are paid for as far as may be, so that others wait no longer than ever.
    pub(super) fn take_items(&self, items: u64, rate: u64, now: u64) -> u64 {
        match self.pay(items, rate, now) {
            (paid, until) if paid == items => until,
            _ => {
                let latest = now.saturating_add(MOST_AHEAD_NS);
                self.paid_until_ns.fetch_max(latest, Ordering::Relaxed);
                latest
            }
        }
    }
}

/// What a connection owes to a namespace, or has paid to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owed {
    /// The namespace.
    pub space: u16,
    /// It waits until then, in nanoseconds since 1970; 0 for nothing.
    pub until_ns: u64,
    /// Items of the command that comes next which are paid for.
    pub ahead: u64,
    /// Since when that command waits; 0 if it does not.
    pub since_ns: u64,
}

impl Owed {
    /// What is owed after something more: the later of two, unless a command waits to be run.
    pub fn add(&mut self, other: Self) {
        if other.ahead > 0 || other.since_ns > 0 || other.until_ns > self.until_ns {
            *self = other;
        }
    }
}

impl Namespaces {
    /// How long one who owes has to wait from now on; the limit may have been raised, or taken away.
    #[must_use]
    pub fn wait_for(&self, owed: Owed, now_ns: u64) -> Duration {
        let Some(place) = self.at(owed.space) else { return Duration::ZERO };
        Duration::from_nanos(owed.until_ns.min(read(&place.paid_until_ns)).saturating_sub(now_ns))
    }

    /// A connection waits for so long.
    pub fn note_wait(&self, space: u16, wait: Duration) {
        if let Some(place) = self.at(space) {
            place.waits.fetch_add(1, Ordering::Relaxed);
            place.waited_micros.fetch_add(wait.as_micros() as u64, Ordering::Relaxed);
        }
    }

    #[cold]
    fn too_many(&self, space: u16, items: u64, rate: u64) -> Refusal {
        let registry = self.registry();
        let name = registry.names.iter().find(|(_, (number, _))| *number == space).map_or("", |(name, _)| name);
        let most = rate.saturating_mul(LONGEST_COMMAND_NS / 1_000_000_000).max(LEAST_BURST);
        if items > most {
            return Refusal::err(format_args!(
                "the command costs {items} items (1 each, 1 more for each {ITEM_BYTES} bytes), and the namespace '{name}' may have {rate} a second: send at most {most} at \
                 once, or raise it (BG.NAMESPACE SET {name} ITEMSPERSECOND n)"
            ));
        }
        Refusal::err(format_args!(
            "the namespace '{name}' may have {rate} items a second, and the {items} that this command costs were not there in {} \
             seconds: try again later, send fewer, or raise it (BG.NAMESPACE SET {name} ITEMSPERSECOND n)",
            PATIENCE_NS / 1_000_000_000
        ))
    }
}

impl Scratch {
    /// Pays for items of a filter before they are asked for or changed: busy while they are to wait.
    #[inline]
    pub fn pay_for(&mut self, engine: &Engine, entry: &Entry, items: &[&[u8]]) -> Result<(), NotDone> {
        match entry.space() {
            0 => Ok(()),
            space => self.pay(engine, space, || cost_of(items)),
        }
    }

    /// The same for items under a name that is not there, which are lookups.
    #[inline]
    pub fn pay_absent(&mut self, engine: &Engine, name: &[u8], items: &[&[u8]]) -> Result<(), NotDone> {
        let space = engine.namespaces.of(name);
        let Some(place) = engine.namespaces.at(space) else { return Ok(()) };
        self.pay(engine, space, || cost_of(items))?;
        place.counts.add(Counts { lookups: items.len() as u64, ..Counts::default() });
        Ok(())
    }

    /// The same for a command by itself, and for items of what runs later and cannot wait then: those are kept as paid for.
    pub fn pay_ahead(&mut self, engine: &Engine, space: u16, command: u64, items: u64) -> Result<(), NotDone> {
        self.pay(engine, space, || command + items)?;
        if items > 0 && self.paid.0 == space {
            self.paid.1 = items;
            self.come_again(space);
        }
        Ok(())
    }

    /// What was paid for last was not done, and comes again.
    pub fn come_again(&mut self, space: u16) {
        if space != 0 && self.paid.0 == space {
            (self.owed.space, self.owed.ahead) = (space, self.owed.ahead.saturating_add(self.paid.1));
            // Nothing is waited for, but it is not forgotten.
            self.owed.until_ns = self.owed.until_ns.max(1);
            self.paid = (0, 0);
        }
    }

    /// What is paid for, for somebody who does the work elsewhere.
    pub fn take_ahead(&mut self) -> Owed {
        let Owed { space, ahead, .. } = self.owed;
        self.owed.ahead = 0;
        Owed { space, ahead, ..Owed::default() }
    }

    fn pay(&mut self, engine: &Engine, space: u16, cost: impl FnOnce() -> u64) -> Result<(), NotDone> {
        self.paid = (0, 0);
        let Some(place) = engine.namespaces.at(space) else { return Ok(()) };
        let rate = read(&place.items_per_second);
        if rate == 0 {
            return Ok(());
        }
        // Only where it counts: nobody else's items are gone through for it.
        let items = cost();
        if items == 0 {
            return Ok(());
        }
        let before = if self.owed.space == space { self.owed.ahead.min(items) } else { 0 };
        let (wanted, now) = (items - before, engine.clock.now_ns());
        let until_ns = if self.in_one_go {
            place.take_items(wanted, rate, now)
        } else {
            // A burst may be more than the longest command where the limit is low.
            if lasting(items, rate) > LONGEST_COMMAND_NS && items > LEAST_BURST {
                return Err(engine.namespaces.too_many(space, items, rate).into());
            }
            let (paid, until_ns) = place.pay(wanted, rate, now);
            if paid < wanted {
                let since_ns = if self.owed.since_ns == 0 { now } else { self.owed.since_ns };
                if now.saturating_sub(since_ns) > PATIENCE_NS {
                    self.owed = Owed::default();
                    return Err(engine.namespaces.too_many(space, items, rate).into());
                }
                let rest = lasting(wanted - paid, rate).min(LONGEST_WAIT.as_nanos() as u64);
                // Never at once again: a millisecond's worth of items is worth the way.
                let until_ns = now.saturating_add(rest.max(1_000_000));
                self.owed = Owed { space, until_ns, ahead: before + paid, since_ns };
                return Err(NotDone::Busy);
            }
            until_ns
        };
        self.owed.ahead = if self.owed.space == space { self.owed.ahead - before } else { 0 };
        self.owed.since_ns = 0;
        self.paid = (space, items);
        if until_ns > now {
            let ahead = self.owed.ahead;
            self.owed.add(Owed { space, until_ns, ..Owed::default() });
            self.owed.ahead = ahead;
        }
        Ok(())
    }

    /// Items of a filter were asked for or changed: its namespace counts them, and so does the thread.
    #[inline]
    pub(in crate::engine) fn note(&mut self, engine: &Engine, entry: &Entry, counts: Counts) {
        self.answered.positives += counts.positives;
        self.answered.fresh += counts.fresh;
        self.answered.refused += counts.refused;
        self.answered.removed += counts.removed;
        if let Some(place) = engine.namespaces.at(entry.space()) {
            place.counts.add(counts);
        }
    }
}
