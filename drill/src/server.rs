//! One run of the server: started on a folder, ready or gone, ended by its process id and no other way.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::subject::{Policy, Subject};
use crate::system;

/// A running server.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    /// All it printed.
    pub log: PathBuf,
    /// How long it took until it served.
    pub started: Duration,
}

/// How a start can end.
pub enum Start {
    Ready(Server),
    /// It ended by itself before it served: with which status, and what it printed.
    Gone(ExitStatus, String),
}

/// Starts and waits until it serves or is gone; `prefix` is a command line to run it under.
pub fn start(
    subject: &Subject,
    data: &Path,
    policy: Policy,
    log: &Path,
    prefix: &[String],
    patience: Duration,
) -> Result<Start, String> {
    subject.prepare(data)?;
    let say = |error: std::io::Error| format!("start {}: {error}", subject.program.display());
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(say)?.port();
    let words: Vec<String> = prefix.iter().cloned().chain(subject.command(data, policy, port)).collect();
    let output = File::create(log).map_err(say)?;
    let begin = Instant::now();
    let child = Command::new(&words[0])
        .args(&words[1..])
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(say)?)
        .stderr(output)
        .spawn()
        .map_err(say)?;
    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    let mut server = Server { child, address, log: log.into(), started: Duration::ZERO };
    loop {
        let gone = server.child.try_wait().map_err(say)?;
        let text = server.printed();
        if let Some(status) = gone {
            return Ok(Start::Gone(status, text));
        }
        // Whole lines only: half a line may hold half a port.
        let lines = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        if let Some(address) = lines.lines().find_map(|line| subject.ready(line, port)) {
            server.address = address;
            server.started = begin.elapsed();
            return Ok(Start::Ready(server));
        }
        if begin.elapsed() > patience {
            return Err(format!("not ready and not gone after {patience:?}; it printed:\n{text}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// As [`start`], where anything but a server is a failure.
pub fn must_start(subject: &Subject, data: &Path, policy: Policy, log: &Path) -> Result<Server, String> {
    match start(subject, data, policy, log, &[], Duration::from_secs(60))? {
        Start::Ready(server) => Ok(server),
        Start::Gone(status, text) => {
            Err(format!("the server did not start unaided on {}: {status}; it printed:\n{text}", data.display()))
        }
    }
}

impl Server {
    /// All it printed so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The status with which it ended by itself, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// kill -9. No panic may have come before.
    pub fn kill(mut self) -> Result<(), String> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        no_panic(&self.printed())
    }

    /// SIGTERM, and how it ended: within `patience`, or that is a failure.
    pub fn stop(mut self, patience: Duration) -> Result<ExitStatus, String> {
        system::terminate(self.child.id())?;
        let begin = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                no_panic(&self.printed())?;
                return Ok(status);
            }
            if begin.elapsed() > patience {
                return Err(format!("still running {patience:?} after SIGTERM; it printed:\n{}", self.printed()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A panic is a finding whatever the server did afterwards.
pub fn no_panic(text: &str) -> Result<(), String> {
    match text.contains("panicked") {
        true => Err(format!("the server panicked:\n{text}")),
        false => Ok(()),
    }
}
