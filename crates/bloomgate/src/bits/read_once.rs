//! Reads of a file that is read once: from the page cache what is there, all else straight from the disk.
//!
//! A filter of 2 GB that is loaded from a cold disk needs 2 GB of new pages for its words. Read in the usual way it needs as
//! many again for the page cache, which nobody looks at afterwards, and where the kernel has to find and clear pages that is
//! most of the time: 0.9 GB/s of the 2.3 that the disk gave. Straight from the disk it goes through a buffer of a
//! megabyte a thread, because payloads begin where the header ends and a disk is read by whole pages.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What disks and kernels want the place, the length and the memory of a direct read to be multiples of, at most.
const PAGE: usize = 4096;

/// A file that is read once.
pub(crate) struct Once<'a> {
    file: &'a File,
    /// The same file past the page cache, where the system has that.
    direct: Option<File>,
}

/// Where one thread's direct reads land.
#[derive(Default)]
pub(crate) struct Landing(Vec<u8>);

impl<'a> Once<'a> {
    /// For this file. One that has no way past the page cache is read through it.
    pub(crate) fn of(file: &'a File) -> Self {
        Self { file, direct: system::direct(file) }
    }

    /// Reads some bytes at a place; 0 at the end of the file.
    pub(crate) fn read(&self, landing: &mut Landing, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = match &self.direct {
            None => Part::NotThisWay,
            Some(direct) => match system::read_cached(self.file, bytes, offset)? {
                Part::NotHere => landing.read(direct, bytes, offset)?,
                cached => cached,
            },
        };
        match read {
            Part::Read(count) => Ok(count),
            Part::NotHere | Part::NotThisWay => self.file.read_at(bytes, offset),
        }
    }
}

/// What came of one way to read.
enum Part {
    /// So many bytes.
    Read(usize),
    /// They are elsewhere.
    NotHere,
    /// The file or the kernel does not know this way.
    NotThisWay,
}

impl Landing {
    /// Reads whole pages around the bytes.
    fn read(&mut self, direct: &File, bytes: &mut [u8], offset: u64) -> io::Result<Part> {
        let before = (offset % PAGE as u64) as usize;
        let wanted = (before + bytes.len()).next_multiple_of(PAGE);
        if self.0.len() < wanted + PAGE {
            self.0.resize(wanted + PAGE, 0);
        }
        let aligned = self.0.as_ptr().align_offset(PAGE);
        let Some(pages) = self.0.get_mut(aligned..).and_then(|from| from.get_mut(..wanted)) else {
            return Ok(Part::NotThisWay);
        };
        match direct.read_at(pages, offset - before as u64) {
            Ok(read) => {
                let here = pages[..read].get(before..).unwrap_or_default();
                let count = here.len().min(bytes.len());
                bytes[..count].copy_from_slice(&here[..count]);
                Ok(Part::Read(count))
            }
            Err(error) if system::is_refusal(&error) => Ok(Part::NotThisWay),
            Err(error) => Err(error),
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    use super::Part;

    /// The file once more, past the page cache. By its descriptor: its name may be another file's by now.
    pub(super) fn direct(file: &File) -> Option<File> {
        if cfg!(any(miri, loom)) {
            return None;
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        File::options().read(true).custom_flags(libc::O_DIRECT).open(path).ok()
    }

    /// Reads what is in the page cache.
    pub(super) fn read_cached(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<Part> {
        let Ok(offset) = libc::off_t::try_from(offset) else { return Ok(Part::NotThisWay) };
        let place = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: the one buffer is `bytes`, which is borrowed to be written to for the whole call, and of the length given;
        // the descriptor is that of a file that is open as long as it is borrowed.
        let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const place, 1, offset, libc::RWF_NOWAIT) };
        if read >= 0 {
            return Ok(Part::Read(read as usize));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN) => Ok(Part::NotHere),
            _ if is_refusal(&error) => Ok(Part::NotThisWay),
            _ => Err(error),
        }
    }

    /// Whether it says that this way of reading is not there.
    pub(super) fn is_refusal(error: &io::Error) -> bool {
        matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;

    use super::Part;

    pub(super) fn direct(_: &File) -> Option<File> {
        None
    }

    pub(super) fn read_cached(_: &File, _: &mut [u8], _: u64) -> io::Result<Part> {
        Ok(Part::NotThisWay)
    }

    pub(super) fn is_refusal(_: &io::Error) -> bool {
        true
    }
}

#[cfg(all(test, target_os = "linux", not(miri), not(loom)))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    /// A file of so many bytes that differ, on the disk.
    fn file_of(length: u32) -> (File, Vec<u8>) {
        let bytes: Vec<u8> = (0..length).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        (file, bytes)
    }

    fn evict(file: &File, from: i64, length: i64) {
        // SAFETY: the descriptor is open; the call takes no pointer.
        let code = unsafe { libc::posix_fadvise(file.as_raw_fd(), from, length, libc::POSIX_FADV_DONTNEED) };
        assert_eq!(code, 0);
    }

    /// All bytes from a place on, in reads of at most so many.
    fn all_from(once: &Once<'_>, offset: usize, at_most: usize) -> Vec<u8> {
        let (mut landing, mut all, mut piece) = (Landing::default(), Vec::new(), vec![0; at_most]);
        loop {
            match once.read(&mut landing, &mut piece, (offset + all.len()) as u64).unwrap() {
                0 => return all,
                read => all.extend_from_slice(&piece[..read]),
            }
        }
    }

    #[test]
    fn the_same_bytes_come_from_the_cache_from_the_disk_and_from_both() {
        for length in [1, 4095, 4096, 300_000, 2 << 20] {
            let (file, bytes) = file_of(length);
            let once = Once::of(&file);
            for at_most in [1 << 20, 65_536, 5_000] {
                for offset in [0, 64, 4096, 4160, bytes.len() - 1, bytes.len(), bytes.len() + 5_000] {
                    let expected = bytes.get(offset..).unwrap_or_default();
                    let cached = i64::from(length) / 3;
                    for (what, from, evicted) in [("cached", 0, -1), ("half", cached, cached), ("disk", 0, 0)] {
                        all_from(&once, 0, 1 << 20);
                        std::io::copy(&mut &file, &mut std::io::sink()).unwrap();
                        if evicted >= 0 {
                            evict(&file, from, evicted);
                        }
                        let read = all_from(&once, offset, at_most);
                        assert!(read == expected, "{what}: {length} bytes from {offset} on by {at_most}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_file_without_a_way_past_the_cache_is_read_through_it() {
        let (file, bytes) = file_of(100_000);
        let once = Once { file: &file, direct: None };
        assert_eq!(all_from(&once, 64, 7_000), bytes[64..]);
        evict(&file, 0, 0);
        assert_eq!(all_from(&once, 64, 7_000), bytes[64..]);
    }
}
