//! The keys that a query to PostgreSQL gives, for a gate before a service that keeps its rows there: they are listed by the
//! query, and asked for by the query. Nothing is written here.

use bytes::Bytes;
use deadpool_postgres::{Client, Pool};
use tokio_postgres::Statement;

use super::address::Address;
use super::connections::{Connections, within};
use super::wire::{Given, Stored, Wire};
use super::{Said, failed, scanning, untranslatable};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, KeyType};
use crate::sources::{Footing, Scan, Source};

/// The keys that a query gives.
#[derive(Debug)]
pub struct PostgresQuery {
    pool: Pool,
    connections: Connections,
    query: String,
    wire: Wire,
    /// As it was given, for reports.
    shown: String,
    /// The statement that finds many keys.
    many: String,
}

/// How the keys of a query travel, if it gives one column that can be gated.
pub(super) fn wire(prepared: &Statement) -> Result<Wire> {
    let refused = |why: String| {
        let message = format!("the query of the keys is refused, {why}: write one like SELECT sku FROM products");
        Error::new(ErrorKind::Invalid, message)
    };
    let [column] = prepared.columns() else {
        return Err(refused(format!("it gives {} columns", prepared.columns().len())));
    };
    Wire::of(column.type_().oid()).ok_or_else(|| refused(format!("its keys are of the type {}", column.type_())))
}

impl PostgresQuery {
    /// Connects to a server for a query that gives one column, the keys: `SELECT sku FROM products WHERE NOT sold`. Text is
    /// compared byte by byte, whatever the collation of the column.
    ///
    /// # Errors
    ///
    /// As those of [`Postgres::connect`](super::Postgres::connect), and [`ErrorKind::Invalid`] for what is no such query.
    pub async fn connect(url: &str, query: &str, connections: usize) -> Result<Self> {
        if connections == 0 {
            return Err(Error::new(ErrorKind::Invalid, "0 connections to PostgreSQL: allow at least 1"));
        }
        let query = query.trim().trim_end_matches(';').trim_end().to_owned();
        let connector = Connections::new(Address::parse(url)?);
        let pool = connector.pool(connections)?;
        let client = connector.first(&pool).await?;
        let refused = |error: tokio_postgres::Error| {
            let told = failed("preparing the query of the keys", &error).to_string();
            Error::new(ErrorKind::Invalid, format!("{told}: write one like SELECT sku FROM products"))
        };
        // A policy that would hide rows from this role is an error from here on, as it is in scans.
        client.batch_execute("SET row_security = off").await.map_err(refused)?;
        let wire = wire(&client.prepare(&query).await.map_err(refused)?)?;
        // Within FROM it can be nothing but a question.
        let asked = format!("SELECT q.key FROM ({query}) AS q(key)");
        client.prepare(&asked).await.map_err(refused)?;
        client.batch_execute("RESET row_security").await.map_err(refused)?;
        drop(client);
        let all = wire.many("$1");
        let many = format!("{asked} WHERE q.key OPERATOR(pg_catalog.=) ANY ({all})");
        Ok(Self { pool, connections: connector, query: asked, shown: query, wire, many })
    }

    async fn find_all(&self, client: &Client, keys: &[Key]) -> Said<Vec<Option<Bytes>>> {
        let statement = client.prepare_typed_cached(&self.many, &[self.wire.parameters()]).await?;
        // PostgreSQL has no text with a NUL in it.
        let possible = keys.iter().filter(|key| !(self.wire.is_text() && key.canonical().contains(&0)));
        let given: Vec<Given<'_>> = possible.map(|key| Given { wire: self.wire, key }).collect();
        let found = match client.query(&statement, &[&given]).await {
            // One of them has a letter that the database's encoding lacks: no row has it, and the server does not say which.
            Err(error) if untranslatable(&error) && keys.len() == 1 => return Ok(vec![None]),
            found => found?,
        };
        let mut canonical = std::collections::HashSet::with_capacity(found.len());
        for row in &found {
            let mut key = Vec::new();
            if let Ok(Stored(value)) = row.try_get::<_, Stored<'_>>(0)
                && self.wire.canonical(value, &mut key)
            {
                canonical.insert(key);
            }
        }
        let there = |key: &Key| canonical.contains(key.canonical()).then(|| Bytes::from_static(b"{}"));
        Ok(keys.iter().map(there).collect())
    }

    async fn ask(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        keys.iter().try_for_each(|key| self.key_type().check(key))?;
        let mut again = true;
        loop {
            let client = self.connections.from(&self.pool).await?;
            match within(self.find_all(&client, keys)).await {
                Ok(found) => return Ok(found),
                Err(lost) => {
                    let retry = std::mem::take(&mut again) && (lost.was_lost() || lost.is_outdated());
                    lost.leave(client);
                    if !retry {
                        return Err(lost.in_reading());
                    }
                }
            }
        }
    }
}

fn unwritten() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the keys come from a query: nothing is written there, but by the service itself",
    )
}

impl Source for PostgresQuery {
    fn describe(&self) -> String {
        format!("postgres query {}", self.shown)
    }

    fn key_type(&self) -> KeyType {
        self.wire.key_type()
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move { Ok(self.ask(std::slice::from_ref(key)).await?.pop().flatten()) })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(self.ask(keys))
    }

    fn put_many<'a>(&'a self, _: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(std::future::ready(Err(unwritten())))
    }

    fn delete<'a>(&'a self, _: &'a Key) -> Pending<'a, Result<bool>> {
        Box::pin(std::future::ready(Err(unwritten())))
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        Box::pin(async move {
            let doing = |error: tokio_postgres::Error| failed("counting keys", &error);
            let mut client = self.connections.from(&self.pool).await?;
            let counting = client.build_transaction().read_only(true).start().await.map_err(doing)?;
            counting
                .batch_execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '10s'")
                .await
                .map_err(doing)?;
            let sql = format!("SELECT pg_catalog.count(key) FROM ({}) AS keys", self.query);
            let count: i64 = counting.query_one(&sql, &[]).await.and_then(|row| row.try_get(0)).map_err(doing)?;
            counting.commit().await.map_err(doing)?;
            Ok(u64::try_from(count).unwrap_or_default())
        })
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        Box::pin(scanning::begin_query(&self.connections, &self.query, self.wire))
    }

    fn footing(&self) -> Option<&Footing> {
        Some(&self.connections.whereabouts.footing)
    }
}
