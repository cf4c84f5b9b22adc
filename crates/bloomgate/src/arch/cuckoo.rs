//! Fingerprints of any width, packed four to a bucket: where a key's two buckets are, and whether one of their eight
//! slots holds its fingerprint.
//!
//! ```text
//!  words    |......64......|......64......|......64......|   the last one is padding, always 0
//!  buckets  |...4f...|...4f...|...4f...|...4f...|            anywhere among the bits
//!  a window      |a b c d|~~~~                               64 bits from any bit on: two words, shifted together
//! ```
//!
//! A window holds four slots of up to 16 bits, two of up to 32, or one. All of its slots are compared at once: xor with
//! the fingerprint repeated, and ask whether a lane became zero (`(d - 1…1) & !d & 8…8`; what lies above the lanes can
//! not reach down into them).
//!
//! # Two buckets
//!
//! With `m = q · 2^z` buckets, `q` odd and `z` at least 1, a bucket is a pair of digits `(a, b)`, `a < q` and `b < 2^z`.
//! The other bucket of fingerprint `p` is `(S(p) - a mod q, b xor X(p))`, where the top bit of `X` is always set:
//!
//! - going there twice leads back, for every number of buckets, which need not be a power of two;
//! - the two buckets are never the same one;
//! - in a table of `2^j · m` buckets the same key has its two buckets exactly where they are here, each split in `2^j`:
//!   `S` and the first bits of `X` are those of this table. So keys that a larger table cannot tell apart, a smaller
//!   one cannot either: stages of a growing chain rely on it.

use super::words::{ReadWords, WriteWords};
use super::{CHUNK, Job, prefetch, scale};
use crate::bits::version::Version;
use crate::error::Result;
use crate::hash::Digest;
use crate::hash::digests::Digests;
use crate::math::cuckoo::{LEADING, SLOTS};

/// How the words of one shape are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Table {
    buckets: u64,
    /// `q`, the odd part of the number of buckets.
    odd: u64,
    /// `z`, how often it can be halved.
    halvings: u32,
    /// Bits of a fingerprint.
    width: u32,
    /// Bits of a fingerprint behind its leading ones.
    trailing: u32,
    /// Slots of a window.
    lanes: u32,
    /// The lowest bit of every lane.
    ones: u64,
    /// The highest bit of every lane.
    tops: u64,
}

/// Where a key is looked for: the first bits of its two buckets, and its fingerprint in every lane.
#[derive(Clone, Copy, Default)]
struct Spot {
    first: u64,
    second: u64,
    lanes: u64,
}

impl Table {
    /// The table of a shape that was checked: an even number of buckets up to 2^54, a width of 2 to 56 bits.
    pub(crate) fn new(buckets: u64, width: u32) -> Self {
        let halvings = buckets.trailing_zeros().min(63);
        let lanes = match width {
            0..=16 => 4,
            17..=32 => 2,
            _ => 1,
        };
        let ones = (0..lanes).fold(0, |ones, lane| ones | 1u64 << (lane * width));
        let trailing = width - width.min(LEADING);
        let tops = ones << (width - 1);
        Self { buckets, odd: buckets >> halvings, halvings, width, trailing, lanes, ones, tops }
    }

    /// The words of a table, padding included.
    pub(crate) fn words_of(buckets: u64, width: u32) -> Option<u64> {
        buckets.checked_mul(SLOTS * u64::from(width))?.div_ceil(64).checked_add(1)
    }

    /// The fingerprint of a key, from the second half of its digest: never 0, all values alike.
    #[inline(always)]
    pub(crate) fn fingerprint(&self, digest: Digest) -> u64 {
        let product = u128::from(digest.hi) * ((1u128 << (self.width - self.trailing)) - 1);
        let leading = (product >> 64) as u64 + 1;
        (leading << self.trailing) | ((product as u64 >> 1) >> (63 - self.trailing))
    }

    /// The first bucket of a key, from the first half of its digest.
    #[inline(always)]
    pub(crate) fn home(&self, digest: Digest) -> u64 {
        scale(digest.lo, self.buckets)
    }

    /// The other bucket of a fingerprint that has this one.
    #[inline(always)]
    pub(crate) fn other(&self, bucket: u64, fingerprint: u64) -> u64 {
        // Two multiplications: one alone keeps sums of fingerprints sums of places, and the table fills up in lumps.
        let mut hash = ((fingerprint >> self.trailing) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let sum = scale(hash, self.odd) << self.halvings;
        let flip = (hash.rotate_left(32) | 1 << 63) >> (64 - self.halvings);
        let below = (1u64 << self.halvings) - 1;
        let high = bucket & !below;
        let high = sum.wrapping_sub(high).wrapping_add(if sum < high { self.buckets } else { 0 });
        high | ((bucket & below) ^ flip)
    }

    #[inline(always)]
    fn bit(&self, bucket: u64) -> u64 {
        bucket * (SLOTS * u64::from(self.width))
    }

    /// The first and the last word of a bucket.
    #[inline(always)]
    pub(crate) fn span(&self, bucket: u64) -> (usize, usize) {
        let bit = self.bit(bucket);
        ((bit / 64) as usize, ((bit + SLOTS * u64::from(self.width) - 1) / 64) as usize)
    }

    /// Asks memory for a bucket.
    #[inline(always)]
    pub(crate) fn fetch<W: ReadWords>(&self, words: W, bucket: u64) {
        let (first, last) = self.span(bucket);
        prefetch(words, first);
        prefetch(words, last);
    }

    /// The four slots of a bucket.
    #[inline(always)]
    pub(crate) fn slots<W: ReadWords>(&self, words: W, bucket: u64) -> [u64; SLOTS as usize] {
        let (bit, width) = (self.bit(bucket), u64::from(self.width));
        let mask = (1u64 << width) - 1;
        match self.lanes {
            4 => {
                let all = window(words, bit);
                [all & mask, (all >> width) & mask, (all >> (2 * width)) & mask, (all >> (3 * width)) & mask]
            }
            2 => {
                let (ab, cd) = (window(words, bit), window(words, bit + 2 * width));
                [ab & mask, (ab >> width) & mask, cd & mask, (cd >> width) & mask]
            }
            _ => [0, 1, 2, 3].map(|slot| window(words, bit + slot * width) & mask),
        }
    }

    /// Writes one slot.
    #[inline(always)]
    pub(crate) fn put<W: WriteWords>(&self, words: &mut W, bucket: u64, slot: usize, fingerprint: u64) {
        let bit = self.bit(bucket) + slot as u64 * u64::from(self.width);
        let (at, shift) = ((bit / 64) as usize, (bit % 64) as u32);
        let mask = (1u64 << self.width) - 1;
        let low = words.read().load(at);
        words.put(at, low & !(mask << shift) | (fingerprint & mask) << shift);
        if shift + self.width > 64 {
            let high = words.read().load(at + 1);
            let there = 64 - shift;
            words.put(at + 1, high & !(mask >> there) | (fingerprint & mask) >> there);
        }
    }

    /// Whether either bucket of a key holds its fingerprint.
    #[inline(always)]
    pub(crate) fn contains<W: ReadWords>(&self, words: W, digest: Digest) -> bool {
        let spot = self.spot(digest);
        let step = u64::from(self.lanes * self.width);
        (0..SLOTS / u64::from(self.lanes)).any(|part| {
            let first = window(words, spot.first + part * step) ^ spot.lanes;
            let second = window(words, spot.second + part * step) ^ spot.lanes;
            self.any_zero(first) | self.any_zero(second) != 0
        })
    }

    #[inline(always)]
    fn any_zero(&self, window: u64) -> u64 {
        window.wrapping_sub(self.ones) & !window & self.tops
    }

    #[inline(always)]
    fn spot(&self, digest: Digest) -> Spot {
        let fingerprint = self.fingerprint(digest);
        let first = self.home(digest);
        let second = self.other(first, fingerprint);
        Spot { first: self.bit(first), second: self.bit(second), lanes: fingerprint.wrapping_mul(self.ones) }
    }
}

/// 64 bits from any bit on.
#[inline(always)]
fn window<W: ReadWords>(words: W, bit: u64) -> u64 {
    let (at, shift) = ((bit / 64) as usize, (bit % 64) as u32);
    words.load(at) >> shift | (words.load(at + 1) << 1) << (63 - shift)
}

/// A batch of lookups: one chunk is compared while memory is asked for the next.
pub(crate) struct ContainsAll<'a, W, D> {
    table: Table,
    words: W,
    /// The version that a "no" has to be held against, where other threads write.
    version: &'a Version,
    digests: D,
    answers: &'a mut [bool],
}

impl<'a, W: ReadWords, D: Digests> ContainsAll<'a, W, D> {
    /// The words must be all of this table: that is checked here, once, and nowhere below.
    pub(crate) fn new(table: Table, words: W, version: &'a Version, digests: D, answers: &'a mut [bool]) -> Self {
        assert!(Table::words_of(table.buckets, table.width) == Some(words.count() as u64), "words of another table");
        Self { table, words, version, digests, answers }
    }

    #[inline(always)]
    fn run_for<const LANES: u32>(mut self) -> Result<()> {
        let mut digests = [Digest::default(); CHUNK];
        let mut chunks = [[Spot::default(); CHUNK]; 2];
        let (mut now, mut next, mut waiting) = (0, 1, 0);
        let (table, words) = (self.table, self.words);
        loop {
            let filled = self.digests.next(&mut digests);
            let coming = *filled.as_ref().unwrap_or(&0);
            for (spot, &digest) in chunks[next].iter_mut().zip(&digests[..coming]) {
                *spot = table.spot(digest);
                let end = SLOTS * u64::from(table.width) - 1;
                prefetch(words, (spot.first / 64) as usize);
                prefetch(words, ((spot.first + end) / 64) as usize);
                prefetch(words, (spot.second / 64) as usize);
                prefetch(words, ((spot.second + end) / 64) as usize);
            }
            let (done, rest) = std::mem::take(&mut self.answers).split_at_mut(waiting);
            let spots = &chunks[now][..waiting];
            if W::SHARED {
                // What was moved while we looked may have been missed: then we look again.
                if !self.version.ask_all(|| compare::<LANES, W>(table, words, spots, done)) {
                    done.fill(true);
                }
            } else {
                compare::<LANES, W>(table, words, spots, done);
            }
            self.answers = rest;
            filled?;
            if coming == 0 {
                return Ok(());
            }
            waiting = coming;
            (now, next) = (next, now);
        }
    }
}

impl<W: ReadWords, D: Digests> Job for ContainsAll<'_, W, D> {
    type Output = Result<()>;
    #[inline(always)]
    fn run(self) -> Result<()> {
        match self.table.lanes {
            4 => self.run_for::<4>(),
            2 => self.run_for::<2>(),
            _ => self.run_for::<1>(),
        }
    }
}

#[inline(always)]
fn compare<const LANES: u32, W: ReadWords>(table: Table, words: W, spots: &[Spot], answers: &mut [bool]) {
    let step = u64::from(LANES * table.width);
    for (spot, answer) in spots.iter().zip(answers) {
        let mut hits = 0;
        for part in 0..SLOTS / u64::from(LANES) {
            for start in [spot.first, spot.second] {
                let bit = start + part * step;
                let (at, shift) = ((bit / 64) as usize, (bit % 64) as u32);
                // SAFETY: `ContainsAll::new` has seen that the words are those of the table, padding included; the
                // spot is of a bucket of the table, so its bits end in the last word but one at the latest, and
                // `at + 1` is at most the padding.
                let (low, high) = unsafe { (words.load_unchecked(at), words.load_unchecked(at + 1)) };
                hits |= table.any_zero((low >> shift | (high << 1) << (63 - shift)) ^ spot.lanes);
            }
        }
        *answer = hits != 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::cuckoo::{MAX_WIDTH, MIN_WIDTH};
    use crate::math::dice::Dice;

    /// T35: going to the other bucket twice leads back, for every size and fingerprint; and it is another one.
    #[test]
    fn the_other_of_the_other_bucket_is_the_first() {
        let mut dice = Dice(35);
        for buckets in (2..600).step_by(2).chain([1 << 20, (1 << 20) + 2, 999_998, 3 << 30, (1 << 54) - 2, 1 << 54]) {
            let table = Table::new(buckets, 10);
            for _ in 0..500 {
                let fingerprint = dice.below(1 << 10);
                let bucket = dice.below(buckets);
                let other = table.other(bucket, fingerprint);
                assert!(other < buckets && other != bucket, "{buckets} {bucket} {fingerprint}");
                assert_eq!(table.other(other, fingerprint), bucket, "{buckets} {fingerprint}");
            }
        }
    }

    /// T36: indexes are 64 bits wide all the way: a table of 2^40 buckets is used to its end, by lookups and moves.
    #[test]
    fn large_tables_are_used_to_their_end() {
        let mut dice = Dice(36);
        let buckets = (1u64 << 40) + 6;
        let table = Table::new(buckets, 12);
        let (mut home, mut other) = ([0u32; 8], [0u32; 8]);
        let draws = 80_000;
        for _ in 0..draws {
            let digest = Digest::new(dice.next(), dice.next());
            let first = table.home(digest);
            home[(first / (buckets / 8 + 1)) as usize] += 1;
            other[(table.other(first, table.fingerprint(digest)) / (buckets / 8 + 1)) as usize] += 1;
        }
        for count in home.into_iter().chain(other) {
            // 10,000 each, with a standard deviation of 94.
            assert!((f64::from(count) - 10_000.0).abs() < 4.5 * 94.0, "{home:?} {other:?}");
        }
        let (first, last) = table.span(buckets - 1);
        assert!(last - first <= 1 && last as u64 + 2 == Table::words_of(buckets, 12).unwrap());
    }

    /// T33: no digest has the fingerprint that marks an empty slot, and all others come alike.
    #[test]
    fn no_fingerprint_is_zero_and_all_are_alike() {
        for width in MIN_WIDTH..=MAX_WIDTH {
            let table = Table::new(64, width);
            for hi in [0, 1, u64::MAX, 1 << 63, u64::MAX >> 8] {
                let fingerprint = table.fingerprint(Digest::new(0, hi));
                assert!(fingerprint > 0 && fingerprint < 1 << width, "{width}: {hi}");
            }
        }
        let table = Table::new(64, 5);
        let mut dice = Dice(33);
        let mut seen = [0u32; 32];
        (0..310_000).for_each(|_| seen[table.fingerprint(Digest::new(0, dice.next())) as usize] += 1);
        assert_eq!(seen[0], 0);
        assert!(seen[1..].iter().all(|&n| (f64::from(n) - 10_000.0).abs() < 4.5 * 98.4), "{seen:?}");
    }

    /// What the growing chain relies on: a wider fingerprint and a table of twice the buckets only ever split.
    #[test]
    fn larger_tables_refine_smaller_ones() {
        let mut dice = Dice(1);
        for (buckets, width, factor, wider) in [(38, 10, 2, 10), (16, 8, 4, 13), (258, 14, 32, 20), (30, 9, 8, 40)] {
            let (coarse, fine) = (Table::new(buckets, width), Table::new(buckets * factor, wider));
            for _ in 0..10_000 {
                let digest = Digest::new(dice.next(), dice.next());
                let (p, q) = (coarse.fingerprint(digest), fine.fingerprint(digest));
                assert_eq!(q >> (wider - width), p);
                assert_eq!(fine.home(digest) / factor, coarse.home(digest));
                assert_eq!(fine.other(fine.home(digest), q) / factor, coarse.other(coarse.home(digest), p));
            }
        }
    }

    /// Slots of every width are written and read where they are, and nothing beside them changes.
    #[test]
    fn slots_keep_to_themselves() {
        let mut dice = Dice(4);
        for width in MIN_WIDTH..=MAX_WIDTH {
            let buckets = 22;
            let table = Table::new(buckets, width);
            let mut words = vec![0u64; Table::words_of(buckets, width).unwrap() as usize];
            let mut model = vec![[0u64; 4]; buckets as usize];
            for _ in 0..500 {
                let (bucket, slot) = (dice.below(buckets), dice.below(4) as usize);
                let value = dice.below(1 << width);
                table.put(&mut &mut words[..], bucket, slot, value);
                model[bucket as usize][slot] = value;
            }
            for bucket in 0..buckets {
                assert_eq!(table.slots(&words[..], bucket), model[bucket as usize], "{width} {bucket}");
            }
            assert_eq!(words.last(), Some(&0), "padding");
        }
    }

    /// The lanes compared at once say what the slots compared one by one say, in batches too.
    #[test]
    fn lanes_and_slots_agree() {
        let mut dice = Dice(5);
        for width in MIN_WIDTH..=MAX_WIDTH {
            let table = Table::new(50, width);
            let count = Table::words_of(50, width).unwrap() as usize;
            let mut words: Vec<u64> = (0..count).map(|_| dice.next() & dice.next()).collect();
            let digests: Vec<Digest> = (0..133).map(|_| Digest::new(dice.next(), dice.next())).collect();
            for &digest in digests.iter().step_by(3) {
                table.put(&mut &mut words[..], table.home(digest), dice.below(4) as usize, table.fingerprint(digest));
            }
            let mut answers = vec![false; digests.len()];
            let version = Version::new();
            ContainsAll::new(table, &words[..], &version, &digests[..], &mut answers).run().unwrap();
            for (&digest, &answer) in digests.iter().zip(&answers) {
                let fingerprint = table.fingerprint(digest);
                let (first, second) = (table.home(digest), table.other(table.home(digest), fingerprint));
                let found = [first, second].iter().any(|&b| table.slots(&words[..], b).contains(&fingerprint));
                assert_eq!(answer, found, "{width}");
                assert_eq!(table.contains(&words[..], digest), found, "{width}");
            }
            assert!(answers.contains(&true) && (width < 5 || answers.contains(&false)), "{width}");
        }
    }
}
