//! Changes of what there is: filters come, go, get other names and change places. All with nobody else writing.

use std::sync::Arc;

use bloomgate::bloom::Sprout;
use bloomgate::{AnyFilter, Kind};
use bloomgate_command::Refusal;

use super::budget::Refused;
use super::entry::{Bits, Body, Entry, Maker};
use super::namespaces::Claim;
use super::recipe::Recipe;
use super::record::{Image, Record, put_create, put_remove};
use super::shadows::{check_name, check_settled, is_reserved, shadow_name};
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
    claim: Claim,
}

/// Memory for a filter that is on its way: charged before it is allocated, in the namespace of its name and in the budget, and
/// given back unless it becomes the filter's.
#[derive(Debug)]
pub struct Reserved {
    engine: Arc<Engine>,
    claim: Option<Claim>,
}

impl Reserved {
    /// Takes memory for a filter of this name with so many bytes of bits.
    pub fn take(engine: &Arc<Engine>, name: &[u8], bits: u64) -> Result<Self, Refused> {
        let claim = engine.claim(name, bits.saturating_add(Entry::cost_of_whole(name)))?;
        Ok(Self { engine: engine.clone(), claim: Some(claim) })
    }

    /// [`Engine::adopt_as`] of a filter that this was taken for.
    pub fn adopt(
        mut self,
        id: u64,
        name: &[u8],
        recipe: Recipe,
        maker: Maker,
        filter: AnyFilter,
    ) -> Result<Prepared, Refusal> {
        let engine = self.engine.clone();
        let needed = filter.size_in_bytes().saturating_add(Entry::cost_of_whole(name));
        match self.claim.take_if(|claim| claim.bytes() >= needed) {
            Some(claim) => engine.adopt_claimed(claim, id, name, recipe, maker, filter),
            None => {
                drop(self);
                engine.adopt_as(id, name, recipe, maker, filter)
            }
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.engine.give_up(claim);
        }
    }
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
        self.check_count(name)?;
        let making = self.contracts.making(recipe, maker)?;
        let cost = Entry::cost(name, &making);
        let contract = || self.contracts.contract(&making.recipe.hashing);
        let charge = |bits: u64| {
            self.claim(name, bits.saturating_add(cost)).map_err(|refused| {
                let left = refused.allowed().saturating_sub(cost);
                let fits = contract().map(|contract| making.recipe.within(&contract, left));
                Refusal::new(fits.map_or(refused.clone(), |fits| refused.with(fits)).to_string())
            })
        };
        let now_ms = self.clock.now_ms();
        let (claim, entry) = match making.sprout.as_ref().map(Sprout::size_in_bytes) {
            Some(bits) => (charge(bits)?, Entry::sprout(self.take_id(), name, making, now_ms)),
            None => {
                let contract = contract()?;
                let claim = charge(making.recipe.bytes_needed(contract.clone())?)?;
                let built = making.recipe.build(contract);
                (claim, built.and_then(|filter| Entry::new(self.take_id(), name, making, now_ms, Bits::Filter(filter))))
            }
        };
        match entry {
            Ok(entry) => Ok(Prepared { entry, claim }),
            Err(refusal) => {
                self.give_up(claim);
                Err(refusal)
            }
        }
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
        // For the most that it may be; put right when it is known whether it is a small one.
        let most = filter.size_in_bytes().saturating_add(Entry::cost_of_whole(name));
        let claim = self.claim(name, most).map_err(|refused| Refusal::new(refused.to_string()))?;
        self.adopt_claimed(claim, id, name, recipe, maker, filter)
    }

    fn adopt_claimed(
        &self,
        mut claim: Claim,
        id: u64,
        name: &[u8],
        recipe: Recipe,
        maker: Maker,
        filter: AnyFilter,
    ) -> Result<Prepared, Refusal> {
        let made = check_name(name).and_then(|()| self.contracts.making(recipe, maker));
        let made = made.and_then(|making| Entry::new(id, name, making, self.clock.now_ms(), Bits::Filter(filter)));
        match made {
            Ok(entry) => {
                self.lessen(&mut claim, entry.memory());
                Ok(Prepared { entry, claim })
            }
            Err(refusal) => {
                self.give_up(claim);
                Err(refusal)
            }
        }
    }

    /// Takes the filters that were there before a restart; `unavailable` is told of those that cannot answer.
    pub fn restore(&self, entries: Vec<Entry>, next_id: u64, mut unavailable: impl FnMut(&[u8], &str)) {
        // Whoever declares namespaces meanwhile waits: they count what is there.
        let _alone = self.stop();
        for entry in entries {
            entry.settle_charge();
            self.charge_restored(&entry);
            if let Body::Unavailable { why, .. } = entry.body() {
                unavailable(&entry.name(), entry.no_answer(why).as_str());
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
        let Prepared { entry, claim } = prepared;
        drop(entry);
        self.give_up(claim);
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
        let mut record = Vec::with_capacity(192);
        let logged = match self.find(&name) {
            Ok(Some(_)) => Err(Refusal::ITEM_EXISTS),
            // Others may have made filters since it was looked at.
            Ok(None) => self.engine().check_count(&name).and_then(|()| {
                put_create(&mut record, &entry);
                self.log(&record)
            }),
            Err(refusal) => Err(refusal),
        };
        let sequence = match logged {
            Ok(sequence) => sequence,
            Err(refusal) => {
                self.engine().abandon(prepared);
                return Err(refusal);
            }
        };
        entry.touch(sequence);
        self.engine().names.insert(entry.clone());
        self.engine().settle(&entry, prepared.claim);
        self.engine().chores.bring_in(&entry);
        Ok(entry)
    }

    /// Puts a filled filter under its name, with the count of removals and the answered requests that it was given; its image
    /// is in the record, or in a file that is complete.
    pub fn install(&mut self, prepared: Prepared, image: Image<'_>, existing: Existing) -> Result<Entry, Refusal> {
        let entry = prepared.entry.clone();
        let name = entry.name();
        let before = match self.find(&name) {
            Ok(Some(_)) if existing == Existing::Refuse => Err(Refusal::ITEM_EXISTS),
            Ok(Some(before)) => check_settled(&before).map(|()| Some(before)),
            Ok(None) => self.engine().check_count(&name).map(|()| None),
            Err(refusal) => Err(refusal),
        };
        let before = match before {
            Ok(before) => before,
            Err(refusal) => {
                self.engine().abandon(prepared);
                return Err(refusal);
            }
        };
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
        // With it, not after it: a filter without the requests that it has answered would remove twice.
        for (request, answered) in entry.retries().iter() {
            put_remove(&mut record, id, request, &answered, &[]);
        }
        let sequence = match self.log(&record) {
            Ok(sequence) => sequence,
            Err(refusal) => {
                self.engine().abandon(prepared);
                return Err(refusal);
            }
        };
        entry.touch(sequence);
        if let Some(before) = self.engine().names.insert(entry.clone()) {
            self.retire(before);
        }
        self.engine().settle(&entry, prepared.claim);
        Ok(entry)
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

    /// A filter lost its name: its memory goes when the last lookup is done, and its charge with it.
    fn retire(&mut self, entry: Entry) {
        let bits = entry.take_charge();
        self.engine().watch.forget(&entry);
        let claim = self.engine().leave(&entry, bits + entry.overhead());
        // What nobody finds any more holds no other.
        if entry.shadow().is_some() {
            entry.set_shadow(None);
        }
        self.farewell.count += usize::from(self.engine().part_with(entry, claim));
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
        let before = self.engine().names.get(to);
        if let Some(before) = &before {
            Record::Delete { id: before.id }.put(&mut record);
        }
        Record::Rename { id: entry.id, name: to }.put(&mut record);
        let moving = self.engine().begin_move(entry, to, before.as_ref())?;
        let sequence = match self.log(&record) {
            Ok(sequence) => sequence,
            Err(refusal) => {
                self.engine().cancel_move(entry, moving);
                return Err(refusal);
            }
        };
        let was = entry.overhead();
        if let Some(before) = self.engine().names.rename(&from, to) {
            self.retire(before);
        }
        self.engine().end_move(entry, moving, !is_reserved(&from));
        self.engine().recharge(entry, was);
        entry.touch(sequence);
        self.engine().watch.feedback.forget(entry);
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
        self.engine().begin_swap(one, other)?;
        let sequence = self.log(&record).inspect_err(|_| self.engine().cancel_swap(one, other))?;
        let was = [one.overhead(), other.overhead()];
        self.engine().names.swap(one, other);
        self.engine().end_swap(one, other);
        self.engine().recharge(one, was[0]);
        self.engine().recharge(other, was[1]);
        for entry in [one, other] {
            entry.touch(sequence);
            self.engine().watch.feedback.forget(entry);
        }
        Ok(sequence)
    }

    /// Sets when a filter goes; 0 for never.
    pub fn expire(&mut self, entry: &Entry, at_ms: u64) -> Result<u64, Refusal> {
        let mut record = Vec::new();
        Record::Expire { id: entry.id, at_ms }.put(&mut record);
        let sequence = self.log(&record)?;
        let was = entry.overhead();
        self.engine().names.expire(entry, at_ms);
        self.engine().recharge(entry, was);
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
