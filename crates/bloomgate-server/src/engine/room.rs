//! Room for more keys: growth is charged to the budget before it happens, stage by stage.

use std::sync::PoisonError;

use bloomgate::{AnyFilter, Shared};

use super::Engine;
use super::entry::{Body, Entry};
use super::small::Small;

/// What a filter has room for.
pub(super) enum Room {
    /// All of them.
    Enough,
    /// So many now; then it is to be asked again.
    First(usize),
    /// No more than so many.
    Only(usize),
    /// None: it would have to grow, and there is no memory for it.
    NoMemory,
}

/// Makes sure that so many new keys fit: growth is charged before it happens, stage by stage. Where several threads
/// write, the caller holds the lock over growth until the keys are in.
pub(super) fn make_room(engine: &Engine, entry: &Entry, filter: &AnyFilter<Shared>, wanted: usize) -> Room {
    let remaining = filter.remaining();
    if remaining >= wanted as u64 {
        return Room::Enough;
    }
    match filter.when_full() {
        bloomgate::WhenFull::GoOn => Room::Enough,
        bloomgate::WhenFull::Refuse => Room::Only(remaining as usize),
        // To the end of the stage first: what comes then may go over several stages, and each has its price.
        bloomgate::WhenFull::Grow if remaining > 0 => Room::First(remaining as usize),
        bloomgate::WhenFull::Grow => {
            let next = match filter {
                AnyFilter::Scalable(chain) => chain.next_stage_bytes(),
                // Chains of cuckoo tables find out by inserting.
                _ => return Room::Enough,
            };
            let Ok(next) = next else { return Room::Only(0) };
            if !charge_stage(engine, entry, filter, next) {
                return Room::NoMemory;
            }
            // The first one opens the stage; how many fit is known then.
            Room::First(1)
        }
    }
}

/// A small filter is full: it is a chain of its own from now on, charged before it is made; false if there is no memory for
/// it. The caller holds the lock over its growth.
pub(super) fn grow_up(engine: &Engine, entry: &Entry, small: Small<'_>) -> bool {
    let more = entry.cost_of_growing_up();
    if !engine.charge_growth(entry, more) {
        return false;
    }
    match small.copy().and_then(AnyFilter::into_shared) {
        Ok(chain) => entry.grow_up(chain),
        Err(_) => {
            engine.release_growth(entry, more);
            return false;
        }
    }
    true
}

/// Charges what a filter takes with its next stage, unless it was charged before; whether there is memory for it. The caller
/// holds the lock over growth.
pub(super) fn charge_stage(engine: &Engine, entry: &Entry, filter: &AnyFilter<Shared>, next: u64) -> bool {
    let charged = entry.charged();
    let after = filter.size_in_bytes().saturating_add(next);
    if after > charged {
        if !engine.charge_growth(entry, after - charged) {
            return false;
        }
        entry.set_charged(after);
    }
    true
}

impl Engine {
    /// Why a filter that an item was refused by does not grow, with what it needs, what is left and what would fit; nothing if
    /// there is memory again. For refusals alone: it takes as long as a thousand items.
    #[must_use]
    pub fn why_not_grown(&self, entry: &Entry) -> Option<String> {
        let contract = entry.contract()?;
        let after = |bytes: u64, next: u64| bytes.saturating_add(next).saturating_sub(entry.charged());
        let more = match entry.body() {
            Body::Small(_) => entry.cost_of_growing_up(),
            Body::Shared(AnyFilter::Scalable(chain)) => after(chain.size_in_bytes(), chain.next_stage_bytes().ok()?),
            Body::Shared(AnyFilter::GrowingCuckoo(chain)) => {
                after(chain.size_in_bytes(), chain.next_stage_bytes().ok()?)
            }
            Body::Guarded(filter) => {
                // Of RedisBloom's: by any item, nearly always one that is not there.
                let digest = contract.digest(&b"?"[..]).ok()?;
                filter.read().unwrap_or_else(PoisonError::into_inner).growth_for(digest)
            }
            _ => return None,
        };
        let refused = self.refusal_to_grow(entry, more)?;
        let left = self.room_for_another(entry.space()).saturating_sub(Entry::cost_of_whole(&entry.name()));
        let any = super::recipe::Recipe { capacity: 1 << 30, ..entry.recipe().clone() };
        Some(refused.with(any.within(&contract, left)).of_growth())
    }
}
