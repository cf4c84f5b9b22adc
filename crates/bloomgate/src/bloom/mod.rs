//! The Bloom filters: [`Classic`], [`Blocked`] and [`Partitioned`] of a fixed size, [`Counting`] with removal,
//! [`Scalable`] that grows.
//!
//! The fixed-size kinds are one type, [`Bloom`], over a layout (where a key's bits go) and a place (where the words
//! live): whatever holds for one holds for all.

pub mod blocked;
pub mod builder;
pub mod classic;
pub mod counting;
mod filter;
#[cfg(not(loom))]
mod in_place;
pub mod layout;
pub mod partitioned;
pub mod scalable;
mod stage;
#[cfg(test)]
mod tests;

pub use blocked::BlockedLayout;
pub use builder::Builder;
pub use classic::ClassicLayout;
pub use counting::{CounterBits, Counting, CountingBuilder};
pub use filter::Bloom;
pub use layout::Layout;
pub use partitioned::PartitionedLayout;
pub use scalable::{Scalable, ScalableBuilder};

pub(crate) use stage::Stage;

use crate::bits::Owned;

/// A filter with all bits of a key in one cache line: the default. See [`blocked`].
pub type Blocked<S = Owned> = Bloom<BlockedLayout, S>;
/// The textbook filter: k bits anywhere. See [`classic`].
pub type Classic<S = Owned> = Bloom<ClassicLayout, S>;
/// A filter with one slice of bits per hash. See [`partitioned`].
pub type Partitioned<S = Owned> = Bloom<PartitionedLayout, S>;
