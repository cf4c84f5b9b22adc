//! When a "no" is allowed, and what happens when it is not.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// What the filter is good for at this moment. Only a ready one says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no filter yet: the first one is being built.
    Loading,
    /// The filter covers every key of the source.
    Ready {
        /// Rises by one with each rebuild.
        version: u64,
        /// As of when it knows every key, in milliseconds since 1970.
        watermark: u64,
    },
    /// There is a filter, but writes may be missing from it: loaded from disk, or lost sight of.
    Stale,
    /// The filter was caught in a wrong "no", or is not the one that was built.
    Broken,
}

impl State {
    /// The name in headers, metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready { .. } => "ready",
            Self::Stale => "stale",
            Self::Broken => "broken",
        }
    }
}

/// What a lookup gets while the filter cannot say no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Go on to the cache and the source: slower, never wrong.
    #[default]
    Open,
    /// Refuse (503) rather than let unfiltered lookups reach the source. Never "not found".
    Closed,
    /// Never say no, ready or not: ask the source and count what would have been blocked.
    Shadow,
}

/// Who changes the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writers {
    /// Every write passes this gate.
    Sole,
    /// Others write too, and the source tells of it: see [`feed`](crate::feed).
    Feed,
    /// Others write too, and nobody tells the gate: it never blocks, it only watches.
    #[default]
    Unknown,
}

/// What a row of the table means to those who ask the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meaning {
    /// What was asked for is there: 200 with the row, else 404.
    #[default]
    Present,
    /// Who was asked for is denied: 403 with the row, else 204. Never by the filter alone.
    Deny,
}

/// What becomes of a key of a deny list that the filter may know, while the source cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unconfirmed {
    /// 503: it is neither denied nor allowed.
    #[default]
    Refuse,
    /// 204: whoever is denied gets in until the source is back.
    Allow,
}

macro_rules! named {
    ($type:ty, $what:literal, $($name:literal => $value:expr),+) => {
        impl $type {
            /// The name in settings and reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(value if value == $value => $name,)+ _ => unreachable!("every value has a name") }
            }
        }
        impl FromStr for $type {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                match text {
                    $($name => Ok($value),)+
                    other => Err(Error::new(
                        ErrorKind::Invalid,
                        format!(concat!("{:?} is no ", $what, ": ", "write one of {}"), other, [$($name),+].join(", ")),
                    )),
                }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result { to.write_str(self.name()) }
        }
    };
}

named!(Policy, "policy", "open" => Policy::Open, "closed" => Policy::Closed, "shadow" => Policy::Shadow);
named!(Writers, "kind of writers", "sole" => Writers::Sole, "feed" => Writers::Feed, "unknown" => Writers::Unknown);
named!(Meaning, "meaning of a row", "present" => Meaning::Present, "deny" => Meaning::Deny);
named!(
    Unconfirmed,
    "answer to what cannot be confirmed",
    "refuse" => Unconfirmed::Refuse,
    "allow" => Unconfirmed::Allow
);
