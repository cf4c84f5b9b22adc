//! What the foreign forms differ in: their header, where a key's cells are, and what that does to the rate.
//! Everything else they share is in [`super::Foreign`].

use std::fmt::Debug;

use crate::arch::words::ReadWords;
use crate::bits::Owned;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Algorithm, Contract, Digest};
use crate::kind::Kind;
use crate::math::estimate::Estimate;
use crate::promise::{Promise, WhenFull, Wish};

/// The shape of a foreign filter: the numbers of its header. Sealed: the five forms are all there are.
pub trait Shape: sealed::Shape {}

pub(crate) mod sealed {
    use super::*;

    #[allow(private_interfaces, private_bounds)]
    pub trait Shape: Clone + PartialEq + Debug + Send + Sync + 'static {
        const KIND: Kind;
        /// The one hash of the form.
        const ALGORITHM: Algorithm;
        /// Whether an insert always adds a copy, and refuses by itself when there is no room.
        const COPIES: bool = false;

        /// The header as the form writes it: the numbers of this shape and nothing else.
        fn header(&self) -> Vec<u8>;
        /// The shape of a header, checked.
        fn from_header(header: &[u8]) -> Result<Self>;

        /// The words that hold the cells.
        fn words(&self) -> u64;
        /// The bits of the last word that are always zero.
        fn spare(&self) -> u64 {
            0
        }
        /// Bits, or slots for fingerprints.
        fn cells(&self) -> u64;
        /// How many of them are in use.
        fn set_cells<W: ReadWords>(&self, words: W) -> u64 {
            (0..words.count()).map(|at| u64::from(words.load(at).count_ones())).sum()
        }

        /// The keys the header says there are.
        fn items(&self) -> Option<u64> {
            None
        }
        /// The keys the header says there is room for.
        fn capacity(&self) -> Option<u64> {
            None
        }
        fn expected_rate(&self, items: u64) -> f64;
        fn estimated_rate<W: ReadWords>(&self, words: W) -> f64;
        fn approximate_count<W: ReadWords>(&self, words: W) -> Estimate;

        /// Calls `visit` with every bit of a key until it says false; whether it never did.
        fn each_bit(&self, digest: Digest, visit: impl FnMut(u64) -> bool) -> bool;

        fn contains<W: ReadWords>(&self, words: W, digest: Digest) -> bool {
            self.each_bit(digest, |bit| words.load((bit >> 6) as usize) >> (bit & 63) & 1 == 1)
        }
        /// Calls `visit` with every word that a lookup may read until it says false; whether it never did.
        fn each_word(&self, digest: Digest, mut visit: impl FnMut(usize) -> bool) -> bool {
            self.each_bit(digest, |bit| visit((bit >> 6) as usize))
        }
        /// Inserts; true if the key was certainly new.
        fn insert(&mut self, store: &mut Owned, digest: Digest) -> Result<bool> {
            Ok(set_bits(store.as_mut_slice(), |visit| self.each_bit(digest, visit)))
        }
        /// The most words that an insert of this key may add.
        fn growth<W: ReadWords>(&self, _words: W, _digest: Digest) -> u64 {
            0
        }
        /// Forgets what the header counts, after the cells were forgotten.
        fn clear(&mut self) {}
    }
}

/// What every shape tells of itself, beside its own numbers.
macro_rules! shape_numbers {
    ($shape:ty) => {
        impl $shape {
            /// The header as the form writes it: all of this shape, and all that is saved of a filter beside its words,
            /// its contract and its promise.
            #[must_use]
            pub fn header(&self) -> Vec<u8> {
                $crate::foreign::shape::sealed::Shape::header(self)
            }

            /// The shape of such a header, checked.
            pub fn from_header(header: &[u8]) -> $crate::error::Result<Self> {
                <Self as $crate::foreign::shape::sealed::Shape>::from_header(header)
            }

            /// The words of 64 bits that hold the cells.
            #[must_use]
            pub fn words(&self) -> u64 {
                $crate::foreign::shape::sealed::Shape::words(self)
            }

            /// The expected rate with so many different keys.
            #[must_use]
            pub fn expected_rate(&self, items: u64) -> f64 {
                $crate::foreign::shape::sealed::Shape::expected_rate(self, items)
            }

            /// The bits of the last word that are always zero.
            pub(crate) fn spare(&self) -> u64 {
                $crate::foreign::shape::sealed::Shape::spare(self)
            }
        }
    };
}
pub(super) use shape_numbers;

/// Sets the bits that `each` visits; whether one of them was not set before.
pub(super) fn set_bits(words: &mut [u64], each: impl FnOnce(&mut dyn FnMut(u64) -> bool) -> bool) -> bool {
    let mut fresh = false;
    each(&mut |bit| {
        let (word, mask) = (&mut words[(bit >> 6) as usize], 1 << (bit & 63));
        fresh |= *word & mask == 0;
        *word |= mask;
        true
    });
    fresh
}

/// The contract that was wished for, if it is the one of the form.
pub(super) fn contract_of<T: sealed::Shape>(wish: &Wish) -> Result<Contract> {
    check_contract::<T>(&wish.contract)?;
    Ok(wish.contract.clone())
}

/// Refuses any hash but that of the form: another program could not ask the filter.
pub(super) fn check_contract<T: sealed::Shape>(contract: &Contract) -> Result<()> {
    contract.encoding().validate()?;
    if contract.algorithm() != T::ALGORITHM || contract.seed() != 0 {
        return Err(Error::new(
            ErrorKind::Contract,
            format!(
                "the form {} hashes with {} and no other ({contract} was asked for): leave hash, seed and secret out",
                T::KIND,
                T::ALGORITHM
            ),
        ));
    }
    Ok(())
}

/// Whether the filter goes on or refuses when it is full; forms of a fixed size cannot grow.
pub(super) fn fixed_size<T: sealed::Shape>(when_full: WhenFull) -> Result<WhenFull> {
    if when_full == WhenFull::Grow {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("a {} filter cannot grow; let it go on or refuse when full", T::KIND),
        ));
    }
    Ok(when_full)
}

/// The number of items, which is needed.
pub(super) fn items_of(wish: &Wish) -> Result<u64> {
    wish.capacity()?.ok_or_else(|| {
        Error::new(ErrorKind::InvalidParameter, "say how large: items(n) with rate(p); the form has no default")
    })
}

/// What a filter of this shape promises at a capacity. The forms prescribe their sizes, which at few keys miss the
/// asked rate: then the promise is what the shape keeps.
pub(super) fn promise_of<T: sealed::Shape>(shape: &T, capacity: u64, asked: f64, when_full: WhenFull) -> Promise {
    Promise { capacity, rate: asked.max(shape.expected_rate(capacity)).min(1.0), when_full }
}

/// A refusal of bytes that are not the form.
#[cold]
pub(super) fn not_the_form(kind: Kind, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::NotAFilter, format!("not a filter in the form {kind}: {what}; name the right form"))
}

/// A refusal of a header that contradicts itself.
#[cold]
pub(super) fn corrupt(kind: Kind, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the {kind} filter is damaged: {what}; take it from its source again"))
}

/// Refuses a payload that is longer or shorter than the header says.
pub(super) fn check_length(kind: Kind, wanted: u64, got: u64) -> Result<()> {
    if got < wanted {
        return Err(Error::new(
            ErrorKind::Truncated,
            format!(
                "the {kind} filter ends early: its header says {wanted} bytes follow, and {got} do; fetch it again"
            ),
        ));
    }
    if got > wanted {
        return Err(corrupt(kind, format_args!("its header says {wanted} bytes follow, and {got} do")));
    }
    Ok(())
}

/// Writes bytes into little-endian words, from a byte on.
pub(super) fn put_bytes(words: &mut [u64], at: usize, bytes: &[u8]) {
    let head = bytes.len().min((8 - at % 8) % 8);
    let (head, rest) = bytes.split_at(head);
    let (whole, tail) = rest.as_chunks::<8>();
    for (i, &byte) in head.iter().enumerate() {
        put_byte(words, at + i, byte);
    }
    let at = at + head.len();
    for (word, bytes) in words[at / 8..].iter_mut().zip(whole) {
        *word = u64::from_le_bytes(*bytes);
    }
    for (i, &byte) in tail.iter().enumerate() {
        put_byte(words, at + whole.len() * 8 + i, byte);
    }
}

/// Writes one byte of little-endian words.
#[inline]
pub(super) fn put_byte(words: &mut [u64], at: usize, byte: u8) {
    let shift = at % 8 * 8;
    let word = &mut words[at / 8];
    *word = *word & !(0xff << shift) | u64::from(byte) << shift;
}

/// Reads one byte of little-endian words.
#[inline]
pub(super) fn byte_at<W: ReadWords>(words: W, at: usize) -> u8 {
    (words.load(at / 8) >> (at % 8 * 8)) as u8
}

/// The first bytes of little-endian words.
pub(super) fn append_bytes<W: ReadWords>(words: W, from: usize, len: usize, out: &mut Vec<u8>) {
    let mut at = from;
    while at < from + len {
        if at.is_multiple_of(8) && from + len - at >= 8 {
            out.extend_from_slice(&words.load(at / 8).to_le_bytes());
            at += 8;
        } else {
            out.push(byte_at(words, at));
            at += 1;
        }
    }
}

/// The textbook rate of `bits` bits and `hashes` probes a key, for shapes whose exact rate would take long.
pub(super) fn textbook(bits: u64, hashes: u32, items: u64) -> f64 {
    if items == 0 {
        return 0.0;
    }
    if bits <= 1 {
        return 1.0;
    }
    let (hashes, bits) = (f64::from(hashes), bits as f64);
    (-(items as f64 * hashes * (-1.0 / bits).ln_1p()).exp_m1()).powf(hashes).min(1.0)
}

/// The rate of `bits` bits and `hashes` probes: exact where that takes less than a millisecond.
pub(super) fn plain_rate(bits: u64, hashes: u32, items: u64) -> f64 {
    if hashes <= 64 { crate::math::classic::rate(bits, hashes, items) } else { textbook(bits, hashes, items) }
}

/// The rate of probes in equal strides (`start + i · stride`, modulo the bits), as these forms have them: that of
/// independent probes, and what equal strides add in small arrays (they vanish as the array grows: Kirsch and
/// Mitzenmacher, "Less hashing, same performance", 2008).
///
/// - A stride that goes around in few steps visits few bits: `q` of them for `phi(q)` strides of all, if `q` divides
///   the bits. Only where nothing else wraps: sums that wrap at 2^64 before they are reduced (RedisBloom, Guava) break
///   the circle.
/// - A stranger whose start and stride are those of a key, forwards, backwards or a few steps off, shares a run of
///   bits with it.
///
/// BFv1 with 1,000 keys at 1e-4 measures 1.42e-4, where independent probes would have 1.00e-4.
pub(super) fn striding_rate(bits: u64, hashes: u32, items: u64, wraps: bool) -> f64 {
    let independent = plain_rate(bits, hashes, items);
    if items == 0 || bits <= 1 {
        return independent;
    }
    let (m, n) = (bits as f64, items as f64);
    let fill = -(n * f64::from(hashes) * (-1.0 / m).ln_1p()).exp_m1();
    let few: f64 = (1..u64::from(hashes).min(64))
        .filter(|&steps| !wraps && bits.is_multiple_of(steps))
        .map(|steps| strides_of(steps) as f64 / m * fill.powi(steps as i32))
        .sum();
    let steps_off: f64 = (1..hashes.min(64)).map(|steps| fill.powi(steps as i32)).sum();
    (independent + few + 2.0 * n / (m * m) * (1.0 + 2.0 * steps_off)).min(1.0)
}

/// How many strides go around in so many steps: the numbers up to it that share no divisor with it.
fn strides_of(steps: u64) -> usize {
    let common = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (1..=steps).filter(|&number| common(number, steps) == 1).count()
}

/// The keys at which half the bits are set: what a form that does not say was probably made for.
pub(super) fn half_full(bits: u64, hashes: u32) -> u64 {
    ((bits as f64 * std::f64::consts::LN_2 / f64::from(hashes)) as u64).max(1)
}
