//! A filter's shadow: the same filter under a new secret, while it is filled.
//!
//! Keys cannot be moved from one secret to another: a filter has digests, not keys. So a second filter is made under the
//! new secret, what is added goes to both from then on, and the keys from before come again from whoever has them. Asked
//! is the old one, which is complete, until the new one is and takes its name.
//!
//! A shadow is an ordinary filter in the log and in snapshots, under a name that nobody else can give or use:
//! `bloomgate:rekey:` and the name of the filter it is for. After a start that is how the two find each other. Commands
//! that name one are refused before they run ([`check_name`]), and lists of names leave them out.
//! Only kinds that set bits and never move them have shadows: adding a key twice is as adding it once.

use bloomgate_command::{MAX_NAME, Refusal};

use super::adding::{Added, Copies, NotDone, Scratch};
use super::entry::Entry;
use super::record::Record;
use super::structure::Prepared;
use super::{Engine, Permit};

/// How the names of shadows begin.
pub const RESERVED: &[u8] = b"bloomgate:rekey:";

/// Whether a name is one of a shadow.
#[must_use]
pub fn is_reserved(name: &[u8]) -> bool {
    name.starts_with(RESERVED)
}

/// The name of a filter's shadow.
pub fn shadow_name(name: &[u8]) -> Result<Vec<u8>, Refusal> {
    let shadow = [RESERVED, name].concat();
    if shadow.len() > MAX_NAME {
        return Err(Refusal::err(format_args!(
            "a filter that is rekeyed has a name of at most {} bytes, not {}: rename it",
            MAX_NAME - RESERVED.len(),
            name.len()
        )));
    }
    Ok(shadow)
}

/// Refuses a name that only shadows have: in them is what BG.REKEY puts there, and nothing else.
pub fn check_name(name: &[u8]) -> Result<(), Refusal> {
    if is_reserved(name) {
        return Err(Refusal::err(
            "names that begin with 'bloomgate:rekey:' are the server's own, for filters that are being rekeyed: choose \
             another; BG.REKEY takes the filter's own name",
        ));
    }
    Ok(())
}

/// Refuses to touch a filter that has a shadow, or is one.
pub(super) fn check_settled(entry: &Entry) -> Result<(), Refusal> {
    let name = entry.name();
    if entry.shadow().is_some() || is_reserved(&name) {
        return Err(Refusal::err(format_args!(
            "'{}' is being rekeyed: BG.REKEY it to FINISH or ABORT first",
            name.strip_prefix(RESERVED).unwrap_or(&name).escape_ascii()
        )));
    }
    Ok(())
}

impl Engine {
    /// Gives filters the shadows that they had before the server started. Before anybody writes.
    pub fn link_shadows(&self) {
        let mut next = 0;
        loop {
            let entries = self.names.from_id(next, 1_000);
            let Some(last) = entries.last() else { return };
            next = last.id + 1;
            for shadow in &entries {
                let name = shadow.name();
                let of = name.strip_prefix(RESERVED).and_then(|name| self.names.get(name));
                if let Some(entry) = of {
                    entry.set_shadow(Some(shadow.clone()));
                }
            }
        }
    }

    /// The shadow of a filter, if it is still there.
    #[must_use]
    pub fn shadow_of(&self, entry: &Entry) -> Option<Entry> {
        entry.shadow().filter(|shadow| self.names.by_id(shadow.id).is_some())
    }
}

impl Permit<'_> {
    /// A contract gets its first secret, or a new one.
    pub fn begin_epoch(&mut self, contract: &str, epoch: u32) -> Result<u64, Refusal> {
        let created_ms = self.engine().clock.now_ms();
        let mut record = Vec::new();
        Record::Contract { name: contract, epoch, created_ms }.put(&mut record);
        let sequence = self.log(&record)?;
        self.engine().contracts.begin(contract, epoch, created_ms);
        Ok(sequence)
    }

    /// From now on what is added to a filter goes to this one too.
    pub fn begin_shadow(&mut self, entry: &Entry, prepared: Prepared) -> Result<Entry, Refusal> {
        let shadow = self.create(prepared)?;
        entry.set_shadow(Some(shadow.clone()));
        Ok(shadow)
    }

    /// The shadow takes the place of its filter, which goes.
    pub fn finish_shadow(&mut self, entry: &Entry, shadow: &Entry) -> Result<u64, Refusal> {
        let name = entry.name();
        if entry.expires_ms() != shadow.expires_ms() {
            self.expire(shadow, entry.expires_ms())?;
        }
        let sequence = self.move_to(shadow, &name)?;
        entry.set_shadow(None);
        Ok(sequence)
    }

    /// The shadow goes, and its filter stays.
    pub fn abort_shadow(&mut self, entry: &Entry, shadow: &Entry) -> Result<u64, Refusal> {
        let sequence = self.delete(shadow)?;
        entry.set_shadow(None);
        Ok(sequence)
    }
}

impl Scratch {
    /// Adds items to a filter's shadow, all of them: what the filter knows already, its shadow may not.
    pub(super) fn add_to_shadow(
        &mut self,
        permit: &mut Permit<'_>,
        shadow: &Entry,
        items: &[&[u8]],
    ) -> Result<u64, NotDone> {
        // Somebody deleted it: there is nothing to fill any more, and its number means nothing in the log.
        if permit.engine().names.by_id(shadow.id).is_none() {
            return Ok(0);
        }
        let mut added = Vec::new();
        let (sequence, _) = self.add_uncounted(permit, shadow, items, Copies::One, &mut added)?;
        // Not acknowledged, so not lost: a shadow with a hole must never take the filter's place.
        match added.iter().find(|added| !matches!(added, Added::New | Added::Known)) {
            None => Ok(sequence),
            Some(Added::NoMemory) => Err(Refusal::err(
                "there is no memory for the filter that this one is rekeyed to: raise max-memory, or BG.REKEY it to ABORT",
            )
            .into()),
            Some(_) => Err(Refusal::err(
                "the filter that this one is rekeyed to is full: BG.REKEY it to ABORT, and make a larger one",
            )
            .into()),
        }
    }
}
