//! kill -9 under load, and after every fourth of them a SIGTERM: the operating system lives on, so nothing acknowledged may be lost
//! under any policy, neither adds nor structural writes ([`crate::structure`]). The folder is the same all the time, and everything ever acknowledged is asked for, what is
//! older than the last end every tenth time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::load::Load;
use crate::options::Options;
use crate::random::Random;
use crate::report::Row;
use crate::server;
use crate::structure;
use crate::subject::{Kind, Policy};
use crate::system::{copy_folder, empty_folder, now};
use crate::wire::Wire;

pub fn drill(options: &Options, policy: Policy) -> Result<Row, String> {
    let subject = &options.subject;
    let kills = if options.control { 2 } else { options.runs.unwrap_or(200) };
    let data = options.work.join("data");
    let stale = options.work.join("stale");
    let log = options.work.join("server.log");
    empty_folder(&data)?;
    let mut random = Random::new(options.seed, 0x911);
    structure::lay_out(&data)?;
    let mut load = Load::with_structure(options.seed, 0, options.connections, &data);
    let (mut acknowledged, mut asked, mut terms, mut loaded, mut lost) = (0, 0, 0, 0, 0);
    let (mut changes, mut changes_lost) = (0, 0);
    let mut slowest_start = Duration::ZERO;
    let turns = turns(kills);
    for turn in 0..turns {
        let server = server::must_start(subject, &data, policy, &log)?;
        let address = server.address;
        let mut wire = Wire::connect(address, Duration::from_secs(60)).map_err(|error| error.to_string())?;
        subject.reserve(&mut wire).map_err(|error| error.to_string())?;
        let mut length = options.seconds * (0.75 + random.below(500) as f64 / 1000.0);
        let mut pause = Duration::from_millis(20 + random.below(400));
        if turn % 4 == 3 {
            // Two snapshots with nothing written between their beginnings, and the kill amid the second.
            subject.save(&mut wire).map_err(|error| error.to_string())??;
            (pause, length) = (Duration::ZERO, random.below(80) as f64 / 1000.0);
        }
        let stop = AtomicBool::new(false);
        let term = is_term(turn);
        let begin = now();
        let end = std::thread::scope(|scope| {
            let writing = scope.spawn(|| load.run(subject, address, &stop, options.pace));
            let snapshots = (turn % 2 == 1).then(|| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::sleep(pause);
                        if subject.save(&mut wire).is_err() {
                            break;
                        }
                    }
                })
            });
            std::thread::sleep(Duration::from_secs_f64(length));
            let end = now();
            let ended = match term {
                false => server.kill(),
                true => match server.stop(Duration::from_secs(30)) {
                    Ok(status) if status.success() => Ok(()),
                    Ok(status) => Err(format!("SIGTERM ended it with {status}, exit status 0 is promised")),
                    Err(what) => Err(what),
                },
            };
            stop.store(true, Ordering::Relaxed);
            let written = writing.join().unwrap_or_else(|_| Err("the load panicked".into()));
            if let Some(snapshots) = snapshots {
                let _ = snapshots.join();
            }
            ended.and(written).map(|()| end)
        })
        .map_err(|what| format!("kill {turn}: {what}"))?;
        // A server that stops may refuse what still comes in.
        if !term {
            load.refused()?;
        }
        terms += u64::from(term);
        loaded += end - begin;
        acknowledged += load.acknowledged(u64::MAX);
        if options.control && turn == 0 {
            copy_folder(&data, &stale)?;
        } else if options.control {
            // As if everything since the first kill had never been written.
            empty_folder(&data)?;
            copy_folder(&stale, &data)?;
        }
        let server = server::must_start(subject, &data, policy, &log).map_err(|what| format!("kill {turn}: {what}"))?;
        slowest_start = slowest_start.max(server.started);
        // Everything there ever was every tenth time, else what is new: the last start asks for all of it.
        let thorough = turn % 10 == 9 || turn + 1 == turns;
        let verdict = load.check(subject, server.address, u64::MAX, u64::MAX, thorough)?;
        server.kill()?;
        asked += verdict.adds.asked + verdict.counts.asked;
        lost += verdict.adds.lost + verdict.counts.short;
        changes += verdict.structure.made;
        changes_lost += verdict.structure.lost;
        if !options.control {
            verdict.nothing_lost(subject).map_err(|what| format!("kill {turn}: {what}"))?;
        }
    }
    Ok(Row::new("kill", policy)
        .number("kill -9", turns - terms)
        .number("SIGTERM", terms)
        .text("acknowledged/s", format!("{:.0}", acknowledged as f64 / (loaded as f64 / 1e9)))
        .number("acknowledged", acknowledged)
        .number("asked", asked)
        .number("lost", lost)
        .number("structural writes", changes)
        .number("of them lost", changes_lost)
        .text("slowest start", format!("{:.0} ms", slowest_start.as_secs_f64() * 1e3))
        // A control run has to find that both are lost.
        .found(if options.control && subject.kind == Kind::Bloomgate { lost.min(changes_lost) } else { lost }))
}

/// Whether a turn ends by SIGTERM: each fifth.
fn is_term(turn: u64) -> bool {
    turn % 5 == 4
}

/// The turns in which so many end by kill -9, with the SIGTERMs beside them; a control run has no more than its two.
fn turns(kills: u64) -> u64 {
    kills + kills / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_kills_as_were_asked_for() {
        for kills in 1..=300 {
            assert_eq!((0..turns(kills)).filter(|turn| !is_term(*turn)).count() as u64, kills, "{kills}");
        }
    }
}
