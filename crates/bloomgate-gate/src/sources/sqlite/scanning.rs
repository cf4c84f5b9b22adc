//! Reads every key of a table as of one moment: one statement on a connection and a thread of its own.

use std::sync::Arc;
use std::{mem, thread};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params_from_iter};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::place::Place;
use super::rows::{Asked, canonical};
use super::table::Table;
use super::tenants::tenancy;
use super::threads::Open;
use super::{File, failed, reader, still_there, whose};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, KeyType};
use crate::sources::{KeyBatch, Scan, TenantBatch, TenantScan};

/// Keys in a batch: enough to make handing it over cheap, few enough to stay in the caches.
const KEYS: usize = 8192;
/// A batch of long keys ends before.
const BYTES: usize = 1 << 20;

/// What the thread tells. A channel that ends without `End` is a scan that failed.
enum Told<B> {
    /// The moment of the scan has come.
    Begun,
    Keys(B),
    End,
    Failed(Error),
}

struct Scanning<B> {
    told: Receiver<Told<B>>,
    ended: bool,
}

/// What a query gives.
pub(super) trait Scanned: Send + Sync + 'static {
    /// The statement that gives every key.
    fn sql(&self) -> String;

    /// The type of the keys.
    fn key_type(&self) -> KeyType;

    /// Refuses to go on with something that is not what it was at the start.
    fn check(&self, connection: &Connection) -> Result<()>;

    /// Refuses a value of another type than the keys'.
    fn stray(&self, value: ValueRef<'_>) -> Error;
}

/// Begins to read the keys of a table, or of one tenant in it.
pub(super) async fn begin(file: &File, tenant: Option<Key>) -> Result<Box<dyn Scan>> {
    let (place, table) = (Arc::clone(&file.place), Arc::clone(&file.table));
    let scanning = start(move |tell| {
        let (whose, tenant) = whose(&table, tenant.as_ref());
        let sql = format!("SELECT row.{} FROM {} AS row{whose}", table.quoted_key, table.quoted);
        read(
            &place,
            |connection| table.check_again(connection),
            tell,
            &sql,
            tenant,
            |row, batch: &mut KeyBatch| {
                let mut room = [0; 8];
                let Some(key) = value(row, 0, (&table.key, &table.quoted_key, table.key_type), &table, &mut room)?
                else {
                    return Ok(0);
                };
                batch.push(key);
                Ok(key.len().max(1))
            },
        )
    });
    Ok(Box::new(scanning.await?))
}

/// Begins to read the keys of all tenants.
pub(super) async fn begin_all(file: &File) -> Result<Box<dyn TenantScan>> {
    let (place, table) = (Arc::clone(&file.place), Arc::clone(&file.table));
    let scanning = start(move |tell| {
        let tenant = tenancy(&table)?;
        let sql = format!("SELECT row.{}, row.{} FROM {} AS row", tenant.quoted, table.quoted_key, table.quoted);
        read(
            &place,
            |connection| table.check_again(connection),
            tell,
            &sql,
            None,
            |row, batch: &mut TenantBatch| {
                let (mut room, mut more) = ([0; 8], [0; 8]);
                let column = (tenant.name.as_str(), tenant.quoted.as_str(), tenant.key_type);
                let Some(tenant) = value(row, 0, column, &table, &mut room)? else { return Ok(0) };
                let column = (table.key.as_str(), table.quoted_key.as_str(), table.key_type);
                let Some(key) = value(row, 1, column, &table, &mut more)? else { return Ok(0) };
                batch.push(tenant, key);
                Ok((tenant.len() + key.len()).max(1))
            },
        )
    });
    Ok(Box::new(scanning.await?))
}

/// Begins to read the keys that a query gives.
pub(super) async fn begin_query(place: Arc<Place>, what: Arc<impl Scanned>) -> Result<Box<dyn Scan>> {
    let scanning = start(move |tell| {
        let check = |connection: &Connection| what.check(connection);
        read(&place, check, tell, &what.sql(), None, |row, batch: &mut KeyBatch| {
            let value = row.get_ref(0).map_err(|error| failed("scanning the keys", &error))?;
            match canonical(value, what.key_type(), &mut [0; 8]) {
                Some(key) => {
                    batch.push(key);
                    Ok(key.len().max(1))
                }
                None if matches!(value, ValueRef::Null) => Ok(0),
                None => Err(what.stray(value)),
            }
        })
    });
    Ok(Box::new(scanning.await?))
}

/// Starts the thread and waits until it sees the table as of one moment.
async fn start<B: Send + 'static>(
    work: impl FnOnce(&Sender<Told<B>>) -> Result<()> + Send + 'static,
) -> Result<Scanning<B>> {
    let (tell, told) = channel(2);
    let run = move || {
        if let Err(error) = work(&tell) {
            _ = tell.blocking_send(Told::Failed(error));
        }
    };
    thread::Builder::new()
        .name("sqlite-scan".into())
        .spawn(run)
        .map_err(|error| Error::new(ErrorKind::Source, format!("no thread for a scan could be started: {error}")))?;
    let mut scanning = Scanning { told, ended: false };
    match scanning.told.recv().await {
        Some(Told::Begun) => Ok(scanning),
        Some(Told::Failed(error)) => Err(error),
        _ => Err(lost()),
    }
}

impl<B: Default> Scanning<B> {
    async fn next(&mut self, batch: &mut B) -> Result<bool> {
        *batch = B::default();
        if self.ended {
            return Ok(false);
        }
        match self.told.recv().await {
            Some(Told::Keys(keys)) => *batch = keys,
            Some(Told::End) => self.ended = true,
            Some(Told::Failed(error)) => return Err(error),
            Some(Told::Begun) | None => return Err(lost()),
        }
        Ok(!self.ended)
    }
}

impl Scan for Scanning<KeyBatch> {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        Box::pin(self.next(batch))
    }
}

impl TenantScan for Scanning<TenantBatch> {
    fn next<'a>(&'a mut self, batch: &'a mut TenantBatch) -> Pending<'a, Result<bool>> {
        Box::pin(self.next(batch))
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Source, "the scan of the SQLite table ended before its end")
}

/// The thread: all rows, then the end. It stops early when nobody listens. `take` puts a row into a batch and says how many
/// bytes that is, 0 for a row that nobody can ask for.
fn read<B: Default>(
    place: &Place,
    check: impl FnOnce(&Connection) -> Result<()>,
    tell: &Sender<Told<B>>,
    sql: &str,
    parameter: Option<Asked<'_>>,
    take: impl Fn(&Row<'_>, &mut B) -> Result<usize>,
) -> Result<()> {
    let doing = |error: rusqlite::Error| failed("scanning the keys", &error);
    let Open { connection, file } = reader(place)?;
    // The first read of a transaction sets its moment.
    connection.execute_batch("BEGIN; SELECT 1 FROM main.sqlite_schema LIMIT 1").map_err(doing)?;
    still_there(place, file)?;
    if tell.blocking_send(Told::Begun).is_err() {
        return Ok(());
    }
    // The schema is that of the moment too. A column that means something else by now would be read as something else.
    check(&connection)?;
    let mut statement = connection.prepare(sql).map_err(doing)?;
    let mut rows = statement.query(params_from_iter(parameter)).map_err(doing)?;
    let (mut batch, mut taken, mut bytes) = (B::default(), 0, 0);
    while let Some(row) = rows.next().map_err(doing)? {
        let more = take(row, &mut batch)?;
        (taken, bytes) = (taken + usize::from(more > 0), bytes + more);
        if taken >= KEYS || bytes >= BYTES {
            (taken, bytes) = (0, 0);
            if tell.blocking_send(Told::Keys(mem::take(&mut batch))).is_err() {
                return Ok(());
            }
        }
    }
    if taken > 0 && tell.blocking_send(Told::Keys(batch)).is_err() {
        return Ok(());
    }
    // What was read to its end is worth nothing if the file was replaced meanwhile.
    still_there(place, file)?;
    _ = tell.blocking_send(Told::End);
    Ok(())
}

/// A type as SQLite calls its values.
pub(super) fn class(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::Integer { .. } => "integer",
        KeyType::Bytes => "blob",
        _ => "text",
    }
}

/// The canonical bytes of a column (its name, the same quoted, its type) of a row; nothing for NULL.
pub(super) fn value<'a>(
    row: &'a Row<'_>,
    at: usize,
    (name, quoted, key_type): (&str, &str, KeyType),
    table: &Table,
    room: &'a mut [u8; 8],
) -> Result<Option<&'a [u8]>> {
    let value = row.get_ref(at).map_err(|error| failed("scanning the keys", &error))?;
    match canonical(value, key_type, room) {
        Some(bytes) => Ok(Some(bytes)),
        None if matches!(value, ValueRef::Null) => Ok(None),
        None => Err(stray(table, name, quoted, key_type, value)),
    }
}

/// Refuses a value of another type than the column's, and says how to find it.
fn stray(table: &Table, name: &str, quoted_name: &str, key_type: KeyType, value: ValueRef<'_>) -> Error {
    let (class, quoted) = (class(key_type), &table.quoted);
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "{}.{name} holds a value of type {} where its declared type means {class}: find such rows by SELECT * FROM \
             {quoted} WHERE typeof({quoted_name}) NOT IN ('{class}', 'null') and change them, or gate another column",
            table.name,
            value.data_type().to_string().to_lowercase(),
        ),
    )
}
