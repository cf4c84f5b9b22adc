//! Where a file is: a path may lead to another file than it did (a backup moved into place), and then every connection
//! that is open reads and writes one that nobody else sees. And whose it is: lock files beside it say which gate writes, and that
//! others say no.
//!
//! In WAL mode a database is three files: what was committed last is in `-wal` beside it, and `-shm` is the index of that. A
//! file that is moved into place does not take theirs away, and SQLite cannot tell whose they are: it applies pages of the old
//! database to the new one, whatever the journal mode of that is. So they are known by their numbers too, and a new file is
//! not opened beside those of the old one.

use std::fs::{File, TryLockError};
use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, sleep};

use crate::error::{Error, ErrorKind, Result};
use crate::sources::Footing;
use crate::sources::footing::{AGAIN, LETTING_GO, relied_on, taken};

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

/// The lock of the gate that writes, held by it alone.
const WRITES: &str = "-bloomgate-gate";
/// The lock of the gates that say no, held by each of them.
const RELIES: &str = "-bloomgate-gates";
/// Looks at the lock of the writer that may be other gates', which hold it for a moment to see whether it is free.
const LOOKED_AT: u32 = 5;

/// What this gate holds. Each takes its own lock first and looks at the other one then: of a gate that begins to write and
/// one that begins to say no, at least one sees the other.
#[derive(Debug, Default)]
struct Hold {
    /// The lock of the gate that writes, and since when.
    writes: Option<(File, Instant)>,
    /// With it: no other gate says no, and none will.
    alone: bool,
    /// The lock of those that say no.
    relies: Option<File>,
}

/// A path, the file it led to last, and the locks beside it.
#[derive(Debug)]
pub(super) struct Place {
    pub path: PathBuf,
    pub footing: Footing,
    seen: Mutex<Seen>,
    hold: Mutex<Hold>,
}

impl Place {
    pub fn new(path: &Path) -> Result<Self> {
        let seen = Mutex::new(Seen { file: FileId::of(path)?, beside: None, refused: None });
        Ok(Self { path: path.to_path_buf(), footing: Footing::default(), seen, hold: Mutex::default() })
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

    /// Takes the file for this gate, until it ends, and waits until no other one says no. Kept by the system: a process that
    /// is killed leaves it free.
    pub async fn claim(&self) -> Result<()> {
        let mut left = LOOKED_AT;
        loop {
            match self.begin_to_write()? {
                Begun::Alone => return Ok(()),
                Begun::Taken if left == 0 => return Err(self.taken()),
                Begun::Taken => left -= 1,
                // Those that look every second have had their time: whoever has not let go by now has to be stopped.
                Begun::Relied(since) if since.elapsed() > LETTING_GO => {
                    let by = beside(&self.path, RELIES);
                    return Err(relied_on(&self.path.display(), &format!("one that has {} open", by.display())));
                }
                Begun::Relied(_) => {}
            }
            sleep(AGAIN).await;
        }
    }

    fn begin_to_write(&self) -> Result<Begun> {
        let hold = &mut *self.held();
        if hold.alone {
            return Ok(Begun::Alone);
        }
        let since = match &hold.writes {
            Some((_, since)) => *since,
            None => {
                let file = self.lock_file(WRITES)?;
                if !self.locked(WRITES, file.try_lock())? {
                    return Ok(Begun::Taken);
                }
                hold.writes.insert((file, Instant::now())).1
            }
        };
        // While nobody else can write, what this gate says needs no other lock; and its own would be in its way.
        hold.relies = None;
        hold.alone = self.locked(RELIES, self.lock_file(RELIES)?.try_lock())?;
        Ok(if hold.alone { Begun::Alone } else { Begun::Relied(since) })
    }

    /// This gate is about to say no, and does until it ends: from now on no other one begins to write before it has let go.
    /// An error if another gate writes.
    pub fn rely(&self) -> Result<()> {
        let was_relied_on = {
            let hold = &mut *self.held();
            if hold.writes.is_some() {
                return Ok(());
            }
            let was_relied_on = hold.relies.is_some();
            if !was_relied_on {
                let file = self.lock_file(RELIES)?;
                if !self.locked(RELIES, file.try_lock_shared())? {
                    return Err(self.taken());
                }
                hold.relies = Some(file);
            }
            if self.is_free()? {
                return Ok(());
            }
            if !was_relied_on {
                hold.relies = None;
            }
            was_relied_on
        };
        if was_relied_on {
            self.let_go();
        }
        Err(self.taken())
    }

    /// Lets go of the file if another gate is about to write to it: it waits for that.
    pub fn look_for_writers(&self) {
        let hold = self.held();
        // One that cannot be looked at is not feared: whoever has it waits for this gate's own.
        let is_written = hold.relies.is_some() && !self.is_free().unwrap_or(true);
        drop(hold);
        if is_written {
            self.let_go();
        }
    }

    /// First the "no" ends, and then the other gate may write.
    fn let_go(&self) {
        // Whoever is told may take locks of its own.
        self.footing.moved(self.taken().to_string());
        self.held().relies = None;
    }

    /// Whether no other gate writes. A file that is not there was never locked.
    fn is_free(&self) -> Result<bool> {
        match File::open(beside(&self.path, WRITES)) {
            Ok(file) => self.locked(WRITES, file.try_lock_shared()),
            Err(error) if error.kind() == NotFound => Ok(true),
            Err(error) => Err(self.unlockable(WRITES, &error)),
        }
    }

    fn held(&self) -> MutexGuard<'_, Hold> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of a lock. One of another user may be locked all the same, if it can be read.
    fn lock_file(&self, ending: &str) -> Result<File> {
        let path = beside(&self.path, ending);
        let opened = match File::options().create(true).truncate(false).write(true).open(&path) {
            Err(error) if error.kind() == PermissionDenied => File::open(&path),
            opened => opened,
        };
        opened.map_err(|error| self.unlockable(ending, &error))
    }

    /// Whether a lock was had, and not somebody else's.
    fn locked(&self, ending: &str, tried: std::result::Result<(), TryLockError>) -> Result<bool> {
        match tried {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(self.unlockable(ending, &error)),
        }
    }

    fn unlockable(&self, ending: &str, error: &dyn std::fmt::Display) -> Error {
        let path = beside(&self.path, ending);
        Error::new(ErrorKind::Source, format!("{} cannot be locked for this gate: {error}", path.display()))
    }

    fn taken(&self) -> Error {
        taken(&self.path.display())
    }
}

/// How far a gate is that begins to write.
enum Begun {
    /// Nobody else writes, and nobody else says no.
    Alone,
    /// Nobody else writes, but somebody says no. Since when it is so.
    Relied(Instant),
    /// Somebody else writes.
    Taken,
}
