//! Filters that were made from others, put under a name as if it had happened at one instant.
//!
//! Making one takes as long as it takes to read what it is made from, and nobody should have to wait for that. So it is
//! made while others write, and looked at again when nobody does: if what counts has changed meanwhile, it is made once
//! more, now with nobody writing. What was added to a filter before the new one takes its place is in it, or comes to
//! it: never in between.

use std::sync::{Arc, PoisonError};

use bloomgate::AnyFilter;
use bloomgate_command::Refusal;

use super::super::call::Call;
use super::super::desk::Desk;
use crate::engine::adding::NotDone;
use crate::engine::entry::{Body, Entry, Maker};
use crate::engine::recipe::{Recipe, refused};
use crate::engine::record::Image;
use crate::engine::structure::{Existing, Prepared};
use crate::engine::{Engine, Permit};

/// Images up to here go into the log itself.
const INLINE: u64 = 1 << 20;

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

/// A filter that was made.
#[derive(Debug)]
pub struct Made {
    /// The bits.
    pub filter: AnyFilter,
    /// How one like it is made.
    pub recipe: Recipe,
    /// Whose commands it answers to.
    pub maker: Maker,
    /// When it goes; 0 for never.
    pub expires_ms: u64,
}

/// Where its bits are kept until the next snapshot.
enum Kept {
    Inline(Vec<u8>),
    File(String),
}

/// A filter of its own, as another one is now. Ordered ones are not changed meanwhile; of the others every item added
/// before is in the copy, and of those added during it, some.
pub fn copy_of(entry: &Entry) -> Result<AnyFilter, Refusal> {
    let _still = entry.is_ordered().then(|| entry.write());
    match &entry.body {
        Body::Shared(filter) => filter.copy().map_err(|error| refused(&error)),
        Body::Guarded(filter) => Ok(filter.read().unwrap_or_else(PoisonError::into_inner).clone()),
        Body::Unavailable { why, .. } => Err(Refusal::new(why.clone())),
    }
}

/// Charges a filter and writes its image down.
fn prepare(engine: &Engine, desk: &Desk, name: &[u8], made: Made) -> Result<(Prepared, Kept), Refusal> {
    let id = engine.take_id();
    let Made { filter, recipe, maker, expires_ms } = made;
    let image = match &desk.keeper {
        // Nothing is kept, and nobody will read it.
        _ if engine.journal.log().is_none() => Kept::Inline(Vec::new()),
        Some(keeper) if filter.size_in_bytes() > INLINE => {
            Kept::File(keeper.write_image(id, &filter).map_err(Refusal::err)?)
        }
        _ => Kept::Inline(filter.to_bytes().map_err(|error| refused(&error))?),
    };
    let prepared = engine.adopt_as(id, name, recipe, maker, filter)?;
    prepared.entry().expire_at(expires_ms);
    Ok((prepared, image))
}

fn install(permit: &mut Permit<'_>, made: (Prepared, Kept), existing: Existing) -> Result<Arc<Entry>, Refusal> {
    let (prepared, kept) = made;
    let image = match &kept {
        Kept::Inline(bytes) => Image::Inline(bytes),
        Kept::File(name) => Image::File(name),
    };
    permit.install(prepared, image, existing)
}

/// Puts a filter under a name.
pub fn put(call: &mut Call<'_, '_, '_>, name: &[u8], made: Made, existing: Existing) -> Result<(), NotDone> {
    let engine = call.engine();
    let prepared = prepare(&engine, call.desk, name, made)?;
    call.alone(|permit| install(permit, prepared, existing).map(|entry| ((), entry.touched())))
}

/// A filter and its last change.
type Seen = Option<(u64, u64)>;

fn seen(entry: &Option<Arc<Entry>>) -> Seen {
    entry.as_ref().map(|entry| (entry.id, entry.touched()))
}

/// Puts a filter under a name that is made from what has that name now (or from nothing, if nothing has) and replaces
/// it: no change of it gets lost, whoever writes meanwhile.
pub fn replace(
    call: &mut Call<'_, '_, '_>,
    name: &[u8],
    mut make: impl FnMut(Option<&Arc<Entry>>) -> Result<Made, Refusal>,
) -> Result<(), NotDone> {
    let engine = call.engine();
    let desk = call.desk;
    // With nobody writing: whatever was logged up to this change is in the bits.
    let before = call.alone(|permit| Ok((permit.find(name)?, 0)))?;
    let version = seen(&before);
    let prepared = prepare(&engine, desk, name, make(before.as_ref())?)?;
    drop(before);
    call.alone(|permit| {
        let now = permit.find(name)?;
        // Requests that were answered stay answered: a retry must not remove twice because filters were merged meanwhile.
        let retries = now.as_ref().map(|now| now.write().retries.clone()).unwrap_or_default();
        let prepared = match seen(&now) == version {
            true => prepared,
            false => {
                engine.abandon(prepared.0);
                prepare(&engine, desk, name, make(now.as_ref())?)?
            }
        };
        let entry = install(permit, prepared, Existing::Replace)?;
        permit.keep_retries(&entry, retries)?;
        Ok(((), entry.touched()))
    })
}
