//! Filters that cannot be read: everybody else is snapshotted as ever, and they come back with all that was ever in them, or not at
//! all.

use std::path::{Path, PathBuf};

use super::house::{House, files};
use super::talk::Talk;

const USERS: usize = 40;

/// The file in which small filters lie.
fn pack(folder: &Path) -> PathBuf {
    let packs = files(folder, "image-0-");
    assert_eq!(packs.len(), 1, "{packs:?}");
    packs[0].clone()
}

/// Flips a bit of a file where these bytes lie, or flips it back.
fn flip(file: &Path, bytes: &[u8], at: usize, before: u8) {
    let mut all = std::fs::read(file).unwrap();
    let mut wanted = bytes.to_vec();
    wanted[at] ^= before;
    let places: Vec<usize> = (0..=all.len() - wanted.len()).filter(|&from| all[from..].starts_with(&wanted)).collect();
    assert_eq!(places.len(), 1, "{} of these bytes lie there", places.len());
    all[places[0] + at] ^= 4;
    std::fs::write(file, all).unwrap();
}

fn cannot_answer(talk: &mut Talk, name: &str) {
    for question in [format!("BF.EXISTS {name} early"), format!("BF.MEXISTS {name} nobody"), format!("BF.ADD {name} x")]
    {
        let answer = talk.say(&question);
        assert!(answer.starts_with(&format!("-ERR filter '{name}' is unavailable: ")), "{question}: {answer}");
    }
}

/// One of many small filters is damaged, and the log has written to it since its image.
#[test]
fn a_small_filter_that_is_damaged_stops_no_snapshot_and_has_lost_nothing_when_its_bytes_are_right_again() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    for user in 0..USERS {
        talk.say(&format!("BF.RESERVE user:{user} 0.0001 100"));
        assert_eq!(talk.say(&format!("BF.ADD user:{user} early")), ":1");
    }
    assert_eq!(talk.say("SAVE"), "+OK");
    for user in 0..USERS {
        assert_eq!(talk.say(&format!("BF.ADD user:{user} late")), ":1");
    }
    drop(talk);
    house.end();
    let whole = std::fs::read(pack(folder.path())).unwrap();
    let each = whole.len() / USERS;
    let bytes = &whole[7 * each..8 * each];
    flip(&pack(folder.path()), bytes, each / 2, 0);
    // Through snapshots and starts, under another name and with an end.
    let mut name = "user:7".to_owned();
    for round in 0..3 {
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        assert_eq!(house.found.named.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&name]);
        assert_eq!(house.found.batches > 0, round == 0, "the log goes: round {round}");
        cannot_answer(&mut talk, &name);
        for _ in 0..2 {
            assert_eq!(talk.say("SAVE"), "+OK");
        }
        // What comes between two snapshots is of no less worth.
        assert_eq!(talk.say(&format!("RENAME {name} moved:{round}")), "+OK");
        name = format!("moved:{round}");
        assert_eq!(talk.say(&format!("EXPIRE {name} 10000")), ":1");
        assert_eq!(talk.say("SAVE"), "+OK");
        let place = house.keeping.backup(&format!("round-{round}")).unwrap();
        std::fs::copy(folder.path().join("master.key"), Path::new(&place).join("master.key")).unwrap();
        let restored = House::open(Path::new(&place));
        assert_eq!((restored.found.filters, restored.found.unavailable), (USERS, 1));
        cannot_answer(&mut restored.talk(0), &name);
        for user in (0..USERS).filter(|user| *user != 7) {
            assert_eq!(talk.say(&format!("BF.MEXISTS user:{user} early late nobody")), "*3 :1 :1 :0");
        }
        drop(talk);
        while files(folder.path(), "log-").len() > 1 {
            house.keeping.trim_log().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        house.end();
    }
    flip(&pack(folder.path()), bytes, each / 2, 4);
    for _ in 0..2 {
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        assert_eq!((house.found.filters, house.found.unavailable), (USERS, 0));
        assert_eq!(talk.say(&format!("BF.MEXISTS {name} early late nobody")), "*3 :1 :1 :0");
        assert_eq!(talk.say(&format!("BF.CARD {name}")), ":2");
        assert!(talk.say(&format!("TTL {name}"))[1..].parse::<i64>().unwrap() > 9_000);
        assert_eq!(talk.say("SAVE"), "+OK");
        drop(talk);
        house.end();
    }
}

/// A table with a file of its own: keys were added, and removed under a request, after its image.
#[test]
fn a_large_filter_that_is_damaged_keeps_its_file_and_is_owed_what_the_log_said_since() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(talk.say("CF.RESERVE table 200000"), "+OK");
    assert_eq!(talk.say("CF.INSERT table ITEMS early both both"), "*3 :1 :1 :1");
    assert_eq!(talk.say("BF.ADD small x"), ":1");
    assert_eq!(talk.say("SAVE"), "+OK");
    assert_eq!(talk.say("CF.INSERT table ITEMS late"), "*1 :1");
    assert_eq!(talk.say("BG.REMOVE table REQUEST r ITEMS both"), "*1 :1");
    let ask = |talk: &mut Talk| ["BG.DIGEST table", "CF.COUNT table both", "CF.DEBUG table"].map(|line| talk.say(line));
    let before = ask(&mut talk);
    drop(talk);
    house.end();
    let image = files(folder.path(), "image-1-").pop().unwrap();
    let right = std::fs::read(&image).unwrap();
    let mut wrong = right.clone();
    wrong[right.len() / 2] ^= 4;
    std::fs::write(&image, &wrong).unwrap();
    for round in 0..3 {
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        assert_eq!((house.found.unavailable, house.found.batches > 0), (1, round == 0));
        assert!(talk.say("CF.EXISTS table early").starts_with("-ERR filter 'table' is unavailable: "));
        assert_eq!((talk.say("SAVE"), talk.say("SAVE")), ("+OK".into(), "+OK".into()));
        assert_eq!(std::fs::read(&image).unwrap(), wrong, "it stays for whoever repairs it");
        drop(talk);
        house.end();
    }
    // Its own bytes are right again, and those are not that it is owed: a "no" without them would be wrong.
    std::fs::write(&image, &right).unwrap();
    let pack = pack(folder.path());
    let owed = std::fs::read(&pack).unwrap();
    // What it is owed comes first: sum, length, the sequence of the add, its digest.
    for at in [0, 5, 12, 40] {
        let mut flipped = owed.clone();
        flipped[at] ^= 4;
        std::fs::write(&pack, flipped).unwrap();
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        let answer = talk.say("CF.EXISTS table late");
        assert!(answer.contains("is unavailable: what the log said of it since its image is damaged too"), "{answer}");
        drop(talk);
        house.end();
    }
    std::fs::write(&pack, owed).unwrap();
    for _ in 0..3 {
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        assert_eq!(ask(&mut talk), before);
        assert_eq!(talk.say("BG.REMOVE table REQUEST r ITEMS both"), "*1 :1", "it was answered before");
        assert_eq!(ask(&mut talk), before);
        assert_eq!(talk.say("SAVE"), "+OK");
        drop(talk);
        house.end();
    }
}

#[test]
fn a_damaged_filter_that_is_deleted_is_gone_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(talk.say("BF.RESERVE large 0.01 200000"), "+OK");
    assert_eq!(talk.say("BF.ADD small x"), ":1");
    assert_eq!(talk.say("SAVE"), "+OK");
    assert_eq!(talk.say("BF.ADD large x"), ":1");
    assert_eq!(talk.say("BF.ADD small y"), ":1");
    drop(talk);
    house.end();
    for image in files(folder.path(), "image-") {
        let mut bytes = std::fs::read(&image).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(&image, bytes).unwrap();
    }
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!((house.found.unavailable, talk.say("SAVE")), (2, "+OK".into()));
    assert_eq!(talk.say("DEL large small"), ":2");
    assert_eq!(talk.say("SAVE"), "+OK");
    assert_eq!(files(folder.path(), "image-"), [] as [PathBuf; 0]);
    drop(talk);
    house.end();
    assert_eq!(House::open(folder.path()).found.filters, 0);
}
