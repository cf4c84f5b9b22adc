//! The byte form of an encoding inside files and messages: its number, then its parameters.
//!
//! ```text
//! bytes text u64 i64 u128 i128 uuid   number u16
//! tuple                               number u16 | parts u8 | scalar number u16 each
//! prefix-length                       number u16 | bytes u32
//! prefix-delimiter                    number u16 | delimiter u8 | count u16
//! ```
//!
//! All little-endian. Reading is strict: every encoding has one byte form, and no byte is left over.

use super::{Encoding, Parts};
use crate::error::{Error, ErrorKind, Result};

impl Encoding {
    /// The byte form of this encoding, at most 19 bytes.
    #[must_use]
    pub fn to_wire(&self) -> Vec<u8> {
        let mut wire = self.number().to_le_bytes().to_vec();
        match self {
            Self::Tuple(parts) => {
                wire.push(parts.iter().len() as u8);
                for part in parts.iter() {
                    wire.extend_from_slice(&part.number().to_le_bytes());
                }
            }
            Self::PrefixLength { bytes } => wire.extend_from_slice(&bytes.to_le_bytes()),
            Self::PrefixDelimiter { delimiter, count } => {
                wire.push(*delimiter);
                wire.extend_from_slice(&count.to_le_bytes());
            }
            _ => {}
        }
        wire
    }

    /// The encoding that these bytes write.
    ///
    /// A number that this version does not know is [`ErrorKind::Version`]; parameters that are short,
    /// over or outside their limits are [`ErrorKind::Corrupt`].
    pub fn from_wire(wire: &[u8]) -> Result<Encoding> {
        let Some((number, parameters)) = wire.split_first_chunk() else {
            return Err(malformed("is shorter than its number", wire));
        };
        let number = u16::from_le_bytes(*number);
        if let Some(scalar) = Self::scalar(number) {
            if !parameters.is_empty() {
                return Err(malformed("has bytes after its end", wire));
            }
            return Ok(scalar);
        }
        let encoding = match (number, parameters) {
            (8, [count, numbers @ ..]) => Self::Tuple(parts(*count, numbers, wire)?),
            (9, &[a, b, c, d]) => Self::PrefixLength { bytes: u32::from_le_bytes([a, b, c, d]) },
            (10, &[delimiter, a, b]) => Self::PrefixDelimiter { delimiter, count: u16::from_le_bytes([a, b]) },
            (8..=10, _) => return Err(malformed("has parameters of another length", wire)),
            _ => {
                return Err(Error::new(
                    ErrorKind::Version,
                    format!("key encoding number {number} is unknown, this version knows 1 to 10: use a newer version"),
                ));
            }
        };
        if encoding.validate().is_err() {
            return Err(malformed("has a prefix of nothing", wire));
        }
        Ok(encoding)
    }
}

/// The parts of a tuple; a part's number has its own chance of being from a newer version.
fn parts(count: u8, numbers: &[u8], wire: &[u8]) -> Result<Parts> {
    let count = usize::from(count);
    if !(Parts::FEWEST..=Parts::MOST).contains(&count) || numbers.len() != 2 * count {
        return Err(malformed("has another number of parts than it says", wire));
    }
    let mut encodings = [Encoding::Bytes; Parts::MOST];
    for (encoding, number) in encodings.iter_mut().zip(numbers.as_chunks::<2>().0) {
        let number = u16::from_le_bytes(*number);
        *encoding = Encoding::scalar(number).ok_or_else(|| {
            Error::new(
                ErrorKind::Version,
                format!("key encoding number {number} as a part of a tuple is unknown, this version knows 1 to 7: use a newer version"),
            )
        })?;
    }
    Parts::new(&encodings[..count])
}

fn malformed(how: &str, wire: &[u8]) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the key encoding ({} bytes) {how}: the file is damaged, take it from its source again", wire.len()),
    )
}

#[cfg(test)]
mod tests {
    use super::super::encoding::tests::all;
    use super::*;

    #[test]
    fn every_encoding_reads_back_and_no_other_length_does() {
        for encoding in all() {
            let wire = encoding.to_wire();
            assert!(wire.len() <= 19);
            assert_eq!(Encoding::from_wire(&wire).unwrap(), encoding);
            for len in 0..wire.len() {
                assert_eq!(
                    Encoding::from_wire(&wire[..len]).unwrap_err().kind(),
                    ErrorKind::Corrupt,
                    "{encoding} {len}"
                );
            }
            let over = [&wire[..], &[0]].concat();
            assert_eq!(Encoding::from_wire(&over).unwrap_err().kind(), ErrorKind::Corrupt, "{encoding}");
        }
    }

    #[test]
    fn the_byte_form_is_frozen() {
        for (name, wire) in [
            ("bytes", &[1, 0][..]),
            ("text", &[2, 0]),
            ("u64", &[3, 0]),
            ("i64", &[4, 0]),
            ("u128", &[5, 0]),
            ("i128", &[6, 0]),
            ("uuid", &[7, 0]),
            ("tuple(u64,text,uuid)", &[8, 0, 3, 3, 0, 2, 0, 7, 0]),
            ("prefix-length(258)", &[9, 0, 2, 1, 0, 0]),
            ("prefix-delimiter(/,2)", &[10, 0, 47, 2, 0]),
        ] {
            assert_eq!(name.parse::<Encoding>().unwrap().to_wire(), wire, "{name}");
        }
    }

    #[test]
    fn unknown_numbers_and_broken_limits_are_told_apart() {
        for wire in [&[0, 0][..], &[11, 0], &[255, 255, 1, 2, 3], &[8, 0, 2, 3, 0, 8, 0], &[8, 0, 2, 3, 0, 0, 1]] {
            assert_eq!(Encoding::from_wire(wire).unwrap_err().kind(), ErrorKind::Version, "{wire:?}");
        }
        for wire in [
            &[8, 0, 0][..],
            &[8, 0, 1, 3, 0],
            &[8, 0, 9, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0],
            &[9, 0, 0, 0, 0, 0],
            &[10, 0, 47, 0, 0],
        ] {
            assert_eq!(Encoding::from_wire(wire).unwrap_err().kind(), ErrorKind::Corrupt, "{wire:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_back_the_same(wire in proptest::collection::vec(0u8..12, 0..24)) {
            if let Ok(encoding) = Encoding::from_wire(&wire) {
                proptest::prop_assert_eq!(encoding.to_wire(), wire);
            }
        }
    }
}
