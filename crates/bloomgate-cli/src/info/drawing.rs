//! The picture of a filter's bits as a page of SVG: the regions of each part as a strip of squares, as dark as they are
//! full, and how many regions are how full.

use crate::chart::round_ticks;
use crate::number::{counted, percent};
use crate::picture::{COLUMNS, Regions};
use crate::svg::{Anchor, COLOURS, DARK, Document, FAINT, Font, GREY};

/// One part: its name (none if there is but one) and its regions.
pub struct Part<'r> {
    pub name: Option<String>,
    pub regions: &'r Regions,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 28.0;
/// The side of a square of the strip.
const SIDE: f64 = (WIDTH - 2.0 * LEFT) / COLUMNS as f64;
/// The height of the histogram's bars, and what stands around them.
const BARS: f64 = 130.0;
const HISTOGRAM: f64 = BARS + 108.0;
/// Bars of the histogram at most.
const MOST_BARS: usize = 30;

/// The page: a title, lines of facts, the strips, a legend and a histogram.
pub fn page(title: &str, facts: &[String], parts: &[Part<'_>]) -> String {
    let strip = |part: &Part<'_>| {
        let lines = part.regions.fills().len().div_ceil(COLUMNS) as f64;
        lines * SIDE + if part.name.is_some() { 30.0 } else { 8.0 }
    };
    let top = 52.0 + 19.0 * facts.len() as f64;
    let height = top + parts.iter().map(strip).sum::<f64>() + 52.0 + HISTOGRAM;
    let mut page = Document::new(WIDTH, height, title);
    page.text((LEFT, 36.0), Font::new(20.0, DARK).bold(), title);
    for (at, fact) in facts.iter().enumerate() {
        page.text((LEFT, 58.0 + 19.0 * at as f64), Font::new(13.0, GREY), fact);
    }
    let mut y = top;
    for part in parts {
        let mut from = y + 8.0;
        if let Some(name) = &part.name {
            page.text((LEFT, y + 18.0), Font::new(12.0, DARK), name);
            from += 16.0;
        }
        for (at, fill) in part.regions.fills().into_iter().enumerate() {
            let (column, line) = ((at % COLUMNS) as f64, (at / COLUMNS) as f64);
            // A hair less than the side: the paper between squares keeps them apart.
            page.rect((LEFT + column * SIDE, from + line * SIDE), (SIDE - 1.0, SIDE - 1.0), &shade(fill));
        }
        y += strip(part);
    }
    legend(&mut page, y + 14.0, parts);
    histogram(&mut page, y + 52.0, parts);
    page.finish()
}

/// From almost white to deep blue, evenly to the eye: a region that is twice as full looks clearly darker.
fn shade(fill: f64) -> String {
    let ends = [(239.0, 8.0), (243.0, 48.0), (255.0, 107.0)];
    let [red, green, blue] = ends.map(|(light, dark)| (light + (dark - light) * fill.clamp(0.0, 1.0)).round() as u8);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn legend(page: &mut Document, y: f64, parts: &[Part<'_>]) {
    let font = Font::new(11.5, GREY);
    page.text((LEFT, y + 11.0), font, "set: 0 %");
    let from = LEFT + 52.0;
    (0..=20u32).for_each(|step| {
        let fill = f64::from(step) / 20.0;
        page.rect((from + f64::from(step) * 8.0, y + 1.0), (8.0, 12.0), &shade(fill));
    });
    page.text((from + 21.0 * 8.0 + 8.0, y + 11.0), font, "100 %");
    let regions: u64 = parts.iter().map(|part| part.regions.fills().len() as u64).sum();
    let words = format!("{}; an even colour is a healthy filter", counted(regions, "region"));
    page.text((WIDTH - LEFT, y + 11.0), font.anchored(Anchor::End), &words);
}

/// How many regions are how full.
fn histogram(page: &mut Document, top: f64, parts: &[Part<'_>]) {
    let fills: Vec<f64> = parts.iter().flat_map(|part| part.regions.fills()).collect();
    let Some((low, high, step)) = bins(&fills) else { return };
    let bars = ((high - low) / step).round().max(1.0) as usize;
    let mut counts = vec![0u32; bars];
    for fill in &fills {
        counts[(((fill - low) / step) as usize).min(bars - 1)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let (left, right, upper) = (LEFT + 42.0, WIDTH - LEFT, top + 40.0);
    let lower = upper + BARS;
    page.text((LEFT, top + 20.0), Font::new(15.0, DARK).bold(), "How full the regions are");
    let label = Font::new(11.5, GREY);
    for tick in round_ticks(0.0, f64::from(most), 4.0, 1.0) {
        let y = lower - tick / f64::from(most) * BARS;
        page.line((left, y), (right, y), FAINT, 1.0);
        page.text((left - 8.0, y + 4.0), label.anchored(Anchor::End), &format!("{tick:.0}"));
    }
    let width = (right - left) / bars as f64;
    for (at, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let height = f64::from(count) / f64::from(most) * BARS;
        page.rect((left + at as f64 * width + 0.5, lower - height), (width - 1.0, height), COLOURS[0]);
    }
    let at = |fill: f64| left + (fill - low) / (high - low) * (right - left);
    for tick in round_ticks(low * 100.0, high * 100.0, 8.0, 0.0) {
        let x = at(tick / 100.0);
        page.line((x, lower), (x, lower + 5.0), GREY, 1.0);
        let text = format!("{} %", format!("{tick:.2}").trim_end_matches('0').trim_end_matches('.'));
        page.text((x, lower + 19.0), label.anchored(Anchor::Middle), &text);
    }
    page.line((left, lower), (right, lower), GREY, 1.2);
    let mean = fills.iter().sum::<f64>() / fills.len() as f64;
    page.line((at(mean), upper - 8.0), (at(mean), lower), COLOURS[1], 1.8);
    // The words on the side with more room.
    let (anchor, aside) = if mean < (low + high) / 2.0 { (Anchor::Start, 6.0) } else { (Anchor::End, -6.0) };
    let words = format!("mean {}", percent(mean));
    page.text((at(mean) + aside, upper - 2.0), Font::new(12.0, DARK).bold().anchored(anchor), &words);
    page.text(((left + right) / 2.0, lower + 39.0), label.anchored(Anchor::Middle), "set cells of a region");
    page.upright((LEFT + 4.0, (upper + lower) / 2.0), label.anchored(Anchor::Middle), "regions");
}

/// From, to and width of the bars: round, a little wider than what there is, and never of nothing.
fn bins(fills: &[f64]) -> Option<(f64, f64, f64)> {
    let low = fills.iter().copied().reduce(f64::min)?;
    let high = fills.iter().copied().reduce(f64::max)?;
    // Even regions of millions of bits differ by hundredths of a percent: half a percent is the least that is shown.
    let span = (high - low).max(0.005);
    let power = 10f64.powf((span / MOST_BARS as f64).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    let step = steps.into_iter().find(|step| span / step <= (MOST_BARS - 2) as f64).unwrap_or(span);
    let middle = (low + high) / 2.0;
    let from = ((middle - span / 2.0) / step - 1e-9).floor() * step;
    let to = ((middle + span / 2.0) / step + 1e-9).ceil() * step;
    Some((from.max(0.0), to.min(1.0).max(from.max(0.0) + step), step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{Cell, LINES};
    use crate::svg::well_formed;

    #[test]
    fn any_fill_makes_a_page() {
        for byte in [0u8, 0xff, 0x0f, 0x01] {
            for bytes in [8u64, 64, 5000, 100_000] {
                let mut regions = Regions::new(Cell::Bit, bytes, LINES);
                regions.add(0, &vec![byte; bytes as usize]);
                let squares = regions.fills().len();
                let part = Part { name: Some("a <part> & more".into()), regions: &regions };
                let text = page("<title>", &["facts".into()], &[part]);
                well_formed::check(&text);
                // The paper, the squares, the 21 steps of the legend, and at least one bar.
                assert!(text.matches("<rect").count() >= squares + 23, "{byte} {bytes}");
            }
        }
        well_formed::check(&page("none", &[], &[]));
    }

    #[test]
    fn bars_hold_every_fill() {
        for fills in [vec![0.0], vec![1.0], vec![0.5; 9], vec![0.48, 0.52], vec![0.0, 1.0], vec![0.4999, 0.5001]] {
            let (low, high, step) = bins(&fills).unwrap();
            let bars = ((high - low) / step).round();
            assert!((1.0..=30.0).contains(&bars), "{fills:?}: {low} {high} {step}");
            assert!(fills.iter().all(|fill| (low - 1e-9..=high + 1e-9).contains(fill)), "{fills:?}: {low} {high}");
        }
        assert_eq!(bins(&[]), None);
        assert_eq!((shade(0.0), shade(1.0)), ("#eff3ff".into(), "#08306b".into()));
    }
}
