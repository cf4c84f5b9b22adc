//! The log: batches of bytes in order, durable when the policy says so.
//!
//! A batch passes three lines: **appended** (it has its sequence and lies in memory), **written** (the operating system has
//! it: it survives `kill -9`), **synced** (the disk has it: it survives the power cord). [`Log::append`] never waits for
//! a disk. A reactor calls [`Log::flush`] once at the end of its turn, and sends the replies of the turn when
//! [`Log::gate`] is open for their sequence.
//!
//! Locks, always taken in this order: `writer` (held over write(2) and over the making of files), `queue` (held for a
//! memcpy). Who holds `writer` takes everything that waits, so a busy log has few large writes and an idle one has
//! no hand-over between threads. While the disk is busy the reactors leave their writes to a [thread](scribe), so that no
//! lookup waits for a disk.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

mod ahead;
pub(crate) mod error;
pub(crate) mod frame;
mod queue;
pub(crate) mod read;
mod scribe;
pub(crate) mod segment;
mod thread;
mod writer;

use error::LogError;
use frame::{Header, MAX_PAYLOAD};
use queue::{Chunk, Queue};
use scribe::Scribe;
use segment::Place;
use writer::Writer;

/// When a write counts as safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// A reply waits until its batch is on the disk.
    Always,
    /// The log is synced four times a second; replies wait only when the disk falls behind by half a second.
    #[default]
    EverySecond,
    /// The operating system decides when bytes reach the disk. A reply still waits until it has them. (The log syncs each
    /// quarter of a segment in the background, only so that closing a segment does not stall.)
    Never,
}

/// How a log behaves.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// When a write counts as safe.
    pub fsync: Fsync,
    /// A segment that has this many bytes is closed and the next one begun.
    pub segment_bytes: u64,
    /// How many bytes may wait for the disk before [`Log::append`] refuses. They are kept in memory until they are
    /// durable, so that a disk error loses none.
    pub max_pending_bytes: u64,
    /// Under `always`: how many bytes of zeros are written ahead of the end of a segment, to make syncs cheap (0: none).
    pub room_bytes: u64,
    /// How long after a disk error it tries to go on, again and again.
    pub retry_every: Duration,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            fsync: Fsync::default(),
            segment_bytes: 64 << 20,
            max_pending_bytes: 64 << 20,
            room_bytes: 4 << 20,
            retry_every: Duration::from_secs(1),
        }
    }
}

/// Whether a reply may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Now.
    Open,
    /// Not yet: ask again when [`Log::watch`] moves.
    Wait,
    /// The batch could not be made safe: answer with an error instead ([`Log::failure`]).
    Failed,
}

/// Whether the log takes batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogState {
    /// It does.
    Writable,
    /// A disk error; it tries again every second.
    ReadOnly {
        /// When it began.
        since: SystemTime,
        /// What failed.
        why: String,
    },
    /// [`Log::close`] was called.
    Closed,
}

/// What happened to a log since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogStatistics {
    /// The last sequence handed out.
    pub appended: u64,
    /// The last sequence the operating system has.
    pub written: u64,
    /// The last sequence the disk has.
    pub synced: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// How many segments there are.
    pub segments: u64,
    /// Bytes that wait for the disk, in memory.
    pub pending_bytes: u64,
    /// How often the log was synced.
    pub syncs: u64,
    /// The slowest sync.
    pub slowest_sync: Duration,
    /// How long ago the disk had everything.
    pub lag: Duration,
    /// Disk errors.
    pub errors: u64,
    /// How often the log went on after a disk error.
    pub recoveries: u64,
    /// Bytes of a torn write that were left out when the log was opened.
    pub torn_bytes: u64,
}

/// An open log. Dropping it closes it.
pub struct Log {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

const WRITABLE: u8 = 0;
const READ_ONLY: u8 = 1;
const CLOSED: u8 = 2;

/// How long the disk may be behind before replies of `every-second` wait for it.
const KEEPS_UP: Duration = Duration::from_millis(500);
/// What cannot be expected to be durable within this time is not acknowledged before it is: the promise is one second, and
/// threads do not wake up at once.
const SAFE_WITHIN: Duration = Duration::from_millis(800);

pub(crate) struct Shared {
    place: Place,
    options: LogOptions,
    queue: Mutex<Queue>,
    writer: Mutex<Writer>,
    /// All segments, oldest first; the last one is the one being written.
    segments: Mutex<Vec<Segment>>,
    /// Wakes the log thread; goes with `queue`.
    wake: Condvar,
    asleep: AtomicBool,
    /// Someone left work to the log thread.
    asked: AtomicBool,

    appended: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    state: AtomicU8,
    trouble: Mutex<Option<(SystemTime, String)>>,
    /// Someone was told to wait: the next progress must be announced.
    awaited: AtomicBool,
    moved: watch::Sender<u64>,

    /// Milliseconds from `born` to the last moment of which everything is durable.
    durable_at: AtomicU64,
    born: Instant,
    /// Bytes kept in memory: waiting to be written, or written and not yet durable.
    held: AtomicU64,

    /// Someone needs everything up to here to be durable, whatever the policy.
    sync_wanted: AtomicU64,
    /// Bytes written since the last sync began.
    unsynced_bytes: AtomicU64,
    /// The disk is being synced: a write(2) to the same file may have to wait for it.
    syncing: AtomicBool,
    /// Milliseconds from `born` to when the last sync began.
    sync_began: AtomicU64,
    /// How many milliseconds a sync is expected to take: what the slowest of the last few took.
    expected_sync: AtomicU64,
    /// Milliseconds from `born` up to which writes are left to the writing thread, because one took long.
    slow_until: AtomicU64,
    scribe: Scribe,

    syncs: AtomicU64,
    slowest_sync: AtomicU64,
    errors: AtomicU64,
    recoveries: AtomicU64,
    torn_bytes: u64,
}

/// A file of the log that exists.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub first: u64,
    pub bytes: u64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a log that was read ends, and what is there.
pub(crate) struct Found {
    pub last: u64,
    pub cut: bool,
    pub torn_bytes: u64,
    pub segments: Vec<Segment>,
}

impl Log {
    pub(crate) fn start(place: Place, options: LogOptions, found: Found) -> Result<Log, LogError> {
        let path = place.folder.path().to_path_buf();
        let queue = Queue {
            pending: Vec::new(),
            spare: Vec::new(),
            next: found.last + 1,
            salted: None,
            cut: found.cut,
            fill: 0,
            first: found.last + 1,
            closing: false,
        };
        let shared = Arc::new(Shared {
            place,
            options,
            queue: Mutex::new(queue),
            writer: Mutex::new(Writer::default()),
            segments: Mutex::new(found.segments),
            wake: Condvar::new(),
            asleep: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            appended: AtomicU64::new(found.last),
            written: AtomicU64::new(found.last),
            synced: AtomicU64::new(found.last),
            state: AtomicU8::new(WRITABLE),
            trouble: Mutex::new(None),
            awaited: AtomicBool::new(false),
            moved: watch::Sender::new(0),
            durable_at: AtomicU64::new(0),
            born: Instant::now(),
            held: AtomicU64::new(0),
            sync_wanted: AtomicU64::new(0),
            unsynced_bytes: AtomicU64::new(0),
            syncing: AtomicBool::new(false),
            sync_began: AtomicU64::new(0),
            expected_sync: AtomicU64::new(0),
            slow_until: AtomicU64::new(0),
            scribe: Scribe::default(),
            syncs: AtomicU64::new(0),
            slowest_sync: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            recoveries: AtomicU64::new(0),
            torn_bytes: found.torn_bytes,
        });
        let log = Log { shared, threads: Mutex::default() };
        for (name, work) in [("bloomgate-log", thread::run as fn(&Shared)), ("bloomgate-write", scribe::run)] {
            let shared = log.shared.clone();
            let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
                // Replies wait for these threads: a server that lost one would hang for ever. One that ends is started
                // again, and has everything it acknowledged.
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&shared))).is_err() {
                    std::process::abort();
                }
            });
            lock(&log.threads).push(thread.map_err(|e| LogError::io("start the log's threads", &path, e))?);
        }
        Ok(log)
    }

    /// Gives a batch its sequence and its place in the log. Never waits for the disk.
    ///
    /// An error means that the batch is not in the log and must not be applied.
    pub fn append(&self, payload: &[u8]) -> Result<u64, LogError> {
        self.put(payload, true)
    }

    /// [`append`](Self::append) for a batch whose changes are made already, after [`check_room`](Self::check_room): a disk
    /// that has failed since does not keep it out, nor do others who took the room. It reaches the disk when that works
    /// again; until then its gate says that it failed.
    ///
    /// An error means that the log is closed.
    pub fn append_applied(&self, payload: &[u8]) -> Result<u64, LogError> {
        self.put(payload, false)
    }

    /// Refuses what [`append`](Self::append) would refuse now: a batch of so many bytes.
    pub fn check_room(&self, payload: usize) -> Result<(), LogError> {
        if payload > MAX_PAYLOAD {
            return Err(LogError::TooLarge { bytes: payload });
        }
        if !self.is_writable() {
            return Err(self.failure());
        }
        self.shared.check_held(frame::frame_bytes(payload) as u64)
    }

    fn put(&self, payload: &[u8], may_refuse: bool) -> Result<u64, LogError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(LogError::TooLarge { bytes: payload.len() });
        }
        let payload_crc = crc32c::crc32c(payload);
        let bytes = frame::frame_bytes(payload.len()) as u64;
        let shared = &*self.shared;
        let mut queue = lock(&shared.queue);
        // Under the queue's lock: who turns the log read-only takes it too, so no batch slips in behind its back.
        let state = shared.state.load(SeqCst);
        if queue.closing || state == CLOSED || (may_refuse && state != WRITABLE) {
            drop(queue);
            return Err(self.failure());
        }
        if may_refuse {
            shared.check_held(bytes)?;
        }
        let salted = match queue.salted {
            Some(salted) if queue.fill < shared.options.segment_bytes => salted,
            _ => queue.begin_segment(),
        };
        let sequence = queue.next;
        let durable = shared.synced.load(SeqCst);
        if durable + 1 == sequence {
            shared.durable_at.store(shared.now(), SeqCst);
        }
        if queue.pending.is_empty() {
            let frames = std::mem::take(&mut queue.spare);
            queue.pending.push(Chunk { starts: None, frames, last: sequence });
        }
        if let Some(chunk) = queue.pending.last_mut() {
            let header = Header::batch(payload, payload_crc, sequence, durable);
            frame::push(&mut chunk.frames, &header, salted, payload);
            chunk.last = sequence;
        }
        queue.next += 1;
        queue.fill += bytes;
        shared.held.fetch_add(bytes, SeqCst);
        shared.appended.store(sequence, SeqCst);
        Ok(sequence)
    }

    /// Hands waiting batches to the operating system, or sees to it that someone does. To be called once after a turn's
    /// batches; costs two atomic loads if nothing waits and one write(2) if something does and the disk is at leisure.
    pub fn flush(&self) {
        let shared = &*self.shared;
        if shared.written.load(SeqCst) >= shared.appended.load(SeqCst) {
            return;
        }
        match shared.options.fsync {
            Fsync::EverySecond if shared.keeps_up() => shared.write_soon(),
            Fsync::Never => shared.write_soon(),
            // The log thread writes and syncs in one go; and a disk that is behind may make write(2) wait.
            Fsync::Always | Fsync::EverySecond => shared.wake_thread(),
        }
    }

    /// The last sequence handed out.
    pub fn appended(&self) -> u64 {
        self.shared.appended.load(SeqCst)
    }

    /// The operating system has everything up to here.
    pub fn written(&self) -> u64 {
        self.shared.written.load(SeqCst)
    }

    /// The disk has everything up to here.
    pub fn synced(&self) -> u64 {
        self.shared.synced.load(SeqCst)
    }

    /// Changes when a closed gate may have opened. First [`watch::Receiver::borrow_and_update`], then [`Log::gate`], then wait:
    /// progress is announced only to those who were told to wait since the last announcement.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.shared.moved.subscribe()
    }

    /// Whether a reply that depends on this sequence may be sent.
    pub fn gate(&self, sequence: u64) -> Gate {
        let shared = &*self.shared;
        if shared.is_safe(sequence) {
            return Gate::Open;
        }
        // First the wish to be told, then the last look: either this look sees the progress, or whoever makes it
        // sees the wish.
        shared.awaited.store(true, SeqCst);
        let writable = shared.state.load(SeqCst) == WRITABLE;
        match (shared.is_safe(sequence), writable) {
            (true, _) => Gate::Open,
            (false, true) => Gate::Wait,
            (false, false) => Gate::Failed,
        }
    }

    /// Whether replies wait for the disk itself, not for the operating system alone.
    pub fn waits_for_disk(&self) -> bool {
        self.shared.options.fsync == Fsync::Always
    }

    /// Why the log takes no batches, as an error for a client.
    pub fn failure(&self) -> LogError {
        match self.state() {
            LogState::ReadOnly { why, .. } => LogError::ReadOnly { why },
            LogState::Closed => LogError::Closed,
            LogState::Writable if lock(&self.shared.queue).closing => LogError::Closed,
            LogState::Writable => LogError::ReadOnly { why: "the disk failed a moment ago and works again".into() },
        }
    }

    /// Whether the log takes batches.
    pub fn state(&self) -> LogState {
        let trouble = lock(&self.shared.trouble).clone();
        match (self.shared.state.load(SeqCst), trouble) {
            (READ_ONLY, Some((since, why))) => LogState::ReadOnly { since, why },
            (CLOSED, _) => LogState::Closed,
            _ => LogState::Writable,
        }
    }

    /// Whether the log takes batches now: one atomic load.
    pub fn is_writable(&self) -> bool {
        self.shared.state.load(SeqCst) == WRITABLE
    }

    /// So much waits for the disk that writers should pause before they are refused.
    pub fn is_congested(&self) -> bool {
        self.shared.held.load(SeqCst) > self.shared.options.max_pending_bytes / 2
    }

    /// Waits until everything up to this sequence is durable, whatever the policy: not for a reactor.
    ///
    /// A snapshot calls it before its manifest, with the highest sequence any of its images holds. Otherwise a power cut could
    /// leave a log that is older than the images, and new batches would get sequences that an image claims to hold.
    pub fn sync_through(&self, sequence: u64) -> Result<(), LogError> {
        let shared = &*self.shared;
        let sequence = sequence.min(self.appended());
        shared.sync_wanted.fetch_max(sequence, SeqCst);
        while self.synced() < sequence {
            if shared.state.load(SeqCst) != WRITABLE {
                return Err(self.failure());
            }
            shared.wake_thread();
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Closes the current segment: the next batch is the first of a new one. Returns the last sequence before that.
    pub fn rotate(&self) -> Result<u64, LogError> {
        let shared = &*self.shared;
        let mut queue = lock(&shared.queue);
        if shared.state.load(SeqCst) != WRITABLE || queue.closing {
            drop(queue);
            return Err(self.failure());
        }
        let last = queue.next - 1;
        if queue.salted.is_none() || queue.first <= last {
            queue.begin_segment();
        }
        drop(queue);
        shared.wake_thread();
        Ok(last)
    }

    /// [`rotate`](Self::rotate), and waits until the new segment is there: what is in the others is durable then, and nothing is
    /// written to them any more. The first sequence of the new one. Not for a reactor.
    pub fn seal(&self) -> Result<u64, LogError> {
        let shared = &*self.shared;
        let errors = shared.errors.load(SeqCst);
        let first = self.rotate()? + 1;
        while !lock(&shared.segments).iter().any(|segment| segment.first == first) {
            // After a failure the log goes on in another segment than that.
            if shared.state.load(SeqCst) != WRITABLE || shared.errors.load(SeqCst) != errors {
                return Err(self.failure());
            }
            shared.wake_thread();
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(first)
    }

    /// Removes the segments that hold only batches up to this one, oldest first; says how many. The segment being
    /// written stays, so a folder that was ever written to always has one.
    pub fn drop_through(&self, sequence: u64) -> Result<u64, LogError> {
        let shared = &*self.shared;
        let mut removed = 0;
        loop {
            let first = match lock(&shared.segments).as_slice() {
                [oldest, next, ..] if next.first <= sequence.saturating_add(1) => oldest.first,
                _ => break,
            };
            let path = shared.place.path(first);
            match shared.place.folder.disk().remove(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(LogError::io("remove a log file", &path, e));
                }
                _ => {}
            }
            lock(&shared.segments).retain(|s| s.first != first);
            removed += 1;
        }
        Ok(removed)
    }

    /// Bytes of the log on the disk.
    pub fn bytes(&self) -> u64 {
        lock(&self.shared.segments).iter().map(|s| s.bytes).sum()
    }

    /// What happened so far.
    pub fn statistics(&self) -> LogStatistics {
        let shared = &*self.shared;
        let synced = self.synced();
        let appended = self.appended();
        let behind = shared.now().saturating_sub(shared.durable_at.load(SeqCst));
        LogStatistics {
            appended,
            written: self.written(),
            synced,
            bytes: self.bytes(),
            segments: lock(&shared.segments).len() as u64,
            pending_bytes: shared.held.load(SeqCst),
            syncs: shared.syncs.load(SeqCst),
            slowest_sync: Duration::from_micros(shared.slowest_sync.load(SeqCst)),
            lag: if synced >= appended { Duration::ZERO } else { Duration::from_millis(behind) },
            errors: shared.errors.load(SeqCst),
            recoveries: shared.recoveries.load(SeqCst),
            torn_bytes: shared.torn_bytes,
        }
    }

    /// Writes and syncs everything, and ends the log's thread. An error means that some batches could not be made safe.
    ///
    /// The next segment is begun, with nothing in it: the last one with batches must then be whole at the next start, and
    /// one that lost its end meanwhile is not taken for a torn write.
    pub fn close(&self) -> Result<(), LogError> {
        let mut queue = lock(&self.shared.queue);
        if !queue.closing && queue.salted.is_some() && queue.first < queue.next && self.is_writable() {
            queue.begin_segment();
        }
        drop(queue);
        self.end()
    }

    /// The same without another segment.
    fn end(&self) -> Result<(), LogError> {
        let threads = std::mem::take(&mut *lock(&self.threads));
        lock(&self.shared.queue).closing = true;
        self.shared.wake.notify_all();
        self.shared.scribe.end();
        for thread in threads {
            // A panic of one shows as batches that are not synced.
            let _ = thread.join();
        }
        if self.synced() < self.appended() {
            let trouble = lock(&self.shared.trouble).clone();
            let why = trouble.map_or_else(|| "its thread ended early".to_string(), |(_, why)| why);
            return Err(LogError::ReadOnly { why });
        }
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Whoever wants to know calls `close` first. This may be an end in disorder, after which a last write may be torn.
        let _ = self.end();
    }
}

impl Shared {
    /// Milliseconds since the log was opened.
    fn now(&self) -> u64 {
        self.born.elapsed().as_millis() as u64
    }

    /// Refuses a frame of so many bytes when too much waits for the disk.
    fn check_held(&self, bytes: u64) -> Result<(), LogError> {
        let (waiting, limit) = (self.held.load(SeqCst), self.options.max_pending_bytes);
        // One batch always fits, so that a limit below the size of a batch cannot stop the log for good.
        if waiting > 0 && waiting + bytes > limit { Err(LogError::Congested { waiting, limit }) } else { Ok(()) }
    }

    /// Everything was durable less than half a second ago, and what is written now will be soon.
    fn keeps_up(&self) -> bool {
        let now = self.now();
        now.saturating_sub(self.durable_at.load(SeqCst)) < KEEPS_UP.as_millis() as u64
            && self.durable_in(now) <= SAFE_WITHIN.as_millis() as u64
    }

    /// In how many milliseconds what is written now will be durable, if syncs take as long as they lately did. Without this, a disk
    /// whose syncs take 0.7 s could lose what was acknowledged 1.4 s ago: what is written just after one has begun waits for its end
    /// and for all of the next.
    fn durable_in(&self, now: u64) -> u64 {
        let (every, tick) = (thread::SYNC_EVERY.as_millis() as u64, thread::TICK.as_millis() as u64);
        let mut expected = self.expected_sync.load(SeqCst);
        let since = now.saturating_sub(self.sync_began.load(SeqCst));
        let until_next = if self.syncing.load(SeqCst) {
            expected = expected.max(since);
            expected.max(every) - since
        } else {
            every.saturating_sub(since)
        };
        until_next + tick + expected
    }

    /// Learns from a sync how long they take. One that is quick after a slow one counts a little: they come in turns.
    fn note_sync(&self, took: Duration) {
        self.slowest_sync.fetch_max(took.as_micros() as u64, SeqCst);
        let before = self.expected_sync.load(SeqCst);
        self.expected_sync.store((took.as_millis() as u64).max(before - before / 8), SeqCst);
    }

    fn is_safe(&self, sequence: u64) -> bool {
        if self.synced.load(SeqCst) >= sequence {
            return true;
        }
        let written = self.written.load(SeqCst) >= sequence;
        match self.options.fsync {
            Fsync::Always => false,
            Fsync::EverySecond => written && self.state.load(SeqCst) == WRITABLE && self.keeps_up(),
            Fsync::Never => written,
        }
    }

    fn wake_thread(&self) {
        // The thread looks at `asked` under the queue's lock before it sleeps: it sees it, or is seen asleep.
        self.asked.store(true, SeqCst);
        if self.asleep.load(SeqCst) {
            drop(lock(&self.queue));
            self.wake.notify_all();
        }
    }

    fn announce(&self, always: bool) {
        if self.awaited.swap(false, SeqCst) || always {
            self.moved.send_modify(|n| *n += 1);
        }
    }
}
