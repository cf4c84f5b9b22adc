//! MULTI, EXEC, DISCARD and WATCH: commands that run together.
//!
//! Queued commands run in their order with nobody else writing, and their records go to the log as one batch: after a
//! crash all of them happened or none did. A watched name whose filter came, went or changed since makes EXEC do
//! nothing. Lookups of others take no lock, so they may see a transaction half done; other writers never do.

use std::collections::BTreeMap;
use std::time::Instant;

use bloomgate_command::{Flag, Refusal, Reply, Request, Spec, parse};

use super::Dues;
use super::call::Call;
use super::desk::{Client, Desk};
use super::space::{Space, in_full};
use crate::access::User;
use crate::engine::adding::NotDone;
use crate::engine::{Core, Engine};

/// Commands a transaction may hold, and bytes of them: what a client may make the server remember.
const MAX_COMMANDS: usize = 100_000;
const MAX_BYTES: usize = 64 << 20;
/// Bytes of names that a connection may watch, and what each takes beside itself.
const MAX_WATCHED: usize = 16 << 20;
const WATCH_BYTES: usize = 64;

/// A name as it was when it was watched: the filter's id and its last change.
type Seen = Option<(u64, u64)>;

/// The transaction of a conversation.
#[derive(Debug, Default)]
pub struct Transaction {
    open: bool,
    spoiled: bool,
    queued: Vec<Vec<Vec<u8>>>,
    bytes: usize,
    /// Items that the queued commands ask for or change.
    items: u64,
    watched: BTreeMap<Vec<u8>, Seen>,
    watched_bytes: usize,
}

/// Whether a command runs at once also between MULTI and EXEC.
#[must_use]
pub fn runs_at_once(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::Multi | Request::Exec | Request::Discard | Request::Watch { .. } | Request::Reset | Request::Quit
    )
}

fn seen(engine: &Engine, name: &[u8]) -> Seen {
    engine.find(name).map(|entry| (entry.id, entry.touched()))
}

impl Transaction {
    /// Whether MULTI was said.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Items that its commands ask for or change.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// A command between MULTI and EXEC was refused: EXEC will do nothing.
    pub fn spoil(&mut self) {
        self.spoiled |= self.open;
    }

    /// MULTI.
    pub fn begin(&mut self) -> Result<Reply, Refusal> {
        if self.open {
            return Err(Refusal::NESTED_MULTI);
        }
        self.open = true;
        Ok(Reply::Ok)
    }

    /// DISCARD.
    pub fn discard(&mut self) -> Result<Reply, Refusal> {
        if !self.open {
            return Err(Refusal::DISCARD_WITHOUT_MULTI);
        }
        *self = Self::default();
        Ok(Reply::Ok)
    }

    /// WATCH.
    pub fn watch(&mut self, engine: &Engine, names: &[&[u8]]) -> Result<Reply, Refusal> {
        if self.open {
            return Err(Refusal::WATCH_IN_MULTI);
        }
        // Before any of them: a client must not make the server remember without end.
        let bytes = names.iter().map(|name| name.len() + WATCH_BYTES).sum::<usize>();
        if self.watched_bytes + bytes > MAX_WATCHED {
            return Err(Refusal::err(format_args!(
                "a connection watches at most {MAX_WATCHED} bytes of names, each counted with {WATCH_BYTES} more: UNWATCH first"
            )));
        }
        self.watched_bytes += bytes;
        for &name in names {
            self.watched.entry(name.to_vec()).or_insert_with(|| seen(engine, name));
        }
        Ok(Reply::Ok)
    }

    /// UNWATCH.
    pub fn unwatch(&mut self) {
        self.watched.clear();
        self.watched_bytes = 0;
    }

    /// Takes a command for EXEC.
    pub fn queue(&mut self, spec: &'static Spec, words: &[&[u8]], items: usize) -> Reply {
        if spec.has(Flag::NoMulti) {
            self.spoiled = true;
            return Reply::Error(Refusal::err(format_args!("{} is not allowed in transactions", spec.usage())));
        }
        let bytes: usize = words.iter().map(|word| word.len() + 24).sum();
        if self.queued.len() >= MAX_COMMANDS || self.bytes + bytes > MAX_BYTES {
            self.spoiled = true;
            return Reply::Error(Refusal::err(format_args!(
                "a transaction holds {MAX_COMMANDS} commands and {MAX_BYTES} bytes at most: split it"
            )));
        }
        self.bytes += bytes;
        self.items += items as u64;
        self.queued.push(words.iter().map(|word| word.to_vec()).collect());
        Reply::simple("QUEUED")
    }

    /// EXEC.
    pub fn execute(
        &mut self,
        core: &mut Core,
        desk: &Desk,
        dues: &mut Dues,
        client: &Client,
        (user, space): (Option<&User>, Option<&Space>),
    ) -> Result<Reply, Refusal> {
        if !self.open {
            return Err(Refusal::EXEC_WITHOUT_MULTI);
        }
        let Self { spoiled, queued, watched, .. } = std::mem::take(self);
        if spoiled {
            return Err(Refusal::EXEC_ABORT);
        }
        let engine = core.engine.clone();
        let mut permit = engine.transaction();
        if watched.iter().any(|(name, before)| seen(&engine, name) != *before) {
            return Ok(Reply::NilArray);
        }
        let mut replies = Vec::with_capacity(queued.len());
        // After so many bytes of replies no further command is run: 100,000 times COMMAND DOCS would be 10 GB.
        let most = desk.rules.output_limit();
        let mut bytes = 0;
        for words in &queued {
            if bytes > most {
                replies.push(Reply::Error(Refusal::err(format_args!(
                    "not run: the replies before take more than the {most} bytes a transaction may have (output-limit): split it"
                ))));
                continue;
            }
            let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
            let began = Instant::now();
            let outcome = parse(&words).map_err(NotDone::from).and_then(|(spec, request)| {
                // Since it was queued, the user may have been changed.
                super::allow(core, desk, user.ok_or(Refusal::NO_AUTH)?, client, spec, &request)?;
                let outcome = match super::connection::stateless(&request) {
                    Some(reply) => Ok(reply),
                    // As Redis has it: EXEC has ended the watch already.
                    None if request == Request::Unwatch => Ok(Reply::Ok),
                    None if request == Request::AclWhoami => Ok(super::connection::whoami(user)),
                    None => in_full(space, (spec, request), &words, |request, full| {
                        Call::new(core, desk, dues, space).by(user).within(&mut permit).run(spec, request, full)
                    })
                    .unwrap_or_else(|refusal| Err(refusal.into())),
                };
                let failed = matches!(outcome, Err(_) | Ok(Reply::Error(_)));
                desk.tallies.ran(core.thread, spec, began.elapsed(), failed);
                outcome
            });
            replies.push(match outcome {
                Ok(reply) => reply,
                Err(NotDone::Refused(refusal)) => Reply::Error(refusal),
                Err(NotDone::Busy) => Reply::Error(Refusal::err("the filter is busy: try again")),
            });
            bytes += replies.last().map_or(0, Reply::size_in_memory);
        }
        let sequence = permit.commit()?;
        dues.write(sequence);
        Ok(Reply::Array(replies))
    }
}
