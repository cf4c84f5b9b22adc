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
use tokio::sync::oneshot;

use crate::access::Directory;
use crate::access::directory::{first_user, is_loopback};
use crate::engine::Engine;
use crate::http::{House, Http, Lookout};
use crate::keeping::opening::{self, Found, Opened, Opening};
use crate::keeping::{Keeping, SharedKeeping};
use crate::logging::{self, Level, Log, Value, counted};
use crate::net::Reactors;
use crate::net::greeting::{Greeted, Greeter, MOST, tell_renewed};
use crate::net::identity::Identity;
use crate::net::listening::{Addresses, Listening};
use crate::net::stream::Arrival;
use crate::net::worker::Workers;
use crate::session::desk::Desk;
use crate::settings::{Settings, files, memory};
use crate::store::{Disk, LogState, RealDisk};
use crate::systemd::ServiceManager;

/// Threads for commands that take long, one of them for admin commands alone.
const WORKERS: usize = 3;
/// How long commands that run on workers may take to end when the server stops. With the 3 seconds that connections get
/// before, it stays within the 10 after which most service managers kill.
const WORK_DRAIN: Duration = Duration::from_secs(6);
/// How often windows turn, filters end and the log's size is looked at.
const TICK: Duration = Duration::from_millis(100);
/// Signals to stop within this time of the first say the same thing once more: `timeout` of the GNU tools sends one to the
/// process and then one to its group, and so do some service managers.
const ONE_TELLING: Duration = Duration::from_secs(1);
/// How often the service manager is told how things stand.
const STATUS: Duration = Duration::from_secs(10);
/// The exit code of a process that was told twice to stop.
const TOLD_TWICE: i32 = 2;

/// What was found when the server started, told once it serves.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// Where it listens; for TLS if there is no plain address.
    pub address: SocketAddr,
    /// Where it listens for TLS.
    pub tls: Option<SocketAddr>,
    /// Where the HTTP side is.
    pub http: Option<SocketAddr>,
    /// Whether that is over TLS.
    pub https: bool,
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

/// Looks at everything that a start reads before it listens: the users, the certificates, the master secret. What is not
/// wrong and yet worth knowing; nothing is opened, made or changed.
pub fn check(settings: &Settings) -> Result<Vec<String>, String> {
    let mut notes = memory::worries(settings.limits.max_memory, 0, memory::limit());
    let access = Directory::open(settings)?;
    let named = [&settings.tls_cert, &settings.tls_key, &settings.tls_client_ca];
    // A socket for TLS may be handed over though no address is set.
    if settings.tls.is_some() || settings.http_tls || named.iter().any(|file| file.is_some()) {
        let identity = Identity::read(settings.tls_files()?)?;
        notes.extend(identity.ending(logging::now().as_secs()).map(|ending| ending.message));
        notes.extend(identity.loose_key());
    }
    opening::check_master(settings)?;
    if let Some(to) = &settings.alert_webhook {
        to.check().map_err(|error| format!("alert-webhook: {error}"))?;
    }
    if access.is_open() && !access.is_protected() {
        notes.push(
            "protected-mode is no, and the default user needs no password: whoever connects may do everything".into(),
        );
    }
    let at = Addresses { resp: settings.resp, tls: settings.tls, http: settings.http.address() };
    notes.extend(plain_doors(&access, at));
    Ok(notes)
}

/// [`serve`] on another disk than the system's: one that a test holds up.
#[doc(hidden)]
pub fn serve_on(disk: Arc<dyn Disk>, settings: &Settings, ready: impl FnOnce(&Ready)) -> Result<Stopped, String> {
    let failed = |error: io::Error| format!("no thread: {error}");
    files::raise();
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
    mut listening: Listening,
    log: &Log,
    ready: impl FnOnce(&Ready),
) -> Result<Stopped, String> {
    let began = Instant::now();
    let failed = |error: io::Error| format!("no thread: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let Addresses { resp, tls, http } = listening.addresses();
    let address = resp.or(tls).ok_or("the sockets do not tell their addresses")?;
    let too_few_files = files::worry(settings.max_clients, http.is_some());
    let max_clients = settings.max_clients.min(files::most_clients(http.is_some()));
    let settings = &Settings { max_clients, ..settings.clone() };
    tell_start(log, settings, listening.addresses());
    if let Some(why) = &listening.http_taken {
        let message = format_args!("no HTTP: {why}, or `none`");
        log.say(Level::Info, "no-http", message, &[("why", why.as_str().into())]);
    }
    let lookout = Lookout::new(settings, log, address, http)?;
    // Each reactor, worker and thread of HTTP has a gate of its own, and so has the tick.
    let http_threads = if http.is_some() { settings.threads } else { 0 };
    let gates = settings.threads + WORKERS + 1 + http_threads;
    let opening = Opening::begin(settings, disk, gates)?;
    let engine = opening.engine.clone();
    let access = Directory::open(settings)?;
    engine.stop().declare(&access.book().namespaces);
    let desk = Desk::new(gates, Some(access), run_id(), settings.rows(resp, tls, http));
    let desk = Arc::new(desk.told(settings, log.clone()));
    let stop = desk.stop.clone();
    engine.start_chores().map_err(failed)?;
    engine.start_watch().map_err(failed)?;
    let workers = Workers::start(&engine, &desk, WORKERS, settings.threads).map_err(failed)?;
    let mut reactors = Reactors::start(&engine, &desk, &workers, &stop, settings.threads).map_err(failed)?;
    let looking = lookout.start(&engine, &desk, http.is_some()).map_err(failed)?;
    let mut http_side = None;
    if let (Some(listener), Some(address)) = (listening.http.take(), http) {
        let first_gate = settings.threads + WORKERS + 1;
        let house = House::new(&engine, &desk, &workers, &lookout, address, http_threads, first_gate);
        let identity = listening.identity.clone().filter(|_| settings.http_tls);
        http_side = Some(Http::start(listener, house, identity).map_err(failed)?);
    }
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
                    let mut notes = notes(&engine, &desk, settings, Addresses { resp, tls, http });
                    notes.extend(too_few_files.clone());
                    let https = settings.http_tls && http.is_some();
                    let found = Ready { address, tls, http, https, found: opened.found, took: began.elapsed(), notes };
                    tell_ready(log, settings, &found, resp);
                    system.tell("READY=1");
                    watch.tell_status(&engine, &desk, &system, Instant::now());
                    if let Some(ready) = ready.take() {
                        // What it says comes behind the line that says ready.
                        log.settle();
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
                        // One that is not ready yet is not to be told so.
                        if ready.is_none() {
                            system.tell_reloading();
                        }
                        let renewed = doors.identity.as_ref().map_or(Ok(Vec::new()), |identity| {
                            let renewed = identity.renew();
                            tell_renewed(&desk, identity, &renewed);
                            renewed
                        });
                        watch.refused = [renewed.err(), desk.reload(&engine).err()].into_iter().flatten().collect();
                        if ready.is_none() {
                            system.tell("READY=1");
                            watch.tell_status(&engine, &desk, &system, Instant::now());
                        }
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
        let rest = if settings.data.is_some() { "what was written is synced" } else { "nothing is kept" };
        let message = format_args!("stopping, told by {by}: connections end, and {rest}");
        log.say(Level::Info, "stopping", message, &[("by", (*by).into())]);
    }
    system.tell("STOPPING=1\nSTATUS=Writing what is left");
    // Until it has ended.
    let _second = signals.map(|signals| end_at_once(runtime, signals, log, Instant::now()));
    if let Some(http) = &http_side {
        http.begin_to_stop();
    }
    drop(looking);
    if let Some(greeter) = greeter {
        greeter.stop();
    }
    reactors.stop(&desk);
    if let Some(http) = http_side {
        http.stop();
    }
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

/// Where clients of the Redis protocol come from: both sockets, and the handshakes of the second. Whoever does those also
/// looks after the certificate, for HTTP too.
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
        let Some(identity) = listening.identity else {
            return Ok(Self { resp, tls: None, identity: None, greeter: None, greeted: None });
        };
        let _ = desk.certificate.set(identity.clone());
        let (greeter, greeted) = Greeter::start(identity.clone(), desk.clone(), MOST)
            .map_err(|error| format!("no thread for TLS: {error}"))?;
        let tls = listening.tls.map(TcpListener::from_std).transpose().map_err(failed)?;
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
fn end_at_once(
    runtime: tokio::runtime::Runtime,
    mut signals: Signals,
    log: &Log,
    first: Instant,
) -> oneshot::Sender<()> {
    let (ended, mut end) = oneshot::channel();
    let log = log.clone();
    // Without a thread a second signal does nothing, and the first goes on.
    let _ = std::thread::Builder::new().name("bloomgate-signal".into()).spawn(move || {
        let told = runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = &mut end => return None,
                    told = signals.next() => match told {
                        Told::Stop(by) if first.elapsed() >= ONE_TELLING => return Some(by),
                        _ => {}
                    },
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

/// What whoever started it should know: of its memory, its key, and its doors.
fn notes(engine: &Engine, desk: &Desk, settings: &Settings, at: Addresses) -> Vec<String> {
    let mut notes = memory::worries(engine.budget.most(), engine.budget.used(), memory::limit());
    notes.extend(engine.clock.worry());
    notes.extend(desk.certificate.get().and_then(|identity| identity.loose_key()));
    notes.extend(open_doors(desk, settings, at));
    notes.extend(plain_doors(&desk.access, at));
    notes
}

/// What passwords are worth that cross a network in the clear.
fn plain_doors(access: &Directory, Addresses { resp, http, .. }: Addresses) -> Vec<String> {
    // Where nobody logs in, the other notes say what there is to say.
    if access.has_nobody() {
        return Vec::new();
    }
    let far = |address: Option<SocketAddr>| address.filter(|address| !is_loopback(address.ip()));
    let plain =
        "is reached from other machines without TLS: whoever is on the way reads passwords and items, and may use them";
    let resp =
        far(resp).map(|at| format!("{at} {plain}. Let clients connect by tls and set resp to 127.0.0.1:6479 or none"));
    let http = far(http).map(|at| format!("{at} {plain}. Set http to 127.0.0.1:8479 behind a proxy that speaks TLS"));
    resp.into_iter().chain(http).collect()
}

/// What an open door means, for whoever opened it.
fn open_doors(desk: &Desk, settings: &Settings, Addresses { resp, tls, http }: Addresses) -> Vec<String> {
    let access = &desk.access;
    if !access.is_open() {
        return settings.readable_password().into_iter().collect();
    }
    let first_user = first_user(resp.map(|address| address.port()), tls.map(|address| address.port()));
    // Certificates of clients are a lock too.
    let has_lock = settings.tls_client_ca.is_some();
    let (tls, http) = (tls.filter(|_| !has_lock), http.filter(|_| !(has_lock && settings.http_tls)));
    let open = resp.into_iter().chain(tls).chain(http).filter(|address| !is_loopback(address.ip()));
    let note = |address: SocketAddr| match access.is_protected() {
        true => format!(
            "protected mode: {address} is reached from other machines, and the default user needs no password: clients of \
             other machines are refused unless they log in as another user. Make one ({first_user}), or set a \
             password (BLOOMGATE_PASSWORD, or password in the file of --config)"
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
    snapshot_failures: u64,
    summed_up: Option<Instant>,
    /// What the last SIGHUP could not take over.
    refused: Vec<String>,
    /// What the service manager was told last, and when.
    status: Option<(String, Instant)>,
}

/// How things stand, in a line for `systemctl status`.
fn status(engine: &Engine, desk: &Desk, failed: bool, refused: &[String]) -> String {
    let count = |count: usize, noun| counted(count as u64, noun);
    let (filters, unavailable) = (engine.names.visible(), engine.names.unavailable());
    let mut status = format!("Serving {}, {}", count(filters, "filter"), count(desk.client_count(), "client"));
    if unavailable > 0 {
        status.push_str(&format!("; {} cannot answer", count(unavailable, "filter")));
    }
    if failed {
        status.push_str("; the disk failed: lookups are answered, writers are refused");
    }
    if !refused.is_empty() {
        status.push_str(&format!("; the last reload was refused: {}", refused.join("; ")));
    }
    // One line whatever it says.
    status.replace(['\r', '\n'], " ")
}

impl Watch {
    /// Tells the service manager how things stand, unless it knows.
    fn tell_status(&mut self, engine: &Engine, desk: &Desk, system: &ServiceManager, now: Instant) {
        let status = status(engine, desk, self.failed, &self.refused);
        if self.status.as_ref().is_none_or(|(known, _)| *known != status) {
            system.tell(&format!("STATUS={status}"));
        }
        self.status = Some((status, now));
    }

    fn look(&mut self, engine: &Engine, desk: &Desk, keeping: Option<&Keeping>, system: &ServiceManager) {
        let (log, now) = (&desk.log, Instant::now());
        if self.status.as_ref().is_none_or(|(_, told)| now.duration_since(*told) >= STATUS) {
            self.tell_status(engine, desk, system, now);
        }
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
                self.tell_status(engine, desk, system, now);
            }
            LogState::ReadOnly { .. } => {}
            _ if self.failed => {
                self.failed = false;
                log.say(Level::Warn, "disk-recovered", format_args!("the disk works again, writers are served"), &[]);
                self.tell_status(engine, desk, system, now);
            }
            _ => {}
        }
        let made = keeping.snapshots();
        if made != self.snapshots {
            self.snapshots = made;
            let (bytes, took) = keeping.last_snapshot();
            log.say(
                Level::Info,
                "snapshot-made",
                format_args!("a snapshot was made: {} written in {took:.1?}", counted(bytes, "byte")),
                &[
                    ("number", made.into()),
                    ("bytes", bytes.into()),
                    ("seconds", Value::Text(format!("{:.3}", took.as_secs_f64()).into())),
                ],
            );
        }
        let failures = keeping.failures();
        if failures != self.snapshot_failures {
            self.snapshot_failures = failures;
            // One may have been made since.
            if let (Some(why), Some(left)) = (keeping.last_error(), keeping.pause()) {
                let message =
                    format_args!("a snapshot failed, the log goes on, and the next is tried in {left:.0?}: {why}");
                let fields = [("why", why.as_str().into()), ("retry-seconds", left.as_secs().into())];
                log.say(Level::Error, "snapshot-failed", message, &fields);
            }
        }
    }
}

fn tell_start(log: &Log, settings: &Settings, at: Addresses) {
    let text = |address: Option<SocketAddr>| address.map_or("none".to_owned(), |address| address.to_string());
    let version = env!("CARGO_PKG_VERSION");
    let memory = memory::limit();
    log.say(
        Level::Debug,
        "start",
        format_args!("version {version} starts, memory {} by {}", memory.bytes, memory.source),
        &[
            ("version", version.into()),
            ("pid", u64::from(std::process::id()).into()),
            ("resp", text(at.resp).into()),
            ("tls", text(at.tls).into()),
            ("http", text(at.http).into()),
            ("threads", (settings.threads as u64).into()),
            ("memory", memory.bytes.into()),
            ("memory-source", memory.source.as_str().into()),
        ],
    );
}

fn tell_ready(log: &Log, settings: &Settings, ready: &Ready, resp: Option<SocketAddr>) {
    let mut line = match (resp, ready.tls) {
        (Some(resp), Some(tls)) => format!("ready on {resp}, TLS on {tls}"),
        (None, Some(tls)) => format!("ready on {tls} (TLS)"),
        _ => format!("ready on {}", ready.address),
    };
    if let Some(http) = ready.http {
        line.push_str(&format!(", {} on {http}", if ready.https { "HTTPS" } else { "HTTP" }));
    }
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
            ("http", ready.http.map_or("none".to_owned(), |http| http.to_string()).into()),
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
        log.say(Level::Warn, "warning", format_args!("{note}"), &[]);
    }
    tell_unavailable(log, found);
}

/// One line for all filters that cannot answer, and one for each of the first.
fn tell_unavailable(log: &Log, found: &Found) {
    if found.unavailable == 0 {
        return;
    }
    let all = counted(found.unavailable as u64, "filter");
    log.say(
        Level::Error,
        "filters-unavailable",
        format_args!(
            "{all} of {} cannot answer: their commands get an error until they are repaired or deleted",
            counted(found.filters as u64, "filter"),
        ),
        &[("count", (found.unavailable as u64).into())],
    );
    for (name, why) in &found.named {
        // What clients will get, without the word that only their protocol needs.
        let why = why.strip_prefix("ERR ").unwrap_or(why);
        let fields = [("filter", name.as_str().into()), ("why", why.into())];
        log.say(Level::Error, "filter-unavailable", format_args!("{why}"), &fields);
    }
    let more = found.unavailable - found.named.len();
    if more > 0 {
        let message = format_args!("and {} more cannot answer", counted(more as u64, "filter"));
        log.say(Level::Error, "filters-unavailable", message, &[("more", (more as u64).into())]);
    }
}

/// 40 hexadecimal digits, other ones at every start.
fn run_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    let word = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}{:08x}", word(), word(), word() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::clock::Clock;
    use crate::engine::contracts::Contracts;
    use crate::engine::journal::Journal;

    #[test]
    fn the_status_is_one_line_with_everything_that_is_wrong() {
        let settings = Settings::default();
        let (limits, defaults) = (settings.limits, settings.defaults);
        let engine = Engine::new(Journal::nowhere(), Contracts::new(None), Clock::start(), limits, defaults, 1);
        let desk = Desk::new(1, None, String::new(), Vec::new());
        desk.welcome(None);
        assert_eq!(status(&engine, &desk, false, &[]), "Serving 0 filters, 1 client");
        assert_eq!(
            status(&engine, &desk, true, &["line 3:\nwrong".to_owned()]),
            "Serving 0 filters, 1 client; the disk failed: lookups are answered, writers are refused; the last reload was \
             refused: line 3: wrong"
        );
    }
}
