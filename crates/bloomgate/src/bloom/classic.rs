//! The textbook filter: k bits anywhere in one array of m bits.
//!
//! **When.** The fewest bits of all kinds that take keys one by one and lose none (9.59 per key at 1 %), exact theory, shapes given by
//! others ("m = 958,528, k = 7"). **When not.** Larger than the caches and in a hurry: every key touches k lines
//! where [`super::Blocked`] touches one, for 5 % more bits at 1 %.
//!
//! With n keys in m bits, an absent key finds its k bits set with a chance of about (1 - e^(-kn/m))^k (Bloom 1970);
//! sizing here uses the exact mean over how many bits are really set (Bose et al., "On the false-positive rate of
//! Bloom filters", 2008), which for ten keys is far more.
//!
//! | asked | bits per key | k |
//! |---|---|---|
//! | 10 % | 4.81 | 3 |
//! | 1 % | 9.59 | 7 |
//! | 0.1 % | 14.38 | 10 |
//! | 0.01 % | 19.17 | 13 |
//! | 1 in a million | 28.76 | 20 |
//!
//! # Memory
//!
//! ```text
//!  bit 0                                                       m-1
//!      ..x......x..........x...x.............x.........x....x..       one key, k = 7
//! ```

use super::layout::{self, AnyLayout, Layout};
use crate::arch::CHUNK;
use crate::arch::probes::{self, Whole};
use crate::arch::words::{ReadWords, WriteWords};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::hash::digests::Digests;
use crate::kind::Kind;
use crate::math;
use crate::math::estimate::Estimate;
use crate::promise::Insertion;

/// The most hashes a key may have; 64 keep rates far below the least that can be asked.
pub(crate) const MAX_HASHES: u32 = 64;
/// The most bits a filter may have.
pub(crate) const MAX_BITS: u64 = 1 << 59;

/// The layout of [`super::Classic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassicLayout(Whole);

impl ClassicLayout {
    /// A layout of m bits and k hashes, or why that is none.
    pub(crate) fn new(bits: u64, hashes: u32) -> Result<Self> {
        check_shape(bits, hashes)?;
        Ok(Self(Whole { bits, hashes }))
    }
}

/// The limits that classic and partitioned filters share.
pub(crate) fn check_shape(bits: u64, hashes: u32) -> Result<()> {
    if bits == 0 || bits > MAX_BITS {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("a filter has between 1 and 2^59 bits, not {bits}"),
        ));
    }
    if hashes == 0 || hashes > MAX_HASHES {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("a key has between 1 and {MAX_HASHES} hashes, not {hashes}; 7 suit a rate of 1 %"),
        ));
    }
    Ok(())
}

impl Layout for ClassicLayout {}

#[allow(private_interfaces, private_bounds)]
impl layout::sealed::Layout for ClassicLayout {
    const KIND: Kind = Kind::Classic;

    fn any(self) -> AnyLayout {
        AnyLayout::Classic(self)
    }

    fn from_any(any: AnyLayout) -> Option<Self> {
        match any {
            AnyLayout::Classic(layout) => Some(layout),
            _ => None,
        }
    }

    fn for_items(items: u64, rate: f64) -> Self {
        let (bits, hashes) = math::classic::size_for(items, rate);
        Self(Whole { bits, hashes })
    }

    fn for_bits(bits: u64, items: u64) -> Result<Self> {
        Self::new(bits, math::classic::best_hashes_for(bits, items))
    }

    fn for_bits_at_rate(bits: u64, rate: f64) -> Result<Self> {
        let hashes = (1..=MAX_HASHES).max_by_key(|&k| math::classic::capacity_for(bits, k, rate)).unwrap_or(1);
        Self::new(bits, hashes)
    }

    fn explicit(bits: u64, hashes: u32) -> Result<Self> {
        Self::new(bits, hashes)
    }

    fn bits(&self) -> u64 {
        self.0.bits
    }

    fn hashes(&self) -> u32 {
        self.0.hashes
    }

    fn words(&self) -> u64 {
        self.0.bits.div_ceil(64)
    }

    fn capacity_at(&self, rate: f64) -> u64 {
        math::classic::capacity_for(self.0.bits, self.0.hashes, rate)
    }

    fn expected_rate(&self, items: u64) -> f64 {
        math::classic::rate(self.0.bits, self.0.hashes, items)
    }

    fn estimated_rate<W: ReadWords>(&self, words: W) -> f64 {
        let set: u64 = (0..words.count()).map(|at| u64::from(words.load(at).count_ones())).sum();
        (set as f64 / self.0.bits as f64).powi(self.0.hashes as i32)
    }

    fn estimate_count(&self, set_bits: u64) -> Estimate {
        math::estimate::classic(set_bits, self.0.bits, self.0.hashes, math::estimate::Z)
    }

    fn count_error(&self, items: f64) -> f64 {
        math::estimate::classic_error(self.0.bits, self.0.hashes, items)
    }

    const SPREAD: &'static str = "bits";

    fn spread(&self) -> u64 {
        self.0.bits
    }

    fn with_spread(&self, spread: u64) -> Result<Self> {
        Self::new(spread, self.0.hashes)
    }

    fn fold<W: ReadWords>(&self, words: W, factor: u64, to: &mut [u64]) {
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

/// Batched lookups over any spread of single bits.
#[inline(always)]
pub(crate) fn contains_all<S: probes::Spread, W: ReadWords, D: Digests>(
    spread: S,
    words: W,
    mut digests: D,
    mut answers: &mut [bool],
) -> Result<()> {
    // Loops, not closures: a closure would be compiled for any processor (see `arch::Job`).
    let (mut one, mut other) = ([Digest::default(); CHUNK], [Digest::default(); CHUNK]);
    let (mut now, mut next) = (&mut one, &mut other);
    let mut waiting = 0;
    loop {
        let coming = digests.next(next);
        let len = *coming.as_ref().unwrap_or(&0);
        let (done, rest) = answers.split_at_mut(waiting);
        probes::contains_chunk(spread, words, &now[..waiting], &next[..len], done);
        answers = rest;
        if coming? == 0 {
            return Ok(());
        }
        waiting = len;
        std::mem::swap(&mut now, &mut next);
    }
}

/// Batched inserts over any spread of single bits.
#[inline(always)]
pub(crate) fn insert_all<S: probes::Spread, W: WriteWords, D: Digests>(
    spread: S,
    words: &mut W,
    mut digests: D,
    fresh: &mut u64,
) -> Result<()> {
    let (mut one, mut other) = ([Digest::default(); CHUNK], [Digest::default(); CHUNK]);
    let (mut now, mut next) = (&mut one, &mut other);
    let mut waiting = 0;
    loop {
        let coming = digests.next(next);
        let len = *coming.as_ref().unwrap_or(&0);
        let none = &mut [false; CHUNK];
        *fresh += probes::insert_chunk::<false, S, W>(spread, words, &now[..waiting], &next[..len], none);
        if coming? == 0 {
            return Ok(());
        }
        waiting = len;
        std::mem::swap(&mut now, &mut next);
    }
}

/// Batched inserts over any spread of single bits, with an outcome for each; how many were certainly new.
#[inline(always)]
pub(crate) fn insert_each<S: probes::Spread, W: WriteWords>(
    spread: S,
    words: &mut W,
    digests: &[Digest],
    mut outcomes: &mut [Insertion],
) -> u64 {
    let mut fresh = 0;
    let mut chunks = digests.chunks(CHUNK);
    let mut now: &[Digest] = &[];
    loop {
        let next = chunks.next().unwrap_or_default();
        let mut told = [false; CHUNK];
        fresh += probes::insert_chunk::<true, S, W>(spread, words, now, next, &mut told);
        let (done, rest) = outcomes.split_at_mut(now.len());
        tell(done, &told);
        outcomes = rest;
        if next.is_empty() {
            return fresh;
        }
        now = next;
    }
}

/// Writes down for each key of a chunk whether it was new.
#[inline(always)]
pub(crate) fn tell(outcomes: &mut [Insertion], told: &[bool; CHUNK]) {
    for (outcome, &new) in outcomes.iter_mut().zip(told) {
        *outcome = if new { Insertion::New } else { Insertion::Known };
    }
}
