//! The gate of the demo: in front of a small shop in a temporary SQLite file, with clients that ask mostly for products that do
//! not exist.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bloomgate_gate::caches::LocalCache;
use bloomgate_gate::service::{self, http};
use bloomgate_gate::sources::Sqlite;
use bloomgate_gate::{Gate, Writers};

use crate::attack::catalogue::{self, COLUMN, TABLE};
use crate::attack::mix::{Mix, Step, Subject};
use crate::failure::Failure;
use crate::random::Random;
use crate::screen;

/// Few products and few requests a second: it is to be seen, not felt.
const MIX: Mix =
    Mix { seed: 1, products: 20_000, absent: 0.8, exponent: 1.0, writes: 0.0, coming_and_going: 0, workers: 1 };
const REQUESTS: f64 = 120.0;
/// The share of requests that puts a new product into the shop. Of the products that came so, the last ones stay.
const NEW: f64 = 0.01;
const STAY: u64 = 50;
/// The share of lookups that ask again for an absent key that got through to the shop lately: what the negative cache is for.
const REPEATED: f64 = 0.005;
const LATELY: usize = 20;
/// High for a gate, so that some get through in every minute.
const RATE: f64 = 0.02;
const TICK: Duration = Duration::from_millis(100);
/// How long the last request may take.
const DRAIN: Duration = Duration::from_secs(1);
/// No answer takes longer, or the connection is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens the shop and its gate, and asks, until it is told to stop.
pub fn run(listener: TcpListener, address: SocketAddr, stop: &AtomicBool) {
    if let Err(Failure::Message(why)) = opened(listener, address, stop) {
        screen::note(format_args!("the demo's gate: {why}"));
    }
}

fn opened(listener: TcpListener, address: SocketAddr, stop: &AtomicBool) -> Result<(), Failure> {
    let folder = tempfile::Builder::new().prefix("bloomgate-demo-shop-").tempdir();
    let folder = folder.map_err(|error| Failure::Message(format!("no temporary folder: {error}")))?;
    let path = folder.path().join("shop.db");
    catalogue::build_sqlite(&path, &MIX, true)?;
    let failed = |error: io::Error| Failure::Message(error.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(failed)?;
    let outcome = runtime.block_on(async {
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        let gate = gate(&path)?;
        gate.start();
        let options = service::Options {
            table: TABLE.to_owned(),
            writes: true,
            attack: std::env::current_exe().ok(),
            ..service::Options::default()
        };
        let limits = http::Limits { drain: DRAIN, ..http::Limits::default() };
        let stopped = tokio::sync::Notify::new();
        let asking = async {
            // Reads and writes of sockets that wait: on a thread that may.
            let told = Arc::new(AtomicBool::new(false));
            let heard = told.clone();
            let clients = tokio::task::spawn_blocking(move || ask(address, &heard));
            while !stop.load(Relaxed) {
                tokio::time::sleep(TICK).await;
            }
            told.store(true, Relaxed);
            let _ = clients.await;
            stopped.notify_one();
        };
        let http = http::Options { limits, ..http::Options::default() };
        tokio::join!(service::serve(listener, gate.clone(), options, http, stopped.notified()), asking);
        gate.stop().await;
        Ok(())
    });
    runtime.shutdown_timeout(DRAIN);
    outcome
}

fn gate(path: &Path) -> Result<Gate, Failure> {
    let said = |error: bloomgate_gate::Error| Failure::Message(error.to_string());
    Gate::builder(Arc::new(Sqlite::open(path, TABLE, COLUMN).map_err(said)?))
        .cache(Arc::new(LocalCache::new(16 << 20).map_err(said)?))
        .rate(RATE)
        .writers(Writers::Sole)
        .rows_for(Duration::from_secs(60))
        .negatives(10_000, Duration::from_secs(60))
        .audit_share(0.02)
        .rebuild_every(Some(Duration::from_secs(180)))
        .build()
        .map_err(said)
}

/// Asks until it is told to stop.
fn ask(address: SocketAddr, stop: &AtomicBool) {
    let mut clients = Clients {
        steps: MIX.stream(0),
        random: Random::of_worker(1, 1),
        lately: Vec::new(),
        new: 0,
        gone: 0,
        due: 0.0,
    };
    while !stop.load(Relaxed) {
        // A connection that was lost is made again.
        if clients.ask(address, stop).is_err() {
            std::thread::sleep(TICK);
        }
    }
}

/// The clients of the shop.
struct Clients {
    steps: crate::attack::mix::Stream,
    random: Random,
    /// Absent keys that got through, the latest first.
    lately: Vec<String>,
    /// Products that came, and those of them that went.
    new: u64,
    gone: u64,
    /// Requests that are due.
    due: f64,
}

impl Clients {
    fn ask(&mut self, address: SocketAddr, stop: &AtomicBool) -> io::Result<()> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = BufReader::new(stream);
        let mut last = Instant::now();
        while !stop.load(Relaxed) {
            std::thread::sleep(TICK);
            self.due += REQUESTS * last.elapsed().as_secs_f64().min(1.0);
            last = Instant::now();
            while self.due >= 1.0 {
                self.due -= 1.0;
                let (method, key, body) =
                    if self.random.happens(NEW) { self.change() } else { ("GET", self.wanted(), String::new()) };
                let request = format!(
                    "{method} /v1/{TABLE}/{key} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.get_mut().write_all(request.as_bytes())?;
                if answered(&mut stream)? == "not-found" {
                    self.lately.truncate(LATELY - 1);
                    self.lately.insert(0, key);
                }
            }
        }
        Ok(())
    }

    /// A new product, or one of before that goes.
    fn change(&mut self) -> (&'static str, String, String) {
        let key = |number| catalogue::key(MIX.number(Subject::Moving(number)));
        if self.new - self.gone > STAY {
            self.gone += 1;
            return ("DELETE", key(self.gone - 1), String::new());
        }
        self.new += 1;
        let key = key(self.new - 1);
        let row = catalogue::row(&key, 1);
        ("PUT", key, row)
    }

    /// The key that is asked for next.
    fn wanted(&mut self) -> String {
        // Nobody writes in this mix, so a step is a lookup.
        let Step::Get(subject) = self.steps.step() else { return String::new() };
        let Subject::Absent(number) = subject else { return catalogue::key(MIX.number(subject)) };
        if !self.lately.is_empty() && self.random.happens(REPEATED) {
            return self.lately[number as usize % self.lately.len()].clone();
        }
        catalogue::key(MIX.number(subject))
    }
}

/// Reads an answer to its end; where the lookup ended.
fn answered(from: &mut impl BufRead) -> io::Result<String> {
    let (mut line, mut length, mut outcome) = (String::new(), 0, String::new());
    loop {
        line.clear();
        if from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        match line.to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => {
                length = value.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            }
            Some(("bloomgate-outcome", value)) => outcome = value.trim().to_owned(),
            _ => {}
        }
    }
    io::copy(&mut from.take(length), &mut io::sink())?;
    Ok(outcome)
}
