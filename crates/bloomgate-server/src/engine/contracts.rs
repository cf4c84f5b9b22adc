//! Secrets of the filters: derived from one master secret, by the name of a contract and its epoch.
//!
//! Filters under one contract and epoch hash alike and can be merged. A new epoch is a new secret: filters made from
//! then on hash under it, those made before stay under theirs until they are rebuilt (BG.REKEY). What is written down
//! anywhere is a contract's name, its epochs and when each began; the secret itself is in the key file alone.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bloomgate::bloom::Sprout;
use bloomgate::{Algorithm, Contract, Secret};
use bloomgate_command::Refusal;

use super::entry::Maker;
use super::fields::{Fields, Malformed, Put};
use super::making::{Making, Makings};
use super::recipe::{Hashing, Recipe, refused};

/// The contract of filters that name none.
pub const DEFAULT: &str = "default";

/// Contracts by name.
#[derive(Debug)]
pub struct Contracts {
    master: Option<Secret>,
    /// When each epoch of a contract began, in milliseconds since 1970; the last is the one for new filters.
    epochs: RwLock<BTreeMap<String, Vec<u64>>>,
    /// What filters under them are made like.
    makings: Makings,
}

impl Contracts {
    /// Contracts under a master secret; without one every keyed filter is unavailable.
    #[must_use]
    pub fn new(master: Option<Secret>) -> Self {
        Self { master, epochs: RwLock::default(), makings: Makings::default() }
    }

    /// The id of the master secret, which may be shown.
    #[must_use]
    pub fn master_id(&self) -> Option<String> {
        self.master.as_ref().map(|secret| secret.id().to_string())
    }

    /// Whether filters that were made under the master secret of an id can answer here; why not.
    pub fn check_master(&self, made_under: &str) -> Result<(), String> {
        match self.master_id() {
            Some(given) if given != made_under => Err(format!(
                "the master secret that was given has the id {given}, and the filters of this folder were made under the one \
                 with the id {made_under}: none of them could answer. Nothing was changed; name the file of the right one \
                 with --master-key, or put it back as master.key"
            )),
            _ => Ok(()),
        }
    }

    /// The secret of a contract's epoch.
    #[must_use]
    pub fn secret(&self, name: &str, epoch: u32) -> Option<Secret> {
        // The name has no space in it, so no two pairs give one text.
        self.master.as_ref().map(|master| master.derive(&format!("contract {name} epoch {epoch}")))
    }

    /// The contract that a filter hashes under.
    pub fn contract(&self, hashing: &Hashing) -> Result<Contract, Refusal> {
        if !hashing.algorithm.is_keyed() {
            return Contract::new(hashing.algorithm, hashing.seed, None).map_err(|error| refused(&error));
        }
        let secret = self.secret(&hashing.contract, hashing.epoch).ok_or_else(|| {
            Refusal::new(
                "ERR the server has no master secret: give it the one it was started with before (--master-key)",
            )
        })?;
        Contract::new(hashing.algorithm, hashing.seed, Some(&secret)).map_err(|error| refused(&error))
    }

    /// What a filter of this recipe has in common with others, under the contract that the recipe names.
    pub fn making(&self, recipe: Recipe, maker: Maker) -> Result<Arc<Making>, Refusal> {
        self.makings.get(recipe, maker, |recipe| self.contract(&recipe.hashing))
    }

    /// The making of small filters that were made so before: theirs, if it is what it would be today, else one for them.
    #[must_use]
    pub fn making_as(&self, recipe: Recipe, maker: Maker, sprout: Sprout) -> Arc<Making> {
        let today = self.making(recipe.clone(), maker).ok().filter(|making| making.sprout.as_ref() == Some(&sprout));
        today.unwrap_or_else(|| Arc::new(Making { recipe, maker, sprout: Some(sprout) }))
    }

    /// How new filters hash under a contract: SipHash-1-3, its last epoch.
    #[must_use]
    pub fn keyed(&self, name: &str) -> Hashing {
        let epoch =
            self.epochs.read().unwrap_or_else(PoisonError::into_inner).get(name).map_or(1, |all| all.len() as u32);
        Hashing { algorithm: Algorithm::SipHash13, seed: 0, contract: name.to_owned(), epoch: epoch.max(1) }
    }

    /// Whether a contract of this name was used before.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.epochs.read().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// An epoch began; told twice it is the same one.
    pub fn begin(&self, name: &str, epoch: u32, created_ms: u64) {
        let mut epochs = self.epochs.write().unwrap_or_else(PoisonError::into_inner);
        let all = epochs.entry(name.to_owned()).or_default();
        while all.len() < epoch as usize {
            all.push(created_ms);
        }
    }

    /// Each contract with its epochs' beginnings.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Vec<u64>)> {
        let epochs = self.epochs.read().unwrap_or_else(PoisonError::into_inner);
        epochs.iter().map(|(name, all)| (name.clone(), all.clone())).collect()
    }

    /// Appends them to a manifest.
    pub fn put(&self, out: &mut Vec<u8>) {
        let all = self.all();
        out.put_u32(all.len() as u32);
        for (name, epochs) in all {
            out.put_bytes(name.as_bytes());
            out.put_u32(epochs.len() as u32);
            epochs.iter().for_each(|&began| out.put_u64(began));
        }
    }

    /// Reads them from a manifest.
    pub fn get(&self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        for _ in 0..fields.u32("contracts")? {
            let name = fields.text("a contract's name")?.to_owned();
            for epoch in 1..=fields.u32("epochs")? {
                let began = fields.u64("the beginning of an epoch")?;
                self.begin(&name, epoch, began);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_epochs_hash_differently_and_survive_a_manifest() {
        let contracts = Contracts::new(Some(Secret::from_hex(&"5a".repeat(32)).unwrap()));
        let one = contracts.keyed(DEFAULT);
        contracts.begin(DEFAULT, 1, 10);
        contracts.begin(DEFAULT, 2, 20);
        let two = contracts.keyed(DEFAULT);
        let other = contracts.keyed("orders");
        assert_eq!((one.epoch, two.epoch, other.epoch), (1, 2, 1));
        let digest = |hashing: &Hashing| contracts.contract(hashing).unwrap().digest(&b"key"[..]).unwrap();
        assert!(digest(&one) != digest(&two) && digest(&one) != digest(&other));
        let mut bytes = Vec::new();
        contracts.put(&mut bytes);
        let read = Contracts::new(None);
        read.get(&mut Fields(&bytes)).unwrap();
        assert_eq!(read.all(), [(DEFAULT.to_owned(), vec![10, 20])]);
        assert!(read.contract(&one).is_err());
        let id = contracts.master_id().unwrap();
        assert_eq!((contracts.check_master(&id), read.check_master(&id)), (Ok(()), Ok(())));
        let why = Contracts::new(Secret::from_hex(&"5b".repeat(32)).ok()).check_master(&id).unwrap_err();
        assert!(why.contains(&id) && why.contains("--master-key"), "{why}");
    }
}
