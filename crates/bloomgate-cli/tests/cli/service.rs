//! A verb that runs until it is told to stop: started in a scene, heard, told, and refused.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::scene::Scene;

/// No test waits longer than this for an answer: a service that hangs fails the test instead of holding it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A command that runs in the scene, without what the caller's shell says about services.
pub fn bloomgate(scene: &Scene, arguments: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BLOOMGATE_") && name != "BLOOMGATE_SIMD" {
            command.env_remove(name);
        }
    }
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C.UTF-8").current_dir(scene.path(""));
    command.args(arguments.split_whitespace()).envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// A running service; it is killed if the test ends before it.
pub struct Running {
    pub child: Child,
    pub port: u16,
    said: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a service, and waits for the line in which it says its port.
    pub fn start(
        scene: &Scene,
        arguments: &str,
        variables: &[(&str, &str)],
        port_in: impl Fn(&str) -> Option<u16>,
    ) -> Self {
        Self::spawn(bloomgate(scene, arguments, variables).stdout(Stdio::null()), port_in)
    }

    /// Starts a command that becomes a service, and waits for the line in which it says its port.
    pub fn spawn(command: &mut Command, port_in: impl Fn(&str) -> Option<u16>) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let port = loop {
            let Some(line) = lines.next() else { panic!("it ended: {:?}\n{said}", child.wait()) };
            let line = line.unwrap();
            said.push_str(&format!("{line}\n"));
            if let Some(port) = port_in(&line) {
                break port;
            }
        };
        let said = Arc::new(Mutex::new(said));
        let listening = said.clone();
        let listener = std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| listening.lock().unwrap().push_str(&format!("{line}\n")));
        });
        Self { child, port, said, listener: Some(listener) }
    }

    /// A connection to it, on which no answer is waited for too long.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// All that it has said so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Waits until it has said these words.
    #[track_caller]
    pub fn wait_for(&self, words: &str) {
        let begun = Instant::now();
        while !self.said().contains(words) {
            assert!(begun.elapsed() < PATIENCE, "{words:?} is not in {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn signal(&self, name: &str) {
        let told = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
    }

    /// Waits until it has ended; its exit code, none if a signal ended it, and all that it said.
    pub fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.listener.take().unwrap().join().unwrap();
        (code, self.said())
    }

    /// Asks it to stop as a service manager does, which must end well; all that it said.
    #[track_caller]
    pub fn stop(self) -> String {
        self.signal("-TERM");
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{said}");
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service that must be refused at once, with exit code 2 and all of this in its message.
#[track_caller]
pub fn refused(scene: &Scene, arguments: &str, variables: &[(&str, &str)], says: &[&str]) {
    let ran = bloomgate(scene, arguments, variables).output().unwrap();
    let error = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{arguments} {variables:?}: {error}");
    for words in says {
        assert!(error.contains(words), "{arguments} {variables:?}: {words:?} is not in {error}");
    }
    assert!(!error.contains("panicked") && !error.contains("ready on"), "{error}");
}

/// A service that must tell its manager, through the socket in its variables, that it is ready and that it stops.
#[track_caller]
pub fn tells_its_manager(scene: &Scene, start: impl FnOnce(&[(&str, &str)]) -> Running) {
    let path = scene.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let running = start(&[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    let mut state = [0; 64];
    let length = socket.recv(&mut state).unwrap();
    assert_eq!(&state[..length], b"READY=1");
    running.stop();
    let length = socket.recv(&mut state).unwrap();
    assert_eq!(&state[..length], b"STOPPING=1");
}
