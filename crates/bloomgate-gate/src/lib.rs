//! Keeps lookups of absent keys away from a database.
//!
//! A service whose requests are mostly for keys that do not exist (bots, typos, attackers) asks the gate instead of its
//! cache and database; the database sees only what may exist.
//!
//! ```text
//! get:  filter ──maybe──▶ negative cache ──▶ cache ──▶ source (one read a key at a time)
//!         └── no: answered here
//! put:  filter, then source, then cache
//! ```
//!
//! A "no" is given only while the filter is known to cover every key of the source: [`State::Ready`]. Whatever ends that
//! (a start, a lost filter, a writer nobody knows) makes the answer "maybe", and the [`Policy`] says what follows.
//!
//! # Quick start
//!
//! A table of SQLite (the feature `sqlite`, on unless it is switched off) behind a gate, rows kept in memory:
//!
//! ```
//! use std::sync::Arc;
//!
//! use bloomgate_gate::caches::LocalCache;
//! use bloomgate_gate::sources::Sqlite;
//! use bloomgate_gate::{Gate, Outcome, Writers};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! # let shop = rusqlite::Connection::open(&path)?;
//! # shop.execute_batch("CREATE TABLE products (sku TEXT PRIMARY KEY, price INTEGER) WITHOUT ROWID;
//! #     INSERT INTO products VALUES ('sku-1', 7)")?;
//! let products = Sqlite::open(&path, "products", "sku")?;
//! let gate = Gate::builder(Arc::new(products))
//!     .cache(Arc::new(LocalCache::new(64 << 20)?)) // 64 MiB of rows
//!     .writers(Writers::Sole) // every row is written by `put`: only then may a gate say no
//!     .rate(0.001)
//!     .build()?;
//! // The first filter. `gate.start()` builds it in the background instead, and the next when one is due.
//! gate.rebuild().await?;
//!
//! let here = gate.get(&gate.parse_key("sku-1")?).await?;
//! assert_eq!(here.row.as_deref(), Some(&br#"{"sku":"sku-1","price":7}"#[..]));
//! let absent = gate.get(&"sku-2".into()).await?;
//! assert_eq!((absent.row, absent.outcome), (None, Outcome::AbsentByFilter)); // the table was not asked
//!
//! gate.put("sku-2".into(), r#"{"price":9}"#.into()).await?; // the filter, then the table
//! assert_eq!(gate.get(&"sku-2".into()).await?.outcome, Outcome::Source);
//! assert!(gate.delete(&"sku-2".into()).await?);
//! gate.rebuild().await?; // forgets what was deleted
//! assert_eq!(gate.get(&"sku-2".into()).await?.outcome, Outcome::AbsentByFilter);
//! println!("{} lookups were stopped", gate.stats().lookups.absent_by_filter);
//! # Ok(())
//! # }
//! ```
//!
//! # A source of one's own
//!
//! Whatever can be asked for a key, written, and made to list its keys: a [`Source`](sources::Source).
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Arc, RwLock};
//!
//! use bloomgate_gate::sources::{KeyBatch, Scan, Source};
//! use bloomgate_gate::{Gate, Key, KeyType, Outcome, Pending, Result, Writers};
//! use bytes::Bytes;
//!
//! #[derive(Default)]
//! struct Shop(RwLock<HashMap<Key, Bytes>>);
//!
//! impl Source for Shop {
//!     fn describe(&self) -> String {
//!         "a shop in memory".to_owned()
//!     }
//!     fn key_type(&self) -> KeyType {
//!         KeyType::Text
//!     }
//!     fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
//!         Box::pin(async move { Ok(self.0.read().unwrap().get(key).cloned()) })
//!     }
//!     fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
//!         Box::pin(async move {
//!             let rows = self.0.read().unwrap();
//!             Ok(keys.iter().map(|key| rows.get(key).cloned()).collect())
//!         })
//!     }
//!     fn put_many<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
//!         Box::pin(async move { Ok(self.0.write().unwrap().extend(rows.iter().cloned())) })
//!     }
//!     fn delete<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<bool>> {
//!         Box::pin(async move { Ok(self.0.write().unwrap().remove(key).is_some()) })
//!     }
//!     fn count(&self) -> Pending<'_, Result<u64>> {
//!         Box::pin(async move { Ok(self.0.read().unwrap().len() as u64) })
//!     }
//!     fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
//!         let keys: Vec<Key> = self.0.read().unwrap().keys().cloned().collect();
//!         Box::pin(async move { Ok(Box::new(Keys(keys)) as Box<dyn Scan>) })
//!     }
//! }
//!
//! struct Keys(Vec<Key>);
//!
//! impl Scan for Keys {
//!     fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
//!         batch.clear();
//!         self.0.drain(..self.0.len().min(8192)).for_each(|key| batch.push(key.canonical()));
//!         Box::pin(std::future::ready(Ok(!batch.is_empty())))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let gate = Gate::builder(Arc::new(Shop::default())).writers(Writers::Sole).build()?;
//! gate.rebuild().await?;
//! assert_eq!(gate.get(&"lamp".into()).await?.outcome, Outcome::AbsentByFilter);
//! gate.put("lamp".into(), "{}".into()).await?;
//! assert_eq!(gate.get(&"lamp".into()).await?.outcome, Outcome::Source);
//! # Ok(())
//! # }
//! ```
//!
//! Reads must see every write that was answered before them, and a scan every key of its moment: what else there is to keep,
//! and what a source may tell besides (that it moved, what others write), is said there.
#![forbid(unsafe_code)]

mod audit;
#[cfg(any(feature = "postgres", feature = "upstream"))]
mod authorities;
mod background;
mod baseline;
pub mod breaker;
pub mod caches;
pub mod callers;
#[cfg(any(feature = "layer", feature = "service"))]
mod clients;
pub mod clock;
mod counters;
#[cfg(feature = "upstream")]
mod dial;
mod error;
mod events;
pub mod feed;
pub mod filters;
mod gate;
mod ground;
mod keeping;
mod key;
#[cfg(feature = "layer")]
pub mod layer;
#[cfg(feature = "redis")]
mod link;
#[cfg(test)]
mod models;
mod outcome;
mod policy;
#[cfg(feature = "proxy")]
pub mod proxy;
mod puts;
mod rebuild;
#[cfg(any(feature = "layer", feature = "proxy"))]
mod requests;
#[cfg(any(feature = "layer", feature = "proxy", feature = "service"))]
pub mod rules;
#[cfg(feature = "service")]
pub mod service;
mod shards;
pub mod sources;
mod stats;
#[cfg(any(feature = "layer", feature = "proxy"))]
mod statuses;
pub mod tenants;
mod times;

pub use error::{Error, ErrorKind, Result};
pub use events::{Event, Part};
pub use gate::{Announced, Builder, Gate, Judgement, MOST_KEYS, Passed, Removal, Seen, Unnamed};
pub use key::{Key, KeyType};
pub use outcome::{Answer, Outcome};
pub use policy::{Meaning, Policy, State, Unconfirmed, Writers};
pub use rebuild::{Progress, Reason, Rebuilt, Sample};
pub use stats::{
    AuditStats, CappedClient, ClientStats, Explanation, FeedStats, FilterStats, Found, Lookups, Measured, PartStats,
    RebuildStats, ShadowStats, SourceStats, Stats, WriteStats,
};
pub use times::{TimeStats, Took};

/// What an asynchronous call of a source, a cache or a filter gives: a boxed future. The allocation is paid only where the
/// call leaves the process anyway; a "no" never gets here.
pub type Pending<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
