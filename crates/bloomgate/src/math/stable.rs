//! The stable filter: cells that decay under a hand that goes round, so that the rate settles and stays.
//!
//! A line is 8 words of 32 two-bit cells; a key sets one cell of every word to 3. The hand lowers every cell once per
//! *round* of `T` insertions, word by word: first word 0 of every line, then word 1 of every line, and so on. A cell is
//! then nonzero exactly if it was set within the last `2T + u` insertions, where `u` is how long ago the hand was
//! there; and the eight words of a line are an eighth of a round apart, whatever the time: `u = (x + r) T/8` for
//! `r = 0..8`, with `x` spread evenly over the lines.
//!
//! So the rate can be told exactly. With `N_r` keys of a line within the window of word `r`, an absent key passes with
//!
//! ```text
//! E Π_r (1 - a^N_r)      a = 31/32      N_0 <= N_1 <= ... <= N_7, differences binomial
//! ```
//!
//! which is a sum over how many of the factors took their `a` term, from the longest window to the shortest; the mean
//! over `x` is taken by Gauss's rule. A key with several lines takes them from different sections of the memory, each
//! of which sees all keys, so that the rates multiply.
//!
//! In the filter of Deng and Rafiei ("Approximately detecting duplicates for streaming data using stable Bloom
//! filters", 2006) every insertion lowers `P` cells at random; [`random_zeros`] and [`random_decay`] are their
//! formulas. A cell there may be lowered three times in a row just after it was set, so that nothing is certain to be
//! remembered: the table of `bloom::stable` holds the two against each other.

use super::search::{greatest, least};
use super::{allowed, tame};

/// Cells of a line: 8 words of 32.
pub const LINE_CELLS: u64 = 256;
/// Words of a line: the cells that a key sets in it.
pub const LINE_WORDS: usize = 8;
/// The value that a key sets its cells to.
pub const TOP: u64 = 3;
/// The most lines a key may use.
pub const MAX_LINES: u32 = 8;
/// How much dearer than the best number of lines a smaller one may be.
const DEAREST: f64 = 1.08;

/// A cell of a word stays as it was when a key sets another of the 32.
const MISS: f64 = 31.0 / 32.0;

/// Gauss's rule of four points on `[0, 1]`.
const POINTS: [(f64, f64); 4] = [
    (0.069_431_844_202_974, 0.173_927_422_568_727),
    (0.330_009_478_207_572, 0.326_072_577_431_273),
    (0.669_990_521_792_428, 0.326_072_577_431_273),
    (0.930_568_155_797_026, 0.173_927_422_568_727),
];

/// The chance that an absent key passes a line, after `inserted` keys, when each falls on a line with chance `share`.
fn line_rate(share: f64, round: f64, inserted: f64) -> f64 {
    let at = |x: f64| {
        let window = |r: usize| ((TOP - 1) as f64 * round + (x + r as f64) * round / 8.0).min(inserted);
        // terms[c]: the signed sum over choices of c factors among the windows so far, longest first.
        let mut terms = [0.0; LINE_WORDS + 1];
        terms[0] = 1.0;
        for r in (0..LINE_WORDS).rev() {
            for c in (1..=LINE_WORDS).rev() {
                terms[c] -= terms[c - 1];
            }
            // Keys between this window and the next shorter one are seen by c of the chosen factors.
            let keys = window(r) - if r == 0 { 0.0 } else { window(r - 1) };
            for (c, term) in terms.iter_mut().enumerate().skip(1) {
                *term *= (keys * (-share * (1.0 - MISS.powi(c as i32))).ln_1p()).exp();
            }
        }
        terms.iter().sum::<f64>().clamp(0.0, 1.0)
    };
    POINTS.iter().map(|&(x, weight)| weight * at(x)).sum::<f64>().clamp(0.0, 1.0)
}

/// The expected rate of `rows` lines in each of `lines` sections, under a round of `round` insertions, after `inserted`
/// different keys. From `3 round` keys on it no longer changes.
#[must_use]
pub fn rate(rows: u64, lines: u32, round: u64, inserted: u64) -> f64 {
    if rows == 0 || lines == 0 {
        return 1.0;
    }
    line_rate(1.0 / rows as f64, round as f64, inserted as f64).powi(lines.min(MAX_LINES) as i32)
}

/// The rate at which it settles.
#[must_use]
pub fn settled_rate(rows: u64, lines: u32, round: u64) -> f64 {
    rate(rows, lines, round, u64::MAX)
}

/// Insertions of a round for each row at the rate `p` with so many lines a key, for very many rows.
fn load_for(p: f64, lines: u32) -> f64 {
    const MANY: f64 = 1e9;
    let each = tame(p).powf(1.0 / f64::from(lines));
    let (mut low, mut high) = (1e-6f64, 1e6f64);
    for _ in 0..64 {
        let middle = (low * high).sqrt();
        if line_rate(1.0 / MANY, middle * MANY, f64::INFINITY) <= each {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// How many lines a key should use for the rate `p`: the fewest that cost at most 1.08 times the cheapest number.
#[must_use]
pub fn lines_for(p: f64) -> u32 {
    let cost = |lines: u32| f64::from(lines) / load_for(p, lines);
    let best = (1..=MAX_LINES).map(cost).fold(f64::INFINITY, f64::min);
    (1..=MAX_LINES).find(|&lines| cost(lines) <= DEAREST * best).unwrap_or(MAX_LINES)
}

/// Bits for each of the insertions that are certainly remembered (two rounds), for very many of them.
#[must_use]
pub fn bits_per_key(p: f64) -> f64 {
    let lines = lines_for(p);
    (2 * LINE_CELLS) as f64 * f64::from(lines) / load_for(p, lines) / (TOP - 1) as f64
}

/// The fewest rows that settle at the rate `p` under this round.
#[must_use]
pub fn rows_for(round: u64, lines: u32, p: f64) -> u64 {
    let limit = allowed(p);
    let guess = (round as f64 / load_for(p, lines)).ceil() as u64;
    least(guess, 1, |rows| settled_rate(rows, lines, round) <= limit)
}

/// The longest round that settles at the rate `p` in so many rows; 0 if there is none.
#[must_use]
pub fn round_for(rows: u64, lines: u32, p: f64) -> u64 {
    let limit = allowed(p);
    let guess = (rows as f64 * load_for(p, lines)) as u64;
    greatest(guess, |round| settled_rate(rows, lines, round) <= limit)
}

/// Deng and Rafiei's share of zero cells at the stable point, when every insertion lowers `p` of `m` cells at random
/// and sets `k` of them to `max`: `(1 / (1 + 1/(p (1/k - 1/m))))^max`.
#[must_use]
pub fn random_zeros(m: f64, k: f64, max: f64, p: f64) -> f64 {
    (1.0 / (1.0 + 1.0 / (p * (1.0 / k - 1.0 / m)))).powf(max)
}

/// Their number of cells to lower for a rate: the inverse of [`random_zeros`] with `rate = (1 - zeros)^k`.
#[must_use]
pub fn random_decay(m: f64, k: f64, max: f64, rate: f64) -> f64 {
    let zeros = 1.0 - tame(rate).powf(1.0 / k);
    1.0 / ((zeros.powf(-1.0 / max) - 1.0) * (1.0 / k - 1.0 / m))
}

#[cfg(test)]
mod tests {
    use super::super::dice::Dice;
    use super::super::estimate::within;
    use super::*;

    /// Cells, hand and keys from ideal dice, one question a filter: the trials are independent.
    fn simulate(dice: &mut Dice, rows: u64, lines: u32, round: u64, inserted: u64, trials: u64) -> u64 {
        let count = rows * u64::from(lines) * 8;
        let mut hits = 0;
        for _ in 0..trials {
            let mut cells = vec![[0u8; 32]; count as usize];
            let (mut hand, mut credit) = (0u64, 0);
            // Start the hand anywhere, since the time of the question must not matter.
            let phase = dice.below(round);
            for n in 0..inserted + phase {
                credit += count;
                while credit >= round {
                    credit -= round;
                    let all_lines = count / 8;
                    let at = (hand % all_lines) * 8 + hand / all_lines;
                    cells[at as usize].iter_mut().for_each(|cell| *cell = cell.saturating_sub(1));
                    hand = (hand + 1) % count;
                }
                if n < phase {
                    continue;
                }
                for section in 0..u64::from(lines) {
                    let line = dice.below(rows) * u64::from(lines) + section;
                    (0..8).for_each(|word| cells[(line * 8 + word) as usize][dice.below(32) as usize] = 3);
                }
            }
            hits += u64::from((0..u64::from(lines)).all(|section| {
                let line = dice.below(rows) * u64::from(lines) + section;
                (0..8).all(|word| cells[(line * 8 + word) as usize][dice.below(32) as usize] > 0)
            }));
        }
        hits
    }

    #[test]
    fn simulations_agree() {
        let mut dice = Dice(21);
        for (rows, lines, round, inserted) in [
            (1, 1, 8, 100),
            (1, 1, 30, 300),
            (2, 1, 25, 55),
            (3, 1, 40, 300),
            (4, 2, 50, 400),
            (2, 3, 37, 40),
            (5, 2, 64, 150),
        ] {
            let trials = 10_000;
            let hits = simulate(&mut dice, rows, lines, round, inserted, trials);
            let expected = rate(rows, lines, round, inserted);
            assert!(within(hits, trials, expected, 4.5), "{rows}x{lines}, {round}: {hits} of {trials}, {expected}");
        }
    }

    #[test]
    fn sizes_are_the_smallest_that_keep_the_rate() {
        for p in [0.2, 0.01, 1e-3, 1e-6] {
            let lines = lines_for(p);
            for round in [10, 1_000, 1_000_000] {
                let rows = rows_for(round, lines, p);
                assert!(settled_rate(rows, lines, round) <= allowed(p));
                assert!(rows == 1 || settled_rate(rows - 1, lines, round) > allowed(p));
                let longest = round_for(rows, lines, p);
                assert!(longest >= round && settled_rate(rows, lines, longest + 1) > allowed(p));
            }
        }
    }

    /// The table of `bloom::stable`.
    #[test]
    fn golden_bits_per_key() {
        for (p, lines, bits) in
            [(0.1, 1, 14.75), (0.01, 1, 25.93), (1e-3, 1, 41.48), (1e-4, 2, 51.85), (1e-6, 2, 82.96)]
        {
            assert_eq!(lines_for(p), lines, "lines at {p}");
            assert!((bits_per_key(p) - bits).abs() < 0.01, "{p}: {}", bits_per_key(p));
        }
    }

    #[test]
    fn the_rate_rises_and_settles() {
        let (rows, lines, round) = (1_000, 1, 10_000);
        let mut before = 0.0;
        for inserted in (0..=30_000).step_by(500) {
            let now = rate(rows, lines, round, inserted);
            assert!(now >= before, "{inserted}: {now} after {before}");
            before = now;
        }
        for inserted in [30_000, 1 << 40, u64::MAX] {
            assert_eq!(rate(rows, lines, round, inserted), settled_rate(rows, lines, round));
        }
        assert_eq!(rate(rows, lines, round, 0), 0.0);
    }

    #[test]
    fn hostile_numbers_stay_numbers() {
        for rows in [0, 1, u64::MAX] {
            for lines in [0, 1, 8, u32::MAX] {
                for round in [0, 1, u64::MAX] {
                    let r = settled_rate(rows, lines, round);
                    assert!((0.0..=1.0).contains(&r), "{rows}x{lines}, {round}: {r}");
                }
            }
        }
        for p in [f64::NAN, -1.0, 0.0, 1e-300, 1.0, f64::INFINITY] {
            assert!((1..=MAX_LINES).contains(&lines_for(p)), "{p}");
        }
    }

    /// Their formula against their process.
    #[test]
    fn random_decay_settles_where_its_authors_say() {
        let (m, k, max, mut dice) = (4_096u64, 4, 3u8, Dice(9));
        let p = random_decay(m as f64, k as f64, f64::from(max), 0.05).round();
        let zeros = random_zeros(m as f64, k as f64, f64::from(max), p);
        assert!(((1.0 - zeros).powi(4) / 0.05 - 1.0).abs() < 0.05);
        let mut cells = vec![0u8; m as usize];
        let (mut seen, mut asked) = (0, 0);
        for n in 0..40_000 {
            for _ in 0..p as u64 {
                let cell = &mut cells[dice.below(m) as usize];
                *cell = cell.saturating_sub(1);
            }
            (0..k).for_each(|_| cells[dice.below(m) as usize] = max);
            if n > 5_000 && n % 50 == 0 {
                seen += cells.iter().filter(|&&cell| cell == 0).count() as u64;
                asked += m;
            }
        }
        let got = seen as f64 / asked as f64;
        assert!((got / zeros - 1.0).abs() < 0.01, "{got} against {zeros}");
    }
}
