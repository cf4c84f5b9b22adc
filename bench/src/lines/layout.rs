//! The two layouts of a 512-bit line, and what can be done to a line of either once it is near.

use std::arch::asm;
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Odd constants, one per word; the last four are used by `8x1` alone.
const SALTS: [u32; 8] =
    [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1, 0xD3A2_646D, 0xFD70_46C5, 0xB55A_4F09];

/// One layout of a 512-bit line.
pub trait Line: Send + Sync + 'static {
    /// The layout's name in tables.
    const NAME: &'static str;

    /// Tests both halves of a line at once.
    ///
    /// # Safety
    /// The processor has AVX2 and BMI2.
    unsafe fn has(low: __m256i, high: __m256i, hash: u64) -> bool;

    /// Both halves with the bits of `hash` set.
    ///
    /// # Safety
    /// The processor has AVX2 and BMI2.
    unsafe fn with(low: __m256i, high: __m256i, hash: u64) -> (__m256i, __m256i);

    /// The word and the mask of each atomic write, through `visit`; stops nowhere.
    fn words(hash: u64, visit: impl FnMut(usize, u64));
}

/// Eight words, one bit each.
pub struct Eight;

impl Eight {
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn masks(hash: u64) -> (__m256i, __m256i) {
        let salts = _mm256_setr_epi32(
            SALTS[0] as i32,
            SALTS[1] as i32,
            SALTS[2] as i32,
            SALTS[3] as i32,
            SALTS[4] as i32,
            SALTS[5] as i32,
            SALTS[6] as i32,
            SALTS[7] as i32,
        );
        let places = _mm256_srli_epi32::<26>(_mm256_mullo_epi32(_mm256_set1_epi32(hash as i32), salts));
        let one = _mm256_set1_epi64x(1);
        let low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(places));
        let high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(places));
        (_mm256_sllv_epi64(one, low), _mm256_sllv_epi64(one, high))
    }
}

impl Line for Eight {
    const NAME: &'static str = "8x1";

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn has(low: __m256i, high: __m256i, hash: u64) -> bool {
        let (low_mask, high_mask) = Self::masks(hash);
        (_mm256_testc_si256(low, low_mask) & _mm256_testc_si256(high, high_mask)) != 0
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn with(low: __m256i, high: __m256i, hash: u64) -> (__m256i, __m256i) {
        let (low_mask, high_mask) = Self::masks(hash);
        (_mm256_or_si256(low, low_mask), _mm256_or_si256(high, high_mask))
    }

    #[inline(always)]
    fn words(hash: u64, mut visit: impl FnMut(usize, u64)) {
        for (word, salt) in SALTS.iter().enumerate() {
            visit(word, 1 << ((hash as u32).wrapping_mul(*salt) >> 26));
        }
    }
}

/// Four words, two bits each.
pub struct Four;

impl Four {
    /// The products and the masks of the four lanes.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn masks(hash: u64) -> (__m256i, __m256i) {
        let salts = _mm256_setr_epi64x(SALTS[0].into(), SALTS[1].into(), SALTS[2].into(), SALTS[3].into());
        let product = _mm256_mul_epu32(_mm256_set1_epi64x(hash as i64), salts);
        let (one, six) = (_mm256_set1_epi64x(1), _mm256_set1_epi64x(63));
        let first = _mm256_and_si256(_mm256_srli_epi64::<26>(product), six);
        let second = _mm256_and_si256(_mm256_srli_epi64::<20>(product), six);
        let mask = _mm256_or_si256(_mm256_sllv_epi64(one, first), _mm256_sllv_epi64(one, second));
        (_mm256_slli_epi64::<44>(product), mask)
    }

    /// Lane by lane: `one` where the sign of `by` is clear, `other` where it is set.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn choose(one: __m256i, other: __m256i, by: __m256i) -> __m256i {
        _mm256_castpd_si256(_mm256_blendv_pd(
            _mm256_castsi256_pd(one),
            _mm256_castsi256_pd(other),
            _mm256_castsi256_pd(by),
        ))
    }
}

impl Line for Four {
    const NAME: &'static str = "4x2";

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn has(low: __m256i, high: __m256i, hash: u64) -> bool {
        let (select, mask) = Self::masks(hash);
        _mm256_testc_si256(Self::choose(low, high, select), mask) != 0
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn with(low: __m256i, high: __m256i, hash: u64) -> (__m256i, __m256i) {
        let (select, mask) = Self::masks(hash);
        let nothing = _mm256_setzero_si256();
        let low = _mm256_or_si256(low, Self::choose(mask, nothing, select));
        let high = _mm256_or_si256(high, Self::choose(nothing, mask, select));
        (low, high)
    }

    #[inline(always)]
    fn words(hash: u64, mut visit: impl FnMut(usize, u64)) {
        for (lane, salt) in SALTS[..4].iter().enumerate() {
            let product = (hash as u32).wrapping_mul(*salt);
            let mask = (1u64 << (product >> 26)) | (1u64 << ((product >> 20) & 63));
            visit(lane + 4 * ((product >> 19) & 1) as usize, mask);
        }
    }
}

/// What is done to a line once it is near.
pub trait Act {
    /// # Safety
    /// The processor has AVX2 and BMI2; `line` is 64-byte-aligned and its 64 bytes are initialised and live;
    /// the plain kinds need that no other thread touches the line, the shared kinds that none touches it but
    /// with atomics.
    unsafe fn act(line: *mut u64, hash: u64) -> bool;
}

macro_rules! act {
    ($(#[$doc:meta])* $name:ident, $line:ident, $hash:ident, $body:expr) => {
        $(#[$doc])*
        pub struct $name<L>(PhantomData<L>);
        impl<L: Line> Act for $name<L> {
            #[inline]
            #[target_feature(enable = "avx2,bmi1,bmi2")]
            unsafe fn act($line: *mut u64, $hash: u64) -> bool {
                // SAFETY: the promises of `Act::act`, kept by the caller.
                unsafe { $body }
            }
        }
    };
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn load(line: *const u64) -> (__m256i, __m256i) {
    let line = line.cast::<__m256i>();
    // SAFETY: the caller promises 64 aligned, live bytes.
    unsafe { (_mm256_load_si256(line), _mm256_load_si256(line.add(1))) }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn store(line: *mut u64, low: __m256i, high: __m256i) {
    let line = line.cast::<__m256i>();
    // SAFETY: the caller promises 64 aligned, live bytes that no one else reads meanwhile.
    unsafe {
        _mm256_store_si256(line, low);
        _mm256_store_si256(line.add(1), high);
    }
}

/// Both halves of a line by loads the compiler cannot see into: eight relaxed word loads as far as the language
/// is concerned, two instructions for the processor.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn load_shared(line: *const u64) -> (__m256i, __m256i) {
    let (low, high): (__m256i, __m256i);
    // SAFETY: the caller promises 64 aligned, live bytes; the instructions only read them.
    unsafe {
        asm!(
            "vmovdqa {low}, ymmword ptr [{line}]",
            "vmovdqa {high}, ymmword ptr [{line} + 32]",
            line = in(reg) line,
            low = out(ymm_reg) low,
            high = lateout(ymm_reg) high,
            options(readonly, nostack, preserves_flags),
        );
    }
    (low, high)
}

/// A line as eight atomic words.
#[inline(always)]
unsafe fn atomics<'a>(line: *mut u64) -> &'a [AtomicU64; 8] {
    // SAFETY: the caller promises 64 aligned, live bytes that others touch with atomics only.
    unsafe { &*line.cast::<[AtomicU64; 8]>() }
}

act!(
    /// Sets bits, alone, and says nothing.
    Insert, line, hash, {
        let (low, high) = load(line);
        let (low, high) = L::with(low, high, hash);
        store(line, low, high);
        false
    }
);
act!(
    /// Sets bits, alone, and says whether one was missing.
    InsertNew, line, hash, {
        let (low, high) = load(line);
        let new = !L::has(low, high, hash);
        let (low, high) = L::with(low, high, hash);
        store(line, low, high);
        new
    }
);
act!(
    /// Tests, alone.
    Has, line, hash, {
        let (low, high) = load(line);
        L::has(low, high, hash)
    }
);
act!(
    /// Sets bits with one locked `or` per word, and says nothing.
    SharedInsert, line, hash, {
        let words = atomics(line);
        L::words(hash, |word, mask| {
            words[word].fetch_or(mask, Relaxed);
        });
        false
    }
);
act!(
    /// Looks first; writes only if a bit is missing, with one locked `or` per word.
    SharedLookInsert, line, hash, {
        let (low, high) = load_shared(line);
        let new = !L::has(low, high, hash);
        if new {
            let words = atomics(line);
            L::words(hash, |word, mask| {
                words[word].fetch_or(mask, Relaxed);
            });
        }
        new
    }
);
act!(
    /// Sets bits and learns from the old words whether one was missing: a compare-exchange loop on x86-64.
    SharedFetchInsert, line, hash, {
        let words = atomics(line);
        let mut new = false;
        L::words(hash, |word, mask| {
            new |= words[word].fetch_or(mask, Relaxed) & mask != mask;
        });
        new
    }
);
act!(
    /// Tests with relaxed loads of single words.
    SharedHasWords, line, hash, {
        let words = atomics(line);
        let mut missing = 0u64;
        L::words(hash, |word, mask| missing |= !words[word].load(Relaxed) & mask);
        missing == 0
    }
);
act!(
    /// Tests with loads in assembly.
    SharedHasLine, line, hash, {
        let (low, high) = load_shared(line);
        L::has(low, high, hash)
    }
);
