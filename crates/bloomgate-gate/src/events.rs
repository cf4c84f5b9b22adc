//! What a gate tells while it runs: a part that is lost or regained, a rebuild that ended, a wrong "no". Whoever embeds
//! the gate says who is told; what it costs a lookup while all is well is one load of memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::callers::{Cap, ClientId, Limit};
use crate::error::{Error, ErrorKind};
use crate::rebuild::Rebuilt;

/// What a gate is made of, and may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The source of truth.
    Source,
    /// The cache.
    Cache,
    /// A filter behind a network.
    Filter,
    /// The feed that tells what others write.
    Feed,
    /// The service behind a proxy.
    Upstream,
}

/// How many parts there are.
const PARTS: usize = Part::Upstream as usize + 1;

impl fmt::Display for Part {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Source => "source",
            Self::Cache => "cache",
            Self::Filter => "filter",
            Self::Feed => "feed",
            Self::Upstream => "upstream",
        })
    }
}

/// Something that happened.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum Event {
    /// A new filter is in force.
    Rebuilt {
        /// How it was built.
        rebuilt: Rebuilt,
        /// How long the first filter of this run took, if this is it, in milliseconds.
        first_after_ms: Option<u64>,
        /// Whether absent keys are answered by it, or only counted.
        blocking: bool,
    },
    /// A rebuild failed; `failure` in it says why.
    RebuildFailed {
        /// How it ended.
        rebuilt: Rebuilt,
        /// Whether a filter that may say no is in force all the same.
        still_ready: bool,
    },
    /// The source has far fewer keys than before, and this was accepted.
    FewerAccepted {
        /// Keys there were, deletions counted.
        before: u64,
        /// Keys there are.
        now: u64,
        /// Who or what accepted it.
        because: &'static str,
    },
    /// The list of keys has some that the source does not know. It is used all the same: they may have been deleted since.
    KeysUnknown {
        /// Keys of the list that were asked for.
        asked: u64,
        /// Those that it does not know.
        unknown: u64,
        /// One of them.
        example: String,
    },
    /// A "no" was wrong: the source has this key.
    WrongNo {
        /// The key.
        key: String,
        /// What found it: an audit or an explanation.
        found_by: &'static str,
    },
    /// The filter in force may not say no any more: stale or broken.
    NotReady {
        /// The state it is in.
        state: &'static str,
    },
    /// A write passed of which the filter could not be told: it may not say no until it is rebuilt.
    WriteMissed {
        /// What happened.
        why: String,
    },
    /// A part does not answer. Told once, until it answers again.
    Lost {
        /// Which.
        part: Part,
        /// What it said.
        why: String,
    },
    /// A part that was lost answers again.
    Regained {
        /// Which.
        part: Part,
    },
    /// A client is over its cap: what would cost the source something is refused. Told once in a minute for each.
    Capped {
        /// Who: an address, or the hash of a name.
        client: ClientId,
        /// Of what.
        cap: Cap,
        /// How many are allowed.
        limit: Limit,
    },
    /// What others wrote cannot be followed from where it was left: no filter is trusted until a scan.
    FeedLost {
        /// Why.
        why: String,
    },
    /// The filter of the last run has everything that was written since, and may say no again.
    CaughtUp {
        /// Its version.
        version: u64,
        /// Changes that were told since it was saved.
        changes: u64,
        /// How long it took since the start, in milliseconds.
        after_ms: u64,
        /// Whether absent keys are answered by it, or only counted.
        blocking: bool,
    },
    /// The filter could not be saved for the next start.
    SaveFailed {
        /// Why.
        why: String,
    },
    /// What the last run saved cannot be used; the gate begins without.
    SavedUnusable {
        /// Why.
        why: String,
    },
    /// Something that concerns one tenant alone.
    OfTenant {
        /// The tenant, as it is written.
        tenant: Arc<str>,
        /// What happened.
        event: Box<Event>,
    },
    /// The filters of many tenants were built by one scan.
    TenantsBuilt {
        /// Tenants that have a ready filter from it.
        built: usize,
        /// Tenants whose filter failed; each is told of by itself.
        failed: usize,
        /// Tenants for whose filters the memory does not suffice.
        without_room: usize,
        /// Keys of all of them.
        keys: u64,
        /// How long it took, in seconds.
        seconds: f64,
        /// Whether absent keys are answered by them, or only counted.
        blocking: bool,
    },
    /// The scan of all tenants failed: what was in force stays.
    TenantsFailed {
        /// Why.
        why: String,
    },
    /// A tenant that has settings of its own has no rows.
    TenantWithoutRows {
        /// The tenant, as the settings write it.
        tenant: String,
        /// A tenant with a similar name that has rows.
        near: Option<String>,
    },
}

/// Who is told. Called where it happens: it must not wait.
pub(crate) type Listener = Arc<dyn Fn(Event) + Send + Sync>;

/// Tells what happens, and knows which parts are lost.
#[derive(Clone, Default)]
pub(crate) struct Events {
    listener: Option<Listener>,
    lost: Arc<[AtomicBool; PARTS]>,
}

impl fmt::Debug for Events {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Events").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Events {
    pub fn new(listener: Option<Listener>) -> Self {
        Self { listener, lost: Arc::default() }
    }

    /// Those of one tenant: what it tells is told as its own, but for parts that all tenants share, which are lost and
    /// regained once.
    pub fn of_tenant(&self, tenant: Arc<str>) -> Self {
        let listener = self.listener.clone().map(|all| -> Listener {
            Arc::new(move |event| match event {
                Event::Lost { .. } | Event::Regained { .. } => all(event),
                event => all(Event::OfTenant { tenant: tenant.clone(), event: Box::new(event) }),
            })
        });
        Self { listener, lost: self.lost.clone() }
    }

    pub fn tell(&self, event: Event) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }

    /// Whether a part answered when it was called the last time, or was not called yet.
    pub fn is_up(&self, part: Part) -> bool {
        !self.lost[part as usize].load(Relaxed)
    }

    /// A part answered.
    #[inline]
    pub fn answered(&self, part: Part) {
        let lost = &self.lost[part as usize];
        if lost.load(Relaxed) && lost.swap(false, Relaxed) {
            self.tell(Event::Regained { part });
        }
    }

    /// A part failed.
    #[cold]
    pub fn failed(&self, part: Part, why: &dyn fmt::Display) {
        if !self.lost[part as usize].swap(true, Relaxed) {
            self.tell(Event::Lost { part, why: why.to_string() });
        }
    }

    /// What the source said to a question or a write: whether the source itself failed. What a client sent wrongly is no
    /// failure of it.
    pub fn of_source<T>(&self, result: &Result<T, Error>) -> bool {
        let Err(error) = result else {
            self.answered(Part::Source);
            return false;
        };
        match error.kind() {
            ErrorKind::BadKey | ErrorKind::Invalid | ErrorKind::Unsupported => false,
            // It answers, and is busy.
            ErrorKind::Busy => true,
            // It was not asked.
            ErrorKind::TooManyMisses | ErrorKind::TooManyAdds => false,
            _ => {
                self.failed(Part::Source, error);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_part_is_lost_once_and_regained_once() {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = told.clone();
        let events = Events::new(Some(Arc::new(move |event| heard.lock().unwrap().push(format!("{event:?}")))));
        let down: Result<(), Error> = Err(Error::new(ErrorKind::Source, "gone"));
        let bad: Result<(), Error> = Err(Error::new(ErrorKind::Invalid, "a bad row"));
        assert!(!events.of_source(&Ok(())) && !events.of_source(&bad));
        assert!(events.of_source(&down) && events.of_source(&down) && !events.of_source(&bad));
        events.failed(Part::Cache, &"late");
        assert!(!events.of_source(&Ok(())) && !events.of_source(&Ok(())));
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("Lost") && told[0].contains("gone") && told[1].contains("Cache"), "{told:?}");
        assert!(told[2].contains("Regained"), "{told:?}");
    }
}
