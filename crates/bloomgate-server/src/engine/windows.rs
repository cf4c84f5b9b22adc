//! Windows move with the time: rotating filters are told it ten times a second, and before every add.
//!
//! **A window never ends early.** What a filter is told is not a clock's reading but how much time has passed while this
//! server ran, by a clock that nobody sets ([`super::clock`]). What passed between the end of one run and the start of
//! the next is told by clocks that somebody may have set, so it does not count: keys are kept longer by a downtime (and
//! after a crash by up to a generation), never shorter.
//!
//! Only readings that turn the ring are written to the log, with the ring's own time: read again they turn it at the
//! same places between the same adds.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bloomgate::AnyFilter;
use bloomgate_command::Refusal;

use super::entry::{Body, Entry, Writer};
use super::record::Record;
use super::{Engine, Permit};

/// Tells a window what has passed, by its one writer; whether a generation ended.
pub(super) fn tell_time(permit: &mut Permit<'_>, entry: &Entry, _held: &mut Writer) -> Result<bool, Refusal> {
    let Body::Shared(filter @ AnyFilter::Rotating(ring)) = entry.body() else { return Ok(false) };
    let now_ns = permit.engine().clock.now_ns();
    let told_ns = entry.told_ns().load(Ordering::Relaxed);
    // The first reading of a run: nothing has passed yet that we know of.
    let passed = if told_ns == 0 { 0 } else { now_ns.saturating_sub(told_ns) };
    let state = ring.state();
    let (reading, turns) = match state.clock_ns {
        None => (now_ns, true),
        Some(before) => {
            (before.saturating_add(passed), state.elapsed_ns.saturating_add(passed) >= ring.rule().slice_ns())
        }
    };
    if turns {
        let mut record = Vec::new();
        Record::Advance { id: entry.id, now_ns: reading }.put(&mut record);
        let sequence = permit.log(&record)?;
        entry.touch(sequence);
    }
    filter.advance(Duration::from_nanos(reading));
    entry.told_ns().store(now_ns.max(told_ns).max(1), Ordering::Relaxed);
    Ok(turns)
}

impl Engine {
    /// Tells every window what has passed, through a thread's gate; how many of them ended a generation. A filter that
    /// somebody writes to is left to that writer, who tells it the time too.
    ///
    /// To be called ten times a second: a key is as old as the reading before it, so that much longer it may be kept.
    pub fn turn_windows(&self, thread: usize) -> Result<usize, Refusal> {
        let mut turned = 0;
        for entry in self.names.windows() {
            let mut permit = self.pass(thread);
            // Under the permit nobody takes it away; before, somebody may have.
            if self.names.by_id(entry.id).is_none() {
                continue;
            }
            if let Some(mut writer) = entry.try_write() {
                turned += usize::from(tell_time(&mut permit, &entry, &mut writer)?);
            }
        }
        Ok(turned)
    }
}
