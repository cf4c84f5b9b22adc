//! Starting, serving and stopping.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bloomgate::Secret;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::engine::clock::Clock;
use crate::engine::contracts::{Contracts, DEFAULT};
use crate::engine::journal::Journal;
use crate::engine::{Engine, Limits};
use crate::keeping::loading::load;
use crate::keeping::{Keeping, SharedKeeping};
use crate::net::Reactors;
use crate::net::worker::Workers;
use crate::session::desk::{Desk, Keeper};
use crate::settings::Settings;
use crate::store::{Folder, LogOptions, RealDisk};

/// Threads for commands that take long.
const WORKERS: usize = 2;
/// How often windows turn, filters end and the log's size is looked at.
const TICK: Duration = Duration::from_millis(100);

/// What was found when the server started, told once it serves.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// Where it listens.
    pub address: SocketAddr,
    /// Filters it has.
    pub filters: usize,
    /// Of those, the ones that cannot answer, with the reasons.
    pub unavailable: Vec<String>,
    /// Batches of the log that were read.
    pub batches: u64,
    /// Bytes of a torn write that were left out.
    pub torn_bytes: u64,
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
        .map_err(|error| format!("cannot listen on {}: {error}", settings.resp))?;
    let bound = |error: io::Error| format!("cannot listen on {}: {error}", settings.resp);
    let address = listener.local_addr().map_err(bound)?;
    listener.set_nonblocking(true).map_err(bound)?;
    let (engine, keeping, told) = open(settings, address, began)?;
    let engine = Arc::new(engine);
    let mut desk = Desk::new(settings.threads + WORKERS, settings.password.clone(), run_id(), settings.rows(address));
    desk.slow_micros = settings.slow_micros.into();
    let keeping = keeping.map(|(folder, images, last)| Arc::new(Keeping::new(engine.clone(), folder, images, last)));
    let keeper: Option<Arc<dyn Keeper>> =
        keeping.as_ref().map(|keeping| Arc::new(SharedKeeping(keeping.clone())) as Arc<dyn Keeper>);
    desk.keeper = keeper;
    let desk = Arc::new(desk);
    let stop = Arc::new(Notify::new());
    let failed = |error: io::Error| format!("no thread: {error}");
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
                _ = tick.tick() => on_tick(&engine, &desk, keeping.as_deref()),
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

type Kept = (Arc<Folder>, std::collections::HashMap<u64, (u64, crate::keeping::manifest::Place)>, u64);

/// The engine with what the folder held.
fn open(settings: &Settings, address: SocketAddr, began: Instant) -> Result<(Engine, Option<Kept>, Ready), String> {
    let gates = settings.threads + WORKERS;
    let limits: Limits = settings.limits.clone();
    let Some(data) = &settings.data else {
        let master = master_secret(settings)?;
        let contracts = Contracts::new(Some(master));
        let clock = Clock::start(0);
        contracts.begin(DEFAULT, 1, clock.now_ms());
        let engine = Engine::new(Journal::nowhere(), contracts, clock, limits, settings.defaults.clone(), gates);
        let told = Ready { address, filters: 0, unavailable: Vec::new(), batches: 0, torn_bytes: 0, took: began.elapsed() };
        return Ok((engine, None, told));
    };
    let folder = Arc::new(Folder::open(data, Arc::new(RealDisk)).map_err(|error| error.to_string())?);
    let contracts = Contracts::new(Some(master_secret(settings)?));
    let options = LogOptions { fsync: settings.fsync, ..LogOptions::default() };
    let loaded = load(&folder, &contracts, options, settings.threads)?;
    let clock = Clock::start(loaded.clock_ms);
    contracts.begin(DEFAULT, 1, clock.now_ms());
    let journal = Journal::Log(loaded.log);
    let engine = Engine::new(journal, contracts, clock, limits, settings.defaults.clone(), gates);
    let mut unavailable = Vec::new();
    let filters = loaded.entries.len();
    engine.restore(loaded.entries, loaded.next_id, |why| unavailable.push(why.to_owned()));
    let told = Ready {
        address,
        filters,
        unavailable,
        batches: loaded.recovery.batches,
        torn_bytes: loaded.recovery.torn_bytes,
        took: began.elapsed(),
    };
    Ok((engine, Some((folder, loaded.images, loaded.clock_ms)), told))
}

/// The master secret: from its file, or made and written there at the first start.
fn master_secret(settings: &Settings) -> Result<Secret, String> {
    let in_data = settings.data.as_ref().map(|data| data.join("master.key"));
    let Some(path) = settings.master_key.clone().or(in_data.clone()) else {
        return Secret::generate().map_err(|error| error.to_string());
    };
    if path.exists() {
        return Secret::read_file(&path).map_err(|error| error.to_string());
    }
    // A key file that was named and is not there is a mistake; and data without its key must not get another one.
    let has_data = settings.data.as_ref().is_some_and(|data| {
        std::fs::read_dir(data).is_ok_and(|mut entries| {
            entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("log-")))
        })
    });
    if settings.master_key.is_some() || has_data {
        return Err(format!(
            "the master secret {} is not there: without it no filter can answer. Bring it back, or name it with --master-key",
            path.display()
        ));
    }
    let secret = Secret::generate().map_err(|error| error.to_string())?;
    secret.write_file(&path).map_err(|error| error.to_string())?;
    Ok(secret)
}

fn accept(
    desk: &Desk,
    settings: &Settings,
    reactors: &mut Reactors,
    stream: tokio::net::TcpStream,
    from: SocketAddr,
) {
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

fn on_tick(engine: &Engine, desk: &Desk, keeping: Option<&Keeping>) {
    engine.remove_expired();
    if let (Some(keeping), Some(keeper)) = (keeping, &desk.keeper)
        && !keeper.is_saving()
        && keeping.is_due()
    {
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
