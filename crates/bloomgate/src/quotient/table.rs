//! Putting a fingerprint in and taking one out: the slots behind it move by one, up to the next gap.
//!
//! The table is a pure function of the fingerprints in it: runs lie in the order of their quotients, each from its
//! quotient or from the end of the run before, remainders ascend within a run, and everything else is zero. So the
//! order in which keys came, and keys that went again, leave no trace, and two tables with the same fingerprints have
//! the same bits.
//!
//! ```text
//!  quotient          0   1   2   3   4   5   6   7
//!  occupied              x       x   x
//!  runs                  [1  1]  [3  3   3] [4]            4 was pushed from its home by the three of 3
//!  run ends                  x           x   x
//! ```

use crate::arch::quotient::{Bits, Geometry, Head, Home, LINE, Lines, MOST_OFFSET, MOST_RUN, Plain, Work, low};
use crate::arch::words::{ReadWords, WriteWords};

/// How many copies of one fingerprint are kept; the last of them sticks. A key inserted ten thousand times takes 15
/// slots.
pub(crate) const COPIES: u64 = 15;

/// The most copies of one key that are held and removed exactly: one more sticks, and is never removed.
pub const MAX_COPIES: u64 = COPIES - 1;

/// No gap is searched further than this many clusters: a sound table at 90 % load has one within a few.
const MOST_CLUSTERS: usize = 4096;

/// What became of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is in, and there was none like it.
    New,
    /// It is in, beside copies.
    Again,
    /// There are [`COPIES`] already: nothing changed.
    Stuck,
    /// There is no slot for it: nothing changed.
    NoRoom,
    /// The words make no sense: nothing changed.
    Damaged,
}

/// What became of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// One copy is gone.
    Gone,
    /// There are [`COPIES`], perhaps of more: nothing changed.
    Stuck,
    /// There was none: nothing changed.
    Absent,
    /// The words make no sense: nothing changed.
    Damaged,
}

/// One block, taken out to be changed.
struct Line {
    words: [u64; LINE],
    head: Head,
}

impl Line {
    fn load<R: ReadWords>(geometry: &Geometry, words: R, block: usize) -> Self {
        let words: [u64; LINE] = std::array::from_fn(|at| words.load(block * LINE + at));
        Self { words, head: geometry.head_of(words[0], words[1]) }
    }

    fn store<W: WriteWords>(mut self, geometry: &Geometry, words: &mut W, block: usize) {
        (self.words[0], self.words[1]) = geometry.words_of(self.head, self.words[1]);
        for (at, &word) in self.words.iter().enumerate() {
            words.put(block * LINE + at, word);
        }
    }

    /// The remainder of a slot, and whether a run ends there.
    fn get(&self, geometry: &Geometry, slot: u32) -> (u64, bool) {
        let bit = geometry.remainder_at(slot);
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let above = self.words.get(word + 1).copied().unwrap_or(0);
        ((self.words[word] >> shift | above << 1 << (63 - shift)) & low(geometry.bits), self.head.ends >> slot & 1 != 0)
    }

    fn put(&mut self, geometry: &Geometry, slot: u32, (remainder, end): (u64, bool)) {
        let bit = geometry.remainder_at(slot);
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        self.words[word] = self.words[word] & !(low(geometry.bits) << shift) | remainder << shift;
        if shift + geometry.bits > 64 {
            let here = 64 - shift;
            self.words[word + 1] = self.words[word + 1] & !(low(geometry.bits) >> here) | remainder >> here;
        }
        self.head.ends = self.head.ends & !(1 << slot) | u64::from(end) << slot;
    }

    /// The bits from `from` to `to` of word `at` of the block.
    fn mask(at: usize, from: u32, to: u32) -> u64 {
        let ones = |bit: u32| 1u64.checked_shl(bit.saturating_sub(at as u32 * 64)).map_or(u64::MAX, |bit| bit - 1);
        ones(to) & !ones(from)
    }

    /// Moves the slots `from..to` up by one; slot `from` is left as it was.
    fn open(&mut self, geometry: &Geometry, from: u32, to: u32) {
        let by = geometry.bits;
        let (first, last) = (geometry.remainder_at(from) + by, geometry.remainder_at(to) + by);
        for at in ((first / 64) as usize..=(((last - 1) / 64) as usize).min(LINE - 1)).rev() {
            let below = if at == 0 { 0 } else { self.words[at - 1] };
            let moved = self.words[at] << by | below >> (64 - by);
            let mask = Self::mask(at, first, last);
            self.words[at] = self.words[at] & !mask | moved & mask;
        }
        let moving = low(to) & !low(from);
        let kept = self.head.ends & !(low(to + 1) & !low(from));
        self.head.ends = kept | (self.head.ends & moving) << 1;
    }

    /// Moves the slots `from + 1..=to` down by one; slot `to` is left as it was.
    fn close(&mut self, geometry: &Geometry, from: u32, to: u32) {
        let by = geometry.bits;
        let (first, last) = (geometry.remainder_at(from), geometry.remainder_at(to));
        if first == last {
            return;
        }
        for at in (first / 64) as usize..=((last - 1) / 64) as usize {
            let above = self.words.get(at + 1).copied().unwrap_or(0);
            let moved = self.words[at] >> by | above << (64 - by);
            let mask = Self::mask(at, first, last);
            self.words[at] = self.words[at] & !mask | moved & mask;
        }
        let moving = low(to + 1) & !low(from + 1);
        self.head.ends = self.head.ends & !(low(to) & !low(from)) | (self.head.ends & moving) >> 1;
    }
}

/// A run: its slots, and where a remainder is or belongs.
struct Run {
    start: u64,
    end: u64,
    /// The first slot with the remainder, or with a greater one; the end if there is none.
    at: u64,
    /// How many slots hold it.
    copies: u64,
}

/// The run of a home; empty, at the slot where it would start, if the quotient has none. Nothing if the words make no
/// sense.
#[inline(always)]
fn run_of<B: Bits, L: Lines>(geometry: &Geometry, lines: L, home: Home) -> Option<Run> {
    let head = geometry.head(lines, home.block);
    let below = (head.occupied & low(home.slot)).count_ones();
    let start = geometry.behind::<B, _>(lines, home.block, head, below)?.max(geometry.quotient(home));
    if head.occupied >> home.slot & 1 == 0 {
        return Some(Run { start, end: start, at: start, copies: 0 });
    }
    let end = geometry.behind::<B, _>(lines, home.block, head, below + 1)?;
    if end <= start || end - start > MOST_RUN {
        return None;
    }
    let mut at = start;
    while at < end && geometry.remainder(lines, at) < home.remainder {
        at += 1;
    }
    let copies = (at..end).take_while(|&slot| geometry.remainder(lines, slot) == home.remainder).count() as u64;
    Some(Run { start, end, at, copies })
}

/// How many copies of a fingerprint there are; nothing if the words make no sense.
pub(crate) struct Copies<'a, L> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) lines: L,
    pub(crate) home: Home,
}

impl<L: Lines> Work for Copies<'_, L> {
    type Output = Option<u64>;
    #[inline(always)]
    fn run<B: Bits>(self) -> Option<u64> {
        run_of::<B, L>(self.geometry, self.lines, self.home).map(|run| run.copies)
    }
}

/// Puts a fingerprint in.
pub(crate) struct Insert<'a, W> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) words: W,
    pub(crate) home: Home,
}

impl<W: WriteWords> Work for Insert<'_, W> {
    type Output = Put;
    #[inline(always)]
    fn run<B: Bits>(mut self) -> Put {
        insert::<B, W>(self.geometry, &mut self.words, self.home)
    }
}

#[inline(always)]
pub(crate) fn insert<B: Bits, W: WriteWords>(geometry: &Geometry, words: &mut W, home: Home) -> Put {
    let Some(Run { start, end, at, copies }) = run_of::<B, _>(geometry, Plain(words.read()), home) else {
        return Put::Damaged;
    };
    if copies >= COPIES {
        return Put::Stuck;
    }
    let Some(free) = gap::<B, _>(geometry, words.read(), end) else { return Put::NoRoom };
    // Behind its copies: fewer slots move.
    let at = at + copies;
    let (first, place) = geometry.split(at);
    let (last, gap) = geometry.split(free);
    let full = |block| geometry.head(Plain(words.read()), block).offset >= MOST_OFFSET;
    if (home.block + 1..=last).any(full) {
        return Put::NoRoom;
    }
    // A slot behind the run's last takes the end over from it.
    let appended = at == end;
    let old_end = (appended && end > start).then(|| geometry.split(end - 1));
    let mut carry = (home.remainder, appended);
    for block in home.block..=last {
        let mut line = Line::load(geometry, words.read(), block);
        if block == home.block {
            line.head.occupied |= 1 << home.slot;
        } else {
            line.head.offset += 1;
        }
        if let Some((_, slot)) = old_end.filter(|&(old, _)| old == block) {
            line.head.ends &= !(1 << slot);
        }
        if block >= first {
            let from = if block == first { place } else { 0 };
            let to = if block == last { gap } else { geometry.per_block - 1 };
            let out = line.get(geometry, to);
            line.open(geometry, from, to);
            line.put(geometry, from, carry);
            carry = out;
        }
        line.store(geometry, words, block);
    }
    if copies == 0 { Put::New } else { Put::Again }
}

/// The first free slot from one on, which is known to lie behind the run before it.
#[inline(always)]
fn gap<B: Bits, R: ReadWords>(geometry: &Geometry, words: R, from: u64) -> Option<u64> {
    let mut slot = from;
    for _ in 0..MOST_CLUSTERS {
        if slot >= geometry.all_slots() {
            return None;
        }
        let behind = geometry.behind_quotient::<B, _>(Plain(words), slot)?;
        if behind <= slot {
            return Some(slot);
        }
        slot = behind;
    }
    None
}

/// Takes a fingerprint out.
pub(crate) struct Remove<'a, W> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) words: W,
    pub(crate) home: Home,
}

impl<W: WriteWords> Work for Remove<'_, W> {
    type Output = Taken;
    #[inline(always)]
    fn run<B: Bits>(mut self) -> Taken {
        remove::<B, W>(self.geometry, &mut self.words, self.home)
    }
}

fn remove<B: Bits, W: WriteWords>(geometry: &Geometry, words: &mut W, home: Home) -> Taken {
    let Some(Run { start, end, at, copies }) = run_of::<B, _>(geometry, Plain(words.read()), home) else {
        return Taken::Damaged;
    };
    match copies {
        0 => return Taken::Absent,
        COPIES.. => return Taken::Stuck,
        _ => {}
    }
    let Some(behind) = still::<B, _>(geometry, words.read(), end) else { return Taken::Damaged };
    let (first, place) = geometry.split(at);
    let (last, freed) = geometry.split(behind - 1);
    let alone = end - start == 1;
    // The slot before the run's last becomes its last.
    let new_end = (!alone && at == end - 1).then(|| geometry.split(at - 1));
    for block in home.block..=last {
        let following =
            if block < last { Line::load(geometry, words.read(), block + 1).get(geometry, 0) } else { (0, false) };
        let mut line = Line::load(geometry, words.read(), block);
        if block > home.block {
            line.head.offset = line.head.offset.saturating_sub(1);
        } else if alone {
            line.head.occupied &= !(1 << home.slot);
        }
        if block >= first {
            let from = if block == first { place } else { 0 };
            let to = if block == last { freed } else { geometry.per_block - 1 };
            line.close(geometry, from, to);
            line.put(geometry, to, following);
        }
        if let Some((_, slot)) = new_end.filter(|&(new, _)| new == block) {
            line.head.ends |= 1 << slot;
        }
        line.store(geometry, words, block);
    }
    Taken::Gone
}

/// The first slot from a run's end on that does not move when that run becomes shorter: it is free, or its run is at home.
#[inline(always)]
fn still<B: Bits, R: ReadWords>(geometry: &Geometry, words: R, end: u64) -> Option<u64> {
    let mut slot = end;
    for _ in 0..=MOST_RUN {
        if slot >= geometry.all_slots() {
            return Some(geometry.all_slots());
        }
        let behind = geometry.behind_quotient::<B, _>(Plain(words), slot - 1)?;
        if behind <= slot {
            return Some(slot);
        }
        slot = behind;
    }
    None
}
