//! The filter over a restart: saved after each rebuild and at the end, loaded as one that may not say no.
//!
//! In the gate's folder: `lock`, held while a gate uses it; `master.key`, the secret; `filter.bloom`, the filter in
//! Bloomgate's own format (checksums, contract) beside `filter.json`, what else there is to know; and `count.json` (see
//! `baseline`). A file that cannot be read, is of another secret or another column is left where it is and not used: the
//! gate says so and starts without.

use std::fs::File;
use std::path::Path;
use std::sync::PoisonError;

use bloomgate::{AnyFilter, OpenOptions, Secret};
use serde::{Deserialize, Serialize};

use crate::counters::Count;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::feed::Mark;
use crate::filters::{self, Generation};
use crate::gate::{Gate, Inner};
use crate::key::KeyType;
use crate::policy::State;

#[derive(Debug, Serialize, Deserialize)]
struct Beside {
    version: u64,
    scanned: u64,
    /// As of when that scan was, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    built_ms: Option<u64>,
    /// The place in the feed up to which the filter has everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feed: Option<String>,
}

/// The name under which the gate of a folder follows a feed; made at first.
pub(crate) fn reader(folder: &Path) -> Result<String> {
    let said = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Invalid, format!("the folder {} cannot be used: {error}", folder.display()))
    };
    let path = folder.join("feed.reader");
    match std::fs::read_to_string(&path) {
        Ok(name) if name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) => return Ok(name),
        Ok(_) => return Err(said(&"feed.reader holds no name: remove it, and a new one is made")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(said(&error)),
    }
    let name = new_reader()?;
    std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, &name)).map_err(|error| said(&error))?;
    Ok(name)
}

/// A name that nobody else has.
pub(crate) fn new_reader() -> Result<String> {
    Ok(format!("{:016x}", u64::from_le_bytes(Secret::generate()?.check())))
}

/// The secret of a folder; made at first.
pub(crate) fn secret(folder: &Path) -> Result<Secret> {
    let said = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Invalid, format!("the folder {} cannot be used: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| said(&error))?;
    let path = folder.join("master.key");
    if path.exists() {
        return Secret::read_file(&path).map_err(|error| said(&error));
    }
    let secret = Secret::generate()?;
    secret.write_file(&path).map_err(|error| said(&error))?;
    Ok(secret)
}

/// Takes a folder for this gate alone, until the file is closed. Two gates that both believe to see every write would each
/// miss the other's, and say no to its keys.
pub(crate) fn lock(folder: &Path) -> Result<File> {
    let said = |what: String| Error::new(ErrorKind::Invalid, format!("the folder {}: {what}", folder.display()));
    std::fs::create_dir_all(folder).map_err(|error| said(error.to_string()))?;
    let file = File::options().create(true).truncate(false).write(true).open(folder.join("lock"));
    let file = file.map_err(|error| said(error.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(said(
            "another gate uses it. One gate sees all writes of a table: stop the other one, or name another folder for \
             another table"
                .to_string(),
        )),
        Err(std::fs::TryLockError::Error(error)) => Err(said(error.to_string())),
    }
}

/// The filter of a folder, if there is one; or why it cannot be used.
pub(crate) fn load(
    folder: &Path,
    secret: &Secret,
    key_type: KeyType,
    removed: u64,
) -> std::result::Result<Option<(Generation, Option<Mark>)>, String> {
    let text = match std::fs::read(folder.join("filter.json")) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("filter.json: {error}")),
    };
    let beside: Beside = serde_json::from_slice(&text).map_err(|error| format!("filter.json: {error}"))?;
    let said = |error: bloomgate::Error| format!("filter.bloom: {error}");
    let filter = AnyFilter::open_with(folder.join("filter.bloom"), &OpenOptions::new().secret(secret)).map_err(said)?;
    let AnyFilter::Blocked(filter) = filter else { return Err("filter.bloom is no filter of a gate".to_owned()) };
    filter.contract().ensure_same(&filters::contract(secret, key_type)).map_err(said)?;
    let filter = filter.into_shared().map_err(said)?;
    let saved = Generation::saved(beside.version, filter, beside.scanned, removed, beside.built_ms);
    Ok(Some((saved, beside.feed.map(Mark))))
}

impl Inner {
    /// Saves the current filter, if there is a folder for it. A failure is counted and hurts nobody but the next start.
    pub(crate) async fn save(&self) {
        let _alone = self.saving.lock().await;
        // Before the filter is looked up and its bits are read: whichever it is, it has everything up to the mark.
        let reached = self.feeding.as_ref().and_then(|feeding| {
            feeding.saved();
            feeding.reached()
        });
        let face = arc_swap::Guard::into_inner(self.filters.face());
        let (Some(folder), Some(current)) = (self.settings.data.clone(), face.current.clone()) else {
            return;
        };
        if self.feeding.is_some() && face.state == State::Stale {
            // One that has not caught up, or lost the feed: what was saved before can still be caught up, or is found out.
            return;
        }
        let is_whole = matches!(face.state, State::Ready { .. }) && !current.is_tainted();
        let reached = reached.filter(|_| is_whole);
        let kept = reached.as_ref().map(|reached| reached.mark.clone());
        let saved = tokio::task::spawn_blocking(move || save(&folder, &current, kept.as_ref())).await;
        let saved = saved.unwrap_or_else(|error| Err(crate::gate::died(error)));
        if let (Some(feeding), Some(reached), Ok(())) = (&self.feeding, &reached, &saved) {
            // If it cannot be written down now, the next start scans.
            _ = feeding.release(self, Some(reached)).await;
        }
        self.saved(saved);
    }

    /// Counts and tells what could not be kept.
    pub(crate) fn saved(&self, result: Result<()>) {
        if let Err(error) = result {
            self.counters.one(Count::SaveErrors);
            self.events.tell(Event::SaveFailed { why: error.to_string() });
        }
    }
}

fn save(folder: &Path, current: &Generation, mark: Option<&Mark>) -> Result<()> {
    // One behind a network is kept there, and not trusted after a restart.
    let Some(filter) = current.local_bits() else { return Ok(()) };
    let beside = |feed: Option<&Mark>| {
        let feed = feed.map(|mark| mark.0.clone());
        let (version, scanned, built_ms) = (current.version(), current.scanned(), current.built_ms());
        let beside = Beside { version, scanned, built_ms, feed };
        let text = serde_json::to_vec(&beside).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        bloomgate::format::write_atomically(&folder.join("filter.json"), |out| {
            out.write_all(&text).map_err(|error| bloomgate::Error::io("writing what belongs to the filter", error))
        })?;
        Ok::<(), Error>(())
    };
    // Never a mark beside the bits of another save: a kill in between leaves a filter without one.
    beside(None)?;
    filter.save(folder.join("filter.bloom"))?;
    beside(mark)
}

impl Gate {
    /// Saves the filter for the next start, ends what runs in the background and leaves the folder to the next gate. Lookups
    /// still work afterwards.
    pub async fn stop(&self) {
        self.inner.background.stop();
        self.inner.save().await;
        if let (Some(feeding), None) = (&self.inner.feeding, &self.inner.settings.data) {
            feeding.leave().await;
        }
        self.inner.source.stopped().await;
        self.inner.saved(self.inner.baseline.close().await);
        drop(self.inner.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
