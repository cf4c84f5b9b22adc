//! Reads every key of a table as of one moment: one statement on a connection and a thread of its own.

use std::sync::Arc;
use std::{mem, thread};

use rusqlite::Connection;
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

/// What is scanned.
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

/// Starts the thread and waits until it sees the file as of one moment.
pub(super) async fn begin(place: Arc<Place>, what: Arc<impl Scanned>) -> Result<Box<dyn Scan>> {
    let (tell, told) = channel(2);
    let run = move || {
        if let Err(error) = read(&place, &*what, &tell) {
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
fn read(place: &Place, what: &impl Scanned, tell: &Sender<Told>) -> Result<()> {
    let doing = |error: rusqlite::Error| failed("scanning the keys", &error);
    place.look()?;
    let connection = reader(place)?.connection;
    // The first read of a transaction sets its moment.
    connection.execute_batch("BEGIN; SELECT 1 FROM main.sqlite_schema LIMIT 1").map_err(doing)?;
    if tell.blocking_send(Told::Begun).is_err() {
        return Ok(());
    }
    // The schema is that of the moment too. A column that means something else by now would be read as something else.
    what.check(&connection)?;
    let key_type = what.key_type();
    let mut statement = connection.prepare(&what.sql()).map_err(doing)?;
    let mut rows = statement.query([]).map_err(doing)?;
    let (mut batch, mut bytes) = (KeyBatch::default(), 0);
    while let Some(row) = rows.next().map_err(doing)? {
        let value = row.get_ref(0).map_err(doing)?;
        let mut room = [0; 8];
        match canonical(value, key_type, &mut room) {
            Some(key) => {
                batch.push(key);
                bytes += key.len();
            }
            None if matches!(value, ValueRef::Null) => {}
            None => return Err(what.stray(value)),
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

/// A type as SQLite calls its values.
pub(super) fn class(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::Integer { .. } => "integer",
        KeyType::Bytes => "blob",
        _ => "text",
    }
}

impl Scanned for Table {
    fn sql(&self) -> String {
        format!("SELECT row.{} FROM {} AS row", self.quoted_key, self.quoted)
    }

    fn key_type(&self) -> KeyType {
        self.key_type
    }

    fn check(&self, connection: &Connection) -> Result<()> {
        self.check_again(connection)
    }

    /// Says how to find it.
    fn stray(&self, value: ValueRef<'_>) -> Error {
        let class = class(self.key_type);
        let (quoted, key) = (&self.quoted, &self.quoted_key);
        Error::new(
            ErrorKind::Unsupported,
            format!(
                "{}.{} holds a value of type {} where its declared type means {class}: find such rows by SELECT * FROM \
                 {quoted} WHERE typeof({key}) NOT IN ('{class}', 'null') and change them, or gate another column",
                self.name,
                self.key,
                value.data_type().to_string().to_lowercase(),
            ),
        )
    }
}
