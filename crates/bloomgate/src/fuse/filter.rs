//! [`Fuse`]: three cells that xor to the key's fingerprint.

use std::fmt;

use super::{FuseBuilder, FuseShape};
use crate::arch::fuse::{Lookups, Places, contains};
use crate::arch::words::ReadWords;
use crate::arch::{CHUNK, Job, dispatch};
use crate::bits::{HugePages, Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, WordDigests, check_lengths};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::promise::{Promise, kept};

/// A binary fuse filter: built once from a whole set, then only asked. See [the module](super).
///
/// ```
/// use bloomgate::fuse::Fuse;
///
/// let blocked = Fuse::builder().rate(0.01).build_from(["spam.example", "phish.example"])?;
/// assert!(blocked.contains("spam.example")?);  // maybe there
/// assert!(!blocked.contains("good.example")?); // certainly not there
/// assert_eq!(blocked.len(), 2);
/// # Ok::<(), bloomgate::Error>(())
/// ```
///
/// There is no `insert`: every cell is part of many keys' sums. Keep the keys and build again.
///
/// ```compile_fail,E0599
/// # let mut set = bloomgate::fuse::Fuse::builder().build_from(["a"]).unwrap();
/// set.insert("b");
/// ```
pub struct Fuse<S: Store = Owned> {
    shape: FuseShape,
    contract: Contract,
    promise: Promise,
    len: u64,
    store: S,
}

/// Asking, in any place.
impl<S: Store> Fuse<S> {
    /// A filter from what was saved of one; refused if its numbers do not agree.
    pub(crate) fn from_parts(
        shape: FuseShape,
        contract: Contract,
        promise: Promise,
        len: u64,
        store: S,
    ) -> Result<Self> {
        let words = store.words().count() as u64;
        if words != shape.words() || len > shape.cells() || (len == 0) != shape.is_of_nothing() {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "a fuse filter of {len} keys in {} cells has {words} words; {} words, keys if there are cells, and no more of \
                     them, expected: fetch the file again",
                    shape.cells(),
                    shape.words()
                ),
            ));
        }
        Ok(Self { shape, contract, promise, len, store })
    }

    /// Whether a key may be in the set: false is certain, true is "maybe".
    ///
    /// An error means that the key cannot be written in the filter's encoding; that is not a "no".
    #[doc(alias = "mightContain")]
    #[inline]
    pub fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.contains_digest(self.contract.digest(key)?))
    }

    /// [`contains`](Self::contains) for a digest made elsewhere under the same contract.
    #[inline]
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        if self.shape.is_of_nothing() {
            return false;
        }
        if S::CHECKED && !self.store.admitted() && !self.admit(digest.lo) {
            return true;
        }
        contains(self.shape.places, self.store.words(), digest.lo)
    }

    /// Asks for many keys at once, several times faster than one by one when the filter is larger than the caches.
    /// `answers[i]` is the answer for `keys[i]`; both must be of one length.
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

    fn contains_all(&self, digests: impl Digests, answers: &mut [bool]) -> Result<()> {
        if self.shape.is_of_nothing() || (S::CHECKED && !self.store.admitted()) {
            return self.contains_checked(digests, answers);
        }
        dispatch(ContainsAll { places: self.shape.places, words: self.store.words(), digests, answers })
    }

    /// A batch over words that are not all verified, or over none: keys are still refused if they have to be.
    fn contains_checked(&self, mut digests: impl Digests, mut answers: &mut [bool]) -> Result<()> {
        let mut chunk = [Digest::default(); CHUNK];
        loop {
            let now = match digests.next(&mut chunk)? {
                0 => return Ok(()),
                count => &chunk[..count],
            };
            let (done, rest) = std::mem::take(&mut answers).split_at_mut(now.len());
            if !self.shape.is_of_nothing() && now.iter().all(|digest| self.admit(digest.lo)) {
                let words = self.store.words();
                dispatch(ContainsAll { places: self.shape.places, words, digests: now, answers: done })?;
            } else {
                now.iter().zip(done).for_each(|(&digest, answer)| *answer = self.contains_digest(digest));
            }
            answers = rest;
        }
    }

    /// Whether every word that this half of a digest reads may be believed.
    fn admit(&self, lo: u64) -> bool {
        self.shape.places.each_word(lo, |word| self.store.admit(word))
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::Fuse
    }

    /// What a "no" means: the key was not in the set.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        Kind::Fuse.guarantee()
    }

    kept!(contract, promise, promised_rate, is_empty, built_once);

    /// Its cells, and the seed by which they were solved.
    #[must_use]
    pub fn shape(&self) -> &FuseShape {
        &self.shape
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    /// The bits of a fingerprint.
    #[must_use]
    pub fn fingerprint_bits(&self) -> u32 {
        self.shape.fingerprint_bits()
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

    /// Bytes of the memory that are on huge pages right now, as the kernel counts them (Linux; 0 elsewhere).
    #[must_use]
    pub fn huge_bytes(&self) -> u64 {
        self.store.huge_bytes()
    }

    /// The share of cells that were needed: one a key, 0.88 of all from a million keys on.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.len as f64 / self.shape.cells().max(1) as f64
    }
}

/// Building.
impl Fuse<Owned> {
    /// Starts a filter: `.rate(p)`, then `.build_from(keys)`.
    #[must_use]
    pub fn builder() -> FuseBuilder {
        FuseBuilder::new()
    }
}

/// A batch of lookups, compiled for this processor.
struct ContainsAll<'a, W, D> {
    places: Places,
    words: W,
    digests: D,
    answers: &'a mut [bool],
}

impl<W: ReadWords, D: Digests> Job for ContainsAll<'_, W, D> {
    type Output = Result<()>;
    #[inline(always)]
    fn run(mut self) -> Result<()> {
        let mut lookups = Lookups::new(self.places, self.words);
        let mut chunk = [0; CHUNK];
        let mut answers = self.answers;
        loop {
            let coming = self.digests.next_lo(&mut chunk);
            let count = *coming.as_ref().unwrap_or(&0);
            let (done, rest) = answers.split_at_mut(lookups.waiting());
            lookups.step(&chunk[..count], done);
            answers = rest;
            if coming? == 0 {
                return Ok(());
            }
        }
    }
}

impl Clone for Fuse<Owned> {
    fn clone(&self) -> Self {
        // The original was allocated, so a refusal here is the same as any failed allocation of a clone.
        let mut store = Owned::zeroed(self.shape.words()).expect("memory for a clone");
        store.as_mut_slice().copy_from_slice(self.store.as_slice());
        Self { shape: self.shape, contract: self.contract.clone(), promise: self.promise, len: self.len, store }
    }
}

/// Same contract, same shape, same cells: the same set, as far as a filter can tell.
impl<A: Store, B: Store> PartialEq<Fuse<B>> for Fuse<A> {
    fn eq(&self, other: &Fuse<B>) -> bool {
        let (a, b) = (self.store.words(), other.store.words());
        self.shape == other.shape
            && self.contract == other.contract
            && self.is_empty() == other.is_empty()
            && (0..a.count()).all(|at| a.load(at) == b.load(at))
    }
}

impl<S: Store> fmt::Debug for Fuse<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fuse")
            .field("shape", &self.shape)
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
