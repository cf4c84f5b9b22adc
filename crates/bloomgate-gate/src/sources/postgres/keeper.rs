//! A connection beside the pool that keeps the ground under the filter: it holds the locks by which one gate writes to a
//! table and others know, looks every second whether the table and the server are the same, and waits for writes of before.
//!
//! There are two locks of a table: that of the gate that writes, and that of the gates that say no, which they share. Each
//! gate takes its own first and looks at the other one then, so that of a gate that begins to write and one that begins to
//! say no, at least one sees the other; and the one that writes waits until the others have let go.
//!
//! The locks are advisory ones of the connection: they end with the connection, at the latest when the server finds out that
//! the gate is gone, and with them the gate's "no". Two connections through a pooler that shares sessions (pgbouncer in
//! transaction mode) cannot hold one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;

use super::catalogue::Table;
use super::connections::{Connections, Lost, within};
use super::failed;
use crate::error::{Error, ErrorKind, Result};
use crate::sources::Footing;
use crate::sources::footing::{AGAIN, LETTING_GO, relied_on, taken};

/// How long transactions that write may take to end before a scan gives up on them.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the server may take to answer a look.
const LOOK: Duration = Duration::from_secs(5);
/// The first half of the number of the writer's lock (`gate`), and of that of the gates that say no (`gato`).
const WRITES: i32 = 0x6761_7465;
const RELIES: i32 = 0x6761_746F;

/// What a connection holds.
#[derive(Debug, Default)]
pub(super) struct Hold(AtomicU8);

/// The states of it, each more than those before: nothing, the lock of those that say no, that of the writer, and with it the
/// knowledge that no other gate says no.
const NOTHING: u8 = 0;
const RELYING: u8 = 1;
const WRITING: u8 = 2;
const ALONE: u8 = 3;

impl Hold {
    fn get(&self) -> u8 {
        self.0.load(SeqCst)
    }

    fn set(&self, state: u8) {
        self.0.store(state, SeqCst);
    }

    /// The connection has ended. Whether anything ended with it.
    pub fn end(&self) -> bool {
        self.0.swap(NOTHING, SeqCst) != NOTHING
    }
}

/// The connection, if there is one.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    line: Mutex<Option<Held>>,
    /// What it holds, for writes, which must not wait for a look.
    hold: ArcSwap<Hold>,
}

#[derive(Debug)]
struct Held {
    client: Client,
    task: AbortHandle,
    /// Of this connection alone: the end of one before says nothing about it.
    hold: Arc<Hold>,
    /// When it took the writer's lock.
    writes_since: Option<Instant>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Ends the connection, and with it the locks.
        self.task.abort();
    }
}

/// Transactions that have written to a table (or to a part of it) and not ended, by the lock that they hold until then.
/// Whoever waits for them to end sees what they committed: a transaction is visible before it lets go of its locks.
const UNENDED: &str = "
    WITH RECURSIVE part AS (
        SELECT $1::oid AS oid UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN part ON i.inhparent = part.oid
    )
    SELECT DISTINCT l.virtualtransaction, l.pid FROM pg_catalog.pg_locks AS l JOIN part ON part.oid = l.relation
    WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
      AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";

impl Keeper {
    /// Takes the lock of the gate that writes, unless it is held already, and waits until no other gate says no.
    pub async fn claim(&self, connections: &Connections, table: &Table) -> Result<()> {
        if self.hold.load().get() == ALONE {
            return Ok(());
        }
        let mut line = self.line.lock().await;
        if self.hold.load().get() == ALONE {
            return Ok(());
        }
        let held = self.connected(&mut line, connections).await?;
        match held.begin_to_write(table).await {
            Ok(begun) => begun,
            Err(lost) => {
                *line = None;
                Err(lost.told("taking the table for this gate"))
            }
        }
    }

    /// Waits for the transactions that have written to the table, and holds the lock of the gates that say no; an error if
    /// another gate writes.
    pub async fn settle(&self, connections: &Connections, table: &Table) -> Result<()> {
        let mut line = self.line.lock().await;
        let held = self.connected(&mut line, connections).await?;
        let settled = timeout(PATIENCE * 2, self.wait(held, table, &connections.whereabouts.footing)).await;
        let silent = || Err(Error::new(ErrorKind::Source, "PostgreSQL does not say which transactions are open"));
        let settled = settled.unwrap_or_else(|_| silent());
        if settled.is_err() && held.client.is_closed() {
            *line = None;
        }
        settled
    }

    async fn wait(&self, held: &Held, table: &Table, footing: &Footing) -> Result<()> {
        let doing = |lost: Lost| lost.told("waiting for writes to end");
        // Found out here, it does not spoil a filter that is being built.
        timeout(LOOK, table.check_again(&held.client, footing)).await.unwrap_or_else(|_| silent())?;
        held.rely(table, footing).await?;
        let (before, begun) = (within(unended(&held.client, table)).await.map_err(doing)?, Instant::now());
        let mut left = before;
        let mut pause = Duration::from_millis(10);
        while let Some((_, pid)) = left.first() {
            if begun.elapsed() > PATIENCE {
                let who = pid.map_or("a prepared one".to_owned(), |pid| format!("that of the process {pid}"));
                let message = format!(
                    "{} transactions have written to {} and not ended for {PATIENCE:?} ({who}): a filter built now could \
                     miss what they commit. Look at pg_stat_activity and pg_prepared_xacts",
                    left.len(),
                    table.name
                );
                return Err(Error::new(ErrorKind::Source, message));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(250));
            // Nobody else looks meanwhile.
            held.rely(table, footing).await?;
            let open = within(unended(&held.client, table)).await.map_err(doing)?;
            left.retain(|before| open.contains(before));
        }
        Ok(())
    }

    /// Looks whether the table and the server are the same, and whether another gate is about to write.
    pub async fn look_around(&self, connections: &Connections, table: &Table) -> Result<()> {
        // A scan that is about to begin looks itself.
        let Ok(mut line) = self.line.try_lock() else { return Ok(()) };
        let held = self.connected(&mut line, connections).await?;
        let looked = timeout(LOOK, async {
            table.check_again(&held.client, &connections.whereabouts.footing).await?;
            let lock = match held.hold.get() {
                NOTHING => return Ok(true),
                RELYING => RELIES,
                _ => WRITES,
            };
            let holds = holds(&held.client, table, lock).await;
            if !holds.map_err(|error| failed("looking for other gates", &error))? {
                return Ok(false);
            }
            // That another one writes is told where it matters.
            _ = held.rely(table, &connections.whereabouts.footing).await;
            Ok(true)
        });
        let looked = looked.await.unwrap_or_else(|_| silent());
        // Without an answer in time it is as good as gone, and with it the locks; and one whose locks another session has, as
        // behind a pooler, holds none.
        if !matches!(looked, Ok(true)) || held.client.is_closed() {
            *line = None;
        }
        looked.map(drop)
    }

    /// The connection; made anew if it is gone.
    async fn connected<'a>(&self, line: &'a mut Option<Held>, connections: &Connections) -> Result<&'a mut Held> {
        if line.as_ref().is_some_and(|held| held.client.is_closed()) {
            *line = None;
        }
        if line.is_none() {
            let hold = Arc::new(Hold::default());
            let (client, task) = connections.watched(hold.clone()).await?;
            self.hold.store(hold.clone());
            *line = Some(Held { client, task, hold, writes_since: None });
        }
        line.as_mut().ok_or_else(|| Error::new(ErrorKind::Source, "no connection to PostgreSQL"))
    }
}

impl Held {
    /// Takes the lock of the gate that writes, and waits until no other one says no.
    async fn begin_to_write(&mut self, table: &Table) -> std::result::Result<Result<()>, Lost> {
        let since = match self.writes_since {
            Some(since) => since,
            None => {
                let sql = "SELECT pg_catalog.pg_try_advisory_lock($1, $2)";
                if !within(lock(&self.client, sql, table, WRITES)).await? {
                    return Ok(Err(taken(&table.name)));
                }
                if let Err(broke) = self.now_holds(WRITING) {
                    return Ok(Err(broke));
                }
                *self.writes_since.insert(Instant::now())
            }
        };
        while let Some(pid) = within(another(&self.client, table, RELIES)).await? {
            // Those that look every second have had their time: whoever has not let go by now has to be stopped.
            if since.elapsed() > LETTING_GO {
                let by = format!("process {pid} of the server, which pg_terminate_backend ends if the gate is gone");
                return Ok(Err(relied_on(&table.name, &by)));
            }
            sleep(AGAIN).await;
        }
        Ok(self.now_holds(ALONE))
    }

    /// Sees to it that no other gate begins to write before this one has let go; lets go if one is about to.
    async fn rely(&self, table: &Table, footing: &Footing) -> Result<()> {
        let doing = |lost: Lost| lost.told("looking for other gates");
        let before = self.hold.get();
        if before >= WRITING {
            return Ok(());
        }
        if before == NOTHING {
            let sql = "SELECT pg_catalog.pg_try_advisory_lock_shared($1, $2)";
            if !within(lock(&self.client, sql, table, RELIES)).await.map_err(doing)? {
                return Err(taken(&table.name));
            }
            self.now_holds(RELYING)?;
        }
        if within(another(&self.client, table, WRITES)).await.map_err(doing)?.is_none() {
            return Ok(());
        }
        // First the "no" ends, and then the other gate may write.
        if before == RELYING {
            footing.moved(taken(&table.name).to_string());
        }
        self.hold.set(NOTHING);
        let sql = "SELECT pg_catalog.pg_advisory_unlock_shared($1, $2)";
        within(lock(&self.client, sql, table, RELIES)).await.map_err(doing)?;
        Err(taken(&table.name))
    }

    /// Notes what is held from now on.
    fn now_holds(&self, state: u8) -> Result<()> {
        self.hold.set(state);
        // It may have ended before that was noted, and nobody would be told.
        match self.client.is_closed() {
            false => Ok(()),
            true => {
                self.hold.set(NOTHING);
                let message = "the connection that holds the table's lock broke: try again";
                Err(Error::new(ErrorKind::Source, message))
            }
        }
    }
}

fn silent<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Source, format!("PostgreSQL did not answer within {LOOK:?}")))
}

/// The second half of the lock's number: the table's name, since a table that is replaced keeps it. FNV-1a (Fowler, Noll
/// and Vo, 1991); two tables of one number would only keep each other's gates away.
fn number(table: &Table) -> i32 {
    let hash =
        table.quoted.bytes().fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed()
}

type Said<T> = std::result::Result<T, tokio_postgres::Error>;

/// Takes or leaves a lock of the table; whether it was had.
async fn lock(client: &Client, sql: &str, table: &Table, lock: i32) -> Said<bool> {
    client.query_one(sql, &[&lock, &number(table)]).await?.try_get(0)
}

/// The transactions that have written to a table and not ended, and their processes.
async fn unended(client: &Client, table: &Table) -> Said<Vec<(String, Option<i32>)>> {
    let rows = client.query(UNENDED, &[&table.oid()]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The locks of a table that are held by this connection, or by others.
const LOCKS: &str = "
    FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
      AND classid::pg_catalog.int8 = $1 AND objid::pg_catalog.int8 = $2
      AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";

/// The server's process of another connection that holds a lock of the table, if one does.
async fn another(client: &Client, table: &Table, lock: i32) -> Said<Option<i32>> {
    let sql = format!("SELECT pid {LOCKS} AND pid <> pg_catalog.pg_backend_pid() LIMIT 1");
    let (class, object) = halves(table, lock);
    client.query_opt(&sql, &[&class, &object]).await?.map(|row| row.try_get(0)).transpose()
}

/// Whether this connection holds a lock of the table.
async fn holds(client: &Client, table: &Table, lock: i32) -> Said<bool> {
    let sql = format!("SELECT EXISTS (SELECT {LOCKS} AND pid = pg_catalog.pg_backend_pid())");
    let (class, object) = halves(table, lock);
    client.query_one(&sql, &[&class, &object]).await?.try_get(0)
}

/// The number of a lock as `pg_locks` shows it.
fn halves(table: &Table, lock: i32) -> (i64, i64) {
    (i64::from(lock.cast_unsigned()), i64::from(number(table).cast_unsigned()))
}
