//! UUIDs as keys: sixteen bytes in the order they are written, whatever form they were written in.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// A UUID: its sixteen bytes in the order they are written (RFC 9562, section 4).
///
/// Parsed from the hyphenated, simple, URN and braced forms, in either case; written hyphenated.
///
/// ```
/// use bloomgate::key::Uuid;
///
/// let uuid: Uuid = "{F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6}".parse()?;
/// assert_eq!(uuid.to_string(), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
/// # Ok::<(), bloomgate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Uuid(pub [u8; 16]);

/// Where the hyphens of the 36-character form stand.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl FromStr for Uuid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text.as_bytes()).ok_or_else(|| {
            Error::new(
                ErrorKind::Encoding,
                format!(
                    "{} is not a UUID: write 32 hexadecimal digits, with hyphens (8-4-4-4-12) or without, \
                     or the hyphenated form after urn:uuid: or in braces",
                    super::text::quoted(text)
                ),
            )
        })
    }
}

fn parse(text: &[u8]) -> Option<Uuid> {
    let digits = match text.len() {
        32 => return hex(text.iter().copied()),
        36 => text,
        38 => text.strip_prefix(b"{")?.strip_suffix(b"}")?,
        45 if text[..9].eq_ignore_ascii_case(b"urn:uuid:") => &text[9..],
        _ => return None,
    };
    if HYPHENS.iter().any(|&at| digits[at] != b'-') {
        return None;
    }
    hex(digits.iter().enumerate().filter(|(at, _)| !HYPHENS.contains(at)).map(|(_, &digit)| digit))
}

/// Sixteen bytes from exactly 32 digits.
fn hex(mut digits: impl Iterator<Item = u8>) -> Option<Uuid> {
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        let high = char::from(digits.next()?).to_digit(16)?;
        let low = char::from(digits.next()?).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    digits.next().is_none().then_some(Uuid(bytes))
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYPHENATED: &str = "00112233-4455-6677-8899-aabbccddeeff";

    #[test]
    fn every_form_is_the_same_key() {
        let bytes = [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
        for form in [
            HYPHENATED,
            "00112233445566778899AABBCCDDEEFF",
            "00112233445566778899aAbBcCdDeEfF",
            "urn:uuid:00112233-4455-6677-8899-aabbccddeeff",
            "URN:UUID:00112233-4455-6677-8899-AABBCCDDEEFF",
            "{00112233-4455-6677-8899-aabbccddeeff}",
        ] {
            assert_eq!(form.parse::<Uuid>().unwrap(), Uuid(bytes), "{form}");
        }
        assert_eq!(Uuid(bytes).to_string(), HYPHENATED);
    }

    #[test]
    fn other_forms_are_refused() {
        for wrong in [
            "",
            "0011",
            " 00112233-4455-6677-8899-aabbccddeeff",
            "00112233-4455-6677-8899-aabbccddeef",
            "00112233-4455-6677-8899-aabbccddeeffa",
            "0011223344-55-6677-8899-aabbccddeeff",
            "00112233-4455-6677-8899-aabbccddee-f",
            "{00112233-4455-6677-8899-aabbccddeeff",
            "(00112233-4455-6677-8899-aabbccddeeff)",
            "urn-uuid:00112233-4455-6677-8899-aabbccddeeff",
            "0011223344556677-8899-aabbccddeeff",
            "+0112233445566778899aabbccddeeff",
            "0011223344556677é899aabbccddeef",
        ] {
            let error = wrong.parse::<Uuid>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Encoding, "{wrong}");
            assert!(error.to_string().contains("8-4-4-4-12"), "{error}");
        }
    }
}
