//! A payload read straight into the words that it becomes, by one thread or several.
//!
//! The bytes go from the page cache to where they stay (or past it, for who reads [once](Once)), and each chunk is summed while it is still in the second-level
//! cache: no buffer between. Threads take a megabyte at a time, in order; the first damaged place in the file is told
//! whichever thread came upon it, so that the refusal is the same for any number of them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use super::frame::Section;
use super::read::ends_inside;
use super::sums::{CHUNK_LEN, ChunkSums};
use crate::bits::{Landing, Once, ReadAhead, bytes_of_mut};
use crate::error::{Error, Result};

/// Words of one chunk.
const CHUNK_WORDS: usize = CHUNK_LEN / 8;
/// Chunks that a thread takes at a time: a megabyte, for a lock that is taken a thousand times a gigabyte.
const AT_A_TIME: usize = 16;
/// Tasks of which the kernel is told at a time, so many before they are read: 16 MB, and twice that ahead.
const TOLD: usize = 16;
/// The most threads that are started, whatever is asked for.
const MOST_THREADS: usize = 64;

/// Reads the uncoded payload of `section` into words, whose bytes are as many, and verifies each chunk.
pub(super) fn read_words(
    file: &File,
    section: &Section,
    sums: &ChunkSums,
    words: &mut [u64],
    threads: usize,
    once: bool,
) -> Result<()> {
    let tasks = words.len().div_ceil(CHUNK_WORDS * AT_A_TIME);
    let work = Mutex::new(words.chunks_mut(CHUNK_WORDS * AT_A_TIME).enumerate());
    let refused = Mutex::new(None::<(usize, Error)>);
    // What is read ahead stays in the page cache: who does not want it there reads a task at a time instead.
    let way = if once { Way::Once(Once::of(file)) } else { Way::Cached(ReadAhead::of(file)) };
    let tell = |first: usize, tasks: usize| {
        let bytes = (CHUNK_LEN * AT_A_TIME) as u64;
        let (from, length) = (first as u64 * bytes, tasks as u64 * bytes);
        if let Way::Cached(ahead) = &way {
            ahead.tell(section.offset + from, length.min(section.length.saturating_sub(from)));
        }
    };
    tell(0, 2 * TOLD);
    let read = || {
        let mut reader = Reader { file, section, sums, way: &way, landing: Landing::default() };
        loop {
            // Nobody starts on what comes after a damaged place, and everything before it has been started on.
            if lock(&refused).is_some() {
                return;
            }
            let Some((task, words)) = lock(&work).next() else { return };
            if task % TOLD == 0 {
                tell(task + 2 * TOLD, TOLD);
            }
            if let Err(error) = reader.chunks(task * AT_A_TIME, words) {
                let mut first = lock(&refused);
                if first.as_ref().is_none_or(|(at, _)| task < *at) {
                    *first = Some((task, error));
                }
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(tasks).min(MOST_THREADS) {
            // If the system refuses a thread, those that there are do the work.
            if std::thread::Builder::new().name("bloomgate-load".into()).spawn_scoped(scope, read).is_err() {
                break;
            }
        }
        read();
    });
    match refused.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the file is read.
enum Way<'a> {
    /// By the page cache, of which the kernel is told ahead.
    Cached(ReadAhead),
    /// A task at a time, which nobody needs again.
    Once(Once<'a>),
}

/// What one thread reads with.
struct Reader<'a> {
    file: &'a File,
    section: &'a Section,
    sums: &'a ChunkSums,
    way: &'a Way<'a>,
    landing: Landing,
}

impl Reader<'_> {
    /// Reads and verifies some chunks of a payload, the first of which has this number.
    fn chunks(&mut self, first: usize, words: &mut [u64]) -> Result<()> {
        let at_a_time = match self.way {
            Way::Once(_) => CHUNK_WORDS * AT_A_TIME,
            Way::Cached(_) => CHUNK_WORDS,
        };
        for (piece, words) in words.chunks_mut(at_a_time).enumerate() {
            let first = (first + piece * at_a_time / CHUNK_WORDS) as u64;
            self.fill(self.section.offset + first * CHUNK_LEN as u64, bytes_of_mut(words))?;
            for (chunk, words) in (first..).zip(words.chunks_mut(CHUNK_WORDS)) {
                self.sums.verify(self.section, chunk, bytes_of_mut(words))?;
                for word in words {
                    *word = u64::from_le(*word);
                }
            }
        }
        Ok(())
    }

    /// Fills `bytes` from a place in the file.
    fn fill(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            let position = offset + filled as u64;
            let rest = &mut bytes[filled..];
            let read = match self.way {
                Way::Once(once) => once.read(&mut self.landing, rest, position),
                Way::Cached(_) => self.file.read_at(rest, position),
            };
            match read {
                Ok(0) => return Err(ends_inside(position, self.section)),
                Ok(read) => filled += read,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(format!("reading a filter at offset {position}"), e)),
            }
        }
        Ok(())
    }
}
