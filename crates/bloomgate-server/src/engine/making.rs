//! How filters are made, kept once for all that are made alike.
//!
//! A recipe, the contract with its key and the shape of the first stage are 400 bytes; of a million filters, one for each
//! user, they are the same. So filters hold them together, and what working them out takes (three derivations of the
//! secret, a search for the shape) is done once.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bloomgate::bloom::Sprout;
use bloomgate::{AnyFilter, Contract, Kind};
use bloomgate_command::Refusal;

use super::entry::Maker;
use super::recipe::Recipe;
use super::record::put_maker;

/// What filters that are made alike have in common.
#[derive(Debug)]
pub struct Making {
    /// How they are made.
    pub recipe: Recipe,
    /// Whose commands made them.
    pub maker: Maker,
    /// Their contract and shape, if they begin as small ones.
    pub sprout: Option<Sprout>,
}

/// So many are kept, more than there are namespaces, each of which has a contract of its own; beyond them filters have their
/// recipe to themselves and are not small, so that who asks for a million different ones pays for each.
const KEPT: usize = 16_384;

/// All that are in use.
#[derive(Debug, Default)]
pub struct Makings(RwLock<HashMap<Box<[u8]>, Arc<Making>>>);

impl Makings {
    /// The making of a recipe; with its [`Sprout`] if it gives small filters. `contract` is asked for the first time only.
    pub fn get(
        &self,
        recipe: Recipe,
        maker: Maker,
        contract: impl FnOnce(&Recipe) -> Result<Contract, Refusal>,
    ) -> Result<Arc<Making>, Refusal> {
        if !may_be_small(&recipe) {
            return Ok(Arc::new(Making { recipe, maker, sprout: None }));
        }
        let mut key = Vec::with_capacity(128);
        put_maker(&mut key, maker);
        recipe.put(&mut key);
        if let Some(making) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&*key) {
            return Ok(making.clone());
        }
        let contract = contract(&recipe)?;
        let small = recipe.bytes_needed(contract.clone())? <= Sprout::MOST_BYTES;
        let mut making = Making { recipe, maker, sprout: None };
        if !small {
            return Ok(Arc::new(making));
        }
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.retain(|_, making| Arc::strong_count(making) > 1);
        }
        if kept.len() >= KEPT {
            return Ok(Arc::new(making));
        }
        if let AnyFilter::Scalable(chain) = making.recipe.build(contract)? {
            making.sprout = Sprout::of(&chain);
        }
        let making = Arc::new(making);
        if making.sprout.is_some() {
            kept.insert(key.into(), making.clone());
        }
        Ok(making)
    }
}

/// Whether it is worth a look: a key takes 72 bits at the least rate.
fn may_be_small(recipe: &Recipe) -> bool {
    recipe.kind == Kind::Scalable && recipe.capacity <= 8 * Sprout::MOST_BYTES
}
