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
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{DiskFile, read_full, write_all};
use super::folder::Folder;

const MAGIC: &[u8; 8] = b"BLOOMMAN";
const VERSION: u32 = 1;
const HEADER: usize = 64;
const BLOCK: usize = 64 << 10;
const NAME: &str = "MANIFEST";
const PREVIOUS: &str = "MANIFEST.old";

/// The longest body: room for a million filters with 256 bytes each.
const MAX_BODY: u64 = 256 << 20;

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

impl Manifest {
    /// Bytes that its file has.
    #[must_use]
    pub fn size_in_file(&self) -> u64 {
        (HEADER + self.sections.len() + self.sections.len().div_ceil(BLOCK) * 4) as u64
    }
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
    /// The body is longer than a body may be.
    TooLarge {
        /// Its bytes.
        bytes: u64,
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
            ManifestError::TooLarge { bytes } => {
                write!(f, "a manifest of {bytes} bytes is more than the {MAX_BODY} it may have: too many filters")
            }
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
    let bytes = manifest.sections.len() as u64;
    if bytes > MAX_BODY {
        return Err(ManifestError::TooLarge { bytes });
    }
    let disk = folder.disk();
    let (path, previous) = (folder.at(NAME), folder.at(PREVIOUS));
    let temporary = folder.temporary(NAME);
    let file = disk.create(&temporary).map_err(failed("create the manifest", &temporary))?;
    let written = fill(&*file, manifest).and_then(|()| {
        // A courtesy, not a need: file systems without links have no MANIFEST.old.
        let _ = disk.remove(&previous);
        let _ = disk.link(&path, &previous);
        disk.rename(&temporary, &path)
    });
    if let Err(error) = written {
        drop(file);
        // If this fails too, the next start removes it.
        let _ = disk.remove(&temporary);
        return Err(failed("write the manifest", &path)(error));
    }
    disk.sync_dir(folder.path()).map_err(failed("sync the data folder", folder.path()))
}

fn fill(file: &dyn DiskFile, manifest: &Manifest) -> io::Result<()> {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&manifest.version.to_le_bytes());
    header[16..24].copy_from_slice(&manifest.replay_after.to_le_bytes());
    header[24..32].copy_from_slice(&(manifest.sections.len() as u64).to_le_bytes());
    let crc = crc32c::crc32c(&header[..60]);
    header[60..].copy_from_slice(&crc.to_le_bytes());
    write_all(file, &header, 0)?;
    let mut offset = HEADER as u64;
    let mut sealed = Vec::with_capacity(BLOCK + 4);
    for (number, block) in manifest.sections.chunks(BLOCK).enumerate() {
        sealed.clear();
        sealed.extend_from_slice(block);
        sealed.extend_from_slice(&block_crc(crc, number as u64, block).to_le_bytes());
        write_all(file, &sealed, offset)?;
        offset += sealed.len() as u64;
    }
    file.sync_data()
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
    let blocks = body_length.div_ceil(BLOCK as u64);
    let length = file.length().map_err(failed("read the manifest", &path))?;
    // Before anything is allocated: the header's length must be that of the file.
    if body_length > MAX_BODY || length != HEADER as u64 + body_length + 4 * blocks {
        return Err(corrupt(24, format!("it has {length} bytes and announces a body of {body_length}")));
    }
    let mut body = vec![0; body_length as usize];
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
