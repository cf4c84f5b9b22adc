//! BG.CREATE: an empty filter of any kind that takes adds.

use bloomgate::{Algorithm, Kind, WhenFull};
use bloomgate_command::{Create, Refusal, Reply};

use super::super::call::{Call, Outcome};
use super::existing;
use crate::engine::contracts::DEFAULT;
use crate::engine::entry::Maker;
use crate::engine::recipe::{Hashing, Recipe};

/// Makes the filter; nothing is allocated before everything is checked.
pub fn create(call: &mut Call<'_, '_, '_>, name: &[u8], wish: &Create<'_>) -> Outcome {
    let engine = call.engine();
    if engine.find(name).is_some() {
        return Err(Refusal::ITEM_EXISTS.into());
    }
    let recipe = match wish.like {
        Some(other) => alike(existing(call, other)?.recipe(), wish)?,
        None => {
            let kind = wish.kind.ok_or_else(|| Refusal::err("BG.CREATE needs KIND, or LIKE another filter"))?;
            fresh(kind, wish, hashing(call, wish))?
        }
    };
    let new_contract = recipe.hashing.algorithm.is_keyed() && !engine.contracts.knows(&recipe.hashing.contract);
    let Hashing { contract, epoch, .. } = recipe.hashing.clone();
    if new_contract {
        engine.check_new_contract(&contract)?;
    }
    let prepared = engine.prepare(name, recipe, Maker::Bg)?;
    call.alone(|permit| {
        // Somebody was faster: no contract begins for a filter that is not made.
        let begun = permit.find(name).and_then(|found| match found {
            None if new_contract && !engine.contracts.knows(&contract) => {
                permit.begin_epoch(&contract, epoch).map(drop)
            }
            _ => Ok(()),
        });
        if let Err(refusal) = begun {
            engine.abandon(prepared);
            return Err(refusal);
        }
        permit.create(prepared).map(|entry| ((), entry.touched()))
    })?;
    Ok(Reply::Ok)
}

/// How the keys of a new filter are hashed: keyed by a contract's secret, unless somebody wants it otherwise.
fn hashing(call: &Call<'_, '_, '_>, wish: &Create<'_>) -> Hashing {
    match wish.hash {
        Some(algorithm) if !algorithm.is_keyed() => {
            Hashing { algorithm, seed: wish.seed.unwrap_or(0), contract: String::new(), epoch: 0 }
        }
        algorithm => Hashing {
            algorithm: algorithm.unwrap_or(Algorithm::SipHash13),
            ..call.core.engine.contracts.keyed(&call.contract(wish.contract.unwrap_or(DEFAULT)))
        },
    }
}

/// What is asked for, of this kind.
fn fresh(kind: Kind, wish: &Create<'_>, hashing: Hashing) -> Result<Recipe, Refusal> {
    let is_chain = matches!(kind, Kind::Scalable | Kind::GrowingCuckoo);
    if !is_chain && wish.capacity.is_none() && wish.bytes.is_none() {
        return Err(Refusal::err(format_args!(
            "a {kind} filter has a fixed size: say CAPACITY (how many items) or BYTES (how much memory)"
        )));
    }
    let mut recipe = Recipe::new(kind, wish.capacity.unwrap_or(0), wish.rate.unwrap_or(0.0), hashing);
    change(&mut recipe, wish)?;
    Ok(recipe)
}

/// The recipe of another filter, with what is said otherwise.
pub(super) fn alike(other: &Recipe, wish: &Create<'_>) -> Result<Recipe, Refusal> {
    let mut recipe = match wish.kind {
        Some(kind) if kind != other.kind => {
            let mut recipe = Recipe::new(kind, other.capacity, other.rate, other.hashing.clone());
            if kind == Kind::Rotating {
                (recipe.window_ns, recipe.generations) = (other.window_ns, other.generations);
            }
            recipe
        }
        _ => other.clone(),
    };
    if let Some(capacity) = wish.capacity {
        (recipe.capacity, recipe.is_sized) = (capacity, true);
    }
    if let Some(rate) = wish.rate {
        (recipe.rate, recipe.fingerprint_bits) = (rate, 0);
    }
    match (wish.bytes, wish.capacity, wish.rate) {
        // Two of the three are said, or two of the other filter's are left: the third follows.
        (Some(_), Some(_), None) => recipe.rate = 0.0,
        (Some(_), None, _) => recipe.capacity = 0,
        (None, Some(_), _) | (None, _, Some(_)) if recipe.capacity > 0 => recipe.bytes = 0,
        _ => {}
    }
    change(&mut recipe, wish)?;
    Ok(recipe)
}

/// The options that only some kinds have.
fn change(recipe: &mut Recipe, wish: &Create<'_>) -> Result<(), Refusal> {
    let kind = recipe.kind;
    let only = |given: bool, word: &str, kinds: &[Kind]| match given && !kinds.contains(&kind) {
        true => {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            Err(Refusal::err(format_args!("{word} is an option of {} filters, not of {kind}", kinds.join(", "))))
        }
        false => Ok(()),
    };
    let sized = [
        Kind::Classic,
        Kind::Blocked,
        Kind::Partitioned,
        Kind::Counting,
        Kind::Rotating,
        Kind::Stable,
        Kind::Cuckoo,
        Kind::Quotient,
    ];
    only(wish.bytes.is_some(), "BYTES", &sized)?;
    only(wish.growth.is_some(), "GROWTH", &[Kind::Scalable, Kind::GrowingCuckoo])?;
    only(wish.window.is_some(), "WINDOW", &[Kind::Rotating])?;
    only(wish.generations.is_some(), "GENERATIONS", &[Kind::Rotating])?;
    only(wish.fingerprint.is_some(), "FINGERPRINT", &[Kind::Cuckoo])?;
    only(wish.counters.is_some(), "COUNTERS", &[Kind::Counting])?;
    if let Some(bytes) = wish.bytes {
        recipe.bytes = bytes;
    }
    if let Some(growth) = wish.growth {
        recipe.growth = growth;
    }
    if let Some(window) = wish.window {
        recipe.window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    }
    if kind == Kind::Rotating && recipe.window_ns == 0 {
        return Err(Refusal::err("a rotating filter needs WINDOW: how many seconds an item counts"));
    }
    if let Some(generations) = wish.generations {
        recipe.generations = generations;
    }
    if let Some(bits) = wish.fingerprint {
        if wish.rate.is_some() || wish.bytes.is_some() || recipe.capacity == 0 {
            return Err(Refusal::err("FINGERPRINT decides the rate and the memory: give it with CAPACITY alone"));
        }
        (recipe.fingerprint_bits, recipe.rate) = (bits, 0.0);
    }
    if let Some(bits) = wish.counters {
        recipe.counter_bits = bits;
    }
    if let Some(when_full) = wish.on_full {
        if kind == Kind::Quotient && when_full != WhenFull::Refuse {
            return Err(Refusal::err(
                "a quotient filter of the server has the memory of its CAPACITY and refuses when it is full: ask for \
                 more, or take a growing-cuckoo filter",
            ));
        }
        recipe.when_full = when_full;
    }
    Ok(())
}
