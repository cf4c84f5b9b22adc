//! The `BFv1` wire form: 18 bytes of header and the bits.
//!
//! **When.** A program speaks this form. **When not.** Anything new: 2^32 bits are the most it holds, every key costs
//! two BLAKE2b, and a damaged bit is not noticed.
//!
//! ```text
//!  "BFv1"  m u32  k u16  seed u32  length u32  bits      little-endian; length = ceil(m / 8)
//!
//!  h1 = BLAKE2b-64(key, person "bf1")     h2 = BLAKE2b-64(key, person "bf2") | 1
//!  bit i of k = (h1 + i h2 + seed) mod m, without overflow; bit x in byte x >> 3, mask 1 << (x & 7)
//! ```
//!
//! Its sizing is prescribed: `m = ceil(-n ln p / ln² 2)`, `k = round(m / n ln 2)`.
//!
//! | keys | 1 % | 0.1 % |
//! |---|---|---|
//! | 1,000 | 1.2 KB | 1.8 KB |
//! | 1 million | 1.2 MB | 1.8 MB |
//! | 100 million | 120 MB | 180 MB |

use std::f64::consts::LN_2;

use super::Foreign;
use super::shape::{
    Shape, append_bytes, check_length, contract_of, corrupt, fixed_size, half_full, items_of, not_the_form, promise_of,
    put_bytes, sealed, shape_numbers, striding_rate,
};
use crate::arch::words::ReadWords;
use crate::bits::{Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Algorithm, Contract, Digest};
use crate::kind::Kind;
use crate::math::estimate::{self, Estimate};
use crate::promise::{DEFAULT_RATE, WhenFull, Wish, wish_setters};

pub(super) const MAGIC: &[u8; 4] = b"BFv1";
const HEADER: usize = 18;

/// A filter in the `BFv1` form.
///
/// ```
/// use bloomgate::foreign::BfV1;
///
/// let mut menu = BfV1::builder().items(1_000).rate(0.01).seed(42).build()?;
/// menu.insert("latte")?;
/// let blob = menu.to_foreign()?;
/// assert!(blob.starts_with(b"BFv1"));
/// assert!(BfV1::from_foreign(&blob)?.contains("latte")?);
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub type BfV1<S = Owned> = Foreign<BfV1Shape, S>;

/// The numbers of a `BFv1` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BfV1Shape {
    bits: u32,
    hashes: u16,
    seed: u32,
}

impl BfV1Shape {
    /// So many bits and hashes, and the seed that is added to every position; or why that is no shape.
    pub fn new(bits: u32, hashes: u16, seed: u32) -> Result<Self> {
        if bits == 0 || hashes == 0 {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a BFv1 filter has at least 1 bit and 1 hash, not {bits} and {hashes}"),
            ));
        }
        Ok(Self { bits, hashes, seed })
    }

    /// The shape that the form prescribes for so many keys at a rate.
    fn sized(items: u64, rate: f64, seed: u32) -> Result<Self> {
        let bits = (-(items as f64) * rate.ln() / (LN_2 * LN_2)).ceil().max(1.0);
        if bits > f64::from(u32::MAX) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("{items} items at a rate of {rate} need {bits} bits, and BFv1 counts 2^32 - 1: ask for fewer"),
            ));
        }
        let hashes = (bits / items as f64 * LN_2).round().clamp(1.0, f64::from(u16::MAX));
        Self::new(bits as u32, hashes as u16, seed)
    }

    /// m, the number of bits.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// k, the bits that a key sets.
    #[must_use]
    pub fn hashes(&self) -> u16 {
        self.hashes
    }

    /// The number that is added to every position.
    #[must_use]
    pub fn seed(&self) -> u32 {
        self.seed
    }

    /// The bytes of the bits.
    fn bytes(&self) -> u32 {
        self.bits.div_ceil(8)
    }
}

impl Shape for BfV1Shape {}
shape_numbers!(BfV1Shape);

#[allow(private_interfaces, private_bounds)]
impl sealed::Shape for BfV1Shape {
    const KIND: Kind = Kind::BfV1;
    const ALGORITHM: Algorithm = Algorithm::Blake2b64Double;

    fn header(&self) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&self.bits.to_le_bytes());
        header.extend_from_slice(&self.hashes.to_le_bytes());
        header.extend_from_slice(&self.seed.to_le_bytes());
        header.extend_from_slice(&self.bytes().to_le_bytes());
        header
    }

    fn from_header(header: &[u8]) -> Result<Self> {
        let kind = Kind::BfV1;
        let Some(fields) = header.strip_prefix(MAGIC) else {
            return Err(not_the_form(kind, "it does not begin with BFv1"));
        };
        let Some(&[m0, m1, m2, m3, k0, k1, s0, s1, s2, s3, l0, l1, l2, l3]) = fields.first_chunk::<14>() else {
            return Err(Error::new(
                ErrorKind::Truncated,
                format!("a BFv1 header has {HEADER} bytes, and {} are there: fetch the filter again", header.len()),
            ));
        };
        check_length(kind, HEADER as u64, header.len() as u64)?;
        let shape = Self {
            bits: u32::from_le_bytes([m0, m1, m2, m3]),
            hashes: u16::from_le_bytes([k0, k1]),
            seed: u32::from_le_bytes([s0, s1, s2, s3]),
        };
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if shape.bits == 0 || shape.hashes == 0 || length != shape.bytes() {
            return Err(corrupt(
                kind,
                format_args!("{} bits in {length} bytes with {} hashes a key is no shape", shape.bits, shape.hashes),
            ));
        }
        Ok(shape)
    }

    fn words(&self) -> u64 {
        u64::from(self.bits.div_ceil(64))
    }

    fn spare(&self) -> u64 {
        match self.bits % 64 {
            0 => 0,
            used => u64::MAX << used,
        }
    }

    fn cells(&self) -> u64 {
        u64::from(self.bits)
    }

    fn expected_rate(&self, items: u64) -> f64 {
        striding_rate(self.bits.into(), self.hashes.into(), items, false)
    }

    fn estimated_rate<W: ReadWords>(&self, words: W) -> f64 {
        estimate::classic_rate(self.set_cells(words), self.bits.into(), self.hashes.into())
    }

    fn approximate_count<W: ReadWords>(&self, words: W) -> Estimate {
        estimate::classic(self.set_cells(words), self.bits.into(), self.hashes.into(), estimate::Z)
    }

    #[inline]
    fn each_bit(&self, digest: Digest, mut visit: impl FnMut(u64) -> bool) -> bool {
        let bits = u64::from(self.bits);
        // Sums of numbers below 2^32 never overflow, so the form's arithmetic without overflow is this one.
        let mut at = (digest.lo % bits + u64::from(self.seed)) % bits;
        let step = digest.hi % bits;
        for _ in 0..self.hashes {
            if !visit(at) {
                return false;
            }
            at += step;
            if at >= bits {
                at -= bits;
            }
        }
        true
    }
}

impl<S: Store> Foreign<BfV1Shape, S> {
    /// The filter in its form: the same bytes for the same keys, whoever writes them.
    pub fn to_foreign(&self) -> Result<Vec<u8>> {
        self.check_words()?;
        let mut out = self.shape.header();
        out.reserve_exact(self.shape.bytes() as usize);
        append_bytes(self.store.words(), 0, self.shape.bytes() as usize, &mut out);
        Ok(out)
    }
}

impl Foreign<BfV1Shape, Owned> {
    /// Starts a filter: `.items(n).rate(p)`, and `.seed(s)` if the other program has one.
    #[must_use]
    pub fn builder() -> BfV1Builder {
        let mut wish = Wish::new(WhenFull::GoOn);
        wish.contract = Contract::blake2b_64_double();
        BfV1Builder { wish, seed: 0 }
    }

    /// The filter that these bytes are, whole.
    pub fn from_foreign(bytes: &[u8]) -> Result<Self> {
        let (header, bits) = bytes.split_at(bytes.len().min(HEADER));
        let shape = BfV1Shape::from_header(header)?;
        check_length(Kind::BfV1, shape.bytes().into(), bits.len() as u64)?;
        let mut store = Owned::zeroed(shape.words())?;
        put_bytes(store.as_mut_slice(), 0, bits);
        if store.as_slice().last().is_some_and(|last| last & shape.spare() != 0) {
            return Err(corrupt(Kind::BfV1, format_args!("bits past the last of {} are set", shape.bits)));
        }
        let capacity = half_full(shape.bits.into(), shape.hashes.into());
        let promise = promise_of(&shape, capacity, 0.0, WhenFull::GoOn);
        Self::read(shape, Contract::blake2b_64_double(), promise, store)
    }
}

/// Makes a [`BfV1`] filter. Setters never refuse; [`build`](BfV1Builder::build) alone does.
#[derive(Debug, Clone)]
pub struct BfV1Builder {
    wish: Wish,
    seed: u32,
}

impl BfV1Builder {
    wish_setters!();

    /// The number that the form adds to every position; 0 if not said.
    #[must_use]
    pub fn seed(mut self, seed: u32) -> Self {
        self.seed = seed;
        self
    }

    /// The filter, of the size that the form prescribes, or why there is none.
    pub fn build(self) -> Result<BfV1> {
        let contract = contract_of::<BfV1Shape>(&self.wish)?;
        let when_full = fixed_size::<BfV1Shape>(self.wish.when_full)?;
        let items = items_of(&self.wish)?;
        let rate = self.wish.checked_rate()?.unwrap_or(DEFAULT_RATE);
        let shape = BfV1Shape::sized(items, rate, self.seed)?;
        let promise = promise_of(&shape, items, rate, when_full);
        BfV1::empty(shape, contract, promise)
    }
}
