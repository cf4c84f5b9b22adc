//! Cuckoo filters: fingerprints that move, so that keys can be removed.
//!
//! **When.** Keys go again, and four times the memory of a Bloom filter ([`Counting`](crate::Counting)) is too much; or
//! rates below 0.1 %, where fingerprints are smaller than Bloom bits. **When not.** Keys never go and 1 % is enough
//! ([`Blocked`](crate::Blocked) is as small and inserts much faster); or whoever removes does not know that the key was
//! inserted.
//!
//! [`Cuckoo`] has a fixed size, refuses when it is full, and always takes the different keys it was made for.
//! [`GrowingCuckoo`] is a chain of such tables for sets whose size nobody knows.
//!
//! | keys | rate | fingerprint | bits per key | Bloom, counting |
//! |---|---|---|---|---|
//! | 1,000 | 1 % | 10 bits | 11.8 | 41 |
//! | 1 M | 1 % (0.74 % kept) | 10 bits | 10.58 | 41 |
//! | 1 M | 0.1 % | 13 bits | 13.76 | 64 |
//! | 10 M | 1e-4 | 17 bits | 17.96 | 87 |
//!
//! # How
//!
//! A key is a fingerprint of a few bits and a bucket; the fingerprint and the bucket give another bucket, and from there
//! the same rule leads back. It may sit in any of the eight slots of the two. When all are taken, others move to their
//! other bucket, and others again to make room for them (Fan, Andersen, Kaminsky, Mitzenmacher, "Cuckoo Filter:
//! Practically Better Than Bloom", 2014). Buckets are packed to the bit and their number need not be a power of two.
//!
//! ```text
//!  key ── digest ─┬─ lo ──▶ bucket a ┐           a  [ 31a | 07f | 2c4 | 118 ]   four slots of f bits, 0 is empty
//!                 └─ hi ──▶ fingerprint p ──▶ b  b  [ 0d0 | p   |  0  |  0  ]   a = other(b, p), b = other(a, p)
//! ```
//!
//! # Duplicates
//!
//! Two keys with the same fingerprint and buckets look the same, and so does one key inserted twice. Each gets a slot of
//! its own, so that removing one leaves the other there; but only up to four copies. **The fourth sticks**, like a
//! counter that reached its top: it now stands for any number of keys, takes no further slot, and is never removed. So
//! ten thousand inserts of one key take four slots, and turn nobody away; and a key that was inserted four times and
//! removed four times still answers "maybe". For different keys it hardly ever happens (one table in sixty, at 1 M keys
//! and 1 %).
//!
//! Whoever removes exactly what was inserted, and wants to know how often a key is there, makes the filter with
//! [`CopyRule::Exact`]: eight copies then have a slot each and go one by one, and the ninth is refused. The rule is part of
//! the filter's shape and of its file.
//!
//! All copies of a key lie in the same eight slots, so a table where most keys have copies is full early. Of 100,000 keys,
//! each inserted twice, all went in with a headroom of 1.15 on the inserts; three or four times, one table in eight refused
//! even with 2.5 and 6. Give it each key once, or take [`Quotient`](crate::Quotient). But do not ask `contains` to decide
//! whether to insert: a key that only seems to be there is then left out, and a "no" is wrong once its look-alike is
//! removed.

mod builder;
mod copies;
#[cfg(test)]
mod copies_tests;
mod filter;
mod growing;
#[cfg(test)]
mod growing_tests;
mod growth;
mod moves;
mod shape;
#[cfg(test)]
mod tests;

pub use builder::CuckooBuilder;
pub use copies::{CopyRule, MAX_COPIES};
pub use filter::Cuckoo;
pub use growing::GrowingCuckoo;
pub use growth::{DEFAULT_FIRST, DEFAULT_GROWTH, GrowingCuckooBuilder, MAX_STAGES};
pub use shape::CuckooShape;

pub(crate) use growth::Growth;
