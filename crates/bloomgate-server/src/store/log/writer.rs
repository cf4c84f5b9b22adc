//! The writing side of the log: from memory to the operating system, from there to the disk, and what happens when
//! either fails.
//!
//! After a failed write or sync nothing is known about the file: the kernel may have dropped the pages and will report
//! success next time ("fsyncgate"). So a file that failed is never used again. All bytes that are not known to be durable
//! are still in memory; they go to a new segment that says "cut": what the failed one holds from here on is void.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Instant, SystemTime};

use super::super::disk::{DiskFile, write_all};
use super::ahead::{Ahead, Room};
use super::error::LogError;
use super::frame::{self, Header};
use super::segment::{FILE_HEADER, FileHeader, new_salt};
use super::{Chunk, Fsync, READ_ONLY, Segment, Shared, WRITABLE, lock};

/// The file being written, and the bytes that are not known to be durable.
#[derive(Default)]
pub(crate) struct Writer {
    /// `None` before the first batch, and after a failure.
    file: Option<Open>,
    /// Chunks being written (kept for its memory).
    taken: Vec<Chunk>,
    /// A written buffer on its way back to the queue.
    spare: Vec<u8>,
    /// Frames that were written after the running sync began.
    written: Vec<u8>,
    /// Frames that the running sync makes durable.
    syncing: Vec<u8>,
    /// Frames of a file that failed.
    unsaved: Vec<u8>,
    failed: bool,
    ahead: Option<Ahead>,
}

struct Open {
    file: Arc<dyn DiskFile>,
    first: u64,
    position: u64,
    salted: u32,
    /// The last mark in it.
    marked: u64,
    room: Option<Arc<Room>>,
}

impl Open {
    fn write(&mut self, frames: &[u8]) -> std::io::Result<()> {
        let end = self.position + frames.len() as u64;
        if let Some(room) = &self.room {
            room.take(end);
        }
        write_all(&*self.file, frames, self.position)?;
        self.position = end;
        Ok(())
    }
}

/// The most that an idle log keeps of each buffer.
const KEPT_BUFFER: usize = 4 << 20;

/// Empties a buffer, and gives its memory back if it is large.
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT_BUFFER);
}

impl Shared {
    /// Writes what waits from the calling thread, unless someone is writing: they will take it.
    pub(super) fn write_here(&self) {
        // Each round takes everything that waits. Past a few rounds others produce faster than this one writes.
        for _ in 0..4 {
            if self.written.load(SeqCst) >= self.appended.load(SeqCst) {
                return;
            }
            let Ok(mut writer) = self.writer.try_lock() else { return };
            if writer.failed || !self.take(&mut writer, false) {
                break;
            }
            if let Err(error) = self.write_taken(&mut writer) {
                self.fail(&mut writer, &error);
            }
            // Whoever appended and found the lock taken relies on its holder to look again after letting it go.
        }
        self.wake_thread();
    }

    /// What the log thread does after it held the lock: someone may have found it taken and gone away.
    pub(super) fn look_again(&self) {
        if self.options.fsync != Fsync::Always && self.written.load(SeqCst) < self.appended.load(SeqCst) {
            self.write_here();
        }
    }

    /// Moves what waits into `writer.taken`. New files are left to the log thread: they take syncs.
    fn take(&self, writer: &mut Writer, new_files: bool) -> bool {
        let mut queue = lock(&self.queue);
        if !new_files && queue.has_new_segment() {
            return false;
        }
        std::mem::swap(&mut queue.pending, &mut writer.taken);
        if queue.spare.capacity() < writer.spare.capacity() {
            std::mem::swap(&mut queue.spare, &mut writer.spare);
        }
        true
    }

    fn write_taken(&self, writer: &mut Writer) -> Result<(), LogError> {
        let mut taken = std::mem::take(&mut writer.taken);
        let mut result = Ok(());
        for chunk in &mut taken {
            if result.is_ok() {
                result = self.write_chunk(writer, chunk);
            } else {
                writer.unsaved.extend_from_slice(&chunk.frames);
            }
            if chunk.frames.capacity() > writer.spare.capacity() {
                std::mem::swap(&mut writer.spare, &mut chunk.frames);
                empty(&mut writer.spare);
            }
        }
        taken.clear();
        writer.taken = taken;
        result
    }

    /// Writes a chunk. If that fails, its frames are in `writer.unsaved`.
    fn write_chunk(&self, writer: &mut Writer, chunk: &mut Chunk) -> Result<(), LogError> {
        let mut result = Ok(());
        if let Some(header) = chunk.starts.take() {
            result = self.next_file(writer, &header);
        }
        if chunk.frames.is_empty() {
            return result;
        }
        let written = result.and_then(|()| match &mut writer.file {
            Some(open) => {
                let wrote = open.write(&chunk.frames);
                wrote.map_err(|e| LogError::io("write the log", &self.place.path(open.first), e))?;
                if let (Some(ahead), Some(room)) = (&writer.ahead, &open.room) {
                    ahead.order(room, open.position);
                }
                Ok((open.first, open.position))
            }
            None => Err(LogError::ReadOnly { why: "the log has no file to write to".into() }),
        });
        match written {
            Ok((first, position)) => {
                self.note_bytes(first, position);
                self.unsynced_bytes.fetch_add(chunk.frames.len() as u64, SeqCst);
                if self.options.fsync == Fsync::Never {
                    self.held.fetch_sub(chunk.frames.len() as u64, SeqCst);
                } else {
                    writer.written.extend_from_slice(&chunk.frames);
                }
                self.written.store(chunk.last, SeqCst);
                self.announce(false);
                Ok(())
            }
            Err(error) => {
                // What comes before it must come before it in the next file too.
                let before = std::mem::take(&mut writer.written);
                writer.unsaved.extend_from_slice(&before);
                writer.unsaved.extend_from_slice(&chunk.frames);
                Err(error)
            }
        }
    }

    fn note_bytes(&self, first: u64, bytes: u64) {
        if let Some(segment) = lock(&self.segments).iter_mut().rfind(|s| s.first == first) {
            segment.bytes = bytes;
        }
    }

    /// Syncs the current file and goes on in a new one.
    fn next_file(&self, writer: &mut Writer, header: &FileHeader) -> Result<(), LogError> {
        if let Some(open) = &writer.file {
            let path = self.place.path(open.first);
            let target = self.written.load(SeqCst);
            let started = self.now();
            self.timed_sync(&*open.file).map_err(|e| LogError::io("sync the log", &path, e))?;
            self.held.fetch_sub(writer.written.len() as u64, SeqCst);
            empty(&mut writer.written);
            self.now_durable(target, started);
        }
        self.open_file(writer, header, &[])
    }

    fn open_file(&self, writer: &mut Writer, header: &FileHeader, frames: &[u8]) -> Result<(), LogError> {
        let start = Instant::now();
        let file = self.place.create(header, frames)?;
        self.note_sync(start.elapsed());
        let position = (FILE_HEADER + frames.len()) as u64;
        let salted = frame::salted(&header.salt);
        let room = self.room(writer, header.first, position);
        writer.file = Some(Open { file, first: header.first, position, salted, marked: header.first - 1, room });
        let mut segments = lock(&self.segments);
        segments.retain(|s| s.first != header.first);
        segments.push(Segment { first: header.first, bytes: position });
        Ok(())
    }

    fn room(&self, writer: &mut Writer, first: u64, position: u64) -> Option<Arc<Room>> {
        if self.options.fsync != Fsync::Always || self.options.room_bytes == 0 {
            return None;
        }
        if writer.ahead.is_none() {
            writer.ahead = Ahead::start(self.options.room_bytes);
        }
        // Without it the log is slower, not less safe.
        let file = self.place.folder.disk().open_to_write(&self.place.path(first)).ok()?;
        let room = Room::new(file, position, self.options.segment_bytes);
        writer.ahead.as_ref()?.order(&room, position);
        Some(room)
    }

    /// Ends the thread that makes room.
    pub(super) fn end_room(&self) {
        let ahead = lock(&self.writer).ahead.take();
        if let Some(ahead) = ahead {
            ahead.end();
        }
    }

    fn timed_sync(&self, file: &dyn DiskFile) -> std::io::Result<()> {
        let start = Instant::now();
        self.sync_began.store(self.now(), SeqCst);
        self.unsynced_bytes.store(0, SeqCst);
        let result = file.sync_data();
        self.syncs.fetch_add(1, SeqCst);
        self.note_sync(start.elapsed());
        result
    }

    fn now_durable(&self, sequence: u64, as_of: u64) {
        self.synced.store(sequence, SeqCst);
        self.durable_at.fetch_max(as_of, SeqCst);
        self.announce(false);
    }

    /// Writes everything that waits, new files too. Only the log thread calls it, as all that follow.
    pub(super) fn write_all_pending(&self) {
        let mut writer = lock(&self.writer);
        if writer.failed {
            return;
        }
        self.take(&mut writer, true);
        if let Err(error) = self.write_taken(&mut writer) {
            self.fail(&mut writer, &error);
        }
    }

    /// Makes durable what was written up to now. Writers go on meanwhile.
    pub(super) fn sync(&self) {
        let mut writer = lock(&self.writer);
        if writer.failed {
            return;
        }
        let Some(open) = &writer.file else { return };
        let (file, path) = (open.file.clone(), self.place.path(open.first));
        let target = self.written.load(SeqCst);
        let started = self.now();
        let writer_fields = &mut *writer;
        std::mem::swap(&mut writer_fields.written, &mut writer_fields.syncing);
        drop(writer);
        self.look_again();
        // Before it says so: whoever looks in between must not take the last one for one that has hung since.
        self.sync_began.store(self.now(), SeqCst);
        self.syncing.store(true, SeqCst);
        let result = self.timed_sync(&*file);
        self.syncing.store(false, SeqCst);
        let mut writer = lock(&self.writer);
        let mut syncing = std::mem::take(&mut writer.syncing);
        match result {
            Ok(()) => {
                self.held.fetch_sub(syncing.len() as u64, SeqCst);
                empty(&mut syncing);
                writer.syncing = syncing;
                self.now_durable(target, started);
            }
            Err(error) => {
                // Order: what was being synced, then what was written since, then what another failure left.
                syncing.extend_from_slice(&std::mem::take(&mut writer.written));
                syncing.extend_from_slice(&std::mem::take(&mut writer.unsaved));
                writer.unsaved = syncing;
                self.fail(&mut writer, &LogError::io("sync the log", &path, error));
            }
        }
    }

    /// Says in the file that everything in it is durable, if it is and was not said: damage to the last batches can then
    /// be told from a torn write.
    pub(super) fn mark(&self) {
        let mut writer = lock(&self.writer);
        let synced = self.synced.load(SeqCst);
        if writer.failed || self.written.load(SeqCst) != synced {
            return;
        }
        let Some(open) = &mut writer.file else { return };
        if open.marked == synced {
            return;
        }
        let wrote = open.write(&Header::mark(synced).seal(open.salted));
        let first = open.first;
        match wrote {
            Ok(()) => {
                open.marked = synced;
                let position = open.position;
                self.note_bytes(first, position);
            }
            Err(error) => self.fail(&mut writer, &LogError::io("write the log", &self.place.path(first), error)),
        }
    }

    /// Turns the log read-only.
    fn fail(&self, writer: &mut Writer, error: &LogError) {
        writer.file = None;
        writer.failed = true;
        let before = std::mem::take(&mut writer.written);
        if !before.is_empty() {
            let after = std::mem::replace(&mut writer.unsaved, before);
            writer.unsaved.extend_from_slice(&after);
        }
        let _queue = lock(&self.queue);
        self.errors.fetch_add(1, SeqCst);
        let mut trouble = lock(&self.trouble);
        let since = trouble.take().map_or_else(SystemTime::now, |(since, _)| since);
        *trouble = Some((since, error.to_string()));
        drop(trouble);
        self.state.store(READ_ONLY, SeqCst);
        self.announce(true);
    }

    pub(super) fn has_failed(&self) -> bool {
        lock(&self.writer).failed
    }

    /// Tries to go on after a failure: all bytes that are not known to be durable go to a new segment.
    pub(super) fn recover(&self) {
        let mut writer = lock(&self.writer);
        if !writer.failed {
            return;
        }
        let mut queue = lock(&self.queue);
        let last = queue.next - 1;
        for chunk in queue.pending.drain(..) {
            writer.unsaved.extend_from_slice(&chunk.frames);
        }
        drop(queue);
        match self.start_over(&mut writer, last) {
            Ok(()) => {}
            Err(error) => self.fail(&mut writer, &error),
        }
    }

    /// Goes on in a new segment that begins with what is not saved, up to this sequence.
    fn start_over(&self, writer: &mut Writer, last: u64) -> Result<(), LogError> {
        let started = self.now();
        let mut base = self.synced.load(SeqCst);
        if self.options.fsync == Fsync::Never {
            // Its written batches are not kept in memory: they must be safe before a segment follows them.
            self.sync_last_by_name()?;
            base = self.written.load(SeqCst);
        }
        let header = FileHeader { salt: new_salt(), first: base + 1, cut: true };
        let salted = frame::salted(&header.salt);
        let mut frames = std::mem::take(&mut writer.unsaved);
        frame::reseal(&mut frames, salted, base);
        let made = self.open_file(writer, &header, &frames);
        if let Err(error) = made {
            writer.unsaved = frames;
            return Err(error);
        }
        let mut queue = lock(&self.queue);
        queue.salted = Some(salted);
        queue.first = header.first;
        queue.cut = false;
        queue.fill = frames.len() as u64 + queue.bring_over(salted, last);
        writer.failed = false;
        self.held.fetch_sub(frames.len() as u64, SeqCst);
        self.written.store(last, SeqCst);
        self.synced.store(last, SeqCst);
        self.durable_at.fetch_max(started, SeqCst);
        self.recoveries.fetch_add(1, SeqCst);
        *lock(&self.trouble) = None;
        self.state.store(WRITABLE, SeqCst);
        drop(queue);
        self.announce(true);
        Ok(())
    }

    fn sync_last_by_name(&self) -> Result<(), LogError> {
        let Some(first) = lock(&self.segments).last().map(|s| s.first) else { return Ok(()) };
        let path = self.place.path(first);
        let synced = self.place.folder.disk().open(&path).and_then(|file| file.sync_data());
        synced.map_err(|e| LogError::io("sync the log", &path, e))
    }
}
