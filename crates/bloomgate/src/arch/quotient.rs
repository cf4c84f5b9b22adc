//! The quotient filter's memory and the way through it: blocks of one cache line, rank and select, lanes compared at once.
//!
//! A rank-and-select quotient filter (Pandey, Bender, Johnson, Patro, "A general-purpose counting filter", 2017) with
//! two changes. A block is exactly one line of 512 bits, whatever the width of a remainder, so that most lookups read
//! one line; and the number of slots is free, so that memory follows the number of keys:
//!
//! ```text
//!  bits of a block   0..16     16..16+s   16+s..16+2s   16+2s..16+2s+r·s
//!                    offset    occupied   run ends      s remainders of r bits        s = min(56, 496 / (r + 2))
//!
//!  r                 6     7     8     10     13     16     20     32
//!  s                 56    55    49    41     33     27     22     14
//!  bits per slot     9.14  9.31  10.4  12.5   15.5   19.0   23.3   36.6
//! ```
//!
//! A hash h names the quotient `q = ⌊h·m / 2^64⌋` and, from the rest of that product, the remainder in `0..d`: together
//! the fingerprint `q·d + remainder = ⌊h·m·d / 2^64⌋`, which depends on the product m·d alone. So a table of other m and
//! d with the same product holds the same fingerprints: that is how it grows without the keys.
//!
//! Words may come from a hostile file or be torn by a writer: every walk here is bounded, and what makes no sense is
//! `None`, for the caller to make a "maybe" of.

use super::words::ReadWords;
use super::{CHUNK, prefetch};
use crate::error::Result;
use crate::hash::digests::Digests;

/// The words of a block.
pub(crate) const LINE: usize = 8;
/// The bits of a block's offset, and so the furthest that a run may end behind the block of its quotient.
const OFFSET_BITS: u32 = 16;
/// The greatest offset; a slot that would lie further is refused.
pub(crate) const MOST_OFFSET: u64 = (1 << OFFSET_BITS) - 1;
/// Occupied and run ends lie in the first two words together with the offset.
const MOST_PER_BLOCK: u32 = 56;
/// Slots behind the last home slot, for runs that spill over. At 85 % load a spill passes 96 slots with a chance of
/// 1e-14 (the queue of a server with Poisson arrivals: e^-0.33 for each slot); when it does, the table grows.
const TAIL: u64 = 96;
/// The most home slots, the widest interval and the most fingerprints.
pub(crate) const MOST_SLOTS: u64 = 1 << 42;
pub(crate) const MOST_INTERVAL: u64 = 1 << 48;
pub(crate) const MOST_FINGERPRINTS: u64 = 1 << 60;
/// No sound run is longer: both its ends lie within the reach of an offset.
pub(crate) const MOST_RUN: u64 = 2 * MOST_OFFSET;

/// The numbers that say where a slot lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Home slots (m).
    pub(crate) slots: u64,
    /// Fingerprints per home slot (d).
    pub(crate) interval: u64,
    /// Bits of a remainder (r).
    pub(crate) bits: u32,
    /// Slots of a block (s).
    pub(crate) per_block: u32,
    /// Blocks, the tail included.
    pub(crate) blocks: u64,
    /// 2^64 / s, rounded up: a slot below 2^48 times this has the block in its high half.
    reciprocal: u64,
    /// A one at the lowest bit of each of the lanes that fit a word.
    ones: u64,
}

/// Where a key belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) block: usize,
    /// The slot within the block.
    pub(crate) slot: u32,
    pub(crate) remainder: u64,
}

/// The first two words of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// How many slots from the block's first are taken by runs of earlier blocks.
    pub(crate) offset: u64,
    /// Which of the block's slots are the quotient of a run.
    pub(crate) occupied: u64,
    /// Which of the block's slots are the last of a run.
    pub(crate) ends: u64,
}

/// The lowest `count` bits, for counts below 64.
#[inline(always)]
pub(crate) fn low(count: u32) -> u64 {
    (1 << count) - 1
}

impl Geometry {
    /// The geometry of so many home slots with an interval, if it is one that this module can walk.
    pub(crate) fn new(slots: u64, interval: u64) -> Option<Self> {
        let allowed = (1..=MOST_SLOTS).contains(&slots)
            && (2..=MOST_INTERVAL).contains(&interval)
            && slots.checked_mul(interval).is_some_and(|all| all <= MOST_FINGERPRINTS);
        if !allowed {
            return None;
        }
        let bits = u64::BITS - (interval - 1).leading_zeros();
        let per_block = (496 / (bits + 2)).min(MOST_PER_BLOCK);
        let blocks = (slots + TAIL.min(slots)).div_ceil(u64::from(per_block));
        let lanes = u64::BITS / bits;
        let ones = (0..lanes).fold(0, |ones, lane| ones | 1 << (lane * bits));
        let reciprocal = u64::MAX / u64::from(per_block) + 1;
        Some(Self { slots, interval, bits, per_block, blocks, reciprocal, ones })
    }

    /// All slots, the tail included.
    #[inline(always)]
    pub(crate) fn all_slots(&self) -> u64 {
        self.blocks * u64::from(self.per_block)
    }

    /// The block of a slot, and the place in it.
    #[inline(always)]
    pub(crate) fn split(&self, slot: u64) -> (usize, u32) {
        let block = super::scale(slot, self.reciprocal);
        (block as usize, (slot - block * u64::from(self.per_block)) as u32)
    }

    /// The first slot of a block.
    #[inline(always)]
    pub(crate) fn first(&self, block: usize) -> u64 {
        block as u64 * u64::from(self.per_block)
    }

    /// The quotient of a home.
    #[inline(always)]
    pub(crate) fn quotient(&self, home: Home) -> u64 {
        self.first(home.block) + u64::from(home.slot)
    }

    /// Where a hash belongs.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> Home {
        let product = u128::from(hash) * u128::from(self.slots);
        let (block, slot) = self.split((product >> 64) as u64);
        Home { block, slot, remainder: super::scale(product as u64, self.interval) }
    }

    /// Where a fingerprint belongs.
    pub(crate) fn home_of(&self, fingerprint: u64) -> Home {
        let (block, slot) = self.split(fingerprint / self.interval);
        Home { block, slot, remainder: fingerprint % self.interval }
    }

    /// The bit of a block at which the remainder of a slot starts.
    #[inline(always)]
    pub(crate) fn remainder_at(&self, slot: u32) -> u32 {
        OFFSET_BITS + 2 * self.per_block + slot * self.bits
    }

    /// The bits of a block that are used.
    pub(crate) fn used_bits(&self) -> u32 {
        self.remainder_at(self.per_block)
    }

    /// The head from its two words.
    #[inline(always)]
    pub(crate) fn head_of(&self, first: u64, second: u64) -> Head {
        let both = u128::from(first) | u128::from(second) << 64;
        let slots = low(self.per_block);
        Head {
            offset: first & MOST_OFFSET,
            occupied: (both >> OFFSET_BITS) as u64 & slots,
            ends: (both >> (OFFSET_BITS + self.per_block)) as u64 & slots,
        }
    }

    /// The two words of a head, with those of their bits that are remainders left as they are.
    #[inline(always)]
    pub(crate) fn words_of(&self, head: Head, first: u64, second: u64) -> (u64, u64) {
        let mask = 1u128.checked_shl(self.remainder_at(0)).map_or(u128::MAX, |bit| bit - 1);
        let both = (u128::from(first) | u128::from(second) << 64) & !mask
            | u128::from(head.offset)
            | u128::from(head.occupied) << OFFSET_BITS
            | u128::from(head.ends) << (OFFSET_BITS + self.per_block);
        (both as u64, (both >> 64) as u64)
    }

    /// The head of a block.
    #[inline(always)]
    pub(crate) fn head<L: Lines>(&self, lines: L, block: usize) -> Head {
        self.head_of(lines.word(block, 0), lines.word(block, 1))
    }

    /// 64 bits from the start of a slot's remainder; those behind the block's end are of no meaning.
    #[inline(always)]
    fn window<L: Lines>(&self, lines: L, block: usize, slot: u32) -> u64 {
        let bit = self.remainder_at(slot);
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let above = lines.word(block, (word + 1).min(LINE - 1));
        lines.word(block, word.min(LINE - 1)) >> shift | above << 1 << (63 - shift)
    }

    /// The remainder in a slot.
    #[inline(always)]
    pub(crate) fn remainder<L: Lines>(&self, lines: L, slot: u64) -> u64 {
        let (block, slot) = self.split(slot);
        self.window(lines, block, slot) & low(self.bits)
    }

    /// The first slot behind the `rank`-th run (from 1) of a block's quotients; of rank 0, behind all runs of earlier
    /// blocks. Nothing if there is no such run within reach.
    #[inline(always)]
    pub(crate) fn behind<B: Bits, L: Lines>(&self, lines: L, block: usize, head: Head, rank: u32) -> Option<u64> {
        let from = self.first(block) + head.offset;
        if rank == 0 {
            return (from <= self.all_slots()).then_some(from);
        }
        let mut rank = rank;
        let (mut at, mut ends) = (block, head.ends);
        let mut skip = head.offset;
        if skip >= u64::from(self.per_block) {
            at += (skip / u64::from(self.per_block)) as usize;
            skip %= u64::from(self.per_block);
            if at as u64 >= self.blocks {
                return None;
            }
            ends = self.head(lines, at).ends;
        }
        ends &= !low(skip as u32);
        let most = block + 2 + (MOST_OFFSET / u64::from(self.per_block)) as usize;
        loop {
            let here = ends.count_ones();
            if here >= rank {
                return Some(self.first(at) + u64::from(B::select(ends, rank - 1)) + 1);
            }
            rank -= here;
            at += 1;
            if at as u64 >= self.blocks || at > most {
                return None;
            }
            ends = self.head(lines, at).ends;
        }
    }

    /// The first slot behind all runs whose quotient is at most this one: the slot itself is free if that is not behind
    /// it.
    #[inline(always)]
    pub(crate) fn behind_quotient<B: Bits, L: Lines>(&self, lines: L, quotient: u64) -> Option<u64> {
        let (block, slot) = self.split(quotient);
        let head = self.head(lines, block);
        self.behind::<B, L>(lines, block, head, (head.occupied & low(slot + 1)).count_ones())
    }

    /// Whether a fingerprint may be there; true where the words make no sense.
    #[inline(always)]
    pub(crate) fn contains<B: Bits, L: Lines>(&self, lines: L, home: Home) -> bool {
        let head = self.head(lines, home.block);
        let rank = (head.occupied & low(home.slot + 1)).count_ones();
        // A block that is run over whole has no ends of its own, and goes the long way.
        let ends = head.ends & u64::MAX.checked_shl(head.offset as u32).unwrap_or(0);
        let last = B::select(ends, rank.wrapping_sub(1) & 63);
        let there = head.occupied >> home.slot & 1 != 0;
        if last >= u64::BITS {
            return there && self.contains_far::<B, L>(lines, home, head, rank);
        }
        // Behind the run before, and not before its quotient.
        let before = u64::BITS - (ends & low(last)).leading_zeros();
        let start = before.max(head.offset as u32).max(home.slot);
        // 0 where the quotient has no run and the last of the others ends before it.
        let count = (last + 1).saturating_sub(start);
        if count > u64::BITS / self.bits {
            return there
                && self.scan(lines, self.first(home.block) + u64::from(start), u64::from(count), home.remainder);
        }
        there & self.any_lane(self.window(lines, home.block, start), count, home.remainder)
    }

    /// Whether one of the first `count` lanes of a word is this remainder.
    #[inline(always)]
    fn any_lane(&self, window: u64, count: u32, remainder: u64) -> bool {
        let tops = self.ones << (self.bits - 1);
        let rest = tops - self.ones;
        let differ = window ^ remainder.wrapping_mul(self.ones);
        // The top bit of a lane says that it differs; no lane carries into the next.
        let differs = ((differ & rest) + rest) | differ;
        !differs & tops & 1u64.checked_shl(count * self.bits).map_or(u64::MAX, |bit| bit - 1) != 0
    }

    /// Whether one of `count` slots holds this remainder; true if there cannot be so many.
    #[inline(never)]
    fn scan<L: Lines>(&self, lines: L, start: u64, count: u64, remainder: u64) -> bool {
        // Torn or hostile words may put the end before the start.
        if count > MOST_RUN || start > self.all_slots() || start + count > self.all_slots() {
            return true;
        }
        (start..start + count).any(|slot| self.remainder(lines, slot) == remainder)
    }

    /// The lookup of a run that ends in another block than its quotient's.
    #[inline(never)]
    fn contains_far<B: Bits, L: Lines>(&self, lines: L, home: Home, head: Head, rank: u32) -> bool {
        let run = self.behind::<B, L>(lines, home.block, head, rank - 1);
        let run = run.zip(self.behind::<B, L>(lines, home.block, head, rank));
        let Some((before, end)) = run else { return true };
        let start = before.max(self.quotient(home));
        self.scan(lines, start, end.wrapping_sub(start), home.remainder)
    }
}

/// Blocks that can be read.
pub(crate) trait Lines: Copy {
    /// A word (0 to 7) of a block.
    fn word(self, block: usize, word: usize) -> u64;
}

/// Words that may be believed as they are.
#[derive(Clone, Copy)]
pub(crate) struct Plain<R>(pub(crate) R);

impl<R: ReadWords> Lines for Plain<R> {
    #[inline(always)]
    fn word(self, block: usize, word: usize) -> u64 {
        self.0.load(block * LINE + word)
    }
}

/// Finding the n-th set bit, in a form that suits the processor.
pub(crate) trait Bits {
    /// The place of the `rank`-th set bit (from 0); 64 if there are not so many.
    fn select(word: u64, rank: u32) -> u32;
}

/// For any processor: the specification.
pub(crate) struct Portable;

impl Bits for Portable {
    /// The byte by comparing eight prefix sums at once (Vigna, "Broadword implementation of rank/select queries", 2008),
    /// the bit in it by clearing those below.
    #[inline(always)]
    fn select(word: u64, rank: u32) -> u32 {
        const EACH: u64 = 0x0101_0101_0101_0101;
        let pairs = word - ((word >> 1) & (EACH * 0x55));
        let fours = (pairs & (EACH * 0x33)) + ((pairs >> 2) & (EACH * 0x33));
        let sums = ((fours + (fours >> 4)) & (EACH * 0x0f)).wrapping_mul(EACH);
        let rank = u64::from(rank);
        if rank >= sums >> 56 {
            return u64::BITS;
        }
        let passed = (((rank * EACH) | (EACH << 7)) - sums) & (EACH << 7);
        let place = passed.count_ones() * 8;
        let mut byte = word >> place;
        for _ in 0..rank - ((sums << 8 >> place) & 0xff) {
            byte &= byte - 1;
        }
        place + byte.trailing_zeros()
    }
}

/// With PDEP, TZCNT, LZCNT and POPCNT.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
pub(crate) struct Bmi2;

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
impl Bits for Bmi2 {
    #[inline(always)]
    fn select(word: u64, rank: u32) -> u32 {
        // SAFETY: `Bmi2` is named in `dispatch` alone, behind the detection of BMI2.
        unsafe { std::arch::x86_64::_pdep_u64(1 << (rank & 63), word) }.trailing_zeros()
    }
}

/// Work that is compiled twice: for any processor, and for those with the bit instructions.
pub(crate) trait Work {
    /// What comes out.
    type Output;
    /// Does the work; must be `#[inline(always)]` with all that is hot in it.
    fn run<B: Bits>(self) -> Self::Output;
}

/// Runs work in the form that suits this processor.
#[inline(always)]
pub(crate) fn dispatch<W: Work>(work: W) -> W::Output {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if super::avx2() && bit_instructions() {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn run<W: Work>(work: W) -> W::Output {
            work.run::<Bmi2>()
        }
        // SAFETY: all these features were found on this processor.
        return unsafe { run(work) };
    }
    work.run::<Portable>()
}

/// Whether the processor has, beside AVX2 and BMI2, the older bit instructions; every one made so far does.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
#[inline(always)]
fn bit_instructions() -> bool {
    use std::sync::atomic::{AtomicU8, Ordering};
    const NO: u8 = 1;
    const YES: u8 = 2;
    static FOUND: AtomicU8 = AtomicU8::new(0);
    #[cold]
    fn find() -> bool {
        let found =
            is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("lzcnt") && is_x86_feature_detected!("popcnt");
        FOUND.store(if found { YES } else { NO }, Ordering::Relaxed);
        found
    }
    match FOUND.load(Ordering::Relaxed) {
        YES => true,
        NO => false,
        _ => find(),
    }
}

/// One lookup.
pub(crate) struct Contains<'a, L> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) lines: L,
    pub(crate) hash: u64,
}

impl<L: Lines> Work for Contains<'_, L> {
    type Output = bool;
    #[inline(always)]
    fn run<B: Bits>(self) -> bool {
        self.geometry.contains::<B, L>(self.lines, self.geometry.home(self.hash))
    }
}

/// A batch of lookups: a chunk is asked for while memory is fetched for the next.
pub(crate) struct ContainsAll<'a, R, D> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) words: R,
    pub(crate) digests: D,
    pub(crate) answers: &'a mut [bool],
}

impl<R: ReadWords, D: Digests> Work for ContainsAll<'_, R, D> {
    type Output = Result<()>;
    #[inline(always)]
    fn run<B: Bits>(self) -> Result<()> {
        let Self { words, mut digests, mut answers, .. } = self;
        // By value: the loop then knows that no answer written changes it.
        let geometry = *self.geometry;
        let mut hashes = [0; CHUNK];
        let mut homes = [[Home::default(); CHUNK]; 2];
        let (mut now, mut next) = (0, 1);
        let mut waiting = 0;
        loop {
            let filled = digests.next_lo(&mut hashes);
            let coming = *filled.as_ref().unwrap_or(&0);
            for (home, &hash) in homes[next].iter_mut().zip(&hashes[..coming.min(CHUNK)]) {
                *home = geometry.home(hash);
                prefetch(words, home.block * LINE);
            }
            let (done, rest) = answers.split_at_mut(waiting);
            for (answer, &home) in done.iter_mut().zip(&homes[now]) {
                *answer = geometry.contains::<B, _>(Plain(words), home);
            }
            answers = rest;
            filled?;
            if coming == 0 {
                return Ok(());
            }
            waiting = coming;
            (now, next) = (next, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::dice::Dice;

    fn select_slowly(word: u64, rank: u32) -> u32 {
        (0..64).filter(|&bit| word >> bit & 1 != 0).nth(rank as usize).unwrap_or(64)
    }

    struct Select(u64, u32);
    impl Work for Select {
        type Output = u32;
        #[inline(always)]
        fn run<B: Bits>(self) -> u32 {
            B::select(self.0, self.1)
        }
    }

    #[test]
    fn select_is_the_same_in_every_form() {
        let mut dice = Dice(1);
        for round in 0..3000u64 {
            let word = match round % 5 {
                0 => dice.next(),
                1 => dice.next() & dice.next() & dice.next(),
                2 => dice.next() | dice.next() | dice.next(),
                3 => 1 << (round % 64),
                _ => [0, u64::MAX, 1, 1 << 63][round as usize % 4],
            };
            for rank in 0..64 {
                let expected = select_slowly(word, rank);
                assert_eq!(Portable::select(word, rank), expected, "{word:x} {rank}");
                assert_eq!(dispatch(Select(word, rank)), expected, "{word:x} {rank}");
            }
        }
    }

    #[test]
    fn a_hash_has_one_fingerprint_whatever_the_table() {
        let mut dice = Dice(2);
        for (slots, interval) in [(3, 1 << 20), (999, 128), (3_000_003, 96), ((1 << 42) - 1, 1 << 17)] {
            let small = Geometry::new(slots, interval).unwrap();
            for _ in 0..2000 {
                let hash = dice.next();
                let fingerprint = super::super::scale(hash, slots * interval);
                let home = small.home(hash);
                assert_eq!(small.quotient(home) * interval + home.remainder, fingerprint);
                assert_eq!(small.home_of(fingerprint), home);
                assert!(u64::from(home.slot) < u64::from(small.per_block) && (home.block as u64) < small.blocks);
            }
        }
    }

    #[test]
    fn every_width_fits_its_line() {
        for bits in 1..=48 {
            let geometry = Geometry::new(1000, 1 << bits).unwrap();
            assert_eq!(geometry.bits, bits);
            assert!(geometry.used_bits() <= 512 && geometry.remainder_at(0) <= 128);
            assert!(geometry.all_slots() >= 1096);
            let head = Head { offset: 0xabcd, occupied: low(geometry.per_block), ends: 0x2a & low(geometry.per_block) };
            let (first, second) = geometry.words_of(head, u64::MAX, u64::MAX);
            assert_eq!(geometry.head_of(first, second), head);
            let wider = Geometry::new(1000, (1 << bits) - 1);
            assert!(bits == 1 || wider.is_some_and(|g| g.bits == bits || bits == 2 && g.bits == 2));
        }
        for (slots, interval) in
            [(0, 2), (1, 1), (1, 0), (MOST_SLOTS + 1, 2), (1, MOST_INTERVAL + 1), (1 << 40, 1 << 30)]
        {
            assert_eq!(Geometry::new(slots, interval), None);
        }
    }

    #[test]
    fn blocks_of_slots_are_exact() {
        for bits in [1, 7, 10, 20, 48] {
            let geometry = Geometry::new(1 << 12, 1 << bits).unwrap();
            let s = u64::from(geometry.per_block);
            for slot in (0..20_000).chain(((1 << 48) - 500)..(1 << 48)) {
                assert_eq!(geometry.split(slot), ((slot / s) as usize, (slot % s) as u32));
            }
        }
    }
}
