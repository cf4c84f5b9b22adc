//! RedisBloom's Bloom filter (`BF.*`): a chain of links, read from and written to `BF.SCANDUMP` chunks.
//!
//! **When.** A filter moves between Redis and here: dumped there and asked here, or made here from a file of keys and
//! loaded there with `BF.LOADCHUNK`. **When not.** Nothing of it meets Redis: [`Scalable`](crate::Scalable) grows with
//! 1.6 times the bits of a right-sized filter where this chain takes 2.4 times, and can be keyed.
//!
//! ```text
//!  header        items u64   links u32   options u32   growth u32
//!    each link   bytes u64   bits u64   items u64   error f64   bits per entry f64   hashes u32   capacity u64   n2 u8
//!  then          the bits of every link
//!
//!  a = MurmurHash64A(key, seed c6a4a7935bd1e995)    b = MurmurHash64A(key, seed a)
//!  bit i of k = (a + i b, wrapping) mod bits; bit x in byte x >> 3, mask 1 << (x & 7)
//! ```
//!
//! Sizes are RedisBloom's: the first link has half the asked rate (all of it if `NONSCALING`), each later one half of
//! the one before and `expansion` times its capacity; `-ln(error) / ln² 2` bits per entry, cut to whole bits and filled
//! up to 64; `ceil(ln 2 · that)` hashes. Filters made here from the same keys in the same order are the same bytes.
//!
//! | keys reserved | 1 % | 1 %, `NONSCALING` | 0.1 % |
//! |---|---|---|---|
//! | 100 | 144 B | 120 B | 200 B |
//! | 1,000 | 1.4 KB | 1.2 KB | 2.0 KB |
//! | 1 million | 1.4 MB | 1.2 MB | 2.0 MB |

use super::shape::{
    Shape, contract_of, corrupt, not_the_form, promise_of, sealed, set_bits, shape_numbers, striding_rate, textbook,
};
use super::{Foreign, chunks};
use crate::arch::words::ReadWords;
use crate::bits::{Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Algorithm, Contract, Digest};
use crate::kind::Kind;
use crate::math::estimate::{self, Estimate};
use crate::math::scalable::chain_rate;
use crate::promise::{DEFAULT_RATE, WhenFull, Wish, wish_setters};

/// ln 2 and its square as RedisBloom writes them, so that bits per entry agree to the last digit.
#[allow(clippy::approx_constant)]
const LN_2: f64 = 0.693147180559945;
const LN_2_SQUARED: f64 = 0.480453013918201;
/// How much lower the error of each link is.
const TIGHTENING: f64 = 0.5;
/// The highest error that RedisBloom 8 takes; it lowers what is asked above.
const MOST_ERROR: f64 = 0.25;
/// The most keys that can be reserved.
const MOST_CAPACITY: u64 = 1 << 30;
/// The most that a chain can grow by a link.
const MOST_EXPANSION: u32 = 32768;
/// What a chain grows by if nothing is said.
const EXPANSION: u32 = 2;
/// The most words of a filter.
const MOST_WORDS: u64 = 1 << 57;
/// The most bits that a lookup may have to read, in all links together: 20 us. Chains that double come to 2^40 keys with 800;
/// a stranger's dump of a megabyte can have 19,000 links of 64 bits, all set.
const MOST_PROBES: u64 = 4_096;
/// Bits per entry that no rate needs: an error of 1e-400 has fewer.
const MOST_PER_ENTRY: f64 = 2000.0;

const HEADER: usize = 20;
const LINK: usize = 53;

/// Sizes are not rounded to powers of two.
const NO_ROUND: u32 = 1;
/// Capacity was given as an exponent of bits.
const ENTRIES_IS_BITS: u32 = 2;
/// The hash has 64 bits.
const HASH_64: u32 = 4;
/// The chain does not grow.
const NO_SCALING: u32 = 8;

/// A filter in RedisBloom's form.
///
/// ```
/// use bloomgate::foreign::RedisBloom;
///
/// let mut seen = RedisBloom::builder().items(100).rate(0.01).build()?;
/// seen.insert("only")?;
/// for (iterator, data) in seen.to_chunks()? {
///     // redis: BF.LOADCHUNK key <iterator> <data>
/// #   let _ = (iterator, data);
/// }
/// assert!(RedisBloom::from_dump(&seen.to_dump()?)?.contains("only")?);
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub type RedisBloom<S = Owned> = Foreign<RedisBloomShape, S>;

/// One link of the chain, as the header describes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The bits, a multiple of 64.
    bits: u64,
    /// The first word of the link among those of the chain.
    start: u64,
    items: u64,
    error: f64,
    per_entry: f64,
    hashes: u32,
    capacity: u64,
    exponent: u8,
}

impl Link {
    /// The bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// The bits that a key sets.
    #[must_use]
    pub fn hashes(&self) -> u32 {
        self.hashes
    }

    /// Keys that were new to the chain when they came here.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Keys it was made for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The rate it was made for.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.error
    }

    /// The link that RedisBloom makes for a capacity and an error, or nothing if that is no size.
    fn sized(capacity: u64, error: f64, start: u64) -> Option<Self> {
        let per_entry = -(error.ln() / LN_2_SQUARED);
        let bits = capacity as f64 * per_entry;
        if capacity == 0 || !(1.0..(MOST_WORDS * 64) as f64).contains(&bits) || per_entry > MOST_PER_ENTRY {
            return None;
        }
        let bits = (bits as u64).next_multiple_of(64);
        let hashes = (LN_2 * per_entry).ceil() as u32;
        Some(Self { bits, start, items: 0, error, per_entry, hashes, capacity, exponent: 0 })
            .filter(|link| link.end() <= MOST_WORDS)
    }

    /// The first word of the link among those of the chain.
    pub(crate) fn first_word(&self) -> u64 {
        self.start
    }

    fn bytes(&self) -> u64 {
        self.bits / 8
    }

    /// The word after its last.
    fn end(&self) -> u64 {
        self.start + self.bits / 64
    }

    #[inline]
    fn each_bit(&self, digest: Digest, mut visit: impl FnMut(u64) -> bool) -> bool {
        let first = self.start * 64;
        let mut sum = digest.lo;
        for _ in 0..self.hashes {
            if !visit(first + sum % self.bits) {
                return false;
            }
            sum = sum.wrapping_add(digest.hi);
        }
        true
    }

    fn set_bits<W: ReadWords>(&self, words: W) -> u64 {
        (self.start..self.end()).map(|at| u64::from(words.load(at as usize).count_ones())).sum()
    }
}

/// The numbers of a RedisBloom header: the chain and its links.
#[derive(Debug, Clone, PartialEq)]
pub struct RedisBloomShape {
    options: u32,
    growth: u32,
    /// Oldest first; at least one.
    links: Vec<Link>,
}

impl RedisBloomShape {
    /// The links, oldest first.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// How much larger each link is than the one before; `None` if the chain does not grow.
    #[must_use]
    pub fn expansion(&self) -> Option<u32> {
        (self.options & NO_SCALING == 0).then_some(self.growth)
    }

    /// What happens past the capacity.
    fn when_full(&self) -> WhenFull {
        if self.expansion().is_some() { WhenFull::Grow } else { WhenFull::Refuse }
    }

    /// The rate that was asked for when the chain was reserved.
    fn asked(&self) -> f64 {
        let first = self.links.first().map_or(1.0, |link| link.error);
        if self.expansion().is_some() { first / TIGHTENING } else { first }
    }

    /// The link after the last, if there may be one.
    fn next_link(&self) -> Option<Link> {
        let last = self.links.last()?;
        let next = Link::sized(last.capacity.checked_mul(self.growth.into())?, last.error * TIGHTENING, last.end());
        next.filter(|next| probes(&self.links) + u64::from(next.hashes) <= MOST_PROBES)
    }

    /// The links' rates with the keys shared out: each takes its capacity before the next is opened.
    fn rates(&self, items: u64) -> f64 {
        // The exact rate takes up to a millisecond a link: for the few links of chains that are used, not for thousands.
        let mut left = items;
        let last = self.links.len() - 1;
        chain_rate(self.links.iter().enumerate().map(|(i, link)| {
            let here = if i == last { left } else { left.min(link.capacity) };
            left -= here;
            if self.links.len() <= 64 {
                striding_rate(link.bits, link.hashes, here, true)
            } else {
                textbook(link.bits, link.hashes, here)
            }
        }))
    }
}

impl Shape for RedisBloomShape {}
shape_numbers!(RedisBloomShape);

#[allow(private_interfaces, private_bounds)]
impl sealed::Shape for RedisBloomShape {
    const KIND: Kind = Kind::RedisBloom;
    const ALGORITHM: Algorithm = Algorithm::Murmur64aPair;

    fn header(&self) -> Vec<u8> {
        let items: u64 = self.links.iter().map(|link| link.items).sum();
        let mut out = Vec::with_capacity(HEADER + LINK * self.links.len());
        out.extend_from_slice(&items.to_le_bytes());
        out.extend_from_slice(&(self.links.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.options.to_le_bytes());
        out.extend_from_slice(&self.growth.to_le_bytes());
        for link in &self.links {
            out.extend_from_slice(&link.bytes().to_le_bytes());
            out.extend_from_slice(&link.bits.to_le_bytes());
            out.extend_from_slice(&link.items.to_le_bytes());
            out.extend_from_slice(&link.error.to_le_bytes());
            out.extend_from_slice(&link.per_entry.to_le_bytes());
            out.extend_from_slice(&link.hashes.to_le_bytes());
            out.extend_from_slice(&link.capacity.to_le_bytes());
            out.push(link.exponent);
        }
        out
    }

    fn from_header(header: &[u8]) -> Result<Self> {
        let kind = Kind::RedisBloom;
        let mut numbers = chunks::Numbers(header);
        let (items, count) = (numbers.u64(), numbers.u32());
        let (options, growth) = (numbers.u32(), numbers.u32());
        let expected = (count as usize).checked_mul(LINK).and_then(|links| links.checked_add(HEADER));
        if count == 0 || expected != Some(header.len()) {
            return Err(not_the_form(
                kind,
                format_args!("a header of {} bytes does not describe {count} links of 53 each", header.len()),
            ));
        }
        if options & !(NO_ROUND | ENTRIES_IS_BITS | HASH_64 | NO_SCALING) != 0 {
            return Err(corrupt(kind, format_args!("its options are {options:#x}, and there are none above 8")));
        }
        if options & HASH_64 == 0 {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the RedisBloom filter hashes with 32 bits, as versions before 2.0 did: build it again with a newer one",
            ));
        }
        // Whoever inserts into a stranger's filter must not be made to open a link of any size.
        if options & NO_SCALING == 0 && !(1..=MOST_EXPANSION).contains(&growth) {
            return Err(corrupt(kind, format_args!("it expands by {growth}, and 1 to {MOST_EXPANSION} are allowed")));
        }
        if u64::from(count) > MOST_PROBES {
            return Err(too_dear(count, "at least a bit of each"));
        }
        let mut links = Vec::with_capacity(count as usize);
        let (mut start, mut counted, mut room) = (0u64, 0u64, 0u64);
        for at in 0..count {
            let (bytes, bits) = (numbers.u64(), numbers.u64());
            let (items, error, per_entry) = (numbers.u64(), numbers.f64(), numbers.f64());
            let (hashes, capacity, exponent) = (numbers.u32(), numbers.u64(), numbers.u8());
            let link = Link { bits, start, items, error, per_entry, hashes, capacity, exponent };
            let sized = bytes > 0
                && bytes % 8 == 0
                && bytes <= MOST_WORDS * 8
                && bits == bytes * 8
                && (exponent == 0 || 1u64.checked_shl(exponent.into()) == Some(bits));
            let rated = error > 0.0
                && error < 1.0
                && per_entry > 0.0
                && per_entry <= MOST_PER_ENTRY
                && f64::from(hashes) == (LN_2 * per_entry).ceil();
            // However RedisBloom sizes a link, its keys have their bits each. One that claims to hold more would make the
            // next link larger than anything in the dump; a word is what rounding can take.
            let held = capacity as f64 * per_entry <= bits as f64 + 64.0;
            if !sized || !rated || capacity == 0 || items > capacity || !held || !link_fits(&link) {
                return Err(corrupt(
                    kind,
                    format_args!(
                        "link {at} of {count} contradicts itself: {bytes} bytes and {bits} bits (2^{exponent} if that is not 0), {hashes} \
                         hashes, {per_entry} bits an entry, rate {error}, {items} of {capacity} items"
                    ),
                ));
            }
            start = link.end();
            let sums = counted.checked_add(items).zip(room.checked_add(capacity));
            (counted, room) = sums.ok_or_else(|| corrupt(kind, "its links hold more than 2^64 keys"))?;
            links.push(link);
        }
        if counted != items {
            return Err(corrupt(kind, format_args!("it counts {items} keys, and its links {counted}")));
        }
        let probes = probes(&links);
        if probes > MOST_PROBES {
            return Err(too_dear(count, format_args!("up to {probes} bits")));
        }
        Ok(Self { options, growth, links })
    }

    fn words(&self) -> u64 {
        self.links.last().map_or(0, Link::end)
    }

    fn cells(&self) -> u64 {
        self.words() * 64
    }

    fn items(&self) -> Option<u64> {
        Some(self.links.iter().map(|link| link.items).sum())
    }

    fn capacity(&self) -> Option<u64> {
        // What a stranger's links say they hold may be anything.
        Some(self.links.iter().fold(0, |sum: u64, link| sum.saturating_add(link.capacity)))
    }

    fn expected_rate(&self, items: u64) -> f64 {
        self.rates(items)
    }

    fn estimated_rate<W: ReadWords>(&self, words: W) -> f64 {
        chain_rate(self.links.iter().map(|link| estimate::classic_rate(link.set_bits(words), link.bits, link.hashes)))
    }

    fn approximate_count<W: ReadWords>(&self, words: W) -> Estimate {
        let each = self.links.iter().map(|l| estimate::classic(l.set_bits(words), l.bits, l.hashes, estimate::Z));
        each.fold(Estimate::default(), |sum, one| sum + one)
    }

    /// The bits in the newest link, where an insert sets them.
    fn each_bit(&self, digest: Digest, visit: impl FnMut(u64) -> bool) -> bool {
        self.links.last().is_none_or(|link| link.each_bit(digest, visit))
    }

    fn contains<W: ReadWords>(&self, words: W, digest: Digest) -> bool {
        let set = |bit: u64| words.load((bit >> 6) as usize) >> (bit & 63) & 1 == 1;
        // The newest link is the largest: most keys are there.
        self.links.iter().rev().any(|link| link.each_bit(digest, set))
    }

    fn each_word(&self, digest: Digest, mut visit: impl FnMut(usize) -> bool) -> bool {
        self.links.iter().rev().all(|link| link.each_bit(digest, |bit| visit((bit >> 6) as usize)))
    }

    fn insert(&mut self, store: &mut Owned, digest: Digest) -> Result<bool> {
        if self.contains(store.as_slice(), digest) {
            return Ok(false);
        }
        if self.links.last().is_none_or(|last| last.items >= last.capacity) {
            let next = self.next_link().ok_or_else(|| {
                Error::new(
                    ErrorKind::Full,
                    format!(
                        "the next link of the RedisBloom chain would be larger than any memory, or a lookup would read more \
                         than {MOST_PROBES} bits; build a filter of the right size instead"
                    ),
                )
            })?;
            let mut longer = Owned::zeroed(next.end())?;
            longer.as_mut_slice()[..store.as_slice().len()].copy_from_slice(store.as_slice());
            *store = longer;
            self.links.push(next);
        }
        set_bits(store.as_mut_slice(), |visit| self.each_bit(digest, visit));
        if let Some(last) = self.links.last_mut() {
            last.items += 1;
        }
        Ok(true)
    }

    fn growth<W: ReadWords>(&self, words: W, digest: Digest) -> u64 {
        let room = self.links.last().is_some_and(|last| last.items < last.capacity);
        if room || self.expansion().is_none() || self.contains(words, digest) {
            return 0;
        }
        self.next_link().map_or(0, |next| next.bits / 64)
    }

    fn clear(&mut self) {
        self.links.iter_mut().for_each(|link| link.items = 0);
    }
}

/// The bits that a lookup may have to read.
fn probes(links: &[Link]) -> u64 {
    links.iter().map(|link| u64::from(link.hashes)).sum()
}

fn too_dear(links: u32, reads: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "the RedisBloom filter has {links} links, of which a lookup reads {reads}, and {MOST_PROBES} bits are allowed: \
             build it again with the capacity it needs, or with a larger expansion"
        ),
    )
}

/// Whether the link ends within the most words, without an overflow.
fn link_fits(link: &Link) -> bool {
    link.start.checked_add(link.bits / 64).is_some_and(|end| end <= MOST_WORDS)
}

impl<S: Store> Foreign<RedisBloomShape, S> {
    /// The chunks that `BF.SCANDUMP` gives for this filter: feed them to `BF.LOADCHUNK` in this order.
    pub fn to_chunks(&self) -> Result<Vec<(i64, Vec<u8>)>> {
        chunks::cut(self, self.shape.links.iter().map(Link::bytes))
    }

    /// A dump file: the chunks, each behind its iterator (8 bytes) and its length (8 bytes), little-endian.
    pub fn to_dump(&self) -> Result<Vec<u8>> {
        Ok(chunks::file(self.to_chunks()?))
    }
}

impl Foreign<RedisBloomShape, Owned> {
    /// Starts a filter as `BF.RESERVE` does: `.items(n).rate(p)`; it doubles when full unless told otherwise.
    #[must_use]
    pub fn builder() -> RedisBloomBuilder {
        let mut wish = Wish::new(WhenFull::Grow);
        wish.contract = Contract::murmur64a_pair();
        RedisBloomBuilder { wish, expansion: EXPANSION }
    }

    /// The filter of the chunks that `BF.SCANDUMP` gave, in their order, header first.
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
        let capacity = sealed::Shape::capacity(&shape).unwrap_or(1);
        let promise = promise_of(&shape, capacity, shape.asked(), shape.when_full());
        Self::read(shape, Contract::murmur64a_pair(), promise, store)
    }
}

/// The shape of a dump whose chunks fit it, and the chunks after the header. Allocates the links and nothing else.
pub(super) fn examine<'a, I>(all: I) -> Result<(RedisBloomShape, I)>
where
    I: Iterator<Item = Result<(i64, &'a [u8])>> + Clone,
{
    let (header, rest) = chunks::header(Kind::RedisBloom, all)?;
    let shape = RedisBloomShape::from_header(header)?;
    chunks::check(Kind::RedisBloom, rest.clone(), shape.words() * 8)?;
    Ok((shape, rest))
}

/// Makes a [`RedisBloom`] filter. Setters never refuse; [`build`](RedisBloomBuilder::build) alone does.
#[derive(Debug, Clone)]
pub struct RedisBloomBuilder {
    wish: Wish,
    expansion: u32,
}

impl RedisBloomBuilder {
    wish_setters!();

    /// How much larger each link is than the one before, 1 to 32768; 2 if not said.
    #[must_use]
    pub fn expansion(mut self, factor: u32) -> Self {
        self.expansion = factor;
        self.wish.when_full = WhenFull::Grow;
        self
    }

    /// One link that refuses keys past its capacity: `NONSCALING`.
    #[must_use]
    pub fn nonscaling(mut self) -> Self {
        self.wish.when_full = WhenFull::Refuse;
        self
    }

    /// The filter, of the size that `BF.RESERVE` makes, or why there is none.
    pub fn build(self) -> Result<RedisBloom> {
        let contract = contract_of::<RedisBloomShape>(&self.wish)?;
        // What Redis makes of a key that is just added to.
        let items = self.wish.capacity()?.unwrap_or(100);
        let asked = self.wish.checked_rate()?.unwrap_or(DEFAULT_RATE);
        let scaling = match self.wish.when_full {
            WhenFull::Grow => true,
            WhenFull::Refuse => false,
            WhenFull::GoOn => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "a RedisBloom filter grows when full, or refuses (nonscaling); it cannot go on at a rising rate",
                ));
            }
        };
        if items > MOST_CAPACITY || !(1..=MOST_EXPANSION).contains(&self.expansion) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "RedisBloom reserves up to 2^30 keys and expands by 1 to {MOST_EXPANSION}, not {items} and {}",
                    self.expansion
                ),
            ));
        }
        let rate = asked.min(MOST_ERROR);
        let error = if scaling { rate * TIGHTENING } else { rate };
        let first = Link::sized(items, error, 0).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidParameter,
                format!("{items} keys at a rate of {rate:e} are no RedisBloom link"),
            )
        })?;
        let options = NO_ROUND | HASH_64 | if scaling { 0 } else { NO_SCALING };
        let shape = RedisBloomShape { options, growth: self.expansion, links: vec![first] };
        let promise = promise_of(&shape, items, rate, shape.when_full());
        RedisBloom::empty(shape, contract, promise)
    }
}
