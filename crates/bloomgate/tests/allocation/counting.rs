//! An allocator that counts: how much memory a call had at once, and its largest single allocation. Shared by the test
//! of the bounds and by the fuzz targets. What it does not see is memory mapped from the system, which filters of 4 MiB
//! and more take for their words: the callers here keep below that.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not freed; it may free those of others.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn took(bytes: usize) {
    // A thread that is ending has no counters any more, and is not asked.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes as isize);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
    });
}

fn gave(bytes: usize) {
    let _ = LIVE.try_with(|live| live.set(live.get() - bytes as isize));
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments; the counters allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        took(size);
        gave(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        gave(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a call took.
pub struct Taken {
    /// The most bytes it had at once.
    pub peak: usize,
    /// The largest single allocation.
    pub largest: usize,
}

/// Runs `call` and counts.
pub fn counted<T>(call: impl FnOnce() -> T) -> (T, Taken) {
    let before = LIVE.get();
    PEAK.set(before);
    LARGEST.set(0);
    let result = call();
    (result, Taken { peak: (PEAK.get() - before).max(0) as usize, largest: LARGEST.get() })
}
