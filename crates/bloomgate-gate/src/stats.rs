//! What a gate has done and is doing, as numbers that can be checked.

use std::sync::atomic::Ordering::Relaxed;

use bloomgate::math::estimate::rate_interval;
use serde::Serialize;

use crate::callers::{Callers, ClientId};
use crate::counters::Count;
use crate::error::Result;
use crate::events::{Events, Part};
use crate::feed::{ChangeKind, Feeding};
use crate::filters::Generation;
use crate::gate::{Gate, Verdict};
use crate::key::Key;
use crate::policy::State;
use crate::rebuild::{Progress, Rebuilt, Sample};
use crate::times::TimeStats;

/// Everything a gate tells of itself. Counts are since it was made.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// The source, without its password.
    pub source: String,
    /// The cache, if there is one.
    pub cache: Option<String>,
    /// `open`, `closed` or `shadow`.
    pub policy: &'static str,
    /// `sole`, `feed` or `unknown`.
    pub writers: &'static str,
    /// `loading`, `ready`, `degraded` (ready, but behind a network and not to be reached), `stale` (the feed is too far
    /// behind included) or `broken`.
    pub state: &'static str,
    /// Whether a "no" can be given at this moment.
    pub blocking: bool,
    /// Whether the source can list its keys; without that there is never a filter.
    pub lists_keys: bool,
    /// The filter in force.
    pub filter: Option<FilterStats>,
    /// Lookups by outcome.
    pub lookups: Lookups,
    /// How good the filter is, measured.
    pub measured: Measured,
    /// What was checked of the "no" answers.
    pub audit: AuditStats,
    /// What a watching gate would have done.
    pub shadow: ShadowStats,
    /// Which parts answer.
    pub parts: PartStats,
    /// How long lookups and reads took.
    pub times: TimeStats,
    /// Work at the source.
    pub at_source: SourceStats,
    /// Writes that passed.
    pub writes: WriteStats,
    /// What others wrote, if a feed tells it.
    pub feed: Option<FeedStats>,
    /// Rebuilds.
    pub rebuild: RebuildStats,
    /// Clients and their caps; none if there are no caps.
    pub clients: Option<ClientStats>,
}

/// Clients and their caps.
#[derive(Clone, Debug, Serialize)]
pub struct ClientStats {
    /// Clients that are remembered, at most 57,344: with a debt, or a lookup under way.
    pub remembered: usize,
    /// Of those, the ones that are over a cap now.
    pub capped: usize,
    /// Lookups that were refused.
    pub refused_lookups: u64,
    /// Rows that were not added.
    pub refused_adds: u64,
    /// Those that are capped for longest, at most ten.
    pub capped_now: Vec<CappedClient>,
}

impl ClientStats {
    pub(crate) fn of(callers: Option<&Callers>, refused_lookups: u64, refused_adds: u64) -> Option<Self> {
        let callers = callers?;
        let (capped, named) = callers.capped();
        let named = named.into_iter().map(|(client, cap, again)| CappedClient {
            client: client.to_string(),
            cap: cap.name(),
            again_in_ms: again.as_millis() as u64,
        });
        let (remembered, capped_now) = (callers.len(), named.collect());
        Some(Self { remembered, capped, refused_lookups, refused_adds, capped_now })
    }
}

/// A client that is over a cap.
#[derive(Clone, Debug, Serialize)]
pub struct CappedClient {
    /// An address, or the hash of a name.
    pub client: String,
    /// `misses` or `adds`.
    pub cap: &'static str,
    /// When one more is allowed, in milliseconds.
    pub again_in_ms: u64,
}

/// The filter in force.
#[derive(Clone, Debug, Serialize)]
pub struct FilterStats {
    /// Rises by one with each rebuild.
    pub version: u64,
    /// As of when it knows every key, in milliseconds since 1970; none while it may not say no.
    pub watermark_ms: Option<u64>,
    /// As of when the scan was that it was built from, in milliseconds since 1970. It does not rise with a feed.
    pub built_ms: Option<u64>,
    /// Where its bits are.
    pub place: &'static str,
    /// Different keys in it.
    pub items: u64,
    /// Keys it was sized for.
    pub capacity: u64,
    /// Keys of the scan it was built from.
    pub scanned: u64,
    /// Rows deleted since; their bits stay until the next rebuild.
    pub removed: u64,
    /// Its size, if it is in this process.
    pub bytes: Option<u64>,
    /// The share of its bits that are set, if it is in this process.
    pub bit_density: Option<f64>,
    /// The rate asked for.
    pub asked_rate: f64,
    /// The rate to expect of the keys in it.
    pub expected_rate: f64,
    /// The rate its bits have, counted, if it is in this process. Past twice the rate asked for it is rebuilt.
    pub estimated_rate: Option<f64>,
    /// Of the lookups of absent keys since it came into force, the share that it let through to the source; none before the
    /// first, and while nothing is blocked. By this a filter that is not in this process is rebuilt, once it is sure.
    pub observed_rate: Option<f64>,
}

/// Lookups by outcome; each is in exactly one of those that are named by outcomes, or failed.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Lookups {
    /// Stopped by the filter.
    pub absent_by_filter: u64,
    /// Of those, the ones that asked for nothing else (`/check`, [`Gate::check`]). They are in nothing that is measured, since
    /// nobody tells what came of their like that passed.
    pub absent_by_check: u64,
    /// Absent a short while ago.
    pub negative_cached: u64,
    /// From the cache.
    pub cache: u64,
    /// From the source.
    pub source: u64,
    /// Let through, and absent.
    pub not_found: u64,
    /// Not filtered: the filter was not ready, or only watches.
    pub bypass: u64,
    /// Of the bypassed, those that were absent.
    pub bypass_absent: u64,
    /// Ended in an error.
    pub failed: u64,
    /// Of the failed: the policy is closed and the filter was not ready.
    pub refused_closed: u64,
    /// Of the failed: too many waited for the source.
    pub refused_busy: u64,
    /// Of the failed: their client had too many misses.
    pub refused_capped: u64,
    /// Took the answer of a read that was under way.
    pub joined: u64,
}

/// How good the filter is: over the lookups of absent keys alone, since only those can be false positives.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// Lookups of absent keys that a ready filter judged.
    pub absent_lookups: u64,
    /// Of those, the ones it let through.
    pub false_positives: u64,
    /// Their share; none before there was any.
    pub false_positive_rate: Option<f64>,
    /// The 99 % interval of that share (Wilson, 1927). Repeated lookups of one key are counted each time.
    pub interval: Option<(f64, f64)>,
    /// The share of lookups of absent keys that reached the source: remembered ones do not.
    pub reached_source_rate: Option<f64>,
}

impl Measured {
    /// Of so many lookups of absent keys that were blocked and that were not, and so many of those that were read. `would_block`:
    /// those that a watching filter would have blocked, and of them those that were not absent. The rest count as blocked. The
    /// two are read while others count, so the second may be larger for a moment.
    pub(crate) fn of(blocked: u64, would_block: (u64, u64), false_positives: u64, reads: u64) -> Self {
        let absent = blocked + would_block.0.saturating_sub(would_block.1) + false_positives;
        let share = |of: u64| (absent > 0).then(|| of as f64 / absent as f64);
        Self {
            absent_lookups: absent,
            false_positives,
            false_positive_rate: share(false_positives),
            interval: (absent > 0).then(|| rate_interval(false_positives, absent, 2.576)),
            reached_source_rate: share(reads),
        }
    }
}

/// What was checked of the "no" answers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AuditStats {
    /// Checked at the source.
    pub checked: u64,
    /// Drawn but not checked: too many waited, or the source failed.
    pub skipped: u64,
    /// Checked, but something was written nearby meanwhile, each time: neither right nor wrong.
    pub undecided: u64,
    /// Proven wrong: must be 0.
    pub wrong: u64,
}

/// What a watching gate would have done.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ShadowStats {
    /// Lookups it would have blocked.
    pub would_block: u64,
    /// Of those, the ones that the source had: with `writers = sole` there is none.
    pub would_block_wrongly: u64,
}

/// Whether each part answered when it was called the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartStats {
    /// The source.
    pub source: bool,
    /// The cache; none without one.
    pub cache: Option<bool>,
    /// The filter: one in this process always does.
    pub filter: bool,
}

impl PartStats {
    pub(crate) fn of(events: &Events, has_cache: bool) -> Self {
        let cache = has_cache.then(|| events.is_up(Part::Cache));
        Self { source: events.is_up(Part::Source), cache, filter: events.is_up(Part::Filter) }
    }

    /// Each part that there is, and whether it answers.
    #[cfg(feature = "service")]
    pub(crate) fn each(self) -> impl Iterator<Item = (Part, bool)> {
        let cache = self.cache.map(|is_up| (Part::Cache, is_up));
        [Some((Part::Source, self.source)), cache, Some((Part::Filter, self.filter))].into_iter().flatten()
    }
}

/// Work at the source.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SourceStats {
    /// Keys that lookups asked it for.
    pub reads: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Reads under way.
    pub at_once: usize,
    /// Lookups that wait for their turn.
    pub waiting: usize,
    /// Calls of the cache that failed.
    pub cache_errors: u64,
    /// Calls of a filter behind a network that failed.
    pub filter_errors: u64,
    /// Absent keys that are remembered.
    pub negative_entries: usize,
}

/// Writes that passed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WriteStats {
    /// Rows written.
    pub puts: u64,
    /// Rows deleted.
    pub deletes: u64,
    /// Writes under way.
    pub under_way: usize,
    /// Writes of which the source did not say whether they were done.
    pub unknown: u64,
    /// Keys kept in every filter because of that.
    pub doubtful: usize,
}

/// What others wrote, as a feed tells it.
#[derive(Clone, Debug, Serialize)]
pub struct FeedStats {
    /// The outbox.
    pub outbox: String,
    /// As of when everything is known, in milliseconds since 1970; none before the first read.
    pub watermark_ms: Option<u64>,
    /// How long ago that is.
    pub lag_ms: Option<u64>,
    /// How long ago it may be.
    pub max_staleness_ms: u64,
    /// Keys that came.
    pub written: u64,
    /// Rows that got other values.
    pub changed: u64,
    /// Keys that went.
    pub deleted: u64,
    /// Times that the table was emptied.
    pub emptied: u64,
    /// Reads of the outbox that went well.
    pub reads: u64,
    /// Those that failed, and may go well the next time.
    pub failures: u64,
    /// Times that it could not be followed from where it was left.
    pub losses: u64,
    /// Why, the last time.
    pub lost: Option<String>,
    /// How far it was read.
    pub position: Option<String>,
}

/// Rebuilds.
#[derive(Clone, Debug, Serialize)]
pub struct RebuildStats {
    /// That ended well.
    pub done: u64,
    /// That failed.
    pub failed: u64,
    /// That failed since the last one that ended well: above 0 is an alert.
    pub failures_in_a_row: u64,
    /// How often one is due, in seconds; none for never.
    pub every_seconds: Option<f64>,
    /// The one under way.
    pub running: Option<Progress>,
    /// What the source said of keys of the last scan, before the filter came into force; none if there was nothing to ask.
    pub sample: Option<Sample>,
    /// The last ones, the newest last.
    pub history: Vec<Rebuilt>,
    /// Milliseconds from the start to the first ready filter.
    pub ready_after_ms: Option<u64>,
    /// Times that saving the filter failed.
    pub save_errors: u64,
}

/// What the source says of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Found {
    /// It has the row.
    Found,
    /// It has none.
    Absent,
    /// It failed, and why.
    Error(String),
}

/// The whole decision about one key, step by step.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The key in its normal spelling.
    pub key: String,
    /// What the filter is good for.
    pub state: &'static str,
    /// `no`, `maybe`, or why it does not count.
    pub filter: &'static str,
    /// The version of the filter.
    pub version: u64,
    /// As of when it knows every key.
    pub watermark_ms: Option<u64>,
    /// Whether the key is remembered as absent.
    pub negative_cached: bool,
    /// Whether the cache has the row; none without a cache or when it failed.
    pub cached: Option<bool>,
    /// What the source says.
    pub source: Found,
    /// What a lookup would be told.
    pub decision: String,
}

impl Gate {
    /// Everything the gate tells of itself. Counting the bits of a large filter takes a while (10 ms for 100 MB), and is done
    /// for a thousandth of the time at most, and only when keys came since.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.told(true)
    }

    /// [`stats`](Self::stats) without counting the bits of the filter, as they were counted last: for those who ask often.
    #[must_use]
    pub fn brief_stats(&self) -> Stats {
        self.told(false)
    }

    fn told(&self, with_bits: bool) -> Stats {
        let inner = &*self.inner;
        let count = |what| inner.counters.get(what);
        let face = inner.filters.face();
        // One behind a network that does not answer is as good as none.
        let degraded = face.current.as_ref().is_some_and(|current| !current.answers());
        let (state, watermark) = match inner.state_of(face.state) {
            State::Ready { .. } if degraded => ("degraded", None),
            State::Ready { watermark, .. } => ("ready", Some(watermark)),
            other => (other.name(), None),
        };
        // Those that were wrong first: what is counted meanwhile is then among those of which they are.
        let (wrongly, would_block) = (count(Count::WouldBlockWrongly), count(Count::WouldBlock));
        let (blocked, checked) = (count(Count::AbsentByFilter), count(Count::AbsentByCheck));
        Stats {
            source: inner.source.describe(),
            cache: inner.cache.as_ref().map(|cache| cache.describe()),
            policy: inner.settings.policy.name(),
            writers: inner.settings.writers.name(),
            state,
            blocking: watermark.is_some() && self.may_block(),
            lists_keys: inner.source.lists_keys(),
            filter: face.current.as_deref().map(|current| {
                let observed = inner.measured_since(current).filter(|(_, trials)| *trials > 0);
                let observed_rate = observed.map(|(hits, trials)| hits as f64 / trials as f64);
                filter_stats(current, watermark, with_bits, observed_rate)
            }),
            lookups: Lookups {
                absent_by_filter: blocked + checked,
                absent_by_check: checked,
                negative_cached: count(Count::NegativeCached),
                cache: count(Count::Cache),
                source: count(Count::Source),
                not_found: count(Count::NotFound),
                bypass: count(Count::Bypass),
                bypass_absent: count(Count::BypassAbsent),
                failed: count(Count::Failed),
                refused_closed: count(Count::Closed),
                refused_busy: count(Count::Busy),
                refused_capped: count(Count::Capped),
                joined: count(Count::Joined),
            },
            measured: Measured::of(
                blocked,
                (would_block, wrongly),
                count(Count::FalsePositives),
                count(Count::FalsePositiveReads),
            ),
            audit: AuditStats {
                checked: count(Count::Audited),
                skipped: count(Count::AuditSkipped),
                undecided: count(Count::AuditUndecided),
                wrong: count(Count::WrongNo),
            },
            shadow: ShadowStats { would_block, would_block_wrongly: wrongly },
            parts: PartStats::of(&inner.events, inner.cache.is_some()),
            times: (&*inner.times).into(),
            at_source: SourceStats {
                reads: count(Count::SourceReads),
                errors: count(Count::SourceErrors),
                at_once: inner.entrance.at_source(),
                waiting: inner.entrance.waiting(),
                cache_errors: count(Count::CacheErrors),
                filter_errors: count(Count::FilterErrors),
                negative_entries: inner.shards.negatives(),
            },
            writes: WriteStats {
                puts: count(Count::Puts),
                deletes: count(Count::Deletes),
                under_way: inner.puts.len(),
                unknown: count(Count::UnknownWrites),
                doubtful: inner.filters.doubtful(),
            },
            feed: inner.feeding.as_ref().map(feed_stats),
            rebuild: RebuildStats {
                done: count(Count::Rebuilds),
                failed: count(Count::RebuildsFailed),
                failures_in_a_row: inner.rebuilds.failures.load(Relaxed),
                every_seconds: inner.settings.rebuild_every.map(|every| every.as_secs_f64()),
                running: inner.rebuilds.progress(),
                sample: inner.rebuilds.sample(),
                history: inner.rebuilds.history(),
                ready_after_ms: Some(inner.rebuilds.ready_after_ms.load(Relaxed)).filter(|&after| after > 0),
                save_errors: count(Count::SaveErrors),
            },
            clients: ClientStats::of(inner.callers.as_deref(), count(Count::Capped), count(Count::CappedAdds)),
        }
    }

    /// The whole decision about a key, step by step. Nothing is counted, stored or remembered; but a filter that says no to
    /// a key that the source has is caught at it, as by an audit: the key goes in, and the filter is not trusted until it is
    /// rebuilt.
    pub async fn explain(&self, key: &Key) -> Result<Explanation> {
        self.explain_by(key, None).await
    }

    /// [`explain`](Self::explain) for a client that has a cap: it asks the source, so a row that is not there counts.
    pub async fn explain_for(&self, key: &Key, client: &ClientId) -> Result<Explanation> {
        self.explain_by(key, Some(*client)).await
    }

    pub(crate) async fn explain_by(&self, key: &Key, client: Option<ClientId>) -> Result<Explanation> {
        let inner = &*self.inner;
        inner.check(key)?;
        let place = inner.place(client).await?;
        let digest = inner.filters.digest(key);
        // Before the filter is asked: a write after this moment moves the epoch.
        let epoch = inner.epoch(digest);
        let state = inner.state_of(inner.filters.face().state);
        let basis = inner.ask(digest).await;
        let negative_cached = inner.shards.is_absent(digest);
        let cached = match &inner.cache {
            Some(cache) => cache.get(key).await.ok().map(|row| row.is_some()),
            None => None,
        };
        let read = self.inner.read_to_explain(key, place).await;
        inner.events.of_source(&read);
        let seen = inner.seen();
        let source = match read {
            Ok(Some(_)) => Found::Found,
            Ok(None) => Found::Absent,
            Err(error) => Found::Error(error.to_string()),
        };
        let (filter, decision) = match basis.verdict {
            Verdict::No
                if source == Found::Found
                    && inner.epoch(digest) == epoch
                    && !inner.unnamed.under_way()
                    && inner.is_wrong(digest, seen).await =>
            {
                inner.wrong_no(key, digest, "an explanation").await;
                (
                    "no, wrongly",
                    "until now absent-by-filter: 404, WRONGLY, for the source has the row. The filter is not trusted from \
                     now on and is built anew: lookups go on to the source (bypass). Somebody writes past the gate"
                        .to_string(),
                )
            }
            Verdict::No if source == Found::Found => {
                ("no", "source: 200; the row was written while this was asked".to_string())
            }
            Verdict::No => ("no", "absent-by-filter: 404, nothing behind the filter is asked".to_string()),
            Verdict::Maybe if negative_cached => ("maybe", "negative-cached: 404".to_string()),
            Verdict::Maybe => ("maybe", found_at(cached, &source, "source: 200", "not-found: 404, a false positive")),
            Verdict::NotReady { .. } if inner.settings.policy == crate::Policy::Closed => {
                ("not ready", "refused: 503, the policy is closed".to_string())
            }
            Verdict::NotReady { .. } => ("not ready", found_at(cached, &source, "bypass: 200", "bypass: 404")),
            Verdict::Watching { no: true } => {
                ("no, but the gate only watches", found_at(cached, &source, "bypass: 200", "bypass: 404"))
            }
            Verdict::Watching { no: false } => {
                ("maybe, and the gate only watches", found_at(cached, &source, "bypass: 200", "bypass: 404"))
            }
        };
        Ok(Explanation {
            key: inner.source.key_type().show(key),
            state: state.name(),
            filter,
            version: basis.version,
            watermark_ms: basis.watermark,
            negative_cached,
            cached,
            source,
            decision,
        })
    }
}

fn found_at(cached: Option<bool>, source: &Found, present: &str, absent: &str) -> String {
    match (cached, source) {
        (Some(true), _) => "cache: 200".to_string(),
        (_, Found::Found) => present.to_string(),
        (_, Found::Absent) => absent.to_string(),
        (_, Found::Error(error)) => format!("refused: 503, the source failed ({error})"),
    }
}

fn feed_stats(feeding: &Feeding) -> FeedStats {
    let told = |kind: ChangeKind| feeding.told[kind as usize].load(Relaxed);
    let lag = feeding.watermark.lag();
    FeedStats {
        outbox: feeding.describe(),
        watermark_ms: lag.map(|_| feeding.watermark.wall()),
        lag_ms: lag.map(|lag| lag.as_millis() as u64),
        max_staleness_ms: feeding.max_staleness().as_millis() as u64,
        written: told(ChangeKind::Written),
        changed: told(ChangeKind::Changed),
        deleted: told(ChangeKind::Deleted),
        emptied: told(ChangeKind::Emptied),
        reads: feeding.reads.load(Relaxed),
        failures: feeding.failures.load(Relaxed),
        losses: feeding.losses.load(Relaxed),
        lost: feeding.why_lost(),
        position: feeding.position(),
    }
}

fn filter_stats(
    current: &Generation,
    watermark_ms: Option<u64>,
    with_bits: bool,
    observed_rate: Option<f64>,
) -> FilterStats {
    let local = current.local_bits();
    let counted = if with_bits { current.counted_bits() } else { current.last_counted() };
    let place = if local.is_some() { "in-process" } else { "remote" };
    FilterStats {
        version: current.version(),
        watermark_ms,
        built_ms: current.built_ms(),
        place,
        items: current.items(),
        capacity: current.capacity(),
        scanned: current.scanned(),
        removed: current.removed(),
        bytes: local.map(|filter| filter.size_in_bytes()),
        bit_density: counted.map(|counted| counted.density),
        asked_rate: current.rate(),
        expected_rate: current.expected_rate(),
        estimated_rate: counted.map(|counted| counted.rate),
        observed_rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_would_be_no_that_is_counted_between_two_looks_ends_nothing() {
        let measured = |would_block| Measured::of(10, would_block, 2, 1).absent_lookups;
        assert_eq!((measured((5, 3)), measured((3, 3)), measured((3, 4))), (14, 12, 12));
        let nothing = Measured::of(0, (0, 1), 0, 0);
        assert_eq!((nothing.absent_lookups, nothing.false_positive_rate, nothing.interval), (0, None, None));
    }
}
