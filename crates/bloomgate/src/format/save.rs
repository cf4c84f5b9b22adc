//! Saving: any filter, from any place, to a file that is there whole or not at all.

use std::io::Write;
use std::path::Path;

use super::address::Address;
use super::agreement::{contract_body, sentinels_body};
use super::atomic_file::write_atomically;
use super::filed::Filed;
use super::frame::corrupt;
use super::gaps;
use super::sections::{Codec, SectionType};
use super::shapes::Plan;
use super::write::{FrameWriter, PayloadSource};
use crate::any::AnyFilter;
use crate::arch::words::ReadWords;
use crate::bits::mapped::CHUNK_BYTES;
use crate::bits::{Owned, Shared, Store};
use crate::error::Result;

/// Whether a file is made smaller at the price of having to be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Never: the file can be queried in place.
    #[default]
    Never,
    /// Gap coding for payloads with at most a fifth of their bits set ([`gaps`]). A filter at its capacity
    /// is half full and does not compress; it is written as it is. What was coded must be loaded, not mapped.
    WhereItPays,
}

/// How a filter is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct SaveOptions {
    /// Whether the file is made smaller.
    pub compress: Compression,
}

impl SaveOptions {
    /// Nothing compressed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the file is made smaller.
    #[must_use]
    pub fn compress(mut self, compress: Compression) -> Self {
        self.compress = compress;
        self
    }
}

/// The words of a piece while it is written: the file is gone through twice, and must be the same both times.
pub(super) enum Words<'a, S: Store> {
    /// Nobody writes to them while we hold the filter.
    Still(&'a S),
    /// A copy of words that others may be setting.
    Copied(Owned),
}

impl<'a, S: Store> Words<'a, S> {
    pub(super) fn of(store: &'a S) -> Result<Self> {
        let words = store.words();
        if S::CHECKED && !store.admitted() {
            // Damaged bits with fresh checksums would be believed.
            for word in (0..words.count()).step_by(CHUNK_BYTES / 8) {
                if !store.admit(word) {
                    return Err(corrupt(format!(
                        "the mapped file is damaged in the chunk of word {word}: it is not copied; fetch or build it again"
                    )));
                }
            }
        }
        if <S::Read<'a> as ReadWords>::SHARED {
            return Ok(Self::Copied(copy_words(store)?));
        }
        Ok(Self::Still(store))
    }

    fn load(&self, at: usize) -> u64 {
        match self {
            Self::Still(store) => store.words().load(at),
            Self::Copied(copy) => copy.as_slice()[at],
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Still(store) => store.words().count(),
            Self::Copied(copy) => copy.as_slice().len(),
        }
    }

    fn codec(&self, options: &SaveOptions) -> Codec {
        match options.compress {
            Compression::Never => Codec::Raw,
            Compression::WhereItPays => {
                let ones: u64 = (0..self.count()).map(|at| u64::from(self.load(at).count_ones())).sum();
                let fill = ones as f64 / (self.count() as f64 * 64.0);
                if gaps::worth_it(fill) { Codec::Gaps } else { Codec::Raw }
            }
        }
    }
}

impl<S: Store> PayloadSource for Words<'_, S> {
    fn byte_len(&self) -> u64 {
        self.count() as u64 * 8
    }

    fn fill(&self, offset: u64, out: &mut [u8]) {
        let first = (offset / 8) as usize;
        for (at, bytes) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *bytes = self.load(first + at).to_le_bytes();
        }
    }
}

/// A copy for one owner of a filter that others may be changing: kinds whose cells move are copied while they do not; of
/// the others every key inserted before is in the copy, and of those inserted meanwhile, some.
pub(crate) fn copy(filter: &AnyFilter<Shared>) -> Result<AnyFilter> {
    let (plan, stores) = filter.at_rest(|(chain, pieces)| {
        let (pieces, stores): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        (Plan { chain, pieces }, stores.into_iter().map(copy_words).collect::<Result<Vec<_>>>())
    })?;
    AnyFilter::of(filter.contract().clone(), plan, stores?)
}

/// The words as they are now.
fn copy_words<S: Store>(store: &S) -> Result<Owned> {
    let words = store.words();
    let mut copy = Owned::zeroed(words.count() as u64)?;
    for (at, word) in copy.as_mut_slice().iter_mut().enumerate() {
        *word = words.load(at);
    }
    Ok(copy)
}

/// Writes a filter to anything that takes bytes.
pub(crate) fn write<S: Store, F: Filed<S>>(filter: &F, options: &SaveOptions, out: &mut dyn Write) -> Result<Address> {
    let contract = filter.contract_of();
    let agreement = vec![
        (SectionType::CONTRACT, 0, contract_body(contract)?),
        (SectionType::SENTINELS, 0, sentinels_body(contract)?),
    ];
    write_under(filter, agreement, options, out)
}

/// Writes a filter under a contract that is written down already: with these sections beside its shape, counts and words.
pub(crate) fn write_under<S: Store, F: Filed<S>>(
    filter: &F,
    sections: Vec<(SectionType, u16, Vec<u8>)>,
    options: &SaveOptions,
    out: &mut dyn Write,
) -> Result<Address> {
    // Whatever others may change is copied here, while they cannot.
    let (plan, words) = filter.at_rest(|(chain, pieces)| {
        let (pieces, stores): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        (Plan { chain, pieces }, stores.into_iter().map(Words::of).collect::<Result<Vec<_>>>())
    })?;
    let words = words?;
    let mut file = FrameWriter::new();
    for (kind, part, body) in sections {
        file.section(kind, part, body);
    }
    plan.write(&mut file)?;
    for ((part, _), words) in plan.parts().zip(&words) {
        file.payload(part, words, words.codec(options));
    }
    file.write_to(out)
}

/// Writes a filter to a file, which is replaced only once the new one is whole.
pub(crate) fn save<S: Store, F: Filed<S>>(filter: &F, options: &SaveOptions, path: &Path) -> Result<Address> {
    write_atomically(path, |out| write(filter, options, out))
}

/// The whole file in memory.
pub(crate) fn to_bytes<S: Store, F: Filed<S>>(filter: &F, options: &SaveOptions) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write(filter, options, &mut bytes)?;
    Ok(bytes)
}
