//! The filters of tenants over a restart: a folder for each, as a gate of its own has, and one list of them all.
//!
//! ```text
//! DATA/lock, master.key        as of any gate
//!      tenants.json            whose folders there are, and how often absent keys of each were asked for
//!      tenants/HEX/            filter.bloom, filter.json, count.json of one tenant; HEX is its name under a keyed hash
//! ```
//!
//! A folder that is damaged costs its tenant its head start, and no other. Without the list the tenants that the source has are
//! found again with their folders; those that it has lost are forgotten.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};

use super::{All, Tenant};
use crate::counters::Count;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::key::Key;

/// The list.
const LIST: &str = "tenants.json";
/// The folders.
const FOLDERS: &str = "tenants";
/// Tenants that are saved at once.
const AT_ONCE: usize = 16;

#[derive(Serialize, Deserialize)]
struct List {
    /// Whose tenants they are.
    source: String,
    tenants: Vec<Listed>,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    tenant: String,
    /// Lookups of absent keys so far.
    absent: u64,
}

/// The version and the keys of the filter that was saved last.
#[derive(Debug, Default)]
pub(super) struct Saved(Mutex<(u64, u64)>);

impl Saved {
    fn load(&self) -> (u64, u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, now: (u64, u64)) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl Tenant {
    /// The version and the keys of its filter.
    fn now(&self) -> (u64, u64) {
        self.inner().filters.face().current.as_ref().map_or((0, 0), |now| (now.version(), now.items()))
    }

    /// Its filter was saved as it is.
    pub(super) fn is_saved(&self) {
        self.saved.store(self.now());
    }
}

impl All {
    /// The folder of a tenant.
    pub(super) fn folder_of(&self, data: &Path, tenant: &Key) -> PathBuf {
        let digest = self.naming.digest_bytes(tenant.canonical());
        data.join(FOLDERS).join(format!("{:016x}{:016x}", digest.hi, digest.lo))
    }

    /// Makes the tenants that the last run knew.
    pub(super) fn load(self: &Arc<Self>) -> Result<()> {
        let Some(data) = &self.settings.data else { return Ok(()) };
        let unusable = |why: String| self.events.tell(Event::SavedUnusable { why: format!("{LIST}: {why}") });
        let list = match std::fs::read(data.join(LIST)) {
            Ok(text) => serde_json::from_slice::<List>(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return refuse_other(data);
            }
            Err(error) => {
                unusable(error.to_string());
                return Ok(());
            }
        };
        let list = match list {
            Ok(list) => list,
            Err(error) => {
                unusable(error.to_string());
                return Ok(());
            }
        };
        if list.source != self.table.describe() {
            let message = format!(
                "the folder {} keeps the filters of {}, and this gate is before {}: name another folder (--data)",
                data.display(),
                list.source,
                self.table.describe()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        for Listed { tenant, absent } in list.tenants {
            match self.table.tenant_type().parse(&tenant) {
                // One that has lost all its rows was deleted through the gate, or by mistake: its count says which.
                Ok(key) => {
                    let made = self.find_or_make(&key, false)?;
                    made.absent_before.store(absent, Relaxed);
                }
                Err(error) => unusable(error.to_string()),
            }
        }
        self.had_list.store(true, SeqCst);
        self.unsaved.store(false, SeqCst);
        Ok(())
    }

    /// Saves the filters of all tenants that have changed since they were saved last, and how many keys each has: exactly at
    /// the `end`, deletions ahead before. Several at a time: nearly all of it is waiting for the disk.
    pub(super) async fn save_everyone(&self, end: bool) {
        if self.settings.data.is_none() {
            return;
        }
        self.save_list().await;
        let each = |tenant: Arc<Tenant>| async move {
            let baseline = &tenant.inner().baseline;
            let counted = if end { baseline.close().await } else { baseline.write_down().await };
            tenant.inner().saved(counted);
            if tenant.saved.load() != tenant.now() {
                tenant.inner().save().await;
                tenant.is_saved();
            }
        };
        stream::iter(self.everyone()).for_each_concurrent(AT_ONCE, each).await;
    }

    /// Writes the list of tenants. One without rows and without a past is left out: the next start forgets it.
    pub(super) async fn save_list(&self) {
        let Some(data) = self.settings.data.clone() else { return };
        self.unsaved.store(false, SeqCst);
        let tenant_type = self.table.tenant_type();
        let everyone = self.everyone();
        let listed = everyone.iter().filter(|tenant| tenant_type.holds(&tenant.key)).filter(|tenant| {
            let face = tenant.inner().filters.face();
            face.current.as_ref().is_none_or(|current| current.items() > current.removed())
        });
        let tenants = listed
            .map(|tenant| Listed { tenant: tenant_type.show(&tenant.key), absent: tenant.absent_lookups() })
            .collect();
        let list = List { source: self.table.describe(), tenants };
        let written = tokio::task::spawn_blocking(move || write(&data, &list)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(crate::gate::died(error))) {
            self.unsaved.store(true, SeqCst);
            self.strangers.counters.one(Count::SaveErrors);
            self.events.tell(Event::SaveFailed { why: error.to_string() });
        }
    }
}

fn write(data: &Path, list: &List) -> Result<()> {
    let text = serde_json::to_vec(list).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
    bloomgate::format::write_atomically(&data.join(LIST), |out| {
        out.write_all(&text).map_err(|error| bloomgate::Error::io("writing which tenants there are", error))
    })?;
    Ok(())
}

/// Refuses the folder of a gate without tenants: its filter means nothing here, and would stay for ever.
fn refuse_other(data: &Path) -> Result<()> {
    if !data.join("count.json").exists() {
        return Ok(());
    }
    let message = format!(
        "the folder {} keeps the filter of a gate without tenants: name another folder (--data)",
        data.display()
    );
    Err(Error::new(ErrorKind::Invalid, message))
}
