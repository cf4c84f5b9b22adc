//! Random interleavings of get, put, delete, expiry and rebuild, by the thousand, each from a seed that finds it again.
//!
//! One thread runs all tasks; the source yields at random points before, within and after each call, so a seed is a
//! schedule. What must hold is judged by the order in which calls began and ended: a key whose write ended before a lookup
//! began is found, unless a delete of it began before the lookup ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloomgate_gate::{Gate, Key, Outcome, Writers};

use crate::memory_source::{Fate, MemorySource, row_of};

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What is known of a key from the calls that ended and those under way.
#[derive(Default)]
struct Known {
    /// A put of it ended well, and no delete of it began since.
    present: bool,
    /// A delete ended well (or it never was), and no put began since.
    absent: bool,
    /// Rises with every begin or end of a write of this key.
    changes: u64,
    /// A lookup was told that it is remembered as absent: the changes and the rebuilds up to then.
    remembered: Option<(u64, u64)>,
}

const KEYS: u64 = 6;

fn name(number: u64) -> String {
    format!("k{number}")
}

#[derive(Default, Debug)]
struct Seen {
    lookups: u64,
    filter_no: u64,
    remembered: u64,
    /// Entries that are known to have ended: the next lookup had to read again, though nobody wrote or rebuilt.
    expired: u64,
    rebuilds: u64,
}

/// Rebuilds that ended; none while one runs.
fn rebuilds(gate: &Gate) -> Option<u64> {
    let rebuild = gate.brief_stats().rebuild;
    rebuild.running.is_none().then_some(rebuild.done + rebuild.failed)
}

async fn schedule(seed: u64) -> Seen {
    let source = MemorySource::with((0..KEYS / 2).map(name).chain((0..200).map(|number| format!("other-{number}"))));
    *source.yields.lock().unwrap() = Some(seed | 1);
    // A rate so high that absent keys often pass: the negative cache has work to do.
    let gate = Gate::builder(source.clone())
        .writers(Writers::Sole)
        .rate(0.3)
        .negatives(1000, Duration::from_millis(50))
        .audit_share(0.2)
        .rebuild_every(None)
        .build()
        .unwrap();
    gate.start();
    gate.rebuild().await.unwrap();
    // A rebuild forgets what is remembered. In half of the schedules one is nearly always under way; in the others there are
    // few, so that entries live long enough to end by themselves, and time passes more often.
    let rebuilt_below = if seed.is_multiple_of(2) { 97 } else { 91 };
    let known: Arc<Mutex<HashMap<u64, Known>>> = Arc::default();
    for key in 0..KEYS {
        let known = &mut *known.lock().unwrap();
        let present = key < KEYS / 2;
        known.insert(key, Known { present, absent: !present, changes: 0, remembered: None });
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    // Writers of one key take turns, so that what must be there is known; keys are written at once.
    let turns: Arc<Vec<tokio::sync::Mutex<()>>> = Arc::new((0..KEYS).map(|_| tokio::sync::Mutex::default()).collect());
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (gate, known, turns, source, seen) =
                (gate.clone(), known.clone(), turns.clone(), source.clone(), seen.clone());
            let mut random = Random(seed.wrapping_mul(1000).wrapping_add(task));
            tokio::spawn(async move {
                for _ in 0..40 {
                    let number = random.below(KEYS);
                    let key = Key::from(name(number).as_str());
                    match random.below(100) {
                        0..62 => {
                            let before = {
                                let known = &known.lock().unwrap()[&number];
                                (known.present, known.absent, known.changes, known.remembered)
                            };
                            let answer = match random.below(4) {
                                0 => {
                                    let other = Key::from(name(random.below(KEYS)).as_str());
                                    gate.get_many(&[other, key]).await.unwrap().remove(1)
                                }
                                _ => gate.get(&key).await.unwrap(),
                            };
                            let (after, rebuilds) = (known.lock().unwrap()[&number].changes, rebuilds(&gate));
                            if before.2 == after && before.0 {
                                assert!(answer.row.is_some(), "seed {seed}: {} was there: {answer:?}", name(number));
                            }
                            if before.2 == after && before.1 {
                                assert!(answer.row.is_none(), "seed {seed}: {} was gone: {answer:?}", name(number));
                            }
                            let is_remembered = answer.outcome == Outcome::NegativeCached;
                            if let (true, Some(rebuilds)) = (is_remembered && before.2 == after, rebuilds) {
                                known.lock().unwrap().get_mut(&number).unwrap().remembered = Some((after, rebuilds));
                            }
                            let mut seen = seen.lock().unwrap();
                            // Remembered before this lookup began, and neither a write nor a rebuild made it forgotten.
                            let is_read_again = answer.outcome == Outcome::NotFound;
                            if is_read_again && before.3.is_some() && before.3 == rebuilds.map(|count| (after, count)) {
                                seen.expired += 1;
                                known.lock().unwrap().get_mut(&number).unwrap().remembered = None;
                            }
                            seen.lookups += 1;
                            seen.filter_no += u64::from(answer.outcome == Outcome::AbsentByFilter);
                            seen.remembered += u64::from(is_remembered);
                        }
                        62..78 => {
                            let _turn = turns[number as usize].lock().await;
                            change(&known, number, |known| known.absent = false);
                            if random.below(8) == 0 {
                                *source.fate.lock().unwrap() = Fate::Refused;
                            }
                            let done = gate.put(key, row_of("x")).await.is_ok();
                            change(&known, number, |known| known.present |= done);
                        }
                        78..90 => {
                            let _turn = turns[number as usize].lock().await;
                            change(&known, number, |known| known.present = false);
                            let done = gate.delete(&key).await.is_ok();
                            change(&known, number, |known| known.absent = done);
                        }
                        dice @ 90..97 if dice < rebuilt_below => {
                            if gate.rebuild().await.is_ok() {
                                seen.lock().unwrap().rebuilds += 1;
                            }
                        }
                        // Time passes for whoever waits alone.
                        97 => tokio::time::sleep(Duration::from_millis(random.below(40))).await,
                        // And for all: a sleep ends only when nobody else has anything to do, so by sleeps alone hardly
                        // any entry would ever end in the middle of something.
                        _ => tokio::time::advance(Duration::from_millis(random.below(80))).await,
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert_eq!(gate.stats().audit.wrong, 0, "seed {seed}");
    gate.stop().await;
    std::mem::take(&mut *seen.lock().unwrap())
}

fn change(known: &Mutex<HashMap<u64, Known>>, number: u64, change: impl FnOnce(&mut Known)) {
    let mut known = known.lock().unwrap();
    let known = known.get_mut(&number).unwrap();
    change(known);
    known.changes += 1;
}

#[test]
fn no_interleaving_of_get_put_delete_expiry_and_rebuild_gives_a_wrong_answer() {
    // BLOOMGATE_SCHEDULES: more of them, as the soak asks for.
    let schedules = std::env::var("BLOOMGATE_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let mut all = Seen::default();
    for seed in 1..=schedules {
        // Time moves only when all tasks wait: a seed is a schedule, whatever the machine does.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let seen = runtime.block_on(schedule(seed));
        all.lookups += seen.lookups;
        all.filter_no += seen.filter_no;
        all.remembered += seen.remembered;
        all.expired += seen.expired;
        all.rebuilds += seen.rebuilds;
    }
    // A test that never meets what it is about proves nothing.
    assert!(all.filter_no > schedules * 5 && all.remembered > schedules && all.rebuilds > schedules * 5, "{all:?}");
    assert!(all.expired > schedules / 10, "{all:?}");
}
