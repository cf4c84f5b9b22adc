//! The SHAPE and COUNTS of every kind: a filter as numbers, and numbers as a filter that could have been built.
//!
//! A file holds one *piece* (kind, dimensions, promise, count, and a payload of words), or a chain of them under a
//! growth rule. What is read passes the checks that the builders make, so that no file brings a shape to life that no
//! program could make: no k of 0, no bits without words, no chain whose stages belong to another.

use super::fields::{FieldReader, FieldWriter, Tag};
use super::frame::corrupt;
use super::read::Head;
use super::sections::SectionType;
use super::write::FrameWriter;
use crate::bloom::layout::AnyLayout;
use crate::bloom::layout::sealed::Layout as _;
use crate::bloom::scalable::{Growth, MAX_STAGES, check_growth, check_shares};
use crate::bloom::{BlockedLayout, ClassicLayout, CounterBits, Counting, PartitionedLayout};
use crate::error::{Error, ErrorKind, Result};
use crate::kind::Kind;
use crate::math::scalable::{Tightening, stage_capacity, stage_rate};
use crate::promise::{MAX_ITEMS, Promise, WhenFull, check_rate};

// Every shape.
const KIND: Tag = Tag::critical(1);
const CAPACITY: Tag = Tag::critical(2);
const RATE: Tag = Tag::critical(3);
const WHEN_FULL: Tag = Tag::critical(4);
// The dimensions of one piece.
const BITS: Tag = Tag::critical(16);
const HASHES: Tag = Tag::critical(17);
const LINES: Tag = Tag::critical(18);
const LINES_PER_KEY: Tag = Tag::critical(19);
const PAIRED: Tag = Tag::critical(20);
const SLICE_BITS: Tag = Tag::critical(21);
const COUNTER_BITS: Tag = Tag::critical(22);
// A chain.
const STAGE_KIND: Tag = Tag::critical(32);
const STAGES: Tag = Tag::critical(33);
const GROWTH: Tag = Tag::critical(34);
const TIGHTENING: Tag = Tag::critical(35);
const TIGHTENING_STAGES: Tag = Tag::critical(36);
const TIGHTENING_RISE: Tag = Tag::critical(37);
const TIGHTENING_THEN: Tag = Tag::critical(38);
// COUNTS.
const LEN: Tag = Tag::critical(1);

/// The most keys that a count may speak of: years of inserting, and 64 stages of it still add up in 64 bits.
const MAX_LEN: u64 = 1 << 56;

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

    fn write(&self, fields: &mut FieldWriter) {
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

    fn read(kind: Kind, fields: &FieldReader<'_>) -> Result<Self> {
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

/// One payload with everything that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Piece {
    pub(crate) cells: Cells,
    pub(crate) promise: Promise,
    pub(crate) len: u64,
}

/// The rule that the pieces of a chain follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Chain {
    pub(crate) growth: Growth,
    pub(crate) promise: Promise,
}

/// A filter as numbers: all of a file but its contract and its words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) chain: Option<Chain>,
    pub(crate) pieces: Vec<Piece>,
}

impl Plan {
    pub(crate) fn kind(&self) -> Kind {
        match (&self.chain, self.pieces.first()) {
            (None, Some(piece)) => piece.cells.kind(),
            _ => Kind::Scalable,
        }
    }

    /// What was asked for of the filter as a whole.
    pub(crate) fn promise(&self) -> Result<Promise> {
        let promise = self.chain.map(|chain| chain.promise).or(self.pieces.first().map(|piece| piece.promise));
        promise.ok_or_else(|| corrupt("SHAPE: a chain without stages".into()))
    }

    /// The pieces with their part numbers: 0 for one alone, from 1 in a chain.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u16, &Piece)> {
        let first = u16::from(self.chain.is_some());
        (first..).zip(&self.pieces)
    }

    /// Adds the SHAPE and COUNTS of every part.
    pub(crate) fn write(&self, file: &mut FrameWriter<'_>) -> Result<()> {
        if let Some(chain) = &self.chain {
            let mut fields = promised(Kind::Scalable, &chain.promise);
            fields.u16(STAGE_KIND, chain.growth.stages.number()).u16(STAGES, self.pieces.len() as u16);
            fields.f64(GROWTH, chain.growth.factor);
            match chain.growth.tightening {
                Tightening::Plateau { stages, then } => {
                    fields.u16(TIGHTENING, 1).u32(TIGHTENING_STAGES, stages).f64(TIGHTENING_THEN, then)
                }
                Tightening::Ramp { stages, rise, then } => fields
                    .u16(TIGHTENING, 2)
                    .u32(TIGHTENING_STAGES, stages)
                    .f64(TIGHTENING_RISE, rise)
                    .f64(TIGHTENING_THEN, then),
                Tightening::Geometric(ratio) => fields.u16(TIGHTENING, 3).f64(TIGHTENING_THEN, ratio),
            };
            file.section(SectionType::SHAPE, 0, fields.finish()?);
        }
        for (part, piece) in self.parts() {
            let mut fields = promised(piece.cells.kind(), &piece.promise);
            piece.cells.write(&mut fields);
            file.section(SectionType::SHAPE, part, fields.finish()?);
            file.section(SectionType::COUNTS, part, counts_body(piece.len)?);
        }
        Ok(())
    }

    /// Reads and checks the shapes and counts of a file, and that its payloads are those of the shapes.
    pub(crate) fn read(head: &Head) -> Result<Self> {
        let plan = match shape_kind(head, 0)? {
            Kind::Scalable => read_chain(head)?,
            kind => Self { chain: None, pieces: vec![read_piece(head, 0, kind)?] },
        };
        for section in head.frame().sections() {
            let expected = match section.kind {
                SectionType::CONTRACT | SectionType::SENTINELS => section.part == 0,
                SectionType::SHAPE => section.part == 0 || plan.parts().any(|(part, _)| part == section.part),
                SectionType::COUNTS => plan.parts().any(|(part, _)| part == section.part),
                // Payloads and their sums are compared with the pieces below, and private sections are not ours.
                _ => true,
            };
            if !expected {
                return Err(corrupt(format!("{section}: the shape of the file speaks of no such section")));
            }
        }
        head.expect_payloads(plan.parts().map(|(part, piece)| (part, piece.cells.words() * 8)))?;
        for (part, piece) in plan.parts() {
            check_kept(part, &piece.cells, &piece.promise)?;
        }
        Ok(plan)
    }
}

/// The body of the COUNTS of one part.
pub(crate) fn counts_body(len: u64) -> Result<Vec<u8>> {
    FieldWriter::new().u64(LEN, len).finish()
}

/// The fields that every shape begins with.
fn promised(kind: Kind, promise: &Promise) -> FieldWriter {
    let when_full = match promise.when_full {
        WhenFull::GoOn => 1,
        WhenFull::Refuse => 2,
        WhenFull::Grow => 3,
    };
    let mut fields = FieldWriter::new();
    fields.u16(KIND, kind.number()).u64(CAPACITY, promise.capacity).f64(RATE, promise.rate).u16(WHEN_FULL, when_full);
    fields
}

/// The kind of a part, before anything else of its shape: an unknown kind has unknown fields.
fn shape_kind(head: &Head, part: u16) -> Result<Kind> {
    let body = head.body(SectionType::SHAPE, part)?;
    let number = FieldReader::first_u16(SectionType::SHAPE, body, KIND)?;
    Kind::from_number(number).ok_or_else(|| {
        let known: Vec<String> = Kind::ALL.iter().map(|kind| format!("{} {kind}", kind.number())).collect();
        let message = format!(
            "SHAPE of part {part}: kind number {number} is not known to this reader ({}): update Bloomgate",
            known.join(", ")
        );
        Error::new(ErrorKind::Version, message)
    })
}

/// The fields of a shape of this kind; others that are critical are refused.
fn shape_fields(head: &Head, part: u16, kind: Kind) -> Result<FieldReader<'_>> {
    let own: &[Tag] = match kind {
        Kind::Classic => &[BITS, HASHES],
        Kind::Blocked => &[LINES, LINES_PER_KEY, PAIRED],
        Kind::Partitioned => &[HASHES, SLICE_BITS],
        Kind::Counting => &[LINES, LINES_PER_KEY, PAIRED, COUNTER_BITS],
        _ => &[STAGE_KIND, STAGES, GROWTH, TIGHTENING, TIGHTENING_STAGES, TIGHTENING_RISE, TIGHTENING_THEN],
    };
    let known = [&[KIND, CAPACITY, RATE, WHEN_FULL], own].concat();
    FieldReader::parse(SectionType::SHAPE, head.body(SectionType::SHAPE, part)?, &known)
}

fn read_promise(kind: Kind, fields: &FieldReader<'_>) -> Result<Promise> {
    let capacity = fields.u64(CAPACITY)?;
    if capacity == 0 {
        return Err(corrupt("SHAPE: field 2 says a capacity of 0 keys; at least 1 expected".into()));
    }
    // The rate of an explicit shape is what comes out: from 0 (to a double) to 1.
    let rate = fields.f64(RATE)?;
    if !(0.0..=1.0).contains(&rate) {
        return Err(corrupt(format!("SHAPE: field 3 says a rate of {rate}; 0 to 1 expected")));
    }
    let when_full = match fields.u16(WHEN_FULL)? {
        1 => WhenFull::GoOn,
        2 => WhenFull::Refuse,
        3 if kind == Kind::Scalable => WhenFull::Grow,
        other => {
            return Err(corrupt(format!(
                "SHAPE: field 4 (when full) is {other}; 1 go on, 2 refuse{} expected",
                if kind == Kind::Scalable { " or 3 grow" } else { "" }
            )));
        }
    };
    Ok(Promise { capacity, rate, when_full })
}

fn read_piece(head: &Head, part: u16, kind: Kind) -> Result<Piece> {
    let fields = shape_fields(head, part, kind)?;
    let cells = Cells::read(kind, &fields).map_err(|refusal| outside(part, refusal))?;
    let promise = read_promise(kind, &fields)?;
    let counts = FieldReader::parse(SectionType::COUNTS, head.body(SectionType::COUNTS, part)?, &[LEN])?;
    let len = counts.u64(LEN)?;
    if len > MAX_LEN {
        return Err(corrupt(format!("COUNTS of part {part}: {len} keys; at most 2^56 expected")));
    }
    Ok(Piece { cells, promise, len })
}

/// A shape that cannot keep what the file promises of it: no builder makes one. The slack is for another machine's
/// arithmetic.
fn check_kept(part: u16, cells: &Cells, promise: &Promise) -> Result<()> {
    let kept = match cells {
        Cells::Bits(AnyLayout::Classic(layout)) => layout.expected_rate(promise.capacity),
        Cells::Bits(AnyLayout::Blocked(layout)) | Cells::Counters(layout, _) => layout.expected_rate(promise.capacity),
        Cells::Bits(AnyLayout::Partitioned(layout)) => layout.expected_rate(promise.capacity),
    };
    if kept <= promise.rate * 1.001 {
        return Ok(());
    }
    Err(corrupt(format!(
        "SHAPE of part {part}: promises a rate of {:e} for {} keys, and its bits keep {kept:e}",
        promise.rate, promise.capacity
    )))
}

fn read_chain(head: &Head) -> Result<Plan> {
    let fields = shape_fields(head, 0, Kind::Scalable)?;
    let promise = read_promise(Kind::Scalable, &fields)?;
    let number = fields.u16(STAGE_KIND)?;
    let kind = Kind::from_number(number)
        .filter(|kind| matches!(kind, Kind::Classic | Kind::Blocked | Kind::Partitioned))
        .ok_or_else(|| {
            corrupt(format!(
                "SHAPE: field 32 says stages of kind {number}; 1 classic, 2 blocked or 3 partitioned expected"
            ))
        })?;
    let tightening = match fields.u16(TIGHTENING)? {
        1 => Tightening::Plateau { stages: fields.u32(TIGHTENING_STAGES)?, then: fields.f64(TIGHTENING_THEN)? },
        2 => Tightening::Ramp {
            stages: fields.u32(TIGHTENING_STAGES)?,
            rise: fields.f64(TIGHTENING_RISE)?,
            then: fields.f64(TIGHTENING_THEN)?,
        },
        3 => Tightening::Geometric(fields.f64(TIGHTENING_THEN)?),
        other => {
            return Err(corrupt(format!(
                "SHAPE: field 35 (tightening) is {other}; 1 plateau, 2 ramp or 3 geometric expected"
            )));
        }
    };
    let growth = Growth { stages: kind, first: promise.capacity, factor: fields.f64(GROWTH)?, tightening };
    let checked = check_growth(growth.factor, tightening)
        .and_then(|()| check_rate(promise.rate))
        .and_then(|_| check_rate(stage_rate(promise.rate, tightening, 0)))
        .and_then(|_| check_shares(promise.rate, tightening));
    checked.map_err(|refusal| outside(0, refusal))?;
    let stages = fields.u16(STAGES)?;
    if stages == 0 || usize::from(stages) > MAX_STAGES || promise.capacity > MAX_ITEMS {
        return Err(corrupt(format!(
            "SHAPE: a chain of {stages} stages, the first for {} keys; 1 to {MAX_STAGES} stages, the first for at most \
             2^40, expected",
            promise.capacity
        )));
    }
    let chain = Chain { growth, promise };
    let mut pieces = Vec::with_capacity(usize::from(stages));
    for part in 1..=stages {
        match shape_kind(head, part)? {
            found if found == kind => pieces.push(read_piece(head, part, kind)?),
            found => {
                return Err(corrupt(format!(
                    "SHAPE of part {part}: a {found} stage in a chain of {kind} stages (field 32 of part 0)"
                )));
            }
        }
        check_stage(&chain, part, &pieces[usize::from(part) - 1].promise)?;
    }
    Ok(Plan { chain: Some(chain), pieces })
}

/// Whether a stage was made by the rule of its chain. Powers of reals differ in their last digits from machine to
/// machine, so a millionth is let pass.
fn check_stage(chain: &Chain, part: u16, stage: &Promise) -> Result<()> {
    let at = u32::from(part) - 1;
    let rate = stage_rate(chain.promise.rate, chain.growth.tightening, at);
    let near = |found: f64, rule: f64, slack: f64| (found - rule).abs() <= rule * 1e-6 + slack;
    let capacity = stage_capacity(chain.growth.first, chain.growth.factor, at).filter(|&keys| keys <= MAX_ITEMS);
    let follows = capacity.is_some_and(|capacity| near(stage.capacity as f64, capacity as f64, 1.0))
        && near(stage.rate, rate, 0.0)
        && stage.when_full == WhenFull::GoOn;
    if follows {
        return Ok(());
    }
    Err(corrupt(format!(
        "SHAPE of part {part}: a stage for {} keys at a rate of {}, but the chain's rule (part 0) makes it {} keys at {rate}",
        stage.capacity,
        stage.rate,
        capacity.map_or("too many".into(), |keys| keys.to_string())
    )))
}

/// A shape that the builders would refuse.
fn outside(part: u16, refusal: Error) -> Error {
    match refusal.kind() {
        ErrorKind::InvalidParameter => corrupt(format!("SHAPE of part {part}: {refusal}")),
        _ => refusal,
    }
}
