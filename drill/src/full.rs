//! The full disk. The data folder is a tmpfs of 16 MB; a filler takes all that is free. From then on every write is
//! answered within a second, with an error once nothing more can be written; lookups go on; when the filler is gone
//! writes work again by themselves, and after a restart everything acknowledged is there.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::load::{Load, step};
use crate::options::Options;
use crate::power::own_namespace;
use crate::report::Row;
use crate::server::{self, Server};
use crate::subject::{Answer, Policy, Subject};
use crate::system::{copy_folder, empty_folder, run};
use crate::wire::Wire;

/// How long an answer may take, how long an error may be in coming, how long writes may stay refused afterwards.
const ANSWER: Duration = Duration::from_secs(1);
/// (A log may have made room ahead: writes go on until that is used up.)
const FELT: Duration = Duration::from_secs(60);
const RECOVERED: Duration = Duration::from_secs(5);

/// Two connections, one that writes and one that asks, and how long each had to wait at most.
struct Clients<'a> {
    subject: &'a Subject,
    writer: Wire,
    reader: Wire,
    known: Vec<Vec<u8>>,
    asked: usize,
    slowest_write: Duration,
    slowest_lookup: Duration,
}

impl Clients<'_> {
    /// One write and one lookup; whether the write was acknowledged.
    fn turn(&mut self, load: &mut Load, server: &mut Server) -> Result<bool, String> {
        let before = load.refusals();
        let begin = Instant::now();
        let gone = |what: std::io::Error, server: &mut Server| {
            // A connection ends a moment before its server does.
            std::thread::sleep(Duration::from_millis(200));
            match server.ended() {
                Some(status) => format!("the server died: {status}; it printed:\n{}", server.printed()),
                None => format!("no answer from a running server: {what}"),
            }
        };
        step(load.script(self.asked), self.subject, &mut self.writer).map_err(|error| gone(error, server))??;
        self.slowest_write = self.slowest_write.max(begin.elapsed());
        if load.adds[0].any_acknowledged().is_some() && self.known.len() < 1000 {
            self.known.extend(load.adds[0].any_acknowledged());
        }
        self.asked += 1;
        if let Some(item) = self.known.get(self.asked % self.known.len().max(1)) {
            let begin = Instant::now();
            self.subject.ask(&mut self.reader, std::slice::from_ref(item));
            let reply = self.reader.reply().map_err(|error| gone(error, server))?;
            self.slowest_lookup = self.slowest_lookup.max(begin.elapsed());
            match &self.subject.answers(reply, 1)[0] {
                Answer::Count(0) => return Err(format!("{} was answered 0", String::from_utf8_lossy(item))),
                Answer::Count(_) => {}
                Answer::Refused(text) => return Err(format!("a lookup was refused: {text}")),
            }
        }
        Ok(load.refusals() == before)
    }
}

/// Takes all the room there is.
fn fill(path: &Path) -> Result<(), String> {
    let mut file = File::create(path).map_err(|error| format!("the filler {}: {error}", path.display()))?;
    let zeros = [0; 65536];
    for size in [65536, 4096, 1] {
        while file.write(&zeros[..size]).is_ok_and(|written| written > 0) {}
    }
    Ok(())
}

pub fn drill(options: &Options, policy: Policy) -> Result<Row, String> {
    own_namespace()?;
    let subject = &options.subject;
    let disk = options.work.join("disk");
    empty_folder(&disk)?;
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(&disk))
        .map_err(|error| format!("the disk-full drill needs a tmpfs: {error}"))?;
    let outcome = fillings(options, policy, subject, &disk);
    if outcome.is_err() {
        let _ = copy_folder(&disk.join("data"), &options.work.join("found"));
    }
    for _ in 0..50 {
        if run(Command::new("umount").arg(&disk)).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    outcome
}

fn fillings(options: &Options, policy: Policy, subject: &Subject, disk: &Path) -> Result<Row, String> {
    let (data, filler, log) = (disk.join("data"), disk.join("filler"), options.work.join("server.log"));
    let stale = options.work.join("stale");
    let mut load = Load::new(options.seed, 0, 1);
    let turns = options.runs.unwrap_or(10);
    let (mut acknowledged, mut refused, mut lost) = (0, 0, 0);
    let (mut felt, mut recovered) = (Duration::ZERO, Duration::ZERO);
    let (mut slowest_write, mut slowest_lookup) = (Duration::ZERO, Duration::ZERO);
    for turn in 0..turns {
        let mut server = server::must_start(subject, &data, policy, &log)?;
        let connect = || Wire::connect(server.address, Duration::from_secs(5)).map_err(|error| error.to_string());
        let mut clients = Clients {
            subject,
            writer: connect()?,
            reader: connect()?,
            known: Vec::new(),
            asked: 0,
            slowest_write: Duration::ZERO,
            slowest_lookup: Duration::ZERO,
        };
        subject.reserve(&mut clients.writer).map_err(|error| error.to_string())?;
        if options.control {
            copy_folder(&data, &stale)?;
        }
        for _ in 0..1000 {
            if !clients.turn(&mut load, &mut server)? {
                return Err(format!("a write was refused before the disk was full: {:?}", load.adds[0].refusal));
            }
        }

        fill(&filler)?;
        let begin = Instant::now();
        let mut first = None;
        while first.is_none_or(|at: Instant| at.elapsed() < Duration::from_millis(1500)) {
            if !clients.turn(&mut load, &mut server)? {
                first.get_or_insert_with(Instant::now);
                std::thread::sleep(Duration::from_millis(1));
            }
            if first.is_none() && begin.elapsed() > FELT {
                return Err(format!("no write was refused in {FELT:?} on a full disk"));
            }
        }
        felt = felt.max(first.map_or(FELT, |at| at - begin));

        fs::remove_file(&filler).map_err(|error| format!("the filler: {error}"))?;
        let begin = Instant::now();
        while !clients.turn(&mut load, &mut server)? {
            if begin.elapsed() > RECOVERED {
                return Err(format!("writes are still refused {RECOVERED:?} after there was room again"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        recovered = recovered.max(begin.elapsed());
        for _ in 0..200 {
            if !clients.turn(&mut load, &mut server)? {
                return Err("a write was refused after others had worked again".into());
            }
        }
        if clients.slowest_write > ANSWER || clients.slowest_lookup > ANSWER {
            let (write, lookup) = (clients.slowest_write, clients.slowest_lookup);
            return Err(format!("a write waited {write:?}, a lookup {lookup:?}; {ANSWER:?} is allowed"));
        }
        slowest_write = slowest_write.max(clients.slowest_write);
        slowest_lookup = slowest_lookup.max(clients.slowest_lookup);
        acknowledged += load.acknowledged(u64::MAX);

        if turn % 2 == 0 {
            server.kill()?;
        } else {
            let status = server.stop(Duration::from_secs(30))?;
            if !status.success() {
                return Err(format!("SIGTERM ended it with {status}, exit status 0 is promised"));
            }
        }
        if options.control {
            // As if nothing since the start had been written.
            empty_folder(&data)?;
            copy_folder(&stale, &data)?;
        }
        let server = server::must_start(subject, &data, policy, &log)?;
        refused += load.refusals();
        let verdict = load.check(subject, server.address, u64::MAX, u64::MAX, true)?;
        server.kill()?;
        lost += verdict.adds.lost + verdict.counts.short;
        if !options.control {
            verdict.nothing_lost(subject)?;
        }
        // Each filling starts with an empty disk: sixteen megabytes are not for all of them.
        empty_folder(&data)?;
        load = Load::new(options.seed, turn + 1, 1);
    }
    let milliseconds = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
    Ok(Row::new("disk full", policy)
        .number("fillings", turns)
        .number("acknowledged", acknowledged)
        .number("refused", refused)
        .text("first refusal after", milliseconds(felt))
        .text("slowest write", milliseconds(slowest_write))
        .text("slowest lookup", milliseconds(slowest_lookup))
        .text("writes again after", milliseconds(recovered))
        .number("lost", lost)
        .found(lost))
}
