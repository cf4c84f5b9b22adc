//! Commands that concern the conversation itself: who speaks, in which protocol, and what belongs together.

use bloomgate_command::{ClientReply, Protocol, Refusal, Reply, Request, Shutdown};

use super::desk::{Client, Desk};
use super::{Dues, Next, Own, Session};
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
        if let Some(reply) = stateless(request) {
            return Some(Own::Reply(reply));
        }
        let reply = match *request {
            Request::Hello { version, auth, name } => self.hello(desk, version, auth, name),
            Request::Auth { user, password } => self.auth(desk, user, password).map(|()| Reply::Ok),
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
            Request::Exec => self.transaction.execute(core, desk, dues),
            Request::ClientId => Ok(Reply::Int(self.client.id as i64)),
            Request::ClientInfo => Ok(Reply::Verbatim(format!("{}\n", describe(&self.client)))),
            Request::ClientGetname => {
                let name = self.client.card().name.clone();
                Ok(if name.is_empty() { Reply::Nil } else { Reply::Bulk(name) })
            }
            Request::ClientSetname { name } => {
                self.client.card().name = name.to_vec();
                Ok(Reply::Ok)
            }
            Request::ClientSetinfo { attribute, value } => {
                let mut card = self.client.card();
                match attribute {
                    bloomgate_command::ClientAttribute::LibName => card.library = value.to_vec(),
                    bloomgate_command::ClientAttribute::LibVer => card.version = value.to_vec(),
                }
                Ok(Reply::Ok)
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
            Request::Shutdown(how) => return Some(shutdown(desk, how)),
            _ => return None,
        };
        Some(Own::Reply(reply.unwrap_or_else(Reply::Error)))
    }

    fn hello(
        &mut self,
        desk: &Desk,
        version: Option<u8>,
        auth: Option<(&[u8], &[u8])>,
        name: Option<&[u8]>,
    ) -> Result<Reply, Refusal> {
        if let Some((user, password)) = auth {
            self.auth(desk, Some(user), password)?;
        }
        if !self.authenticated {
            return Err(Refusal::new(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                 <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                 the same time",
            ));
        }
        if let Some(version) = version {
            self.protocol = if version == 3 { Protocol::Resp3 } else { Protocol::Resp2 };
            self.client.card().protocol = version;
        }
        if let Some(name) = name {
            self.client.card().name = name.to_vec();
        }
        let proto = if self.protocol == Protocol::Resp3 { 3 } else { 2 };
        Ok(Reply::Map(vec![
            // Clients look here for what they may expect; ours is a Redis that has filters only.
            (Reply::text("server"), Reply::text("redis")),
            (Reply::text("version"), Reply::text(super::server::REDIS_VERSION)),
            (Reply::text("proto"), Reply::Int(proto)),
            (Reply::text("id"), Reply::Int(self.client.id as i64)),
            (Reply::text("mode"), Reply::text("standalone")),
            (Reply::text("role"), Reply::text("master")),
            (Reply::text("modules"), Reply::Array(vec![super::server::module("bf", super::server::BF_VERSION)])),
        ]))
    }

    fn auth(&mut self, desk: &Desk, user: Option<&[u8]>, password: &[u8]) -> Result<(), Refusal> {
        if !desk.needs_password() {
            return match user {
                // The default user of a server without a password takes any.
                Some(b"default") => Ok(()),
                Some(_) => Err(Refusal::WRONG_PASS),
                None => Err(Refusal::AUTH_NO_PASSWORD),
            };
        }
        if user.is_some_and(|user| user != b"default") || !desk.is_password(password) {
            return Err(Refusal::WRONG_PASS);
        }
        self.authenticated = true;
        Ok(())
    }
}

fn shutdown(desk: &Desk, how: Shutdown) -> Own {
    if how.abort {
        return Own::Reply(Reply::Error(Refusal::err("No shutdown in progress.")));
    }
    if how.save == Some(true)
        && let Some(keeper) = desk.keeper.get()
        && let Err(why) = keeper.save()
        && !how.force
    {
        return Own::Reply(Reply::Error(Refusal::err(format_args!("no snapshot, so no shutdown: {why}"))));
    }
    Own::End(Reply::Raw(Vec::new()), Next::Shutdown)
}

/// Whether a request is answered in less time than the clock takes to be read twice.
#[inline]
pub(super) fn is_short(request: &Request<'_>) -> bool {
    matches!(request, Request::Ping { .. } | Request::Echo { .. } | Request::Select { index: 0 })
}

/// Commands that need neither the filters nor who asks.
pub(super) fn stateless(request: &Request<'_>) -> Option<Reply> {
    Some(match *request {
        Request::Ping { message: None } => Reply::simple("PONG"),
        Request::Ping { message: Some(message) } | Request::Echo { message } => Reply::Bulk(message.to_vec()),
        Request::Select { index: 0 } => Reply::Ok,
        Request::Select { .. } => Reply::Error(Refusal::DB_INDEX),
        Request::ClientNoEvict { .. } | Request::ClientNoTouch { .. } | Request::ClientTrackingOff => Reply::Ok,
        Request::Command(ref query) => bloomgate_command::command_reply(query),
        _ => return None,
    })
}

/// A line of CLIENT LIST.
#[must_use]
pub fn describe(client: &Client) -> String {
    let card = client.card();
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let address = client.address.map(|address| address.to_string()).unwrap_or_default();
    format!(
        "id={} addr={address} name={} age={} db=0 resp={} lib-name={} lib-ver={} cmd={} user=default",
        client.id,
        text(&card.name),
        client.since.elapsed().as_secs(),
        card.protocol,
        text(&card.library),
        text(&card.version),
        if card.last.is_empty() { "NULL" } else { card.last },
    )
}
