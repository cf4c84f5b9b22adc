//! The hot loops, each with a scalar version that is the specification and, where it pays, an AVX2 version
//! that must give the same bits and the same answers.
//!
//! This module knows nothing of filters, contracts or files: it takes words and hashes. Detection happens at
//! run time, once; `BLOOMGATE_SIMD=off` in the environment keeps to the scalar versions.

pub(crate) mod blocked;
pub(crate) mod cuckoo;
pub(crate) mod fuse;
pub(crate) mod probes;
pub(crate) mod quotient;
pub(crate) mod ribbon;
pub(crate) mod siphash;
pub(crate) mod words;
pub(crate) mod xxh3;

use std::sync::atomic::{AtomicU8, Ordering};

/// Keys hashed, prefetched and probed together: the width of every batch step.
///
/// 32 was best or level with the best at 20 k, 1 M, 10 M and 100 M keys; 16 leaves memory idle, 64 gains nothing.
pub const CHUNK: usize = 32;

/// Batches of fewer keys go one by one: a pipe of chunks costs 40 ns before its first key.
pub const FEW: usize = 4;

const UNKNOWN: u8 = 0;
const SCALAR: u8 = 1;
const AVX2: u8 = 2;

static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether the AVX2 versions are to be used.
#[inline(always)]
pub(crate) fn avx2() -> bool {
    match LEVEL.load(Ordering::Relaxed) {
        AVX2 => true,
        SCALAR => false,
        _ => detect(),
    }
}

#[cold]
fn detect() -> bool {
    let off = std::env::var_os("BLOOMGATE_SIMD").is_some_and(|value| value == "off");
    set_simd(!off)
}

/// Turns the AVX2 versions on (where the processor has them) or off, for tests that compare the two.
/// Returns whether they are on now.
#[doc(hidden)]
pub fn set_simd(on: bool) -> bool {
    let on = on && processor_has_avx2();
    LEVEL.store(if on { AVX2 } else { SCALAR }, Ordering::Relaxed);
    on
}

/// Whether this processor has AVX2, and with it BMI2 and the older bit instructions (all but a few made since 2013 do).
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
pub(crate) fn processor_has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

/// Whether this processor has AVX2: not to be used here.
#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
pub(crate) fn processor_has_avx2() -> bool {
    false
}

/// The name of the path in use, for reports: `avx2` or `portable`.
#[must_use]
pub fn path() -> &'static str {
    if avx2() { "avx2" } else { "portable" }
}

/// Work that is compiled twice: for any processor of the platform, and with AVX2 and BMI2 for those that have them.
///
/// `run` and all it calls on the hot path must be `#[inline(always)]`, or it is compiled once, for any processor.
pub(crate) trait Job {
    /// What comes out.
    type Output;
    /// Does the work.
    fn run(self) -> Self::Output;
}

/// Runs a job in the form that suits this processor.
#[inline]
pub(crate) fn dispatch<J: Job>(job: J) -> J::Output {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if avx2() {
        #[target_feature(enable = "avx2,bmi2")]
        fn run<J: Job>(job: J) -> J::Output {
            job.run()
        }
        // SAFETY: `avx2()` is true only where the processor has AVX2 and BMI2.
        return unsafe { run(job) };
    }
    job.run()
}

/// `hash` scaled to `0..range` by the high half of a 64 x 64 bit product: uses all 64 bits, no division, no bias
/// beyond range / 2^64 (Lemire, "Fast random integer generation in an interval", 2019).
#[inline(always)]
pub(crate) fn scale(hash: u64, range: u64) -> u64 {
    ((u128::from(hash) * u128::from(range)) >> 64) as u64
}

/// Asks for the cache line that holds a word, without waiting for it.
#[inline(always)]
pub(crate) fn prefetch<W: words::ReadWords>(words: W, word: usize) {
    prefetch_byte(words, word * 8);
}

/// The same for the word that holds a byte.
#[inline(always)]
pub(crate) fn prefetch_byte<W: words::ReadWords>(words: W, byte: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    // SAFETY: a prefetch never faults and reads nothing; wrapping_byte_add keeps the pointer arithmetic defined.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().wrapping_byte_add(byte).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = (words, byte);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T14, T15: the reducer uses all 64 bits; a range past 2^33 is hit evenly, its top half included.
    #[test]
    fn scale_is_even_past_two_to_the_33() {
        let range = (1u64 << 33) + 12_345;
        let mut bins = [0u32; 1024];
        let mut state = 7u64;
        let draws = 1 << 20;
        for _ in 0..draws {
            state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
            let mixed = (state ^ (state >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let at = scale(mixed ^ (mixed >> 29), range);
            assert!(at < range);
            bins[(u128::from(at) * 1024 / u128::from(range)) as usize] += 1;
        }
        let mean = f64::from(draws) / 1024.0;
        let chi: f64 = bins.iter().map(|&b| (f64::from(b) - mean).powi(2) / mean).sum();
        // 1,023 degrees of freedom: mean 1,023, standard deviation 45; 4.5 of them to both sides.
        assert!((chi - 1023.0).abs() < 4.5 * 45.3, "chi-square {chi}");
        assert_eq!(scale(u64::MAX, range), range - 1);
        assert_eq!(scale(0, range), 0);
    }
}
