//! One payload: what its words mean, for each kind, and the fields that say so.

use super::super::fields::{FieldReader, FieldWriter, Tag};
use super::super::frame::corrupt;
use super::foreign::AnyForm;
use super::tags::*;
use crate::arch::words::ReadWords;
use crate::bloom::layout::AnyLayout;
use crate::bloom::layout::sealed::Layout as _;
use crate::bloom::{BlockedLayout, ClassicLayout, CounterBits, Counting, PartitionedLayout, StableShape};
use crate::cuckoo::{CopyRule, CuckooShape};
use crate::error::Result;
use crate::fuse::FuseShape;
use crate::kind::Kind;
use crate::quotient::QuotientShape;
use crate::ribbon::RibbonShape;

/// The words of one payload and what they mean.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cells {
    Bits(AnyLayout),
    Counters(BlockedLayout, CounterBits),
    Stable(StableShape),
    Cuckoo(CuckooShape),
    Quotient(QuotientShape),
    Fuse(FuseShape),
    Ribbon(RibbonShape),
    Foreign(AnyForm),
}

impl Cells {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Bits(AnyLayout::Classic(_)) => Kind::Classic,
            Self::Bits(AnyLayout::Blocked(_)) => Kind::Blocked,
            Self::Bits(AnyLayout::Partitioned(_)) => Kind::Partitioned,
            Self::Counters(..) => Kind::Counting,
            Self::Stable(_) => Kind::Stable,
            Self::Cuckoo(_) => Kind::Cuckoo,
            Self::Quotient(_) => Kind::Quotient,
            Self::Fuse(_) => Kind::Fuse,
            Self::Ribbon(_) => Kind::Ribbon,
            Self::Foreign(form) => form.kind(),
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
            Self::Stable(shape) => shape.words(),
            Self::Cuckoo(shape) => shape.words(),
            Self::Quotient(shape) => shape.words(),
            Self::Fuse(shape) => shape.words(),
            Self::Ribbon(shape) => shape.words(),
            Self::Foreign(form) => form.words(),
        }
    }

    /// The bits of the last word that no key can set, and that are zero in every file.
    pub(crate) fn spare(&self) -> u64 {
        let bits = match self {
            Self::Bits(AnyLayout::Classic(layout)) => layout.bits(),
            Self::Bits(AnyLayout::Partitioned(layout)) => layout.bits(),
            Self::Bits(AnyLayout::Blocked(_)) | Self::Counters(..) => 0,
            Self::Stable(shape) => return shape.spare(),
            Self::Cuckoo(shape) => return shape.spare(),
            Self::Quotient(shape) => return shape.spare(),
            Self::Fuse(shape) => return shape.spare(),
            Self::Ribbon(shape) => return shape.spare(),
            Self::Foreign(form) => return form.spare(),
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

    /// Refuses words that no filter of this kind has, and into which a key could be inserted and not be found.
    pub(crate) fn check_words<W: ReadWords>(&self, part: u16, words: W) -> Result<()> {
        match self {
            Self::Quotient(shape) if !shape.is_sound(words) => {
                Err(corrupt(format!("PAYLOAD of part {part}: the marks of its slots contradict each other")))
            }
            // Any bits are a filter.
            _ => Ok(()),
        }
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
            Self::Stable(shape) => {
                fields.u32(LINES_PER_KEY, shape.lines_per_key()).u64(ROWS, shape.rows()).u64(ROUND, shape.round());
            }
            Self::Cuckoo(shape) => {
                fields.u64(BUCKETS, shape.buckets()).u32(FINGERPRINT_BITS, shape.fingerprint_bits());
                write_copies(fields, shape.copies());
            }
            Self::Quotient(shape) => {
                fields.u64(SLOTS, shape.slots()).u64(INTERVAL, shape.interval());
            }
            Self::Fuse(shape) => {
                fields.u32(FINGERPRINT_BITS, shape.fingerprint_bits()).u64(SEGMENT_LENGTH, shape.segment_length());
                fields.u64(SEGMENT_COUNT, shape.segment_count()).u64(SHARDS, shape.shards()).u64(SEED, shape.seed());
            }
            Self::Ribbon(shape) => {
                let columns: Vec<u8> = shape.columns().iter().flat_map(|columns| columns.to_le_bytes()).collect();
                fields.u64(SEED, shape.seed()).u32(RESULT_BITS, shape.result_bits()).bytes(COLUMNS, &columns);
            }
            Self::Foreign(form) => {
                fields.bytes(FOREIGN_HEADER, &form.header());
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
            Kind::Stable => &[ROWS, LINES_PER_KEY, ROUND],
            Kind::Cuckoo => &[BUCKETS, FINGERPRINT_BITS, COPIES],
            Kind::Quotient => &[SLOTS, INTERVAL],
            Kind::Fuse => &[FINGERPRINT_BITS, SEGMENT_LENGTH, SEGMENT_COUNT, SHARDS, SEED],
            Kind::Ribbon => &[RESULT_BITS, SEED, COLUMNS],
            kind if kind.is_foreign() => &[FOREIGN_HEADER],
            _ => &[],
        }
    }

    /// The rate that the cells keep with so many keys.
    pub(crate) fn kept(&self, items: u64) -> f64 {
        match self {
            Self::Bits(AnyLayout::Classic(layout)) => layout.expected_rate(items),
            Self::Bits(AnyLayout::Blocked(layout)) | Self::Counters(layout, _) => layout.expected_rate(items),
            Self::Bits(AnyLayout::Partitioned(layout)) => layout.expected_rate(items),
            Self::Stable(shape) => shape.expected_rate(items),
            Self::Cuckoo(shape) => shape.expected_rate(items),
            Self::Quotient(shape) => shape.expected_rate(items),
            Self::Fuse(shape) => shape.expected_rate(items),
            Self::Ribbon(shape) => shape.expected_rate(items),
            Self::Foreign(form) => form.expected_rate(items),
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
            Kind::Stable => {
                Self::Stable(StableShape::new(fields.u64(ROWS)?, fields.u32(LINES_PER_KEY)?, fields.u64(ROUND)?)?)
            }
            Kind::Cuckoo => {
                let shape = CuckooShape::new(fields.u64(BUCKETS)?, fields.u32(FINGERPRINT_BITS)?)?;
                Self::Cuckoo(shape.with_copies(read_copies(fields)?))
            }
            Kind::Quotient => Self::Quotient(QuotientShape::new(fields.u64(SLOTS)?, fields.u64(INTERVAL)?)?),
            Kind::Fuse => Self::Fuse(FuseShape::new(
                fields.u32(FINGERPRINT_BITS)?,
                fields.u64(SEGMENT_LENGTH)?,
                fields.u64(SEGMENT_COUNT)?,
                fields.u64(SHARDS)?,
                fields.u64(SEED)?,
            )?),
            Kind::Ribbon => {
                let (columns, rest) = fields.bytes(COLUMNS)?.as_chunks::<8>();
                if !rest.is_empty() || columns.len() > RibbonShape::MAX_LAYERS {
                    return Err(corrupt(format!(
                        "SHAPE: field 97 (columns) has {} bytes; up to {} numbers of 8 expected",
                        columns.len() * 8 + rest.len(),
                        RibbonShape::MAX_LAYERS
                    )));
                }
                let columns: Vec<u64> = columns.iter().map(|columns| u64::from_le_bytes(*columns)).collect();
                Self::Ribbon(RibbonShape::new(fields.u32(RESULT_BITS)?, fields.u64(SEED)?, &columns)?)
            }
            kind if kind.is_foreign() => Self::Foreign(AnyForm::read(kind, fields.bytes(FOREIGN_HEADER)?)?),
            other => return Err(corrupt(format!("SHAPE: a {other} filter where a single part is expected"))),
        })
    }
}

/// Adds the rule for copies, where it is not the one that files had before there were two.
pub(super) fn write_copies(fields: &mut FieldWriter, rule: CopyRule) {
    if rule == CopyRule::Exact {
        fields.u16(COPIES, rule.max_copies() as u16);
    }
}

/// The rule for copies: without the field they stick.
pub(super) fn read_copies(fields: &FieldReader<'_>) -> Result<CopyRule> {
    match fields.optional(COPIES, FieldReader::u16)? {
        None => Ok(CopyRule::Stick),
        Some(exact) if u64::from(exact) == CopyRule::Exact.max_copies() => Ok(CopyRule::Exact),
        Some(other) => {
            Err(corrupt(format!("SHAPE: field 66 says {other} exact copies; 8, or no such field, expected")))
        }
    }
}
