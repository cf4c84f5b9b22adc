//! A server without sockets, disks and clocks, and clients that talk to it.

use std::path::Path;
use std::sync::Arc;

use bloomgate::Secret;
use bloomgate_server::Settings;
use bloomgate_server::engine::clock::Clock;
use bloomgate_server::engine::contracts::Contracts;
use bloomgate_server::engine::journal::Journal;
use bloomgate_server::engine::{Core, Defaults, Engine, Limits};
use bloomgate_server::keeping::opening::Opening;
use bloomgate_server::keeping::{Keeping, SharedKeeping};
use bloomgate_server::session::desk::Desk;
use bloomgate_server::session::{Next, Session, run_job};
use bloomgate_server::store::{Fsync, RealDisk};

/// When the tests take place, in milliseconds since 1970.
pub const NOW_MS: u64 = 1_700_000_000_000;

/// A reply, read back.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Simple(String),
    Error(String),
    Int(i64),
    Bool(bool),
    Double(f64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    pub fn error(&self) -> &str {
        match self {
            Value::Error(text) => text,
            other => panic!("no error: {other:?}"),
        }
    }
    pub fn int(&self) -> i64 {
        match self {
            Value::Int(value) => *value,
            Value::Bool(value) => i64::from(*value),
            other => panic!("no number: {other:?}"),
        }
    }
    pub fn double(&self) -> f64 {
        match self {
            Value::Double(value) => *value,
            Value::Bulk(bytes) => std::str::from_utf8(bytes).unwrap().parse().unwrap(),
            other => panic!("no number: {other:?}"),
        }
    }
    pub fn text(&self) -> &str {
        match self {
            Value::Simple(text) => text,
            Value::Bulk(bytes) => std::str::from_utf8(bytes).unwrap(),
            other => panic!("no text: {other:?}"),
        }
    }
    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::Bulk(bytes) => bytes,
            other => panic!("no bytes: {other:?}"),
        }
    }
    pub fn array(&self) -> &[Value] {
        match self {
            Value::Array(values) => values,
            other => panic!("no array: {other:?}"),
        }
    }
    pub fn ints(&self) -> Vec<i64> {
        self.array().iter().map(Value::int).collect()
    }
    /// A field of a map, or of an array of pairs.
    pub fn field(&self, name: &str) -> &Value {
        match self {
            Value::Map(pairs) => pairs.iter().find(|(key, _)| key.text() == name).map(|(_, value)| value),
            Value::Array(flat) => flat.chunks(2).find(|pair| pair[0].text() == name).map(|pair| &pair[1]),
            _ => None,
        }
        .unwrap_or_else(|| panic!("no field {name}: {self:?}"))
    }
}

fn line<'a>(bytes: &mut &'a [u8]) -> &'a str {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a whole line");
    let line = std::str::from_utf8(&bytes[..end]).unwrap();
    *bytes = &bytes[end + 2..];
    line
}

fn read(bytes: &mut &[u8]) -> Value {
    let head = line(bytes);
    let (sort, rest) = head.split_at(1);
    let count = || rest.parse::<i64>().unwrap();
    match sort {
        "+" => Value::Simple(rest.into()),
        "-" => Value::Error(rest.into()),
        ":" => Value::Int(count()),
        "#" => Value::Bool(rest == "t"),
        "," => Value::Double(rest.parse().unwrap()),
        "_" => Value::Nil,
        "$" | "=" if count() < 0 => Value::Nil,
        "$" | "=" => {
            let (body, after) = bytes.split_at(count() as usize);
            *bytes = &after[2..];
            Value::Bulk(if sort == "=" { body[4..].to_vec() } else { body.to_vec() })
        }
        "*" if count() < 0 => Value::Nil,
        "*" => Value::Array((0..count()).map(|_| read(bytes)).collect()),
        "%" => Value::Map((0..count()).map(|_| (read(bytes), read(bytes))).collect()),
        _ => panic!("{head}"),
    }
}

pub struct Server {
    pub engine: Arc<Engine>,
    pub desk: Desk,
}

impl Server {
    pub fn new() -> Self {
        Self::with(64 << 20, Vec::new())
    }

    pub fn with(max_memory: u64, settings: Vec<(&'static str, String)>) -> Self {
        let contracts = Contracts::new(Some(Secret::from_hex(&"5a".repeat(32)).unwrap()));
        let limits = Limits { max_memory, max_filter_memory: max_memory, max_filters: 1_000 };
        let clock = Clock::fixed(NOW_MS);
        let engine = Engine::new(Journal::nowhere(), contracts, clock, limits, Defaults::default(), 4);
        Self { engine: Arc::new(engine), desk: Desk::new(4, None, "run".into(), settings) }
    }

    /// A server on a real folder, and the snapshots of it.
    pub fn kept(folder: &Path) -> (Self, Arc<Keeping>) {
        Self::kept_by(folder, Clock::start())
    }

    /// The same by a clock of its own.
    pub fn kept_by(folder: &Path, clock: Clock) -> (Self, Arc<Keeping>) {
        let settings =
            Settings { data: Some(folder.to_path_buf()), fsync: Fsync::Never, threads: 2, ..Settings::default() };
        // The same secret in every run: estimates depend on where the bits fall.
        std::fs::create_dir_all(folder).unwrap();
        let key = folder.join("master.key");
        if !key.exists() {
            Secret::from_hex(&"5a".repeat(32)).unwrap().write_file(&key).unwrap();
        }
        let mut opening = Opening::begin(&settings, Arc::new(RealDisk), 4).unwrap();
        Arc::get_mut(&mut opening.engine).unwrap().clock = clock;
        let opened = opening.load().unwrap();
        opened.engine.end_loading();
        assert!(opened.found.unavailable == 0, "{:?}", opened.found);
        let keeping = opened.keeping.unwrap();
        let desk = Desk::new(4, None, "run".into(), Vec::new());
        desk.keeper.set(Arc::new(SharedKeeping(keeping.clone()))).unwrap();
        (Self { engine: opened.engine, desk }, keeping)
    }

    pub fn importing(folder: &Path) -> Self {
        let mut server = Self::with(64 << 20, Vec::new());
        server.desk.told.import_dir = Some(folder.to_path_buf());
        server
    }

    pub fn client(&self, thread: usize) -> Client<'_> {
        let session = Session::new(self.desk.welcome(None), &self.desk);
        Client { server: self, core: Core::new(self.engine.clone(), thread), session }
    }

    /// Lets time pass.
    pub fn at(&self, seconds: f64) {
        self.engine.clock.set(NOW_MS + (seconds * 1_000.0) as u64);
    }
}

pub struct Client<'s> {
    server: &'s Server,
    core: Core,
    session: Session,
}

impl Client<'_> {
    pub fn resp3(mut self) -> Self {
        assert_eq!(self.ask("HELLO 3").field("proto"), &Value::Int(3));
        self
    }

    /// A command whose words have no spaces.
    pub fn ask(&mut self, command: &str) -> Value {
        self.words(&command.split_whitespace().map(str::as_bytes).collect::<Vec<_>>())
    }

    pub fn words(&mut self, words: &[&[u8]]) -> Value {
        let mut input = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            input.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            input.extend_from_slice(word);
            input.extend_from_slice(b"\r\n");
        }
        let mut out = Vec::new();
        loop {
            let turn = self.session.turn(&mut self.core, &self.server.desk, &input, &mut out);
            input.drain(..turn.consumed);
            self.session.forget(turn.consumed);
            match turn.next {
                Next::Read => break,
                Next::Again => {}
                Next::Wait => std::thread::yield_now(),
                Next::Job(job) => {
                    run_job(&mut self.core, &self.server.desk, &job, &mut out);
                }
                other => panic!("{other:?}"),
            }
        }
        let mut rest = &out[..];
        let value = read(&mut rest);
        assert!(rest.is_empty(), "one command, one reply");
        value
    }

    pub fn ok(&mut self, command: &str) {
        assert_eq!(self.ask(command), Value::Simple("OK".into()), "{command}");
    }

    /// A command on many items.
    pub fn items(&mut self, command: &str, items: impl IntoIterator<Item = u64>) -> Value {
        let items: Vec<String> = items.into_iter().map(|item| format!("item-{item}")).collect();
        let words = command.split_whitespace().chain(items.iter().map(String::as_str));
        self.words(&words.map(str::as_bytes).collect::<Vec<_>>())
    }

    /// How many of the items may be there.
    pub fn found(&mut self, name: &str, items: std::ops::Range<u64>) -> u64 {
        self.items(&format!("BG.EXISTS {name}"), items).ints().iter().sum::<i64>() as u64
    }

    /// What must be refused, and with which words.
    pub fn refuses(&mut self, command: &str, words: &str) {
        let reply = self.ask(command);
        assert!(reply.error().contains(words), "{command}: {reply:?} has no {words:?}");
    }
}
