//! Every kind beside every other: one row each for a number of keys and a rate, and curves for plots.

use super::{check_items, check_rate, refuse};
use crate::bloom::rotating::DEFAULT_GENERATIONS as GENERATIONS;
use crate::cuckoo::CuckooShape;
use crate::error::Result;
use crate::fuse::FuseShape;
use crate::kind::Kind;
use crate::math::scalable::{GROWTH, Tightening, chain_rate, stage_capacity, stage_rate};
use crate::math::{blocked, classic, cuckoo, fuse, partitioned, quotient, ribbon, rotating};
use crate::quotient::QuotientShape;

/// Lanes of a blocked line choose their words one by one; those of a counting filter in pairs.
const FREE: bool = false;
const PAIRED: bool = true;
/// Bits of a counter in the counting filter as it comes.
const COUNTER_BITS: u64 = 4;
/// What a ribbon filter takes beyond its result bits: 0.3 to 0.8 % measured from 100,000 keys up.
const RIBBON_OVERHEAD: f64 = 1.006;
/// The most points of a curve.
const MOST_POINTS: u32 = 10_000;

/// The size of a filter of some kind, before it is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// What it is.
    pub kind: Kind,
    /// All its bits; of a ribbon filter about as many, since its layers depend on the keys.
    pub bits: u64,
    /// Probes of a key (classic, partitioned) or lines of a key (blocked and what is built on it); 0 for fingerprints.
    pub probes: u32,
    /// Keys that it is made for; of a chain, its first stage.
    pub first: u64,
    /// Buckets, slots or cells of fingerprints; lines of a generation; 0 for the others.
    pub cells: u64,
    /// Bits of a fingerprint, or fingerprints of a slot (quotient).
    pub width: u64,
}

impl Shape {
    /// The smallest shape of this kind that keeps `rate` for `items` keys; nothing for kinds that are sized otherwise (a
    /// stable filter, the forms of other systems).
    ///
    /// A counting filter has the bits of the blocked one with a 4-bit counter for each; a chain starts with a stage for
    /// `items` keys; a ring has `items` keys in its window.
    #[must_use]
    pub fn of(kind: Kind, items: u64, rate: f64) -> Option<Self> {
        let blocked_bits = |items, rate, paired| {
            let (blocks, lines) = blocked::size_for(items, rate, paired);
            (blocks.saturating_mul(blocked::LINE_BITS), lines)
        };
        let bits = |(bits, probes)| Some(Self { kind, bits, probes, first: items, cells: 0, width: 0 });
        let fingerprints = |words: u64, cells, width| {
            Some(Self { kind, bits: words.saturating_mul(64), probes: 0, first: items, cells, width })
        };
        let first_share = stage_rate(rate, Tightening::default(), 0);
        match kind {
            Kind::Blocked => bits(blocked_bits(items, rate, FREE)),
            Kind::Classic => bits(classic::size_for(items, rate)),
            Kind::Partitioned => {
                let (slice, k) = partitioned::size_for(items, rate);
                bits((slice.saturating_mul(u64::from(k)), k))
            }
            Kind::Counting => {
                let (plain, lines) = blocked_bits(items, rate, PAIRED);
                bits((plain.saturating_mul(COUNTER_BITS), lines))
            }
            Kind::Scalable => bits(blocked_bits(items, first_share, FREE)),
            Kind::Rotating => {
                let each = rotating::generation_rate(rate, GENERATIONS);
                let (one, lines) = blocked_bits(rotating::generation_items(items, GENERATIONS), each, FREE);
                let all = one.saturating_mul(u64::from(GENERATIONS) + 1);
                Some(Self { kind, bits: all, probes: lines, first: items, cells: one / blocked::LINE_BITS, width: 0 })
            }
            Kind::Cuckoo | Kind::GrowingCuckoo => {
                let share = if kind == Kind::Cuckoo { rate } else { first_share };
                let (buckets, width) = cuckoo::size_for(items, share);
                fingerprints(CuckooShape::new(buckets, width).ok()?.words(), buckets, width.into())
            }
            Kind::Quotient => {
                let (slots, interval) = quotient::size(items, items, rate)?;
                fingerprints(QuotientShape::new(slots, interval).ok()?.words(), slots, interval)
            }
            Kind::Fuse => {
                let (width, shards) = (fuse::width_for(rate), fuse::shards_for(items));
                let (length, count) = fuse::table_for(items.div_ceil(shards), 0);
                let shape = FuseShape::new(width, length, count, shards, 0).ok()?;
                fingerprints(shape.words(), shape.cells(), width.into())
            }
            Kind::Ribbon => {
                let width = ribbon::result_bits(rate)?;
                let words = (items as f64 * f64::from(width) * RIBBON_OVERHEAD / 64.0).ceil() as u64;
                fingerprints(words, items, width.into())
            }
            _ => None,
        }
    }

    /// Its bytes, rounded up.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bits.div_ceil(8)
    }

    /// The expected rate after `n` keys, if it takes so many; `promised` is the rate a chain was made for.
    #[must_use]
    pub fn rate_at(&self, n: u64, promised: f64) -> Option<f64> {
        let width = self.width.min(u64::from(u32::MAX)) as u32;
        match self.kind {
            Kind::Classic => Some(classic::rate(self.bits, self.probes, n)),
            Kind::Partitioned => Some(partitioned::rate(self.bits / u64::from(self.probes.max(1)), self.probes, n)),
            Kind::Counting => {
                Some(blocked::rate(self.bits / blocked::LINE_BITS / COUNTER_BITS, self.probes, PAIRED, n))
            }
            Kind::Scalable => Some(chain_at(self.first, n, GROWTH, |capacity, stage, keys| {
                let (blocks, lines) =
                    blocked::size_for(capacity, stage_rate(promised, Tightening::default(), stage), FREE);
                blocked::rate(blocks, lines, FREE, keys)
            })),
            Kind::GrowingCuckoo => Some(chain_at(self.first, n, 2.0, |capacity, stage, keys| {
                let (buckets, width) = cuckoo::size_for(capacity, stage_rate(promised, Tightening::default(), stage));
                cuckoo::rate(buckets, width, keys)
            })),
            Kind::Rotating => {
                let keys = rotating::generation_items(n, GENERATIONS);
                Some(rotating::ring_rate(blocked::rate(self.cells, self.probes, FREE, keys), GENERATIONS))
            }
            // No room for more, and those that are built once take none.
            Kind::Cuckoo | Kind::Fuse | Kind::Ribbon if n > self.first => None,
            Kind::Cuckoo => Some(cuckoo::rate(self.cells, width, n)),
            Kind::Quotient => Some(quotient::rate(self.cells.saturating_mul(self.width), n)),
            Kind::Fuse => Some(fuse::rate(width)),
            Kind::Ribbon => Some(ribbon::rate(width)),
            _ => Some(blocked::rate(self.bits / blocked::LINE_BITS, self.probes, FREE, n)),
        }
    }
}

/// The rate of a chain that started with `first` keys and holds `n`; `each` gives the rate of a stage by its capacity,
/// its number and the keys in it.
fn chain_at(first: u64, n: u64, growth: f64, each: impl Fn(u64, u32, u64) -> f64) -> f64 {
    let mut rates = Vec::new();
    let mut left = n;
    for stage in 0.. {
        let Some(capacity) = stage_capacity(first.max(1), growth, stage) else { break };
        rates.push(each(capacity, stage, left.min(capacity)));
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
    pub kind: Kind,
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
    /// Expected rate with twice as many, if it takes them.
    pub rate_at_2x: Option<f64>,
    /// Expected rate with ten times as many, if it takes them.
    pub rate_at_10x: Option<f64>,
}

/// Every kind that can be, sized for `items` keys at `rate`.
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
    let shapes = Kind::ALL.iter().filter_map(|&kind| Shape::of(kind, items, rate));
    Ok(shapes
        .map(|shape| Row {
            kind: shape.kind,
            bits: shape.bits,
            bytes: shape.bytes(),
            bits_per_key: shape.bits as f64 / items as f64,
            probes: shape.probes,
            rate: shape.rate_at(items, rate).unwrap_or(rate),
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
pub fn sweep_memory(kind: Kind, items: u64, from: f64, to: f64, points: u32) -> Result<Vec<Point>> {
    let (items, points) = (check_items(items)?, check_points(points)?);
    check_range("bits per key", from, to)?;
    let rate_in = |bits: u64| match kind {
        Kind::Classic => Some(classic::rate_for(bits, items)),
        Kind::Partitioned => Some(partitioned::rate_for(bits, items)),
        Kind::Blocked => Some(blocked::rate_for(bits / blocked::LINE_BITS, items, FREE).1),
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

/// The bits a key that any kind takes, for asked rates from `from` down to `to` in even steps of their logarithm; a
/// kind whose fingerprints have whole bits gives a staircase.
///
/// # Errors
/// A kind that is not sized by keys and rate, no keys, rates outside (0, 1) or in the wrong order, or a number of points
/// that makes no curve.
pub fn sweep_rate(kind: Kind, items: u64, from: f64, to: f64, points: u32) -> Result<Vec<Point>> {
    let (items, points) = (check_items(items)?, check_points(points)?);
    let (from, to) = (check_rate(from)?, check_rate(to)?);
    if from <= to {
        return Err(refuse(format!("rates from {from} down to {to} are no curve: give the higher one first")));
    }
    let mut curve: Vec<Point> = Vec::with_capacity(points as usize);
    for logarithm in steps(-from.ln(), -to.ln(), points) {
        let asked = (-logarithm).exp();
        let Some(shape) = Shape::of(kind, items, asked) else {
            return Err(refuse(format!("{kind} is not sized by keys and rate: ask for one of the kinds in `table`")));
        };
        let point = Point { x: shape.bits as f64 / items as f64, rate: shape.rate_at(items, asked).unwrap_or(asked) };
        // What is no smaller and no better (a key begins to use a second line) is nobody's choice.
        while curve.last().is_some_and(|last| last.x >= point.x && last.rate >= point.rate) {
            curve.pop();
        }
        if curve.last().is_none_or(|last| last.x < point.x) {
            curve.push(point);
        }
    }
    Ok(curve)
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
pub fn sweep_overfill(kind: Kind, items: u64, rate: f64, most: f64, points: u32) -> Result<Vec<Point>> {
    let (items, rate, points) = (check_items(items)?, check_rate(rate)?, check_points(points)?);
    let from = most / f64::from(points);
    check_range("times the planned keys", from, most)?;
    let Some(shape) = Shape::of(kind, items, rate) else {
        return Err(refuse(format!("{kind} is not sized by keys and rate: ask for one of the kinds in `table`")));
    };
    // A kind that refuses has a curve up to where it does.
    let point = |x| Some(Point { x, rate: shape.rate_at((x * items as f64) as u64, rate)? });
    Ok(steps(from, most, points).map_while(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_keeps_every_promise() {
        for (items, rate) in [(1u64, 0.01), (1000, 0.01), (1_000_000, 0.001), (10_000_000, 0.01), (50_000, 1e-6)] {
            let rows = table(items, rate).unwrap();
            assert_eq!(rows.len(), Kind::ALL.len() - 6, "all but stable and the five foreign forms");
            for row in rows {
                assert!(row.rate <= rate * 1.0001 && row.rate > 0.0, "{row:?}");
                let (Some(twice), Some(tenfold)) = (row.rate_at_2x, row.rate_at_10x) else {
                    assert!([Kind::Cuckoo, Kind::Fuse, Kind::Ribbon].contains(&row.kind), "{row:?}");
                    continue;
                };
                assert!(row.rate <= twice && twice <= tenfold, "{row:?}");
                if [Kind::Scalable, Kind::GrowingCuckoo].contains(&row.kind) {
                    assert!(tenfold <= rate, "a chain keeps its rate as it grows: {row:?}");
                } else if items >= 1000 {
                    assert!(twice > rate, "{row:?}");
                }
            }
        }
        let rows = table(10_000_000, 0.01).unwrap();
        let of = |kind| *rows.iter().find(|row| row.kind == kind).unwrap();
        assert!((of(Kind::Classic).bits_per_key - 9.593).abs() < 0.001);
        assert!((of(Kind::Blocked).bits_per_key - 10.114).abs() < 0.002);
        let counting = crate::Counting::builder().items(10_000_000).rate(0.01).build().unwrap();
        assert_eq!(of(Kind::Counting).bytes, counting.size_in_bytes(), "planned as it is built");
        let blocked = crate::Blocked::builder().items(10_000_000).rate(0.01).build().unwrap();
        assert_eq!(of(Kind::Blocked).bytes, blocked.size_in_bytes(), "planned as it is built");
        let rows = table(100_000, 0.01).unwrap();
        let of = |kind| rows.iter().find(|row| row.kind == kind).unwrap().bytes;
        let keys: Vec<u64> = (0..100_000).collect();
        let cuckoo = crate::Cuckoo::builder().items(100_000).rate(0.01).build().unwrap();
        assert_eq!(of(Kind::Cuckoo), cuckoo.size_in_bytes());
        let growing = crate::GrowingCuckoo::builder().items(100_000).rate(0.01).build().unwrap();
        assert_eq!(of(Kind::GrowingCuckoo), growing.size_in_bytes());
        let quotient = crate::Quotient::builder().items(100_000).rate(0.01).build().unwrap();
        assert_eq!(of(Kind::Quotient), quotient.size_in_bytes());
        let hour = std::time::Duration::from_secs(3600);
        let rotating = crate::Rotating::builder().window(hour).items(100_000).rate(0.01).build().unwrap();
        assert_eq!(of(Kind::Rotating), rotating.size_in_bytes());
        let fuse = crate::Fuse::builder().keys::<u64>().rate(0.01).build_from_slice(&keys).unwrap();
        assert!((of(Kind::Fuse) as f64 / fuse.size_in_bytes() as f64 - 1.0).abs() < 0.04);
        let ribbon = crate::Ribbon::builder().keys::<u64>().rate(0.01).build_from_slice(&keys).unwrap();
        assert!((of(Kind::Ribbon) as f64 / ribbon.size_in_bytes() as f64 - 1.0).abs() < 0.01);
    }

    #[test]
    fn curves_fall_rise_and_have_their_minimum() {
        for kind in [Kind::Classic, Kind::Partitioned, Kind::Blocked] {
            let curve = sweep_memory(kind, 100_000, 2.0, 30.0, 29).unwrap();
            assert_eq!(curve.len(), 29);
            assert!(curve.windows(2).all(|pair| pair[1].rate < pair[0].rate), "{kind}");
        }
        for kind in [Kind::Fuse, Kind::Cuckoo, Kind::Counting, Kind::Scalable, Kind::Rotating, Kind::Blocked] {
            let curve = sweep_rate(kind, 100_000, 0.3, 1e-4, 40).unwrap();
            assert!(curve.len() > 8 && curve.windows(2).all(|pair| pair[1].rate < pair[0].rate), "{kind}: {curve:?}");
            assert!(curve.windows(2).all(|pair| pair[1].x > pair[0].x), "{kind}: {curve:?}");
            assert!(curve[curve.len() - 1].rate <= 1.0001e-4, "{kind}");
        }
        let hashes = sweep_hashes(9_593_000, 1_000_000, 20).unwrap();
        assert_eq!((hashes.best, hashes.points.len()), (7, 20));
        assert!((hashes.lowest - 0.01).abs() < 1e-5 && hashes.points.iter().all(|p| p.rate >= hashes.lowest));
        let overfill = sweep_overfill(Kind::Classic, 1_000_000, 0.01, 5.0, 10).unwrap();
        assert!((overfill[9].rate - 0.83).abs() < 0.01 && overfill[9].x == 5.0, "{overfill:?}");
        assert!((overfill[1].x - 1.0).abs() < 1e-12 && (overfill[1].rate - 0.01).abs() < 1e-5);
    }

    #[test]
    fn nonsense_is_refused() {
        for rate in [0.0, 1.0, -0.1, f64::NAN, f64::INFINITY, 5.0] {
            assert!(table(10, rate).is_err(), "{rate}");
        }
        assert!(table(0, 0.01).is_err());
        assert!(sweep_memory(Kind::Cuckoo, 10, 1.0, 2.0, 5).is_err());
        assert!(sweep_memory(Kind::Classic, 10, 2.0, 1.0, 5).is_err());
        assert!(sweep_memory(Kind::Classic, 10, 1.0, f64::NAN, 5).is_err());
        assert!(
            sweep_rate(Kind::Stable, 10, 0.1, 0.01, 5).is_err() && sweep_rate(Kind::Fuse, 10, 0.01, 0.1, 5).is_err()
        );
        assert!(sweep_hashes(0, 10, 5).is_err() && sweep_hashes(10, 10, 65).is_err());
        assert!(sweep_overfill(Kind::Blocked, 10, 0.01, 5.0, 1).is_err());
        assert!(sweep_overfill(Kind::Stable, 10, 0.01, 5.0, 10).is_err());
        assert!(Shape::of(Kind::Guava, 10, 0.01).is_none());
        assert_eq!(sweep_overfill(Kind::Fuse, 10, 0.01, 5.0, 10).unwrap().len(), 2, "no curve past its keys");
    }
}
