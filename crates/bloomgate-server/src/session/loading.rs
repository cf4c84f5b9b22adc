//! BF.LOADCHUNK and CF.LOADCHUNK: a filter that comes in chunks, ours or RedisBloom's, and appears when it is whole.
//!
//! ```text
//!  header ──▶ checked, charged ──▶ chunks, in any order ──▶ whole ──▶ checked ──▶ logged ──▶ there
//!                  Loads: nobody sees it                        address, form, secret
//! ```

use std::sync::Arc;

use bloomgate::foreign::{RedisBloom, RedisBloomShape, RedisCuckoo, RedisCuckooShape};
use bloomgate::format::{Limits, MAGIC as FILE_MAGIC};
use bloomgate::{Address, AnyFilter, Error, ErrorKind, OpenOptions, WhenFull};
use bloomgate_command::{Refusal, Reply, Request};

use super::call::{Call, Outcome};
use crate::engine::Engine;
use crate::engine::adding::NotDone;
use crate::engine::dump_form::{self, Header};
use crate::engine::entry::{Family, Maker};
use crate::engine::loads::{Announced, Came, Load};
use crate::engine::recipe::{Hashing, Recipe, refused};
use crate::engine::record::Image;
use crate::engine::structure::Existing;

/// Images up to this size stand in the log's record; larger ones in a file of their own.
const INLINE: u64 = 1 << 20;
/// A header of RedisBloom may be so long: a chain of 19,784 links.
const MOST_HEADER: usize = 1 << 20;

/// Runs a command of this group.
pub fn run(call: &mut Call<'_, '_, '_>, request: &Request<'_>) -> Option<Outcome> {
    Some(match *request {
        Request::BfLoadchunk { key, iterator, data } => load(call, key, iterator, data, Family::Bloom),
        Request::CfLoadchunk { key, position, data } => load(call, key, position, data, Family::Cuckoo),
        _ => return None,
    })
}

fn load(call: &mut Call<'_, '_, '_>, key: &[u8], iterator: i64, data: &[u8], family: Family) -> Outcome {
    match call.find(key) {
        Some(entry) if entry.family() == family => return Err(Refusal::ITEM_EXISTS.into()),
        Some(_) => return Err(Refusal::WRONG_TYPE.into()),
        None => {}
    }
    if iterator < 1 {
        return Err(Refusal::BAD_DATA.into());
    }
    if iterator & dump_form::PLACE == 1 {
        return header(call, key, iterator, data, family).map_err(NotDone::from);
    }
    let engine = call.engine();
    let load = engine.loads.find(key).ok_or_else(|| {
        Refusal::new("ERR not found: no load under this name has begun, or it was dropped; begin with the header")
    })?;
    if load.announced.family() != family {
        return Err(Refusal::WRONG_TYPE.into());
    }
    let (offset, bytes) = chunk(&load.announced, iterator, data, family)?;
    match load.put(offset, bytes, engine.clock.now_ms()) {
        Came::More => Ok(Reply::Ok),
        Came::Whole(bytes, charge) => {
            engine.loads.take_out(&load);
            // Given back whatever comes of it; its namespace is charged for the filter from here on.
            let _charged = engine.budget.holding(engine.leave_to_budget(charge));
            install(call, &engine, key, &load, bytes)
        }
        Came::Differ => Err(bad_chunk(family, "another chunk with these bytes came before, and they differ").into()),
        Came::Scattered => Err(bad_chunk(family, "too many gaps are open: send the chunks in their order").into()),
        Came::Over => Err(Refusal::new("ERR not found: the load has ended meanwhile; begin with the header").into()),
    }
}

/// A refusal of a header, in RedisBloom's words with the reason after them.
fn bad_header(family: Family, why: impl std::fmt::Display) -> Refusal {
    match family {
        Family::Bloom => Refusal::new(format!("{}: {why}", Refusal::BAD_DATA)),
        Family::Cuckoo => Refusal::new(format!("{}: {why}", Refusal::INVALID_HEADER)),
    }
}

/// A refusal of a chunk, in RedisBloom's words with the reason after them.
fn bad_chunk(family: Family, why: impl std::fmt::Display) -> Refusal {
    match family {
        Family::Bloom => Refusal::new(format!("{}: {why}", Refusal::BAD_DATA)),
        Family::Cuckoo => Refusal::new(format!("{} {why}", Refusal::CHUNK_NOT_LOADED)),
    }
}

/// Begins a load.
fn header(
    call: &mut Call<'_, '_, '_>,
    key: &[u8],
    iterator: i64,
    data: &[u8],
    family: Family,
) -> Result<Reply, Refusal> {
    let engine = call.engine();
    let announced = announced(iterator, data, family)?;
    if announced.family() != family {
        let right = if family == Family::Bloom { "CF.LOADCHUNK" } else { "BF.LOADCHUNK" };
        return Err(Refusal::err(format_args!("the dump is of the other family of filters: load it with {right}")));
    }
    engine.check_count(key)?;
    // A file has up to a few hundredths more than the filter; that itself is checked when its shape is known.
    let length = announced.length();
    let at_least = match announced {
        Announced::Ours(_) => (length - length / 32).saturating_sub(1 << 20),
        _ => length,
    };
    engine.check_room(key, at_least)?;
    if let Announced::Ours(header) = &announced {
        let hashing = &header.recipe.hashing;
        if let Some(space) = call.space().filter(|_| hashing.algorithm.is_keyed())
            && !space.has_contract(&hashing.contract)
        {
            return Err(Refusal::err(format_args!(
                "the dump was made under the contract '{}', which is not of this namespace: its own dumps are loaded here, and \
                 others by users that are bound to no namespace",
                space.shown_contract(&hashing.contract)
            )));
        }
        // Without a master secret, or with a contract that cannot be, nothing needs to be sent.
        engine.contracts.contract(&header.recipe.hashing)?;
    }
    // Nearly all of it will be the filter's: the namespace is charged for that from here on.
    let of_space = (length - length / 32).saturating_sub(16 << 10);
    engine.loads.begin(&engine, call.holder(), key, announced, of_space)?;
    Ok(Reply::Ok)
}

fn announced(iterator: i64, data: &[u8], family: Family) -> Result<Announced, Refusal> {
    if data.starts_with(&dump_form::MAGIC) {
        return Header::from_bytes(data).map(Announced::Ours).map_err(|wrong| bad_header(family, wrong));
    }
    if iterator != 1 || data.len() > MOST_HEADER {
        return Err(bad_header(family, "this is no header of a dump"));
    }
    let shape = match family {
        Family::Bloom => RedisBloomShape::from_header(data).map(Announced::RedisBloom),
        Family::Cuckoo => RedisCuckooShape::from_header(data).map(Announced::RedisCuckoo),
    };
    shape.map_err(|error| bad_header(family, error))
}

/// Where a chunk goes, and its bytes; within the length that was announced.
fn chunk<'a>(announced: &Announced, iterator: i64, data: &'a [u8], family: Family) -> Result<(u64, &'a [u8]), Refusal> {
    if let Announced::Ours(header) = announced {
        let (offset, bytes) = header.open_chunk(data).map_err(|wrong| bad_chunk(family, wrong))?;
        let end = offset + bytes.len() as u64;
        if (iterator & dump_form::PLACE) as u64 != 1 + end {
            return Err(bad_chunk(family, "the iterator is not the one that came with the chunk"));
        }
        return Ok((offset, bytes));
    }
    // RedisBloom's iterator is 1 + where the chunk ends.
    let end = iterator as u64 - 1;
    let offset = end.checked_sub(data.len() as u64).filter(|_| !data.is_empty());
    let offset = offset.ok_or_else(|| bad_chunk(family, "the chunk is empty or begins before the filter"))?;
    match family {
        _ if end <= announced.length() => Ok((offset, data)),
        Family::Bloom if offset >= announced.length() => Err(Refusal::NO_LINK),
        Family::Bloom => Err(Refusal::CHUNK_TOO_BIG),
        Family::Cuckoo => Err(bad_chunk(family, "it goes past the end of the filter")),
    }
}

/// All bytes are there: what they are, if they are right, gets its name.
fn install(call: &mut Call<'_, '_, '_>, engine: &Engine, key: &[u8], load: &Arc<Load>, file: Vec<u8>) -> Outcome {
    let no_memory = |refused: crate::engine::budget::Refused| Refusal::new(refused.to_string());
    // The filter beside its bytes: no longer than they are, by the limits given to the reader.
    let mut held = engine.budget.hold(file.len() as u64).map_err(no_memory)?;
    let (filter, recipe, maker, removed) = open(engine, &load.announced, &file)?;
    let keeper = call.desk.keeper.get().cloned();
    let id = engine.take_id();
    let image_file;
    let inline;
    let image = match &keeper {
        _ if filter.size_in_bytes() <= INLINE => {
            inline = match &load.announced {
                Announced::Ours(_) => file,
                _ => filter.to_bytes().map_err(|error| refused(&error))?,
            };
            Image::Inline(&inline)
        }
        Some(keeper) => {
            image_file = keeper.write_image(id, &filter).map_err(Refusal::err)?;
            Image::File(&image_file)
        }
        // A server that keeps nothing.
        None => Image::Inline(&[]),
    };
    held.resize(0).map_err(no_memory)?;
    let prepared = engine.adopt_as(id, key, recipe, maker, filter)?;
    prepared.entry().set_deleted(removed);
    call.alone(|permit| permit.install(prepared, image, Existing::Refuse).map(|entry| ((), entry.touched())))?;
    Ok(Reply::Ok)
}

/// The filter of the bytes, and how it was made.
fn open(engine: &Engine, announced: &Announced, file: &[u8]) -> Result<(AnyFilter, Recipe, Maker, u64), Refusal> {
    match announced {
        Announced::Ours(header) => {
            let filter = open_ours(engine, header, file)?;
            Ok((filter, header.recipe.clone(), header.maker, header.removed))
        }
        Announced::RedisBloom(shape) => {
            let head = shape.header();
            let chunks = [(1, &head[..]), (1 + file.len() as i64, file)];
            let filter = RedisBloom::from_chunks(chunks).map_err(|error| bad_chunk(Family::Bloom, error))?;
            // Bits that speak of less than half the keys: a link of zeros, as a copy that lost its chunks has.
            let spoken = filter.approximate_count().value;
            if spoken * 2.0 + 8.0 < filter.len() as f64 {
                return Err(bad_chunk(
                    Family::Bloom,
                    format_args!("the header counts {} items, and the bits are those of {spoken:.0}", filter.len()),
                ));
            }
            let filter = AnyFilter::from(filter);
            let expansion = shape.expansion().unwrap_or(0);
            let mut recipe = foreign_recipe(&filter);
            recipe.growth = f64::from(expansion.max(1));
            Ok((filter, recipe, Maker::Bf { expansion }, 0))
        }
        Announced::RedisCuckoo(shape) => {
            let head = shape.header();
            let chunks = [(1, &head[..]), (1 + file.len() as i64, file)];
            let filter = RedisCuckoo::from_chunks(chunks).map_err(|error| bad_chunk(Family::Cuckoo, error))?;
            // Every byte that is not 0 is a fingerprint. Where some are missing, a "no" would be wrong; more of them come
            // with keys that were added there while it was dumped.
            if filter.set_cells() < filter.len() {
                return Err(bad_chunk(
                    Family::Cuckoo,
                    format_args!("the header counts {} items, and {} are there", filter.len(), filter.set_cells()),
                ));
            }
            let filter = AnyFilter::from(filter);
            let expansion = shape.expansion();
            let mut recipe = foreign_recipe(&filter);
            recipe.growth = f64::from(expansion.max(1));
            let (bucket_size, max_iterations) = (shape.bucket_size(), shape.iterations());
            Ok((filter, recipe, Maker::Cf { bucket_size, max_iterations, expansion }, shape.deletes()))
        }
    }
}

/// How a filter of RedisBloom would have been asked for here.
fn foreign_recipe(filter: &AnyFilter) -> Recipe {
    let contract = filter.contract();
    let hashing = Hashing { algorithm: contract.algorithm(), seed: contract.seed(), contract: String::new(), epoch: 0 };
    let mut recipe = Recipe::new(filter.kind(), filter.capacity(), filter.promised_rate(), hashing);
    recipe.when_full = match filter.when_full() {
        WhenFull::Grow => WhenFull::Grow,
        _ => WhenFull::Refuse,
    };
    recipe
}

fn open_ours(engine: &Engine, header: &Header, file: &[u8]) -> Result<AnyFilter, Refusal> {
    let family = header.family;
    if Address::of(file) != header.address || !file.starts_with(&FILE_MAGIC) {
        return Err(bad_chunk(family, "the chunks together are not what was dumped: start again from iterator 0"));
    }
    let hashing = &header.recipe.hashing;
    let secret = if hashing.algorithm.is_keyed() {
        // Without a master secret the header was refused.
        engine.contracts.secret(&hashing.contract, hashing.epoch)
    } else {
        None
    };
    let mut options = OpenOptions::new().limits(Limits::payload(file.len() as u64));
    if let Some(secret) = &secret {
        options = options.secret(secret);
    }
    let filter = AnyFilter::from_bytes_with(file, &options).map_err(|error| unreadable(family, hashing, &error))?;
    let contract = filter.contract();
    if filter.kind() != header.recipe.kind
        || contract.algorithm() != hashing.algorithm
        || contract.seed() != hashing.seed
    {
        return Err(bad_chunk(family, "the header tells of another filter than the chunks"));
    }
    Ok(filter)
}

fn unreadable(family: Family, hashing: &Hashing, error: &Error) -> Refusal {
    match error.kind() {
        ErrorKind::Secret | ErrorKind::Contract => Refusal::err(format_args!(
            "the dump was made under another master secret than this server's (contract '{}', epoch {}): load it into a \
             server with the same --master-key, or add its items here again",
            hashing.contract, hashing.epoch
        )),
        _ => bad_chunk(family, error),
    }
}
