//! Commands that concern the conversation itself: who speaks, in which protocol, and what belongs together.

use std::ops::Range;

use bloomgate_command::{
    ClientAttribute, ClientReply, Protocol, Refusal, Reply, Request, Shutdown, command_reply, command_reply_in,
};

use super::desk::{Client, Desk};
use super::login::Hello;
use super::{Dues, Next, Own, Session};
use crate::access::User;
use crate::engine::Core;

/// CLIENT REPLY: what is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// Everything.
    On,
    /// Nothing.
    Off,
    /// Everything but the next.
    Skip,
    /// Everything but this one.
    Skipping,
}

impl Replies {
    /// Takes back what must not be said.
    pub fn apply(&mut self, out: &mut Vec<u8>, start: usize) {
        match self {
            Self::On => {}
            Self::Off => out.truncate(start),
            Self::Skip => {
                out.truncate(start);
                *self = Self::Skipping;
            }
            Self::Skipping => {
                out.truncate(start);
                *self = Self::On;
            }
        }
    }
}

impl Session {
    /// Runs a command that concerns the conversation; nothing if it is of another sort.
    pub(super) fn own(&mut self, core: &mut Core, desk: &Desk, request: &Request<'_>, dues: &mut Dues) -> Option<Own> {
        if let Some(reply) = stateless(Some(self.protocol), request).or_else(|| of_client(&self.client, request)) {
            return Some(Own::Reply(reply));
        }
        let reply = match *request {
            Request::Hello { version, auth, name } => return Some(self.hello(desk, version, auth, name)),
            Request::Auth { user, password } => return Some(self.log_in(desk, user, password, None)),
            Request::AclWhoami => Ok(whoami(self.user().map(|user| &**user))),
            Request::Quit => return Some(Own::End(Reply::Ok, Next::Close)),
            Request::Reset => {
                let client = self.client.clone();
                *client.card() = super::desk::Card { protocol: 2, ..Default::default() };
                let reader = std::mem::take(&mut self.reader);
                *self = Self { reader, ..Self::new(client, desk) };
                Ok(Reply::simple("RESET"))
            }
            Request::Multi => self.transaction.begin(),
            Request::Discard => self.transaction.discard(),
            Request::Watch { keys } => self.transaction.watch(&core.engine, keys),
            Request::Unwatch => {
                self.transaction.unwatch();
                Ok(Reply::Ok)
            }
            Request::Exec if !self.transaction.is_open() => Err(Refusal::EXEC_WITHOUT_MULTI),
            Request::Exec => {
                let transaction = std::mem::take(&mut self.transaction);
                // One that would wait is not for a reactor either.
                if transaction.is_long() || transaction.waits_for(&core.engine).is_some() {
                    let job = self.job([b"EXEC"].into_iter().collect(), None);
                    let paid = core.scratch.take_ahead();
                    return Some(Own::Later(super::Job { transaction: Some(Box::new(transaction)), paid, ..job }));
                }
                let who = (self.user.as_deref(), self.space.as_deref());
                core.scratch.in_one_go = true;
                let executed = transaction.execute(core, desk, dues, &self.client, who);
                core.scratch.in_one_go = false;
                executed
            }
            Request::ClientReply(mode) => {
                self.replies = match mode {
                    ClientReply::On => Replies::On,
                    ClientReply::Off => Replies::Off,
                    ClientReply::Skip => Replies::Skip,
                };
                Ok(Reply::Ok)
            }
            Request::ClientKill(whom) => super::server::kill(desk, &self.client, whom),
            Request::Shutdown(how) => return shutdown(desk, how),
            _ => return None,
        };
        Some(Own::Reply(reply.unwrap_or_else(Reply::Error)))
    }

    fn hello(&mut self, desk: &Desk, version: Option<u8>, auth: Option<(&[u8], &[u8])>, name: Option<&[u8]>) -> Own {
        let hello = Hello { version, name: name.map(<[u8]>::to_vec) };
        match (auth, self.user()) {
            (Some((user, password)), _) => self.log_in(desk, Some(user), password, Some(hello)),
            (None, Some(_)) => Own::Reply(self.greet(&hello)),
            (None, None) => Own::Reply(Reply::Error(Refusal::new(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                 <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                 the same time",
            ))),
        }
    }
}

/// SHUTDOWN, unless there is something to save first: that takes as long as a snapshot, and a worker does it.
fn shutdown(desk: &Desk, how: Shutdown) -> Option<Own> {
    if how.abort {
        return Some(Own::Reply(Reply::Error(Refusal::err("No shutdown in progress."))));
    }
    let saves_first = how.save == Some(true) && desk.keeper.get().is_some();
    (!saves_first).then(|| Own::End(Reply::Raw(Vec::new()), Next::Shutdown))
}

/// Whether a request is answered in less time than the clock takes to be read twice.
#[inline]
pub(super) fn is_short(request: &Request<'_>) -> bool {
    matches!(request, Request::Ping { .. } | Request::Echo { .. } | Request::Select { index: 0 })
}

/// Whether these words are `PING` and nothing else.
#[inline]
pub(super) fn is_bare_ping(input: &[u8], words: &[Range<usize>]) -> bool {
    matches!(words, [word] if input[word.clone()].eq_ignore_ascii_case(b"PING"))
}

/// Commands that need neither the filters nor who asks. In a transaction no protocol is known yet.
pub(super) fn stateless(protocol: Option<Protocol>, request: &Request<'_>) -> Option<Reply> {
    Some(match *request {
        Request::Ping { message: None } => Reply::simple("PONG"),
        Request::Ping { message: Some(message) } | Request::Echo { message } => Reply::Bulk(message.to_vec()),
        Request::Select { index: 0 } => Reply::Ok,
        Request::Select { .. } => Reply::Error(Refusal::DB_INDEX),
        Request::ClientNoEvict { .. } | Request::ClientNoTouch { .. } | Request::ClientTrackingOff => Reply::Ok,
        Request::Command(ref query) => match protocol {
            Some(protocol) => command_reply_in(protocol, query),
            None => command_reply(query),
        },
        _ => return None,
    })
}

/// Commands about the client alone, which are the same in a transaction.
pub(super) fn of_client(client: &Client, request: &Request<'_>) -> Option<Reply> {
    Some(match *request {
        Request::ClientId => Reply::Int(client.id as i64),
        Request::ClientInfo => Reply::Verbatim(format!("{}\n", describe(client))),
        Request::ClientGetname => {
            let name = client.card().name.clone();
            if name.is_empty() { Reply::Nil } else { Reply::Bulk(name) }
        }
        Request::ClientSetname { name } => {
            client.card().name = name.to_vec();
            Reply::Ok
        }
        Request::ClientSetinfo { attribute, value } => {
            let mut card = client.card();
            match attribute {
                ClientAttribute::LibName => card.library = value.to_vec(),
                ClientAttribute::LibVer => card.version = value.to_vec(),
            }
            Reply::Ok
        }
        _ => return None,
    })
}

/// ACL WHOAMI.
pub(super) fn whoami(user: Option<&User>) -> Reply {
    Reply::text(user.map_or_else(String::new, |user| user.name.clone()))
}

/// A line of CLIENT LIST.
#[must_use]
pub fn describe(client: &Client) -> String {
    let last = client.card().last;
    describe_giving(client, last)
}

/// The same while it gives a command.
#[must_use]
pub(super) fn describe_giving(client: &Client, command: &str) -> String {
    let card = client.card();
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let address = client.address.map(|address| address.to_string()).unwrap_or_default();
    format!(
        "id={} addr={address} name={} age={} db=0 resp={} lib-name={} lib-ver={} cmd={} user={}",
        client.id,
        text(&card.name),
        client.since.elapsed().as_secs(),
        card.protocol,
        text(&card.library),
        text(&card.version),
        if command.is_empty() { "NULL" } else { command },
        card.user.as_ref().map_or("(none)", |user| &user.name),
    )
}
