//! The disk, as a list of steps that can fail.
//!
//! The store never calls the file system directly. So a test can count the steps of an operation and let each one
//! fail in turn ([`faulty::FaultyDisk`]), or pull the power cord after each one ([`memory::MemoryDisk`]): SQLite's way
//! of testing ("fail the N-th one, for all N, until none fires").

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

pub mod faulty;
pub mod memory;

/// Bytes that are copied between two questions whether to go on, and bytes of these that are copied at once.
const STEP: u64 = 32 << 20;
const PIECE: u64 = 256 << 10;

/// A file system, as far as the store needs one.
pub trait Disk: Send + Sync + 'static {
    /// Makes a folder (and its parents), readable by its owner alone. One that exists is left as it is.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Whether a folder is there; an error if something else has its name.
    fn is_dir(&self, path: &Path) -> io::Result<bool>;
    /// Removes a folder, which has to be empty.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a new file to write and read (0600); an error if the name exists, even as a link.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// [`create`](Self::create) for a large file that nobody reads soon: what is written to it in whole pages goes past the
    /// page cache, where the system can do that.
    fn create_large(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.create(path)
    }
    /// Opens a regular file to read it (and to sync it); links, pipes and devices are refused.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a regular file to write in it.
    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes a new file (0600) of the first bytes of another, as many as these and there are, and syncs it; its name is not
    /// durable yet. Before each 32 MiB it asks whether it may go on.
    fn copy(&self, from: &Path, to: &Path, most: u64, may: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        let (from, to) = (self.open(from)?, self.create(to)?);
        let mut piece = vec![0; PIECE.min(most) as usize];
        let mut offset = 0;
        while offset < most {
            if offset.is_multiple_of(STEP) {
                may()?;
            }
            let wanted = PIECE.min(most - offset) as usize;
            let read = read_full(&*from, &mut piece[..wanted], offset)?;
            write_all(&*to, &piece[..read], offset)?;
            offset += read as u64;
            if read < wanted {
                break;
            }
        }
        to.sync_data()
    }
    /// Gives a file or a folder another name, replacing a file that had that name, in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name that must not exist.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, in no order. Names that are not UTF-8 are not ours and left out.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Makes created, renamed and removed names of a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Bytes that may still be written to the disk of a folder; all there are where that is not known.
    fn free(&self, _path: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }
    /// Whether its paths are the operating system's, so that others may open its files by their names.
    fn is_systems_own(&self) -> bool {
        false
    }
    /// Takes the lock file for this process and writes `owner` into it. `Ok(Err(text))`: someone else, who wrote `text`,
    /// holds it. The lock ends with the value, or with the process.
    fn lock(&self, path: &Path, owner: &str) -> io::Result<Result<Box<dyn Send + Sync>, String>>;
}

/// An open file of a [`Disk`]. Positions are given, so that several threads can use one file.
pub trait DiskFile: Send + Sync + 'static {
    /// Writes some of the bytes at this position; says how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Reads some bytes from this position; 0 at the end.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Makes the contents durable (fdatasync: the length too, the times not).
    fn sync_data(&self) -> io::Result<()>;
    /// How long the file is.
    fn length(&self) -> io::Result<u64>;
}

/// Writes all bytes, however short each write comes out.
pub(crate) fn write_all(file: &dyn DiskFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::WriteZero, "the disk took no more bytes")),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends; says how many bytes there were.
pub(crate) fn read_full(file: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// The operating system's disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}

fn regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // O_NONBLOCK: opening a pipe that someone put here must not hang the start.
    let flags = no_follow() | rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = options.custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok(file)
}

fn create_new(path: &Path) -> io::Result<File> {
    // create_new is O_CREAT | O_EXCL, and std always adds O_CLOEXEC.
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(no_follow()).open(path)
}

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        match std::fs::metadata(path) {
            Ok(m) if m.is_dir() => Ok(true),
            Ok(_) => Err(io::Error::new(io::ErrorKind::NotADirectory, "it is no folder")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(create_new(path)?))
    }

    fn create_large(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = create_new(path)?;
        // A file system that cannot (tmpfs of old) refuses here, or the first write.
        let past = (no_follow() as u32 | rustix::fs::OFlags::DIRECT.bits()) as i32;
        let direct = OpenOptions::new().write(true).custom_flags(past).open(path).ok();
        Ok(Box::new(LargeFile { file, direct }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(regular(OpenOptions::new().read(true), path)?))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(regular(OpenOptions::new().read(true).write(true), path)?))
    }

    fn copy(&self, from: &Path, to: &Path, most: u64, may: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        let from = regular(OpenOptions::new().read(true), from)?;
        let mut to = create_new(to)?;
        let mut left = most;
        while left > 0 {
            may()?;
            // By the system itself: some file systems keep the bytes once until one of the two changes.
            let copied = io::copy(&mut (&from).take(STEP.min(left)), &mut to)?;
            left -= copied;
            if copied < STEP {
                break;
            }
        }
        to.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn free(&self, path: &Path) -> io::Result<u64> {
        let told = rustix::fs::statvfs(path)?;
        Ok(told.f_bavail.saturating_mul(told.f_frsize))
    }

    fn is_systems_own(&self) -> bool {
        true
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Result<Box<dyn Send + Sync>, String>> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(no_follow())
            .open(path)?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all(owner.as_bytes())?;
                Ok(Ok(Box::new(file)))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // What it says is only shown; that it is locked is what counts.
                let _ = file.take(256).read_to_string(&mut text);
                Ok(Err(text))
            }
            Err(e) => Err(e.into()),
        }
    }
}

impl DiskFile for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// What memory, offset and length of a write past the page cache have to be multiples of, on every disk met so far.
pub(crate) const PAGE: usize = 4096;

/// A file whose whole pages go past the page cache. Through it, 500 MB want 500 MB of new pages, taken from what others use,
/// and the kernel's own threads write them later, at the priority of those who answer clients: one lookup in a hundred waited
/// 2 ms for them.
struct LargeFile {
    file: File,
    /// The same file, opened to be written past the page cache.
    direct: Option<File>,
}

impl DiskFile for LargeFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let start = bytes.as_ptr().addr();
        let pages = [bytes.len(), start].iter().all(|at| at.is_multiple_of(PAGE)) && offset.is_multiple_of(PAGE as u64);
        if let (Some(direct), true) = (&self.direct, pages) {
            match FileExt::write_at(direct, bytes, offset) {
                // It wants larger pages, or cannot do it at all.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                done => return done,
            }
        }
        FileExt::write_at(&self.file, bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.file, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
