//! Rows in a Redis (or anything that speaks its protocol), shared by nobody: each process has names of its own in it.
//!
//! A row is under `prefix:generation:key`, the key being its canonical bytes. The generation has a random part, made at each
//! start: rows that a former process left are not trusted, since nobody told them of the writes in between. It also has
//! a number that rises by [`leave_behind`](super::Cache::leave_behind), so that a row which arrives late, or could not be
//! removed, is under a name that nobody asks for. Such rows end by their own time, in the server.
//!
//! What makes it rise by itself: a store or a forget whose outcome is not known (late, the connection broke, the caller went
//! away, the breaker is open), and a server that was restarted, which may come back with rows of long ago.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redis::{Pipeline, Value};

use super::Cache;
use crate::Pending;
use crate::breaker::BreakerCounts;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::link::{Again, Link, OPENING, Replies, random_name, refusal};

/// How long a call may take when nothing else is said.
pub const DEADLINE: Duration = Duration::from_millis(50);
/// A larger row is not stored: at 8 MiB the transfer alone takes longer than most sources.
pub const LARGEST_ROW: usize = 8 << 20;
/// The longest prefix of names.
const LONGEST_PREFIX: usize = 256;
/// Names in one command.
const NAMES: usize = 1_000;
/// The longest time a row is kept, ten years: servers refuse times beyond what their clock can count.
const LONGEST: u64 = 10 * 365 * 86_400_000;

/// Rows in a Redis.
pub struct RedisCache {
    link: Link,
    prefix: String,
    /// The random part of the generation.
    start: String,
    generation: AtomicU64,
    run: Mutex<Option<Arc<str>>>,
    deadline: Duration,
}

impl RedisCache {
    /// A cache in the Redis at this address (`redis://[user:password@]host[:port][/database]`), which is asked whether it is
    /// there. Names begin with the prefix; each call has until the deadline ([`DEADLINE`] is a good one).
    pub async fn connect(url: &str, prefix: &str, deadline: Duration) -> Result<Self> {
        let cache = Self::unconnected(url, prefix, deadline)?;
        let mut ping = redis::pipe();
        ping.cmd("PING");
        let replies = cache.link.run(OPENING, &ping, Again::Once).await.map_err(|trouble| cache.error(trouble))?;
        cache.is_same_run(&replies.run);
        match &replies.values[..] {
            [Value::ServerError(error)] => Err(cache.error(format_args!("refuses: {}", refusal(error)))),
            _ => Ok(cache),
        }
    }

    /// [`connect`](Self::connect) for a Redis that may not be there yet: it is reached for at the first call.
    pub fn unconnected(url: &str, prefix: &str, deadline: Duration) -> Result<Self> {
        if prefix.is_empty() || prefix.len() > LONGEST_PREFIX {
            let message = format!("a prefix of {} bytes: names need one of 1 to {LONGEST_PREFIX}", prefix.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Self {
            link: Link::new(url, deadline)?,
            prefix: prefix.to_owned(),
            start: random_name(),
            generation: AtomicU64::new(0),
            run: Mutex::new(None),
            deadline,
        })
    }

    /// What the circuit breaker in front of the server has seen.
    #[must_use]
    pub fn breaker(&self) -> BreakerCounts {
        self.link.counts()
    }

    /// How often everything was left behind.
    #[must_use]
    pub fn times_left_behind(&self) -> u64 {
        self.generation()
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn rise(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn name(&self, generation: u64, key: &Key) -> Vec<u8> {
        let mut name = format!("{}:{}-{generation}:", self.prefix, self.start).into_bytes();
        name.extend_from_slice(key.canonical());
        name
    }

    fn error(&self, why: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Cache, format!("the cache at {} {why}", self.link.address()))
    }

    /// Whether this run of the server is the one that has answered so far. If not, everything is left behind.
    fn is_same_run(&self, run: &Arc<str>) -> bool {
        let mut known = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = known.as_ref().is_none_or(|known| known == run);
        if !is_same {
            self.rise();
        }
        if !is_same || known.is_none() {
            *known = Some(run.clone());
        }
        is_same
    }

    async fn send(&self, commands: &Pipeline, again: Again) -> Result<Replies> {
        let replies = self.link.run(self.deadline, commands, again).await.map_err(|trouble| self.error(trouble))?;
        self.is_same_run(&replies.run);
        Ok(replies)
    }

    async fn find(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let generation = self.generation();
        let mut ask = redis::pipe();
        for keys in keys.chunks(NAMES) {
            let command = ask.cmd("MGET");
            keys.iter().for_each(|key| {
                command.arg(self.name(generation, key));
            });
        }
        let replies = self.send(&ask, Again::Once).await?;
        if self.generation() != generation {
            // What was found is from before something that is not known to be undone.
            return Ok(vec![None; keys.len()]);
        }
        let mut rows = Vec::with_capacity(keys.len());
        for value in replies.values {
            match value {
                Value::Array(values) => rows.extend(values.into_iter().map(|value| match value {
                    Value::BulkString(bytes) => Some(Bytes::from(bytes)),
                    _ => None,
                })),
                Value::ServerError(error) => return Err(self.error(format_args!("refuses: {}", refusal(&error)))),
                _ => return Err(self.error("answers MGET with something else than a list")),
            }
        }
        if rows.len() != keys.len() {
            return Err(self.error(format_args!("gave {} rows for {} keys", rows.len(), keys.len())));
        }
        Ok(rows)
    }

    async fn write(&self, key: &Key, row: &[u8], keep: Duration) -> Result<()> {
        let unsure = Unsure::about(self);
        let milliseconds = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX).clamp(1, LONGEST);
        let mut set = redis::pipe();
        set.cmd("SET").arg(self.name(self.generation(), key)).arg(row).arg("PX").arg(milliseconds);
        match self.send(&set, Again::Never).await?.values.pop() {
            Some(Value::Okay) => {
                unsure.settle();
                Ok(())
            }
            Some(Value::ServerError(error)) => {
                // Full, perhaps. What was there before must not stay, and removing needs no room.
                self.remove(key).await?;
                unsure.settle();
                Err(self.error(format_args!("refuses a row: {}", refusal(&error))))
            }
            _ => Err(self.error("answers SET with something else than OK")),
        }
    }

    async fn remove(&self, key: &Key) -> Result<()> {
        let unsure = Unsure::about(self);
        let mut delete = redis::pipe();
        delete.cmd("DEL").arg(self.name(self.generation(), key));
        match self.send(&delete, Again::Never).await?.values.pop() {
            Some(Value::Int(_)) => {
                unsure.settle();
                Ok(())
            }
            Some(Value::ServerError(error)) => {
                Err(self.error(format_args!("does not forget a row: {}", refusal(&error))))
            }
            _ => Err(self.error("answers DEL with something else than a number")),
        }
    }
}

/// A change under way: unless it is settled, everything is left behind, also when its caller goes away.
struct Unsure<'a> {
    cache: &'a RedisCache,
    is_settled: bool,
}

impl<'a> Unsure<'a> {
    fn about(cache: &'a RedisCache) -> Self {
        Self { cache, is_settled: false }
    }

    fn settle(mut self) {
        self.is_settled = true;
    }
}

impl Drop for Unsure<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.cache.rise();
        }
    }
}

impl Cache for RedisCache {
    fn describe(&self) -> String {
        format!("Redis at {}, names {}:*", self.link.address(), self.prefix)
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move { Ok(self.find(std::slice::from_ref(key)).await?.pop().flatten()) })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(self.find(keys))
    }

    fn store<'a>(&'a self, key: &'a Key, row: Bytes, keep: Duration) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            if keep.is_zero() || row.len() > LARGEST_ROW {
                self.remove(key).await
            } else {
                self.write(key, &row, keep).await
            }
        })
    }

    fn forget<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<()>> {
        Box::pin(self.remove(key))
    }

    fn leave_behind<'a>(&'a self) -> Pending<'a, Result<()>> {
        self.rise();
        Box::pin(std::future::ready(Ok(())))
    }
}
