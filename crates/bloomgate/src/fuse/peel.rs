//! One shard solved: edges counted, peeled, given their cells, packed.
//!
//! The xor of a cell's edges and their number lie in two arrays, eight bytes and one byte a cell: one record of 16 bytes
//! took twice as long at 10 million keys. Keys come in the order of their cells, and the peeling goes on from the cell
//! that was changed last, so that all steps work within a few segments at a time.

use crate::arch::fuse::{Places, bytes_mut, numbers_mut};
use crate::arch::scale;
use crate::bits::Owned;
use crate::error::Result;

/// A table of so many cells lies in the nearest caches: its keys are taken as they come.
const SMALL_CELLS: u64 = 1 << 15;

/// How one shard ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Every key has its cells.
    Solved,
    /// Some keys hold each other fast: another seed is needed.
    Stuck,
    /// Two keys have the same hash: they are the same key, or need another seed.
    Repeated,
}

/// An edge more or less in a cell's count; the two bits below are the xor of which of their cells this is to its edges.
const EDGE: u8 = 4;
/// A cell with a single edge has a count from here, to below two edges.
const fn is_alone(count: u8) -> bool {
    count / EDGE == 1
}

/// What a thread needs to solve one shard after the other: 9 bytes a key and 13 a cell.
pub(super) struct Bench {
    places: Places,
    /// The hashes in the order of their cells; later those that were taken away, in that order.
    hashes: Owned,
    /// Which of its cells each of these was alone in.
    alone_in: Owned,
    /// Of each cell the xor of its edges; later its value. Zero between two shards.
    sums: Owned,
    /// Of each cell four times the number of its edges, xor which of their cells it is. Zero between two shards.
    counts: Owned,
    /// Cells that have a single edge and wait to be looked at.
    waiting: Owned,
}

impl Bench {
    /// For shards of up to so many keys.
    pub(super) fn new(places: Places, keys: u64) -> Result<Self> {
        let cells = places.stride();
        Ok(Self {
            places,
            hashes: Owned::zeroed(keys)?,
            alone_in: Owned::zeroed(keys.div_ceil(8))?,
            sums: Owned::zeroed(cells)?,
            counts: Owned::zeroed(cells.div_ceil(8))?,
            waiting: Owned::zeroed(cells.div_ceil(2) + 2)?,
        })
    }

    /// Solves a shard into its part of the payload.
    pub(super) fn solve<'a>(&mut self, pieces: impl Iterator<Item = &'a [u64]> + Clone, out: &mut [u64]) -> End {
        let Self { places, hashes, alone_in, sums, counts, waiting } = self;
        let places = *places;
        let keys: usize = pieces.clone().map(<[u64]>::len).sum();
        let hashes = &mut hashes.as_mut_slice()[..keys];
        let cells = places.stride() as usize;
        let sums = sums.as_mut_slice();
        let counts = &mut bytes_mut(counts.as_mut_slice())[..cells];
        in_order(places, pieces.clone(), hashes);
        if !count_edges(places, hashes, sums, counts) {
            // More than 63 edges at one cell, where 2.7 are usual: some of them are one key, many times.
            sums.fill(0);
            counts.fill(0);
            return End::Repeated;
        }
        let alone_in = bytes_mut(alone_in.as_mut_slice());
        let peeled = peel(places, hashes, alone_in, sums, counts, numbers_mut(waiting.as_mut_slice()));
        if peeled < keys {
            let end = why_stuck(places, pieces, counts);
            sums.fill(0);
            counts.fill(0);
            return end;
        }
        assign(places, hashes, alone_in, sums);
        pack(places.width, sums, out);
        End::Solved
    }
}

/// Puts the hashes in the order of their first cells, roughly: a count of each of some hundred ranges, then each hash to
/// its range.
fn in_order<'a>(places: Places, pieces: impl Iterator<Item = &'a [u64]> + Clone, out: &mut [u64]) {
    if places.stride() <= SMALL_CELLS {
        let mut rest = out;
        for piece in pieces {
            let (here, after) = rest.split_at_mut(piece.len());
            here.copy_from_slice(piece);
            rest = after;
        }
        return;
    }
    // A range is a segment, or the half of one.
    let ranges = (2 * places.starts / places.segment).clamp(1, 1024);
    let mut starts = vec![0u32; ranges as usize + 1];
    for &hash in pieces.clone().flatten() {
        starts[scale(places.within(hash), ranges) as usize + 1] += 1;
    }
    for range in 0..ranges as usize {
        starts[range + 1] += starts[range];
    }
    for &hash in pieces.flatten() {
        let at = &mut starts[scale(places.within(hash), ranges) as usize];
        out[*at as usize] = hash;
        *at += 1;
    }
}

/// Tells every cell of its edges; false if one has more than it can count.
fn count_edges(places: Places, hashes: &[u64], sums: &mut [u64], counts: &mut [u8]) -> bool {
    let mut least = EDGE;
    for &hash in hashes {
        for (which, cell) in (0u8..).zip(places.local(hash)) {
            sums[cell as usize] ^= hash;
            let count = &mut counts[cell as usize];
            *count = count.wrapping_add(EDGE) ^ which;
            least = least.min(*count);
        }
    }
    least >= EDGE
}

/// Takes away edge after edge that is alone in some cell; how many. They are left in `hashes`, in that order.
fn peel(
    places: Places,
    hashes: &mut [u64],
    alone_in: &mut [u8],
    sums: &mut [u64],
    counts: &mut [u8],
    waiting: &mut [u32],
) -> usize {
    // Which of a key's cells come after the one it is alone in, round and round.
    const ONE_ON: [u8; 4] = [1, 2, 0, 0];
    const TWO_ON: [u8; 4] = [2, 0, 1, 0];
    let mut peeled = 0;
    for first in 0..counts.len() {
        if !is_alone(counts[first]) {
            continue;
        }
        waiting[0] = first as u32;
        let mut depth = 1;
        while depth > 0 {
            depth -= 1;
            let cell = waiting[depth] as usize;
            let count = counts[cell];
            if !is_alone(count) {
                continue;
            }
            let hash = sums[cell];
            let which = usize::from(count % EDGE);
            hashes[peeled] = hash;
            alone_in[peeled] = which as u8;
            peeled += 1;
            counts[cell] = 0;
            let cells = places.local(hash);
            for on in [ONE_ON[which], TWO_ON[which]] {
                let other = cells[usize::from(on)] as usize;
                let count = (counts[other] ^ on).wrapping_sub(EDGE);
                counts[other] = count;
                sums[other] ^= hash;
                // Written always, kept if alone: whether it is cannot be foretold, and a wrong guess costs 15 cycles.
                waiting[depth] = other as u32;
                depth += usize::from(is_alone(count));
            }
        }
    }
    peeled
}

/// Gives the edges their cells, the last that was taken away first.
///
/// The sums become values in place. A cell in which no edge was alone has lost all its edges, so its sum is zero; one in
/// which an edge was alone is read only by edges that went before it, and those are given their cells later.
fn assign(places: Places, hashes: &[u64], alone_in: &[u8], sums: &mut [u64]) {
    for (&hash, &which) in hashes.iter().zip(alone_in).rev() {
        let [a, b, c] = places.local(hash).map(|cell| cell as usize);
        let (own, one, other) = match which {
            0 => (a, b, c),
            1 => (b, a, c),
            _ => (c, a, b),
        };
        sums[own] = u64::from(places.fingerprint(hash)) ^ sums[one] ^ sums[other];
    }
}

/// Writes the values side by side, and leaves zeros behind.
fn pack(width: u32, values: &mut [u64], out: &mut [u64]) {
    let mut out = out.iter_mut();
    let (mut word, mut filled) = (0u64, 0);
    for value in values {
        let value = std::mem::take(value);
        word |= value << filled;
        filled += width;
        if filled >= 64 {
            out.next().into_iter().for_each(|out| *out = word);
            filled -= 64;
            // What did not fit; a value that fitted exactly leaves nothing, which a shift by all its bits says too.
            word = value >> (width - filled);
        }
    }
    if filled > 0 {
        out.next().into_iter().for_each(|out| *out = word);
    }
}

/// Whether the keys that were not taken away hold two of one hash.
fn why_stuck<'a>(places: Places, pieces: impl Iterator<Item = &'a [u64]>, counts: &[u8]) -> End {
    let left = |hash: u64| places.local(hash).into_iter().all(|cell| counts[cell as usize] >= EDGE);
    let mut left: Vec<u64> = pieces.flatten().copied().filter(|&hash| left(hash)).collect();
    left.sort_unstable();
    if left.windows(2).any(|pair| pair[0] == pair[1]) { End::Repeated } else { End::Stuck }
}
