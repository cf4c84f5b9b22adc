//! The full disk. The data folder is a tmpfs of 128 MB; a filler takes all that is free. From then on every write is
//! answered within a second, with an error once nothing more can be written; lookups go on; a snapshot and a backup fail
//! and say that there is no room. Then there is some, a megabyte more each time, up to what a backup needs beside the 64 MB
//! that it leaves free: those that run out of room while copied leave nothing of themselves, and writes go on after each.
//! When the filler is gone all works again, and after a restart everything acknowledged is there.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::load::{Load, step};
use crate::options::Options;
use crate::power::own_namespace;
use crate::report::Row;
use crate::server::{self, Server};
use crate::subject::{Answer, Kind, Policy, Subject};
use crate::system::{copy_folder, empty_folder, run};
use crate::wire::Wire;

/// How long an answer may take, how long an error may be in coming, how long writes may stay refused afterwards.
const ANSWER: Duration = Duration::from_secs(1);
/// (A log may have made room ahead: writes go on until that is used up.)
const FELT: Duration = Duration::from_secs(60);
const RECOVERED: Duration = Duration::from_secs(5);
/// What a snapshot or a backup without room says: the system's words, or how much is left.
const NO_ROOM: [&str; 2] = ["No space left", "bytes of the disk are free"];
/// What a backup says that ran out of it while it was copied, after its snapshot.
const COPYING: &str = "the backup ";
/// A backup of what is there has to be made with so many MB of room.
const MOST_ROOM: u64 = 80;

/// The room that there is for backups, in MB, one after the other until one is made: some that it would fill up, and from what it
/// has to leave free on, by as little more as has it run out in the middle. Under `always` the log takes four of them ahead.
fn rooms(policy: Policy) -> impl Iterator<Item = u64> {
    let first = if policy == Policy::Always { 6 } else { 1 };
    (first..=8).chain(65..=MOST_ROOM)
}

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

/// Leaves so much of the room that the filler has taken, which is of this size.
fn make_room(path: &Path, size: u64, room: u64) -> Result<(), String> {
    let shrunk = OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(size.saturating_sub(room)));
    shrunk.map_err(|error| format!("the filler {}: {error}", path.display()))
}

/// Snapshots and backups on one disk, on a connection of their own.
struct Keeper<'a> {
    subject: &'a Subject,
    wire: Wire,
    /// Where the backups are.
    folder: PathBuf,
    /// In a control run each backup that fails leaves something, by the drill's hand.
    litters: bool,
    /// Backups so far.
    made: u64,
    /// Those of them that ran out of room while they were copied.
    ran_out: u64,
    /// What was found of backups that had failed.
    left: u64,
}

impl Keeper<'_> {
    /// A snapshot; why there is none.
    fn save(&mut self) -> Result<Result<(), String>, String> {
        self.subject.save(&mut self.wire).map_err(|error| format!("SAVE had no answer: {error}"))
    }

    /// A backup, that leaves nothing if it fails; why there is none.
    fn backup(&mut self) -> Result<Result<(), String>, String> {
        self.made += 1;
        let name = format!("drill-{}", self.made);
        let outcome = self.subject.backup(&mut self.wire, &name);
        let outcome = outcome.map_err(|error| format!("BG.BACKUP had no answer: {error}"))?;
        let Err(why) = outcome else { return Ok(Ok(())) };
        self.ran_out += u64::from(why.contains(COPYING));
        if self.litters {
            let part = self.folder.join(format!(".{name}.partial"));
            fs::create_dir_all(&part).map_err(|error| format!("make {}: {error}", part.display()))?;
        }
        self.look_for(&name)?;
        Ok(Err(why))
    }

    /// Looks for what a backup that failed has left.
    fn look_for(&mut self, name: &str) -> Result<(), String> {
        let listed = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            listed => listed.and_then(Iterator::collect::<std::io::Result<Vec<_>>>),
        };
        let listed = listed.map_err(|error| format!("list {}: {error}", self.folder.display()))?;
        for entry in listed {
            let part = entry.file_name().to_string_lossy().into_owned();
            if !part.contains(name) {
                continue;
            }
            if !self.litters {
                return Err(format!("the backup {name} failed and left {}", entry.path().display()));
            }
            self.left += 1;
            fs::remove_dir_all(entry.path()).map_err(|error| format!("remove {}: {error}", entry.path().display()))?;
        }
        Ok(())
    }
}

/// Whether something failed for want of room, and said so.
fn failed_for_room(what: &str, outcome: Result<(), String>) -> Result<(), String> {
    match outcome {
        Ok(()) => Err(format!("{what} was made on a full disk")),
        Err(why) if NO_ROOM.iter().any(|words| why.contains(words)) => Ok(()),
        Err(why) => Err(format!("{what} on a full disk says none of {NO_ROOM:?}: {why}")),
    }
}

/// Writes until one is taken; how long that took.
fn until_taken(
    clients: &mut Clients<'_>,
    load: &mut Load,
    server: &mut Server,
    after: &str,
) -> Result<Duration, String> {
    let begin = Instant::now();
    while !clients.turn(load, server)? {
        if begin.elapsed() > RECOVERED {
            return Err(format!("writes are still refused {RECOVERED:?} after {after}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(begin.elapsed())
}

/// Backups with more and more room until one is made; how long after there was some the first write was taken.
fn back_up(
    keeper: &mut Keeper<'_>,
    clients: &mut Clients<'_>,
    load: &mut Load,
    server: &mut Server,
    filler: &Path,
    policy: Policy,
) -> Result<Duration, String> {
    failed_for_room("a snapshot", keeper.save()?)?;
    failed_for_room("a backup", keeper.backup()?)?;
    let size = fs::metadata(filler).map_err(|error| format!("the filler {}: {error}", filler.display()))?.len();
    let mut recovered = None;
    for room in rooms(policy) {
        make_room(filler, size, room << 20)?;
        let took = until_taken(clients, load, server, &format!("there were {room} MB of room"))?;
        let recovered = *recovered.get_or_insert(took);
        let Err(why) = keeper.backup()? else { return Ok(recovered) };
        failed_for_room("a backup", Err(why))?;
        until_taken(clients, load, server, &format!("a backup had failed that had {room} MB of room"))?;
    }
    Err(format!("no backup was made with {MOST_ROOM} MB of room"))
}

pub fn drill(options: &Options, policy: Policy) -> Result<Row, String> {
    own_namespace()?;
    let subject = &options.subject;
    let disk = options.work.join("disk");
    empty_folder(&disk)?;
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=128m", "tmpfs"]).arg(&disk))
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
    let (mut backups, mut ran_out, mut left) = (0, 0, 0);
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

        let mut keeper = Keeper {
            subject,
            wire: Wire::connect(server.address, Duration::from_secs(30)).map_err(|error| error.to_string())?,
            folder: data.join("backups"),
            litters: options.control,
            made: 0,
            ran_out: 0,
            left: 0,
        };
        let backs_up = subject.kind == Kind::Bloomgate;
        if backs_up {
            recovered = recovered.max(back_up(&mut keeper, &mut clients, &mut load, &mut server, &filler, policy)?);
        }
        fs::remove_file(&filler).map_err(|error| format!("the filler: {error}"))?;
        recovered = recovered.max(until_taken(&mut clients, &mut load, &mut server, "there was room again")?);
        if backs_up {
            keeper.save()?.map_err(|why| format!("with room again no snapshot is made: {why}"))?;
        }
        backups += keeper.made;
        ran_out += keeper.ran_out;
        left += keeper.left;
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
        // Each filling starts with an empty disk.
        empty_folder(&data)?;
        load = Load::new(options.seed, turn + 1, 1);
    }
    if subject.kind == Kind::Bloomgate && ran_out == 0 {
        return Err(format!(
            "none of {backups} backups ran out of room while copied: the drill proves nothing of them"
        ));
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
        .number("backups tried", backups)
        .number("out of room while copied", ran_out)
        .number("lost", lost)
        // A control run has to find what was lost, and what the backups left.
        .found(if options.control && subject.kind == Kind::Bloomgate { lost.min(left) } else { lost }))
}
