//! The server's metrics: one table gives name, help, unit and labels to the scrape and to docs/metrics.md.
//!
//! Nothing is counted for them on the way of a lookup that was not counted by its thread anyhow; a scrape adds up. What only a
//! walk over all filters tells comes from the last one of the lookout (`survey.rs`), ten seconds old at most.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use bloomgate::Kind;
use bloomgate_http::listen::Traffic;
use bloomgate_http::metrics::{Metric, Scrape, Value};
use bloomgate_http::webhook;

use super::figures::shown;
use super::serving::House;
use super::survey::Together;
use crate::engine::audit::Counts;
use crate::engine::entry::Entry;
use crate::engine::namespaces::Told;
use crate::engine::watch::findings::Finding;
use crate::engine::watch::random::Random;
use crate::engine::watch::rounds::sample;
use crate::session::info::resident_bytes;
use crate::session::rules::Cuts;
use crate::session::tallies::BOUNDS;

bloomgate_http::metrics! {
    /// Every metric of the server, those of its HTTP connections after them.
    BUILD = gauge "bloomgate_build_info" "" &["version"], "1, with the version of the program";
    UPTIME = gauge "bloomgate_uptime_seconds" "seconds" &[], "How long the server has been running";
    READY = gauge "bloomgate_ready" "" &[], "1 while it may be sent traffic (/readyz), else 0";
    CLIENTS = gauge "bloomgate_clients" "" &[], "Connections of the Redis protocol that are open";
    CLIENTS_REJECTED = counter "bloomgate_clients_rejected_total" "" &[], "Connections of the Redis protocol that were refused by a limit";
    CLIENTS_CUT = counter "bloomgate_clients_cut_total" "" &["reason"], "Connections of the Redis protocol that a limit ended: idle (nothing was asked), guest (nobody logged in), slow (a request or a transaction was not whole in time), stalled (replies were not taken) or memory (it held most when clients held too much)";
    HANDSHAKES_FAILED = counter "bloomgate_tls_handshakes_failed_total" "" &[], "TLS handshakes of the Redis protocol that failed or took too long";
    LOGINS_FAILED = counter "bloomgate_logins_failed_total" "" &[], "Logins with a wrong name or password";
    DENIED = counter "bloomgate_commands_denied_total" "" &[], "Commands that were refused because the user has no role for them";
    NETWORK = counter "bloomgate_network_bytes_total" "bytes" &["direction"], "Bytes of commands and replies, in and out, those of HTTP as commands too";
    COMMANDS = counter "bloomgate_commands_total" "" &["command"], "Commands that were run";
    FAILED = counter "bloomgate_commands_failed_total" "" &["command"], "Commands that were run and answered an error";
    REJECTED = counter "bloomgate_commands_rejected_total" "" &["command"], "Commands that were refused before they were run";
    DURATION = histogram "bloomgate_command_duration_seconds" "seconds" &["command"], "How long commands took; of adds and lookups in a pipeline one batch in 16 is timed and stands for those before it";
    LOOKUPS = counter "bloomgate_lookups_total" "" &["answer"], "Keys that were asked for, by the answer: no (definitely not there: a lookup spared) or maybe";
    ADDS = counter "bloomgate_adds_total" "" &["result"], "Keys that were to be added: new (certainly), seen (may have been there) or refused (the filter is full)";
    REMOVALS = counter "bloomgate_removals_total" "" &[], "Keys that were taken out";
    MEMORY = gauge "bloomgate_memory_used_bytes" "bytes" &[], "Memory charged for filters and what is kept beside them";
    BUDGET = gauge "bloomgate_memory_budget_bytes" "bytes" &[], "Memory that filters may take (max-memory)";
    RESIDENT = gauge "bloomgate_memory_resident_bytes" "bytes" &[], "Memory of the process";
    CLIENT_MEMORY = gauge "bloomgate_client_memory_used_bytes" "bytes" &[], "Memory that clients make the server hold: requests that are not whole, transactions, replies that are not taken";
    CLIENT_MEMORY_MOST = gauge "bloomgate_client_memory_limit_bytes" "bytes" &[], "Memory that clients together may make it hold (client-memory); whoever holds most goes when it is more";
    FILTERS = gauge "bloomgate_filters" "" &["kind"], "Filters there are";
    FILTERS_MOST = gauge "bloomgate_filters_limit" "" &[], "Filters there may be (max-filters)";
    UNAVAILABLE = gauge "bloomgate_filters_unavailable" "" &["reason"], "Filters that cannot answer, because their secret is missing or because of something else; their commands get an error, never a no";
    OVER_CAPACITY = gauge "bloomgate_filters_over_capacity" "" &[], "Filters that hold more items than they were made for, of all there are but stable ones; looked at every ten seconds";
    WORST_USED = gauge "bloomgate_filter_worst_used_ratio" "ratio" &[], "The highest share of its capacity that a filter holds, of the same";
    WRITABLE = gauge "bloomgate_store_writable" "" &[], "1 while writes are taken, 0 while the disk fails and the server is read-only";
    LOG_BYTES = gauge "bloomgate_log_bytes" "bytes" &[], "Size of the log since the last snapshot";
    LOG_PENDING = gauge "bloomgate_log_pending_bytes" "bytes" &[], "Bytes of the log that wait for the disk";
    LAG = gauge "bloomgate_fsync_lag_seconds" "seconds" &[], "For how long the oldest write that is not synced has been waiting";
    SLOWEST = gauge "bloomgate_fsync_slowest_seconds" "seconds" &[], "The slowest sync of the disk so far";
    SYNCS = counter "bloomgate_fsyncs_total" "" &[], "Syncs of the log";
    LOG_ERRORS = counter "bloomgate_log_errors_total" "" &[], "Writes and syncs of the log that failed";
    SNAPSHOT_AGE = gauge "bloomgate_snapshot_age_seconds" "seconds" &[], "Age of the last snapshot; since the start if there is none";
    SNAPSHOT_FAILED = gauge "bloomgate_snapshot_failed" "" &[], "1 if the last snapshot failed, else 0";
    PROBES = counter "bloomgate_probes_total" "" &[], "Random keys that filters were probed with to measure their rates";
    SUSPICIOUS = gauge "bloomgate_filters_suspicious" "" &[], "Filters whose bits are not those of random keys";
    POISONED = gauge "bloomgate_filters_poisoned" "" &[], "Filters whose bits are not those of random keys and whose rate is above twice the asked";
    WORST_SCORE = gauge "bloomgate_filter_worst_score" "" &[], "The highest poisoning score of all filters, in standard deviations";
    WORST_RATE = gauge "bloomgate_filter_worst_rate_ratio" "ratio" &[], "The highest measured rate of all filters, as a multiple of the asked one; of filters that are certainly above it";
    FEEDBACK = counter "bloomgate_feedback_spared_total" "" &[], "Lookups that were answered with no because a client had reported the key";
    NS = gauge "bloomgate_namespaces" "" &[], "Namespaces that are declared; the first 100 by name have figures of their own, the others together those of `(others)`";
    NS_FILTERS = gauge "bloomgate_namespace_filters" "" &["namespace"], "Filters of a namespace";
    NS_ITEMS = gauge "bloomgate_namespace_items" "" &["namespace"], "Items of the filters of a namespace; looked at every ten seconds";
    NS_CAPACITY = gauge "bloomgate_namespace_capacity" "" &["namespace"], "Items that the filters of a namespace were made for; looked at every ten seconds";
    NS_COMMANDS = counter "bloomgate_namespace_commands_total" "" &["namespace"], "Commands that were run on names of a namespace; those with several count for that of the first";
    NS_MEMORY = gauge "bloomgate_namespace_memory_bytes" "bytes" &["namespace"], "Memory of a namespace";
    NS_LIMIT = gauge "bloomgate_namespace_memory_limit_bytes" "bytes" &["namespace"], "Memory that a namespace may have; 0 for no limit, and not told of `(others)`";
    NS_LOOKUPS = counter "bloomgate_namespace_lookups_total" "" &["namespace", "answer"], "Keys that were asked for in a namespace, by the answer";
    NS_ADDS = counter "bloomgate_namespace_adds_total" "" &["namespace", "result"], "Keys that were to be added in a namespace: new, seen or refused";
    NS_WAITS = counter "bloomgate_namespace_waits_total" "" &["namespace"], "Times that clients of a namespace waited because it had its share of items";
    NS_WAITED = counter "bloomgate_namespace_waited_seconds_total" "seconds" &["namespace"], "How long they waited";
    F_ITEMS = gauge "bloomgate_filter_items" "" &["filter"], "Items of a filter; the 100 largest filters have figures of their own";
    F_CAPACITY = gauge "bloomgate_filter_capacity" "" &["filter"], "Items that a filter was made for; not of stable filters, which forget what is old";
    F_BYTES = gauge "bloomgate_filter_bytes" "bytes" &["filter"], "Size of a filter's bits";
    F_FILL = gauge "bloomgate_filter_fill_ratio" "ratio" &["filter"], "The share of a filter's bits that are set, from a sample";
    F_ASKED = gauge "bloomgate_filter_rate_asked_ratio" "ratio" &["filter"], "The rate of false positives that was asked for";
    F_EXPECTED = gauge "bloomgate_filter_rate_expected_ratio" "ratio" &["filter"], "The rate that the items in it make, by theory";
    F_MEASURED = gauge "bloomgate_filter_rate_measured_ratio" "ratio" &["filter"], "The rate that random keys found";
    F_ESTIMATED = gauge "bloomgate_filter_rate_estimated_ratio" "ratio" &["filter"], "The rate that its bits make; of filters above 1 MiB from 1,024 random lines, and not of cuckoo, quotient and stable ones that large, which would have to be read whole";
    F_SCORE = gauge "bloomgate_filter_score" "" &["filter"], "How far its bits are from those of random keys, in standard deviations";
    F_LOOKUPS = counter "bloomgate_filter_lookups_total" "" &["filter", "answer"], "Keys that a filter was asked for, by the answer";
    F_ADDS = counter "bloomgate_filter_adds_total" "" &["filter", "result"], "Keys that were to be added to a filter: new, seen or refused";
}

/// Namespaces with figures of their own.
const NAMESPACES: usize = 100;
/// The others together. No namespace can have this name.
const OTHERS: &str = "(others)";
/// Filters with figures of their own.
const FILTERS_TOLD: usize = 100;
/// Of so many that are looked at.
const LOOKED_AT: usize = 20_000;
/// Filters up to this size have all their bits read for a scrape: 16,384 lines, 0.2 ms.
const COUNTED: u64 = 1 << 20;
/// Of larger ones so many lines are: 0.1 ms where they are in no cache, and the rate is known to some hundredths.
const LINES: u64 = 1_024;
/// Letters of a filter's name in a label.
const LABEL: usize = 128;
/// What stands between the letters of a name that is not told whole and the filter's number.
const CUT: char = '…';

/// Everything at one moment.
pub(super) fn scrape(house: &House) -> Scrape {
    let mut scrape = Scrape::default();
    server(&mut scrape, house);
    commands(&mut scrape, house);
    store(&mut scrape, house);
    watch(&mut scrape, house);
    namespaces(&mut scrape, house);
    if !house.engine.is_loading() {
        filters(&mut scrape, house);
    }
    house.traffic.collect(&mut scrape);
    webhook::collect(house.lookout.webhook(), &mut scrape);
    scrape
}

fn server(scrape: &mut Scrape, house: &House) {
    let (engine, desk) = (&house.engine, &house.desk);
    scrape.whole(&BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1);
    scrape.number(&UPTIME, &[], desk.started.elapsed().as_secs_f64());
    scrape.whole(&READY, &[], u64::from(house.readiness().is_ok()));
    scrape.whole(&CLIENTS, &[], desk.client_count() as u64);
    let totals = desk.totals();
    scrape.whole(&CLIENTS_REJECTED, &[], totals.rejected);
    let Cuts { idle, guests, slow, stalled, memory, handshakes } = &desk.cuts;
    for (reason, count) in [("idle", idle), ("guest", guests), ("slow", slow), ("stalled", stalled), ("memory", memory)]
    {
        scrape.whole(&CLIENTS_CUT, &[("reason", reason)], count.load(Relaxed));
    }
    scrape.whole(&HANDSHAKES_FAILED, &[], handshakes.load(Relaxed));
    let (logins, denied) = desk.access.notes.counts();
    scrape.whole(&LOGINS_FAILED, &[], logins);
    scrape.whole(&DENIED, &[], denied);
    scrape.whole(&NETWORK, &[("direction", "in")], totals.bytes_in);
    scrape.whole(&NETWORK, &[("direction", "out")], totals.bytes_out);
    answers(scrape, &LOOKUPS, &[], totals.lookups, totals.positives);
    results(scrape, &ADDS, &[], (totals.adds, totals.fresh, totals.refused));
    scrape.whole(&REMOVALS, &[], totals.removed);
    scrape.whole(&MEMORY, &[], engine.budget.used());
    scrape.whole(&BUDGET, &[], engine.budget.most());
    if let Some(bytes) = resident_bytes() {
        scrape.whole(&RESIDENT, &[], bytes);
    }
    scrape.whole(&CLIENT_MEMORY, &[], desk.ledger.used());
    scrape.whole(&CLIENT_MEMORY_MOST, &[], desk.rules.client_memory());
}

/// Lookups by their answer, behind other labels.
fn answers(scrape: &mut Scrape, metric: &'static Metric, labels: &[(&str, &str)], lookups: u64, positives: u64) {
    for (answer, count) in [("no", lookups.saturating_sub(positives)), ("maybe", positives)] {
        scrape.whole(metric, &[labels, &[("answer", answer)]].concat(), count);
    }
}

/// Adds by their result, behind other labels.
fn results(
    scrape: &mut Scrape,
    metric: &'static Metric,
    labels: &[(&str, &str)],
    (adds, fresh, refused): (u64, u64, u64),
) {
    let seen = adds.saturating_sub(fresh + refused);
    for (result, count) in [("new", fresh), ("seen", seen), ("refused", refused)] {
        scrape.whole(metric, &[labels, &[("result", result)]].concat(), count);
    }
}

fn commands(scrape: &mut Scrape, house: &House) {
    for (spec, told) in house.desk.tallies.told() {
        let label = [("command", spec.name)];
        scrape.whole(&COMMANDS, &label, told.calls);
        scrape.whole(&FAILED, &label, told.failed);
        scrape.whole(&REJECTED, &label, told.rejected);
        let (counts, sum) = (told.buckets().to_vec(), told.micros as f64 / 1e6);
        scrape.add(&DURATION, &label, Value::Buckets { bounds: &BOUNDS, counts, sum });
    }
}

fn store(scrape: &mut Scrape, house: &House) {
    let (engine, desk) = (&house.engine, &house.desk);
    let Some(log) = engine.journal.log() else {
        scrape.whole(&WRITABLE, &[], 1);
        return;
    };
    let numbers = log.statistics();
    scrape.whole(&WRITABLE, &[], u64::from(log.is_writable()));
    scrape.whole(&LOG_BYTES, &[], numbers.bytes);
    scrape.whole(&LOG_PENDING, &[], numbers.pending_bytes);
    scrape.number(&LAG, &[], numbers.lag.as_secs_f64());
    scrape.number(&SLOWEST, &[], numbers.slowest_sync.as_secs_f64());
    scrape.whole(&SYNCS, &[], numbers.syncs);
    scrape.whole(&LOG_ERRORS, &[], numbers.errors);
    if let Some(keeper) = desk.keeper.get() {
        scrape.number(&SNAPSHOT_AGE, &[], house.snapshot_age());
        scrape.whole(&SNAPSHOT_FAILED, &[], u64::from(keeper.last_error().is_some()));
    }
}

fn watch(scrape: &mut Scrape, house: &House) {
    let watch = &house.engine.watch;
    let (suspicious, poisoned) = watch.findings.totals();
    scrape.whole(&PROBES, &[], watch.probes.load(Relaxed));
    scrape.whole(&SUSPICIOUS, &[], suspicious);
    scrape.whole(&POISONED, &[], poisoned);
    let found = watch.findings.all();
    let above = found.iter().filter(|one| one.interval().0 > one.promised);
    scrape.number(&WORST_SCORE, &[], found.iter().filter_map(Finding::score).fold(0.0, f64::max));
    scrape.number(&WORST_RATE, &[], above.filter_map(Finding::ratio).fold(0.0, f64::max));
    scrape.whole(&FEEDBACK, &[], watch.feedback.totals().spared);
}

fn namespaces(scrape: &mut Scrape, house: &House) {
    let namespaces = &house.engine.namespaces;
    let survey = house.lookout.survey();
    scrape.whole(&NS, &[], namespaces.len() as u64);
    for told in namespaces.tell_first(NAMESPACES) {
        scrape.whole(&NS_LIMIT, &[("namespace", &*told.name)], told.max_memory);
        namespace(scrape, &told.name, &told, sums(&survey.spaces, told.number));
    }
    let (mut others, mut sum) = (None, (0, 0));
    namespaces.tell_others(NAMESPACES, |told| {
        let (items, capacity) = sums(&survey.spaces, told.number);
        sum = (sum.0 + items, sum.1 + capacity);
        others = Some(match others.take() {
            None => told,
            Some(before) => together(before, told),
        });
    });
    if let Some(others) = others {
        namespace(scrape, OTHERS, &others, sum);
    }
}

/// Items and capacity of a namespace.
fn sums(spaces: &HashMap<u16, Together>, number: u16) -> (u64, u64) {
    spaces.get(&number).map_or((0, 0), |together| (together.items, together.capacity))
}

/// What two namespaces come to.
fn together(one: Told, other: Told) -> Told {
    let counts = Counts {
        lookups: one.counts.lookups + other.counts.lookups,
        positives: one.counts.positives + other.counts.positives,
        adds: one.counts.adds + other.counts.adds,
        fresh: one.counts.fresh + other.counts.fresh,
        removed: one.counts.removed + other.counts.removed,
        refused: one.counts.refused + other.counts.refused,
    };
    Told {
        used: one.used + other.used,
        filters: one.filters + other.filters,
        counts,
        commands: one.commands + other.commands,
        waits: one.waits + other.waits,
        waited_micros: one.waited_micros + other.waited_micros,
        ..one
    }
}

fn namespace(scrape: &mut Scrape, name: &str, told: &Told, (items, capacity): (u64, u64)) {
    let Told { used, filters, counts, commands, waits, waited_micros, .. } = *told;
    let label = [("namespace", name)];
    scrape.whole(&NS_FILTERS, &label, filters);
    scrape.whole(&NS_ITEMS, &label, items);
    scrape.whole(&NS_CAPACITY, &label, capacity);
    scrape.whole(&NS_COMMANDS, &label, commands);
    scrape.whole(&NS_MEMORY, &label, used);
    answers(scrape, &NS_LOOKUPS, &label, counts.lookups, counts.positives);
    results(scrape, &NS_ADDS, &label, (counts.adds, counts.fresh, counts.refused));
    scrape.whole(&NS_WAITS, &label, waits);
    scrape.number(&NS_WAITED, &label, waited_micros as f64 / 1e6);
}

fn filters(scrape: &mut Scrape, house: &House) {
    let engine = &house.engine;
    for (kind, count) in engine.names.kinds() {
        scrape.whole(&FILTERS, &[("kind", kind.name())], count as u64);
    }
    scrape.whole(&FILTERS_MOST, &[], engine.max_filters());
    let (all, secret) = (engine.names.unavailable() as u64, engine.names.without_secret() as u64);
    scrape.whole(&UNAVAILABLE, &[("reason", "secret")], secret);
    scrape.whole(&UNAVAILABLE, &[("reason", "other")], all.saturating_sub(secret));
    let survey = house.lookout.survey();
    scrape.whole(&OVER_CAPACITY, &[], survey.over_capacity);
    scrape.number(&WORST_USED, &[], survey.worst_used);
    let mut largest: Vec<(u64, Entry)> = engine
        .names
        .visible_from_id(0, LOOKED_AT)
        .into_iter()
        .filter_map(|entry| Some((entry.with(|filter| filter.size_in_bytes())?, entry)))
        .collect();
    // The same ones for the same sizes, so that their lines do not come and go.
    largest.sort_by_key(|(bytes, entry)| (std::cmp::Reverse(*bytes), entry.id));
    largest.truncate(FILTERS_TOLD);
    let mut random = Random::new();
    let mut told = HashSet::new();
    for (bytes, entry) in largest {
        let label = label(&entry.name(), entry.id);
        // Names change while they are looked at: after a swap the second filter may have that of the first.
        if told.insert(label.clone()) {
            filter(scrape, house, &entry, &label, bytes, &mut random);
        }
    }
}

/// The label of a filter, which no other one has: its name. Where that is no text, is too long, or could be taken for one that is
/// not told whole, as much of it as there is room for and the filter's number.
fn label(name: &[u8], id: u64) -> String {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match std::str::from_utf8(name) {
        Ok(text)
            if text.chars().count() <= LABEL && !text.rsplit_once(CUT).is_some_and(|(_, number)| is_number(number)) =>
        {
            text.to_owned()
        }
        _ => shown(name).chars().take(LABEL).chain([CUT]).chain(id.to_string().chars()).collect(),
    }
}

fn filter(scrape: &mut Scrape, house: &House, entry: &Entry, label: &str, bytes: u64, random: &mut Random) {
    let label = [("filter", label)];
    let facts = entry.with(|filter| (filter.len(), filter.capacity(), filter.promised_rate(), filter.expected_rate()));
    let Some((items, capacity, asked, expected)) = facts else { return };
    scrape.whole(&F_ITEMS, &label, items);
    // What counts every insertion and forgets the old ones is never over its capacity: no alert is to say so.
    if entry.kind() != Kind::Stable {
        scrape.whole(&F_CAPACITY, &label, capacity);
    }
    scrape.whole(&F_BYTES, &label, bytes);
    scrape.number(&F_ASKED, &label, asked);
    scrape.number(&F_EXPECTED, &label, expected);
    if let Some(rate) = estimated_rate(entry, bytes, random) {
        scrape.number(&F_ESTIMATED, &label, rate);
    }
    if let Some(finding) = house.engine.watch.findings.of(entry.id) {
        if let Some(look) = &finding.look {
            scrape.number(&F_FILL, &label, look.fill);
        }
        if let Some(rate) = finding.measured() {
            scrape.number(&F_MEASURED, &label, rate);
        }
        if let Some(score) = finding.score() {
            scrape.number(&F_SCORE, &label, score);
        }
    }
    let Counts { lookups, positives, adds, fresh, refused, .. } = entry.counts();
    answers(scrape, &F_LOOKUPS, &label, lookups, positives);
    results(scrape, &F_ADDS, &label, (adds, fresh, refused));
}

/// The rate that its bits make, from all of them or from some lines; nothing where neither is to be had for a scrape.
fn estimated_rate(entry: &Entry, bytes: u64, random: &mut Random) -> Option<f64> {
    // What is built once tells it without a look.
    if bytes <= COUNTED || matches!(entry.kind(), Kind::Fuse | Kind::Ribbon) {
        return entry.with(|filter| filter.estimated_rate()).flatten();
    }
    sample(entry, LINES, random)?.estimated_rate()
}

/// The table with the metrics of connections and of the webhook.
#[must_use]
pub fn table() -> Vec<&'static Metric> {
    TABLE.iter().chain(Traffic::TABLE).chain(webhook::TABLE).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloomgate_http::metrics::{check, markdown};

    #[test]
    fn names_keep_the_rules() {
        assert_eq!(check(&table()), Vec::<String>::new());
    }

    /// Two series with the same labels spoil the scrape, and whoever may make filters may call them anything.
    #[test]
    fn no_two_filters_have_the_same_label() {
        let long = |last: &str| format!("{}{last}", "x".repeat(LABEL)).into_bytes();
        assert_eq!(label(b"shop:seen", 1), "shop:seen");
        assert_eq!(label("é".repeat(LABEL).as_bytes(), 1), "é".repeat(LABEL));
        assert_eq!(label(&long("a"), 7), format!("{}…7", "x".repeat(LABEL)));
        assert_eq!(label(b"\xfe\xff", 7), "\u{fffd}\u{fffd}…7");
        assert_eq!(label("a…".as_bytes(), 7), "a…");
        let names =
            [long("a"), long("b"), b"\xff".to_vec(), b"\xfe".to_vec(), "\u{fffd}…3".into(), "\u{fffd}…3…5".into()];
        let labels: HashSet<String> = (1..).zip(&names).map(|(id, name)| label(name, id)).collect();
        assert_eq!(labels.len(), names.len(), "{labels:?}");
    }

    #[test]
    fn the_documentation_has_this_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        let (begin, end) = ("<!-- table -->\n", "<!-- end of table -->");
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(begin).unwrap();
        let (there, after) = rest.split_once(end).unwrap();
        let wanted = markdown(&table());
        if std::env::var_os("BLOOMGATE_WRITE").is_some() {
            std::fs::write(&path, format!("{before}{begin}{wanted}{end}{after}")).unwrap();
        }
        assert!(there == wanted, "docs/metrics.md is not what the code says: BLOOMGATE_WRITE=1 and this test write it");
    }
}
