//! What clients make the server hold: in sum, and for how long.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::limits::{end, start};
use super::{Client, PATIENCE, Running};

/// The beginning of a request with so many bytes of its last argument, of which more were announced.
fn half(bytes: usize) -> Vec<u8> {
    let mut request = b"*2\r\n$4\r\nECHO\r\n$16000000\r\n".to_vec();
    request.resize(request.len() + bytes, b'x');
    request
}

/// Whether the server has ended this connection.
fn is_ended(client: &mut Client) -> bool {
    let stream = client.0.get_mut();
    stream.set_nonblocking(true).unwrap();
    let ended = loop {
        match stream.read(&mut [0; 4_096]) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
            Err(_) => break true,
        }
    };
    stream.set_nonblocking(false).unwrap();
    ended
}

fn number(server: &Running, section: &str, name: &str) -> u64 {
    let text = server.client().text(&format!("INFO {section}"));
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).map(str::to_owned);
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn requests_that_are_not_whole_are_held_within_the_memory_for_clients() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.client_memory = 4 << 20);
    let mut honest = server.client();
    assert_eq!(honest.say("PING"), "+PONG");
    let mut holding: Vec<Client> = (0..12).map(|_| server.client()).collect();
    for client in &mut holding {
        // The server may have seen enough before all is sent.
        let _ = client.0.get_mut().write_all(&half(1_000_000));
    }
    eventually("nobody is cut", || number(&server, "stats", "connections_cut_memory") >= 8);
    assert!(number(&server, "memory", "client_memory") <= 4 << 20);
    assert!(holding.iter_mut().filter_map(|client| is_ended(client).then_some(())).count() >= 8);
    assert_eq!(honest.say("PING"), "+PONG", "who holds nothing stays");
    // What is whole is given back.
    drop(holding);
    eventually("it is held for ever", || number(&server, "memory", "client_memory") == 0);
    let mut whole = half(16_000_000);
    whole.extend_from_slice(b"\r\n");
    assert_eq!(honest.say("CONFIG SET client-memory 64MiB"), "+OK");
    honest.0.get_mut().write_all(&whole).unwrap();
    assert_eq!(honest.line(), "$16000000");
    end(server);
}

#[test]
fn a_queue_of_commands_is_held_within_the_memory_for_clients_and_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| {
        settings.client_memory = 2 << 20;
        settings.request_deadline = Duration::from_millis(500);
    });
    let text = "x".repeat(60_000);
    // A short one may stay open, as somebody types it.
    let mut short = server.client();
    assert_eq!((short.say("MULTI"), short.say("PING")), ("+OK".into(), "+QUEUED".into()));
    let mut long = server.client();
    assert_eq!((long.say("MULTI"), long.say(&format!("ECHO {text}"))), ("+OK".into(), "+QUEUED".into()));
    let told = long.line();
    assert!(told.starts_with("-ERR a long transaction") && told.contains("500 ms"), "{told}");
    assert_eq!(long.line(), "");
    assert_eq!(number(&server, "stats", "connections_cut_slow"), 1);
    // One alone that is larger than all may be together.
    let mut large = server.client();
    assert_eq!(large.say("CONFIG SET request-deadline 30s"), "+OK");
    assert_eq!(large.say("MULTI"), "+OK");
    let begin = Instant::now();
    let told = loop {
        let told = large.say(&format!("ECHO {text}"));
        if told != "+QUEUED" {
            break told;
        }
        assert!(begin.elapsed() < PATIENCE, "it is queued for ever");
    };
    assert!(told.starts_with("-ERR clients hold more memory than they may (client-memory)"), "{told}");
    assert_eq!(short.say("EXEC"), "*1");
    assert_eq!(short.line(), "+PONG");
    eventually("it is held for ever", || number(&server, "memory", "client_memory") == 0);
    end(server);
}

/// Asks for replies of a megabyte each and takes none; the socket's buffers hold some of them.
fn never_reads(server: &Running) -> TcpStream {
    let stream = server.client().0.into_inner();
    stream.set_nonblocking(true).unwrap();
    let mut request = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", 1 << 20).into_bytes();
    request.resize(request.len() + (1 << 20), b'x');
    request.extend_from_slice(b"\r\n");
    let (requests, mut sent, mut quiet) = (request.repeat(24), 0, 0);
    while sent < requests.len() && quiet < 20 {
        match (&stream).write(&requests[sent..]) {
            Ok(more) => (sent, quiet) = (sent + more, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                quiet += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => break,
        }
    }
    stream
}

#[test]
fn replies_that_nobody_takes_are_held_within_the_memory_for_clients() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.client_memory = 3 << 20);
    let mut honest = server.client();
    let streams: Vec<TcpStream> = (0..6).map(|_| never_reads(&server)).collect();
    eventually("nobody is cut", || number(&server, "stats", "connections_cut_memory") >= 3);
    assert!(number(&server, "memory", "client_memory") <= 3 << 20);
    assert_eq!(number(&server, "stats", "connections_cut_stalled"), 0);
    assert_eq!(honest.say("PING"), "+PONG");
    drop(streams);
    end(server);
}
