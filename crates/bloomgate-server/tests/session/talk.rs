//! A conversation with an engine in memory: words in, the reply in readable lines out.

use std::sync::Arc;

use bloomgate::Secret;
use bloomgate_server::engine::clock::Clock;
use bloomgate_server::engine::contracts::Contracts;
use bloomgate_server::engine::journal::Journal;
use bloomgate_server::engine::{Core, Defaults, Engine, Limits};
use bloomgate_server::session::desk::Desk;
use bloomgate_server::session::{Next, Session, run_job};

/// When the tests' clock stands: 2026-01-01.
pub const NOW_MS: u64 = 1_767_225_600_000;

/// A client and the server it talks to.
pub struct Talk {
    pub engine: Arc<Engine>,
    pub desk: Arc<Desk>,
    pub session: Session,
    pub core: Core,
    /// What the last turn left to do, other than to read on.
    pub next: Option<Next>,
}

/// A desk as the server would make it, without anything on disk.
pub fn desk() -> Desk {
    let settings = vec![("port", "6479".to_owned()), ("fsync", "every-second".to_owned())];
    Desk::new(2, None, "0123456789abcdef0123456789abcdef01234567".to_owned(), settings)
}

/// An engine of so many bytes, with nothing in it.
pub fn engine(max_memory: u64) -> Engine {
    engine_with(Limits { max_memory, max_filter_memory: max_memory, max_filters: 1_000 })
}

/// An engine of these limits.
pub fn engine_with(limits: Limits) -> Engine {
    let contracts = Contracts::new(Secret::from_hex(&"5a".repeat(32)).ok());
    Engine::new(Journal::nowhere(), contracts, Clock::fixed(NOW_MS), limits, Defaults::default(), 2)
}

impl Talk {
    /// A client of a new server with room for 256 MB of filters.
    pub fn new() -> Self {
        Self::with(engine(256 << 20), desk())
    }

    /// A client of this server.
    pub fn with(engine: Engine, desk: Desk) -> Self {
        Self::join(Arc::new(engine), Arc::new(desk))
    }

    /// One more client of a server.
    pub fn join(engine: Arc<Engine>, desk: Arc<Desk>) -> Self {
        let client = desk.welcome("127.0.0.1:50000".parse().ok());
        let session = Session::new(client, &desk);
        let core = Core::new(engine.clone(), 0);
        Self { engine, desk, session, core, next: None }
    }

    /// Another client of the same server.
    pub fn another(&self) -> Self {
        Self::join(self.engine.clone(), self.desk.clone())
    }

    /// The same in RESP3.
    pub fn resp3(mut self) -> Self {
        assert!(self.say("HELLO 3").starts_with("%7"));
        self
    }

    /// Says words that are separated by single spaces; the reply with its lines joined by a space.
    pub fn say(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        readable(&self.send(&words))
    }

    /// Says words of any bytes; the reply as it is.
    pub fn send(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut input = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            input.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            input.extend_from_slice(word);
            input.extend_from_slice(b"\r\n");
        }
        let mut out = Vec::new();
        self.next = None;
        let turn = loop {
            let turn = self.session.turn(&mut self.core, &self.desk, &input, &mut out);
            // Somebody else writes to the filter: a connection would try again in a moment.
            if turn.next != Next::Wait {
                break turn;
            }
            assert!(turn.consumed == 0 && out.is_empty());
            std::thread::yield_now();
        };
        assert_eq!(turn.consumed, input.len(), "a whole request is answered as a whole");
        self.session.forget(turn.consumed);
        match turn.next {
            Next::Read | Next::Again => {}
            // A worker would do it on another thread.
            Next::Job(job) => {
                run_job(&mut self.core, &self.desk, &job, &mut out);
            }
            other => self.next = Some(other),
        }
        out
    }

    /// Says a pipeline of any bytes, in as many turns as it takes; how much of it was answered, and the replies.
    pub fn pipeline(&mut self, input: &[u8]) -> (usize, String) {
        let (mut out, mut answered) = (Vec::new(), 0);
        loop {
            let turn = self.session.turn(&mut self.core, &self.desk, &input[answered..], &mut out);
            self.session.forget(turn.consumed);
            answered += turn.consumed;
            if turn.next != Next::Again || turn.consumed == 0 {
                return (answered, readable(&out));
            }
        }
    }

    /// Gives a command to one item after the other, in pipelines of a thousand; the replies without line ends.
    pub fn each(&mut self, command: &str, key: &str, items: &[String]) -> Vec<String> {
        let mut replies = Vec::with_capacity(items.len());
        for items in items.chunks(1_000) {
            let mut input = String::new();
            for item in items {
                let (a, b, c) = (command.len(), key.len(), item.len());
                input += &format!("*3\r\n${a}\r\n{command}\r\n${b}\r\n{key}\r\n${c}\r\n{item}\r\n");
            }
            let (mut out, mut rest) = (Vec::new(), input.as_bytes());
            loop {
                let turn = self.session.turn(&mut self.core, &self.desk, rest, &mut out);
                self.session.forget(turn.consumed);
                rest = &rest[turn.consumed..];
                match turn.next {
                    Next::Again => assert!(turn.consumed > 0, "a turn that answers nothing would never end"),
                    next => break assert_eq!((next, rest.len()), (Next::Read, 0)),
                }
            }
            replies.extend(String::from_utf8_lossy(&out).lines().map(str::to_owned));
        }
        replies
    }

    /// Says one line after the other and checks each reply: `command => reply`.
    pub fn check(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, expected) = line.split_once(" => ").expect("a command and its reply");
            // The script's lines have no space at their end; an empty bulk string has.
            assert_eq!(self.say(command).trim_end(), expected, "{command}");
        }
    }
}

/// A reply with its lines joined by a space; what is no text is escaped.
pub fn readable(reply: &[u8]) -> String {
    let lines = reply.strip_suffix(b"\r\n").unwrap_or(reply);
    let text: String = String::from_utf8_lossy(lines).replace("\r\n", " ");
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}
