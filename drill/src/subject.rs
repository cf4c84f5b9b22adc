//! What is tested: Bloomgate, or Redis standing in for it to prove the drills themselves. Everything that differs
//! between the two is here: how each is started, and how the same wish is said to it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::structure;
use crate::wire::{Reply, Wire};

/// The filter that takes adds only, and the one that counts and deletes.
pub const ADDS: &str = "drill:adds";
const COUNTS: &str = "drill:counts";
/// A window of two minutes that turns every two seconds, and a filter that counts and whose removals have request ids.
pub const WINDOW: &str = "drill:window";
pub const COUNTING: &str = "drill:counting";

/// When an acknowledged write is on the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    Always,
    EverySecond,
    Never,
}

impl Policy {
    pub fn name(self) -> &'static str {
        match self {
            Policy::Always => "always",
            Policy::EverySecond => "every-second",
            Policy::Never => "never",
        }
    }

    pub fn parse(word: &str) -> Result<Policy, String> {
        [Policy::Always, Policy::EverySecond, Policy::Never]
            .into_iter()
            .find(|policy| policy.name() == word)
            .ok_or_else(|| format!("--fsync takes always, every-second or never, got '{word}'"))
    }
}

/// Whose durability is drilled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Bloomgate,
    Redis,
}

/// The kind and the program.
#[derive(Clone, Debug)]
pub struct Subject {
    pub kind: Kind,
    pub program: PathBuf,
    /// Where its HTTP side is to be, if it is to have one.
    pub http: Option<std::net::SocketAddr>,
}

/// How copies of items are added and removed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Copies {
    /// In a cuckoo filter.
    Cuckoo,
    /// In a counting filter, each removal under a request id.
    Requests,
}

/// What a server says of one item.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Count(i64),
    Refused(String),
}

impl Subject {
    /// The command line that serves `data` on loopback. Redis cannot choose a port, so it is given one.
    pub fn command(&self, data: &Path, policy: Policy, port: u16) -> Vec<String> {
        let program = self.program.display().to_string();
        let data = data.display().to_string();
        let words: Vec<String> = match self.kind {
            Kind::Bloomgate => {
                let http = self.http.map_or("none".to_owned(), |address| address.to_string());
                let words =
                    ["serve", "--resp", "127.0.0.1:0", "--http", &http, "--data", &data, "--fsync", policy.name()];
                let mut words: Vec<String> = words.map(String::from).into();
                // Only of drills that build filters from files.
                let import = structure::import_folder(Path::new(&data));
                if import.is_dir() {
                    words.extend(["--import-dir".into(), import.display().to_string()]);
                }
                words
            }
            Kind::Redis => {
                let port = port.to_string();
                let fsync = match policy {
                    Policy::Always => "always",
                    Policy::EverySecond => "everysec",
                    Policy::Never => "no",
                };
                let words = ["--port", &port, "--bind", "127.0.0.1", "--dir", &data, "--appendonly", "yes"];
                let more = ["--appendfsync", fsync, "--save", "", "--enable-debug-command", "no"];
                words.iter().chain(&more).map(ToString::to_string).collect()
            }
        };
        std::iter::once(program).chain(words).collect()
    }

    /// The folder must be there before Redis starts; Bloomgate makes its own.
    pub fn prepare(&self, data: &Path) -> Result<(), String> {
        match self.kind {
            Kind::Bloomgate => Ok(()),
            Kind::Redis => std::fs::create_dir_all(data).map_err(|error| format!("make {}: {error}", data.display())),
        }
    }

    /// Whether a line of the server's output says that it serves, and where.
    pub fn ready(&self, line: &str, port: u16) -> Option<std::net::SocketAddr> {
        match self.kind {
            Kind::Redis => line.contains("Ready to accept").then(|| ([127, 0, 0, 1], port).into()),
            Kind::Bloomgate => {
                let (_, rest) = line.split_once("ready")?;
                let word = |word: &str| word.trim_matches(|c: char| !c.is_ascii_hexdigit() && c != '[').parse().ok();
                rest.split_whitespace().find_map(word)
            }
        }
    }

    /// Makes the filters that no add makes. Small, so that they grow under load; a filter that is there stays.
    pub fn reserve(&self, wire: &mut Wire) -> io::Result<()> {
        if self.kind == Kind::Redis {
            return Ok(());
        }
        for (word, arguments) in
            // Fingerprints so wide that no two items look alike: of those that do, a fourth is refused.
            [
                ("BF.RESERVE", &[ADDS, "0.0001", "20000"][..]),
                ("CF.RESERVE", &[COUNTS, "20000", "EXPANSION", "2", "RATE", "0.000001"]),
                ("BG.CREATE", &[COUNTING, "KIND", "counting", "CAPACITY", "100000", "RATE", "0.001"]),
                (
                    "BG.CREATE",
                    &[
                        WINDOW,
                        "KIND",
                        "rotating",
                        "CAPACITY",
                        "200000",
                        "RATE",
                        "0.001",
                        "WINDOW",
                        "120",
                        "GENERATIONS",
                        "60",
                    ],
                ),
            ]
        {
            match wire.ask(word, arguments)? {
                Reply::Error(text) if !text.contains("exists") => {
                    return Err(io::Error::other(format!("{word} was answered {text:?}")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts an add of several items to the filter for them.
    pub fn add(&self, wire: &mut Wire, items: &[Vec<u8>]) {
        self.add_to(ADDS, wire, items);
    }

    /// The same as a transaction of single adds: what they answer is its last reply.
    pub fn add_together(&self, filter: &str, wire: &mut Wire, items: &[Vec<u8>]) {
        wire.push::<&str>("MULTI", &[]);
        items.iter().for_each(|item| self.add_to(filter, wire, std::slice::from_ref(item)));
        wire.push::<&str>("EXEC", &[]);
    }

    /// Puts an add of several items to a filter. Redis has keys of one kind.
    pub fn add_to(&self, filter: &str, wire: &mut Wire, items: &[Vec<u8>]) {
        match (self.kind, items) {
            (Kind::Bloomgate, [item]) => wire.push("BF.ADD", &[filter.as_bytes(), item]),
            (Kind::Bloomgate, _) => wire.push("BF.MADD", &named(filter, items)),
            (Kind::Redis, [item]) => wire.push("SET", &[item, &b"1"[..]]),
            (Kind::Redis, _) => {
                let pairs: Vec<&[u8]> = items.iter().flat_map(|item| [&item[..], b"1"]).collect();
                wire.push("MSET", &pairs);
            }
        }
    }

    /// The same to a filter of any kind.
    pub fn add_any(&self, filter: &str, wire: &mut Wire, items: &[Vec<u8>]) {
        match self.kind {
            Kind::Bloomgate => wire.push("BG.ADD", &named(filter, items)),
            Kind::Redis => self.add_to(filter, wire, items),
        }
    }

    /// Puts a copy of a filter under another name. Redis, which has no filters, is given the items of it once more.
    pub fn copy(&self, from: &str, to: &str, wire: &mut Wire, items: &[Vec<u8>]) {
        match self.kind {
            Kind::Bloomgate => wire.push("COPY", &[from, to]),
            Kind::Redis => self.add_to(to, wire, items),
        }
    }

    /// Which of the `count` items of an add were acknowledged; the first error if there is one.
    pub fn added(&self, reply: &Reply, count: usize) -> (u32, Option<String>) {
        let all = ((1_u64 << count) - 1) as u32;
        match reply {
            Reply::Status(_) => (all, None),
            Reply::Integer(0 | 1) if count == 1 => (all, None),
            Reply::Array(elements) if elements.len() == count => {
                let mut mask = 0;
                let mut first = None;
                for (i, element) in elements.iter().enumerate() {
                    match element {
                        Reply::Integer(0 | 1) | Reply::Status(_) => mask |= 1 << i,
                        other => drop(first.get_or_insert_with(|| format!("{other:?}"))),
                    }
                }
                (mask, first)
            }
            other => (0, Some(format!("{other:?}"))),
        }
    }

    /// Puts a question for several items of the filter for adds.
    pub fn ask(&self, wire: &mut Wire, items: &[Vec<u8>]) {
        self.ask_in(ADDS, wire, items);
    }

    /// The same for a filter.
    pub fn ask_in(&self, filter: &str, wire: &mut Wire, items: &[Vec<u8>]) {
        match self.kind {
            Kind::Bloomgate => wire.push("BF.MEXISTS", &named(filter, items)),
            Kind::Redis => wire.push("MGET", items),
        }
    }

    /// Puts the question for the copies of several items of a counting filter.
    pub fn ask_counts(&self, filter: &str, wire: &mut Wire, items: &[Vec<u8>]) {
        match self.kind {
            Kind::Bloomgate => wire.push("BG.COUNT", &named(filter, items)),
            Kind::Redis => wire.push("MGET", items),
        }
    }

    /// The answers to it.
    pub fn answers(&self, reply: Reply, count: usize) -> Vec<Answer> {
        match reply {
            Reply::Array(elements) if elements.len() == count => elements.into_iter().map(answer).collect(),
            other => vec![Answer::Refused(format!("{other:?}")); count],
        }
    }

    /// Puts one more copy of an item into the counting filter, or takes one out.
    pub fn change(&self, wire: &mut Wire, item: &[u8], delete: bool) {
        match (self.kind, delete) {
            (Kind::Bloomgate, false) => wire.push("CF.ADD", &[COUNTS.as_bytes(), item]),
            (Kind::Bloomgate, true) => wire.push("CF.DEL", &[COUNTS.as_bytes(), item]),
            (Kind::Redis, false) => wire.push("INCR", &[item]),
            (Kind::Redis, true) => wire.push("DECR", &[item]),
        }
    }

    /// Puts the same to the filter whose removals have request ids: nothing is done twice under one.
    pub fn change_by(&self, wire: &mut Wire, item: &[u8], request: Option<&str>) {
        match (self.kind, request) {
            (Kind::Redis, _) => self.change(wire, item, request.is_some()),
            (Kind::Bloomgate, None) => wire.push("BG.ADD", &[COUNTING.as_bytes(), item]),
            (Kind::Bloomgate, Some(id)) => {
                wire.push("BG.REMOVE", &[COUNTING.as_bytes(), b"REQUEST", id.as_bytes(), b"ITEMS", item]);
            }
        }
    }

    /// Whether a request can be repeated under its id.
    pub fn has_request_ids(&self) -> bool {
        self.kind == Kind::Bloomgate
    }

    /// Whether it was done: an error when the server refused, false when it says there was nothing to delete.
    pub fn changed(&self, reply: &Reply, delete: bool) -> Result<bool, String> {
        match (self.kind, reply) {
            // One more copy of an item that is there is no new item.
            (Kind::Bloomgate, Reply::Array(one)) if matches!(one[..], [Reply::Integer(0 | 1)]) => {
                Ok(!delete || one[0] == Reply::Integer(1))
            }
            (Kind::Bloomgate, Reply::Integer(done)) => Ok(*done == 1),
            (Kind::Redis, Reply::Integer(count)) => Ok(*count >= 0),
            (_, other) => Err(format!("{other:?}")),
        }
    }

    /// Puts the question for the copies of an item.
    pub fn ask_count(&self, wire: &mut Wire, item: &[u8], copies: Copies) {
        match (self.kind, copies) {
            (Kind::Bloomgate, Copies::Cuckoo) => wire.push("CF.COUNT", &[COUNTS.as_bytes(), item]),
            (Kind::Bloomgate, Copies::Requests) => wire.push("BG.COUNT", &[COUNTING.as_bytes(), item]),
            (Kind::Redis, _) => wire.push("GET", &[item]),
        }
    }

    /// The copies that a counted filter says it holds; nothing where nobody can say.
    pub fn total(&self, wire: &mut Wire, copies: Copies) -> io::Result<Option<i64>> {
        let told = match (self.kind, copies) {
            (Kind::Redis, _) => return Ok(None),
            (Kind::Bloomgate, Copies::Cuckoo) => items_told(&wire.ask("CF.INFO", &[COUNTS])?),
            (Kind::Bloomgate, Copies::Requests) => match wire.ask("BG.INFO", &[COUNTING, "items"])? {
                Reply::Integer(items) => Ok(items),
                Reply::Error(text) if text.contains("not found") => Ok(0),
                other => Err(format!("BG.INFO tells no integer 'items': {other:?}")),
            },
        };
        told.map(Some).map_err(io::Error::other)
    }

    /// Asks for a snapshot and waits for it; an error the server answered is given back as text.
    pub fn save(&self, wire: &mut Wire) -> io::Result<Result<(), String>> {
        let word = if self.kind == Kind::Redis { "BGREWRITEAOF" } else { "SAVE" };
        if let Reply::Error(text) = wire.ask::<&str>(word, &[])? {
            return Ok(Err(text));
        }
        let begin = Instant::now();
        while self.kind == Kind::Redis && begin.elapsed() < Duration::from_secs(10) {
            match wire.ask("INFO", &["persistence"])? {
                Reply::Bulk(text) if String::from_utf8_lossy(&text).contains("rewrite_in_progress:1") => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => break,
            }
        }
        Ok(Ok(()))
    }

    /// Asks for a backup; where it is, or the error that was answered as text. Redis has no word for it.
    pub fn backup(&self, wire: &mut Wire, name: &str) -> io::Result<Result<Option<PathBuf>, String>> {
        if self.kind == Kind::Redis {
            return Ok(Ok(None));
        }
        Ok(match wire.ask("BG.BACKUP", &[name])? {
            Reply::Bulk(path) => Ok(Some(PathBuf::from(String::from_utf8_lossy(&path).into_owned()))),
            other => Err(format!("{other:?}")),
        })
    }

    /// Its version, for the report.
    pub fn version(&self) -> String {
        let out = Command::new(&self.program).arg("--version").output();
        let text = out.map(|out| String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or("").to_string());
        let text = text.unwrap_or_else(|error| format!("{}: {error}", self.program.display()));
        text.split(" sha=").next().unwrap_or("").to_string()
    }
}

/// A filter and items, as commands take them.
fn named<'a>(filter: &'a str, items: &'a [Vec<u8>]) -> Vec<&'a [u8]> {
    std::iter::once(filter.as_bytes()).chain(items.iter().map(|item| &item[..])).collect()
}

/// How many items a reply to CF.INFO tells of.
fn items_told(reply: &Reply) -> Result<i64, String> {
    let is = |name: &Reply| match name {
        Reply::Status(text) => text == "Number of items inserted",
        Reply::Bulk(text) => text == b"Number of items inserted",
        _ => false,
    };
    let value = match reply {
        // A filter whose making was lost holds nothing.
        Reply::Error(text) if text.contains("not found") => return Ok(0),
        Reply::Array(pairs) => pairs.chunks_exact(2).find(|pair| is(&pair[0])).map(|pair| &pair[1]),
        _ => None,
    };
    match value {
        Some(Reply::Integer(items)) => Ok(*items),
        _ => Err(format!("CF.INFO tells no integer 'Number of items inserted': {reply:?}")),
    }
}

/// One element as a count of copies.
pub fn answer(reply: Reply) -> Answer {
    match reply {
        Reply::Integer(count) => Answer::Count(count),
        Reply::Nothing => Answer::Count(0),
        Reply::Array(mut one) if one.len() == 1 => answer(one.swap_remove(0)),
        Reply::Bulk(text) => match String::from_utf8_lossy(&text).parse() {
            Ok(count) => Answer::Count(count),
            Err(_) => Answer::Refused(format!("{text:?}")),
        },
        other => Answer::Refused(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_gives_the_address() {
        let subject = Subject { kind: Kind::Bloomgate, program: "bloomgate".into(), http: None };
        let address = Some("127.0.0.1:41234".parse().unwrap());
        assert_eq!(subject.ready("bloomgate: ready on 127.0.0.1:41234", 0), address);
        assert_eq!(subject.ready("bloomgate: ready on 127.0.0.1:41234 (RESP), 3 filters.", 0), address);
        assert_eq!(subject.ready("ready", 0), None);
        assert_eq!(subject.ready("bloomgate: loading 127.0.0.1:1", 0), None);
    }

    #[test]
    fn the_sum_is_read_by_its_name() {
        let name = |text: &str| Reply::Status(text.into());
        let pairs = vec![name("Size"), Reply::Integer(9), name("Number of items inserted"), Reply::Integer(7)];
        assert_eq!(items_told(&Reply::Array(pairs.clone())), Ok(7));
        assert_eq!(items_told(&Reply::Error("ERR not found".into())), Ok(0));
        assert!(items_told(&Reply::Array(pairs[..2].to_vec())).is_err());
        assert!(items_told(&Reply::Error("ERR quarantined".into())).is_err());
    }

    #[test]
    fn an_item_refused_among_others_is_not_acknowledged() {
        let subject = Subject { kind: Kind::Bloomgate, program: "bloomgate".into(), http: None };
        let reply = Reply::Array(vec![Reply::Integer(1), Reply::Error("ERR full".into()), Reply::Integer(0)]);
        assert_eq!(subject.added(&reply, 3).0, 0b101);
        assert!(subject.added(&reply, 3).1.is_some());
        assert_eq!(subject.added(&reply, 2).0, 0);
        assert_eq!(subject.added(&Reply::Integer(0), 1), (1, None));
    }
}
