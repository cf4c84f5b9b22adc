//! A reactor: one thread, its connections, and what they share.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::LocalSet;

use super::connection::Connection;
use super::line::Line;
use super::stream::{Arrival, Stream};
use super::worker::Workers;
use crate::engine::journal::Journal;
use crate::engine::{Core, Engine};
use crate::session::Session;
use crate::session::desk::{Client, Desk};

/// Bytes that are read at once: 64 commands of 100 items fit.
const INPUT: usize = 128 << 10;
/// A reply buffer that has grown beyond this is not kept.
const OUTPUT_KEPT: usize = 1 << 20;
/// How often a thread lets go of filters that are gone.
const TICK: Duration = Duration::from_millis(100);
/// How long connections may take to end when the server stops.
const DRAIN: Duration = Duration::from_secs(3);

/// What the connections of one thread share.
pub struct Reactor {
    /// The thread's view of the engine.
    pub core: RefCell<Core>,
    /// What all connections share.
    pub desk: Arc<Desk>,
    /// What was just read.
    pub input: RefCell<Box<[u8]>>,
    /// What is about to be sent.
    pub output: RefCell<Vec<u8>>,
    /// Connections that had their share of the thread and want more.
    pub line: Line,
    /// Where long commands go.
    pub workers: Workers,
    /// Moves when the log does.
    pub watch: RefCell<Option<watch::Receiver<u64>>>,
    /// Tells the server to stop.
    pub stop: Arc<Notify>,
    /// How often it has turned: a thread that hangs does not.
    turns: Arc<AtomicU64>,
    engine: Arc<Engine>,
}

impl Reactor {
    /// Where changes are written down.
    pub fn journal(&self) -> &Journal {
        &self.engine.journal
    }

    /// Keeps a reply buffer for the next turn, unless it is a giant.
    pub fn give_back(&self, out: Vec<u8>) {
        if out.capacity() <= OUTPUT_KEPT {
            *self.output.borrow_mut() = out;
        }
    }
}

/// All reactors.
#[derive(Debug)]
pub struct Reactors {
    doors: Vec<mpsc::UnboundedSender<(Arrival, Client)>>,
    threads: Vec<JoinHandle<()>>,
    turns: Vec<Arc<AtomicU64>>,
    next: usize,
}

impl Reactors {
    /// Starts so many threads.
    pub fn start(
        engine: &Arc<Engine>,
        desk: &Arc<Desk>,
        workers: &Workers,
        stop: &Arc<Notify>,
        count: usize,
    ) -> io::Result<Self> {
        let mut doors = Vec::new();
        let mut threads = Vec::new();
        let mut turns = Vec::new();
        for number in 0..count.max(1) {
            let (door, arrivals) = mpsc::unbounded_channel();
            let (engine, desk, workers, stop) = (engine.clone(), desk.clone(), workers.clone(), stop.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let name = format!("bloomgate-net-{number}");
            let turned = Arc::new(AtomicU64::new(0));
            turns.push(turned.clone());
            threads.push(std::thread::Builder::new().name(name).spawn(move || {
                let reactor = Rc::new(Reactor {
                    core: RefCell::new(Core::new(engine.clone(), number)),
                    desk,
                    input: RefCell::new(vec![0; INPUT].into()),
                    output: RefCell::default(),
                    line: Line::default(),
                    workers,
                    watch: RefCell::default(),
                    stop,
                    turns: turned,
                    engine,
                });
                LocalSet::new().block_on(&runtime, run(reactor, arrivals));
            })?);
            doors.push(door);
        }
        Ok(Self { doors, threads, turns, next: 0 })
    }

    /// How often each has turned.
    pub fn turns(&self) -> impl Iterator<Item = u64> {
        self.turns.iter().map(|turns| turns.load(Ordering::Relaxed))
    }

    /// Gives a connection to the next thread: by turns, so that each has as many as the others.
    pub fn hand_out(&mut self, arrival: Arrival, client: Client) {
        let door = &self.doors[self.next % self.doors.len()];
        self.next += 1;
        // A reactor that ended has dropped its door; the connection ends with it.
        let _ = door.send((arrival, client));
    }

    /// Ends all connections after the turn they are in, and the threads.
    pub fn stop(self, desk: &Desk) {
        drop(self.doors);
        desk.clients().iter().for_each(|client| client.end());
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

async fn run(reactor: Rc<Reactor>, mut arrivals: mpsc::UnboundedReceiver<(Arrival, Client)>) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut connections = tokio::task::JoinSet::new();
    let calling = reactor.clone();
    let calling = tokio::task::spawn_local(async move { calling.line.call().await });
    loop {
        tokio::select! {
            arrival = arrivals.recv() => match arrival {
                None => break,
                Some((arrival, client)) => match Stream::open(arrival) {
                    Ok(stream) => {
                        let session = Session::new(client, &reactor.desk);
                        connections.spawn_local(Connection::new(stream, session, reactor.clone()).serve());
                    }
                    Err(_) => reactor.desk.goodbye(&client),
                },
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = tick.tick() => {
                reactor.turns.fetch_add(1, Ordering::Relaxed);
                let mut core = reactor.core.borrow_mut();
                let engine = core.engine.clone();
                core.nearby.refresh(&engine.names);
                // It came after the thread did.
                let mut watch = reactor.watch.borrow_mut();
                if watch.is_none() {
                    *watch = engine.journal.log().map(|log| log.watch());
                }
            }
        }
    }
    let _ = tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    calling.abort();
}
