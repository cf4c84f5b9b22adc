//! `every-second` on disks whose syncs are slow: whenever the power cord is pulled, the oldest acknowledgement that is lost was
//! given a second before at most.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::*;

/// How long each disk is written to.
const LENGTH: Duration = Duration::from_secs(8);
const SECOND: Duration = Duration::from_secs(1);

/// What power cuts took.
struct Losses {
    cuts: usize,
    lossy: usize,
    /// The age of the oldest lost acknowledgement.
    oldest: Duration,
    /// Acknowledgements are looked for again and again, and count from the look before the one that found them: an age is too
    /// large by so much, never too small.
    grain: Duration,
}

/// Writes in bursts with pauses between them, notes what is acknowledged, and pulls the cord at random moments. Of what was not
/// synced nothing has reached the disk.
fn drive(fsync: Fsync, seed: u64, mut slow: impl FnMut(&mut Dice) -> u64) -> Losses {
    let mut dice = Dice(seed);
    let memory = MemoryDisk::default();
    memory.slow_syncs(Duration::from_millis(slow(&mut dice)));
    let (log, ..) = open(&on(memory.clone()), 0, options(fsync)).expect("a new log");
    let mut waiting = VecDeque::new();
    let (mut acknowledged, mut cuts): (Vec<Instant>, Vec<_>) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    let (mut looked, mut grain, mut number) = (begun, Duration::ZERO, 0);
    let (mut turn, mut writes, mut next_cut) = (begun, false, begun);
    while begun.elapsed() < LENGTH {
        let now = Instant::now();
        if now >= turn {
            writes = !writes;
            // Pauses are long enough for everything to become durable, now and then.
            turn = now + Duration::from_millis(100 + dice.roll() % 1_500);
            memory.slow_syncs(Duration::from_millis(slow(&mut dice)));
        }
        if writes {
            number += 1;
            waiting.push_back(log.append(&payload(number)).expect("room"));
            log.flush();
        }
        while waiting.front().is_some_and(|&sequence| log.gate(sequence) == Gate::Open) {
            waiting.pop_front();
            acknowledged.push(looked);
        }
        grain = grain.max(looked.elapsed());
        looked = now;
        if now >= next_cut {
            let found = memory.power_cut(|_| false);
            cuts.push((Instant::now(), acknowledged.len(), found));
            next_cut = now + Duration::from_millis(10 + dice.roll() % 90);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    memory.slow_syncs(Duration::ZERO);
    drop(log);
    let mut losses = Losses { cuts: cuts.len(), lossy: 0, oldest: Duration::ZERO, grain };
    for (at, count, disk) in cuts {
        let (_log, _, found) = open(&on(disk), 0, options(fsync)).expect("unaided");
        // Sequences count from 1, and are acknowledged in their order.
        if let Some(&oldest) = acknowledged[..count].get(found.len()) {
            losses.lossy += 1;
            losses.oldest = losses.oldest.max(at - oldest);
        }
    }
    losses
}

#[test]
fn the_oldest_lost_acknowledgement_is_a_second_old_at_most_however_slow_the_disk() {
    std::thread::scope(|scope| {
        let disks = [200, 400, 700].map(|millis| {
            let drive = move || drive(Fsync::EverySecond, 7 + millis, |_| millis);
            (format!("{millis} ms"), scope.spawn(drive))
        });
        // Syncs that turn slow and quick again out of the blue.
        let fickle = scope.spawn(|| drive(Fsync::EverySecond, 3, |dice| [0, 0, 400][dice.roll() as usize % 3]));
        let never = scope.spawn(|| drive(Fsync::Never, 5, |_| 200));
        for (name, disk) in disks.into_iter().chain([("0 or 400 ms".to_owned(), fickle)]) {
            let Losses { cuts, lossy, oldest, grain } = disk.join().expect("a disk");
            assert!(cuts > 50, "{name}: {cuts} cuts");
            assert!(
                oldest <= SECOND + grain,
                "{name}: {oldest:?} old, known to {grain:?}, in {lossy} of {cuts} cuts lost"
            );
            // Replies do not wait for every sync where syncs are quick enough: then it would be `always`.
            assert!(lossy > 0 || name == "700 ms", "{name}: nothing was lost in {cuts} cuts");
        }
        // Without the policy more is lost: so these cuts would show it.
        let never = never.join().expect("a disk");
        assert!(never.oldest > SECOND + never.grain, "{:?} in {} cuts", never.oldest, never.lossy);
    });
}
