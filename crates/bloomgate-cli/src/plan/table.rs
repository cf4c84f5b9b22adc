//! The kinds beside each other: those that fit the need as rows, the others in a line with the reason.

use bloomgate::Kind;
use bloomgate::advice::{Need, Row, misfit};

use crate::json::Object;
use crate::number;
use crate::screen::{DIM, STRONG, paint, wrapped};

/// A row, and why it falls away if it does.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    pub row: Row,
    pub misfit: Option<&'static str>,
}

/// The rows, each with what the need says of it. What was chosen fits.
pub fn candidates(rows: Vec<Row>, need: &Need, chosen: Option<Kind>) -> Vec<Candidate> {
    let too_large = |row: &Row| need.memory_bytes.is_some_and(|memory| row.bytes > memory);
    let judged = |row: Row| {
        let why = misfit(row.kind, need).or(too_large(&row).then_some("over the memory"));
        Candidate { row, misfit: why.filter(|_| chosen != Some(row.kind)) }
    };
    rows.into_iter().map(judged).collect()
}

/// The table, and below it what does not fit.
pub fn table(candidates: &[Candidate], chosen: Option<Kind>, unicode: bool) -> String {
    let head = format!(
        "  {:<14} {:>9} {:>8} {:>9} {:>10} {:>10} {:>10}",
        "kind", "size", "k", "bits/key", "rate", "at 2x", "at 10x"
    );
    let mut out = paint(DIM, head) + "\n";
    for Candidate { row, .. } in candidates.iter().filter(|candidate| candidate.misfit.is_none()) {
        let line = format!(
            "{:<14} {:>9} {:>8} {:>9} {:>10} {:>10} {:>10}",
            row.kind.name(),
            number::bytes(row.bytes),
            probes(row.kind, row.probes),
            format!("{:.2}", row.bits_per_key),
            number::percent(row.rate),
            overfilled(row.kind, row.rate_at_2x),
            overfilled(row.kind, row.rate_at_10x)
        );
        out.push_str(&marked(&line, chosen == Some(row.kind), unicode));
    }
    // One clause for each reason, in the order in which they come.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for candidate in candidates {
        let Some(why) = candidate.misfit else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, kinds)) => kinds.push(candidate.row.kind.name()),
            None => reasons.push((why, vec![candidate.row.kind.name()])),
        }
    }
    if !reasons.is_empty() {
        let told: Vec<String> = reasons.iter().map(|(why, kinds)| format!("{} ({why})", kinds.join(", "))).collect();
        out.push_str(&paint(DIM, wrapped("  ", &format!("left out: {}", told.join("; ")))));
    }
    out
}

/// A line of a table, pointed at if it is the one that was chosen.
pub fn marked(line: &str, chosen: bool, unicode: bool) -> String {
    match (chosen, unicode) {
        (true, true) => format!("{}\n", paint(STRONG, format!("▸ {line}"))),
        (true, false) => format!("{}\n", paint(STRONG, format!("> {line}"))),
        (false, _) => format!("  {line}\n"),
    }
}

/// The rate with too many keys; some take no more than they were made for.
fn overfilled(kind: Kind, rate: Option<f64>) -> String {
    let none = if kind.takes_inserts() { "refuses" } else { "fixed" };
    rate.map_or_else(|| none.into(), number::percent)
}

/// Hashes of a key, or the cache lines that it reads in the kinds that keep it together.
fn probes(kind: Kind, probes: u32) -> String {
    match kind {
        Kind::Classic | Kind::Partitioned => probes.to_string(),
        _ if probes == 0 => String::new(),
        _ if probes == 1 => "1 line".into(),
        _ => format!("{probes} lines"),
    }
}

/// A row for programs.
pub fn in_json(candidate: &Candidate) -> String {
    let row = &candidate.row;
    let object = Object::default()
        .text("kind", row.kind.name())
        .whole("bits", row.bits)
        .whole("bytes", row.bytes)
        .number("bits_per_key", row.bits_per_key)
        .whole("probes", u64::from(row.probes))
        .number("rate", row.rate)
        .maybe_number("rate_at_2x", row.rate_at_2x)
        .maybe_number("rate_at_10x", row.rate_at_10x)
        .flag("fits", candidate.misfit.is_none());
    match candidate.misfit {
        Some(why) => object.text("why_not", why).close(),
        None => object.close(),
    }
}
