//! AUTH and HELLO: who a client is.
//!
//! A password that was proven before logs in at once. Any other takes 25 ms of hashing, which is a [`Job`] for a thread of its
//! own; what came of it lands where the conversation finds it at its next turn, before any command behind it is read. Whether the
//! user is not there, is switched off or has another password, the answer is the same and takes as long.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bloomgate_command::{Protocol, Refusal, Reply, Spec, find, write};

use super::connection::describe_giving;
use super::desk::{Client, Desk};
use super::space::Space;
use super::{Job, Own, Session};
use crate::access::notes::Reason;
use crate::access::{DEFAULT, User};
use crate::engine::Engine;
use crate::logging::{Level, Often, shown};

/// A login that succeeded elsewhere.
#[derive(Debug)]
pub struct LoggedIn {
    user: Arc<User>,
    /// Of the directory when the user was looked up.
    generation: u64,
    /// What HELLO chose.
    protocol: Option<Protocol>,
}

/// A login that a thread of its own decides.
pub struct Login {
    user: Vec<u8>,
    password: Vec<u8>,
    /// What else HELLO asked for; AUTH asks for nothing.
    hello: Option<Hello>,
    landing: Arc<OnceLock<LoggedIn>>,
}

/// What HELLO asks for besides the login.
#[derive(Debug, Clone, Default)]
pub(super) struct Hello {
    pub version: Option<u8>,
    pub name: Option<Vec<u8>>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({})", self.user.escape_ascii())
    }
}

impl PartialEq for Login {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.landing, &other.landing)
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        self.password.fill(0);
        std::hint::black_box(&self.password);
    }
}

impl Session {
    /// AUTH, or the login of HELLO.
    pub(super) fn log_in(&mut self, desk: &Desk, user: Option<&[u8]>, password: &[u8], hello: Option<Hello>) -> Own {
        if user.is_none() && desk.access.is_open() {
            return Own::Reply(Reply::Error(Refusal::AUTH_NO_PASSWORD));
        }
        let user = user.unwrap_or(DEFAULT.as_bytes());
        if let Some((user, generation)) =
            desk.access.enter_at_once(user, password, self.client.comes_from(&desk.access))
        {
            if let Err(refusal) = self.is_now(desk, user, generation) {
                return Own::Reply(Reply::Error(refusal));
            }
            return Own::Reply(match hello {
                Some(hello) => self.greet(&hello),
                None => Reply::Ok,
            });
        }
        let landing = Arc::new(OnceLock::new());
        self.landing = Some(landing.clone());
        let words = [if hello.is_some() { "HELLO" } else { "AUTH" }].into_iter().collect();
        let login = Login { user: user.to_vec(), password: password.to_vec(), hello, landing };
        Own::Later(self.job(words, Some(login)))
    }

    /// HELLO for somebody who is logged in.
    pub(super) fn greet(&mut self, hello: &Hello) -> Reply {
        let protocol = greeted(&self.client, hello);
        self.protocol = protocol.unwrap_or(self.protocol);
        greeting(&self.client, self.protocol)
    }

    /// The client is this user from now on; nobody if the user's namespace is not there.
    fn is_now(&mut self, desk: &Desk, user: Arc<User>, generation: u64) -> Result<(), Refusal> {
        self.generation = generation;
        let space = Space::of(&user, &desk.access.book());
        if space.is_ok() {
            // Who finds no room stays who it is.
            desk.bind(&self.client, user.namespace.as_deref())?;
        }
        self.user = space.is_ok().then_some(user);
        self.client.card().user.clone_from(&self.user);
        self.space = space?;
        Ok(())
    }

    /// Takes what came of a login, and looks again if users were changed; false if the client is nobody any more and the
    /// connection is to end.
    #[inline]
    pub(crate) fn is_still_welcome(&mut self, desk: &Desk) -> bool {
        if self.landing.is_some() {
            self.land(desk);
        }
        self.generation == desk.access.generation() || self.renew(desk)
    }

    fn land(&mut self, desk: &Desk) {
        let landing = self.landing.take();
        if let Some(landed) = landing.as_ref().and_then(|landing| landing.get()) {
            self.protocol = landed.protocol.unwrap_or(self.protocol);
            // Nobody, if the user's namespace is not there: every command says so.
            let _ = self.is_now(desk, landed.user.clone(), landed.generation);
        }
    }

    #[cold]
    fn renew(&mut self, desk: &Desk) -> bool {
        self.generation = desk.access.generation();
        let Some(before) = &self.user else { return true };
        let Some(user) = desk.access.renewed(before) else { return false };
        self.is_now(desk, user, self.generation).is_ok()
    }
}

/// What HELLO says about the client itself; the protocol it chose.
fn greeted(client: &Client, hello: &Hello) -> Option<Protocol> {
    let mut card = client.card();
    card.protocol = hello.version.unwrap_or(card.protocol);
    if let Some(name) = &hello.name {
        card.name.clone_from(name);
    }
    hello.version.map(|version| if version == 3 { Protocol::Resp3 } else { Protocol::Resp2 })
}

/// The reply of HELLO.
fn greeting(client: &Client, protocol: Protocol) -> Reply {
    let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
    Reply::Map(vec![
        // Clients look here for what they may expect; ours is a Redis that has filters only.
        (Reply::text("server"), Reply::text("redis")),
        (Reply::text("version"), Reply::text(super::server::REDIS_VERSION)),
        (Reply::text("proto"), Reply::Int(number)),
        (Reply::text("id"), Reply::Int(client.id as i64)),
        (Reply::text("mode"), Reply::text("standalone")),
        (Reply::text("role"), Reply::text("master")),
        (Reply::text("modules"), Reply::Array(vec![super::server::module("bf", super::server::BF_VERSION)])),
    ])
}

/// Decides a login and writes the reply. Takes 25 ms or more: never on a reactor.
pub fn run(engine: &Engine, desk: &Desk, job: &Job, login: &Login, thread: usize, out: &mut Vec<u8>) {
    let (began, start) = (Instant::now(), out.len());
    let entered = desk.access.enter(&login.user, &login.password, job.client.comes_from(&desk.access));
    let entered = entered
        .map(|(user, generation)| desk.bind(&job.client, user.namespace.as_deref()).map(|()| (user, generation)));
    let failed = !matches!(entered, Some(Ok(_)));
    let spec: Option<&Spec> = find(if login.hello.is_some() { b"hello" } else { b"auth" });
    match entered {
        Some(Err(no_room)) => write::error(out, no_room.as_str()),
        Some(Ok((user, generation))) => {
            // So that a deletion from now on finds this connection; one before it is found by the generation.
            job.client.card().user = Some(user.clone());
            let chosen = login.hello.as_ref().and_then(|hello| greeted(&job.client, hello));
            let protocol = chosen.unwrap_or(job.protocol);
            match &login.hello {
                Some(_) => greeting(&job.client, protocol).write(protocol, out),
                None => write::ok(out),
            }
            let _ = login.landing.set(LoggedIn { user, generation, protocol: chosen });
        }
        None => {
            let name = spec.map_or("auth", |spec| spec.name);
            let now_ms = engine.clock.now_ms();
            let client = describe_giving(&job.client, name);
            // Who says the password where the name should be must not find it in a log.
            let is_known = str::from_utf8(&login.user).is_ok_and(|user| desk.access.user(user).is_some());
            let told: &[u8] = if is_known { &login.user } else { b"(unknown)" };
            desk.access.notes.note(Reason::Login, name, told, client, now_ms);
            let (user, from) = (shown(told), job.client.from());
            desk.log.often(
                Often::Login,
                Level::Warn,
                "login-failed",
                format_args!("{from} failed to log in as '{user}'"),
                &[("user", user.as_str().into()), ("client", from.as_str().into())],
            );
            write::error(out, Refusal::WRONG_PASS.as_str());
        }
    }
    if let Some(spec) = spec {
        desk.tallies.ran(thread, spec, began.elapsed(), failed);
    }
    if job.silent {
        out.truncate(start);
    }
}
