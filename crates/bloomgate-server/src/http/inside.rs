//! What a filter is made of, for people who look: stages, generations, how full its bits are where, what a key finds in it,
//! and the lines that make it again.

use std::sync::PoisonError;

use axum::http::StatusCode;
use bloomgate::any::{Heat, Part, Trace};
use bloomgate::bits::Store;
use bloomgate::{Algorithm, AnyFilter, Digest, Kind, WhenFull};
use bloomgate_command::{Refusal, Role};
use bloomgate_http::base64;
use bloomgate_http::problem::Problem;
use serde_json::{Value, json};

use super::figures::{self, number};
use super::reply::Reply;
use super::visit::Visit;
use super::workbench::quoted;
use super::{Answer, answers};
use crate::engine::contracts::DEFAULT;
use crate::engine::entry::{Body, Entry, Maker};
use crate::session::call::Call;

/// Bars of a histogram.
const BARS: usize = 20;

/// What every form of a filter can show.
trait Inside {
    fn parts(&self) -> Vec<Part>;
    fn heat(&self, cells: u64) -> Option<Heat>;
    fn trace(&self, digest: Digest) -> bloomgate::Result<Vec<Trace>>;
}

impl<S: Store> Inside for AnyFilter<S> {
    fn parts(&self) -> Vec<Part> {
        self.parts()
    }
    fn heat(&self, cells: u64) -> Option<Heat> {
        self.heat(cells)
    }
    fn trace(&self, digest: Digest) -> bloomgate::Result<Vec<Trace>> {
        self.trace(digest)
    }
}

/// Shows the inside of a filter, whichever form it has.
fn within<T>(entry: &Entry, show: impl FnOnce(&dyn Inside) -> T) -> Result<T, Refusal> {
    match entry.body() {
        Body::Small(_) => Ok(show(&entry.copy()?)),
        Body::Shared(filter) => Ok(show(filter)),
        Body::Guarded(filter) => Ok(show(&*filter.read().unwrap_or_else(PoisonError::into_inner))),
        Body::Unavailable { why, .. } => Err(Refusal::new(why.to_owned())),
    }
}

/// Stages and generations as JSON. Reads all bits.
pub(super) fn structure(entry: &Entry) -> Result<(Value, Value), Refusal> {
    let parts = within(entry, |filter| filter.parts())?;
    let is_ring = parts.iter().any(|part| part.age.is_some());
    let stages: Vec<Value> = parts
        .iter()
        .map(|part| {
            json!({
                "kind": part.kind.name(), "items": part.items, "capacity": part.capacity, "bytes": part.bytes,
                "fill": number(part.fill), "rate": number(part.expected_rate),
            })
        })
        .collect();
    // The one that is being filled first.
    let generations: Vec<Value> = parts
        .iter()
        .rev()
        .filter_map(|part| {
            let age = part.age?.as_secs_f64();
            Some(json!({"items": part.items, "fill": number(part.fill), "age_seconds": age}))
        })
        .collect();
    Ok((stages.into(), if is_ring { generations.into() } else { json!([]) }))
}

/// `GET /v1/filters/{name}/heat`.
pub(super) async fn heat(visit: &mut Visit) -> Answer {
    let cells = visit.query.whole("cells", 1, 4_096)?.unwrap_or(256);
    let name = visit.name();
    let talk = &mut visit.talk;
    let (heat, expected) = tokio::task::block_in_place(|| {
        talk.view(Role::Read, |call| {
            let entry = figures::find(call, &name)?;
            let heat = within(&entry, |filter| filter.heat(cells))?;
            call.sees(&entry);
            let finding = call.core.engine.watch.findings.of(entry.id);
            Ok((heat, finding.and_then(|finding| finding.look).map(|look| look.expected_fill)))
        })
    })?;
    let Some(heat) = heat else {
        let none = json!({
            "cells": [], "bits_per_cell": 0, "expected": null, "histogram": [], "sampled": false,
        });
        return Ok(answers::json(StatusCode::OK, &none));
    };
    let told = json!({
        "cells": heat.cells.iter().map(|share| number(*share)).collect::<Vec<_>>(), "bits_per_cell": heat.bits_per_cell,
        "expected": expected.map_or(Value::Null, number), "histogram": histogram(&heat.cells), "sampled": heat.sampled,
    });
    Ok(answers::json(StatusCode::OK, &told))
}

/// How many stretches are how full.
fn histogram(cells: &[f64]) -> Vec<Value> {
    let (low, high) = cells.iter().fold((f64::MAX, f64::MIN), |(low, high), &share| (low.min(share), high.max(share)));
    let width = (high - low) / BARS as f64;
    if cells.is_empty() || width <= 0.0 {
        return cells.first().map(|share| json!({"fill": number(*share), "share": 1.0})).into_iter().collect();
    }
    let mut bars = [0u64; BARS];
    for share in cells {
        bars[(((share - low) / width) as usize).min(BARS - 1)] += 1;
    }
    let middle = |bar: usize| low + width * (bar as f64 + 0.5);
    let told = bars.iter().enumerate();
    told.map(|(bar, &count)| json!({"fill": number(middle(bar)), "share": count as f64 / cells.len() as f64})).collect()
}

/// `GET /v1/filters/{name}/explain`.
pub(super) async fn explain(visit: &mut Visit) -> Answer {
    let key = match (visit.query.bytes("key"), visit.query.text("key_base64")?) {
        (Some(_), Some(_)) => {
            return Err(Problem::bad_request("give 'key' or 'key_base64' in the query, and not both"));
        }
        (None, Some(text)) => {
            base64::decode(text).ok_or_else(|| Problem::bad_request("'key_base64' in the query is no base64"))?
        }
        (key, None) => key.map(<[u8]>::to_vec).unwrap_or_default(),
    };
    let name = visit.name();
    // Asked as everybody asks: roles, quotas and what was reported count.
    let maybe = match visit.talk.say(&[b"BG.EXISTS", &name, &key]).await? {
        Reply::List(list) => list.first() == Some(&Reply::Bool(true)),
        _ => false,
    };
    let is_admin = visit.talk.user().is_some_and(|user| user.roles.contains(Role::Admin));
    let talk = &mut visit.talk;
    let mut told = tokio::task::block_in_place(|| talk.view(Role::Read, |call| traced(call, &name, &key, is_admin)))?;
    told["verdict"] = if maybe { "maybe" } else { "no" }.into();
    let found = told["stages"].as_array().is_some_and(|stages| stages.iter().any(|stage| stage["verdict"] == "maybe"));
    if found && !maybe {
        told["note"] =
            "the bits say maybe, and a client has reported the key as absent: it is answered with no for a while"
                .into();
    }
    Ok(answers::json(StatusCode::OK, &told))
}

fn traced(call: &mut Call<'_, '_, '_>, name: &[u8], key: &[u8], is_admin: bool) -> Result<Value, Refusal> {
    let entry = figures::find(call, name)?;
    let contract = entry.contract().ok_or_else(|| Refusal::err("the filter cannot answer"))?;
    let digest = contract.digest(key).map_err(Refusal::from)?;
    let traces = within(&entry, |filter| filter.trace(digest))?.map_err(Refusal::from)?;
    call.sees(&entry);
    let keyed = entry.recipe().hashing.algorithm.is_keyed();
    // Where bits go under a secret is for those who have the server anyhow.
    let shows = !keyed || is_admin;
    let stages: Vec<Value> = traces
        .iter()
        .enumerate()
        .map(|(stage, trace)| {
            let bits: Option<Vec<u64>> = Some(trace.bits.iter().map(|(bit, _)| *bit).collect()).filter(|_| shows);
            let set: Option<Vec<bool>> = Some(trace.bits.iter().map(|(_, set)| *set).collect()).filter(|_| shows);
            json!({
                "stage": stage, "kind": trace.kind.name(), "verdict": if trace.maybe { "maybe" } else { "no" },
                "block": trace.line.filter(|_| shows), "bits": bits.filter(|bits: &Vec<u64>| !bits.is_empty()),
                "set": set.filter(|set: &Vec<bool>| !set.is_empty()),
            })
        })
        .collect();
    let (field, shown) = match std::str::from_utf8(key) {
        Ok(text) => ("key", Value::from(text)),
        Err(_) => ("key_base64", base64::encode(key).into()),
    };
    let note = match (shows, keyed) {
        (false, _) => Some("the keys are hashed under a secret: where their bits go is told to admins alone"),
        (true, true) => Some("the keys are hashed under a secret: nobody else can compute these bits"),
        (true, false) => None,
    };
    let mut told = json!({
        "filter": figures::shown(name), "contract": contract.to_string(),
        "count": entry.with(|filter| filter.count_of(digest)).flatten(),
        "digest": Some(format!("{:016x}{:016x}", digest.hi, digest.lo)).filter(|_| !keyed),
        "stages": stages, "note": note,
    });
    told[field] = shown;
    Ok(told)
}

/// The lines that make an empty filter like this one.
pub(super) fn recreate(call: &Call<'_, '_, '_>, entry: &Entry, name: &[u8]) -> Value {
    let (recipe, named) = (entry.recipe(), quoted(name));
    let (capacity, rate) =
        (recipe.capacity, if recipe.rate > 0.0 { recipe.rate } else { bloomgate::advice::USUAL_RATE });
    let mut fields = json!({"name": figures::shown(name), "kind": recipe.kind.name()});
    let mut resp = format!("BG.CREATE {named} KIND {}", recipe.kind);
    let mut put = |option: &str, field: &str, value: Value| {
        let word = value.as_str().map_or_else(|| value.to_string(), |text| quoted(text.as_bytes()));
        resp.push_str(&format!(" {option} {word}"));
        fields[field] = value;
    };
    if capacity > 0 {
        put("CAPACITY", "capacity", capacity.into());
    }
    if recipe.rate > 0.0 {
        put("RATE", "rate", recipe.rate.into());
    }
    if recipe.bytes > 0 {
        put("BYTES", "bytes", recipe.bytes.into());
    }
    if recipe.kind == Kind::Rotating {
        put("WINDOW", "window_seconds", (recipe.window_ns as f64 / 1e9).into());
        if recipe.generations > 0 {
            put("GENERATIONS", "generations", recipe.generations.into());
        }
    }
    if matches!(recipe.kind, Kind::Scalable | Kind::GrowingCuckoo) && recipe.when_full == WhenFull::Grow {
        put("GROWTH", "growth", recipe.growth.into());
    } else if !matches!(recipe.kind, Kind::Rotating | Kind::Stable) && recipe.when_full != WhenFull::Refuse {
        put("ONFULL", "on_full", if recipe.when_full == WhenFull::Grow { "grow" } else { "goon" }.into());
    }
    if recipe.fingerprint_bits > 0 {
        put("FINGERPRINT", "fingerprint", recipe.fingerprint_bits.into());
    }
    if recipe.counter_bits > 0 {
        put("COUNTERS", "counters", recipe.counter_bits.into());
    }
    let hashing = &recipe.hashing;
    if hashing.algorithm != Algorithm::SipHash13 {
        put("HASH", "hash", hashing.algorithm.name().into());
    }
    if hashing.algorithm.is_keyed() {
        if hashing.contract != call.contract(DEFAULT) {
            let shown = call.space().map(|space| space.shown_contract(&hashing.contract));
            put("CONTRACT", "contract", shown.unwrap_or_else(|| hashing.contract.clone()).into());
        }
    } else if hashing.seed > 0 {
        put("SEED", "seed", hashing.seed.into());
    }
    let resp = match entry.maker() {
        Maker::Bf { expansion: 0 } => format!("BF.RESERVE {named} {rate} {capacity} NONSCALING"),
        Maker::Bf { expansion } => format!("BF.RESERVE {named} {rate} {capacity} EXPANSION {expansion}"),
        Maker::Cf { bucket_size, max_iterations, expansion } => format!(
            "CF.RESERVE {named} {capacity} BUCKETSIZE {bucket_size} MAXITERATIONS {max_iterations} EXPANSION {expansion}"
        ),
        Maker::Bg => resp,
    };
    // One that was loaded from another system, or is built once, is made from its file or its keys.
    let is_made = !recipe.kind.is_foreign() && recipe.kind.takes_inserts();
    let body = fields.to_string().replace('\'', "'\\''");
    let http = format!("curl -X POST http://127.0.0.1:8479/v1/filters -H 'Content-Type: application/json' -d '{body}'");
    let cli = format!(
        "bloomgate build -o filter.bloom --kind {} --items {} --rate {rate} keys.txt",
        recipe.kind,
        capacity.max(1)
    );
    let has_cli = is_made && !matches!(recipe.kind, Kind::Rotating | Kind::Stable);
    json!({
        "resp": Some(resp).filter(|_| is_made), "http": Some(http).filter(|_| is_made),
        "cli": Some(cli).filter(|_| has_cli), "rust": super::plan::rust(recipe.kind, capacity.max(1), rate),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_add_up() {
        assert!(histogram(&[]).is_empty());
        assert_eq!(histogram(&[0.5, 0.5]), [json!({"fill": 0.5, "share": 1.0})]);
        let cells: Vec<f64> = (0..100).map(|at| f64::from(at) / 100.0).collect();
        let bars = histogram(&cells);
        assert_eq!(bars.len(), BARS);
        let sum: f64 = bars.iter().map(|bar| bar["share"].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }
}
