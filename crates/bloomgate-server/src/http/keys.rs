//! Many keys in a body: the forms they come in.
//!
//! A body is cut into keys as it arrives. What is held is the piece that is being looked at, the beginning of a key that is
//! not whole, and one command of 512 keys on its way to the conversation; of the keys that are answered, a bit each.

use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header::ACCEPT;
use bloomgate_command::MAX_ITEM;
use bloomgate_http::base64;
use bloomgate_http::problem::Problem;
use serde_json::Value;

use super::json::Object;
use super::visit::wrong_type;

/// Keys of one request.
pub(super) const MOST_KEYS: usize = 8 << 20;
/// Keys of one request in JSON.
pub(super) const MOST_JSON_KEYS: usize = 100_000;
/// Keys of one command: what a turn of the conversation takes.
pub(super) const BATCH: usize = 512;
/// Bytes of keys after which a command goes, however few they are.
const BATCH_BYTES: usize = 1 << 20;

/// How keys stand in a body, and how answers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `{"keys":[…]}`, and an object with a list.
    Json,
    /// A key a line, and a digit a line.
    Lines,
    /// Each key behind its length, and a bitmap.
    Binary,
}

impl Form {
    /// Every form with its type.
    pub(super) const ALL: [(Self, &'static str); 3] =
        [(Self::Json, "application/json"), (Self::Lines, "text/plain"), (Self::Binary, "application/octet-stream")];

    /// The form of a body by its type.
    pub(super) fn of(content_type: Option<&str>) -> Result<Self, Problem> {
        let found = Self::ALL.into_iter().find(|(_, name)| content_type == Some(name));
        found.map(|(form, _)| form).ok_or_else(|| wrong_type(content_type, &Self::ALL.map(|(_, name)| name)))
    }

    /// The form that a client wants: the first that it names, that of the body if it takes anything.
    pub(super) fn wanted(headers: &HeaderMap, of_body: Self) -> Result<Self, Problem> {
        let mut named = false;
        for value in headers.get_all(ACCEPT) {
            for one in value.to_str().unwrap_or_default().split(',') {
                let mut words = one.split(';').map(str::trim);
                let name = words.next().unwrap_or_default().to_ascii_lowercase();
                if name.is_empty() || words.any(|word| matches!(word, "q=0" | "q=0.0")) {
                    continue;
                }
                named = true;
                if name == "*/*" {
                    return Ok(of_body);
                }
                let covers =
                    |kind: &str| kind == name || name.strip_suffix('*').is_some_and(|begin| kind.starts_with(begin));
                if let Some((form, _)) = Self::ALL.into_iter().find(|(_, kind)| covers(kind)) {
                    return Ok(form);
                }
            }
        }
        match named {
            false => Ok(of_body),
            true => Err(Problem::new(
                StatusCode::NOT_ACCEPTABLE,
                "not-acceptable",
                "The answer is not to be had in this form",
                format!("the header Accept names none of {}", Self::ALL.map(|(_, name)| name).join(", ")),
            )),
        }
    }
}

/// Keys of a body of JSON.
pub(super) fn of_json(body: &[u8]) -> Result<Vec<Vec<u8>>, Problem> {
    let mut object = Object::read(body)?;
    let encoding = object.text("encoding")?;
    let keys = object.take("keys");
    object.end()?;
    let Some(Value::Array(keys)) = keys else {
        return Err(Problem::bad_request("the body has no list of keys: send {\"keys\":[\"alice\",\"bob\"]}"));
    };
    if keys.len() > MOST_JSON_KEYS {
        return Err(Problem::too_large(format!(
            "the body has {} keys, at most {MOST_JSON_KEYS} may come as JSON: send less at once, or a key a line (Content-Type: \
             text/plain), {MOST_KEYS} at most",
            keys.len()
        )));
    }
    let in_base64 = match encoding.as_deref() {
        None | Some("text") => false,
        Some("base64") => true,
        Some(_) => return Err(Problem::bad_request("'encoding' is neither text nor base64")),
    };
    let read = |(at, key): (usize, Value)| {
        let key = match key {
            Value::String(text) if in_base64 => {
                base64::decode(&text).ok_or_else(|| Problem::bad_request(format!("key {at} is no base64")))?
            }
            Value::String(text) => text.into_bytes(),
            _ => {
                let detail = format!("key {at} is no text: write each as a text, a number too (\"42\")");
                return Err(Problem::bad_request(detail));
            }
        };
        // All of them are here: one that is too long is found before the first is given to a filter.
        if key.len() > MAX_ITEM { Err(too_long(at, key.len(), "")) } else { Ok(key) }
    };
    keys.into_iter().enumerate().map(read).collect()
}

/// The refusal of a key by its place in the body.
fn too_long(at: usize, bytes: usize, more: &str) -> Problem {
    Problem::too_large(format!(
        "key {at} has {bytes} bytes or more, at most {MAX_ITEM} are allowed: send its hash instead{more}"
    ))
}

/// Cuts keys out of a body as it arrives.
#[derive(Debug)]
pub(super) struct Cutter {
    form: Form,
    /// The beginning of a key that is not whole.
    held: Vec<u8>,
    /// Whether a line is begun, also with nothing in it.
    begun: bool,
    keys: usize,
}

impl Cutter {
    pub(super) fn new(form: Form) -> Self {
        Self { form, held: Vec::new(), begun: false, keys: 0 }
    }

    /// Takes a piece until the batch is full; what is left of it.
    pub(super) fn take<'p>(&mut self, piece: &'p [u8], batch: &mut Batch) -> Result<&'p [u8], Problem> {
        match self.form {
            Form::Binary => self.take_lengths(piece, batch),
            _ => self.take_lines(piece, batch),
        }
    }

    fn take_lines<'p>(&mut self, mut piece: &'p [u8], batch: &mut Batch) -> Result<&'p [u8], Problem> {
        while !piece.is_empty() && !batch.is_full() {
            match memchr::memchr(b'\n', piece) {
                Some(end) => {
                    let (line, rest) = (&piece[..end], &piece[end + 1..]);
                    if self.held.is_empty() {
                        self.push(line, batch)?;
                    } else {
                        let mut held = std::mem::take(&mut self.held);
                        held.extend_from_slice(line);
                        self.push(&held, batch)?;
                        held.clear();
                        self.held = held;
                    }
                    self.begun = false;
                    piece = rest;
                }
                None => {
                    self.hold(piece)?;
                    self.begun = true;
                    piece = &[];
                }
            }
        }
        Ok(piece)
    }

    fn take_lengths<'p>(&mut self, mut piece: &'p [u8], batch: &mut Batch) -> Result<&'p [u8], Problem> {
        while !piece.is_empty() && !batch.is_full() {
            if self.held.is_empty()
                && let Some((length, rest)) = piece.split_first_chunk::<4>()
                && let Some((key, rest)) = rest.split_at_checked(self.length(*length)?)
            {
                self.push(key, batch)?;
                piece = rest;
                continue;
            }
            // In pieces: first the length, then as much as it says.
            let wanted = match self.held.first_chunk::<4>() {
                None => 4,
                Some(length) => 4 + self.length(*length)?,
            };
            let (some, rest) = piece.split_at((wanted - self.held.len()).min(piece.len()));
            self.held.extend_from_slice(some);
            piece = rest;
            if let Some(length) = self.held.first_chunk::<4>()
                && self.held.len() == 4 + self.length(*length)?
            {
                let mut held = std::mem::take(&mut self.held);
                self.push(&held[4..], batch)?;
                held.clear();
                self.held = held;
            }
        }
        Ok(piece)
    }

    fn length(&self, bytes: [u8; 4]) -> Result<usize, Problem> {
        let length = u32::from_le_bytes(bytes) as usize;
        if length > MAX_ITEM { Err(self.too_long(length)) } else { Ok(length) }
    }

    fn hold(&mut self, piece: &[u8]) -> Result<(), Problem> {
        if self.held.len() + piece.len() > MAX_ITEM {
            return Err(self.too_long(self.held.len() + piece.len()));
        }
        self.held.extend_from_slice(piece);
        Ok(())
    }

    fn too_long(&self, bytes: usize) -> Problem {
        let is_binary = self.form == Form::Binary;
        let more = if is_binary { ", and each key behind its length in 4 bytes, little-endian" } else { "" };
        too_long(self.keys, bytes, more)
    }

    /// One key.
    #[inline]
    pub(super) fn push(&mut self, key: &[u8], batch: &mut Batch) -> Result<(), Problem> {
        if key.len() > MAX_ITEM {
            return Err(self.too_long(key.len()));
        }
        if self.keys == MOST_KEYS {
            return Err(Problem::too_large(format!("the body has more than {MOST_KEYS} keys: send less at once")));
        }
        self.keys += 1;
        batch.push(key);
        Ok(())
    }

    /// The body is over: the last line needs no end.
    pub(super) fn end(&mut self, batch: &mut Batch) -> Result<(), Problem> {
        if self.form == Form::Binary {
            return match self.held.is_empty() {
                true => Ok(()),
                false => Err(Problem::bad_request(format!(
                    "the body ends within key {}: each key stands behind its length in 4 bytes, little-endian",
                    self.keys
                ))),
            };
        }
        if self.begun {
            self.begun = false;
            let held = std::mem::take(&mut self.held);
            self.push(&held, batch)?;
        }
        Ok(())
    }
}

/// A command that grows key by key: its words are written as they come, its head when they are all there.
#[derive(Debug)]
pub(super) struct Batch {
    /// Room for the head, then the keys.
    wire: Vec<u8>,
    /// The words before the keys, as on the wire, and how many.
    before: Vec<u8>,
    words: usize,
    keys: usize,
}

/// Room for `*`, the number of words and the end of the line.
const HEAD: usize = 16;

impl Batch {
    /// A command that begins with these words.
    pub(super) fn new(words: &[&[u8]]) -> Self {
        let mut batch = Self { wire: Vec::new(), before: Vec::new(), words: 0, keys: 0 };
        batch.begin(words);
        batch
    }

    /// Begins again, with these words.
    pub(super) fn begin(&mut self, words: &[&[u8]]) {
        self.before.clear();
        words.iter().for_each(|word| super::talk::write_word(&mut self.before, word));
        self.words = words.len();
        self.clear();
    }

    /// Begins again.
    pub(super) fn clear(&mut self) {
        self.wire.clear();
        self.wire.resize(HEAD, 0);
        self.wire.extend_from_slice(&self.before);
        self.keys = 0;
    }

    #[inline]
    fn push(&mut self, key: &[u8]) {
        super::talk::write_word(&mut self.wire, key);
        self.keys += 1;
    }

    /// Whether it is to be given.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.keys >= BATCH || self.wire.len() >= BATCH_BYTES
    }

    /// How many keys it has.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// The command as it goes over the wire.
    pub(super) fn wire(&mut self) -> &[u8] {
        let head = format!("*{}\r\n", self.words + self.keys);
        let begin = HEAD - head.len();
        self.wire[begin..HEAD].copy_from_slice(head.as_bytes());
        &self.wire[begin..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of a body that comes in pieces of every length, as commands of so many words.
    fn cut(form: Form, body: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, u16> {
        let (mut cutter, mut batch, mut keys) = (Cutter::new(form), Batch::new(&[b"C"]), Vec::new());
        let mut give = |batch: &mut Batch| {
            let mut rest = batch.wire();
            let mut word = || -> Vec<u8> {
                let end = memchr::memchr(b'\n', rest).unwrap();
                let length: usize = std::str::from_utf8(&rest[1..end - 1]).unwrap().parse().unwrap();
                let kind = rest[0];
                rest = &rest[end + 1..];
                if kind == b'*' {
                    return length.to_string().into_bytes();
                }
                let word = rest[..length].to_vec();
                rest = &rest[length + 2..];
                word
            };
            let count: usize = String::from_utf8(word()).unwrap().parse().unwrap();
            assert_eq!(word(), b"C");
            keys.extend((1..count).map(|_| word()));
            assert!(rest.is_empty());
            batch.clear();
        };
        let status = |problem: Problem| problem.status().as_u16();
        for mut piece in body.chunks(piece) {
            while !piece.is_empty() {
                piece = cutter.take(piece, &mut batch).map_err(status)?;
                if batch.is_full() {
                    give(&mut batch);
                }
            }
        }
        cutter.end(&mut batch).map_err(status)?;
        give(&mut batch);
        Ok(keys)
    }

    #[test]
    fn keys_are_the_same_however_they_arrive() {
        let keys: Vec<Vec<u8>> = (0..1_500usize).map(|at| vec![b'a' + (at % 26) as u8; at % 40]).collect();
        let lines: Vec<u8> = keys.iter().flat_map(|key| [&key[..], b"\n"].concat()).collect();
        let binary: Vec<u8> =
            keys.iter().flat_map(|key| [&(key.len() as u32).to_le_bytes()[..], &key[..]].concat()).collect();
        for piece in [1, 2, 3, 5, 7, 64, 1_000, 1 << 20] {
            assert_eq!(cut(Form::Lines, &lines, piece).unwrap(), keys, "{piece}");
            assert_eq!(cut(Form::Binary, &binary, piece).unwrap(), keys, "{piece}");
        }
        assert_eq!(cut(Form::Lines, b"a\r\n\nb", 2).unwrap(), [&b"a\r"[..], b"", b"b"]);
        assert_eq!(cut(Form::Lines, b"\n", 1).unwrap(), [b""]);
        assert_eq!(cut(Form::Lines, b"", 1).unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(cut(Form::Lines, &vec![b'x'; MAX_ITEM], 1_000).unwrap().len(), 1);
        assert_eq!(cut(Form::Lines, &vec![b'x'; MAX_ITEM + 1], 1_000), Err(413));
        for piece in [1, 3, 100] {
            assert_eq!(cut(Form::Binary, b"\x02\0\0\0a", piece), Err(400));
            assert_eq!(cut(Form::Binary, b"\x02\0", piece), Err(400));
            assert_eq!(cut(Form::Binary, b"\xff\xff\xff\xffabc", piece), Err(413));
        }
    }

    #[test]
    fn the_form_of_the_answer_is_the_one_that_is_wanted() {
        let wanted = |accept: &[&str]| {
            let mut headers = HeaderMap::new();
            accept.iter().for_each(|value| _ = headers.append(ACCEPT, value.parse().unwrap()));
            Form::wanted(&headers, Form::Lines).map_err(|problem| problem.status().as_u16())
        };
        assert_eq!(wanted(&[]), Ok(Form::Lines));
        assert_eq!(wanted(&["*/*"]), Ok(Form::Lines));
        assert_eq!(wanted(&["application/json;q=0.5, */*"]), Ok(Form::Json));
        assert_eq!(wanted(&["image/png", "Application/*"]), Ok(Form::Json));
        assert_eq!(wanted(&["application/octet-stream"]), Ok(Form::Binary));
        assert_eq!(wanted(&["image/png"]), Err(406));
        assert_eq!(wanted(&["application/json;q=0"]), Ok(Form::Lines));
    }

    #[test]
    fn keys_of_json_are_texts_or_base64() {
        let read = |text: &str| of_json(text.as_bytes()).map_err(|problem| problem.status().as_u16());
        assert_eq!(read(r#"{"keys":["a","é"]}"#), Ok(vec![b"a".to_vec(), "é".as_bytes().to_vec()]));
        assert_eq!(read(r#"{"keys":["/w=="],"encoding":"base64"}"#), Ok(vec![vec![0xff]]));
        for wrong in [r#"{}"#, r#"{"keys":"a"}"#, r#"{"keys":[1]}"#, r#"{"keys":["?"],"encoding":"base64"}"#] {
            assert_eq!(read(wrong), Err(400), "{wrong}");
        }
        let many = format!(r#"{{"keys":[{}]}}"#, vec!["\"\""; MOST_JSON_KEYS + 1].join(","));
        assert_eq!(read(&many), Err(413));
    }
}
