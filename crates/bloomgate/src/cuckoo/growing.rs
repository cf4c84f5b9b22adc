//! A chain of cuckoo tables that grows: keys can be removed, and nobody has to know how many there will be.
//!
//! **When.** Keys come and go, and their number cannot be guessed within a factor of three. **When not.** It can: one
//! [`Cuckoo`] with headroom is smaller, and asks two buckets instead of two a stage.
//!
//! Each stage is a [`Cuckoo`] table with twice the buckets of the one before it and a share of the asked rate, as in
//! [`Scalable`](crate::Scalable). At 1 % every stage has fingerprints of 14 bits: 15 to 16 bits a key when the stages
//! are full, up to twice that just after one was opened.
//!
//! # Which copy goes
//!
//! A key that is to go may seem to be in several stages, and only one of the fingerprints is its own. Taking another
//! key's would be a wrong "no". So the stages are made such that it does not matter: the number of buckets grows by a
//! power of two, fingerprints only get wider, and both keep what the stage before had and add to it. Two keys that
//! look the same in a stage then look the same in **every older one**. If a key's copy is taken from the newest stage
//! where it seems to be, and the copy was another key's, that one now has ours, in an older stage, where the two look
//! the same: nobody is lost, and the right number is left.
//!
//! For the same reason a fingerprint can move to an older stage ([`compact`](GrowingCuckoo::compact)), by dropping the
//! bits that the older stage does not have; it could never move to a newer one.

use std::fmt;
use std::sync::Mutex;

use super::filter::too_many_copies;
use super::growth::{Growth, MAX_STAGES};
use super::moves::Inserted;
use super::{CopyRule, Cuckoo, CuckooShape, GrowingCuckooBuilder};
use crate::arch::CHUNK;
use crate::bits::{Owned, Shared, Store};
use crate::chain::Chain;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, WordDigests, check_lengths};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::cuckoo::LEADING;
use crate::math::estimate::Estimate;
use crate::math::scalable::{Tightening, chain_rate};
use crate::promise::{Insertion, Promise, WhenFull, full, insert_each_in_turn, kept};

/// Digests that a batch works on at a time, through all stages: 4 KB of digests stay in the first-level cache.
const BATCH: usize = 8 * CHUNK;

/// A cuckoo filter that grows by stages and keeps its rate over all of them.
///
/// ```
/// use bloomgate::cuckoo::GrowingCuckoo;
///
/// let mut seen = GrowingCuckoo::builder().keys::<u64>().items(1_000).rate(0.01).build()?;
/// for key in 0..20_000u64 {
///     seen.insert(&key)?;
/// }
/// assert!(seen.stages() > 1 && seen.expected_rate() <= 0.01);
/// assert!(seen.contains(&19_999u64)?);
/// assert!(seen.remove(&19_999u64)?);
/// # Ok::<(), bloomgate::Error>(())
/// ```
///
/// In [`Shared`] form it grows while many threads ask: [`build_shared`](GrowingCuckooBuilder::build_shared).
pub struct GrowingCuckoo<S: Store = Owned> {
    contract: Contract,
    promise: Promise,
    growth: Growth,
    chain: Chain<Cuckoo<S>>,
    /// Held while the chain is changed: which stage a key goes to, or leaves, depends on all of them.
    writer: Mutex<()>,
}

impl<S: Store> GrowingCuckoo<S> {
    pub(crate) fn from_parts(
        contract: Contract,
        promise: Promise,
        growth: Growth,
        stages: Vec<Cuckoo<S>>,
    ) -> Result<Self> {
        let nested = stages.windows(2).all(|pair| {
            let (older, newer) = (pair[0].shape(), pair[1].shape());
            newer.buckets().is_multiple_of(older.buckets())
                && (newer.buckets() / older.buckets()).is_power_of_two()
                && newer.fingerprint_bits() >= older.fingerprint_bits()
        });
        let wide = stages.iter().all(|stage| stage.shape().fingerprint_bits() >= LEADING);
        let agreed =
            stages.iter().all(|stage| *stage.contract() == contract && stage.shape().copies() == growth.copies);
        let count = stages.len();
        let refused = || {
            Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "a cuckoo chain has 1 to {MAX_STAGES} stages of one contract and one rule for copies, with fingerprints of at least \
                     {LEADING} bits, each with a power of two times the buckets of the one before it and fingerprints \
                     that are no narrower; these {count} are not such a chain",
                ),
            )
        };
        if !nested || !wide || !agreed {
            return Err(refused());
        }
        let chain = Chain::of(stages).ok_or_else(refused)?;
        Ok(Self { contract, promise, growth, chain, writer: Mutex::new(()) })
    }

    /// The open stages, oldest first.
    pub(crate) fn each_stage(&self) -> impl DoubleEndedIterator<Item = &Cuckoo<S>> {
        self.chain.each()
    }

    /// Whether a key may be there: false is certain, true is "maybe".
    #[doc(alias = "mightContain")]
    pub fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.contains_digest(self.contract.digest(key)?))
    }

    /// [`contains`](Self::contains) for a digest made elsewhere under the same contract.
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        // Newest first: it is the largest; and a removal beside us that takes this key's copy leaves it one in an
        // older stage, which we then still have before us.
        self.each_stage().rev().any(|stage| stage.contains_digest(digest))
    }

    /// Asks for many keys at once. `answers[i]` is the answer for `keys[i]`; both must be of one length.
    pub fn contains_batch<K: Key>(&self, keys: &[K], answers: &mut [bool]) -> Result<()> {
        check_lengths(keys.len(), answers.len())?;
        let mut digests = [Digest::default(); BATCH];
        for (keys, answers) in keys.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let (digests, filled) = hash(&self.contract, keys, &mut digests);
            filled?;
            self.contains_digests(digests, answers)?;
        }
        Ok(())
    }

    /// [`contains_batch`](Self::contains_batch) for digests.
    pub fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        check_lengths(digests.len(), answers.len())?;
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

    /// How many copies of a key's fingerprint there are, over all stages: never fewer than the key was inserted (less
    /// removals), except that four in one stage mean "four or more" where copies stick; sometimes more, when another key looks
    /// the same.
    #[doc(alias = "count")]
    pub fn count_of<K: Key + ?Sized>(&self, key: &K) -> Result<u64> {
        self.count_of_digest(self.contract.digest(key)?)
    }

    /// [`count_of`](Self::count_of) for a digest made elsewhere under the same contract. Below
    /// [`max_copies`](Self::max_copies) one more copy sticks in no stage, and is not refused as one too many.
    pub fn count_of_digest(&self, digest: Digest) -> Result<u64> {
        Ok(self.each_stage().map(|stage| u64::from(stage.copies_of(digest))).sum())
    }

    /// The most copies of one key that are held and removed exactly, over all stages: 3, or 8 where copies are
    /// [exact](CopyRule::Exact).
    #[must_use]
    pub fn max_copies(&self) -> u64 {
        self.growth.copies.max_copies()
    }

    /// The newest stage in which a key seems to be, and whether it sticks in any. Refused where one more would be one copy
    /// too many.
    fn known(&self, digest: Digest) -> Result<(Option<usize>, bool)> {
        let (mut newest, mut sticks, mut all) = (None, false, 0);
        for (at, stage) in self.each_stage().enumerate() {
            let copies = stage.copies_of(digest);
            if copies > 0 {
                newest = Some(at);
            }
            sticks |= self.growth.copies.sticks(copies);
            all += u64::from(copies);
        }
        if self.growth.copies == CopyRule::Exact && all >= self.max_copies() {
            return Err(too_many_copies());
        }
        Ok((newest, sticks))
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::GrowingCuckoo
    }

    /// What a "no" means: the key was never inserted, or was removed as often as inserted.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        Kind::GrowingCuckoo.guarantee()
    }

    kept!(contract, promise, when_full, promised_rate, is_empty);

    /// Runs `work` while nobody can change the chain.
    pub(crate) fn at_rest<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let _one_at_a_time = self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Writers of a stage hold the lock of the chain: one that ended half-way shows in its stage.
        for stage in self.each_stage() {
            stage.at_rest(|| ())?;
        }
        Ok(work())
    }

    pub(crate) fn growth_rule(&self) -> Growth {
        self.growth
    }

    /// How many stages are open.
    #[must_use]
    pub fn stages(&self) -> usize {
        self.each_stage().count()
    }

    /// The shapes of the open stages, oldest first.
    pub fn shapes(&self) -> impl Iterator<Item = CuckooShape> {
        self.each_stage().map(|stage| *stage.shape())
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

    /// Fingerprints in all stages: keys inserted less keys removed. A key inserted twice counts twice; when it sticks it
    /// is counted no more.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.each_stage().map(Cuckoo::len).sum()
    }

    /// How many keys the open stages were made for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.each_stage().map(Cuckoo::capacity).sum()
    }

    /// How many more keys fit before another stage is opened.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.each_stage().map(Cuckoo::remaining).sum()
    }

    /// Whether the open stages hold what they were made for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.remaining() == 0
    }

    /// The exact expected rate of the chain with what is in it now.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        // What a stage holds beyond its capacity are copies, which add nothing to the rate.
        chain_rate(self.each_stage().map(|stage| stage.expected_rate_at(stage.len().min(stage.capacity()))))
    }

    /// The rate that the slots as they are will show; a little too high when keys came more than once. Reads all slots.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        chain_rate(self.each_stage().map(Cuckoo::estimated_rate))
    }

    /// The memory of all stages, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.each_stage().map(Cuckoo::size_in_bytes).sum()
    }

    /// The share of slots that are in use, over all stages. Reads all slots.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        let slots: u64 = self.each_stage().map(|stage| stage.shape().slots()).sum();
        self.each_stage().map(Cuckoo::used_slots).sum::<u64>() as f64 / slots as f64
    }

    /// How many keys the slots speak of; each counts as often as it is there. Reads all slots.
    #[must_use]
    pub fn approximate_count(&self) -> Estimate {
        self.each_stage().map(Cuckoo::approximate_count).fold(Default::default(), |sum, one| sum + one)
    }

    /// The memory that the next stage will take, in bytes; 0 for a chain that refuses instead of growing. Refused where
    /// there can be no further stage.
    pub fn next_stage_bytes(&self) -> Result<u64> {
        if self.promise.when_full != WhenFull::Grow {
            return Ok(0);
        }
        let open = self.stages();
        if open >= MAX_STAGES {
            return Err(full(Kind::GrowingCuckoo, self.capacity()));
        }
        Ok(self.growth.stage(self.promise.rate, open)?.0.words() * 8)
    }

    /// The stage that is made next, empty; refused when the chain may not have it.
    fn next_stage(&self, at: usize) -> Result<Cuckoo<Owned>> {
        if at >= MAX_STAGES || (at > 0 && self.promise.when_full != WhenFull::Grow) {
            return Err(full(Kind::GrowingCuckoo, self.capacity()));
        }
        if at > 0 && self.len() < self.growth.least(at, self.capacity()) {
            return Err(crowded(self.len(), self.capacity()));
        }
        let (shape, promise) = self.growth.stage(self.promise.rate, at)?;
        Cuckoo::empty(shape, self.contract.clone(), promise)
    }
}

/// The refusal of a key that finds no room in a chain that is almost empty: the keys have the same two buckets in every
/// stage, and no number of stages helps against those. By chance that does not happen.
#[cold]
fn crowded(len: u64, capacity: u64) -> Error {
    Error::new(
        ErrorKind::Full,
        format!(
            "the growing-cuckoo filter has no slot for this key, though it holds only {len} of {capacity} keys, and does \
             not grow for it: the keys crowd in a few buckets; nothing was changed. Hash under a secret the keys that \
             strangers choose"
        ),
    )
}

/// Hashes up to a batch of keys; when one is refused, the digests of those before it come with the refusal.
fn hash<'a, K: Key>(contract: &Contract, keys: &[K], digests: &'a mut [Digest; BATCH]) -> (&'a [Digest], Result<()>) {
    match WordDigests::of(contract, keys) {
        Some(words) => fill(words, digests),
        None => fill(KeyDigests { contract, keys }, digests),
    }
}

fn fill(mut from: impl Digests, digests: &mut [Digest; BATCH]) -> (&[Digest], Result<()>) {
    let mut count = 0;
    while let Some((_, rest)) = digests.split_at_mut_checked(count)
        && let Some(chunk) = rest.first_chunk_mut::<CHUNK>()
    {
        match from.next(chunk) {
            Ok(0) => break,
            Ok(filled) => count += filled,
            Err(refused) => return (&digests[..count], Err(refused)),
        }
    }
    (&digests[..count], Ok(()))
}

/// Whether a stage took the key; a stage without room is no error, another one may have it.
fn taken(inserted: Result<bool>) -> Result<bool> {
    match inserted {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Full => Ok(false),
        Err(error) => Err(error),
    }
}

impl GrowingCuckoo<Owned> {
    /// Starts a chain: `.items(n)` is the first stage (10,000 if not said), `.rate(p)` holds for the whole chain.
    #[must_use]
    pub fn builder() -> GrowingCuckooBuilder {
        GrowingCuckooBuilder::new()
    }

    /// Inserts a key; true if it was certainly new, false if it (or one that looks the same) was there before.
    ///
    /// A key inserted twice is there twice and must be removed twice; the fourth copy in a stage makes it stick (see the
    /// [module](super)). Where copies are [exact](CopyRule::Exact), up to eight over all stages go one by one, and the ninth
    /// is refused with [`ErrorKind::Full`].
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        let (known, sticks) = self.known(digest)?;
        if sticks {
            return Ok(false);
        }
        // A copy goes where the others are: so copies come to stick in one stage, and never open another.
        if let Some(stage) = known.and_then(|at| self.chain.get_mut(at))
            && taken(stage.insert_digest(digest))?
        {
            return Ok(false);
        }
        self.add(digest)?;
        Ok(known.is_none())
    }

    /// Puts a key in the newest stage with room, or in a new one; the stage.
    fn add(&mut self, digest: Digest) -> Result<usize> {
        let open = self.chain.open();
        for at in (0..open).rev() {
            if let Some(stage) = self.chain.get_mut(at).filter(|stage| !stage.is_full())
                && taken(stage.insert_digest(digest))?
            {
                return Ok(at);
            }
        }
        let mut stage = self.next_stage(open)?;
        stage.insert_digest(digest)?;
        self.chain.push(stage);
        Ok(open)
    }

    /// Inserts many keys at once; how many were certainly new.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<u64> {
        let contract = self.contract.clone();
        let mut digests = [Digest::default(); BATCH];
        let mut fresh = 0;
        let mut rest = keys;
        while !rest.is_empty() {
            let now = &rest[..rest.len().min(BATCH)];
            let (digests, filled) = hash(&contract, now, &mut digests);
            fresh += self.insert_digests(digests)?;
            filled?;
            rest = &rest[digests.len()..];
        }
        Ok(fresh)
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
        let mut fresh = 0;
        for digests in digests.chunks(BATCH) {
            let mut found = [false; BATCH];
            self.contains_digests(digests, &mut found[..digests.len()])?;
            // While keys that nobody knew go to one stage, that stage alone can have come to know the next one.
            let newest = self.newest_with_room();
            for (&digest, found) in digests.iter().zip(found) {
                let alone = !found && newest.is_some() && newest == self.newest_with_room();
                fresh += u64::from(match newest.and_then(|at| self.chain.get_mut(at)).filter(|_| alone) {
                    Some(stage) => match stage.insert_digest(digest) {
                        Err(error) if error.kind() == ErrorKind::Full => self.insert_digest(digest)?,
                        inserted => inserted?,
                    },
                    None => self.insert_digest(digest)?,
                });
            }
        }
        Ok(fresh)
    }

    fn newest_with_room(&self) -> Option<usize> {
        self.each_stage().enumerate().filter(|(_, stage)| !stage.is_full()).last().map(|(at, _)| at)
    }

    /// Inserts everything an iterator gives; how many were certainly new.
    pub fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        keys.into_iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(&key)?)))
    }

    /// Removes a key that was inserted; false if it was certainly absent, and then nothing changed.
    ///
    /// **Only remove what you inserted**: a key that was not, but seems to be there, takes another key's fingerprint
    /// with it. True does not mean that the key is gone: it may have been inserted more often, or stick.
    #[doc(alias = "delete")]
    pub fn remove<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        Ok(self.remove_digest(self.contract.digest(key)?))
    }

    /// [`remove`](Self::remove) for a digest made elsewhere under the same contract.
    pub fn remove_digest(&mut self, digest: Digest) -> bool {
        let open = self.chain.open();
        (0..open).rev().any(|at| self.chain.get_mut(at).is_some_and(|stage| stage.remove_digest(digest)))
    }

    /// Moves keys from the newest stages to older ones that have room again, and gives back the memory of those that
    /// became empty; how many did. Worth it after many keys were removed.
    pub fn compact(&mut self) -> usize {
        let mut freed = 0;
        for at in (1..self.chain.open()).rev() {
            let Some(mut newest) = self.chain.take(at) else { continue };
            let shape = *newest.shape();
            newest.drain(|bucket, fingerprint, copies| {
                (0..at).rev().any(|older| {
                    let Some(stage) = self.chain.get_mut(older) else { return false };
                    // One that sticks may stand for many keys: it goes only where it sticks already.
                    let move_in = !shape.copies().sticks(copies);
                    let moved = stage.adopt(&shape, bucket, fingerprint, move_in);
                    matches!(moved, Inserted::New | Inserted::Copy | Inserted::Sticky)
                })
            });
            if newest.used_slots() == 0 && self.chain.open() == at + 1 {
                self.chain.close();
                freed += 1;
            } else {
                self.chain.put_back(at, newest);
            }
        }
        freed
    }

    /// Forgets everything and goes back to one stage.
    pub fn clear(&mut self) -> Result<()> {
        let first = self.next_stage(0)?;
        *self = Self::from_parts(self.contract.clone(), self.promise, self.growth, vec![first])?;
        Ok(())
    }

    /// The same chain for many threads at once. Moves; nothing is copied.
    pub fn into_shared(self) -> Result<GrowingCuckoo<Shared>> {
        let stages = self.chain.into_stages().map(Cuckoo::into_shared);
        GrowingCuckoo::from_parts(self.contract, self.promise, self.growth, stages.collect::<Result<_>>()?)
    }
}

impl GrowingCuckoo<Shared> {
    /// Inserts a key; true if it was certainly new, false if it (or one that looks the same) was there before.
    ///
    /// One thread at a time changes the chain; lookups go on beside it without a lock, also while it grows.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&self, digest: Digest) -> Result<bool> {
        let _one_at_a_time = self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(new) = self.insert_in_open(digest)? {
            return Ok(new);
        }
        let mut stage = self.next_stage(self.chain.open())?;
        let known = self.contains_digest(digest);
        stage.insert_digest(digest)?;
        self.chain.push(stage.into_shared()?);
        Ok(!known)
    }

    /// Inserts a digest if the stages that are open have room for it, and never opens another: where one would have to be,
    /// or the digest is refused, it is [`Full`](Insertion::Full) and nothing has changed. For whoever must find the memory
    /// of the [next stage](Self::next_stage_bytes) first: stages are full a little before or after their capacity, as it
    /// happens.
    ///
    /// ```
    /// use bloomgate::{Insertion, cuckoo::GrowingCuckoo};
    ///
    /// let seen = GrowingCuckoo::builder().items(100).build_shared()?;
    /// let mut keys = (0..).map(|key: u32| seen.contract().digest(&format!("{key}")));
    /// let mut digest = keys.next().unwrap()?;
    /// while seen.insert_in_place(digest)? != Insertion::Full {
    ///     digest = keys.next().unwrap()?;
    /// }
    /// assert!(seen.stages() == 1 && !seen.contains_digest(digest));
    /// let room = seen.next_stage_bytes()?; // found by the caller
    /// assert!(seen.insert_digest(digest)? && seen.stages() == 2 && room > 0);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    pub fn insert_in_place(&self, digest: Digest) -> Result<Insertion> {
        let _one_at_a_time = self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match self.insert_in_open(digest).transpose() {
            None => Ok(Insertion::Full),
            Some(inserted) => Insertion::of(inserted),
        }
    }

    /// Inserts a digest in a stage that is open, if one has room; whether it was certainly new.
    fn insert_in_open(&self, digest: Digest) -> Result<Option<bool>> {
        let (known, sticks) = self.known(digest)?;
        if sticks {
            return Ok(Some(false));
        }
        if let Some(stage) = known.and_then(|at| self.chain.get(at))
            && taken(stage.insert_digest(digest))?
        {
            return Ok(Some(false));
        }
        for stage in self.each_stage().rev().filter(|stage| !stage.is_full()) {
            if taken(stage.insert_digest(digest))? {
                return Ok(Some(known.is_none()));
            }
        }
        Ok(None)
    }

    /// Inserts many keys at once; how many were certainly new.
    pub fn insert_batch<K: Key>(&self, keys: &[K]) -> Result<u64> {
        keys.iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(key)?)))
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&self, digests: &[Digest]) -> Result<u64> {
        digests.iter().try_fold(0, |fresh, &digest| Ok(fresh + u64::from(self.insert_digest(digest)?)))
    }

    insert_each_in_turn!();

    /// Inserts everything an iterator gives; how many were certainly new.
    pub fn insert_all<K: Key>(&self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        keys.into_iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(&key)?)))
    }

    /// Removes a key that was inserted; false if it was certainly absent, and then nothing changed.
    ///
    /// **Only remove what you inserted**: a key that was not, but seems to be there, takes another key's fingerprint
    /// with it.
    #[doc(alias = "delete")]
    pub fn remove<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.remove_digest(self.contract.digest(key)?))
    }

    /// [`remove`](Self::remove) for a digest made elsewhere under the same contract.
    pub fn remove_digest(&self, digest: Digest) -> bool {
        let _one_at_a_time = self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.each_stage().rev().any(|stage| stage.remove_digest(digest))
    }

    /// Forgets everything and goes back to one stage; takes the only reference.
    pub fn clear(&mut self) -> Result<()> {
        let first = self.next_stage(0)?.into_shared()?;
        *self = Self::from_parts(self.contract.clone(), self.promise, self.growth, vec![first])?;
        Ok(())
    }

    /// The same chain for one owner. Moves; nothing is copied.
    pub fn into_owned(self) -> Result<GrowingCuckoo<Owned>> {
        let stages = self.chain.into_stages().map(Cuckoo::into_owned);
        GrowingCuckoo::from_parts(self.contract, self.promise, self.growth, stages.collect::<Result<_>>()?)
    }
}

impl Clone for GrowingCuckoo<Owned> {
    fn clone(&self) -> Self {
        let chain = self.chain.clone();
        let (contract, promise, growth) = (self.contract.clone(), self.promise, self.growth);
        Self { contract, promise, growth, chain, writer: Mutex::new(()) }
    }
}

/// Same contract, same stages with the same slots.
impl<A: Store, B: Store> PartialEq<GrowingCuckoo<B>> for GrowingCuckoo<A> {
    fn eq(&self, other: &GrowingCuckoo<B>) -> bool {
        self.contract == other.contract
            && self.stages() == other.stages()
            && self.each_stage().zip(other.each_stage()).all(|(a, b)| a == b)
    }
}

impl<S: Store> fmt::Debug for GrowingCuckoo<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrowingCuckoo")
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("growth", &self.growth)
            .field("stages", &self.stages())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
