//! At most so many visits in any window: a rotating filter remembers who came, and only who comes again is counted.
//!
//! ```text
//!  a visit ──▶ has a counter? ──yes──▶ sum of its slices below the limit? ──yes──▶ passes, one more in the slice of now
//!                   │ no                                    └──no───▶ turned away
//!                   ▼
//!             filter: certainly not within the window ──▶ passes, and is in the filter now: no counter
//!                   │ maybe
//!                   ▼
//!             a counter that begins at 2: the visit that nobody counted, and this one
//! ```
//!
//! **Why nobody passes more often than the limit in any window W.** A visit passes without being counted only if the filter
//! says "certainly not" and there is no counter. The filter keeps a visit for W at least, a counter keeps it in its
//! slices for W at least: so there was no other within W before. Of all visits that pass in a span of W only the first
//! can be uncounted, and the counter that the second one gets begins with it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use bloomgate::{Error, Rotating, Secret};

/// Generations of the filter's window, and slices of a counter's: something is kept for up to a quarter of the window longer.
const GENERATIONS: u32 = 4;
/// A span as long as the window touches one slice more than it has.
const SLICES: usize = GENERATIONS as usize + 1;

/// What a limiter is made for.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Visits that pass within a window, 2 or more.
    pub visits: u32,
    /// The window.
    pub window: Duration,
    /// Different visitors that come within a window.
    pub visitors: u64,
    /// The share of first visits that cost a counter.
    pub rate: f64,
    /// The most counters at once: memory is bounded, whoever comes.
    pub counters: usize,
}

/// What becomes of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Passes. Certainly the first within the window, and nobody counts it.
    First,
    /// Passes, as so many within the window.
    Within(u32),
    /// Turned away: the limit is reached.
    Over,
    /// Turned away: it would have to be counted, and there is no room for another counter.
    Crowded,
}

impl Verdict {
    /// Whether the visit passes.
    #[must_use]
    pub fn passes(self) -> bool {
        matches!(self, Self::First | Self::Within(_))
    }
}

/// The visits of one visitor that passed, by slices of the window.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// Slice `n` is at `n` modulo their number.
    visits: [u32; SLICES],
    /// The slice that was counted in last.
    newest: u64,
}

impl Counter {
    fn begin(slice: u64, visits: u32) -> Self {
        let mut counter = Self { visits: [0; SLICES], newest: slice };
        counter.visits[(slice % SLICES as u64) as usize] = visits;
        counter
    }

    /// Whether all its visits are out of the window.
    fn is_over(&self, slice: u64) -> bool {
        slice - self.newest >= SLICES as u64
    }

    /// Forgets the slices that are out of the window; the visits in the others.
    fn at(&mut self, slice: u64) -> u32 {
        for passed in self.newest + 1..=slice.min(self.newest + SLICES as u64) {
            self.visits[(passed % SLICES as u64) as usize] = 0;
        }
        self.newest = slice;
        self.visits.iter().sum()
    }
}

/// The limiter: one for a service, or one for each of its machines.
#[derive(Debug)]
pub struct Limiter {
    limits: Limits,
    seen: Rotating,
    counters: HashMap<u128, Counter>,
    slice_ns: u128,
    now: Duration,
    /// The slice in which counters that are over were taken away last.
    swept: u64,
}

impl Limiter {
    /// A limiter. Visitors are hashed under the secret, so that nobody can choose addresses that fill the filter.
    pub fn new(limits: Limits, secret: &Secret) -> Result<Self, Box<dyn std::error::Error>> {
        if limits.visits < 2 {
            let what = format!(
                "a limit of {} visits: 2 or more can be counted. For one visit in a window take the filter alone, and \
                 know that a wrong \"maybe\" then turns away somebody who never came",
                limits.visits
            );
            return Err(what.into());
        }
        let seen = Rotating::builder()
            .window(limits.window)
            .generations(GENERATIONS)
            .items(limits.visitors)
            .rate(limits.rate)
            .keys::<u128>()
            .secret(secret)
            .build()?;
        let slice_ns = limits.window.as_nanos().div_ceil(u128::from(GENERATIONS));
        Ok(Self { limits, seen, counters: HashMap::new(), slice_ns, now: Duration::ZERO, swept: 0 })
    }

    /// A visit, at a time since any beginning: best since an `Instant`, which nobody sets. A reading that is earlier than
    /// the last is waited out: the window stands still, and nothing is forgotten early.
    pub fn visit(&mut self, address: IpAddr, now: Duration) -> Result<Verdict, Error> {
        self.now = self.now.max(now);
        self.seen.advance(self.now);
        let slice = (self.now.as_nanos() / self.slice_ns) as u64;
        if slice != self.swept {
            self.counters.retain(|_, counter| !counter.is_over(slice));
            self.swept = slice;
        }
        let visitor = visitor(address);
        if let Some(counter) = self.counters.get_mut(&visitor) {
            let passed = counter.at(slice);
            if passed >= self.limits.visits {
                return Ok(Verdict::Over);
            }
            if passed > 0 {
                counter.visits[(slice % SLICES as u64) as usize] += 1;
                return Ok(Verdict::Within(passed + 1));
            }
            // It was turned away until all its visits were out of the window.
            self.counters.remove(&visitor);
        }
        if self.seen.insert(&visitor)? {
            return Ok(Verdict::First);
        }
        if self.counters.len() >= self.limits.counters {
            return Ok(Verdict::Crowded);
        }
        self.counters.insert(visitor, Counter::begin(slice, 2));
        Ok(Verdict::Within(2))
    }

    /// How many visitors are counted.
    #[must_use]
    pub fn counters(&self) -> usize {
        self.counters.len()
    }

    /// The filter: its size, and the rate it has now.
    #[must_use]
    pub fn filter(&self) -> &Rotating {
        &self.seen
    }
}

/// Who is meant by an address: an IPv4 address, also one in IPv6's clothes, or the first 64 bits of an IPv6 address, since
/// a single customer has all the others.
#[must_use]
pub fn visitor(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => 0xffff_0000_0000 | u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}
