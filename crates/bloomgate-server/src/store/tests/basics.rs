//! What goes in comes out, under every policy, by several threads, and again after a restart.

use std::collections::HashSet;
use std::io::Write;

use super::*;

#[test]
fn two_threads_append_and_a_restart_finds_every_batch_in_order() {
    for fsync in [Fsync::Always, Fsync::EverySecond, Fsync::Never] {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = folder(temporary.path());
        let small = LogOptions { segment_bytes: 4096, room_bytes: 1024, ..options(fsync) };
        let (log, recovery, _) = open(&folder, 0, small.clone()).expect("a new log");
        assert_eq!(recovery, Recovery::default());
        let appended: Vec<Batches> = std::thread::scope(|scope| {
            let handles = [0u64, 1].map(|thread| {
                let log = &log;
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for i in 0..300 {
                        let payload = payload(thread << 32 | i);
                        let sequence = log.append(&payload).expect("a batch");
                        log.flush();
                        if i % 16 == 15 {
                            assert_eq!(wait(log, sequence), Gate::Open);
                        }
                        mine.push((sequence, payload));
                    }
                    mine
                })
            });
            handles.map(|handle| handle.join().expect("a writer")).into()
        });
        let mut expected: Vec<_> = appended.into_iter().flatten().collect();
        expected.sort();
        log.close().expect("a clean end");
        assert_eq!((log.appended(), log.synced(), log.written()), (600, 600, 600));
        assert!(log.statistics().segments > 3, "{:?}", log.statistics());
        assert!(matches!(log.append(b"late"), Err(LogError::Closed)));
        drop(log);
        let (log, recovery, batches) = open(&folder, 0, small.clone()).expect("the same log");
        assert_eq!(batches, expected, "{fsync}");
        assert_eq!((recovery.batches, recovery.torn_bytes), (600, 0));
        assert_eq!(log.append(b"more").expect("a batch"), 601);
        drop(log);
        let (_log, _, batches) = open(&folder, 595, small).expect("the same log");
        assert_eq!(batches.iter().map(|b| b.0).collect::<Vec<_>>(), [596, 597, 598, 599, 600, 601]);
    }
}

#[test]
fn segments_go_when_a_snapshot_holds_them() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = folder(temporary.path());
    let (log, ..) = open(&folder, 0, options(Fsync::Always)).expect("a new log");
    for i in 1..=10 {
        assert_eq!(log.append(&payload(i)).expect("a batch"), i);
        if i % 4 == 0 {
            assert_eq!(log.rotate().expect("a rotation"), i);
            assert_eq!(log.rotate().expect("a second one changes nothing"), i);
        }
    }
    log.flush();
    assert_eq!(wait(&log, 10), Gate::Open);
    assert_eq!(log.statistics().segments, 3);
    assert_eq!(log.drop_through(3).expect("nothing to drop"), 0);
    assert_eq!(log.drop_through(4).expect("one segment"), 1);
    assert_eq!(log.drop_through(100).expect("all but the current one"), 1);
    drop(log);
    assert!(matches!(open(&folder, 0, options(Fsync::Always)), Err(LogError::Missing { needed: 1, .. })));
    let (_log, _, batches) = open(&folder, 8, options(Fsync::Always)).expect("the rest");
    assert_eq!(batches, [(9, payload(9)), (10, payload(10))]);
}

#[test]
fn a_batch_that_nobody_flushes_is_written_and_synced_all_the_same() {
    for fsync in [Fsync::Always, Fsync::EverySecond] {
        let temporary = tempfile::tempdir().expect("a folder");
        let (log, ..) = open(&folder(temporary.path()), 0, options(fsync)).expect("a new log");
        let sequence = log.append(b"alone").expect("a batch");
        assert_eq!(wait(&log, sequence), Gate::Open);
        let mut moved = log.watch();
        while log.synced() < sequence {
            moved.borrow_and_update();
            log.gate(sequence + 1);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(log.statistics().pending_bytes, 0);
    }
}

#[test]
fn limits_are_errors() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = folder(temporary.path());
    let (log, ..) =
        open(&folder, 0, LogOptions { max_pending_bytes: 100, ..options(Fsync::Never) }).expect("a new log");
    assert!(matches!(log.append(&vec![0; MAX_PAYLOAD + 1]), Err(LogError::TooLarge { .. })));
    // More than may wait, but nothing waits.
    log.append(&[1; 200]).expect("a batch always fits alone");
    match log.append(b"one more") {
        Err(error @ LogError::Congested { .. }) => assert!(error.to_string().starts_with("MISCONF")),
        // The log thread may have written the first one already.
        other => assert_eq!(other.expect("a batch"), 2),
    }
}

#[test]
fn policies_have_names() {
    for (word, policy) in [
        ("always", Fsync::Always),
        ("every-second", Fsync::EverySecond),
        ("everysec", Fsync::EverySecond),
        ("never", Fsync::Never),
        ("no", Fsync::Never),
    ] {
        assert_eq!(word.parse(), Ok(policy));
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert!("Always".parse::<Fsync>().is_err());
}

#[test]
fn a_folder_has_one_owner_and_keeps_strangers_files() {
    use std::os::unix::fs::PermissionsExt;
    let temporary = tempfile::tempdir().expect("a folder");
    let path = temporary.path().join("data");
    let first = folder(&path);
    assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o700);
    let second = Folder::open(&path, Arc::new(RealDisk)).expect_err("refused").to_string();
    assert!(second.contains(&format!("process {}", std::process::id())), "{second}");
    drop(first);
    for name in
        ["log-00000000000000000001.tmp-0123456789abcdef", "MANIFEST.tmp-0123456789abcdef", "notes.tmp-1", "notes"]
    {
        std::fs::write(path.join(name), "x").expect("a file");
    }
    let names = folder(&path).names().expect("a list");
    assert_eq!(names.into_iter().collect::<HashSet<_>>(), ["lock", "notes", "notes.tmp-1"].map(String::from).into());
    let no_folder = Folder::open(path.join("notes"), Arc::new(RealDisk)).expect_err("refused").to_string();
    assert!(no_folder.contains("it is no folder"), "{no_folder}");
}

#[test]
fn manifests_and_images_come_back_and_damage_shows() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = folder(temporary.path());
    assert_eq!(read_manifest(&folder).expect("none yet"), None);
    for length in [0, 1, 65536, 200_000] {
        let sections = (0..length).map(|i| (i % 251) as u8).collect();
        let manifest = Manifest { version: 3, replay_after: length as u64, sections };
        write_manifest(&folder, &manifest).expect("written");
        assert_eq!(read_manifest(&folder).expect("read"), Some(manifest));
    }
    let whole = std::fs::read(folder.at("MANIFEST")).expect("bytes");
    for at in (0..100).chain((100..whole.len()).step_by(997)).chain(whole.len() - 10..whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(folder.at("MANIFEST"), &bytes).expect("damage");
        assert!(read_manifest(&folder).is_err(), "a flip at {at}");
        std::fs::write(folder.at("MANIFEST"), &whole[..at]).expect("damage");
        assert!(read_manifest(&folder).is_err(), "cut at {at}");
    }
    std::fs::remove_file(folder.at("MANIFEST")).expect("removed");
    assert!(read_manifest(&folder).is_err(), "the old one says that there was one");

    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i >> 3) as u8).collect();
    let mut image = ImageFile::create(&folder, 7, 42).expect("an image");
    for piece in bytes.chunks(700_001) {
        image.write_all(piece).expect("a piece");
    }
    assert_eq!(image.bytes(), 3_000_000);
    let name = image.finish().expect("finished");
    assert_eq!(name, "image-7-42.bloom");
    assert_eq!(std::fs::read(folder.at(&name)).expect("bytes"), bytes);
    ImageFile::create(&folder, 7, 43).expect("an image").write_all(b"half").expect("a piece");
    ImageFile::create(&folder, 8, 1).expect("an image").finish().expect("an empty one");
    std::fs::write(folder.at("image-of-a-cat.bloom"), "not ours").expect("a file");
    assert_eq!(remove_unreferenced(&folder, &HashSet::from([name])).expect("removed"), 1);
    let mut left = folder.names().expect("a list");
    left.sort();
    assert_eq!(left, ["MANIFEST.old", "image-7-42.bloom", "image-of-a-cat.bloom", "lock"]);
}

/// Twelve million filters with names of a few bytes, or 256 thousand with the longest, are a gigabyte.
#[test]
fn a_manifest_may_be_as_long_as_its_filters_make_it() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = folder(temporary.path());
    let sections: Vec<u8> = (0..(257 << 20) / 4u32).flat_map(u32::to_le_bytes).collect();
    let manifest = Manifest { version: 2, replay_after: 9, sections };
    write_manifest(&folder, &manifest).expect("written");
    assert!(read_manifest(&folder).expect("read") == Some(manifest), "another one");
}

#[test]
fn a_manifest_that_announces_more_than_it_has_is_refused_before_memory_is_taken_for_it() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = folder(temporary.path());
    write_manifest(&folder, &Manifest { version: 2, replay_after: 9, sections: vec![7; 1_000] }).expect("written");
    let whole = std::fs::read(folder.at("MANIFEST")).expect("bytes");
    // The last ones would wrap round to the length that the file has.
    for announced in [0, 999, 1_001, 1 << 20, 1 << 40, 1 << 62, u64::MAX - 1_000, u64::MAX - (1 << 50), u64::MAX] {
        let mut bytes = whole.clone();
        bytes[24..32].copy_from_slice(&u64::to_le_bytes(announced));
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(folder.at("MANIFEST"), &bytes).expect("damage");
        let why = read_manifest(&folder).expect_err("refused").to_string();
        assert!(why.contains(&format!("announces a body of {announced}")), "{why}");
    }
}

#[test]
fn no_image_takes_the_name_of_another() {
    let memory = MemoryDisk::default();
    let folder = on(memory.clone());
    let write = |id: u64, text: &[u8]| {
        let mut image = ImageFile::create(&folder, id, 42).expect("an image");
        image.write_all(text).expect("a piece");
        let name = image.name().to_owned();
        assert_eq!(image.finish().expect("finished"), name);
        name
    };
    let names = [write(0, b"one"), write(0, b"two"), write(7, b"three"), write(0, b"four")];
    assert_eq!(names, ["image-0-42.bloom", "image-0-43.bloom", "image-7-42.bloom", "image-0-44.bloom"]);
    let found = names.map(|name| memory.contents(&folder.at(&name)).expect("it is there"));
    assert_eq!(found, [&b"one"[..], b"two", b"three", b"four"]);
    // One that is gone leaves its name.
    folder.disk().remove(&folder.at("image-0-43.bloom")).expect("removed");
    assert_eq!(write(0, b"five"), "image-0-43.bloom");
    // A disk that does not say what is there is no empty one.
    let disk = FaultyDisk::new(memory);
    let folder = on(disk.clone());
    disk.plan(Trouble { from: 1, steps: u64::MAX, errno: 5, torn: false, steps_of: Kind::Any });
    assert!(ImageFile::create(&folder, 0, 42).is_err());
}

#[test]
fn a_file_without_a_name_is_read_and_leaves_nothing() {
    use std::io::{Seek, SeekFrom};
    let place = tempfile::tempdir().expect("a place");
    let folder = folder(place.path());
    let mut spool = Spool::create(&folder, 1_000_000).expect("room");
    assert_eq!(folder.names().expect("a list"), ["lock"]);
    spool.write_all(&[0; 8]).expect("a place for what comes last");
    for number in 0..100_000u64 {
        spool.write_all(&number.to_le_bytes()).expect("a piece");
    }
    spool.seek(SeekFrom::Start(0)).expect("back");
    spool.write_all(b"the head").expect("a piece");
    let file = spool.finish().expect("finished");
    assert_eq!(file.length(), 800_008);
    assert_eq!(file.read(0, 8).expect("bytes"), b"the head");
    assert_eq!(file.read(8 * 70_001, 8).expect("bytes"), 70_000u64.to_le_bytes());
    assert_eq!(file.read(800_000, 100).expect("bytes").len(), 8);
    assert_eq!(file.read(800_008, 100).expect("bytes").len(), 0);
    assert_eq!(folder.names().expect("a list"), ["lock"]);
    // More than the disk has, with what the log needs.
    let full = Spool::create(&folder, u64::MAX / 2).expect_err("no room");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn a_snapshot_can_ask_for_a_sync_under_every_policy() {
    for fsync in [Fsync::Always, Fsync::EverySecond, Fsync::Never] {
        let disk = MemoryDisk::default();
        let (log, ..) = open(&on(disk.clone()), 0, options(fsync)).expect("a new log");
        for i in 1..=5 {
            log.append(&payload(i)).expect("a batch");
        }
        log.sync_through(5).expect("synced");
        log.sync_through(100).expect("there is no more than that");
        assert_eq!(log.synced(), 5);
        let (_log, _, found) = open(&on(disk.power_cut(|_| false)), 0, options(fsync)).expect("the log");
        assert_eq!(found.len(), 5);
    }
}
