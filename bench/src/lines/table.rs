//! A table of lines and the pipe that runs keys through it: hash, prefetch, and 32 keys later the probe.

use super::layout::{Act, Has, InsertNew, Line};
use crate::args::Fault;
use crate::memory::Pages;
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Keys in flight between prefetch and probe.
const RING: usize = 32;

/// How far ahead the keys themselves are prefetched. The random lines in flight keep the processor from seeing that
/// the keys are a stream: without this, ready hashes of 1 M keys took 5.3-6.7 ns where they take 2.2-3.8 with it.
const KEYS_AHEAD: usize = 128;

/// XXH3-64 of the eight little-endian bytes of `key` (seed 0), the fixed-length path written out so that a loop
/// over it becomes four keys per AVX2 instruction.
#[inline(always)]
pub fn xxh3_of_u64(key: u64) -> u64 {
    const PRIME: u64 = 0x9FB2_1C65_1E98_DF25;
    let mut h = key.rotate_left(32) ^ 0xC73A_B174_C5EC_D5A2;
    h ^= h.rotate_left(49) ^ h.rotate_left(24);
    h = h.wrapping_mul(PRIME);
    h ^= (h >> 35).wrapping_add(8);
    h = h.wrapping_mul(PRIME);
    h ^ (h >> 28)
}

/// Runs `A` over the lines of `keys`, 32 keys in flight; `answers` gets one answer per key.
///
/// One loop does both ends of the pipe: probe key `j` of this chunk, prefetch key `j` of the next.
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn pipe<A: Act, const HASHED: bool>(start: *mut u64, lines: u64, keys: &[u64], answers: &mut [bool]) {
    assert_eq!(keys.len(), answers.len());
    let line_of = |hash: u64| ((u128::from(hash) * u128::from(lines)) >> 64) as usize * 8;
    let hash_of = |key: u64| if HASHED { key } else { xxh3_of_u64(key) };
    let (mut hashes, mut at, mut next) = ([0u64; RING], [0usize; RING], [0u64; RING]);
    let (chunks, rest) = keys.as_chunks::<RING>();
    let (answer_chunks, answer_rest) = answers.as_chunks_mut::<RING>();
    if let Some(first) = chunks.first() {
        for j in 0..RING {
            hashes[j] = hash_of(first[j]);
            at[j] = line_of(hashes[j]);
            // SAFETY: the index is inside the table; a prefetch touches nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(at[j]).cast()) };
        }
    }
    for (number, answer) in answer_chunks.iter_mut().enumerate() {
        if let Some(coming) = chunks.get(number + 1) {
            for line in 0..4 {
                let ahead = coming.as_ptr().wrapping_add(KEYS_AHEAD + line * 8);
                _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
            }
            for j in 0..RING {
                next[j] = hash_of(coming[j]);
            }
            for j in 0..RING {
                // SAFETY: the index is inside the table, and the caller keeps the promises of `Act::act`.
                answer[j] = unsafe { A::act(start.add(at[j]), hashes[j]) };
                hashes[j] = next[j];
                at[j] = line_of(next[j]);
                // SAFETY: as above.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(at[j]).cast()) };
            }
        } else {
            for j in 0..RING {
                // SAFETY: as above.
                answer[j] = unsafe { A::act(start.add(at[j]), hashes[j]) };
            }
        }
    }
    for (key, answer) in rest.iter().zip(answer_rest) {
        let hash = hash_of(*key);
        // SAFETY: as above.
        *answer = unsafe { A::act(start.add(line_of(hash)), hash) };
    }
}

/// One key after the other, nothing prefetched: what a call per key comes to.
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn step<A: Act, const HASHED: bool>(start: *mut u64, lines: u64, keys: &[u64], answers: &mut [bool]) {
    for (key, answer) in keys.iter().zip(answers) {
        let hash = if HASHED { *key } else { xxh3_of_u64(*key) };
        let line = ((u128::from(hash) * u128::from(lines)) >> 64) as usize * 8;
        // SAFETY: the index is inside the table, and the caller keeps the promises of `Act::act`.
        *answer = unsafe { A::act(start.add(line), hash) };
    }
}

/// A table of lines of layout `L`.
pub struct SplitTable<L> {
    pages: Pages,
    start: *mut u64,
    layout: PhantomData<L>,
}

// SAFETY: the memory belongs to `pages`; the shared ways touch it with atomics only, the plain ones need `&mut`
// for writing.
unsafe impl<L> Send for SplitTable<L> {}
// SAFETY: as above.
unsafe impl<L> Sync for SplitTable<L> {}

impl<L: Line> SplitTable<L> {
    /// A table for `keys` keys at `bits` bits per key.
    pub fn new(keys: usize, bits: f64) -> Result<Self, Fault> {
        if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("bmi2") {
            return Err(Fault("the layout experiment needs a processor with AVX2 and BMI2".to_string()));
        }
        let mut pages = Pages::of_lines((keys as f64 * bits / 512.0).ceil() as usize)?;
        let start = pages.start_mut().cast::<u64>();
        Ok(Self { pages, start, layout: PhantomData })
    }

    /// Empties the table.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.start = self.pages.start_mut().cast::<u64>();
    }

    fn lines(&self) -> u64 {
        self.pages.lines() as u64
    }

    /// Does `A` to the line of every key. Only one thread at a time may do the plain kinds; see `Act`.
    pub(super) fn go<A: Act>(&self, how: How, keys: &[u64], answers: &mut [bool]) {
        // SAFETY: `new` saw AVX2 and BMI2; every line is inside `pages`, aligned and initialised; the kinds
        // that touch it plainly are run by one thread at a time (`insert` holds `&mut self`, the experiment gives
        // its plain ways one thread), and the shared kinds use atomics.
        unsafe {
            match how {
                How::Hashed => pipe::<A, true>(self.start, self.lines(), keys, answers),
                How::Batch => pipe::<A, false>(self.start, self.lines(), keys, answers),
                How::Single => step::<A, false>(self.start, self.lines(), keys, answers),
            }
        }
    }

    /// Inserts alone; each answer says whether the key was certainly new.
    pub fn insert(&mut self, how: How, keys: &[u64], answers: &mut [bool]) {
        self.go::<InsertNew<L>>(how, keys, answers);
    }

    /// Tests alone.
    pub fn contains(&self, how: How, keys: &[u64], answers: &mut [bool]) {
        self.go::<Has<L>>(how, keys, answers);
    }
}

/// How keys come: already hashed and in batches, to be hashed in batches, to be hashed one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Hashes, in batches.
    Hashed,
    /// Keys, in batches.
    Batch,
    /// Keys, one by one.
    Single,
}

impl How {
    /// The way's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            How::Hashed => "batch, hashed before",
            How::Batch => "batch, XXH3",
            How::Single => "single, XXH3",
        }
    }
}
