//! Several payloads under one rule: which stages a chain has, and whether the stages that a file has follow from it.

use super::super::fields::{FieldReader, FieldWriter, Tag};
use super::super::frame::corrupt;
use super::super::read::Head;
use super::tags::*;
use super::{Plan, outside, read_piece, read_promise, shape_fields, shape_kind};
use crate::bloom::scalable::{Growth, MAX_STAGES, check_growth, check_shares};
use crate::error::Result;
use crate::kind::Kind;
use crate::math::scalable::{Tightening, stage_capacity, stage_rate};
use crate::promise::{MAX_ITEMS, Promise, WhenFull, check_rate};

/// A filter of several pieces: what it promises as a whole, and the rule that its pieces follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Chain {
    pub(crate) rule: Rule,
    pub(crate) promise: Promise,
}

/// What makes the pieces of a chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    /// Bloom filters, each larger than the one before.
    Scalable(Growth),
}

impl Rule {
    /// Whether a filter of this kind has several pieces.
    pub(super) fn is_of(kind: Kind) -> bool {
        matches!(kind, Kind::Scalable)
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Scalable(_) => Kind::Scalable,
        }
    }

    /// The fields that the shape of such a chain has beyond the promise.
    pub(super) fn tags(_kind: Kind) -> &'static [Tag] {
        &[STAGE_KIND, STAGES, GROWTH, TIGHTENING, TIGHTENING_STAGES, TIGHTENING_RISE, TIGHTENING_THEN]
    }

    /// Adds the rule of a chain of so many stages.
    pub(super) fn write(&self, fields: &mut FieldWriter, stages: u16) {
        match self {
            Self::Scalable(growth) => write_growth(fields, growth, stages),
        }
    }

    fn read(kind: Kind, fields: &FieldReader<'_>, promise: &Promise) -> Result<Self> {
        match kind {
            _ => Ok(Self::Scalable(read_growth(fields, promise)?)),
        }
    }

    /// The kind that every piece must be.
    fn piece_kind(&self) -> Kind {
        match self {
            Self::Scalable(growth) => growth.stages,
        }
    }

    /// Whether a piece was made by the rule.
    fn check(&self, whole: &Promise, part: u16, piece: &Promise) -> Result<()> {
        match self {
            Self::Scalable(growth) => check_stage(growth, whole, part, piece),
        }
    }
}

/// Reads the rule and the pieces of a chain.
pub(super) fn read(head: &Head, kind: Kind) -> Result<Plan> {
    let fields = shape_fields(head, 0, kind)?;
    let promise = read_promise(kind, &fields)?;
    let rule = Rule::read(kind, &fields, &promise)?;
    let stages = fields.u16(STAGES)?;
    if stages == 0 || usize::from(stages) > MAX_STAGES || promise.capacity > MAX_ITEMS {
        return Err(corrupt(format!(
            "SHAPE: a chain of {stages} stages, the first for {} keys; 1 to {MAX_STAGES} stages, the first for at most \
             2^40, expected",
            promise.capacity
        )));
    }
    let stage_kind = rule.piece_kind();
    let mut pieces = Vec::with_capacity(usize::from(stages));
    for part in 1..=stages {
        match shape_kind(head, part)? {
            found if found == stage_kind => pieces.push(read_piece(head, part, stage_kind)?),
            found => {
                return Err(corrupt(format!(
                    "SHAPE of part {part}: a {found} stage in a chain of {stage_kind} stages (field 32 of part 0)"
                )));
            }
        }
        rule.check(&promise, part, &pieces[usize::from(part) - 1].promise)?;
    }
    Ok(Plan { chain: Some(Chain { rule, promise }), pieces })
}

fn write_growth(fields: &mut FieldWriter, growth: &Growth, stages: u16) {
    fields.u16(STAGE_KIND, growth.stages.number()).u16(STAGES, stages).f64(GROWTH, growth.factor);
    match growth.tightening {
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
}

fn read_growth(fields: &FieldReader<'_>, promise: &Promise) -> Result<Growth> {
    let number = fields.u16(STAGE_KIND)?;
    let stages = Kind::from_number(number)
        .filter(|kind| matches!(kind, Kind::Classic | Kind::Blocked | Kind::Partitioned))
        .ok_or_else(|| {
            corrupt(format!(
                "SHAPE: field 32 says stages of kind {number}; 1 classic, 2 blocked or 3 partitioned expected"
            ))
        })?;
    let tightening = read_tightening(fields)?;
    let growth = Growth { stages, first: promise.capacity, factor: fields.f64(GROWTH)?, tightening };
    let checked = check_growth(growth.factor, tightening)
        .and_then(|()| check_rate(promise.rate))
        .and_then(|_| check_rate(stage_rate(promise.rate, tightening, 0)))
        .and_then(|_| check_shares(promise.rate, tightening));
    checked.map_err(|refusal| outside(0, refusal))?;
    Ok(growth)
}

fn read_tightening(fields: &FieldReader<'_>) -> Result<Tightening> {
    Ok(match fields.u16(TIGHTENING)? {
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
    })
}

/// Whether a stage was made by the rule of its chain. Powers of reals differ in their last digits from machine to
/// machine, so a millionth is let pass.
fn check_stage(growth: &Growth, whole: &Promise, part: u16, stage: &Promise) -> Result<()> {
    let at = u32::from(part) - 1;
    let rate = stage_rate(whole.rate, growth.tightening, at);
    let near = |found: f64, rule: f64, slack: f64| (found - rule).abs() <= rule * 1e-6 + slack;
    let capacity = stage_capacity(growth.first, growth.factor, at).filter(|&keys| keys <= MAX_ITEMS);
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
