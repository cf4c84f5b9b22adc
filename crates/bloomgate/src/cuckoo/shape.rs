//! What fixes a cuckoo table: its buckets, the width of its fingerprints, and the rule for copies.

use super::CopyRule;
use crate::arch::cuckoo::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::math::cuckoo::{self, MAX_BUCKETS, MAX_WIDTH, MIN_WIDTH, SLOTS};

/// How many buckets of four slots, how many bits a slot has, and what becomes of copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CuckooShape {
    buckets: u64,
    fingerprint_bits: u32,
    copies: CopyRule,
}

impl CuckooShape {
    /// A shape of so many buckets, an even number up to 2^54, and fingerprints of 2 to 56 bits.
    pub fn new(buckets: u64, fingerprint_bits: u32) -> Result<Self> {
        if !(MIN_WIDTH..=MAX_WIDTH).contains(&fingerprint_bits) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a fingerprint has {MIN_WIDTH} to {MAX_WIDTH} bits, not {fingerprint_bits}; 10 keep 1 %"),
            ));
        }
        if !(2..=MAX_BUCKETS).contains(&buckets) || !buckets.is_multiple_of(2) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "a cuckoo table has an even number of buckets, 2 to 2^54, not {buckets}; four keys go in each, and \
                     94 % of the slots can be used"
                ),
            ));
        }
        Ok(Self { buckets, fingerprint_bits, copies: CopyRule::Stick })
    }

    /// The same buckets and fingerprints under a rule for copies; they stick unless said otherwise.
    #[must_use]
    pub fn with_copies(self, copies: CopyRule) -> Self {
        Self { copies, ..self }
    }

    /// What becomes of a key that is inserted again and again.
    #[must_use]
    pub fn copies(&self) -> CopyRule {
        self.copies
    }

    /// The buckets.
    #[must_use]
    pub fn buckets(&self) -> u64 {
        self.buckets
    }

    /// The bits of a fingerprint.
    #[must_use]
    pub fn fingerprint_bits(&self) -> u32 {
        self.fingerprint_bits
    }

    /// All slots: four to a bucket.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.buckets * SLOTS
    }

    /// The words of the payload: the buckets without a gap, and one word of padding.
    #[must_use]
    pub fn words(&self) -> u64 {
        // At most 2^54 buckets of 224 bits: `new` keeps both.
        Table::words_of(self.buckets, self.fingerprint_bits).unwrap_or(u64::MAX)
    }

    /// The bits of the last word that are always zero: all of them, it is padding.
    pub(crate) fn spare(&self) -> u64 {
        u64::MAX
    }

    /// The exact expected rate with so many different keys.
    #[must_use]
    pub fn expected_rate(&self, items: u64) -> f64 {
        cuckoo::rate(self.buckets, self.fingerprint_bits, items)
    }

    /// How many keys always find room; 0 where none can be promised (fewer than 16 buckets, or than 4 bits).
    #[must_use]
    pub fn capacity(&self) -> u64 {
        cuckoo::room(self.buckets, self.fingerprint_bits)
    }

    /// How many keys always find room and keep the rate.
    #[must_use]
    pub fn capacity_at(&self, rate: f64) -> u64 {
        cuckoo::capacity_at(self.buckets, self.fingerprint_bits, rate)
    }

    pub(crate) fn table(&self) -> Table {
        Table::new(self.buckets, self.fingerprint_bits)
    }
}
