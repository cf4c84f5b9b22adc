//! The keys of an HTTP source, one a line: from a file, or from a URL. A list that was cut off is an error, never a short
//! list: the keys missing from it would be told to be absent. So would be those that are spelled with what editors and exports
//! leave beside them, blanks and control characters: they are refused.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{AGE, CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::{Response, StatusCode};

use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{KeyType, LONGEST};
use crate::sources::{KeyBatch, Scan};

/// Where the list of all keys is, one a line, spelled as clients spell them, every line with its newline, the last too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyList {
    /// There is none: the gate can only watch.
    #[default]
    None,
    /// A file. Nothing is written through [`Gate::put`](crate::Gate::put) then: the file would not have it. What passes a
    /// proxy is noted beside it, in a file of the same name and `.written`. Whoever else writes: the file first, a rebuild,
    /// and only then the rows.
    File(PathBuf),
    /// A URL that answers all keys as of the request, with a length or in chunks.
    Url(String),
}

/// The longest line: two digits for each byte of a key of bytes, and its prefix.
const LONGEST_LINE: usize = 2 * LONGEST + 2;
/// How much of a file is read at once.
const PIECE: usize = 256 << 10;

fn source(message: String) -> Error {
    Error::new(ErrorKind::Source, message)
}

/// What some programs write before a text. It is no part of the first key.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// How keys are written in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spelling {
    pub key_type: KeyType,
    /// With blanks at their ends and control characters, if they have some.
    pub as_listed: bool,
}

/// Lines that come in pieces.
#[derive(Debug)]
struct Lines {
    /// Whose they are, for messages.
    list: String,
    spelling: Spelling,
    /// The line that has begun.
    begun: Vec<u8>,
    /// Lines so far.
    count: u64,
}

impl Lines {
    fn new(list: String, spelling: Spelling) -> Self {
        Self { list, spelling, begun: Vec::new(), count: 0 }
    }

    fn feed(&mut self, mut piece: &[u8], batch: &mut KeyBatch) -> Result<()> {
        while let Some(end) = piece.iter().position(|&byte| byte == b'\n') {
            let (rest_of_line, rest) = piece.split_at(end);
            piece = &rest[1..];
            if self.begun.is_empty() {
                self.line(rest_of_line, batch)?;
            } else {
                let mut line = std::mem::take(&mut self.begun);
                line.extend_from_slice(rest_of_line);
                self.line(&line, batch)?;
                line.clear();
                self.begun = line;
            }
        }
        self.begun.extend_from_slice(piece);
        self.bounded(self.begun.len())
    }

    fn bounded(&self, length: usize) -> Result<()> {
        if length <= LONGEST_LINE {
            return Ok(());
        }
        Err(self.refused("is longer than any key", &format!("keys have at most {LONGEST} bytes")))
    }

    fn line(&mut self, line: &[u8], batch: &mut KeyBatch) -> Result<()> {
        let is_first = self.count == 0;
        let line = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(line);
        self.bounded(line.len())?;
        if line.ends_with(b"\r") {
            return Err(self.refused("ends with a carriage return", "end lines with a newline alone"));
        }
        let Ok(text) = std::str::from_utf8(line) else {
            return Err(self.refused("is not UTF-8", "write bytes as \\x and hexadecimal digits"));
        };
        if let Some(what) = unclean(text).filter(|_| !self.spelling.as_listed) {
            let advice = "no service knows such a key by another name, and that one would be told to be absent; take it out, \
                          or say keys-as-listed if the keys are spelled so";
            return Err(self.refused(&what, advice));
        }
        // No key of another type is empty; as a text it harms nobody to have it.
        if !text.is_empty() || self.spelling.key_type == KeyType::Text {
            let key =
                self.spelling.key_type.parse(text).map_err(|error| self.refused("is no key", &error.to_string()))?;
            batch.push(key.canonical());
        }
        self.count += 1;
        Ok(())
    }

    #[cold]
    fn refused(&self, what: &str, advice: &str) -> Error {
        source(format!("line {} of {} {what}: {advice}", self.count + 1, self.list))
    }

    /// The end of the list: not within a line.
    fn end(&self) -> Result<()> {
        if self.begun.is_empty() {
            return Ok(());
        }
        Err(self
            .refused("has no newline at its end, so the list may be cut off", "end every line with one, the last too"))
    }
}

/// What is beside a key rather than of it: what editors, exports and terminals put there.
fn unclean(text: &str) -> Option<String> {
    if let Some(control) = text.chars().find(|letter| letter.is_control() || *letter == '\u{feff}') {
        return Some(format!("has the control character U+{:04X} in it", u32::from(control)));
    }
    match (text.starts_with(char::is_whitespace), text.ends_with(char::is_whitespace)) {
        (true, _) => Some("begins with a blank".to_owned()),
        (_, true) => Some("ends with a blank".to_owned()),
        _ => None,
    }
}

/// Where the pieces of a list come from.
trait Pieces: Send {
    /// Some bytes of the list.
    type Piece: AsRef<[u8]> + Send;

    /// The next piece, or none at the end of a list that was found to be whole. What is read from is taken away meanwhile:
    /// after an error there is no going on.
    fn next(&mut self, lines: &Lines) -> impl Future<Output = Result<Option<Self::Piece>>> + Send;
}

/// A list that is being read.
struct ListScan<P> {
    pieces: P,
    lines: Lines,
}

impl<P: Pieces> Scan for ListScan<P> {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            batch.clear();
            while batch.is_empty() {
                match self.pieces.next(&self.lines).await? {
                    Some(piece) => self.lines.feed(piece.as_ref(), batch)?,
                    None => return Ok(false),
                }
            }
            Ok(true)
        })
    }
}

/// A file and what it was when it was opened.
struct Opened {
    file: File,
    length: u64,
    changed: Option<SystemTime>,
    read: u64,
}

impl Opened {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        Ok(Self { file, length: about.len(), changed: about.modified().ok(), read: 0 })
    }

    fn read(mut self) -> std::io::Result<(Self, Vec<u8>)> {
        let mut piece = Vec::with_capacity(PIECE);
        self.file.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
        self.read += piece.len() as u64;
        Ok((self, piece))
    }

    /// Whether the file is what it was when it was opened, and was read to its end.
    fn unchanged(&self) -> std::io::Result<bool> {
        let about = self.file.metadata()?;
        Ok(about.len() == self.length && self.read == self.length && about.modified().ok() == self.changed)
    }
}

/// Runs what may wait for a disk where it holds nobody up.
async fn off_the_reactor<T: Send + 'static>(
    list: &str,
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(source(format!("{list}: {error}"))),
        Err(error) => Err(source(format!("{list}: the read was stopped: {error}"))),
    }
}

/// A list in a file; none is left after its end.
struct InFile(Option<Opened>);

/// Begins to read a list in a file.
pub(super) async fn scan_file(path: PathBuf, spelling: Spelling) -> Result<Box<dyn Scan>> {
    let list = format!("the list of keys {}", path.display());
    let opened = off_the_reactor(&list, move || Opened::open(&path)).await?;
    Ok(Box::new(ListScan { pieces: InFile(Some(opened)), lines: Lines::new(list, spelling) }))
}

impl Pieces for InFile {
    type Piece = Vec<u8>;

    async fn next(&mut self, lines: &Lines) -> Result<Option<Vec<u8>>> {
        let Some(opened) = self.0.take() else { return Ok(None) };
        let (opened, piece) = off_the_reactor(&lines.list, move || opened.read()).await?;
        if !piece.is_empty() {
            self.0 = Some(opened);
            return Ok(Some(piece));
        }
        lines.end()?;
        if !off_the_reactor(&lines.list, move || opened.unchanged()).await? {
            return Err(source(format!("{} was changed while it was read: exchange it by a rename", lines.list)));
        }
        Ok(None)
    }
}

/// A list that a service answers; no body is left after its end.
struct Answered {
    body: Option<Incoming>,
    deadline: Duration,
}

/// Begins to read a list that a service answers; refuses answers of which nobody could tell whether they are whole.
pub(super) fn scan_answer(
    answer: Response<Incoming>,
    shown: &str,
    spelling: Spelling,
    deadline: Duration,
) -> Result<Box<dyn Scan>> {
    let list = format!("the list of keys {shown}");
    if answer.status() != StatusCode::OK {
        return Err(source(format!("{list} was answered with {}: 200 is needed", answer.status())));
    }
    let headers = answer.headers();
    if !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING) {
        return Err(source(format!(
            "{list} was answered without a length and not in chunks, so a list that is cut off would look whole: send \
             content-length, or transfer-encoding: chunked"
        )));
    }
    if let Some(coding) = headers.get(CONTENT_ENCODING).filter(|coding| *coding != "identity") {
        return Err(source(format!(
            "{list} was answered in the coding {coding:?}, which was not asked for: send it plain"
        )));
    }
    if let Some(age) = headers.get(AGE).filter(|age| *age != "0") {
        return Err(source(format!(
            "{list} came from a cache and is {age:?} seconds old: keys written since would be missing"
        )));
    }
    let pieces = Answered { body: Some(answer.into_body()), deadline };
    Ok(Box::new(ListScan { pieces, lines: Lines::new(list, spelling) }))
}

impl Pieces for Answered {
    type Piece = Bytes;

    async fn next(&mut self, lines: &Lines) -> Result<Option<Bytes>> {
        let Some(mut body) = self.body.take() else { return Ok(None) };
        loop {
            let frame = match tokio::time::timeout(self.deadline, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    return Err(source(format!("{} was cut off: {}", lines.list, super::causes(&error))));
                }
                Ok(None) => {
                    lines.end()?;
                    return Ok(None);
                }
                Err(_) => {
                    let waited = self.deadline.as_millis();
                    return Err(source(format!("{}: nothing more came for {waited} ms", lines.list)));
                }
            };
            if let Ok(piece) = frame.into_data()
                && !piece.is_empty()
            {
                self.body = Some(body);
                return Ok(Some(piece));
            }
        }
    }
}
