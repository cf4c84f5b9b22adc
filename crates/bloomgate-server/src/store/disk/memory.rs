//! A disk in memory whose power cord can be pulled: what was not synced is lost, in whole or in any sectors.
//!
//! The real disk of a test machine keeps everything that was written, synced or not, so it cannot show a missing sync.
//! This one keeps two pictures of itself: what programs see, and what would be found after a power cut.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile};

const SECTOR: usize = 512;

#[derive(Default)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
}

type Node = Arc<Mutex<Contents>>;

#[derive(Default)]
struct Names {
    seen: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
}

/// A disk in memory; clones are the same disk.
#[doc(hidden)]
#[derive(Clone, Default)]
pub struct MemoryDisk {
    names: Arc<Mutex<Names>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn missing() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl MemoryDisk {
    /// What programs see in a file.
    pub fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let node = lock(&self.names).seen.get(path).cloned().ok_or_else(missing)?;
        let contents = lock(&node);
        Ok(contents.seen.clone())
    }

    /// Puts these bytes into a file, durably: damage done by a tester.
    pub fn replace(&self, path: &Path, bytes: Vec<u8>) {
        let contents = Contents { seen: bytes.clone(), durable: bytes };
        let node = Arc::new(Mutex::new(contents));
        let mut names = lock(&self.names);
        names.seen.insert(path.into(), node.clone());
        names.durable.insert(path.into(), node);
    }

    /// The disk as it would be found after a power cut now. `keep(n)` chooses, for each of the things that were not
    /// synced (a sector, a name), whether it had reached the disk by chance; `n` counts them.
    pub fn power_cut(&self, mut keep: impl FnMut(u64) -> bool) -> MemoryDisk {
        let names = lock(&self.names);
        let mut count = 0u64;
        let mut chance = || {
            count += 1;
            keep(count)
        };
        let mut after: BTreeMap<PathBuf, Node> = names.durable.clone();
        for (path, node) in &names.seen {
            let same = names.durable.get(path).is_some_and(|d| Arc::ptr_eq(d, node));
            if !same && chance() {
                after.insert(path.clone(), node.clone());
            }
        }
        for path in names.durable.keys() {
            if !names.seen.contains_key(path) && chance() {
                after.remove(path);
            }
        }
        let mut found = BTreeMap::new();
        for (path, node) in after {
            let contents = lock(&node);
            let mut bytes = contents.durable.clone();
            // Length and sectors reach the disk independently; sectors beyond a length that did not are gone.
            if contents.seen.len() > bytes.len() && chance() {
                bytes.resize(contents.seen.len(), 0);
            }
            for start in (0..bytes.len()).step_by(SECTOR) {
                let end = (start + SECTOR).min(bytes.len()).min(contents.seen.len());
                if start < end && bytes[start..end] != contents.seen[start..end] && chance() {
                    bytes[start..end].copy_from_slice(&contents.seen[start..end]);
                }
            }
            let fresh = Contents { seen: bytes.clone(), durable: bytes };
            found.insert(path, Arc::new(Mutex::new(fresh)));
        }
        let names = Names { seen: found.clone(), durable: found };
        MemoryDisk { names: Arc::new(Mutex::new(names)) }
    }
}

impl Disk for MemoryDisk {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn is_dir(&self, _: &Path) -> io::Result<bool> {
        Ok(true)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut names = lock(&self.names);
        if names.seen.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let node = Node::default();
        names.seen.insert(path.into(), node.clone());
        Ok(Box::new(MemoryFile { node }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let node = lock(&self.names).seen.get(path).cloned().ok_or_else(missing)?;
        Ok(Box::new(MemoryFile { node }))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = lock(&self.names);
        let node = names.seen.remove(from).ok_or_else(missing)?;
        names.seen.insert(to.into(), node);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = lock(&self.names);
        if names.seen.contains_key(to) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let node = names.seen.get(from).cloned().ok_or_else(missing)?;
        names.seen.insert(to.into(), node);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        lock(&self.names).seen.remove(path).map(drop).ok_or_else(missing)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = lock(&self.names);
        let inside = names.seen.keys().filter_map(|p| p.strip_prefix(path).ok());
        Ok(inside.filter_map(|p| p.to_str().map(String::from)).collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut names = lock(&self.names);
        names.durable.retain(|p, _| p.parent() != Some(path));
        let now: Vec<_> = names.seen.iter().filter(|(p, _)| p.parent() == Some(path)).collect();
        let now: Vec<_> = now.into_iter().map(|(p, n)| (p.clone(), n.clone())).collect();
        names.durable.extend(now);
        Ok(())
    }

    fn lock(&self, _: &Path, _: &str) -> io::Result<Result<Box<dyn Send + Sync>, String>> {
        Ok(Ok(Box::new(())))
    }
}

struct MemoryFile {
    node: Node,
}

impl DiskFile for MemoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut contents = lock(&self.node);
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if contents.seen.len() < end {
            contents.seen.resize(end, 0);
        }
        contents.seen[start..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let contents = lock(&self.node);
        let start = contents.seen.len().min(offset as usize);
        let n = bytes.len().min(contents.seen.len() - start);
        bytes[..n].copy_from_slice(&contents.seen[start..start + n]);
        Ok(n)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut contents = lock(&self.node);
        contents.durable = contents.seen.clone();
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(lock(&self.node).seen.len() as u64)
    }
}
