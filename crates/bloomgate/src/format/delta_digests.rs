//! Added digests: a new file as an old one into which so many keys were inserted, one after the other.
//!
//! ```text
//!   body:  ┌───────────┐ ┌────────┬────────┐
//!          │ count u64 │ │ lo u64 │ hi u64 │  count times, in the order of insertion
//!          └───────────┘ └────────┴────────┘
//! ```
//!
//! The order is kept because counts (and in kinds whose cells move, the cells) depend on it; sorted digests would be 7 %
//! shorter for a thousand keys, and might lead elsewhere. Inserting needs no secret: digests go where they go, and the
//! contract and its sentinels are taken over as they stand.

use super::filed::Filed;
use super::frame::corrupt;
use super::load::read_words;
use super::read::{Limits, SectionReader};
use super::save::{self, Compression, SaveOptions};
use super::sections::{Codec, SectionType};
use super::shapes::Plan;
use crate::any::AnyFilter;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Contract, Digest};

const DIGEST: usize = 16;

/// The body for these digests.
pub(super) fn encode(digests: &[Digest]) -> Vec<u8> {
    let mut body = Vec::with_capacity(8 + DIGEST * digests.len());
    body.extend_from_slice(&(digests.len() as u64).to_le_bytes());
    for digest in digests {
        body.extend_from_slice(&digest.lo.to_le_bytes());
        body.extend_from_slice(&digest.hi.to_le_bytes());
    }
    body
}

/// The length of the body for so many digests.
pub(super) fn encoded_len(digests: usize) -> usize {
    digests.saturating_mul(DIGEST).saturating_add(8)
}

/// The digests of a body.
pub(super) fn decode(body: &[u8]) -> Result<Vec<Digest>> {
    let (count, rest) = body.split_first_chunk::<8>().ok_or_else(|| corrupt("delta: ends inside its count".into()))?;
    let (digests, tail) = rest.as_chunks::<DIGEST>();
    let count = u64::from_le_bytes(*count);
    if digests.len() as u64 != count || !tail.is_empty() {
        return Err(corrupt(format!("delta: {} bytes of digests, {count} digests of 16 expected", rest.len())));
    }
    let half = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
    Ok(digests.iter().map(|digest| Digest::new(half(&digest[..8]), half(&digest[8..]))).collect())
}

/// The old file with these digests inserted.
pub(super) fn apply(old: &[u8], digests: &[Digest], limits: Limits) -> Result<Vec<u8>> {
    let mut file = SectionReader::from_slice(old, Some(limits))?;
    let plan = Plan::read(file.head())?;
    let words = read_words(&mut file, &plan)?;
    let coded = file.head().payloads().any(|section| section.codec == Codec::Gaps.number());
    let mut sections = Vec::new();
    for section in file.head().frame().sections().iter().filter(|section| !section.is_chunked()) {
        match section.kind {
            SectionType::SHAPE | SectionType::COUNTS | SectionType::CHUNK_SUMS => {}
            kind => match file.head().get(kind, section.part) {
                Some(body) => sections.push((kind, section.part, body.to_vec())),
                None => {
                    let message =
                        format!("{section} is of a later version and cannot be written again: update Bloomgate");
                    return Err(Error::new(ErrorKind::Version, message));
                }
            },
        }
    }
    let mut filter = AnyFilter::of(Contract::given(), plan, words)?;
    for &digest in digests {
        filter.insert_digest(digest)?;
    }
    let compress = if coded { Compression::WhereItPays } else { Compression::Never };
    let mut new = Vec::new();
    save::write_under(&filter, sections, &SaveOptions::new().compress(compress), &mut new)?;
    Ok(new)
}
