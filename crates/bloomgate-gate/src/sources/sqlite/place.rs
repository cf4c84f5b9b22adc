//! Where a file is: a path may lead to another file than it did (a backup moved into place), and then every connection
//! that is open reads and writes one that nobody else sees. And whose it is: a lock file beside it says which gate writes.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::sources::Footing;

/// One file of a disk: what a path leads to at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    number: u64,
}

impl FileId {
    /// The file that a path leads to.
    pub fn of(path: &Path) -> Result<Self> {
        let said = |error: std::io::Error| {
            Error::new(
                ErrorKind::Source,
                format!("{} is no file ({error}): give the path of an existing SQLite database", path.display()),
            )
        };
        let found = std::fs::metadata(path).map_err(said)?;
        Ok(Self::from(&found))
    }

    #[cfg(unix)]
    fn from(found: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device: found.dev(), number: found.ino() }
    }

    /// Elsewhere a file that is open cannot be replaced.
    #[cfg(not(unix))]
    fn from(_: &std::fs::Metadata) -> Self {
        Self { device: 0, number: 0 }
    }
}

/// A path, the file it led to last, and the lock beside it.
#[derive(Debug)]
pub(super) struct Place {
    pub path: PathBuf,
    pub footing: Footing,
    last: Mutex<FileId>,
    claimed: Mutex<Option<File>>,
}

impl Place {
    pub fn new(path: &Path) -> Result<Self> {
        let last = Mutex::new(FileId::of(path)?);
        Ok(Self { path: path.to_path_buf(), footing: Footing::default(), last, claimed: Mutex::default() })
    }

    /// The file that the path leads to now. If it is another one than before, the ground has moved.
    pub fn look(&self) -> Result<FileId> {
        let now = FileId::of(&self.path)?;
        let before = std::mem::replace(&mut *self.last.lock().unwrap_or_else(PoisonError::into_inner), now);
        if before != now {
            self.footing.moved(format!("{} is another file than before", self.path.display()));
        }
        Ok(now)
    }

    /// The lock file: the database's own name and this.
    fn lock_file(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push("-bloomgate-gate");
        name.into()
    }

    /// Takes the file for this gate, until it ends. Kept by the system: a process that is killed leaves it free.
    pub fn claim(&self) -> Result<()> {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if claimed.is_some() {
            return Ok(());
        }
        let path = self.lock_file();
        let said = |error: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Source, format!("{} cannot be locked for this gate: {error}", path.display()))
        };
        let file =
            File::options().create(true).truncate(false).write(true).open(&path).map_err(|error| said(&error))?;
        match file.try_lock() {
            Ok(()) => {
                *claimed = Some(file);
                Ok(())
            }
            Err(TryLockError::WouldBlock) => Err(self.taken()),
            Err(TryLockError::Error(error)) => Err(said(&error)),
        }
    }

    /// An error if another gate has taken the file. A lock that cannot be looked at tells of none.
    pub fn ensure_free(&self) -> Result<()> {
        if self.claimed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Ok(());
        }
        match File::open(self.lock_file()).map(|file| file.try_lock_shared()) {
            Ok(Err(TryLockError::WouldBlock)) => Err(self.taken()),
            _ => Ok(()),
        }
    }

    fn taken(&self) -> Error {
        Error::new(
            ErrorKind::Source,
            format!(
                "another gate writes to {}. A gate that says no must see every write: stop the other one, let all writes \
                 pass it, or run this one with writers = unknown",
                self.path.display()
            ),
        )
    }
}
