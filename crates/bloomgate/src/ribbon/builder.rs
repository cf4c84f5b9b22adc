//! [`RibbonBuilder`]: from keys to a ribbon filter.

use super::solve::{in_order, no_memory, solve};
use super::{Ribbon, RibbonShape};
use crate::arch::ribbon::Row;
use crate::arch::{CHUNK, Job, dispatch};
use crate::bits::Owned;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, WordDigests};
use crate::hash::{Contract, Digest, Secret};
use crate::key::Key;
use crate::math::ribbon::{MAX_RESULT_BITS, build_bytes, rate, result_bits};
use crate::promise::{DEFAULT_RATE, MAX_ITEMS, Promise, WhenFull, Wish};

/// What a ribbon filter is asked for. Ends in one of the three builds, which take all keys at once.
#[derive(Debug, Clone)]
pub struct RibbonBuilder {
    wish: Wish,
    build_memory: u64,
}

impl RibbonBuilder {
    pub(super) fn new() -> Self {
        Self { wish: Wish::new(WhenFull::Refuse), build_memory: u64::MAX }
    }

    /// The false-positive rate to keep; 0.01 if not said. The rate is a power of two: the next one at or below it.
    #[doc(alias = "false_pos")]
    #[doc(alias = "fpp")]
    #[doc(alias = "error_rate")]
    #[must_use]
    pub fn rate(mut self, rate: f64) -> Self {
        self.wish.rate = Some(rate);
        self
    }

    /// The type of the keys; bytes and text if not said.
    #[must_use]
    pub fn keys<K: Key + ?Sized>(mut self) -> Self {
        self.wish.contract = self.wish.contract.with_encoding(K::ENCODING);
        self
    }

    /// How keys become digests: encoding, hash, seed or secret. Replaces the type of the keys too: call it before
    /// `keys`.
    #[must_use]
    pub fn contract(mut self, contract: Contract) -> Self {
        self.wish.contract = contract;
        self
    }

    /// Hash with SipHash-1-3 under this secret: for keys that strangers choose. Keeps the type of the keys.
    #[must_use]
    pub fn secret(mut self, secret: &Secret) -> Self {
        let encoding = self.wish.contract.encoding();
        self.wish.contract = Contract::keyed(secret).with_encoding(encoding);
        self
    }

    /// The most bytes that building may take: about 19 a key, or 48 when their number is not known before (the filter
    /// itself takes about one). Asking for more is refused with [`ErrorKind::LimitExceeded`] before it is allocated. No limit if not said.
    #[must_use]
    pub fn build_memory(mut self, bytes: u64) -> Self {
        self.build_memory = bytes;
        self
    }

    /// Builds the filter of all keys of an iterator. Keys that come again count once, and the order does not matter: the
    /// same set is the same filter, bit for bit.
    #[doc(alias = "collect")]
    pub fn build_from<K: Key>(self, keys: impl IntoIterator<Item = K>) -> Result<Ribbon> {
        let mut keys = keys.into_iter();
        let (at_least, at_most) = keys.size_hint();
        let number_known = at_most == Some(at_least);
        let mut rows = self.rows(number_known)?;
        rows.make_room(if number_known { at_least } else { 0 })?;
        let mut chunk = Vec::with_capacity(CHUNK * 8);
        loop {
            chunk.clear();
            chunk.extend(keys.by_ref().take(CHUNK * 8));
            if chunk.is_empty() {
                return self.solved(rows);
            }
            rows.take_keys(&self.wish.contract, &chunk)?;
        }
    }

    /// [`build_from`](Self::build_from) for keys in memory: hashed side by side, and the memory is known at once.
    pub fn build_from_slice<K: Key>(self, keys: &[K]) -> Result<Ribbon> {
        let mut rows = self.rows(true)?;
        rows.take_keys(&self.wish.contract, keys)?;
        self.solved(rows)
    }

    /// [`build_from`](Self::build_from) for digests made elsewhere under the same contract.
    pub fn build_from_digests(self, digests: &[Digest]) -> Result<Ribbon> {
        let mut rows = self.rows(true)?;
        rows.take(digests, digests.len())?;
        self.solved(rows)
    }

    /// No keys yet; but what was asked for is checked before the first.
    fn rows(&self, number_known: bool) -> Result<Rows> {
        Ok(Rows { rows: Vec::new(), bits: self.bits()?, number_known, build_memory: self.build_memory })
    }

    fn rate_asked(&self) -> Result<f64> {
        Ok(self.wish.checked_rate()?.unwrap_or(DEFAULT_RATE))
    }

    /// The result bits that keep the rate.
    fn bits(&self) -> Result<u32> {
        self.wish.contract.encoding().validate()?;
        let asked = self.rate_asked()?;
        result_bits(asked).ok_or_else(|| {
            let least = rate(MAX_RESULT_BITS);
            Error::new(
                ErrorKind::InvalidParameter,
                format!("the least rate of a ribbon filter is {least:e}, not {asked:e}; use an exact set instead"),
            )
        })
    }

    fn solved(self, rows: Rows) -> Result<Ribbon> {
        let Rows { rows, bits, .. } = rows;
        let mut rows = in_order(rows);
        rows.dedup();
        let len = rows.len() as u64;
        let (layers, seed) = solve(rows, bits)?;
        let columns: Vec<u64> = layers.iter().map(|layer| layer.columns).collect();
        let shape = RibbonShape::new(bits, seed, &columns)?;
        let mut store = Owned::zeroed(shape.words())?;
        let mut words = store.as_mut_slice();
        let thresholds = layers.iter().map(|layer| &layer.thresholds);
        for part in thresholds.chain(layers.iter().map(|layer| &layer.planes)) {
            let (now, rest) = words.split_at_mut(part.len());
            now.copy_from_slice(part);
            words = rest;
        }
        let promise = Promise { capacity: len, rate: self.rate_asked()?, when_full: WhenFull::Refuse };
        Ribbon::from_parts(shape, self.wish.contract, promise, len, store)
    }
}

/// The keys so far.
struct Rows {
    rows: Vec<Row>,
    bits: u32,
    number_known: bool,
    build_memory: u64,
}

impl Rows {
    /// Room for so many more, if it may be had.
    fn make_room(&mut self, more: usize) -> Result<()> {
        let keys = (self.rows.len() as u64).saturating_add(more as u64);
        let bytes = build_bytes(keys, self.bits, self.number_known);
        if keys > MAX_ITEMS || bytes > self.build_memory {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "building a ribbon filter of {keys} keys takes {bytes} bytes; 2^40 keys and {} bytes are allowed: \
                     raise `build_memory`, or split the keys over several",
                    self.build_memory
                ),
            ));
        }
        let reserved =
            if self.rows.is_empty() { self.rows.try_reserve_exact(more) } else { self.rows.try_reserve(more) };
        reserved.map_err(|_| no_memory(keys))
    }

    fn take_keys<K: Key>(&mut self, contract: &Contract, keys: &[K]) -> Result<()> {
        match WordDigests::of(contract, keys) {
            Some(words) => self.take(words, keys.len()),
            None => self.take(KeyDigests { contract, keys }, keys.len()),
        }
    }

    fn take(&mut self, digests: impl Digests, count: usize) -> Result<()> {
        self.make_room(count)?;
        dispatch(Gather { digests, rows: &mut self.rows })
    }
}

/// Digests becoming rows, compiled for this processor.
struct Gather<'a, D> {
    digests: D,
    rows: &'a mut Vec<Row>,
}

impl<D: Digests> Job for Gather<'_, D> {
    type Output = Result<()>;
    #[inline(always)]
    fn run(mut self) -> Result<()> {
        let mut digests = [Digest::default(); CHUNK];
        let mut rows = [Row { spot: 0, coefficients: 0 }; CHUNK];
        loop {
            let count = self.digests.next(&mut digests)?.min(CHUNK);
            if count == 0 {
                return Ok(());
            }
            for (row, &digest) in rows.iter_mut().zip(&digests) {
                *row = Row::of(digest);
            }
            self.rows.extend_from_slice(&rows[..count]);
        }
    }
}
