//! A filter of the server: its bits, what it was made for, who may write when, and what is counted about it.

mod cost;

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};

use bloomgate::bits::{Annex, Parcel};
use bloomgate::{AnyFilter, Contract, Digest, Kind, Shared, WhenFull};
use bloomgate_command::Refusal;

use super::audit::{Audit, Counts, Tally};
use super::facts::Facts;
use super::making::Making;
use super::recipe::{Recipe, refused};
use super::retries::{Answered, Retries};
use super::small::Small;
use super::structure::is_shareable;
use super::watch::findings::Verdict;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Fault, Mutex, MutexGuard, RwLock, broken, point};

/// Whose commands made a filter, with the options that only their INFO tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// BF.RESERVE and its relatives; the expansion, 0 for a filter that does not grow.
    Bf {
        /// The factor between sub-filters.
        expansion: u32,
    },
    /// CF.RESERVE and its relatives.
    Cf {
        /// Slots of a bucket, as asked for; ours have four.
        bucket_size: u16,
        /// Moves of an insert, as asked for.
        max_iterations: u16,
        /// The factor between sub-filters, 0 for a filter that does not grow.
        expansion: u16,
    },
    /// BG.CREATE, BG.BUILD and their relatives.
    Bg,
}

/// Which commands a filter answers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// BF.*: everything that is no cuckoo filter.
    Bloom,
    /// CF.*.
    Cuckoo,
}

impl Family {
    /// The family of a kind.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Cuckoo | Kind::GrowingCuckoo | Kind::RedisCuckoo => Self::Cuckoo,
            _ => Self::Bloom,
        }
    }
}

/// The bits, as they are seen.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// A chain that has not grown yet: its bits lie in the entry. Lookups without a lock.
    Small(Small<'a>),
    /// Lookups without a lock.
    Shared(&'a AnyFilter<Shared>),
    /// Kinds without a form for many threads: stable, those of other systems, and those that are built once.
    Guarded(&'a RwLock<AnyFilter>),
    /// It exists and cannot answer: why.
    Unavailable {
        /// The reason, as an error reply.
        why: &'a str,
        /// What it lacks.
        lacks: Lacks,
        /// The image as it lies in the folder, kept for whoever repairs it.
        kind: Kind,
    },
}

/// What a filter that cannot answer lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacks {
    /// The secret that its keys are hashed under.
    Secret,
    /// Something else: bits that are damaged, or a log that does not fit them.
    Other,
}

/// What an entry is made of.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // On its way from one place to another.
pub enum Bits {
    /// A filter.
    Filter(AnyFilter),
    /// None, and why; the kind that it would be.
    Unavailable {
        /// The reason, as an error reply.
        why: String,
        /// What it lacks.
        lacks: Lacks,
        /// The kind.
        kind: Kind,
    },
}

/// The bits of a filter that is not small, or not any more.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // One per filter, in a box.
enum Whole {
    Shared(AnyFilter<Shared>),
    Guarded(RwLock<AnyFilter>),
    Unavailable { why: String, lacks: Lacks, kind: Kind },
}

impl Whole {
    /// The form in which a filter serves.
    fn of(bits: Bits) -> Result<Self, Refusal> {
        match bits {
            Bits::Filter(filter) if is_shareable(filter.kind()) => {
                filter.into_shared().map(Self::Shared).map_err(|error| refused(&error))
            }
            Bits::Filter(filter) => Ok(Self::Guarded(RwLock::new(filter))),
            Bits::Unavailable { why, lacks, kind } => Ok(Self::Unavailable { why, lacks, kind }),
        }
    }
}

/// What only the one writer of an ordered filter touches.
#[derive(Debug, Default)]
pub struct Writer {
    /// Removals that were done under a request id, with their answers.
    pub retries: Retries,
    /// Whether a changed copy is about to take the filter's place.
    frozen: bool,
}

/// Holds off the writers of a filter while a copy of it is made that is to take its place. Only those who write alone
/// (a transaction) still can: they hold everybody up, so they must not wait for a copy. Whether one did shows in
/// [`Entry::touched`].
#[derive(Debug)]
pub struct Frozen<'a>(&'a Entry);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.write().frozen = false;
    }
}

/// Something may be in a filter whose record is not in the log yet.
#[derive(Debug)]
pub struct Unrecorded<'a>(&'a Entry);

impl Drop for Unrecorded<'_> {
    fn drop(&mut self) {
        // After [`Entry::touch`]: who sees this sees the sequence.
        self.0.rare().unrecorded.store(false, Ordering::Release);
    }
}

/// A filter with a name: held by whoever uses it, and gone with the last of them.
///
/// There may be millions, so what every filter needs is 64 bytes, in one piece of memory with the name and, of a small
/// filter, the bits. What few need (a shadow, a writer's lock, a second stage) is made when it is needed.
///
/// ```text
///  [ count of holders │ Head │ words of a small filter │ name ]
///                        └──▶ Rare: the filter that is not small, locks, counters
/// ```
#[derive(Debug, Clone)]
pub struct Entry(Parcel<Head>);

/// What every filter has.
#[derive(Debug)]
pub struct Head {
    /// Its number in the log: never given twice.
    pub id: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it goes, in milliseconds since 1970; 0 for never.
    expires_ms: AtomicU64,
    /// The sequence of its last change in the log.
    touched: AtomicU64,
    /// What is counted about it, until that is much.
    tally: Tally,
    /// Keys that were new, while it is small.
    len: AtomicU32,
    /// The number of its namespace; 0 for none.
    space: AtomicU16,
    /// How it was made, and what it has in common with others.
    pub making: Arc<Making>,
    rare: Annex<Rare>,
}

/// What few filters have.
#[derive(Debug, Default)]
struct Rare {
    /// The bits, if they are not in the entry itself.
    whole: OnceLock<Whole>,
    /// Whether it has another name than the one it was made with.
    is_renamed: AtomicBool,
    name: RwLock<Box<[u8]>>,
    /// Bytes charged to the budget for its bits; beside them it is charged [`Entry::overhead`].
    charged: AtomicU64,
    /// Held over growth, so that the budget is charged once for a stage.
    growth: Mutex<()>,
    /// Pieces that are being added without that lock, because the end of the stage was far when they were begun.
    afar: AtomicUsize,
    /// How many stages it had when the next was last planned ahead; 0 for never.
    planned: AtomicUsize,
    /// How many stages it had when that was done, or given up.
    prepared: AtomicUsize,
    /// Keys removed since it was made: CF.INFO tells them.
    deleted: AtomicU64,
    /// What is counted about it.
    audit: Audit,
    /// When its window was told the time last in this run of the server, in nanoseconds since 1970; 0 for never.
    told_ns: AtomicU64,
    /// Whether what is added goes to a shadow too: looked at by every add, so it is no lock.
    shadowed: AtomicBool,
    /// The filter that takes its place when its secret has changed ([`super::shadows`]).
    shadow: RwLock<Option<Entry>>,
    writer: Mutex<Writer>,
    /// Whether its one writer has changed it and not yet said so to the log.
    unrecorded: AtomicBool,
    /// Whether clients have reported items of it as absent ([`super::watch::feedback`]).
    feedback: AtomicBool,
    /// What was last found about it, if that is not good ([`super::watch::findings`]).
    verdict: AtomicU8,
    /// What the answers take that are kept for those who ask again.
    answers: AtomicU64,
}

impl Deref for Entry {
    type Target = Head;
    #[inline(always)]
    fn deref(&self) -> &Head {
        &self.0
    }
}

/// See [`Entry::keep_afar`].
pub(super) struct Afar<'e>(&'e AtomicUsize);

impl Drop for Afar<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Entry {
    /// A filter of this name.
    pub fn new(id: u64, name: &[u8], making: Arc<Making>, created_ms: u64, bits: Bits) -> Result<Self, Refusal> {
        if let (Some(sprout), Bits::Filter(AnyFilter::Scalable(chain))) = (&making.sprout, &bits)
            && let Some(words) = sprout.words_of(chain)
        {
            let count = u32::try_from(chain.len()).unwrap_or(u32::MAX);
            return Self::of_words(id, name, making.clone(), created_ms, count, words);
        }
        let whole = Whole::of(bits)?;
        let entry = Self::with_words(id, name, making, created_ms, 0)?;
        let _ = entry.rare().whole.set(whole);
        entry.settle_charge();
        Ok(entry)
    }

    /// An empty small filter of this name, by a making that has a [`Sprout`](bloomgate::bloom::Sprout).
    pub fn sprout(id: u64, name: &[u8], making: Arc<Making>, created_ms: u64) -> Result<Self, Refusal> {
        let words = making.sprout.as_ref().map_or(0, |sprout| sprout.words());
        Self::with_words(id, name, making, created_ms, words)
    }

    /// A small filter with this count and these words, by such a making.
    pub fn of_words(
        id: u64,
        name: &[u8],
        making: Arc<Making>,
        created_ms: u64,
        count: u32,
        words: impl Iterator<Item = u64>,
    ) -> Result<Self, Refusal> {
        let entry = Self::sprout(id, name, making, created_ms)?;
        entry.0.words().iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        entry.len.store(count, Ordering::Relaxed);
        Ok(entry)
    }

    fn with_words(id: u64, name: &[u8], making: Arc<Making>, created_ms: u64, words: usize) -> Result<Self, Refusal> {
        let head = Head {
            id,
            created_ms,
            expires_ms: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            tally: Tally::default(),
            len: AtomicU32::new(0),
            space: AtomicU16::new(0),
            making,
            rare: Annex::new(),
        };
        Parcel::new(head, words, name).map(Self).map_err(|error| refused(&error))
    }

    /// What is said to whoever asks one that cannot answer, under the name that it has now.
    #[cold]
    #[must_use]
    pub fn no_answer(&self, why: &str) -> Refusal {
        Refusal::err(format_args!("filter '{}' is unavailable: {why}", self.name().escape_ascii()))
    }

    /// The same filter, which cannot answer any more, and why.
    pub fn made_unavailable(&self, why: String) -> Result<Self, Refusal> {
        let bits = Bits::Unavailable { why, lacks: Lacks::Other, kind: self.kind() };
        let making = Making { recipe: self.recipe().clone(), maker: self.maker(), sprout: None };
        let entry = Self::new(self.id, &self.name(), Arc::new(making), self.created_ms, bits)?;
        entry.expire_at(self.expires_ms());
        entry.touch(self.touched());
        entry.set_deleted(self.deleted());
        entry.keep_answers(self.retries());
        Ok(entry)
    }

    /// Whether it can answer.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.lacks().is_none()
    }

    /// What it lacks to answer; nothing if it can.
    #[must_use]
    pub fn lacks(&self) -> Option<Lacks> {
        match self.body() {
            Body::Unavailable { lacks, .. } => Some(lacks),
            _ => None,
        }
    }

    fn rare(&self) -> &Rare {
        self.rare.get_or_add(Rare::default)
    }

    fn whole(&self) -> Option<&Whole> {
        self.rare.get().and_then(|rare| rare.whole.get())
    }

    /// The bits.
    #[must_use]
    #[inline]
    pub fn body(&self) -> Body<'_> {
        match (self.whole(), &self.making.sprout) {
            (Some(Whole::Shared(filter)), _) => Body::Shared(filter),
            (Some(Whole::Guarded(filter)), _) => Body::Guarded(filter),
            (Some(Whole::Unavailable { why, lacks, kind }), _) => Body::Unavailable { why, lacks: *lacks, kind: *kind },
            (None, Some(sprout)) => Body::Small(Small { sprout, words: self.0.words(), len: &self.len }),
            // Nothing is made so.
            (None, None) => {
                let why = "the filter has no bits";
                Body::Unavailable { why, lacks: Lacks::Other, kind: self.recipe().kind }
            }
        }
    }

    /// A small filter is one of its own from now on: this copy of it. Its one grower says so, who holds off all adders.
    pub(crate) fn grow_up(&self, filter: AnyFilter<Shared>) {
        // First: who finds the chain charges its next stage on top of what it is charged for.
        self.set_charged(filter.size_in_bytes());
        let _ = self.rare().whole.set(Whole::Shared(filter));
    }

    /// Whether two are one.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.is(&other.0)
    }

    /// How many hold it.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.0.holders()
    }

    /// How it was made.
    #[must_use]
    #[inline]
    pub fn recipe(&self) -> &Recipe {
        &self.making.recipe
    }

    /// Whose commands made it.
    #[must_use]
    #[inline]
    pub fn maker(&self) -> Maker {
        self.making.maker
    }

    /// The number of its namespace; 0 for none.
    #[must_use]
    #[inline]
    pub fn space(&self) -> u16 {
        self.space.load(Ordering::Relaxed)
    }

    /// It belongs to this namespace from now on; with nobody writing.
    pub(super) fn set_space(&self, space: u16) {
        self.space.store(space, Ordering::Relaxed);
    }

    /// Held over the growth of a filter that is not small, so that the budget is charged once for a stage.
    #[must_use]
    pub fn growth(&self) -> &Mutex<()> {
        &self.rare().growth
    }

    /// Held while a piece is added without the lock over growth.
    pub(super) fn keep_afar(&self) -> Afar<'_> {
        let count = &self.rare().afar;
        count.fetch_add(1, Ordering::SeqCst);
        Afar(count)
    }

    /// Waits until no piece is being added without the lock over growth: whoever holds that may count on what remains then.
    pub(super) fn await_afar(&self) {
        while self.rare().afar.load(Ordering::SeqCst) > 0 {
            crate::sync::give_way();
        }
    }

    /// How many stages it had when the next was last planned ahead, and when that was done or given up.
    pub(super) fn plans(&self) -> (&AtomicUsize, &AtomicUsize) {
        let rare = self.rare();
        (&rare.planned, &rare.prepared)
    }

    /// Keys removed since it was made: CF.INFO tells them.
    #[must_use]
    pub fn deleted(&self) -> u64 {
        self.rare.get().map_or(0, |rare| rare.deleted.load(Ordering::Relaxed))
    }

    /// So many keys were removed since it was made.
    pub fn set_deleted(&self, count: u64) {
        if count != self.deleted() {
            self.rare().deleted.store(count, Ordering::Relaxed);
        }
    }

    /// So many more keys were removed.
    pub fn add_deleted(&self, count: u64) {
        self.rare().deleted.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts what a command did.
    #[inline]
    pub fn count(&self, counts: Counts) {
        match self.rare.get() {
            Some(rare) => rare.audit.add(counts),
            None => {
                if let Some(many) = self.tally.add(counts) {
                    self.rare().audit.add(many);
                }
            }
        }
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        match self.rare.get() {
            Some(rare) => {
                rare.audit.add(self.tally.take());
                rare.audit.counts()
            }
            None => self.tally.counts(),
        }
    }

    /// Counts from zero again.
    pub fn reset_counts(&self) {
        self.tally.take();
        if let Some(rare) = self.rare.get() {
            rare.audit.reset();
        }
    }

    /// When its window was told the time last in this run of the server, in nanoseconds since 1970; 0 for never.
    pub(super) fn told_ns(&self) -> &AtomicU64 {
        &self.rare().told_ns
    }

    fn is_renamed(&self) -> bool {
        self.rare.get().is_some_and(|rare| rare.is_renamed.load(Ordering::Acquire))
    }

    /// Its name now.
    #[must_use]
    pub fn name(&self) -> Cow<'_, [u8]> {
        match self.rare.get().filter(|_| self.is_renamed()) {
            Some(rare) => Cow::Owned(rare.name.read().unwrap_or_else(PoisonError::into_inner).to_vec()),
            None => Cow::Borrowed(self.0.bytes()),
        }
    }

    /// Whether this is its name now.
    #[must_use]
    #[inline]
    pub fn is_named(&self, name: &[u8]) -> bool {
        match self.rare.get().filter(|_| self.is_renamed()) {
            Some(rare) => **rare.name.read().unwrap_or_else(PoisonError::into_inner) == *name,
            None => self.0.bytes() == name,
        }
    }

    /// Gives it another name; the keyspace does this, with nobody writing.
    pub(crate) fn rename(&self, name: &[u8]) {
        let rare = self.rare();
        *rare.name.write().unwrap_or_else(PoisonError::into_inner) = name.into();
        rare.is_renamed.store(true, Ordering::Release);
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.body() {
            Body::Small(small) => small.kind(),
            Body::Shared(filter) => filter.kind(),
            Body::Guarded(filter) => filter.read().unwrap_or_else(PoisonError::into_inner).kind(),
            Body::Unavailable { kind, .. } => kind,
        }
    }

    /// Which commands it answers to.
    #[must_use]
    pub fn family(&self) -> Family {
        match self.maker() {
            Maker::Bf { .. } => Family::Bloom,
            Maker::Cf { .. } => Family::Cuckoo,
            Maker::Bg => Family::of(self.kind()),
        }
    }

    /// What TYPE says: RedisBloom's words for what its commands made.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self.family() {
            Family::Bloom => "MBbloom--",
            Family::Cuckoo => "MBbloomCF",
        }
    }

    /// Whether one thread writes at a time: bits that are only ever set need no order.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        !matches!(
            self.body(),
            Body::Small(_)
                | Body::Shared(
                    AnyFilter::Blocked(_) | AnyFilter::Classic(_) | AnyFilter::Partitioned(_) | AnyFilter::Scalable(_)
                )
        )
    }

    /// How its keys become digests.
    #[must_use]
    pub fn contract(&self) -> Option<Contract> {
        self.with_contract(Contract::clone)
    }

    /// Calls with how its keys become digests.
    pub fn with_contract<T>(&self, ask: impl FnOnce(&Contract) -> T) -> Option<T> {
        match self.body() {
            Body::Small(small) => Some(ask(small.sprout.contract())),
            Body::Shared(filter) => Some(ask(filter.contract())),
            Body::Guarded(filter) => Some(ask(filter.read().unwrap_or_else(PoisonError::into_inner).contract())),
            Body::Unavailable { .. } => None,
        }
    }

    /// Calls with the filter, whichever form it has.
    pub fn with<T>(&self, ask: impl FnOnce(&dyn Facts) -> T) -> Option<T> {
        point();
        match self.body() {
            Body::Small(small) => Some(ask(&small)),
            Body::Shared(filter) => Some(ask(filter)),
            Body::Guarded(filter) => Some(ask(&*filter.read().unwrap_or_else(PoisonError::into_inner))),
            Body::Unavailable { .. } => None,
        }
    }

    /// What it does when it is full; nothing of one that cannot answer.
    #[must_use]
    pub fn when_full(&self) -> Option<WhenFull> {
        match self.body() {
            Body::Small(small) => Some(small.sprout.when_full()),
            Body::Shared(filter) => Some(filter.when_full()),
            Body::Guarded(filter) => Some(filter.read().unwrap_or_else(PoisonError::into_inner).when_full()),
            Body::Unavailable { .. } => None,
        }
    }

    /// When it goes; 0 for never.
    #[must_use]
    #[inline]
    pub fn expires_ms(&self) -> u64 {
        self.expires_ms.load(Ordering::Relaxed)
    }

    /// Whether its time is over.
    #[must_use]
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        let expires = self.expires_ms();
        expires != 0 && expires <= now_ms
    }

    /// Sets when it goes; 0 for never.
    pub fn expire_at(&self, ms: u64) {
        self.expires_ms.store(ms, Ordering::Relaxed);
    }

    /// The sequence of its last change.
    #[must_use]
    #[inline]
    pub fn touched(&self) -> u64 {
        self.touched.load(Ordering::Acquire)
    }

    /// Something of it changed at this sequence.
    #[inline]
    pub fn touch(&self, sequence: u64) {
        self.touched.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Its shadow, if it has one.
    #[must_use]
    #[inline]
    pub fn shadow(&self) -> Option<Entry> {
        let rare = self.rare.get().filter(|rare| rare.shadowed.load(Ordering::Acquire))?;
        rare.shadow.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it a shadow, or takes it away. With nobody writing.
    pub(super) fn set_shadow(&self, shadow: Option<Entry>) {
        let rare = self.rare();
        let mut held = rare.shadow.write().unwrap_or_else(PoisonError::into_inner);
        rare.shadowed.store(shadow.is_some(), Ordering::Release);
        *held = shadow;
    }

    /// Whether clients have reported items of it as absent.
    #[must_use]
    #[inline]
    pub fn has_feedback(&self) -> bool {
        self.rare.get().is_some_and(|rare| rare.feedback.load(Ordering::Acquire))
    }

    /// From now on clients have, or have not. With nobody writing.
    pub(super) fn set_feedback(&self, has: bool) {
        if has || self.has_feedback() {
            self.rare().feedback.store(has, Ordering::Release);
        }
    }

    /// Whether its bits take a digest for present. Counts nothing.
    #[must_use]
    pub fn contains(&self, digest: Digest) -> bool {
        point();
        match self.body() {
            Body::Small(small) => {
                let mut answer = [true];
                // What cannot answer says "maybe".
                small.contains_digests(&[digest], &mut answer).is_err() || answer[0]
            }
            Body::Shared(filter) => filter.contains_digest(digest),
            Body::Guarded(filter) => filter.read().unwrap_or_else(PoisonError::into_inner).contains_digest(digest),
            Body::Unavailable { .. } => true,
        }
    }

    /// The one writer of an ordered filter says that it sets bits whose record comes later.
    pub(super) fn before_its_record(&self, _held: &Writer) -> Unrecorded<'_> {
        self.rare().unrecorded.store(true, Ordering::Relaxed);
        // Who sees the bits sees that their record is missing, or that it is there.
        fence(Ordering::Release);
        Unrecorded(self)
    }

    /// Whether what was just found in it may not be in the log yet. To be asked before [`touched`](Self::touched).
    #[must_use]
    #[inline]
    pub fn is_ahead_of_the_log(&self) -> bool {
        self.rare.get().is_some_and(|rare| rare.unrecorded.load(Ordering::Acquire)) && !broken(Fault::Unannounced)
    }

    /// The one writer of an ordered filter, if nobody else is it now.
    pub fn try_write(&self) -> Option<MutexGuard<'_, Writer>> {
        let writer = match self.rare().writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        (!writer.frozen).then_some(writer)
    }

    /// Holds off writers after those before; nothing if somebody else does already.
    pub fn freeze(&self) -> Option<Frozen<'_>> {
        let mut writer = self.write();
        (!std::mem::replace(&mut writer.frozen, true)).then(|| Frozen(self))
    }

    /// The filter as it is now, for one owner. Of the kinds that only set bits, keys that are added meanwhile may be in
    /// it or not; the others must not be written to meanwhile.
    pub fn copy(&self) -> Result<AnyFilter, Refusal> {
        match self.body() {
            Body::Small(small) => small.copy().map_err(|error| refused(&error)),
            Body::Shared(filter) => filter.copy().map_err(|error| refused(&error)),
            Body::Guarded(filter) => Ok(filter.read().unwrap_or_else(PoisonError::into_inner).clone()),
            Body::Unavailable { why, .. } => Err(self.no_answer(why)),
        }
    }

    /// The one writer of an ordered filter, after those before.
    pub fn write(&self) -> MutexGuard<'_, Writer> {
        self.rare().writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, of a filter that may have one: a small filter that nobody froze or removed from has none to wait for.
    pub fn write_if_any(&self) -> Option<MutexGuard<'_, Writer>> {
        self.rare.get().map(|rare| rare.writer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, if nobody else is it now.
    pub fn try_write_if_any(&self) -> Option<Option<MutexGuard<'_, Writer>>> {
        match self.rare.get().map(|rare| rare.writer.try_lock()) {
            Some(Err(TryLockError::WouldBlock)) => None,
            Some(Err(TryLockError::Poisoned(poisoned))) => Some(Some(poisoned.into_inner())),
            Some(Ok(writer)) => Some(Some(writer)),
            None => Some(None),
        }
    }

    /// Keeps the answer to a removal with a request id.
    pub fn keep_answer(&self, writer: &mut Writer, request: &[u8], answered: &Answered) {
        writer.retries.keep(request, answered);
        self.rare().answers.store(writer.retries.bytes(), Ordering::Relaxed);
    }

    /// It has these answers.
    pub fn keep_answers(&self, retries: Retries) {
        if retries.is_empty() && self.rare.get().is_none() {
            return;
        }
        let mut writer = self.write();
        self.rare().answers.store(retries.bytes(), Ordering::Relaxed);
        writer.retries = retries;
    }

    /// The verdict on it is this one now; which one it was.
    pub(super) fn set_verdict(&self, now: Verdict) -> Verdict {
        let before = match self.rare.get() {
            // Few are bad: nothing is made for those that are good.
            None if now == Verdict::Ok => 0,
            _ => self.rare().verdict.swap(now as u8, Ordering::Relaxed),
        };
        [Verdict::Ok, Verdict::Suspicious, Verdict::Poisoned][usize::from(before).min(2)]
    }

    /// Removals that were done under a request id, with their answers.
    #[must_use]
    pub fn retries(&self) -> Retries {
        self.write_if_any().map(|writer| writer.retries.clone()).unwrap_or_default()
    }
}
