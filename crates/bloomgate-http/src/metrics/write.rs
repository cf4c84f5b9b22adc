//! Writes a scrape: the text format 0.0.4 of Prometheus, or OpenMetrics 1.0.
//!
//! They differ in four things: OpenMetrics names the family of a counter without `_total`, has `# UNIT`, escapes quotes
//! in help texts, and ends with `# EOF`.

use std::fmt::Write;

use super::{Form, Kind, Metric, Sample, Scrape, Value};

pub(super) fn scrape(scrape: &Scrape, form: Form) -> String {
    let mut text = String::with_capacity(256 * scrape.families.len());
    for (metric, samples) in &scrape.families {
        let family = match (form, metric.kind) {
            (Form::OpenMetrics, Kind::Counter) => metric.name.strip_suffix("_total").unwrap_or(metric.name),
            _ => metric.name,
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {family} {}", escaped(metric.help, form == Form::OpenMetrics));
        let _ = writeln!(text, "# TYPE {family} {}", metric.kind.name());
        if form == Form::OpenMetrics && !metric.unit.is_empty() {
            let _ = writeln!(text, "# UNIT {family} {}", metric.unit);
        }
        for one in samples {
            sample(&mut text, metric, one);
        }
    }
    if form == Form::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn sample(text: &mut String, metric: &Metric, sample: &Sample) {
    let name = metric.name;
    match &sample.value {
        Value::Whole(value) => {
            let _ = writeln!(text, "{name}{} {value}", labels(metric, sample, None));
        }
        Value::Number(value) => {
            let _ = writeln!(text, "{name}{} {}", labels(metric, sample, None), number(*value));
        }
        Value::Buckets { bounds, counts, sum } => {
            let mut below = 0;
            let ends = bounds.iter().copied().chain([f64::INFINITY]);
            for (bound, count) in ends.zip(counts) {
                below += count;
                let _ = writeln!(text, "{name}_bucket{} {below}", labels(metric, sample, Some(bound)));
            }
            let _ = writeln!(text, "{name}_sum{} {}", labels(metric, sample, None), number(*sum));
            let _ = writeln!(text, "{name}_count{} {below}", labels(metric, sample, None));
        }
    }
}

fn labels(metric: &Metric, sample: &Sample, bound: Option<f64>) -> String {
    let mut pairs: Vec<String> = metric
        .labels
        .iter()
        .zip(&sample.labels)
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)))
        .collect();
    if let Some(bound) = bound {
        pairs.push(format!("le=\"{}\"", canonical(bound)));
    }
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

/// Backslash and line feed, and the quote where a quote would end the text.
fn escaped(text: &str, quotes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out
}

fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".into(),
        f64::INFINITY => "+Inf".into(),
        f64::NEG_INFINITY => "-Inf".into(),
        value => value.to_string(),
    }
}

/// A bound is a label, so one value must always have one spelling: OpenMetrics wants `1.0`, not `1`.
fn canonical(bound: f64) -> String {
    let text = number(bound);
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text + ".0" } else { text }
}
