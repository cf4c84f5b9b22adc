//! Words in a file that is queried in place: nothing is loaded, and each 64 KiB chunk is checked when it is first
//! touched. A chunk that fails its check answers "maybe" for ever, and says so.

use super::Store;
use super::sealed::Sealed;
use crate::error::{Error, ErrorKind, Result};
use memmap2::{Mmap, MmapMut};
use std::fmt;
use std::fs::File;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The bytes under one checksum.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;
const CHUNK_WORDS: usize = CHUNK_BYTES / 8;

/// What is known of a chunk.
const UNKNOWN: u8 = 0;
const GOOD: u8 = 1;
const BAD: u8 = 2;

/// A damaged place in a mapped file, found when it was first touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Damage {
    /// The part of the filter: 0, or the number of the stage from 1.
    pub part: u16,
    /// The chunk of the part's payload, from 0.
    pub chunk: u64,
    /// Where the chunk starts in the file.
    pub offset: u64,
    /// The bytes of the chunk.
    pub length: u64,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, chunk, offset, length } = self;
        write!(f, "PAYLOAD of part {part}, chunk {chunk} ({length} bytes from file offset {offset}) is damaged")
    }
}

/// Has the kernel read ahead in a file that is about to be read from front to back.
///
/// What the kernel does by itself (128 KB ahead) leaves a fast disk idle: 1.5 GB/s of its 4.3. The map is made for the
/// call that tells it, and nobody reads through it.
#[cfg(unix)]
pub(crate) struct ReadAhead(Option<Mmap>);

#[cfg(unix)]
impl ReadAhead {
    /// For this file; one that cannot be mapped is read as ever.
    pub(crate) fn of(file: &File) -> Self {
        if cfg!(any(miri, loom)) {
            return Self(None);
        }
        // SAFETY: no byte of the map is ever read, so it does not matter who changes the file.
        Self(unsafe { Mmap::map(file) }.ok())
    }

    /// The kernel may begin to read these bytes.
    pub(crate) fn tell(&self, offset: u64, length: u64) {
        let Some(map) = &self.0 else { return };
        let (Ok(from), Ok(length)) = (usize::try_from(offset), usize::try_from(length)) else { return };
        let length = length.min(map.len().saturating_sub(from));
        if length > 0 {
            // A refusal costs speed alone.
            let _ = map.advise_range(memmap2::Advice::WillNeed, from, length);
        }
    }
}

/// Bytes that are mapped to be read, for as long as anyone holds them.
#[derive(Debug, Clone)]
pub(crate) struct Region(Arc<Mmap>);

impl Region {
    /// A whole file, as long as it is now.
    pub(crate) fn of_file(file: &File) -> std::io::Result<Self> {
        // SAFETY: the map is read-only and private to this module, which hands it out as `&[u8]` and `&[u64]`. What
        // those need is that the file is not changed in place while it is mapped. No program can promise that for
        // another; it is the documented duty of whoever maps a file (see `Mapped`), and Bloomgate's own writers keep
        // it: they write beside and rename, so that the mapped file stays as it was.
        let map = unsafe { Mmap::map(file) }?;
        #[cfg(unix)]
        {
            // Lookups go anywhere: reading ahead would bring in pages that nobody asked for. A refusal costs speed alone.
            let _ = map.advise(memmap2::Advice::Random);
        }
        Ok(Self(Arc::new(map)))
    }

    /// A copy of bytes in memory of its own, aligned to a page as a file would be.
    pub(crate) fn of_bytes(bytes: &[u8]) -> std::io::Result<Self> {
        let mut map = MmapMut::map_anon(bytes.len().max(1))?;
        map[..bytes.len()].copy_from_slice(bytes);
        Ok(Self(Arc::new(map.make_read_only()?)))
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Words in a mapped file, to be read alone.
///
/// **The file must not be changed in place while it is mapped.** Replacing it is fine: [`save`](crate::Blocked::save)
/// and every tool that writes beside and renames leave the mapped bytes as they were. A file that another program
/// overwrites in place may answer wrongly where it was verified before; one that is made shorter ends the process
/// with `SIGBUS` when the missing part is touched, as for every mapped file: the bits are gone, and no answer could be
/// made from what is not there. [`report_lost_mapping`](super::report_lost_mapping) makes that a message and exit code
/// 2 (the `bloomgate` command does so). Where it must not end the program, load the filter instead.
///
/// Header, section table and all small sections are verified when the file is mapped; the bits, 64 KiB at a time,
/// when they are first touched. Numbers about all bits (`set_bits`, `estimated_rate`, `approximate_count`) take them
/// as they are: verify everything first.
pub struct Mapped {
    start: NonNull<u64>,
    words: usize,
    part: u16,
    /// Where the words start in the file.
    offset: u64,
    sums: Box<[u32]>,
    states: Box<[AtomicU8]>,
    /// Chunks that are not known to be good.
    waiting: AtomicUsize,
    /// Keeps the bytes alive; `start` points into them.
    region: Region,
}

// SAFETY: the words are only read, through `&[u64]`; the region is kept alive by an `Arc`, and the rest is atomics
// and plain values. Nothing is tied to a thread.
unsafe impl Send for Mapped {}
// SAFETY: as above: shared references give read access alone.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The words of one payload of a mapped file: `words` of them from `offset`, with one CRC32C per 64 KiB.
    pub(crate) fn new(region: Region, part: u16, offset: u64, words: u64, sums: Vec<u32>) -> Result<Self> {
        let bytes = region.bytes();
        let here = usize::try_from(offset).ok().zip(words.checked_mul(8).and_then(|len| usize::try_from(len).ok()));
        let payload = here.and_then(|(start, length)| bytes.get(start..)?.get(..length));
        let Some(payload) = payload.filter(|payload| !payload.is_empty()) else {
            let message = format!(
                "PAYLOAD of part {part}: {words} words from offset {offset} are not in a file of {} bytes",
                bytes.len()
            );
            return Err(Error::new(ErrorKind::Truncated, message));
        };
        let start = NonNull::from(payload).cast::<u64>();
        if !start.is_aligned() || sums.len() != payload.len().div_ceil(CHUNK_BYTES) {
            let message = format!(
                "PAYLOAD of part {part} at offset {offset}: {} chunk sums for {} bytes; one per 64 KiB, and an offset \
                 that is a multiple of 8, expected",
                sums.len(),
                payload.len()
            );
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let states: Box<[AtomicU8]> = sums.iter().map(|_| AtomicU8::new(UNKNOWN)).collect();
        let waiting = AtomicUsize::new(states.len());
        Ok(Self { start, words: payload.len() / 8, part, offset, sums: sums.into(), states, waiting, region })
    }

    #[inline(always)]
    fn as_slice(&self) -> &[u64] {
        // SAFETY: `new` has proved that `words` whole words from `start` lie inside the region, aligned; the region
        // lives as long as `self`, every bit pattern is a u64, and nobody in this process writes to it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    fn chunk_bytes(&self, chunk: usize) -> &[u8] {
        let start = self.offset as usize + chunk * CHUNK_BYTES;
        let end = (start + CHUNK_BYTES).min(self.offset as usize + self.words * 8);
        // In range for every chunk there is: `new` has proved it.
        self.region.bytes().get(start..end).unwrap_or_default()
    }

    /// Checks one chunk now, and remembers what came out.
    #[cold]
    fn verify(&self, chunk: usize) -> bool {
        let bytes = self.chunk_bytes(chunk);
        #[cfg(unix)]
        {
            // One read for the sixteen pages instead of one each.
            let _ = self.region.0.advise_range(
                memmap2::Advice::WillNeed,
                self.offset as usize + chunk * CHUNK_BYTES,
                bytes.len(),
            );
        }
        let good = self.sums.get(chunk) == Some(&crc32c::crc32c(bytes));
        let verdict = if good { GOOD } else { BAD };
        // Relaxed: the words never change, so there is nothing that the verdict has to publish.
        let first = self.states[chunk].compare_exchange(UNKNOWN, verdict, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() && good {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        first.unwrap_or_else(|known| known) != BAD && good
    }

    /// The number of chunks.
    pub(crate) fn chunks(&self) -> u64 {
        self.states.len() as u64
    }

    /// Checks every chunk that was not touched yet; tells how many are done after each.
    pub(crate) fn verify_all(&self, mut done: impl FnMut()) -> bool {
        let mut all = true;
        for chunk in 0..self.states.len() {
            all &= self.admit(chunk * CHUNK_WORDS);
            done();
        }
        all
    }

    /// The first damaged chunk among those that were touched.
    pub(crate) fn damage(&self) -> Option<Damage> {
        let chunk = self.states.iter().position(|state| state.load(Ordering::Relaxed) == BAD)?;
        Some(Damage {
            part: self.part,
            chunk: chunk as u64,
            offset: self.offset + (chunk * CHUNK_BYTES) as u64,
            length: self.chunk_bytes(chunk).len() as u64,
        })
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped")
            .field("words", &self.words)
            .field("offset", &self.offset)
            .field("waiting", &self.waiting.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

impl Store for Mapped {}

impl Sealed for Mapped {
    type Read<'a> = &'a [u64];
    type Count = u64;
    const CHECKED: bool = true;

    #[inline(always)]
    fn words(&self) -> &[u64] {
        self.as_slice()
    }

    #[inline]
    fn admit(&self, word: usize) -> bool {
        let chunk = word / CHUNK_WORDS;
        match self.states.get(chunk).map(|state| state.load(Ordering::Relaxed)) {
            Some(GOOD) => true,
            Some(UNKNOWN) => self.verify(chunk),
            _ => false,
        }
    }

    #[inline(always)]
    fn admitted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(words: usize) -> (Region, Vec<u32>) {
        let bytes: Vec<u8> = (0..words * 8).map(|i| ((i * 31) >> 3) as u8).collect();
        (Region::of_bytes(&bytes).unwrap(), bytes.chunks(CHUNK_BYTES).map(crc32c::crc32c).collect())
    }

    #[test]
    fn chunks_are_checked_once_and_all_of_them_admit_the_whole() {
        let (region, sums) = region(3 * CHUNK_WORDS + 1);
        let mapped = Mapped::new(region, 0, 0, 3 * CHUNK_WORDS as u64 + 1, sums).unwrap();
        assert!(!mapped.admitted());
        for word in [0, CHUNK_WORDS - 1, CHUNK_WORDS, 3 * CHUNK_WORDS, 0, 2 * CHUNK_WORDS] {
            assert!(mapped.admit(word));
        }
        assert!(mapped.admitted());
        assert_eq!(mapped.damage(), None);
        assert!(!mapped.admit(4 * CHUNK_WORDS), "a word past the end is never believed");
    }

    #[test]
    fn a_bad_chunk_is_never_admitted_and_the_others_are() {
        let (region, mut sums) = region(2 * CHUNK_WORDS + 8);
        sums[1] ^= 1;
        let mapped = Mapped::new(region, 7, 0, 2 * CHUNK_WORDS as u64 + 8, sums).unwrap();
        assert_eq!(mapped.damage(), None, "not touched yet");
        assert!(mapped.admit(0) && mapped.admit(2 * CHUNK_WORDS));
        for _ in 0..3 {
            assert!(!mapped.admit(CHUNK_WORDS));
        }
        assert!(!mapped.admitted() && !mapped.verify_all(|| ()));
        let damage = mapped.damage().unwrap();
        assert_eq!((damage.part, damage.chunk, damage.offset, damage.length), (7, 1, 65536, 65536));
    }

    #[test]
    fn words_outside_the_bytes_or_out_of_line_are_refused() {
        let (region, sums) = region(CHUNK_WORDS);
        let words = CHUNK_WORDS as u64;
        for (offset, words, kind) in [
            (0, words + 1, ErrorKind::Truncated),
            (64, words, ErrorKind::Truncated),
            (0, 0, ErrorKind::Truncated),
            (u64::MAX, 1, ErrorKind::Truncated),
            (0, u64::MAX, ErrorKind::Truncated),
            (0, u64::MAX / 8 + 1, ErrorKind::Truncated),
            (4, 8, ErrorKind::Corrupt),
        ] {
            let refusal = Mapped::new(region.clone(), 0, offset, words, sums.clone()).unwrap_err();
            assert_eq!(refusal.kind(), kind, "{offset} {words}");
        }
        assert_eq!(Mapped::new(region, 0, 0, words, vec![]).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
