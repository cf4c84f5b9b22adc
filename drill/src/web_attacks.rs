//! What strangers do to the port of HTTP: heads that come letter by letter, bodies that are too long or never end, more
//! connections than there may be, answers that are never read.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::attacks::{Arena, has_ended, open, said, send};

/// After so long without the whole of its head a request is over, and some time for a busy machine.
const HEAD: Duration = Duration::from_millis(11_500);
/// Connections that one address may have, by default.
const OF_ONE_ADDRESS: usize = 1_000;

fn to(arena: &Arena, attack: impl FnOnce(SocketAddr) -> Result<String, String>) -> Result<String, String> {
    match arena.http {
        Some(address) => attack(address),
        None => Ok("no HTTP".into()),
    }
}

fn head(address: SocketAddr, path: &str, kind: &str, length: u64) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n")
}

fn ended_of(streams: &mut [TcpStream]) -> usize {
    streams.iter_mut().map(|stream| usize::from(has_ended(stream))).sum()
}

/// A head a letter at a time: who goes on sending is not thereby in time.
pub fn slow_heads(arena: &Arena) -> Result<String, String> {
    to(arena, |address| {
        let mut streams = (0..300).map(|_| open(address)).collect::<Result<Vec<TcpStream>, String>>()?;
        let head = format!("GET /v1/filters HTTP/1.1\r\nHost: {address}\r\nX-Slow: {}", "x".repeat(10_000));
        let (begin, mut sent) = (Instant::now(), 0);
        while begin.elapsed() < arena.hold {
            // Whoever was closed does not take it.
            streams.iter_mut().for_each(|stream| _ = stream.write_all(&head.as_bytes()[sent..sent + 1]));
            sent += 1;
            std::thread::sleep(Duration::from_millis(50));
        }
        let ended = ended_of(&mut streams);
        match begin.elapsed() > HEAD && ended < streams.len() {
            true => Err(format!("{ended} of {} slow heads were ended after {:?}", streams.len(), begin.elapsed())),
            false => Ok(format!("{} with {sent} letters, {ended} ended", streams.len())),
        }
    })
}

/// Bodies that announce more than may be, and bodies of 6 MB whose end never comes: 1.2 GB in all.
pub fn huge_bodies(arena: &Arena) -> Result<String, String> {
    to(arena, |address| {
        for length in [65 << 20, 1 << 40, u64::MAX] {
            let mut stream = open(address)?;
            let head = head(address, "/v1/filters/drill:adds/check", "text/plain", length);
            stream.write_all(head.as_bytes()).map_err(said)?;
            let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
            while answer.len() < 16 {
                match stream.read(&mut buffer).map_err(|error| format!("a body of {length} bytes: {error}"))? {
                    0 => break,
                    got => answer.extend_from_slice(&buffer[..got]),
                }
            }
            let text = String::from_utf8_lossy(&answer);
            if !text.starts_with("HTTP/1.1 4") {
                return Err(format!("a body of {length} bytes was announced, and the answer is {text:?}"));
            }
        }
        let body =
            [head(address, "/v1/command", "application/json", 8 << 20).into_bytes(), vec![b' '; 6_000_000]].concat();
        let mut streams = Vec::new();
        for _ in 0..200 {
            let mut stream = open(address)?;
            stream.set_write_timeout(Some(Duration::from_secs(2))).map_err(said)?;
            // The server may have enough of it before all is sent.
            let _ = send(&mut stream, &body);
            streams.push(stream);
        }
        std::thread::sleep(arena.hold);
        let ended = ended_of(&mut streams);
        Ok(format!("200 with 6 MB each held for {:.0} s, {ended} ended", arena.hold.as_secs_f64()))
    })
}

/// Twice as many connections as one address may have, each with half a request.
pub fn many_connections(arena: &Arena) -> Result<String, String> {
    to(arena, |address| {
        let mut streams = Vec::new();
        for _ in 0..2 * OF_ONE_ADDRESS {
            let mut stream = open(address)?;
            let _ = stream.write_all(b"GET /v1/filters HTTP/1.1\r\nHost: ");
            streams.push(stream);
        }
        std::thread::sleep(arena.hold.min(Duration::from_secs(5)));
        let ended = ended_of(&mut streams);
        match ended >= OF_ONE_ADDRESS {
            true => Ok(format!("{} opened, {ended} ended", streams.len())),
            false => Err(format!("{} connections of one address, and only {ended} were ended", streams.len())),
        }
    })
}

/// Clients that ask for the longest page there is without end, and read nothing of it.
pub fn never_reading(arena: &Arena) -> Result<String, String> {
    to(arena, |address| {
        let request = format!("GET /v1/openapi.json HTTP/1.1\r\nHost: {address}\r\n\r\n").repeat(1_000);
        let mut streams = (0..100).map(|_| open(address)).collect::<Result<Vec<TcpStream>, String>>()?;
        streams.iter().try_for_each(|stream| stream.set_nonblocking(true)).map_err(said)?;
        let (end, mut sent, mut dropped) = (Instant::now() + arena.hold, 0, 0);
        while Instant::now() < end {
            streams.retain_mut(|stream| match stream.write(request.as_bytes()) {
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
        Ok(format!("100 sent {} KB of requests, {dropped} dropped", sent / 1_024))
    })
}
