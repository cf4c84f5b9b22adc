//! Counters instead of bits: keys can be removed again.
//!
//! **When.** A set that loses keys while it is asked, and whose remover knows that the key was inserted. **When
//! not.** Keys never go (four times the memory of [`super::Blocked`] for nothing); or the remover guesses: removing a
//! key that only *seemed* to be there takes counts away from others.
//!
//! Each bit of a [paired](super::BlockedLayout::paired) blocked filter becomes a counter of 4 bits (8 or 16 on
//! request). A key's eight counters lie in two cache lines, where the naive form touches seven or more: 41 bits per
//! key at 1 %, and the speed of two reads.
//!
//! - A counter that reaches its top **sticks**: it is never lowered again, so a key that was inserted 16 times can be
//!   removed 16 times and nobody else's key is lost; the price is a bit that stays set.
//! - A removal is all or nothing: if any counter is zero the key is certainly absent, nothing changes, and the answer
//!   is false.
//! - Each counter moves by exactly one per key, even where two of a key's bits fall together.
//!
//! # Many threads
//!
//! [`build_shared`](CountingBuilder::build_shared): `insert` and `remove` by `&self`, one at a time behind a lock, and
//! lookups beside them without one. A reader needs no version of the counters (as it does where keys move), because
//! every word is right for every key that is in, **at every moment**:
//!
//! - One writer at a time replaces one word at a time, and in it moves one counter by one. No update is lost.
//! - A key that is in has put one into each of its counters and not taken it back. Whoever else is removed takes its own
//!   one: a counter that both have is at 2 or more before, at 1 or more after, and stuck if it ever was at the top.
//! - So each of the words in which a key's counters lie has a value other than zero there in every state from the end of
//!   its insert on; a reader may meet each word in another state, and finds the key in all of them. Whoever learnt of the
//!   insert (by a channel, a lock, a join) sees states from its end on, since the writes of one word are totally ordered.
//! - A removal looks and lowers under the lock: two threads cannot both take what was put in once.
//! - A writer that dies between two words leaves a key half put in or half taken out, which nobody was told of; all
//!   others are as above. So the lock goes on being used.
//!
//! # Memory
//!
//! ```text
//!  the line of the plain filter      word 0 1 2 3 4 5 6 7
//!  its four counter lines            [0 1] [4 5] [2 3] [6 7]     64 counters of 4 bits a word
//!  a key                             in one of the first two, and in one of the last two
//! ```

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::sealed::Layout as _;
use super::{Blocked, BlockedLayout};
use crate::arch::blocked::{LANES, LINE_WORDS, line_start, marks};
use crate::arch::prefetch;
use crate::arch::words::{ReadWords, WriteWords};
use crate::bits::version::Mutex;
use crate::bits::{HugePages, Owned, Shared, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, check_lengths, pipeline};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::estimate::Estimate;
use crate::promise::{Promise, WhenFull, Wish, full, insert_each_in_turn, kept, wish_setters};

/// How wide a counter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CounterBits {
    /// Counts to 14 and sticks at 15: enough, since a counter of a full filter passes 15 with a chance of 1e-16.
    #[default]
    Four,
    /// Counts to 254.
    Eight,
    /// Counts to 65,534.
    Sixteen,
}

impl CounterBits {
    /// The number of bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            CounterBits::Four => 4,
            CounterBits::Eight => 8,
            CounterBits::Sixteen => 16,
        }
    }

    /// The width with so many bits, if there is one.
    #[must_use]
    pub fn from_bits(bits: u32) -> Option<Self> {
        [CounterBits::Four, CounterBits::Eight, CounterBits::Sixteen].into_iter().find(|width| width.bits() == bits)
    }

    /// The value at which a counter sticks.
    #[must_use]
    pub fn top(self) -> u64 {
        (1 << self.bits()) - 1
    }
}

/// Where word `w` of a line has its counters: the words of a pair side by side, so that a key meets two cache lines.
const SLOT: [usize; LINE_WORDS] = [0, 1, 4, 5, 2, 3, 6, 7];

/// The most counters a key can have: eight a line, eight lines.
const MOST_CELLS: usize = 64;

/// A Bloom filter with counters: insert, remove, and how often.
///
/// ```
/// use bloomgate::Counting;
///
/// let mut sessions = Counting::builder().keys::<u64>().items(100_000).rate(0.01).build()?;
/// sessions.insert(&7u64)?;
/// assert!(sessions.remove(&7u64)?);   // was there, is gone
/// assert!(!sessions.contains(&7u64)?);
/// assert!(!sessions.remove(&7u64)?);  // certainly absent: nothing changed
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub struct Counting<S: Store = Owned> {
    layout: BlockedLayout,
    width: CounterBits,
    contract: Contract,
    promise: Promise,
    /// Written by the one writer alone, read by everybody.
    count: AtomicU64,
    /// Held by whoever changes shared counters.
    writer: Mutex<()>,
    store: S,
}

/// Calls `visit` with every counter (word and shift) of a key, each once, until it says false; whether it never did.
///
/// Inside one line only the two bits of a lane can fall together. Several lines of one key may be the same line, so
/// there every counter is held against those before it; that is the rare case of rates below 3e-4.
#[inline(always)]
fn each_cell(
    layout: &BlockedLayout,
    width: CounterBits,
    digest: Digest,
    mut visit: impl FnMut(usize, u32) -> bool,
) -> bool {
    let width = width.bits();
    if layout.lines_per_key() == 1 {
        let hash = BlockedLayout::line_hash(digest, 0);
        let start = line_start(hash, layout.lines()) * width as usize;
        return marks::<true>(hash).into_iter().all(|(word, a, b)| {
            let slot = start + SLOT[word] * width as usize;
            let (first, second) = (a * width, b * width);
            visit(slot + (first / 64) as usize, first % 64)
                && (a == b || visit(slot + (second / 64) as usize, second % 64))
        });
    }
    let mut seen = [(0usize, 0u32); MOST_CELLS];
    let mut count = 0;
    for line in 0..layout.lines_per_key() {
        let hash = BlockedLayout::line_hash(digest, line);
        let start = line_start(hash, layout.lines()) * width as usize;
        for (word, a, b) in marks::<true>(hash) {
            let slot = start + SLOT[word] * width as usize;
            for offset in [a * width, b * width] {
                let cell = (slot + (offset / 64) as usize, offset % 64);
                if !seen[..count].contains(&cell) {
                    seen[count] = cell;
                    count += 1;
                    if !visit(cell.0, cell.1) {
                        return false;
                    }
                }
            }
        }
    }
    true
}

/// Asking, in any place.
impl<S: Store> Counting<S> {
    pub(crate) fn from_parts(
        layout: BlockedLayout,
        width: CounterBits,
        contract: Contract,
        promise: Promise,
        count: u64,
        store: S,
    ) -> Self {
        Self { layout, width, contract, promise, count: AtomicU64::new(count), writer: Mutex::new(()), store }
    }

    /// The words that the counters of this layout fill.
    pub(crate) fn words_of(layout: &BlockedLayout, width: CounterBits) -> Option<u64> {
        layout.words().checked_mul(u64::from(width.bits()))
    }

    /// The first word of the counters of the `line`-th line of a key.
    #[inline(always)]
    fn line_at(&self, hash: u64) -> usize {
        line_start(hash, self.layout.lines()) * self.width.bits() as usize
    }

    /// Calls `visit` with every counter of a key, each once, until it says false; whether it never did.
    #[inline(always)]
    fn each_cell(&self, digest: Digest, visit: impl FnMut(usize, u32) -> bool) -> bool {
        each_cell(&self.layout, self.width, digest, visit)
    }

    #[inline(always)]
    fn read(&self, word: usize, shift: u32) -> u64 {
        (self.store.words().load(word) >> shift) & self.width.top()
    }

    /// Asks memory for the two lines that a key's counters lie in (per line of the plain filter).
    #[inline(always)]
    fn fetch(&self, digest: Digest) {
        let width = self.width.bits() as usize;
        for line in 0..self.layout.lines_per_key() {
            let hash = BlockedLayout::line_hash(digest, line);
            let start = self.line_at(hash);
            let of = marks::<true>(hash);
            for lane in (0..LANES).step_by(2) {
                prefetch(self.store.words(), start + SLOT[of[lane].0] * width);
            }
        }
    }

    /// Whether a key may be there: false is certain, true is "maybe".
    #[doc(alias = "mightContain")]
    pub fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.contains_digest(self.contract.digest(key)?))
    }

    /// [`contains`](Self::contains) for a digest made elsewhere under the same contract.
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        if S::CHECKED && !self.store.admitted() && !self.each_cell(digest, |word, _| self.store.admit(word)) {
            return true;
        }
        self.each_cell(digest, |word, shift| self.read(word, shift) != 0)
    }

    /// Asks for many keys at once. `answers[i]` is the answer for `keys[i]`; both must be of one length.
    pub fn contains_batch<K: Key>(&self, keys: &[K], answers: &mut [bool]) -> Result<()> {
        check_lengths(keys.len(), answers.len())?;
        self.contains_all_digests(KeyDigests { contract: &self.contract, keys }, answers)
    }

    /// [`contains_batch`](Self::contains_batch) for digests.
    pub fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        check_lengths(digests.len(), answers.len())?;
        self.contains_all_digests(digests, answers)
    }

    fn contains_all_digests(&self, mut digests: impl Digests, mut answers: &mut [bool]) -> Result<()> {
        pipeline(
            Digest::default(),
            |out| digests.next(out),
            |now, next| {
                let (done, rest) = std::mem::take(&mut answers).split_at_mut(now.len());
                let mut coming = next.iter();
                for (&digest, answer) in now.iter().zip(done) {
                    coming.next().into_iter().for_each(|&next| self.fetch(next));
                    *answer = self.contains_digest(digest);
                }
                coming.for_each(|&next| self.fetch(next));
                answers = rest;
            },
        )
    }

    /// How often a key was inserted (less removals): never too low, unless a counter stuck; sometimes too high.
    ///
    /// The smallest of the key's counters; at [`CounterBits::top`] it means "at least so often".
    #[doc(alias = "count")]
    pub fn count_estimate<K: Key + ?Sized>(&self, key: &K) -> Result<u64> {
        self.count_of_digest(self.contract.digest(key)?)
    }

    /// [`count_estimate`](Self::count_estimate) for a digest made elsewhere under the same contract.
    pub fn count_of_digest(&self, digest: Digest) -> Result<u64> {
        if S::CHECKED && !self.each_cell(digest, |word, _| self.store.admit(word)) {
            return Err(damaged());
        }
        let mut least = u64::MAX;
        self.each_cell(digest, |word, shift| {
            least = least.min(self.read(word, shift));
            true
        });
        Ok(least)
    }

    /// The counters of a key by their numbers, each once, and what each holds.
    pub(crate) fn counters_of(&self, digest: Digest) -> Vec<(u64, u64)> {
        let width = self.width.bits();
        let mut counters = Vec::new();
        self.each_cell(digest, |word, shift| {
            counters.push(((word as u64 * 64 + u64::from(shift)) / u64::from(width), self.read(word, shift)));
            true
        });
        counters
    }

    /// The plain filter with the same bits: what to publish, at a quarter of the size.
    pub fn to_plain(&self) -> Result<Blocked> {
        if S::CHECKED && !(0..self.store.words().count()).step_by(LINE_WORDS).all(|word| self.store.admit(word)) {
            return Err(damaged());
        }
        let mut plain = Blocked::empty(self.layout, self.contract.clone(), self.promise)?;
        let width = self.width.bits();
        let cells = self.store.words();
        for (line, bits) in plain.words_mut().chunks_exact_mut(LINE_WORDS).enumerate() {
            let start = line * LINE_WORDS * width as usize;
            for (word, bits) in bits.iter_mut().enumerate() {
                let slot = start + SLOT[word] * width as usize;
                for bit in 0..64 {
                    let offset = bit * width;
                    let value = (cells.load(slot + (offset / 64) as usize) >> (offset % 64)) & self.width.top();
                    *bits |= u64::from(value != 0) << bit;
                }
            }
        }
        plain.set_len(self.len());
        Ok(plain)
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::Counting
    }

    /// What a "no" means: the key was never inserted, or was removed as often as inserted.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        Kind::Counting.guarantee()
    }

    kept!(contract, promise, when_full, promised_rate, is_empty);

    /// The layout of the plain filter under the counters.
    #[must_use]
    pub fn layout(&self) -> &BlockedLayout {
        &self.layout
    }

    /// Runs `work` while nobody can change a counter.
    pub(crate) fn at_rest<T>(&self, work: impl FnOnce() -> T) -> T {
        let _alone = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    /// How wide the counters are.
    #[must_use]
    pub fn counter_bits(&self) -> CounterBits {
        self.width
    }

    /// The memory of the counters, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.store.words().count() as u64 * 8
    }

    /// Has the kernel find the memory of the bits now, so that no insert waits for it later: 5 ms for each 2 MB where memory
    /// is lent on demand. What is in the filter stays, and others may go on using it. Does nothing below 4 MB.
    pub fn bring_in(&self) {
        self.store.bring_in();
    }

    /// Whether the memory is on huge pages.
    #[must_use]
    pub fn huge_pages(&self) -> HugePages {
        self.store.huge_pages()
    }

    /// Keys inserted less keys removed; a key inserted twice counts twice.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How many keys the filter was made for.
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

    /// The exact expected rate of this shape with what is in it now.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        self.layout.expected_rate(self.len())
    }

    /// The rate this shape would have with so many different keys.
    #[must_use]
    pub fn expected_rate_at(&self, items: u64) -> f64 {
        self.layout.expected_rate(items)
    }

    /// The rate that the counters as they are will show. Makes the plain filter, so it needs a quarter of the memory.
    pub fn estimated_rate(&self) -> Result<f64> {
        Ok(self.to_plain()?.estimated_rate())
    }

    /// How many counters are not zero. Reads all of them.
    #[must_use]
    pub fn set_cells(&self) -> u64 {
        self.set_between(0, self.store.words().count())
    }

    /// How many counters of a line are not zero.
    pub(crate) fn set_in_line(&self, line: u64) -> u32 {
        let words = LINE_WORDS * self.width.bits() as usize;
        let from = line as usize * words;
        self.set_between(from, from + words) as u32
    }

    fn set_between(&self, from: usize, to: usize) -> u64 {
        let width = self.width.bits();
        // A one at the lowest bit of every counter.
        let ones = u64::MAX / self.width.top();
        let mut set = 0;
        let words = self.store.words();
        for at in from..to {
            let mut folded = words.load(at);
            let mut reach = 1;
            while reach < width {
                folded |= folded >> reach;
                reach *= 2;
            }
            set += u64::from((folded & ones).count_ones());
        }
        set
    }

    /// The share of counters that are not zero.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.set_cells() as f64 / self.layout.bits() as f64
    }

    /// How many different keys the counters speak of, with an interval. Reads all counters.
    #[must_use]
    pub fn approximate_count(&self) -> Estimate {
        self.layout.estimate_count(self.set_cells())
    }
}

#[cold]
fn too_many() -> Error {
    Error::new(ErrorKind::InvalidParameter, "so many counters do not fit any memory; ask for fewer items")
}

#[cold]
pub(super) fn damaged() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "a chunk of the mapped counters is damaged, so that what they count is not known; `damage` says which: fetch the \
         file again",
    )
}

/// Building, inserting and removing, alone.
impl Counting<Owned> {
    /// Starts a filter: `.items(n).rate(p)`, or `.bytes(b)` with `rate`.
    #[must_use]
    pub fn builder() -> CountingBuilder {
        CountingBuilder { wish: Wish::new(WhenFull::GoOn), width: CounterBits::Four, shape: None }
    }

    pub(crate) fn empty(
        layout: BlockedLayout,
        width: CounterBits,
        contract: Contract,
        promise: Promise,
    ) -> Result<Self> {
        let words = Self::words_of(&layout, width).ok_or_else(too_many)?;
        Ok(Self::from_parts(layout, width, contract, promise, 0, Owned::zeroed(words)?))
    }

    /// Inserts a key; true if it was certainly new.
    ///
    /// A key inserted twice must be removed twice.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        if self.promise.when_full == WhenFull::Refuse && self.is_full() {
            return Err(full(Kind::Counting, self.promise.capacity));
        }
        Ok(self.raise(digest))
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        self.store.as_mut_slice()
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        *self.count.get_mut() = len;
    }

    fn raise(&mut self, digest: Digest) -> bool {
        *self.count.get_mut() += 1;
        raise(&self.layout, self.width, &mut self.store.as_mut_slice(), digest)
    }

    /// Inserts many keys at once; how many were certainly new.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<u64> {
        let contract = self.contract.clone();
        self.insert_all_digests(KeyDigests { contract: &contract, keys })
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
        self.insert_all_digests(digests)
    }

    fn insert_all_digests(&mut self, mut digests: impl Digests) -> Result<u64> {
        let mut fresh = 0;
        let mut refused = None;
        pipeline(
            Digest::default(),
            |out| digests.next(out),
            |now, next| {
                for j in 0..now.len().max(next.len()) {
                    if let Some(&digest) = next.get(j) {
                        self.fetch(digest);
                    }
                    if let (Some(&digest), None) = (now.get(j), &refused) {
                        match self.insert_digest(digest) {
                            Ok(new) => fresh += u64::from(new),
                            Err(error) => refused = Some(error),
                        }
                    }
                }
            },
        )?;
        refused.map_or(Ok(fresh), Err)
    }

    /// Inserts everything an iterator gives; how many were certainly new.
    pub fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        keys.into_iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(&key)?)))
    }

    /// Removes a key that was inserted; false if it was certainly absent, and then nothing changed.
    ///
    /// **Only remove what you inserted.** A key that was never inserted but seems to be there (a false positive)
    /// cannot be told from one that was, and removing it takes counts from others: a wrong "no" later. That is the
    /// contract of every filter with removal; ask your source of truth first if you are not sure.
    ///
    /// True does not mean that the key is gone: it may have been inserted more often, and one inserted so often that all
    /// its counters stick is never gone. Count your own removals; do not loop until false.
    #[doc(alias = "delete")]
    pub fn remove<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        Ok(self.remove_digest(self.contract.digest(key)?))
    }

    /// [`remove`](Self::remove) for a digest made elsewhere under the same contract.
    pub fn remove_digest(&mut self, digest: Digest) -> bool {
        if !self.contains_digest(digest) {
            return false;
        }
        // A key all of whose counters stick stays for ever, and stays counted.
        if lower(&self.layout, self.width, &mut self.store.as_mut_slice(), digest) {
            let count = self.count.get_mut();
            *count = count.saturating_sub(1);
        }
        true
    }

    /// Forgets everything; the shape, the contract and the promise stay.
    pub fn clear(&mut self) {
        self.store.as_mut_slice().fill(0);
        *self.count.get_mut() = 0;
    }

    /// The same filter for many threads at once. Moves; nothing is copied.
    pub fn into_shared(self) -> Result<Counting<Shared>> {
        let count = self.len();
        let store = Shared::from_owned(self.store)?;
        Ok(Counting::from_parts(self.layout, self.width, self.contract, self.promise, count, store))
    }
}

/// Inserting and removing, from many threads: one changes at a time, and all may ask meanwhile.
impl Counting<Shared> {
    /// Inserts a key; true if it was certainly new.
    ///
    /// A key inserted twice must be removed twice. Of several threads that insert the same new key exactly one is told
    /// that it was new.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&self, digest: Digest) -> Result<bool> {
        let _alone = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.insert_alone(digest)
    }

    /// An insert by the holder of the lock.
    fn insert_alone(&self, digest: Digest) -> Result<bool> {
        if self.promise.when_full == WhenFull::Refuse && self.is_full() {
            return Err(full(Kind::Counting, self.promise.capacity));
        }
        let fresh = raise(&self.layout, self.width, &mut self.store.atomics(), digest);
        self.count.store(self.len() + 1, Ordering::Relaxed);
        Ok(fresh)
    }

    /// Inserts many keys at once; how many were certainly new. Other writers may come in between.
    ///
    /// If a key is refused (wrong encoding, full), the keys before it are in and those after it are not.
    pub fn insert_batch<K: Key>(&self, keys: &[K]) -> Result<u64> {
        self.insert_all_digests(KeyDigests { contract: &self.contract, keys })
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&self, digests: &[Digest]) -> Result<u64> {
        self.insert_all_digests(digests)
    }

    fn insert_all_digests(&self, mut digests: impl Digests) -> Result<u64> {
        let mut fresh = 0;
        let mut refused = None;
        pipeline(
            Digest::default(),
            |out| digests.next(out),
            |now, next| {
                next.iter().for_each(|&digest| self.fetch(digest));
                if refused.is_some() {
                    return;
                }
                // Once for the 32 keys, and not while keys are encoded and hashed.
                let _alone = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
                for &digest in now {
                    match self.insert_alone(digest) {
                        Ok(new) => fresh += u64::from(new),
                        Err(error) => {
                            refused = Some(error);
                            return;
                        }
                    }
                }
            },
        )?;
        refused.map_or(Ok(fresh), Err)
    }

    insert_each_in_turn!();

    /// Removes a key that was inserted; false if it was certainly absent, and then nothing changed.
    ///
    /// **Only remove what you inserted**, and only once its insert has returned (by any thread). Of two threads that
    /// remove a key that was inserted once, the second is told false (or true if it seems to be there: then it has
    /// broken this rule). All else is as for a [filter of one owner](Counting::remove_digest).
    #[doc(alias = "delete")]
    pub fn remove<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.remove_digest(self.contract.digest(key)?))
    }

    /// [`remove`](Self::remove) for a digest made elsewhere under the same contract.
    pub fn remove_digest(&self, digest: Digest) -> bool {
        let _alone = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.contains_digest(digest) {
            return false;
        }
        if lower(&self.layout, self.width, &mut self.store.atomics(), digest) {
            self.count.store(self.len().saturating_sub(1), Ordering::Relaxed);
        }
        true
    }

    /// Forgets everything; takes the only reference, so that no insert is lost half-way.
    pub fn clear(&mut self) {
        self.store.as_mut_slice().fill(0);
        *self.count.get_mut() = 0;
    }

    /// The same filter for one owner. Moves; nothing is copied.
    pub fn into_owned(self) -> Result<Counting<Owned>> {
        let count = self.len();
        let store = self.store.into_owned()?;
        Ok(Counting::from_parts(self.layout, self.width, self.contract, self.promise, count, store))
    }
}

/// Adds one to every counter of a key; whether one of them was zero. For the one writer there is.
#[inline(always)]
fn raise<W: WriteWords>(layout: &BlockedLayout, width: CounterBits, words: &mut W, digest: Digest) -> bool {
    let top = width.top();
    let mut fresh = false;
    each_cell(layout, width, digest, |at, shift| {
        let word = words.read().load(at);
        let value = (word >> shift) & top;
        fresh |= value == 0;
        words.put(at, word + (u64::from(value != top) << shift));
        true
    });
    fresh
}

/// Takes one from every counter of a key that is there and does not stick; whether there was one. For the one writer
/// there is, who has just seen that none of them is zero.
#[inline(always)]
fn lower<W: WriteWords>(layout: &BlockedLayout, width: CounterBits, words: &mut W, digest: Digest) -> bool {
    let top = width.top();
    let mut lowered = false;
    each_cell(layout, width, digest, |at, shift| {
        let word = words.read().load(at);
        let value = (word >> shift) & top;
        lowered |= value != top;
        words.put(at, word - (u64::from(value != top) << shift));
        true
    });
    lowered
}

impl Clone for Counting<Owned> {
    fn clone(&self) -> Self {
        // The original was allocated, so a refusal here is the same as any failed allocation of a clone.
        let mut copy =
            Self::empty(self.layout, self.width, self.contract.clone(), self.promise).expect("memory for a clone");
        copy.store.as_mut_slice().copy_from_slice(self.store.as_slice());
        *copy.count.get_mut() = self.len();
        copy
    }
}

impl<S: Store> fmt::Debug for Counting<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting")
            .field("layout", &self.layout)
            .field("width", &self.width)
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Same contract, same shape, same counters.
impl<A: Store, B: Store> PartialEq<Counting<B>> for Counting<A> {
    fn eq(&self, other: &Counting<B>) -> bool {
        let (a, b) = (self.store.words(), other.store.words());
        self.layout == other.layout
            && self.width == other.width
            && self.contract == other.contract
            && (0..a.count()).all(|at| a.load(at) == b.load(at))
    }
}

/// Makes a [`Counting`] filter. Setters never refuse; [`build`](CountingBuilder::build) alone does.
#[derive(Debug, Clone)]
pub struct CountingBuilder {
    wish: Wish,
    width: CounterBits,
    /// The explicit shape: counters, and how many of them a key has.
    shape: Option<(u64, u32)>,
}

impl CountingBuilder {
    wish_setters!();

    /// How wide a counter is: 4 bits unless keys are inserted many times each.
    #[must_use]
    pub fn counter_bits(mut self, width: CounterBits) -> Self {
        self.width = width;
        self
    }

    /// The memory the counters may use, in bytes. With `rate` the capacity follows; with `items` too it is a limit.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.wish.bits = Some(bytes.saturating_mul(8));
        self
    }

    /// The layout of so many plain bits for a rate, and how many keys it holds at it.
    fn largest(&self, plain_bits: u64, rate: f64) -> Result<(BlockedLayout, u64)> {
        let per_key = crate::math::blocked::lines_for(rate);
        let layout = BlockedLayout::new(plain_bits / super::blocked::LINE_BITS, per_key, true)?;
        Ok((layout, layout.capacity_at(rate)))
    }

    /// The explicit shape: a multiple of 512 counters, and 8 of them a key, or 16 or more for several lines a key.
    #[must_use]
    pub fn counters(mut self, counters: u64, hashes: u32) -> Self {
        self.shape = Some((counters, hashes));
        self
    }

    /// An explicit shape: its capacity is what was named, or what keeps the rate, or half its counters set.
    fn explicit(&self, counters: u64, hashes: u32) -> Result<(BlockedLayout, Promise)> {
        let plain = <BlockedLayout as super::layout::sealed::Layout>::explicit(counters, hashes)?;
        let layout = BlockedLayout::new(plain.lines(), plain.lines_per_key(), true)?;
        let rate = self.wish.checked_rate()?;
        let half_full = (layout.bits() as f64 * std::f64::consts::LN_2 / f64::from(layout.hashes())) as u64;
        let capacity = match (self.wish.capacity()?, rate) {
            (Some(items), _) => items,
            (None, Some(rate)) => layout.capacity_at(rate),
            (None, None) => half_full,
        }
        .max(1);
        let kept = layout.expected_rate(capacity);
        if let Some(rate) = rate.filter(|&rate| kept > rate * crate::promise::KEPT) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "{counters} counters with {hashes} a key have a rate of {kept:.3e} at {capacity} items, not {rate:e}; \
                     they hold {} items at that rate: ask for fewer items, a higher rate or more counters",
                    layout.capacity_at(rate)
                ),
            ));
        }
        Ok((layout, Promise { capacity, rate: rate.unwrap_or(kept), when_full: self.wish.when_full }))
    }

    /// The shape and the promise that the settings come to.
    fn resolve(&self) -> Result<(BlockedLayout, Promise)> {
        if self.wish.when_full == WhenFull::Grow {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                "a counting filter cannot grow; let it go on or refuse when full",
            ));
        }
        if let Some((counters, hashes)) = self.shape {
            return self.explicit(counters, hashes);
        }
        let items = self.wish.capacity()?;
        let rate = self.wish.checked_rate()?.unwrap_or(crate::promise::DEFAULT_RATE);
        let plain_bits = self.wish.bits.map(|bits| bits / u64::from(self.width.bits()));
        let (layout, capacity) = match (items, plain_bits) {
            (Some(items), limit) => {
                let layout = BlockedLayout::sized(items, rate, true);
                if let Some(limit) = limit.filter(|&limit| layout.bits() > limit) {
                    let best = self.largest(limit, rate).map_or(0, |(_, capacity)| capacity);
                    return Err(Error::new(
                        ErrorKind::LimitExceeded,
                        format!(
                            "{items} items at a rate of {rate} need {} bytes of {}-bit counters, {} are allowed; they \
                             hold {best} items at that rate: ask for fewer items, a higher rate or more memory",
                            layout.words() * 8 * u64::from(self.width.bits()),
                            self.width.bits(),
                            self.wish.bits.unwrap_or(0) / 8
                        ),
                    ));
                }
                (layout, items)
            }
            // One line holds a key at the least rate there is: the capacity is never 0.
            (None, Some(bits)) => self.largest(bits, rate)?,
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "say how large: items(n) with rate(p), or bytes(b) with rate(p)",
                ));
            }
        };
        Ok((layout, Promise { capacity, rate, when_full: self.wish.when_full }))
    }

    /// The memory that [`build`](Self::build) would take for the counters, in bytes: all its refusals are made, and nothing is
    /// allocated.
    pub fn bytes_needed(&self) -> Result<u64> {
        let words = Counting::<Owned>::words_of(&self.resolve()?.0, self.width).ok_or_else(too_many)?;
        Ok(words.saturating_mul(8))
    }

    /// The filter, or why there is none.
    pub fn build(self) -> Result<Counting> {
        let (layout, promise) = self.resolve()?;
        Counting::empty(layout, self.width, self.wish.contract, promise)
    }

    /// The filter for many threads at once, or why there is none.
    pub fn build_shared(self) -> Result<Counting<Shared>> {
        self.build()?.into_shared()
    }
}
