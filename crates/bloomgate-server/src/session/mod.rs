//! A client's conversation, without its socket: bytes in, bytes out, and what has to be durable before they may leave.
//!
//! A turn takes what has arrived and answers all of it. Commands on items that stand next to each other and go to the
//! same filter run as one batch ([`batch`]); everything else goes through the table of commands, one by one.

pub mod acl;
pub mod batch;
pub mod bf;
pub mod bg;
pub mod bringing;
pub mod call;
pub mod cf;
pub mod config;
pub mod connection;
pub mod copying;
pub mod desk;
pub mod dispatch;
pub mod dumping;
pub mod filing;
pub mod given;
pub mod info;
pub mod installing;
pub mod ledger;
pub mod loading;
pub mod login;
pub mod names;
pub mod pieces;
pub mod refusing;
pub mod rules;
pub mod server;
pub mod space;
pub mod tallies;
pub mod tenants;
pub mod tolls;
pub mod transaction;

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use bloomgate_command::{
    Flag, Protocol, Refusal, Reply, Request, Role, Roles, Spec, find, named, number_of, parse, write,
};

use crate::access::User;
use crate::access::notes::Reason;
use crate::engine::adding::NotDone;
use crate::engine::namespaces::{LONGEST_WAIT, Owed, cost_of};
use crate::engine::shadows::check_name;
use crate::engine::{Core, Engine};
use crate::logging::{self, Level, Often};
use crate::resp::{Frame, Limits, ProtocolError, Reader};
use batch::{Batch, Hot};
use call::Call;
use desk::{Client, Desk};
use given::Given;
use login::{LoggedIn, Login};
use space::{Bound, Space, in_full};
use transaction::Transaction;

/// How much one turn may answer before others get theirs: what is sent at once.
const TURN_REPLIES: usize = 64 << 10;
/// How many words one turn may take: 512 items of a long command, or 170 short commands, take 15 to 40 us.
const TURN_WORDS: usize = 512;
/// How many bytes: items of 64 KB are hashed at 1 GB/s.
const TURN_BYTES: usize = 256 << 10;
/// How long the commands of a turn that are timed may take before others get theirs.
const TURN_TIME: Duration = Duration::from_micros(30);

/// The table's line for PING.
static PING: LazyLock<Option<&Spec>> = LazyLock::new(|| find(b"PING"));

/// What a turn came to.
#[derive(Debug)]
pub struct Turn {
    /// Bytes of the input that are answered.
    pub consumed: usize,
    /// The replies may leave once the log is durable up to here, by the policy.
    pub dues: Dues,
    /// How many replies there are: as many errors are sent instead if the disk fails.
    pub replies: usize,
    /// What is next.
    pub next: Next,
    /// How long to wait before that, once the replies are sent: its items were more than their namespace may have in a
    /// second.
    pub pause: Duration,
}

/// What replies depend on: sequences of the log that have to be durable before they may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dues {
    /// Of writes that are acknowledged. If the disk fails, an error is sent instead.
    pub written: u64,
    /// Of writes that lookups have seen. If the disk fails, lookups go on without it.
    pub seen: u64,
}

impl Dues {
    /// A write is acknowledged.
    #[inline]
    pub fn write(&mut self, sequence: u64) {
        self.written = self.written.max(sequence);
    }

    /// A lookup has seen a write.
    #[inline]
    pub fn see(&mut self, sequence: u64) {
        self.seen = self.seen.max(sequence);
    }
}

/// What a connection does after a turn.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Read more.
    Read,
    /// The turn was long: let others have theirs, then go on with the rest.
    Again,
    /// A filter is being written to by somebody: try again in a moment.
    Wait,
    /// This command is long: run it on a worker ([`run_job`]), append its reply, then go on.
    Job(Job),
    /// Send the replies and close.
    Close,
    /// Close without a word.
    Drop,
    /// Send the replies and stop the server.
    Shutdown,
}

/// A command that is too long for a reactor.
#[derive(Debug, PartialEq)]
pub struct Job {
    /// The command and its arguments.
    pub words: Given,
    /// The protocol of the one who waits for it.
    pub protocol: Protocol,
    /// Whether its reply is not to be said (CLIENT REPLY).
    pub silent: bool,
    /// Who waits for it: for the slow log.
    pub client: Client,
    /// The user who gave it; nobody for a login.
    pub user: Option<Arc<User>>,
    /// A login, and no command of the table.
    pub login: Option<Login>,
    /// The queued commands of an EXEC.
    pub transaction: Option<Box<Transaction>>,
    /// Items of it that are paid for.
    pub paid: Owed,
}

impl Job {
    /// Memory that it takes while it waits.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let transaction = self.transaction.as_ref().map_or(0, |transaction| transaction.kept());
        self.words.iter().map(|word| word.len() + transaction::WORD_BYTES).sum::<usize>() + transaction
    }
}

/// A client's conversation.
#[derive(Debug)]
pub struct Session {
    /// Who it is.
    pub client: Client,
    reader: Reader,
    protocol: Protocol,
    /// The user it is; nobody before a login.
    user: Option<Arc<User>>,
    /// The namespace that the user is bound to.
    space: Bound,
    /// What it has to wait for before it goes on.
    owed: Owed,
    /// Of the directory of users when that was looked up.
    generation: u64,
    /// A login that is decided elsewhere.
    landing: Option<Arc<OnceLock<LoggedIn>>>,
    transaction: Transaction,
    /// CLIENT REPLY: what is answered at all.
    replies: connection::Replies,
    /// The command that its card tells.
    last: &'static str,
    /// How long the commands of this turn took that are timed one by one.
    spent: Duration,
    /// The short command that was timed last, its number, and how often it was given since.
    short: (&'static str, usize, u64),
}

impl Session {
    /// A conversation that begins.
    #[must_use]
    pub fn new(client: Client, desk: &Desk) -> Self {
        let generation = desk.access.generation();
        let user = desk.access.newcomer(client.comes_from(&desk.access));
        let space = user.as_ref().map(|user| Space::of(user, &desk.access.book()));
        // Without its namespace the user is nobody.
        let (user, space) = (user.filter(|_| !matches!(space, Some(Err(_)))), space.and_then(Result::ok).flatten());
        // Anybody may be the default user: if there is no room for it, the client is nobody too.
        let user = user.filter(|user| desk.bind(&client, user.namespace.as_deref()).is_ok());
        client.card().user.clone_from(&user);
        Self {
            protocol: if client.is_visitor { Protocol::Resp3 } else { Protocol::Resp2 },
            client,
            reader: Reader::default(),
            user,
            space,
            owed: Owed::default(),
            generation,
            landing: None,
            transaction: Transaction::default(),
            replies: connection::Replies::On,
            last: "",
            spent: Duration::ZERO,
            short: ("", 0, 0),
        }
    }

    /// Tells others which command was given last; nearly always it is that of before, and nothing is done.
    #[inline]
    fn note(&mut self, command: &'static str) {
        if !std::ptr::eq(self.last, command) {
            self.last = command;
            self.client.card().last = command;
        }
    }

    /// What was sent is no request.
    #[cold]
    fn note_wrong(&self, desk: &Desk, wrong: &ProtocolError) {
        let client = self.client.address.map(|address| address.to_string()).unwrap_or_default();
        let why = logging::shown(wrong.to_string().trim_start_matches("ERR ").as_bytes());
        desk.log.often(
            Often::Protocol,
            Level::Warn,
            "protocol-error",
            format_args!("{client} sent what is no request and is closed: {why}"),
            &[("client", client.as_str().into()), ("why", why.as_str().into())],
        );
    }

    /// The protocol it speaks now.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The user it is, as of its last turn; nobody before a login.
    #[must_use]
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// What the user may do without a look at the table: nothing where replies are queued, left out or refused.
    #[inline]
    fn plain(&self, core: &Core) -> Roles {
        let plain = !self.transaction.is_open() && self.replies == connection::Replies::On && !core.engine.is_loading();
        self.user.as_ref().filter(|_| plain).map_or(Roles::NONE, |user| user.roles)
    }

    fn limits(&self) -> &'static Limits {
        if self.user.is_some() { &Limits::OPEN } else { &Limits::GUEST }
    }

    fn job(&self, words: Given, login: Option<Login>) -> Job {
        Job {
            words,
            protocol: self.protocol,
            silent: self.replies != connection::Replies::On,
            client: self.client.clone(),
            user: self.user.clone(),
            login,
            transaction: None,
            paid: Owed::default(),
        }
    }

    /// What the user may see, told by something that is no command of the table: with the role, and once everything is
    /// loaded. What it shows has to be durable as `dues` says.
    pub fn view<T>(
        &mut self,
        core: &mut Core,
        desk: &Desk,
        role: Role,
        dues: &mut Dues,
        tell: impl FnOnce(&mut Call<'_, '_, '_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if core.engine.is_loading() {
            // Only to those who may see it at all.
            return self.view_early(core, desk, role, dues, |_| Err(Refusal::LOADING));
        }
        self.view_early(core, desk, role, dues, tell)
    }

    /// [`view`](Self::view) of what there is to tell before everything is loaded, too.
    pub fn view_early<T>(
        &mut self,
        core: &mut Core,
        desk: &Desk,
        role: Role,
        dues: &mut Dues,
        tell: impl FnOnce(&mut Call<'_, '_, '_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let user = match self.is_still_welcome(desk) {
            true => self.user.clone().ok_or(Refusal::NO_AUTH)?,
            false => return Err(Refusal::NO_AUTH),
        };
        if !user.roles.contains(role) {
            let why = format!("it needs the role {}", role.name());
            return Err(Refusal::no_permission(&user.name, "view", &why));
        }
        let space = self.space.clone();
        tell(&mut Call::new(core, desk, dues, &self.client, space.as_deref()).by(Some(&user)))
    }

    /// Pays for what a bound user wants to look at and no command tells: how long to wait before it comes again, nothing once it
    /// is paid for and that time has come.
    pub fn pay_to_look(&mut self, core: &mut Core, cost: &mut u64) -> Result<Option<Duration>, Refusal> {
        let pause = self.pause(core);
        if !pause.is_zero() {
            return Ok(Some(pause));
        }
        core.scratch.owed = Owed { until_ns: 0, ..std::mem::take(&mut self.owed) };
        let paid = self.pay_ahead(core, *cost, 0);
        self.owed.add(std::mem::take(&mut core.scratch.owed));
        match paid {
            Ok(_) => *cost = 0,
            Err(NotDone::Busy) => {}
            Err(NotDone::Refused(refusal)) => return Err(refusal),
        }
        let pause = self.pause(core);
        Ok((*cost > 0 || !pause.is_zero()).then_some(pause))
    }

    /// The namespace that the user is bound to.
    #[must_use]
    pub fn space(&self) -> Option<&Space> {
        self.space.as_deref()
    }

    /// Memory for commands that are queued and names that are watched.
    #[inline]
    #[must_use]
    pub fn kept(&self) -> usize {
        self.transaction.kept()
    }

    /// Memory for what is known of a request that is not whole, beside its bytes.
    #[inline]
    #[must_use]
    pub fn found(&self) -> usize {
        self.reader.found()
    }

    /// Whether a request is begun and not whole.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        self.reader.is_amid()
    }

    /// The first `count` bytes of the input are gone.
    pub fn forget(&mut self, count: usize) {
        self.reader.forget(count);
    }

    /// Answers what has arrived. Afterwards the first `consumed` bytes of the input are to be taken away, and
    /// [`forget`](Self::forget) called with their number.
    pub fn turn(&mut self, core: &mut Core, desk: &Desk, input: &[u8], out: &mut Vec<u8>) -> Turn {
        if !self.is_still_welcome(desk) {
            return Turn::nothing(Next::Drop);
        }
        self.owed.add(self.client.take_owed());
        if self.owed.until_ns != 0 {
            let pause = self.pause(core);
            if !pause.is_zero() {
                return Turn { pause, ..Turn::nothing(Next::Again) };
            }
            // What is paid for is for the command that waits.
            core.scratch.owed = Owed { until_ns: 0, ..std::mem::take(&mut self.owed) };
        }
        let mut batch = Batch::new(core);
        let mut turn = self.commands(core, desk, input, &mut batch, out);
        batch.put_back(core);
        desk.count_answers(core.thread, &mut core.scratch.answered);
        if core.scratch.owed != Owed::default() {
            self.owed.add(std::mem::take(&mut core.scratch.owed));
            turn.pause = self.pause(core);
        }
        turn
    }

    /// How long to wait now for what is owed.
    fn pause(&self, core: &Core) -> Duration {
        let wait = core.engine.namespaces.wait_for(self.owed, core.engine.clock.now_ns()).min(LONGEST_WAIT);
        if !wait.is_zero() {
            core.engine.namespaces.note_wait(self.owed.space, wait);
        }
        wait
    }

    /// Pays for a bound user's command, and for its items if it cannot wait once it runs: a transaction, or one for a worker.
    /// The namespace that was paid to.
    fn pay_ahead(&self, core: &mut Core, command: u64, items: u64) -> Result<u16, NotDone> {
        let Some(space) = self.space.as_ref().filter(|_| command + items > 0) else { return Ok(0) };
        let number = core.engine.namespaces.number(space.name()).unwrap_or(0);
        core.scratch.pay_ahead(&core.engine, number, command, items).map(|()| number)
    }

    fn commands<'a>(
        &mut self,
        core: &mut Core,
        desk: &Desk,
        input: &'a [u8],
        batch: &mut Batch<'a>,
        out: &mut Vec<u8>,
    ) -> Turn {
        let mut dues = Dues::default();
        let (mut commands, mut taken, mut replies) = (0, 0, 0);
        let (mut limits, mut plain) = (self.limits(), self.plain(core));
        self.spent = Duration::ZERO;
        let next = loop {
            let begin = self.reader.begin_of_next();
            let frame = match self.reader.next(input, limits) {
                Ok(Some(frame)) => frame,
                Ok(None) => break Next::Read,
                Err(wrong) => {
                    self.note_wrong(desk, &wrong);
                    if !batch.flush(core, desk, self.protocol, out, &mut dues) {
                        break self.wait(batch.abandon());
                    }
                    if wrong == ProtocolError::Http {
                        break Next::Drop;
                    }
                    write::error(out, &wrong.to_string());
                    replies += 1;
                    break Next::Close;
                }
            };
            commands += 1;
            taken += 1 + self.reader.ranges().len();
            if !plain.is_empty()
                && frame == Frame::Bulks
                && let Some(hot) = Hot::of(input, self.reader.ranges())
                && plain.contains(hot.role())
            {
                self.note(hot.name());
                let ranges = self.reader.ranges();
                let key = &input[ranges[1].clone()];
                if !batch.takes(hot, key) {
                    if !batch.flush(core, desk, self.protocol, out, &mut dues) {
                        break self.wait(batch.abandon());
                    }
                    batch.start(hot, key, begin, self.space.as_ref());
                }
                batch.push(hot, input, &ranges[2..]);
                if batch.is_long() && !batch.flush(core, desk, self.protocol, out, &mut dues) {
                    break self.wait(batch.abandon());
                }
            } else {
                if !batch.flush(core, desk, self.protocol, out, &mut dues) {
                    break self.wait(batch.abandon());
                }
                let words = self.reader.ranges();
                if !plain.is_empty() && frame == Frame::Bulks && connection::is_bare_ping(input, words) {
                    self.run_bare_ping(core, desk, out);
                    replies += 1;
                } else {
                    let inline: Vec<Vec<u8>>;
                    let words: Vec<&[u8]> = match frame {
                        Frame::Nothing => continue,
                        Frame::Bulks => words.iter().map(|range| &input[range.clone()]).collect(),
                        Frame::Inline(typed) => {
                            inline = typed;
                            inline.iter().map(|word| &word[..]).collect()
                        }
                    };
                    let before = out.len();
                    let step = self.command(core, desk, &words, out, &mut dues);
                    replies += usize::from(out.len() > before);
                    match step {
                        Step::Done => {}
                        Step::Busy => break self.wait(begin),
                        Step::End(next) => break next,
                    }
                    (limits, plain) = (self.limits(), self.plain(core));
                }
            }
            // If there is nothing more, the replies are sent at once.
            let at = self.reader.begin_of_next();
            let is_long = (self.spent >= TURN_TIME || at >= TURN_BYTES) && at < input.len();
            if taken >= TURN_WORDS || out.len() >= TURN_REPLIES || is_long {
                break Next::Again;
            }
        };
        let next = match batch.flush(core, desk, self.protocol, out, &mut dues) {
            true => next,
            false => self.wait(batch.abandon()),
        };
        desk.count_commands(core.thread, commands as u64);
        let replies = replies + batch.answered();
        Turn { consumed: self.reader.begin_of_next(), dues, replies, next, pause: Duration::ZERO }
    }

    /// Goes back to a request that could not be done yet.
    fn wait(&mut self, begin: usize) -> Next {
        self.reader.rewind(begin);
        Next::Wait
    }

    /// One command through the table.
    fn command(&mut self, core: &mut Core, desk: &Desk, words: &[&[u8]], out: &mut Vec<u8>, dues: &mut Dues) -> Step {
        let start = out.len();
        let step = match self.admit(core, desk, words) {
            Ok(admitted) => {
                let (spec, space) = (admitted.0, self.space.clone());
                self.note(spec.name);
                in_full(space.as_deref(), admitted, words, |request, full| {
                    self.run(core, desk, (spec, request), Words { given: words, full }, out, dues)
                })
            }
            Err(refusal) => Err(refusal),
        };
        let step = match step {
            Ok(step) => step,
            Err(refusal) => {
                if let Some(spec) = words.first().and_then(|name| find(name)) {
                    let spec = words.get(1).and_then(|word| spec.subcommand(word)).unwrap_or(spec);
                    desk.tallies.rejected(core.thread, spec);
                }
                match self.queue_wrong(core, words) {
                    Some(reply) => reply.write(self.protocol, out),
                    None => {
                        self.transaction.spoil();
                        write::error(out, refusal.as_str());
                    }
                }
                Step::Done
            }
        };
        // One that could not be done yet comes again, and so does what was said about its reply.
        if !matches!(step, Step::Busy) {
            self.replies.apply(out, start);
        }
        bound(desk, words, out, start);
        step
    }

    /// Keeps a refused command for EXEC, if nothing but its arguments is wrong.
    fn queue_wrong(&mut self, core: &Core, words: &[&[u8]]) -> Option<Reply> {
        let (spec, user) = (named(words)?, self.user.as_ref()?);
        let is_theirs = spec.role().is_none_or(|role| user.roles.contains(role))
            && (user.namespace.is_none() || !spec.is_of_server());
        let is_time = !core.engine.is_loading() || spec.has(Flag::Loading);
        (is_theirs && is_time && parse(words).is_err()).then(|| self.transaction.queue_wrong(spec, words))?
    }

    /// The command, if it may be given now.
    fn admit<'a>(
        &self,
        core: &Core,
        desk: &Desk,
        words: &'a [&'a [u8]],
    ) -> Result<(&'static Spec, Request<'a>), Refusal> {
        let is_loading = core.engine.is_loading();
        if self.user.is_none() {
            match words.first().and_then(|name| find(name)) {
                Some(spec) if spec.has(Flag::NoAuth) => {}
                // It gives nothing away, and who checks whether the server is ready need not have a password.
                Some(spec) if spec.name == "ping" && is_loading => return Err(Refusal::LOADING),
                _ => return Err(Refusal::NO_AUTH),
            }
        }
        let (spec, request) = parse(words)?;
        if let Some(user) = &self.user {
            allow(core, desk, user, &self.client, spec, &request)?;
        }
        if is_loading && !spec.has(Flag::Loading) {
            return Err(Refusal::LOADING);
        }
        if self.space.is_none() {
            spec.names_in(words).try_for_each(check_name)?;
        }
        Ok((spec, request))
    }

    fn run(
        &mut self,
        core: &mut Core,
        desk: &Desk,
        (spec, request): (&'static Spec, Request<'_>),
        words: Words<'_>,
        out: &mut Vec<u8>,
        dues: &mut Dues,
    ) -> Step {
        if self.transaction.is_open() && !transaction::runs_at_once(&request) {
            let reply = self.transaction.queue(&core.engine, (spec, &request), words);
            reply.write(self.protocol, out);
            return Step::Done;
        }
        // PING without a word and its like are worth less than to find out who pays for them.
        if connection::is_short(&request) && (self.space.is_none() || words.given.len() == 1) {
            let protocol = self.protocol;
            self.run_short(core, desk, spec, || {
                if let Some(reply) = connection::stateless(Some(protocol), &request) {
                    reply.write(protocol, out);
                }
            });
            return Step::Done;
        }
        let is_for_a_worker = (spec.heavy && !request.is_small()) || pieces::is_long(&request);
        let (command, cannot_wait) = match request {
            _ if self.space.is_none() => (0, 0),
            Request::Exec => self.transaction.costs(),
            _ if is_for_a_worker && request.items() > 0 => (0, request.with_items(cost_of)),
            _ => (tolls::of_command(spec, &request, words.given), 0),
        };
        let paid_to = match self.pay_ahead(core, command, cannot_wait) {
            Ok(paid_to) => paid_to,
            Err(NotDone::Busy) => return Step::Busy,
            Err(NotDone::Refused(refusal)) => {
                self.transaction = Transaction::default();
                let refusal = match self.space.as_deref() {
                    Some(space) => space.retold(refusal, std::iter::empty()),
                    None => refusal,
                };
                write::error(out, refusal.as_str());
                return Step::Done;
            }
        };
        let began = Instant::now();
        if let Some(outcome) = self.own(core, desk, &request, dues) {
            let took = began.elapsed();
            self.spent += took;
            if let Own::Reply(reply) | Own::End(reply, _) = &outcome {
                desk.tallies.ran(core.thread, spec, took, matches!(reply, Reply::Error(_)));
            }
            return match outcome {
                Own::Later(job) => Step::End(Next::Job(job)),
                Own::Reply(reply) => {
                    reply.write(self.protocol, out);
                    Step::Done
                }
                Own::End(reply, next) => {
                    reply.write(self.protocol, out);
                    Step::End(next)
                }
            };
        }
        if is_for_a_worker {
            let words = words.given.iter().collect();
            let paid = core.scratch.take_ahead();
            return Step::End(Next::Job(Job { paid, ..self.job(words, None) }));
        }
        let call = Call::new(core, desk, dues, &self.client, self.space.as_deref()).by(self.user.as_deref());
        let outcome = call.run(spec, request, words.full);
        if matches!(outcome, Err(NotDone::Busy)) {
            if command > 0 {
                core.scratch.come_again(paid_to);
            }
            return Step::Busy;
        }
        let took = began.elapsed();
        self.spent += took;
        desk.note_slow(took, words.full, &self.client);
        count_in_space(&core.engine, spec, words.full);
        desk.tallies.ran(core.thread, spec, took, matches!(outcome, Err(_) | Ok(Reply::Error(_))));
        match outcome {
            Ok(reply) => reply.write(self.protocol, out),
            Err(NotDone::Refused(refusal)) => write::error(out, refusal.as_str()),
            Err(NotDone::Busy) => return Step::Busy,
        }
        Step::Done
    }

    /// PING alone, as pools and health checks send it: through the table it would take twice as long as a lookup.
    fn run_bare_ping(&mut self, core: &Core, desk: &Desk, out: &mut Vec<u8>) {
        let Some(spec) = *PING else { return };
        self.note(spec.name);
        self.run_short(core, desk, spec, || write::simple(out, "PONG"));
    }

    /// PING and its like: all are counted, one in 16 is timed and stands for those before it. The clock alone takes a third
    /// as long as they do.
    fn run_short(&mut self, core: &Core, desk: &Desk, spec: &'static Spec, answer: impl FnOnce()) {
        if !std::ptr::eq(self.short.0, spec.name) {
            self.short = (spec.name, number_of(spec), 0);
        }
        let (_, number, untimed) = &mut self.short;
        // The first one of a connection is timed at once: most send one.
        let began = (*untimed == 0 || *untimed >= 16).then(Instant::now);
        answer();
        desk.tallies.calls(core.thread, *number, 1, 0);
        *untimed += 1;
        if let Some(began) = began {
            // Those since the last timed one, of which that is not one.
            let stands_for = if *untimed == 1 { 1 } else { *untimed - 1 };
            desk.tallies.took(core.thread, *number, stands_for, began.elapsed().as_nanos() as u64);
            *untimed = 1;
        }
    }
}

/// A reply has a size, or a client that does not read would make the server hold as much as it can ask for. What was changed
/// is told whatever it takes: those replies have limits of their own.
#[inline]
fn bound(desk: &Desk, words: &[&[u8]], out: &mut Vec<u8>, start: usize) {
    let most = desk.rules.output_limit();
    if out.len() - start > most {
        too_long(words, out, start, most);
    }
}

#[cold]
fn too_long(words: &[&[u8]], out: &mut Vec<u8>, start: usize, most: usize) {
    let Some(spec) = words.first().and_then(|name| find(name)) else { return };
    if spec.has(Flag::Write) || spec.name == "exec" {
        return;
    }
    let size = out.len() - start;
    out.truncate(start);
    out.shrink_to(start + 1_024);
    let why = format!(
        "ERR the reply takes {size} bytes, of {most} that one may take: ask for less at once, or raise output-limit"
    );
    write::error(out, &why);
}

impl Turn {
    fn nothing(next: Next) -> Self {
        Self { consumed: 0, dues: Dues::default(), replies: 0, next, pause: Duration::ZERO }
    }
}

/// The words of a command: as they were given, and with the names as they are in the engine.
#[derive(Clone, Copy)]
struct Words<'w> {
    given: &'w [&'w [u8]],
    full: &'w [&'w [u8]],
}

/// What one command came to.
enum Step {
    Done,
    Busy,
    End(Next),
}

/// What a command that concerns the conversation itself came to.
pub(crate) enum Own {
    Reply(Reply),
    End(Reply, Next),
    /// Somebody else decides it.
    Later(Job),
}

/// A command was run: the namespace of its first name counts it.
pub(crate) fn count_in_space(engine: &Engine, spec: &Spec, full: &[&[u8]]) {
    if !engine.namespaces.is_empty()
        && let Some(name) = spec.names_in(full).next()
    {
        engine.namespaces.count_commands(engine.namespaces.of(name), 1);
    }
}

/// Whether a user may give a command; noted if not.
pub(crate) fn allow(
    core: &Core,
    desk: &Desk,
    user: &User,
    client: &Client,
    spec: &'static Spec,
    request: &Request<'_>,
) -> Result<(), Refusal> {
    if user.may(spec, request) {
        return Ok(());
    }
    let (now_ms, client) = (core.engine.clock.now_ms(), connection::describe_giving(client, spec.name));
    desk.access.notes.note(Reason::Command, spec.name, user.name.as_bytes(), client, now_ms);
    Err(Refusal::no_permission(&user.name, spec.name, &user.lacks(spec, request)))
}

/// Runs a long command on a worker; its reply, and the sequence that must be durable before it leaves.
pub fn run_job(core: &mut Core, desk: &Desk, job: &Job, out: &mut Vec<u8>) -> Dues {
    if let Some(login) = &job.login {
        login::run(&core.engine, desk, job, login, core.thread, out);
        return Dues::default();
    }
    if let Some(transaction) = &job.transaction {
        let dues = transaction::run(core, desk, job, transaction, out);
        desk.count_answers(core.thread, &mut core.scratch.answered);
        return dues;
    }
    let start = out.len();
    let words: Vec<&[u8]> = job.words.iter().collect();
    let mut dues = Dues::default();
    let began = Instant::now();
    (core.scratch.owed, core.scratch.in_one_go) = (job.paid, true);
    let parsed = parse(&words);
    let spec = parsed.as_ref().ok().map(|(spec, _)| *spec);
    let outcome = parsed.map_err(NotDone::from).and_then(|(spec, request)| {
        // It may have waited long: what counts is who they are now.
        let user = job.user.as_ref().and_then(|user| desk.access.renewed(user)).ok_or(Refusal::NO_AUTH)?;
        allow(core, desk, &user, &job.client, spec, &request)?;
        let space = Space::of(&user, &desk.access.book())?;
        pieces::each(&words, request, |request, words, were_refused, is_last| {
            in_full(space.as_deref(), (spec, request), words, |request, full| {
                let outcome = loop {
                    let call = Call::new(core, desk, &mut dues, &job.client, space.as_deref()).by(Some(&user));
                    match call.after_refusals(were_refused).run(spec, request, full) {
                        // A worker may wait where a reactor may not.
                        Err(NotDone::Busy) => crate::sync::rest(),
                        outcome => break outcome,
                    }
                };
                if is_last || outcome.is_err() {
                    desk.note_slow(began.elapsed(), full, &job.client);
                    count_in_space(&core.engine, spec, full);
                }
                outcome
            })?
        })
    });
    job.client.owe(std::mem::take(&mut core.scratch.owed));
    desk.count_answers(core.thread, &mut core.scratch.answered);
    let took = began.elapsed();
    core.scratch.in_one_go = false;
    if let Some(spec) = spec {
        desk.tallies.ran(core.thread, spec, took, matches!(outcome, Err(_) | Ok(Reply::Error(_))));
    }
    match outcome {
        Ok(reply) => reply.write(job.protocol, out),
        Err(NotDone::Refused(refusal)) => write::error(out, refusal.as_str()),
        Err(NotDone::Busy) => write::error(out, "ERR the filter is busy: try again"),
    }
    bound(desk, &words, out, start);
    if job.silent {
        out.truncate(start);
    }
    dues
}
