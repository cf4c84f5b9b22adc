//! One writer at a time, and readers without a lock who notice it: for cells that move or count.
//!
//! A sequence lock (Boehm, "Can seqlocks get along with programming language memory models?", 2012), weakened to what a
//! filter needs: only a "no" has to be checked. The version is odd while a change is made. A reader that found its key
//! answers "maybe" at once; one that did not believes it only if the version was even and the same before and after,
//! and asks again otherwise. After a few rounds it waits for the writer instead of racing on.

use std::sync::{Mutex, PoisonError};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// How often a reader asks again before it waits for the writer.
const ROUNDS: usize = 16;

/// The version of cells that one writer at a time changes.
#[derive(Debug)]
pub(crate) struct Version {
    number: AtomicU64,
    writer: Mutex<()>,
}

impl Version {
    pub(crate) fn new() -> Self {
        Self { number: AtomicU64::new(0), writer: Mutex::new(()) }
    }

    /// Makes a change, alone among writers and seen by readers.
    ///
    /// If the change panics the version stays odd: every reader answers "maybe" from then on, since nobody knows what
    /// was moved and what was not; later changes panic too.
    pub(crate) fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let writer = self.writer.lock().expect("an earlier change of this filter ended half-way");
        let before = self.number.load(Ordering::Relaxed);
        self.number.store(before.wrapping_add(1), Ordering::Relaxed);
        // No write of the change may be seen before the odd version.
        fence(Ordering::Release);
        let out = change();
        // And all of them are seen by whoever sees the even one.
        self.number.store(before.wrapping_add(2), Ordering::Release);
        drop(writer);
        out
    }

    /// Asks for one key: true ("maybe") at once, false only if nothing changed while it was asked.
    #[inline]
    pub(crate) fn ask(&self, mut ask: impl FnMut() -> bool) -> bool {
        let mut answer = true;
        let sure = self.undisturbed(|| {
            answer = ask();
            answer
        });
        answer || !sure
    }

    /// Asks for many keys: `ask` is run until nothing changed meanwhile, or until it says that every answer is "maybe".
    /// False if a change once ended half-way: then no "no" may be given.
    #[must_use]
    pub(crate) fn ask_all(&self, mut ask: impl FnMut()) -> bool {
        self.undisturbed(|| {
            ask();
            false
        })
    }

    /// Runs `ask` until it was not disturbed or says itself that this does not matter.
    #[inline]
    fn undisturbed(&self, mut ask: impl FnMut() -> bool) -> bool {
        for _ in 0..ROUNDS {
            let before = self.number.load(Ordering::Acquire);
            if before & 1 == 0 {
                let does_not_matter = ask();
                // The reads of `ask` come before this load.
                fence(Ordering::Acquire);
                if does_not_matter || self.number.load(Ordering::Relaxed) == before {
                    return true;
                }
            }
            std::hint::spin_loop();
            #[cfg(loom)]
            loom::thread::yield_now();
        }
        self.wait_and(ask)
    }

    #[cold]
    fn wait_and(&self, mut ask: impl FnMut() -> bool) -> bool {
        match self.writer.lock() {
            Ok(_alone) => {
                ask();
                true
            }
            Err(poisoned) => {
                drop(PoisonError::into_inner(poisoned));
                false
            }
        }
    }
}
