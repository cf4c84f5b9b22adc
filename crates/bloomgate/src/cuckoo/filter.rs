//! [`Cuckoo`]: one table of a fixed size, alone, shared between threads, or mapped from a file.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::moves::{self, Inserted, Removed};
use super::{CopyRule, CuckooBuilder, CuckooShape};
use crate::arch::cuckoo::{ContainsAll, Table};
use crate::arch::words::{ReadWords, WriteWords};
use crate::arch::{CHUNK, dispatch};
use crate::bits::version::Version;
use crate::bits::{HugePages, Owned, Shared, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, WordDigests, check_lengths};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::cuckoo::limit;
use crate::math::estimate::Estimate;
use crate::promise::{Promise, insert_each_in_turn, kept};

/// The two buckets of a key: the number of each, and what its slots hold.
pub(crate) type Buckets = [(u64, [u64; 4]); 2];

/// A cuckoo filter: insert, ask, remove.
///
/// ```
/// use bloomgate::cuckoo::Cuckoo;
///
/// let mut sessions = Cuckoo::builder().keys::<u64>().items(100_000).rate(0.01).build()?;
/// assert!(sessions.insert(&7u64)?);   // certainly new
/// assert!(sessions.contains(&7u64)?); // maybe there
/// assert!(sessions.remove(&7u64)?);   // was there, is gone
/// assert!(!sessions.contains(&7u64)?);
/// assert!(!sessions.remove(&7u64)?);  // certainly absent: nothing changed
/// # Ok::<(), bloomgate::Error>(())
/// ```
///
/// In [`Shared`] form ([`build_shared`](CuckooBuilder::build_shared)) one thread at a time changes it, and lookups go on
/// beside it without a lock: a "no" that a moving fingerprint could have caused is asked again.
pub struct Cuckoo<S: Store = Owned> {
    shape: CuckooShape,
    table: Table,
    contract: Contract,
    promise: Promise,
    /// The most fingerprints that are let in.
    limit: u64,
    /// Fingerprints in the table; changed by the one writer alone.
    len: AtomicU64,
    version: Version,
    store: S,
}

/// Asking, in any place.
impl<S: Store> Cuckoo<S> {
    pub(crate) fn from_parts(
        shape: CuckooShape,
        contract: Contract,
        promise: Promise,
        len: u64,
        store: S,
    ) -> Result<Self> {
        if store.words().count() as u64 != shape.words() || len > shape.slots() {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "a cuckoo table of {} slots has {} words and at most that many keys, not {} words and {len} keys",
                    shape.slots(),
                    shape.words(),
                    store.words().count()
                ),
            ));
        }
        let limit = limit(promise.capacity).min(shape.slots());
        let (table, len) = (shape.table(), AtomicU64::new(len));
        Ok(Self { shape, table, contract, promise, limit, len, version: Version::new(), store })
    }

    /// Whether a key may be there: false is certain, true is "maybe".
    ///
    /// An error means that the key cannot be written in the filter's encoding; that is not a "no".
    #[doc(alias = "mightContain")]
    #[doc(alias = "lookup")]
    #[doc(alias = "exists")]
    #[inline]
    pub fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.contains_digest(self.contract.digest(key)?))
    }

    /// [`contains`](Self::contains) for a digest made elsewhere under the same contract.
    #[inline]
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        if S::CHECKED && !self.store.admitted() && !self.admit(digest) {
            return true;
        }
        let words = self.store.words();
        if <S::Read<'_> as ReadWords>::SHARED {
            return self.version.ask(|| self.table.contains(words, digest));
        }
        self.table.contains(words, digest)
    }

    /// Whether every word of a key's two buckets may be believed.
    fn admit(&self, digest: Digest) -> bool {
        let first = self.table.home(digest);
        let second = self.table.other(first, self.table.fingerprint(digest));
        [first, second].into_iter().all(|bucket| {
            let (from, to) = self.table.span(bucket);
            self.store.admit(from) && self.store.admit(to)
        })
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

    fn contains_all(&self, mut digests: impl Digests, mut answers: &mut [bool]) -> Result<()> {
        if !S::CHECKED || self.store.admitted() {
            return dispatch(ContainsAll::new(self.table, self.store.words(), &self.version, digests, answers));
        }
        let mut chunk = [Digest::default(); CHUNK];
        loop {
            let now = match digests.next(&mut chunk)? {
                0 => return Ok(()),
                count => &chunk[..count],
            };
            let (done, rest) = std::mem::take(&mut answers).split_at_mut(now.len());
            now.iter().zip(done).for_each(|(&digest, answer)| *answer = self.contains_digest(digest));
            answers = rest;
        }
    }

    /// How many copies of a key's fingerprint there are, 0 to 4: never fewer than the key was inserted (less removals),
    /// except that 4 means "four or more"; sometimes more, when another key looks the same. Where copies are
    /// [exact](CopyRule::Exact), 0 to 8.
    #[doc(alias = "count")]
    pub fn count_of<K: Key + ?Sized>(&self, key: &K) -> Result<u64> {
        self.count_of_digest(self.contract.digest(key)?)
    }

    /// [`count_of`](Self::count_of) for a digest made elsewhere under the same contract: at
    /// [`max_copies`](Self::max_copies) one more would stick or be refused, and above it one sticks.
    pub fn count_of_digest(&self, digest: Digest) -> Result<u64> {
        Ok(u64::from(self.copies_of(digest)))
    }

    /// The most copies of one key that are held and removed exactly: 3, or 8 where copies are [exact](CopyRule::Exact).
    #[must_use]
    pub fn max_copies(&self) -> u64 {
        self.shape.copies().max_copies()
    }

    /// Copies of a fingerprint, up to the most that have a slot; that number when it cannot be known.
    pub(crate) fn copies_of(&self, digest: Digest) -> u32 {
        let most = self.shape.copies().most();
        if S::CHECKED && !self.admit(digest) {
            return most;
        }
        let (first, fingerprint) = (self.table.home(digest), self.table.fingerprint(digest));
        let mut copies = 0;
        let mut count = || copies = moves::copies(&self.table, self.store.words(), first, fingerprint);
        let sure = if <S::Read<'_> as ReadWords>::SHARED {
            self.version.ask_all(count)
        } else {
            count();
            true
        };
        if sure { copies.min(most) } else { most }
    }

    /// The fingerprint of a key, and what its two buckets hold by their numbers; nothing if that cannot be known, because a
    /// change ended half-way. A free slot holds 0, which is no fingerprint.
    pub(crate) fn buckets_of(&self, digest: Digest) -> Option<(u64, Buckets)> {
        let (first, fingerprint) = (self.table.home(digest), self.table.fingerprint(digest));
        let held = |bucket| (bucket, self.table.slots(self.store.words(), bucket));
        self.version.at_rest(|| (fingerprint, [held(first), held(self.table.other(first, fingerprint))]))
    }

    /// Asks memory for the two buckets of a key.
    #[inline(always)]
    fn fetch(&self, digest: Digest) {
        let first = self.table.home(digest);
        self.table.fetch(self.store.words(), first);
        self.table.fetch(self.store.words(), self.table.other(first, self.table.fingerprint(digest)));
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::Cuckoo
    }

    /// What a "no" means: the key was never inserted, or was removed as often as inserted.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        Kind::Cuckoo.guarantee()
    }

    kept!(contract, promise, when_full, promised_rate, is_empty);

    /// Buckets and fingerprints.
    #[must_use]
    pub fn shape(&self) -> &CuckooShape {
        &self.shape
    }

    /// Runs `work` while nobody can change the filter; refused if an earlier change ended half-way.
    pub(crate) fn at_rest<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        self.version.at_rest(work).ok_or_else(|| crate::promise::half_changed(Kind::Cuckoo))
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    /// The memory of the table, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.shape.words() * 8
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

    /// Fingerprints in the table: keys inserted less keys removed. A key inserted twice counts twice; from its fourth
    /// copy on it sticks and is counted no more, unless copies are [exact](CopyRule::Exact).
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// How many different keys the filter was made for: so many always find room.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.promise.capacity
    }

    /// How many more keys always find room.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.promise.capacity.saturating_sub(self.len())
    }

    /// Whether the filter holds what it was made for.
    ///
    /// A few more are taken while there is room (one in 64, and twelve), so that keys that came twice do not turn others
    /// away; the rate is kept with them too.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.remaining() == 0
    }

    /// The exact expected rate of this shape with what is in it now.
    #[doc(alias = "expectedFpp")]
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        self.shape.expected_rate(self.len())
    }

    /// The rate this shape would have with so many different keys.
    #[must_use]
    pub fn expected_rate_at(&self, items: u64) -> f64 {
        self.shape.expected_rate(items)
    }

    /// The rate that the slots as they are will show, whatever was counted; a little too high when keys came more than
    /// once. Reads all slots.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        self.shape.expected_rate(self.used_slots())
    }

    /// How many slots are in use. Reads all of them.
    #[must_use]
    pub fn used_slots(&self) -> u64 {
        (0..self.shape.buckets()).map(|bucket| self.used_in(bucket)).sum()
    }

    /// How many slots of a bucket are in use.
    pub(crate) fn used_in(&self, bucket: u64) -> u64 {
        self.table.slots(self.store.words(), bucket).iter().map(|&slot| u64::from(slot != 0)).sum()
    }

    /// The share of slots that are in use; 0.945 at the capacity of a large table. Reads all slots.
    #[doc(alias = "load_factor")]
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.used_slots() as f64 / self.shape.slots() as f64
    }

    /// How many keys the slots speak of: the number of fingerprints, which is exact, unless keys came more than once
    /// (each counts up to four times, or eight). Reads all slots.
    #[must_use]
    pub fn approximate_count(&self) -> Estimate {
        let used = self.used_slots() as f64;
        Estimate { value: used, low: used, high: Some(used) }
    }
}

#[cold]
fn no_room(capacity: u64) -> Error {
    Error::new(
        ErrorKind::Full,
        format!(
            "there is no room for another key in the cuckoo filter, which was made for {capacity}; a key that is inserted \
             again takes a slot again, up to four: build a larger one, or use one that grows"
        ),
    )
}

/// The refusal of one copy more than can be told apart, where copies are exact.
#[cold]
pub(super) fn too_many_copies() -> Error {
    Error::new(
        ErrorKind::Full,
        format!(
            "the filter holds {} copies of this key, the most that can be told apart and removed again one by one; nothing \
             was changed: remove one first, or use a counting filter",
            CopyRule::Exact.max_copies()
        ),
    )
}

/// The parts that a change needs, apart from the words.
struct Change<'a> {
    table: &'a Table,
    len: &'a AtomicU64,
    limit: u64,
    capacity: u64,
    copies: CopyRule,
}

impl Change<'_> {
    #[inline]
    fn insert(&self, words: &mut impl WriteWords, digest: Digest) -> Result<bool> {
        let len = self.len.load(Ordering::Relaxed);
        let inserted = moves::insert(self.table, words, digest, self.copies, len < self.limit);
        match inserted {
            Inserted::New | Inserted::Copy => self.len.store(len + 1, Ordering::Relaxed),
            Inserted::Sticky => {}
            Inserted::Refused => return Err(no_room(self.capacity)),
            Inserted::TooMany => return Err(too_many_copies()),
        }
        Ok(inserted == Inserted::New)
    }

    fn remove(&self, words: &mut impl WriteWords, digest: Digest) -> bool {
        let removed = moves::remove(self.table, words, digest, self.copies);
        if removed == Removed::One {
            self.len.store(self.len.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        }
        removed != Removed::Absent
    }
}

macro_rules! change {
    ($self:ident) => {
        Change {
            table: &$self.table,
            len: &$self.len,
            limit: $self.limit,
            capacity: $self.promise.capacity,
            copies: $self.shape.copies(),
        }
    };
}

/// Goes through digests with `each(now, coming)`: one to insert, and one a chunk later to ask memory for. Stops at the
/// first refusal; how many were new.
#[inline(always)]
fn in_step(
    mut digests: impl Digests,
    mut each: impl FnMut(Option<Digest>, Option<Digest>) -> Result<bool>,
) -> Result<u64> {
    let mut chunks = [[Digest::default(); CHUNK]; 2];
    let (mut now, mut next, mut waiting, mut fresh) = (0, 1, 0, 0);
    loop {
        let filled = digests.next(&mut chunks[next]);
        let coming = *filled.as_ref().unwrap_or(&0);
        for at in 0..waiting.max(coming) {
            let digest = chunks[now][..waiting].get(at).copied();
            fresh += u64::from(each(digest, chunks[next][..coming].get(at).copied())?);
        }
        filled?;
        if coming == 0 {
            return Ok(fresh);
        }
        waiting = coming;
        (now, next) = (next, now);
    }
}

/// Building, inserting and removing, alone.
impl Cuckoo<Owned> {
    /// Starts a filter: `.items(n).rate(p)`, or `.bytes(b)` with either, or `.buckets(m).fingerprint_bits(f)`.
    #[must_use]
    pub fn builder() -> CuckooBuilder {
        CuckooBuilder::new()
    }

    pub(crate) fn empty(shape: CuckooShape, contract: Contract, promise: Promise) -> Result<Self> {
        Self::from_parts(shape, contract, promise, 0, Owned::zeroed(shape.words())?)
    }

    /// Inserts a key; true if it was certainly new, false if it (or one that looks the same) was there before.
    ///
    /// A key inserted twice is there twice and must be removed twice, up to three times; the fourth makes it stick (see
    /// the [module](super)); where copies are [exact](CopyRule::Exact), up to eight times, and the ninth is refused. A full
    /// filter refuses with [`ErrorKind::Full`], and then nothing has changed.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    #[inline]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    #[inline]
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        change!(self).insert(&mut self.store.as_mut_slice(), digest)
    }

    /// Inserts many keys at once; how many were certainly new.
    ///
    /// If a key is refused (wrong encoding, full), the keys before it are in and those after it are not.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<u64> {
        let contract = self.contract.clone();
        match WordDigests::of(&contract, keys) {
            Some(words) => self.insert_in_step(words),
            None => self.insert_in_step(KeyDigests { contract: &contract, keys }),
        }
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
        self.insert_in_step(digests)
    }

    fn insert_in_step(&mut self, digests: impl Digests) -> Result<u64> {
        in_step(digests, |now, coming| {
            if let Some(digest) = coming {
                self.fetch(digest);
            }
            now.map_or(Ok(false), |digest| self.insert_digest(digest))
        })
    }

    /// Inserts everything an iterator gives; how many were certainly new.
    #[doc(alias = "extend")]
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

    /// Removes a key that was inserted; false if it was certainly absent, and then nothing changed.
    ///
    /// **Only remove what you inserted.** A key that was never inserted but seems to be there (a false positive)
    /// cannot be told from one that was, and removing it takes another key's fingerprint: a wrong "no" later. That is
    /// the contract of every filter with removal; ask your source of truth first if you are not sure.
    ///
    /// True does not mean that the key is gone: it may have been inserted more often, and one whose fingerprint sticks
    /// (four copies, unless they are [exact](CopyRule::Exact)) is never gone. Count your own removals; do not loop until false.
    #[doc(alias = "delete")]
    pub fn remove<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        Ok(self.remove_digest(self.contract.digest(key)?))
    }

    /// [`remove`](Self::remove) for a digest made elsewhere under the same contract.
    pub fn remove_digest(&mut self, digest: Digest) -> bool {
        change!(self).remove(&mut self.store.as_mut_slice(), digest)
    }

    /// Forgets everything; the shape, the contract and the promise stay.
    #[doc(alias = "reset")]
    pub fn clear(&mut self) {
        self.store.as_mut_slice().fill(0);
        *self.len.get_mut() = 0;
    }

    /// The same filter for many threads at once. Moves; nothing is copied.
    pub fn into_shared(self) -> Result<Cuckoo<Shared>> {
        let len = self.len();
        Cuckoo::from_parts(self.shape, self.contract, self.promise, len, Shared::from_owned(self.store)?)
    }

    /// Takes every fingerprint that `take` accepts out of the table: it is given one of the two buckets, the fingerprint
    /// and how many copies of it there are, and says yes for one of them.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(u64, u64, u32) -> bool) {
        for bucket in 0..self.shape.buckets() {
            for (slot, fingerprint) in self.table.slots(self.store.as_slice(), bucket).into_iter().enumerate() {
                if fingerprint == 0 {
                    continue;
                }
                let copies = moves::copies(&self.table, self.store.as_slice(), bucket, fingerprint);
                if take(bucket, fingerprint, copies) {
                    self.table.put(&mut self.store.as_mut_slice(), bucket, slot, 0);
                    let len = self.len.get_mut();
                    *len = len.saturating_sub(1);
                }
            }
        }
    }

    /// Takes in a fingerprint of a table of at least these buckets and this width, of which this one is a coarser view.
    /// Without `move_in` only if it sticks here already, so that it is covered.
    pub(crate) fn adopt(&mut self, from: &CuckooShape, bucket: u64, fingerprint: u64, move_in: bool) -> Inserted {
        let bucket = bucket / (from.buckets() / self.shape.buckets());
        let fingerprint = fingerprint >> (from.fingerprint_bits() - self.shape.fingerprint_bits());
        let len = self.len();
        let room = move_in && len < self.promise.capacity;
        let (rule, words) = (self.shape.copies(), &mut self.store.as_mut_slice());
        let inserted = moves::place(&self.table, words, (bucket, fingerprint), rule, room);
        *self.len.get_mut() = len + u64::from(matches!(inserted, Inserted::New | Inserted::Copy));
        inserted
    }
}

/// Inserting and removing, from many threads: one at a time changes the table.
impl Cuckoo<Shared> {
    /// Inserts a key; true if it was certainly new, false if it (or one that looks the same) was there before.
    ///
    /// When several threads insert the same new key at once, exactly one of them is told that it was new.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&self, digest: Digest) -> Result<bool> {
        self.version.change(|| change!(self).insert(&mut self.store.atomics(), digest))
    }

    /// Inserts many keys at once; how many were certainly new.
    pub fn insert_batch<K: Key>(&self, keys: &[K]) -> Result<u64> {
        match WordDigests::of(&self.contract, keys) {
            Some(words) => self.insert_in_step(words),
            None => self.insert_in_step(KeyDigests { contract: &self.contract, keys }),
        }
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&self, digests: &[Digest]) -> Result<u64> {
        self.insert_in_step(digests)
    }

    fn insert_in_step(&self, digests: impl Digests) -> Result<u64> {
        in_step(digests, |now, coming| {
            if let Some(digest) = coming {
                self.fetch(digest);
            }
            now.map_or(Ok(false), |digest| self.insert_digest(digest))
        })
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
        self.version.change(|| change!(self).remove(&mut self.store.atomics(), digest))
    }

    /// Forgets everything; takes the only reference, so that no insert is lost half-way.
    pub fn clear(&mut self) {
        self.store.as_mut_slice().fill(0);
        *self.len.get_mut() = 0;
    }

    /// The same filter for one owner. Moves; nothing is copied.
    pub fn into_owned(self) -> Result<Cuckoo<Owned>> {
        let len = self.len();
        Cuckoo::from_parts(self.shape, self.contract, self.promise, len, self.store.into_owned()?)
    }
}

impl Clone for Cuckoo<Owned> {
    fn clone(&self) -> Self {
        // The original was allocated, so a refusal here is the same as any failed allocation of a clone.
        let mut copy = Self::empty(self.shape, self.contract.clone(), self.promise).expect("memory for a clone");
        copy.store.as_mut_slice().copy_from_slice(self.store.as_slice());
        *copy.len.get_mut() = self.len();
        copy
    }
}

/// Same contract, same shape, same slots. Counts and promises are not compared.
impl<A: Store, B: Store> PartialEq<Cuckoo<B>> for Cuckoo<A> {
    fn eq(&self, other: &Cuckoo<B>) -> bool {
        let (a, b) = (self.store.words(), other.store.words());
        self.shape == other.shape
            && self.contract == other.contract
            && (0..a.count()).all(|at| a.load(at) == b.load(at))
    }
}

impl<S: Store> fmt::Debug for Cuckoo<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuckoo")
            .field("shape", &self.shape)
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
