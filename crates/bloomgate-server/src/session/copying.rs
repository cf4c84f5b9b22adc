//! COPY and BG.COPY: a second filter with the bits of the first.

use bloomgate::AnyFilter;
use bloomgate_command::{Refusal, Reply};

use super::call::{Call, Outcome};
use super::installing::{Built, Ready};
use crate::engine::adding::NotDone;
use crate::engine::entry::Entry;
use crate::engine::structure::Existing;
use crate::engine::{Engine, check_available};

/// What became of a copy.
#[derive(Debug)]
pub enum Copied {
    /// It is there.
    Done(Entry),
    /// There is nothing to copy.
    NoSource,
    /// The other name is taken.
    Taken,
}

/// The bits of a filter for one owner, charged while they are made. An ordered filter is copied between two writes.
pub fn bits_of(engine: &Engine, entry: &Entry) -> Result<AnyFilter, Refusal> {
    let bytes = entry.with(|filter| filter.size_in_bytes()).unwrap_or(0);
    engine.budget.charge(0, bytes).map_err(|refused| Refusal::new(refused.to_string()))?;
    let writer = entry.is_ordered().then(|| entry.write());
    let copy = entry.copy();
    drop(writer);
    // Whoever makes a filter of it charges what it takes.
    engine.budget.release(bytes);
    copy
}

/// Copies a filter as it is at one instant, with its expiry, under another name.
pub fn copy_filter(
    call: &mut Call<'_, '_, '_>,
    source: &[u8],
    destination: &[u8],
    replace: bool,
) -> Result<Copied, NotDone> {
    if source == destination {
        return Err(Refusal::SAME_OBJECT.into());
    }
    let engine = call.engine();
    let Some(entry) = call.find(source) else { return Ok(Copied::NoSource) };
    check_available(&entry)?;
    match call.find(destination) {
        Some(_) if !replace => return Ok(Copied::Taken),
        Some(_) => {}
        None => engine.check_count(destination)?,
    }
    // Before it is copied: a namespace that has no room for it need not have the server copy it.
    engine.check_room(destination, entry.size_in_bytes())?;
    let built = Built {
        name: destination,
        recipe: entry.recipe().clone(),
        maker: entry.maker(),
        filter: bits_of(&engine, &entry)?,
        expires_ms: entry.expires_ms(),
    };
    let existing = if replace { Existing::Replace } else { Existing::Refuse };
    let ready = Ready::make(&engine, call.desk, built)?;
    ready.entry().set_deleted(entry.deleted());
    match ready.install_alone(call, existing) {
        Ok(copy) => Ok(Copied::Done(copy)),
        // Somebody else took the name while the bits were copied.
        Err(NotDone::Refused(refusal)) if refusal == Refusal::ITEM_EXISTS => Ok(Copied::Taken),
        Err(other) => Err(other),
    }
}

/// COPY: 1, or 0 when there is nothing to copy or the name is taken.
pub fn copy(call: &mut Call<'_, '_, '_>, source: &[u8], destination: &[u8], db: Option<u64>, replace: bool) -> Outcome {
    if db.is_some_and(|db| db != 0) {
        return Err(Refusal::DB_INDEX.into());
    }
    let copied = copy_filter(call, source, destination, replace)?;
    Ok(Reply::Int(i64::from(matches!(copied, Copied::Done(_)))))
}
