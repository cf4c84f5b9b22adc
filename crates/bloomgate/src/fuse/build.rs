//! Solving the table: hash, share out, peel, assign.
//!
//! A key's three cells are an edge of a graph. While some cell has a single edge, that edge is taken away and put on a
//! stack; if all edges go, they are given their cells in reverse: the lone cell of each is still free then, and takes
//! the fingerprint xor the other two. Cells know only the number and the xor of their edges, and these do not hang on
//! the order of the keys: **the same set gives the same words**, in any order, with any repetitions, on any number of
//! threads.
//!
//! Large sets are cut into shards by their hashes. A shard is a table of its own, its work fits the caches, and threads
//! take one after the other.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::FuseShape;
use super::peel::{Bench, End};
use crate::arch::fuse::Places;
use crate::bits::Owned;
use crate::error::{Error, ErrorKind, Result};
use crate::math::fuse::{shards_for, table_for};

/// Seeds that are tried at one size before the table is made larger by 3 %. At its first size a table is solved by the
/// first seed in more than nine of ten cases.
const SEEDS_PER_SIZE: u32 = 3;
/// Seeds that are tried in all: the last table is 1.8 times the first.
const MAX_SEEDS: u32 = 60;

/// Solves the table for the keys, given by the first halves of their digests; the shape, the words, and how many
/// different ones there were. The halves may be sorted on the way.
pub(super) fn build(mut halves: &mut [u64], width: u32, threads: usize) -> Result<(FuseShape, Owned, u64)> {
    let mut trial = 0;
    while trial < MAX_SEEDS {
        let (end, shape, words) = attempt(halves, width, trial, threads)?;
        if end == End::Solved {
            return Ok((shape, words, halves.len() as u64));
        }
        trial += 1;
        if end == End::Repeated {
            let different = sort_and_dedup(halves);
            if different < halves.len() {
                // As if the repetitions had never come: the same size and the same seeds.
                halves = &mut halves[..different];
                trial = 0;
            }
        }
    }
    Err(Error::new(
        ErrorKind::InvalidParameter,
        format!(
            "no table for {} keys was found with {MAX_SEEDS} seeds: their digests are not random; hash the keys by a \
             contract of this library",
            halves.len()
        ),
    ))
}

/// Moves the different ones to the front, in order; how many there are.
fn sort_and_dedup(halves: &mut [u64]) -> usize {
    halves.sort_unstable();
    let mut kept = 0;
    for at in 0..halves.len() {
        if kept == 0 || halves[kept - 1] != halves[at] {
            halves[kept] = halves[at];
            kept += 1;
        }
    }
    kept
}

/// The seed of a trial: SplitMix64 of its number, so that no two are alike in many bits.
fn seed_of(trial: u32) -> u64 {
    let mut z = (u64::from(trial) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// One trial with one seed, over all shards.
fn attempt(halves: &[u64], width: u32, trial: u32, threads: usize) -> Result<(End, FuseShape, Owned)> {
    let count = halves.len() as u64;
    if count == 0 {
        let shape = FuseShape::of_nothing(width);
        return Ok((End::Solved, shape, Owned::zeroed(shape.words())?));
    }
    let shards = shards_for(count);
    let threads = threads.clamp(1, shards as usize);
    let seed = seed_of(trial);
    let mut hashes = Owned::passing(count)?;
    let shared_out = ShareOut::new(halves, seed, shards, threads, hashes.as_mut_slice());
    let (segment, segments) = table_for(shared_out.most(), trial / SEEDS_PER_SIZE);
    let shape = FuseShape::new(width, if shards > 1 { segment.max(64) } else { segment }, segments, shards, seed)?;
    let places = shape.places;
    let mut words = Owned::zeroed(shape.words())?;
    let shard_words = if shards > 1 { places.stride() * u64::from(width) / 64 } else { shape.words() } as usize;
    let parts = words.as_mut_slice().chunks_mut(shard_words).take(shards as usize).enumerate();
    let parts = Mutex::new(parts);
    let failed = AtomicBool::new(false);
    let work = || -> Result<End> {
        let mut bench = Bench::new(places, shared_out.most())?;
        while !failed.load(Ordering::Relaxed) {
            // A thread that panicked with the lock would have ended the build.
            let Some((shard, part)) = parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next() else {
                break;
            };
            let end = bench.solve(shared_out.pieces(shard), part);
            if end != End::Solved {
                failed.store(true, Ordering::Relaxed);
                return Ok(end);
            }
        }
        Ok(End::Solved)
    };
    let end = if threads == 1 {
        work()?
    } else {
        let ends: Vec<Result<End>> = std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            // A helper only panics where this thread would have too.
            std::iter::once(own).chain(helpers.into_iter().map(|helper| helper.join().expect("solving"))).collect()
        });
        let mut all = End::Solved;
        for end in ends {
            // Repetition is worth knowing whoever met it; which shard failed first is not.
            match (end?, all) {
                (End::Repeated, _) => all = End::Repeated,
                (End::Stuck, End::Solved) => all = End::Stuck,
                _ => {}
            }
        }
        all
    };
    Ok((end, shape, words))
}

/// All hashes, each thread's share of the keys grouped by shard.
struct ShareOut<'a> {
    /// For each thread the hashes of its share, and where each shard's begin in it (one more than there are shards).
    shares: Vec<(&'a [u64], Vec<usize>)>,
    shards: usize,
}

impl<'a> ShareOut<'a> {
    fn new(halves: &[u64], seed: u64, shards: u64, threads: usize, out: &'a mut [u64]) -> Self {
        let places = Places { seed, shards, starts: 0, segment: 0, width: 1 };
        let share = halves.len().div_ceil(threads).max(1);
        let mut jobs: Vec<(&[u64], &'a mut [u64])> = halves.chunks(share).zip(out.chunks_mut(share)).collect();
        let run = |(halves, out): (&[u64], &'a mut [u64])| -> (&'a [u64], Vec<usize>) {
            let starts = group(places, halves, out);
            (out, starts)
        };
        let last = jobs.pop();
        let shares = std::thread::scope(|scope| {
            let helpers: Vec<_> = jobs.into_iter().map(|job| scope.spawn(move || run(job))).collect();
            let own = last.map(run);
            helpers.into_iter().map(|helper| helper.join().expect("hashing")).chain(own).collect()
        });
        Self { shares, shards: shards as usize }
    }

    /// The hashes of a shard, in as many pieces as there were threads.
    fn pieces(&self, shard: usize) -> impl Iterator<Item = &'a [u64]> + Clone {
        self.shares.iter().map(move |(hashes, starts)| &hashes[starts[shard]..starts[shard + 1]])
    }

    /// The keys of the largest shard.
    fn most(&self) -> u64 {
        let keys = |shard| self.pieces(shard).map(<[u64]>::len).sum::<usize>();
        (0..self.shards).map(keys).max().unwrap_or(0) as u64
    }
}

/// Hashes a share of the keys and groups it by shard; where each shard's hashes begin, and where the last end.
fn group(places: Places, halves: &[u64], out: &mut [u64]) -> Vec<usize> {
    let shards = places.shards as usize;
    let mut starts = vec![0; shards + 1];
    if shards == 1 {
        for (out, &half) in out.iter_mut().zip(halves) {
            *out = places.hash(half);
        }
        starts[1] = halves.len();
        return starts;
    }
    for &half in halves {
        starts[places.shard(places.hash(half)) as usize + 1] += 1;
    }
    for shard in 0..shards {
        starts[shard + 1] += starts[shard];
    }
    let mut at = starts.clone();
    for &half in halves {
        let hash = places.hash(half);
        let at = &mut at[places.shard(hash) as usize];
        out[*at] = hash;
        *at += 1;
    }
    starts
}
