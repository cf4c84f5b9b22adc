//! MULTI, EXEC, DISCARD and WATCH: commands that run together.
//!
//! Queued commands run in their order with nobody else writing, unless at most one of them looks at a filter and none
//! writes; their records go to the log as one batch: after a crash all of them happened or none did. A watched name whose filter came, went or changed since makes EXEC do
//! nothing. Lookups of others take no lock, so they may see a transaction half done; other writers never do.
//!
//! Nobody else writing means that everybody else waits, and reactors with them. So a transaction has a price, which is told
//! when a command is queued and has a limit; one that is not short runs on a worker, and one that is not short and writes
//! nothing holds up nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use bloomgate_command::{Flag, Refusal, Reply, Request, Spec, find, parse};

use super::call::{Call, Outcome};
use super::desk::{Client, Desk};
use super::names::MAX_SCAN;
use super::space::{Space, in_full};
use super::{Dues, Job, Words};
use crate::access::User;
use crate::engine::adding::NotDone;
use crate::engine::entry::Entry;
use crate::engine::namespaces::cost_of;
use crate::engine::{Core, Engine, Permit};
use crate::sync::{Fault, broken};

/// Commands a transaction may hold, and bytes of them: what a client may make the server remember.
const MAX_COMMANDS: usize = 100_000;
const MAX_BYTES: usize = 64 << 20;
/// What the commands of a transaction may cost together, in items: 0.1 to 0.2 us each, so writers wait 0.1 s at most.
const MAX_COST: u64 = 500_000;
/// What costs more is not for a reactor: 256 commands on an item each.
const SHORT_COST: u64 = 1_024;
/// A command costs so much beside its words, one that is long so much more, and one that is about no filter this.
const COMMAND_COST: u64 = 1;
const LONG_COST: u64 = 1_024;
const TELLING_COST: u64 = 100;
/// SCAN costs so much for each name of its COUNT, and a byte of a pattern so much.
const SCAN_COST: u64 = 10;
const PATTERN_COST: u64 = 16;
/// So many bytes that are hashed, read, copied or told cost as much as an item.
const COST_BYTES: u64 = 256;
/// What a word takes beside its bytes.
pub(super) const WORD_BYTES: usize = 48;
/// Bytes of names that a connection may watch, and what each takes beside itself.
const MAX_WATCHED: usize = 16 << 20;
const WATCH_BYTES: usize = 64;

/// A name as it was when it was watched: the filter's id and its last change.
type Seen = Option<(u64, u64)>;

/// The transaction of a conversation.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    open: bool,
    spoiled: bool,
    queued: Vec<Vec<Vec<u8>>>,
    bytes: usize,
    cost: u64,
    writes: bool,
    /// The filters that commands which write are about, by their names in the engine.
    written: BTreeSet<Vec<u8>>,
    /// What the items cost that the queued commands ask for or change, and what the others cost.
    items: u64,
    others: u64,
    /// Queued commands that look at filters, or change them.
    looks: usize,
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

/// What a command costs, as the filters that it names are now; `full` are its words with names as they are in the engine.
fn cost(engine: &Engine, spec: &Spec, request: &Request<'_>, full: &[&[u8]]) -> u64 {
    let bytes: u64 = full.iter().map(|word| word.len() as u64).sum();
    let mut cost = COMMAND_COST + full.len() as u64 + bytes / COST_BYTES;
    if spec.keys.first == 0 && !super::connection::is_short(request) {
        cost += TELLING_COST;
    }
    // A name is tried, and a long one at each of its bytes.
    let tried = |pattern: Option<&[u8]>| PATTERN_COST * pattern.map_or(0, <[u8]>::len) as u64;
    cost += match *request {
        Request::Scan { count, pattern, .. } => SCAN_COST * count.min(MAX_SCAN) + tried(pattern),
        Request::Keys { pattern } => engine.names.len() as u64 + tried(Some(pattern)),
        _ => 0,
    };
    if spec.heavy && !request.is_small() {
        let held = |name: &[u8]| {
            let filter = engine.find(name).map_or(0, |entry| entry.memory());
            filter + engine.loads.find(name).map_or(0, |load| load.announced.length())
        };
        cost += LONG_COST + spec.names_in(full).map(held).sum::<u64>() / COST_BYTES;
    }
    cost
}

impl Transaction {
    /// Whether MULTI was said.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Memory that it takes.
    #[inline]
    #[must_use]
    pub fn kept(&self) -> usize {
        self.bytes + self.watched_bytes + (self.queued.len() + self.watched.len()) * WORD_BYTES
    }

    /// What it costs of the items of a namespace: by itself and for its commands without items, and the items of the others.
    #[must_use]
    pub fn costs(&self) -> (u64, u64) {
        let itself = if self.stops_writers() { super::tolls::CHANGE } else { 1 };
        (itself + self.others, self.items)
    }

    /// Whether nobody else writes while it runs: it writes itself, or what was watched has to be as it was when it asks, or two
    /// of its commands are to see the same. Whoever asks once finds what there is at some instant anyway, and who says PING
    /// need not have everybody wait; nor does a long one that only asks.
    fn stops_writers(&self) -> bool {
        let needs_to = self.writes || (!self.is_long() && (!self.watched.is_empty() || self.looks > 1));
        needs_to && !self.spoiled
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
        // Who writes says so in the filter before its bits are set: nobody does while it is looked at.
        let _alone = (!broken(Fault::WatchBeside)).then(|| engine.stop());
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

    /// Whether EXEC is not for a reactor.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.cost > SHORT_COST && !self.spoiled
    }

    /// A filter that it writes to and that somebody copies just now: whose order matters has its writer wait for a copy, for
    /// as long as the filter is large.
    #[must_use]
    pub fn waits_for(&self, engine: &Engine) -> Option<Entry> {
        let mut written = self.written.iter().filter_map(|name| engine.names.get(name));
        written.find(|entry| entry.is_ordered() && entry.try_write_if_any().is_none())
    }

    /// The right to write alone, once nobody copies what it writes to: who waits for that holds up nobody.
    fn permit<'e>(&self, engine: &'e Engine) -> Permit<'e> {
        loop {
            let permit = engine.transaction();
            let Some(copied) = self.waits_for(engine) else { return permit };
            drop(permit);
            drop(copied.write_if_any());
        }
    }

    /// Takes a command for EXEC.
    pub(super) fn queue(
        &mut self,
        engine: &Engine,
        (spec, request): (&'static Spec, &Request<'_>),
        words: Words<'_>,
    ) -> Reply {
        if spec.has(Flag::NoMulti) {
            self.spoiled = true;
            return Reply::Error(Refusal::err(format_args!("{} is not allowed in transactions", spec.usage())));
        }
        if let Err(refusal) = self.keep(words.given, cost(engine, spec, request, words.full)) {
            self.spoiled = true;
            return Reply::Error(refusal);
        }
        if spec.has(Flag::Write) {
            self.writes = true;
            for name in spec.names_in(words.full).filter(|name| !self.written.contains(*name)).collect::<Vec<_>>() {
                self.bytes += name.len() + WORD_BYTES;
                self.written.insert(name.to_vec());
            }
        }
        self.looks += usize::from(spec.role().is_some());
        self.items += request.with_items(cost_of);
        self.others += super::tolls::of_command(spec, request, words.given);
        Reply::simple("QUEUED")
    }

    /// Takes a command that is there and may be given, and whose words are wrong: EXEC says so in its place and runs the others,
    /// as Redis has it.
    pub(super) fn queue_wrong(&mut self, spec: &Spec, words: &[&[u8]]) -> Option<Reply> {
        if !self.open || spec.has(Flag::NoMulti) {
            return None;
        }
        self.keep(words, COMMAND_COST + words.len() as u64).ok()?;
        Some(Reply::simple("QUEUED"))
    }

    /// Keeps the words of a command until EXEC.
    fn keep(&mut self, words: &[&[u8]], more: u64) -> Result<(), Refusal> {
        let bytes: usize = words.iter().map(|word| word.len() + WORD_BYTES).sum();
        if self.queued.len() >= MAX_COMMANDS || self.bytes + bytes > MAX_BYTES {
            return Err(Refusal::err(format_args!(
                "a transaction holds {MAX_COMMANDS} commands and {MAX_BYTES} bytes at most: split it"
            )));
        }
        let cost = self.cost.saturating_add(more);
        if cost > MAX_COST {
            return Err(Refusal::err(format_args!(
                "a transaction holds up everybody who writes, so it may cost as much as {MAX_COST} items, and with this \
                 command it costs {cost} (a command {COMMAND_COST} and 1 for each word and each {COST_BYTES} bytes, one about \
                 no filter {TELLING_COST} more, a long one {LONG_COST} and 1 for each {COST_BYTES} bytes of its filters): \
                 split it"
            )));
        }
        self.cost = cost;
        self.bytes += bytes;
        self.queued.push(words.iter().map(|word| word.to_vec()).collect());
        Ok(())
    }

    /// EXEC, once MULTI was said.
    pub fn execute(
        &self,
        core: &mut Core,
        desk: &Desk,
        dues: &mut Dues,
        client: &Client,
        (user, space): (Option<&User>, Option<&Space>),
    ) -> Result<Reply, Refusal> {
        if self.spoiled {
            return Err(Refusal::EXEC_ABORT);
        }
        let engine = core.engine.clone();
        let mut permit = self.stops_writers().then(|| self.permit(&engine));
        if self.watched.iter().any(|(name, before)| seen(&engine, name) != *before) {
            return Ok(Reply::NilArray);
        }
        let mut replies = Vec::with_capacity(self.queued.len());
        // After so many bytes of replies no further command is run: 100,000 times COMMAND DOCS would be 10 GB.
        let most = desk.rules.output_limit();
        let (mut bytes, mut spent) = (0, 0);
        for words in &self.queued {
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
                let reply = super::connection::stateless(None, &request);
                let outcome = match reply.or_else(|| super::connection::of_client(client, &request)) {
                    Some(reply) => Ok(reply),
                    // As Redis has it: EXEC has ended the watch already.
                    None if request == Request::Unwatch => Ok(Reply::Ok),
                    None if request == Request::AclWhoami => Ok(super::connection::whoami(user)),
                    None if matches!(request, Request::ClientKill(_)) => kill(desk, client, &request),
                    None => in_full(space, (spec, request), &words, |request, full| {
                        // And filters may have grown, by this very transaction.
                        spent += cost(&engine, spec, &request, full);
                        if spent > MAX_COST {
                            return Err(Refusal::err(format_args!(
                                "not run: its filters have grown since it was queued, or the replies are long, and the \
                                 transaction would cost as much as {spent} items, of {MAX_COST}: split it"
                            ))
                            .into());
                        }
                        super::count_in_space(&engine, spec, full);
                        loop {
                            let call = Call::new(core, desk, dues, client, space).by(user);
                            let outcome = match &mut permit {
                                Some(permit) => return call.within(permit).run(spec, request, full),
                                None => call.run(spec, request, full),
                            };
                            match outcome {
                                // A worker may wait where a reactor may not: that one has the writer end first.
                                Err(NotDone::Busy) if self.is_long() => crate::sync::rest(),
                                Err(NotDone::Busy) => permit = Some(self.permit(&engine)),
                                outcome => return outcome,
                            }
                        }
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
            let told = replies.last().map_or(0, Reply::size_in_memory);
            spent += told as u64 / COST_BYTES;
            bytes += told;
        }
        if let Some(permit) = permit {
            dues.write(permit.commit()?);
        }
        Ok(Reply::Array(replies))
    }
}

/// CLIENT KILL.
fn kill(desk: &Desk, client: &Client, request: &Request<'_>) -> Outcome {
    match *request {
        Request::ClientKill(whom) => super::server::kill(desk, client, whom).map_err(NotDone::from),
        _ => Err(Refusal::SYNTAX.into()),
    }
}

/// EXEC on a worker: its reply, and what that depends on.
pub fn run(core: &mut Core, desk: &Desk, job: &Job, transaction: &Transaction, out: &mut Vec<u8>) -> Dues {
    let (began, start) = (Instant::now(), out.len());
    let mut dues = Dues::default();
    (core.scratch.owed, core.scratch.in_one_go) = (job.paid, true);
    // It may have waited long: what counts is who they are now.
    let user = job.user.as_ref().and_then(|user| desk.access.renewed(user)).ok_or(Refusal::NO_AUTH);
    let reply = user.and_then(|user| {
        let space = Space::of(&user, &desk.access.book())?;
        transaction.execute(core, desk, &mut dues, &job.client, (Some(&user), space.as_deref()))
    });
    job.client.owe(std::mem::take(&mut core.scratch.owed));
    core.scratch.in_one_go = false;
    desk.note_slow(began.elapsed(), &[b"EXEC"], &job.client);
    if let Some(spec) = find(b"exec") {
        desk.tallies.ran(core.thread, spec, began.elapsed(), reply.is_err());
    }
    reply.unwrap_or_else(Reply::Error).write(job.protocol, out);
    if job.silent {
        out.truncate(start);
    }
    dues
}
