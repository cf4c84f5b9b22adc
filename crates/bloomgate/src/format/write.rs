//! Writing: any `io::Write`, 64 KiB at a time, without a second copy of the filter.
//!
//! The checksums stand before what they check (a stream reader needs them first), so the payload is
//! gone through twice: once for the sums, once for the bytes. The second pass is compared with the
//! first: a filter that changed in between is an error, never a file with a wrong sum.

use std::io::{Seek, SeekFrom, Write};

use super::address::Address;
use super::frame::{Frame, Section, corrupt};
use super::gaps;
use super::sections::{Codec, SectionFlags, SectionType};
use super::sums::{CHUNK_LEN, ChunkSums};
use crate::error::{Error, ErrorKind, Result};

/// Where the bytes of a payload come from: little-endian words, bit i = byte i >> 3, mask 1 << (i & 7).
pub trait PayloadSource {
    /// The bytes of the payload.
    fn byte_len(&self) -> u64;

    /// Fills `out` with the bytes from `offset` on: at most 64 KiB, from a multiple of 64 KiB, never past
    /// [`byte_len`](Self::byte_len).
    fn fill(&self, offset: u64, out: &mut [u8]);
}

impl PayloadSource for &[u8] {
    fn byte_len(&self) -> u64 {
        self.len() as u64
    }

    fn fill(&self, offset: u64, out: &mut [u8]) {
        let start = offset as usize;
        out.copy_from_slice(&self[start..start + out.len()]);
    }
}

impl PayloadSource for &[u64] {
    fn byte_len(&self) -> u64 {
        self.len() as u64 * 8
    }

    fn fill(&self, offset: u64, out: &mut [u8]) {
        let words = &self[(offset / 8) as usize..];
        for (bytes, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
}

/// Collects the sections of a file, in any order.
#[derive(Default)]
pub struct FrameWriter<'a> {
    sections: Vec<(SectionType, u16, Vec<u8>)>,
    payloads: Vec<(u16, &'a dyn PayloadSource, Codec)>,
}

impl std::fmt::Debug for FrameWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FrameWriter({} sections, {} payloads)", self.sections.len(), self.payloads.len())
    }
}

impl<'a> FrameWriter<'a> {
    /// A file with nothing in it yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a small section: one of the known types but payloads and their sums, or a private one.
    pub fn section(&mut self, kind: SectionType, part: u16, body: Vec<u8>) -> &mut Self {
        self.sections.push((kind, part, body));
        self
    }

    /// Adds a payload; its chunk sums come by themselves.
    pub fn payload(&mut self, part: u16, source: &'a dyn PayloadSource, codec: Codec) -> &mut Self {
        self.payloads.push((part, source, codec));
        self
    }

    /// Computes sums, lengths and layout: after this the length of the file is known.
    pub fn prepare(&self) -> Result<PreparedFile<'a>> {
        let mut parts = Vec::with_capacity(self.sections.len() + 2 * self.payloads.len());
        for (kind, part, body) in &self.sections {
            let allowed = match *kind {
                SectionType::PAYLOAD | SectionType::CHUNK_SUMS => false,
                kind => kind.is_known() || kind.is_private(),
            };
            if !allowed || body.is_empty() {
                let message = format!(
                    "{kind} of part {part} with {} bytes cannot be added as a section: 1 to 4, 7 and 0x8000 up can, not empty",
                    body.len()
                );
                return Err(Error::new(ErrorKind::InvalidParameter, message));
            }
            parts.push(whole(*kind, *part, body.clone()));
        }
        for &(part, source, codec) in &self.payloads {
            if source.byte_len() == 0 {
                let message = format!("the payload of part {part} is empty; a filter has at least one word");
                return Err(Error::new(ErrorKind::InvalidParameter, message));
            }
            let mut summer = Summer::default();
            let mut length = 0u64;
            each_stored(source, codec, &mut |bytes| {
                length += bytes.len() as u64;
                summer.update(bytes);
                Ok(())
            })?;
            let sums = summer.finish();
            let list = whole(SectionType::CHUNK_SUMS, part, sums.to_body());
            let section = payload_section(part, codec, length, list.0.crc);
            parts.push(list);
            parts.push((section, Body::Stream { source, codec, sums }));
        }
        let frame = Frame::lay_out(parts.iter().map(|(section, _)| *section).collect())?;
        // The same order as the frame's: bodies by (chunked, part, type), all different by now.
        parts.sort_by_key(|(s, _)| (s.is_chunked(), s.part, s.kind));
        Ok(PreparedFile { frame, bodies: parts.into_iter().map(|(_, body)| body).collect() })
    }

    /// Lays out a file of these sections and one payload of so many zero bytes, which need not be written.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn over_zeros(&self, length: u64) -> Result<OverZeros> {
        let chunks = usize::try_from(length.div_ceil(CHUNK_LEN as u64)).unwrap_or(usize::MAX);
        let mut sums = Vec::new();
        sums.try_reserve_exact(chunks).map_err(|_| {
            let message = format!("the system refused the memory for {chunks} chunk sums: ask for a smaller filter");
            Error::new(ErrorKind::OutOfMemory, message)
        })?;
        sums.resize(chunks, crc32c::crc32c(&[0; CHUNK_LEN]));
        if let (Some(last), rest @ 1..) = (sums.last_mut(), length as usize % CHUNK_LEN) {
            *last = crc32c::crc32c(&vec![0; rest]);
        }
        let mut parts: Vec<_> =
            self.sections.iter().map(|(kind, part, body)| whole(*kind, *part, body.clone())).collect();
        let list = whole(SectionType::CHUNK_SUMS, 0, ChunkSums::from(&sums[..]).to_body());
        let payload = payload_section(0, Codec::Raw, length, list.0.crc);
        parts.push(list);
        let frame = Frame::lay_out(parts.iter().map(|(section, _)| *section).chain([payload]).collect())?;
        parts.sort_by_key(|(s, _)| (s.part, s.kind));
        let bodies = frame.sections().iter().zip(parts).filter_map(|(section, (_, body))| match body {
            Body::Whole(body) => Some((section.offset, body)),
            Body::Stream { .. } => None,
        });
        let bodies = bodies.collect();
        Ok(OverZeros { frame, bodies, sums })
    }

    /// Writes the whole file and gives its address.
    pub fn write_to(&self, out: &mut dyn Write) -> Result<Address> {
        self.prepare()?.write_to(out)
    }

    /// Writes a file whose payloads change while they are read: each chunk is read once, summed and written, and what
    /// stands before the payloads is written at the end, over the zeros that held its place.
    pub(crate) fn write_moving<W: Write + Seek>(&self, out: &mut W) -> Result<()> {
        let start = out.stream_position().map_err(|e| Error::io("writing a filter", e))?;
        // Laid out with sums of the right number: where everything stands depends on that alone.
        let unknown = |source: &dyn PayloadSource| {
            let chunks = source.byte_len().div_ceil(CHUNK_LEN as u64);
            ChunkSums::from(&vec![0; chunks as usize][..])
        };
        let places = self.laid_out(self.payloads.iter().map(|(_, source, _)| unknown(*source)))?.0;
        let position_of = |part: u16| {
            let mut payloads = places.sections().iter().filter(|section| section.kind == SectionType::PAYLOAD);
            payloads.find(|section| section.part == part).map(|section| section.offset)
        };
        let mut out = Positioned { out, position: 0 };
        let mut sums = Vec::with_capacity(self.payloads.len());
        for &(part, source, codec) in &self.payloads {
            let offset = position_of(part).filter(|_| codec == Codec::Raw).ok_or_else(|| {
                let message = format!("the payload of part {part} is coded, and so has no place before it is written");
                Error::new(ErrorKind::InvalidParameter, message)
            })?;
            out.pad_to(offset)?;
            let mut summer = Summer::default();
            each_stored(source, codec, &mut |bytes| {
                summer.update(bytes);
                out.write(bytes)
            })?;
            sums.push(summer.finish());
        }
        let end = out.position;
        let (frame, bodies) = self.laid_out(sums.into_iter())?;
        out.back_to(start)?;
        out.write(&frame.to_bytes())?;
        for (section, body) in frame.sections().iter().zip(&bodies) {
            out.pad_to(section.offset)?;
            out.write(body)?;
        }
        out.out.seek(SeekFrom::Start(start + end)).map_err(|e| Error::io("writing a filter", e))?;
        Ok(())
    }

    /// Where everything stands when the payloads, uncoded, have these sums; and the bodies of what comes before them.
    fn laid_out(&self, sums: impl Iterator<Item = ChunkSums>) -> Result<(Frame, Vec<Vec<u8>>)> {
        let mut parts: Vec<(Section, Vec<u8>)> =
            self.sections.iter().map(|(kind, part, body)| whole_body(*kind, *part, body.clone())).collect();
        let mut payloads = Vec::with_capacity(self.payloads.len());
        for (&(part, source, codec), sums) in self.payloads.iter().zip(sums) {
            let list = whole_body(SectionType::CHUNK_SUMS, part, sums.to_body());
            payloads.push(payload_section(part, codec, source.byte_len(), list.0.crc));
            parts.push(list);
        }
        let frame = Frame::lay_out(parts.iter().map(|(section, _)| *section).chain(payloads).collect())?;
        // The same order as the frame's, whose payloads come last.
        parts.sort_by_key(|(section, _)| (section.part, section.kind));
        Ok((frame, parts.into_iter().map(|(_, body)| body).collect()))
    }
}

/// A writer that knows how far it is in the file.
struct Positioned<'w, W> {
    out: &'w mut W,
    position: u64,
}

impl<W: Write + Seek> Positioned<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| Error::io(format!("writing a filter at offset {}", self.position), e))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Writes zeros up to a place further on.
    fn pad_to(&mut self, offset: u64) -> Result<()> {
        while self.position < offset {
            let step = (offset - self.position).min(4096) as usize;
            self.write(&[0; 4096][..step])?;
        }
        Ok(())
    }

    /// Goes back to where the file begins.
    fn back_to(&mut self, start: u64) -> Result<()> {
        self.out.seek(SeekFrom::Start(start)).map_err(|e| Error::io("going back to the beginning of a filter", e))?;
        self.position = 0;
        Ok(())
    }
}

/// A file whose payload is zeros: everything else of it.
#[cfg_attr(loom, allow(dead_code))]
pub(crate) struct OverZeros {
    pub(crate) frame: Frame,
    /// Where each small section starts, and its bytes.
    pub(crate) bodies: Vec<(u64, Vec<u8>)>,
    pub(crate) sums: Vec<u32>,
}

fn whole<'a>(kind: SectionType, part: u16, body: Vec<u8>) -> (Section, Body<'a>) {
    let (section, body) = whole_body(kind, part, body);
    (section, Body::Whole(body))
}

fn whole_body(kind: SectionType, part: u16, body: Vec<u8>) -> (Section, Vec<u8>) {
    let flags = if kind.is_known() { SectionFlags::CRITICAL } else { SectionFlags::default() };
    let length = body.len() as u64;
    (Section { kind, part, flags, codec: 0, offset: 0, length, crc: crc32c::crc32c(&body) }, body)
}

/// A payload of so many stored bytes, whose list of sums has this sum.
fn payload_section(part: u16, codec: Codec, length: u64, crc: u32) -> Section {
    let flags = SectionFlags::CRITICAL.with(SectionFlags::CHUNKED);
    Section { kind: SectionType::PAYLOAD, part, flags, codec: codec.number(), offset: 0, length, crc }
}

enum Body<'a> {
    Whole(Vec<u8>),
    Stream { source: &'a dyn PayloadSource, codec: Codec, sums: ChunkSums },
}

/// A file whose every length and sum is known, to be written out.
pub struct PreparedFile<'a> {
    frame: Frame,
    bodies: Vec<Body<'a>>,
}

impl std::fmt::Debug for PreparedFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PreparedFile({:?})", self.frame)
    }
}

impl PreparedFile<'_> {
    /// The length of the file in bytes.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        self.frame.total_len()
    }

    /// Header and section table of the file.
    #[must_use]
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Writes the whole file and gives its address. Does not flush.
    pub fn write_to(&self, out: &mut dyn Write) -> Result<Address> {
        let mut out = Hashed { out, hasher: blake3::Hasher::new(), position: 0 };
        out.write(&self.frame.to_bytes())?;
        for (section, body) in self.frame.sections().iter().zip(&self.bodies) {
            // The layout was made by `Frame::lay_out`: never backwards, less than 64 bytes ahead.
            let padding = section.offset.saturating_sub(out.position).min(64);
            out.write(&[0; 64][..padding as usize])?;
            match body {
                Body::Whole(body) => out.write(body)?,
                Body::Stream { source, codec, sums } => {
                    let mut again = Summer::default();
                    each_stored(*source, *codec, &mut |bytes| {
                        again.update(bytes);
                        out.write(bytes)
                    })?;
                    if again.finish() != *sums {
                        return Err(corrupt(format!(
                            "{section} changed while it was being written: the file is not valid; write a snapshot, \
                             or stop the writers"
                        )));
                    }
                }
            }
        }
        Ok(Address(*out.hasher.finalize().as_bytes()))
    }
}

/// Hands the stored bytes of a payload to `each`, 64 KiB (and a record header) at most at a time.
fn each_stored(source: &dyn PayloadSource, codec: Codec, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let length = source.byte_len();
    let mut raw = vec![0; length.min(CHUNK_LEN as u64) as usize];
    let mut coded = Vec::new();
    if codec == Codec::Gaps {
        each(&gaps::preamble(length))?;
    }
    let mut offset = 0;
    while offset < length {
        let chunk = &mut raw[..(length - offset).min(CHUNK_LEN as u64) as usize];
        source.fill(offset, chunk);
        offset += chunk.len() as u64;
        match codec {
            Codec::Raw => each(chunk)?,
            Codec::Gaps => {
                coded.clear();
                gaps::encode_chunk(chunk, &mut coded);
                each(&coded)?;
            }
        }
    }
    Ok(())
}

/// Chunk sums of bytes that come in pieces of any size.
#[derive(Default)]
struct Summer {
    sums: ChunkSums,
    crc: u32,
    filled: usize,
}

impl Summer {
    fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_LEN - self.filled));
            self.crc = crc32c::crc32c_append(self.crc, now);
            self.filled += now.len();
            if self.filled == CHUNK_LEN {
                self.close();
            }
            bytes = later;
        }
    }

    fn close(&mut self) {
        self.sums.push(self.crc);
        self.crc = 0;
        self.filled = 0;
    }

    fn finish(mut self) -> ChunkSums {
        if self.filled > 0 {
            self.close();
        }
        self.sums
    }
}

struct Hashed<'w> {
    out: &'w mut dyn Write,
    hasher: blake3::Hasher,
    position: u64,
}

impl Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| Error::io(format!("writing a filter at offset {}", self.position), e))?;
        self.hasher.update(bytes);
        self.position += bytes.len() as u64;
        Ok(())
    }
}
