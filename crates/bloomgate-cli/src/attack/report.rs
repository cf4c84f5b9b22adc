//! What a run found, in words, numbers and bars; and what it means.

use bloomgate::math::estimate::{rate_interval, within};
use bloomgate_gate::Outcome;

use super::args::RunArgs;
use super::drive::Tally;
use super::fronts::Kind;
use crate::json::{self, Object};
use crate::number;
use crate::screen::{DIM, ERROR, HEAD, INK, STRONG, WARN, paint, wrapped};

/// Normal deviates of the interval (99 %), and beyond which a rate is no chance any more: three runs in a million.
pub const CONFIDENCE: f64 = 2.576;
pub const BEYOND_CHANCE: f64 = 4.5;
/// What a promise may be exceeded by: 5 %, the library's own margin for the luck of one filter with its keys.
const MARGIN: f64 = 1.05;
/// Columns of the longest bar.
const BAR: usize = 35;

/// What one front did.
pub struct Finding {
    pub kind: Kind,
    pub tally: Tally,
    /// Lookups that the cache was asked for, where there is one.
    pub cache_reads: Option<u64>,
    /// Lookups that the database was asked for.
    pub database_reads: u64,
    /// CPU seconds of the database during the run, where they can be known.
    pub database_cpu: Option<f64>,
}

impl Finding {
    /// Lookups, of all kinds.
    pub fn lookups(&self) -> u64 {
        self.tally.standing + self.tally.absent + self.tally.moving
    }

    /// The share of lookups that reached the database.
    pub fn database_share(&self) -> f64 {
        self.database_reads as f64 / self.lookups().max(1) as f64
    }

    fn per_second(&self) -> f64 {
        self.tally.requests as f64 / self.tally.elapsed.as_secs_f64().max(1e-9)
    }

    /// Whether the filter kept its promise, as far as chance lets one tell. Who has none promised nothing.
    pub fn keeps_rate(&self, asked: f64) -> bool {
        !self.kind.is_gate() || is_kept(self.tally.false_positives, self.tally.true_negatives, asked)
    }

    /// Whether its wrong answers are its nature: a cache beside which rows are written stores what it read before the
    /// write, and a negative cache so becomes the author of a wrong "no". Nothing is forgiven of the others.
    fn is_forgiven(&self) -> bool {
        matches!(self.kind, Kind::Cache | Kind::NegativeCache) && self.tally.puts + self.tally.deletes > 0
    }

    /// Whether every answer was right, as far as it has to be.
    pub fn is_right(&self) -> bool {
        let Tally { wrong_no, wrong_yes, wrong_row, .. } = self.tally;
        self.is_forgiven() || (wrong_no, wrong_yes, wrong_row) == (0, 0, 0)
    }
}

/// Whether so many false positives are within the promise, or as good as.
pub fn is_kept(hits: u64, trials: u64, asked: f64) -> bool {
    let most = (asked * MARGIN).min(1.0);
    hits as f64 <= trials as f64 * most || within(hits, trials, most, BEYOND_CHANCE)
}

/// A measured rate with its interval: `0.0213 % (99 %: 0.016 % to 0.028 %)`.
pub fn rate_in_words(hits: u64, trials: u64) -> String {
    let (low, high) = rate_interval(hits, trials, CONFIDENCE);
    let rate = hits as f64 / trials.max(1) as f64;
    format!("{} (99 % interval: {} to {})", number::percent(rate), number::percent(low), number::percent(high))
}

/// What was asked about and found.
pub struct Report<'a> {
    pub args: &'a RunArgs,
    pub source: String,
    pub cache: String,
    pub resp: Option<String>,
    pub findings: Vec<Finding>,
}

impl Report<'_> {
    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.findings.iter().all(|finding| finding.is_right() && finding.keeps_rate(self.args.rate))
    }

    /// The screen: no line is longer than 80 columns.
    pub fn on_screen(&self, unicode: bool) -> String {
        let args = self.args;
        let mut out = wrapped(
            "",
            &format!(
                "{} at each front, {} of the lookups for keys that do not exist; {} ask, {} in {}",
                number::counted(args.requests, "request"),
                plain_percent(args.absent),
                number::counted(args.shop.workers, "worker"),
                number::counted(args.shop.products, "product"),
                self.source,
            ),
        );
        out.push('\n');
        out.push_str(&self.database_bars(unicode));
        out.push('\n');
        out.push_str(&self.latency_bars(unicode));
        out.push('\n');
        out.push_str(&self.table());
        out.push('\n');
        out.push_str(&self.truth());
        if let Some(words) = self.conclusion() {
            out.push('\n');
            out.push_str(&paint(STRONG, wrapped("", &words).trim_end()));
            out.push('\n');
        }
        out
    }

    fn database_bars(&self, unicode: bool) -> String {
        let mut out = format!("{}\n", paint(HEAD, "Lookups that reached the database"));
        let most = self.findings.iter().map(|finding| finding.database_reads).max().unwrap_or(0).max(1);
        for finding in &self.findings {
            let share = finding.database_reads as f64 / most as f64;
            out.push_str(&format!(
                "  {:<16}  {} {:>12} {:>10}\n",
                finding.kind.title(),
                ink(finding.kind, &bar(share, BAR, unicode)),
                number::grouped(finding.database_reads),
                number::percent(finding.database_share()),
            ));
        }
        out
    }

    fn latency_bars(&self, unicode: bool) -> String {
        let mut out = format!(
            "{}{}\n",
            paint(HEAD, "Latency of a lookup"),
            paint(DIM, format!("{:>9}{:>10}{:>10}", "mean", "p50", "p99"))
        );
        let p99 = |finding: &Finding| finding.tally.latencies.quantile(0.99);
        let most = self.findings.iter().map(p99).fold(1e-9, f64::max);
        for finding in &self.findings {
            let latencies = &finding.tally.latencies;
            out.push_str(&format!(
                "  {:<16} {:>9} {:>9} {:>9}  {}\n",
                finding.kind.title(),
                number::time(latencies.mean()),
                number::time(latencies.quantile(0.5)),
                number::time(p99(finding)),
                ink(finding.kind, bar(p99(finding) / most, 28, unicode).trim_end()),
            ));
        }
        out
    }

    fn table(&self) -> String {
        let mut out = paint(
            HEAD,
            format!(
                "{:<18}{:>11}{:>11}{:>11}{:>12}{:>13}",
                "Where they ended", "at filter", "to cache", "to DB", "DB CPU", "requests/s"
            ),
        );
        out.push('\n');
        for finding in &self.findings {
            let filter = finding.kind.is_gate().then(|| number::grouped(finding.tally.ended(Outcome::AbsentByFilter)));
            out.push_str(&format!(
                "  {:<16}{:>11}{:>11}{:>11}{:>12}{:>13}\n",
                finding.kind.title(),
                filter.unwrap_or_else(|| "-".into()),
                finding.cache_reads.map_or_else(|| "-".into(), number::grouped),
                number::grouped(finding.database_reads),
                cpu_in_words(finding.database_cpu),
                number::grouped(finding.per_second().round() as u64),
            ));
        }
        out
    }

    /// What is true of the answers: false positives, and those that were wrong.
    fn truth(&self) -> String {
        let mut out = String::new();
        for finding in self.findings.iter().filter(|finding| finding.kind.is_gate()) {
            let tally = &finding.tally;
            let kept = finding.keeps_rate(self.args.rate);
            let words = format!(
                "{} of {} absent lookups got through {}: {}; promised: at most {}{}",
                number::grouped(tally.false_positives),
                number::grouped(tally.true_negatives),
                finding.kind.title(),
                rate_in_words(tally.false_positives, tally.true_negatives),
                plain_percent(self.args.rate),
                if kept { "" } else { ". THE PROMISE IS BROKEN" },
            );
            out.push_str(&paint(if kept { DIM } else { ERROR }, wrapped("  ", &words).trim_end()));
            out.push('\n');
            if finding.kind == Kind::GateResp {
                let why = "(A filter behind the Redis protocol can grow: it keeps half of its rate for the stages to come, \
                           and has room for half as many keys again. So it lets through far fewer than promised.)";
                out.push_str(&paint(DIM, wrapped("    ", why).trim_end()));
                out.push('\n');
            }
        }
        let judged = || self.findings.iter().filter(|finding| !finding.is_forgiven());
        let wrong = |of: fn(&Tally) -> u64| judged().map(|finding| of(&finding.tally)).sum::<u64>();
        let (wrong_no, wrong_yes) = (wrong(|tally| tally.wrong_no), wrong(|tally| tally.wrong_yes));
        let wrong_row = wrong(|tally| tally.wrong_row);
        let answers: u64 = judged().map(Finding::lookups).sum();
        let style = if wrong_no + wrong_yes + wrong_row == 0 { HEAD } else { ERROR };
        let mut words = format!("Wrong \"no\": {} in {} answers", number::grouped(wrong_no), number::grouped(answers));
        if judged().count() < self.findings.len() {
            let titles: Vec<&str> = judged().map(|finding| finding.kind.title()).collect();
            words.push_str(&format!(" of those that must be right beside writes ({})", titles.join("; ")));
        }
        if self.args.writes > 0.0 {
            let changes = wrong(|tally| tally.puts + tally.deletes);
            let rebuilds = wrong(|tally| tally.rebuilds);
            words.push_str(&format!(
                ", with {} and {} in all; rows after their deletion: {}, old rows: {}",
                number::counted(changes, "write"),
                number::counted(rebuilds, "rebuild"),
                number::grouped(wrong_yes),
                number::grouped(wrong_row),
            ));
        }
        out.push_str(&paint(style, wrapped("  ", &words).trim_end()));
        out.push('\n');
        for finding in &self.findings {
            let tally = &finding.tally;
            let wrong = tally.wrong_no + tally.wrong_yes + tally.wrong_row;
            if finding.is_forgiven() && wrong > 0 {
                let words = format!(
                    "{}: {} wrong \"no\" and {} old rows, since it keeps what it read before a write",
                    finding.kind.title(),
                    number::grouped(tally.wrong_no),
                    number::grouped(tally.wrong_yes + tally.wrong_row),
                );
                out.push_str(&paint(WARN, wrapped("  ", &words).trim_end()));
                out.push('\n');
            }
            if tally.errors > 0 {
                let words = format!("{}: {} failed", finding.kind.title(), number::counted(tally.errors, "request"));
                out.push_str(&format!("  {}\n", paint(WARN, words)));
            }
            for shown in &tally.shown {
                out.push_str(&wrapped("    ", &format!("{}: {shown}", finding.kind.title())));
            }
        }
        out
    }

    /// One sentence: what the gate keeps away, and what is left without it.
    pub fn conclusion(&self) -> Option<String> {
        let of = |kind: Kind| self.findings.iter().find(|finding| finding.kind == kind);
        let gate = of(Kind::Gate).or(of(Kind::GateResp))?;
        let tally = &gate.tally;
        if tally.true_negatives == 0 || !self.is_good() {
            return None;
        }
        let kept = 1.0 - tally.false_positives as f64 / tally.true_negatives as f64;
        let mut words = format!("{} of the lookups for absent keys never reached the database", nearly_all(kept));
        let before = [Kind::NegativeCache, Kind::Cache, Kind::Nothing].into_iter().find_map(of);
        if let Some(before) = before.filter(|before| before.database_reads > gate.database_reads) {
            words.push_str(&format!(
                ": {} reads instead of {} behind {}",
                number::grouped(gate.database_reads),
                number::grouped(before.database_reads),
                match before.kind {
                    Kind::Nothing => "nothing",
                    Kind::Cache => "a cache",
                    _ => "a negative cache",
                }
            ));
        }
        words.push('.');
        Some(words)
    }

    /// The findings as a JSON object.
    pub fn in_json(&self) -> String {
        let args = self.args;
        Object::default()
            .whole("products", args.shop.products)
            .whole("requests", args.requests)
            .whole("workers", args.shop.workers)
            .number("absent_share", args.absent)
            .number("zipf", args.zipf)
            .number("writes_share", args.writes)
            .number("rate", args.rate)
            .whole("seed", args.shop.seed)
            .text("source", &self.source)
            .text("cache", &self.cache)
            .raw("resp", &self.resp.as_deref().map_or_else(|| "null".into(), json::text))
            .flag("debug_build", cfg!(debug_assertions))
            .raw("fronts", &json::list(self.findings.iter().map(|finding| finding.in_json(args.rate))))
            .flag("good", self.is_good())
            .close()
    }
}

impl Finding {
    fn in_json(&self, asked: f64) -> String {
        let tally = &self.tally;
        let or_null = |value: Option<u64>| value.map_or_else(|| "null".into(), |value: u64| value.to_string());
        let filter = self.kind.is_gate();
        let outcomes = Outcome::ALL
            .into_iter()
            .fold(Object::default(), |object, outcome| object.whole(outcome.name(), tally.ended(outcome)));
        let latency = Object::default()
            .number("mean", tally.latencies.mean())
            .number("p50", tally.latencies.quantile(0.5))
            .number("p99", tally.latencies.quantile(0.99))
            .number("max", tally.latencies.longest());
        let (low, high) = rate_interval(tally.false_positives, tally.true_negatives, CONFIDENCE);
        let positives = Object::default()
            .whole("count", tally.false_positives)
            .whole("true_negatives", tally.true_negatives)
            .number("rate", tally.false_positives as f64 / tally.true_negatives.max(1) as f64)
            .number("low", low)
            .number("high", high)
            .flag("kept", self.keeps_rate(asked));
        Object::default()
            .text("front", self.kind.name())
            .whole("requests", tally.requests)
            .whole("present_lookups", tally.standing)
            .whole("absent_lookups", tally.absent)
            .whole("moving_lookups", tally.moving)
            .whole("puts", tally.puts)
            .whole("deletes", tally.deletes)
            .whole("rebuilds", tally.rebuilds)
            .raw("blocked_by_filter", &or_null(filter.then(|| tally.ended(Outcome::AbsentByFilter))))
            .raw("reached_cache", &or_null(self.cache_reads))
            .whole("reached_database", self.database_reads)
            .raw("outcomes", &outcomes.close())
            .number("seconds", tally.elapsed.as_secs_f64())
            .number("requests_per_second", self.per_second())
            .raw("latency_seconds", &latency.close())
            .maybe_number("database_cpu_seconds", self.database_cpu)
            .raw("false_positives", &if filter { positives.close() } else { "null".into() })
            .whole("wrong_no", tally.wrong_no)
            .whole("wrong_yes", tally.wrong_yes)
            .whole("wrong_row", tally.wrong_row)
            .whole("errors", tally.errors)
            .raw("shown", &json::list(tally.shown.iter().map(|shown| json::text(shown))))
            .close()
    }
}

/// A share close to one with the digits that say how close: 99.98 %.
pub fn nearly_all(share: f64) -> String {
    let missing = (1.0 - share).max(0.0) * 100.0;
    if missing == 0.0 {
        return "100 %".into();
    }
    let digits = (-missing.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{:.digits$} %", share * 100.0)
}

/// A share that somebody chose, without digits that say nothing: 95 %, 99.9 %.
pub fn plain_percent(share: f64) -> String {
    let text = format!("{:.10}", share * 100.0);
    match text.trim_end_matches('0').trim_end_matches('.') {
        "0" if share > 0.0 => format!("{share:e}"),
        digits => format!("{digits} %"),
    }
}

/// CPU time, where it is known.
pub fn cpu_in_words(seconds: Option<f64>) -> String {
    match seconds {
        None => "n/a".into(),
        Some(0.0) => "0 s".into(),
        Some(seconds) => number::time(seconds),
    }
}

/// Fronts with a filter in green, the others in the colour of bars.
fn ink(kind: Kind, drawn: &str) -> String {
    paint(if kind.is_gate() { STRONG } else { INK }, drawn)
}

/// A bar of this share of the width, filled up with spaces. What is more than nothing is seen.
pub fn bar(share: f64, width: usize, unicode: bool) -> String {
    let share = share.clamp(0.0, 1.0);
    let mut out = String::new();
    let mut used = 0;
    if unicode {
        let eighths = (share * width as f64 * 8.0).round() as usize;
        let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
        out.push_str(&"█".repeat(eighths / 8));
        used += eighths / 8;
        if !eighths.is_multiple_of(8) {
            out.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8 - 1]);
            used += 1;
        }
    } else {
        used = (share * width as f64).round() as usize;
        out.push_str(&"#".repeat(used));
        if used == 0 && share > 0.0 {
            out.push('|');
            used = 1;
        }
    }
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share_and_never_nothing_for_something() {
        for (share, unicode, drawn) in [
            (1.0, true, "████"),
            (0.5, true, "██  "),
            (0.53, true, "██▏ "),
            (1e-9, true, "▏   "),
            (0.0, true, "    "),
            (1e-9, false, "|   "),
            (0.5, false, "##  "),
            (f64::NAN, false, "    "),
        ] {
            assert_eq!(bar(share, 4, unicode), drawn, "{share}");
        }
    }

    #[test]
    fn shares_near_one_keep_their_digits() {
        assert_eq!([0.99, 0.9987, 0.99983, 1.0, 0.5].map(nearly_all), ["99 %", "99.9 %", "99.98 %", "100 %", "50 %"]);
    }

    #[test]
    fn shares_that_were_chosen_are_shown_as_they_were() {
        let shown = [0.95, 0.001, 1.0 - 0.001, 1e-9, 1.0 - 1e-9, 1e-14, 0.0].map(plain_percent);
        assert_eq!(shown, ["95 %", "0.1 %", "99.9 %", "0.0000001 %", "99.9999999 %", "1e-14", "0 %"]);
    }

    #[test]
    fn wrong_answers_are_forgiven_only_of_caches_beside_writes() {
        let finding = |kind: Kind, wrong_no: u64, puts: u64| {
            let tally = Tally { wrong_no, puts, ..Tally::default() };
            Finding { kind, tally, cache_reads: None, database_reads: 0, database_cpu: None }.is_right()
        };
        for kind in Kind::ALL {
            let cache = matches!(kind, Kind::Cache | Kind::NegativeCache);
            assert!(finding(kind, 0, 0) && finding(kind, 0, 5) && !finding(kind, 1, 0), "{kind:?}");
            assert_eq!(finding(kind, 1, 5), cache, "{kind:?}");
        }
    }

    #[test]
    fn a_promise_is_broken_only_beyond_doubt() {
        // 1000 expected of a million: 1050 are within the margin, 1100 may be chance, 1300 are not.
        assert!(is_kept(0, 1_000_000, 0.001) && is_kept(1050, 1_000_000, 0.001) && is_kept(1100, 1_000_000, 0.001));
        assert!(!is_kept(1300, 1_000_000, 0.001) && !is_kept(10, 10, 0.001));
        assert!(is_kept(0, 0, 0.001), "nothing asked, nothing broken");
    }
}
