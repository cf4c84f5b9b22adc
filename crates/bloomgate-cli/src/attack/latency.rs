//! How long answers took: a histogram whose buckets grow with the time they count, so that a nanosecond and a minute fit
//! and each is known to 1.6 % (after HdrHistogram, Tene 2012). Each worker has its own; they are added at the end.

/// Buckets to each doubling of time: a bucket is at most 1/64 of the time that it counts.
const STEPS: usize = 64;
/// Below this many nanoseconds each has its own bucket.
const EXACT: u64 = 2 * STEPS as u64;
/// Doublings from there to 2^64.
const BUCKETS: usize = EXACT as usize + (64 - EXACT.ilog2() as usize) * STEPS;

/// Times, counted.
#[derive(Clone)]
pub struct Latencies {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    longest: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, sum: 0, longest: 0 }
    }
}

impl Latencies {
    /// Counts a time of so many nanoseconds.
    pub fn record(&mut self, nanoseconds: u64) {
        self.buckets[bucket(nanoseconds)] += 1;
        self.count += 1;
        self.sum += u128::from(nanoseconds);
        self.longest = self.longest.max(nanoseconds);
    }

    /// Adds the times of another.
    pub fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, more)| *mine += more);
        self.count += other.count;
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }

    /// The mean, in seconds.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 * 1e-9 }
    }

    /// The time that this share of the answers did not exceed, in seconds: 0.99 is the p99.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(at).min(self.longest as f64) * 1e-9;
            }
        }
        0.0
    }

    /// The longest, in seconds.
    pub fn longest(&self) -> f64 {
        self.longest as f64 * 1e-9
    }
}

fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < EXACT {
        return nanoseconds as usize;
    }
    let doubling = (nanoseconds.ilog2() - EXACT.ilog2()) as usize;
    // The leading bit and the six after it: 64 to 127.
    let lead = (nanoseconds >> (doubling + 1)) as usize;
    EXACT as usize + doubling * STEPS + (lead - STEPS)
}

/// The middle of a bucket, in nanoseconds.
fn middle(bucket: usize) -> f64 {
    if bucket < EXACT as usize {
        return bucket as f64;
    }
    let (doubling, step) = ((bucket - EXACT as usize) / STEPS, (bucket - EXACT as usize) % STEPS);
    ((STEPS + step) as f64 + 0.5) * 2f64.powi(doubling as i32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_known_within_a_sixty_fourth() {
        for time in (0..5000).chain((12..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 12_345])) {
            let at = bucket(time);
            assert!(at < BUCKETS, "{time}");
            assert!((middle(at) - time as f64).abs() <= time as f64 / 64.0, "{time} is in a bucket of {}", middle(at));
        }
        assert!(bucket(u64::MAX) == BUCKETS - 1 && (1..1_000_000).all(|time| bucket(time - 1) <= bucket(time)));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let mut random = crate::random::Random::new(7);
        let mut times: Vec<u64> = (0..20_000).map(|_| (1000.0 * (10.0 * random.unit()).exp()) as u64).collect();
        let (mut one, mut two) = (Latencies::default(), Latencies::default());
        times.iter().enumerate().for_each(|(at, &time)| if at % 3 == 0 { &mut one } else { &mut two }.record(time));
        one.add(&two);
        times.sort_unstable();
        for share in [0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = times[(share * 20_000.0) as usize - 1] as f64 * 1e-9;
            let told = one.quantile(share);
            assert!((told / exact - 1.0).abs() < 0.02, "{share}: {told} is not {exact}");
        }
        let mean = times.iter().sum::<u64>() as f64 / 20_000.0 * 1e-9;
        assert!((one.mean() / mean - 1.0).abs() < 1e-9 && one.longest() == times[19_999] as f64 * 1e-9);
        assert_eq!((Latencies::default().mean(), Latencies::default().quantile(0.99)), (0.0, 0.0));
    }
}
