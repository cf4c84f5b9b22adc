//! Declared namespaces: filters whose names begin alike, with limits of their own on memory, filters and items per second.
//!
//! ```text
//!  create, grow, copy, load ─▶ claim ─▶ namespace ─▶ budget       refused by the first that has no room, nothing is left over
//!  rename, swap             ─▶ move the charge from one to the other
//!  add, ask                 ─▶ pay for the items, or wait ─▶ count
//! ```
//!
//! Every filter knows its namespace by a number, 0 for none: the longest declared prefix of its name decides, when it gets
//! that name. A shadow belongs where its filter does. When prefixes change, all filters are looked at with nobody writing,
//! and what they take is counted anew; a [`Claim`] from before tells by its epoch that it is not in that count.

mod charging;
mod own;
mod paying;

pub use charging::{Beside, Claim, Moving};
pub use paying::{LONGEST_WAIT, Owed, cost_of};

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::audit::{Audit, Counters, Counts};
use super::budget::{Limit, Refused};
use super::shadows::RESERVED;
use super::{Engine, Permit};
use crate::access::{MAX_NAMESPACES, Namespace as Declared};
use own::Own;

/// One namespace: its limits (0 is none), what its filters take, and what was counted.
#[derive(Debug, Default)]
pub struct Namespace {
    max_memory: AtomicU64,
    max_filters: AtomicU64,
    items_per_second: AtomicU64,
    used: AtomicU64,
    /// Without shadows.
    filters: AtomicU64,
    /// The ids of its filters, shadows among them.
    own: RwLock<Own>,
    counts: Audit,
    /// Commands that were run on its names.
    commands: Counters<1>,
    waits: AtomicU64,
    waited_micros: AtomicU64,
    /// Until when its items are paid for, in nanoseconds: each moves it on by its share of a second.
    paid_until_ns: AtomicU64,
}

/// What there is to tell about a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // Those of Namespace.
pub struct Told {
    pub name: String,
    pub number: u16,
    pub prefix: String,
    pub max_memory: u64,
    pub used: u64,
    pub max_filters: u64,
    pub filters: u64,
    pub items_per_second: u64,
    pub counts: Counts,
    pub commands: u64,
    pub waits: u64,
    pub waited_micros: u64,
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Namespace {
    fn limit(&self, declared: &Declared) {
        self.max_memory.store(declared.max_memory.unwrap_or(0), Ordering::Relaxed);
        self.max_filters.store(declared.max_filters.unwrap_or(0), Ordering::Relaxed);
        let rate = declared.items_per_second.unwrap_or(0);
        if self.items_per_second.swap(rate, Ordering::Relaxed) != rate {
            // Who waits by the old limit waits no longer.
            self.paid_until_ns.store(0, Ordering::Relaxed);
        }
    }

    /// Takes `bytes` for something that replaces what has `instead` of them; how many were left if that does not fit.
    fn take(&self, bytes: u64, instead: u64) -> Result<(), u64> {
        let most = match read(&self.max_memory) {
            0 => u64::MAX,
            most => most,
        };
        let mut left = 0;
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let others = used.saturating_sub(instead);
            left = most.saturating_sub(others);
            // What takes less than before is never refused, however low the limit was made meanwhile.
            (bytes <= left || bytes <= instead).then(|| used.saturating_add(bytes))
        });
        taken.map(drop).map_err(|_| left)
    }

    fn own(&self) -> RwLockReadGuard<'_, Own> {
        self.own.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn own_mut(&self) -> RwLockWriteGuard<'_, Own> {
        self.own.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, bytes: u64) {
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used.saturating_sub(bytes)));
    }
}

#[derive(Debug, Default)]
struct Registry {
    /// The number and the prefix of each.
    names: BTreeMap<String, (u16, Box<[u8]>)>,
    prefixes: HashMap<Box<[u8]>, u16>,
    /// The lengths that prefixes have, longest first.
    lengths: Vec<usize>,
    /// Numbers that were let go, oldest first: a lookup that still has one should not meet another namespace.
    free: VecDeque<u16>,
    given: u16,
}

impl Registry {
    /// The namespace that a name belongs to.
    fn of(&self, name: &[u8]) -> u16 {
        let name = name.strip_prefix(RESERVED).unwrap_or(name);
        let prefixes = self.lengths.iter().filter_map(|&length| name.get(..length));
        prefixes.filter_map(|prefix| self.prefixes.get(prefix)).next().copied().unwrap_or(0)
    }

    fn is_of(&self, wanted: &BTreeMap<String, Declared>) -> bool {
        let known = self.names.iter().map(|(name, (_, prefix))| (name, &**prefix));
        known.eq(wanted.iter().map(|(name, declared)| (name, declared.prefix.as_bytes())))
    }

    /// Has these from now on: those that it had keep their numbers. The new ones' numbers come back.
    fn turn_into(&mut self, wanted: &BTreeMap<String, Declared>) -> Vec<u16> {
        let mut fresh = Vec::new();
        let gone: Vec<String> = self.names.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in gone {
            self.free.extend(self.names.remove(&name).map(|(number, _)| number));
        }
        for (name, declared) in wanted {
            let prefix: Box<[u8]> = declared.prefix.as_bytes().into();
            match self.names.get_mut(name) {
                Some((_, known)) => *known = prefix,
                None => {
                    let number = if usize::from(self.given) < MAX_NAMESPACES {
                        self.given += 1;
                        self.given
                    } else {
                        // The book has no more than there are numbers for.
                        self.free.pop_front().unwrap_or(0)
                    };
                    fresh.push(number);
                    self.names.insert(name.clone(), (number, prefix));
                }
            }
        }
        self.prefixes = self.names.values().map(|(number, prefix)| (prefix.clone(), *number)).collect();
        self.lengths = self.names.values().map(|(_, prefix)| prefix.len()).collect();
        self.lengths.sort_unstable_by(|one, other| other.cmp(one));
        self.lengths.dedup();
        fresh
    }
}

/// All declared namespaces.
#[derive(Debug)]
pub struct Namespaces {
    registry: RwLock<Registry>,
    /// By number; the first is nobody's. Whoever has a filter finds its namespace without a lock.
    places: Box<[OnceLock<Box<Namespace>>]>,
    declared: AtomicUsize,
    /// Moves when what filters take is counted anew.
    epoch: AtomicU64,
}

impl Default for Namespaces {
    fn default() -> Self {
        Self {
            registry: RwLock::default(),
            places: (0..=MAX_NAMESPACES).map(|_| OnceLock::new()).collect(),
            declared: AtomicUsize::new(0),
            epoch: AtomicU64::new(0),
        }
    }
}

impl Namespaces {
    fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The namespace of a number; none for 0.
    #[inline]
    fn at(&self, space: u16) -> Option<&Namespace> {
        if space == 0 { None } else { self.places.get(usize::from(space))?.get().map(|place| &**place) }
    }

    /// Whether none is declared.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.declared.load(Ordering::Acquire) == 0
    }

    /// How many are declared.
    #[must_use]
    pub fn len(&self) -> usize {
        self.declared.load(Ordering::Acquire)
    }

    /// The namespace that a name belongs to; 0 for none.
    #[inline]
    #[must_use]
    pub fn of(&self, name: &[u8]) -> u16 {
        if self.is_empty() { 0 } else { self.registry().of(name) }
    }

    /// The number of a declared namespace.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u16> {
        self.registry().names.get(name).map(|(number, _)| *number)
    }

    /// The name of a declared namespace by its number; none for 0.
    #[must_use]
    pub fn name_of(&self, space: u16) -> Option<String> {
        if space == 0 {
            return None;
        }
        self.registry().names.iter().find(|(_, (number, _))| *number == space).map(|(name, _)| name.clone())
    }

    /// The numbers of those that are declared.
    #[must_use]
    pub fn numbers(&self) -> Vec<u16> {
        self.registry().names.values().map(|(number, _)| *number).collect()
    }

    /// How many filters it has, without shadows.
    #[must_use]
    pub fn filters(&self, space: u16) -> u64 {
        self.at(space).map_or(0, |place| read(&place.filters))
    }

    /// What its filters may take in all; none without a limit.
    #[must_use]
    pub fn max_memory(&self, space: u16) -> Option<u64> {
        self.at(space).map(|place| read(&place.max_memory)).filter(|&most| most > 0)
    }

    fn told(&self, name: &str, number: u16, prefix: &[u8]) -> Option<Told> {
        let place = self.at(number)?;
        Some(Told {
            name: name.to_owned(),
            number,
            prefix: String::from_utf8_lossy(prefix).into_owned(),
            max_memory: read(&place.max_memory),
            used: read(&place.used),
            max_filters: read(&place.max_filters),
            filters: read(&place.filters),
            items_per_second: read(&place.items_per_second),
            counts: place.counts.counts(),
            commands: place.commands.sums()[0],
            waits: read(&place.waits),
            waited_micros: read(&place.waited_micros),
        })
    }

    /// What there is to tell about one.
    #[must_use]
    pub fn tell(&self, name: &str) -> Option<Told> {
        let registry = self.registry();
        let (number, prefix) = registry.names.get(name)?;
        self.told(name, *number, prefix)
    }

    /// The same of the first so many, by their names.
    #[must_use]
    pub fn tell_first(&self, count: usize) -> Vec<Told> {
        let registry = self.registry();
        let first = registry.names.iter().take(count);
        first.filter_map(|(name, (number, prefix))| self.told(name, *number, prefix)).collect()
    }

    /// Calls with what there is to tell about each but the first so many.
    pub fn tell_others(&self, first: usize, tell: impl FnMut(Told)) {
        let registry = self.registry();
        let others = registry.names.iter().skip(first);
        others.filter_map(|(name, (number, prefix))| self.told(name, *number, prefix)).for_each(tell);
    }

    /// So many commands were run on names of a namespace.
    #[inline]
    pub fn count_commands(&self, space: u16, commands: u64) {
        if let Some(place) = self.at(space) {
            place.commands.add([commands]);
        }
    }

    fn refusal(&self, space: u16, wanted: u64, allowed: u64) -> Refused {
        if let Some(place) = self.at(space) {
            place.counts.add(Counts { refused: 1, ..Counts::default() });
        }
        self.uncounted_refusal(space, wanted, allowed)
    }

    /// The same for what is counted elsewhere.
    fn uncounted_refusal(&self, space: u16, wanted: u64, allowed: u64) -> Refused {
        let names = self.registry();
        let name = names.names.iter().find(|(_, (number, _))| *number == space).map(|(name, _)| name.clone());
        Refused::new(wanted, allowed, Limit::Namespace(name.unwrap_or_default()))
    }
}

impl Permit<'_> {
    /// These namespaces are declared from now on, and no others. With nobody else writing.
    pub fn declare(&mut self, wanted: &BTreeMap<String, Declared>) {
        let engine = self.engine();
        let namespaces = &engine.namespaces;
        let mut registry = namespaces.registry.write().unwrap_or_else(PoisonError::into_inner);
        if !registry.is_of(wanted) {
            for number in registry.turn_into(wanted) {
                if let Some(place) = namespaces.places.get(usize::from(number)) {
                    place.get_or_init(Box::default).reset();
                }
            }
            namespaces.epoch.fetch_add(1, Ordering::AcqRel);
            namespaces.declared.store(registry.names.len(), Ordering::Release);
            count_anew(engine, &registry);
        }
        for (name, declared) in wanted {
            if let Some(place) = registry.names.get(name).and_then(|(number, _)| namespaces.at(*number)) {
                place.limit(declared);
            }
        }
    }
}

impl Namespace {
    /// The number goes to another one.
    fn reset(&self) {
        self.counts.reset();
        self.commands.reset();
        for counter in [&self.waits, &self.waited_micros, &self.paid_until_ns] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// Gives every filter its namespace and counts what they take.
fn count_anew(engine: &Engine, registry: &Registry) {
    // Those that are declared no more, too: their filters are others' now.
    for place in engine.namespaces.places.iter().filter_map(OnceLock::get) {
        place.used.store(0, Ordering::Relaxed);
        place.filters.store(0, Ordering::Relaxed);
        place.own_mut().clear();
    }
    let mut next = 0;
    loop {
        let entries = engine.names.from_id(next, 4_096);
        let Some(last) = entries.last() else { return };
        next = last.id + 1;
        for entry in &entries {
            engine.enrol(entry, registry.of(&entry.name()), charging::charged(entry));
        }
    }
}

#[cfg(test)]
mod tests;
