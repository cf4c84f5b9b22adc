//! Filters that were made from others, put under a name as if it had happened at one instant.
//!
//! Making one takes as long as it takes to read what it is made from, and nobody should have to wait for that. So it is
//! made while others write, and looked at again when nobody does: if what counts has changed meanwhile, it is made once
//! more, now with nobody writing. What was added to a filter before the new one takes its place is in it, or comes to
//! it: never in between.

use bloomgate::AnyFilter;
use bloomgate_command::Refusal;

use super::super::call::Call;
use super::super::installing::{Built, Ready};
use crate::engine::Engine;
use crate::engine::adding::NotDone;
use crate::engine::entry::Entry;
use crate::engine::structure::Existing;

/// Memory that is charged while something is made.
#[derive(Debug)]
pub struct Held<'e> {
    engine: &'e Engine,
    bytes: u64,
}

impl<'e> Held<'e> {
    /// Takes memory, or says that there is none.
    pub fn take(engine: &'e Engine, bytes: u64) -> Result<Self, Refusal> {
        engine.budget.charge(0, bytes).map_err(|refused| Refusal::new(refused.to_string()))?;
        Ok(Self { engine, bytes })
    }

    /// Takes what is needed beyond what it has.
    pub fn grow_to(&mut self, bytes: u64) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.bytes);
        self.engine.budget.charge(self.bytes, more).map_err(|refused| Refusal::new(refused.to_string()))?;
        self.bytes += more;
        Ok(())
    }

    /// Gives back what is beyond so many bytes.
    pub fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.engine.budget.release(less);
        self.bytes -= less;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.engine.budget.release(self.bytes);
    }
}

/// A filter of its own, as another one is now. Ordered ones are not changed meanwhile; of the others every item added
/// before is in the copy, and of those added during it, some.
pub fn copy_of(entry: &Entry) -> Result<AnyFilter, Refusal> {
    let _still = entry.is_ordered().then(|| entry.write());
    entry.copy()
}

/// A filter and its last change.
type Seen = Option<(u64, u64)>;

fn seen(entry: &Option<Entry>) -> Seen {
    entry.as_ref().map(|entry| (entry.id, entry.touched()))
}

/// Puts a filter under a name that is made from what has that name now (or from nothing, if nothing has) and replaces
/// it: no change of it gets lost, whoever writes meanwhile.
pub fn replace(
    call: &mut Call<'_, '_, '_>,
    name: &[u8],
    mut make: impl FnMut(Option<&Entry>) -> Result<Built<'static>, Refusal>,
) -> Result<(), NotDone> {
    let engine = call.engine();
    let desk = call.desk;
    // With nobody writing: whatever was logged up to this change is in the bits.
    let before = call.alone(|permit| Ok((permit.find(name)?, 0)))?;
    let version = seen(&before);
    if before.is_none() {
        engine.check_count(name)?;
    }
    let mut ready = |before: &Option<Entry>| {
        let built = make(before.as_ref())?;
        Ready::make(&engine, desk, Built { name, ..built })
    };
    let first = ready(&before)?;
    drop(before);
    call.alone(|permit| {
        let now = permit.find(name)?;
        // Requests that were answered stay answered: a retry must not remove twice because filters were merged meanwhile.
        let retries = now.as_ref().map(Entry::retries).unwrap_or_default();
        let ready = match seen(&now) == version {
            true => first,
            false => {
                first.abandon(&engine);
                ready(&now)?
            }
        };
        if let Some(now) = &now {
            ready.entry().count(now.counts());
        }
        let entry = ready.install(permit, Existing::Replace)?;
        permit.keep_retries(&entry, retries)?;
        Ok(((), entry.touched()))
    })
}
