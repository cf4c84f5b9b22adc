//! Random numbers that are the same in every run: a stream for each worker, whatever the others do.

/// SplitMix64 (Steele, Lea and Flood 2014): every seed is a good one.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[cfg(test)]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of one worker: far from those of the others.
    pub fn of_worker(seed: u64, worker: u64) -> Self {
        Self(scatter(scatter(seed) ^ worker))
    }

    /// 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        finish(self.0)
    }

    /// From 0 up, below 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 0 up, below `end`, which is at least 1 (Lemire's multiplication; the bias is below 2^-30 for what is drawn
    /// here).
    #[cfg(any(feature = "gate", test))]
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Whether something that happens this often happens now.
    pub fn happens(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}

/// Another number for every number: one to one, so that what was different stays different.
pub fn scatter(number: u64) -> u64 {
    finish(number.wrapping_add(0x9E37_79B9_7F4A_7C15))
}

fn finish(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_the_published_one_and_stay_apart() {
        // The first outputs of SplitMix64 from the seed 1234567, as Vigna's reference gives them.
        let mut random = Random::new(1_234_567);
        assert_eq!(
            [(); 3].map(|()| random.next()),
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        let firsts: std::collections::HashSet<u64> =
            (0..1000).map(|worker| Random::of_worker(1, worker).next()).collect();
        assert_eq!(firsts.len(), 1000);
        let mut random = Random::new(3);
        let mean = (0..100_000).map(|_| random.below(10) as f64).sum::<f64>() / 1e5;
        // The standard error is 0.009.
        assert!((4.455..4.545).contains(&mean), "{mean}");
    }
}
