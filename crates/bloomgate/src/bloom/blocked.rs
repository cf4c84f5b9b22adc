//! The default kind: all bits of a key in one cache line.
//!
//! **When.** Almost always: bulk checks, high throughput, filters larger than the caches, many threads.
//! **When not.** Where every bit counts more than time and the rate is above 10 % ([`super::Classic`]), where keys
//! must go again ([`super::Counting`]), where the number of keys is unknown ([`super::Scalable`]).
//!
//! A line is 512 bits: eight words, four lanes; a key sets two bits in one word of each lane ([picture](#memory)).
//! Keys fall into lines at random, so some lines hold more than others, and the rate is a mixture over that load
//! (Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007). Sizing uses the mixture, not
//! the textbook formula, which at 16 bits a key promises less than half of what it keeps.
//!
//! | asked | bits per key | lines per key | classic |
//! |---|---|---|---|
//! | 10 % | 5.87 | 1 | 4.81 |
//! | 3 % | 7.95 | 1 | 7.30 |
//! | 1 % | 10.11 | 1 | 9.59 |
//! | 0.1 % | 15.82 | 1 | 14.38 |
//! | 0.01 % | 20.23 | 2 | 19.17 |
//! | 1 in a million | 30.4 | 3 | 28.76 |
//!
//! # Memory
//!
//! ```text
//!  line   word 0  1  2  3 │ 4  5  6  7      512 bits = 64 bytes, aligned
//!  lane        0  1  2  3 │ 0  1  2  3      a key picks one of two words per lane,
//!              ..x.....x.                   and two bits in it
//! ```

use super::classic::tell;
use super::layout::{self, AnyLayout, Layout};
use crate::arch::CHUNK;
use crate::arch::blocked::{Flight, LINE_WORDS, contains, contains_chunk, insert, insert_chunk, line_start, marks};
use crate::arch::words::{ReadWords, WriteWords};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::hash::digests::Digests;
use crate::kind::Kind;
use crate::math;
use crate::math::estimate::Estimate;
use crate::promise::Insertion;

/// Bits in a line.
pub(crate) const LINE_BITS: u64 = 512;
/// Bits that a key sets in a line.
pub(crate) const LINE_HASHES: u32 = 8;
/// The most lines a key may use; eight keep 1e-15.
pub(crate) const MAX_LINES_PER_KEY: u32 = 8;

/// The layout of [`super::Blocked`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedLayout {
    lines: u64,
    lines_per_key: u32,
    paired: bool,
}

impl BlockedLayout {
    /// A layout from its three numbers, or why they are none.
    pub(crate) fn new(lines: u64, lines_per_key: u32, paired: bool) -> Result<Self> {
        if lines == 0 || lines > 1 << 50 {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a blocked filter has between 1 and 2^50 lines of 64 bytes, not {lines}"),
            ));
        }
        if lines_per_key == 0 || lines_per_key > MAX_LINES_PER_KEY {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a key of a blocked filter uses 1 to {MAX_LINES_PER_KEY} lines, not {lines_per_key}"),
            ));
        }
        Ok(Self { lines, lines_per_key, paired })
    }

    /// The smallest layout for so many keys; `paired` as a counting filter wants it.
    pub(crate) fn sized(items: u64, rate: f64, paired: bool) -> Self {
        let (lines, lines_per_key) = math::blocked::size_for(items, rate, paired);
        Self { lines, lines_per_key, paired }
    }

    /// How many lines of 64 bytes.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// How many lines a key sets bits in.
    #[must_use]
    pub fn lines_per_key(&self) -> u32 {
        self.lines_per_key
    }

    /// Whether lanes choose their halves in pairs (the plain form of a counting filter).
    #[must_use]
    pub fn paired(&self) -> bool {
        self.paired
    }

    /// The hash for the `line`-th line of a key: its line from the high bits, its marks from the low 32.
    ///
    /// The first line takes `lo`, which SipHash has ready three rounds of eight before `hi`.
    #[inline(always)]
    pub(crate) fn line_hash(digest: Digest, line: u32) -> u64 {
        match line {
            0 => digest.lo,
            1 => digest.hi,
            _ => {
                let mixed = digest.hi.wrapping_add(digest.lo.wrapping_mul(u64::from(2 * line + 1)));
                let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
                let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
                mixed ^ (mixed >> 32)
            }
        }
    }

    #[inline(always)]
    fn contains_with<const PAIRED: bool, W: ReadWords>(&self, words: W, digest: Digest) -> bool {
        if self.lines_per_key == 1 {
            return contains::<PAIRED, W>(words, self.lines, Self::line_hash(digest, 0));
        }
        (0..self.lines_per_key).all(|line| contains::<PAIRED, W>(words, self.lines, Self::line_hash(digest, line)))
    }

    #[inline(always)]
    fn insert_with<const PAIRED: bool, W: WriteWords>(&self, words: &mut W, digest: Digest) -> bool {
        if self.lines_per_key == 1 {
            return insert::<PAIRED, W>(words, self.lines, Self::line_hash(digest, 0));
        }
        let mut fresh = false;
        for line in 0..self.lines_per_key {
            fresh |= insert::<PAIRED, W>(words, self.lines, Self::line_hash(digest, line));
        }
        fresh
    }

    #[inline(always)]
    fn contains_all_with<const PAIRED: bool, W: ReadWords, D: Digests>(
        &self,
        words: W,
        mut digests: D,
        mut answers: &mut [bool],
    ) -> Result<()> {
        if self.lines_per_key > 1 {
            return self.contains_in_lines::<PAIRED, W, D>(words, digests, answers);
        }
        // Loops, not closures: a closure would be compiled for any processor (see `arch::Job`).
        let (mut one, mut other) = (Flight::EMPTY, Flight::EMPTY);
        let (mut now, mut next) = (&mut one, &mut other);
        loop {
            let coming = digests.next_lo(&mut next.hashes);
            next.len = *coming.as_ref().unwrap_or(&0);
            let (done, rest) = answers.split_at_mut(now.len);
            contains_chunk::<PAIRED, false, W>(words, self.lines, now, next, done);
            answers = rest;
            if coming? == 0 {
                return Ok(());
            }
            std::mem::swap(&mut now, &mut next);
        }
    }

    #[inline(always)]
    fn insert_all_with<const PAIRED: bool, W: WriteWords, D: Digests>(
        &self,
        words: &mut W,
        mut digests: D,
        fresh: &mut u64,
    ) -> Result<()> {
        if self.lines_per_key > 1 {
            return self.insert_in_lines::<PAIRED, W, D>(words, digests, fresh);
        }
        let (mut one, mut other) = (Flight::EMPTY, Flight::EMPTY);
        let (mut now, mut next) = (&mut one, &mut other);
        loop {
            let coming = digests.next_lo(&mut next.hashes);
            next.len = *coming.as_ref().unwrap_or(&0);
            *fresh += insert_chunk::<PAIRED, false, W>(words, self.lines, now, next, &mut [false; CHUNK]);
            if coming? == 0 {
                return Ok(());
            }
            std::mem::swap(&mut now, &mut next);
        }
    }

    #[inline(always)]
    fn insert_each_with<const PAIRED: bool, W: WriteWords>(
        &self,
        words: &mut W,
        mut digests: &[Digest],
        mut outcomes: &mut [Insertion],
    ) -> u64 {
        if self.lines_per_key > 1 {
            return self.insert_each_in_lines::<PAIRED, W>(words, digests, outcomes);
        }
        let (mut one, mut other) = (Flight::EMPTY, Flight::EMPTY);
        let (mut now, mut next) = (&mut one, &mut other);
        let mut fresh = 0;
        loop {
            // Digests that are there are never refused.
            next.len = digests.next_lo(&mut next.hashes).unwrap_or(0);
            let mut told = [false; CHUNK];
            fresh += insert_chunk::<PAIRED, true, W>(words, self.lines, now, next, &mut told);
            let (done, rest) = outcomes.split_at_mut(now.len);
            tell(done, &told);
            outcomes = rest;
            if next.len == 0 {
                return fresh;
            }
            std::mem::swap(&mut now, &mut next);
        }
    }

    /// Inserts of keys with several lines, with an outcome for each.
    fn insert_each_in_lines<const PAIRED: bool, W: WriteWords>(
        &self,
        words: &mut W,
        digests: &[Digest],
        mut outcomes: &mut [Insertion],
    ) -> u64 {
        let mut fresh = 0;
        let flown = self.fly(digests, |now, next| {
            let mut told = [false; CHUNK];
            for (now, next) in now.iter().zip(next) {
                insert_chunk::<PAIRED, true, W>(words, self.lines, now, next, &mut told);
            }
            let (done, rest) = std::mem::take(&mut outcomes).split_at_mut(now[0].len);
            fresh += told[..done.len()].iter().map(|&new| u64::from(new)).sum::<u64>();
            tell(done, &told);
            outcomes = rest;
        });
        debug_assert!(flown.is_ok(), "digests that are there are never refused");
        fresh
    }

    /// Lookups of keys with several lines.
    fn contains_in_lines<const PAIRED: bool, W: ReadWords, D: Digests>(
        &self,
        words: W,
        digests: D,
        mut answers: &mut [bool],
    ) -> Result<()> {
        self.fly(digests, |now, next| {
            let (done, rest) = std::mem::take(&mut answers).split_at_mut(now[0].len);
            contains_chunk::<PAIRED, false, W>(words, self.lines, &now[0], &mut next[0], done);
            for (now, next) in now[1..].iter().zip(&mut next[1..]) {
                contains_chunk::<PAIRED, true, W>(words, self.lines, now, next, done);
            }
            answers = rest;
        })
    }

    /// Inserts of keys with several lines.
    fn insert_in_lines<const PAIRED: bool, W: WriteWords, D: Digests>(
        &self,
        words: &mut W,
        digests: D,
        fresh: &mut u64,
    ) -> Result<()> {
        self.fly(digests, |now, next| {
            let mut new = [false; CHUNK];
            for (now, next) in now.iter().zip(next) {
                insert_chunk::<PAIRED, true, W>(words, self.lines, now, next, &mut new);
            }
            *fresh += new.iter().map(|&new| u64::from(new)).sum::<u64>();
        })
    }

    /// Runs the pipe for keys with several lines: `step(now, next)` works on the chunk `now`, one flight a line of the
    /// key, while it asks memory for `next`. When digests run out in a refusal, what came before is still worked on.
    fn fly<D: Digests>(&self, mut digests: D, mut step: impl FnMut(&[Flight], &mut [Flight])) -> Result<()> {
        const MOST: usize = MAX_LINES_PER_KEY as usize;
        let used = self.lines_per_key as usize;
        let (mut one, mut other) = ([Flight::EMPTY; MOST], [Flight::EMPTY; MOST]);
        let (mut now, mut next) = (&mut one, &mut other);
        let mut chunk = [Digest::default(); CHUNK];
        loop {
            let coming = digests.next(&mut chunk);
            let len = *coming.as_ref().unwrap_or(&0);
            for (line, flight) in next[..used].iter_mut().enumerate() {
                for (hash, &digest) in flight.hashes.iter_mut().zip(&chunk[..len]) {
                    *hash = Self::line_hash(digest, line as u32);
                }
                flight.len = len;
            }
            step(&now[..used], &mut next[..used]);
            if coming? == 0 {
                return Ok(());
            }
            std::mem::swap(&mut now, &mut next);
        }
    }
}

impl Layout for BlockedLayout {}

#[allow(private_interfaces, private_bounds)]
impl layout::sealed::Layout for BlockedLayout {
    const KIND: Kind = Kind::Blocked;

    fn any(self) -> AnyLayout {
        AnyLayout::Blocked(self)
    }

    fn from_any(any: AnyLayout) -> Option<Self> {
        match any {
            AnyLayout::Blocked(layout) => Some(layout),
            _ => None,
        }
    }

    fn for_items(items: u64, rate: f64) -> Self {
        Self::sized(items, rate, false)
    }

    fn for_bits(bits: u64, items: u64) -> Result<Self> {
        let lines = bits / LINE_BITS;
        let candidates = (1..=MAX_LINES_PER_KEY).map(|per_key| Self::new(lines, per_key, false));
        let mut best: Option<(f64, Self)> = None;
        for candidate in candidates {
            let candidate = candidate?;
            let rate = candidate.expected_rate(items);
            // One more line per key doubles the memory traffic: it must at least halve the rate.
            if best.is_none_or(|(best_rate, _)| rate < best_rate * 0.5) {
                best = Some((rate, candidate));
            }
        }
        best.map(|(_, layout)| layout)
            .ok_or_else(|| Error::new(ErrorKind::InvalidParameter, "no layout fits".to_string()))
    }

    fn for_bits_at_rate(bits: u64, rate: f64) -> Result<Self> {
        Self::new(bits / LINE_BITS, math::blocked::lines_for(rate), false)
    }

    fn explicit(bits: u64, hashes: u32) -> Result<Self> {
        if !bits.is_multiple_of(LINE_BITS) || !hashes.is_multiple_of(LINE_HASHES) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "a blocked filter has a multiple of {LINE_BITS} bits and of {LINE_HASHES} hashes, not {bits} bits \
                     and {hashes} hashes; round them up, or use a classic filter"
                ),
            ));
        }
        Self::new(bits / LINE_BITS, hashes / LINE_HASHES, false)
    }

    fn bits(&self) -> u64 {
        self.lines * LINE_BITS
    }

    fn hashes(&self) -> u32 {
        self.lines_per_key * LINE_HASHES
    }

    fn words(&self) -> u64 {
        self.lines * LINE_WORDS as u64
    }

    fn capacity_at(&self, rate: f64) -> u64 {
        math::blocked::capacity_for(self.lines, self.lines_per_key, self.paired, rate)
    }

    fn expected_rate(&self, items: u64) -> f64 {
        math::blocked::rate(self.lines, self.lines_per_key, self.paired, items)
    }

    fn estimated_rate<W: ReadWords>(&self, words: W) -> f64 {
        // Per line: the chance that an absent key's marks are all set, from the set bits of each word.
        let lines = self.lines as usize;
        let mut total = 0.0;
        for line in 0..lines {
            let fill: [f64; LINE_WORDS] =
                std::array::from_fn(|word| f64::from(words.load(line * LINE_WORDS + word).count_ones()) / 64.0);
            total += line_rate(&fill, self.paired);
        }
        (total / lines as f64).powi(self.lines_per_key as i32)
    }

    fn estimate_count(&self, set_bits: u64) -> Estimate {
        math::estimate::blocked(set_bits, self.lines, self.lines_per_key, self.paired, math::estimate::Z)
    }

    fn count_error(&self, items: f64) -> f64 {
        math::estimate::blocked_keys_error(self.lines, self.lines_per_key, self.paired, items)
    }

    const SPREAD: &'static str = "lines";

    fn spread(&self) -> u64 {
        self.lines
    }

    fn with_spread(&self, spread: u64) -> Result<Self> {
        Self::new(spread, self.lines_per_key, self.paired)
    }

    fn fold<W: ReadWords>(&self, words: W, factor: u64, to: &mut [u64]) {
        // Whole lines fall together: a key's marks in its line come from other bits of the hash.
        let run = factor as usize * LINE_WORDS;
        for (to_line, line) in to.chunks_exact_mut(LINE_WORDS).enumerate() {
            for at in 0..run {
                line[at % LINE_WORDS] |= words.load(to_line * run + at);
            }
        }
    }

    #[inline]
    fn contains<W: ReadWords>(&self, words: W, digest: Digest) -> bool {
        if self.paired {
            self.contains_with::<true, W>(words, digest)
        } else {
            self.contains_with::<false, W>(words, digest)
        }
    }

    #[inline]
    fn insert<W: WriteWords>(&self, words: &mut W, digest: Digest) -> bool {
        if self.paired {
            self.insert_with::<true, W>(words, digest)
        } else {
            self.insert_with::<false, W>(words, digest)
        }
    }

    #[inline(always)]
    fn contains_all<W: ReadWords, D: Digests>(&self, words: W, digests: D, answers: &mut [bool]) -> Result<()> {
        if self.paired {
            self.contains_all_with::<true, W, D>(words, digests, answers)
        } else {
            self.contains_all_with::<false, W, D>(words, digests, answers)
        }
    }

    #[inline(always)]
    fn insert_all<W: WriteWords, D: Digests>(&self, words: &mut W, digests: D, fresh: &mut u64) -> Result<()> {
        if self.paired {
            self.insert_all_with::<true, W, D>(words, digests, fresh)
        } else {
            self.insert_all_with::<false, W, D>(words, digests, fresh)
        }
    }

    #[inline(always)]
    fn insert_each<W: WriteWords>(&self, words: &mut W, digests: &[Digest], outcomes: &mut [Insertion]) -> u64 {
        if self.paired {
            self.insert_each_with::<true, W>(words, digests, outcomes)
        } else {
            self.insert_each_with::<false, W>(words, digests, outcomes)
        }
    }

    fn each_word(&self, digest: Digest, mut visit: impl FnMut(usize)) {
        for line in 0..self.lines_per_key {
            visit(line_start(Self::line_hash(digest, line), self.lines));
        }
    }

    fn each_bit(&self, digest: Digest, mut visit: impl FnMut(u64)) {
        for line in 0..self.lines_per_key {
            let hash = Self::line_hash(digest, line);
            let start = line_start(hash, self.lines);
            for (word, a, b) in if self.paired { marks::<true>(hash) } else { marks::<false>(hash) } {
                [a, b].into_iter().for_each(|bit| visit((start + word) as u64 * 64 + u64::from(bit)));
            }
        }
    }
}

/// The chance that an absent key finds its bits set in a line whose words are filled so.
fn line_rate(fill: &[f64; LINE_WORDS], paired: bool) -> f64 {
    if paired {
        let pair = |lane: usize| {
            let half = |at: usize| (fill[at] * fill[at + 1]).powi(2);
            (half(lane) + half(lane + 4)) / 2.0
        };
        pair(0) * pair(2)
    } else {
        (0..4).map(|lane| (fill[lane].powi(2) + fill[lane + 4].powi(2)) / 2.0).product()
    }
}
