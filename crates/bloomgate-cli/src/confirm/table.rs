//! A column of a table of SQLite that really has the keys: read only, one prepared question a key.

use std::path::Path;

use rusqlite::types::{Null, ToSqlOutput, Value, ValueRef};
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
        let database = Connection::open_with_flags(Path::new(".").join(path), flags).map_err(refuse)?;
        // Named with its table, a column that is not there is an error; alone SQLite would take it for a text.
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let (table, column) = (quoted(table), format!("{}.{}", quoted(table), quoted(column)));
        // A text, a blob and a number that are written alike are not equal where the column has no type: all are asked
        // for, which an index answers. What comes is looked at, since 007 is equal to 7 and A to a somewhere.
        let question = format!(
            "SELECT {column}, CAST({column} AS TEXT) FROM {table} WHERE {column} = ?1 OR {column} = ?2 OR {column} = ?3"
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
        let mut steps = plan.query((Null, Null, Null))?;
        while let Some(step) = steps.next()? {
            if step.get::<_, String>(3)?.starts_with("SCAN") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a key is in the column, written as `build --query` takes it from there.
    pub fn has(&mut self, key: &[u8]) -> Result<bool, Failure> {
        let refuse = |error: rusqlite::Error| Failure::Message(format!("{}: {error}", self.name));
        let digits = std::str::from_utf8(key).ok();
        let number = match digits.and_then(|text| text.parse().ok()) {
            Some(integer) => Value::Integer(integer),
            None => digits.and_then(|text| text.parse().ok()).map_or(Value::Null, Value::Real),
        };
        let mut question = self.database.prepare_cached(&self.question).map_err(refuse)?;
        // A text may hold any bytes, whatever its encoding is said to be.
        let text = ToSqlOutput::Borrowed(ValueRef::Text(key));
        let mut rows = question.query((text, key, number)).map_err(refuse)?;
        while let Some(row) = rows.next().map_err(refuse)? {
            let same = match row.get_ref(0).map_err(refuse)? {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes == key,
                ValueRef::Integer(integer) => integer.to_string().as_bytes() == key,
                ValueRef::Real(_) => row.get_ref(1).map_err(refuse)? == ValueRef::Text(key),
                ValueRef::Null => false,
            };
            if same {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
