//! What stands in front of the database: nothing, a cache, a cache that remembers "no" too, or the gate.
//!
//! The driver knows fronts by three calls and sees of an answer only what a caller sees.

use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::caches::Cache;
use bloomgate_gate::sources::Source;
use bloomgate_gate::{Gate, Key, Outcome, Result};
use bytes::Bytes;

/// How long caches keep rows, and "no" answers: longer than most runs, so that no front is slowed by forgetting, and not
/// for ever, since the cache may be a Redis of others.
pub const KEEP: Duration = Duration::from_secs(900);

/// The fronts, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Kind {
    /// Every lookup is a query.
    Nothing,
    /// Rows are cached.
    Cache,
    /// Rows are cached, and "no" answers too.
    NegativeCache,
    /// The gate with its filter in the process.
    Gate,
    /// The gate with its filter behind the Redis protocol.
    GateResp,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Nothing, Self::Cache, Self::NegativeCache, Self::Gate, Self::GateResp];

    /// The name on the screen.
    pub fn title(self) -> &'static str {
        match self {
            Self::Nothing => "nothing in front",
            Self::Cache => "cache",
            Self::NegativeCache => "negative cache",
            Self::Gate => "bloomgate",
            Self::GateResp => "bloomgate, RESP",
        }
    }

    /// The name in JSON and for `--only`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Cache => "cache",
            Self::NegativeCache => "negative-cache",
            Self::Gate => "gate",
            Self::GateResp => "gate-resp",
        }
    }

    /// Whether it has a filter.
    pub fn is_gate(self) -> bool {
        matches!(self, Self::Gate | Self::GateResp)
    }
}

/// What a caller sees of an answer.
pub struct Seen {
    /// The row, if one was found.
    pub row: Option<Bytes>,
    /// Where the lookup ended.
    pub outcome: Outcome,
}

/// Something that answers lookups, and takes writes.
pub enum Front {
    /// No filter.
    Plain(Plain),
    /// A gate.
    Gate(Gate),
}

/// What most services have: a database, perhaps behind a cache.
pub struct Plain {
    source: Arc<dyn Source>,
    cache: Option<Arc<dyn Cache>>,
    /// Whether "no" is cached, as an empty row beside the others.
    negatives: bool,
}

impl Plain {
    /// A database behind a cache, or alone.
    pub fn new(source: Arc<dyn Source>, cache: Option<Arc<dyn Cache>>, negatives: bool) -> Self {
        Self { source, cache, negatives }
    }

    async fn get(&self, key: &Key) -> Result<Seen> {
        if let Some(cache) = &self.cache {
            match cache.get(key).await? {
                Some(row) if row.is_empty() => return Ok(Seen { row: None, outcome: Outcome::NegativeCached }),
                Some(row) => return Ok(Seen { row: Some(row), outcome: Outcome::Cache }),
                None => {}
            }
        }
        let row = self.source.get(key).await?;
        if let Some(cache) = &self.cache {
            match &row {
                Some(row) => cache.store(key, row.clone(), KEEP).await?,
                None if self.negatives => cache.store(key, Bytes::new(), KEEP).await?,
                None => {}
            }
        }
        let outcome = if row.is_some() { Outcome::Source } else { Outcome::NotFound };
        Ok(Seen { row, outcome })
    }

    async fn forget(&self, key: &Key) -> Result<()> {
        match &self.cache {
            Some(cache) => cache.forget(key).await,
            None => Ok(()),
        }
    }
}

impl Front {
    /// Looks a key up.
    pub async fn get(&self, key: &Key) -> Result<Seen> {
        match self {
            Self::Plain(plain) => plain.get(key).await,
            Self::Gate(gate) => {
                let answer = gate.get(key).await?;
                Ok(Seen { row: answer.row, outcome: answer.outcome })
            }
        }
    }

    /// Writes a row.
    pub async fn put(&self, key: Key, row: Bytes) -> Result<()> {
        match self {
            Self::Plain(plain) => {
                plain.source.put_many(&[(key.clone(), row)]).await?;
                plain.forget(&key).await
            }
            Self::Gate(gate) => gate.put(key, row).await,
        }
    }

    /// Deletes a row.
    pub async fn delete(&self, key: &Key) -> Result<()> {
        match self {
            Self::Plain(plain) => {
                plain.source.delete(key).await?;
                plain.forget(key).await
            }
            Self::Gate(gate) => gate.delete(key).await.map(drop),
        }
    }

    /// Builds the filter anew; whether there is one.
    pub async fn rebuild(&self) -> Result<bool> {
        match self {
            Self::Plain(_) => Ok(false),
            Self::Gate(gate) => gate.rebuild().await.map(|_| true),
        }
    }
}
