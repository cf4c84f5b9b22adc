//! What a filter is asked for and promises, whatever its kind: how many keys, at what rate, and what happens past that.

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Contract;
use crate::kind::Kind;

/// What an insert does when the filter holds what it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// Take the key all the same: no key is ever lost, and the rate rises above the promise.
    #[doc(alias = "saturate")]
    GoOn,
    /// Refuse the key with [`ErrorKind::Full`]: the rate stays, and the key is not in.
    #[doc(alias = "nonscaling")]
    Refuse,
    /// Open another stage (kinds that grow).
    Grow,
}

/// What became of one key of a batch (`insert_each`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Insertion {
    /// It is in now, and certainly was not before.
    New,
    /// It is in, and may have been before; kinds that count copies have taken one more.
    Known,
    /// It was refused, and nothing changed: there is no room for it, or for one more copy where copies are
    /// [exact](crate::cuckoo::CopyRule::Exact), and the filter does not grow or go on.
    Full,
}

impl Insertion {
    /// The outcome of a single insert; refusals for other reasons stay refusals.
    pub(crate) fn of(inserted: Result<bool>) -> Result<Self> {
        match inserted {
            Ok(true) => Ok(Self::New),
            Ok(false) => Ok(Self::Known),
            Err(error) if error.kind() == ErrorKind::Full => Ok(Self::Full),
            Err(error) => Err(error),
        }
    }

    /// Whether the key was taken, and is in now.
    #[must_use]
    pub fn is_in(self) -> bool {
        self != Self::Full
    }
}

/// `insert_each` of the kinds that have one writer at a time: one insert after the other.
macro_rules! insert_each_in_turn {
    () => {
        /// Inserts many digests and says of each what became of it: `outcomes[i]` is that of `digests[i]`, and both must
        /// be of one length. A key that finds no room does not keep those after it out.
        pub fn insert_each(
            &self,
            digests: &[$crate::hash::Digest],
            outcomes: &mut [$crate::promise::Insertion],
        ) -> $crate::error::Result<()> {
            $crate::hash::digests::check_lengths(digests.len(), outcomes.len())?;
            for (&digest, outcome) in digests.iter().zip(outcomes) {
                *outcome = $crate::promise::Insertion::of(self.insert_digest(digest))?;
            }
            Ok(())
        }
    };
}
pub(crate) use insert_each_in_turn;

/// Writers that may be at work at once: a batch is let in whole only while there is room for so many of them, so that
/// they come no further past the capacity together than one key each.
pub(crate) const WRITERS: u64 = 16;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Promise {
    /// Keys that keep the rate.
    pub(crate) capacity: u64,
    /// The rate to keep.
    pub(crate) rate: f64,
    /// What happens past the capacity.
    pub(crate) when_full: WhenFull,
}

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
        pub fn when_full(mut self, when_full: $crate::promise::WhenFull) -> Self {
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

/// What every filter says of its promise, from fields of these names.
macro_rules! kept {
    ($($what:ident),*) => {
        $($crate::promise::kept!(@$what);)*
    };
    (@contract) => {
        /// How keys become digests.
        #[must_use]
        pub fn contract(&self) -> &$crate::hash::Contract {
            &self.contract
        }
    };
    (@promise) => {
        pub(crate) fn promise(&self) -> $crate::promise::Promise {
            self.promise
        }
    };
    (@when_full) => {
        /// What an insert does past the capacity.
        #[must_use]
        pub fn when_full(&self) -> $crate::promise::WhenFull {
            self.promise.when_full
        }
    };
    (@promised_rate) => {
        /// The rate that was asked for: kept while the filter holds no more than its capacity.
        #[must_use]
        pub fn promised_rate(&self) -> f64 {
            self.promise.rate
        }
    };
    (@built_once) => {
        /// How many different keys the set has, exactly.
        #[must_use]
        pub fn len(&self) -> u64 {
            self.len
        }

        /// How many keys the filter was made for: those it has.
        #[must_use]
        pub fn capacity(&self) -> u64 {
            self.len
        }

        /// How many more keys fit: none.
        #[must_use]
        pub fn remaining(&self) -> u64 {
            0
        }

        /// Whether the filter holds what it was made for: always.
        #[must_use]
        pub fn is_full(&self) -> bool {
            true
        }

        /// What an insert would do: there is none.
        #[must_use]
        pub fn when_full(&self) -> $crate::promise::WhenFull {
            $crate::promise::WhenFull::Refuse
        }

        /// The exact expected rate: 2 to the minus bits that a key must match, at most what was asked for; 0 for no keys.
        #[must_use]
        pub fn expected_rate(&self) -> f64 {
            self.shape.expected_rate(self.len)
        }

        /// The same: what the bits hold does not change it.
        #[must_use]
        pub fn estimated_rate(&self) -> f64 {
            self.expected_rate()
        }

        /// How many different keys the set has: known exactly, so the interval is one number.
        #[must_use]
        pub fn approximate_count(&self) -> $crate::math::estimate::Estimate {
            let keys = self.len as f64;
            $crate::math::estimate::Estimate { value: keys, low: keys, high: Some(keys) }
        }
    };
    (@is_empty) => {
        /// Whether there is no key in it.
        #[must_use]
        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }
    };
}
pub(crate) use kept;

#[cold]
pub(crate) fn full(kind: Kind, capacity: u64) -> Error {
    Error::new(
        ErrorKind::Full,
        format!(
            "the {kind} filter holds the {capacity} keys it was made for and refuses more; build a larger one, let it \
             go on at a rising rate, or use a kind that grows"
        ),
    )
}

#[cold]
pub(crate) fn half_changed(kind: Kind) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("a change of the {kind} filter ended half-way: it answers \"maybe\" and is not copied; build it again"),
    )
}
