//! What a snapshot takes while it is made: the memory of the process is looked at, so this is a binary with one test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bloomgate_server::Settings;
use bloomgate_server::engine::Engine;
use bloomgate_server::keeping::opening::open;
use bloomgate_server::keeping::{Keeping, SharedKeeping};
use bloomgate_server::session::desk::Desk;
use bloomgate_server::session::info::resident_bytes;
use bloomgate_server::store::Fsync;

#[path = "../shared/talk.rs"]
mod talk;

use talk::Talk;

/// A filter of every way in which those are kept whose cells move, each of 20 MB and more.
const FILTERS: [(&str, &str); 4] = [
    ("cuckoo", "CF.RESERVE cuckoo 15000000"),
    ("counting", "BG.CREATE counting KIND counting CAPACITY 4000000 RATE 0.01"),
    ("quotient", "BG.CREATE quotient KIND quotient CAPACITY 15000000 RATE 0.01"),
    ("stable", "BG.CREATE stable KIND stable BYTES 30000000"),
];
const LEAST: u64 = 20_000_000;

struct House {
    engine: Arc<Engine>,
    keeping: Arc<Keeping>,
    desk: Arc<Desk>,
}

impl House {
    fn open(folder: &std::path::Path) -> Self {
        let mut settings =
            Settings { data: Some(folder.to_path_buf()), fsync: Fsync::Never, threads: 2, ..Settings::default() };
        (settings.limits.max_memory, settings.limits.max_filter_memory) = (1 << 30, 1 << 30);
        let opened = open(&settings, 4).unwrap();
        assert_eq!(opened.found.named, []);
        let desk = Desk::new(4, None, "run".to_owned(), Vec::new());
        let keeping = opened.keeping.unwrap();
        desk.keeper.set(Arc::new(SharedKeeping(keeping.clone()))).unwrap();
        Self { engine: opened.engine, keeping, desk: Arc::new(desk) }
    }

    fn talk(&self, thread: usize) -> Talk {
        Talk::new(&self.engine, &self.desk, thread)
    }

    /// Makes a snapshot while others add to every filter; the most bytes that the process took meanwhile, and the most that the
    /// budget was charged.
    fn watched(&self, added: &AtomicU64) -> (u64, u64) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut talk = self.talk(1);
                while !done.load(Ordering::Acquire) {
                    let number = added.fetch_add(1, Ordering::Relaxed);
                    for (name, _) in FILTERS {
                        assert!(talk.say(&format!("BG.ADD {name} item-{number}")).starts_with("*1 :"));
                    }
                }
            });
            let watcher = scope.spawn(|| {
                let (mut resident, mut charged) = (0, 0);
                while !done.load(Ordering::Acquire) {
                    resident = resident.max(resident_bytes().unwrap());
                    charged = charged.max(self.engine.budget.used());
                    std::thread::yield_now();
                }
                (resident, charged)
            });
            let made = self.keeping.snapshot();
            done.store(true, Ordering::Release);
            writer.join().unwrap();
            made.unwrap();
            watcher.join().unwrap()
        })
    }
}

#[test]
fn a_snapshot_takes_no_memory_that_is_not_charged() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let added = AtomicU64::new(0);
    let mut talk = house.talk(0);
    for (name, line) in FILTERS {
        assert_eq!(talk.say(line), "+OK");
        // Its pages are there.
        for batch in 0..50 {
            let items: Vec<String> = (0..2_000).map(|item| format!("{batch}-{item}")).collect();
            assert!(!talk.say(&format!("BG.ADD {name} {}", items.join(" "))).contains('-'));
        }
        let size = house.engine.find(name.as_bytes()).unwrap().memory();
        assert!(size >= LEAST, "{name} has {size} bytes");
    }
    // There is memory for no copy. Twice: of the first snapshot something may stay with the allocator.
    let used = house.engine.budget.used();
    house.engine.budget.set_limits(used + LEAST / 2, 1 << 30);
    house.watched(&added);
    let before = resident_bytes().unwrap();
    let (resident, charged) = house.watched(&added);
    let more = resident.saturating_sub(before);
    assert!(more < LEAST / 2, "{more} bytes more than the {before} of before");
    assert!(charged <= house.engine.budget.most(), "{charged}");
    // There is: the copy is charged for as long as it is there, and given back.
    house.engine.budget.set_limits(1 << 30, 1 << 30);
    let seen = (0..20).any(|_| house.watched(&added).1 >= used + LEAST);
    assert!(seen, "nobody is charged for the copies");
    assert!(house.engine.budget.used() < used + LEAST / 2);
    // With no memory for one, a last time: this is what a start finds.
    house.engine.budget.set_limits(used + LEAST / 2, 1 << 30);
    house.watched(&added);
    house.engine.budget.set_limits(1 << 30, 1 << 30);
    let ask = |house: &House| FILTERS.map(|(name, _)| house.talk(0).say(&format!("BG.DIGEST {name}")));
    let digests = ask(&house);
    drop(talk);
    house.engine.journal.flush();
    drop(house);
    let house = House::open(folder.path());
    assert_eq!(ask(&house)[..3], digests[..3], "a stable filter forgets by chance");
    let mut talk = house.talk(0);
    for (name, _) in &FILTERS[..3] {
        for number in 0..added.load(Ordering::Relaxed) {
            assert_eq!(talk.say(&format!("BG.EXISTS {name} item-{number}")), "*1 :1", "{name}");
        }
    }
}
