//! The server watches itself: what its filters really answer, and whether their bits look like those of random keys.
//!
//! ```text
//!  thread ─▶ rounds ─▶ filter: random digests asked, random lines read ─▶ findings (the 4,096 that matter most)
//!  BG.STATS ───────────────┘                                                  └─▶ verdict ─▶ INFO, BG.STATS
//!  BG.FEEDBACK ─▶ feedback: items that a client has proved absent ◀─ lookups that found "maybe"
//! ```
//!
//! Nothing here is on the way of a lookup or an add, but for one flag of the filter that feedback sets.

pub mod feedback;
pub mod findings;
pub mod pace;
pub mod random;
pub mod rounds;
mod tags;

use std::sync::atomic::{AtomicU64, Ordering};

use super::entry::Entry;
use super::{Engine, Permit};
use feedback::Feedback;
use findings::{Finding, Findings};
use random::Random;
use rounds::{ask_random, sample};

/// What the server is told about watching itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WatchSettings {
    /// The share of one core that probes may take; 0 for none.
    pub share: f64,
    /// Items that feedback keeps.
    pub feedback_entries: u64,
    /// How long each is kept, in seconds.
    pub feedback_ttl: u64,
    /// How long an item that was added cannot be reported, in seconds.
    pub feedback_settle: u64,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self { share: 0.01, feedback_entries: 1 << 20, feedback_ttl: 3_600, feedback_settle: 60 }
    }
}

/// Random digests that BG.STATS asks a filter with: 1 % is then known to a tenth of itself.
const ASKED_PROBES: u64 = 1 << 15;
/// Lines that it reads.
const ASKED_LINES: u64 = 1 << 14;

/// What is known about the filters, and what clients have reported.
#[derive(Debug)]
pub struct Watch {
    /// What it was told.
    pub settings: WatchSettings,
    /// What was found about filters.
    pub findings: Findings,
    /// What clients have proved absent.
    pub feedback: Feedback,
    /// Random digests asked.
    pub probes: AtomicU64,
    /// How often all filters have been visited.
    pub rounds: AtomicU64,
    /// Filters visited.
    pub visits: AtomicU64,
}

impl Default for Watch {
    fn default() -> Self {
        Self::new(WatchSettings::default())
    }
}

impl Watch {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(settings: WatchSettings) -> Self {
        Self {
            settings,
            findings: Findings::default(),
            feedback: Feedback::new(&settings),
            probes: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            visits: AtomicU64::new(0),
        }
    }

    /// Looks at one filter now, because somebody asks: what is known about it afterwards. `held` is the right to write of
    /// a transaction, if this is part of one.
    pub fn examine(&self, engine: &Engine, entry: &Entry, held: Option<&Permit<'_>>) -> Finding {
        let mut random = Random::new();
        let probed = ask_random(entry, ASKED_PROBES, &mut random);
        let lines = sample(entry, ASKED_LINES, &mut random);
        if held.is_none() {
            // Whose bits were seen and not counted yet has counted when the gates have been closed once.
            drop(engine.stop());
        }
        self.probes.fetch_add(probed.probes, Ordering::Relaxed);
        self.findings.note(engine, entry, probed, lines.as_ref(), true)
    }

    /// A filter is gone. With nobody writing.
    pub fn forget(&self, entry: &Entry) {
        self.findings.forget(entry);
        self.feedback.forget(entry);
    }
}
