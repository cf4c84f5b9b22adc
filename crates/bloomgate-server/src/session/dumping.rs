//! BF.SCANDUMP and CF.SCANDUMP: a filter in chunks, all of one moment.
//!
//! Iterator 0 makes the filter's file and keeps it ([`Dumps`](crate::engine::dumps::Dumps)); the other iterators read
//! from it, so that what is added meanwhile does not come between the chunks.

use std::io::Cursor;

use bloomgate::Address;
use bloomgate_command::{Refusal, Reply, Request};

use super::call::{Call, Outcome};
use super::filing::{self, Moment};
use crate::engine::Engine;
use crate::engine::adding::NotDone;
use crate::engine::budget::{Budget, Held, Refused};
use crate::engine::dump_form::{self, Header};
use crate::engine::dumps::{File, Part};
use crate::engine::entry::{Entry, Family};

/// Runs a command of this group.
pub fn run(call: &mut Call<'_, '_, '_>, request: &Request<'_>) -> Option<Outcome> {
    Some(match *request {
        Request::BfScandump { key, iterator } => scan(call, key, iterator, Family::Bloom),
        Request::CfScandump { key, position } => scan(call, key, position, Family::Cuckoo),
        _ => return None,
    })
}

fn scan(call: &mut Call<'_, '_, '_>, key: &[u8], iterator: i64, family: Family) -> Outcome {
    let entry = call.find_of(key, family)?.ok_or(Refusal::NOT_FOUND)?;
    let engine = call.engine();
    if iterator == 0 {
        return begin(call, &engine, &entry, family);
    }
    let now = engine.clock.now_ms();
    let part = dump_form::place(iterator).and_then(|(number, offset)| {
        engine.dumps.read(&engine.budget, now, number, entry.id, offset).map(|part| (number, offset, part))
    });
    match part {
        None => Err(gone(iterator).into()),
        Some((_, _, Part::End)) => {
            let nothing = if family == Family::Bloom { Reply::Bulk(Vec::new()) } else { Reply::Nil };
            Ok(Reply::Array(vec![Reply::Int(0), nothing]))
        }
        Some((number, offset, Part::Bytes(file))) => {
            let chunk = Header::chunk_at(file.address, &file.bytes, offset, dump_form::CHUNK);
            let end = offset + (chunk.len() - dump_form::FRAME) as u64;
            Ok(Reply::Array(vec![Reply::Int(dump_form::iterator(number, end)), Reply::Bulk(chunk)]))
        }
    }
}

#[cold]
fn gone(iterator: i64) -> Refusal {
    Refusal::err(format_args!(
        "iterator {iterator} belongs to no dump of this filter that is being fetched: it was dropped (60 s after the last \
         call, or with a restart), or is no iterator of this filter; start again from 0"
    ))
}

/// Makes the file, keeps it, and answers its header.
fn begin(call: &mut Call<'_, '_, '_>, engine: &Engine, entry: &Entry, family: Family) -> Outcome {
    engine.dumps.make_place(engine, &call.holder(), entry.size_in_bytes())?;
    let (bytes, held) = take(call, &engine.budget, entry)?;
    if bytes.len() as u64 >= dump_form::PLACE as u64 {
        return Err(Refusal::err(format_args!("a dump has up to 1 TiB, not {} bytes", bytes.len())).into());
    }
    let header = Header {
        family,
        maker: entry.maker(),
        recipe: entry.recipe().clone(),
        removed: entry.deleted(),
        length: bytes.len() as u64,
        chunk: dump_form::CHUNK,
        address: Address::of(&bytes),
    };
    let file = File { bytes, address: header.address };
    let number = engine.dumps.keep(engine, call.holder(), held, entry.id, file)?;
    Ok(Reply::Array(vec![Reply::Int(dump_form::iterator(number, 0)), Reply::Bulk(header.to_bytes())]))
}

/// The file of the filter as it is now, charged.
fn take<'b>(call: &mut Call<'_, '_, '_>, budget: &'b Budget, entry: &Entry) -> Result<(Vec<u8>, Held<'b>), NotDone> {
    // Put right when it is made.
    let expected = filing::expected_length(entry);
    let no_memory = |refused: Refused| refused.for_a_copy();
    let mut held = budget.hold(expected).map_err(no_memory)?;
    let mut file = Cursor::new(Vec::new());
    let room = usize::try_from(expected).ok().filter(|&room| file.get_mut().try_reserve_exact(room).is_ok());
    if room.is_none() {
        return Err(Refusal::err(format_args!("the system has no {expected} bytes of memory for the dump")).into());
    }
    let image = match entry.is_ordered() {
        false => call.alone(|permit| Ok((Moment::image(permit, entry)?, entry.touched())))?,
        true => None,
    };
    match image {
        Some(moment) => moment.write(&mut file)?,
        None => Moment::copied(budget, entry)?.write(&mut file)?,
    }
    // Bits that were set meanwhile may be in the file, and their records not yet on disk.
    call.sees(entry);
    let mut bytes = file.into_inner();
    bytes.shrink_to_fit();
    held.resize(bytes.capacity() as u64).map_err(no_memory)?;
    Ok((bytes, held))
}
