//! The ring for many threads: inserts and lookups take no lock, and turning disturbs none of them for long.
//!
//! ```text
//!  tick  2y       2y+1                     2y+2
//!        │        │ oldest is cleared      │
//!  live  y-g..=y  y-g+1..=y                y+1-g..=y+1      the cleared one is the youngest now
//! ```
//!
//! - **Who asks** believes a "no" only if the tick was the same before and after; then no generation that counted was
//!   cleared meanwhile. A tick changes twice per turn, so at most two rounds of asking are lost to it.
//! - **Who inserts** looks at the tick again after its bits are set. If the youngest generation is another by then, the
//!   bits may have gone into one that was being cleared, or lie in one that goes too early: it inserts again. Bits that
//!   a slow thread sets in a generation that has a new life only cost a little of its rate.
//! - **Who turns** says that the oldest no longer counts, clears it, and says that it is the youngest.

use std::time::{Duration, SystemTime};

use super::clock::{Hands, nanoseconds};
use super::salt::{salt, salted};
use super::{BATCH, Rotating, fence, oldest_first};
use crate::arch::words::Ordering;
use crate::bits::{Owned, Shared};
use crate::error::Result;
use crate::hash::Digest;
use crate::key::Key;
use crate::promise::{WhenFull, insert_each_in_turn};

impl Rotating<Shared> {
    /// Tells the time, since any beginning: generations whose last key is older than the window are cleared.
    ///
    /// Best from one thread, on a timer: others that advance at that moment wait; inserts and lookups do not.
    pub fn advance(&self, now: Duration) {
        let mut hands = self.lock();
        self.read(&mut hands, now);
    }

    /// Tells the time of the system's clock, which the caller has read.
    pub fn advance_to(&self, now: SystemTime) {
        self.advance(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    }

    /// Lets so much time pass since the last call. Starts the clock at 0 if it has not been read.
    pub fn advance_by(&self, elapsed: Duration) {
        let mut hands = self.lock();
        let now = Duration::from_nanos(hands.clock_ns.unwrap_or_default());
        self.read(&mut hands, now);
        self.read(&mut hands, now.saturating_add(elapsed));
    }

    /// Reads the clock and turns the ring; `hands` are borrowed from the lock.
    fn read(&self, hands: &mut Hands, now: Duration) {
        let turns = hands.read(&self.rule, nanoseconds(now));
        let ring = self.ring.len() as u64;
        // A long pause: all generations are over, and only the last of the new ones have to be gone through. Until they
        // are cleared the old bits are seen through other salts, which is worth a wrong "maybe" and no more.
        let mut youngest = self.tick.load(Ordering::Relaxed) >> 1;
        if turns > ring {
            youngest += turns - ring;
            self.tick.store(2 * youngest, Ordering::Release);
            fence(Ordering::SeqCst);
        }
        for _ in 0..turns.min(ring) {
            self.tick.store(2 * youngest + 1, Ordering::Relaxed);
            // Whoever sees a cleared word, or sets a bit that is cleared, also sees that tick or a later one.
            fence(Ordering::SeqCst);
            youngest += 1;
            self.generation(youngest).sweep();
            self.tick.store(2 * youngest, Ordering::Release);
            fence(Ordering::SeqCst);
        }
    }

    /// Inserts a key, to be kept for the window from now; true if it was certainly not in the ring, false if it may
    /// have been. A key that is there already is kept for another window.
    ///
    /// When several threads insert the same new key at once, at least one is told that it was new.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&self, digest: Digest) -> Result<bool> {
        let known = self.contains_digest(digest);
        Ok(self.put_all(&[digest], &[known])? == 1)
    }

    /// Inserts many keys at once; how many were certainly not in the ring.
    pub fn insert_batch<K: Key>(&self, keys: &[K]) -> Result<u64> {
        let mut digests = [Digest::default(); BATCH];
        let mut fresh = 0;
        for keys in keys.chunks(BATCH) {
            let (digests, filled) = self.digests_of(keys, &mut digests);
            fresh += self.insert_digests(digests)?;
            filled?;
        }
        Ok(fresh)
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&self, digests: &[Digest]) -> Result<u64> {
        let mut fresh = 0;
        for digests in digests.chunks(BATCH) {
            let mut known = [false; BATCH];
            self.contains_digests(digests, &mut known[..digests.len()])?;
            fresh += self.put_all(digests, &known)?;
        }
        Ok(fresh)
    }

    insert_each_in_turn!();

    /// Puts digests into the youngest generation, and again if it is not the youngest any more when that is done; how
    /// many of the unknown ones were certainly not in it the first time.
    pub(super) fn put_all(&self, digests: &[Digest], known: &[bool]) -> Result<u64> {
        let refuses = self.promise.when_full == WhenFull::Refuse;
        let mut first = None;
        loop {
            let number = self.tick.load(Ordering::Acquire) >> 1;
            #[cfg(test)]
            super::tests::stall();
            let (salt, youngest) = (salt(number), self.generation(number));
            let mut fresh = 0;
            for (&digest, &known) in digests.iter().zip(known) {
                let seen = salted(digest, salt);
                if refuses && youngest.is_full() {
                    if youngest.contains_digest(seen) {
                        continue;
                    }
                    return Err(self.full());
                }
                fresh += u64::from(youngest.insert_digest(seen)? && !known);
            }
            let fresh = *first.get_or_insert(fresh);
            fence(Ordering::SeqCst);
            if self.tick.load(Ordering::Relaxed) >> 1 == number {
                return Ok(fresh);
            }
        }
    }

    /// Inserts everything an iterator gives; how many were certainly not in the ring.
    pub fn insert_all<K: Key>(&self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        keys.into_iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(&key)?)))
    }

    /// Forgets all keys; takes the only reference, so that no insert is lost half-way. Time goes on.
    pub fn clear(&mut self) {
        self.ring.iter_mut().for_each(|generation| generation.clear());
    }

    /// The same ring for one owner. Moves; nothing is copied.
    pub fn into_owned(self) -> Result<Rotating<Owned>> {
        let state = self.state();
        let (contract, promise, rule) = (self.contract, self.promise, self.rule);
        let generations = oldest_first(self.ring, state.youngest).into_iter().map(super::Blocked::into_owned);
        Rotating::from_parts(contract, promise, rule, state, generations.collect::<Result<_>>()?)
    }
}
