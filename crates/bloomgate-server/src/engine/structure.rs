//! Changes of what there is: filters come, go, get other names and change places. All with nobody else writing.

use std::sync::Arc;
use std::sync::RwLock;
use std::sync::atomic::Ordering;

use bloomgate::{AnyFilter, Kind};
use bloomgate_command::Refusal;

use super::entry::{Body, Entry, Maker};
use super::recipe::{Recipe, refused};
use super::record::{Image, Record};
use super::{Engine, Permit};

/// Whether a kind has a form that many threads use at once.
#[must_use]
pub fn is_shareable(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Blocked
            | Kind::Classic
            | Kind::Partitioned
            | Kind::Scalable
            | Kind::Counting
            | Kind::Rotating
            | Kind::Cuckoo
            | Kind::GrowingCuckoo
            | Kind::Quotient
    )
}

impl Body {
    /// The form in which a filter serves.
    pub fn of(filter: AnyFilter) -> Result<Self, Refusal> {
        if is_shareable(filter.kind()) {
            return filter.into_shared().map(Self::Shared).map_err(|error| refused(&error));
        }
        Ok(Self::Guarded(RwLock::new(filter)))
    }
}

/// A filter that is made and charged, and has no name yet.
#[derive(Debug)]
pub struct Prepared {
    entry: Entry,
    bytes: u64,
}

/// The names with which a filter can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// A name that is taken is a refusal.
    Refuse,
    /// What has the name goes.
    Replace,
}

impl Engine {
    /// A number for a filter, which nobody else gets.
    pub fn take_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Refuses one more filter when there are as many as may be.
    pub fn check_count(&self) -> Result<(), Refusal> {
        if self.names.len() as u64 >= self.limits.max_filters {
            return Err(Refusal::err(format_args!(
                "there are {} filters, the most that may be: delete some, or raise max-filters",
                self.limits.max_filters
            )));
        }
        Ok(())
    }

    /// Makes an empty filter, charged before it is allocated. Needs no permit: nobody sees it.
    pub fn prepare(&self, name: &[u8], recipe: Recipe, maker: Maker) -> Result<Prepared, Refusal> {
        self.check_count()?;
        let contract = self.contracts.contract(&recipe.hashing)?;
        let bytes = recipe.bytes_needed(contract.clone())?;
        self.budget.charge(0, bytes).map_err(|refused| Refusal::new(refused.to_string()))?;
        let made = recipe.build(contract).and_then(Body::of);
        let body = made.inspect_err(|_| self.budget.release(bytes))?;
        let entry = Entry::new(self.take_id(), name, recipe, maker, self.clock.now_ms(), body);
        entry.charged.store(bytes, Ordering::Relaxed);
        Ok(Prepared { entry, bytes })
    }

    /// Makes a filter of one that was built, charged now.
    pub fn adopt(&self, name: &[u8], recipe: Recipe, maker: Maker, filter: AnyFilter) -> Result<Prepared, Refusal> {
        self.adopt_as(self.take_id(), name, recipe, maker, filter)
    }

    /// [`adopt`](Self::adopt) under a number that was taken before, as whoever writes its image to a file needs.
    pub fn adopt_as(
        &self,
        id: u64,
        name: &[u8],
        recipe: Recipe,
        maker: Maker,
        filter: AnyFilter,
    ) -> Result<Prepared, Refusal> {
        let bytes = filter.size_in_bytes();
        self.budget.charge(0, bytes).map_err(|refused| Refusal::new(refused.to_string()))?;
        let body = Body::of(filter).inspect_err(|_| self.budget.release(bytes))?;
        let entry = Entry::new(id, name, recipe, maker, self.clock.now_ms(), body);
        entry.charged.store(bytes, Ordering::Relaxed);
        Ok(Prepared { entry, bytes })
    }

    /// Gives back a filter that gets no name.
    pub fn abandon(&self, prepared: Prepared) {
        self.budget.release(prepared.bytes);
    }
}

impl Prepared {
    /// The number it has in the log.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.entry.id
    }

    /// The filter itself, to be filled before anybody else sees it.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }
}

impl Permit<'_> {
    fn now_ms(&self) -> u64 {
        self.engine().clock.now_ms()
    }

    /// The filter of a name; one whose time is over goes now.
    pub fn find(&mut self, name: &[u8]) -> Result<Option<Arc<Entry>>, Refusal> {
        let Some(entry) = self.engine().names.get(name) else { return Ok(None) };
        if entry.is_expired(self.now_ms()) {
            if self.is_alone() {
                self.delete(&entry)?;
            }
            return Ok(None);
        }
        Ok(Some(entry))
    }

    /// Puts an empty filter under its name.
    pub fn create(&mut self, prepared: Prepared) -> Result<Arc<Entry>, Refusal> {
        let name = prepared.entry.name();
        if self.find(&name)?.is_some() {
            self.engine().abandon(prepared);
            return Err(Refusal::ITEM_EXISTS);
        }
        let entry = prepared.entry;
        let mut record = Vec::new();
        let (id, created_ms, maker, recipe) = (entry.id, entry.created_ms, entry.maker, entry.recipe.clone());
        Record::Create { id, created_ms, maker, name: &name, recipe }.put(&mut record);
        let sequence = self.log(&record).inspect_err(|_| self.engine().budget.release(prepared.bytes))?;
        let entry = Arc::new(entry);
        entry.touch(sequence);
        self.engine().names.insert(entry.clone());
        Ok(entry)
    }

    /// Puts a filled filter under its name; its image is in the record, or in a file that is complete.
    pub fn install(&mut self, prepared: Prepared, image: Image<'_>, existing: Existing) -> Result<Arc<Entry>, Refusal> {
        let name = prepared.entry.name();
        let before = self.find(&name)?;
        if before.is_some() && existing == Existing::Refuse {
            self.engine().abandon(prepared);
            return Err(Refusal::ITEM_EXISTS);
        }
        let entry = prepared.entry;
        let mut record = Vec::new();
        if let Some(before) = &before {
            Record::Delete { id: before.id }.put(&mut record);
        }
        let (id, created_ms, expires_ms) = (entry.id, entry.created_ms, entry.expires_ms());
        let (maker, recipe) = (entry.maker, entry.recipe.clone());
        Record::Install { id, created_ms, expires_ms, maker, name: &name, recipe, image }.put(&mut record);
        let sequence = self.log(&record).inspect_err(|_| self.engine().budget.release(prepared.bytes))?;
        let entry = Arc::new(entry);
        entry.touch(sequence);
        if let Some(before) = self.engine().names.insert(entry.clone()) {
            self.retire(&before);
        }
        Ok(entry)
    }

    /// Takes a filter away.
    pub fn delete(&mut self, entry: &Arc<Entry>) -> Result<u64, Refusal> {
        let mut record = Vec::new();
        Record::Delete { id: entry.id }.put(&mut record);
        let sequence = self.log(&record)?;
        if let Some(gone) = self.engine().names.remove(&entry.name()) {
            self.retire(&gone);
        }
        Ok(sequence)
    }

    /// A filter lost its name: its memory goes when the last lookup is done.
    fn retire(&self, entry: &Entry) {
        self.engine().budget.release(entry.charged.swap(0, Ordering::Relaxed));
    }

    /// Gives a filter another name; what had it goes.
    pub fn rename(&mut self, entry: &Arc<Entry>, to: &[u8]) -> Result<u64, Refusal> {
        let from = entry.name();
        if *from == *to {
            return Ok(self.engine().journal.appended());
        }
        let mut record = Vec::new();
        if let Some(before) = self.engine().names.get(to) {
            Record::Delete { id: before.id }.put(&mut record);
        }
        Record::Rename { id: entry.id, name: to }.put(&mut record);
        let sequence = self.log(&record)?;
        if let Some(before) = self.engine().names.rename(&from, to) {
            self.retire(&before);
        }
        entry.touch(sequence);
        Ok(sequence)
    }

    /// Two filters change names.
    pub fn swap(&mut self, one: &Arc<Entry>, other: &Arc<Entry>) -> Result<u64, Refusal> {
        let mut record = Vec::new();
        Record::Swap { one: one.id, other: other.id }.put(&mut record);
        let sequence = self.log(&record)?;
        self.engine().names.swap(one, other);
        one.touch(sequence);
        other.touch(sequence);
        Ok(sequence)
    }

    /// Sets when a filter goes; 0 for never.
    pub fn expire(&mut self, entry: &Arc<Entry>, at_ms: u64) -> Result<u64, Refusal> {
        let mut record = Vec::new();
        Record::Expire { id: entry.id, at_ms }.put(&mut record);
        let sequence = self.log(&record)?;
        entry.expire_at(at_ms);
        entry.touch(sequence);
        Ok(sequence)
    }

    /// Takes all filters away.
    pub fn flush_all(&mut self) -> Result<u64, Refusal> {
        let mut record = Vec::new();
        Record::Flush.put(&mut record);
        let sequence = self.log(&record)?;
        for entry in self.engine().names.clear() {
            self.retire(&entry);
        }
        Ok(sequence)
    }
}
