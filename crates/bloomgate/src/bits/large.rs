//! Large pieces of memory that go back to the system when they are freed.
//!
//! The allocator of GNU systems begins with 128 KB as the size from which a piece is mapped by itself, and raises that to the
//! largest such piece that was freed, up to 32 MB. From then on large buffers come from the heaps of threads, where what is freed
//! stays: a server that held 16 MB for its clients at any time had grown by 118 MB after the abuse drill, and by 36 MB with the
//! size fixed.

/// Lets every piece of 128 KB and more go back to the system when it is freed, and of the heaps what is above 4 MB.
///
/// For programs with `main` of their own that hold large buffers for a short time: it is a setting of the whole process. It costs
/// such a buffer a call of the system and its pages when it is made. Where the allocator is another than that of GNU, it does
/// nothing.
///
/// ```
/// bloomgate::bits::give_back_large();
/// ```
pub fn give_back_large() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: both are numbers that the allocator takes at any time; one that it refuses changes nothing.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 4 << 20);
        }
    }
}
