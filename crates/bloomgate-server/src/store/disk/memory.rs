//! A disk in memory whose power cord can be pulled: what was not synced is lost, in whole or in any sectors. It can be slow, and
//! full.
//!
//! The real disk of a test machine keeps everything that was written, synced or not, so it cannot show a missing sync.
//! This one keeps two pictures of itself: what programs see, and what would be found after a power cut. A folder is a thing of
//! its own, as on a real disk: its names are made durable by a sync of it, and its own name by one of the folder it is in.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Disk, DiskFile};

const SECTOR: usize = 512;
/// What systems say when there is no room.
const ENOSPC: i32 = 28;

#[derive(Default)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
}

type Bytes = Arc<Mutex<Contents>>;

/// What a name stands for.
#[derive(Clone)]
enum Node {
    File(Bytes),
    /// A folder, by its number in the tree.
    Folder(usize),
}

impl Node {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => Arc::ptr_eq(one, other),
            (Self::Folder(one), Self::Folder(other)) => one == other,
            _ => false,
        }
    }
}

/// The names in a folder.
#[derive(Default)]
struct Names {
    seen: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
}

/// All folders; the first is the root, and one that was removed is nobody's child.
struct Tree(Vec<Names>);

impl Default for Tree {
    fn default() -> Self {
        Self(vec![Names::default()])
    }
}

/// The parts of a path below the root.
fn parts(path: &Path) -> io::Result<Vec<String>> {
    let named = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    named.map(|part| part.as_os_str().to_str().map(String::from).ok_or_else(missing)).collect()
}

impl Tree {
    fn node(&self, path: &Path) -> io::Result<Node> {
        let mut node = Node::Folder(0);
        for part in parts(path)? {
            let Node::Folder(folder) = node else { return Err(io::ErrorKind::NotADirectory.into()) };
            node = self.0[folder].seen.get(&part).cloned().ok_or_else(missing)?;
        }
        Ok(node)
    }

    fn folder(&self, path: &Path) -> io::Result<usize> {
        match self.node(path)? {
            Node::Folder(folder) => Ok(folder),
            Node::File(_) => Err(io::Error::new(io::ErrorKind::NotADirectory, "it is no folder")),
        }
    }

    fn file(&self, path: &Path) -> io::Result<Bytes> {
        match self.node(path)? {
            Node::File(file) => Ok(file),
            Node::Folder(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
        }
    }

    /// The folder that a path is in, and the name it has there.
    fn place(&self, path: &Path) -> io::Result<(usize, String)> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(missing)?;
        Ok((self.folder(path.parent().ok_or_else(missing)?)?, name.to_owned()))
    }

    fn make_folders(&mut self, path: &Path) -> io::Result<usize> {
        let mut folder = 0;
        for part in parts(path)? {
            let new = self.0.len();
            folder = match self.0[folder].seen.entry(part).or_insert(Node::Folder(new)) {
                Node::Folder(there) => *there,
                Node::File(_) => return Err(io::ErrorKind::NotADirectory.into()),
            };
            if folder == new {
                self.0.push(Names::default());
            }
        }
        Ok(folder)
    }

    /// Bytes of all files that have a name.
    fn used(&self) -> u64 {
        let mut known = HashSet::new();
        let files = self.0.iter().flat_map(|folder| folder.seen.values());
        let files = files.filter_map(|node| if let Node::File(file) = node { Some(file) } else { None });
        files.filter(|file| known.insert(Arc::as_ptr(file))).map(|file| lock(file).seen.len() as u64).sum()
    }
}

/// A disk in memory; clones are the same disk.
#[doc(hidden)]
#[derive(Clone, Default)]
pub struct MemoryDisk {
    tree: Arc<Mutex<Tree>>,
    nature: Arc<Nature>,
}

struct Nature {
    /// A sync of a file takes at least so many microseconds.
    slowest: AtomicU64,
    /// So many bytes fit.
    room: AtomicU64,
    /// Whether it says so.
    is_told: AtomicBool,
}

impl Default for Nature {
    fn default() -> Self {
        Self { slowest: AtomicU64::new(0), room: AtomicU64::new(u64::MAX), is_told: AtomicBool::new(false) }
    }
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
        let file = lock(&self.tree).file(path)?;
        let contents = lock(&file);
        Ok(contents.seen.clone())
    }

    /// Puts these bytes into a file of a folder that is there, durably: damage done by a tester.
    pub fn replace(&self, path: &Path, bytes: Vec<u8>) {
        let contents = Contents { seen: bytes.clone(), durable: bytes };
        let node = Node::File(Arc::new(Mutex::new(contents)));
        let mut tree = lock(&self.tree);
        let Ok((folder, name)) = tree.place(path) else { return };
        tree.0[folder].seen.insert(name.clone(), node.clone());
        tree.0[folder].durable.insert(name, node);
    }

    /// From here on a sync of a file takes at least this long, and makes durable what the file held when it began.
    pub fn slow_syncs(&self, least: Duration) {
        self.nature.slowest.store(least.as_micros() as u64, SeqCst);
    }

    /// From here on all files together have this much room; what is there stays. Whoever asks how much is free is told, or is
    /// not, as by systems that do not know.
    pub fn limit(&self, bytes: u64, is_told: bool) {
        self.nature.room.store(bytes, SeqCst);
        self.nature.is_told.store(is_told, SeqCst);
    }

    /// Bytes of all files that have a name.
    pub fn used(&self) -> u64 {
        lock(&self.tree).used()
    }

    /// The disk as it would be found after a power cut now. `keep(n)` chooses, for each of the things that were not
    /// synced (a sector, a name), whether it had reached the disk by chance; `n` counts them.
    pub fn power_cut(&self, mut keep: impl FnMut(u64) -> bool) -> MemoryDisk {
        let tree = lock(&self.tree);
        let mut count = 0u64;
        let mut chance = || {
            count += 1;
            keep(count)
        };
        let mut found = Tree::default();
        // Folders here, and what they are there.
        let mut todo = vec![(0, 0)];
        while let Some((here, there)) = todo.pop() {
            let names = &tree.0[here];
            let mut after = names.durable.clone();
            for (name, node) in &names.seen {
                let same = names.durable.get(name).is_some_and(|durable| durable.is(node));
                if !same && chance() {
                    after.insert(name.clone(), node.clone());
                }
            }
            for name in names.durable.keys() {
                if !names.seen.contains_key(name) && chance() {
                    after.remove(name);
                }
            }
            for (name, node) in after {
                let node = match node {
                    Node::File(file) => Node::File(torn(&lock(&file), &mut chance)),
                    Node::Folder(folder) => {
                        todo.push((folder, found.0.len()));
                        found.0.push(Names::default());
                        Node::Folder(found.0.len() - 1)
                    }
                };
                found.0[there].seen.insert(name.clone(), node.clone());
                found.0[there].durable.insert(name, node);
            }
        }
        MemoryDisk { tree: Arc::new(Mutex::new(found)), nature: Arc::default() }
    }
}

/// A file after a power cut.
fn torn(contents: &Contents, chance: &mut impl FnMut() -> bool) -> Bytes {
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
    Arc::new(Mutex::new(Contents { seen: bytes.clone(), durable: bytes }))
}

impl Disk for MemoryDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        lock(&self.tree).make_folders(path).map(drop)
    }

    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        match lock(&self.tree).folder(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut tree = lock(&self.tree);
        let folder = tree.folder(path)?;
        if !tree.0[folder].seen.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let (parent, name) = tree.place(path)?;
        tree.0[parent].seen.remove(&name);
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut tree = lock(&self.tree);
        let (folder, name) = tree.place(path)?;
        if tree.0[folder].seen.contains_key(&name) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let bytes = Bytes::default();
        tree.0[folder].seen.insert(name, Node::File(bytes.clone()));
        Ok(Box::new(MemoryFile { bytes, disk: self.clone() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let bytes = lock(&self.tree).file(path)?;
        Ok(Box::new(MemoryFile { bytes, disk: self.clone() }))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut tree = lock(&self.tree);
        let ((folder, name), (new_folder, new_name)) = (tree.place(from)?, tree.place(to)?);
        if let Some(Node::Folder(there)) = tree.0[new_folder].seen.get(&new_name)
            && !tree.0[*there].seen.is_empty()
        {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let node = tree.0[folder].seen.remove(&name).ok_or_else(missing)?;
        tree.0[new_folder].seen.insert(new_name, node);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut tree = lock(&self.tree);
        let (folder, name) = tree.place(to)?;
        if tree.0[folder].seen.contains_key(&name) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let file = tree.file(from)?;
        tree.0[folder].seen.insert(name, Node::File(file));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut tree = lock(&self.tree);
        tree.file(path)?;
        let (folder, name) = tree.place(path)?;
        tree.0[folder].seen.remove(&name);
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let tree = lock(&self.tree);
        let folder = tree.folder(path)?;
        Ok(tree.0[folder].seen.keys().cloned().collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut tree = lock(&self.tree);
        let folder = tree.folder(path)?;
        let names = &mut tree.0[folder];
        names.durable = names.seen.clone();
        Ok(())
    }

    fn free(&self, _: &Path) -> io::Result<u64> {
        Ok(match self.nature.is_told.load(SeqCst) {
            true => self.nature.room.load(SeqCst).saturating_sub(self.used()),
            false => u64::MAX,
        })
    }

    fn lock(&self, _: &Path, _: &str) -> io::Result<Result<Box<dyn Send + Sync>, String>> {
        Ok(Ok(Box::new(())))
    }
}

struct MemoryFile {
    bytes: Bytes,
    disk: MemoryDisk,
}

impl DiskFile for MemoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        let room = self.disk.nature.room.load(SeqCst);
        if room != u64::MAX {
            let more = end.saturating_sub(lock(&self.bytes).seen.len()) as u64;
            if more > 0 && self.disk.used() + more > room {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
        }
        let mut contents = lock(&self.bytes);
        if contents.seen.len() < end {
            contents.seen.resize(end, 0);
        }
        contents.seen[start..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let contents = lock(&self.bytes);
        let start = contents.seen.len().min(offset as usize);
        let n = bytes.len().min(contents.seen.len() - start);
        bytes[..n].copy_from_slice(&contents.seen[start..start + n]);
        Ok(n)
    }

    fn sync_data(&self) -> io::Result<()> {
        let slowest = self.disk.nature.slowest.load(SeqCst);
        if slowest == 0 {
            let mut contents = lock(&self.bytes);
            contents.durable = contents.seen.clone();
            return Ok(());
        }
        let begun = lock(&self.bytes).seen.clone();
        std::thread::sleep(Duration::from_micros(slowest));
        lock(&self.bytes).durable = begun;
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(lock(&self.bytes).seen.len() as u64)
    }
}
