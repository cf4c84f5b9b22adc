//! The names and their filters.
//!
//! Names are spread over shards, each under a read-write lock that is held for one look. Reactors do not even take
//! that: each has a [`Nearby`] of filters it used lately, good as long as no name lost or changed its filter, which one
//! number tells. A second order, by id, serves SCAN: ids only grow, so a cursor never misses a filter that stays.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::{Arc, PoisonError};

use bloomgate::Kind;

use super::entry::Entry;
use super::shadows::is_reserved;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Fault, RwLock, RwLockWriteGuard, Spread, broken};

const SHARDS: usize = 64;

type Filters = HashMap<Box<[u8]>, Arc<Entry>>;
type Shard = RwLock<Filters>;

/// All filters by name and by id.
#[derive(Debug)]
pub struct Names {
    shards: Box<[Shard]>,
    hasher: Spread,
    by_id: RwLock<BTreeMap<u64, Arc<Entry>>>,
    /// Those with a window, by id: they are told the time ten times a second, and among a million others nobody would
    /// want to look for them.
    windows: RwLock<BTreeMap<u64, Arc<Entry>>>,
    /// How many of them are shadows, which are nobody's to see.
    shadows: AtomicUsize,
    /// Moves whenever a name stops meaning the filter that it meant.
    generation: AtomicU64,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: Spread::default(),
            by_id: RwLock::default(),
            windows: RwLock::default(),
            shadows: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
        }
    }
}

impl Names {
    fn place(&self, name: &[u8]) -> usize {
        self.hasher.hash_one(name) as usize % SHARDS
    }

    fn shard(&self, name: &[u8]) -> &Shard {
        &self.shards[self.place(name)]
    }

    /// The filter of a name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Arc<Entry>> {
        self.shard(name).read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The filter of an id.
    #[must_use]
    pub fn by_id(&self, id: u64) -> Option<Arc<Entry>> {
        self.by_id.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Filters from an id on, at most so many, in the order of their ids.
    #[must_use]
    pub fn from_id(&self, first: u64, count: usize) -> Vec<Arc<Entry>> {
        let by_id = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        by_id.range(first..).take(count).map(|(_, entry)| entry.clone()).collect()
    }

    /// The filters with a window.
    #[must_use]
    pub fn windows(&self) -> Vec<Arc<Entry>> {
        self.windows.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// How many there are, without shadows.
    #[must_use]
    pub fn visible(&self) -> usize {
        self.len().saturating_sub(self.shadows.load(Ordering::Relaxed))
    }

    /// Visible filters from an id on, at most so many, in the order of their ids.
    #[must_use]
    pub fn visible_from_id(&self, first: u64, count: usize) -> Vec<Arc<Entry>> {
        let by_id = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        let visible = by_id.range(first..).map(|(_, entry)| entry).filter(|entry| !is_reserved(&entry.name()));
        visible.take(count).cloned().collect()
    }

    /// How many there are, shadows among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number that tells whether what a [`Nearby`] knows still holds.
    #[must_use]
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A name stops meaning the filter that it meant. To be told before the name's shard is let go: a thread that found
    /// the new filter there must not go on with what it knew about other names, nor any other thread after it.
    fn moved_on(&self) {
        if !broken(Fault::StaleNames) {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A filter that has no name any more.
    fn forget(&self, entry: &Entry) {
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(&entry.id);
        if entry.kind() == Kind::Rotating {
            self.windows.write().unwrap_or_else(PoisonError::into_inner).remove(&entry.id);
        }
    }

    /// Puts a filter under its name; what was there comes back and has no name any more. With nobody writing.
    pub fn insert(&self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let name = entry.name();
        self.shadows.fetch_add(usize::from(is_reserved(&name)), Ordering::Relaxed);
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).insert(entry.id, entry.clone());
        if entry.kind() == Kind::Rotating {
            self.windows.write().unwrap_or_else(PoisonError::into_inner).insert(entry.id, entry.clone());
        }
        let mut shard = self.shard(&name).write().unwrap_or_else(PoisonError::into_inner);
        let before = shard.insert((*name).into(), entry)?;
        self.moved_on();
        drop(shard);
        self.shadows.fetch_sub(usize::from(is_reserved(&name)), Ordering::Relaxed);
        self.forget(&before);
        Some(before)
    }

    /// Takes a filter away. With nobody writing.
    pub fn remove(&self, name: &[u8]) -> Option<Arc<Entry>> {
        let mut shard = self.shard(name).write().unwrap_or_else(PoisonError::into_inner);
        let entry = shard.remove(name)?;
        self.moved_on();
        drop(shard);
        self.shadows.fetch_sub(usize::from(is_reserved(name)), Ordering::Relaxed);
        self.forget(&entry);
        Some(entry)
    }

    /// Gives a filter another name; a filter that had it comes back and has none any more. With nobody writing.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Option<Arc<Entry>> {
        let mut both = self.both(from, to);
        let entry = both.of(from).remove(from)?;
        entry.rename(to);
        let before = both.of(to).insert(to.into(), entry);
        self.moved_on();
        drop(both);
        if before.is_none() {
            self.shadows.fetch_add(usize::from(is_reserved(to)), Ordering::Relaxed);
        }
        self.shadows.fetch_sub(usize::from(is_reserved(from)), Ordering::Relaxed);
        before.inspect(|before| self.forget(before))
    }

    /// Two filters change their names. With nobody writing.
    pub fn swap(&self, one: &Arc<Entry>, other: &Arc<Entry>) {
        let (first, second) = (one.name(), other.name());
        let mut both = self.both(&first, &second);
        one.rename(&second);
        other.rename(&first);
        both.of(&second).insert((*second).into(), one.clone());
        both.of(&first).insert((*first).into(), other.clone());
        self.moved_on();
    }

    /// The shards of two names, to be changed as one: lookups wait for no writer, and who asks under one name and then
    /// under the other must not be told "no" twice of a key that was in one of them all the time.
    fn both(&self, one: &[u8], other: &[u8]) -> Both<'_> {
        let mut places = [self.place(one), self.place(other)];
        // Always in the same order, though nobody else writes.
        places.sort_unstable();
        let locked = |place: usize| (place, self.shards[place].write().unwrap_or_else(PoisonError::into_inner));
        let low = locked(places[0]);
        let high = (places[0] != places[1]).then(|| locked(places[1]));
        Both { names: self, low, high }
    }

    /// Takes all away. With nobody writing.
    pub fn clear(&self) -> Vec<Arc<Entry>> {
        for shard in &self.shards {
            shard.write().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.windows.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.shadows.store(0, Ordering::Relaxed);
        self.moved_on();
        std::mem::take(&mut *self.by_id.write().unwrap_or_else(PoisonError::into_inner)).into_values().collect()
    }
}

/// The locked shards of two names, which may be one.
struct Both<'a> {
    names: &'a Names,
    low: (usize, RwLockWriteGuard<'a, Filters>),
    high: Option<(usize, RwLockWriteGuard<'a, Filters>)>,
}

impl Both<'_> {
    fn of(&mut self, name: &[u8]) -> &mut Filters {
        match &mut self.high {
            Some((place, filters)) if *place == self.names.place(name) => filters,
            _ => &mut self.low.1,
        }
    }
}

/// Filters that one thread used lately.
#[derive(Debug, Default)]
pub struct Nearby {
    generation: u64,
    known: HashMap<Box<[u8]>, Arc<Entry>>,
}

/// How many a thread remembers.
const NEARBY: usize = 1_024;

impl Nearby {
    /// The filter of a name.
    #[inline]
    pub fn find(&mut self, names: &Names, name: &[u8]) -> Option<&Arc<Entry>> {
        self.refresh(names);
        if !self.known.contains_key(name) {
            let entry = names.get(name)?;
            if self.known.len() >= NEARBY {
                self.known.clear();
            }
            self.known.insert(name.into(), entry);
        }
        self.known.get(name)
    }

    /// Lets go of filters whose names may have changed: also what an idle thread does, or deleted filters would keep
    /// their memory.
    #[inline]
    pub fn refresh(&mut self, names: &Names) {
        let generation = names.generation();
        if self.generation != generation {
            self.known.clear();
            self.generation = generation;
        }
    }
}
