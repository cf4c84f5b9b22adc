//! The server at a glance, and what is wrong with it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use bloomgate_command::{Refusal, Role};
use bloomgate_http::problem::Problem;
use serde_json::{Map, Value, json};

use super::figures::number;
use super::pulse::{Lately, Point};
use super::serving::House;
use super::visit::Visit;
use super::{Answer, answers};
use crate::engine::journal::Journal;
use crate::engine::watch::findings::Finding;
use crate::session::call::Call;
use crate::session::config::setting;
use crate::session::info::resident_bytes;
use crate::store::LogState;

/// The version of the paths and shapes.
const API_VERSION: u64 = 1;

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
    // Also while it loads: that it is not ready is a figure too.
    visit.talk.view_early(Role::Read, only_unbound)?;
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
    let found = house.lookout.now();
    let alerts = found.of(call.bound().map(|(number, _)| number)).iter();
    alerts.filter_map(|alert| alert.to_json(call.space())).collect()
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
        told["history"] = history(house);
        told["addresses"] = json!({"resp": address("resp"), "tls": address("tls"), "http": house.address.to_string()});
    } else {
        (told["kinds"], told["addresses"], told["history"]) = (json!({}), Value::Null, Value::Null);
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
    });
    let mut put = |name: &str, value: Value| told[name] = value;
    match call.space().map(|space| engine.namespaces.tell(space.name())) {
        None => {
            let totals = desk.totals();
            let lately = house.pulse.lately();
            put("filters", engine.names.visible().into());
            put("max_filters", engine.max_filters().into());
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
            put("max_filters", space.as_ref().map(|told| told.max_filters).filter(|most| *most > 0).into());
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

/// The rates of the last minutes: a list of moments, and lists of as many values.
fn history(house: &House) -> Value {
    let curve = house.pulse.curve();
    // A tenth of a lookup is as good as the rest of the digits.
    let list = |tell: fn(&Point) -> f64| -> Vec<f64> {
        curve.iter().map(|point| (tell(point) * 10.0).round() / 10.0).collect()
    };
    json!({
        "at_ms": curve.iter().map(|point| point.at_ms).collect::<Vec<_>>(),
        "lookups": list(|point| point.lookups), "definitely_not": list(|point| point.definitely_not),
    })
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
