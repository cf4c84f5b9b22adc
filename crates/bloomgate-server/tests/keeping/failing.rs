//! Disks that fail, or fall behind, while something is being changed: what was refused has changed nothing, and what was
//! changed is in the log, whoever is told what.

use std::path::Path;
use std::sync::Arc;

use bloomgate::foreign::Guava;
use bloomgate::{AnyFilter, Kind};
use bloomgate_server::engine::Core;
use bloomgate_server::engine::adding::{Added, Copies};
use bloomgate_server::engine::clock::Clock;
use bloomgate_server::engine::contracts::DEFAULT;
use bloomgate_server::engine::entry::Maker;
use bloomgate_server::engine::recipe::Recipe;
use bloomgate_server::keeping::SharedKeeping;
use bloomgate_server::session::desk::Keeper;
use bloomgate_server::store::{Disk, Fsync, Gate, Kind as Steps, LogOptions, MemoryDisk, Trouble};

use super::shaky::{DATA, Shaky, options};
use super::talk::Talk;

const EIO: i32 = 5;

#[test]
fn a_transaction_is_in_the_log_though_the_disk_failed_before_its_end() {
    let house = Shaky::open(MemoryDisk::default(), options(Fsync::Always));
    let mut talk = house.talk();
    for line in ["BF.ADD gone x", "BF.ADD moved x", "BF.ADD filled x"] {
        assert_eq!(talk.say(line), ":1");
    }
    house.sync();
    // A sync is under way; it will fail, and everything after it.
    house.disk.hold_syncs(true);
    assert_eq!(talk.say("BF.ADD filled y"), ":1");
    house.until("a sync", || house.disk.syncing() == 1);
    house.disk.plan(Trouble { from: 1, steps: u64::MAX, errno: EIO, torn: true, steps_of: Steps::Change });
    // As EXEC does it: the log takes writes when its commands run, and not any more when they are put down.
    let engine = &house.engine;
    let mut core = Core::new(engine.clone(), 0);
    let mut permit = engine.transaction();
    let mut added = Vec::new();
    let find = |name: &[u8]| engine.find(name).unwrap();
    core.scratch.add(&mut permit, &find(b"filled"), &[b"z"], Copies::One, &mut added).unwrap();
    assert_eq!(added, [Added::New]);
    let recipe = Recipe::new(Kind::Scalable, 100, 0.01, engine.contracts.keyed(DEFAULT));
    let made = permit.create(engine.prepare(b"made", recipe, Maker::Bf { expansion: 2 }).unwrap()).unwrap();
    core.scratch.add(&mut permit, &made, &[b"a"], Copies::One, &mut added).unwrap();
    permit.delete(&find(b"gone")).unwrap();
    permit.rename(&find(b"moved"), b"renamed").unwrap();
    house.disk.hold_syncs(false);
    let log = engine.journal.log().unwrap();
    house.until("read-only", || !log.is_writable());
    let sequence = permit.commit().expect("what is done is put down");
    assert_eq!(engine.journal.gate(sequence), Gate::Failed, "and nobody is told that it is safe");
    // The disk works again: what was done is durable, and so is what the client is told when it tries once more.
    house.disk.heal();
    house.until("recovered", || engine.journal.gate(sequence) == Gate::Open);
    let again = ["BF.ADD filled z", "BF.ADD made a", "BF.ADD made b", "BF.ADD gone y", "BF.ADD moved y"];
    assert_eq!(again.map(|line| talk.say(line)), [":0", ":0", ":1", ":1", ":1"]);
    house.sync();
    let house = house.after_power_cut(Fsync::Always);
    let mut talk = house.talk();
    let asked = ["filled y", "filled z", "made a", "made b", "gone y", "moved y", "renamed x"];
    assert_eq!(asked.map(|words| talk.say(&format!("BF.EXISTS {words}"))), [":1"; 7]);
    let asked = ["gone x", "moved x"];
    assert_eq!(asked.map(|words| talk.say(&format!("BF.EXISTS {words}"))), [":0"; 2]);
}

#[test]
fn what_a_disk_that_falls_behind_refuses_has_changed_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let guava: AnyFilter = Guava::builder().items(1_000).rate(0.001).build().unwrap().into();
    std::fs::write(folder.path().join("guava.bloom"), guava.to_bytes().unwrap()).unwrap();
    // One batch at a time may wait for the disk.
    let limited = LogOptions { max_pending_bytes: 1, ..options(Fsync::EverySecond) };
    let mut house = Shaky::open(MemoryDisk::default(), limited);
    Arc::get_mut(&mut house.desk).unwrap().told.import_dir = Some(folder.path().to_path_buf());
    let mut talk = house.talk();
    let begin = [
        "BG.BUILD guava FROM guava.bloom",
        "BF.RESERVE plain 0.001 100",
        "CF.RESERVE cuckoo 100",
        "CF.ADD cuckoo x",
        "BG.CREATE counting KIND counting CAPACITY 100 RATE 0.001",
        "BG.ADD counting x",
        "BG.CREATE window KIND rotating CAPACITY 100 RATE 0.001 WINDOW 3600",
        "BG.ADD window x",
    ];
    for line in begin {
        let reply = talk.say(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        house.sync();
        // The first reading of a window's clock is a record of its own.
        house.engine.tick(1).unwrap();
        house.sync();
    }
    house.disk.hold_syncs(true);
    assert_eq!(talk.say("BF.ADD plain first"), ":1");
    let busy = |reply: String| assert!(reply.contains("MISCONF the disk does not keep up"), "{reply}");
    let digests =
        |talk: &mut Talk| ["guava", "plain", "cuckoo", "counting"].map(|name| talk.say(&format!("BG.DIGEST {name}")));
    let before = digests(&mut talk);
    let changes = [
        "BG.ADD guava y",
        "BF.ADD plain y",
        "CF.ADD cuckoo y",
        "CF.DEL cuckoo x",
        "BG.ADD counting y",
        "BG.REMOVE counting REQUEST r ITEMS x",
        "BG.ADD window y",
    ];
    changes.iter().for_each(|line| busy(talk.say(line)));
    talk.say("MULTI");
    changes.iter().for_each(|line| assert_eq!(talk.say(line), "+QUEUED"));
    let told = talk.say("EXEC");
    assert_eq!(told.matches("MISCONF the disk does not keep up").count(), changes.len(), "{told}");
    assert_eq!(digests(&mut talk), before);
    house.disk.hold_syncs(false);
    for line in changes {
        house.sync();
        assert!(talk.say(line).ends_with(":1"), "{line}: nothing was done before");
    }
    let after = digests(&mut talk);
    house.sync();
    assert_eq!(digests(&mut house.after_power_cut(Fsync::EverySecond).talk()), after);
}

#[test]
fn what_a_transaction_did_before_a_fault_ended_it_is_in_the_log() {
    let house = Shaky::open(MemoryDisk::default(), options(Fsync::Always));
    assert_eq!(house.talk().say("BF.ADD filled x"), ":1");
    let engine = &house.engine;
    let fault = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut core = Core::new(engine.clone(), 0);
        let mut permit = engine.transaction();
        let mut added = Vec::new();
        let entry = engine.find(b"filled").unwrap();
        core.scratch.add(&mut permit, &entry, &[b"y"], Copies::One, &mut added).unwrap();
        panic!("a fault that this test makes");
    }));
    assert!(fault.is_err());
    // Whoever adds it again is told that it is there: so it must be.
    assert_eq!(house.talk().say("BF.ADD filled y"), ":0");
    house.sync();
    assert_eq!(house.after_power_cut(Fsync::Always).talk().say("BF.EXISTS filled y"), ":1");
}

/// Each snapshot writes six images of 120 KB anew; there is room for two of them.
#[test]
fn a_snapshot_that_finds_no_room_leaves_nothing_behind_and_the_next_one_is_whole() {
    let house = Shaky::open(MemoryDisk::default(), options(Fsync::Always));
    let mut talk = house.talk();
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        assert_eq!(talk.say(&format!("BF.RESERVE {name} 0.01 100000 NONSCALING")), "+OK");
    }
    house.keeping.snapshot().unwrap();
    let images = || {
        let mut images = house.disk.list(Path::new(DATA)).unwrap();
        images.retain(|name| name.starts_with("image-"));
        images.sort();
        images
    };
    for steps_of in [None, Some(Steps::Change)] {
        names.iter().for_each(|name| assert_eq!(talk.say(&format!("BF.ADD {name} {steps_of:?}")), ":1"));
        house.sync();
        let before = images();
        assert!(before.len() >= names.len(), "{before:?}");
        match steps_of {
            None => house.memory.limit(house.memory.used() + 300_000, true),
            Some(steps_of) => house.disk.plan(Trouble { from: 12, steps: 1, errno: EIO, torn: false, steps_of }),
        }
        let why = house.keeping.snapshot().unwrap_err();
        assert!(why.contains("image"), "{why}");
        assert_eq!(images(), before, "{why}");
        house.memory.limit(u64::MAX, true);
        house.disk.heal();
        house.keeping.snapshot().unwrap();
        assert_ne!(images(), before);
    }
    let house = house.after_power_cut(Fsync::Always);
    let mut talk = house.talk();
    for (name, item) in names.iter().flat_map(|name| [(name, "None"), (name, "Some(Change)")]) {
        assert_eq!(talk.say(&format!("BF.EXISTS {name} {item}")), ":1");
    }
}

/// The manifest is all that is missing when the disk is full: the old one counts, with the file of small filters that it names.
#[test]
fn a_manifest_that_finds_no_room_leaves_the_one_before_with_its_images_and_nothing_else() {
    let house = Shaky::open(MemoryDisk::default(), options(Fsync::Always));
    let mut talk = house.talk();
    const FILTERS: usize = 80;
    for number in 0..FILTERS {
        assert_eq!(talk.say(&format!("BF.RESERVE f{number} 0.01 20")), "+OK");
        assert_eq!(talk.say(&format!("BF.ADD f{number} x")), ":1");
    }
    house.sync();
    house.keeping.snapshot().unwrap();
    let images = || {
        let mut images = house.disk.list(Path::new(DATA)).unwrap();
        images.retain(|name| name.starts_with("image-"));
        images
    };
    let pack = |name: &str| house.memory.contents(&Path::new(DATA).join(name)).unwrap();
    let (before, was) = (images(), pack(&images()[0]));
    assert_eq!(before.len(), 1);
    for round in 0..3 {
        let (disk, memory, mut other) = (house.disk.clone(), house.memory.clone(), house.talk());
        house.disk.before_making("image-0-", move || {
            let items: Vec<String> = (0..90).map(|item| format!("{round}-{item}")).collect();
            assert!(other.say(&format!("BF.MADD f{} {}", FILTERS - 1, items.join(" "))).starts_with("*90 "));
            disk.before_making("MANIFEST", move || memory.limit(memory.used() + 100, true));
        });
        let why = house.keeping.snapshot().unwrap_err();
        assert!(why.contains("manifest"), "{why}");
        assert_eq!((images(), pack(&before[0]) == was), (before.clone(), true), "{why}");
        house.memory.limit(u64::MAX, true);
    }
    house.disk.heal();
    for chance in [false, true] {
        let after = Shaky::open(house.memory.power_cut(|_| chance), options(Fsync::Always));
        let mut talk = after.talk();
        (0..FILTERS).for_each(|number| assert_eq!(talk.say(&format!("BF.EXISTS f{number} x")), ":1"));
    }
    house.keeping.snapshot().unwrap();
    assert_eq!(images().len(), 1);
}

/// The server looks ten times a second whether a snapshot is due.
#[test]
fn snapshots_that_fail_are_tried_again_after_longer_and_longer_pauses_until_one_is_made() {
    const BEGIN: u64 = 1_767_225_600_000;
    let house =
        Shaky::open_under(MemoryDisk::default(), DATA, options(Fsync::EverySecond), Clock::fixed(BEGIN), 1 << 16);
    let keeper = SharedKeeping(house.keeping.clone());
    let mut talk = house.talk();
    assert_eq!(talk.say("BF.RESERVE large 0.01 100000 NONSCALING"), "+OK");
    let mut fill = |from: u64| {
        for batch in 0..40 {
            let items: Vec<String> = (0..400).map(|item| format!("{from}-{batch}-{item}")).collect();
            assert!(talk.say(&format!("BF.MADD large {}", items.join(" "))).starts_with("*400 "));
        }
        house.sync();
    };
    // The log is larger than the filter, and there is no room for its image.
    fill(0);
    house.memory.limit(house.memory.used() + 20_000, true);
    let told = || {
        let told = keeper.facts();
        told.iter().find(|(name, _)| *name == "snapshot_retry_seconds").unwrap().1.clone()
    };
    let mut now = BEGIN;
    let mut tries = |seconds: u64, works: bool| {
        let mut tries = Vec::new();
        for _ in 0..seconds * 10 {
            if house.keeping.is_due() {
                assert_eq!(keeper.save().is_ok(), works);
                // The log goes once its thread has begun the next segment.
                works.then(|| house.until("no log", || house.keeping.trim_log().is_ok() && !house.keeping.is_due()));
                tries.push(now / 100);
                assert!(tries.len() < 100, "{} in {} s", tries.len(), (now - BEGIN) / 1_000);
            }
            now += 100;
            house.engine.clock.set(now);
        }
        tries
    };
    let pauses = |tries: &[u64]| tries.windows(2).map(|two| (two[1] - two[0]) / 10).collect::<Vec<_>>();
    assert_eq!(told(), "0");
    let failed = tries(3_600, false);
    let mut expected: Vec<u64> = (0..9).map(|failures| 1 << failures).collect();
    expected.extend([300; 10]);
    assert_eq!(pauses(&failed), expected);
    assert_eq!(house.keeping.failures(), failed.len() as u64);
    assert!((1..=300).contains(&told().parse::<u64>().unwrap()), "{}", told());
    // There is room: the next one is made, and none after it.
    house.memory.limit(u64::MAX, true);
    assert_eq!(tries(3_600, true).len(), 1);
    assert_eq!((told(), house.keeping.pause()), ("0".to_owned(), None));
    // What fails after that is tried again as soon as at first.
    fill(1);
    house.memory.limit(house.memory.used() + 20_000, true);
    assert_eq!(pauses(&tries(20, false)), [1, 2, 4, 8]);
    // Somebody asks for one, and it is made: the pause is over.
    house.memory.limit(u64::MAX, true);
    assert_eq!((keeper.save(), told(), house.keeping.pause()), (Ok(()), "0".to_owned(), None));
}
