//! The file of a filter as it is at one moment, written while others go on.
//!
//! Of kinds that only set bits the counts are those of the moment, and of the keys that are added while the file is written,
//! some are in it: nothing is copied. The others are copied while their one writer waits.

use std::io::{Seek, Write};
use std::sync::PoisonError;

use bloomgate::AnyFilter;
use bloomgate::format::Image;
use bloomgate_command::Refusal;

use crate::engine::budget::{Budget, Held};
use crate::engine::entry::{Body, Entry};
use crate::engine::recipe::refused;
use crate::engine::{Engine, Permit, check_available};

/// A filter at one moment.
#[derive(Debug)]
pub enum Moment<'e, 'b> {
    /// Its counts; its bits are read when they are written.
    Image(Image<'e>),
    /// A small one, copied in the moment.
    Small(AnyFilter),
    /// A copy, and the memory that it is charged.
    Copy(AnyFilter, Held<'b>),
    /// One that nobody changes while it is written: its writer waits.
    Still(&'e Entry),
}

impl<'e, 'b> Moment<'e, 'b> {
    /// The moment of a filter whose bits are only ever set, with nobody writing; nothing of the others, which are
    /// [copied](Self::copied).
    pub fn image(permit: &Permit<'_>, entry: &'e Entry) -> Result<Option<Self>, Refusal> {
        still_there(permit.engine(), entry)?;
        let told = |error: bloomgate::Error| refused(&error);
        Ok(match entry.body() {
            Body::Small(small) => Some(Self::Small(small.copy().map_err(told)?)),
            Body::Shared(filter) if !entry.is_ordered() => Some(Self::Image(filter.image().map_err(told)?)),
            _ => None,
        })
    }

    /// A copy of a filter whose cells move, while its one writer waits; charged before it is made.
    pub fn copied(budget: &'b Budget, entry: &'e Entry) -> Result<Self, Refusal> {
        match entry.body() {
            Body::Shared(filter) => {
                let held = budget.hold(filter.size_in_bytes()).map_err(|refused| refused.for_a_copy())?;
                let _writer = entry.write();
                Ok(Self::Copy(filter.copy().map_err(|error| refused(&error))?, held))
            }
            Body::Guarded(_) => Ok(Self::Still(entry)),
            Body::Small(small) => Ok(Self::Small(small.copy().map_err(|error| refused(&error))?)),
            Body::Unavailable { .. } => Err(check_available(entry).err().unwrap_or(Refusal::NOT_FOUND)),
        }
    }

    /// Writes the file.
    pub fn write(&self, out: &mut (impl Write + Seek)) -> Result<(), Refusal> {
        let written = match self {
            Self::Image(image) => image.write_seeking(out),
            Self::Small(copy) | Self::Copy(copy, _) => copy.write_to(out).map(drop),
            Self::Still(entry) => match entry.body() {
                Body::Guarded(filter) => {
                    let _writer = entry.write();
                    filter.read().unwrap_or_else(PoisonError::into_inner).write_to(out).map(drop)
                }
                _ => return Err(Refusal::NOT_FOUND),
            },
        };
        written.map_err(|error| refused(&error))
    }
}

/// About how long the file is: the bits, a sum for each 64 KiB of them, and the rest.
#[must_use]
pub fn expected_length(entry: &Entry) -> u64 {
    let (size, stages) = entry.with(|filter| (filter.size_in_bytes(), filter.stages())).unwrap_or_default();
    size + size / 8_192 + 8_192 * (1 + stages as u64)
}

/// A filter that was deleted while its file was asked for has none any more.
fn still_there(engine: &Engine, entry: &Entry) -> Result<(), Refusal> {
    engine.names.by_id(entry.id).map(drop).ok_or(Refusal::NOT_FOUND)
}
