//! The planner of the library over HTTP: which filter, how large, and the lines that make it.

use axum::http::StatusCode;
use bloomgate::advice::{self, Advice, Choice, Growth, Need, Plan, Savings, Wants};
use bloomgate::{Error, Kind};
use bloomgate_http::problem::Problem;
use serde_json::{Value, json};

use super::figures::number;
use super::query::Query;
use super::visit::Visit;
use super::{Answer, answers, reply};

/// Points of the curve of rate against memory.
const POINTS: u32 = 40;
/// The window of a ring when nobody says it: an hour.
const WINDOW_MS: u64 = 3_600_000;
/// Seconds of a day.
const DAY: f64 = 86_400.0;

fn refused(error: &Error) -> Problem {
    reply::refused(error.to_string())
}

fn need(query: &Query) -> Result<Need, Problem> {
    let growth = match query.text("growth")? {
        None | Some("fixed") => Growth::Fixed,
        Some("some") => Growth::Some,
        Some("unknown") => Growth::Unknown,
        Some(text) => match text.parse::<f64>().ok().filter(|factor| factor.is_finite()) {
            Some(factor) => Growth::Known { factor },
            None => {
                let detail = "'growth' in the query is none of fixed, some, unknown, or a factor such as 4";
                return Err(Problem::bad_request(detail));
            }
        },
    };
    let wants = match query.word("wants")? {
        None | Some("membership") => Wants::Membership,
        Some("distinct-count") => Wants::DistinctCount,
        Some("listing") => Wants::Listing,
        Some(_) => Wants::ExactCounts,
    };
    let need = Need {
        items: query.whole("items")?,
        rate: query.number("rate")?,
        memory_bytes: query.whole("memory")?,
        deletes: query.truth("deletes")?,
        growth,
        window: query.truth("window")?,
        absent_share: query.number("absent_share")?,
        lookups_per_second: query.number("lookups_per_second")?,
        lookup_cost_seconds: query.number("lookup_cost_seconds")?,
        filter_cost_seconds: None,
        false_positive_cost_seconds: query.number("false_positive_cost_seconds")?,
        dense_integers: query.truth("dense_integers")?,
        wants,
        must_be_right: query.truth("must_be_right")?,
        static_set: query.truth("static")?,
        untrusted_keys: query.truth("untrusted")?,
        smallest_first: query.truth("smallest_first")?,
    };
    let sizes = need.items.is_some() || need.memory_bytes.is_some() || need.growth == Growth::Unknown;
    if !sizes && need.wants == Wants::Membership && !need.dense_integers {
        return Err(Problem::bad_request(
            "there is nothing to size by: give items (the number of keys), memory (bytes), or growth=unknown",
        ));
    }
    Ok(need)
}

/// `GET /v1/plan`.
pub(super) async fn plan(visit: &mut Visit) -> Answer {
    let need = need(&visit.query)?;
    let advice = advice::advise(&need).map_err(|error| refused(&error))?;
    let (choice, kind) = match &advice.choice {
        Choice::Filter(kind) => ("filter", Some(kind)),
        Choice::TwoPhase(kind) => ("two-phase", Some(kind)),
        Choice::HashSet => ("hash-set", None),
        Choice::Bitmap => ("bitmap", None),
        Choice::HyperLogLog => ("hyperloglog", None),
        Choice::SortedFile => ("sorted-file", None),
        Choice::CountTable => ("count-table", None),
        Choice::NoFilter { .. } => ("no-filter", None),
    };
    let told = json!({
        "choice": choice,
        "kind": kind.map(|kind| kind.name()),
        "verdict": verdict(&advice.choice),
        "reasons": advice.reasons,
        "when_not": advice.when_not,
        "or_else": advice.or_else.map(|kind| kind.name()),
        "plan": advice.plan.as_ref().map(of_plan),
        "savings": advice.savings.as_ref().map(of_savings),
        "table": table(&need, &advice)?,
        "curve": advice.plan.as_ref().map_or_else(Vec::new, curve),
        "lines": advice.plan.as_ref().map(|plan| lines(&need, plan)),
    });
    Ok(answers::json(StatusCode::OK, &told))
}

fn verdict(choice: &Choice) -> String {
    match choice {
        Choice::Filter(kind) => format!("Use a {kind} filter."),
        Choice::TwoPhase(kind) => format!("Use a {kind} filter; confirm every \"maybe\" with the truth."),
        Choice::HashSet => "Use a hash set, not a filter.".into(),
        Choice::Bitmap => "Use a bitmap, not a filter.".into(),
        Choice::HyperLogLog => "Use a HyperLogLog sketch, not a filter.".into(),
        Choice::SortedFile => "Use a sorted file or a table, not a filter.".into(),
        Choice::CountTable => "Use a table of counts, not a filter.".into(),
        Choice::NoFilter { .. } => "Use no filter: it would cost more than it saves.".into(),
    }
}

fn of_plan(plan: &Plan) -> Value {
    json!({
        "kind": plan.shape.kind.name(), "items": plan.items, "headroom": number(plan.headroom), "rate": number(plan.rate),
        "expected_rate": number(plan.expected_rate), "bits": plan.shape.bits, "bytes": plan.shape.bytes(),
        "bits_per_key": number(plan.bits_per_key), "probes": plan.shape.probes, "fits": plan.fits, "keyed": plan.keyed,
    })
}

fn of_savings(savings: &Savings) -> Value {
    json!({
        "lookups_per_second": number(savings.lookups_per_second),
        "avoided_per_second": number(savings.avoided_per_second),
        "false_positives_per_second": number(savings.false_positives_per_second),
        "saved_seconds_per_second": number(savings.saved_seconds_per_second),
        "saved_seconds_per_day": number(savings.saved_seconds_per_second * DAY),
        "break_even_absent_share": savings.break_even_absent_share, "worth_it": savings.worth_it,
        "arithmetic": savings.arithmetic,
    })
}

/// The kinds beside each other, also where the answer is "no filter": it is what that answer is compared with.
fn table(need: &Need, advice: &Advice) -> Result<Vec<Value>, Problem> {
    let sized = match (&advice.plan, need.items.filter(|&items| items > 0)) {
        (Some(plan), _) => (plan.items, plan.rate),
        (None, Some(items)) => (items, need.rate.unwrap_or(advice::USUAL_RATE)),
        (None, None) => return Ok(Vec::new()),
    };
    let chosen = advice.plan.as_ref().map(|plan| plan.shape.kind);
    let rows = advice::table(sized.0, sized.1).map_err(|error| refused(&error))?;
    let told = rows.iter().map(|row| {
        let too_large = need.memory_bytes.is_some_and(|memory| row.bytes > memory);
        let misfit = advice::misfit(row.kind, need).or(too_large.then_some("over the memory"));
        let misfit = misfit.filter(|_| chosen != Some(row.kind));
        json!({
            "kind": row.kind.name(), "bits": row.bits, "bytes": row.bytes, "bits_per_key": number(row.bits_per_key),
            "expected_rate": number(row.rate), "rate_at_2x": row.rate_at_2x, "rate_at_10x": row.rate_at_10x,
            "probes": row.probes, "fits": misfit.is_none(), "misfit": misfit,
        })
    });
    Ok(told.collect())
}

/// Rate against memory, around what was planned; only of kinds that have a formula for it.
fn curve(plan: &Plan) -> Vec<Value> {
    let (from, to) = ((plan.bits_per_key / 3.0).max(1.0), (plan.bits_per_key * 2.0).max(3.0));
    let points = advice::sweep_memory(plan.shape.kind, plan.items, from, to, POINTS).unwrap_or_default();
    let bytes = |bits_per_key: f64| (bits_per_key * plan.items as f64 / 8.0).round() as u64;
    points.iter().map(|point| json!({"bytes": bytes(point.x), "rate": number(point.rate)})).collect()
}

/// What makes it, on the command line, over RESP and HTTP, and in Rust.
fn lines(need: &Need, plan: &Plan) -> Value {
    let kind = plan.shape.kind;
    let (items, rate) = (plan.items, written(plan.rate));
    let secret = if plan.keyed { " --secret-file keys.secret" } else { "" };
    let cli = match kind {
        Kind::Rotating => {
            format!("bloomgate dedup --filter keys.bloom --rate {rate} --window-lines {items}{secret} keys.txt")
        }
        _ => {
            let named = if kind == Kind::Blocked { String::new() } else { format!(" --kind {kind}") };
            let sized = if kind.takes_inserts() { format!(" --items {items}") } else { String::new() };
            format!("bloomgate build -o keys.bloom --rate {rate}{named}{sized}{secret} keys.txt")
        }
    };
    let window = if need.window { (" WINDOW 3600", r#","window_seconds":3600"#) } else { ("", "") };
    let (resp, http) = match kind.takes_inserts() {
        true => (
            format!("BG.CREATE keys KIND {kind} CAPACITY {items} RATE {rate}{}", window.0),
            format!(
                "curl -X POST http://127.0.0.1:8479/v1/filters -H 'Content-Type: application/json' -d \
                 '{{\"name\":\"keys\",\"kind\":\"{kind}\",\"capacity\":{items},\"rate\":{rate}{}}}'",
                window.1
            ),
        ),
        // Built once, from a file in the server's import folder.
        false => (format!("BG.BUILD keys FROM keys.txt KIND {kind} RATE {rate}"), String::new()),
    };
    json!({"cli": cli, "resp": resp, "http": Some(http).filter(|http| !http.is_empty()), "rust": rust(kind, items, rate, WINDOW_MS)})
}

/// The type of a kind in Rust, for kinds that are made empty.
pub(super) fn type_of(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Classic => "Classic",
        Kind::Blocked => "Blocked",
        Kind::Partitioned => "Partitioned",
        Kind::Counting => "Counting",
        Kind::Scalable => "Scalable",
        Kind::Cuckoo => "Cuckoo",
        Kind::GrowingCuckoo => "GrowingCuckoo",
        Kind::Quotient => "Quotient",
        Kind::Rotating => "Rotating",
        Kind::Stable => "Stable",
        _ => return None,
    })
}

/// The line of Rust that makes one, for kinds that are made empty.
pub(super) fn rust(kind: Kind, items: u64, rate: f64, window_ms: u64) -> Option<String> {
    // A plan sizes by items and rate, and a stable filter has no number of items.
    let name = type_of(kind).filter(|_| kind != Kind::Stable)?;
    let window = match (kind, window_ms % 1_000) {
        (Kind::Rotating, 0) => format!(".window(std::time::Duration::from_secs({}))", window_ms / 1_000),
        (Kind::Rotating, _) => format!(".window(std::time::Duration::from_millis({window_ms}))"),
        _ => String::new(),
    };
    Some(format!("let mut keys = bloomgate::{name}::builder(){window}.items({items}).rate({rate:?}).build()?;"))
}

/// A rate that is written short and is no lower, so that what was planned to fit still does.
fn written(rate: f64) -> f64 {
    if !(rate > 0.0 && rate < 1.0) {
        return rate;
    }
    let unit = 10f64.powi(rate.log10().floor() as i32 - 2);
    let up = (rate / unit - 1e-9).ceil() * unit;
    format!("{up:.3e}").parse().unwrap_or(rate)
}
