//! Commands as bytes, and one blocking connection for what is asked once: creating, saving, asking for the size.

use crate::args::Fault;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer to a single command takes longer than this, not even SAVE of a gigabyte.
const PATIENCE: Duration = Duration::from_secs(120);

/// Bytes of one call of the system. A kernel that preempts nothing inside a call lets a server on the same CPU wait for the copying
/// of megabytes to its client, 1 ms and more: that client stands for one on another machine.
const CALL: usize = 16 << 10;

/// Appends one command, as an array of bulk strings.
pub fn command<'a>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'a [u8]>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The words of a line: apart by spaces, except inside quotes and braces.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut begun) = (Vec::new(), String::new(), false);
    let (mut quote, mut depth) = (None, 0usize);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(letter), true),
            (None, ' ' | '\t') if depth == 0 => {
                if begun {
                    words.push(std::mem::take(&mut word));
                    begun = false;
                }
            }
            _ => {
                depth = match letter {
                    '{' => depth + 1,
                    '}' => depth.saturating_sub(1),
                    _ => depth,
                };
                word.push(letter);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A status, such as OK.
    Status(String),
    /// A refusal, with its code.
    Error(String),
    /// A whole number.
    Integer(i64),
    /// Bytes of a known length.
    Bulk(Vec<u8>),
    /// Nothing there.
    Nil,
    /// Several answers.
    Array(Vec<Answer>),
}

impl Answer {
    /// The first whole number in it, however deep.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Answer::Integer(number) => Some(*number),
            Answer::Bulk(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            Answer::Array(parts) => parts.iter().find_map(Answer::integer),
            _ => None,
        }
    }
}

/// One connection that waits for every answer.
pub struct Talk {
    stream: BufReader<TcpStream>,
}

impl Talk {
    /// Connects to `address`.
    pub fn to(address: SocketAddr) -> Result<Self, Fault> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::with_capacity(CALL, stream) })
    }

    /// The answer to one command, a refusal included.
    pub fn ask(&mut self, words: &[&str]) -> Result<Answer, Fault> {
        let mut out = Vec::new();
        command(&mut out, words.iter().map(|word| word.as_bytes()));
        self.exchange(&out)
    }

    /// The answer to one command that must not be refused.
    pub fn must(&mut self, words: &[&str]) -> Result<Answer, Fault> {
        match self.ask(words)? {
            Answer::Error(text) => Err(Fault(format!("{} was refused: {text}", words.join(" ")))),
            answer => Ok(answer),
        }
    }

    /// Sends bytes that are one command and waits for its answer.
    pub fn exchange(&mut self, bytes: &[u8]) -> Result<Answer, Fault> {
        self.stream.get_mut().write_all(bytes)?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer, Fault> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(Fault("the server closed the connection".to_string()));
        }
        let line = line.trim_end_matches(['\r', '\n']);
        let strange = || Fault(format!("the server said {line:?}, which is no RESP2 answer"));
        let (kind, rest) = line.split_at_checked(1).ok_or_else(strange)?;
        Ok(match kind {
            "+" => Answer::Status(rest.to_string()),
            "-" => Answer::Error(rest.to_string()),
            ":" => Answer::Integer(rest.parse().map_err(|_| strange())?),
            "$" => match rest.parse::<i64>().map_err(|_| strange())? {
                -1 => Answer::Nil,
                length => {
                    let mut bytes = vec![0; usize::try_from(length).map_err(|_| strange())? + 2];
                    bytes.chunks_mut(CALL / 2).try_for_each(|piece| self.stream.read_exact(piece))?;
                    bytes.truncate(bytes.len() - 2);
                    Answer::Bulk(bytes)
                }
            },
            "*" => match rest.parse::<i64>().map_err(|_| strange())? {
                -1 => Answer::Nil,
                count => Answer::Array((0..count).map(|_| self.answer()).collect::<Result<_, _>>()?),
            },
            _ => return Err(strange()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let mut out = Vec::new();
        command(&mut out, ["GET", "key"].iter().map(|word| word.as_bytes()));
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    }

    #[test]
    fn words_keep_quotes_and_braces_together() {
        assert_eq!(words("  BF.EXISTS f {random 1000} "), ["BF.EXISTS", "f", "{random 1000}"]);
        assert_eq!(words("redis-server --save '' --dir \"a b\""), ["redis-server", "--save", "", "--dir", "a b"]);
    }

    #[test]
    fn the_first_whole_number_is_found_at_any_depth() {
        let size = Answer::Array(vec![Answer::Status("Size".to_string()), Answer::Integer(7)]);
        assert_eq!(size.integer(), Some(7));
        assert_eq!(Answer::Bulk(b"12".to_vec()).integer(), Some(12));
        assert_eq!(Answer::Nil.integer(), None);
    }
}
