//! From what the folder holds to filters: images first, then what the log says happened to each since its image.
//!
//! Filters are known by their ids here. Images are taken one after another while names change, so two may carry one
//! name until the log has been read to its end; names are given out then.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bloomgate::{AnyFilter, Digest, Insertion, Kind};
use bloomgate_command::Refusal;

use super::loading::{Loader, Source};
use crate::engine::contracts::Contracts;
use crate::engine::entry::{Body, Entry};
use crate::engine::fields::Fields;
use crate::engine::record::{Image, Record, secret_of};

/// Why a filter of another secret does not answer.
pub const OTHER_SECRET: &str = "it was made under another master secret: start with the right --master-key";

/// A filter that is being brought up to date.
struct Restored {
    entry: Entry,
    /// The sequence of its image: what came up to it is in the bits.
    base: u64,
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
}

impl<'a> Replay<'a> {
    /// Nothing yet.
    #[must_use]
    pub fn new(loader: &'a Loader<'a>, contracts: &'a Contracts, next_id: u64) -> Self {
        Self { loader, contracts, filters: BTreeMap::new(), strangers: HashSet::new(), next_id, digests: Vec::new() }
    }

    /// A filter of the manifest, with its image as of a sequence.
    pub fn restore(&mut self, entry: Entry, base: u64) {
        entry.touch(base);
        self.next_id = self.next_id.max(entry.id + 1);
        self.filters.insert(entry.id, Restored { entry, base });
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
        match record {
            Record::Create { id, created_ms, maker, name, recipe, secret } => {
                if self.filters.contains_key(&id) {
                    return Ok(());
                }
                self.next_id = self.next_id.max(id + 1);
                let built = self.contracts.contract(&recipe.hashing).and_then(|contract| match secret_of(&contract) {
                    // The digests that follow in the log are those of another secret: under this one every "no" is wrong.
                    other if other != secret => Err(Refusal::err(OTHER_SECRET)),
                    _ => recipe.build(contract),
                });
                let body = match built.and_then(Body::of) {
                    Ok(body) => body,
                    Err(refusal) => unavailable(name, recipe.kind, refusal.as_str()),
                };
                let entry = Entry::new(id, name, recipe, maker, created_ms, body);
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
                let body = self.loader.body(name, &recipe, recipe.kind, source)?;
                let entry = Entry::new(id, name, recipe, maker, created_ms, body);
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
                        restored.quarantine(&why);
                    }
                }
                self.digests = all;
            }
            Record::Remove { id, request, answers, digests } => {
                let mut all = std::mem::take(&mut self.digests);
                all.clear();
                digests.append_to(&mut all);
                if let Some(restored) = self.due(id, sequence) {
                    restored.entry.touch(sequence);
                    if let Err(why) = remove(&restored.entry, &all) {
                        restored.quarantine(&why);
                    }
                    if !request.is_empty() {
                        let answers: Vec<bool> = answers.iter().map(|&answer| answer != 0).collect();
                        restored.entry.write().retries.keep(request, &answers);
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
                    restored.entry.deleted.store(count, std::sync::atomic::Ordering::Relaxed);
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
                    if let Body::Shared(filter) = &restored.entry.body {
                        filter.advance(Duration::from_nanos(now_ns));
                    }
                    restored.entry.touch(sequence);
                }
            }
            Record::Contract { name, epoch, created_ms } => self.contracts.begin(name, epoch, created_ms),
        }
        Ok(())
    }

    /// The log was read to its end: the filters with their names, and the next id.
    pub fn finish(self) -> Result<(Vec<Arc<Entry>>, u64), String> {
        if let Some(id) = self.strangers.iter().next() {
            return Err(format!(
                "the log writes to filter number {id}, which is neither in the manifest nor in the log, and was never \
                 deleted: the manifest is not the one that belongs to this log"
            ));
        }
        let mut names = HashSet::new();
        for restored in self.filters.values() {
            let name = restored.entry.name();
            if !names.insert(name.clone()) {
                return Err(format!("two filters have the name '{}' at the end of the log", name.escape_ascii()));
            }
        }
        let entries = self.filters.into_values().map(|restored| Arc::new(restored.entry)).collect();
        Ok((entries, self.next_id))
    }
}

impl Restored {
    /// A filter that the log itself makes. What follows in the same batch (a transaction that makes a filter and adds to
    /// it) is news to it, so its image counts as one from just before the batch.
    fn made(entry: Entry, sequence: u64) -> Self {
        entry.touch(sequence);
        Self { entry, base: sequence.saturating_sub(1) }
    }

    /// The log could not be applied to it: it answers with an error from now on.
    fn quarantine(&mut self, why: &str) {
        self.entry.body = unavailable(&self.entry.name(), self.entry.kind(), why);
    }
}

/// A filter that exists and cannot answer.
#[must_use]
pub fn unavailable(name: &[u8], kind: Kind, why: &str) -> Body {
    let why = why.strip_prefix("ERR ").unwrap_or(why);
    Body::Unavailable { why: format!("ERR filter '{}' is unavailable: {why}", name.escape_ascii()), kind }
}

fn add(entry: &Entry, digests: &[Digest]) -> Result<(), String> {
    match &entry.body {
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

fn remove(entry: &Entry, digests: &[Digest]) -> Result<(), String> {
    entry.deleted.fetch_add(digests.len() as u64, std::sync::atomic::Ordering::Relaxed);
    for &digest in digests {
        let removed = match &entry.body {
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
