//! BG.DIGEST, BG.DUMP and BG.DELTA: a filter as its file, by its content's address, and what has changed since.

use std::sync::{Arc, PoisonError};

use bloomgate::{Address, Delta};
use bloomgate_command::{DeltaBase, Refusal, Reply};

use super::super::call::{Call, Outcome};
use super::existing;
use super::replacing::Held;
use crate::engine::bases::MAX_FILE;
use crate::engine::entry::{Body, Entry};
use crate::engine::recipe::refused;

/// A writer that only knows how much there was.
struct Nowhere;

impl std::io::Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The filter's file, written to somewhere; its address. Nobody changes an ordered filter meanwhile. Of the others every
/// item added before is in it, and of those added during it, some.
fn write(entry: &Entry, out: &mut impl std::io::Write) -> Result<Address, Refusal> {
    let _still = entry.is_ordered().then(|| entry.write());
    let written = match entry.body() {
        Body::Small(small) => small.copy().and_then(|filter| filter.write_to(out)),
        Body::Shared(filter) => filter.write_to(out),
        Body::Guarded(filter) => filter.read().unwrap_or_else(PoisonError::into_inner).write_to(out),
        Body::Unavailable { why, .. } => return Err(entry.no_answer(why)),
    };
    written.map_err(|error| refused(&error))
}

/// BG.DIGEST.
pub fn digest(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Outcome {
    let engine = call.engine();
    let entry = existing(call, name)?;
    let _copy = Held::take(&engine, entry.with(|filter| filter.size_in_bytes()).unwrap_or(0))?;
    let address = write(&entry, &mut Nowhere)?;
    call.sees(&entry);
    Ok(Reply::text(address.to_string()))
}

/// The file of a filter, kept as a base for deltas from it.
fn file(call: &mut Call<'_, '_, '_>, entry: &Entry) -> Result<(Address, Arc<[u8]>), Refusal> {
    let engine = call.engine();
    let bytes = entry.with(|filter| filter.size_in_bytes()).unwrap_or(0);
    if bytes > MAX_FILE {
        return Err(Refusal::err(format_args!(
            "the filter has {bytes} bytes, and a reply takes {MAX_FILE} at most: over HTTP files and deltas have any size (GET \
             /v1/filters/NAME/snapshot and /delta), and BF.SCANDUMP and CF.SCANDUMP give a file in pieces"
        )));
    }
    // Twice: the copy it is written from, and the file.
    let held = Held::take(&engine, 2 * bytes)?;
    let mut file = Vec::new();
    let version = entry.touched();
    let address = write(entry, &mut file)?;
    let version = (entry.touched() == version).then_some(version);
    call.sees(entry);
    let file: Arc<[u8]> = file.into();
    drop(held);
    engine.bases.keep(&engine, (entry.id, &entry.name()), (address, version), file.clone());
    Ok((address, file))
}

/// BG.DUMP.
pub fn dump(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Outcome {
    let entry = existing(call, name)?;
    let (address, file) = file(call, &entry)?;
    Ok(Reply::Array(vec![Reply::text(address.to_string()), Reply::Bulk(file.to_vec())]))
}

/// BG.DELTA. What it leads to is a base too: the next delta starts from there.
pub fn delta(call: &mut Call<'_, '_, '_>, name: &[u8], base: DeltaBase) -> Outcome {
    let entry = existing(call, name)?;
    let engine = call.engine();
    engine.bases.forget_old(&engine);
    // The file of a filter that the user cannot name is as one that is not kept: a delta from it would show it.
    let may_see = |name: &[u8]| call.space().is_none_or(|space| space.has(name));
    let (old, what) = match base {
        DeltaBase::Address(address) => (engine.bases.find(address, may_see), format!("the file {address}")),
        DeltaBase::Version(version) => {
            (engine.bases.of_version(entry.id, version), format!("a file of the filter as of version {version}"))
        }
    };
    let old = old.ok_or_else(|| {
        Refusal::err(format_args!("{what} is not kept here (any more): take a whole one with BG.DUMP first"))
    })?;
    let (_, new) = file(call, &entry)?;
    let delta = Delta::between(&old, &new).and_then(|delta| delta.to_bytes()).map_err(|error| refused(&error))?;
    Ok(Reply::Bulk(delta))
}
