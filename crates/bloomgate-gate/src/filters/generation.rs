//! One filter of a gate, from its making to the day the next one takes its place.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bloomgate::{Blocked, Contract, Digest, Shared};

use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
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

/// How long what was counted of a filter's bits is told again.
const COUNTED: Duration = Duration::from_secs(5);

/// What the bits of a filter say of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// The share of them that are set.
    pub density: f64,
    /// The rate that they give.
    pub rate: f64,
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
    /// A write was lost to it: it must never be trusted.
    tainted: AtomicBool,
    /// What its bits said, and when.
    counted: Mutex<Option<(Instant, Counted)>>,
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

    /// A filter as it was saved.
    pub fn saved(version: u64, filter: Blocked<Shared>, scanned: u64, removed: u64) -> Self {
        let (capacity, rate) = (filter.capacity(), filter.promised_rate());
        let saved = Self::of(version, Bits::Local(filter), capacity, rate);
        saved.scanned.store(scanned, Relaxed);
        saved.removed.store(removed, Relaxed);
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
            tainted: AtomicBool::new(false),
            counted: Mutex::default(),
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

    /// Puts keys in; `digests` are theirs.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub async fn add(&self, keys: &[Key], digests: &[Digest]) -> Result<()> {
        match &self.bits {
            Bits::Local(filter) => filter.insert_digests(digests).map(drop)?,
            #[cfg(feature = "redis")]
            Bits::Remote(remote) => remote.add(&canonical(keys)).await?,
        }
        self.added.fetch_add(digests.len() as u64, Relaxed);
        Ok(())
    }

    /// Which keys it may have; an error if it cannot be asked.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub async fn ask(&self, keys: &[Key], digests: &[Digest]) -> Result<Vec<bool>> {
        match &self.bits {
            Bits::Local(filter) => {
                let mut answers = vec![true; digests.len()];
                filter.contains_digests(digests, &mut answers)?;
                Ok(answers)
            }
            #[cfg(feature = "redis")]
            Bits::Remote(remote) => remote.ask(&canonical(keys)).await,
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

    /// What its bits say, counted at most every few seconds; nothing if they are not in this process.
    pub fn counted_bits(&self) -> Option<Counted> {
        let filter = self.local_bits()?;
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        match *counted {
            Some((when, said)) if when.elapsed() < COUNTED => Some(said),
            _ => {
                let said = Counted { density: filter.fill_ratio(), rate: filter.estimated_rate() };
                *counted = Some((Instant::now(), said));
                Some(said)
            }
        }
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
        match &self.bits {
            Bits::Local(filter) => {
                let digests: Vec<_> = batch.iter().map(|canonical| contract.digest_bytes(canonical)).collect();
                filter.insert_digests(&digests)?;
            }
            #[cfg(feature = "redis")]
            Bits::Remote(remote) => remote.add(&batch.iter().collect::<Vec<_>>()).await?,
        }
        self.scanned.fetch_add(batch.len() as u64, Relaxed);
        Ok(())
    }

    /// Puts keys of a scan in by their digests, and counts them. Only where the bits are in this process.
    pub fn fill_digests(&self, digests: &[Digest]) -> Result<()> {
        let Some(filter) = self.local_bits() else {
            return Err(Error::new(ErrorKind::Filter, "a filter behind a network takes keys, not digests"));
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

#[cfg(feature = "redis")]
fn canonical(keys: &[Key]) -> Vec<&[u8]> {
    keys.iter().map(Key::canonical).collect()
}
