//! Opens a log: reads what is there, hands each batch to the engine, and decides what an odd end means.
//!
//! - Only zeros behind the last batch: its end.
//! - Anything else in the last segment: a torn write if no header behind it says that it was durable; it is left out and
//!   counted, and the next segment says so ("cut"). Otherwise it is damage: the log is not opened.
//! - A segment that is followed by another must hold every batch up to that one's first.
//! - The log must reach as far as the snapshot says that it was durable: a shorter one would give sequences out again.

use std::fmt;
use std::sync::Arc;

use super::folder::Folder;
use super::log::error::LogError;
use super::log::read::{Next, SegmentReader};
use super::log::segment::{Place, first_of_name};
use super::log::{Found, Log, LogOptions, Segment};

/// What was found when a log was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Batches that were replayed.
    pub batches: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Bytes of a torn write that were left out.
    pub torn_bytes: u64,
}

/// Why a log could not be opened.
#[derive(Debug)]
pub enum OpenError<E> {
    /// The log is damaged, or could not be read.
    Log(LogError),
    /// The engine refused a batch.
    Replay {
        /// Its sequence.
        sequence: u64,
        /// What the engine said.
        source: E,
    },
}

impl<E> From<LogError> for OpenError<E> {
    fn from(error: LogError) -> OpenError<E> {
        OpenError::Log(error)
    }
}

impl<E: fmt::Display> fmt::Display for OpenError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Log(error) => error.fmt(f),
            OpenError::Replay { sequence, source } => {
                write!(f, "the batch with sequence {sequence} of the log cannot be applied: {source}")
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for OpenError<E> {}

/// Opens the log of a folder, hands every batch after sequence `after` to `replay` in order, and makes it ready to go on.
/// It was durable up to `through` once, so one that ends before is damaged, whatever its end looks like.
///
/// Everything that was replayed is durable when this returns.
pub fn open_log<E>(
    folder: &Arc<Folder>,
    after: u64,
    through: u64,
    options: LogOptions,
    mut replay: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(Log, Recovery), OpenError<E>> {
    let place = Place { folder: folder.clone() };
    let missing = |needed, what: String| LogError::Missing { path: folder.path().to_path_buf(), needed, what };
    let names =
        folder.disk().list(folder.path()).map_err(|e| LogError::io("list the data folder", folder.path(), e))?;
    let mut firsts: Vec<u64> = names.iter().filter_map(|name| first_of_name(name)).collect();
    firsts.sort_unstable();
    let mut found = Found { last: after, cut: false, torn_bytes: 0, segments: Vec::new() };
    let mut recovery = Recovery::default();
    // Segments before this one hold only what the snapshot holds too: they are not read.
    let start = firsts.partition_point(|&first| first <= after.saturating_add(1));
    if start == 0 {
        if let Some(first) = firsts.first() {
            Err(missing(after + 1, format!("the log begins with sequence {first}")))?;
        }
        if after.max(through) > 0 {
            Err(missing(after + 1, "there is no log file (the one being written is never removed)".into()))?;
        }
        return Ok((Log::start(place, options, found)?, recovery));
    }
    for (i, &first) in firsts.iter().enumerate() {
        let path = place.path(first);
        let file = folder.disk().open(&path).map_err(|e| LogError::io("open a log file", &path, e))?;
        if i + 1 < start {
            let bytes = file.length().map_err(|e| LogError::io("read a log file", &path, e))?;
            found.segments.push(Segment { first, bytes });
            continue;
        }
        let mut reader = SegmentReader::open(&path, file, first)?;
        if i + 1 > start && first != found.last + 1 {
            Err(missing(found.last + 1, format!("the next file begins with sequence {first}")))?;
        }
        let next = match firsts.get(i + 1) {
            Some(&first) => Some(peek(&place, first)?),
            None => None,
        };
        let mut sequence = first;
        loop {
            if next.as_ref().is_some_and(|next| sequence == next.0) {
                break;
            }
            match reader.next(sequence)? {
                Next::Batch => {}
                Next::End => break,
                Next::Bad(what) if next.is_some() => Err(LogError::corrupt(&path, reader.offset, what))?,
                Next::Bad(what) => {
                    let rest = reader.rest()?;
                    if rest.durable >= sequence {
                        let what = format!("{what}, but the log says later that {} was durable", rest.durable);
                        Err(LogError::corrupt(&path, reader.offset, what))?;
                    }
                    found.cut = true;
                    found.torn_bytes = rest.last_byte.map_or(0, |last| last + 1 - reader.offset);
                    break;
                }
            }
            if sequence > after {
                let payload = reader.payload();
                recovery.batches += 1;
                recovery.bytes += payload.len() as u64;
                replay(sequence, payload).map_err(|source| OpenError::Replay { sequence, source })?;
            }
            sequence += 1;
        }
        let end = reader.offset;
        match next {
            Some((next_first, _)) if sequence != next_first => {
                let what =
                    format!("the file ends after sequence {}, the next one begins with {next_first}", sequence - 1);
                Err(LogError::corrupt(&path, end, what))?;
            }
            Some((_, cut)) if !cut => match reader.next(sequence)? {
                Next::End => {}
                Next::Batch => Err(LogError::corrupt(&path, end, "a batch that the next file holds too"))?,
                Next::Bad(what) => Err(LogError::corrupt(&path, end, what))?,
            },
            Some(_) => {}
            // A segment without batches will be replaced by the next one, which then must say what it said.
            None if sequence == first && reader.header.cut => {
                found.cut = true;
                reader.sync()?;
            }
            // Written by a process that was killed before it could sync: replayed now, so it must be durable now.
            None => reader.sync()?,
        }
        found.last = found.last.max(sequence - 1);
        if next.is_none() && sequence - 1 < through {
            let what = format!(
                "the log ends after sequence {}, but it was durable up to {through} when the last snapshot was made",
                sequence - 1
            );
            Err(LogError::corrupt(&path, end, what))?;
        }
        found.segments.push(Segment { first, bytes: end.min(reader.length()) });
    }
    folder.disk().sync_dir(folder.path()).map_err(|e| LogError::io("sync the data folder", folder.path(), e))?;
    recovery.torn_bytes = found.torn_bytes;
    Ok((Log::start(place, options, found)?, recovery))
}

/// The first sequence of a segment and whether it says "cut".
fn peek(place: &Place, first: u64) -> Result<(u64, bool), LogError> {
    let path = place.path(first);
    let file = place.folder.disk().open(&path).map_err(|e| LogError::io("open a log file", &path, e))?;
    let reader = SegmentReader::open(&path, file, first)?;
    Ok((reader.header.first, reader.header.cut))
}
