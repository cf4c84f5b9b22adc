//! Requests from bytes: arrays of bulk strings, found without copying them.
//!
//! The reader keeps where it stopped: a request that comes in a thousand pieces is looked at once, not a thousand
//! times. It allocates for arguments that have arrived, never for those that were announced.
//!
//! ```text
//!  *3\r\n  $6\r\nBF.ADD\r\n  $1\r\nf\r\n  $4\r\nitem\r\n
//!  │       └ bulk: length, that many bytes, CR LF
//!  └ how many bulks
//! ```

use std::fmt;
use std::ops::Range;

use memchr::memchr;

use super::inline;

/// What a request may be at most. Clients that have not said who they are get less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of one request, the command's name included.
    pub arguments: usize,
    /// Bytes of one argument.
    pub bulk: usize,
    /// Bytes of one request.
    pub request: usize,
}

impl Limits {
    /// For clients that may work: a million arguments, and dumps in pieces of 16 MiB.
    pub const OPEN: Self = Self { arguments: 1 << 20, bulk: (16 << 20) + 4096, request: 64 << 20 };
    /// Before a password was given: enough for HELLO, AUTH and PING.
    pub const GUEST: Self = Self { arguments: 10, bulk: 16 << 10, request: 16 << 10 };
}

/// Arguments whose places a connection has room for while it is idle: 16 KB.
const RANGES_KEPT: usize = 1_024;
/// A line without an end may be this long.
const MAX_LINE: usize = 64 << 10;

/// Why the bytes are no request. The connection cannot go on after it: where the next request starts is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolError {
    /// `*` and no number that can be a number of arguments.
    Arguments,
    /// `$` and no number that can be a length.
    BulkLength,
    /// Something else where a `$` must be.
    ExpectedBulk(u8),
    /// The two bytes after a bulk are no line end.
    BulkEnd,
    /// A line of 64 KB that does not end.
    InlineTooBig,
    /// Quotes that do not close.
    Quotes,
    /// The arguments together are larger than a request may be.
    TooLarge {
        /// What may be.
        most: usize,
    },
    /// An HTTP request: a browser was led here by somebody. The connection is dropped without a word.
    Http,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR Protocol error: ")?;
        match self {
            Self::Arguments => f.write_str("invalid multibulk length"),
            Self::BulkLength => f.write_str("invalid bulk length"),
            Self::ExpectedBulk(got) => write!(f, "expected '$', got '{}'", got.escape_ascii()),
            Self::BulkEnd => f.write_str("expected CR LF after a bulk string"),
            Self::InlineTooBig => f.write_str("too big inline request"),
            Self::Quotes => f.write_str("unbalanced quotes in request"),
            Self::TooLarge { most } => write!(f, "too big request: at most {most} bytes, split it"),
            Self::Http => f.write_str("this is no HTTP port"),
        }
    }
}

/// One request, found whole.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// An array of bulks: [`Reader::ranges`] says where they lie.
    Bulks,
    /// A line of words, copied out because quotes are taken off.
    Inline(Vec<Vec<u8>>),
    /// An empty line or array: nothing to do.
    Nothing,
}

/// Finds requests in a buffer, one after another.
#[derive(Debug, Default)]
pub struct Reader {
    /// The arguments found so far of the request at the front of the buffer.
    ranges: Vec<Range<usize>>,
    /// Arguments still to come; 0 when no request is begun.
    missing: usize,
    /// Where to go on reading.
    at: usize,
    /// Where the request begins of which arguments are still to come.
    begin: usize,
}

impl Reader {
    /// Where the arguments of the last [`Frame::Bulks`] lie in the buffer.
    #[must_use]
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// Where the next request begins, of which some arguments may have been found already: everything before belongs to
    /// requests that were given out.
    #[must_use]
    pub fn begin_of_next(&self) -> usize {
        if self.is_amid() { self.begin } else { self.at }
    }

    /// Whether a request is begun and not whole.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        self.missing > 0
    }

    /// Memory for the places of arguments of a request that is not whole.
    #[inline]
    #[must_use]
    pub fn found(&self) -> usize {
        if self.is_amid() { self.ranges.len() * size_of::<Range<usize>>() } else { 0 }
    }

    /// The buffer's first `count` bytes were taken away.
    pub fn forget(&mut self, count: usize) {
        // A million arguments take 16 MB: a connection that sent them once does not keep that.
        if self.missing == 0 && self.ranges.capacity() > RANGES_KEPT {
            self.ranges = Vec::new();
        }
        // Of a long request that comes byte by byte, nothing has to move each time.
        if count == 0 {
            return;
        }
        self.at -= count;
        self.begin = self.begin.saturating_sub(count);
        for range in &mut self.ranges {
            range.start = range.start.saturating_sub(count);
            range.end = range.end.saturating_sub(count);
        }
    }

    /// Goes back to where a request begins: it is to be found again.
    pub fn rewind(&mut self, begin: usize) {
        self.at = begin;
        self.missing = 0;
        self.ranges.clear();
    }

    /// The next request that is wholly in the buffer, or none yet.
    #[inline]
    pub fn next(&mut self, buffer: &[u8], limits: &Limits) -> Result<Option<Frame>, ProtocolError> {
        if self.missing == 0 {
            self.ranges.clear();
            match buffer.get(self.at) {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return self.line(buffer, limits),
            }
            let Some((count, after)) = number(buffer, self.at + 1, || ProtocolError::Arguments)? else {
                return Ok(None);
            };
            if count > limits.arguments as i64 {
                return Err(ProtocolError::Arguments);
            }
            (self.begin, self.at) = (self.at, after);
            if count <= 0 {
                return Ok(Some(Frame::Nothing));
            }
            self.missing = count as usize;
        }
        while self.missing > 0 {
            match buffer.get(self.at) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(&other) => return Err(ProtocolError::ExpectedBulk(other)),
            }
            let Some((length, start)) = number(buffer, self.at + 1, || ProtocolError::BulkLength)? else {
                return Ok(None);
            };
            if length < 0 || length > limits.bulk as i64 {
                return Err(ProtocolError::BulkLength);
            }
            let end = start + length as usize;
            let first = self.ranges.first().map_or(start, |range| range.start);
            if end - first > limits.request {
                return Err(ProtocolError::TooLarge { most: limits.request });
            }
            match buffer.get(end..end + 2) {
                None => return Ok(None),
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::BulkEnd),
            }
            self.ranges.push(start..end);
            self.at = end + 2;
            self.missing -= 1;
        }
        Ok(Some(Frame::Bulks))
    }

    /// A request that is a line of words, as people type them.
    #[cold]
    fn line(&mut self, buffer: &[u8], limits: &Limits) -> Result<Option<Frame>, ProtocolError> {
        let rest = &buffer[self.at..];
        let most = MAX_LINE.min(limits.request);
        let Some(length) = memchr(b'\n', &rest[..rest.len().min(most)]) else {
            return if rest.len() >= most { Err(ProtocolError::InlineTooBig) } else { Ok(None) };
        };
        let words = inline::words(rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]))?;
        self.at += length + 1;
        if words.len() > limits.arguments {
            return Err(ProtocolError::Arguments);
        }
        if words
            .first()
            .is_some_and(|first| first.eq_ignore_ascii_case(b"POST") || first.eq_ignore_ascii_case(b"Host:"))
        {
            return Err(ProtocolError::Http);
        }
        Ok(Some(if words.is_empty() { Frame::Nothing } else { Frame::Inline(words) }))
    }
}

/// The number of a line at `at`, and where the next line begins; none when the line is not whole yet.
#[inline(always)]
fn number(buffer: &[u8], at: usize, wrong: impl Fn() -> ProtocolError) -> Result<Option<(i64, usize)>, ProtocolError> {
    // Nearly every number has one or two digits.
    if let Some(&[a, b'\r', b'\n']) = buffer.get(at..at + 3)
        && a.is_ascii_digit()
    {
        return Ok(Some((i64::from(a - b'0'), at + 3)));
    }
    if let Some(&[a, b, b'\r', b'\n']) = buffer.get(at..at + 4)
        && a.is_ascii_digit()
        && b.is_ascii_digit()
    {
        return Ok(Some((i64::from(a - b'0') * 10 + i64::from(b - b'0'), at + 4)));
    }
    long_number(buffer, at, wrong)
}

#[cold]
fn long_number(
    buffer: &[u8],
    at: usize,
    wrong: impl Fn() -> ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    let rest = &buffer[at.min(buffer.len())..];
    let (negative, digits) = match rest.first() {
        Some(b'-') => (true, &rest[1..]),
        _ => (false, rest),
    };
    let mut value = 0i64;
    // 18 digits cannot overflow, and no length that is allowed has as many.
    for (index, &byte) in digits.iter().enumerate().take(20) {
        match byte {
            b'0'..=b'9' if index < 18 => value = value * 10 + i64::from(byte - b'0'),
            b'\r' if index > 0 => {
                return match digits.get(index + 1) {
                    None => Ok(None),
                    Some(b'\n') => {
                        let after = at + usize::from(negative) + index + 2;
                        Ok(Some((if negative { -value } else { value }, after)))
                    }
                    Some(_) => Err(wrong()),
                };
            }
            _ => return Err(wrong()),
        }
    }
    if digits.len() >= 20 { Err(wrong()) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let mut reader = Reader::default();
        let mut requests = Vec::new();
        while let Some(frame) = reader.next(bytes, &Limits::OPEN)? {
            match frame {
                Frame::Bulks => {
                    requests.push(reader.ranges().iter().map(|range| bytes[range.clone()].to_vec()).collect())
                }
                Frame::Inline(words) => requests.push(words),
                Frame::Nothing => {}
            }
        }
        Ok(requests)
    }

    #[test]
    fn lines_have_the_limits_of_their_client_too() {
        let said = |line: &[u8], limits: &Limits| Reader::default().next(line, limits).map(drop);
        let (ten, eleven) = ("x ".repeat(10) + "\r\n", "x ".repeat(11) + "\r\n");
        assert_eq!(said(ten.as_bytes(), &Limits::GUEST), Ok(()));
        assert_eq!(said(eleven.as_bytes(), &Limits::GUEST), Err(ProtocolError::Arguments));
        assert_eq!(said(eleven.as_bytes(), &Limits::OPEN), Ok(()));
        let long = "x".repeat(20_000);
        assert_eq!(said(long.as_bytes(), &Limits::GUEST), Err(ProtocolError::InlineTooBig));
        assert_eq!(said(long.as_bytes(), &Limits::OPEN), Ok(()));
    }

    #[test]
    fn bulks_lines_and_nothing() {
        let bytes = b"*2\r\n$4\r\nPING\r\n$0\r\n\r\n\r\n*0\r\n*-1\r\nBF.ADD f \"a b\"\r\n*1\r\n$4\r\nQUIT\r\n";
        let requests = all(bytes).unwrap();
        assert_eq!(requests.len(), 3);
        assert_eq!(requests[0], [b"PING".to_vec(), vec![]]);
        assert_eq!(requests[1], [b"BF.ADD".to_vec(), b"f".to_vec(), b"a b".to_vec()]);
        assert_eq!(requests[2], [b"QUIT".to_vec()]);
    }

    #[test]
    fn pieces_of_any_size_give_the_same_requests() {
        let long = vec![b'x'; 300];
        let mut bytes = b"*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n$300\r\n".to_vec();
        bytes.extend_from_slice(&long);
        bytes.extend_from_slice(b"\r\nPING hello\r\n*2\r\n$4\r\nECHO\r\n$12\r\nabcdefghijkl\r\n");
        let whole = all(&bytes).unwrap();
        for size in [1, 2, 3, 7, 64, 299, 301] {
            let mut reader = Reader::default();
            let mut buffer: Vec<u8> = Vec::new();
            let mut requests: Vec<Vec<Vec<u8>>> = Vec::new();
            for piece in bytes.chunks(size) {
                buffer.extend_from_slice(piece);
                while let Some(frame) = reader.next(&buffer, &Limits::OPEN).unwrap() {
                    match frame {
                        Frame::Bulks => {
                            requests.push(reader.ranges().iter().map(|range| buffer[range.clone()].to_vec()).collect());
                        }
                        Frame::Inline(words) => requests.push(words),
                        Frame::Nothing => {}
                    }
                }
                let done = reader.begin_of_next();
                buffer.drain(..done);
                reader.forget(done);
            }
            assert_eq!(requests, whole, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_as_redis_refuses_it() {
        let refused = |bytes: &[u8]| all(bytes).unwrap_err();
        assert_eq!(refused(b"*1\r\n$1000000000000\r\n"), ProtocolError::BulkLength);
        assert_eq!(refused(b"*1\r\n$-5\r\n"), ProtocolError::BulkLength);
        assert_eq!(refused(b"*1\r\n$99999999999999999999\r\n"), ProtocolError::BulkLength);
        assert_eq!(refused(b"*1\r\n$x\r\n"), ProtocolError::BulkLength);
        assert_eq!(refused(b"*2147483647\r\n"), ProtocolError::Arguments);
        assert_eq!(refused(b"*x\r\n"), ProtocolError::Arguments);
        assert_eq!(refused(b"*1\r\n*1\r\n"), ProtocolError::ExpectedBulk(b'*'));
        assert_eq!(refused(b"*1\r\n$4\r\nPINGxx"), ProtocolError::BulkEnd);
        assert_eq!(refused(b"ECHO \"a\r\n"), ProtocolError::Quotes);
        assert_eq!(refused(b"POST / HTTP/1.1\r\n"), ProtocolError::Http);
        assert_eq!(refused(&vec![b'a'; 70_000]), ProtocolError::InlineTooBig);
        assert_eq!(ProtocolError::ExpectedBulk(b'*').to_string(), "ERR Protocol error: expected '$', got '*'");
    }

    #[test]
    fn what_was_announced_is_not_allocated() {
        let mut reader = Reader::default();
        assert_eq!(reader.next(b"*1048576\r\n$3\r\nabc\r\n", &Limits::OPEN), Ok(None));
        assert!(reader.ranges.capacity() < 64, "room for {} arguments, one has come", reader.ranges.capacity());
        assert!(reader.is_amid());
    }

    #[test]
    fn room_for_many_arguments_is_given_back() {
        let mut reader = Reader::default();
        let request = format!("*100001\r\n$3\r\nDEL\r\n{}", "$0\r\n\r\n".repeat(100_000)).into_bytes();
        let half = request.len() / 2;
        assert_eq!(reader.next(&request[..half], &Limits::OPEN), Ok(None));
        let needed = reader.begin_of_next();
        reader.forget(needed);
        assert_eq!(reader.next(&request[needed..], &Limits::OPEN), Ok(Some(Frame::Bulks)), "half of it stays found");
        assert_eq!(reader.ranges().len(), 100_001);
        reader.forget(request.len() - needed);
        assert!(reader.ranges.capacity() <= RANGES_KEPT, "room for {}", reader.ranges.capacity());
    }

    #[test]
    fn a_request_has_a_size() {
        let limits = Limits { arguments: 100, bulk: 60, request: 100 };
        let mut bytes = b"*3\r\n".to_vec();
        for _ in 0..3 {
            bytes.extend_from_slice(b"$50\r\n");
            bytes.extend_from_slice(&[b'a'; 50]);
            bytes.extend_from_slice(b"\r\n");
        }
        assert_eq!(Reader::default().next(&bytes, &limits), Err(ProtocolError::TooLarge { most: 100 }));
    }
}
