//! What a running gate tells whoever started it, a line for each event on standard error. Never more than a few of a kind
//! in a minute, and never by a thread that serves: a reader of the log that falls asleep holds up nobody.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use bloomgate_gate::{Event, Part};

use crate::number::{counted, duration};
use crate::screen;

/// Events that may wait to be written; beyond, they are only counted.
const WAITING: usize = 256;
/// Lines of one kind in one stretch of time.
const LINES: u32 = 6;
const STRETCH: Duration = Duration::from_secs(60);
/// How long the last lines may take.
const LAST: Duration = Duration::from_secs(1);

/// Writes the events of a gate.
pub struct Telling {
    events: SyncSender<Option<Event>>,
    missed: Arc<AtomicU64>,
    ended: Receiver<()>,
}

impl Telling {
    /// Begins; `quiet`: nothing but errors.
    pub fn begin(quiet: bool) -> std::io::Result<Self> {
        let (events, heard) = mpsc::sync_channel::<Option<Event>>(WAITING);
        let (end, ended) = mpsc::channel();
        let missed: Arc<AtomicU64> = Arc::default();
        let counted_missed = missed.clone();
        std::thread::Builder::new().name("telling".into()).spawn(move || {
            let mut limit = Limit::default();
            while let Ok(Some(event)) = heard.recv() {
                let missed = counted_missed.swap(0, Relaxed);
                if missed > 0 {
                    screen::note(format_args!("{} not told: too many at once", counted(missed, "event")));
                }
                let (kind, line) = words(&event);
                match limit.pass(kind, Instant::now()) {
                    _ if quiet && !matches!(line, Line::Error(_)) => {}
                    Pass::No => {}
                    Pass::Last => line.print(" (more of this kind in this minute are not told)"),
                    Pass::Yes(0) => line.print(""),
                    Pass::Yes(untold) => line.print(&format!(" ({untold} more of this kind were not told before)")),
                }
            }
            _ = end.send(());
        })?;
        Ok(Self { events, missed, ended })
    }

    /// What the gate calls.
    pub fn listener(&self) -> impl Fn(Event) + Send + Sync + Clone + 'static {
        let (events, missed) = (self.events.clone(), self.missed.clone());
        move |event| {
            if events.try_send(Some(event)).is_err() {
                missed.fetch_add(1, Relaxed);
            }
        }
    }

    /// Ends when what was told so far is written, or does not get written.
    pub fn end(self) {
        if self.events.try_send(None).is_ok() {
            _ = self.ended.recv_timeout(LAST);
        }
    }
}

/// A line, by how it is shown.
enum Line {
    Plain(String),
    Note(String),
    Error(String),
}

impl Line {
    /// The same, of one tenant.
    fn of(self, tenant: &str) -> Self {
        let with = |text: String| format!("tenant {tenant:?}: {text}");
        match self {
            Self::Plain(text) => Self::Plain(with(text)),
            Self::Note(text) => Self::Note(with(text)),
            Self::Error(text) => Self::Error(with(text)),
        }
    }

    fn print(&self, more: &str) {
        match self {
            Self::Plain(text) => screen::tell(format_args!("bloomgate: {text}{more}")),
            Self::Note(text) => screen::note(format_args!("{text}{more}")),
            Self::Error(text) => screen::complain(format_args!("{text}{more}")),
        }
    }
}

/// The kind of an event, for the limit, and its line.
fn words(event: &Event) -> (&'static str, Line) {
    match event {
        Event::Rebuilt { rebuilt, first_after_ms, blocking } => {
            let what = if *blocking { "absent keys are answered here" } else { "it only watches" };
            let keys = counted(rebuilt.keys, "key");
            let words = match first_after_ms {
                Some(after @ ..1000) => format!("filter ready after {after} ms"),
                Some(after) => format!("filter ready after {}", duration(Duration::from_millis(*after))),
                None => {
                    let took = duration(Duration::from_secs_f64(rebuilt.seconds));
                    format!("filter rebuilt in {took} ({})", rebuilt.reason.name())
                }
            };
            ("rebuilt", Line::Plain(format!("{words}: version {}, {keys}; {what}", rebuilt.version)))
        }
        Event::RebuildFailed { rebuilt, still_ready } => {
            let stays = match still_ready {
                true => "the filter of before stays",
                false => "no filter can say no until one succeeds",
            };
            let why = rebuilt.failure.as_deref().unwrap_or("no reason known");
            ("rebuild failed", Line::Error(format!("a rebuild failed ({}), {stays}: {why}", rebuilt.reason.name())))
        }
        Event::FewerAccepted { before, now, because } => {
            let words = format!(
                "the source has {} where {before} were expected: accepted, since {because}",
                counted(*now, "key")
            );
            ("fewer", Line::Note(words))
        }
        Event::KeysUnknown { asked, unknown, example } => {
            let words = format!(
                "of {asked} keys of the list, the service does not know {unknown}, {:?} for one: are they spelled as the service \
                 spells them? If they were deleted since, make the list anew",
                shortened(example)
            );
            ("unknown keys", Line::Note(words))
        }
        Event::WrongNo { key, found_by } => (
            "wrong no",
            Line::Error(format!(
                "a \"no\" was wrong: the source has the key {:?} ({found_by} found it). The filter is not trusted until it is \
                 rebuilt. Does somebody write past the gate? Then start it with --writers unknown. Is it a route behind a \
                 reverse proxy, and no key? Then name it by --pass",
                shortened(key)
            )),
        ),
        Event::NotReady { state } => {
            ("state", Line::Error(format!("the filter is {state}: lookups are not filtered until it is rebuilt")))
        }
        Event::WriteMissed { why } => (
            "write missed",
            Line::Error(format!(
                "the filter could not be told of a write, and says no again when it is rebuilt: {why}"
            )),
        ),
        Event::Lost { part, why } => {
            let meanwhile = match part {
                Part::Source => "what the filter and the cache do not know is refused with 503",
                Part::Cache => "every lookup of an existing key reaches the source",
                Part::Filter => "lookups are not filtered",
                Part::Feed => "past --max-staleness lookups are not filtered",
                Part::Upstream => "what passes is answered with 502 or 504",
            };
            (part_kind(*part), Line::Error(format!("the {part} does not answer, {meanwhile}: {why}")))
        }
        Event::Regained { part } => (part_kind(*part), Line::Plain(format!("the {part} answers again"))),
        Event::Capped { client, cap, limit } => (
            "capped",
            Line::Note(format!(
                "the client {client} is over its cap of {} ({} in {}): what would reach the source is refused with 429",
                cap.name(),
                limit.count(),
                duration(limit.per())
            )),
        ),
        Event::FeedLost { why } => {
            ("feed lost", Line::Error(format!("what others write cannot be followed, the filter is built anew: {why}")))
        }
        Event::CaughtUp { version, changes, after_ms, blocking } => {
            let what = if *blocking { "absent keys are answered here" } else { "it only watches" };
            let (after, told) = (duration(Duration::from_millis(*after_ms)), counted(*changes, "change"));
            let words =
                format!("filter ready after {after}: version {version} of the last run, with {told} since; {what}");
            ("rebuilt", Line::Plain(words))
        }
        Event::SaveFailed { why } => {
            ("save", Line::Error(format!("the filter could not be saved, the next start may begin without one: {why}")))
        }
        Event::SavedUnusable { why } => {
            ("saved", Line::Note(format!("what the last run saved is not used, a new filter is built: {why}")))
        }
        Event::OfTenant { tenant, event } => {
            let (kind, line) = words(event);
            (kind, line.of(&shortened(tenant)))
        }
        Event::TenantsBuilt { built, failed, without_room, keys, seconds, blocking } => {
            let what = if *blocking { "absent keys are answered here" } else { "they only watch" };
            let took = Duration::from_secs_f64(*seconds);
            let after = if took < Duration::from_secs(1) { format!("{} ms", took.as_millis()) } else { duration(took) };
            let (tenants, keys) = (counted(*built as u64, "tenant"), counted(*keys, "key"));
            let mut words = format!("filters ready after {after}: {tenants}, {keys}; {what}");
            if *failed > 0 {
                words.push_str(&format!("; {} failed and are tried again", counted(*failed as u64, "tenant")));
            }
            if *without_room > 0 {
                let without = counted(*without_room as u64, "tenant");
                words.push_str(&format!("; {without} without a filter, for --filter-memory does not suffice"));
            }
            ("tenants", Line::Plain(words))
        }
        Event::TenantsFailed { why } => (
            "tenants failed",
            Line::Error(format!("the filters of all tenants could not be built, what was in force stays: {why}")),
        ),
        Event::TenantWithoutRows { tenant, near } => {
            let meant = near.as_ref().map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            (
                "tenant without rows",
                Line::Note(format!("the tenant {:?} has settings of its own and no rows{meant}", shortened(tenant))),
            )
        }
        other => ("other", Line::Note(format!("{other:?}"))),
    }
}

fn part_kind(part: Part) -> &'static str {
    match part {
        Part::Source => "source",
        Part::Cache => "cache",
        Part::Filter => "filter",
        Part::Feed => "feed",
        Part::Upstream => "upstream",
    }
}

fn shortened(key: &str) -> String {
    match key.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key.to_owned(),
    }
}

/// How many lines of a kind there were in this stretch.
#[derive(Default)]
struct Limit {
    kinds: HashMap<&'static str, (Instant, u32, u32)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Pass {
    /// So many were held back before it.
    Yes(u32),
    /// The last one for now.
    Last,
    No,
}

impl Limit {
    fn pass(&mut self, kind: &'static str, now: Instant) -> Pass {
        let (since, lines, untold) = self.kinds.entry(kind).or_insert((now, 0, 0));
        let mut before = 0;
        if now.duration_since(*since) >= STRETCH {
            before = *untold;
            (*since, *lines, *untold) = (now, 0, 0);
        }
        *lines += 1;
        match *lines {
            LINES => Pass::Last,
            lines if lines > LINES => {
                *untold += 1;
                Pass::No
            }
            _ => Pass::Yes(before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_flaps_does_not_fill_the_log() {
        let (mut limit, begin) = (Limit::default(), Instant::now());
        let passes: Vec<Pass> = (0..1000).map(|_| limit.pass("source", begin)).collect();
        assert!(passes[..5].iter().all(|pass| *pass == Pass::Yes(0)) && passes[5] == Pass::Last);
        assert!(passes[6..].iter().all(|pass| *pass == Pass::No));
        assert_eq!(limit.pass("wrong no", begin), Pass::Yes(0), "each kind has its own");
        assert_eq!(limit.pass("source", begin + STRETCH), Pass::Yes(994));
        assert_eq!(limit.pass("source", begin + STRETCH), Pass::Yes(0));
    }
}
