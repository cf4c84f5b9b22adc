//! What a quotient filter promises, held against a plain multiset of fingerprints.

mod hostile;
mod model;
mod promise;
mod threads;

use super::*;
use crate::hash::Digest;
use crate::math::dice::Dice;

/// A digest that stands for a fingerprint: the least hash that is scaled to it.
fn digest_of(shape: &QuotientShape, fingerprint: u64) -> Digest {
    let all = u128::from(shape.fingerprints());
    let lo = (u128::from(fingerprint) << 64).div_ceil(all) as u64;
    assert_eq!(crate::arch::scale(lo, shape.fingerprints()), fingerprint);
    Digest::new(lo, 0)
}

fn random(dice: &mut Dice) -> Digest {
    Digest::new(dice.next(), dice.next())
}

fn list(filter: &Quotient) -> Vec<(u64, u64)> {
    filter.fingerprints().collect()
}
