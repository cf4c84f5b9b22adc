//! How a filter is made: everything that was asked for, small enough for a log record, complete enough to make an
//! empty filter of the same shape again.

use std::time::Duration;

use bloomgate::bloom::CounterBits;
use bloomgate::cuckoo::CopyRule;
use bloomgate::math::cuckoo::buckets_for;
use bloomgate::math::scalable::Tightening;
use bloomgate::{
    Algorithm, AnyFilter, Blocked, Classic, Contract, Counting, Cuckoo, Error, GrowingCuckoo, Kind, Partitioned,
    Quotient, Rotating, Scalable, Stable, WhenFull,
};

use bloomgate_command::Refusal;

use super::budget::Fits;
use super::fields::{Fields, Malformed, Put};

/// How the keys of a filter are hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashing {
    /// The hash.
    pub algorithm: Algorithm,
    /// Its seed, for hashes that have one.
    pub seed: u64,
    /// The named contract whose secret keys it.
    pub contract: String,
    /// Which of that contract's secrets: each new one counts one up.
    pub epoch: u32,
}

/// Everything that was asked for when a filter was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// The kind.
    pub kind: Kind,
    /// Keys it is for; in chains, keys of the first stage; 0 when the memory decides.
    pub capacity: u64,
    /// False positives that may be; 0 for 1 %, or for the best that the memory gives.
    pub rate: f64,
    /// Memory instead of a capacity or a rate; 0 when not said.
    pub bytes: u64,
    /// How much larger each stage of a chain is than the one before.
    pub growth: f64,
    /// What happens when it is full.
    pub when_full: WhenFull,
    /// Whether somebody said how many keys there will be. Then the first stage of a chain has half of the rate (12.6 bits a
    /// key at 1 %) and the others share the rest; else all have about the same, for a chain that began at a default of 100
    /// keys will have many (18 bits a key in the first, but 16 at a thousand times its size instead of 24).
    pub is_sized: bool,
    /// The window of a rotating filter, in nanoseconds.
    pub window_ns: u64,
    /// Its generations; 0 is the library's choice.
    pub generations: u32,
    /// Width of fingerprints; 0 is what the rate needs.
    pub fingerprint_bits: u32,
    /// Width of counters; 0 is the library's choice.
    pub counter_bits: u32,
    /// The hash.
    pub hashing: Hashing,
}

/// The same setters on every builder: what was not said is the library's to choose.
macro_rules! sized {
    ($builder:expr, $recipe:expr, $contract:expr) => {{
        let mut builder = $builder.contract($contract);
        if $recipe.capacity > 0 {
            builder = builder.items($recipe.capacity);
        }
        if $recipe.rate > 0.0 {
            builder = builder.rate($recipe.rate);
        }
        builder
    }};
}

/// The same for kinds that can also be given their memory.
macro_rules! fitted {
    ($builder:expr, $recipe:expr, $contract:expr) => {{
        let mut builder = sized!($builder, $recipe, $contract);
        if $recipe.bytes > 0 {
            builder = builder.bytes($recipe.bytes);
        }
        builder
    }};
}

/// What to do with a builder once it is set up.
trait Finish {
    type Output;
    fn finish<B: Make>(self, builder: B) -> Result<Self::Output, Error>;
}

/// A builder of any kind.
trait Make {
    fn make(self) -> Result<AnyFilter, Error>;
    fn bytes(&self) -> Result<u64, Error>;
}

macro_rules! make {
    ($($builder:path),* $(,)?) => {
        $(impl Make for $builder {
            fn make(self) -> Result<AnyFilter, Error> {
                self.build().map(AnyFilter::from)
            }
            fn bytes(&self) -> Result<u64, Error> {
                self.bytes_needed()
            }
        })*
    };
}

make! {
    bloomgate::bloom::Builder<bloomgate::bloom::BlockedLayout>,
    bloomgate::bloom::Builder<bloomgate::bloom::ClassicLayout>,
    bloomgate::bloom::Builder<bloomgate::bloom::PartitionedLayout>,
    bloomgate::bloom::CountingBuilder,
    bloomgate::bloom::ScalableBuilder,
    bloomgate::bloom::RotatingBuilder,
    bloomgate::bloom::StableBuilder,
    bloomgate::cuckoo::CuckooBuilder,
    bloomgate::cuckoo::GrowingCuckooBuilder,
    bloomgate::quotient::QuotientBuilder,
}

struct Build;
impl Finish for Build {
    type Output = AnyFilter;
    fn finish<B: Make>(self, builder: B) -> Result<AnyFilter, Error> {
        builder.make()
    }
}

struct Measure;
impl Finish for Measure {
    type Output = u64;
    fn finish<B: Make>(self, builder: B) -> Result<u64, Error> {
        builder.bytes()
    }
}

impl Recipe {
    /// A recipe of a kind, with what nobody said.
    #[must_use]
    pub fn new(kind: Kind, capacity: u64, rate: f64, hashing: Hashing) -> Self {
        let when_full = match kind {
            Kind::Scalable | Kind::GrowingCuckoo => WhenFull::Grow,
            // A burst is no reason to lose keys of a window, and what decays is never full.
            Kind::Rotating | Kind::Stable => WhenFull::GoOn,
            // Of the server's filters only chains grow: their growth is charged to the budget before it happens.
            _ => WhenFull::Refuse,
        };
        Self {
            kind,
            capacity,
            rate,
            bytes: 0,
            growth: 2.0,
            when_full,
            is_sized: capacity > 0,
            window_ns: 0,
            generations: 0,
            fingerprint_bits: 0,
            counter_bits: 0,
            hashing,
        }
    }

    /// An empty filter. Cuckoo filters count copies exactly, up to eight: who adds is told of the ninth.
    ///
    /// Filters of a log that was written when the fourth copy would have stuck are made so too. No add of a fourth copy is
    /// in it, and up to three the two rules are the same; a filter that came as an image keeps the rule of its image.
    pub fn build(&self, contract: Contract) -> Result<AnyFilter, Refusal> {
        self.with_builder(contract, CopyRule::Exact, Build)
    }

    /// An empty filter for items of which nobody knows how often they come: in cuckoo filters the fourth copy sticks, and
    /// none is refused.
    pub fn build_for_repeats(&self, contract: Contract) -> Result<AnyFilter, Refusal> {
        self.with_builder(contract, CopyRule::Stick, Build)
    }

    /// The memory that [`build`](Self::build) would take, in microseconds and without taking it.
    pub fn bytes_needed(&self, contract: Contract) -> Result<u64, Refusal> {
        self.with_builder(contract, CopyRule::Exact, Measure)
    }

    /// What of it would fit into so many bytes: the capacity in whole hundreds, thousands and so on, to within a few
    /// hundredths. About 15 times [`bytes_needed`](Self::bytes_needed).
    #[must_use]
    pub fn within(&self, contract: &Contract, bytes: u64) -> Fits {
        let fits = |capacity: u64| {
            let smaller = Self { capacity, ..self.clone() };
            smaller.bytes_needed(contract.clone()).is_ok_and(|needed| needed <= bytes)
        };
        if self.bytes > 0 {
            return if bytes > 0 { Fits::Bytes(bytes) } else { Fits::Nothing };
        }
        if !fits(1) {
            return Fits::Nothing;
        }
        // By powers of two: a capacity of 2^40 is as near as one of 2^10.
        let (mut fit, mut too_many) = (0.0, (self.capacity.max(2) as f64).log2());
        while too_many - fit > 0.01 {
            let middle = (fit + too_many) / 2.0;
            if fits(middle.exp2() as u64) { fit = middle } else { too_many = middle }
        }
        let capacity = (fit.exp2() as u64).max(1);
        let step = 10u64.pow(capacity.ilog10().saturating_sub(1));
        let rounded = capacity / step * step;
        Fits::Capacity(if fits(rounded) { rounded } else { capacity })
    }

    fn with_builder<F: Finish>(&self, contract: Contract, copies: CopyRule, finish: F) -> Result<F::Output, Refusal> {
        let when_full = self.when_full;
        let made = match self.kind {
            Kind::Blocked => finish.finish(fitted!(Blocked::builder(), self, contract).when_full(when_full)),
            Kind::Classic => finish.finish(fitted!(Classic::builder(), self, contract).when_full(when_full)),
            Kind::Partitioned => finish.finish(fitted!(Partitioned::builder(), self, contract).when_full(when_full)),
            Kind::Counting => {
                let mut builder = fitted!(Counting::builder(), self, contract).when_full(when_full);
                if self.counter_bits > 0 {
                    let bits = CounterBits::from_bits(self.counter_bits).ok_or_else(|| {
                        Refusal::new(format!("ERR counters have 4, 8 or 16 bits, not {}", self.counter_bits))
                    })?;
                    builder = builder.counter_bits(bits);
                }
                finish.finish(builder)
            }
            Kind::Scalable => {
                let builder = sized!(Scalable::builder(), self, contract).tightening(self.shares());
                finish.finish(builder.when_full(when_full).growth(self.growth))
            }
            Kind::GrowingCuckoo => {
                let builder = sized!(GrowingCuckoo::builder().copies(copies), self, contract);
                finish.finish(builder.when_full(when_full).growth(self.growth))
            }
            Kind::Cuckoo => {
                let builder = Cuckoo::builder().copies(copies).contract(contract.clone()).when_full(when_full);
                finish.finish(match self.fingerprint_bits {
                    0 => fitted!(Cuckoo::builder().copies(copies), self, contract).when_full(when_full),
                    bits => builder.items(self.capacity).buckets(buckets_for(self.capacity)).fingerprint_bits(bits),
                })
            }
            Kind::Quotient => finish.finish(fitted!(Quotient::builder(), self, contract).when_full(when_full)),
            Kind::Rotating => {
                let mut builder = fitted!(Rotating::builder(), self, contract).when_full(when_full);
                builder = builder.window(Duration::from_nanos(self.window_ns));
                if self.generations > 0 {
                    builder = builder.generations(self.generations);
                }
                finish.finish(builder)
            }
            Kind::Stable => finish.finish(fitted!(Stable::builder(), self, contract).when_full(when_full)),
            other => {
                return Err(Refusal::new(format!(
                    "ERR a {other} filter is built from all its keys at once: use BG.BUILD, or load a file"
                )));
            }
        };
        made.map_err(|error| refused(&error))
    }

    /// How the stages of a chain share its rate: one that never grows has all of it in its only stage.
    fn shares(&self) -> Tightening {
        match (self.when_full, self.is_sized) {
            (WhenFull::Grow, false) => Tightening::default(),
            (WhenFull::Grow, true) => Tightening::Geometric(0.5),
            (WhenFull::Refuse | WhenFull::GoOn, _) => Tightening::Plateau { stages: 1, then: 0.0 },
        }
    }

    /// Appends the recipe to a record.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u16(self.kind.number());
        out.put_u64(self.capacity);
        out.put_u64(self.rate.to_bits());
        out.put_u64(self.bytes);
        out.put_u64(self.growth.to_bits());
        out.put_u8(match (self.when_full, self.is_sized) {
            (WhenFull::GoOn, _) => 0,
            (WhenFull::Refuse, _) => 1,
            (WhenFull::Grow, false) => 2,
            (WhenFull::Grow, true) => 3,
        });
        out.put_u64(self.window_ns);
        out.put_u32(self.generations);
        out.put_u32(self.fingerprint_bits);
        out.put_u32(self.counter_bits);
        out.put_u16(self.hashing.algorithm.number());
        out.put_u64(self.hashing.seed);
        out.put_bytes(self.hashing.contract.as_bytes());
        out.put_u32(self.hashing.epoch);
    }

    /// Reads a recipe from a record.
    pub fn get(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let wrong = |what| Malformed { what, left: 0 };
        let mut is_sized = true;
        Ok(Self {
            kind: Kind::from_number(fields.u16("a kind")?).ok_or(wrong("a known kind"))?,
            capacity: fields.u64("a capacity")?,
            rate: f64::from_bits(fields.u64("a rate")?),
            bytes: fields.u64("a size")?,
            growth: f64::from_bits(fields.u64("a growth")?),
            when_full: match fields.u8("what happens when full")? {
                0 => WhenFull::GoOn,
                1 => WhenFull::Refuse,
                grows @ (2 | 3) => {
                    is_sized = grows == 3;
                    WhenFull::Grow
                }
                _ => return Err(wrong("what happens when full")),
            },
            is_sized,
            window_ns: fields.u64("a window")?,
            generations: fields.u32("generations")?,
            fingerprint_bits: fields.u32("a width of fingerprints")?,
            counter_bits: fields.u32("a width of counters")?,
            hashing: Hashing {
                algorithm: Algorithm::from_number(fields.u16("an algorithm")?).ok_or(wrong("a known algorithm"))?,
                seed: fields.u64("a seed")?,
                contract: fields.text("a contract's name")?.to_owned(),
                epoch: fields.u32("an epoch")?,
            },
        })
    }
}

/// A refusal of the library in the words of a reply.
#[must_use]
pub fn refused(error: &Error) -> Refusal {
    Refusal::new(format!("ERR {error}"))
}
