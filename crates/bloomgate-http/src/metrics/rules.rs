//! The rules that names of metrics keep (those of Prometheus's naming guide and of `promtool check metrics`, and our
//! prefix), and the table as documentation.

use super::{Kind, Metric};

/// Before every name.
const PREFIX: &str = "bloomgate_";
/// The units there are. Everything else is a multiple of them, and written in them.
const UNITS: [&str; 5] = ["seconds", "bytes", "ratio", "celsius", "joules"];
/// Words that betray another unit.
const OTHER_UNITS: [&str; 19] = [
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "ms",
    "us",
    "ns",
    "millis",
    "micros",
    "nanos",
    "minutes",
    "hours",
    "days",
    "kilobytes",
    "megabytes",
    "kb",
    "mb",
    "gb",
    "bits",
    "percent",
];
/// Endings that the forms give to numbers of their own.
const RESERVED: [&str; 6] = ["_total", "_count", "_sum", "_bucket", "_created", "_info"];
/// Labels that belong to histograms and to the scraper.
const RESERVED_LABELS: [&str; 5] = ["le", "quantile", "job", "instance", "__name__"];

/// Everything in a table that breaks a rule, a sentence each; a test of every table asks that there be none.
#[must_use]
pub fn check(table: &[&Metric]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, metric) in table.iter().enumerate() {
        let name = metric.name;
        let mut say = |what: String| wrong.push(format!("{name}: {what}"));
        if !name.starts_with(PREFIX) {
            say(format!("does not begin with {PREFIX}"));
        }
        if !is_snake(name) {
            say("is not made of lower-case words with one _ between".into());
        }
        let base = match metric.kind {
            Kind::Counter => name.strip_suffix("_total").unwrap_or_else(|| {
                say("is a counter and does not end in _total".into());
                name
            }),
            Kind::Gauge if name.ends_with("_info") => name.trim_end_matches("_info"),
            _ => name,
        };
        if let Some(ending) = RESERVED.iter().find(|ending| base.ends_with(**ending)) {
            say(format!("ends in {ending}, which the forms use themselves"));
        }
        if let Some(word) = base.split('_').find(|word| OTHER_UNITS.contains(word)) {
            say(format!("has the unit {word}; the units are {}", UNITS.join(", ")));
        }
        let last = base.rsplit('_').next().unwrap_or_default();
        match metric.unit {
            "" if UNITS.contains(&last) => say(format!("ends in the unit {last} and names none")),
            "" => {}
            unit if !UNITS.contains(&unit) => say(format!("has the unit {unit}; the units are {}", UNITS.join(", "))),
            unit if unit != last => say(format!("has the unit {unit} and does not end in it")),
            _ => {}
        }
        if metric.help.trim().is_empty() || metric.help.contains('\n') {
            say("needs a help text of one line".into());
        }
        for label in metric.labels {
            if !is_snake(label) || RESERVED_LABELS.contains(label) {
                say(format!("has the label {label}, which is reserved or no lower-case word"));
            }
        }
        if table[..at].iter().any(|other| other.name == name) {
            say("stands in the table twice".into());
        }
    }
    wrong
}

fn is_snake(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .split('_')
            .all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()))
}

/// The table as Markdown, for the documentation.
#[must_use]
pub fn markdown(table: &[&Metric]) -> String {
    let mut page = String::from("| metric | kind | unit | labels | what it is |\n|---|---|---|---|---|\n");
    for metric in table {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        page.push_str(&format!(
            "| `{}` | {} | {} | {} | {} |\n",
            metric.name,
            metric.kind.name(),
            metric.unit,
            labels.join(", "),
            metric.help.replace('|', "\\|")
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_noticed() {
        for (metric, says) in [
            (Metric::gauge("filters", "h", ""), "begin with bloomgate_"),
            (Metric::gauge("bloomgate_Filters", "h", ""), "lower-case"),
            (Metric::gauge("bloomgate__filters", "h", ""), "lower-case"),
            (Metric::counter("bloomgate_lookups", "h", ""), "_total"),
            (Metric::gauge("bloomgate_lookups_total", "h", ""), "_total, which the forms use"),
            (Metric::gauge("bloomgate_lookups_count", "h", ""), "_count, which the forms use"),
            (Metric::gauge("bloomgate_age_milliseconds", "h", ""), "has the unit milliseconds"),
            (Metric::gauge("bloomgate_age_seconds", "h", ""), "names none"),
            (Metric::gauge("bloomgate_age", "h", "seconds"), "does not end in it"),
            (Metric::gauge("bloomgate_age_weeks", "h", "weeks"), "the units are"),
            (Metric::gauge("bloomgate_filters", "", ""), "help"),
            (Metric::gauge("bloomgate_filters", "two\nlines", ""), "help"),
            (Metric::gauge("bloomgate_filters", "h", "").labels(&["le"]), "label le"),
            (Metric::gauge("bloomgate_filters", "h", "").labels(&["Big"]), "label Big"),
        ] {
            let wrong = check(&[&metric]);
            assert!(wrong.iter().any(|sentence| sentence.contains(says)), "{metric:?}: {wrong:?}");
        }
        let good = Metric::counter("bloomgate_source_seconds_total", "Time", "seconds").labels(&["source"]);
        let info = Metric::gauge("bloomgate_build_info", "Version", "").labels(&["version"]);
        assert_eq!(check(&[&good, &info]), Vec::<String>::new());
        assert!(check(&[&good, &good])[0].contains("twice"));
    }

    #[test]
    fn the_documentation_has_a_row_for_each() {
        let metric = Metric::gauge("bloomgate_age_seconds", "Age | of it", "seconds").labels(&["a", "b"]);
        let page = markdown(&[&metric]);
        assert!(page.ends_with("| `bloomgate_age_seconds` | gauge | seconds | `a`, `b` | Age \\| of it |\n"), "{page}");
    }
}
