//! Parquet's split-block Bloom filter (SBBF): a Thrift header and 256-bit blocks.
//!
//! **When.** A Bloom filter of a Parquet column is asked without the file, or made for one. **When not.** Anything new:
//! [`Blocked`](crate::Blocked) has lines of 512 bits, which are 4 % smaller at 1 %, any size, and any rate.
//!
//! ```text
//!  header  Thrift, compact protocol: numBytes i32, algorithm BLOCK, hash XXHASH, compression UNCOMPRESSED
//!  then    numBytes of blocks, each eight words of 32 bits, little-endian
//!
//!  h = XXH64(plain-encoded value, seed 0)      block = (h >> 32) · blocks >> 32
//!  word i of 8: bit (low 32 bits of h) · salt i >> 27
//! ```
//!
//! | column | encoding here |
//! |---|---|
//! | `BYTE_ARRAY`, `FIXED_LEN_BYTE_ARRAY` | `bytes` |
//! | `BYTE_ARRAY (STRING)` | `text` |
//! | `INT64` | `i64`, or `u64` if it is annotated so |
//! | `FIXED_LEN_BYTE_ARRAY(16) (UUID)` | `uuid` |
//! | `INT32`, `FLOAT`, `DOUBLE` | `bytes`, and give `value.to_le_bytes()` |
//!
//! Lengths are powers of two from 32 bytes to 128 MiB when made here, as Parquet's own writers make them; any multiple of
//! 32 is read.
//!
//! | keys | 1 % | 0.1 % |
//! |---|---|---|
//! | 1,000 | 2 KB | 4 KB |
//! | 1 million | 2 MB | 4 MB |
//! | 80 million | 128 MB | none |

use super::Foreign;
use super::shape::{
    Shape, append_bytes, check_length, contract_of, corrupt, fixed_size, items_of, not_the_form, promise_of, put_bytes,
    sealed, shape_numbers,
};
use crate::arch::words::ReadWords;
use crate::bits::{Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Algorithm, Contract, Digest};
use crate::key::Encoding;
use crate::kind::Kind;
use crate::math::estimate::{self, Estimate};
use crate::math::split_block;
use crate::promise::{DEFAULT_RATE, WhenFull, Wish, wish_setters};

/// What spreads the low half of a hash over the eight words of a block: fixed by the format.
const SALT: [u32; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];
/// Bytes of a block.
const BLOCK: u32 = 32;
/// The most bytes that writers make: 128 MiB.
const MOST_BYTES: u64 = 128 << 20;
/// Field 1, an i32: what the header begins with.
const NUM_BYTES: u8 = 0x15;
/// Fields 2, 3 and 4: each a union with an empty struct in its field 1. Then the end of the header.
const CHOICES: [u8; 13] = [0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0];

/// A filter in Parquet's form.
///
/// ```
/// use bloomgate::Encoding;
/// use bloomgate::foreign::Parquet;
///
/// let mut column = Parquet::builder().keys::<i64>().items(10_000).rate(0.01).build()?;
/// column.insert(&42i64)?;
/// let bytes = column.to_foreign()?;   // the header and the bits, as they stand in a Parquet file
/// assert!(Parquet::from_foreign(&bytes, Encoding::Signed)?.contains(&42i64)?);
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub type Parquet<S = Owned> = Foreign<ParquetShape, S>;

/// The one number of a Parquet header: how many blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParquetShape {
    blocks: u32,
}

impl ParquetShape {
    /// So many blocks of 32 bytes, or why that is no shape.
    pub fn new(blocks: u32) -> Result<Self> {
        if blocks == 0 || blocks > i32::MAX as u32 / BLOCK {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a Parquet filter has between 1 and 2^26 - 1 blocks of 32 bytes, not {blocks}"),
            ));
        }
        Ok(Self { blocks })
    }

    /// The blocks of 256 bits.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The bytes of the blocks.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.blocks * BLOCK
    }
}

impl Shape for ParquetShape {}
shape_numbers!(ParquetShape);

#[allow(private_interfaces, private_bounds)]
impl sealed::Shape for ParquetShape {
    const KIND: Kind = Kind::Parquet;
    const ALGORITHM: Algorithm = Algorithm::Xxh64;

    fn header(&self) -> Vec<u8> {
        let mut out = vec![NUM_BYTES];
        // Signed numbers are written as 2 n (zigzag), seven bits a byte, the lowest first.
        let mut left = u64::from(self.bytes()) << 1;
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
        out.extend_from_slice(&CHOICES);
        out
    }

    fn from_header(header: &[u8]) -> Result<Self> {
        let (shape, rest) = split_header(header)?;
        check_length(Kind::Parquet, 0, rest.len() as u64)?;
        Ok(shape)
    }

    fn words(&self) -> u64 {
        u64::from(self.blocks) * 4
    }

    fn cells(&self) -> u64 {
        u64::from(self.blocks) * split_block::BLOCK_BITS
    }

    fn expected_rate(&self, items: u64) -> f64 {
        split_block::rate(self.blocks.into(), items)
    }

    /// The chance that all eight bits of an absent key are set, over the blocks as they are: no estimate.
    fn estimated_rate<W: ReadWords>(&self, words: W) -> f64 {
        let mut sum = 0.0;
        for block in 0..words.count() / 4 {
            let mut passes = 1.0;
            for at in block * 4..block * 4 + 4 {
                let word = words.load(at);
                passes *= f64::from((word as u32).count_ones()) / 32.0;
                passes *= f64::from(((word >> 32) as u32).count_ones()) / 32.0;
            }
            sum += passes;
        }
        sum / f64::from(self.blocks)
    }

    /// A key sets one of `32 · blocks` bits in each of eight slices, like a partitioned filter's.
    fn approximate_count<W: ReadWords>(&self, words: W) -> Estimate {
        estimate::partitioned(self.set_cells(words), u64::from(self.blocks) * 32, 8, estimate::Z)
    }

    #[inline]
    fn each_bit(&self, digest: Digest, mut visit: impl FnMut(u64) -> bool) -> bool {
        let block = ((digest.lo >> 32) * u64::from(self.blocks)) >> 32;
        (0..8).zip(SALT).all(|(word, salt)| {
            visit(block * split_block::BLOCK_BITS + word * 32 + u64::from((digest.lo as u32).wrapping_mul(salt) >> 27))
        })
    }
}

/// The shape of a header, and what follows it.
fn split_header(bytes: &[u8]) -> Result<(ParquetShape, &[u8])> {
    let kind = Kind::Parquet;
    let Some((&NUM_BYTES, mut rest)) = bytes.split_first() else {
        return Err(not_the_form(kind, "it does not begin with the Thrift field numBytes"));
    };
    let (mut number, mut shift) = (0u64, 0);
    loop {
        let Some((&byte, after)) = rest.split_first().filter(|_| shift < 35) else {
            return Err(not_the_form(kind, "the number of its bytes does not end"));
        };
        rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            // A last byte of 0 after another would be a second way to write the same number.
            if byte == 0 && shift > 7 {
                return Err(corrupt(kind, "the number of its bytes is written with zeros in front"));
            }
            break;
        }
    }
    let Some(rest) = rest.strip_prefix(&CHOICES) else {
        return Err(not_the_form(kind, "its header is not that of an uncompressed split-block filter under XXHASH"));
    };
    // An odd number is a negative one in Thrift.
    let blocks = (number % 2 == 0 && number / 2 % u64::from(BLOCK) == 0).then_some(number / 2 / u64::from(BLOCK));
    let shape = blocks.and_then(|blocks| u32::try_from(blocks).ok()).and_then(|blocks| ParquetShape::new(blocks).ok());
    let shape = shape.ok_or_else(|| corrupt(kind, "the number of its bytes is not a positive multiple of 32"))?;
    Ok((shape, rest))
}

impl<S: Store> Foreign<ParquetShape, S> {
    /// The filter in its form: header and bits, as they stand in a Parquet file at `bloom_filter_offset`.
    pub fn to_foreign(&self) -> Result<Vec<u8>> {
        self.check_words()?;
        let mut out = self.shape.header();
        out.reserve_exact(self.shape.bytes() as usize);
        append_bytes(self.store.words(), 0, self.shape.bytes() as usize, &mut out);
        Ok(out)
    }
}

impl Foreign<ParquetShape, Owned> {
    /// Starts a filter: `.items(n).rate(p)`, and `.keys::<i64>()` for a column of `INT64`.
    #[must_use]
    pub fn builder() -> ParquetBuilder {
        let mut wish = Wish::new(WhenFull::GoOn);
        wish.contract = Contract::xxh64();
        ParquetBuilder { wish }
    }

    /// The filter that these bytes are (header and bits, nothing after), for keys of an encoding: the form does not say
    /// which.
    pub fn from_foreign(bytes: &[u8], encoding: Encoding) -> Result<Self> {
        let (shape, bits) = split_header(bytes)?;
        check_length(Kind::Parquet, shape.bytes().into(), bits.len() as u64)?;
        let mut store = Owned::zeroed(shape.words())?;
        put_bytes(store.as_mut_slice(), 0, bits);
        // The form does not say what it was made for: one in a hundred is what writers take unless told otherwise.
        let capacity = split_block::capacity_for(shape.blocks.into(), DEFAULT_RATE).max(1);
        let promise = promise_of(&shape, capacity, 0.0, WhenFull::GoOn);
        Self::read(shape, Contract::xxh64().with_encoding(encoding), promise, store)
    }
}

/// Makes a [`Parquet`] filter. Setters never refuse; [`build`](ParquetBuilder::build) alone does.
#[derive(Debug, Clone)]
pub struct ParquetBuilder {
    wish: Wish,
}

impl ParquetBuilder {
    wish_setters!();

    /// The filter: the smallest power of two of bytes that keeps the rate, or why there is none.
    pub fn build(self) -> Result<Parquet> {
        let contract = contract_of::<ParquetShape>(&self.wish)?;
        let when_full = fixed_size::<ParquetShape>(self.wish.when_full)?;
        let items = items_of(&self.wish)?;
        let rate = self.wish.checked_rate()?.unwrap_or(DEFAULT_RATE);
        let most = MOST_BYTES / u64::from(BLOCK);
        let blocks = split_block::blocks_for(items, rate).filter(|&blocks| blocks <= most).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "{items} items at a rate of {rate} need more than the 128 MiB of a Parquet filter, which hold {} at \
                     that rate: ask for fewer items or a higher rate",
                    split_block::capacity_for(most, rate)
                ),
            )
        })?;
        let shape = ParquetShape::new(blocks as u32)?;
        let promise = promise_of(&shape, items, rate, when_full);
        Parquet::empty(shape, contract, promise)
    }
}
