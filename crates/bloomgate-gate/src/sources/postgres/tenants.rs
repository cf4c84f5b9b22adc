//! A table of PostgreSQL whose rows belong to tenants: one pool, one watch and one lock for all of them.

use std::sync::Arc;

use deadpool_postgres::Client;

use super::catalogue::Tenancy;
use super::wire::Stored;
use super::{Postgres, Said, Server, failed, scanning};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, KeyType};
use crate::sources::tenancy::too_many;
use crate::sources::{Footing, Source, TenantScan, TenantTable};

/// A table of PostgreSQL with a tenant column. Both columns are checked as the one of [`Postgres`] is, and a unique index
/// covers the two together; one that begins with the tenant makes a rebuild of one tenant as cheap as its keys are few.
#[derive(Debug)]
pub struct PostgresTenants {
    server: Arc<Server>,
    tenant_type: KeyType,
}

impl PostgresTenants {
    /// Connects to a server and looks the table up by its key and its tenant column; otherwise as [`Postgres::connect`].
    ///
    /// # Errors
    ///
    /// Those of [`Postgres::connect`], for either column.
    pub async fn connect(
        url: &str,
        table: &str,
        key_column: &str,
        tenant_column: &str,
        connections: usize,
    ) -> Result<Self> {
        let server = Server::connect(url, table, key_column, Some(tenant_column), connections).await?;
        let tenant_type = tenancy(&server)?.wire.key_type();
        Ok(Self { server: Arc::new(server), tenant_type })
    }

    async fn count_tenants(&self, client: &mut Client, most: usize) -> Said<Option<Vec<(Key, u64)>>> {
        let table = &self.server.table;
        let Some(tenant) = &table.tenant else { return Ok(None) };
        let counting = client.build_transaction().read_only(true).start().await?;
        counting.batch_execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '10s'").await?;
        let sql = format!(
            "SELECT {0}, pg_catalog.count({1}) FROM {2} WHERE {0} IS NOT NULL GROUP BY {0} LIMIT {3}",
            tenant.quoted,
            table.quoted_key,
            table.quoted,
            most.saturating_add(1).min(i64::MAX as usize)
        );
        let rows = counting.query(&sql, &[]).await?;
        let mut census = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut canonical = Vec::new();
            // A value that is none of the column's type: it has another one by now, and the next look finds out.
            if tenant.wire.canonical(row.try_get::<_, Stored<'_>>(0)?.0, &mut canonical) {
                let count: i64 = row.try_get(1)?;
                census.push((Key::from_canonical(canonical), u64::try_from(count).unwrap_or_default()));
            }
        }
        counting.commit().await?;
        Ok((census.len() <= most).then_some(census))
    }
}

fn tenancy(server: &Server) -> Result<&Tenancy> {
    let missing = || Error::new(ErrorKind::Invalid, format!("{} has no tenant column", server.table.name));
    server.table.tenant.as_ref().ok_or_else(missing)
}

impl TenantTable for PostgresTenants {
    fn describe(&self) -> String {
        let table = &self.server.table;
        format!("postgres table {} by {}", table.name, table.tenant.as_ref().map_or("", |tenant| tenant.name.as_str()))
    }

    fn tenant_type(&self) -> KeyType {
        self.tenant_type
    }

    fn key_type(&self) -> KeyType {
        self.server.table.wire.key_type()
    }

    fn of(&self, tenant: &Key) -> Arc<dyn Source> {
        Arc::new(Postgres { server: Arc::clone(&self.server), tenant: Some(tenant.clone()) })
    }

    fn census(&self, most: usize) -> Pending<'_, Result<Vec<(Key, u64)>>> {
        Box::pin(async move {
            let mut client = self.server.client().await?;
            let counted = self.count_tenants(&mut client, most).await;
            let counted = counted.map_err(|error| failed("counting tenants", &error))?;
            counted.ok_or_else(|| too_many(&self.server.table.name, most))
        })
    }

    fn scan_all(&self) -> Pending<'_, Result<Box<dyn TenantScan>>> {
        Box::pin(async move {
            scanning::begin_all(&self.server.connections, &self.server.table, tenancy(&self.server)?).await
        })
    }

    fn footing(&self) -> Option<&Footing> {
        Some(&self.server.connections.whereabouts.footing)
    }

    fn claim(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.server.keeper.claim(&self.server.connections, &self.server.table))
    }

    fn settle(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.server.keeper.settle(&self.server.connections, &self.server.table))
    }

    fn look_around(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.server.look_around())
    }
}
