//! Tagged fields: the body of contract, shape and counts, in which later versions can say more.
//!
//! ```text
//!   ┌────────────┬────────────┬──────────────┐
//!   │ tag u16    │ length u16 │ value        │  repeated, tag numbers strictly ascending
//!   └────────────┴────────────┴──────────────┘
//!     bit 15: critical, a reader that does not know the number must refuse
//! ```

use super::frame::corrupt;
use super::sections::SectionType;
use crate::error::{Error, ErrorKind, Result};

/// The number of a field (1 to 32,767), and whether a reader must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    number: u16,
    critical: bool,
}

impl Tag {
    const CRITICAL: u16 = 0x8000;

    /// A field without which the section would be misread.
    #[must_use]
    pub const fn critical(number: u16) -> Self {
        Self { number: number & !Self::CRITICAL, critical: true }
    }

    /// A field that a reader may leave unread.
    #[must_use]
    pub const fn optional(number: u16) -> Self {
        Self { number: number & !Self::CRITICAL, critical: false }
    }

    fn stored(self) -> u16 {
        self.number | if self.critical { Self::CRITICAL } else { 0 }
    }

    fn from_stored(stored: u16) -> Self {
        Self { number: stored & !Self::CRITICAL, critical: stored & Self::CRITICAL != 0 }
    }
}

/// Writes fields in ascending order; [`finish`](Self::finish) reports what was wrong on the way.
#[derive(Debug, Default)]
pub struct FieldWriter {
    body: Vec<u8>,
    last: u16,
    wrong: Option<Error>,
}

impl FieldWriter {
    /// An empty body.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A field of any bytes, 65,535 at most.
    pub fn bytes(&mut self, tag: Tag, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len());
        match length {
            Ok(length) if tag.number > self.last => {
                self.body.extend_from_slice(&tag.stored().to_le_bytes());
                self.body.extend_from_slice(&length.to_le_bytes());
                self.body.extend_from_slice(value);
                self.last = tag.number;
            }
            _ => {
                let message = format!(
                    "field {} of {} bytes after field {}: numbers ascend from 1, values have at most 65535 bytes",
                    tag.number,
                    value.len(),
                    self.last
                );
                self.wrong.get_or_insert_with(|| Error::new(ErrorKind::InvalidParameter, message));
            }
        }
        self
    }

    /// A 16-bit number.
    pub fn u16(&mut self, tag: Tag, value: u16) -> &mut Self {
        self.bytes(tag, &value.to_le_bytes())
    }

    /// A 32-bit number.
    pub fn u32(&mut self, tag: Tag, value: u32) -> &mut Self {
        self.bytes(tag, &value.to_le_bytes())
    }

    /// A 64-bit number.
    pub fn u64(&mut self, tag: Tag, value: u64) -> &mut Self {
        self.bytes(tag, &value.to_le_bytes())
    }

    /// A finite real number.
    pub fn f64(&mut self, tag: Tag, value: f64) -> &mut Self {
        if !value.is_finite() {
            let message = format!("field {} is {value}: finite numbers alone can be written", tag.number);
            self.wrong.get_or_insert_with(|| Error::new(ErrorKind::InvalidParameter, message));
        }
        self.bytes(tag, &value.to_le_bytes())
    }

    /// The body, or the first thing that was wrong.
    pub fn finish(&mut self) -> Result<Vec<u8>> {
        match self.wrong.take() {
            Some(wrong) => Err(wrong),
            None => Ok(std::mem::take(&mut self.body)),
        }
    }
}

/// Reads fields by tag from a body whose structure was checked once, without copying it.
#[derive(Debug, Clone, Copy)]
pub struct FieldReader<'a> {
    section: SectionType,
    body: &'a [u8],
}

impl<'a> FieldReader<'a> {
    /// Checks a body: whole fields, ascending, and no critical one that is not in `known`.
    ///
    /// `section` is named in the errors. Fields that are neither known nor critical are skipped.
    pub fn parse(section: SectionType, body: &'a [u8], known: &[Tag]) -> Result<Self> {
        let mut last = 0;
        let mut at = 0;
        while at < body.len() {
            let Some((tag, value)) = field_at(body, at) else {
                return Err(corrupt(format!("{section}, field at byte {at}: goes past the end at {}", body.len())));
            };
            if tag.number == last {
                return Err(corrupt(format!("{section}, byte {at}: field {last} is there twice")));
            }
            if tag.number < last {
                return Err(corrupt(format!("{section}, byte {at}: field {} after field {last}", tag.number)));
            }
            match known.iter().find(|k| k.number == tag.number) {
                Some(known) if *known != tag => {
                    return Err(corrupt(format!(
                        "{section}, byte {at}: field {} has its critical bit {}, {} expected",
                        tag.number,
                        u8::from(tag.critical),
                        u8::from(known.critical)
                    )));
                }
                None if tag.critical => {
                    let message = format!(
                        "{section}, byte {at}: field {} is critical and not known to this reader: update Bloomgate",
                        tag.number
                    );
                    return Err(Error::new(ErrorKind::Version, message));
                }
                _ => {}
            }
            last = tag.number;
            at += 4 + value.len();
        }
        Ok(Self { section, body })
    }

    /// The 16-bit number of the first field of a body, before the others are looked at.
    pub(crate) fn first_u16(section: SectionType, body: &[u8], tag: Tag) -> Result<u16> {
        match field_at(body, 0) {
            Some((found, value)) if found == tag && value.len() == 2 => Ok(u16::from_le_bytes([value[0], value[1]])),
            _ => Err(corrupt(format!("{section}: does not begin with field {}, a number of 2 bytes", tag.number))),
        }
    }

    /// The value of a field that may be missing.
    #[must_use]
    pub fn get(&self, tag: Tag) -> Option<&'a [u8]> {
        let mut at = 0;
        while let Some((found, value)) = field_at(self.body, at) {
            if found.number == tag.number {
                return Some(value);
            }
            at += 4 + value.len();
        }
        None
    }

    /// The bytes of a field that must be there.
    pub fn bytes(&self, tag: Tag) -> Result<&'a [u8]> {
        self.get(tag).ok_or_else(|| corrupt(format!("{}: field {} is missing", self.section, tag.number)))
    }

    /// A 16-bit number that must be there.
    pub fn u16(&self, tag: Tag) -> Result<u16> {
        self.array(tag).map(u16::from_le_bytes)
    }

    /// A 32-bit number that must be there.
    pub fn u32(&self, tag: Tag) -> Result<u32> {
        self.array(tag).map(u32::from_le_bytes)
    }

    /// A 64-bit number that must be there.
    pub fn u64(&self, tag: Tag) -> Result<u64> {
        self.array(tag).map(u64::from_le_bytes)
    }

    /// A finite real number that must be there.
    pub fn f64(&self, tag: Tag) -> Result<f64> {
        let value = self.array(tag).map(f64::from_le_bytes)?;
        if value.is_finite() {
            return Ok(value);
        }
        Err(corrupt(format!("{}: field {} is {value}, a finite number expected", self.section, tag.number)))
    }

    /// A field of a fixed length that must be there.
    pub fn array<const N: usize>(&self, tag: Tag) -> Result<[u8; N]> {
        let value = self.bytes(tag)?;
        <[u8; N]>::try_from(value).map_err(|_| {
            corrupt(format!("{}: field {} has {} bytes, {N} expected", self.section, tag.number, value.len()))
        })
    }

    /// Reads a field with `read` if it is there: `fields.optional(TAG, FieldReader::u64)`.
    pub fn optional<T>(&self, tag: Tag, read: impl FnOnce(&Self, Tag) -> Result<T>) -> Result<Option<T>> {
        self.get(tag).map(|_| read(self, tag)).transpose()
    }
}

fn field_at(body: &[u8], at: usize) -> Option<(Tag, &[u8])> {
    let (header, rest) = body.get(at..)?.split_first_chunk::<4>()?;
    let [t0, t1, l0, l1] = *header;
    let value = rest.get(..usize::from(u16::from_le_bytes([l0, l1])))?;
    Some((Tag::from_stored(u16::from_le_bytes([t0, t1])), value))
}
