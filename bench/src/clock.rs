//! Time as the thread's own CPU time: what other processes steal is not counted.
//!
//! Cache and memory contention still shows, so figures are the minimum over passes, and only ratios inside one
//! process are worth quoting.

/// Nanoseconds of CPU this thread has used so far.
pub fn thread_cpu_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live, writable timespec, and the call keeps no pointer to it.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    assert_eq!(status, 0, "this system has no clock for a thread's CPU time");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU nanoseconds of one run of `work`.
pub fn time(work: impl FnOnce()) -> u64 {
    let start = thread_cpu_ns();
    work();
    thread_cpu_ns() - start
}

/// The best of several passes, in nanoseconds per key.
#[derive(Clone, Debug)]
pub struct Best {
    passes: Vec<f64>,
}

impl Best {
    /// No pass yet.
    pub fn new() -> Self {
        Self { passes: Vec::new() }
    }

    /// Takes in a pass that spent `ns` on `keys` keys.
    pub fn add(&mut self, ns: u64, keys: usize) {
        self.passes.push(ns as f64 / keys as f64);
    }

    /// The least of all passes that can be believed.
    ///
    /// On virtual machines the clock of a thread now and then stands still for a moment; such a pass was once seen to
    /// take no time at all. A pass of less than half the median is taken for a fault of the clock, not for speed.
    pub fn min(&self) -> f64 {
        let least = median(&self.passes) / 2.0;
        self.passes.iter().copied().filter(|&pass| pass >= least).fold(f64::INFINITY, f64::min)
    }
}

/// The middle of a list of figures; the mean of the two middle ones when their number is even.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// How many passes give a steady minimum at `keys` keys: many when a pass takes microseconds, few when it takes seconds.
pub fn passes_for(keys: usize) -> usize {
    match keys {
        0..=100_000 => 41,
        100_001..=2_000_000 => 11,
        2_000_001..=20_000_000 => 5,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_with_work_and_the_best_pass_wins() {
        let mut sum = 0u64;
        let spent = time(|| {
            for i in 0..3_000_000u64 {
                sum = std::hint::black_box(sum ^ i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            }
        });
        assert!(spent > 0);
        let mut best = Best::new();
        best.add(300, 10);
        best.add(200, 10);
        best.add(250, 10);
        assert_eq!(best.min(), 20.0);
        best.add(0, 10);
        assert_eq!(best.min(), 20.0, "a pass that took no time is not the best");
        assert_eq!(Best::new().min(), f64::INFINITY);
    }

    #[test]
    fn median_takes_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
