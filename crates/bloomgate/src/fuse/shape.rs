//! The numbers that fix a table: from the keys when it is built, from a file when it is read.

use crate::arch::fuse::{Places, SEGMENT_BITS};
use crate::error::{Error, ErrorKind, Result};
use crate::math;

/// The shortest segment.
const MIN_SEGMENT: u64 = 4;
/// The most shards; those that are built have far fewer.
const MAX_SHARDS: u64 = 1 << 32;
/// The most words of a payload.
const MAX_WORDS: u128 = 1 << 57;

/// The shape of a [`Fuse`](super::Fuse) filter: its cells, and the seed by which they were solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FuseShape {
    pub(super) places: Places,
}

impl FuseShape {
    /// A shape from its numbers, or why there is none: `fingerprint_bits` from 1 to 32; `segment_length` a power of two
    /// from 4 to 2^18 cells (from 64, if there are several shards: shards begin at words); `segment_count` of each shard,
    /// from 3; `shards` from 1; any `seed`; and no more than 2^57 words in all. The set of no keys has no shards, and
    /// otherwise the least numbers: 4, 3, 0 shards, seed 0.
    pub fn new(fingerprint_bits: u32, segment_length: u64, segment_count: u64, shards: u64, seed: u64) -> Result<Self> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidParameter, message));
        if !(1..=math::fuse::MAX_WIDTH).contains(&fingerprint_bits) {
            return refuse(format!(
                "a fingerprint has 1 to {} bits, not {fingerprint_bits}; 7 keep 1 %",
                math::fuse::MAX_WIDTH
            ));
        }
        if shards == 0 {
            if (segment_length, segment_count, seed) != (MIN_SEGMENT, 3, 0) {
                return refuse(format!(
                    "a table without shards is that of no keys, with {MIN_SEGMENT} cells in each of 3 segments and seed 0, not \
                     {segment_length}, {segment_count} and {seed}"
                ));
            }
            return Ok(Self::of_nothing(fingerprint_bits));
        }
        let shortest = if shards > 1 { 64 } else { MIN_SEGMENT };
        if !segment_length.is_power_of_two() || !(shortest..=1 << SEGMENT_BITS).contains(&segment_length) {
            return refuse(format!(
                "a segment has a power of two from {shortest} to 2^{SEGMENT_BITS} cells, not {segment_length}; leave it \
                 to the builder"
            ));
        }
        if segment_count < 3 || !(1..=MAX_SHARDS).contains(&shards) {
            return refuse(format!(
                "a table has 1 to 2^32 shards of at least 3 segments, not {shards} of {segment_count}; leave it to the \
                 builder"
            ));
        }
        let cells = u128::from(segment_length) * u128::from(segment_count) * u128::from(shards);
        if cells * u128::from(fingerprint_bits) >= MAX_WORDS * 64 - 64 {
            return refuse(format!("{cells} cells of {fingerprint_bits} bits fit no memory; at most 2^57 words do"));
        }
        let starts = (segment_count - 2) * segment_length;
        Ok(Self { places: Places { seed, shards, starts, segment: segment_length, width: fingerprint_bits } })
    }

    /// The shape of the set of no keys.
    pub(super) fn of_nothing(width: u32) -> Self {
        Self { places: Places { seed: 0, shards: 0, starts: MIN_SEGMENT, segment: MIN_SEGMENT, width } }
    }

    /// Whether it is the shape of the set of no keys, whose every answer is "no". The shape says so and not the count
    /// of keys: a count may be wrong.
    pub(crate) fn is_of_nothing(&self) -> bool {
        self.places.shards == 0
    }

    /// The bits of a fingerprint, and of a cell.
    #[must_use]
    pub fn fingerprint_bits(&self) -> u32 {
        self.places.width
    }

    /// The cells of a segment.
    #[must_use]
    pub fn segment_length(&self) -> u64 {
        self.places.segment
    }

    /// The segments of a shard.
    #[must_use]
    pub fn segment_count(&self) -> u64 {
        self.places.starts / self.places.segment + 2
    }

    /// How many tables lie side by side, each of its share of the keys.
    #[must_use]
    pub fn shards(&self) -> u64 {
        self.places.shards
    }

    /// The seed by which the table was solved.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.places.seed
    }

    /// The cells of all shards: 1.13 a key from a million keys on.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.places.stride() * self.places.shards
    }

    /// The words of the payload.
    #[must_use]
    pub fn words(&self) -> u64 {
        (self.places.words() as u64).max(1)
    }

    /// The bits of the last word that are always zero.
    pub(crate) fn spare(&self) -> u64 {
        if self.is_of_nothing() { u64::MAX } else { self.places.spare() }
    }

    /// The chance that a key that is not in the set is taken for one that is: 2 to the minus bits of a fingerprint,
    /// whatever the number of keys, and 0 for the empty set.
    #[must_use]
    pub fn expected_rate(&self, _items: u64) -> f64 {
        if self.is_of_nothing() { 0.0 } else { math::fuse::rate(self.places.width) }
    }
}
