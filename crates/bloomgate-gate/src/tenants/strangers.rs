//! Tenants that nobody knows. While the set of tenants is whole they are absent with all their keys; else the source is asked,
//! and nothing is made or kept for them: whoever makes up a million tenants fills no memory.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{All, Known};
use crate::audit::Audits;
use crate::callers::{ClientId, Place};
use crate::counters::{Count, Counters};
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::gate::{MOST_KEYS, count_adds, died, fits, refusal};
use crate::key::Key;
use crate::outcome::{Answer, Outcome};
use crate::policy::Policy;
use crate::stats::{Explanation, Found};

/// The number under which all of them wait for the source together: a made-up tenant has no share of its own.
const NUMBER: u64 = u64::MAX;
/// Samples that may wait to be checked.
const WAITING: usize = 256;

/// A "no" about a tenant that is to be checked.
pub(crate) struct Unknown {
    tenant: Key,
    key: Key,
}

/// What is counted of them, and what of it is checked.
pub(crate) struct Strangers {
    pub counters: Counters,
    audits: Audits,
    offered: mpsc::Sender<Unknown>,
    taken: Mutex<Option<mpsc::Receiver<Unknown>>>,
}

impl Strangers {
    pub fn new(audit_share: f64, samples: mpsc::Sender<crate::audit::Sample>) -> Self {
        let (offered, taken) = mpsc::channel(WAITING);
        let audits = Audits::among(audit_share, samples);
        Self { counters: Counters::new(), audits, offered, taken: Mutex::new(Some(taken)) }
    }

    /// The samples, for the one task that checks them.
    pub fn take(&self) -> Option<mpsc::Receiver<Unknown>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl All {
    /// The set that proves a tenant to be absent, if one does.
    fn proof(&self, tenant: &Key) -> Option<Arc<Known>> {
        if !self.is_sole() {
            return None;
        }
        let before = self.known()?;
        if self.find(tenant).is_some() {
            return None;
        }
        // The same one still: nothing has moved in between.
        self.known().filter(|after| Arc::ptr_eq(after, &before))
    }

    /// Whether a tenant is known to have no rows.
    pub(super) fn is_absent(&self, tenant: &Key) -> bool {
        self.proof(tenant).is_some()
    }

    /// The answer about a key of a tenant that is known to be none.
    pub(super) fn refuse_stranger(&self, tenant: &Key, key: &Key) -> Option<Answer> {
        if self.settings.policy == Policy::Shadow
            || !fits(self.table.tenant_type(), tenant)
            || !fits(self.table.key_type(), key)
        {
            return None;
        }
        let known = self.proof(tenant)?;
        self.strangers.counters.one(Count::AbsentByFilter);
        if self.strangers.audits.draw() {
            let sample = Unknown { tenant: tenant.clone(), key: key.clone() };
            if self.strangers.offered.try_send(sample).is_err() {
                self.strangers.counters.one(Count::AuditSkipped);
            }
        }
        Some(Answer {
            outcome: Outcome::AbsentByFilter,
            row: None,
            version: known.version,
            watermark: Some(known.watermark),
        })
    }

    /// The answer about a key of a tenant that was not known a moment ago.
    pub(super) async fn ask_for_stranger(
        self: &Arc<Self>,
        tenant: &Key,
        key: &Key,
        client: Option<ClientId>,
    ) -> Result<Answer> {
        let mut answers = self.ask_many_for_stranger(tenant, std::slice::from_ref(key), client).await?;
        answers.pop().unwrap_or_else(|| Err(Error::new(ErrorKind::Source, "an answer was lost: a fault of the gate")))
    }

    pub(super) async fn ask_many_for_stranger(
        self: &Arc<Self>,
        tenant: &Key,
        keys: &[Key],
        client: Option<ClientId>,
    ) -> Result<Vec<Result<Answer>>> {
        if keys.len() > MOST_KEYS {
            let message = format!("{} keys in one call: at most {MOST_KEYS} are allowed, ask in parts", keys.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        keys.iter().try_for_each(|key| self.check(tenant, key))?;
        let refused: Option<Vec<Answer>> = keys.iter().map(|key| self.refuse_stranger(tenant, key)).collect();
        if let Some(refused) = refused {
            return Ok(refused.into_iter().map(Ok).collect());
        }
        // It may have become one meanwhile.
        if let Some(found) = self.find(tenant) {
            return found.gate.get_each_by(keys, client).await;
        }
        let counters = &self.strangers.counters;
        let many = keys.len() as u64;
        if self.settings.policy == Policy::Closed {
            counters.add(Count::Closed, many);
            counters.add(Count::Failed, many);
            let message =
                "the tenants are not all known yet and the policy is closed: nothing is looked up until they are";
            return Err(Error::new(ErrorKind::NotReady, message));
        }
        let rows = self.read_for_stranger(tenant, keys, client).await;
        let answer = |row| Answer { outcome: Outcome::Bypass, row, version: 0, watermark: None };
        let answers = rows.into_iter().map(|row| {
            match &row {
                Err(error) => self.count_failure(error),
                Ok(row) => {
                    counters.one(Count::Bypass);
                    counters.add(Count::BypassAbsent, u64::from(row.is_none()));
                }
            }
            row.map(answer)
        });
        Ok(answers.collect())
    }

    fn count_failure(&self, error: &Error) {
        let counters = &self.strangers.counters;
        counters.one(Count::Failed);
        match error.kind() {
            ErrorKind::Busy => counters.one(Count::Busy),
            ErrorKind::TooManyMisses => counters.one(Count::Capped),
            _ => {}
        }
    }

    /// Asks the source: for all keys at once, or of a client with a cap for as many at a time as may miss. What is there or not
    /// for each, or why it is not known.
    async fn read_for_stranger(
        self: &Arc<Self>,
        tenant: &Key,
        keys: &[Key],
        client: Option<ClientId>,
    ) -> Vec<Result<Option<Bytes>>> {
        let Some((callers, client)) = self.callers.as_ref().zip(client) else {
            return self.read_in_task(tenant, keys, Vec::new()).await;
        };
        let (mut read, mut left) = (Vec::with_capacity(keys.len()), keys);
        while !left.is_empty() {
            // The first waits for a place, the others take what is free: nobody waits for a place and holds one.
            let mut places = match callers.reserve(client).await {
                Ok(place) => vec![place],
                Err(too_many) => {
                    let refused = refusal(&self.events, &too_many);
                    read.extend(left.iter().map(|_| Err(refused.clone())));
                    break;
                }
            };
            while places.len() < left.len() {
                match callers.try_reserve(client) {
                    Ok(Some(place)) => places.push(place),
                    Ok(None) => break,
                    // Who has just missed too often is told of here; what is left is refused in the next round.
                    Err(too_many) => {
                        let _ = refusal(&self.events, &too_many);
                        break;
                    }
                }
            }
            let (now, later) = left.split_at(places.len());
            read.extend(self.read_in_task(tenant, now, places).await);
            left = later;
        }
        read
    }

    /// Reads in a task of its own: who goes away before the answer pays all the same. There is a place for each key, or none.
    async fn read_in_task(
        self: &Arc<Self>,
        tenant: &Key,
        keys: &[Key],
        places: Vec<Place>,
    ) -> Vec<Result<Option<Bytes>>> {
        let (all, tenant, asked) = (self.clone(), tenant.clone(), keys.to_vec());
        let reading = tokio::spawn(async move {
            let read = all.read_together(&tenant, &asked).await;
            if let Ok(rows) = &read {
                // Of those that are not there: the places of the others are given back.
                places.into_iter().zip(rows).filter(|(_, row)| row.is_none()).for_each(|(place, _)| place.missed());
            }
            read
        });
        match reading.await.map_err(died).flatten() {
            Ok(rows) => rows.into_iter().map(Ok).collect(),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn read_together(&self, tenant: &Key, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let source = self.table.of(tenant);
        // Behind the tenants that were there before the restart, if it is known which these were.
        let unlikely = self.had_list.load(SeqCst);
        let _turn = self.turns.enter(NUMBER, unlikely, source.weight(keys.len())).await?;
        self.strangers.counters.add(Count::SourceReads, keys.len() as u64);
        let read = match source.get_many(keys).await {
            Ok(rows) if rows.len() == keys.len() => Ok(rows),
            Ok(_) => {
                Err(Error::new(ErrorKind::Source, "the source gave another number of rows than keys were asked for"))
            }
            Err(error) => Err(error),
        };
        if self.events.of_source(&read) {
            self.strangers.counters.one(Count::SourceErrors);
        }
        read
    }

    /// Counts the first rows of a tenant that a client adds, or refuses them.
    pub(super) fn count_adds(&self, client: Option<ClientId>, many: usize) -> Result<()> {
        count_adds(self.callers.as_ref().zip(client), &self.events, &self.strangers.counters, many)
    }

    pub(super) async fn explain_stranger(
        self: &Arc<Self>,
        tenant: &Key,
        key: &Key,
        client: Option<ClientId>,
    ) -> Result<Explanation> {
        self.check(tenant, key)?;
        let known = self.proof(tenant);
        let source = match self.read_for_stranger(tenant, std::slice::from_ref(key), client).await.pop() {
            Some(Ok(Some(_))) => Found::Found,
            Some(Ok(None)) | None => Found::Absent,
            Some(Err(capped)) if capped.kind() == ErrorKind::TooManyMisses => {
                self.strangers.counters.one(Count::Capped);
                return Err(capped);
            }
            Some(Err(error)) => Found::Error(error.to_string()),
        };
        let (filter, decision) = match (&known, &source) {
            (Some(known), Found::Found)
                if self.known().is_some_and(|now| now == *known) && self.find(tenant).is_none() =>
            {
                self.wrong_stranger(tenant, key, "an explanation");
                (
                    "no such tenant, wrongly",
                    "until now absent-by-filter: 404, WRONGLY, for the source has the row. The tenants are found anew; until \
                     then lookups of unknown ones go on to the source. Somebody writes past the gate"
                        .to_owned(),
                )
            }
            (Some(_), _) => ("no such tenant", "absent-by-filter: 404, no tenant of this name has rows".to_owned()),
            (None, Found::Found) => ("not ready", "bypass: 200".to_owned()),
            (None, Found::Absent) => ("not ready", "bypass: 404".to_owned()),
            (None, Found::Error(error)) => ("not ready", format!("refused: 503, the source failed ({error})")),
        };
        Ok(Explanation {
            key: self.table.key_type().show(key),
            state: if known.is_some() { "ready" } else { "loading" },
            filter,
            version: known.as_ref().map_or(0, |known| known.version),
            watermark_ms: known.as_ref().map(|known| known.watermark),
            negative_cached: false,
            cached: None,
            source,
            decision,
        })
    }

    /// A "no" about a tenant is proven wrong: the set is not trusted until the table has been scanned, and everybody is told.
    /// The tenants that are known keep their filters.
    fn wrong_stranger(&self, tenant: &Key, key: &Key, found_by: &'static str) {
        self.strangers.counters.one(Count::WrongNo);
        let (tenant, key) = (self.table.tenant_type().show(tenant), self.table.key_type().show(key));
        let event = Box::new(Event::WrongNo { key, found_by });
        self.events.tell(Event::OfTenant { tenant: tenant.into(), event });
        self.forget_set();
    }
}

/// Checks samples for as long as there are any to come.
pub(super) async fn run(all: std::sync::Weak<All>, mut samples: mpsc::Receiver<Unknown>) {
    while let Some(Unknown { tenant, key }) = samples.recv().await {
        let Some(all) = all.upgrade() else { return };
        let counters = &all.strangers.counters;
        let before = all.proof(&tenant);
        let source = all.table.of(&tenant);
        let read = match all.turns.enter(NUMBER, true, 1).await {
            Ok(_turn) => source.get(&key).await,
            Err(busy) => Err(busy),
        };
        match (before, read) {
            (_, Err(_)) => counters.one(Count::AuditSkipped),
            // Neither before nor after the read was there such a tenant: what was read is what a "no" was said of.
            (Some(before), Ok(row)) if all.proof(&tenant).is_some_and(|after| Arc::ptr_eq(&before, &after)) => {
                counters.one(Count::Audited);
                if row.is_some() {
                    all.wrong_stranger(&tenant, &key, "an audit");
                }
            }
            _ => counters.one(Count::AuditUndecided),
        }
    }
}
