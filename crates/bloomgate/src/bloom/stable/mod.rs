//! Cells that decay: an endless stream in a fixed memory, at a rate that settles and stays.
//!
//! **When.** "Have I seen this lately?" over a stream without end and without a clock, where a duplicate that slips
//! through late is no harm: log lines, clicks, alerts, crawled links. **When not.** A "no" must be a proof (any other
//! kind: here it only means *not seen lately*); or "lately" is a time and not a number of keys ([`super::Rotating`]).
//!
//! Every insertion sets a key's cells to 3 and moves a hand on, which lowers all cells once per round of T insertions.
//! So **the last 2T insertions are certainly remembered**, after 3T nothing is left of a key, and the rate rises for
//! three rounds and then stays where it was asked for, however long the stream. A key that comes again is remembered
//! anew.
//!
//! | asked | bits per remembered insertion | lines per key | 1 MB remembers the last |
//! |---|---|---|---|
//! | 10 % | 14.8 | 1 | 542,000 |
//! | 1 % | 25.9 | 1 | 309,000 |
//! | 0.1 % | 41.5 | 1 | 193,000 |
//! | 0.01 % | 51.9 | 2 | 154,000 |
//! | 1 in a million | 83.0 | 2 | 96,000 |
//!
//! # Where it comes from
//!
//! The idea is the stable Bloom filter of Deng and Rafiei (2006), where every insertion lowers P cells *at random*.
//! Chance may lower a cell three times in a row, so that nothing is certain: by their own formulas, at 1 % and with the
//! memory that here remembers N insertions for certain (two-bit cells, their best k = 5, P = 27), 1.2 % of the keys are
//! forgotten after N/8, a third after N/2 and four of five after N. The steady hand keeps the settled rate, forgets
//! nothing within N, needs no random numbers and streams through memory. Two bits are the best width: one bit remembers
//! nothing for certain, and three cost 30 % more for the same insertions.
//!
//! ```text
//!  line   word 0 .. word 7        512 bits; 32 cells of two bits a word; a key has one cell in each
//!  hand   word 0 of all lines, then word 1 of all lines, ...     so that all lines are equally full
//! ```

mod builder;
mod cells;
mod shape;
#[cfg(test)]
mod tests;

pub use builder::StableBuilder;
pub use shape::StableShape;

use std::fmt;

use crate::arch::words::{ReadWords, WriteWords};
use crate::arch::{CHUNK, Job, dispatch};
use crate::bits::{HugePages, Owned, Store};
use crate::bloom::BlockedLayout;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, WordDigests, check_lengths};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::estimate::{self, Estimate};
use crate::math::stable::LINE_WORDS;
use crate::promise::{Promise, WhenFull, kept};
use cells::{Hand, line_start, nonzero};

/// A Bloom filter for endless streams: remembers the latest insertions and forgets older ones.
///
/// ```
/// use bloomgate::bloom::Stable;
///
/// let mut stream = Stable::builder().keys::<u64>().items(10_000).rate(0.01).build()?;
/// for key in 0..1_000_000u64 {
///     stream.insert(&key)?;
/// }
/// assert!(stream.seen_lately(&995_000u64)?); // among the last 10,000: certainly remembered
/// assert!(stream.settled_rate() <= 0.01);      // and this will stay
/// # Ok::<(), bloomgate::Error>(())
/// ```
///
/// There is no `contains`: a "no" would look like that of the other kinds, and it is not one. What can be asked is
/// [`seen_lately`](Self::seen_lately).
///
/// ```compile_fail,E0624
/// # use bloomgate::bloom::Stable;
/// # let stream = Stable::builder().keys::<u64>().items(10_000).rate(0.01).build().unwrap();
/// stream.contains(&17u64);
/// ```
pub struct Stable<S: Store = Owned> {
    shape: StableShape,
    contract: Contract,
    promise: Promise,
    /// All insertions ever: with the cells all that has to be saved, since the hand follows from it.
    inserted: u64,
    hand: Hand,
    store: S,
}

/// Asking, in any place.
impl<S: Store> Stable<S> {
    /// A filter from its parts; `inserted` is [`len`](Self::len).
    pub(crate) fn from_parts(
        shape: StableShape,
        contract: Contract,
        promise: Promise,
        inserted: u64,
        store: S,
    ) -> Result<Self> {
        if store.words().count() as u64 != shape.words() {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a stable filter of this shape has {} words, not {}", shape.words(), store.words().count()),
            ));
        }
        if promise.when_full != WhenFull::GoOn {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                "a stable filter is never full: it goes on, and forgets the oldest",
            ));
        }
        Ok(Self { shape, contract, promise, inserted, hand: Hand::after(&shape, inserted), store })
    }

    /// Whether a key may have been inserted lately. True is "maybe"; false is certain for the last
    /// [`capacity`](Self::capacity) insertions, and says nothing about those before them.
    #[doc(alias = "contains")]
    pub fn seen_lately<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.seen_lately_digest(self.contract.digest(key)?))
    }

    /// [`seen_lately`](Self::seen_lately) for a digest made elsewhere under the same contract.
    #[must_use]
    pub fn seen_lately_digest(&self, digest: Digest) -> bool {
        if S::CHECKED && !self.store.admitted() && !self.admit(digest) {
            return true;
        }
        cells::contains(self.store.words(), &self.shape, digest)
    }

    /// Asks for many keys at once. `answers[i]` is the answer for `keys[i]`; both must be of one length.
    pub fn seen_lately_batch<K: Key>(&self, keys: &[K], answers: &mut [bool]) -> Result<()> {
        check_lengths(keys.len(), answers.len())?;
        match WordDigests::of(&self.contract, keys) {
            Some(words) => self.ask_all(words, answers),
            None => self.ask_all(KeyDigests { contract: &self.contract, keys }, answers),
        }
    }

    /// [`seen_lately_batch`](Self::seen_lately_batch) for digests.
    pub fn seen_lately_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        check_lengths(digests.len(), answers.len())?;
        self.ask_all(digests, answers)
    }

    fn ask_all(&self, mut digests: impl Digests, mut answers: &mut [bool]) -> Result<()> {
        if !S::CHECKED || self.store.admitted() {
            return dispatch(AskAll { shape: self.shape, words: self.store.words(), digests, answers });
        }
        // Not all words are verified yet: one by one.
        let mut chunk = [Digest::default(); CHUNK];
        loop {
            let count = match digests.next(&mut chunk)? {
                0 => return Ok(()),
                count => count,
            };
            let (done, rest) = std::mem::take(&mut answers).split_at_mut(count);
            chunk.iter().zip(done).for_each(|(&digest, answer)| *answer = self.seen_lately_digest(digest));
            answers = rest;
        }
    }

    /// Whether every word that this digest reads may be believed.
    fn admit(&self, digest: Digest) -> bool {
        (0..self.shape.lines_per_key()).all(|section| {
            self.store.admit(line_start(&self.shape, BlockedLayout::line_hash(digest, section), section))
        })
    }

    /// The cells of a key by their numbers, and what each holds.
    pub(crate) fn cells_of(&self, digest: Digest) -> Vec<(u64, u64)> {
        cells::cells_of(self.store.words(), &self.shape, digest)
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::Stable
    }

    /// What a "no" means: not seen lately.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        Kind::Stable.guarantee()
    }

    kept!(contract, promise, when_full, promised_rate);

    /// The numbers that fix the memory and the decay.
    #[must_use]
    pub fn shape(&self) -> &StableShape {
        &self.shape
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    /// All insertions ever, also of keys that came twice and of those that are forgotten.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inserted
    }

    /// Whether nothing was ever inserted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inserted == 0
    }

    /// How many of the latest insertions are certainly remembered: two rounds.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shape.remembered()
    }

    /// After how many later insertions a key is forgotten: never before `low`, on average at `value` if no other key
    /// renews its cells, and at `high` only a wrong "maybe" can speak of it.
    #[must_use]
    pub fn remembers(&self) -> Estimate {
        let (low, round) = (self.shape.remembered() as f64, self.shape.round() as f64);
        // The first of a key's words that the hand comes to is at most an eighth of a round ahead, in each of its
        // lines.
        let first = round / (LINE_WORDS as f64 * f64::from(self.shape.lines_per_key() + 1));
        Estimate { value: low + first, low, high: Some(low + round) }
    }

    /// How many more insertions until the first is no longer certain to be remembered.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.capacity().saturating_sub(self.inserted)
    }

    /// Whether it has begun to forget. It goes on.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.remaining() == 0
    }

    /// The exact expected rate now, if all keys so far were different; lower if some came twice.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        self.shape.expected_rate(self.inserted)
    }

    /// The rate at which it settles after three rounds of different keys.
    #[must_use]
    pub fn settled_rate(&self) -> f64 {
        self.shape.settled_rate()
    }

    /// The rate that the cells as they are will show. Reads all of them.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        let words = self.store.words();
        let sections = self.shape.lines_per_key() as usize;
        let rate_of = |section: usize| {
            let lines = (section..self.shape.lines() as usize).step_by(sections);
            let passed = lines.map(|line| {
                let full = |word| f64::from(nonzero(words.load(line * LINE_WORDS + word)).count_ones()) / 32.0;
                (0..LINE_WORDS).map(full).product::<f64>()
            });
            passed.sum::<f64>() / self.shape.rows() as f64
        };
        (0..sections).map(rate_of).product()
    }

    /// The memory of the cells, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.shape.words() * 8
    }

    /// Whether the memory is on huge pages.
    #[must_use]
    pub fn huge_pages(&self) -> HugePages {
        self.store.huge_pages()
    }

    /// How many cells are not zero. Reads all of them.
    #[must_use]
    pub fn set_cells(&self) -> u64 {
        let words = self.store.words();
        (0..words.count()).map(|at| u64::from(nonzero(words.load(at)).count_ones())).sum()
    }

    /// The share of cells that are not zero. Reads all of them.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.set_cells() as f64 / self.shape.cells() as f64
    }

    /// How many different keys the cells speak of, with an interval: those of the last two to three rounds. Reads all
    /// cells.
    #[must_use]
    pub fn approximate_count(&self) -> Estimate {
        estimate::partitioned(self.set_cells(), self.shape.rows() * 32, self.shape.hashes(), estimate::Z)
    }
}

/// The names that filters of any kind are asked by: not public, since here a "no" proves nothing.
impl<S: Store> Stable<S> {
    pub(crate) fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        self.seen_lately(key)
    }
    pub(crate) fn contains_digest(&self, digest: Digest) -> bool {
        self.seen_lately_digest(digest)
    }
    pub(crate) fn contains_batch<K: Key>(&self, keys: &[K], answers: &mut [bool]) -> Result<()> {
        self.seen_lately_batch(keys, answers)
    }
    pub(crate) fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        self.seen_lately_digests(digests, answers)
    }
}

/// A batch of questions, compiled for this processor.
struct AskAll<'a, W, D> {
    shape: StableShape,
    words: W,
    digests: D,
    answers: &'a mut [bool],
}

impl<W: ReadWords, D: Digests> Job for AskAll<'_, W, D> {
    type Output = Result<()>;
    #[inline(always)]
    fn run(self) -> Result<()> {
        cells::contains_all(self.words, &self.shape, self.digests, self.answers)
    }
}

/// A batch of insertions, compiled for this processor.
struct InsertAll<'a, W, D> {
    shape: StableShape,
    words: W,
    hand: &'a mut Hand,
    inserted: &'a mut u64,
    digests: D,
}

impl<W: WriteWords, D: Digests> Job for InsertAll<'_, W, D> {
    type Output = Result<u64>;
    #[inline(always)]
    fn run(mut self) -> Result<u64> {
        let mut fresh = 0;
        let counts = (self.inserted, &mut fresh);
        cells::insert_all(&mut self.words, &self.shape, self.hand, self.digests, counts)?;
        Ok(fresh)
    }
}

/// Building and inserting, alone.
impl Stable<Owned> {
    /// Starts a filter: `.bytes(b).rate(p)`, or `.items(n).rate(p)` with how many insertions are to be remembered.
    #[must_use]
    pub fn builder() -> StableBuilder {
        StableBuilder::new()
    }

    pub(crate) fn empty(shape: StableShape, contract: Contract, promise: Promise) -> Result<Self> {
        Self::from_parts(shape, contract, promise, 0, Owned::zeroed(shape.words())?)
    }

    /// Inserts a key, to be remembered from now; true if it was not seen lately, false if it may have been.
    ///
    /// Every insertion makes older ones fade, also that of a key which is there.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        self.inserted = self.inserted.saturating_add(1);
        Ok(cells::insert(&mut self.store.as_mut_slice(), &self.shape, &mut self.hand, digest))
    }

    /// Inserts many keys at once; how many were not seen lately.
    ///
    /// If a key is refused (wrong encoding), the keys before it are in and those after it are not.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<u64> {
        let (shape, words) = (self.shape, self.store.as_mut_slice());
        let (hand, inserted) = (&mut self.hand, &mut self.inserted);
        match WordDigests::of(&self.contract, keys) {
            Some(digests) => dispatch(InsertAll { shape, words, hand, inserted, digests }),
            None => {
                let digests = KeyDigests { contract: &self.contract, keys };
                dispatch(InsertAll { shape, words, hand, inserted, digests })
            }
        }
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
        let (shape, words) = (self.shape, self.store.as_mut_slice());
        dispatch(InsertAll { shape, words, hand: &mut self.hand, inserted: &mut self.inserted, digests })
    }

    /// Inserts everything an iterator gives; how many were not seen lately.
    pub fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        keys.into_iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(&key)?)))
    }

    /// Forgets everything; the shape, the contract and the promise stay.
    pub fn clear(&mut self) {
        self.store.as_mut_slice().fill(0);
        self.inserted = 0;
        self.hand = Hand::after(&self.shape, 0);
    }
}

impl Clone for Stable<Owned> {
    fn clone(&self) -> Self {
        // The original was allocated, so a refusal here is the same as any failed allocation of a clone.
        let mut copy = Self::empty(self.shape, self.contract.clone(), self.promise).expect("memory for a clone");
        copy.store.as_mut_slice().copy_from_slice(self.store.as_slice());
        (copy.inserted, copy.hand) = (self.inserted, self.hand);
        copy
    }
}

/// Same contract, same shape, same cells, and the hand at the same place.
impl<A: Store, B: Store> PartialEq<Stable<B>> for Stable<A> {
    fn eq(&self, other: &Stable<B>) -> bool {
        let (a, b) = (self.store.words(), other.store.words());
        self.shape == other.shape
            && self.contract == other.contract
            && self.hand == other.hand
            && (0..a.count()).all(|at| a.load(at) == b.load(at))
    }
}

impl<S: Store> fmt::Debug for Stable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stable")
            .field("shape", &self.shape)
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("len", &self.inserted)
            .finish_non_exhaustive()
    }
}
