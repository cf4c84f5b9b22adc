//! What filters are instead of: the standard library's hash set, with the hash that the filters use.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};

use bloomgate::Contract;

use super::contest::{Course, Figures};
use crate::failure::Failure;

/// XXH3 of a word, as the filters have it, in place of the set's own SipHash-1-3.
#[derive(Clone, Copy)]
struct Xxh3<'a>(&'a Contract);

impl<'a> BuildHasher for Xxh3<'a> {
    type Hasher = Word<'a>;

    #[inline]
    fn build_hasher(&self) -> Word<'a> {
        Word(self.0, 0)
    }
}

/// The hash of one word.
struct Word<'a>(&'a Contract, u64);

impl Hasher for Word<'_> {
    #[inline]
    fn finish(&self) -> u64 {
        self.1
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        // A key of the contract's own type is never refused.
        self.1 = self.0.digest(&word).map_or(word, |digest| digest.lo);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.1 ^= self.0.digest_bytes(bytes).lo;
    }
}

/// Runs the hash set.
pub fn measure(course: &Course) -> Result<Figures, Failure> {
    let contract = Contract::xxh3().for_keys::<u64>();
    let hash = Xxh3(&contract);
    let keys = course.members().len();
    let no_batch = None::<fn(&HashSet<u64, Xxh3<'_>>, &[u64], &mut [bool]) -> Result<(), Failure>>;
    course.race(
        false,
        || Ok(HashSet::with_capacity_and_hasher(keys, hash)),
        |set: &mut HashSet<u64, Xxh3<'_>>, keys| {
            set.extend(keys);
            Ok(())
        },
        |set, key| Ok(set.contains(key)),
        no_batch,
        |set| bytes_of(set.capacity() as u64),
    )
}

/// The memory of a set: a power of two of slots, at most 7/8 of them used, each a word and a byte.
fn bytes_of(capacity: u64) -> u64 {
    (capacity.max(1) * 8 / 7).next_power_of_two() * 9 + 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_hashes_as_the_filters_do() {
        let contract = Contract::xxh3().for_keys::<u64>();
        let hash = Xxh3(&contract);
        assert_eq!(hash.hash_one(42u64), contract.digest(&42u64).unwrap().lo);
        assert_ne!(hash.hash_one(42u64), hash.hash_one(43u64));
        // 1,000,000 keys: 2^21 slots of 9 bytes.
        assert_eq!(bytes_of(1_835_008), (1 << 21) * 9 + 16);
    }
}
