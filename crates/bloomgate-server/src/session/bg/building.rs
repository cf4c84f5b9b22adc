//! BG.BUILD: a filter from a file that lies beside the server: items line by line, or a filter's own file.
//!
//! The file is in the folder that the server was started with (`--import-dir`), and a link out of it is not followed.
//! Nothing is seen of the filter before all of it is there.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bloomgate::format::Limits;
use bloomgate::{AnyFilter, Contract, Encoding, ErrorKind, Fuse, Insertion, Kind, OpenOptions, Ribbon};
use bloomgate_command::{Create, MAX_ITEM, Refusal, Reply};

use super::super::call::{Call, Outcome};
use super::super::installing::{Built, Ready, install_built};
use super::creating::alike;
use super::existing;
use super::replacing::Held;
use crate::engine::Engine;
use crate::engine::adding::NotDone;
use crate::engine::contracts::DEFAULT;
use crate::engine::entry::Maker;
use crate::engine::recipe::{Hashing, Recipe, refused};
use crate::engine::structure::Existing;

/// Items hashed at once: their bytes and digests stay in the second-level cache.
const BATCH: usize = 1_024;
/// What solving a filter that is built once takes for each item, beside the digests (fuse: 51 bytes), and at least.
const SOLVE_BYTES: u64 = 64;
const SOLVE_LEAST: u64 = 256 << 10;
/// The rate when none is asked for.
const RATE: f64 = 0.01;

/// What BG.BUILD asks for.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // The words of the command.
pub struct Wish<'a> {
    pub file: &'a str,
    pub kind: Option<Kind>,
    pub capacity: Option<u64>,
    pub rate: Option<f64>,
    pub contract: Option<&'a str>,
    pub like: Option<&'a [u8]>,
    pub replace: bool,
}

pub fn build(call: &mut Call<'_, '_, '_>, name: &[u8], wish: &Wish<'_>) -> Outcome {
    if !wish.replace && call.find(name).is_some() {
        return Err(Refusal::ITEM_EXISTS.into());
    }
    let engine = call.engine();
    if call.find(name).is_none() {
        engine.check_count(name)?;
    }
    let path = place(call, wish.file)?;
    let built = match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("bloom")) {
        true => of_filter(call, name, &path, wish)?,
        false => of_lines(call, name, &path, wish)?,
    };
    install(call, built, if wish.replace { Existing::Replace } else { Existing::Refuse })?;
    Ok(Reply::Ok)
}

/// Puts it under its name. A contract that nothing was made under before begins with it.
fn install(call: &mut Call<'_, '_, '_>, built: Built<'_>, existing: Existing) -> Result<(), NotDone> {
    let engine = call.engine();
    let Hashing { algorithm, contract, epoch, .. } = built.recipe.hashing.clone();
    if !algorithm.is_keyed() || engine.contracts.knows(&contract) {
        return install_built(call, built, existing).map(drop);
    }
    engine.check_new_contract(&contract)?;
    let name = built.name;
    let ready = Ready::make(&engine, call.desk, built)?;
    call.alone(|permit| {
        // Somebody was faster: no contract begins for a filter that is not made.
        let begun = permit.find(name).and_then(|found| match found {
            Some(_) if existing == Existing::Refuse => Ok(()),
            _ if engine.contracts.knows(&contract) => Ok(()),
            _ => permit.begin_epoch(&contract, epoch).map(drop),
        });
        if let Err(refusal) = begun {
            ready.abandon(&engine);
            return Err(refusal);
        }
        let entry = ready.install(permit, existing)?;
        let sequence = entry.touched();
        Ok(((), sequence))
    })
}

/// Where a file of the import folder really is, if it is within.
fn place(call: &Call<'_, '_, '_>, file: &str) -> Result<PathBuf, Refusal> {
    let folder = call.desk.told.import_dir.as_ref().ok_or_else(|| {
        Refusal::err("this server has no import folder: start it with --import-dir, and put the file there")
    })?;
    let wrong = |error: std::io::Error| Refusal::err(format_args!("'{file}' of the import folder: {error}"));
    let mut folder = folder.canonicalize().map_err(wrong)?;
    // Who is bound to a namespace reads the files of that one, in a folder of its name.
    if let Some(space) = call.space() {
        folder = folder.join(space.name()).canonicalize().map_err(wrong)?;
    }
    let path = folder.join(file).canonicalize().map_err(wrong)?;
    if !path.starts_with(&folder) {
        return Err(Refusal::err(format_args!("'{file}' leads out of the import folder: put the file itself there")));
    }
    if !path.is_file() {
        return Err(Refusal::err(format_args!("'{file}' of the import folder is no plain file")));
    }
    Ok(path)
}

/// A filter from its own file.
fn of_filter<'n>(call: &Call<'_, '_, '_>, name: &'n [u8], path: &Path, wish: &Wish<'_>) -> Result<Built<'n>, Refusal> {
    if wish.kind.is_some() || wish.capacity.is_some() || wish.rate.is_some() {
        return Err(Refusal::err(
            "a .bloom file has its kind, capacity and rate already: leave KIND, CAPACITY and RATE out",
        ));
    }
    if wish.contract.is_some() || wish.like.is_some() {
        return Err(Refusal::err("a .bloom file has its contract already: leave CONTRACT and LIKE out"));
    }
    let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let engine = &*call.engine();
    // A file has up to a few hundredths more than the filter, which is charged when it is known.
    engine.check_room(name, length - length / 32)?;
    let _held = Held::take(engine, length)?;
    let limits = Limits::payload(engine.budget.most_each());
    let mut opened = AnyFilter::open_with(path, &OpenOptions::new().limits(limits));
    let mut key = (String::new(), 0);
    // Keyed: by one of our own secrets, newest first. The head alone is read until the right one is found.
    for (contract, epoch) in secrets(call) {
        if !opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::Secret) {
            break;
        }
        if let Some(secret) = engine.contracts.secret(&contract, epoch) {
            opened = AnyFilter::open_with(path, &OpenOptions::new().limits(limits).secret(&secret));
            key = (contract, epoch);
        }
    }
    // The path is the server's own business.
    let told = |error: bloomgate::Error| error.to_string().replace(&path.display().to_string(), wish.file);
    built(name, opened.map_err(|error| Refusal::err(told(error)))?, key)
}

/// A filter that was opened under an epoch of a contract of ours, or of none, as one that the server can have.
pub fn built(name: &[u8], filter: AnyFilter, (contract, epoch): (String, u32)) -> Result<Built<'_>, Refusal> {
    let made = filter.contract();
    if !made.encoding().accepts(Encoding::Bytes) {
        return Err(Refusal::err(format_args!(
            "the keys of this file are {}, and the server's are bytes: build it again from bytes or text",
            made.encoding()
        )));
    }
    let hashing = Hashing { algorithm: made.algorithm(), seed: made.seed(), contract, epoch };
    let recipe = Recipe::new(filter.kind(), filter.capacity(), filter.promised_rate(), hashing);
    Ok(Built { name, filter, recipe, maker: Maker::Bg, expires_ms: 0 })
}

/// The contracts that are the user's with their epochs, the newest first.
pub fn secrets(call: &Call<'_, '_, '_>) -> Vec<(String, u32)> {
    let (contracts, default) = (&call.core.engine.contracts, call.contract(DEFAULT));
    let mut all = contracts.all();
    all.retain(|(name, _)| call.space().is_none_or(|space| space.has_contract(name)));
    if !contracts.knows(&default) {
        all.push((default, vec![0]));
    }
    let epochs = |(name, began): (String, Vec<u64>)| {
        (1..=began.len() as u32).rev().map(move |epoch| (name.clone(), epoch)).collect::<Vec<_>>()
    };
    all.into_iter().flat_map(epochs).collect()
}

/// A filter from the lines of a file.
fn of_lines<'n>(
    call: &mut Call<'_, '_, '_>,
    name: &'n [u8],
    path: &Path,
    wish: &Wish<'_>,
) -> Result<Built<'n>, Refusal> {
    let engine = &*call.engine();
    let recipe = match wish.like {
        Some(other) => {
            let otherwise = Create { kind: wish.kind, capacity: wish.capacity, rate: wish.rate, ..Create::default() };
            let mut recipe = alike(existing(call, other)?.recipe(), &otherwise)?;
            if !recipe.kind.takes_inserts() {
                (recipe.capacity, recipe.is_sized) = (count_lines(path, wish.file)?.max(1), true);
            }
            recipe
        }
        None => {
            let kind = wish.kind.unwrap_or(Kind::Scalable);
            let hashing = engine.contracts.keyed(&call.contract(wish.contract.unwrap_or(DEFAULT)));
            let capacity = match wish.capacity {
                Some(capacity) if kind.takes_inserts() => capacity,
                _ => count_lines(path, wish.file)?.max(1),
            };
            Recipe::new(kind, capacity, wish.rate.unwrap_or(RATE), hashing)
        }
    };
    let contract = engine.contracts.contract(&recipe.hashing)?;
    let filter = match recipe.kind {
        Kind::Rotating => {
            return Err(Refusal::err(
                "items of a window come with their time, which lines have not: BG.CREATE it, and add them",
            ));
        }
        kind if kind.takes_inserts() => insert_lines(engine, name, path, wish.file, &recipe, contract)?,
        _ => solve_lines(engine, path, wish.file, &recipe, contract)?,
    };
    Ok(Built { name, filter, recipe, maker: Maker::Bg, expires_ms: 0 })
}

fn count_lines(path: &Path, file: &str) -> Result<u64, Refusal> {
    let mut lines = Lines::open(path, file)?;
    let mut count = 0;
    while lines.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// Calls with the digests of all lines, batch by batch, and the number of the last line of the batch.
fn each_batch(
    path: &Path,
    file: &str,
    contract: &Contract,
    mut take: impl FnMut(&[bloomgate::Digest], u64) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut lines = Lines::open(path, file)?;
    let (mut bytes, mut ends, mut digests) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        bytes.clear();
        ends.clear();
        digests.clear();
        while ends.len() < BATCH
            && let Some(line) = lines.next()?
        {
            bytes.extend_from_slice(line);
            ends.push(bytes.len());
        }
        if ends.is_empty() {
            return Ok(());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let items: Vec<&[u8]> = starts.zip(&ends).map(|(start, &end)| &bytes[start..end]).collect();
        contract.digest_batch(&items, &mut digests).map_err(|error| refused(&error))?;
        take(&digests, lines.number)?;
    }
}

fn insert_lines(
    engine: &Engine,
    name: &[u8],
    path: &Path,
    file: &str,
    recipe: &Recipe,
    contract: Contract,
) -> Result<AnyFilter, Refusal> {
    let bytes = recipe.bytes_needed(contract.clone())?;
    engine.check_room(name, bytes)?;
    let mut held = Held::take(engine, bytes)?;
    let in_line =
        |error: bloomgate::Error, number: u64| Refusal::err(format_args!("line {number} of '{file}': {error}"));
    let mut filter = match recipe.build_for_repeats(contract.clone())? {
        AnyFilter::GrowingCuckoo(chain) => {
            let chain = chain.into_shared().map_err(|error| refused(&error))?;
            each_batch(path, file, &contract, |digests, number| {
                digests.iter().try_for_each(|&digest| {
                    let wrong = |error| in_line(error, number);
                    // When a table has no slot for a key is known when it comes: the next one is paid for then.
                    if chain.insert_in_place(digest).map_err(wrong)? == Insertion::Full {
                        let next = chain.next_stage_bytes().map_err(wrong)?;
                        held.grow_to(chain.size_in_bytes().saturating_add(next))?;
                        chain.insert_digest(digest).map_err(wrong)?;
                    }
                    Ok(())
                })
            })?;
            return Ok(chain.into_owned().map_err(|error| refused(&error))?.into());
        }
        filter => filter,
    };
    each_batch(path, file, &contract, |digests, number| {
        if let AnyFilter::Scalable(chain) = &filter
            && chain.remaining() < digests.len() as u64
        {
            let next = chain.next_stage_bytes().map_err(|error| in_line(error, number))?;
            held.grow_to(chain.size_in_bytes().saturating_add(next))?;
        }
        filter.insert_digests(digests).map_err(|error| in_line(error, number))?;
        // A chain whose first stages are smaller than a batch opens several at once.
        held.grow_to(filter.size_in_bytes())
    })?;
    Ok(filter)
}

fn solve_lines(
    engine: &Engine,
    path: &Path,
    file: &str,
    recipe: &Recipe,
    contract: Contract,
) -> Result<AnyFilter, Refusal> {
    let needed = recipe.capacity.saturating_mul(SOLVE_BYTES).max(SOLVE_LEAST);
    let _held = Held::take(engine, recipe.capacity.saturating_mul(16).saturating_add(needed))?;
    let mut digests = Vec::new();
    each_batch(path, file, &contract, |batch, number| {
        if (digests.len() + batch.len()) as u64 > recipe.capacity {
            return Err(Refusal::err(format_args!("'{file}' grew while it was read, at line {number}: try again")));
        }
        digests.extend_from_slice(batch);
        Ok(())
    })?;
    let built = match recipe.kind {
        Kind::Fuse => {
            let builder = Fuse::builder().contract(contract).rate(recipe.rate).threads(1);
            builder.build_memory(needed).build_from_digests(&digests).map(AnyFilter::from)
        }
        _ => {
            let builder = Ribbon::builder().contract(contract).rate(recipe.rate);
            builder.build_memory(needed).build_from_digests(&digests).map(AnyFilter::from)
        }
    };
    built.map_err(|error| refused(&error))
}

/// The lines of a file that are not empty, without their ends.
struct Lines<'a> {
    reader: BufReader<File>,
    line: Vec<u8>,
    /// The number of the last line read.
    number: u64,
    file: &'a str,
}

impl<'a> Lines<'a> {
    fn open(path: &Path, file: &'a str) -> Result<Self, Refusal> {
        let opened = File::open(path).map_err(|error| Refusal::err(format_args!("'{file}': {error}")))?;
        Ok(Self { reader: BufReader::with_capacity(256 << 10, opened), line: Vec::new(), number: 0, file })
    }

    fn next(&mut self) -> Result<Option<&[u8]>, Refusal> {
        loop {
            self.line.clear();
            // Room for the longest item and its end, whichever that is; no more is taken into memory.
            let mut limited = (&mut self.reader).take(MAX_ITEM as u64 + 2);
            let read = limited.read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| Refusal::err(format_args!("reading '{}': {error}", self.file)))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
                if self.line.last() == Some(&b'\r') {
                    self.line.pop();
                }
            }
            if self.line.len() > MAX_ITEM {
                return Err(Refusal::err(format_args!(
                    "line {} of '{}' is longer than {MAX_ITEM} bytes, the most of an item: is it a text file?",
                    self.number, self.file
                )));
            }
            if !self.line.is_empty() {
                return Ok(Some(&self.line));
            }
        }
    }
}
