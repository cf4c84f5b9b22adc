//! Ranks as a shop sees them: the first product is asked for twice as often as the second, three times as often as the
//! third (Zipf).
//!
//! Drawn by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", 1996): constant time and no table, for a thousand products as for a billion.

use crate::random::Random;

/// Ranks from 0 up; rank r has the weight `1 / (r + 1)^exponent`.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    ranks: f64,
    exponent: f64,
    /// The area under the hat from just left of the first rank's column to the right end of the last.
    first: f64,
    last: f64,
    /// Beside a rank by less than this, no question is asked.
    sure: f64,
}

impl Zipf {
    /// Over so many ranks, at least one. An exponent of 0 makes them equal.
    pub fn new(ranks: u64, exponent: f64) -> Self {
        let ranks = ranks.max(1) as f64;
        let mut zipf = Self { ranks, exponent, first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.area(1.5) - 1.0;
        zipf.last = zipf.area(ranks + 0.5);
        zipf.sure = 2.0 - zipf.place(zipf.area(2.5) - zipf.weight(2.0));
        zipf
    }

    /// A rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.last + random.unit() * (self.first - self.last);
            let place = self.place(area);
            let rank = place.round().clamp(1.0, self.ranks);
            if rank - place <= self.sure || area >= self.area(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the weight up to `x`: `(x^(1-s) - 1) / (1-s)`, which is `ln x` where s is 1.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        quotient((1.0 - self.exponent) * log, f64::exp_m1) * log
    }

    /// The place up to which the area is this: the other way round.
    fn place(&self, area: f64) -> f64 {
        let scaled = (area * (1.0 - self.exponent)).max(-1.0);
        (quotient(scaled, f64::ln_1p) * area).exp()
    }
}

/// `f(x) / x`, which tends to 1 at 0 for both functions that are asked for.
fn quotient(x: f64, f: impl Fn(f64) -> f64) -> f64 {
    if x.abs() > 1e-8 { f(x) / x } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use bloomgate::math::estimate::within;

    use super::*;

    /// Every rank of a small set, and the ends and decades of a large one, are drawn as often as theory says: two-sided,
    /// three in a million a side.
    #[test]
    fn ranks_come_as_often_as_theory_says() {
        const DRAWS: u64 = 400_000;
        for (ranks, exponent) in [(1u64, 1.0), (2, 1.0), (10, 0.0), (50, 0.8), (50, 1.0), (50, 1.7), (100_000, 1.0)] {
            let zipf = Zipf::new(ranks, exponent);
            let mut random = Random::new(42);
            let mut counts = vec![0u64; ranks as usize];
            (0..DRAWS).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
            let weight = |rank: u64| ((rank + 1) as f64).powf(-exponent);
            let total: f64 = (0..ranks).map(weight).sum();
            for rank in 0..ranks.min(50) {
                let expected = weight(rank) / total;
                assert!(within(counts[rank as usize], DRAWS, expected, 4.5), "{rank} of {ranks}^{exponent}");
            }
            for (from, to) in [(50, 100), (100, 1_000), (1_000, 10_000), (10_000, 99_999), (90_000, 100_000)] {
                if to <= ranks {
                    let expected: f64 = (from..to).map(weight).sum::<f64>() / total;
                    let drawn: u64 = counts[from as usize..to as usize].iter().sum();
                    assert!(within(drawn, DRAWS, expected, 4.5), "{from}..{to} of {ranks}^{exponent}: {drawn}");
                }
            }
        }
    }
}
