//! Dumps that are being fetched: the files of filters as they were at one moment, kept until their last chunk is gone.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bloomgate::Address;
use bloomgate_command::Refusal;

use super::Engine;
use super::budget::{Budget, Held};
use super::dump_form::MOST_NUMBER;
use super::holders::{Holder, MOST, MOST_OF_ONE};

/// A dump, or a load, that nobody goes on with is dropped after this.
pub const IDLE_MS: u64 = 60_000;
/// One that nobody went on with for this long makes place for another: its client is gone or very slow.
pub const STALE_MS: u64 = 5_000;

/// The file of a filter with its address.
#[derive(Debug)]
pub struct File {
    /// The library's file.
    pub bytes: Vec<u8>,
    /// Its address.
    pub address: Address,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    holder: Holder,
    /// The filter's id.
    filter: u64,
    length: u64,
    /// Gone once the end was told: what is left answers whoever asks for the end again.
    file: Option<Arc<File>>,
    charged: u64,
    /// How far it was read; nothing before the first chunk. Who reads the same again does not keep it.
    read_to: Option<u64>,
    used_ms: u64,
}

#[derive(Debug)]
struct Table {
    next: u64,
    all: Vec<Kept>,
}

/// What is at a place of a dump.
#[derive(Debug)]
pub enum Part {
    /// Bytes, from the offset that was asked for.
    Bytes(Arc<File>),
    /// The end.
    End,
}

/// All dumps that are being fetched.
#[derive(Debug)]
pub struct Dumps(Mutex<Table>);

impl Default for Dumps {
    fn default() -> Self {
        // Numbers begin anywhere: an iterator from before a restart is not taken for one of a dump of now.
        let next = RandomState::new().hash_one(MOST_NUMBER) % MOST_NUMBER + 1;
        Self(Mutex::new(Table { next, all: Vec::new() }))
    }
}

impl Table {
    fn drop_where(&mut self, budget: &Budget, mut goes: impl FnMut(&Kept) -> bool) {
        self.all.retain(|kept| {
            let stays = !goes(kept);
            if !stays {
                budget.release(kept.charged);
            }
            stays
        });
    }

    /// Makes place for one more of so many bytes, or says why there is none. The dumps of a namespace take as much as its
    /// filters may, or are one.
    fn make_place(&mut self, engine: &Engine, holder: &Holder, bytes: u64) -> Result<(), Refusal> {
        let (now_ms, budget) = (engine.clock.now_ms(), &engine.budget);
        self.drop_where(budget, |kept| now_ms.saturating_sub(kept.used_ms) >= IDLE_MS);
        let most_bytes = match holder {
            Holder::Namespace(space) => engine.namespaces.max_memory(*space).unwrap_or(u64::MAX),
            Holder::User(_) => u64::MAX,
        };
        loop {
            let own = || self.all.iter().filter(|kept| kept.holder == *holder);
            let taken: u64 = own().map(|kept| kept.charged).sum();
            let too_large = taken > 0 && taken.saturating_add(bytes) > most_bytes;
            let own_full = too_large || own().count() >= MOST_OF_ONE;
            if !own_full && self.all.len() < MOST {
                return Ok(());
            }
            let goes = |kept: &&Kept| {
                (kept.file.is_none() || now_ms.saturating_sub(kept.used_ms) >= STALE_MS)
                    && (!own_full || kept.holder == *holder)
            };
            let oldest = self.all.iter().filter(goes).min_by_key(|kept| (kept.file.is_some(), kept.used_ms));
            let Some(number) = oldest.map(|kept| kept.number) else {
                return Err(match too_large {
                    true => Refusal::err(format_args!(
                        "dumps of {taken} bytes are being fetched, and those of a namespace take {most_bytes} at most, as its \
                         filters may: try again when one has ended"
                    )),
                    false => Refusal::err(format_args!(
                        "{} dumps are being fetched, the most that may be at once: try again when one has ended",
                        if own_full { MOST_OF_ONE } else { MOST }
                    )),
                });
            };
            self.drop_where(budget, |kept| kept.number == number);
        }
    }
}

impl Dumps {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that another dump of about so many bytes may begin, before its file is made.
    pub fn make_place(&self, engine: &Engine, holder: &Holder, bytes: u64) -> Result<(), Refusal> {
        self.table().make_place(engine, holder, bytes)
    }

    /// Keeps the file of a filter; the number of the dump.
    pub fn keep(
        &self,
        engine: &Engine,
        holder: Holder,
        held: Held<'_>,
        filter: u64,
        file: File,
    ) -> Result<u64, Refusal> {
        let mut table = self.table();
        let length = file.bytes.len() as u64;
        table.make_place(engine, &holder, length)?;
        let number = table.next;
        table.next = number % MOST_NUMBER + 1;
        let (file, charged, used_ms) = (Some(Arc::new(file)), held.keep(), engine.clock.now_ms());
        table.all.push(Kept { number, holder, filter, length, file, charged, read_to: None, used_ms });
        Ok(number)
    }

    /// What is at an offset of a filter's dump; nothing if that dump is gone or has no such place.
    pub fn read(&self, budget: &Budget, now_ms: u64, number: u64, filter: u64, offset: u64) -> Option<Part> {
        let mut table = self.table();
        let kept = table.all.iter_mut().find(|kept| kept.number == number && kept.filter == filter)?;
        if now_ms.saturating_sub(kept.used_ms) >= IDLE_MS {
            return None;
        }
        if Some(offset) > kept.read_to {
            (kept.read_to, kept.used_ms) = (Some(offset), now_ms);
        }
        if offset == kept.length {
            kept.file = None;
            budget.release(std::mem::take(&mut kept.charged));
            return Some(Part::End);
        }
        kept.file.clone().filter(|_| offset < kept.length).map(Part::Bytes)
    }

    /// Lets go of dumps that nobody goes on with.
    pub fn drop_abandoned(&self, engine: &Engine) {
        let now_ms = engine.clock.now_ms();
        // Called by every thread now and then: who does not get the lock leaves it to the one who has it.
        if let Ok(mut table) = self.0.try_lock() {
            table.drop_where(&engine.budget, |kept| now_ms.saturating_sub(kept.used_ms) >= IDLE_MS);
        }
    }

    /// How many files are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table().all.iter().filter(|kept| kept.file.is_some()).count()
    }

    /// Whether no file is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
