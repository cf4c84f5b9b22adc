//! Filters that come in chunks: nobody sees them before every byte is there.
//!
//! Chunks come in any order, and twice if they are the same twice. Memory is charged when the header comes, for all that
//! it announces, to the namespace of the name and to the budget, and taken as the bytes come. What brings nothing new does
//! not keep a load alive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bloomgate::foreign::{RedisBloomShape, RedisCuckooShape};
use bloomgate_command::Refusal;

use super::Engine;
use super::dump_form::Header;
use super::dumps::{IDLE_MS, STALE_MS};
use super::entry::Family;
use super::holders::{Holder, MOST, MOST_OF_ONE};
use super::namespaces::Beside;

/// Stretches of bytes that may be apart from each other: somebody who sends every other byte is stopped here.
const MOST_SPANS: usize = 4_096;

/// What the header announced.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant)] // 512 at most.
pub enum Announced {
    /// A dump of ours.
    Ours(Header),
    /// A dump of RedisBloom's Bloom filter.
    RedisBloom(RedisBloomShape),
    /// A dump of its cuckoo filter.
    RedisCuckoo(RedisCuckooShape),
}

impl Announced {
    /// Bytes that follow the header.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Ours(header) => header.length,
            Self::RedisBloom(shape) => shape.words().saturating_mul(8),
            Self::RedisCuckoo(shape) => shape.slots(),
        }
    }

    /// Which commands the filter will answer to.
    #[must_use]
    pub fn family(&self) -> Family {
        match self {
            Self::Ours(header) => header.family,
            Self::RedisBloom(_) => Family::Bloom,
            Self::RedisCuckoo(_) => Family::Cuckoo,
        }
    }
}

/// Which bytes are there: stretches that do not touch, by their beginning.
#[derive(Debug, Default)]
struct Spans(BTreeMap<u64, u64>);

impl Spans {
    /// Those that overlap a stretch or touch it.
    fn near(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        // Stretches do not overlap each other: of those that begin before, only the last can reach here.
        let before = self.0.range(..start).next_back();
        before.into_iter().chain(self.0.range(start..=end)).map(|(&a, &b)| (a, b)).filter(move |&(_, b)| b >= start)
    }

    /// Whether a stretch is there already.
    fn has(&self, start: u64, end: u64) -> bool {
        self.near(start, end).any(|(a, b)| a <= start && end <= b)
    }

    /// Adds a stretch; false if there would be too many.
    fn add(&mut self, start: u64, end: u64) -> bool {
        let near: Vec<(u64, u64)> = self.near(start, end).collect();
        if near.is_empty() && self.0.len() >= MOST_SPANS {
            return false;
        }
        let all = near.iter().fold((start, end), |(first, last), &(a, b)| (first.min(a), last.max(b)));
        for (start, _) in &near {
            self.0.remove(start);
        }
        self.0.insert(all.0, all.1);
        true
    }

    fn covers(&self, length: u64) -> bool {
        self.0.first_key_value() == Some((&0, &length))
    }
}

#[derive(Debug, Default)]
struct Arrived {
    bytes: Vec<u8>,
    spans: Spans,
    /// What was charged for it; gone when it is whole and taken, or was dropped.
    charge: Option<Beside>,
}

/// A filter that comes in chunks.
#[derive(Debug)]
pub struct Load {
    name: Box<[u8]>,
    holder: Holder,
    /// What the header announced.
    pub announced: Announced,
    used_ms: AtomicU64,
    arrived: Mutex<Arrived>,
}

/// What bytes came to.
#[derive(Debug)]
pub enum Came {
    /// More are to come.
    More,
    /// All are there: these, with what was charged for them.
    Whole(Vec<u8>, Beside),
    /// There are others at that place already, and they are not the same.
    Differ,
    /// Too many stretches apart from each other.
    Scattered,
    /// The load has ended meanwhile.
    Over,
}

impl Load {
    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes bytes at an offset; both were checked against the length.
    pub fn put(&self, offset: u64, data: &[u8], now_ms: u64) -> Came {
        let mut arrived = self.arrived();
        if arrived.charge.is_none() {
            return Came::Over;
        }
        let length = self.announced.length();
        let end = offset + data.len() as u64;
        let Arrived { bytes, spans, charge } = &mut *arrived;
        for (a, b) in spans.near(offset, end) {
            let (a, b) = (a.max(offset), b.min(end));
            let here = bytes.get(a as usize..b as usize);
            let there = data.get((a - offset) as usize..(b - offset) as usize);
            if here != there {
                return Came::Differ;
            }
        }
        if spans.has(offset, end) {
            return Came::More;
        }
        if !spans.add(offset, end) {
            return Came::Scattered;
        }
        self.used_ms.store(now_ms, Ordering::Relaxed);
        if (bytes.len() as u64) < end {
            // Within the room that was reserved at the start.
            bytes.resize(end as usize, 0);
        }
        bytes[offset as usize..end as usize].copy_from_slice(data);
        if !spans.covers(length) {
            return Came::More;
        }
        match charge.take() {
            Some(charge) => Came::Whole(std::mem::take(bytes), charge),
            None => Came::Over,
        }
    }

    fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }

    /// Ends it and drops its bytes; what was charged for it, unless it has ended before.
    fn end(&self) -> Option<Beside> {
        std::mem::take(&mut *self.arrived()).charge
    }
}

/// All loads that are under way.
#[derive(Debug, Default)]
pub struct Loads(Mutex<Vec<Arc<Load>>>);

impl Loads {
    fn table(&self) -> MutexGuard<'_, Vec<Arc<Load>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The load of a name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<Arc<Load>> {
        self.table().iter().find(|load| *load.name == *name).cloned()
    }

    /// Begins a load, of which `of_space` bytes will be the filter's. The same header again goes on with what came before;
    /// another one begins anew.
    pub fn begin(
        &self,
        engine: &Engine,
        holder: Holder,
        name: &[u8],
        announced: Announced,
        of_space: u64,
    ) -> Result<(), Refusal> {
        let now_ms = engine.clock.now_ms();
        let mut table = self.table();
        drop_where(&mut table, engine, |load| now_ms.saturating_sub(load.used_ms()) >= IDLE_MS);
        if table.iter().any(|load| *load.name == *name && load.announced == announced) {
            return Ok(());
        }
        drop_where(&mut table, engine, |load| *load.name == *name);
        let own = table.iter().filter(|load| load.holder == holder).count() >= MOST_OF_ONE;
        if own || table.len() >= MOST {
            let counted = |load: &&Arc<Load>| !own || load.holder == holder;
            let oldest = table.iter().filter(counted).min_by_key(|load| load.used_ms()).cloned();
            match oldest.filter(|oldest| now_ms.saturating_sub(oldest.used_ms()) >= STALE_MS) {
                Some(oldest) => drop_where(&mut table, engine, |load| std::ptr::eq(load, &*oldest)),
                None => {
                    return Err(Refusal::err(format_args!(
                        "{} filters are being loaded, the most that may be at once: try again when one is whole",
                        if own { MOST_OF_ONE } else { MOST }
                    )));
                }
            }
        }
        let length = announced.length();
        let refused = |bytes| Refusal::err(format_args!("the system has no {bytes} bytes of memory: ask for less"));
        let room = usize::try_from(length).map_err(|_| refused(length))?;
        let charge = engine.claim_beside(name, of_space, length);
        let charge = charge.map_err(|refused| Refusal::new(refused.to_string()))?;
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(room).is_err() {
            engine.give_up_beside(charge);
            return Err(refused(length));
        }
        let arrived = Mutex::new(Arrived { bytes, charge: Some(charge), ..Arrived::default() });
        let load = Load { name: name.into(), holder, announced, used_ms: AtomicU64::new(now_ms), arrived };
        table.push(Arc::new(load));
        Ok(())
    }

    /// Takes a load that is whole out of the table.
    pub fn take_out(&self, load: &Arc<Load>) {
        self.table().retain(|other| !Arc::ptr_eq(other, load));
    }

    /// Lets go of loads that nobody goes on with.
    pub fn drop_abandoned(&self, engine: &Engine) {
        let now_ms = engine.clock.now_ms();
        if let Ok(mut table) = self.0.try_lock() {
            drop_where(&mut table, engine, |load| now_ms.saturating_sub(load.used_ms()) >= IDLE_MS);
        }
    }

    /// How many are under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table().len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn drop_where(table: &mut Vec<Arc<Load>>, engine: &Engine, goes: impl Fn(&Load) -> bool) {
    table.retain(|load| {
        let goes = goes(load);
        // One that just became whole is released by whoever has its bytes.
        if goes && let Some(charge) = load.end() {
            engine.give_up_beside(charge);
        }
        !goes
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against one flag per byte, over random stretches.
    #[test]
    fn spans_are_what_was_put_in() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..300 {
            let (mut spans, mut flags) = (Spans::default(), [false; 64]);
            while !spans.covers(64) {
                let start = random(64);
                let end = start + 1 + random(64 - start).min(12);
                assert!(spans.add(start, end));
                flags[start as usize..end as usize].fill(true);
                let mut from_spans = [false; 64];
                spans.0.iter().for_each(|(&a, &b)| from_spans[a as usize..b as usize].fill(true));
                assert_eq!(from_spans, flags);
                let starts = flags.iter().zip([false].iter().chain(&flags)).filter(|(now, before)| **now && !**before);
                assert_eq!(spans.0.len(), starts.count(), "stretches that touch are one");
            }
            assert!(flags.iter().all(|&flag| flag));
        }
    }

    #[test]
    fn stretches_apart_have_an_end() {
        let mut spans = Spans::default();
        assert!((0..MOST_SPANS as u64).all(|at| spans.add(at * 2, at * 2 + 1)));
        assert!(!spans.add(1 << 30, (1 << 30) + 1));
        assert!(spans.add(1, 2), "what closes a gap is taken");
    }
}
