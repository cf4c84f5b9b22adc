//! Keys from a query to a SQLite file, which is opened to be read only: a file that is not there is not made.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::feed::{Feed, Rows};
use crate::failure::Failure;

/// The rows of a query.
pub fn query(path: &Path, name: &str, sql: &str, keep_empty: bool) -> Result<Feed, Failure> {
    let refuse = |error: &dyn std::fmt::Display| Failure::Message(format!("{name}: {error}"));
    let metadata = std::fs::metadata(path).map_err(|error| refuse(&error))?;
    if metadata.is_dir() {
        return Err(refuse(&"is a directory: give the file of a database"));
    }
    // Without SQLITE_OPEN_URI and in a folder, so that the path is a path whatever it looks like (`:memory:`).
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(Path::new(".").join(path), flags).map_err(|error| refuse(&error))?;
    let (name, sql) = (name.to_string(), sql.to_string());
    Feed::start(&name.clone(), "null", keep_empty, move |rows| read(&connection, &name, &sql, rows))
}

fn read(connection: &Connection, name: &str, sql: &str, rows: &mut Rows) -> Result<(), Failure> {
    let refuse = |error: rusqlite::Error| Failure::Message(format!("{name}: {error}"));
    let mut statement = connection.prepare(sql).map_err(refuse)?;
    let columns: Vec<String> = statement.column_names().map(String::from).collect();
    if columns.is_empty() {
        return Err(Failure::Message(format!("{name}: the query gives no rows: write a SELECT")));
    }
    let several = columns.len() > 1;
    let mut found = statement.query([]).map_err(refuse)?;
    while let Some(row) = found.next().map_err(refuse)? {
        for (at, column) in columns.iter().enumerate() {
            match row.get_ref(at).map_err(refuse)? {
                ValueRef::Null => rows.null(),
                ValueRef::Integer(integer) => rows.integer(integer),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => rows.part(bytes, several)?,
                ValueRef::Real(number) => {
                    return Err(rows.refuse(format_args!(
                        "{column} is {number}, a number with a fraction: a key is a text, an integer or a blob; say in \
                         the query how it is written, as with CAST({column} AS TEXT)"
                    )));
                }
            }
        }
        rows.end()?;
        rows.next_row();
    }
    Ok(())
}
