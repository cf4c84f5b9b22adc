//! Follows the outbox of a PostgreSQL table.
//!
//! Numbers that are given out before a transaction commits (sequences, transaction ids) are not in the order of commits: who
//! reads "higher than the last one" leaves out what a slower transaction commits later. So a place in this feed is a
//! **snapshot**: which transactions had ended when it was read. What is new is what a later snapshot sees and this one did
//! not, `xid >= xmax` or one of those that were under way (`xip`), by an index. A long transaction holds up nothing: its rows
//! are read when it has committed, those of others before.
//!
//! The place and what the feed looks like (its *shape*: the table, its parts and where their rows are, the triggers, the
//! functions, and what might keep rows out of the outbox) are read in one statement, so in one snapshot: as of the watermark,
//! all of it is known to be as it was. Shapes hold the system column `xmin` of what they name: a trigger that was switched off
//! and on again in between is noticed. Rows that somebody deletes from the outbox are told by a row there: `installing`.
//!
//! Within one session of the server nothing can be set back. A new session (a crash, a restart, a restored backup may lie in
//! between, and transaction ids may have been given out again) goes on at the place that the database itself has of
//! this reader, and only if that is the last one it was told: `readers`.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, IsolationLevel, Row, Statement};

use super::catalogue::Table;
use super::connections::Connections;
use super::installing::{Ending, PARTS, Parts, TAMPERED, key_type, look};
use super::wire::Stored;
use super::{Said, failed};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::feed::{Change, ChangeKind, Feed, FeedOptions, Mark, Receiver, gap, not_whole};
use crate::key::Key;

/// What the server says of a feed that may not be read in whole, row security among the reasons.
const HIDDEN: [SqlState; 1] = [SqlState::INSUFFICIENT_PRIVILEGE];
/// Between two reads. Not by `NOTIFY`, whose commits wait for each other in the whole server: writers would pay.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Changes that are handed over at once.
const AT_ONCE: i32 = 10_000;
/// Rows that are cleared away at once.
const CLEAR: i64 = 100_000;
/// How often the feed is looked at anew when somebody changes it meanwhile.
const LOOKS: usize = 5;

/// Where this reader is.
#[derive(Clone, Debug)]
struct Spot {
    /// The snapshot up to which it has read.
    snapshot: String,
    shape: String,
    /// The place that the database has of it, and one that it may have: the connection broke before it said so.
    written: Vec<String>,
    /// The place of the filter that is on disk.
    kept: Option<String>,
}

/// What is kept beside a filter.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    reader: String,
    snapshot: String,
}

/// A connection with what was prepared on it.
struct Session {
    client: Client,
    few: Statement,
    all: Statement,
    _ending: Ending,
}

/// The feed of a table.
pub(super) struct Outbox {
    connections: Connections,
    table: Arc<Table>,
    parts: Parts,
    options: FeedOptions,
    session: tokio::sync::Mutex<Option<Session>>,
    spot: Mutex<Option<Spot>>,
    /// Whether it goes on after another session, between which the server may have crashed.
    rejoined: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the server, but not for ever.
async fn answer<T>(doing: &str, question: impl Future<Output = Said<T>>) -> Result<T> {
    answer_unless(&[], doing, question).await
}

/// The same; these errors too mean that the feed is not whole.
async fn answer_unless<T>(gaps: &[SqlState], doing: &str, question: impl Future<Output = Said<T>>) -> Result<T> {
    match timeout(ANSWER, question).await {
        Ok(said) => said.map_err(|error| match error.code() {
            // What the statement names is gone.
            Some(&SqlState::UNDEFINED_TABLE | &SqlState::UNDEFINED_COLUMN) => gap(failed(doing, &error).to_string()),
            Some(code) if gaps.contains(code) => gap(failed(doing, &error).to_string()),
            _ => failed(doing, &error),
        }),
        Err(_) => Err(Error::new(
            ErrorKind::Source,
            format!("PostgreSQL, {doing}: no answer within {ANSWER:?}: look at the server"),
        )),
    }
}

/// Somebody took this gate for gone, and may have cleared away what it has not read.
fn given_up() -> Error {
    gap("the place of this gate in the feed was given up: it was away for too long")
}

impl Outbox {
    pub fn new(connections: Connections, table: Arc<Table>, options: FeedOptions) -> Self {
        let parts = Parts::of(&table.schema, &table.bare);
        Self {
            connections,
            table,
            parts,
            options,
            session: tokio::sync::Mutex::default(),
            spot: Mutex::default(),
            rejoined: AtomicBool::new(false),
        }
    }

    /// One row with the snapshot, the shape and whether this reader (`$6`) still has its place, so that nobody has cleared away
    /// what it has not read; then the changes that the snapshot `$2` did not see.
    fn question(&self, limit: &str) -> String {
        let Parts { outbox, readers, .. } = &self.parts;
        format!(
            "WITH RECURSIVE {PARTS}, found AS (
                 SELECT c.oid, c.relkind, c.relfilenode FROM part JOIN pg_catalog.pg_class AS c ON c.oid = part.oid
             )
             SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text AS snapshot, pg_catalog.concat_ws(' ',
                 (SELECT pg_catalog.string_agg(pg_catalog.concat_ws('.', oid, relkind, relfilenode), ',' ORDER BY oid) FROM found),
                 (SELECT pg_catalog.concat_ws('.', c.oid, c.relkind, c.relfilenode, c.relpersistence, c.relrowsecurity)
                  FROM pg_catalog.pg_class AS c WHERE c.oid = pg_catalog.to_regclass($3)),
                 (SELECT pg_catalog.concat_ws('.', a.attnum, a.atttypid, a.attcollation) FROM pg_catalog.pg_attribute AS a
                  WHERE a.attrelid = pg_catalog.to_regclass($1) AND a.attname = $4 AND NOT a.attisdropped),
                 'tenant', (SELECT pg_catalog.concat_ws('.', a.attnum, a.atttypid, a.attcollation)
                  FROM pg_catalog.pg_attribute AS a JOIN {about} AS feed ON a.attname = feed.tenant
                  WHERE a.attrelid = pg_catalog.to_regclass($1) AND NOT a.attisdropped),
                 (SELECT pg_catalog.string_agg(pg_catalog.concat_ws('.', t.oid, t.tgrelid, t.tgenabled, t.xmin), ',' ORDER BY t.oid)
                  FROM pg_catalog.pg_trigger AS t JOIN part ON part.oid = t.tgrelid
                  WHERE t.tgfoid = pg_catalog.to_regproc($5)),
                 (SELECT pg_catalog.concat_ws('.', f.oid, f.xmin) FROM pg_catalog.pg_proc AS f
                  WHERE f.oid = pg_catalog.to_regproc($5)),
                 (SELECT pg_catalog.concat_ws('.', a.xmin, a.installed) FROM {about} AS a),
                 'sees', NOT pg_catalog.row_security_active(pg_catalog.to_regclass($1)::pg_catalog.oid),
                 'outbox', (SELECT pg_catalog.string_agg(pg_catalog.concat_ws('.', t.oid, t.tgenabled, t.xmin), ',' ORDER BY t.oid)
                  FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = pg_catalog.to_regclass($3)),
                 'rules', (SELECT pg_catalog.string_agg(pg_catalog.concat_ws('.', r.oid, r.xmin), ',' ORDER BY r.oid)
                  FROM pg_catalog.pg_rewrite AS r WHERE r.ev_class = pg_catalog.to_regclass($3)),
                 'guard', (SELECT pg_catalog.concat_ws('.', f.oid, f.xmin) FROM pg_catalog.pg_proc AS f
                  WHERE f.oid = pg_catalog.to_regproc($7))
             ) AS shape, NULL::pg_catalog.int2 AS kind, NULL::{key} AS key, NULL::pg_catalog.text AS tenant,
             EXISTS (SELECT FROM {readers} AS r WHERE r.name = $6) AS held
             UNION ALL SELECT NULL, NULL, told.kind, told.key, told.tenant, NULL FROM (
                 SELECT kind, key, tenant FROM {outbox}
                 WHERE xid >= pg_catalog.pg_snapshot_xmax($2::pg_catalog.text::pg_catalog.pg_snapshot)
                 UNION ALL SELECT kind, key, tenant FROM {outbox}
                 WHERE xid = ANY (ARRAY(SELECT pg_catalog.pg_snapshot_xip($2::pg_catalog.text::pg_catalog.pg_snapshot)))
                 {limit}
             ) AS told",
            about = self.parts.about,
            key = key_type(self.table.wire),
        )
    }

    async fn connect(&self) -> Result<Session> {
        let connecting = timeout(ANSWER, self.connections.watched(Arc::default()));
        let (client, task) = connecting.await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Source, format!("PostgreSQL did not take a connection within {ANSWER:?}")))
        })?;
        let ending = Ending(task);
        let types = [Type::TEXT; 7];
        let (few, all) = (self.question(&format!("LIMIT {}", AT_ONCE + 1)), self.question(""));
        let prepare = async {
            // What is written down here must outlive a crash; and what row security would hide is an error, not less to read.
            client.batch_execute("SET synchronous_commit = on; SET row_security = off").await?;
            Ok((client.prepare_typed(&few, &types).await?, client.prepare_typed(&all, &types).await?))
        };
        let (few, all) = match answer_unless(&HIDDEN, "preparing to read the feed", prepare).await {
            Ok(prepared) => prepared,
            // Something is missing: the look says what.
            Err(error) if error.kind() == ErrorKind::Gap => return Err(not_whole(&self.table.name, error)),
            Err(error) => return Err(error),
        };
        Ok(Session { client, few, all, _ending: ending })
    }

    /// The connection; a new one if it is gone.
    async fn connected<'a>(&self, session: &'a mut Option<Session>) -> Result<(&'a mut Session, bool)> {
        if session.as_ref().is_some_and(|session| session.client.is_closed()) {
            *session = None;
        }
        let fresh = session.is_none();
        if fresh {
            *session = Some(self.connect().await?);
        }
        let session = session.as_mut().ok_or_else(|| Error::new(ErrorKind::Source, "no connection to PostgreSQL"))?;
        Ok((session, fresh))
    }

    fn place(&self) -> Result<Spot> {
        lock(&self.spot).clone().ok_or_else(|| gap("the feed has no place yet"))
    }

    /// A place at this moment, and the shape that the feed has then and was found whole in. Somebody may install it anew
    /// between a look and a read: what was found whole must be the shape of both reads around the look.
    async fn looked_at(&self, session: &Session) -> Result<(String, String)> {
        let mut before = self.head(session).await?;
        for _ in 0..LOOKS {
            look(&session.client, &self.table, &self.parts).await?;
            let after = self.head(session).await?;
            if after.shape == before.shape {
                return Ok((after.snapshot, after.shape));
            }
            before = after;
        }
        let message = format!("{} or its feed is changed again and again: try later", self.table.name);
        Err(Error::new(ErrorKind::Source, message))
    }

    /// The snapshot and the shape of this moment.
    async fn head(&self, session: &Session) -> Result<Head> {
        // A snapshot that has seen everything: no change is told.
        let rows = self.few(session, "9223372036854775807:9223372036854775807:").await?;
        let mut told = Told::default();
        told.add(&rows, self)?;
        told.head.ok_or_else(|| gap("the feed told no place"))
    }

    /// On a new connection: goes on at the place that the database has of this reader, if it is the one it was told.
    async fn rejoin(&self, session: &Session) -> Result<()> {
        let Some(spot) = lock(&self.spot).clone() else { return Ok(()) };
        let found = self.written(session).await?;
        let Some((place, ..)) = found.filter(|(place, ..)| spot.written.contains(place)) else {
            return Err(gap(
                "the database does not have the place that this gate wrote down last: it was set back to an earlier state, or \
                 the gate was away for too long",
            ));
        };
        if let Some(spot) = &mut *lock(&self.spot) {
            spot.snapshot = place;
        }
        self.rejoined.store(true, SeqCst);
        Ok(())
    }

    /// The place, the place that was kept and the shape that the database has of this reader.
    async fn written(&self, session: &Session) -> Result<Option<(String, Option<String>, String)>> {
        let sql = format!("SELECT place, kept, shape FROM {} WHERE name = $1", self.parts.readers);
        let found = answer("looking for its place in the feed", async {
            let row = session.client.query_opt(&sql, &[&self.options.reader]).await?;
            row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).transpose()
        });
        found.await
    }

    /// Reads on with an open session.
    async fn read_on(&self, session: &mut Session, to: &dyn Receiver) -> Result<()> {
        if self.rejoined.swap(false, SeqCst) {
            // A server that does not wait for the disk (synchronous_commit = off) may have lost what it told: a row that was
            // deleted is there again, one that was cached is not.
            to.forget().await;
        }
        let spot = self.place()?;
        let rows = self.few(session, &spot.snapshot).await?;
        let mut told = Told::default();
        told.add(&rows, self)?;
        if told.changes.len() > AT_ONCE as usize {
            told = Told::default();
            self.read_all(session, &spot.snapshot, &mut told, to).await?;
        } else if !told.changes.is_empty() {
            to.take(&told.changes).await;
        }
        let Head { snapshot, shape, held } =
            told.head.ok_or_else(|| Error::new(ErrorKind::Source, "the feed told no place"))?;
        if !held {
            return Err(given_up());
        }
        if shape != spot.shape {
            if rows_went(&spot.shape, &shape) {
                // No trigger tells that: without this, the scan that follows would find fewer rows than anybody can explain.
                to.take(&[Change { kind: ChangeKind::Emptied, key: None, tenant: None }]).await;
            }
            // Perhaps it says more of what is wrong.
            if let Err(error) = look(&session.client, &self.table, &self.parts).await {
                return Err(gap(error.to_string()));
            }
            return Err(gap(format!(
                "{}, its partitions or what belongs to its feed were changed: rows may have come that no trigger told of",
                self.table.name
            )));
        }
        if let Some(spot) = &mut *lock(&self.spot) {
            spot.snapshot = snapshot;
        }
        Ok(())
    }

    async fn few(&self, session: &Session, snapshot: &str) -> Result<Vec<Row>> {
        let asked = self.asked(&snapshot);
        let read = answer_unless(&HIDDEN, "reading the feed", session.client.query(&session.few, &asked)).await;
        read.map_err(|error| if error.kind() == ErrorKind::Gap { not_whole(&self.table.name, error) } else { error })
    }

    /// The parameters of a question.
    fn asked<'a>(&'a self, snapshot: &'a &'a str) -> [&'a (dyn ToSql + Sync); 7] {
        let (table, parts) = (&self.table, &self.parts);
        [&table.quoted, snapshot, &parts.outbox, &table.key, &parts.function, &self.options.reader, &parts.guard]
    }

    /// Reads more than fits into one answer, part by part, as of one snapshot.
    async fn read_all(&self, session: &mut Session, snapshot: &str, told: &mut Told, to: &dyn Receiver) -> Result<()> {
        let doing = "reading the feed";
        let Session { client, all, .. } = session;
        let begin = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start();
        let reading = answer(doing, begin).await?;
        let asked = self.asked(&snapshot);
        let portal = answer(doing, reading.bind(all, &asked)).await?;
        loop {
            let rows = answer(doing, reading.query_portal(&portal, AT_ONCE)).await?;
            told.changes.clear();
            told.add(&rows, self)?;
            if !told.changes.is_empty() {
                to.take(&told.changes).await;
            }
            if rows.len() < AT_ONCE as usize {
                break;
            }
        }
        answer(doing, reading.commit()).await
    }

    /// Writes this reader's place down.
    async fn write_down(&self, session: &Session, spot: &Spot, anew: bool) -> Result<()> {
        let readers = &self.parts.readers;
        let until = "pg_catalog.now() + pg_catalog.make_interval(secs => $5)";
        let sql = if anew {
            format!(
                "INSERT INTO {readers} AS held (name, place, kept, shape, until) VALUES ($1, $2, $3, $4, {until})
                 ON CONFLICT (name) DO UPDATE SET place = EXCLUDED.place, kept = EXCLUDED.kept, shape = EXCLUDED.shape,
                     until = EXCLUDED.until"
            )
        } else {
            format!("UPDATE {readers} SET place = $2, kept = $3, shape = $4, until = {until} WHERE name = $1")
        };
        if let Some(spot) = &mut *lock(&self.spot) {
            spot.written.push(spot.snapshot.clone());
        }
        let hold = self.options.hold.as_secs_f64();
        let reader = &self.options.reader;
        let told: [&(dyn ToSql + Sync); 5] = [reader, &spot.snapshot, &spot.kept, &spot.shape, &hold];
        let write = session.client.execute(&sql, &told);
        if answer("writing down its place in the feed", write).await? == 0 {
            return Err(given_up());
        }
        if let Some(now) = &mut *lock(&self.spot) {
            now.written = vec![spot.snapshot.clone()];
        }
        Ok(())
    }

    /// Forgets readers that are gone, and clears away what everybody has read.
    async fn clear(&self, session: &Session) -> Result<()> {
        let Parts { outbox, readers, .. } = &self.parts;
        let sql = format!(
            "DELETE FROM {outbox} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {outbox} WHERE xid < (
                 SELECT pg_catalog.pg_snapshot_xmin(COALESCE(kept, place)::pg_catalog.pg_snapshot) AS oldest
                 FROM {readers} ORDER BY oldest LIMIT 1) LIMIT {CLEAR}))"
        );
        let clear = async {
            session.client.batch_execute(&format!("DELETE FROM {readers} WHERE until < pg_catalog.now()")).await?;
            session.client.batch_execute(&sql).await
        };
        answer("clearing the feed", clear).await
    }

    /// Does something with the connection; whatever fails takes it along, but for a gap.
    async fn with<T>(&self, work: impl AsyncFnOnce(&mut Session) -> Result<T>, rejoins: bool) -> Result<T> {
        let mut held = self.session.lock().await;
        let (session, fresh) = self.connected(&mut held).await?;
        let done = async {
            if fresh && rejoins {
                self.rejoin(session).await?;
            }
            work(session).await
        };
        let done = done.await;
        if done.as_ref().is_err_and(|error| error.kind() != ErrorKind::Gap) {
            *held = None;
        }
        done
    }
}

/// Whether rows may be gone without a word from a trigger: the table is the same one and has partitions, of which one was taken
/// away or emptied.
fn rows_went(before: &str, after: &str) -> bool {
    fn parts(shape: &str) -> Vec<&str> {
        shape.split(' ').next().unwrap_or_default().split(',').collect()
    }
    let (before, after) = (parts(before), parts(after));
    let is_partitioned = before.iter().any(|part| part.contains(".p.") && after.contains(part));
    is_partitioned && before.iter().any(|part| part.contains(".r.") && !after.contains(part))
}

/// The first row of an answer.
struct Head {
    snapshot: String,
    shape: String,
    /// Whether the database has a place of this reader.
    held: bool,
}

/// What an answer holds.
#[derive(Default)]
struct Told {
    head: Option<Head>,
    changes: Vec<Change>,
}

impl Told {
    fn add(&mut self, rows: &[Row], outbox: &Outbox) -> Result<()> {
        let read = |row: &Row| -> Said<(Option<String>, Option<String>, Option<i16>)> {
            Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
        };
        for row in rows {
            let said = |error: tokio_postgres::Error| failed("reading the feed", &error);
            let (snapshot, shape, kind) = read(row).map_err(said)?;
            if let (Some(snapshot), Some(shape)) = (snapshot, shape) {
                self.head = Some(Head { snapshot, shape, held: row.try_get(5).map_err(said)? });
                continue;
            }
            if kind == Some(TAMPERED) {
                return Err(gap(format!(
                    "rows of {} were deleted or changed by somebody who is no gate: what they told is not known",
                    outbox.parts.names.outbox
                )));
            }
            let Some(kind) = kind.and_then(|kind| ChangeKind::of(i64::from(kind))) else { continue };
            let key = match row.try_get::<_, Option<Stored<'_>>>(3).map_err(said)? {
                Some(Stored(value)) => {
                    let mut canonical = Vec::with_capacity(value.len());
                    if !outbox.table.wire.canonical(value, &mut canonical) {
                        return Err(gap("a key of another type than the column's was told"));
                    }
                    Some(Key::from_canonical(canonical))
                }
                None => None,
            };
            self.changes.push(Change { kind, key, tenant: row.try_get(4).map_err(said)? });
        }
        Ok(())
    }
}

impl Feed for Outbox {
    fn describe(&self) -> String {
        self.parts.names.outbox.clone()
    }

    fn pause(&self) -> Duration {
        PAUSE
    }

    fn check(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.with(async |session| look(&session.client, &self.table, &self.parts).await, false))
    }

    fn anchor(&self) -> Pending<'_, Result<()>> {
        Box::pin(async move {
            *lock(&self.spot) = None;
            let anchor = async |session: &mut Session| {
                let (snapshot, shape) = self.looked_at(session).await?;
                let spot = Spot { snapshot, shape, written: Vec::new(), kept: None };
                *lock(&self.spot) = Some(spot.clone());
                let written = self.write_down(session, &spot, true).await;
                if written.is_err() {
                    *lock(&self.spot) = None;
                }
                written
            };
            self.with(anchor, false).await
        })
    }

    fn resume<'a>(&'a self, mark: &'a Mark) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            let kept: Kept = serde_json::from_str(&mark.0).map_err(|error| gap(format!("the saved place: {error}")))?;
            *lock(&self.spot) = None;
            let resume = async |session: &mut Session| {
                look(&session.client, &self.table, &self.parts).await?;
                let found = self.written(session).await?;
                match found {
                    Some((place, Some(written), shape))
                        if written == kept.snapshot && kept.reader == self.options.reader =>
                    {
                        let kept = Some(written.clone());
                        *lock(&self.spot) = Some(Spot { snapshot: written, shape, written: vec![place], kept });
                        Ok(())
                    }
                    Some(_) => Err(gap(
                        "the database has another place of this gate than the saved filter: one of them was set back, or the \
                         gate was killed while it saved",
                    )),
                    None => Err(gap("the feed has no place of this gate any more: it was away for too long")),
                }
            };
            self.with(resume, false).await
        })
    }

    fn read<'a>(&'a self, to: &'a dyn Receiver) -> Pending<'a, Result<()>> {
        Box::pin(self.with(async |session| self.read_on(session, to).await, true))
    }

    fn mark(&self) -> Option<Mark> {
        let snapshot = lock(&self.spot).as_ref()?.snapshot.clone();
        serde_json::to_string(&Kept { reader: self.options.reader.clone(), snapshot }).ok().map(Mark)
    }

    fn release<'a>(&'a self, kept: Option<&'a Mark>) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            let release = async |session: &mut Session| {
                let mut spot = self.place()?;
                if let Some(mark) = kept {
                    let kept: Kept = serde_json::from_str(&mark.0).map_err(|error| gap(error.to_string()))?;
                    spot.kept = Some(kept.snapshot);
                }
                self.write_down(session, &spot, false).await?;
                if let Some(now) = &mut *lock(&self.spot) {
                    now.kept = spot.kept;
                }
                self.clear(session).await
            };
            self.with(release, true).await
        })
    }

    fn leave(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.with(
            async |session| {
                let sql = format!("DELETE FROM {} WHERE name = $1", self.parts.readers);
                answer("leaving the feed", session.client.execute(&sql, &[&self.options.reader])).await.map(drop)
            },
            false,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::rows_went;

    #[test]
    fn rows_go_with_partitions_and_not_otherwise() {
        let partitioned = "10.p.0,11.r.21,12.r.22 9.r.9 1.25.100";
        for (before, after, went) in [
            (partitioned, partitioned, false),
            (partitioned, "10.p.0,11.r.21,12.r.22,13.r.23 9.r.9 1.25.100", false),
            (partitioned, "10.p.0,11.r.21,12.r.22 9.r.33 1.25.100", false),
            (partitioned, "10.p.0,11.r.21 9.r.9 1.25.100", true),
            (partitioned, "10.p.0,11.r.21,12.r.40 9.r.9 1.25.100", true),
            // Another table, or none, under the name.
            (partitioned, "50.p.0,51.r.51 9.r.9 1.25.100", false),
            (partitioned, "9.r.9", false),
            ("10.r.20 9.r.9 1.25.100", "10.r.30 9.r.9 1.25.100", false),
        ] {
            assert_eq!(rows_went(before, after), went, "{before} {after}");
        }
    }
}
