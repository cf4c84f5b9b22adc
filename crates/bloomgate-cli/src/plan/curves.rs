//! The charts of a plan: its rate against memory, against the number of hashes, and against too many keys.

use bloomgate::Kind;
use bloomgate::advice::{self, Plan, Point};
use clap::ValueEnum;

use crate::chart::{Axis, Chart, Curve, Mark};
use crate::failure::Failure;
use crate::number;

/// Points of a curve: two for each column of the terminal's.
const POINTS: u32 = 124;
/// Fewer keys than fill a few lines make a staircase, not a curve.
const FEWEST: u64 = 1000;
/// Kinds to compare the memory of, the telling ones first. Partitioned is as classic, a chain as its first stage.
const BY_MEMORY: [Kind; 7] =
    [Kind::Blocked, Kind::Classic, Kind::Ribbon, Kind::Fuse, Kind::Cuckoo, Kind::Quotient, Kind::Counting];
/// Kinds to compare with too many keys: those that differ.
const BY_OVERFILL: [Kind; 4] = [Kind::Quotient, Kind::Scalable, Kind::GrowingCuckoo, Kind::Classic];

/// A plot to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Plot {
    /// The rate against memory
    Memory,
    /// The rate against the number of hashes of a classic filter, with its minimum
    K,
    /// The rate with 1 to 10 times the planned keys
    Overfill,
    /// All of them
    All,
    /// None
    None,
}

/// The charts that were asked for; `beside` are kinds that fit too, to compare with.
pub fn charts(plan: &Plan, asked: &[Plot], beside: &[Kind]) -> Result<Vec<Chart>, Failure> {
    let wanted = |plot| !asked.contains(&Plot::None) && (asked.contains(&plot) || asked.contains(&Plot::All));
    let mut charts = Vec::new();
    if wanted(Plot::Memory) {
        charts.extend(memory(plan, beside)?);
    }
    if wanted(Plot::K) {
        charts.extend(hashes(plan)?);
    }
    if wanted(Plot::Overfill) {
        charts.extend(overfill(plan, beside)?);
    }
    Ok(charts)
}

fn memory(plan: &Plan, beside: &[Kind]) -> Result<Option<Chart>, Failure> {
    let here = plan.bits_per_key;
    if plan.items < FEWEST || !(0.5..=4000.0).contains(&here) {
        return Ok(None);
    }
    let (from, to) = ((here / 8.0).max(1.0), (here * 2.0).max(5.0));
    let bytes = |x: f64| x * plan.items as f64 / 8.0;
    let curve = |kind: Kind| -> Result<Curve, Failure> {
        let (points, stepped) = match kind {
            Kind::Classic | Kind::Partitioned | Kind::Blocked => {
                (advice::sweep_memory(kind, plan.items, from, to, POINTS)?, false)
            }
            // Twice the bits are about the square of the rate.
            _ => {
                let lowest = plan.rate.powi(2).max(1e-14);
                let points = advice::sweep_rate(kind, plan.items, plan.rate.sqrt().max(0.5), lowest, POINTS)?;
                (points, !matches!(kind, Kind::Counting | Kind::Scalable | Kind::Rotating))
            }
        };
        let within = points.into_iter().filter(|point| (from..=to).contains(&point.x));
        let points = within.map(|point| Point { x: bytes(point.x), rate: point.rate }).collect();
        Ok(Curve { name: kind.name().into(), points, stepped })
    };
    let kind = plan.shape.kind;
    let title = match kind {
        Kind::Scalable | Kind::GrowingCuckoo => format!("Rate against memory ({kind}, its first stage)"),
        _ => format!("Rate against memory ({kind})"),
    };
    let words = format!("{} at {}", number::percent(plan.expected_rate), number::bytes(plan.shape.bytes()));
    let mark = Mark { point: Point { x: bytes(here), rate: plan.expected_rate }, words };
    let curves =
        std::iter::once(kind).chain(others(kind, beside, &BY_MEMORY, 4)).map(curve).collect::<Result<Vec<_>, _>>()?;
    let curves: Vec<Curve> = curves.into_iter().filter(|curve| curve.points.len() > 1).collect();
    // Without its own curve a chart would be of something else.
    let own = curves.first().is_some_and(|curve| curve.name == kind.name());
    Ok(own.then_some(Chart { name: "memory", title, axis: Axis::Bytes, curves, mark: Some(mark) }))
}

/// Of a classic filter in the memory of the plan.
fn hashes(plan: &Plan) -> Result<Option<Chart>, Failure> {
    if plan.items < FEWEST || plan.shape.bits < 1000 {
        return Ok(None);
    }
    let best = advice::sweep_hashes(plan.shape.bits, plan.items, 64)?;
    // Twice its best number and a few more: the whole valley, and not much of the plain beyond.
    let most = (best.best * 2 + 4).min(64);
    let points = best.points.into_iter().take(most as usize).collect();
    let mark = Point { x: f64::from(best.best), rate: best.lowest };
    let words = format!("least at k = {}: {}", best.best, number::percent(best.lowest));
    Ok(Some(Chart {
        name: "k",
        title: format!("Rate against hashes (classic, {})", number::bytes(plan.shape.bytes())),
        axis: Axis::Hashes,
        curves: vec![Curve { name: "classic".into(), points, stepped: false }],
        mark: Some(Mark { point: mark, words }),
    }))
}

fn overfill(plan: &Plan, beside: &[Kind]) -> Result<Option<Chart>, Failure> {
    let kind = plan.shape.kind;
    let curve = |kind: Kind| -> Result<Curve, Failure> {
        // In steps of 1/20, so that 1, 2 and 10 times are among them.
        let points = advice::sweep_overfill(kind, plan.items, plan.rate, 10.0, 200)?;
        let points: Vec<Point> = points.into_iter().filter(|point| point.x > 0.999).collect();
        Ok(Curve { name: kind.name().into(), points, stepped: false })
    };
    let first = curve(kind)?;
    // A kind that takes no more has nothing to show.
    if first.points.len() < 2 {
        return Ok(None);
    }
    let mark = first
        .points
        .iter()
        .find(|point| point.x > 1.999)
        .map(|&point| Mark { point, words: format!("{} with twice the keys", number::percent(point.rate)) });
    let mut curves = vec![first];
    for other in others(kind, beside, &BY_OVERFILL, 3) {
        curves.push(curve(other)?);
    }
    curves.retain(|curve| curve.points.len() > 1);
    Ok(Some(Chart {
        name: "overfill",
        title: format!("Rate with too many keys ({kind})"),
        axis: Axis::Times,
        curves,
        mark,
    }))
}

/// At most so many of the kinds that are worth comparing and fit.
fn others(kind: Kind, beside: &[Kind], telling: &'static [Kind], most: usize) -> impl Iterator<Item = Kind> {
    let fit: Vec<Kind> = telling.iter().copied().filter(|&other| other != kind && beside.contains(&other)).collect();
    fit.into_iter().take(most)
}

/// Why a chart that was asked for is not drawn.
pub fn missing(plan: &Plan, asked: &[Plot], charts: &[Chart]) -> Vec<String> {
    let all = asked.contains(&Plot::All);
    let absent = |plot, name: &str| {
        !asked.contains(&Plot::None) && (all || asked.contains(&plot)) && !charts.iter().any(|chart| chart.name == name)
    };
    let mut said = Vec::new();
    if absent(Plot::Overfill, "overfill") {
        let kind = plan.shape.kind;
        said.push(format!("no plot of too many keys: a {kind} filter takes no more than it was made for"));
    }
    if plan.items < FEWEST && (absent(Plot::Memory, "memory") || absent(Plot::K, "k")) {
        said.push(format!(
            "no plot of a rate for {}: they are too few for a curve",
            number::counted(plan.items, "key")
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloomgate::advice::{Growth, Need, advise};

    #[test]
    fn every_kind_has_its_charts() {
        let million = Need { items: Some(1_000_000), rate: Some(0.01), ..Need::default() };
        for (need, kind, drawn) in [
            (million.clone(), Kind::Blocked, 3),
            (Need { smallest_first: true, ..million.clone() }, Kind::Classic, 3),
            (Need { deletes: true, ..million.clone() }, Kind::Cuckoo, 2),
            (Need { static_set: true, ..million.clone() }, Kind::Fuse, 2),
            (Need { window: true, ..million.clone() }, Kind::Rotating, 3),
            (Need { growth: Growth::Unknown, ..million.clone() }, Kind::Scalable, 3),
            (Need { deletes: true, growth: Growth::Unknown, ..million }, Kind::GrowingCuckoo, 3),
        ] {
            let plan = advise(&need).unwrap().plan.unwrap();
            assert_eq!(plan.shape.kind, kind);
            let charts = charts(&plan, &[Plot::All], &[Kind::Classic, Kind::Fuse, Kind::Counting]).unwrap();
            assert_eq!(charts.len(), drawn, "{kind}");
            assert_eq!(missing(&plan, &[Plot::All], &charts).len(), 3 - drawn, "{kind}");
            for chart in &charts {
                let mark = chart.mark.as_ref().unwrap().point;
                let curve = &chart.curves[0].points;
                assert!(
                    curve.first().unwrap().x <= mark.x && mark.x <= curve.last().unwrap().x,
                    "{kind} {}",
                    chart.name
                );
                for unicode in [true, false] {
                    let text = anstream::adapter::strip_str(&chart.in_terminal(unicode)).to_string();
                    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
                    assert_eq!(text.is_ascii(), !unicode, "{text}");
                }
            }
        }
    }

    #[test]
    fn the_least_rate_is_marked() {
        let need = Need { items: Some(1_000_000), rate: Some(0.01), smallest_first: true, ..Need::default() };
        let plan = advise(&need).unwrap().plan.unwrap();
        let charts = charts(&plan, &[Plot::K], &[]).unwrap();
        assert_eq!(charts[0].mark.as_ref().unwrap().words, "least at k = 7: 1.00 %");
        assert_eq!(charts[0].curves[0].points.len(), 18);
        assert!(super::charts(&plan, &[Plot::None], &[]).unwrap().is_empty());
    }
}
