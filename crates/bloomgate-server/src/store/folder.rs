//! The data folder: whose it is, and what is in it.
//!
//! | name | what |
//! |---|---|
//! | `lock` | held (flock) by the server that runs on this folder; says its process id |
//! | `MANIFEST`, `MANIFEST.old` | the last snapshot's table of contents, and the one before |
//! | `image-<id>-<sequence>.bloom` | one filter as of one sequence |
//! | `log-<first sequence>` | a segment of the log |
//! | `access.toml` | users and namespaces, unless their file is elsewhere |
//! | `backups/<name>` | a backup |
//! | `backups/.<name>.partial` | one that is being made; removed when that fails, and at the next start |
//! | `<name>.tmp-<random>` | something half written; removed at the next start |
//!
//! Names that are none of these are left alone.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, read_full};

/// The data folder, held by this process alone until the value is dropped.
pub struct Folder {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    _lock: Box<dyn Send + Sync>,
}

/// Why a data folder cannot be used.
#[derive(Debug)]
pub enum FolderError {
    /// A step on the folder failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which path.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another process runs on this folder.
    InUse {
        /// The folder.
        path: PathBuf,
        /// What the other process wrote into the lock file.
        owner: String,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderError::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            FolderError::InUse { path, owner } => write!(
                f,
                "the data folder {} is in use by {}: stop that server or give this one a folder of its own",
                path.display(),
                if owner.is_empty() { "another process" } else { owner },
            ),
        }
    }
}

impl std::error::Error for FolderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FolderError::Io { source, .. } => Some(source),
            FolderError::InUse { .. } => None,
        }
    }
}

/// 64 bits that no other file, process or run has: for salts and names of temporary files, not for secrets.
/// std seeds its hasher from the operating system, so there is no error path here.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

const TEMPORARY: &str = ".tmp-";
/// The folder of the backups, and how those end that are not complete.
pub(crate) const BACKUPS: &str = "backups";
const PARTIAL: &str = ".partial";

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Folder {
    /// Makes the folder if it is missing (0700), takes its lock and removes what an interrupted run left half written.
    pub fn open(path: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Result<Folder, FolderError> {
        let path = path.into();
        let failed = |doing, path: &Path| {
            let path = path.to_path_buf();
            move |source| FolderError::Io { doing, path, source }
        };
        if !disk.is_dir(&path).map_err(failed("use the data folder", &path))? {
            disk.create_dir(&path).map_err(failed("make the data folder", &path))?;
            if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
                disk.sync_dir(parent).map_err(failed("sync", parent))?;
            }
        }
        let lock = path.join("lock");
        let owner = format!("process {}", std::process::id());
        let lock = match disk.lock(&lock, &owner).map_err(failed("lock", &lock))? {
            Ok(held) => held,
            Err(owner) => return Err(FolderError::InUse { path, owner: owner.trim().to_string() }),
        };
        let folder = Folder { path, disk, _lock: lock };
        for name in folder.names()? {
            if is_temporary(&name) {
                let path = folder.at(&name);
                folder.disk.remove(&path).map_err(failed("remove the half-written file", &path))?;
            }
        }
        folder.remove_unfinished_backups();
        Ok(folder)
    }

    /// Removes what is left of backups that were not completed. They take room and do no other harm, so one that cannot be
    /// removed does not stop the start.
    fn remove_unfinished_backups(&self) {
        let backups = self.at(BACKUPS);
        let Ok(true) = self.disk.is_dir(&backups) else { return };
        for name in self.disk.list(&backups).unwrap_or_default() {
            if name.starts_with('.') && name.ends_with(PARTIAL) {
                let _ = self.remove_folder(&backups.join(name));
            }
        }
    }

    /// Removes a folder with the files in it; nothing if there is none.
    pub(crate) fn remove_folder(&self, path: &Path) -> io::Result<()> {
        if !self.disk.is_dir(path)? {
            return Ok(());
        }
        for name in self.disk.list(path)? {
            self.disk.remove(&path.join(name))?;
        }
        self.disk.remove_dir(path)
    }

    /// Where a backup is made until it is complete: no backup can be called so.
    pub(crate) fn unfinished_backup(&self, name: &str) -> PathBuf {
        self.at(BACKUPS).join(format!(".{name}{PARTIAL}"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk it is on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The path of a file in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A name for something that will be called `name` once it is complete.
    pub(crate) fn temporary(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}{TEMPORARY}{:016x}", random()))
    }

    /// All names in it.
    pub fn names(&self) -> Result<Vec<String>, FolderError> {
        let listed = self.disk.list(&self.path);
        listed.map_err(|source| FolderError::Io { doing: "list the data folder", path: self.path.clone(), source })
    }

    /// The bytes of a file in it, into memory.
    pub(crate) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.disk.open(&self.at(name))?;
        let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
        let read = read_full(&*file, &mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Makes created, renamed and removed names durable.
    pub fn sync(&self) -> Result<(), FolderError> {
        let synced = self.disk.sync_dir(&self.path);
        synced.map_err(|source| FolderError::Io { doing: "sync the data folder", path: self.path.clone(), source })
    }
}

/// Only names that this store makes: another program's `x.tmp-1` is not ours to remove.
fn is_temporary(name: &str) -> bool {
    let Some((stem, random)) = name.rsplit_once(TEMPORARY) else { return false };
    let ours = matches!(stem, "MANIFEST" | "access.toml") || stem.starts_with("log-") || stem.starts_with("image-");
    ours && random.len() == 16 && random.bytes().all(|b| b.is_ascii_hexdigit())
}
