//! CONFIG: what the server was told and what of it has changed, under its own names and under those that clients of Redis
//! ask for.
//!
//! The [table](mod@crate::settings::table) says which settings there are and which may change. Values that may are kept where
//! they are used (the engine's limits and defaults, the desk's rules, the log's level), so there is one truth of each.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use bloomgate_command::{Refusal, Reply, glob, integer};

use super::call::Call;
use super::desk::{Desk, SLOW_KEPT};
use crate::engine::Engine;
use crate::logging::{Level, counted, shown};
use crate::resp::Limits;
use crate::settings::table::{self, TABLE};
use crate::settings::{Settings, files, memory, rewriting};

/// Redis's names of settings that may change, and ours.
const ALIASES: [(&str, &str); 5] = [
    ("maxmemory", "max-memory"),
    ("maxclients", "max-clients"),
    ("timeout", "idle-timeout"),
    ("loglevel", "log-level"),
    (SLOWER_THAN, "slower-than"),
];
/// Redis's names of settings that are other ones here, and may not change.
const THEIRS: [(&str, &str); 11] = [
    ("requirepass", "password"),
    ("aclfile", "access"),
    ("port", "resp"),
    ("bind", "resp"),
    ("tls-port", "tls"),
    ("tls-cert-file", "tls-cert"),
    ("tls-key-file", "tls-key"),
    ("tls-ca-cert-file", "tls-client-ca"),
    ("dir", "data"),
    ("appendfsync", "fsync"),
    ("io-threads", "threads"),
];
const SLOWER_THAN: &str = "slowlog-log-slower-than";

/// What was found out at the start, by name.
#[must_use]
pub fn setting<'a>(desk: &'a Desk, name: &str) -> Option<&'a str> {
    desk.settings.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
}

/// The settings as they are now.
fn now(engine: &Engine, desk: &Desk) -> Settings {
    let mut now = desk.told.clone();
    now.limits = engine.limits();
    now.defaults = engine.defaults();
    now.slow_micros = desk.slow_micros.load(Ordering::Relaxed);
    now.log_level = desk.log.level();
    desk.rules.tell(&mut now);
    now
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
    let now = now(engine, desk);
    let slower_than = match now.slow_micros {
        u64::MAX => "-1".to_owned(),
        micros => micros.to_string(),
    };
    let mut all = desk.settings.clone();
    let ours = TABLE.iter().filter_map(|setting| setting.text(&now).map(|text| (setting.name, text)));
    let theirs = [
        ("cf-max-expansions", bloomgate::cuckoo::MAX_STAGES.to_string()),
        ("maxmemory", now.limits.max_memory.to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        // Snapshots are made when the log is long, not by the clock.
        ("save", String::new()),
        ("appendonly", if engine.journal.log().is_some() { "yes" } else { "no" }.to_owned()),
        ("appendfsync", append_fsync(desk).to_owned()),
        ("protected-mode", if desk.access.is_protected() { "yes" } else { "no" }.to_owned()),
        ("databases", "1".to_owned()),
        ("cluster-enabled", "no".to_owned()),
        ("proto-max-bulk-len", Limits::OPEN.bulk.to_string()),
        ("client-query-buffer-limit", Limits::OPEN.request.to_string()),
        ("timeout", now.idle_timeout.as_secs().to_string()),
        (SLOWER_THAN, slower_than),
        ("slowlog-max-len", SLOW_KEPT.to_string()),
        ("latency-monitor-threshold", "0".to_owned()),
        ("notify-keyspace-events", String::new()),
        ("maxclients", now.max_clients.to_string()),
    ];
    for (name, value) in ours.chain(theirs) {
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
pub fn set(call: &Call<'_, '_, '_>, pairs: &[&[u8]]) -> Result<Reply, Refusal> {
    let (engine, desk) = (&call.core.engine, call.desk);
    // One after the other: each begins with what the one before left.
    let mut changed = desk.changed.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = now(engine, desk);
    let mut names: Vec<&'static str> = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let given = shown(&pair[0].to_ascii_lowercase());
        let failed = |why: &str| {
            Refusal::err(format_args!("CONFIG SET failed (possibly related to argument '{given}') - {why}"))
        };
        if given == SLOWER_THAN {
            check_slower_than(pair[1]).map_err(failed)?;
        }
        let name = ALIASES.iter().find(|(theirs, _)| *theirs == given).map_or(&*given, |(_, ours)| ours);
        let Some(setting) = TABLE.iter().find(|setting| setting.name == name) else {
            if let Some((_, ours)) = THEIRS.iter().find(|(theirs, _)| *theirs == name) {
                return Err(failed(&format!("can't set immutable config: here it is {ours}, which {NEEDS_A_RESTART}")));
            }
            return Err(match all(engine, desk).iter().any(|(known, _)| *known == name) {
                true => failed("can't set immutable config: it tells what this server is like"),
                false => unknown(&given),
            });
        };
        if !setting.live {
            return Err(failed(&format!("can't set immutable config: it {NEEDS_A_RESTART}")));
        }
        if names.contains(&setting.name) {
            return Err(failed("duplicate parameter"));
        }
        let text = std::str::from_utf8(pair[1]).map_err(|_| failed("the value is no text"))?;
        if text.len() > 64 {
            return Err(failed("the value is too long"));
        }
        table::set(&mut next, setting.name, text).map_err(|why| failed(&why))?;
        if setting.name == "max-clients" {
            let with_http = self::setting(desk, "http").is_some_and(|address| address != "none");
            files::worry(next.max_clients, with_http).map_or(Ok(()), |why| Err(failed(&why)))?;
        }
        names.push(setting.name);
    }
    engine.set_limits(&next.limits);
    engine.set_defaults(&next.defaults);
    desk.slow_micros.store(next.slow_micros, Ordering::Relaxed);
    desk.rules.set(&next);
    desk.log.set_level(next.log_level);
    for name in names {
        changed.insert(name);
        let value = table::find(name).ok().and_then(|setting| setting.text(&next)).unwrap_or_default();
        let fields = [("setting", name.into()), ("value", value.as_str().into())];
        call.tell("setting-changed", format_args!("{name} is {value} now"), &fields);
        if name == "max-memory" {
            for worry in memory::worries(engine.budget.most(), engine.budget.used(), memory::limit()) {
                desk.log.say(Level::Warn, "warning", format_args!("{worry}"), &[]);
            }
        }
    }
    Ok(Reply::Ok)
}

const NEEDS_A_RESTART: &str = "needs a restart (change its flag, its variable or its line in the file of --config)";

/// A name that nobody knows, with the nearest that may change: Redis's words first.
fn unknown(given: &str) -> Refusal {
    let words = format_args!("Unknown option or number of arguments for CONFIG SET - '{given}'");
    match table::near(given, TABLE.iter().filter(|setting| setting.live).map(|setting| setting.name)) {
        Some(near) => Refusal::err(format_args!("{words}; did you mean '{near}'?")),
        None => Refusal::err(words),
    }
}

/// Redis's own words about this one.
fn check_slower_than(value: &[u8]) -> Result<(), &'static str> {
    match integer(value) {
        None => Err("argument couldn't be parsed into an integer"),
        Some(..-1) => Err("argument must be between -1 and 9223372036854775807 inclusive"),
        Some(_) => Ok(()),
    }
}

/// CONFIG REWRITE: what was changed goes into the file that the settings came from.
pub fn rewrite(call: &Call<'_, '_, '_>) -> Result<Reply, Refusal> {
    let (engine, desk) = (&call.core.engine, call.desk);
    let Some(path) = &desk.told.config else {
        return Err(Refusal::err(
            "The server is running without a config file: start it with --config FILE, or change the flags or variables it \
             is started with",
        ));
    };
    let changed = desk.changed.lock().unwrap_or_else(PoisonError::into_inner);
    let now = now(engine, desk);
    let values: Vec<(&str, String)> = TABLE
        .iter()
        .filter(|setting| changed.contains(setting.name))
        .filter_map(|setting| setting.text(&now).map(|text| (setting.name, text)))
        .collect();
    rewriting::rewrite(path, &values).map_err(|why| Refusal::err(format_args!("Rewriting config file: {why}")))?;
    let file = path.display().to_string();
    let fields = [("file", file.as_str().into()), ("count", (values.len() as u64).into())];
    let count = counted(values.len() as u64, "changed setting");
    call.tell("settings-written", format_args!("{count} written into {file}"), &fields);
    Ok(Reply::Ok)
}
