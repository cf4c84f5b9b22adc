//! Rebuilds that ended, of all tenants at once and of single ones: what reports and alerts tell of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use tokio::time::Instant;

use super::Built;
use crate::error::Result;
use crate::gate::now_ms;
use crate::rebuild::{Reason, Rebuilt};

/// Those that are remembered.
const REMEMBERED: usize = 20;

/// A rebuild of tenants that ended.
#[derive(Clone, Debug, Serialize)]
pub struct Ended {
    /// The tenant; none where all were rebuilt.
    pub tenant: Option<String>,
    /// Why it was begun.
    pub reason: Reason,
    /// Tenants that have a new filter.
    pub built: usize,
    /// Tenants whose filter failed.
    pub failed: usize,
    /// Keys that were scanned.
    pub keys: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// Why it failed, or the first tenant that did.
    pub failure: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Past {
    ended: Mutex<VecDeque<Ended>>,
    /// Rebuilds of all tenants that failed as a whole, since the last one that did not.
    failures: AtomicU64,
}

impl Past {
    /// All tenants were to be rebuilt.
    pub fn of_all(&self, reason: Reason, begun: Instant, result: &Result<Built>) {
        let (built, failure) = match result {
            Ok(built) => {
                self.failures.store(0, Relaxed);
                (built.clone(), built.failures.first().map(|(tenant, why)| format!("{tenant}: {why}")))
            }
            Err(error) => {
                self.failures.fetch_add(1, Relaxed);
                (Built::default(), Some(error.to_string()))
            }
        };
        let (seconds, ended_ms) = (begun.elapsed().as_secs_f64(), now_ms());
        let Built { built, failed, keys, .. } = built;
        self.remember(Ended { tenant: None, reason, built, failed, keys, seconds, ended_ms, failure });
    }

    /// One tenant was. Of those that are rebuilt one after the other only the failures are told: a thousand that went well
    /// would leave room for nothing else.
    pub fn of_one(&self, tenant: &str, reason: Reason, begun: Instant, result: &Result<Rebuilt>, rolling: bool) {
        let (keys, failure) = match result {
            Ok(_) if rolling => return,
            Ok(rebuilt) => (rebuilt.keys, None),
            Err(error) => (0, Some(error.to_string())),
        };
        let (built, failed) = (usize::from(failure.is_none()), usize::from(failure.is_some()));
        let (tenant, seconds, ended_ms) = (Some(tenant.to_owned()), begun.elapsed().as_secs_f64(), now_ms());
        self.remember(Ended { tenant, reason, built, failed, keys, seconds, ended_ms, failure });
    }

    fn remember(&self, one: Ended) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= REMEMBERED {
            ended.pop_front();
        }
        ended.push_back(one);
    }

    /// The last ones, the newest last.
    pub fn told(&self) -> Vec<Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Rebuilds of all tenants that failed as a whole, since the last one that did not.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }
}
