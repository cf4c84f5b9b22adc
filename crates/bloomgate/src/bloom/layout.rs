//! What the fixed-size Bloom kinds differ in: where a key's bits go, and what that does to the rate.
//! Everything else they share is in [`super::Bloom`].

use crate::arch::words::{ReadWords, WriteWords};
use crate::error::Result;
use crate::hash::Digest;
use crate::hash::digests::Digests;
use crate::kind::Kind;
use crate::math::estimate::Estimate;
use crate::promise::Insertion;

use super::{BlockedLayout, ClassicLayout, PartitionedLayout};

/// Any of the layouts, for what has to tell them apart at run time (a file, a chain).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AnyLayout {
    Classic(ClassicLayout),
    Blocked(BlockedLayout),
    Partitioned(PartitionedLayout),
}

/// The layout of a fixed-size Bloom filter. Sealed: [`super::classic`], [`super::blocked`] and
/// [`super::partitioned`] are the ones there are.
pub trait Layout: sealed::Layout {}

pub(crate) mod sealed {
    use super::*;

    #[allow(private_interfaces, private_bounds)]
    pub trait Layout: Clone + Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static {
        const KIND: Kind;

        /// This layout among all.
        fn any(self) -> AnyLayout;
        /// The layout, if it is one of these.
        fn from_any(any: AnyLayout) -> Option<Self>;

        /// The smallest shape that holds `items` keys at `rate`.
        fn for_items(items: u64, rate: f64) -> Self;
        /// The best shape of at most `bits` bits for `items` keys.
        fn for_bits(bits: u64, items: u64) -> Result<Self>;
        /// The best shape of at most `bits` bits for a rate, however many keys that holds.
        fn for_bits_at_rate(bits: u64, rate: f64) -> Result<Self>;
        /// Exactly this many bits and hashes, or why that is not a shape.
        fn explicit(bits: u64, hashes: u32) -> Result<Self>;

        /// Bits that probes can reach.
        fn bits(&self) -> u64;
        /// Bits that a key sets, if none coincide.
        fn hashes(&self) -> u32;
        /// Words that hold the bits.
        fn words(&self) -> u64;
        /// How many keys keep the rate at or below this.
        fn capacity_at(&self, rate: f64) -> u64;
        /// The exact expected rate with so many distinct keys inserted.
        fn expected_rate(&self, items: u64) -> f64;
        /// The rate that the bits as they are will show.
        fn estimated_rate<W: ReadWords>(&self, words: W) -> f64;
        /// How many distinct keys leave so many bits set.
        fn estimate_count(&self, set_bits: u64) -> Estimate;
        /// The standard error of that number with so many distinct keys in.
        fn count_error(&self, items: f64) -> f64;

        /// What a key is spread over, and so what a fold divides: lines, bits, or the bits of a slice.
        fn spread(&self) -> u64;
        /// The name of these.
        const SPREAD: &'static str;
        /// The layout with so many of them and all else alike.
        fn with_spread(&self, spread: u64) -> Result<Self>;
        /// Sets in `to`, the words of the layout with a `factor`-th of the spread, every bit that the bits here fold to.
        fn fold<W: ReadWords>(&self, words: W, factor: u64, to: &mut [u64]);

        fn contains<W: ReadWords>(&self, words: W, digest: Digest) -> bool;
        fn insert<W: WriteWords>(&self, words: &mut W, digest: Digest) -> bool;
        fn contains_all<W: ReadWords, D: Digests>(&self, words: W, digests: D, answers: &mut [bool]) -> Result<()>;
        /// Inserts all, and counts those that were certainly new; also when it ends in a refusal.
        fn insert_all<W: WriteWords, D: Digests>(&self, words: &mut W, digests: D, fresh: &mut u64) -> Result<()>;
        /// Inserts all and says for each whether it was certainly new; how many were. One outcome for each digest.
        fn insert_each<W: WriteWords>(&self, words: &mut W, digests: &[Digest], outcomes: &mut [Insertion]) -> u64;
        /// Calls `visit` with every word that a lookup of this digest reads.
        fn each_word(&self, digest: Digest, visit: impl FnMut(usize));
        /// Calls `visit` with every bit of this digest; some may come twice.
        fn each_bit(&self, digest: Digest, visit: impl FnMut(u64));
    }
}
