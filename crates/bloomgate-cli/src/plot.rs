//! A curve in the terminal: braille dots, or plain characters where there is no Unicode.

use bloomgate::advice::Point;

use crate::screen::{DIM, INK, STRONG, paint};

/// The curve's cells, which leave room for the labels in 80 columns.
const WIDTH: usize = 62;
const HEIGHT: usize = 11;

/// Dots in cells: 2 x 4 in a braille character, 1 x 2 in a plain one.
struct Canvas {
    unicode: bool,
    cells: Vec<[u8; WIDTH]>,
}

impl Canvas {
    fn columns(&self) -> usize {
        if self.unicode { WIDTH * 2 } else { WIDTH }
    }

    fn rows(&self) -> usize {
        if self.unicode { HEIGHT * 4 } else { HEIGHT * 2 }
    }

    fn dot(&mut self, column: usize, row: usize) {
        // The bits of U+2800 by row and column: dots 1 2 3 7 at the left, 4 5 6 8 at the right.
        const BRAILLE: [[u8; 2]; 4] = [[1, 8], [2, 16], [4, 32], [64, 128]];
        if self.unicode {
            self.cells[row / 4][column / 2] |= BRAILLE[row % 4][column % 2];
        } else {
            self.cells[row / 2][column] |= 1 << (row % 2);
        }
    }

    fn glyph(&self, cell: u8) -> char {
        if self.unicode {
            if cell == 0 { ' ' } else { char::from_u32(0x2800 + u32::from(cell)).unwrap_or('*') }
        } else {
            [' ', '\'', '.', ':'][usize::from(cell & 3)]
        }
    }
}

/// An axis of rates: its ends, and the places of its labels from the top down, all of them round.
pub struct RateAxis {
    pub top: f64,
    pub bottom: f64,
    pub labels: Vec<f64>,
}

impl RateAxis {
    /// The least axis with round ends (1, 2 or 5 times a power of ten) that shows all these points.
    pub fn of<'p>(points: impl Iterator<Item = &'p Point>) -> Self {
        let (low, high) = points.fold((1.0f64, 1e-15f64), |(low, high), point| {
            let rate = point.rate.clamp(1e-15, 1.0);
            (low.min(rate), high.max(rate))
        });
        let round = |down: bool, rate: f64| {
            let power = 10f64.powf(rate.log10().floor());
            let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
            // A hair's breadth beyond a round rate is that rate.
            match down {
                true => steps.into_iter().rev().find(|step| *step <= rate * 1.001).unwrap_or(power),
                false => steps.into_iter().find(|step| *step >= rate * 0.999).unwrap_or(power * 10.0).min(1.0),
            }
        };
        let top = round(false, high);
        let bottom = round(true, low).min(top / 5.0);
        let decades = (top / bottom).log10();
        // Few decades have labels in between; many have them on every second or third only.
        let between: &[f64] = if decades < 1.8 { &[5.0, 2.0, 1.0] } else { &[1.0] };
        let apart = (decades.ceil() as usize).div_ceil(9).max(1);
        let labels = (0..=16)
            .step_by(apart)
            .flat_map(|decade| between.iter().map(move |times| times * 10f64.powi(-decade)))
            .filter(|rate| (bottom * 0.999..=top * 1.001).contains(rate))
            .collect();
        Self { top, bottom, labels }
    }

    /// How far down the axis a rate is: 0 at the top, 1 at the bottom.
    pub fn share(&self, rate: f64) -> f64 {
        ((self.top / rate.max(1e-300)).ln() / (self.top / self.bottom).ln()).clamp(0.0, 1.0)
    }
}

/// The rate (logarithmic) against `x`, with `mark` on it; the `ticks` are places of the x axis and their labels. No line
/// is longer than 80 columns.
pub fn rate_curve(curve: &[Point], mark: Option<Point>, unicode: bool, ticks: &[(f64, String)]) -> String {
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else { return String::new() };
    let axis = RateAxis::of(curve.iter());
    let mut canvas = Canvas { unicode, cells: vec![[0; WIDTH]; HEIGHT] };
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let at_row = |rate: f64, rows: usize| ((axis.share(rate) * (rows - 1) as f64).round() as usize).min(rows - 1);
    let at_column = |x: f64, columns: usize| {
        (((x - first.x) / (last.x - first.x) * (columns - 1) as f64).round().max(0.0) as usize).min(columns - 1)
    };
    let mut before = at_row(first.rate, rows);
    for point in curve {
        let (column, row) = (at_column(point.x, columns), at_row(point.rate, rows));
        // A steep piece is drawn whole, not as two ends.
        (before.min(row)..=before.max(row)).skip(usize::from(row > before)).for_each(|row| canvas.dot(column, row));
        canvas.dot(column, row);
        before = row;
    }
    let mark = mark.map(|mark| (at_column(mark.x, WIDTH), at_row(mark.rate, HEIGHT)));
    let mut out = String::new();
    let labels: Vec<(usize, String)> =
        axis.labels.iter().map(|&rate| (at_row(rate, HEIGHT), rate_label(rate))).collect();
    for (row, cells) in canvas.cells.iter().enumerate() {
        let label = labels.iter().find(|(at, _)| *at == row).map_or("", |(_, label)| label);
        let edge = match (label.is_empty(), unicode) {
            (true, true) => "│",
            (false, true) => "┤",
            (true, false) => "|",
            (false, false) => "+",
        };
        out.push_str(&paint(DIM, format!("{label:>10} {edge}")));
        let glyphs =
            |from: usize, to: usize| cells[from..to].iter().map(|&cell| canvas.glyph(cell)).collect::<String>();
        match mark.filter(|(_, at)| *at == row) {
            Some((column, _)) => {
                out.push_str(&paint(INK, glyphs(0, column)));
                out.push_str(&paint(STRONG, if unicode { '●' } else { 'O' }));
                out.push_str(&paint(INK, glyphs(column + 1, WIDTH).trim_end()));
            }
            None => out.push_str(&paint(INK, glyphs(0, WIDTH).trim_end())),
        }
        out.push('\n');
    }
    let ticks: Vec<(usize, &str)> = ticks.iter().map(|(x, label)| (at_column(*x, WIDTH), label.as_str())).collect();
    let (corner, line, tick) = if unicode { ('└', '─', '┬') } else { ('+', '-', '+') };
    let edge = |column: usize| if ticks.iter().any(|(at, _)| *at == column) { tick } else { line };
    out.push_str(&paint(DIM, format!("{:>10} {corner}{}", "", (0..WIDTH).map(edge).collect::<String>())));
    out.push('\n');
    out.push_str(&paint(DIM, x_labels(&ticks)));
    out.push('\n');
    out
}

/// A round rate, as an axis names it.
pub fn rate_label(rate: f64) -> String {
    if rate < 0.99e-5 {
        return format!("{rate:.0e}");
    }
    let percent = format!("{:.3}", rate * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// Labels under the axis, each in the middle of its place, as many as fit beside each other.
fn x_labels(ticks: &[(usize, &str)]) -> String {
    let mut line = String::new();
    let mut end = 0;
    for (column, text) in ticks {
        let len = text.chars().count();
        let start = (12 + column).saturating_sub(len / 2).min(80usize.saturating_sub(len));
        // Two spaces between two labels.
        if start >= end + 2 || line.is_empty() {
            line.extend(std::iter::repeat_n(' ', start - end));
            line.push_str(text);
            end = start + len;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloomgate::Kind;
    use bloomgate::advice::sweep_memory;

    #[test]
    fn a_curve_falls_within_eighty_columns() {
        let curve = sweep_memory(Kind::Classic, 100_000, 2.0, 20.0, 200).unwrap();
        let mark = Point { x: 9.593, rate: 0.01 };
        for unicode in [true, false] {
            let ticks = [5.0, 10.0, 15.0, 20.0].map(|x| (x, format!("{x} bits")));
            let drawn = anstream::adapter::strip_str(&rate_curve(&curve, Some(mark), unicode, &ticks)).to_string();
            assert_eq!(drawn.lines().count(), HEIGHT + 2, "{drawn}");
            assert!(drawn.lines().all(|line| line.chars().count() <= 80), "{drawn}");
            assert_eq!(drawn.is_ascii(), !unicode);
            // The mark stands where it should: about 42 % of the axis, in the row of 1 %.
            let dot = if unicode { '●' } else { 'O' };
            let row = drawn.lines().find(|line| line.contains(dot)).unwrap();
            let column = row.chars().position(|c| c == dot).unwrap() - 12;
            assert!((24..=28).contains(&column), "{column}\n{drawn}");
            assert!(row.trim_start().starts_with("1 %"), "{drawn}");
            // A label stands under its tick.
            let (axis, labels) = (drawn.lines().nth(HEIGHT).unwrap(), drawn.lines().last().unwrap());
            let tick = axis.chars().skip(12).position(|c| c == if unicode { '┬' } else { '+' }).unwrap() + 12;
            let label = labels.find("5 bits").unwrap();
            assert!((label..label + 6).contains(&tick), "{drawn}");
            assert!(labels.contains("10 bits") && labels.contains("15 bits") && labels.contains("20 bits"), "{drawn}");
        }
    }

    #[test]
    fn an_axis_shows_what_there_is_and_little_more() {
        let axis = |rates: &[f64]| {
            let points: Vec<Point> = rates.iter().map(|&rate| Point { x: 0.0, rate }).collect();
            RateAxis::of(points.iter())
        };
        for (rates, top, bottom, labels) in [
            (&[1.0, 0.01][..], "100 %", "1 %", 3),
            (&[0.094, 0.00776], "10 %", "0.5 %", 5),
            (&[0.5, 1e-9], "50 %", "1e-9", 9),
            (&[1e-4, 9e-5], "0.01 %", "0.002 %", 3),
            (&[1.0], "100 %", "20 %", 3),
            (&[0.0, 1.0], "100 %", "1e-15", 8),
        ] {
            let axis = axis(rates);
            assert_eq!(
                (rate_label(axis.top), rate_label(axis.bottom), axis.labels.len()),
                (top.into(), bottom.into(), labels)
            );
            assert!(rates.iter().all(|&rate| rate == 0.0 || (axis.bottom * 0.998..=axis.top * 1.002).contains(&rate)));
            assert_eq!((axis.share(axis.top), axis.share(axis.bottom)), (0.0, 1.0));
        }
    }

    #[test]
    fn labels_are_short() {
        let labels: Vec<String> = (0..8).map(|decade| rate_label(10f64.powi(-decade))).collect();
        assert_eq!(labels, ["100 %", "10 %", "1 %", "0.1 %", "0.01 %", "0.001 %", "1e-6", "1e-7"]);
        assert_eq!([0.5, 0.02, 5e-7].map(rate_label), ["50 %", "2 %", "5e-7"]);
    }
}
