//! CONFIG: what the server was told, under its own names and under those that clients of Redis ask for.

use std::sync::atomic::Ordering;

use bloomgate_command::{Refusal, Reply, glob, integer};

use super::desk::{Desk, SLOW_KEPT};
use crate::engine::Engine;
use crate::resp::Limits;

/// The one setting that changes while the server runs.
const SLOWER_THAN: &str = "slowlog-log-slower-than";

/// What the server was told under a name.
#[must_use]
pub fn setting<'a>(desk: &'a Desk, name: &str) -> Option<&'a str> {
    desk.settings.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
}

/// The policy of the log in Redis's words.
fn append_fsync(desk: &Desk) -> &'static str {
    match setting(desk, "fsync") {
        Some("always") => "always",
        Some("never") => "no",
        _ => "everysec",
    }
}

/// All settings with their values, each name once. Passwords and secrets are not among them.
fn all(engine: &Engine, desk: &Desk) -> Vec<(&'static str, String)> {
    let defaults = &engine.defaults;
    let slower_than = match desk.slow_micros.load(Ordering::Relaxed) {
        u64::MAX => "-1".to_owned(),
        micros => micros.to_string(),
    };
    let mut all = desk.settings.clone();
    let known = [
        ("bf-error-rate", defaults.bf_error_rate.to_string()),
        ("bf-initial-size", defaults.bf_initial_size.to_string()),
        ("bf-expansion-factor", defaults.bf_expansion_factor.to_string()),
        ("cf-bucket-size", defaults.cf_bucket_size.to_string()),
        ("cf-initial-size", defaults.cf_initial_size.to_string()),
        ("cf-max-iterations", defaults.cf_max_iterations.to_string()),
        ("cf-expansion-factor", defaults.cf_expansion_factor.to_string()),
        ("cf-max-expansions", bloomgate::cuckoo::MAX_STAGES.to_string()),
        ("cf-error-rate", defaults.cf_error_rate.to_string()),
        ("maxmemory", engine.budget.most().to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("max-filters", engine.limits.max_filters.to_string()),
        ("max-filter-memory", engine.limits.max_filter_memory.to_string()),
        // Snapshots are made when the log is long, not by the clock.
        ("save", String::new()),
        ("appendonly", if engine.journal.log().is_some() { "yes" } else { "no" }.to_owned()),
        ("appendfsync", append_fsync(desk).to_owned()),
        ("protected-mode", if desk.access.is_protected() { "yes" } else { "no" }.to_owned()),
        ("databases", "1".to_owned()),
        ("cluster-enabled", "no".to_owned()),
        ("proto-max-bulk-len", Limits::OPEN.bulk.to_string()),
        ("client-query-buffer-limit", Limits::OPEN.request.to_string()),
        ("timeout", "0".to_owned()),
        (SLOWER_THAN, slower_than),
        ("slowlog-max-len", SLOW_KEPT.to_string()),
        ("latency-monitor-threshold", "0".to_owned()),
        ("notify-keyspace-events", String::new()),
    ];
    // Redis writes it in one word.
    let clients = setting(desk, "max-clients").map(|most| ("maxclients", most.to_owned()));
    for (name, value) in known.into_iter().chain(clients) {
        if all.iter().all(|(there, _)| *there != name) {
            all.push((name, value));
        }
    }
    all
}

/// CONFIG GET: the settings whose names match any of the patterns.
#[must_use]
pub fn get(engine: &Engine, desk: &Desk, patterns: &[&[u8]]) -> Reply {
    let patterns: Vec<Vec<u8>> = patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    let matching = all(engine, desk)
        .into_iter()
        .filter(|(name, _)| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes())));
    Reply::Map(matching.map(|(name, value)| (Reply::text(name), Reply::text(value))).collect())
}

/// CONFIG SET: all of the pairs or none.
pub fn set(engine: &Engine, desk: &Desk, pairs: &[&[u8]]) -> Result<Reply, Refusal> {
    let mut slower_than = None;
    let known = all(engine, desk);
    for pair in pairs.chunks_exact(2) {
        let (name, value) = (pair[0], pair[1]);
        let failed = |why: &str| {
            let name = name.to_ascii_lowercase();
            Refusal::err(format_args!(
                "CONFIG SET failed (possibly related to argument '{}') - {why}",
                String::from_utf8_lossy(&name)
            ))
        };
        if name.eq_ignore_ascii_case(SLOWER_THAN.as_bytes()) {
            let micros = integer(value).ok_or_else(|| failed("argument couldn't be parsed into an integer"))?;
            slower_than = Some(match micros {
                -1 => u64::MAX,
                _ => u64::try_from(micros)
                    .map_err(|_| failed("argument must be between -1 and 9223372036854775807 inclusive"))?,
            });
        } else if known.iter().any(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes())) {
            return Err(failed("can't set immutable config"));
        } else {
            let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
            return Err(Refusal::err(format_args!("Unknown option or number of arguments for CONFIG SET - '{name}'")));
        }
    }
    if let Some(micros) = slower_than {
        desk.slow_micros.store(micros, Ordering::Relaxed);
    }
    Ok(Reply::Ok)
}
