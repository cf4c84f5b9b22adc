//! Every call fails once. The server runs under strace, which lets the N-th call of one kind (of each thread) fail with
//! an I/O error, for N = 1, 2, 3 ... until none is reached any more. Each time: the server lives on, or says at its
//! start why not; lookups are answered; writes work again within seconds; and a start without faults finds everything
//! that was acknowledged.
//!
//! strace tells which file the failing call was for. A fault outside the data folder (a library at the start, the
//! eventfd of a reactor) is no fault of the disk: there the server may end, but nothing acknowledged may be lost.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::load::{Load, Script, step};
use crate::options::Options;
use crate::report::Row;
use crate::server::{self, Server, Start};
use crate::subject::{Answer, Kind, Policy, Subject};
use crate::system::{copy_folder, empty_folder, files};
use crate::wire::Wire;

/// All that write, sync, name or size a file.
const CALLS: [&str; 15] = [
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "fdatasync",
    "fsync",
    "sync_file_range",
    "rename",
    "renameat",
    "renameat2",
    "openat",
    "ftruncate",
    "fallocate",
    "unlink",
    "unlinkat",
];
/// Findings after which no more are looked for.
const ENOUGH: usize = 10;
const RECOVERED: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Tally {
    rounds: u64,
    in_data: u64,
    outside: u64,
    not_started: u64,
    refused: u64,
    silent: u64,
    lost: u64,
    recovered: Duration,
}

/// What one fault did.
#[derive(Default)]
struct Round {
    /// The calls that failed, as strace wrote them down.
    failed: Vec<String>,
    in_data: bool,
    started: bool,
    /// Writes or snapshots answered with an error.
    refused: u64,
    recovered: Duration,
    lost: u64,
}

pub fn drill(options: &Options, policy: Policy) -> Result<Row, String> {
    let subject = &options.subject;
    let base = options.work.join("base");
    let log = options.work.join("server.log");
    // A folder with a snapshot and a log after it, so that a start has something to open, read and cut.
    let mut load = Load::new(options.seed, 0, 1);
    let server = server::must_start(subject, &base, policy, &log)?;
    let say = |error: io::Error| format!("making the folder: {error}");
    let mut wire = Wire::connect(server.address, Duration::from_secs(30)).map_err(say)?;
    subject.reserve(&mut wire).map_err(say)?;
    for turn in 0..200 {
        step(&mut load.adds[0], subject, &mut wire).map_err(say)??;
        step(&mut load.counts[0], subject, &mut wire).map_err(say)??;
        if turn == 100 {
            subject.save(&mut wire).map_err(say)??;
        }
    }
    load.refused()?;
    let verdict = load.check(subject, server.address, u64::MAX, u64::MAX, true)?;
    verdict.nothing_lost(subject).map_err(|what| format!("before any fault: {what}"))?;
    server.kill()?;

    let mut tally = Tally::default();
    let mut findings = Vec::new();
    for call in CALLS {
        let mut nth = 1;
        while nth <= options.most && findings.len() < ENOUGH {
            let outcome = round(options, policy, &base, &mut load.clone(), call, nth);
            tally.rounds += 1;
            match outcome {
                Ok(round) if round.failed.is_empty() => {
                    tally.lost += round.lost;
                    break;
                }
                Ok(round) => tally.take(&round),
                Err(what) => findings.push(keep(options, call, nth, &what)?),
            }
            // Sparse: every N up to 8, then steps of an eighth to a quarter.
            nth += if options.sparse { (nth / 4).max(1) } else { 1 };
        }
    }
    if !findings.is_empty() {
        return Err(format!("{} findings in {} rounds:\n{}", findings.len(), tally.rounds, findings.join("\n\n")));
    }
    if tally.in_data == 0 {
        return Err(format!("of {} faults none hit a file of the data folder", tally.rounds));
    }
    Ok(Row::new("faults", policy)
        .number("rounds", tally.rounds)
        .number("in the data folder", tally.in_data)
        .number("elsewhere", tally.outside)
        .number("not started", tally.not_started)
        .number("told to clients", tally.refused)
        .number("told to none", tally.silent)
        .text("writes again after", format!("{:.0} ms", tally.recovered.as_secs_f64() * 1e3))
        .number("lost", tally.lost)
        .found(tally.lost))
}

impl Tally {
    fn take(&mut self, round: &Round) {
        self.lost += round.lost;
        self.in_data += u64::from(round.in_data);
        self.outside += u64::from(!round.in_data);
        self.not_started += u64::from(!round.started);
        self.refused += u64::from(round.started && round.refused > 0);
        self.recovered = self.recovered.max(round.recovered);
        if round.started && round.in_data && round.refused == 0 {
            // Not wrong in itself: a temporary file that could not be removed concerns no writer. To be looked at.
            self.silent += 1;
            println!("no client heard of: {}", round.failed[0]);
        }
    }
}

/// Keeps what a finding left behind beside the work of the rounds to come, and says where.
fn keep(options: &Options, call: &str, nth: u64, what: &str) -> Result<String, String> {
    let work = &options.work;
    let trace = std::fs::read_to_string(work.join("trace")).unwrap_or_default();
    let failed = failed_calls(&trace);
    let kept = work.join(format!("found-{call}-{nth}"));
    copy_folder(&work.join("data"), &kept.join("data"))?;
    for name in ["trace", "server.log"] {
        let _ = std::fs::copy(work.join(name), kept.join(name));
    }
    let kept = kept.display();
    Ok(format!("{call} number {nth}: {what}\nthe calls that failed (kept in {kept}):\n{}", failed.join("\n")))
}

fn round(
    options: &Options,
    policy: Policy,
    base: &Path,
    load: &mut Load,
    call: &str,
    nth: u64,
) -> Result<Round, String> {
    let subject = &options.subject;
    let data = options.work.join("data");
    let trace = options.work.join("trace");
    let log = options.work.join("server.log");
    empty_folder(&data)?;
    copy_folder(base, &data)?;
    let _ = std::fs::remove_file(&trace);
    // -D: the server is our child, strace its grandchild, so signals and exit status are the server's own.
    let mut under: Vec<String> = ["strace", "-D", "-f", "-q", "-y", "-o"].map(String::from).into();
    under.push(trace.display().to_string());
    for what in [format!("trace={call}"), format!("inject={call}:error=EIO:when={nth}")] {
        under.extend(["-e".into(), what]);
    }
    let mut round = Round::default();
    match server::start(subject, &data, policy, &log, &under, Duration::from_secs(10)) {
        Err(what) => {
            // The line that says it is ready may be what could not be written.
            wait_for_trace(&trace);
            read_trace(&trace, &data, &mut round);
            if round.in_data || round.failed.is_empty() {
                return Err(what);
            }
        }
        Ok(Start::Gone(status, text)) => {
            wait_for_trace(&trace);
            let mut failed = Round::default();
            read_trace(&trace, &data, &mut failed);
            // A runtime that cannot wake itself panics, as tokio has it: that was no disk, and nothing is served yet.
            let is_wake = |call: &String| call.contains("<anon_inode:[eventfd]>");
            if failed.failed.is_empty() || !failed.failed.iter().all(is_wake) {
                server::no_panic(&text)?;
            }
            if status.success() || text.trim().is_empty() {
                return Err(format!("it did not start, with {status} and no word why: {text:?}"));
            }
        }
        Ok(Start::Ready(server)) => {
            round.started = true;
            write_and_ask(subject, load, server, &trace, &data, nth % 2 == 1, &mut round)?;
        }
    }
    read_trace(&trace, &data, &mut round);
    if !round.started && round.failed.is_empty() {
        return Err("it did not start, and no call had failed".into());
    }
    if options.control {
        empty_folder(&data)?;
        copy_folder(base, &data)?;
        cut_newest(&data)?;
    }
    let server = match server::must_start(subject, &data, policy, &log) {
        // A log that lacks its end may well be refused: found all the same.
        Err(_) if options.control => return Ok(Round { lost: 1, ..round }),
        other => other?,
    };
    let verdict = match load.check(subject, server.address, u64::MAX, u64::MAX, true) {
        // A filter that lacks half of its image answers errors: found all the same.
        Err(_) if options.control => {
            server.kill()?;
            return Ok(Round { lost: 1, ..round });
        }
        other => other?,
    };
    server.kill()?;
    round.lost = verdict.adds.lost + verdict.counts.short;
    if !options.control {
        verdict.nothing_lost(subject)?;
    }
    Ok(round)
}

/// For the control run: the largest file loses its second half.
fn cut_newest(data: &Path) -> Result<(), String> {
    let largest = files(data)?.into_iter().max_by_key(|(_, size)| *size);
    let (path, size) = largest.ok_or("the folder is empty")?;
    let cut = std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(size / 2));
    cut.map_err(|error| format!("cut {}: {error}", path.display()))
}

/// Which calls failed, and whether one of them was for the data folder.
fn read_trace(trace: &Path, data: &Path, round: &mut Round) {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    let folder = data.display().to_string();
    round.failed = failed_calls(&text);
    let inside = |line: &String| match path_of(line) {
        Some(path) if path.starts_with('/') => path.starts_with(&folder),
        // Redis works in its folder and names its files from there; strace tells the folder of an openat.
        Some(_) => line.contains(&folder) || !line.contains("at("),
        None => line.contains(&folder),
    };
    round.in_data = round.failed.iter().any(inside);
    round.failed.sort_by_key(|line| !inside(line));
}

/// The calls that failed. One that was interrupted in the trace by those of other threads stands in two lines: they are
/// joined, for the first alone says which file it was.
fn failed_calls(trace: &str) -> Vec<String> {
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let mut failed = Vec::new();
    for line in trace.lines() {
        let thread = line.split(' ').next().unwrap_or_default();
        if let Some(first) = line.strip_suffix("<unfinished ...>") {
            begun.insert(thread, first);
        } else if line.contains("(INJECTED)") {
            let first = begun.get(thread).filter(|_| line.contains("resumed>"));
            failed.push(first.map_or_else(|| line.to_owned(), |first| format!("{first}{line}")));
        }
    }
    failed
}

/// The path that a call names a file by; calls on an open file have none.
fn path_of(line: &str) -> Option<&str> {
    let named = ["openat(", "rename", "unlink"].iter().any(|call| line.contains(call));
    line.split('"').nth(1).filter(|_| named && !line.contains("write"))
}

/// The load of one round: writes, lookups of what is acknowledged, two snapshots.
fn write_and_ask(
    subject: &Subject,
    load: &mut Load,
    mut server: Server,
    trace: &Path,
    data: &Path,
    term: bool,
    round: &mut Round,
) -> Result<(), String> {
    let address = server.address;
    let mut client = Client { subject, address, wire: None };
    let mut broken = 0;
    let mut last_refusal: Option<Instant> = None;
    let mut turn = 0;
    let mut fine = 0;
    // 100 turns, and then on until five writes in a row were taken.
    while turn < 100 || fine < 5 {
        turn += 1;
        let script: &mut dyn Script = if turn % 2 == 0 { &mut load.adds[0] } else { &mut load.counts[0] };
        let outcome = client.write(script).and_then(|()| match turn {
            30 | 60 => client.save(),
            _ => Ok(()),
        });
        let refused = load.adds[0].refused + load.counts[0].refused;
        match outcome {
            Ok(()) if refused == round.refused => {
                fine += 1;
                if fine == 5
                    && let Some(since) = last_refusal.take()
                {
                    round.recovered = round.recovered.max(since.elapsed());
                }
            }
            Ok(()) => {
                round.refused = refused;
                fine = 0;
                last_refusal.get_or_insert_with(Instant::now);
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Trouble::Refused) => {
                load.adds[0].refused += 1;
                round.refused += 1;
            }
            Err(Trouble::Broken(what)) => return Err(what),
            Err(Trouble::Gone(what)) => {
                broken += 1;
                fine = 0;
                last_refusal.get_or_insert_with(Instant::now);
                std::thread::sleep(Duration::from_millis(20));
                let ended = server.ended();
                if ended.is_some() || broken > 20 {
                    wait_for_trace(trace);
                    read_trace(trace, data, round);
                    if !round.in_data && !round.failed.is_empty() {
                        return Ok(());
                    }
                    let printed = server.printed();
                    return Err(format!("the server died ({ended:?}, {what}); it printed:\n{printed}"));
                }
            }
        }
        if last_refusal.is_some_and(|since| since.elapsed() > RECOVERED) {
            let why = load.adds[0].refusal.clone().unwrap_or_default();
            return Err(format!("writes are still refused {RECOVERED:?} after the fault: {why}"));
        }
        if turn % 3 == 0
            && let Some(item) = load.adds[0].any_acknowledged()
        {
            match client.lookup(&item) {
                Err(Trouble::Broken(what)) => return Err(what),
                _ => continue,
            }
        }
    }
    if term {
        let status = server.stop(Duration::from_secs(30))?;
        wait_for_trace(trace);
        read_trace(trace, data, round);
        // The fault may have hit the last write of all; then the status says so.
        if !status.success() && round.failed.is_empty() {
            return Err(format!("SIGTERM ended it with {status}, and no call had failed"));
        }
        return Ok(());
    }
    server.kill()?;
    wait_for_trace(trace);
    Ok(())
}

/// strace ends shortly after what it traces: its file is whole when it has written down the end.
fn wait_for_trace(trace: &Path) {
    for _ in 0..200 {
        let text = std::fs::read_to_string(trace).unwrap_or_default();
        if text.lines().next_back().is_some_and(|line| line.contains("+++")) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

enum Trouble {
    /// A promise was broken.
    Broken(String),
    /// The server answered with an error.
    Refused,
    /// The connection ended.
    Gone(io::Error),
}

/// A client that connects again when its connection was the fault's victim.
struct Client<'a> {
    subject: &'a Subject,
    address: std::net::SocketAddr,
    wire: Option<Wire>,
}

impl Client<'_> {
    fn with<T>(&mut self, act: impl FnOnce(&Subject, &mut Wire) -> io::Result<T>) -> Result<T, Trouble> {
        let outcome = match self.wire.take() {
            Some(wire) => Ok(wire),
            None => Wire::connect(self.address, Duration::from_secs(10)),
        }
        .and_then(|mut wire| {
            let done = act(self.subject, &mut wire)?;
            self.wire = Some(wire);
            Ok(done)
        });
        outcome.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Trouble::Broken("no answer within 10 s".into()),
            _ => Trouble::Gone(error),
        })
    }

    fn write(&mut self, script: &mut dyn Script) -> Result<(), Trouble> {
        self.with(|subject, wire| step(script, subject, wire))?.map_err(Trouble::Broken)
    }

    fn save(&mut self) -> Result<(), Trouble> {
        self.with(|subject, wire| subject.save(wire))?.map_err(|_| Trouble::Refused)
    }

    fn lookup(&mut self, item: &Vec<u8>) -> Result<(), Trouble> {
        let reply = self.with(|subject, wire| {
            subject.ask(wire, std::slice::from_ref(item));
            wire.reply()
        })?;
        match &self.subject.answers(reply, 1)[0] {
            Answer::Count(0) => Err(Trouble::Broken(format!("{} was answered 0", String::from_utf8_lossy(item)))),
            Answer::Count(_) => Ok(()),
            // Redis refuses reads too in some states; Bloomgate promises that lookups go on.
            Answer::Refused(_) if self.subject.kind == Kind::Redis => Ok(()),
            Answer::Refused(text) => Err(Trouble::Broken(format!("a lookup was refused: {text}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::failed_calls;

    #[test]
    fn a_call_in_two_lines_is_one() {
        let trace = "7 write(3</data/log>, \"x\", 1 <unfinished ...>\n\
                     8 write(4<anon_inode:[eventfd]>, \"\", 8) = 8\n\
                     7 <... write resumed>) = -1 EIO (Input/output error) (INJECTED)\n\
                     8 write(5<pipe>, \"y\", 1) = -1 EIO (Input/output error) (INJECTED)\n\
                     8 +++ exited with 1 +++\n";
        let failed = failed_calls(trace);
        assert_eq!(failed.len(), 2);
        assert!(failed[0].contains("/data/log") && failed[0].contains("(INJECTED)"));
        assert!(failed[1].contains("<pipe>"));
    }
}
