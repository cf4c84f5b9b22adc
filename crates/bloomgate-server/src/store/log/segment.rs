//! A segment: one file of the log, called `log-<first sequence, 20 digits>`.
//!
//! It starts with 64 bytes:
//!
//! ```text
//! offset  bytes  field, little-endian
//!      0      8  "BLOOMLOG"
//!      8      4  version, 1
//!     12      4  flags; bit 0 "cut": what the segment before holds past (first sequence - 1) is void
//!     16     16  salt, random
//!     32      8  first sequence
//!     40     20  zero
//!     60      4  CRC-32C of bytes 0..60
//! ```
//!
//! A segment appears under its name complete with its header, synced, by a rename: a short or damaged header is
//! never a torn write. Segments are never changed once another one follows. The flag "cut" is how the log goes on after
//! a torn write without touching the torn file: the next segment starts with the first sequence that is not safe there.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::disk::{DiskFile, write_all};
use super::super::folder::{Folder, random};
use super::error::LogError;

pub(crate) const FILE_HEADER: usize = 64;
const MAGIC: &[u8; 8] = b"BLOOMLOG";
const VERSION: u32 = 1;
const CUT: u32 = 1;

/// The first bytes of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub salt: [u8; 16],
    pub first: u64,
    pub cut: bool,
}

pub(crate) fn new_salt() -> [u8; 16] {
    let mut salt = [0; 16];
    salt[..8].copy_from_slice(&random().to_le_bytes());
    salt[8..].copy_from_slice(&random().to_le_bytes());
    salt
}

pub(crate) fn segment_name(first: u64) -> String {
    format!("log-{first:020}")
}

/// The first sequence in the name of a segment; `None` for names of other things.
pub(crate) fn first_of_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-")?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

impl FileHeader {
    pub fn seal(&self) -> [u8; FILE_HEADER] {
        let mut bytes = [0; FILE_HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(if self.cut { CUT } else { 0 }).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.salt);
        bytes[32..40].copy_from_slice(&self.first.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads it, or says what is wrong.
    pub fn open(bytes: &[u8]) -> Result<FileHeader, String> {
        let Some(bytes) = bytes.first_chunk::<FILE_HEADER>() else {
            return Err(format!("the file has {} bytes, its header alone has {FILE_HEADER}", bytes.len()));
        };
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if &bytes[..8] != MAGIC {
            return Err("it does not start with BLOOMLOG".into());
        }
        if crc32c::crc32c(&bytes[..60]) != u32_at(60) {
            return Err("the checksum of the file header is wrong".into());
        }
        if u32_at(8) != VERSION {
            return Err(format!("its version is {}, this program reads version {VERSION}", u32_at(8)));
        }
        let flags = u32_at(12);
        if flags & !CUT != 0 {
            return Err(format!("it has flags ({flags:#x}) that this program does not know"));
        }
        let mut salt = [0; 16];
        salt.copy_from_slice(&bytes[16..32]);
        let first = u64::from(u32_at(32)) | u64::from(u32_at(36)) << 32;
        Ok(FileHeader { salt, first, cut: flags & CUT != 0 })
    }
}

/// Where segments are made.
pub(crate) struct Place {
    pub folder: Arc<Folder>,
}

impl Place {
    pub fn path(&self, first: u64) -> PathBuf {
        self.folder.at(&segment_name(first))
    }

    /// Makes a segment that holds these frames, durable under its name. Replaces one of the same first sequence: it can
    /// only hold what the new one holds too.
    pub fn create(&self, header: &FileHeader, frames: &[u8]) -> Result<Arc<dyn DiskFile>, LogError> {
        let name = segment_name(header.first);
        let path = self.folder.at(&name);
        let temporary = self.folder.temporary(&name);
        let made =
            self.folder.disk().create(&temporary).map_err(|e| LogError::io("create a log file", &temporary, e))?;
        let filled = self.fill(&*made, header, frames).and_then(|()| self.folder.disk().rename(&temporary, &path));
        if let Err(error) = filled {
            drop(made);
            // If this fails too, the next start removes it.
            let _ = self.folder.disk().remove(&temporary);
            return Err(LogError::io("write a new log file", &path, error));
        }
        self.folder
            .disk()
            .sync_dir(self.folder.path())
            .map_err(|e| LogError::io("sync the folder", self.folder.path(), e))?;
        Ok(Arc::from(made))
    }

    fn fill(&self, file: &dyn DiskFile, header: &FileHeader, frames: &[u8]) -> io::Result<()> {
        write_all(file, &header.seal(), 0)?;
        write_all(file, frames, FILE_HEADER as u64)?;
        file.sync_data()
    }
}
