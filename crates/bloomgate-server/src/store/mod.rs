//! What survives: the log, the snapshots, and the folder they live in.
//!
//! Nothing here knows what a record means: the engine hands over opaque batches and images and gets them back.
//! Every step that touches a disk goes through [`Disk`], so that tests can fail each one of them.

mod disk;
mod folder;
mod image;
mod log;
mod manifest;
mod pieces;
mod recover;
mod spool;

pub use disk::faulty::{FaultyDisk, Kind, Trouble};
pub use disk::memory::MemoryDisk;
pub(crate) use disk::read_full;
pub use disk::{Disk, DiskFile, RealDisk};
pub(crate) use folder::{BACKUPS, random};
pub use folder::{Folder, FolderError};
pub use image::{ImageFile, remove_unreferenced};
pub use log::error::LogError;
pub use log::frame::{MAX_PAYLOAD, UnknownFsync};
pub(crate) use log::segment::{FILE_HEADER, first_of_name};
pub use log::{Fsync, Gate, Log, LogOptions, LogState, LogStatistics};
pub use manifest::{Manifest, ManifestError, PreparedManifest, read_manifest, write_manifest};
pub use recover::{OpenError, Recovery, open_log};
pub use spool::{Spool, Spooled};
#[cfg(test)]
mod tests;
