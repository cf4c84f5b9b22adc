//! A real redis-server, started here in an empty folder, that tests stop, continue, kill and start again.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server with its folder. It ends with the test.
pub struct RedisServer {
    folder: tempfile::TempDir,
    options: Vec<String>,
    port: u16,
    child: Child,
}

/// A port that nobody uses now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl RedisServer {
    /// One that keeps nothing unless it is told to SAVE.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// One with more options.
    pub fn start_with(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let port = free_port();
        let child = spawn(&folder, port, &options);
        let mut server = Self { folder, options, port, child };
        server.wait();
        server
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, with what comes before the host (`:password@`) and after the port (`/2`).
    pub fn url(&self, before: &str, after: &str) -> String {
        format!("redis://{before}127.0.0.1:{}{after}", self.port)
    }

    /// A client of its own for a test, to a database.
    pub fn client(&self, before: &str, database: u8) -> redis::Connection {
        redis::Client::open(self.url(before, &format!("/{database}"))).unwrap().get_connection().unwrap()
    }

    /// It takes connections and bytes, and answers nothing.
    pub fn hold(&self) {
        self.signal("-STOP");
    }

    /// It goes on where it was held.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same port and folder.
    pub fn start_again(&mut self) {
        self.child = spawn(&self.folder, self.port, &self.options);
        self.wait();
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn wait(&mut self) {
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(self.child.try_wait().unwrap().is_none(), "redis-server ended");
            assert!(began.elapsed() < Duration::from_secs(30), "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn spawn(folder: &tempfile::TempDir, port: u16, options: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
        .arg(folder.path())
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is missing: install it")
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // One that is held takes no notice of anything but this.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
