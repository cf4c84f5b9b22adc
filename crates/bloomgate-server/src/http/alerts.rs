//! What is wrong now: the same alerts, by the same names, that packaging/alerts.yml has for Prometheus, for whoever has none.
//!
//! They are looked for every ten seconds, and told by /v1/overview, /v1/alerts and /v1/events. Each has a section in
//! docs/runbook.md.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::figures::{path_of, shown};
use super::metrics::unavailable;
use super::serving::House;
use crate::engine::watch::findings::{Finding, SUSPICIOUS, Verdict};
use crate::logging::counted;
use crate::session::space::Space;

/// How often it is looked.
pub(super) const EVERY_MS: u64 = 10_000;
/// Filters that are looked at.
const LOOKED_AT: usize = 20_000;
/// Alerts of one sort that are told.
const MOST: usize = 100;
/// A snapshot is too old after a day, if the log has grown by so much since.
const OLD_SECONDS: f64 = 86_400.0;
const MUCH_LOG: u64 = 256 << 20;
/// A rate that is so many times the asked one.
const TWICE: f64 = 2.0;

/// One alert.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Alert {
    pub name: &'static str,
    /// The heading in the runbook, as a link has it.
    pub section: &'static str,
    pub severity: &'static str,
    pub summary: String,
    /// The filter it is about, by its name in the engine.
    pub filter: Option<Vec<u8>>,
}

impl Alert {
    /// As a user sees it who is bound to a namespace, or to none; nothing if they do not.
    pub(super) fn to_json(&self, space: Option<&Space>) -> Option<Value> {
        let name = match (&self.filter, space) {
            (None, Some(_)) => return None,
            (Some(name), Some(space)) if !space.has(name) => return None,
            (Some(name), Some(space)) => Some(space.shown(name)),
            (name, None) => name.as_deref(),
        };
        Some(json!({
            "name": self.name, "severity": self.severity, "summary": self.summary,
            "filter": name.map(shown), "path": name.map(path_of),
            "runbook": format!("docs/runbook.md#{}", self.section),
        }))
    }
}

/// The alerts of the last look.
#[derive(Debug, Default)]
pub(super) struct Alerts(Mutex<Arc<Vec<Alert>>>);

impl Alerts {
    /// Those there are.
    pub(super) fn now(&self) -> Arc<Vec<Alert>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks again.
    pub(super) fn look(&self, house: &House) {
        let mut found = Vec::new();
        of_store(house, &mut found);
        of_filters(house, &mut found);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
    }
}

fn of_server(name: &'static str, section: &'static str, severity: &'static str, summary: String) -> Alert {
    Alert { name, section, severity, summary, filter: None }
}

fn of_store(house: &House, found: &mut Vec<Alert>) {
    if let Some(log) = house.engine.journal.log() {
        if !log.is_writable() {
            let why = format!("writes are refused: {}", log.failure());
            found.push(of_server("BloomgateStoreReadOnly", "store-read-only", "critical", why));
        }
        let (age, bytes) = (house.snapshot_age(), log.statistics().bytes);
        if house.desk.keeper.get().is_some() && age > OLD_SECONDS && bytes > MUCH_LOG {
            let why = format!("the last snapshot is {:.0} hours old, and the log has {bytes} bytes", age / 3_600.0);
            found.push(of_server("BloomgateSnapshotTooOld", "snapshot-too-old", "warning", why));
        }
    }
    let (secret, _) = unavailable(house);
    if secret > 0 {
        let why = format!("{} cannot answer without a secret", counted(secret, "filter"));
        found.push(of_server("BloomgateSecretMissing", "secret-missing", "critical", why));
    }
}

fn of_filters(house: &House, found: &mut Vec<Alert>) {
    let engine = &house.engine;
    let entries = engine.names.visible_from_id(0, LOOKED_AT);
    let full = entries.iter().filter_map(|entry| {
        let (items, capacity) = entry.with(|filter| (filter.len(), filter.capacity()))?;
        (items > capacity).then(|| Alert {
            name: "BloomgateOverCapacity",
            section: "over-capacity",
            severity: "warning",
            summary: format!("it holds {items} items and was made for {capacity}"),
            filter: Some(entry.name().into_owned()),
        })
    });
    found.extend(full.take(MOST));
    let findings = engine.watch.findings.all();
    let named = |finding: &Finding| Some(engine.names.by_id(finding.id)?.name().into_owned());
    let high = findings.iter().filter(|one| one.interval().0 > TWICE * one.promised).filter_map(|one| {
        Some(Alert {
            name: "BloomgateRateTooHigh",
            section: "rate-too-high",
            severity: "warning",
            summary: format!("it measures {:.3} % and promises {:.3} %", 100.0 * one.measured()?, 100.0 * one.promised),
            filter: Some(named(one)?),
        })
    });
    found.extend(high.take(MOST));
    let poisoned = findings.iter().filter(|one| one.verdict() == Verdict::Poisoned).filter_map(|one| {
        let score = one.score().unwrap_or(SUSPICIOUS);
        Some(Alert {
            name: "BloomgatePoisoning",
            section: "poisoning",
            severity: "critical",
            summary: format!("its bits are {score:.1} standard deviations from those of random keys"),
            filter: Some(named(one)?),
        })
    });
    found.extend(poisoned.take(MOST));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    fn read(path: &str) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
    }

    /// A heading as a link has it.
    fn anchor(heading: &str) -> String {
        let letters = heading.to_lowercase().replace(' ', "-");
        letters.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect()
    }

    #[test]
    fn rules_and_runbook_have_the_same_sections() {
        let (rules, runbook) = (read("packaging/alerts.yml"), read("docs/runbook.md"));
        let value = |line: &str, name: &str| Some(line.trim().strip_prefix(name)?.trim().trim_matches('"').to_owned());
        let names: Vec<String> = rules.lines().filter_map(|line| value(line, "- alert:")).collect();
        let links: Vec<String> = rules
            .lines()
            .filter_map(|line| Some(value(line, "runbook_url:")?.rsplit_once('#')?.1.to_owned()))
            .collect();
        assert_eq!(names.len(), links.len(), "each rule links to its section");
        assert!(names.len() >= 11, "{names:?}");
        let sections: Vec<&str> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let anchors: Vec<String> = sections.iter().map(|heading| anchor(heading)).collect();
        assert_eq!(links, anchors, "the same, in the same order");
        for (name, section) in names.iter().zip(runbook.split("\n## ").skip(1)) {
            assert!(section.contains(&format!("`{name}`")), "the section of {name} names it");
            for part in ["**Symptom.**", "**Check.**", "**Cause.**", "**Fix.**"] {
                assert!(section.contains(part), "{name} has no {part}");
            }
        }
        // What the server itself tells is among them.
        let code = include_str!("alerts.rs").split("#[cfg(test)]").next().unwrap();
        for name in code.split("\"Bloomgate").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(names.contains(&format!("Bloomgate{name}")), "Bloomgate{name}");
        }
        for link in
            ["store-read-only", "snapshot-too-old", "secret-missing", "over-capacity", "rate-too-high", "poisoning"]
        {
            assert!(anchors.iter().any(|anchor| anchor == link), "{link}");
        }
    }

    #[test]
    fn rules_and_dashboard_ask_for_metrics_that_there_are() {
        let known: Vec<String> = ["docs/metrics.md", "docs/gate.md"]
            .iter()
            .flat_map(|page| {
                let page = read(page);
                let rows = page
                    .lines()
                    .filter_map(|line| line.strip_prefix("| `bloomgate_")?.split('`').next().map(str::to_owned));
                rows.collect::<Vec<_>>()
            })
            .collect();
        for file in ["packaging/alerts.yml", "packaging/grafana.json"] {
            let text = read(file);
            let asked = text.split("bloomgate_").skip(1).map(|rest| {
                rest.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next().unwrap()
            });
            for name in asked {
                let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
                assert!(known.iter().any(|known| known == name || known == base), "{file}: bloomgate_{name}");
            }
        }
    }
}
