//! What is wrong with a gate, by the names and the rules that packaging/alerts.yml has for Prometheus, for whoever has none:
//! looked for every ten seconds, and told by `/alerts`, by `/events` and to a webhook.
//!
//! Of the rules for gates two are not here: that the share of avoided lookups falls takes the history of a day, and that
//! versions differ takes more than one process.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bloomgate_http::webhook::{Alert, Webhook};
use bloomgate_http::{moment, runbook};
use serde_json::{Value, json};

use super::{Desk, GateService};
use crate::events::Part;
use crate::stats::PartStats;
use crate::tenants::TenantCounts;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(10);
/// For how long a gate may block nothing, fail to rebuild or have tenants without a filter: every start and every short
/// failure has such moments.
const FOR: Duration = Duration::from_secs(600);
/// For how long a part may not answer: that is no moment of every start.
const DOWN_FOR: Duration = Duration::from_secs(300);
/// For how long a "no" that was wrong is told.
const WRONG_FOR: Duration = Duration::from_secs(3_600);
/// A rebuild is late after twice the time between two and this: a rebuild takes a while too, and a schedule of seconds is no
/// reason to wake anybody.
const SLACK: Duration = Duration::from_secs(3_600);
/// Without a schedule a filter that is older is rebuilt late, if rows were deleted since.
const UNSCHEDULED: Duration = Duration::from_secs(7 * 86_400);
/// Tenants that a sentence names.
const NAMED: usize = 3;

/// What alerts are about, at one moment.
#[derive(Clone, Debug, Default)]
struct Facts {
    blocking: bool,
    wrong: u64,
    /// The tenants that a wrong "no" was about.
    whose: Vec<String>,
    rebuild_failures: u64,
    /// As of when the filter in force was built; of many, the oldest.
    built: Option<Duration>,
    /// How often a rebuild is due.
    every: Option<Duration>,
    removed: u64,
    tenants: TenantCounts,
    /// Parts that do not answer.
    down: Vec<Part>,
}

/// Those of the parts that do not answer.
fn down(parts: PartStats) -> Vec<Part> {
    parts.each().filter(|(_, is_up)| !is_up).map(|(part, _)| part).collect()
}

impl Facts {
    /// How old the filter is, if it should have been rebuilt.
    fn late_by(&self, now: Duration) -> Option<Duration> {
        let age = now.saturating_sub(self.built?);
        let most = match self.every {
            Some(every) => every.saturating_mul(2).saturating_add(SLACK),
            None if self.removed > 0 => UNSCHEDULED,
            None => return None,
        };
        (age > most).then_some(age)
    }
}

/// What was seen so far: a state machine of facts and moments, without a clock of its own.
#[derive(Debug, Default)]
struct Watch {
    idle_since: Option<Duration>,
    /// Since when each of the three parts has been down.
    down_since: [Option<Duration>; 3],
    failing_since: Option<Duration>,
    missing_since: Option<Duration>,
    wrong: u64,
    wrong_at: Option<Duration>,
}

fn alert(name: &'static str, severity: &'static str, section: &'static str, summary: String) -> Alert {
    Alert { name, severity, summary, section, filter: None }
}

/// For how long something has been so, with this look.
fn lasting(since: &mut Option<Duration>, is_so: bool, now: Duration) -> Duration {
    match is_so {
        true => now.saturating_sub(*since.get_or_insert(now)),
        false => {
            *since = None;
            Duration::ZERO
        }
    }
}

/// About how long, for people: 3 days, 5 hours, 20 minutes, 3 seconds.
fn about(time: Duration) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    // The largest unit of which there are two, so that a day and a half is 36 hours.
    let fitting = units.iter().find(|(seconds, _)| time.as_secs() >= 2 * seconds);
    let (seconds, unit) = fitting.unwrap_or(&(1, "second"));
    match time.as_secs() / seconds {
        1 => format!("1 {unit}"),
        number => format!("{number} {unit}s"),
    }
}

fn counted(number: usize, state: &str) -> Option<String> {
    match number {
        0 => None,
        1 => Some(format!("1 is {state}")),
        number => Some(format!("{number} are {state}")),
    }
}

impl Watch {
    fn look(&mut self, facts: &Facts, now: Duration) -> Vec<Alert> {
        let mut found = Vec::new();
        if facts.wrong > self.wrong {
            (self.wrong, self.wrong_at) = (facts.wrong, Some(now));
        }
        if self.wrong_at.is_some_and(|at| now.saturating_sub(at) < WRONG_FOR) {
            let times = if self.wrong == 1 { "once".to_owned() } else { format!("{} times", self.wrong) };
            let whose = match &facts.whose[..] {
                [] => String::new(),
                [one] => format!(", of the tenant {one}"),
                several => {
                    let named = several[..several.len().min(NAMED)].join(", ");
                    format!(", of the tenants {named}{}", if several.len() > NAMED { " and others" } else { "" })
                }
            };
            let summary = format!("it has said no {times} for a key that the source has{whose}");
            found.push(alert("BloomgateWrongNo", "critical", "wrong-no", summary));
        }
        let idle = lasting(&mut self.idle_since, !facts.blocking, now);
        if idle >= FOR {
            let minutes = idle.as_secs() / 60;
            let summary =
                format!("it has stopped no lookup for {minutes} minutes: its filter is not ready, or it only watches");
            found.push(alert("BloomgateGateNotReady", "warning", "gate-not-ready-or-bypassing", summary));
        }
        let mut down = Vec::new();
        for (part, since) in [Part::Source, Part::Cache, Part::Filter].into_iter().zip(&mut self.down_since) {
            if lasting(since, facts.down.contains(&part), now) >= DOWN_FOR {
                down.push(part.to_string());
            }
        }
        if !down.is_empty() {
            let (which, does) = (down.join(" and its "), if down.len() == 1 { "does" } else { "do" });
            let minutes = DOWN_FOR.as_secs() / 60;
            let summary = format!("its {which} {does} not answer, for {minutes} minutes or longer");
            found.push(alert("BloomgateGatePartDown", "warning", "part-of-a-gate-down", summary));
        }
        let late = facts.late_by(now);
        let failing = lasting(&mut self.failing_since, facts.rebuild_failures > 0 || late.is_some(), now);
        if failing >= FOR {
            let summary = match (facts.rebuild_failures, facts.every) {
                (1, _) => "its filter could not be rebuilt".to_owned(),
                (2.., _) => format!("its filter could not be rebuilt, {} times in a row", facts.rebuild_failures),
                (0, every) => {
                    let age = about(late.unwrap_or_default());
                    match every {
                        Some(every) => {
                            format!("its filter was built {age} ago, and a rebuild is due every {}", about(every))
                        }
                        None => {
                            format!("its filter was built {age} ago, and {} rows were deleted since", facts.removed)
                        }
                    }
                }
            };
            found.push(alert("BloomgateRebuildFailed", "warning", "rebuild-late-or-failed", summary));
        }
        let TenantCounts { all, stale, broken, without_room, .. } = facts.tenants;
        let missing = lasting(&mut self.missing_since, stale + broken + without_room > 0, now);
        if missing >= FOR {
            let states = [counted(stale, "stale"), counted(broken, "broken"), counted(without_room, "without room")];
            let states = states.into_iter().flatten().collect::<Vec<_>>().join(", ");
            let summary = format!("of {all} tenants {states}: all their lookups go on to the source");
            found.push(alert("BloomgateTenantsNotReady", "warning", "tenants-without-a-filter", summary));
        }
        found
    }
}

/// The last look, and what was seen before it.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    watch: Watch,
    last: Option<(Instant, Arc<Vec<Alert>>)>,
}

impl Desk {
    fn facts(&self) -> Facts {
        if let Some(tenants) = self.tenants.get() {
            let stats = tenants.stats();
            return Facts {
                blocking: stats.blocking,
                wrong: stats.audit.wrong,
                whose: stats.wrong,
                rebuild_failures: stats.failures_in_a_row,
                built: stats.built_ms.map(Duration::from_millis),
                every: stats.every_seconds.map(Duration::from_secs_f64),
                removed: stats.removed,
                tenants: stats.tenants,
                down: down(stats.parts),
            };
        }
        // One whose source was never reached stops nothing.
        let Some(gate) = self.gate.get() else { return Facts::default() };
        let stats = gate.brief_stats();
        let filter = stats.filter.as_ref();
        Facts {
            blocking: stats.blocking,
            wrong: stats.audit.wrong,
            whose: Vec::new(),
            rebuild_failures: stats.rebuild.failures_in_a_row,
            built: filter.and_then(|filter| filter.built_ms).map(Duration::from_millis),
            every: stats.rebuild.every_seconds.map(Duration::from_secs_f64),
            removed: filter.map_or(0, |filter| filter.removed),
            tenants: TenantCounts::default(),
            down: down(stats.parts),
        }
    }

    /// The alerts there are. Looked for anew if the last look is ten seconds ago: who serves this without
    /// [`watch_alerts`](GateService::watch_alerts) is not told that all is well because nobody looked.
    pub(super) fn alerts(&self) -> Arc<Vec<Alert>> {
        let mut lookout = self.lookout.lock().unwrap_or_else(PoisonError::into_inner);
        match &lookout.last {
            Some((at, found)) if at.elapsed() < EVERY => found.clone(),
            _ => self.look(&mut lookout, moment::now()),
        }
    }

    fn look(&self, lookout: &mut Lookout, now: Duration) -> Arc<Vec<Alert>> {
        let found = Arc::new(lookout.watch.look(&self.facts(), now));
        lookout.last = Some((Instant::now(), found.clone()));
        found
    }

    /// `/alerts`, in the form of the server's `/v1/alerts`.
    pub(super) fn alerts_told(&self) -> Value {
        let one = |alert: &Alert| {
            json!({
                "name": alert.name, "severity": alert.severity, "summary": alert.summary,
                "filter": null, "path": null, "runbook": runbook::path(alert.section),
            })
        };
        json!({"alerts": self.alerts().iter().map(one).collect::<Vec<_>>()})
    }
}

impl GateService {
    /// Looks for alerts for as long as somebody waits for this, and tells a webhook, if there is one, when they begin and end.
    /// Only the first webhook counts.
    pub async fn watch_alerts(&self, webhook: Option<Webhook>) -> Infallible {
        let webhook = webhook.map(|webhook| self.desk.webhook.get_or_init(|| webhook));
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let now = moment::now();
            let found = self.desk.look(&mut self.desk.lookout.lock().unwrap_or_else(PoisonError::into_inner), now);
            if let Some(webhook) = webhook {
                webhook.tell(found.to_vec(), now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Facts {
        Facts { blocking: true, ..Facts::default() }
    }

    fn names(watch: &mut Watch, facts: &Facts, seconds: u64) -> Vec<&'static str> {
        watch.look(facts, Duration::from_secs(seconds)).iter().map(|alert| alert.name).collect()
    }

    #[test]
    fn a_gate_that_stops_nothing_is_told_after_ten_minutes() {
        let (mut watch, idle) = (Watch::default(), Facts::default());
        assert!(names(&mut watch, &idle, 1_000).is_empty());
        assert!(names(&mut watch, &idle, 1_599).is_empty());
        assert!(names(&mut watch, &ready(), 1_600).is_empty(), "ready in between: it begins anew");
        assert!(names(&mut watch, &idle, 1_610).is_empty());
        assert!(names(&mut watch, &idle, 2_209).is_empty());
        assert_eq!(names(&mut watch, &idle, 2_210), ["BloomgateGateNotReady"]);
        assert!(names(&mut watch, &ready(), 2_220).is_empty());
    }

    #[test]
    fn each_part_that_is_down_for_five_minutes_is_told_until_it_is_back() {
        let mut watch = Watch::default();
        let of = |down: &[Part]| Facts { down: down.to_vec(), ..ready() };
        assert!(names(&mut watch, &of(&[Part::Source]), 1_000).is_empty());
        assert!(names(&mut watch, &of(&[Part::Source]), 1_299).is_empty());
        assert!(names(&mut watch, &of(&[Part::Cache]), 1_300).is_empty(), "another one: it begins anew");
        assert!(names(&mut watch, &of(&[Part::Cache, Part::Filter]), 1_400).is_empty());
        let told = watch.look(&of(&[Part::Cache, Part::Filter]), Duration::from_secs(1_600));
        assert_eq!((told[0].name, told[0].severity), ("BloomgateGatePartDown", "warning"));
        assert_eq!(told[0].summary, "its cache does not answer, for 5 minutes or longer");
        let told = watch.look(&of(&[Part::Source, Part::Cache, Part::Filter]), Duration::from_secs(1_700));
        assert_eq!(told[0].summary, "its cache and its filter do not answer, for 5 minutes or longer");
        assert_eq!(names(&mut watch, &of(&[Part::Filter]), 1_710), ["BloomgateGatePartDown"]);
        assert!(names(&mut watch, &ready(), 1_720).is_empty());
        assert!(names(&mut watch, &of(&[Part::Filter]), 1_730).is_empty(), "it begins anew");
    }

    #[test]
    fn a_wrong_no_is_told_at_once_and_for_an_hour() {
        let mut watch = Watch::default();
        assert!(names(&mut watch, &ready(), 1_000).is_empty());
        let wrong = Facts { wrong: 1, ..ready() };
        let told = watch.look(&wrong, Duration::from_secs(1_010));
        assert_eq!((told[0].name, told[0].severity), ("BloomgateWrongNo", "critical"));
        assert_eq!(names(&mut watch, &wrong, 4_000), ["BloomgateWrongNo"]);
        assert_eq!(names(&mut watch, &Facts { wrong: 3, ..ready() }, 4_600), ["BloomgateWrongNo"]);
        assert!(names(&mut watch, &Facts { wrong: 3, ..ready() }, 8_200).is_empty());
    }

    #[test]
    fn a_wrong_no_names_whose_it_was() {
        for (whose, said) in [
            (vec![], "a key that the source has"),
            (vec!["acme"], "a key that the source has, of the tenant acme"),
            (vec!["acme", "b"], "a key that the source has, of the tenants acme, b"),
            (vec!["a", "b", "c", "d"], "a key that the source has, of the tenants a, b, c and others"),
        ] {
            let facts = Facts { wrong: 1, whose: whose.into_iter().map(str::to_owned).collect(), ..ready() };
            let told = Watch::default().look(&facts, Duration::from_secs(1));
            assert!(told[0].summary.ends_with(said), "{}", told[0].summary);
        }
    }

    #[test]
    fn rebuilds_that_fail_are_told() {
        let mut watch = Watch::default();
        let failing = Facts { rebuild_failures: 2, ..ready() };
        assert!(names(&mut watch, &failing, 1_000).is_empty());
        let told = watch.look(&failing, Duration::from_secs(1_600));
        assert_eq!(told[0].summary, "its filter could not be rebuilt, 2 times in a row");
        assert!(names(&mut watch, &ready(), 1_610).is_empty());
    }

    /// By the schedule that the gate has, whatever the watermark is: with a feed that is always a moment ago.
    #[test]
    fn rebuilds_that_are_late_are_told() {
        let (mut watch, day) = (Watch::default(), Duration::from_secs(86_400));
        let old = Facts { built: Some(Duration::ZERO), every: Some(day), ..ready() };
        let late = 2 * 86_400 + 3_600;
        assert!(names(&mut watch, &old, late).is_empty());
        assert!(names(&mut watch, &old, late + 1).is_empty());
        let told = watch.look(&old, Duration::from_secs(late + 601));
        assert_eq!((told.len(), told[0].name), (1, "BloomgateRebuildFailed"));
        assert_eq!(told[0].summary, "its filter was built 2 days ago, and a rebuild is due every 24 hours");
        let fresh = Facts { built: Some(Duration::from_secs(late)), ..old.clone() };
        assert!(names(&mut watch, &fresh, late + 611).is_empty(), "it was rebuilt");
        // An hour is late for nobody who rebuilds every three minutes and takes a while.
        let often = Facts { every: Some(Duration::from_secs(180)), ..old.clone() };
        assert!(
            often.late_by(Duration::from_secs(3_960)).is_none() && often.late_by(Duration::from_secs(3_961)).is_some()
        );
        // Without a schedule nothing is due, unless rows that are gone are still in the filter after a week.
        let week = 7 * 86_400;
        let never = Facts { every: None, ..old };
        assert!(names(&mut watch, &never, 50 * week).is_empty());
        assert!(names(&mut watch, &never, 60 * week).is_empty(), "nothing is missing from it");
        let deleted = Facts { removed: 7, ..never };
        assert!(names(&mut watch, &deleted, week).is_empty());
        assert!(names(&mut watch, &deleted, week + 1).is_empty());
        let told = watch.look(&deleted, Duration::from_secs(week + 601));
        assert_eq!(told[0].summary, "its filter was built 7 days ago, and 7 rows were deleted since");
    }

    #[test]
    fn tenants_without_a_filter_are_told() {
        let mut watch = Watch::default();
        let of = |stale, broken, without_room| {
            let tenants = TenantCounts { all: 9, stale, broken, without_room, loading: 1, ..TenantCounts::default() };
            Facts { tenants, ..ready() }
        };
        assert!(names(&mut watch, &of(0, 0, 0), 1_000).is_empty());
        assert!(names(&mut watch, &of(1, 0, 0), 1_010).is_empty());
        assert!(names(&mut watch, &of(0, 1, 0), 1_609).is_empty());
        let told = watch.look(&of(0, 1, 2), Duration::from_secs(1_610));
        assert_eq!((told[0].name, told[0].severity), ("BloomgateTenantsNotReady", "warning"));
        let said = "of 9 tenants 1 is broken, 2 are without room: all their lookups go on to the source";
        assert_eq!(told[0].summary, said);
        assert!(names(&mut watch, &of(0, 0, 0), 1_620).is_empty());
        assert!(names(&mut watch, &of(0, 0, 1), 1_630).is_empty(), "it begins anew");
    }

    #[test]
    fn times_are_for_people() {
        for (seconds, said) in
            [(1, "1 second"), (90, "90 seconds"), (180, "3 minutes"), (129_600, "36 hours"), (700_000, "8 days")]
        {
            assert_eq!(about(Duration::from_secs(seconds)), said);
        }
    }

    /// From the failure of a real table on, of many tenants as of one gate; what is found here is what a webhook is told.
    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn tenants_whose_rebuilds_fail_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let other = rusqlite::Connection::open(&path).unwrap();
        let table = "CREATE TABLE products (shop TEXT, sku TEXT, PRIMARY KEY (shop, sku)) WITHOUT ROWID";
        other.execute_batch(table).unwrap();
        other.execute_batch("INSERT INTO products VALUES ('acme', 'a'), ('globex', 'b')").unwrap();
        let table = crate::sources::SqliteTenants::open(&path, "products", "sku", "shop").unwrap();
        let tenants = crate::tenants::Tenants::builder(Arc::new(table));
        let tenants = tenants.writers(crate::Writers::Sole).build().unwrap();
        tenants.rebuild_all(false).await.unwrap();
        let options = super::super::Options { by_tenant: true, ..Default::default() };
        let service = GateService::waiting(options, Arc::default());
        service.open_tenants(tenants.clone());
        let (mut lookout, begun) = (Lookout::default(), moment::now());
        let mut fires = |after: u64| {
            let found = service.desk.look(&mut lookout, begun + Duration::from_secs(after));
            found.iter().any(|alert| alert.name == "BloomgateRebuildFailed")
        };
        assert!(!fires(0));
        other.execute_batch("ALTER TABLE products RENAME TO gone").unwrap();
        tenants.rebuild_all(false).await.unwrap_err();
        assert!(!fires(10) && !fires(600));
        assert!(fires(610), "it has failed for ten minutes");
        other.execute_batch("ALTER TABLE gone RENAME TO products").unwrap();
        tenants.rebuild_all(false).await.unwrap();
        assert!(!fires(620));
        // And one that is late, by the oldest filter of all.
        assert!(!fires(2 * 86_400) && !fires(2 * 86_400 + 3_700));
        assert!(fires(2 * 86_400 + 4_400));
        tenants.rebuild(&"acme".into(), false).await.unwrap();
        assert!(fires(2 * 86_400 + 4_410), "the other one is as old as it was");
    }

    /// Those that fire when everything is wrong at once.
    fn all_told() -> Vec<Alert> {
        let mut watch = Watch::default();
        let tenants = TenantCounts { all: 1, broken: 1, ..TenantCounts::default() };
        let all = Facts { wrong: 1, rebuild_failures: 1, tenants, down: vec![Part::Source], ..Facts::default() };
        watch.look(&all, Duration::ZERO);
        watch.look(&all, FOR)
    }

    #[test]
    fn names_and_sections_are_those_of_the_rules() {
        let rules = include_str!("../../../../packaging/alerts.yml");
        let told = all_told();
        assert_eq!(told.len(), 5);
        for alert in told {
            let (_, rule) = rules.split_once(&format!("- alert: {}\n", alert.name)).unwrap();
            let rule = rule.split("- alert:").next().unwrap();
            assert!(rule.contains(&format!("severity: {}\n", alert.severity)), "{rule}");
            assert!(rule.contains(&format!("{}\"\n", runbook::path(alert.section))), "{rule}");
            assert!(runbook::has(alert.section), "{}", alert.section);
        }
    }

    /// promtool is given each rule twice at least: once where it must be silent, once where it must fire.
    #[test]
    fn every_rule_is_proven_to_fire_and_to_be_silent() {
        let rules = include_str!("../../../../packaging/alerts.yml");
        let proofs = include_str!("../../../../packaging/alerts-test.yml");
        let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
        for name in names {
            let looks: Vec<&str> = proofs
                .split("alertname: ")
                .skip(1)
                .filter(|look| look.lines().next() == Some(name))
                .map(|look| look.split("eval_time:").next().unwrap())
                .collect();
            assert!(looks.iter().any(|look| look.contains("exp_alerts: []")), "{name} is never silent");
            assert!(looks.iter().any(|look| look.contains("exp_labels:")), "{name} never fires");
        }
    }
}
