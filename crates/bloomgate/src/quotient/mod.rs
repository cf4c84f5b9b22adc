//! Quotient filters: sorted remainders, which can be listed, merged and grown without the keys.
//!
//! **When.** Keys come and go and some come twice (it counts); filters of several days or machines become one
//! ([`merge`](Quotient::merge)); the number of keys is not known and the keys are not kept to build anew
//! ([`grow_to`](QuotientBuilder::grow_to)); what is in it must be listed or handed on
//! ([`fingerprints`](Quotient::fingerprints)). **When not.** Keys only come, and their number is known
//! ([`Blocked`](crate::Blocked) is several times faster to fill and as small); or they go but nothing is ever listed,
//! merged or grown (a cuckoo filter is smaller).
//!
//! A key's fingerprint is a number below some U; the high part of it (the quotient) is the slot where it would like to
//! be, and the low part (the remainder) is what is stored there, in order, pushed on by those before it. Two bits a
//! slot say where each quotient's run is. The rate is the share of U that is taken: nothing else can go wrong.
//!
//! | keys | rate asked | rate at that | bits per key | remainder |
//! |---|---|---|---|---|
//! | 1,000 | 1 % | 0.64 % | 12.3 | 7 bits |
//! | 1,000,000 | 1 % | 0.64 % | 11.35 | 7 bits |
//! | 1,048,577 | 1 % | 0.64 % | 11.35 | 7 bits |
//! | 1,000,000 | 0.1 % | 0.080 % | 15.6 | 10 bits |
//! | 1,000,000 | 0.01 % | 0.010 % | 19.5 | 13 bits |
//!
//! Batches of lookups take about 15 ns a key at a million keys and 18 to 30 at ten million; one by one about 30 and 80.
//! Rates above 1.3 % save little: a block has no more than 56 slots.
//!
//! - **Any number of slots**: memory follows the number of keys, and a size just past a power of two costs nothing.
//! - **Copies** take a slot each, up to 15 of one fingerprint; with the 15th it sticks, further inserts change nothing,
//!   and removals neither, so that ten thousand inserts of one key neither fill the filter nor make a "no" wrong.
//! - **Growing** spreads the same fingerprints over more slots (a third or a half more, in turn). They do not become
//!   longer: the rate is fixed by the keys and by U, which [`grow_to`](QuotientBuilder::grow_to) sizes for the keys that
//!   may come. Past that an insert goes on growing the table at a rising rate, or refuses, as
//!   [`WhenFull`](crate::WhenFull) says.
//! - **The same keys make the same bits**, in whatever order they came and whatever was removed in between.
//!
//! The design is the rank-and-select quotient filter (Pandey and others, 2017), in blocks of one cache line. A vector
//! quotient filter (2021) fills faster, but forgets which of two places a key chose and so can neither be listed in order
//! nor grow nor merge.

mod builder;
mod entries;
mod filter;
mod owned;
mod shape;
mod shared;
mod table;
#[cfg(test)]
mod tests;

pub use builder::QuotientBuilder;
pub use filter::Quotient;
pub use owned::Fingerprints;
pub use shape::QuotientShape;
pub use table::MAX_COPIES;
