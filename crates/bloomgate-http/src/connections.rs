//! The connections that are open: how many there may be, from where, and which of them have earned their end.
//!
//! A timer for each connection would be wound up anew with each request. Instead a connection only counts (bytes read,
//! bytes written, requests begun and ended: a few stores into memory of its own), and one task looks at all of them a few
//! times per time limit and ends those that did not move. So a limit of 10 seconds ends a connection after 10 to 12.5.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use crate::listen::{Limits, Traffic};

/// What a connection counts. Only its own tasks write it.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    read: AtomicU64,
    written: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    /// An answer waits for the client to read: the socket takes no more.
    blocked: AtomicBool,
    /// HTTP/2: frames come and go without any request, so bytes alone are no sign of a slow header.
    framed: AtomicBool,
}

/// A request that is being answered; it ends when this is dropped, however it ends.
pub(crate) struct InFlight(Arc<Pulse>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

impl Pulse {
    pub(crate) fn read(&self, bytes: usize) {
        // One task reads and writes a connection: no read-modify-write is needed.
        self.read.store(self.read.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
    }

    pub(crate) fn wrote(&self, bytes: usize) {
        self.written.store(self.written.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
    }

    /// Notes whether a write found the socket full.
    pub(crate) fn writing<T>(&self, write: Poll<T>) -> Poll<T> {
        if self.blocked.load(Relaxed) != write.is_pending() {
            self.blocked.store(write.is_pending(), Relaxed);
        }
        write
    }

    pub(crate) fn begin(self: &Arc<Self>, framed: bool) -> InFlight {
        self.begun.fetch_add(1, Relaxed);
        if framed {
            self.framed.store(true, Relaxed);
        }
        InFlight(self.clone())
    }

    fn beat(&self) -> Beat {
        // `ended` first: a request that ends in between counts as one still under way, never as minus one.
        let ended = self.ended.load(Relaxed);
        let begun = self.begun.load(Relaxed);
        Beat {
            read: self.read.load(Relaxed),
            written: self.written.load(Relaxed),
            begun,
            busy: begun != ended,
            framed: self.framed.load(Relaxed),
            blocked: self.blocked.load(Relaxed),
        }
    }
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Beat {
    read: u64,
    written: u64,
    begun: u64,
    busy: bool,
    framed: bool,
    blocked: bool,
}

/// What is to happen with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Keep,
    /// It has been idle long enough: let it end as its protocol does.
    Drain,
    /// It did not even do that.
    CutIdle,
    /// The head of a request did not arrive in time.
    CutSlow,
    /// An answer is read too slowly, or not at all.
    CutStalled,
}

/// What was seen of a connection so far: a state machine of beats and moments, without a clock of its own.
#[derive(Debug)]
struct Watch {
    last: Beat,
    moved: Instant,
    /// Since when a head has been arriving; from the beginning for the first one (with the handshake before it).
    head_since: Option<Instant>,
    /// What was read when the last request began: bytes beyond it belong to the next head.
    read_before: u64,
    /// Since when the socket has been full, and what was written by then.
    blocked_since: Option<(Instant, u64)>,
    draining: bool,
}

impl Watch {
    fn new(now: Instant) -> Self {
        Self {
            last: Beat::default(),
            moved: now,
            head_since: Some(now),
            read_before: 0,
            blocked_since: None,
            draining: false,
        }
    }

    fn look(&mut self, beat: Beat, now: Instant, limits: &Limits) -> Verdict {
        let (head_time, idle) = (limits.head_time, limits.idle);
        if self.is_stalled(beat, now, head_time, limits.read_rate) {
            return Verdict::CutStalled;
        }
        let begun = beat.busy || beat.begun != self.last.begun;
        if begun || beat.read != self.last.read || beat.written != self.last.written {
            self.moved = now;
        }
        if begun {
            (self.head_since, self.read_before) = (None, beat.read);
        } else if self.head_since.is_none() && !beat.framed && beat.read != self.read_before {
            self.head_since = Some(now);
        }
        self.last = beat;
        if beat.busy {
            return Verdict::Keep;
        }
        if self.head_since.is_some_and(|since| now.duration_since(since) >= head_time) {
            return Verdict::CutSlow;
        }
        if now.duration_since(self.moved) < idle {
            return Verdict::Keep;
        }
        match std::mem::replace(&mut self.draining, true) {
            false => Verdict::Drain,
            true => Verdict::CutIdle,
        }
    }
}

impl Watch {
    /// Whether the answer has been read too slowly for a whole stretch of time.
    fn is_stalled(&mut self, beat: Beat, now: Instant, stretch: Duration, rate: u64) -> bool {
        let (since, written) = match self.blocked_since {
            Some(blocked) if beat.blocked => blocked,
            _ => {
                self.blocked_since = beat.blocked.then_some((now, beat.written));
                return false;
            }
        };
        let passed = now.duration_since(since);
        if passed < stretch {
            return false;
        }
        self.blocked_since = Some((now, beat.written));
        (beat.written.wrapping_sub(written) as f64) < rate as f64 * passed.as_secs_f64()
    }
}

/// One open connection.
struct Open {
    pulse: Arc<Pulse>,
    watch: Watch,
    /// Asks the connection's task to end it in good order.
    drain: Option<oneshot::Sender<()>>,
    /// Ends the task at once. Not there for the moment between admission and the task's start.
    abort: Option<AbortHandle>,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: HashMap<u64, Open>,
    by_address: HashMap<IpAddr, usize>,
}

/// All open connections of a listener.
pub(crate) struct Connections {
    table: Mutex<Table>,
    /// Told when the last one has gone.
    gone: Notify,
    traffic: Arc<Traffic>,
}

/// The place of one connection; given back when dropped.
pub(crate) struct Place {
    connections: Arc<Connections>,
    id: u64,
    address: IpAddr,
    pub(crate) pulse: Arc<Pulse>,
}

impl Connections {
    pub(crate) fn new(traffic: Arc<Traffic>) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), gone: Notify::new(), traffic })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing under the lock panics half way through a change.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more connection and what tells it to drain; none if there are too many.
    pub(crate) fn admit(
        self: &Arc<Self>,
        from: IpAddr,
        limits: &Limits,
        now: Instant,
    ) -> Option<(Place, oneshot::Receiver<()>)> {
        let address = neighbourhood(from);
        let mut table = self.table();
        let there = table.by_address.get(&address).copied().unwrap_or(0);
        if table.open.len() >= limits.connections || there >= limits.per_address {
            return None;
        }
        *table.by_address.entry(address).or_default() += 1;
        let id = table.next;
        table.next += 1;
        let pulse = Arc::new(Pulse::default());
        let (drain, drained) = oneshot::channel();
        table.open.insert(id, Open { pulse: pulse.clone(), watch: Watch::new(now), drain: Some(drain), abort: None });
        Traffic::set(&self.traffic.open, table.open.len() as u64);
        Traffic::add(&self.traffic.accepted);
        Some((Place { connections: self.clone(), id, address, pulse }, drained))
    }

    /// How the task of a connection can be ended. Nothing to do if it has ended already.
    pub(crate) fn attach(&self, id: u64, abort: AbortHandle) {
        if let Some(open) = self.table().open.get_mut(&id) {
            open.abort = Some(abort);
        }
    }

    /// Looks at every connection once and ends those whose time is over.
    pub(crate) fn look(&self, limits: &Limits, now: Instant) {
        for open in self.table().open.values_mut() {
            match open.watch.look(open.pulse.beat(), now, limits) {
                Verdict::Keep => continue,
                Verdict::Drain => {
                    Traffic::add(&self.traffic.idle);
                    if let Some(drain) = open.drain.take() {
                        let _ = drain.send(());
                    }
                    continue;
                }
                Verdict::CutIdle => {}
                Verdict::CutSlow => Traffic::add(&self.traffic.slow),
                Verdict::CutStalled => Traffic::add(&self.traffic.stalled),
            }
            if let Some(abort) = open.abort.take() {
                abort.abort();
            }
        }
    }

    /// Asks every connection to end in good order, waits for that at most so long, and cuts what is left. How many those
    /// were.
    pub(crate) async fn drain(&self, within: Duration) -> usize {
        let asked: Vec<_> = self.table().open.values_mut().filter_map(|open| open.drain.take()).collect();
        for drain in asked {
            let _ = drain.send(());
        }
        let all_gone = async {
            loop {
                let gone = self.gone.notified();
                if self.table().open.is_empty() {
                    return;
                }
                gone.await;
            }
        };
        if tokio::time::timeout(within, all_gone).await.is_ok() {
            return 0;
        }
        let left: Vec<_> = self.table().open.values_mut().filter_map(|open| open.abort.take()).collect();
        left.iter().for_each(AbortHandle::abort);
        left.len()
    }
}

impl Place {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The connection is in the hands of another task from now on.
    pub(crate) fn attach(&self, task: AbortHandle) {
        self.connections.attach(self.id, task);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.open.remove(&self.id);
        if let Some(there) = table.by_address.get_mut(&self.address) {
            *there -= 1;
            if *there == 0 {
                table.by_address.remove(&self.address);
            }
        }
        Traffic::set(&self.connections.traffic.open, table.open.len() as u64);
        if table.open.is_empty() {
            // A permit stays if nobody waits yet, so it is not missed between a look and the wait.
            self.connections.gone.notify_one();
        }
    }
}

/// Whom the limit for one address counts together: an IPv4 address, or the 64 bits of an IPv6 one that a provider gives
/// to one customer.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs beats one second apart and says after how many seconds which end came.
    fn run(seconds: u64, beat: impl Fn(u64) -> Beat) -> Option<(u64, Verdict)> {
        let begin = Instant::now();
        let (mut watch, limits) = (Watch::new(begin), Limits { idle: Duration::from_secs(60), ..Limits::default() });
        (1..=seconds).find_map(|second| match watch.look(beat(second), begin + Duration::from_secs(second), &limits) {
            Verdict::Keep | Verdict::Drain => None,
            cut => Some((second, cut)),
        })
    }

    #[test]
    fn a_head_that_trickles_is_cut_and_one_that_comes_is_not() {
        let trickle = run(100, |second| Beat { read: second, ..Beat::default() });
        assert_eq!(trickle, Some((10, Verdict::CutSlow)));
        // After a good request too: the clock starts with the first byte of the next head.
        let later = run(100, |second| Beat { read: 50 + second.max(20), begun: 1, written: 10, ..Beat::default() });
        assert_eq!(later, Some((31, Verdict::CutSlow)));
        let silent = run(100, |_| Beat::default());
        assert_eq!(silent, Some((10, Verdict::CutSlow)));
        let steady = run(1000, |second| Beat { read: second, begun: second, written: second, ..Beat::default() });
        assert_eq!(steady, None);
    }

    #[test]
    fn who_neither_asks_nor_reads_is_idle_but_work_is_not() {
        let idle = run(200, |_| Beat { read: 50, begun: 1, written: 10, ..Beat::default() });
        assert_eq!(idle, Some((62, Verdict::CutIdle)));
        let working = run(1000, |_| Beat { read: 50, begun: 1, busy: true, ..Beat::default() });
        assert_eq!(working, None);
        // A long answer that is being read is no slow head.
        let reading = run(1000, |second| Beat { read: 50, begun: 1, written: second, ..Beat::default() });
        assert_eq!(reading, None);
        // Frames of HTTP/2 keep it open.
        let pings = run(1000, |second| Beat { read: second, begun: 1, framed: true, ..Beat::default() });
        assert_eq!(pings, None);
    }

    #[test]
    fn an_answer_that_is_not_read_ends_the_connection_and_a_slow_one_only_if_it_is_very_slow() {
        let answer = |bytes: u64| {
            run(1000, move |second| Beat {
                read: 50,
                begun: 1,
                busy: true,
                blocked: true,
                written: second * bytes,
                ..Beat::default()
            })
        };
        assert_eq!(answer(0), Some((11, Verdict::CutStalled)), "while a request is worked on too");
        assert_eq!(answer(100), Some((11, Verdict::CutStalled)));
        assert_eq!(answer(2000), None);
        // Now and then the socket is full: nobody's fault.
        let bursts =
            run(1000, |second| Beat { read: 50, begun: 1, busy: true, blocked: second % 5 > 0, ..Beat::default() });
        assert_eq!(bursts, None);
    }

    #[test]
    fn places_are_counted_and_given_back() {
        let connections = Connections::new(Arc::default());
        let limits = Limits { connections: 3, per_address: 2, ..Limits::default() };
        let admit = |text: &str| connections.admit(text.parse().unwrap(), &limits, Instant::now());
        let one = admit("192.0.2.1").unwrap();
        let two = admit("::ffff:192.0.2.1").unwrap();
        assert!(admit("192.0.2.1").is_none(), "two from one address");
        let three = admit("2001:db8::1").unwrap();
        assert!(admit("192.0.2.9").is_none(), "three in all");
        drop(one);
        assert!(admit("192.0.2.1").is_some());
        drop((two, three));
        let table = connections.table();
        assert!(table.open.is_empty() && table.by_address.is_empty());
        assert_eq!(neighbourhood("2001:db8::1".parse().unwrap()), neighbourhood("2001:db8::2:1".parse().unwrap()));
        assert_ne!(neighbourhood("2001:db8::1".parse().unwrap()), neighbourhood("2001:db8:0:1::1".parse().unwrap()));
    }
}
