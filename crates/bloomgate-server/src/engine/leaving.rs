//! Filters that lost their names, and whose memory is not free yet: somebody may be asking them.
//!
//! ```text
//!  delete, rename over, replace, expire ─▶ leaving: still charged ─▶ the last holder lets go ─▶ memory freed ─▶ charge given back
//! ```
//!
//! **Why.** A charge that is given back before the memory is lets the next filter be made beside the one that is going:
//! twelve pairs of BG.CREATE and DEL took 1 GB in a namespace of 80 MB. So the budget is told when the memory is free, and
//! not before. Whoever finds no room frees what nobody holds any more, and is told to come again in a moment where
//! somebody does: a thread holds the filters that it used last for 100 ms at most, a snapshot and a probe as long as they
//! look at one.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::chores::LARGE;
use super::entry::Entry;
use super::namespaces::Claim;
use super::{Core, Engine};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// So long after its deletion a filter is waited for. Pages that were being brought in when it was deleted hold it
/// longest: 2.5 s for a gigabyte where memory is lent on demand.
const PATIENCE: Duration = Duration::from_secs(5);

/// Filters that are looked at when a command ends: those that it deleted are the last.
const AT_END: usize = 64;

/// A filter without a name, and what it is charged.
#[derive(Debug)]
struct Gone {
    entry: Entry,
    claim: Claim,
    since: Instant,
}

impl Gone {
    /// Whether nobody else holds it: there is no way to it any more, so nobody will.
    fn is_free(&self) -> bool {
        self.entry.holders() == 1
    }
}

#[derive(Debug, Default)]
struct Books {
    gone: Vec<Gone>,
    /// Bytes of those that are being freed just now.
    freeing: u64,
}

/// Filters that lost their names and are still charged.
#[derive(Debug, Default)]
pub struct Leaving {
    books: Mutex<Books>,
    /// How many there are: nearly always none, and asked by every command.
    count: AtomicUsize,
}

impl Leaving {
    fn with<T>(&self, work: impl FnOnce(&mut Books) -> T) -> T {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(&mut books);
        self.count.store(books.gone.len(), Ordering::Relaxed);
        done
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Bytes that are charged for filters without a name.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.with(|books| books.freeing + books.gone.iter().map(|gone| gone.claim.bytes()).sum::<u64>())
    }

    /// Takes out those from a place on that nobody else holds and that are meant.
    fn take(&self, newest: usize, meant: impl Fn(&Gone) -> bool) -> Vec<Gone> {
        self.with(|books| {
            let mut at = books.gone.len().saturating_sub(newest);
            let mut taken = Vec::new();
            while let Some(gone) = books.gone.get(at) {
                if gone.is_free() && meant(gone) {
                    books.freeing += gone.claim.bytes();
                    taken.push(books.gone.swap_remove(at));
                } else {
                    at += 1;
                }
            }
            taken
        })
    }

    /// Whether there will be so many bytes in a moment: of the namespace, or of all.
    fn will_free(&self, space: Option<u16>, bytes: u64) -> bool {
        self.with(|books| {
            let meant =
                |gone: &&Gone| space.is_none_or(|space| gone.claim.space() == space) && gone.since.elapsed() < PATIENCE;
            let soon: u64 = books.gone.iter().filter(meant).map(|gone| gone.claim.bytes()).sum();
            soon + books.freeing >= bytes
        })
    }
}

impl Engine {
    /// A filter lost its name, with nobody writing. What few hold goes at once; whether it stays for
    /// [`see_off`](Self::see_off).
    pub(super) fn part_with(&self, entry: Entry, claim: Claim) -> bool {
        if claim.bytes() < LARGE && entry.holders() == 1 {
            drop(entry);
            self.give_up(claim);
            return false;
        }
        self.leaving.with(|books| books.gone.push(Gone { entry, claim, since: Instant::now() }));
        true
    }

    /// So many filters have just lost their names, and others may write again: those that nobody holds are freed, large ones
    /// by the thread that has the time for it.
    pub(super) fn see_off(&self, count: usize) {
        self.free_newest(count);
        if !self.leaving.is_empty() {
            self.chores.let_go();
        }
    }

    fn free_newest(&self, count: usize) {
        let has_thread = self.chores.frees_memory();
        self.free(self.leaving.take(count, |gone| !has_thread || gone.claim.bytes() < LARGE));
    }

    /// Frees the memory of filters that nobody holds any more; whether there was one.
    pub fn free_leaving(&self) -> bool {
        let taken = self.leaving.take(usize::MAX, |_| true);
        let some = !taken.is_empty();
        self.free(taken);
        some
    }

    /// Whether so many bytes more than there are will be free in a moment: of a namespace, or of all.
    pub(super) fn will_free(&self, space: Option<u16>, bytes: u64) -> bool {
        self.leaving.will_free(space, bytes)
    }

    fn free(&self, taken: Vec<Gone>) {
        for Gone { entry, claim, .. } in taken {
            let bytes = claim.bytes();
            drop(entry);
            self.give_up(claim);
            self.leaving.with(|books| books.freeing -= bytes);
        }
    }
}

impl Core {
    /// A command ends, and nothing of what it deleted or replaced is held for it any more.
    #[inline]
    pub fn let_go(&mut self) {
        if !self.engine.leaving.is_empty() {
            self.nearby.refresh(&self.engine.names);
            self.engine.free_newest(AT_END);
        }
    }
}

/// Filters that lost their names under a right to write. To be dropped after it: others write while memory is freed.
#[derive(Debug)]
pub(super) struct Farewell<'a> {
    pub engine: &'a Engine,
    pub count: usize,
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        if self.count > 0 {
            self.engine.see_off(self.count);
        }
    }
}
