//! One slice of bits per hash: every key sets exactly one bit in each slice.
//!
//! **When.** A key must set the same number of different bits as every other (counting, hardware, proofs), slices
//! are to live in different places, or the rate is to be an exact product. **When not.** Otherwise: at the same size
//! the rate is a little above [`super::Classic`]'s, and every key touches k lines, as there.
//!
//! With n keys in k slices of s bits the rate is exactly (1 - (1 - 1/s)^n)^k.
//!
//! # Memory
//!
//! ```text
//!  slice 0            slice 1            …   slice k-1
//!  ....x............  .........x.......      ..x..............       one key
//! ```

use super::classic::{check_shape, contains_all, insert_all, insert_each};
use super::layout::{self, AnyLayout, Layout};
use crate::arch::probes::{self, Slices};
use crate::arch::words::{ReadWords, WriteWords};
use crate::error::Result;
use crate::hash::Digest;
use crate::hash::digests::Digests;
use crate::kind::Kind;
use crate::math;
use crate::math::estimate::Estimate;
use crate::promise::Insertion;

/// The layout of [`super::Partitioned`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionedLayout(Slices);

impl PartitionedLayout {
    /// A layout of k slices of s bits, or why that is none.
    pub(crate) fn new(slice_bits: u64, hashes: u32) -> Result<Self> {
        check_shape(slice_bits, hashes)?;
        check_shape(slice_bits.saturating_mul(u64::from(hashes)), hashes)?;
        Ok(Self(Slices { slice_bits, hashes }))
    }

    /// Bits in one slice.
    #[must_use]
    pub fn slice_bits(&self) -> u64 {
        self.0.slice_bits
    }

    /// The set bits of one slice, whose ends may lie inside words.
    fn set_in_slice<W: ReadWords>(&self, words: W, slice: u32) -> u64 {
        let (from, to) = (u64::from(slice) * self.0.slice_bits, u64::from(slice + 1) * self.0.slice_bits);
        (from / 64..to.div_ceil(64))
            .map(|at| {
                let mut word = words.load(at as usize);
                if at * 64 < from {
                    word &= u64::MAX << (from - at * 64);
                }
                if at * 64 + 64 > to {
                    word &= u64::MAX >> (at * 64 + 64 - to);
                }
                u64::from(word.count_ones())
            })
            .sum()
    }
}

impl Layout for PartitionedLayout {}

#[allow(private_interfaces, private_bounds)]
impl layout::sealed::Layout for PartitionedLayout {
    const KIND: Kind = Kind::Partitioned;

    fn any(self) -> AnyLayout {
        AnyLayout::Partitioned(self)
    }

    fn from_any(any: AnyLayout) -> Option<Self> {
        match any {
            AnyLayout::Partitioned(layout) => Some(layout),
            _ => None,
        }
    }

    fn for_items(items: u64, rate: f64) -> Self {
        let (slice_bits, hashes) = math::partitioned::size_for(items, rate);
        Self(Slices { slice_bits, hashes })
    }

    fn for_bits(bits: u64, items: u64) -> Result<Self> {
        let rate_with = |k: u32| math::partitioned::rate((bits / u64::from(k)).max(1), k, items);
        let limit = u32::try_from(bits).unwrap_or(u32::MAX).clamp(1, super::classic::MAX_HASHES);
        let hashes = (1..=limit).min_by(|&a, &b| rate_with(a).total_cmp(&rate_with(b))).unwrap_or(1);
        Self::new(bits / u64::from(hashes), hashes)
    }

    fn for_bits_at_rate(bits: u64, rate: f64) -> Result<Self> {
        let limit = u32::try_from(bits).unwrap_or(u32::MAX).clamp(1, super::classic::MAX_HASHES);
        let hashes =
            (1..=limit).max_by_key(|&k| math::partitioned::capacity_for(bits / u64::from(k), k, rate)).unwrap_or(1);
        Self::new(bits / u64::from(hashes), hashes)
    }

    fn explicit(bits: u64, hashes: u32) -> Result<Self> {
        check_shape(bits, hashes)?;
        Self::new(bits / u64::from(hashes), hashes)
    }

    fn bits(&self) -> u64 {
        self.0.slice_bits * u64::from(self.0.hashes)
    }

    fn hashes(&self) -> u32 {
        self.0.hashes
    }

    fn words(&self) -> u64 {
        self.bits().div_ceil(64)
    }

    fn capacity_at(&self, rate: f64) -> u64 {
        math::partitioned::capacity_for(self.0.slice_bits, self.0.hashes, rate)
    }

    fn expected_rate(&self, items: u64) -> f64 {
        math::partitioned::rate(self.0.slice_bits, self.0.hashes, items)
    }

    fn estimated_rate<W: ReadWords>(&self, words: W) -> f64 {
        let slice_bits = self.0.slice_bits as f64;
        (0..self.0.hashes).map(|slice| self.set_in_slice(words, slice) as f64 / slice_bits).product()
    }

    fn estimate_count(&self, set_bits: u64) -> Estimate {
        math::estimate::partitioned(set_bits, self.0.slice_bits, self.0.hashes, math::estimate::Z)
    }

    fn count_error(&self, items: f64) -> f64 {
        math::estimate::partitioned_error(self.0.slice_bits, self.0.hashes, items)
    }

    const SPREAD: &'static str = "bits a slice";

    fn spread(&self) -> u64 {
        self.0.slice_bits
    }

    fn with_spread(&self, spread: u64) -> Result<Self> {
        Self::new(spread, self.0.hashes)
    }

    fn fold<W: ReadWords>(&self, words: W, factor: u64, to: &mut [u64]) {
        // A slice is a whole number of folded bits, so that slices need not be told apart.
        super::fold::fold_bits(words, to, |bit| bit / factor);
    }

    #[inline]
    fn contains<W: ReadWords>(&self, words: W, digest: Digest) -> bool {
        probes::contains(self.0, words, digest)
    }

    #[inline]
    fn insert<W: WriteWords>(&self, words: &mut W, digest: Digest) -> bool {
        probes::insert(self.0, words, digest)
    }

    #[inline(always)]
    fn contains_all<W: ReadWords, D: Digests>(&self, words: W, digests: D, answers: &mut [bool]) -> Result<()> {
        contains_all(self.0, words, digests, answers)
    }

    #[inline(always)]
    fn insert_all<W: WriteWords, D: Digests>(&self, words: &mut W, digests: D, fresh: &mut u64) -> Result<()> {
        insert_all(self.0, words, digests, fresh)
    }

    #[inline(always)]
    fn insert_each<W: WriteWords>(&self, words: &mut W, digests: &[Digest], outcomes: &mut [Insertion]) -> u64 {
        insert_each(self.0, words, digests, outcomes)
    }

    fn each_word(&self, digest: Digest, mut visit: impl FnMut(usize)) {
        probes::each_bit(self.0, digest, |bit| visit((bit >> 6) as usize));
    }

    fn each_bit(&self, digest: Digest, visit: impl FnMut(u64)) {
        probes::each_bit(self.0, digest, visit);
    }
}
