//! The truth behind a "maybe": a sorted file or a table of a database that says whether a key is really there.

mod sorted;
#[cfg(feature = "sqlite")]
mod table;

use std::ffi::OsStr;
use std::path::Path;

use bloomgate::Encoding;

use crate::failure::Failure;
use crate::keys::Cut;

/// Where the keys really are.
pub enum Truth {
    /// The lines of a file, in the order of their bytes.
    Sorted(sorted::Sorted),
    /// A column of a table of SQLite.
    #[cfg(feature = "sqlite")]
    Table(table::Table),
}

impl Truth {
    /// Opens `FILE` or `sqlite:FILE?table.column`; with `hashes` the lines are `HASH:COUNT`.
    pub fn open(place: &OsStr, cut: Cut, hashes: bool) -> Result<Self, Failure> {
        match place.to_str().and_then(|text| text.strip_prefix("sqlite:")) {
            None => Ok(Self::Sorted(sorted::Sorted::open(Path::new(place), cut, hashes)?)),
            #[cfg(feature = "sqlite")]
            Some(table) => Ok(Self::Table(table::Table::open(table)?)),
            #[cfg(not(feature = "sqlite"))]
            Some(_) => Err(no_sqlite()),
        }
    }

    /// Whether a key is there.
    pub fn has(&mut self, key: &[u8]) -> Result<bool, Failure> {
        match self {
            Self::Sorted(sorted) => sorted.has(key),
            #[cfg(feature = "sqlite")]
            Self::Table(table) => table.has(key),
        }
    }
}

/// What is said of databases by a command that was built without them.
#[cfg(not(feature = "sqlite"))]
pub fn no_sqlite() -> Failure {
    Failure::Message("this bloomgate was built without SQLite: build it with the feature `sqlite`".into())
}

/// How a key is written where it really is, by the encodings of the filters that are asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// As it was asked.
    AsIs,
    /// As a decimal number without leading zeros: `007` and `7` are one key.
    Decimal,
}

impl Spelling {
    /// The spelling for these encodings, or why there is none.
    pub fn of(encodings: impl Iterator<Item = Encoding>) -> Result<Self, Failure> {
        let mut spelling = None;
        for encoding in encodings {
            let this = match encoding {
                Encoding::Bytes | Encoding::Text => Self::AsIs,
                Encoding::Unsigned | Encoding::Signed | Encoding::Unsigned128 | Encoding::Signed128 => Self::Decimal,
                other => {
                    return Err(Failure::Message(format!(
                        "--confirm cannot tell how keys of the encoding {other} are written where they really are: it \
                         confirms bytes, text and integers"
                    )));
                }
            };
            if spelling.replace(this).is_some_and(|other| other != this) {
                return Err(Failure::Message(
                    "--confirm cannot confirm filters of numbers and filters of bytes at once: 007 is 7 for the one and \
                     another key for the other; ask them one after the other"
                        .into(),
                ));
            }
        }
        Ok(spelling.unwrap_or(Self::AsIs))
    }

    /// A key that a filter took, in this spelling.
    pub fn spell<'a>(self, key: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if self == Self::AsIs {
            return key;
        }
        let (sign, digits) = match key.trim_ascii() {
            [b'-', digits @ ..] => (&b"-"[..], digits),
            [b'+', digits @ ..] => (&b""[..], digits),
            digits => (&b""[..], digits),
        };
        let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
        scratch.clear();
        if zeros == digits.len() {
            scratch.push(b'0');
        } else {
            scratch.extend_from_slice(sign);
            scratch.extend_from_slice(&digits[zeros..]);
        }
        scratch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelled_one_way() {
        let scratch = &mut Vec::new();
        for (key, spelled) in [("007", "7"), ("0", "0"), ("-0", "0"), ("-0042", "-42"), ("+5", "5"), ("100", "100")] {
            assert_eq!(Spelling::Decimal.spell(key.as_bytes(), scratch), spelled.as_bytes(), "{key}");
            assert_eq!(Spelling::AsIs.spell(key.as_bytes(), scratch), key.as_bytes());
        }
        let of = |encodings: &[Encoding]| Spelling::of(encodings.iter().copied());
        assert_eq!(of(&[Encoding::Text, Encoding::Bytes]).unwrap(), Spelling::AsIs);
        assert_eq!(of(&[Encoding::Signed]).unwrap(), Spelling::Decimal);
        assert!(of(&[Encoding::Signed, Encoding::Bytes]).is_err() && of(&[Encoding::Uuid]).is_err());
    }
}
