//! Reading: from memory, from a mapped file, or from a stream that gives one byte at a time.
//!
//! The head (table and small sections) is read and checked whole. Payloads are then delivered chunk by
//! chunk, each after its sum was verified, into memory that is the caller's own: never twice the memory,
//! and never a bit of a chunk that is damaged. Nothing is allocated for a length that was only claimed.

use std::fs::File;
use std::io::{self, Read};

use super::frame::{Frame, HEADER_LEN, Header, Section, corrupt};
use super::gaps;
use super::sections::{Codec, SectionType};
use super::sums::{CHUNK_LEN, ChunkSums};
use crate::error::{Error, ErrorKind, Result};

/// How much a file may ask for before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// All payloads together, decoded. 1 GiB unless told.
    pub max_payload_bytes: u64,
    /// All small sections together, without the chunk sums. 16 MiB unless told.
    pub max_head_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_payload_bytes: 1 << 30, max_head_bytes: 16 << 20 }
    }
}

impl Limits {
    /// The default limits with another bound on the payloads.
    #[must_use]
    pub fn payload(max_payload_bytes: u64) -> Self {
        Self { max_payload_bytes, ..Self::default() }
    }

    /// Limits for a file whose real length is known: what is there may be loaded, and what is coded may
    /// grow to eight times the file, or to 1 GiB if that is more.
    #[must_use]
    pub fn for_file(file_len: u64) -> Self {
        Self::payload(file_len.saturating_mul(8).max(1 << 30))
    }

    fn check_payload(&self, bytes: u64) -> Result<()> {
        if bytes <= self.max_payload_bytes {
            return Ok(());
        }
        let message = format!(
            "the payloads take {bytes} bytes, {} are allowed (Limits::max_payload_bytes): raise the limit if the file is \
             yours",
            self.max_payload_bytes
        );
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }
}

/// What takes the raw bytes of a payload: their offset in it, and the bytes.
pub type Sink<'s> = dyn FnMut(u64, &[u8]) -> Result<()> + 's;

/// Everything of a file but its payloads, read and verified.
#[derive(Debug, Clone)]
pub struct Head {
    frame: Frame,
    bodies: Vec<(Section, Vec<u8>)>,
    sums: Vec<(u16, ChunkSums)>,
    limits: Limits,
}

impl Head {
    /// The section table.
    #[must_use]
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The body of a small section, if the file has it.
    #[must_use]
    pub fn get(&self, kind: SectionType, part: u16) -> Option<&[u8]> {
        self.bodies.iter().find(|(s, _)| s.kind == kind && s.part == part).map(|(_, body)| &body[..])
    }

    /// The body of a small section that must be there.
    pub fn body(&self, kind: SectionType, part: u16) -> Result<&[u8]> {
        self.get(kind, part).ok_or_else(|| corrupt(format!("the file has no {kind} of part {part}")))
    }

    /// The payloads, in the order in which they lie in the file: by part, ascending.
    pub fn payloads(&self) -> impl Iterator<Item = &Section> {
        self.frame.sections().iter().filter(|s| s.kind == SectionType::PAYLOAD)
    }

    /// The chunk sums of the payload of a part.
    #[must_use]
    pub fn sums(&self, part: u16) -> Option<&ChunkSums> {
        self.sums.binary_search_by_key(&part, |(part, _)| *part).ok().map(|i| &self.sums[i].1)
    }

    /// Checks that the payloads are exactly those that the shapes speak of: pairs of part and raw length,
    /// by part, ascending. Call it **before allocating** anything of these lengths.
    pub fn expect_payloads(&self, expected: impl IntoIterator<Item = (u16, u64)>) -> Result<()> {
        let mut payloads = self.payloads();
        let mut total = 0u64;
        for (part, raw_len) in expected {
            match payloads.next() {
                Some(section) if section.part == part => check_raw_len(section, raw_len)?,
                Some(section) => return Err(corrupt(format!("{section} where that of part {part} was expected"))),
                None => return Err(corrupt(format!("the file has no PAYLOAD of part {part}"))),
            }
            total = total.saturating_add(raw_len);
            self.limits.check_payload(total)?;
        }
        match payloads.next() {
            Some(section) => Err(corrupt(format!("{section}: no shape speaks of it"))),
            None => Ok(()),
        }
    }

    fn payload_section(&self, part: u16) -> Result<&Section> {
        let section = self.frame.find(SectionType::PAYLOAD, part);
        section.ok_or_else(|| corrupt(format!("the file has no PAYLOAD of part {part}")))
    }

    /// The sums of a chunked section: the frame has checked that each has its own.
    fn sums_of(&self, section: &Section) -> Result<&ChunkSums> {
        self.sums(section.part).ok_or_else(|| corrupt(format!("{section} has no CHUNK_SUMS of its own")))
    }
}

/// Whether the stored length of a payload can be that of `raw_len` raw bytes.
fn check_raw_len(section: &Section, raw_len: u64) -> Result<()> {
    let (fits, most) = match Codec::from_number(section.codec) {
        Some(Codec::Raw) => (section.length == raw_len, section.length),
        Some(Codec::Gaps) => {
            let most = gaps::max_raw_len(section.length);
            (raw_len <= most, most)
        }
        None => (false, 0),
    };
    if fits {
        return Ok(());
    }
    Err(corrupt(format!(
        "{section}: {} stored bytes (codec {}) stand for at most {most} raw bytes, but the shape needs {raw_len}",
        section.length, section.codec
    )))
}

/// Takes verified chunks of a payload and hands raw bytes to the sink.
struct Delivery {
    decoder: Option<gaps::Decoder>,
    offset: u64,
}

impl Delivery {
    fn new(section: &Section, raw_len: u64) -> Result<Self> {
        check_raw_len(section, raw_len)?;
        let coded = section.codec == Codec::Gaps.number();
        Ok(Self { decoder: coded.then(|| gaps::Decoder::new(raw_len)), offset: 0 })
    }

    fn take(&mut self, stored: &[u8], sink: &mut Sink<'_>) -> Result<()> {
        match &mut self.decoder {
            Some(decoder) => decoder.feed(stored, sink),
            None => {
                let offset = self.offset;
                self.offset += stored.len() as u64;
                sink(offset, stored)
            }
        }
    }

    fn finish(self) -> Result<()> {
        self.decoder.map_or(Ok(()), gaps::Decoder::finish)
    }
}

/// Reads a file from front to back.
#[derive(Debug)]
pub struct SectionReader<R> {
    source: Source<R>,
    head: Head,
    /// The index in the table of the next section that was not read.
    next: usize,
}

impl SectionReader<File> {
    /// Reads a file from its start, and checks its real length before anything else.
    ///
    /// Without `limits`, [`Limits::for_file`] of the real length. What is not a plain file is read as a stream.
    pub fn from_file(file: File, limits: Option<Limits>) -> Result<Self> {
        let metadata = file.metadata().map_err(|e| Error::io("asking for the length of a filter file", e))?;
        if !metadata.is_file() {
            return Self::new(file, limits.unwrap_or_default());
        }
        let length = metadata.len();
        Self::whole_of(file, length, limits.unwrap_or_else(|| Limits::for_file(length)))
    }
}

#[cfg(unix)]
impl SectionReader<File> {
    /// Reads the payload of a part straight into words, by so many threads, `once` without a copy that stays in the page cache;
    /// false if it is coded or not the next one, and then nothing was read. The file must have been read from its very
    /// beginning.
    pub(super) fn read_words(&mut self, part: u16, words: &mut [u64], threads: usize, once: bool) -> Result<bool> {
        let section = *self.head.payload_section(part)?;
        let raw_len = words.len() as u64 * 8;
        self.head.limits.check_payload(raw_len)?;
        check_raw_len(&section, raw_len)?;
        if self.head.frame.sections().get(self.next) != Some(&section) || section.codec != Codec::Raw.number() {
            return Ok(false);
        }
        self.source.padding(&section)?;
        let sums = self.head.sums_of(&section)?;
        super::read_words::read_words(&self.source.reader, &section, sums, words, threads, once)?;
        let end = io::SeekFrom::Start(section.end());
        io::Seek::seek(&mut self.source.reader, end).map_err(|e| Error::io("reading a filter file", e))?;
        self.source.position = section.end();
        self.next += 1;
        Ok(true)
    }
}

impl<'a> SectionReader<&'a [u8]> {
    /// Reads bytes that are one whole file. Without `limits`, [`Limits::for_file`] of their length.
    pub fn from_slice(bytes: &'a [u8], limits: Option<Limits>) -> Result<Self> {
        let length = bytes.len() as u64;
        Self::whole_of(bytes, length, limits.unwrap_or_else(|| Limits::for_file(length)))
    }
}

impl<R: Read> SectionReader<R> {
    /// Reads the head of a stream. Bytes after the end of the file are left unread.
    pub fn new(reader: R, limits: Limits) -> Result<Self> {
        Self::with_len(reader, u64::MAX, limits)
    }

    fn with_len(reader: R, file_len: u64, limits: Limits) -> Result<Self> {
        let mut source = Source { reader, position: 0 };
        let (head, next) = source.head(file_len, limits)?;
        Ok(Self { source, head, next })
    }

    /// Reads the head of a file that is known to be so long, and has nothing after its end.
    pub(crate) fn whole_of(reader: R, file_len: u64, limits: Limits) -> Result<Self> {
        let reader = Self::with_len(reader, file_len, limits)?;
        check_no_more(reader.head.frame(), file_len)?;
        Ok(reader)
    }

    /// Everything but the payloads.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Delivers the raw bytes of the payload of a part, chunk by chunk, each after its sum was verified.
    ///
    /// `raw_len` is what the shape says. Payloads are asked for by part, ascending; those left out are
    /// verified on the way and dropped. After an error nothing that was delivered may be used.
    pub fn read_payload(&mut self, part: u16, raw_len: u64, sink: &mut Sink<'_>) -> Result<()> {
        let wanted = *self.head.payload_section(part)?;
        self.head.limits.check_payload(raw_len)?;
        let mut delivery = Delivery::new(&wanted, raw_len)?;
        while let Some(section) = self.head.frame.sections().get(self.next) {
            self.next += 1;
            if *section == wanted {
                let sums = self.head.sums_of(section)?;
                self.source.chunked(section, sums, &mut |stored| delivery.take(stored, sink))?;
                return delivery.finish();
            }
            self.source.chunked(section, self.head.sums_of(section)?, &mut |_| Ok(()))?;
        }
        let message = format!("{wanted} was asked for after a later one: a stream is read by part, ascending");
        Err(Error::new(ErrorKind::InvalidParameter, message))
    }

    /// Verifies what was not asked for, and gives the reader back, just after the last byte of the file.
    pub fn finish(mut self) -> Result<R> {
        for section in &self.head.frame.sections()[self.next..] {
            self.source.chunked(section, self.head.sums_of(section)?, &mut |_| Ok(()))?;
        }
        Ok(self.source.reader)
    }

    /// Reads to the end past whatever is damaged; gives each section with a bad chunk, and what is wrong with the
    /// first of them.
    pub(crate) fn survey(mut self) -> Result<(Vec<(Section, Error)>, R)> {
        let mut damaged = Vec::new();
        for section in &self.head.frame.sections()[self.next..] {
            let sums = self.head.sums_of(section)?;
            let (mut chunk, mut first) = (0, None);
            self.source.chunks_of(section, &mut |bytes| {
                first = first.take().or(sums.verify(section, chunk, bytes).err());
                chunk += 1;
                Ok(())
            })?;
            damaged.extend(first.map(|what| (*section, what)));
        }
        Ok((damaged, self.source.reader))
    }
}

/// A reader that knows where it is.
#[derive(Debug)]
struct Source<R> {
    reader: R,
    position: u64,
}

impl<R: Read> Source<R> {
    /// Reads until `buf` is full or the stream ends; gives the bytes read.
    fn some(&mut self, buf: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.reader.read(&mut buf[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(format!("reading a filter at offset {}", self.position), e)),
            }
        }
        self.position += filled as u64;
        Ok(filled)
    }

    fn exact(&mut self, buf: &mut [u8], section: &Section) -> Result<()> {
        let wanted = buf.len();
        if self.some(buf)? == wanted {
            return Ok(());
        }
        Err(ends_inside(self.position, section))
    }

    /// Reads the zeros before a section.
    fn padding(&mut self, section: &Section) -> Result<()> {
        let mut padding = [0; 64];
        // The layout is checked: the section starts at the next multiple of 64.
        let length = section.offset.saturating_sub(self.position).min(63) as usize;
        let start = self.position;
        self.exact(&mut padding[..length], section)?;
        check_padding(&padding[..length], start, section)
    }

    /// Reads a whole section in pieces of 64 KiB at most, and checks its sum.
    fn whole(&mut self, section: &Section, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.padding(section)?;
        let mut buf = vec![0; section.length.min(CHUNK_LEN as u64) as usize];
        let mut left = section.length;
        let mut crc = 0;
        while left > 0 {
            let piece = &mut buf[..left.min(CHUNK_LEN as u64) as usize];
            self.exact(piece, section)?;
            crc = crc32c::crc32c_append(crc, piece);
            left -= piece.len() as u64;
            each(piece);
        }
        if crc == section.crc {
            return Ok(());
        }
        Err(corrupt(format!(
            "{section} (offset {}, {} bytes): CRC32C is {crc:#010x}, {:#010x} expected",
            section.offset, section.length, section.crc
        )))
    }

    /// Reads a chunked section and hands over each chunk after its sum was verified.
    fn chunked(
        &mut self,
        section: &Section,
        sums: &ChunkSums,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut chunk = 0;
        self.chunks_of(section, &mut |piece| {
            sums.verify(section, chunk, piece)?;
            chunk += 1;
            each(piece)
        })
    }

    /// Reads a chunked section and hands over each chunk, not verified.
    fn chunks_of(&mut self, section: &Section, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.padding(section)?;
        let mut buf = vec![0; section.length.min(CHUNK_LEN as u64) as usize];
        let mut left = section.length;
        while left > 0 {
            let piece = &mut buf[..left.min(CHUNK_LEN as u64) as usize];
            self.exact(piece, section)?;
            each(piece)?;
            left -= piece.len() as u64;
        }
        Ok(())
    }

    /// Reads everything before the first chunked section; gives that section's index.
    fn head(&mut self, file_len: u64, limits: Limits) -> Result<(Head, usize)> {
        let mut table = vec![0; HEADER_LEN];
        let read = self.some(&mut table)?;
        let header = Header::parse(&table[..read])?;
        table.resize(header.head_len() as usize, 0);
        let read = HEADER_LEN + self.some(&mut table[HEADER_LEN..])?;
        let frame = Frame::parse(&table[..read], file_len)?;
        let chunked: u64 = frame.sections().iter().filter(|s| s.is_chunked()).map(|s| s.length).sum();
        limits.check_payload(chunked)?;
        let mut head = Head { frame, bodies: Vec::new(), sums: Vec::new(), limits };
        let mut kept = 0u64;
        let mut next = 0;
        for section in head.frame.sections().iter().take_while(|s| !s.is_chunked()) {
            next += 1;
            let mut body = Vec::new();
            if section.kind == SectionType::CHUNK_SUMS {
                // As long as its payload needs, which the limit has allowed.
                self.whole(section, &mut |piece| body.extend_from_slice(piece))?;
                head.sums.push((section.part, ChunkSums::from_body(&body)));
            } else if section.kind.is_known() || section.kind.is_private() {
                kept = kept.saturating_add(section.length);
                if kept > limits.max_head_bytes {
                    let message = format!(
                        "{section}: the small sections take {kept} bytes and more, {} are allowed (Limits::max_head_bytes)",
                        limits.max_head_bytes
                    );
                    return Err(Error::new(ErrorKind::LimitExceeded, message));
                }
                self.whole(section, &mut |piece| body.extend_from_slice(piece))?;
                head.bodies.push((*section, body));
            } else {
                // Of a later version and not critical: verified, then forgotten.
                self.whole(section, &mut |_| {})?;
            }
        }
        Ok((head, next))
    }
}

#[cold]
pub(super) fn ends_inside(position: u64, section: &Section) -> Error {
    let message = format!(
        "the file ends at {position}, inside {section}, which goes from {} to {}",
        section.offset,
        section.end()
    );
    Error::new(ErrorKind::Truncated, message)
}

fn check_padding(padding: &[u8], start: u64, section: &Section) -> Result<()> {
    match padding.iter().position(|&b| b != 0) {
        None => Ok(()),
        Some(at) => Err(corrupt(format!(
            "offset {}: {:#04x} in the padding before {section}, zero expected",
            start + at as u64,
            padding[at]
        ))),
    }
}

fn check_no_more(frame: &Frame, file_len: u64) -> Result<()> {
    if frame.total_len() >= file_len {
        return Ok(());
    }
    Err(corrupt(format!(
        "{} bytes after the end of the file at {}: it was appended to, or is not one file",
        file_len - frame.total_len(),
        frame.total_len()
    )))
}

/// A file in memory or mapped: its head is verified on opening, its payloads where they are touched.
#[derive(Debug, Clone)]
pub struct MemoryFile<'a> {
    bytes: &'a [u8],
    head: Head,
}

impl<'a> MemoryFile<'a> {
    /// Opens bytes that are one whole file.
    pub fn open(bytes: &'a [u8], limits: Limits) -> Result<Self> {
        let (file, _) = Self::open_prefix(bytes, limits)?;
        check_no_more(file.head.frame(), bytes.len() as u64)?;
        Ok(file)
    }

    /// Opens the file at the start of `bytes`, and gives what comes after it.
    pub fn open_prefix(bytes: &'a [u8], limits: Limits) -> Result<(Self, &'a [u8])> {
        let mut source = Source { reader: bytes, position: 0 };
        let (head, first_chunked) = source.head(bytes.len() as u64, limits)?;
        let mut end = source.position;
        for section in &head.frame.sections()[first_chunked..] {
            check_padding(slice(bytes, end, section.offset, section)?, end, section)?;
            end = section.end();
        }
        let (bytes, rest) = bytes.split_at((end as usize).min(bytes.len()));
        Ok((Self { bytes, head }, rest))
    }

    /// Everything but the payloads.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The payload of a part, not verified yet.
    pub fn payload(&self, part: u16) -> Result<Payload<'_>> {
        let section = *self.head.payload_section(part)?;
        let stored = slice(self.bytes, section.offset, section.end(), &section)?;
        Ok(Payload { section, stored, sums: self.head.sums_of(&section)?, limits: self.head.limits })
    }

    /// Verifies every chunk of the file.
    pub fn verify(&self) -> Result<()> {
        for section in self.head.frame.sections().iter().filter(|s| s.is_chunked()) {
            let sums = self.head.sums_of(section)?;
            let stored = slice(self.bytes, section.offset, section.end(), section)?;
            for (chunk, bytes) in stored.chunks(CHUNK_LEN).enumerate() {
                sums.verify(section, chunk as u64, bytes)?;
            }
        }
        Ok(())
    }
}

fn slice<'a>(bytes: &'a [u8], start: u64, end: u64, section: &Section) -> Result<&'a [u8]> {
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    range.and_then(|(start, end)| bytes.get(start..end)).ok_or_else(|| {
        let message = format!("{section} goes from {start} to {end}, but there are {} bytes", bytes.len());
        Error::new(ErrorKind::Truncated, message)
    })
}

/// A payload in memory, with the sums to verify it by.
#[derive(Debug, Clone, Copy)]
pub struct Payload<'a> {
    section: Section,
    stored: &'a [u8],
    sums: &'a ChunkSums,
    limits: Limits,
}

impl<'a> Payload<'a> {
    /// Its entry in the section table.
    #[must_use]
    pub fn section(&self) -> &Section {
        &self.section
    }

    /// The stored bytes, not verified.
    #[must_use]
    pub fn stored(&self) -> &'a [u8] {
        self.stored
    }

    /// The stored bytes of one chunk, verified.
    pub fn chunk(&self, chunk: u64) -> Result<&'a [u8]> {
        let start = usize::try_from(chunk).ok().and_then(|chunk| chunk.checked_mul(CHUNK_LEN));
        let rest = start.and_then(|start| self.stored.get(start..)).unwrap_or_default();
        let bytes = &rest[..rest.len().min(CHUNK_LEN)];
        self.sums.verify(&self.section, chunk, bytes)?;
        Ok(bytes)
    }

    /// Delivers the raw bytes, chunk by chunk, each after its sum was verified.
    pub fn read(&self, raw_len: u64, sink: &mut Sink<'_>) -> Result<()> {
        self.limits.check_payload(raw_len)?;
        let mut delivery = Delivery::new(&self.section, raw_len)?;
        for (chunk, bytes) in self.stored.chunks(CHUNK_LEN).enumerate() {
            self.sums.verify(&self.section, chunk as u64, bytes)?;
            delivery.take(bytes, sink)?;
        }
        delivery.finish()
    }
}
