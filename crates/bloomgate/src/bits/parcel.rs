//! A header, words and bytes in one piece of memory, shared by whoever holds it.
//!
//! **Why.** A program with a filter for each of a million users has a million headers, names and handfuls of words. An
//! `Arc` of a header with a box of words and a box of a name is three allocations with 16 bytes of counts, 32 of lengths
//! and pointers, and 24 that the allocator keeps for itself, before any of them rounds up. Here it is one, with 8 bytes
//! of our own and a thin pointer.
//!
//! ```text
//!  pointer ──▶ [ holders u32 │ words u16 │ bytes u16 │ header │ words … │ bytes … ]
//! ```

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::error::{Error, ErrorKind, Result};

/// What lies at the start of the memory; the words begin behind it, and the bytes behind them.
#[repr(C)]
struct Start<H> {
    holders: AtomicU32,
    words: u16,
    bytes: u16,
    header: H,
    tail: [AtomicU64; 0],
}

/// A counted piece of memory with a header, words that start as zeros and that all holders may set, and bytes that stay as
/// they are.
///
/// ```
/// use std::sync::atomic::Ordering;
/// use bloomgate::bits::Parcel;
///
/// let parcel = Parcel::new("header", 4, b"name")?;
/// let other = parcel.clone();
/// other.words()[3].fetch_or(1, Ordering::Relaxed);
/// assert_eq!((*parcel, parcel.bytes(), parcel.holders()), ("header", &b"name"[..], 2));
/// assert_eq!(parcel.words()[3].load(Ordering::Relaxed), 1);
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub struct Parcel<H> {
    start: NonNull<Start<H>>,
    owns: PhantomData<Start<H>>,
}

// SAFETY: like an Arc: holders on several threads see the header, the words and the bytes through shared references alone,
// and the last one drops the header, wherever it is.
unsafe impl<H: Send + Sync> Send for Parcel<H> {}
// SAFETY: as above.
unsafe impl<H: Send + Sync> Sync for Parcel<H> {}

/// The memory of so many words and bytes.
fn layout<H>(words: usize, bytes: usize) -> Option<Layout> {
    let size = size_of::<Start<H>>().checked_add(words.checked_mul(8)?)?.checked_add(bytes)?;
    Layout::from_size_align(size, align_of::<Start<H>>()).ok()
}

impl<H> Parcel<H> {
    /// The most words, and the most bytes.
    pub const MOST: usize = u16::MAX as usize;

    /// A parcel with so many words of zero, or why there is none.
    pub fn new(header: H, words: usize, bytes: &[u8]) -> Result<Self> {
        let (Ok(count), Ok(length)) = (u16::try_from(words), u16::try_from(bytes.len())) else {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a parcel takes up to {} words and as many bytes, not {words} and {}", Self::MOST, bytes.len()),
            ));
        };
        let refused = || {
            let message = format!("the system refused {words} words and {} bytes for a parcel; free some", bytes.len());
            Error::new(ErrorKind::OutOfMemory, message)
        };
        let layout = layout::<H>(words, bytes.len()).ok_or_else(refused)?;
        // SAFETY: the layout's size is that of the counts at least, so not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<Start<H>>()).ok_or_else(refused)?;
        let holders = AtomicU32::new(1);
        // SAFETY: the memory is large enough and aligned for a `Start`, and nobody else has seen it; the tail has no size.
        unsafe { start.write(Start { holders, words: count, bytes: length, header, tail: [] }) };
        let parcel = Self { start, owns: PhantomData };
        // SAFETY: behind the words there are `length` bytes of this allocation, which nobody else has seen.
        unsafe { parcel.first_byte().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(parcel)
    }

    /// The memory that a parcel takes, without what the allocator adds.
    #[must_use]
    pub const fn size(words: usize, bytes: usize) -> usize {
        size_of::<Start<H>>() + words * 8 + bytes
    }

    #[inline(always)]
    fn start(&self) -> &Start<H> {
        // SAFETY: the memory is initialised and lives until the last holder is gone, and `self` is one.
        unsafe { self.start.as_ref() }
    }

    /// Where the words begin; not through a reference to `Start`, which would end before them.
    #[inline(always)]
    fn first_word(&self) -> *mut AtomicU64 {
        // SAFETY: the pointer is valid; only the place of the field is computed.
        unsafe { &raw mut (*self.start.as_ptr()).tail }.cast()
    }

    fn first_byte(&self) -> *mut u8 {
        // SAFETY: the words are inside the allocation, and the bytes begin where they end.
        unsafe { self.first_word().add(usize::from(self.start().words)) }.cast()
    }

    /// The words.
    #[must_use]
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words lie behind the header: aligned (the tail's own alignment), zero at first, and only ever
        // seen as atomics. They live as long as `self` holds them.
        unsafe { std::slice::from_raw_parts(self.first_word(), usize::from(self.start().words)) }
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes lie behind the words; they were written before anybody else saw them and never since.
        unsafe { std::slice::from_raw_parts(self.first_byte(), usize::from(self.start().bytes)) }
    }

    /// How many hold it now.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.start().holders.load(Ordering::Acquire) as usize
    }

    /// Whether two are one.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.start == other.start
    }
}

impl<H> Deref for Parcel<H> {
    type Target = H;
    #[inline(always)]
    fn deref(&self) -> &H {
        &self.start().header
    }
}

impl<H> Clone for Parcel<H> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed, as in Arc: who clones has it already.
        let before = self.start().holders.fetch_add(1, Ordering::Relaxed);
        if before > u32::MAX / 2 {
            // Two billion holders are a leak; one more turn of the count would free memory that is in use.
            std::process::abort();
        }
        Self { start: self.start, owns: PhantomData }
    }
}

impl<H> Drop for Parcel<H> {
    #[inline]
    fn drop(&mut self) {
        if self.start().holders.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // What the others did with it comes before it goes.
        fence(Ordering::Acquire);
        let (words, bytes) = (usize::from(self.start().words), usize::from(self.start().bytes));
        // The same numbers gave a layout when it was made.
        let Some(layout) = layout::<H>(words, bytes) else { return };
        // SAFETY: this was the last holder: nobody sees the header or the memory any more, and both go once. The layout is
        // the one that it was allocated with.
        unsafe {
            std::ptr::drop_in_place(&raw mut (*self.start.as_ptr()).header);
            dealloc(self.start.as_ptr().cast(), layout);
        }
    }
}

impl<H: fmt::Debug> fmt::Debug for Parcel<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel")
            .field("header", &**self)
            .field("words", &self.words().len())
            .field("bytes", &self.bytes().escape_ascii().to_string())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn miri_parcels_hold_what_they_were_given_and_drop_it_once() {
        for (words, bytes) in [(0, &b""[..]), (0, b"x"), (1, b""), (32, b"user:0000001"), (3, &[7; 4096])] {
            let header = Arc::new(5u64);
            let parcel = Parcel::new(header.clone(), words, bytes).unwrap();
            assert_eq!((parcel.words().len(), parcel.bytes(), **parcel), (words, bytes, 5));
            assert!(parcel.words().iter().all(|word| word.load(Ordering::Relaxed) == 0));
            let others = vec![parcel.clone(); 3];
            assert!(others.iter().all(|other| other.is(&parcel)) && parcel.holders() == 4);
            assert_eq!(Arc::strong_count(&header), 2);
            drop((parcel, others));
            assert_eq!(Arc::strong_count(&header), 1);
        }
        assert!(Parcel::new((), 65_536, b"").is_err() && Parcel::new((), 0, &[0; 65_536]).is_err());
        assert_eq!(Parcel::<u64>::size(4, 5), 8 + 8 + 32 + 5);
    }

    #[test]
    fn miri_threads_set_words_and_the_last_one_frees() {
        let parcel = Parcel::new(String::from("header"), 4, b"name").unwrap();
        std::thread::scope(|scope| {
            for bit in 0..4 {
                let parcel = parcel.clone();
                scope.spawn(move || {
                    for word in parcel.words() {
                        word.fetch_or(1 << bit, Ordering::Relaxed);
                    }
                    assert_eq!(*parcel, "header");
                });
            }
        });
        assert!(parcel.words().iter().all(|word| word.load(Ordering::Relaxed) == 15));
        assert_eq!(parcel.holders(), 1);
    }
}
