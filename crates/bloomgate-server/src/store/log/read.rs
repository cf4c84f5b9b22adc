//! Reads a segment: batch after batch, each one checked, until its end or until something is wrong.

use std::path::{Path, PathBuf};

use super::super::disk::{DiskFile, read_full};
use super::error::LogError;
use super::frame::{self, HEADER, Header};
use super::segment::{FILE_HEADER, FileHeader};

/// How much is read at once: a quarter of this machine class's L2 or less, so the checksum finds it in the cache.
const WINDOW: usize = 256 << 10;

/// What comes next in a segment.
pub(crate) enum Next {
    /// A batch; its payload is [`SegmentReader::payload`].
    Batch,
    /// Nothing but zeros, or nothing.
    End,
    /// Something that is no frame.
    Bad(String),
}

/// A segment being read.
pub(crate) struct SegmentReader {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    pub header: FileHeader,
    salted: u32,
    length: u64,
    /// Where the next frame starts.
    pub offset: u64,
    window: Vec<u8>,
    /// Where the window starts in the file, and how many of its bytes are read.
    start: u64,
    filled: usize,
    payload: std::ops::Range<usize>,
}

impl SegmentReader {
    pub fn open(path: &Path, file: Box<dyn DiskFile>, first: u64) -> Result<SegmentReader, LogError> {
        let failed = |e| LogError::io("read the log", path, e);
        let length = file.length().map_err(failed)?;
        let mut bytes = [0; FILE_HEADER];
        let read = read_full(&*file, &mut bytes, 0).map_err(failed)?;
        let header = FileHeader::open(&bytes[..read]).map_err(|what| LogError::corrupt(path, 0, what))?;
        if header.first != first {
            let what = format!("it says that it begins with sequence {}, its name says {first}", header.first);
            return Err(LogError::corrupt(path, 32, what));
        }
        let salted = frame::salted(&header.salt);
        let path = path.to_path_buf();
        let offset = FILE_HEADER as u64;
        let (window, payload) = (Vec::new(), 0..0);
        Ok(SegmentReader { path, file, header, salted, length, offset, window, start: offset, filled: 0, payload })
    }

    /// The payload of the last batch.
    pub fn payload(&self) -> &[u8] {
        &self.window[self.payload.clone()]
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Makes the file durable as it is.
    pub fn sync(&self) -> Result<(), LogError> {
        self.file.sync_data().map_err(|e| LogError::io("sync the log", &self.path, e))
    }

    /// Sees to it that the window holds `need` bytes from `offset` on, or all there are; returns where they are in it.
    #[inline]
    fn fetch(&mut self, offset: u64, need: usize) -> Result<std::ops::Range<usize>, LogError> {
        match offset.checked_sub(self.start).map(|at| at as usize) {
            Some(at) if at + need <= self.filled => return Ok(at..at + need),
            Some(_) => {}
            // Back to a place that the window has left, as whoever looks at the rest twice goes.
            None => (self.start, self.filled) = (offset, 0),
        }
        self.refill(offset, need)
    }

    #[cold]
    fn refill(&mut self, offset: u64, need: usize) -> Result<std::ops::Range<usize>, LogError> {
        let at = ((offset - self.start) as usize).min(self.filled);
        self.window.copy_within(at..self.filled, 0);
        self.filled -= at;
        self.start = offset;
        // The length is that of a header with a right checksum, and no more than the file has.
        let want = need.max(WINDOW).min(usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX));
        if self.window.len() < want {
            self.window.resize(want, 0);
        }
        let from = self.start + self.filled as u64;
        if want > self.filled {
            let read = read_full(&*self.file, &mut self.window[self.filled..want], from);
            self.filled += read.map_err(|e| LogError::io("read the log", &self.path, e))?;
        }
        Ok(0..need.min(self.filled))
    }

    /// The next batch, which must have this sequence. Marks are passed over.
    pub fn next(&mut self, expected: u64) -> Result<Next, LogError> {
        loop {
            let at = self.fetch(self.offset, HEADER)?;
            if at.len() < HEADER && self.offset + at.len() as u64 >= self.length {
                return self.end_or("the file ends inside a header".into());
            }
            let Some(header) = Header::open(&self.window[at], self.salted) else {
                return self.end_or("there is no batch header, or its checksum is wrong".into());
            };
            if header.is_mark() {
                if header.sequence >= expected {
                    let what =
                        format!("a mark says that sequence {} is durable, but {expected} is missing", header.sequence);
                    return Err(LogError::corrupt(&self.path, self.offset, what));
                }
                self.offset += HEADER as u64;
                continue;
            }
            if header.sequence != expected {
                let what = format!("the batch has sequence {}, expected {expected}", header.sequence);
                return Err(LogError::corrupt(&self.path, self.offset, what));
            }
            let whole = header.frame_bytes();
            let at = self.fetch(self.offset, whole)?;
            if at.len() < whole {
                return Ok(Next::Bad(format!("the file ends inside the batch with sequence {expected}")));
            }
            let payload = at.start + HEADER..at.start + HEADER + header.length as usize;
            let right = crc32c::crc32c(&self.window[payload.clone()]) == header.payload_crc
                && self.window[payload.end..at.end].iter().all(|&b| b == 0);
            if !right {
                return Ok(Next::Bad(format!("the checksum of the batch with sequence {expected} is wrong")));
            }
            self.payload = payload;
            self.offset += whole as u64;
            return Ok(Next::Batch);
        }
    }

    /// The end if only zeros follow, else what is wrong.
    fn end_or(&mut self, what: String) -> Result<Next, LogError> {
        Ok(if self.rest()?.last_byte.is_none() { Next::End } else { Next::Bad(what) })
    }

    /// Looks at everything from the current offset on.
    pub fn rest(&mut self) -> Result<Rest, LogError> {
        let mut rest = Rest { last_byte: None, durable: 0 };
        let mut offset = self.offset;
        // No sequence past this can be in the file.
        let most = self.header.first + self.length / HEADER as u64;
        while offset < self.length {
            let at = self.fetch(offset, WINDOW)?;
            if at.is_empty() {
                break;
            }
            let (start, bytes) = (offset, &self.window[at]);
            if let Some(last) = bytes.iter().rposition(|&b| b != 0) {
                rest.last_byte = Some(start + last as u64);
                for at in (0..bytes.len()).step_by(8) {
                    let Some(header) = Header::read(&bytes[at..]) else { break };
                    // Cheap things first: 8 million places per segment, almost none of which is a header.
                    if header.sequence < self.header.first || header.sequence > most {
                        continue;
                    }
                    if Header::open(&bytes[at..], self.salted).is_some() {
                        rest.durable = rest.durable.max(header.durable());
                    }
                }
            }
            // Windows overlap by a header, so that none is missed between two.
            let step = if bytes.len() < WINDOW { bytes.len() } else { WINDOW - HEADER };
            offset += step as u64;
        }
        Ok(rest)
    }
}

/// What lies behind the last good batch.
pub(crate) struct Rest {
    /// Where the last byte that is not zero is.
    pub last_byte: Option<u64>,
    /// The highest sequence that a header says is durable.
    pub durable: u64,
}
