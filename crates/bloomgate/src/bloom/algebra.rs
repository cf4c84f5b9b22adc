//! Sets together: union, intersection, and how much two sets share, from the bits alone.
//!
//! **When.** Shards built apart become one filter; a key is to be in both of two sets; two sets are to be compared without
//! their keys. **When not.** The filters have other shapes or contracts: they are refused, with both named. (A larger one
//! can often be [folded](Bloom::folded) to the size of a smaller one first.)
//!
//! | | the bits | answers |
//! |---|---|---|
//! | union | of both | "maybe" for every key of either, and at the rate of so many keys |
//! | intersection | that both have | "maybe" exactly where *both* filters say so |
//!
//! Everything that can be refused is refused before the first bit changes (shape, contract, a damaged chunk of a mapped
//! file, a filter that refuses more than it was made for): after an error both filters are what they were.
//!
//! The union is the very filter that all keys would have made. How many keys that are is not in the counts, and is read
//! off the bits: the larger count, and as many keys more as the other filter's bits speak of
//! ([`Bloom::approximate_count`]), less those that are taken for known on the way; never outside what is certain, from the
//! larger count to the sum of both. So [`len`](Bloom::len), `remaining` and `expected_rate` go on as if the keys had come
//! one by one: a union that holds more than the capacity is full, and its rate is told as it is.

use super::counting::damaged;
use super::layout::sealed::Layout as _;
use super::layout::{AnyLayout, Layout};
use super::{Bloom, Counting};
use crate::arch::words::{ReadWords, WriteWords};
use crate::bits::mapped::CHUNK_BYTES;
use crate::bits::{Owned, Shared, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Contract;
use crate::math::estimate::{Estimate, Z, told_new};
use crate::math::overlap::{Overlap, overlap};
use crate::promise::WhenFull;

/// Sets together, in any place: what comes out is owned.
impl<L: Layout, S: Store> Bloom<L, S> {
    /// The filter of all keys of both: the same bits as if they had been inserted into one.
    ///
    /// Takes its promise from `self`. If it was told to refuse when full, a union that certainly holds more than the
    /// capacity is refused with [`ErrorKind::Full`]; otherwise it is made, and [`expected_rate`](Self::expected_rate)
    /// tells what that costs.
    ///
    /// ```
    /// use bloomgate::Blocked;
    ///
    /// let (mut one, mut other) = (Blocked::builder().items(1_000).build()?, Blocked::builder().items(1_000).build()?);
    /// one.insert("a")?;
    /// other.insert("b")?;
    /// let both = one.union(&other)?;
    /// assert!(both.contains("a")? && both.contains("b")?);
    /// assert_eq!(both.len(), 2);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    #[doc(alias = "merge")]
    #[doc(alias = "or")]
    pub fn union<T: Store>(&self, other: &Bloom<L, T>) -> Result<Bloom<L, Owned>> {
        let len = union_len(self, other, self.when_full())?;
        self.combined(other, len, |a, b| a | b)
    }

    /// The filter of the bits that both have: "maybe" exactly for the keys to which both filters say "maybe".
    ///
    /// So it has every key that is in both sets, and for a key in neither the rate is at most the lower of the two. A key
    /// of one set alone is passed at the rate of the other filter. It has a few bits more than a filter of the
    /// common keys alone would: its [`len`](Self::len) is as many keys as *its bits* speak of, so that `expected_rate` is
    /// true. How many keys are common: [`overlap`](Self::overlap).
    #[doc(alias = "and")]
    pub fn intersection<T: Store>(&self, other: &Bloom<L, T>) -> Result<Bloom<L, Owned>> {
        let len = intersection_len(self, other)?;
        self.combined(other, len, |a, b| a & b)
    }

    fn combined<T: Store>(
        &self,
        other: &Bloom<L, T>,
        len: u64,
        combine: impl Fn(u64, u64) -> u64,
    ) -> Result<Bloom<L, Owned>> {
        let mut made = Bloom::empty(*self.layout(), self.contract().clone(), self.promise())?;
        let (a, b) = (self.store().words(), other.store().words());
        for (at, word) in made.words_mut().iter_mut().enumerate() {
            *word = combine(a.load(at), b.load(at));
        }
        made.set_len(len);
        Ok(made)
    }

    /// How many keys each of two sets has, how many they have together and in common, and how alike they are, each
    /// with its 95 % interval. Reads all bits of both, and needs filters of one shape and contract.
    ///
    /// Two sets of 100,000 keys in classic filters for as many at 1 %, that share half of them: the common keys are known to
    /// a third of a percent.
    ///
    /// ```
    /// use bloomgate::Classic;
    ///
    /// let make = || Classic::builder().keys::<u64>().items(20_000).build();
    /// let (mut a, mut b) = (make()?, make()?);
    /// a.insert_all(0..10_000u64)?;
    /// b.insert_all(5_000..15_000u64)?;
    /// let shared = a.overlap(&b)?;
    /// assert!((shared.intersection.value / 5_000.0 - 1.0).abs() < 0.05);
    /// assert!((shared.jaccard.value - 1.0 / 3.0).abs() < 0.02);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    #[doc(alias = "jaccard")]
    #[doc(alias = "similarity")]
    pub fn overlap<T: Store>(&self, other: &Bloom<L, T>) -> Result<Overlap> {
        check(self, other, "compared")?;
        let layout = self.layout();
        let union = layout.estimate_count(set_bits_of(self, other, |a, b| a | b));
        let error = |keys: f64| layout.count_error(keys);
        Ok(overlap(self.approximate_count(), other.approximate_count(), union, error, Z))
    }
}

/// Sets together, in place.
impl<L: Layout> Bloom<L, Owned> {
    /// Takes in all keys of another filter: [`union`](Self::union), in place and all or nothing.
    #[doc(alias = "merge")]
    #[doc(alias = "put_all")]
    pub fn union_with<T: Store>(&mut self, other: &Bloom<L, T>) -> Result<()> {
        let len = union_len(self, other, self.when_full())?;
        self.take_in(other, len);
        Ok(())
    }

    /// The bits of both, of one shape; how many keys that are was [found before](union_len).
    pub(super) fn take_in<T: Store>(&mut self, other: &Bloom<L, T>, len: u64) {
        let theirs = other.store().words();
        for (at, word) in self.words_mut().iter_mut().enumerate() {
            *word |= theirs.load(at);
        }
        self.set_len(len);
    }

    /// Keeps what another filter has too: [`intersection`](Self::intersection), in place and all or nothing.
    pub fn intersect_with<T: Store>(&mut self, other: &Bloom<L, T>) -> Result<()> {
        let len = intersection_len(self, other)?;
        let theirs = other.store().words();
        for (at, word) in self.words_mut().iter_mut().enumerate() {
            *word &= theirs.load(at);
        }
        self.set_len(len);
        Ok(())
    }
}

/// Sets together, while other threads insert and ask.
impl<L: Layout> Bloom<L, Shared> {
    /// Takes in all keys of another filter, while others go on inserting and asking: a key is there for every thread that
    /// learns of the end of this call, and no key inserted meanwhile is lost.
    ///
    /// All or nothing as to refusals. The count is read off the bits at the start of the call: of keys that others insert
    /// meanwhile, or that two unions at the same moment bring both, some may be counted twice. (There is no `intersect_with`: bits that go while others insert would be a wrong
    /// "no"; use [`intersection`](Self::intersection).)
    pub fn union_with<T: Store>(&self, other: &Bloom<L, T>) -> Result<()> {
        let len = union_len(self, other, self.when_full())?;
        let theirs = other.store().words();
        let mut words = self.store().atomics();
        for at in 0..theirs.count() {
            let more = theirs.load(at);
            if more != 0 {
                words.set(at, more);
            }
        }
        self.raise_len(len.saturating_sub(self.len()));
        Ok(())
    }
}

/// Counters together.
impl Counting<Owned> {
    /// Takes in all keys of another filter, as often as they are there: counters add up, and one that reaches its top
    /// sticks there. All or nothing: a filter of another shape, width or contract is refused with both named.
    ///
    /// A filter that was told to refuse when full refuses the union too if it would hold more than its capacity.
    /// There is no intersection of counters: what is smaller in one than the other could not be removed truly again.
    #[doc(alias = "merge")]
    pub fn union_with<T: Store>(&mut self, other: &Counting<T>) -> Result<()> {
        let said = |layout, bits, contract: &Contract| {
            format!("{} with counters of {bits} bits", described(AnyLayout::Blocked(layout), contract))
        };
        let same_shape = self.layout() == other.layout() && self.counter_bits() == other.counter_bits();
        if !same_shape || self.contract() != other.contract() {
            return Err(incompatible(
                "united",
                same_shape,
                self.contract() == other.contract(),
                &said(*self.layout(), self.counter_bits().bits(), self.contract()),
                &said(*other.layout(), other.counter_bits().bits(), other.contract()),
                ALIKE,
            ));
        }
        if !believed(other.store()) {
            return Err(damaged());
        }
        let len = self.len().saturating_add(other.len());
        if self.when_full() == WhenFull::Refuse && len > self.capacity() {
            return Err(too_many(len as f64, self.capacity()));
        }
        let (width, top) = (self.counter_bits().bits(), self.counter_bits().top());
        let theirs = other.store().words();
        for (at, word) in self.words_mut().iter_mut().enumerate() {
            let (ours, more) = (*word, theirs.load(at));
            if more == 0 {
                continue;
            }
            *word = (0..64).step_by(width as usize).fold(0, |sum, shift| {
                let cell = ((ours >> shift) & top) + ((more >> shift) & top);
                sum | cell.min(top) << shift
            });
        }
        self.set_len(len);
        Ok(())
    }
}

/// Everything that may be refused before two filters are laid over each other.
fn check<L: Layout, A: Store, B: Store>(a: &Bloom<L, A>, b: &Bloom<L, B>, doing: &str) -> Result<()> {
    let (same_shape, same_contract) = (a.layout() == b.layout(), a.contract() == b.contract());
    if !same_shape || !same_contract {
        let what = match fold_between(a.layout(), b.layout()) {
            Some((first, factor)) if same_contract => {
                format!("fold the {} by {factor} first (`folded({factor})`)", if first { "first" } else { "second" })
            }
            _ => ALIKE.into(),
        };
        return Err(incompatible(
            doing,
            same_shape,
            same_contract,
            &described(a.layout().any(), a.contract()),
            &described(b.layout().any(), b.contract()),
            &what,
        ));
    }
    if believed(a.store()) && believed(b.store()) { Ok(()) } else { Err(disbelieved(doing)) }
}

#[cold]
pub(super) fn disbelieved(doing: &str) -> Error {
    let message = format!(
        "two filters cannot be {doing} when a chunk of a mapped one is damaged; `damage` says which: fetch the file again"
    );
    Error::new(ErrorKind::Corrupt, message)
}

/// What to do about two filters that do not go together.
const ALIKE: &str = "build both with the same size, rate, keys and hash";

/// Whether every word of a filter may be believed: in a mapped file, whether every chunk has its checksum.
pub(super) fn believed<S: Store>(store: &S) -> bool {
    !S::CHECKED || store.admitted() || (0..store.words().count()).step_by(CHUNK_BYTES / 8).all(|word| store.admit(word))
}

/// By what a shape is folded to become a smaller one, if that can be.
pub(crate) fn fold_onto<L: Layout>(large: &L, small: &L) -> Option<u64> {
    let factor = large.spread() / small.spread();
    let alike = large.with_spread(small.spread()).is_ok_and(|folded| folded == *small);
    (alike && factor > 1 && large.spread().is_multiple_of(small.spread())).then_some(factor)
}

/// How the larger of two shapes is folded to the smaller, if it can be: whether that is the first, and by what.
fn fold_between<L: Layout>(a: &L, b: &L) -> Option<(bool, u64)> {
    fold_onto(a, b).map(|factor| (true, factor)).or_else(|| fold_onto(b, a).map(|factor| (false, factor)))
}

/// A shape with its numbers, and a contract.
fn described(layout: AnyLayout, contract: &Contract) -> String {
    format!("{} ({contract})", shape(layout))
}

/// A shape with its numbers.
pub(super) fn shape(layout: AnyLayout) -> String {
    match layout {
        AnyLayout::Classic(layout) => format!("classic, {} bits, {} hashes", layout.bits(), layout.hashes()),
        AnyLayout::Partitioned(layout) => {
            format!("partitioned, {} slices of {} bits", layout.hashes(), layout.slice_bits())
        }
        AnyLayout::Blocked(layout) => format!(
            "blocked, {} lines, {} of them a key{}",
            layout.lines(),
            layout.lines_per_key(),
            if layout.paired() { ", paired" } else { "" }
        ),
    }
}

#[cold]
pub(super) fn incompatible(doing: &str, same_shape: bool, same_contract: bool, a: &str, b: &str, what: &str) -> Error {
    let (kind, differ) = match (same_shape, same_contract) {
        (true, _) => (ErrorKind::Contract, "contract"),
        (_, true) => (ErrorKind::Shape, "shape"),
        _ => (ErrorKind::Contract, "shape and contract"),
    };
    let message =
        format!("filters that differ in {differ} cannot be {doing}: the first is {a}, the second {b}; {what}");
    Error::new(kind, message)
}

#[cold]
fn too_many(keys: f64, capacity: u64) -> Error {
    let message = format!(
        "the union would hold about {keys:.0} keys, and the filter was made for {capacity} and refuses more; build a \
         larger one, or let it go on at a rising rate"
    );
    Error::new(ErrorKind::Full, message)
}

/// The set bits of two filters laid over each other.
fn set_bits_of<L: Layout, A: Store, B: Store>(
    a: &Bloom<L, A>,
    b: &Bloom<L, B>,
    combine: impl Fn(u64, u64) -> u64,
) -> u64 {
    let (a, b) = (a.store().words(), b.store().words());
    (0..a.count()).map(|at| u64::from(combine(a.load(at), b.load(at)).count_ones())).sum()
}

/// Checks a union, and gives the count that it will have; `when_full` is what it does past the capacity of the first.
pub(super) fn union_len<L: Layout, A: Store, B: Store>(
    a: &Bloom<L, A>,
    b: &Bloom<L, B>,
    when_full: WhenFull,
) -> Result<u64> {
    check(a, b, "united")?;
    let set = set_bits_of(a, b, |a, b| a | b);
    let keys = a.layout().estimate_count(set);
    let (least, most) = (a.len().max(b.len()), a.len().saturating_add(b.len()));
    if when_full == WhenFull::Refuse && most > a.full_at() {
        let certain = certainly(&keys).max(a.different_keys().max(b.different_keys()) as f64);
        if certain > a.capacity() as f64 {
            return Err(too_many(keys.value, a.capacity()));
        }
    }
    // From the filter with more keys on, whose count is nearly exact: the bits have to tell of the others alone.
    let (known, its_set) =
        if a.len() >= b.len() { (a.different_keys(), a.set_bits()) } else { (b.different_keys(), b.set_bits()) };
    if set == its_set {
        return Ok(least.max(u64::from(set > 0)));
    }
    let more = (keys.value - a.layout().estimate_count(its_set).value).max(0.0);
    Ok(told_by(a.layout(), known as f64 + more).clamp(least, most).max(1))
}

/// Checks an intersection, and gives the count that it will have.
fn intersection_len<L: Layout, A: Store, B: Store>(a: &Bloom<L, A>, b: &Bloom<L, B>) -> Result<u64> {
    check(a, b, "intersected")?;
    let set = set_bits_of(a, b, |a, b| a & b);
    let keys = a.layout().estimate_count(set);
    Ok(told_by(a.layout(), keys.value).min(a.len()).min(b.len()).max(u64::from(set > 0)))
}

/// How many of so many keys would have been told to be new, had they come one by one.
fn told_by<L: Layout>(layout: &L, keys: f64) -> u64 {
    told_new(keys.round() as u64, |items| layout.expected_rate(items)).round() as u64
}

/// So many keys there are in all but one of 300,000 cases: 4.5 standard errors below the guess.
pub(super) fn certainly(keys: &Estimate) -> f64 {
    keys.value - (keys.value - keys.low) * 4.5 / Z
}
