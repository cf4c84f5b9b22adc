//! What is told about filters: a few figures for lists, everything for one.

use bloomgate::{Kind, WhenFull};
use bloomgate_command::Refusal;
use serde_json::{Map, Value, json};

use super::files::full_name;
use super::path;
use crate::engine::Engine;
use crate::engine::audit::Counts;
use crate::engine::entry::{Entry, Maker};
use crate::engine::watch::findings::Finding;
use crate::session::call::Call;

/// A name as it is shown: what is no UTF-8 is replaced.
pub(super) fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// The path of a filter.
pub(super) fn path_of(name: &[u8]) -> String {
    format!("/v1/filters/{}", path::encoded(name))
}

/// A number that JSON can hold.
pub(super) fn number(value: f64) -> Value {
    if value.is_finite() { value.into() } else { Value::Null }
}

/// The figures of a filter that cost no look at its bits, and what was found about those in the background.
#[derive(Debug, Clone)]
pub(super) struct Brief {
    pub name: Vec<u8>,
    pub kind: &'static str,
    pub items: u64,
    pub capacity: u64,
    pub bytes: u64,
    pub asked: f64,
    pub expected: f64,
    pub created_ms: u64,
    /// When these figures were read.
    pub now_ms: u64,
    pub counts: Counts,
    /// Items a second, over the last minutes.
    pub growth: Option<f64>,
    /// What it does when it holds what it was made for; nothing of one that cannot answer.
    on_full: Option<WhenFull>,
    /// Whether it forgets what is old: it counts every insertion, and is never over its capacity.
    forgets: bool,
    /// Whether it keeps a window: what it holds now says nothing about what it will.
    keeps_window: bool,
    rest: Map<String, Value>,
}

/// The share of its capacity that a filter holds; one that forgets counts every insertion, and is never over it.
pub(super) fn used(items: u64, capacity: u64, forgets: bool) -> f64 {
    let share = if capacity == 0 { 0.0 } else { items as f64 / capacity as f64 };
    if forgets { share.min(1.0) } else { share }
}

/// See [`Brief::bits_per_item`]; nothing for an empty one without a capacity.
pub(super) fn bits_per_item(items: u64, capacity: u64, bytes: u64) -> Option<f64> {
    let items = if capacity == 0 || items >= capacity / 2 { items } else { capacity };
    (items > 0).then(|| bytes as f64 * 8.0 / items as f64)
}

impl Brief {
    /// Of a filter that the user of a call sees.
    pub(super) fn of(call: &Call<'_, '_, '_>, entry: &Entry, growth: Option<f64>) -> Self {
        let engine = &call.core.engine;
        let name = call.shown(entry);
        let finding = engine.watch.findings.of(entry.id);
        let facts = entry.with(|filter| {
            (filter.len(), filter.capacity(), filter.size_in_bytes(), filter.promised_rate(), filter.expected_rate())
        });
        let (items, capacity, bytes, asked, expected) = facts.unwrap_or((0, 0, 0, f64::NAN, f64::NAN));
        let guarantee = entry.with(|filter| filter.guarantee().to_string());
        let mut rest = Map::new();
        let mut put = |name: &str, value: Value| {
            rest.insert(name.to_owned(), value);
        };
        put("namespace", namespace_of(call, engine, entry));
        put("maker", maker(entry).into());
        put("guarantee", guarantee.into());
        put("available", entry.is_available().into());
        put("memory", entry.memory().into());
        let expires = Some(entry.expires_ms()).filter(|&at| at > 0);
        put("expires_ms", expires.map(|at| engine.clock.on_wall(at)).into());
        put("version", entry.touched().into());
        let look = finding.as_ref().and_then(|finding| finding.look.as_ref());
        put("fill", look.map_or(Value::Null, |look| number(look.fill)));
        put("verdict", finding.as_ref().map_or("unknown", |finding| finding.verdict().name()).into());
        put("score", finding.as_ref().and_then(Finding::score).map_or(Value::Null, number));
        put("measured", measured(finding.as_ref()));
        Self {
            name,
            kind: entry.kind().name(),
            items,
            capacity,
            bytes,
            asked,
            expected,
            created_ms: entry.created_ms,
            now_ms: engine.clock.now_ms(),
            counts: entry.counts(),
            growth,
            on_full: entry.when_full(),
            forgets: entry.kind() == Kind::Stable,
            keeps_window: entry.kind() == Kind::Rotating,
            rest,
        }
    }

    /// The share of its capacity that is in use.
    pub(super) fn used(&self) -> f64 {
        used(self.items, self.capacity, self.forgets)
    }

    /// What an item costs it in bits: one that it has room for, and once it is half full one that is in it.
    fn bits_per_item(&self) -> f64 {
        bits_per_item(self.items, self.capacity, self.bytes).unwrap_or(f64::NAN)
    }

    /// Whether it holds more than it was made for.
    pub(super) fn is_over_capacity(&self) -> bool {
        self.items > self.capacity && !self.forgets
    }

    /// When it will hold what it was made for, in seconds, if it goes on as it does.
    fn capacity_in(&self) -> Option<f64> {
        let growth = self.growth.filter(|&growth| growth > 0.0 && !self.forgets && !self.keeps_window)?;
        Some(self.capacity.saturating_sub(self.items) as f64 / growth)
    }

    /// When it will be full, and refuse keys, in seconds.
    pub(super) fn full_in(&self) -> Option<f64> {
        self.capacity_in().filter(|_| self.on_full == Some(WhenFull::Refuse))
    }

    /// When it will be over its capacity, and go on at a higher rate than was asked for, in seconds.
    pub(super) fn over_capacity_in(&self) -> Option<f64> {
        self.capacity_in().filter(|_| self.on_full == Some(WhenFull::GoOn))
    }

    /// As JSON.
    pub(super) fn to_json(&self) -> Value {
        let mut rest = self.rest.clone();
        let mut take = |name: &str| rest.remove(name).unwrap_or(Value::Null);
        let measured = take("measured");
        let at = |place: usize| measured.get(place).cloned().unwrap_or(Value::Null);
        let counts = &self.counts;
        json!({
            "name": shown(&self.name), "path": path_of(&self.name), "namespace": take("namespace"), "kind": self.kind,
            "maker": take("maker"), "guarantee": take("guarantee"), "available": take("available"),
            "items": self.items, "capacity": self.capacity, "used": number(self.used()),
            "bytes": self.bytes, "memory": take("memory"), "bits_per_item": number(self.bits_per_item()), "fill": take("fill"),
            "rate": {
                "asked": number(self.asked), "expected": number(self.expected), "estimated": Value::Null,
                "measured": at(0), "measured_low": at(1), "measured_high": at(2),
            },
            "verdict": take("verdict"), "score": take("score"),
            "created_ms": self.created_ms,
            "age_seconds": self.now_ms.saturating_sub(self.created_ms) as f64 / 1_000.0,
            "expires_ms": take("expires_ms"), "version": take("version"),
            "lookups": counts.lookups, "definitely_not": counts.lookups.saturating_sub(counts.positives),
            "maybe": counts.positives, "adds": counts.adds, "new": counts.fresh,
            "seen": counts.adds.saturating_sub(counts.fresh + counts.refused),
            "removed": counts.removed, "refused": counts.refused,
            "growth_per_second": self.growth.map_or(Value::Null, number),
            "on_full": self.on_full.map(on_full),
            "capacity_in_seconds": self.capacity_in().map_or(Value::Null, number),
            "full_in_seconds": self.full_in().map_or(Value::Null, number),
        })
    }
}

/// As BG.INFO says it.
fn on_full(when_full: WhenFull) -> &'static str {
    match when_full {
        WhenFull::Refuse => "refuse",
        WhenFull::GoOn => "goon",
        WhenFull::Grow => "grow",
    }
}

fn maker(entry: &Entry) -> &'static str {
    match entry.maker() {
        Maker::Bf { .. } => "BF",
        Maker::Cf { .. } => "CF",
        Maker::Bg => "BG",
    }
}

fn measured(finding: Option<&Finding>) -> Value {
    match finding.and_then(|finding| finding.measured().map(|rate| (rate, finding.interval()))) {
        Some((rate, (low, high))) => json!([number(rate), number(low), number(high)]),
        None => Value::Null,
    }
}

fn namespace_of(call: &Call<'_, '_, '_>, engine: &Engine, entry: &Entry) -> Value {
    match call.space() {
        Some(space) => space.name().into(),
        None => engine.namespaces.name_of(entry.space()).into(),
    }
}

/// The filter of a name that the user sees, or that there is none.
pub(super) fn find(call: &Call<'_, '_, '_>, name: &[u8]) -> Result<Entry, Refusal> {
    call.find(&full_name(call, name)?).ok_or(Refusal::NOT_FOUND)
}
