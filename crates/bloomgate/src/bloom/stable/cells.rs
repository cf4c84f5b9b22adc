//! Two-bit cells, 32 to a word: where a key's are, how they are set, and how a word of them is lowered at once.

use super::StableShape;
use crate::arch::words::{ReadWords, WriteWords};
use crate::arch::{CHUNK, prefetch, scale};
use crate::bloom::BlockedLayout;
use crate::error::Result;
use crate::hash::Digest;
use crate::hash::digests::Digests;
use crate::math::stable::LINE_WORDS;

/// One odd multiplier per word of a line: those of the Parquet split-block specification, whose lines have the same
/// eight words of 32. Frozen with the file format.
const SALTS: [u32; LINE_WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// A one at the lower bit of every cell.
const LOWER: u64 = 0x5555_5555_5555_5555;

/// All cells of a word lowered by one, those at zero left there: 3 = 11, 2 = 10, 1 = 01. The upper bit stays where both
/// were set, the lower bit is set where only the upper one was.
#[inline(always)]
pub(super) fn lowered(word: u64) -> u64 {
    let (upper, lower) = ((word >> 1) & LOWER, word & LOWER);
    (upper & lower) << 1 | (upper & !lower)
}

/// Which cells of a word are not zero, one bit each.
#[inline(always)]
pub(super) fn nonzero(word: u64) -> u64 {
    (word | word >> 1) & LOWER
}

/// The first word of the `section`-th line of a key. Sections lie side by side in every row, so that each has lines
/// everywhere before and behind the hand.
#[inline(always)]
pub(super) fn line_start(shape: &StableShape, hash: u64, section: u32) -> usize {
    let row = scale(hash, shape.rows());
    (row * u64::from(shape.lines_per_key()) + u64::from(section)) as usize * LINE_WORDS
}

/// Both bits of the cell that a key has in each word of a line.
#[inline(always)]
fn marks(hash: u64) -> [u64; LINE_WORDS] {
    let x = hash as u32;
    std::array::from_fn(|word| 3 << ((x.wrapping_mul(SALTS[word]) >> 27) * 2))
}

#[inline(always)]
pub(super) fn contains<W: ReadWords>(words: W, shape: &StableShape, digest: Digest) -> bool {
    let mut all = true;
    for section in 0..shape.lines_per_key() {
        let hash = BlockedLayout::line_hash(digest, section);
        let start = line_start(shape, hash, section);
        for (word, mark) in marks(hash).into_iter().enumerate() {
            all &= words.load(start + word) & mark != 0;
        }
        if !all {
            return false;
        }
    }
    all
}

/// The cells of a key by their numbers, and what each holds.
pub(super) fn cells_of<W: ReadWords>(words: W, shape: &StableShape, digest: Digest) -> Vec<(u64, u64)> {
    let mut cells = Vec::new();
    for section in 0..shape.lines_per_key() {
        let hash = BlockedLayout::line_hash(digest, section);
        let start = line_start(shape, hash, section);
        cells.extend(marks(hash).into_iter().enumerate().map(|(word, mark)| {
            let shift = mark.trailing_zeros();
            ((start + word) as u64 * 32 + u64::from(shift / 2), (words.load(start + word) >> shift) & 3)
        }));
    }
    cells
}

/// Sets the cells of a key to the top; whether any of them was zero.
#[inline(always)]
fn set<W: WriteWords>(words: &mut W, shape: &StableShape, digest: Digest) -> bool {
    let mut fresh = false;
    for section in 0..shape.lines_per_key() {
        let hash = BlockedLayout::line_hash(digest, section);
        let start = line_start(shape, hash, section);
        for (word, mark) in marks(hash).into_iter().enumerate() {
            fresh |= words.set(start + word, mark) & mark == 0;
        }
    }
    fresh
}

#[inline(always)]
fn fetch<W: ReadWords>(words: W, shape: &StableShape, digest: Digest) {
    for section in 0..shape.lines_per_key() {
        prefetch(words, line_start(shape, BlockedLayout::line_hash(digest, section), section));
    }
}

/// The hand that goes round and lowers cells. Word 0 of every line comes first, then word 1 of every line: so the words
/// of a line are an eighth of a round apart, and no line is much fuller than the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hand {
    line: u64,
    word: u64,
    /// Insertions times words, less what was swept for them: below the round.
    credit: u64,
}

impl Hand {
    /// Where it is after so many insertions.
    pub(super) fn after(shape: &StableShape, inserted: u64) -> Self {
        let (words, round) = (u128::from(shape.words()), u128::from(shape.round()));
        let credit = u128::from(inserted) * words;
        let order = (credit / round % words) as u64;
        Self { line: order % shape.lines(), word: order / shape.lines(), credit: (credit % round) as u64 }
    }

    /// Goes on by one insertion.
    #[inline(always)]
    fn sweep<W: WriteWords>(&mut self, words: &mut W, shape: &StableShape) {
        self.credit += shape.words();
        while self.credit >= shape.round() {
            self.credit -= shape.round();
            let at = self.line as usize * LINE_WORDS + self.word as usize;
            let now = words.read().load(at);
            words.put(at, lowered(now));
            self.line += 1;
            if self.line == shape.lines() {
                self.line = 0;
                self.word = (self.word + 1) % LINE_WORDS as u64;
            }
        }
    }
}

/// One insertion: the cells are set, then the hand goes on. Whether any of the cells was zero before.
#[inline(always)]
pub(super) fn insert<W: WriteWords>(words: &mut W, shape: &StableShape, hand: &mut Hand, digest: Digest) -> bool {
    let fresh = set(words, shape, digest);
    hand.sweep(words, shape);
    fresh
}

/// Asks for all, one chunk while memory is asked for the next. Loops, not closures: see `arch::Job`.
#[inline(always)]
pub(super) fn contains_all<W: ReadWords, D: Digests>(
    words: W,
    shape: &StableShape,
    mut digests: D,
    mut answers: &mut [bool],
) -> Result<()> {
    let mut chunks = [[Digest::default(); CHUNK]; 2];
    let [mut now, mut next] = chunks.each_mut();
    let mut waiting = 0;
    loop {
        let filled = digests.next(next);
        let coming = *filled.as_ref().unwrap_or(&0);
        for &digest in &next[..coming] {
            fetch(words, shape, digest);
        }
        let (done, rest) = answers.split_at_mut(waiting);
        for (answer, &digest) in done.iter_mut().zip(now.iter()) {
            *answer = contains(words, shape, digest);
        }
        answers = rest;
        if filled? == 0 {
            return Ok(());
        }
        waiting = coming;
        std::mem::swap(&mut now, &mut next);
    }
}

/// Inserts all; counts them, and those of whose cells one was zero.
#[inline(always)]
pub(super) fn insert_all<W: WriteWords, D: Digests>(
    words: &mut W,
    shape: &StableShape,
    hand: &mut Hand,
    mut digests: D,
    (inserted, fresh): (&mut u64, &mut u64),
) -> Result<()> {
    let mut chunks = [[Digest::default(); CHUNK]; 2];
    let [mut now, mut next] = chunks.each_mut();
    let mut waiting = 0;
    loop {
        let filled = digests.next(next);
        let coming = *filled.as_ref().unwrap_or(&0);
        for &digest in &next[..coming] {
            fetch(words.read(), shape, digest);
        }
        for &digest in &now[..waiting] {
            *fresh += u64::from(insert(words, shape, hand, digest));
        }
        *inserted = inserted.saturating_add(waiting as u64);
        if filled? == 0 {
            return Ok(());
        }
        waiting = coming;
        std::mem::swap(&mut now, &mut next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_lowered_cell_by_cell() {
        let mut state = 5u64;
        for _ in 0..1_000 {
            state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
            let word = state ^ (state >> 29);
            for cell in 0..32 {
                let value = |word: u64| (word >> (2 * cell)) & 3;
                assert_eq!(value(lowered(word)), value(word).saturating_sub(1));
                assert_eq!(value(nonzero(word)), u64::from(value(word) > 0));
            }
        }
    }

    /// The hand after so many insertions is the hand that went there, for any ratio of words to insertions.
    #[test]
    fn the_hand_is_where_it_went() {
        for (rows, lines, round) in [(1, 1, 1), (3, 2, 7), (7, 1, 1_000), (5, 3, 120), (2, 8, 2)] {
            let shape = StableShape::new(rows, lines, round).unwrap();
            let mut words = vec![0u64; shape.words() as usize];
            let mut hand = Hand::after(&shape, 0);
            for inserted in 1..5_000 {
                hand.sweep(&mut words.as_mut_slice(), &shape);
                assert_eq!(hand, Hand::after(&shape, inserted), "{shape:?} after {inserted}");
            }
        }
    }

    #[test]
    fn marks_are_frozen_and_even() {
        assert_eq!(marks(0), [3; LINE_WORDS]);
        let cells = |hash| marks(hash).map(|mark| mark.trailing_zeros() / 2);
        assert_eq!(cells(0x9e37_79b9_7f4a_7c15), [23, 8, 6, 22, 6, 31, 20, 25]);
        let mut counts = [[0u32; 32]; LINE_WORDS];
        for i in 0..64_000u64 {
            let hash = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
            cells(hash ^ (hash >> 32)).iter().zip(&mut counts).for_each(|(&cell, counts)| counts[cell as usize] += 1);
        }
        for counts in counts {
            let chi: f64 = counts.iter().map(|&count| (f64::from(count) - 2_000.0).powi(2) / 2_000.0).sum();
            // 31 degrees of freedom: mean 31, standard deviation 7.9.
            assert!((chi - 31.0).abs() < 4.5 * 7.9, "{chi}");
        }
    }
}
