//! One filter of a gate, from its making to the day the next one takes its place.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use bloomgate::{Blocked, Contract, Digest, Shared};

use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::sources::KeyBatch;

/// Where the bits are.
#[derive(Debug)]
pub(crate) enum Bits {
    /// In this process.
    Local(Blocked<Shared>),
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
    /// Rows that were deleted since; their bits stay.
    removed: AtomicU64,
    /// A write was lost to it: it must never be trusted.
    tainted: AtomicBool,
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
            removed: AtomicU64::new(0),
            tainted: AtomicBool::new(false),
        }
    }

    /// Rises by one with each rebuild.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Where the bits are.
    pub fn bits(&self) -> &Bits {
        &self.bits
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

    /// A write was lost to it.
    pub fn taint(&self) {
        self.tainted.store(true, SeqCst);
    }

    /// Whether a write was lost to it.
    pub fn is_tainted(&self) -> bool {
        self.tainted.load(SeqCst)
    }

    /// Puts keys in; `digests` are theirs.
    pub async fn add(&self, _keys: &[Key], digests: &[Digest]) -> Result<()> {
        match &self.bits {
            Bits::Local(filter) => filter.insert_digests(digests).map(drop).map_err(Error::from),
        }
    }

    /// Puts a batch of a scan in, and counts it.
    pub async fn fill(&self, contract: &Contract, batch: &KeyBatch) -> Result<()> {
        match &self.bits {
            Bits::Local(filter) => {
                let digests: Vec<_> = batch.iter().map(|canonical| contract.digest_bytes(canonical)).collect();
                filter.insert_digests(&digests)?;
            }
        }
        self.scanned.fetch_add(batch.len() as u64, Relaxed);
        Ok(())
    }

    /// Different keys in it, as far as it can tell.
    pub fn items(&self) -> u64 {
        match &self.bits {
            Bits::Local(filter) => filter.len(),
        }
    }

    /// The rate to expect of so many keys.
    pub fn expected_rate(&self) -> f64 {
        match &self.bits {
            Bits::Local(filter) => filter.expected_rate(),
        }
    }
}
