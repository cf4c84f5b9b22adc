//! RedisBloom's cuckoo filter (`CF.*`): a chain of tables of one-byte fingerprints, read from and written to
//! `CF.SCANDUMP` chunks.
//!
//! **When.** A cuckoo filter moves between Redis and here. **When not.** Nothing of it meets Redis: fingerprints have
//! eight bits whatever rate is wished for, and every table that is added makes all lookups and the rate worse.
//!
//! ```text
//!  header   items u64   buckets u64   deletes u64   tables u64   bucket size u16   iterations u16   expansion u16
//!  then     the tables: table j has buckets · expansion^j buckets of one-byte slots, 0 is empty
//!
//!  h = MurmurHash64A(key, seed 0)      fingerprint f = h mod 255 + 1
//!  buckets of a key in every table: h and h xor f · 5bd1e995, each mod its number of buckets (a power of two)
//! ```
//!
//! A key is put into the first empty slot of its two buckets, in the newest table that has one. If none has, it takes
//! the place of another in the newest table, which moves to its other bucket, and so on, round-robin over the slots; if
//! that does not end within `iterations`, all are put back and a table is added (or, with expansion 0, the key refused).
//!
//! | slots a bucket | rate when full, 1 table | 2 tables | 4 tables |
//! |---|---|---|---|
//! | 2 | 1.6 % | 3.1 % | 6.1 % |
//! | 4 | 3.1 % | 6.1 % | 11.8 % |

use super::shape::{
    Shape, byte_at, contract_of, corrupt, items_of, not_the_form, promise_of, put_byte, sealed, shape_numbers,
};
use super::{Foreign, chunks};
use crate::arch::words::ReadWords;
use crate::bits::{Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Algorithm, Contract, Digest};
use crate::key::Key;
use crate::kind::Kind;
use crate::math::estimate::Estimate;
use crate::promise::{WhenFull, Wish, full, wish_setters};

const HEADER: usize = 38;
/// What a fingerprint is spread over the buckets with.
const SPREAD: u64 = 0x5bd1_e995;
/// Different fingerprints.
const FINGERPRINTS: f64 = 255.0;
/// The most tables that are read. RedisBloom's configuration allows 65,536, and whoever asks looks into all of them.
const MOST_TABLES: u64 = 1_024;
/// The most tables a filter grows to: RedisBloom's `cf-max-expansions`.
const GROWS_TO: u64 = 32;
/// The most keys that can be reserved.
const MOST_CAPACITY: u64 = 1 << 30;
/// The most bytes of all tables.
const MOST_BYTES: u64 = 1 << 59;

/// A cuckoo filter in RedisBloom's form.
///
/// ```
/// use bloomgate::foreign::RedisCuckoo;
///
/// let mut sessions = RedisCuckoo::builder().items(1_000).build()?;
/// sessions.insert("alice")?;
/// assert!(RedisCuckoo::from_dump(&sessions.to_dump()?)?.contains("alice")?);
/// assert!(sessions.remove("alice")?);
/// assert!(!sessions.contains("alice")?);
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub type RedisCuckoo<S = Owned> = Foreign<RedisCuckooShape, S>;

/// The numbers of a RedisBloom cuckoo header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedisCuckooShape {
    items: u64,
    buckets: u64,
    deletes: u64,
    tables: u64,
    bucket_size: u16,
    iterations: u16,
    expansion: u16,
    /// The slots of all tables, worked out once.
    slots: u64,
}

/// Where one table lies.
#[derive(Debug, Clone, Copy)]
struct Table {
    start: u64,
    buckets: u64,
}

impl RedisCuckooShape {
    /// So many buckets in the first of so many tables, or why that is no shape. It counts no keys.
    pub fn new(buckets: u64, tables: u64, bucket_size: u16, iterations: u16, expansion: u16) -> Result<Self> {
        let refuse = |what: String| Err(Error::new(ErrorKind::InvalidParameter, what));
        if !buckets.is_power_of_two() || !(1..=255).contains(&bucket_size) || iterations == 0 {
            return refuse(format!(
                "a RedisBloom cuckoo filter has a power of two of buckets, 1 to 255 slots in each and at least 1 \
                 iteration, not {buckets}, {bucket_size} and {iterations}"
            ));
        }
        let grows = expansion.is_power_of_two() || expansion == 0 && tables == 1;
        if !(1..=MOST_TABLES).contains(&tables) || !grows {
            return refuse(format!(
                "it has 1 to {MOST_TABLES} tables and expands by a power of two, not {tables} and {expansion}"
            ));
        }
        let mut shape = Self { items: 0, buckets, deletes: 0, tables, bucket_size, iterations, expansion, slots: 0 };
        let mut table = buckets;
        for at in 0..tables {
            let bytes = table.checked_mul(bucket_size.into()).and_then(|bytes| shape.slots.checked_add(bytes));
            let Some(slots) = bytes.filter(|&bytes| bytes <= MOST_BYTES) else {
                return refuse(format!("{tables} tables, each {expansion} times the one before, fit no memory"));
            };
            shape.slots = slots;
            if at + 1 < tables {
                table = table.saturating_mul(expansion.into());
            }
        }
        Ok(shape)
    }

    /// Slots in a bucket.
    #[must_use]
    pub fn bucket_size(&self) -> u16 {
        self.bucket_size
    }

    /// Buckets of the first table.
    #[must_use]
    pub fn buckets(&self) -> u64 {
        self.buckets
    }

    /// The tables.
    #[must_use]
    pub fn tables(&self) -> u64 {
        self.tables
    }

    /// Keys that an insert may move before it gives up.
    #[must_use]
    pub fn iterations(&self) -> u16 {
        self.iterations
    }

    /// How much larger each table is than the one before; 0 if no table is ever added.
    #[must_use]
    pub fn expansion(&self) -> u16 {
        self.expansion
    }

    /// Keys that were removed, as the header counts them.
    #[must_use]
    pub fn deletes(&self) -> u64 {
        self.deletes
    }

    /// The slots of all tables.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.slots
    }

    fn when_full(&self) -> WhenFull {
        if self.expansion == 0 { WhenFull::Refuse } else { WhenFull::Grow }
    }

    /// The tables, newest first.
    fn newest_first(&self) -> impl Iterator<Item = Table> + use<> {
        let (size, expansion) = (u64::from(self.bucket_size), u64::from(self.expansion).max(1));
        let steps = self.tables.saturating_sub(1) as u32;
        let newest = self.buckets.saturating_mul(expansion.saturating_pow(steps));
        let mut end = self.slots;
        let mut buckets = newest;
        (0..self.tables).map(move |_| {
            let table = Table { start: end - buckets * size, buckets };
            (end, buckets) = (table.start, buckets / expansion);
            table
        })
    }

    /// The bytes where the two buckets of a key begin in a table.
    #[inline]
    fn pair(&self, table: Table, hash: u64) -> [u64; 2] {
        let other = hash ^ (u64::from(fingerprint(hash)) * SPREAD);
        [hash, other].map(|hash| self.bucket(table, hash))
    }

    #[inline]
    fn bucket(&self, table: Table, hash: u64) -> u64 {
        table.start + (hash & (table.buckets - 1)) * u64::from(self.bucket_size)
    }

    /// The first slot of a bucket that holds a byte.
    #[inline]
    fn find<W: ReadWords>(&self, words: W, bucket: u64, byte: u8) -> Option<usize> {
        (bucket..bucket + u64::from(self.bucket_size)).map(|at| at as usize).find(|&at| byte_at(words, at) == byte)
    }

    /// The first empty slot of a key's buckets, in the newest table that has one.
    fn empty_slot<W: ReadWords>(&self, words: W, hash: u64) -> Option<usize> {
        self.newest_first().find_map(|table| self.pair(table, hash).into_iter().find_map(|at| self.find(words, at, 0)))
    }

    /// Puts a fingerprint in the newest table by moving others, or puts all back and says false.
    fn displace(&self, words: &mut [u64], hash: u64) -> bool {
        let Some(table) = self.newest_first().next() else { return false };
        let size = u64::from(self.bucket_size);
        let (mut homeless, mut index, mut slot) = (fingerprint(hash), hash & (table.buckets - 1), 0);
        let other = |index: u64, moved: u8| (index ^ (u64::from(moved) * SPREAD)) & (table.buckets - 1);
        let swap = |words: &mut [u64], index: u64, slot: u64, byte: &mut u8| {
            let at = (table.start + index * size + slot) as usize;
            let there = byte_at(&*words, at);
            put_byte(words, at, *byte);
            *byte = there;
        };
        for _ in 0..self.iterations {
            swap(words, index, slot, &mut homeless);
            index = other(index, homeless);
            if let Some(at) = self.find(&*words, table.start + index * size, 0) {
                put_byte(words, at, homeless);
                return true;
            }
            slot = (slot + 1) % size;
        }
        for _ in 0..self.iterations {
            slot = (slot + size - 1) % size;
            index = other(index, homeless);
            swap(words, index, slot, &mut homeless);
        }
        false
    }

    /// The same with one table more.
    fn grown(&self) -> Result<Self> {
        if self.expansion == 0 || self.tables >= GROWS_TO {
            return Err(full(Kind::RedisCuckoo, self.items));
        }
        let longer = Self::new(self.buckets, self.tables + 1, self.bucket_size, self.iterations, self.expansion)
            .map_err(|_| full(Kind::RedisCuckoo, self.items))?;
        Ok(Self { items: self.items, deletes: self.deletes, ..longer })
    }
}

/// The fingerprint of a hash: 1 to 255.
#[inline]
fn fingerprint(hash: u64) -> u8 {
    (hash % 255 + 1) as u8
}

impl Shape for RedisCuckooShape {}
shape_numbers!(RedisCuckooShape);

#[allow(private_interfaces, private_bounds)]
impl sealed::Shape for RedisCuckooShape {
    const KIND: Kind = Kind::RedisCuckoo;
    const ALGORITHM: Algorithm = Algorithm::Murmur64a;
    const COPIES: bool = true;

    fn header(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER);
        for number in [self.items, self.buckets, self.deletes, self.tables] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.bucket_size, self.iterations, self.expansion] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    fn from_header(header: &[u8]) -> Result<Self> {
        let kind = Kind::RedisCuckoo;
        if header.len() != HEADER {
            return Err(not_the_form(kind, format_args!("a header has {HEADER} bytes, not {}", header.len())));
        }
        let mut numbers = chunks::Numbers(header);
        let (items, buckets, deletes, tables) = (numbers.u64(), numbers.u64(), numbers.u64(), numbers.u64());
        let shape = Self::new(buckets, tables, numbers.u16(), numbers.u16(), numbers.u16())
            .map_err(|error| corrupt(kind, error))?;
        if items > shape.slots {
            return Err(corrupt(kind, format_args!("it counts {items} keys in {} slots", shape.slots)));
        }
        Ok(Self { items, deletes, ..shape })
    }

    fn words(&self) -> u64 {
        self.slots.div_ceil(8)
    }

    fn spare(&self) -> u64 {
        match self.slots % 8 {
            0 => 0,
            used => u64::MAX << (used * 8),
        }
    }

    fn cells(&self) -> u64 {
        self.slots
    }

    fn set_cells<W: ReadWords>(&self, words: W) -> u64 {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        // A byte's top bit comes out set if any of its bits is.
        let taken = |word: u64| u64::from(((((word & LOW) + LOW) | word) & !LOW).count_ones());
        (0..words.count()).map(|at| taken(words.load(at))).sum()
    }

    fn items(&self) -> Option<u64> {
        Some(self.items)
    }

    fn capacity(&self) -> Option<u64> {
        Some(self.slots)
    }

    /// A lookup compares with the slots of two buckets in every table; each that is taken agrees with one in 255.
    fn expected_rate(&self, items: u64) -> f64 {
        let load = (items as f64 / self.slots as f64).min(1.0);
        let compared = 2.0 * f64::from(self.bucket_size) * self.tables as f64 * load;
        -(compared * (-1.0 / FINGERPRINTS).ln_1p()).exp_m1()
    }

    fn estimated_rate<W: ReadWords>(&self, words: W) -> f64 {
        self.expected_rate(self.set_cells(words))
    }

    /// Exactly the fingerprints that are there.
    fn approximate_count<W: ReadWords>(&self, words: W) -> Estimate {
        let taken = self.set_cells(words) as f64;
        Estimate { value: taken, low: taken, high: Some(taken) }
    }

    /// It has bytes, not bits: the bits of the bytes that a lookup reads.
    fn each_bit(&self, digest: Digest, mut visit: impl FnMut(u64) -> bool) -> bool {
        self.newest_first().all(|table| {
            self.pair(table, digest.lo)
                .into_iter()
                .all(|bucket| (bucket..bucket + u64::from(self.bucket_size)).all(|at| visit(at * 8)))
        })
    }

    fn contains<W: ReadWords>(&self, words: W, digest: Digest) -> bool {
        let byte = fingerprint(digest.lo);
        self.newest_first()
            .any(|table| self.pair(table, digest.lo).into_iter().any(|at| self.find(words, at, byte).is_some()))
    }

    fn insert(&mut self, store: &mut Owned, digest: Digest) -> Result<bool> {
        let hash = digest.lo;
        let fresh = !self.contains(store.as_slice(), digest);
        if let Some(at) = self.empty_slot(store.as_slice(), hash) {
            put_byte(store.as_mut_slice(), at, fingerprint(hash));
        } else if !self.displace(store.as_mut_slice(), hash) {
            let grown = self.grown()?;
            let mut longer = Owned::zeroed(grown.words())?;
            longer.as_mut_slice()[..store.as_slice().len()].copy_from_slice(store.as_slice());
            *store = longer;
            // The new table is empty, and the first slot of the key's first bucket in it too.
            if let Some(table) = grown.newest_first().next() {
                put_byte(store.as_mut_slice(), grown.bucket(table, hash) as usize, fingerprint(hash));
            }
            *self = grown;
        }
        // A file may count wrongly, up to what its slots hold; a slot more was just taken.
        self.items = self.items.saturating_add(1);
        Ok(fresh)
    }

    /// Moving others may make room; whether it does is known only after it was tried.
    fn growth<W: ReadWords>(&self, words: W, digest: Digest) -> u64 {
        match self.empty_slot(words, digest.lo) {
            Some(_) => 0,
            None => self.grown().map_or(0, |grown| grown.words() - self.words()),
        }
    }

    fn clear(&mut self) {
        (self.items, self.deletes) = (0, 0);
    }
}

impl<S: Store> Foreign<RedisCuckooShape, S> {
    /// The chunks that `CF.SCANDUMP` gives for this filter: feed them to `CF.LOADCHUNK` in this order.
    pub fn to_chunks(&self) -> Result<Vec<(i64, Vec<u8>)>> {
        let size = u64::from(self.shape.bucket_size);
        let mut tables: Vec<u64> = self.shape.newest_first().map(|table| table.buckets * size).collect();
        tables.reverse();
        chunks::cut(self, tables.into_iter())
    }

    /// A dump file: the chunks, each behind its iterator (8 bytes) and its length (8 bytes), little-endian.
    pub fn to_dump(&self) -> Result<Vec<u8>> {
        Ok(chunks::file(self.to_chunks()?))
    }

    /// How many copies of a key there may be: never too low; sometimes too high.
    #[doc(alias = "count")]
    pub fn count_estimate<K: Key + ?Sized>(&self, key: &K) -> Result<u64> {
        self.count_of_digest(self.contract().digest(key)?)
    }

    /// [`count_estimate`](Self::count_estimate) for a digest made elsewhere under the same contract.
    pub fn count_of_digest(&self, digest: Digest) -> Result<u64> {
        if S::CHECKED {
            self.check_words()?;
        }
        let (words, byte) = (self.store.words(), fingerprint(digest.lo));
        let mut copies = 0;
        for table in self.shape.newest_first() {
            let [one, other] = self.shape.pair(table, digest.lo);
            let buckets = if one == other { 1 } else { 2 };
            for bucket in [one, other].into_iter().take(buckets) {
                let slots = bucket..bucket + u64::from(self.shape.bucket_size);
                copies += slots.filter(|&at| byte_at(words, at as usize) == byte).count() as u64;
            }
        }
        Ok(copies)
    }
}

impl Foreign<RedisCuckooShape, Owned> {
    /// Starts a filter as `CF.RESERVE` does: `.items(n)`. Its rate follows from the slots of a bucket.
    #[must_use]
    pub fn builder() -> RedisCuckooBuilder {
        let mut wish = Wish::new(WhenFull::Grow);
        wish.contract = Contract::murmur64a();
        RedisCuckooBuilder { wish, bucket_size: 2, iterations: 20, expansion: 1 }
    }

    /// The filter of the chunks that `CF.SCANDUMP` gave, in their order, header first.
    pub fn from_chunks<'a, I>(chunks: I) -> Result<Self>
    where
        I: IntoIterator<Item = (i64, &'a [u8])>,
        I::IntoIter: Clone,
    {
        Self::assemble(chunks.into_iter().map(Ok))
    }

    /// The filter of a dump file ([`to_dump`](Self::to_dump)).
    pub fn from_dump(file: &[u8]) -> Result<Self> {
        Self::assemble(chunks::Frames::new(file))
    }

    fn assemble<'a>(all: impl Iterator<Item = Result<(i64, &'a [u8])>> + Clone) -> Result<Self> {
        let (shape, rest) = examine(all)?;
        let store = chunks::gather(shape.words(), rest)?;
        let promise = promise_of(&shape, shape.slots, 0.0, shape.when_full());
        Self::read(shape, Contract::murmur64a(), promise, store)
    }

    /// Removes one copy of a key that was inserted; false if it was certainly absent, and then nothing changed.
    ///
    /// **Only remove what you inserted.** A key that only seems to be there cannot be told from one that is, and removing
    /// it takes the fingerprint of another: a wrong "no" later. (Redis also packs its tables now and then when keys were
    /// deleted; that is not done here, and answers do not depend on it.)
    #[doc(alias = "delete")]
    pub fn remove<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        Ok(self.remove_digest(self.contract().digest(key)?))
    }

    /// [`remove`](Self::remove) for a digest made elsewhere under the same contract.
    pub fn remove_digest(&mut self, digest: Digest) -> bool {
        let (words, byte) = (self.store.as_slice(), fingerprint(digest.lo));
        let shape = self.shape;
        let slot = shape
            .newest_first()
            .find_map(|table| shape.pair(table, digest.lo).into_iter().find_map(|at| shape.find(words, at, byte)));
        let Some(at) = slot else { return false };
        put_byte(self.store.as_mut_slice(), at, 0);
        self.shape.items = self.shape.items.saturating_sub(1);
        self.shape.deletes = self.shape.deletes.saturating_add(1);
        true
    }
}

/// The shape of a dump whose chunks fit it, and the chunks after the header. Allocates nothing.
pub(super) fn examine<'a, I>(all: I) -> Result<(RedisCuckooShape, I)>
where
    I: Iterator<Item = Result<(i64, &'a [u8])>> + Clone,
{
    let (header, rest) = chunks::header(Kind::RedisCuckoo, all)?;
    let shape = RedisCuckooShape::from_header(header)?;
    chunks::check(Kind::RedisCuckoo, rest.clone(), shape.slots)?;
    Ok((shape, rest))
}

/// Makes a [`RedisCuckoo`] filter. Setters never refuse; [`build`](RedisCuckooBuilder::build) alone does.
#[derive(Debug, Clone)]
pub struct RedisCuckooBuilder {
    wish: Wish,
    bucket_size: u16,
    iterations: u16,
    expansion: u16,
}

impl RedisCuckooBuilder {
    wish_setters!();

    /// Slots in a bucket, 1 to 255; 2 if not said. More fill better, and each adds 0.8 % to the rate.
    #[must_use]
    pub fn bucket_size(mut self, slots: u16) -> Self {
        self.bucket_size = slots;
        self
    }

    /// Keys that an insert may move before a table is added; 20 if not said.
    #[must_use]
    pub fn iterations(mut self, iterations: u16) -> Self {
        self.iterations = iterations;
        self
    }

    /// How much larger each table is than the one before, rounded up to a power of two; 0 never adds one; 1 if not said.
    #[must_use]
    pub fn expansion(mut self, factor: u16) -> Self {
        self.expansion = factor;
        self
    }

    /// The filter, of the size that `CF.RESERVE` makes, or why there is none.
    pub fn build(self) -> Result<RedisCuckoo> {
        let contract = contract_of::<RedisCuckooShape>(&self.wish)?;
        let items = items_of(&self.wish)?;
        let expansion = match (self.wish.when_full, self.expansion) {
            (WhenFull::GoOn, _) => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "a cuckoo filter has a slot for every key and cannot go on when full; let it grow or refuse",
                ));
            }
            (WhenFull::Refuse, _) | (_, 0) => 0,
            (WhenFull::Grow, factor) => factor.checked_next_power_of_two().filter(|&f| f <= 32768).unwrap_or(32768),
        };
        if items > MOST_CAPACITY {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("RedisBloom reserves up to 2^30 keys, not {items}; split them over several filters"),
            ));
        }
        let buckets = (items / u64::from(self.bucket_size).max(1)).max(1).next_power_of_two();
        let shape = RedisCuckooShape::new(buckets, 1, self.bucket_size, self.iterations, expansion)?;
        let rate = self.wish.checked_rate()?;
        let kept = shape.expected_rate(shape.slots);
        if let Some(rate) = rate.filter(|&rate| kept > rate * crate::promise::KEPT) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "fingerprints of 8 bits, {} a bucket, have a rate of {kept:.3} when full, not {rate}; ask for fewer \
                     slots a bucket, or use a kind whose rate can be chosen",
                    self.bucket_size
                ),
            ));
        }
        let promise = promise_of(&shape, shape.slots, 0.0, shape.when_full());
        RedisCuckoo::empty(shape, contract, promise)
    }
}
