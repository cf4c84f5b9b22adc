//! A chain of stages that grows: for sets whose size nobody knows.
//!
//! **When.** The number of keys cannot be guessed within a factor of three. **When not.** It can: one filter with
//! headroom is smaller and asks one stage instead of many.
//!
//! Each stage is a fixed-size filter; when the last one holds what it was made for, a larger one is opened. An absent
//! key may be taken for present by any stage, so each stage gets a share of the asked rate and all shares together
//! never exceed it, however long the chain (Almeida et al., "Scalable Bloom Filters", 2007, with another split):
//! the shares of the first 12 stages rise by 1.05 and later ones fall by 0.7, each stage is 1.75 times as large.
//! The textbook split (halve the rate, double the size) pays for stages that never come: 2.36 times the bits of a
//! right-sized filter at 1000 times the first capacity, and 5 times at the worst moment, against 1.63 and 2.92 here.
//!
//! ```text
//!  stage   0    1      2         3               keys  ──▶  only ever into the last
//!         [##] [####] [#######] [####........]   asked      newest first
//! ```
//!
//! Two chains that were made alike become one without their keys ([`Scalable::union_with`]).

mod sets;

use std::cell::Cell;
use std::fmt;
use std::sync::Mutex;

use super::layout::AnyLayout;
use super::layout::sealed::Layout as _;
use super::stage::Stage;
use super::{BlockedLayout, Bloom, ClassicLayout, PartitionedLayout};
use crate::arch::{CHUNK, FEW};
use crate::bits::{Owned, Shared, Store};
use crate::chain::Chain;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, check_lengths};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::scalable::{Tightening, chain_rate, stage_capacity, stage_rate};
use crate::promise::{DEFAULT_RATE, Insertion, MIN_RATE, Promise, WhenFull, Wish, full, kept, wish_setters};

/// The most stages of a chain, after which it refuses. At growth 1.75 the 64th holds 2^51 times the first.
pub const MAX_STAGES: usize = crate::chain::MOST;
/// Keys of the first stage when no number is given: 22 KB at 1 %.
pub const DEFAULT_FIRST: u64 = 10_000;
/// Growth when none is asked for.
pub const DEFAULT_GROWTH: f64 = 1.75;

/// The shares of all stages may come to this much of the rate: 0.1 % more, for the least rates alone.
const SHARED_OUT: f64 = 1.001;

/// Digests that a batch works on at a time, through all stages: 4 KB of digests stay in the first-level cache.
pub(super) const BATCH: usize = 8 * CHUNK;

/// How a chain grows: what was asked for, and never changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Growth {
    /// The kind of the stages.
    pub(crate) stages: Kind,
    /// Keys of the first stage.
    pub(crate) first: u64,
    /// How much larger each stage is.
    pub(crate) factor: f64,
    /// How the rate is shared out.
    pub(crate) tightening: Tightening,
}

/// A Bloom filter that grows by stages and keeps its rate over all of them.
///
/// ```
/// use bloomgate::Scalable;
///
/// let mut seen = Scalable::builder().keys::<u64>().items(1_000).rate(0.01).build()?;
/// for key in 0..100_000u64 {
///     seen.insert(&key)?;
/// }
/// assert!(seen.stages() > 1);
/// assert!(seen.contains(&99_999u64)?);
/// assert!(seen.expected_rate() <= 0.01);
/// # Ok::<(), bloomgate::Error>(())
/// ```
///
/// In [`Shared`] form it grows while many threads insert: [`build_shared`](ScalableBuilder::build_shared).
pub struct Scalable<S: Store = Owned> {
    contract: Contract,
    promise: Promise,
    growth: Growth,
    chain: Chain<Stage<S>>,
    /// Held while a stage is opened, so that racing writers open one and not several; and the next stage, if it was
    /// [made ahead](Scalable::prepare_growth), with its number.
    growing: Mutex<Option<(usize, Stage<S>)>>,
}

impl<S: Store> Scalable<S> {
    pub(crate) fn from_parts(
        contract: Contract,
        promise: Promise,
        growth: Growth,
        stages: Vec<Stage<S>>,
    ) -> Result<Self> {
        let count = stages.len();
        let chain = Chain::of(stages).ok_or_else(|| {
            Error::new(ErrorKind::InvalidParameter, format!("a chain has 1 to {MAX_STAGES} stages, not {count}"))
        })?;
        Ok(Self { contract, promise, growth, chain, growing: Mutex::new(None) })
    }

    /// The open stages, oldest first.
    pub(crate) fn each_stage(&self) -> impl DoubleEndedIterator<Item = &Stage<S>> {
        self.chain.each()
    }

    /// Whether a key may have been inserted: false is certain, true is "maybe".
    #[doc(alias = "mightContain")]
    pub fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.contains_digest(self.contract.digest(key)?))
    }

    /// [`contains`](Self::contains) for a digest made elsewhere under the same contract.
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        // The newest stage is the largest: most keys are there.
        self.each_stage().rev().any(|stage| stage.contains_digest(digest))
    }

    /// Asks for many keys at once. `answers[i]` is the answer for `keys[i]`; both must be of one length.
    pub fn contains_batch<K: Key>(&self, keys: &[K], answers: &mut [bool]) -> Result<()> {
        check_lengths(keys.len(), answers.len())?;
        if let Some(only) = self.only_stage() {
            // It may need half of each digest: hashing that is cheaper.
            return only.contains_batch(keys, answers);
        }
        let mut digests = [Digest::default(); BATCH];
        for (keys, answers) in keys.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let (digests, filled) = fill(KeyDigests { contract: &self.contract, keys }, &mut digests);
            filled?;
            self.contains_digests(digests, answers)?;
        }
        Ok(())
    }

    /// [`contains_batch`](Self::contains_batch) for digests.
    pub fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        check_lengths(digests.len(), answers.len())?;
        if let Some(only) = self.only_stage() {
            return only.contains_digests(digests, answers);
        }
        if digests.len() < FEW {
            digests.iter().zip(answers).for_each(|(&digest, answer)| *answer = self.contains_digest(digest));
            return Ok(());
        }
        for (digests, answers) in digests.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            answers.fill(false);
            let mut one_stage = [false; BATCH];
            let one_stage = &mut one_stage[..digests.len()];
            for stage in self.each_stage().rev() {
                stage.contains_digests(digests, one_stage)?;
                for (answer, &found) in answers.iter_mut().zip(one_stage.iter()) {
                    *answer |= found;
                }
            }
        }
        Ok(())
    }

    /// The stage of a chain that has one.
    fn only_stage(&self) -> Option<&Stage<S>> {
        if self.chain.open() == 1 { self.chain.get(0) } else { None }
    }

    /// Whether the next key of a batch that saw `open` stages goes into the last of them, which then itself tells
    /// whether the key is there already. If not, a key that comes twice in the batch may be in an earlier stage by now:
    /// the whole chain has to be asked again.
    fn still_open(&self, open: usize) -> bool {
        let room = || self.chain.get(open - 1).is_some_and(|last| !last.is_full());
        self.chain.open() == open && (self.promise.when_full == WhenFull::GoOn || room())
    }

    /// The memory that the next stage will take, in bytes; 0 for a chain that goes on or refuses instead of growing.
    /// Refused where there can be no further stage.
    ///
    /// ```
    /// use bloomgate::Scalable;
    ///
    /// let mut seen = Scalable::builder().keys::<u64>().items(100).build()?;
    /// let (before, next) = (seen.size_in_bytes(), seen.next_stage_bytes()?);
    /// seen.insert_all(0..101u64)?;
    /// assert_eq!(seen.size_in_bytes(), before + next);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    pub fn next_stage_bytes(&self) -> Result<u64> {
        if self.promise.when_full != WhenFull::Grow {
            return Ok(0);
        }
        let open = self.stages();
        if open >= MAX_STAGES {
            return Err(self.full());
        }
        stage_bytes(&self.growth, self.promise.rate, open)
    }

    /// The stage that is made next, empty.
    fn next_stage(&self, at: usize) -> Result<Stage<Owned>> {
        stage(&self.growth, &self.contract, self.promise.rate, at)
    }

    /// What to do when the last stage is full: open another, refuse, or go on.
    fn full(&self) -> Error {
        full(Kind::Scalable, self.len())
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::Scalable
    }

    /// The kind of its stages.
    #[must_use]
    pub fn stage_kind(&self) -> Kind {
        self.growth.stages
    }

    /// What a "no" means: the key was never inserted.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        Kind::Scalable.guarantee()
    }

    kept!(contract, promise, when_full, promised_rate, is_empty);

    pub(crate) fn growth_rule(&self) -> Growth {
        self.growth
    }

    /// How many stages are open.
    #[must_use]
    pub fn stages(&self) -> usize {
        self.each_stage().count()
    }

    /// How much larger each stage is than the one before.
    #[doc(alias = "expansion")]
    #[must_use]
    pub fn growth(&self) -> f64 {
        self.growth.factor
    }

    /// How the rate is shared out over the stages.
    #[must_use]
    pub fn tightening(&self) -> Tightening {
        self.growth.tightening
    }

    /// Keys that were certainly new when they were inserted.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.each_stage().map(Stage::len).sum()
    }

    /// How many keys the open stages were made for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.each_stage().map(Stage::capacity).sum()
    }

    /// How many more new keys fit before another stage is opened.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        // The earlier stages are full, though they count a little less than their capacity.
        self.each_stage().next_back().map_or(0, Stage::remaining)
    }

    /// Whether the open stages hold what they were made for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.each_stage().next_back().is_none_or(Stage::is_full)
    }

    /// The exact expected rate of the chain with what was inserted so far.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        chain_rate(self.each_stage().map(Stage::expected_rate))
    }

    /// The rate that the bits as they are will show. Reads all bits.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        chain_rate(self.each_stage().map(Stage::estimated_rate))
    }

    /// The bits of all stages.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.each_stage().map(Stage::bits).sum()
    }

    /// The memory of all stages, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.each_stage().map(Stage::size_in_bytes).sum()
    }

    /// Has the kernel find the memory of all open stages now: see [`Bloom::bring_in`].
    pub fn bring_in(&self) {
        self.each_stage().for_each(Stage::bring_in);
    }

    /// How many bits are set. Reads all bits.
    #[must_use]
    pub fn set_bits(&self) -> u64 {
        self.each_stage().map(Stage::set_bits).sum()
    }

    /// The share of bits that are set, over all stages. Reads all bits.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.set_bits() as f64 / self.bits() as f64
    }

    /// How many different keys the bits speak of, with an interval: the sum over the stages. Reads all bits.
    #[must_use]
    pub fn approximate_count(&self) -> crate::math::estimate::Estimate {
        self.each_stage().map(Stage::approximate_count).fold(Default::default(), |sum, one| sum + one)
    }
}

/// Where the bits of a stage go, and what it promises.
fn stage_layout(growth: &Growth, rate: f64, at: usize) -> Result<(AnyLayout, Promise)> {
    let capacity = stage_capacity(growth.first, growth.factor, at as u32)
        .filter(|&capacity| capacity <= crate::promise::MAX_ITEMS)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Full,
                format!("stage {at} of the chain would be larger than 2^40 keys, the most a filter holds"),
            )
        })?;
    let rate = stage_rate(rate, growth.tightening, at as u32);
    let layout = match growth.stages {
        Kind::Blocked => AnyLayout::Blocked(BlockedLayout::for_items(capacity, rate)),
        Kind::Classic => AnyLayout::Classic(ClassicLayout::for_items(capacity, rate)),
        Kind::Partitioned => AnyLayout::Partitioned(PartitionedLayout::for_items(capacity, rate)),
        other => {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("the stages of a chain are blocked, classic or partitioned, not {other}"),
            ));
        }
    };
    Ok((layout, Promise { capacity, rate, when_full: WhenFull::GoOn }))
}

/// The memory of a stage, in bytes.
fn stage_bytes(growth: &Growth, rate: f64, at: usize) -> Result<u64> {
    Ok(8 * match stage_layout(growth, rate, at)?.0 {
        AnyLayout::Blocked(layout) => layout.words(),
        AnyLayout::Classic(layout) => layout.words(),
        AnyLayout::Partitioned(layout) => layout.words(),
    })
}

/// An empty stage of a chain.
fn stage(growth: &Growth, contract: &Contract, rate: f64, at: usize) -> Result<Stage<Owned>> {
    let (layout, promise) = stage_layout(growth, rate, at)?;
    let contract = contract.clone();
    Ok(match layout {
        AnyLayout::Blocked(layout) => Stage::Blocked(Bloom::empty(layout, contract, promise)?),
        AnyLayout::Classic(layout) => Stage::Classic(Bloom::empty(layout, contract, promise)?),
        AnyLayout::Partitioned(layout) => Stage::Partitioned(Bloom::empty(layout, contract, promise)?),
    })
}

/// Hashes up to a batch of keys; when one is refused, the digests of those before it come with the refusal.
pub(super) fn fill(mut from: impl Digests, digests: &mut [Digest; BATCH]) -> (&[Digest], Result<()>) {
    let mut count = 0;
    let mut result = Ok(());
    for chunk in digests.as_chunks_mut::<CHUNK>().0 {
        match from.next(chunk) {
            Ok(0) => break,
            Ok(filled) => count += filled,
            Err(refused) => {
                result = Err(refused);
                break;
            }
        }
    }
    (&digests[..count], result)
}

impl Scalable<Owned> {
    /// Starts a chain: `.items(n)` is the first stage (10,000 if not said), `.rate(p)` holds for the whole chain.
    #[must_use]
    pub fn builder() -> ScalableBuilder {
        ScalableBuilder {
            wish: Wish::new(WhenFull::Grow),
            growth: DEFAULT_GROWTH,
            tightening: Tightening::default(),
            stages: Kind::Blocked,
        }
    }

    /// Inserts a key; true if it was certainly new, false if it may have been there before.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        if self.contains_digest(digest) {
            return Ok(false);
        }
        self.make_room()?.insert_digest(digest)
    }

    /// The last stage, after another was opened if it was full.
    fn make_room(&mut self) -> Result<&mut Stage<Owned>> {
        if self.chain.newest().is_full() {
            match self.promise.when_full {
                WhenFull::Grow if self.chain.open() < MAX_STAGES => {
                    self.chain.push(self.next_stage(self.chain.open())?);
                }
                WhenFull::Grow | WhenFull::Refuse => return Err(self.full()),
                WhenFull::GoOn => {}
            }
        }
        Ok(self.chain.newest_mut())
    }

    /// Inserts many keys at once; how many were certainly new.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<u64> {
        let contract = self.contract.clone();
        let mut digests = [Digest::default(); BATCH];
        let mut fresh = 0;
        for keys in keys.chunks(BATCH) {
            let (digests, filled) = fill(KeyDigests { contract: &contract, keys }, &mut digests);
            fresh += self.insert_digests(digests)?;
            filled?;
        }
        Ok(fresh)
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
        let mut fresh = 0;
        for digests in digests.chunks(BATCH) {
            let mut found = [false; BATCH];
            self.contains_digests(digests, &mut found[..digests.len()])?;
            let open = self.chain.open();
            for (&digest, _) in digests.iter().zip(found).filter(|&(_, found)| !found) {
                fresh += u64::from(match self.still_open(open) {
                    true => self.make_room()?.insert_digest(digest)?,
                    false => self.insert_digest(digest)?,
                });
            }
        }
        Ok(fresh)
    }

    /// Inserts everything an iterator gives; how many were certainly new.
    pub fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        keys.into_iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(&key)?)))
    }

    /// Forgets everything and goes back to one stage.
    pub fn clear(&mut self) -> Result<()> {
        let first = self.next_stage(0)?;
        *self = Self::from_parts(self.contract.clone(), self.promise, self.growth, vec![first])?;
        Ok(())
    }

    /// The same chain for many threads at once. Moves; nothing is copied.
    pub fn into_shared(self) -> Result<Scalable<Shared>> {
        let stages = self.chain.into_stages().map(Stage::into_shared);
        Scalable::from_parts(self.contract, self.promise, self.growth, stages.collect::<Result<_>>()?)
    }
}

impl Scalable<Shared> {
    /// Inserts a key; true if it was certainly new, false if it may have been there before.
    ///
    /// When several threads insert the same new key at once, at least one is told that it was new. If that happens
    /// while a stage is being opened, the key may come to be in two stages; it is found either way.
    pub fn insert<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&self, digest: Digest) -> Result<bool> {
        if self.contains_digest(digest) {
            return Ok(false);
        }
        self.make_room()?.insert_digest_shared(digest)
    }

    /// The last stage, after another was opened if it was full. One thread opens it; the others wait, since a stage
    /// that is full already keeps its rate only if they do.
    fn make_room(&self) -> Result<&Stage<Shared>> {
        loop {
            let open = self.chain.open();
            let last = self.chain.newest();
            if !last.is_full() {
                return Ok(last);
            }
            match self.promise.when_full {
                WhenFull::Grow if open < MAX_STAGES => {
                    let mut ahead = self.growing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    if self.chain.open() == open {
                        let stage = match ahead.take() {
                            Some((at, stage)) if at == open => stage,
                            _ => self.next_stage(open)?.into_shared()?,
                        };
                        self.chain.push(stage);
                    }
                }
                WhenFull::Grow | WhenFull::Refuse => return Err(self.full()),
                WhenFull::GoOn => return Ok(last),
            }
        }
    }

    /// Makes the next stage now and has the kernel find its memory, so that opening it is a matter of nanoseconds: to be
    /// called from a thread that has time, when the newest stage [fills up](Self::is_filling_up). Inserts go on
    /// meanwhile; if they come to the end first, the stage is made there as ever. The memory is
    /// [`next_stage_bytes`](Self::next_stage_bytes), and [`size_in_bytes`](Self::size_in_bytes) counts it once it is opened.
    ///
    /// ```
    /// use bloomgate::Scalable;
    ///
    /// let seen = Scalable::builder().keys::<u64>().items(1_000).build_shared()?;
    /// for key in 0..800u64 {
    ///     seen.insert(&key)?;
    /// }
    /// assert!(seen.is_filling_up() && seen.stages() == 1);
    /// seen.prepare_growth()?;
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    pub fn prepare_growth(&self) -> Result<()> {
        let at = self.chain.open();
        let ahead = || self.growing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if self.promise.when_full != WhenFull::Grow || at >= MAX_STAGES || ahead().is_some() {
            return Ok(());
        }
        let stage = self.next_stage(at)?;
        stage.bring_in();
        let stage = stage.into_shared()?;
        let mut ahead = ahead();
        if self.chain.open() == at && ahead.is_none() {
            *ahead = Some((at, stage));
        }
        Ok(())
    }

    /// Whether less than a quarter of the newest stage is left.
    #[must_use]
    pub fn is_filling_up(&self) -> bool {
        let newest = self.chain.newest();
        newest.remaining() < newest.capacity() / 4
    }

    /// Inserts many keys at once; how many were certainly new.
    pub fn insert_batch<K: Key>(&self, keys: &[K]) -> Result<u64> {
        let mut digests = [Digest::default(); BATCH];
        let mut fresh = 0;
        for keys in keys.chunks(BATCH) {
            let (digests, filled) = fill(KeyDigests { contract: &self.contract, keys }, &mut digests);
            fresh += self.insert_digests(digests)?;
            filled?;
        }
        Ok(fresh)
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&self, digests: &[Digest]) -> Result<u64> {
        let mut fresh = 0;
        for digests in digests.chunks(BATCH) {
            let mut found = [false; BATCH];
            let open = self.chain.open();
            self.contains_digests(digests, &mut found[..digests.len()])?;
            for (&digest, _) in digests.iter().zip(found).filter(|&(_, found)| !found) {
                fresh += u64::from(match self.still_open(open) {
                    true => self.make_room()?.insert_digest_shared(digest)?,
                    false => self.insert_digest(digest)?,
                });
            }
        }
        Ok(fresh)
    }

    /// Inserts many digests and says of each what became of it: `outcomes[i]` is that of `digests[i]`, and both must be
    /// of one length. A digest that comes twice in the batch is [`Known`](Insertion::Known) the second time;
    /// [`Full`](Insertion::Full) is said by a chain that may not grow any more.
    ///
    /// All stages are asked for the whole batch, and what none of them knows goes into the newest as a batch too, while
    /// it has room.
    ///
    /// ```
    /// use bloomgate::{Insertion, Scalable};
    ///
    /// let seen = Scalable::builder().items(1_000).build_shared()?;
    /// let digests = [seen.contract().digest("a")?, seen.contract().digest("a")?];
    /// let mut outcomes = [Insertion::Full; 2];
    /// seen.insert_each(&digests, &mut outcomes)?;
    /// assert_eq!(outcomes, [Insertion::New, Insertion::Known]);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    pub fn insert_each(&self, digests: &[Digest], outcomes: &mut [Insertion]) -> Result<()> {
        check_lengths(digests.len(), outcomes.len())?;
        if digests.len() < FEW {
            for (&digest, outcome) in digests.iter().zip(outcomes) {
                *outcome = Insertion::of(self.insert_digest(digest))?;
            }
            return Ok(());
        }
        for (digests, outcomes) in digests.chunks(BATCH).zip(outcomes.chunks_mut(BATCH)) {
            let open = self.chain.open();
            let mut found = [false; BATCH];
            // A stage tells by itself what it has; only older ones have to be asked.
            if open > 1 {
                self.contains_digests(digests, &mut found[..digests.len()])?;
            }
            let mut unknown = [Digest::default(); BATCH];
            let mut count = 0;
            for (&digest, &found) in digests.iter().zip(&found) {
                unknown[count] = digest;
                count += usize::from(!found);
            }
            if count == 0 {
                outcomes.fill(Insertion::Known);
                continue;
            }
            let newest = self.chain.get(open - 1).filter(|stage| {
                self.chain.open() == open && (self.promise.when_full == WhenFull::GoOn || stage.has_room_for(count))
            });
            if let Some(newest) = newest {
                let mut told = [Insertion::Known; BATCH];
                newest.insert_each_at_once(&unknown[..count], &mut told[..count]);
                let mut at = 0;
                for (outcome, &found) in outcomes.iter_mut().zip(&found) {
                    *outcome = if found { Insertion::Known } else { told[at] };
                    at += usize::from(!found);
                }
                continue;
            }
            for ((&digest, &found), outcome) in digests.iter().zip(&found).zip(outcomes) {
                *outcome = match (found, self.still_open(open)) {
                    (true, _) => Insertion::Known,
                    (false, true) => {
                        Insertion::of(self.make_room().and_then(|stage| stage.insert_digest_shared(digest)))?
                    }
                    (false, false) => Insertion::of(self.insert_digest(digest))?,
                };
            }
        }
        Ok(())
    }

    /// Inserts digests that were new when they were first inserted, as a log tells, in its order: they are in afterwards,
    /// and **each is counted**, even if its bits are there already. The chain grows by these counts. So an
    /// [image](crate::AnyFilter::image) of one moment and the replay of everything since come to the stages and the count
    /// of before, though the image may hold some of it already.
    ///
    /// No stage is asked: a key that was new went into the newest. A chain that refuses had taken them, and takes them
    /// again.
    pub fn replay(&self, digests: &[Digest]) -> Result<()> {
        let mut rest = digests;
        while !rest.is_empty() {
            let (stage, room) = match self.make_room() {
                Ok(stage) if self.promise.when_full == WhenFull::GoOn => (stage, u64::MAX),
                Ok(stage) => (stage, stage.remaining().max(1)),
                Err(error) if error.kind() == ErrorKind::Full => {
                    (self.each_stage().next_back().ok_or(error)?, u64::MAX)
                }
                Err(error) => return Err(error),
            };
            let (now, later) = rest.split_at(usize::try_from(room).unwrap_or(usize::MAX).min(rest.len()));
            stage.replay(now)?;
            rest = later;
        }
        Ok(())
    }

    /// Forgets everything and goes back to one stage; takes the only reference.
    pub fn clear(&mut self) -> Result<()> {
        let first = self.next_stage(0)?.into_shared()?;
        *self = Self::from_parts(self.contract.clone(), self.promise, self.growth, vec![first])?;
        Ok(())
    }

    /// The same chain for one owner. Moves; nothing is copied.
    pub fn into_owned(self) -> Result<Scalable<Owned>> {
        let stages = self.chain.into_stages().map(Stage::into_owned);
        Scalable::from_parts(self.contract, self.promise, self.growth, stages.collect::<Result<_>>()?)
    }
}

impl Clone for Scalable<Owned> {
    fn clone(&self) -> Self {
        let chain = self.chain.clone();
        let (contract, promise, growth) = (self.contract.clone(), self.promise, self.growth);
        Self { contract, promise, growth, chain, growing: Mutex::new(None) }
    }
}

/// Same contract, same stages with the same bits.
impl<A: Store, B: Store> PartialEq<Scalable<B>> for Scalable<A> {
    fn eq(&self, other: &Scalable<B>) -> bool {
        self.contract == other.contract
            && self.stages() == other.stages()
            && self.each_stage().zip(other.each_stage()).all(|(a, b)| a == b)
    }
}

impl<S: Store> fmt::Debug for Scalable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scalable")
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("growth", &self.growth)
            .field("stages", &self.stages())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Makes a [`Scalable`] filter. Setters never refuse; [`build`](ScalableBuilder::build) alone does.
#[derive(Debug, Clone)]
pub struct ScalableBuilder {
    wish: Wish,
    growth: f64,
    tightening: Tightening,
    stages: Kind,
}

impl ScalableBuilder {
    wish_setters!();

    /// How much larger each stage is than the one before: 1.75 unless said otherwise; RedisBloom's default is 2.
    #[doc(alias = "expansion")]
    #[must_use]
    pub fn growth(mut self, factor: f64) -> Self {
        self.growth = factor;
        self
    }

    /// How the rate is shared out over the stages.
    #[must_use]
    pub fn tightening(mut self, tightening: Tightening) -> Self {
        self.tightening = tightening;
        self
    }

    /// The kind of the stages: blocked unless said otherwise; classic and partitioned are possible.
    #[must_use]
    pub fn stages(mut self, kind: Kind) -> Self {
        self.stages = kind;
        self
    }

    /// How the chain grows and what it promises; checked.
    fn resolve(&self) -> Result<(Growth, Promise)> {
        let first = self.wish.capacity()?.unwrap_or(DEFAULT_FIRST);
        let rate = self.wish.checked_rate()?.unwrap_or(DEFAULT_RATE);
        check_growth(self.growth, self.tightening)?;
        check_shares(rate, self.tightening)?;
        let growth = Growth { stages: self.stages, first, factor: self.growth, tightening: self.tightening };
        Ok((growth, Promise { capacity: first, rate, when_full: self.wish.when_full }))
    }

    /// The memory that [`build`](Self::build) would take for the first stage, in bytes: all its refusals are made, and nothing is
    /// allocated.
    pub fn bytes_needed(&self) -> Result<u64> {
        let (growth, promise) = self.resolve()?;
        stage_bytes(&growth, promise.rate, 0)
    }

    /// The chain with its first stage, or why there is none.
    pub fn build(self) -> Result<Scalable<Owned>> {
        let (growth, promise) = self.resolve()?;
        let first = stage(&growth, &self.wish.contract, promise.rate, 0)?;
        Scalable::from_parts(self.wish.contract, promise, growth, vec![first])
    }

    /// The chain for many threads at once, or why there is none.
    pub fn build_shared(self) -> Result<Scalable<Shared>> {
        self.build()?.into_shared()
    }
}

/// Whether the shares of all stages a chain can have stay within the rate: no stage goes below 1e-15, so a rate near
/// that would be exceeded by the number of stages.
pub(crate) fn check_shares(rate: f64, tightening: Tightening) -> Result<()> {
    thread_local! {
        // The last that were: summing up is a fifth of what it takes to load a small chain, and a million are alike.
        static LAST: Cell<Option<(f64, Tightening)>> = const { Cell::new(None) };
    }
    if LAST.get() == Some((rate, tightening)) {
        return Ok(());
    }
    let sum: f64 = (0..MAX_STAGES as u32).map(|at| stage_rate(rate, tightening, at)).sum();
    if sum <= rate * SHARED_OUT {
        LAST.set(Some((rate, tightening)));
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidParameter,
        format!(
            "a rate of {rate:e} cannot be shared out over {MAX_STAGES} stages, whose rates go down to {MIN_RATE:e} each; \
             ask for 1e-10 or more, or use a filter of a fixed size"
        ),
    ))
}

/// Whether a chain can grow so.
pub(crate) fn check_growth(factor: f64, tightening: Tightening) -> Result<()> {
    if !factor.is_finite() || !(1.0..=32_768.0).contains(&factor) {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("each stage is 1 to 32768 times as large as the one before, not {factor}; 1.75 is the default"),
        ));
    }
    if !tightening.is_valid() {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!(
                "{tightening:?} does not share out a rate: a ratio lies between 0 and 1, both excluded, and a plateau \
                 has 1 to 64 stages; the default is 12 stages, then 0.7"
            ),
        ));
    }
    Ok(())
}
