//! One cache for all tenants: the tenant is part of each row's name in it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::Pending;
use crate::caches::Cache;
use crate::error::Result;
use crate::key::Key;

/// The rows of one tenant in a cache that others use too.
pub(super) struct TenantCache {
    cache: Arc<dyn Cache>,
    tenant: Key,
}

impl TenantCache {
    pub fn new(cache: Arc<dyn Cache>, tenant: Key) -> Self {
        Self { cache, tenant }
    }

    /// The length of the tenant, the tenant, the key: no two pairs have one name.
    fn name(&self, key: &Key) -> Key {
        let tenant = self.tenant.canonical();
        let mut name = Vec::with_capacity(4 + tenant.len() + key.canonical().len());
        name.extend_from_slice(&(tenant.len() as u32).to_be_bytes());
        name.extend_from_slice(tenant);
        name.extend_from_slice(key.canonical());
        Key::from_canonical(name)
    }
}

impl Cache for TenantCache {
    fn describe(&self) -> String {
        self.cache.describe()
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move { self.cache.get(&self.name(key)).await })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            let names: Vec<Key> = keys.iter().map(|key| self.name(key)).collect();
            self.cache.get_many(&names).await
        })
    }

    fn store<'a>(&'a self, key: &'a Key, row: Bytes, keep: Duration) -> Pending<'a, Result<()>> {
        Box::pin(async move { self.cache.store(&self.name(key), row, keep).await })
    }

    fn forget<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<()>> {
        Box::pin(async move { self.cache.forget(&self.name(key)).await })
    }

    /// Leaves the rows of all tenants behind: which of them is in doubt, the cache cannot say.
    fn leave_behind<'a>(&'a self) -> Pending<'a, Result<()>> {
        self.cache.leave_behind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::LocalCache;

    #[tokio::test]
    async fn no_tenant_finds_the_row_of_another_whatever_their_names_are() {
        let cache: Arc<dyn Cache> = Arc::new(LocalCache::new(1 << 20).unwrap());
        // Put side by side without their lengths, these would be one name.
        let pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", "")];
        let of = |tenant: &str| TenantCache::new(cache.clone(), tenant.into());
        for (tenant, key) in pairs {
            let row = Bytes::from(format!("{tenant}|{key}"));
            of(tenant).store(&key.into(), row, Duration::from_secs(60)).await.unwrap();
        }
        for (tenant, key) in pairs {
            let found = of(tenant).get(&key.into()).await.unwrap();
            assert_eq!(found, Some(format!("{tenant}|{key}").into()));
        }
        of("a").forget(&"bc".into()).await.unwrap();
        let keys: Vec<Key> = vec!["bc".into(), "c".into()];
        assert_eq!(of("a").get_many(&keys).await.unwrap(), [None, None]);
        assert!(of("ab").get(&"c".into()).await.unwrap().is_some());
    }
}
