//! A connection beside the pool that keeps the ground under the filter: it holds the lock by which one gate writes to a
//! table, looks every second whether the table and the server are the same, and waits for writes of before.
//!
//! The lock is an advisory one of the connection: it ends with the connection, at the latest when the server finds out that
//! the gate is gone. Two connections through a pooler that shares sessions (pgbouncer in transaction mode) cannot hold one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;

use super::catalogue::Table;
use super::connections::{Connections, within};
use super::failed;
use crate::error::{Error, ErrorKind, Result};
use crate::sources::Footing;

/// How long transactions that write may take to end before a scan gives up on them.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the server may take to answer a look.
const LOOK: Duration = Duration::from_secs(5);
/// The first half of the lock's number: `gate`.
const LOCK: i32 = 0x6761_7465;

/// The connection, if there is one.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    line: Mutex<Option<Held>>,
    /// Whether the lock is ours: for writes, which must not wait for a look.
    claimed: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Held {
    client: Client,
    task: AbortHandle,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Ends the connection, and with it the lock.
        self.task.abort();
    }
}

/// Transactions that have written to a table (or to a part of it) and not ended, by the lock that they hold until then.
/// Whoever waits for them to end sees what they committed: a transaction is visible before it lets go of its locks.
const WRITING: &str = "
    WITH RECURSIVE part AS (
        SELECT $1::oid AS oid UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN part ON i.inhparent = part.oid
    )
    SELECT DISTINCT l.virtualtransaction, l.pid FROM pg_catalog.pg_locks AS l JOIN part ON part.oid = l.relation
    WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
      AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";

impl Keeper {
    /// Takes the lock of a table, unless it is held already.
    pub async fn claim(&self, connections: &Connections, table: &Table) -> Result<()> {
        if self.claimed.load(SeqCst) {
            return Ok(());
        }
        let mut line = self.line.lock().await;
        if self.claimed.load(SeqCst) {
            return Ok(());
        }
        let held = self.connected(&mut line, connections).await?;
        let taking = async {
            let sql = "SELECT pg_catalog.pg_try_advisory_lock($1, $2)";
            held.client.query_one(sql, &[&LOCK, &number(table)]).await?.try_get(0)
        };
        match within(taking).await {
            Ok(true) => {
                self.claimed.store(true, SeqCst);
                // It may have ended before the mark was made.
                if held.client.is_closed() {
                    self.claimed.store(false, SeqCst);
                    *line = None;
                    return Err(Error::new(
                        ErrorKind::Source,
                        "the connection that holds the table's lock broke: try again",
                    ));
                }
                Ok(())
            }
            Ok(false) => Err(taken(table)),
            Err(lost) => {
                *line = None;
                Err(lost.told("taking the table for this gate"))
            }
        }
    }

    /// Waits for the transactions that have written to the table; an error if another gate has it.
    pub async fn settle(&self, connections: &Connections, table: &Table) -> Result<()> {
        let mut line = self.line.lock().await;
        let held = self.connected(&mut line, connections).await?;
        let settled = timeout(PATIENCE * 2, self.wait(&held.client, table, &connections.whereabouts.footing)).await;
        let silent = || Err(Error::new(ErrorKind::Source, "PostgreSQL does not say which transactions are open"));
        let settled = settled.unwrap_or_else(|_| silent());
        if settled.is_err() && held.client.is_closed() {
            *line = None;
        }
        settled
    }

    async fn wait(&self, client: &Client, table: &Table, footing: &Footing) -> Result<()> {
        let doing = |error: tokio_postgres::Error| failed("waiting for writes to end", &error);
        // Found out here, it does not spoil a filter that is being built.
        table.check_again(client, footing).await?;
        if !self.claimed.load(SeqCst) && !is_free(client, table).await.map_err(doing)? {
            return Err(taken(table));
        }
        let ask = async || -> std::result::Result<Vec<(String, Option<i32>)>, tokio_postgres::Error> {
            let rows = client.query(WRITING, &[&table.oid()]).await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        };
        let (before, begun) = (ask().await.map_err(doing)?, Instant::now());
        let mut left: Vec<_> = before;
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
            let open = ask().await.map_err(doing)?;
            left.retain(|before| open.contains(before));
        }
        Ok(())
    }

    /// Looks whether the table and the server are the same, and whether another gate has come.
    pub async fn look_around(&self, connections: &Connections, table: &Table) -> Result<()> {
        // A scan that is about to begin looks itself.
        let Ok(mut line) = self.line.try_lock() else { return Ok(()) };
        let held = self.connected(&mut line, connections).await?;
        let looked = timeout(LOOK, async {
            table.check_again(&held.client, &connections.whereabouts.footing).await?;
            let free = self.claimed.load(SeqCst)
                || is_free(&held.client, table).await.map_err(|error| failed("looking for other gates", &error))?;
            if !free {
                connections.whereabouts.footing.moved(taken(table).to_string());
            }
            Ok(())
        });
        let silent = || Err(Error::new(ErrorKind::Source, format!("PostgreSQL did not answer within {LOOK:?}")));
        let looked = looked.await;
        // Without an answer in time it is as good as gone, and with it the lock.
        if looked.is_err() || held.client.is_closed() {
            *line = None;
        }
        looked.unwrap_or_else(|_| silent())
    }

    /// The connection; made anew if it is gone.
    async fn connected<'a>(&self, line: &'a mut Option<Held>, connections: &Connections) -> Result<&'a Held> {
        if line.as_ref().is_some_and(|held| held.client.is_closed()) {
            *line = None;
        }
        if line.is_none() {
            let (client, task) = connections.watched(self.claimed.clone()).await?;
            *line = Some(Held { client, task });
        }
        line.as_ref().ok_or_else(|| Error::new(ErrorKind::Source, "no connection to PostgreSQL"))
    }
}

/// The second half of the lock's number: the table's name, since a table that is replaced keeps it. FNV-1a (Fowler, Noll
/// and Vo, 1991); two tables of one number would only keep each other's gates away.
fn number(table: &Table) -> i32 {
    let hash =
        table.quoted.bytes().fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed()
}

/// Whether no other gate has the lock of the table.
async fn is_free(client: &Client, table: &Table) -> std::result::Result<bool, tokio_postgres::Error> {
    let sql =
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
               AND classid::pg_catalog.int8 = $1 AND objid::pg_catalog.int8 = $2 AND pid <> pg_catalog.pg_backend_pid()
               AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()))";
    let (class, object) = (i64::from(LOCK.cast_unsigned()), i64::from(number(table).cast_unsigned()));
    client.query_one(sql, &[&class, &object]).await?.try_get(0)
}

fn taken(table: &Table) -> Error {
    Error::new(
        ErrorKind::Source,
        format!(
            "another gate writes to {}. A gate that says no must see every write: stop the other one, let all writes pass \
             it, or run this one with writers = unknown",
            table.name
        ),
    )
}
