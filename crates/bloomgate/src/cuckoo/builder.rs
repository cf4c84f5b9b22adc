//! The doors to a cuckoo filter (what you need, the memory you have, or the shape you want) and the one `build`.

use super::{CopyRule, Cuckoo, CuckooShape};
use crate::bits::{Owned, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::math::cuckoo::{largest_in, limit, size_for, widest_in};
use crate::promise::{DEFAULT_RATE, KEPT, Promise, WhenFull, Wish, wish_setters};

/// Makes a [`Cuckoo`] filter. Setters never refuse; [`build`](CuckooBuilder::build) alone does.
///
/// Say what you need, `.items(n).rate(p)`; or what you have, `.bytes(b)` with either; or the shape itself,
/// `.buckets(m).fingerprint_bits(f)`.
#[derive(Debug, Clone)]
pub struct CuckooBuilder {
    wish: Wish,
    buckets: Option<u64>,
    fingerprint_bits: Option<u32>,
    copies: CopyRule,
}

impl CuckooBuilder {
    pub(super) fn new() -> Self {
        Self { wish: Wish::new(WhenFull::Refuse), buckets: None, fingerprint_bits: None, copies: CopyRule::Stick }
    }

    wish_setters!();

    /// The memory the table may use, in bytes. With `items` the best rate is chosen, with `rate` the capacity; with
    /// both it is a limit.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.wish.bits = Some(bytes.saturating_mul(8));
        self
    }

    /// The explicit shape: an even number of buckets of four slots. With [`fingerprint_bits`](Self::fingerprint_bits).
    #[must_use]
    pub fn buckets(mut self, buckets: u64) -> Self {
        self.buckets = Some(buckets);
        self
    }

    /// The explicit shape: 4 to 56 bits a fingerprint (with fewer no number of keys can be promised room). With [`buckets`](Self::buckets).
    #[must_use]
    pub fn fingerprint_bits(mut self, bits: u32) -> Self {
        self.fingerprint_bits = Some(bits);
        self
    }

    /// What becomes of a key that is inserted again and again: the fourth copy sticks unless said otherwise.
    #[must_use]
    pub fn copies(mut self, rule: CopyRule) -> Self {
        self.copies = rule;
        self
    }

    /// The shape and the promise that the settings come to.
    fn resolve(&self) -> Result<(CuckooShape, Promise)> {
        let wish = &self.wish;
        let (items, asked) = (wish.capacity()?, wish.checked_rate()?);
        match wish.when_full {
            WhenFull::Refuse => {}
            WhenFull::GoOn => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "a cuckoo table cannot go on when it is full: there is no slot left for another key; let it refuse, \
                     or use GrowingCuckoo",
                ));
            }
            WhenFull::Grow => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "a cuckoo filter of a fixed size cannot grow; use GrowingCuckoo, or let it refuse when full",
                ));
            }
        }
        let (shape, capacity) = match (self.buckets, self.fingerprint_bits) {
            (Some(buckets), Some(bits)) => {
                let shape = CuckooShape::new(buckets, bits)?;
                (shape, items.unwrap_or_else(|| asked.map_or(shape.capacity(), |rate| shape.capacity_at(rate))))
            }
            (None, None) => self.sized(items, asked)?,
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "buckets(m) and fingerprint_bits(f) are each half a shape: give both, or neither",
                ));
            }
        };
        if shape.capacity() == 0 {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "{} buckets with fingerprints of {} bits can promise room to no key: 16 buckets and 4 bits are the least",
                    shape.buckets(),
                    shape.fingerprint_bits()
                ),
            ));
        }
        let kept = shape.expected_rate(limit(capacity).min(shape.slots()));
        let by_rate =
            asked.or((self.buckets.is_none() && (wish.bits.is_none() || items.is_none())).then_some(DEFAULT_RATE));
        let rate = by_rate.unwrap_or(kept);
        if capacity == 0 || capacity > shape.capacity() || kept > rate * KEPT {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "{} buckets with fingerprints of {} bits always hold {} keys at a rate of {rate:e}, not {capacity}: ask \
                     for fewer items, a higher rate, or more buckets",
                    shape.buckets(),
                    shape.fingerprint_bits(),
                    shape.capacity_at(rate)
                ),
            ));
        }
        Ok((shape.with_copies(self.copies), Promise { capacity, rate, when_full: WhenFull::Refuse }))
    }

    /// The shape for what is needed, or for the memory there is.
    fn sized(&self, items: Option<u64>, asked: Option<f64>) -> Result<(CuckooShape, u64)> {
        let rate = asked.unwrap_or(DEFAULT_RATE);
        let too_small = |bits: u64| {
            let needed = match items {
                Some(items) => format!("{items} items at a rate of {rate}"),
                None => format!("one item at a rate of {rate}"),
            };
            let shape = size_for(items.unwrap_or(1), rate);
            let bytes = CuckooShape::new(shape.0, shape.1).map_or(0, |shape| shape.words() * 8);
            let best = largest_in(bits, rate).map_or(0, |(_, _, capacity)| capacity);
            Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "{needed} need {bytes} bytes, {} are allowed; they hold {best} items at that rate: ask for fewer \
                     items, a higher rate or more memory",
                    bits / 8
                ),
            )
        };
        match (self.wish.bits, items, asked) {
            (Some(bits), Some(items), None) => {
                let (buckets, width) = widest_in(bits, items).ok_or_else(|| too_small(bits))?;
                Ok((CuckooShape::new(buckets, width)?, items))
            }
            (Some(bits), None, _) => {
                let (buckets, width, capacity) = largest_in(bits, rate).ok_or_else(|| too_small(bits))?;
                let capacity = capacity.min(crate::promise::MAX_ITEMS);
                Ok((CuckooShape::new(buckets, width)?, capacity))
            }
            (limit, Some(items), _) => {
                let (buckets, width) = size_for(items, rate);
                let shape = CuckooShape::new(buckets, width)?;
                match limit.filter(|&bits| shape.words() > bits / 64) {
                    Some(bits) => Err(too_small(bits)),
                    None => Ok((shape, items)),
                }
            }
            (None, None, _) => Err(Error::new(
                ErrorKind::InvalidParameter,
                "say how large: items(n) with rate(p), or bytes(b) with one of them, or buckets(m) with \
                 fingerprint_bits(f)",
            )),
        }
    }

    /// The memory that [`build`](Self::build) would take for the table, in bytes: all its refusals are made, and nothing is
    /// allocated.
    pub fn bytes_needed(&self) -> Result<u64> {
        Ok(self.resolve()?.0.words() * 8)
    }

    /// The filter, or why there is none.
    #[doc(alias = "with_capacity")]
    pub fn build(self) -> Result<Cuckoo<Owned>> {
        let (shape, promise) = self.resolve()?;
        Cuckoo::empty(shape, self.wish.contract, promise)
    }

    /// The filter for many threads at once, or why there is none.
    pub fn build_shared(self) -> Result<Cuckoo<Shared>> {
        self.build()?.into_shared()
    }
}
