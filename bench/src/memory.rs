//! Memory as a filter would take it: 2 MB-aligned, with huge pages asked for from 4 MB up.

use memmap2::{Advice, MmapMut};

/// The size of a huge page, and the alignment that lets the first one be used.
const HUGE: usize = 2 << 20;

/// From this size on huge pages are asked for.
const HUGE_FROM: usize = 4 << 20;

/// Zeroed, 64-byte-aligned memory of a whole number of cache lines, all of it touched.
pub struct Pages {
    map: MmapMut,
    start: usize,
    lines: usize,
}

impl Pages {
    /// `lines` cache lines of 64 bytes.
    pub fn of_lines(lines: usize) -> std::io::Result<Self> {
        let bytes = lines.max(1) * 64;
        let mut map = MmapMut::map_anon(bytes + HUGE)?;
        let start = map.as_ptr().align_offset(HUGE);
        if bytes >= HUGE_FROM {
            // A system without huge pages answers with an error; small pages then do, slower.
            let _ = map.advise_range(Advice::HugePage, start, bytes);
        }
        // Reading memory nobody wrote reads one shared page of zeros from the cache, so every page is written first.
        map[start..start + bytes].fill(1);
        map[start..start + bytes].fill(0);
        Ok(Self { map, start, lines: lines.max(1) })
    }

    /// How many cache lines there are.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.lines * 64
    }

    /// All bytes back to zero.
    pub fn clear(&mut self) {
        let end = self.start + self.bytes();
        self.map[self.start..end].fill(0);
    }

    /// The first byte, 64-byte-aligned, for writing.
    pub fn start_mut(&mut self) -> *mut u8 {
        self.map[self.start..].as_mut_ptr()
    }
}

/// How many bytes of this process stand on huge pages now, where the system tells.
pub fn huge_bytes() -> Option<usize> {
    let smaps = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = smaps.lines().find(|line| line.starts_with("AnonHugePages:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_and_clean() {
        let mut pages = Pages::of_lines(100_000).expect("6.4 MB of memory");
        assert_eq!(pages.start_mut().align_offset(64), 0);
        assert_eq!(pages.bytes(), 6_400_000);
        assert!(pages.map[pages.start..pages.start + 6_400_000].iter().all(|&byte| byte == 0));
        let start = pages.start;
        pages.map[start + 77] = 9;
        pages.clear();
        assert_eq!(pages.map[start + 77], 0);
    }
}
