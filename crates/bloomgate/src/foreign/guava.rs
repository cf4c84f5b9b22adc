//! Guava's `BloomFilter`, as `writeTo` writes it: 6 bytes of header and the bits.
//!
//! **When.** A Java program writes or reads the filter. **When not.** Anything new: the form says neither what its keys
//! are nor how many there are, and a damaged bit is not noticed.
//!
//! ```text
//!  strategy u8  k u8  n i32  n x i64                big-endian; 64 n bits
//!
//!  MURMUR128_MITZ_32  h = first 8 bytes of MurmurHash3 x64-128 (seed 0); a, b its halves as i32
//!                     bit i of 1..=k = |a + i b| mod bits, where |x| is x, or !x if negative
//!  MURMUR128_MITZ_64  a, b = the first and the last 8 bytes
//!                     bit i of 0..k = (a + i b without its sign bit) mod bits
//! ```
//!
//! The older strategy reaches 2^31 bits, whatever the array: past 224 million keys at 1 % its rate breaks, and
//! [`expected_rate`](Foreign::expected_rate) says so. Current Guava makes the newer.
//!
//! | funnel | encoding here | bytes that are hashed |
//! |---|---|---|
//! | `stringFunnel(UTF_8)` | `text` | UTF-8 |
//! | `byteArrayFunnel` | `bytes` | as they are |
//! | `longFunnel` | `i64` | 8, little-endian |
//! | `integerFunnel` | `bytes`, and give `n.to_le_bytes()` | 4, little-endian |
//! | `unencodedCharsFunnel` | `bytes`, and give the UTF-16 units, little-endian | 2 a unit |
//!
//! | keys | 1 % | 0.1 % |
//! |---|---|---|
//! | 1,000 | 1.2 KB | 1.8 KB |
//! | 1 million | 1.2 MB | 1.8 MB |
//! | 100 million | 120 MB | 180 MB |

use std::f64::consts::LN_2;
use std::fmt;

use super::Foreign;
use super::shape::{
    Shape, check_length, contract_of, corrupt, fixed_size, half_full, items_of, not_the_form, promise_of, sealed,
    shape_numbers, striding_rate,
};
use crate::arch::words::ReadWords;
use crate::bits::{Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Algorithm, Contract, Digest};
use crate::key::Encoding;
use crate::kind::Kind;
use crate::math::estimate::{self, Estimate};
use crate::promise::{DEFAULT_RATE, WhenFull, Wish, wish_setters};

const HEADER: usize = 6;
/// Positions that the older strategy can name.
const REACH_32: u64 = 1 << 31;

/// How Guava makes positions from a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strategy {
    /// Ordinal 0: positions from 32-bit sums; old files have it.
    Murmur128Mitz32,
    /// Ordinal 1: positions from 64-bit sums: the one new filters get.
    #[default]
    Murmur128Mitz64,
}

impl Strategy {
    /// The ordinal in the header.
    #[must_use]
    pub fn ordinal(self) -> u8 {
        match self {
            Strategy::Murmur128Mitz32 => 0,
            Strategy::Murmur128Mitz64 => 1,
        }
    }

    /// The strategy of an ordinal, if there is one.
    #[must_use]
    pub fn from_ordinal(ordinal: u8) -> Option<Self> {
        [Strategy::Murmur128Mitz32, Strategy::Murmur128Mitz64].into_iter().find(|s| s.ordinal() == ordinal)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Strategy::Murmur128Mitz32 => "MURMUR128_MITZ_32",
            Strategy::Murmur128Mitz64 => "MURMUR128_MITZ_64",
        })
    }
}

/// A filter in Guava's form.
///
/// ```
/// use bloomgate::Encoding;
/// use bloomgate::foreign::Guava;
///
/// let mut seen = Guava::builder().keys::<i64>().items(10_000).rate(0.01).build()?;
/// seen.insert(&42i64)?;
/// let bytes = seen.to_foreign()?;   // BloomFilter.readFrom(in, Funnels.longFunnel())
/// assert!(Guava::from_foreign(&bytes, Encoding::Signed)?.contains(&42i64)?);
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub type Guava<S = Owned> = Foreign<GuavaShape, S>;

/// The numbers of a Guava header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuavaShape {
    strategy: Strategy,
    hashes: u8,
    longs: u32,
}

impl GuavaShape {
    /// So many hashes and longs of 64 bits, or why that is no shape.
    pub fn new(strategy: Strategy, hashes: u8, longs: u32) -> Result<Self> {
        if hashes == 0 || longs == 0 || longs > i32::MAX as u32 {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a Guava filter has 1 to 255 hashes and 1 to 2^31 - 1 longs, not {hashes} and {longs}"),
            ));
        }
        Ok(Self { strategy, hashes, longs })
    }

    /// The shape that Guava makes for so many keys at a rate: `-n ln p / ln² 2` bits cut to a whole number and filled up
    /// to longs, and `round(m / n ln 2)` hashes of the number before it was filled up.
    fn sized(strategy: Strategy, items: u64, rate: f64) -> Result<Self> {
        let bits = (-(items as f64) * rate.ln() / (LN_2 * LN_2)).trunc().max(1.0);
        let longs = (bits / 64.0).ceil();
        if longs > f64::from(i32::MAX) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("{items} items at a rate of {rate} need {longs} longs, and Guava has 2^31 - 1: ask for fewer"),
            ));
        }
        let hashes = (bits / items as f64 * LN_2).round().clamp(1.0, 255.0);
        Self::new(strategy, hashes as u8, longs as u32)
    }

    /// How positions are made.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The bits that a key sets.
    #[must_use]
    pub fn hashes(&self) -> u8 {
        self.hashes
    }

    /// The longs of 64 bits.
    #[must_use]
    pub fn longs(&self) -> u32 {
        self.longs
    }

    /// The number of bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        u64::from(self.longs) * 64
    }

    /// The bits that the strategy can set.
    pub(crate) fn reach(&self) -> u64 {
        match self.strategy {
            Strategy::Murmur128Mitz32 => self.bits().min(REACH_32),
            Strategy::Murmur128Mitz64 => self.bits(),
        }
    }
}

impl Shape for GuavaShape {}
shape_numbers!(GuavaShape);

#[allow(private_interfaces, private_bounds)]
impl sealed::Shape for GuavaShape {
    const KIND: Kind = Kind::Guava;
    const ALGORITHM: Algorithm = Algorithm::Murmur3;

    fn header(&self) -> Vec<u8> {
        let [a, b, c, d] = self.longs.to_be_bytes();
        vec![self.strategy.ordinal(), self.hashes, a, b, c, d]
    }

    fn from_header(header: &[u8]) -> Result<Self> {
        let kind = Kind::Guava;
        let Some((&[strategy, hashes, a, b, c, d], [])) = header.split_first_chunk::<HEADER>() else {
            return Err(not_the_form(kind, format_args!("a header has {HEADER} bytes, not {}", header.len())));
        };
        let Some(strategy) = Strategy::from_ordinal(strategy) else {
            return Err(not_the_form(kind, format_args!("there is no strategy {strategy}, only 0 and 1")));
        };
        let longs = u32::from_be_bytes([a, b, c, d]);
        Self::new(strategy, hashes, longs)
            .map_err(|_| corrupt(kind, format_args!("{hashes} hashes and {longs} longs are no shape")))
    }

    fn words(&self) -> u64 {
        self.longs.into()
    }

    fn cells(&self) -> u64 {
        self.bits()
    }

    fn expected_rate(&self, items: u64) -> f64 {
        striding_rate(self.reach(), self.hashes.into(), items, true)
    }

    fn estimated_rate<W: ReadWords>(&self, words: W) -> f64 {
        estimate::classic_rate(self.set_cells(words), self.reach(), self.hashes.into())
    }

    fn approximate_count<W: ReadWords>(&self, words: W) -> Estimate {
        // A file may have bits set where the strategy reaches none.
        estimate::classic(self.set_cells(words).min(self.reach()), self.reach(), self.hashes.into(), estimate::Z)
    }

    #[inline]
    fn each_bit(&self, digest: Digest, mut visit: impl FnMut(u64) -> bool) -> bool {
        let bits = self.bits();
        match self.strategy {
            Strategy::Murmur128Mitz32 => {
                let (a, b) = (digest.lo as i32, (digest.lo >> 32) as i32);
                (1..=i32::from(self.hashes)).all(|i| {
                    let sum = a.wrapping_add(i.wrapping_mul(b));
                    visit(u64::from(if sum < 0 { !sum } else { sum } as u32) % bits)
                })
            }
            Strategy::Murmur128Mitz64 => (0..u64::from(self.hashes)).all(|i| {
                let sum = digest.lo.wrapping_add(i.wrapping_mul(digest.hi));
                visit((sum & i64::MAX as u64) % bits)
            }),
        }
    }
}

impl<S: Store> Foreign<GuavaShape, S> {
    /// The filter in its form, for `BloomFilter.readFrom` with the funnel that fits the contract's encoding.
    pub fn to_foreign(&self) -> Result<Vec<u8>> {
        self.check_words()?;
        let mut out = self.shape.header();
        out.reserve_exact(self.shape.longs as usize * 8);
        let words = self.store.words();
        (0..words.count()).for_each(|at| out.extend_from_slice(&words.load(at).to_be_bytes()));
        Ok(out)
    }
}

impl Foreign<GuavaShape, Owned> {
    /// Starts a filter: `.items(n).rate(p)`, and `.keys::<i64>()` for a `longFunnel`.
    #[must_use]
    pub fn builder() -> GuavaBuilder {
        let mut wish = Wish::new(WhenFull::GoOn);
        wish.contract = Contract::murmur3(0);
        GuavaBuilder { wish, strategy: Strategy::default() }
    }

    /// The filter that these bytes are, whole, for keys of an encoding: the form does not say which.
    pub fn from_foreign(bytes: &[u8], encoding: Encoding) -> Result<Self> {
        let (header, bits) = bytes.split_at(bytes.len().min(HEADER));
        let shape = GuavaShape::from_header(header)?;
        check_length(Kind::Guava, u64::from(shape.longs) * 8, bits.len() as u64)?;
        let mut store = Owned::zeroed(shape.words())?;
        for (word, long) in store.as_mut_slice().iter_mut().zip(bits.as_chunks::<8>().0) {
            *word = u64::from_be_bytes(*long);
        }
        let capacity = half_full(shape.reach(), shape.hashes.into());
        let promise = promise_of(&shape, capacity, 0.0, WhenFull::GoOn);
        Self::read(shape, Contract::murmur3(0).with_encoding(encoding), promise, store)
    }
}

/// Makes a [`Guava`] filter. Setters never refuse; [`build`](GuavaBuilder::build) alone does.
#[derive(Debug, Clone)]
pub struct GuavaBuilder {
    wish: Wish,
    strategy: Strategy,
}

impl GuavaBuilder {
    wish_setters!();

    /// How positions are made; the newer way if not said.
    #[must_use]
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// The filter, of the size that `BloomFilter.create` makes, or why there is none.
    pub fn build(self) -> Result<Guava> {
        let contract = contract_of::<GuavaShape>(&self.wish)?;
        let when_full = fixed_size::<GuavaShape>(self.wish.when_full)?;
        let items = items_of(&self.wish)?;
        let rate = self.wish.checked_rate()?.unwrap_or(DEFAULT_RATE);
        let shape = GuavaShape::sized(self.strategy, items, rate)?;
        let promise = promise_of(&shape, items, rate, when_full);
        Guava::empty(shape, contract, promise)
    }
}
