//! Images of filters: large files that appear under their name only when they are complete and durable.

use std::collections::HashSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::disk::{DiskFile, write_all};
use super::folder::{Folder, FolderError};

/// Bytes per write. The kernel copies them in one go, and on a machine whose cores are all busy the reactor that wants this
/// core waits so long: a megabyte took 3.5 ms, where pages had to be found for it first.
const PIECE: usize = 64 << 10;

/// The file name of a filter's image as of a sequence.
pub fn image_name(id: u64, sequence: u64) -> String {
    format!("image-{id}-{sequence}.bloom")
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
    file: Option<Box<dyn DiskFile>>,
    buffer: Vec<u8>,
    offset: u64,
    /// The furthest place that was written to.
    end: u64,
}

impl ImageFile {
    /// Begins the image of a filter as of a sequence.
    pub fn create(folder: &Arc<Folder>, id: u64, sequence: u64) -> io::Result<ImageFile> {
        let name = image_name(id, sequence);
        let temporary = folder.temporary(&name);
        let file = Some(folder.disk().create(&temporary)?);
        Ok(ImageFile {
            folder: folder.clone(),
            name,
            temporary,
            file,
            buffer: Vec::with_capacity(PIECE),
            offset: 0,
            end: 0,
        })
    }

    /// How long it is so far.
    pub fn bytes(&self) -> u64 {
        self.end.max(self.offset + self.buffer.len() as u64)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &self.file else { return Err(io::Error::other("the image is finished")) };
        write_all(&**file, bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        self.end = self.end.max(self.offset);
        Ok(())
    }

    fn empty_buffer(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.put(&buffer)?;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    /// Syncs it and gives it its name, which is returned. The name is durable after [`Folder::sync`] (or after the manifest is
    /// written, which syncs the folder).
    pub fn finish(mut self) -> io::Result<String> {
        self.empty_buffer()?;
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        self.folder.disk().rename(&self.temporary, &self.folder.at(&self.name))?;
        self.file = None;
        Ok(self.name.clone())
    }
}

impl Write for ImageFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.buffer.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() < PIECE {
                return Ok(());
            }
            self.empty_buffer()?;
        }
        while bytes.len() >= PIECE {
            let (now, later) = bytes.split_at(PIECE);
            self.put(now)?;
            bytes = later;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.empty_buffer()
    }
}

/// Back to an earlier place: the sums of a file stand before what they check and are known after it.
impl Seek for ImageFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.empty_buffer()?;
        self.offset = match to {
            SeekFrom::Start(offset) => offset,
            SeekFrom::Current(0) => self.offset,
            _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "an image is sought from its start")),
        };
        Ok(self.offset)
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // If this fails, the next start removes it.
            let _ = self.folder.disk().remove(&self.temporary);
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
