//! Tuples: several scalar parts as one key, each with its length before it.
//!
//! The length makes the form injective: `("ab", "c")` and `("a", "bc")` are different bytes. A part of
//! 4 GiB or more has its length modulo 2^32; it is still hashed whole.

use super::{Encoding, Key};
use crate::error::{Error, ErrorKind, Result};

/// The scalar encodings of a tuple's parts, two to eight of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parts {
    /// Frozen numbers of the parts; 0 beyond `len`, so that equal parts are equal values.
    numbers: [u8; Parts::MOST],
    len: u8,
}

impl Parts {
    /// The fewest parts a tuple has.
    pub const FEWEST: usize = 2;
    /// The most parts a tuple has.
    pub const MOST: usize = 8;

    /// The parts with these scalar encodings.
    pub fn new(parts: &[Encoding]) -> Result<Self> {
        if !(Self::FEWEST..=Self::MOST).contains(&parts.len()) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a tuple of {} parts: a tuple key has 2 to 8 parts", parts.len()),
            ));
        }
        if let Some(nested) = parts.iter().find(|part| Encoding::scalar(part.number()).is_none()) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "{nested} as a part of a tuple: the parts are scalars (bytes, text, u64, i64, u128, i128 or uuid)"
                ),
            ));
        }
        Ok(Self::of(parts))
    }

    /// As [`Parts::new`], for the constants of tuple keys: a wrong part does not compile.
    const fn of(parts: &[Encoding]) -> Self {
        assert!(parts.len() >= Self::FEWEST && parts.len() <= Self::MOST, "a tuple key has 2 to 8 parts");
        let mut numbers = [0; Self::MOST];
        let mut at = 0;
        while at < parts.len() {
            let number = parts[at].number();
            assert!(Encoding::scalar(number).is_some(), "the parts of a tuple key are scalar keys");
            numbers[at] = number as u8;
            at += 1;
        }
        Self { numbers, len: parts.len() as u8 }
    }

    /// The encodings of the parts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Encoding> + '_ {
        self.numbers[..usize::from(self.len)]
            .iter()
            .map(|&number| Encoding::scalar(u16::from(number)).unwrap_or(Encoding::Bytes))
    }
}

/// Appends one part: its length, then its canonical bytes as `write` appends them.
#[inline]
pub(super) fn append_part<E>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    Ok(())
}

macro_rules! tuple_keys {
    ($(($($part:ident $at:tt),*))*) => {$(
        impl<$($part: Key),*> Key for ($($part,)*) {
            const ENCODING: Encoding = Encoding::Tuple(Parts::of(&[$($part::ENCODING),*]));
            #[inline]
            fn canonical<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
                scratch.clear();
                self.append(scratch);
                scratch
            }
            #[inline]
            fn append(&self, out: &mut Vec<u8>) {
                $(
                    let Ok(()) = append_part::<std::convert::Infallible>(out, |out| {
                        self.$at.append(out);
                        Ok(())
                    });
                )*
            }
        }
    )*};
}

tuple_keys! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_carry_their_length() {
        let mut scratch = vec![9; 3];
        assert_eq!(
            (7u8, "ab").canonical(&mut scratch),
            [&[8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0][..], &[2, 0, 0, 0], b"ab"].concat()
        );
        assert_eq!(<(u8, &str)>::ENCODING, Encoding::tuple(&[Encoding::Unsigned, Encoding::Text]).unwrap());
        let (mut one, mut other) = (Vec::new(), Vec::new());
        ("ab", "c").append(&mut one);
        ("a", "bc").append(&mut other);
        assert_ne!(one, other);
        let mut eight = Vec::new();
        (1u8, 2i8, 3u128, 4i128, "x", b"y", super::super::Uuid([5; 16]), 6u64).append(&mut eight);
        assert_eq!(eight.len(), 8 * 4 + 8 + 8 + 16 + 16 + 1 + 1 + 16 + 8);
    }

    #[test]
    fn wrong_parts_are_refused() {
        let pair = Encoding::tuple(&[Encoding::Text, Encoding::Text]).unwrap();
        for parts in [&[][..], &[Encoding::Text], &[Encoding::Text; 9], &[pair, Encoding::Text]] {
            assert_eq!(Encoding::tuple(parts).unwrap_err().kind(), ErrorKind::InvalidParameter);
        }
        let prefix = Encoding::PrefixLength { bytes: 4 };
        assert!(Encoding::tuple(&[Encoding::Text, prefix]).unwrap_err().to_string().contains("prefix-length(4)"));
    }
}
