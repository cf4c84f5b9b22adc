//! The frozen numbers of the section table: what a section is, what a reader owes it, how it is stored.

use std::fmt;

/// What a section holds: a frozen number.
///
/// 1 to 7 are defined so far, 8 to 0x7FFF are for later versions, and 0x8000 up are for private,
/// non-critical use by whoever writes the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SectionType(pub u16);

impl SectionType {
    /// How keys become digests: [fields](crate::format::FieldReader).
    pub const CONTRACT: Self = Self(1);
    /// The kind of filter and its exact dimensions: [fields](crate::format::FieldReader).
    pub const SHAPE: Self = Self(2);
    /// How many keys went in: [fields](crate::format::FieldReader).
    pub const COUNTS: Self = Self(3);
    /// Public strings and their digests: [`crate::format::sentinels`].
    pub const SENTINELS: Self = Self(4);
    /// The bits.
    pub const PAYLOAD: Self = Self(5);
    /// One CRC32C per 64 KiB of the chunked section of the same part.
    pub const CHUNK_SUMS: Self = Self(6);
    /// What makes one file of another ([`crate::format::delta`]): a file with it is no filter.
    pub const DELTA: Self = Self(7);

    /// Whether this version of the library knows the type.
    #[must_use]
    pub fn is_known(self) -> bool {
        (1..=7).contains(&self.0)
    }

    /// Whether the number is left to whoever writes the file.
    #[must_use]
    pub fn is_private(self) -> bool {
        self.0 >= 0x8000
    }
}

impl fmt::Display for SectionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::CONTRACT => f.write_str("CONTRACT"),
            Self::SHAPE => f.write_str("SHAPE"),
            Self::COUNTS => f.write_str("COUNTS"),
            Self::SENTINELS => f.write_str("SENTINELS"),
            Self::PAYLOAD => f.write_str("PAYLOAD"),
            Self::CHUNK_SUMS => f.write_str("CHUNK_SUMS"),
            Self::DELTA => f.write_str("DELTA"),
            Self(n) if n >= 0x8000 => write!(f, "private type {n:#06x}"),
            Self(n) => write!(f, "type {n}"),
        }
    }
}

/// What a reader must know about a section before it looks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SectionFlags(pub u16);

impl SectionFlags {
    /// A reader that does not know the type must refuse the file.
    pub const CRITICAL: Self = Self(1);
    /// The section is checked by the `CHUNK_SUMS` of the same part, and its own checksum is theirs.
    pub const CHUNKED: Self = Self(2);

    /// Whether all bits of `other` are set here.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits that version 1 does not define.
    #[must_use]
    pub(crate) fn unknown(self) -> u16 {
        self.0 & !3
    }
}

/// How the bytes of a payload are stored: a frozen number.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Codec {
    /// As they are: can be queried in place.
    Raw = 0,
    /// [Gap coding](crate::format::gaps): for sparse filters, must be decoded first.
    Gaps = 1,
}

impl Codec {
    /// The codec of a frozen number, if this version knows it.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::Raw),
            1 => Some(Self::Gaps),
            _ => None,
        }
    }

    /// The frozen number.
    #[must_use]
    pub fn number(self) -> u16 {
        self as u16
    }
}
