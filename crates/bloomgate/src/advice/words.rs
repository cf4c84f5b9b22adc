//! The words of a need and of its answer.

use super::Shape;
use crate::kind::Kind;

/// How the set will grow after the filter is made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Growth {
    /// Not at all: `items` is what there will ever be.
    #[default]
    Fixed,
    /// A little: room for 1.5 times the keys.
    Some,
    /// To this many times the keys of today.
    Known {
        /// Keys in the end for each key of today, at least 1.
        factor: f64,
    },
    /// Nobody knows: a filter that grows, or room for 3 times the keys where the kind cannot.
    Unknown,
}

/// What the user wants to know about keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wants {
    /// Is this key there?
    #[default]
    Membership,
    /// How many different keys are there?
    DistinctCount,
    /// Which keys are there?
    Listing,
    /// How often was each key there, exactly?
    ExactCounts,
}

/// What is needed. Leave out what is not known: `Need { items: Some(1_000_000), ..Need::default() }`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Need {
    /// Keys in the set today.
    pub items: Option<u64>,
    /// The false-positive rate that is wanted, such as 0.01.
    pub rate: Option<f64>,
    /// The memory that may be used.
    pub memory_bytes: Option<u64>,
    /// Keys must be removed one by one.
    pub deletes: bool,
    /// How the set grows.
    pub growth: Growth,
    /// Only the recent past counts: old keys shall be forgotten.
    pub window: bool,
    /// The share of lookups whose key is not there, from 0 to 1.
    pub absent_share: Option<f64>,
    /// Lookups per second.
    pub lookups_per_second: Option<f64>,
    /// What the lookup costs that a "no" saves: 0.001 for a millisecond of database.
    pub lookup_cost_seconds: Option<f64>,
    /// What asking the filter costs; 50 ns if not said.
    pub filter_cost_seconds: Option<f64>,
    /// What a false positive costs on top of the lookup that it did not save.
    pub false_positive_cost_seconds: Option<f64>,
    /// Keys are integers that lie close together (ids from a sequence).
    pub dense_integers: bool,
    /// The question that is asked of the set.
    pub wants: Wants,
    /// A decision hangs on the answer that must not be wrong: block, pay, delete.
    pub must_be_right: bool,
    /// All keys are known before the filter is built, and none is ever added.
    pub static_set: bool,
    /// Keys come from people who might choose them to do harm.
    pub untrusted_keys: bool,
    /// Fewer bits matter more than speed.
    pub smallest_first: bool,
}

/// What to use.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// A filter of this kind.
    Filter(Kind),
    /// A filter first, and the truth asked whenever it says "maybe".
    TwoPhase(Kind),
    /// A hash set: small enough to hold the keys, and never wrong.
    HashSet,
    /// A bitmap of integers, compressed if there are gaps (Roaring).
    Bitmap,
    /// A HyperLogLog sketch: counts distinct keys in a few kilobytes.
    HyperLogLog,
    /// Sorted keys in a file or a table: can be listed and searched.
    SortedFile,
    /// A table from key to count.
    CountTable,
    /// No filter: it would cost more than it saves.
    NoFilter {
        /// The arithmetic.
        why: String,
    },
}

/// A filter with its size.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Keys that it is made for: those of today times the headroom.
    pub items: u64,
    /// Room for growth: 1 is none.
    pub headroom: f64,
    /// The rate that it promises.
    pub rate: f64,
    /// Its shape.
    pub shape: Shape,
    /// Bits for each planned key.
    pub bits_per_key: f64,
    /// The expected rate when it holds all planned keys.
    pub expected_rate: f64,
    /// Whether the asked rate fits the given memory; if not, `rate` is the best that fits.
    pub fits: bool,
    /// Whether keys should be hashed with a secret.
    pub keyed: bool,
}

/// What a filter saves.
#[derive(Debug, Clone, PartialEq)]
pub struct Savings {
    /// Lookups per second that the figures are for; 1 if not said.
    pub lookups_per_second: f64,
    /// Lookups that the filter answers with "no", each second.
    pub avoided_per_second: f64,
    /// Absent keys that get a "maybe" and are looked up for nothing, each second.
    pub false_positives_per_second: f64,
    /// Seconds saved each second, the cost of the filter taken off; negative when it costs more than it saves.
    pub saved_seconds_per_second: f64,
    /// The share of absent keys from which the filter pays; nothing when it never does.
    pub break_even_absent_share: Option<f64>,
    /// Whether it saves more than it costs.
    pub worth_it: bool,
    /// The sum, written out.
    pub arithmetic: String,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// What to use.
    pub choice: Choice,
    /// Why.
    pub reasons: Vec<String>,
    /// When this would be the wrong choice.
    pub when_not: Vec<String>,
    /// The filter, sized; nothing when the answer is not a filter.
    pub plan: Option<Plan>,
    /// What it saves; nothing unless the share of absent keys and the cost of a lookup are given.
    pub savings: Option<Savings>,
    /// The second choice, if another kind is close.
    pub or_else: Option<Kind>,
}
