//! Every call fails once. The server runs under strace, which lets the N-th call of one kind (of each thread) fail with
//! an I/O error, for N = 1, 2, 3 ... until none is reached any more; once on a folder with a snapshot and a log, once
//! where there is no folder yet. Each time: the server lives on, or says at its start what the system said; lookups are
//! answered; writes work again within seconds; a start without faults finds everything that was acknowledged, and so does
//! one on a backup that was said to be made.
//!
//! A round without a fault comes first: it tells which kinds of calls are made at all.
//!
//! strace tells which file the failing call was for. A fault outside the data folder (a library at the start, the
//! eventfd of a reactor) is no fault of the disk: there the server may end, but nothing acknowledged may be lost.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::load::{Load, Script, step};
use crate::options::Options;
use crate::report::Row;
use crate::server::{self, Server, Start};
use crate::subject::{Answer, Kind, Policy, Subject};
use crate::system::{copy_folder, empty_folder, files};
use crate::trace::{self, Failed};
use crate::wire::Wire;

/// All that write, read, sync, name, list, lock, copy or size a file.
const CALLS: [&str; 29] = [
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "read",
    "readv",
    "pread64",
    "preadv",
    "copy_file_range",
    "sendfile",
    "fdatasync",
    "fsync",
    "sync_file_range",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
    "openat",
    "ftruncate",
    "fallocate",
    "unlink",
    "unlinkat",
    "getdents64",
    "statx",
    "flock",
    "fchmod",
];
/// Rounds in a row that hit nothing but the wakening of a runtime, after which no more of their kind are looked at: as long as the
/// load lasts there is one after the other, and none of them is for the disk.
const WAKENINGS: u32 = 20;
/// Findings after which no more are looked for.
const ENOUGH: usize = 10;
/// How long writes may stay refused after a call that failed. strace lets the N-th one of each thread fail, so that those who try
/// again, a second later, may meet the next.
const RECOVERED: Duration = Duration::from_secs(5);
/// Under `every-second` the log is synced four times a second, and a mark follows when nothing is written: longer than both.
const SYNCED: Duration = Duration::from_millis(400);
/// What Linux says of EIO.
const TOLD: &str = "Input/output error";

#[derive(Default)]
struct Tally {
    rounds: u64,
    in_data: u64,
    outside: u64,
    not_started: u64,
    refused: u64,
    silent: u64,
    backups: u64,
    lost: u64,
    recovered: Duration,
}

/// The N-th call of a kind.
#[derive(Clone, Copy)]
struct Fault<'a> {
    call: &'a str,
    nth: u64,
}

/// What the rounds start on.
struct Ground {
    /// A folder that is there already; none before a first start.
    base: Option<PathBuf>,
    /// Its filters, as far as they were written.
    load: Load,
}

/// What one fault did.
#[derive(Default)]
struct Round {
    failed: Failed,
    started: bool,
    /// Writes or snapshots answered with an error.
    refused: u64,
    recovered: Duration,
    /// A backup that was said to be made, and what was acknowledged until then.
    backup: Option<(PathBuf, Load)>,
    lost: u64,
}

pub fn drill(options: &Options, policy: Policy) -> Result<Row, String> {
    let mut tally = Tally::default();
    let mut findings = Vec::new();
    for ground in [kept_folder(options, policy)?, Ground { base: None, load: Load::new(options.seed, 1, 1) }] {
        let unharmed = round(options, policy, &ground, None)?;
        if unharmed.refused > 0 {
            return Err(format!("{} writes were refused, and no call had failed", unharmed.refused));
        }
        let made = trace::made(&options.work.join("trace"));
        for call in CALLS.into_iter().filter(|call| made.contains(*call)) {
            let (mut nth, mut wakenings) = (1, 0);
            while nth <= options.most && findings.len() < ENOUGH && wakenings < WAKENINGS {
                let outcome = round(options, policy, &ground, Some(Fault { call, nth }));
                tally.rounds += 1;
                match outcome {
                    Ok(round) if round.failed.calls.is_empty() => {
                        tally.lost += round.lost;
                        break;
                    }
                    Ok(round) => {
                        wakenings = if round.failed.is_wakening() { wakenings + 1 } else { 0 };
                        tally.take(&round);
                    }
                    Err(what) => findings.push(keep(options, &ground, Fault { call, nth }, &what)?),
                }
                // Sparse: every N up to 8, then steps of an eighth to a quarter.
                nth += if options.sparse { (nth / 4).max(1) } else { 1 };
            }
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
        .number("backups restored", tally.backups)
        .text("writes again after", format!("{:.0} ms", tally.recovered.as_secs_f64() * 1e3))
        .number("lost", tally.lost)
        .found(tally.lost))
}

/// A folder with a snapshot and a log after it, so that a start has something to open, read and cut.
fn kept_folder(options: &Options, policy: Policy) -> Result<Ground, String> {
    let subject = &options.subject;
    let base = options.work.join("base");
    let mut load = Load::new(options.seed, 0, 1);
    let server = server::must_start(subject, &base, policy, &options.work.join("server.log"))?;
    let say = |error: io::Error| format!("making the folder: {error}");
    let mut wire = Wire::connect(server.address, Duration::from_secs(30)).map_err(say)?;
    subject.reserve(&mut wire).map_err(say)?;
    for turn in 0..400 {
        step(load.script(turn), subject, &mut wire).map_err(say)??;
        if turn == 200 {
            subject.save(&mut wire).map_err(say)??;
        }
    }
    load.refused()?;
    let verdict = load.check(subject, server.address, u64::MAX, u64::MAX, true)?;
    verdict.nothing_lost(subject).map_err(|what| format!("before any fault: {what}"))?;
    server.kill()?;
    Ok(Ground { base: Some(base), load })
}

impl Tally {
    fn take(&mut self, round: &Round) {
        self.lost += round.lost;
        self.in_data += u64::from(round.failed.in_data);
        self.outside += u64::from(!round.failed.in_data);
        self.backups += u64::from(round.backup.is_some());
        self.not_started += u64::from(!round.started);
        self.refused += u64::from(round.started && round.refused > 0);
        self.recovered = self.recovered.max(round.recovered);
        if round.started && round.failed.in_data && round.refused == 0 {
            // Not wrong in itself: a temporary file that could not be removed concerns no writer. To be looked at.
            self.silent += 1;
            println!("no client heard of: {}", round.failed.calls[0]);
        }
    }
}

/// Keeps what a finding left behind beside the work of the rounds to come, and says where.
fn keep(options: &Options, ground: &Ground, fault: Fault<'_>, what: &str) -> Result<String, String> {
    let work = &options.work;
    let Fault { call, nth } = fault;
    let failed = Failed::read(&work.join("trace"), &work.join("data")).calls;
    let when = if ground.base.is_some() { "" } else { " of a first start" };
    let kept = work.join(format!("found-{call}-{nth}{}", when.replace(' ', "-")));
    // A fault may have hit the making of the folder itself.
    if work.join("data").exists() {
        copy_folder(&work.join("data"), &kept.join("data"))?;
    }
    for name in ["trace", "server.log"] {
        let _ = std::fs::copy(work.join(name), kept.join(name));
    }
    let kept = kept.display();
    Ok(format!("{call} number {nth}{when}: {what}\nthe calls that failed (kept in {kept}):\n{}", failed.join("\n")))
}

/// The folder of a round as it is before it.
fn prepare(data: &Path, ground: &Ground) -> Result<(), String> {
    empty_folder(data)?;
    match &ground.base {
        Some(base) => copy_folder(base, data),
        None => std::fs::remove_dir(data).map_err(|error| format!("remove {}: {error}", data.display())),
    }
}

/// The command line under which calls are written down and one of them fails.
fn strace(trace: &Path, fault: Option<Fault<'_>>) -> Vec<String> {
    // -D: the server is our child, strace its grandchild, so signals and exit status are the server's own.
    let mut under: Vec<String> = ["strace", "-D", "-f", "-q", "-y", "-o"].map(String::from).into();
    under.push(trace.display().to_string());
    let what = match fault {
        Some(Fault { call, nth }) => vec![format!("trace={call}"), format!("inject={call}:error=EIO:when={nth}")],
        // Not every machine has a call of each name.
        None => vec![format!("trace={}", CALLS.map(|call| format!("?{call}")).join(","))],
    };
    under.extend(what.into_iter().flat_map(|what| ["-e".to_owned(), what]));
    under
}

fn round(options: &Options, policy: Policy, ground: &Ground, fault: Option<Fault<'_>>) -> Result<Round, String> {
    let subject = &options.subject;
    let data = options.work.join("data");
    let trace = options.work.join("trace");
    let log = options.work.join("server.log");
    let mut load = ground.load.clone();
    prepare(&data, ground)?;
    let _ = std::fs::remove_file(&trace);
    let mut round = Round::default();
    match server::start(subject, &data, policy, &log, &strace(&trace, fault), Duration::from_secs(10)) {
        Err(what) => {
            // The line that says it is ready may be what could not be written.
            trace::wait_for_end(&trace);
            let failed = Failed::read(&trace, &data);
            if failed.in_data || failed.calls.is_empty() {
                return Err(what);
            }
        }
        Ok(Start::Gone(status, text)) => {
            trace::wait_for_end(&trace);
            let failed = Failed::read(&trace, &data);
            // A runtime that cannot wake itself panics, as tokio has it: that was no disk, and nothing is served yet.
            if !failed.is_wakening() {
                server::no_panic(&text)?;
            }
            if status.success() || text.trim().is_empty() {
                return Err(format!("it did not start, with {status} and no word why: {text:?}"));
            }
            if failed.in_data && subject.kind == Kind::Bloomgate && !text.contains(TOLD) {
                return Err(format!("it did not start, and does not say that the disk failed ({TOLD}): {text:?}"));
            }
        }
        Ok(Start::Ready(server)) => {
            round.started = true;
            let visit = Visit { subject, trace: &trace, data: &data, first: ground.base.is_none(), policy, fault };
            visit.write_and_ask(&mut load, server, &mut round)?;
        }
    }
    round.failed = Failed::read(&trace, &data);
    if !round.started && round.failed.calls.is_empty() {
        return Err("it did not start, and no call had failed".into());
    }
    if options.control {
        prepare(&data, ground)?;
        if ground.base.is_none() {
            return Ok(round);
        }
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
        if let Some((backup, load)) = &mut round.backup {
            restore(options, policy, backup, load).map_err(|what| format!("restored from its backup: {what}"))?;
        }
    }
    Ok(round)
}

/// A backup that was said to be made has everything that was acknowledged before.
fn restore(options: &Options, policy: Policy, backup: &Path, load: &mut Load) -> Result<(), String> {
    let restored = options.work.join("restored");
    empty_folder(&restored)?;
    copy_folder(backup, &restored)?;
    // It is left out of backups on purpose.
    std::fs::copy(options.work.join("data/master.key"), restored.join("master.key"))
        .map_err(|error| error.to_string())?;
    let server = server::must_start(&options.subject, &restored, policy, &options.work.join("restored.log"))?;
    let verdict = load.check(&options.subject, server.address, u64::MAX, u64::MAX, true)?;
    server.kill()?;
    verdict.nothing_lost(&options.subject)
}

/// For the control run: the largest file loses its second half.
fn cut_newest(data: &Path) -> Result<(), String> {
    let largest = files(data)?.into_iter().max_by_key(|(_, size)| *size);
    let (path, size) = largest.ok_or("the folder is empty")?;
    let cut = std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(size / 2));
    cut.map_err(|error| format!("cut {}: {error}", path.display()))
}

/// A round on a server that has started.
struct Visit<'a> {
    subject: &'a Subject,
    trace: &'a Path,
    data: &'a Path,
    /// Nothing is there yet.
    first: bool,
    policy: Policy,
    fault: Option<Fault<'a>>,
}

impl Visit<'_> {
    /// Whether the log's own syncs have to be waited for: under `every-second` clients are not, and would be done before.
    fn waits(&self) -> bool {
        let of_log = |fault: Fault<'_>| matches!(fault.call, "pwrite64" | "fdatasync");
        self.policy == Policy::EverySecond && self.fault.is_none_or(of_log)
    }

    /// The server is gone, or lets nobody in: a fault elsewhere may do that, one of the disk may not.
    fn is_gone(&self, server: &mut Server, why: &io::Error) -> Result<(), String> {
        trace::wait_for_end(self.trace);
        let failed = Failed::read(self.trace, self.data);
        if !failed.in_data && !failed.calls.is_empty() {
            return Ok(());
        }
        let (ended, printed) = (server.ended(), server.printed());
        Err(format!("the server died ({ended:?}, {why}); it printed:\n{printed}"))
    }

    /// The load of one round: writes, lookups of what is acknowledged, two snapshots, a backup.
    fn write_and_ask(&self, load: &mut Load, mut server: Server, round: &mut Round) -> Result<(), String> {
        let mut client = Client { subject: self.subject, address: server.address, wire: None };
        let mut broken = 0;
        let mut last_refusal: Option<Instant> = None;
        let mut is_reserved = !self.first;
        let mut turn = 0;
        let mut fine = 0;
        // 100 turns, and then on until five writes in a row were taken.
        while turn < 100 || fine < 5 {
            let outcome = if is_reserved {
                turn += 1;
                if self.waits() && matches!(turn, 20 | 45) {
                    std::thread::sleep(SYNCED);
                }
                client.write(load.script(turn)).and_then(|()| match turn {
                    30 | 60 => client.save(),
                    80 => client.backup().map(|folder| round.backup = folder.map(|folder| (folder, load.clone()))),
                    _ => Ok(()),
                })
            } else {
                client.reserve().map(|()| is_reserved = true)
            };
            let refused = load.refusals();
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
                    if !is_reserved {
                        last_refusal.get_or_insert_with(Instant::now);
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
                Err(Trouble::Broken(what)) => return Err(what),
                Err(Trouble::Gone(what)) => {
                    broken += 1;
                    fine = 0;
                    last_refusal.get_or_insert_with(Instant::now);
                    std::thread::sleep(Duration::from_millis(20));
                    if server.ended().is_some() || broken > 20 {
                        return self.is_gone(&mut server, &what);
                    }
                }
            }
            if let Some(refused) = last_refusal.map(|since| since.elapsed())
                && refused > RECOVERED
                && refused > RECOVERED * Failed::read(self.trace, self.data).calls.len() as u32
            {
                let why = load.adds[0].refusal.clone().unwrap_or_default();
                return Err(format!("writes are still refused after {refused:?}, {RECOVERED:?} for each fault: {why}"));
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
        // Both ways to end, in turns.
        let ended = match self.fault.is_some_and(|fault| fault.nth % 2 == 0) {
            true => server.kill().map(|()| None),
            false => server.stop(Duration::from_secs(30)).map(Some),
        };
        trace::wait_for_end(self.trace);
        let failed = Failed::read(self.trace, self.data);
        match ended {
            // The fault may have hit the last write of all; then the status says so.
            Ok(Some(status)) if !status.success() && failed.calls.is_empty() => {
                Err(format!("SIGTERM ended it with {status}, and no call had failed"))
            }
            // A runtime that cannot wake itself panics, as tokio has it: that was no disk, and what was acknowledged is asked for
            // all the same.
            Err(_) if failed.is_wakening() => Ok(()),
            ended => ended.map(drop),
        }
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

    /// Where the backup is, of a server that makes some.
    fn backup(&mut self) -> Result<Option<PathBuf>, Trouble> {
        self.with(|subject, wire| subject.backup(wire, "drill"))?.map_err(|_| Trouble::Refused)
    }

    fn reserve(&mut self) -> Result<(), Trouble> {
        self.with(|subject, wire| subject.reserve(wire)).map_err(|trouble| match trouble {
            // An answer, and one that says no: it is not the connection that ended.
            Trouble::Gone(error) if error.kind() == io::ErrorKind::Other => Trouble::Refused,
            other => other,
        })
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
