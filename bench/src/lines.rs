//! The layout of a 512-bit line, measured before it is frozen: 8 words x 1 bit against 4 words x 2 bits.
//!
//! Both take one 64-bit hash: the line from its high bits (multiply-shift), the places inside the line from its low
//! 32 bits times odd constants. `8x1` sets one bit in each of the eight words. `4x2` sets two bits in each of four
//! words, word `i` or `i + 4` by one more bit of the product. A lone thread does not mind; a shared filter pays one
//! locked instruction per word, which is what this experiment is about.

#[cfg(target_arch = "x86_64")]
pub use x86::{Four, How, SplitTable, run};

/// `scripts/bench lines` where there is no AVX2 to measure with.
#[cfg(not(target_arch = "x86_64"))]
pub fn run(_: &mut crate::args::Args) -> Result<(), crate::args::Fault> {
    Err(crate::args::Fault("the layout experiment needs an x86-64 processor with AVX2".to_string()))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::args::{Args, Fault};
    use crate::clock::{self, Best};
    use crate::keys;
    use crate::memory::Pages;
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::marker::PhantomData;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Keys in flight between prefetch and probe.
    const RING: usize = 32;

    /// Keys handed over in one call, as a caller of a batch interface would.
    const CALL: usize = 4096;

    /// Odd constants, one per word; the last four are used by `8x1` alone.
    const SALTS: [u32; 8] =
        [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1, 0xD3A2_646D, 0xFD70_46C5, 0xB55A_4F09];

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
    trait Act {
        /// # Safety
        /// The processor has AVX2 and BMI2; `line` is 64-byte-aligned and its 64 bytes are initialised and live;
        /// the plain kinds need that no other thread touches the line, the shared kinds that none touches it but
        /// with atomics.
        unsafe fn act(line: *mut u64, hash: u64) -> bool;
    }

    macro_rules! act {
        ($(#[$doc:meta])* $name:ident, $line:ident, $hash:ident, $body:expr) => {
            $(#[$doc])*
            struct $name<L>(PhantomData<L>);
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

        /// How many bytes the table takes.
        pub fn bytes(&self) -> usize {
            self.pages.bytes()
        }

        /// Empties the table.
        pub fn clear(&mut self) {
            self.pages.clear();
            self.start = self.pages.start_mut().cast::<u64>();
        }

        fn lines(&self) -> u64 {
            self.pages.lines() as u64
        }

        fn go<A: Act>(&self, how: How, keys: &[u64], answers: &mut [bool]) {
            // SAFETY: `new` saw AVX2 and BMI2; every line is inside `pages`, aligned and initialised; `act` kinds
            // that write plainly are reached through `&mut self` only, and the shared kinds use atomics.
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

        /// Inserts beside other threads that use the shared ways.
        pub fn insert_shared(&self, how: How, keys: &[u64], answers: &mut [bool]) {
            self.go::<SharedLookInsert<L>>(how, keys, answers);
        }

        /// Tests beside other threads that use the shared ways.
        pub fn contains_shared(&self, how: How, keys: &[u64], answers: &mut [bool]) {
            self.go::<SharedHasLine<L>>(how, keys, answers);
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
        fn name(self) -> &'static str {
            match self {
                How::Hashed => "batch, hashed before",
                How::Batch => "batch, XXH3",
                How::Single => "single, XXH3",
            }
        }
    }

    /// CPU time of `A` over all `keys` on `threads` threads: the slowest thread's.
    fn lap<L: Line, A: Act>(table: &SplitTable<L>, how: How, threads: usize, keys: &[u64]) -> (u64, usize) {
        let part = |keys: &[u64]| {
            let mut answers = [false; CALL];
            let mut yes = 0;
            let spent = clock::time(|| {
                for call in keys.chunks(CALL) {
                    let answers = &mut answers[..call.len()];
                    table.go::<A>(how, call, answers);
                    yes += answers.iter().map(|&answer| usize::from(answer)).sum::<usize>();
                }
            });
            (spent, yes)
        };
        if threads == 1 {
            return part(keys);
        }
        let barrier = Barrier::new(threads);
        std::thread::scope(|scope| {
            let hands: Vec<_> = keys
                .chunks(keys.len().div_ceil(threads))
                .map(|share| {
                    let (barrier, part) = (&barrier, &part);
                    scope.spawn(move || {
                        barrier.wait();
                        part(share)
                    })
                })
                .collect();
            let laps = hands.into_iter().map(|hand| hand.join().expect("a measuring thread panicked"));
            laps.fold((0, 0), |(slowest, yes), (spent, more)| (slowest.max(spent), yes + more))
        })
    }

    /// One line of the result.
    struct Row {
        way: &'static str,
        how: How,
        threads: usize,
        n: usize,
        /// Nanoseconds per key: insert, hit, miss, for 8x1 and then 4x2.
        figures: [[Option<f64>; 3]; 2],
    }

    /// The ways to insert and to test that are measured together.
    #[derive(Clone, Copy)]
    struct Way {
        name: &'static str,
        threads: usize,
        how: How,
        insert: Insertion,
        test: Test,
    }

    #[derive(Clone, Copy)]
    enum Insertion {
        Plain,
        PlainNew,
        Or,
        Look,
        Fetch,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Test {
        None,
        Plain,
        Words,
        Line,
    }

    fn insert_lap<L: Line>(table: &SplitTable<L>, way: &Way, keys: &[u64]) -> u64 {
        match way.insert {
            Insertion::Plain => lap::<L, Insert<L>>(table, way.how, way.threads, keys).0,
            Insertion::PlainNew => lap::<L, InsertNew<L>>(table, way.how, way.threads, keys).0,
            Insertion::Or => lap::<L, SharedInsert<L>>(table, way.how, way.threads, keys).0,
            Insertion::Look => lap::<L, SharedLookInsert<L>>(table, way.how, way.threads, keys).0,
            Insertion::Fetch => lap::<L, SharedFetchInsert<L>>(table, way.how, way.threads, keys).0,
        }
    }

    fn test_lap<L: Line>(table: &SplitTable<L>, way: &Way, keys: &[u64]) -> (u64, usize) {
        match way.test {
            Test::None => (0, 0),
            Test::Plain => lap::<L, Has<L>>(table, way.how, way.threads, keys),
            Test::Words => lap::<L, SharedHasWords<L>>(table, way.how, way.threads, keys),
            Test::Line => lap::<L, SharedHasLine<L>>(table, way.how, way.threads, keys),
        }
    }

    /// One pass of a way: clear, insert, hits, misses.
    fn pass<L: Line>(table: &mut SplitTable<L>, way: &Way, members: &[u64], absent: &[u64], best: &mut [Best; 3]) {
        table.clear();
        best[0].add(insert_lap(table, way, members), members.len());
        if way.test == Test::None {
            return;
        }
        let (hit, found) = test_lap(table, way, members);
        assert_eq!(found, members.len(), "{} {} lost a key", L::NAME, way.name);
        best[1].add(hit, members.len());
        best[2].add(test_lap(table, way, absent).0, absent.len());
    }

    fn measure(way: Way, n: usize, bits: f64, passes: usize, members: &[u64], absent: &[u64]) -> Result<Row, Fault> {
        let mut eight = SplitTable::<Eight>::new(n, bits)?;
        let mut four = SplitTable::<Four>::new(n, bits)?;
        let mut best: [[Best; 3]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| Best::new()));
        for _ in 0..passes {
            // Turn by turn, so that a noisy neighbour disturbs both.
            pass(&mut eight, &way, members, absent, &mut best[0]);
            pass(&mut four, &way, members, absent, &mut best[1]);
        }
        let figures = best.map(|layout| layout.map(|best| Some(best.min()).filter(|ns| ns.is_finite())));
        Ok(Row { way: way.name, how: way.how, threads: way.threads, n, figures })
    }

    /// The measured false-positive rate of a full table, in percent, over `probes` absent keys.
    fn rate<L: Line>(n: usize, bits: f64, members: &[u64], probes: usize) -> Result<f64, Fault> {
        let mut table = SplitTable::<L>::new(n, bits)?;
        let mut answers = vec![false; members.len()];
        table.insert(How::Batch, members, &mut answers);
        let mut found = 0;
        let mut keys = Vec::with_capacity(CALL);
        for from in (0..probes as u64).step_by(CALL) {
            keys.clear();
            keys.extend(keys::absent_from(from as usize, CALL));
            table.contains(How::Batch, &keys, &mut answers[..CALL]);
            found += answers[..CALL].iter().filter(|&&answer| answer).count();
        }
        Ok(found as f64 * 100.0 / probes.next_multiple_of(CALL) as f64)
    }

    fn ways() -> Vec<Way> {
        let way = |name, threads, how, insert, test| Way { name, threads, how, insert, test };
        let mut all = Vec::new();
        for how in [How::Hashed, How::Batch, How::Single] {
            all.push(way("plain", 1, how, Insertion::Plain, Test::Plain));
            all.push(way("plain, says new", 1, how, Insertion::PlainNew, Test::None));
        }
        for threads in [1, 2] {
            for how in [How::Hashed, How::Batch] {
                all.push(way("or; line by asm", threads, how, Insertion::Or, Test::Line));
                all.push(way("or; words", threads, how, Insertion::Or, Test::Words));
            }
            all.push(way("look, then or", threads, How::Batch, Insertion::Look, Test::None));
            all.push(way("fetch_or's answer", threads, How::Batch, Insertion::Fetch, Test::None));
        }
        all
    }

    /// `scripts/bench lines [--n N[,N..]] [--bits B] [--passes R] [--json]`.
    pub fn run(args: &mut Args) -> Result<(), Fault> {
        let mut sizes = vec![20_000usize, 1_000_000, 10_000_000, 50_000_000];
        let (mut bits, mut passes, mut json) = (10.12f64, None, false);
        while let Some(option) = args.option()? {
            match option.as_str() {
                "--n" => sizes = args.numbers(&option)?,
                "--bits" => bits = args.number(&option)?,
                "--passes" => passes = Some(args.number::<usize>(&option)?),
                "--json" => json = true,
                _ => return Err(args.unknown(&option)),
            }
        }
        if sizes.iter().any(|&n| n < CALL) || !(1.0..=64.0).contains(&bits) || passes == Some(0) {
            return Err(Fault(format!("--n takes at least {CALL}, --bits 1 to 64, --passes at least 1")));
        }
        if !json {
            println!("{}", crate::machine());
            println!("{bits} bits/key; ns/key, minimum over passes; each cell: 8x1 | 4x2 | 8x1 time over 4x2 time");
        }
        for n in sizes {
            let (members, absent) = (keys::members(n), keys::absent(n));
            let passes = passes.unwrap_or_else(|| clock::passes_for(n));
            if !json {
                println!("\n{n} keys, {:.1} MB", n as f64 * bits / 8e6);
                println!("{:<20} {:<21} {:>2}  {:^24}  {:^24}  {:^24}", "way", "keys", "t", "insert", "hit", "miss");
            }
            for way in ways() {
                print_row(&measure(way, n, bits, passes, &members, &absent)?, json);
            }
        }
        let (n, probes) = (1_000_000, 100_000_000);
        let members = keys::members(n);
        for bits in [10.12, 10.15, 15.85] {
            let (eight, four) = (rate::<Eight>(n, bits, &members, probes)?, rate::<Four>(n, bits, &members, probes)?);
            if json {
                println!(r#"{{"bits":{bits},"n":{n},"rate_8x1":{:.6},"rate_4x2":{:.6}}}"#, eight / 100.0, four / 100.0);
            } else {
                println!("\nmeasured rate at {bits} bits/key, {n} keys: 8x1 {eight:.4} %, 4x2 {four:.4} %");
            }
        }
        Ok(())
    }

    fn print_row(row: &Row, json: bool) {
        let [eight, four] = &row.figures;
        if json {
            for (op, name) in ["insert", "hit", "miss"].iter().enumerate() {
                if let (Some(eight), Some(four)) = (eight[op], four[op]) {
                    println!(
                        r#"{{"way":"{}","keys":"{}","threads":{},"n":{},"op":"{name}","ns_8x1":{eight:.3},"ns_4x2":{four:.3}}}"#,
                        row.way,
                        row.how.name(),
                        row.threads,
                        row.n
                    );
                }
            }
            return;
        }
        let cell = |op: usize| match (eight[op], four[op]) {
            (Some(eight), Some(four)) => format!("{eight:>6.2} |{four:>6.2} |{:>5.2}", eight / four),
            _ => String::new(),
        };
        println!(
            "{:<20} {:<21} {:>2}  {:^24}  {:^24}  {:^24}",
            row.way,
            row.how.name(),
            row.threads,
            cell(0),
            cell(1),
            cell(2)
        );
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_written_out_hash_is_xxh3() {
            for key in [0, 1, u64::MAX, 0x0123_4567_89AB_CDEF].into_iter().chain(keys::members(1000)) {
                assert_eq!(xxh3_of_u64(key), xxhash_rust::xxh3::xxh3_64(&key.to_le_bytes()));
            }
        }

        fn every_way_agrees<L: Line>() {
            let (members, absent) = (keys::members(10_000), keys::absent(10_000));
            let mut plain = SplitTable::<L>::new(10_000, 10.12).unwrap();
            let shared = SplitTable::<L>::new(10_000, 10.12).unwrap();
            let mut answers = vec![false; 10_000];
            plain.insert(How::Batch, &members, &mut answers);
            assert!(answers[..100].iter().all(|&new| new));
            shared.go::<SharedInsert<L>>(How::Single, &members, &mut answers);
            for keys in [&members, &absent] {
                let mut all = Vec::new();
                for (table, line) in [(&plain, true), (&plain, false), (&shared, true), (&shared, false)] {
                    if line {
                        table.contains(How::Single, keys, &mut answers);
                    } else {
                        table.go::<SharedHasWords<L>>(How::Batch, keys, &mut answers);
                    }
                    all.push(answers.clone());
                }
                assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
            }
            let found = answers.iter().filter(|&&answer| answer).count();
            assert!((60..140).contains(&found), "{found} of 10000 absent keys answered maybe");
            plain.contains_shared(How::Batch, &members, &mut answers);
            assert!(answers.iter().all(|&answer| answer));
        }

        #[test]
        fn every_way_of_eight_by_one_agrees() {
            every_way_agrees::<Eight>();
        }

        #[test]
        fn every_way_of_four_by_two_agrees() {
            every_way_agrees::<Four>();
        }
    }
}
