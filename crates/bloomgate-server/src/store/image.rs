//! Images of filters: large files that appear under their name only when they are complete and durable.
//!
//! A name is given once for as long as there is a file of it. What takes a name that is there already takes a file away from the
//! manifest that names it, and after a crash that manifest may be the one that counts.

use std::collections::HashSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::folder::{Folder, FolderError};
use super::pieces::Pieces;

fn image_name(id: u64, number: u64) -> String {
    format!("image-{id}-{number}.bloom")
}

/// The first name of a filter's images from this number on that no file has. The folder itself is asked: it knows the images of
/// manifests that may or may not be the one that counts, which nobody else does.
fn free_name(folder: &Folder, id: u64, from: u64) -> io::Result<String> {
    for number in from.. {
        let name = image_name(id, number);
        match folder.disk().open(&folder.at(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(name),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn is_image(name: &str) -> bool {
    let inner = name.strip_prefix("image-").and_then(|rest| rest.strip_suffix(".bloom"));
    let Some((id, sequence)) = inner.and_then(|inner| inner.split_once('-')) else { return false };
    [id, sequence].iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// An image being written. Dropped before [`ImageFile::finish`], it leaves nothing behind.
pub struct ImageFile {
    folder: Arc<Folder>,
    name: String,
    temporary: PathBuf,
    /// `None` once it is finished.
    written: Option<Pieces>,
}

impl ImageFile {
    /// Begins the image of a filter as of a sequence: its name has that number, or the next one that is free. Images of one
    /// filter are begun one after the other.
    pub fn create(folder: &Arc<Folder>, id: u64, sequence: u64) -> io::Result<ImageFile> {
        let name = free_name(folder, id, sequence)?;
        let temporary = folder.temporary(&name);
        let written = Some(Pieces::new(folder.disk().create_large(&temporary)?));
        Ok(ImageFile { folder: folder.clone(), name, temporary, written })
    }

    /// The name that it will have.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long it is so far.
    pub fn bytes(&self) -> u64 {
        self.written.as_ref().map_or(0, Pieces::bytes)
    }

    fn written(&mut self) -> io::Result<&mut Pieces> {
        self.written.as_mut().ok_or_else(|| io::Error::other("the image is finished"))
    }

    /// Syncs it and gives it its name, which is returned. The name is durable after [`Folder::sync`], which has to be before the
    /// manifest that names it.
    pub fn finish(mut self) -> io::Result<String> {
        let Some(written) = self.written.take() else { return Err(io::Error::other("the image is finished")) };
        let done = written.finish().and_then(|file| {
            file.sync_data()?;
            self.folder.disk().rename(&self.temporary, &self.folder.at(&self.name))
        });
        match done {
            Ok(()) => Ok(self.name.clone()),
            Err(error) => {
                self.remove();
                Err(error)
            }
        }
    }

    fn remove(&self) {
        // If this fails, the next start removes it.
        let _ = self.folder.disk().remove(&self.temporary);
    }
}

impl Write for ImageFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written()?.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written()?.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.written()?.flush()
    }
}

impl Seek for ImageFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.written()?.seek(to)
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        if self.written.take().is_some() {
            self.remove();
        }
    }
}

/// Removes the images that are not in `keep`; says how many. To be called once the manifest that names `keep` is durable.
pub fn remove_unreferenced(folder: &Folder, keep: &HashSet<String>) -> Result<u64, FolderError> {
    let mut removed = 0;
    for name in folder.names()? {
        if is_image(&name) && !keep.contains(&name) {
            let path = folder.at(&name);
            let gone = folder.disk().remove(&path);
            gone.map_err(|source| FolderError::Io { doing: "remove the old image", path, source })?;
            removed += 1;
        }
    }
    Ok(removed)
}
