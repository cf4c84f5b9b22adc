//! What takes long with memory, done by threads of its own so that no reactor stands still for it: the next stage of a
//! filter that fills up is made ahead, by one; pages of large filters are brought in, and large filters that are gone give
//! theirs back ([`leaving`](super::leaving)), by another, since adds wait for the first and nobody for the second.
//!
//! **Why.** The first touch of a page has the kernel find and clear it. A huge page takes 0.1 ms, and 5 ms where the
//! machine's own memory is lent to it on demand; the first hundred keys of a new stage of 100 MB touched all its pages,
//! and every connection of that reactor waited a quarter of a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bloomgate::AnyFilter;

use super::Engine;
use super::entry::{Body, Entry};
use super::room::charge_stage;

/// Below this nothing is worth a chore: smaller filters are on pages of the usual size, a microsecond each.
pub const LARGE: u64 = 4 << 20;
/// How often it looks whether the last one has let go of a filter.
const LOOK: Duration = Duration::from_millis(100);

/// Something to be done.
#[derive(Debug)]
enum Chore {
    /// Bring in the pages of the filter of this id.
    BringIn(u64),
    /// Make the next stage of it.
    Grow(u64),
    /// Free the memory of filters that everybody has let go of.
    LetGo,
    /// Let go of contracts that no filter hashes under.
    DropContracts,
}

/// Where chores are left.
#[derive(Debug, Default)]
pub struct Chores {
    growth: OnceLock<Sender<Chore>>,
    pages: OnceLock<Sender<Chore>>,
    /// Whether contracts are about to be dropped.
    drops_contracts: AtomicBool,
    /// Whether filters that are gone are about to be looked at.
    lets_go: AtomicBool,
}

impl Chores {
    /// Whether somebody will do it. Without a thread nothing happens: pages come when they are touched, and stages when they
    /// are needed.
    fn leave(&self, chore: Chore) -> bool {
        let queue = if matches!(chore, Chore::Grow(_)) { &self.growth } else { &self.pages };
        queue.get().is_some_and(|queue| queue.send(chore).is_ok())
    }

    /// A filter was made.
    pub fn bring_in(&self, entry: &Entry) {
        if entry.charged() >= LARGE {
            self.leave(Chore::BringIn(entry.id));
        }
    }

    /// A filter had keys added: is it time for its next stage?
    #[inline]
    pub fn look_at(&self, entry: &Entry, filter: &AnyFilter<bloomgate::Shared>) {
        if let AnyFilter::Scalable(chain) = filter
            && may_be_large(chain)
            && chain.is_filling_up()
        {
            self.plan_growth(entry, chain.stages(), || chain.next_stage_bytes().unwrap_or(0));
        }
    }

    #[cold]
    fn plan_growth(&self, entry: &Entry, stages: usize, next: impl FnOnce() -> u64) {
        let (planned, prepared) = entry.plans();
        if planned.swap(stages, Ordering::AcqRel) != stages {
            // Small, or nobody there to do it: it is made when it is needed.
            if next() < LARGE || !self.leave(Chore::Grow(entry.id)) {
                prepared.store(stages, Ordering::Release);
            }
        }
    }

    /// Whether the next stage is being made and less is left of the newest than is needed: who adds had better wait for
    /// it than make it on a reactor.
    #[inline]
    pub fn is_growing(&self, entry: &Entry, filter: &AnyFilter<bloomgate::Shared>, needed: u64) -> bool {
        let AnyFilter::Scalable(chain) = filter else { return false };
        if chain.remaining() >= needed || chain.when_full() != bloomgate::WhenFull::Grow || !may_be_large(chain) {
            return false;
        }
        let stages = chain.stages();
        self.plan_growth(entry, stages, || chain.next_stage_bytes().unwrap_or(0));
        entry.plans().1.load(Ordering::Acquire) != stages
    }

    /// There are too many contracts; whether somebody will look for those that nobody needs.
    pub fn drop_contracts(&self) -> bool {
        let asked = self.drops_contracts.swap(true, Ordering::AcqRel);
        asked || self.leave(Chore::DropContracts) || {
            self.drops_contracts.store(false, Ordering::Release);
            false
        }
    }

    /// Whether a thread frees the memory of large filters.
    #[must_use]
    pub fn frees_memory(&self) -> bool {
        self.pages.get().is_some()
    }

    /// Filters lost their names, and are large or held by somebody.
    pub fn let_go(&self) {
        if !self.lets_go.swap(true, Ordering::AcqRel) && !self.leave(Chore::LetGo) {
            self.lets_go.store(false, Ordering::Release);
        }
    }
}

/// Whether the next stage can be worth a chore: a key takes up to 72 bits. Asked by every add to a stage that fills up,
/// so it does not work the stage out.
fn may_be_large(chain: &bloomgate::Scalable<bloomgate::Shared>) -> bool {
    chain.capacity() as f64 * chain.growth() * 16.0 >= LARGE as f64
}

impl Engine {
    /// Starts the threads that do the chores; they end with the engine. Told twice, the first stay.
    pub fn start_chores(self: &Arc<Self>) -> std::io::Result<()> {
        for (name, place) in [("bloomgate-grow", &self.chores.growth), ("bloomgate-pages", &self.chores.pages)] {
            let (chores, queue) = channel();
            let engine = Arc::downgrade(self);
            std::thread::Builder::new().name(name.into()).spawn(move || {
                crate::net::step_back(10);
                work(&engine, &queue);
            })?;
            let _ = place.set(chores);
        }
        Ok(())
    }

    /// Makes the next stage of a filter, charged before it is made.
    fn make_next_stage(&self, entry: &Entry) {
        let Body::Shared(filter @ AnyFilter::Scalable(chain)) = entry.body() else { return };
        {
            // Through the last gate, which is that of the clock: nobody takes the filter away while it is charged.
            let _permit = self.pass(self.turnstile.gates() - 1);
            let _one_at_a_time = entry.growth().lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(next) = chain.next_stage_bytes() else { return };
            if self.names.by_id(entry.id).is_none() || !charge_stage(self, entry, filter, next) {
                return;
            }
        }
        // Refused by the system: whoever needs the stage will be told.
        let _ = chain.prepare_growth();
    }
}

fn work(engine: &Weak<Engine>, queue: &Receiver<Chore>) {
    // When it looked last, if some were still held then.
    let mut looked: Option<Instant> = None;
    loop {
        let chore = match looked {
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => queue.recv_timeout(LOOK.saturating_sub(at.elapsed())),
        };
        let engine = engine.upgrade();
        // However many chores come: what is gone must not wait for a pause between them.
        if let Some(engine) = &engine
            && (matches!(chore, Ok(Chore::LetGo)) || looked.is_some_and(|at| at.elapsed() >= LOOK))
        {
            engine.chores.lets_go.store(false, Ordering::Release);
            engine.free_leaving();
            looked = (!engine.leaving.is_empty()).then(Instant::now);
        }
        let found = |id| engine.as_ref().and_then(|engine| engine.names.by_id(id));
        match (chore, &engine) {
            (Err(RecvTimeoutError::Disconnected), _) | (_, None) => return,
            (Err(RecvTimeoutError::Timeout) | Ok(Chore::LetGo), _) => {}
            (Ok(Chore::DropContracts), Some(engine)) => {
                engine.chores.drops_contracts.store(false, Ordering::Release);
                engine.drop_unused_contracts();
            }
            (Ok(Chore::BringIn(id)), _) => {
                if let Some(Body::Shared(filter)) = found(id).as_ref().map(Entry::body) {
                    filter.bring_in();
                }
            }
            (Ok(Chore::Grow(id)), Some(engine)) => {
                if let Some(entry) = found(id) {
                    let stages = entry.with(|filter| filter.stages()).unwrap_or(0);
                    engine.make_next_stage(&entry);
                    // Also when there is no memory for it: then whoever needs it is told.
                    entry.plans().1.store(stages, Ordering::Release);
                }
            }
        }
    }
}
