//! Every kind beside every other: one row each for a number of keys and a rate, and curves for plots.

use super::{KindName, check_items, check_rate, refuse};
use crate::error::Result;
use crate::math::scalable::{GROWTH, Tightening, chain_rate, stage_capacity, stage_rate};
use crate::math::{blocked, classic, partitioned};

/// Lanes of a blocked line choose their words one by one; those of a counting filter in pairs.
const FREE: bool = false;
const PAIRED: bool = true;
/// Bits of a counter in the counting filter as it comes.
const COUNTER_BITS: u64 = 4;
/// The most points of a curve.
const MOST_POINTS: u32 = 10_000;

/// The size of a filter of some kind, before it is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// What it is.
    pub kind: KindName,
    /// All its bits.
    pub bits: u64,
    /// Probes of a key (classic, partitioned) or lines of a key (blocked and what is built on it).
    pub probes: u32,
    /// Keys of the first stage of a scalable filter; 0 for the others.
    pub first: u64,
}

impl Shape {
    /// The smallest shape of this kind that keeps `rate` for `items` keys; nothing for kinds that this version lacks.
    ///
    /// A counting filter has the bits of the blocked one with a 4-bit counter for each; a scalable one starts with a
    /// stage for `items` keys and grows by 1.75.
    #[must_use]
    pub fn of(kind: KindName, items: u64, rate: f64) -> Option<Self> {
        let blocked_bits = |rate, paired| {
            let (blocks, lines) = blocked::size_for(items, rate, paired);
            (blocks.saturating_mul(blocked::LINE_BITS), lines)
        };
        let (bits, probes) = match kind {
            KindName::Blocked => blocked_bits(rate, FREE),
            KindName::Classic => classic::size_for(items, rate),
            KindName::Partitioned => {
                let (slice, k) = partitioned::size_for(items, rate);
                (slice.saturating_mul(u64::from(k)), k)
            }
            KindName::Counting => {
                let (bits, lines) = blocked_bits(rate, PAIRED);
                (bits.saturating_mul(COUNTER_BITS), lines)
            }
            KindName::Scalable => blocked_bits(stage_rate(rate, Tightening::default(), 0), FREE),
            _ => return None,
        };
        Some(Self { kind, bits, probes, first: if kind == KindName::Scalable { items } else { 0 } })
    }

    /// Its bytes, rounded up.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bits.div_ceil(8)
    }

    /// The expected rate after `n` keys; `promised` is the rate a scalable chain was made for.
    #[must_use]
    pub fn rate_at(&self, n: u64, promised: f64) -> f64 {
        match self.kind {
            KindName::Classic => classic::rate(self.bits, self.probes, n),
            KindName::Partitioned => partitioned::rate(self.bits / u64::from(self.probes.max(1)), self.probes, n),
            KindName::Counting => blocked::rate(self.bits / blocked::LINE_BITS / COUNTER_BITS, self.probes, PAIRED, n),
            KindName::Scalable => chain_at(self.first, n, promised),
            _ => blocked::rate(self.bits / blocked::LINE_BITS, self.probes, FREE, n),
        }
    }
}

/// The rate of a scalable chain that started with `first` keys and holds `n`.
fn chain_at(first: u64, n: u64, promised: f64) -> f64 {
    let mut rates = Vec::new();
    let mut left = n;
    for stage in 0.. {
        let Some(capacity) = stage_capacity(first.max(1), GROWTH, stage) else { break };
        let share = stage_rate(promised, Tightening::default(), stage);
        let (blocks, lines) = blocked::size_for(capacity, share, FREE);
        rates.push(blocked::rate(blocks, lines, FREE, left.min(capacity)));
        if left <= capacity {
            break;
        }
        left -= capacity;
    }
    chain_rate(rates)
}

/// One kind, sized.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The kind.
    pub kind: KindName,
    /// All its bits.
    pub bits: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Bits a key.
    pub bits_per_key: f64,
    /// Probes of a key, or lines of a key for the blocked line.
    pub probes: u32,
    /// Expected rate with the keys it was made for.
    pub rate: f64,
    /// Expected rate with twice as many.
    pub rate_at_2x: f64,
    /// Expected rate with ten times as many.
    pub rate_at_10x: f64,
}

/// Every Bloom kind of this version, sized for `items` keys at `rate`.
///
/// ```
/// let rows = bloomgate::advice::table(1_000_000, 0.001)?;
/// assert!(rows.iter().any(|row| row.bits == 14_377_588 && row.probes == 10));
/// # Ok::<(), bloomgate::Error>(())
/// ```
///
/// # Errors
/// A rate outside (0, 1), or no keys, or more than 2^56 of them.
pub fn table(items: u64, rate: f64) -> Result<Vec<Row>> {
    let (items, rate) = (check_items(items)?, check_rate(rate)?);
    let shapes = KindName::ALL.iter().filter_map(|&kind| Shape::of(kind, items, rate));
    Ok(shapes
        .map(|shape| Row {
            kind: shape.kind,
            bits: shape.bits,
            bytes: shape.bytes(),
            bits_per_key: shape.bits as f64 / items as f64,
            probes: shape.probes,
            rate: shape.rate_at(items, rate),
            rate_at_2x: shape.rate_at(items.saturating_mul(2), rate),
            rate_at_10x: shape.rate_at(items.saturating_mul(10), rate),
        })
        .collect())
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// What is varied: bits a key, hashes, or times the planned keys.
    pub x: f64,
    /// The expected rate there.
    pub rate: f64,
}

fn check_points(points: u32) -> Result<u32> {
    if (2..=MOST_POINTS).contains(&points) {
        return Ok(points);
    }
    Err(refuse(format!("a curve needs 2 to {MOST_POINTS} points, got {points}: 100 is plenty for a plot")))
}

fn check_range(what: &str, from: f64, to: f64) -> Result<()> {
    if from.is_finite() && to.is_finite() && from > 0.0 && from < to && to <= 1e6 {
        return Ok(());
    }
    Err(refuse(format!("{what} from {from} to {to} is not a range: give two numbers, 0 < from < to <= 1000000")))
}

fn steps(from: f64, to: f64, points: u32) -> impl Iterator<Item = f64> {
    (0..points).map(move |i| from + (to - from) * f64::from(i) / f64::from(points - 1))
}

/// The best rate that `items` keys can have in so many bits a key, for a classic, partitioned or blocked filter.
///
/// # Errors
/// Another kind, no keys, or a range or a number of points that makes no curve.
pub fn sweep_memory(kind: KindName, items: u64, from: f64, to: f64, points: u32) -> Result<Vec<Point>> {
    let (items, points) = (check_items(items)?, check_points(points)?);
    check_range("bits per key", from, to)?;
    let rate_in = |bits: u64| match kind {
        KindName::Classic => Some(classic::rate_for(bits, items)),
        KindName::Partitioned => Some(partitioned::rate_for(bits, items)),
        KindName::Blocked => Some(blocked::rate_for(bits / blocked::LINE_BITS, items, FREE).1),
        _ => None,
    };
    steps(from, to, points)
        .map(|x| match rate_in((x * items as f64) as u64) {
            Some(rate) => Ok(Point { x, rate }),
            None => Err(refuse(format!(
                "no curve of rate against memory for {kind}: ask for classic, partitioned or blocked"
            ))),
        })
        .collect()
}

/// The rate of a classic filter of `bits` bits with `items` keys against the number of hashes, and its minimum.
#[derive(Debug, Clone, PartialEq)]
pub struct HashSweep {
    /// The rate with 1, 2, … hashes.
    pub points: Vec<Point>,
    /// The number of hashes with the lowest rate.
    pub best: u32,
    /// That rate.
    pub lowest: f64,
}

/// The rate of a classic filter against the number of hashes, from 1 to `most`.
///
/// # Errors
/// No keys, no bits, or `most` outside 1 to 64.
pub fn sweep_hashes(bits: u64, items: u64, most: u32) -> Result<HashSweep> {
    let items = check_items(items)?;
    if bits == 0 || !(1..=classic::MAX_HASHES).contains(&most) {
        return Err(refuse(format!(
            "{bits} bits and up to {most} hashes make no curve: give at least 1 bit and 1 to {} hashes",
            classic::MAX_HASHES
        )));
    }
    let points: Vec<Point> =
        (1..=most).map(|k| Point { x: f64::from(k), rate: classic::rate(bits, k, items) }).collect();
    let lowest = points.iter().fold(Point { x: 1.0, rate: 1.0 }, |low, &p| if p.rate < low.rate { p } else { low });
    Ok(HashSweep { best: lowest.x as u32, lowest: lowest.rate, points })
}

/// The rate of a filter made for `items` keys at `rate` against how many times those keys it holds, up to `most`.
///
/// # Errors
/// A kind that this version lacks, a rate outside (0, 1), no keys, or a number of points that makes no curve.
pub fn sweep_overfill(kind: KindName, items: u64, rate: f64, most: f64, points: u32) -> Result<Vec<Point>> {
    let (items, rate, points) = (check_items(items)?, check_rate(rate)?, check_points(points)?);
    let from = most / f64::from(points);
    check_range("times the planned keys", from, most)?;
    let Some(shape) = Shape::of(kind, items, rate) else {
        return Err(refuse(format!("{kind} is not in this version: ask for one of the kinds in `table`")));
    };
    Ok(steps(from, most, points).map(|x| Point { x, rate: shape.rate_at((x * items as f64) as u64, rate) }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_keeps_every_promise() {
        for (items, rate) in [(1u64, 0.01), (1000, 0.01), (1_000_000, 0.001), (10_000_000, 0.01), (50_000, 1e-6)] {
            let rows = table(items, rate).unwrap();
            assert_eq!(rows.len(), KindName::ALL.iter().filter(|kind| kind.available()).count());
            for row in rows {
                assert!(row.rate <= rate * 1.0001 && row.rate > 0.0, "{row:?}");
                assert!(row.rate <= row.rate_at_2x && row.rate_at_2x <= row.rate_at_10x, "{row:?}");
                if row.kind == KindName::Scalable {
                    assert!(row.rate_at_10x <= rate, "a chain keeps its rate as it grows: {row:?}");
                } else if items >= 1000 {
                    assert!(row.rate_at_2x > rate, "{row:?}");
                }
            }
        }
        let rows = table(10_000_000, 0.01).unwrap();
        let of = |kind| *rows.iter().find(|row| row.kind == kind).unwrap();
        assert!((of(KindName::Classic).bits_per_key - 9.593).abs() < 0.001);
        assert!((of(KindName::Blocked).bits_per_key - 10.114).abs() < 0.002);
        let counting = crate::Counting::builder().items(10_000_000).rate(0.01).build().unwrap();
        assert_eq!(of(KindName::Counting).bytes, counting.size_in_bytes(), "planned as it is built");
        let blocked = crate::Blocked::builder().items(10_000_000).rate(0.01).build().unwrap();
        assert_eq!(of(KindName::Blocked).bytes, blocked.size_in_bytes(), "planned as it is built");
    }

    #[test]
    fn curves_fall_rise_and_have_their_minimum() {
        for kind in [KindName::Classic, KindName::Partitioned, KindName::Blocked] {
            let curve = sweep_memory(kind, 100_000, 2.0, 30.0, 29).unwrap();
            assert_eq!(curve.len(), 29);
            assert!(curve.windows(2).all(|pair| pair[1].rate < pair[0].rate), "{kind}");
        }
        let hashes = sweep_hashes(9_593_000, 1_000_000, 20).unwrap();
        assert_eq!((hashes.best, hashes.points.len()), (7, 20));
        assert!((hashes.lowest - 0.01).abs() < 1e-5 && hashes.points.iter().all(|p| p.rate >= hashes.lowest));
        let overfill = sweep_overfill(KindName::Classic, 1_000_000, 0.01, 5.0, 10).unwrap();
        assert!((overfill[9].rate - 0.83).abs() < 0.01 && overfill[9].x == 5.0, "{overfill:?}");
        assert!((overfill[1].x - 1.0).abs() < 1e-12 && (overfill[1].rate - 0.01).abs() < 1e-5);
    }

    #[test]
    fn nonsense_is_refused() {
        for rate in [0.0, 1.0, -0.1, f64::NAN, f64::INFINITY, 5.0] {
            assert!(table(10, rate).is_err(), "{rate}");
        }
        assert!(table(0, 0.01).is_err());
        assert!(sweep_memory(KindName::Cuckoo, 10, 1.0, 2.0, 5).is_err());
        assert!(sweep_memory(KindName::Classic, 10, 2.0, 1.0, 5).is_err());
        assert!(sweep_memory(KindName::Classic, 10, 1.0, f64::NAN, 5).is_err());
        assert!(sweep_hashes(0, 10, 5).is_err() && sweep_hashes(10, 10, 65).is_err());
        assert!(sweep_overfill(KindName::Blocked, 10, 0.01, 5.0, 1).is_err());
        assert!(sweep_overfill(KindName::Fuse, 10, 0.01, 5.0, 10).is_err());
        assert!(Shape::of(KindName::Ribbon, 10, 0.01).is_none());
    }
}
