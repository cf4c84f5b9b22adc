//! One filter, out of Redis: its chunks by SCANDUMP, and the proof that nobody wrote to it meanwhile.
//!
//! SCANDUMP reads a filter in pieces, and whoever adds a key between two of them makes a torn copy: one that may say "no"
//! to a key that is there. So the key is watched (`WATCH`, and an empty transaction that fails if it was touched), and
//! what INFO says of it must be the same before and after. A copy of which neither is sure is thrown away.

use std::fmt;

use bloomgate::AnyFilter;
use bloomgate::foreign::Form;
use redis::Value;

use super::server::{Refusal, Server};
use crate::failure::Failure;
use crate::number;
use crate::progress::Progress;

/// The most bytes of an answer with a chunk: RedisBloom sends at most 16 MiB of data at once.
const MOST_CHUNK: u64 = (16 << 20) + 4096;

/// The two filters of RedisBloom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Bloom,
    Cuckoo,
}

impl Family {
    /// What `TYPE` calls it.
    pub fn of_type(name: &[u8]) -> Option<Self> {
        match name {
            b"MBbloom--" => Some(Self::Bloom),
            b"MBbloomCF" => Some(Self::Cuckoo),
            _ => None,
        }
    }

    fn dump(self) -> &'static str {
        if self == Self::Bloom { "BF.SCANDUMP" } else { "CF.SCANDUMP" }
    }

    fn info(self) -> &'static str {
        if self == Self::Bloom { "BF.INFO" } else { "CF.INFO" }
    }

    pub fn form(self) -> Form {
        if self == Self::Bloom { Form::RedisBloom } else { Form::RedisCuckoo }
    }
}

/// What INFO says: names and numbers, as they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info(Vec<(String, Option<i64>)>);

impl Info {
    fn read(answer: Value) -> Option<Self> {
        let pairs: Vec<(Value, Value)> = match answer {
            Value::Map(pairs) => pairs,
            Value::Array(flat) if flat.len().is_multiple_of(2) => {
                let mut flat = flat.into_iter();
                std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect()
            }
            _ => return None,
        };
        let read = pairs.into_iter().map(|(name, value)| {
            let name = match name {
                Value::SimpleString(name) => name,
                Value::BulkString(name) => String::from_utf8_lossy(&name).into_owned(),
                _ => return None,
            };
            match value {
                Value::Int(number) => Some((name, Some(number))),
                Value::Nil => Some((name, None)),
                // Numbers that later versions add as text do not count here.
                _ => Some((name, None)),
            }
        });
        read.collect::<Option<_>>().map(Self)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| known == name).and_then(|(_, number)| u64::try_from((*number)?).ok())
    }

    pub fn items(&self) -> Option<u64> {
        self.number("Number of items inserted")
    }

    /// Keys it was made for; cuckoo filters say slots, and these only of their first table.
    pub fn capacity(&self) -> Option<u64> {
        self.number("Capacity")
    }

    pub fn bytes(&self) -> Option<u64> {
        self.number("Size")
    }

    /// Links of a chain, tables of a cuckoo filter.
    pub fn filters(&self) -> Option<u64> {
        self.number("Number of filters")
    }
}

/// A filter that is there.
pub struct Found {
    pub key: Vec<u8>,
    pub family: Family,
    pub info: Info,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.key))
    }
}

/// A key as a person reads it: never a control character, which a terminal might obey.
pub fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key)
        .chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// What a copy came to.
pub enum Copied {
    Whole(Box<AnyFilter>),
    /// A cuckoo filter without keys: RedisBloom does not dump one.
    Empty,
    /// It was written to meanwhile.
    Torn,
}

/// What INFO says of a filter.
pub fn info(server: &mut Server, key: &[u8], family: Family) -> Result<Info, Failure> {
    let answer = server.ask(&[family.info().as_bytes(), key]);
    let answer = answer.map_err(|refusal| at(server, key, family.info(), refusal))?;
    Info::read(answer).ok_or_else(|| {
        Failure::Message(format!(
            "{}: {} of {} answers what is no information",
            server.name(),
            family.info(),
            shown(key)
        ))
    })
}

/// Copies a filter once. `most` bytes of it are read at most.
pub fn copy(server: &mut Server, found: &Found, most: u64, progress: &Progress) -> Result<Copied, Failure> {
    let watched = watch(server, &found.key)?;
    let copied = copy_watched(server, found, most, watched, progress);
    if copied.is_err() {
        // The next filter shall not be taken for torn because of this one.
        _ = release(server, watched);
    }
    copied
}

fn copy_watched(
    server: &mut Server,
    found: &Found,
    most: u64,
    watched: bool,
    progress: &Progress,
) -> Result<Copied, Failure> {
    let (key, family) = (&found.key[..], found.family);
    let before = info(server, key, family)?;
    if let Some(bytes) = before.bytes().filter(|&bytes| bytes > most) {
        return Err(too_large(server, found, bytes, most));
    }
    let Some(dump) = dump(server, found, most, progress)? else {
        release(server, watched)?;
        return Ok(if before.items() == Some(0) { Copied::Empty } else { Copied::Torn });
    };
    let after = info(server, key, family)?;
    if !release(server, watched)? || before != after {
        return Ok(Copied::Torn);
    }
    let filter = AnyFilter::from_foreign(&dump, family.form())
        .map_err(|error| Failure::Message(format!("{}: {found}: {error}", server.name())))?;
    // The header of the dump and INFO are two voices of one filter.
    if let Some(items) = after.items().filter(|&items| items != filter.len()) {
        return Err(Failure::Message(format!(
            "{}: {found}: the dump holds {} and {} says {}: it is not taken",
            server.name(),
            number::counted(filter.len(), "key"),
            family.info(),
            number::grouped(items)
        )));
    }
    Ok(Copied::Whole(Box::new(filter)))
}

/// All chunks, in the form of a dump file; nothing if there is none.
fn dump(server: &mut Server, found: &Found, most: u64, progress: &Progress) -> Result<Option<Vec<u8>>, Failure> {
    let (key, command) = (&found.key[..], found.family.dump());
    let mut file = Vec::new();
    let (mut at_now, mut bytes) = (0i64, 0u64);
    loop {
        let iterator = at_now.to_string();
        let answer = server.ask_for(&[command.as_bytes(), key, iterator.as_bytes()], MOST_CHUNK);
        let answer = answer.map_err(|refusal| at(server, key, command, refusal))?;
        let strange = |what: String| {
            Failure::Message(format!("{}: {found}: {command} {what}: nothing was written", server.name()))
        };
        let (next, chunk) = match answer {
            Value::Array(pair) => match <[Value; 2]>::try_from(pair) {
                Ok([Value::Int(next), Value::BulkString(chunk)]) => (next, chunk),
                Ok([Value::Int(next), Value::Nil]) => (next, Vec::new()),
                _ => return Err(strange("answers what is no chunk".into())),
            },
            _ => return Err(strange("answers what is no chunk".into())),
        };
        if next == 0 {
            // The end, or a filter that has nothing to dump.
            return Ok((at_now != 0).then_some(file));
        }
        let expected = if at_now == 0 { Some(1) } else { at_now.checked_add(chunk.len() as i64) };
        if chunk.is_empty() || Some(next) != expected {
            return Err(strange(format!("answers the iterator {next} to {at_now} with {} bytes", chunk.len())));
        }
        bytes += chunk.len() as u64;
        if bytes > most {
            return Err(too_large(server, found, bytes, most));
        }
        file.extend_from_slice(&next.to_le_bytes());
        file.extend_from_slice(&(chunk.len() as u64).to_le_bytes());
        file.extend_from_slice(&chunk);
        at_now = next;
        progress.advance(chunk.len() as u64);
    }
}

/// Watches a key; false if this server or this user cannot.
fn watch(server: &mut Server, key: &[u8]) -> Result<bool, Failure> {
    match server.ask(&[b"WATCH", key]) {
        Ok(_) => Ok(true),
        Err(Refusal::Said(said)) if said.contains("unknown command") || said.starts_with("NOPERM") => Ok(false),
        Err(refusal) => Err(server.failure("WATCH", refusal)),
    }
}

/// Ends the watching; false if the key was touched.
fn release(server: &mut Server, watched: bool) -> Result<bool, Failure> {
    if !watched {
        return Ok(true);
    }
    server.ask(&[b"MULTI"]).map_err(|refusal| server.failure("MULTI", refusal))?;
    let done = server.ask(&[b"EXEC"]).map_err(|refusal| server.failure("EXEC", refusal))?;
    Ok(done != Value::Nil)
}

/// A refusal about one filter.
fn at(server: &Server, key: &[u8], command: &str, refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Said(said) if said.to_lowercase().contains("not found") => {
            Failure::Message(format!("{}: {} was removed while it was copied", server.name(), shown(key)))
        }
        refusal => server.failure(command, refusal),
    }
}

fn too_large(server: &Server, found: &Found, bytes: u64, most: u64) -> Failure {
    Failure::Message(format!(
        "{}: {found} has {} or more, and {} are read at most: give --max-size if it shall be copied",
        server.name(),
        number::bytes(bytes),
        number::bytes(most)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_is_read_from_both_protocols() {
        let name = |text: &str| Value::SimpleString(text.into());
        let old = Value::Array(vec![name("Capacity"), Value::Int(100), name("Expansion rate"), Value::Nil]);
        let new = Value::Map(vec![
            (Value::BulkString(b"Capacity".to_vec()), Value::Int(100)),
            (name("Expansion rate"), Value::Nil),
        ]);
        let (old, new) = (Info::read(old).unwrap(), Info::read(new).unwrap());
        assert_eq!(old, new);
        assert_eq!((old.capacity(), old.items(), old.number("Expansion rate")), (Some(100), None, None));
        assert_eq!(Info::read(Value::Array(vec![Value::Int(1)])), None);
        assert_eq!(Info::read(Value::Array(vec![Value::Int(1), Value::Int(1)])), None);
    }

    #[test]
    fn keys_are_shown_without_what_a_terminal_obeys() {
        assert_eq!(shown(b"a\x1b[2Jb\n\xff"), "a\\u{1b}[2Jb\\n\u{fffd}");
    }
}
