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
use super::visit::Visit;
use super::workbench::quoted;
use super::{Answer, answers};
use crate::engine::contracts::DEFAULT;
use crate::engine::entry::{Body, Entry, Maker};
use crate::engine::recipe::Recipe;
use crate::session::call::Call;

/// Bars of a histogram.
const BARS: usize = 20;

/// What every form of a filter can show.
trait Inside {
    fn parts(&self) -> Vec<Part>;
    fn heat(&self, cells: u64) -> Option<Heat>;
    fn trace(&self, digest: Digest) -> Vec<Trace>;
}

impl<S: Store> Inside for AnyFilter<S> {
    fn parts(&self) -> Vec<Part> {
        self.parts()
    }
    fn heat(&self, cells: u64) -> Option<Heat> {
        self.heat(cells)
    }
    fn trace(&self, digest: Digest) -> Vec<Trace> {
        self.trace(digest)
    }
}

/// Shows the inside of a filter, whichever form it has.
fn within<T>(entry: &Entry, show: impl FnOnce(&dyn Inside) -> T) -> Result<T, Refusal> {
    match entry.body() {
        Body::Small(_) => Ok(show(&entry.copy()?)),
        Body::Shared(filter) => Ok(show(filter)),
        Body::Guarded(filter) => Ok(show(&*filter.read().unwrap_or_else(PoisonError::into_inner))),
        Body::Unavailable { why, .. } => Err(entry.no_answer(why)),
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
                "lines": part.lines.map(|lines| lines.count), "lines_per_key": part.lines.map(|lines| lines.per_key),
                "paired": part.lines.map(|lines| lines.paired),
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
    let cells = visit.query.usual_whole("cells")?;
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
    let maybe = visit.talk.say(&[b"BG.EXISTS", &name, &key]).await?.truth()?;
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

/// What a key finds in one part; where it lies only if that `shows`.
fn of_trace(stage: usize, trace: &Trace, shows: bool) -> Value {
    let told = |values: Vec<Value>| if shows && !values.is_empty() { values.into() } else { Value::Null };
    let slot = |held: &u64| if *held == 0 { Value::Null } else { format!("{held:x}").into() };
    json!({
        "stage": stage, "kind": trace.kind.name(), "verdict": if trace.maybe { "maybe" } else { "no" },
        "block": trace.block.filter(|_| shows),
        "bits": told(trace.bits.iter().map(|(bit, _)| (*bit).into()).collect()),
        "set": told(trace.bits.iter().map(|(_, set)| (*set).into()).collect()),
        "counters": told(trace.counters.iter().map(|(number, holds)| json!({"counter": number, "holds": holds})).collect()),
        "fingerprint": trace.fingerprint.filter(|_| shows).map(|print| format!("{print:x}")),
        "buckets": told(trace.buckets.iter().map(|(number, slots)| {
            json!({"bucket": number, "slots": slots.iter().map(slot).collect::<Vec<_>>()})
        }).collect()),
    })
}

fn traced(call: &mut Call<'_, '_, '_>, name: &[u8], key: &[u8], is_admin: bool) -> Result<Value, Refusal> {
    let entry = figures::find(call, name)?;
    let contract = entry.contract().ok_or_else(|| Refusal::err("the filter cannot answer"))?;
    let digest = contract.digest(key).map_err(Refusal::from)?;
    let traces = within(&entry, |filter| filter.trace(digest))?;
    call.sees(&entry);
    let keyed = entry.recipe().hashing.algorithm.is_keyed();
    // Where bits go under a secret is for those who have the server anyhow.
    let shows = !keyed || is_admin;
    let stages: Vec<Value> = traces.iter().enumerate().map(|(stage, trace)| of_trace(stage, trace, shows)).collect();
    let (field, shown) = match std::str::from_utf8(key) {
        Ok(text) => ("key", Value::from(text)),
        Err(_) => ("key_base64", base64::encode(key).into()),
    };
    let note = match (shows, keyed) {
        (false, _) => Some("the keys are hashed under a secret: where they lie is told to admins alone"),
        (true, true) => Some("the keys are hashed under a secret: nobody else can compute where they lie"),
        (true, false) => None,
    };
    // The hash of a key under a secret holds for every filter of the contract, and for those of other servers that share
    // it: with it, whoever sees a filter's file could look for the key in it. The page needs to show where a key lies in
    // this filter, not that, so it is told to nobody.
    let mut told = json!({
        "filter": figures::shown(name), "contract": contract.to_string(),
        "count": entry.with(|filter| filter.count_of(digest)).flatten(),
        "digest": Some(format!("{:016x}{:016x}", digest.hi, digest.lo)).filter(|_| !keyed),
        "stages": stages, "note": note,
    });
    told[field] = shown;
    Ok(told)
}

/// A number without a fraction where it has none.
fn plain(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { (value as u64).into() } else { value.into() }
}

/// The lines that make an empty filter like this one.
pub(super) fn recreate(call: &Call<'_, '_, '_>, entry: &Entry, name: &[u8]) -> Value {
    let (recipe, named) = (entry.recipe(), quoted(name));
    let capacity = recipe.capacity;
    let rate = if recipe.rate > 0.0 { recipe.rate } else { bloomgate::advice::USUAL_RATE };
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
        put("WINDOW", "window_seconds", plain(recipe.window_ns as f64 / 1e9));
        if recipe.generations > 0 {
            put("GENERATIONS", "generations", recipe.generations.into());
        }
    }
    if matches!(recipe.kind, Kind::Scalable | Kind::GrowingCuckoo) && recipe.when_full == WhenFull::Grow {
        put("GROWTH", "growth", plain(recipe.growth));
    } else if matches!(recipe.kind, Kind::Scalable | Kind::GrowingCuckoo) && recipe.when_full == WhenFull::Refuse {
        // A chain grows unless it is told otherwise.
        put("ONFULL", "on_full", "refuse".into());
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
    // What the families of other servers make shares its rate out in ways of their own: it is made by their commands alone.
    let theirs = match entry.maker() {
        Maker::Bf { expansion: 0 } => Some(("BF.RESERVE", format!("{rate} {capacity} NONSCALING"))),
        Maker::Bf { expansion } => Some(("BF.RESERVE", format!("{rate} {capacity} EXPANSION {expansion}"))),
        Maker::Cf { bucket_size, max_iterations, expansion } => {
            let width = match recipe.fingerprint_bits {
                0 => format!("RATE {rate}"),
                bits => format!("FINGERPRINT {bits}"),
            };
            let rest = format!(
                "{capacity} BUCKETSIZE {bucket_size} MAXITERATIONS {max_iterations} EXPANSION {expansion} {width}"
            );
            Some(("CF.RESERVE", rest))
        }
        Maker::Bg => None,
    };
    let (resp, path, body) = match theirs {
        Some((command, rest)) => {
            let words: Vec<Value> = rest.split(' ').map(Value::from).collect();
            let argv = [vec![command.into(), figures::shown(name).into()], words].concat();
            (format!("{command} {named} {rest}"), "command", json!({"argv": argv}))
        }
        None => (resp, "filters", fields),
    };
    // One that was loaded from another system, or is built once, is made from its file or its keys.
    let is_made = !recipe.kind.is_foreign() && recipe.kind.takes_inserts();
    let body = body.to_string().replace('\'', "'\\''");
    let http = format!("curl -X POST http://127.0.0.1:8479/v1/{path} -H 'Content-Type: application/json' -d '{body}'");
    let (cli, rust) = if is_made { (cli(recipe), rust(recipe)) } else { (Err(GIVEN), Err(GIVEN)) };
    let secret = hashing.algorithm.is_keyed() && (cli.is_ok() || rust.is_ok());
    json!({
        "resp": Some(resp).filter(|_| is_made), "http": Some(http).filter(|_| is_made),
        "cli": cli.as_ref().ok(), "cli_why": cli.as_ref().err(), "rust": rust.as_ref().ok(), "rust_why": rust.as_ref().err(),
        "secret": secret.then_some(OTHER_SECRET),
    })
}

/// Of those that no line makes empty.
const GIVEN: &str = "it is made from its file, or from all its keys at once";
/// Of the lines for other programs than the server.
const OTHER_SECRET: &str = "The command line and Rust hash under a secret of your own: the server gives its own to nobody, so what they \
                            make has this shape, and is no filter to merge with this one.";

/// The line for the command, or what it has no option for. `tests/pages/again.js` runs it and compares what it
/// makes with the filter.
fn cli(recipe: &Recipe) -> Result<String, &'static str> {
    let kind = recipe.kind;
    match kind {
        Kind::Rotating => {
            return Err(
                "bloomgate dedup gives each generation of a window room for all its items, and has no option for fewer",
            );
        }
        Kind::Stable => {
            return Err("a filter that forgets lives with a stream: bloomgate dedup makes one, and is told its memory");
        }
        Kind::Cuckoo | Kind::GrowingCuckoo => {
            return Err("bloomgate build counts up to three copies of a key, this filter up to eight");
        }
        Kind::Scalable if !is_usual_chain(recipe) => {
            return Err(
                "bloomgate build has no options for the growth of a chain and the share of the rate in its first layer",
            );
        }
        _ if recipe.bytes > 0 => {
            return Err("bloomgate build is told items and a rate, and this filter was told its memory");
        }
        _ if !matches!(recipe.counter_bits, 0 | 4) => {
            return Err("bloomgate build has no option for the width of counters");
        }
        _ => {}
    }
    let when_full = match recipe.when_full {
        WhenFull::GoOn => "go-on",
        WhenFull::Refuse => "refuse",
        WhenFull::Grow => "grow",
    };
    let mut line = format!(
        "bloomgate build -o filter.bloom --kind {kind} --items {} --when-full {when_full}",
        recipe.capacity.max(1)
    );
    if recipe.rate > 0.0 {
        line.push_str(&format!(" --rate {}", recipe.rate));
    }
    let hashing = &recipe.hashing;
    line.push_str(&format!(" --hash {}", hashing.algorithm.name()));
    if hashing.algorithm.is_keyed() {
        return Ok(format!("bloomgate secret new -o filter.secret\n{line} --secret-file filter.secret keys.txt"));
    }
    if hashing.seed > 0 {
        line.push_str(&format!(" --seed {}", hashing.seed));
    }
    Ok(line + " keys.txt")
}

/// Whether a chain grows as the library lets it grow that nobody told anything.
fn is_usual_chain(recipe: &Recipe) -> bool {
    recipe.when_full == WhenFull::Grow
        && !recipe.is_sized
        && recipe.growth == bloomgate::bloom::scalable::DEFAULT_GROWTH
}

/// The line of Rust, or why there is none: all that the recipe gives to the builder.
fn rust(recipe: &Recipe) -> Result<String, &'static str> {
    let kind = recipe.kind;
    let name = super::plan::type_of(kind).ok_or(GIVEN)?;
    let mut calls = String::new();
    let mut call = |text: String| calls.push_str(&text);
    let hashing = &recipe.hashing;
    match hashing.algorithm {
        Algorithm::SipHash13 => call(".secret(&secret)".into()),
        algorithm if algorithm.is_keyed() => call(format!(".contract(bloomgate::Contract::{algorithm}(&secret))")),
        Algorithm::Xxh3 if hashing.seed == 0 => {}
        Algorithm::Xxh3 => call(format!(".contract(bloomgate::Contract::xxh3_seeded({}))", hashing.seed)),
        Algorithm::Murmur3 => call(format!(".contract(bloomgate::Contract::murmur3({}))", hashing.seed)),
        _ => return Err("its hash is that of another system"),
    }
    if matches!(kind, Kind::Cuckoo | Kind::GrowingCuckoo) {
        call(".copies(bloomgate::cuckoo::CopyRule::Exact)".into());
    }
    if kind == Kind::Rotating {
        let (seconds, nanos) = (recipe.window_ns / 1_000_000_000, recipe.window_ns % 1_000_000_000);
        call(match nanos {
            0 => format!(".window(std::time::Duration::from_secs({seconds}))"),
            _ => format!(".window(std::time::Duration::from_nanos({}))", recipe.window_ns),
        });
        if recipe.generations > 0 {
            call(format!(".generations({})", recipe.generations));
        }
    }
    if recipe.capacity > 0 {
        call(format!(".items({})", recipe.capacity));
    }
    let fingerprint = if kind == Kind::Cuckoo { recipe.fingerprint_bits } else { 0 };
    if fingerprint > 0 {
        let buckets = bloomgate::math::cuckoo::buckets_for(recipe.capacity);
        call(format!(".buckets({buckets}).fingerprint_bits({fingerprint})"));
    } else if recipe.rate > 0.0 {
        call(format!(".rate({:?})", recipe.rate));
    }
    if recipe.bytes > 0 {
        call(format!(".bytes({})", recipe.bytes));
    }
    match recipe.counter_bits {
        8 => call(".counter_bits(bloomgate::bloom::CounterBits::Eight)".into()),
        16 => call(".counter_bits(bloomgate::bloom::CounterBits::Sixteen)".into()),
        _ => {}
    }
    call(format!(".when_full(bloomgate::WhenFull::{:?})", recipe.when_full));
    if matches!(kind, Kind::Scalable | Kind::GrowingCuckoo) {
        call(format!(".growth({:?})", recipe.growth));
    }
    // As `Recipe::build` shares the rate out over the layers of a chain.
    let tightening = match (recipe.when_full, recipe.is_sized) {
        _ if kind != Kind::Scalable => "",
        (WhenFull::Grow, false) => "",
        (WhenFull::Grow, true) => "Geometric(0.5)",
        (WhenFull::Refuse | WhenFull::GoOn, _) => "Plateau { stages: 1, then: 0.0 }",
    };
    if !tightening.is_empty() {
        call(format!(".tightening(bloomgate::math::scalable::Tightening::{tightening})"));
    }
    Ok(format!("let mut keys = bloomgate::{name}::builder(){calls}.build()?;"))
}

#[cfg(test)]
mod tests {
    use bloomgate::{Contract, Secret};

    use super::*;
    use crate::engine::recipe::Hashing;

    /// What a line of Rust makes, with a secret around it.
    type Told = fn(Secret) -> bloomgate::Result<AnyFilter>;

    /// The lines that [`rust`] tells of [`recipes`], written down: a compiler has to say whether they are Rust.
    #[allow(unused_variables)]
    mod again {
        use super::*;
        include!("../../../../tests/pages/again_lines.rs");
    }

    /// Every kind, and everything that a builder can be told.
    fn recipes() -> Vec<Recipe> {
        let under = |algorithm, seed| Hashing { algorithm, seed, contract: DEFAULT.into(), epoch: 1 };
        let plain = under(Algorithm::Xxh3, 0);
        let new = |kind| Recipe::new(kind, 1_000, 0.001, plain.clone());
        let kinds = Kind::ALL.into_iter().filter(|kind| kind.takes_inserts() && !kind.is_foreign());
        let mut all: Vec<Recipe> = kinds.map(new).collect();
        for recipe in &mut all {
            recipe.window_ns = if recipe.kind == Kind::Rotating { 60_000_000_000 } else { 0 };
        }
        all.push(Recipe { when_full: WhenFull::GoOn, hashing: under(Algorithm::Xxh3, 7), ..new(Kind::Blocked) });
        all.push(Recipe { capacity: 0, bytes: 65_536, hashing: under(Algorithm::SipHash13, 0), ..new(Kind::Classic) });
        all.push(Recipe { rate: 0.0, hashing: under(Algorithm::SipHash24, 0), ..new(Kind::Partitioned) });
        all.push(Recipe { counter_bits: 8, hashing: under(Algorithm::Blake2b, 0), ..new(Kind::Counting) });
        all.push(Recipe { counter_bits: 16, hashing: under(Algorithm::Murmur3, 5), ..new(Kind::Counting) });
        all.push(Recipe { growth: 4.0, is_sized: false, ..new(Kind::Scalable) });
        all.push(Recipe { when_full: WhenFull::Refuse, ..new(Kind::Scalable) });
        all.push(Recipe { fingerprint_bits: 12, rate: 0.0, ..new(Kind::Cuckoo) });
        all.push(Recipe { growth: 4.0, ..new(Kind::GrowingCuckoo) });
        all.push(Recipe { window_ns: 2_500_000_000, generations: 3, ..new(Kind::Rotating) });
        all.push(Recipe { capacity: 0, bytes: 65_536, ..new(Kind::Stable) });
        all
    }

    #[test]
    fn the_lines_of_rust_make_the_filter_again() {
        let secret = Secret::from_hex(&"5a".repeat(32)).unwrap();
        let recipes = recipes();
        let mut text =
            "// The lines of Rust that the server tells of a filter that is there: inside.rs writes and runs them.\n\n\
                        pub(super) const TOLD: &[Told] = &[\n"
                .to_owned();
        for recipe in &recipes {
            text.push_str(&format!(
                "    |secret| {{\n        {}\n        Ok(keys.into())\n    }},\n",
                rust(recipe).unwrap()
            ));
        }
        text.push_str("];\n");
        // Mutable for whoever goes on from there.
        let text = text.replace("let mut keys", "#[allow(unused_mut)]\n        let mut keys");
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pages/again_lines.rs");
        if std::env::var_os("BLOOMGATE_WRITE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written, text, "again_lines.rs is not what is told: BLOOMGATE_WRITE=1 and this test write it");
        assert_eq!(again::TOLD.len(), recipes.len());
        for (recipe, line) in recipes.iter().zip(again::TOLD) {
            let Hashing { algorithm, seed, .. } = recipe.hashing;
            let contract = Contract::new(algorithm, seed, Some(&secret).filter(|_| algorithm.is_keyed())).unwrap();
            let (wanted, made) = (recipe.build(contract).unwrap(), line(secret.clone()).unwrap());
            // A ring knows when it began.
            if recipe.kind != Kind::Rotating {
                assert!(wanted.to_bytes().unwrap() == made.to_bytes().unwrap(), "{recipe:?}");
            }
            assert_eq!(wanted.parts().len(), made.parts().len(), "{recipe:?}");
            let of = |filter: &AnyFilter| (filter.size_in_bytes(), filter.capacity(), filter.contract().to_string());
            assert_eq!(of(&wanted), of(&made), "{recipe:?}");
        }
    }

    #[test]
    fn what_the_command_has_no_option_for_has_no_line_and_a_reason() {
        for recipe in recipes() {
            match cli(&recipe) {
                Ok(line) => {
                    assert!(
                        line.contains(&format!("--kind {}", recipe.kind)) && line.contains("--when-full "),
                        "{line}"
                    );
                    assert_eq!(line.contains("--seed"), recipe.hashing.seed > 0, "{line}");
                    assert_eq!(line.contains("--secret-file"), recipe.hashing.algorithm.is_keyed(), "{line}");
                }
                Err(why) => {
                    let told = (recipe.bytes, recipe.fingerprint_bits, recipe.counter_bits, recipe.window_ns);
                    let special = told != (0, 0, 0, 0);
                    let kinds = [Kind::Cuckoo, Kind::GrowingCuckoo, Kind::Scalable, Kind::Stable];
                    assert!(special || kinds.contains(&recipe.kind), "{why}: {recipe:?}");
                }
            }
        }
    }

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
