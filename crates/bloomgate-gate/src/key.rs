//! Keys as a column has them: two spellings are one key exactly where the database says so.
//!
//! The gate never hashes what a client wrote. It parses it into the column's type and hashes the canonical bytes of the
//! value, the same that a scan of the column gives: `042` and `42` are one integer, `A` and `a` are two texts.

use bloomgate::key::{Encoding, Uuid};

use crate::error::{Error, ErrorKind, Result};

/// The longest key, in bytes: beyond it a lookup is refused before it costs anything.
pub const LONGEST: usize = 4096;

/// What kind of values a column has, as far as equality goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// Text compared byte by byte.
    Text,
    /// Text whose trailing spaces do not count (`char(n)`).
    PaddedText,
    /// Integers of 16, 32 or 64 bits.
    Integer {
        /// How many bits.
        bits: u8,
    },
    /// Decimal numbers of any length (`numeric`): `1.50` is `1.5`.
    Decimal,
    /// UUIDs in any of their spellings.
    Uuid,
    /// Bytes, written `\x` and hexadecimal digits.
    Bytes,
}

/// A key: the canonical bytes of a value of one [`KeyType`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    canonical: Box<[u8]>,
}

impl Key {
    /// The key with these canonical bytes, as a scan gives them. No check: who has text parses it by [`KeyType::parse`].
    pub fn from_canonical(bytes: impl Into<Box<[u8]>>) -> Self {
        Self { canonical: bytes.into() }
    }

    /// The canonical bytes: what is hashed.
    #[must_use]
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::from_canonical(text.as_bytes())
    }
}

impl From<i64> for Key {
    fn from(value: i64) -> Self {
        Self::from_canonical(value.to_le_bytes())
    }
}

impl From<Uuid> for Key {
    fn from(value: Uuid) -> Self {
        Self::from_canonical(value.0)
    }
}

impl KeyType {
    /// The key that a text writes.
    pub fn parse(self, text: &str) -> Result<Key> {
        if text.len() > LONGEST {
            return Err(Error::new(ErrorKind::BadKey, "too long"));
        }
        Ok(Key::from(text))
    }

    /// The normal spelling of a key.
    #[must_use]
    pub fn show(self, key: &Key) -> String {
        String::from_utf8_lossy(key.canonical()).into_owned()
    }

    /// The encoding that a filter of such keys has in its contract.
    #[must_use]
    pub fn encoding(self) -> Encoding {
        match self {
            Self::Text | Self::PaddedText | Self::Decimal => Encoding::Text,
            Self::Integer { .. } => Encoding::Signed,
            Self::Uuid => Encoding::Uuid,
            Self::Bytes => Encoding::Bytes,
        }
    }
}
