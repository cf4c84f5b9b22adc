//! Keeping filters on disk: what was there is read at the start, snapshots are made while the server works, and what
//! they hold is dropped from the log.
//!
//! ```text
//!  DATA/  lock                  who works here
//!         master.key            the master secret, unless it is elsewhere
//!         MANIFEST              which filters there are, and where the images of their bits lie
//!         image-ID-SEQUENCE.bloom   a filter as of a sequence of the log
//!         image-0-SEQUENCE.bloom    many small ones, one behind the other
//!                                   (or the next number that no file has)
//!         log-FIRST             what happened since
//! ```

pub mod backup;
pub mod damaged;
pub mod loading;
pub mod manifest;
pub mod opening;
mod pack;
mod pause;
pub mod replay;
pub mod snapshot;
mod words;

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bloomgate::AnyFilter;

use crate::engine::Engine;
use crate::session::desk::Keeper;
use crate::store::{Folder, ImageFile, Spool};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use manifest::Images;
use pause::Pause;

/// Keeps an engine's filters in a folder.
#[derive(Debug)]
pub struct Keeping {
    engine: Arc<Engine>,
    folder: Arc<Folder>,
    /// Held while a snapshot or a backup is made.
    at_work: Mutex<()>,
    saving: AtomicBool,
    last_save_ms: AtomicU64,
    last_error: Mutex<Option<String>>,
    /// Snapshots that failed since the start.
    failures: AtomicU64,
    /// The pause after them.
    pause: Mutex<Pause>,
    /// Where the last image of each filter lies, and its sequence.
    images: Mutex<Images>,
    /// The images of manifests that may be the one in the folder, or not: a disk failed while they were given their name.
    in_doubt: Mutex<HashSet<String>>,
    /// Images that were written for filters to be installed and are in no manifest yet. Whoever installs one has its name
    /// too, until that is done or given up.
    fresh: Mutex<HashSet<Arc<str>>>,
    /// Bytes that the last snapshot wrote: images that are new, the pack of small ones, the manifest.
    snapshot_bytes: AtomicU64,
    /// Microseconds that it took.
    snapshot_micros: AtomicU64,
    /// Snapshots made since the start.
    snapshots: AtomicU64,
    /// The log up to here is in the images.
    dropped: AtomicU64,
    /// Bytes of log below which no snapshot is made by itself.
    snapshot_log: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keeping {
    /// Keeps the filters of an engine, whose images lie as the manifest said.
    #[must_use]
    pub fn new(engine: Arc<Engine>, folder: Arc<Folder>, images: Images, last_save_ms: u64, snapshot_log: u64) -> Self {
        Self {
            engine,
            folder,
            at_work: Mutex::new(()),
            saving: AtomicBool::new(false),
            last_save_ms: AtomicU64::new(last_save_ms),
            last_error: Mutex::new(None),
            failures: AtomicU64::new(0),
            pause: Mutex::default(),
            images: Mutex::new(images),
            in_doubt: Mutex::default(),
            fresh: Mutex::default(),
            snapshot_bytes: AtomicU64::new(0),
            snapshot_micros: AtomicU64::new(0),
            snapshots: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            snapshot_log,
        }
    }

    /// Whether the log has grown so much that a snapshot is worth it: to the size of all filters, and to
    /// the setting `snapshot-log` at least. Not in the pause after one that failed.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let Some(log) = self.engine.journal.log() else { return false };
        log.bytes() > self.engine.budget.used().max(self.snapshot_log)
            && log.is_writable()
            && self.pause().is_none_or(|left| left.is_zero())
    }

    /// How long no other snapshot is tried by itself; nothing if the last one did not fail.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        lock(&self.pause).left(self.engine.clock.now_ms())
    }

    /// Snapshots that failed since the start.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Removes the log that the images hold: a segment goes once the one after it has begun, which may be later than the
    /// snapshot.
    pub fn trim_log(&self) -> Result<(), String> {
        let Some(log) = self.engine.journal.log() else { return Ok(()) };
        log.drop_through(self.dropped.load(Ordering::Acquire)).map(drop).map_err(|error| error.to_string())
    }

    /// Snapshots made since the start.
    #[must_use]
    pub fn snapshots(&self) -> u64 {
        self.snapshots.load(Ordering::Relaxed)
    }

    /// Bytes that the last snapshot wrote, and how long it took.
    #[must_use]
    pub fn last_snapshot(&self) -> (u64, Duration) {
        let took = Duration::from_micros(self.snapshot_micros.load(Ordering::Relaxed));
        (self.snapshot_bytes.load(Ordering::Relaxed), took)
    }

    /// What went wrong with the last snapshot.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    fn note(&self, outcome: &Result<(), String>) {
        let now_ms = self.engine.clock.now_ms();
        *lock(&self.last_error) = outcome.as_ref().err().cloned();
        if outcome.is_ok() {
            lock(&self.pause).end();
            self.last_save_ms.store(now_ms, Ordering::Release);
            self.snapshots.fetch_add(1, Ordering::Relaxed);
        } else {
            lock(&self.pause).begin(now_ms);
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// [`Keeping`] as the desk knows it; what runs in the background needs a handle of its own.
#[derive(Debug)]
pub struct SharedKeeping(pub Arc<Keeping>);

impl Keeper for SharedKeeping {
    fn save(&self) -> Result<(), String> {
        let keeping = &*self.0;
        keeping.saving.store(true, Ordering::Release);
        let outcome = keeping.snapshot();
        keeping.note(&outcome);
        keeping.saving.store(false, Ordering::Release);
        outcome
    }

    fn save_in_background(&self) -> bool {
        if self.0.saving.swap(true, Ordering::AcqRel) {
            return false;
        }
        let keeping = self.0.clone();
        let spawned = std::thread::Builder::new().name("bloomgate-save".into()).spawn(move || {
            // Lookups first: on a machine with as many reactors as cores a snapshot takes what they leave.
            crate::net::step_back(19);
            let outcome = keeping.snapshot();
            keeping.note(&outcome);
            keeping.saving.store(false, Ordering::Release);
        });
        if let Err(error) = &spawned {
            self.0.note(&Err(format!("no thread for the snapshot: {error}")));
            self.0.saving.store(false, Ordering::Release);
        }
        spawned.is_ok()
    }

    fn last_save_s(&self) -> u64 {
        self.0.last_save_ms.load(Ordering::Acquire) / 1_000
    }

    fn is_saving(&self) -> bool {
        self.0.saving.load(Ordering::Acquire)
    }

    fn last_error(&self) -> Option<String> {
        self.0.last_error()
    }

    fn write_image(&self, id: u64, filter: &AnyFilter) -> Result<Arc<str>, String> {
        let keeping = &*self.0;
        let sequence = keeping.engine.journal.appended();
        let mut file = ImageFile::create(&keeping.folder, id, sequence).map_err(|error| error.to_string())?;
        // Before the file has its name: a snapshot that ends in between would take it for one that nobody needs.
        let name: Arc<str> = file.name().into();
        lock(&keeping.fresh).insert(name.clone());
        let written = filter.write_to(&mut file).map_err(|error| error.to_string()).and_then(|_| {
            file.finish().map_err(|error| error.to_string())?;
            keeping.folder.sync().map_err(|error| error.to_string())
        });
        if let Err(why) = written {
            lock(&keeping.fresh).remove(&name);
            return Err(why);
        }
        Ok(name)
    }

    fn spool(&self, bytes: u64) -> Result<Spool, String> {
        Spool::create(&self.0.folder, bytes).map_err(|error| error.to_string())
    }

    fn backup(&self, folder: &str) -> Result<String, String> {
        self.0.backup(folder)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let keeping = &*self.0;
        // The log tells of itself in INFO; here is what only the keeper knows.
        let (bytes, took) = keeping.last_snapshot();
        vec![
            ("snapshot_failures", keeping.failures().to_string()),
            ("snapshot_retry_seconds", keeping.pause().map_or(0, |left| left.as_millis().div_ceil(1_000)).to_string()),
            ("snapshots", keeping.snapshots().to_string()),
            ("snapshot_bytes", bytes.to_string()),
            ("snapshot_usec", took.as_micros().to_string()),
        ]
    }
}
