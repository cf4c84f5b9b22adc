//! The clients of the demo: one that loads the filters, then one that asks, one that changes, and one that looks after things.

use std::f64::consts::TAU;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::filters::{ALL, NAMESPACES, Stream};
use super::talk::Talk;
use crate::random::Random;
use crate::screen;

/// Between two pipelines.
const TICK: Duration = Duration::from_millis(100);
/// Before a connection that was lost is made again.
const AGAIN: Duration = Duration::from_secs(1);
/// Filters are made a moment after the start: the server's first look at how they grow is over then, and the second finds them
/// loaded, so that loading is not taken for growth.
const FIRST: Duration = Duration::from_millis(300);
/// What is done now and then, after so many seconds and again each so many: what takes a little longer and is in the slow log, a
/// snapshot, and a stranger at the door.
const CHORES: [(u64, u64, &str); 5] = [
    (2, 15, "BG.STATS crawler:visited"),
    (5, 60, "BGSAVE"),
    (8, 20, "BG.ESTIMATE users"),
    (12, 40, "AUTH mallory guessed"),
    (20, 90, "BG.COPY users users:nightly REPLACE"),
];

/// Loads the filters and uses them, until it is told to stop.
pub fn run(address: SocketAddr, stop: &AtomicBool) {
    std::thread::sleep(FIRST);
    let mut streams: Vec<Stream> = ALL.iter().map(Stream::new).collect();
    if let Err(error) = load(address, &mut streams, stop) {
        if !stop.load(Relaxed) {
            screen::note(format_args!("the demo's filters could not be loaded: {error}"));
        }
        return;
    }
    let (began, mut random) = (Instant::now(), Random::of_worker(1, 0));
    while !stop.load(Relaxed) {
        // Somebody may have ended its connections by CLIENT KILL: it comes again. It ends when the server does.
        if live(address, &mut streams, &mut random, began, stop).is_err() && !stop.load(Relaxed) {
            std::thread::sleep(AGAIN);
        }
    }
}

fn load(address: SocketAddr, streams: &mut [Stream], stop: &AtomicBool) -> io::Result<()> {
    let mut loader = Talk::begin(address, "demo-loader")?;
    NAMESPACES.iter().for_each(|command| loader.say(&words(command)));
    ALL.iter().for_each(|filter| loader.say(&filter.making()));
    for error in loader.hear()? {
        screen::note(format_args!("the demo: {error}"));
    }
    for command in streams.iter_mut().flat_map(Stream::filling) {
        if stop.load(Relaxed) {
            break;
        }
        // A filter that is full refuses the last ones, and one that could not be made all: told already.
        loader.say(&command);
        loader.hear()?;
    }
    Ok(())
}

fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().collect()
}

/// How much more or less is asked than on average: a wave of a minute, and a burst every 45 seconds.
fn swing(seconds: f64) -> f64 {
    let burst = if seconds % 45.0 < 3.0 { 0.8 } else { 0.0 };
    1.0 + 0.4 * (TAU * seconds / 60.0).sin() + burst
}

fn live(
    address: SocketAddr,
    streams: &mut [Stream],
    random: &mut Random,
    began: Instant,
    stop: &AtomicBool,
) -> io::Result<()> {
    let [mut asking, mut changing, mut minding] =
        [Talk::begin(address, "demo-web")?, Talk::begin(address, "demo-worker")?, Talk::begin(address, "demo-admin")?];
    let mut last = Instant::now();
    let mut second = began.elapsed().as_secs();
    while !stop.load(Relaxed) {
        std::thread::sleep(TICK);
        // After a pause of the machine nothing is made up for.
        let seconds = last.elapsed().as_secs_f64().min(1.0);
        last = Instant::now();
        let swing = swing(began.elapsed().as_secs_f64());
        for stream in streams.iter_mut() {
            let step = stream.step(seconds, swing, random);
            step.changing.iter().for_each(|command| changing.say(command));
            step.asking.iter().for_each(|command| asking.say(command));
        }
        // Errors are part of it: one filter is full.
        changing.hear()?;
        asking.hear()?;
        let now = began.elapsed().as_secs();
        for at in std::mem::replace(&mut second, now)..now {
            for (first, every, command) in CHORES {
                if at >= first && (at - first).is_multiple_of(every) {
                    minding.say(&words(command));
                }
            }
        }
        minding.hear()?;
    }
    Ok(())
}
