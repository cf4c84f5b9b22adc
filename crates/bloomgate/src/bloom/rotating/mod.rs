//! A ring of generations over a window of time: keys come, are kept for the window, and go by themselves.
//!
//! **When.** "Seen in the last hour, day, week?": deduplicating events, rate limits, recently visited pages, one-time
//! tokens. **When not.** Keys stay ([`super::Blocked`] is 1.7 times smaller), or go one by one when told
//! ([`super::Counting`]); or the stream has no clock and may forget at random ([`super::Stable`]).
//!
//! ```text
//!  window W, 4 generations                        now
//!                                                  │
//!   [####] [####] [####] [####] [##..]             ▼       keys ──▶ only into the youngest
//!   oldest └───────── W ──────────┘ youngest               asked    all five
//! ```
//!
//! The promise: **a key is kept for at least W, and at most W (1 + 1/g)** with g generations, by the clock that is
//! given; and the whole ring keeps the rate, also at the moment when every generation is full. Memory is fixed: the
//! oldest generation is cleared and becomes the youngest.
//!
//! | generations | kept at most | bits per key of a window, 1 % | 0.1 % | 1 M keys a day at 1 % |
//! |---|---|---|---|---|
//! | 1 | 2 W | 23.3 | 35.9 | 2.9 MB |
//! | 2 | 1.5 W | 18.9 | 29.0 | 2.4 MB |
//! | **4** | 1.25 W | 17.4 | 23.5 | 2.2 MB |
//! | 7 | 1.15 W | 17.3 | 22.6 | 2.2 MB |
//! | 24 | 1.05 W | 19.5 | 23.1 | 2.4 MB |
//!
//! # Time
//!
//! The filter never looks at a clock: [`advance`](Rotating::advance) tells it the time, counted from any beginning, and
//! `insert` and `contains` happen at the time last told. A key is as old as the last `advance` before its insert, so
//! advance before inserting, or from a timer a few times per generation. The first `advance` starts the clock: until
//! then keys do not age.
//!
//! A reading that is earlier than the last is waited out: time stands still until the clock has caught up, so keys are
//! kept longer and never shorter. A reading that is later is believed. A clock that is *wrongly* set forward makes keys
//! go early, which no filter can tell from time that passed; with [`max_step`](RotatingBuilder::max_step) one reading
//! moves the ring by that much at most, and a clock set back by more does not stop it. Best is a clock that is never
//! set: [`advance_by`](Rotating::advance_by) with what an [`Instant`](std::time::Instant) says has passed.

mod builder;
mod clock;
mod salt;
mod shared;
#[cfg(test)]
mod tests;

pub use builder::{DEFAULT_GENERATIONS, RotatingBuilder};
pub use clock::{MAX_GENERATIONS, MAX_WINDOW, MIN_WINDOW, RotatingRule, RotatingState};

use std::fmt;
#[cfg(not(loom))]
use std::sync::atomic::fence;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

#[cfg(loom)]
use loom::sync::atomic::fence;

use super::Blocked;
use super::scalable::{BATCH, fill};
use crate::arch::words::{AtomicU64, Ordering};
use crate::bits::{Owned, Shared, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{KeyDigests, WordDigests, check_lengths};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::kind::{Guarantee, Kind};
use crate::math::estimate::Estimate;
use crate::math::rotating::{generation_items, generation_rate};
use crate::math::scalable::chain_rate;
use crate::promise::{Promise, WhenFull, full, kept};
use clock::{Hands, nanoseconds};
pub(crate) use salt::salted_for;
use salt::{salt, salted};

/// A Bloom filter that forgets: keys are kept for a window of time.
///
/// ```
/// use bloomgate::bloom::Rotating;
/// use std::time::Duration;
///
/// let minutes = |m: u64| Duration::from_secs(60 * m);
/// let mut seen = Rotating::builder().window(minutes(60)).items(100_000).rate(0.01).build()?;
/// seen.advance(minutes(0));
/// assert!(seen.insert("order 17")?);
/// seen.advance(minutes(60));
/// assert!(seen.contains("order 17")?);   // kept for the window, certainly
/// seen.advance(minutes(75));
/// assert!(!seen.contains("order 17")?);  // and gone a quarter of it later
/// # Ok::<(), bloomgate::Error>(())
/// ```
///
/// In [`Shared`] form many threads insert and ask while one advances: [`build_shared`](RotatingBuilder::build_shared).
pub struct Rotating<S: Store = Owned> {
    contract: Contract,
    promise: Promise,
    rule: RotatingRule,
    /// Generation `n` is at `n` modulo their number.
    ring: Box<[Blocked<S>]>,
    /// Twice the number of the youngest generation; one more while the oldest is being cleared, when it no longer
    /// counts. It only grows, so that who reads the same tick before and after knows that nothing was cleared between.
    tick: AtomicU64,
    /// Held while the ring turns.
    hands: Mutex<Hands>,
}

/// Asking, in any place.
impl<S: Store> Rotating<S> {
    /// A ring from its generations, oldest first.
    pub(crate) fn from_parts(
        contract: Contract,
        promise: Promise,
        rule: RotatingRule,
        state: RotatingState,
        mut generations: Vec<Blocked<S>>,
    ) -> Result<Self> {
        state.check(&rule)?;
        let refuse = |what: String| Err(Error::new(ErrorKind::InvalidParameter, what));
        if generations.len() != rule.ring() {
            return refuse(format!(
                "a window of {} generations has {} in its ring, not {}",
                rule.generations(),
                rule.ring(),
                generations.len()
            ));
        }
        if promise.when_full == WhenFull::Grow {
            return refuse("a rotating filter cannot grow; let it go on or refuse when full".to_string());
        }
        if generations.iter().any(|one| one.layout() != generations[0].layout() || *one.contract() != contract) {
            return refuse("the generations of a ring have one shape and one contract".to_string());
        }
        let each = generation_promise(&promise, &rule);
        // Roots of reals differ in their last digits from machine to machine.
        let follows = |one: Promise| {
            (one.capacity, one.when_full) == (each.capacity, each.when_full)
                && (one.rate - each.rate).abs() <= each.rate * 1e-6
        };
        if !generations.iter().all(|one| follows(one.promise())) {
            return refuse(format!(
                "each generation of this ring is made for {} keys at {:e}",
                each.capacity, each.rate
            ));
        }
        let ring = rule.ring() as u64;
        generations.rotate_right(((state.youngest + 1) % ring) as usize);
        let hands = Hands { elapsed_ns: state.elapsed_ns, clock_ns: state.clock_ns };
        let tick = AtomicU64::new(2 * state.youngest);
        Ok(Self { contract, promise, rule, ring: generations.into(), tick, hands: Mutex::new(hands) })
    }

    /// The generation with this number.
    #[inline(always)]
    fn generation(&self, number: u64) -> &Blocked<S> {
        &self.ring[(number % self.ring.len() as u64) as usize]
    }

    /// The numbers of the generations that count at this tick, oldest first.
    #[inline(always)]
    fn live(&self, tick: u64) -> std::ops::RangeInclusive<u64> {
        let youngest = tick >> 1;
        youngest - u64::from(self.rule.generations()) + (tick & 1)..=youngest
    }

    fn youngest(&self) -> &Blocked<S> {
        self.generation(self.tick.load(Ordering::Acquire) >> 1)
    }

    fn lock(&self) -> MutexGuard<'_, Hands> {
        // Nothing panics while the lock is held, and hands are numbers that are right at any moment.
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All generations of the ring, oldest first.
    pub(crate) fn each_generation(&self) -> impl DoubleEndedIterator<Item = &Blocked<S>> {
        let youngest = self.tick.load(Ordering::Acquire) >> 1;
        (youngest - u64::from(self.rule.generations())..=youngest).map(|number| self.generation(number))
    }

    /// The same with their numbers.
    pub(crate) fn each_numbered(&self) -> impl Iterator<Item = (&Blocked<S>, u64)> {
        let youngest = self.tick.load(Ordering::Acquire) >> 1;
        (youngest - u64::from(self.rule.generations())..=youngest).map(|number| (self.generation(number), number))
    }

    /// The same with how long ago each was begun.
    pub(crate) fn each_aged(&self) -> impl Iterator<Item = (&Blocked<S>, Option<Duration>)> {
        let (state, slice) = (self.state(), self.rule.slice_ns());
        self.each_numbered().map(move |(generation, number)| {
            let before = slice.saturating_mul(state.youngest.saturating_sub(number));
            (generation, Some(Duration::from_nanos(before.saturating_add(state.elapsed_ns))))
        })
    }

    /// Runs `work` with the state of the ring while no generation can turn: what is saved then fits together.
    pub(crate) fn while_still<T>(&self, work: impl FnOnce(RotatingState) -> T) -> T {
        let hands = self.lock();
        let youngest = self.tick.load(Ordering::Acquire) >> 1;
        work(RotatingState { youngest, elapsed_ns: hands.elapsed_ns, clock_ns: hands.clock_ns })
    }

    /// Where the ring stands: with the generations all that has to be saved.
    #[must_use]
    pub fn state(&self) -> RotatingState {
        self.while_still(|state| state)
    }

    /// How the ring turns.
    #[must_use]
    pub fn rule(&self) -> RotatingRule {
        self.rule
    }

    /// Whether a key may have been inserted within the window: false is certain, true is "maybe".
    #[doc(alias = "mightContain")]
    pub fn contains<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.contains_digest(self.contract.digest(key)?))
    }

    /// [`contains`](Self::contains) for a digest made elsewhere under the same contract.
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        loop {
            let tick = self.tick.load(Ordering::Acquire);
            #[cfg(test)]
            tests::stall();
            // The youngest first: keys that come again come soon.
            let found = |number| self.generation(number).contains_digest(salted(digest, salt(number)));
            if self.live(tick).rev().any(found) {
                return true;
            }
            // A "no" holds only if no generation was cleared meanwhile. The reads above come before this load.
            fence(Ordering::Acquire);
            if self.tick.load(Ordering::Relaxed) == tick {
                return false;
            }
        }
    }

    /// Asks for many keys at once. `answers[i]` is the answer for `keys[i]`; both must be of one length.
    pub fn contains_batch<K: Key>(&self, keys: &[K], answers: &mut [bool]) -> Result<()> {
        check_lengths(keys.len(), answers.len())?;
        let mut digests = [Digest::default(); BATCH];
        for (keys, answers) in keys.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let (digests, filled) = self.digests_of(keys, &mut digests);
            filled?;
            self.contains_digests(digests, answers)?;
        }
        Ok(())
    }

    /// [`contains_batch`](Self::contains_batch) for digests.
    pub fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        check_lengths(digests.len(), answers.len())?;
        for (digests, answers) in digests.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            loop {
                let tick = self.tick.load(Ordering::Acquire);
                answers.fill(false);
                for number in self.live(tick) {
                    self.contains_in(number, digests, answers)?;
                }
                fence(Ordering::Acquire);
                if self.tick.load(Ordering::Relaxed) == tick {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds the answers of one generation, for a batch at most.
    fn contains_in(&self, number: u64, digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        let (mut seen, mut found) = ([Digest::default(); BATCH], [false; BATCH]);
        let (seen, found) = (&mut seen[..digests.len()], &mut found[..digests.len()]);
        let salt = salt(number);
        for (seen, &digest) in seen.iter_mut().zip(digests) {
            *seen = salted(digest, salt);
        }
        self.generation(number).contains_digests(seen, found)?;
        for (answer, &found) in answers.iter_mut().zip(found.iter()) {
            *answer |= found;
        }
        Ok(())
    }

    /// Hashes up to a batch of keys; when one is refused, the digests of those before it come with the refusal.
    fn digests_of<'a, K: Key>(&self, keys: &[K], digests: &'a mut [Digest; BATCH]) -> (&'a [Digest], Result<()>) {
        match WordDigests::of(&self.contract, keys) {
            Some(words) => fill(words, digests),
            None => fill(KeyDigests { contract: &self.contract, keys }, digests),
        }
    }

    /// The kind of this filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::Rotating
    }

    /// What a "no" means: the key was not inserted within the window.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        Kind::Rotating.guarantee()
    }

    kept!(contract, promise, when_full, promised_rate, is_empty);

    /// How long a key is kept at least.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.rule.window_ns())
    }

    /// How long a key is kept at most: the window and a generation's time.
    #[must_use]
    pub fn kept_at_most(&self) -> Duration {
        Duration::from_nanos(self.rule.slice_ns()) * (self.rule.generations() + 1)
    }

    /// How many generations the window has; one more is in the ring.
    #[must_use]
    pub fn generations(&self) -> u32 {
        self.rule.generations()
    }

    /// The time last told; none before the first [`advance`](Self::advance).
    #[must_use]
    pub fn now(&self) -> Option<Duration> {
        self.state().clock_ns.map(Duration::from_nanos)
    }

    /// Keys in the ring, over all generations: one that came in three of them counts three times.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.each_generation().map(Blocked::len).sum()
    }

    /// How many keys a window was made for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.promise.capacity
    }

    /// About how many more new keys fit before the youngest generation is full. The next one has room again.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.youngest().remaining()
    }

    /// Whether the youngest generation holds what it was made for: a share of the window's keys.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.youngest().is_full()
    }

    /// The expected rate of the ring with what is in it now.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        chain_rate(self.each_generation().map(Blocked::expected_rate))
    }

    /// The rate that the bits as they are will show. Reads all bits.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        chain_rate(self.each_generation().map(Blocked::estimated_rate))
    }

    /// The bits of all generations.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.each_generation().map(Blocked::bits).sum()
    }

    /// The memory of all generations, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.each_generation().map(Blocked::size_in_bytes).sum()
    }

    /// How many bits are set. Reads all bits.
    #[must_use]
    pub fn set_bits(&self) -> u64 {
        self.each_generation().map(Blocked::set_bits).sum()
    }

    /// The share of bits that are set, over all generations. Reads all bits.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.set_bits() as f64 / self.bits() as f64
    }

    /// How many keys the bits speak of, with an interval: the sum over the generations. Reads all bits.
    #[must_use]
    pub fn approximate_count(&self) -> Estimate {
        self.each_generation().map(Blocked::approximate_count).fold(Default::default(), |sum, one| sum + one)
    }

    /// The youngest generation is full and the key is not in it: it cannot be kept for the window.
    #[cold]
    fn full(&self) -> Error {
        full(Kind::Rotating, generation_items(self.promise.capacity, self.rule.generations()))
    }
}

/// What each generation of a ring is made for. It always goes on: the ring itself refuses.
pub(crate) fn generation_promise(promise: &Promise, rule: &RotatingRule) -> Promise {
    Promise {
        capacity: generation_items(promise.capacity, rule.generations()),
        rate: generation_rate(promise.rate, rule.generations()),
        when_full: WhenFull::GoOn,
    }
}

/// Building, inserting and turning, alone.
impl Rotating<Owned> {
    /// Starts a ring: `.window(time).items(n per window).rate(p)`; `.generations(g)` is 4 if not said.
    #[must_use]
    pub fn builder() -> RotatingBuilder {
        RotatingBuilder::new()
    }

    /// Tells the time, since any beginning: generations whose last key is older than the window are cleared.
    ///
    /// An earlier time than the last is waited out; see [the module](self#time).
    pub fn advance(&mut self, now: Duration) {
        let rule = self.rule;
        let turns = self.hands_mut().read(&rule, nanoseconds(now));
        self.turn(turns);
    }

    /// Tells the time of the system's clock, which the caller has read.
    pub fn advance_to(&mut self, now: SystemTime) {
        self.advance(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    }

    /// Lets so much time pass since the last call. With readings of a clock that is never set
    /// ([`Instant`](std::time::Instant)) no jump can happen. Starts the clock at 0 if it has not been read.
    pub fn advance_by(&mut self, elapsed: Duration) {
        let now = self.now().unwrap_or_default();
        self.advance(now);
        self.advance(now.saturating_add(elapsed));
    }

    fn hands_mut(&mut self) -> &mut Hands {
        self.hands.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&mut self, turns: u64) {
        if turns == 0 {
            return;
        }
        let ring = self.ring.len() as u64;
        let youngest = (self.tick.load(Ordering::Relaxed) >> 1) + turns;
        self.tick.store(2 * youngest, Ordering::Relaxed);
        for back in 0..turns.min(ring) {
            self.ring[((youngest - back) % ring) as usize].clear();
        }
    }

    fn youngest_mut(&mut self) -> (u64, &mut Blocked<Owned>) {
        let (youngest, ring) = (self.tick.load(Ordering::Relaxed) >> 1, self.ring.len() as u64);
        (salt(youngest), &mut self.ring[(youngest % ring) as usize])
    }

    /// Inserts a key, to be kept for the window from now; true if it was certainly not in the ring, false if it may
    /// have been. A key that is there already is kept for another window.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract.digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    pub fn insert_digest(&mut self, digest: Digest) -> Result<bool> {
        let known = self.contains_digest(digest);
        Ok(self.put(digest)? && !known)
    }

    /// Puts a digest into the youngest generation; whether it was certainly not in that one.
    #[inline]
    fn put(&mut self, digest: Digest) -> Result<bool> {
        let refuses = self.promise.when_full == WhenFull::Refuse;
        let (salt, youngest) = self.youngest_mut();
        let seen = salted(digest, salt);
        if refuses && youngest.is_full() {
            return if youngest.contains_digest(seen) { Ok(false) } else { Err(self.full()) };
        }
        youngest.insert_digest(seen)
    }

    /// Inserts many keys at once; how many were certainly not in the ring.
    ///
    /// If a key is refused (wrong encoding, full), the keys before it are in and those after it are not.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<u64> {
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
    pub fn insert_digests(&mut self, digests: &[Digest]) -> Result<u64> {
        let mut fresh = 0;
        for digests in digests.chunks(BATCH) {
            let mut known = [false; BATCH];
            // Asking brings the lines of the youngest generation into the cache too.
            self.contains_digests(digests, &mut known[..digests.len()])?;
            for (&digest, known) in digests.iter().zip(known) {
                fresh += u64::from(self.put(digest)? && !known);
            }
        }
        Ok(fresh)
    }

    /// Inserts everything an iterator gives; how many were certainly not in the ring.
    pub fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        keys.into_iter().try_fold(0, |fresh, key| Ok(fresh + u64::from(self.insert(&key)?)))
    }

    /// Forgets all keys; time goes on.
    pub fn clear(&mut self) {
        self.ring.iter_mut().for_each(|generation| generation.clear());
    }

    /// The same ring for many threads at once. Moves; nothing is copied.
    pub fn into_shared(self) -> Result<Rotating<Shared>> {
        let state = self.state();
        let (contract, promise, rule) = (self.contract, self.promise, self.rule);
        let generations = oldest_first(self.ring, state.youngest).into_iter().map(Blocked::into_shared);
        Rotating::from_parts(contract, promise, rule, state, generations.collect::<Result<_>>()?)
    }
}

/// The generations of a ring, oldest first.
fn oldest_first<S: Store>(ring: Box<[Blocked<S>]>, youngest: u64) -> Vec<Blocked<S>> {
    let mut generations = Vec::from(ring);
    let oldest = (youngest + 1) % generations.len() as u64;
    generations.rotate_left(oldest as usize);
    generations
}

impl Clone for Rotating<Owned> {
    fn clone(&self) -> Self {
        let (tick, hands) = (self.tick.load(Ordering::Acquire), *self.lock());
        Self {
            contract: self.contract.clone(),
            promise: self.promise,
            rule: self.rule,
            ring: self.ring.clone(),
            tick: AtomicU64::new(tick),
            hands: Mutex::new(hands),
        }
    }
}

/// Same contract, same rule, the same generations with the same bits. The time within a generation is not compared.
impl<A: Store, B: Store> PartialEq<Rotating<B>> for Rotating<A> {
    fn eq(&self, other: &Rotating<B>) -> bool {
        self.contract == other.contract
            && self.rule == other.rule
            && self.tick.load(Ordering::Acquire) >> 1 == other.tick.load(Ordering::Acquire) >> 1
            && self.each_generation().zip(other.each_generation()).all(|(a, b)| a == b)
    }
}

impl<S: Store> fmt::Debug for Rotating<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotating")
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("rule", &self.rule)
            .field("state", &self.state())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
