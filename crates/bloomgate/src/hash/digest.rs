//! The 128 bits that stand for a key everywhere below the key door.

use std::fmt;

/// The 128-bit hash of a key: all that a filter ever sees of it.
///
/// Its byte form is `lo` then `hi`, each little-endian: the order in which XXH3-128, SipHash-128 and
/// BLAKE2b hand their bytes out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(C)]
pub struct Digest {
    /// The first eight bytes.
    pub lo: u64,
    /// The last eight bytes.
    pub hi: u64,
}

impl Digest {
    /// A digest from its two halves.
    #[must_use]
    pub const fn new(lo: u64, hi: u64) -> Self {
        Self { lo, hi }
    }

    /// A digest from its 16 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self::from_u128(u128::from_le_bytes(bytes))
    }

    /// The 16 bytes of this digest.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.to_u128().to_le_bytes()
    }

    /// A digest from one 128-bit number; `lo` is its low half.
    #[must_use]
    pub const fn from_u128(value: u128) -> Self {
        Self { lo: value as u64, hi: (value >> 64) as u64 }
    }

    /// This digest as one 128-bit number; `lo` is its low half.
    #[must_use]
    pub const fn to_u128(self) -> u128 {
        (self.lo as u128) | ((self.hi as u128) << 64)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(")?;
        for byte in self.to_bytes() {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}
