//! What strangers do to a port: frames that lie about their length, requests that never end, replies that are never
//! taken, floods. Each attack says what became of it; one that is not refused as it should be is an error, and so is one that holds
//! on for longer than a limit allows and is not counted among those that were ended.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::random::Random;
use crate::shared_machine::run_when_idle;
use crate::subject::{Kind, Subject};
use crate::web_attacks;
use crate::wire::{Reply, Wire};

/// Whom the attacks meet.
pub struct Arena<'a> {
    pub subject: &'a Subject,
    pub address: SocketAddr,
    /// Where it listens for TLS, if it does.
    pub tls: Option<SocketAddr>,
    /// Where its HTTP side is, if it has one.
    pub http: Option<SocketAddr>,
    pub seed: u64,
    /// Whether those who ask meanwhile leave no processor idle.
    pub beside_crowd: bool,
    /// How long connections are held that are to be held.
    pub hold: Duration,
    /// What holds of clients, where the server has such limits.
    pub limits: Option<Limits>,
    /// Limits that did not end as many as went beyond them.
    pub unmet: Mutex<Vec<String>>,
}

/// Limits on clients, as the server was told them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a request may take to be whole.
    pub request: Duration,
    /// How long a client may take nothing of its replies.
    pub stall: Duration,
    /// What clients may make the server hold, in bytes.
    pub memory: u64,
    /// How long it is waited for that they have ended those beyond them: a busy machine is late.
    pub patience: Duration,
}

/// Who held a request that was not whole, or a transaction.
const SLOW: &[&str] = &["connections_cut_slow"];
/// Who made the server hold too much, in whichever way.
const HOLDING: &[&str] = &["connections_cut_memory", "connections_cut_slow", "connections_cut_stalled"];
/// Who took no replies.
const STALLED: &[&str] = &["connections_cut_stalled", "connections_cut_memory"];
const LOGINS: &[&str] = &["acl_access_denied_auth"];
const HANDSHAKES: &[&str] = &["tls_handshakes_failed"];
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

impl Arena<'_> {
    /// What these counters of INFO come to; nothing where there are none.
    fn counted(&self, names: &[&str]) -> Result<u64, String> {
        if self.limits.is_none() {
            return Ok(0);
        }
        let mut wire = Wire::connect(self.address, Duration::from_secs(30)).map_err(said)?;
        let text = match wire.ask("INFO", &["stats"]).map_err(said)? {
            Reply::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
            other => return Err(format!("INFO stats was answered {other:?}")),
        };
        let number = |name: &&str| {
            let line = text.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix(':'));
            line.and_then(|number| number.trim().parse::<u64>().ok()).ok_or_else(|| format!("INFO has no {name}"))
        };
        names.iter().map(number).sum()
    }

    /// Waits until these counters have risen by so many since they were `before`; how far they did, in words. While it waits the
    /// connections have to be open.
    fn counts(&self, names: &[&str], before: u64, at_least: usize) -> Result<String, String> {
        let Some(limits) = self.limits else { return Ok(String::new()) };
        let begin = Instant::now();
        loop {
            let risen = self.counted(names)? - before;
            if risen >= at_least as u64 {
                return Ok(format!(", {risen} counted"));
            }
            if begin.elapsed() > limits.patience {
                let what = format!("{} rose by {risen}, and {at_least} at least were to be ended", names.join(" + "));
                self.unmet.lock().unwrap_or_else(PoisonError::into_inner).push(what);
                return Ok(format!(", {risen} counted and not {at_least}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How many of those who hold on must have been ended, by a limit on their time.
    fn beyond(&self, limit: impl Fn(&Limits) -> Duration, many: usize) -> usize {
        self.limits.map_or(0, |limits| if self.hold > limit(&limits) { many } else { 0 })
    }

    /// How many of those who sent so many bytes each cannot be held, however the others are; two more may not be read yet.
    fn without_room(&self, many: usize, bytes: usize) -> usize {
        self.limits.map_or(0, |limits| many.saturating_sub((limits.memory / bytes as u64) as usize + 2))
    }
}

pub type Attack = fn(&Arena) -> Result<String, String>;

/// Every attack by name, in the order in which they come: those last that make the server hold what they send or ask for.
pub const ATTACKS: [(&str, Attack); 18] = [
    ("lengths that lie", lengths),
    ("16 MB announced, nothing sent", announced),
    ("garbage, HTTP, TLS, 70 KB lines", garbage),
    ("clients that never read", never_reading),
    ("2,000 half frames", half_frames),
    ("millions of pipelined PINGs", pings),
    ("millions of pipelined lookups", lookups),
    ("connect and close", storm),
    ("wrong passwords", wrong_passwords),
    ("garbage for TLS", tls_garbage),
    ("HTTP: heads letter by letter", web_attacks::slow_heads),
    ("HTTP: 2,000 connections", web_attacks::many_connections),
    (FIRST_THAT_IS_HELD, large_replies),
    ("100 frames, 4 MB sent of 16", large_frames),
    ("200 transactions of 1 MB left open", transactions),
    ("a million words in a command", many_words),
    ("HTTP: huge bodies that never end", web_attacks::huge_bodies),
    ("HTTP: answers never read", web_attacks::never_reading),
];

/// From this one on the server may hold what it says that its clients may make it hold.
pub const FIRST_THAT_IS_HELD: &str = "large replies never read";

pub fn said(error: io::Error) -> String {
    error.to_string()
}

pub fn open(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).map_err(said)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(said)?;
    stream.set_write_timeout(Some(Duration::from_secs(10))).map_err(said)?;
    Ok(stream)
}

/// Bytes of one call of the system. A kernel that preempts nothing inside a call (`PREEMPT_NONE`) would let the honest client wait
/// for the copying of an attacker's megabytes, 1 ms each: attackers have machines of their own.
const CALL: usize = 16 << 10;

/// Sends it all, in short calls.
pub fn send(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(CALL).try_for_each(|piece| stream.write_all(piece))
}

/// Whether the server ended the connection, and the first of what it said before.
fn ended(stream: &mut TcpStream) -> (bool, String) {
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break (true, String::from_utf8_lossy(&text).into_owned()),
            Ok(got) => text.extend_from_slice(&buffer[..got.min(256_usize.saturating_sub(text.len()))]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break (false, String::from_utf8_lossy(&text).into_owned());
            }
            Err(_) => break (true, String::from_utf8_lossy(&text).into_owned()),
        }
    }
}

/// Sends each of these on a connection of its own, all of which the server has to end.
fn must_end(arena: &Arena, many: usize, frames: &[Vec<u8>]) -> Result<String, String> {
    let mut streams = Vec::new();
    for frame in frames {
        for _ in 0..many {
            let mut stream = open(arena.address)?;
            // The server may have seen enough before all is sent.
            let _ = send(&mut stream, frame);
            streams.push((stream, frame));
        }
    }
    let (all, mut left) = (streams.len(), 0);
    for (mut stream, frame) in streams {
        let (is_ended, text) = ended(&mut stream);
        let begin = String::from_utf8_lossy(&frame[..frame.len().min(40)]).into_owned();
        match (is_ended, arena.subject.kind) {
            (true, _) => {}
            (false, Kind::Bloomgate) => {
                return Err(format!("{begin:?} was sent 10 s ago, and the connection is still open: it said {text:?}"));
            }
            (false, Kind::Redis) => left += 1,
        }
    }
    Ok(format!("{} of {all} connections ended", all - left))
}

fn lengths(arena: &Arena) -> Result<String, String> {
    let frames = [
        "*1\r\n$1000000000000\r\n",
        "*1\r\n$99999999999999999999\r\n",
        "*1\r\n$-5\r\n",
        "*1\r\n$536870912\r\n",
        "*1\r\n$18446744073709551615\r\n",
        "*2147483647\r\n$4\r\nPING\r\n",
        "*99999999999999999999\r\n",
        "*1\r\n*1\r\n*1\r\n$4\r\nPING\r\n",
        "*1\r\n$4\r\nPINGxx",
    ];
    must_end(arena, 20, &frames.map(|frame| frame.as_bytes().to_vec()))
}

/// Holds connections open that have sent this.
fn held(arena: &Arena, many: usize, frame: &[u8]) -> Result<String, String> {
    let (mut streams, before) = (Vec::new(), arena.counted(SLOW)?);
    for _ in 0..many {
        let mut stream = open(arena.address)?;
        send(&mut stream, frame).map_err(said)?;
        streams.push(stream);
    }
    std::thread::sleep(arena.hold);
    let counted = arena.counts(SLOW, before, arena.beyond(|limits| limits.request, many))?;
    Ok(format!("{many} held for {:.0} s{counted}", arena.hold.as_secs_f64()))
}

fn announced(arena: &Arena) -> Result<String, String> {
    held(arena, 200, b"*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n$16777216\r\n")
}

fn half_frames(arena: &Arena) -> Result<String, String> {
    held(arena, 2_000, b"*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n$5\r\nab")
}

/// Whether the server has ended the connection, without waiting for it.
pub fn has_ended(stream: &mut TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let mut buffer = [0; 65_536];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) => break error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Holds connections open that have sent this, as long as the server lets them: far more than it may keep for them.
fn held_in_memory(arena: &Arena, many: usize, frame: &[u8]) -> Result<String, String> {
    let (mut streams, before) = (Vec::new(), arena.counted(HOLDING)?);
    for _ in 0..many {
        let mut stream = open(arena.address)?;
        // The server may have enough of it before all is sent.
        let _ = send(&mut stream, frame);
        streams.push(stream);
    }
    std::thread::sleep(arena.hold);
    let counted = arena.counts(HOLDING, before, arena.without_room(many, frame.len()))?;
    let ended = streams.iter_mut().filter_map(|stream| has_ended(stream).then_some(())).count();
    let megabytes = (many * frame.len()) as f64 / 1e6;
    Ok(format!("{many} with {megabytes:.0} MB held for {:.0} s, {ended} ended{counted}", arena.hold.as_secs_f64()))
}

fn large_frames(arena: &Arena) -> Result<String, String> {
    let mut frame = b"*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n$16000000\r\n".to_vec();
    frame.resize(frame.len() + 4_000_000, b'x');
    held_in_memory(arena, 100, &frame)
}

fn transactions(arena: &Arena) -> Result<String, String> {
    let echo = format!("*2\r\n$4\r\nECHO\r\n$250000\r\n{}\r\n", "x".repeat(250_000));
    held_in_memory(arena, 200, format!("*1\r\n$5\r\nMULTI\r\n{}", echo.repeat(4)).as_bytes())
}

/// Commands of up to a million words that are all the same: each is short to say and long to answer.
fn many_words(arena: &Arena) -> Result<String, String> {
    if arena.subject.kind == Kind::Redis {
        return Ok("not for Redis".into());
    }
    let mut wire = Wire::connect(arena.address, Duration::from_secs(30)).map_err(said)?;
    match wire.ask("CF.RESERVE", &["drill:copies", "1000"]).map_err(said)? {
        Reply::Status(_) => {}
        other => return Err(format!("CF.RESERVE was answered {other:?}")),
    }
    let (mut bytes, mut ended) = (0, 0);
    for begin in
        ["$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n$6\r\nclient\r\n", "$6\r\nBG.ADD\r\n$12\r\ndrill:copies\r\n$1\r\nx\r\n"]
    {
        let word = &begin[begin.rfind('$').unwrap_or(0)..];
        for many in [200_000, 1_048_500] {
            let mut stream = open(arena.address)?;
            let request = format!("*{}\r\n{begin}{}*1\r\n$4\r\nPING\r\n", many + 3, word.repeat(many));
            let _ = send(&mut stream, request.as_bytes());
            let (mut last, mut buffer) = (Vec::new(), vec![0; 65_536]);
            // Until it has answered the PING behind it, or ended the connection.
            while !last.ends_with(b"+PONG\r\n") {
                let got = stream.read(&mut buffer).unwrap_or(0);
                if got == 0 {
                    ended += 1;
                    break;
                }
                bytes += got;
                last.extend_from_slice(&buffer[..got]);
                last.drain(..last.len().saturating_sub(7));
            }
        }
    }
    match wire.ask("DEL", &["drill:copies"]).map_err(said)? {
        Reply::Integer(1) => Ok(format!("4 commands, {ended} ended, {:.1} MB of replies", bytes as f64 / 1e6)),
        other => Err(format!("DEL was answered {other:?}")),
    }
}

fn garbage(arena: &Arena) -> Result<String, String> {
    let http = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n\r\nPING".as_bytes().to_vec();
    let hello = [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[0x5a; 500], b"\r\n"].concat();
    let frames =
        [http, vec![b'x'; 70_000], b"*1\r\n%1\r\n+a\r\n+b\r\n".to_vec(), b"*2\r\n$4\r\nPING\r\n!boom\r\n".to_vec()];
    let text = must_end(arena, 10, &frames)?;
    // What random bytes mean is anybody's guess (a TLS handshake is an unknown command, if it holds a line end): they are
    // sent, and whatever comes back is taken.
    let mut random = Random::new(arena.seed, 0xbad);
    for _ in 0..200 {
        let mut stream = open(arena.address)?;
        let _ = stream.write_all(&hello);
        let noise: Vec<u8> = (0..8_192).flat_map(|_| random.bits().to_le_bytes()).collect();
        let _ = send(&mut stream, &noise);
    }
    Ok(format!("{text}, 200 x 64 KB of noise"))
}

/// Clients that ask for long replies without end and read none of them.
fn never_reading(arena: &Arena) -> Result<String, String> {
    let request = match arena.subject.kind {
        Kind::Bloomgate => &b"*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n"[..],
        Kind::Redis => b"*1\r\n$7\r\nCOMMAND\r\n",
    };
    ask_on(arena, 16, &request.repeat(1_000))
}

/// The same with replies of a megabyte each, of which the sockets hold little.
fn large_replies(arena: &Arena) -> Result<String, String> {
    let mut wire = Wire::connect(arena.address, Duration::from_secs(30)).map_err(said)?;
    let (make, request): (&[&str], &[u8]) = match arena.subject.kind {
        Kind::Bloomgate => {
            (&["BF.RESERVE", "drill:large", "0.01", "800000"], b"*2\r\n$7\r\nBG.DUMP\r\n$11\r\ndrill:large\r\n")
        }
        Kind::Redis => (&["SETRANGE", "drill:large", "1000000", "x"], b"*2\r\n$3\r\nGET\r\n$11\r\ndrill:large\r\n"),
    };
    if let Reply::Error(text) = wire.ask(make[0], &make[1..]).map_err(said)? {
        return Err(format!("{make:?} was answered {text}"));
    }
    let told = ask_on(arena, 100, &request.repeat(100))?;
    match wire.ask("DEL", &["drill:large"]).map_err(said)? {
        Reply::Integer(1) => Ok(told),
        other => Err(format!("DEL was answered {other:?}")),
    }
}

/// So many clients that ask without end and read no reply.
fn ask_on(arena: &Arena, many: usize, requests: &[u8]) -> Result<String, String> {
    let (before, end) = (arena.counted(STALLED)?, Instant::now() + arena.hold);
    let mut streams = (0..many).map(|_| open(arena.address)).collect::<Result<Vec<TcpStream>, String>>()?;
    streams.iter().try_for_each(|stream| stream.set_nonblocking(true)).map_err(said)?;
    let (mut sent, mut dropped) = (0, 0);
    while Instant::now() < end {
        streams.retain_mut(|stream| match stream.write(requests) {
            Ok(got) => {
                sent += got;
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => true,
            Err(_) => {
                dropped += 1;
                false
            }
        });
        std::thread::sleep(Duration::from_millis(1));
    }
    let counted = arena.counts(STALLED, before, arena.beyond(|limits| limits.stall, many))?;
    Ok(format!("{many} sent {} KB of requests, {dropped} dropped{counted}", sent / 1024))
}

/// A pipeline of so many requests, each of which has to be answered with this.
fn pipeline(address: SocketAddr, request: &[u8], reply: &[u8], many: usize) -> Result<(), String> {
    const AT_ONCE: usize = 1_000;
    let mut stream = open(address)?;
    let (mut reading, requests) = (stream.try_clone().map_err(said)?, request.repeat(AT_ONCE));
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || (0..many / AT_ONCE).try_for_each(|_| send(&mut stream, &requests)));
        let (expected, mut buffer, mut at) = (reply.len() * many, vec![0; 65_536], 0);
        while at < expected {
            let got = reading.read(&mut buffer).map_err(|error| format!("after {at} bytes of replies: {error}"))?;
            if got == 0 {
                return Err(format!("the server ended the pipeline after {at} bytes of replies"));
            }
            for byte in &buffer[..got] {
                if reply[at % reply.len()] != *byte {
                    return Err(format!("a wrong answer within a pipeline, at byte {at} of its replies"));
                }
                at += 1;
            }
        }
        writing.join().map_err(|_| "the writer panicked".to_owned())?.map_err(said)
    })
}

/// Pipelines of a million requests, one after the other, for as long as attacks are held on.
fn pipelines(arena: &Arena, connections: usize, request: &[u8], reply: &[u8]) -> Result<String, String> {
    let (begin, mut millions) = (Instant::now(), 0);
    while millions == 0 || begin.elapsed() < arena.hold {
        std::thread::scope(|scope| {
            let many = 1_000_000 / connections;
            let one = move || pipeline(arena.address, request, reply, many);
            let running: Vec<_> = (0..connections).map(|_| scope.spawn(one)).collect();
            running.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("a client panicked".into())))
        })?;
        millions += 1;
    }
    let each = begin.elapsed().as_secs_f64() / f64::from(millions);
    Ok(format!("{millions} M answered rightly on {connections} connections, {each:.2} s each"))
}

fn pings(arena: &Arena) -> Result<String, String> {
    pipelines(arena, 1, b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n")
}

fn lookups(arena: &Arena) -> Result<String, String> {
    let (request, reply) = match arena.subject.kind {
        Kind::Bloomgate => {
            (&b"*3\r\n$9\r\nBF.EXISTS\r\n$10\r\ndrill:adds\r\n$15\r\nhonest:00000007\r\n"[..], &b":1\r\n"[..])
        }
        Kind::Redis => (&b"*2\r\n$3\r\nGET\r\n$15\r\nhonest:00000007\r\n"[..], &b"$1\r\n1\r\n"[..]),
    };
    pipelines(arena, 4, request, reply)
}

/// Connections that go as they come, some in the middle of their reply.
fn storm(arena: &Arena) -> Result<String, String> {
    let (begin, mut made) = (Instant::now(), 0_u64);
    // More would leave this machine no port to connect from.
    while made < 5_000 || made < 20_000 && begin.elapsed() < arena.hold {
        let mut stream = open(arena.address)?;
        match made % 3 {
            0 => {}
            1 => drop(stream.write_all(b"*1\r\n$4\r\nPING\r\n")),
            _ => drop(stream.write_all(b"*1\r\n$7\r\nCOMMAND\r\n*1\r\n$4\r\nPI")),
        }
        made += 1;
    }
    Ok(format!("{made} in {:.1} s", begin.elapsed().as_secs_f64()))
}

/// Logins that fail, each of which costs the server an Argon2: on connections that wait and on some that do not.
fn wrong_passwords(arena: &Arena) -> Result<String, String> {
    let (before, end) = (arena.counted(LOGINS)?, Instant::now() + arena.hold);
    let mut wires = Vec::new();
    for number in 0..32 {
        let mut wire = Wire::connect(arena.address, Duration::from_secs(30)).map_err(said)?;
        (0..100).for_each(|at| wire.push("AUTH", &["victim", &format!("guess-{number}-{at}")]));
        wire.flush().map_err(said)?;
        wires.push(wire);
    }
    let mut gone = 0;
    while Instant::now() < end {
        let mut wire = Wire::connect(arena.address, Duration::from_secs(30)).map_err(said)?;
        wire.push("AUTH", &["victim", &format!("hasty-{gone}")]);
        wire.flush().map_err(said)?;
        gone += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    let (mut wrong, mut refused, mut let_in) = (0, 0, 0);
    for mut wire in wires {
        while let Ok(Some(reply)) = wire.take().and_then(|taken| match taken {
            Some(reply) => Ok(Some(reply)),
            None => wire.fill_now().and_then(|more| if more { wire.take() } else { Ok(None) }),
        }) {
            match reply {
                Reply::Error(text) if text.starts_with("WRONGPASS") => wrong += 1,
                Reply::Error(text) if text.starts_with("ERR") => refused += 1,
                _ => let_in += 1,
            }
        }
    }
    let counted = arena.counts(LOGINS, before, wrong)?;
    match let_in {
        0 => Ok(format!("{wrong} wrong{counted}, {refused} refused, {gone} went before")),
        _ => Err(format!("{let_in} wrong passwords were not refused")),
    }
}

fn tls_garbage(arena: &Arena) -> Result<String, String> {
    let Some(address) = arena.tls else { return Ok("no TLS".into()) };
    let mut random = Random::new(arena.seed, 0x715);
    let (mut streams, before) = (Vec::new(), arena.counted(HANDSHAKES)?);
    for number in 0..600 {
        let mut stream = open(address)?;
        let noise: Vec<u8> = (0..64).flat_map(|_| random.bits().to_le_bytes()).collect();
        let _ = match number % 3 {
            0 => stream.write_all(&noise),
            // A handshake that begins well and never goes on.
            1 => stream.write_all(&[&b"\x16\x03\x01\x01\xfe\x01\x00\x01\xfa\x03\x03"[..], &noise[..100]].concat()),
            _ => stream.write_all(b"*1\r\n$4\r\nPING\r\n"),
        };
        streams.push(stream);
    }
    std::thread::sleep(arena.hold);
    // A third of them are handshakes that only time ends.
    let counted = arena.counts(HANDSHAKES, before, if arena.hold > HANDSHAKE { 600 } else { 400 })?;
    Ok(format!("600 connections{counted}"))
}

/// Runs one as a client of little weight: attackers have machines of their own, and take none of the server's. Beside a crowd,
/// which leaves no processor idle, it would not run at all, and the server would take it for one that has stalled.
pub fn run(attack: Attack, arena: &Arena) -> Result<String, String> {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            if !arena.beside_crowd {
                run_when_idle();
            }
            attack(arena)
        });
        running.join().unwrap_or_else(|_| Err("the attack panicked".into()))
    })
}
