//! What the bits say about the keys, and what a measurement says about a rate.
//!
//! Counting keys from set bits is linear counting (Whang, Vander-Zanden, Taylor 1990; for Bloom filters Swamidass &
//! Baldi 2007): invert the expected fill. Nothing here divides by zero or takes the logarithm of it: an empty filter
//! holds exactly 0 keys, and a saturated one holds "at least so many", with no upper end.

use super::blocked::{self, LINE_BITS, MAX_LINES, MISS_ONE, MISS_TWO};

/// A number of keys read off the bits, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The best guess; finite also when every bit is set.
    pub value: f64,
    /// At least so many, at the confidence asked for.
    pub low: f64,
    /// At most so many; nothing when every bit is set, since then any larger number would look the same.
    pub high: Option<f64>,
}

/// Of `n` different keys inserted one after the other, how many are told to be new, when `rate(i)` is the chance that
/// the filter already says "maybe" after `i` keys: `n - Σ rate(i)`, the sum by Gauss's rule (two panels of five points,
/// exact for the ninth power that a rate at k = 9 rises by).
#[must_use]
pub fn told_new(n: u64, rate: impl Fn(u64) -> f64) -> f64 {
    const POINTS: [(f64, f64); 5] = [
        (0.046_910_077_030_668, 0.118_463_442_528_095),
        (0.230_765_344_947_158, 0.239_314_335_249_683),
        (0.5, 0.284_444_444_444_444),
        (0.769_234_655_052_842, 0.239_314_335_249_683),
        (0.953_089_922_969_332, 0.118_463_442_528_095),
    ];
    let half = n as f64 / 2.0;
    let panel = |from: f64| -> f64 {
        POINTS.iter().map(|&(at, weight)| weight * rate((from + at * half).round() as u64).clamp(0.0, 1.0)).sum()
    };
    n as f64 - half * (panel(0.0) + panel(half))
}

/// How many different keys it takes until `new` of them were told to be new: the inverse of [`told_new`].
///
/// A filter that is nearly saturated tells hardly anyone, and then the answer is only a lower bound: at most 64 times
/// `new`.
#[must_use]
pub fn different_keys(new: u64, rate: impl Fn(u64) -> f64) -> u64 {
    // Below half a key of difference there is nothing to invert, and a handful of keys is no mean to invert by.
    if new < 32 || new as f64 * rate(new) < 0.5 {
        return new;
    }
    let (mut low, mut high) = (new, new.saturating_mul(2));
    let most = new.saturating_mul(64);
    while told_new(high, &rate) < new as f64 {
        if high >= most {
            return most;
        }
        (low, high) = (high, high.saturating_mul(2));
    }
    while high - low > 1 + low / 10_000 {
        let middle = low + (high - low) / 2;
        if told_new(middle, &rate) < new as f64 { low = middle } else { high = middle }
    }
    high
}

/// The width of the intervals that filters report, in standard errors: 95 % of them hold the true number.
pub const Z: f64 = 1.96;

impl Default for Estimate {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Keys in two places: the guesses add up, and the intervals' ends with them (wider than need be).
impl std::ops::Add for Estimate {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let high = self.high.zip(other.high).map(|(a, b)| a + b);
        Self { value: self.value + other.value, low: self.low + other.low, high }
    }
}

impl Estimate {
    const EMPTY: Self = Self { value: 0.0, low: 0.0, high: Some(0.0) };
}

/// The interval around the inverse of a fill, for `set` of `bits` bits.
///
/// `invert` gives keys from unset share, `error` the standard error at a number of keys, and each key sets at most `most`
/// bits, so that `set / most` keys are certain.
fn from_fill(
    set: u64,
    bits: u64,
    z: f64,
    most: f64,
    invert: impl Fn(f64) -> f64,
    error: impl Fn(f64) -> f64,
) -> Estimate {
    if set == 0 || bits == 0 {
        return Estimate::EMPTY;
    }
    let unset = |left: f64| left / bits as f64;
    if set >= bits {
        // Half a bit left for the guess, a whole one for the lower end: both finite, both above every unsaturated state.
        let low = if bits == 1 { 1.0 } else { invert(unset(1.0)) };
        return Estimate { value: invert(unset(0.5)).max(low), low, high: None };
    }
    let value = invert(unset((bits - set) as f64));
    let spread = z.abs() * error(value);
    let certain = set as f64 / most;
    Estimate { value, low: (value - spread).max(certain).min(value), high: Some(value + spread) }
}

/// Keys in a classic filter with `set` of `m` bits set: `n̂ = ln(1 - X/m) / (k ln(1 - 1/m))`.
///
/// Standard error `sqrt(m (e^λ - λ - 1)) / k` with `λ = k n̂ / m`; the interval is `z` of them to either side.
///
/// ```
/// use bloomgate::math::estimate::classic;
/// assert_eq!(classic(0, 1000, 7, 1.96).value, 0.0);
/// assert_eq!(classic(1000, 1000, 7, 1.96).high, None);
/// ```
#[must_use]
pub fn classic(set: u64, m: u64, k: u32, z: f64) -> Estimate {
    let (bits, k) = (m as f64, f64::from(k.max(1)));
    from_fill(set, m, z, k, |unset| unset.ln() / per_throw(bits) / k, |n| linear_error(bits, k * n / bits) / k)
}

/// The standard error of [`classic`] with `n` keys in.
#[must_use]
pub fn classic_error(m: u64, k: u32, n: f64) -> f64 {
    let (bits, k) = (m.max(1) as f64, f64::from(k.max(1)));
    linear_error(bits, k * n / bits) / k
}

/// The standard error of [`partitioned`] with `n` keys in.
#[must_use]
pub fn partitioned_error(s: u64, k: u32, n: f64) -> f64 {
    let slice = s.max(1) as f64;
    linear_error(slice, n / slice) / f64::from(k.max(1)).sqrt()
}

/// The standard error of [`blocked()`] with `n` keys in.
#[must_use]
pub fn blocked_keys_error(blocks: u64, lines: u32, paired: bool, n: f64) -> f64 {
    let g = f64::from(lines.clamp(1, MAX_LINES));
    blocked_error(blocks.max(1) as f64, n * g, paired) / g
}

/// Keys in a partitioned filter with `set` of its `k` slices of `s` bits set: every key throws once into each slice.
#[must_use]
pub fn partitioned(set: u64, s: u64, k: u32, z: f64) -> Estimate {
    let (slice, k) = (s as f64, k.max(1));
    let slices = f64::from(k);
    from_fill(
        set,
        s.saturating_mul(u64::from(k)),
        z,
        slices,
        |unset| unset.ln() / per_throw(slice),
        |n| linear_error(slice, n / slice) / slices.sqrt(),
    )
}

/// `ln` of the chance that a throw into `cells` misses a given one; minus one for a single cell, which knows only "some".
fn per_throw(cells: f64) -> f64 {
    if cells <= 1.0 { -1.0 } else { (-1.0 / cells).ln_1p() }
}

/// Standard error of linear counting in throws: `sqrt(m (e^λ - λ - 1))`.
fn linear_error(cells: f64, load: f64) -> f64 {
    let excess = if load < 1e-4 { load * load / 2.0 } else { load.exp_m1() - load };
    (cells * excess).max(0.0).sqrt()
}

/// Keys in a blocked filter with `set` of its `512 · blocks` bits set.
///
/// A key leaves a given bit alone with probability `1 - (1 - A)/b` per line it uses, which inverts to
/// `n̂ = ln(1 - fill) / (g ln(1 - (1 - A)/b))`. The standard error counts the pairs of bits that a key can set together
/// (in a word, in a lane, in a line), so uneven line loads are part of it.
#[must_use]
pub fn blocked(set: u64, blocks: u64, lines: u32, paired: bool, z: f64) -> Estimate {
    let b = blocks as f64;
    let g = f64::from(lines.clamp(1, MAX_LINES));
    let miss = (-(1.0 - MISS_ONE) / b).ln_1p();
    from_fill(
        set,
        blocks.saturating_mul(LINE_BITS),
        z,
        8.0 * g,
        |unset| unset.ln() / (g * miss),
        |n| blocked_error(b, n * g, paired) / g,
    )
}

/// Standard error of the number of insertions into lines.
fn blocked_error(b: f64, insertions: f64, paired: bool) -> f64 {
    let one = (1.0 - MISS_ONE) / b;
    let other_line = insertions * (-(one / (1.0 - one)).powi(2)).ln_1p();
    let relative_variance = blocked_line_spread(b, insertions, paired) / b + other_line.exp_m1();
    relative_variance.max(0.0).sqrt() / -(-one).ln_1p()
}

/// `(Var U - Cov(U, U')) / E[U]²` for the unset bits `U` and `U'` of two lines of `b` after so many insertions.
pub(super) fn blocked_line_spread(b: f64, insertions: f64, paired: bool) -> f64 {
    let one = (1.0 - MISS_ONE) / b;
    let miss = (-one).ln_1p();
    // How much more often than independent bits two bits stay unset together, given what one insertion into their line
    // leaves alone with probability `both`.
    let together = |both: f64| (insertions * ((-(1.0 - both) / b).ln_1p() - 2.0 * miss)).exp();
    let half = (63.0f64 / 64.0).powi(2);
    let same_bit = (-insertions * miss).exp();
    let same_word = together(MISS_TWO);
    let other_word = together(half);
    let other_lane = together(MISS_ONE * MISS_ONE);
    let others = if paired {
        // 64 bits in each word: the partner lane's same half, its other half, and 4 words of the other pair.
        64.0 * (together((1.0 + half * half) / 2.0) + together(half) + 4.0 * other_lane)
    } else {
        384.0 * other_lane
    };
    // ln((1 - 2x) / (1 - x)²) without cancellation.
    let other_line = (insertions * (-(one / (1.0 - one)).powi(2)).ln_1p()).exp();
    (same_bit + 63.0 * same_word + 64.0 * other_word + others) / LINE_BITS as f64 - other_line
}

/// The rate that a classic filter has now, from its bits: `(X/m)^k`.
#[must_use]
pub fn classic_rate(set: u64, m: u64, k: u32) -> f64 {
    if m == 0 {
        return 1.0;
    }
    (set.min(m) as f64 / m as f64).powf(f64::from(k))
}

/// The rate that a partitioned filter has now: the product of the fills of its slices.
#[must_use]
pub fn partitioned_rate(fills: impl IntoIterator<Item = f64>) -> f64 {
    fills.into_iter().map(|fill| fill.clamp(0.0, 1.0)).product()
}

/// The rate that a blocked filter has now: the keys read off its bits, and the expected rate at so many.
#[must_use]
pub fn blocked_rate(set: u64, blocks: u64, lines: u32, paired: bool) -> f64 {
    if blocks == 0 || set >= blocks.saturating_mul(LINE_BITS) {
        return 1.0;
    }
    let lines = lines.clamp(1, MAX_LINES);
    let insertions = blocked(set, blocks, lines, paired, 0.0).value * f64::from(lines);
    blocked::rate_after(blocks, lines, paired, insertions.round() as u64)
}

/// The interval of a rate measured as `hits` of `trials` (Wilson 1927): never empty, never outside `[0, 1]`.
///
/// No trials say nothing: `(0, 1)`.
#[must_use]
pub fn rate_interval(hits: u64, trials: u64, z: f64) -> (f64, f64) {
    if trials == 0 {
        return (0.0, 1.0);
    }
    let (n, share, z2) = (trials as f64, hits.min(trials) as f64 / trials as f64, z * z);
    let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let spread = z.abs() / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    let low = if hits == 0 { 0.0 } else { (middle - spread).max(0.0) };
    let high = if hits >= trials { 1.0 } else { (middle + spread).min(1.0) };
    (low, high)
}

/// Whether `hits` of `trials` can come from the rate `expected`: two-sided, by exact binomial tails.
///
/// False when either tail is rarer than a normal deviate beyond `z` (4.5: three in a million a side), so it holds for
/// three hits as well as for three million.
#[must_use]
pub fn within(hits: u64, trials: u64, expected: f64, z: f64) -> bool {
    if hits > trials || expected.is_nan() {
        return false;
    }
    if expected <= 0.0 || expected >= 1.0 {
        return hits == if expected <= 0.0 { 0 } else { trials };
    }
    // Only the tail on the side of the measurement can be rare: the other holds about half or more.
    let tail = if (hits as f64) < trials as f64 * expected {
        upper_tail(trials - hits, trials, 1.0 - expected, expected)
    } else {
        upper_tail(hits, trials, expected, 1.0 - expected)
    };
    tail >= normal_tail(z)
}

/// `P(X >= x)` for `x` at or above the mean: the first term, then falling ratios.
fn upper_tail(x: u64, n: u64, p: f64, q: f64) -> f64 {
    if x == 0 {
        return 1.0;
    }
    let mut term = ln_binomial(x, n, p, q).exp();
    let mut sum = 0.0;
    let mut at = x;
    while term > sum * 1e-12 {
        sum += term;
        if at == n {
            break;
        }
        term *= (n - at) as f64 / (at + 1) as f64 * (p / q);
        at += 1;
    }
    sum.min(1.0)
}

/// `ln P(X = x)` by the saddle point (Loader 2000), which keeps its digits for billions of trials.
fn ln_binomial(x: u64, n: u64, p: f64, q: f64) -> f64 {
    let (xf, nf) = (x as f64, n as f64);
    if x == 0 {
        return nf * q.ln();
    }
    if x == n {
        return nf * p.ln();
    }
    let deviance = |seen: f64, mean: f64| {
        let d = (mean - seen) / seen;
        seen * (d - d.ln_1p())
    };
    stirling_error(n) - stirling_error(x) - stirling_error(n - x) - deviance(xf, nf * p) - deviance(nf - xf, nf * q)
        + 0.5 * (nf / (std::f64::consts::TAU * xf * (nf - xf))).ln()
}

/// `ln x! - ln(sqrt(2πx) (x/e)^x)`.
fn stirling_error(x: u64) -> f64 {
    let xf = x as f64;
    if x < 16 {
        let factorial: f64 = (1..=x).map(|i| i as f64).product();
        return factorial.ln() - (xf + 0.5) * xf.ln() + xf - 0.5 * std::f64::consts::TAU.ln();
    }
    let square = xf * xf;
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * square)) / square) / xf
}

/// The chance that a normal deviate exceeds `z`.
#[must_use]
pub fn normal_tail(z: f64) -> f64 {
    if z.is_nan() {
        return 1.0;
    }
    if z < 0.0 {
        return 1.0 - normal_tail(-z);
    }
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z < 3.0 {
        // Half minus the series z + z³/3 + z⁵/15 + …
        let (mut term, mut sum, mut i) = (z, z, 1.0);
        while term > 1e-17 * sum {
            i += 2.0;
            term *= z * z / i;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    // Laplace's continued fraction.
    let fraction = (1..=60).rev().fold(z, |below, i| z + f64::from(i) / below);
    density / fraction
}

#[cfg(test)]
mod tests {
    use super::super::classic::rate as classic_expected;
    use super::super::dice::Dice;
    use super::*;

    /// Keys told to be new and different keys are each other's inverse, and both follow a simulation of the definition.
    #[test]
    fn different_keys_invert_those_told_new() {
        let rate = |items: u64| crate::math::classic::rate(95_930, 7, items);
        for items in [100u64, 5_000, 10_000, 20_000, 40_000] {
            let new = told_new(items, rate);
            let sum: f64 = (0..items).step_by(10).map(|i| 10.0 * (1.0 - rate(i))).sum();
            assert!((new / sum - 1.0).abs() < 2e-3, "{items}: {new}, by the sum {sum}");
            let back = different_keys(new.round() as u64, rate);
            assert!((back as f64 / items as f64 - 1.0).abs() < 2e-3, "{items}: back {back}");
        }
        // Saturated: a lower bound, not a loop.
        assert_eq!(different_keys(1_000_000, rate), 64_000_000);
        assert_eq!((different_keys(0, rate), told_new(0, rate)), (0, 0.0));
    }

    #[test]
    fn empty_and_saturated_are_finite() {
        for (m, k) in [(1u64, 1u32), (2, 7), (1000, 7), (1 << 60, 64)] {
            assert_eq!(classic(0, m, k, 2.0), Estimate::EMPTY);
            let full = classic(m, m, k, 2.0);
            assert!(full.value.is_finite() && full.low.is_finite() && full.high.is_none(), "{full:?}");
            assert!(full.low <= full.value && full.low > 0.0, "{full:?}");
            if m > 2 {
                assert_eq!(full.low, classic(m - 1, m, k, 2.0).value);
            }
        }
        for blocks in [1u64, 100] {
            let full = blocked(512 * blocks, blocks, 2, true, 2.0);
            assert!(full.value.is_finite() && full.high.is_none() && full.low <= full.value);
            assert_eq!(blocked(0, blocks, 2, true, 2.0), Estimate::EMPTY);
            assert_eq!(blocked_rate(512 * blocks, blocks, 1, false), 1.0);
            assert_eq!(blocked_rate(0, blocks, 1, false), 0.0);
        }
        let full = partitioned(700, 100, 7, 2.0);
        assert!(full.value.is_finite() && full.high.is_none());
        assert_eq!(classic(0, 0, 0, 2.0), Estimate::EMPTY);
        assert_eq!(classic_rate(0, 0, 7), 1.0);
    }

    #[test]
    fn estimates_rise_with_the_bits() {
        let (mut last, mut last_blocked) = (-1.0, -1.0);
        for set in 0..=1024 {
            let (now, lines) = (classic(set, 1024, 7, 2.0), blocked(set, 2, 1, false, 2.0));
            assert!(now.value > last && lines.value > last_blocked, "{set}");
            assert!(now.low <= now.value && now.high.is_none_or(|high| high >= now.value), "{now:?}");
            assert!(lines.low <= lines.value, "{lines:?}");
            (last, last_blocked) = (now.value, lines.value);
        }
    }

    /// Runs 2,000 random filters; the interval at `z = 2` must hold the truth about 95.4 % of the time.
    fn coverage(truth: f64, mut run: impl FnMut() -> Estimate) {
        let runs = 2000;
        let mut mean = 0.0;
        let mut held = 0;
        for _ in 0..runs {
            let e = run();
            mean += e.value / f64::from(runs);
            held += u64::from(e.low <= truth && e.high.is_some_and(|high| truth <= high));
        }
        let share = held as f64 / f64::from(runs);
        assert!((0.93..=0.98).contains(&share), "held {share}");
        assert!((mean / truth - 1.0).abs() < 0.01, "mean {mean}, truth {truth}");
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut dice = Dice(7);
        let (m, k, n) = (4096u64, 5u64, 500u64);
        coverage(n as f64, || {
            let mut bits = vec![false; m as usize];
            (0..n * k).for_each(|_| bits[dice.below(m) as usize] = true);
            classic(bits.iter().filter(|&&b| b).count() as u64, m, k as u32, 2.0)
        });
        let (s, k) = (1000u64, 4u64);
        coverage(600.0, || {
            let mut bits = vec![false; (s * k) as usize];
            (0..600).for_each(|_| (0..k).for_each(|i| bits[(i * s + dice.below(s)) as usize] = true));
            partitioned(bits.iter().filter(|&&b| b).count() as u64, s, k as u32, 2.0)
        });
        for (paired, lines) in [(false, 1u64), (true, 1), (false, 2)] {
            coverage(1000.0, || {
                let mut bits = vec![0u64; 8 * 20];
                for _ in 0..1000 * lines {
                    let line = 8 * dice.below(20) as usize;
                    let selects = [dice.below(2), dice.below(2), dice.below(2), dice.below(2)];
                    for lane in 0..4 {
                        let select = selects[if paired { lane / 2 } else { lane }] as usize;
                        bits[line + lane + 4 * select] |= 1 << dice.below(64) | 1 << dice.below(64);
                    }
                }
                let set = bits.iter().map(|w| u64::from(w.count_ones())).sum();
                blocked(set, 20, lines as u32, paired, 2.0)
            });
        }
    }

    #[test]
    fn rates_from_fill_match_expected_ones() {
        // A filter whose fill is the expected one has the expected rate.
        let (m, k, n) = (1_000_000u64, 7u32, 100_000u64);
        let set = (m as f64 * (1.0 - (-(k as f64) * n as f64 / m as f64).exp())).round() as u64;
        assert!((classic_rate(set, m, k) / classic_expected(m, k, n) - 1.0).abs() < 1e-3);
        for lines in [1, 2, 3] {
            let set = (blocked::fill(5000, lines, 100_000) * 5000.0 * 512.0).round() as u64;
            let (from_bits, expected) =
                (blocked_rate(set, 5000, lines, false), blocked::rate(5000, lines, false, 100_000));
            assert!((from_bits / expected - 1.0).abs() < 1e-3, "{from_bits} against {expected}");
        }
        assert!((partitioned_rate([0.5, 0.25]) - 0.125).abs() < 1e-15);
    }

    #[test]
    fn wilson_behaves_at_the_ends() {
        assert_eq!(rate_interval(0, 0, 2.0), (0.0, 1.0));
        let (low, high) = rate_interval(0, 1000, 1.96);
        assert!(low == 0.0 && (high - 0.003_827).abs() < 1e-5, "{high}");
        let (low, high) = rate_interval(1000, 1000, 1.96);
        assert!(high == 1.0 && low > 0.99);
        let (low, high) = rate_interval(10, 1000, 1.96);
        assert!((low - 0.005_44).abs() < 1e-4 && (high - 0.0183).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn normal_tails_are_the_tables() {
        for (z, tail) in [(0.0, 0.5), (1.0, 0.158_655_253_931), (1.96, 0.024_997_895_148), (3.0, 1.349_898_031_6e-3)] {
            assert!((normal_tail(z) / tail - 1.0).abs() < 1e-9, "{z}");
        }
        assert!((normal_tail(4.5) / 3.397_673_124_7e-6 - 1.0).abs() < 1e-9);
        assert!((normal_tail(-1.0) - 0.841_344_746).abs() < 1e-8);
    }

    #[test]
    fn within_is_two_sided_and_exact() {
        assert!(within(10_000, 1_000_000, 0.01, 4.5));
        assert!(!within(10_500, 1_000_000, 0.01, 4.5));
        assert!(!within(9_500, 1_000_000, 0.01, 4.5));
        assert!(within(10_440, 1_000_000, 0.01, 4.5) && within(9_560, 1_000_000, 0.01, 4.5));
        // Small counts, where a normal interval lies: 3 expected, P(X >= 15) = 7e-7 and P(X >= 13) = 1.6e-5.
        assert!(within(13, 3_000_000, 1e-6, 4.5) && !within(15, 3_000_000, 1e-6, 4.5));
        assert!(within(0, 3_000_000, 1e-6, 4.5));
        assert!(!within(0, 20_000_000, 1e-6, 4.5));
        assert!(within(0, 0, 0.3, 4.5) && within(0, 10, 0.0, 4.5) && !within(1, 10, 0.0, 4.5));
        assert!(within(10, 10, 1.0, 4.5) && !within(9, 10, 1.0, 4.5) && !within(11, 10, 0.5, 4.5));
        assert!(!within(1, 2, f64::NAN, 4.5));
        assert!(within(10_000_000, 1_000_000_000, 0.01, 4.5) && !within(10_020_000, 1_000_000_000, 0.01, 4.5));
    }

    #[test]
    fn the_saddle_point_is_the_binomial() {
        // C(10, 3) 0.2³ 0.8⁷
        assert!((ln_binomial(3, 10, 0.2, 0.8).exp() - 0.201_326_592).abs() < 1e-12);
        let sum: f64 = (0..=200).map(|x| ln_binomial(x, 200, 0.3, 0.7).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-10, "{sum}");
    }
}
