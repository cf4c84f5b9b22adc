//! Random numbers for probes: SplitMix64 (Steele, Lea, Flood 2014) from the system's randomness, or from a seed in tests.

use std::hash::{BuildHasher, RandomState};

use bloomgate::Digest;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

impl Random {
    /// Another stream every time.
    #[must_use]
    pub fn new() -> Self {
        Self(RandomState::new().hash_one(0x70_726f_6265u64))
    }

    /// Always the same stream.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)] // It never ends, and nobody iterates.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A digest that no key has, but for one in 2^128.
    pub fn digest(&mut self) -> Digest {
        Digest::new(self.next(), self.next())
    }
}
