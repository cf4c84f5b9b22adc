//! What a ring is asked for, and what it comes to.

use std::time::Duration;

use super::clock::{NO_MAX_STEP, RotatingRule, RotatingState, nanoseconds};
use super::{Rotating, generation_promise};
use crate::bits::Shared;
use crate::bloom::layout::sealed::Layout as _;
use crate::bloom::{Blocked, BlockedLayout};
use crate::error::{Error, ErrorKind, Result};
use crate::math::rotating::{generation_rate, ring_rate};
use crate::promise::{DEFAULT_RATE, KEPT, MIN_RATE, Promise, WhenFull, Wish, wish_setters};

/// Generations of a window when no number is given: a key goes at most a quarter of the window late.
pub const DEFAULT_GENERATIONS: u32 = 4;

/// Makes a [`Rotating`] filter. Setters never refuse; [`build`](RotatingBuilder::build) alone does.
///
/// `items` are the keys that come **in a window**. A key that comes again in another generation is kept there too, and
/// counts again: when the same keys keep coming all the time, each generation holds all of them, and `.headroom(g)`
/// makes room for that. When they come in bursts, `.headroom(2.0)` lets a generation hold twice its share.
#[derive(Debug, Clone)]
pub struct RotatingBuilder {
    wish: Wish,
    window: Option<Duration>,
    generations: u32,
    max_step: Option<Duration>,
}

impl RotatingBuilder {
    pub(super) fn new() -> Self {
        Self { wish: Wish::new(WhenFull::GoOn), window: None, generations: DEFAULT_GENERATIONS, max_step: None }
    }

    wish_setters!();

    /// How long a key is kept at least: a millisecond to 100 years.
    #[doc(alias = "ttl")]
    #[doc(alias = "expire")]
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// How many generations the window has, 1 to 64; 4 if not said. A key is kept for `1/generations` longer at most.
    #[doc(alias = "slices")]
    #[must_use]
    pub fn generations(mut self, generations: u32) -> Self {
        self.generations = generations;
        self
    }

    /// The most time that one reading of the clock counts for; no limit if not said.
    ///
    /// For clocks that may be set wrongly: a reading that is later by more counts as this much, and the rest as the
    /// clock having been set, so that a wrong reading makes keys go early by no more than this; one that is earlier by
    /// more is followed, so that the ring does not wait for a time that never comes. The price: a pause between
    /// readings that is longer than this (a suspended machine, a file that is loaded a week later) counts as this much
    /// too, and keys are kept longer. A few times the usual pause between readings is right.
    #[must_use]
    pub fn max_step(mut self, longest: Duration) -> Self {
        self.max_step = Some(longest);
        self
    }

    /// The memory that all generations may use together, in bytes. With `rate` alone the items follow; with `items` it
    /// is a limit.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.wish.bits = Some(bytes.saturating_mul(8));
        self
    }

    fn resolve(&self) -> Result<(RotatingRule, BlockedLayout, Promise)> {
        let refuse = |what: String| Error::new(ErrorKind::InvalidParameter, what);
        let Some(window) = self.window else {
            return Err(refuse("say how long keys are kept: window(time)".to_string()));
        };
        let max_step = self.max_step.map_or(NO_MAX_STEP, nanoseconds);
        let rule = RotatingRule::new(nanoseconds(window), self.generations, max_step)?;
        if self.wish.when_full == WhenFull::Grow {
            return Err(refuse("a rotating filter cannot grow; let it go on or refuse when full".to_string()));
        }
        let items = self.wish.capacity()?;
        let rate = self.wish.checked_rate()?.unwrap_or(DEFAULT_RATE);
        let generations = rule.generations();
        let each = generation_rate(rate, generations);
        if each < MIN_RATE {
            return Err(refuse(format!(
                "a rate of {rate:e} cannot be shared out over {} generations, which keep {MIN_RATE:e} each at least; \
                 ask for 1e-13 or more",
                rule.ring()
            )));
        }
        let limit = self.wish.bits.map(|bits| bits / rule.ring() as u64);
        let promise = |capacity| Promise { capacity, rate, when_full: self.wish.when_full };
        let largest = |bits: u64| {
            let layout = BlockedLayout::for_bits_at_rate(bits, each)?;
            let items = layout.capacity_at(each).max(1).saturating_mul(u64::from(generations));
            Ok((layout, items.min(crate::promise::MAX_ITEMS)))
        };
        let (layout, promise) = match (items, limit) {
            (Some(items), limit) => {
                let promise = promise(items);
                let layout = BlockedLayout::for_items(generation_promise(&promise, &rule).capacity, each);
                if let Some(limit) = limit.filter(|&limit| layout.bits() > limit) {
                    let best = largest(limit).map_or(0, |(_, items): (_, u64)| items);
                    return Err(Error::new(
                        ErrorKind::LimitExceeded,
                        format!(
                            "{items} items a window at a rate of {rate} need {} bytes, {} are allowed; they hold \
                             {best} items at that rate: ask for fewer items, a higher rate or more memory",
                            layout.words() * 8 * rule.ring() as u64,
                            limit.saturating_mul(rule.ring() as u64) / 8
                        ),
                    ));
                }
                (layout, promise)
            }
            (None, Some(limit)) => {
                let (layout, items) = largest(limit)?;
                (layout, promise(items))
            }
            (None, None) => {
                return Err(refuse(
                    "say how large: items(n per window) with rate(p), or bytes(b) with rate(p)".to_string(),
                ));
            }
        };
        // A promise is kept or not made.
        let kept = ring_rate(layout.expected_rate(generation_promise(&promise, &rule).capacity), generations);
        if kept > rate * KEPT {
            return Err(refuse(format!("no ring of this shape keeps a rate of {rate:e}: it would be {kept:e}")));
        }
        Ok((rule, layout, promise))
    }

    /// The memory that [`build`](Self::build) would take for all generations, in bytes: all its refusals are made, and nothing is
    /// allocated.
    pub fn bytes_needed(&self) -> Result<u64> {
        let (rule, layout, _) = self.resolve()?;
        Ok((layout.words() * 8).saturating_mul(rule.ring() as u64))
    }

    /// The filter, or why there is none.
    pub fn build(self) -> Result<Rotating> {
        let (rule, layout, promise) = self.resolve()?;
        let each = generation_promise(&promise, &rule);
        let contract = self.wish.contract;
        let empty = (0..rule.ring()).map(|_| Blocked::empty(layout, contract.clone(), each));
        let generations = empty.collect::<Result<Vec<_>>>()?;
        Rotating::from_parts(contract, promise, rule, RotatingState::start(&rule), generations)
    }

    /// The filter for many threads at once, or why there is none.
    pub fn build_shared(self) -> Result<Rotating<Shared>> {
        self.build()?.into_shared()
    }
}
