//! Starting, serving and stopping.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::engine::Engine;
use crate::keeping::opening::{Found, Opened, open};
use crate::keeping::{Keeping, SharedKeeping};
use crate::net::Reactors;
use crate::net::worker::Workers;
use crate::session::desk::{Desk, Keeper};
use crate::settings::Settings;

/// Threads for commands that take long.
const WORKERS: usize = 2;
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
}

/// Serves until it is told to stop: by SHUTDOWN, SIGTERM or SIGINT. `ready` is called once it serves.
pub fn serve(settings: &Settings, ready: impl FnOnce(&Ready)) -> Result<(), String> {
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    // Bound first: a port that is taken is told before hours of loading.
    let listener = StdListener::bind(settings.resp)
        .map_err(|error| format!("cannot listen on {}: {error}; --resp names another address", settings.resp))?;
    let bound = |error: io::Error| format!("cannot listen on {}: {error}", settings.resp);
    let address = listener.local_addr().map_err(bound)?;
    listener.set_nonblocking(true).map_err(bound)?;
    let Opened { engine, keeping, found } = open(settings, settings.threads + WORKERS + 1)?;
    let told = Ready { address, found, took: began.elapsed() };
    let mut desk = Desk::new(settings.threads + WORKERS, settings.password.clone(), run_id(), settings.rows(address));
    desk.slow_micros = settings.slow_micros.into();
    let keeper: Option<Arc<dyn Keeper>> =
        keeping.as_ref().map(|keeping| Arc::new(SharedKeeping(keeping.clone())) as Arc<dyn Keeper>);
    desk.keeper = keeper;
    let desk = Arc::new(desk);
    let stop = Arc::new(Notify::new());
    let failed = |error: io::Error| format!("no thread: {error}");
    engine.start_chores().map_err(failed)?;
    let (workers, worker_threads) = Workers::start(&engine, &desk, WORKERS, settings.threads).map_err(failed)?;
    let mut reactors = Reactors::start(&engine, &desk, &workers, &stop, settings.threads).map_err(failed)?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).map_err(bound)?;
        let mut term = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ready(&told);
        notify_system("READY=1");
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, from)) => accept(&desk, settings, &mut reactors, stream, from),
                    // Too many open files: those that are open go on, new ones wait.
                    Err(_) => tokio::time::sleep(TICK).await,
                },
                _ = tick.tick() => on_tick(&engine, &desk, keeping.as_deref(), settings.threads + WORKERS),
                () = stop.notified() => break,
                _ = term.recv() => break,
                _ = interrupt.recv() => break,
            }
        }
        Ok::<(), String>(())
    })?;
    notify_system("STOPPING=1");
    reactors.stop(&desk);
    drop(workers);
    for thread in worker_threads {
        let _ = thread.join();
    }
    match engine.journal.log() {
        Some(log) => log.close().map_err(|error| format!("the last writes are not safe: {error}")),
        None => Ok(()),
    }
}

fn accept(desk: &Desk, settings: &Settings, reactors: &mut Reactors, stream: tokio::net::TcpStream, from: SocketAddr) {
    let _ = stream.set_nodelay(true);
    if desk.client_count() >= settings.max_clients {
        desk.reject();
        // It fits into the socket's buffer, or the client does not learn why.
        let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
        return;
    }
    if let Ok(stream) = stream.into_std() {
        reactors.hand_out(stream, desk.welcome(Some(from)));
    }
}

fn on_tick(engine: &Engine, desk: &Desk, keeping: Option<&Keeping>, gate: usize) {
    engine.remove_expired();
    engine.drop_abandoned();
    // A disk that refuses a turn of a window now takes it later; until then keys are kept longer.
    let _ = engine.tick(gate);
    let (Some(keeping), Some(keeper)) = (keeping, &desk.keeper) else { return };
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
