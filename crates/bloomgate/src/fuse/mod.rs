//! Binary fuse filters: for sets that are known whole and never change.
//!
//! **When.** A set that is built once and asked often: block lists, dictionaries, the keys of a sorted file, anything
//! that is published. It takes a fifth less memory than a Bloom filter, its rate is
//! exact, and it knows how many keys it has. **When not.** Keys come or go: there is no insert and no removal, and two
//! filters become one only by building it again from the keys of both. Or the set is small: below 10,000 keys the table
//! needs a quarter more cells than keys, and more the smaller it is.
//!
//! | keys | rate asked | fingerprint | bits a key |
//! |---|---|---|---|
//! | 10,000 | 1 % | 7 bits, 0.78 % | 8.6 |
//! | 1,000,000 | 1 % | 7 bits | 7.9 |
//! | 1,000,000 | 0.390625 % | 8 bits | 9.0 |
//! | 1,000,000 | 0.1 % | 10 bits, 0.098 % | 11.3 |
//! | 10,000,000 | 1 % | 7 bits | 7.85 |
//!
//! A key has three cells, and they xor to its fingerprint (Graf & Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor
//! Filters", 2022). A key that is not in the set finds a fingerprint that agrees with its own by chance alone: once in
//! 2^w for w bits, for any w from 1 to 32. Of rates that are no power of two the next lower one is kept.
//!
//! - **The empty set** is a set: its filter says "no" to everything, and its expected rate is 0.
//! - **Repeated keys** count once. They cost a second try and a sort, nothing else.
//! - **The same set gives the same bytes**, in any order, with any repetitions, on any number of threads.
//! - **Building** takes, beside the keys and with the filter itself, 36 bytes a key up to 4 million keys and 27 at 10
//!   million on two threads ([`math::fuse::build_bytes`](crate::math::fuse::build_bytes));
//!   [`FuseBuilder::build_memory`] sets a limit.
//!
//! ```
//! use bloomgate::fuse::Fuse;
//!
//! let squares: Vec<u64> = (0..10_000).map(|n| n * n).collect();
//! let filter = Fuse::builder().keys::<u64>().rate(0.01).build_from_slice(&squares)?;
//! assert_eq!(filter.len(), 10_000);
//! let mut answers = [false; 2];
//! filter.contains_batch(&[81u64, 1_000_000_007], &mut answers)?;
//! assert!(answers[0]); // maybe: 81 is in the set
//! # Ok::<(), bloomgate::Error>(())
//! ```
//!
//! # Memory
//!
//! ```text
//!  shard 0                             shard 1 ..
//!  [segment 0][segment 1][segment 2].. 2^k cells of w bits a segment, cell after cell, lowest bit first
//!       a          b          c        a key's cells: one anywhere, two in the segments after it
//!  a word of zeros behind the last shard, unless w is 8, 16 or 32
//! ```

mod build;
mod builder;
mod filter;
mod peel;
mod shape;
#[cfg(test)]
mod tests;

pub use builder::FuseBuilder;
pub use filter::Fuse;
pub use shape::FuseShape;
