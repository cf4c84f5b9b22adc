//! Charging filters where they belong: in their namespace and in the budget of all, or in neither.

use std::sync::atomic::Ordering;

use bloomgate_command::Refusal;

use super::read;
use crate::engine::Engine;
use crate::engine::audit::Counts;
use crate::engine::budget::Refused;
use crate::engine::entry::Entry;
use crate::engine::shadows::is_reserved;

/// Memory that was charged for a filter which has no name yet.
#[derive(Debug)]
#[must_use]
pub struct Claim {
    space: u16,
    epoch: u64,
    bytes: u64,
}

impl Claim {
    /// How much it is.
    pub(in crate::engine) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The namespace that it is charged to; 0 for none.
    pub(in crate::engine) fn space(&self) -> u16 {
        self.space
    }
}

/// Memory beside the filters: bytes of a load that are no filter yet, or a file that was given out.
#[derive(Debug)]
#[must_use]
pub struct Beside {
    claim: Claim,
    /// Bytes of the budget.
    all: u64,
}

/// A filter that gets another name, charged where it will be.
#[derive(Debug)]
#[must_use]
pub struct Moving {
    to: u16,
    bytes: u64,
}

/// What a filter takes as it was charged.
pub(super) fn charged(entry: &Entry) -> u64 {
    entry.charged() + entry.overhead()
}

impl Engine {
    /// Refuses one more filter where there are as many as may be: of all, or of the namespace of its name.
    pub fn check_count(&self, name: &[u8]) -> Result<(), Refusal> {
        if self.names.len() as u64 >= self.max_filters() {
            return Err(Refusal::err(format_args!(
                "there are {} filters, the most that may be: delete some, or raise max-filters",
                self.max_filters()
            )));
        }
        if self.namespaces.is_empty() || is_reserved(name) {
            return Ok(());
        }
        self.check_count_in(self.namespaces.of(name), 0)
    }

    /// The same for a namespace in which so many go.
    fn check_count_in(&self, space: u16, going: u64) -> Result<(), Refusal> {
        let Some(place) = self.namespaces.at(space) else { return Ok(()) };
        let (most, there) = (read(&place.max_filters), read(&place.filters).saturating_sub(going));
        if most == 0 || there < most {
            return Ok(());
        }
        place.counts.add(Counts { refused: 1, ..Counts::default() });
        let registry = self.namespaces.registry();
        let name = registry.names.iter().find(|(_, (number, _))| *number == space).map_or("", |(name, _)| name);
        Err(Refusal::err(format_args!(
            "the namespace '{name}' has {there} filter{} and may have {most}: delete some, or raise it (BG.NAMESPACE SET {name} \
             MAXFILTERS n)",
            if there == 1 { "" } else { "s" }
        )))
    }

    /// Charges memory for a filter that is to have this name, in its namespace and in the budget. Filters that nobody holds
    /// any more make place for it, and files that were given out.
    pub(in crate::engine) fn claim(&self, name: &[u8], bytes: u64) -> Result<Claim, Refused> {
        let claim = self.claim_in_space(name, bytes, true)?;
        while let Err(refused) = self.budget.charge(0, bytes) {
            let fits = self.budget.fits_one(0, bytes).is_ok();
            if fits && self.free_leaving() {
                continue;
            }
            let soon = fits && self.will_free(None, bytes.saturating_sub(refused.allowed()));
            // Somebody else may have freed something since it was refused.
            if fits && !soon && self.budget.charge(0, bytes).is_ok() {
                break;
            }
            if !fits || soon || !self.bases.drop_oldest(self, None) {
                self.give_back_claim(&claim, bytes);
                return Err(if soon { refused.for_a_moment() } else { refused });
            }
        }
        Ok(claim)
    }

    /// Charges memory beside the filters under a name: so much of it to its namespace, and all of it to the budget.
    pub(crate) fn claim_beside(&self, name: &[u8], of_space: u64, all: u64) -> Result<Beside, Refused> {
        let claim = self.claim_in_space(name, of_space, false)?;
        while let Err(refused) = self.budget.charge_beside(all) {
            if !self.free_leaving() {
                self.give_back_claim(&claim, of_space);
                return Err(refused);
            }
        }
        Ok(Beside { claim, all })
    }

    /// It is needed no more.
    pub(crate) fn give_up_beside(&self, beside: Beside) {
        self.budget.release(self.leave_to_budget(beside));
    }

    /// Its namespace is charged for what becomes of it instead; the bytes that the budget is still charged.
    pub fn leave_to_budget(&self, beside: Beside) -> u64 {
        self.give_back_claim(&beside.claim, beside.claim.bytes);
        beside.all
    }

    fn claim_in_space(&self, name: &[u8], bytes: u64, drops_files: bool) -> Result<Claim, Refused> {
        // Before the look at what is declared: whoever declares later is noticed by it.
        let epoch = self.namespaces.epoch.load(Ordering::Acquire);
        if self.namespaces.is_empty() {
            return Ok(Claim { space: 0, epoch, bytes });
        }
        loop {
            let registry = self.namespaces.registry();
            let (space, epoch) = (registry.of(name), self.namespaces.epoch.load(Ordering::Acquire));
            let taken = self.namespaces.at(space).map_or(Ok(()), |place| place.take(bytes, 0));
            drop(registry);
            match taken {
                Ok(()) => return Ok(Claim { space, epoch, bytes }),
                Err(_) if self.free_leaving() => {}
                Err(left) if self.will_free(Some(space), bytes.saturating_sub(left)) => {
                    return Err(self.namespaces.uncounted_refusal(space, bytes, left).for_a_moment());
                }
                // Somebody else may have freed something since it was refused.
                Err(_) if self.namespaces.at(space).is_none_or(|place| place.take(bytes, 0).is_ok()) => {
                    return Ok(Claim { space, epoch, bytes });
                }
                Err(_) if drops_files && self.bases.drop_oldest(self, Some(space)) => {}
                Err(left) => return Err(self.namespaces.refusal(space, bytes, left)),
            }
        }
    }

    fn give_back_claim(&self, claim: &Claim, bytes: u64) {
        if claim.space == 0 {
            return;
        }
        // Nobody counts anew meanwhile; if somebody did since, these bytes are not in the count.
        let registry = self.namespaces.registry();
        if self.namespaces.epoch.load(Ordering::Acquire) == claim.epoch
            && let Some(place) = self.namespaces.at(claim.space)
        {
            place.give_back(bytes);
        }
        drop(registry);
    }

    /// Less was needed than was claimed.
    pub(in crate::engine) fn lessen(&self, claim: &mut Claim, bytes: u64) {
        let less = claim.bytes.saturating_sub(bytes);
        self.give_back_claim(claim, less);
        self.budget.release(less);
        claim.bytes -= less;
    }

    /// The filter gets no name.
    pub(in crate::engine) fn give_up(&self, claim: Claim) {
        self.give_back_claim(&claim, claim.bytes);
        self.budget.release(claim.bytes);
    }

    /// Whether a namespace would have room for so many bytes more under a name, before they are made.
    pub fn check_room(&self, name: &[u8], bytes: u64) -> Result<(), Refusal> {
        let claim = self.claim(name, bytes).map_err(|refused| Refusal::new(refused.to_string()))?;
        self.give_up(claim);
        Ok(())
    }

    /// A filter gets its name, with nobody else writing.
    pub(in crate::engine) fn settle(&self, entry: &Entry, claim: Claim) {
        // What was made known of it since, such as when it ends, may take a little more.
        let bytes = charged(entry);
        if bytes != claim.bytes {
            self.budget.charge_anyway(bytes);
            self.budget.release(claim.bytes);
        }
        if self.namespaces.is_empty() {
            return;
        }
        let name = entry.name();
        let space = self.namespaces.of(&name);
        let counted = self.namespaces.epoch.load(Ordering::Acquire) == claim.epoch;
        if counted && claim.space == space && claim.bytes == bytes {
            self.enrol(entry, space, 0);
        } else {
            self.give_back_claim(&claim, claim.bytes);
            self.enrol(entry, space, bytes);
        }
    }

    pub(super) fn enrol(&self, entry: &Entry, space: u16, bytes: u64) {
        entry.set_space(space);
        if let Some(place) = self.namespaces.at(space) {
            place.own_mut().insert(entry.id);
            place.used.fetch_add(bytes, Ordering::Relaxed);
            place.filters.fetch_add(u64::from(!is_reserved(&entry.name())), Ordering::Relaxed);
        }
    }

    /// A filter that was there before a restart is charged whatever the limits.
    pub(in crate::engine) fn charge_restored(&self, entry: &Entry) {
        self.budget.charge_anyway(charged(entry));
        if !self.namespaces.is_empty() {
            self.enrol(entry, self.namespaces.of(&entry.name()), charged(entry));
        }
    }

    /// Charges the growth of a filter; whether there is memory for it. Under a permit.
    pub(in crate::engine) fn charge_growth(&self, entry: &Entry, bytes: u64) -> bool {
        let place = self.namespaces.at(entry.space());
        while place.is_some_and(|place| place.take(bytes, 0).is_err()) {
            if !self.free_leaving() && !self.bases.drop_oldest(self, Some(entry.space())) {
                return false;
            }
        }
        let charged = loop {
            match self.budget.charge(entry.charged(), bytes) {
                Err(_)
                    if self.budget.fits_one(entry.charged(), bytes).is_ok()
                        && (self.free_leaving() || self.bases.drop_oldest(self, None)) => {}
                charged => break charged.is_ok(),
            }
        };
        if !charged && let Some(place) = place {
            place.give_back(bytes);
        }
        charged
    }

    /// Which limit a filter cannot grow under by so many bytes; nothing if it could now.
    pub(in crate::engine) fn refusal_to_grow(&self, entry: &Entry, bytes: u64) -> Option<Refused> {
        if let Some(place) = self.namespaces.at(entry.space()) {
            match place.take(bytes, 0) {
                Ok(()) => place.give_back(bytes),
                Err(left) => return Some(self.namespaces.uncounted_refusal(entry.space(), bytes, left)),
            }
        }
        let charged = self.budget.charge(entry.charged(), bytes);
        if charged.is_ok() {
            self.budget.release(bytes);
        }
        charged.err()
    }

    /// Bytes that a new filter of this namespace could have.
    pub(in crate::engine) fn room_for_another(&self, space: u16) -> u64 {
        let free = self.budget.most().saturating_sub(self.budget.used()).min(self.budget.most_each());
        let of_space = self.namespaces.at(space).and_then(|place| match read(&place.max_memory) {
            0 => None,
            most => Some(most.saturating_sub(read(&place.used))),
        });
        of_space.map_or(free, |left| left.min(free))
    }

    /// It did not grow by so much.
    pub(in crate::engine) fn release_growth(&self, entry: &Entry, bytes: u64) {
        self.budget.release(bytes);
        if let Some(place) = self.namespaces.at(entry.space()) {
            place.give_back(bytes);
        }
    }

    /// What a filter takes beside its bits has changed, whatever the limits.
    pub(in crate::engine) fn recharge(&self, entry: &Entry, was: u64) {
        let now = entry.overhead();
        self.budget.charge_anyway(now);
        self.budget.release(was);
        if let Some(place) = self.namespaces.at(entry.space()) {
            place.used.fetch_add(now, Ordering::Relaxed);
            place.give_back(was);
        }
    }

    /// A filter lost its name, with nobody else writing: what is given back when its memory is free.
    pub(in crate::engine) fn leave(&self, entry: &Entry, bytes: u64) -> Claim {
        if let Some(place) = self.namespaces.at(entry.space()) {
            place.own_mut().remove(entry.id);
            place.filters.fetch_sub(u64::from(!is_reserved(&entry.name())), Ordering::Relaxed);
        }
        Claim { space: entry.space(), epoch: self.namespaces.epoch.load(Ordering::Acquire), bytes }
    }

    /// A filter is to get another name, in place of what has it: charged in that namespace if it is another. With nobody
    /// writing.
    pub(in crate::engine) fn begin_move(
        &self,
        entry: &Entry,
        to: &[u8],
        before: Option<&Entry>,
    ) -> Result<Moving, Refusal> {
        let (from, space) = (entry.space(), self.namespaces.of(to));
        let Some(place) = self.namespaces.at(space).filter(|_| space != from) else {
            return Ok(Moving { to: space, bytes: charged(entry) });
        };
        let going = before.filter(|before| before.space() == space);
        self.check_count_in(space, u64::from(going.is_some()))?;
        let bytes = charged(entry);
        place
            .take(bytes, going.map_or(0, charged))
            .map_err(|left| Refusal::new(self.namespaces.refusal(space, bytes, left).to_string()))?;
        Ok(Moving { to: space, bytes })
    }

    /// It keeps its name.
    pub(in crate::engine) fn cancel_move(&self, entry: &Entry, moving: Moving) {
        if moving.to != entry.space()
            && let Some(place) = self.namespaces.at(moving.to)
        {
            place.give_back(moving.bytes);
        }
    }

    /// It has its new name now; `was_seen` tells whether it was no shadow before.
    pub(in crate::engine) fn end_move(&self, entry: &Entry, moving: Moving, was_seen: bool) {
        let is_seen = !is_reserved(&entry.name());
        if let Some(place) = self.namespaces.at(entry.space()) {
            if moving.to != entry.space() {
                place.give_back(moving.bytes);
            }
            place.filters.fetch_sub(u64::from(was_seen), Ordering::Relaxed);
        }
        if let Some(place) = self.namespaces.at(moving.to) {
            place.filters.fetch_add(u64::from(is_seen), Ordering::Relaxed);
        }
        self.namespaces.hand_over(entry.id, entry.space(), moving.to);
        entry.set_space(moving.to);
    }

    /// Two filters are to change names: each is charged in the other's namespace instead of it. With nobody writing.
    pub(in crate::engine) fn begin_swap(&self, one: &Entry, other: &Entry) -> Result<(), Refusal> {
        if one.space() == other.space() {
            return Ok(());
        }
        let exchange = |space: u16, comes: u64, goes: u64| {
            let Some(place) = self.namespaces.at(space) else { return Ok(()) };
            place.take(comes, goes).map_err(|left| self.namespaces.refusal(space, comes, left))?;
            place.give_back(goes);
            Ok(())
        };
        let (first, second) = (charged(one), charged(other));
        let refused = |refused: Refused| Refusal::new(refused.to_string());
        exchange(one.space(), second, first).map_err(refused)?;
        exchange(other.space(), first, second).map_err(|why| {
            self.undo(one.space(), second, first);
            refused(why)
        })
    }

    fn undo(&self, space: u16, came: u64, went: u64) {
        if let Some(place) = self.namespaces.at(space) {
            place.used.fetch_add(went, Ordering::Relaxed);
            place.give_back(came);
        }
    }

    /// They keep their names.
    pub(in crate::engine) fn cancel_swap(&self, one: &Entry, other: &Entry) {
        if one.space() != other.space() {
            let (first, second) = (charged(one), charged(other));
            self.undo(one.space(), second, first);
            self.undo(other.space(), first, second);
        }
    }

    /// They have changed names.
    pub(in crate::engine) fn end_swap(&self, one: &Entry, other: &Entry) {
        let (first, second) = (one.space(), other.space());
        self.namespaces.hand_over(one.id, first, second);
        self.namespaces.hand_over(other.id, second, first);
        one.set_space(second);
        other.set_space(first);
    }
}
