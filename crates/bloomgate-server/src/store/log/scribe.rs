//! The thread that writes in place of the reactors while the disk is busy.
//!
//! A reactor hands its batches to the operating system itself: that is a memcpy into the page cache, 5 us, and no other
//! thread has to wake up. But write(2) waits when the file is being synced (7 ms here, with 16 MB to sync) or when too
//! many dirty pages wait for the disk (80 ms, beside a snapshot), and everybody whose connection is on that reactor would
//! wait with it, lookups too. Then this thread writes, the replies of writers wait for it, and lookups go on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::Shared;

/// A write that took this long was no memcpy.
const SLOW: Duration = Duration::from_millis(1);
/// For so long after a slow write, theirs or the thread's, the reactors write no more: ten lookups in a thousand would see
/// one otherwise.
const SPARED_MS: u64 = 1_000;

/// How the thread is told to write.
#[derive(Default)]
pub(super) struct Scribe {
    thread: OnceLock<Thread>,
    asked: AtomicBool,
    ended: AtomicBool,
}

impl Scribe {
    fn ask(&self) {
        self.asked.store(true, SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Ends the thread.
    pub fn end(&self) {
        self.ended.store(true, SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// What the thread does.
pub(super) fn run(shared: &Shared) {
    let scribe = &shared.scribe;
    // Replies of writers wait for it; lookups, which do not, go first where cores are few.
    crate::net::step_back(10);
    // Set once, here. Who asked before that is seen below.
    let _ = scribe.thread.set(std::thread::current());
    while !scribe.ended.load(SeqCst) {
        match scribe.asked.swap(false, SeqCst) {
            true => shared.write_watched(),
            false => std::thread::park(),
        }
    }
}

impl Shared {
    /// Writes what waits: here if the disk is at leisure, else by the thread.
    pub(super) fn write_soon(&self) {
        if self.syncing.load(SeqCst) || self.now() < self.slow_until.load(SeqCst) {
            return self.scribe.ask();
        }
        self.write_watched();
    }

    /// Writes what waits, and spares the reactors for a while if that took long, whoever did it: a reactor that tried
    /// once a second whether the disk is at leisure again was stopped for 145 ms each time in a storm of adds.
    fn write_watched(&self) {
        let begun = Instant::now();
        self.write_here();
        if begun.elapsed() >= SLOW {
            self.slow_until.store(self.now() + SPARED_MS, SeqCst);
        }
    }
}
