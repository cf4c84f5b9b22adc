//! The encodings: frozen numbers, what each accepts, and where a prefix ends.

use super::tuple::Parts;
use crate::error::{Error, ErrorKind, Result};

/// How keys become bytes before they are hashed: part of every contract.
///
/// | number | encoding | name | canonical bytes |
/// |---|---|---|---|
/// | 1 | [`Bytes`](Self::Bytes) | `bytes` | the bytes |
/// | 2 | [`Text`](Self::Text) | `text` | UTF-8, not normalised |
/// | 3 | [`Unsigned`](Self::Unsigned) | `u64` | 8 bytes, little-endian |
/// | 4 | [`Signed`](Self::Signed) | `i64` | 8 bytes, little-endian, two's complement |
/// | 5 | [`Unsigned128`](Self::Unsigned128) | `u128` | 16 bytes, little-endian |
/// | 6 | [`Signed128`](Self::Signed128) | `i128` | 16 bytes, little-endian, two's complement |
/// | 7 | [`Uuid`](Self::Uuid) | `uuid` | 16 bytes in the order they are written |
/// | 8 | [`Tuple`](Self::Tuple) | `tuple(u64,text)` | each part: `u32` length, then its canonical bytes |
/// | 9 | [`PrefixLength`](Self::PrefixLength) | `prefix-length(8)` | the first bytes of the key |
/// | 10 | [`PrefixDelimiter`](Self::PrefixDelimiter) | `prefix-delimiter(/,2)` | up to and with a delimiter |
///
/// The numbers are frozen: a number never changes its meaning, and one that is retired is not reused.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Any bytes, as they are.
    Bytes,
    /// Text: its UTF-8 bytes, not normalised (`é` as one character and as two are two keys).
    Text,
    /// Unsigned integers up to 64 bits: eight bytes, little-endian.
    Unsigned,
    /// Signed integers up to 64 bits: eight bytes, little-endian, two's complement.
    Signed,
    /// Unsigned integers up to 128 bits: sixteen bytes, little-endian.
    Unsigned128,
    /// Signed integers up to 128 bits: sixteen bytes, little-endian, two's complement.
    Signed128,
    /// UUIDs: sixteen bytes in the order they are written.
    Uuid,
    /// Two to eight scalar parts, each with its length before it, so that no two tuples share bytes.
    Tuple(Parts),
    /// The first `bytes` bytes of a byte key, or the whole key when it is shorter.
    PrefixLength {
        /// How many bytes, at least 1.
        bytes: u32,
    },
    /// A byte key up to and with its `count`-th `delimiter`, or the whole key when it has fewer.
    PrefixDelimiter {
        /// The byte that ends a part, such as `/`.
        delimiter: u8,
        /// How many delimiters, at least 1.
        count: u16,
    },
}

impl Encoding {
    /// The frozen number of this encoding.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Bytes => 1,
            Self::Text => 2,
            Self::Unsigned => 3,
            Self::Signed => 4,
            Self::Unsigned128 => 5,
            Self::Signed128 => 6,
            Self::Uuid => 7,
            Self::Tuple(_) => 8,
            Self::PrefixLength { .. } => 9,
            Self::PrefixDelimiter { .. } => 10,
        }
    }

    /// The scalar encoding of this number: one of those that a tuple can have as a part.
    pub(crate) const fn scalar(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::Bytes,
            2 => Self::Text,
            3 => Self::Unsigned,
            4 => Self::Signed,
            5 => Self::Unsigned128,
            6 => Self::Signed128,
            7 => Self::Uuid,
            _ => return None,
        })
    }

    /// The encoding of tuples of these scalar parts, two to eight of them.
    pub fn tuple(parts: &[Encoding]) -> Result<Self> {
        Parts::new(parts).map(Self::Tuple)
    }

    /// Whether keys of the encoding `given` may be asked of a filter of this encoding as they are.
    ///
    /// An encoding accepts itself. Bytes and the prefixes of bytes accept bytes and text, whose bytes
    /// are the same whoever hashes them. Nothing else is accepted: `42` as a number and `42` as text
    /// have different bytes, and hashing one for the other would make a "no" wrong.
    #[inline]
    #[must_use]
    pub fn accepts(self, given: Encoding) -> bool {
        match self {
            Self::Bytes | Self::PrefixLength { .. } | Self::PrefixDelimiter { .. } => {
                self == given || matches!(given, Self::Bytes | Self::Text)
            }
            _ => self == given,
        }
    }

    /// Whether the canonical form is always one eight-byte word.
    #[inline]
    pub(crate) const fn is_word(self) -> bool {
        matches!(self, Self::Unsigned | Self::Signed)
    }

    /// Refuses parameters that no filter should have: a prefix of no bytes or of no delimiters, under
    /// which all keys would be one.
    pub fn validate(self) -> Result<()> {
        match self {
            Self::PrefixLength { bytes: 0 } => Err(Error::new(
                ErrorKind::InvalidParameter,
                "prefix-length(0) makes every key the same key: give the number of bytes to keep, at least 1",
            )),
            Self::PrefixDelimiter { count: 0, .. } => Err(Error::new(
                ErrorKind::InvalidParameter,
                "a prefix of 0 delimiters makes every key the same key: give the number of delimiters to keep, \
                 at least 1",
            )),
            _ => Ok(()),
        }
    }

    /// Whether only a prefix of each key is hashed.
    #[inline]
    pub(crate) const fn is_prefix(self) -> bool {
        matches!(self, Self::PrefixLength { .. } | Self::PrefixDelimiter { .. })
    }

    /// The bytes of a byte key that count: its prefix under the prefix encodings, else all of it.
    ///
    /// Cutting twice is cutting once.
    #[inline]
    #[must_use]
    pub fn prefix(self, key: &[u8]) -> &[u8] {
        match self {
            Self::PrefixLength { bytes } => &key[..key.len().min(bytes as usize)],
            Self::PrefixDelimiter { delimiter, count } => delimited(key, delimiter, count),
            _ => key,
        }
    }
}

/// `key` up to and with its `count`-th `delimiter`.
fn delimited(key: &[u8], delimiter: u8, count: u16) -> &[u8] {
    let mut left = count;
    if left == 0 {
        return &[];
    }
    for (at, &byte) in key.iter().enumerate() {
        if byte == delimiter {
            left -= 1;
            if left == 0 {
                return &key[..=at];
            }
        }
    }
    key
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One of each encoding, and some with other parameters.
    pub(crate) fn all() -> Vec<Encoding> {
        use Encoding::*;
        let mut all = vec![Bytes, Text, Unsigned, Signed, Unsigned128, Signed128, Uuid];
        all.push(Encoding::tuple(&[Unsigned, Text]).unwrap());
        all.push(Encoding::tuple(&[Text, Unsigned]).unwrap());
        all.push(Encoding::tuple(&[Bytes, Text, Unsigned, Signed, Unsigned128, Signed128, Uuid, Bytes]).unwrap());
        all.extend([PrefixLength { bytes: 8 }, PrefixLength { bytes: u32::MAX }]);
        for delimiter in [b'/', b',', b')', b'\\', 0, b' ', b'\t', 255] {
            all.push(PrefixDelimiter { delimiter, count: 2 });
        }
        all.push(PrefixDelimiter { delimiter: b'/', count: u16::MAX });
        all
    }

    #[test]
    fn an_encoding_accepts_itself_and_byte_encodings_accept_text() {
        for filter in all() {
            for given in all() {
                let bytes_like = matches!(
                    filter,
                    Encoding::Bytes | Encoding::PrefixLength { .. } | Encoding::PrefixDelimiter { .. }
                );
                let expected = filter == given || bytes_like && matches!(given, Encoding::Bytes | Encoding::Text);
                assert_eq!(filter.accepts(given), expected, "{filter} asked with {given}");
            }
        }
        assert!(!Encoding::Text.accepts(Encoding::Bytes));
        assert!(!Encoding::Unsigned.accepts(Encoding::Signed));
        assert!(!Encoding::Unsigned128.accepts(Encoding::Unsigned));
    }

    #[test]
    fn prefixes_are_cut_where_they_should_be() {
        let by_length = Encoding::PrefixLength { bytes: 3 };
        for (key, prefix) in [("", ""), ("ab", "ab"), ("abc", "abc"), ("abcd", "abc")] {
            assert_eq!(by_length.prefix(key.as_bytes()), prefix.as_bytes());
        }
        let by_delimiter = Encoding::PrefixDelimiter { delimiter: b'/', count: 2 };
        for (key, prefix) in
            [("", ""), ("a", "a"), ("a/b", "a/b"), ("a/b/", "a/b/"), ("a/b/c/d", "a/b/"), ("//x", "//")]
        {
            assert_eq!(by_delimiter.prefix(key.as_bytes()), prefix.as_bytes(), "{key}");
            assert_eq!(by_delimiter.prefix(prefix.as_bytes()), prefix.as_bytes(), "cut twice: {key}");
        }
        assert_eq!(Encoding::Bytes.prefix(b"a/b/c"), b"a/b/c");
    }

    #[test]
    fn prefixes_of_nothing_are_refused() {
        for empty in [Encoding::PrefixLength { bytes: 0 }, Encoding::PrefixDelimiter { delimiter: b'/', count: 0 }] {
            assert_eq!(empty.validate().unwrap_err().kind(), ErrorKind::InvalidParameter);
            assert_eq!(empty.prefix(b"a/b"), b"");
        }
        for encoding in all() {
            encoding.validate().unwrap();
        }
    }
}
