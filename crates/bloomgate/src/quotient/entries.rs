//! All fingerprints of a table in order, and a table from fingerprints in order: what listing, merging and growing are
//! made of. Both walk the memory once, from front to back.

use super::QuotientShape;
use super::table::COPIES;
use crate::arch::quotient::{Geometry, Head, LINE, MOST_OFFSET, Plain, low};
use crate::arch::words::ReadWords;
use crate::error::{Error, ErrorKind, Result};

/// The fingerprints of a table, ascending, each with its copies. On words that make no sense it ends early or gives
/// nonsense; it always ends.
#[derive(Clone)]
pub(crate) struct Entries<R> {
    geometry: Geometry,
    words: R,
    /// The block whose quotients are listed, and those of them that are still to come.
    block: usize,
    occupied: u64,
    /// The run being listed.
    quotient: u64,
    in_run: bool,
    /// The next slot to read: behind everything that was listed.
    slot: u64,
}

impl<R: ReadWords> Entries<R> {
    pub(crate) fn new(geometry: Geometry, words: R) -> Self {
        let occupied = geometry.head(Plain(words), 0).occupied;
        Self { geometry, words, block: 0, occupied, quotient: 0, in_run: false, slot: 0 }
    }

    /// The next quotient that has a run.
    fn next_run(&mut self) -> Option<()> {
        while self.occupied == 0 {
            self.block += 1;
            if self.block as u64 >= self.geometry.blocks {
                return None;
            }
            self.occupied = self.geometry.head(Plain(self.words), self.block).occupied;
        }
        self.quotient = self.geometry.first(self.block) + u64::from(self.occupied.trailing_zeros());
        self.occupied &= self.occupied - 1;
        self.slot = self.slot.max(self.quotient);
        self.in_run = true;
        Some(())
    }

    /// The remainder in the next slot; steps on, and leaves the run behind its end.
    fn take(&mut self) -> Option<u64> {
        if self.slot >= self.geometry.all_slots() {
            return None;
        }
        let remainder = self.geometry.remainder(Plain(self.words), self.slot);
        let (block, slot) = self.geometry.split(self.slot);
        self.in_run = self.geometry.head(Plain(self.words), block).ends >> slot & 1 == 0;
        self.slot += 1;
        Some(remainder)
    }
}

impl<R: ReadWords> Iterator for Entries<R> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if !self.in_run {
            self.next_run()?;
        }
        let remainder = self.take()?;
        let mut copies = 1;
        while self.in_run
            && self.slot < self.geometry.all_slots()
            && self.geometry.remainder(Plain(self.words), self.slot) == remainder
        {
            self.take();
            copies += 1;
        }
        Some((self.quotient * self.geometry.interval + remainder, copies))
    }
}

/// Two ascending lists as one; copies of one fingerprint add up, to [`COPIES`] at most.
pub(crate) struct Merged<A: Iterator, B: Iterator> {
    a: std::iter::Peekable<A>,
    b: std::iter::Peekable<B>,
}

impl<A: Iterator<Item = (u64, u64)>, B: Iterator<Item = (u64, u64)>> Merged<A, B> {
    pub(crate) fn new(a: A, b: B) -> Self {
        Self { a: a.peekable(), b: b.peekable() }
    }
}

impl<A: Iterator<Item = (u64, u64)>, B: Iterator<Item = (u64, u64)>> Iterator for Merged<A, B> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let (x, y) = match (self.a.peek(), self.b.peek()) {
            (Some(&x), Some(&y)) => (x, y),
            (Some(_), None) => return self.a.next(),
            _ => return self.b.next(),
        };
        if x.0 <= y.0 {
            self.a.next();
        }
        if y.0 <= x.0 {
            self.b.next();
        }
        Some(match x.0.cmp(&y.0) {
            std::cmp::Ordering::Less => x,
            std::cmp::Ordering::Greater => y,
            std::cmp::Ordering::Equal => (x.0, (x.1 + y.1).min(COPIES)),
        })
    }
}

/// Why a list did not become a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// The slots do not suffice.
    NoRoom,
    /// The list does not ascend: it came from words that make no sense.
    Damaged,
}

/// Writes ascending fingerprints into words of zero; how many slots they took.
pub(crate) fn write(
    geometry: &Geometry,
    words: &mut [u64],
    entries: impl Iterator<Item = (u64, u64)>,
) -> std::result::Result<u64, Unwritten> {
    // The first slot behind what was written, the slots written, and the block up to which offsets are right.
    let (mut behind, mut taken, mut settled) = (0u64, 0u64, 0usize);
    let mut last: Option<(u64, u64)> = None;
    for (fingerprint, copies) in entries {
        let home = geometry.home_of(fingerprint);
        let quotient = geometry.quotient(home);
        if last.is_some_and(|(before, _)| before >= fingerprint) || quotient >= geometry.slots {
            return Err(Unwritten::Damaged);
        }
        if last.is_some_and(|(_, of)| of == quotient) {
            let (block, slot) = geometry.split(behind - 1);
            flip_end(words, block, slot);
        } else {
            settle(geometry, words, &mut settled, behind, home.block)?;
            behind = behind.max(quotient);
            set(words, home.block, home.slot, 1, 1);
        }
        let copies = copies.min(COPIES);
        for _ in 0..copies {
            if behind >= geometry.all_slots() {
                return Err(Unwritten::NoRoom);
            }
            let (block, slot) = geometry.split(behind);
            set(words, block, geometry.remainder_at(slot), geometry.bits, home.remainder);
            behind += 1;
        }
        let (block, slot) = geometry.split(behind - 1);
        flip_end(words, block, slot);
        taken += copies;
        last = Some((fingerprint, quotient));
    }
    settle(geometry, words, &mut settled, behind, geometry.blocks as usize - 1)?;
    Ok(taken)
}

/// Gives the blocks up to one their offsets, now that all runs of the quotients before them are written.
fn settle(
    geometry: &Geometry,
    words: &mut [u64],
    settled: &mut usize,
    behind: u64,
    block: usize,
) -> std::result::Result<(), Unwritten> {
    while *settled < block {
        *settled += 1;
        let offset = behind.saturating_sub(geometry.first(*settled));
        if offset == 0 {
            // And so of all blocks up to this one.
            *settled = block;
            return Ok(());
        }
        if offset > MOST_OFFSET {
            return Err(Unwritten::NoRoom);
        }
        let line = &mut words[*settled * LINE..][..LINE];
        let head = geometry.head_of(line[0], line[1]);
        (line[0], line[1]) = geometry.words_of(Head { offset, ..head }, line[1]);
    }
    Ok(())
}

/// Sets bits of a block that were zero.
fn set(words: &mut [u64], block: usize, bit: u32, bits: u32, value: u64) {
    let (word, shift) = (block * LINE + (bit / 64) as usize, bit % 64);
    words[word] |= value << shift;
    if shift + bits > 64 {
        words[word + 1] |= (value & low(bits)) >> (64 - shift);
    }
}

fn flip_end(words: &mut [u64], block: usize, slot: u32) {
    words[block * LINE + 1] ^= 1 << slot;
}

/// Whether the marks of all slots fit together: every quotient with keys has one run and every run a quotient, in order,
/// and every block says truly how far the runs before it reach. Into a table that is not so a key could be inserted and
/// not be found. Walks the heads once.
pub(crate) fn sound<R: ReadWords>(geometry: &Geometry, words: R) -> bool {
    let lines = Plain(words);
    let (mut behind, mut runs, mut ends) = (0u64, 0u64, 0u64);
    for block in 0..geometry.blocks as usize {
        let Head { offset, mut occupied, ends: here } = geometry.head(lines, block);
        let first = geometry.first(block);
        if offset != behind.saturating_sub(first) {
            return false;
        }
        (runs, ends) = (runs + u64::from(occupied.count_ones()), ends + u64::from(here.count_ones()));
        while occupied != 0 {
            let quotient = first + u64::from(occupied.trailing_zeros());
            occupied &= occupied - 1;
            let Some(end) = next_end(geometry, lines, behind.max(quotient)).filter(|_| quotient < geometry.slots)
            else {
                return false;
            };
            behind = end + 1;
        }
    }
    runs == ends
}

/// The first slot from one on that is the last of a run.
fn next_end<R: ReadWords>(geometry: &Geometry, lines: Plain<R>, from: u64) -> Option<u64> {
    if from >= geometry.all_slots() {
        return None;
    }
    let (mut block, slot) = geometry.split(from);
    let mut ends = geometry.head(lines, block).ends & !low(slot);
    while ends == 0 {
        block += 1;
        if block as u64 >= geometry.blocks {
            return None;
        }
        ends = geometry.head(lines, block).ends;
    }
    Some(geometry.first(block) + u64::from(ends.trailing_zeros()))
}

/// The refusal of words that make no sense.
#[cold]
pub(crate) fn damaged() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the slots of this quotient filter contradict each other, so that what it holds is not known; nothing was \
         changed: build it again or fetch the file again",
    )
}

/// A table as it was written, or why not as an error.
pub(crate) fn written<T>(result: std::result::Result<T, Unwritten>, shape: &QuotientShape) -> Result<T> {
    result.map_err(|why| match why {
        Unwritten::Damaged => damaged(),
        Unwritten::NoRoom => no_room(shape),
    })
}

/// The refusal of a key that has no slot.
#[cold]
pub(crate) fn no_room(shape: &QuotientShape) -> Error {
    Error::new(
        ErrorKind::Full,
        format!(
            "the quotient filter has no slot for this key within reach of its own, and cannot grow ({} slots of {} \
             fingerprints); nothing was changed. If it is full, build a larger one, with grow_to(n) for keys that may come; \
             if it is not, the keys crowd: hash under a secret those that strangers choose",
            shape.slots(),
            shape.interval()
        ),
    )
}
