//! The frame: the 64-byte header and the section table, parsed with suspicion and written in one way only.
//!
//! The table has one canonical order: sections without chunk sums first, then those with, each group by
//! (part, type). Every section starts at the first multiple of 64 after the one before. So the layout has
//! no freedom: the same contents are the same bytes, duplicates, overlaps and hidden gaps cannot be said.

use std::fmt;

use super::sections::{Codec, SectionFlags, SectionType};
use super::sniff::not_a_filter;
use super::sums::chunk_count;
use crate::error::{Error, ErrorKind, Result};

/// The first eight bytes, after PNG's idea: a high bit, a name, CR LF, end-of-text and LF, so that
/// every common way to copy a binary file as text shows.
pub const MAGIC: [u8; 8] = *b"\x89BGF\r\n\x1a\n";

/// The version this library writes, and the newest `min_reader` it accepts.
pub const FORMAT_VERSION: u16 = 1;

/// The bytes of the header.
pub const HEADER_LEN: usize = 64;

/// The bytes of one table entry.
pub(crate) const ENTRY_LEN: usize = 32;

/// The most sections of a file: a chain of a thousand stages, and a table of 128 KiB at most.
pub const MAX_SECTIONS: u32 = 4096;

/// What every section start is a multiple of: a cache line, and a divisor of every page size.
pub(crate) const ALIGN: u64 = 64;

/// Set while a file is changed in place: whoever reads it must not believe a "no".
const FLAG_DIRTY: u32 = 1;

/// The first 64 bytes of a file, checked as far as they can be alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The version that the writer wrote.
    pub version: u16,
    /// The oldest reader that may read it.
    pub min_reader: u16,
    /// The number of table entries.
    pub section_count: u32,
    /// The length of the whole file.
    pub total_len: u64,
    /// The CRC32C of header and table.
    pub crc: u32,
}

impl Header {
    /// Parses the header from the start of a file, without looking at anything after it.
    pub fn parse(first: &[u8]) -> Result<Self> {
        let Some((magic, _)) = first.split_first_chunk::<8>() else {
            return Err(not_a_filter(first));
        };
        if *magic != MAGIC {
            return Err(not_a_filter(&first[..first.len().min(HEADER_LEN)]));
        }
        let Some((header, _)) = first.split_first_chunk::<HEADER_LEN>() else {
            let message = format!("the file ends in its header: {} bytes found, 64 expected", first.len());
            return Err(Error::new(ErrorKind::Truncated, message));
        };
        let this = Self {
            version: u16_at(header, 8),
            min_reader: u16_at(header, 10),
            section_count: u32_at(header, 12),
            total_len: u64_at(header, 16),
            crc: u32_at(header, 28),
        };
        // Before the checksum: a later version may have moved it.
        if this.min_reader > FORMAT_VERSION {
            let message = format!(
                "the file has format version {} and needs a reader of version {}, this one is version {FORMAT_VERSION}: \
                 update Bloomgate",
                this.version, this.min_reader
            );
            return Err(Error::new(ErrorKind::Version, message));
        }
        if this.min_reader == 0 || this.version < this.min_reader {
            return Err(corrupt(format!(
                "header, offset 8: format version {} with min_reader {}; 1 <= min_reader <= version expected",
                this.version, this.min_reader
            )));
        }
        if !(1..=MAX_SECTIONS).contains(&this.section_count) {
            return Err(corrupt(format!(
                "header, offset 12: {} sections; 1 to {MAX_SECTIONS} expected",
                this.section_count
            )));
        }
        if this.total_len <= this.head_len() {
            return Err(corrupt(format!(
                "header, offset 16: a total length of {} bytes; header and table of {} sections alone take {}",
                this.total_len,
                this.section_count,
                this.head_len()
            )));
        }
        Ok(this)
    }

    /// The bytes of header and table together: at most 131,136.
    #[must_use]
    pub fn head_len(&self) -> u64 {
        HEADER_LEN as u64 + ENTRY_LEN as u64 * u64::from(self.section_count)
    }
}

/// One entry of the section table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// What it holds.
    pub kind: SectionType,
    /// The part it belongs to: 0 is the filter itself, 1 and up are its stages or generations.
    pub part: u16,
    /// What a reader owes it.
    pub flags: SectionFlags,
    /// How its bytes are stored: the number of a [`Codec`].
    pub codec: u16,
    /// Where it starts in the file.
    pub offset: u64,
    /// Its stored bytes.
    pub length: u64,
    /// The CRC32C of its stored bytes or, when chunked, of its list of chunk sums.
    pub crc: u32,
}

impl Section {
    /// Whether it is checked chunk by chunk.
    #[must_use]
    pub fn is_chunked(&self) -> bool {
        self.flags.contains(SectionFlags::CHUNKED)
    }

    /// The first offset after it. The frame has checked that it fits.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    fn order(&self) -> (bool, u16, SectionType) {
        (self.is_chunked(), self.part, self.kind)
    }

    pub(crate) fn write_entry(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.kind.0.to_le_bytes());
        out.extend_from_slice(&self.part.to_le_bytes());
        out.extend_from_slice(&self.flags.0.to_le_bytes());
        out.extend_from_slice(&self.codec.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
    }

    fn parse_entry(entry: &[u8; ENTRY_LEN]) -> Self {
        Self {
            kind: SectionType(u16_at(entry, 0)),
            part: u16_at(entry, 2),
            flags: SectionFlags(u16_at(entry, 4)),
            codec: u16_at(entry, 6),
            offset: u64_at(entry, 8),
            length: u64_at(entry, 16),
            crc: u32_at(entry, 24),
        }
    }

    /// Checks what the entry says about itself.
    fn check(&self, number: usize, entry: &[u8; ENTRY_LEN]) -> Result<()> {
        let unknown = |what: String| {
            let message =
                format!("section {number} ({self}): {what}; this reader is version {FORMAT_VERSION}: update Bloomgate");
            Err(Error::new(ErrorKind::Version, message))
        };
        if self.flags.unknown() != 0 {
            return unknown(format!("flags {:#06x} with bits this reader does not know", self.flags.0));
        }
        if u32_at(entry, 28) != 0 {
            return unknown(format!("reserved bytes {:#010x}, zero expected", u32_at(entry, 28)));
        }
        let critical = self.flags.contains(SectionFlags::CRITICAL);
        if !self.kind.is_known() {
            if critical {
                return unknown("a critical section of a type this reader does not know".into());
            }
        } else if !critical {
            return Err(corrupt(format!("section {number} ({self}): not marked critical, though its type always is")));
        }
        if self.kind == SectionType::PAYLOAD {
            if !self.is_chunked() {
                return Err(corrupt(format!("section {number} ({self}): a payload without chunk sums")));
            }
            if Codec::from_number(self.codec).is_none() {
                return unknown(format!("codec {}, 0 (raw) or 1 (gaps) known", self.codec));
            }
        } else if self.kind.is_known() && (self.is_chunked() || self.codec != 0) {
            return Err(corrupt(format!(
                "section {number} ({self}): flags {:#06x} and codec {}; this type is stored whole and raw",
                self.flags.0, self.codec
            )));
        }
        if self.length == 0 {
            return Err(corrupt(format!("section {number} ({self}): empty; an empty section is left out")));
        }
        Ok(())
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of part {}", self.kind, self.part)
    }
}

/// A whole, consistent header and section table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    version: u16,
    sections: Vec<Section>,
}

impl Frame {
    /// Parses header and table from `head`, the first bytes of a file that is `file_len` bytes long
    /// (`u64::MAX` for a stream of unknown length).
    ///
    /// Allocates the table alone, and only once its bytes are there and its checksum is right.
    pub fn parse(head: &[u8], file_len: u64) -> Result<Self> {
        let header = Header::parse(head)?;
        if header.total_len > file_len {
            let message = format!(
                "the file ends too early: {file_len} bytes found, {} expected by the header (offset 16); fetch or build it \
                 again",
                header.total_len
            );
            return Err(Error::new(ErrorKind::Truncated, message));
        }
        // At most 131,136, so it fits every usize.
        let head_len = header.head_len() as usize;
        let Some(head) = head.get(..head_len) else {
            let message = format!(
                "the file ends in its section table: {} bytes found, {head_len} expected for {} sections",
                head.len(),
                header.section_count
            );
            return Err(Error::new(ErrorKind::Truncated, message));
        };
        let crc = head_crc(head);
        if crc != header.crc {
            return Err(corrupt(format!(
                "header and section table (offset 0 to {head_len}): CRC32C is {crc:#010x}, {:#010x} expected (offset 28)",
                header.crc
            )));
        }
        match u32_at(head, 24) {
            0 => {}
            FLAG_DIRTY => return Err(dirty()),
            flags => return Err(reserved(24, format!("flags {flags:#010x}"))),
        }
        if let Some(at) = head[32..HEADER_LEN].iter().position(|&b| b != 0) {
            return Err(reserved(32 + at, format!("byte {:#04x}", head[32 + at])));
        }
        let mut sections = Vec::with_capacity(header.section_count as usize);
        for (number, entry) in head[HEADER_LEN..].as_chunks::<ENTRY_LEN>().0.iter().enumerate() {
            let section = Section::parse_entry(entry);
            section.check(number, entry)?;
            sections.push(section);
        }
        check_layout(&sections, &header)?;
        check_sums(&sections)?;
        Ok(Self { version: header.version, sections })
    }

    /// Lays out sections whose order, offsets and total length this decides: the writer's door.
    /// The offsets given are ignored.
    pub(crate) fn lay_out(mut sections: Vec<Section>) -> Result<Self> {
        sections.sort_by_key(Section::order);
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidParameter, message));
        if sections.is_empty() || sections.len() > MAX_SECTIONS as usize {
            return refuse(format!("{} sections in one file; 1 to {MAX_SECTIONS} allowed", sections.len()));
        }
        let mut end = HEADER_LEN as u64 + ENTRY_LEN as u64 * sections.len() as u64;
        for i in 0..sections.len() {
            if i > 0 && sections[i - 1].order() == sections[i].order() {
                return refuse(format!("{} is given twice", sections[i]));
            }
            let section = &mut sections[i];
            let placed = align(end).and_then(|offset| Some((offset, offset.checked_add(section.length)?)));
            let Some((offset, after)) = placed else {
                return refuse(format!("{section} of {} bytes makes the file longer than 2^64", section.length));
            };
            section.offset = offset;
            end = after;
        }
        Ok(Self { version: FORMAT_VERSION, sections })
    }

    /// Parses header and table of a file that is marked as unfinished, as if it were not; none if it is not marked.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn parse_dirty(head: &[u8], file_len: u64) -> Result<Option<Self>> {
        let header = Header::parse(head)?;
        let whole = usize::try_from(header.head_len()).ok().and_then(|length| head.get(..length));
        let Some(marked) = whole.filter(|head| u32_at(head, 24) == FLAG_DIRTY && head_crc(head) == header.crc) else {
            return Ok(None);
        };
        let mut clean = marked.to_vec();
        clean[24..28].fill(0);
        let crc = head_crc(&clean);
        clean[28..32].copy_from_slice(&crc.to_le_bytes());
        Self::parse(&clean, file_len).map(Some)
    }

    /// The same file with other bodies of the same lengths in part 0: the checksums that it has then.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn with_bodies(&self, bodies: &[(SectionType, &[u8])]) -> Result<Self> {
        let mut frame = self.clone();
        for &(kind, body) in bodies {
            let crc = crc32c::crc32c(body);
            let mut found = false;
            for section in frame.sections.iter_mut().filter(|section| section.part == 0) {
                if section.kind == kind && section.length == body.len() as u64 {
                    section.crc = crc;
                    found = true;
                } else if kind == SectionType::CHUNK_SUMS && section.is_chunked() {
                    section.crc = crc;
                }
            }
            if !found {
                let message = format!("{kind} of part 0 is not {} bytes long in this file", body.len());
                return Err(corrupt(message));
            }
        }
        Ok(frame)
    }

    /// The bytes of header and table.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.head_with(0)
    }

    /// The bytes of header and table of a file that is being changed in place.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn to_dirty_bytes(&self) -> Vec<u8> {
        self.head_with(FLAG_DIRTY)
    }

    fn head_with(&self, flags: u32) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEADER_LEN + ENTRY_LEN * self.sections.len());
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&self.version.to_le_bytes());
        head.extend_from_slice(&1u16.to_le_bytes());
        head.extend_from_slice(&(self.sections.len() as u32).to_le_bytes());
        head.extend_from_slice(&self.total_len().to_le_bytes());
        head.extend_from_slice(&flags.to_le_bytes());
        head.resize(HEADER_LEN, 0);
        for section in &self.sections {
            section.write_entry(&mut head);
        }
        let crc = head_crc(&head);
        head[28..32].copy_from_slice(&crc.to_le_bytes());
        head
    }

    /// The version that the writer wrote.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The sections, in the order in which they lie in the file.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The section of a type and part, if there is one.
    #[must_use]
    pub fn find(&self, kind: SectionType, part: u16) -> Option<&Section> {
        self.sections.iter().find(|s| s.kind == kind && s.part == part)
    }

    /// The bytes of header and table.
    #[must_use]
    pub fn head_len(&self) -> u64 {
        HEADER_LEN as u64 + ENTRY_LEN as u64 * self.sections.len() as u64
    }

    /// The length of the whole file.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        self.sections.last().map_or(0, Section::end)
    }
}

/// Checks order, alignment and bounds: each section exactly where the one before says.
fn check_layout(sections: &[Section], header: &Header) -> Result<()> {
    let mut end = header.head_len();
    let mut previous: Option<&Section> = None;
    for (number, section) in sections.iter().enumerate() {
        if let Some(previous) = previous.filter(|p| p.order() >= section.order()) {
            return Err(corrupt(format!(
                "section {number} ({section}) after {previous}: the table is sorted by (chunked, part, type), each once"
            )));
        }
        if align(end) != Some(section.offset) {
            return Err(corrupt(format!(
                "section {number} ({section}): offset {}; the first multiple of {ALIGN} from {end} expected",
                section.offset
            )));
        }
        end = match section.offset.checked_add(section.length) {
            Some(end) if end <= header.total_len => end,
            _ => {
                return Err(corrupt(format!(
                    "section {number} ({section}): {} bytes from offset {} go past the end of the file at {}",
                    section.length, section.offset, header.total_len
                )));
            }
        };
        previous = Some(section);
    }
    if end != header.total_len {
        return Err(corrupt(format!(
            "the last section ends at {end}, but the header (offset 16) says the file has {} bytes",
            header.total_len
        )));
    }
    Ok(())
}

/// Checks that chunk sums and chunked sections come in pairs that agree. Both lists are sorted by part.
fn check_sums(sections: &[Section]) -> Result<()> {
    let first_chunked = sections.partition_point(|s| !s.is_chunked());
    let (whole, chunked) = sections.split_at(first_chunked);
    let mut sums = whole.iter().filter(|s| s.kind == SectionType::CHUNK_SUMS);
    for section in chunked {
        let Some(sums) = sums.next().filter(|sums| sums.part == section.part) else {
            return Err(corrupt(format!("{section} has no CHUNK_SUMS of its own")));
        };
        let chunks = chunk_count(section.length);
        // At most 2^48 chunks: four times that cannot overflow.
        if sums.length != chunks * 4 {
            return Err(corrupt(format!(
                "{sums}: {} bytes, but {section} of {} bytes has {chunks} chunks and needs {} bytes",
                sums.length,
                section.length,
                chunks * 4
            )));
        }
        if sums.crc != section.crc {
            return Err(corrupt(format!(
                "{section}: its checksum {:#010x} is not that of its chunk sums, {:#010x}",
                section.crc, sums.crc
            )));
        }
    }
    match sums.next() {
        Some(sums) => Err(corrupt(format!("{sums} has no section to check"))),
        None => Ok(()),
    }
}

/// The first multiple of [`ALIGN`] from `offset` on.
pub(crate) fn align(offset: u64) -> Option<u64> {
    offset.checked_next_multiple_of(ALIGN)
}

/// The CRC32C of header and table with the header's own checksum as zero. `head` is longer than 32 bytes.
pub(crate) fn head_crc(head: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&head[..28]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &head[32..])
}

#[cold]
pub(crate) fn corrupt(message: String) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

#[cold]
fn dirty() -> Error {
    let message = "the file is being written in place, or was when its program ended: keys since its last sync may be \
                   missing (after a power cut; not after the end of the program alone), and its checksums are out of date. \
                   Wait for its writer to close it; or recover it with recover_mapped, insert again what came since the \
                   last sync, and close it; or build it again";
    Error::new(ErrorKind::Dirty, message)
}

#[cold]
fn reserved(offset: usize, what: String) -> Error {
    let message = format!(
        "header, offset {offset}: {what} where a reader of version {FORMAT_VERSION} expects 0: update Bloomgate"
    );
    Error::new(ErrorKind::Version, message)
}

/// The fixed-width readers below are called with offsets inside arrays whose length is already known.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
