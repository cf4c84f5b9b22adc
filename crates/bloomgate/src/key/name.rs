//! The names of encodings, as a command line, a configuration or an error writes them.

use std::fmt;
use std::str::FromStr;

use super::text::quoted;
use super::{Encoding, Parts};
use crate::error::{Error, ErrorKind, Result};

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => f.pad("bytes"),
            Self::Text => f.pad("text"),
            Self::Unsigned => f.pad("u64"),
            Self::Signed => f.pad("i64"),
            Self::Unsigned128 => f.pad("u128"),
            Self::Signed128 => f.pad("i128"),
            Self::Uuid => f.pad("uuid"),
            Self::Tuple(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if at == 0 { "tuple(" } else { "," })?;
                }
                f.write_str(")")
            }
            Self::PrefixLength { bytes } => write!(f, "prefix-length({bytes})"),
            Self::PrefixDelimiter { delimiter, count } if delimiter.is_ascii_graphic() => {
                write!(f, "prefix-delimiter({},{count})", char::from(*delimiter))
            }
            Self::PrefixDelimiter { delimiter, count } => write!(f, "prefix-delimiter(\\x{delimiter:02x},{count})"),
        }
    }
}

impl FromStr for Encoding {
    type Err = Error;

    /// Reads the names that [`Display`](fmt::Display) writes: `bytes`, `text`, `u64`, `i64`, `u128`,
    /// `i128`, `uuid`, `tuple(u64,text)`, `prefix-length(8)`, `prefix-delimiter(/,2)`.
    fn from_str(name: &str) -> Result<Self> {
        let encoding = if let Some(encoding) = scalar(name) {
            encoding
        } else if let Some(parts) = arguments(name, "tuple(") {
            let mut encodings = [Self::Bytes; Parts::MOST];
            let mut len = 0;
            for part in parts.split(',') {
                let room = encodings.get_mut(len).ok_or_else(|| {
                    Error::new(
                        ErrorKind::InvalidParameter,
                        format!("{} has more parts than the 8 that a tuple key may have", quoted(name)),
                    )
                })?;
                *room = scalar(part).ok_or_else(|| unknown(part))?;
                len += 1;
            }
            Self::tuple(&encodings[..len])?
        } else if let Some(bytes) = arguments(name, "prefix-length(") {
            Self::PrefixLength { bytes: bytes.parse().map_err(|_| unknown(name))? }
        } else if let Some(arguments) = arguments(name, "prefix-delimiter(") {
            let (delimiter, count) = arguments.rsplit_once(',').ok_or_else(|| unknown(name))?;
            let delimiter = byte(delimiter).ok_or_else(|| unknown(name))?;
            Self::PrefixDelimiter { delimiter, count: count.parse().map_err(|_| unknown(name))? }
        } else {
            return Err(unknown(name));
        };
        encoding.validate()?;
        Ok(encoding)
    }
}

/// The scalar encoding of this name.
fn scalar(name: &str) -> Option<Encoding> {
    (1..=7).filter_map(Encoding::scalar).find(|encoding| encoding.to_string() == name)
}

/// What stands between `open` and the closing parenthesis.
fn arguments<'a>(name: &'a str, open: &str) -> Option<&'a str> {
    name.strip_prefix(open)?.strip_suffix(')')
}

/// One byte: an ASCII character, or `\x` and two hexadecimal digits.
fn byte(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [byte] => Some(*byte),
        [b'\\', b'x', high, low] => {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            Some((digit(*high)? << 4 | digit(*low)?) as u8)
        }
        _ => None,
    }
}

fn unknown(name: &str) -> Error {
    Error::new(
        ErrorKind::InvalidParameter,
        format!(
            "{} is not a key encoding: use bytes, text, u64, i64, u128, i128, uuid, tuple(u64,text) with 2 to 8 of \
             those, prefix-length(8) or prefix-delimiter(/,2); a delimiter that cannot be typed is written \\x00",
            quoted(name)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::encoding::tests::all;
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for encoding in all() {
            assert_eq!(encoding.to_string().parse::<Encoding>().unwrap(), encoding, "{encoding}");
        }
        let names = ["bytes", "text", "u64", "i64", "u128", "i128", "uuid", "tuple(u64,text)"];
        assert_eq!(all().iter().map(ToString::to_string).take(8).collect::<Vec<_>>(), names);
        assert_eq!(Encoding::PrefixDelimiter { delimiter: b'/', count: 2 }.to_string(), "prefix-delimiter(/,2)");
        assert_eq!(Encoding::PrefixDelimiter { delimiter: 9, count: 2 }.to_string(), "prefix-delimiter(\\x09,2)");
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "",
            "u32",
            "U64",
            "bytes ",
            "f64",
            "tuple()",
            "tuple(u64)",
            "tuple(u64,)",
            "tuple(u64,text",
            "tuple(u64,tuple(u64,u64))",
            "tuple(u64,prefix-length(8))",
            "prefix-length()",
            "prefix-length(0)",
            "prefix-length(-1)",
            "prefix-length(4294967296)",
            "prefix-delimiter(/)",
            "prefix-delimiter(/,0)",
            "prefix-delimiter(//,1)",
            "prefix-delimiter(/,65536)",
            "prefix-delimiter(\\xg0,1)",
            "prefix-delimiter(é,1)",
            "tuple(u64,u64,u64,u64,u64,u64,u64,u64,u64)",
        ] {
            assert_eq!(name.parse::<Encoding>().unwrap_err().kind(), ErrorKind::InvalidParameter, "{name}");
        }
        assert!("f64".parse::<Encoding>().unwrap_err().to_string().contains("tuple(u64,text)"));
    }
}
