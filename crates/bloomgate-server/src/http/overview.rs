//! The server at a glance, what is wrong with it, and what to do better.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use bloomgate_command::{Refusal, Role};
use bloomgate_http::problem::Problem;
use serde_json::{Map, Value, json};

use super::figures::{Brief, number};
use super::pulse::Lately;
use super::serving::House;
use super::visit::Visit;
use super::{Answer, answers};
use crate::engine::entry::Entry;
use crate::engine::journal::Journal;
use crate::engine::watch::findings::Finding;
use crate::session::call::Call;
use crate::session::config::setting;
use crate::session::info::resident_bytes;
use crate::store::LogState;

/// The version of the paths and shapes.
const API_VERSION: u64 = 1;
/// Filters that advice looks at.
const LOOKED_AT: usize = 20_000;
/// Sentences of advice at once.
const MOST_ADVICE: usize = 100;
/// A filter that will be full within this time is worth a sentence.
const SOON: f64 = 3.0 * 86_400.0;

/// `/about.json`.
pub(super) fn about(house: &Arc<House>, _: &Parts) -> Response<Body> {
    let about = json!({
        "process": "server", "version": env!("CARGO_PKG_VERSION"), "api": "/v1", "stats": "/v1/overview",
        "login_needed": !house.desk.access.is_open(),
    });
    answers::json(StatusCode::OK, &about)
}

/// `GET /metrics`.
pub(super) async fn metrics(visit: &mut Visit) -> Answer {
    visit.talk.view(Role::Read, only_unbound)?;
    let house = visit.house.clone();
    let scraped = tokio::task::spawn_blocking(move || super::metrics::scrape(&house)).await;
    let scrape = scraped.map_err(|_| Problem::internal("counting ended early: try again"))?;
    Ok(scrape.respond(&visit.head.headers))
}

/// What concerns the whole server is not for users of a namespace.
pub(super) fn only_unbound(call: &mut Call<'_, '_, '_>) -> Result<(), Refusal> {
    match call.space() {
        None => Ok(()),
        Some(space) => Err(Refusal::new(format!(
            "NOPERM this tells of all namespaces, and the user is bound to '{}': ask as one who is bound to none",
            space.name()
        ))),
    }
}

/// `GET /v1/overview`.
pub(super) async fn overview(visit: &mut Visit) -> Answer {
    let house = visit.house.clone();
    let mut told = visit.talk.view(Role::Read, |call| Ok(tell(&house, call)))?;
    told["user"] = user(visit);
    Ok(answers::json(StatusCode::OK, &told))
}

/// The user as JSON.
pub(super) fn user(visit: &Visit) -> Value {
    match visit.talk.user() {
        None => Value::Null,
        Some(user) => {
            let roles: Vec<&str> =
                Role::ALL.iter().filter(|role| user.roles.contains(**role)).map(|role| role.name()).collect();
            json!({"name": user.name, "namespace": user.namespace, "roles": roles})
        }
    }
}

/// `GET /v1/whoami`.
pub(super) async fn whoami(visit: &mut Visit) -> Answer {
    Ok(answers::json(StatusCode::OK, &user(visit)))
}

/// `GET /v1/alerts`.
pub(super) async fn alerts(visit: &mut Visit) -> Answer {
    let house = visit.house.clone();
    let told = visit.talk.view(Role::Read, |call| Ok(alerts_of(&house, call)))?;
    Ok(answers::json(StatusCode::OK, &json!({"alerts": told})))
}

pub(super) fn alerts_of(house: &House, call: &Call<'_, '_, '_>) -> Vec<Value> {
    house.alerts.now().iter().filter_map(|alert| alert.to_json(call.space())).collect()
}

/// The server at a glance; of a bound user what is in the namespace in place of all.
pub(super) fn tell(house: &House, call: &Call<'_, '_, '_>) -> Value {
    let mut told = figures(house, call);
    told["alerts"] = alerts_of(house, call).into();
    let address = |name: &str| setting(&house.desk, name).filter(|address| *address != "none").map(str::to_owned);
    if call.space().is_none() {
        let kinds: Map<String, Value> = house
            .engine
            .names
            .kinds()
            .into_iter()
            .map(|(kind, count)| (kind.name().to_owned(), count.into()))
            .collect();
        told["kinds"] = kinds.into();
        told["addresses"] = json!({"resp": address("resp"), "tls": address("tls"), "http": house.address.to_string()});
    } else {
        (told["kinds"], told["addresses"]) = (json!({}), Value::Null);
    }
    told
}

/// The figures that change.
pub(super) fn figures(house: &House, call: &Call<'_, '_, '_>) -> Value {
    let (engine, desk) = (&house.engine, &house.desk);
    let ready = house.readiness();
    let state = match &ready {
        Ok(_) => "ready",
        Err(_) if engine.is_loading() => "loading",
        Err(_) if house.is_stopping() => "stopping",
        Err(_) => "read-only",
    };
    let mut told = json!({
        "version": env!("CARGO_PKG_VERSION"), "api_version": API_VERSION, "simd": bloomgate::simd_path(),
        "uptime_seconds": desk.started.elapsed().as_secs_f64(), "now_ms": engine.clock.now_ms(),
        "health": {"ready": ready.is_ok(), "state": state, "why": ready.err()},
        "max_filters": engine.max_filters(),
    });
    let mut put = |name: &str, value: Value| told[name] = value;
    match call.space().map(|space| engine.namespaces.tell(space.name())) {
        None => {
            let totals = desk.totals();
            let lately = house.pulse.lately();
            put("filters", engine.names.visible().into());
            put("unavailable_filters", engine.names.unavailable().into());
            put("lookups", totals.lookups.into());
            put("definitely_not", totals.lookups.saturating_sub(totals.positives).into());
            put("maybe", totals.positives.into());
            put("adds", totals.adds.into());
            put("new", totals.fresh.into());
            put("commands", totals.commands.into());
            put("per_second", per_second(lately.as_ref()));
            put("latency", latency(lately.as_ref()));
            let memory = json!({
                "used": engine.budget.used(), "budget": engine.budget.most(), "resident": resident_bytes(),
            });
            put("memory", memory);
            put("clients", json!({"resp": desk.client_count(), "http": house.traffic.open()}));
            put("persistence", persistence(house));
            put("watch", watch(house));
        }
        Some(space) => {
            let counts = space.as_ref().map(|told| told.counts).unwrap_or_default();
            put("filters", space.as_ref().map(|told| told.filters).into());
            put("unavailable_filters", Value::Null);
            put("lookups", counts.lookups.into());
            put("definitely_not", counts.lookups.saturating_sub(counts.positives).into());
            put("maybe", counts.positives.into());
            put("adds", counts.adds.into());
            put("new", counts.fresh.into());
            put("commands", Value::Null);
            put("per_second", per_second(None));
            put("latency", latency(None));
            let budget = space.as_ref().map(|told| told.max_memory).filter(|most| *most > 0);
            put("memory", json!({"used": space.as_ref().map(|told| told.used), "budget": budget, "resident": null}));
            put("clients", json!({"resp": null, "http": null}));
            put("persistence", Value::Null);
            put("watch", Value::Null);
        }
    }
    told
}

fn per_second(lately: Option<&Lately>) -> Value {
    let told = |tell: fn(&Lately) -> f64| lately.map_or(Value::Null, |lately| number(tell(lately)));
    json!({
        "lookups": told(|lately| lately.lookups), "definitely_not": told(|lately| lately.definitely_not),
        "adds": told(|lately| lately.adds), "commands": told(|lately| lately.commands),
    })
}

fn latency(lately: Option<&Lately>) -> Value {
    json!({
        "p50_seconds": lately.and_then(|lately| lately.median),
        "p99_seconds": lately.and_then(|lately| lately.slowest_of_hundred),
    })
}

fn persistence(house: &House) -> Value {
    let keeper = house.desk.keeper.get();
    let log = house.engine.journal.log();
    let numbers = log.map(|log| log.statistics());
    let saved = keeper.map(|keeper| keeper.last_save_s()).filter(|&at| at > 0);
    let trouble = log.and_then(|log| match log.state() {
        LogState::ReadOnly { why, .. } => Some(why.to_string()),
        _ => None,
    });
    json!({
        "kept": matches!(house.engine.journal, Journal::Log(_)),
        "writable": log.is_none_or(|log| log.is_writable()),
        "fsync": setting(&house.desk, "fsync"),
        "fsync_lag_seconds": numbers.as_ref().map(|numbers| numbers.lag.as_secs_f64()),
        "log_bytes": numbers.as_ref().map(|numbers| numbers.bytes),
        "last_snapshot_ms": saved.map(|at| at * 1_000),
        "snapshot_age_seconds": saved.map(|_| house.snapshot_age()),
        "saving": keeper.is_some_and(|keeper| keeper.is_saving()),
        "trouble": trouble.or_else(|| keeper.and_then(|keeper| keeper.last_error())),
    })
}

fn watch(house: &House) -> Value {
    let watch = &house.engine.watch;
    let (suspicious, poisoned) = watch.findings.totals();
    let worst = watch.findings.all().iter().filter_map(Finding::ratio).fold(0.0, f64::max);
    json!({
        "suspicious": suspicious, "poisoned": poisoned, "worst_rate_ratio": number(worst),
        "probes": watch.probes.load(Relaxed),
    })
}

/// A sentence of advice.
fn advice(brief: Option<&Brief>, severity: &str, sentence: String, reason: &str, command: String) -> Value {
    json!({
        "severity": severity, "about": brief.map(|brief| super::figures::shown(&brief.name)),
        "path": brief.map(|brief| super::figures::path_of(&brief.name)),
        "sentence": sentence, "reason": reason, "command": command,
    })
}

/// `GET /v1/advice`.
pub(super) async fn advise(visit: &mut Visit) -> Answer {
    let house = visit.house.clone();
    let told = visit.talk.view(Role::Read, |call| {
        let mut told = if call.space().is_none() { of_server(&house) } else { Vec::new() };
        let entries = match call.bound() {
            None => house.engine.names.visible_from_id(0, LOOKED_AT),
            Some((number, space)) => {
                let is_seen = |entry: &Entry| entry.space() == number && space.has(&entry.name());
                house.engine.names.from_id(0, LOOKED_AT).into_iter().filter(is_seen).collect()
            }
        };
        for entry in &entries {
            if told.len() >= MOST_ADVICE {
                break;
            }
            let brief = Brief::of(call, entry, house.growth.of(entry.id));
            told.extend(of_filter(&brief, entry));
        }
        Ok(told)
    })?;
    Ok(answers::json(StatusCode::OK, &json!({"advice": told})))
}

fn of_server(house: &House) -> Vec<Value> {
    let mut told = Vec::new();
    let (used, most) = (house.engine.budget.used(), house.engine.budget.most());
    if used as f64 > 0.9 * most as f64 {
        told.push(advice(
            None,
            "warning",
            format!("The filters take {} of {} bytes.", used, most),
            "When the budget is spent, filters that would grow refuse keys, and new ones are not made.",
            format!("CONFIG SET max-memory {}", most.saturating_mul(2)),
        ));
    }
    if matches!(house.engine.journal, Journal::Nowhere(_)) {
        told.push(advice(
            None,
            "info",
            "Nothing is kept on disk.".to_owned(),
            "A restart begins with no filters, and a name that is not there answers no over the Redis protocol.",
            "bloomgate serve --data ./bloomgate-data".to_owned(),
        ));
    }
    told
}

fn of_filter(brief: &Brief, entry: &Entry) -> Option<Value> {
    let word = |bytes: &[u8]| super::workbench::quoted(bytes);
    let name = word(&brief.name);
    let larger = |factor: u64| {
        let capacity = brief.items.max(brief.capacity).saturating_mul(factor);
        format!(
            "BG.CREATE {} LIKE {name} CAPACITY {capacity} RATE {}",
            word(&[&brief.name[..], b":next"].concat()),
            brief.asked
        )
    };
    if brief.items > brief.capacity {
        return Some(advice(
            Some(brief),
            "warning",
            format!("It holds {} items and was made for {}.", brief.items, brief.capacity),
            "Beyond its capacity the rate of false positives rises above what was asked for. Make a larger one, fill it from \
             the data, then BG.SWAP the two.",
            larger(2),
        ));
    }
    if let Some(seconds) = brief.full_in().filter(|&seconds| seconds < SOON) {
        return Some(advice(
            Some(brief),
            "warning",
            format!("At its growth it is full in {:.1} hours.", seconds / 3_600.0),
            "A full filter refuses keys. Make a larger one in time, fill it from the data, then BG.SWAP the two.",
            larger(4),
        ));
    }
    if brief.counts.lookups > 10_000 && brief.counts.positives as f64 > 0.95 * brief.counts.lookups as f64 {
        return Some(advice(
            Some(brief),
            "info",
            "More than 95 of 100 lookups are answered with maybe: it spares little.".to_owned(),
            "A filter saves the lookups that would find nothing. Either few of them are, or its rate is too high.",
            format!("BG.STATS {name}"),
        ));
    }
    let old = entry.created_ms + 7 * 86_400_000;
    let is_large = brief.bytes > 1 << 20 && brief.items > 0 && brief.items * 16 < brief.capacity;
    (is_large && old < brief.now_ms).then(|| {
        advice(
            Some(brief),
            "info",
            format!("After a week it holds {} of the {} items it was made for.", brief.items, brief.capacity),
            "Folding makes it smaller without its keys, as far as the rate allows for the items that are in.",
            format!("BG.FOLD {name} RATE {}", brief.asked),
        )
    })
}
