//! Keys written as text, for the command line, the server and files of keys: parsed strictly, so that
//! two spellings are one key only where they are one value.

use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;

use super::tuple::append_part;
use super::{Encoding, Uuid};
use crate::error::{Error, ErrorKind, Result};

impl Encoding {
    /// The canonical bytes of the key that `text` writes in this encoding, or why it writes none.
    ///
    /// Integers are decimal: leading zeros and a plus sign change nothing, anything else (spaces,
    /// underscores, an empty text, a number too large) is refused. UUIDs may have any form that
    /// [`Uuid`] reads. The parts of a tuple are separated by tabs. Bytes and text are taken as they are.
    pub fn parse_text<'a>(&self, text: &'a str, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        match self {
            Self::Bytes | Self::Text | Self::PrefixLength { .. } | Self::PrefixDelimiter { .. } => {
                Ok(self.prefix(text.as_bytes()))
            }
            Self::Tuple(parts) => {
                scratch.clear();
                let given = text.split('\t').count();
                if given != parts.iter().len() {
                    return Err(Error::new(
                        ErrorKind::Encoding,
                        format!(
                            "{} has {given} parts, but the filter's keys are {self}: write {} parts with one tab \
                             between each",
                            quoted(text),
                            parts.iter().len()
                        ),
                    ));
                }
                for (part, text) in parts.iter().zip(text.split('\t')) {
                    append_part(scratch, |out| part.append_scalar(text, out))?;
                }
                Ok(scratch)
            }
            _ => {
                scratch.clear();
                self.append_scalar(text, scratch)?;
                Ok(scratch)
            }
        }
    }

    /// Appends the canonical bytes of a scalar written as text.
    fn append_scalar(&self, text: &str, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Unsigned => out.extend_from_slice(&integer::<u64>(text, u64::MIN, u64::MAX)?.to_le_bytes()),
            Self::Signed => out.extend_from_slice(&integer::<i64>(text, i64::MIN, i64::MAX)?.to_le_bytes()),
            Self::Unsigned128 => out.extend_from_slice(&integer::<u128>(text, u128::MIN, u128::MAX)?.to_le_bytes()),
            Self::Signed128 => out.extend_from_slice(&integer::<i128>(text, i128::MIN, i128::MAX)?.to_le_bytes()),
            Self::Uuid => out.extend_from_slice(&text.parse::<Uuid>()?.0),
            _ => out.extend_from_slice(text.as_bytes()),
        }
        Ok(())
    }
}

/// A decimal integer; the standard parser already refuses spaces, underscores and other bases.
fn integer<T: FromStr<Err = std::num::ParseIntError> + fmt::Display>(text: &str, least: T, most: T) -> Result<T> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        let got = match error.kind() {
            IntErrorKind::Empty => "an empty text is not a number".into(),
            IntErrorKind::PosOverflow => format!("{} is too large", quoted(text)),
            IntErrorKind::NegOverflow => format!("{} is too small", quoted(text)),
            _ => format!("{} is not a decimal integer", quoted(text)),
        };
        Error::new(
            ErrorKind::Encoding,
            format!(
                "{got}: the filter's keys are integers from {least} to {most}, written in decimal digits without spaces \
                 or separators"
            ),
        )
    })
}

/// `text` in quotes, escaped, and cut after 40 characters: what an error shows of a key.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(encoding: Encoding, text: &str) -> Result<Vec<u8>> {
        encoding.parse_text(text, &mut vec![1, 2, 3]).map(<[u8]>::to_vec)
    }

    #[test]
    fn spellings_of_one_number_are_one_key() {
        for spelling in ["42", "042", "+42", "+000042"] {
            assert_eq!(parse(Encoding::Unsigned, spelling).unwrap(), 42u64.to_le_bytes());
            assert_eq!(parse(Encoding::Signed, spelling).unwrap(), 42i64.to_le_bytes());
            assert_eq!(parse(Encoding::Unsigned128, spelling).unwrap(), 42u128.to_le_bytes());
            assert_eq!(parse(Encoding::Signed128, spelling).unwrap(), 42i128.to_le_bytes());
        }
        assert_eq!(parse(Encoding::Signed, "-0").unwrap(), [0; 8]);
        assert_eq!(parse(Encoding::Signed, "-9223372036854775808").unwrap(), i64::MIN.to_le_bytes());
        assert_eq!(parse(Encoding::Unsigned, "18446744073709551615").unwrap(), [255; 8]);
        assert_eq!(parse(Encoding::Signed128, &i128::MIN.to_string()).unwrap(), i128::MIN.to_le_bytes());
    }

    #[test]
    fn what_is_no_number_is_refused_with_the_range() {
        let wrong =
            ["", " 42", "42 ", "4_2", "4,2", "0x2a", "42.0", "4e1", "-", "+", "--1", "٤٢", "42\n", "1\0", "one"];
        for encoding in [Encoding::Unsigned, Encoding::Signed, Encoding::Unsigned128, Encoding::Signed128] {
            for text in wrong {
                let error = parse(encoding, text).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Encoding);
                assert!(error.to_string().contains("decimal"), "{text:?}: {error}");
            }
        }
        for (encoding, text) in [
            (Encoding::Unsigned, "18446744073709551616"),
            (Encoding::Unsigned, "-1"),
            (Encoding::Signed, "9223372036854775808"),
            (Encoding::Signed, "-9223372036854775809"),
            (Encoding::Unsigned128, "340282366920938463463374607431768211456"),
        ] {
            assert!(parse(encoding, text).is_err(), "{text}");
        }
        let error = parse(Encoding::Unsigned, &"9".repeat(1000)).unwrap_err().to_string();
        assert!(error.len() < 250 && error.contains("18446744073709551615"), "{error}");
    }

    #[test]
    fn tuples_are_split_at_tabs_and_prefixes_are_cut() {
        let pair = Encoding::tuple(&[Encoding::Unsigned, Encoding::Text]).unwrap();
        let mut expected = Vec::new();
        super::super::Key::append(&(7u64, "a b"), &mut expected);
        assert_eq!(parse(pair, "7\ta b").unwrap(), expected);
        assert_eq!(parse(pair, "7\t").unwrap().len(), 16);
        for wrong in ["7", "", "7\ta\tb", "x\ta"] {
            assert_eq!(parse(pair, wrong).unwrap_err().kind(), ErrorKind::Encoding, "{wrong}");
        }
        assert!(parse(pair, "7").unwrap_err().to_string().contains("tuple(u64,text)"));
        assert_eq!(parse(Encoding::PrefixLength { bytes: 2 }, "abc").unwrap(), b"ab");
        assert_eq!(parse(Encoding::Text, " 42 ").unwrap(), b" 42 ");
        assert_eq!(parse(Encoding::Uuid, "{00000000-0000-0000-0000-000000000001}").unwrap()[15], 1);
    }
}
