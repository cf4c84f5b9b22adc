//! Keys as a column has them: two spellings are one key exactly where the database says so.
//!
//! The gate never hashes what a client wrote. It parses it into the column's type and hashes the canonical bytes of the
//! value, the same that a scan of the column gives: `042` and `42` are one integer, `A` and `a` are two texts.

mod decimal;

use bloomgate::key::{Encoding, Uuid};

#[cfg(feature = "postgres")]
pub(crate) use decimal::write_plain;

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
    /// The encoding that a filter of such keys has in its contract. Text is asked as its bytes: a scan need not prove again
    /// that they are UTF-8.
    #[must_use]
    pub fn encoding(self) -> Encoding {
        match self {
            Self::Integer { .. } => Encoding::Signed,
            Self::Uuid => Encoding::Uuid,
            Self::Text | Self::PaddedText | Self::Decimal | Self::Bytes => Encoding::Bytes,
        }
    }

    /// The key that a text spells.
    ///
    /// What the database takes for one value becomes one key: ` 042` is the integer 42, `1.50` the decimal 1.5. Rare
    /// spellings (`0x2A`, `1_000`, `NaN`, UUIDs grouped otherwise) are refused rather than guessed at.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::BadKey`] if no row can have the key under this spelling, or if it is longer than 4,096 bytes.
    pub fn parse(self, text: &str) -> Result<Key> {
        // Two digits a byte, and the prefix.
        let longest = if self == Self::Bytes { 2 * LONGEST + 2 } else { LONGEST };
        if text.len() > longest {
            return Err(Error::new(
                ErrorKind::BadKey,
                format!("a key of {} bytes: at most {longest} are allowed", text.len()),
            ));
        }
        match self {
            Self::Text => Ok(text.into()),
            Self::PaddedText => Ok(text.trim_end_matches(' ').into()),
            Self::Integer { bits } => integer(text, bits).map(Key::from),
            Self::Decimal => decimal::parse(text).map(Key::from_canonical),
            Self::Uuid => uuid(text).map(Key::from),
            Self::Bytes => hexadecimal(text)
                .map(Key::from_canonical)
                .ok_or_else(|| bad(text, "bytes", "write \\x and two hexadecimal digits for each byte, like \\x00ff")),
        }
    }

    /// A key as text: what [`parse`](Self::parse) makes the same key of. A key of another type is shown as bytes.
    #[must_use]
    pub fn show(self, key: &Key) -> String {
        let bytes = key.canonical();
        match self {
            Self::Text | Self::PaddedText | Self::Decimal => String::from_utf8_lossy(bytes).into_owned(),
            Self::Integer { .. } => {
                bytes.try_into().map_or_else(|_| spell_bytes(bytes), |bytes| i64::from_le_bytes(bytes).to_string())
            }
            Self::Uuid => bytes.try_into().map_or_else(|_| spell_bytes(bytes), |bytes| Uuid(bytes).to_string()),
            Self::Bytes => spell_bytes(bytes),
        }
    }

    /// Whether a key's canonical bytes are of this type: whether [`parse`](Self::parse) can give it.
    #[must_use]
    pub fn holds(self, key: &Key) -> bool {
        let bytes = key.canonical();
        bytes.len() <= LONGEST
            && match self {
                Self::Text => std::str::from_utf8(bytes).is_ok(),
                Self::PaddedText => !bytes.ends_with(b" ") && std::str::from_utf8(bytes).is_ok(),
                Self::Integer { bits } => bytes.try_into().is_ok_and(|bytes| fits(i64::from_le_bytes(bytes), bits)),
                Self::Decimal => std::str::from_utf8(bytes)
                    .is_ok_and(|text| decimal::parse(text).is_ok_and(|canonical| canonical == bytes)),
                Self::Uuid => bytes.len() == 16,
                Self::Bytes => true,
            }
    }

    /// Refuses a key that is not of this type.
    pub(crate) fn check(self, key: &Key) -> Result<()> {
        if self.holds(key) {
            return Ok(());
        }
        let shown = spell_bytes(&key.canonical()[..key.canonical().len().min(40)]);
        Err(Error::new(
            ErrorKind::BadKey,
            format!("{shown} is not the canonical form of {self}: make keys by KeyType::parse"),
        ))
    }
}

impl std::fmt::Display for KeyType {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text => to.write_str("text"),
            Self::PaddedText => to.write_str("padded text"),
            Self::Integer { bits } => write!(to, "integer of {bits} bits"),
            Self::Decimal => to.write_str("decimal"),
            Self::Uuid => to.write_str("UUID"),
            Self::Bytes => to.write_str("bytes"),
        }
    }
}

/// `\x` and two digits a byte.
pub(crate) fn spell_bytes(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16));
    ['\\', 'x'].into_iter().chain(digits).collect()
}

/// The bytes that `\x` and an even number of digits spell.
pub(crate) fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    pairs.iter().map(|&[high, low]| u8::try_from(digit(high)? << 4 | digit(low)?).ok()).collect()
}

/// What C's `isspace` takes for space: databases skip these around numbers.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\x0B', '\x0C', '\r'])
}

/// `-` or nothing, and what follows the sign.
fn signed(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

fn integer(text: &str, bits: u8) -> Result<i64> {
    let (negative, digits) = signed(trimmed(text));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad(text, "integer", "write digits with at most a sign before them, like -42"));
    }
    let value = digits.bytes().try_fold(0i64, |value, byte| {
        let digit = i64::from(byte - b'0');
        // Downwards, for there is one more number below zero than above.
        value.checked_mul(10)?.checked_sub(digit)
    });
    let value = value.and_then(|value| if negative { Some(value) } else { value.checked_neg() });
    value.filter(|&value| fits(value, bits)).ok_or_else(|| {
        let most = i64::MAX >> (64 - u32::from(bits.clamp(1, 64)));
        bad(text, &format!("integer of {bits} bits"), &format!("write one from {} to {most}", -most - 1))
    })
}

fn fits(value: i64, bits: u8) -> bool {
    let above = 64 - u32::from(bits.clamp(1, 64));
    value << above >> above == value
}

fn uuid(text: &str) -> Result<Uuid> {
    // The library also reads `urn:uuid:`, which no database takes.
    let parsed = if text.len() <= 38 { text.parse().ok() } else { None };
    parsed.ok_or_else(|| {
        bad(text, "UUID", "write 32 hexadecimal digits, with hyphens (8-4-4-4-12), without, or hyphenated in braces")
    })
}

/// Why a text is no key, and how one is written.
fn bad(text: &str, what: &str, allowed: &str) -> Error {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    Error::new(ErrorKind::BadKey, format!("{shown:?} is no {what}: {allowed}"))
}
