//! Commands on names: which there are, when they end, and what they are called.

use std::collections::HashMap;

use bloomgate_command::{ExpireOnly, Refusal, Reply, Request, glob};

use super::call::{Call, Outcome};
use super::space::Space;
use crate::engine::Engine;
use crate::engine::adding::NotDone;
use crate::engine::entry::Entry;
use crate::engine::names::Names;
use crate::engine::shadows::is_reserved;

/// KEYS answers so many names at most; SCAN has no end.
const MAX_KEYS: usize = 1_000_000;
/// SCAN looks at so many names in one call at most.
pub(super) const MAX_SCAN: u64 = 10_000;
/// SCAN takes so many steps of its pattern, and bytes of names that match, for each name that it was to look at, and so many in
/// all, then gives its cursor back: about 1 ms.
pub(crate) const STEPS_EACH: u64 = 1_024;
const MAX_STEPS: u64 = 1 << 20;
/// KEYS takes so many in all: about 1 s of a worker.
const KEYS_STEPS: u64 = 1 << 29;
/// So often it looks at all filters, if names are moved meanwhile.
const KEYS_TRIES: usize = 3;

/// RANDOMKEY looks at so many.
const AROUND: usize = 64;
/// FLUSHALL of a namespace deletes so many at a time.
const FLUSHED: usize = 256;

/// Runs a command of this group.
pub fn run(call: &mut Call<'_, '_, '_>, request: &Request<'_>) -> Option<Outcome> {
    Some(match *request {
        Request::Type { key } => Ok(Reply::simple(call.find(key).map_or("none", |entry| entry.type_name()))),
        Request::Exists { keys } | Request::Touch { keys } => {
            Ok(Reply::Int(keys.iter().filter(|key| call.find(key).is_some()).count() as i64))
        }
        Request::Del { keys } | Request::Unlink { keys } => delete(call, keys),
        Request::Keys { pattern } => all_names(call, pattern),
        Request::Scan { cursor, pattern, count, kind } => Ok(scan(call, cursor, pattern, count, kind)),
        Request::Randomkey => Ok(random(call)),
        Request::Expire { command, key, milliseconds, from_now, only } => {
            expire(call, command, key, (milliseconds, from_now), only)
        }
        Request::Ttl { key } => Ok(ends(call, key, |at, now| (at.saturating_sub(now) + 500) / 1_000)),
        Request::Pttl { key } => Ok(ends(call, key, u64::saturating_sub)),
        Request::Expiretime { key } => Ok(ends(call, key, |at, _| call.core.engine.clock.on_wall(at) / 1_000)),
        Request::Pexpiretime { key } => Ok(ends(call, key, |at, _| call.core.engine.clock.on_wall(at))),
        Request::Persist { key } => persist(call, key),
        Request::Rename { key, newkey } => rename(call, key, newkey, true).map(|_| Reply::Ok),
        Request::Renamenx { key, newkey } => rename(call, key, newkey, false).map(|done| Reply::Int(i64::from(done))),
        Request::Copy { source, destination, db, replace } => {
            super::copying::copy(call, source, destination, db, replace)
        }
        Request::ObjectEncoding { key } => existing(call, key, |_| Reply::text("raw")),
        Request::ObjectRefcount { key } => existing(call, key, |_| Reply::Int(1)),
        Request::ObjectIdletime { key } => existing(call, key, |_| Reply::Int(0)),
        Request::ObjectFreq { key } if call.find(key).is_none() => Ok(Reply::Nil),
        Request::ObjectFreq { .. } => {
            Err(Refusal::err("An LFU maxmemory policy is not selected, access frequency not tracked.").into())
        }
        Request::Dbsize => {
            let engine = &call.core.engine;
            let all = || engine.names.visible() as u64;
            Ok(Reply::Int(call.bound().map_or_else(all, |(space, _)| engine.namespaces.filters(space)) as i64))
        }
        Request::Flushall | Request::Flushdb => {
            let flushed = match call.bound() {
                None => call.alone(|permit| permit.flush_all().map(|sequence| (Reply::Ok, sequence))),
                Some((number, space)) => flush_space(call, number, space),
            };
            if flushed.is_ok() {
                let whose = call.space().map_or("all", Space::name);
                let fields = [("namespace", whose.into())];
                match call.space() {
                    None => call.tell("flushed", format_args!("all filters were deleted"), &fields),
                    Some(_) => call.tell("flushed", format_args!("all filters of '{whose}' were deleted"), &fields),
                }
            }
            flushed
        }
        Request::MemoryUsage { key } => {
            Ok(call.find(key).map_or(Reply::Nil, |entry| Reply::Int(entry.memory() as i64)))
        }
        _ => return None,
    })
}

fn existing(call: &Call<'_, '_, '_>, key: &[u8], tell: impl FnOnce(&Entry) -> Reply) -> Outcome {
    Ok(call.find(key).map_or(Reply::Nil, |entry| tell(&entry)))
}

fn delete(call: &mut Call<'_, '_, '_>, keys: &[&[u8]]) -> Outcome {
    call.alone(|permit| {
        let mut gone = 0;
        let mut sequence = permit.engine().journal.appended();
        for key in keys {
            if let Some(entry) = permit.find(key)? {
                sequence = permit.delete(&entry)?;
                gone += 1;
            }
        }
        Ok((Reply::Int(gone), sequence))
    })
}

/// KEYS: every name that is there from its beginning to its end, once, and some of those that come or go meanwhile.
///
/// Filters are looked at in the order of their ids, so a name that goes to a filter that was looked at already would be missed. It
/// is done again then; and where names are moved all the time, part by part of the names themselves, which holds others up a little.
fn all_names(call: &Call<'_, '_, '_>, pattern: &[u8]) -> Outcome {
    let names = &call.core.engine.names;
    for _ in 0..KEYS_TRIES {
        let generation = names.generation();
        let mut listing = Listing::new(call, pattern);
        let mut next = 0;
        loop {
            let (entries, then) = seen_from_id(&call.engine(), listing.bound, next, MAX_SCAN as usize);
            entries.iter().try_for_each(|entry| listing.look(entry, &entry.name()))?;
            let Some(then) = then else { break };
            next = then;
        }
        if names.settled_generation() == generation {
            return Ok(listing.reply());
        }
    }
    let mut listing = Listing::new(call, pattern);
    for number in 0..Names::PARTS {
        names.part(number).iter().try_for_each(|(entry, name)| listing.look(entry, name))?;
    }
    Ok(listing.reply())
}

/// What KEYS answers.
struct Listing<'a> {
    pattern: &'a [u8],
    bound: Option<(u16, &'a Space)>,
    now: u64,
    /// Names that match, with the ids of their filters. One that has just gone to another filter is met twice, as long as the one
    /// that had it is not forgotten.
    names: HashMap<Vec<u8>, u64>,
    bytes: u64,
    most: u64,
    steps: u64,
}

impl<'a> Listing<'a> {
    fn new(call: &Call<'a, '_, '_>, pattern: &'a [u8]) -> Self {
        let engine = &call.core.engine;
        // A client that does not read its reply holds as much for a while.
        let most = (call.desk.rules.output_limit() as u64).min(engine.budget.most() / 16);
        let (bound, now) = (call.bound(), engine.clock.now_ms());
        Self { pattern, bound, now, names: HashMap::new(), bytes: 0, most, steps: 0 }
    }

    /// Looks at a filter under the name that it has, or had when it was looked for.
    fn look(&mut self, entry: &Entry, name: &[u8]) -> Result<(), Refusal> {
        if entry.is_expired(self.now) || !is_seen_as(self.bound, entry, name) {
            return Ok(());
        }
        let name = self.bound.map_or(name, |(_, space)| space.shown(name));
        let is_wanted = glob::matches_counting(self.pattern, name, &mut self.steps);
        let steps = self.steps;
        if steps > KEYS_STEPS {
            return Err(Refusal::err(format_args!(
                "the pattern was tried for {steps} steps, of {KEYS_STEPS} that KEYS may take: use SCAN, or a pattern that \
                 begins with what the names begin with"
            )));
        }
        if is_wanted {
            self.bytes += (name.len() + size_of::<Reply>()) as u64;
            let most = self.most;
            if self.names.len() >= MAX_KEYS || self.bytes > most {
                return Err(Refusal::err(format_args!(
                    "the names that match are more than {MAX_KEYS} or take more than {most} bytes: use SCAN"
                )));
            }
            self.names.insert(name.to_vec(), entry.id);
        }
        Ok(())
    }

    /// The names, in the order in which their filters were made.
    fn reply(self) -> Reply {
        let mut names: Vec<(Vec<u8>, u64)> = self.names.into_iter().collect();
        names.sort_unstable_by_key(|(_, id)| *id);
        Reply::Array(names.into_iter().map(|(name, _)| Reply::Bulk(name)).collect())
    }
}

fn scan(call: &Call<'_, '_, '_>, cursor: u64, pattern: Option<&[u8]>, count: u64, kind: Option<&[u8]>) -> Reply {
    let engine = call.engine();
    let now = engine.clock.now_ms();
    let count = count.clamp(1, MAX_SCAN) as usize;
    let (entries, next) = seen_from_id(&engine, call.bound(), cursor, count);
    let mut next = next.unwrap_or(0);
    let most = (count as u64 * STEPS_EACH).min(MAX_STEPS);
    let (mut names, mut steps) = (Vec::new(), 0);
    for entry in &entries {
        if steps >= most {
            next = entry.id;
            break;
        }
        if entry.is_expired(now) || kind.is_some_and(|kind| !kind.eq_ignore_ascii_case(entry.type_name().as_bytes())) {
            continue;
        }
        let name = call.shown(entry);
        // A copy is made at sixteen bytes a step; what is told is kept, and has to be sent.
        steps += name.len() as u64 / 16;
        if pattern.is_none_or(|pattern| glob::matches_counting(pattern, &name, &mut steps)) {
            steps += name.len() as u64;
            names.push(Reply::Bulk(name));
        }
    }
    Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(names)])
}

fn random(call: &Call<'_, '_, '_>) -> Reply {
    let engine = call.engine();
    // Any of them: the clock is random enough for a look around.
    let from = engine.clock.now_ns() % engine.next_id().max(1);
    let bound = call.bound();
    // A piece, and not one: the first may be a shadow.
    let one = |first: u64| seen_from_id(&engine, bound, first, AROUND).0.into_iter().next();
    let entry = one(from).or_else(|| one(0));
    entry.map_or(Reply::Nil, |entry| Reply::Bulk(call.shown(&entry)))
}

/// Whether a user sees a filter: no shadow, and one of the namespace that the user is bound to.
fn is_seen(bound: Option<(u16, &Space)>, entry: &Entry) -> bool {
    is_seen_as(bound, entry, &entry.name())
}

/// The same under a name that it has, or had a moment ago.
fn is_seen_as(bound: Option<(u16, &Space)>, entry: &Entry, name: &[u8]) -> bool {
    match bound {
        None => !is_reserved(name),
        Some((number, space)) => entry.space() == number && space.has(name),
    }
}

/// Filters that a user sees, from an id on, of `count` that are looked at; and where to go on, nothing at the end. Of one who is
/// bound to a namespace none but its own are looked at: how many others have is nothing to it. Some of those may be shadows, so
/// there may be none and something to go on with all the same.
pub(crate) fn seen_from_id(
    engine: &Engine,
    bound: Option<(u16, &Space)>,
    from: u64,
    count: usize,
) -> (Vec<Entry>, Option<u64>) {
    let Some((number, _)) = bound else {
        let entries = engine.names.visible_from_id(from, count);
        let next = entries.last().filter(|_| entries.len() == count).map(|last| last.id + 1);
        return (entries, next);
    };
    let (mut entries, next) = engine.filters_of(number, from, count);
    entries.retain(|entry| is_seen(bound, entry));
    (entries, next)
}

/// Deletes all filters of a namespace, in pieces: others write meanwhile, unless it is part of a transaction.
fn flush_space(call: &mut Call<'_, '_, '_>, number: u16, space: &Space) -> Outcome {
    let engine = call.engine();
    // What is made from now on was not there when it was asked for.
    let end = engine.next_id();
    let mut next = 0;
    loop {
        let (seen, then) = seen_from_id(&engine, Some((number, space)), next, FLUSHED);
        call.alone(|permit| {
            let mut sequence = 0;
            for entry in seen.into_iter().filter(|entry| entry.id < end) {
                // It may have gone, or got another name, since it was looked for.
                let there = engine.names.by_id(entry.id).filter(|entry| is_seen(Some((number, space)), entry));
                if let Some(entry) = there {
                    sequence = permit.delete(&entry)?;
                }
            }
            Ok(((), sequence))
        })?;
        match then {
            Some(then) if then < end => next = then,
            _ => return Ok(Reply::Ok),
        }
    }
}

fn expire(call: &mut Call<'_, '_, '_>, command: &str, key: &[u8], time: (i64, bool), only: ExpireOnly) -> Outcome {
    let (milliseconds, from_now) = time;
    call.alone(|permit| {
        let now = permit.engine().clock.now_ms();
        // Before it is looked for, as Redis has it. What is told of it later are whole numbers of 63 bits.
        let at = match from_now {
            true => {
                (now as i64).checked_add(milliseconds).ok_or_else(|| Refusal::invalid_expire(command))?.max(0) as u64
            }
            // A time of the wall clock, which whoever gives it looks at.
            false => permit.engine().clock.of_wall(milliseconds.max(0) as u64),
        };
        let Some(entry) = permit.find(key)? else { return Ok((Reply::Int(0), 0)) };
        let current = entry.expires_ms();
        let refused = (only.none_yet && current != 0)
            || (only.if_set && current == 0)
            || (only.later && (current == 0 || at <= current))
            || (only.earlier && current != 0 && at >= current);
        if refused {
            return Ok((Reply::Int(0), 0));
        }
        let sequence = if at <= now { permit.delete(&entry)? } else { permit.expire(&entry, at)? };
        Ok((Reply::Int(1), sequence))
    })
}

fn ends(call: &Call<'_, '_, '_>, key: &[u8], tell: impl Fn(u64, u64) -> u64) -> Reply {
    let now = call.core.engine.clock.now_ms();
    Reply::Int(match call.find(key).map(|entry| entry.expires_ms()) {
        None => -2,
        Some(0) => -1,
        Some(at) => tell(at, now) as i64,
    })
}

fn persist(call: &mut Call<'_, '_, '_>, key: &[u8]) -> Outcome {
    call.alone(|permit| match permit.find(key)? {
        Some(entry) if entry.expires_ms() != 0 => {
            let sequence = permit.expire(&entry, 0)?;
            Ok((Reply::Int(1), sequence))
        }
        _ => Ok((Reply::Int(0), 0)),
    })
}

fn rename(call: &mut Call<'_, '_, '_>, from: &[u8], to: &[u8], replace: bool) -> Result<bool, NotDone> {
    call.alone(|permit| {
        let entry = permit.find(from)?.ok_or(Refusal::NO_SUCH_KEY)?;
        if !replace && permit.find(to)?.is_some() {
            return Ok((false, 0));
        }
        let sequence = permit.rename(&entry, to)?;
        Ok((true, sequence))
    })
}
