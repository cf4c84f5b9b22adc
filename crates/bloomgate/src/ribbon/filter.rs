//! [`Ribbon`]: asking.

use std::fmt;

use super::{RibbonBuilder, RibbonShape};
use crate::arch::CHUNK;
use crate::arch::ribbon::{Gate, OneByOne, Open, Plan, Probe, SumJob, Sums, dispatch};
use crate::arch::words::ReadWords;
use crate::bits::{HugePages, Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, WordDigests, check_lengths};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::promise::{Promise, kept};

/// A filter of a set that never changes, within 1 % of the least size there is.
///
/// ```
/// use bloomgate::ribbon::Ribbon;
///
/// let blocked: Vec<u64> = (0..10_000).map(|i| i * i).collect();
/// let filter = Ribbon::builder().rate(0.01).keys::<u64>().build_from_slice(&blocked)?;
/// assert!(filter.contains(&49u64)?);   // maybe there
/// assert_eq!(filter.len(), 10_000);
/// assert!(filter.size_in_bytes() * 8 < 73 * 1_000);
/// # Ok::<(), bloomgate::Error>(())
/// ```
///
/// It is built from all keys at once, and there is no `insert`: every column has a part in many keys. Two of them are
/// mergeable only by rebuild.
///
/// ```compile_fail,E0599
/// # use bloomgate::ribbon::Ribbon;
/// # let mut filter = Ribbon::builder().keys::<u64>().build_from_slice(&[1u64]).unwrap();
/// filter.insert(&2u64);
/// ```
pub struct Ribbon<S: Store = Owned> {
    shape: RibbonShape,
    /// Where everything is; nothing in the filter of no keys.
    plan: Option<Plan>,
    contract: Contract,
    promise: Promise,
    len: u64,
    store: S,
}

/// Thresholds in a place that may not be believed.
struct Admitted<'a, S>(&'a S);

impl<S: Store> Gate for Admitted<'_, S> {
    #[inline]
    fn admits(&self, word: usize) -> bool {
        self.0.admit(word)
    }
}

/// Asking, in any place.
impl<S: Store> Ribbon<S> {
    pub(crate) fn from_parts(
        shape: RibbonShape,
        contract: Contract,
        promise: Promise,
        len: u64,
        store: S,
    ) -> Result<Self> {
        let words = store.words().count() as u64;
        if words != shape.words() {
            let message = format!("a ribbon filter of {} words cannot lie in {words}; rebuild it", shape.words());
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let plan = shape.plan();
        if plan.is_none() != (len == 0) {
            let layers = shape.columns().len();
            let message =
                format!("a ribbon filter of {len} keys cannot have {layers} layers; rebuild it from its keys");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok(Self { shape, plan, contract, promise, len, store })
    }

    /// Whether a key may be in the set: false is certain, true is "maybe".
    ///
    /// An error means that the key cannot be written in the filter's encoding; that is not a "no".
    #[doc(alias = "mightContain")]
    #[doc(alias = "might_contain")]
    #[doc(alias = "check")]
    #[inline]
    pub fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.contains_digest(self.contract.digest(key)?))
    }

    /// [`contains`](Self::contains) for a digest made elsewhere under the same contract.
    #[doc(alias = "contains_hash")]
    #[inline]
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        if S::CHECKED && !self.store.admitted() {
            return self.contains_checked(digest);
        }
        dispatch(ContainsOne { plan: self.plan.as_ref(), words: self.store.words(), digest })
    }

    /// Asks for many keys at once, several times faster than one by one when the filter is larger than the caches.
    /// `answers[i]` is the answer for `keys[i]`; both must be of one length.
    #[doc(alias = "contains_many")]
    pub fn contains_batch<K: Key>(&self, keys: &[K], answers: &mut [bool]) -> Result<()> {
        check_lengths(keys.len(), answers.len())?;
        if let Some(words) = WordDigests::of(&self.contract, keys) {
            return self.contains_all(words, answers);
        }
        self.contains_all(KeyDigests { contract: &self.contract, keys }, answers)
    }

    /// [`contains_batch`](Self::contains_batch) for digests.
    pub fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        check_lengths(digests.len(), answers.len())?;
        self.contains_all(digests, answers)
    }

    fn contains_all(&self, mut digests: impl Digests, answers: &mut [bool]) -> Result<()> {
        match &self.plan {
            Some(plan) if !S::CHECKED || self.store.admitted() => {
                dispatch(ContainsAll { plan, words: self.store.words(), digests, answers })
            }
            // Word by word: these are verified as they are touched, and then it goes the fast way.
            _ => {
                let mut chunk = [Digest::default(); CHUNK];
                let mut answers = answers.iter_mut();
                loop {
                    let count = digests.next(&mut chunk)?;
                    if count == 0 {
                        return Ok(());
                    }
                    for (&digest, answer) in chunk[..count].iter().zip(&mut answers) {
                        *answer = self.contains_digest(digest);
                    }
                }
            }
        }
    }

    /// A lookup that believes no word before it was verified.
    fn contains_checked(&self, digest: Digest) -> bool {
        let Some(plan) = &self.plan else { return !self.store.admit(0) };
        let words = self.store.words();
        let Some(probe) = plan.find(words, digest, Admitted(&self.store)) else { return true };
        // A run of at most 32 words has its ends in all chunks that it lies in.
        !probe.ends(plan.bits).into_iter().all(|word| self.store.admit(word)) || plan.answer(words, &probe, OneByOne)
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::Ribbon
    }

    /// What a "no" means: that the key is not in the set.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        Kind::Ribbon.guarantee()
    }

    kept!(contract, promise, promised_rate, is_empty, built_once);

    /// The numbers that fix the memory.
    #[must_use]
    pub fn shape(&self) -> &RibbonShape {
        &self.shape
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    /// The memory of the filter, in bytes: columns and thresholds.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.shape.words() * 8
    }

    /// Whether the memory is on huge pages.
    #[must_use]
    pub fn huge_pages(&self) -> HugePages {
        self.store.huge_pages()
    }

    /// Bytes of the memory that are on huge pages right now, as the kernel counts them (Linux; 0 elsewhere).
    #[must_use]
    pub fn huge_bytes(&self) -> u64 {
        self.store.huge_bytes()
    }

    /// Keys per column: about 1, and less for sets of a few hundred. (With one or two result bits it may pass 1: some
    /// equations come for nothing.)
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        let columns: u64 = self.shape.columns().iter().sum();
        if columns == 0 { 0.0 } else { self.len as f64 / columns as f64 }
    }
}

/// One lookup, compiled for this processor.
struct ContainsOne<'a, W> {
    plan: Option<&'a Plan>,
    words: W,
    digest: Digest,
}

impl<W: ReadWords> SumJob for ContainsOne<'_, W> {
    type Output = bool;
    #[inline(always)]
    fn run(self, sums: impl Sums) -> bool {
        let Some(plan) = self.plan else { return false };
        match plan.find(self.words, self.digest, Open) {
            Some(probe) => plan.answer(self.words, &probe, sums),
            None => true,
        }
    }
}

/// A batch of lookups, compiled for this processor.
struct ContainsAll<'a, W, D> {
    plan: &'a Plan,
    words: W,
    digests: D,
    answers: &'a mut [bool],
}

/// Finds where a key's sums are, and asks memory for them.
#[inline(always)]
fn ask<W: ReadWords>(plan: &Plan, words: W, digest: Digest) -> Probe {
    // `Open` refuses nothing.
    let probe = plan.find(words, digest, Open).unwrap_or_default();
    plan.fetch(words, &probe);
    probe
}

impl<W: ReadWords, D: Digests> SumJob for ContainsAll<'_, W, D> {
    type Output = Result<()>;

    /// Sums up one chunk while memory brings the words of the next.
    #[inline(always)]
    fn run(self, sums: impl Sums) -> Result<()> {
        let Self { plan, words, digests: mut source, mut answers } = self;
        let mut digests = [Digest::default(); CHUNK];
        let mut probes = [Probe::default(); CHUNK];
        let mut waiting = 0;
        loop {
            let filled = source.next(&mut digests);
            let coming = (*filled.as_ref().unwrap_or(&0)).min(CHUNK);
            let both = coming.min(waiting);
            let (now, rest) = std::mem::take(&mut answers).split_at_mut(waiting);
            // The place of the key that is answered is free for the one that comes.
            for ((place, answer), &digest) in probes.iter_mut().zip(now.iter_mut()).zip(&digests[..coming]) {
                let probe = std::mem::replace(place, ask(plan, words, digest));
                *answer = plan.answer(words, &probe, sums);
            }
            for (probe, answer) in probes[both..].iter().zip(&mut now[both..]) {
                *answer = plan.answer(words, probe, sums);
            }
            for (place, &digest) in probes[both..].iter_mut().zip(&digests[both..coming]) {
                *place = ask(plan, words, digest);
            }
            filled?;
            if coming == 0 {
                return Ok(());
            }
            answers = rest;
            waiting = coming.min(answers.len());
        }
    }
}

impl Ribbon<Owned> {
    /// Starts a filter: `.rate(p)`, `.keys::<K>()`, then `build_from`, `build_from_slice` or `build_from_digests`.
    #[must_use]
    pub fn builder() -> RibbonBuilder {
        RibbonBuilder::new()
    }
}

impl Clone for Ribbon<Owned> {
    fn clone(&self) -> Self {
        // The original was allocated, so a refusal here is the same as any failed allocation of a clone.
        let mut store = Owned::zeroed(self.shape.words()).expect("memory for a clone");
        store.as_mut_slice().copy_from_slice(self.store.as_slice());
        Self { contract: self.contract.clone(), store, ..*self }
    }
}

/// Same contract, same shape, same bits; and so the same answers.
impl<A: Store, B: Store> PartialEq<Ribbon<B>> for Ribbon<A> {
    fn eq(&self, other: &Ribbon<B>) -> bool {
        let (a, b) = (self.store.words(), other.store.words());
        self.shape == other.shape
            && self.contract == other.contract
            && (0..a.count()).all(|at| a.load(at) == b.load(at))
    }
}

impl<S: Store> fmt::Debug for Ribbon<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ribbon")
            .field("shape", &self.shape)
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
