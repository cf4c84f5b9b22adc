//! A server without sockets: commands in, values out, and the time set by hand.

use std::sync::Arc;

use bloomgate::{Address, Secret};
use bloomgate_server::engine::adding::{Added, Copies, ask};
use bloomgate_server::engine::clock::Clock;
use bloomgate_server::engine::contracts::Contracts;
use bloomgate_server::engine::entry::{Body, Entry, Maker};
use bloomgate_server::engine::journal::Journal;
use bloomgate_server::engine::recipe::Recipe;
use bloomgate_server::engine::{Core, Defaults, Engine, Limits};
use bloomgate_server::session::desk::Desk;
use bloomgate_server::session::{Next, Session, run_job};

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Value>),
}

impl Value {
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            other => panic!("no integer: {other:?}"),
        }
    }

    pub fn array(&self) -> &[Value] {
        match self {
            Self::Array(values) => values,
            other => panic!("no array: {other:?}"),
        }
    }

    pub fn error(&self) -> &str {
        match self {
            Self::Error(text) => text,
            other => panic!("no error: {other:?}"),
        }
    }

    pub fn is_ok(&self) -> bool {
        *self == Self::Simple("OK".into())
    }
}

/// The first value of a reply, and what follows it.
fn value(bytes: &[u8]) -> (Value, &[u8]) {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a line");
    let (line, rest) = (std::str::from_utf8(&bytes[1..end]).unwrap(), &bytes[end + 2..]);
    match bytes[0] {
        b'+' => (Value::Simple(line.into()), rest),
        b'-' => (Value::Error(line.into()), rest),
        b':' => (Value::Int(line.parse().unwrap()), rest),
        b'$' if line == "-1" => (Value::Nil, rest),
        b'$' => {
            let length: usize = line.parse().unwrap();
            (Value::Bulk(rest[..length].to_vec()), &rest[length + 2..])
        }
        b'*' => {
            let mut values = Vec::new();
            let mut rest = rest;
            for _ in 0..line.parse::<usize>().unwrap() {
                let (one, after) = value(rest);
                values.push(one);
                rest = after;
            }
            (Value::Array(values), rest)
        }
        other => panic!("no reply begins with {other:?}"),
    }
}

pub struct Server {
    pub engine: Arc<Engine>,
    pub desk: Desk,
    core: Core,
    session: Session,
}

pub const START_MS: u64 = 1_700_000_000_000;

pub fn limits(max_memory: u64) -> Limits {
    Limits { max_memory, max_filter_memory: max_memory, max_filters: 1_000_000 }
}

impl Server {
    pub fn new() -> Self {
        Self::with(limits(1 << 30), Some("5a"))
    }

    /// A server with these limits, and a master secret of this byte again and again.
    pub fn with(limits: Limits, secret: Option<&str>) -> Self {
        let secret = secret.map(|byte| Secret::from_hex(&byte.repeat(32)).unwrap());
        let (contracts, clock) = (Contracts::new(secret), Clock::fixed(START_MS));
        let engine = Arc::new(Engine::new(Journal::nowhere(), contracts, clock, limits, Defaults::default(), 2));
        let desk = Desk::new(2, None, "run".into(), Vec::new());
        let session = Session::new(desk.welcome(None), &desk);
        Self { core: Core::new(engine.clone(), 0), engine, desk, session }
    }

    /// Says a command and takes its reply.
    pub fn say(&mut self, words: &[&[u8]]) -> Value {
        let mut input = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            input.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            input.extend_from_slice(word);
            input.extend_from_slice(b"\r\n");
        }
        let mut out = Vec::new();
        let turn = self.session.turn(&mut self.core, &self.desk, &input, &mut out);
        assert_eq!(turn.consumed, input.len());
        self.session.forget(turn.consumed);
        match turn.next {
            Next::Read | Next::Again => {}
            Next::Job(job) => drop(run_job(&mut self.core, &self.desk, &job, &mut out)),
            other => panic!("{other:?} after {words:?}"),
        }
        let (reply, rest) = value(&out);
        assert!(rest.is_empty());
        reply
    }

    /// A command of texts.
    pub fn tell(&mut self, line: &str) -> Value {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.say(&words)
    }

    /// One step of a dump.
    pub fn scan(&mut self, command: &str, name: &str, iterator: i64) -> (i64, Value) {
        let reply = self.tell(&format!("{command} {name} {iterator}"));
        match reply.array() {
            [next, data] => (next.int(), data.clone()),
            other => panic!("{other:?}"),
        }
    }

    /// All chunks of a dump as they came, header first.
    pub fn dump(&mut self, family: &str, name: &str) -> Vec<(i64, Vec<u8>)> {
        let mut chunks = Vec::new();
        let mut next = 0;
        loop {
            let (after, data) = self.scan(&format!("{family}.SCANDUMP"), name, next);
            match data {
                Value::Bulk(bytes) if after != 0 => chunks.push((after, bytes)),
                // The end is an empty string in one family and nothing in the other, as with RedisBloom.
                end => {
                    let expected = if family == "BF" { Value::Bulk(Vec::new()) } else { Value::Nil };
                    assert_eq!((after, end), (0, expected));
                    return chunks;
                }
            }
            next = after;
        }
    }

    pub fn load(&mut self, family: &str, name: &str, chunk: &(i64, Vec<u8>)) -> Value {
        let (command, iterator) = (format!("{family}.LOADCHUNK"), chunk.0.to_string());
        self.say(&[command.as_bytes(), name.as_bytes(), iterator.as_bytes(), &chunk.1])
    }

    pub fn load_all(&mut self, family: &str, name: &str, chunks: &[(i64, Vec<u8>)]) {
        for chunk in chunks {
            assert_eq!(self.tell(&format!("EXISTS {name}")), Value::Int(0), "it is seen before it is whole");
            let reply = self.load(family, name, chunk);
            assert!(reply.is_ok(), "{reply:?}");
        }
        assert_eq!(self.tell(&format!("EXISTS {name}")), Value::Int(1));
    }

    pub fn entry(&self, name: &str) -> Entry {
        self.engine.find(name.as_bytes()).unwrap_or_else(|| panic!("no {name}"))
    }

    pub fn make(&mut self, name: &str, recipe: Recipe, maker: Maker) {
        let prepared = self.engine.prepare(name.as_bytes(), recipe, maker).unwrap();
        self.engine.stop().create(prepared).unwrap();
    }

    pub fn add(&mut self, name: &str, items: &[String]) -> Vec<Added> {
        let items: Vec<&[u8]> = items.iter().map(|item| item.as_bytes()).collect();
        let (engine, entry) = (self.engine.clone(), self.entry(name));
        let mut added = Vec::new();
        let copies = match entry.maker() {
            Maker::Cf { .. } => Copies::Many,
            _ => Copies::One,
        };
        self.core.scratch.add(&mut engine.pass(0), &entry, &items, copies, &mut added).unwrap();
        added
    }

    pub fn remove(&mut self, name: &str, items: &[String]) -> Vec<bool> {
        let items: Vec<&[u8]> = items.iter().map(|item| item.as_bytes()).collect();
        let (engine, entry) = (self.engine.clone(), self.entry(name));
        let mut removed = Vec::new();
        self.core.scratch.remove(&mut engine.pass(0), &entry, &items, b"", &mut removed).unwrap();
        removed
    }

    pub fn answers(&self, name: &str, items: &[String]) -> Vec<bool> {
        let items: Vec<&[u8]> = items.iter().map(|item| item.as_bytes()).collect();
        let mut answers = Vec::new();
        ask(&self.entry(name), &items, &mut answers).unwrap();
        answers
    }

    /// The file of a filter: the same filter is the same bytes.
    pub fn address(&self, name: &str) -> Address {
        match self.entry(name).body() {
            Body::Small(small) => Address::of(&small.copy().unwrap().to_bytes().unwrap()),
            Body::Shared(filter) => Address::of(&filter.to_bytes().unwrap()),
            Body::Guarded(filter) => Address::of(&filter.read().unwrap().to_bytes().unwrap()),
            other => panic!("{other:?}"),
        }
    }

    pub fn wait_ms(&mut self, ms: u64) {
        self.engine.clock.set(self.engine.clock.now_ms() + ms);
    }
}

pub fn items(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}:{i}")).collect()
}

/// Random numbers that are the same every time (xorshift, Marsaglia 2003).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}
