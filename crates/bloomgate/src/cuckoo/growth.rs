//! How a chain of cuckoo tables grows: the shape of each stage, its share of the rate, and the builder that asks.

use super::{CopyRule, Cuckoo, CuckooShape, GrowingCuckoo};
use crate::bits::{Owned, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::math::cuckoo::{LEADING, MAX_BUCKETS, MAX_WIDTH, buckets_for, capacity_of, width_for};
use crate::math::scalable::{Tightening, stage_rate};
use crate::promise::{DEFAULT_RATE, MAX_ITEMS, Promise, WhenFull, Wish, wish_setters};

/// The most stages of a chain, after which it refuses.
pub const MAX_STAGES: usize = crate::chain::MOST;
/// Keys of the first stage when no number is given: 19 KB at 1 %.
pub const DEFAULT_FIRST: u64 = 10_000;
/// Growth when none is asked for.
pub const DEFAULT_GROWTH: f64 = 2.0;

/// The shares of all stages may come to this much of the rate: 0.1 % more, for the least rates alone.
const SHARED_OUT: f64 = 1.001;

/// How a chain grows: what was asked for, and never changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Growth {
    /// Keys of the first stage.
    pub(crate) first: u64,
    /// How much larger each stage is: a power of two.
    pub(crate) factor: f64,
    /// How the rate is shared out.
    pub(crate) tightening: Tightening,
    /// What becomes of copies, in every stage.
    pub(crate) copies: CopyRule,
}

impl Growth {
    /// Whether a chain can grow so and keep the rate.
    pub(crate) fn check(&self, rate: f64) -> Result<()> {
        let Self { factor, tightening, .. } = *self;
        if !(2.0..=32_768.0).contains(&factor) || factor.fract() != 0.0 || !(factor as u64).is_power_of_two() {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "each stage of a cuckoo chain is 2, 4, 8 and so on up to 32768 times as large as the one before, not \
                     {factor}: a removal finds the right stage only if sizes grow by a power of two; 2 is the default"
                ),
            ));
        }
        if !tightening.is_valid() {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "{tightening:?} does not share out a rate: a ratio lies between 0 and 1, both excluded, and a \
                     plateau has 1 to 64 stages; the default is 12 stages, then 0.7"
                ),
            ));
        }
        let sum: f64 = (0..MAX_STAGES as u32).map(|at| stage_rate(rate, tightening, at)).sum();
        if sum > rate * SHARED_OUT {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!(
                    "a rate of {rate:e} cannot be shared out over {MAX_STAGES} stages, whose rates go down to 1e-15 \
                     each; ask for 1e-10 or more, or use a filter of a fixed size"
                ),
            ));
        }
        Ok(())
    }

    /// How many keys a chain of this capacity must hold before stage `at` is opened: a key that finds no room before that
    /// is one of a crowd with the same two buckets, against which no number of stages helps.
    ///
    /// Eight copies fill both buckets of a key, so where copies are exact two keys that share a bucket are such a crowd:
    /// in a table for a million that is a matter of some hundred keys with eight copies each. Those must find room. So the
    /// chain may grow to nine times its first stage for them, and then whenever a slot in 64 is used; where every key had
    /// eight copies a slot in 16 was (the tests). A crowd that a stranger made cannot go on for ever.
    pub(crate) fn least(&self, at: usize, capacity: u64) -> u64 {
        match self.copies {
            CopyRule::Stick => capacity / 4,
            CopyRule::Exact => {
                let all: f64 = (0..=at as i32).map(|stage| self.factor.powi(stage)).sum();
                if all <= 9.0 { 0 } else { capacity / 64 }
            }
        }
    }

    /// The shape and the promise of a stage of a chain that keeps `rate`.
    pub(crate) fn stage(&self, rate: f64, at: usize) -> Result<(CuckooShape, Promise)> {
        let too_large = || {
            Error::new(
                ErrorKind::Full,
                format!("stage {at} of the chain would be larger than 2^40 keys, the most a filter holds"),
            )
        };
        let sized = |at: u32| {
            let buckets = buckets_for(self.first).checked_mul((self.factor as u64).checked_pow(at)?)?;
            // Larger tables can be filled closer to the brim, so later stages hold a little more than their factor.
            let capacity = if at == 0 { self.first } else { capacity_of(buckets) };
            Some((capacity, buckets)).filter(|_| buckets <= MAX_BUCKETS && capacity <= MAX_ITEMS)
        };
        // No stage is narrower than one before it, even where its share of the rate is larger.
        let mut width = LEADING;
        for earlier in 0..=at as u32 {
            let (capacity, buckets) = sized(earlier).ok_or_else(too_large)?;
            let share = stage_rate(rate, self.tightening, earlier);
            width = width.max(width_for(buckets, capacity, share).unwrap_or(MAX_WIDTH));
        }
        let (capacity, buckets) = sized(at as u32).ok_or_else(too_large)?;
        let share = stage_rate(rate, self.tightening, at as u32);
        let shape = CuckooShape::new(buckets, width)?.with_copies(self.copies);
        Ok((shape, Promise { capacity, rate: share, when_full: WhenFull::Refuse }))
    }
}

/// Makes a [`GrowingCuckoo`] filter. Setters never refuse; [`build`](GrowingCuckooBuilder::build) alone does.
#[derive(Debug, Clone)]
pub struct GrowingCuckooBuilder {
    wish: Wish,
    growth: f64,
    tightening: Tightening,
    copies: CopyRule,
}

impl GrowingCuckooBuilder {
    pub(super) fn new() -> Self {
        Self {
            wish: Wish::new(WhenFull::Grow),
            growth: DEFAULT_GROWTH,
            tightening: Tightening::default(),
            copies: CopyRule::Stick,
        }
    }

    wish_setters!();

    /// How much larger each stage is than the one before, a power of two: 2 unless said otherwise.
    #[doc(alias = "expansion")]
    #[must_use]
    pub fn growth(mut self, factor: f64) -> Self {
        self.growth = factor;
        self
    }

    /// How the rate is shared out over the stages.
    #[must_use]
    pub fn tightening(mut self, tightening: Tightening) -> Self {
        self.tightening = tightening;
        self
    }

    /// What becomes of a key that is inserted again and again: the fourth copy sticks unless said otherwise.
    #[must_use]
    pub fn copies(mut self, rule: CopyRule) -> Self {
        self.copies = rule;
        self
    }

    /// How the chain grows and what it promises; checked.
    fn resolve(&self) -> Result<(Growth, Promise)> {
        let first = self.wish.capacity()?.unwrap_or(DEFAULT_FIRST);
        let rate = self.wish.checked_rate()?.unwrap_or(DEFAULT_RATE);
        if self.wish.when_full == WhenFull::GoOn {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                "a cuckoo table cannot go on when it is full: there is no slot left for another key; let the chain grow, \
                 or refuse",
            ));
        }
        let growth = Growth { first, factor: self.growth, tightening: self.tightening, copies: self.copies };
        growth.check(rate)?;
        Ok((growth, Promise { capacity: first, rate, when_full: self.wish.when_full }))
    }

    /// The memory that [`build`](Self::build) would take for the first stage, in bytes: all its refusals are made, and nothing is
    /// allocated.
    pub fn bytes_needed(&self) -> Result<u64> {
        let (growth, promise) = self.resolve()?;
        Ok(growth.stage(promise.rate, 0)?.0.words() * 8)
    }

    /// The chain with its first stage, or why there is none.
    pub fn build(self) -> Result<GrowingCuckoo<Owned>> {
        let (growth, promise) = self.resolve()?;
        let (shape, stage) = growth.stage(promise.rate, 0)?;
        let stage = Cuckoo::empty(shape, self.wish.contract.clone(), stage)?;
        GrowingCuckoo::from_parts(self.wish.contract, promise, growth, vec![stage])
    }

    /// The chain for many threads at once, or why there is none.
    pub fn build_shared(self) -> Result<GrowingCuckoo<Shared>> {
        self.build()?.into_shared()
    }
}
