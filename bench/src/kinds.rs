//! `scripts/bench kinds`: every kind of ours in one table, so that people can choose by figures.

use crate::args::{Args, Fault};
use crate::clock;
use crate::keys;
use crate::ours::{self, Form, KINDS};
use crate::race::{self, Course, Runner};
use crate::sides::Mode;
use bloomgate::Kind;

/// `scripts/bench kinds`.
pub fn run(args: &mut Args) -> Result<(), Fault> {
    let (mut sizes, mut rate, mut kinds, mut passes) = (vec![1_000_000, 10_000_000], 0.01, KINDS.to_vec(), None);
    while let Some(option) = args.option()? {
        match option.as_str() {
            "--n" => sizes = args.numbers(&option)?,
            "--rate" => rate = args.number(&option)?,
            "--kind" => kinds = args.value(&option)?.split(',').map(ours::kind).collect::<Result<_, _>>()?,
            "--passes" => passes = Some(args.number(&option)?),
            _ => return Err(args.unknown(&option)),
        }
    }
    if sizes.iter().any(|&n| n == 0 || n > 1_000_000_000) || !(rate > 0.0 && rate < 1.0) || passes == Some(0) {
        return Err(Fault("--n takes 1 to 1000000000 keys, --rate a share such as 0.01, --passes at least 1".into()));
    }
    println!("{}", crate::machine());
    for n in sizes {
        println!("\n{n} u64 keys, {} % asked; ns/key on one thread, minimum over passes\n", rate * 100.0);
        println!("| kind | bits/key | measured % | insert or build | batched | hit | batched | miss | batched |");
        println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
        let (members, absent) = (keys::members(n), keys::absent(n.max(1_000_000)));
        for &kind in &kinds {
            println!("{}", row(kind, rate, &members, &absent, passes.unwrap_or_else(|| clock::passes_for(n)))?);
        }
    }
    Ok(())
}

/// One line of the table.
fn row(kind: Kind, rate: f64, members: &[u64], absent: &[u64], passes: usize) -> Result<String, Fault> {
    let n = members.len();
    let (absent, strangers) = absent.split_at(n);
    let course = Course { members, absent, strangers, threads: 1, passes };
    let mut side = ours::build::<u64>(kind, n, rate, Form::default())?;
    let runner = Runner { name: kind.name(), side: &mut *side, modes: &[Mode::Single, Mode::Batch] };
    let figures = race::race(course, &mut [runner])?;
    let [single, batch] = &figures[0][..] else { return Err(Fault("two modes give two figures".into())) };
    Ok(format!(
        "| {kind} | {:.2} | {:.4} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
        side.bytes() as f64 * 8.0 / n as f64,
        batch.rate.unwrap_or(f64::NAN) * 100.0,
        single.ns[0],
        batch.ns[0],
        single.ns[1],
        batch.ns[1],
        single.ns[2],
        batch.ns[2],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_line_and_keeps_its_rate() {
        let (members, absent) = (keys::members(20_000), keys::absent(220_000));
        for kind in KINDS {
            let line = row(kind, 0.01, &members, &absent, 1).unwrap();
            let cells: Vec<f64> = line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
            assert_eq!(cells.len(), 8, "{line}");
            assert!(cells.iter().all(|&cell| cell > 0.0), "{line}");
            // A chain whose first stage is not yet full keeps a twelfth of the rate.
            let least = if kind.grows() { 0.02 } else { 0.3 };
            assert!((least..1.15).contains(&cells[1]), "{line}");
        }
    }
}
