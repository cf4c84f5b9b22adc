//! The Bloom filters: [`Classic`], [`Blocked`] and [`Partitioned`] of a fixed size, [`Counting`] with removal,
//! [`Scalable`] that grows, [`Rotating`] that keeps keys for a window of time, [`Stable`] that remembers the latest.
//!
//! The fixed-size kinds are one type, [`Bloom`], over a layout (where a key's bits go) and a place (where the words
//! live): whatever holds for one holds for all. What they do together is here too: union and intersection, sizes of both
//! with error bars ([`Bloom::overlap`]), and folding to a smaller size ([`Bloom::folded`], [`Bloom::fit`]).

pub mod algebra;
#[cfg(test)]
mod algebra_tests;
pub mod blocked;
pub mod builder;
pub mod classic;
pub mod counting;
mod filter;
pub mod fold;
#[cfg(test)]
mod fold_tests;
#[cfg(not(loom))]
mod in_place;
pub mod layout;
pub mod partitioned;
pub mod rotating;
pub mod scalable;
#[cfg(not(loom))]
pub mod sprout;
pub mod stable;
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
pub use rotating::{Rotating, RotatingBuilder, RotatingRule, RotatingState};
pub use scalable::{Scalable, ScalableBuilder};
#[cfg(not(loom))]
pub use sprout::Sprout;
pub use stable::{Stable, StableBuilder, StableShape};

pub(crate) use stage::Stage;

use crate::bits::Owned;

/// A filter with all bits of a key in one cache line: the default. See [`blocked`].
pub type Blocked<S = Owned> = Bloom<BlockedLayout, S>;
/// The textbook filter: k bits anywhere. See [`classic`].
pub type Classic<S = Owned> = Bloom<ClassicLayout, S>;
/// A filter with one slice of bits per hash. See [`partitioned`].
pub type Partitioned<S = Owned> = Bloom<PartitionedLayout, S>;
