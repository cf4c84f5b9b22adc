//! What is done for tenants in the background: one task rebuilds, one audits, one looks around, for all of them.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::{All, Tenant, Tenants, strangers};
use crate::audit;
use crate::counters::Count;
use crate::error::ErrorKind;
use crate::events::Event;
use crate::policy::State;
use crate::rebuild::{BACK_OFF, REST, Reason, jitter};

/// How often it is looked at which tenants need something, and where the source is.
const LOOK: Duration = Duration::from_secs(1);

/// What is known about the rebuilds of a tenant.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// After a failure: not again before.
    not_before: Option<Instant>,
    pause: Duration,
    /// When it may be rebuilt again for the keys that were added.
    rested: Instant,
    weight: f64,
}

impl Upkeep {
    pub fn new(weight: f64) -> Self {
        Self { not_before: None, pause: BACK_OFF.0, rested: Instant::now(), weight }
    }
}

impl Tenant {
    fn upkeep(&self) -> std::sync::MutexGuard<'_, Upkeep> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn weight(&self) -> f64 {
        self.upkeep().weight
    }

    /// A rebuild ended well.
    pub(super) fn rebuilt(&self) {
        let mut upkeep = self.upkeep();
        (upkeep.not_before, upkeep.pause) = (None, BACK_OFF.0);
    }

    /// A rebuild failed: the next try comes later each time.
    pub(super) fn failed(&self) {
        let mut upkeep = self.upkeep();
        upkeep.not_before = Some(Instant::now() + jitter(upkeep.pause, 0.5));
        upkeep.pause = (upkeep.pause * 2).min(BACK_OFF.1);
    }

    fn is_waiting(&self) -> bool {
        self.upkeep().not_before.is_some_and(|not_before| Instant::now() < not_before)
    }

    fn has_room(&self) -> bool {
        self.room().is_none_or(|room| room.share().1.is_some())
    }

    /// Whether its filter should be in force and is not, and no failure has to be waited for.
    pub(super) fn is_missing(&self) -> bool {
        !matches!(self.gate.state(), State::Ready { .. }) && self.has_room() && !self.is_waiting()
    }

    /// Why its filter should be rebuilt now, if it should.
    fn reason(&self) -> Option<Reason> {
        if !self.has_room() || self.is_waiting() {
            return None;
        }
        let is_rested = |reason: &Reason| !reason.is_of_adds() || Instant::now() >= self.upkeep().rested;
        self.inner().rebuilds.take_reason().or_else(|| self.inner().worn_out().filter(is_rested))
    }

    /// A rebuild for this reason took so long.
    fn rest(&self, reason: Reason, took: Duration) {
        if reason.is_of_adds() {
            self.upkeep().rested = Instant::now() + took * REST;
        }
    }

    /// Lookups of absent keys, in this run and before.
    pub(super) fn absent_lookups(&self) -> u64 {
        let counters = &self.inner().counters;
        let now = [Count::AbsentByFilter, Count::FalsePositives, Count::BypassAbsent].map(|count| counters.get(count));
        self.absent_before.load(Relaxed) + now.iter().sum::<u64>()
    }
}

impl Tenants {
    /// Begins to build the first filters, to rebuild them when due or needed, and to audit. Once; within a tokio runtime.
    pub fn start(&self) {
        let all = &self.all;
        if all.started.swap(true, SeqCst) {
            return;
        }
        let weak = Arc::downgrade(all);
        let mut tasks = vec![tokio::spawn(rebuild(weak.clone())).abort_handle()];
        if let Some(samples) = all.offered_to.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tasks.push(tokio::spawn(audit::run(samples)).abort_handle());
        }
        if let Some(samples) = all.strangers.take() {
            tasks.push(tokio::spawn(strangers::run(weak.clone(), samples)).abort_handle());
        }
        if all.is_sole() && all.table.footing().is_some() {
            tasks.push(tokio::spawn(look_around(weak)).abort_handle());
        }
        all.background.add(tasks);
    }

    /// Saves the filters for the next start, ends what runs in the background and leaves the folder to the next gate. Lookups
    /// still work afterwards.
    pub async fn stop(&self) {
        self.all.background.stop();
        self.all.save_everyone(true).await;
        self.all.table.stopped().await;
        drop(self.all.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Rebuilds for as long as there is something to rebuild for.
async fn rebuild(all: Weak<All>) {
    let (mut pause, mut due) = (BACK_OFF.0, None);
    loop {
        let Some(strong) = all.upgrade() else { return };
        if strong.needs_scan() {
            if strong.fill_all(Reason::NotReady, false).await.is_err() {
                drop(strong);
                tokio::time::sleep(jitter(pause, 0.5)).await;
                pause = (pause * 2).min(BACK_OFF.1);
                continue;
            }
            (pause, due) = (BACK_OFF.0, strong.settings.rebuild_every.map(|every| Instant::now() + jitter(every, 0.1)));
        }
        for tenant in strong.everyone() {
            if let Some(reason) = tenant.reason() {
                // How it went is told where it happens, and known to the tenant.
                let begun = Instant::now();
                let _ = strong.rebuild_one(&tenant, reason, false).await;
                tenant.rest(reason, begun.elapsed());
            }
        }
        if due.is_some_and(|due| Instant::now() >= due) {
            due = strong.settings.rebuild_every.map(|every| Instant::now() + jitter(every, 0.1));
            let rolling = strong.clone();
            // Beside this: a tenant that needs its filter now does not wait for all others.
            let task = tokio::spawn(async move {
                if let Err(error) = rolling.roll(Reason::Schedule, false).await {
                    rolling.events.tell(Event::TenantsFailed { why: error.to_string() });
                }
            });
            strong.background.add([task.abort_handle()]);
        }
        if strong.unsaved.load(SeqCst) {
            strong.save_list().await;
        }
        let asked = strong.asked.clone();
        drop(strong);
        tokio::select! {
            () = asked.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Has the table look around, once for all tenants.
async fn look_around(all: Weak<All>) {
    let mut was_broken = false;
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(all) = all.upgrade() else { return };
        // A source that cannot be asked is found out by lookups; one that cannot be gated any more is not.
        let is_broken = all.table.look_around().await.is_err_and(|error| error.kind() == ErrorKind::Unsupported);
        if is_broken && !was_broken {
            all.forget_set();
            all.everyone().iter().for_each(|tenant| tenant.inner().lose(State::Broken));
        }
        was_broken = is_broken;
    }
}
