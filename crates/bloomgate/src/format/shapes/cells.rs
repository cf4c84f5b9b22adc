//! One payload: what its words mean, for each kind, and the fields that say so.

use super::super::fields::{FieldReader, FieldWriter, Tag};
use super::super::frame::corrupt;
use super::tags::*;
use crate::bloom::layout::AnyLayout;
use crate::bloom::layout::sealed::Layout as _;
use crate::bloom::{BlockedLayout, ClassicLayout, CounterBits, Counting, PartitionedLayout};
use crate::error::Result;
use crate::kind::Kind;

/// The words of one payload and what they mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cells {
    Bits(AnyLayout),
    Counters(BlockedLayout, CounterBits),
}

impl Cells {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Bits(AnyLayout::Classic(_)) => Kind::Classic,
            Self::Bits(AnyLayout::Blocked(_)) => Kind::Blocked,
            Self::Bits(AnyLayout::Partitioned(_)) => Kind::Partitioned,
            Self::Counters(..) => Kind::Counting,
        }
    }

    /// The words of the payload: at most 2^57.
    pub(crate) fn words(&self) -> u64 {
        match self {
            Self::Bits(AnyLayout::Classic(layout)) => layout.words(),
            Self::Bits(AnyLayout::Blocked(layout)) => layout.words(),
            Self::Bits(AnyLayout::Partitioned(layout)) => layout.words(),
            // Lines are at most 2^50, so this does not overflow.
            Self::Counters(layout, width) => Counting::<crate::Owned>::words_of(layout, *width).unwrap_or(u64::MAX / 8),
        }
    }

    /// The bits of the last word that no key can set, and that are zero in every file.
    pub(crate) fn spare(&self) -> u64 {
        let bits = match self {
            Self::Bits(AnyLayout::Classic(layout)) => layout.bits(),
            Self::Bits(AnyLayout::Partitioned(layout)) => layout.bits(),
            Self::Bits(AnyLayout::Blocked(_)) | Self::Counters(..) => 0,
        };
        if bits % 64 == 0 { 0 } else { u64::MAX << (bits % 64) }
    }

    /// Refuses a last word with bits past the end.
    pub(crate) fn check_last_word(&self, part: u16, word: u64) -> Result<()> {
        if word & self.spare() == 0 {
            return Ok(());
        }
        Err(corrupt(format!(
            "PAYLOAD of part {part}: the last word is {word:#018x}, with bits after the end of the filter; zeros expected"
        )))
    }

    /// Adds the dimensions.
    pub(super) fn write(&self, fields: &mut FieldWriter) {
        let line_fields = |fields: &mut FieldWriter, layout: &BlockedLayout| {
            fields.u64(LINES, layout.lines()).u32(LINES_PER_KEY, layout.lines_per_key());
            fields.u16(PAIRED, u16::from(layout.paired()));
        };
        match self {
            Self::Bits(AnyLayout::Classic(layout)) => {
                fields.u64(BITS, layout.bits()).u32(HASHES, layout.hashes());
            }
            Self::Bits(AnyLayout::Blocked(layout)) => line_fields(fields, layout),
            Self::Bits(AnyLayout::Partitioned(layout)) => {
                fields.u32(HASHES, layout.hashes()).u64(SLICE_BITS, layout.slice_bits());
            }
            Self::Counters(layout, width) => {
                line_fields(fields, layout);
                fields.u16(COUNTER_BITS, width.bits() as u16);
            }
        }
    }

    /// The fields that a shape of this kind has beyond the promise.
    pub(super) fn tags(kind: Kind) -> &'static [Tag] {
        match kind {
            Kind::Classic => &[BITS, HASHES],
            Kind::Blocked => &[LINES, LINES_PER_KEY, PAIRED],
            Kind::Partitioned => &[HASHES, SLICE_BITS],
            Kind::Counting => &[LINES, LINES_PER_KEY, PAIRED, COUNTER_BITS],
            _ => &[],
        }
    }

    /// The rate that the cells keep with so many keys.
    pub(super) fn kept(&self, items: u64) -> f64 {
        match self {
            Self::Bits(AnyLayout::Classic(layout)) => layout.expected_rate(items),
            Self::Bits(AnyLayout::Blocked(layout)) | Self::Counters(layout, _) => layout.expected_rate(items),
            Self::Bits(AnyLayout::Partitioned(layout)) => layout.expected_rate(items),
        }
    }

    /// The cells of this kind with these dimensions, if a builder could have made them.
    pub(super) fn read(kind: Kind, fields: &FieldReader<'_>) -> Result<Self> {
        let lines = || {
            let paired = match fields.u16(PAIRED)? {
                0 => false,
                1 => true,
                other => return Err(corrupt(format!("SHAPE: field 20 (paired) is {other}, 0 or 1 expected"))),
            };
            BlockedLayout::new(fields.u64(LINES)?, fields.u32(LINES_PER_KEY)?, paired)
        };
        Ok(match kind {
            Kind::Classic => {
                Self::Bits(AnyLayout::Classic(ClassicLayout::new(fields.u64(BITS)?, fields.u32(HASHES)?)?))
            }
            Kind::Blocked => Self::Bits(AnyLayout::Blocked(lines()?)),
            Kind::Partitioned => Self::Bits(AnyLayout::Partitioned(PartitionedLayout::new(
                fields.u64(SLICE_BITS)?,
                fields.u32(HASHES)?,
            )?)),
            Kind::Counting => {
                let layout = lines()?;
                if !layout.paired() {
                    return Err(corrupt("SHAPE: field 20 (paired) is 0, but counters are always paired".into()));
                }
                let bits = fields.u16(COUNTER_BITS)?;
                let width = CounterBits::from_bits(u32::from(bits)).ok_or_else(|| {
                    corrupt(format!("SHAPE: field 22 says counters of {bits} bits; 4, 8 or 16 expected"))
                })?;
                Self::Counters(layout, width)
            }
            other => return Err(corrupt(format!("SHAPE: a {other} filter inside a part"))),
        })
    }
}
