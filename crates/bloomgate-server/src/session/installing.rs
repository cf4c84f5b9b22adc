//! A filter that was built elsewhere becomes one of the server's: charged, its bits where recovery finds them, then
//! under its name.
//!
//! Small filters go into the log as they are; a larger one is written to a file of the data folder first, complete and
//! synced, and the log names the file. All of that happens before anybody has to stand still: only the record and the
//! change of the name are made alone.

use std::sync::Arc;

use bloomgate::AnyFilter;
use bloomgate_command::Refusal;

use super::call::Call;
use super::desk::Desk;
use crate::engine::adding::NotDone;
use crate::engine::entry::{Entry, Maker};
use crate::engine::recipe::{Recipe, refused};
use crate::engine::record::Image;
use crate::engine::structure::{Existing, Prepared, Reserved};
use crate::engine::{Engine, Permit};

/// Filters up to this size go into the log: at 1 GB/s, 1 ms of it.
pub const INLINE: u64 = 1 << 20;

/// A filter that was built, and what it is to be.
#[derive(Debug)]
pub struct Built<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// How an empty one like it is made.
    pub recipe: Recipe,
    /// Whose commands it answers to.
    pub maker: Maker,
    /// Its bits.
    pub filter: AnyFilter,
    /// When it goes, in milliseconds since 1970; 0 for never.
    pub expires_ms: u64,
}

/// A filter that needs only its name. Whoever does not install it must [`abandon`](Self::abandon) it, or its bytes stay
/// charged.
#[derive(Debug)]
#[must_use]
pub struct Ready {
    prepared: Prepared,
    image: Kept,
}

/// Where its bits are for recovery.
#[derive(Debug)]
enum Kept {
    Bytes(Vec<u8>),
    /// A file of the data folder, which stays as long as somebody has its name.
    File(Arc<str>),
}

impl Ready {
    /// Charges the filter and puts its bits where recovery finds them. Needs no permit: nobody sees it.
    pub fn make(engine: &Engine, desk: &Desk, built: Built<'_>) -> Result<Self, Refusal> {
        let id = engine.take_id();
        let image = kept(engine, desk, id, &built.filter)?;
        let prepared = engine.adopt_as(id, built.name, built.recipe, built.maker, built.filter)?;
        prepared.entry().expire_at(built.expires_ms);
        Ok(Self { prepared, image })
    }

    /// The same of a filter whose memory is charged already.
    pub fn make_of(engine: &Engine, desk: &Desk, built: Built<'_>, reserved: Reserved) -> Result<Self, Refusal> {
        let id = engine.take_id();
        let image = kept(engine, desk, id, &built.filter)?;
        let prepared = reserved.adopt(id, built.name, built.recipe, built.maker, built.filter)?;
        prepared.entry().expire_at(built.expires_ms);
        Ok(Self { prepared, image })
    }

    /// What it will be, for counters that go with it.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        self.prepared.entry()
    }

    /// Puts it under its name, with nobody else writing.
    pub fn install(self, permit: &mut Permit<'_>, existing: Existing) -> Result<Entry, Refusal> {
        let image = match &self.image {
            Kept::Bytes(bytes) => Image::Inline(bytes),
            Kept::File(name) => Image::File(name),
        };
        permit.install(self.prepared, image, existing)
    }

    /// [`install`](Self::install) for a command that does nothing else alone.
    pub fn install_alone(self, call: &mut Call<'_, '_, '_>, existing: Existing) -> Result<Entry, NotDone> {
        call.alone(|permit| {
            let entry = self.install(permit, existing)?;
            let sequence = entry.touched();
            Ok((entry, sequence))
        })
    }

    /// Gives it up. A file of it goes with the next snapshot.
    pub fn abandon(self, engine: &Engine) {
        engine.abandon(self.prepared);
    }
}

fn kept(engine: &Engine, desk: &Desk, id: u64, filter: &AnyFilter) -> Result<Kept, Refusal> {
    if desk.keeper.get().is_none() && engine.journal.log().is_none() {
        // The server keeps nothing: there is no recovery that would look.
        return Ok(Kept::Bytes(Vec::new()));
    }
    match desk.keeper.get() {
        Some(keeper) if filter.size_in_bytes() > INLINE => keeper
            .write_image(id, filter)
            .map(Kept::File)
            .map_err(|why| Refusal::err(format_args!("the filter could not be written to the data folder: {why}"))),
        _ => filter.to_bytes().map(Kept::Bytes).map_err(|error| refused(&error)),
    }
}

/// Charges a built filter, keeps its bits and puts it under its name.
pub fn install_built(call: &mut Call<'_, '_, '_>, built: Built<'_>, existing: Existing) -> Result<Entry, NotDone> {
    Ready::make(&call.engine(), call.desk, built)?.install_alone(call, existing)
}
