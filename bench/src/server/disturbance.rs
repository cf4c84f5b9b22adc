//! Lookups while something big goes on beside them: a snapshot, growth, a storm of adds, a dump.

use super::Choice;
use super::load::{self, Counts, Plan};
use super::probe::{self, Delays};
use super::process::Process;
use super::stage::{self, Program, Side, Stock};
use super::table::{Line, Promise, Table};
use super::traffic::{Dialect, Items};
use super::wire::Answer;
use crate::args::Fault;
use crate::clock;
use crate::shared_machine;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SMALL: u64 = 1_000_000;
/// The 99th percentile may double.
const LIMIT: f64 = 2.0;
/// A phase that has not come to its first whole event after this long ends all the same.
const PATIENCE: Duration = Duration::from_secs(60);

/// What goes on beside the lookups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Snapshot,
    Growth,
    Storm,
    Dump,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Event::Snapshot => "snapshots of a 500 MB filter",
            Event::Growth => "growth steps of 60 MB",
            Event::Storm => "a storm of BF.MADD x100",
            Event::Dump => "dumps of 500 MB",
        }
    }
}

/// Who looks up meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lookups {
    /// Fifty clients, each of which asks again as soon as it has its answer: a server at work. What goes on beside them takes its
    /// turns as they do.
    Crowd,
    /// A thousand lookups a second and nothing else: every microsecond shows that something else takes.
    Few,
}

impl Lookups {
    fn name(self) -> &'static str {
        match self {
            Lookups::Crowd => "50 connections",
            Lookups::Few => "1,000 a second",
        }
    }

    /// How long they take, until `done` says so.
    fn ask(self, server: &Process, choice: &Choice, done: impl Fn(Duration) -> bool + Send) -> Result<Delays, Fault> {
        match self {
            Lookups::Crowd => probe::crowd(server.address, choice.dialect, "small", SMALL, &choice.both(), done),
            Lookups::Few => probe::run(server.address, choice.dialect, "small", SMALL, done),
        }
    }
}

/// Sizes: real, and for the smoke run.
struct Scale {
    /// Capacity of the big filter; 223 million items take 500 MB: one that may grow keeps most of its rate for later stages.
    big: u64,
    filled: u64,
    /// The second stage of a growing filter is so much larger than its first of 100,000 items.
    expansion: u64,
    time: Duration,
}

/// A growth step of 60 MB from a filter that is quickly full.
const FIRST_STAGE: u64 = 100_000;
/// Growth steps a second.
const STEPS: u64 = 4;

/// Measures all four and judges them.
pub fn run(choice: &Choice, table: &mut Table) -> Result<(), Fault> {
    let events = [Event::Snapshot, Event::Growth, Event::Storm, Event::Dump];
    let mut wanted = Vec::new();
    for (lookups, event) in [Lookups::Crowd, Lookups::Few].into_iter().flat_map(|by| events.map(|event| (by, event))) {
        let what = format!("p99 of lookups, {}, {}, over idle", lookups.name(), event.name());
        let missing = choice.dialect == Dialect::Redis && matches!(event, Event::Growth | Event::Dump);
        let why = if missing { Some("redis-server has none".to_string()) } else { choice.skips(&what, 0) };
        match why {
            Some(why) => table.leave_out(&what, &why),
            None => wanted.push(((lookups, event), what)),
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let time = Duration::from_secs_f64(choice.seconds * 4.0);
    let scale = if choice.quick {
        Scale { big: 4_000_000, filled: 100_000, expansion: 2, time }
    } else {
        Scale { big: 223_000_000, filled: 10_000_000, expansion: 270, time }
    };
    let stock = vec![
        Stock::Filter { name: "small", capacity: SMALL, filled: SMALL, hash: None },
        // Ten million items touch every page of it.
        Stock::Filter { name: "big", capacity: scale.big, filled: scale.filled, hash: None },
        Stock::Filter { name: "storm", capacity: 20 * SMALL, filled: SMALL, hash: None },
    ];
    let threads = choice.both().len();
    let side = Side { program: Program::Ours, threads, fsync: "every-second", pinned: false, stock };
    let server = stage::start(&side, "probe", choice)?;
    for stock in &side.stock {
        stage::put(&server, stock, choice)?;
    }
    let _awake = shared_machine::Awake::keep(&choice.both());
    let idle = |lookups: Lookups| lookups.ask(&server, choice, |since| since >= scale.time);
    let mut found: Vec<Found> = wanted.iter().map(|_| Found::default()).collect();
    for round in 0..choice.rounds.unwrap_or(5) {
        let mut last: Option<(Lookups, Delays)> = None;
        for (((lookups, event), _), found) in wanted.iter().zip(&mut found) {
            let before = match last.take() {
                Some((by, delays)) if by == *lookups => delays,
                _ => idle(*lookups)?,
            };
            let (during, times) = phase(*lookups, *event, &server, &scale, choice, round as u64)?;
            let after = idle(*lookups)?;
            let [was, then, is] = [&before, &during, &after].map(|delays| delays.quantile(0.99));
            found.ratios.push(then / f64::midpoint(was, is));
            found.idle.join(&before);
            found.idle.join(&after);
            found.during.join(&during);
            found.times += times;
            last = Some((*lookups, after));
        }
    }
    for ((_, what), found) in wanted.into_iter().zip(found) {
        table.add(Line {
            what,
            promise: if choice.dialect == Dialect::Filters { Promise::AtMost(LIMIT) } else { Promise::None },
            figure: clock::median(&found.ratios),
            unit: "x",
            peer: format!("{:.0} us", found.idle.quantile(0.99) / 1e3),
            ours: format!("{:.0} us", found.during.quantile(0.99) / 1e3),
            note: format!(
                "idle {}; during {}; {} times; {}",
                found.idle.text(),
                found.during.text(),
                found.times,
                found.left_out()
            ),
            void: found.void(),
        });
    }
    Ok(())
}

#[derive(Default)]
struct Found {
    ratios: Vec<f64>,
    idle: Delays,
    during: Delays,
    times: u64,
}

impl Found {
    /// What was left out because the machine's host held a processor.
    fn left_out(&self) -> String {
        let [idle, during] = [&self.idle, &self.during].map(|delays| {
            format!("{} of {} ({:.0} ms)", delays.left_out, delays.asked(), delays.stolen.as_secs_f64() * 1e3)
        });
        format!("left out while the host held a core: {idle} idle, {during} during")
    }

    /// Why the figure says nothing, if it does not.
    fn void(&self) -> Option<String> {
        if self.times == 0 {
            return Some("it did not happen once".to_string());
        }
        let mostly = |delays: &Delays| delays.left_out * 2 > delays.asked();
        (mostly(&self.idle) || mostly(&self.during)).then(|| "the host held a core most of the time".to_string())
    }
}

/// Lookups while `event` goes on, and how often it happened.
fn phase(
    lookups: Lookups,
    event: Event,
    server: &Process,
    scale: &Scale,
    choice: &Choice,
    round: u64,
) -> Result<(Delays, u64), Fault> {
    let steps = (scale.time.as_secs_f64() * STEPS as f64).ceil() as u64;
    if event == Event::Growth {
        prepare_growth(server, scale, steps, choice)?;
    }
    let (stop, times) = (AtomicBool::new(false), AtomicU64::new(0));
    let delays = std::thread::scope(|scope| -> Result<Delays, Fault> {
        let disturbing = scope.spawn(|| {
            // On two CPUs a client that never rests would take turns of milliseconds from the reactors, and the row would
            // measure the kernel's scheduler: what disturbs must be the server's work, so its clients go last. Beside a crowd,
            // which leaves no CPU idle, they would not go at all.
            if lookups == Lookups::Few {
                shared_machine::run_when_idle();
            }
            match event {
                Event::Snapshot => snapshots(server, choice, round, &stop, &times),
                Event::Growth => growth(server, steps, &stop, &times),
                Event::Storm => storm(server, choice, &stop, &times),
                Event::Dump => dumps(server, &stop, &times),
            }
        });
        let done = |since: Duration| {
            let once = times.load(Ordering::Relaxed) > 0 || disturbing.is_finished() || since > PATIENCE;
            since >= scale.time && once
        };
        let delays = lookups.ask(server, choice, done);
        stop.store(true, Ordering::Relaxed);
        disturbing.join().map_err(|_| Fault("a disturbing thread panicked".to_string()))??;
        delays
    })?;
    if event == Event::Growth {
        let mut talk = server.talk()?;
        for step in 0..steps {
            talk.must(&["DEL", &format!("grow{step}")])?;
        }
    }
    Ok((delays, times.into_inner()))
}

/// One BGSAVE after the other, with something new to save each time.
fn snapshots(server: &Process, choice: &Choice, round: u64, stop: &AtomicBool, times: &AtomicU64) -> Result<(), Fault> {
    let mut talk = server.talk()?;
    for turn in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let item = format!("saved {round} {turn}");
        match choice.dialect {
            Dialect::Filters => talk.must(&["BF.ADD", "big", &item])?,
            Dialect::Redis => talk.must(&["SET", "big", &item])?,
        };
        // Refused while the last one still runs.
        if !matches!(talk.ask(&["BGSAVE"])?, Answer::Error(_)) {
            times.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn prepare_growth(server: &Process, scale: &Scale, steps: u64, choice: &Choice) -> Result<(), Fault> {
    let mut talk = server.talk()?;
    for step in 0..steps {
        let name = format!("grow{step}");
        let (capacity, expansion) = (FIRST_STAGE.to_string(), scale.expansion.to_string());
        talk.must(&["BF.RESERVE", &name, "0.01", &capacity, "EXPANSION", &expansion])?;
        // A little less than full: the last items come during the phase.
        let traffic = choice.dialect.add_many(&name, Items::span(0, FIRST_STAGE - 5_000), 50);
        load::run_out(server, &traffic, choice.client())?;
    }
    Ok(())
}

/// Takes one prepared filter after the other past its capacity.
fn growth(server: &Process, steps: u64, stop: &AtomicBool, times: &AtomicU64) -> Result<(), Fault> {
    let mut talk = server.talk()?;
    for step in 0..steps {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("grow{step}");
        // 10,000 more: a filter of 100,000 takes at most 1 % of new items for old ones, so it is full by then.
        for part in 0..100u64 {
            let items: Vec<String> = (0..100).map(|item| format!("{:012}", FIRST_STAGE + part * 100 + item)).collect();
            let mut words = vec!["BF.MADD", name.as_str()];
            words.extend(items.iter().map(String::as_str));
            talk.must(&words)?;
        }
        let stages = talk.must(&["BF.INFO", &name, "FILTERS"])?.integer();
        if stages.is_some_and(|stages| stages > 1) {
            times.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(1000 / STEPS / 2));
    }
    Ok(())
}

/// Adds as fast as the client's CPU sends them, on eight connections: new ones at first, repeats when all were sent.
fn storm(server: &Process, choice: &Choice, stop: &AtomicBool, times: &AtomicU64) -> Result<(), Fault> {
    let traffic = choice.dialect.add_many("storm", Items::Random(20 * SMALL), 16);
    let counts = Counts::default();
    times.fetch_add(1, Ordering::Relaxed);
    load::drive(
        Plan { address: server.address, traffic: &traffic, connections: 8, cores: choice.client() },
        stop,
        &counts,
    )
}

/// One dump after the other.
fn dumps(server: &Process, stop: &AtomicBool, times: &AtomicU64) -> Result<(), Fault> {
    let mut talk = server.talk()?;
    let mut at = 0i64;
    while !stop.load(Ordering::Relaxed) {
        at = talk.must(&["BF.SCANDUMP", "big", &at.to_string()])?.integer().unwrap_or(0);
        if at == 0 {
            times.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
