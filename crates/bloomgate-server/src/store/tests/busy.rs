//! A disk that is busy: whoever flushes does not wait for it, and what was flushed is written all the same.

use super::*;

/// A reactor that waited here would keep everybody else's lookups waiting.
#[test]
fn nobody_who_flushes_waits_for_a_sync() {
    for fsync in [Fsync::EverySecond, Fsync::Never] {
        let disk = FaultyDisk::new(MemoryDisk::default());
        let folder = on(disk.clone());
        // Under `never` the log syncs each quarter of a segment.
        let (log, ..) = open(&folder, 0, LogOptions { segment_bytes: 4096, ..options(fsync) }).expect("a new log");
        let first = log.append(&[7; 2000]).expect("room");
        log.flush();
        assert_eq!(wait(&log, first), Gate::Open);
        disk.hold_syncs(true);
        let mut last = log.append(&[8; 40]).expect("room");
        log.flush();
        while disk.syncing() == 0 {
            last = log.append(&[9; 40]).expect("room");
            log.flush();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // The sync is under way and ends only below: a flush that wrote here would never come back.
        for _ in 0..20 {
            last = log.append(&[10; 40]).expect("room");
            log.flush();
        }
        assert_eq!(log.gate(last), Gate::Wait, "the disk has not taken it");
        disk.hold_syncs(false);
        assert_eq!(wait(&log, last), Gate::Open);
        log.close().expect("all is written");
        drop(log);
        let (.., found) = open(&folder, 0, options(fsync)).expect("it opens");
        assert_eq!(found.len() as u64, last);
    }
}
