//! Whether the bits look like those of random keys: what gives away keys that somebody chose.
//!
//! Whoever knows the hash of a filter can add keys that set more new bits than others (73 % instead of 52 % of a filter
//! for 100,000 keys: Gerbet, Kumar and Lauradoux, "The Power of Evil Choices in Bloom Filters", 2015), or that all fall
//! into few lines. Two numbers tell, each in standard deviations of what random keys do ([`crate::math::lines`]):
//!
//! - **fill**: the bits set, against those that as many keys set as the filter counts. Positive is more;
//! - **evenness**: how much lines differ. Positive is more.
//!
//! A filter that had too few bits for its count when it came hides what is added to it later: so the bits set [since](LineSample::since)
//! an earlier sample are held against the keys counted since, too.
//!
//! Under a secret nobody can choose, so this is for filters from elsewhere and for hashes without one. What it does not
//! see: keys that are asked for and never added, and counts that somebody has forged to fit.

use super::AnyFilter;
use crate::arch::words::ReadWords;
use crate::bits::Store;
use crate::bloom::layout::{AnyLayout, Layout};
use crate::bloom::{Bloom, Counting, Stage};
use crate::foreign::{Foreign, Shape};
use crate::math::estimate::told_new;
use crate::math::lines::{Pattern, chi_square_score};
use crate::math::scalable::chain_rate;

/// Below so many keys the fill says nothing.
const FEW_KEYS: u64 = 32;
/// Below so many lines evenness says nothing.
const FEW_LINES: u64 = 8;
/// What has to have fallen into the lines that were read before they can be uneven.
const FEW_FALLS: f64 = 1_000.0;
/// A filter that takes so many for known counts too badly to be held against its count.
const MOST_RATE: f64 = 0.2;
/// Lines of a part that are read at least.
const LEAST: u64 = 64;

/// How the bits of a filter look. Of a chain or a ring the worst part counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// The share of the bits read that are set.
    pub fill: f64,
    /// The share that as many random keys set as the filter counts; of a filter that does not count, the same.
    pub expected_fill: f64,
    /// How far the fill lies above the expected one, in standard deviations; nothing where too little is known.
    pub fill_score: Option<f64>,
    /// How far lines differ more than those of random keys, in standard deviations.
    pub evenness_score: Option<f64>,
    /// Lines that were read.
    pub lines: u64,
}

impl Look {
    /// The worse of the two scores.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        match (self.fill_score, self.evenness_score) {
            (Some(fill), Some(evenness)) => Some(fill.max(evenness)),
            (one, other) => one.or(other),
        }
    }
}

/// Lines that were read: kept apart from the look, because a filter that is written to counts its keys a moment after
/// their bits. Take the sample, wait until what was on its way has been counted, then [`AnyFilter::look`].
#[derive(Debug, Clone, PartialEq)]
pub struct LineSample(Vec<Part>);

/// How the bits look that were set between two samples. Of a chain or a ring the worst part counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Since {
    /// Keys counted between them.
    pub keys: u64,
    /// How far the bits set between them exceed those that as many random keys set, in standard deviations.
    pub score: f64,
}

impl LineSample {
    /// How the bits look that were set since an earlier sample of the same filter; nothing if too few keys came, if it was
    /// cleared, or if it does not count. A stage or a generation that was begun between the two was empty then, wherever in the
    /// ring it lies. Not for kinds that remove keys. Settle both samples first ([`AnyFilter::settle`]).
    ///
    /// Keys that set as many bits as random ones multiply the share of unset bits by `exp(-keys * miss)`, whatever it was before.
    ///
    /// ```
    /// use bloomgate::{AnyFilter, Blocked};
    ///
    /// let mut seen = AnyFilter::from(Blocked::builder().items(10_000).rate(0.01).build()?);
    /// (0..5_000u32).try_for_each(|key| seen.insert(&key.to_le_bytes()[..]).map(drop))?;
    /// let before = seen.sample_lines(4_096, || 0);
    /// (5_000..6_000u32).try_for_each(|key| seen.insert(&key.to_le_bytes()[..]).map(drop))?;
    /// let since = seen.sample_lines(4_096, || 0).since(&before).expect("a thousand keys");
    /// assert!((990..=1_000).contains(&since.keys) && since.score.abs() < 5.0);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    #[must_use]
    pub fn since(&self, before: &LineSample) -> Option<Since> {
        let had = before.0.iter().map(|part| part.number).max()?;
        let parts = self.0.iter().filter_map(|now| match before.0.iter().find(|part| part.number == now.number) {
            Some(before) => now.since(before),
            // Numbers only grow, so one that is not above those of before is of another filter.
            None => now.begun().filter(|_| now.number > had),
        });
        parts.reduce(|one, other| Since { keys: one.keys + other.keys, score: one.score.max(other.score) })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    /// Which one it is: the number of a generation that no other of the ring ever has, though their places are used again.
    number: u64,
    pattern: Pattern,
    /// Keys that it counted before its lines were read, if it counts: those whose bits were read are as many at least.
    keys: Option<u64>,
    /// And at most so many: those that were counted when what was on its way had been.
    most: Option<u64>,
    lines: u64,
    /// Of set bits a line.
    sum: f64,
    squares: f64,
}

impl LineSample {
    /// The rate that these lines make, if the others are like them: what [`AnyFilter::estimated_rate`] finds in all bits,
    /// within a few hundredths from 1,024 lines on. It takes lines as random keys fill them; whether they are is what
    /// [`Look::score`] tells. Nothing for kinds that keep fingerprints or decay.
    #[must_use]
    pub fn estimated_rate(&self) -> Option<f64> {
        let rate_of = |part: &Part| {
            let read = (part.lines * part.pattern.line_bits()).max(1) as f64;
            let unset = 1.0 - part.sum / read;
            // No bit is unset: every key is there.
            if unset > 0.0 { part.pattern.rate((unset.ln() / part.pattern.miss()).round() as u64) } else { 1.0 }
        };
        (!self.0.is_empty()).then(|| chain_rate(self.0.iter().map(rate_of)))
    }
}

/// A part of a filter: which one it is, where its bits go, the keys it counts, and the set bits of a line.
pub(super) type Visit<'v> = dyn FnMut(u64, Pattern, Option<u64>, &dyn Fn(u64) -> u32) + 'v;

fn set_in<W: ReadWords>(words: W, first: u64, count: u64) -> u32 {
    (first..first + count).map(|at| words.load(at as usize).count_ones()).sum()
}

fn bloom<L: Layout, S: Store>(filter: &Bloom<L, S>, number: u64, visit: &mut Visit<'_>) {
    let words = filter.store().words();
    let pattern = match filter.layout().any() {
        AnyLayout::Classic(_) => Pattern::Anywhere { bits: filter.bits(), hashes: filter.hashes() },
        AnyLayout::Partitioned(layout) => Pattern::Slices { slice_bits: layout.slice_bits(), slices: filter.hashes() },
        AnyLayout::Blocked(layout) => {
            Pattern::Lines { lines: layout.lines(), per_key: layout.lines_per_key(), paired: layout.paired() }
        }
    };
    visit(number, pattern, Some(filter.len()), &|line| set_in(words, line * 8, 8));
}

fn counting<S: Store>(filter: &Counting<S>, visit: &mut Visit<'_>) {
    let layout = filter.layout();
    let pattern = Pattern::Lines { lines: layout.lines(), per_key: layout.lines_per_key(), paired: layout.paired() };
    visit(0, pattern, Some(filter.len()), &|line| filter.set_in_line(line));
}

/// Forms whose bits go anywhere and that do not say how many keys they hold: what they tell was read off the bits.
fn foreign<F: Shape, S: Store>(filter: &Foreign<F, S>, pattern: Pattern, visit: &mut Visit<'_>) {
    let words = filter.store().words();
    let per_line = pattern.line_bits() / 64;
    visit(0, pattern, None, &|line| set_in(words, line * per_line, per_line));
}

impl<S: Store> AnyFilter<S> {
    /// Calls `visit` with each part whose bits are only set by keys; none for kinds that keep fingerprints or decay.
    pub(super) fn each_part(&self, visit: &mut Visit<'_>) {
        match self {
            AnyFilter::Classic(filter) => bloom(filter, 0, visit),
            AnyFilter::Blocked(filter) => bloom(filter, 0, visit),
            AnyFilter::Partitioned(filter) => bloom(filter, 0, visit),
            AnyFilter::Counting(filter) => counting(filter, visit),
            AnyFilter::Scalable(chain) => (0..).zip(chain.each_stage()).for_each(|(number, stage)| match stage {
                Stage::Blocked(filter) => bloom(filter, number, visit),
                Stage::Classic(filter) => bloom(filter, number, visit),
                Stage::Partitioned(filter) => bloom(filter, number, visit),
            }),
            AnyFilter::Rotating(ring) => ring.each_numbered().for_each(|(filter, number)| bloom(filter, number, visit)),
            AnyFilter::BfV1(filter) => {
                let pattern =
                    Pattern::Anywhere { bits: filter.shape().bits().into(), hashes: filter.shape().hashes().into() };
                foreign(filter, pattern, visit);
            }
            AnyFilter::Guava(filter) => {
                let pattern =
                    Pattern::Anywhere { bits: filter.shape().reach(), hashes: filter.shape().hashes().into() };
                foreign(filter, pattern, visit);
            }
            AnyFilter::Parquet(filter) => {
                foreign(filter, Pattern::SplitBlocks { blocks: filter.shape().blocks().into() }, visit);
            }
            AnyFilter::RedisBloom(chain) => {
                let words = chain.store().words();
                for (number, link) in (0..).zip(chain.shape().links()) {
                    let pattern = Pattern::Anywhere { bits: link.bits(), hashes: link.hashes() };
                    let first = link.first_word();
                    visit(number, pattern, Some(link.items()), &|line| set_in(words, first + line * 8, 8));
                }
            }
            AnyFilter::Stable(_)
            | AnyFilter::Cuckoo(_)
            | AnyFilter::GrowingCuckoo(_)
            | AnyFilter::Quotient(_)
            | AnyFilter::Fuse(_)
            | AnyFilter::Ribbon(_)
            | AnyFilter::RedisCuckoo(_) => {}
        }
    }

    /// Reads about `most` lines, drawn by `random` (64 random bits a call) where there are more: at 64 bytes each, 4,096
    /// lines take half a millisecond of a filter that is in no cache.
    #[must_use]
    pub fn sample_lines(&self, most: u64, mut random: impl FnMut() -> u64) -> LineSample {
        let mut count = 0;
        self.each_part(&mut |_, _, _, _| count += 1);
        let most = (most / count.max(1)).max(LEAST);
        let mut parts = Vec::with_capacity(count as usize);
        self.each_part(&mut |number, pattern, keys, set_in| {
            let all = pattern.whole_lines();
            let lines = all.min(most);
            let (mut sum, mut squares) = (0.0, 0.0);
            for at in 0..lines {
                // Repeats are one in thousands, and honest.
                let line = if lines == all { at } else { ((u128::from(random()) * u128::from(all)) >> 64) as u64 };
                let set = f64::from(set_in(line));
                sum += set;
                squares += set * set;
            }
            parts.push(Part { number, pattern, keys, most: keys, lines, sum, squares });
        });
        LineSample(parts)
    }

    /// How lines that were read before look against the keys that are counted now. Nothing for kinds that keep
    /// fingerprints or decay.
    ///
    /// ```
    /// use bloomgate::{AnyFilter, Blocked};
    ///
    /// let mut seen = Blocked::builder().items(10_000).rate(0.01).build()?;
    /// (0..10_000u32).try_for_each(|key| seen.insert(&key.to_le_bytes()[..]).map(drop))?;
    /// let seen = AnyFilter::from(seen);
    /// let look = seen.look(&seen.sample_lines(4_096, || 0)).expect("a Bloom filter");
    /// assert!((look.fill - look.expected_fill).abs() < 0.01 && look.score().unwrap() < 5.0);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    #[must_use]
    pub fn look(&self, sample: &LineSample) -> Option<Look> {
        let sample = self.settle(sample);
        let worst = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        let mut look = Look { fill: 0.0, expected_fill: 0.0, fill_score: None, evenness_score: None, lines: 0 };
        let mut bits = 0.0;
        for part in &sample.0 {
            let looked = part.look(part.most);
            let weight = part.pattern.bits() as f64;
            bits += weight;
            look.fill += looked.fill * weight;
            look.expected_fill += looked.expected_fill * weight;
            look.fill_score = worst(look.fill_score, looked.fill_score);
            look.evenness_score = worst(look.evenness_score, looked.evenness_score);
            look.lines += looked.lines;
        }
        (bits > 0.0).then(|| Look { fill: look.fill / bits, expected_fill: look.expected_fill / bits, ..look })
    }

    /// A sample that knows how many keys are counted now, soon after it was taken: those whose bits it has read were on their way
    /// to the count then. Between those counted before and these lies what it has read.
    #[must_use]
    pub fn settle(&self, sample: &LineSample) -> LineSample {
        let mut now = Vec::with_capacity(sample.0.len());
        self.each_part(&mut |number, _, keys, _| now.push((number, keys)));
        // A generation may have been cleared since: what it counted when it was read counts, and not what those count that
        // stand in its place now.
        let settled = |part: &Part| {
            let counted = now.iter().find(|(number, _)| *number == part.number).and_then(|(_, keys)| *keys);
            Part { most: part.most.map(|before| before.max(counted.unwrap_or(0))), ..*part }
        };
        LineSample(sample.0.iter().map(settled).collect())
    }
}

impl Part {
    fn look(&self, keys: Option<u64>) -> Look {
        let read = (self.lines * self.pattern.line_bits()).max(1) as f64;
        let fill = self.sum / read;
        let known = keys.map(|keys| different(&self.pattern, keys));
        let expected_fill = known.map_or(fill, |known| -(known.keys * self.pattern.miss()).exp_m1());
        let fill_score = known.filter(|known| known.told >= FEW_KEYS).and_then(|known| self.fill_score(fill, known));
        Look { fill, expected_fill, fill_score, evenness_score: self.evenness_score(fill), lines: self.lines }
    }

    fn fill_score(&self, fill: f64, known: Known) -> Option<f64> {
        if self.lines == 0 || self.pattern.rate(known.keys as u64) > MOST_RATE {
            return None;
        }
        let error = (self.counting(known) + self.sampling(known)).sqrt();
        let expected = (known.keys * self.pattern.miss()).exp();
        (error > 0.0).then(|| (expected - (1.0 - fill)) / (expected * error))
    }

    /// The variance of the share of unset bits over its square: of all bits, and of the keys that were taken for known and
    /// not counted.
    fn counting(&self, known: Known) -> f64 {
        (self.pattern.count_error(known.keys).powi(2) + known.taken) * self.pattern.miss().powi(2)
    }

    /// The same of reading some lines for all.
    fn sampling(&self, known: Known) -> f64 {
        let lines = self.lines as f64;
        // Lines are drawn with repeats; where all are read, only what is left of the last one is missing.
        let share = lines * self.pattern.line_bits() as f64 / self.pattern.bits() as f64;
        let missing = if self.lines < self.pattern.whole_lines() { 1.0 } else { (1.0 - share).max(0.0) };
        missing * self.pattern.line_spread(known.keys) / lines
    }

    fn unset(&self) -> f64 {
        1.0 - self.sum / (self.lines * self.pattern.line_bits()).max(1) as f64
    }

    /// How the bits look of a part that was empty before.
    fn begun(&self) -> Option<Since> {
        let keys = self.most.filter(|&keys| keys >= FEW_KEYS)?;
        let score = self.fill_score(1.0 - self.unset(), different(&self.pattern, keys))?;
        score.is_finite().then_some(Since { keys, score })
    }

    fn since(&self, before: &Part) -> Option<Since> {
        let told = self.keys?.checked_sub(before.keys?).filter(|&told| told >= FEW_KEYS)?;
        if self.pattern != before.pattern || self.lines == 0 || before.lines == 0 {
            return None;
        }
        // How many keys came between is known within what was written while the samples were settled. Nobody is accused of
        // bits that these may have set.
        let least = self.since_with(before, self.keys?.max(before.most?), before.most?)?;
        let most = self.since_with(before, self.most?, before.keys?)?;
        Some(Since { keys: told, score: if most > 0.0 { most } else { least.min(0.0) } })
    }

    /// The score if so many keys have set the bits of this sample, and so many those of the one before.
    fn since_with(&self, before: &Part, keys: u64, keys_before: u64) -> Option<f64> {
        let (known, had) = (different(&self.pattern, keys), different(&self.pattern, keys_before));
        if self.pattern.rate(known.keys as u64) > MOST_RATE {
            return None;
        }
        // What happened before the first sample is in both: its variance is not that of the bits since.
        let counting = (self.counting(known) - self.counting(had)).max(0.0);
        let error = (counting + self.sampling(known) + before.sampling(had)).sqrt();
        let expected = before.unset() * ((known.keys - had.keys) * self.pattern.miss()).exp();
        let score = (expected - self.unset()) / (expected * error);
        // With all lines read and no key between there is no error, and nothing to tell.
        if error > 0.0 { Some(score).filter(|score| score.is_finite()) } else { Some(0.0) }
    }

    fn evenness_score(&self, fill: f64) -> Option<f64> {
        let unset = 1.0 - fill;
        if self.lines < FEW_LINES || unset <= 0.0 || fill <= 0.0 {
            return None;
        }
        let (lines, line_bits) = (self.lines as f64, self.pattern.line_bits() as f64);
        // The keys that the bits speak of: whatever was counted, the lines must fit together.
        let keys = unset.ln() / self.pattern.miss();
        let tail = self.pattern.line_tail(keys);
        if lines / tail < FEW_FALLS {
            return None;
        }
        let expected = self.pattern.line_spread(keys) * (line_bits * unset).powi(2);
        let sum = (self.squares - self.sum * self.sum / lines) / expected;
        // As if it were the sum of fewer squares, so that the variance is right.
        let degrees = (lines - 1.0) / (1.0 + tail / 2.0 * lines / (lines - 1.0));
        Some(chi_square_score(sum * degrees / (lines - 1.0), degrees))
    }
}

/// Different keys behind a number of keys that were told to be new.
#[derive(Debug, Clone, Copy)]
struct Known {
    told: u64,
    keys: f64,
    /// Those that were taken for known on the way.
    taken: f64,
}

fn different(pattern: &Pattern, told: u64) -> Known {
    let mut keys = told as f64;
    // Each round brings it nearer by the rate: 0.2 at the most that is looked at.
    for _ in 0..4 {
        let all = keys.round() as u64;
        let taken = all as f64 - told_new(all, |items| pattern.rate(items));
        keys = told as f64 + taken;
        if taken < 0.5 {
            break;
        }
    }
    Known { told, keys, taken: keys - told as f64 }
}
