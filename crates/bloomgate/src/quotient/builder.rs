//! Makes a [`Quotient`] filter.

use super::{Quotient, QuotientShape};
use crate::bits::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::math::quotient as math;
use crate::promise::{DEFAULT_RATE, MAX_ITEMS, Promise, WhenFull, Wish, wish_setters};

/// Makes a [`Quotient`] filter. Setters never refuse; [`build`](QuotientBuilder::build) alone does.
#[derive(Debug, Clone)]
pub struct QuotientBuilder {
    wish: Wish,
    most: Option<u64>,
}

impl QuotientBuilder {
    wish_setters!();

    pub(super) fn new() -> Self {
        Self { wish: Wish::new(WhenFull::GoOn), most: None }
    }

    /// How many keys there may be one day. The filter starts with memory for [`items`](Self::items) and grows in steps of
    /// a third to a half, without the keys, and keeps the rate up to here. One bit per key for each doubling between the
    /// two, while it is small.
    #[must_use]
    pub fn grow_to(mut self, most: u64) -> Self {
        self.most = Some(most);
        self
    }

    /// The memory the slots may use, in bytes. With `rate` the capacity follows; with `items` too it is a limit.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.wish.bits = Some(bytes.saturating_mul(8));
        self
    }

    /// The shape for the wish, and the promise it keeps.
    fn plan(&self) -> Result<(QuotientShape, Promise)> {
        let rate = self.wish.checked_rate()?.unwrap_or(DEFAULT_RATE);
        let bytes = self.wish.bits.map(|bits| bits / 8);
        let items = match (self.wish.capacity()?, bytes) {
            (Some(items), _) => items,
            (None, Some(bytes)) => {
                let items = math::capacity(bytes / 8, rate);
                if items == 0 {
                    return Err(Error::new(
                        ErrorKind::InvalidParameter,
                        format!("{bytes} bytes do not hold a key at a rate of {rate}; 64 are the least that can"),
                    ));
                }
                items.min(MAX_ITEMS)
            }
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "say how large: items(n) with rate(p), or bytes(b) with rate(p)",
                ));
            }
        };
        let most = self.most.unwrap_or(items).max(items);
        if most > MAX_ITEMS {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("a filter holds up to 2^40 items, not {most}; grow to fewer, or split the keys over several"),
            ));
        }
        let (slots, interval) = math::size(items, most, rate).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "a quotient filter tells 2^60 fingerprints apart, and {most} items at a rate of {rate:e} need {:.1e}; \
                     ask for fewer items or for a rate of {:.1e} or more",
                    math::fingerprints_for(most, rate),
                    most as f64 / (1u64 << 59) as f64
                ),
            )
        })?;
        let shape = QuotientShape::new(slots, interval)?;
        if let Some(bytes) = bytes.filter(|&bytes| shape.words() * 8 > bytes) {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "{items} items at a rate of {rate} need {} bytes of slots, {bytes} are allowed; they hold {} items at \
                     that rate: ask for fewer items, a higher rate or more memory",
                    shape.words() * 8,
                    math::capacity(bytes / 8, rate)
                ),
            ));
        }
        Ok((shape, Promise { capacity: most, rate, when_full: self.wish.when_full }))
    }

    /// The memory that [`build`](Self::build) would take for the slots it starts with, in bytes: all its refusals are made, and nothing is
    /// allocated.
    pub fn bytes_needed(&self) -> Result<u64> {
        Ok(self.plan()?.0.words() * 8)
    }

    /// The filter, or why there is none.
    pub fn build(self) -> Result<Quotient> {
        let (shape, promise) = self.plan()?;
        Quotient::empty(shape, self.wish.contract, promise)
    }

    /// The filter for many threads: one inserts or removes at a time, all may ask.
    pub fn build_shared(self) -> Result<Quotient<Shared>> {
        self.build()?.into_shared()
    }
}
