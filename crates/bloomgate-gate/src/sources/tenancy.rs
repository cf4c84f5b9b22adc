//! A table whose rows belong to tenants: one source for each of them, over the same connections.

use std::sync::Arc;

use super::{Footing, KeyBatch, Source};
use crate::Pending;
use crate::error::Result;
use crate::key::{Key, KeyType};

/// A table with a column that says whose a row is. Rows are found by tenant and key together, and a unique index covers both.
///
/// What concerns the table as a whole (where it is, who writes to it) is asked here, once for all tenants.
pub trait TenantTable: Send + Sync + 'static {
    /// What it is, for reports: `postgres table products by tenant_id`. Never with a password.
    fn describe(&self) -> String;

    /// The type of the tenant column.
    fn tenant_type(&self) -> KeyType;

    /// The type of the key column.
    fn key_type(&self) -> KeyType;

    /// The rows of one tenant, as a source that sees and changes no others. Costs nothing until it is asked.
    fn of(&self, tenant: &Key) -> Arc<dyn Source>;

    /// Every tenant that has rows, and about how many. An error if there are more than `most`: the message says how to allow
    /// them.
    fn census(&self, most: usize) -> Pending<'_, Result<Vec<(Key, u64)>>>;

    /// Begins to read every key of every tenant, as of one moment not before the call.
    fn scan_all(&self) -> Pending<'_, Result<Box<dyn TenantScan>>>;

    /// What filters of it stand on: see [`Source::footing`].
    fn footing(&self) -> Option<&Footing> {
        None
    }

    /// Takes the table for this gate: see [`Source::claim`].
    fn claim(&self) -> Pending<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Waits for writes of before: see [`Source::settle`].
    fn settle(&self) -> Pending<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Looks whether it is still where it was: see [`Source::look_around`].
    fn look_around(&self) -> Pending<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The gate was stopped: see [`Source::stopped`].
    fn stopped(&self) -> Pending<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A scan of all tenants under way: batches of pairs, all of one moment, in whatever order the table has them.
pub trait TenantScan: Send {
    /// Replaces `batch` by the next pairs; false when there are no more. An error ends the scan: what was read is not all
    /// there is.
    fn next<'a>(&'a mut self, batch: &'a mut TenantBatch) -> Pending<'a, Result<bool>>;
}

/// Pairs of a tenant and a key, in two pieces of memory.
#[derive(Clone, Debug, Default)]
pub struct TenantBatch {
    tenants: KeyBatch,
    keys: KeyBatch,
}

impl TenantBatch {
    /// Forgets the pairs, keeps the memory.
    pub fn clear(&mut self) {
        self.tenants.clear();
        self.keys.clear();
    }

    /// Appends a pair by its canonical bytes.
    pub fn push(&mut self, tenant: &[u8], key: &[u8]) {
        self.tenants.push(tenant);
        self.keys.push(key);
    }

    /// How many pairs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The canonical bytes of each pair: the tenant, then the key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.tenants.iter().zip(self.keys.iter())
    }
}

/// Refuses a table with more tenants than allowed.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn too_many(table: &str, most: usize) -> crate::error::Error {
    crate::error::Error::new(
        crate::error::ErrorKind::Invalid,
        format!(
            "{table} has more than {most} tenants, and each costs memory beside its bits: allow more (--tenants-most), or gate \
             the table without --tenant"
        ),
    )
}
