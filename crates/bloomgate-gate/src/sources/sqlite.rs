//! A table of a SQLite file as the source: reads on a few threads, writes on one, none of them a thread of the runtime.
//!
//! The file is kept in WAL mode, so that a scan of minutes holds up no write. It is three files then, and `place` sees to it
//! that those of one database are never used with those of another. A column is taken only if its equality is
//! that of bytes: `COLLATE NOCASE` and such are refused when the table is opened. SQLite puts any value into any column; a
//! scan that meets one of another type than the column's fails rather than leave it out.

mod feed;
mod installing;
mod place;
mod query;
mod rows;
mod scanning;
mod table;
mod tenants;
mod threads;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params_from_iter};

use super::object::Object;
use super::{Footing, Scan, Source};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::feed::{Feed, FeedOptions, FeedPlan, FeedWork};
use crate::key::{Key, KeyType};
use place::{FileId, Place};
pub use query::SqliteQuery;
use rows::canonical;
use table::{Column, Table};
pub use tenants::SqliteTenants;
use threads::{Open, Threads};

/// Threads that read. SQLite reads from the page cache: more than the usual number of cores gives nothing.
const READERS: usize = 4;
/// How long a statement waits for a lock that another process holds.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long emptying the log waits for those who read it. Nobody writes meanwhile, and it is tried every second.
const LOG_PATIENCE: Duration = Duration::from_millis(200);

/// A table of a SQLite file.
///
/// A row is read as a JSON object of all its columns: blobs as `\x` and hexadecimal digits, infinities as the texts
/// `Infinity` and `-Infinity`. A row is written from such an object: the columns that are not in it keep their values, or
/// get their defaults if the row is new.
#[derive(Debug)]
pub struct Sqlite {
    file: Arc<File>,
    /// Whose rows these are, in a table of many tenants.
    tenant: Option<Key>,
}

/// A file with a table: what the sources of all its tenants share.
#[derive(Debug)]
struct File {
    place: Arc<Place>,
    table: Arc<Table>,
    /// The columns that rows can have; read again when a row has others.
    columns: Mutex<Arc<Vec<Column>>>,
    readers: Threads,
    writer: Threads,
    /// Whether a gate follows the table's feed, which tells what triggers write, too.
    followed: AtomicBool,
}

impl Sqlite {
    /// Opens a table of an existing file, by a column that a unique index (or the primary key) covers alone. Reads the
    /// disk: call it before the runtime is busy.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a column that cannot be gated, [`ErrorKind::Invalid`] for a table or a column that
    /// is not there, [`ErrorKind::Source`] for a file that cannot be read or written.
    pub fn open(path: impl AsRef<Path>, table: &str, key_column: &str) -> Result<Self> {
        let file = File::open(path.as_ref(), table, key_column, None)?;
        Ok(Self { file: Arc::new(file), tenant: None })
    }

    /// Installs the feed of a table: the outbox and the triggers that fill it. What is there and whole is left alone. With
    /// `only_tell` nothing is changed.
    ///
    /// # Errors
    ///
    /// As of [`open`](Self::open).
    pub fn install_feed(
        path: impl AsRef<Path>,
        table: &str,
        key_column: &str,
        plan: &FeedPlan,
        only_tell: bool,
    ) -> Result<FeedWork> {
        installing::install(path.as_ref(), table, key_column, plan, only_tell)
    }

    /// Removes the feed of a table, with everything in its outbox.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Source`] for a file that cannot be read or written.
    pub fn remove_feed(path: impl AsRef<Path>, table: &str, only_tell: bool) -> Result<FeedWork> {
        installing::remove(path.as_ref(), table, only_tell)
    }
}

impl File {
    fn open(path: &Path, table: &str, key_column: &str, tenant_column: Option<&str>) -> Result<Self> {
        // One name for one file, however it was spelled.
        let place = Place::new(&path.canonicalize().unwrap_or_else(|_| path.to_path_buf()))?;
        let writer = writer(&place)?;
        let table = Arc::new(Table::find(&writer.connection, table, key_column, tenant_column)?);
        let columns = table.columns(&writer.connection)?;
        let readers = (0..READERS).map(|_| reader(&place)).collect::<Result<Vec<_>>>()?;
        let begin = |name, connections| {
            Threads::start(name, connections).map_err(|error| {
                Error::new(ErrorKind::Source, format!("no thread for SQLite could be started: {error}"))
            })
        };
        Ok(Self {
            place: Arc::new(place),
            table,
            columns: Mutex::new(Arc::new(columns)),
            readers: begin("sqlite-read", readers)?,
            writer: begin("sqlite-write", vec![writer])?,
            followed: AtomicBool::new(false),
        })
    }

    fn known_columns(&self) -> Arc<Vec<Column>> {
        Arc::clone(&self.columns.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection, &Table) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (place, table) = (Arc::clone(&self.place), Arc::clone(&self.table));
        let done = self.readers.run(true, move |open| job(current(open, &place, &table, reader)?, &table)).await;
        done.unwrap_or_else(|| Err(Error::new(ErrorKind::Source, "the threads that read SQLite have ended")))
    }

    async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection, &Table) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (place, table) = (Arc::clone(&self.place), Arc::clone(&self.table));
        let done = self.writer.run(false, move |open| job(current(open, &place, &table, writer)?, &table)).await;
        done.unwrap_or_else(|| {
            Err(Error::new(ErrorKind::Unknown, "the thread that writes SQLite ended during a write"))
        })
    }
}

impl File {
    /// One write at a time: who may begin one knows that all others have ended.
    async fn settle(&self) -> Result<()> {
        self.place.rely()?;
        let settled = self.write(|connection, _| {
            let alone = connection.transaction_with_behavior(TransactionBehavior::Immediate);
            alone.and_then(rusqlite::Transaction::rollback).map_err(|error| failed("waiting for writes to end", &error))
        });
        settled.await.map_err(|error| match error.kind() {
            // Nothing was written.
            ErrorKind::Unknown => Error::new(ErrorKind::Source, error.to_string()),
            _ => error,
        })
    }

    /// Puts what is in the log into the file that it belongs to. A log with nothing in it can be removed without a loss, and
    /// does no harm to a file that is moved to its side. By the connection that is open: that is of the old file, where the
    /// path leads to a new one.
    async fn empty_log(&self) {
        let emptied = self.writer.run(false, |open| {
            _ = open.connection.busy_timeout(LOG_PATIENCE);
            // Whoever still reads keeps it; then it is done another time, or it stays, as after a kill.
            _ = open.connection.query_row("PRAGMA main.wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            _ = open.connection.busy_timeout(PATIENCE);
        });
        _ = emptied.await;
    }

    async fn look_around(&self) -> Result<()> {
        if let Err(error) = self.place.look() {
            self.empty_log().await;
            return Err(error);
        }
        self.place.look_for_writers();
        self.read(|connection, table| table.check_again(connection)).await
    }
}

impl Source for Sqlite {
    fn describe(&self) -> String {
        let whole = format!("sqlite table {} of {}", self.file.table.name, self.file.place.path.display());
        match self.file.table.tenant.as_ref().zip(self.tenant.as_ref()) {
            None => whole,
            Some((column, tenant)) => format!("{whole}, {} {}", column.name, column.key_type.show(tenant)),
        }
    }

    fn key_type(&self) -> KeyType {
        self.file.table.key_type
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move {
            self.file.table.key_type.check(key)?;
            let (tenant, key) = (self.tenant.clone(), key.clone());
            self.file.read(move |connection, table| find(connection, table, tenant.as_ref(), &key)).await
        })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            keys.iter().try_for_each(|key| self.file.table.key_type.check(key))?;
            let (tenant, keys) = (self.tenant.clone(), keys.to_vec());
            self.file
                .read(move |connection, table| {
                    // One transaction: one lock for all of them, and rows of one moment.
                    let reading = connection.transaction().map_err(|error| failed("beginning to read", &error))?;
                    keys.iter().map(|key| find(&reading, table, tenant.as_ref(), key)).collect()
                })
                .await
        })
    }

    fn check_rows<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            let (file, tenant) = (&*self.file, self.tenant.as_ref());
            let mut columns = file.known_columns();
            let mut checked = check(&file.table, &columns, tenant, rows);
            if checked.is_err() {
                // A column may be new.
                columns = Arc::new(file.read(|connection, table| table.columns(connection)).await?);
                *file.columns.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&columns);
                checked = check(&file.table, &columns, tenant, rows);
            }
            checked
        })
    }

    fn put_many<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            for (key, row) in rows {
                self.file.table.key_type.check(key)?;
                Object::parse(row)?;
            }
            let (tenant, rows, followed) = (self.tenant.clone(), rows.to_vec(), self.file.followed.load(SeqCst));
            self.file
                .write(move |connection, table| {
                    let columns = table.columns(connection)?;
                    let writing = connection
                        .transaction_with_behavior(TransactionBehavior::Immediate)
                        .map_err(|error| failed("beginning to write", &error))?;
                    for (key, row) in &rows {
                        put(&writing, table, &columns, tenant.as_ref(), key, row)?;
                    }
                    if !followed {
                        table.refuse_triggers(&writing)?;
                    }
                    commit(writing)
                })
                .await
        })
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            self.file.table.key_type.check(key)?;
            let (tenant, key, followed) = (self.tenant.clone(), key.clone(), self.file.followed.load(SeqCst));
            self.file
                .write(move |connection, table| {
                    let writing = connection
                        .transaction_with_behavior(TransactionBehavior::Immediate)
                        .map_err(|error| failed("beginning to write", &error))?;
                    let removed = {
                        let mut statement = writing
                            .prepare_cached(&format!("DELETE FROM {} WHERE {}", table.quoted, table.is_row("")))
                            .map_err(|error| failed("deleting a row", &error))?;
                        statement
                            .execute(params_from_iter(table.bound(tenant.as_ref(), &key)))
                            .map_err(|error| failed("deleting a row", &error))?
                    };
                    if !followed {
                        table.refuse_triggers(&writing)?;
                    }
                    commit(writing)?;
                    Ok(removed > 0)
                })
                .await
        })
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        let tenant = self.tenant.clone();
        Box::pin(self.file.read(move |connection, table| {
            let (whose, tenant) = whose(table, tenant.as_ref());
            let sql = format!("SELECT count(row.{}) FROM {} AS row{whose}", table.quoted_key, table.quoted);
            let count: i64 = connection
                .query_row(&sql, params_from_iter(tenant), |row| row.get(0))
                .map_err(|error| failed("counting keys", &error))?;
            Ok(u64::try_from(count).unwrap_or_default())
        }))
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        Box::pin(scanning::begin(&self.file, self.tenant.clone()))
    }

    fn footing(&self) -> Option<&Footing> {
        Some(&self.file.place.footing)
    }

    fn feed(&self, options: FeedOptions) -> Option<Arc<dyn Feed>> {
        self.file.followed.store(true, SeqCst);
        Some(Arc::new(feed::Outbox::new(Arc::clone(&self.file.place), Arc::clone(&self.file.table), options)))
    }

    fn claim(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.file.place.claim())
    }

    fn settle(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.file.settle())
    }

    fn look_around(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.file.look_around())
    }

    fn stopped(&self) -> Pending<'_, ()> {
        Box::pin(self.file.empty_log())
    }
}

/// The connection of a thread; another one if the path leads to another file by now.
fn current<'a>(
    open: &'a mut Open,
    place: &Place,
    table: &Table,
    again: fn(&Place) -> Result<Open>,
) -> Result<&'a mut Connection> {
    if place.look()? != open.file {
        let fresh = again(place)?;
        table.check_again(&fresh.connection)?;
        still_there(place, fresh.file)?;
        *open = fresh;
    }
    Ok(&mut open.connection)
}

fn connect(place: &Place, access: OpenFlags) -> Result<Open> {
    // Before SQLite looks what is beside it.
    let (path, file) = (place.path.as_path(), place.look()?);
    // Before SQLite does: it takes `:memory:` and an empty name for databases of their own.
    if !path.is_file() {
        return Err(Error::new(
            ErrorKind::Source,
            format!("{} is no file: give the path of an existing SQLite database", path.display()),
        ));
    }
    let open = || {
        let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    let connection = open().map_err(|error| failed(&format!("opening {}", path.display()), &error))?;
    still_there(place, file)?;
    Ok(Open { connection, file })
}

/// An error if the path leads to another file than the one that was opened; and what SQLite made beside it by now is known to
/// be that one's.
fn still_there(place: &Place, file: FileId) -> Result<()> {
    if place.look()? == file {
        return Ok(());
    }
    let message = format!("{} was replaced while it was opened: try again", place.path.display());
    Err(Error::new(ErrorKind::Source, message))
}

/// The connection that writes.
fn writer(place: &Place) -> Result<Open> {
    let open = connect(place, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mode: String = open
        .connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(|error| failed("switching to WAL mode", &error))?;
    if mode == "wal" {
        still_there(place, open.file)?;
        return Ok(open);
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "{} stays in journal mode {mode}, in which a scan would hold up every write: put it on a local disk as a file \
             that can be written, so that it can be in WAL mode",
            place.path.display()
        ),
    ))
}

/// A connection that reads. Not a read-only one: the first reader of a file in WAL mode has to make its index.
fn reader(place: &Place) -> Result<Open> {
    let open = connect(place, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let alone = open.connection.pragma_update(None, "query_only", true);
    alone.map_err(|error| failed("opening the file to read", &error))?;
    Ok(open)
}

/// The condition that rows are a tenant's, and the tenant as its parameter; nothing for a table without tenants.
fn whose<'a>(table: &Table, tenant: Option<&'a Key>) -> (String, Option<rows::Asked<'a>>) {
    match table.tenant.as_ref().zip(tenant) {
        None => (String::new(), None),
        Some((column, tenant)) => {
            let asked = rows::Asked { key_type: column.key_type, key: tenant };
            (format!(" WHERE row.{} = ?1", column.quoted), Some(asked))
        }
    }
}

fn find(connection: &Connection, table: &Table, tenant: Option<&Key>, key: &Key) -> Result<Option<Bytes>> {
    let doing = |error: rusqlite::Error| failed("reading a row", &error);
    let sql = format!("SELECT row.* FROM {} AS row WHERE {}", table.quoted, table.is_row("row."));
    let mut statement = connection.prepare_cached(&sql).map_err(doing)?;
    let asked = params_from_iter(table.bound(tenant, key));
    statement.query_row(asked, |row| Ok(rows::to_json(row))).optional().map_err(doing)?.transpose()
}

/// Refuses rows that no table of these columns takes.
fn check(table: &Table, columns: &[Column], tenant: Option<&Key>, rows: &[(Key, Bytes)]) -> Result<()> {
    for (key, row) in rows {
        table.key_type.check(key)?;
        rows::to_values(&Object::parse(row)?, table, columns, tenant, key)?;
    }
    Ok(())
}

/// Inserts or updates one row within a transaction.
fn put(
    connection: &Connection,
    table: &Table,
    columns: &[Column],
    tenant: Option<&Key>,
    key: &Key,
    row: &Bytes,
) -> Result<()> {
    let doing = |error: rusqlite::Error| failed("writing a row", &error);
    let object = Object::parse(row)?;
    let given = rows::to_values(&object, table, columns, tenant, key)?;
    let stored = {
        let names: Vec<&str> = given.iter().map(|(column, _)| column.quoted.as_str()).collect();
        let mut statement = connection.prepare_cached(&upsert(table, &names)).map_err(doing)?;
        let mut next = 1;
        for asked in table.bound(tenant, key) {
            statement.raw_bind_parameter(next, asked).map_err(doing)?;
            next += 1;
        }
        for (at, (_, value)) in given.iter().enumerate() {
            statement.raw_bind_parameter(at + next, value).map_err(doing)?;
        }
        let mut returned = statement.raw_query();
        match returned.next().map_err(doing)? {
            Some(row) => {
                let mut same = true;
                for (at, asked) in table.bound(tenant, key).enumerate() {
                    let value = row.get_ref(at).map_err(doing)?;
                    same &= canonical(value, asked.key_type, &mut [0; 8])
                        .is_some_and(|stored| stored == asked.key.canonical());
                }
                same
            }
            None => false,
        }
    };
    if stored {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "{} did not store the row under its key {:?}: look for a trigger that drops or changes it",
            table.name,
            table.key_type.show(key)
        ),
    ))
}

/// Inserts the key and these columns, or updates them where the key is there already. Parameters: the key, the tenant of a
/// table that has them, the columns.
fn upsert(table: &Table, names: &[&str]) -> String {
    let key = match &table.tenant {
        None => table.quoted_key.clone(),
        Some(tenant) => format!("{}, {}", table.quoted_key, tenant.quoted),
    };
    let columns: String = names.iter().map(|name| format!(", {name}")).collect();
    let of_key = if table.tenant.is_some() { 2 } else { 1 };
    let places: Vec<String> = (1..=of_key + names.len()).map(|at| format!("?{at}")).collect();
    // With nothing to update the row still has to be found, so that RETURNING tells of it.
    let updates: Vec<String> = match names {
        [] => vec![format!("{0} = excluded.{0}", table.quoted_key)],
        names => names.iter().map(|name| format!("{name} = excluded.{name}")).collect(),
    };
    format!(
        "INSERT INTO {} ({key}{columns}) VALUES ({}) ON CONFLICT ({key}) DO UPDATE SET {} RETURNING {key}",
        table.quoted,
        places.join(", "),
        updates.join(", ")
    )
}

/// Commits. Once the disk has failed in the middle of it, nobody knows what a restart will find.
fn commit(writing: rusqlite::Transaction<'_>) -> Result<()> {
    writing.commit().map_err(|error| match failed("committing", &error) {
        lost if lost.kind() == ErrorKind::Source => Error::new(ErrorKind::Unknown, lost.to_string()),
        refused => refused,
    })
}

/// What SQLite said, as an error of the gate.
fn failed(doing: &str, error: &rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Busy,
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => ErrorKind::Invalid,
        _ => ErrorKind::Source,
    };
    Error::new(kind, format!("SQLite, {doing}: {error}"))
}
