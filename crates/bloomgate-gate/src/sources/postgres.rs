//! A table of PostgreSQL as the source: a pool of connections, prepared statements, and `COPY` for scans.
//!
//! A column is taken only if the filter can follow its equality: its type and collation are read from the catalogue, and
//! what is not known to compare as the key's canonical bytes do is refused. Rows are read as JSON by the server itself.

mod address;
mod catalogue;
mod connections;
mod copy;
mod feed;
mod identity;
mod installing;
mod keeper;
mod query;
mod scanning;
mod tenants;
mod tls;
mod wire;
mod writing;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use deadpool_postgres::{Client, Pool};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::ToSql;

use super::{Footing, Scan, Source};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::feed::{Feed, FeedOptions, FeedPlan, FeedWork};
use crate::key::{Key, KeyType};
use address::Address;
use catalogue::{Column, Table};
use connections::{Connections, within};
use keeper::Keeper;
pub use query::PostgresQuery;
pub use tenants::PostgresTenants;
use wire::{Given, Stored};

/// How long a statement may take at the server. Scans and counts take as long as they need.
const STATEMENT: Duration = Duration::from_secs(10);
/// From how many rows on the planner's estimate is taken for the count: below, counting takes less than 0.1 s.
const LARGE: f32 = 1_000_000.0;

/// What the server answered, or why it did not.
type Said<T> = std::result::Result<T, tokio_postgres::Error>;

/// A table of PostgreSQL (or a partitioned table) whose key column a unique index covers alone. Rows whose key is null are left
/// out: no lookup can ask for them.
///
/// A row is read as the JSON object that `row_to_json` makes of it. A row is written from such an object: the columns that
/// are not in it keep their values, or get their defaults if the row is new.
#[derive(Debug)]
pub struct Postgres {
    server: Arc<Server>,
    /// Whose rows these are, in a table of many tenants.
    tenant: Option<Key>,
}

impl std::ops::Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// A server with a table: what the sources of all its tenants share.
#[derive(Debug)]
pub struct Server {
    pool: Pool,
    connections: Connections,
    table: Arc<Table>,
    /// The columns that rows can have; read again when a name is not among them.
    columns: Mutex<Arc<Vec<Column>>>,
    keeper: Keeper,
    /// Whether a gate follows the table's feed, which tells what triggers write, too.
    followed: AtomicBool,
    /// How often the ground had moved when the pool was emptied last.
    emptied: AtomicU64,
    /// The statement that finds one key, and the one that finds many.
    one: String,
    many: String,
}

/// Asks by a connection of the pool; once more by another one if that was lost, as all are when a server restarts.
macro_rules! ask {
    ($self:ident, $client:ident => $question:expr) => {{
        let mut again = true;
        loop {
            let $client = $self.client().await?;
            match within($question).await {
                Ok(answer) => return Ok(answer),
                Err(lost) => {
                    let retry = std::mem::take(&mut again) && (lost.was_lost() || lost.is_outdated());
                    lost.leave($client);
                    if !retry {
                        return Err(lost.in_reading());
                    }
                }
            }
        }
    }};
}

impl Postgres {
    /// Connects to a server and looks the table up. `url` is `postgres://user:password@host:port/database` or what libpq
    /// takes as a connection string, with `sslmode` and `sslrootcert` as it knows them; `table` may have a schema (`shop.products`); at most `connections` are held open,
    /// one more that watches over them for a gate that says no, and one more while a scan runs.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a column that cannot be gated, [`ErrorKind::Invalid`] for an address, a login, a
    /// database, a table or a column that is none, [`ErrorKind::Source`] or [`ErrorKind::Busy`] for a server that cannot be
    /// reached at the moment: trying again may help.
    pub async fn connect(url: &str, table: &str, key_column: &str, connections: usize) -> Result<Self> {
        let server = Server::connect(url, table, key_column, None, connections).await?;
        Ok(Self { server: Arc::new(server), tenant: None })
    }

    /// Installs the feed of a table: the outbox, the function and the triggers that fill it. What is there and whole is left
    /// alone. With `only_tell` nothing is changed. Waits up to ten seconds for transactions that have written to the table
    /// and not ended; writers that come later wait behind it.
    ///
    /// # Errors
    ///
    /// As of [`connect`](Self::connect); [`ErrorKind::Busy`] if those transactions do not end.
    pub async fn install_feed(
        url: &str,
        table: &str,
        key_column: &str,
        plan: &FeedPlan,
        only_tell: bool,
    ) -> Result<FeedWork> {
        installing::install(&Connections::new(Address::parse(url)?), table, key_column, plan, only_tell).await
    }

    /// Removes the feed of a table, with everything in its outbox.
    ///
    /// # Errors
    ///
    /// As of [`install_feed`](Self::install_feed).
    pub async fn remove_feed(url: &str, table: &str, only_tell: bool) -> Result<FeedWork> {
        installing::remove(&Connections::new(Address::parse(url)?), table, only_tell).await
    }
}

impl Server {
    async fn connect(
        url: &str,
        table: &str,
        key_column: &str,
        tenant_column: Option<&str>,
        connections: usize,
    ) -> Result<Self> {
        if connections == 0 {
            return Err(Error::new(ErrorKind::Invalid, "0 connections to PostgreSQL: allow at least 1"));
        }
        let connector = Connections::new(Address::parse(url)?);
        let pool = connector.pool(connections)?;
        let client = connector.first(&pool).await?;
        let table = Table::find(&client, table, key_column, tenant_column).await?;
        let columns = table.columns(&client).await.map_err(|error| failed("reading the catalogue", &error))?;
        drop(client);
        let (name, key) = (&table.quoted, &table.quoted_key);
        // A table may have a column of any name, the table's own included: `answer.*` means the row all the same.
        let row = "pg_catalog.row_to_json(answer.*)::text";
        Ok(Self {
            pool,
            one: format!("SELECT {row} FROM {name} AS answer WHERE {} LIMIT 1", table.is_row("answer.")),
            many: format!("SELECT answer.{key}, {row} FROM {name} AS answer WHERE {}", table.is_any_row("answer.")),
            connections: connector,
            table: Arc::new(table),
            columns: Mutex::new(Arc::new(columns)),
            keeper: Keeper::default(),
            followed: AtomicBool::new(false),
            emptied: AtomicU64::new(0),
        })
    }

    fn is_followed(&self) -> bool {
        self.followed.load(SeqCst)
    }

    async fn client(&self) -> Result<Client> {
        self.connections.from(&self.pool).await
    }

    fn known_columns(&self) -> Arc<Vec<Column>> {
        Arc::clone(&self.columns.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn read_columns(&self) -> Result<Arc<Vec<Column>>> {
        let columns = Arc::new(self.ask_columns().await?);
        *self.columns.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&columns);
        Ok(columns)
    }

    async fn ask_columns(&self) -> Result<Vec<Column>> {
        ask!(self, client => self.table.columns(&client))
    }

    async fn look_around(&self) -> Result<()> {
        let looked = self.keeper.look_around(&self.connections, &self.table).await;
        let moves = self.connections.whereabouts.footing.moves();
        if self.emptied.swap(moves, SeqCst) != moves {
            // They lead to where it was before.
            self.pool.retain(|_, _| false);
        }
        looked
    }
}

/// Parameters, and behind them the tenant of a table that has them.
fn with_tenant<'a>(
    parameters: &[&'a (dyn ToSql + Sync)],
    tenant: &'a Option<Given<'_>>,
) -> Vec<&'a (dyn ToSql + Sync)> {
    let tenant = tenant.iter().map(|tenant| tenant as &(dyn ToSql + Sync));
    parameters.iter().copied().chain(tenant).collect()
}

impl Postgres {
    /// The tenant as a parameter.
    fn given_tenant(&self) -> Option<Given<'_>> {
        let tenant = self.table.tenant.as_ref().zip(self.tenant.as_ref());
        tenant.map(|(column, tenant)| Given { wire: column.wire, key: tenant })
    }

    /// Whether no row can have this key, though it is of the column's type: PostgreSQL has no text with a NUL in it.
    fn impossible(&self, key: &Key) -> bool {
        let of_tenant = self.given_tenant();
        [Given { wire: self.table.wire, key }]
            .iter()
            .chain(&of_tenant)
            .any(|given| given.wire.is_text() && given.key.canonical().contains(&0))
    }

    async fn find(&self, client: &Client, key: &Key) -> Said<Option<Bytes>> {
        let types = self.table.types(self.table.wire.parameter());
        let statement = client.prepare_typed_cached(&self.one, &types).await?;
        let (given, tenant) = (Given { wire: self.table.wire, key }, self.given_tenant());
        match client.query_opt(&statement, &with_tenant(&[&given], &tenant)).await {
            Ok(Some(row)) => Ok(Some(Bytes::copy_from_slice(row.try_get::<_, Stored<'_>>(0)?.0))),
            Ok(None) => Ok(None),
            Err(error) if untranslatable(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn find_all(&self, client: &Client, keys: &[Key]) -> Said<Vec<Option<Bytes>>> {
        let wire = self.table.wire;
        let statement = client.prepare_typed_cached(&self.many, &self.table.types(wire.parameters())).await?;
        let tenant = self.given_tenant();
        let possible = keys.iter().filter(|key| !self.impossible(key));
        let given: Vec<Given<'_>> = possible.map(|key| Given { wire, key }).collect();
        let found = match client.query(&statement, &with_tenant(&[&given], &tenant)).await {
            Err(error) if untranslatable(&error) => {
                // One of them has a letter that the database's encoding lacks, and the server does not say which.
                let mut rows = Vec::with_capacity(keys.len());
                for key in keys {
                    rows.push(if self.impossible(key) { None } else { self.find(client, key).await? });
                }
                return Ok(rows);
            }
            found => found?,
        };
        let mut rows = std::collections::HashMap::with_capacity(found.len());
        for row in &found {
            let mut canonical = Vec::new();
            if wire.canonical(row.try_get::<_, Stored<'_>>(0)?.0, &mut canonical) {
                rows.insert(canonical, Bytes::copy_from_slice(row.try_get::<_, Stored<'_>>(1)?.0));
            } else {
                // The column has another type by now. One by one the server compares, whatever it is.
                let mut rows = Vec::with_capacity(keys.len());
                for key in keys {
                    rows.push(if self.impossible(key) { None } else { self.find(client, key).await? });
                }
                return Ok(rows);
            }
        }
        Ok(keys.iter().map(|key| rows.get(key.canonical()).cloned()).collect())
    }

    async fn count_rows(&self, client: &mut Client) -> Said<u64> {
        let tenant = self.given_tenant();
        let plain = "SELECT CASE WHEN relkind IN ('r', 'm') AND NOT relhassubclass THEN reltuples ELSE -1 END \
                     FROM pg_catalog.pg_class WHERE oid = $1";
        let statement = client.prepare_cached(plain).await?;
        let estimate: Option<f32> = client.query_opt(&statement, &[&self.table.oid()]).await?.map(|row| row.get(0));
        if let Some(rows) = estimate.filter(|&rows| rows >= LARGE && tenant.is_none()) {
            return Ok(rows as u64);
        }
        let counting = client.build_transaction().read_only(true).start().await?;
        counting.batch_execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '10s'").await?;
        let count = format!("SELECT pg_catalog.count({}) FROM {}", self.table.quoted_key, self.table.quoted);
        let count: i64 = match (&self.table.tenant, &tenant) {
            (Some(column), Some(given)) => {
                let whose = format!("{} OPERATOR(pg_catalog.=) {}", column.quoted, column.wire.one("$1"));
                let sql = format!("{count} WHERE {whose}");
                let statement = counting.prepare_typed(&sql, &[column.wire.parameter()]).await?;
                counting.query_one(&statement, &[given]).await?.try_get(0)?
            }
            _ => counting.query_one(&count, &[]).await?.try_get(0)?,
        };
        counting.commit().await?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

impl Source for Postgres {
    fn describe(&self) -> String {
        match self.table.tenant.as_ref().zip(self.tenant.as_ref()) {
            None => format!("postgres table {}", self.table.name),
            Some((column, tenant)) => {
                format!("postgres table {}, {} {}", self.table.name, column.name, column.wire.key_type().show(tenant))
            }
        }
    }

    fn key_type(&self) -> KeyType {
        self.table.wire.key_type()
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move {
            self.key_type().check(key)?;
            if self.impossible(key) {
                return Ok(None);
            }
            ask!(self, client => self.find(&client, key))
        })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            keys.iter().try_for_each(|key| self.key_type().check(key))?;
            if keys.is_empty() {
                return Ok(Vec::new());
            }
            ask!(self, client => self.find_all(&client, keys))
        })
    }

    fn check_rows<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(writing::check_rows(self, rows))
    }

    fn put_many<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(writing::put_many(self, rows))
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<bool>> {
        Box::pin(writing::delete(self, key))
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        Box::pin(async move {
            let mut client = self.client().await?;
            // No limit of ours: a view may take minutes.
            self.count_rows(&mut client).await.map_err(|error| failed("counting keys", &error))
        })
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        Box::pin(scanning::begin(&self.connections, &self.table, self.tenant.as_ref()))
    }

    fn footing(&self) -> Option<&Footing> {
        Some(&self.connections.whereabouts.footing)
    }

    fn feed(&self, options: FeedOptions) -> Option<Arc<dyn Feed>> {
        self.followed.store(true, SeqCst);
        Some(Arc::new(feed::Outbox::new(self.connections.clone(), Arc::clone(&self.table), options)))
    }

    fn claim(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.keeper.claim(&self.connections, &self.table))
    }

    fn settle(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.keeper.settle(&self.connections, &self.table))
    }

    fn look_around(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.server.look_around())
    }
}

/// Whether a text has a letter that the database's encoding does not have: then no row has it.
fn untranslatable(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(&SqlState::UNTRANSLATABLE_CHARACTER | &SqlState::CHARACTER_NOT_IN_REPERTOIRE))
}

/// Whether the server refused a statement and goes on; otherwise the connection is gone and nobody knows what was done.
fn was_refused(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|said| said.parsed_severity().is_none_or(|severity| severity == Severity::Error))
}

/// What PostgreSQL said, as an error of the gate.
fn failed(doing: &str, error: &tokio_postgres::Error) -> Error {
    let code = error.code().map_or("", SqlState::code);
    let kind = match code.get(..2) {
        // What was written is not allowed: data exceptions, constraints, generated columns.
        Some("22" | "23" | "44") => ErrorKind::Invalid,
        _ if matches!(code, "428C9" | "42703") => ErrorKind::Invalid,
        // No resources, serialization, deadlocks, locks: another time it may work.
        Some("53" | "40" | "55") => ErrorKind::Busy,
        _ => ErrorKind::Source,
    };
    Error::new(kind, format!("PostgreSQL, {doing}: {}", tell(error)))
}

/// What happened, with its causes. Neither the driver nor the server repeats a password.
fn tell(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        let more = |part: Option<&str>| part.map(|part| format!(" ({part})")).unwrap_or_default();
        return format!("{}: {}{}{}", said.severity(), said.message(), more(said.detail()), more(said.hint()));
    }
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(reason) = cause {
        told = format!("{told}: {reason}");
        cause = reason.source();
    }
    told
}
