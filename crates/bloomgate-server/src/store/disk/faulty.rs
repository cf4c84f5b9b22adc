//! A disk that fails when told to: the N-th step once, or every step from the N-th on until told to heal.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile};

/// What goes wrong, and when.
#[derive(Debug, Clone, Copy)]
pub struct Trouble {
    /// The first step that fails, counted from 1.
    pub from: u64,
    /// How many steps fail (`u64::MAX`: until [`FaultyDisk::heal`]).
    pub steps: u64,
    /// The error number they fail with (5 is EIO, 28 is ENOSPC).
    pub errno: i32,
    /// A failing write leaves half of its bytes behind, as a full disk does.
    pub torn: bool,
    /// Which steps are counted and fail.
    pub steps_of: Kind,
}

/// Kinds of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All.
    Any,
    /// Those that need room or a sync (create, write, sync, rename, link); reads and removals work.
    Change,
    /// Syncs of files.
    Sync,
}

/// A disk that wraps another one and fails some of its steps.
#[doc(hidden)]
#[derive(Clone)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    plan: Arc<Plan>,
}

struct Plan {
    steps: AtomicU64,
    fired: AtomicU64,
    trouble: Mutex<Option<Trouble>>,
    /// Writes take at most this many bytes at a time (0: as many as given).
    shortest: AtomicU64,
    /// A sync takes at least this many milliseconds.
    slowest: AtomicU64,
    hold: Mutex<Hold>,
    let_go: Condvar,
    /// What is done before the next file is made whose name begins so.
    amid: Mutex<Option<(String, Work)>>,
}

type Work = Box<dyn FnOnce() + Send>;

/// Syncs that wait, and writes that wait for them.
#[derive(Default)]
struct Hold {
    on: bool,
    syncing: u64,
}

impl FaultyDisk {
    /// A disk that works until [`FaultyDisk::plan`] says otherwise.
    pub fn new(inner: impl Disk) -> FaultyDisk {
        let plan = Plan {
            steps: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            trouble: Mutex::new(None),
            shortest: AtomicU64::new(0),
            slowest: AtomicU64::new(0),
            hold: Mutex::default(),
            let_go: Condvar::new(),
            amid: Mutex::default(),
        };
        FaultyDisk { inner: Arc::new(inner), plan: Arc::new(plan) }
    }

    /// Counts from zero again, and fails as told from there.
    pub fn plan(&self, trouble: Trouble) {
        let mut plan = self.plan.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        self.plan.steps.store(0, SeqCst);
        self.plan.fired.store(0, SeqCst);
        *plan = Some(trouble);
    }

    /// Does this once, by whoever makes the next file whose name begins so, before it is made: what others do amid that work.
    pub fn before_making(&self, begin: &str, work: impl FnOnce() + Send + 'static) {
        *self.plan.amid.lock().unwrap_or_else(PoisonError::into_inner) = Some((begin.to_owned(), Box::new(work)));
    }

    /// From here on, nothing fails, and nothing is done amid other work.
    pub fn heal(&self) {
        self.plan.amid.lock().unwrap_or_else(PoisonError::into_inner).take();
        *self.plan.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Each write takes at most this many bytes.
    pub fn short_writes(&self, bytes: u64) {
        self.plan.shortest.store(bytes, SeqCst);
    }

    /// Each sync of a file takes at least this long.
    pub fn slow_syncs(&self, least: std::time::Duration) {
        self.plan.slowest.store(least.as_millis() as u64, SeqCst);
    }

    /// From here on syncs of files do not end until they are let go, and while one is under way no write does: what a busy
    /// disk does to a file that is being synced.
    pub fn hold_syncs(&self, on: bool) {
        self.plan.held().on = on;
        self.plan.let_go.notify_all();
    }

    /// How many syncs are under way.
    pub fn syncing(&self) -> u64 {
        self.plan.held().syncing
    }

    /// How many steps failed since [`FaultyDisk::plan`].
    pub fn fired(&self) -> u64 {
        self.plan.fired.load(SeqCst)
    }

    /// How many steps there were since [`FaultyDisk::plan`].
    pub fn steps(&self) -> u64 {
        self.plan.steps.load(SeqCst)
    }
}

impl Plan {
    fn held(&self) -> MutexGuard<'_, Hold> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, held: MutexGuard<'_, Hold>, waits: impl FnMut(&mut Hold) -> bool) {
        drop(self.let_go.wait_while(held, waits).unwrap_or_else(PoisonError::into_inner));
    }

    fn step(&self, kind: Kind) -> Result<(), (io::Error, bool)> {
        let trouble = *self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(t) = trouble else { return Ok(()) };
        let counts = match t.steps_of {
            Kind::Any => true,
            Kind::Change => kind != Kind::Any,
            Kind::Sync => kind == Kind::Sync,
        };
        if !counts {
            return Ok(());
        }
        let step = self.steps.fetch_add(1, SeqCst) + 1;
        if step < t.from || step - t.from >= t.steps {
            return Ok(());
        }
        self.fired.fetch_add(1, SeqCst);
        Err((io::Error::from_raw_os_error(t.errno), t.torn))
    }

    fn change(&self) -> io::Result<()> {
        self.step(Kind::Change).map_err(|(e, _)| e)
    }

    fn before_making(&self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut amid = self.amid.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = amid.as_ref().is_some_and(|(begin, _)| name.starts_with(begin));
        let work = if is_due { amid.take() } else { None };
        drop(amid);
        if let Some((_, work)) = work {
            work();
        }
    }

    fn look(&self) -> io::Result<()> {
        self.step(Kind::Any).map_err(|(e, _)| e)
    }
}

impl Disk for FaultyDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.plan.change()?;
        self.inner.create_dir(path)
    }

    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        self.plan.look()?;
        self.inner.is_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.plan.look()?;
        self.inner.remove_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.plan.before_making(path);
        self.plan.change()?;
        Ok(Box::new(FaultyFile { inner: self.inner.create(path)?, plan: self.plan.clone() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.plan.look()?;
        Ok(Box::new(FaultyFile { inner: self.inner.open(path)?, plan: self.plan.clone() }))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.plan.change()?;
        Ok(Box::new(FaultyFile { inner: self.inner.open_to_write(path)?, plan: self.plan.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.change()?;
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.change()?;
        self.inner.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.plan.look()?;
        self.inner.remove(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.plan.look()?;
        self.inner.list(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.plan.change()?;
        self.inner.sync_dir(path)
    }

    fn free(&self, path: &Path) -> io::Result<u64> {
        self.plan.look()?;
        self.inner.free(path)
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Result<Box<dyn Send + Sync>, String>> {
        self.plan.look()?;
        self.inner.lock(path, owner)
    }
}

struct FaultyFile {
    inner: Box<dyn DiskFile>,
    plan: Arc<Plan>,
}

impl DiskFile for FaultyFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.plan.wait_while(self.plan.held(), |hold| hold.on && hold.syncing > 0);
        if let Err((error, torn)) = self.plan.step(Kind::Change) {
            if torn {
                super::write_all(&*self.inner, &bytes[..bytes.len() / 2], offset)?;
            }
            return Err(error);
        }
        let most = match self.plan.shortest.load(SeqCst) {
            0 => bytes.len(),
            n => bytes.len().min(n as usize),
        };
        self.inner.write_at(&bytes[..most], offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.plan.look()?;
        self.inner.read_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        let least = self.plan.slowest.load(SeqCst);
        if least > 0 {
            std::thread::sleep(std::time::Duration::from_millis(least));
        }
        let mut held = self.plan.held();
        held.syncing += 1;
        self.plan.wait_while(held, |hold| hold.on);
        self.plan.held().syncing -= 1;
        self.plan.step(Kind::Sync).map_err(|(e, _)| e)?;
        self.inner.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.plan.look()?;
        self.inner.length()
    }
}
