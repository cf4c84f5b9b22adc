//! Files of filters over HTTP, through a server that has no more memory for them than the filter itself takes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use bloomgate::Blocked;
use bloomgate::format::Addressing;

use crate::scene::Scene;
use crate::service::{PATIENCE, Running};

const SIZE: u64 = 64 << 20;

/// The most memory that a process has had so far.
fn peak(pid: u32) -> u64 {
    let told = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

/// Sends the head of a request and a body, and reads the head of the answer.
fn ask(port: u16, head: &str, body: &[u8]) -> (String, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("{head}host: localhost\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut stream = BufReader::new(stream);
    let mut told = String::new();
    while !told.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut told).unwrap() > 0, "{told}");
    }
    (told, stream)
}

#[cfg(target_os = "linux")]
#[test]
fn they_pass_through_little_memory_both_ways() {
    let scene = Scene::new();
    let running = Running::serve(&scene, "--http 127.0.0.1:0 --data data --threads 1", &[]);
    let said = running.said();
    let (_, http) = said.split_once("HTTP on 127.0.0.1:").unwrap();
    let http = http.split(',').next().unwrap().parse().unwrap();
    let mut filter = Blocked::builder().bytes(SIZE).build().unwrap();
    filter.insert(&b"alice"[..]).unwrap();
    let file = filter.to_bytes().unwrap();
    let pid = running.child.id();
    let before = peak(pid);
    let put = format!(
        "PUT /v1/filters/f/snapshot HTTP/1.1\r\ncontent-type: application/vnd.bloomgate.filter\r\ncontent-length: {}\r\n",
        file.len()
    );
    let (told, _) = ask(http, &put, &file);
    assert!(told.starts_with("HTTP/1.1 201"), "{told}");
    let brought = peak(pid);
    assert!(brought - before < SIZE + SIZE / 4, "{} MB for the filter and its file", (brought - before) >> 20);
    let (told, stream) = ask(http, "GET /v1/filters/f/snapshot HTTP/1.1\r\n", b"");
    let mut stream = Addressing::new(stream);
    let length = std::io::copy(&mut stream.by_ref(), &mut std::io::sink()).unwrap();
    assert_eq!(length, file.len() as u64);
    assert!(told.contains(&format!("etag: \"{}\"", stream.address())), "{told}");
    let fetched = peak(pid);
    assert!(fetched - brought < SIZE / 4, "{} MB to fetch it", (fetched - brought) >> 20);
    running.stop();
}
