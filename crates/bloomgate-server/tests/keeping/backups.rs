//! Backups on disks that fail, fill up and lose their power: one that is said to be made is there and whole, and one that is not
//! leaves nothing behind.

use std::path::Path;
use std::time::Duration;

use bloomgate_server::store::{Disk, Fsync, Kind, LogOptions, MemoryDisk, Trouble};

use super::shaky::{Shaky, options};
use super::talk::Talk;

const BACKUPS: &str = "/data/backups";

/// A server with filters in every form that a backup has to find: in files of their own, installed from one since the last
/// snapshot, small, and in the log alone.
fn begun(options: LogOptions) -> (Shaky, Talk) {
    let house = Shaky::open(MemoryDisk::default(), options);
    let mut talk = house.talk();
    for line in [
        "BG.CREATE large KIND blocked CAPACITY 1000000 RATE 0.01",
        "BG.ADD large a b c",
        "BF.ADD small x",
        "SAVE",
        "COPY large copy",
        "BG.ADD copy later",
        "CF.ADD late x",
    ] {
        let reply = talk.say(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    house.sync();
    (house, talk)
}

/// The names of all backups, whole or not.
fn backups(disk: &MemoryDisk) -> Vec<String> {
    disk.list(BACKUPS.as_ref()).unwrap_or_default()
}

/// What a server has that is started on a backup.
fn restored(disk: MemoryDisk, place: impl AsRef<Path>) -> std::collections::BTreeMap<String, String> {
    Shaky::open_at(disk, place, options(Fsync::Always)).contents()
}

/// Its folder, the folder of all backups and the names in both are as durable as its files.
#[test]
fn the_first_backup_is_there_after_a_power_cut() {
    let (house, _) = begun(options(Fsync::Always));
    let place = house.keeping.backup("monday").unwrap();
    let found = house.memory.power_cut(|_| false);
    assert_eq!(backups(&found), ["monday"]);
    assert_eq!(restored(found, place), house.contents());
    assert!(house.keeping.backup("monday").is_err_and(|why| why.contains("is there already")));
}

#[test]
fn whichever_step_fails_a_backup_is_made_or_leaves_nothing() {
    let (house, mut talk) = begun(options(Fsync::Always));
    let (mut made, mut failed) = (Vec::new(), 0);
    for step in 1.. {
        assert!(step < 1_000, "it never ends");
        house.until("writers are served", || talk.say(&format!("BF.ADD small {step}")).starts_with(':'));
        house.sync();
        let name = format!("number-{step}");
        house.disk.plan(Trouble { from: step, steps: 1, errno: 5, torn: step % 2 == 0, steps_of: Kind::Any });
        let backup = house.keeping.backup(&name);
        let fired = house.disk.fired();
        house.disk.heal();
        match backup {
            Ok(place) => {
                made.push(name);
                assert_eq!(restored(house.memory.power_cut(|_| false), place), house.contents(), "step {step}");
            }
            Err(_) => failed += 1,
        }
        let mut there = backups(&house.memory);
        there.sort();
        made.sort();
        assert_eq!(there, made, "step {step}");
        if fired == 0 {
            break;
        }
    }
    assert!(failed > 30, "{failed} failed, {} were made", made.len());
}

#[test]
fn a_power_cut_at_any_step_leaves_a_whole_backup_or_none() {
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    let forever = LogOptions { retry_every: Duration::from_secs(3_600), ..options(Fsync::Always) };
    let (mut whole, mut partial) = (0, 0);
    for step in 1.. {
        assert!(step < 1_000, "it never ends");
        let (house, _) = begun(forever.clone());
        let contents = house.contents();
        house.disk.plan(Trouble { from: step, steps: u64::MAX, errno: 5, torn: true, steps_of: Kind::Any });
        let backup = house.keeping.backup("monday");
        let fired = house.disk.fired();
        for chance in [0, 2, 4] {
            let found = house.memory.power_cut(|_| {
                dice ^= dice << 13;
                dice ^= dice >> 7;
                dice ^= dice << 17;
                dice % 4 < chance
            });
            partial += usize::from(backups(&found).iter().any(|name| name.starts_with('.')));
            assert_eq!(Shaky::open(found.clone(), forever.clone()).contents(), contents, "step {step}");
            // The start has removed what was not complete.
            match &*backups(&found) {
                [] => assert!(backup.is_err(), "step {step}: it was said to be made"),
                [name] => {
                    assert_eq!(name, "monday", "step {step}");
                    assert_eq!(restored(found, format!("{BACKUPS}/monday")), contents, "step {step}");
                    whole += 1;
                }
                more => panic!("step {step}: {more:?}"),
            }
        }
        if fired == 0 {
            assert!(backup.is_ok());
            break;
        }
    }
    assert!(whole > 3 && partial > 10, "{whole} whole, {partial} in between");
}

#[test]
fn a_backup_that_finds_the_disk_nearly_full_leaves_the_log_its_room() {
    let (house, mut talk) = begun(options(Fsync::Always));
    house.memory.limit(house.memory.used() + (60 << 20), true);
    let why = house.keeping.backup("monday").unwrap_err();
    assert!(why.contains("/data/backups/monday: ") && why.contains("67108864 are left for the log"), "{why}");
    assert_eq!(backups(&house.memory), [""; 0]);
    assert_eq!(talk.say("BF.ADD small y"), ":1");
    house.memory.limit(house.memory.used() + (100 << 20), true);
    let place = house.keeping.backup("monday").unwrap();
    assert_eq!(restored(house.memory.power_cut(|_| false), place), house.contents());
}

#[test]
fn a_backup_that_fills_the_disk_goes_and_the_server_goes_on_by_itself() {
    let (house, mut talk) = begun(options(Fsync::Always));
    house.disk.slow_syncs(Duration::from_millis(20));
    let backup = std::thread::scope(|scope| {
        let backup = scope.spawn(|| house.keeping.backup("monday"));
        let copied = || house.memory.list(format!("{BACKUPS}/.monday.partial").as_ref()).unwrap_or_default();
        house.until("the first copy", || !copied().is_empty());
        // Nobody is told before it is so, as on a disk that others fill too.
        house.memory.limit(house.memory.used(), false);
        backup.join().unwrap()
    });
    let why = backup.unwrap_err();
    assert!(why.contains("No space left"), "{why}");
    assert_eq!(backups(&house.memory), [""; 0]);
    house.disk.slow_syncs(Duration::ZERO);
    // Nobody makes room but the backup, by going. One that is taken may still be refused by the disk, while the log finds out
    // where there is room.
    house.until("writers are served", || house.acknowledges(&mut talk, &[b"BF.ADD", b"small", b"y"]));
    house.sync();
    let after = house.after_power_cut(Fsync::Always);
    assert_eq!(after.talk().say("BF.EXISTS small y"), ":1");
    assert_eq!(after.contents(), house.contents());
    house.memory.limit(u64::MAX, false);
    let place = house.keeping.backup("monday").unwrap();
    assert_eq!(restored(house.memory.power_cut(|_| false), place), house.contents());
}

#[test]
fn a_start_removes_backups_that_were_not_completed_and_nothing_else() {
    let (house, _) = begun(options(Fsync::Always));
    house.keeping.backup("monday").unwrap();
    let disk = house.memory.clone();
    for folder in [".tuesday.partial", "mine.partial", ".hidden"] {
        let folder = Path::new(BACKUPS).join(folder);
        disk.create_dir(&folder).unwrap();
        disk.create(&folder.join("MANIFEST")).unwrap();
    }
    drop(house);
    let house = Shaky::open(disk, options(Fsync::Always));
    assert_eq!(backups(&house.memory), [".hidden", "mine.partial", "monday"]);
}
