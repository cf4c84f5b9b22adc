//! [`Guard`]: keeps lookups of absent keys away from a source, in any program that has a lookup function and a filter.
//!
//! **When.** Most lookups are for keys that do not exist (bots, typos, attackers), each costs a query, and every writer of
//! the source is in your hands. **When not.** Others write to the source without telling you: then no filter of yours
//! covers it, and a "no" would be wrong. In a tokio service the crate `bloomgate-gate` does this and more (negative cache,
//! cache, single flight, sources, rebuilds by itself).
//!
//! ```
//! use bloomgate::guard::{Found, Guard};
//! use bloomgate::Blocked;
//! use std::collections::HashMap;
//! use std::convert::Infallible;
//!
//! // The source: here a map, elsewhere a table.
//! let mut products = HashMap::from([("sku-1", "kettle"), ("sku-2", "lamp")]);
//!
//! let filter = Blocked::builder().keys::<str>().items(1_000).rate(0.001).build_shared()?;
//! filter.insert_batch(&products.keys().collect::<Vec<_>>())?; // every key that the source has
//! let guard = Guard::new(filter)?;
//!
//! // Reading: the source is asked only if the key may be there.
//! let look = |key| guard.look(key, |key| Ok::<_, Infallible>(products.get(key).copied()));
//! assert_eq!(look("sku-1"), Ok(Found::Source("kettle")));
//! assert_eq!(look("sku-7"), Ok(Found::AbsentByFilter));
//!
//! // Writing: first the guard, then the source, then the ticket goes.
//! let writing = guard.add("sku-3")?;
//! products.insert("sku-3", "chair");
//! drop(writing);
//! assert_eq!(guard.look("sku-3", |key| Ok::<_, Infallible>(products.get(key))), Ok(Found::Source(&"chair")));
//!
//! let totals = guard.totals();
//! assert_eq!((totals.avoided, totals.found, totals.false_positives), (1, 2, 0));
//! # Ok::<(), bloomgate::Error>(())
//! ```
//!
//! # When a "no" is given
//!
//! Only in the state [`Ready`](State::Ready), which means: the filter covers every key of the source. Everything else is
//! [`Maybe`](Verdict::Maybe), and so is a key that is none of the filter's type.
//!
//! ```text
//!  loading() ──▶ Loading ──finish, swap──▶ Ready ──pause──▶ Stale ──resume──▶ Ready
//!                                new(f) ──▶ Ready ──distrust──▶ Broken ──finish, swap──▶ Ready
//! ```
//!
//! A key that was [added](Guard::add) before a lookup began is never told to be absent, whatever other threads do
//! meanwhile: adds, lookups, swaps, rebuilds.
//!
//! # A new filter
//!
//! Deleted keys keep their bits, and a filter fills up: now and then it is built again from the source. Keys that are
//! written meanwhile must be in the new one too, so the order of steps matters:
//!
//! ```
//! # use bloomgate::{Blocked, guard::Guard};
//! # let source = ["sku-1", "sku-2"];
//! # let guard = Guard::loading();
//! let next = Blocked::builder().keys::<str>().items(1_500).rate(0.001).build_shared()?;
//! let rebuild = guard.begin_rebuild(next)?; // 1. from now on, adds go to both filters
//! rebuild.wait_for_writes();                // 2. writes that began before have ended
//! for key in source {                       // 3. read all keys, as of now or later
//!     rebuild.add(key)?;
//! }
//! let version = rebuild.finish()?;          // 4. one pointer; nobody waits
//! # assert_eq!(version, 1);
//! # Ok::<(), bloomgate::Error>(())
//! ```
//!
//! A write that began before step 1 is in the old filter alone. If it reaches the source after the read of step 3, only
//! the wait of step 2 has kept it from being lost: without it the read does not see it, and neither does the new filter.
//! The wait is not left to discipline: [`add`](Guard::add) gives a ticket ([`Writing`]), and a rebuild takes no key
//! while a ticket from before it is open.
//!
//! # Deny lists
//!
//! The same two phases decide who is denied, where the source is a list of bans: the filter's "no" lets in at once, its
//! "maybe" is confirmed. Nobody is denied by the filter alone, and where the source cannot be asked the error is the
//! caller's to judge: it is neither.
//!
//! ```
//! use bloomgate::guard::{Found, Guard};
//! use bloomgate::Blocked;
//! # use std::collections::HashMap;
//! # let bans = HashMap::from([("192.0.2.7", "spam")]);
//! # let filter = Blocked::builder().keys::<str>().items(1_000).rate(0.001).build_shared()?;
//! # filter.insert_batch(&bans.keys().collect::<Vec<_>>())?;
//! # let guard = Guard::new(filter)?;
//! // `bans`: the table. Who is in it is denied, and the row says why.
//! let why_denied = |who: &str| match guard.look(who, |who| Ok::<_, std::io::Error>(bans.get(who).copied()))? {
//!     Found::AbsentByFilter | Found::NotFound => Ok(None), // let in
//!     Found::Source(why) => Ok::<_, std::io::Error>(Some(why)),
//! };
//! assert_eq!(why_denied("198.51.100.1").unwrap(), None);
//! assert_eq!(why_denied("192.0.2.7").unwrap(), Some("spam"));
//! # Ok::<(), bloomgate::Error>(())
//! ```
//!
//! # What it costs
//!
//! A "no" costs the filter's own lookup, one read of an exchangeable pointer and one counter on a line of the thread's
//! own: about 10 ns more than the bare filter (`scripts/bench guard` shows both). The two locked instructions in it also
//! keep one lookup's memory from being fetched during another's, which adds as much again to filters larger than the
//! caches. Lookups take no lock, ever.

mod counters;
mod pointer;
mod rebuild;
mod tally;
#[cfg(all(test, not(loom)))]
mod tests;
mod writes;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};

#[cfg(loom)]
use loom::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(loom))]
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::any::AnyFilter;
use crate::bits::{Owned, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::kind::Guarantee;
use crate::promise::{Insertion, full};

use counters::{Counters, Event};
use pointer::Pointer;
pub use rebuild::Rebuild;
pub use tally::Tally;
use writes::Era;
pub use writes::Writing;

/// How many versions keep a tally of their own after they were replaced; older ones are in the totals.
const KEPT: usize = 16;

/// What a guard's filter is good for at this moment. Only a ready one says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// There is no filter yet.
    Loading,
    /// The filter covers every key of the source.
    Ready,
    /// There is a filter, but writes may be missing from it.
    Stale,
    /// The filter gave a wrong "no", or might.
    Broken,
}

impl State {
    /// The name in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Stale => "stale",
            Self::Broken => "broken",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a guard says of a key.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The source certainly does not have it: do not ask.
    Absent,
    /// Ask the source, and say by [`Guard::confirm`] what came of it.
    Maybe(Token),
}

/// A lookup on its way to the source: for [`Guard::confirm`] or [`Guard::failed`], once.
#[must_use = "say what came of it by Guard::confirm or Guard::failed: the rate is measured by it"]
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    /// The version that said "maybe"; 0 if none was asked.
    version: u64,
}

impl Token {
    /// The version of the filter that said "maybe"; none if no filter was asked.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        (self.version > 0).then_some(self.version)
    }
}

/// What [`Guard::look`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<T> {
    /// The filter says that it is not there; the source was not asked.
    AbsentByFilter,
    /// The source was asked, and does not have it.
    NotFound,
    /// The source has it.
    Source(T),
}

impl<T> Found<T> {
    /// What was found, if anything.
    #[must_use]
    pub fn into_option(self) -> Option<T> {
        match self {
            Self::Source(found) => Some(found),
            Self::AbsentByFilter | Self::NotFound => None,
        }
    }
}

/// A filter under a number, and what was counted while it was asked.
#[derive(Debug)]
struct Version {
    number: u64,
    filter: AnyFilter<Shared>,
    counters: Arc<Counters>,
}

impl Version {
    fn new(number: u64, filter: AnyFilter<Shared>) -> Arc<Self> {
        Arc::new(Self { number, filter, counters: Arc::default() })
    }
}

/// A filter that is being filled.
#[derive(Debug)]
struct Next {
    version: Arc<Version>,
    /// Why it cannot become the current one: a key that was added meanwhile did not fit.
    refused: std::sync::Mutex<Option<Error>>,
}

/// Everything that writers and rebuilds need to agree on. Lookups read none of it.
#[derive(Debug)]
struct Control {
    state: State,
    current: Option<Arc<Version>>,
    next: Option<Arc<Next>>,
    /// The number of the last version.
    last: u64,
    /// How often the guard was paused or distrusted: a rebuild from before such a moment is not believed.
    doubts: u64,
    era: Arc<Era>,
    /// Eras before this one that had open writes when it began.
    earlier: Vec<Arc<Era>>,
    /// Tallies of replaced versions, oldest first.
    past: VecDeque<(u64, Arc<Counters>)>,
    /// The sum of those that are no longer kept.
    forgotten: Tally,
}

/// Keeps lookups of absent keys away from a source: see the [module](self).
#[derive(Debug)]
pub struct Guard {
    /// The version that may say no: only in the state ready.
    ready: Pointer,
    control: RwLock<Control>,
    /// Lookups that no filter was asked for.
    unasked: Counters,
}

/// A filter for a guard: one whose "no" is a proof.
fn covering(filter: impl Into<AnyFilter<Shared>>) -> Result<AnyFilter<Shared>> {
    let filter = filter.into();
    match filter.guarantee() {
        Guarantee::Superset => Ok(filter),
        other => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "a {} filter (guarantee: {other}) does not keep every key, so its \"no\" cannot stand for the source's: \
                 give a guard a blocked, classic, partitioned, scalable, cuckoo, quotient or counting filter",
                filter.kind()
            ),
        )),
    }
}

/// Inserts a key; an error means that it is not in.
fn insert<K: Key + ?Sized>(filter: &AnyFilter<Shared>, key: &K) -> Result<()> {
    let mut outcome = [Insertion::Full];
    filter.insert_each(&[filter.contract().digest(key)?], &mut outcome)?;
    if outcome[0].is_in() { Ok(()) } else { Err(full(filter.kind(), filter.capacity())) }
}

/// Making one, and looking.
impl Guard {
    /// A guard whose filter **has every key of the source**: it says no from now on. Version 1.
    ///
    /// Filters that many threads may write to (`build_shared()`), of a kind that keeps every key; a rotating one is refused.
    ///
    /// ```
    /// use bloomgate::{Rotating, guard::Guard};
    /// use std::time::Duration;
    ///
    /// let window = Rotating::builder().window(Duration::from_secs(60)).items(1_000).build_shared()?;
    /// assert!(Guard::new(window).is_err());
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    pub fn new(filter: impl Into<AnyFilter<Shared>>) -> Result<Self> {
        let guard = Self::loading();
        guard.swap(filter)?;
        Ok(guard)
    }

    /// A guard without a filter: it says "maybe" until the first [rebuild](Self::begin_rebuild) or [swap](Self::swap).
    #[must_use]
    pub fn loading() -> Self {
        Self {
            ready: Pointer::default(),
            control: RwLock::new(Control {
                state: State::Loading,
                current: None,
                next: None,
                last: 0,
                doubts: 0,
                era: Arc::default(),
                earlier: Vec::new(),
                past: VecDeque::new(),
                forgotten: Tally::default(),
            }),
            unasked: Counters::default(),
        }
    }

    /// Whether the source need be asked for a key.
    ///
    /// A key that is none of the filter's type is [`Maybe`](Verdict::Maybe), counted as [bypassed](Tally::bypassed).
    ///
    /// ```
    /// use bloomgate::{Blocked, guard::{Guard, Verdict}};
    ///
    /// let users = Blocked::builder().keys::<u64>().items(1_000).rate(0.001).build_shared()?;
    /// users.insert(&7u64)?;
    /// let guard = Guard::new(users)?;
    /// match guard.check(&7u64) {
    ///     Verdict::Absent => println!("no such user"),
    ///     Verdict::Maybe(token) => {
    ///         let found = true; // what the database says
    ///         guard.confirm(token, found);
    ///     }
    /// }
    /// # assert_eq!(guard.totals().found, 1);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    #[inline]
    pub fn check<K: Key + ?Sized>(&self, key: &K) -> Verdict {
        let asked = self.ready.read(|version| {
            let version = version?;
            let maybe = version.filter.contains(key).ok()?;
            version.counters.count(if maybe { Event::Reached } else { Event::Avoided });
            Some(if maybe { version.number } else { 0 })
        });
        match asked {
            Some(0) => Verdict::Absent,
            Some(version) => Verdict::Maybe(Token { version }),
            None => self.bypass(),
        }
    }

    #[cold]
    fn bypass(&self) -> Verdict {
        self.unasked.count(Event::Reached);
        self.unasked.count(Event::Bypassed);
        Verdict::Maybe(Token { version: 0 })
    }

    /// Says what the source answered to a lookup that was [`Maybe`](Verdict::Maybe): whether it had the key.
    ///
    /// A "no" of the source after a "maybe" of the filter is counted as a false positive. Two are so called that are not the
    /// hash's fault: a key that was deleted since the filter was built, and one whose write is still under way.
    pub fn confirm(&self, token: Token, found: bool) {
        self.counters_of(token.version, |counters| {
            if found {
                return counters.count(Event::Found);
            }
            counters.count(Event::NotFound);
            if token.version > 0 {
                counters.count(Event::FalsePositive);
            }
        });
    }

    /// Says that the source failed to answer.
    pub fn failed(&self, token: Token) {
        self.counters_of(token.version, |counters| counters.count(Event::Error));
    }

    /// Looks a key up: asks `source` only if it may be there, and counts what came of it.
    ///
    /// ```
    /// # use bloomgate::{Blocked, guard::{Found, Guard}};
    /// # let guard = Guard::new(Blocked::builder().items(1_000).build_shared()?)?;
    /// fn select(name: &str) -> std::io::Result<Option<u32>> {
    ///     unreachable!("{name} is not there, and the filter knows it")
    /// }
    /// assert_eq!(guard.look("nobody", select).unwrap(), Found::AbsentByFilter);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    #[inline]
    pub fn look<K, T, E>(
        &self,
        key: &K,
        source: impl FnOnce(&K) -> std::result::Result<Option<T>, E>,
    ) -> std::result::Result<Found<T>, E>
    where
        K: Key + ?Sized,
    {
        let token = match self.check(key) {
            Verdict::Absent => return Ok(Found::AbsentByFilter),
            Verdict::Maybe(token) => token,
        };
        match source(key) {
            Ok(row) => {
                self.confirm(token, row.is_some());
                Ok(row.map_or(Found::NotFound, Found::Source))
            }
            Err(error) => {
                self.failed(token);
                Err(error)
            }
        }
    }

    /// The counters of a version; those of lookups without a filter for 0 and for versions long gone.
    fn counters_of(&self, version: u64, work: impl Fn(&Counters)) {
        if version == 0 {
            return work(&self.unasked);
        }
        let is_current = self.ready.read(|current| match current {
            Some(current) if current.number == version => {
                work(&current.counters);
                true
            }
            _ => false,
        });
        if is_current {
            return;
        }
        let control = self.reading();
        let paused = control.current.iter().map(|current| (current.number, &current.counters));
        let past = control.past.iter().map(|(number, counters)| (*number, counters));
        match past.chain(paused).find(|(number, _)| *number == version) {
            Some((_, counters)) => work(counters),
            None => work(&self.unasked),
        }
    }
}

/// Writing.
impl Guard {
    /// Adds a key, **before** it is written to the source. Keep what you get until the source has it: see [`Writing`].
    ///
    /// An error means that the key is not in the filter (it is full and refuses, or the key is none of its type). Then do
    /// not write it either, or under [`write_unseen`](Self::write_unseen): a lookup would be told that it is absent.
    /// Filters that go on when full (the default of most kinds) or grow ([`Scalable`](crate::Scalable)) never refuse.
    ///
    /// A key may be added any number of times, except to kinds that keep copies (cuckoo, quotient, counting).
    pub fn add<K: Key + ?Sized>(&self, key: &K) -> Result<Writing> {
        self.add_each(std::iter::once(key))
    }

    /// [`add`](Self::add) for many keys that are written together. If one is refused, those before it are in the filter,
    /// which harms nobody, and none should be written.
    pub fn add_batch<K: Key>(&self, keys: &[K]) -> Result<Writing> {
        self.add_each(keys)
    }

    fn add_each<'k, K: Key + ?Sized + 'k>(&self, keys: impl IntoIterator<Item = &'k K>) -> Result<Writing> {
        // Under the lock: a rebuild begins before all of this, and gets the keys, or after it, and waits for the ticket.
        let control = self.reading();
        let writing = control.era.begin();
        for key in keys {
            if let Some(current) = &control.current {
                insert(&current.filter, key)?;
            }
            if let Some(next) = &control.next
                && let Err(error) = insert(&next.version.filter, key)
            {
                // The write goes on, the rebuild does not.
                next.refused.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
        Ok(writing)
    }

    /// Before a write of keys that cannot be [added](Self::add): [pauses](Self::pause) the guard and gives the ticket that
    /// rebuilds wait for. The next rebuild that begins has the keys from the source, and makes the guard ready again.
    pub fn write_unseen(&self) -> Writing {
        let mut control = self.writing();
        self.doubt(&mut control, State::Stale);
        control.era.begin()
    }

    /// Begins to build the next filter: from now on every added key goes to both. `next` is empty, or has keys already that
    /// do no harm; it may be of another kind, size, hash or secret.
    ///
    /// The order of steps is in the [module](self). One rebuild at a time: refused while another is under way. Whoever
    /// drops the [`Rebuild`] gives it up, and the old filter stays.
    pub fn begin_rebuild(&self, next: impl Into<AnyFilter<Shared>>) -> Result<Rebuild<'_>> {
        let filter = covering(next)?;
        let mut control = self.writing();
        if control.next.is_some() {
            return Err(under_way());
        }
        let next =
            Arc::new(Next { version: Version::new(control.last + 1, filter), refused: std::sync::Mutex::new(None) });
        control.next = Some(Arc::clone(&next));
        let ending = std::mem::take(&mut control.era);
        control.earlier.push(ending);
        control.earlier.retain(|era| era.open() > 0);
        Ok(Rebuild::new(self, next, control.earlier.clone(), control.doubts))
    }

    /// Puts another filter, **which has every key of the source**, in the place of the current one, in one step; its
    /// version. The guard is [`Ready`](State::Ready) then.
    ///
    /// For filters that are made elsewhere, of sources that nobody writes to meanwhile. Keys that were
    /// [added](Self::add) here since the filter was made are not in it: where there are such, [begin a
    /// rebuild](Self::begin_rebuild). Refused while one is under way.
    pub fn swap(&self, filter: impl Into<AnyFilter<Shared>>) -> Result<u64> {
        let filter = covering(filter)?;
        let control = self.writing();
        if control.next.is_some() {
            return Err(under_way());
        }
        let version = Version::new(control.last + 1, filter);
        Ok(self.install(control, version))
    }

    /// Makes a version the current one, ready.
    fn install(&self, mut control: RwLockWriteGuard<'_, Control>, version: Arc<Version>) -> u64 {
        let number = version.number;
        self.ready.set(Some(Arc::clone(&version)));
        let old = control.current.replace(version);
        control.last = number;
        control.state = State::Ready;
        if let Some(old) = &old {
            control.past.push_back((old.number, Arc::clone(&old.counters)));
        }
        if control.past.len() > KEPT
            && let Some((_, counters)) = control.past.pop_front()
        {
            control.forgotten += counters.tally();
        }
        drop(control);
        if let Some(old) = old {
            retire(old);
        }
        number
    }

    /// Ends the "no": the filter may lack keys from now on ([`Stale`](State::Stale)), because someone else has written, or
    /// a key could not be added. Added keys go on into the filter. A rebuild under way is not believed any more.
    pub fn pause(&self) {
        self.doubt(&mut self.writing(), State::Stale);
    }

    /// [`pause`](Self::pause) for good, after a wrong "no" ([`Broken`](State::Broken)): only another filter ends it.
    pub fn distrust(&self) {
        self.doubt(&mut self.writing(), State::Broken);
    }

    fn doubt(&self, control: &mut Control, state: State) {
        control.doubts += 1;
        if control.current.is_some() && control.state != State::Broken {
            control.state = state;
        }
        self.ready.set(None);
    }

    /// Says no again after [`pause`](Self::pause): the caller knows that the filter has every key of the source, those
    /// written meanwhile included. Refused when there is no filter or a broken one.
    pub fn resume(&self) -> Result<()> {
        let mut control = self.writing();
        let current = match (control.state, &control.current) {
            (State::Ready | State::Stale, Some(current)) => Arc::clone(current),
            (state, _) => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("a guard that is {state} cannot resume: only a stale one can; give it another filter"),
                ));
            }
        };
        control.state = State::Ready;
        self.ready.set(Some(current));
        Ok(())
    }
}

/// What it is, and what it counted.
impl Guard {
    /// What the filter is good for now.
    #[must_use]
    pub fn state(&self) -> State {
        self.reading().state
    }

    /// The number of the current filter: 1 for the first, one more with each that replaces it; 0 while there is none.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.reading().current.as_ref().map_or(0, |current| current.number)
    }

    /// Everything counted so far, all versions and the lookups without a filter together.
    #[must_use]
    pub fn totals(&self) -> Tally {
        let control = self.reading();
        let past = control.past.iter().map(|(_, counters)| counters);
        let kept = past.chain(control.current.iter().map(|current| &current.counters));
        kept.fold(self.unasked.tally() + control.forgotten, |sum, counters| sum + counters.tally())
    }

    /// What was counted while each filter was asked: versions, oldest first, the current one last. The last 16 replaced
    /// ones are kept apart.
    #[must_use]
    pub fn tallies(&self) -> Vec<(u64, Tally)> {
        let control = self.reading();
        let past = control.past.iter().map(|(number, counters)| (*number, counters));
        let current = control.current.iter().map(|current| (current.number, &current.counters));
        past.chain(current).map(|(number, counters)| (number, counters.tally())).collect()
    }

    /// The exact expected rate of the current filter with what is in it: what [`Tally::measured_rate`] should show. None
    /// while there is no filter.
    #[must_use]
    pub fn expected_rate(&self) -> Option<f64> {
        self.current().map(|current| current.filter.expected_rate())
    }

    /// A copy of the current filter, to save it. Every key added before the call is in it. None while there is no filter.
    ///
    /// A guard that starts from a saved filter is to be [paused](Self::pause) at once: keys may have been written since.
    pub fn copy(&self) -> Result<Option<AnyFilter<Owned>>> {
        self.current().map(|current| current.filter.copy()).transpose()
    }

    fn current(&self) -> Option<Arc<Version>> {
        self.reading().current.clone()
    }

    // What panics under these locks has changed nothing yet: a poisoned one is as good.
    fn reading(&self) -> RwLockReadGuard<'_, Control> {
        self.control.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> RwLockWriteGuard<'_, Control> {
        self.control.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Frees a replaced filter here and not in a lookup that still holds it: giving back a gigabyte takes milliseconds.
/// Lookups hold it for nanoseconds, so the wait is short; it is bounded all the same.
fn retire(old: Arc<Version>) {
    for _ in 0..if cfg!(loom) { 0 } else { 10_000 } {
        if Arc::strong_count(&old) == 1 {
            break;
        }
        std::thread::yield_now();
    }
}

#[cold]
fn under_way() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "a rebuild of this guard's filter is under way, and there is one at a time: finish it or drop it first",
    )
}
