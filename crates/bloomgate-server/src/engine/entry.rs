//! A filter of the server: its bits, what it was made for, who may write when, and what is counted about it.

use std::sync::atomic::AtomicU64 as Counter;
use std::sync::{Arc, PoisonError, TryLockError};

use bloomgate::{AnyFilter, Contract, Digest, Kind, Shared};
use bloomgate_command::Refusal;

use super::recipe::{Recipe, refused};
use super::retries::Retries;
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

/// The bits.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // One per filter, behind an Arc.
pub enum Body {
    /// Lookups without a lock.
    Shared(AnyFilter<Shared>),
    /// Kinds without a form for many threads: stable, those of other systems, and those that are built once.
    Guarded(RwLock<AnyFilter>),
    /// It exists and cannot answer: why.
    Unavailable {
        /// The reason, as an error reply.
        why: String,
        /// The image as it lies in the folder, kept for whoever repairs it.
        kind: Kind,
    },
}

/// What is counted about a filter since the server started or since BG.AUDIT RESET.
#[derive(Debug, Default)]
pub struct Audit {
    /// Keys asked for.
    pub lookups: Counter,
    /// Answers of "maybe".
    pub positives: Counter,
    /// Keys that were to be added.
    pub adds: Counter,
    /// Of these, certainly new ones.
    pub fresh: Counter,
    /// Keys removed.
    pub removed: Counter,
    /// Keys refused because it was full.
    pub refused: Counter,
}

impl Audit {
    /// The counters with their names, in the order they are told.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, u64); 6] {
        let read = |counter: &Counter| counter.load(Ordering::Relaxed);
        [
            ("lookups", read(&self.lookups)),
            ("positives", read(&self.positives)),
            ("adds", read(&self.adds)),
            ("new", read(&self.fresh)),
            ("removed", read(&self.removed)),
            ("refused", read(&self.refused)),
        ]
    }

    fn all(&self) -> [&Counter; 6] {
        [&self.lookups, &self.positives, &self.adds, &self.fresh, &self.removed, &self.refused]
    }

    /// All counters back to zero.
    pub fn reset(&self) {
        self.all().iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    /// Goes on from what was counted about the filter in whose place this one comes.
    pub fn go_on_from(&self, before: &Audit) {
        for (counter, before) in self.all().iter().zip(before.all()) {
            counter.fetch_add(before.load(Ordering::Relaxed), Ordering::Relaxed);
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
        self.0.unrecorded.store(false, Ordering::Release);
    }
}

/// A filter with a name.
#[derive(Debug)]
pub struct Entry {
    /// Its number in the log: never given twice.
    pub id: u64,
    name: RwLock<Arc<[u8]>>,
    /// How it was made.
    pub recipe: Recipe,
    /// Whose commands made it.
    pub maker: Maker,
    /// When, in milliseconds since 1970.
    pub created_ms: u64,
    /// The bits.
    pub body: Body,
    /// When it goes, in milliseconds since 1970; 0 for never.
    expires_ms: AtomicU64,
    /// The sequence of its last change in the log.
    touched: AtomicU64,
    /// Bytes charged to the budget for its bits; beside them it is charged [`Entry::overhead`].
    pub charged: AtomicU64,
    /// Held over growth, so that the budget is charged once for a stage.
    pub growth: Mutex<()>,
    /// How many stages it had when the next was last planned ahead; 0 for never.
    pub planned: AtomicUsize,
    /// How many stages it had when that was done, or given up.
    pub prepared: AtomicUsize,
    /// Keys removed since it was made: CF.INFO tells them.
    pub deleted: AtomicU64,
    /// What is counted about it.
    pub audit: Audit,
    /// When its window was told the time last in this run of the server, in nanoseconds since 1970; 0 for never.
    pub(super) told_ns: AtomicU64,
    /// Whether what is added goes to a shadow too: looked at by every add, so it is no lock.
    shadowed: AtomicBool,
    /// The filter that takes its place when its secret has changed ([`super::shadows`]).
    shadow: RwLock<Option<Arc<Entry>>>,
    writer: Mutex<Writer>,
    /// Whether its one writer has changed it and not yet said so to the log.
    unrecorded: AtomicBool,
    /// Whether clients have reported items of it as absent ([`super::watch::feedback`]).
    feedback: AtomicBool,
}

impl Entry {
    /// A filter of this name.
    #[must_use]
    pub fn new(id: u64, name: &[u8], recipe: Recipe, maker: Maker, created_ms: u64, body: Body) -> Self {
        Self {
            id,
            name: RwLock::new(name.into()),
            recipe,
            maker,
            created_ms,
            body,
            expires_ms: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            growth: Mutex::new(()),
            planned: AtomicUsize::new(0),
            prepared: AtomicUsize::new(0),
            deleted: AtomicU64::new(0),
            audit: Audit::default(),
            told_ns: AtomicU64::new(0),
            shadowed: AtomicBool::new(false),
            shadow: RwLock::new(None),
            writer: Mutex::new(Writer::default()),
            unrecorded: AtomicBool::new(false),
            feedback: AtomicBool::new(false),
        }
    }

    /// Memory that a filter of this name takes beside its bits: what is here, and its places under its name and its id.
    #[must_use]
    pub fn overhead(name: &[u8]) -> u64 {
        // The two places take about 100 bytes, their share of empty ones included.
        size_of::<Self>() as u64 + 128 + 2 * name.len() as u64
    }

    /// Memory that it takes: what the budget is charged for it.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.with(|filter| filter.size_in_bytes()).unwrap_or(0) + Self::overhead(&self.name())
    }

    /// Its name now.
    #[must_use]
    pub fn name(&self) -> Arc<[u8]> {
        self.name.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it another name; the keyspace does this, with nobody writing.
    pub(crate) fn rename(&self, name: &[u8]) {
        *self.name.write().unwrap_or_else(PoisonError::into_inner) = name.into();
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match &self.body {
            Body::Shared(filter) => filter.kind(),
            Body::Guarded(filter) => filter.read().unwrap_or_else(PoisonError::into_inner).kind(),
            Body::Unavailable { kind, .. } => *kind,
        }
    }

    /// Which commands it answers to.
    #[must_use]
    pub fn family(&self) -> Family {
        match self.maker {
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
            &self.body,
            Body::Shared(
                AnyFilter::Blocked(_) | AnyFilter::Classic(_) | AnyFilter::Partitioned(_) | AnyFilter::Scalable(_)
            )
        )
    }

    /// How its keys become digests.
    #[must_use]
    pub fn contract(&self) -> Option<Contract> {
        match &self.body {
            Body::Shared(filter) => Some(filter.contract().clone()),
            Body::Guarded(filter) => Some(filter.read().unwrap_or_else(PoisonError::into_inner).contract().clone()),
            Body::Unavailable { .. } => None,
        }
    }

    /// Calls with the filter, whichever form it has.
    pub fn with<T>(&self, ask: impl FnOnce(&dyn Facts) -> T) -> Option<T> {
        point();
        match &self.body {
            Body::Shared(filter) => Some(ask(filter)),
            Body::Guarded(filter) => Some(ask(&*filter.read().unwrap_or_else(PoisonError::into_inner))),
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
    pub fn shadow(&self) -> Option<Arc<Entry>> {
        if !self.shadowed.load(Ordering::Acquire) {
            return None;
        }
        self.shadow.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it a shadow, or takes it away. With nobody writing.
    pub(super) fn set_shadow(&self, shadow: Option<Arc<Entry>>) {
        let mut held = self.shadow.write().unwrap_or_else(PoisonError::into_inner);
        self.shadowed.store(shadow.is_some(), Ordering::Release);
        *held = shadow;
    }

    /// Whether clients have reported items of it as absent.
    #[must_use]
    #[inline]
    pub fn has_feedback(&self) -> bool {
        self.feedback.load(Ordering::Acquire)
    }

    /// From now on clients have, or have not. With nobody writing.
    pub(super) fn set_feedback(&self, has: bool) {
        self.feedback.store(has, Ordering::Release);
    }

    /// Whether its bits take a digest for present. Counts nothing.
    #[must_use]
    pub fn contains(&self, digest: Digest) -> bool {
        point();
        match &self.body {
            Body::Shared(filter) => filter.contains_digest(digest),
            Body::Guarded(filter) => filter.read().unwrap_or_else(PoisonError::into_inner).contains_digest(digest),
            Body::Unavailable { .. } => true,
        }
    }

    /// The one writer of an ordered filter says that it sets bits whose record comes later.
    pub(super) fn before_its_record(&self, _held: &Writer) -> Unrecorded<'_> {
        self.unrecorded.store(true, Ordering::Relaxed);
        // Who sees the bits sees that their record is missing, or that it is there.
        fence(Ordering::Release);
        Unrecorded(self)
    }

    /// Whether what was just found in it may not be in the log yet. To be asked before [`touched`](Self::touched).
    #[must_use]
    #[inline]
    pub fn is_ahead_of_the_log(&self) -> bool {
        self.unrecorded.load(Ordering::Acquire) && !broken(Fault::Unannounced)
    }

    /// The one writer of an ordered filter, if nobody else is it now.
    pub fn try_write(&self) -> Option<MutexGuard<'_, Writer>> {
        let writer = match self.writer.try_lock() {
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
        match &self.body {
            Body::Shared(filter) => filter.copy().map_err(|error| refused(&error)),
            Body::Guarded(filter) => Ok(filter.read().unwrap_or_else(PoisonError::into_inner).clone()),
            Body::Unavailable { why, .. } => Err(Refusal::new(why.clone())),
        }
    }

    /// The one writer of an ordered filter, after those before.
    pub fn write(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every filter can tell about itself, whatever holds its words.
pub trait Facts {
    /// The kind.
    fn kind(&self) -> Kind;
    /// Keys that were new.
    fn len(&self) -> u64;
    /// Whether no key is in.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Keys that keep the rate.
    fn capacity(&self) -> u64;
    /// Memory of the bits.
    fn size_in_bytes(&self) -> u64;
    /// Stages of a chain; 1 otherwise.
    fn stages(&self) -> usize;
    /// The rate asked for.
    fn promised_rate(&self) -> f64;
    /// The rate that the keys in it make.
    fn expected_rate(&self) -> f64;
    /// The rate that the bits make.
    fn estimated_rate(&self) -> Option<f64>;
    /// Share of bits or slots in use.
    fn fill_ratio(&self) -> f64;
    /// Keys, estimated from the bits: low, middle, high.
    fn approximate_count(&self) -> (u64, u64, u64);
    /// What its "no" means.
    fn guarantee(&self) -> bloomgate::Guarantee;
    /// The contract in words, without its secret.
    fn contract_text(&self) -> String;
    /// Copies of a key.
    fn count_of(&self, digest: Digest) -> Option<u64>;
    /// The most copies of a key that can be removed again one by one, for kinds that give copies slots.
    fn max_copies(&self) -> Option<u64>;
}

impl<S: bloomgate::bits::Store> Facts for AnyFilter<S> {
    fn kind(&self) -> Kind {
        self.kind()
    }
    fn len(&self) -> u64 {
        self.len()
    }
    fn capacity(&self) -> u64 {
        self.capacity()
    }
    fn size_in_bytes(&self) -> u64 {
        self.size_in_bytes()
    }
    fn stages(&self) -> usize {
        match self {
            AnyFilter::Scalable(chain) => chain.stages(),
            AnyFilter::GrowingCuckoo(chain) => chain.stages(),
            AnyFilter::RedisBloom(chain) => chain.shape().links().len(),
            AnyFilter::RedisCuckoo(chain) => chain.shape().tables() as usize,
            _ => 1,
        }
    }
    fn promised_rate(&self) -> f64 {
        self.promised_rate()
    }
    fn expected_rate(&self) -> f64 {
        self.expected_rate()
    }
    fn estimated_rate(&self) -> Option<f64> {
        self.estimated_rate().ok()
    }
    fn fill_ratio(&self) -> f64 {
        self.fill_ratio()
    }
    fn approximate_count(&self) -> (u64, u64, u64) {
        let estimate = self.approximate_count();
        let high = estimate.high.unwrap_or(u64::MAX as f64);
        (estimate.low as u64, estimate.value as u64, high as u64)
    }
    fn guarantee(&self) -> bloomgate::Guarantee {
        self.guarantee()
    }
    fn contract_text(&self) -> String {
        self.contract().to_string()
    }
    fn count_of(&self, digest: Digest) -> Option<u64> {
        self.count_of_digest(digest).ok()
    }
    fn max_copies(&self) -> Option<u64> {
        self.max_copies()
    }
}
