//! A table of a SQLite file whose rows belong to tenants: the same threads and connections for all of them.

use std::path::Path;
use std::sync::Arc;

use super::scanning::{self, value};
use super::table::{Table, Tenancy};
use super::{File, Sqlite, failed};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, KeyType};
use crate::sources::tenancy::too_many;
use crate::sources::{Footing, Source, TenantScan, TenantTable};

/// A table of a SQLite file with a tenant column. Both columns are checked as the one of [`Sqlite`] is, and a unique index
/// (or the primary key) covers the two together.
#[derive(Debug)]
pub struct SqliteTenants {
    file: Arc<File>,
    tenant_type: KeyType,
}

impl SqliteTenants {
    /// Opens a table of an existing file by its key and its tenant column; otherwise as [`Sqlite::open`].
    ///
    /// # Errors
    ///
    /// Those of [`Sqlite::open`], for either column.
    pub fn open(path: impl AsRef<Path>, table: &str, key_column: &str, tenant_column: &str) -> Result<Self> {
        let file = File::open(path.as_ref(), table, key_column, Some(tenant_column))?;
        let tenant_type = tenancy(&file.table)?.key_type;
        Ok(Self { file: Arc::new(file), tenant_type })
    }
}

/// The tenant column of a table that was opened with one.
pub(super) fn tenancy(table: &Table) -> Result<&Tenancy> {
    table.tenant.as_ref().ok_or_else(|| Error::new(ErrorKind::Invalid, format!("{} has no tenant column", table.name)))
}

impl TenantTable for SqliteTenants {
    fn describe(&self) -> String {
        let table = &self.file.table;
        let column = table.tenant.as_ref().map_or("", |tenant| tenant.name.as_str());
        format!("sqlite table {} of {} by {column}", table.name, self.file.place.path.display())
    }

    fn tenant_type(&self) -> KeyType {
        self.tenant_type
    }

    fn key_type(&self) -> KeyType {
        self.file.table.key_type
    }

    fn of(&self, tenant: &Key) -> Arc<dyn Source> {
        Arc::new(Sqlite { file: Arc::clone(&self.file), tenant: Some(tenant.clone()) })
    }

    fn census(&self, most: usize) -> Pending<'_, Result<Vec<(Key, u64)>>> {
        Box::pin(self.file.read(move |connection, table| {
            let doing = |error: rusqlite::Error| failed("counting tenants", &error);
            let column = tenancy(table)?;
            let sql = format!(
                "SELECT row.{0}, count(row.{1}) FROM {2} AS row GROUP BY row.{0}",
                column.quoted, table.quoted_key, table.quoted
            );
            let mut statement = connection.prepare(&sql).map_err(doing)?;
            let mut rows = statement.query([]).map_err(doing)?;
            let mut census = Vec::new();
            while let Some(row) = rows.next().map_err(doing)? {
                let mut room = [0; 8];
                let whose = (column.name.as_str(), column.quoted.as_str(), column.key_type);
                let Some(tenant) = value(row, 0, whose, table, &mut room)? else { continue };
                let count: i64 = row.get(1).map_err(doing)?;
                if census.len() == most {
                    return Err(too_many(&table.name, most));
                }
                census.push((Key::from_canonical(tenant), u64::try_from(count).unwrap_or_default()));
            }
            Ok(census)
        }))
    }

    fn scan_all(&self) -> Pending<'_, Result<Box<dyn TenantScan>>> {
        Box::pin(scanning::begin_all(&self.file))
    }

    fn footing(&self) -> Option<&Footing> {
        Some(&self.file.place.footing)
    }

    fn claim(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.file.place.claim())
    }

    fn settle(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.file.settle())
    }

    fn look_around(&self) -> Pending<'_, Result<()>> {
        Box::pin(self.file.look_around())
    }

    fn stopped(&self) -> Pending<'_, ()> {
        Box::pin(self.file.empty_log())
    }
}
