//! The race: every kind fills itself, finds all its keys, and is asked for absent ones; the least time counts.
//!
//! The wall clock, because the time of a thread cannot be had without `unsafe`. Keys are timed in slices, and for each
//! slice the least of all passes counts: what another process disturbs in one pass, it leaves alone in another.

use std::hint::black_box;
use std::time::Instant;

use bloomgate::bits::Floor;
use bloomgate::{
    Blocked, Classic, Contract, Counting, Cuckoo, Fuse, GrowingCuckoo, Kind, Partitioned, Quotient, Ribbon, Rotating,
    Scalable,
};

use crate::failure::Failure;

/// Keys in one call of a batch: what a program would hand over at once, and what fits the first cache.
const CALL: usize = 1024;
/// Keys that are timed together: 50 us to 1 ms, long beside the clock and short beside a time slice of the system.
const SLICE: usize = 16 * CALL;
/// The fewest absent keys that a rate is measured on: at 1 % that is 10,000 false positives, or 1 % of it to either side.
const STRANGERS: u64 = 1_000_000;

/// What all are given: the same keys, members and absent ones apart by construction.
pub struct Course {
    members: Vec<u64>,
    absent: Vec<u64>,
    rate: f64,
    passes: u32,
    /// Whether keys are also asked for one by one, the rate is counted and the floor measured.
    whole: bool,
}

/// What was measured; times in nanoseconds a key.
pub struct Figures {
    pub bytes: u64,
    pub bits_per_key: f64,
    /// The share of absent keys that got a "maybe".
    pub rate: f64,
    /// All keys, inserted or built from.
    pub fill: f64,
    pub hit_batch: Option<f64>,
    pub hit: f64,
    pub miss_batch: Option<f64>,
    pub miss: f64,
    /// A random line of memory of that size.
    pub floor: f64,
}

/// The output function of splitmix64, a bijection: distinct numbers make distinct keys.
fn key(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Course {
    pub fn new(items: u64, rate: f64, passes: u32) -> Self {
        // Numbers from 2^40 on make the absent keys: none can be a member, however many there are.
        let from = 1 << 40;
        let absent = from..from + items.max(STRANGERS);
        Self { members: (0..items).map(key).collect(), absent: absent.map(key).collect(), rate, passes, whole: true }
    }

    /// Only the times of batches, for who wants no more: in a third of the time. The other figures are 0.
    pub fn in_batches(self) -> Self {
        Self { whole: false, ..self }
    }

    pub fn members(&self) -> &[u64] {
        &self.members
    }

    /// All absent keys: those of the timed misses, and more for the rate of small sets.
    pub fn absent(&self) -> &[u64] {
        &self.absent
    }

    /// As many absent keys as members, for the times.
    fn misses(&self) -> &[u64] {
        &self.absent[..self.members.len()]
    }

    /// Runs one contender: `make` outside the clock, then `fill` (all keys at once, or a slice after the other), hits and
    /// misses, single and (if it has them) in batches.
    pub fn race<F>(
        &self,
        at_once: bool,
        make: impl Fn() -> Result<F, Failure>,
        fill: impl Fn(&mut F, &[u64]) -> Result<(), Failure>,
        one: impl Fn(&F, &u64) -> Result<bool, Failure>,
        batch: Option<impl Fn(&F, &[u64], &mut [bool]) -> Result<(), Failure>>,
        bytes: impl Fn(&F) -> u64,
    ) -> Result<Figures, Failure> {
        let keys = self.members.len() as f64;
        let mut answers = [false; CALL];
        let mut by_one = |filter: &F, keys: &[u64]| -> Result<u64, Failure> {
            let mut maybes = 0;
            for call in keys.chunks(CALL) {
                for (key, answer) in call.iter().zip(&mut answers) {
                    *answer = one(filter, key)?;
                }
                maybes += count(&answers[..call.len()]);
            }
            Ok(maybes)
        };
        let mut answers = [false; CALL];
        let mut by_batch = |filter: &F, keys: &[u64]| -> Result<u64, Failure> {
            let Some(batch) = &batch else { return Ok(0) };
            let mut maybes = 0;
            for call in keys.chunks(CALL) {
                batch(filter, call, &mut answers[..call.len()])?;
                maybes += count(&answers[..call.len()]);
            }
            Ok(maybes)
        };
        let mut fills = Laps::default();
        let mut laps: [Laps; 4] = Default::default();
        let mut last = None;
        for _ in 0..self.passes {
            let mut filter = make()?;
            let slice = if at_once { self.members.len() } else { SLICE };
            fills.run_by(slice, &self.members, |keys| fill(&mut filter, keys).map(|()| 0))?;
            let [hit, hit_batch, miss, miss_batch] = &mut laps;
            if self.whole {
                check_found(hit.run(&self.members, |keys| by_one(&filter, keys))?, self.members.len())?;
                black_box(miss.run(self.misses(), |keys| by_one(&filter, keys))?);
            }
            if batch.is_some() {
                check_found(hit_batch.run(&self.members, |keys| by_batch(&filter, keys))?, self.members.len())?;
                black_box(miss_batch.run(self.misses(), |keys| by_batch(&filter, keys))?);
            }
            last = Some(filter);
        }
        let Some(filter) = last else { return Err(Failure::Message("no pass was made".into())) };
        let maybes = match &batch {
            _ if !self.whole => 0,
            Some(_) => by_batch(&filter, &self.absent)?,
            None => by_one(&filter, &self.absent)?,
        };
        let bytes = bytes(&filter);
        drop(filter);
        let [hit, hit_batch, miss, miss_batch] = laps.map(|laps| laps.sum() / keys);
        Ok(Figures {
            bytes,
            bits_per_key: bytes as f64 * 8.0 / keys,
            rate: maybes as f64 / self.absent.len() as f64,
            fill: fills.sum() / keys,
            hit_batch: batch.is_some().then_some(hit_batch),
            hit,
            miss_batch: batch.is_some().then_some(miss_batch),
            miss,
            floor: if self.whole { self.floor(bytes)? } else { 0.0 },
        })
    }

    /// The time of a random read of a line from so many bytes.
    fn floor(&self, bytes: u64) -> Result<f64, Failure> {
        let memory = Floor::of_bytes(bytes)?;
        let lines = self.misses();
        let mut laps = Laps::default();
        // A single line would be read from the clock's own cache: small sets are gone round several times.
        let rounds = (1 << 16) / lines.len() + 1;
        for _ in 0..self.passes {
            let read = |keys: &[u64]| Ok(memory.read_lines((keys.len() * rounds) as u64, keys[0]));
            black_box(laps.run(lines, read)?);
        }
        Ok(laps.sum() / (lines.len() * rounds) as f64)
    }
}

/// The least time of each slice of the keys, in nanoseconds.
#[derive(Default)]
struct Laps(Vec<f64>);

impl Laps {
    /// One pass over the keys; the sum of what `ask` gives.
    fn run(&mut self, keys: &[u64], ask: impl FnMut(&[u64]) -> Result<u64, Failure>) -> Result<u64, Failure> {
        self.run_by(SLICE, keys, ask)
    }

    fn run_by(
        &mut self,
        slice: usize,
        keys: &[u64],
        mut ask: impl FnMut(&[u64]) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        let mut sum = 0;
        for (at, slice) in keys.chunks(slice).enumerate() {
            let start = Instant::now();
            sum += ask(slice)?;
            let spent = start.elapsed().as_nanos() as f64;
            match self.0.get_mut(at) {
                Some(least) => *least = least.min(spent),
                None => self.0.push(spent),
            }
        }
        Ok(sum)
    }

    fn sum(&self) -> f64 {
        self.0.iter().sum()
    }
}

fn count(answers: &[bool]) -> u64 {
    answers.iter().map(|&answer| u64::from(answer)).sum()
}

/// A lost key makes the figures worthless, and it would be a wrong "no".
fn check_found(found: u64, members: usize) -> Result<(), Failure> {
    if found == members as u64 {
        return Ok(());
    }
    Err(Failure::Message(format!("{found} of {members} keys were found: a \"no\" was wrong, please report this")))
}

/// Runs one kind.
pub fn measure(kind: Kind, course: &Course) -> Result<Figures, Failure> {
    let (items, rate) = (course.members.len() as u64, course.rate);
    let contract = Contract::xxh3().for_keys::<u64>();
    // A kind that takes keys one by one: made empty, then filled.
    macro_rules! filled {
        ($filter:ident, $make:expr) => {
            filled!($filter, $make, false, |filter, keys| {
                filter.insert_batch(keys)?;
                Ok(())
            })
        };
        ($filter:ident, $make:expr, $at_once:expr, $fill:expr) => {
            course.race(
                $at_once,
                || Ok($make.contract(contract.clone()).items(items).rate(rate).build()?),
                $fill,
                |filter: &$filter, key| Ok(filter.contains(key)?),
                Some(|filter: &$filter, keys: &[u64], answers: &mut [bool]| Ok(filter.contains_batch(keys, answers)?)),
                |filter| filter.size_in_bytes(),
            )
        };
    }
    // A kind that is built once, from all keys.
    macro_rules! built {
        ($filter:ident, $make:expr) => {{
            let nothing = || Failure::Message("nothing was built".into());
            course.race(
                true,
                || Ok(None),
                |filter: &mut Option<$filter>, keys| {
                    *filter = Some($make.contract(contract.clone()).rate(rate).build_from_slice(keys)?);
                    Ok(())
                },
                |filter, key| Ok(filter.as_ref().ok_or_else(nothing)?.contains(key)?),
                Some(|filter: &Option<$filter>, keys: &[u64], answers: &mut [bool]| {
                    Ok(filter.as_ref().ok_or_else(nothing)?.contains_batch(keys, answers)?)
                }),
                |filter| filter.as_ref().map_or(0, |filter| filter.size_in_bytes()),
            )
        }};
    }
    match kind {
        Kind::Blocked => filled!(Blocked, Blocked::builder()),
        Kind::Classic => filled!(Classic, Classic::builder()),
        Kind::Partitioned => filled!(Partitioned, Partitioned::builder()),
        Kind::Counting => filled!(Counting, Counting::builder()),
        Kind::Scalable => filled!(Scalable, Scalable::builder()),
        Kind::Cuckoo => filled!(Cuckoo, Cuckoo::builder()),
        Kind::GrowingCuckoo => filled!(GrowingCuckoo, GrowingCuckoo::builder()),
        Kind::Quotient => filled!(Quotient, Quotient::builder()),
        Kind::Rotating => {
            let hour = std::time::Duration::from_secs(3600);
            // The keys of a window, as they come: a generation's share at a time.
            filled!(Rotating, Rotating::builder().window(hour), true, |ring: &mut Rotating, keys: &[u64]| {
                let (generations, slice) = (ring.generations() as usize, ring.window() / ring.generations());
                for (number, share) in keys.chunks(keys.len().div_ceil(generations).max(1)).enumerate() {
                    if number > 0 {
                        ring.advance_by(slice);
                    }
                    ring.insert_batch(share)?;
                }
                Ok(())
            })
        }
        // One thread, like all the others.
        Kind::Fuse => built!(Fuse, Fuse::builder().threads(1)),
        Kind::Ribbon => built!(Ribbon, Ribbon::builder()),
        other => Err(Failure::Message(format!("{other} filters are not measured"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_asked_once_in_each_pass_and_every_slice_has_its_time() {
        let keys: Vec<u64> = (0..2 * SLICE as u64 + 5).collect();
        let mut laps = Laps::default();
        for _ in 0..3 {
            let asked = laps.run(&keys, |slice| Ok(slice.iter().sum())).unwrap();
            assert_eq!(asked, keys.iter().sum::<u64>());
        }
        assert_eq!(laps.0.len(), 3);
        laps.0 = vec![2.0, 3.0, f64::MAX];
        laps.run(&keys, |_| Ok(0)).unwrap();
        assert!(laps.0[0] <= 2.0 && laps.0[1] <= 3.0 && laps.0[2] < f64::MAX, "the least counts: {:?}", laps.0);
    }

    #[test]
    fn a_lost_key_ends_the_race() {
        let course = Course::new(100, 0.01, 1);
        let raced = course.race(
            true,
            || Ok(()),
            |_, _| Ok(()),
            |_, key| Ok(*key != course.members[7]),
            None::<fn(&(), &[u64], &mut [bool]) -> Result<(), Failure>>,
            |_| 64,
        );
        assert!(matches!(raced, Err(Failure::Message(said)) if said.contains("99 of 100 keys")));
    }
}
