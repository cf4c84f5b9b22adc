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

/// The rate (logarithmic) against `x`, with `mark` on it; `label` names a point of the x axis. No line is longer than
/// 80 columns.
pub fn rate_curve(curve: &[Point], mark: Option<Point>, unicode: bool, label: impl Fn(f64) -> String) -> String {
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else { return String::new() };
    let lowest = curve.iter().map(|point| point.rate).fold(1.0, f64::min).max(1e-15);
    // Whole decades, so that the labels are round; a curve that dips just below one ends on it.
    let floor = (lowest.log10() + 0.2).floor().min(-1.0);
    let mut canvas = Canvas { unicode, cells: vec![[0; WIDTH]; HEIGHT] };
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let at_row = |rate: f64, rows: usize| {
        let share = rate.max(1e-15).log10() / floor;
        ((share * (rows - 1) as f64).round() as usize).min(rows - 1)
    };
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
    let decades = (-floor) as usize;
    let step = decades.div_ceil(HEIGHT - 1).max(1);
    let labels: Vec<(usize, String)> = (0..=decades)
        .step_by(step)
        .map(|decade| (at_row(10f64.powi(-(decade as i32)), HEIGHT), decade_label(decade)))
        .collect();
    for (row, cells) in canvas.cells.iter().enumerate() {
        let label = labels.iter().find(|(at, _)| *at == row).map_or("", |(_, label)| label);
        let axis = match (label.is_empty(), unicode) {
            (true, true) => "│",
            (false, true) => "┤",
            (true, false) => "|",
            (false, false) => "+",
        };
        out.push_str(&paint(DIM, format!("{label:>10} {axis}")));
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
    let (corner, line) = if unicode { ('└', "─") } else { ('+', "-") };
    out.push_str(&paint(DIM, format!("{:>10} {corner}{}", "", line.repeat(WIDTH))));
    out.push('\n');
    out.push_str(&paint(DIM, x_labels(|share| label(first.x + (last.x - first.x) * share))));
    out.push('\n');
    out
}

fn decade_label(decade: usize) -> String {
    match decade {
        0 => "100 %".into(),
        1..=5 => format!("{} %", 10f64.powi(2 - decade as i32)),
        _ => format!("1e-{decade}"),
    }
}

/// Five labels under the axis, the first and the last at its ends.
fn x_labels(label: impl Fn(f64) -> String) -> String {
    let mut line = vec![' '; 80];
    for quarter in 0..=4 {
        let text: Vec<char> = label(f64::from(quarter) / 4.0).chars().collect();
        let centre = 12 + (WIDTH - 1) * quarter as usize / 4;
        let start = centre.saturating_sub(text.len() / 2).min(line.len() - text.len().min(line.len()));
        for (place, c) in line[start..].iter_mut().zip(text) {
            *place = c;
        }
    }
    line.into_iter().collect::<String>().trim_end().to_string()
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
            let drawn = anstream::adapter::strip_str(&rate_curve(&curve, Some(mark), unicode, |x| format!("{x:.1}")))
                .to_string();
            assert_eq!(drawn.lines().count(), HEIGHT + 2, "{drawn}");
            assert!(drawn.lines().all(|line| line.chars().count() <= 80), "{drawn}");
            assert_eq!(drawn.is_ascii(), !unicode);
            // The mark stands where it should: about 42 % of the axis, in the row of 1 %.
            let dot = if unicode { '●' } else { 'O' };
            let row = drawn.lines().find(|line| line.contains(dot)).unwrap();
            let column = row.chars().position(|c| c == dot).unwrap() - 12;
            assert!((24..=28).contains(&column), "{column}\n{drawn}");
            assert!(row.trim_start().starts_with("1 %"), "{drawn}");
        }
    }

    #[test]
    fn decades_are_round() {
        let labels: Vec<String> = (0..8).map(decade_label).collect();
        assert_eq!(labels, ["100 %", "10 %", "1 %", "0.1 %", "0.01 %", "0.001 %", "1e-6", "1e-7"]);
    }
}
