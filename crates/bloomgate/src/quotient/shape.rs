//! The numbers that fix a quotient filter's memory.

use super::entries::sound;
use crate::arch::quotient::{Geometry, LINE, MOST_FINGERPRINTS, MOST_INTERVAL, MOST_SLOTS};
use crate::arch::words::ReadWords;
use crate::error::{Error, ErrorKind, Result};
use crate::math::quotient as math;

/// How many home slots there are, and how many fingerprints each is the home of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuotientShape {
    geometry: Geometry,
}

impl QuotientShape {
    /// The shape of `slots` home slots with an interval of fingerprints each.
    pub fn new(slots: u64, interval: u64) -> Result<Self> {
        let geometry = Geometry::new(slots, interval).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "a quotient filter has 1 to {MOST_SLOTS} slots of 2 to {MOST_INTERVAL} fingerprints, \
                     {MOST_FINGERPRINTS} in all at most, not {slots} of {interval}; ask for fewer items or a higher rate"
                ),
            )
        })?;
        Ok(Self { geometry })
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Home slots: a fingerprint's place when it is alone.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.geometry.slots
    }

    /// Fingerprints that share a home slot.
    #[must_use]
    pub fn interval(&self) -> u64 {
        self.geometry.interval
    }

    /// How many different fingerprints there are: slots times interval. Growing does not change it, and filters merge
    /// if they have it in common.
    #[must_use]
    pub fn fingerprints(&self) -> u64 {
        self.geometry.slots * self.geometry.interval
    }

    /// The bits of a remainder.
    #[must_use]
    pub fn remainder_bits(&self) -> u32 {
        self.geometry.bits
    }

    /// Slots in a block of 64 bytes.
    #[must_use]
    pub fn slots_per_block(&self) -> u32 {
        self.geometry.per_block
    }

    /// All slots, with those behind the last home slot that take what spills over.
    #[must_use]
    pub fn all_slots(&self) -> u64 {
        self.geometry.all_slots()
    }

    /// The words of the memory.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.geometry.blocks * LINE as u64
    }

    /// The bits of the last word that are always zero.
    pub(crate) fn spare(&self) -> u64 {
        match self.geometry.used_bits() {
            512.. => 0,
            used => u64::MAX << used.saturating_sub(448),
        }
    }

    /// Whether words of this shape are a table that keys can be inserted into and found in.
    pub(crate) fn is_sound<R: ReadWords>(&self, words: R) -> bool {
        sound(&self.geometry, words)
    }

    /// The rate with so many different keys: the share of fingerprints that are taken.
    #[must_use]
    pub fn expected_rate(&self, items: u64) -> f64 {
        math::rate(self.fingerprints(), items)
    }

    /// How many keys the table takes before it grows.
    #[must_use]
    pub fn room(&self) -> u64 {
        (u128::from(self.slots()) * u128::from(math::GROW_PERCENT) / 100) as u64
    }

    /// The next larger shape of the same fingerprints: a third or a half more slots, in turn.
    #[must_use]
    pub fn larger(&self) -> Option<Self> {
        let (slots, interval) = math::step(self.slots(), self.interval())?;
        Some(Self { geometry: Geometry::new(slots, interval)? })
    }

    /// The shape of the same fingerprints with twice the slots.
    pub(crate) fn doubled(&self) -> Option<Self> {
        let (slots, interval) = math::doubled(self.slots(), self.interval())?;
        Some(Self { geometry: Geometry::new(slots, interval)? })
    }

    /// Whether a table with so many keys and no slot for one more is to grow. One that is almost empty has keys that
    /// crowd (chosen by a stranger who knows the hash), and no size helps against them: it refuses.
    pub(crate) fn grows_with(&self, keys: u64) -> bool {
        keys >= self.slots() / 4
    }
}
