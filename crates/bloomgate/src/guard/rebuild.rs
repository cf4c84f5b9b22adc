//! The next filter, while it is filled: it gets what is added, and what a read of the source gives.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use super::writes::Era;
use super::{Guard, Next, insert};
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;

/// A rebuild under way, made by [`Guard::begin_rebuild`]: see the [module](super) for the order of steps.
///
/// Threads may share it to add keys. Dropped before [`finish`](Self::finish), as by `?` after a failed read, it is given
/// up: the old filter stays.
#[must_use = "a rebuild that is dropped is given up"]
pub struct Rebuild<'g> {
    guard: &'g Guard,
    next: Arc<Next>,
    /// Writes that began before this.
    before: Vec<Arc<Era>>,
    /// That they have ended, once it was found.
    settled: AtomicBool,
    doubts: u64,
}

impl<'g> Rebuild<'g> {
    pub(super) fn new(guard: &'g Guard, next: Arc<Next>, before: Vec<Arc<Era>>, doubts: u64) -> Self {
        Self { guard, next, before, settled: AtomicBool::new(false), doubts }
    }

    /// Waits until every write that began before the rebuild has ended: every [`Writing`](super::Writing) from before is
    /// dropped. **Read the source after this, not before.** Later writes go to both filters and need no waiting.
    pub fn wait_for_writes(&self) {
        self.before.iter().for_each(|era| era.wait());
        self.settled.store(true, Ordering::Release);
    }

    /// How many writes that began before the rebuild are still under way: for who would rather ask again than block. At 0
    /// the source may be read.
    #[must_use]
    pub fn writes_in_flight(&self) -> u64 {
        if self.settled.load(Ordering::Acquire) {
            return 0;
        }
        let open = self.before.iter().map(|era| era.open()).sum();
        if open == 0 {
            self.settled.store(true, Ordering::Release);
        }
        open
    }

    fn settled(&self) -> Result<()> {
        match self.writes_in_flight() {
            0 => Ok(()),
            open => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{open} writes that began before this rebuild are still under way: a read of the source may miss \
                     them; call wait_for_writes() first, and read the source after it"
                ),
            )),
        }
    }

    /// Adds a key that the source has. Refused while writes from before the rebuild are under way.
    pub fn add<K: Key + ?Sized>(&self, key: &K) -> Result<()> {
        self.settled()?;
        insert(&self.next.version.filter, key)
    }

    /// [`add`](Self::add) for many keys.
    pub fn add_batch<K: Key>(&self, keys: &[K]) -> Result<()> {
        keys.iter().try_for_each(|key| self.add(key))
    }

    /// How many different keys the next filter has, about: to be compared with what the source counts before
    /// [`finish`](Self::finish). A read that ended early is not to be finished.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.next.version.filter.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts the next filter, **which now has every key of the source**, in the place of the current one, in one step; its
    /// version. Lookups do not wait, and the guard is [`Ready`](super::State::Ready).
    ///
    /// Refused, with the old filter left in place, if writes from before the rebuild are still under way, if a key that was
    /// added meanwhile did not fit, or if the guard was [paused](Guard::pause) or [distrusted](Guard::distrust) after the
    /// rebuild began: what was in doubt then may be missing here too.
    pub fn finish(self) -> Result<u64> {
        self.settled()?;
        let mut control = self.guard.writing();
        // Under the lock no add is half-way: what is refused is refused by now.
        if let Some(refused) = self.next.refused.lock().unwrap_or_else(PoisonError::into_inner).take() {
            drop(control);
            return Err(refused);
        }
        if control.doubts != self.doubts {
            drop(control);
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the guard was paused or distrusted after this rebuild began, so the new filter may lack the same keys: \
                 begin another rebuild",
            ));
        }
        control.next = None;
        Ok(self.guard.install(control, Arc::clone(&self.next.version)))
    }
}

impl Drop for Rebuild<'_> {
    fn drop(&mut self) {
        let mut control = self.guard.writing();
        // Finished, or another began since: not ours to take away.
        if control.next.as_ref().is_some_and(|next| Arc::ptr_eq(next, &self.next)) {
            control.next = None;
        }
    }
}

impl fmt::Debug for Rebuild<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rebuild")
            .field("version", &self.next.version.number)
            .field("writes_in_flight", &self.writes_in_flight())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
