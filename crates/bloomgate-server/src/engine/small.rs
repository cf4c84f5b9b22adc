//! A small filter: its words lie with its name and its count, and what it has in common with others lies with them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bloomgate::bloom::Sprout;
use bloomgate::{AnyFilter, Digest, Error, Guarantee, Kind};

use super::facts::Facts;

/// A chain that has not grown yet, in place.
#[derive(Debug, Clone, Copy)]
pub struct Small<'a> {
    /// Contract, promise and shape.
    pub sprout: &'a Sprout,
    pub(crate) words: &'a [AtomicU64],
    pub(crate) len: &'a AtomicU32,
}

impl Small<'_> {
    /// Whether each item may be in it.
    pub fn contains_batch(&self, items: &[&[u8]], answers: &mut [bool]) -> Result<(), Error> {
        self.sprout.contains_batch(self.words, items, answers)
    }

    /// The same for digests.
    pub fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<(), Error> {
        self.sprout.contains_digests(self.words, digests, answers)
    }

    /// Inserts digests and counts each, as [`AnyFilter::replay`] does. The caller holds the lock over its growth, or is
    /// alone: what comes while it grows up would be lost.
    pub fn replay(&self, digests: &[Digest]) -> Result<(), Error> {
        self.sprout.insert_all(self.words, digests)?;
        self.count(digests.len());
        Ok(())
    }

    /// The same for the [bits](Sprout::bits_of) of so many digests.
    pub fn fill(&self, bits: &[u64], count: usize) -> Result<(), Error> {
        self.sprout.set_bits(self.words, bits)?;
        self.count(count);
        Ok(())
    }

    fn count(&self, more: usize) {
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        // A filter of 4 KB that counts to four billion is all ones; it goes on counting there.
        let _ = self.len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| Some(len.saturating_add(more)));
    }

    /// How many more new keys fit.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.sprout.remaining(self.len())
    }

    /// The filter as it is now, as one of its own: what is saved, described and merged, and what it grows up to.
    pub fn copy(&self) -> Result<AnyFilter, Error> {
        self.sprout.chain(self.words, self.len()).map(AnyFilter::from)
    }

    fn ask<T>(&self, ask: impl FnOnce(&AnyFilter) -> T) -> Option<T> {
        self.copy().ok().map(|filter| ask(&filter))
    }
}

impl Facts for Small<'_> {
    fn kind(&self) -> Kind {
        Kind::Scalable
    }
    fn len(&self) -> u64 {
        u64::from(self.len.load(Ordering::Relaxed))
    }
    fn capacity(&self) -> u64 {
        self.sprout.capacity()
    }
    fn size_in_bytes(&self) -> u64 {
        self.sprout.size_in_bytes()
    }
    fn stages(&self) -> usize {
        1
    }
    fn promised_rate(&self) -> f64 {
        self.sprout.promised_rate()
    }
    fn expected_rate(&self) -> f64 {
        // Where there is no memory for a copy of some lines, the promise is what can be said.
        self.ask(AnyFilter::expected_rate).unwrap_or_else(|| self.promised_rate())
    }
    fn estimated_rate(&self) -> Option<f64> {
        self.ask(|filter| filter.estimated_rate().ok()).flatten()
    }
    fn fill_ratio(&self) -> f64 {
        let ones: u64 = self.words.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum();
        ones as f64 / (self.words.len() as f64 * 64.0)
    }
    fn approximate_count(&self) -> (u64, u64, u64) {
        self.ask(Facts::approximate_count).unwrap_or((self.len(), self.len(), u64::MAX))
    }
    fn guarantee(&self) -> Guarantee {
        Kind::Scalable.guarantee()
    }
    fn contract_text(&self) -> String {
        self.sprout.contract().to_string()
    }
    fn count_of(&self, _: Digest) -> Option<u64> {
        None
    }
    fn max_copies(&self) -> Option<u64> {
        None
    }
}
