//! Reads every key of a table as of one moment: one statement on a connection and a thread of its own.

use std::sync::Arc;
use std::{mem, thread};

use rusqlite::types::ValueRef;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::place::Place;
use super::rows::canonical;
use super::table::Table;
use super::{failed, reader};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::key::KeyType;
use crate::sources::{KeyBatch, Scan};

/// Keys in a batch: enough to make handing it over cheap, few enough to stay in the caches.
const KEYS: usize = 8192;
/// A batch of long keys ends before.
const BYTES: usize = 1 << 20;

/// What the thread tells. A channel that ends without `End` is a scan that failed.
enum Told {
    /// The moment of the scan has come.
    Begun,
    Keys(KeyBatch),
    End,
    Failed(Error),
}

struct Scanning {
    told: Receiver<Told>,
    ended: bool,
}

/// Starts the thread and waits until it sees the table as of one moment.
pub(super) async fn begin(place: Arc<Place>, table: Arc<Table>) -> Result<Box<dyn Scan>> {
    let (tell, told) = channel(2);
    let run = move || {
        if let Err(error) = read(&place, &table, &tell) {
            _ = tell.blocking_send(Told::Failed(error));
        }
    };
    thread::Builder::new()
        .name("sqlite-scan".into())
        .spawn(run)
        .map_err(|error| Error::new(ErrorKind::Source, format!("no thread for a scan could be started: {error}")))?;
    let mut scanning = Scanning { told, ended: false };
    match scanning.told.recv().await {
        Some(Told::Begun) => Ok(Box::new(scanning)),
        Some(Told::Failed(error)) => Err(error),
        _ => Err(lost()),
    }
}

impl Scan for Scanning {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            batch.clear();
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
        })
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Source, "the scan of the SQLite table ended before its end")
}

/// The thread: all keys, then the end. It stops early when nobody listens.
fn read(place: &Place, table: &Table, tell: &Sender<Told>) -> Result<()> {
    let doing = |error: rusqlite::Error| failed("scanning the keys", &error);
    place.look()?;
    let connection = reader(place)?.connection;
    // The first read of a transaction sets its moment.
    connection.execute_batch("BEGIN; SELECT 1 FROM main.sqlite_schema LIMIT 1").map_err(doing)?;
    if tell.blocking_send(Told::Begun).is_err() {
        return Ok(());
    }
    // The schema is that of the moment too. A column that means something else by now would be read as something else.
    table.check_again(&connection)?;
    let sql = format!("SELECT row.{} FROM {} AS row", table.quoted_key, table.quoted);
    let mut statement = connection.prepare(&sql).map_err(doing)?;
    let mut rows = statement.query([]).map_err(doing)?;
    let (mut batch, mut bytes) = (KeyBatch::default(), 0);
    while let Some(row) = rows.next().map_err(doing)? {
        let value = row.get_ref(0).map_err(doing)?;
        let mut room = [0; 8];
        match canonical(value, table.key_type, &mut room) {
            Some(key) => {
                batch.push(key);
                bytes += key.len();
            }
            None if matches!(value, ValueRef::Null) => {}
            None => return Err(stray(table, value)),
        }
        if batch.len() >= KEYS || bytes >= BYTES {
            bytes = 0;
            if tell.blocking_send(Told::Keys(mem::take(&mut batch))).is_err() {
                return Ok(());
            }
        }
    }
    if !batch.is_empty() && tell.blocking_send(Told::Keys(batch)).is_err() {
        return Ok(());
    }
    // What was read to its end is worth nothing if the file was replaced meanwhile; the footing tells of it.
    place.look()?;
    _ = tell.blocking_send(Told::End);
    Ok(())
}

/// Refuses a value of another type than the column's, and says how to find it.
fn stray(table: &Table, value: ValueRef<'_>) -> Error {
    let class = match table.key_type {
        KeyType::Integer { .. } => "integer",
        KeyType::Bytes => "blob",
        _ => "text",
    };
    let (quoted, key) = (&table.quoted, &table.quoted_key);
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "{}.{} holds a value of type {} where its declared type means {class}: find such rows by SELECT * FROM {quoted} \
             WHERE typeof({key}) NOT IN ('{class}', 'null') and change them, or gate another column",
            table.name,
            table.key,
            value.data_type().to_string().to_lowercase(),
        ),
    )
}
