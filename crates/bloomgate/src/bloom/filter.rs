//! [`Bloom`]: everything that the fixed-size kinds have in common, which is all but where the bits go.

use std::fmt;
use std::sync::OnceLock;

use super::Builder;
use super::layout::Layout;
use super::scalable::BATCH;
use crate::arch::words::{Ordering, ReadWords, WriteWords};
use crate::arch::{CHUNK, FEW, Job, dispatch};
use crate::bits::counter::Count;
use crate::bits::{HugePages, Owned, Shared, Store};
use crate::error::Result;
use crate::hash::digests::{Digests, KeyDigests, WordDigests, check_lengths};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::estimate::{Estimate, different_keys, told_new};
use crate::promise::{Insertion, Promise, WRITERS, WhenFull, full, kept};

/// A Bloom filter of a fixed size. Use it by the names of its layouts: [`Blocked`](super::Blocked),
/// [`Classic`](super::Classic), [`Partitioned`](super::Partitioned).
///
/// ```
/// use bloomgate::Blocked;
///
/// let mut seen = Blocked::builder().items(1_000_000).rate(0.01).build()?;
/// assert!(seen.insert("https://example.org/")?);    // certainly new
/// assert!(seen.contains("https://example.org/")?);  // maybe there
/// assert!(!seen.contains("https://example.com/")?); // certainly not there
/// # Ok::<(), bloomgate::Error>(())
/// ```
///
/// There is no `remove`: a bit may be that of several keys, and clearing it would make a "no" wrong. For keys that go
/// again there is [`Counting`](super::Counting).
///
/// ```compile_fail,E0599
/// # use bloomgate::Blocked;
/// # let mut seen = Blocked::builder().items(1_000_000).rate(0.01).build().unwrap();
/// seen.remove("https://example.org/");
/// ```
///
/// Places: [`Owned`] (one writer, `&mut self`), [`Shared`] (many writers, `&self`; the same bits and the same file),
/// [`Mapped`](crate::Mapped) (that file, queried in place), [`MappedMut`](crate::bits::MappedMut) (that file, written in
/// place by many threads).
pub struct Bloom<L: Layout, S: Store = Owned> {
    layout: L,
    contract: Contract,
    promise: Promise,
    count: S::Count,
    /// The count at which the filter holds its capacity; worked out when it is first asked for.
    full_at: OnceLock<u64>,
    store: S,
}

/// Asking, in any place.
impl<L: Layout, S: Store> Bloom<L, S> {
    pub(crate) fn from_parts(layout: L, contract: Contract, promise: Promise, count: u64, store: S) -> Self {
        Self { layout, contract, promise, count: S::Count::starting_at(count), full_at: OnceLock::new(), store }
    }

    /// Whether a key may have been inserted: false is certain, true is "maybe".
    ///
    /// An error means that the key cannot be written in the filter's encoding; that is not a "no".
    #[doc(alias = "mightContain")]
    #[doc(alias = "might_contain")]
    #[doc(alias = "check")]
    #[doc(alias = "exists")]
    #[doc(alias = "test")]
    #[inline]
    pub fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.contains_digest(self.contract.digest(key)?))
    }

    /// [`contains`](Self::contains) for a digest made elsewhere under the same contract.
    #[doc(alias = "contains_hash")]
    #[inline]
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        if S::CHECKED && !self.store.admitted() && !self.admit(digest) {
            return true;
        }
        self.layout.contains(self.store.words(), digest)
    }

    /// Asks for many keys at once, several times faster than one by one when the filter is larger than the caches.
    /// `answers[i]` is the answer for `keys[i]`; both must be of one length.
    #[doc(alias = "contains_many")]
    #[doc(alias = "mexists")]
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
        if digests.len() < FEW {
            digests.iter().zip(answers).for_each(|(&digest, answer)| *answer = self.contains_digest(digest));
            return Ok(());
        }
        self.contains_all(digests, answers)
    }

    fn contains_all(&self, digests: impl Digests, answers: &mut [bool]) -> Result<()> {
        if S::CHECKED && !self.store.admitted() {
            return self.contains_checked(digests, answers);
        }
        dispatch(ContainsAll { layout: self.layout, words: self.store.words(), digests, answers })
    }

    /// A batch over words that are not all verified: keys whose words are good go the fast way together.
    fn contains_checked(&self, mut digests: impl Digests, mut answers: &mut [bool]) -> Result<()> {
        let mut chunk = [Digest::default(); CHUNK];
        loop {
            let now = match digests.next(&mut chunk)? {
                0 => return Ok(()),
                count => &chunk[..count],
            };
            let (done, rest) = std::mem::take(&mut answers).split_at_mut(now.len());
            if now.iter().all(|&digest| self.admit(digest)) {
                dispatch(ContainsAll { layout: self.layout, words: self.store.words(), digests: now, answers: done })?;
            } else {
                now.iter().zip(done).for_each(|(&digest, answer)| *answer = self.contains_digest(digest));
            }
            answers = rest;
        }
    }

    /// Whether every word that this digest reads may be believed.
    #[inline]
    fn admit(&self, digest: Digest) -> bool {
        let mut all = true;
        self.layout.each_word(digest, |word| all &= self.store.admit(word));
        all
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        L::KIND
    }

    /// What a "no" means: here always that the key was never inserted.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        L::KIND.guarantee()
    }

    kept!(contract, promise, when_full, promised_rate, is_empty);

    /// Where a key's bits go.
    #[must_use]
    pub fn layout(&self) -> &L {
        &self.layout
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    #[cfg(not(loom))]
    pub(super) fn count(&self) -> &S::Count {
        &self.count
    }

    #[cfg(not(loom))]
    pub(super) fn count_mut(&mut self) -> &mut S::Count {
        &mut self.count
    }

    /// The bits that probes can reach.
    #[doc(alias = "bitSize")]
    #[doc(alias = "num_bits")]
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.layout.bits()
    }

    /// The bits that a key sets (some may coincide).
    #[doc(alias = "num_hashes")]
    #[must_use]
    pub fn hashes(&self) -> u32 {
        self.layout.hashes()
    }

    /// The memory of the bits, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.layout.words() * 8
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

    /// Bytes of the memory that are on huge pages right now, as the kernel counts them (Linux; 0 elsewhere): pages that
    /// were never touched do not count.
    #[must_use]
    pub fn huge_bytes(&self) -> u64 {
        self.store.huge_bytes()
    }

    /// Keys that were certainly new when they were inserted: a lower bound of the different keys in the filter,
    /// short of them by about the false-positive rate.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count.get()
    }

    /// How many keys the filter was made for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.promise.capacity
    }

    /// About how many more new keys fit before the promise ends.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.full_at().saturating_sub(self.len())
    }

    /// How many keys are told to be new until the filter holds its capacity of different ones: less than the capacity
    /// by those that were taken for known on the way. Of these only as many are counted on as there are in all but one
    /// of 150,000 cases (4.5 standard deviations), so that the capacity itself is never refused.
    pub(super) fn full_at(&self) -> u64 {
        *self.full_at.get_or_init(|| {
            let Promise { capacity, rate, .. } = self.promise;
            if rate < 1e-3 {
                return capacity;
            }
            let taken_for_known = capacity as f64 - told_new(capacity, |items| self.layout.expected_rate(items));
            capacity - (taken_for_known - 4.5 * taken_for_known.sqrt()).max(0.0) as u64
        })
    }

    /// How many different keys were inserted, as far as [`len`](Self::len) tells: what `len` is short of by the keys that
    /// were taken for known. Of a filter filled far beyond its capacity only the bits can tell
    /// ([`approximate_count`](Self::approximate_count)).
    #[must_use]
    pub fn different_keys(&self) -> u64 {
        different_keys(self.len(), |items| self.layout.expected_rate(items))
    }

    /// Whether the filter holds what it was made for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.remaining() == 0
    }

    /// The expected rate of this shape with what was inserted so far ([`different_keys`](Self::different_keys)). Rises as
    /// the filter fills; far beyond the capacity ask [`estimated_rate`](Self::estimated_rate), which reads the bits.
    #[doc(alias = "expectedFpp")]
    #[doc(alias = "expected_fpp")]
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        self.layout.expected_rate(self.different_keys())
    }

    /// The rate this shape would have with so many different keys.
    #[must_use]
    pub fn expected_rate_at(&self, items: u64) -> f64 {
        self.layout.expected_rate(items)
    }

    /// The rate that the bits as they are will show, whatever was counted. Reads all bits.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        self.layout.estimated_rate(self.store.words())
    }

    /// How many bits are set. Reads all bits.
    #[doc(alias = "cardinality")]
    #[must_use]
    pub fn set_bits(&self) -> u64 {
        let words = self.store.words();
        (0..words.count()).map(|at| u64::from(words.load(at).count_ones())).sum()
    }

    /// The share of bits that are set; about a half when a filter is at its capacity. Reads all bits.
    #[doc(alias = "density")]
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.set_bits() as f64 / self.bits() as f64
    }

    /// How many different keys the bits speak of, with an interval. Reads all bits.
    #[doc(alias = "approximateElementCount")]
    #[doc(alias = "approx_items")]
    #[doc(alias = "cardinality")]
    #[must_use]
    pub fn approximate_count(&self) -> Estimate {
        self.layout.estimate_count(self.set_bits())
    }
}

/// A batch of lookups, compiled for this processor.
struct ContainsAll<'a, L, W, D> {
    layout: L,
    words: W,
    digests: D,
    answers: &'a mut [bool],
}

impl<L: Layout, W: ReadWords, D: Digests> Job for ContainsAll<'_, L, W, D> {
    type Output = Result<()>;
    #[inline(always)]
    fn run(self) -> Result<()> {
        self.layout.contains_all(self.words, self.digests, self.answers)
    }
}

/// A batch of inserts, compiled for this processor; how many keys were certainly new.
pub(super) struct InsertAll<L, W, D> {
    pub(super) layout: L,
    pub(super) words: W,
    pub(super) digests: D,
}

impl<L: Layout, W: WriteWords, D: Digests> Job for InsertAll<L, W, D> {
    type Output = (u64, Result<()>);
    #[inline(always)]
    fn run(mut self) -> (u64, Result<()>) {
        let mut fresh = 0;
        let result = self.layout.insert_all(&mut self.words, self.digests, &mut fresh);
        (fresh, result)
    }
}

/// A batch of inserts with an outcome for each, compiled for this processor; how many keys were certainly new.
struct InsertEach<'a, L, W> {
    layout: L,
    words: W,
    digests: &'a [Digest],
    outcomes: &'a mut [Insertion],
}

impl<L: Layout, W: WriteWords> Job for InsertEach<'_, L, W> {
    type Output = u64;
    #[inline(always)]
    fn run(mut self) -> u64 {
        self.layout.insert_each(&mut self.words, self.digests, self.outcomes)
    }
}

/// Building and inserting, alone.
impl<L: Layout> Bloom<L, Owned> {
    /// Starts a filter: `.items(n).rate(p)`, or `.bytes(b)` with either, or `.bits(m).hashes(k)`.
    #[must_use]
    pub fn builder() -> Builder<L> {
        Builder::new()
    }

    pub(crate) fn empty(layout: L, contract: Contract, promise: Promise) -> Result<Self> {
        Ok(Self::from_parts(layout, contract, promise, 0, Owned::zeroed(layout.words())?))
    }

    /// Inserts a key; true if it was certainly new, false if it may have been there before.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    #[doc(alias = "set")]
    #[inline]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    #[doc(alias = "insert_hash")]
    #[inline]
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        if self.promise.when_full == WhenFull::Refuse && self.is_full() {
            return self.refuse(digest);
        }
        let fresh = self.layout.insert(&mut self.store.as_mut_slice(), digest);
        self.count += u64::from(fresh);
        Ok(fresh)
    }

    /// Inserts many keys at once; how many were certainly new.
    ///
    /// If a key is refused (wrong encoding, full), the keys before it are in and those after it are not.
    #[doc(alias = "put_all")]
    #[doc(alias = "madd")]
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<u64> {
        if self.promise.when_full == WhenFull::Refuse {
            return self.insert_carefully(keys.iter().map(|key| self.contract.digest(key)).collect::<Vec<_>>());
        }
        let store = self.store.as_mut_slice();
        if let Some(words) = WordDigests::of(&self.contract, keys) {
            return insert_counted(&self.layout, store, words, &mut self.count);
        }
        insert_counted(&self.layout, store, KeyDigests { contract: &self.contract, keys }, &mut self.count)
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
        if self.promise.when_full == WhenFull::Refuse {
            return self.insert_carefully(digests.iter().copied().map(Ok));
        }
        insert_counted(&self.layout, self.store.as_mut_slice(), digests, &mut self.count)
    }

    fn insert_carefully(&mut self, digests: impl IntoIterator<Item = Result<Digest>>) -> Result<u64> {
        let mut fresh = 0;
        for digest in digests {
            fresh += u64::from(self.insert_digest(digest?)?);
        }
        Ok(fresh)
    }

    /// Inserts everything an iterator gives; how many were certainly new.
    #[doc(alias = "extend")]
    #[doc(alias = "update")]
    pub fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        let mut keys = keys.into_iter();
        let mut chunk = Vec::with_capacity(CHUNK * 8);
        let mut fresh = 0;
        loop {
            chunk.clear();
            chunk.extend(keys.by_ref().take(CHUNK * 8));
            if chunk.is_empty() {
                return Ok(fresh);
            }
            fresh += self.insert_batch(&chunk)?;
        }
    }

    /// A full filter that refuses still knows which keys it has.
    #[cold]
    fn refuse(&self, digest: Digest) -> Result<bool> {
        if self.contains_digest(digest) { Ok(false) } else { Err(full(L::KIND, self.promise.capacity)) }
    }

    /// Forgets everything; the shape, the contract and the promise stay.
    #[doc(alias = "reset")]
    pub fn clear(&mut self) {
        self.store.as_mut_slice().fill(0);
        self.count.set(0);
    }

    /// The same filter for many threads at once. Moves; nothing is copied.
    pub fn into_shared(self) -> Result<Bloom<L, Shared>> {
        let count = self.len();
        Ok(Bloom::from_parts(self.layout, self.contract, self.promise, count, Shared::from_owned(self.store)?))
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        self.count = len;
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        self.store.as_mut_slice()
    }
}

fn insert_counted<L: Layout>(layout: &L, words: &mut [u64], digests: impl Digests, count: &mut u64) -> Result<u64> {
    let (fresh, result) = dispatch(InsertAll { layout: *layout, words, digests });
    *count += fresh;
    result.map(|()| fresh)
}

/// Inserting, from many threads.
impl<L: Layout> Bloom<L, Shared> {
    /// Inserts a key; true if it was certainly new, false if it may have been there before.
    ///
    /// When several threads insert the same new key at once, **at least one** of them is told that it was new, and
    /// more than one may be: the key's bits are set word by word, and each thread that set one of them saw news. For
    /// a claim that exactly one thread may win, ask an exact set.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    #[inline]
    pub fn insert<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    ///
    /// A filter that refuses when full may go past its capacity by as many keys as threads insert at that moment.
    #[inline]
    pub fn insert_digest(&self, digest: Digest) -> Result<bool> {
        if self.promise.when_full == WhenFull::Refuse && self.is_full() {
            return if self.contains_digest(digest) { Ok(false) } else { Err(full(L::KIND, self.promise.capacity)) };
        }
        let fresh = self.layout.insert(&mut self.store.atomics(), digest);
        if fresh {
            self.count.add(1);
        }
        Ok(fresh)
    }

    /// Inserts many keys at once; how many were certainly new.
    pub fn insert_batch<K: Key>(&self, keys: &[K]) -> Result<u64> {
        if self.promise.when_full == WhenFull::Refuse {
            return keys.iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(key)?)));
        }
        if let Some(words) = WordDigests::of(&self.contract, keys) {
            return self.insert_counted(words);
        }
        self.insert_counted(KeyDigests { contract: &self.contract, keys })
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&self, digests: &[Digest]) -> Result<u64> {
        if self.promise.when_full == WhenFull::Refuse {
            return digests.iter().try_fold(0, |fresh, &digest| Ok(fresh + u64::from(self.insert_digest(digest)?)));
        }
        self.insert_counted(digests)
    }

    /// Inserts many digests and says of each what became of it: `outcomes[i]` is that of `digests[i]`, and both must be
    /// of one length. About as fast as [`insert_digests`](Self::insert_digests).
    ///
    /// A digest that comes twice in the batch is [`Known`](Insertion::Known) the second time. A full filter that refuses
    /// says [`Full`](Insertion::Full) to each unknown key, and still knows the others.
    ///
    /// ```
    /// use bloomgate::{Blocked, Insertion};
    ///
    /// let seen = Blocked::builder().items(1_000).build_shared()?;
    /// let digests = [seen.contract().digest("a")?, seen.contract().digest("b")?, seen.contract().digest("a")?];
    /// let mut outcomes = [Insertion::Full; 3];
    /// seen.insert_each(&digests, &mut outcomes)?;
    /// assert_eq!(outcomes, [Insertion::New, Insertion::New, Insertion::Known]);
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
        if self.promise.when_full != WhenFull::Refuse {
            self.insert_each_at_once(digests, outcomes);
            return Ok(());
        }
        for (digests, outcomes) in digests.chunks(BATCH).zip(outcomes.chunks_mut(BATCH)) {
            if self.has_room_for(digests.len()) {
                self.insert_each_at_once(digests, outcomes);
                continue;
            }
            for (&digest, outcome) in digests.iter().zip(outcomes) {
                *outcome = Insertion::of(self.insert_digest(digest))?;
            }
        }
        Ok(())
    }

    /// [`insert_each`](Self::insert_each) whatever the filter holds; slices of one length.
    pub(super) fn insert_each_at_once(&self, digests: &[Digest], outcomes: &mut [Insertion]) {
        let fresh = dispatch(InsertEach { layout: self.layout, words: self.store.atomics(), digests, outcomes });
        self.count.add(fresh);
    }

    /// Whether so many keys fit, even if every other writer brings as many at this moment.
    pub(super) fn has_room_for(&self, keys: usize) -> bool {
        self.remaining() >= WRITERS * keys as u64
    }

    /// Inserts digests that were new when they were first inserted, as a log tells: they are in afterwards, and **each is
    /// counted**, even if its bits are there already. So the count after an [image](crate::AnyFilter::image) of one moment
    /// and the replay of everything since is the count of before, though the image may hold some of it already.
    ///
    /// Nothing is refused: a filter that refuses when full had taken them.
    pub fn replay(&self, digests: &[Digest]) -> Result<()> {
        let (_, result) = dispatch(InsertAll { layout: self.layout, words: self.store.atomics(), digests });
        self.count.add(digests.len() as u64);
        result
    }

    /// Counts keys that came in by other ways.
    pub(super) fn raise_len(&self, more: u64) {
        self.count.add(more);
    }

    fn insert_counted(&self, digests: impl Digests) -> Result<u64> {
        let (fresh, result) = dispatch(InsertAll { layout: self.layout, words: self.store.atomics(), digests });
        self.count.add(fresh);
        result.map(|()| fresh)
    }

    /// Forgets everything; takes the only reference, so that no insert is lost half-way.
    pub fn clear(&mut self) {
        self.store.as_mut_slice().fill(0);
        self.count.set(0);
    }

    /// Forgets everything while others may be looking and inserting: for a ring, which knows when that loses nothing.
    pub(crate) fn sweep(&self) {
        self.count.reset();
        self.store.atomics().iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// The same filter for one owner. Moves; nothing is copied.
    pub fn into_owned(self) -> Result<Bloom<L, Owned>> {
        let count = self.len();
        Ok(Bloom::from_parts(self.layout, self.contract, self.promise, count, self.store.into_owned()?))
    }
}

impl<L: Layout> Clone for Bloom<L, Owned> {
    fn clone(&self) -> Self {
        // The original was allocated, so a refusal here is the same as any failed allocation of a clone.
        let mut copy = Self::empty(self.layout, self.contract.clone(), self.promise).expect("memory for a clone");
        copy.store.as_mut_slice().copy_from_slice(self.store.as_slice());
        copy.count = self.count;
        copy
    }
}

/// Same contract, same shape, same bits. Counts and promises are not compared: they say how the bits came about.
impl<L: Layout, A: Store, B: Store> PartialEq<Bloom<L, B>> for Bloom<L, A> {
    fn eq(&self, other: &Bloom<L, B>) -> bool {
        let (a, b) = (self.store.words(), other.store.words());
        self.layout == other.layout
            && self.contract == other.contract
            && (0..a.count()).all(|at| a.load(at) == b.load(at))
    }
}

impl<L: Layout, S: Store> fmt::Debug for Bloom<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bloom")
            .field("layout", &self.layout)
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
