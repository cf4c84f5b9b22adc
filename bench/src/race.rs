//! The race itself: both sides, turn by turn, on the same keys, so that a noisy neighbour disturbs both alike.

use crate::args::Fault;
use crate::clock::{self, Best};
use crate::sides::{Mode, Side, Subject};
use std::sync::Barrier;

/// Keys handed over in one call, as a real caller would.
pub const CALL: usize = 4096;

/// The names of the three things that are timed, in the order of `Figures::ns`.
pub const OPS: [&str; 3] = ["insert", "hit", "miss"];

/// The keys of a race.
#[derive(Clone, Copy)]
pub struct Course<'a, K> {
    /// Keys to be inserted, and asked for as hits.
    pub members: &'a [K],
    /// Keys never inserted, asked for as misses.
    pub absent: &'a [K],
    /// More keys never inserted, asked for once to measure the rate.
    pub strangers: &'a [K],
    /// Threads at work at once.
    pub threads: usize,
    /// Passes, of which the best counts.
    pub passes: usize,
}

/// What one side did.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Nanoseconds per key by `OPS`; what was not measured is not a number.
    pub ns: [f64; 3],
    /// The share of absent keys it called present, if it holds keys at all.
    pub rate: Option<f64>,
}

/// A side and the way it is called.
pub struct Runner<'a, 'k, K> {
    /// Its name, for messages.
    pub name: &'a str,
    /// The filter.
    pub side: &'a mut (dyn Side<K> + 'k),
    /// The ways it is called, each measured.
    pub modes: &'a [Mode],
}

/// Races `runners` over `course`; the figures of each runner by its modes.
pub fn race<K: Subject>(course: Course<'_, K>, runners: &mut [Runner<'_, '_, K>]) -> Result<Vec<Vec<Figures>>, Fault> {
    let mut best: Vec<Vec<[Best; 3]>> = runners
        .iter()
        .map(|runner| runner.modes.iter().map(|_| std::array::from_fn(|_| Best::new())).collect())
        .collect();
    for _ in 0..course.passes.max(1) {
        for (runner, best) in runners.iter_mut().zip(&mut best) {
            for (mode, best) in runner.modes.iter().zip(best) {
                pass(&course, runner.name, runner.side, *mode, best)?;
            }
        }
    }
    let mut all = Vec::new();
    for (runner, best) in runners.iter().zip(best) {
        let rate = runner.side.holds_keys().then(|| measured_rate(&course, runner));
        all.push(best.into_iter().map(|ops| Figures { ns: ops.map(|best| best.min()), rate }).collect());
    }
    Ok(all)
}

/// One pass of one side: empty, insert, hits, misses. A key lost on the way ends the race.
fn pass<K: Subject>(
    course: &Course<'_, K>,
    name: &str,
    side: &mut dyn Side<K>,
    mode: Mode,
    best: &mut [Best; 3],
) -> Result<(), Fault> {
    if side.holds_keys() {
        side.clear();
        let (spent, new) = insert_lap(course, name, side, mode)?;
        best[0].add(spent, course.members.len());
        std::hint::black_box(new);
    }
    let (spent, found) = contains_lap(course.threads, side, mode, course.members);
    if side.holds_keys() && found != course.members.len() {
        let lost = course.members.len() - found;
        return Err(Fault(format!("{name} lost {lost} of {} keys: its figures mean nothing", course.members.len())));
    }
    best[1].add(spent, course.members.len());
    let (spent, maybe) = contains_lap(course.threads, side, mode, course.absent);
    std::hint::black_box(maybe);
    best[2].add(spent, course.absent.len());
    Ok(())
}

/// CPU time and count of new keys over all members: the slowest thread's time.
fn insert_lap<K: Subject>(
    course: &Course<'_, K>,
    name: &str,
    side: &mut dyn Side<K>,
    mode: Mode,
) -> Result<(u64, usize), Fault> {
    if course.threads == 1 {
        let mut new = 0;
        let spent = clock::time(|| {
            new = side.fill(mode, course.members);
        });
        return Ok((spent, new));
    }
    let Some(shared) = side.shared() else {
        return Err(Fault(format!("{name} cannot take keys from {} threads", course.threads)));
    };
    Ok(spread(course.threads, course.members, |share| {
        let mut new = 0;
        let spent = clock::time(|| {
            new = share.chunks(CALL).map(|call| shared.insert_shared(mode, call)).sum::<usize>();
        });
        (spent, new)
    }))
}

/// CPU time and count of yeses over `keys`: the slowest thread's time.
fn contains_lap<K: Subject>(threads: usize, side: &dyn Side<K>, mode: Mode, keys: &[K]) -> (u64, usize) {
    spread(threads, keys, |share| {
        let mut answers = [false; CALL];
        let mut yes = 0;
        let spent = clock::time(|| {
            for call in share.chunks(CALL) {
                let answers = &mut answers[..call.len()];
                side.contains(mode, call, answers);
                yes += answers.iter().map(|&answer| usize::from(answer)).sum::<usize>();
            }
        });
        (spent, yes)
    })
}

/// Gives every thread an equal share of `keys`, all starting together; the longest time and the sum of counts.
fn spread<K: Subject>(threads: usize, keys: &[K], work: impl Fn(&[K]) -> (u64, usize) + Sync) -> (u64, usize) {
    if threads == 1 {
        return work(keys);
    }
    let shares: Vec<&[K]> = keys.chunks(keys.len().div_ceil(threads).max(1)).collect();
    let start = Barrier::new(shares.len());
    std::thread::scope(|scope| {
        let hands: Vec<_> = shares
            .into_iter()
            .map(|share| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(share)
                })
            })
            .collect();
        let laps = hands.into_iter().map(|hand| hand.join().expect("a measuring thread panicked"));
        laps.fold((0, 0), |(slowest, sum), (spent, count)| (slowest.max(spent), sum + count))
    })
}

/// The share of all absent keys that a full side calls present.
fn measured_rate<K: Subject>(course: &Course<'_, K>, runner: &Runner<'_, '_, K>) -> f64 {
    let mode = *runner.modes.last().unwrap_or(&Mode::Single);
    let keys = [course.absent, course.strangers];
    let maybe: usize = keys.iter().map(|keys| contains_lap(1, &*runner.side, mode, keys).1).sum();
    maybe as f64 / (course.absent.len() + course.strangers.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use crate::ours::{self, Form};
    use crate::sides;
    use bloomgate::Kind;

    fn course<'a>(members: &'a [u64], absent: &'a [u64], threads: usize) -> Course<'a, u64> {
        let (absent, strangers) = absent.split_at(members.len());
        Course { members, absent, strangers, threads, passes: 2 }
    }

    #[test]
    fn both_sides_are_timed_and_their_rates_measured() {
        let (members, absent) = (keys::members(30_000), keys::absent(200_000));
        let mut peer = sides::peer::<u64>("fastbloom+foldhash", 30_000, 0.01, 0).unwrap();
        let mut ours = ours::build::<u64>(Kind::Blocked, 30_000, 0.01, Form::default()).unwrap();
        let figures = race(
            course(&members, &absent, 1),
            &mut [
                Runner { name: "peer", side: &mut *peer, modes: &[Mode::Single] },
                Runner { name: "ours", side: &mut *ours, modes: &[Mode::Single, Mode::Batch] },
            ],
        )
        .unwrap();
        assert_eq!(figures.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        for side in figures.iter().flatten() {
            assert!(side.ns.iter().all(|ns| ns.is_finite() && *ns > 0.0));
            assert!((0.0085..0.0115).contains(&side.rate.unwrap()));
        }
    }

    #[test]
    fn threads_share_what_can_be_shared_and_nothing_else() {
        let (members, absent) = (keys::members(30_000), keys::absent(60_000));
        let mut atomic = sides::peer::<u64>("fastbloom-atomic+foldhash", 30_000, 0.01, 0).unwrap();
        let mut plain = sides::peer::<u64>("fastbloom+foldhash", 30_000, 0.01, 0).unwrap();
        let one = |side: &mut dyn Side<u64>| {
            let runner = Runner { name: "it", side, modes: &[Mode::Single] };
            race(course(&members, &absent, 2), &mut [runner]).map(|_| ())
        };
        assert!(one(&mut *atomic).is_ok());
        assert!(one(&mut *plain).is_err());
    }

    /// A side that forgets everything.
    struct Sieve;
    impl Side<u64> for Sieve {
        fn clear(&mut self) {}
        fn insert(&mut self, _: Mode, keys: &[u64]) -> usize {
            keys.len()
        }
        fn contains(&self, _: Mode, _: &[u64], answers: &mut [bool]) {
            answers.fill(false);
        }
        fn bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn a_side_that_loses_keys_ends_the_race() {
        let (members, absent) = (keys::members(5000), keys::absent(5000));
        let runner = Runner { name: "sieve", side: &mut Sieve, modes: &[Mode::Single] };
        let fault = race(course(&members, &absent, 1), &mut [runner]).unwrap_err();
        assert!(fault.0.contains("sieve lost 5000"), "{fault}");
    }
}
