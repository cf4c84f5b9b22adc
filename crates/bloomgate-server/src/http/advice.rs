//! What could be better, why, and the commands that do it: `GET /v1/advice`.
//!
//! Each rule looks at figures alone, so that a test can say what a server of a year looks like. A filter may get several
//! sentences; what is urgent comes first.

use std::net::SocketAddr;

use axum::http::StatusCode;
use bloomgate::{Blocked, Kind};
use bloomgate_command::Role;
use serde_json::{Value, json};

use super::figures::{Brief, path_of, shown};
use super::serving::House;
use super::visit::Visit;
use super::workbench::quoted;
use super::{Answer, answers};
use crate::engine::audit::Counts;
use crate::engine::entry::{Body, Entry};
use crate::engine::journal::Journal;
use crate::engine::watch::findings::Verdict;
use crate::logging::counted;
use crate::session::config::setting;
use crate::session::names::seen_from_id;

/// Filters that are looked at: of a bound user those of the namespace.
const LOOKED_AT: usize = 20_000;
/// Of these at a time: 0.6 ms.
const PIECE: usize = 100;
/// Each of them is worth as much as an item: it takes twenty times as long as a look for a list.
const COST: u64 = 1;
/// Sentences at once.
const MOST: usize = 100;
const HOUR: f64 = 3_600.0;
const DAY: f64 = 24.0 * HOUR;
/// A filter that will be full within this time is worth a sentence.
const SOON: f64 = 3.0 * DAY;
/// A filter is too large when it has so many times the room it needs, for so long, and is not about to need it.
const OVERSIZED: u64 = 4;
const UNUSED_FOR: f64 = 30.0 * DAY;
/// Smaller ones are not worth anybody's time.
const WORTH_BYTES: u64 = 256 << 10;
/// A filter of another kind is worth a sentence if it saves such a part of the memory, and this one has such a part of its
/// keys: a tenth, and a quarter.
const WORTH_A_CHANGE: u64 = 10;
const FILLED_BY: u64 = 4;
/// Layers of a chain that had better be one filter.
const MANY_LAYERS: usize = 4;
/// A snapshot is old after a day, if a start would read so much of the log.
const OLD_SNAPSHOT: f64 = DAY;
const MUCH_LOG: u64 = 16 << 20;

/// How urgent it is, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Critical,
    Warning,
    Info,
}

impl Severity {
    const fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// Something to do, in words and as a command; what only its user can do has no command.
#[derive(Debug, PartialEq)]
struct Step {
    about: Option<String>,
    command: Option<String>,
}

impl Step {
    fn told(about: impl Into<String>, command: impl Into<Option<String>>) -> Self {
        Self { about: Some(about.into()), command: command.into() }
    }

    fn to_json(&self) -> Value {
        json!({"about": self.about, "command": self.command})
    }
}

/// A sentence, why it is said, and what to do.
#[derive(Debug, PartialEq)]
struct Said {
    severity: Severity,
    sentence: String,
    reason: &'static str,
    steps: Vec<Step>,
}

impl Said {
    /// What one command does.
    fn new(severity: Severity, sentence: impl Into<String>, reason: &'static str, command: impl Into<String>) -> Self {
        let steps = vec![Step { about: None, command: Some(command.into()) }];
        Self { severity, sentence: sentence.into(), reason, steps }
    }

    /// What another filter does in the place of this one: it is made, filled, and given the name.
    fn anew(
        severity: Severity,
        sentence: impl Into<String>,
        reason: &'static str,
        case: &Case<'_>,
        create: String,
    ) -> Self {
        let (name, next) = (quoted(case.name), quoted(&next(case)));
        let fill = format!(
            "Fill it from the data, a thousand keys at a time: BG.ADD {next} KEY KEY ... Add new keys to both until it is in \
             place: a key that it was not given is answered with no."
        );
        let steps = vec![
            Step::told("Make it.", create),
            Step::told(fill, None::<String>),
            Step::told("Exchange the two names: lookups go on all the while.", format!("BG.SWAP {name} {next}")),
            Step::told("Delete the one of before, which has the other name now.", format!("DEL {next}")),
        ];
        Self { severity, sentence: sentence.into(), reason, steps }
    }

    /// The first command.
    fn command(&self) -> &str {
        self.steps.iter().find_map(|step| step.command.as_deref()).unwrap_or_default()
    }

    fn to_json(&self, about: Option<&[u8]>) -> Value {
        json!({
            "severity": self.severity.name(), "about": about.map(shown), "path": about.map(path_of),
            "sentence": self.sentence, "reason": self.reason, "command": self.command(),
            "steps": self.steps.iter().map(Step::to_json).collect::<Vec<_>>(),
        })
    }
}

/// A filter as advice sees it.
#[derive(Debug)]
struct Case<'a> {
    name: &'a [u8],
    kind: Kind,
    items: u64,
    capacity: u64,
    is_over_capacity: bool,
    bytes: u64,
    asked: f64,
    age: f64,
    /// Items a second; nothing where nobody knows yet.
    growth: Option<f64>,
    full_in: Option<f64>,
    over_capacity_in: Option<f64>,
    counts: Counts,
    /// Keys that were removed since it was made.
    removed: u64,
    layers: usize,
    /// Seconds of the window; 0 where there is none.
    window: f64,
    is_keyed: bool,
    /// Whether BG.REKEY takes it.
    is_rekeyed_in_place: bool,
    verdict: Verdict,
    /// How often it can be folded in half; 0 of kinds that cannot.
    halvings: u32,
}

/// `GET /v1/advice`.
pub(super) async fn advise(visit: &mut Visit) -> Answer {
    let house = visit.house.clone();
    let (mut urgent, mut total): (Vec<(Severity, Value)>, usize) = (Vec::new(), 0);
    let (mut next, mut looked_at) = (0, 0);
    let is_public = is_public(&house);
    loop {
        let (seen, then, told) = visit.talk.view(Role::Read, |call| {
            let mut told: Vec<(Severity, Value)> = Vec::new();
            if next == 0 && call.space().is_none() {
                told.extend(of_server(&house).iter().map(|said| (said.severity, said.to_json(None))));
            }
            let (entries, then) = seen_from_id(&house.engine, call.bound(), next, PIECE);
            for entry in entries.iter().filter(|entry| entry.is_available()) {
                let brief = Brief::of(call, entry, house.growth.of(entry.id));
                let verdict = house.engine.watch.findings.of(entry.id).map_or(Verdict::Ok, |finding| finding.verdict());
                let case = case(&brief, entry, verdict);
                let said = of_filter(&case, is_public);
                told.extend(said.iter().map(|said| (said.severity, said.to_json(Some(case.name)))));
            }
            Ok((entries.len(), then, told))
        })?;
        visit.talk.pay(seen as u64 * COST).await?;
        looked_at += seen;
        total += told.len();
        urgent.extend(told);
        // Those of the same severity in the order in which their filters were made.
        urgent.sort_by_key(|(severity, _)| *severity);
        urgent.truncate(MOST);
        match then {
            Some(then) if looked_at < LOOKED_AT => next = then,
            _ => break,
        }
        tokio::task::yield_now().await;
    }
    let urgent: Vec<Value> = urgent.into_iter().map(|(_, said)| said).collect();
    Ok(answers::json(StatusCode::OK, &json!({"total": total, "advice": urgent})))
}

fn case<'a>(brief: &'a Brief, entry: &Entry, verdict: Verdict) -> Case<'a> {
    let halvings = match entry.body() {
        Body::Shared(filter) => filter.halvings(),
        _ => None,
    };
    Case {
        name: &brief.name,
        kind: entry.kind(),
        items: brief.items,
        capacity: brief.capacity,
        is_over_capacity: brief.is_over_capacity(),
        bytes: brief.bytes,
        asked: brief.asked,
        age: brief.now_ms.saturating_sub(brief.created_ms) as f64 / 1_000.0,
        growth: brief.growth,
        full_in: brief.full_in(),
        over_capacity_in: brief.over_capacity_in(),
        counts: brief.counts,
        removed: entry.deleted().max(brief.counts.removed),
        layers: entry.with(|filter| filter.stages()).unwrap_or(1),
        window: entry.recipe().window_ns as f64 / 1e9,
        is_keyed: entry.recipe().hashing.algorithm.is_keyed(),
        is_rekeyed_in_place: !entry.is_ordered(),
        verdict,
        halvings: halvings.unwrap_or(0),
    }
}

/// Whether other machines can reach the server.
fn is_public(house: &House) -> bool {
    let told = ["resp", "tls"].into_iter().filter_map(|name| setting(&house.desk, name)?.parse::<SocketAddr>().ok());
    told.chain([house.address]).any(|address| !address.ip().is_loopback())
}

fn of_server(house: &House) -> Vec<Said> {
    let mut said = Vec::new();
    said.extend(of_memory(house.engine.budget.used(), house.engine.budget.most()));
    if matches!(house.engine.journal, Journal::Nowhere(_)) {
        said.push(Said::new(
            Severity::Info,
            "Nothing is kept on disk.",
            "A restart begins with no filters, and a name that is not there answers no over the Redis protocol.",
            "bloomgate serve --data ./bloomgate-data",
        ));
    }
    if let (Some(keeper), Some(log)) = (house.desk.keeper.get(), house.engine.journal.log()) {
        said.extend(of_snapshot(house.snapshot_age(), log.statistics().bytes, keeper.last_error()));
    }
    said
}

fn of_memory(used: u64, most: u64) -> Option<Said> {
    (used as f64 > 0.9 * most as f64).then(|| {
        Said::new(
            Severity::Warning,
            format!("The filters take {} of the {} they may have.", size(used), size(most)),
            "When the budget is spent, filters that would grow refuse keys, and new ones are not made.",
            format!("CONFIG SET max-memory {}", most.saturating_mul(2)),
        )
    })
}

fn of_snapshot(age: f64, log_bytes: u64, error: Option<String>) -> Option<Said> {
    if let Some(error) = error {
        return Some(Said::new(
            Severity::Warning,
            format!("The last snapshot failed: {error}"),
            "What was written since the one before is in the log alone, which grows until a snapshot succeeds. Mend the \
             cause, then make one.",
            "BGSAVE",
        ));
    }
    (age > OLD_SNAPSHOT && log_bytes > MUCH_LOG).then(|| {
        Said::new(
            Severity::Warning,
            format!("The last snapshot is {} old, and the log has grown to {} since.", span(age), size(log_bytes)),
            "A start reads the snapshot and then all of the log: a new snapshot makes it short again.",
            "BGSAVE",
        )
    })
}

fn of_filter(case: &Case<'_>, is_public: bool) -> Vec<Said> {
    let safety = poisoned(case).or_else(|| unkeyed(case, is_public));
    let said = [safety, too_small(case).or_else(|| too_large(case)), wrong_kind(case), idle(case)];
    said.into_iter().flatten().collect()
}

/// The name of another filter beside this one.
fn next(case: &Case<'_>) -> Vec<u8> {
    [case.name, b":next"].concat()
}

/// The line that makes another filter beside this one.
fn beside(case: &Case<'_>, options: &str) -> String {
    format!("BG.CREATE {} {options} RATE {}", quoted(&next(case)), case.asked)
}

/// The same for a filter like this one.
fn larger(case: &Case<'_>, factor: u64) -> String {
    let capacity = case.items.max(case.capacity).saturating_mul(factor);
    beside(case, &format!("LIKE {} CAPACITY {capacity}", quoted(case.name)))
}

fn too_small(case: &Case<'_>) -> Option<Said> {
    if case.counts.refused > 0 && case.items >= case.capacity {
        return Some(Said::anew(
            Severity::Warning,
            format!("It is full and has refused {}.", counted(case.counts.refused, "key")),
            "What it refused is not in it, and a lookup says no. Make a larger one, fill it from the data, then BG.SWAP \
             the two.",
            case,
            larger(case, 4),
        ));
    }
    if case.is_over_capacity {
        return Some(Said::anew(
            Severity::Warning,
            format!("It holds {}, and was made for {}.", counted(case.items, "item"), counted(case.capacity, "item")),
            "Beyond its capacity the rate of false positives rises above what was asked for. Make a larger one, fill it from \
             the data, then BG.SWAP the two.",
            case,
            larger(case, 2),
        ));
    }
    let (sentence, reason) = match (case.full_in, case.over_capacity_in) {
        (Some(seconds), _) if seconds < SOON => (
            format!("As it grows now, it is full in {}.", span(seconds)),
            "A full filter refuses keys. Make a larger one in time, fill it from the data, then BG.SWAP the two.",
        ),
        (_, Some(seconds)) if seconds < SOON => (
            format!("As it grows now, it is over its capacity in {}.", span(seconds)),
            "It takes keys then too, and the rate of false positives rises above what was asked for. Make a larger one in time, \
             fill it from the data, then BG.SWAP the two.",
        ),
        _ => return None,
    };
    Some(Said::anew(Severity::Warning, sentence, reason, case, larger(case, 4)))
}

fn too_large(case: &Case<'_>) -> Option<Said> {
    let grows_into_it =
        case.growth.is_none_or(|growth| case.items as f64 + growth * UNUSED_FOR >= case.capacity as f64);
    let is_fixed = matches!(
        case.kind,
        Kind::Blocked | Kind::Classic | Kind::Partitioned | Kind::Counting | Kind::Cuckoo | Kind::Rotating
    );
    let room = case.capacity / case.items.max(1);
    if !is_fixed || case.items == 0 || room < OVERSIZED || case.bytes < WORTH_BYTES || case.age < DAY || grows_into_it {
        return None;
    }
    let sentence = format!("It has room for {room} times the {} it holds.", counted(case.items, "item"));
    // A fold by less than the room is no gain worth a sentence; then it is made anew.
    let said = match 1u64.checked_shl(case.halvings).is_some_and(|most| most >= OVERSIZED) {
        true => Said::new(
            Severity::Info,
            sentence,
            "Its memory is spent on keys that do not come. Folding makes it smaller without its keys, as far as the rate \
             allows for the items that are in.",
            format!("BG.FOLD {} RATE {}", quoted(case.name), case.asked),
        ),
        false => Said::anew(
            Severity::Info,
            sentence,
            "Its memory is spent on keys that do not come. Make a smaller one, fill it from the data, then BG.SWAP the \
             two.",
            case,
            beside(case, &format!("LIKE {} CAPACITY {}", quoted(case.name), case.items.saturating_mul(2))),
        ),
    };
    Some(said)
}

fn wrong_kind(case: &Case<'_>) -> Option<Said> {
    let one = |kind: &str| {
        let options = format!("LIKE {} KIND {kind} CAPACITY {}", quoted(case.name), case.items.saturating_mul(2));
        beside(case, &options)
    };
    let never_removed = case.removed == 0 && case.items > 0 && case.age >= DAY;
    match case.kind {
        Kind::Scalable | Kind::GrowingCuckoo if case.layers >= MANY_LAYERS => Some(Said::anew(
            Severity::Info,
            format!("It has grown to {}.", counted(case.layers as u64, "layer")),
            "A lookup of an absent key asks all of them, and they share the rate out. By now it is known how many keys \
             there are: one filter of that size is asked once and takes fewer bits. Make it, fill it from the data, then \
             BG.SWAP the two.",
            case,
            one(if case.kind == Kind::Scalable || never_removed { "blocked" } else { "cuckoo" }),
        )),
        Kind::Counting if never_removed => Some(Said::anew(
            Severity::Info,
            "It can remove keys, and none was ever removed.",
            "Counters take four bits where a filter that only adds has one. Make one that does not count, fill it from \
             the data, then BG.SWAP the two.",
            case,
            one("blocked"),
        )),
        // Which of them is smaller depends on the rate: at 1 % a quotient filter takes an eighth more than a blocked one and
        // a cuckoo filter a twentieth, at 0.1 % a cuckoo filter takes less. So both are measured, and small gains not told.
        Kind::Cuckoo | Kind::Quotient
            if never_removed && case.bytes >= WORTH_BYTES && case.items >= case.capacity / FILLED_BY =>
        {
            let plain = Blocked::builder().items(case.capacity).rate(case.asked).bytes_needed().ok()?;
            let is_worth_it = plain <= case.bytes - case.bytes / WORTH_A_CHANGE;
            is_worth_it.then(|| {
                Said::anew(
                    Severity::Info,
                    format!(
                        "It can remove keys, and none was ever removed: a blocked filter of its capacity takes {}, not {}.",
                        size(plain),
                        size(case.bytes)
                    ),
                    "Fingerprints that can be taken out again cost more bits at this rate than bits that stay, and each add \
                     is slower. If nothing is ever removed or counted, make one that only adds, fill it from the data, then \
                     BG.SWAP the two.",
                    case,
                    one("blocked"),
                )
            })
        }
        _ => None,
    }
}

fn poisoned(case: &Case<'_>) -> Option<Said> {
    let (severity, sentence) = match case.verdict {
        Verdict::Ok => return None,
        Verdict::Suspicious => (Severity::Warning, "Its bits are not those that random keys make."),
        Verdict::Poisoned => {
            (Severity::Critical, "It is poisoned: chosen keys have driven its rate above twice the promised one.")
        }
    };
    let said = match case.is_keyed && case.is_rekeyed_in_place {
        true => Said {
            severity,
            sentence: sentence.to_owned(),
            reason: "Somebody may know its secret, or writes keys that were chosen. A new secret makes what they chose useless: \
                     start it, bring the items with BG.FEED, then BG.REKEY it FINISH.",
            steps: rekeyed(case),
        },
        false => Said::anew(
            severity,
            sentence,
            "Keys were chosen to say maybe. Make one under a secret of its own, fill it from the data, then BG.SWAP the \
             two.",
            case,
            keyed(case),
        ),
    };
    Some(said)
}

/// Another secret without a moment in which it does not answer.
fn rekeyed(case: &Case<'_>) -> Vec<Step> {
    let name = quoted(case.name);
    let feed = format!(
        "Bring the items of before from the data, a thousand at a time: BG.FEED {name} KEY KEY ... What is added meanwhile \
         it takes by itself."
    );
    vec![
        Step::told("Begin: nobody sees the new one yet.", format!("BG.REKEY {name} START")),
        Step::told(feed, None::<String>),
        Step::told("Put it in place. It refuses while items are missing.", format!("BG.REKEY {name} FINISH")),
    ]
}

/// The line that makes one like it under a secret; LIKE would take the hash as well.
fn keyed(case: &Case<'_>) -> String {
    let kind = match case.kind {
        Kind::RedisCuckoo => Kind::Cuckoo,
        kind if kind.is_foreign() => Kind::Blocked,
        kind => kind,
    };
    let window = if kind == Kind::Rotating { format!(" WINDOW {}", case.window) } else { String::new() };
    beside(case, &format!("KIND {kind} CAPACITY {}{window}", case.capacity.max(case.items).max(1)))
}

fn unkeyed(case: &Case<'_>, is_public: bool) -> Option<Said> {
    if case.is_keyed || case.kind.is_foreign() || !case.kind.takes_inserts() {
        return None;
    }
    let (severity, sentence) = match is_public {
        true => (Severity::Warning, "Its keys are hashed without a secret, and other machines can reach the server."),
        false => (Severity::Info, "Its keys are hashed without a secret."),
    };
    Some(Said::anew(
        severity,
        sentence,
        "Whoever chooses keys can compute which of them say maybe, and fill it with the worst. That is fine as long as no \
         stranger chooses any. Else make one under a secret, fill it from the data, then BG.SWAP the two.",
        case,
        keyed(case),
    ))
}

fn idle(case: &Case<'_>) -> Option<Said> {
    let Counts { lookups, positives, .. } = case.counts;
    (lookups > 10_000 && positives as f64 > 0.95 * lookups as f64).then(|| {
        Said::new(
            Severity::Info,
            "More than 95 of 100 lookups are answered with maybe: it spares little.",
            "A filter saves the lookups that would find nothing. Either few of them are, or its rate is too high.",
            format!("BG.STATS {}", quoted(case.name)),
        )
    })
}

/// Bytes for people: 1.5 GB.
fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for next in units {
        if value < 1_000.0 {
            break;
        }
        (value, unit) = (value / 1_000.0, next);
    }
    if value < 10.0 && unit != "bytes" { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// A stretch of time for people: 5 hours, 3 days.
fn span(seconds: f64) -> String {
    let (value, noun) = match seconds {
        seconds if seconds < 2.0 * 60.0 => (seconds, "second"),
        seconds if seconds < 2.0 * HOUR => (seconds / 60.0, "minute"),
        seconds if seconds < 2.0 * DAY => (seconds / HOUR, "hour"),
        seconds => (seconds / DAY, "day"),
    };
    counted(value.round() as u64, noun)
}

#[cfg(test)]
mod running;

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter of a month that nothing is to be said about.
    pub(super) const FINE: Case<'static> = Case {
        name: b"seen",
        kind: Kind::Blocked,
        items: 600_000,
        capacity: 1_000_000,
        is_over_capacity: false,
        bytes: 1_200_000,
        asked: 0.01,
        age: 30.0 * DAY,
        growth: Some(0.0),
        full_in: None,
        over_capacity_in: None,
        counts: Counts { lookups: 0, positives: 0, adds: 0, fresh: 0, removed: 0, refused: 0 },
        removed: 0,
        layers: 1,
        window: 0.0,
        is_keyed: true,
        is_rekeyed_in_place: true,
        verdict: Verdict::Ok,
        halvings: 3,
    };

    #[track_caller]
    fn one(case: &Case<'_>, severity: Severity, sentence: &str, command: &str) {
        let said = of_filter(case, false);
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!((said[0].severity, &*said[0].sentence, said[0].command()), (severity, sentence, command));
        assert!(said[0].reason.len() > 40);
    }

    #[test]
    fn nothing_is_said_of_a_filter_that_is_well() {
        assert_eq!(of_filter(&FINE, true), []);
        // Nor of one that is young, small, or about to be filled.
        for case in [
            Case { items: 10, age: HOUR, ..FINE },
            Case { items: 10, bytes: 10_000, ..FINE },
            Case { items: 10, growth: None, ..FINE },
            Case { items: 10, growth: Some(1.0), ..FINE },
            Case { kind: Kind::Counting, removed: 1, ..FINE },
            Case { kind: Kind::Counting, age: HOUR, ..FINE },
            Case { kind: Kind::Scalable, layers: 3, ..FINE },
            // A cuckoo filter of 10.6 bits a key, where a plain one takes 10.1; one of which keys are removed; one that is
            // young, and one that is nearly empty.
            Case { kind: Kind::Cuckoo, bytes: 1_325_000, ..FINE },
            Case { kind: Kind::Cuckoo, bytes: 2_000_000, removed: 1, ..FINE },
            Case { kind: Kind::Quotient, bytes: 2_000_000, age: HOUR, ..FINE },
            Case { kind: Kind::Quotient, bytes: 2_000_000, items: 240_000, growth: None, ..FINE },
            Case { kind: Kind::RedisBloom, is_keyed: false, ..FINE },
            Case { full_in: Some(4.0 * DAY), ..FINE },
            Case { over_capacity_in: Some(4.0 * DAY), ..FINE },
        ] {
            assert_eq!(of_filter(&case, true), [], "{case:?}");
        }
    }

    #[test]
    fn a_filter_that_is_too_small() {
        one(
            &Case { items: 2_000_000, is_over_capacity: true, ..FINE },
            Severity::Warning,
            "It holds 2,000,000 items, and was made for 1,000,000 items.",
            "BG.CREATE seen:next LIKE seen CAPACITY 4000000 RATE 0.01",
        );
        let refusing = Counts { refused: 7, ..FINE.counts };
        one(
            &Case { name: b"a b", items: 1_000_000, counts: refusing, ..FINE },
            Severity::Warning,
            "It is full and has refused 7 keys.",
            "BG.CREATE \"a b:next\" LIKE \"a b\" CAPACITY 4000000 RATE 0.01",
        );
        one(
            &Case { full_in: Some(2.6 * DAY), ..FINE },
            Severity::Warning,
            "As it grows now, it is full in 3 days.",
            "BG.CREATE seen:next LIKE seen CAPACITY 4000000 RATE 0.01",
        );
        let goes_on = Case { over_capacity_in: Some(2.6 * DAY), ..FINE };
        one(
            &goes_on,
            Severity::Warning,
            "As it grows now, it is over its capacity in 3 days.",
            "BG.CREATE seen:next LIKE seen CAPACITY 4000000 RATE 0.01",
        );
        // The whole way, and not its first step alone.
        let said = &of_filter(&Case { name: b"a b", ..goes_on }, false)[0];
        let commands: Vec<&str> = said.steps.iter().map(|step| step.command.as_deref().unwrap_or("-")).collect();
        let create = "BG.CREATE \"a b:next\" LIKE \"a b\" CAPACITY 4000000 RATE 0.01";
        assert_eq!(commands, [create, "-", "BG.SWAP \"a b\" \"a b:next\"", "DEL \"a b:next\""]);
        let fill = said.steps[1].about.as_deref().unwrap();
        assert!(fill.contains("BG.ADD \"a b:next\" KEY"), "{fill}");
    }

    #[test]
    fn a_filter_that_is_too_large_by_four() {
        let sentence = "It has room for 4 times the 250,000 items it holds.";
        one(&Case { items: 250_000, ..FINE }, Severity::Info, sentence, "BG.FOLD seen RATE 0.01");
        let unfolded = Case { items: 250_000, halvings: 1, ..FINE };
        one(&unfolded, Severity::Info, sentence, "BG.CREATE seen:next LIKE seen CAPACITY 500000 RATE 0.01");
    }

    #[test]
    fn a_filter_of_the_wrong_kind() {
        one(
            &Case { kind: Kind::Scalable, layers: 5, ..FINE },
            Severity::Info,
            "It has grown to 5 layers.",
            "BG.CREATE seen:next LIKE seen KIND blocked CAPACITY 1200000 RATE 0.01",
        );
        let plain = "BG.CREATE seen:next LIKE seen KIND blocked CAPACITY 1200000 RATE 0.01";
        one(
            &Case { kind: Kind::Counting, ..FINE },
            Severity::Info,
            "It can remove keys, and none was ever removed.",
            plain,
        );
        for kind in [Kind::Cuckoo, Kind::Quotient] {
            one(
                &Case { kind, bytes: 1_430_000, ..FINE },
                Severity::Info,
                "It can remove keys, and none was ever removed: a blocked filter of its capacity takes 1.3 MB, not 1.4 MB.",
                plain,
            );
        }
        // A chain of which keys are removed becomes one cuckoo filter, and another one a plain filter.
        for (removed, kind) in [(0, "blocked"), (9, "cuckoo")] {
            one(
                &Case { kind: Kind::GrowingCuckoo, layers: 4, removed, ..FINE },
                Severity::Info,
                "It has grown to 4 layers.",
                &format!("BG.CREATE seen:next LIKE seen KIND {kind} CAPACITY 1200000 RATE 0.01"),
            );
        }
    }

    #[test]
    fn a_filter_without_a_secret() {
        let case = Case { is_keyed: false, ..FINE };
        let command = "BG.CREATE seen:next KIND blocked CAPACITY 1000000 RATE 0.01";
        one(&case, Severity::Info, "Its keys are hashed without a secret.", command);
        let ring = of_filter(&Case { kind: Kind::Rotating, window: 3_600.0, is_keyed: false, ..FINE }, true);
        assert_eq!(ring[0].command(), "BG.CREATE seen:next KIND rotating CAPACITY 1000000 WINDOW 3600 RATE 0.01");
        let public = of_filter(&case, true);
        assert_eq!((public.len(), public[0].severity), (1, Severity::Warning));
        // Poison first, and then no word about what made it possible.
        let poisoned = of_filter(&Case { verdict: Verdict::Poisoned, ..case }, true);
        assert_eq!((poisoned.len(), poisoned[0].severity, poisoned[0].command()), (1, Severity::Critical, command));
    }

    #[test]
    fn a_filter_under_attack_gets_another_secret() {
        let sentence = "Its bits are not those that random keys make.";
        one(&Case { verdict: Verdict::Suspicious, ..FINE }, Severity::Warning, sentence, "BG.REKEY seen START");
    }

    #[test]
    fn a_filter_that_spares_nothing() {
        let counts = Counts { lookups: 20_000, positives: 19_500, ..FINE.counts };
        let sentence = "More than 95 of 100 lookups are answered with maybe: it spares little.";
        one(&Case { counts, ..FINE }, Severity::Info, sentence, "BG.STATS seen");
    }

    #[test]
    fn a_snapshot_that_is_old_or_failed() {
        assert_eq!(of_snapshot(2.0 * DAY, MUCH_LOG, None), None, "nothing was written since");
        assert_eq!(of_snapshot(0.5 * DAY, 1 << 40, None), None);
        let old = of_snapshot(2.4 * DAY, 300_000_000, None).unwrap();
        assert_eq!(old.sentence, "The last snapshot is 2 days old, and the log has grown to 300 MB since.");
        assert_eq!(old.command(), "BGSAVE");
        let failed = of_snapshot(0.0, 0, Some("no space left on device".to_owned())).unwrap();
        assert!(failed.sentence.ends_with("no space left on device"));
    }

    #[test]
    fn memory_that_is_nearly_spent() {
        assert_eq!(of_memory(900, 1_000), None);
        let said = of_memory(950_000_000, 1_000_000_000).unwrap();
        assert_eq!(said.sentence, "The filters take 950 MB of the 1.0 GB they may have.");
        assert_eq!(said.command(), "CONFIG SET max-memory 2000000000");
    }

    #[test]
    fn times_and_sizes_are_for_people() {
        for (seconds, told) in
            [(1.0, "1 second"), (119.0, "119 seconds"), (3_600.0, "60 minutes"), (5.2 * HOUR, "5 hours")]
        {
            assert_eq!(span(seconds), told);
        }
        for (bytes, told) in
            [(12, "12 bytes"), (1_500, "1.5 kB"), (64 << 20, "67 MB"), (5_000_000_000_000_000, "5000 TB")]
        {
            assert_eq!(size(bytes), told);
        }
    }
}
