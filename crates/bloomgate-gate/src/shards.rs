//! What is known of keys in flight: write epochs, negative entries, reads under way and doubtful writes, by shard.
//!
//! The rule that keeps a remembered "no" true: **it is remembered only if the shard's epoch has not moved since before the
//! source was read.** A write moves the epoch before it reaches the source and again after; so whatever was read before or
//! during the write is never remembered after it, nor joined by a lookup that began after it.
//!
//! Everything of a shard is behind one small lock: check and store are one step. A "no" of the filter never comes here.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bloomgate::Digest;
use bytes::Bytes;
use tokio::sync::{Mutex as SlowMutex, watch};
use tokio::time::Instant;

use crate::error::Result;

/// Shards: 256 locks, so that 50 workers seldom meet.
const SHARDS: usize = 256;

/// How long a write of unknown outcome keeps its key from being remembered as absent: longer than a database needs to
/// give up on a connection it lost and to finish or roll back what it was doing there.
pub(crate) const DOUBT: Duration = Duration::from_secs(300);

/// Keys of a shard that are doubted one by one; with more of them, all of the shard's are.
const DOUBTFUL: usize = 256;

/// What a read under way will give to those who joined it.
pub(crate) type Outcome = Option<Result<Option<Bytes>>>;

/// Keys in flight.
#[derive(Debug)]
pub(crate) struct Shards {
    shards: Box<[Mutex<Shard>]>,
    /// Held around "check the epoch, then change the cache": see [`fill`](Self::fill).
    fills: Box<[SlowMutex<()>]>,
    /// Negative entries that all shards together may hold. Tenants share a budget, so it changes with their number.
    entries: Arc<AtomicUsize>,
    ttl: Duration,
    begun: Instant,
}

#[derive(Debug, Default)]
struct Shard {
    epoch: u64,
    /// Absent keys and until when, in milliseconds since the beginning. The whole keyed digest stands for a key: two keys
    /// of one digest would need 2^64 keys, and the secret to find them.
    negatives: HashMap<Digest, u64>,
    /// The entries in the order they were made, which is the order they end in.
    order: VecDeque<(Digest, u64)>,
    reads: HashMap<Digest, Read>,
    next_read: u64,
    /// Keys whose write may still happen, and until when nobody remembers them as absent.
    doubtful: HashMap<Digest, u64>,
    /// Until when no key at all is remembered as absent: there were too many doubtful ones.
    all_doubtful: u64,
}

#[derive(Debug)]
struct Read {
    number: u64,
    result: watch::Receiver<Outcome>,
}

/// The duty of reading a key for all who want it.
#[derive(Debug)]
pub(crate) struct Lead {
    digest: Digest,
    epoch: u64,
    number: u64,
    result: watch::Sender<Outcome>,
}

/// How a lookup goes on.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The source said no a short while ago.
    Absent,
    /// Somebody is reading it.
    Join(watch::Receiver<Outcome>),
    /// Nobody is.
    Lead(Lead, watch::Receiver<Outcome>),
}

impl Shards {
    pub fn new(entries: usize, ttl: Duration) -> Self {
        Self::with(SHARDS, Arc::new(AtomicUsize::new(entries)), ttl)
    }

    /// So many shards, 250 bytes each.
    pub fn with(shards: usize, entries: Arc<AtomicUsize>, ttl: Duration) -> Self {
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            fills: (0..shards).map(|_| SlowMutex::default()).collect(),
            entries,
            ttl,
            begun: Instant::now(),
        }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn at(&self, digest: Digest) -> usize {
        // Filters use the low half; any bits of a keyed hash do.
        (digest.hi >> 48) as usize % self.shards.len()
    }

    /// Negative entries a shard may hold.
    fn most(&self) -> usize {
        self.entries.load(Relaxed).div_ceil(self.shards.len())
    }

    fn shard(&self, digest: Digest) -> MutexGuard<'_, Shard> {
        // Nothing in here panics between two changes that belong together.
        self.shards[self.at(digest)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The write epoch of a key's shard.
    pub fn epoch(&self, digest: Digest) -> u64 {
        self.shard(digest).epoch
    }

    /// The write epochs of all shards.
    pub fn epochs(&self) -> Vec<u64> {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).epoch).collect()
    }

    /// Whether something was written near a key since these were the epochs.
    pub fn moved_since(&self, epochs: &[u64], digest: Digest) -> bool {
        epochs.get(self.at(digest)).is_none_or(|&before| before != self.epoch(digest))
    }

    /// Whether the source said no a short while ago.
    pub fn is_absent(&self, digest: Digest) -> bool {
        let now = self.now();
        self.shard(digest).negatives.get(&digest).is_some_and(|&until| now < until)
    }

    /// Begins a read at the source, or joins the one under way. `remembered`: whether what is remembered as absent counts.
    pub fn read(&self, digest: Digest, remembered: bool) -> Turn {
        let now = self.now();
        let mut shard = self.shard(digest);
        if remembered && shard.negatives.get(&digest).is_some_and(|&until| now < until) {
            return Turn::Absent;
        }
        if let Some(read) = shard.reads.get(&digest).filter(|read| read.is_alive()) {
            return Turn::Join(read.result.clone());
        }
        let (sender, receiver) = watch::channel(None);
        let number = shard.next_read;
        shard.next_read += 1;
        shard.reads.insert(digest, Read { number, result: receiver.clone() });
        Turn::Lead(Lead { digest, epoch: shard.epoch, number, result: sender }, receiver)
    }

    /// [`read`](Self::read) for one who must not lead: nothing if it would have to.
    pub fn join(&self, digest: Digest, remembered: bool) -> Option<Turn> {
        let now = self.now();
        let shard = self.shard(digest);
        if remembered && shard.negatives.get(&digest).is_some_and(|&until| now < until) {
            return Some(Turn::Absent);
        }
        shard.reads.get(&digest).filter(|read| read.is_alive()).map(|read| Turn::Join(read.result.clone()))
    }

    /// Ends a read: those who joined get the result, and a "no" is remembered if nobody wrote meanwhile.
    pub fn done(&self, lead: &Lead, result: Result<Option<Bytes>>) {
        let now = self.now();
        let mut shard = self.shard(lead.digest);
        if shard.reads.get(&lead.digest).is_some_and(|read| read.number == lead.number) {
            shard.reads.remove(&lead.digest);
        }
        if matches!(result, Ok(None)) && shard.epoch == lead.epoch {
            let doubtful = now < shard.all_doubtful.max(shard.doubtful.get(&lead.digest).copied().unwrap_or(0));
            let most = self.most();
            if !doubtful && most > 0 && !self.ttl.is_zero() {
                shard.remember(lead.digest, now, now + self.ttl.as_millis() as u64, most);
            }
        }
        drop(shard);
        lead.result.send_replace(Some(result));
    }

    /// A write of this key is about to reach the source, or has just come back from it.
    pub fn wrote(&self, digest: Digest) {
        let mut shard = self.shard(digest);
        shard.epoch += 1;
        shard.negatives.remove(&digest);
        // Those who joined still get its result: they began before this write ended. Nobody else joins it.
        shard.reads.remove(&digest);
    }

    /// Everything that was read so far may be of another source, or from before a write that nobody told of: it is neither
    /// remembered nor joined any more.
    pub fn forget_all(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.epoch += 1;
            shard.negatives.clear();
            shard.order.clear();
            shard.reads.clear();
        }
    }

    /// A write of this key may still happen.
    pub fn doubt(&self, digest: Digest) {
        let now = self.now();
        let until = now + DOUBT.as_millis() as u64;
        let mut shard = self.shard(digest);
        let has_room = |shard: &Shard| shard.doubtful.len() < DOUBTFUL || shard.doubtful.contains_key(&digest);
        // Who is beyond them extends the doubt of all: one look through the shard in each such time, and not with each key.
        if !has_room(&shard) && shard.all_doubtful <= now {
            shard.doubtful.retain(|_, until| now < *until);
        }
        if has_room(&shard) {
            shard.doubtful.insert(digest, until);
        } else {
            shard.all_doubtful = until;
        }
    }

    /// Changes the cache for this key alone in its shard. Who stores a row that was read checks by `epoch` first; who
    /// wrote moves the epoch first. So an old row is never stored after a new one.
    pub async fn fill(&self, digest: Digest) -> tokio::sync::MutexGuard<'_, ()> {
        self.fills[self.at(digest)].lock().await
    }

    /// Negative entries, those that ended and were not cleared away yet included.
    pub fn negatives(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).negatives.len()).sum()
    }

    /// Reads under way.
    #[cfg(test)]
    pub fn reads(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).reads.len()).sum()
    }
}

impl Read {
    /// One whose task died (a source that panicked) has nobody left who would end it: it is replaced.
    fn is_alive(&self) -> bool {
        self.result.has_changed().is_ok() || self.result.borrow().is_some()
    }
}

impl Lead {
    /// The shard's epoch from before the read.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The key's digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl Shard {
    fn remember(&mut self, digest: Digest, now: u64, until: u64, most: usize) {
        while self.negatives.len() >= most || self.order.front().is_some_and(|&(_, ends)| ends <= now) {
            let Some((oldest, ends)) = self.order.pop_front() else { break };
            // A key that was forgotten and remembered again has a younger entry further back.
            if self.negatives.get(&oldest) == Some(&ends) {
                self.negatives.remove(&oldest);
            }
        }
        // Entries that a write removed leave their place in the order: never more than twice as many places as entries.
        if self.order.len() >= 2 * most {
            let negatives = &self.negatives;
            self.order.retain(|(digest, ends)| negatives.get(digest) == Some(ends));
        }
        self.negatives.insert(digest, until);
        self.order.push_back((digest, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u64) -> Digest {
        Digest::new(number, 0)
    }

    fn lead(shards: &Shards, number: u64) -> Lead {
        match shards.read(digest(number), true) {
            Turn::Lead(lead, _) => lead,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_absent_key_is_remembered_for_its_time_and_not_longer() {
        let shards = Shards::new(1000, Duration::from_secs(60));
        shards.done(&lead(&shards, 1), Ok(None));
        tokio::time::advance(Duration::from_millis(59_999)).await;
        assert!(shards.is_absent(digest(1)) && matches!(shards.read(digest(1), true), Turn::Absent));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!shards.is_absent(digest(1)) && matches!(shards.read(digest(1), true), Turn::Lead(..)));
    }

    #[tokio::test]
    async fn nothing_read_before_or_during_a_write_is_remembered() {
        let shards = Shards::new(1000, Duration::from_secs(60));
        let before = lead(&shards, 1);
        shards.wrote(digest(1));
        shards.done(&before, Ok(None));
        assert!(!shards.is_absent(digest(1)), "read before the write");
        let during = lead(&shards, 1);
        shards.wrote(digest(1));
        shards.done(&during, Ok(None));
        assert!(!shards.is_absent(digest(1)), "read during the write");
        shards.done(&lead(&shards, 1), Ok(None));
        assert!(shards.is_absent(digest(1)), "read after it: deleted meanwhile");
        shards.wrote(digest(1));
        assert!(!shards.is_absent(digest(1)), "a write forgets it at once");
    }

    #[tokio::test]
    async fn a_lookup_after_a_write_does_not_join_a_read_from_before_it() {
        let shards = Shards::new(1000, Duration::from_secs(60));
        let old = lead(&shards, 1);
        let Turn::Join(joined) = shards.read(digest(1), true) else { panic!("one is under way") };
        shards.wrote(digest(1));
        let new = lead(&shards, 1);
        shards.done(&old, Ok(None));
        assert!(matches!(*joined.borrow(), Some(Ok(None))), "who joined before gets it");
        assert!(matches!(shards.read(digest(1), true), Turn::Join(_)), "the old one did not end the new one");
        shards.done(&new, Ok(Some(Bytes::from_static(b"row"))));
        assert_eq!(shards.reads(), 0);
    }

    #[tokio::test]
    async fn nothing_from_before_everything_was_forgotten_is_remembered_or_joined() {
        let shards = Shards::new(1000, Duration::from_secs(60));
        shards.done(&lead(&shards, 1), Ok(None));
        assert!(matches!(shards.read(digest(1), false), Turn::Lead(..)), "what is remembered does not count");
        let under_way = lead(&shards, 2);
        shards.forget_all();
        assert!(!shards.is_absent(digest(1)));
        assert!(matches!(shards.read(digest(2), true), Turn::Lead(..)), "not joined");
        shards.done(&under_way, Ok(None));
        assert!(!shards.is_absent(digest(2)), "read before");
    }

    #[tokio::test]
    async fn a_read_whose_task_died_is_not_joined() {
        let shards = Shards::new(1000, Duration::from_secs(60));
        drop(lead(&shards, 1));
        drop(lead(&shards, 1));
        assert!(matches!(shards.read(digest(2), true), Turn::Lead(..)));
    }

    #[tokio::test]
    async fn the_number_of_entries_is_bounded_whatever_is_written() {
        let shards = Shards::new(256 * 4, Duration::from_secs(60));
        // All in one shard: `hi` is 0.
        for number in 0..1000 {
            shards.done(&lead(&shards, number), Ok(None));
            if number % 2 == 0 {
                shards.wrote(digest(number));
            }
        }
        assert_eq!(shards.negatives(), 4);
        assert!(shards.is_absent(digest(999)) && !shards.is_absent(digest(900)), "the oldest go first");
        assert!(shards.shard(digest(0)).order.len() <= 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_whose_write_may_still_happen_is_not_remembered_as_absent() {
        let shards = Shards::new(1000, Duration::from_secs(60));
        shards.doubt(digest(1));
        shards.done(&lead(&shards, 1), Ok(None));
        assert!(!shards.is_absent(digest(1)));
        tokio::time::advance(DOUBT).await;
        shards.done(&lead(&shards, 1), Ok(None));
        assert!(shards.is_absent(digest(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn doubtful_keys_are_bounded_and_none_beyond_is_remembered_as_absent() {
        let shards = Shards::new(256 * 1000, Duration::from_secs(60));
        let read = |number| {
            shards.done(&lead(&shards, number), Ok(None));
            shards.is_absent(digest(number))
        };
        // All in one shard: `hi` is 0.
        for number in 0..10_000 {
            shards.doubt(digest(number));
        }
        assert_eq!(shards.shard(digest(0)).doubtful.len(), DOUBTFUL);
        assert!(!read(0) && !read(9999) && !read(20_000), "nothing of this shard");
        assert!({
            let elsewhere = Digest::new(1, 1 << 48);
            let Turn::Lead(lead, _) = shards.read(elsewhere, true) else { panic!("nobody reads it") };
            shards.done(&lead, Ok(None));
            shards.is_absent(elsewhere)
        });
        tokio::time::advance(DOUBT).await;
        assert!(read(0) && read(9999) && read(20_000));
        shards.doubt(digest(30_000));
        assert_eq!(shards.shard(digest(0)).doubtful.len(), 1, "those that ended are cleared away");
        assert!(!read(30_000) && read(30_001));
    }
}
