//! The blocked filter: every probe of a key in one 512-bit line, or in `g` lines for very low rates.
//!
//! ```text
//! line = 8 words of 64 bits      word 0  1  2  3 | 4  5  6  7
//! lane i uses word i or i + 4    lane 0  1  2  3   0  1  2  3      one select bit, 2 bits set in the chosen word
//! ```
//!
//! Keys fall on lines unevenly, and full lines lie more often than empty ones rest (Putze, Sanders, Singler 2007): the
//! rate is a mixture over the load of a line, and a filter sized by the classic formula breaks its promise (1 % becomes
//! 1.29 %). With `j` keys in a line an absent key passes with probability `f(j)^4`,
//!
//! ```text
//! f(j) = 1/64 (1 - A^j) + 63/64 (1 - 2 A^j + B^j)      A = (1 + (63/64)²)/2    B = (1 + (62/64)²)/2
//! ```
//!
//! (the two bits of a lane coincide once in 64). In the `paired` variant lanes 0 and 1 share a select bit, and so do
//! lanes 2 and 3: a pair passes with `E[g(J)²]`, `J ~ Binomial(j, 1/2)`, `g = 1 - c a^J + d b^J`, whose square is a sum
//! of powers `x^J` with `E[x^J] = ((1 + x)/2)^j`.
//!
//! | rate | lines | bits per key | classic |
//! |---|---|---|---|
//! | 1 % | 1 | 10.11 | 9.59 |
//! | 0.1 % | 1 | 15.82 | 14.38 |
//! | 1e-4 | 2 | 20.2 | 19.2 |
//! | 1e-6 | 3 | 30.3 | 28.8 |
//! | 1e-9 | 4 | 45.5 | 43.1 |

use super::search::{greatest, least};
use super::{allowed, line_sharing, tame};
use std::f64::consts::LN_2;
use std::sync::OnceLock;

/// Bits in a line: one cache line.
pub const LINE_BITS: u64 = 512;
/// The most lines a key may use.
pub const MAX_LINES: u32 = 8;
/// Above this rate one line is the best buy; below it [`lines_for`] asks for more.
pub const ONE_LINE_FROM: f64 = 3e-4;
/// The most that a filter of several lines may cost against the classic one, in bits.
const DEAREST: f64 = 1.08;

/// Bits of a word, as the formulas want it.
pub(super) const WORD: f64 = 64.0;
/// A key leaves a given bit of its lane alone: it chose the other word, or missed twice.
pub(super) const MISS_ONE: f64 = (1.0 + (63.0 / 64.0) * (63.0 / 64.0)) / 2.0;
/// A key leaves two given bits of a word alone.
pub(super) const MISS_TWO: f64 = (1.0 + (62.0 / 64.0) * (62.0 / 64.0)) / 2.0;

/// The probability that an absent key passes a line that holds `j` keys.
#[must_use]
pub fn line_pass(j: u64, paired: bool) -> f64 {
    static TABLES: [OnceLock<Vec<f64>>; 2] = [const { OnceLock::new() }; 2];
    const KNOWN: u64 = 512;
    if j < KNOWN {
        let table =
            TABLES[usize::from(paired)].get_or_init(|| (0..KNOWN).map(|j| line_pass_formula(j, paired)).collect());
        return table[j as usize];
    }
    line_pass_formula(j, paired)
}

fn line_pass_formula(j: u64, paired: bool) -> f64 {
    if j == 0 {
        return 0.0;
    }
    let j = j as f64;
    let pass = if paired {
        let (a, b) = ((63.0f64 / 64.0).powi(2), (62.0f64 / 64.0).powi(2));
        let (c, d) = (127.0 / 64.0, 63.0 / 64.0);
        let mean_power = |x: f64| ((1.0 + x) / 2.0).powf(j);
        let pair = 1.0 - 2.0 * c * mean_power(a) + 2.0 * d * mean_power(b) + c * c * mean_power(a * a)
            - 2.0 * c * d * mean_power(a * b)
            + d * d * mean_power(b * b);
        pair.powi(2)
    } else {
        let (one, two) = (MISS_ONE.powf(j), MISS_TWO.powf(j));
        ((1.0 - one) / WORD + (1.0 - 2.0 * one + two) * 63.0 / WORD).powi(4)
    };
    pass.clamp(0.0, 1.0)
}

/// `Σ_j w_j pass(j)`, `w` proportional to weights given by the ratio of neighbours, starting at the mode.
///
/// Normalising by the sum instead of by factorials keeps full precision at any size.
fn mixture(mode: u64, last: u64, paired: bool, up: impl Fn(f64) -> f64) -> f64 {
    let (mut sum, mut total) = (line_pass(mode, paired), 1.0);
    let mut weight = 1.0;
    let mut j = mode;
    while j > 0 {
        weight /= up((j - 1) as f64);
        j -= 1;
        if weight < 1e-18 {
            break;
        }
        total += weight;
        sum += weight * line_pass(j, paired);
    }
    weight = 1.0;
    j = mode;
    while j < last {
        let ratio = up(j as f64);
        weight *= ratio;
        j += 1;
        total += weight;
        sum += weight * line_pass(j, paired);
        // What is left is at most a geometric tail of sure passes.
        if ratio < 1.0 && weight * ratio / (1.0 - ratio) < 1e-9 * sum {
            break;
        }
    }
    (sum / total).min(1.0)
}

/// Loads above this mean are sure passes (the miss probability is below `4 · 2 · 0.9845^16384`, which is 0).
const SURE: f64 = 16_384.0;

/// The rate of one line out of `blocks` after `insertions`: a binomial mixture, Poisson where they cannot be told apart.
pub(super) fn single(blocks: u64, paired: bool, insertions: u64) -> f64 {
    if insertions == 0 {
        return 0.0;
    }
    if blocks <= 1 {
        return if blocks == 0 { 1.0 } else { line_pass(insertions, paired) };
    }
    let (b, total) = (blocks as f64, insertions as f64);
    let mean = total / b;
    if mean > SURE {
        return 1.0;
    }
    if blocks > 1 << 30 {
        return single_at(mean, paired);
    }
    mixture(mean as u64, insertions, paired, |j| (total - j) / ((j + 1.0) * (b - 1.0)))
}

/// The rate of one line at a mean load, for very many lines: a Poisson mixture.
fn single_at(mean: f64, paired: bool) -> f64 {
    if mean > SURE {
        return 1.0;
    }
    if mean <= 0.0 {
        return 0.0;
    }
    mixture(mean as u64, u64::MAX, paired, |j| mean / (j + 1.0))
}

/// The expected rate of `blocks` lines, `lines` of them a key, after `n` distinct keys.
///
/// Exact for an ideal hash: with one line the binomial mixture, with several and few blocks the exact sum over lines that
/// meet, otherwise the product of single-line rates. No blocks or no lines answer 1; more than [`MAX_LINES`] lines
/// count as [`MAX_LINES`].
#[must_use]
pub fn rate(blocks: u64, lines: u32, paired: bool, n: u64) -> f64 {
    rate_after(blocks, lines, paired, n.saturating_mul(u64::from(lines.min(MAX_LINES))))
}

/// [`rate`] by the number of insertions into lines, which is keys times lines.
pub(super) fn rate_after(blocks: u64, lines: u32, paired: bool, insertions: u64) -> f64 {
    let lines = lines.min(MAX_LINES);
    if blocks == 0 || lines == 0 {
        return 1.0;
    }
    if lines > 1
        && let Some(exact) = line_sharing::rate(blocks, lines, paired, insertions)
    {
        return exact;
    }
    single(blocks, paired, insertions).powi(lines as i32)
}

/// The mean load of a line at which `lines` lines give the rate `p`, for very many lines.
fn load_for(p: f64, lines: u32, paired: bool) -> f64 {
    let each = tame(p).powf(1.0 / f64::from(lines));
    if each >= 1.0 {
        return SURE;
    }
    let (mut low, mut high) = (1e-12f64, SURE);
    // 64 halvings of the logarithm reach the last digit.
    for _ in 0..64 {
        let middle = (low * high).sqrt();
        if single_at(middle, paired) <= each {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn bits_with(p: f64, lines: u32, paired: bool) -> f64 {
    LINE_BITS as f64 * f64::from(lines) / load_for(p, lines, paired)
}

/// How many lines a key should use for the rate `p`: 1 above 3e-4, below it the fewest that cost at most 1.08 times the
/// bits of the classic filter, at most [`MAX_LINES`].
#[must_use]
pub fn lines_for(p: f64) -> u32 {
    let p = tame(p);
    if p > ONE_LINE_FROM {
        return 1;
    }
    let classic = -p.ln() / (LN_2 * LN_2);
    (1..MAX_LINES).find(|&g| bits_with(p, g, false) <= DEAREST * classic).unwrap_or(MAX_LINES)
}

/// Bits a key for the rate `p` when there are very many keys.
#[must_use]
pub fn bits_per_key(p: f64, paired: bool) -> f64 {
    bits_with(p, lines_for(p), paired)
}

/// The smallest `(blocks, lines)` that keeps the rate `p` for `n` keys.
///
/// `lines` is [`lines_for`] the rate, or fewer when a small filter needs no more blocks that way.
///
/// ```
/// use bloomgate::math::blocked::size_for;
/// let (blocks, lines) = size_for(10_000_000, 0.01, false);
/// assert_eq!(lines, 1);
/// assert!(blocks as f64 * 512.0 / 1e7 < 10.12);
/// ```
#[must_use]
pub fn size_for(n: u64, p: f64, paired: bool) -> (u64, u32) {
    let most = lines_for(p);
    // With many keys fewer lines always cost more bits: that is how lines_for chose.
    let fewest = if n <= 1 << 12 { 1 } else { most };
    let mut best = (u64::MAX, most);
    for lines in (fewest..=most).rev() {
        let blocks = blocks_for(n, p, lines, paired, best.0);
        if blocks <= best.0 {
            best = (blocks, lines);
        }
    }
    best
}

/// The fewest blocks that keep the rate `p` for `n` keys with exactly `lines` lines a key.
#[must_use]
pub fn blocks_for_lines(n: u64, p: f64, lines: u32, paired: bool) -> u64 {
    blocks_for(n, p, lines.clamp(1, MAX_LINES), paired, u64::MAX)
}

fn blocks_for(n: u64, p: f64, lines: u32, paired: bool, give_up_from: u64) -> u64 {
    let limit = allowed(p);
    let guess = n as f64 * f64::from(lines) / load_for(p * (1.0 + super::SLACK), lines, paired);
    // A single line can need absurdly many blocks for an absurd rate: do not search there when another shape is known.
    if give_up_from != u64::MAX && guess > 4.0 * give_up_from as f64 + 64.0 {
        return u64::MAX;
    }
    least(guess.ceil() as u64, 1, |blocks| rate(blocks, lines, paired, n) <= limit)
}

/// The most keys that `blocks` lines hold at rate `p`; `u64::MAX` when every rate is allowed.
#[must_use]
pub fn capacity_for(blocks: u64, lines: u32, paired: bool, p: f64) -> u64 {
    let limit = allowed(p);
    if limit >= 1.0 {
        return u64::MAX;
    }
    if blocks == 0 || lines == 0 {
        return 0;
    }
    let lines = lines.min(MAX_LINES);
    let guess = blocks as f64 * load_for(p, lines, paired) / f64::from(lines);
    greatest(guess as u64, |n| rate(blocks, lines, paired, n) <= limit)
}

/// The best `(lines, rate)` that `blocks` lines can give `n` keys.
#[must_use]
pub fn rate_for(blocks: u64, n: u64, paired: bool) -> (u32, f64) {
    let mut best = (1, rate(blocks, 1, paired, n));
    for lines in 2..=MAX_LINES {
        let r = rate(blocks, lines, paired, n);
        if r >= best.1 {
            break;
        }
        best = (lines, r);
    }
    best
}

/// The expected share of set bits after `n` distinct keys: `1 - (1 - (1 - A)/b)^(n g)`.
#[must_use]
pub fn fill(blocks: u64, lines: u32, n: u64) -> f64 {
    if blocks == 0 {
        return 1.0;
    }
    let insertions = n as f64 * f64::from(lines.min(MAX_LINES));
    -(insertions * (-(1.0 - MISS_ONE) / blocks as f64).ln_1p()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::super::dice::Dice;
    use super::super::estimate::within;
    use super::*;

    /// The words and masks of a key in one line, from ideal dice.
    fn probe(dice: &mut Dice, paired: bool) -> [(usize, u64); 4] {
        let mut selects = [0usize; 4];
        for (lane, select) in selects.iter_mut().enumerate() {
            *select = if paired && lane % 2 == 1 { 9 } else { dice.below(2) as usize };
        }
        std::array::from_fn(|lane| {
            let select = if selects[lane] == 9 { selects[lane - 1] } else { selects[lane] };
            (lane + 4 * select, 1 << dice.below(64) | 1 << dice.below(64))
        })
    }

    fn simulate(dice: &mut Dice, blocks: u64, lines: u32, paired: bool, n: u64, filters: u64, asks: u64) -> u64 {
        let mut hits = 0;
        for _ in 0..filters {
            let mut bits = vec![[0u64; 8]; blocks as usize];
            for _ in 0..n * u64::from(lines) {
                let line = &mut bits[dice.below(blocks) as usize];
                for (word, mask) in probe(dice, paired) {
                    line[word] |= mask;
                }
            }
            for _ in 0..asks {
                hits += u64::from((0..lines).all(|_| {
                    let line = &bits[dice.below(blocks) as usize];
                    probe(dice, paired).iter().all(|&(word, mask)| line[word] & mask == mask)
                }));
            }
        }
        hits
    }

    #[test]
    fn simulations_of_the_layout_agree() {
        let mut dice = Dice(5);
        for paired in [false, true] {
            // One ask a filter where filters differ much, so that the trials are independent.
            for (blocks, n) in [(1u64, 30u64), (1, 60), (1, 200), (2, 16), (3, 100), (4, 33), (4, 200)] {
                let trials = 20_000;
                let hits = simulate(&mut dice, blocks, 1, paired, n, trials, 1);
                let expected = rate(blocks, 1, paired, n);
                assert!(within(hits, trials, expected, 4.5), "{blocks} lines {n} keys: {hits}, {expected}");
            }
            for load in [8u64, 20, 40, 60] {
                let trials = 400_000;
                let hits = simulate(&mut dice, 2000, 1, paired, 2000 * load, 1, trials);
                let expected = rate(2000, 1, paired, 2000 * load);
                assert!(within(hits, trials, expected, 4.5), "load {load}: {hits}, {expected}");
            }
        }
    }

    #[test]
    fn simulations_with_several_lines_agree() {
        let mut dice = Dice(6);
        for paired in [false, true] {
            for (blocks, lines, n) in [
                (1u64, 2u32, 30u64),
                (1, 3, 20),
                (2, 2, 50),
                (3, 3, 60),
                (4, 4, 60),
                (2, 4, 20),
                (4, 2, 200),
                (20, 3, 400),
            ] {
                let trials = 40_000;
                let hits = simulate(&mut dice, blocks, lines, paired, n, trials, 1);
                let expected = rate(blocks, lines, paired, n);
                assert!(within(hits, trials, expected, 4.5), "{blocks}x{lines}, {n} keys: {hits}, {expected}");
            }
        }
    }

    #[test]
    fn paired_closed_form_is_the_binomial_sum() {
        for j in [1u64, 2, 5, 30, 100] {
            let mut weight = 0.5f64.powi(j as i32);
            let mut pair = 0.0;
            for chosen in 0..=j {
                let a = (63.0f64 / 64.0).powi(2 * chosen as i32);
                let b = (62.0f64 / 64.0).powi(2 * chosen as i32);
                let g = (1.0 - a) / 64.0 + (1.0 - 2.0 * a + b) * 63.0 / 64.0;
                pair += weight * g * g;
                weight *= (j - chosen) as f64 / (chosen + 1) as f64;
            }
            let got = line_pass(j, true);
            assert!((got / (pair * pair) - 1.0).abs() < 1e-8, "j {j}: {got} against {}", pair * pair);
        }
    }

    #[test]
    fn golden_bits_per_key() {
        for (p, lines, bits, within) in [
            (0.01, 1, 10.114, 0.002),
            (1e-3, 1, 15.82, 0.01),
            (1e-4, 2, 20.23, 0.01),
            (1e-5, 2, 25.47, 0.01),
            (1e-6, 3, 30.34, 0.01),
            (1e-7, 3, 35.44, 0.01),
            (1e-9, 4, 45.49, 0.01),
            (1e-12, 5, 60.88, 0.01),
            (1e-15, 6, 76.41, 0.01),
        ] {
            assert_eq!(lines_for(p), lines, "lines at {p}");
            let got = bits_per_key(p, false);
            assert!((got - bits).abs() < within, "{got} bits at {p}, not {bits}");
        }
        assert_eq!((lines_for(0.5), lines_for(3.1e-4)), (1, 1));
    }

    #[test]
    fn sizes_keep_the_promise_and_are_minimal() {
        for paired in [false, true] {
            for p in [0.9, 0.5, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6, 1e-9, 1e-15] {
                for n in [1u64, 2, 10, 100, 1000, 100_000, 10_000_000] {
                    let (blocks, lines) = size_for(n, p, paired);
                    assert!(rate(blocks, lines, paired, n) <= allowed(p), "n {n} p {p}: {blocks}x{lines}");
                    let fewer = blocks - 1;
                    assert!(
                        fewer == 0 || rate(fewer, lines, paired, n) > allowed(p),
                        "n {n} p {p}: {fewer} blocks would do"
                    );
                    let capacity = capacity_for(blocks, lines, paired, p);
                    assert!(capacity >= n, "n {n} p {p}: {blocks}x{lines} holds {capacity}");
                    if n <= 1000 {
                        assert!(rate(blocks, lines, paired, capacity + 1) > allowed(p), "capacity {capacity} at {p}");
                    }
                }
            }
        }
    }

    #[test]
    fn large_filters_cost_what_the_table_says() {
        for p in [0.01, 1e-3, 1e-4, 1e-6] {
            let (blocks, _) = size_for(10_000_000_000, p, false);
            let bits = blocks as f64 * 512.0 / 1e10;
            assert!((bits / bits_per_key(p, false) - 1.0).abs() < 1e-4, "{bits} at {p}");
        }
        for p in [1e-4, 1e-5, 1e-6] {
            let classic = super::super::classic::size_for(1_000_000, p).0;
            let (blocks, _) = size_for(1_000_000, p, false);
            assert!((blocks * 512) as f64 <= 1.08 * classic as f64, "{blocks} blocks at {p}");
        }
    }

    #[test]
    fn rate_rises_with_keys_and_falls_with_blocks() {
        for lines in 1..=MAX_LINES {
            let mut before = 0.0;
            for n in [0u64, 1, 2, 5, 20, 50, 100, 400, 2000, 100_000] {
                let r = rate(7, lines, false, n);
                assert!(r >= before * (1.0 - 1e-9), "{lines} lines, {n} keys: {r} after {before}");
                before = r;
            }
            let mut before = 1.0;
            for blocks in [1u64, 2, 3, 10, 100, 10_000, MANY] {
                let r = rate(blocks, lines, true, 300);
                assert!(r <= before, "{lines} lines, {blocks} blocks: {r} after {before}");
                before = r;
            }
        }
    }
    const MANY: u64 = 1 << 22;

    #[test]
    fn finite_everywhere() {
        for p in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1.0, 5.0, 1e-30] {
            for n in [0, 1, 1 << 40, u64::MAX] {
                let (blocks, lines) = size_for(n, p, false);
                assert!(blocks >= 1 && (1..=MAX_LINES).contains(&lines), "n {n} p {p}: {blocks}x{lines}");
            }
            assert!(bits_per_key(p, true).is_finite());
            let _ = capacity_for(1 << 51, 3, true, p);
        }
        for blocks in [0, 1, 2, 1 << 30, 1 << 51, u64::MAX] {
            for lines in [0, 1, 8, u32::MAX] {
                for n in [0, 1, 1 << 40, u64::MAX] {
                    let r = rate(blocks, lines, false, n);
                    assert!((0.0..=1.0).contains(&r), "{blocks}x{lines}, {n}: {r}");
                    assert!((0.0..=1.0).contains(&fill(blocks, lines, n)));
                }
            }
        }
    }
}
