//! Backups while the server works: a snapshot, its images and the log since, in a folder that a server can be started
//! on. The master secret is not in it: keep that apart from the data, and bring both together to restore.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::{Keeping, lock};

impl Keeping {
    /// Copies everything into `DATA/backups/NAME`; where that is.
    pub fn backup(&self, name: &str) -> Result<String, String> {
        let _one_at_a_time = lock(&self.at_work);
        let folder = self.folder.at("backups").join(name);
        if folder.try_exists().map_err(|error| format!("the backup {}: {error}", folder.display()))? {
            return Err(format!("{} is there already: choose another name", folder.display()));
        }
        self.snapshot_now()?;
        let partial = self.folder.at("backups").join(format!(".{name}.partial"));
        let failed = |error: std::io::Error| format!("the backup {}: {error}", folder.display());
        let _ = fs::remove_dir_all(&partial);
        fs::create_dir_all(&partial).map_err(failed)?;
        // Nobody removes images now: only a snapshot does, and this holds its lock.
        let images = lock(&self.images).files();
        for file in images.iter().map(String::as_str).chain(["MANIFEST"]) {
            copy(&self.folder.at(file), &partial.join(file)).map_err(failed)?;
        }
        let mut segments = self.folder.names().map_err(|error| error.to_string())?;
        segments.retain(|name| name.starts_with("log-") && !name.contains(".tmp"));
        segments.sort();
        for file in segments {
            // One that goes meanwhile is from before the snapshot.
            copy_if_there(&self.folder.at(&file), &partial.join(&file)).map_err(failed)?;
        }
        // After the log: filters are installed from files all the time, and whatever the log names is there by now. One
        // that is not there is still being written, so no log names it.
        let fresh: Vec<Arc<str>> = lock(&self.fresh).iter().cloned().collect();
        for file in fresh {
            copy_if_there(&self.folder.at(&file), &partial.join(&*file)).map_err(failed)?;
        }
        sync(&partial).map_err(failed)?;
        fs::rename(&partial, &folder).map_err(failed)?;
        sync(&self.folder.at("backups")).map_err(failed)?;
        Ok(folder.display().to_string())
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    fs::File::open(to)?.sync_all()
}

fn copy_if_there(from: &Path, to: &Path) -> std::io::Result<()> {
    match copy(from, to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn sync(folder: &Path) -> std::io::Result<()> {
    fs::File::open(folder)?.sync_all()
}
