//! What was found about filters: the measured rate with its interval, how the bits look, and what follows from both.
//!
//! Kept for the 4,096 filters that matter most: poisoned ones, suspicious ones, the worst rates first, those that somebody asked
//! about within the hour, then the largest. A million small filters take no memory here. A namespace that has more than its
//! share makes place for bad ones of others, and how many are bad is counted beside the table, so that no tenant hides another
//! one's filters behind its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bloomgate::any::{LineSample, Look, Since};
use bloomgate::bits::Store;
use bloomgate::math::estimate::{Z, rate_interval};
use bloomgate::{AnyFilter, Kind};

use super::rounds::{ENOUGH, Probed};
use crate::engine::Engine;
use crate::engine::entry::{Body, Entry};

/// Filters that something is kept about.
pub const KEPT: usize = 4_096;
/// Of these, those that one namespace has whatever others bring.
const SHARE: usize = 512;
/// How long a filter matters because somebody asked about it.
const ASKED_MS: u64 = 3_600_000;
/// Above so many standard deviations bits are suspicious. Random keys get there in fewer than one of 100,000 looks; the
/// tests hold 10,000 filters of all kinds and sizes against it.
pub const SUSPICIOUS: f64 = 5.0;
/// Above so many, and with twice the rate that was promised, the filter is poisoned.
pub const POISONED: f64 = 8.0;
/// A rate that is so many times the promised one.
const TWICE: f64 = 2.0;
/// After this share of a filter's keys, and as many at least, the bits are held against a new beginning: an attack late in a
/// filter's life counts as what it is among the keys of its time, not among all there ever were.
const WINDOW: (u64, u64) = (16, 512);

/// What follows from what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As random keys would have it, as far as can be told.
    Ok,
    /// Bits that random keys do not make, or a rate far above the promised one where there are no bits to look at.
    Suspicious,
    /// Such bits, and the rate is above twice the promised one.
    Poisoned,
}

impl Verdict {
    /// As BG.STATS tells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Suspicious => "suspicious",
            Self::Poisoned => "poisoned",
        }
    }
}

/// What was found about a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The filter.
    pub id: u64,
    /// Its namespace; 0 for none.
    space: u16,
    /// Random digests asked, and found, since it was last another filter.
    pub probed: Probed,
    /// When the last were, in milliseconds since 1970.
    pub probed_ms: u64,
    /// How its bits look; nothing for kinds that have no such bits.
    pub look: Option<Look>,
    /// How those look that were set lately.
    window: Option<Window>,
    /// The rate that was promised.
    pub promised: f64,
    /// When somebody asked about it last; 0 for never.
    asked_ms: u64,
    bytes: u64,
    /// Keys and stages when the probes began.
    began: (u64, usize),
    /// The last change that the probes have seen.
    touched: u64,
}

/// The bits that were set lately.
#[derive(Debug, Clone, PartialEq)]
struct Window {
    /// The bits when it began.
    base: LineSample,
    /// Those since then.
    since: Option<Since>,
    /// Those of the window before.
    last: Option<Since>,
}

impl Window {
    /// What follows a window, with the bits of now and the keys of the filter.
    fn next(before: Option<&Self>, lines: LineSample, keys: u64) -> Self {
        let Some(before) = before else { return Self { base: lines, since: None, last: None } };
        let since = lines.since(&before.base);
        match since {
            Some(since) if since.keys >= (keys / WINDOW.0).max(WINDOW.1) => {
                Self { base: lines, since: None, last: Some(since) }
            }
            _ => Self { since, ..before.clone() },
        }
    }

    /// The worse of this one and the one before.
    fn worst(&self) -> Option<Since> {
        self.since.into_iter().chain(self.last).max_by(|one, other| one.score.total_cmp(&other.score))
    }
}

impl Finding {
    /// The measured rate; nothing before the first probe.
    #[must_use]
    pub fn measured(&self) -> Option<f64> {
        (self.probed.probes > 0).then(|| self.probed.hits as f64 / self.probed.probes as f64)
    }

    /// Between which rates it lies, with 95 % certainty (Wilson 1927).
    #[must_use]
    pub fn interval(&self) -> (f64, f64) {
        rate_interval(self.probed.hits, self.probed.probes, Z)
    }

    /// The measured rate over the promised one.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.measured().filter(|_| self.promised > 0.0).map(|measured| measured / self.promised)
    }

    /// How far the bits are from those of random keys, in standard deviations: all of them, or those set lately.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        let all = self.look.as_ref().and_then(Look::score);
        let lately = self.lately().map(|lately| lately.score);
        all.into_iter().chain(lately).reduce(f64::max)
    }

    /// How the bits look that were set lately: in this window or the one before, whichever is worse.
    #[must_use]
    pub fn lately(&self) -> Option<Since> {
        self.window.as_ref().and_then(Window::worst)
    }

    /// What follows.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let above =
            |deviations: f64| rate_interval(self.probed.hits, self.probed.probes, deviations).0 > TWICE * self.promised;
        match (self.score(), &self.look) {
            (Some(score), _) if score > POISONED && above(Z) => Verdict::Poisoned,
            (Some(score), _) if score > SUSPICIOUS => Verdict::Suspicious,
            // No bits to look at: the rate alone tells, and has to be certain.
            (None, None) if above(SUSPICIOUS) => Verdict::Suspicious,
            _ => Verdict::Ok,
        }
    }

    fn weight(&self, now_ms: u64) -> Weight {
        let asked = self.asked_ms != 0 && now_ms.saturating_sub(self.asked_ms) < ASKED_MS;
        match self.verdict() {
            Verdict::Ok => (Verdict::Ok, u64::from(asked), self.bytes),
            bad => (bad, self.ratio().map_or(0, |ratio| (ratio * 1e6) as u64), self.bytes),
        }
    }
}

/// What matters more is more: the verdict, how bad it is or whether somebody asked, the size.
type Weight = (Verdict, u64, u64);
/// That of nothing.
const NOTHING: Weight = (Verdict::Ok, 0, 0);

#[derive(Debug)]
struct Table {
    found: HashMap<u64, Finding>,
    /// No good filter that is lighter gets in; nothing while there is room.
    floor: Weight,
}

impl Default for Table {
    fn default() -> Self {
        Self { found: HashMap::new(), floor: NOTHING }
    }
}

/// What was found about the filters that matter.
#[derive(Debug, Default)]
pub struct Findings {
    table: Mutex<Table>,
    /// Filters with this verdict, whether something else is kept about them or not.
    suspicious: AtomicU64,
    poisoned: AtomicU64,
}

/// The numbers of a filter that its probes belong to.
fn state<S: Store>(filter: &AnyFilter<S>, lines: Option<&LineSample>) -> State {
    let look = lines.and_then(|lines| filter.look(lines));
    // Where keys are removed, bits of others may have come for them.
    let lines = lines.filter(|_| look.is_some() && filter.kind() != Kind::Counting).map(|lines| filter.settle(lines));
    State { len: filter.len(), promised: filter.promised_rate(), bytes: filter.size_in_bytes(), look, lines }
}

/// The numbers of a filter, and how its bits look.
struct State {
    len: u64,
    promised: f64,
    bytes: u64,
    look: Option<Look>,
    lines: Option<LineSample>,
}

/// Those of a filter that cannot answer.
const UNKNOWN: State = State { len: 0, promised: 1.0, bytes: 0, look: None, lines: None };

impl Findings {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether enough is known about a filter that has not changed since.
    #[must_use]
    pub fn is_settled(&self, entry: &Entry) -> bool {
        let table = self.table();
        let found = table.found.get(&entry.id);
        found.is_some_and(|found| found.probed.probes >= ENOUGH && found.touched == entry.touched())
    }

    /// Takes what a visit has found; what is known now.
    pub fn note(
        &self,
        engine: &Engine,
        entry: &Entry,
        probed: Probed,
        lines: Option<&LineSample>,
        asked: bool,
    ) -> Finding {
        let State { len, promised, bytes, look, lines } = match entry.body() {
            // A few hundred bytes.
            Body::Small(_) => entry.copy().map_or(UNKNOWN, |filter| state(&filter, lines)),
            Body::Shared(filter) => state(filter, lines),
            Body::Guarded(filter) => state(&*filter.read().unwrap_or_else(PoisonError::into_inner), lines),
            Body::Unavailable { .. } => UNKNOWN,
        };
        let stages = entry.with(|filter| filter.stages()).unwrap_or(0);
        let now_ms = engine.clock.now_ms();
        let touched = entry.touched();
        let mut finding = Finding {
            id: entry.id,
            space: entry.space(),
            probed,
            probed_ms: now_ms,
            look,
            window: None,
            promised,
            asked_ms: if asked { now_ms } else { 0 },
            bytes,
            began: (len, stages),
            touched,
        };
        let mut table = self.table();
        let before = table.found.get(&entry.id);
        finding.window = lines.map(|lines| Window::next(before.and_then(|before| before.window.as_ref()), lines, len));
        if let Some(before) = before {
            finding.asked_ms = finding.asked_ms.max(before.asked_ms);
            // One key in 64 more or fewer is a tenth of the rate at seven hashes: that is another filter.
            let (keys, had) = before.began;
            if had == stages && len.abs_diff(keys) <= keys / 64 {
                finding.began = before.began;
                let mut past = before.probed;
                if past.probes >= ENOUGH {
                    // An estimate of the last few million, not of all time.
                    past = Probed { probes: past.probes / 2, hits: past.hits / 2 };
                }
                finding.probed.probes += past.probes;
                finding.probed.hits += past.hits;
            }
        }
        // Whoever was deleted meanwhile stays out: nobody would take it away again.
        if engine.names.by_id(entry.id).is_some() {
            self.count(entry, finding.verdict());
            table.keep(finding.clone(), now_ms);
        }
        finding
    }

    /// The verdict on a filter is this one now. With the table held.
    fn count(&self, entry: &Entry, now: Verdict) {
        let before = entry.set_verdict(now);
        for (verdict, counter) in [(Verdict::Suspicious, &self.suspicious), (Verdict::Poisoned, &self.poisoned)] {
            counter.fetch_add(u64::from(now == verdict), Ordering::Relaxed);
            counter.fetch_sub(u64::from(before == verdict), Ordering::Relaxed);
        }
    }

    /// How many filters have a verdict that is not good, suspicious and poisoned.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        (self.suspicious.load(Ordering::Relaxed), self.poisoned.load(Ordering::Relaxed))
    }

    /// A filter is gone.
    pub fn forget(&self, entry: &Entry) {
        let mut table = self.table();
        self.count(entry, Verdict::Ok);
        if table.found.remove(&entry.id).is_some() {
            table.floor = NOTHING;
        }
    }

    /// What is known about a filter.
    #[must_use]
    pub fn of(&self, id: u64) -> Option<Finding> {
        self.table().found.get(&id).cloned()
    }

    /// Everything that is known.
    #[must_use]
    pub fn all(&self) -> Vec<Finding> {
        self.table().found.values().cloned().collect()
    }
}

impl Table {
    fn keep(&mut self, finding: Finding, now_ms: u64) {
        if self.found.len() >= KEPT && !self.found.contains_key(&finding.id) {
            let Some(id) = self.make_place(&finding, now_ms) else { return };
            self.found.remove(&id);
        }
        self.found.insert(finding.id, finding);
    }

    /// Which one goes for another; none if that one does not matter enough.
    fn make_place(&mut self, finding: &Finding, now_ms: u64) -> Option<u64> {
        let weight = finding.weight(now_ms);
        let is_bad = weight.0 != Verdict::Ok;
        if !is_bad && weight <= self.floor {
            return None;
        }
        let mut of_space: HashMap<u16, usize> = HashMap::new();
        self.found.values().for_each(|one| *of_space.entry(one.space).or_default() += 1);
        let has_its_share = |space: u16| space != 0 && of_space.get(&space).is_some_and(|&count| count >= SHARE);
        let lightest = |goes: &dyn Fn(&Finding) -> bool| {
            self.found.values().filter(|one| goes(one)).map(|one| (one.weight(now_ms), one.id)).min()
        };
        let (least, id) = if has_its_share(finding.space) {
            // Its own: what others have is theirs.
            lightest(&|one| one.space == finding.space).filter(|&(least, _)| least < weight)?
        } else {
            let lightest_of_all = lightest(&|_| true)?;
            // Good ones go first; then those of whoever has more than its share, however bad they are.
            let greedy = match is_bad && lightest_of_all.0.0 != Verdict::Ok {
                true => lightest(&|one| has_its_share(one.space)),
                false => None,
            };
            match greedy {
                Some(one) => one,
                None if lightest_of_all.0 < weight => lightest_of_all,
                None => {
                    if !is_bad {
                        self.floor = lightest_of_all.0;
                    }
                    return None;
                }
            }
        };
        if !has_its_share(finding.space) && least.0 == Verdict::Ok {
            self.floor = least;
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(id: u64, bytes: u64, hits: u64, score: Option<f64>) -> Finding {
        let look = score.map(|score| Look {
            fill: 0.7,
            expected_fill: 0.5,
            fill_score: Some(score),
            evenness_score: None,
            lines: 64,
        });
        Finding {
            id,
            space: 0,
            probed: Probed { probes: 10_000, hits },
            probed_ms: 1,
            look,
            window: None,
            promised: 0.01,
            asked_ms: 0,
            bytes,
            began: (0, 1),
            touched: 0,
        }
    }

    #[test]
    fn verdicts_need_bits_that_lie_and_a_rate_that_is_broken() {
        for (hits, score, verdict) in [
            (100, Some(0.3), Verdict::Ok),
            (100, Some(-30.0), Verdict::Ok),
            (100, Some(5.1), Verdict::Suspicious),
            (100, Some(40.0), Verdict::Suspicious),
            (1_100, Some(7.9), Verdict::Suspicious),
            (1_100, Some(8.1), Verdict::Poisoned),
            // 2 % measured is not yet certainly above 2 %.
            (205, Some(8.1), Verdict::Suspicious),
            // Filled beyond its capacity by honest keys: the rate says so, and nothing is wrong with the bits.
            (1_100, Some(0.3), Verdict::Ok),
            (100, None, Verdict::Ok),
            (1_100, None, Verdict::Suspicious),
        ] {
            assert_eq!(finding(1, 1, hits, score).verdict(), verdict, "{hits} {score:?}");
        }
    }

    #[test]
    fn the_largest_the_asked_and_the_suspicious_are_kept() {
        let mut table = Table::default();
        for id in 0..20_000 {
            table.keep(finding(id, id, 100, Some(0.0)), 10);
        }
        assert_eq!(table.found.len(), KEPT);
        assert!((20_000 - KEPT as u64..20_000).all(|id| table.found.contains_key(&id)));
        table.keep(finding(50_000, 3, 100, Some(0.0)), 10);
        assert!(!table.found.contains_key(&50_000), "lighter than all");
        table.keep(finding(50_001, 3, 100, Some(9.0)), 10);
        table.keep(Finding { asked_ms: 5, ..finding(50_002, 3, 100, Some(0.0)) }, 10);
        assert!(table.found.contains_key(&50_001) && table.found.contains_key(&50_002));
        assert_eq!(table.found.len(), KEPT);
        // An hour later nobody remembers who asked.
        let hour = 10 + ASKED_MS;
        table.floor = NOTHING;
        table.keep(finding(60_000, 100_000, 100, Some(0.0)), hour);
        assert!(!table.found.contains_key(&50_002) && table.found.contains_key(&50_001));
    }

    /// One tenant fills the table with poisoned filters: bad ones of others are found all the same, and the worst of its own.
    #[test]
    fn no_namespace_hides_the_others() {
        let mut table = Table::default();
        let of = |space: u16, id: u64, hits: u64, score: f64| Finding { space, ..finding(id, 1, hits, Some(score)) };
        for id in 0..3 * KEPT as u64 {
            table.keep(of(1, id, 5_000, 9.0), 10);
        }
        assert_eq!(table.found.len(), KEPT);
        table.keep(of(2, 100_000, 100, 5.5), 10);
        table.keep(of(0, 100_001, 2_000, 8.5), 10);
        assert!(table.found.contains_key(&100_000) && table.found.contains_key(&100_001));
        table.keep(of(1, 100_002, 9_000, 9.0), 10);
        assert!(table.found.contains_key(&100_002), "a worse one of its own takes the place of another");
        // As far as its share, and no further.
        for id in 200_000..200_000 + KEPT as u64 {
            table.keep(of(0, id, 100, 5.5), 10);
        }
        let of_space = |space: u16| table.found.values().filter(|one| one.space == space).count();
        assert_eq!((of_space(1), of_space(2), table.found.len()), (SHARE - 1, 1, KEPT));
        table.keep(of(2, 300_000, 100, 0.0), 10);
        assert!(!table.found.contains_key(&300_000), "a good one takes no place of bad ones");
    }
}
