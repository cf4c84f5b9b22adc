//! Follows the outbox of a SQLite table.
//!
//! Rows are numbered in the order of commits, for one writes at a time; so what was not read yet is what has a higher number.
//! With each read, in one transaction: the schema has not changed since the feed was looked at (its cookie counts every
//! change, so a trigger that was dropped and made again in between is noticed too), the row that was read last is still the
//! same one by its random number (a file that was set back has another one there, or none), and no number is missing, the last
//! ones that were given out included.
//!
//! `PRAGMA data_version` says for 5 us whether anybody committed anything: most reads end there. It knows nothing of who writes
//! into the file without SQLite (`cp backup.db shop.db`), and neither does the connection, which goes on with the pages that it
//! has; so the file's size and times are looked at too, and when they changed the file is opened anew. A checkpoint changes
//! them as well: that costs 0.3 ms.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use serde::{Deserialize, Serialize};

use super::installing::look;
use super::place::{FileId, Place};
use super::rows::canonical;
use super::table::{Table, quote};
use super::threads::{Open, Threads};
use super::{PATIENCE, current, failed, writer};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::feed::{Change, ChangeKind, Feed, FeedOptions, Mark, Names, Receiver, gap};
use crate::key::Key;

/// Between two reads: a look at a file where nothing happened takes 10 us.
const PAUSE: Duration = Duration::from_millis(20);
/// Changes that are handed over at once.
const AT_ONCE: i64 = 10_000;
/// Rows that are cleared away at once: writers wait that long, about 20 ms.
const CLEAR: i64 = 20_000;
/// How long clearing away waits for a writer: it can be done another time.
const CLEAR_PATIENCE: Duration = Duration::from_millis(200);

/// How old the last change of a file must be before its times tell it from the next one: systems note them by a clock that
/// moves every few milliseconds.
const SETTLED: Duration = Duration::from_millis(100);

/// What a file looks like from outside: different after every write, by whomever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trace {
    length: u64,
    modified: Option<SystemTime>,
    /// When anything of it was changed: unlike the time above, nobody can set it.
    changed: Option<SystemTime>,
}

impl Trace {
    fn of(path: &Path) -> Result<Self> {
        let said = |error: std::io::Error| {
            Error::new(ErrorKind::Source, format!("{} cannot be looked at: {error}", path.display()))
        };
        let found = std::fs::metadata(path).map_err(said)?;
        let modified = found.modified().ok();
        Ok(Self { length: found.len(), modified, changed: changed(&found).or(modified) })
    }

    /// Whether a change from now on would look different.
    fn is_settled(&self) -> bool {
        self.changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|since| since >= SETTLED)
    }
}

#[cfg(unix)]
fn changed(found: &std::fs::Metadata) -> Option<SystemTime> {
    use std::os::unix::fs::MetadataExt;
    let (seconds, nanoseconds) = (u64::try_from(found.ctime()).ok()?, u32::try_from(found.ctime_nsec()).ok()?);
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

#[cfg(not(unix))]
fn changed(_: &std::fs::Metadata) -> Option<SystemTime> {
    None
}

/// What the connection was opened on.
#[derive(Clone, Copy, Debug, Default)]
struct Opened {
    /// How the file looked; nothing where the next change might look the same.
    on: Option<Trace>,
    times: u64,
}

/// A moment at which the file was read to its end: the file, how often it was opened, and the version that SQLite counts.
type ReadAt = (FileId, u64, i64);

/// A place in the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Spot {
    installation: String,
    /// The cookie of the schema when the feed was looked at.
    schema: i64,
    /// The last row that was read, and its random number.
    id: i64,
    nonce: i64,
}

/// The feed of a table.
pub(super) struct Outbox {
    place: Arc<Place>,
    table: Arc<Table>,
    names: Arc<Names>,
    options: FeedOptions,
    /// A thread with a connection of its own, started with the first read.
    threads: tokio::sync::Mutex<Option<Arc<Threads>>>,
    spot: Mutex<Option<Spot>>,
    opened: Arc<Mutex<Opened>>,
    read_at: Mutex<Option<ReadAt>>,
    /// What the database was told of this reader, and when.
    held: Mutex<Option<(i64, u64)>>,
    kept: Mutex<Option<i64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// What a read gave.
struct Read {
    changes: Vec<Change>,
    spot: Spot,
    /// Whether there is nothing behind it, as of this moment.
    whole: Option<ReadAt>,
}

impl Outbox {
    pub fn new(place: Arc<Place>, table: Arc<Table>, options: FeedOptions) -> Self {
        let names = Arc::new(Names::of(&table.name));
        Self {
            place,
            table,
            names,
            options,
            threads: tokio::sync::Mutex::default(),
            spot: Mutex::default(),
            opened: Arc::default(),
            read_at: Mutex::default(),
            held: Mutex::default(),
            kept: Mutex::default(),
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection, &Table, &Names, (FileId, u64)) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let threads = {
            let mut threads = self.threads.lock().await;
            match &*threads {
                Some(threads) => Arc::clone(threads),
                None => {
                    let started = Threads::start("sqlite-feed", vec![writer(&self.place)?]).map_err(|error| {
                        Error::new(ErrorKind::Source, format!("no thread for the feed could be started: {error}"))
                    })?;
                    let started = Arc::new(started);
                    *threads = Some(Arc::clone(&started));
                    started
                }
            }
        };
        let (place, table, names) = (Arc::clone(&self.place), Arc::clone(&self.table), Arc::clone(&self.names));
        let opened = Arc::clone(&self.opened);
        let done = threads.run(true, move |open: &mut Open| {
            current(open, &place, &table, writer)?;
            let times = as_it_is(open, &opened, &place, &table)?;
            let file = open.file;
            job(&mut open.connection, &table, &names, (file, times))
        });
        done.await.unwrap_or_else(|| Err(Error::new(ErrorKind::Source, "the thread that follows the feed has ended")))
    }

    fn place(&self) -> Result<Spot> {
        lock(&self.spot).clone().ok_or_else(|| gap("the feed has no place yet"))
    }
}

/// Opens the file anew if it looks different than when it was opened last, and says how often that was done: pages that the
/// connection has kept are not those of a file that somebody wrote over.
fn as_it_is(open: &mut Open, opened: &Mutex<Opened>, place: &Place, table: &Table) -> Result<u64> {
    let mut opened = lock(opened);
    let now = Trace::of(&place.path)?;
    if opened.on == Some(now) {
        return Ok(opened.times);
    }
    opened.on = None;
    let fresh = writer(place).map_err(|error| match error.kind() {
        // The other connections of this gate hold the log of the file that was there.
        ErrorKind::Busy => gap(format!(
            "{} was written over while the gate has it open, by a file that is not in WAL mode ({error}): start the gate anew",
            place.path.display()
        )),
        _ => error,
    })?;
    table.check_again(&fresh.connection)?;
    *open = fresh;
    opened.times += 1;
    opened.on = now.is_settled().then_some(now);
    Ok(opened.times)
}

fn said(error: &rusqlite::Error) -> Error {
    failed("reading the feed", error)
}

/// The last number that was given out.
fn last_given(connection: &Connection, names: &Names) -> Result<i64> {
    let sql = "SELECT seq FROM main.sqlite_sequence WHERE name = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(|error| said(&error))?;
    let last = statement.query_row([&names.outbox], |row| row.get(0)).optional().map_err(|error| said(&error))?;
    Ok(last.unwrap_or_default())
}

fn cookie(connection: &Connection) -> Result<i64> {
    connection.query_row("PRAGMA main.schema_version", [], |row| row.get(0)).map_err(|error| said(&error))
}

/// Looks whether a place is where it was, within a transaction.
fn verify(connection: &Connection, table: &Table, names: &Names, spot: &Spot) -> Result<()> {
    if cookie(connection)? != spot.schema {
        // Perhaps it says more of what is wrong.
        look(connection, table, names)?;
        return Err(gap("the schema of the file was changed: a trigger of the feed may have been away for a while"));
    }
    let sql = format!("SELECT nonce FROM main.{} WHERE id = ?1", quote(&names.outbox));
    let mut statement = connection.prepare_cached(&sql).map_err(|error| said(&error))?;
    let nonce: Option<i64> =
        statement.query_row([spot.id], |row| row.get(0)).optional().map_err(|error| said(&error))?;
    match nonce {
        Some(nonce) if nonce == spot.nonce => Ok(()),
        Some(_) => Err(gap(format!(
            "row {} of {} is another one than it was: the file was set back to an earlier state",
            spot.id, names.outbox
        ))),
        None => Err(gap(format!(
            "row {} of {} is gone: the file was set back to an earlier state, or the row was cleared away while the gate \
             was away",
            spot.id, names.outbox
        ))),
    }
}

/// Reads on behind a place, within a transaction.
fn read(connection: &Connection, table: &Table, names: &Names, spot: &Spot) -> Result<(Vec<Change>, Spot)> {
    verify(connection, table, names, spot)?;
    let sql = format!(
        "SELECT id, nonce, kind, key, tenant FROM main.{} WHERE id > ?1 ORDER BY id LIMIT {AT_ONCE}",
        quote(&names.outbox)
    );
    let mut statement = connection.prepare_cached(&sql).map_err(|error| said(&error))?;
    let mut rows = statement.query([spot.id]).map_err(|error| said(&error))?;
    let (mut changes, mut last) = (Vec::new(), spot.clone());
    while let Some(row) = rows.next().map_err(|error| said(&error))? {
        let at = |error: rusqlite::Error| said(&error);
        let id: i64 = row.get(0).map_err(at)?;
        if id != last.id + 1 {
            return Err(gap(format!("{} goes on at row {id} after {}: rows are missing", names.outbox, last.id)));
        }
        (last.id, last.nonce) = (id, row.get(1).map_err(at)?);
        let Some(kind) = ChangeKind::of(row.get(2).map_err(at)?) else { continue };
        let value = row.get_ref(3).map_err(at)?;
        let key = match canonical(value, table.key_type, &mut [0; 8]) {
            Some(key) => Some(Key::from_canonical(key)),
            None if value.data_type() == rusqlite::types::Type::Null => None,
            // A scan refuses it, and says how to find it.
            None => return Err(gap("a key of another type than the column's was written")),
        };
        let tenant = match row.get_ref(4).map_err(at)? {
            rusqlite::types::ValueRef::Integer(value) => Some(value.to_string()),
            rusqlite::types::ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        changes.push(Change { kind, key, tenant });
    }
    if last.id - spot.id < AT_ONCE {
        let given = last_given(connection, names)?;
        if given != last.id {
            return Err(gap(format!("{} ends at row {} of {given}: rows are missing", names.outbox, last.id)));
        }
    }
    Ok((changes, last))
}

impl Feed for Outbox {
    fn describe(&self) -> String {
        self.names.outbox.clone()
    }

    fn pause(&self) -> Duration {
        PAUSE
    }

    fn check(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.run(|connection, table, names, _| look(connection, table, names).map(drop)))
    }

    fn anchor(&self) -> Pending<'_, Result<()>> {
        Box::pin(async move {
            let spot = self.run(|connection, table, names, _| {
                let outbox = quote(&names.outbox);
                let sql = format!("SELECT id, nonce FROM main.{outbox} ORDER BY id DESC LIMIT 1");
                look(connection, table, names)?;
                let end: Option<i64> =
                    connection.query_row(&sql, [], |row| row.get(0)).optional().map_err(|error| said(&error))?;
                if end != Some(last_given(connection, names)?) {
                    // Somebody deleted the last rows: one to begin after, so that the next is not taken for a hole.
                    let mark = format!("INSERT INTO main.{outbox} (nonce, kind) VALUES (random(), 0)");
                    connection.execute(&mark, []).map_err(|error| said(&error))?;
                }
                let reading = connection.transaction().map_err(|error| said(&error))?;
                let about = look(&reading, table, names)?;
                let last = reading.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional();
                let Some((id, nonce)) = last.map_err(|error| said(&error))? else {
                    return Err(crate::feed::not_whole(&table.name, "its outbox was emptied"));
                };
                Ok(Spot { installation: about.installation, schema: cookie(&reading)?, id, nonce })
            });
            let spot = spot.await?;
            *lock(&self.spot) = Some(spot);
            (*lock(&self.read_at), *lock(&self.held), *lock(&self.kept)) = (None, None, None);
            // From now on nobody clears away what comes behind it.
            self.release(None).await
        })
    }

    fn resume<'a>(&'a self, mark: &'a Mark) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            let spot: Spot = serde_json::from_str(&mark.0).map_err(|error| gap(format!("the saved place: {error}")))?;
            let (asked, id) = (spot.clone(), spot.id);
            self.run(move |connection, table, names, _| {
                let reading = connection.transaction().map_err(|error| said(&error))?;
                verify(&reading, table, names, &asked)?;
                let about = look(&reading, table, names)?;
                if about.installation != asked.installation {
                    return Err(gap("the feed was installed anew since the filter was saved"));
                }
                Ok(())
            })
            .await?;
            *lock(&self.spot) = Some(spot);
            *lock(&self.kept) = Some(id);
            (*lock(&self.read_at), *lock(&self.held)) = (None, None);
            Ok(())
        })
    }

    fn read<'a>(&'a self, to: &'a dyn Receiver) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            loop {
                let (spot, read_at) = (self.place()?, *lock(&self.read_at));
                let read = self
                    .run(move |connection, table, names, (file, opened)| {
                        // Read before the rows: what is committed in between is read twice, never left out.
                        let version: i64 = connection
                            .query_row("PRAGMA main.data_version", [], |row| row.get(0))
                            .map_err(|error| said(&error))?;
                        let now = (file, opened, version);
                        if read_at == Some(now) {
                            return Ok(None);
                        }
                        let reading = connection.transaction().map_err(|error| said(&error))?;
                        let (changes, last) = read(&reading, table, names, &spot)?;
                        let whole = (last.id - spot.id < AT_ONCE).then_some(now);
                        Ok(Some(Read { changes, spot: last, whole }))
                    })
                    .await?;
                let Some(read) = read else { return Ok(()) };
                if !read.changes.is_empty() {
                    to.take(&read.changes).await;
                }
                *lock(&self.spot) = Some(read.spot);
                if read.whole.is_some() {
                    *lock(&self.read_at) = read.whole;
                    return Ok(());
                }
            }
        })
    }

    fn mark(&self) -> Option<Mark> {
        serde_json::to_string(lock(&self.spot).as_ref()?).ok().map(Mark)
    }

    fn release<'a>(&'a self, kept: Option<&'a Mark>) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            if let Some(mark) = kept {
                let kept: Spot = serde_json::from_str(&mark.0).map_err(|error| gap(error.to_string()))?;
                *lock(&self.kept) = Some(kept.id);
            }
            let hold = (*lock(&self.kept)).map_or_else(|| self.place().map(|spot| spot.id), Ok)?;
            let (now, lasts) = (now(), self.options.hold.as_millis() as u64);
            // Every write of ours is one that others wait for: only if there is something to say.
            if (*lock(&self.held)).is_some_and(|(at, when)| at == hold && now < when + lasts / 4) {
                return Ok(());
            }
            let (reader, until) = (self.options.reader.clone(), now + lasts);
            let done = self.run(move |connection, _, names, _| {
                _ = connection.busy_timeout(CLEAR_PATIENCE);
                let cleared = clear(connection, names, &reader, hold, now, until);
                _ = connection.busy_timeout(PATIENCE);
                cleared
            });
            match done.await {
                Ok(()) => *lock(&self.held) = Some((hold, now)),
                // Somebody writes for long: the next time, then.
                Err(error) if error.kind() == ErrorKind::Busy => {}
                Err(error) => return Err(error),
            }
            Ok(())
        })
    }

    fn leave(&self) -> Pending<'_, Result<()>> {
        let reader = self.options.reader.clone();
        Box::pin(self.run(move |connection, _, names, _| {
            let sql = format!("DELETE FROM main.{} WHERE name = ?1", quote(&names.readers));
            connection.execute(&sql, [reader]).map(drop).map_err(|error| said(&error))
        }))
    }
}

/// Writes a reader's place down, forgets readers that are gone, and clears away what everybody has read. The row at a place
/// stays: by it the place is found again.
fn clear(connection: &mut Connection, names: &Names, reader: &str, kept: i64, now: u64, until: u64) -> Result<()> {
    let said = |error: rusqlite::Error| failed("clearing the feed", &error);
    let (outbox, readers) = (quote(&names.outbox), quote(&names.readers));
    let writing = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(said)?;
    let hold = format!(
        "INSERT INTO main.{readers} (name, kept, until) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET kept = excluded.kept, until = excluded.until"
    );
    writing.execute(&hold, (reader, kept, until as i64)).map_err(said)?;
    writing.execute(&format!("DELETE FROM main.{readers} WHERE until < ?1"), [now as i64]).map_err(said)?;
    let clear = format!(
        "DELETE FROM main.{outbox} WHERE id < (SELECT min(kept) FROM main.{readers})
         AND id < (SELECT min(id) FROM main.{outbox}) + {CLEAR}"
    );
    writing.execute(&clear, []).map_err(said)?;
    writing.commit().map_err(said)
}
