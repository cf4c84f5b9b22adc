//! The lines themselves, in a table of SQLite: what a filter takes for a repeat is looked up here.
//!
//! New lines wait in memory and are written by the thousands, sorted, so that a page of the table is written once and
//! not once a line. They are written after they were printed: a run that is cut off prints some lines twice, and loses
//! none.

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::collections::HashSet;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use rusqlite::{Connection, ErrorCode, OpenFlags};

    use crate::failure::Failure;

    /// Lines that wait until they are written: 16 MiB, or so many that their sorting still fits the caches.
    const MOST_BYTES: usize = 16 << 20;
    const MOST_LINES: usize = 100_000;

    /// The lines seen so far.
    pub struct Store {
        database: Connection,
        path: PathBuf,
        waiting: HashSet<Vec<u8>>,
        waiting_bytes: usize,
        /// Lines that were looked up, and those of them that were not there.
        pub looked_up: u64,
        /// Lines that the filter took for repeats and that were new.
        pub saved: u64,
    }

    impl Store {
        /// The file of `sqlite:FILE`.
        pub fn path(place: &str) -> Result<&Path, Failure> {
            match place.strip_prefix("sqlite:") {
                Some(path) if !path.is_empty() => Ok(Path::new(path)),
                _ => Err(Failure::Message(format!(
                    "--exact {place}: write sqlite:FILE, the file that keeps the lines; it is made if it is not there"
                ))),
            }
        }

        /// Opens the file, or makes it; and how many lines it has.
        pub fn open(path: &Path) -> Result<(Self, u64), Failure> {
            let refuse = |error: rusqlite::Error| match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy) => {
                    Failure::at(path, "is locked by another run: wait for its end, or give another store")
                }
                _ => Failure::at(path, error),
            };
            // A path is a path: SQLite would keep the lines of `:memory:` and of `file:seen?mode=memory` nowhere.
            let flags = OpenFlags::default().difference(OpenFlags::SQLITE_OPEN_URI);
            let database = Connection::open_with_flags(Path::new(".").join(path), flags).map_err(refuse)?;
            database.busy_timeout(Duration::ZERO).map_err(refuse)?;
            // The file is ours while we run: without this every lookup would lock and unlock it, which took two thirds of
            // the time; and two runs that go on from one store would both print a new line.
            database.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -32768").map_err(refuse)?;
            database
                .execute_batch(
                    // The transaction takes the lock, which reading alone would not, and the mode keeps it.
                    "BEGIN EXCLUSIVE; CREATE TABLE IF NOT EXISTS seen (line BLOB PRIMARY KEY NOT NULL) WITHOUT ROWID; \
                     COMMIT",
                )
                .map_err(refuse)?;
            let count: i64 = database.query_row("SELECT count(*) FROM seen", (), |row| row.get(0)).map_err(refuse)?;
            let (waiting, waiting_bytes, looked_up, saved) = Default::default();
            Ok((
                Self { database, path: path.to_path_buf(), waiting, waiting_bytes, looked_up, saved },
                count.unsigned_abs(),
            ))
        }

        /// Hands out all lines that are written.
        pub fn each(&self, mut with: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
            let refuse = |error: rusqlite::Error| Failure::at(&self.path, error);
            let mut all = self.database.prepare("SELECT line FROM seen").map_err(refuse)?;
            let mut rows = all.query(()).map_err(refuse)?;
            while let Some(row) = rows.next().map_err(refuse)? {
                let line = row.get_ref(0).and_then(|line| Ok(line.as_blob()?)).map_err(refuse)?;
                with(line)?;
            }
            Ok(())
        }

        /// Whether a line is there.
        pub fn has(&mut self, line: &[u8]) -> Result<bool, Failure> {
            self.looked_up += 1;
            if self.waiting.contains(line) {
                return Ok(true);
            }
            let refuse = |error: rusqlite::Error| Failure::at(&self.path, error);
            let mut question = self.database.prepare_cached("SELECT 1 FROM seen WHERE line = ?1").map_err(refuse)?;
            let found = question.exists((line,)).map_err(refuse)?;
            self.saved += u64::from(!found);
            Ok(found)
        }

        /// Adds a line that is not there; it waits.
        pub fn add(&mut self, line: &[u8]) {
            self.waiting_bytes += line.len();
            self.waiting.insert(line.to_vec());
        }

        /// Writes what waits, if it is much or the end.
        pub fn write(&mut self, end: bool) -> Result<(), Failure> {
            if self.waiting.is_empty() || (!end && self.waiting_bytes < MOST_BYTES && self.waiting.len() < MOST_LINES) {
                return Ok(());
            }
            let mut lines: Vec<Vec<u8>> = self.waiting.drain().collect();
            self.waiting_bytes = 0;
            lines.sort_unstable();
            let refuse = |error: rusqlite::Error| Failure::at(&self.path, error);
            let all = self.database.transaction().map_err(refuse)?;
            {
                let mut insert = all.prepare_cached("INSERT OR IGNORE INTO seen VALUES (?1)").map_err(refuse)?;
                for line in &lines {
                    insert.execute((line,)).map_err(refuse)?;
                }
            }
            all.commit().map_err(refuse)
        }
    }
}

#[cfg(not(feature = "sqlite"))]
mod sqlite {
    use std::path::Path;

    use crate::confirm::no_sqlite;
    use crate::failure::Failure;

    /// No lines: this command was built without SQLite.
    pub struct Store {
        pub looked_up: u64,
        pub saved: u64,
    }

    impl Store {
        pub fn path(_: &str) -> Result<&Path, Failure> {
            Err(no_sqlite())
        }
        pub fn open(_: &Path) -> Result<(Self, u64), Failure> {
            Err(no_sqlite())
        }
        pub fn each(&self, _: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
            Err(no_sqlite())
        }
        pub fn has(&mut self, _: &[u8]) -> Result<bool, Failure> {
            Err(no_sqlite())
        }
        pub fn add(&mut self, _: &[u8]) {}
        pub fn write(&mut self, _: bool) -> Result<(), Failure> {
            Err(no_sqlite())
        }
    }
}

pub use sqlite::Store;
