//! The whole server on a real port: how it answers while it reads its folder, whom it lets in, and how it ends.

mod holding;
mod limits;
mod loading;
mod saving;
mod stopping;
mod tls;
mod waiting;
mod workers;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use bloomgate_server::serve::serve_on;
use bloomgate_server::store::{Disk, Fsync, RealDisk};
use bloomgate_server::{Ready, Settings, Stopped};

/// No test waits longer for an answer: a server that hangs fails it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A port that is free, from below those that the system gives to clients: one of another test would take it before it is used.
fn free_port() -> SocketAddr {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(31).wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        if let Ok(free) = TcpListener::bind(("127.0.0.1", 10_000 + (number % 20_000) as u16)) {
            return free.local_addr().unwrap();
        }
    }
}

/// A server on a folder and a free port.
fn settings(folder: &Path) -> Settings {
    Settings {
        resp: Some(free_port()),
        data: Some(folder.to_path_buf()),
        fsync: Fsync::Never,
        threads: 2,
        ..Settings::default()
    }
}

/// A server that runs in this process.
struct Running {
    address: SocketAddr,
    ready: Receiver<Ready>,
    thread: JoinHandle<Result<Stopped, String>>,
}

impl Running {
    /// Starts it on a folder, without waiting until it has read that.
    fn start(folder: &Path) -> Self {
        Self::start_on(Arc::new(RealDisk), folder)
    }

    /// [`start`](Self::start) on a disk that the test holds up.
    fn start_on(disk: Arc<dyn Disk>, folder: &Path) -> Self {
        Self::start_both(disk, settings(folder))
    }

    /// Starts it with these settings.
    fn start_with(settings: Settings) -> Self {
        Self::start_both(Arc::new(RealDisk), settings)
    }

    fn start_both(disk: Arc<dyn Disk>, settings: Settings) -> Self {
        let address = settings.resp.unwrap();
        let (tell, ready) = channel();
        let thread = std::thread::spawn(move || serve_on(disk, &settings, |told| tell.send(told.clone()).unwrap()));
        Self { address, ready, thread }
    }

    fn client(&self) -> Client {
        let started = std::time::Instant::now();
        let stream = loop {
            match TcpStream::connect(self.address) {
                Ok(stream) => break stream,
                Err(error) => assert!(started.elapsed() < PATIENCE && !self.thread.is_finished(), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream))
    }

    fn end(self) -> Result<Stopped, String> {
        self.thread.join().unwrap()
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    /// Types a line; the first line of the reply.
    fn say(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut reply = String::new();
        self.0.read_line(&mut reply).unwrap();
        reply.trim_end().to_owned()
    }

    /// Types a line whose reply is one text; that text.
    fn text(&mut self, line: &str) -> String {
        let length: usize = self.say(line)[1..].parse().unwrap();
        let mut bytes = vec![0; length + 2];
        std::io::Read::read_exact(&mut self.0, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}
