//! Where a key of a binary fuse filter looks, and how a cell of any width is read.
//!
//! A key has three cells in three neighbouring segments, and they xor to its fingerprint (Graf & Lemire, "Binary Fuse
//! Filters", 2022). Cells of 8, 16 and 32 bits are read as such; all others lie packed, bit after bit, and are read by
//! the smallest unaligned load that covers them: a load of 8 bytes would cross a cache line for 11 % of the cells, one
//! of 2 bytes (up to 9 bits) does for 1.6 %.

use super::words::ReadWords;
use super::{CHUNK, prefetch_byte, scale};

/// Odd numbers without structure: the fractions of the golden ratio and of the square root of 7.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
const STAMP: u64 = 0xA54F_F53A_5F1D_36F1;

/// The most bits that a place in a segment has; two such places lie side by side in a hash.
pub(crate) const SEGMENT_BITS: u32 = 18;

/// From the first half of a digest to three cells and a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places {
    /// What made this table of all that can be tried succeed.
    pub(crate) seed: u64,
    /// Tables side by side, each of the keys whose hashes lie in one range.
    pub(crate) shards: u64,
    /// The cells of a shard in which a key's first cell can lie: all but its last two segments.
    pub(crate) starts: u64,
    /// Cells of a segment: a power of two.
    pub(crate) segment: u64,
    /// Bits of a cell.
    pub(crate) width: u32,
}

impl Places {
    /// The hash under this seed: a full product folded, so that every bit of it depends on every bit of the digest's
    /// half, and another seed gives another graph.
    #[inline(always)]
    pub(crate) fn hash(&self, lo: u64) -> u64 {
        let product = u128::from(lo ^ self.seed) * u128::from(SPREAD);
        (product as u64) ^ ((product >> 64) as u64)
    }

    /// The shard of a hash. Shards are ranges of hashes.
    #[inline(always)]
    pub(crate) fn shard(&self, hash: u64) -> u64 {
        scale(hash, self.shards)
    }

    /// Where a hash lies within its shard, as a share of 2^64.
    #[inline(always)]
    pub(crate) fn within(&self, hash: u64) -> u64 {
        hash.wrapping_mul(self.shards)
    }

    /// The cells of a shard.
    #[inline(always)]
    pub(crate) fn stride(&self) -> u64 {
        self.starts + 2 * self.segment
    }

    /// The three cells of a hash in its shard: the first anywhere in the starts by the high bits, the others in the two
    /// segments after it by 18 low bits each. All are below the stride whatever the hash is.
    #[inline(always)]
    pub(crate) fn local(&self, hash: u64) -> [u64; 3] {
        let first = scale(self.within(hash), self.starts);
        let mask = self.segment - 1;
        [first, (first + self.segment) ^ ((hash >> SEGMENT_BITS) & mask), (first + 2 * self.segment) ^ (hash & mask)]
    }

    /// The bits at which the three cells of a hash begin.
    #[inline(always)]
    fn bits(&self, hash: u64) -> [u64; 3] {
        let base = self.shard(hash) * self.stride();
        let width = u64::from(self.width);
        let [a, b, c] = self.local(hash);
        [(base + a) * width, (base + b) * width, (base + c) * width]
    }

    /// The fingerprint: the top of a second product, which hangs on all bits of the hash and not on the cells alone.
    #[inline(always)]
    pub(crate) fn fingerprint(&self, hash: u64) -> u32 {
        (hash.wrapping_mul(STAMP) >> (64 - self.width)) as u32
    }

    /// The cells of all shards.
    fn cells(&self) -> u128 {
        u128::from(self.shards) * u128::from(self.stride())
    }

    /// The words that the cells fill, and one more behind packed cells, so that a load may reach past the last.
    pub(crate) fn words(&self) -> u128 {
        (self.cells() * u128::from(self.width)).div_ceil(64) + u128::from(!matches!(self.width, 8 | 16 | 32))
    }

    /// The bits of the last word that no cell has.
    pub(crate) fn spare(&self) -> u64 {
        let used = self.cells() * u128::from(self.width);
        let before = (self.words() - 1) * 64;
        if used <= before { u64::MAX } else { u64::MAX.checked_shl((used - before) as u32).unwrap_or(0) }
    }

    /// Calls `visit` with every word that the cells of this half of a digest lie in, until it says false; whether it
    /// never did.
    pub(crate) fn each_word(&self, lo: u64, mut visit: impl FnMut(usize) -> bool) -> bool {
        self.bits(self.hash(lo)).into_iter().all(|bit| {
            let (first, last) = (bit >> 6, (bit + u64::from(self.width) - 1) >> 6);
            visit(first as usize) && (first == last || visit(last as usize))
        })
    }

    /// The value of one cell, by its number over all shards. The words are those of [`words`](Self::words).
    #[cfg(test)]
    pub(crate) fn cell<W: ReadWords>(&self, words: W, cell: u64) -> u32 {
        any_load(words, cell * u64::from(self.width), self.width) & self.mask()
    }

    #[inline(always)]
    fn mask(&self) -> u32 {
        u32::MAX >> (32 - self.width)
    }
}

/// A way to load the cell that begins at a bit. Bits above the cell's are anything.
trait Load {
    /// How many bytes behind the first the load reaches, if it may cross into another cache line.
    const REACH: usize;
    /// # Safety
    /// The words must be at least [`Places::words`] many for a table of the width that [`contains_all`] takes this load
    /// for, and the bit one of its cells.
    unsafe fn load<W: ReadWords>(words: W, bit: u64, width: u32) -> u32;
}

/// A load of a `$number` that covers the cell: for cells that are such numbers, and for packed ones that begin at any
/// bit, where it may reach another line.
macro_rules! load {
    ($name:ident, $number:ty, $reach:expr) => {
        struct $name;
        impl Load for $name {
            const REACH: usize = $reach;
            #[inline(always)]
            unsafe fn load<W: ReadWords>(words: W, bit: u64, width: u32) -> u32 {
                #[cfg(all(target_endian = "little", not(loom)))]
                if !W::SHARED {
                    let _ = width;
                    let byte = (bit >> 3) as usize;
                    // SAFETY: the cell lies in the words, and where the load is longer than the cell a whole word
                    // follows, so that the load ends inside them; nobody writes to words that are not shared.
                    let number = unsafe { words.as_ptr().cast::<u8>().add(byte).cast::<$number>().read_unaligned() };
                    return (number >> (bit & 7)) as u32;
                }
                any_load(words, bit, width)
            }
        }
    };
}
load!(One, u8, 0);
load!(Two, u16, 0);
load!(Four, u32, 0);
load!(PackedTwo, u16, 1);
load!(PackedFour, u32, 3);
load!(PackedEight, u64, 7);

/// The same by whole words: for words shared between threads, and where the first byte is not the lowest.
#[inline(always)]
fn any_load<W: ReadWords>(words: W, bit: u64, width: u32) -> u32 {
    let (word, shift) = ((bit >> 6) as usize, (bit & 63) as u32);
    let low = words.load(word) >> shift;
    let high = if shift + width > 64 { words.load(word + 1) << (64 - shift) } else { 0 };
    (low | high) as u32
}

/// Runs `$body` with `$load` as the load that suits the width.
macro_rules! with_load {
    ($width:expr, $load:ident => $body:expr) => {
        match $width {
            8 => {
                type $load = One;
                $body
            }
            16 => {
                type $load = Two;
                $body
            }
            32 => {
                type $load = Four;
                $body
            }
            0..=9 => {
                type $load = PackedTwo;
                $body
            }
            10..=25 => {
                type $load = PackedFour;
                $body
            }
            _ => {
                type $load = PackedEight;
                $body
            }
        }
    };
}

/// Whether the cells of one half of a digest xor to its fingerprint.
///
/// # Panics
/// If the words are not exactly those of the places.
#[inline]
pub(crate) fn contains<W: ReadWords>(places: Places, words: W, lo: u64) -> bool {
    assert_eq!(words.count() as u128, places.words());
    let hash = places.hash(lo);
    let [a, b, c] = places.bits(hash);
    let width = places.width;
    with_load!(width, L => {
        // SAFETY: the words were just counted, the cells are below the stride, and the load suits the width.
        let found = unsafe { L::load(words, a, width) ^ L::load(words, b, width) ^ L::load(words, c, width) };
        (found ^ places.fingerprint(hash)) & places.mask() == 0
    })
}

/// Where the keys of a chunk look, and what they must find there.
#[derive(Clone, Copy)]
struct Aim {
    bits: [[u64; 3]; CHUNK],
    fingerprints: [u32; CHUNK],
    count: usize,
}

/// Lookups by the chunk: one chunk is answered while memory is asked for the cells of the next.
pub(crate) struct Lookups<W> {
    places: Places,
    words: W,
    aims: [Aim; 2],
    now: usize,
}

impl<W: ReadWords> Lookups<W> {
    /// # Panics
    /// If the words are not exactly those of the places.
    #[inline(always)]
    pub(crate) fn new(places: Places, words: W) -> Self {
        assert_eq!(words.count() as u128, places.words());
        let aim = Aim { bits: [[0; 3]; CHUNK], fingerprints: [0; CHUNK], count: 0 };
        Self { places, words, aims: [aim; 2], now: 0 }
    }

    /// How many answers the next step writes: as many as halves came with the last.
    #[inline(always)]
    pub(crate) fn waiting(&self) -> usize {
        self.aims[self.now].count
    }

    /// Takes the next halves of digests, and answers those of the step before.
    #[inline(always)]
    pub(crate) fn step(&mut self, coming: &[u64], answers: &mut [bool]) {
        // SAFETY: `new` has counted the words, and the load suits the width.
        with_load!(self.places.width, L => unsafe { self.step_by::<L>(coming, answers) });
    }

    /// # Safety
    /// As for [`Load::load`].
    #[inline(always)]
    unsafe fn step_by<L: Load>(&mut self, coming: &[u64], answers: &mut [bool]) {
        let Self { places, words, .. } = *self;
        let [one, other] = &mut self.aims;
        let (now, next) = if self.now == 0 { (one, other) } else { (other, one) };
        let (width, mask) = (places.width, places.mask());
        let coming = &coming[..coming.len().min(CHUNK)];
        let answers = &mut answers[..now.count];
        // Key by key, not chunk by chunk: the misses start as evenly as the processor can take them.
        for at in 0..coming.len().max(answers.len()) {
            if let Some(&lo) = coming.get(at) {
                let hash = places.hash(lo);
                let bits = places.bits(hash);
                for bit in bits {
                    let byte = (bit >> 3) as usize;
                    prefetch_byte(words, byte);
                    if L::REACH > 0 {
                        // Nearly always the same line, and then nearly free; else a miss that nobody had asked for.
                        prefetch_byte(words, byte + L::REACH);
                    }
                }
                next.bits[at] = bits;
                next.fingerprints[at] = places.fingerprint(hash);
            }
            if let Some(answer) = answers.get_mut(at) {
                let [a, b, c] = now.bits[at];
                // SAFETY: these are cells of these places, aimed at one step ago; the rest is passed on to the caller.
                let found = unsafe { L::load(words, a, width) ^ L::load(words, b, width) ^ L::load(words, c, width) };
                *answer = (found ^ now.fingerprints[at]) & mask == 0;
            }
        }
        next.count = coming.len();
        self.now ^= 1;
    }
}

/// Words seen as bytes, for counters beside the words of a build.
pub(crate) fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the same memory, alone for as long as `words` is borrowed; every byte of a u64 is a u8.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}
