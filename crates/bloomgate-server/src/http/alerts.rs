//! What is wrong now: the same alerts, by the same names, that packaging/alerts.yml has for Prometheus, for whoever has none.
//!
//! They are looked for every ten seconds ([`Lookout`](super::lookout::Lookout)), and told by /v1/overview, /v1/alerts,
//! /v1/events and the webhook. Each has a section in docs/runbook.md.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bloomgate_http::listen::Traffic;
use serde_json::{Value, json};

use super::attack::{Signs, Window};
use super::figures::{path_of, shown};
use super::survey::Survey;
use crate::engine::Engine;
use crate::engine::watch::findings::{Finding, POISONED};
use crate::logging::counted;
use crate::session::desk::Desk;
use crate::session::space::Space;

/// Alerts of one sort that are told, and that users of one namespace are told, whatever filters others have.
const MOST: usize = 100;
const MOST_OF_ONE: usize = 20;
/// A snapshot is too old after a day, if the log has grown by so much since.
const OLD_SECONDS: f64 = 86_400.0;
const MUCH_LOG: u64 = 256 << 20;
/// A rate that is so many times the asked one.
const TWICE: f64 = 2.0;
/// The share of what may be had from which on it is nearly spent: nine tenths.
const NEARLY: (u64, u64) = (9, 10);
/// Namespaces that are named where several have nearly all they may have.
const NAMESPACES_NAMED: usize = 5;

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
    /// How many filters are as wrong; no more than [`MOST`] of them are told.
    pub alike: u64,
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
            // How many filters others have is nothing for a user of one namespace.
            "total": Some(self.alike).filter(|_| space.is_none()),
            "runbook": bloomgate_http::runbook::path(self.section),
        }))
    }

    /// As the webhook is told it.
    pub(super) fn for_webhook(&self) -> bloomgate_http::webhook::Alert {
        bloomgate_http::webhook::Alert {
            name: self.name,
            severity: self.severity,
            summary: self.summary.clone(),
            section: self.section,
            filter: self.filter.as_deref().map(shown),
        }
    }
}

/// How old the last snapshot is, in seconds; since the start if there is none.
pub(super) fn snapshot_age(engine: &Engine, desk: &Desk) -> f64 {
    let saved = desk.keeper.get().map_or(0, |keeper| keeper.last_save_s());
    match saved {
        0 => desk.started.elapsed().as_secs_f64(),
        saved => (engine.clock.now_ms() as f64 / 1_000.0 - saved as f64).max(0.0),
    }
}

/// What one look has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// For those who run the server.
    all: Vec<Alert>,
    /// For the users of each namespace, by its number.
    of_spaces: HashMap<u16, Vec<Alert>>,
}

impl Found {
    /// For those who run the server.
    pub(super) fn all(&self) -> &[Alert] {
        &self.all
    }

    /// For somebody who is bound to this namespace, or to none.
    pub(super) fn of(&self, bound: Option<u16>) -> &[Alert] {
        match bound {
            None => &self.all,
            Some(space) => self.of_spaces.get(&space).map_or(&[], |alerts| alerts),
        }
    }

    /// Takes the alerts of one sort, each with the namespace of its filter.
    fn take(&mut self, alerts: impl Iterator<Item = (u16, Alert)>) {
        let (mut told, mut of_each) = (0, HashMap::<u16, usize>::new());
        for (space, alert) in alerts {
            if space != 0 {
                let of_one = of_each.entry(space).or_default();
                if *of_one < MOST_OF_ONE {
                    *of_one += 1;
                    self.of_spaces.entry(space).or_default().push(alert.clone());
                }
            }
            if told < MOST {
                told += 1;
                self.all.push(alert);
            }
        }
    }
}

/// The alerts of the last look, and what those before it have seen.
#[derive(Debug, Default)]
pub(super) struct Alerts {
    now: Mutex<Arc<Found>>,
    attack: Mutex<Window>,
}

impl Alerts {
    /// Those there are.
    pub(super) fn now(&self) -> Arc<Found> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks again.
    pub(super) fn look(&self, engine: &Engine, desk: &Desk, traffic: &Traffic, survey: &Survey) {
        let mut found = Vec::new();
        of_store(engine, desk, &mut found);
        let mut attack = self.attack.lock().unwrap_or_else(PoisonError::into_inner);
        let signs = attack.look(Signs::of(desk, traffic), Instant::now());
        drop(attack);
        if let Some(why) = signs.verdict() {
            found.push(of_server("BloomgateUnderAttack", "under-attack", "warning", why));
        }
        of_memory(engine, &mut found);
        let mut found = Found { all: found, of_spaces: HashMap::new() };
        of_filters(engine, survey, &mut found);
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
    }
}

fn of_server(name: &'static str, section: &'static str, severity: &'static str, summary: String) -> Alert {
    Alert { name, section, severity, summary, filter: None, alike: 1 }
}

fn of_store(engine: &Engine, desk: &Desk, found: &mut Vec<Alert>) {
    if let Some(log) = engine.journal.log() {
        if !log.is_writable() {
            let why = format!("writes are refused: {}", log.failure());
            found.push(of_server("BloomgateStoreReadOnly", "store-read-only", "critical", why));
        }
        let (age, bytes) = (snapshot_age(engine, desk), log.statistics().bytes);
        if desk.keeper.get().is_some() && age > OLD_SECONDS && bytes > MUCH_LOG {
            let why = format!("the last snapshot is {:.0} hours old, and the log has {bytes} bytes", age / 3_600.0);
            found.push(of_server("BloomgateSnapshotTooOld", "snapshot-too-old", "warning", why));
        }
        if let Some(why) = desk.keeper.get().and_then(|keeper| keeper.last_error()) {
            let why = format!("the last snapshot failed, and the log grows: {why}");
            found.push(of_server("BloomgateSnapshotFailed", "snapshot-failed", "warning", why));
        }
    }
    let secret = engine.names.without_secret() as u64;
    if secret > 0 {
        let why = format!("{} cannot answer without a secret", counted(secret, "filter"));
        found.push(of_server("BloomgateSecretMissing", "secret-missing", "critical", why));
    }
}

/// Whether so much of what may be had is nearly all of it.
fn is_nearly_spent(used: u64, most: u64) -> bool {
    u128::from(used) * u128::from(NEARLY.1) > u128::from(most) * u128::from(NEARLY.0)
}

fn of_memory(engine: &Engine, found: &mut Vec<Alert>) {
    let (used, most) = (engine.budget.used(), engine.budget.most());
    if is_nearly_spent(used, most) {
        let why = format!("filters take {used} bytes of the {most} they may have (max-memory)");
        found.push(of_server("BloomgateMemoryNearlySpent", "memory-nearly-spent", "warning", why));
    }
    // Of tens of thousands of namespaces nothing is kept but those that are told.
    let (mut named, mut full) = (Vec::new(), 0);
    engine.namespaces.tell_others(0, |told| {
        if told.max_memory > 0 && is_nearly_spent(told.used, told.max_memory) {
            full += 1;
            if named.len() < NAMESPACES_NAMED {
                named.push(format!("{} has {} bytes of {}", told.name, told.used, told.max_memory));
            }
        }
    });
    if full > 0 {
        let more = full - named.len() as u64;
        let more = if more > 0 { format!(", and {} more", counted(more, "namespace")) } else { String::new() };
        let why = format!("nearly all the memory that a namespace may have is taken: {}{more}", named.join(", "));
        found.push(of_server("BloomgateNamespaceNearlyFull", "namespace-nearly-full", "warning", why));
    }
}

/// A rate for people, with three digits that count: 45.2 %, 1 %.
fn percent(rate: f64) -> String {
    let percent = 100.0 * rate;
    let places = if percent > 0.0 { (2.0 - percent.log10().floor()).clamp(0.0, 9.0) as usize } else { 0 };
    let text = format!("{percent:.places$}");
    let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short} %")
}

fn of_filters(engine: &Engine, survey: &Survey, found: &mut Found) {
    let overfull = survey.overfull.iter().map(|one| Alert {
        name: "BloomgateOverCapacity",
        section: "over-capacity",
        severity: "warning",
        summary: format!("it holds {}, and was made for {}", counted(one.items, "item"), counted(one.capacity, "item")),
        filter: Some(one.name.clone()),
        alike: survey.over_capacity,
    });
    found.take(survey.overfull.iter().map(|one| one.space).zip(overfull));
    let findings = engine.watch.findings.all();
    // One that is gone has none.
    let filter_of = |finding: &Finding| engine.names.by_id(finding.id);
    let is_high = |one: &&Finding| one.interval().0 > TWICE * one.promised;
    let all_high = findings.iter().filter(is_high).count() as u64;
    let high = findings.iter().filter(is_high).filter_map(|one| {
        let filter = filter_of(one)?;
        let alert = Alert {
            name: "BloomgateRateTooHigh",
            section: "rate-too-high",
            severity: "warning",
            summary: format!("it measures {} and promises {}", percent(one.measured()?), percent(one.promised)),
            filter: Some(filter.name().into_owned()),
            alike: all_high,
        };
        Some((filter.space(), alert))
    });
    found.take(high);
    // Those whose rate is above twice the promised one are among them (Verdict::Poisoned). The others are on their way there.
    let poisonous = |one: &Finding| one.score().filter(|&score| score > POISONED);
    let all_poisoned = findings.iter().filter(|one| poisonous(one).is_some()).count() as u64;
    let poisoned = findings.iter().filter_map(|one| {
        let (score, filter) = (poisonous(one)?, filter_of(one)?);
        let alert = Alert {
            name: "BloomgatePoisoning",
            section: "poisoning",
            severity: "critical",
            summary: format!("its bits are {score:.1} standard deviations from those of random keys"),
            filter: Some(filter.name().into_owned()),
            alike: all_poisoned,
        };
        Some((filter.space(), alert))
    });
    found.take(poisoned);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::survey::Overfull;
    use super::*;

    fn read(path: &str) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
    }

    /// A heading as a link has it.
    fn anchor(heading: &str) -> String {
        let letters = heading.to_lowercase().replace(' ', "-");
        letters.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect()
    }

    #[test]
    fn rates_are_for_people() {
        for (rate, told) in [(0.45049, "45 %"), (0.01, "1 %"), (0.000_257_4, "0.0257 %"), (1.0, "100 %"), (0.0, "0 %")]
        {
            assert_eq!(percent(rate), told);
        }
    }

    /// A hundred alerts about filters of others leave those of a namespace to its users.
    #[test]
    fn users_of_a_namespace_are_told_of_its_filters_whatever_others_have() {
        let overfull = |name: String, space| Overfull { name: name.into_bytes(), space, items: 2, capacity: 1 };
        let mut survey = Survey { over_capacity: 131, ..Survey::default() };
        survey.overfull.extend((0..130).map(|number| overfull(format!("b:{number}"), 2)));
        survey.overfull.push(overfull("a:mine".to_owned(), 1));
        let contracts = crate::engine::contracts::Contracts::new(None);
        let limits = crate::engine::Limits { max_memory: 1 << 24, max_filter_memory: 1 << 24, max_filters: 100 };
        let (journal, clock) = (crate::engine::journal::Journal::nowhere(), crate::engine::clock::Clock::start());
        let engine = Engine::new(journal, contracts, clock, limits, crate::engine::Defaults::default(), 1);
        let mut found = Found::default();
        of_filters(&engine, &survey, &mut found);
        assert_eq!((found.of(None).len(), found.of(Some(2)).len(), found.of(Some(3)).len()), (MOST, MOST_OF_ONE, 0));
        let own: Vec<_> = found.of(Some(1)).iter().map(|alert| (alert.name, alert.filter.as_deref())).collect();
        assert_eq!(own, [("BloomgateOverCapacity", Some(&b"a:mine"[..]))]);
    }

    #[test]
    fn more_than_nine_tenths_are_nearly_all() {
        for (used, most, is_nearly) in [(90, 100, false), (91, 100, true), (0, 0, false), (1, 0, true)] {
            assert_eq!(is_nearly_spent(used, most), is_nearly, "{used} of {most}");
        }
        assert!(is_nearly_spent(u64::MAX, u64::MAX) && !is_nearly_spent(u64::MAX / 2, u64::MAX));
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
        assert!(names.len() >= 12, "{names:?}");
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
        for link in [
            "store-read-only",
            "snapshot-too-old",
            "snapshot-failed",
            "secret-missing",
            "over-capacity",
            "poisoning",
            "under-attack",
            "memory-nearly-spent",
            "namespace-nearly-full",
        ] {
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
