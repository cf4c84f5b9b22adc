//! The HTTP side of a server: its threads, what they share, and how it ends.
//!
//! Its threads are its own, as many as there are reactors, each with its view of the engine, and a step behind those: a body of a
//! million keys holds up nobody who speaks RESP for longer than the processor is shared, and has a quarter of it then.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, Response};
use bloomgate_http::access::Hosts;
use bloomgate_http::listen::Traffic;
use bloomgate_http::{Certificates, Limits, Options, Peer};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::alerts;
use super::bringing::{AT_ONCE, AT_ONCE_OF_ONE};
use super::fetching::Fetches;
use super::growth::{self, Growth};
use super::idempotency::Remembered;
use super::lookout::Lookout;
use super::pulse::{self, Beat, Pulse};
use super::seats::Seats;
use super::visit;
use crate::engine::{Core, Engine};
use crate::net::identity::Identity;
use crate::net::worker::Workers;
use crate::session::desk::Desk;

/// How often a thread lets go of filters that are gone.
const TICK: Duration = Duration::from_millis(100);
/// How long requests may take to end when the server stops, and then their connections: together as long as those of RESP.
const DRAIN: Duration = Duration::from_secs(2);
const CUTTING: Duration = Duration::from_secs(1);
/// How often it is looked whether they have.
const DRAIN_LOOK: Duration = Duration::from_millis(5);
/// How long its threads may take to let go of what they have after that.
const LETTING_GO: Duration = Duration::from_secs(1);
/// The longest body: that of many keys, which is read piece by piece and never held.
pub(super) const LONGEST_BODY: usize = 64 << 20;
/// Bodies that are read at once, each with a bit a key and what is on its way, and how many of one tenant or user.
const BODIES: usize = 256;
const BODIES_OF_ONE: usize = 128;

/// Streams of events that are open at once, and how many of one tenant or user.
const STREAMS: usize = 100;
const STREAMS_OF_ONE: usize = 50;

/// How far its threads step back: behind reactors and before workers. Of a core that a reactor wants all of they have a quarter,
/// which is enough for health checks and scrapes.
const BEHIND: i32 = 5;

/// What all requests share.
pub struct House {
    /// The filters.
    pub engine: Arc<Engine>,
    /// Users, counters, limits.
    pub desk: Arc<Desk>,
    /// Where long commands go.
    pub workers: Workers,
    /// The names under which it is asked for without a login.
    pub hosts: Hosts,
    /// Its connections.
    pub traffic: Arc<Traffic>,
    /// Where it listens.
    pub address: SocketAddr,
    /// Bodies that may be read at once.
    pub(super) bodies: Arc<Seats>,
    /// Bytes of bodies that are read whole and are not answered yet.
    pub(super) held: AtomicU64,
    /// Streams of events that may be open at once.
    pub(super) streams: Arc<Seats>,
    /// Answers to writes that may be sent again.
    pub(super) remembered: Remembered,
    /// How fast filters grow.
    pub(super) growth: Growth,
    /// The last ten seconds.
    pub(super) pulse: Pulse,
    /// What is wrong now, and who is told.
    pub(super) lookout: Arc<Lookout>,
    /// Files of filters that were put on the disk to be sent.
    pub(super) fetches: Fetches,
    /// Files that are being brought.
    pub(super) bringing: Arc<Seats>,
    /// Requests and files that are under way.
    busy: AtomicUsize,
    /// Whether the server is stopping.
    stopping: AtomicBool,
    ended: watch::Sender<bool>,
    /// Whether nobody is to be answered any more.
    closed: watch::Sender<bool>,
    cores: Box<[Mutex<Core>]>,
    next: AtomicUsize,
}

impl std::fmt::Debug for House {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "House({})", self.address)
    }
}

thread_local! {
    /// Which of the views is this thread's, and one more.
    static PLACE: Cell<usize> = const { Cell::new(0) };
}

impl House {
    /// A house for so many threads, whose gates of the turnstile begin at `first_gate`.
    #[must_use]
    pub fn new(
        engine: &Arc<Engine>,
        desk: &Arc<Desk>,
        workers: &Workers,
        lookout: &Arc<Lookout>,
        address: SocketAddr,
        threads: usize,
        first_gate: usize,
    ) -> Self {
        let core = |number| Mutex::new(Core::new(engine.clone(), first_gate + number));
        Self {
            engine: engine.clone(),
            desk: desk.clone(),
            workers: workers.clone(),
            hosts: Hosts::new(desk.told.http_hosts.iter().cloned()),
            traffic: lookout.traffic.clone(),
            address,
            bodies: Seats::new(BODIES, BODIES_OF_ONE),
            held: AtomicU64::new(0),
            streams: Seats::new(STREAMS, STREAMS_OF_ONE),
            remembered: Remembered::default(),
            growth: Growth::default(),
            pulse: Pulse::default(),
            lookout: lookout.clone(),
            fetches: Fetches::default(),
            bringing: Seats::new(AT_ONCE, AT_ONCE_OF_ONE),
            busy: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            ended: watch::Sender::new(false),
            closed: watch::Sender::new(false),
            cores: (0..threads.max(1)).map(core).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// This thread's view of the engine. Never held while something is waited for.
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        let place = PLACE.get().checked_sub(1).unwrap_or_else(|| {
            let place = self.next.fetch_add(1, Ordering::Relaxed);
            PLACE.set(place + 1);
            place
        });
        self.cores[place % self.cores.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server is stopping.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Says that something is under way, until what is given back goes.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// Moves when the server stops.
    pub(super) fn ending(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    /// How old the last snapshot is, in seconds; since the start if there is none.
    pub(super) fn snapshot_age(&self) -> f64 {
        alerts::snapshot_age(&self.engine, &self.desk)
    }

    /// Why no traffic should be sent here, or what it is ready for.
    pub(super) fn readiness(&self) -> Result<String, String> {
        if self.is_stopping() {
            return Err("the server is stopping".to_owned());
        }
        if self.engine.is_loading() {
            return Err("the filters are being read from the disk".to_owned());
        }
        if let Some(log) = self.engine.journal.log().filter(|log| !log.is_writable()) {
            return Err(format!("the store cannot be written, lookups are answered: {}", log.failure()));
        }
        // To whoever asks, without a login: no word of what is in it.
        Ok("ready".to_owned())
    }
}

/// Something is under way: a server that stops waits for it, a while.
pub(super) struct Busy(Arc<House>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The HTTP side while it runs.
#[derive(Debug)]
pub struct Http {
    house: Arc<House>,
    thread: JoinHandle<()>,
}

impl Http {
    /// Begins to serve on a socket that is bound; over TLS, if it is somebody.
    pub fn start(listener: std::net::TcpListener, house: House, identity: Option<Arc<Identity>>) -> io::Result<Self> {
        let house = Arc::new(house);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(house.cores.len())
            // What takes long goes to the workers; files are read and written here, a few at once.
            .max_blocking_threads(32)
            .thread_name("bloomgate-http")
            .on_thread_start(|| crate::net::step_back(BEHIND))
            .enable_all()
            .build()?;
        let (shared, waiting) = (house.clone(), house.clone());
        let thread = std::thread::Builder::new().name("bloomgate-http".into()).spawn(move || {
            crate::net::step_back(BEHIND);
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::spawn(tend(shared.clone()));
                let limits = Limits {
                    // Each route has its own: files of filters are as long as those may be.
                    body_bytes: usize::MAX,
                    connections: crate::settings::files::for_http(shared.desk.rules.max_clients()),
                    per_address: shared.desk.rules.max_per_address().unwrap_or(usize::MAX),
                    drain: CUTTING,
                    ..Limits::default()
                };
                let tls = identity.map(|identity| Certificates::of_the_moment(move || identity.http()));
                let options = Options { limits, traffic: shared.traffic.clone(), tls };
                let front = move |peer: &Peer| Front { house: shared.clone(), from: Caller::of(peer) };
                bloomgate_http::serve_each(listener, front, options, drained(&waiting)).await;
            });
            // What did not end in time is cut: nobody was told that it is done. Its threads let go of the engine, and with it
            // of the folder, before this one counts as ended.
            runtime.shutdown_timeout(LETTING_GO);
        })?;
        Ok(Self { house, thread })
    }

    /// Says that the server is stopping: from now on it is not ready, and what is not under way is refused.
    pub fn begin_to_stop(&self) {
        self.house.stopping.store(true, Ordering::Relaxed);
        self.house.ended.send_replace(true);
    }

    /// Lets what is under way end, and the threads.
    pub fn stop(self) {
        self.begin_to_stop();
        self.house.closed.send_replace(true);
        let _ = self.thread.join();
    }
}

/// Ends when the server stops and nothing is under way any more, or not soon. Until then whoever asks whether it is ready is
/// told that it is not.
async fn drained(house: &House) {
    ended(&mut house.ending()).await;
    let until = Instant::now() + DRAIN;
    while house.busy.load(Ordering::Relaxed) > 0 && Instant::now() < until {
        tokio::time::sleep(DRAIN_LOOK).await;
    }
    // The other clients of the server have their time too.
    ended(&mut house.closed.subscribe()).await;
}

/// Ends when the server stops.
pub(super) async fn ended(ending: &mut watch::Receiver<bool>) {
    // One that nobody can tell any more has ended too.
    let _ = ending.wait_for(|ended| *ended).await;
}

/// Lets go of filters that are gone, and looks how the others do.
async fn tend(house: Arc<House>) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ending = house.ending();
    let mut looked = [0; 2];
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = ended(&mut ending) => return,
        }
        for core in &house.cores {
            let mut core = core.lock().unwrap_or_else(PoisonError::into_inner);
            let engine = core.engine.clone();
            core.nearby.refresh(&engine.names);
        }
        let now_ms = house.engine.clock.now_ms();
        house.fetches.forget_old(now_ms);
        house.remembered.forget_old(now_ms);
        let mut is_time = |place: usize, every_ms: u64| {
            let due = now_ms.saturating_sub(looked[place]) >= every_ms;
            if due {
                looked[place] = now_ms;
            }
            due
        };
        if is_time(0, pulse::EVERY_MS) {
            house.pulse.push(Beat::now(&house.desk, now_ms));
        }
        if house.engine.is_loading() {
            continue;
        }
        if is_time(1, growth::EVERY_MS) {
            tokio::task::block_in_place(|| house.growth.look(&house.engine));
        }
    }
}

/// Where requests come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    pub address: SocketAddr,
    /// Whether a certificate of `tls-client-ca` was shown.
    pub has_certificate: bool,
}

impl Caller {
    fn of(peer: &Peer) -> Self {
        Self { address: peer.address, has_certificate: peer.certified }
    }

    /// This process itself.
    pub(super) fn here() -> Self {
        Self { address: SocketAddr::from(([127, 0, 0, 1], 0)), has_certificate: false }
    }
}

/// The service in front of the house, for one connection.
#[derive(Clone)]
struct Front {
    house: Arc<House>,
    from: Caller,
}

impl bloomgate_http::Service<Request<Body>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (house, from) = (self.house.clone(), self.from);
        Box::pin(async move { Ok(visit::answer(house, from, request).await) })
    }
}
