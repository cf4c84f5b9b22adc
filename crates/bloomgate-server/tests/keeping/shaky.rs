//! A server without its sockets on a disk in memory that fails, fills up, or loses its power when it is told to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bloomgate::Secret;
use bloomgate_server::engine::clock::Clock;
use bloomgate_server::engine::contracts::{Contracts, DEFAULT};
use bloomgate_server::engine::journal::Journal;
use bloomgate_server::engine::{Defaults, Engine, Limits};
use bloomgate_server::keeping::loading::load;
use bloomgate_server::keeping::{Keeping, SharedKeeping};
use bloomgate_server::session::desk::Desk;
use bloomgate_server::store::{FaultyDisk, Folder, Fsync, Gate, LogOptions, MemoryDisk};

use super::talk::Talk;

/// Where the data of each is.
pub const DATA: &str = "/data";

pub struct Shaky {
    pub engine: Arc<Engine>,
    pub keeping: Arc<Keeping>,
    pub desk: Arc<Desk>,
    pub disk: FaultyDisk,
    pub memory: MemoryDisk,
}

impl Drop for Shaky {
    fn drop(&mut self) {
        // A log that is closed waits for its last sync.
        self.disk.hold_syncs(false);
    }
}

pub fn options(fsync: Fsync) -> LogOptions {
    LogOptions { fsync, room_bytes: 0, retry_every: Duration::from_millis(1), ..LogOptions::default() }
}

impl Shaky {
    pub fn open(memory: MemoryDisk, options: LogOptions) -> Self {
        Self::open_at(memory, DATA, options)
    }

    /// The same on another folder of the disk.
    pub fn open_at(memory: MemoryDisk, folder: impl AsRef<Path>, options: LogOptions) -> Self {
        Self::open_under(memory, folder, options, Clock::start(), 64 << 20)
    }

    /// The same under another clock, with snapshots by itself from so many bytes of log on.
    pub fn open_under(
        memory: MemoryDisk,
        folder: impl AsRef<Path>,
        options: LogOptions,
        clock: Clock,
        snapshot_log: u64,
    ) -> Self {
        let disk = FaultyDisk::new(memory.clone());
        let folder = Arc::new(Folder::open(folder.as_ref(), Arc::new(disk.clone())).unwrap());
        let contracts = Contracts::new(Secret::from_hex(&"5a".repeat(32)).ok());
        let limits = Limits { max_memory: 1 << 30, max_filter_memory: 1 << 30, max_filters: 100 };
        let engine = Engine::new(Journal::to_come(), contracts, clock, limits, Defaults::default(), 2);
        let engine = Arc::new(engine);
        let loaded = load(&folder, &engine.contracts, options, 1).unwrap_or_else(|why| panic!("{why}"));
        engine.contracts.begin(DEFAULT, 1, engine.clock.now_ms());
        engine.journal.open(loaded.log);
        engine.restore(loaded.entries, loaded.next_id, |name, why| panic!("{}: {why}", name.escape_ascii()));
        engine.end_loading();
        let keeping = Keeping::new(engine.clone(), folder, loaded.images, loaded.clock_ms, snapshot_log);
        let keeping = Arc::new(keeping);
        let desk = Desk::new(2, None, "run".to_owned(), Vec::new());
        desk.keeper.set(Arc::new(SharedKeeping(keeping.clone()))).unwrap();
        Self { engine, keeping, desk: Arc::new(desk), disk, memory }
    }

    /// What a power cut leaves of it now, started again.
    pub fn after_power_cut(&self, fsync: Fsync) -> Self {
        Self::open(self.memory.power_cut(|_| false), options(fsync))
    }

    pub fn talk(&self) -> Talk {
        Talk::new(&self.engine, &self.desk, 0)
    }

    pub fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        for _ in 0..20_000 {
            if is() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("never: {what}");
    }

    /// Waits until everything written so far is durable.
    pub fn sync(&self) {
        self.engine.journal.sync_through(self.engine.journal.appended()).unwrap();
        let log = self.engine.journal.log().unwrap();
        self.until("nothing waits", || log.statistics().pending_bytes == 0);
    }

    /// Whether a command is acknowledged, once the policy lets its reply go: it is no error, and the disk has not failed what it
    /// depends on.
    pub fn acknowledges(&self, talk: &mut Talk, words: &[&[u8]]) -> bool {
        let (reply, dues) = talk.send(words);
        let mut gate = Gate::Wait;
        self.until("a reply", || {
            gate = self.engine.journal.gate(dues.written);
            gate != Gate::Wait
        });
        gate == Gate::Open && !reply.starts_with(b"-")
    }

    /// Every filter by its name, and what is in it: the hash of its file.
    pub fn contents(&self) -> BTreeMap<String, String> {
        let mut talk = self.talk();
        let names = talk.say("KEYS *");
        let names = names.split(' ').skip(1).filter(|word| !word.starts_with('$'));
        names.map(|name| (name.to_owned(), talk.say(&format!("BG.DIGEST {name}")))).collect()
    }
}
