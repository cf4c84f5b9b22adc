//! The engine: filters by name, how they are written and asked, and what of it goes to the log.
//!
//! ```text
//!  reactor ─ Core ──▶ Nearby ──▶ Entry ──▶ bits          lookups: no lock
//!                └──▶ pass ──▶ hash ▶ ask ▶ log ▶ bits   writes: the thread's own gate
//!  structure ───────▶ stop ──▶ log ▶ names               create, delete, rename, swap, transactions
//! ```

pub mod adding;
pub mod audit;
pub mod bases;
pub mod budget;
pub mod chores;
pub mod clock;
pub mod contracts;
pub mod dump_form;
pub mod dumps;
pub mod entry;
pub mod facts;
pub mod fields;
pub mod holders;
mod ids;
pub mod journal;
pub mod leaving;
mod live;
pub mod loads;
pub mod making;
pub mod names;
pub mod namespaces;
pub mod recipe;
pub mod record;
mod repeated;
pub mod retries;
mod room;
pub mod shadows;
pub mod small;
pub mod structure;
pub mod turnstile;
pub mod watch;
pub mod windows;

use std::sync::{Arc, PoisonError};

use bloomgate_command::Refusal;

use crate::store::MAX_PAYLOAD;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Fault, Mutex, MutexGuard, broken};
use bases::Bases;
use budget::Budget;
use chores::Chores;
use clock::Clock;
use contracts::Contracts;
use dumps::Dumps;
use entry::{Body, Entry};
use journal::Journal;
use leaving::{Farewell, Leaving};
use live::LiveDefaults;
use loads::Loads;
use names::{Names, Nearby};
use namespaces::Namespaces;
use turnstile::{Passing, Standstill, Turnstile};
use watch::Watch;

/// What the engine may take.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Memory for all filters together.
    pub max_memory: u64,
    /// Memory for one filter.
    pub max_filter_memory: u64,
    /// How many filters there may be.
    pub max_filters: u64,
}

/// What filters are like when a command makes one and says nothing: the names and defaults of RedisBloom 8.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // Each is RedisBloom's setting of that name.
pub struct Defaults {
    pub bf_error_rate: f64,
    pub bf_initial_size: u64,
    pub bf_expansion_factor: u32,
    pub cf_bucket_size: u16,
    pub cf_initial_size: u64,
    pub cf_max_iterations: u16,
    pub cf_expansion_factor: u16,
    pub cf_error_rate: f64,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            bf_error_rate: 0.01,
            bf_initial_size: 100,
            bf_expansion_factor: 2,
            cf_bucket_size: 2,
            cf_initial_size: 1024,
            cf_max_iterations: 20,
            cf_expansion_factor: 1,
            // Removals take away a fingerprint: keys that look alike must be rare. 17 bits, where RedisBloom has 8.
            cf_error_rate: 1e-4,
        }
    }
}

/// All filters and everything they share.
#[derive(Debug)]
pub struct Engine {
    /// Names and their filters.
    pub names: Names,
    /// Who may write when.
    pub turnstile: Turnstile,
    /// Where changes are written down.
    pub journal: Journal,
    /// The memory that filters may take.
    pub budget: Budget,
    /// The limits of tenants.
    pub namespaces: Namespaces,
    /// The secrets.
    pub contracts: Contracts,
    /// The time.
    pub clock: Clock,
    /// Files that were given out, for deltas.
    pub bases: Bases,
    /// How many filters there may be.
    max_filters: std::sync::atomic::AtomicU64,
    /// What filters are like when nobody says.
    defaults: LiveDefaults,
    /// What is done by a thread of its own.
    pub chores: Chores,
    /// Filters that lost their names and are still charged.
    pub leaving: Leaving,
    /// Filters that are being fetched in chunks.
    pub dumps: Dumps,
    /// Filters that come in chunks and are not whole yet.
    pub loads: Loads,
    /// What is known about the filters' answers, and what clients have reported.
    pub watch: Watch,
    /// The id of the next filter.
    pub(crate) next_id: AtomicU64,
    /// Whether it is still reading what was there before.
    loading: AtomicBool,
    /// Held over adds to small filters and over their growth; each filter has one of them.
    growing: Box<[Mutex<()>]>,
}

/// Locks over the growth of small filters: one each would be 8 bytes in a million of them, and of 256 two threads seldom
/// want the same.
const GROWING: usize = 256;

/// The right to write: through a thread's own gate, or alone.
#[derive(Debug)]
pub struct Permit<'a> {
    engine: &'a Engine,
    hold: Hold<'a>,
    /// Records of a transaction, which go to the log together.
    batch: Option<Vec<u8>>,
    /// Last, so that others may write again when it goes.
    farewell: Farewell<'a>,
}

#[derive(Debug)]
#[allow(dead_code)] // Guards: held, not read.
enum Hold<'a> {
    Passing(Passing<'a>),
    Alone(Standstill<'a>),
}

impl<'a> Permit<'a> {
    /// Whether nobody else writes.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        matches!(self.hold, Hold::Alone(_))
    }

    /// The engine it is for.
    #[must_use]
    pub fn engine(&self) -> &'a Engine {
        self.engine
    }

    /// Puts records into the log; their sequence.
    pub fn log(&mut self, records: &[u8]) -> Result<u64, Refusal> {
        match &mut self.batch {
            None => self.engine.journal.append(records),
            Some(_) => {
                self.check_log(records.len())?;
                self.log_applied(records)
            }
        }
    }

    /// Refuses unless the log takes records of so many bytes now: for what is changed before it is put down.
    pub fn check_log(&self, bytes: usize) -> Result<(), Refusal> {
        let before = self.batch.as_ref().map_or(0, Vec::len);
        if before > 0 && before + bytes > MAX_PAYLOAD {
            return Err(Refusal::err(format_args!(
                "the transaction would write more than {MAX_PAYLOAD} bytes to the log at once: split it"
            )));
        }
        self.engine.journal.check_room(before + bytes)
    }

    /// Puts records of what is done already into the log, after [`check_log`](Self::check_log); their sequence. Nothing but
    /// the server's end keeps them out: what is changed and not in the log would be acknowledged one day and lost.
    pub fn log_applied(&mut self, records: &[u8]) -> Result<u64, Refusal> {
        match &mut self.batch {
            None => self.engine.journal.append_applied(records),
            Some(batch) => {
                batch.extend_from_slice(records);
                // Alone, so nobody else takes the next sequence.
                Ok(self.engine.journal.appended() + 1)
            }
        }
    }

    /// Ends a transaction: its records go to the log as one. The disk may have failed since they were taken; what they
    /// tell is done.
    pub fn commit(mut self) -> Result<u64, Refusal> {
        match self.batch.take() {
            Some(batch) if !batch.is_empty() && broken(Fault::LateRefusals) => self.engine.journal.append(&batch),
            Some(batch) if !batch.is_empty() => self.engine.journal.append_applied(&batch),
            _ => Ok(self.engine.journal.appended()),
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // A command of a transaction panicked: what those before it did is done, and who asks for it is answered from it.
        if let Some(batch) = self.batch.take().filter(|batch| !batch.is_empty() && std::thread::panicking()) {
            let _ = self.engine.journal.append_applied(&batch);
        }
    }
}

impl Engine {
    /// An engine without filters. With a log that is still to come it is loading until
    /// [`end_loading`](Self::end_loading).
    #[must_use]
    pub fn new(
        journal: Journal,
        contracts: Contracts,
        clock: Clock,
        limits: Limits,
        defaults: Defaults,
        threads: usize,
    ) -> Self {
        // What a log will bring must not be missed: until it is there, no name is answered for.
        let loading = matches!(journal, Journal::Log(_)) && journal.log().is_none();
        Self {
            names: Names::default(),
            turnstile: Turnstile::new(threads),
            journal,
            budget: Budget::new(limits.max_memory, limits.max_filter_memory),
            namespaces: Namespaces::default(),
            contracts,
            clock,
            bases: Bases::default(),
            max_filters: limits.max_filters.into(),
            defaults: LiveDefaults::new(&defaults),
            chores: Chores::default(),
            leaving: Leaving::default(),
            dumps: Dumps::default(),
            loads: Loads::default(),
            watch: Watch::default(),
            next_id: AtomicU64::new(1),
            loading: AtomicBool::new(loading),
            growing: (0..GROWING).map(|_| Mutex::default()).collect(),
        }
    }

    /// The right to write through a thread's gate.
    #[inline]
    pub fn pass(&self, thread: usize) -> Permit<'_> {
        self.permit(Hold::Passing(self.turnstile.pass(thread)), None)
    }

    /// The right to write alone.
    pub fn stop(&self) -> Permit<'_> {
        self.permit(Hold::Alone(self.turnstile.stop()), None)
    }

    /// The right to write alone, with all records together in the end.
    pub fn transaction(&self) -> Permit<'_> {
        self.permit(Hold::Alone(self.turnstile.stop()), Some(Vec::new()))
    }

    #[inline]
    fn permit<'a>(&'a self, hold: Hold<'a>, batch: Option<Vec<u8>>) -> Permit<'a> {
        Permit { engine: self, hold, batch, farewell: Farewell { engine: self, count: 0 } }
    }

    /// What happens ten times a second, through a thread's gate: windows move, and files that were given out long ago go.
    pub fn tick(&self, thread: usize) -> Result<(), Refusal> {
        self.bases.forget_old(self);
        self.turn_windows(thread).map(drop)
    }

    /// Whether it still reads what was there before: nothing is answered until then.
    #[must_use]
    #[inline]
    pub fn is_loading(&self) -> bool {
        self.loading.load(Ordering::Acquire)
    }

    /// Everything that was there before is there again: from now on it answers.
    pub fn end_loading(&self) {
        self.loading.store(false, Ordering::Release);
    }

    /// The id that the next filter gets.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.next_id.load(Ordering::Relaxed)
    }

    /// Lets go of dumps and loads that nobody went on with.
    pub fn drop_abandoned(&self) {
        self.dumps.drop_abandoned(self);
        self.loads.drop_abandoned(self);
    }

    /// Held over adds to a small filter, so that none is lost when it grows up.
    pub(super) fn growth_of(&self, entry: &Entry) -> MutexGuard<'_, ()> {
        self.growing[entry.id as usize % GROWING].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The filter of a name, unless its time is over.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<Entry> {
        let entry = self.names.get(name)?;
        if entry.is_expired(self.clock.now_ms()) { None } else { Some(entry) }
    }
}

/// The refusal of a filter that exists and cannot answer.
pub fn check_available(entry: &Entry) -> Result<(), Refusal> {
    match entry.body() {
        Body::Unavailable { why, .. } => Err(entry.no_answer(why)),
        _ => Ok(()),
    }
}

/// One thread's view of the engine, with the buffers it works in.
#[derive(Debug)]
pub struct Core {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Which gate is this thread's.
    pub thread: usize,
    /// Filters used lately.
    pub nearby: Nearby,
    /// Buffers that are used again.
    pub scratch: adding::Scratch,
    /// Buffers of the batches of a pipeline.
    pub buffers: crate::session::batch::Buffers,
}

impl Core {
    /// A thread's view.
    #[must_use]
    pub fn new(engine: Arc<Engine>, thread: usize) -> Self {
        Self {
            engine,
            thread,
            nearby: Nearby::default(),
            scratch: adding::Scratch::default(),
            buffers: Default::default(),
        }
    }
}
