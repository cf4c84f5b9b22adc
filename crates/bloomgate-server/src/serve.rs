//! Starting, serving and stopping.
//!
//! Clients are answered from the first moment: while the folder is read on a thread of its own, what needs the filters is
//! refused with LOADING, and nothing is written.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, oneshot};

use crate::access::Directory;
use crate::access::directory::{DENIED, is_loopback};
use crate::engine::Engine;
use crate::keeping::opening::{Found, Opened, Opening};
use crate::keeping::{Keeping, SharedKeeping};
use crate::net::Reactors;
use crate::net::worker::Workers;
use crate::session::desk::Desk;
use crate::settings::Settings;
use crate::store::{Disk, RealDisk};

/// Threads for commands that take long.
const WORKERS: usize = 2;
/// How long commands that run on workers may take to end when the server stops. With the 3 seconds that connections get
/// before, it stays within the 10 after which most service managers kill.
const WORK_DRAIN: Duration = Duration::from_secs(6);
/// How often windows turn, filters end and the log's size is looked at.
const TICK: Duration = Duration::from_millis(100);

/// What was found when the server started, told once it serves.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// Where it listens.
    pub address: SocketAddr,
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
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    // Bound first: a port that is taken is told before hours of loading.
    let listener = StdListener::bind(settings.resp)
        .map_err(|error| format!("cannot listen on {}: {error}; --resp names another address", settings.resp))?;
    let bound = |error: io::Error| format!("cannot listen on {}: {error}", settings.resp);
    let address = listener.local_addr().map_err(bound)?;
    listener.set_nonblocking(true).map_err(bound)?;
    let opening = Opening::begin(settings, disk, settings.threads + WORKERS + 1)?;
    let engine = opening.engine.clone();
    let access = Directory::open(settings)?;
    engine.stop().declare(&access.book().namespaces);
    let mut desk = Desk::new(settings.threads + WORKERS, Some(access), run_id(), settings.rows(address));
    desk.slow_micros = settings.slow_micros.into();
    let desk = Arc::new(desk);
    let stop = Arc::new(Notify::new());
    let failed = |error: io::Error| format!("no thread: {error}");
    engine.start_chores().map_err(failed)?;
    let workers = Workers::start(&engine, &desk, WORKERS, settings.threads).map_err(failed)?;
    let mut reactors = Reactors::start(&engine, &desk, &workers, &stop, settings.threads).map_err(failed)?;
    let served = runtime.block_on(async {
        let listener = TcpListener::from_std(listener).map_err(bound)?;
        let mut term = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut loaded = load(opening).map_err(failed)?;
        let (mut ready, mut keeping) = (Some(ready), None);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, from)) => accept(&desk, settings, &mut reactors, stream, from),
                    // Too many open files: those that are open go on, new ones wait.
                    Err(_) => tokio::time::sleep(TICK).await,
                },
                outcome = &mut loaded, if ready.is_some() => {
                    let opened = outcome.unwrap_or_else(|_| Err("the thread that reads the data has ended".to_owned()))?;
                    keeping = opened.keeping;
                    if let Some(keeping) = &keeping {
                        let _ = desk.keeper.set(Arc::new(SharedKeeping(keeping.clone())));
                    }
                    engine.end_loading();
                    if let Some(ready) = ready.take() {
                        ready(&Ready { address, found: opened.found, took: began.elapsed(), notes: notes(&desk, address) });
                    }
                    notify_system("READY=1");
                }
                _ = tick.tick(), if ready.is_none() => {
                    on_tick(&engine, &desk, keeping.as_deref(), settings.threads + WORKERS);
                }
                _ = hangup.recv() => on_hangup(&engine, &desk),
                () = stop.notified() => break,
                _ = term.recv() => break,
                _ = interrupt.recv() => break,
            }
        }
        Ok::<(), String>(())
    });
    notify_system("STOPPING=1");
    reactors.stop(&desk);
    let abandoned = workers.stop(WORK_DRAIN);
    served?;
    // One that is still being read ends with the process: nothing was taken that it would have to hold.
    if let Some(log) = engine.journal.log() {
        log.close().map_err(|error| format!("the last writes are not safe: {error}"))?;
    }
    Ok(Stopped { abandoned })
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

fn accept(desk: &Desk, settings: &Settings, reactors: &mut Reactors, stream: tokio::net::TcpStream, from: SocketAddr) {
    let _ = stream.set_nodelay(true);
    if desk.client_count() >= settings.max_clients {
        desk.reject();
        // It fits into the socket's buffer, or the client does not learn why.
        let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
        return;
    }
    if desk.access.denies(from.ip()) {
        desk.reject();
        let _ = stream.try_write(format!("-{DENIED}\r\n").as_bytes());
        return;
    }
    if let Ok(stream) = stream.into_std() {
        reactors.hand_out(stream, desk.welcome(Some(from)));
    }
}

/// What an open door means, for whoever opened it.
fn notes(desk: &Desk, address: SocketAddr) -> Vec<String> {
    let access = &desk.access;
    if is_loopback(address.ip()) || !access.is_open() {
        return Vec::new();
    }
    vec![match access.is_protected() {
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
    }]
}

/// SIGHUP: files that were changed by hand are read again.
fn on_hangup(engine: &Engine, desk: &Desk) {
    if desk.access.path().is_none() {
        return;
    }
    match desk.access.reload() {
        Ok(()) => {
            desk.end_strangers();
            engine.stop().declare(&desk.access.book().namespaces);
        }
        Err(why) => eprintln!("bloomgate: users stay as they were: {why}"),
    }
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

/// 40 hexadecimal digits, other ones at every start.
fn run_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    let word = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}{:08x}", word(), word(), word() as u32)
}

/// Tells systemd, if it started us.
fn notify_system(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Ok(socket) = std::os::unix::net::UnixDatagram::unbound() {
        // Nobody to tell is no reason to stop.
        let _ = socket.send_to(state.as_bytes(), path);
    }
}
