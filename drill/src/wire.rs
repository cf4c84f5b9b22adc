//! The client's end of the wire: requests written into a buffer, replies (RESP2) parsed out of another.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What a server answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Integer(i64),
    Status(String),
    Error(String),
    Bulk(Vec<u8>),
    Nothing,
    Array(Vec<Reply>),
}

/// One connection.
pub struct Wire {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    parsed: usize,
    /// Requests that were put: each has a reply.
    pub pushed: usize,
}

impl Wire {
    /// Connects; an answer that takes longer than `patience` is an error of kind `WouldBlock` or `TimedOut`.
    pub fn connect(address: SocketAddr, patience: Duration) -> Result<Wire> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Wire { stream, out: Vec::new(), input: Vec::new(), parsed: 0, pushed: 0 })
    }

    /// Puts a request of one word and its arguments into the buffer.
    pub fn push<A: AsRef<[u8]>>(&mut self, word: &str, arguments: &[A]) {
        self.pushed += 1;
        let _ = write!(self.out, "*{}\r\n${}\r\n{word}\r\n", arguments.len() + 1, word.len());
        for argument in arguments {
            let argument = argument.as_ref();
            let _ = write!(self.out, "${}\r\n", argument.len());
            self.out.extend_from_slice(argument);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// Sends what was put.
    pub fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Waits for bytes and takes what there is.
    pub fn fill(&mut self) -> Result<()> {
        if self.parsed > 0 {
            self.input.drain(..self.parsed);
            self.parsed = 0;
        }
        let start = self.input.len();
        self.input.resize(start + 65536, 0);
        let got = loop {
            match self.stream.read(&mut self.input[start..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.input.truncate(start + got.as_ref().copied().unwrap_or(0));
        match got? {
            0 => Err(Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            _ => Ok(()),
        }
    }

    /// Takes bytes if there are any, without waiting; whether there were.
    pub fn fill_now(&mut self) -> Result<bool> {
        self.stream.set_nonblocking(true)?;
        let filled = self.fill();
        self.stream.set_nonblocking(false)?;
        match filled {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next reply of those that came whole.
    pub fn take(&mut self) -> Result<Option<Reply>> {
        let mut at = self.parsed;
        let reply = parse(&self.input, &mut at)?;
        if reply.is_some() {
            self.parsed = at;
        }
        Ok(reply)
    }

    /// Sends what was put and waits for one reply.
    pub fn reply(&mut self) -> Result<Reply> {
        self.flush()?;
        loop {
            if let Some(reply) = self.take()? {
                return Ok(reply);
            }
            self.fill()?;
        }
    }

    /// One request and its reply.
    pub fn ask<A: AsRef<[u8]>>(&mut self, word: &str, arguments: &[A]) -> Result<Reply> {
        self.push(word, arguments);
        self.reply()
    }
}

fn parse(input: &[u8], at: &mut usize) -> Result<Option<Reply>> {
    let Some(line) = input[*at..].windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let start = *at;
    let end = start + line;
    *at = end + 2;
    if line == 0 {
        return Err(Error::new(ErrorKind::InvalidData, "an empty line where a reply should start"));
    }
    let text = String::from_utf8_lossy(&input[start + 1..end]).into_owned();
    let number = || {
        text.parse::<i64>().map_err(|_| Error::new(ErrorKind::InvalidData, format!("expected a number, got {text:?}")))
    };
    Ok(Some(match input[start] {
        b'+' => Reply::Status(text),
        b'-' => Reply::Error(text),
        b':' => Reply::Integer(number()?),
        b'$' => {
            let Ok(length) = usize::try_from(number()?) else { return Ok(Some(Reply::Nothing)) };
            let from = *at;
            if input.len() < from + length + 2 {
                return Ok(None);
            }
            *at = from + length + 2;
            Reply::Bulk(input[from..from + length].to_vec())
        }
        b'*' => {
            let Ok(count) = usize::try_from(number()?) else { return Ok(Some(Reply::Nothing)) };
            let mut elements = Vec::with_capacity(count.min(4096));
            for _ in 0..count {
                match parse(input, at)? {
                    Some(element) => elements.push(element),
                    None => return Ok(None),
                }
            }
            Reply::Array(elements)
        }
        other => {
            return Err(Error::new(ErrorKind::InvalidData, format!("a reply cannot start with {:?}", other as char)));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_taken_only_when_whole() {
        let whole = b"*3\r\n:1\r\n$2\r\nab\r\n-ERR no\r\n+OK\r\n";
        for end in 0..whole.len() {
            let mut at = 0;
            let first = parse(&whole[..end], &mut at).unwrap();
            assert_eq!(first.is_some(), end >= 25, "{end}");
        }
        let mut at = 0;
        let array = vec![Reply::Integer(1), Reply::Bulk(b"ab".to_vec()), Reply::Error("ERR no".into())];
        assert_eq!(parse(whole, &mut at).unwrap(), Some(Reply::Array(array)));
        assert_eq!(parse(whole, &mut at).unwrap(), Some(Reply::Status("OK".into())));
        assert!(parse(b"?\r\n", &mut 0).is_err());
    }
}
