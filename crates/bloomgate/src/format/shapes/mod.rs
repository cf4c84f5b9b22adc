//! The SHAPE and COUNTS of every kind: a filter as numbers, and numbers as a filter that could have been built.
//!
//! A file holds one *piece* (kind, dimensions, promise, count, and a payload of words), or a chain of them under a
//! growth rule. What is read passes the checks that the builders make, so that no file brings a shape to life that no
//! program could make: no k of 0, no bits without words, no chain whose stages belong to another.

mod cells;
mod chains;
mod foreign;
mod tags;

pub(crate) use cells::Cells;
pub(crate) use chains::{Chain, Rule};
pub(crate) use foreign::AForm;

use super::delta::refuse_as_filter;
use super::fields::{FieldReader, FieldWriter, Tag};
use super::frame::corrupt;
use super::read::Head;
use super::sections::SectionType;
use super::write::FrameWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::kind::Kind;
use crate::promise::{Promise, WhenFull};
use tags::{CAPACITY, KIND, LEN, RATE, WHEN_FULL};

/// The most keys that a count may speak of: years of inserting, and 64 stages of it still add up in 64 bits.
const MAX_LEN: u64 = 1 << 56;

/// One payload with everything that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) cells: Cells,
    pub(crate) promise: Promise,
    pub(crate) len: u64,
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
            (Some(chain), _) => chain.rule.kind(),
            (None, None) => Kind::Scalable,
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
            let mut fields = promised(chain.rule.kind(), &chain.promise);
            chain.rule.write(&mut fields, self.pieces.len() as u16);
            file.section(SectionType::SHAPE, 0, fields.finish()?);
            if let Some(mut counts) = chain.rule.counts() {
                file.section(SectionType::COUNTS, 0, counts.finish()?);
            }
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
        refuse_as_filter(head)?;
        let plan = match shape_kind(head, 0)? {
            kind if Rule::is_of(kind) => chains::read(head, kind)?,
            kind => Self { chain: None, pieces: vec![read_piece(head, 0, kind)?] },
        };
        for section in head.frame().sections() {
            let expected = match section.kind {
                SectionType::CONTRACT | SectionType::SENTINELS => section.part == 0,
                SectionType::SHAPE => section.part == 0 || plan.parts().any(|(part, _)| part == section.part),
                SectionType::COUNTS => {
                    let ring = plan.chain.is_some_and(|chain| chain.rule.counts().is_some());
                    plan.parts().any(|(part, _)| part == section.part) || (ring && section.part == 0)
                }
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
    let own: &[Tag] = if Rule::is_of(kind) { Rule::tags(kind) } else { Cells::tags(kind) };
    let known = [&[KIND, CAPACITY, RATE, WHEN_FULL], own].concat();
    FieldReader::parse(SectionType::SHAPE, head.body(SectionType::SHAPE, part)?, &known)
}

fn read_promise(kind: Kind, fields: &FieldReader<'_>) -> Result<Promise> {
    let capacity = fields.u64(CAPACITY)?;
    // A set of no keys can be built once, and is then what it is.
    if capacity == 0 && kind.takes_inserts() {
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
        3 if kind.grows() => WhenFull::Grow,
        other => {
            return Err(corrupt(format!(
                "SHAPE: field 4 (when full) is {other}; 1 go on, 2 refuse{} expected",
                if kind.grows() { " or 3 grow" } else { "" }
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
    // What another system promised of its form is not ours to judge.
    if cells.kind().is_foreign() {
        return Ok(());
    }
    let kept = cells.kept(promise.capacity);
    if kept <= promise.rate * 1.001 {
        return Ok(());
    }
    Err(corrupt(format!(
        "SHAPE of part {part}: promises a rate of {:e} for {} keys, and its bits keep {kept:e}",
        promise.rate, promise.capacity
    )))
}

/// A shape that the builders would refuse.
fn outside(part: u16, refusal: Error) -> Error {
    match refusal.kind() {
        ErrorKind::InvalidParameter => corrupt(format!("SHAPE of part {part}: {refusal}")),
        _ => refusal,
    }
}
