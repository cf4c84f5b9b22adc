//! Folding: a filter made smaller after it was filled, exactly as if it had been built so.
//!
//! **When.** The number of keys is known only at the end of one pass over them: build large, then [`fit`](Bloom::fit);
//! or parents of a hierarchy, each of fewer bits a key. **When not.** The number is known (ask for it); or keys come for
//! ever ([`Scalable`](super::Scalable)).
//!
//! A key's place is `⌊h · n / 2^64⌋` for n lines (or bits), so that with a fold by f it is `⌊h · (n/f) / 2^64⌋`, the old
//! place divided by f: neighbours fall together, and nothing has to be hashed again. (Where places are taken modulo n
//! instead, the halves do.) Any divisor of n will do; [`Builder::fold_levels`](super::Builder::fold_levels) makes n
//! divisible by a power of two.
//!
//! ```text
//!  n = 12      0  1  2  3  4  5  6  7  8  9 10 11
//!  by 2        0─────1─────2─────3─────4─────5            12 lines, 6 lines
//!  by 4        0───────────1───────────2                  3 lines
//! ```
//!
//! Blocked, made for a million keys at 1 % with `fold_levels(6)` (1,265,664 bytes), and fitted to what came:
//!
//! | keys | folded by | bytes | built for so many |
//! |---|---|---|---|
//! | 1,000,000 | 1 | 1,265,664 | 1,264,256 |
//! | 400,000 | 2 | 632,832 | 505,728 |
//! | 100,000 | 8 | 158,208 | 126,464 |
//! | 3,000 | 309 | 4,096 | 3,840 |
//!
//! At most twice the memory that the keys would have needed while there are levels left, and mostly less: other divisors
//! help too (309 is 3 · 103).

use super::algebra::{believed, certainly};
use super::layout::Layout;
use super::{Bloom, Builder};
use crate::arch::words::ReadWords;
use crate::bits::{Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::math::estimate::told_new;
use crate::promise::{KEPT, MAX_ITEMS, Promise, check_rate};

/// The largest fold that [`Bloom::fit`] looks for.
const MOST: u64 = 1 << 20;
/// The most levels that a builder rounds for.
const MOST_LEVELS: u32 = 20;

/// ORs every set bit to where it folds.
pub(super) fn fold_bits<W: ReadWords>(words: W, to: &mut [u64], place: impl Fn(u64) -> u64) {
    for at in 0..words.count() {
        let mut word = words.load(at);
        while word != 0 {
            let bit = place(at as u64 * 64 + u64::from(word.trailing_zeros()));
            if let Some(folded) = to.get_mut((bit / 64) as usize) {
                *folded |= 1 << (bit % 64);
            }
            word &= word - 1;
        }
    }
}

/// Folding, from any place: what comes out is owned.
impl<L: Layout, S: Store> Bloom<L, S> {
    /// The filter at a half (2), a third (3), a quarter (4) … of its size: the same bits as if the same keys had been
    /// inserted into a filter of that size.
    ///
    /// The rate that was promised stays, and the capacity is what the smaller shape keeps at it; a filter that holds more
    /// is full from the start, and [`expected_rate`](Self::expected_rate) tells its rate. To fold only as far as a rate
    /// holds: [`fit`](Self::fit).
    ///
    /// Refused where the lines (bits, bits a slice) are no multiple of `factor`.
    pub fn folded(&self, factor: u32) -> Result<Bloom<L, Owned>> {
        let layout = self.folded_layout(u64::from(factor))?;
        let Promise { capacity, rate, when_full } = self.promise();
        let capacity = layout.capacity_at(rate).min(capacity).max(1);
        let kept = layout.expected_rate(capacity);
        let rate = if kept <= rate * KEPT { rate } else { kept };
        self.fold_with(layout, Promise { capacity, rate, when_full })
    }

    /// The filter made as small as it can be for the keys that are in it at this rate, with that for its promise.
    ///
    /// ```
    /// use bloomgate::Blocked;
    ///
    /// // Nobody knows how many keys will come: room for a million, and for six halvings.
    /// let mut seen = Blocked::builder().keys::<u64>().items(1_000_000).rate(0.01).fold_levels(6).build()?;
    /// seen.insert_all(0..30_000u64)?;
    /// let small = seen.fit(0.01)?;
    /// assert!(small.size_in_bytes() * 20 < seen.size_in_bytes());
    /// assert!(small.expected_rate() <= 0.010_001 && small.contains(&29_999u64)?);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    ///
    /// Refused if the rate does not hold as it is.
    #[doc(alias = "shrink")]
    #[doc(alias = "shrink_to_fit")]
    pub fn fit(&self, rate: f64) -> Result<Bloom<L, Owned>> {
        self.fold_to(0, rate)
    }

    /// [`fit`](Self::fit) with room for more: for so many keys, or for those that are in it if they are more.
    pub fn fold_to(&self, items: u64, rate: f64) -> Result<Bloom<L, Owned>> {
        check_rate(rate)?;
        let items = items.max(self.keys_in());
        let layout = self.layout();
        let holds = |layout: &L| layout.expected_rate(items) <= rate * KEPT;
        if items > MAX_ITEMS || !holds(layout) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "with {items} keys the {} filter of {} bits has a rate of {:.3e} as it is, and {rate:e} was asked for: \
                     it holds {} keys at that rate; ask for a higher rate, or build a larger filter",
                    L::KIND,
                    layout.bits(),
                    layout.expected_rate(items),
                    layout.capacity_at(rate)
                ),
            ));
        }
        // The rate rises with the fold: the first that breaks it is found by halving, whether it divides or not.
        let smaller = |factor: u64| layout.with_spread(layout.spread() / factor).ok().filter(holds);
        let (mut good, mut bad) = (1, layout.spread().min(MOST) + 1);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if smaller(middle).is_some() { good = middle } else { bad = middle }
        }
        let divides = |factor: &u64| layout.spread().is_multiple_of(*factor);
        let factor = (1..=good).rev().filter(divides).find(|&factor| smaller(factor).is_some()).unwrap_or(1);
        let layout = self.folded_layout(factor)?;
        let capacity = layout.capacity_at(rate).clamp(items.max(1), MAX_ITEMS);
        self.fold_with(layout, Promise { capacity, rate, when_full: self.when_full() })
    }

    /// The different keys that are in: by the count, but never fewer than the bits certainly speak of (a count may come
    /// from anywhere), and past the capacity, where counting fails, by the bits too.
    fn keys_in(&self) -> u64 {
        let (counted, bits) = (self.different_keys(), self.approximate_count());
        // The keys taken for known are known to about their root: a filter at its capacity is not taken for one above it.
        let doubt = 4.5 * (counted.saturating_sub(self.len()) as f64).sqrt();
        if counted as f64 <= self.capacity() as f64 + doubt {
            return counted.min(self.capacity()).max(certainly(&bits).max(0.0) as u64);
        }
        counted.max(bits.value.ceil() as u64)
    }

    fn folded_layout(&self, factor: u64) -> Result<L> {
        let spread = self.layout().spread();
        if factor == 0 || !spread.is_multiple_of(factor) {
            let allowed: Vec<String> =
                (2..=64u64.min(spread)).filter(|f| spread.is_multiple_of(*f)).map(|f| f.to_string()).collect();
            let allowed = if allowed.is_empty() { "none".into() } else { allowed.join(", ") };
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "a {} filter of {spread} {} cannot be folded by {factor}: {spread} has to be a multiple of it (up to 64 \
                     these are: {allowed}); build it with fold_levels(n) to fold it by 2^n",
                    L::KIND,
                    L::SPREAD
                ),
            ));
        }
        self.layout().with_spread(spread / factor)
    }

    fn fold_with(&self, layout: L, promise: Promise) -> Result<Bloom<L, Owned>> {
        if !believed(self.store()) {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "a chunk of the mapped filter is damaged, so that it cannot be folded; `damage` says which: fetch the file \
                 again",
            ));
        }
        let factor = self.layout().spread() / layout.spread();
        let mut small = Bloom::empty(layout, self.contract().clone(), promise)?;
        self.layout().fold(self.store().words(), factor, small.words_mut());
        // In the smaller one more keys would have been taken for known.
        let told = told_new(self.different_keys(), |items| layout.expected_rate(items)).round() as u64;
        small.set_len(told.min(self.len()).max(u64::from(!self.is_empty())));
        Ok(small)
    }
}

impl<L: Layout> Builder<L> {
    /// Rounds the size so that the filter can be [folded](Bloom::folded) in half so many times (0 to 20): up by less
    /// than 2^levels lines of 64 bytes (bits, in classic and partitioned filters); down where memory is given.
    #[must_use]
    pub fn fold_levels(mut self, levels: u32) -> Self {
        self.fold_levels = levels;
        self
    }

    /// The multiple that the builder rounds to.
    fn fold_multiple(&self) -> Result<u64> {
        if self.fold_levels > MOST_LEVELS {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "a filter is rounded for 0 to {MOST_LEVELS} fold levels, not {}; 6 are usual",
                    self.fold_levels
                ),
            ));
        }
        Ok(1 << self.fold_levels)
    }

    /// The shape, rounded up.
    pub(super) fn rounded_up(&self, layout: L) -> Result<L> {
        let multiple = self.fold_multiple()?;
        if layout.spread().is_multiple_of(multiple) {
            return Ok(layout);
        }
        layout.with_spread(layout.spread().next_multiple_of(multiple))
    }

    /// The shape, rounded down.
    pub(super) fn rounded_down(&self, layout: L) -> Result<L> {
        let multiple = self.fold_multiple()?;
        let spread = layout.spread() / multiple * multiple;
        if spread == 0 {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "{} {} cannot be folded {} times; ask for fewer fold levels or more memory",
                    layout.spread(),
                    L::SPREAD,
                    self.fold_levels
                ),
            ));
        }
        layout.with_spread(spread)
    }

    /// The shape as it was asked for, if it can be folded so often.
    pub(super) fn exactly(&self, layout: L) -> Result<L> {
        let multiple = self.fold_multiple()?;
        if layout.spread().is_multiple_of(multiple) {
            return Ok(layout);
        }
        Err(Error::new(
            ErrorKind::InvalidParameter,
            format!(
                "{} {} cannot be folded {} times: a multiple of {multiple} can, {} is the next",
                layout.spread(),
                L::SPREAD,
                self.fold_levels,
                layout.spread().next_multiple_of(multiple)
            ),
        ))
    }
}
