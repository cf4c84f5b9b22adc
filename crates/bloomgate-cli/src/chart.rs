//! A chart of rates: curves over one axis, drawn in the terminal or on a page of SVG.

use bloomgate::advice::Point;

use crate::screen::{HEAD, paint};
use crate::svg::{Anchor, COLOURS, DARK, Document, FAINT, Font, GREY, PAPER};
use crate::{number, plot};

/// What the x axis counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Bytes of memory.
    Bytes,
    /// Hashes of a key.
    Hashes,
    /// Times the keys that were planned.
    Times,
}

impl Axis {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Hashes => "hashes",
            Self::Times => "times_planned_keys",
        }
    }

    /// A place on the axis, three digits at most.
    pub fn label(self, x: f64) -> String {
        match self {
            Self::Bytes => trimmed(&number::bytes(x.round().max(0.0) as u64)),
            Self::Hashes => format!("{x:.0}"),
            Self::Times => format!("{}x", trimmed(&number::short(x))),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Bytes => "memory of the filter",
            Self::Hashes => "hashes of a key (k)",
            Self::Times => "times the keys that it was made for",
        }
    }
}

/// `2.00 MB` as `2 MB`.
fn trimmed(text: &str) -> String {
    let (digits, unit) = text.split_once(' ').map_or((text, ""), |(digits, unit)| (digits, unit));
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    if unit.is_empty() { digits.into() } else { format!("{digits} {unit}") }
}

/// One line of a chart.
#[derive(Debug, Clone)]
pub struct Curve {
    pub name: String,
    pub points: Vec<Point>,
    /// Between two points the first one holds: fingerprints have whole bits.
    pub stepped: bool,
}

/// A point with a word about it.
#[derive(Debug, Clone)]
pub struct Mark {
    pub point: Point,
    pub words: String,
}

/// Curves over one axis; the first is the one that matters.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The word that asks for it.
    pub name: &'static str,
    pub title: String,
    pub axis: Axis,
    pub curves: Vec<Curve>,
    pub mark: Option<Mark>,
}

/// The height of a chart on a page.
pub const HEIGHT: f64 = 350.0;
/// The width of a page.
pub const WIDTH: f64 = 760.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 28.0;
const ABOVE: f64 = 58.0;
const BELOW: f64 = 54.0;

impl Chart {
    /// The first curve in the terminal, in at most 80 columns.
    pub fn in_terminal(&self, unicode: bool) -> String {
        let Some(curve) = self.curves.first() else { return String::new() };
        let mark = self.mark.as_ref().map(|mark| mark.point);
        let words = self.mark.as_ref().map_or_else(String::new, |mark| {
            let dot = if unicode { '●' } else { 'O' };
            format!("  {dot} {}", mark.words)
        });
        let dense = curve.dense(124);
        let (low, high) = (dense.first().map_or(0.0, |point| point.x), dense.last().map_or(1.0, |point| point.x));
        let ticks: Vec<(f64, String)> =
            self.ticks(low, high, 5.0).into_iter().map(|x| (x, self.axis.label(x))).collect();
        let drawn = plot::rate_curve(&dense, mark, unicode, &ticks);
        format!("{}{words}\n{drawn}", paint(HEAD, &self.title))
    }

    /// Round places of the x axis, about so many.
    fn ticks(&self, low: f64, high: f64, about: f64) -> Vec<f64> {
        round_ticks(low, high, about, if self.axis == Axis::Hashes { 1.0 } else { 0.0 })
    }

    /// Draws the chart on a page, `top` down from its upper edge.
    pub fn on_page(&self, page: &mut Document, top: f64) {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let (low, high) = points().fold((f64::MAX, f64::MIN), |(low, high), p| (low.min(p.x), high.max(p.x)));
        if low >= high {
            return;
        }
        let rates = plot::RateAxis::of(points());
        let (upper, lower) = (top + ABOVE, top + HEIGHT - BELOW);
        let at = |point: &Point| {
            let across = (point.x - low) / (high - low);
            (LEFT + across * (WIDTH - LEFT - RIGHT), upper + rates.share(point.rate) * (lower - upper))
        };
        page.text((LEFT, top + 20.0), Font::new(15.0, DARK).bold(), &self.title);
        self.legend(page, top + 42.0);
        let label = Font::new(11.5, GREY);
        for &rate in &rates.labels {
            let (_, y) = at(&Point { x: low, rate });
            page.line((LEFT, y), (WIDTH - RIGHT, y), FAINT, 1.0);
            page.text((LEFT - 8.0, y + 4.0), label.anchored(Anchor::End), &plot::rate_label(rate));
        }
        for x in self.ticks(low, high, 8.0) {
            let (x, text) = (at(&Point { x, rate: 1.0 }).0, self.axis.label(x));
            page.line((x, upper), (x, lower), FAINT, 1.0);
            page.line((x, lower), (x, lower + 5.0), GREY, 1.0);
            page.text((x, lower + 19.0), label.anchored(Anchor::Middle), &text);
        }
        page.line((LEFT, upper), (LEFT, lower), GREY, 1.2);
        page.line((LEFT, lower), (WIDTH - RIGHT, lower), GREY, 1.2);
        let middle = label.anchored(Anchor::Middle);
        page.text(((LEFT + WIDTH - RIGHT) / 2.0, lower + 39.0), middle, self.axis.title());
        page.upright((22.0, (upper + lower) / 2.0), middle, "false positives");
        // The first curve last, so that it lies on top.
        for (number, curve) in self.curves.iter().enumerate().rev() {
            let colour = COLOURS[number % COLOURS.len()];
            let drawn: Vec<(f64, f64)> = curve.corners().iter().map(at).collect();
            page.curve(&drawn, colour, if number == 0 { 2.6 } else { 1.6 });
            if self.axis == Axis::Hashes {
                curve.points.iter().for_each(|point| page.dot(at(point), 3.2, colour));
            }
        }
        if let Some(mark) = &self.mark {
            let (x, y) = at(&mark.point);
            page.dot((x, y), 6.0, DARK);
            let (anchor, place) = self.beside_mark((x, y), upper);
            // Paper under the words, so that other curves do not run through them.
            let width = 7.4 * mark.words.chars().count() as f64;
            let left = match anchor {
                Anchor::Start => place.0 - 3.0,
                Anchor::Middle => place.0 - width / 2.0,
                Anchor::End => place.0 - width + 3.0,
            };
            page.rect((left, place.1 - 12.0), (width, 16.0), PAPER);
            page.text(place, Font::new(12.5, DARK).bold().anchored(anchor), &mark.words);
        }
    }

    /// Where the words of a mark stand so that the curve does not run through them: above a valley, below a curve that
    /// rises, above one that falls; to the left where there is no room at the right.
    fn beside_mark(&self, (x, y): (f64, f64), upper: f64) -> (Anchor, (f64, f64)) {
        if self.axis == Axis::Hashes {
            return (Anchor::Middle, (x, y - 16.0));
        }
        let words = self.mark.as_ref().map_or(0, |mark| mark.words.chars().count());
        let points = self.curves.first().map_or(&[][..], |curve| &curve.points[..]);
        let rises = points.first().zip(points.last()).is_some_and(|(first, last)| first.rate < last.rate);
        let (anchor, aside) =
            if WIDTH - RIGHT - x > 7.5 * words as f64 { (Anchor::Start, 11.0) } else { (Anchor::End, -11.0) };
        let above = if rises || y - upper < 20.0 { 18.0 } else { -9.0 };
        (anchor, (x + aside, y + above))
    }

    /// The names of the curves beside a piece of each, in one line.
    fn legend(&self, page: &mut Document, y: f64) {
        let mut x = LEFT;
        for (curve, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            page.line((x, y - 4.0), (x + 20.0, y - 4.0), colour, 3.0);
            page.text((x + 26.0, y), Font::new(12.0, DARK), &curve.name);
            x += 44.0 + 7.0 * curve.name.chars().count() as f64;
        }
    }
}

impl Curve {
    /// The points of the line to draw: those of the curve, with the corners of a staircase between them.
    fn corners(&self) -> Vec<Point> {
        if !self.stepped {
            return self.points.clone();
        }
        let corners = self.points.windows(2).flat_map(|pair| [pair[0], Point { x: pair[1].x, rate: pair[0].rate }]);
        corners.chain(self.points.last().copied()).collect()
    }

    /// As many points as a terminal has columns, between those of the curve.
    fn dense(&self, columns: u32) -> Vec<Point> {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return Vec::new() };
        let place = |step: u32| first.x + (last.x - first.x) * f64::from(step) / f64::from(columns - 1);
        (0..columns).map(|step| self.between(place(step))).collect()
    }

    /// The rate at a place: on the straight line of its logarithm, or on the step.
    fn between(&self, x: f64) -> Point {
        let after = self.points.partition_point(|point| point.x <= x).min(self.points.len() - 1);
        let (a, b) = (self.points[after.saturating_sub(1)], self.points[after]);
        if x >= b.x {
            return Point { x, rate: b.rate };
        }
        if self.stepped || b.x <= a.x {
            return Point { x, rate: a.rate };
        }
        let share = (x - a.x) / (b.x - a.x);
        let (from, to) = (a.rate.max(1e-300).ln(), b.rate.max(1e-300).ln());
        Point { x, rate: (from + (to - from) * share).exp() }
    }
}

/// Round places between two ends: 1, 2 or 5 times a power of ten apart and at least `least`, about so many of them.
pub fn round_ticks(low: f64, high: f64, about: f64, least: f64) -> Vec<f64> {
    let raw = ((high - low) / about).max(1e-300);
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= raw * 0.999);
    let step = step.unwrap_or(raw).max(least);
    let (from, to) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (from..=to).take(20).map(|at| at as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_labels_short() {
        assert_eq!(round_ticks(1.0, 10.0, 8.0, 0.0), [2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(round_ticks(1.0, 5.0, 8.0, 1.0), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(round_ticks(1.3e6, 25e6, 5.0, 0.0), [5e6, 10e6, 15e6, 20e6, 25e6]);
        assert_eq!([2e6, 1.5e9, 640.0].map(|x| Axis::Bytes.label(x)), ["2 MB", "1.5 GB", "640 bytes"]);
        assert_eq!((Axis::Times.label(10.0), Axis::Hashes.label(7.0)), ("10x".into(), "7".into()));
    }

    #[test]
    fn a_staircase_has_corners_and_a_curve_has_none() {
        let points = vec![Point { x: 1.0, rate: 0.1 }, Point { x: 3.0, rate: 0.001 }];
        let mut curve = Curve { name: "c".into(), points, stepped: true };
        assert_eq!(curve.corners().len(), 3);
        assert_eq!((curve.between(2.9).rate, curve.between(3.0).rate), (0.1, 0.001));
        curve.stepped = false;
        assert_eq!(curve.corners().len(), 2);
        assert!((curve.between(2.0).rate - 0.01).abs() < 1e-12);
        let dense = curve.dense(100);
        assert!(dense.len() == 100 && (dense[0].rate - 0.1).abs() < 1e-12 && (dense[99].rate - 0.001).abs() < 1e-12);
    }
}
