//! Deltas: what makes a new filter file of an old one, for everyone who has the old one already.
//!
//! **When.** A filter is published again and again with a few keys more (or fewer, in kinds that remove), to readers
//! who keep the last one. **When not.** The new filter has another shape, contract or seed, or is a static kind built
//! anew: every bit differs, and the delta is the whole file in another cover.
//!
//! A delta names the [address](Address) of the file it starts from and of the file it makes, and both are checked: on
//! any other file it is refused, so that deltas applied out of order, twice to the wrong file, or to a damaged one can
//! never be silently wrong. A file that is already the new one is given back as it is.
//!
//! Three ways to say the difference, of which the smallest is taken ([`Method`]). 1,000,000 keys, blocked, 1 %, and so
//! many more (bytes of the delta file):
//!
//! | added | changed bits | added digests | whole file | taken |
//! |---|---|---|---|---|
//! | 1 | 524 | 408 | 1,268,160 | added digests |
//! | 10 | 942 | 552 | 1,268,160 | added digests |
//! | 100 | 1,875 | 1,992 | 1,268,160 | changed bits |
//! | 1,000 | 6,974 | 16,392 | 1,268,160 | changed bits |
//! | 10,000 | 45,158 | 160,392 | 1,268,160 | changed bits |
//! | 100,000 | 277,301 | 1,600,456 | 1,268,160 | changed bits |
//!
//! Changed bits know nothing of filters: they work for every kind, for removals, for a chain that opened a stage. (Save
//! without compression: a gap-coded payload differs everywhere after its first change.)
//!
//! Digests of an unkeyed contract tell a reader which of *his guesses* are among the added keys, without the false
//! positives behind which a filter hides them. Where that matters use [`Delta::between`], which never sends them.
//!
//! ```
//! use bloomgate::Blocked;
//! use bloomgate::format::delta::Delta;
//!
//! let mut seen = Blocked::builder().keys::<u64>().items(10_000).build()?;
//! seen.insert_all(0..9_000u64)?;
//! let monday = seen.to_bytes()?;
//! seen.insert_all(9_000..9_100u64)?;
//! let tuesday = seen.to_bytes()?;
//!
//! let delta = Delta::between(&monday, &tuesday)?.to_bytes()?; // a tenth of the file
//! assert!(delta.len() * 8 < tuesday.len());
//!
//! let delta = Delta::from_bytes(&delta)?;
//! assert_eq!(delta.apply(&monday)?, tuesday);
//! assert_eq!(delta.apply(&tuesday)?, tuesday); // applied twice: nothing happens
//! assert!(delta.apply(b"another file").is_err());
//! # Ok::<(), bloomgate::Error>(())
//! ```

use std::fmt;
use std::io::Read;
use std::path::Path;

use super::address::Address;
use super::atomic_file::write_atomically;
use super::fields::{FieldReader, FieldWriter, Tag};
use super::frame::corrupt;
use super::load::{in_file, plain_file};
use super::read::{Head, Limits, MemoryFile};
use super::sections::{Codec, SectionType};
use super::write::FrameWriter;
use super::{delta_bits, delta_digests};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;

const METHOD: Tag = Tag::critical(1);
const BASE: Tag = Tag::critical(2);
const RESULT: Tag = Tag::critical(3);
const BASE_LEN: Tag = Tag::critical(4);
const RESULT_LEN: Tag = Tag::critical(5);

/// How a delta says what has changed: a frozen number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u16)]
pub enum Method {
    /// The bits in which the files differ, as gaps between them.
    Bits = 1,
    /// The digests of the keys that were added, in the order of insertion.
    Digests = 2,
    /// The new file itself.
    Whole = 3,
}

impl Method {
    /// The method of a frozen number, if this version knows it.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        [Self::Bits, Self::Digests, Self::Whole].into_iter().find(|method| method.number() == number)
    }

    /// The frozen number.
    #[must_use]
    pub fn number(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bits => "changed bits",
            Self::Digests => "added digests",
            Self::Whole => "whole file",
        })
    }
}

/// What makes one file of another.
#[derive(Clone, PartialEq, Eq)]
pub struct Delta {
    method: Method,
    base: Address,
    result: Address,
    base_len: u64,
    result_len: u64,
    body: Vec<u8>,
}

/// Making deltas.
impl Delta {
    /// The delta from one filter file to another, of any kinds: changed bits, or the whole file where that is smaller.
    ///
    /// Both are verified as far as that can be without a secret. [`apply`](Self::apply) has been tried on it.
    pub fn between(old: &[u8], new: &[u8]) -> Result<Self> {
        let (old_file, new_file) = (opened(old, "old")?, opened(new, "new")?);
        let bits = delta_bits::encode(old, old_file.head().frame(), new, new_file.head().frame())?;
        let (method, body) = match bits {
            Some(body) => (Method::Bits, body),
            None => (Method::Whole, new.to_vec()),
        };
        Self::checked(method, old, new, body)
    }

    /// [`between`](Self::between) for a maker who knows which keys were added since, in the order of insertion: their
    /// digests are sent where that is smallest, and where inserting them into `old` one by one makes exactly `new`.
    pub fn between_added(old: &[u8], new: &[u8], added: &[Digest]) -> Result<Self> {
        let other = Self::between(old, new)?;
        if delta_digests::encoded_len(added.len()) >= other.body.len() {
            return Ok(other);
        }
        let limits = Limits::for_file(old.len().max(new.len()) as u64);
        match delta_digests::apply(old, added, limits) {
            Ok(made) if made == new => Self::checked(Method::Digests, old, new, delta_digests::encode(added)),
            _ => Ok(other),
        }
    }

    /// The delta that adds keys to a filter, by their digests under its contract, and the file that it makes. Needs no
    /// secret. What the filter refuses (it is full, its kind takes no keys) is refused.
    pub fn from_added(old: &[u8], added: &[Digest]) -> Result<(Self, Vec<u8>)> {
        let new = delta_digests::apply(old, added, Limits::for_file(old.len() as u64))?;
        Ok((Self::between_added(old, &new, added)?, new))
    }

    /// A delta that was seen to do what it says.
    fn checked(method: Method, old: &[u8], new: &[u8], body: Vec<u8>) -> Result<Self> {
        let (base, result) = (Address::of(old), Address::of(new));
        let delta = Self { method, base, result, base_len: old.len() as u64, result_len: new.len() as u64, body };
        delta.make(old, Limits::for_file(old.len().max(new.len()) as u64))?;
        Ok(delta)
    }

    /// How it says what has changed.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// The address of the file that it starts from.
    #[must_use]
    pub fn base(&self) -> Address {
        self.base
    }

    /// The address of the file that it makes.
    #[must_use]
    pub fn result(&self) -> Address {
        self.result
    }

    /// The length of the file that it starts from.
    #[must_use]
    pub fn base_len(&self) -> u64 {
        self.base_len
    }

    /// The length of the file that it makes.
    #[must_use]
    pub fn result_len(&self) -> u64 {
        self.result_len
    }
}

/// Applying deltas.
impl Delta {
    /// The new file. `old` must have the address [`base`](Self::base), and what comes out has the address
    /// [`result`](Self::result), or nothing comes out; an `old` that already is the result is given back as it is.
    ///
    /// At most 1 GiB, or eight times the larger of `old` and the delta, is made of it.
    pub fn apply(&self, old: &[u8]) -> Result<Vec<u8>> {
        self.apply_with(old, Limits::for_file(old.len().max(self.body.len()) as u64))
    }

    /// [`apply`](Self::apply) with other limits: [`Limits::max_payload_bytes`] is the most that the new file may have.
    pub fn apply_with(&self, old: &[u8], limits: Limits) -> Result<Vec<u8>> {
        let found = Address::of(old);
        if found == self.result {
            return Ok(old.to_vec());
        }
        if found != self.base {
            let message = format!(
                "the delta makes the file {} of the file {}, and the file given is {found}: apply the deltas in their \
                 order, each to the file that the one before made, or fetch the whole file",
                self.result, self.base
            );
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        self.make(old, limits)
    }

    /// Applies the delta to a file, which is replaced once the new one is whole; gives its address.
    pub fn apply_to_file(&self, path: impl AsRef<Path>) -> Result<Address> {
        let path = path.as_ref();
        let old = read_file(path)?;
        let new = in_file(path, self.apply(&old))?;
        if new != old {
            write_atomically(path, |out| out.write_all(&new).map_err(|e| Error::io("writing a filter", e)))?;
        }
        Ok(self.result)
    }

    /// Applies the delta to one file and writes what it makes to another, which is there whole or not at all; gives its
    /// address.
    pub fn apply_from_file(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Address> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let new = in_file(from, self.apply(&read_file(from)?))?;
        write_atomically(to, |out| out.write_all(&new).map_err(|e| Error::io("writing a filter", e)))?;
        Ok(self.result)
    }

    /// The new file of the right old one.
    fn make(&self, old: &[u8], limits: Limits) -> Result<Vec<u8>> {
        if self.result_len > limits.max_payload_bytes {
            let message = format!(
                "the delta makes a file of {} bytes, {} are allowed (Limits::max_payload_bytes): raise the limit if the \
                 delta is yours",
                self.result_len, limits.max_payload_bytes
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let Ok(length) = usize::try_from(self.result_len) else {
            return Err(corrupt(format!("DELTA: makes a file of {} bytes, which no memory holds", self.result_len)));
        };
        let new = match self.method {
            Method::Bits => delta_bits::apply(&self.body, old, length)?,
            Method::Digests => delta_digests::apply(old, &delta_digests::decode(&self.body)?, limits)?,
            Method::Whole => self.body.clone(),
        };
        let made = Address::of(&new);
        if made == self.result && new.len() == length {
            return Ok(new);
        }
        Err(corrupt(format!(
            "the delta makes a file of {} bytes with the address {made}, {length} bytes with {} expected: nothing was \
             changed; fetch the delta or the whole file again",
            new.len(),
            self.result
        )))
    }
}

/// Deltas as files.
impl Delta {
    /// The bytes of the delta.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut fields = FieldWriter::new();
        fields.u16(METHOD, self.method.number()).bytes(BASE, &self.base.0).bytes(RESULT, &self.result.0);
        fields.u64(BASE_LEN, self.base_len).u64(RESULT_LEN, self.result_len);
        let body = &self.body[..];
        let mut file = FrameWriter::new();
        file.section(SectionType::DELTA, 0, fields.finish()?).payload(0, &body, Codec::Raw);
        let mut out = Vec::new();
        file.write_to(&mut out)?;
        Ok(out)
    }

    /// Reads a delta from its bytes, which must be all of them and no more; verified whole, and not applied to anything.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::from_bytes_with(bytes, Limits::for_file(bytes.len() as u64))
    }

    /// [`from_bytes`](Self::from_bytes) with limits on what is taken.
    pub fn from_bytes_with(bytes: &[u8], limits: Limits) -> Result<Self> {
        let file = MemoryFile::open(bytes, limits)?;
        let head = file.head();
        if head.get(SectionType::DELTA, 0).is_none() {
            let message =
                "the file is a filter, not a delta: open it as a filter, or give the file that Delta::save wrote";
            return Err(Error::new(ErrorKind::NotAFilter, message));
        }
        for section in head.frame().sections() {
            let expected = section.part == 0 && [7, 6, 5].contains(&section.kind.0) || section.kind.is_private();
            if !expected {
                return Err(corrupt(format!("{section}: a delta has no such section")));
            }
        }
        let (method, base, result, base_len, result_len) = read_fields(head)?;
        let payload = file.payload(0)?;
        if payload.section().codec != Codec::Raw.number() {
            return Err(corrupt("delta: its body is coded; raw (codec 0) expected".into()));
        }
        file.verify()?;
        let body = payload.stored().to_vec();
        if method == Method::Whole && body.len() as u64 != result_len {
            return Err(corrupt(format!("DELTA: a whole file of {} bytes, {result_len} expected", body.len())));
        }
        Ok(Self { method, base, result, base_len, result_len, body })
    }

    /// Writes the delta to a file, which is there whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let bytes = self.to_bytes()?;
        write_atomically(path.as_ref(), |out| out.write_all(&bytes).map_err(|e| Error::io("writing a delta", e)))
    }

    /// Reads a delta from a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        in_file(path, Self::from_bytes(&read_file(path)?))
    }
}

impl fmt::Debug for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delta")
            .field("method", &self.method)
            .field("base", &self.base)
            .field("result", &self.result)
            .field("result_len", &self.result_len)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish_non_exhaustive()
    }
}

/// A filter file, verified, that a delta is to be made from or to.
fn opened<'a>(bytes: &'a [u8], which: &str) -> Result<MemoryFile<'a>> {
    let file = MemoryFile::open(bytes, Limits::for_file(bytes.len() as u64)).and_then(|file| {
        file.verify()?;
        refuse_as_filter(file.head())?;
        Ok(file)
    });
    file.map_err(|error| Error::new(error.kind(), format!("the {which} file: {error}")))
}

fn read_fields(head: &Head) -> Result<(Method, Address, Address, u64, u64)> {
    let body = head.body(SectionType::DELTA, 0)?;
    let number = FieldReader::first_u16(SectionType::DELTA, body, METHOD)?;
    let method = Method::from_number(number).ok_or_else(|| {
        let message = format!(
            "DELTA: method {number} is not known to this reader (1 changed bits, 2 added digests, 3 whole file): update \
             Bloomgate"
        );
        Error::new(ErrorKind::Version, message)
    })?;
    let fields = FieldReader::parse(SectionType::DELTA, body, &[METHOD, BASE, RESULT, BASE_LEN, RESULT_LEN])?;
    let address = |tag| fields.array::<32>(tag).map(Address);
    Ok((method, address(BASE)?, address(RESULT)?, fields.u64(BASE_LEN)?, fields.u64(RESULT_LEN)?))
}

/// Refuses a delta where a filter is asked for, and says what it is.
pub(super) fn refuse_as_filter(head: &Head) -> Result<()> {
    if !head.frame().sections().iter().any(|section| section.kind == SectionType::DELTA) {
        return Ok(());
    }
    let (_, base, result, ..) = read_fields(head)?;
    let message = format!(
        "the file is a delta, not a filter: apply it to the file {base} (bloomgate patch), which makes the file {result}"
    );
    Err(Error::new(ErrorKind::NotAFilter, message))
}

/// A whole file, as long as it really is.
fn read_file(path: &Path) -> Result<Vec<u8>> {
    let (mut file, length) = plain_file(path)?;
    let mut bytes = Vec::new();
    let reserved = usize::try_from(length).ok().filter(|&length| bytes.try_reserve_exact(length).is_ok());
    if reserved.is_none() {
        let message = format!("the system refused {length} bytes for {}; free some memory", path.display());
        return Err(Error::new(ErrorKind::OutOfMemory, message));
    }
    file.read_to_end(&mut bytes).map_err(|e| Error::io(format!("reading {}", path.display()), e))?;
    Ok(bytes)
}
