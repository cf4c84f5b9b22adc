//! The manifest: the table of contents of the last snapshot, in one small file that is replaced in one step.
//!
//! ```text
//! offset  bytes  field, little-endian
//!      0      8  "BLOOMMAN"
//!      8      4  version, 1
//!     12      4  version of the body, the engine's
//!     16      8  the log is replayed after this sequence
//!     24      8  length of the body
//!     32     28  zero
//!     60      4  CRC-32C of bytes 0..60
//!     64      …  the body in blocks of 64 KiB (the last one shorter), each followed by the CRC-32C (4 bytes) of the header's
//!                checksum, the block's number (8 bytes) and the block
//! ```
//!
//! The body belongs to the engine. `MANIFEST.old` is the one before: a second name of the same file, so there is no moment
//! without a `MANIFEST`. It is for an operator's eyes: the store never falls back to it by itself, because the batches
//! between the two may be gone from the log.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::disk::{DiskFile, read_full, write_all};
use super::folder::Folder;

const MAGIC: &[u8; 8] = b"BLOOMMAN";
const VERSION: u32 = 1;
const HEADER: usize = 64;
const BLOCK: usize = 64 << 10;
const NAME: &str = "MANIFEST";
const PREVIOUS: &str = "MANIFEST.old";

/// How long the file with such a body is. There is no longest body: it has as many filters as the limits of the server allow, and
/// what a header announces is compared with the file before memory is taken for it.
fn length_with(body: u64) -> Option<u64> {
    body.checked_add(4 * body.div_ceil(BLOCK as u64))?.checked_add(HEADER as u64)
}

/// What a snapshot says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The version of the body's meaning: the engine's.
    pub version: u32,
    /// The log is replayed after this sequence.
    pub replay_after: u64,
    /// The engine's table.
    pub sections: Vec<u8>,
}

/// Why a manifest cannot be written or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ManifestError {
    /// A step failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It is not what was written.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What was found there.
        what: String,
    },
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::Io { doing, path, source } => write!(f, "cannot {doing} ({}): {source}", path.display()),
            ManifestError::Corrupt { path, offset, what } => write!(
                f,
                "{} is damaged at byte {offset}: {what}. Nothing was changed; restore the folder from a backup",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ManifestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ManifestError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ManifestError + use<> {
    let path = path.to_path_buf();
    move |source| ManifestError::Io { doing, path, source }
}

fn block_crc(header_crc: u32, number: u64, block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(header_crc, &number.to_le_bytes()), block)
}

/// Replaces the manifest of a folder, durably. Until it returns `Ok` the old one may still be the one that counts: log and
/// images that it needs must not be removed before.
pub fn write_manifest(folder: &Folder, manifest: &Manifest) -> Result<(), ManifestError> {
    let Manifest { version, replay_after, sections } = manifest;
    PreparedManifest::write(folder, *version, *replay_after, sections.len() as u64, &mut &sections[..])?.put()
}

/// A manifest that is complete and durable and has not its name yet: the one before still counts, certainly. Dropped, it leaves
/// nothing behind.
pub struct PreparedManifest<'f> {
    folder: &'f Folder,
    temporary: PathBuf,
    bytes: u64,
    has_its_name: bool,
}

impl<'f> PreparedManifest<'f> {
    /// Writes one, its body a block at a time.
    pub fn write(
        folder: &'f Folder,
        version: u32,
        replay_after: u64,
        length: u64,
        body: &mut dyn Read,
    ) -> Result<Self, ManifestError> {
        let temporary = folder.temporary(NAME);
        let file = folder.disk().create(&temporary).map_err(failed("create the manifest", &temporary))?;
        let mut prepared = Self { folder, temporary, bytes: 0, has_its_name: false };
        let filled = fill(&*file, version, replay_after, length, body);
        prepared.bytes = filled.map_err(failed("write the manifest", &folder.at(NAME)))?;
        Ok(prepared)
    }

    /// Bytes that its file has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives it its name, durably. When that fails, nobody knows which of the two a start would find.
    pub fn put(mut self) -> Result<(), ManifestError> {
        let (folder, disk) = (self.folder, self.folder.disk());
        let (path, previous) = (folder.at(NAME), folder.at(PREVIOUS));
        // A courtesy, not a need: file systems without links have no MANIFEST.old.
        let _ = disk.remove(&previous);
        let _ = disk.link(&path, &previous);
        disk.rename(&self.temporary, &path).map_err(failed("write the manifest", &path))?;
        self.has_its_name = true;
        disk.sync_dir(folder.path()).map_err(failed("sync the data folder", folder.path()))
    }
}

impl Drop for PreparedManifest<'_> {
    fn drop(&mut self) {
        if !self.has_its_name {
            // If this fails, the next start removes it.
            let _ = self.folder.disk().remove(&self.temporary);
        }
    }
}

/// Writes and syncs a file with such a body; how long it is.
fn fill(file: &dyn DiskFile, version: u32, replay_after: u64, length: u64, body: &mut dyn Read) -> io::Result<u64> {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&version.to_le_bytes());
    header[16..24].copy_from_slice(&replay_after.to_le_bytes());
    header[24..32].copy_from_slice(&length.to_le_bytes());
    let crc = crc32c::crc32c(&header[..60]);
    header[60..].copy_from_slice(&crc.to_le_bytes());
    write_all(file, &header, 0)?;
    let mut offset = HEADER as u64;
    let mut sealed = vec![0; BLOCK + 4];
    let mut left = length;
    for number in 0.. {
        let size = left.min(BLOCK as u64) as usize;
        if size == 0 {
            break;
        }
        body.read_exact(&mut sealed[..size])?;
        let sum = block_crc(crc, number, &sealed[..size]);
        sealed[size..size + 4].copy_from_slice(&sum.to_le_bytes());
        write_all(file, &sealed[..size + 4], offset)?;
        offset += size as u64 + 4;
        left -= size as u64;
    }
    file.sync_data()?;
    Ok(offset)
}

/// Reads the manifest of a folder; `None` if it never had one.
pub fn read_manifest(folder: &Folder) -> Result<Option<Manifest>, ManifestError> {
    let path = folder.at(NAME);
    let file = match folder.disk().open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return absent(folder),
        Err(e) => return Err(failed("open the manifest", &path)(e)),
    };
    let corrupt = |offset: u64, what: String| ManifestError::Corrupt { path: path.clone(), offset, what };
    let mut header = [0; HEADER];
    let read = read_full(&*file, &mut header, 0).map_err(failed("read the manifest", &path))?;
    if read < HEADER {
        return Err(corrupt(0, format!("it has {read} bytes, its header alone has {HEADER}")));
    }
    let u32_at = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    if &header[..8] != MAGIC {
        return Err(corrupt(0, "it does not start with BLOOMMAN".into()));
    }
    let crc = u32_at(60);
    if crc32c::crc32c(&header[..60]) != crc {
        return Err(corrupt(60, "the checksum of its header is wrong".into()));
    }
    if u32_at(8) != VERSION {
        return Err(corrupt(8, format!("its version is {}, this program reads version {VERSION}", u32_at(8))));
    }
    let body_length = u64_at(24);
    let length = file.length().map_err(failed("read the manifest", &path))?;
    // Before anything is allocated: the header's length must be that of the file.
    if length_with(body_length) != Some(length) {
        return Err(corrupt(24, format!("it has {length} bytes and announces a body of {body_length}")));
    }
    let mut body = Vec::new();
    let no_memory = |_| failed("read the manifest", &path)(io::ErrorKind::OutOfMemory.into());
    let body_length = usize::try_from(body_length).map_err(|_| no_memory(()))?;
    body.try_reserve_exact(body_length).map_err(|_| no_memory(()))?;
    body.resize(body_length, 0);
    let mut offset = HEADER as u64;
    for (number, block) in body.chunks_mut(BLOCK).enumerate() {
        let mut sum = [0; 4];
        let mut read = read_full(&*file, block, offset).map_err(failed("read the manifest", &path))?;
        read += read_full(&*file, &mut sum, offset + block.len() as u64).map_err(failed("read the manifest", &path))?;
        if read < block.len() + 4 || block_crc(crc, number as u64, block) != u32::from_le_bytes(sum) {
            return Err(corrupt(offset, format!("the checksum of block {number} is wrong")));
        }
        offset += block.len() as u64 + 4;
    }
    Ok(Some(Manifest { version: u32_at(12), replay_after: u64_at(16), sections: body }))
}

/// A folder that has an old manifest had a new one.
fn absent(folder: &Folder) -> Result<Option<Manifest>, ManifestError> {
    let names = folder.disk().list(folder.path()).map_err(failed("list the data folder", folder.path()))?;
    if names.iter().any(|name| name == PREVIOUS) {
        let what = "it is missing, but MANIFEST.old is there".into();
        return Err(ManifestError::Corrupt { path: folder.at(NAME), offset: 0, what });
    }
    Ok(None)
}
