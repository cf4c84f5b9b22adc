//! A column of a table of SQLite that really has the keys: read only, one prepared question a key.

use std::path::Path;

use rusqlite::types::Null;
use rusqlite::{Connection, OpenFlags};

use crate::failure::Failure;
use crate::file;
use crate::screen::{self, WARN, paint};

/// A column, and the question that is asked of it.
pub struct Table {
    database: Connection,
    name: String,
    question: String,
}

impl Table {
    /// Opens `FILE?table.column`.
    pub fn open(place: &str) -> Result<Self, Failure> {
        let parts = place.rsplit_once('?').and_then(|(file, column)| Some((file, column.rsplit_once('.')?)));
        let Some((path, (table, column))) =
            parts.filter(|(file, (table, column))| ![*file, *table, *column].contains(&""))
        else {
            return Err(Failure::Message(format!(
                "sqlite:{place} names no column: write 'sqlite:FILE?table.column', such as 'sqlite:users.db?users.email'"
            )));
        };
        file::check_filter(Path::new(path))?;
        if !Path::new(path).exists() {
            return Err(Failure::at(Path::new(path), "there is no such database"));
        }
        let refuse = |error: rusqlite::Error| match error {
            // The question is ours: what is wrong in it is the name.
            rusqlite::Error::SqlInputError { msg, .. } => {
                Failure::Message(format!("{path}: {msg}: name the column as 'sqlite:FILE?table.column'"))
            }
            error => Failure::Message(format!("{path}: {error}")),
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(path, flags).map_err(refuse)?;
        // Named with its table, a column that is not there is an error; alone SQLite would take it for a text.
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let (table, column) = (quoted(table), format!("{}.{}", quoted(table), quoted(column)));
        // Text is not equal to a blob of the same bytes, and 007 is equal to the number 7: all are asked for, which an
        // index answers, and then only the same bytes count.
        let question = format!(
            "SELECT 1 FROM {table} WHERE ({column} = ?1 OR {column} = ?2) AND CAST({column} AS BLOB) = ?2 LIMIT 1"
        );
        let this = Self { database, name: path.into(), question };
        if this.scans().map_err(refuse)? {
            screen::tell(format_args!(
                "{} {path}: {column} has no index: every maybe reads the whole table; an index makes it a matter of \
                 microseconds",
                paint(WARN, "note:")
            ));
        }
        Ok(this)
    }

    /// Whether the question reads the whole table.
    fn scans(&self) -> rusqlite::Result<bool> {
        let mut plan = self.database.prepare(&format!("EXPLAIN QUERY PLAN {}", self.question))?;
        let mut steps = plan.query((Null, Null))?;
        while let Some(step) = steps.next()? {
            if step.get::<_, String>(3)?.starts_with("SCAN") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a key is in the column.
    pub fn has(&mut self, key: &[u8]) -> Result<bool, Failure> {
        let refuse = |error: rusqlite::Error| Failure::Message(format!("{}: {error}", self.name));
        let mut question = self.database.prepare_cached(&self.question).map_err(refuse)?;
        question.exists((std::str::from_utf8(key).ok(), key)).map_err(refuse)
    }
}
