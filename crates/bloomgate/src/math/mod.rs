//! The arithmetic of the promise: sizes, rates, capacities and intervals, as pure functions.
//!
//! Nothing here knows a filter, a file or an error: numbers go in, numbers come out. Callers validate what users typed;
//! these functions only stay finite whatever they are given (a rate that is not a number counts as the strictest one).
//!
//! | module | question |
//! |---|---|
//! | [`classic`] | `m` bits, `k` probes anywhere |
//! | [`partitioned`] | `k` slices, one probe in each |
//! | [`blocked`] | probes of a key in one 512-bit line, or in a few |
//! | [`ribbon`] | bits that solve a system of equations, for sets that never change |
//! | [`cuckoo`] | fingerprints of `f` bits, four to a bucket |
//! | [`quotient`] | slots with remainders of sorted fingerprints |
//! | [`scalable`] | a chain of filters that grows |
//! | [`rotating`] | a ring of filters over a window of time |
//! | [`stable`] | cells that decay |
//! | [`split_block`] | one bit in each of 8 words of a 256-bit block: Parquet |
//! | [`fuse`] | three cells that xor to a fingerprint |
//! | [`tiers`] | levels of growing size that share memory |
//! | [`estimate`] | what the bits say about the keys, and what a measurement says about a rate |
//! | [`lines`] | how full the lines of a filter are after so many keys, and how much they differ |
//! | [`overlap`] | what two filters' bits say about the keys they share |
//!
//! Every size is the *smallest* one whose exact expected rate is at most the asked rate, within [`SLACK`].

pub mod blocked;
pub mod classic;
pub mod cuckoo;
pub mod estimate;
pub mod fuse;
mod line_sharing;
pub mod lines;
pub mod overlap;
pub mod partitioned;
pub mod quotient;
pub mod ribbon;
pub mod rotating;
pub mod scalable;
mod search;
pub mod split_block;
pub mod stable;
pub mod tiers;

/// How far above the asked rate an expected rate may lie, relatively: 1 % may be 1.0001 %.
///
/// The closed formula for the classic filter rounds the number of hashes, and at 1 million keys and 0.1 % that rounding
/// costs 2e-5: the slack keeps the figure that everybody knows (14,377,588 bits) and is far below what a measurement of
/// a hundred million lookups can see.
pub const SLACK: f64 = 1e-4;

/// The strictest rate the formulas are asked about; keeps every logarithm finite.
const STRICTEST: f64 = 1e-300;

/// The rate as a number the formulas can use: in `[1e-300, 1]`, and the strictest one when it is not a number.
fn tame(rate: f64) -> f64 {
    if rate > STRICTEST { rate.min(1.0) } else { STRICTEST }
}

/// The largest expected rate that still counts as keeping `rate`.
fn allowed(rate: f64) -> f64 {
    tame(rate) * (1.0 + SLACK)
}

#[cfg(test)]
pub(crate) mod dice {
    //! Ideal randomness for simulations: SplitMix64 (Steele, Lea, Flood 2014), always from a fixed seed.

    pub(crate) struct Dice(pub u64);

    impl Dice {
        pub(crate) fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        }

        /// Uniform in `0..bound`; the bias of the multiply-shift is below 2^-40 for the bounds of the tests.
        pub(crate) fn below(&mut self, bound: u64) -> u64 {
            ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
        }
    }
}
