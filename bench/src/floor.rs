//! The physical floor: how fast this machine reads random cache lines when each is prefetched 32 keys ahead.
//!
//! A filter that touches one line per key cannot be faster than this on a table beyond the caches.

use crate::args::{Args, Fault};
use crate::clock::{self, Best};
use crate::memory;
use bloomgate::bits::Floor;

/// The floor in nanoseconds per line: the minimum over `passes` passes of `count` lines.
pub fn measure(floor: &Floor, count: usize, passes: usize) -> f64 {
    let mut best = Best::new();
    for pass in 0..passes.max(1) {
        let spent = clock::time(|| {
            std::hint::black_box(floor.read_lines(count as u64, (pass as u64) << 48));
        });
        best.add(spent, count);
    }
    best.min()
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
        let floor = Floor::of_bytes((megabytes as u64) << 20)?;
        let huge = memory::huge_bytes().unwrap_or(0).saturating_sub(before);
        let ns = measure(&floor, 20_000_000, passes);
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
    fn a_line_takes_time() {
        let floor = Floor::of_bytes(1000).expect("sixteen lines");
        assert_eq!(floor.bytes(), 1024);
        assert!(measure(&floor, 10_000, 2) > 0.0);
    }
}
