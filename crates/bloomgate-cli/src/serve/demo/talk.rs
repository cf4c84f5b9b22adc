//! A conversation with the server as any client has it: commands in a pipeline, and their replies.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The words of a command.
pub type Command = Vec<String>;

/// No reply takes longer, or the connection is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How deep replies may lie in each other; those of the demo have three levels.
const DEEPEST: usize = 8;

/// A connection.
pub struct Talk {
    stream: BufReader<TcpStream>,
    written: Vec<u8>,
    waiting: usize,
}

impl Talk {
    /// A connection under a name, by which CLIENT LIST shows it.
    pub fn begin(address: SocketAddr, name: &str) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut talk = Self { stream: BufReader::new(stream), written: Vec::new(), waiting: 0 };
        talk.say(&["CLIENT", "SETNAME", name]);
        talk.hear()?;
        Ok(talk)
    }

    /// Puts a command behind those that wait to be sent.
    pub fn say(&mut self, words: &[impl AsRef<str>]) {
        self.written.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            let word = word.as_ref();
            self.written.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.waiting += 1;
    }

    /// Sends what waits and reads the replies; those that are errors.
    pub fn hear(&mut self) -> io::Result<Vec<String>> {
        self.stream.get_mut().write_all(&self.written)?;
        self.written.clear();
        let mut errors = Vec::new();
        for _ in 0..std::mem::take(&mut self.waiting) {
            if let Some(error) = reply(&mut self.stream, DEEPEST)? {
                errors.push(error);
            }
        }
        Ok(errors)
    }
}

/// Reads a reply of RESP2 to its end; what it says if it is an error.
fn reply(from: &mut impl BufRead, deepest: usize) -> io::Result<Option<String>> {
    let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("a reply that is none: {what}"));
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let rest = line.trim_end().get(1..).unwrap_or_default();
    let length = || rest.parse::<i64>().map_err(|_| broken(&line));
    match line.as_bytes()[0] {
        b'-' => return Ok(Some(rest.to_owned())),
        b'+' | b':' => {}
        b'$' => {
            if let Ok(length) = u64::try_from(length()?) {
                io::copy(&mut from.take(length + 2), &mut io::sink())?;
            }
        }
        b'*' if deepest > 0 => {
            for _ in 0..length()? {
                // Errors inside, as of a key that did not fit, are no errors of the command.
                reply(from, deepest - 1)?;
            }
        }
        _ => return Err(broken(&line)),
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_to_their_end() {
        let mut bytes =
            &b"+OK\r\n:7\r\n$-1\r\n$4\r\na\r\nb\r\n*-1\r\n*2\r\n*1\r\n$1\r\nx\r\n-ERR inside\r\n-ERR full\r\n:1\r\n"[..];
        for wanted in [None, None, None, None, None, None, Some("ERR full"), None] {
            assert_eq!(reply(&mut bytes, DEEPEST).unwrap().as_deref(), wanted);
        }
        assert_eq!(reply(&mut bytes, DEEPEST).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        for broken in ["\r\n", "$x\r\n", "!\r\n", &"*1\r\n".repeat(20)] {
            assert!(reply(&mut broken.as_bytes(), DEEPEST).is_err(), "{broken:?}");
        }
    }
}
