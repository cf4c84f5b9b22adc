//! Kernels for the machine at hand. The scalar form of each is its specification; a faster form gives
//! the same bits, and its tests say so.
//!
//! Which form runs is decided once, at first use: AVX2 when the processor has it, unless the
//! environment says `BLOOMGATE_SIMD=off`.

pub(crate) mod siphash;
pub(crate) mod xxh3;

use std::sync::atomic::{AtomicU8, Ordering};

/// 0 not looked yet, 1 scalar only, 2 AVX2.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Whether the AVX2 kernels may run: one relaxed load after the first call.
#[inline]
pub(crate) fn avx2() -> bool {
    match LEVEL.load(Ordering::Relaxed) {
        0 => look(),
        level => level == 2,
    }
}

#[cold]
fn look() -> bool {
    let off = std::env::var_os("BLOOMGATE_SIMD").is_some_and(|value| value.eq_ignore_ascii_case("off"));
    set_simd(!off);
    LEVEL.load(Ordering::Relaxed) == 2
}

/// Turns the SIMD kernels off, or back on where the processor has them: a switch for tests, which run
/// every answer both ways.
#[doc(hidden)]
pub fn set_simd(on: bool) {
    LEVEL.store(if on && processor_has_avx2() { 2 } else { 1 }, Ordering::Relaxed);
}

/// Whether this processor has AVX2.
pub(crate) fn processor_has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}
