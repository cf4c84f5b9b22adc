//! Ribbon filters: for sets that never change, at the least size there is.
//!
//! **When.** The whole set is at hand, it never changes, and bytes are dear: a file that is sent to many, a filter for
//! each block of a store, billions of keys. Nothing that answers with the same rate is smaller by more than 1 %.
//! **When not.** Keys come one by one (take [`Blocked`](crate::Blocked)); keys go; or lookups matter more than bytes: a
//! key reads two or three cache lines here, and one there. There is no insert and no remove, and two ribbon filters are
//! **mergeable only by rebuild** from the keys of both.
//!
//! | rate asked | result bits | rate kept | bits per key at 10 k | 100 k | 1 M | over log2(1/rate kept) at 1 M |
//! |---|---|---|---|---|---|---|
//! | 1 % | 7 | 0.781 % | 7.11 | 7.04 | 7.04 | 1.005 |
//! | 0.1 % | 10 | 0.0977 % | 10.14 | 10.04 | 10.04 | 1.004 |
//!
//! # How it works
//!
//! Each key is an equation over bits: the sum of some of 64 neighbouring columns must be the key's `r` result bits. The
//! columns are chosen so that all equations of the set hold; for any other key the sum matches by chance, once in `2^r`.
//! A few equations of each 256 columns cannot hold; these keys are *bumped* to a second, much smaller layer, and from
//! there to a third; a byte for 256 columns says which. (Dillinger, Hübschle-Schneider, Sanders and Walzer, "Fast
//! succinct retrieval and approximate membership using ribbon", 2021: BuRR.)
//!
//! The rate is exactly `2^-r`: 1 % is kept by 7 bits, which give 0.78 %, and there is nothing between 0.78 % and 1.56 %.
//!
//! # Memory while building
//!
//! 18 bytes a key and the filter itself, about 19 in all; up to 48 for an iterator that does not say how long it is.
//! [`RibbonBuilder::build_memory`] sets a limit, which is checked before anything is allocated. One core, about 120 ns a
//! key.

mod builder;
mod filter;
mod shape;
mod solve;
#[cfg(test)]
mod tests;

pub use builder::RibbonBuilder;
pub use filter::Ribbon;
pub use shape::RibbonShape;
