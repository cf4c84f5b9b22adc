//! Words that many threads read and set at once, through a plain `&`.

use super::sealed::Sealed;
use super::{Counter, HugePages, Owned, Store};
use crate::arch::words::AtomicU64;
use crate::error::Result;
use std::fmt;

/// Words in memory that many threads may set and read at the same time.
///
/// The same memory as [`Owned`], seen through atomics: turning one into the other moves a pointer.
pub struct Shared {
    #[cfg(not(loom))]
    owned: Owned,
    #[cfg(loom)]
    atomics: Vec<AtomicU64>,
}

#[cfg(not(loom))]
impl Shared {
    /// The words of one owner, shared from now on.
    pub(crate) fn from_owned(owned: Owned) -> Result<Self> {
        Ok(Self { owned })
    }

    /// The words of one owner again: `self` by value means that no other thread can still see them.
    pub(crate) fn into_owned(self) -> Result<Owned> {
        Ok(self.owned)
    }

    /// The words.
    #[inline(always)]
    pub(crate) fn atomics(&self) -> &[AtomicU64] {
        // SAFETY: the words are aligned, initialised and live as long as `self`; AtomicU64 has the size and the bit
        // validity of u64; and while they are inside `Shared` nothing reads or writes them except through these
        // atomics (`as_slice` and `as_mut_slice` are not reachable from here but by value or `&mut self`).
        unsafe { std::slice::from_raw_parts(self.owned.start().as_ptr().cast::<AtomicU64>(), self.owned.count()) }
    }

    /// The words for one writer, who holds the only reference.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u64] {
        self.owned.as_mut_slice()
    }
}

/// Under loom the words are loom's own atomics, so that every interleaving of the same loops can be tried.
#[cfg(loom)]
impl Shared {
    pub(crate) fn from_owned(owned: Owned) -> Result<Self> {
        Ok(Self { atomics: owned.as_slice().iter().map(|&word| AtomicU64::new(word)).collect() })
    }

    pub(crate) fn into_owned(self) -> Result<Owned> {
        let mut owned = Owned::zeroed(self.atomics.len() as u64)?;
        for (to, from) in owned.as_mut_slice().iter_mut().zip(&self.atomics) {
            *to = from.load(crate::arch::words::Ordering::Relaxed);
        }
        Ok(owned)
    }

    pub(crate) fn atomics(&self) -> &[AtomicU64] {
        &self.atomics
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u64] {
        unimplemented_under_loom()
    }
}

#[cfg(loom)]
fn unimplemented_under_loom() -> ! {
    panic!("loom models do not clear filters")
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("words", &self.atomics().len()).finish_non_exhaustive()
    }
}

impl Store for Shared {}

impl Sealed for Shared {
    type Read<'a> = &'a [AtomicU64];
    type Count = Counter;
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        self.atomics()
    }
    #[cfg(not(loom))]
    fn huge_pages(&self) -> HugePages {
        self.owned.huge_pages()
    }
    #[cfg(not(loom))]
    fn bring_in(&self) {
        self.owned.bring_in();
    }
    #[cfg(not(loom))]
    fn huge_bytes(&self) -> u64 {
        self.owned.huge_bytes()
    }
    #[cfg(loom)]
    fn huge_pages(&self) -> HugePages {
        HugePages::NotAsked
    }
}
