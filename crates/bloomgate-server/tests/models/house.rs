//! A server without sockets and files: it is talked to, and read again from what it has written down.

use std::collections::BTreeMap;
use std::sync::Arc;

use bloomgate::Secret;
use bloomgate_server::engine::clock::Clock;
use bloomgate_server::engine::contracts::Contracts;
use bloomgate_server::engine::entry::{Body, Entry};
use bloomgate_server::engine::fields::Fields;
use bloomgate_server::engine::journal::Journal;
use bloomgate_server::engine::record::Record;
use bloomgate_server::engine::watch::{Watch, WatchSettings};
use bloomgate_server::engine::{Defaults, Engine, Limits};
use bloomgate_server::keeping::Keeping;
use bloomgate_server::keeping::loading::{Loader, load_images};
use bloomgate_server::keeping::manifest::Images;
use bloomgate_server::session::desk::Desk;
use bloomgate_server::store::{Folder, MemoryDisk};

use super::talk::Talk;

/// Threads that may write at once.
const GATES: usize = 3;

fn contracts() -> Contracts {
    Contracts::new(Secret::from_hex(&"5a".repeat(32)).ok())
}

/// A filter as a client could know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub id: u64,
    pub len: u64,
    pub stages: usize,
    pub deleted: u64,
    /// The items that are found, with their copies where the kind counts them.
    pub found: BTreeMap<&'static str, u64>,
}

/// All filters by name.
pub type All = BTreeMap<String, Known>;

/// A server.
#[derive(Clone)]
pub struct House {
    pub engine: Arc<Engine>,
    pub desk: Arc<Desk>,
    pub keeping: Arc<Keeping>,
    folder: Arc<Folder>,
}

impl House {
    /// A server that begins with these commands.
    pub fn new(commands: &[&str]) -> Self {
        let limits = Limits { max_memory: 1 << 30, max_filter_memory: 1 << 30, max_filters: 100 };
        let clock = Clock::fixed(1_767_225_600_000);
        let mut engine = Engine::new(Journal::nowhere(), contracts(), clock, limits, Defaults::default(), GATES);
        // A table for reports is made in every one of thousands of runs.
        engine.watch = Watch::new(WatchSettings { feedback_entries: 64, ..WatchSettings::default() });
        let engine = Arc::new(engine);
        let folder = Arc::new(Folder::open("/data", Arc::new(MemoryDisk::default())).unwrap());
        let keeping = Arc::new(Keeping::new(engine.clone(), folder.clone(), Images::default(), 0, 64 << 20));
        let mut desk = Desk::new(GATES, None, "run".to_owned(), Vec::new());
        desk.slow_micros = u64::MAX.into();
        let house = Self { engine, desk: Arc::new(desk), keeping, folder };
        let mut talk = house.talk(0);
        for command in commands {
            let reply = talk.say(command);
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
        house
    }

    /// A client of a thread.
    pub fn talk(&self, thread: usize) -> Talk {
        Talk::new(&self.engine, &self.desk, thread)
    }

    /// The filters as they are, and as the images and the whole log give them: both the same.
    pub fn all(&self, items: &[&'static str]) -> All {
        let live = known(self.engine.names.from_id(0, 100), items);
        assert_eq!(live, self.replayed(u64::MAX, items), "live and replayed differ");
        let size: u64 = self.engine.names.from_id(0, 100).iter().map(|entry| entry.memory()).sum();
        // What other threads still know is charged until they let go of it.
        let leaving = self.engine.leaving.bytes();
        assert_eq!(self.engine.budget.used() - leaving, size, "bytes charged and bytes used");
        live
    }

    /// The filters after a power cut when the log was durable up to a sequence, and to where a snapshot waited for it.
    pub fn replayed(&self, through: u64, items: &[&'static str]) -> All {
        let contracts = contracts();
        let loader = Loader { folder: &self.folder, contracts: &contracts, threads: 1 };
        let mut imaged = load_images(&loader).unwrap();
        let through = through.max(self.engine.journal.synced());
        for (sequence, batch) in self.engine.journal.recorded() {
            if (imaged.replay_after + 1..=through).contains(&sequence) {
                imaged.replay.batch(sequence, &batch).unwrap();
            }
        }
        let (entries, _) = imaged.replay.finish().unwrap();
        known(entries, items)
    }

    /// The sequences of the records that add a key to some filter, or set all of its bits; removals are none.
    pub fn records_of(&self, name: &str, item: &str) -> Vec<u64> {
        let entry = self.engine.names.get(name.as_bytes()).unwrap();
        let wanted = entry.contract().unwrap().digest(item.as_bytes()).unwrap();
        let mut its_bits = Vec::new();
        if let Body::Small(small) = entry.body() {
            small.sprout.bits_of(&[wanted], &mut its_bits);
        }
        let mut sequences = Vec::new();
        for (sequence, batch) in self.engine.journal.recorded() {
            let mut fields = Fields(&batch);
            while !fields.is_empty() {
                let adds_it = match Record::get(&mut fields).unwrap() {
                    Record::Add { digests, .. } => {
                        let mut all = Vec::new();
                        digests.append_to(&mut all);
                        all.contains(&wanted)
                    }
                    Record::Fill { bits, .. } => {
                        assert!(
                            !its_bits.is_empty(),
                            "'{name}' is no small filter any more: which bits are its key's?"
                        );
                        bits.each().zip(&its_bits).all(|(set, wanted)| set & wanted == *wanted)
                    }
                    _ => false,
                };
                if adds_it {
                    sequences.push(sequence);
                }
            }
        }
        sequences
    }
}

fn known(entries: Vec<Entry>, items: &[&'static str]) -> All {
    let mut all = All::new();
    for entry in entries {
        let name = String::from_utf8(entry.name().to_vec()).unwrap();
        let contract = entry.contract().unwrap_or_else(|| panic!("'{name}' is unavailable: {:?}", entry.body()));
        let mut found = BTreeMap::new();
        for &item in items {
            let digest = contract.digest(item.as_bytes()).unwrap();
            if entry.contains(digest) {
                found.insert(item, entry.with(|filter| filter.count_of(digest)).flatten().unwrap_or(1));
            }
        }
        let (len, stages) = entry.with(|filter| (filter.len(), filter.stages())).unwrap();
        let deleted = entry.deleted();
        let before = all.insert(name, Known { id: entry.id, len, stages, deleted, found });
        assert!(before.is_none(), "two filters have one name");
    }
    all
}
