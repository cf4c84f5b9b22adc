//! The picture of a run: how many lookups each front lets through to the database, with the p99 and the database's CPU
//! beside it. One page, readable at the width of a README.

use super::report::{Report, cpu_in_words, nearly_all, plain_percent};
use crate::number;
use crate::svg::{Anchor, COLOURS, DARK, Document, FAINT, Font, GREY};

const WIDTH: f64 = 820.0;
const MARGIN: f64 = 28.0;
/// Where bars begin, and how long the longest is; its number stands behind it.
const BARS: f64 = 180.0;
const LONGEST: f64 = 322.0;
/// The right edges of the two columns.
const P99: f64 = 684.0;
const CPU: f64 = WIDTH - MARGIN;
const FIRST: f64 = 118.0;
const APART: f64 = 42.0;
const THICK: f64 = 24.0;

/// Draws the findings.
pub fn draw(report: &Report) -> String {
    let args = report.args;
    let below = FIRST + APART * report.findings.len() as f64;
    let title = "Lookups that reach the database";
    let mut page = Document::new(WIDTH, below + 78.0, title);
    page.text((MARGIN, 38.0), Font::new(21.0, DARK).bold(), title);
    let about = format!(
        "{} at each front, {} of them for keys that do not exist; {}, {}, {}",
        number::counted(args.requests, "request"),
        plain_percent(args.absent),
        number::counted(args.shop.workers, "worker"),
        number::counted(args.shop.products, "product"),
        report.source,
    );
    page.text((MARGIN, 62.0), Font::new(13.0, GREY), &about);
    page.text((BARS, FIRST - 14.0), Font::new(12.5, GREY), "lookups at the database");
    let head = Font::new(12.5, GREY).anchored(Anchor::End);
    page.text((P99, FIRST - 14.0), head, "p99 latency");
    page.text((CPU, FIRST - 14.0), head, "database CPU");
    let most = report.findings.iter().map(|finding| finding.database_reads).max().unwrap_or(0).max(1) as f64;
    for (row, finding) in report.findings.iter().enumerate() {
        let top = FIRST + APART * row as f64;
        let line = top + THICK * 0.5 + 5.0;
        if row > 0 {
            page.line((MARGIN, top - (APART - THICK) / 2.0), (WIDTH - MARGIN, top - (APART - THICK) / 2.0), FAINT, 1.0);
        }
        let gate = finding.kind.is_gate();
        let name = Font::new(14.5, DARK);
        page.text((MARGIN, line), if gate { name.bold() } else { name }, finding.kind.title());
        // What is more than nothing is seen.
        let long =
            (LONGEST * finding.database_reads as f64 / most).max(if finding.database_reads > 0 { 2.0 } else { 0.0 });
        page.rect((BARS, top), (long, THICK), if gate { COLOURS[2] } else { COLOURS[1] });
        let count = Font::new(14.5, DARK).bold();
        let words = number::grouped(finding.database_reads);
        page.text((BARS + long + 8.0, line), count, &words);
        if gate {
            let share = format!("{} of all", number::percent(finding.database_share()));
            page.text((BARS + long + 18.0 + 8.6 * words.len() as f64, line), Font::new(13.0, GREY), &share);
        }
        let figure = Font::new(14.5, DARK).anchored(Anchor::End);
        page.text((P99, line), figure, &time(finding.tally.latencies.quantile(0.99)));
        page.text((CPU, line), figure, &cpu_in_words(finding.database_cpu));
    }
    page.line((MARGIN, below + 2.0), (WIDTH - MARGIN, below + 2.0), FAINT, 1.0);
    page.text((MARGIN, below + 30.0), Font::new(13.0, GREY), &foot(report));
    page.text((MARGIN, below + 50.0), Font::new(13.0, GREY), PLACES);
    page.finish()
}

/// Where things are: a latency of microseconds is one of a call, not of a network.
const PLACES: &str = "Workers, caches and gate are in one process, called without a network; RESP: the filter is behind the \
                      Redis protocol.";

/// A time with the letter that pages can show.
fn time(seconds: f64) -> String {
    number::time(seconds).replace(" us", " \u{b5}s")
}

/// The line below: the two sentences, as measured.
fn foot(report: &Report) -> String {
    let wrong: u64 = report.findings.iter().map(|finding| finding.tally.wrong_no).sum();
    let mut words = format!("Wrong \u{201c}no\u{201d}: {}.", number::grouped(wrong));
    if let Some(gate) = report.findings.iter().find(|finding| finding.kind.is_gate()) {
        let tally = &gate.tally;
        let through = tally.false_positives as f64 / tally.true_negatives.max(1) as f64;
        words.push_str(&format!(
            " Lookups of absent keys that the filter stops: {} (promised: at least {}).",
            nearly_all(1.0 - through),
            plain_percent(1.0 - report.args.rate)
        ));
    }
    words
}
