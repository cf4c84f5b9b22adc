//! Words that one owner holds: aligned to a cache line, zero at first, on huge pages where they help.

use super::Store;
use super::sealed::Sealed;
use crate::error::{Error, ErrorKind, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;

/// A cache line, and so the alignment of every filter.
const LINE: usize = 64;
/// From this size on, huge pages are asked for. Below it a filter lives in the caches, and small pages reach it.
const HUGE_FROM: usize = 4 << 20;
/// The size of a huge page on the platforms that have them.
const HUGE: usize = 2 << 20;

/// Whether a filter's memory was put on huge pages: up to 2.7 times the speed at 1 GB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePages {
    /// Smaller than 4 MB, or not a platform that has them.
    NotAsked,
    /// Asked for, and the kernel agreed to use them as it can.
    Asked,
    /// Asked for, and the kernel refused.
    Refused,
}

/// Words in memory that belong to one filter alone.
pub struct Owned {
    start: NonNull<u64>,
    words: usize,
    memory: Memory,
}

enum Memory {
    Heap(Layout),
    #[cfg_attr(any(miri, loom), allow(dead_code))]
    Pages {
        /// `start` points into it.
        map: memmap2::MmapMut,
        huge: HugePages,
    },
}

// SAFETY: the memory belongs to this value alone, like a Box<[u64]>; nothing in it is tied to a thread.
unsafe impl Send for Owned {}
// SAFETY: through a shared reference the words can only be read (`as_slice`).
unsafe impl Sync for Owned {}

impl Owned {
    /// So many words of zero, or why they cannot be had.
    pub(crate) fn zeroed(words: u64) -> Result<Self> {
        Self::allocate(words, true)
    }

    /// The same on pages of the usual size: for what is gone through once, in order. A huge page costs the kernel more to
    /// find (milliseconds, when memory is in pieces) than such work can win back.
    pub(crate) fn passing(words: u64) -> Result<Self> {
        Self::allocate(words, false)
    }

    fn allocate(words: u64, huge: bool) -> Result<Self> {
        let bytes = words
            .checked_mul(8)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|&bytes| bytes <= isize::MAX as usize - 2 * HUGE)
            .ok_or_else(|| refused(words))?;
        if bytes >= HUGE_FROM && !cfg!(any(miri, loom)) {
            return Self::pages(bytes, huge).ok_or_else(|| refused(words));
        }
        let layout = Layout::from_size_align(bytes.max(LINE), LINE).map_err(|_| refused(words))?;
        // SAFETY: the layout's size is at least one line, so not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<u64>()).ok_or_else(|| refused(words))?;
        Ok(Self { start, words: bytes / 8, memory: Memory::Heap(layout) })
    }

    /// Whole pages from the system: zero, not resident until touched, aligned to a huge page.
    fn pages(bytes: usize, huge: bool) -> Option<Self> {
        let mut map = memmap2::MmapMut::map_anon(bytes + HUGE).ok()?;
        let skip = map.as_ptr().align_offset(HUGE);
        if skip >= HUGE {
            return None;
        }
        #[cfg(target_os = "linux")]
        let huge = match huge.then(|| map.advise_range(memmap2::Advice::HugePage, skip, bytes)) {
            Some(Ok(())) => HugePages::Asked,
            Some(Err(_)) => HugePages::Refused,
            None => HugePages::NotAsked,
        };
        #[cfg(not(target_os = "linux"))]
        let huge = {
            let _ = huge;
            HugePages::NotAsked
        };
        let start = NonNull::new(map.as_mut_ptr().wrapping_add(skip).cast::<u64>())?;
        Some(Self { start, words: bytes / 8, memory: Memory::Pages { map, huge } })
    }

    /// The words.
    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[u64] {
        // SAFETY: `start` is valid for `words` initialised words for as long as `self` lives, and `&self` keeps
        // writers away.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The words, to be written.
    #[inline(always)]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u64] {
        // SAFETY: as in `as_slice`, and `&mut self` keeps everyone else away.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }

    /// Has the kernel find the pages of the words now, a huge page at a time, so that nobody has to wait for them at the
    /// first insert: 5 ms for a huge page on a machine whose own memory is lent to it on demand. Words that are in use
    /// stay as they are. Where the kernel cannot (before Linux 5.14), pages come when they are touched, as ever.
    pub(crate) fn bring_in(&self) {
        #[cfg(target_os = "linux")]
        if let Memory::Pages { map, .. } = &self.memory {
            let skip = self.start.as_ptr().addr() - map.as_ptr().addr();
            let bytes = self.words * 8;
            for at in (0..bytes).step_by(HUGE) {
                let piece = HUGE.min(bytes - at);
                if map.advise_range(memmap2::Advice::PopulateWrite, skip + at, piece).is_err() {
                    return;
                }
            }
        }
    }

    /// Where the words begin, for [`super::Shared`].
    #[cfg_attr(loom, allow(dead_code))]
    pub(super) fn start(&self) -> NonNull<u64> {
        self.start
    }

    /// How many words there are.
    #[cfg_attr(loom, allow(dead_code))]
    pub(super) fn count(&self) -> usize {
        self.words
    }
}

#[cfg(target_os = "linux")]
fn huge_bytes_from(start: usize) -> u64 {
    let Ok(smaps) = std::fs::read_to_string("/proc/self/smaps") else { return 0 };
    let mut inside = false;
    for line in smaps.lines() {
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        if let Some((low, high)) = first.split_once('-')
            && let (Ok(low), Ok(high)) = (usize::from_str_radix(low, 16), usize::from_str_radix(high, 16))
        {
            inside = (low..high).contains(&start);
        } else if inside && first == "AnonHugePages:" {
            let kilobytes = line.split_ascii_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
            return kilobytes.unwrap_or(0) * 1024;
        }
    }
    0
}

#[cfg(not(target_os = "linux"))]
fn huge_bytes_from(_: usize) -> u64 {
    0
}

#[cold]
fn refused(words: u64) -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        format!(
            "the system refused {} bytes for the filter; ask for fewer items, a higher rate, or a memory budget",
            u128::from(words) * 8
        ),
    )
}

/// The bytes of words, in the order of this machine: for reads straight into them.
#[cfg(unix)]
pub(crate) fn bytes_of_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the bytes are exactly those of the words and are borrowed for as long; any byte is a valid byte and any
    // eight are a valid word, and bytes ask for no alignment.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), words.len() * 8) }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Memory::Heap(layout) = self.memory {
            // SAFETY: `start` came from `alloc_zeroed` with this very layout and is freed once.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("words", &self.words).finish_non_exhaustive()
    }
}

impl Store for Owned {}

impl Sealed for Owned {
    type Read<'a> = &'a [u64];
    type Count = u64;
    #[inline(always)]
    fn words(&self) -> &[u64] {
        self.as_slice()
    }
    fn bring_in(&self) {
        self.bring_in();
    }
    fn huge_bytes(&self) -> u64 {
        match self.memory {
            Memory::Heap(_) => 0,
            Memory::Pages { .. } => huge_bytes_from(self.start.as_ptr().addr()),
        }
    }
    fn huge_pages(&self) -> HugePages {
        match self.memory {
            Memory::Heap(_) => HugePages::NotAsked,
            Memory::Pages { huge, .. } => huge,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn miri_small_and_empty_words_are_zero_aligned_and_writable() {
        for words in [0u64, 1, 7, 8, 1000] {
            let mut owned = Owned::zeroed(words).unwrap();
            assert_eq!(owned.as_slice().len() as u64, words);
            assert_eq!(owned.as_slice().as_ptr().addr() % LINE, 0);
            assert!(owned.as_slice().iter().all(|&word| word == 0));
            owned.as_mut_slice().fill(7);
            assert!(owned.as_slice().iter().all(|&word| word == 7));
        }
    }

    #[test]
    fn large_words_ask_for_huge_pages() {
        let mut owned = Owned::zeroed(8 << 17).unwrap();
        assert_eq!(owned.as_slice().as_ptr().addr() % HUGE, 0);
        owned.as_mut_slice().fill(1);
        assert!(owned.as_slice().iter().all(|&word| word == 1));
        #[cfg(target_os = "linux")]
        assert_ne!(owned.huge_pages(), HugePages::NotAsked);
        assert!(owned.huge_bytes() <= (8 << 20) + HUGE as u64);
    }

    /// T7, T8: absurd sizes are a clean refusal, before anything is touched.
    #[test]
    fn absurd_sizes_are_refused() {
        for words in [u64::MAX, u64::MAX / 8, 1 << 60] {
            assert_eq!(Owned::zeroed(words).unwrap_err().kind(), ErrorKind::OutOfMemory);
        }
    }
}
