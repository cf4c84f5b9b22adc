//! The ground a gate stands on: it is the only one that writes, the source is the one that was scanned, and no write of
//! before is still to land. What shakes it turns the filter to "maybe" at once, and has it rebuilt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::gate::{Gate, Inner};
use crate::policy::State;
use crate::rebuild::Reason;

/// How often the source looks whether it is still where it was.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is looked again whether the ground rests before a scan.
pub(crate) const RESTS: u32 = 3;

/// What a gate does with its source.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    /// It writes, or is about to: then it must be the only one.
    writes: AtomicBool,
}

impl Gate {
    /// Says that writes will pass this gate: it takes the table for itself before it builds its filter, and not only with
    /// the first write.
    pub fn expect_writes(&self) {
        self.inner.ground.writes.store(true, SeqCst);
    }
}

impl Inner {
    /// Listens for moves of the source.
    pub(crate) fn stand_on_source(self: &Arc<Self>) {
        let Some(footing) = self.source.footing() else { return };
        let inner = Arc::downgrade(self);
        footing.on_move(move || match inner.upgrade() {
            None => false,
            Some(inner) => {
                inner.filters.lose_ground(State::Stale);
                inner.shards.forget_all();
                inner.rebuilds.ask(Reason::Moved);
                true
            }
        });
    }

    /// The filter may not say no from now on; nor does what was remembered as absent while it could.
    pub(crate) fn lose(&self, state: State) {
        self.filters.lose(state);
        self.shards.forget_all();
    }

    /// Before a write: nobody else's gate may write to the table.
    pub(crate) async fn claim(&self) -> Result<()> {
        // With a feed others may write, other gates too: the triggers tell.
        if !self.may_block || self.feeding.is_some() {
            return Ok(());
        }
        self.ground.writes.store(true, SeqCst);
        self.source.claim().await
    }

    /// Before a scan: nobody else writes, and what was written before is there or never will be. How often the ground had
    /// moved by then, if that matters: once more, and the scan is worth nothing.
    pub(crate) async fn prepare_scan(&self) -> Result<Option<u64>> {
        // With a feed, what is committed after the scan's moment is told.
        if !self.may_block || self.feeding.is_some() {
            return Ok(None);
        }
        for _ in 0..RESTS {
            let before = self.moves();
            if self.ground.writes.load(SeqCst) {
                self.source.claim().await?;
            }
            self.source.settle().await?;
            // What was found out on the way is made good by looking once more.
            if self.moves() == before {
                return Ok(Some(before));
            }
        }
        Err(moved_meanwhile())
    }

    /// How often the ground has moved.
    pub(crate) fn moves(&self) -> u64 {
        self.source.footing().map_or(0, crate::sources::Footing::moves)
    }

    /// Has the source look around for as long as the gate runs. Not for one that only watches, since it never says no, nor
    /// for one with a feed, which looks with every read.
    pub(crate) fn look_around(self: &Arc<Self>) -> Option<AbortHandle> {
        if !self.may_block || self.feeding.is_some() || self.source.footing().is_none() {
            return None;
        }
        let inner = self.clone();
        let looking = tokio::spawn(async move {
            let mut was_away = false;
            loop {
                tokio::time::sleep(LOOK).await;
                // A source that cannot be asked is found out by lookups; one that cannot be gated any more is not.
                let looked = inner.source.look_around().await;
                if std::mem::replace(&mut was_away, looked.is_err()) && looked.is_ok() {
                    inner.rebuilds.back.notify_one();
                }
                if looked.is_err_and(|error| error.kind() == ErrorKind::Unsupported) {
                    let was_broken = inner.filters.face().state == State::Broken;
                    inner.lose(State::Broken);
                    if !was_broken {
                        inner.rebuilds.ask(Reason::Moved);
                    }
                }
            }
        });
        Some(looking.abort_handle())
    }
}

/// What is said of a scan that the ground moved under.
pub(crate) fn moved_meanwhile() -> Error {
    Error::new(ErrorKind::Source, "the source is not where it was when the scan began: it says nothing of now")
}
