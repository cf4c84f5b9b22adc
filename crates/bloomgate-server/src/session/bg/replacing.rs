//! Filters that were made from others, put under a name as if it had happened at one instant.
//!
//! Making one takes as long as it takes to read what it is made from, and nobody should have to wait for that. So it is
//! made while others write, and looked at again when nobody does: if what counts has changed meanwhile, it is made once
//! more, and again. What is small is made with nobody writing in the end; what is large is refused then, because everybody
//! would stand still for it. What was added to a filter before the new one takes its place is in it, or comes to it: never
//! in between.

use bloomgate::AnyFilter;
use bloomgate_command::Refusal;

use super::super::call::Call;
use super::super::installing::{Built, INLINE, Ready};
use crate::engine::adding::NotDone;
use crate::engine::entry::Entry;
use crate::engine::retries::Retries;
use crate::engine::structure::Existing;
use crate::engine::{Engine, Permit};

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

/// So often a filter is made while others write to what it is made from.
const TRIES: usize = 4;

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
    let look = |permit: &mut Permit<'_>| permit.find(name).map(|entry| (seen(&entry), entry));
    let (mut version, mut before) = call.alone(|permit| Ok((look(permit)?, 0)))?;
    if before.is_none() {
        engine.check_count(name)?;
    }
    let mut ready = |before: &Option<Entry>| {
        let built = make(before.as_ref())?;
        Ready::make(&engine, desk, Built { name, ..built })
    };
    for tried in 1.. {
        let made = ready(&before)?;
        // Requests that were answered stay answered: a retry must not remove twice because filters were merged meanwhile.
        let retries = before.as_ref().map(Entry::retries).unwrap_or_default();
        let is_large = made.entry().size_in_bytes() > INLINE;
        let changed = call.alone(|permit| {
            let (now_version, now) = match look(permit) {
                Ok(now) => now,
                Err(refusal) => {
                    made.abandon(&engine);
                    return Err(refusal);
                }
            };
            if now_version == version {
                return put(permit, made, now.as_ref(), retries).map(|sequence| (None, sequence));
            }
            made.abandon(&engine);
            if tried < TRIES || is_large {
                return Ok((Some((now_version, now)), 0));
            }
            let made = ready(&now)?;
            let retries = now.as_ref().map(Entry::retries).unwrap_or_default();
            put(permit, made, now.as_ref(), retries).map(|sequence| (None, sequence))
        })?;
        match changed {
            None => break,
            Some(_) if tried >= TRIES => {
                return Err(Refusal::err(format_args!(
                    "'{}' was written to each of {TRIES} times that the new filter was made, and it is too large to hold \
                     everybody up for it: try again when it is less busy",
                    name.escape_ascii()
                ))
                .into());
            }
            Some(now) => (version, before) = now,
        }
    }
    Ok(())
}

/// Puts it under its name, in the place of what has that name.
fn put(permit: &mut Permit<'_>, ready: Ready, now: Option<&Entry>, retries: Retries) -> Result<u64, Refusal> {
    if let Some(now) = now {
        ready.entry().count(now.counts());
    }
    ready.entry().keep_answers(retries);
    Ok(ready.install(permit, Existing::Replace)?.touched())
}
