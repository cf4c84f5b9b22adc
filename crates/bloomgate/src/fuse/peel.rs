//! One shard solved: edges counted, peeled, given their cells, packed.
//!
//! The xor of a cell's edges and their number lie in two arrays, eight bytes and one byte a cell: one record of 16 bytes
//! took twice as long at 10 million keys. Keys come in the order of their cells, and the peeling goes on from the cell
//! that was changed last, so that all steps work within a few segments at a time.

use crate::arch::fuse::{Places, bytes_mut};
use crate::arch::scale;
use crate::bits::Owned;
use crate::error::Result;

/// A table of so many cells lies in the nearest caches: its keys are taken as they come.
const SMALL_CELLS: u64 = 1 << 15;

/// Cells that can wait at once: a few hundred do, and what does not fit is found again.
const QUEUE: usize = 1 << 14;
/// When fewer wait, further cells are gone through, so many at a time.
const FEW: usize = 64;
const SCAN: usize = 512;

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

/// What a thread needs to solve one shard after the other: 9 bytes a key and 9 a cell.
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
    waiting: Box<[u32; QUEUE]>,
}

impl Bench {
    /// For shards of up to so many keys.
    pub(super) fn new(places: Places, keys: u64) -> Result<Self> {
        let cells = places.stride();
        Ok(Self {
            places,
            hashes: Owned::passing(keys)?,
            alone_in: Owned::passing(keys.div_ceil(8))?,
            sums: Owned::passing(cells)?,
            counts: Owned::passing(cells.div_ceil(8))?,
            waiting: Box::new([0; QUEUE]),
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
        let peeled = peel(places, hashes, alone_in, sums, counts, waiting);
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
    for piece in pieces.clone() {
        for &hash in piece {
            starts[scale(places.within(hash), ranges) as usize + 1] += 1;
        }
    }
    for range in 0..ranges as usize {
        starts[range + 1] += starts[range];
    }
    for piece in pieces {
        for &hash in piece {
            let at = &mut starts[scale(places.within(hash), ranges) as usize];
            out[*at as usize] = hash;
            *at += 1;
        }
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

/// Which of a key's cells come after the one it is alone in, round and round; a fourth entry for the two bits' fourth
/// value, which a count never has.
const ONE_ON: [u8; 4] = [1, 2, 0, 0];
const TWO_ON: [u8; 4] = [2, 0, 1, 0];

/// Takes away edge after edge that is alone in some cell; how many. They are left in `hashes`, in that order.
///
/// Cells that wait are looked at first come, first served: neighbours in the queue have nothing to do with each other, so
/// that the processor works on several at a time. The cells are gone through from one end, and since the peeling
/// runs in from the ends, all that waits lies within a few segments.
fn peel(
    places: Places,
    hashes: &mut [u64],
    alone_in: &mut [u8],
    sums: &mut [u64],
    counts: &mut [u8],
    waiting: &mut [u32; QUEUE],
) -> usize {
    let mut peeled = 0;
    loop {
        let before = peeled;
        let mut dropped = false;
        let (mut scanned, mut head, mut tail) = (0, 0usize, 0usize);
        loop {
            if tail - head < FEW {
                let until = counts.len().min(scanned + SCAN);
                for (cell, &count) in (scanned as u32..).zip(&counts[scanned..until]) {
                    waiting[tail % QUEUE] = cell;
                    tail += usize::from(is_alone(count));
                }
                scanned = until;
                if head == tail {
                    if scanned == counts.len() {
                        break;
                    }
                    continue;
                }
            }
            let cell = waiting[head % QUEUE] as usize;
            head += 1;
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
                waiting[tail % QUEUE] = other as u32;
                tail += usize::from(is_alone(count));
            }
            if tail - head > QUEUE - 4 {
                // Two of those that wait are let go, and found again when the cells are gone through once more.
                tail -= 2;
                dropped = true;
            }
        }
        if !dropped || peeled == before {
            return peeled;
        }
    }
}

/// Gives the edges their cells, the last that was taken away first.
///
/// The sums become values in place. A cell in which no edge was alone has lost all its edges, so its sum is zero; one in
/// which an edge was alone is read only by edges that went before it, and those are given their cells later.
fn assign(places: Places, hashes: &[u64], alone_in: &[u8], sums: &mut [u64]) {
    for (&hash, &which) in hashes.iter().zip(alone_in).rev() {
        let cells = places.local(hash);
        let which = usize::from(which % EDGE).min(2);
        let one = sums[cells[usize::from(ONE_ON[which])] as usize];
        let other = sums[cells[usize::from(TWO_ON[which])] as usize];
        sums[cells[which] as usize] = u64::from(places.fingerprint(hash)) ^ one ^ other;
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
