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
#![forbid(unsafe_code)]

mod audit;
#[cfg(any(feature = "postgres", feature = "proxy"))]
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

pub use error::{Error, ErrorKind, Result};
pub use events::{Event, Part};
pub use gate::{Announced, Builder, Gate, Judgement, MOST_KEYS, Passed, Removal, Seen, Unnamed};
pub use key::{Key, KeyType};
pub use outcome::{Answer, Outcome};
pub use policy::{Meaning, Policy, State, Unconfirmed, Writers};
pub use rebuild::{Progress, Reason, Rebuilt};
pub use stats::{
    AuditStats, CappedClient, ClientStats, Explanation, FeedStats, FilterStats, Found, Lookups, Measured, PartStats,
    RebuildStats, ShadowStats, SourceStats, Stats, WriteStats,
};

/// What an asynchronous call of a source, a cache or a filter gives: a boxed future. The allocation is paid only where the
/// call leaves the process anyway; a "no" never gets here.
pub type Pending<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
mod times;
pub use times::{TimeStats, Took};
