//! Each step of the disk fails once, for all steps; and the disk fills up. Writers get an error, what was promised stays,
//! and the log goes on by itself.

use std::time::Duration;

use super::*;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

fn eager(fsync: Fsync) -> LogOptions {
    LogOptions { retry_every: Duration::from_millis(1), segment_bytes: 256, ..options(fsync) }
}

fn once(step: u64, torn: bool) -> Trouble {
    Trouble { from: step, steps: 1, errno: EIO, torn, steps_of: Kind::Any }
}

/// Appends until the log takes it: what a client does that tries again after an error.
fn insist(log: &Log, payload: &[u8], refused: &mut u64) -> u64 {
    for _ in 0..10_000 {
        match log.append(payload) {
            Ok(sequence) => return sequence,
            Err(error) => {
                assert!(error.to_string().starts_with("MISCONF"), "{error}");
                *refused += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    panic!("the log never recovered: {:?}", log.state());
}

#[test]
fn every_step_may_fail_once() {
    let cases =
        [(Fsync::Always, true, 0), (Fsync::Always, false, 128), (Fsync::EverySecond, true, 0), (Fsync::Never, true, 0)];
    for (fsync, torn, room_bytes) in cases {
        let mut failures_seen = 0;
        for step in 1.. {
            assert!(step < 1000, "it never ends");
            let disk = FaultyDisk::new(MemoryDisk::default());
            let folder = on(disk.clone());
            let (log, ..) = open(&folder, 0, LogOptions { room_bytes, ..eager(fsync) }).expect("a new log");
            disk.plan(once(step, torn));
            let (mut kept, mut promised, mut refused, mut failed, mut dropped) = (Vec::new(), 0, 0, 0, 0);
            for i in 1..=12u64 {
                let payload = payload(i);
                let sequence = insist(&log, &payload, &mut refused);
                kept.push((sequence, payload));
                log.flush();
                match wait(&log, sequence) {
                    Gate::Open => promised = sequence,
                    _ => failed += 1,
                }
                if i % 5 == 0 && snapshot(&folder, &log, &mut dropped).is_err() {
                    failed += 1;
                }
            }
            let errors = log.statistics().errors;
            let closed = log.close();
            let recoveries = log.statistics().recoveries;
            let fired = disk.fired();
            failed += u64::from(closed.is_err());
            disk.heal();
            drop(log);
            let after = read_manifest(&folder).expect("whole").map_or(0, |m| m.replay_after);
            assert!(after >= dropped);
            let (_log, _, found) = open(&folder, after, LogOptions { room_bytes, ..eager(fsync) }).expect("unaided");
            assert!(after + found.len() as u64 >= promised, "step {step} of {fsync}: {promised} were promised");
            assert_eq!(found, kept[after as usize..after as usize + found.len()], "step {step} of {fsync}");
            if closed.is_ok() {
                assert_eq!(after + found.len() as u64, 12);
            }
            if errors > 0 && closed.is_ok() {
                assert!(recoveries > 0, "step {step} of {fsync}");
            }
            failures_seen += failed.min(1) + refused.min(1);
            if fired == 0 {
                break;
            }
        }
        assert!(failures_seen > 10, "{fsync}: only {failures_seen} failures were seen");
    }
}

fn snapshot(folder: &Arc<Folder>, log: &Log, dropped: &mut u64) -> Result<(), String> {
    use std::io::Write;
    let last = log.rotate().map_err(|e| e.to_string())?;
    let mut image = ImageFile::create(folder, 1, last).map_err(|e| e.to_string())?;
    image.write_all(&last.to_le_bytes()).map_err(|e| e.to_string())?;
    let name = image.finish().map_err(|e| e.to_string())?;
    let manifest = Manifest { version: 1, replay_after: last, sections: name.clone().into_bytes() };
    write_manifest(folder, &manifest).map_err(|e| e.to_string())?;
    *dropped = last;
    remove_unreferenced(folder, &[name].into()).map_err(|e| e.to_string())?;
    log.drop_through(last).map_err(|e| e.to_string())?;
    Ok(())
}

#[test]
fn opening_may_fail_at_every_step_and_harms_nothing() {
    let memory = MemoryDisk::default();
    let (log, ..) = open(&on(memory.clone()), 0, eager(Fsync::Always)).expect("a new log");
    for i in 1..=20 {
        log.append(&payload(i)).expect("a batch");
    }
    log.close().expect("a clean end");
    let mut failed = 0;
    for step in 1.. {
        let disk = FaultyDisk::new(memory.clone());
        disk.plan(once(step, true));
        let opened = Folder::open(DATA, Arc::new(disk.clone()));
        let opened = opened.map_err(|e| e.to_string()).and_then(|folder| {
            open(&Arc::new(folder), 0, eager(Fsync::Always)).map(|(_, _, found)| found.len()).map_err(|e| e.to_string())
        });
        match (opened, disk.fired()) {
            (Ok(batches), 0) => {
                assert_eq!(batches, 20);
                break;
            }
            (Ok(batches), _) => assert_eq!(batches, 20, "step {step}"),
            (Err(_), fired) => {
                assert_eq!(fired, 1, "step {step}");
                failed += 1;
            }
        }
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_full_disk_refuses_writes_and_takes_them_again_when_there_is_room() {
    for fsync in [Fsync::Always, Fsync::EverySecond, Fsync::Never] {
        let memory = MemoryDisk::default();
        let disk = FaultyDisk::new(memory.clone());
        let folder = on(disk.clone());
        let (log, ..) = open(&folder, 0, eager(fsync)).expect("a new log");
        let mut kept = Vec::new();
        for i in 1..=5 {
            kept.push((log.append(&payload(i)).expect("a batch"), payload(i)));
        }
        log.flush();
        assert_eq!(wait(&log, 5), Gate::Open);
        disk.plan(Trouble { from: 1, steps: u64::MAX, errno: ENOSPC, torn: true, steps_of: Kind::Change });
        let mut taken = 5;
        while let Ok(sequence) = log.append(&payload(taken + 1)) {
            kept.push((sequence, payload(sequence)));
            taken = sequence;
            log.flush();
            if wait(&log, sequence) == Gate::Failed {
                break;
            }
        }
        assert_eq!(wait(&log, taken), Gate::Failed);
        let refused = log.append(b"no room").expect_err("refused").to_string();
        assert!(refused.starts_with("MISCONF") && refused.contains("No space left"), "{refused}");
        assert!(matches!(log.state(), LogState::ReadOnly { .. }));
        // It keeps failing to recover while the disk is full.
        let errors = log.statistics().errors;
        while log.statistics().errors < errors + 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(log.gate(taken), Gate::Failed);
        disk.heal();
        let mut refused = 0;
        let sequence = insist(&log, &payload(taken + 1), &mut refused);
        assert_eq!(sequence, taken + 1, "a refused batch takes no sequence");
        kept.push((sequence, payload(sequence)));
        log.flush();
        assert_eq!(wait(&log, sequence), Gate::Open);
        assert_eq!((log.state(), log.statistics().recoveries), (LogState::Writable, 1));
        // As kill -9 would leave it.
        let (_log, _, found) = open(&on(memory.power_cut(|_| true)), 0, eager(fsync)).expect("unaided");
        assert_eq!(found, kept, "{fsync}");
    }
}

#[test]
fn what_is_applied_is_taken_though_the_disk_failed_and_while_it_recovers() {
    for fsync in [Fsync::Always, Fsync::EverySecond, Fsync::Never] {
        let memory = MemoryDisk::default();
        let disk = FaultyDisk::new(memory.clone());
        let (log, ..) = open(&on(disk.clone()), 0, eager(fsync)).expect("a new log");
        log.append(&payload(1)).expect("a batch");
        log.flush();
        assert_eq!(wait(&log, 1), Gate::Open);
        disk.plan(Trouble { from: 1, steps: u64::MAX, errno: ENOSPC, torn: true, steps_of: Kind::Change });
        assert_eq!(log.append(&payload(2)).expect("a batch"), 2);
        log.flush();
        while log.is_writable() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(log.check_room(8).is_err() && log.append(b"refused").is_err());
        // More than a segment holds.
        for i in 3..=20 {
            assert_eq!(log.append_applied(&payload(i)).expect("it is done"), i);
        }
        assert_eq!(log.gate(20), Gate::Failed);
        // The first file after the failure is being made when the next ones come.
        disk.hold_syncs(true);
        disk.heal();
        while disk.syncing() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        for i in 21..=40 {
            assert_eq!(log.append_applied(&payload(i)).expect("it is done"), i);
        }
        disk.hold_syncs(false);
        let sequence = insist(&log, &payload(41), &mut 0);
        log.flush();
        assert_eq!((sequence, wait(&log, sequence)), (41, Gate::Open));
        log.sync_through(sequence).expect("a good disk");
        let (_log, _, found) = open(&on(memory.power_cut(|_| false)), 0, eager(fsync)).expect("unaided");
        assert_eq!(found, (1..=41).map(|i| (i, payload(i))).collect::<Vec<_>>(), "{fsync}");
        log.close().expect("a clean end");
        assert_eq!(log.statistics().pending_bytes, 0, "{fsync}");
        assert!(log.append_applied(b"late").is_err());
    }
}

#[test]
fn short_writes_are_completed() {
    let disk = FaultyDisk::new(MemoryDisk::default());
    disk.short_writes(7);
    let folder = on(disk);
    let (log, ..) = open(&folder, 0, eager(Fsync::EverySecond)).expect("a new log");
    for i in 1..=50 {
        log.append(&payload(i)).expect("a batch");
        log.flush();
    }
    log.close().expect("a clean end");
    drop(log);
    let (_log, _, found) = open(&folder, 0, eager(Fsync::EverySecond)).expect("the same log");
    assert_eq!(found, (1..=50).map(|i| (i, payload(i))).collect::<Vec<_>>());
}

#[test]
fn a_failed_sync_is_never_asked_again() {
    // Under `always`: the sync of the third batch fails. Its batch must be in a second file, made after that.
    let memory = MemoryDisk::default();
    let disk = FaultyDisk::new(memory.clone());
    let folder = on(disk.clone());
    let (log, ..) = open(&folder, 0, LogOptions { segment_bytes: 1 << 20, ..eager(Fsync::Always) }).expect("a new log");
    for i in 1..=2 {
        log.append(&payload(i)).expect("a batch");
        log.flush();
        assert_eq!(wait(&log, i), Gate::Open);
    }
    // Steps from here: the write of batch 3 (or of a mark before it), its sync, …
    disk.plan(once(2, false));
    let mut sequence = 2;
    while disk.fired() == 0 {
        sequence = insist(&log, &payload(sequence + 1), &mut 0);
        log.flush();
        wait(&log, sequence);
    }
    while log.synced() < sequence {
        std::thread::sleep(Duration::from_millis(1));
    }
    let files = folder.names().expect("a list").iter().filter(|n| n.starts_with("log-")).count();
    assert_eq!((files, log.statistics().recoveries), (2, 1));
    let (_log, _, found) = open(&on(memory.power_cut(|_| false)), 0, eager(Fsync::Always)).expect("unaided");
    assert_eq!(found, (1..=sequence).map(|i| (i, payload(i))).collect::<Vec<_>>());
}

#[test]
fn batches_written_while_a_sync_fails_are_kept_too() {
    // Reactors go on writing while the log thread syncs. When that sync fails, their bytes went to the same file.
    let memory = MemoryDisk::default();
    let disk = FaultyDisk::new(memory.clone());
    let (log, ..) = open(&on(disk.clone()), 0, LogOptions { segment_bytes: 1 << 20, ..eager(Fsync::EverySecond) })
        .expect("a new log");
    log.append(&payload(1)).expect("a batch");
    log.flush();
    assert_eq!(wait(&log, 1), Gate::Open);
    disk.slow_syncs(Duration::from_millis(20));
    disk.plan(Trouble { from: 1, steps: 1, errno: EIO, torn: false, steps_of: Kind::Sync });
    let mut last = 1;
    while disk.fired() == 0 {
        last = insist(&log, &payload(last + 1), &mut 0);
        log.flush();
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut refused = 0;
    last = insist(&log, &payload(last + 1), &mut refused);
    log.flush();
    while log.synced() < last {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(log.statistics().recoveries, 1);
    let (_log, _, found) = open(&on(memory.power_cut(|_| false)), 0, eager(Fsync::EverySecond)).expect("unaided");
    assert_eq!(found, (1..=last).map(|i| (i, payload(i))).collect::<Vec<_>>());
}

#[test]
fn replies_of_every_second_wait_when_the_disk_falls_behind() {
    let disk = FaultyDisk::new(MemoryDisk::default());
    let (log, ..) = open(&on(disk.clone()), 0, eager(Fsync::EverySecond)).expect("a new log");
    log.append(&payload(1)).expect("a batch");
    log.flush();
    assert_eq!(wait(&log, 1), Gate::Open);
    disk.slow_syncs(Duration::from_millis(900));
    // A sync begins within a quarter of a second and then hangs; half a second after the last good one the gate closes.
    let mut closed = false;
    for _ in 0..2000 {
        let sequence = log.append(&payload(2)).expect("a batch");
        log.flush();
        closed = log.gate(sequence) == Gate::Wait && log.statistics().lag >= Duration::from_millis(500);
        if closed {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(closed);
    disk.slow_syncs(Duration::ZERO);
    assert_eq!(wait(&log, log.appended()), Gate::Open);
}
