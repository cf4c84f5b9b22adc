//! Reads every key of a table as of one moment: a `COPY` in a transaction of its own, on a connection of its own.

use std::future::poll_fn;
use std::pin::Pin;

use deadpool_postgres::ClientWrapper;
use futures_util::Stream;
use tokio_postgres::CopyOutStream;

use super::catalogue::Table;
use super::connections::Connections;
use super::copy::CopiedKeys;
use super::failed;
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::sources::{KeyBatch, Scan};

/// Keys in a batch: enough to make handing it over cheap, few enough to stay in the caches.
const KEYS: usize = 8192;
/// A batch of long keys ends before.
const BYTES: usize = 1 << 20;

struct Scanning {
    rows: Pin<Box<CopyOutStream>>,
    copied: CopiedKeys,
    /// Dropped at the end: that closes the socket, which ends the transaction at the server wherever it is.
    client: Option<ClientWrapper>,
}

/// Begins a transaction that sees one moment, and the copy in it.
pub(super) async fn begin(connections: &Connections, table: &Table) -> Result<Box<dyn Scan>> {
    let doing = |error: tokio_postgres::Error| failed("beginning a scan", &error);
    let client = connections.alone().await?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
                 SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
    client.batch_execute(begin).await.map_err(doing)?;
    // The first query sets the moment. A column whose type has changed would be read as something else.
    table.check_again(&client).await?;
    let sql = format!("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT binary)", table.quoted_key, table.quoted);
    let rows = client.copy_out(&sql).await.map_err(doing)?;
    Ok(Box::new(Scanning { rows: Box::pin(rows), copied: CopiedKeys::new(table.wire), client: Some(client) }))
}

impl Scan for Scanning {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            batch.clear();
            let mut bytes = 0;
            while self.client.is_some() && batch.len() < KEYS && bytes < BYTES {
                match poll_fn(|context| self.rows.as_mut().poll_next(context)).await {
                    Some(Ok(piece)) => bytes += self.copied.read(&piece, batch)?,
                    Some(Err(error)) => return Err(failed("scanning the keys", &error)),
                    None if self.copied.ended() => self.client = None,
                    None => return Err(Error::new(ErrorKind::Source, "the scan of PostgreSQL ended before its end")),
                }
            }
            Ok(!batch.is_empty())
        })
    }
}
