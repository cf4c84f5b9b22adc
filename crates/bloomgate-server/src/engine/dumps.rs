//! Dumps that are being fetched: the files of filters as they were at one moment, kept until their last chunk is gone.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bloomgate::Address;
use bloomgate_command::Refusal;

use super::budget::{Budget, Held};
use super::dump_form::MOST_NUMBER;

/// So many are kept at once.
pub const MOST: usize = 16;
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
    /// The filter's id.
    filter: u64,
    length: u64,
    /// Gone once the end was told: what is left answers whoever asks for the end again.
    file: Option<Arc<File>>,
    charged: u64,
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

    /// Makes place for one more, or says why there is none.
    fn make_place(&mut self, budget: &Budget, now_ms: u64) -> Result<(), Refusal> {
        self.drop_where(budget, |kept| now_ms.saturating_sub(kept.used_ms) >= IDLE_MS);
        while self.all.len() >= MOST {
            let ended = |kept: &&Kept| kept.file.is_none() || now_ms.saturating_sub(kept.used_ms) >= STALE_MS;
            let oldest = self.all.iter().filter(ended).min_by_key(|kept| (kept.file.is_some(), kept.used_ms));
            let Some(number) = oldest.map(|kept| kept.number) else {
                return Err(Refusal::err(format_args!(
                    "{MOST} dumps are being fetched, the most that may be at once: try again when one has ended"
                )));
            };
            self.drop_where(budget, |kept| kept.number == number);
        }
        Ok(())
    }
}

impl Dumps {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that another dump may begin, before its file is made.
    pub fn make_place(&self, budget: &Budget, now_ms: u64) -> Result<(), Refusal> {
        self.table().make_place(budget, now_ms)
    }

    /// Keeps the file of a filter; the number of the dump.
    pub fn keep(&self, budget: &Budget, held: Held<'_>, now_ms: u64, filter: u64, file: File) -> Result<u64, Refusal> {
        let mut table = self.table();
        table.make_place(budget, now_ms)?;
        let number = table.next;
        table.next = number % MOST_NUMBER + 1;
        let length = file.bytes.len() as u64;
        let kept = Kept { number, filter, length, file: Some(Arc::new(file)), charged: held.keep(), used_ms: now_ms };
        table.all.push(kept);
        Ok(number)
    }

    /// What is at an offset of a filter's dump; nothing if that dump is gone or has no such place.
    pub fn read(&self, budget: &Budget, now_ms: u64, number: u64, filter: u64, offset: u64) -> Option<Part> {
        let mut table = self.table();
        let kept = table.all.iter_mut().find(|kept| kept.number == number && kept.filter == filter)?;
        if now_ms.saturating_sub(kept.used_ms) >= IDLE_MS {
            return None;
        }
        kept.used_ms = now_ms;
        if offset == kept.length {
            kept.file = None;
            budget.release(std::mem::take(&mut kept.charged));
            return Some(Part::End);
        }
        kept.file.clone().filter(|_| offset < kept.length).map(Part::Bytes)
    }

    /// Lets go of dumps that nobody goes on with.
    pub fn drop_abandoned(&self, budget: &Budget, now_ms: u64) {
        // Called by every thread now and then: who does not get the lock leaves it to the one who has it.
        if let Ok(mut table) = self.0.try_lock() {
            table.drop_where(budget, |kept| now_ms.saturating_sub(kept.used_ms) >= IDLE_MS);
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
