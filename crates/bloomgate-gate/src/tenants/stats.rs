//! What all tenants together have done, and each by itself.

use std::sync::Arc;
#[cfg(feature = "service")]
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use serde::Serialize;

use super::{All, Ended, Tenant, Tenants};
use crate::counters::Count;
use crate::key::Key;
use crate::stats::{
    AuditStats, ClientStats, Lookups, Measured, PartStats, ShadowStats, SourceStats, Stats, WriteStats,
};
use crate::times::TimeStats;

/// Tenants that are listed.
const LISTED: usize = 20;

/// All tenants together. Counts are since the start.
#[derive(Clone, Debug, Serialize)]
pub struct TenantsStats {
    /// The table, without its password.
    pub source: String,
    /// The cache, if there is one.
    pub cache: Option<String>,
    /// What tenants have that have no policy of their own.
    pub policy: &'static str,
    /// `sole` or `unknown`.
    pub writers: &'static str,
    /// `ready` while the set of tenants is known to be whole, else `loading`.
    pub state: &'static str,
    /// Whether an unknown tenant is answered with "no".
    pub blocking: bool,
    /// The version of the set: rises by one with each scan of all tenants.
    pub version: u64,
    /// As of when it is whole, in milliseconds since 1970.
    pub watermark_ms: Option<u64>,
    /// How many tenants there are, by the state of their filters.
    pub tenants: TenantCounts,
    /// The memory of their filters.
    pub budget: BudgetStats,
    /// Lookups of all tenants, unknown ones included.
    pub lookups: Lookups,
    /// How good all filters together are, measured.
    pub measured: Measured,
    /// What was checked of the "no" answers.
    pub audit: AuditStats,
    /// What watching gates would have done.
    pub shadow: ShadowStats,
    /// Which parts answer.
    pub parts: PartStats,
    /// How long lookups and reads took.
    pub times: TimeStats,
    /// Work at the source.
    pub at_source: SourceStats,
    /// Writes that passed.
    pub writes: WriteStats,
    /// The caps on single clients, if there are any.
    pub clients: Option<ClientStats>,
    /// Of the lookups, those for tenants that nobody knows.
    pub strangers: StrangerStats,
    /// Scans of all tenants that ended well.
    pub scans: u64,
    /// And that failed.
    pub scans_failed: u64,
    /// Rebuilds of single tenants that ended well.
    pub rebuilds: u64,
    /// And that failed.
    pub rebuilds_failed: u64,
    /// Rebuilds that failed since the last one that did not, of all tenants together and of the scans: above 0 is an alert.
    pub failures_in_a_row: u64,
    /// How often all are rebuilt, in seconds; none for never.
    pub every_seconds: Option<f64>,
    /// As of when the oldest filter in force was built, in milliseconds since 1970.
    pub built_ms: Option<u64>,
    /// Rows deleted since the filters were built.
    pub removed: u64,
    /// The last rebuilds, of all tenants and of single ones, the newest last.
    pub history: Vec<Ended>,
    /// Keys of a scan of all tenants under way, and about how many there are.
    pub scanning: Option<(u64, u64)>,
    /// Whether the filters are being rebuilt one after the other.
    pub rolling: bool,
    /// Times that saving failed.
    pub save_errors: u64,
    /// The tenants with the most lookups.
    pub busiest: Vec<OneTenant>,
    /// Tenants whose filter is not in force, the first of them.
    pub not_ready: Vec<OneTenant>,
    /// Tenants whose filter was caught in a wrong "no" since the start, the first of them: must be none.
    pub wrong: Vec<String>,
}

/// How many tenants there are, by the state of their filters.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TenantCounts {
    /// All of them.
    pub all: usize,
    /// The most that are allowed.
    pub most: usize,
    /// With a filter in force.
    pub ready: usize,
    /// Whose first filter is not built yet.
    pub loading: usize,
    /// Whose filter may have missed a write.
    pub stale: usize,
    /// Whose filter was caught in a wrong "no".
    pub broken: usize,
    /// For whose filter the memory does not suffice.
    pub without_room: usize,
    /// Whose filter is looser than asked for, for want of memory.
    pub loosened: usize,
}

/// The memory of all filters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BudgetStats {
    /// What they may take together.
    pub bytes: u64,
    /// What they take.
    pub spent: u64,
    /// `strict` or `cost-first`.
    pub spending: &'static str,
}

/// Lookups for tenants that nobody knows.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StrangerStats {
    /// Answered with no: every tenant is known, and these are none.
    pub absent_by_filter: u64,
    /// Asked of the source.
    pub bypass: u64,
    /// Of those, the ones without a row.
    pub bypass_absent: u64,
    /// Ended in an error.
    pub failed: u64,
    /// Answers of no that were proven wrong: must be 0.
    pub wrong: u64,
}

/// One tenant in short.
#[derive(Clone, Debug, Serialize)]
pub struct OneTenant {
    /// Its name.
    pub tenant: String,
    /// `ready`, `loading`, `stale`, `broken` or `no-room`.
    pub state: &'static str,
    /// The version of its filter.
    pub version: u64,
    /// Keys in its filter.
    pub keys: u64,
    /// The size of its filter.
    pub bytes: u64,
    /// Lookups that were answered.
    pub lookups: u64,
    /// Of those, the ones that its filter stopped.
    pub absent_by_filter: u64,
    /// The rate asked for.
    pub asked_rate: f64,
    /// The rate it was given; none where the memory does not suffice.
    pub allotted_rate: Option<f64>,
}

/// Everything about one tenant.
#[derive(Clone, Debug, Serialize)]
pub struct TenantStats {
    /// Its name.
    pub tenant: String,
    /// The rate asked for.
    pub asked_rate: f64,
    /// The rate it was given; none where the memory does not suffice.
    pub allotted_rate: Option<f64>,
    /// How much its lookups count where the memory does not suffice.
    pub weight: f64,
    /// What its gate tells of itself.
    #[serde(flatten)]
    pub stats: Stats,
}

impl Tenant {
    /// The state of its filter in reports.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.room() {
            Some(room) if room.share().1.is_none() => "no-room",
            _ => self.gate.state().name(),
        }
    }

    /// Different keys in its filter.
    fn keys(&self) -> u64 {
        self.inner().filters.face().current.as_ref().map_or(0, |current| current.items())
    }

    /// Lookups that were answered.
    pub(crate) fn answered(&self) -> u64 {
        let counters = &self.inner().counters;
        crate::Outcome::ALL.iter().map(|&outcome| counters.get(outcome.into())).sum()
    }

    pub(crate) fn brief(&self) -> OneTenant {
        let face = self.inner().filters.face();
        let (asked_rate, allotted_rate, bytes) = self.room().map_or((0.0, None, 0), super::Room::share);
        OneTenant {
            tenant: self.name.to_string(),
            state: self.state_name(),
            version: face.current.as_ref().map_or(0, |current| current.version()),
            keys: self.keys(),
            bytes,
            lookups: self.answered(),
            absent_by_filter: self.inner().counters.get(Count::AbsentByFilter),
            asked_rate,
            allotted_rate,
        }
    }
}

/// Counts of several gates together.
pub(crate) struct Summed([u64; Count::ALL]);

impl Summed {
    pub fn of<'a>(counters: impl Iterator<Item = &'a crate::counters::Counters>) -> Self {
        let mut sums = [0; Count::ALL];
        for counters in counters {
            counters.add_to(&mut sums);
        }
        Self(sums)
    }

    pub fn get(&self, count: impl Into<Count>) -> u64 {
        self.0[count.into() as usize]
    }

    pub fn lookups(&self) -> Lookups {
        Lookups {
            absent_by_filter: self.get(Count::AbsentByFilter) + self.get(Count::AbsentByCheck),
            absent_by_check: self.get(Count::AbsentByCheck),
            negative_cached: self.get(Count::NegativeCached),
            cache: self.get(Count::Cache),
            source: self.get(Count::Source),
            not_found: self.get(Count::NotFound),
            bypass: self.get(Count::Bypass),
            bypass_absent: self.get(Count::BypassAbsent),
            failed: self.get(Count::Failed),
            refused_closed: self.get(Count::Closed),
            refused_busy: self.get(Count::Busy),
            refused_capped: self.get(Count::Capped),
            joined: self.get(Count::Joined),
        }
    }

    pub fn measured(&self) -> Measured {
        Measured::of(
            self.get(Count::AbsentByFilter),
            (self.get(Count::WouldBlock), self.get(Count::WouldBlockWrongly)),
            self.get(Count::FalsePositives),
            self.get(Count::FalsePositiveReads),
        )
    }

    pub fn audit(&self) -> AuditStats {
        AuditStats {
            checked: self.get(Count::Audited),
            skipped: self.get(Count::AuditSkipped),
            undecided: self.get(Count::AuditUndecided),
            wrong: self.get(Count::WrongNo),
        }
    }

    pub fn shadow(&self) -> ShadowStats {
        ShadowStats {
            would_block: self.get(Count::WouldBlock),
            would_block_wrongly: self.get(Count::WouldBlockWrongly),
        }
    }
}

impl All {
    /// The tenants that have a label of their own in metrics: the largest when they were first chosen, and the same ones from
    /// then on, so that no series falls. None before all tenants are known.
    #[cfg(feature = "service")]
    fn chosen(&self, most: usize) -> Vec<Arc<Tenant>> {
        let mut chosen = self.labelled.lock().unwrap_or_else(PoisonError::into_inner);
        if chosen.len() >= most || chosen.len() == self.len() || self.known().is_none() {
            return chosen.clone();
        }
        let mut others = self.everyone();
        // The rest together is told under that name.
        others.retain(|tenant| &*tenant.name != OTHER && !chosen.iter().any(|one| Arc::ptr_eq(one, tenant)));
        others.sort_by_cached_key(|tenant| (std::cmp::Reverse(tenant.keys()), tenant.name.clone()));
        let room = most - chosen.len();
        chosen.extend(others.into_iter().take(room));
        chosen.clone()
    }
}

/// What metrics tell of one tenant, or of the rest of them.
#[cfg(feature = "service")]
pub(crate) struct Labelled {
    pub tenant: String,
    pub lookups: Lookups,
    pub measured: Measured,
    pub audit: AuditStats,
    pub shadow: ShadowStats,
    /// The share of them whose filter is in force.
    pub ready: f64,
    pub items: u64,
    pub bytes: u64,
    /// The share of the filter's bits that are set; not of the rest, whose bits nobody counts for a scrape.
    pub density: Option<f64>,
}

#[cfg(feature = "service")]
impl Labelled {
    fn of(label: &str, tenants: &[Arc<Tenant>]) -> Self {
        let sums = Summed::of(tenants.iter().map(|tenant| &tenant.inner().counters));
        let ready = tenants.iter().filter(|tenant| tenant.state_name() == "ready").count();
        Self {
            tenant: label.to_owned(),
            lookups: sums.lookups(),
            measured: sums.measured(),
            audit: sums.audit(),
            shadow: sums.shadow(),
            ready: ready as f64 / tenants.len().max(1) as f64,
            items: tenants.iter().map(|tenant| tenant.keys()).sum(),
            bytes: tenants.iter().filter_map(|tenant| tenant.room()).map(|room| room.share().2).sum(),
            density: None,
        }
    }

    /// One tenant, with its bits counted: at most every five seconds.
    fn one(tenant: &Arc<Tenant>) -> Self {
        let current = tenant.inner().filters.face().current.clone();
        let counted = current.and_then(|current| current.counted_bits());
        Self { density: counted.map(|counted| counted.density), ..Self::of(&tenant.name, std::slice::from_ref(tenant)) }
    }
}

#[cfg(feature = "service")]
impl Tenants {
    /// The largest tenants by name and the rest together. The bits of those with a name are counted, which takes a while
    /// (10 ms for 100 MB).
    pub(crate) fn labelled(&self, most: usize) -> Vec<Labelled> {
        let chosen = self.all.chosen(most);
        let mut told: Vec<Labelled> = chosen.iter().map(Labelled::one).collect();
        let mut rest = self.all.everyone();
        rest.retain(|tenant| !chosen.iter().any(|one| Arc::ptr_eq(one, tenant)));
        if !rest.is_empty() {
            told.push(Labelled::of(OTHER, &rest));
        }
        told
    }
}

/// The label of all tenants that have none of their own.
#[cfg(feature = "service")]
const OTHER: &str = "other";

impl Tenants {
    /// All tenants together.
    #[must_use]
    pub fn stats(&self) -> TenantsStats {
        let all = &*self.all;
        let everyone = all.everyone();
        let mut tenants = TenantCounts { all: everyone.len(), most: all.most, ..TenantCounts::default() };
        for tenant in &everyone {
            *match tenant.state_name() {
                "ready" => &mut tenants.ready,
                "stale" => &mut tenants.stale,
                "broken" => &mut tenants.broken,
                "no-room" => &mut tenants.without_room,
                _ => &mut tenants.loading,
            } += 1;
            if let Some((asked, Some(given), _)) = tenant.room().map(super::Room::share) {
                tenants.loosened += usize::from(given > asked * 1.001);
            }
        }
        let of_tenants = Summed::of(everyone.iter().map(|tenant| &tenant.inner().counters));
        let of_all = Summed::of(
            everyone.iter().map(|tenant| &tenant.inner().counters).chain(std::iter::once(&all.strangers.counters)),
        );
        let stranger = |count| all.strangers.counters.get(count);
        let known = all.known();
        let (at_once, waiting) = all.turns.all();
        let mut busiest: Vec<&Arc<Tenant>> = everyone.iter().collect();
        busiest.sort_by_cached_key(|tenant| (std::cmp::Reverse(tenant.answered()), tenant.name.clone()));
        let not_ready = everyone.iter().filter(|tenant| tenant.state_name() != "ready");
        let mut not_ready: Vec<OneTenant> = not_ready.take(LISTED).map(|tenant| tenant.brief()).collect();
        not_ready.sort_by(|one, other| one.tenant.cmp(&other.tenant));
        let mut wrong: Vec<String> = everyone
            .iter()
            .filter(|tenant| tenant.inner().counters.get(Count::WrongNo) > 0)
            .take(LISTED)
            .map(|tenant| tenant.name.to_string())
            .collect();
        wrong.sort();
        let inners = || everyone.iter().map(|tenant| tenant.inner());
        let (mut failures_in_a_row, mut built_ms, mut removed) = (all.past.failures(), None, 0);
        for tenant in &everyone {
            // Without room there is nothing to rebuild, and what failed before is not tried again.
            if tenant.state_name() != "no-room" {
                failures_in_a_row += tenant.inner().rebuilds.failures.load(Relaxed);
            }
            if let Some(current) = &tenant.inner().filters.face().current {
                let built = current.built_ms();
                built_ms = built_ms.map_or(built, |oldest: u64| Some(oldest.min(built.unwrap_or(oldest))));
                removed += current.removed();
            }
        }
        TenantsStats {
            source: all.table.describe(),
            cache: all.cache.as_ref().map(|cache| cache.describe()),
            policy: all.settings.policy.name(),
            writers: all.settings.writers.name(),
            state: if known.is_some() { "ready" } else { "loading" },
            blocking: known.is_some() && all.is_sole() && all.settings.policy != crate::Policy::Shadow,
            version: known.as_ref().map_or(0, |known| known.version),
            watermark_ms: known.as_ref().map(|known| known.watermark),
            tenants,
            budget: BudgetStats {
                bytes: all.budget.total,
                spent: all.budget.spent(),
                spending: all.budget.spending.name(),
            },
            clients: ClientStats::of(all.callers.as_deref(), of_all.get(Count::Capped), of_all.get(Count::CappedAdds)),
            lookups: of_all.lookups(),
            measured: of_tenants.measured(),
            audit: of_all.audit(),
            shadow: of_all.shadow(),
            parts: PartStats::of(&all.events, all.cache.is_some()),
            times: (&*all.times).into(),
            at_source: SourceStats {
                reads: of_all.get(Count::SourceReads),
                errors: of_all.get(Count::SourceErrors),
                at_once,
                waiting,
                cache_errors: of_all.get(Count::CacheErrors),
                filter_errors: of_all.get(Count::FilterErrors),
                negative_entries: inners().map(|inner| inner.shards.negatives()).sum(),
            },
            writes: WriteStats {
                puts: of_all.get(Count::Puts),
                deletes: of_all.get(Count::Deletes),
                under_way: inners().map(|inner| inner.puts.len()).sum(),
                unknown: of_all.get(Count::UnknownWrites),
                doubtful: inners().map(|inner| inner.filters.doubtful()).sum(),
            },
            strangers: StrangerStats {
                absent_by_filter: stranger(Count::AbsentByFilter),
                bypass: stranger(Count::Bypass),
                bypass_absent: stranger(Count::BypassAbsent),
                failed: stranger(Count::Failed),
                wrong: stranger(Count::WrongNo),
            },
            scans: stranger(Count::Rebuilds),
            scans_failed: stranger(Count::RebuildsFailed),
            rebuilds: of_tenants.get(Count::Rebuilds),
            rebuilds_failed: of_tenants.get(Count::RebuildsFailed),
            failures_in_a_row,
            every_seconds: all.settings.rebuild_every.map(|every| every.as_secs_f64()),
            built_ms,
            removed,
            history: all.past.told(),
            scanning: (all.progress.running.load(Relaxed) > 0)
                .then(|| (all.progress.keys.load(Relaxed), all.progress.expected.load(Relaxed))),
            rolling: all.rolling.load(SeqCst),
            save_errors: of_all.get(Count::SaveErrors),
            busiest: busiest.into_iter().take(LISTED).map(|tenant| tenant.brief()).collect(),
            not_ready,
            wrong,
        }
    }

    /// Everything about one tenant; nothing if it is none.
    #[must_use]
    pub fn stats_of(&self, tenant: &Key) -> Option<TenantStats> {
        let found = self.all.find(tenant)?;
        let (asked_rate, allotted_rate, _) = found.room().map_or((0.0, None, 0), super::Room::share);
        let (name, weight) = (found.name.to_string(), found.weight());
        Some(TenantStats { tenant: name, asked_rate, allotted_rate, weight, stats: found.gate.stats() })
    }
}

impl All {
    /// Tells of tenants that have settings of their own and no rows: a typing error, perhaps.
    pub(super) fn tell_of_missing(&self) {
        if self.own.is_empty() {
            return;
        }
        let names: Vec<Arc<str>> = self.everyone().iter().map(|tenant| tenant.name.clone()).collect();
        for tenant in self.own.keys().filter(|tenant| self.find(tenant).is_none()) {
            let tenant = self.table.tenant_type().show(tenant);
            let near = nearest(&tenant, &names);
            self.events.tell(crate::Event::TenantWithoutRows { tenant, near });
        }
    }
}

/// The name that is nearest to this one, if one is near: a letter in four may differ.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn nearest(name: &str, names: &[Arc<str>]) -> Option<String> {
    let short = |name: &str| name.chars().take(64).collect::<String>();
    let wanted = short(name);
    let near = names.iter().map(|other| (strsim::levenshtein(&wanted, &short(other)), other)).min()?;
    (near.0 <= 1.max(wanted.chars().count() / 4)).then(|| near.1.to_string())
}

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
fn nearest(_: &str, _: &[Arc<str>]) -> Option<String> {
    None
}
