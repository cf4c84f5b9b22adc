//! BG.STATS and BG.FEEDBACK: what the server measures about its filters, and what clients have proved about them.

use std::sync::atomic::Ordering;

use bloomgate_command::{Refusal, Reply};

use super::super::call::{Call, Outcome};
use super::existing;
use super::telling::{int, or_nil, secret_age};
use crate::engine::Engine;
use crate::engine::watch::findings::Finding;

/// How many of the worst filters are told unless it is said.
const WORST: u64 = 10;

type Rows = Vec<(Reply, Reply)>;

fn row(name: &str, value: Reply) -> (Reply, Reply) {
    (Reply::text(name.to_owned()), value)
}

fn double(value: Option<f64>) -> Reply {
    or_nil(value, Reply::Double)
}

/// The measured rate with its interval.
fn measured(finding: &Finding) -> Rows {
    let known = finding.measured().map(|_| finding.interval());
    vec![
        row("measured_rate", double(finding.measured())),
        row("measured_low", double(known.map(|(low, _)| low))),
        row("measured_high", double(known.map(|(_, high)| high))),
        row("probes", int(finding.probed.probes)),
    ]
}

/// BG.STATS of one filter: it is probed now, and what was found before counts too.
pub fn filter(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Outcome {
    let engine = call.engine();
    let entry = existing(call, name)?;
    let finding = engine.watch.examine(&engine, &entry, call.held());
    let now = engine.clock.now_ms();
    let facts = entry.with(|filter| {
        vec![
            row("name", Reply::Bulk(call.shown(&entry))),
            row("kind", Reply::text(filter.kind().name())),
            row("keyed", Reply::Bool(entry.recipe().hashing.algorithm.is_keyed())),
            row("items", int(filter.len())),
            row("promised_rate", Reply::Double(filter.promised_rate())),
            row("expected_rate", Reply::Double(filter.expected_rate())),
            row("estimated_rate", double(filter.estimated_rate())),
        ]
    });
    let mut rows = facts.unwrap_or_default();
    rows.extend(measured(&finding));
    rows.push(row("probed_seconds_ago", int(now.saturating_sub(finding.probed_ms) / 1_000)));
    let look = finding.look.as_ref();
    rows.extend([
        row("fill", double(look.map(|look| look.fill))),
        row("expected_fill", double(look.map(|look| look.expected_fill))),
        row("fill_score", double(look.and_then(|look| look.fill_score))),
        row("evenness_score", double(look.and_then(|look| look.evenness_score))),
        row("lines_read", or_nil(look, |look| int(look.lines))),
        row("recent_items", or_nil(finding.lately(), |lately| int(lately.keys))),
        row("recent_score", double(finding.lately().map(|lately| lately.score))),
        row("score", double(finding.score())),
        row("verdict", Reply::text(finding.verdict().name())),
        row("secret_age_seconds", secret_age(&engine, &entry)),
    ]);
    let reported = engine.watch.feedback.of(&entry);
    let since = reported.as_ref().map(|reported| now.saturating_sub(reported.since_ms) / 1_000);
    rows.push(row("feedback_seconds", or_nil(since, int)));
    if let Some(reported) = reported {
        let counted = reported.rows().map(|(name, count)| row(&format!("feedback_{name}"), int(count)));
        rows.extend(counted);
        rows.push(row("feedback_rate", double(reported.reported_rate(&entry))));
    }
    rows.extend(entry.counts().rows().map(|(name, count)| row(name, int(count))));
    Ok(Reply::Map(rows))
}

/// The worst filters by a number, the largest first.
fn worst(engine: &Engine, found: &[Finding], count: u64, by: impl Fn(&Finding) -> Option<f64>) -> Reply {
    let mut ranked: Vec<(f64, &Finding)> = found.iter().filter_map(|one| by(one).map(|by| (by, one))).collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0));
    let told = ranked.iter().filter_map(|(_, finding)| {
        let entry = engine.names.by_id(finding.id)?;
        let mut rows = vec![
            row("name", Reply::Bulk(entry.name().to_vec())),
            row("kind", Reply::text(entry.kind().name())),
            row("promised_rate", Reply::Double(finding.promised)),
        ];
        rows.extend(measured(finding));
        rows.push(row("score", double(finding.score())));
        rows.push(row("verdict", Reply::text(finding.verdict().name())));
        Some(Reply::Map(rows))
    });
    Reply::Array(told.take(count as usize).collect())
}

/// BG.STATS of all: what was probed and reported, and the worst filters.
pub fn server(call: &mut Call<'_, '_, '_>, count: Option<u64>) -> Outcome {
    if call.space().is_some() {
        return Err(Refusal::err("without a name it tells of all namespaces: name one of your filters").into());
    }
    let engine = call.engine();
    let watch = &engine.watch;
    let (found, feedback) = (watch.findings.all(), watch.feedback.totals());
    let most = count.unwrap_or(WORST);
    let (suspicious, poisoned) = watch.findings.totals();
    Ok(Reply::Map(vec![
        row("filters", int(engine.names.visible() as u64)),
        row("probe_share", Reply::Double(watch.settings.share)),
        row("probes", int(watch.probes.load(Ordering::Relaxed))),
        row("rounds", int(watch.rounds.load(Ordering::Relaxed))),
        row("known_filters", int(found.len() as u64)),
        row("suspicious", int(suspicious)),
        row("poisoned", int(poisoned)),
        row("feedback_filters", int(feedback.filters)),
        row("feedback_entries", int(feedback.entries)),
        row("feedback_reports", int(feedback.reports)),
        row("feedback_spared", int(feedback.spared)),
        // Half of all full filters are above their promise by chance: those are told that are so beyond it.
        row("worst_rates", worst(&engine, &found, most, |one| one.ratio().filter(|_| one.interval().0 > one.promised))),
        row("worst_scores", worst(&engine, &found, most, Finding::score)),
    ]))
}

/// BG.FEEDBACK: items that the filter takes for present and that are not; how many are answered with "no" from now on.
pub fn feedback(call: &mut Call<'_, '_, '_>, name: &[u8], items: &[&[u8]]) -> Outcome {
    let engine = call.engine();
    let feedback = &engine.watch.feedback;
    let mut entry = existing(call, name)?;
    call.core.scratch.pay_for(&engine, &entry, items)?;
    let reported = match feedback.of(&entry) {
        Some(reported) => reported,
        None => {
            feedback.prepare(&engine, &entry)?;
            let (found, reported) = call.alone(|permit| {
                // Who has the name now, since nobody changes names meanwhile.
                let entry = permit.find(name)?.ok_or(Refusal::NOT_FOUND)?;
                let reported = feedback.begin(permit, &entry)?;
                Ok(((entry, reported), 0))
            })?;
            entry = found;
            reported
        }
    };
    Ok(int(feedback.report(&engine, &entry, &reported, items)?))
}
