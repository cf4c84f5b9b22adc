//! The physical floor: what memory alone costs, without a filter.
//!
//! A filter that touches one cache line a key cannot be faster than this on a table of the same size: so many random
//! lines, each asked for [`CHUNK`] reads ahead, as the batches of the filters do.

use super::Owned;
use crate::arch::{CHUNK, prefetch, scale};
use crate::error::Result;

/// Words of a cache line.
const LINE: u64 = 8;

/// Memory to be read at random, laid out and paged as that of a filter.
///
/// ```
/// use bloomgate::bits::Floor;
///
/// let memory = Floor::of_bytes(1 << 20)?;
/// let start = std::time::Instant::now();
/// std::hint::black_box(memory.read_lines(100_000, 1));
/// let ns_per_line = start.elapsed().as_nanos() as f64 / 100_000.0;
/// # let _ = ns_per_line;
/// # Ok::<(), bloomgate::Error>(())
/// ```
#[derive(Debug)]
pub struct Floor(Owned);

impl Floor {
    /// At least so many bytes, each page its own: memory that nobody wrote is one page of zeros, read from the cache.
    pub fn of_bytes(bytes: u64) -> Result<Self> {
        let mut words = Owned::zeroed(bytes.div_ceil(64).max(1).saturating_mul(LINE))?;
        words.as_mut_slice().fill(1);
        Ok(Self(words))
    }

    /// The bytes that there are.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.as_slice().len() as u64 * 8
    }

    /// Reads so many lines, chosen by `seed`; how many there were by the words read, so that no read can be left out.
    #[must_use]
    pub fn read_lines(&self, count: u64, seed: u64) -> u64 {
        let words = self.0.as_slice();
        let lines = words.len() as u64 / LINE;
        let mut ring = [0usize; CHUNK];
        let mut sum = 0u64;
        for step in 0..count.saturating_add(CHUNK as u64) {
            let slot = &mut ring[step as usize % CHUNK];
            // The first round finds a slot that nobody filled.
            if step >= CHUNK as u64 {
                sum = sum.wrapping_add(words[*slot]);
            }
            *slot = (scale(spread(seed.wrapping_add(step)), lines) * LINE) as usize;
            prefetch(words, *slot);
        }
        sum
    }
}

/// The output function of splitmix64: every number somewhere else.
fn spread(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_asked_for_is_read_once() {
        for (bytes, count) in [(0, 0), (1, 1), (1000, 31), (1 << 16, 5_000)] {
            let floor = Floor::of_bytes(bytes).unwrap();
            assert_eq!((floor.read_lines(count, 7), floor.bytes() % 64), (count, 0));
            assert!(floor.bytes() >= bytes);
        }
    }
}
