//! The names and their filters.
//!
//! Names are spread over shards, each under a read-write lock that is held for one look. Reactors do not even take
//! that: each has a [`Nearby`] of filters it used lately, good as long as no name lost or changed its filter, which one
//! number tells. A second order, by id, serves SCAN: ids only grow, so a cursor never misses a filter that stays.
//!
//! A name is in its filter alone: tables hold filters and ask them. A table doubles when it is seven eighths full; if all
//! shards had the same share of the names they would all do so at once, and a million filters would pay for two. So the
//! shares differ, by a factor of two from the first shard to the last, and of the 64 one doubles for every 1.1 % that the
//! names become more. A place takes 9 bytes, and with its share of empty ones 14, however many names there are.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::sync::PoisonError;

use bloomgate::Kind;
use hashbrown::HashTable;

use super::entry::{Entry, Lacks};
use super::ids::Ids;
use super::shadows::is_reserved;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Fault, RwLock, RwLockWriteGuard, Spread, broken};

const SHARDS: usize = 64;

type Filters = HashTable<Entry>;
type Shard = RwLock<Filters>;

/// All filters by name and by id.
#[derive(Debug)]
pub struct Names {
    shards: Box<[Shard]>,
    hasher: Spread,
    by_id: RwLock<Ids>,
    /// Those with a window, by id: they are told the time ten times a second, and among a million others nobody would
    /// want to look for them.
    windows: RwLock<BTreeMap<u64, Entry>>,
    /// Those that end by themselves: when, and their ids.
    ending: RwLock<BTreeSet<(u64, u64)>>,
    /// How many there are.
    count: AtomicUsize,
    /// How many of them are shadows, which are nobody's to see.
    shadows: AtomicUsize,
    /// How many of the others there are of each kind, by its number.
    kinds: [AtomicUsize; KINDS],
    /// How many cannot answer.
    unavailable: AtomicUsize,
    /// How many of those lack their secret.
    without_secret: AtomicUsize,
    /// Moves whenever a name stops meaning the filter that it meant.
    generation: AtomicU64,
}

/// Numbers of kinds are below this.
const KINDS: usize = 64;

impl Default for Names {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: Spread::default(),
            by_id: RwLock::default(),
            windows: RwLock::default(),
            ending: RwLock::default(),
            count: AtomicUsize::new(0),
            shadows: AtomicUsize::new(0),
            kinds: std::array::from_fn(|_| AtomicUsize::new(0)),
            unavailable: AtomicUsize::new(0),
            without_secret: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
        }
    }
}

/// The shard of a hash: the part of it that tables inside a shard use least, on a scale that gives shard n a share of
/// 2^(n / 64).
fn place(hash: u64) -> usize {
    let share = 1.0 + (hash >> 28 & 0xff_ffff) as f32 / 16_777_216.0;
    ((share.log2() * SHARDS as f32) as usize).min(SHARDS - 1)
}

impl Names {
    /// Parts of the names.
    pub const PARTS: usize = SHARDS;

    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    fn put(&self, filters: &mut Filters, hash: u64, entry: Entry) {
        filters.insert_unique(hash, entry, |entry| self.hash(&entry.name()));
    }

    /// Takes the filter of a name out of its shard.
    fn cut(filters: &mut Filters, hash: u64, name: &[u8]) -> Option<Entry> {
        let (entry, _) = filters.find_entry(hash, |entry| entry.is_named(name)).ok()?.remove();
        Some(entry)
    }

    /// Gives memory back when most of it is empty: a million filters that were deleted leave nothing.
    fn tighten(&self, filters: &mut Filters) {
        if filters.capacity() > 64 && filters.len() * 8 < filters.capacity() {
            let most = filters.len() * 2;
            filters.shrink_to(most, |entry| self.hash(&entry.name()));
        }
    }

    fn lock(&self, hash: u64) -> RwLockWriteGuard<'_, Filters> {
        self.shards[place(hash)].write().unwrap_or_else(PoisonError::into_inner)
    }

    fn get_hashed(&self, hash: u64, name: &[u8]) -> Option<Entry> {
        let shard = self.shards[place(hash)].read().unwrap_or_else(PoisonError::into_inner);
        shard.find(hash, |entry| entry.is_named(name)).cloned()
    }

    /// The filter of a name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Entry> {
        self.get_hashed(self.hash(name), name)
    }

    /// The filter of an id.
    #[must_use]
    pub fn by_id(&self, id: u64) -> Option<Entry> {
        self.by_id.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// The filters of these ids, without those that are gone.
    #[must_use]
    pub fn of_ids(&self, ids: &[u64]) -> Vec<Entry> {
        let by_id = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        ids.iter().filter_map(|&id| by_id.get(id).cloned()).collect()
    }

    /// Filters from an id on, at most so many, in the order of their ids.
    #[must_use]
    pub fn from_id(&self, first: u64, count: usize) -> Vec<Entry> {
        let by_id = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        by_id.from(first).take(count).cloned().collect()
    }

    /// The filters with a window.
    #[must_use]
    pub fn windows(&self) -> Vec<Entry> {
        self.windows.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The ids of filters whose time is over, at most so many, those that ended first before the others.
    #[must_use]
    pub fn ended(&self, now_ms: u64, count: usize) -> Vec<u64> {
        let ending = self.ending.read().unwrap_or_else(PoisonError::into_inner);
        ending.iter().take_while(|(at, _)| *at <= now_ms).take(count).map(|&(_, id)| id).collect()
    }

    /// How many end by themselves.
    #[must_use]
    pub fn ending(&self) -> usize {
        self.ending.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Sets when a filter goes; 0 for never. With nobody writing.
    pub fn expire(&self, entry: &Entry, at_ms: u64) {
        let mut ending = self.ending.write().unwrap_or_else(PoisonError::into_inner);
        ending.remove(&(entry.expires_ms(), entry.id));
        entry.expire_at(at_ms);
        if at_ms != 0 {
            ending.insert((at_ms, entry.id));
        }
    }

    /// A filter gets a name.
    fn appears(&self, entry: &Entry, name: &[u8]) {
        if let Some(lacks) = entry.lacks() {
            self.unavailable.fetch_add(1, Ordering::Relaxed);
            self.without_secret.fetch_add(usize::from(lacks == Lacks::Secret), Ordering::Relaxed);
        }
        match is_reserved(name) {
            true => self.shadows.fetch_add(1, Ordering::Relaxed),
            false => self.kinds[usize::from(entry.kind().number()) % KINDS].fetch_add(1, Ordering::Relaxed),
        };
    }

    /// A filter loses a name.
    fn disappears(&self, entry: &Entry, name: &[u8]) {
        if let Some(lacks) = entry.lacks() {
            self.unavailable.fetch_sub(1, Ordering::Relaxed);
            self.without_secret.fetch_sub(usize::from(lacks == Lacks::Secret), Ordering::Relaxed);
        }
        match is_reserved(name) {
            true => self.shadows.fetch_sub(1, Ordering::Relaxed),
            false => self.kinds[usize::from(entry.kind().number()) % KINDS].fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// How many there are of each kind, without shadows.
    #[must_use]
    pub fn kinds(&self) -> Vec<(Kind, usize)> {
        let counted = self.kinds.iter().enumerate().map(|(number, count)| (number, count.load(Ordering::Relaxed)));
        let some = counted.filter(|&(_, count)| count > 0);
        some.filter_map(|(number, count)| Some((Kind::from_number(number as u16)?, count))).collect()
    }

    /// How many cannot answer.
    #[must_use]
    pub fn unavailable(&self) -> usize {
        self.unavailable.load(Ordering::Relaxed)
    }

    /// How many of those lack their secret.
    #[must_use]
    pub fn without_secret(&self) -> usize {
        self.without_secret.load(Ordering::Relaxed)
    }

    /// How many there are, without shadows.
    #[must_use]
    pub fn visible(&self) -> usize {
        self.len().saturating_sub(self.shadows.load(Ordering::Relaxed))
    }

    /// Visible filters from an id on, at most so many, in the order of their ids.
    #[must_use]
    pub fn visible_from_id(&self, first: u64, count: usize) -> Vec<Entry> {
        let by_id = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        by_id.from(first).filter(|entry| !is_reserved(&entry.name())).take(count).cloned().collect()
    }

    /// How many there are, shadows among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
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

    /// The same, once nobody is in the midst of moving a name: one that was being moved before is told by it.
    #[must_use]
    pub fn settled_generation(&self) -> u64 {
        // Whoever moves a name says so before they let its shard go.
        self.shards.iter().for_each(|shard| drop(shard.read().unwrap_or_else(PoisonError::into_inner)));
        self.generation()
    }

    /// The filters of one of [`PARTS`](Self::PARTS) of the names, each with the name that it has there. A name is in the same part
    /// whichever filter it means, and is there all the time that it means one.
    #[must_use]
    pub fn part(&self, number: usize) -> Vec<(Entry, Box<[u8]>)> {
        let shard = self.shards[number].read().unwrap_or_else(PoisonError::into_inner);
        shard.iter().map(|entry| (entry.clone(), entry.name().as_ref().into())).collect()
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
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(entry.id);
        self.count.fetch_sub(1, Ordering::Relaxed);
        if entry.expires_ms() != 0 {
            let mut ending = self.ending.write().unwrap_or_else(PoisonError::into_inner);
            ending.remove(&(entry.expires_ms(), entry.id));
        }
        if entry.kind() == Kind::Rotating {
            self.windows.write().unwrap_or_else(PoisonError::into_inner).remove(&entry.id);
        }
    }

    /// Puts a filter under its name; what was there comes back and has no name any more. With nobody writing.
    pub fn insert(&self, entry: Entry) -> Option<Entry> {
        let name = entry.name();
        self.appears(&entry, &name);
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).insert(entry.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        if entry.expires_ms() != 0 {
            self.expire(&entry, entry.expires_ms());
        }
        if entry.kind() == Kind::Rotating {
            self.windows.write().unwrap_or_else(PoisonError::into_inner).insert(entry.id, entry.clone());
        }
        let hash = self.hash(&name);
        let mut shard = self.lock(hash);
        let before = Self::cut(&mut shard, hash, &name);
        self.put(&mut shard, hash, entry.clone());
        let before = before?;
        self.moved_on();
        drop(shard);
        self.disappears(&before, &name);
        self.forget(&before);
        Some(before)
    }

    /// Takes a filter away. With nobody writing.
    pub fn remove(&self, name: &[u8]) -> Option<Entry> {
        let hash = self.hash(name);
        let mut shard = self.lock(hash);
        let entry = Self::cut(&mut shard, hash, name)?;
        self.moved_on();
        self.tighten(&mut shard);
        drop(shard);
        self.disappears(&entry, name);
        self.forget(&entry);
        Some(entry)
    }

    /// Gives a filter another name; a filter that had it comes back and has none any more. With nobody writing.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Option<Entry> {
        let (old, new) = (self.hash(from), self.hash(to));
        let mut both = self.both(old, new);
        let entry = Self::cut(both.of(old), old, from)?;
        let before = Self::cut(both.of(new), new, to);
        entry.rename(to);
        self.put(both.of(new), new, entry.clone());
        self.moved_on();
        drop(both);
        self.appears(&entry, to);
        self.disappears(&entry, from);
        before.inspect(|before| {
            self.disappears(before, to);
            self.forget(before);
        })
    }

    /// Two filters change their names. With nobody writing.
    pub fn swap(&self, one: &Entry, other: &Entry) {
        let (first, second) = (one.name().into_owned(), other.name().into_owned());
        let (low, high) = (self.hash(&first), self.hash(&second));
        let mut both = self.both(low, high);
        Self::cut(both.of(low), low, &first);
        Self::cut(both.of(high), high, &second);
        one.rename(&second);
        other.rename(&first);
        self.put(both.of(high), high, one.clone());
        self.put(both.of(low), low, other.clone());
        self.moved_on();
    }

    /// The shards of two hashes, to be changed as one: lookups wait for no writer, and who asks under one name and then
    /// under the other must not be told "no" twice of a key that was in one of them all the time.
    fn both(&self, one: u64, other: u64) -> Both<'_> {
        let mut places = [place(one), place(other)];
        // Always in the same order, though nobody else writes.
        places.sort_unstable();
        let locked = |place: usize| (place, self.shards[place].write().unwrap_or_else(PoisonError::into_inner));
        let low = locked(places[0]);
        let high = (places[0] != places[1]).then(|| locked(places[1]));
        Both { low, high }
    }

    /// Takes all away. With nobody writing.
    pub fn clear(&self) -> Vec<Entry> {
        for shard in &self.shards {
            *shard.write().unwrap_or_else(PoisonError::into_inner) = Filters::new();
        }
        self.windows.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.ending.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.shadows.store(0, Ordering::Relaxed);
        self.unavailable.store(0, Ordering::Relaxed);
        self.without_secret.store(0, Ordering::Relaxed);
        self.kinds.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        self.count.store(0, Ordering::Relaxed);
        self.moved_on();
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The locked shards of two names, which may be one.
struct Both<'a> {
    low: (usize, RwLockWriteGuard<'a, Filters>),
    high: Option<(usize, RwLockWriteGuard<'a, Filters>)>,
}

impl Both<'_> {
    fn of(&mut self, hash: u64) -> &mut Filters {
        match &mut self.high {
            Some((at, filters)) if *at == place(hash) => filters,
            _ => &mut self.low.1,
        }
    }
}

/// Filters that one thread used lately.
#[derive(Debug, Default)]
pub struct Nearby {
    generation: u64,
    known: HashTable<Known>,
}

/// A filter under the name by which it was found: what it is called now is not asked, for that is elsewhere in memory.
#[derive(Debug)]
struct Known {
    hash: u64,
    name: Box<[u8]>,
    entry: Entry,
}

/// How many a thread remembers.
const NEARBY: usize = 1_024;

impl Nearby {
    /// The filter of a name.
    #[inline]
    pub fn find(&mut self, names: &Names, name: &[u8]) -> Option<&Entry> {
        self.refresh(names);
        let hash = names.hash(name);
        let is_it = |known: &Known| known.hash == hash && *known.name == *name;
        if self.known.find(hash, is_it).is_none() {
            let entry = names.get_hashed(hash, name)?;
            if self.known.len() >= NEARBY {
                self.known.clear();
            }
            self.known.insert_unique(hash, Known { hash, name: name.into(), entry }, |known| known.hash);
        }
        self.known.find(hash, is_it).map(|known| &known.entry)
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
