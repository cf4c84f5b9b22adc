//! What became of a lookup: every answer names where it was found out.

use bytes::Bytes;

/// Where a lookup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The filter is ready and says no: nothing behind it was asked.
    AbsentByFilter,
    /// The source said no a short while ago, and nobody has written the key since.
    NegativeCached,
    /// Found in the cache.
    Cache,
    /// Found at the source.
    Source,
    /// The filter said maybe, the source said no: a false positive of the filter.
    NotFound,
    /// The filter was not ready (or only watches): the source was asked and this is its answer, found or not.
    Bypass,
}

impl Outcome {
    /// All of them, in the order a lookup passes them.
    pub const ALL: [Self; 6] =
        [Self::AbsentByFilter, Self::NegativeCached, Self::Cache, Self::Source, Self::NotFound, Self::Bypass];

    /// The name in headers, metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AbsentByFilter => "absent-by-filter",
            Self::NegativeCached => "negative-cached",
            Self::Cache => "cache",
            Self::Source => "source",
            Self::NotFound => "not-found",
            Self::Bypass => "bypass",
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(self.name())
    }
}

/// The answer to a lookup.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Where it was found out.
    pub outcome: Outcome,
    /// The row, if there is one: the bytes the source gave, JSON of the built-in sources.
    pub row: Option<Bytes>,
    /// The version of the filter that was asked: it rises by one with each rebuild; 0 while there is none.
    pub version: u64,
    /// As of when the filter knows every key, in milliseconds since 1970; `None` while it does not.
    pub watermark: Option<u64>,
}
