//! A table of many tenants in memory that a test can look into: the adversary of `memory_source`, with a tenant column.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use bloomgate_gate::sources::{Footing, KeyBatch, Scan, Source, TenantBatch, TenantScan, TenantTable};
use bloomgate_gate::{Error, ErrorKind, Key, KeyType, Pending, Result};
use bytes::Bytes;

/// A tenant and a key.
type Pair = (Vec<u8>, Vec<u8>);

#[derive(Default)]
pub struct Shelf {
    pub rows: Mutex<BTreeMap<Pair, Bytes>>,
    /// Keys asked for.
    pub reads: AtomicU64,
    pub scans: AtomicU64,
    pub is_down: AtomicBool,
    pub footing: Footing,
    /// Reads wait while somebody holds it.
    pub hold: tokio::sync::RwLock<()>,
    /// The random numbers that say how often a call yields; none: never.
    pub yields: Mutex<Option<u64>>,
}

impl Shelf {
    async fn pause(&self) {
        let times = {
            let mut yields = self.yields.lock().unwrap();
            let Some(state) = yields.as_mut() else { return };
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*state >> 61) as usize
        };
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    }

    fn up(&self) -> Result<()> {
        match self.is_down.load(SeqCst) {
            true => Err(Error::new(ErrorKind::Source, "the source is down")),
            false => Ok(()),
        }
    }
}

/// The table.
pub struct MemoryTable(pub Arc<Shelf>);

impl MemoryTable {
    /// A table with these rows: tenant and key.
    pub fn with(rows: impl IntoIterator<Item = (String, String)>) -> Arc<Self> {
        let shelf = Shelf::default();
        let rows = rows.into_iter().map(|(tenant, key)| {
            let row = format!("{{\"tenant\":\"{tenant}\",\"key\":\"{key}\"}}");
            ((tenant.into_bytes(), key.into_bytes()), Bytes::from(row))
        });
        shelf.rows.lock().unwrap().extend(rows);
        Arc::new(Self(Arc::new(shelf)))
    }
}

/// The rows of one tenant.
struct Of(Arc<Shelf>, Vec<u8>);

impl Of {
    fn pair(&self, key: &Key) -> Pair {
        (self.1.clone(), key.canonical().to_vec())
    }
}

impl Source for Of {
    fn describe(&self) -> String {
        format!("memory of {}", String::from_utf8_lossy(&self.1))
    }

    fn key_type(&self) -> KeyType {
        KeyType::Text
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move { Ok(self.get_many(std::slice::from_ref(key)).await?.remove(0)) })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            self.0.pause().await;
            let _held = self.0.hold.read().await;
            self.0.up()?;
            self.0.reads.fetch_add(keys.len() as u64, SeqCst);
            let rows = {
                let rows = self.0.rows.lock().unwrap();
                keys.iter().map(|key| rows.get(&self.pair(key)).cloned()).collect()
            };
            self.0.pause().await;
            Ok(rows)
        })
    }

    fn put_many<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            self.0.pause().await;
            self.0.up()?;
            self.0.rows.lock().unwrap().extend(rows.iter().map(|(key, row)| (self.pair(key), row.clone())));
            self.0.pause().await;
            Ok(())
        })
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            self.0.pause().await;
            self.0.up()?;
            let was = self.0.rows.lock().unwrap().remove(&self.pair(key)).is_some();
            self.0.pause().await;
            Ok(was)
        })
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        Box::pin(async move {
            self.0.up()?;
            Ok(self.0.rows.lock().unwrap().keys().filter(|(tenant, _)| *tenant == self.1).count() as u64)
        })
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        Box::pin(async move {
            self.0.pause().await;
            self.0.up()?;
            self.0.scans.fetch_add(1, SeqCst);
            let rows = self.0.rows.lock().unwrap();
            let keys = rows.keys().filter(|(tenant, _)| *tenant == self.1).map(|(_, key)| key.clone()).collect();
            Ok(Box::new(Keys(keys)) as Box<dyn Scan>)
        })
    }

    fn footing(&self) -> Option<&Footing> {
        Some(&self.0.footing)
    }
}

struct Keys(Vec<Vec<u8>>);

impl Scan for Keys {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            batch.clear();
            let rest = self.0.split_off(self.0.len().min(5));
            self.0.iter().for_each(|key| batch.push(key));
            self.0 = rest;
            Ok(!batch.is_empty())
        })
    }
}

struct Pairs(Vec<Pair>);

impl TenantScan for Pairs {
    fn next<'a>(&'a mut self, batch: &'a mut TenantBatch) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            batch.clear();
            let rest = self.0.split_off(self.0.len().min(100));
            self.0.iter().for_each(|(tenant, key)| batch.push(tenant, key));
            self.0 = rest;
            Ok(!batch.is_empty())
        })
    }
}

impl TenantTable for MemoryTable {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn tenant_type(&self) -> KeyType {
        KeyType::Text
    }

    fn key_type(&self) -> KeyType {
        KeyType::Text
    }

    fn of(&self, tenant: &Key) -> Arc<dyn Source> {
        Arc::new(Of(self.0.clone(), tenant.canonical().to_vec()))
    }

    fn census(&self, most: usize) -> Pending<'_, Result<Vec<(Key, u64)>>> {
        Box::pin(async move {
            self.0.pause().await;
            self.0.up()?;
            let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            self.0.rows.lock().unwrap().keys().for_each(|(tenant, _)| *counts.entry(tenant.clone()).or_default() += 1);
            match counts.len() > most {
                true => Err(Error::new(ErrorKind::Invalid, "too many tenants")),
                false => Ok(counts.into_iter().map(|(tenant, count)| (Key::from_canonical(tenant), count)).collect()),
            }
        })
    }

    fn scan_all(&self) -> Pending<'_, Result<Box<dyn TenantScan>>> {
        Box::pin(async move {
            self.0.pause().await;
            self.0.up()?;
            self.0.scans.fetch_add(1, SeqCst);
            let pairs = self.0.rows.lock().unwrap().keys().cloned().collect();
            Ok(Box::new(Pairs(pairs)) as Box<dyn TenantScan>)
        })
    }

    fn footing(&self) -> Option<&Footing> {
        Some(&self.0.footing)
    }
}
