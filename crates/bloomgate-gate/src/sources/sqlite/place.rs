//! Where a file is: a path may lead to another file than it did (a backup moved into place), and then every connection
//! that is open reads and writes one that nobody else sees. And whose it is: a lock file beside it says which gate writes.
//!
//! In WAL mode a database is three files: what was committed last is in `-wal` beside it, and `-shm` is the index of that. A
//! file that is moved into place does not take theirs away, and SQLite cannot tell whose they are: it applies pages of the old
//! database to the new one, whatever the journal mode of that is. So they are known by their numbers too, and a new file is
//! not opened beside those of the old one.

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

/// The files that SQLite keeps beside a database, those of them that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beside([Option<FileId>; ENDINGS.len()]);

/// What their names have behind that of the database.
const ENDINGS: [&str; 2] = ["-wal", "-shm"];

impl Beside {
    fn of(path: &Path) -> Self {
        Self(ENDINGS.map(|ending| std::fs::metadata(beside(path, ending)).ok().map(|found| FileId::from(&found))))
    }

    /// The names of those that were there before, which are not another file's. Of what nobody looked at, none is known not
    /// to be.
    fn left_over(&self, before: Option<Self>, path: &Path) -> Vec<String> {
        let is_left = |at: usize| match (self.0[at], before) {
            (None, _) => false,
            (Some(_), None) => true,
            (now, Some(before)) => now == before.0[at],
        };
        let left = (0..ENDINGS.len()).filter(|&at| is_left(at));
        left.map(|at| beside(path, ENDINGS[at]).display().to_string()).collect()
    }
}

/// The database's own name and this.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(ending);
    name.into()
}

/// What was seen at a path.
#[derive(Debug)]
struct Seen {
    /// The file that is read and written.
    file: FileId,
    /// What is its own beside it, once somebody looked. A connection that is open keeps the numbers from going to others.
    beside: Option<Beside>,
    /// The file that is there instead and may not be opened.
    refused: Option<FileId>,
}

/// A path, the file it led to last, and the lock beside it.
#[derive(Debug)]
pub(super) struct Place {
    pub path: PathBuf,
    pub footing: Footing,
    seen: Mutex<Seen>,
    claimed: Mutex<Option<File>>,
}

impl Place {
    pub fn new(path: &Path) -> Result<Self> {
        let seen = Mutex::new(Seen { file: FileId::of(path)?, beside: None, refused: None });
        Ok(Self { path: path.to_path_buf(), footing: Footing::default(), seen, claimed: Mutex::default() })
    }

    /// The file that the path leads to now. If it is another one than before, the ground has moved. To be called before each
    /// use of a connection and after each that may have made a log, so that whose it is is known.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Source`] if there is no file, or another one than before with what the one before left beside it: then
    /// neither is a connection to be used nor one to be opened.
    pub fn look(&self) -> Result<FileId> {
        let (looked, moved) = self.look_and_compare();
        // Whoever is told may take locks of its own.
        if let Some(why) = moved {
            self.footing.moved(why);
        }
        looked
    }

    /// What [`look`](Self::look) gives, and why the ground has moved, if it has.
    fn look_and_compare(&self) -> (Result<FileId>, Option<String>) {
        // One look at a time: an older one must not be taken for what is there now.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // First what is beside it: if the path still leads to the same file after that, it belongs to it.
        let beside = Beside::of(&self.path);
        let now = match FileId::of(&self.path) {
            Ok(now) => now,
            Err(error) => return (Err(error), None),
        };
        if now == seen.file {
            (seen.beside, seen.refused) = (Some(beside), None);
            return (Ok(now), None);
        }
        let left_over = beside.left_over(seen.beside, &self.path);
        if left_over.is_empty() {
            // What is beside it by now is its own or another process's; it is looked at again once it is open.
            *seen = Seen { file: now, beside: None, refused: None };
            return (Ok(now), Some(format!("{} is another file than before", self.path.display())));
        }
        let why = self.beside_another(&left_over);
        // Told once and not every second: each time would ask for a rebuild.
        let is_news = seen.refused.replace(now) != Some(now);
        (Err(Error::new(ErrorKind::Source, why.clone())), is_news.then_some(why))
    }

    fn beside_another(&self, left_over: &[String]) -> String {
        let (path, left_over) = (self.path.display(), left_over.join(" and "));
        format!(
            "{path} is another file than before, and beside it is still what SQLite wrote for the one before ({left_over}): \
             whoever opens the new file now destroys it, so the gate does not. Remove {left_over} before anything opens \
             {path}, and next time stop the gate first"
        )
    }

    fn lock_file(&self) -> PathBuf {
        beside(&self.path, "-bloomgate-gate")
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
