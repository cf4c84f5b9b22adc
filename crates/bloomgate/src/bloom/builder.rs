//! The two doors to a fixed-size filter (what you need, or the shape you want) and the one `build`.

use std::marker::PhantomData;

use super::layout::Layout;
use super::{Bloom, Promise, WhenFull};
use crate::bits::{Owned, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Contract;

/// The rate that is kept when none is asked for.
pub const DEFAULT_RATE: f64 = 0.01;
/// The least rate that can be asked for: below it the number of bits per key stops making sense (72).
pub const MIN_RATE: f64 = 1e-15;
/// The most keys a filter can be made for.
pub const MAX_ITEMS: u64 = 1 << 40;

/// A rate counts as kept up to this factor: sizing rounds in the fifth digit.
pub(crate) const KEPT: f64 = 1.0001;

/// What every filter is asked for, whatever its kind: how many keys, at what rate, in how much memory.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) items: Option<u64>,
    pub(crate) rate: Option<f64>,
    pub(crate) bits: Option<u64>,
    pub(crate) headroom: f64,
    pub(crate) when_full: WhenFull,
    pub(crate) contract: Contract,
}

impl Wish {
    pub(crate) fn new(when_full: WhenFull) -> Self {
        Self { items: None, rate: None, bits: None, headroom: 1.0, when_full, contract: Contract::xxh3() }
    }

    /// The items with headroom, if any were named; checked, and the type of the keys with them.
    pub(crate) fn capacity(&self) -> Result<Option<u64>> {
        self.contract.encoding().validate()?;
        if !self.headroom.is_finite() || !(1.0..=1000.0).contains(&self.headroom) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "headroom is a factor from 1 to 1000 on the number of items, not {}; 1.5 is usual",
                    self.headroom
                ),
            ));
        }
        let Some(items) = self.items else { return Ok(None) };
        let capacity = (items as f64 * self.headroom).ceil();
        if items > MAX_ITEMS || capacity > MAX_ITEMS as f64 {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a filter holds up to 2^40 items, headroom included, not {items}; split the keys over several"),
            ));
        }
        // An empty set is a set: it gets the smallest filter.
        Ok(Some(if self.headroom == 1.0 { items } else { capacity as u64 }.max(1)))
    }

    /// The rate, if one was named; checked.
    pub(crate) fn checked_rate(&self) -> Result<Option<f64>> {
        self.rate.map(check_rate).transpose()
    }
}

/// A rate that can be kept, or why it cannot.
pub(crate) fn check_rate(rate: f64) -> Result<f64> {
    if !rate.is_finite() || rate <= 0.0 || rate >= 1.0 {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("a false-positive rate lies between 0 and 1, both excluded, not {rate}; 1 % is 0.01"),
        ));
    }
    if rate < MIN_RATE {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("the least rate that can be kept is {MIN_RATE:e}, not {rate:e}; use an exact set instead"),
        ));
    }
    Ok(rate)
}

macro_rules! wish_setters {
    () => {
        /// How many different keys the filter is for.
        #[doc(alias = "capacity")]
        #[doc(alias = "expected_items")]
        #[doc(alias = "expectedInsertions")]
        #[must_use]
        pub fn items(mut self, items: u64) -> Self {
            self.wish.items = Some(items);
            self
        }

        /// The false-positive rate to keep while the filter holds no more than its items; 0.01 if not said.
        #[doc(alias = "false_pos")]
        #[doc(alias = "fpp")]
        #[doc(alias = "error_rate")]
        #[must_use]
        pub fn rate(mut self, rate: f64) -> Self {
            self.wish.rate = Some(rate);
            self
        }

        /// Room for more items than named: 1.5 is usual when the number is a guess, 3 when it is a bad one.
        #[must_use]
        pub fn headroom(mut self, factor: f64) -> Self {
            self.wish.headroom = factor;
            self
        }

        /// What an insert does when the filter holds what it was made for.
        #[must_use]
        pub fn when_full(mut self, when_full: $crate::bloom::WhenFull) -> Self {
            self.wish.when_full = when_full;
            self
        }

        /// The type of the keys; bytes and text if not said.
        #[must_use]
        pub fn keys<K: $crate::key::Key + ?Sized>(mut self) -> Self {
            self.wish.contract = self.wish.contract.with_encoding(K::ENCODING);
            self
        }

        /// How keys become digests: encoding, hash, seed or secret. Replaces the type of the keys too: call it before
        /// `keys`.
        #[must_use]
        pub fn contract(mut self, contract: $crate::hash::Contract) -> Self {
            self.wish.contract = contract;
            self
        }

        /// Hash with SipHash-1-3 under this secret: for keys that strangers choose. Keeps the type of the keys.
        #[must_use]
        pub fn secret(mut self, secret: &$crate::hash::Secret) -> Self {
            let encoding = self.wish.contract.encoding();
            self.wish.contract = $crate::hash::Contract::keyed(secret).with_encoding(encoding);
            self
        }
    };
}
pub(crate) use wish_setters;

/// Makes a [`Bloom`] filter. Setters never refuse; [`build`](Builder::build) alone does.
///
/// Say what you need, `.items(n).rate(p)`; or what you have, `.bytes(b)` with either; or the shape itself,
/// `.bits(m).hashes(k)`.
#[derive(Debug, Clone)]
pub struct Builder<L> {
    wish: Wish,
    hashes: Option<u32>,
    layout: PhantomData<L>,
}

impl<L: Layout> Builder<L> {
    pub(crate) fn new() -> Self {
        Self { wish: Wish::new(WhenFull::GoOn), hashes: None, layout: PhantomData }
    }

    wish_setters!();

    /// The memory the filter may use, in bytes. With `items` the best rate is chosen, with `rate` the capacity; with
    /// both it is a limit.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.wish.bits = Some(bytes.saturating_mul(8));
        self
    }

    /// The memory the filter may use, in bits; with [`hashes`](Self::hashes) exactly this many.
    #[doc(alias = "num_bits")]
    #[doc(alias = "m")]
    #[must_use]
    pub fn bits(mut self, bits: u64) -> Self {
        self.wish.bits = Some(bits);
        self
    }

    /// How many bits a key sets: with [`bits`](Self::bits) the explicit shape.
    #[doc(alias = "k")]
    #[doc(alias = "num_hashes")]
    #[must_use]
    pub fn hashes(mut self, hashes: u32) -> Self {
        self.hashes = Some(hashes);
        self
    }

    /// The shape and the promise that the settings come to.
    pub(crate) fn resolve(&self) -> Result<(L, Promise)> {
        let wish = &self.wish;
        let items = wish.capacity()?;
        let rate = wish.checked_rate()?;
        if wish.when_full == WhenFull::Grow {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a {} filter cannot grow; use Scalable, or let it go on or refuse when full", L::KIND),
            ));
        }
        let layout = match (wish.bits, self.hashes, items, rate) {
            (Some(bits), Some(hashes), ..) => L::explicit(bits, hashes)?,
            (None, Some(_), ..) => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "hashes(k) is half a shape: give bits(m) too, or leave k to be chosen",
                ));
            }
            (Some(bits), None, Some(items), Some(rate)) => {
                let layout = L::for_items(items, rate);
                if layout.words() > bits.div_ceil(64) {
                    let best = L::for_bits_at_rate(bits, rate).map(|layout| layout.capacity_at(rate)).unwrap_or(0);
                    return Err(Error::new(
                        ErrorKind::LimitExceeded,
                        format!(
                            "{items} items at a rate of {rate} need {} bytes, {} are allowed; they hold {best} items at \
                             that rate: ask for fewer items, a higher rate or more memory",
                            layout.words() * 8,
                            bits / 8
                        ),
                    ));
                }
                layout
            }
            (Some(bits), None, Some(items), None) => L::for_bits(bits, items)?,
            (Some(bits), None, None, rate) => L::for_bits_at_rate(bits, rate.unwrap_or(DEFAULT_RATE))?,
            (None, None, Some(items), rate) => L::for_items(items, rate.unwrap_or(DEFAULT_RATE)),
            (None, None, None, _) => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "say how large: items(n) with rate(p), or bytes(b) with one of them, or bits(m) with hashes(k)",
                ));
            }
        };
        let half_full =
            || ((layout.bits() as f64 * std::f64::consts::LN_2) / f64::from(layout.hashes())).floor() as u64;
        let capacity = match (items, rate, self.hashes) {
            (Some(items), ..) => items,
            (None, Some(rate), _) => layout.capacity_at(rate),
            (None, None, Some(_)) => half_full(),
            (None, None, None) => layout.capacity_at(DEFAULT_RATE),
        }
        .max(1);
        let sized_by_rate = wish.bits.is_none() || (self.hashes.is_none() && items.is_none());
        let rate = match rate.or(sized_by_rate.then_some(DEFAULT_RATE)) {
            Some(rate) => {
                if wish.bits.is_some() {
                    self.check_kept(&layout, capacity, rate)?;
                }
                rate
            }
            None => layout.expected_rate(capacity),
        };
        Ok((layout, Promise { capacity, rate, when_full: wish.when_full }))
    }

    /// Refuses a shape or a memory that cannot keep the rate: a promise is kept or not made.
    fn check_kept(&self, layout: &L, capacity: u64, rate: f64) -> Result<()> {
        let kept = layout.expected_rate(capacity);
        if kept <= rate * KEPT {
            return Ok(());
        }
        let kind = if self.hashes.is_some() { ErrorKind::InvalidParameter } else { ErrorKind::LimitExceeded };
        Err(Error::new(
            kind,
            format!(
                "{} bits with {} hashes have a rate of {kept:.3e} at {capacity} items, not {rate:e}; they hold {} items \
                 at that rate: ask for fewer items, a higher rate or more memory",
                layout.bits(),
                layout.hashes(),
                layout.capacity_at(rate)
            ),
        ))
    }

    /// The filter, or why there is none.
    #[doc(alias = "create")]
    #[doc(alias = "create_optimal")]
    #[doc(alias = "with_rate")]
    pub fn build(self) -> Result<Bloom<L, Owned>> {
        let (layout, promise) = self.resolve()?;
        Bloom::empty(layout, self.wish.contract, promise)
    }

    /// The filter for many threads at once, or why there is none.
    #[doc(alias = "AtomicBloomFilter")]
    pub fn build_shared(self) -> Result<Bloom<L, Shared>> {
        self.build()?.into_shared()
    }
}
