//! Items that come twice in one batch: new once, a repeat after that.
//!
//! A filter cannot tell, because it is asked for the whole batch before anything is added. So the digests of a batch are kept in
//! a small hash table with linear probing. Nothing is cleared between batches: a slot of an earlier one says so.

use std::hash::{BuildHasher, RandomState};

use bloomgate::Digest;

/// Slots of the least table, 16 KB: three times what the batch of a pipeline has.
const LEAST: usize = 2_048;
/// Slots that are kept: the table of a command with a million items is 16 MB.
const KEPT: usize = 64 << 10;

/// The digests of one batch that were not in the filter.
#[derive(Debug)]
pub struct Repeated {
    /// The number of the batch, and where the digest stands among the unknown ones of it.
    slots: Box<[(u32, u32)]>,
    batch: u32,
    /// Nobody outside knows it, so nobody can choose items that all meet in one slot.
    seed: u64,
}

impl Default for Repeated {
    fn default() -> Self {
        Self { slots: vec![(0, 0); LEAST].into(), batch: 0, seed: RandomState::new().hash_one(0u8) | 1 }
    }
}

impl Repeated {
    /// A batch of so many begins.
    pub fn begin(&mut self, count: usize) {
        let needed = (count * 2).next_power_of_two().max(LEAST);
        let fits = needed <= self.slots.len() && (self.slots.len() <= KEPT || needed > KEPT);
        // Numbers that come again after four thousand million batches must not find slots of their namesake.
        if !fits || self.batch == u32::MAX {
            self.slots = vec![(0, 0); needed].into();
            self.batch = 0;
        }
        self.batch += 1;
    }

    /// Where the same digest stands among the unknown ones; if it does not, it is about to be the next of them.
    #[inline]
    pub fn find_or_keep(&mut self, digest: Digest, unknown: &[Digest]) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = ((digest.lo ^ digest.hi.rotate_left(32)).wrapping_mul(self.seed) >> 32) as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.0 != self.batch {
                *slot = (self.batch, unknown.len() as u32);
                return None;
            }
            if unknown.get(slot.1 as usize) == Some(&digest) {
                return Some(slot.1);
            }
            at = (at + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every repeat is found, wherever it stands and however many come between; and nothing else is taken for one.
    #[test]
    fn each_digest_is_new_once() {
        let mut repeated = Repeated::default();
        for (round, count) in [3u64, 600, 2_000, 100_000, 5, 70_000, 600].into_iter().enumerate() {
            repeated.begin(2 * count as usize);
            let mut unknown = Vec::new();
            let digest = |i: u64| Digest::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15), i << 40 | round as u64);
            for i in 0..count {
                assert_eq!(repeated.find_or_keep(digest(i), &unknown), None, "{i} of {count}");
                unknown.push(digest(i));
            }
            for i in 0..count {
                assert_eq!(repeated.find_or_keep(digest(i), &unknown), Some(i as u32), "{i} of {count} again");
            }
        }
        assert!(repeated.slots.len() <= KEPT, "a large table is not kept");
    }
}
