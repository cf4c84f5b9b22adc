//! Building: rows in order, one layer after the other, each solved from right to left in a ring of 2,048 columns.
//!
//! A layer is a band matrix. Its keys lie in order of their first column; buckets of 256 columns are taken from right to
//! left, and the keys of a bucket from left to right, so that what does not fit is a tail of the bucket, which a
//! threshold of one byte can tell (Dillinger, Hübschle-Schneider, Sanders, Walzer 2021, mirrored). The holes that a
//! bucket leaves are filled by the tails of those before it: 99.9 % of the columns are used.
//!
//! Rows go right while they are eliminated, but seldom far. So columns some buckets to the right are final and can be
//! solved: elimination and back substitution walk together, and the matrix is never in memory as a whole. A row that
//! would have to go further is bumped like any other that does not fit.

use crate::arch::ribbon::{ALL_STAY, BUCKET, MAX_LAYERS, Row, SumJob, Sums, dispatch, last_salt, layer_salt, rank};
use crate::arch::scale;
use crate::error::{Error, ErrorKind, Result};
use crate::math::ribbon::{MAX_RESULT_BITS, ROW, WHOLE_UP_TO, bumped_columns, whole_columns};

use super::shape::{bucket_words, starts};

/// Seeds that the last layer is tried under; every eight of them have more columns.
const SEEDS: u32 = 96;

/// A layer that was solved.
pub(super) struct Solved {
    pub(super) columns: u64,
    /// Eight to a word; none for the last layer.
    pub(super) thresholds: Vec<u64>,
    /// 64 columns are as many words as there are result bits.
    pub(super) planes: Vec<u64>,
}

/// All layers, and the seed of the last; no layers for no rows. The rows are in order and all different.
pub(super) fn solve(mut rows: Vec<Row>, bits: u32) -> Result<(Vec<Solved>, u64)> {
    let mut layers = Vec::new();
    if rows.is_empty() {
        return Ok((layers, 0));
    }
    while rows.len() as u64 > WHOLE_UP_TO && layers.len() + 1 < MAX_LAYERS {
        if !layers.is_empty() {
            let salt = layer_salt(layers.len());
            rows.iter_mut().for_each(|row| *row = row.moved(salt));
            rows = in_order(rows);
        }
        let columns = bumped_columns(rows.len() as u64);
        let (solved, bumped) = attempt(&rows, bits, columns, true)?;
        layers.push(solved);
        rows = bumped;
        if rows.is_empty() {
            break;
        }
    }
    for seed in 0..SEEDS {
        let salt = last_salt(u64::from(seed));
        let moved = in_order(rows.iter().map(|row| row.moved(salt)).collect());
        let (solved, left) = attempt(&moved, bits, whole_columns(rows.len() as u64, seed), false)?;
        if left.is_empty() {
            layers.push(solved);
            return Ok((layers, u64::from(seed)));
        }
    }
    Err(Error::new(
        ErrorKind::InvalidParameter,
        format!(
            "{} digests could not be told apart by {bits} bits under any of {SEEDS} seeds: they do not spread as a \
             hash does; hash the keys under a contract of this library",
            rows.len()
        ),
    ))
}

/// One layer over rows in order, and the rows that did not fit: bumped, or the first one if all had to fit.
fn attempt(rows: &[Row], bits: u32, columns: u64, bumps: bool) -> Result<(Solved, Vec<Row>)> {
    let blocks = usize::try_from(columns / ROW).map_err(|_| no_memory(columns))?;
    let words = blocks.checked_mul(bits as usize).ok_or_else(|| no_memory(columns))?;
    let planes = zeros(words)?;
    let thresholds = zeros(if bumps { bucket_words(columns) as usize } else { 0 })?;
    let mut left = Vec::new();
    if bumps {
        left.try_reserve(rows.len() / 12).map_err(|_| no_memory(columns))?;
    }
    let band = Band { rows, bits, bumps, solved: Solved { columns, thresholds, planes }, left };
    Ok(dispatch(band))
}

fn zeros(words: usize) -> Result<Vec<u64>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(words).map_err(|_| no_memory(words as u64))?;
    zeros.resize(words, 0);
    Ok(zeros)
}

#[cold]
pub(super) fn no_memory(what: u64) -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        format!("the system refused memory to build a ribbon filter of about {what} keys; split them over several"),
    )
}

/// A column: the row whose first coefficient it is, or none.
#[derive(Clone, Copy, Default)]
struct Column {
    coefficients: u64,
    result: u32,
}

/// The columns that are not solved yet, 32 KiB of them. A row that is eliminated goes right until it meets a free column
/// or vanishes, as a rule in one of the next buckets: most are so full that nothing passes them. (Were there no end to
/// it, 99.95 % of the columns would be used.)
const RING: usize = 2048;

/// The columns from a base on, each at its number modulo [`RING`].
struct Ring(Box<[Column; RING]>);

enum Placed {
    At(usize),
    /// The rows before it already say the same: nothing to do.
    Implied,
    /// The rows before it say something else; or it would go too far.
    Clash,
}

impl Ring {
    /// Gaussian elimination of one row against those before it, in the columns before `end`.
    #[inline(always)]
    fn insert(&mut self, mut at: usize, end: usize, mut coefficients: u64, mut result: u32) -> Placed {
        while at < end {
            let column = &mut self.0[at % RING];
            if column.coefficients == 0 {
                *column = Column { coefficients, result };
                return Placed::At(at);
            }
            coefficients ^= column.coefficients;
            result ^= column.result;
            if coefficients == 0 {
                return if result == 0 { Placed::Implied } else { Placed::Clash };
            }
            let skip = coefficients.trailing_zeros();
            at += skip as usize;
            coefficients >>= skip;
        }
        Placed::Clash
    }
}

/// The solution of the 64 columns from the one that was solved last, a word for each result bit.
struct Tail([u64; MAX_RESULT_BITS as usize]);

impl Tail {
    /// Solves the column before. A column that no row begins in is zero.
    #[inline(always)]
    fn push(&mut self, column: Column, bits: usize) {
        for (plane, word) in self.0[..bits].iter_mut().enumerate() {
            let known = *word << 1;
            let sum = (known & column.coefficients).count_ones() ^ (column.result >> plane);
            *word = known | u64::from(sum & 1);
        }
    }
}

/// One layer being built.
struct Band<'a> {
    rows: &'a [Row],
    bits: u32,
    /// Whether rows that do not fit are bumped; else the first of them ends it.
    bumps: bool,
    solved: Solved,
    left: Vec<Row>,
}

impl SumJob for Band<'_> {
    type Output = (Solved, Vec<Row>);

    #[inline(always)]
    fn run(mut self, _: impl Sums) -> Self::Output {
        let columns = self.solved.columns as usize;
        let starts = starts(self.solved.columns);
        let mut ring = Ring(Box::new([Column::default(); RING]));
        let mut tail = Tail([0; MAX_RESULT_BITS as usize]);
        let mut undone = self.rows.len();
        for bucket in (0..starts.div_ceil(BUCKET)).rev() {
            let base = (bucket * BUCKET) as usize;
            // The places of the bucket that comes are those of the columns that go.
            self.finish(&mut ring, &mut tail, base + RING, columns.min(base + RING + BUCKET as usize));
            let end = undone;
            while undone > 0 && scale(self.rows[undone - 1].spot, starts) >= base as u64 {
                undone -= 1;
            }
            let threshold = self.fill(&mut ring, &self.rows[undone..end], columns.min(base + RING), starts);
            if threshold < ALL_STAY {
                let cut = self.rows[undone..end].partition_point(|row| rank(scale(row.spot, starts)) < threshold);
                self.left.extend_from_slice(&self.rows[undone + cut..end]);
                if !self.bumps {
                    return (self.solved, self.left);
                }
            }
            if self.bumps {
                self.solved.thresholds[(bucket / 8) as usize] |= u64::from(threshold) << (bucket % 8 * 8);
            }
        }
        self.finish(&mut ring, &mut tail, 0, columns.min(RING));
        (self.solved, self.left)
    }
}

impl Band<'_> {
    /// Eliminates the rows of one bucket from left to right, up to the first that clashes; the threshold.
    #[inline(always)]
    fn fill(&self, ring: &mut Ring, rows: &[Row], end: usize, starts: u64) -> u8 {
        // Where the rows of the present rank went, to take them back: a rank stays or goes as a whole. Rows that begin in
        // one or two columns have 65 unknowns between them, so that no more than 65 of them find a place.
        let mut placed = [0; ROW as usize + 1];
        let mut count = 0;
        let mut present = 0;
        for &row in rows {
            let start = scale(row.spot, starts);
            let rank = rank(start);
            if rank != present {
                (present, count) = (rank, 0);
            }
            match ring.insert(start as usize, end, row.coefficients | 1, row.result(self.bits)) {
                Placed::At(at) => {
                    placed[count] = at;
                    count += 1;
                }
                Placed::Implied => {}
                Placed::Clash => {
                    for &at in &placed[..count] {
                        ring.0[at % RING] = Column::default();
                    }
                    return rank;
                }
            }
        }
        ALL_STAY
    }

    /// Solves the columns `from..to`, last first, and frees their places.
    #[inline(always)]
    fn finish(&mut self, ring: &mut Ring, tail: &mut Tail, from: usize, to: usize) {
        let bits = self.bits as usize;
        for at in (from..to).rev() {
            tail.push(std::mem::take(&mut ring.0[at % RING]), bits);
            if at % ROW as usize == 0 {
                let word = at / ROW as usize * bits;
                self.solved.planes[word..word + bits].copy_from_slice(&tail.0[..bits]);
            }
        }
    }
}

/// The rows in order: by their spot, and so by their first column. In place, at 33 ns a key for a million; throwing them
/// into parts first was no faster, and takes as much memory again.
pub(super) fn in_order(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_unstable_by_key(|row| row.order());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Digest;
    use crate::math::dice::Dice;

    fn rows(count: usize, seed: u64) -> Vec<Row> {
        let mut dice = Dice(seed);
        (0..count).map(|_| Row::of(Digest::new(dice.next(), dice.next()))).collect()
    }

    /// The share of columns that rows begin in, and of keys that go on: what the size of the whole comes from.
    #[test]
    fn a_layer_is_full_and_bumps_one_key_in_twenty_five() {
        let rows = in_order(rows(300_000, 2));
        let columns = bumped_columns(rows.len() as u64);
        let (solved, bumped) = attempt(&rows, 10, columns, true).unwrap();
        assert_eq!(solved.planes.len() as u64, columns / 64 * 10);
        let kept = (rows.len() - bumped.len()) as f64;
        assert!((0.998..=1.001).contains(&(kept / columns as f64)), "{kept} of {columns}");
        let share = bumped.len() as f64 / rows.len() as f64;
        assert!((0.039..0.043).contains(&share), "{share}");
    }

    /// Rows that begin in one column: 64 unknowns, so that most of a thousand have to go, a rank as a whole.
    #[test]
    fn a_rank_goes_as_a_whole() {
        let mut rows = rows(1000, 3);
        rows.iter_mut().for_each(|row| row.spot = row.spot >> 40 | 1 << 63);
        let rows = in_order(rows);
        let (solved, bumped) = attempt(&rows, 8, 4096, true).unwrap();
        assert_eq!(bumped.len(), 1000);
        assert!(solved.planes.iter().all(|&word| word == 0), "nothing of them is left behind");
        assert!(!attempt(&rows, 8, 4096, false).unwrap().1.is_empty());
    }

    /// Rows of one spot have one result, and so never clash: not even all of them.
    #[test]
    fn rows_of_one_spot_are_solved() {
        let rows: Vec<Row> =
            (0..3000u64).map(|i| Row { spot: 7, coefficients: i.wrapping_mul(0x9e37_79b9_7f4a_7c15) }).collect();
        let (layers, _) = solve(in_order(rows), 7).unwrap();
        assert!(!layers.is_empty());
    }

    /// The last layer is solved under one of the first seeds, at every size it can have; and where there are hardly
    /// more columns than keys, not always under the first.
    #[test]
    fn the_last_layer_is_solved_under_the_first_seeds() {
        let tried = (1..=WHOLE_UP_TO as usize).step_by(31).chain([62; 40]).chain([125, 188, 251, 314, 1007]);
        let mut seeds = Vec::new();
        for (at, count) in tried.enumerate() {
            let (layers, seed) = solve(in_order(rows(count, 1000 + at as u64)), 12).unwrap();
            assert_eq!(layers.len(), 1);
            seeds.push(seed);
        }
        assert!(seeds.iter().all(|&seed| seed < 16), "{seeds:?}");
        let again = seeds.iter().filter(|&&seed| seed > 0).count();
        assert!((3..seeds.len() / 2).contains(&again), "{seeds:?}");
    }
}
