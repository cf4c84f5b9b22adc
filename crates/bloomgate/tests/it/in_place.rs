//! A program that is killed while it inserts in place: what it had acknowledged is in the file, and the file says that it
//! was not finished.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bloomgate::bits::MappedMut;
use bloomgate::{Blocked, ErrorKind};

use crate::keys::{Dice, scattered};

const FOLDER: &str = "BLOOMGATE_TEST_IN_PLACE";
const KEYS: u64 = 4_000_000;

fn open(path: &Path) -> Blocked<MappedMut> {
    Blocked::recover_mapped(path).unwrap()
}

/// How many keys were acknowledged: eight bytes each time, appended after the insert had returned.
fn acknowledged(folder: &Path) -> u64 {
    let bytes = fs::read(folder.join("acknowledged")).unwrap_or_default();
    bytes.as_chunks::<8>().0.last().map_or(0, |last| u64::from_le_bytes(*last))
}

/// The program that is killed. Run by itself, it has no folder and nothing to do.
#[test]
fn the_program_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let filter = open(&folder.join("filter"));
    let mut told = File::options().append(true).create(true).open(folder.join("acknowledged")).unwrap();
    let mut next = acknowledged(folder);
    while next < KEYS {
        for (at, key) in scattered(1, next, 1_000).iter().enumerate() {
            filter.insert(key).unwrap();
            if at % 50 == 49 {
                told.write_all(&(next + at as u64 + 1).to_le_bytes()).unwrap();
            }
        }
        next += 1_000;
        if next.is_multiple_of(40_000) {
            filter.sync().unwrap();
        }
    }
}

#[test]
fn who_is_killed_leaves_a_mark_and_every_key_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filter");
    Blocked::builder().keys::<u64>().items(KEYS).rate(0.01).create_mapped(&path).unwrap().close().unwrap();
    let mut dice = Dice(7);
    let (mut unfinished, mut before) = (0, 0);
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "in_place::the_program_that_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while acknowledged(folder.path()) == before {
            assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(dice.below(40_000)));
        child.kill().unwrap();
        child.wait().unwrap();

        let sure = acknowledged(folder.path());
        assert!(sure > before, "round {round}");
        let keys = scattered(1, 0, sure);
        let mut answers = vec![false; keys.len()];
        match Blocked::open(&path) {
            // Killed just after a sync, before the next insert.
            Ok(loaded) => loaded.contains_batch(&keys, &mut answers).unwrap(),
            Err(refusal) => {
                unfinished += 1;
                assert_eq!(refusal.kind(), ErrorKind::Dirty, "{refusal}");
                assert!(refusal.to_string().contains("when its program ended"), "{refusal}");
                assert_eq!(Blocked::map(&path).unwrap_err().kind(), ErrorKind::Dirty);
                assert_eq!(Blocked::map_mut(&path).unwrap_err().kind(), ErrorKind::Dirty);
                let recovered = open(&path);
                recovered.contains_batch(&keys, &mut answers).unwrap();
                // Every second time the next program finds it unfinished, too.
                if round % 2 == 0 {
                    recovered.close().unwrap();
                    Blocked::map(&path).unwrap().verify_all(|_, _| ()).unwrap();
                }
            }
        }
        assert!(answers.iter().all(|&maybe| maybe), "a wrong no in round {round}");
        before = sure;
    }
    assert!(unfinished >= 4, "only {unfinished} of 8 were met at work");
}

/// A file that is replaced while it is written in place would go on as one that nobody can open, and what is inserted
/// into it then would be lost without a word.
#[test]
fn a_file_that_is_written_in_place_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seen.bloom");
    let seen = Blocked::builder().keys::<u64>().items(10_000).create_mapped(&path).unwrap();
    seen.insert(&1u64).unwrap();
    seen.sync().unwrap();
    let old = fs::read(&path).unwrap();
    let (delta, new) = {
        let mut newer = Blocked::from_bytes(&old).unwrap();
        newer.insert(&2u64).unwrap();
        let new = newer.to_bytes().unwrap();
        (bloomgate::format::delta::Delta::between(&old, &new).unwrap(), new)
    };
    assert!(seen.save(&path).unwrap_err().to_string().contains("written in place"));
    assert!(Blocked::from_bytes(&new).unwrap().save(&path).is_err());
    assert!(delta.apply_to_file(&path).is_err());
    seen.insert(&3u64).unwrap();
    seen.close().unwrap();
    assert!(Blocked::open(&path).unwrap().contains(&3u64).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    // Closed, it is a file like any other; and readers do not stand in the way.
    let reader = Blocked::map(&path).unwrap();
    Blocked::from_bytes(&new).unwrap().save(&path).unwrap();
    assert!(reader.contains(&3u64).unwrap());
}
