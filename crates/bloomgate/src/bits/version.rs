//! One writer at a time, and readers without a lock who notice it: for cells that move.
//!
//! **When.** A change takes a key out of one word and puts it into another (cuckoo, quotient): a reader in between would
//! see it in neither. **When not.** Each word is right at every moment for every key that is in: bits that are only
//! ever set, counters that one writer moves by one. Those need a lock among writers at most.
//!
//! A sequence lock (Boehm, "Can seqlocks get along with programming language memory models?", 2012), weakened to what a
//! filter needs: only a "no" has to be checked. The version is odd while a change is made. A reader that found its key
//! answers "maybe" at once; one that did not believes it only if the version was even and the same before and after,
//! and asks again otherwise. After a few rounds it waits for the writer instead of racing on.
//!
//! ```text
//!  writer   odd, relaxed │ release fence │ words, relaxed …        │ even, release
//!  reader   version, acquire             │ words, relaxed … │ acquire fence │ version again, relaxed
//! ```
//!
//! Why it holds. (1) A reader that saw one word of a change: its acquire fence pairs with the writer's release fence,
//! so the second look finds the odd version or a later one, and differs from the first. (2) A reader whose first
//! look found an even version synchronizes with the store that made it, so it sees every word of all changes up to
//! that one, and of those before it, since the lock orders the writers. What remains is a reader that saw all of the
//! changes up to its version and nothing of later ones: undisturbed.
//!
//! The words themselves must be atomics, read and written relaxed (`arch::words`).

use std::sync::PoisonError;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The lock among writers: under loom its own, since a model runs all its threads on one.
#[cfg(loom)]
pub(crate) use loom::sync::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::Mutex;

/// How often a reader asks again before it waits for the writer.
#[cfg(not(loom))]
const ROUNDS: usize = 16;
/// Two rounds have every transition that sixteen have, and few enough interleavings to try them all.
#[cfg(loom)]
const ROUNDS: usize = 2;

/// The version of cells that one writer at a time changes.
#[derive(Debug)]
pub struct Version {
    /// Odd while a change is made, and for ever after one that ended half-way.
    number: AtomicU64,
    writer: Mutex<()>,
}

impl Default for Version {
    fn default() -> Self {
        Self::new()
    }
}

impl Version {
    /// The version of cells that nobody has changed yet.
    #[must_use]
    pub fn new() -> Self {
        Self { number: AtomicU64::new(0), writer: Mutex::new(()) }
    }

    /// Makes a change, alone among writers and seen by readers. The change must not ask by this version: it would
    /// wait for itself.
    ///
    /// If the change panics the version stays odd: every reader answers "maybe" from then on, since nobody knows what
    /// was moved and what was not; later changes panic too.
    pub fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        // Whether a change ended half-way is told by the version alone: a reader that waited and panicked has
        // poisoned the lock and changed nothing.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: only holders of the lock store it.
        let before = self.number.load(Ordering::Relaxed);
        assert!(before & 1 == 0, "an earlier change of this filter ended half-way: build it again");
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
    pub fn ask(&self, mut ask: impl FnMut() -> bool) -> bool {
        let mut answer = true;
        let sure = self.undisturbed(|| {
            answer = ask();
            answer
        });
        answer || !sure
    }

    /// Asks for many keys: `ask` is run, from the start each time, until nothing changed meanwhile.
    /// False if a change once ended half-way: then no "no" that `ask` found may be given.
    #[must_use]
    pub fn ask_all(&self, mut ask: impl FnMut()) -> bool {
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

    /// Runs `work` while no change can be made, as for a copy of all cells; `None` if an earlier change ended half-way.
    pub fn at_rest<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let _alone = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        (self.number.load(Ordering::Relaxed) & 1 == 0).then(work)
    }

    /// Asks while no writer can come; false if the last one ended half-way.
    #[cold]
    fn wait_and(&self, mut ask: impl FnMut() -> bool) -> bool {
        let _alone = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.number.load(Ordering::Relaxed) & 1 == 1 {
            return false;
        }
        ask();
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;

    /// Two homes for each of 64 fingerprints, in words of their own; each is in exactly one of its homes.
    struct Homes {
        version: Version,
        words: [AtomicU64; 128],
    }

    impl Homes {
        fn new() -> Self {
            Self { version: Version::new(), words: std::array::from_fn(|at| AtomicU64::new(u64::from(at < 64))) }
        }

        /// Moves a fingerprint to its other home the wrong way round: away first, and there after a while.
        fn move_over(&self, key: usize) {
            self.version.change(|| {
                let (from, to) = match self.words[key].load(Ordering::Relaxed) {
                    0 => (key + 64, key),
                    _ => (key, key + 64),
                };
                self.words[from].store(0, Ordering::Relaxed);
                for _ in 0..20 {
                    std::hint::spin_loop();
                }
                self.words[to].store(1, Ordering::Relaxed);
            });
        }

        fn raw(&self, key: usize) -> bool {
            self.words[key].load(Ordering::Relaxed) != 0 || self.words[key + 64].load(Ordering::Relaxed) != 0
        }
    }

    #[test]
    fn what_moves_is_always_found_and_what_is_absent_is_still_absent() {
        let homes = Homes::new();
        homes.words[7].store(0, Ordering::Relaxed);
        let done = AtomicBool::new(false);
        let (mut unguarded, mut asked) = (0u64, 0u64);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (homes, done) = (&homes, &done);
                scope.spawn(move || {
                    let mut key = writer;
                    while !done.load(Ordering::Relaxed) {
                        if key != 7 {
                            homes.move_over(key);
                        }
                        key = (key + 1) % 64;
                    }
                });
            }
            while asked < 40_000 {
                for key in (0..64).filter(|&key| key != 7) {
                    unguarded += u64::from(!homes.raw(key));
                    assert!(homes.version.ask(|| homes.raw(key)), "a wrong no for {key}");
                }
                assert!(!homes.version.ask(|| homes.raw(7)), "absent, and nobody ended half-way");
                let mut found = [false; 64];
                assert!(homes.version.ask_all(|| (0..64).for_each(|key| found[key] = homes.raw(key))));
                assert_eq!(found.iter().filter(|&&found| found).count(), 63);
                asked += 64;
            }
            done.store(true, Ordering::Relaxed);
        });
        // The writers were met: without the version there would have been wrong answers. Not asserted, since a
        // machine with one core may never show one.
        println!("{asked} asked, {unguarded} would have been wrong");
    }

    #[test]
    fn a_change_that_panics_makes_every_answer_maybe_for_ever() {
        let homes = Homes::new();
        assert!(!homes.version.ask(|| false));
        let half = catch_unwind(AssertUnwindSafe(|| {
            homes.version.change(|| {
                homes.words[3].store(0, Ordering::Relaxed);
                panic!("half-way");
            })
        }));
        assert!(half.is_err());
        for _ in 0..3 {
            assert!(homes.version.ask(|| homes.raw(3)), "moved away and not there yet");
            assert!(homes.version.ask(|| false));
            assert!(!homes.version.ask_all(|| ()));
        }
        let later = catch_unwind(AssertUnwindSafe(|| homes.version.change(|| ())));
        assert!(later.is_err(), "a later change would hide it");
        assert!(homes.version.ask(|| false));
    }

    /// A reader that panics while it keeps writers out has changed nothing.
    #[test]
    fn a_reader_that_panics_harms_nobody() {
        let version = Version::new();
        let panicked = catch_unwind(AssertUnwindSafe(|| version.wait_and(|| panic!("a key that cannot be read"))));
        assert!(panicked.is_err());
        assert!(!version.ask(|| false));
        assert!(version.wait_and(|| true));
        assert_eq!(version.change(|| 5), 5);
        assert!(!version.ask(|| false));
    }

    /// A reader that is disturbed in every round ends by waiting, and is then right.
    #[test]
    fn a_reader_that_is_always_disturbed_waits_at_last() {
        let version = Version::new();
        let mut rounds = 0;
        assert!(!version.ask(|| {
            rounds += 1;
            // The last time the lock is held, so that only the rounds before it can be disturbed.
            if rounds <= ROUNDS {
                version.change(|| ());
            }
            false
        }));
        assert_eq!(rounds, ROUNDS + 1);
    }
}
