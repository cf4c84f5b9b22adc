//! A small HTTP/1.1 service on a real socket that does what a test says, also what no good service does: stall, cut off,
//! close without a word.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// Path and query as sent, still encoded.
    pub path: String,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

/// What happens after the bytes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    KeepAlive,
    Close,
    /// Nothing more comes, and the connection stays.
    Stall,
}

/// An answer, byte by byte.
#[derive(Clone, Debug)]
pub struct Answer {
    pub bytes: Vec<u8>,
    pub then: Then,
}

impl Answer {
    /// A whole answer with its length.
    pub fn whole(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        Self { bytes, then: Then::KeepAlive }
    }

    /// Exactly these bytes.
    pub fn raw(bytes: impl Into<Vec<u8>>, then: Then) -> Self {
        Self { bytes: bytes.into(), then }
    }

    /// A body in chunks of so many bytes; without the end if it is to be cut off.
    pub fn chunked(body: &[u8], size: usize, ended: bool) -> Self {
        let mut bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for chunk in body.chunks(size) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        if ended {
            bytes.extend_from_slice(b"0\r\n\r\n");
        }
        Self { bytes, then: if ended { Then::KeepAlive } else { Then::Close } }
    }
}

/// The service; its threads end with the test.
pub struct Service {
    pub address: String,
    connections: Arc<AtomicUsize>,
}

impl Service {
    pub fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(AtomicUsize::new(0));
        let (answer, counted) = (Arc::new(answer), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::Relaxed);
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || serve(stream, &*answer));
            }
        });
        Self { address, connections }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(&Asked) -> Answer) {
    let Ok(mut to) = stream.try_clone() else { return };
    let mut from = BufReader::new(stream);
    while let Some(asked) = read(&mut from) {
        let answer = answer(&asked);
        if to.write_all(&answer.bytes).is_err() {
            return;
        }
        match answer.then {
            Then::KeepAlive => {}
            Then::Close => return,
            Then::Stall => std::thread::sleep(Duration::from_secs(60)),
        }
    }
}

fn read(from: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    Some(Asked { method, path, headers, body })
}
