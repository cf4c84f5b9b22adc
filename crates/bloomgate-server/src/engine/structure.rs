//! Changes of what there is: filters come, go, get other names and change places. All with nobody else writing.

use bloomgate::bloom::Sprout;
use bloomgate::{AnyFilter, Kind};
use bloomgate_command::Refusal;

use super::entry::{Bits, Body, Entry, Maker};
use super::recipe::Recipe;
use super::record::{Image, Record, put_create, put_remove};
use super::retries::Retries;
use super::shadows::{check_name, check_settled, shadow_name};
use super::{Engine, Permit};
use crate::sync::atomic::Ordering;

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
    /// A number for a filter that is to be made.
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
        check_name(name)?;
        self.prepare_any(name, recipe, maker)
    }

    /// The same for the names of shadows.
    pub fn prepare_shadow(&self, name: &[u8], recipe: Recipe, maker: Maker) -> Result<Prepared, Refusal> {
        self.prepare_any(&shadow_name(name)?, recipe, maker)
    }

    fn prepare_any(&self, name: &[u8], recipe: Recipe, maker: Maker) -> Result<Prepared, Refusal> {
        self.check_count()?;
        let making = self.contracts.making(recipe, maker)?;
        let cost = Entry::cost(name, &making);
        let charge = |bits: u64| {
            let bytes = bits.saturating_add(cost);
            self.budget.charge(0, bytes).map(|()| bytes).map_err(|refused| Refusal::new(refused.to_string()))
        };
        let now_ms = self.clock.now_ms();
        let (bytes, entry) = match making.sprout.as_ref().map(Sprout::size_in_bytes) {
            Some(bits) => (charge(bits)?, Entry::sprout(self.take_id(), name, making, now_ms)),
            None => {
                let contract = self.contracts.contract(&making.recipe.hashing)?;
                let bytes = charge(making.recipe.bytes_needed(contract.clone())?)?;
                let built = making.recipe.build(contract);
                (bytes, built.and_then(|filter| Entry::new(self.take_id(), name, making, now_ms, Bits::Filter(filter))))
            }
        };
        let entry = entry.inspect_err(|_| self.budget.release(bytes))?;
        Ok(Prepared { entry, bytes })
    }

    /// Makes a filter of one that was built, charged now.
    pub fn adopt(&self, name: &[u8], recipe: Recipe, maker: Maker, filter: AnyFilter) -> Result<Prepared, Refusal> {
        self.adopt_as(self.take_id(), name, recipe, maker, filter)
    }

    /// The same under a number that was taken before, because its image was written under it.
    pub fn adopt_as(
        &self,
        id: u64,
        name: &[u8],
        recipe: Recipe,
        maker: Maker,
        filter: AnyFilter,
    ) -> Result<Prepared, Refusal> {
        check_name(name)?;
        let making = self.contracts.making(recipe, maker)?;
        // For the most that it may be; put right when it is known whether it is a small one.
        let most = filter.size_in_bytes().saturating_add(Entry::cost_of_whole(name));
        self.budget.charge(0, most).map_err(|refused| Refusal::new(refused.to_string()))?;
        let entry = Entry::new(id, name, making, self.clock.now_ms(), Bits::Filter(filter));
        let entry = entry.inspect_err(|_| self.budget.release(most))?;
        let bytes = entry.memory();
        self.budget.release(most.saturating_sub(bytes));
        Ok(Prepared { entry, bytes })
    }

    /// Takes the filters that were there before a restart; `unavailable` is told of those that cannot answer.
    pub fn restore(&self, entries: Vec<Entry>, next_id: u64, mut unavailable: impl FnMut(&str)) {
        for entry in entries {
            self.budget.charge_anyway(entry.memory());
            entry.settle_charge();
            if let Body::Unavailable { why, .. } = entry.body() {
                unavailable(why);
            }
            self.names.insert(entry);
        }
        self.next_id.fetch_max(next_id, Ordering::Relaxed);
    }

    /// Takes away the filters whose time is over.
    pub fn remove_expired(&self) {
        let now = self.clock.now_ms();
        loop {
            let ended = self.names.ended(now, 1_024);
            if ended.is_empty() {
                return;
            }
            for id in ended {
                let mut permit = self.stop();
                let still_there = self.names.by_id(id).filter(|entry| entry.is_expired(now));
                // A disk that refuses now will not for ever: the next tick tries again.
                if still_there.is_some_and(|entry| permit.delete(&entry).is_err()) {
                    return;
                }
            }
        }
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
    pub fn find(&mut self, name: &[u8]) -> Result<Option<Entry>, Refusal> {
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
    pub fn create(&mut self, prepared: Prepared) -> Result<Entry, Refusal> {
        let entry = prepared.entry.clone();
        let name = entry.name();
        if self.find(&name)?.is_some() {
            self.engine().abandon(prepared);
            return Err(Refusal::ITEM_EXISTS);
        }
        let mut record = Vec::with_capacity(192);
        put_create(&mut record, &entry);
        let sequence = self.log(&record).inspect_err(|_| self.engine().budget.release(prepared.bytes))?;
        entry.touch(sequence);
        self.engine().names.insert(entry.clone());
        self.engine().chores.bring_in(&entry);
        Ok(entry)
    }

    /// Puts a filled filter under its name; its image is in the record, or in a file that is complete.
    pub fn install(&mut self, prepared: Prepared, image: Image<'_>, existing: Existing) -> Result<Entry, Refusal> {
        let entry = prepared.entry.clone();
        let name = entry.name();
        let before = self.find(&name)?;
        if before.is_some() && existing == Existing::Refuse {
            self.engine().abandon(prepared);
            return Err(Refusal::ITEM_EXISTS);
        }
        if let Some(refusal) = before.as_ref().and_then(|before| check_settled(before).err()) {
            self.engine().abandon(prepared);
            return Err(refusal);
        }
        let mut record = Vec::new();
        if let Some(before) = &before {
            Record::Delete { id: before.id }.put(&mut record);
        }
        let (id, created_ms, expires_ms) = (entry.id, entry.created_ms, entry.expires_ms());
        let (maker, recipe) = (entry.maker(), entry.recipe().clone());
        Record::Install { id, created_ms, expires_ms, maker, name: &name, recipe, image }.put(&mut record);
        let count = entry.deleted();
        if count > 0 {
            Record::Removed { id, count }.put(&mut record);
        }
        let sequence = self.log(&record).inspect_err(|_| self.engine().budget.release(prepared.bytes))?;
        entry.touch(sequence);
        if let Some(before) = self.engine().names.insert(entry.clone()) {
            self.retire(before);
        }
        Ok(entry)
    }

    /// Gives a filter that takes another's place the requests which that one has answered.
    pub fn keep_retries(&mut self, entry: &Entry, retries: Retries) -> Result<(), Refusal> {
        let mut record = Vec::new();
        for (request, answers) in retries.iter() {
            put_remove(&mut record, entry.id, request, answers, &[]);
        }
        if record.is_empty() {
            return Ok(());
        }
        let sequence = self.log(&record)?;
        let mut writer = entry.write();
        writer.retries = retries;
        entry.touch(sequence);
        Ok(())
    }

    /// Takes a filter away, and its shadow with it.
    pub fn delete(&mut self, entry: &Entry) -> Result<u64, Refusal> {
        let shadow = self.engine().shadow_of(entry);
        let mut record = Vec::new();
        for gone in [Some(entry), shadow.as_ref()].into_iter().flatten() {
            Record::Delete { id: gone.id }.put(&mut record);
        }
        let sequence = self.log(&record)?;
        for gone in [Some(entry), shadow.as_ref()].into_iter().flatten() {
            if let Some(gone) = self.engine().names.remove(&gone.name()) {
                self.retire(gone);
            }
        }
        Ok(sequence)
    }

    /// A filter lost its name: its memory goes when the last lookup is done.
    fn retire(&self, entry: Entry) {
        let bits = entry.take_charge();
        self.engine().budget.release(bits + entry.overhead());
        self.engine().chores.let_go(entry, bits);
    }

    /// What a filter takes beside its bits has changed: a new name, an end.
    fn recharge(&self, entry: &Entry, was: u64) {
        self.engine().budget.charge_anyway(entry.overhead());
        self.engine().budget.release(was);
    }

    /// Gives a filter another name; what had it goes.
    pub fn rename(&mut self, entry: &Entry, to: &[u8]) -> Result<u64, Refusal> {
        if entry.is_named(to) {
            return Ok(self.engine().journal.appended());
        }
        check_name(to)?;
        check_settled(entry)?;
        if let Some(before) = self.engine().names.get(to) {
            check_settled(&before)?;
        }
        self.move_to(entry, to)
    }

    /// Gives a filter another name, whoever it is; what had it goes.
    pub(super) fn move_to(&mut self, entry: &Entry, to: &[u8]) -> Result<u64, Refusal> {
        let from = entry.name().into_owned();
        let mut record = Vec::new();
        if let Some(before) = self.engine().names.get(to) {
            Record::Delete { id: before.id }.put(&mut record);
        }
        Record::Rename { id: entry.id, name: to }.put(&mut record);
        let sequence = self.log(&record)?;
        let was = entry.overhead();
        if let Some(before) = self.engine().names.rename(&from, to) {
            self.retire(before);
        }
        self.recharge(entry, was);
        entry.touch(sequence);
        Ok(sequence)
    }

    /// Two filters change names.
    pub fn swap(&mut self, one: &Entry, other: &Entry) -> Result<u64, Refusal> {
        check_settled(one)?;
        check_settled(other)?;
        let mut record = Vec::new();
        // Each with the name it gets: images are taken one after another, so at a start one of the two may have its new
        // name already, or be gone, and the other's would not be known from it.
        Record::Rename { id: one.id, name: &other.name() }.put(&mut record);
        Record::Rename { id: other.id, name: &one.name() }.put(&mut record);
        let sequence = self.log(&record)?;
        let was = [one.overhead(), other.overhead()];
        self.engine().names.swap(one, other);
        self.recharge(one, was[0]);
        self.recharge(other, was[1]);
        one.touch(sequence);
        other.touch(sequence);
        Ok(sequence)
    }

    /// Sets when a filter goes; 0 for never.
    pub fn expire(&mut self, entry: &Entry, at_ms: u64) -> Result<u64, Refusal> {
        let mut record = Vec::new();
        Record::Expire { id: entry.id, at_ms }.put(&mut record);
        let sequence = self.log(&record)?;
        let was = entry.overhead();
        self.engine().names.expire(entry, at_ms);
        self.recharge(entry, was);
        entry.touch(sequence);
        Ok(sequence)
    }

    /// Takes all filters away.
    pub fn flush_all(&mut self) -> Result<u64, Refusal> {
        let mut record = Vec::new();
        Record::Flush.put(&mut record);
        let sequence = self.log(&record)?;
        for entry in self.engine().names.clear() {
            self.retire(entry);
        }
        Ok(sequence)
    }
}
