//! A client that says exactly what a test wants said, byte by byte.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// No answer takes longer, or the test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A connection: TCP, or TLS over it.
pub struct Client<T> {
    stream: T,
    rest: Vec<u8>,
}

impl Client<tokio::net::TcpStream> {
    pub async fn connect(address: std::net::SocketAddr) -> Self {
        Self::over(tokio::net::TcpStream::connect(address).await.unwrap())
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Client<T> {
    pub fn over(stream: T) -> Self {
        Self { stream, rest: Vec::new() }
    }

    /// Sends bytes; whether the other side still took them.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok() && self.stream.flush().await.is_ok()
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        assert!(self.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await);
        self.answer().await.expect("an answer")
    }

    /// More bytes; none at the end of the connection, however it ended.
    async fn more(&mut self) -> bool {
        let mut piece = [0; 16 << 10];
        let read =
            tokio::time::timeout(PATIENCE, self.stream.read(&mut piece)).await.expect("an answer or an end in time");
        let read = read.unwrap_or(0);
        self.rest.extend_from_slice(&piece[..read]);
        read > 0
    }

    /// The next answer, or nothing if the connection ended before one.
    pub async fn answer(&mut self) -> Option<Answer> {
        let end = loop {
            if let Some(end) = self.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if !self.more().await {
                return None;
            }
        };
        let head = String::from_utf8(self.rest.drain(..end + 4).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        let length: usize = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.rest.len() < length && self.more().await {}
        answer.body = self.rest.drain(..length.min(self.rest.len())).collect();
        Some(answer)
    }

    /// Whether the other side ends the connection, without another byte.
    pub async fn is_ended(&mut self) -> bool {
        !self.more().await && self.rest.is_empty()
    }

    /// Reads until these bytes have come, and gives everything up to there.
    pub async fn read_until(&mut self, bytes: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.rest.windows(bytes.len()).position(|window| window == bytes) {
                return self.rest.drain(..at + bytes.len()).collect();
            }
            assert!(self.more().await, "{bytes:?} in {:?}", self.rest);
        }
    }

    /// Reads whatever comes until the end.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.rest)
    }
}
