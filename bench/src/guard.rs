//! What a guard costs: its "no" beside the same filter's own, in one process.
//!
//! The two take turns over the same absent keys, a call per key, and the figure is the median of the turns' differences:
//! what else the machine does hits both. The promise is absolute, 200 ns beyond the filter's own lookup.

use crate::args::{Args, Fault};
use crate::clock::{median, time};
use crate::keys::{self, Texts};
use crate::sides::Subject;
use bloomgate::guard::{Guard, Verdict};
use bloomgate::{Blocked, Contract};
use std::hint::black_box;

/// The most nanoseconds that a "no" of a guard may take beyond that of its filter.
pub const MOST: f64 = 200.0;

/// Absent keys asked for in a turn.
const KEYS: usize = 20_000;

/// Nanoseconds a key.
pub struct Cost {
    /// Of the filter alone.
    pub filter: f64,
    /// Of the guard.
    pub guard: f64,
    /// What the guard adds.
    pub beyond: f64,
}

/// Asks both for the same absent keys, turn by turn.
fn turns<K: Subject>(members: &[K], absent: &[K], rounds: usize) -> Result<Cost, Fault> {
    let make = || -> Result<_, Fault> {
        let contract = Contract::xxh3().for_keys::<K>();
        let filter = Blocked::builder().contract(contract).items(members.len() as u64).rate(0.001).build_shared()?;
        filter.insert_batch(members)?;
        Ok(filter)
    };
    let (filter, guard) = (make()?, Guard::new(make()?)?);
    let mut spent = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..rounds {
        let mut ns = [0.0; 2];
        for turn in 0..2 {
            let side = (round + turn) % 2;
            let mut noes = 0usize;
            let time = time(|| {
                if side == 0 {
                    noes = absent.iter().map(|key| usize::from(matches!(filter.contains(key), Ok(false)))).sum();
                } else {
                    noes = absent.iter().map(|key| usize::from(guard.check(key) == Verdict::Absent)).sum();
                }
            });
            black_box(noes);
            ns[side] = time as f64 / absent.len() as f64;
        }
        spent[0].push(ns[0]);
        spent[1].push(ns[1]);
        spent[2].push(ns[1] - ns[0]);
    }
    if guard.totals().avoided < (rounds * absent.len()) as u64 * 99 / 100 {
        return Err(Fault(format!("the guard said no too seldom: {:?}", guard.totals())));
    }
    Ok(Cost { filter: median(&spent[0]), guard: median(&spent[1]), beyond: median(&spent[2]) })
}

/// A filter of `n` keys at 0.1 %, whole numbers or texts.
pub fn cost(n: usize, texts: bool, rounds: usize) -> Result<Cost, Fault> {
    if texts {
        let (members, absent) = (Texts::members(n), Texts::absent(KEYS));
        return turns(&members.slices(), &absent.slices(), rounds);
    }
    turns(&keys::members(n), &keys::absent(KEYS), rounds)
}

/// `scripts/bench guard`.
pub fn run(args: &mut Args) -> Result<(), Fault> {
    let mut rounds = 101;
    while let Some(option) = args.option()? {
        match option.as_str() {
            "--rounds" => rounds = args.number(&option)?,
            _ => return Err(args.unknown(&option)),
        }
    }
    if rounds == 0 {
        return Err(Fault("--rounds takes at least 1".to_string()));
    }
    println!("{}", crate::machine());
    println!("an absent key at 0.1 %, a call per key, 1 thread; median of {rounds} turns\n");
    println!("{:<28} {:>12} {:>12} {:>10} {:>7}", "keys", "contains ns", "check ns", "beyond ns", "ratio");
    for (n, texts) in [(20_000, false), (20_000, true), (1_000_000, false), (1_000_000, true)] {
        let cost = cost(n, texts, rounds)?;
        println!(
            "{:<28} {:>12.2} {:>12.2} {:>10.2} {:>6.2}x",
            format!("{n} {}", if texts { "str" } else { "u64" }),
            cost.filter,
            cost.guard,
            cost.beyond,
            cost.guard / cost.filter
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_timed() {
        for texts in [false, true] {
            let cost = cost(2_000, texts, 3).unwrap();
            assert!(cost.filter > 0.0 && cost.guard > 0.0 && cost.beyond.is_finite());
        }
    }
}
