//! How many different keys a stream has, in 16 kB: a HyperLogLog sketch.
//!
//! Each key is thrown into one of 2^14 registers by the first bits of its hash, and a register keeps the longest run of
//! zeros that the rest of a hash began with: a run of `r` zeros is seen about once in 2^r different keys (Flajolet,
//! Fusy, Gandouet, Meunier 2007). Read with the estimator of Ertl ("New cardinality estimation algorithms for
//! HyperLogLog sketches", 2017, algorithm 6), which is even from the first key on and needs no table of corrections.
//! The standard error is 1.04 / sqrt(2^14) = 0.81 %.

/// Bits of the hash that choose a register.
const CHOOSE: u32 = 14;
const REGISTERS: usize = 1 << CHOOSE;
/// Bits of the hash that are left for the run of zeros.
const REST: usize = 64 - CHOOSE as usize;
/// The standard error of an estimate, relatively.
pub const ERROR: f64 = 1.04 / 128.0;

/// The sketch.
pub struct HyperLogLog(Vec<u8>);

impl Default for HyperLogLog {
    fn default() -> Self {
        Self(vec![0; REGISTERS])
    }
}

impl HyperLogLog {
    /// A key by its hash, all 64 bits of which must be good.
    pub fn add(&mut self, hash: u64) {
        let register = (hash >> REST) as usize;
        // The ones below stop the count where the hash ends.
        let run = ((hash << CHOOSE) | ((1 << CHOOSE) - 1)).leading_zeros() + 1;
        self.0[register] = self.0[register].max(run as u8);
    }

    /// About how many different keys there were.
    pub fn estimate(&self) -> f64 {
        let mut counts = [0u32; REST + 2];
        self.0.iter().for_each(|&run| counts[usize::from(run)] += 1);
        let m = REGISTERS as f64;
        let mut z = m * tau(1.0 - f64::from(counts[REST + 1]) / m);
        for run in (1..=REST).rev() {
            z = 0.5 * (z + f64::from(counts[run]));
        }
        z += m * sigma(f64::from(counts[0]) / m);
        m * m / (2.0 * std::f64::consts::LN_2 * z)
    }
}

/// What the empty registers say: the sum of `x^(2^k) 2^(k-1)`; infinite when all are.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// What the registers that can go no further say.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64 (Steele, Lea, Flood 2014) of a counter: different numbers, well spread.
    fn mix(number: u64) -> u64 {
        let mut z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    #[test]
    fn counts_are_within_their_error_from_the_first_key_on() {
        assert_eq!(HyperLogLog::default().estimate(), 0.0);
        for (stream, keys) in [(1u64, 1u64), (2, 10), (3, 1000), (4, 20_000), (5, 50_000), (6, 400_000)] {
            let mut sketch = HyperLogLog::default();
            for _ in 0..2 {
                (0..keys).for_each(|key| sketch.add(mix((stream << 40) + key + 1)));
            }
            let off = sketch.estimate() / keys as f64 - 1.0;
            assert!(off.abs() < 3.0 * ERROR, "{keys} keys: {off}");
        }
    }

    #[test]
    fn errors_of_many_sketches_spread_as_they_should() {
        let (sketches, keys) = (60u64, 30_000u64);
        let mut squares = 0.0;
        for stream in 0..sketches {
            let mut sketch = HyperLogLog::default();
            (0..keys).for_each(|key| sketch.add(mix((stream << 32) + key + 1)));
            squares += (sketch.estimate() / keys as f64 - 1.0).powi(2);
        }
        let error = (squares / sketches as f64).sqrt();
        // A little below the limit while keys are few, and never half or twice as much.
        assert!((0.4 * ERROR..1.4 * ERROR).contains(&error), "{error} measured, {ERROR} expected");
    }

    #[test]
    fn the_ends_of_the_range_are_numbers() {
        let mut sketch = HyperLogLog::default();
        sketch.add(0);
        sketch.add(u64::MAX);
        assert!((sketch.estimate() - 2.0).abs() < 0.1);
        assert_eq!(u32::from(sketch.0[0]), REST as u32 + 1);
        let full = HyperLogLog(vec![REST as u8 + 1; REGISTERS]);
        assert!(full.estimate().is_infinite() || full.estimate() > 1e18);
    }
}
