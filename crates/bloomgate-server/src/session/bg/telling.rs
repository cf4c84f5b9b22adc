//! BG.INFO, BG.ESTIMATE, BG.AUDIT and BG.SECRETS: what there is to know about filters and their secrets.

use std::collections::BTreeMap;

use bloomgate::{AnyFilter, WhenFull};
use bloomgate_command::{Refusal, Reply};

use super::super::call::{Call, Outcome};
use super::existing;
use crate::engine::Engine;
use crate::engine::entry::{Body, Entry, Maker};
use crate::engine::facts::Facts;

/// A number or nothing.
pub(super) fn or_nil<T>(value: Option<T>, tell: impl FnOnce(T) -> Reply) -> Reply {
    value.map_or(Reply::Nil, tell)
}

pub(super) fn int(value: u64) -> Reply {
    Reply::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// How a field is told.
type Tell = fn(&Engine, &Entry, &dyn Facts) -> Reply;

/// What can be told about a filter beside its name, by the name of the field.
const FIELDS: &[(&str, Tell)] = &[
    ("kind", |_, _, filter| Reply::text(filter.kind().name())),
    ("guarantee", |_, _, filter| Reply::text(filter.guarantee().to_string())),
    ("items", |_, _, filter| int(filter.len())),
    ("capacity", |_, _, filter| int(filter.capacity())),
    ("bytes", |_, _, filter| int(filter.size_in_bytes())),
    ("bits_per_item", |_, _, filter| match filter.len() {
        0 => Reply::Nil,
        items => Reply::Double(filter.size_in_bytes() as f64 * 8.0 / items as f64),
    }),
    ("promised_rate", |_, _, filter| Reply::Double(filter.promised_rate())),
    ("expected_rate", |_, _, filter| Reply::Double(filter.expected_rate())),
    ("estimated_rate", |_, _, filter| or_nil(filter.estimated_rate(), Reply::Double)),
    ("fill", |_, _, filter| Reply::Double(filter.fill_ratio())),
    ("stages", |_, _, filter| int(filter.stages() as u64)),
    ("on_full", |_, entry, _| {
        Reply::text(match entry.when_full() {
            Some(WhenFull::Grow) => "grow",
            Some(WhenFull::GoOn) => "goon",
            _ => "refuse",
        })
    }),
    ("contract", |_, _, filter| Reply::text(filter.contract_text())),
    ("contract_name", |_, entry, _| keyed(entry, |entry| Reply::text(entry.recipe().hashing.contract.clone()))),
    ("secret_epoch", |_, entry, _| keyed(entry, |entry| int(u64::from(entry.recipe().hashing.epoch)))),
    ("secret_id", |_, entry, _| {
        or_nil(entry.contract().and_then(|contract| contract.secret_id()), |id| Reply::text(id.to_string()))
    }),
    ("secret_age_seconds", |engine, entry, _| secret_age(engine, entry)),
    ("created_ms", |_, entry, _| int(entry.created_ms)),
    ("expires_ms", |engine, entry, _| match entry.expires_ms() {
        0 => Reply::Nil,
        at => int(engine.clock.on_wall(at)),
    }),
    ("ordered", |_, entry, _| Reply::Bool(entry.is_ordered())),
    ("window_seconds", |_, entry, _| or_nil(ring(entry), |(window, _)| Reply::Double(window))),
    ("generations", |_, entry, _| or_nil(ring(entry), |(_, generations)| int(u64::from(generations)))),
    ("version", |_, entry, _| int(entry.touched())),
    ("maker", |_, entry, _| {
        Reply::text(match entry.maker() {
            Maker::Bf { .. } => "BF",
            Maker::Cf { .. } => "CF",
            Maker::Bg => "BG",
        })
    }),
    ("rekeying", |engine, entry, _| Reply::Bool(engine.shadow_of(entry).is_some())),
];

/// How old the secret of a filter is, in seconds.
pub(super) fn secret_age(engine: &Engine, entry: &Entry) -> Reply {
    keyed(entry, |entry| {
        let hashing = &entry.recipe().hashing;
        let began = engine.contracts.began_ms(&hashing.contract, hashing.epoch).unwrap_or(entry.created_ms);
        int(engine.clock.now_ms().saturating_sub(began) / 1_000)
    })
}

fn keyed(entry: &Entry, tell: impl FnOnce(&Entry) -> Reply) -> Reply {
    if entry.recipe().hashing.algorithm.is_keyed() { tell(entry) } else { Reply::Nil }
}

/// The window in seconds and its generations.
fn ring(entry: &Entry) -> Option<(f64, u32)> {
    match entry.body() {
        Body::Shared(AnyFilter::Rotating(ring)) => Some((ring.window().as_secs_f64(), ring.generations())),
        _ => None,
    }
}

/// BG.INFO.
pub fn info(call: &mut Call<'_, '_, '_>, name: &[u8], field: Option<&str>) -> Outcome {
    let engine = call.engine();
    let entry = existing(call, name)?;
    let counters = entry.counts().rows();
    let tell = |name: &str, tell: Tell| match call.space() {
        // Of a name there is more than one way to say it.
        Some(space) if name == "contract_name" => {
            keyed(&entry, |entry| Reply::text(space.shown_contract(&entry.recipe().hashing.contract)))
        }
        _ => entry.with(|filter| tell(&engine, &entry, filter)).unwrap_or(Reply::Nil),
    };
    let shown = || Reply::Bulk(call.shown(&entry));
    let Some(field) = field else {
        let facts = FIELDS.iter().map(|&(name, how)| (Reply::text(name), tell(name, how)));
        let counted = counters.iter().map(|&(name, count)| (Reply::text(name), int(count)));
        return Ok(Reply::Map(std::iter::once((Reply::text("name"), shown())).chain(facts).chain(counted).collect()));
    };
    if field.eq_ignore_ascii_case("name") {
        return Ok(shown());
    }
    if let Some(&(name, how)) = FIELDS.iter().find(|(name, _)| field.eq_ignore_ascii_case(name)) {
        return Ok(tell(name, how));
    }
    match counters.iter().find(|(name, _)| field.eq_ignore_ascii_case(name)) {
        Some(&(_, count)) => Ok(int(count)),
        None => {
            let facts = std::iter::once("name").chain(FIELDS.iter().map(|&(name, _)| name));
            let names: Vec<&str> = facts.chain(counters.iter().map(|&(name, _)| name)).collect();
            Err(Refusal::err(format_args!("there is no field '{field}': there are {}", names.join(", "))).into())
        }
    }
}

/// BG.ESTIMATE.
pub fn estimate(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Outcome {
    let entry = existing(call, name)?;
    let told = entry.with(|filter| {
        let (low, value, high) = filter.approximate_count();
        vec![
            (Reply::text("items"), int(value)),
            (Reply::text("items_low"), int(low)),
            (Reply::text("items_high"), int(high)),
            (Reply::text("promised_rate"), Reply::Double(filter.promised_rate())),
            (Reply::text("expected_rate"), Reply::Double(filter.expected_rate())),
            (Reply::text("estimated_rate"), or_nil(filter.estimated_rate(), Reply::Double)),
            (Reply::text("fill"), Reply::Double(filter.fill_ratio())),
        ]
    });
    Ok(Reply::Map(told.unwrap_or_default()))
}

/// BG.AUDIT: the counters, and then from zero if that is asked for.
pub fn audit(call: &mut Call<'_, '_, '_>, name: &[u8], reset: bool) -> Outcome {
    let entry = existing(call, name)?;
    let rows = entry.counts().rows();
    if reset {
        entry.reset_counts();
    }
    Ok(Reply::Map(rows.into_iter().map(|(name, count)| (Reply::text(name), int(count))).collect()))
}

/// BG.SECRETS: each epoch of each contract, how old it is and how many filters hash under it.
pub fn secrets(call: &mut Call<'_, '_, '_>) -> Reply {
    let engine = call.engine();
    let now = engine.clock.now_ms();
    // When it began, and its filters.
    let mut epochs: BTreeMap<(String, u32), (u64, u64)> = BTreeMap::new();
    for (name, began) in engine.contracts.all() {
        for (epoch, began) in (1..).zip(began) {
            epochs.insert((name.clone(), epoch), (began, 0));
        }
    }
    let mut next = 0;
    loop {
        let entries = engine.names.from_id(next, 1_000);
        let Some(last) = entries.last() else { break };
        next = last.id + 1;
        for entry in entries.iter().filter(|entry| entry.recipe().hashing.algorithm.is_keyed()) {
            let hashing = &entry.recipe().hashing;
            // A contract that nobody began is as old as its first filter: those come in the order of their ids.
            let key = (hashing.contract.clone(), hashing.epoch);
            epochs.entry(key).or_insert((entry.created_ms, 0)).1 += 1;
        }
    }
    let newest = |name: &str| engine.contracts.keyed(name).epoch;
    let told = epochs.iter().map(|((name, epoch), &(began, filters))| {
        let secret = engine.contracts.secret(name, *epoch);
        Reply::Map(vec![
            (Reply::text("contract"), Reply::text(name.clone())),
            (Reply::text("epoch"), int(u64::from(*epoch))),
            (Reply::text("current"), Reply::Bool(newest(name) == *epoch)),
            (Reply::text("secret_id"), or_nil(secret, |secret| Reply::text(secret.id().to_string()))),
            (Reply::text("age_seconds"), int(now.saturating_sub(began) / 1_000)),
            (Reply::text("filters"), int(filters)),
        ])
    });
    Reply::Array(told.collect())
}
