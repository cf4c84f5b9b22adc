//! Starting, serving and stopping.
//!
//! Clients are answered from the first moment: while the folder is read on a thread of its own, what needs the filters is
//! refused with LOADING, and nothing is written.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, oneshot};

use crate::access::Directory;
use crate::access::directory::is_loopback;
use crate::engine::Engine;
use crate::keeping::opening::{Found, Opened, Opening};
use crate::keeping::{Keeping, SharedKeeping};
use crate::logging::{Level, Log};
use crate::net::Reactors;
use crate::net::greeting::{Greeted, Greeter, MOST, tell_renewed};
use crate::net::identity::Identity;
use crate::net::listening::Listening;
use crate::net::stream::Arrival;
use crate::net::worker::Workers;
use crate::session::desk::Desk;
use crate::settings::Settings;
use crate::store::{Disk, LogState, RealDisk};
use crate::systemd::ServiceManager;

/// Threads for commands that take long, one of them for admin commands alone.
const WORKERS: usize = 3;
/// How long commands that run on workers may take to end when the server stops. With the 3 seconds that connections get
/// before, it stays within the 10 after which most service managers kill.
const WORK_DRAIN: Duration = Duration::from_secs(6);
/// How often windows turn, filters end and the log's size is looked at.
const TICK: Duration = Duration::from_millis(100);
/// The exit code of a process that was told twice to stop.
const TOLD_TWICE: i32 = 2;

/// What was found when the server started, told once it serves.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// Where it listens; for TLS if there is no plain address.
    pub address: SocketAddr,
    /// Where it listens for TLS.
    pub tls: Option<SocketAddr>,
    /// What its folder held.
    pub found: Found,
    /// How long it took.
    pub took: Duration,
    /// What whoever starts it should know, though nothing is wrong.
    pub notes: Vec<String>,
}

/// How it ended, when all went well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stopped {
    /// Commands that were given up because they took too long to end. None of them was acknowledged.
    pub abandoned: Vec<String>,
}

/// Serves until it is told to stop: by SHUTDOWN, SIGTERM or SIGINT. `ready` is called once everything is read.
pub fn serve(settings: &Settings, ready: impl FnOnce(&Ready)) -> Result<Stopped, String> {
    serve_on(Arc::new(RealDisk), settings, ready)
}

/// [`serve`] on another disk than the system's: one that a test holds up.
#[doc(hidden)]
pub fn serve_on(disk: Arc<dyn Disk>, settings: &Settings, ready: impl FnOnce(&Ready)) -> Result<Stopped, String> {
    let failed = |error: io::Error| format!("no thread: {error}");
    // Before any thread: it takes sockets out of the environment.
    let listening = Listening::begin(settings)?;
    let log = Log::start(settings.log_format, settings.log_level).map_err(failed)?;
    let served = serve_there(disk, settings, listening, &log, ready);
    log.close();
    served
}

/// [`serve`] on sockets that are bound: a port that is taken was told before hours of loading.
fn serve_there(
    disk: Arc<dyn Disk>,
    settings: &Settings,
    listening: Listening,
    log: &Log,
    ready: impl FnOnce(&Ready),
) -> Result<Stopped, String> {
    let began = Instant::now();
    let failed = |error: io::Error| format!("no thread: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let (resp, tls) = listening.addresses();
    let address = resp.or(tls).ok_or("the sockets do not tell their addresses")?;
    tell_start(log, settings, resp, tls);
    let opening = Opening::begin(settings, disk, settings.threads + WORKERS + 1)?;
    let engine = opening.engine.clone();
    let access = Directory::open(settings)?;
    engine.stop().declare(&access.book().namespaces);
    let desk = Desk::new(settings.threads + WORKERS, Some(access), run_id(), settings.rows(resp, tls));
    let desk = Arc::new(desk.told(settings, log.clone()));
    let stop = Arc::new(Notify::new());
    engine.start_chores().map_err(failed)?;
    engine.start_watch().map_err(failed)?;
    let workers = Workers::start(&engine, &desk, WORKERS, settings.threads).map_err(failed)?;
    let mut reactors = Reactors::start(&engine, &desk, &workers, &stop, settings.threads).map_err(failed)?;
    let mut system = ServiceManager::from_environment();
    let mut signals = None;
    let mut greeter = None;
    let served = runtime.block_on(async {
        let mut doors = Doors::open(listening, &desk)?;
        let signals = signals.insert(Signals::listen().map_err(failed)?);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut loaded = load(opening).map_err(failed)?;
        let (mut ready, mut keeping, mut watch) = (Some(ready), None, Watch::default());
        system.tell("STATUS=Reading what was kept");
        let by = loop {
            tokio::select! {
                (arrival, from) = doors.next(&desk) => match desk.admit(from, arrival.has_certificate()) {
                    Ok(client) => reactors.hand_out(arrival, client),
                    Err(why) => arrival.refuse(&why),
                },
                outcome = &mut loaded, if ready.is_some() => {
                    let opened = outcome.unwrap_or_else(|_| Err("the thread that reads the data has ended".to_owned()))?;
                    keeping = opened.keeping;
                    if let Some(keeping) = &keeping {
                        let _ = desk.keeper.set(Arc::new(SharedKeeping(keeping.clone())));
                    }
                    engine.end_loading();
                    let notes = notes(&desk, settings, resp, tls);
                    let found = Ready { address, tls, found: opened.found, took: began.elapsed(), notes };
                    tell_ready(log, settings, &found, resp);
                    system.tell(&format!("READY=1\nSTATUS=Serving {} filters", found.found.filters));
                    if let Some(ready) = ready.take() {
                        ready(&found);
                    }
                }
                _ = tick.tick() => {
                    system.live(reactors.turns(), Instant::now());
                    if ready.is_none() {
                        on_tick(&engine, &desk, keeping.as_deref(), settings.threads + WORKERS);
                        watch.look(&engine, &desk, keeping.as_deref(), &system);
                    }
                }
                () = stop.notified() => break "SHUTDOWN",
                told = signals.next() => match told {
                    Told::Stop(by) => break by,
                    Told::Reload => {
                        system.tell_reloading();
                        if let Some(identity) = &doors.identity {
                            tell_renewed(&desk, identity, identity.renew());
                        }
                        desk.reload(&engine);
                        system.tell("READY=1");
                    }
                },
            }
        };
        // What happened since the last look is told too.
        if ready.is_none() {
            watch.look(&engine, &desk, keeping.as_deref(), &system);
        }
        greeter = doors.close();
        Ok::<&str, String>(by)
    });
    if let Ok(by) = &served {
        let message = format_args!("stopping, told by {by}: connections end, and what was written is synced");
        log.say(Level::Info, "stopping", message, &[("by", (*by).into())]);
    }
    system.tell("STOPPING=1\nSTATUS=Writing what is left");
    // Until it has ended.
    let _second = signals.map(|signals| end_at_once(runtime, signals, log));
    if let Some(greeter) = greeter {
        greeter.stop();
    }
    reactors.stop(&desk);
    let abandoned = workers.stop(WORK_DRAIN);
    for job in &abandoned {
        let message =
            format_args!("{job} was still running and is given up: its client was told nothing, give it again");
        log.say(Level::Warn, "abandoned", message, &[("command", job.as_str().into())]);
    }
    served?;
    // One that is still being read ends with the process: nothing was taken that it would have to hold.
    if let Some(log) = engine.journal.log() {
        log.close().map_err(|error| format!("the last writes are not safe: {error}"))?;
    }
    log.say(Level::Debug, "stopped", format_args!("stopped; everything that was acknowledged is safe"), &[]);
    Ok(Stopped { abandoned })
}

/// Where clients come from: both sockets, and the handshakes of the second.
struct Doors {
    resp: Option<TcpListener>,
    tls: Option<TcpListener>,
    identity: Option<Arc<Identity>>,
    greeter: Option<Greeter>,
    greeted: Option<Greeted>,
}

impl Doors {
    fn open(listening: Listening, desk: &Arc<Desk>) -> Result<Self, String> {
        let failed = |error: io::Error| format!("a socket cannot be listened on: {error}");
        let resp = listening.resp.map(TcpListener::from_std).transpose().map_err(failed)?;
        let Some((listener, identity)) = listening.tls else {
            return Ok(Self { resp, tls: None, identity: None, greeter: None, greeted: None });
        };
        let identity = Arc::new(identity);
        let (greeter, greeted) = Greeter::start(identity.clone(), desk.clone(), MOST)
            .map_err(|error| format!("no thread for TLS: {error}"))?;
        let tls = Some(TcpListener::from_std(listener).map_err(failed)?);
        Ok(Self { resp, tls, identity: Some(identity), greeter: Some(greeter), greeted: Some(greeted) })
    }

    /// The next client: plain, or over TLS with its handshake done. Can be given up at any time without losing one.
    async fn next(&mut self, desk: &Desk) -> (Arrival, SocketAddr) {
        loop {
            tokio::select! {
                (stream, from) = accept(self.resp.as_ref()) => {
                    if let Ok(socket) = stream.into_std() {
                        return (Arrival { socket, session: None }, from);
                    }
                }
                (stream, from) = accept(self.tls.as_ref()) => {
                    let taken = match (stream.into_std(), &self.greeter) {
                        (Ok(socket), Some(greeter)) => greeter.take(socket, from),
                        _ => false,
                    };
                    if !taken {
                        desk.reject();
                    }
                }
                arrival = greeted(self.greeted.as_mut()) => return arrival,
            }
        }
    }

    /// Takes no more; the thread of the handshakes is to be stopped.
    fn close(self) -> Option<Greeter> {
        self.greeter
    }
}

async fn accept(listener: Option<&TcpListener>) -> (TcpStream, SocketAddr) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let _ = stream.set_nodelay(true);
                return (stream, from);
            }
            // Too many open files: those that are open go on, new ones wait.
            Err(_) => tokio::time::sleep(TICK).await,
        }
    }
}

async fn greeted(greeted: Option<&mut Greeted>) -> (Arrival, SocketAddr) {
    match greeted {
        Some(greeted) => match greeted.recv().await {
            Some(arrival) => arrival,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// What a signal says.
enum Told {
    Stop(&'static str),
    Reload,
}

/// The signals that mean something.
struct Signals {
    term: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.term.recv() => Told::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Told::Stop("SIGINT"),
            _ = self.hangup.recv() => Told::Reload,
        }
    }
}

/// Listens for a second signal to stop while the first is obeyed: then nothing is waited for. Until what is given back goes.
fn end_at_once(runtime: tokio::runtime::Runtime, mut signals: Signals, log: &Log) -> oneshot::Sender<()> {
    let (ended, mut end) = oneshot::channel();
    let log = log.clone();
    // Without a thread a second signal does nothing, and the first goes on.
    let _ = std::thread::Builder::new().name("bloomgate-signal".into()).spawn(move || {
        let told = runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = &mut end => return None,
                    told = signals.next() => if let Told::Stop(by) = told { return Some(by) },
                }
            }
        });
        if let Some(by) = told {
            log.say(
                Level::Error,
                "ended-at-once",
                format_args!("ended at once, told by a second {by}: what waited for the disk may not be on it"),
                &[("by", by.into())],
            );
            log.close();
            std::process::exit(TOLD_TWICE);
        }
    });
    ended
}

/// Reads the folder on a thread of its own.
fn load(opening: Opening) -> io::Result<oneshot::Receiver<Result<Opened, String>>> {
    let (tell, told) = oneshot::channel();
    std::thread::Builder::new().name("bloomgate-load".into()).spawn(move || {
        // Nobody waits any more when the server was stopped meanwhile.
        let _ = tell.send(opening.load());
    })?;
    Ok(told)
}

/// What an open door means, for whoever opened it.
fn notes(desk: &Desk, settings: &Settings, resp: Option<SocketAddr>, tls: Option<SocketAddr>) -> Vec<String> {
    let access = &desk.access;
    if !access.is_open() {
        return settings.readable_password().into_iter().collect();
    }
    // Certificates of clients are a lock too.
    let tls = tls.filter(|_| settings.tls_client_ca.is_none());
    let open = resp.into_iter().chain(tls).filter(|address| !is_loopback(address.ip()));
    let note = |address: SocketAddr| match access.is_protected() {
        true => format!(
            "protected mode: {address} is reached from other machines, and the default user needs no password: clients of \
             other machines are refused unless they log in as another user. Make one (ACL SETUSER NAME on >PASSWORD +@all), \
             or set a password (BLOOMGATE_PASSWORD, or password in the file of --config)"
        ),
        false => format!(
            "{address} is reached from other machines, there is no password, and protected-mode is no: whoever connects \
             can read, change and delete every filter and stop the server. Set one (BLOOMGATE_PASSWORD, or password in the \
             file of --config), or listen on 127.0.0.1"
        ),
    };
    open.map(note).collect()
}

fn on_tick(engine: &Engine, desk: &Desk, keeping: Option<&Keeping>, gate: usize) {
    engine.remove_expired();
    engine.drop_abandoned();
    // A disk that refuses a turn of a window now takes it later; until then keys are kept longer.
    let _ = engine.tick(gate);
    let (Some(keeping), Some(keeper)) = (keeping, desk.keeper.get()) else { return };
    // What cannot be removed now stays until it can.
    let _ = keeping.trim_log();
    if !keeper.is_saving() && keeping.is_due() {
        keeper.save_in_background();
    }
}

/// What was seen of the disk last, so that what changes is told once.
#[derive(Debug, Default)]
struct Watch {
    failed: bool,
    snapshots: u64,
    snapshot_error: Option<String>,
    summed_up: Option<Instant>,
}

impl Watch {
    fn look(&mut self, engine: &Engine, desk: &Desk, keeping: Option<&Keeping>, system: &ServiceManager) {
        let log = &desk.log;
        if self.summed_up.is_none_or(|last| last.elapsed() >= Duration::from_secs(1)) {
            self.summed_up = Some(Instant::now());
            log.sum_up();
        }
        let (Some(disk), Some(keeping)) = (engine.journal.log(), keeping) else { return };
        match disk.state() {
            LogState::ReadOnly { why, .. } if !self.failed => {
                self.failed = true;
                let message = format_args!("the disk failed, writers are refused until it works again: {why}");
                log.say(Level::Error, "disk-failed", message, &[("why", why.to_string().into())]);
                system.tell("STATUS=The disk failed: lookups are answered, writers are refused");
            }
            LogState::ReadOnly { .. } => {}
            _ if self.failed => {
                self.failed = false;
                log.say(Level::Warn, "disk-recovered", format_args!("the disk works again, writers are served"), &[]);
                system.tell("STATUS=Serving");
            }
            _ => {}
        }
        let made = keeping.snapshots();
        if made != self.snapshots {
            self.snapshots = made;
            log.say(Level::Info, "snapshot-made", format_args!("a snapshot was made"), &[("number", made.into())]);
        }
        let error = keeping.last_error();
        if error != self.snapshot_error {
            if let Some(why) = &error {
                let message = format_args!("a snapshot failed, the log goes on: {why}");
                log.say(Level::Error, "snapshot-failed", message, &[("why", why.as_str().into())]);
            }
            self.snapshot_error = error;
        }
    }
}

fn tell_start(log: &Log, settings: &Settings, resp: Option<SocketAddr>, tls: Option<SocketAddr>) {
    let text = |address: Option<SocketAddr>| address.map_or("none".to_owned(), |address| address.to_string());
    let version = env!("CARGO_PKG_VERSION");
    let memory = crate::settings::memory::limit();
    log.say(
        Level::Debug,
        "start",
        format_args!("version {version} starts, memory {} by {}", memory.bytes, memory.source),
        &[
            ("version", version.into()),
            ("pid", u64::from(std::process::id()).into()),
            ("resp", text(resp).into()),
            ("tls", text(tls).into()),
            ("threads", (settings.threads as u64).into()),
            ("memory", memory.bytes.into()),
            ("memory-source", memory.source.as_str().into()),
        ],
    );
}

/// So many of something.
fn counted(count: u64, noun: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{text} {noun}{}", if count == 1 { "" } else { "s" })
}

fn tell_ready(log: &Log, settings: &Settings, ready: &Ready, resp: Option<SocketAddr>) {
    let mut line = match (resp, ready.tls) {
        (Some(resp), Some(tls)) => format!("ready on {resp}, TLS on {tls}"),
        (None, Some(tls)) => format!("ready on {tls} (TLS)"),
        _ => format!("ready on {}", ready.address),
    };
    let found = &ready.found;
    match &settings.data {
        Some(data) => line.push_str(&format!(
            ", {} in {}, fsync {}, {}",
            counted(found.filters as u64, "filter"),
            data.display(),
            settings.fsync,
            counted(settings.threads as u64, "thread"),
        )),
        None => line.push_str(", nothing is kept"),
    }
    if found.batches > 0 {
        line.push_str(&format!(" (read {} of the log in {:.1?})", counted(found.batches, "write"), ready.took));
    }
    log.say(
        Level::Info,
        "ready",
        format_args!("{line}"),
        &[
            ("address", ready.address.to_string().into()),
            ("tls", ready.tls.map_or("none".to_owned(), |tls| tls.to_string()).into()),
            ("filters", (found.filters as u64).into()),
            ("log-writes", found.batches.into()),
            ("millis", (ready.took.as_millis() as u64).into()),
        ],
    );
    if found.torn_bytes > 0 {
        log.say(
            Level::Warn,
            "torn-write",
            format_args!(
                "left out {} of a write that was not finished when the server ended; it was never acknowledged as safe",
                counted(found.torn_bytes, "byte")
            ),
            &[("bytes", found.torn_bytes.into())],
        );
    }
    for note in &ready.notes {
        log.say(Level::Warn, "open", format_args!("{note}"), &[]);
    }
    for why in &found.unavailable {
        // What clients will get, without the word that only their protocol needs.
        let why = why.strip_prefix("ERR ").unwrap_or(why);
        log.say(Level::Error, "filter-unavailable", format_args!("{why}"), &[]);
    }
}

/// 40 hexadecimal digits, other ones at every start.
fn run_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    let word = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}{:08x}", word(), word(), word() as u32)
}
