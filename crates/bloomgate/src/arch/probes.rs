//! k single bits per key, spread over the whole array (classic) or one in each slice (partitioned).
//!
//! Each probe is the one before plus a second hash, rotated by 27: double hashing whose stride turns. A plain
//! `h1 + i·h2` walks the circle in equal strides, and small arrays see it. Measured at k = 7,
//! false positives in percent:
//!
//! | keys, bits | independent probes | equal strides | strides that turn |
//! |---|---|---|---|
//! | 1, 13 | 0.40 | 2.35 | 0.42 |
//! | 2, 24 | 0.47 | 1.71 | 0.48 |
//! | 10, 105 | 0.70 | 1.01 | 0.70 |
//! | 100, 966 | 0.99 | 1.04 | 1.00 |
//!
//! A multiplier in the step (a linear congruential walk) does as well and costs a third more time, since it shares the
//! one multiplier of a core with the reduction: 16.2 against 13.0 ns an insert, 11.0 against 9.3 ns a hit, at 20 k keys.

use super::words::{ReadWords, WriteWords};
use super::{CHUNK, prefetch, scale};
use crate::hash::Digest;

/// How far the walk turns at each step: multiples of 27 come back near 64 late (61 at the 7th, 4 at the 12th).
/// Frozen with file version 1, as are the two numbers of the stride.
const TURN: u32 = 27;
/// What the second hash is flipped with and multiplied by (an odd number; Steele and Vigna, "Computationally easy,
/// spectrally good multipliers", 2021), so that no plain number makes a short stride.
const FLIP: u64 = 0x9e37_79b9_7f4a_7c15;
const STRIDE: u64 = 0xd134_2543_de82_ef95;

/// Where the probes of a key go.
///
/// # Safety
/// `bit` must be below `bits` for every `i` below `hashes` and every `x`.
pub(crate) unsafe trait Spread: Copy {
    /// How many probes a key has.
    fn hashes(self) -> u32;
    /// How many bits the probes can reach.
    fn bits(self) -> u64;
    /// The bit of the `i`-th probe.
    fn bit(self, i: u32, x: u64) -> u64;
}

/// Every probe over the whole array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) bits: u64,
    pub(crate) hashes: u32,
}

// SAFETY: the high half of x times `bits` is below `bits`.
unsafe impl Spread for Whole {
    #[inline(always)]
    fn bits(self) -> u64 {
        self.bits
    }
    #[inline(always)]
    fn hashes(self) -> u32 {
        self.hashes
    }
    #[inline(always)]
    fn bit(self, _: u32, x: u64) -> u64 {
        scale(x, self.bits)
    }
}

/// The i-th probe in the i-th slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slices {
    pub(crate) slice_bits: u64,
    pub(crate) hashes: u32,
}

// SAFETY: a probe is below `slice_bits` inside its slice, and `i` is below `hashes` slices.
unsafe impl Spread for Slices {
    #[inline(always)]
    fn bits(self) -> u64 {
        self.slice_bits * u64::from(self.hashes)
    }
    #[inline(always)]
    fn hashes(self) -> u32 {
        self.hashes
    }
    #[inline(always)]
    fn bit(self, i: u32, x: u64) -> u64 {
        u64::from(i) * self.slice_bits + scale(x, self.slice_bits)
    }
}

/// The sequence of probes of one key.
#[derive(Clone, Copy)]
struct Walk {
    x: u64,
    step: u64,
}

impl Walk {
    /// The stride is odd, so that no digest, not even zero, stands still.
    #[inline(always)]
    fn new(digest: Digest) -> Self {
        Self { x: digest.hi, step: (digest.lo ^ FLIP).wrapping_mul(STRIDE) | 1 }
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        let x = self.x;
        self.x = x.wrapping_add(self.step).rotate_left(TURN);
        x
    }
}

/// Calls `visit` with every bit position of a key, in order.
#[inline(always)]
pub(crate) fn each_bit<S: Spread>(spread: S, digest: Digest, mut visit: impl FnMut(u64)) {
    let mut walk = Walk::new(digest);
    for i in 0..spread.hashes() {
        visit(spread.bit(i, walk.next()));
    }
}

/// Words that hold every bit a spread can reach: seen once, so that the probes need not look again.
#[derive(Clone, Copy)]
struct Field<S, W> {
    spread: S,
    words: W,
}

#[inline(always)]
fn check(bits: u64, words: usize) {
    assert!(bits <= words as u64 * 64, "{bits} bits do not lie in {words} words");
}

impl<S: Spread, W: ReadWords> Field<S, W> {
    #[inline(always)]
    fn new(spread: S, words: W) -> Self {
        check(spread.bits(), words.count());
        Self { spread, words }
    }

    /// A word whose lowest bit is the one that the `i`-th probe finds.
    #[inline(always)]
    fn probe(self, i: u32, x: u64) -> u64 {
        let bit = self.spread.bit(i, x);
        // SAFETY: `new` saw that all bits of the spread lie in the words; `Spread` promises that this is one of them.
        let word = unsafe { self.words.load_unchecked((bit >> 6) as usize) };
        word >> (bit & 63)
    }

    #[inline(always)]
    fn prefetch(self, i: u32, x: u64) {
        prefetch(self.words, (self.spread.bit(i, x) >> 6) as usize);
    }

    /// Whether all probes from `first` on find their bits set. Reads them all: a branch for each would be mispredicted
    /// more dearly than the reads it saves.
    #[inline(always)]
    fn all_set(self, first: u32, mut walk: Walk) -> bool {
        let mut all = 1;
        for i in first..self.spread.hashes() {
            all &= self.probe(i, walk.next());
        }
        all != 0
    }

    /// The same for all `K` probes of each key, with the loop over them unrolled.
    #[inline(always)]
    fn each_all_set<const K: u32>(self, digests: &[Digest], answers: &mut [bool]) {
        for (&digest, answer) in digests.iter().zip(answers) {
            let mut walk = Walk::new(digest);
            let mut all = 1;
            for i in 0..K {
                all &= self.probe(i, walk.next());
            }
            *answer = all != 0;
        }
    }

    /// Answers for each key, all of whose lines are near. The numbers of hashes that 1 % and 0.1 % come to have loops of
    /// their own: the processor does not notice the others' counting, except here (0.6 of 9 ns).
    #[inline(always)]
    fn answer(self, digests: &[Digest], answers: &mut [bool]) {
        match self.spread.hashes() {
            7 => self.each_all_set::<7>(digests, answers),
            10 => self.each_all_set::<10>(digests, answers),
            _ => {
                for (&digest, answer) in digests.iter().zip(answers) {
                    *answer = self.all_set(0, Walk::new(digest));
                }
            }
        }
    }
}

/// Whether all bits of a key are set. Stops at the first that is not: out of cache that saves memory traffic, and a
/// lone lookup has nothing better to do.
#[inline]
pub(crate) fn contains<S: Spread, W: ReadWords>(spread: S, words: W, digest: Digest) -> bool {
    let field = Field::new(spread, words);
    let mut walk = Walk::new(digest);
    (0..spread.hashes()).all(|i| field.probe(i, walk.next()) & 1 != 0)
}

/// Sets all bits of a key; true if any was not set before.
#[inline(always)]
pub(crate) fn insert<S: Spread, W: WriteWords>(spread: S, words: &mut W, digest: Digest) -> bool {
    check(spread.bits(), words.read().count());
    insert_some(spread, words, digest, spread.hashes())
}

/// Sets the first `hashes` bits of a key, of the `spread.hashes()` it has; for loops that know how many those are.
#[inline(always)]
fn insert_some<S: Spread, W: WriteWords>(spread: S, words: &mut W, digest: Digest, hashes: u32) -> bool {
    assert!(hashes <= spread.hashes());
    let mut walk = Walk::new(digest);
    let mut known = 1;
    for i in 0..hashes {
        let bit = spread.bit(i, walk.next());
        // SAFETY: the callers' `check` saw that all bits of the spread lie in the words; `Spread` promises that this is
        // one of them, since `i` is below its hashes.
        known &= unsafe { words.set_unchecked((bit >> 6) as usize, 1 << (bit & 63)) } >> (bit & 63);
    }
    known == 0
}

/// How many probes are prefetched and tested for every key before the survivors' others are touched: three out of
/// four absent keys of a half-full filter end here, without a branch each.
const FIRST: u32 = 2;

/// Words up to which an array is taken to be in the second-level cache (256 KB), where asking ahead of an insert costs
/// more than it brings.
const IN_CACHE: usize = 1 << 15;
/// Words up to which lookups are answered straight on (4 MB, the last-level cache): the processor overlaps their reads by
/// itself. At 1 M keys, 1.2 MB: 13.9 ns a hit so, 16.0 by sorting out the absent keys first, 18.4 by asking ahead for all.
const NEAR: usize = 1 << 19;

/// Probes `now` while asking memory for the first probes of `next`.
#[inline(always)]
pub(crate) fn contains_chunk<S: Spread, W: ReadWords>(
    spread: S,
    words: W,
    now: &[Digest],
    next: &[Digest],
    answers: &mut [bool],
) {
    assert!(now.len() <= answers.len() && now.len() <= CHUNK && next.len() <= CHUNK);
    let field = Field::new(spread, words);
    if words.count() <= NEAR {
        return field.answer(now, answers);
    }
    let first = FIRST.min(spread.hashes());
    for &digest in next {
        let mut walk = Walk::new(digest);
        for i in 0..first {
            field.prefetch(i, walk.next());
        }
    }
    let mut left = [(0usize, Walk { x: 0, step: 0 }); CHUNK];
    let mut count = 0;
    for (j, &digest) in now.iter().enumerate() {
        let mut walk = Walk::new(digest);
        let mut all = 1;
        for i in 0..first {
            all &= field.probe(i, walk.next());
        }
        left[count] = (j, walk);
        count += all as usize;
        answers[j] = all != 0;
    }
    for &(_, mut walk) in &left[..count] {
        for i in first..spread.hashes() {
            field.prefetch(i, walk.next());
        }
    }
    for &(j, walk) in &left[..count] {
        answers[j] = field.all_set(first, walk);
    }
}

/// Inserts `now` while asking memory for all probes of `next`; how many keys were certainly new. With `TELL`, `told[i]`
/// says whether the i-th was.
#[inline(always)]
pub(crate) fn insert_chunk<const TELL: bool, S: Spread, W: WriteWords>(
    spread: S,
    words: &mut W,
    now: &[Digest],
    next: &[Digest],
    told: &mut [bool; CHUNK],
) -> u64 {
    assert!(now.len() <= CHUNK && next.len() <= CHUNK);
    check(spread.bits(), words.read().count());
    let mut fresh = 0;
    if words.read().count() <= IN_CACHE {
        // Loops of their own for 1 % and 0.1 %, as in `Field::answer`.
        fresh = match spread.hashes() {
            7 => insert_each::<TELL, S, W>(spread, words, now, 7, told),
            10 => insert_each::<TELL, S, W>(spread, words, now, 10, told),
            k => insert_each::<TELL, S, W>(spread, words, now, k, told),
        };
        return fresh;
    }
    let mut coming = next.iter();
    for (&digest, told) in now.iter().zip(told) {
        if let Some(&next) = coming.next() {
            ask(spread, words.read(), next);
        }
        let new = insert(spread, words, digest);
        fresh += u64::from(new);
        if TELL {
            *told = new;
        }
    }
    for &next in coming {
        ask(spread, words.read(), next);
    }
    fresh
}

/// Inserts keys of `hashes` bits; how many were certainly new, and with `TELL` which.
#[inline(always)]
fn insert_each<const TELL: bool, S: Spread, W: WriteWords>(
    spread: S,
    words: &mut W,
    digests: &[Digest],
    hashes: u32,
    told: &mut [bool; CHUNK],
) -> u64 {
    let mut fresh = 0;
    for (&digest, told) in digests.iter().zip(told) {
        let new = insert_some(spread, words, digest, hashes);
        fresh += u64::from(new);
        if TELL {
            *told = new;
        }
    }
    fresh
}

/// Asks memory for all probes of a key.
#[inline(always)]
fn ask<S: Spread, W: ReadWords>(spread: S, words: W, digest: Digest) {
    let mut walk = Walk::new(digest);
    for i in 0..spread.hashes() {
        prefetch(words, (spread.bit(i, walk.next()) >> 6) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// T17: no digest, however odd, collapses onto a few bits.
    #[test]
    fn no_digest_stands_still() {
        for bits in [1u64 << 16, 1_000_003, 958_528, (1 << 33) + 1] {
            let spread = Whole { bits, hashes: 16 };
            let lows = (0..64).map(|j| 1u64 << j).chain([0, bits, bits / 2, u64::MAX]);
            for lo in lows {
                for hi in [0, 1, bits, u64::MAX] {
                    let mut seen = HashSet::new();
                    each_bit(spread, Digest::new(lo, hi), |bit| {
                        assert!(bit < bits);
                        seen.insert(bit);
                    });
                    assert!(seen.len() >= 15, "bits {bits} lo {lo:#x} hi {hi:#x}: {}", seen.len());
                }
            }
        }
    }

    /// T18: the positions of a key's probes are uncorrelated, near and far, up to k = 20.
    #[test]
    fn probes_are_pairwise_uncorrelated() {
        let spread = Whole { bits: 1 << 20, hashes: 20 };
        let keys = 100_000;
        let mut rows = vec![Vec::new(); 20];
        for key in 0..keys as u64 {
            let digest = Digest::from_u128(xxhash_rust::xxh3::xxh3_128(&key.to_le_bytes()));
            let mut i = 0;
            each_bit(spread, digest, |bit| {
                rows[i].push(bit as f64 / (1 << 20) as f64 - 0.5);
                i += 1;
            });
        }
        for a in 0..20 {
            for b in 0..a {
                let sum: f64 = rows[a].iter().zip(&rows[b]).map(|(x, y)| x * y).sum();
                let r = 12.0 * sum / keys as f64;
                assert!(r.abs() < 4.5 / (keys as f64).sqrt(), "probes {a} and {b}: r = {r}");
            }
        }
    }

    /// The batch forms against the single ones.
    #[test]
    fn chunks_equal_singles() {
        let spread = Whole { bits: 100_003, hashes: 7 };
        let digests: Vec<Digest> =
            (0..4_000u64).map(|key| Digest::from_u128(xxhash_rust::xxh3::xxh3_128(&key.to_le_bytes()))).collect();
        let mut single = vec![0u64; 100_003usize.div_ceil(64)];
        let mut batch = single.clone();
        for chunk in digests[..2_000].chunks(CHUNK - 1) {
            let mut told = [false; CHUNK];
            let fresh = insert_chunk::<true, _, _>(spread, &mut batch.as_mut_slice(), chunk, chunk, &mut told);
            let one_by_one: Vec<bool> =
                chunk.iter().map(|&digest| insert(spread, &mut single.as_mut_slice(), digest)).collect();
            assert_eq!(one_by_one.iter().filter(|&&new| new).count() as u64, fresh);
            assert_eq!(one_by_one, told[..chunk.len()]);
        }
        assert_eq!(single, batch);
        for chunk in digests.chunks(CHUNK) {
            let mut answers = [false; CHUNK];
            contains_chunk(spread, batch.as_slice(), chunk, &[], &mut answers);
            for (&digest, answer) in chunk.iter().zip(answers) {
                assert_eq!(contains(spread, single.as_slice(), digest), answer);
            }
        }
    }
}
