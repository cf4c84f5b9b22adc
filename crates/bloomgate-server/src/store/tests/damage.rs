//! Every bit and every length of a small log: damage is refused, a torn end is cut, and nothing wrong is ever replayed.

use std::path::PathBuf;

use super::*;

/// A log of three segments with three batches each, every batch durable before the next; the disk as `kill -9` leaves it and
/// as a clean end leaves it.
fn small_log() -> (MemoryDisk, MemoryDisk, Batches) {
    let disk = MemoryDisk::default();
    let (log, ..) = open(&on(disk.clone()), 0, options(Fsync::Always)).expect("a new log");
    let mut batches = Vec::new();
    for i in 1..=9 {
        let payload = payload(i);
        batches.push((log.append(&payload).expect("a batch"), payload));
        log.flush();
        assert_eq!(wait(&log, i), Gate::Open);
        if i == 3 || i == 6 {
            log.rotate().expect("a new segment");
        }
    }
    let killed = disk.power_cut(|_| true);
    log.close().expect("a clean end");
    (killed, disk, batches)
}

fn segments() -> [PathBuf; 3] {
    [1, 4, 7].map(|first| PathBuf::from(format!("{DATA}/log-{first:020}")))
}

fn try_open(disk: &MemoryDisk) -> Result<(Recovery, Batches), LogError> {
    open(&on(disk.clone()), 0, options(Fsync::Always)).map(|(_, recovery, batches)| (recovery, batches))
}

/// Where each frame of a segment starts and ends, and whether it is a batch (or a mark, as an idle log writes them).
fn frames(bytes: &[u8]) -> Vec<(usize, usize, bool)> {
    let mut frames = Vec::new();
    let mut at = 64;
    while at < bytes.len() {
        let length = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let batch = length < 1 << 31;
        let end = at + if batch { (24 + length as usize).next_multiple_of(8) } else { 24 };
        frames.push((at, end, batch));
        at = end;
    }
    assert_eq!(frames.iter().filter(|f| f.2).count(), 3);
    frames
}

#[test]
fn every_bit_flip_is_refused_or_takes_only_what_was_never_promised() {
    let (killed, closed, batches) = small_log();
    for (disk, is_closed) in [(&killed, false), (&closed, true)] {
        for (n, path) in segments().iter().enumerate() {
            let whole = disk.contents(path).expect("a segment");
            let frames = frames(&whole);
            for bit in 0..8 * whole.len() {
                let mut bytes = whole.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let at = bit / 8;
                disk.replace(path, bytes);
                match try_open(disk) {
                    Err(LogError::Corrupt { path: named, .. }) => assert_eq!(&named, path),
                    Err(other) => panic!("a flip at {at} of {path:?}: {other}"),
                    Ok((recovery, found)) => {
                        assert!(n == 2 && !is_closed, "a flip at {at} of {path:?} went unseen");
                        assert!(recovery.torn_bytes > 0);
                        let left = 6 + frames.iter().filter(|f| f.2 && f.1 <= at).count();
                        assert_eq!(found, batches[..left], "a flip at {at}");
                        // Only the last batch.
                        assert!(left >= 8, "a flip at {at} went unseen");
                    }
                }
            }
            disk.replace(path, whole);
        }
        assert_eq!(try_open(disk).expect("the log as it was").1, batches);
    }
}

#[test]
fn every_truncation_leaves_the_batches_before_it_or_is_refused() {
    let (killed, closed, batches) = small_log();
    for (disk, is_closed) in [(&killed, false), (&closed, true)] {
        for (n, path) in segments().iter().enumerate() {
            let whole = disk.contents(path).expect("a segment");
            let frames = frames(&whole);
            let end_of_batches = frames.iter().filter(|f| f.2).map(|f| f.1).max().expect("three batches");
            for length in 0..whole.len() {
                disk.replace(path, whole[..length].to_vec());
                let complete = frames.iter().filter(|f| f.2 && f.1 <= length).count();
                match try_open(disk) {
                    Ok((_, found)) if n == 2 && !is_closed => {
                        assert_eq!(found, batches[..6 + complete], "cut at {length}");
                    }
                    Ok((_, found)) => {
                        // Only the mark of a segment that another one follows may go.
                        assert!(length >= end_of_batches, "cut at {length} of {path:?}");
                        assert_eq!(found, batches);
                    }
                    Err(LogError::Corrupt { .. }) => {
                        assert!(n < 2 || is_closed || length < 64, "cut at {length} of {path:?}");
                    }
                    Err(other) => panic!("cut at {length} of {path:?}: {other}"),
                }
            }
            // Zeros behind the end are room made ahead, not damage.
            let mut longer = whole.clone();
            longer.resize(whole.len() + 10_000, 0);
            disk.replace(path, longer);
            assert_eq!(try_open(disk).expect("zeros are no damage"), (Recovery { ..sum(&batches) }, batches.clone()));
            disk.replace(path, whole);
        }
    }
}

fn sum(batches: &[(u64, Vec<u8>)]) -> Recovery {
    let bytes = batches.iter().map(|b| b.1.len() as u64).sum();
    Recovery { batches: batches.len() as u64, bytes, torn_bytes: 0 }
}

#[test]
fn a_log_that_ends_before_a_snapshot_is_refused_with_the_place() {
    let (killed, _, batches) = small_log();
    let [.., last] = segments();
    let whole = killed.contents(&last).expect("a segment");
    let open_through = |after: u64, through: u64| {
        let mut found = Vec::new();
        let opened = open_log(&on(killed.clone()), after, through, options(Fsync::Never), |sequence, _: &[u8]| {
            found.push(sequence);
            Ok::<(), std::convert::Infallible>(())
        });
        opened.map(|_| found).map_err(|error| error.to_string())
    };
    for (length, left) in frames(&whole).iter().filter(|f| f.2).map(|f| f.1 as u64).zip(7..) {
        killed.replace(&last, whole[..length as usize].to_vec());
        // What the snapshot holds is there, and perhaps more: a torn end, as ever.
        assert_eq!(open_through(6, left), Ok((7..=left).collect()));
        let why = open_through(6, left + 1).expect_err("too short");
        assert!(why.contains(&format!("{} is damaged at byte {length}", last.display())), "{why}");
        assert!(why.contains(&format!("after sequence {left}, but it was durable up to {}", left + 1)), "{why}");
        // Though nothing of it would be read.
        assert!(open_through(left + 1, left + 1).is_err());
    }
    killed.replace(&last, whole);
    assert_eq!(open_through(0, 9).map(|found| found.len()), Ok(batches.len()));
    segments().iter().for_each(|path| killed.remove(path).expect("removed"));
    assert!(open_through(0, 1).is_err_and(|why| why.contains("no log file")));
}

#[test]
fn a_missing_or_swapped_segment_is_refused() {
    let (disk, _, batches) = small_log();
    let [one, two, three] = segments();
    let bytes = |path| disk.contents(path).expect("a segment");
    let (first, second) = (bytes(&one), bytes(&two));
    disk.remove(&two).expect("removed");
    assert!(matches!(try_open(&disk), Err(LogError::Corrupt { .. })));
    disk.replace(&two, first);
    assert!(matches!(try_open(&disk), Err(LogError::Corrupt { .. })), "the name must be that of the first batch");
    disk.replace(&two, second);
    assert_eq!(try_open(&disk).expect("as it was").1, batches);
    disk.remove(&one).expect("removed");
    assert!(matches!(try_open(&disk), Err(LogError::Missing { needed: 1, .. })));
    disk.remove(&two).expect("removed");
    disk.remove(&three).expect("removed");
    let all_gone = open(&on(disk.clone()), 9, options(Fsync::Always));
    assert!(matches!(all_gone, Err(LogError::Missing { needed: 10, .. })));
}

#[test]
fn old_bytes_on_a_recycled_disk_are_no_batches() {
    // Batches 10.. of another log, exactly where batch 10 of this one would be: same sequence, another salt.
    let (disk, _, batches) = small_log();
    let [.., last] = segments();
    let other = MemoryDisk::default();
    let (log, ..) = open(&on(other.clone()), 0, options(Fsync::Always)).expect("a new log");
    for i in 1..=12 {
        log.append(&payload(i)).expect("a batch");
    }
    log.close().expect("a clean end");
    let old = other.contents(&segments()[0]).expect("a segment");
    let tenth = old.windows(8).position(|w| w == 10u64.to_le_bytes()).expect("batch 10") - 8;
    let mut bytes = disk.contents(&last).expect("a segment");
    bytes.extend_from_slice(&old[tenth..]);
    disk.replace(&last, bytes);
    let (recovery, found) = try_open(&disk).expect("a torn end");
    assert_eq!(found, batches);
    assert!(recovery.torn_bytes >= 3 * 24);
}

#[test]
fn the_log_goes_on_behind_a_torn_end_again_and_again() {
    let (disk, _, mut batches) = small_log();
    let mut dice = Dice(1);
    let mut torn = 0;
    for round in 0..20u64 {
        let folder = on(disk.clone());
        let mut names: Vec<_> = folder.names().expect("a list").into_iter().filter(|n| n.starts_with("log-")).collect();
        names.sort();
        let last = folder.at(&names[names.len() - 1]);
        let mut bytes = disk.contents(&last).expect("a segment");
        // Not behind an empty segment: it must pass on what it says about the one before.
        let garbage = if round % 6 == 4 { 0 } else { dice.roll() % 100 };
        bytes.extend((0..garbage).map(|_| dice.roll() as u8 | 1));
        disk.replace(&last, bytes);
        torn += garbage;
        let (log, recovery, found) = open(&folder, 0, options(Fsync::Always)).expect("a torn end");
        assert_eq!((found, recovery.torn_bytes), (batches.clone(), torn), "round {round}");
        // In every third round no batch is written; in half of those an empty segment is begun.
        if round % 6 == 3 {
            log.rotate().expect("a new segment");
            torn = 0;
        }
        if round % 3 != 0 {
            let payload = payload(100 + round);
            batches.push((log.append(&payload).expect("a batch"), payload));
            torn = 0;
        }
    }
}
