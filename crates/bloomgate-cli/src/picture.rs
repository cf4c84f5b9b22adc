//! A picture of the bits: how full each region is, and the first bits themselves.
//!
//! A healthy filter is even: every region as full as every other. A stripe or a hole is a sign of keys that were chosen
//! or of bits that were lost.

use crate::screen::{DIM, INK, paint};

/// The regions in a line, which leaves room for the labels in 80 columns.
pub const COLUMNS: usize = 64;
/// The lines of regions at most.
pub const LINES: usize = 3;
/// Bits that are drawn one by one: two lines of braille.
pub const FIRST_BITS: usize = COLUMNS * 16;

/// How wide a cell is: one bit, or a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// A bit.
    Bit,
    /// A counter of 4, 8 or 16 bits.
    Counter(u32),
}

impl Cell {
    fn bits(self) -> u64 {
        match self {
            Self::Bit => 1,
            Self::Counter(bits) => u64::from(bits),
        }
    }

    /// The cells in these bytes that are not zero.
    fn set(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Counter(4) => bytes.iter().map(|b| u64::from(b & 15 != 0) + u64::from(b >> 4 != 0)).sum(),
            Self::Counter(8) => bytes.iter().map(|&b| u64::from(b != 0)).sum(),
            Self::Counter(_) => bytes.as_chunks::<2>().0.iter().map(|&pair| u64::from(pair != [0, 0])).sum(),
            Self::Bit => bytes.iter().map(|b| u64::from(b.count_ones())).sum(),
        }
    }
}

/// The fill of a payload by region, gathered while its bytes pass by.
pub struct Regions {
    cell: Cell,
    bytes: u64,
    region: u64,
    set: Vec<u64>,
    first: Vec<bool>,
}

impl Regions {
    /// For a payload of so many bytes, in lines of regions.
    pub fn new(cell: Cell, bytes: u64, lines: usize) -> Self {
        let regions = (COLUMNS * lines.clamp(1, LINES)) as u64;
        // Whole words, so that no counter lies across a border.
        let region = bytes.div_ceil(regions).next_multiple_of(8).max(8);
        Self { cell, bytes, region, set: vec![0; bytes.div_ceil(region) as usize], first: Vec::new() }
    }

    /// Some bytes of the payload, in order.
    pub fn add(&mut self, mut offset: u64, mut bytes: &[u8]) {
        if self.cell == Cell::Bit {
            let missing = FIRST_BITS.saturating_sub(self.first.len());
            self.first.extend(bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).take(missing));
        }
        while !bytes.is_empty() {
            let room = (self.region - offset % self.region).min(bytes.len() as u64) as usize;
            let (here, rest) = bytes.split_at(room);
            if let Some(set) = self.set.get_mut((offset / self.region) as usize) {
                *set += self.cell.set(here);
            }
            (offset, bytes) = (offset + room as u64, rest);
        }
    }

    /// All cells that are set.
    pub fn set(&self) -> u64 {
        self.set.iter().sum()
    }

    /// The share of set cells in each region.
    pub fn fills(&self) -> Vec<f64> {
        let cells = |at: usize| {
            let start = at as u64 * self.region;
            (self.bytes - start).min(self.region) * 8 / self.cell.bits()
        };
        self.set.iter().enumerate().map(|(at, &set)| set as f64 / cells(at).max(1) as f64).collect()
    }

    /// The regions, each a character as dark as it is full.
    pub fn heat(&self, unicode: bool) -> String {
        let line = |fills: &[f64]| fills.iter().map(|&fill| shade(fill, unicode)).collect::<String>();
        self.fills().chunks(COLUMNS).map(|fills| format!("    {}\n", paint(INK, line(fills)))).collect()
    }

    /// How to read the regions, and how even they are.
    pub fn legend(&self, unicode: bool) -> String {
        let fills = self.fills();
        let low = fills.iter().copied().fold(1.0, f64::min);
        let high = fills.iter().copied().fold(0.0, f64::max);
        let scale = if unicode { "▁ 0-12 % … █ 88-100 %" } else { ". 0-10 % ... @ 90-100 %" };
        let regions = crate::number::counted(fills.len() as u64, "region");
        let text = format!("    {regions}, {:.1} % to {:.1} % set ({scale})", low * 100.0, high * 100.0);
        paint(DIM, text) + "\n"
    }

    /// The first bits one by one: eight in a character, down the left column of dots and then the right. Nothing
    /// without Unicode, and for counters.
    pub fn dots(&self, unicode: bool) -> String {
        const DOTS: [u32; 8] = [1, 2, 4, 64, 8, 16, 32, 128];
        if !unicode || self.first.is_empty() {
            return String::new();
        }
        let mut out = String::new();
        for line in self.first.chunks(COLUMNS * 8) {
            let glyphs: String = line
                .chunks(8)
                .map(|bits| bits.iter().zip(DOTS).filter(|(bit, _)| **bit).map(|(_, dot)| dot).sum::<u32>())
                .filter_map(|dots| char::from_u32(0x2800 + dots))
                .collect();
            out.push_str(&format!("    {}\n", paint(INK, glyphs)));
        }
        out.push_str(&paint(DIM, format!("    the first {} bits", self.first.len())));
        out.push('\n');
        out
    }
}

/// A character as dark as the region is full.
fn shade(fill: f64, unicode: bool) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const PLAIN: [char; 10] = ['.', ':', '-', '=', '+', 'x', 'o', '%', '#', '@'];
    let of = |glyphs: &[char]| glyphs[((fill * glyphs.len() as f64) as usize).min(glyphs.len() - 1)];
    match (fill == 0.0, unicode) {
        (true, _) => ' ',
        (false, true) => of(&BLOCKS),
        (false, false) => of(&PLAIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_add_up_however_the_bytes_come() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for cell in [Cell::Bit, Cell::Counter(4), Cell::Counter(8), Cell::Counter(16)] {
            let mut whole = Regions::new(cell, bytes.len() as u64, LINES);
            whole.add(0, &bytes);
            let mut pieces = Regions::new(cell, bytes.len() as u64, LINES);
            for (at, piece) in bytes.chunks(1000).enumerate() {
                pieces.add(at as u64 * 1000, piece);
            }
            assert_eq!(whole.fills(), pieces.fills());
            assert_eq!(whole.set.iter().sum::<u64>(), cell.set(&bytes));
            assert!(whole.fills().len() <= COLUMNS * LINES && whole.fills().iter().all(|f| (0.0..=1.0).contains(f)));
        }
    }

    #[test]
    fn a_hole_is_seen_and_small_filters_are_drawn() {
        let mut bytes = vec![0xff; 64 * 8 * 2];
        bytes[8..16].fill(0);
        let mut regions = Regions::new(Cell::Bit, bytes.len() as u64, 2);
        regions.add(0, &bytes);
        assert_eq!(regions.fills().iter().filter(|&&fill| fill == 0.0).count(), 1);
        for unicode in [true, false] {
            let drawn = regions.heat(unicode) + &regions.legend(unicode) + &regions.dots(unicode);
            let drawn = anstream::adapter::strip_str(&drawn).to_string();
            assert!(drawn.lines().all(|line| line.chars().count() <= 80), "{drawn}");
            assert_eq!(drawn.is_ascii(), !unicode);
            let full = if unicode { '█' } else { '@' };
            assert!(drawn.lines().next().unwrap().starts_with(&format!("    {full} {full}")), "{drawn}");
        }
        let mut one = Regions::new(Cell::Bit, 8, LINES);
        one.add(0, &[1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(one.fills(), [1.0 / 64.0]);
        assert_eq!(Regions::new(Cell::Bit, 0, 1).heat(true), "");
    }
}
