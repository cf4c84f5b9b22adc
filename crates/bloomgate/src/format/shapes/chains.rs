//! Several payloads under one rule: which stages a chain has, and whether the stages that a file has follow from it.

use super::super::fields::{FieldReader, FieldWriter, Tag};
use super::super::frame::corrupt;
use super::super::read::Head;
use super::super::sections::SectionType;
use super::cells::{read_copies, write_copies};
use super::tags::*;
use super::{Plan, outside, read_piece, read_promise, shape_fields, shape_kind};
use crate::bloom::rotating::{RotatingRule, RotatingState, generation_promise};
use crate::bloom::scalable::{Growth, MAX_STAGES, check_growth, check_shares};
use crate::cuckoo::Growth as CuckooGrowth;
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
    /// Cuckoo tables, each larger than the one before.
    GrowingCuckoo(CuckooGrowth),
    /// Generations of one size, of which the oldest goes when time has passed; and where the ring stands.
    Rotating(RotatingRule, RotatingState),
}

impl Rule {
    /// Whether a filter of this kind has several pieces.
    pub(super) fn is_of(kind: Kind) -> bool {
        matches!(kind, Kind::Scalable | Kind::GrowingCuckoo | Kind::Rotating)
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Scalable(_) => Kind::Scalable,
            Self::GrowingCuckoo(_) => Kind::GrowingCuckoo,
            Self::Rotating(..) => Kind::Rotating,
        }
    }

    /// The fields that the shape of such a chain has beyond the promise.
    pub(super) fn tags(kind: Kind) -> &'static [Tag] {
        match kind {
            Kind::Rotating => &[STAGES, WINDOW, GENERATIONS, MAX_STEP],
            Kind::GrowingCuckoo => {
                &[STAGE_KIND, STAGES, GROWTH, TIGHTENING, TIGHTENING_STAGES, TIGHTENING_RISE, TIGHTENING_THEN, COPIES]
            }
            _ => &[STAGE_KIND, STAGES, GROWTH, TIGHTENING, TIGHTENING_STAGES, TIGHTENING_RISE, TIGHTENING_THEN],
        }
    }

    /// Adds the rule of a chain of so many stages.
    pub(super) fn write(&self, fields: &mut FieldWriter, stages: u16) {
        match self {
            Self::Scalable(Growth { stages: kind, factor, tightening, .. }) => {
                write_growth(fields, *kind, stages, *factor, *tightening);
            }
            Self::GrowingCuckoo(CuckooGrowth { factor, tightening, copies, .. }) => {
                write_growth(fields, Kind::Cuckoo, stages, *factor, *tightening);
                write_copies(fields, *copies);
            }
            Self::Rotating(rule, _) => {
                fields.u16(STAGES, stages).u64(WINDOW, rule.window_ns()).u32(GENERATIONS, rule.generations());
                fields.u64(MAX_STEP, rule.max_step_ns());
            }
        }
    }

    /// What changes as the chain is used and belongs to no single piece: the COUNTS of part 0.
    pub(super) fn counts(&self) -> Option<FieldWriter> {
        let Self::Rotating(_, state) = self else { return None };
        let mut fields = FieldWriter::new();
        fields.u64(YOUNGEST, state.youngest).u64(ELAPSED, state.elapsed_ns);
        if let Some(clock) = state.clock_ns {
            fields.u64(CLOCK, clock);
        }
        Some(fields)
    }

    fn read(kind: Kind, fields: &FieldReader<'_>, promise: &Promise, head: &Head) -> Result<Self> {
        match kind {
            Kind::GrowingCuckoo => {
                let (_, factor, tightening) = read_growth(fields, &[Kind::Cuckoo])?;
                let growth = CuckooGrowth { first: promise.capacity, factor, tightening, copies: read_copies(fields)? };
                growth.check(promise.rate).map_err(|refusal| outside(0, refusal))?;
                Ok(Self::GrowingCuckoo(growth))
            }
            Kind::Rotating => {
                let rule = RotatingRule::new(fields.u64(WINDOW)?, fields.u32(GENERATIONS)?, fields.u64(MAX_STEP)?);
                let rule = rule.map_err(|refusal| outside(0, refusal))?;
                let counts = head.body(SectionType::COUNTS, 0)?;
                let counts = FieldReader::parse(SectionType::COUNTS, counts, &[YOUNGEST, ELAPSED, CLOCK])?;
                let state = RotatingState {
                    youngest: counts.u64(YOUNGEST)?,
                    elapsed_ns: counts.u64(ELAPSED)?,
                    clock_ns: counts.optional(CLOCK, FieldReader::u64)?,
                };
                state.check(&rule).map_err(|refusal| outside(0, refusal))?;
                Ok(Self::Rotating(rule, state))
            }
            _ => {
                let (stages, factor, tightening) =
                    read_growth(fields, &[Kind::Classic, Kind::Blocked, Kind::Partitioned])?;
                let checked = check_growth(factor, tightening)
                    .and_then(|()| check_rate(promise.rate))
                    .and_then(|_| check_rate(stage_rate(promise.rate, tightening, 0)))
                    .and_then(|_| check_shares(promise.rate, tightening));
                checked.map_err(|refusal| outside(0, refusal))?;
                Ok(Self::Scalable(Growth { stages, first: promise.capacity, factor, tightening }))
            }
        }
    }

    /// The kind that every piece must be.
    fn piece_kind(&self) -> Kind {
        match self {
            Self::Scalable(growth) => growth.stages,
            Self::GrowingCuckoo(_) => Kind::Cuckoo,
            Self::Rotating(..) => Kind::Blocked,
        }
    }

    /// The pieces that there can be.
    fn pieces(&self) -> std::ops::RangeInclusive<u16> {
        match self {
            Self::Rotating(rule, _) => rule.ring() as u16..=rule.ring() as u16,
            _ => 1..=MAX_STAGES as u16,
        }
    }

    /// Whether a piece was made by the rule.
    fn check(&self, whole: &Promise, part: u16, piece: &Promise) -> Result<()> {
        let at = u32::from(part) - 1;
        let grown = |first, factor, tightening| {
            let capacity = stage_capacity(first, factor, at).filter(|&keys| keys <= MAX_ITEMS);
            (capacity, stage_rate(whole.rate, tightening, at))
        };
        match self {
            Self::Scalable(Growth { first, factor, tightening, .. }) => {
                check_stage(part, piece, grown(*first, *factor, *tightening), WhenFull::GoOn)
            }
            Self::GrowingCuckoo(growth) => {
                let made = growth.stage(whole.rate, at as usize).ok().map(|(_, promise)| promise);
                let rule = (made.map(|made| made.capacity), made.map_or(whole.rate, |made| made.rate));
                check_stage(part, piece, rule, WhenFull::Refuse)
            }
            Self::Rotating(rule, _) => {
                let made = generation_promise(whole, rule);
                check_stage(part, piece, (Some(made.capacity), made.rate), made.when_full)
            }
        }
    }
}

/// Reads the rule and the pieces of a chain.
pub(super) fn read(head: &Head, kind: Kind) -> Result<Plan> {
    let fields = shape_fields(head, 0, kind)?;
    let promise = read_promise(kind, &fields)?;
    let rule = Rule::read(kind, &fields, &promise, head)?;
    let stages = fields.u16(STAGES)?;
    let expected = rule.pieces();
    if !expected.contains(&stages) || promise.capacity > MAX_ITEMS {
        return Err(corrupt(format!(
            "SHAPE: a chain of {stages} stages, the first for {} keys; {} to {} stages, the first for at most 2^40, \
             expected",
            promise.capacity,
            expected.start(),
            expected.end()
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

fn write_growth(fields: &mut FieldWriter, kind: Kind, stages: u16, factor: f64, tightening: Tightening) {
    fields.u16(STAGE_KIND, kind.number()).u16(STAGES, stages).f64(GROWTH, factor);
    match tightening {
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

fn read_growth(fields: &FieldReader<'_>, kinds: &[Kind]) -> Result<(Kind, f64, Tightening)> {
    let number = fields.u16(STAGE_KIND)?;
    let kind = Kind::from_number(number).filter(|kind| kinds.contains(kind)).ok_or_else(|| {
        let known: Vec<String> = kinds.iter().map(|kind| format!("{} {kind}", kind.number())).collect();
        corrupt(format!("SHAPE: field 32 says stages of kind {number}; {} expected", known.join(" or ")))
    })?;
    Ok((kind, fields.f64(GROWTH)?, read_tightening(fields)?))
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
fn check_stage(part: u16, stage: &Promise, (capacity, rate): (Option<u64>, f64), when_full: WhenFull) -> Result<()> {
    let near = |found: f64, rule: f64, slack: f64| (found - rule).abs() <= rule * 1e-6 + slack;
    let follows = capacity.is_some_and(|capacity| near(stage.capacity as f64, capacity as f64, 1.0))
        && near(stage.rate, rate, 0.0)
        && stage.when_full == when_full;
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
