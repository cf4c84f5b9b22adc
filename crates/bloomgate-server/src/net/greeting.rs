//! TLS handshakes, on a thread of their own.
//!
//! A handshake takes up to a millisecond of arithmetic: on the thread that accepts it would hold up everybody who comes, on
//! a reactor everybody who is there. So one thread does them all, behind the reactors in priority, and strangers get at most
//! that thread. One address may have half of the places. When too many are under way, of the address that has most of them the one
//! that has been at it longest is given up: an honest client is done within milliseconds, one that holds on is always older.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream as StdStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bloomgate_http::tls::rustls::{ServerConfig, ServerConnection};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::identity::Identity;
use super::stream::{Arrival, Sealed};
use crate::logging::{Level, Often, now};
use crate::session::desk::{Desk, neighbourhood};

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Handshakes under way at once, for a server. One takes about 20 KB.
pub const MOST: usize = 1_024;
/// How often the files of the certificate are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// The thread that does handshakes.
#[derive(Debug)]
pub struct Greeter {
    door: mpsc::Sender<(StdStream, SocketAddr, Place)>,
    crowd: Arc<Crowd>,
    thread: JoinHandle<()>,
}

/// How many handshakes of each address wait or are under way. This machine's own are one without a limit.
#[derive(Debug, Default)]
struct Crowd(Mutex<HashMap<Option<IpAddr>, usize>>);

impl Crowd {
    fn counts(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more, if the address has not so many.
    fn enter(self: &Arc<Self>, from: Option<IpAddr>, most: usize) -> Option<Place> {
        let mut counts = self.counts();
        let count = counts.entry(from).or_default();
        if from.is_some() && *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { crowd: self.clone(), from })
    }
}

/// The place of a handshake; given back when dropped.
#[derive(Debug)]
struct Place {
    crowd: Arc<Crowd>,
    from: Option<IpAddr>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.crowd.counts();
        if let Some(count) = counts.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.from);
            }
        }
    }
}

/// Handshakes that are under way, the oldest first.
#[derive(Debug, Default)]
struct Underway(VecDeque<(Option<IpAddr>, AbortHandle)>);

impl Underway {
    /// Gives up the oldest of the address that has most; whether there was one.
    fn give_up_one(&mut self) -> bool {
        self.0.retain(|(_, handle)| !handle.is_finished());
        let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
        self.0.iter().for_each(|(from, _)| *counts.entry(*from).or_default() += 1);
        let most = counts.values().copied().max();
        let at = self.0.iter().position(|(from, _)| counts.get(from).copied() == most);
        at.and_then(|at| self.0.remove(at)).inspect(|(_, handle)| handle.abort()).is_some()
    }
}

/// Clients whose handshake is done.
pub type Greeted = mpsc::Receiver<(Arrival, SocketAddr)>;

impl Greeter {
    /// Starts the thread, for so many handshakes at once; what it is done with comes out of the second half.
    pub fn start(identity: Arc<Identity>, desk: Arc<Desk>, most: usize) -> io::Result<(Self, Greeted)> {
        let most = most.max(1);
        let (door, arrivals) = mpsc::channel(most);
        let (done, greeted) = mpsc::channel(most);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("bloomgate-tls".into()).spawn(move || {
            super::step_back(5);
            runtime.block_on(greet(identity, desk, most, arrivals, done));
        })?;
        Ok((Self { door, crowd: Arc::default(), thread }, greeted))
    }

    /// Begins the handshake of a client; false when there is no room.
    pub fn take(&self, socket: StdStream, from: SocketAddr) -> bool {
        let most = (self.door.max_capacity() / 2).max(1);
        let place = self.crowd.enter(neighbourhood(Some(from)), most);
        place.is_some_and(|place| self.door.try_send((socket, from, place)).is_ok())
    }

    /// Ends the thread; handshakes under way are given up.
    pub fn stop(self) {
        drop(self.door);
        let _ = self.thread.join();
    }
}

async fn greet(
    identity: Arc<Identity>,
    desk: Arc<Desk>,
    most: usize,
    mut arrivals: mpsc::Receiver<(StdStream, SocketAddr, Place)>,
    done: mpsc::Sender<(Arrival, SocketAddr)>,
) {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut underway = JoinSet::new();
    let mut oldest = Underway::default();
    loop {
        tokio::select! {
            arrival = arrivals.recv() => {
                let Some((socket, from, place)) = arrival else { return };
                while underway.try_join_next().is_some() {}
                while oldest.0.front().is_some_and(|(_, handle)| handle.is_finished()) {
                    oldest.0.pop_front();
                }
                if underway.len() >= most && oldest.give_up_one() {
                    desk.cuts.handshakes.fetch_add(1, Ordering::Relaxed);
                }
                let (config, desk, done) = (identity.config(), desk.clone(), done.clone());
                oldest.0.push_back((place.from, underway.spawn(async move {
                    let _place = place;
                    match handshake(socket, config).await {
                        // Nobody takes it any more when the server stops.
                        Ok(arrival) => _ = done.send((arrival, from)).await,
                        Err(why) => failed(&desk, from, &why),
                    }
                })));
            }
            Some(_) = underway.join_next(), if !underway.is_empty() => {}
            _ = look.tick() => {
                if let Some(renewed) = identity.renew_if_changed() {
                    tell_renewed(&desk, &identity, &renewed);
                }
                if let Some(ending) = identity.ending(now().as_secs()) {
                    let fields = [("file", identity.certificate().into()), ("not-after", ending.not_after.into())];
                    desk.log.say(ending.level, ending.name, format_args!("{}", ending.message), &fields);
                }
            }
        }
    }
}

async fn handshake(socket: StdStream, config: Arc<ServerConfig>) -> io::Result<Arrival> {
    let session = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut sealed = Sealed::new(TcpStream::from_std(socket)?, session);
    timeout(PATIENCE, poll_fn(|context| sealed.poll_handshake(context)))
        .await
        .map_err(|_| io::ErrorKind::TimedOut)??;
    sealed.into_arrival()
}

fn failed(desk: &Desk, from: SocketAddr, why: &io::Error) {
    desk.cuts.handshakes.fetch_add(1, Ordering::Relaxed);
    let why = why.to_string();
    desk.log.often(
        Often::Handshake,
        Level::Warn,
        "tls-handshake-failed",
        format_args!("the TLS handshake of {from} failed: {why}"),
        &[("client", from.to_string().into()), ("why", why.as_str().into())],
    );
}

/// Says what became of reading the certificate again; nothing if nothing has changed.
pub fn tell_renewed(desk: &Desk, identity: &Identity, renewed: &Result<Vec<String>, String>) {
    match renewed {
        Ok(files) if files.is_empty() => {}
        Ok(files) => {
            let files = files.join(", ");
            desk.log.say(
                Level::Info,
                "certificate-renewed",
                format_args!("what TLS is served with has changed ({files}); connections from now on see it"),
                &[("files", files.as_str().into())],
            );
        }
        Err(why) => desk.log.say(
            Level::Error,
            "certificate-refused",
            format_args!("the files of TLS were changed and cannot be used, what was there before stays: {why}"),
            &[("file", identity.certificate().into()), ("why", why.as_str().into())],
        ),
    }
}
