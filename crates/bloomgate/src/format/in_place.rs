//! Files that are written in place: made sparse, opened with a lock, marked while they are dirty, settled by a sync.
//!
//! The file is that of [`save`](super::save), byte for byte, once it is settled. In between, bit 0 of the header's
//! flags is set, and of the rest only CONTRACT, SHAPE, SENTINELS and the layout can be believed: the sums and counts
//! are those of the last sync, or on their way to the next.
//!
//! ```text
//!  mark     header with the flag                                 │ sync │
//!  settle   bits │ sync │ CHUNK_SUMS, COUNTS │ sync │ header and table without the flag │ sync │
//! ```
//!
//! Header and table are written in one piece that lies in the first 512 bytes of the file: a sector, which a disk
//! writes whole or not at all. That is what a power cut can leave, then: the old head, or the new one.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::agreement::{contract_body, sentinels_body};
use super::atomic_file::sync_directory_of;
use super::filed::Filed;
use super::frame::{FORMAT_VERSION, Frame, Header, Section, corrupt};
use super::load::{OpenOptions, agree, in_file, plain_file, refuse_big_endian};
use super::read::{Head, Limits, SectionReader};
use super::sections::{Codec, SectionType};
use super::shapes::{Cells, Piece, Plan, counts_body};
use super::sums::ChunkSums;
use super::write::FrameWriter;
use crate::bits::MappedMut;
use crate::bits::mapped_mut::{Ledger, Trust, faults};
use crate::bits::sealed::Sealed as _;
use crate::bloom::{Bloom, Layout};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Contract;
use crate::promise::Promise;

/// The most bytes of header and table: what a disk writes whole or not at all.
const SECTOR: u64 = 512;

/// The most bytes of a payload that is made in place: half of what a process can address, and sums of 4 GiB.
const MOST_BYTES: u64 = 1 << 46;

/// The head of a file as of its last sync.
#[derive(Debug)]
struct Heading {
    path: PathBuf,
    frame: Mutex<Frame>,
}

impl Heading {
    fn new(path: &Path, frame: Frame) -> Box<Self> {
        Box::new(Self { path: path.to_path_buf(), frame: Mutex::new(frame) })
    }

    fn failed<'a>(&'a self, doing: &'a str) -> impl Fn(io::Error) -> Error + 'a {
        move |e| Error::io(format!("{doing} {}", self.path.display()), e)
    }
}

impl Ledger for Heading {
    fn mark(&self, file: &File) -> Result<()> {
        let frame = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = self.failed("marking as unfinished");
        write_at(file, "mark", 0, &frame.to_dirty_bytes()).map_err(&failed)?;
        sync(file).map_err(&failed)
    }

    fn settle(&self, file: &File, sums: &[u32], keys: u64) -> Result<()> {
        let mut frame = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = self.failed("syncing");
        let sums = ChunkSums::from(sums).to_body();
        let counts = counts_body(keys)?;
        let settled = frame.with_bodies(&[(SectionType::CHUNK_SUMS, &sums), (SectionType::COUNTS, &counts)])?;
        for (kind, body) in [(SectionType::CHUNK_SUMS, &sums), (SectionType::COUNTS, &counts)] {
            let section = settled.find(kind, 0).ok_or_else(|| corrupt(format!("the file has no {kind} of part 0")))?;
            write_at(file, "body", section.offset, body).map_err(&failed)?;
        }
        sync(file).map_err(&failed)?;
        write_at(file, "settle", 0, &settled.to_bytes()).map_err(&failed)?;
        sync(file).map_err(&failed)?;
        *frame = settled;
        Ok(())
    }
}

fn write_at(mut file: &File, step: &'static str, offset: u64, bytes: &[u8]) -> io::Result<()> {
    faults::before(step)?;
    // Whoever writes is alone: all gates are closed, or the file is not mapped yet.
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

fn sync(file: &File) -> io::Result<()> {
    faults::before("sync")?;
    file.sync_all()?;
    faults::synced();
    Ok(())
}

/// Refuses a file that another writer has. The lock goes with the file.
fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let doing = format!(
                "{} is being written in place by another program or thread: share its filter, or wait until it is closed",
                path.display()
            );
            Err(Error::io(doing, io::ErrorKind::WouldBlock.into()))
        }
        Err(TryLockError::Error(e)) => Err(Error::io(format!("locking {}", path.display()), e)),
    }
}

/// Makes a file of an empty filter, which must not be there, and maps it to be written.
pub(crate) fn create<L: Layout>(
    path: &Path,
    layout: L,
    promise: Promise,
    contract: Contract,
) -> Result<Bloom<L, MappedMut>> {
    refuse_big_endian()?;
    let words = layout.words();
    if words > MOST_BYTES / 8 {
        let message = format!(
            "a filter of {} bytes cannot be mapped, {MOST_BYTES} can: ask for fewer items or a higher rate",
            u128::from(words) * 8
        );
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    let made = |e| match io::Error::kind(&e) {
        io::ErrorKind::AlreadyExists => {
            let message =
                format!("{} is there already and is not replaced: map it, or remove it first", path.display());
            Error::new(ErrorKind::InvalidParameter, message)
        }
        _ => Error::io(format!("making {}", path.display()), e),
    };
    let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(made)?;
    let filter = fill(file, path, layout, promise, contract);
    if filter.is_err() {
        // What led here is the error to report.
        let _ = fs::remove_file(path);
    }
    filter
}

fn fill<L: Layout>(
    file: File,
    path: &Path,
    layout: L,
    promise: Promise,
    contract: Contract,
) -> Result<Bloom<L, MappedMut>> {
    let failed = |e| Error::io(format!("making {}", path.display()), e);
    lock(&file, path)?;
    let mut sections = FrameWriter::new();
    sections.section(SectionType::CONTRACT, 0, contract_body(&contract)?);
    sections.section(SectionType::SENTINELS, 0, sentinels_body(&contract)?);
    let piece = Piece { cells: Cells::Bits(layout.any()), promise, len: 0 };
    Plan { chain: None, pieces: vec![piece] }.write(&mut sections)?;
    let words = layout.words();
    let zeros = sections.over_zeros(words * 8)?;
    let length = zeros.frame.total_len();
    let frame = zeros.frame;
    // Long enough first: what the file system cannot hold is refused before anything is in it.
    file.set_len(length).map_err(failed)?;
    for (offset, body) in &zeros.bodies {
        write_at(&file, "body", *offset, body).map_err(failed)?;
    }
    sync(&file).map_err(failed)?;
    // The head comes last: a file whose making was cut short is not a filter.
    write_at(&file, "head", 0, &frame.to_bytes()).map_err(failed)?;
    sync(&file).map_err(failed)?;
    sync_directory_of(path)?;
    let payload = frame.find(SectionType::PAYLOAD, 0).map_or(0, |section| section.offset);
    let heading = Heading::new(path, frame);
    let store = MappedMut::new(file, length, (payload, words), zeros.sums, Trust::New, heading)?;
    Ok(Bloom::from_parts(layout, contract, promise, 0, store))
}

/// What to do about a file that was not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfinished {
    Refuse,
    TakeAsItIs,
}

/// Maps a file to be written.
pub(crate) fn map_mut<L: Layout>(
    path: &Path,
    options: &OpenOptions<'_>,
    unfinished: Unfinished,
) -> Result<Bloom<L, MappedMut>> {
    refuse_big_endian()?;
    // Refuses what is no plain file before it is opened to be written.
    drop(plain_file(path)?);
    let doing = |e| Error::io(format!("opening {} to be written", path.display()), e);
    let file = fs::OpenOptions::new().read(true).write(true).open(path).map_err(doing)?;
    lock(&file, path)?;
    let length = file.metadata().map_err(doing)?.len();
    in_file(path, map_locked(file, length, path, options, unfinished))
}

fn map_locked<L: Layout>(
    file: File,
    length: u64,
    path: &Path,
    options: &OpenOptions<'_>,
    unfinished: Unfinished,
) -> Result<Bloom<L, MappedMut>> {
    let limits = options.limits.unwrap_or_else(|| Limits::for_file(length));
    let (head, trust) = read_head(&file, length, limits, unfinished)?;
    let (contract, plan) = agree::<Bloom<L, MappedMut>, MappedMut>(&head, options)?;
    let frame = head.frame().clone();
    let payload = frame.find(SectionType::PAYLOAD, 0).copied();
    let (Some(payload), [piece]) = (payload, &plan.pieces[..]) else {
        return Err(corrupt("a filter of one part has one PAYLOAD".into()));
    };
    if payload.codec != Codec::Raw.number() {
        let message = format!("{payload} is compressed and cannot be written in place: load the file and save it raw");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let known = |section: &Section| section.kind.is_known() || section.kind.is_private();
    if frame.version() > FORMAT_VERSION || !frame.sections().iter().all(known) {
        // What this reader may pass over, it cannot keep up to date.
        let message = format!(
            "the file was written by a later version of the format ({}), which this one (version {FORMAT_VERSION}) may read \
             and not change: update Bloomgate",
            frame.version()
        );
        return Err(Error::new(ErrorKind::Version, message));
    }
    check_gap(&file, &frame, payload.offset)?;
    let (cells, words) = (piece.cells.clone(), piece.cells.words());
    let sums = head.sums(0).map(|sums| sums.as_slice().to_vec()).unwrap_or_default();
    let heading = Heading::new(path, frame);
    let store = MappedMut::new(file, length, (payload.offset, words), sums, trust, heading)?;
    let last = (words as usize).saturating_sub(1);
    if cells.spare() != 0 && store.admit(last) {
        cells.check_last_word(0, store.words()[last].load(std::sync::atomic::Ordering::Relaxed))?;
    }
    let mut filter = Bloom::<L, MappedMut>::of(contract, plan, vec![store])?;
    if trust == Trust::AsTheyAre {
        // The count is that of the last sync; the bits know better.
        filter.count_from_bits();
    }
    Ok(filter)
}

/// The zeros between the last small section and the bits, which nothing else looks at here.
fn check_gap(mut file: &File, frame: &Frame, bits: u64) -> Result<()> {
    let end = frame.sections().iter().filter(|section| !section.is_chunked()).map(|section| section.end()).max();
    let start = end.unwrap_or(bits);
    let mut gap = Vec::new();
    let read =
        file.seek(SeekFrom::Start(start)).and_then(|_| file.take(bits.saturating_sub(start)).read_to_end(&mut gap));
    read.map_err(|e| Error::io("reading the head of a filter", e))?;
    match gap.iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(at) => Err(corrupt(format!("offset {}: padding that is not zero", start + at as u64))),
    }
}

/// Everything before the bits, and how far those may be believed.
fn read_head(mut file: &File, length: u64, limits: Limits, unfinished: Unfinished) -> Result<(Head, Trust)> {
    let failed = |e| Error::io("reading the head of a filter", e);
    let mut start = Vec::new();
    file.take(SECTOR).read_to_end(&mut start).map_err(failed)?;
    let header = Header::parse(&start)?;
    if header.head_len() > SECTOR {
        let message = format!(
            "header and table of {} sections take {} bytes, and a file is written in place only if they fit {SECTOR} (14 \
             sections): load it and save it without its private sections",
            header.section_count,
            header.head_len()
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let settled = match unfinished {
        Unfinished::TakeAsItIs => Frame::parse_dirty(&start, length)?,
        Unfinished::Refuse => None,
    };
    let Some(frame) = settled else {
        // Also says what is wrong with it.
        file.rewind().map_err(failed)?;
        return Ok((SectionReader::whole_of(file, length, limits)?.head().clone(), Trust::Sums));
    };
    // The sums and counts may be of before the last sync or after it, or in between: as they are, with checksums that
    // fit. All else is still checked as it always is.
    let (Some(payload), Some(sums)) =
        (frame.find(SectionType::PAYLOAD, 0), frame.find(SectionType::CHUNK_SUMS, 0).copied())
    else {
        return Err(corrupt("a file that is written in place has a PAYLOAD of part 0".into()));
    };
    let before_bits = payload.offset;
    if before_bits.saturating_sub(sums.length) > limits.max_head_bytes {
        let message = format!(
            "the small sections take {before_bits} bytes, {} are allowed (Limits::max_head_bytes)",
            limits.max_head_bytes
        );
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    let mut bytes = Vec::new();
    file.rewind().map_err(failed)?;
    file.take(before_bits).read_to_end(&mut bytes).map_err(failed)?;
    let body = |kind| {
        let section = frame.find(kind, 0)?;
        Some((kind, bytes.get(section.offset as usize..section.end() as usize)?))
    };
    let found = [SectionType::CHUNK_SUMS, SectionType::COUNTS].map(body);
    let [Some(sums), Some(counts)] = found else {
        return Err(corrupt("a file that is written in place has CHUNK_SUMS and COUNTS of part 0".into()));
    };
    let mut whole = frame.with_bodies(&[sums, counts])?.to_bytes();
    whole.extend_from_slice(bytes.get(whole.len()..).unwrap_or_default());
    Ok((SectionReader::whole_of(&whole[..], length, limits)?.head().clone(), Trust::AsTheyAre))
}
