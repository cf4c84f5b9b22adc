//! The quotient filter's memory and the way through it: blocks of one cache line, rank and select, lanes compared at once.
//!
//! A rank-and-select quotient filter (Pandey, Bender, Johnson, Patro, "A general-purpose counting filter", 2017) with
//! two changes. A block is exactly one line of 512 bits, whatever the width of a remainder, so that most lookups read
//! one line; and the number of slots is free, so that memory follows the number of keys:
//!
//! ```text
//!  word 0      s bits: which slots are the quotient of a run; then up to 16 bits of the offset
//!  word 1      s bits: which slots are the last of a run; what is left of the offset; and then, to the end of the line,
//!              s remainders of r bits                                              s is the most that fits, 56 at most
//!
//!  r                 6     7     8     9     10    12    14    16    20    32
//!  s                 56    55    49    44    40    34    29    26    21    13
//!  bits per slot     9.14  9.31  10.4  11.6  12.8  15.1  17.7  19.7  24.4  39.4
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
/// Slots behind the last home slot, for runs that spill over. At 82 % load a spill passes 64 slots with a chance of
/// 2e-11 (the queue of a server with Poisson arrivals: e^-0.385 for each slot); when it does, the table grows.
const TAIL: u64 = 64;
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
    /// The bits of the offset that lie in word 1.
    offset_high: u32,
    /// The bit of a block at which the first remainder starts.
    base: u32,
    /// Remainders that are compared at once: those that 57 bits hold whole, whatever bit they start at.
    lanes: u32,
    /// A one at the lowest bit of each lane.
    ones: u64,
    /// The bits of a head's words that speak of slots.
    slot_mask: u64,
    /// The bits of the offset in word 1, and how far right they and those in word 0 go.
    offset_mask: u64,
    offset_shifts: [u32; 2],
    /// A one at the highest bit of each lane.
    tops: u64,
    /// A one at each of the other bits.
    rest: u64,
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

/// The bits of the offset for which word 0 has no room beside so many slots.
fn offset_high(slots: u32) -> u32 {
    OFFSET_BITS.saturating_sub(64 - slots)
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
        let fits = |slots: u32| 64 + slots + offset_high(slots) + slots * bits <= 512;
        let per_block = (1..=MOST_PER_BLOCK).rev().find(|&slots| fits(slots))?;
        let blocks = (slots + TAIL.min(slots)).div_ceil(u64::from(per_block));
        let offset_high = offset_high(per_block);
        let base = 64 + per_block + offset_high;
        let lanes = 57 / bits;
        let ones = (0..lanes).fold(0, |ones, lane| ones | 1 << (lane * bits));
        let tops = ones << (bits - 1);
        let rest = tops - ones;
        let reciprocal = u64::MAX / u64::from(per_block) + 1;
        let slot_mask = low(per_block);
        let offset_low = OFFSET_BITS - offset_high;
        // Word 1 has offset bits only where a block has more than 48 slots, and more than word 0 has offset bits.
        let offset_mask = low(offset_high) << per_block;
        let offset_shifts = [64 - offset_low, if offset_high == 0 { 0 } else { per_block - offset_low }];
        Some(Self {
            slots,
            interval,
            bits,
            per_block,
            blocks,
            reciprocal,
            offset_high,
            base,
            lanes,
            ones,
            slot_mask,
            offset_mask,
            offset_shifts,
            tops,
            rest,
        })
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
        self.base + slot * self.bits
    }

    /// The bits of a block that are used.
    pub(crate) fn used_bits(&self) -> u32 {
        self.remainder_at(self.per_block)
    }

    /// The head from its two words.
    #[inline(always)]
    pub(crate) fn head_of(&self, first: u64, second: u64) -> Head {
        let [low, high] = self.offset_shifts;
        let offset = first >> (low & 63) | (second & self.offset_mask) >> (high & 63);
        Head { offset, occupied: first & self.slot_mask, ends: second & self.slot_mask }
    }

    /// The two words of a head, with the remainders in the second left as they are.
    #[inline(always)]
    pub(crate) fn words_of(&self, head: Head, second: u64) -> (u64, u64) {
        let low_bits = OFFSET_BITS - self.offset_high;
        let remainders = if self.base < 128 { second & !low(self.base - 64) } else { 0 };
        let high = head.offset >> low_bits << self.per_block;
        (head.occupied | head.offset << (64 - low_bits), head.ends | high | remainders)
    }

    /// The head of a block.
    #[inline(always)]
    pub(crate) fn head<L: Lines>(&self, lines: L, block: usize) -> Head {
        let (first, second) = lines.head(block);
        self.head_of(first, second)
    }

    /// The remainder in a slot.
    #[inline(always)]
    pub(crate) fn remainder<L: Lines>(&self, lines: L, slot: u64) -> u64 {
        let (block, slot) = self.split(slot);
        lines.window(block, self.remainder_at(slot)) & low(self.bits)
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
    ///
    /// It does not leave early where the quotient has no run: half of all misses would, and no processor guesses which.
    /// `ALONE` keeps the scan of long runs out of the way, which leaves a single lookup registers enough.
    #[inline(always)]
    pub(crate) fn contains<B: Bits, L: Lines, const ALONE: bool>(&self, lines: L, home: Home) -> bool {
        let head = self.head(lines, home.block);
        let there = head.occupied >> (home.slot & 63) & 1 != 0;
        let rank = (head.occupied << ((63 - home.slot) & 63)).count_ones();
        // Of a block that is run over whole the ends are those of others.
        let ends = head.ends & u64::MAX << (head.offset & 63);
        let last = B::select(ends, rank.wrapping_sub(1) & 63);
        if u64::from(last) | head.offset >= 64 {
            return there && self.contains_far::<B, L>(lines, home.block, home.slot, home.remainder);
        }
        // Behind the run before, and not before its quotient.
        let before = u64::BITS - (ends & low(last)).leading_zeros();
        let start = before.max(head.offset as u32).max(home.slot);
        // 0 where the quotient has no run and the last of the others ends before it.
        let count = (last + 1).saturating_sub(start);
        if count > self.lanes {
            return there
                && if ALONE {
                    self.scan_aside(lines, home.block, start, count, home.remainder)
                } else {
                    self.scan(lines, home.block, start, count, home.remainder)
                };
        }
        there & self.any_lane(lines.window(home.block, self.remainder_at(start)), count, home.remainder)
    }

    /// Whether one of the first `count` lanes of a word is this remainder.
    #[inline(always)]
    fn any_lane(&self, window: u64, count: u32, remainder: u64) -> bool {
        let Self { tops, rest, .. } = *self;
        let differ = window ^ remainder.wrapping_mul(self.ones);
        // The top bit of a lane says that it differs; no lane carries into the next.
        let differs = ((differ & rest) + rest) | differ;
        !differs & tops & low(count * self.bits) != 0
    }

    /// Whether one of `count` slots of a block is this remainder.
    #[inline(always)]
    fn scan<L: Lines>(&self, lines: L, block: usize, start: u32, count: u32, remainder: u64) -> bool {
        let (mut start, mut count) = (start, count);
        loop {
            let some = count.min(self.lanes);
            if self.any_lane(lines.window(block, self.remainder_at(start)), some, remainder) {
                return true;
            }
            if some == count {
                return false;
            }
            (start, count) = (start + some, count - some);
        }
    }

    /// [`scan`](Self::scan) out of the way: a single lookup then needs few registers.
    #[inline(never)]
    fn scan_aside<L: Lines>(&self, lines: L, block: usize, start: u32, count: u32, remainder: u64) -> bool {
        self.scan(lines, block, start, count, remainder)
    }

    /// The lookup of a run that ends in another block than its quotient's: mostly in the next.
    #[inline(never)]
    fn contains_far<B: Bits, L: Lines>(&self, lines: L, block: usize, slot: u32, remainder: u64) -> bool {
        let head = self.head(lines, block);
        let rank = (head.occupied & low(slot + 1)).count_ones();
        let next = block + 1;
        if head.offset < u64::from(self.per_block) && (next as u64) < self.blocks {
            let ends = head.ends & !low(head.offset as u32);
            let following = self.head(lines, next).ends;
            let missing = rank.wrapping_sub(ends.count_ones()).wrapping_sub(1);
            let last = B::select(following, missing & 63);
            if last < u64::BITS && missing < u64::BITS {
                let before = following & low(last);
                // Behind the run before in this block or in the next; a run that starts here goes on there.
                let start = (u64::BITS - ends.leading_zeros()).max(head.offset as u32).max(slot);
                let there = u64::BITS - before.leading_zeros();
                return missing == 0
                    && start < self.per_block
                    && self.scan(lines, block, start, self.per_block - start, remainder)
                    || self.scan(lines, next, there, last + 1 - there, remainder);
            }
        }
        let home = Home { block, slot, remainder };
        let run = self.behind::<B, L>(lines, block, head, rank.saturating_sub(1));
        let Some((before, end)) = run.zip(self.behind::<B, L>(lines, block, head, rank)) else { return true };
        let start = before.max(self.quotient(home));
        // Torn or hostile words may put the end before the start.
        start >= end || end - start > MOST_RUN || (start..end).any(|slot| self.remainder(lines, slot) == remainder)
    }
}

/// Blocks that can be read.
pub(crate) trait Lines: Copy {
    /// The first two words of a block.
    fn head(self, block: usize) -> (u64, u64);
    /// The bits of a block from one on: 57 of them, or all up to the end of the block. Others are of no meaning.
    fn window(self, block: usize, bit: u32) -> u64;
}

/// The window over two words.
#[inline(always)]
pub(crate) fn window(bit: u32, word: impl Fn(usize) -> u64) -> u64 {
    let (at, shift) = ((bit / 64) as usize, bit % 64);
    word(at.min(LINE - 1)) >> shift | word((at + 1).min(LINE - 1)) << 1 << (63 - shift)
}

/// Words that may be believed as they are.
#[derive(Clone, Copy)]
pub(crate) struct Plain<R>(pub(crate) R);

impl<R: ReadWords> Plain<R> {
    /// The first word of a block.
    #[inline(always)]
    fn first(self, block: usize) -> usize {
        assert!(block < self.0.count() / LINE);
        block * LINE
    }
}

impl<R: ReadWords> Lines for Plain<R> {
    #[inline(always)]
    fn head(self, block: usize) -> (u64, u64) {
        let first = self.first(block);
        // SAFETY: `first` has seen that all eight words of the block are there.
        unsafe { (self.0.load_unchecked(first), self.0.load_unchecked(first + 1)) }
    }

    #[inline(always)]
    fn window(self, block: usize, bit: u32) -> u64 {
        let first = self.first(block);
        if R::SHARED || cfg!(any(miri, loom, target_endian = "big")) {
            // SAFETY: `first` has seen that all eight words of the block are there, and `at` is below 8.
            return window(bit, |at| unsafe { self.0.load_unchecked(first + at) });
        }
        // One read from the byte on, or the last eight bytes of the block.
        let byte = (bit / 8).min(56);
        // SAFETY: eight bytes from byte 56 of a block at most, which `first` has seen to be there; nobody writes to words
        // that are not shared while they are borrowed.
        let word = unsafe { self.0.as_ptr().add(first).byte_add(byte as usize).read_unaligned() };
        word >> ((bit - byte * 8) & 63)
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
    if super::avx2() {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn run<W: Work>(work: W) -> W::Output {
            work.run::<Bmi2>()
        }
        // SAFETY: `avx2()` is true only where the processor has all of these.
        return unsafe { run(work) };
    }
    work.run::<Portable>()
}

/// One lookup. Not a [`Work`]: its arguments stay in registers this way, a fifth of the time in cache.
#[inline(always)]
pub(crate) fn contains<L: Lines>(geometry: &Geometry, lines: L, hash: u64) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if super::avx2() {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn contains<L: Lines>(geometry: &Geometry, lines: L, hash: u64) -> bool {
            geometry.contains::<Bmi2, L, true>(lines, geometry.home(hash))
        }
        // SAFETY: `avx2()` is true only where the processor has all of these.
        return unsafe { contains(geometry, lines, hash) };
    }
    contains_portably(geometry, lines, hash)
}

/// [`contains`] where there are no bit instructions; out of the way of where there are.
#[inline(never)]
fn contains_portably<L: Lines>(geometry: &Geometry, lines: L, hash: u64) -> bool {
    geometry.contains::<Portable, L, true>(lines, geometry.home(hash))
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
                *answer = geometry.contains::<B, _, false>(Plain(words), home);
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
            assert!(geometry.all_slots() >= 1064);
            let head = Head { offset: 0xabcd, occupied: low(geometry.per_block), ends: 0x2a & low(geometry.per_block) };
            let (first, second) = geometry.words_of(head, u64::MAX);
            assert_eq!(geometry.head_of(first, second), head);
            assert_eq!(geometry.words_of(head, second), (first, second));
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
