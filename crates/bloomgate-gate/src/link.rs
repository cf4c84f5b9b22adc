//! A connection to a server that speaks the Redis protocol, for callers that cannot wait: every call has a deadline, goes
//! through a circuit breaker, and learns which run of the server answered it.
//!
//! The run is named by `run_id` of `INFO server`, and by `role` and `master_replid2` of `INFO replication` (whom it follows
//! or followed; `master_replid` itself also changes when somebody begins to follow it, which takes nothing away), asked
//! whenever a connection is made and every two seconds after. A server that was restarted, or became a replica of another
//! one, has other names, and what it holds is then from some moment before: rows that were replaced since, filters without
//! the last keys. A restart ends every connection, so nothing is answered by a run that was not asked for its name. Those
//! who keep connections while the data change, a proxy in front of several servers or a replica that is told to follow
//! another, are found out within the two seconds.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, Pipeline, RedisError, ServerError, Value,
};

use crate::breaker::{Breaker, BreakerCounts, BreakerSettings, BreakerState, NotDone};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};

/// How long a connection may take to be made. Callers wait for it no longer than their deadline; it goes on without them,
/// so that a server further away than one deadline is reached by the calls after the first.
pub const OPENING: Duration = Duration::from_secs(5);
/// How often the run is asked for on a connection that is used.
const ASK_RUN_EVERY: Duration = Duration::from_secs(2);
/// How many commands wait for the socket before callers wait for a place.
const WAITING: usize = 256;

/// A connection that is made when it is needed and made anew when it breaks.
pub struct Link {
    line: Arc<Line>,
    breaker: Breaker,
    address: String,
}

struct Line {
    client: Client,
    clock: Clock,
    slot: Mutex<Slot>,
}

struct Slot {
    /// Rises with each connection, so that trouble with an old one does not end a new one.
    number: u64,
    wire: State,
}

enum State {
    Down,
    Opening(Shared<Opening>),
    Up(Wire),
}

type Opening = Pin<Box<dyn Future<Output = std::result::Result<Wire, Arc<str>>> + Send>>;

#[derive(Clone)]
struct Wire {
    number: u64,
    connection: MultiplexedConnection,
    run: Arc<Mutex<Run>>,
}

struct Run {
    id: Arc<str>,
    asked: Duration,
}

/// What a server answered: a reply for each command, refusals included, and the run that gave them.
pub struct Replies {
    /// In the order of the commands.
    pub values: Vec<Value>,
    /// Which run of the server answered.
    pub run: Arc<str>,
}

/// Why there are no replies.
#[derive(Debug)]
pub enum Trouble {
    /// The breaker is open: nothing was sent.
    Refused,
    /// Nothing came in time. What was sent may still happen.
    Late(Duration),
    /// There is no connection, or it broke. What was sent may have happened.
    Gone(Arc<str>),
}

impl fmt::Display for Trouble {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => to.write_str("was slow or gone a moment ago and is not asked until it has had a pause"),
            Self::Late(deadline) => write!(to, "did not answer within {deadline:?}"),
            Self::Gone(why) => write!(to, "is out of reach: {why}"),
        }
    }
}

/// Whether commands are sent once more on a new connection when the one they were sent on turns out to be broken, as one
/// that nobody used for a while often is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Questions, and changes that may be done twice and late.
    Once,
    /// Changes that must not be done later than their caller believes: the broken connection may still deliver them.
    Never,
}

/// 16 random bytes, which nobody else has.
pub fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    for word in bytes.as_chunks_mut::<8>().0 {
        *word = RandomState::new().hash_one(std::process::id()).to_le_bytes();
    }
    bytes
}

/// Random bytes in hexadecimal: a name that nobody else has.
pub fn random_name() -> String {
    random_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a server says when it refuses: its code and its words.
pub fn refusal(error: &ServerError) -> String {
    format!("{} {}", error.code(), error.details().unwrap_or_default()).trim_end().to_owned()
}

impl Link {
    /// A link to a server by its address; no connection is made yet. No error shows the address: it may have a password.
    pub fn new(url: &str, deadline: Duration) -> Result<Self> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if scheme == "rediss" {
            let message = "rediss:// (the Redis protocol over TLS) is not supported yet: give redis:// of a network you \
                           trust, or of a tunnel such as stunnel on this machine";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let form = "write redis://HOST, redis://HOST:PORT/DATABASE or redis://USER:PASSWORD@HOST:PORT, with % codes for \
                    what is not a letter or a digit in the password";
        let invalid =
            |why: &str| Error::new(ErrorKind::Invalid, format!("the address of a server is wrong: {why}; {form}"));
        if scheme != "redis" {
            return Err(invalid("it does not begin with redis://"));
        }
        let info = url.into_connection_info().map_err(|error| invalid(&error.to_string()))?;
        // A small command waits for no other one to fill its packet.
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(info).map_err(|error| invalid(&error.to_string()))?;
        let info = client.get_connection_info();
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            ConnectionAddr::Tcp(host, port) => format!("{host}:{port}"),
            _ => return Err(invalid("it names no host")),
        };
        let address = match info.redis_settings().db() {
            0 => place,
            database => format!("{place}/{database}"),
        };
        if deadline.is_zero() {
            return Err(Error::new(ErrorKind::Invalid, "a deadline of 0 leaves no time to answer: give at least 1 ms"));
        }
        let clock = Clock::system();
        let breaker = Breaker::new(BreakerSettings::for_deadline(deadline), clock.clone());
        let slot = Mutex::new(Slot { number: 0, wire: State::Down });
        Ok(Self { line: Arc::new(Line { client, clock, slot }), breaker, address })
    }

    /// Where it leads: host, port and database, never a password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What its breaker has seen.
    pub fn counts(&self) -> BreakerCounts {
        self.breaker.counts()
    }

    /// Sends commands and waits for their replies.
    pub async fn run(
        &self,
        deadline: Duration,
        commands: &Pipeline,
        again: Again,
    ) -> std::result::Result<Replies, Trouble> {
        let done = self.breaker.call(deadline, self.attempt(commands, again)).await;
        if done.is_err() && self.breaker.state() == BreakerState::Open {
            // The probe makes a new connection: the old one may lead nowhere without anybody noticing.
            self.line.hang_up(None);
        }
        done.map_err(|not_done| match not_done {
            NotDone::Refused => Trouble::Refused,
            NotDone::TimedOut => Trouble::Late(deadline),
            NotDone::Failed(why) => Trouble::Gone(why),
        })
    }

    async fn attempt(&self, commands: &Pipeline, again: Again) -> std::result::Result<Replies, Arc<str>> {
        let (wire, was_up) = self.wire().await?;
        match self.line.send(&wire, commands).await {
            Err(_) if was_up && again == Again::Once => {
                let (wire, _) = self.wire().await?;
                self.line.send(&wire, commands).await
            }
            other => other,
        }
    }

    /// The connection, and whether it was there before.
    async fn wire(&self) -> std::result::Result<(Wire, bool), Arc<str>> {
        let opening = {
            let mut slot = self.line.lock();
            match &slot.wire {
                State::Up(wire) => return Ok((wire.clone(), true)),
                State::Opening(opening) => opening.clone(),
                State::Down => {
                    slot.number += 1;
                    let (line, number) = (self.line.clone(), slot.number);
                    let task = tokio::spawn(async move { line.open(number).await });
                    let opening: Opening = Box::pin(async move {
                        task.await.unwrap_or_else(|_| Err("the task that connects has ended".into()))
                    });
                    let opening = opening.shared();
                    slot.wire = State::Opening(opening.clone());
                    opening
                }
            }
        };
        opening.await.map(|wire| (wire, false))
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a connection: this one, or whichever is up. One that is being made goes on.
    fn hang_up(&self, number: Option<u64>) {
        let mut slot = self.lock();
        if matches!(&slot.wire, State::Up(wire) if number.is_none_or(|number| number == wire.number)) {
            slot.wire = State::Down;
        }
    }

    async fn open(&self, number: u64) -> std::result::Result<Wire, Arc<str>> {
        let opened = tokio::time::timeout(OPENING, self.connect(number)).await;
        let opened = opened.unwrap_or_else(|_| Err(format!("no connection within {OPENING:?}").into()));
        let mut slot = self.lock();
        if slot.number == number {
            slot.wire = match &opened {
                Ok(wire) => State::Up(wire.clone()),
                Err(_) => State::Down,
            };
        }
        opened
    }

    async fn connect(&self, number: u64) -> std::result::Result<Wire, Arc<str>> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(WAITING);
        let why = |error: RedisError| Arc::from(error.to_string());
        let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await.map_err(why)?;
        let told = connection.send_packed_commands(&ask_run(), 0, 2).await.map_err(why)?;
        let run = Run { id: run_name(&told)?, asked: self.clock.now() };
        Ok(Wire { number, connection, run: Arc::new(Mutex::new(run)) })
    }

    async fn send(&self, wire: &Wire, commands: &Pipeline) -> std::result::Result<Replies, Arc<str>> {
        let mut connection = wire.connection.clone();
        let run = || wire.run.lock().unwrap_or_else(PoisonError::into_inner);
        let due = {
            let (now, mut run) = (self.clock.now(), run());
            let due = now.saturating_sub(run.asked) >= ASK_RUN_EVERY;
            if due {
                run.asked = now;
            }
            due
        };
        let count = commands.len();
        let sent = if due {
            let mut all = ask_run();
            commands.cmd_iter().for_each(|command| {
                all.add_command(command.clone());
            });
            connection.send_packed_commands(&all, 0, count + 2).await
        } else {
            connection.send_packed_commands(commands, 0, count).await
        };
        let replied = sent.map_err(|error| Arc::from(error.to_string())).and_then(|mut values| {
            if due {
                let id = run_name(&values)?;
                values.drain(..2);
                run().id = id;
            }
            if values.len() != count {
                return Err(format!("it gave {} replies to {count} commands", values.len()).into());
            }
            Ok(Replies { values, run: run().id.clone() })
        });
        if replied.is_err() {
            // Whatever is wrong: replies may belong to other commands from here on.
            self.hang_up(Some(wire.number));
        }
        replied
    }
}

/// The questions whose answers name a run. Two: servers before Redis 7 take one section a command.
fn ask_run() -> Pipeline {
    let mut ask = redis::pipe();
    ask.cmd("INFO").arg("server").cmd("INFO").arg("replication");
    ask
}

/// The run that the first two replies name.
fn run_name(told: &[Value]) -> std::result::Result<Arc<str>, Arc<str>> {
    let [server, replication, ..] = told else { return Err("it does not answer INFO".into()) };
    let run = fact(server, "run_id:")?.ok_or("its INFO has no run_id, which tells whether it was restarted")?;
    // A server that knows no replication has only the first.
    let of = |name| fact(replication, name).map(Option::unwrap_or_default);
    Ok(format!("{run} {} {}", of("role:")?, of("master_replid2:")?).into())
}

/// A line of what INFO says.
fn fact(told: &Value, name: &str) -> std::result::Result<Option<String>, Arc<str>> {
    let text = match told {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.into(),
        Value::ServerError(error) => {
            return Err(format!("it refuses INFO, which tells whether it was restarted: {}", refusal(error)).into());
        }
        _ => return Err("it answers INFO with something else than a text".into()),
    };
    let value = text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Ok(value.filter(|value| !value.is_empty()).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(50);

    #[test]
    fn addresses_are_checked_and_passwords_never_shown() {
        let link = Link::new("redis://user:s3cret@db.example:7000/3", MS).unwrap();
        assert_eq!(link.address(), "db.example:7000/3");
        assert_eq!(Link::new("redis://[::1]", MS).unwrap().address(), "[::1]:6379");
        for (wrong, kind) in [
            ("rediss://:s3cret@db.example", ErrorKind::Unsupported),
            ("http://:s3cret@db.example", ErrorKind::Invalid),
            ("s3cret", ErrorKind::Invalid),
            ("redis://:s3cret@db.example:99999", ErrorKind::Invalid),
            ("redis://:s3cret@db.example/s3cret", ErrorKind::Invalid),
            ("redis://:s3#cret@db.example/0", ErrorKind::Invalid),
        ] {
            let error = Link::new(wrong, MS).err().unwrap_or_else(|| panic!("{wrong} is taken"));
            assert_eq!(error.kind(), kind, "{wrong}");
            assert!(!error.to_string().contains("s3"), "{error}");
        }
        assert_eq!(Link::new("redis://h", Duration::ZERO).err().unwrap().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn the_run_is_read_from_what_info_says() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let server = text("# Server\r\nredis_version:7.0\r\nrun_id:abc123\r\ntcp_port:1\r\n");
        let master = text("# Replication\r\nrole:master\r\nmaster_replid:66\r\nmaster_replid2:77\r\n");
        let name = |told: &[Value]| run_name(told).map(|name| name.to_string());
        assert_eq!(name(&[server.clone(), master.clone(), Value::Nil]).unwrap(), "abc123 master 77");
        assert_eq!(name(&[server.clone(), text("")]).unwrap(), "abc123  ");
        for wrong in [vec![], vec![server.clone()], vec![server, Value::Nil], vec![text("run_id:\r\n"), master.clone()]]
        {
            assert!(name(&wrong).is_err(), "{wrong:?}");
        }
        assert!(name(&[Value::Nil, master]).is_err());
    }
}
