//! The filters of a gate: the one that answers, the next one while it is built, and what they are good for.
//!
//! State, current and next filter are behind **one** pointer. A write that looked up the current filter before a swap and
//! the next one after it would put its key into neither of those that count.

mod doubt;
mod generation;
#[cfg(feature = "redis")]
mod replies;
#[cfg(feature = "redis")]
pub mod resp;

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use bloomgate::{Contract, Digest, Secret};

use doubt::Doubtful;
pub(crate) use generation::Generation;

use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, Events, Part};
use crate::gate::now_ms;
use crate::key::{Key, KeyType};
use crate::policy::State;
use crate::sources::KeyBatch;

/// Fewer keys of a scan are put in by the task that reads them: to hand them to a thread takes 10 us, as long as 200 keys.
const MANY_KEYS: usize = 2048;

/// What is in force at one moment.
#[derive(Debug)]
pub(crate) struct Face {
    pub state: State,
    pub current: Option<Arc<Generation>>,
    pub next: Option<Arc<Generation>>,
}

impl Face {
    /// The state after trouble that means this one: broken says more than stale, and where there is no filter none is lost.
    fn less(&self, state: State) -> State {
        match (self.state, &self.current) {
            (State::Broken, _) => State::Broken,
            (State::Loading, None) => State::Loading,
            _ => state,
        }
    }
}

/// The filters of a gate.
#[derive(Debug)]
pub(crate) struct Filters {
    face: ArcSwap<Face>,
    /// Held while the face is changed: a change begins from the face before it.
    changing: Mutex<()>,
    contract: Contract,
    /// Keys that belong in every filter to come: their write may still happen.
    doubtful: Mutex<Doubtful>,
    events: Events,
}

impl Filters {
    pub fn new(secret: &Secret, key_type: KeyType, saved: Option<Generation>, events: Events) -> Self {
        let state = if saved.is_some() { State::Stale } else { State::Loading };
        Self {
            face: ArcSwap::from_pointee(Face { state, current: saved.map(Arc::new), next: None }),
            changing: Mutex::default(),
            contract: contract(secret, key_type),
            doubtful: Mutex::default(),
            events,
        }
    }

    /// The face of this moment.
    #[inline]
    pub fn face(&self) -> arc_swap::Guard<Arc<Face>> {
        self.face.load()
    }

    /// The digest of a key.
    #[inline]
    pub fn digest(&self, key: &Key) -> Digest {
        self.contract.digest_bytes(key.canonical())
    }

    /// The digests of many keys.
    pub fn digests(&self, keys: &[Key]) -> Vec<Digest> {
        keys.iter().map(|key| self.digest(key)).collect()
    }

    /// The contract that keys are hashed under.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    fn change<T>(&self, change: impl FnOnce(&Face) -> Result<(Face, T)>) -> Result<T> {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.face.load().state;
        let (face, result) = change(&self.face.load())?;
        let after = face.state;
        self.face.store(Arc::new(face));
        drop(changing);
        if after.name() != before.name() && !matches!(after, State::Ready { .. }) {
            self.events.tell(Event::NotReady { state: after.name() });
        }
        Ok(result)
    }

    /// Puts keys into every filter that counts, by their digests. A filter that cannot take them is not trusted from then on.
    pub async fn add(&self, digests: &[Digest]) {
        let face = self.face.load_full();
        for generation in [&face.current, &face.next].into_iter().flatten() {
            if let Err(error) = generation.add(digests).await {
                if generation.local_bits().is_none() {
                    self.events.failed(Part::Filter, &error);
                }
                self.mistrust(generation);
            }
        }
    }

    /// A key that the source may get at any time, though its write failed: it goes into these filters and all to come.
    pub async fn doubt(&self, keys: &[Key], digests: &[Digest]) {
        let has_room = self.doubtful.lock().unwrap_or_else(PoisonError::into_inner).add(keys);
        // After the list: a next filter that is installed meanwhile has them from there.
        self.add(digests).await;
        if !has_room {
            self.lose_ground(State::Broken);
        }
    }

    /// A write may still happen that makes keys which nobody knows: what is built before it has happened or never will
    /// could miss them.
    pub fn doubt_unnamed(&self) {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner).add_unnamed();
    }

    /// How many keys are doubtful.
    pub fn doubtful(&self) -> usize {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// A filter that failed to take a key: the current one is no longer ready, a next one must not become current.
    fn mistrust(&self, generation: &Arc<Generation>) {
        generation.taint();
        let _ = self.change(|face| {
            let is_current = face.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, generation));
            let state = if is_current && matches!(face.state, State::Ready { .. }) { State::Stale } else { face.state };
            Ok((Face { state, current: face.current.clone(), next: face.next.clone() }, ()))
        });
    }

    /// This filter is gone, or is not the one that was built: it may not say no, if it is the current one, and must not
    /// become it.
    pub fn lost(&self, generation: &Arc<Generation>) {
        generation.taint();
        let _ = self.change(|face| {
            let is_current = face.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, generation));
            let state = if is_current { State::Broken } else { face.state };
            Ok((Face { state, current: face.current.clone(), next: face.next.clone() }, ()))
        });
    }

    /// The current filter may not say no from now on, until the next swap.
    pub fn lose(&self, state: State) {
        let _ = self.change(|face| {
            Ok((Face { state: face.less(state), current: face.current.clone(), next: face.next.clone() }, ()))
        });
    }

    /// What was scanned so far says nothing any more: neither the current filter nor one that is being built is trusted.
    pub fn lose_ground(&self, state: State) {
        let _ = self.change(|face| {
            if let Some(next) = &face.next {
                next.taint();
            }
            Ok((Face { state: face.less(state), current: face.current.clone(), next: face.next.clone() }, ()))
        });
    }

    /// Installs the next filter: from now on every write goes into it too. Refused while there are more writes of unknown
    /// outcome than can be kept.
    pub async fn install(&self, next: &Arc<Generation>) -> Result<()> {
        self.change(|face| {
            if face.next.is_some() {
                return Err(Error::new(ErrorKind::Filter, "a filter is being built already: wait for it"));
            }
            Ok((Face { state: face.state, current: face.current.clone(), next: Some(next.clone()) }, ()))
        })?;
        // After it was installed: what becomes doubtful from now on is put into it by whoever wrote it.
        let doubtful = self.doubtful.lock().unwrap_or_else(PoisonError::into_inner).install();
        let doubtful = doubtful.map_err(|left| {
            self.abandon(next);
            let (most, left) = (doubt::DOUBTFUL, left.as_secs() + 1);
            let message = format!(
                "writes have an outcome that nobody knows (more than {most}, or one that makes its own key), and a filter built \
                 now could miss one: the next is built in {left} s, when all of them have happened or never will"
            );
            Error::new(ErrorKind::Source, message)
        })?;
        next.add(&self.digests(&doubtful)).await
    }

    /// Puts a batch of a scan into the next filter. A large one on a thread for such work, if the filter is in this process,
    /// so that the task can read on meanwhile: 8,192 keys take half a millisecond.
    pub async fn fill(&self, next: &Arc<Generation>, batch: &mut KeyBatch) -> Result<()> {
        if batch.len() < MANY_KEYS || next.local_bits().is_none() {
            return next.fill(&self.contract, batch).await;
        }
        let (next, contract, keys) = (next.clone(), self.contract.clone(), std::mem::take(batch));
        let filled = tokio::task::spawn_blocking(move || next.fill_here(&contract, &keys).map(|()| keys));
        // The memory of the batch is used again.
        *batch = filled.await.map_err(crate::gate::died)??;
        Ok(())
    }

    /// Makes the next filter the current one, ready as of the watermark. One pointer; lookups see the one or the other.
    pub fn swap(&self, next: &Arc<Generation>, watermark: u64) -> Result<()> {
        self.change(|face| {
            if !face.next.as_ref().is_some_and(|installed| Arc::ptr_eq(installed, next)) {
                return Err(Error::new(ErrorKind::Filter, "the filter was taken away while it was built"));
            }
            if next.is_tainted() {
                let message = "a write was lost to the filter while it was built, or the source is not where it was";
                return Err(Error::new(ErrorKind::Filter, message));
            }
            next.built(watermark);
            let state = State::Ready { version: next.version(), watermark };
            Ok((Face { state, current: Some(next.clone()), next: None }, ()))
        })?;
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner).swapped();
        Ok(())
    }

    /// Puts an empty filter in force, ready as of the watermark: the caller knows that the source has no key yet.
    pub fn begin_empty(&self, first: Generation, watermark: u64) {
        first.built(now_ms());
        let _ = self.change(|face| {
            let state = State::Ready { version: first.version(), watermark };
            Ok((Face { state, current: Some(Arc::new(first)), next: face.next.clone() }, ()))
        });
    }

    /// Gives the current filter up: there is no room for it any more.
    pub fn give_up(&self) {
        let _ = self.change(|face| Ok((Face { state: State::Loading, current: None, next: face.next.clone() }, ())));
    }

    /// The filter of the last run has everything that was written since: it may say no. Its version, unless it is no longer
    /// the current one or missed something.
    pub fn revive(&self, watermark: u64) -> Option<u64> {
        let revived = self.change(|face| {
            let current = face.current.as_ref().filter(|current| !current.is_tainted() && face.state == State::Stale);
            let Some(current) = current else {
                return Err(Error::new(ErrorKind::Filter, "there is nothing to revive"));
            };
            let state = State::Ready { version: current.version(), watermark };
            let version = current.version();
            Ok((Face { state, current: Some(current.clone()), next: face.next.clone() }, version))
        });
        revived.ok()
    }

    /// Takes the next filter away: it failed.
    pub fn abandon(&self, next: &Arc<Generation>) {
        let _ = self.change(|face| {
            let kept = face.next.clone().filter(|installed| !Arc::ptr_eq(installed, next));
            Ok((Face { state: face.state, current: face.current.clone(), next: kept }, ()))
        });
    }
}

/// How a gate hashes: keyed, over the canonical bytes of the column's type.
pub(crate) fn contract(secret: &Secret, key_type: KeyType) -> Contract {
    Contract::keyed(secret).with_encoding(key_type.encoding())
}
