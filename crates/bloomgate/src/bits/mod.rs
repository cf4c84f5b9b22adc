//! Where a filter's words live: alone in memory ([`Owned`]), shared between threads ([`Shared`]), or in a file that
//! is queried in place ([`Mapped`]) or written in place too ([`MappedMut`]). The words are the same in all of them.
//! For programs with a million small filters there is [`Parcel`], which holds a filter's words with all else about it.

#[cfg(not(loom))]
mod annex;
pub(crate) mod counter;
mod floor;
mod large;
mod lost_mapping;
pub(crate) mod mapped;
#[cfg(not(loom))]
pub(crate) mod mapped_mut;
mod owned;
#[cfg(not(loom))]
mod parcel;
#[cfg(unix)]
mod read_once;
mod shared;
pub(crate) mod version;

#[cfg(not(loom))]
pub use annex::Annex;
pub use floor::Floor;
pub use large::give_back_large;
pub use lost_mapping::report_lost_mapping;
pub use mapped::{Damage, Mapped};
#[cfg(not(loom))]
pub use mapped_mut::MappedMut;
pub use owned::{HugePages, Owned};
#[cfg(not(loom))]
pub use parcel::Parcel;
pub use shared::Shared;
/// For the models in `tests/loom.rs` alone.
#[cfg(loom)]
#[doc(hidden)]
pub use version::Version;

pub(crate) use counter::Counter;
#[cfg(unix)]
pub(crate) use mapped::ReadAhead;
#[cfg(unix)]
pub(crate) use owned::bytes_of_mut;
#[cfg(unix)]
pub(crate) use read_once::{Landing, Once};

use crate::arch::words::ReadWords;

/// A place for a filter's words. Sealed: the places above are all there are.
pub trait Store: sealed::Sealed {}

pub(crate) mod sealed {
    use super::ReadWords;

    /// What the filters need of a place.
    pub trait Sealed: Sized {
        /// How the words are read.
        #[allow(private_interfaces, private_bounds)]
        type Read<'a>: ReadWords
        where
            Self: 'a;
        /// How the keys are counted.
        #[allow(private_interfaces, private_bounds)]
        type Count: super::counter::Count;
        /// Whether words must be admitted before they are read (a mapped file, verified on first touch).
        const CHECKED: bool = false;
        /// The words.
        #[allow(private_interfaces)]
        fn words(&self) -> Self::Read<'_>;
        /// Whether the word may be believed; false makes the answer "maybe".
        #[inline(always)]
        fn admit(&self, _word: usize) -> bool {
            true
        }
        /// Whether all words have been admitted, so that asking one by one can be skipped.
        #[inline(always)]
        fn admitted(&self) -> bool {
            true
        }
        /// Whether the kernel was asked for huge pages.
        fn huge_pages(&self) -> super::HugePages {
            super::HugePages::NotAsked
        }
        /// Has the kernel find all pages now.
        fn bring_in(&self) {}
        /// Bytes that are on huge pages right now.
        fn huge_bytes(&self) -> u64 {
            0
        }
    }
}
