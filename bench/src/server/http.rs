//! Many keys over HTTP: bodies of a key a line, asked of a filter in one request after another, by the server's CPU.

use super::Choice;
use super::process::{self, Process};
use super::stage::{self, Program, Side};
use super::table::{Line, Promise, Table, spread};
use super::traffic::Dialect;
use crate::args::Fault;
use crate::shared_machine;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const CHECK: &str = "http, check of lines, one connection, a million items";

/// Keys of a body: 12 digits and the end of the line each.
const BODY: u64 = 500_000;
/// Half of the keys that are asked for are there.
const ITEMS: u64 = 1_000_000;

/// Measures it and judges it.
pub fn run(choice: &Choice, table: &mut Table) -> Result<(), Fault> {
    let why = match choice.dialect {
        Dialect::Redis => Some("redis-server has no HTTP".to_string()),
        Dialect::Filters => choice.skips(CHECK, 0),
    };
    if let Some(why) = why {
        table.leave_out(CHECK, &why);
        return Ok(());
    }
    let side = Side { program: Program::Ours, threads: 1, fsync: "every-second", pinned: true, stock: vec![] };
    let mut launch = stage::launch(&side, "http", choice);
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    launch.words.extend(["--http".to_string(), format!("127.0.0.1:{port}")]);
    shared_machine::pin(choice.client())?;
    let server = Process::start(&launch)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    server.talk()?.must(&["BF.RESERVE", "f", "0.01", &ITEMS.to_string()])?;
    for first in (0..ITEMS).step_by(BODY as usize) {
        send(address, "add", &lines(first))?;
    }
    let body = lines(ITEMS - BODY / 2);
    let rounds = choice.rounds.unwrap_or(9);
    let (mut by_cpu, mut by_wall) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (begun, cpu) = (Instant::now(), process::cpu_of(server.id())?);
        let maybe = send(address, "check", &body)?;
        // Those that were added, and one in a hundred of the others.
        if !(BODY / 2..=BODY / 2 + BODY / 100).contains(&maybe) {
            return Err(Fault(format!("{maybe} of {BODY} keys may be there, and {} were added", BODY / 2)));
        }
        by_wall.push(BODY as f64 / begun.elapsed().as_secs_f64());
        let spent: u64 = process::spent(&cpu, &process::cpu_of(server.id())?).iter().sum();
        by_cpu.push(BODY as f64 / (spent as f64 / 1e9));
    }
    server.kill()?;
    let (low, high) = spread(&by_cpu);
    by_cpu.sort_by(f64::total_cmp);
    by_wall.sort_by(f64::total_cmp);
    let figure = by_cpu[by_cpu.len() / 2] / 1e6;
    table.add(Line {
        what: CHECK.to_string(),
        promise: Promise::AtLeast(5.0),
        figure,
        unit: "M/s",
        peer: String::new(),
        ours: format!("{:.1} M ({:.1} to {:.1})", figure, low / 1e6, high / 1e6),
        note: format!("{:.1} M on the wall", by_wall[by_wall.len() / 2] / 1e6),
        void: None,
    });
    Ok(())
}

/// A body of keys, a line each.
fn lines(first: u64) -> Vec<u8> {
    (first..first + BODY).flat_map(|key| format!("{key:012}\n").into_bytes()).collect()
}

/// Sends keys; how many are new or may be there.
fn send(address: SocketAddr, what: &str, body: &[u8]) -> Result<u64, Fault> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let head = format!(
        "POST /v1/filters/f/{what} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 200") {
        let mut rest = String::new();
        answer.read_to_string(&mut rest)?;
        return Err(Fault(format!("{what}: {line}{rest}")));
    }
    while !line.trim().is_empty() {
        line.clear();
        answer.read_line(&mut line)?;
    }
    let mut digits = Vec::new();
    answer.read_to_end(&mut digits)?;
    Ok(digits.iter().filter(|digit| **digit == b'1').count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_keys() {
        let body = lines(7);
        assert!(body.starts_with(b"000000000007\n000000000008\n") && body.len() as u64 == 13 * BODY);
    }
}
