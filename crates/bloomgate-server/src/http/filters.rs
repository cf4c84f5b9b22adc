//! Filters as a whole: which there are, making, describing, renaming, deleting.

use std::cmp::Ordering;

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use bloomgate::Kind;
use bloomgate_command::{Role, glob};
use bloomgate_http::problem::Problem;
use serde_json::{Map, Value, json};

use super::figures::{self, Brief};
use super::files::full_name;
use super::reply::Reply;
use super::visit::Visit;
use super::{Answer, answers, inside};
use crate::engine::entry::Entry;
use crate::session::call::Call;
use crate::session::names::{STEPS_EACH, seen_from_id};
use crate::session::tolls;

/// So many filters are in one list at most, by their names, kinds or figures: 100,000 take 30 ms. Those that do not match are
/// passed by, and those of others are not even looked at.
const MOST_LISTED: usize = 100_000;
/// Filters that are looked at between two breaths.
const PIECE: usize = 1_000;
/// Steps that a pattern takes between two breaths, and for the whole list.
const STEPS: u64 = 1 << 20;
const MOST_STEPS: u64 = 1 << 29;
/// Filters of one page.
pub(super) const LONGEST_PAGE: u64 = 1_000;
/// What a list may be sorted by.
pub(super) const SORTS: &[&str] = &[
    "name", "kind", "items", "capacity", "bytes", "used", "fill", "asked", "rate", "measured", "bits", "age",
    "lookups", "growth",
];

/// What a list is sorted by.
enum By {
    Name(Vec<u8>),
    Kind(&'static str),
    Number(f64),
}

fn compare(one: &By, other: &By) -> Ordering {
    match (one, other) {
        (By::Name(one), By::Name(other)) => one.cmp(other),
        (By::Kind(one), By::Kind(other)) => one.cmp(other),
        (By::Number(one), By::Number(other)) => one.total_cmp(other),
        _ => Ordering::Equal,
    }
}

fn by(call: &Call<'_, '_, '_>, entry: &Entry, sort: &str, growth: Option<f64>) -> By {
    let facts = |tell: fn(u64, u64, u64) -> f64| {
        entry.with(|filter| tell(filter.len(), filter.capacity(), filter.size_in_bytes())).unwrap_or(-1.0)
    };
    let finding = || call.core.engine.watch.findings.of(entry.id);
    // What is not known sorts below everything that is.
    By::Number(match sort {
        "kind" => return By::Kind(entry.kind().name()),
        "items" => facts(|items, _, _| items as f64),
        "capacity" => facts(|_, capacity, _| capacity as f64),
        "bytes" => facts(|_, _, bytes| bytes as f64),
        "used" if entry.kind() == Kind::Stable => facts(|items, capacity, _| figures::used(items, capacity, true)),
        "used" => facts(|items, capacity, _| figures::used(items, capacity, false)),
        "fill" => finding().and_then(|finding| finding.look).map_or(-1.0, |look| look.fill),
        "asked" => entry.with(|filter| filter.promised_rate()).unwrap_or(-1.0),
        "rate" => entry.with(|filter| filter.expected_rate()).unwrap_or(-1.0),
        "measured" => finding().and_then(|finding| finding.measured()).unwrap_or(-1.0),
        "bits" => facts(|items, capacity, bytes| figures::bits_per_item(items, capacity, bytes).unwrap_or(-1.0)),
        // The oldest first is the smallest moment first.
        "age" => -(entry.created_ms as f64),
        "lookups" => entry.counts().lookups as f64,
        "growth" => growth.unwrap_or(-1.0),
        _ => return By::Name(call.shown(entry)),
    })
}

/// `GET /v1/filters`.
pub(super) async fn list(visit: &mut Visit) -> Answer {
    let query = &visit.query;
    let offset = query.usual_whole("offset")? as usize;
    let limit = query.usual_whole("limit")? as usize;
    let sort = query.word("sort")?.unwrap_or("name");
    let falls = query.word("order")? == Some("desc");
    let pattern = query.bytes("match").map(glob::checked).transpose();
    let pattern = pattern.map_err(|why| Problem::bad_request(why.as_str().trim_start_matches("ERR ").to_owned()))?;
    let pattern = pattern.map(<[u8]>::to_vec);
    let kind = query.text("kind")?.map(str::to_owned);
    let mut found: Vec<(By, Entry)> = Vec::new();
    let (mut next, mut truncated, mut steps) = (0, false, 0);
    let house = visit.house.clone();
    loop {
        let (looked_at, then) = visit.talk.view(Role::Read, |call| {
            let engine = call.engine();
            let now = engine.clock.now_ms();
            let (entries, mut then) = seen_from_id(&engine, call.bound(), next, PIECE);
            let (before, enough, looked_at) = (steps, steps + STEPS, entries.len() as u64);
            for entry in entries {
                if steps > enough {
                    then = Some(entry.id);
                    break;
                }
                if !entry.is_expired(now)
                    && kind.as_deref().is_none_or(|kind| entry.kind().name() == kind)
                    && pattern
                        .as_deref()
                        .is_none_or(|pattern| glob::matches_counting(pattern, &call.shown(&entry), &mut steps))
                {
                    found.push((by(call, &entry, sort, house.growth.of(entry.id)), entry));
                }
            }
            Ok((looked_at.max((steps - before) / STEPS_EACH), then))
        })?;
        visit.talk.pay(tolls::of_looking(looked_at)).await?;
        let Some(then) = then else { break };
        if found.len() >= MOST_LISTED || steps > MOST_STEPS {
            truncated = true;
            break;
        }
        next = then;
        tokio::task::yield_now().await;
    }
    // The same order for the same figures, so that pages do not overlap.
    found.sort_by(|one, other| compare(&one.0, &other.0).then(one.1.id.cmp(&other.1.id)));
    if falls {
        found.reverse();
    }
    let total = found.len();
    let page: Vec<Entry> = found.into_iter().skip(offset).take(limit).map(|(_, entry)| entry).collect();
    // A row takes twenty times as long as the look before.
    visit.talk.pay(page.len() as u64).await?;
    let rows = visit.talk.view(Role::Read, |call| {
        Ok(page.iter().map(|entry| Brief::of(call, entry, house.growth.of(entry.id)).to_json()).collect::<Vec<Value>>())
    })?;
    let list = json!({"total": total, "offset": offset, "limit": limit, "truncated": truncated, "filters": rows});
    Ok(answers::json(StatusCode::OK, &list))
}

/// The options of BG.CREATE by their names in JSON: a text, a whole number or any number.
const OPTIONS: [(&str, &str, Takes); 12] = [
    ("like", "LIKE", Takes::Text),
    ("kind", "KIND", Takes::Text),
    ("capacity", "CAPACITY", Takes::Whole),
    ("rate", "RATE", Takes::Number),
    ("bytes", "BYTES", Takes::Whole),
    ("growth", "GROWTH", Takes::Number),
    ("on_full", "ONFULL", Takes::Text),
    ("window_seconds", "WINDOW", Takes::Number),
    ("generations", "GENERATIONS", Takes::Whole),
    ("fingerprint", "FINGERPRINT", Takes::Whole),
    ("counters", "COUNTERS", Takes::Whole),
    ("contract", "CONTRACT", Takes::Text),
];

#[derive(Clone, Copy)]
enum Takes {
    Text,
    Whole,
    Number,
}

/// `POST /v1/filters`.
pub(super) async fn create(visit: &mut Visit) -> Answer {
    let mut body = visit.json().await?;
    let name = body.needed_text("name")?.into_bytes();
    let mut words: Vec<Vec<u8>> = vec![b"BG.CREATE".to_vec(), name.clone()];
    for (field, option, takes) in OPTIONS {
        let value = match takes {
            Takes::Text => body.text(field)?,
            Takes::Whole => body.whole(field)?.map(|number| number.to_string()),
            Takes::Number => body.number(field)?.map(|number| number.to_string()),
        };
        if let Some(value) = value {
            words.extend([option.as_bytes().to_vec(), value.into_bytes()]);
        }
    }
    if let Some(hash) = body.text("hash")? {
        words.extend([b"HASH".to_vec(), hash.into_bytes()]);
    }
    if let Some(seed) = body.whole("seed")? {
        words.extend([b"SEED".to_vec(), seed.to_string().into_bytes()]);
    }
    body.end()?;
    if name.is_empty() {
        return Err(Problem::bad_request("the name is empty: give one of 1 to 4096 bytes"));
    }
    let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
    visit.talk.say(&words).await?;
    let mut response = answers::json(StatusCode::CREATED, &written(visit, &name).await?);
    if let Ok(location) = HeaderValue::try_from(figures::path_of(&name)) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// `GET /v1/filters/{name}`.
pub(super) async fn describe(visit: &mut Visit) -> Answer {
    let name = visit.name();
    Ok(answers::json(StatusCode::OK, &described(visit, &name).await?))
}

/// What a write tells of its filter: everything, or the name alone to whoever may write and not read.
pub(super) async fn written(visit: &mut Visit, name: &[u8]) -> Result<Value, Problem> {
    if visit.talk.user().is_some_and(|user| user.roles.contains(Role::Read)) {
        match described(visit, name).await {
            // Somebody deleted it meanwhile: what was asked for is done all the same.
            Err(problem) if problem.status() == StatusCode::NOT_FOUND => {}
            told => return told,
        }
    }
    Ok(json!({"name": figures::shown(name), "path": figures::path_of(name)}))
}

/// Whether there is a filter of a name, for whoever has this role and perhaps not the one to read.
pub(super) fn is_there(visit: &mut Visit, role: Role, name: &[u8]) -> Result<bool, Problem> {
    visit.talk.view(role, |call| {
        let full = full_name(call, name)?;
        let Some(entry) = call.find(&full) else { return Ok(false) };
        call.sees(&entry);
        Ok(true)
    })
}

/// Everything about a filter.
async fn described(visit: &mut Visit, name: &[u8]) -> Result<Value, Problem> {
    let house = visit.house.clone();
    let brief = visit.talk.view(Role::Read, |call| {
        let entry = figures::find(call, name)?;
        Ok(Brief::of(call, &entry, house.growth.of(entry.id)).to_json())
    })?;
    let Value::Object(mut told) = brief else { return Ok(Value::Null) };
    let put = |told: &mut Map<String, Value>, name: &str, value: Value| {
        told.insert(name.to_owned(), value);
    };
    if told["available"] != true {
        // Nothing can be asked of it but why.
        let why = match visit.talk.hear(&[b"BG.INFO", name]).await? {
            Reply::Error(line) => line.trim_start_matches("ERR ").into(),
            _ => Value::Null,
        };
        put(&mut told, "unavailable_because", why);
        return Ok(Value::Object(told));
    }
    let info = visit.talk.say(&[b"BG.INFO", name]).await?;
    for field in [
        "contract",
        "contract_name",
        "secret_epoch",
        "secret_id",
        "secret_age_seconds",
        "ordered",
        "rekeying",
        "window_seconds",
        "generations",
        "fill",
    ] {
        let value = info.field(field).map_or(Value::Null, Reply::to_json);
        put(&mut told, field, value);
    }
    if let Some(estimated) = info.field("estimated_rate") {
        told["rate"]["estimated"] = estimated.to_json();
    }
    let talk = &mut visit.talk;
    let (stages, generations, lines) = tokio::task::block_in_place(|| {
        talk.view(Role::Read, |call| {
            let entry = figures::find(call, name)?;
            let (stages, generations) = inside::structure(&entry)?;
            Ok((stages, generations, inside::recreate(call, &entry, name)))
        })
    })?;
    put(&mut told, "stages", stages);
    put(&mut told, "generation_list", generations);
    put(&mut told, "recreate", lines);
    let estimate = visit.talk.say(&[b"BG.ESTIMATE", name]).await?;
    let of = |field: &str| estimate.field(field).map_or(Value::Null, Reply::to_json);
    let estimate = json!({"items": of("items"), "low": of("items_low"), "high": of("items_high")});
    put(&mut told, "estimate", estimate);
    let stats = visit.talk.say(&[b"BG.STATS", name]).await?;
    let of = |field: &str| stats.field(field).map_or(Value::Null, Reply::to_json);
    for (place, field) in
        [("measured", "measured_rate"), ("measured_low", "measured_low"), ("measured_high", "measured_high")]
    {
        told["rate"][place] = of(field);
    }
    (told["verdict"], told["score"]) = (of("verdict"), of("score"));
    let fields = ["probes", "probed_seconds_ago", "expected_fill", "fill_score", "evenness_score", "score", "verdict"];
    let watch: Map<String, Value> = fields.iter().map(|field| ((*field).to_owned(), of(field))).collect();
    put(&mut told, "watch", watch.into());
    let feedback = match of("feedback_seconds") {
        Value::Null => Value::Null,
        since => json!({"seconds": since, "rate": of("feedback_rate"), "reports": of("feedback_reports")}),
    };
    put(&mut told, "feedback", feedback);
    Ok(Value::Object(told))
}

/// `DELETE /v1/filters/{name}`.
pub(super) async fn delete(visit: &mut Visit) -> Answer {
    let name = visit.name();
    match visit.talk.say(&[b"DEL", &name]).await? {
        Reply::Int(0) => Err(super::reply::problem("ERR not found")),
        _ => Ok(answers::nothing()),
    }
}

/// `PATCH /v1/filters/{name}`: another name, another end, or both.
pub(super) async fn change(visit: &mut Visit) -> Answer {
    let mut body = visit.json().await?;
    let replace = body.truth("replace")?.unwrap_or(false);
    let to = body.text("name")?;
    let ends = body.has("expires_ms");
    let at = body.whole("expires_ms")?;
    body.end()?;
    if to.is_none() && !ends {
        return Err(Problem::bad_request("there is nothing to change: give 'name', or 'expires_ms' (null for never)"));
    }
    let mut name = visit.name();
    if let Some(to) = &to {
        // Before anything is changed: what is refused is refused whole.
        if to.is_empty() {
            return Err(Problem::bad_request("the new name is empty: give one of 1 to 4096 bytes"));
        }
        if !is_there(visit, Role::Delete, &name)? {
            return Err(super::reply::problem("ERR not found"));
        }
        if !replace && is_there(visit, Role::Delete, to.as_bytes())? {
            return Err(taken());
        }
    }
    if ends {
        // As the commands below want it.
        let role = if at.is_some() { Role::Delete } else { Role::Write };
        let at = at.map(|at| at.to_string());
        let words: Vec<&[u8]> = match &at {
            Some(at) => vec![b"PEXPIREAT", &name, at.as_bytes()],
            None => vec![b"PERSIST", &name],
        };
        let changed = visit.talk.say(&words).await? != Reply::Int(0);
        // PERSIST of one that has no end changes nothing, and says no more of one that is not there.
        if !changed && !is_there(visit, role, &name)? {
            return Err(super::reply::problem("ERR not found"));
        }
        if at.is_some() && !is_there(visit, role, &name)? {
            // It was to end in the past: it is gone.
            return Ok(answers::nothing());
        }
    }
    if let Some(to) = to {
        let to = to.into_bytes();
        let command: &[u8] = if replace { b"RENAME" } else { b"RENAMENX" };
        if visit.talk.say(&[command, &name, &to]).await? == Reply::Int(0) {
            return Err(taken());
        }
        name = to;
    }
    Ok(answers::json(StatusCode::OK, &written(visit, &name).await?))
}

fn taken() -> Problem {
    super::reply::exists("there is a filter of the new name already: choose another, or give replace")
}
