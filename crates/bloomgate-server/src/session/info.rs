//! INFO: facts and counters in sections of `name:value` lines, as clients and exporters of Redis read them.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::config::setting;
use super::desk::Desk;
use super::server::{BF_VERSION, REDIS_VERSION, own_version};
use super::space::Space;
use super::tallies::Told;
use super::tenants::facts;
use crate::engine::Engine;
use crate::engine::journal::Journal;
use crate::engine::namespaces::Told as Namespace;
use crate::engine::watch::findings::Finding;
use crate::store::LogState;

/// The sections in their order; whether INFO without arguments tells them; who writes them.
const SECTIONS: [(&str, bool, Section); 15] = [
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, modules),
    ("Commandstats", false, commandstats),
    ("Errorstats", true, nothing),
    ("Cluster", true, cluster),
    ("Keyspace", true, keyspace),
    ("Bloomgate", true, bloomgate),
    ("Watch", true, watch),
    ("Namespaces", true, namespaces),
];

/// So many namespaces are told at most; BG.NAMESPACE INFO tells any.
const MOST_NAMESPACES: usize = 100;

/// The lines of a section.
type Section = fn(&mut Lines, &Engine, &Desk);

/// Lines that are being written.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    fn put(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }
}

/// The sections asked for, `all`, `everything` and `default` being several; none is `default`.
#[must_use]
pub fn text(engine: &Engine, desk: &Desk, sections: &[&[u8]]) -> String {
    written(
        sections,
        SECTIONS
            .iter()
            .map(|&(name, by_default, write)| (name, by_default, move |lines: &mut Lines| write(lines, engine, desk))),
    )
}

/// The same for a user who is bound to a namespace: what the server is, and what is in the namespace.
#[must_use]
pub fn text_of_space(engine: &Engine, desk: &Desk, space: &Space, sections: &[&[u8]]) -> String {
    let told = engine.namespaces.tell(space.name());
    let write = |section: &'static str| {
        let told = told.clone();
        move |lines: &mut Lines| match (section, told) {
            ("Server", _) => {
                lines.put("redis_version", REDIS_VERSION);
                lines.put("bloomgate_version", env!("CARGO_PKG_VERSION"));
                lines.put("redis_mode", "standalone");
                lines.put("server_time_usec", engine.clock.wall_ns() / 1_000);
                lines.put("uptime_in_seconds", desk.started.elapsed().as_secs());
            }
            ("Keyspace", Some(told)) if told.filters > 0 => lines.put("db0", format_args!("keys={}", told.filters)),
            ("Namespaces", Some(told)) => put_namespace(lines, &told),
            _ => {}
        }
    };
    written(sections, ["Server", "Keyspace", "Namespaces"].map(|name| (name, true, write(name))))
}

fn written<W: FnOnce(&mut Lines)>(
    sections: &[&[u8]],
    all: impl IntoIterator<Item = (&'static str, bool, W)>,
) -> String {
    let asked = |name: &str| sections.iter().any(|section| section.eq_ignore_ascii_case(name.as_bytes()));
    let everything = asked("all") || asked("everything");
    let default = sections.is_empty() || asked("default");
    let mut lines = Lines::default();
    for (name, by_default, write) in all {
        if everything || (default && by_default) || asked(name) {
            if !lines.0.is_empty() {
                lines.0.push_str("\r\n");
            }
            lines.0.push_str("# ");
            lines.0.push_str(name);
            lines.0.push_str("\r\n");
            write(&mut lines);
        }
    }
    lines.0
}

fn nothing(_: &mut Lines, _: &Engine, _: &Desk) {}

fn server(lines: &mut Lines, engine: &Engine, desk: &Desk) {
    let uptime = desk.started.elapsed().as_secs();
    lines.put("redis_version", REDIS_VERSION);
    lines.put("bloomgate_version", env!("CARGO_PKG_VERSION"));
    lines.put("redis_mode", "standalone");
    lines.put("os", std::env::consts::OS);
    lines.put("arch_bits", usize::BITS);
    lines.put("multiplexing_api", "tokio");
    lines.put("process_id", std::process::id());
    lines.put("run_id", &desk.run_id);
    lines.put("tcp_port", port(desk));
    lines.put("server_time_usec", engine.clock.wall_ns() / 1_000);
    lines.put("clock_ahead_seconds", engine.clock.ahead_ms() / 1_000);
    lines.put("uptime_in_seconds", uptime);
    lines.put("uptime_in_days", uptime / 86_400);
    lines.put("io_threads_active", u8::from(threads(desk) > 1));
    if let Some(end) = desk.certificate.get().and_then(|certificate| certificate.not_after()) {
        lines.put("tls_certificate_not_after", end);
    }
}

/// The port clients come to: a setting of its own, or the end of the address.
fn port(desk: &Desk) -> &str {
    setting(desk, "port")
        .or_else(|| setting(desk, "resp").and_then(|address| address.rsplit(':').next()))
        .unwrap_or("0")
}

fn threads(desk: &Desk) -> usize {
    setting(desk, "threads").and_then(|threads| threads.parse().ok()).unwrap_or_else(|| desk.threads())
}

fn clients(lines: &mut Lines, _: &Engine, desk: &Desk) {
    lines.put("connected_clients", desk.client_count());
    lines.put("maxclients", desk.rules.max_clients());
    lines.put("blocked_clients", 0);
    lines.put("tracking_clients", 0);
}

fn memory(lines: &mut Lines, engine: &Engine, desk: &Desk) {
    let (used, most) = (engine.budget.used(), engine.budget.most());
    lines.put("used_memory", used);
    lines.put("used_memory_human", human(used));
    if let Some(resident) = resident_bytes() {
        lines.put("used_memory_rss", resident);
        lines.put("used_memory_rss_human", human(resident));
    }
    lines.put("used_memory_dataset", used);
    lines.put("maxmemory", most);
    lines.put("maxmemory_human", human(most));
    lines.put("maxmemory_policy", "noeviction");
    let limit = crate::settings::memory::limit();
    lines.put("memory_limit", limit.bytes);
    lines.put("memory_limit_source", one_line(&limit.source));
    lines.put("client_memory", desk.ledger.used());
    lines.put("client_memory_most", desk.rules.client_memory());
}

/// Bytes in the form of Redis: 1.50M.
fn human(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes}B"),
        _ => {
            let units = ['K', 'M', 'G', 'T', 'P', 'E'];
            let power = (bytes.ilog2() / 10).clamp(1, 6);
            format!("{:.2}{}", bytes as f64 / 1_024f64.powi(power as i32), units[power as usize - 1])
        }
    }
}

fn persistence(lines: &mut Lines, engine: &Engine, desk: &Desk) {
    let keeper = desk.keeper.get().map(|keeper| &**keeper);
    lines.put("loading", u8::from(engine.is_loading()));
    lines.put("async_loading", 0);
    lines.put("rdb_bgsave_in_progress", u8::from(keeper.is_some_and(|keeper| keeper.is_saving())));
    lines.put("rdb_last_save_time", keeper.map_or(0, |keeper| keeper.last_save_s()));
    let error = keeper.and_then(|keeper| keeper.last_error());
    lines.put("rdb_last_bgsave_status", if error.is_some() { "err" } else { "ok" });
    let log = engine.journal.log();
    lines.put("aof_enabled", u8::from(matches!(engine.journal, Journal::Log(_))));
    lines.put("last_sequence", engine.journal.appended());
    match log {
        Some(log) => {
            let numbers = log.statistics();
            lines.put("aof_last_write_status", if log.is_writable() { "ok" } else { "err" });
            lines.put("aof_current_size", numbers.bytes);
            lines.put("log_writable", u8::from(log.is_writable()));
            lines.put("log_bytes", numbers.bytes);
            lines.put("last_written_seq", numbers.written);
            lines.put("last_synced_seq", numbers.synced);
            lines.put("fsync_lag_ms", numbers.lag.as_millis());
            lines.put("log_segments", numbers.segments);
            lines.put("log_pending_bytes", numbers.pending_bytes);
            lines.put("log_syncs", numbers.syncs);
            lines.put("slowest_sync_us", numbers.slowest_sync.as_micros());
            lines.put("log_errors", numbers.errors);
            lines.put("log_recoveries", numbers.recoveries);
            lines.put("log_torn_bytes", numbers.torn_bytes);
            if let LogState::ReadOnly { why, .. } = log.state() {
                lines.put("log_trouble", one_line(&why));
            }
        }
        None => {
            lines.put("last_synced_seq", 0);
            lines.put("fsync_lag_ms", 0);
        }
    }
    if let Some(error) = error {
        lines.put("last_save_error", one_line(&error));
    }
    for (name, value) in keeper.map(|keeper| keeper.facts()).unwrap_or_default() {
        lines.put(name, one_line(&value));
    }
}

/// A value that stays on its line.
fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

fn stats(lines: &mut Lines, _: &Engine, desk: &Desk) {
    let totals = desk.totals();
    lines.put("total_connections_received", totals.connections);
    lines.put("rejected_connections", totals.rejected);
    let (logins, commands) = desk.access.notes.counts();
    lines.put("acl_access_denied_auth", logins);
    lines.put("acl_access_denied_cmd", commands);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    lines.put("connections_cut_idle", count(&desk.cuts.idle));
    lines.put("connections_cut_guests", count(&desk.cuts.guests));
    lines.put("connections_cut_slow", count(&desk.cuts.slow));
    lines.put("connections_cut_stalled", count(&desk.cuts.stalled));
    lines.put("connections_cut_memory", count(&desk.cuts.memory));
    lines.put("tls_handshakes_failed", count(&desk.cuts.handshakes));
    lines.put("total_commands_processed", totals.commands);
    lines.put("total_net_input_bytes", totals.bytes_in);
    lines.put("total_net_output_bytes", totals.bytes_out);
    lines.put("items_looked_up", totals.lookups);
    lines.put("items_added", totals.adds);
    lines.put("slowlog_entries", desk.slow().len());
    lines.put("evicted_keys", 0);
}

fn commandstats(lines: &mut Lines, _: &Engine, desk: &Desk) {
    for (spec, told) in desk.tallies.told() {
        let Told { calls, micros, rejected, failed, .. } = told;
        let each = micros as f64 / calls.max(1) as f64;
        lines.put(
            &format!("cmdstat_{}", spec.name),
            format_args!(
                "calls={calls},usec={micros},usec_per_call={each:.2},rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

fn replication(lines: &mut Lines, _: &Engine, _: &Desk) {
    lines.put("role", "master");
    lines.put("connected_slaves", 0);
    lines.put("master_repl_offset", 0);
}

fn cpu(lines: &mut Lines, _: &Engine, _: &Desk) {
    if let Some((user, system)) = cpu_seconds() {
        lines.put("used_cpu_sys", format_args!("{system:.6}"));
        lines.put("used_cpu_user", format_args!("{user:.6}"));
    }
}

fn modules(lines: &mut Lines, _: &Engine, _: &Desk) {
    for (name, version) in [("bf", BF_VERSION), ("bloomgate", own_version())] {
        let rest = "api=1,filters=0,usedby=[],using=[],options=[]";
        lines.put("module", format_args!("name={name},ver={version},{rest}"));
    }
}

fn cluster(lines: &mut Lines, _: &Engine, _: &Desk) {
    lines.put("cluster_enabled", 0);
}

fn keyspace(lines: &mut Lines, engine: &Engine, _: &Desk) {
    let keys = engine.names.visible();
    if keys > 0 {
        lines.put("db0", format_args!("keys={keys},expires={},avg_ttl=0", engine.names.ending()));
    }
}

fn bloomgate(lines: &mut Lines, engine: &Engine, desk: &Desk) {
    lines.put("simd", bloomgate::simd_path());
    lines.put("threads", threads(desk));
    let master = engine.contracts.master_id();
    lines.put("keyed", u8::from(master.is_some()));
    lines.put("master_secret_id", master.as_deref().unwrap_or("none"));
    let fsync = match &engine.journal {
        Journal::Nowhere(_) => "nothing-is-kept",
        Journal::Log(_) => setting(desk, "fsync").unwrap_or("every-second"),
    };
    lines.put("fsync", fsync);
    lines.put("filters", engine.names.visible());
    lines.put("max_filters", engine.max_filters());
    lines.put("unavailable_filters", engine.names.unavailable());
    for (kind, count) in engine.names.kinds() {
        lines.put(&format!("filters_{}", kind.to_string().replace('-', "_")), count);
    }
}

/// What the server measures about its filters, and what clients have reported.
fn watch(lines: &mut Lines, engine: &Engine, _: &Desk) {
    let watch = &engine.watch;
    let (feedback, found) = (watch.feedback.totals(), watch.findings.all());
    let (suspicious, poisoned) = watch.findings.totals();
    let worst = found.iter().filter_map(Finding::ratio).fold(0.0, f64::max);
    lines.put("probe_share", watch.settings.share);
    lines.put("probe_probes", watch.probes.load(Ordering::Relaxed));
    lines.put("probe_visits", watch.visits.load(Ordering::Relaxed));
    lines.put("probe_rounds", watch.rounds.load(Ordering::Relaxed));
    lines.put("probe_filters", found.len());
    lines.put("worst_rate_ratio", format_args!("{worst:.4}"));
    lines.put("suspicious_filters", suspicious);
    lines.put("poisoned_filters", poisoned);
    lines.put("feedback_filters", feedback.filters);
    lines.put("feedback_entries", feedback.entries);
    lines.put("feedback_reports", feedback.reports);
    lines.put("feedback_spared", feedback.spared);
}

fn namespaces(lines: &mut Lines, engine: &Engine, _: &Desk) {
    lines.put("namespaces", engine.namespaces.len());
    engine.namespaces.tell_first(MOST_NAMESPACES).iter().for_each(|told| put_namespace(lines, told));
}

fn put_namespace(lines: &mut Lines, told: &Namespace) {
    let facts: Vec<String> = facts(told).iter().map(|(name, value)| format!("{name}={value}")).collect();
    lines.put(&format!("namespace_{}", told.name), facts.join(","));
}

/// Memory of the process, where the system tells it.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Seconds of processor time of the process, its own and the system's for it.
fn cpu_seconds() -> Option<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name before may have spaces and brackets in it: count from the last bracket. utime is field 14, stime 15.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    let (user, system) = (ticks()?, ticks()?);
    let second = rustix::param::clock_ticks_per_second() as f64;
    Some((user / second, system / second))
}
