//! Reads of a file that is read once: what is brought into the page cache for them goes again behind them.
//!
//! A filter of 2 GB that is loaded from a cold disk needs 2 GB of new pages for its words. Read in the usual way it needs as
//! many again for the page cache, which nobody looks at afterwards; where the kernel has to find and clear pages that is half
//! of the time: 1.2 GB/s, and 2.4 with pages that are used again (Linux 6.14's RWF_DONTCACHE).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads some bytes at a place. A kernel or file system that cannot let go of pages behind a reader keeps them.
pub(crate) fn read_once(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    if let Some(read) = linux::read(file, bytes, offset) {
        return read;
    }
    file.read_at(bytes, offset)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// RWF_DONTCACHE of linux/fs.h; the libc crate does not have it.
    const DONT_CACHE: libc::c_int = 0x80;

    /// Whether the kernel said that it cannot. Another file system might, but those who ask again get the same bytes slower.
    static REFUSED: AtomicBool = AtomicBool::new(false);

    /// Nothing where the kernel cannot.
    pub(super) fn read(file: &File, bytes: &mut [u8], offset: u64) -> Option<io::Result<usize>> {
        if cfg!(any(miri, loom)) || REFUSED.load(Ordering::Relaxed) {
            return None;
        }
        let offset = libc::off_t::try_from(offset).ok()?;
        let place = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: the one buffer is `bytes`, which is borrowed to be written to for the whole call, and of the length given;
        // the descriptor is that of a file that is open as long as it is borrowed.
        let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const place, 1, offset, DONT_CACHE) };
        if read >= 0 {
            return Some(Ok(read as usize));
        }
        let error = io::Error::last_os_error();
        if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS)) {
            REFUSED.store(true, Ordering::Relaxed);
            return None;
        }
        Some(Err(error))
    }
}
