//! A conversation with Redis, one question and one answer at a time.
//!
//! Commands are packed and answers are read by the `redis` crate; the socket is ours, so that an answer can be cut off
//! at a limit before it fills the memory, and so that no message ever holds the address with its password.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo, Parser, Value};

use crate::failure::Failure;
use crate::number;

/// The most bytes of an answer that is no chunk: a page of keys, or a few numbers.
const MOST_ANSWER: u64 = 64 << 20;

/// Where a server is and who asks.
pub struct Address {
    place: ConnectionAddr,
    /// The address without its password.
    name: String,
    user: Option<String>,
    password: Option<String>,
    database: i64,
}

impl Address {
    /// From a URL, and a file with the password. The URL may hold a password: no message repeats it.
    pub fn read(url: &str, password_file: Option<&Path>) -> Result<Self, Failure> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("redis" | "valkey" | "redis+unix" | "valkey+unix" | "unix") => {}
            Some("rediss" | "valkeys") => {
                return Err(Failure::Message(
                    "TLS is not built in: open a tunnel and import from redis://localhost:PORT. stunnel makes one \
                     (client = yes, accept = 127.0.0.1:6380, connect = HOST:PORT), and so does ssh -L 6380:HOST:PORT. Or \
                     dump with redis-cli --tls; docs/interop.md says how a dump becomes a file that check reads"
                        .into(),
                ));
            }
            _ => {
                return Err(Failure::Message(
                    "the source is no address of a server: write redis://[USER:PASSWORD@]HOST[:PORT][/DB] or \
                     redis+unix:///PATH/TO/SOCKET[?db=N]"
                        .into(),
                ));
            }
        }
        // What the crate says of a URL is a fixed sentence, never a part of it.
        let info = url.into_connection_info().map_err(|error| {
            Failure::Message(format!(
                "the address of the server cannot be read ({error}): write redis://[USER:PASSWORD@]HOST[:PORT][/DB], with \
                 %40 for an @ and %2F for a / in the password, or give --password-file"
            ))
        })?;
        let settings = info.redis_settings();
        let mut password = settings.password().map(String::from);
        if let Some(path) = password_file {
            if password.is_some() {
                return Err(Failure::Message(
                    "there is a password in the address and one in --password-file: give one of them".into(),
                ));
            }
            let text = std::fs::read_to_string(path).map_err(|error| Failure::at(path, error))?;
            let text = text.strip_suffix('\n').unwrap_or(&text);
            let text = text.strip_suffix('\r').unwrap_or(text);
            if text.is_empty() || text.contains('\n') {
                return Err(Failure::at(path, "holds no password: one line is expected, and nothing else"));
            }
            password = Some(text.into());
        }
        let user = settings.username().map(String::from);
        if user.is_some() && password.is_none() {
            return Err(Failure::Message(
                "there is a user in the address and no password: put it in a file and give --password-file FILE".into(),
            ));
        }
        let database = settings.db();
        let name = match info.addr() {
            ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("redis://[{host}]:{port}/{database}"),
            ConnectionAddr::Tcp(host, port) => format!("redis://{host}:{port}/{database}"),
            ConnectionAddr::Unix(path) => format!("redis+unix://{}?db={database}", path.display()),
            _ => return Err(Failure::Message("this kind of address is not built in: use redis://HOST:PORT".into())),
        };
        Ok(Self { place: info.addr().clone(), name, user, password, database })
    }

    fn connect(&self, patience: Duration) -> io::Result<Box<dyn Stream>> {
        match &self.place {
            ConnectionAddr::Tcp(host, port) => {
                let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, patience) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            stream.set_read_timeout(Some(patience))?;
                            stream.set_write_timeout(Some(patience))?;
                            return Ok(Box::new(stream));
                        }
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Box::new(stream))
            }
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "this kind of address is not built in")),
        }
    }
}

/// What is read from and written to.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// What a server answered instead of an answer.
#[derive(Debug)]
pub enum Refusal {
    /// It said no: the whole line.
    Said(String),
    /// There is no talking to it any more.
    Lost(Failure),
}

/// A server that listens.
pub struct Server {
    stream: Box<dyn Stream>,
    parser: Parser,
    name: String,
}

/// A command, ready to be sent.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let (name, arguments) = words.split_first().unwrap_or((&(b"PING" as &[u8]), &[]));
    let mut command = redis::Cmd::new();
    command.arg(*name);
    arguments.iter().for_each(|word| _ = command.arg(*word));
    command.get_packed_command()
}

impl Server {
    /// Connects, signs in and chooses the database.
    pub fn connect(address: &Address, patience: Duration) -> Result<Self, Failure> {
        let stream = address.connect(patience).map_err(|error| {
            Failure::Message(format!("{}: cannot connect: {}; does the server run there?", address.name, plain(&error)))
        })?;
        let mut server = Self { stream, parser: Parser::new(), name: address.name.clone() };
        if let Some(password) = &address.password {
            let words: &[&[u8]] = match &address.user {
                Some(user) => &[b"AUTH", user.as_bytes(), password.as_bytes()],
                None => &[b"AUTH", password.as_bytes()],
            };
            server.ask(words).map_err(|refusal| server.failure("AUTH", refusal))?;
        }
        if address.database != 0 {
            let database = address.database.to_string();
            let chosen = server.ask(&[b"SELECT", database.as_bytes()]);
            chosen.map_err(|refusal| server.failure("SELECT", refusal))?;
        }
        Ok(server)
    }

    /// The address, without its password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends a command and reads its answer.
    pub fn ask(&mut self, words: &[&[u8]]) -> Result<Value, Refusal> {
        self.ask_for(words, MOST_ANSWER)
    }

    /// The same with another limit on the answer.
    pub fn ask_for(&mut self, words: &[&[u8]], most: u64) -> Result<Value, Refusal> {
        self.send(&command(words))?;
        self.answer(most)
    }

    /// Sends many commands at once and reads their answers: one journey for all of them.
    pub fn ask_all(&mut self, commands: &[Vec<u8>]) -> Result<Vec<Value>, Refusal> {
        // In parts: a server that answers before it has read all would otherwise wait for us, and we for it.
        let mut answers = Vec::with_capacity(commands.len());
        for part in commands.chunks(256) {
            self.send(&part.concat())?;
            for _ in part {
                answers.push(self.answer(MOST_ANSWER)?);
            }
        }
        Ok(answers)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(|error| self.lost(plain(&error)))
    }

    fn answer(&mut self, most: u64) -> Result<Value, Refusal> {
        let mut limited = (&mut self.stream).take(most);
        match self.parser.parse_value(&mut limited) {
            Ok(Value::ServerError(error)) => Err(Refusal::Said(match error.details() {
                Some(details) => format!("{} {details}", error.code()),
                None => error.code().into(),
            })),
            Ok(value) => Ok(value),
            Err(_) if limited.limit() == 0 => Err(self.lost(format!(
                "an answer is longer than {}, which no {} is: this is no RedisBloom, or something between changes it",
                number::bytes(most),
                if most == MOST_ANSWER { "answer" } else { "chunk" }
            ))),
            Err(error) if error.is_timeout() => {
                Err(self.lost("no answer in time: give a longer --timeout, or ask again later".into()))
            }
            Err(error) if error.is_io_error() => Err(self.lost(format!("the connection broke ({error})"))),
            Err(error) => Err(self.lost(format!("what it sends is not the protocol of Redis ({error})"))),
        }
    }

    fn lost(&self, what: String) -> Refusal {
        Refusal::Lost(Failure::Message(format!("{}: {what}", self.name)))
    }

    /// A refusal as a message that says what to do.
    pub fn failure(&self, command: &str, refusal: Refusal) -> Failure {
        let said = match refusal {
            Refusal::Lost(failure) => return failure,
            Refusal::Said(said) => said,
        };
        let what = if said.starts_with("NOAUTH") {
            "the server wants a password: put it in a file and give --password-file FILE".into()
        } else if said.starts_with("WRONGPASS") || said.contains("invalid password") {
            "the server takes neither this user nor this password".into()
        } else if said.contains("without any password") {
            "the server has no password, and one was given: leave it out".into()
        } else if said.starts_with("NOPERM") {
            format!("this user may not use {command}: the server says {said:?}")
        } else if said.contains("unknown command") {
            format!(
                "the server does not know {command}: it is Redis without the RedisBloom module (loaded with loadmodule \
                 redisbloom.so, part of Redis 8), or one whose filters cannot be dumped, as those of valkey-bloom"
            )
        } else if let Some(node) = said.strip_prefix("MOVED ").and_then(|rest| rest.split(' ').nth(1)) {
            format!("the key lives on another node of the cluster: import from redis://{node}")
        } else if said.starts_with("LOADING") {
            "the server is still loading its data: try again later".into()
        } else {
            format!("{command}: the server says {said:?}")
        };
        Failure::Message(format!("{}: {what}", self.name))
    }
}

/// An error of the system without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        match Address::read(url, None) {
            Err(Failure::Message(message)) => message,
            _ => panic!("{url} was taken"),
        }
    }

    #[test]
    fn addresses_are_read_and_named_without_the_password() {
        for (url, name) in [
            ("redis://cache.example", "redis://cache.example:6379/0"),
            ("redis://127.0.0.1:7000/3", "redis://127.0.0.1:7000/3"),
            ("redis://:hunter2@[::1]:7000", "redis://[::1]:7000/0"),
            ("REDIS://ann:hun%40ter2@h/1", "redis://h:6379/1"),
        ] {
            let address = Address::read(url, None).unwrap();
            assert_eq!(address.name, name);
        }
        let address = Address::read("redis://ann:hun%40ter2@h/1", None).unwrap();
        assert_eq!((address.user.as_deref(), address.password.as_deref()), (Some("ann"), Some("hun@ter2")));
        #[cfg(unix)]
        assert_eq!(Address::read("redis+unix:///run/r.sock?db=2", None).unwrap().name, "redis+unix:///run/r.sock?db=2");
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for (url, said) in [
            ("rediss://ann:hunter2@h", "stunnel"),
            ("http://ann:hunter2@h", "redis://"),
            ("ann:hunter2@h", "redis://"),
            ("redis://ann:hunter2@h:port", "redis://"),
            ("redis://ann:hunter2@h/one", "database"),
            ("redis://ann:hunter2@0.0.0.0", "wildcard"),
            ("redis://ann@h", "--password-file"),
        ] {
            let message = refused(url);
            assert!(message.contains(said) && !message.contains("hunter2"), "{url}: {message}");
        }
    }
}
