//! Keys as PostgreSQL sends and takes them: the binary form of each type, and the canonical bytes of the gate.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, Oid, ToSql, Type, to_sql_checked};

use crate::key::{Key, KeyType, write_plain};

/// How the values of a column travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Int2,
    Int4,
    Int8,
    Text,
    Padded,
    Uuid,
    Bytea,
    Numeric,
}

impl Wire {
    /// The wire form of a type by its number; nothing for a type that cannot be gated.
    pub fn of(base: Oid) -> Option<Self> {
        Some(match Type::from_oid(base)? {
            Type::INT2 => Self::Int2,
            Type::INT4 => Self::Int4,
            Type::INT8 => Self::Int8,
            Type::TEXT | Type::VARCHAR => Self::Text,
            Type::BPCHAR => Self::Padded,
            Type::UUID => Self::Uuid,
            Type::BYTEA => Self::Bytea,
            Type::NUMERIC => Self::Numeric,
            _ => return None,
        })
    }

    pub fn key_type(self) -> KeyType {
        match self {
            Self::Int2 => KeyType::Integer { bits: 16 },
            Self::Int4 => KeyType::Integer { bits: 32 },
            Self::Int8 => KeyType::Integer { bits: 64 },
            Self::Text => KeyType::Text,
            Self::Padded => KeyType::PaddedText,
            Self::Uuid => KeyType::Uuid,
            Self::Bytea => KeyType::Bytes,
            Self::Numeric => KeyType::Decimal,
        }
    }

    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Padded)
    }

    /// The type that one key is sent as. Decimals go as text and are cast at the server.
    pub fn parameter(self) -> Type {
        self.types().0
    }

    /// The type that an array of keys is sent as.
    pub fn parameters(self) -> Type {
        self.types().1
    }

    fn types(self) -> (Type, Type) {
        match self {
            Self::Int2 => (Type::INT2, Type::INT2_ARRAY),
            Self::Int4 => (Type::INT4, Type::INT4_ARRAY),
            Self::Int8 => (Type::INT8, Type::INT8_ARRAY),
            Self::Text | Self::Numeric => (Type::TEXT, Type::TEXT_ARRAY),
            Self::Padded => (Type::BPCHAR, Type::BPCHAR_ARRAY),
            Self::Uuid => (Type::UUID, Type::UUID_ARRAY),
            Self::Bytea => (Type::BYTEA, Type::BYTEA_ARRAY),
        }
    }

    /// A parameter with one key, as SQL of the column's type.
    pub fn one(self, parameter: &str) -> String {
        match self {
            Self::Numeric => format!("{parameter}::pg_catalog.text::pg_catalog.numeric"),
            _ => parameter.to_string(),
        }
    }

    /// A parameter with an array of keys, as SQL of an array of the column's type.
    pub fn many(self, parameter: &str) -> String {
        match self {
            Self::Numeric => format!("{parameter}::pg_catalog.text[]::pg_catalog.numeric[]"),
            _ => parameter.to_string(),
        }
    }

    /// A key as SQL of the column's type, for where no parameter can be (`COPY`). Whatever bytes it has, what is written are
    /// digits, letters and signs that end no literal.
    pub fn literal(self, key: &Key) -> String {
        let bytes = key.canonical();
        let hexadecimal = || bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let shown = || self.key_type().show(key);
        let of_text = || {
            let bytes = format!("pg_catalog.decode('{}', 'hex')", hexadecimal());
            format!("pg_catalog.convert_from({bytes}, 'UTF8')")
        };
        match self {
            Self::Int2 | Self::Int4 | Self::Int8 => match bytes.try_into() {
                Ok(bytes) => format!("'{}'::pg_catalog.int8", i64::from_le_bytes(bytes)),
                Err(_) => "NULL::pg_catalog.int8".to_owned(),
            },
            Self::Text => of_text(),
            Self::Padded => format!("{}::pg_catalog.bpchar", of_text()),
            Self::Bytea => format!("pg_catalog.decode('{}', 'hex')", hexadecimal()),
            Self::Uuid if bytes.len() == 16 => format!("'{}'::pg_catalog.uuid", shown()),
            Self::Uuid => "NULL::pg_catalog.uuid".to_owned(),
            Self::Numeric => format!("{}::pg_catalog.numeric", of_text()),
        }
    }

    /// Appends the canonical bytes of a value; false, with nothing written, if it is none of this type.
    pub fn canonical(self, value: &[u8], out: &mut Vec<u8>) -> bool {
        let integer = match self {
            Self::Int2 => value.try_into().ok().map(|bytes| i64::from(i16::from_be_bytes(bytes))),
            Self::Int4 => value.try_into().ok().map(|bytes| i64::from(i32::from_be_bytes(bytes))),
            Self::Int8 => value.try_into().ok().map(i64::from_be_bytes),
            Self::Numeric => return number(value, out),
            Self::Uuid if value.len() != 16 => None,
            Self::Text | Self::Bytea | Self::Uuid => {
                out.extend_from_slice(value);
                return true;
            }
            Self::Padded => {
                let padding = value.iter().rev().take_while(|&&byte| byte == b' ').count();
                out.extend_from_slice(&value[..value.len() - padding]);
                return true;
            }
        };
        integer.is_some_and(|value| {
            out.extend_from_slice(&value.to_le_bytes());
            true
        })
    }
}

/// A `numeric` as plain digits. On the wire: how many groups of four digits, how many of them (less one) are before the
/// point, the sign, how many digits to show after the point, and the groups; 16 bits each (`numeric_send`).
fn number(value: &[u8], out: &mut Vec<u8>) -> bool {
    let (words, []) = value.as_chunks::<2>() else { return false };
    let words = words.iter().map(|&word| u16::from_be_bytes(word));
    let mut head = [0; 4];
    let mut rest = words.clone();
    for word in &mut head {
        match rest.next() {
            Some(read) => *word = read,
            None => return false,
        }
    }
    let [groups, weight, sign, _] = head;
    let negative = match sign {
        0 => false,
        0x4000 => true,
        // No number, and no key that can be asked for; but it is there, and counted.
        0xC000 => return append(out, b"NaN"),
        0xD000 => return append(out, b"Infinity"),
        0xF000 => return append(out, b"-Infinity"),
        _ => return false,
    };
    if rest.len() != usize::from(groups) || rest.clone().any(|group| group > 9999) {
        return false;
    }
    let digits = rest.flat_map(|group| [group / 1000, group / 100 % 10, group / 10 % 10, group % 10]);
    // A few groups are the rule: they stay off the heap.
    let mut short = [0; 64];
    let count = usize::from(groups) * 4;
    let long: Vec<u8>;
    let digits = if count <= short.len() {
        short.iter_mut().zip(digits).for_each(|(place, digit)| *place = b'0' + digit as u8);
        &short[..count]
    } else {
        long = digits.map(|digit| b'0' + digit as u8).collect();
        &long
    };
    let point = (i32::from(weight as i16) + 1) * 4;
    write_plain(negative, digits, point, usize::MAX, out)
}

fn append(out: &mut Vec<u8>, text: &[u8]) -> bool {
    out.extend_from_slice(text);
    true
}

/// A key as a parameter. It is one of the column's type: that was checked.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub wire: Wire,
    pub key: &'a Key,
}

impl ToSql for Given<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let bytes = self.key.canonical();
        let integer = || bytes.try_into().map(i64::from_le_bytes);
        match self.wire {
            Wire::Int2 => out.put_i16(integer()?.try_into()?),
            Wire::Int4 => out.put_i32(integer()?.try_into()?),
            Wire::Int8 => out.put_i64(integer()?),
            Wire::Text | Wire::Padded | Wire::Uuid | Wire::Bytea | Wire::Numeric => out.put_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A value of any type as its bytes on the wire.
pub(super) struct Stored<'a>(pub &'a [u8]);

impl<'a> FromSql<'a> for Stored<'a> {
    fn from_sql(_: &Type, bytes: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(bytes))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn numbers_are_plain_digits() {
        for (wire, text) in [
            (&[0, 0, 0, 0][..], "0"),
            (&[1, 0, 0, 2, 42], "42"),
            (&[2, 0, 0x4000, 2, 1, 5000], "-1.5"),
            (&[1, 0xFFFF, 0, 3, 10], "0.001"),
            (&[1, 0xFFFE, 0, 8, 1], "0.00000001"),
            (&[1, 2, 0, 0, 12], "1200000000"),
            (&[3, 1, 0, 1, 12, 3456, 7000], "123456.7"),
            (&[0, 0, 0xC000, 0], "NaN"),
            (&[0, 0, 0xF000, 0], "-Infinity"),
        ] {
            let mut out = Vec::new();
            assert!(Wire::Numeric.canonical(&words(wire), &mut out));
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        for wrong in [&[][..], &[0, 0, 0], &[1, 0, 0, 0], &[1, 0, 0, 0, 10_000], &[0, 0, 7, 0], &[1, 0, 0, 0, 1, 2]] {
            assert!(!Wire::Numeric.canonical(&words(wrong), &mut Vec::new()), "{wrong:?}");
        }
        assert!(!Wire::Numeric.canonical(&[0; 9], &mut Vec::new()));
    }

    #[test]
    fn a_literal_holds_nothing_that_ends_it() {
        let literal = |wire: Wire, bytes: &[u8]| wire.literal(&Key::from_canonical(bytes));
        assert_eq!(literal(Wire::Int4, &(-7i64).to_le_bytes()), "'-7'::pg_catalog.int8");
        assert_eq!(literal(Wire::Bytea, &[0, 0xff]), "pg_catalog.decode('00ff', 'hex')");
        assert_eq!(
            literal(Wire::Text, b"a'); DROP TABLE t; --\\"),
            "pg_catalog.convert_from(pg_catalog.decode('6127293b2044524f50205441424c4520743b202d2d5c', 'hex'), 'UTF8')"
        );
        for wrong in [literal(Wire::Int8, b"'"), literal(Wire::Uuid, b"'")] {
            assert!(wrong.starts_with("NULL"), "{wrong}");
        }
    }

    #[test]
    fn long_numbers_are_as_exact_as_short_ones() {
        let mut wire = words(&[100, 99, 0, 0]);
        wire.extend((0..100u16).flat_map(|group| (1000 + group).to_be_bytes()));
        let mut out = Vec::new();
        assert!(Wire::Numeric.canonical(&wire, &mut out));
        let text: String = (0..100).map(|group| (1000 + group).to_string()).collect();
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn values_of_another_length_are_refused() {
        for (wire, len) in [(Wire::Int2, 2), (Wire::Int4, 4), (Wire::Int8, 8), (Wire::Uuid, 16)] {
            for other in 0..20 {
                assert_eq!(wire.canonical(&vec![0xff; other], &mut Vec::new()), other == len, "{wire:?} {other}");
            }
        }
        let mut out = Vec::new();
        assert!(Wire::Int4.canonical(&(-7i32).to_be_bytes(), &mut out) && Wire::Padded.canonical(b" a  ", &mut out));
        assert_eq!(out, [&(-7i64).to_le_bytes()[..], b" a"].concat());
    }
}
