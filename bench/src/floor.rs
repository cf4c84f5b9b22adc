//! The physical floor: how fast this machine reads random cache lines when each is prefetched 32 keys ahead.
//!
//! A filter that touches one line per key cannot be faster than this on a table beyond the caches.

use crate::args::{Args, Fault};
use crate::clock::{self, Best};
use crate::keys::splitmix;
use crate::memory::{self, Pages};

/// Keys in flight: 32 saturates a core's line buffers, 64 and 128 bring nothing more.
const RING: usize = 32;

/// A table of cache lines to be read at random.
pub struct Floor {
    pages: Pages,
}

impl Floor {
    /// A table of at least `bytes` bytes, filled so that every page is its own.
    pub fn of_bytes(bytes: usize) -> std::io::Result<Self> {
        Ok(Self { pages: Pages::of_lines(bytes.div_ceil(64))? })
    }

    /// How many bytes the table has.
    pub fn bytes(&self) -> usize {
        self.pages.bytes()
    }

    /// Reads `count` random lines; the sum of the words read, so that no read can be left out.
    pub fn read(&self, count: usize, seed: u64) -> u64 {
        let lines = self.pages.lines() as u128;
        let words = self.pages.start().cast::<u64>();
        let mut ring = [words; RING];
        let mut sum = 0u64;
        for step in 0..count + RING {
            let hash = splitmix(seed.wrapping_add(step as u64));
            let line = ((u128::from(hash) * lines) >> 64) as usize;
            let slot = &mut ring[step % RING];
            // SAFETY: the ring holds pointers to the first word of lines inside `pages`, which are initialised
            // and 64-byte-aligned, and nothing writes while `self` is borrowed.
            sum = sum.wrapping_add(unsafe { **slot });
            // SAFETY: `line < lines`, so the pointer stays inside `pages`.
            *slot = unsafe { words.add(line * 8) };
            prefetch(*slot);
        }
        sum
    }

    /// The floor in nanoseconds per line: the minimum over `passes` passes of `count` lines.
    pub fn measure(&self, count: usize, passes: usize) -> f64 {
        let mut best = Best::new();
        for pass in 0..passes.max(1) {
            let spent = clock::time(|| {
                std::hint::black_box(self.read(count, (pass as u64) << 48));
            });
            best.add(spent, count);
        }
        best.min()
    }
}

/// Asks for the line at `at` to be brought near.
#[inline(always)]
fn prefetch(at: *const u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it reads nothing the program can see, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// `scripts/bench floor [--mb N[,N..]] [--passes R] [--json]`.
pub fn run(args: &mut Args) -> Result<(), Fault> {
    let (mut sizes, mut passes, mut json) = (vec![128usize, 1024], 5usize, false);
    while let Some(option) = args.option()? {
        match option.as_str() {
            "--mb" => sizes = args.numbers(&option)?,
            "--passes" => passes = args.number(&option)?,
            "--json" => json = true,
            _ => return Err(args.unknown(&option)),
        }
    }
    if !json {
        println!("{}", crate::machine());
        println!("{:>8} {:>12} {:>12}", "MB", "ns per line", "huge pages");
    }
    for megabytes in sizes {
        let before = memory::huge_bytes().unwrap_or(0);
        let floor = Floor::of_bytes(megabytes << 20)?;
        let huge = memory::huge_bytes().unwrap_or(0).saturating_sub(before);
        let ns = floor.measure(20_000_000, passes);
        let share = huge as f64 / (megabytes << 20) as f64;
        if json {
            println!(r#"{{"mb":{megabytes},"ns_per_line":{ns:.3},"huge_share":{share:.3}}}"#);
        } else {
            println!("{megabytes:>8} {ns:>12.2} {:>11.0}%", share * 100.0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stay_inside_and_see_zeros() {
        let floor = Floor::of_bytes(1000).expect("sixteen lines");
        assert_eq!(floor.pages.lines(), 16);
        assert_eq!(floor.read(10_000, 1), 0);
    }
}
