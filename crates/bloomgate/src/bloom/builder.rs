//! The two doors to a fixed-size filter (what you need, or the shape you want) and the one `build`.

use std::marker::PhantomData;

use super::Bloom;
use super::layout::Layout;
use crate::bits::{Owned, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Contract;
use crate::promise::{DEFAULT_RATE, KEPT, Promise, WhenFull, Wish, wish_setters};

/// Makes a [`Bloom`] filter. Setters never refuse; [`build`](Builder::build) alone does.
///
/// Say what you need, `.items(n).rate(p)`; or what you have, `.bytes(b)` with either; or the shape itself,
/// `.bits(m).hashes(k)`.
#[derive(Debug, Clone)]
pub struct Builder<L> {
    wish: Wish,
    hashes: Option<u32>,
    pub(super) fold_levels: u32,
    layout: PhantomData<L>,
}

impl<L: Layout> Builder<L> {
    pub(crate) fn new() -> Self {
        Self { wish: Wish::new(WhenFull::GoOn), hashes: None, fold_levels: 0, layout: PhantomData }
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
            (Some(bits), Some(hashes), ..) => self.exactly(L::explicit(bits, hashes)?)?,
            (None, Some(_), ..) => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "hashes(k) is half a shape: give bits(m) too, or leave k to be chosen",
                ));
            }
            (Some(bits), None, Some(items), Some(rate)) => {
                let layout = self.rounded_up(L::for_items(items, rate))?;
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
            (Some(bits), None, Some(items), None) => self.rounded_down(L::for_bits(bits, items)?)?,
            (Some(bits), None, None, rate) => {
                self.rounded_down(L::for_bits_at_rate(bits, rate.unwrap_or(DEFAULT_RATE))?)?
            }
            (None, None, Some(items), rate) => self.rounded_up(L::for_items(items, rate.unwrap_or(DEFAULT_RATE)))?,
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

    /// The shape, the promise and the contract that the settings come to.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn resolve_all(self) -> Result<(L, Promise, Contract)> {
        let (layout, promise) = self.resolve()?;
        Ok((layout, promise, self.wish.contract))
    }

    /// The memory that [`build`](Self::build) would take for the bits, in bytes: all its refusals are made, and nothing is
    /// allocated.
    ///
    /// ```
    /// use bloomgate::Blocked;
    ///
    /// let asked = Blocked::builder().items(1 << 40).rate(0.01);
    /// assert!(asked.bytes_needed()? > 1 << 40); // more than a terabyte: known before it is tried
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    pub fn bytes_needed(&self) -> Result<u64> {
        Ok(self.resolve()?.0.words() * 8)
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
