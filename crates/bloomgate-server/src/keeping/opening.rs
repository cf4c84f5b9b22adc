//! An engine with what its folder held, ready to serve.
//!
//! In two steps, so that clients are answered while much is read: an engine that says it is loading, and the reading.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bloomgate::Secret;

use super::Keeping;
use super::loading::load;
use crate::engine::Engine;
use crate::engine::clock::Clock;
use crate::engine::contracts::{Contracts, DEFAULT};
use crate::engine::journal::Journal;
use crate::engine::record::Record;
use crate::engine::watch::Watch;
use crate::logging;
use crate::settings::Settings;
use crate::store::{Disk, Folder, LogOptions, RealDisk};

/// Bytes of the file of a secret: 64 digits and the end of the line, and some to tell a longer one.
const MOST_SECRET: u64 = 80;

/// So many of the filters that cannot answer are told by name: a folder may have millions.
pub const NAMED: usize = 10;

/// What a folder held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Filters.
    pub filters: usize,
    /// Of those, the ones that cannot answer.
    pub unavailable: usize,
    /// The first of these, at most [`NAMED`], each with its reason.
    pub named: Vec<(String, String)>,
    /// Batches of the log that were read.
    pub batches: u64,
    /// Bytes of a torn write that were left out.
    pub torn_bytes: u64,
}

/// An engine, and who keeps its filters.
#[derive(Debug)]
pub struct Opened {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Who keeps its filters, unless nothing is kept.
    pub keeping: Option<Arc<Keeping>>,
    /// What the folder held.
    pub found: Found,
}

/// A folder that is locked, with its secret, and not read yet.
#[derive(Debug)]
pub struct Opening {
    /// The engine: loading until [`Engine::end_loading`], if there is anything to load.
    pub engine: Arc<Engine>,
    /// Nothing for a server that keeps nothing.
    folder: Option<Arc<Folder>>,
    options: LogOptions,
    threads: usize,
    snapshot_log: u64,
}

impl Opening {
    /// Takes the folder of the settings for so many writing threads, or an engine that keeps nothing.
    pub fn begin(settings: &Settings, disk: Arc<dyn Disk>, threads: usize) -> Result<Self, String> {
        let (limits, defaults) = (settings.limits.clone(), settings.defaults.clone());
        let folder = match &settings.data {
            Some(data) => Some(Arc::new(Folder::open(data, disk).map_err(|error| error.to_string())?)),
            None => None,
        };
        let contracts = Contracts::new(Some(master_secret(settings)?));
        let journal = match &folder {
            Some(folder) => {
                // A secret that was just made must not be lost by a power cut that keeps what was hashed under it.
                folder.sync().map_err(|error| error.to_string())?;
                Journal::to_come()
            }
            None => Journal::nowhere(),
        };
        let mut engine = Engine::new(journal, contracts, Clock::start(), limits, defaults, threads);
        engine.watch = Watch::new(settings.watch);
        let engine = Arc::new(engine);
        let options = LogOptions { fsync: settings.fsync, ..LogOptions::default() };
        Ok(Self { engine, folder, options, threads: settings.threads, snapshot_log: settings.snapshot_log })
    }

    /// Reads everything. The engine is still loading afterwards: whoever serves ends that, once all else is in place.
    pub fn load(self) -> Result<Opened, String> {
        let Self { engine, folder, options, threads, snapshot_log } = self;
        let Some(folder) = folder else {
            engine.contracts.begin(DEFAULT, 1, engine.clock.now_ms());
            return Ok(Opened { engine, keeping: None, found: Found::default() });
        };
        let loaded = load(&folder, &engine.contracts, options, threads)?;
        engine.clock.not_before(loaded.clock_ms);
        let first_start = !engine.contracts.knows(DEFAULT);
        engine.contracts.begin(DEFAULT, 1, engine.clock.now_ms());
        let mut found = Found {
            filters: loaded.entries.len(),
            unavailable: 0,
            named: Vec::new(),
            batches: loaded.recovery.batches,
            torn_bytes: loaded.recovery.torn_bytes,
        };
        engine.journal.open(loaded.log);
        engine.restore(loaded.entries, loaded.next_id, |name, why| {
            found.unavailable += 1;
            if found.named.len() < NAMED {
                found.named.push((logging::shown(name), why.to_owned()));
            }
        });
        engine.link_shadows();
        if first_start {
            // The age of its secret counts from here, through every restart.
            let mut record = Vec::new();
            if let Some(id) = engine.contracts.master_id() {
                Record::Master { id: &id }.put(&mut record);
            }
            Record::Contract { name: DEFAULT, epoch: 1, created_ms: engine.clock.now_ms() }.put(&mut record);
            engine.journal.append(&record).map_err(|refusal| refusal.as_str().to_owned())?;
        }
        let keeping = Keeping::new(engine.clone(), folder, loaded.images, loaded.clock_ms, snapshot_log);
        Ok(Opened { engine, keeping: Some(Arc::new(keeping)), found })
    }
}

/// Opens the folder of the settings at once.
pub fn open(settings: &Settings, threads: usize) -> Result<Opened, String> {
    let opened = Opening::begin(settings, Arc::new(RealDisk), threads)?.load()?;
    opened.engine.end_loading();
    Ok(opened)
}

/// The master secret: from its file, or made and written there at the first start.
fn master_secret(settings: &Settings) -> Result<Secret, String> {
    if let Some(secret) = given_secret(settings)? {
        return Ok(secret);
    }
    let secret = Secret::generate().map_err(|error| error.to_string())?;
    if let Some(path) = secret_file(settings) {
        secret.write_file(&path).map_err(|error| error.to_string())?;
    }
    Ok(secret)
}

/// Whether a start would find the master secret where it has to be; nothing is made.
pub fn check_master(settings: &Settings) -> Result<(), String> {
    given_secret(settings).map(drop)
}

/// A secret from its file. One that systemd hands over (`LoadCredential=`) is for the service alone, whatever its mode looks like:
/// where an access list lets the service's user in, the group seems to be let in too.
fn read_secret(path: &Path) -> bloomgate::Result<Secret> {
    let handed = std::env::var_os("CREDENTIALS_DIRECTORY").is_some_and(|folder| path.starts_with(folder));
    if !handed {
        return Secret::read_file(path);
    }
    let failed = |error| bloomgate::Error::io(format!("reading the secret file {}", path.display()), error);
    let mut text = String::new();
    std::fs::File::open(path).and_then(|file| file.take(MOST_SECRET).read_to_string(&mut text)).map_err(failed)?;
    Secret::from_hex(text.trim_end())
}

fn secret_file(settings: &Settings) -> Option<PathBuf> {
    settings.master_key.clone().or_else(|| settings.data.as_ref().map(|data| data.join("master.key")))
}

/// The master secret that is there; nothing if this is a first start.
fn given_secret(settings: &Settings) -> Result<Option<Secret>, String> {
    let Some(path) = secret_file(settings) else { return Ok(None) };
    // A disk that does not say is not one without a key.
    let is_there =
        path.try_exists().map_err(|error| format!("looking for the master secret {}: {error}", path.display()))?;
    if is_there {
        return read_secret(&path).map(Some).map_err(|error| error.to_string());
    }
    // A key file that was named and is not there is a mistake; and data without its key must not get another one.
    let has_data = match &settings.data {
        Some(folder) => has_data(folder).map_err(|error| format!("looking into {}: {error}", folder.display()))?,
        None => false,
    };
    if settings.master_key.is_some() || has_data {
        return Err(format!(
            "the master secret {} is not there: without it no filter can answer. Bring it back, or name it with --master-key",
            path.display()
        ));
    }
    Ok(None)
}

fn has_data(folder: &Path) -> std::io::Result<bool> {
    let files = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        files => files?,
    };
    for file in files {
        let name = file?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("log-") || name.starts_with("image-") || name == "MANIFEST" {
            return Ok(true);
        }
    }
    Ok(false)
}
