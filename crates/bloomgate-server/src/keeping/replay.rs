//! From what the folder holds to filters: images first, then what the log says happened to each since its image.
//!
//! Filters are known by their ids here. Images are taken one after another while names change, so two may carry one
//! name until the log has been read to its end; names are given out then.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bloomgate::{AnyFilter, Contract, Digest, Insertion, Kind, WhenFull};
use bloomgate_command::Refusal;

use super::damaged::Owed;
use super::loading::{Imagined, Loader, Source};
use crate::engine::contracts::Contracts;
use crate::engine::entry::{Bits, Body, Entry, Lacks};
use crate::engine::fields::Fields;
use crate::engine::making::Making;
use crate::engine::recipe::Recipe;
use crate::engine::record::{Image, Record, secret_of};
use crate::engine::retries::Answered;

/// Why a filter of another secret does not answer.
pub const OTHER_SECRET: &str = "it was made under another master secret: start with the right --master-key";

/// A filter that is being brought up to date.
struct Restored {
    entry: Entry,
    /// The sequence of its image: what came up to it is in the bits.
    base: u64,
    /// What the log owes it, if it cannot answer and its image is kept for whoever can read it.
    owed: Option<Owed>,
}

/// Filters that are being brought up to date.
pub struct Replay<'a> {
    loader: &'a Loader<'a>,
    contracts: &'a Contracts,
    filters: BTreeMap<u64, Restored>,
    /// Filters that the log writes to and that neither the manifest nor the log knows: deleted before their image was
    /// taken, or lost. The end of the log tells which.
    strangers: HashSet<u64>,
    next_id: u64,
    digests: Vec<Digest>,
    bits: Vec<u64>,
    /// Why nothing of this folder can be read, if its log says so.
    pub other_secret: Option<String>,
}

impl<'a> Replay<'a> {
    /// Nothing yet.
    #[must_use]
    pub fn new(loader: &'a Loader<'a>, contracts: &'a Contracts, next_id: u64) -> Self {
        let (filters, strangers) = (BTreeMap::new(), HashSet::new());
        let (digests, bits) = (Vec::new(), Vec::new());
        Self { loader, contracts, filters, strangers, next_id, digests, bits, other_secret: None }
    }

    /// A filter of the manifest, with its image as of a sequence.
    pub fn restore(&mut self, entry: Entry, base: u64) {
        entry.touch(base);
        self.next_id = self.next_id.max(entry.id + 1);
        let owed = (!entry.is_available()).then(Owed::default);
        self.filters.insert(entry.id, Restored { entry, base, owed });
    }

    /// A filter of the manifest that could not be read for a while and can now: its image is as of a sequence, and these records it
    /// is owed since. All else that the manifest says of it is as of another sequence.
    pub fn restore_owed(&mut self, entry: Entry, base: u64, owed: &[(u64, &[u8])], through: u64) -> Result<(), String> {
        let (id, deleted, answers) = (entry.id, entry.deleted(), entry.retries());
        self.restore(entry, base);
        for &(sequence, record) in owed {
            self.batch(sequence, record)?;
        }
        if let Some(restored) = self.filters.get_mut(&id) {
            restored.base = through;
            restored.entry.touch(through);
            restored.entry.set_deleted(deleted);
            restored.entry.keep_answers(answers);
        }
        Ok(())
    }

    /// What the log owes those that cannot answer, in pieces.
    pub fn owed(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        self.filters.iter().filter_map(|(&id, restored)| restored.owed.as_ref().map(|owed| (id, owed.piece(id))))
    }

    /// Everything that one batch of the log says.
    pub fn batch(&mut self, sequence: u64, payload: &[u8]) -> Result<(), String> {
        let mut fields = Fields(payload);
        while !fields.is_empty() {
            let record = Record::get(&mut fields).map_err(|malformed| malformed.to_string())?;
            self.record(sequence, record)?;
        }
        Ok(())
    }

    /// The filter of an id, if this sequence is news to it.
    fn due(&mut self, id: u64, sequence: u64) -> Option<&mut Restored> {
        match self.filters.get_mut(&id) {
            Some(restored) if sequence > restored.base => Some(restored),
            Some(_) => None,
            None => {
                self.strangers.insert(id);
                None
            }
        }
    }

    fn record(&mut self, sequence: u64, record: Record<'_>) -> Result<(), String> {
        if let Some(restored) = record.filter().and_then(|id| self.filters.get_mut(&id))
            && let Some(owed) = restored.owed.as_mut().filter(|_| sequence > restored.base)
        {
            owed.put(sequence, &record);
        }
        match record {
            Record::Create { id, created_ms, maker, name, recipe, secret } => {
                if self.filters.contains_key(&id) {
                    return Ok(());
                }
                self.next_id = self.next_id.max(id + 1);
                let kind = recipe.kind;
                let made = match self.contracts.making(recipe.clone(), maker) {
                    Ok(making) => self.create(id, name, making, created_ms, secret),
                    Err(refusal) => Err((self.lacking(&recipe), refusal)),
                };
                let entry = match made {
                    Ok(entry) => entry,
                    Err((lacks, refusal)) => {
                        let making = Arc::new(Making { recipe, maker, sprout: None });
                        let bits = unavailable(kind, lacks, refusal.as_str());
                        Entry::new(id, name, making, created_ms, bits).map_err(|refusal| refusal.as_str().to_owned())?
                    }
                };
                self.filters.insert(id, Restored::made(entry, sequence));
            }
            Record::Install { id, created_ms, expires_ms, maker, name, recipe, image } => {
                if self.filters.contains_key(&id) {
                    return Ok(());
                }
                self.next_id = self.next_id.max(id + 1);
                let source = match image {
                    Image::Inline(bytes) => Source::Bytes(bytes),
                    Image::File(file) => Source::File(file),
                };
                let kind = recipe.kind;
                let entry = self.loader.entry(Imagined { id, name, recipe, maker, created_ms, kind }, Ok(source))?;
                entry.expire_at(expires_ms);
                self.filters.insert(id, Restored::made(entry, sequence));
            }
            Record::Add { id, digests } => {
                let mut all = std::mem::take(&mut self.digests);
                all.clear();
                digests.append_to(&mut all);
                if let Some(restored) = self.due(id, sequence) {
                    restored.entry.touch(sequence);
                    if let Err(why) = add(&restored.entry, &all) {
                        restored.quarantine(&why)?;
                    }
                }
                self.digests = all;
            }
            Record::Fill { id, count, bits } => {
                let mut all = std::mem::take(&mut self.bits);
                all.clear();
                all.extend(bits.each());
                if let Some(restored) = self.due(id, sequence) {
                    restored.entry.touch(sequence);
                    if let Err(why) = fill(&restored.entry, count as usize, &all) {
                        restored.quarantine(&why)?;
                    }
                }
                self.bits = all;
            }
            Record::Remove { id, request, answers, digests } => {
                let mut all = std::mem::take(&mut self.digests);
                all.clear();
                digests.append_to(&mut all);
                if let Some(restored) = self.due(id, sequence) {
                    restored.entry.touch(sequence);
                    if let Err(why) = remove(&restored.entry, &all) {
                        restored.quarantine(&why)?;
                    }
                    if !request.is_empty() {
                        let answered = Answered::get(answers).map_err(|malformed| malformed.to_string())?;
                        restored.entry.keep_answer(&mut restored.entry.write(), request, &answered);
                    }
                }
                self.digests = all;
            }
            Record::Delete { id } => {
                // A filter whose image is younger than this cannot have been deleted by it: ids are given once.
                self.filters.remove(&id);
                self.strangers.remove(&id);
            }
            Record::Removed { id, count } => {
                if let Some(restored) = self.due(id, sequence) {
                    restored.entry.set_deleted(count);
                    restored.entry.touch(sequence);
                }
            }
            Record::Rename { id, name } => {
                if let Some(restored) = self.due(id, sequence) {
                    restored.entry.rename(name);
                    restored.entry.touch(sequence);
                }
            }
            Record::Expire { id, at_ms } => {
                if let Some(restored) = self.due(id, sequence) {
                    restored.entry.expire_at(at_ms);
                    restored.entry.touch(sequence);
                }
            }
            Record::Flush => {
                self.filters.retain(|_, restored| restored.base >= sequence);
                self.strangers.clear();
            }
            Record::Advance { id, now_ns } => {
                if let Some(restored) = self.due(id, sequence) {
                    if let Body::Shared(filter) = restored.entry.body() {
                        filter.advance(Duration::from_nanos(now_ns));
                    }
                    restored.entry.touch(sequence);
                }
            }
            Record::Contract { name, epoch, created_ms } => self.contracts.begin(name, epoch, created_ms),
            Record::Master { id } => {
                self.contracts.check_master(id).inspect_err(|why| self.other_secret = Some(why.clone()))?;
            }
        }
        Ok(())
    }

    /// An empty filter. The digests that follow in the log are those of one secret: under another every "no" is wrong.
    fn create(
        &self,
        id: u64,
        name: &[u8],
        making: Arc<Making>,
        created_ms: u64,
        secret: u64,
    ) -> Result<Entry, (Lacks, Refusal)> {
        let other = |refusal: Refusal| (Lacks::Other, refusal);
        let check = |contract: &Contract| match secret_of(contract) == secret {
            true => Ok(()),
            false => Err((Lacks::Secret, Refusal::err(OTHER_SECRET))),
        };
        if let Some(sprout) = &making.sprout {
            check(sprout.contract())?;
            return Entry::sprout(id, name, making, created_ms).map_err(other);
        }
        let contract = self.contracts.contract(&making.recipe.hashing);
        let contract = contract.map_err(|refusal| (self.lacking(&making.recipe), refusal))?;
        check(&contract)?;
        let filter = making.recipe.build(contract).map_err(other)?;
        Entry::new(id, name, making, created_ms, Bits::Filter(filter)).map_err(other)
    }

    /// What a filter lacks whose keys cannot be hashed.
    fn lacking(&self, recipe: &Recipe) -> Lacks {
        let hashing = &recipe.hashing;
        let has_secret = self.contracts.secret(&hashing.contract, hashing.epoch).is_some();
        if hashing.algorithm.is_keyed() && !has_secret { Lacks::Secret } else { Lacks::Other }
    }

    /// The log was read to its end: the filters with their names, and the next id.
    pub fn finish(self) -> Result<(Vec<Entry>, u64), String> {
        if let Some(id) = self.strangers.iter().next() {
            return Err(format!(
                "the log writes to filter number {id}, which is neither in the manifest nor in the log, and was never \
                 deleted: the manifest is not the one that belongs to this log"
            ));
        }
        let mut names = HashSet::new();
        for restored in self.filters.values() {
            let name = restored.entry.name();
            if names.contains(&name) {
                return Err(format!("two filters have the name '{}' at the end of the log", name.escape_ascii()));
            }
            names.insert(name);
        }
        let entries = self.filters.into_values().map(|restored| restored.entry).collect();
        Ok((entries, self.next_id))
    }
}

impl Restored {
    /// A filter that the log itself makes. What follows in the same batch (a transaction that makes a filter and adds to
    /// it) is news to it, so its image counts as one from just before the batch.
    fn made(entry: Entry, sequence: u64) -> Self {
        entry.touch(sequence);
        Self { entry, base: sequence.saturating_sub(1), owed: None }
    }

    /// The log could not be applied to it: it answers with an error from now on.
    fn quarantine(&mut self, why: &str) -> Result<(), String> {
        let unavailable = self.entry.made_unavailable(reason(why));
        self.entry = unavailable.map_err(|refusal| refusal.as_str().to_owned())?;
        Ok(())
    }
}

/// A filter that exists and cannot answer.
#[must_use]
pub fn unavailable(kind: Kind, lacks: Lacks, why: &str) -> Bits {
    Bits::Unavailable { why: reason(why), lacks, kind }
}

/// Why, without a name: that may change.
fn reason(why: &str) -> String {
    why.strip_prefix("ERR ").unwrap_or(why).to_owned()
}

fn add(entry: &Entry, digests: &[Digest]) -> Result<(), String> {
    match entry.body() {
        Body::Small(small)
            if small.sprout.when_full() != WhenFull::Grow || digests.len() as u64 <= small.remaining() =>
        {
            small.replay(digests).map_err(|error| error.to_string())
        }
        Body::Small(small) => {
            let grown = small.copy().and_then(AnyFilter::into_shared).map_err(|error| error.to_string())?;
            entry.grow_up(grown);
            add(entry, digests)
        }
        Body::Shared(filter) if !entry.is_ordered() => filter.replay(digests).map_err(|error| error.to_string()),
        Body::Shared(filter) => {
            let mut outcomes = vec![Insertion::Known; digests.len()];
            filter.insert_each(digests, &mut outcomes).map_err(|error| error.to_string())?;
            match outcomes.contains(&Insertion::Full) {
                true => Err("a key that was in it before has no room now".to_owned()),
                false => Ok(()),
            }
        }
        Body::Guarded(filter) => {
            let filter: &mut AnyFilter = &mut filter.write().unwrap_or_else(PoisonError::into_inner);
            digests
                .iter()
                .try_for_each(|&digest| filter.insert_digest(digest).map(drop).map_err(|error| error.to_string()))
        }
        Body::Unavailable { .. } => Ok(()),
    }
}

/// The bits are those of a small filter. One that has grown up has an image from after it did, and in that they are.
fn fill(entry: &Entry, count: usize, bits: &[u64]) -> Result<(), String> {
    match entry.body() {
        Body::Small(small) => small.fill(bits, count).map_err(|error| error.to_string()),
        Body::Unavailable { .. } => Ok(()),
        Body::Shared(_) | Body::Guarded(_) => Err("the log fills a small filter, and it is none".to_owned()),
    }
}

fn remove(entry: &Entry, digests: &[Digest]) -> Result<(), String> {
    entry.add_deleted(digests.len() as u64);
    for &digest in digests {
        let removed = match entry.body() {
            Body::Small(_) => Ok(false),
            Body::Shared(filter) => filter.remove_digest(digest),
            Body::Guarded(filter) => filter.write().unwrap_or_else(PoisonError::into_inner).remove_digest(digest),
            Body::Unavailable { .. } => Ok(true),
        };
        match removed {
            Ok(true) => {}
            Ok(false) => return Err("a key that was removed from it before is not there".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}
