//! Changed bits: a new file as an old one with some bits flipped, for files of any kind and any two lengths.
//!
//! What both files have (the same section of the same part) is laid over each other, and where they differ is written
//! as gaps between flipped bits, per 64 KiB of the new file; chunks that do not differ are not mentioned. A key that is
//! added to a half-full Bloom filter flips four bits, which cost about 9 bits each; so do the head's counts and sums.
//!
//! ```text
//!   body:    copies, then records to the end                              numbers are LEB128, shortest form
//!   copies:  ┌───────┐ ┌──────┬──────┬────────┐
//!            │ count │ │ skip │ from │ length │  count times: `length` bytes of the old file from `from` on, `skip` bytes
//!            └───────┘ └──────┴──────┴────────┘  after the end of the copy before; what is between is zero
//!   record:  ┌──────┬─────────────────────────┐
//!            │ skip │ gap record (`gaps`)     │  `skip` chunks after the one before; its bits are flipped
//!            └──────┴─────────────────────────┘
//! ```

use super::frame::{Frame, corrupt};
use super::gaps;
use super::sums::CHUNK_LEN;
use crate::error::{Error, ErrorKind, Result};

/// The bytes of a gap record before its body.
const RECORD: usize = 8;

/// A stretch that a new file has from an old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Copy {
    /// Where it lies in the new file.
    at: u64,
    /// Where it lies in the old one.
    from: u64,
    length: u64,
}

/// What two files have in common: the head, and every section that both have, as far as the shorter one goes.
fn common(old: &Frame, new: &Frame) -> Vec<Copy> {
    let head = Copy { at: 0, from: 0, length: old.head_len().min(new.head_len()) };
    let sections = new.sections().iter().filter_map(|section| {
        let same = old.find(section.kind, section.part)?;
        Some(Copy { at: section.offset, from: same.offset, length: section.length.min(same.length) })
    });
    let mut copies: Vec<Copy> = Vec::new();
    for copy in std::iter::once(head).chain(sections) {
        if let Some(last) = copies.last_mut()
            && copy.at.wrapping_sub(last.at) == copy.from.wrapping_sub(last.from)
            && copy.at - (last.at + last.length) < 64
            && copy.from >= last.from
        {
            // Only padding between them, zero in both files.
            last.length = copy.at + copy.length - last.at;
            continue;
        }
        copies.push(copy);
    }
    copies
}

/// The body that makes `new` of `old`; nothing if it would not be shorter than `new` itself.
pub(super) fn encode(old: &[u8], old_frame: &Frame, new: &[u8], new_frame: &Frame) -> Result<Option<Vec<u8>>> {
    let copies = common(old_frame, new_frame);
    let mut body = Vec::new();
    put(&mut body, copies.len() as u64);
    let mut end = 0;
    for copy in &copies {
        put(&mut body, copy.at - end);
        put(&mut body, copy.from);
        put(&mut body, copy.length);
        end = copy.at + copy.length;
    }
    let mut copies_read = &body[..];
    let mut flipped = lay_out(&mut copies_read, old, new.len())?;
    let mut skip = 0;
    for (flipped, new) in flipped.chunks_mut(CHUNK_LEN).zip(new.chunks(CHUNK_LEN)) {
        if flipped == new {
            skip += 1;
            continue;
        }
        flipped.iter_mut().zip(new).for_each(|(flipped, new)| *flipped ^= new);
        put(&mut body, skip);
        gaps::encode_chunk(flipped, &mut body);
        skip = 0;
        if body.len() >= new_frame.total_len() as usize {
            return Ok(None);
        }
    }
    Ok((body.len() < new.len()).then_some(body))
}

/// The new file that a body makes of an old one. The caller has checked that so many bytes may be had, and holds what
/// comes out against its address.
pub(super) fn apply(mut body: &[u8], old: &[u8], new_len: usize) -> Result<Vec<u8>> {
    let mut new = lay_out(&mut body, old, new_len)?;
    let mut chunk = 0u64;
    while !body.is_empty() {
        let skip = take(&mut body)?;
        chunk = chunk.checked_add(skip).ok_or_else(|| past("chunk", skip))?;
        let start = usize::try_from(chunk).ok().and_then(|chunk| chunk.checked_mul(CHUNK_LEN));
        let rest = start.and_then(|start| new.get_mut(start..)).unwrap_or_default();
        if rest.is_empty() {
            return Err(past("chunk", chunk));
        }
        let raw_len = rest.len().min(CHUNK_LEN);
        let length = match body {
            [l0, l1, l2, ..] => u32::from_le_bytes([*l0, *l1, *l2, 0]) as usize + RECORD,
            _ => return Err(corrupt("delta: ends inside a record".into())),
        };
        let Some((record, after)) = body.split_at_checked(length) else {
            return Err(corrupt(format!(
                "delta: a record of {length} bytes for chunk {chunk}, and {} are left",
                body.len()
            )));
        };
        // A payload of one chunk: its length, and this record.
        let mut decoder = gaps::Decoder::new(raw_len as u64);
        decoder.feed(&gaps::preamble(raw_len as u64), &mut |_, _| Ok(()))?;
        decoder.feed(record, &mut |_, flipped| {
            rest.iter_mut().zip(flipped).for_each(|(byte, flipped)| *byte ^= flipped);
            Ok(())
        })?;
        decoder.finish()?;
        body = after;
        chunk += 1;
    }
    Ok(new)
}

/// Reads the copies of a body and makes them: the new file before its bits are flipped.
fn lay_out(body: &mut &[u8], old: &[u8], new_len: usize) -> Result<Vec<u8>> {
    let mut new = Vec::new();
    new.try_reserve_exact(new_len).map_err(|_| {
        let message = format!("the system refused {new_len} bytes for the file that the delta makes; free some memory");
        Error::new(ErrorKind::OutOfMemory, message)
    })?;
    new.resize(new_len, 0);
    let mut end = 0u64;
    // Each takes three bytes of the body at least, so that a hostile count ends soon.
    for _ in 0..take(body)? {
        let (skip, from, length) = (take(body)?, take(body)?, take(body)?);
        let at = end.checked_add(skip).ok_or_else(|| past("copy", skip))?;
        end = at.checked_add(length).ok_or_else(|| past("copy", length))?;
        let to = range(at, length).and_then(|range| new.get_mut(range)).ok_or_else(|| past("copy", at))?;
        let from = range(from, length).and_then(|range| old.get(range)).ok_or_else(|| past("copy", from))?;
        to.copy_from_slice(from);
    }
    Ok(new)
}

fn range(at: u64, length: u64) -> Option<std::ops::Range<usize>> {
    Some(usize::try_from(at).ok()?..usize::try_from(at.checked_add(length)?).ok()?)
}

#[cold]
fn past(what: &str, at: u64) -> Error {
    corrupt(format!("delta: a {what} at {at} goes past the end of the file"))
}

/// Appends a number, seven bits a byte, lowest first.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number from the front; its shortest form alone.
fn take(body: &mut &[u8]) -> Result<u64> {
    let mut number = 0u64;
    for at in 0..10 {
        let Some((&byte, rest)) = body.split_first() else {
            return Err(corrupt("delta: ends inside a number".into()));
        };
        *body = rest;
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            if (byte == 0 && at > 0) || (at == 9 && byte > 1) {
                break;
            }
            return Ok(number);
        }
    }
    Err(corrupt("delta: a number that is not in its shortest form, or above 2^64".into()))
}
