//! The numbers that fix a stable filter: how many lines, how many of them a key uses, and how fast they decay.

use crate::error::{Error, ErrorKind, Result};
use crate::math::stable::{LINE_CELLS, LINE_WORDS, MAX_LINES, TOP, rate, settled_rate};
use crate::promise::MAX_ITEMS;

/// The most words that the hand lowers for one insertion: no shape makes an insert slower than a microsecond.
pub(super) const MOST_SWEPT: u64 = 64;

/// The shape of a [`Stable`](super::Stable) filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StableShape {
    rows: u64,
    lines_per_key: u32,
    round: u64,
}

impl StableShape {
    /// A shape from its numbers, or why they are none.
    ///
    /// `rows` of `lines_per_key` lines of 64 bytes each, of which a key uses one line of each section; every cell is
    /// lowered by one in a `round` of so many insertions.
    pub fn new(rows: u64, lines_per_key: u32, round: u64) -> Result<Self> {
        let refuse = |what: String| Err(Error::new(ErrorKind::InvalidParameter, what));
        if !(1..=MAX_LINES).contains(&lines_per_key) {
            return refuse(format!("a key of a stable filter uses 1 to {MAX_LINES} lines, not {lines_per_key}"));
        }
        if !(1..=1 << 47).contains(&rows) {
            return refuse(format!("a stable filter has between 1 and 2^47 rows of lines, not {rows}"));
        }
        let words = rows * u64::from(lines_per_key) * LINE_WORDS as u64;
        let least = words.div_ceil(MOST_SWEPT);
        if !(least..=MAX_ITEMS.max(least)).contains(&round) {
            return refuse(format!(
                "the cells of {words} words are lowered once in {least} to 2^40 insertions, not in {round}; ask for \
                 more items or less memory"
            ));
        }
        Ok(Self { rows, lines_per_key, round })
    }

    /// Lines in each section.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many lines a key sets cells in: one of each section.
    #[must_use]
    pub fn lines_per_key(&self) -> u32 {
        self.lines_per_key
    }

    /// In how many insertions every cell is lowered once.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// All lines of 64 bytes.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.rows * u64::from(self.lines_per_key)
    }

    /// Words of memory.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.lines() * LINE_WORDS as u64
    }

    /// Bits of the last word that are always zero: none.
    pub(crate) fn spare(&self) -> u64 {
        0
    }

    /// Cells of two bits.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.lines() * LINE_CELLS
    }

    /// The cells that a key sets.
    #[must_use]
    pub fn hashes(&self) -> u32 {
        self.lines_per_key * LINE_WORDS as u32
    }

    /// How many of the latest insertions are certainly remembered: a cell is zero again only after three rounds have
    /// begun, so two of them are safe.
    #[must_use]
    pub fn remembered(&self) -> u64 {
        (TOP - 1) * self.round
    }

    /// The exact expected rate after so many different keys; it rises for three rounds and then stays.
    #[must_use]
    pub fn expected_rate(&self, items: u64) -> f64 {
        rate(self.rows, self.lines_per_key, self.round, items)
    }

    /// The rate at which it settles.
    #[must_use]
    pub fn settled_rate(&self) -> f64 {
        settled_rate(self.rows, self.lines_per_key, self.round)
    }
}
