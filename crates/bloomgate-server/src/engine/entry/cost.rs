//! What a filter takes beside its bits, and what the budget is charged for it: the same, to a few bytes.

use bloomgate::bits::Parcel;

use super::{Entry, Head, Rare};
use crate::engine::making::Making;
use crate::sync::atomic::Ordering;

/// The memory behind so many bytes: what the allocators of Linux keep for themselves, and their steps of 16.
const fn block(bytes: usize) -> u64 {
    let block = (bytes + 8).next_multiple_of(16);
    if block < 32 { 32 } else { block as u64 }
}

/// The places under its name and its id, their share of empty ones included ([`names`](crate::engine::names)).
const PLACES: u64 = 24;
/// The place in the order of those that end by themselves.
const EXPIRY: u64 = 40;
/// A recipe that a filter has to itself.
const MAKING: u64 = block(size_of::<Making>() + 16) + 32;
const RARE: u64 = block(size_of::<Rare>());

impl Entry {
    /// What a small filter is charged more once it has grown up, before it has another stage.
    #[must_use]
    pub fn cost_of_growing_up(&self) -> u64 {
        self.0.words().len() as u64 * 8 + if self.is_renamed() { 0 } else { RARE }
    }

    /// Memory that a filter of this name takes beside its bits, when it is made.
    #[must_use]
    pub fn cost(name: &[u8], making: &Making) -> u64 {
        PLACES
            + match &making.sprout {
                Some(sprout) => block(Parcel::<Head>::size(sprout.words(), name.len())) - sprout.size_in_bytes(),
                None => Self::cost_of_whole(name) - PLACES,
            }
    }

    /// The same of a filter that is not small: no other takes more.
    #[must_use]
    pub fn cost_of_whole(name: &[u8]) -> u64 {
        PLACES + block(Parcel::<Head>::size(0, name.len())) + RARE + MAKING
    }

    /// Memory that it takes beside its bits: what is here, and its places under its name and its id.
    #[must_use]
    pub fn overhead(&self) -> u64 {
        let words = self.0.words().len();
        let mut bytes = PLACES + block(Parcel::<Head>::size(words, self.0.bytes().len()));
        if self.whole().is_none() {
            bytes -= words as u64 * 8;
        }
        if self.whole().is_some() || self.is_renamed() {
            bytes += RARE;
        }
        if self.making.sprout.is_none() {
            bytes += MAKING;
        }
        if self.is_renamed() {
            bytes += block(self.name().len());
        }
        if self.expires_ms() != 0 {
            bytes += EXPIRY;
        }
        bytes + self.rare.get().map_or(0, |rare| rare.answers.load(Ordering::Relaxed))
    }

    /// Memory of its bits.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.with(|filter| filter.size_in_bytes()).unwrap_or(0)
    }

    /// Memory that it takes: what the budget is charged for it.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.size_in_bytes() + self.overhead()
    }

    /// Bytes charged to the budget for its bits; beside them it is charged its [`overhead`](Self::overhead).
    #[must_use]
    pub fn charged(&self) -> u64 {
        match self.whole() {
            Some(_) => self.rare().charged.load(Ordering::Relaxed),
            None => self.0.words().len() as u64 * 8,
        }
    }

    /// It is charged so many bytes for its bits from now on.
    pub(in crate::engine) fn set_charged(&self, bytes: u64) {
        self.rare().charged.store(bytes, Ordering::Relaxed);
    }

    /// It is charged so many bytes more.
    pub(in crate::engine) fn add_charged(&self, bytes: u64) {
        self.rare().charged.fetch_add(bytes, Ordering::Relaxed);
    }

    /// It is charged for what it has.
    pub(in crate::engine) fn settle_charge(&self) {
        if self.whole().is_some() {
            self.set_charged(self.size_in_bytes());
        }
    }

    /// It is charged nothing any more; what it was charged.
    pub(in crate::engine) fn take_charge(&self) -> u64 {
        let charged = self.charged();
        if self.whole().is_some() {
            self.set_charged(0);
        }
        charged
    }
}
