//! A file that is there whole or not at all: written beside, synced, renamed, the directory synced.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Writes `path` through `write`: whatever goes wrong, the file that was there stays as it was.
///
/// The bytes go to `.NAME.tmp.PID.N` in the same directory, which is synced and renamed over `path`;
/// then the directory is synced. After an error the temporary file is removed; after a power cut it may
/// stay behind and can be deleted. A symbolic link is followed; a file that exists keeps its permissions;
/// what exists and is not a plain file (a device, a pipe) is refused, because a rename would replace it; and so is a
/// filter that is being written in place, whose writer would go on with a file that nobody can open any more.
pub fn write_atomically<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    let path = &resolve(path)?;
    refuse_written_in_place(path)?;
    let (mut temporary, file) = Temporary::create_beside(path)?;
    if let Ok(existing) = fs::metadata(path) {
        let kept = file.set_permissions(existing.permissions());
        kept.map_err(|e| {
            Error::io(format!("giving {} the permissions of {}", temporary.0.display(), path.display()), e)
        })?;
    }
    let mut out = BufWriter::with_capacity(64 * 1024, file);
    let value = write(&mut out)?;
    let synced = out.into_inner().map_err(|e| e.into_error()).and_then(|file| file.sync_all());
    synced.map_err(|e| Error::io(format!("writing {}", temporary.0.display()), e))?;
    refuse_written_in_place(path)?;
    fs::rename(&temporary.0, path)
        .map_err(|e| Error::io(format!("renaming {} to {}", temporary.0.display(), path.display()), e))?;
    temporary.0 = PathBuf::new();
    sync_directory(directory(path))?;
    Ok(value)
}

/// Refuses a file that somebody has locked to write it in place. One that cannot be read or locked is replaced: its
/// directory decides about that.
fn refuse_written_in_place(path: &Path) -> Result<()> {
    if let Ok(existing) = File::open(path)
        && let Err(TryLockError::WouldBlock) = existing.try_lock_shared()
    {
        let doing = format!(
            "{} is being written in place, and what is inserted after it was replaced would be lost: close it first, or \
             write to another file",
            path.display()
        );
        return Err(Error::io(doing, io::ErrorKind::WouldBlock.into()));
    }
    Ok(())
}

/// The file that a path stands for, if it can be replaced.
fn resolve(path: &Path) -> Result<PathBuf> {
    let found = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(e) if e.kind() == io::ErrorKind::NotFound => end_of_links(path),
        Err(e) => return Err(Error::io(format!("looking for {}", path.display()), e)),
    };
    if fs::metadata(&found).is_ok_and(|m| !m.is_file()) || found.file_name().is_none() {
        let message = format!("{} is not a plain file: give the path of a file, or write to a stream", path.display());
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    Ok(found)
}

/// Where a chain of links ends that leads to nothing yet: the file is made there, and the links stay links.
fn end_of_links(path: &Path) -> PathBuf {
    let mut end = path.to_path_buf();
    // Forty is what systems follow.
    for _ in 0..40 {
        match fs::read_link(&end) {
            Ok(next) => end = directory(&end).join(next),
            Err(_) => break,
        }
    }
    end
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removed when dropped, unless its path was emptied.
struct Temporary(PathBuf);

impl Temporary {
    fn create_beside(path: &Path) -> Result<(Self, File)> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let mut refusal = None;
        // A name can be taken by what a power cut left behind under the same process id.
        for _ in 0..100 {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let mut name = OsString::from(".");
            // File systems stop at 255 bytes.
            name.push(path.file_name().filter(|n| n.len() <= 200).unwrap_or("bloomgate".as_ref()));
            name.push(format!(".tmp.{}.{number}", std::process::id()));
            let temporary = directory(path).join(name);
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => return Ok((Self(temporary), file)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => refusal = Some((temporary, e)),
                Err(e) => return Err(Error::io(format!("creating {}", temporary.display()), e)),
            }
        }
        let (temporary, e) = refusal.unwrap_or_else(|| (path.to_path_buf(), io::ErrorKind::AlreadyExists.into()));
        Err(Error::io(format!("creating {}", temporary.display()), e))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            // Nothing can be done about a failure here, and the error that led here is the one to report.
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// Makes the name of a file that was just made survive a power cut.
#[cfg_attr(loom, allow(dead_code))]
pub(crate) fn sync_directory_of(path: &Path) -> Result<()> {
    sync_directory(directory(path))
}

/// Makes the rename itself survive a power cut. Where directories cannot be synced, nothing is lost by it.
fn sync_directory(directory: &Path) -> Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(directory).and_then(|d| d.sync_all()) {
        Err(e) if !matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Err(Error::io(format!("syncing the directory {}", directory.display()), e))
        }
        _ => Ok(()),
    }
}
