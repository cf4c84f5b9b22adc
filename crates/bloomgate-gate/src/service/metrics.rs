//! The gate's metrics: one table gives name, help, unit and labels to the scrape and to the documentation.

use bloomgate_http::listen::Traffic;
use bloomgate_http::metrics::{Scrape, Value};

use super::deny::Decided;
use crate::policy::State;
use crate::stats::{
    AuditStats, ClientStats, Lookups, Measured, PartStats, ShadowStats, SourceStats, Stats, WriteStats,
};
use crate::tenants::{Tenants, TenantsStats};
use crate::times::{BOUNDS, Timed, Times};

bloomgate_http::metrics! {
    /// Every metric of the gate's service, those of its connections after them.
    BUILD = gauge "bloomgate_build_info" "" &["version"], "1, with the version of the program";
    STATE = gauge "bloomgate_gate_state" "" &["state"], "1 for the state the filter is in: loading, ready, degraded (it cannot be reached), stale or broken; 0 for the others";
    BLOCKING = gauge "bloomgate_gate_blocking" "" &[], "1 while a lookup can be answered by the filter alone, else 0: alert when it is 0 for long";
    LOOKUPS = counter "bloomgate_gate_lookups_total" "" &["outcome"], "Lookups that were answered, by where they ended";
    FAILED = counter "bloomgate_gate_lookups_failed_total" "" &["reason"], "Lookups that ended in an error: the policy is closed, too many waited for the source, the client is over its cap, or the source failed";
    JOINED = counter "bloomgate_gate_lookups_joined_total" "" &[], "Lookups that took the answer of a read under way";
    BYPASS_ABSENT = counter "bloomgate_gate_bypassed_absent_total" "" &[], "Lookups of absent keys that reached the source because the filter was not ready or only watches";
    ABSENT = counter "bloomgate_gate_absent_lookups_total" "" &[], "Lookups of absent keys that a ready filter judged: what false positives are a share of";
    FALSE_POSITIVES = counter "bloomgate_gate_false_positives_total" "" &[], "Lookups of absent keys that a ready filter let through";
    MEASURED = gauge "bloomgate_gate_false_positive_measured_ratio" "ratio" &[], "False positives as a share of the lookups of absent keys, since the start";
    ASKED = gauge "bloomgate_gate_false_positive_asked_ratio" "ratio" &[], "The share of false positives that was asked for";
    INTERVAL = gauge "bloomgate_gate_false_positive_interval_ratio" "ratio" &["bound"], "Between which shares the true one lies, by the measured one, 99 times in 100: low and high";
    OBSERVED = gauge "bloomgate_gate_false_positive_observed_ratio" "ratio" &[], "Of the lookups of absent keys since this filter came into force, the share that it let through to the source; missing before the first";
    ESTIMATED = gauge "bloomgate_gate_false_positive_estimated_ratio" "ratio" &[], "The share of false positives that the bits of the filter have, counted; past twice the one asked for it is rebuilt. Missing for a filter in another server";
    EXPECTED = gauge "bloomgate_gate_false_positive_expected_ratio" "ratio" &[], "The share of false positives to expect of the keys in the filter";
    AUDITED = counter "bloomgate_gate_audits_total" "" &["result"], "Answers of no that were drawn to be checked at the source: right, wrong (must be 0), undecided (something was written nearby meanwhile) or skipped";
    WOULD_BLOCK = counter "bloomgate_gate_shadow_blocked_total" "" &[], "Lookups that a gate which only watches would have blocked";
    WOULD_WRONGLY = counter "bloomgate_gate_shadow_blocked_wrongly_total" "" &[], "Of those, the ones that the source had: somebody writes past the gate";
    LOOKUP_TIME = histogram "bloomgate_gate_lookup_duration_seconds" "seconds" &["outcome"], "How long lookups took, by where they ended; those that ended in an error are failed. Of those that a filter in this process stops one in 64 is timed and stands for all; a key of a batch took as long as its batch";
    SOURCE_TIME = histogram "bloomgate_gate_source_duration_seconds" "seconds" &[], "How long the source took for questions of lookups, without the wait for a turn; failed ones too. A question for many keys counts once";
    PART_UP = gauge "bloomgate_gate_part_up" "" &["part"], "1 if this part answered when it was called the last time, else 0: the source, the cache if there is one, and the filter, which in this process always answers";
    SOURCE_READS = counter "bloomgate_gate_source_reads_total" "" &[], "Keys that lookups asked the source for";
    ERRORS = counter "bloomgate_gate_errors_total" "" &["part"], "Calls that failed, of the source, the cache or a filter behind a network";
    AT_SOURCE = gauge "bloomgate_gate_source_reads_under_way" "" &[], "Reads at the source at this moment";
    WAITING = gauge "bloomgate_gate_source_waiting" "" &[], "Lookups that wait for their turn at the source";
    NEGATIVES = gauge "bloomgate_gate_negative_entries" "" &[], "Absent keys that are remembered";
    WRITES = counter "bloomgate_gate_writes_total" "" &["kind"], "Rows written and deleted through the gate";
    UNKNOWN = counter "bloomgate_gate_writes_unknown_total" "" &[], "Writes of which the source did not say whether they were done";
    UNDER_WAY = gauge "bloomgate_gate_writes_under_way" "" &[], "Writes at this moment";
    DOUBTFUL = gauge "bloomgate_gate_doubtful_keys" "" &[], "Keys kept in every filter because their write may still happen";
    FEED_LAG = gauge "bloomgate_gate_feed_lag_seconds" "seconds" &[], "With writers = feed: how long ago the feed was read to its end; past max-staleness nothing is blocked";
    FEED_CHANGES = counter "bloomgate_gate_feed_changes_total" "" &["kind"], "Changes by others that the feed told: keys that came, rows that got other values, keys that went, and times that the table was emptied";
    FEED_FAILED = counter "bloomgate_gate_feed_failures_total" "" &[], "Reads of the feed that failed";
    FEED_LOST = counter "bloomgate_gate_feed_losses_total" "" &[], "Times that the feed could not be followed from where it was left, so that the filter was rebuilt";
    REBUILDS = counter "bloomgate_gate_rebuilds_total" "" &["result"], "Rebuilds that ended";
    REBUILD_ALERT = gauge "bloomgate_gate_rebuild_failures" "" &[], "Rebuilds that failed since the last one that did not, of all tenants together: alert above 0";
    REBUILD_EVERY = gauge "bloomgate_gate_rebuild_every_seconds" "seconds" &[], "How often a rebuild is due (rebuild-every); missing for never";
    REBUILDING = gauge "bloomgate_gate_rebuild_progress_ratio" "ratio" &[], "How far the rebuild under way is; 0 when there is none";
    REBUILD_TIME = gauge "bloomgate_gate_last_rebuild_seconds" "seconds" &[], "How long the last rebuild took";
    REBUILD_KEYS = gauge "bloomgate_gate_last_rebuild_keys" "" &[], "Keys that the last rebuild read";
    READY_AFTER = gauge "bloomgate_gate_ready_after_seconds" "seconds" &[], "How long the first filter took from the start until it was ready";
    SAVE_ERRORS = counter "bloomgate_gate_save_errors_total" "" &[], "Times that saving the filter for the next start failed";
    VERSION = gauge "bloomgate_gate_filter_version" "" &[], "The version of the filter: rises by one with each rebuild";
    WATERMARK = gauge "bloomgate_gate_filter_watermark_seconds" "seconds" &[], "As of when the filter knows every key, in seconds since 1970";
    BUILT = gauge "bloomgate_gate_filter_built_seconds" "seconds" &[], "As of when the scan was that the filter was built from, in seconds since 1970; unlike the watermark it does not rise with a feed. Of many tenants, the oldest filter's";
    ITEMS = gauge "bloomgate_gate_filter_items" "" &[], "Different keys in the filter";
    CAPACITY = gauge "bloomgate_gate_filter_capacity" "" &[], "Keys the filter was sized for";
    REMOVED = gauge "bloomgate_gate_filter_removed" "" &[], "Rows deleted since the filter was built; their bits stay until the next rebuild";
    BYTES = gauge "bloomgate_gate_filter_bytes" "bytes" &[], "The size of the filter";
    CLIENTS = gauge "bloomgate_gate_clients" "" &[], "Clients that are remembered for their caps";
    CLIENTS_CAPPED = gauge "bloomgate_gate_clients_capped" "" &[], "Clients that are over a cap at this moment";
    CLIENT_REFUSED = counter "bloomgate_gate_client_refusals_total" "" &["cap"], "Lookups that would have reached the source, and rows to be added, that were refused since their client is over its cap";
    DENY = counter "bloomgate_gate_deny_answers_total" "" &["outcome"], "Answers of a deny list, by what was decided";
    TENANTS = gauge "bloomgate_gate_tenants" "" &["state"], "With --tenant: tenants by the state of their filter: loading, ready, stale, broken or no-room (the memory does not suffice)";
    TENANT_LOOKUPS = counter "bloomgate_gate_tenant_lookups_total" "" &["tenant", "outcome"], "With --tenant: lookups that were answered, by tenant and by where they ended; the largest tenants by name, the rest as other";
    TENANT_ABSENT = counter "bloomgate_gate_tenant_absent_lookups_total" "" &["tenant"], "With --tenant: lookups of absent keys that a ready filter of the tenant judged";
    TENANT_FALSE = counter "bloomgate_gate_tenant_false_positives_total" "" &["tenant"], "With --tenant: of those, the ones that it let through";
    TENANT_READY = gauge "bloomgate_gate_tenant_ready" "" &["tenant"], "With --tenant: 1 while the filter of the tenant is in force, else 0; of the rest, the share of them";
    TENANT_ITEMS = gauge "bloomgate_gate_tenant_filter_items" "" &["tenant"], "With --tenant: different keys in the filter of the tenant";
    TENANT_BYTES = gauge "bloomgate_gate_tenant_filter_bytes" "bytes" &["tenant"], "With --tenant: the size of the filter of the tenant";
    TENANT_AUDITED = counter "bloomgate_gate_tenant_audits_total" "" &["tenant", "result"], "With --tenant: answers of no that were drawn to be checked at the source, by tenant: right, wrong (must be 0), undecided or skipped";
    TENANT_WOULD = counter "bloomgate_gate_tenant_shadow_blocked_total" "" &["tenant"], "With --tenant: lookups of the tenant that a gate which only watches would have blocked";
    TENANT_WRONGLY = counter "bloomgate_gate_tenant_shadow_blocked_wrongly_total" "" &["tenant"], "With --tenant: of those, the ones that the source had";
    TENANT_DENSITY = gauge "bloomgate_gate_tenant_filter_bit_density_ratio" "ratio" &["tenant"], "With --tenant: the share of the bits of the tenant's filter that are set; not of the rest";
    UNKNOWN_TENANTS = counter "bloomgate_gate_unknown_tenant_lookups_total" "" &["outcome"], "With --tenant: lookups for tenants that nobody knows: absent-by-filter or bypass";
    BUDGET = gauge "bloomgate_gate_filter_budget_bytes" "bytes" &[], "With --tenant: the memory that the filters of all tenants may take together";
    SCANS = counter "bloomgate_gate_tenant_scans_total" "" &["result"], "With --tenant: scans of all tenants that ended";
    DENSITY = gauge "bloomgate_gate_filter_bit_density_ratio" "ratio" &[], "The share of the filter's bits that are set";
}

/// Tenants that have a label of their own: each costs twenty series.
const LABELLED: usize = 50;

/// The states as metrics name them.
const STATES: [&str; 5] = [State::Loading.name(), "ready", "degraded", State::Stale.name(), State::Broken.name()];

/// What there is before there is a gate.
pub(super) fn waiting(traffic: &Traffic) -> Scrape {
    let mut scrape = begin("loading", false);
    traffic.collect(&mut scrape);
    scrape
}

fn begin(now: &str, blocking: bool) -> Scrape {
    let mut scrape = Scrape::default();
    scrape.whole(&BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1);
    for state in STATES {
        scrape.whole(&STATE, &[("state", state)], u64::from(state == now));
    }
    scrape.whole(&BLOCKING, &[], u64::from(blocking));
    scrape
}

/// Everything at one moment.
pub(super) fn scrape(stats: &Stats, times: &Times, deny: Option<&Decided>, traffic: &Traffic) -> Scrape {
    let mut scrape = begin(stats.state, stats.blocking);
    lookups(&mut scrape, &stats.lookups, &stats.measured);
    durations(&mut scrape, times);
    parts(&mut scrape, stats.parts);
    audits(&mut scrape, &stats.audit, &stats.shadow);
    at_source(&mut scrape, &stats.at_source, &stats.writes);
    if let Some(feed) = &stats.feed {
        if let Some(lag) = feed.lag_ms {
            scrape.number(&FEED_LAG, &[], lag as f64 / 1000.0);
        }
        for (kind, count) in
            [("written", feed.written), ("changed", feed.changed), ("deleted", feed.deleted), ("emptied", feed.emptied)]
        {
            scrape.whole(&FEED_CHANGES, &[("kind", kind)], count);
        }
        scrape.whole(&FEED_FAILED, &[], feed.failures);
        scrape.whole(&FEED_LOST, &[], feed.losses);
    }
    rebuilds(&mut scrape, stats);
    clients(&mut scrape, stats.clients.as_ref(), deny);
    if let Some(filter) = &stats.filter {
        scrape.whole(&VERSION, &[], filter.version);
        if let Some(watermark) = filter.watermark_ms {
            scrape.number(&WATERMARK, &[], watermark as f64 / 1000.0);
        }
        if let Some(built) = filter.built_ms {
            scrape.number(&BUILT, &[], built as f64 / 1000.0);
        }
        scrape.whole(&ITEMS, &[], filter.items);
        scrape.whole(&CAPACITY, &[], filter.capacity);
        scrape.whole(&REMOVED, &[], filter.removed);
        if let Some(bytes) = filter.bytes {
            scrape.whole(&BYTES, &[], bytes);
        }
        if let Some(density) = filter.bit_density {
            scrape.number(&DENSITY, &[], density);
        }
        scrape.number(&ASKED, &[], filter.asked_rate);
        scrape.number(&EXPECTED, &[], filter.expected_rate);
        if let Some(estimated) = filter.estimated_rate {
            scrape.number(&ESTIMATED, &[], estimated);
        }
        if let Some(observed) = filter.observed_rate {
            scrape.number(&OBSERVED, &[], observed);
        }
    }
    traffic.collect(&mut scrape);
    scrape
}

/// Everything of many tenants at one moment: the sums, and the largest of them by name.
pub(super) fn scrape_tenants(
    tenants: &Tenants,
    stats: &TenantsStats,
    deny: Option<&Decided>,
    traffic: &Traffic,
) -> Scrape {
    let mut scrape = begin(stats.state, stats.blocking);
    lookups(&mut scrape, &stats.lookups, &stats.measured);
    durations(&mut scrape, &tenants.all.times);
    parts(&mut scrape, stats.parts);
    audits(&mut scrape, &stats.audit, &stats.shadow);
    at_source(&mut scrape, &stats.at_source, &stats.writes);
    clients(&mut scrape, stats.clients.as_ref(), deny);
    scrape.whole(&REBUILDS, &[("result", "done")], stats.rebuilds);
    scrape.whole(&REBUILDS, &[("result", "failed")], stats.rebuilds_failed);
    scrape.whole(&SCANS, &[("result", "done")], stats.scans);
    scrape.whole(&SCANS, &[("result", "failed")], stats.scans_failed);
    scrape.whole(&REBUILD_ALERT, &[], stats.failures_in_a_row);
    if let Some(every) = stats.every_seconds {
        scrape.number(&REBUILD_EVERY, &[], every);
    }
    let progress = stats.scanning.map_or(0.0, |(keys, expected)| (keys as f64 / expected.max(1) as f64).min(1.0));
    scrape.number(&REBUILDING, &[], progress);
    if let Some(last) = stats.history.last() {
        scrape.number(&REBUILD_TIME, &[], last.seconds);
        scrape.whole(&REBUILD_KEYS, &[], last.keys);
    }
    if let Some(built) = stats.built_ms {
        scrape.number(&BUILT, &[], built as f64 / 1000.0);
    }
    scrape.whole(&REMOVED, &[], stats.removed);
    scrape.whole(&SAVE_ERRORS, &[], stats.save_errors);
    scrape.whole(&VERSION, &[], stats.version);
    if let Some(watermark) = stats.watermark_ms {
        scrape.number(&WATERMARK, &[], watermark as f64 / 1000.0);
    }
    scrape.whole(&BYTES, &[], stats.budget.spent);
    scrape.whole(&BUDGET, &[], stats.budget.bytes);
    let counts = &stats.tenants;
    for (state, count) in [
        ("loading", counts.loading),
        ("ready", counts.ready),
        ("stale", counts.stale),
        ("broken", counts.broken),
        ("no-room", counts.without_room),
    ] {
        scrape.whole(&TENANTS, &[("state", state)], count as u64);
    }
    scrape.whole(&UNKNOWN_TENANTS, &[("outcome", "absent-by-filter")], stats.strangers.absent_by_filter);
    scrape.whole(&UNKNOWN_TENANTS, &[("outcome", "bypass")], stats.strangers.bypass);
    for one in tenants.labelled(LABELLED) {
        let tenant = ("tenant", one.tenant.as_str());
        for (outcome, count) in outcomes(&one.lookups) {
            scrape.whole(&TENANT_LOOKUPS, &[tenant, ("outcome", outcome)], count);
        }
        scrape.whole(&TENANT_ABSENT, &[tenant], one.measured.absent_lookups);
        scrape.whole(&TENANT_FALSE, &[tenant], one.measured.false_positives);
        scrape.number(&TENANT_READY, &[tenant], one.ready);
        scrape.whole(&TENANT_ITEMS, &[tenant], one.items);
        scrape.whole(&TENANT_BYTES, &[tenant], one.bytes);
        for (result, count) in results(&one.audit) {
            scrape.whole(&TENANT_AUDITED, &[tenant, ("result", result)], count);
        }
        scrape.whole(&TENANT_WOULD, &[tenant], one.shadow.would_block);
        scrape.whole(&TENANT_WRONGLY, &[tenant], one.shadow.would_block_wrongly);
        if let Some(density) = one.density {
            scrape.number(&TENANT_DENSITY, &[tenant], density);
        }
    }
    traffic.collect(&mut scrape);
    scrape
}

/// Audits by how they ended.
fn results(audit: &AuditStats) -> [(&'static str, u64); 4] {
    [
        ("right", audit.checked.saturating_sub(audit.wrong)),
        ("wrong", audit.wrong),
        ("undecided", audit.undecided),
        ("skipped", audit.skipped),
    ]
}

fn audits(scrape: &mut Scrape, audit: &AuditStats, shadow: &ShadowStats) {
    for (result, count) in results(audit) {
        scrape.whole(&AUDITED, &[("result", result)], count);
    }
    scrape.whole(&WOULD_BLOCK, &[], shadow.would_block);
    scrape.whole(&WOULD_WRONGLY, &[], shadow.would_block_wrongly);
}

fn at_source(scrape: &mut Scrape, source: &SourceStats, writes: &WriteStats) {
    scrape.whole(&SOURCE_READS, &[], source.reads);
    scrape.whole(&ERRORS, &[("part", "source")], source.errors);
    scrape.whole(&ERRORS, &[("part", "cache")], source.cache_errors);
    scrape.whole(&ERRORS, &[("part", "filter")], source.filter_errors);
    scrape.whole(&AT_SOURCE, &[], source.at_once as u64);
    scrape.whole(&WAITING, &[], source.waiting as u64);
    scrape.whole(&NEGATIVES, &[], source.negative_entries as u64);
    scrape.whole(&WRITES, &[("kind", "put")], writes.puts);
    scrape.whole(&WRITES, &[("kind", "delete")], writes.deletes);
    scrape.whole(&UNKNOWN, &[], writes.unknown);
    scrape.whole(&UNDER_WAY, &[], writes.under_way as u64);
    scrape.whole(&DOUBTFUL, &[], writes.doubtful as u64);
}

/// Lookups by where they ended.
fn outcomes(lookups: &Lookups) -> [(&'static str, u64); 6] {
    [
        ("absent-by-filter", lookups.absent_by_filter),
        ("negative-cached", lookups.negative_cached),
        ("cache", lookups.cache),
        ("source", lookups.source),
        ("not-found", lookups.not_found),
        ("bypass", lookups.bypass),
    ]
}

fn lookups(scrape: &mut Scrape, lookups: &Lookups, measured: &Measured) {
    for (outcome, count) in outcomes(lookups) {
        scrape.whole(&LOOKUPS, &[("outcome", outcome)], count);
    }
    let refused = lookups.refused_closed + lookups.refused_busy + lookups.refused_capped;
    let other = lookups.failed.saturating_sub(refused);
    scrape.whole(&FAILED, &[("reason", "closed")], lookups.refused_closed);
    scrape.whole(&FAILED, &[("reason", "busy")], lookups.refused_busy);
    scrape.whole(&FAILED, &[("reason", "capped")], lookups.refused_capped);
    scrape.whole(&FAILED, &[("reason", "other")], other);
    scrape.whole(&JOINED, &[], lookups.joined);
    scrape.whole(&BYPASS_ABSENT, &[], lookups.bypass_absent);
    scrape.whole(&ABSENT, &[], measured.absent_lookups);
    scrape.whole(&FALSE_POSITIVES, &[], measured.false_positives);
    if let Some(rate) = measured.false_positive_rate {
        scrape.number(&MEASURED, &[], rate);
    }
    if let Some((low, high)) = measured.interval {
        scrape.number(&INTERVAL, &[("bound", "low")], low);
        scrape.number(&INTERVAL, &[("bound", "high")], high);
    }
}

fn durations(scrape: &mut Scrape, times: &Times) {
    let told = |what| {
        let told = times.of(what);
        Value::Buckets { bounds: &BOUNDS, counts: told.counts.to_vec(), sum: told.seconds }
    };
    for (outcome, kind) in Timed::lookups() {
        scrape.add(&LOOKUP_TIME, &[("outcome", outcome)], told(kind));
    }
    scrape.add(&SOURCE_TIME, &[], told(Timed::Source));
}

fn parts(scrape: &mut Scrape, parts: PartStats) {
    for (part, is_up) in parts.each() {
        scrape.whole(&PART_UP, &[("part", &part.to_string())], u64::from(is_up));
    }
}

/// Caps on clients, and what a deny list decided: zeros where there is none.
fn clients(scrape: &mut Scrape, clients: Option<&ClientStats>, deny: Option<&Decided>) {
    scrape.whole(&CLIENTS, &[], clients.map_or(0, |clients| clients.remembered as u64));
    scrape.whole(&CLIENTS_CAPPED, &[], clients.map_or(0, |clients| clients.capped as u64));
    scrape.whole(&CLIENT_REFUSED, &[("cap", "misses")], clients.map_or(0, |clients| clients.refused_lookups));
    scrape.whole(&CLIENT_REFUSED, &[("cap", "adds")], clients.map_or(0, |clients| clients.refused_adds));
    for (outcome, count) in [
        ("allowed-by-filter", deny.map(|deny| deny.allowed_by_filter)),
        ("allowed", deny.map(|deny| deny.allowed)),
        ("denied", deny.map(|deny| deny.denied)),
        ("allowed-unconfirmed", deny.map(|deny| deny.allowed_unconfirmed)),
    ] {
        scrape.whole(&DENY, &[("outcome", outcome)], count.unwrap_or(0));
    }
}

fn rebuilds(scrape: &mut Scrape, stats: &Stats) {
    let rebuild = &stats.rebuild;
    scrape.whole(&REBUILDS, &[("result", "done")], rebuild.done);
    scrape.whole(&REBUILDS, &[("result", "failed")], rebuild.failed);
    scrape.whole(&REBUILD_ALERT, &[], rebuild.failures_in_a_row);
    if let Some(every) = rebuild.every_seconds {
        scrape.number(&REBUILD_EVERY, &[], every);
    }
    let progress = rebuild.running.as_ref().map_or(0.0, |running| {
        // The count it began with is an estimate: it may read more.
        (running.scanned as f64 / running.expected.max(1) as f64).min(1.0)
    });
    scrape.number(&REBUILDING, &[], progress);
    if let Some(last) = rebuild.history.last() {
        scrape.number(&REBUILD_TIME, &[], last.seconds);
        scrape.whole(&REBUILD_KEYS, &[], last.keys);
    }
    if let Some(after) = rebuild.ready_after_ms {
        scrape.number(&READY_AFTER, &[], after as f64 / 1000.0);
    }
    scrape.whole(&SAVE_ERRORS, &[], rebuild.save_errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloomgate_http::metrics::{Metric, check, markdown};

    #[test]
    fn names_keep_the_rules() {
        assert_eq!(check(TABLE), Vec::<String>::new());
    }

    #[test]
    fn the_documentation_has_this_table() {
        let all: Vec<&Metric> =
            TABLE.iter().chain(Traffic::TABLE).chain(bloomgate_http::webhook::TABLE).copied().collect();
        let page = markdown(&all);
        assert!(include_str!("../../../../docs/gate.md").contains(&page), "docs/gate.md should have\n{page}");
    }
}
