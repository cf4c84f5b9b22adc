//! Caches: rows that were read before, in this process or in a Redis.

pub mod local;
#[cfg(feature = "redis")]
pub mod redis;

use std::time::Duration;

use bytes::Bytes;

use crate::Pending;
use crate::error::Result;
use crate::key::Key;

pub use local::LocalCache;
#[cfg(feature = "redis")]
pub use redis::RedisCache;

/// A cache of rows. It may forget anything at any time; an error counts as "not there".
///
/// The gate sees to it that what is stored is not older than the last write: see `epochs`.
pub trait Cache: Send + Sync + 'static {
    /// What it is, for reports. Never with a password.
    fn describe(&self) -> String;

    /// The row of a key, if it is there.
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>>;

    /// The rows of many keys, in their order.
    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>>;

    /// Stores a row for at most `keep`.
    fn store<'a>(&'a self, key: &'a Key, row: Bytes, keep: Duration) -> Pending<'a, Result<()>>;

    /// Forgets a key.
    fn forget<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<()>>;

    /// Leaves everything stored so far behind: called after a store or a forget whose outcome is not known, so that an
    /// old row that arrives late is never found.
    fn leave_behind<'a>(&'a self) -> Pending<'a, Result<()>>;
}
