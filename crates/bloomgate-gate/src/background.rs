//! What a gate does besides answering: rebuilds, audits and following a feed, in tasks that end with it.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, PoisonError};

use tokio::task::AbortHandle;

use crate::gate::Gate;
use crate::{audit, feed, rebuild};

/// The tasks of a gate.
#[derive(Debug, Default)]
pub(crate) struct Background {
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Background {
    /// More tasks, which end with the others. Those that have ended are forgotten.
    pub fn add(&self, tasks: impl IntoIterator<Item = AbortHandle>) {
        let mut all = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|task| !task.is_finished());
        all.extend(tasks);
    }

    /// Ends them. A rebuild under way ends with its task, at a point where nothing is half-done.
    pub fn stop(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}

impl Gate {
    /// Begins to build the first filter, to rebuild it when due or needed, and to audit. Once; within a tokio runtime.
    pub fn start(&self) {
        let inner = &self.inner;
        if inner.rebuilds.started.swap(true, SeqCst) {
            return;
        }
        inner.rebuilds.begin();
        let mut tasks = Vec::new();
        // Without a list of keys there is no filter to build, however often it is tried.
        if inner.source.lists_keys() {
            tasks.push(tokio::spawn(rebuild::run(inner.clone())).abort_handle());
        }
        if let Some(samples) = inner.audits.take() {
            tasks.push(tokio::spawn(audit::run(samples)).abort_handle());
        }
        if inner.feeding.is_some() {
            tasks.push(tokio::spawn(feed::run(inner.clone())).abort_handle());
        }
        tasks.extend(inner.look_around());
        inner.background.add(tasks);
    }
}
