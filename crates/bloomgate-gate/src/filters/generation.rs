//! One filter of a gate, from its making to the day the next one takes its place.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bloomgate::{Blocked, Contract, Digest, Shared};

use crate::error::{Error, ErrorKind, Result};
use crate::sources::KeyBatch;

/// Where the bits are.
enum Bits {
    /// In this process.
    Local(Blocked<Shared>),
    /// Behind the Redis protocol.
    #[cfg(feature = "redis")]
    Remote(super::resp::Remote),
}

impl std::fmt::Debug for Bits {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(_) => to.write_str("Local"),
            #[cfg(feature = "redis")]
            Self::Remote(_) => to.write_str("Remote"),
        }
    }
}

/// What was counted of a filter's bits is told again for so long, and for so many times as long as it took: bits of 100 MB take
/// 10 ms, and are counted every 10 s at most, however fast keys come.
const COUNTED: Duration = Duration::from_secs(1);
const SELDOM: u32 = 1000;
/// Bits of so many bytes are counted on the spot (0.1 ms), those of a larger filter on a thread for such work.
const FEW_BYTES: u64 = 1 << 20;

/// What the bits of a filter say of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// The share of them that are set.
    pub density: f64,
    /// The rate that they give.
    pub rate: f64,
}

/// A count of the bits.
#[derive(Clone, Copy, Debug)]
struct Tally {
    said: Counted,
    ended: Instant,
    took: Duration,
    /// How many keys had been put in before it: with none since, it is true for ever.
    keys: u64,
}

/// One filter of a gate.
#[derive(Debug)]
pub(crate) struct Generation {
    version: u64,
    bits: Bits,
    capacity: u64,
    rate: f64,
    /// Keys of the scan it was built from.
    scanned: AtomicU64,
    /// Keys that were put in since.
    added: AtomicU64,
    /// Rows that were deleted since; their bits stay.
    removed: AtomicU64,
    /// The moment before the scan it was built from, in milliseconds since 1970; 0 until it is in force.
    built_ms: AtomicU64,
    /// A write was lost to it: it must never be trusted.
    tainted: AtomicBool,
    /// What its bits said the last time.
    counted: Mutex<Option<Tally>>,
    /// Held by the one who counts.
    counting: Mutex<()>,
    /// Lookups that had been stopped and passed, in that order, when it came into force.
    before: OnceLock<(u64, u64)>,
}

impl Generation {
    /// A filter for so many keys in this process, if it fits into `most` bytes.
    pub fn local(version: u64, contract: &Contract, capacity: u64, rate: f64, most: u64) -> Result<Self> {
        let builder = Blocked::builder().items(capacity).rate(rate).contract(contract.clone());
        let bytes = builder.bytes_needed()?;
        if bytes > most {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "a filter for {capacity} keys at {rate} takes {bytes} bytes, {most} are allowed: allow more memory, \
                     or ask for a higher rate"
                ),
            ));
        }
        let filter = builder.build_shared()?;
        Ok(Self::of(version, Bits::Local(filter), capacity, rate))
    }

    /// A filter behind the Redis protocol.
    #[cfg(feature = "redis")]
    pub fn remote(version: u64, remote: super::resp::Remote, capacity: u64, rate: f64) -> Self {
        Self::of(version, Bits::Remote(remote), capacity, rate)
    }

    /// A filter as it was saved; `built_ms` as [`built_ms`](Self::built_ms) told it then.
    pub fn saved(version: u64, filter: Blocked<Shared>, scanned: u64, removed: u64, built_ms: Option<u64>) -> Self {
        let (capacity, rate) = (filter.capacity(), filter.promised_rate());
        let saved = Self::of(version, Bits::Local(filter), capacity, rate);
        saved.scanned.store(scanned, Relaxed);
        saved.removed.store(removed, Relaxed);
        saved.built(built_ms.unwrap_or(0));
        saved
    }

    fn of(version: u64, bits: Bits, capacity: u64, rate: f64) -> Self {
        Self {
            version,
            bits,
            capacity,
            rate,
            scanned: AtomicU64::new(0),
            added: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            built_ms: AtomicU64::new(0),
            tainted: AtomicBool::new(false),
            counted: Mutex::default(),
            counting: Mutex::default(),
            before: OnceLock::new(),
        }
    }

    /// Rises by one with each rebuild.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The bits, if they are in this process.
    #[inline]
    pub fn local_bits(&self) -> Option<&Blocked<Shared>> {
        match &self.bits {
            Bits::Local(filter) => Some(filter),
            #[cfg(feature = "redis")]
            Bits::Remote(_) => None,
        }
    }

    /// Keys it was sized for.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The rate it was asked for.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Keys of the scan it was built from.
    pub fn scanned(&self) -> u64 {
        self.scanned.load(Relaxed)
    }

    /// Rows deleted since it was built.
    pub fn removed(&self) -> u64 {
        self.removed.load(Relaxed)
    }

    /// As of when the scan was that it was built from, in milliseconds since 1970. Unlike a watermark it does not rise with
    /// what a feed tells: bits of rows that were deleted since are still in it.
    pub fn built_ms(&self) -> Option<u64> {
        Some(self.built_ms.load(Relaxed)).filter(|&built| built > 0)
    }

    /// It was built from a scan as of this moment.
    pub fn built(&self, as_of_ms: u64) {
        self.built_ms.store(as_of_ms, Relaxed);
    }

    /// Counts a deleted row.
    pub fn remove_one(&self) {
        self.removed.fetch_add(1, Relaxed);
    }

    /// Counts rows that others deleted.
    pub fn remove_many(&self, rows: u64) {
        self.removed.fetch_add(rows, Relaxed);
    }

    /// A write was lost to it.
    pub fn taint(&self) {
        self.tainted.store(true, SeqCst);
    }

    /// Whether a write was lost to it.
    pub fn is_tainted(&self) -> bool {
        self.tainted.load(SeqCst)
    }

    /// Puts keys in, by their digests.
    pub async fn add(&self, digests: &[Digest]) -> Result<()> {
        match &self.bits {
            Bits::Local(filter) => filter.insert_digests(digests).map(drop)?,
            #[cfg(feature = "redis")]
            Bits::Remote(remote) => remote.add(&items(&spelled(digests))).await?,
        }
        self.added.fetch_add(digests.len() as u64, Relaxed);
        Ok(())
    }

    /// Which keys it may have; an error if it cannot be asked.
    pub async fn ask(&self, digests: &[Digest]) -> Result<Vec<bool>> {
        match &self.bits {
            Bits::Local(filter) => {
                let mut answers = vec![true; digests.len()];
                filter.contains_digests(digests, &mut answers)?;
                Ok(answers)
            }
            #[cfg(feature = "redis")]
            Bits::Remote(remote) => remote.ask(&items(&spelled(digests))).await,
        }
    }

    /// Whether it is gone for good, or another one has its name.
    pub fn is_lost(&self) -> bool {
        match &self.bits {
            Bits::Local(_) => false,
            #[cfg(feature = "redis")]
            Bits::Remote(remote) => remote.is_lost(),
        }
    }

    /// Whether it answers, as far as is known: not while the breaker before the server that has it is open.
    pub fn answers(&self) -> bool {
        match &self.bits {
            Bits::Local(_) => true,
            #[cfg(feature = "redis")]
            Bits::Remote(remote) => remote.answers(),
        }
    }

    /// What its bits say, counted if keys came since and the last count is not too fresh; nothing if they are not in this
    /// process.
    pub fn counted_bits(&self) -> Option<Counted> {
        let filter = self.local_bits()?;
        let _alone = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        Some(self.fresh_count().unwrap_or_else(|| self.count(filter)))
    }

    /// What its bits said the last time that they were counted.
    pub fn last_counted(&self) -> Option<Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).map(|tally| tally.said)
    }

    /// [`counted_bits`](Self::counted_bits) for who must not wait: a large filter is counted on another thread, and what it
    /// said before is told meanwhile.
    pub fn counted_soon(self: &Arc<Self>) -> Option<Counted> {
        let filter = self.local_bits()?;
        if let Some(fresh) = self.fresh_count() {
            return Some(fresh);
        }
        if filter.size_in_bytes() <= FEW_BYTES {
            return self.counted_bits();
        }
        // One is enough, and outside of a runtime nobody counts.
        let is_counted_now = self.counting.try_lock().is_err();
        if let (false, Ok(runtime)) = (is_counted_now, tokio::runtime::Handle::try_current()) {
            let counted = self.clone();
            drop(runtime.spawn_blocking(move || counted.counted_bits()));
        }
        self.last_counted()
    }

    /// The last count, if it still counts.
    fn fresh_count(&self) -> Option<Counted> {
        let last = (*self.counted.lock().unwrap_or_else(PoisonError::into_inner))?;
        let is_fresh = last.keys == self.keys_put_in() || last.ended.elapsed() < COUNTED.max(last.took * SELDOM);
        is_fresh.then_some(last.said)
    }

    fn count(&self, filter: &Blocked<Shared>) -> Counted {
        // Before the bits are read: what comes meanwhile makes the count an old one.
        let (keys, begun) = (self.keys_put_in(), Instant::now());
        let said = Counted { density: filter.fill_ratio(), rate: filter.estimated_rate() };
        let tally = Tally { said, ended: Instant::now(), took: begun.elapsed(), keys };
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some(tally);
        said
    }

    /// Keys that were put in, new or not.
    fn keys_put_in(&self) -> u64 {
        self.scanned() + self.added.load(Relaxed)
    }

    /// It comes into force, and so many lookups of absent keys were stopped and passed before.
    pub fn begins_after(&self, stopped: u64, passed: u64) {
        _ = self.before.set((stopped, passed));
    }

    /// Whether it has what a scan of this run gave and nothing else: from the same keys another one would be no better.
    pub fn is_as_built(&self) -> bool {
        self.before.get().is_some() && self.added.load(Relaxed) == 0
    }

    /// How many were stopped and passed since, of so many in all; none for one that was never put in force here.
    pub fn since_it_began(&self, stopped: u64, passed: u64) -> Option<(u64, u64)> {
        let before = self.before.get()?;
        Some((stopped.saturating_sub(before.0), passed.saturating_sub(before.1)))
    }

    /// Last step before the swap, where the filter has a name that others see.
    pub async fn publish(&self) -> Result<()> {
        match &self.bits {
            Bits::Local(_) => Ok(()),
            #[cfg(feature = "redis")]
            Bits::Remote(remote) => remote.publish().await,
        }
    }

    /// Clears away a filter that failed.
    pub async fn discard(&self) {
        match &self.bits {
            Bits::Local(_) => {}
            #[cfg(feature = "redis")]
            Bits::Remote(remote) => remote.discard().await,
        }
    }

    /// Puts a batch of a scan in, and counts it.
    pub async fn fill(&self, contract: &Contract, batch: &KeyBatch) -> Result<()> {
        #[cfg(feature = "redis")]
        if let Bits::Remote(remote) = &self.bits {
            let digests: Vec<_> = batch.iter().map(|canonical| contract.digest_bytes(canonical)).collect();
            remote.add(&items(&spelled(&digests))).await?;
            self.scanned.fetch_add(batch.len() as u64, Relaxed);
            return Ok(());
        }
        self.fill_here(contract, batch)
    }

    /// [`fill`](Self::fill) where the bits are in this process.
    pub fn fill_here(&self, contract: &Contract, batch: &KeyBatch) -> Result<()> {
        let digests: Vec<_> = batch.iter().map(|canonical| contract.digest_bytes(canonical)).collect();
        self.fill_digests(&digests)
    }

    /// Puts keys of a scan in by their digests, and counts them. Only where the bits are in this process.
    pub fn fill_digests(&self, digests: &[Digest]) -> Result<()> {
        let Some(filter) = self.local_bits() else {
            return Err(Error::new(ErrorKind::Filter, "a filter behind a network is filled batch by batch, not here"));
        };
        filter.insert_digests(digests)?;
        self.scanned.fetch_add(digests.len() as u64, Relaxed);
        Ok(())
    }

    /// Different keys in it, as far as it can tell.
    pub fn items(&self) -> u64 {
        match &self.bits {
            Bits::Local(filter) => filter.len(),
            #[cfg(feature = "redis")]
            Bits::Remote(_) => self.scanned() + self.added.load(Relaxed),
        }
    }

    /// The rate to expect of so many keys.
    pub fn expected_rate(&self) -> f64 {
        match &self.bits {
            Bits::Local(filter) => filter.expected_rate(),
            // It grows in stages that keep the rate; what it measures is in the stats.
            #[cfg(feature = "redis")]
            Bits::Remote(_) => self.rate,
        }
    }
}

/// What a filter behind a network is told of keys: the 16 bytes of their digests under the gate's secret, as they are.
///
/// The server hashes what it is given once more, RedisBloom by a hash that everybody knows. Of the keys themselves anybody
/// could choose, at home, those that hit or fill such a filter; of digests that nobody can compute, nobody can. And no key
/// leaves the process. Two keys with one digest are two in 2^128: the filter's rate is what it was.
///
/// Raw, not in hexadecimal: the protocol has lengths, so that an item may be any bytes, for every server and client of it;
/// 32 letters would double what each lookup sends.
#[cfg(feature = "redis")]
fn spelled(digests: &[Digest]) -> Vec<[u8; 16]> {
    digests.iter().map(|digest| digest.to_bytes()).collect()
}

#[cfg(feature = "redis")]
fn items(spelled: &[[u8; 16]]) -> Vec<&[u8]> {
    spelled.iter().map(<[u8; 16]>::as_slice).collect()
}
