//! A server in this process, and a client of HTTP/1.1 that says exactly what it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bloomgate_server::serve::serve_on;
use bloomgate_server::settings::HttpAt;
use bloomgate_server::store::{Disk, Fsync, RealDisk};
use bloomgate_server::{Ready, Settings, Stopped};
use serde_json::Value;

/// No test waits longer for an answer: a server that hangs fails it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Any port that is free.
const ANY: &str = "127.0.0.1:0";

/// A server that keeps nothing.
pub fn settings() -> Settings {
    Settings {
        resp: ANY.parse().ok(),
        http: HttpAt::At(ANY.parse().unwrap()),
        fsync: Fsync::Never,
        threads: 2,
        ..Settings::default()
    }
}

/// A server that runs in this process.
pub struct Running {
    pub resp: SocketAddr,
    pub http: SocketAddr,
    thread: JoinHandle<Result<Stopped, String>>,
}

impl Running {
    /// Starts one that keeps nothing.
    pub fn start() -> Self {
        Self::start_with(settings())
    }

    /// Starts one on a folder.
    pub fn start_in(folder: &Path, fsync: Fsync) -> Self {
        Self::start_with(Settings { data: Some(folder.to_path_buf()), fsync, ..settings() })
    }

    /// Starts one with these settings, and waits until it is ready.
    pub fn start_with(settings: Settings) -> Self {
        Self::start_on(Arc::new(RealDisk), settings)
    }

    /// The same on a disk that a test holds up.
    pub fn start_on(disk: Arc<dyn Disk>, settings: Settings) -> Self {
        let (tell, told) = channel::<Ready>();
        let thread = std::thread::spawn(move || serve_on(disk, &settings, |ready| tell.send(ready.clone()).unwrap()));
        let ready = told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("not ready: {:?}", thread.is_finished()));
        Self { resp: ready.address, http: ready.http.unwrap(), thread }
    }

    /// Starts one that is not waited for, on ports that were free a moment ago.
    pub fn begin_on(disk: Arc<dyn Disk>, settings: Settings) -> Self {
        let free = || std::net::TcpListener::bind(ANY).unwrap().local_addr().unwrap();
        let (resp, http) = (free(), free());
        let settings = Settings { resp: Some(resp), http: HttpAt::At(http), ..settings };
        let thread = std::thread::spawn(move || serve_on(disk, &settings, |_| ()));
        let begun = Instant::now();
        while TcpStream::connect(http).is_err() {
            assert!(begun.elapsed() < PATIENCE && !thread.is_finished(), "it never listened");
        }
        Self { resp, http, thread }
    }

    /// A client of HTTP.
    pub fn client(&self) -> Client {
        Client::new(self.http)
    }

    /// Gives commands over RESP, a line each; the first line of each reply.
    pub fn resp(&self, lines: &[&str]) -> Vec<String> {
        let mut stream = BufReader::new(TcpStream::connect(self.resp).unwrap());
        stream.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
        let mut say = |line: &&str| {
            stream.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
            first_line_of_reply(&mut stream)
        };
        lines.iter().map(&mut say).collect()
    }

    /// Waits until it has stopped.
    pub fn end(self) {
        self.thread.join().unwrap().unwrap();
    }

    /// Stops it, as a user with this login would.
    pub fn stop_as(self, login: Option<&str>) {
        let auth = login.map(|login| format!("AUTH {login}"));
        let lines: Vec<&str> = auth.as_deref().into_iter().chain(["SHUTDOWN"]).collect();
        self.resp(&lines);
        self.thread.join().unwrap().unwrap();
    }

    /// Stops it.
    pub fn stop(self) {
        self.stop_as(None);
    }
}

/// Reads one reply of RESP2 to its end, so that the command after it is not given before this one was done.
fn first_line_of_reply(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let length = line.get(1..).and_then(|rest| rest.trim_end().parse::<usize>().ok());
    match (line.as_bytes().first(), length) {
        (Some(b'*'), Some(elements)) => (0..elements).for_each(|_| drop(first_line_of_reply(stream))),
        (Some(b'$'), Some(bytes)) => stream.read_exact(&mut vec![0; bytes + 2]).unwrap(),
        _ => {}
    }
    line.trim_end().to_owned()
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The answer, if it has this status.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:?} {}", self.headers, String::from_utf8_lossy(&self.body));
        self
    }

    /// The problem of this name.
    #[track_caller]
    pub fn problem(self, status: u16, name: &str) -> String {
        let answer = self.is(status);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let json = answer.json();
        assert_eq!(json["type"], format!("urn:bloomgate:problem:{name}"), "{json}");
        assert_eq!(json["status"], status);
        json["detail"].as_str().unwrap().to_owned()
    }
}

/// A connection that is kept.
pub struct Client {
    stream: BufReader<TcpStream>,
    host: String,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream), host: address.to_string(), headers: Vec::new() }
    }

    /// The same with a header on every request.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, logged in.
    pub fn login(self, user: &str, password: &str) -> Self {
        let login = bloomgate_http::base64::encode(format!("{user}:{password}").as_bytes());
        self.with("authorization", &format!("Basic {login}"))
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub fn delete(&mut self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"")
    }

    pub fn put(&mut self, path: &str) -> Answer {
        self.send("PUT", path, &[], b"")
    }

    /// A body of JSON.
    pub fn json(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(method, path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    /// A request with these headers and a body.
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let own = self.headers.iter().map(|(name, value)| (&**name, &**value));
        let all: Vec<(&str, &str)> = own.chain(headers.iter().copied()).collect();
        if !all.iter().any(|(name, _)| *name == "host") {
            head += &format!("host: {}\r\n", self.host);
        }
        all.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        if !body.is_empty() || method != "GET" {
            head += &format!("content-length: {}\r\n", body.len());
        }
        head += "\r\n";
        let mut stream = self.stream.get_ref().try_clone().unwrap();
        let whole = [head.as_bytes(), body].concat();
        // From a thread of its own: an answer may come before the body is sent.
        let sending = std::thread::spawn(move || stream.write_all(&whole));
        let answer = self.answer(method == "HEAD");
        let _ = sending.join().unwrap();
        answer
    }

    /// Bytes as they are, and nothing is waited for.
    pub fn put_raw(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> Answer {
        self.stream.get_mut().write_all(bytes).unwrap();
        self.answer(false)
    }

    /// The next answer.
    pub fn answer(&mut self, head_only: bool) -> Answer {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {line:?}")).parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if head_only || matches!(status, 100 | 204 | 304) {
            return answer;
        }
        match answer.header("content-length").map(|length| length.parse().unwrap()) {
            Some(length) => {
                answer.body.resize(length, 0);
                self.stream.read_exact(&mut answer.body).unwrap();
            }
            None => loop {
                let mut line = String::new();
                self.stream.read_line(&mut line).unwrap();
                let length = usize::from_str_radix(line.trim(), 16).unwrap();
                let mut piece = vec![0; length + 2];
                self.stream.read_exact(&mut piece).unwrap();
                answer.body.extend_from_slice(&piece[..length]);
                if length == 0 {
                    break;
                }
            },
        }
        answer
    }
}
