//! The power cord is pulled after every step, and what was not synced reaches the disk by chance: sector by sector, name by
//! name. What was promised is there, the rest is a beginning of what was written, and the log opens unaided.

use std::time::Duration;

use super::*;

#[test]
fn nothing_promised_is_lost_by_a_power_cut_after_any_step() {
    let mut dice = Dice(7);
    for fsync in [Fsync::Always, Fsync::EverySecond, Fsync::Never] {
        let (mut torn, mut cuts, mut short) = (0, 0, 0);
        for step in 1.. {
            assert!(step < 1000, "it never ends");
            let memory = MemoryDisk::default();
            let disk = FaultyDisk::new(memory.clone());
            let folder = on(disk.clone());
            let retry_every = Duration::from_secs(3600);
            let small = LogOptions { segment_bytes: 4096, room_bytes: 2048, retry_every, ..options(fsync) };
            let (log, ..) = open(&folder, 0, small.clone()).expect("a new log");
            // From this step on nothing reaches the disk any more.
            disk.plan(Trouble { from: step, steps: u64::MAX, errno: 5, torn: step % 2 == 0, steps_of: Kind::Any });
            let mut kept = Vec::new();
            let mut promised = 0;
            let mut covered = 0;
            'work: for round in 1..=6u64 {
                for i in 0..1 + round % 3 * 9 {
                    let payload = [payload(round << 32 | i), vec![round as u8; 150]].concat();
                    let Ok(sequence) = log.append(&payload) else { break 'work };
                    kept.push((sequence, payload));
                }
                log.flush();
                match wait(&log, kept.len() as u64) {
                    Gate::Open if fsync == Fsync::Always => promised = kept.len() as u64,
                    Gate::Open => {}
                    _ => break,
                }
                if round % 3 == 0 {
                    let Ok(last) = log.rotate() else { break };
                    let manifest = Manifest { version: 1, replay_after: last, sections: vec![1; 3000] };
                    if write_manifest(&folder, &manifest).is_err() {
                        break;
                    }
                    covered = last;
                    if log.drop_through(last).is_err() {
                        break;
                    }
                }
            }
            let promised = promised.max(log.synced()).max(covered);
            let fired = disk.fired();
            for chance in [0, 1, 2, 3, 4] {
                let found = memory.power_cut(|_| dice.roll() % 4 < chance);
                let folder = on(found.clone());
                let after = read_manifest(&folder).expect("whole").map_or(0, |m| m.replay_after);
                assert!(after >= covered);
                let (log, recovery, batches) = open(&folder, after, small.clone())
                    .unwrap_or_else(|e| panic!("{fsync}, step {step}, chance {chance}: {e}"));
                let end = after + batches.len() as u64;
                assert!(end >= promised, "{fsync}, step {step}: {promised} were promised, {end} are there");
                assert_eq!(batches, kept[after as usize..end as usize]);
                torn += u64::from(recovery.torn_bytes > 0);
                short += u64::from(end < kept.len() as u64);
                cuts += 1;
                // It goes on, and a second cut right after a synced batch loses nothing.
                assert_eq!(log.append(b"on").expect("a batch"), end + 1);
                log.flush();
                drop(log);
                let (_log, _, batches) = open(&on(found.power_cut(|_| false)), after, small.clone()).expect("unaided");
                assert_eq!(batches.len() as u64, end + 1 - after);
            }
            if fired == 0 {
                break;
            }
        }
        assert!(torn > 0 && short > 0 && cuts > 100, "{fsync}: {torn} torn, {short} short of {cuts}");
    }
}

/// A server that is stopped closes its log; whoever then cuts the power loses nothing, whatever the policy was.
#[test]
fn what_was_closed_is_durable_under_every_policy() {
    for fsync in [Fsync::Always, Fsync::EverySecond, Fsync::Never] {
        let memory = MemoryDisk::default();
        let (log, ..) = open(&on(memory.clone()), 0, options(fsync)).expect("a new log");
        let kept: Batches = (1..=40).map(|i| (log.append(&payload(i)).expect("a batch"), payload(i))).collect();
        log.flush();
        assert_eq!(wait(&log, 40), Gate::Open);
        let after_cut = || open(&on(memory.power_cut(|_| false)), 0, options(fsync)).expect("unaided").2;
        if fsync == Fsync::Never {
            assert!(after_cut().len() < 40, "the operating system alone has them");
        }
        log.close().expect("a clean end");
        assert_eq!(after_cut(), kept, "{fsync}");
    }
}

#[test]
fn what_was_replayed_is_durable() {
    // A server is killed with batches that only the operating system has. The next one replays them, and answers from them
    // at once: so they must not be lost by a power cut after that.
    let memory = MemoryDisk::default();
    let disk = FaultyDisk::new(memory.clone());
    let (log, ..) = open(&on(disk.clone()), 0, options(Fsync::Never)).expect("a new log");
    for i in 1..=5 {
        log.append(&payload(i)).expect("a batch");
    }
    log.flush();
    assert_eq!(wait(&log, 5), Gate::Open);
    disk.plan(Trouble { from: 1, steps: u64::MAX, errno: 5, torn: false, steps_of: Kind::Any });
    drop(log);
    assert_eq!(open(&on(memory.power_cut(|_| false)), 0, options(Fsync::Never)).expect("an empty log").2, []);
    let (_second, _, found) = open(&on(memory.clone()), 0, options(Fsync::Never)).expect("the log");
    assert_eq!(found, (1..=5).map(|i| (i, payload(i))).collect::<Vec<_>>());
    assert_eq!(open(&on(memory.power_cut(|_| false)), 0, options(Fsync::Never)).expect("the log").2, found);
}
