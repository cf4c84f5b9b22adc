//! Snapshots while names and filters change: whatever was acknowledged is there after the next start.

use std::sync::atomic::{AtomicUsize, Ordering};

use bloomgate_server::keeping::SharedKeeping;
use bloomgate_server::session::desk::Keeper;

use super::house::{House, files};
use super::talk::Talk;

/// Repeats `work` while snapshots are made one after another, until there were so many.
fn amid_snapshots(house: &House, most: usize, mut work: impl FnMut()) {
    let count = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..most {
                house.keeping.snapshot().unwrap();
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        while count.load(Ordering::Relaxed) < most {
            work();
        }
    });
}

#[test]
fn filters_that_change_places_during_a_snapshot_have_the_right_names_after_it() {
    const FILTERS: usize = 12;
    let folder = tempfile::tempdir().unwrap();
    // At a name, the item of the filter that is there.
    let mut at: Vec<usize> = (0..FILTERS).collect();
    for round in 0..4u64 {
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        for (name, item) in at.iter().enumerate() {
            let there = talk.say(&format!("BF.EXISTS f{name} item-{item}"));
            assert!(round == 0 || there == ":1", "round {round}: item-{item} is not in f{name}");
            // Large enough for a file each, so that there is time between their images.
            talk.say(&format!("BF.RESERVE f{name} 0.01 100000"));
            talk.say(&format!("BF.ADD f{name} item-{item}"));
        }
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 + round;
        amid_snapshots(&house, 5, || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (one, other) = (state as usize % FILTERS, (state >> 32) as usize % FILTERS);
            assert_eq!(talk.say(&format!("BG.SWAP f{one} f{other}")), "+OK");
            at.swap(one, other);
        });
        drop(talk);
        house.end();
    }
}

#[test]
fn a_log_that_lost_what_a_snapshot_waited_for_is_refused_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    const FILTERS: usize = 12;
    for name in 0..FILTERS {
        assert_eq!(talk.say(&format!("BF.RESERVE f{name} 0.01 100000")), "+OK");
    }
    // Adds go on between the images, which have a file each: so those end later than what is read of the log begins.
    let mut number = 0;
    amid_snapshots(&house, 3, || {
        assert!(!talk.say(&format!("BF.ADD f{} item-{number}", number % FILTERS)).starts_with('-'));
        number += 1;
    });
    drop(talk);
    house.end();
    let log = files(folder.path(), "log-").pop().unwrap();
    let whole = std::fs::read(&log).unwrap();
    // All that the log has since the snapshot began: one that went on from here would give the sequences of the images out
    // again, and the start after that would leave out the adds that got them.
    std::fs::write(&log, &whole[..64]).unwrap();
    let refused = House::try_open(folder.path()).err();
    assert!(
        refused.as_ref().is_some_and(|why| why.contains("is damaged at byte 64") && why.contains("was durable up to")),
        "{refused:?}"
    );
    std::fs::write(&log, &whole).unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    for item in 0..number {
        assert_eq!(talk.say(&format!("BF.EXISTS f{} item-{item}", item % FILTERS)), ":1");
    }
}

#[test]
fn what_was_written_after_the_last_snapshot_may_be_torn_and_what_comes_then_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(talk.say("BF.ADD seen before"), ":1");
    house.keeping.snapshot().unwrap();
    assert_eq!(talk.say("BF.ADD seen torn"), ":1");
    drop(talk);
    house.end();
    let log = files(folder.path(), "log-").pop().unwrap();
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, &whole[..64]).unwrap();
    let house = House::open(folder.path());
    assert_eq!(house.talk(0).say("BF.ADD seen after"), ":1");
    house.end();
    let house = House::open(folder.path());
    assert_eq!(house.talk(0).say("BF.MEXISTS seen before after"), "*2 :1 :1");
}

#[test]
fn a_log_that_was_closed_may_not_lose_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    assert_eq!(house.talk(0).say("BF.ADD seen x"), ":1");
    house.engine.journal.log().unwrap().close().unwrap();
    house.end();
    let logs = files(folder.path(), "log-");
    let whole = std::fs::read(&logs[0]).unwrap();
    std::fs::write(&logs[0], &whole[..64]).unwrap();
    assert!(House::try_open(folder.path()).is_err_and(|why| why.contains("is damaged at byte 64")));
    std::fs::write(&logs[0], &whole).unwrap();
    // Begun and ended again with nothing written: as many files as before.
    for _ in 0..3 {
        let house = House::open(folder.path());
        assert_eq!(house.talk(0).say("BF.EXISTS seen x"), ":1");
        house.engine.journal.log().unwrap().close().unwrap();
        house.end();
        assert_eq!(files(folder.path(), "log-"), logs);
    }
}

#[test]
fn the_file_of_a_filter_that_is_being_installed_survives_the_end_of_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    assert_eq!(house.talk(0).say("BF.ADD seen x"), ":1");
    let filter = house.engine.find(b"seen").unwrap().copy().unwrap();
    let keeper = SharedKeeping(house.keeping.clone());
    let mut written = Vec::new();
    // What COPY does before the log names the file: until then only the keeper knows that it is needed.
    amid_snapshots(&house, 40, || {
        let id = house.engine.take_id();
        written.push(keeper.write_image(id, &filter).unwrap());
    });
    house.keeping.snapshot().unwrap();
    let lost: Vec<_> = written.iter().filter(|name| !folder.path().join(&***name).exists()).collect();
    assert!(lost.is_empty(), "{} of {} files are gone: {lost:?}", lost.len(), written.len());
}

#[test]
fn a_filter_that_cannot_be_read_and_has_no_image_keeps_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(talk.say("BF.RESERVE large 0.01 1200000"), "+OK");
    assert_eq!(talk.say("BF.ADD large x"), ":1");
    assert_eq!(talk.say("COPY large copy"), ":1");
    drop(talk);
    house.end();
    let image = files(folder.path(), "image-").pop().unwrap();
    let right = std::fs::read(&image).unwrap();
    let mut bytes = right.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&image, bytes).unwrap();
    let house = House::open(folder.path());
    assert_eq!((house.found.unavailable, &*house.found.named[0].0), (1, "copy"));
    assert!(house.keeping.snapshot().is_err_and(|why| why.contains("'copy' is unavailable")));
    house.end();
    std::fs::write(&image, right).unwrap();
    let house = House::open(folder.path());
    assert_eq!(house.talk(0).say("BF.EXISTS copy x"), ":1");
}

#[test]
fn a_folder_under_another_secret_is_not_opened_by_its_log_alone_or_by_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(talk.say("BF.ADD seen x"), ":1");
    assert_eq!(talk.say("CF.ADD there x"), ":1");
    assert_eq!(talk.say("BG.CREATE open KIND classic CAPACITY 100 RATE 0.01 HASH xxh3"), "+OK");
    assert_eq!(talk.say("BF.ADD open x"), ":1");
    drop(talk);
    house.end();
    let key = folder.path().join("master.key");
    let right = std::fs::read(&key).unwrap();
    let id =
        |hex: &[u8]| bloomgate::Secret::from_hex(std::str::from_utf8(hex).unwrap().trim()).unwrap().id().to_string();
    let other = "ab".repeat(32).into_bytes();
    for _ in 0..2 {
        // From the log first, then from a snapshot.
        std::fs::write(&key, &other).unwrap();
        let why = House::try_open(folder.path()).err().unwrap();
        assert!(why.starts_with("the master secret that was given") && why.contains("--master-key"), "{why}");
        assert!(why.contains(&id(&right)) && why.contains(&id(&other)), "{why}");
        // Nothing of it is dropped, so the right secret brings everything back.
        std::fs::write(&key, &right).unwrap();
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        for question in ["BF.EXISTS seen x", "CF.EXISTS there x", "BF.EXISTS open x"] {
            assert_eq!(talk.say(question), ":1", "{question}");
        }
        house.keeping.snapshot().unwrap();
        drop(talk);
        house.end();
    }
}

#[test]
fn a_backup_has_the_files_of_filters_that_were_installed_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    // More than a megabyte: its copies are installed from files.
    assert_eq!(talk.say("BF.RESERVE large 0.01 1000000"), "+OK");
    assert_eq!(talk.say("BF.ADD large x"), ":1");
    let places = std::thread::scope(|scope| {
        let backups = scope.spawn(|| {
            let backup = |number| house.keeping.backup(&format!("backup-{number}")).unwrap();
            (0..5).map(backup).collect::<Vec<String>>()
        });
        while !backups.is_finished() {
            assert_eq!(talk.say("COPY large copy REPLACE"), ":1");
        }
        backups.join().unwrap()
    });
    for place in places {
        let place = std::path::Path::new(&place);
        std::fs::copy(folder.path().join("master.key"), place.join("master.key")).unwrap();
        let restored = House::open(place);
        assert_eq!(restored.found.named, []);
        assert_eq!(restored.talk(0).say("BF.EXISTS large x"), ":1");
    }
}

/// Copies come back as many as they were, from the log, from an image and from both; and the ninth is still one too many.
#[test]
fn copies_are_counted_alike_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    // A chain that grows, and a table that may be full for a copy whose neighbours have many.
    let mut filters = [("f", vec![0u64; 60]), ("fixed", vec![0u64; 60])];
    for round in 0..5 {
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        if round == 0 {
            assert_eq!(talk.say("CF.RESERVE f 32"), "+OK");
            assert_eq!(talk.say("CF.RESERVE fixed 2000 FINGERPRINT 24 EXPANSION 0"), "+OK");
        }
        for (filter, held) in &mut filters {
            // Item 0 has all eight from the beginning.
            while round == 0 && held[0] < 8 {
                assert_eq!(talk.say(&format!("CF.ADD {filter} item-0")), ":1");
                held[0] += 1;
            }
            assert!(talk.say(&format!("CF.ADD {filter} item-0")).starts_with("-ERR the filter holds 8 copies"));
            for (item, held) in held.iter_mut().enumerate().skip(1) {
                assert_eq!(talk.say(&format!("CF.COUNT {filter} item-{item}")), format!(":{held}"), "round {round}");
                for _ in 0..(item + round) % 5 {
                    match &*talk.say(&format!("CF.ADD {filter} item-{item}")) {
                        ":1" => *held += 1,
                        "-Filter is full" if *filter == "fixed" => {}
                        other => assert!(*held == 8 && other.contains("holds 8 copies"), "{other}"),
                    }
                }
                for _ in 0..((item * 3 + round) as u64 % 3).min(*held) {
                    assert_eq!(talk.say(&format!("CF.DEL {filter} item-{item}")), ":1");
                    *held -= 1;
                }
            }
        }
        if round % 2 == 1 {
            house.keeping.snapshot().unwrap();
        }
        if round == 2 {
            // What came since the snapshot, on top of its image.
            assert_eq!(talk.say("COPY f g"), ":1");
        }
        drop(talk);
        house.end();
    }
    let house = House::open(folder.path());
    assert_eq!(house.found.unavailable, 0);
    let mut talk = house.talk(0);
    assert!(!talk.say("CF.DEBUG f").contains("filters:1 "));
    assert!(filters[0].1.iter().sum::<u64>() > 200, "{filters:?}");
    for (filter, held) in &filters {
        for (item, held) in held.iter().enumerate() {
            (0..*held).for_each(|_| assert_eq!(talk.say(&format!("CF.DEL {filter} item-{item}")), ":1"));
            assert_eq!(talk.say(&format!("CF.EXISTS {filter} item-{item}")), ":0");
        }
    }
    assert_eq!(talk.say("CF.COUNT g item-0"), ":8");
}

#[test]
fn the_image_of_a_filter_that_was_installed_and_deleted_goes_with_the_next_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    let images = || files(folder.path(), "image-").len();
    assert_eq!(talk.say("BF.RESERVE large 0.01 1200000"), "+OK");
    assert_eq!(talk.say("BF.ADD large x"), ":1");
    for name in ["gone", "stays", "late"] {
        assert_eq!(talk.say(&format!("COPY large {name}")), ":1");
    }
    assert_eq!(images(), 3);
    assert_eq!(talk.say("DEL gone"), ":1");
    // Until there is a snapshot the log says that it was installed, and a start looks for it.
    assert_eq!(images(), 3);
    house.keeping.snapshot().unwrap();
    assert_eq!(images(), 3, "one for each filter that there is");
    assert_eq!(talk.say("COPY large again"), ":1");
    assert_eq!(talk.say("DEL late"), ":1");
    assert_eq!(images(), 4);
    drop(talk);
    house.end();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(talk.say("EXISTS large stays again late gone"), ":3");
    for name in ["large", "stays", "again"] {
        assert_eq!(talk.say(&format!("BF.EXISTS {name} x")), ":1");
    }
    // Given up before it had its name.
    assert_eq!(talk.say("COPY large stays"), ":0");
    let filter = house.engine.find(b"large").unwrap().copy().unwrap();
    let held = SharedKeeping(house.keeping.clone()).write_image(house.engine.take_id(), &filter).unwrap();
    house.keeping.snapshot().unwrap();
    assert_eq!(images(), 4, "one is still held");
    drop(held);
    house.keeping.snapshot().unwrap();
    assert_eq!(images(), 3);
}

#[test]
fn a_snapshot_tells_the_bytes_that_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(talk.say("BF.RESERVE large 0.01 200000"), "+OK");
    (0..300).for_each(|number| _ = talk.say(&format!("BF.ADD small-{number} x")));
    assert_eq!(talk.say("CF.ADD cuckoo x"), ":1");
    let on_disk = |begin: &str| -> u64 {
        files(folder.path(), begin).iter().map(|file| std::fs::metadata(file).unwrap().len()).sum()
    };
    let told = |talk: &mut Talk| {
        let info = talk.say("INFO persistence");
        let value = |name: &str| info.split_once(name).unwrap().1.split(' ').next().unwrap().parse::<u64>().unwrap();
        assert!(value("snapshot_usec:") > 0);
        value("snapshot_bytes:")
    };
    assert_eq!(talk.say("SAVE"), "+OK");
    let manifest = std::fs::metadata(folder.path().join("MANIFEST")).unwrap().len();
    assert_eq!(told(&mut talk), on_disk("image-") + manifest);
    // Nothing has changed: the large image stays, and the small ones are written again.
    let large = on_disk("image-1-");
    assert_eq!(talk.say("SAVE"), "+OK");
    assert!(large > 200_000 && on_disk("image-1-") == large);
    let manifest = std::fs::metadata(folder.path().join("MANIFEST")).unwrap().len();
    assert_eq!(told(&mut talk), on_disk("image-") - large + manifest);
}
