//! How a batch lies in a log file.
//!
//! A segment file is a [file header](super::segment) of 64 bytes and then frames, each starting at a multiple of 8:
//!
//! ```text
//! offset  bytes  field, little-endian
//!      0      4  length of the payload, at most 64 MiB; bit 31 set: a mark (no payload)
//!      4      4  CRC-32C of the payload (0 in a mark)
//!      8      8  sequence of this batch: 1, 2, 3, …; in a mark: of the last batch before it
//!     16      4  lag: batches up to (sequence - lag) were durable when this header was made
//!     20      4  CRC-32C of the file's salt followed by bytes 0..20
//!     24      …  payload, then zeros up to the next multiple of 8
//! ```
//!
//! The salt (16 random bytes per file) keeps old bytes on a recycled part of the disk from passing for frames.
//!
//! Why a frame says how far the log was durable: a group of frames goes out in one write, and a power cut may keep its
//! later sectors and lose its earlier ones. So a bad frame with good ones behind it can be a torn write (nobody was told
//! that it is safe: cut it) or damage to something promised (refuse to start). The lag tells them apart: it is damage
//! exactly if a later header says that the bad frame was durable. A mark says the same for the last batches when no batch
//! follows soon; it is written when the log goes idle, and when it is closed.

use std::fmt;
use std::str::FromStr;

use super::Fsync;

/// The largest payload of a batch.
pub const MAX_PAYLOAD: usize = 64 << 20;

/// Bytes before the payload.
pub(crate) const HEADER: usize = 24;

const MARK: u32 = 1 << 31;

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub length: u32,
    pub payload_crc: u32,
    pub sequence: u64,
    pub lag: u32,
}

/// The checksum of a file's salt: where the checksum of each of its headers starts.
pub(crate) fn salted(salt: &[u8; 16]) -> u32 {
    crc32c::crc32c(salt)
}

impl Header {
    pub fn batch(payload: &[u8], payload_crc: u32, sequence: u64, durable: u64) -> Header {
        Header { length: payload.len() as u32, payload_crc, sequence, lag: lag(sequence, durable) }
    }

    pub fn mark(durable: u64) -> Header {
        Header { length: MARK, payload_crc: 0, sequence: durable, lag: 0 }
    }

    pub fn is_mark(&self) -> bool {
        self.length == MARK
    }

    /// The last sequence known to be durable when this header was made.
    pub fn durable(&self) -> u64 {
        self.sequence - u64::from(self.lag)
    }

    /// Bytes of the whole frame with its padding.
    pub fn frame_bytes(&self) -> usize {
        if self.is_mark() { HEADER } else { frame_bytes(self.length as usize) }
    }

    pub fn seal(&self, salted: u32) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.lag.to_le_bytes());
        let crc = crc32c::crc32c_append(salted, &bytes[..20]);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header in these bytes, whether or not its checksum is right; `None` if there are too few.
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        Some(Header {
            length: u32_at(bytes, 0),
            payload_crc: u32_at(bytes, 4),
            sequence: u64::from(u32_at(bytes, 8)) | u64::from(u32_at(bytes, 12)) << 32,
            lag: u32_at(bytes, 16),
        })
    }

    /// The header in these bytes if it was written to the file with this salt.
    pub fn open(bytes: &[u8], salted: u32) -> Option<Header> {
        let header = Header::read(bytes)?;
        let right = crc32c::crc32c_append(salted, &bytes[..20]) == u32_at(bytes, 20);
        let sane = header.is_mark() || header.length as usize <= MAX_PAYLOAD;
        (right && sane && header.sequence > 0 && u64::from(header.lag) <= header.sequence).then_some(header)
    }
}

/// How far a sequence is past what is durable. Capped: 4 billion batches behind would say "less is known", never more.
fn lag(sequence: u64, durable: u64) -> u32 {
    debug_assert!(sequence - durable.min(sequence) <= u64::from(u32::MAX), "max_pending_bytes bounds it far below");
    u32::try_from(sequence.saturating_sub(durable)).unwrap_or(u32::MAX)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Bytes of a frame with a payload of this length, padding included.
pub(crate) fn frame_bytes(payload: usize) -> usize {
    (HEADER + payload).next_multiple_of(8)
}

/// Adds a frame to a buffer.
pub(crate) fn push(buffer: &mut Vec<u8>, header: &Header, salted: u32, payload: &[u8]) {
    let end = buffer.len() + frame_bytes(payload.len());
    buffer.reserve(end - buffer.len());
    buffer.extend_from_slice(&header.seal(salted));
    buffer.extend_from_slice(payload);
    buffer.resize(end, 0);
}

/// Makes frames that were meant for one file belong to another: new salt, and what is durable now.
pub(crate) fn reseal(frames: &mut [u8], salted: u32, durable: u64) {
    let mut at = 0;
    while let Some(mut header) = frames.get(at..).and_then(Header::read) {
        header.lag = lag(header.sequence, durable);
        frames[at..at + HEADER].copy_from_slice(&header.seal(salted));
        at += header.frame_bytes();
    }
    debug_assert_eq!(at, frames.len(), "a buffer holds whole frames");
}

/// A word that names no fsync policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFsync(String);

impl fmt::Display for UnknownFsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown fsync policy {:?}: it is one of always, every-second, never", self.0)
    }
}

impl std::error::Error for UnknownFsync {}

impl FromStr for Fsync {
    type Err = UnknownFsync;

    fn from_str(word: &str) -> Result<Fsync, UnknownFsync> {
        match word {
            "always" => Ok(Fsync::Always),
            "every-second" | "everysec" => Ok(Fsync::EverySecond),
            "never" | "no" => Ok(Fsync::Never),
            other => Err(UnknownFsync(other.chars().take(64).collect())),
        }
    }
}

impl fmt::Display for Fsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fsync::Always => "always",
            Fsync::EverySecond => "every-second",
            Fsync::Never => "never",
        })
    }
}
