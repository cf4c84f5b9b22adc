//! The log's own thread: it syncs, makes new files, and tries again after a disk error.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::{CLOSED, Fsync, Shared, WRITABLE, lock};

/// `every-second` syncs four times a second: with a sync that takes as long again, the oldest batch that a power cut can
/// take is half a second old, and the promise is one second. Where syncs take longer, replies wait
/// ([`durable_in`](Shared::durable_in)).
pub(super) const SYNC_EVERY: Duration = Duration::from_millis(250);

/// How often it looks for batches that nobody flushed.
pub(super) const TICK: Duration = Duration::from_millis(50);

pub(super) fn run(shared: &Shared) {
    let mut last_sync = Instant::now();
    let mut next_try = Instant::now();
    loop {
        let closing = sleep(shared);
        if shared.has_failed() {
            if closing || Instant::now() >= next_try {
                shared.recover();
                next_try = Instant::now() + shared.options.retry_every;
            }
        } else {
            shared.write_all_pending();
            let unsynced = shared.written.load(SeqCst) > shared.synced.load(SeqCst);
            if unsynced && (closing || sync_is_due(shared, last_sync)) {
                last_sync = Instant::now();
                shared.sync();
            } else if !unsynced && idle(shared) {
                shared.mark();
            }
            if shared.has_failed() {
                next_try = Instant::now() + shared.options.retry_every;
            }
        }
        if closing {
            return end(shared);
        }
        shared.look_again();
    }
}

fn sync_is_due(shared: &Shared, last: Instant) -> bool {
    if shared.sync_wanted.load(SeqCst) > shared.synced.load(SeqCst) {
        return true;
    }
    match shared.options.fsync {
        Fsync::Always => true,
        // Early when much waits: it is kept in memory until then.
        Fsync::EverySecond => {
            last.elapsed() >= SYNC_EVERY || shared.held.load(SeqCst) > shared.options.max_pending_bytes / 4
        }
        Fsync::Never => shared.unsynced_bytes.load(SeqCst) >= shared.options.segment_bytes / 4,
    }
}

fn idle(shared: &Shared) -> bool {
    shared.written.load(SeqCst) == shared.appended.load(SeqCst)
}

/// Waits for work, at most a tick; says whether the log is being closed.
fn sleep(shared: &Shared) -> bool {
    let queue = lock(&shared.queue);
    // Before the look at `asked`: who asks after that look finds it asleep and wakes it.
    shared.asleep.store(true, SeqCst);
    let writable = shared.state.load(SeqCst) == WRITABLE;
    let asked = shared.asked.swap(false, SeqCst);
    let waiting = shared.options.fsync == Fsync::Always && !queue.pending.is_empty();
    if queue.closing || (writable && (asked || waiting)) {
        shared.asleep.store(false, SeqCst);
        return queue.closing;
    }
    let waited =
        shared.wake.wait_timeout(queue, TICK.min(shared.options.retry_every)).unwrap_or_else(PoisonError::into_inner);
    shared.asleep.store(false, SeqCst);
    waited.0.closing
}

/// Makes the last batches safe and says so.
fn end(shared: &Shared) {
    shared.write_all_pending();
    shared.sync();
    if shared.has_failed() {
        shared.recover();
    }
    shared.mark();
    shared.sync();
    shared.end_room();
    let _queue = lock(&shared.queue);
    shared.state.store(CLOSED, SeqCst);
    shared.announce(true);
}
