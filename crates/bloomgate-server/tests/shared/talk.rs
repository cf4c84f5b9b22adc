//! A client of a server without sockets: lines in, replies and what they depend on out.

use std::sync::Arc;

use bloomgate_server::engine::{Core, Engine};
use bloomgate_server::session::desk::Desk;
use bloomgate_server::session::{Dues, Next, Session, run_job};
use bloomgate_server::sync::rest;

/// A client.
pub struct Talk {
    core: Core,
    desk: Arc<Desk>,
    session: Session,
}

impl Talk {
    /// A client that is served by a thread of the engine.
    pub fn new(engine: &Arc<Engine>, desk: &Arc<Desk>, thread: usize) -> Self {
        let session = Session::new(desk.welcome(None), desk);
        Self { core: Core::new(engine.clone(), thread), desk: desk.clone(), session }
    }

    /// Says words separated by spaces; the reply with its lines joined by spaces.
    pub fn say(&mut self, line: &str) -> String {
        self.turn(line).0
    }

    /// The same, with what the reply waits for.
    pub fn turn(&mut self, line: &str) -> (String, Dues) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (out, dues) = self.send(&words);
        (String::from_utf8_lossy(&out).trim_end().replace("\r\n", " "), dues)
    }

    /// Says words of any bytes; the reply as it is, and what it waits for.
    pub fn send(&mut self, words: &[&[u8]]) -> (Vec<u8>, Dues) {
        let mut input = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            input.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            input.extend_from_slice(word);
            input.extend_from_slice(b"\r\n");
        }
        let mut out = Vec::new();
        let dues = loop {
            let turn = self.session.turn(&mut self.core, &self.desk, &input, &mut out);
            match turn.next {
                Next::Wait => rest(),
                Next::Job(job) => {
                    self.session.forget(turn.consumed);
                    break run_job(&mut self.core, &self.desk, &job, &mut out);
                }
                _ => {
                    assert_eq!(turn.consumed, input.len());
                    self.session.forget(turn.consumed);
                    break turn.dues;
                }
            }
        };
        self.core.engine.journal.flush();
        (out, dues)
    }
}
