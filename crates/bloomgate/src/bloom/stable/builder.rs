//! What a stable filter is asked for, and the shape that it comes to.

use super::shape::MOST_SWEPT;
use super::{Stable, StableShape};
use crate::error::{Error, ErrorKind, Result};
use crate::math::stable::{LINE_WORDS, MAX_LINES, TOP, lines_for, round_for, rows_for};
use crate::promise::{DEFAULT_RATE, KEPT, MAX_ITEMS, Promise, WhenFull, Wish, wish_setters};

/// Makes a [`Stable`] filter. Setters never refuse; [`build`](StableBuilder::build) alone does.
///
/// Say what you have, `.bytes(b).rate(p)`, and it remembers as many insertions as that allows; or what you need,
/// `.items(n).rate(p)` with the number of latest insertions to remember; or `.bytes(b).items(n)` for the best rate.
#[derive(Debug, Clone)]
pub struct StableBuilder {
    wish: Wish,
}

impl StableBuilder {
    pub(super) fn new() -> Self {
        Self { wish: Wish::new(WhenFull::GoOn) }
    }

    wish_setters!();

    /// The memory the cells may use, in bytes: 64 at least.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.wish.bits = Some(bytes.saturating_mul(8));
        self
    }

    /// The shape of so many lines at most for a rate, which remembers what it can.
    fn largest(lines: u64, rate: f64) -> Result<StableShape> {
        let per_key = lines_for(rate);
        let rows = lines / u64::from(per_key);
        let round = round_for(rows, per_key, rate).min(MAX_ITEMS);
        if round == 0 {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "room for {lines} lines of 64 bytes remembers nothing at a rate of {rate:e}, for which a key has \
                     {per_key}; give more memory or a higher rate"
                ),
            ));
        }
        StableShape::new(rows, per_key, round)
    }

    /// The shape of so many lines at most with the best rate for a round.
    fn best(lines: u64, round: u64) -> Result<StableShape> {
        let mut best: Option<StableShape> = None;
        for per_key in (1..=MAX_LINES).filter(|&per_key| u64::from(per_key) <= lines) {
            let rows = lines / u64::from(per_key);
            let words = rows * u64::from(per_key) * LINE_WORDS as u64;
            // Few keys in a large memory: it may as well remember more of them.
            let shape = StableShape::new(rows, per_key, round.max(words.div_ceil(MOST_SWEPT)))?;
            // One more line per key must at least halve the rate.
            if best.is_none_or(|best| shape.settled_rate() < best.settled_rate() * 0.5) {
                best = Some(shape);
            }
        }
        best.ok_or_else(|| {
            Error::new(ErrorKind::InvalidParameter, "a stable filter has at least one line of 64 bytes; give it more")
        })
    }

    fn resolve(&self) -> Result<(StableShape, Promise)> {
        if self.wish.when_full != WhenFull::GoOn {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                "a stable filter is never full: it goes on, and forgets the oldest; use a rotating or a fixed-size one \
                 to refuse",
            ));
        }
        let rate = self.wish.checked_rate()?;
        let asked = rate.unwrap_or(DEFAULT_RATE);
        let round = self.wish.capacity()?.map(|items| items.div_ceil(TOP - 1).max(1));
        let lines = self.wish.bits.map(|bits| bits / 512);
        let shape = match (round, lines) {
            (Some(round), None) => {
                let per_key = lines_for(asked);
                StableShape::new(rows_for(round, per_key, asked), per_key, round)?
            }
            (Some(round), Some(lines)) if rate.is_some() => {
                let per_key = lines_for(asked);
                let shape = StableShape::new(rows_for(round, per_key, asked), per_key, round)?;
                if shape.lines() > lines {
                    let best = Self::largest(lines, asked).map_or(0, |shape| shape.remembered());
                    return Err(Error::new(
                        ErrorKind::LimitExceeded,
                        format!(
                            "to remember {} insertions at a rate of {asked} takes {} bytes, {} are allowed; they \
                             remember {best} at that rate: ask for fewer items, a higher rate or more memory",
                            shape.remembered(),
                            shape.words() * 8,
                            lines * 64
                        ),
                    ));
                }
                shape
            }
            (Some(round), Some(lines)) => Self::best(lines, round)?,
            (None, Some(lines)) => Self::largest(lines, asked)?,
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    "say how large: bytes(b) with rate(p), or items(n) to remember with rate(p)",
                ));
            }
        };
        let settled = shape.settled_rate();
        let rate = match (rate, round, lines) {
            (None, Some(_), Some(_)) => settled,
            _ => asked,
        };
        // A promise is kept or not made.
        if settled > rate * KEPT {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("no stable filter of this size keeps a rate of {rate:e}: it would settle at {settled:e}"),
            ));
        }
        Ok((shape, Promise { capacity: shape.remembered(), rate, when_full: WhenFull::GoOn }))
    }

    /// The memory that [`build`](Self::build) would take for the cells, in bytes: all its refusals are made, and nothing is
    /// allocated.
    pub fn bytes_needed(&self) -> Result<u64> {
        Ok(self.resolve()?.0.words() * 8)
    }

    /// The filter, or why there is none.
    pub fn build(self) -> Result<Stable> {
        let (shape, promise) = self.resolve()?;
        Stable::empty(shape, self.wish.contract, promise)
    }
}
