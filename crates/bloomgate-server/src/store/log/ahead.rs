//! Room made ahead: zeros written behind the end of a segment, so that a batch overwrites what the file already has.
//!
//! Overwriting is what makes `always` fast: a sync of appended bytes also writes the file's new length and extents through
//! the file system's journal (0.28 ms here), a sync of overwritten ones does not (0.18 ms). Space that was only reserved
//! (fallocate) does not help, its extents change when they are first written. A thread of its own writes the zeros, in
//! small pieces, so that a commit never waits for more than one piece.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::super::disk::{DiskFile, write_all};
use super::lock;

/// Zeros per write: what a commit may have to wait for (about 0.1 ms).
const PIECE: usize = 256 << 10;

/// The room of one segment.
pub(super) struct Room {
    /// Not the log's own descriptor: an error that a sync here reports must be reported to the log too, and the kernel tells
    /// each descriptor once.
    file: Box<dyn DiskFile>,
    /// No zeros past here.
    limit: u64,
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    /// Everything before this is written, by the log or as zeros.
    end: u64,
    /// Zeros are wanted up to here.
    wanted: u64,
    /// The thread has been told so and is not done.
    ordered: bool,
    /// The disk took no zeros: there will be no more of them in this segment.
    refused: bool,
    /// Zeros are being written at `end`.
    busy: bool,
}

impl Room {
    pub fn new(file: Box<dyn DiskFile>, end: u64, limit: u64) -> Arc<Room> {
        let state = Mutex::new(State { end, wanted: end, ordered: false, refused: false, busy: false });
        Arc::new(Room { file, limit, state, freed: Condvar::new() })
    }

    /// To be called before bytes are written up to `end`: no zeros will follow them.
    pub fn take(&self, end: u64) {
        let mut state = lock(&self.state);
        if end > state.end {
            while state.busy {
                state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.end = state.end.max(end);
        }
    }

    fn fill(&self) {
        let zeros = vec![0; PIECE];
        loop {
            let mut state = lock(&self.state);
            if state.refused || state.end >= state.wanted {
                state.ordered = false;
                break;
            }
            state.busy = true;
            let from = state.end;
            let piece = zeros.len().min((state.wanted - from) as usize);
            drop(state);
            let wrote = write_all(&*self.file, &zeros[..piece], from);
            let mut state = lock(&self.state);
            state.busy = false;
            self.freed.notify_all();
            match wrote {
                Ok(()) => state.end = from + piece as u64,
                // A full disk, most likely: the log will find out by itself, and needs no room to do so.
                Err(_) => state.refused = true,
            }
        }
        // So that the length and the extents are not left to the next commit. Errors: see `file`.
        let _ = self.file.sync_data();
    }
}

/// The thread that makes room.
pub(super) struct Ahead {
    jobs: Sender<Arc<Room>>,
    thread: JoinHandle<()>,
    step: u64,
}

impl Ahead {
    /// `None` if the thread cannot be started: the log works without.
    pub fn start(step: u64) -> Option<Ahead> {
        let (jobs, queue): (Sender<Arc<Room>>, Receiver<Arc<Room>>) = channel();
        let work = move || queue.into_iter().for_each(|room| room.fill());
        let thread = std::thread::Builder::new().name("bloomgate-room".into()).spawn(work).ok()?;
        Some(Ahead { jobs, thread, step })
    }

    /// Orders more room if less than half a step is left behind `position`.
    pub fn order(&self, room: &Arc<Room>, position: u64) {
        let mut state = lock(&room.state);
        if state.ordered
            || state.refused
            || state.end >= room.limit
            || state.end.saturating_sub(position) > self.step / 2
        {
            return;
        }
        state.wanted = (state.end + self.step).min(room.limit);
        state.ordered = true;
        drop(state);
        // The thread ends only with this value.
        let _ = self.jobs.send(room.clone());
    }

    /// Ends the thread.
    pub fn end(self) {
        drop(self.jobs);
        let _ = self.thread.join();
    }
}
