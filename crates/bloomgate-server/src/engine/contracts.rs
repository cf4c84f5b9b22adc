//! Secrets of the filters: derived from one master secret, by the name of a contract and its epoch.
//!
//! Filters under one contract and epoch hash alike and can be merged. A new epoch is a new secret: filters made from
//! then on hash under it, those made before stay under theirs until they are rebuilt (BG.REKEY). What is written down
//! anywhere is a contract's name, its epochs and when each began; the secret itself is in the key file alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use bloomgate::bloom::Sprout;
use bloomgate::{Algorithm, Contract, Secret};
use bloomgate_command::Refusal;

use super::Engine;
use super::entry::Maker;
use super::fields::{Fields, Malformed, Put};
use super::making::{Making, Makings};
use super::recipe::{Hashing, Recipe, refused};

/// The contract of filters that name none.
pub const DEFAULT: &str = "default";

/// Contracts that a namespace may have, and all of them together; and those that are of none.
const MOST_OF_SPACE: usize = 1_000;
const MOST: usize = 100_000;
/// Epochs that those of a namespace may have had together, and those that are of none.
const MOST_EPOCHS_OF_SPACE: usize = 10_000;
const MOST_EPOCHS: usize = 1_000_000;

/// The namespace that a contract is of.
fn space_of(name: &str) -> Option<&str> {
    name.split_once('/').map(|(space, _)| space)
}

/// What is known about contracts.
#[derive(Debug, Default)]
struct Known {
    /// When each epoch of a contract began, in milliseconds since 1970; the last is the one for new filters.
    epochs: BTreeMap<String, Vec<u64>>,
    /// How many contracts and epochs there are of each namespace, and of none.
    counts: HashMap<Option<String>, (usize, usize)>,
}

impl Known {
    fn count_anew(&mut self) {
        self.counts.clear();
        for (name, epochs) in &self.epochs {
            let (contracts, all) = self.counts.entry(space_of(name).map(str::to_owned)).or_default();
            (*contracts, *all) = (*contracts + 1, *all + epochs.len());
        }
    }

    fn counted(&self, name: &str) -> (usize, usize) {
        self.counts.get(&space_of(name).map(str::to_owned)).copied().unwrap_or_default()
    }
}

/// Contracts by name: that of a namespace has its name and a slash before it.
#[derive(Debug)]
pub struct Contracts {
    master: Option<Secret>,
    known: RwLock<Known>,
    /// What filters under them are made like.
    makings: Makings,
}

impl Contracts {
    /// Contracts under a master secret; without one every keyed filter is unavailable.
    #[must_use]
    pub fn new(master: Option<Secret>) -> Self {
        Self { master, known: RwLock::default(), makings: Makings::default() }
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
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
        let epoch = self.known().epochs.get(name).map_or(1, |all| all.len() as u32);
        Hashing { algorithm: Algorithm::SipHash13, seed: 0, contract: name.to_owned(), epoch: epoch.max(1) }
    }

    /// Whether a contract of this name was used before.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.known().epochs.contains_key(name)
    }

    /// Refuses one more contract where there are as many as may be.
    pub fn check_new(&self, name: &str) -> Result<(), Refusal> {
        let known = self.known();
        let (there, _) = known.counted(name);
        let (most, in_all) = match space_of(name) {
            Some(_) => (MOST_OF_SPACE, known.epochs.len()),
            None => (MOST, 0),
        };
        if there < most && in_all < MOST {
            return Ok(());
        }
        let (there, most) = if there < most { (in_all, MOST) } else { (there, most) };
        Err(Refusal::err(format_args!(
            "there are {there} contracts, and {most} may be: use one that there is. Those that no filter hashes under are \
             dropped now: try again in a moment"
        )))
    }

    /// Refuses one more epoch of a contract where there were as many as may be.
    pub fn check_next_epoch(&self, name: &str) -> Result<(), Refusal> {
        let (_, there) = self.known().counted(name);
        let most = if space_of(name).is_some() { MOST_EPOCHS_OF_SPACE } else { MOST_EPOCHS };
        if there < most {
            return Ok(());
        }
        Err(Refusal::err(format_args!(
            "there have been {there} secrets, and {most} may be: fill another filter under another contract and BG.SWAP them"
        )))
    }

    /// Lets go of contracts that no filter hashes under. One that has had another secret is kept, or it would begin again
    /// with its first.
    pub fn keep_used(&self, used: &HashSet<String>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.epochs.retain(|name, epochs| epochs.len() > 1 || name == DEFAULT || used.contains(name));
        known.count_anew();
    }

    /// When an epoch of a contract began, in milliseconds since 1970.
    #[must_use]
    pub fn began_ms(&self, name: &str, epoch: u32) -> Option<u64> {
        self.known().epochs.get(name)?.get((epoch as usize).checked_sub(1)?).copied()
    }

    /// An epoch began; told twice it is the same one.
    pub fn begin(&self, name: &str, epoch: u32, created_ms: u64) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let all = known.epochs.entry(name.to_owned()).or_default();
        let had = all.len();
        while all.len() < epoch as usize {
            all.push(created_ms);
        }
        let more = all.len() - had;
        let (contracts, epochs) = known.counts.entry(space_of(name).map(str::to_owned)).or_default();
        (*contracts, *epochs) = (*contracts + usize::from(had == 0), *epochs + more);
    }

    /// Each contract with its epochs' beginnings.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Vec<u64>)> {
        self.known().epochs.iter().map(|(name, all)| (name.clone(), all.clone())).collect()
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

impl Engine {
    /// Refuses one more contract where there are as many as may be; those that no filter hashes under make place, by and by.
    pub fn check_new_contract(&self, name: &str) -> Result<(), Refusal> {
        match self.contracts.check_new(name) {
            Err(_) if !self.chores.drop_contracts() => {
                self.drop_unused_contracts();
                self.contracts.check_new(name)
            }
            checked => checked,
        }
    }

    /// Lets go of contracts that no filter hashes under; looks at all filters.
    pub fn drop_unused_contracts(&self) {
        let (mut used, mut next) = (HashSet::new(), 0);
        loop {
            let entries = self.names.from_id(next, 1_000);
            let Some(last) = entries.last() else { break };
            next = last.id + 1;
            for entry in &entries {
                let contract = &entry.recipe().hashing.contract;
                if !used.contains(contract) {
                    used.insert(contract.clone());
                }
            }
        }
        self.contracts.keep_used(&used);
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

    #[test]
    fn there_are_only_so_many_of_a_namespace_and_those_without_filters_go() {
        let contracts = Contracts::new(None);
        contracts.begin(DEFAULT, 1, 1);
        contracts.begin("a/rekeyed", 3, 1);
        for number in 1..MOST_OF_SPACE {
            let name = format!("a/c{number}");
            contracts.check_new(&name).unwrap();
            contracts.begin(&name, 1, 1);
            contracts.begin(&name, 1, 2);
        }
        assert!(contracts.check_new("a/more").unwrap_err().as_str().contains("1000 contracts, and 1000 may be"));
        assert!(contracts.check_new("b/more").is_ok() && contracts.check_new("more").is_ok());
        contracts.keep_used(&HashSet::from(["a/c5".to_owned()]));
        let names: Vec<String> = contracts.all().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a/c5", "a/rekeyed", DEFAULT]);
        assert_eq!((contracts.keyed("a/rekeyed").epoch, contracts.began_ms("a/rekeyed", 3)), (3, Some(1)));
        contracts.check_next_epoch("a/rekeyed").unwrap();
        contracts.begin("a/rekeyed", MOST_EPOCHS_OF_SPACE as u32, 1);
        assert!(contracts.check_next_epoch("a/c5").is_err() && contracts.check_next_epoch(DEFAULT).is_ok());
        for space in 0..MOST / MOST_OF_SPACE {
            (0..MOST_OF_SPACE).for_each(|number| contracts.begin(&format!("s{space}/c{number}"), 1, 1));
        }
        assert!(contracts.check_new("b/more").unwrap_err().as_str().contains("and 100000 may be"));
        assert!(contracts.check_new("more").is_ok(), "tenants take nothing from those who run the server");
    }
}
