//! [`Quotient`]: asking, in any place.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use super::QuotientShape;
use super::entries::{Entries, damaged};
use super::table::Copies;
use crate::arch::CHUNK;
use crate::arch::quotient::{ContainsAll, LINE, Lines, Plain, contains, dispatch, window};
use crate::arch::words::{AtomicU64, ReadWords};
use crate::bits::sealed::Sealed;
use crate::bits::version::Version;
use crate::bits::{HugePages, Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, WordDigests, check_lengths};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::estimate::{self, Estimate};
use crate::promise::{Promise, kept};

/// A quotient filter: sorted fingerprints that can be inserted, removed, counted, listed, merged and grown. See the
/// [module](super) for when to take it.
///
/// ```
/// use bloomgate::quotient::Quotient;
///
/// let mut seen = Quotient::builder().keys::<u64>().items(100_000).rate(0.01).build()?;
/// seen.insert(&7u64)?;
/// seen.insert(&7u64)?;
/// assert_eq!(seen.count_of(&7u64)?, 2);
/// assert!(seen.remove(&7u64)? && seen.remove(&7u64)?);
/// assert!(!seen.contains(&7u64)?);
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub struct Quotient<S: Store = Owned> {
    pub(super) first: Table<S>,
    /// The tables that followed the first while others were looking at it (shared filters alone).
    pub(super) later: OnceLock<Box<Later<S>>>,
    pub(super) contract: Contract,
    pub(super) promise: Promise,
    /// Copies in the table.
    pub(super) count: AtomicU64,
    pub(super) version: Version,
    /// Held by the one thread that inserts, removes or grows.
    pub(super) writer: Mutex<()>,
}

/// A shape and its words.
pub(super) struct Table<S> {
    pub(super) shape: QuotientShape,
    pub(super) store: S,
}

/// Each table has twice the slots of the one before it and no interval is wider than 2^48: there are never more.
const MOST_TABLES: usize = 48;

/// The tables of a shared filter that grew. Those before the newest stay while someone may still be reading them, that
/// is, until the filter is dropped or becomes one owner's; together they are about as large as the newest.
pub(super) struct Later<S> {
    pub(super) tables: [OnceLock<Table<S>>; MOST_TABLES],
    /// How many there are.
    pub(super) newest: AtomicUsize,
}

impl<S> Later<S> {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self { tables: std::array::from_fn(|_| OnceLock::new()), newest: AtomicUsize::new(0) })
    }

    fn newest(&self) -> Option<&Table<S>> {
        self.tables.get(self.newest.load(Ordering::Acquire).wrapping_sub(1))?.get()
    }
}

/// Lines that are verified when they are touched; one that fails reads as zero and makes the answer "maybe".
struct Checked<'a, S> {
    store: &'a S,
    bad: &'a Cell<bool>,
}

impl<S> Clone for Checked<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Checked<'_, S> {}

impl<S: Store> Checked<'_, S> {
    fn word(self, block: usize, word: usize) -> u64 {
        let at = block * LINE + word;
        if !self.store.admit(at) {
            self.bad.set(true);
            return 0;
        }
        self.store.words().load(at)
    }
}

impl<S: Store> Lines for Checked<'_, S> {
    fn head(self, block: usize) -> (u64, u64) {
        (self.word(block, 0), self.word(block, 1))
    }

    fn window(self, block: usize, bit: u32) -> u64 {
        window(bit, |at| self.word(block, at))
    }
}

/// Whether other threads may be writing while we read.
pub(super) const fn shared<'a, S: Store + 'a>() -> bool {
    <<S as Sealed>::Read<'a> as ReadWords>::SHARED
}

impl<S: Store> Quotient<S> {
    /// A filter from what a file says of it.
    pub(crate) fn from_parts(
        shape: QuotientShape,
        contract: Contract,
        promise: Promise,
        len: u64,
        store: S,
    ) -> Result<Self> {
        if store.words().count() as u64 != shape.words() || len > shape.all_slots() {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{} words with {len} keys are not those of a quotient filter of {} slots, which has {} words; fetch \
                     the file again",
                    store.words().count(),
                    shape.slots(),
                    shape.words()
                ),
            ));
        }
        Ok(Self::from_table(Table { shape, store }, contract, promise, len))
    }

    pub(super) fn from_table(first: Table<S>, contract: Contract, promise: Promise, len: u64) -> Self {
        let (version, writer) = (Version::new(), Mutex::new(()));
        Self { first, later: OnceLock::new(), contract, promise, count: AtomicU64::new(len), version, writer }
    }

    /// The table as it is now.
    #[inline(always)]
    pub(super) fn table(&self) -> &Table<S> {
        if !shared::<S>() {
            return &self.first;
        }
        self.later.get().and_then(|later| later.newest()).unwrap_or(&self.first)
    }

    /// Whether a key may be there: false is certain, true is "maybe".
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
        if shared::<S>() {
            return self.version.ask(|| self.look_up(digest));
        }
        if S::CHECKED && !self.first.store.admitted() {
            return self.contains_checked(digest);
        }
        self.look_up(digest)
    }

    #[inline(always)]
    fn look_up(&self, digest: Digest) -> bool {
        let Table { shape, store } = self.table();
        contains(shape.geometry(), Plain(store.words()), digest.lo)
    }

    #[cold]
    fn contains_checked(&self, digest: Digest) -> bool {
        let Table { shape, store } = self.table();
        let bad = Cell::new(false);
        let lines = Checked { store, bad: &bad };
        let found = contains(shape.geometry(), lines, digest.lo);
        found || bad.get()
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
        if shared::<S>() || S::CHECKED && !self.first.store.admitted() {
            return self.contains_chunks(digests, answers);
        }
        let Table { shape, store } = &self.first;
        dispatch(ContainsAll { geometry: shape.geometry(), words: store.words(), digests, answers })
    }

    /// A batch over words that others write, or that are not all verified: chunk by chunk.
    fn contains_chunks(&self, mut digests: impl Digests, mut answers: &mut [bool]) -> Result<()> {
        let mut chunk = [Digest::default(); CHUNK];
        loop {
            let now = match digests.next(&mut chunk)? {
                0 => return Ok(()),
                count => &chunk[..count],
            };
            let (done, rest) = std::mem::take(&mut answers).split_at_mut(now.len());
            if shared::<S>() {
                let sure = self.version.ask_all(|| {
                    let Table { shape, store } = self.table();
                    let (geometry, words) = (shape.geometry(), store.words());
                    // Digests are never refused.
                    let _ = dispatch(ContainsAll { geometry, words, digests: now, answers: &mut *done });
                });
                if !sure {
                    done.fill(true);
                }
            } else {
                now.iter().zip(done).for_each(|(&digest, answer)| *answer = self.contains_digest(digest));
            }
            answers = rest;
        }
    }

    /// The slot where the run of a key begins if nothing pushes it on, its block, and the remainder that is kept of the key.
    pub(crate) fn home_of(&self, digest: Digest) -> (u64, u64, u64) {
        let geometry = *self.table().shape.geometry();
        let home = geometry.home(digest.lo);
        (geometry.quotient(home), home.block as u64, home.remainder)
    }

    /// How often a key is there: inserted less removed. Too high by those of other keys with its fingerprint (as often
    /// as the rate says), never too low, and 15 means "15 or more": a fingerprint with that many copies sticks.
    #[doc(alias = "count")]
    pub fn count_of<K: Key + ?Sized>(&self, key: &K) -> Result<u64> {
        self.count_of_digest(self.contract.digest(key)?)
    }

    /// [`count_of`](Self::count_of) for a digest made elsewhere under the same contract.
    pub fn count_of_digest(&self, digest: Digest) -> Result<u64> {
        let count = || {
            let Table { shape, store } = self.table();
            let (geometry, home) = (shape.geometry(), shape.geometry().home(digest.lo));
            if S::CHECKED && !store.admitted() {
                let bad = Cell::new(false);
                let count = dispatch(Copies { geometry, lines: Checked { store, bad: &bad }, home });
                return count.filter(|_| !bad.get());
            }
            dispatch(Copies { geometry, lines: Plain(store.words()), home })
        };
        let mut found = None;
        if shared::<S>() {
            if !self.version.ask_all(|| found = count()) {
                found = None;
            }
        } else {
            found = count();
        }
        found.ok_or_else(damaged)
    }

    /// The blocks of the table, and the slots of each.
    pub(crate) fn blocks(&self) -> (u64, u64) {
        let geometry = self.table().shape.geometry();
        (geometry.blocks, geometry.per_block.into())
    }

    /// How many slots of a block are in use, as its head says: those that runs of earlier blocks take, and then those of its own.
    pub(crate) fn used_in(&self, block: u64) -> u64 {
        let Table { shape, store } = self.table();
        let geometry = shape.geometry();
        let (head, slots) = (geometry.head(Plain(store.words()), block as usize), u64::from(geometry.per_block));
        let (mut used, mut occupied) = (head.offset.min(slots), head.occupied);
        let mut behind = used;
        while occupied != 0 && behind < slots {
            let from = behind.max(u64::from(occupied.trailing_zeros()));
            occupied &= occupied - 1;
            // One that ends in a later block takes the rest of this one.
            behind = (from + u64::from((head.ends >> from).trailing_zeros()) + 1).min(slots);
            used += behind.saturating_sub(from);
        }
        used
    }

    /// The fingerprints of the table, as its words say.
    pub(super) fn entries(&self) -> Entries<S::Read<'_>> {
        let Table { shape, store } = self.table();
        Entries::new(*shape.geometry(), store.words())
    }

    /// Whether every word may be believed: all of a mapped file are verified for this.
    pub(super) fn admit_all(&self) -> bool {
        let Table { shape, store } = self.table();
        !S::CHECKED || (0..shape.words() as usize).step_by(LINE).all(|word| store.admit(word))
    }

    /// A copy of the table and its count, of one moment.
    pub(super) fn copy(&self) -> Result<(Table<Owned>, u64)> {
        if !self.admit_all() {
            return Err(damaged());
        }
        loop {
            let shape = *self.shape();
            let mut store = Owned::zeroed(shape.words())?;
            let mut copied = None;
            let sure = self.version.ask_all(|| {
                // Another thread may have made it grow since.
                let table = self.table();
                copied = (table.shape == shape).then(|| {
                    let words = table.store.words();
                    store.as_mut_slice().iter_mut().enumerate().for_each(|(at, word)| *word = words.load(at));
                    self.len()
                });
            });
            if !sure {
                return Err(damaged());
            }
            if let Some(len) = copied {
                return Ok((Table { shape, store }, len));
            }
        }
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::Quotient
    }

    /// What a "no" means: the key was never inserted, or was removed as often as inserted.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        Kind::Quotient.guarantee()
    }

    kept!(contract, promise, when_full, promised_rate, is_empty);

    /// The numbers that fix the memory as it is now.
    #[must_use]
    pub fn shape(&self) -> &QuotientShape {
        &self.table().shape
    }

    /// Runs `work` while nobody can change the filter; refused if an earlier change ended half-way.
    pub(crate) fn at_rest<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let _no_growth = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.version.at_rest(work).ok_or_else(|| crate::promise::half_changed(Kind::Quotient))
    }

    pub(crate) fn store(&self) -> &S {
        &self.table().store
    }

    /// The memory of the slots, in bytes; of a shared filter that grew, with the tables before the newest.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        let later = self.later.get().map_or(0, |later| {
            later.tables.iter().filter_map(OnceLock::get).map(|table| table.shape.words()).sum::<u64>()
        });
        (self.first.shape.words() + later) * 8
    }

    /// Whether the memory is on huge pages.
    #[must_use]
    pub fn huge_pages(&self) -> HugePages {
        self.store().huge_pages()
    }

    /// Keys inserted less keys removed; a key inserted twice counts twice, and one inserted more than 15 times 15 times.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count.load(crate::arch::words::Ordering::Relaxed)
    }

    /// How many keys the filter was made for, growing included.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.promise.capacity
    }

    /// How many more keys fit before the promise ends.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.promise.capacity.saturating_sub(self.len())
    }

    /// Whether the filter holds what it was made for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.remaining() == 0
    }

    /// The expected rate of this shape with so many different keys as are in it now.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        self.shape().expected_rate(self.len())
    }

    /// The rate this shape would have with so many different keys.
    #[must_use]
    pub fn expected_rate_at(&self, items: u64) -> f64 {
        self.shape().expected_rate(items)
    }

    /// The rate that the table as it is will show: exactly the share of fingerprints that are in it. Reads all slots.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        self.entries().count() as f64 / self.shape().fingerprints() as f64
    }

    /// The share of slots that are taken.
    #[doc(alias = "load")]
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.len() as f64 / self.shape().all_slots() as f64
    }

    /// How many different keys the fingerprints speak of, with an interval. Reads all slots.
    #[must_use]
    pub fn approximate_count(&self) -> Estimate {
        estimate::classic(self.entries().count() as u64, self.shape().fingerprints(), 1, estimate::Z)
    }
}

impl<S: Store> fmt::Debug for Quotient<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotient")
            .field("slots", &self.shape().slots())
            .field("interval", &self.shape().interval())
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Same contract, same shape, same slots: the same fingerprints, however they came there.
impl<A: Store, B: Store> PartialEq<Quotient<B>> for Quotient<A> {
    fn eq(&self, other: &Quotient<B>) -> bool {
        let (a, b) = (self.table(), other.table());
        let (words, others) = (a.store.words(), b.store.words());
        a.shape == b.shape
            && self.contract == other.contract
            && (0..words.count()).all(|at| words.load(at) == others.load(at))
    }
}
