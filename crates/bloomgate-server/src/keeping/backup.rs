//! Backups while the server works: a snapshot, its images and the log since, in a folder that a server can be started
//! on. The master secret is not in it: keep that apart from the data, and bring both together to restore.
//!
//! A backup is made beside its place and gets its name when all of it is durable. What does not get that far goes at once, or at the
//! next start: what filled the disk would keep the server from writing for as long as it lay there.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Keeping, lock};
use crate::store::{BACKUPS, FILE_HEADER, first_of_name};

/// What a backup leaves free on the disk: a segment of the log. One that took all there is would stop the writers first.
const LEFT_FREE: u64 = 64 << 20;

impl Keeping {
    /// Copies everything into `DATA/backups/NAME`; where that is.
    pub fn backup(&self, name: &str) -> Result<String, String> {
        let _one_at_a_time = lock(&self.at_work);
        let place = self.folder.at(BACKUPS).join(name);
        let failed = |error: io::Error| format!("the backup {}: {error}", place.display());
        match self.folder.disk().is_dir(&place) {
            Ok(false) => {}
            Err(error) if error.kind() != io::ErrorKind::NotADirectory => return Err(failed(error)),
            _ => return Err(format!("{} is there already: choose another name", place.display())),
        }
        self.snapshot_now()?;
        // From here on nothing is written to any segment before this one, so a copy of them is no torn one.
        let next = self.engine.journal.seal()?;
        let partial = self.folder.unfinished_backup(name);
        // One that could not be removed when it failed.
        let made = self.folder.remove_folder(&partial).and_then(|()| self.copy_to(&partial, next));
        let made = made.and_then(|()| self.give_name(&partial, &place));
        if made.is_err() {
            let _ = self.folder.remove_folder(&partial);
        }
        made.map(|()| place.display().to_string()).map_err(failed)
    }

    /// Copies the images and the log into a folder that is to be made, durably but for its name; of the segment `next`, which is
    /// being written, its header: so that one which loses the end of the segment before it is not taken for whole.
    fn copy_to(&self, partial: &Path, next: u64) -> io::Result<()> {
        let disk = self.folder.disk();
        disk.create_dir(partial)?;
        // The folder of all backups may be new as well.
        disk.sync_dir(self.folder.path())?;
        let room = || match disk.free(partial)? {
            free if free < LEFT_FREE => Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "{free} bytes of the disk are free, and {LEFT_FREE} are left for the log: make room, or move older ones away"
                ),
            )),
            _ => Ok(()),
        };
        let copy = |file: &str, most: u64| disk.copy(&self.folder.at(file), &partial.join(file), most, &room);
        // Nobody removes images now: only a snapshot does, and this holds its lock.
        let images = lock(&self.images).files();
        for file in images.iter().map(String::as_str).chain(["MANIFEST"]) {
            copy(file, u64::MAX)?;
        }
        for file in self.folder.names().map_err(io::Error::other)? {
            match first_of_name(&file) {
                // One that goes meanwhile is from before the snapshot.
                Some(first) if first < next => or_gone(copy(&file, u64::MAX))?,
                Some(first) if first == next => copy(&file, FILE_HEADER as u64)?,
                _ => {}
            }
        }
        // After the log: filters are installed from files all the time, and whatever the log names is there by now. One
        // that is not there is still being written, so no log names it.
        let fresh: Vec<Arc<str>> = lock(&self.fresh).iter().cloned().collect();
        for file in fresh {
            or_gone(copy(&file, u64::MAX))?;
        }
        disk.sync_dir(partial)
    }

    /// Gives a complete backup its name.
    fn give_name(&self, partial: &Path, place: &Path) -> io::Result<()> {
        let disk = self.folder.disk();
        disk.rename(partial, place)?;
        disk.sync_dir(&self.folder.at(BACKUPS)).inspect_err(|_| {
            // It may be gone after a power cut: then it is not to be relied on.
            let _ = self.folder.remove_folder(place);
        })
    }
}

/// A file that is not there need not be copied.
fn or_gone(copied: io::Result<()>) -> io::Result<()> {
    match copied {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
