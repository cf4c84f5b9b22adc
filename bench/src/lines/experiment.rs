//! The experiment: both layouts, every way to insert and to test, alone and beside another thread.

use super::layout::{
    Act, Eight, Four, Has, Insert, InsertNew, Line, SharedFetchInsert, SharedHasLine, SharedHasWords, SharedInsert,
    SharedLookInsert,
};
use super::table::{How, SplitTable};
use crate::args::{Args, Fault};
use crate::clock::{self, Best};
use crate::keys;
use crate::race::CALL;
use std::sync::Barrier;

/// CPU time of `A` over all `keys` on `threads` threads: the slowest thread's.
fn lap<L: Line, A: Act>(table: &SplitTable<L>, how: How, threads: usize, keys: &[u64]) -> (u64, usize) {
    let part = |keys: &[u64]| {
        let mut answers = [false; CALL];
        let mut yes = 0;
        let spent = clock::time(|| {
            for call in keys.chunks(CALL) {
                let answers = &mut answers[..call.len()];
                table.go::<A>(how, call, answers);
                yes += answers.iter().map(|&answer| usize::from(answer)).sum::<usize>();
            }
        });
        (spent, yes)
    };
    if threads == 1 {
        return part(keys);
    }
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let hands: Vec<_> = keys
            .chunks(keys.len().div_ceil(threads))
            .map(|share| {
                let (barrier, part) = (&barrier, &part);
                scope.spawn(move || {
                    barrier.wait();
                    part(share)
                })
            })
            .collect();
        let laps = hands.into_iter().map(|hand| hand.join().expect("a measuring thread panicked"));
        laps.fold((0, 0), |(slowest, yes), (spent, more)| (slowest.max(spent), yes + more))
    })
}

/// One line of the result.
struct Row {
    way: &'static str,
    how: How,
    threads: usize,
    n: usize,
    /// Nanoseconds per key: insert, hit, miss, for 8x1 and then 4x2.
    figures: [[Option<f64>; 3]; 2],
}

/// The ways to insert and to test that are measured together.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    threads: usize,
    how: How,
    insert: Insertion,
    test: Test,
}

#[derive(Clone, Copy)]
enum Insertion {
    Plain,
    PlainNew,
    Or,
    Look,
    Fetch,
}

#[derive(Clone, Copy, PartialEq)]
enum Test {
    None,
    Plain,
    Words,
    Line,
}

fn insert_lap<L: Line>(table: &SplitTable<L>, way: &Way, keys: &[u64]) -> u64 {
    match way.insert {
        Insertion::Plain => lap::<L, Insert<L>>(table, way.how, way.threads, keys).0,
        Insertion::PlainNew => lap::<L, InsertNew<L>>(table, way.how, way.threads, keys).0,
        Insertion::Or => lap::<L, SharedInsert<L>>(table, way.how, way.threads, keys).0,
        Insertion::Look => lap::<L, SharedLookInsert<L>>(table, way.how, way.threads, keys).0,
        Insertion::Fetch => lap::<L, SharedFetchInsert<L>>(table, way.how, way.threads, keys).0,
    }
}

fn test_lap<L: Line>(table: &SplitTable<L>, way: &Way, keys: &[u64]) -> (u64, usize) {
    match way.test {
        Test::None => (0, 0),
        Test::Plain => lap::<L, Has<L>>(table, way.how, way.threads, keys),
        Test::Words => lap::<L, SharedHasWords<L>>(table, way.how, way.threads, keys),
        Test::Line => lap::<L, SharedHasLine<L>>(table, way.how, way.threads, keys),
    }
}

/// One pass of a way: clear, insert, hits, misses.
fn pass<L: Line>(table: &mut SplitTable<L>, way: &Way, members: &[u64], absent: &[u64], best: &mut [Best; 3]) {
    table.clear();
    best[0].add(insert_lap(table, way, members), members.len());
    if way.test == Test::None {
        return;
    }
    let (hit, found) = test_lap(table, way, members);
    assert_eq!(found, members.len(), "{} {} lost a key", L::NAME, way.name);
    best[1].add(hit, members.len());
    best[2].add(test_lap(table, way, absent).0, absent.len());
}

fn measure(way: Way, n: usize, bits: f64, passes: usize, members: &[u64], absent: &[u64]) -> Result<Row, Fault> {
    let mut eight = SplitTable::<Eight>::new(n, bits)?;
    let mut four = SplitTable::<Four>::new(n, bits)?;
    let mut best: [[Best; 3]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| Best::new()));
    for _ in 0..passes {
        // Turn by turn, so that a noisy neighbour disturbs both.
        pass(&mut eight, &way, members, absent, &mut best[0]);
        pass(&mut four, &way, members, absent, &mut best[1]);
    }
    let figures = best.map(|layout| layout.map(|best| Some(best.min()).filter(|ns| ns.is_finite())));
    Ok(Row { way: way.name, how: way.how, threads: way.threads, n, figures })
}

/// The measured false-positive rate of a full table, in percent, over `probes` absent keys.
fn rate<L: Line>(n: usize, bits: f64, members: &[u64], probes: usize) -> Result<f64, Fault> {
    let mut table = SplitTable::<L>::new(n, bits)?;
    let mut answers = vec![false; members.len()];
    table.insert(How::Batch, members, &mut answers);
    let mut found = 0;
    let mut keys = Vec::with_capacity(CALL);
    for from in (0..probes as u64).step_by(CALL) {
        keys.clear();
        keys.extend(keys::absent_from(from as usize, CALL));
        table.contains(How::Batch, &keys, &mut answers[..CALL]);
        found += answers[..CALL].iter().filter(|&&answer| answer).count();
    }
    Ok(found as f64 * 100.0 / probes.next_multiple_of(CALL) as f64)
}

fn ways() -> Vec<Way> {
    let way = |name, threads, how, insert, test| Way { name, threads, how, insert, test };
    let mut all = Vec::new();
    for how in [How::Hashed, How::Batch, How::Single] {
        all.push(way("plain", 1, how, Insertion::Plain, Test::Plain));
        all.push(way("plain, says new", 1, how, Insertion::PlainNew, Test::None));
    }
    for threads in [1, 2] {
        for how in [How::Hashed, How::Batch] {
            all.push(way("or; line by asm", threads, how, Insertion::Or, Test::Line));
            all.push(way("or; words", threads, how, Insertion::Or, Test::Words));
        }
        all.push(way("look, then or", threads, How::Batch, Insertion::Look, Test::None));
        all.push(way("fetch_or's answer", threads, How::Batch, Insertion::Fetch, Test::None));
    }
    all
}

/// `scripts/bench lines [--n N[,N..]] [--bits B] [--passes R] [--json]`.
pub fn run(args: &mut Args) -> Result<(), Fault> {
    let mut sizes = vec![20_000usize, 1_000_000, 10_000_000, 50_000_000];
    let (mut bits, mut passes, mut json) = (10.12f64, None, false);
    while let Some(option) = args.option()? {
        match option.as_str() {
            "--n" => sizes = args.numbers(&option)?,
            "--bits" => bits = args.number(&option)?,
            "--passes" => passes = Some(args.number::<usize>(&option)?),
            "--json" => json = true,
            _ => return Err(args.unknown(&option)),
        }
    }
    if sizes.iter().any(|&n| n < CALL) || !(1.0..=64.0).contains(&bits) || passes == Some(0) {
        return Err(Fault(format!("--n takes at least {CALL}, --bits 1 to 64, --passes at least 1")));
    }
    if !json {
        println!("{}", crate::machine());
        println!("{bits} bits/key; ns/key, minimum over passes; each cell: 8x1 | 4x2 | 8x1 time over 4x2 time");
    }
    for n in sizes {
        let (members, absent) = (keys::members(n), keys::absent(n));
        let passes = passes.unwrap_or_else(|| clock::passes_for(n));
        if !json {
            println!("\n{n} keys, {:.1} MB", n as f64 * bits / 8e6);
            println!("{:<20} {:<21} {:>2}  {:^24}  {:^24}  {:^24}", "way", "keys", "t", "insert", "hit", "miss");
        }
        for way in ways() {
            print_row(&measure(way, n, bits, passes, &members, &absent)?, json);
        }
    }
    let (n, probes) = (1_000_000, 100_000_000);
    let members = keys::members(n);
    for bits in [10.12, 10.15, 15.85] {
        let (eight, four) = (rate::<Eight>(n, bits, &members, probes)?, rate::<Four>(n, bits, &members, probes)?);
        if json {
            println!(r#"{{"bits":{bits},"n":{n},"rate_8x1":{:.6},"rate_4x2":{:.6}}}"#, eight / 100.0, four / 100.0);
        } else {
            println!("\nmeasured rate at {bits} bits/key, {n} keys: 8x1 {eight:.4} %, 4x2 {four:.4} %");
        }
    }
    Ok(())
}

fn print_row(row: &Row, json: bool) {
    let [eight, four] = &row.figures;
    if json {
        for (op, name) in ["insert", "hit", "miss"].iter().enumerate() {
            if let (Some(eight), Some(four)) = (eight[op], four[op]) {
                println!(
                    r#"{{"way":"{}","keys":"{}","threads":{},"n":{},"op":"{name}","ns_8x1":{eight:.3},"ns_4x2":{four:.3}}}"#,
                    row.way,
                    row.how.name(),
                    row.threads,
                    row.n
                );
            }
        }
        return;
    }
    let cell = |op: usize| match (eight[op], four[op]) {
        (Some(eight), Some(four)) => format!("{eight:>6.2} |{four:>6.2} |{:>5.2}", eight / four),
        _ => String::new(),
    };
    println!(
        "{:<20} {:<21} {:>2}  {:^24}  {:^24}  {:^24}",
        row.way,
        row.how.name(),
        row.threads,
        cell(0),
        cell(1),
        cell(2)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::table::xxh3_of_u64;

    #[test]
    fn the_written_out_hash_is_xxh3() {
        for key in [0, 1, u64::MAX, 0x0123_4567_89AB_CDEF].into_iter().chain(keys::members(1000)) {
            assert_eq!(xxh3_of_u64(key), xxhash_rust::xxh3::xxh3_64(&key.to_le_bytes()));
        }
    }

    fn every_way_agrees<L: Line>() {
        let (members, absent) = (keys::members(10_000), keys::absent(10_000));
        let mut plain = SplitTable::<L>::new(10_000, 10.12).unwrap();
        let shared = SplitTable::<L>::new(10_000, 10.12).unwrap();
        let mut answers = vec![false; 10_000];
        plain.insert(How::Batch, &members, &mut answers);
        assert!(answers[..100].iter().all(|&new| new));
        shared.go::<SharedInsert<L>>(How::Single, &members, &mut answers);
        for keys in [&members, &absent] {
            let mut all = Vec::new();
            for (table, line) in [(&plain, true), (&plain, false), (&shared, true), (&shared, false)] {
                if line {
                    table.contains(How::Single, keys, &mut answers);
                } else {
                    table.go::<SharedHasWords<L>>(How::Batch, keys, &mut answers);
                }
                all.push(answers.clone());
            }
            assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
        }
        let found = answers.iter().filter(|&&answer| answer).count();
        assert!((60..140).contains(&found), "{found} of 10000 absent keys answered maybe");
        plain.go::<SharedHasLine<L>>(How::Batch, &members, &mut answers);
        assert!(answers.iter().all(|&answer| answer));
    }

    #[test]
    fn every_way_of_eight_by_one_agrees() {
        every_way_agrees::<Eight>();
    }

    #[test]
    fn every_way_of_four_by_two_agrees() {
        every_way_agrees::<Four>();
    }
}
