//! The two ways to see a filter's words: alone (`&[u64]`, `&mut [u64]`) and shared between threads
//! (`&[AtomicU64]`). The loops are written once over these traits.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

/// Words that can be read.
pub(crate) trait ReadWords: Copy {
    /// Whether other threads may be writing while we read.
    const SHARED: bool;
    /// How many words there are.
    fn count(self) -> usize;
    /// One word.
    fn load(self, at: usize) -> u64;
    /// One word that is known to be there.
    ///
    /// # Safety
    /// `at` must be below `count`.
    unsafe fn load_unchecked(self, at: usize) -> u64;
    /// Where the words begin; only for prefetches and for loads that keep to `count`.
    #[cfg_attr(any(miri, loom, not(target_arch = "x86_64")), allow(dead_code))]
    fn as_ptr(self) -> *const u64;
}

/// Words in which bits can be set.
pub(crate) trait WriteWords {
    /// Whether other threads may be writing too.
    #[cfg_attr(loom, allow(dead_code))] // asked where there is SIMD, and loom has none
    const SHARED: bool;
    /// The same words, to be read.
    type Read<'a>: ReadWords
    where
        Self: 'a;
    /// The same words, to be read.
    fn read(&self) -> Self::Read<'_>;
    /// Sets bits in one word and returns what was there before.
    fn set(&mut self, at: usize, bits: u64) -> u64;
    /// The same for a word that is known to be there.
    ///
    /// # Safety
    /// `at` must be below the count of the words.
    unsafe fn set_unchecked(&mut self, at: usize, bits: u64) -> u64;
    /// Replaces one word: for the one writer of cells that move or count.
    fn put(&mut self, at: usize, word: u64);
    /// Where the words begin, for stores that keep to the count.
    #[cfg_attr(any(miri, loom, not(target_arch = "x86_64")), allow(dead_code))]
    fn as_mut_ptr(&mut self) -> *mut u64;
}

impl ReadWords for &[u64] {
    const SHARED: bool = false;
    #[inline(always)]
    fn count(self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn load(self, at: usize) -> u64 {
        self[at]
    }
    #[inline(always)]
    unsafe fn load_unchecked(self, at: usize) -> u64 {
        // SAFETY: passed on to the caller.
        unsafe { *self.get_unchecked(at) }
    }
    #[inline(always)]
    fn as_ptr(self) -> *const u64 {
        <[u64]>::as_ptr(self)
    }
}

impl ReadWords for &[AtomicU64] {
    const SHARED: bool = true;
    #[inline(always)]
    fn count(self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn load(self, at: usize) -> u64 {
        self[at].load(Ordering::Relaxed)
    }
    #[inline(always)]
    unsafe fn load_unchecked(self, at: usize) -> u64 {
        // SAFETY: passed on to the caller.
        unsafe { self.get_unchecked(at) }.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn as_ptr(self) -> *const u64 {
        <[AtomicU64]>::as_ptr(self).cast()
    }
}

impl WriteWords for &mut [u64] {
    const SHARED: bool = false;
    type Read<'a>
        = &'a [u64]
    where
        Self: 'a;
    #[inline(always)]
    fn read(&self) -> &[u64] {
        self
    }
    #[inline(always)]
    fn set(&mut self, at: usize, bits: u64) -> u64 {
        let word = &mut self[at];
        let old = *word;
        *word = old | bits;
        old
    }
    #[inline(always)]
    unsafe fn set_unchecked(&mut self, at: usize, bits: u64) -> u64 {
        // SAFETY: passed on to the caller.
        let word = unsafe { self.get_unchecked_mut(at) };
        let old = *word;
        *word = old | bits;
        old
    }
    #[inline(always)]
    fn put(&mut self, at: usize, word: u64) {
        self[at] = word;
    }
    #[inline(always)]
    fn as_mut_ptr(&mut self) -> *mut u64 {
        <[u64]>::as_mut_ptr(self)
    }
}

impl WriteWords for &[AtomicU64] {
    const SHARED: bool = true;
    type Read<'a>
        = &'a [AtomicU64]
    where
        Self: 'a;
    #[inline(always)]
    fn read(&self) -> &[AtomicU64] {
        self
    }
    /// Relaxed is enough: whoever learns of a key through any synchronisation of its own (a channel, a lock, a
    /// release store) also sees the bits set before it, because atomic writes to one word are totally ordered.
    #[inline(always)]
    fn set(&mut self, at: usize, bits: u64) -> u64 {
        self[at].fetch_or(bits, Ordering::Relaxed)
    }
    #[inline(always)]
    unsafe fn set_unchecked(&mut self, at: usize, bits: u64) -> u64 {
        // SAFETY: passed on to the caller.
        unsafe { self.get_unchecked(at) }.fetch_or(bits, Ordering::Relaxed)
    }
    /// Relaxed: what orders it for readers is the version around it (`bits::version`).
    #[inline(always)]
    fn put(&mut self, at: usize, word: u64) {
        self[at].store(word, Ordering::Relaxed);
    }
    #[inline(always)]
    fn as_mut_ptr(&mut self) -> *mut u64 {
        <[AtomicU64]>::as_ptr(self).cast_mut().cast()
    }
}
