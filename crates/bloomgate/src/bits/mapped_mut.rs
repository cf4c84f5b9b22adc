//! Words in a file that is read **and written** in place: a filter larger than memory, that many threads insert into.
//!
//! ```text
//!  clean ──first insert: the mark, durable──▶ dirty ──sync: bits, sums, counts, durable; then the mark──▶ clean
//!                                              │ any error of the disk
//!                                              ▼
//!                                            failed: no more inserts, no more syncs, the mark stays
//! ```
//!
//! - **Before the first bit changes, the file says so** (a mark in its header, synced). Whoever opens it meanwhile, or
//!   after its writer ended without a sync, is told; no "no" comes from such a file by mistake.
//! - **A chunk is checked before it is first read or changed**, as in [`Mapped`](super::Mapped); a damaged one answers
//!   "maybe" and takes no keys, so that damage is never given a fresh checksum.
//! - **Inserts hold a gate open while they write**, one of sixteen so that threads do not meet; a sync closes all of
//!   them. So no bit changes between the checksum of its chunk and the end of the sync.
//! - **After a failed sync there is no second try**: the system may have dropped the pages it could not write, and then
//!   the next sync would call durable what is lost.
//!
//! What the header looks like is the format's business: it hands in a [`Ledger`].

use super::counter::stripe;
use super::mapped::{CHUNK_BYTES, Damage};
use super::sealed::Sealed;
use super::{Counter, Store};
use crate::arch::words::AtomicU64;
use crate::error::{Error, ErrorKind, Result};
use memmap2::MmapRaw;
use std::fmt;
use std::fs::File;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const CHUNK_WORDS: usize = CHUNK_BYTES / 8;

/// What is known of a chunk. GOOD and BAD follow UNKNOWN, CHANGED follows GOOD, and a sync makes it GOOD again.
const UNKNOWN: u8 = 0;
const GOOD: u8 = 1;
const BAD: u8 = 2;
/// Good, and with bits that its checksum in the file does not know.
const CHANGED: u8 = 3;

/// What a file says of itself beside its bits. Both writes are durable when they return.
pub(crate) trait Ledger: Send + Sync + fmt::Debug {
    /// Marks the file as being changed.
    fn mark(&self, file: &File) -> Result<()>;
    /// Writes the sums of all chunks and the count of keys, and only then takes the mark away.
    fn settle(&self, file: &File, sums: &[u32], keys: u64) -> Result<()>;
}

/// How far the words of a file may be believed when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Just made: all zeros, and the sums say so.
    New,
    /// Each chunk by its sum, when it is first touched.
    Sums,
    /// As they are, since the sums are out of date; marked as dirty, and dirty until the next sync.
    AsTheyAre,
}

/// Where a file stands between two syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Clean,
    Dirty,
    Failed,
}

/// As many as the stripes of [`Counter`]: a thread has the same number in both.
const GATES: usize = 16;

#[derive(Debug)]
#[repr(align(128))]
struct Gate(RwLock<State>);

/// Words in a mapped file, that many threads read and set at the same time, through a plain `&`.
///
/// Made by [`create_mapped`](crate::bloom::Builder::create_mapped), [`map_mut`](crate::Blocked::map_mut) and
/// [`recover_mapped`](crate::Blocked::recover_mapped); finished by [`close`](crate::Blocked::close).
///
/// - **Dropped without `close`, the file stays marked** as unfinished if anything was inserted since the last
///   [`sync`](crate::Blocked::sync): `open`, `map` and `map_mut` refuse it with [`ErrorKind::Dirty`]. Nothing is
///   synced on the way out, because nobody could be told that it failed.
/// - **One writer program at a time**: the file is locked (advisory) for as long as this lives, and a second `map_mut` is
///   refused. A program that has the file [mapped to be read](super::Mapped) sees bits come in; chunks that it first
///   touches after they changed answer "maybe" and count as damaged. Map files to be read that nobody writes.
/// - **A made file is sparse**: disk space is taken as keys come. If the disk is full when a page is first written, or the
///   file is made shorter by somebody, the system ends the process with `SIGBUS`
///   ([`report_lost_mapping`](super::report_lost_mapping) makes a message of it); the mark is on disk by then.
pub struct MappedMut {
    start: NonNull<AtomicU64>,
    words: usize,
    /// Where the words start in the file.
    offset: u64,
    states: Box<[AtomicU8]>,
    /// Chunks that are not known to be good.
    waiting: AtomicUsize,
    /// The sums of the chunks as of the last sync. Held while a chunk is checked.
    sums: Mutex<Box<[u32]>>,
    gates: [Gate; GATES],
    ledger: Box<dyn Ledger>,
    /// The length of the file, which must stay.
    length: u64,
    /// Locked, and unlocked when it is closed.
    file: File,
    /// Keeps the bytes alive; `start` points into them.
    map: MmapRaw,
}

// SAFETY: the words are reached through atomics, or read whole while the protocol above keeps writers away; the map
// lives as long as `self`; the rest is locks and atomics. Nothing is tied to a thread.
unsafe impl Send for MappedMut {}
// SAFETY: as above.
unsafe impl Sync for MappedMut {}

impl MappedMut {
    /// Maps `words` words from `offset` of a locked file of `length` bytes, with one CRC32C per 64 KiB.
    pub(crate) fn new(
        file: File,
        length: u64,
        (offset, words): (u64, u64),
        sums: Vec<u32>,
        trust: Trust,
        ledger: Box<dyn Ledger>,
    ) -> Result<Self> {
        let map = MmapRaw::map_raw(&file).map_err(|e| Error::io("mapping a filter file to be written", e))?;
        #[cfg(unix)]
        {
            // Lookups go anywhere: reading ahead would bring in pages that nobody asked for.
            let _ = map.advise(memmap2::Advice::Random);
        }
        let inside = words.checked_mul(8).and_then(|bytes| offset.checked_add(bytes)).filter(|&end| end <= length);
        if inside.is_none() || map.len() as u64 != length || words == 0 {
            let message = format!(
                "PAYLOAD: {words} words from offset {offset} are not in a file of {length} bytes, of which {} are mapped",
                map.len()
            );
            return Err(Error::new(ErrorKind::Truncated, message));
        }
        // All of this is inside the map, so it fits a usize.
        let (at, words) = (offset as usize, words as usize);
        let start = NonNull::new(map.as_mut_ptr().wrapping_add(at).cast::<AtomicU64>()).filter(|p| p.is_aligned());
        let Some(start) = start.filter(|_| sums.len() == words.div_ceil(CHUNK_WORDS)) else {
            let message = format!(
                "PAYLOAD at offset {offset}: {} chunk sums for {words} words; one per 64 KiB, and an offset that is a \
                 multiple of 8, expected",
                sums.len()
            );
            return Err(Error::new(ErrorKind::Corrupt, message));
        };
        let (chunk, waiting, state) = match trust {
            Trust::New => (GOOD, 0, State::Clean),
            Trust::Sums => (UNKNOWN, sums.len(), State::Clean),
            Trust::AsTheyAre => (CHANGED, 0, State::Dirty),
        };
        Ok(Self {
            start,
            words,
            offset,
            states: sums.iter().map(|_| AtomicU8::new(chunk)).collect(),
            waiting: AtomicUsize::new(waiting),
            sums: Mutex::new(sums.into()),
            gates: std::array::from_fn(|_| Gate(RwLock::new(state))),
            ledger,
            length,
            file,
            map,
        })
    }

    #[inline(always)]
    fn atomics(&self) -> &[AtomicU64] {
        // SAFETY: `new` has proved that `words` words from `start` lie inside the map, aligned; the map lives as long as
        // `self`; every bit pattern is a u64, and AtomicU64 has its size. Other accesses in this process are `bytes`,
        // which reads alone, while nobody writes. That no other process changes the file in place is the documented
        // duty of who maps it, and what the lock on the file is for.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The bytes of a chunk.
    ///
    /// # Safety
    /// Nobody may write to the words of the chunk while they are borrowed.
    unsafe fn bytes(&self, chunk: usize) -> &[u8] {
        let first = (chunk * CHUNK_WORDS).min(self.words);
        let count = CHUNK_WORDS.min(self.words - first);
        // SAFETY: inside the words, see `atomics`; that nobody writes is passed on to the caller.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(first).cast::<u8>(), count * 8) }
    }

    fn sums(&self) -> MutexGuard<'_, Box<[u32]>> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks one chunk now, and remembers what came out.
    #[cold]
    fn verify(&self, chunk: usize) -> bool {
        let sums = self.sums();
        // Another thread may have been here first, and writers after it.
        match self.states[chunk].load(Ordering::Acquire) {
            UNKNOWN => {}
            known => return known != BAD,
        }
        // SAFETY: a chunk is written by those alone who found it GOOD or CHANGED (`claim`). This one is UNKNOWN, and stays
        // so while we hold the lock; the release below comes after the reads.
        let good = sums.get(chunk) == Some(&crc32c::crc32c(unsafe { self.bytes(chunk) }));
        self.states[chunk].store(if good { GOOD } else { BAD }, Ordering::Release);
        if good {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        good
    }

    /// Opens a gate to write: the file is marked on disk by the time this returns.
    #[inline]
    pub(crate) fn begin(&self) -> Result<Writing<'_>> {
        loop {
            let gate = self.gates[stripe() % GATES].0.read().unwrap_or_else(PoisonError::into_inner);
            match *gate {
                State::Dirty => return Ok(Writing { store: self, _gate: gate }),
                State::Clean => drop(gate),
                State::Failed => return Err(failed()),
            }
            self.mark()?;
        }
    }

    #[cold]
    fn mark(&self) -> Result<()> {
        let mut gates = self.close_gates();
        if *gates[0] != State::Clean {
            return Ok(());
        }
        let marked = self.check_length().and_then(|()| self.ledger.mark(&self.file));
        let state = if marked.is_ok() { State::Dirty } else { State::Failed };
        gates.iter_mut().for_each(|gate| **gate = state);
        marked
    }

    /// All gates, always in the same order.
    fn close_gates(&self) -> Vec<RwLockWriteGuard<'_, State>> {
        self.gates.iter().map(|gate| gate.0.write().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    /// What is missing at the end would end the process when it is touched.
    fn check_length(&self) -> Result<()> {
        let length = self.file.metadata().map_err(|e| Error::io("asking for the length of a mapped file", e))?.len();
        if length == self.length {
            return Ok(());
        }
        let message = format!(
            "the mapped file has {length} bytes, and had {} when it was mapped: another program changed it; build it again",
            self.length
        );
        Err(Error::new(ErrorKind::Corrupt, message))
    }

    /// Makes everything durable and takes the mark away; `keys` is asked once no insert is under way.
    pub(crate) fn sync(&self, keys: impl FnOnce() -> u64) -> Result<()> {
        let mut gates = self.close_gates();
        match *gates[0] {
            State::Clean => return Ok(()),
            State::Failed => return Err(failed()),
            State::Dirty => {}
        }
        let synced = self.sync_alone(keys());
        let state = if synced.is_ok() { State::Clean } else { State::Failed };
        gates.iter_mut().for_each(|gate| **gate = state);
        synced
    }

    /// With all gates closed.
    fn sync_alone(&self, keys: u64) -> Result<()> {
        self.check_length()?;
        let mut sums = self.sums();
        for (chunk, sum) in sums.iter_mut().enumerate() {
            if self.states[chunk].load(Ordering::Acquire) == CHANGED {
                // SAFETY: writers hold a gate, and all gates are closed.
                *sum = crc32c::crc32c(unsafe { self.bytes(chunk) });
            }
        }
        faults::before("flush").and_then(|()| self.map.flush()).map_err(|e| Error::io("syncing a mapped filter", e))?;
        faults::synced();
        self.ledger.settle(&self.file, &sums, keys)?;
        for state in &self.states {
            // A damaged chunk stays damaged: its sum is still that of what it was.
            let _ = state.compare_exchange(CHANGED, GOOD, Ordering::Release, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether the file is marked as unfinished: something was inserted since the last sync.
    pub(crate) fn is_dirty(&self) -> bool {
        *self.gates[0].0.read().unwrap_or_else(PoisonError::into_inner) != State::Clean
    }

    /// The first damaged chunk among those that were touched.
    pub(crate) fn damage(&self) -> Option<Damage> {
        let chunk = self.states.iter().position(|state| state.load(Ordering::Relaxed) == BAD)?;
        let words = CHUNK_WORDS.min(self.words - chunk * CHUNK_WORDS);
        let offset = self.offset + (chunk * CHUNK_BYTES) as u64;
        Some(Damage { part: 0, chunk: chunk as u64, offset, length: words as u64 * 8 })
    }

    /// Checks every chunk that was not touched yet; tells after each.
    pub(crate) fn verify_all(&self, mut done: impl FnMut(u64, u64)) {
        for chunk in 0..self.states.len() {
            self.admit(chunk * CHUNK_WORDS);
            done(chunk as u64 + 1, self.states.len() as u64);
        }
    }
}

#[cold]
fn failed() -> Error {
    Error::new(
        ErrorKind::Dirty,
        "an earlier sync of this mapped filter failed, and what the disk has of it is not known: the file stays marked as \
         unfinished; close it, and recover it or build it again",
    )
}

/// An insert under way: the file is marked, and no sync can begin.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    store: &'a MappedMut,
    _gate: RwLockReadGuard<'a, State>,
}

impl<'a> Writing<'a> {
    /// Whether the chunk of a word is good; from now on it counts as changed.
    #[inline]
    pub(crate) fn claim(&self, word: usize) -> bool {
        let chunk = word / CHUNK_WORDS;
        let Some(state) = self.store.states.get(chunk) else { return false };
        match state.load(Ordering::Acquire) {
            CHANGED => return true,
            GOOD => {}
            UNKNOWN if self.store.verify(chunk) => {}
            _ => return false,
        }
        // Release: whoever sees CHANGED is also after whoever checked the chunk.
        state.store(CHANGED, Ordering::Release);
        true
    }

    /// The words, to set bits in those that were claimed.
    #[inline(always)]
    pub(crate) fn atomics(&self) -> &'a [AtomicU64] {
        self.store.atomics()
    }
}

impl fmt::Debug for MappedMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedMut")
            .field("words", &self.words)
            .field("offset", &self.offset)
            .field("dirty", &self.is_dirty())
            .field("waiting", &self.waiting.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

impl Store for MappedMut {}

impl Sealed for MappedMut {
    type Read<'a> = &'a [AtomicU64];
    type Count = Counter;
    const CHECKED: bool = true;

    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        self.atomics()
    }

    #[inline]
    fn admit(&self, word: usize) -> bool {
        let chunk = word / CHUNK_WORDS;
        match self.states.get(chunk).map(|state| state.load(Ordering::Acquire)) {
            Some(GOOD | CHANGED) => true,
            Some(UNKNOWN) => self.verify(chunk),
            _ => false,
        }
    }

    #[inline(always)]
    fn admitted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

/// Where tests see each step that the disk takes, and let it fail.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::RefCell;
    use std::io;

    /// Told the name of a step before it is taken; "synced" after one has made everything so far durable.
    pub(crate) type Hook = Box<dyn FnMut(&'static str) -> io::Result<()>>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    pub(crate) fn watch(hook: Option<Hook>) {
        HOOK.with(|slot| *slot.borrow_mut() = hook);
    }

    pub(crate) fn before(step: &'static str) -> io::Result<()> {
        HOOK.with(|slot| slot.borrow_mut().as_mut().map_or(Ok(()), |hook| hook(step)))
    }

    pub(crate) fn synced() {
        before("synced").expect("a sync that is over cannot fail");
    }
}

/// Outside of tests nothing looks.
#[cfg(not(test))]
pub(crate) mod faults {
    #[inline(always)]
    pub(crate) fn before(_: &'static str) -> std::io::Result<()> {
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn synced() {}
}
