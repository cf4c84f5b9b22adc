//! What becomes of a key that is inserted again and again: two rules, of which a filter has one for good.
//!
//! Copies of a fingerprint lie in the eight slots of its two buckets, and nothing else tells how many there were. **Four
//! that stick** and **four that are exact** are the same slots, so which of the two they are is a property of the filter,
//! written in its shape: never guessed, and never changed while keys are in it.

use crate::math::cuckoo::SLOTS;

/// So many copies of a fingerprint stick, where they stick.
const STICKS_AT: u32 = 4;
/// So many are all that the two buckets of a key have slots for.
const EXACT: u32 = 2 * SLOTS as u32;

/// The most copies of one key that are held and removed exactly by a filter whose copies stick, which is what a filter is
/// made with ([`CopyRule::Stick`]). One more sticks: it stands for any number of keys and is never removed.
///
/// ```
/// use bloomgate::cuckoo::{Cuckoo, MAX_COPIES};
///
/// let mut held = Cuckoo::builder().items(100).build()?;
/// let digest = held.contract().digest("a key")?;
/// while held.count_of_digest(digest)? < MAX_COPIES {
///     held.insert_digest(digest)?;
/// }
/// assert!((0..MAX_COPIES).all(|_| held.remove_digest(digest)) && !held.contains_digest(digest));
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub const MAX_COPIES: u64 = CopyRule::Stick.max_copies();

/// What becomes of a key that is inserted again and again. A filter is made with one rule and keeps it.
///
/// ```
/// use bloomgate::cuckoo::{CopyRule, Cuckoo};
///
/// let mut held = Cuckoo::builder().items(100).copies(CopyRule::Exact).build()?;
/// (0..8).try_for_each(|_| held.insert("a key").map(drop))?;
/// assert!(held.count_of("a key")? == 8 && held.insert("a key").is_err()); // the ninth: nothing changed
/// (0..8).try_for_each(|_| held.remove("a key").map(drop))?;
/// assert!(!held.contains("a key")?);
/// # Ok::<(), bloomgate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CopyRule {
    /// A set that forgives repeats: up to three copies are exact, the fourth sticks. It stands for any number of keys from
    /// then on, takes no further slot, refuses nobody and is never removed.
    #[default]
    Stick,
    /// A set that counts: up to eight copies have a slot each and go one by one, and the ninth is refused with
    /// [`ErrorKind::Full`](crate::ErrorKind::Full). Eight fill both buckets of their key, so a table where many keys have
    /// copies is full early: a chain that grows suits it best.
    Exact,
}

impl CopyRule {
    /// The most copies of one key that are held and removed exactly: 3 where the fourth sticks, 8 where all are exact.
    #[must_use]
    pub const fn max_copies(self) -> u64 {
        match self {
            Self::Stick => STICKS_AT as u64 - 1,
            Self::Exact => EXACT as u64,
        }
    }

    /// The most copies that have a slot.
    #[inline(always)]
    pub(crate) const fn most(self) -> u32 {
        match self {
            Self::Stick => STICKS_AT,
            Self::Exact => EXACT,
        }
    }

    /// Whether so many copies stand for any number of keys.
    #[inline(always)]
    pub(crate) const fn sticks(self, copies: u32) -> bool {
        matches!(self, Self::Stick) && copies >= STICKS_AT
    }
}
