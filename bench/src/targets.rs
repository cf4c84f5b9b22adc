//! `scripts/bench targets`: the speed Bloomgate promises, as data, each line measured and judged.
//!
//! A ratio is the median over rounds; in a round both sides run turn by turn and their best passes are compared.
//! Tables of 5 to 10 million keys sit at the edge of the L3 cache and swing with the neighbours: hence the rounds.

use crate::args::{Args, Fault};
use crate::clock;
use crate::guard;
use crate::keys;
use crate::ours::{self, Form};
use crate::peers::{self, Plan, Row};
use crate::race::{self, Course, OPS, Runner};
use crate::sides::{self, Mode};
use bloomgate::Kind;

/// Which of our calls counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    /// The better of a call per key and a call per slice.
    Best,
    /// A call per slice.
    Batch,
    /// A call per key.
    Single,
}

impl Call {
    fn is_of(self, mode: Mode) -> bool {
        match self {
            Call::Best => true,
            Call::Batch => mode == Mode::Batch,
            Call::Single => mode == Mode::Single,
        }
    }
}

/// What must hold of one kind beside one peer at one size.
struct Target {
    peer: &'static str,
    kind: Kind,
    n: usize,
    texts: bool,
    threads: usize,
    call: Call,
    /// Least peer time over our time for insert, hit and miss; zero promises nothing.
    least: [f64; 3],
    /// Whether ours must also take fewer bits at a rate no higher.
    fewer_bits: bool,
    /// The rate that is asked of both.
    rate: f64,
}

const fn target(peer: &'static str, n: usize, call: Call, least: [f64; 3]) -> Target {
    Target { peer, kind: Kind::Blocked, n, texts: false, threads: 1, call, least, fewer_bits: false, rate: 0.01 }
}

const FOLD: &str = "fastbloom+foldhash";
const ATOMIC: &str = "fastbloom-atomic+foldhash";

/// Every promised ratio. `unkeyed` as the peer means our own batch without a secret, ours then being keyed.
const TARGETS: [Target; 25] = [
    target(FOLD, 20_000, Call::Best, [2.5; 3]),
    target(FOLD, 1_000_000, Call::Best, [3.5; 3]),
    target(FOLD, 10_000_000, Call::Batch, [7.0, 6.5, 5.0]),
    target(FOLD, 100_000_000, Call::Batch, [8.0, 7.0, 5.0]),
    Target { fewer_bits: true, ..target("sbbf-rs-safe", 1_000_000, Call::Best, [1.2; 3]) },
    Target { fewer_bits: true, ..target("sbbf-rs-safe", 100_000_000, Call::Best, [2.4; 3]) },
    Target { texts: true, ..target("fastbloom", 10_000_000, Call::Best, [7.0; 3]) },
    Target { threads: 2, ..target(ATOMIC, 5_000_000, Call::Best, [2.0, 2.5, 3.0]) },
    Target { threads: 2, ..target(ATOMIC, 50_000_000, Call::Best, [4.0, 5.0, 3.5]) },
    target("unkeyed", 100_000_000, Call::Batch, [1.0 / 1.3; 3]),
    Target { texts: true, ..target("unkeyed", 1_000_000, Call::Batch, [1.0 / 1.6; 3]) },
    Target { kind: Kind::Classic, ..target(FOLD, 20_000, Call::Best, [0.95; 3]) },
    Target { kind: Kind::Classic, ..target(FOLD, 1_000_000, Call::Best, [0.95; 3]) },
    Target { kind: Kind::Classic, ..target(FOLD, 10_000_000, Call::Best, [0.95, 0.95, 1.5]) },
    Target { kind: Kind::Classic, ..target(FOLD, 100_000_000, Call::Best, [0.95; 3]) },
    Target { kind: Kind::Cuckoo, ..target("cuckoofilter", 10_000_000, Call::Batch, [0.0, 2.5, 4.0]) },
    Target { kind: Kind::Cuckoo, ..target("scalable_cuckoo_filter", 10_000_000, Call::Batch, [0.0, 2.5, 4.0]) },
    // At 950,000 keys its table is of our size; at 1 and 10 million it has doubled, and single misses pass us by.
    Target { kind: Kind::Quotient, ..target("qfilter", 950_000, Call::Single, [0.0, 1.0, 1.0]) },
    Target { kind: Kind::Quotient, ..target("qfilter", 1_000_000, Call::Best, [0.0, 1.0, 1.0]) },
    Target { kind: Kind::Quotient, ..target("qfilter", 10_000_000, Call::Best, [0.0, 1.0, 1.0]) },
    Target { kind: Kind::Fuse, rate: 1.0 / 256.0, ..target("xorf8", 10_000_000, Call::Batch, [1.1, 2.5, 2.5]) },
    Target { kind: Kind::Fuse, ..target("xorf8", 10_000_000, Call::Batch, [1.1, 1.8, 1.8]) },
    Target { kind: Kind::Ribbon, ..target("ribbon-filter", 1_000_000, Call::Batch, [1.0, 8.0, 8.0]) },
    Target { kind: Kind::Ribbon, rate: 0.001, ..target("ribbon-filter", 1_000_000, Call::Batch, [1.0, 8.0, 8.0]) },
    Target { kind: Kind::Ribbon, ..target("ribbon-filter", 10_000_000, Call::Batch, [1.0, 8.0, 8.0]) },
];

/// Kinds, keys, rates and the most bits per key: by themselves, or (ribbon) for each bit of the measured rate.
const SIZES: [(Kind, usize, f64, f64); 10] = [
    (Kind::Cuckoo, 1_000_000, 0.01, 10.6),
    (Kind::Cuckoo, 10_000_000, 0.01, 10.6),
    (Kind::Quotient, 1_048_577, 0.01, 12.5),
    (Kind::Quotient, 10_000_000, 0.01, 12.5),
    (Kind::Fuse, 1_000_000, 0.01, 7.95),
    (Kind::Fuse, 10_000_000, 0.01, 7.95),
    (Kind::Fuse, 1_000_000, 1.0 / 256.0, 9.05),
    (Kind::Fuse, 10_000_000, 1.0 / 256.0, 9.05),
    (Kind::Ribbon, 1_000_000, 0.01, 1.015),
    (Kind::Ribbon, 1_000_000, 0.001, 1.015),
];

/// How much sooner a fuse filter of so many keys is built on two threads than on one, by the wall.
const TWO_THREADS: (usize, f64) = (10_000_000, 1.3);

fn built_on_two(choice: &Choice, tally: &mut Tally) -> Result<(), Fault> {
    let (n, least) = TWO_THREADS;
    let what = format!("fuse on one thread, fuse on two, {n} u64, build by the wall");
    if let Some(why) = choice.skips(&what, n) {
        tally.leave_out(&what, &why);
        return Ok(());
    }
    let keys = keys::members(n);
    let build = |threads| -> Result<f64, Fault> {
        let start = std::time::Instant::now();
        let filter = bloomgate::Fuse::builder().keys::<u64>().rate(0.01).threads(threads).build_from_slice(&keys)?;
        std::hint::black_box(filter.len());
        Ok(start.elapsed().as_nanos() as f64 / n as f64)
    };
    let rounds = (0..choice.rounds).map(|_| Ok((build(1)?, build(2)?))).collect::<Result<Vec<_>, Fault>>()?;
    let [one, two] = [0, 1]
        .map(|at| clock::median(&rounds.iter().map(|&(one, two)| if at == 0 { one } else { two }).collect::<Vec<_>>()));
    let ratio = clock::median(&rounds.iter().map(|(one, two)| one / two).collect::<Vec<_>>());
    println!("{what:<64} {least:>7.2}x {ratio:>8.2}x {one:>7.2}  {two:<17.2} {}", tally.judge(ratio >= least));
    Ok(())
}

fn size_of(kind: Kind, n: usize, rate: f64, most: f64, choice: &Choice, tally: &mut Tally) -> Result<(), Fault> {
    let what = format!("{kind}, {n} u64, bits at {} %", rate * 100.0);
    if let Some(why) = choice.skips(&what, n) {
        tally.leave_out(&what, &why);
        return Ok(());
    }
    let mut side = ours::build::<u64>(kind, n, rate, Form::default())?;
    peers::with_numbers(n, |members, absent| {
        side.fill(Mode::Batch, members);
        let mut answers = vec![false; absent.len()];
        side.contains(Mode::Batch, absent, &mut answers);
        let measured = answers.iter().filter(|&&answer| answer).count() as f64 / absent.len() as f64;
        let bits = side.bytes() as f64 * 8.0 / n as f64;
        let figure = if kind == Kind::Ribbon { bits / -measured.log2() } else { bits };
        println!(
            "{what:<64} {most:>8.3} {figure:>9.3} {:>7}  {:<17} {}",
            "",
            format!("{bits:.3}b {:.4} %", measured * 100.0),
            tally.judge(figure <= most && measured <= rate * 1.05)
        );
    });
    Ok(())
}

/// Batched lookups over this many megabytes stay within `FLOOR_LIMIT` of the raw read loop.
const FLOOR_MEGABYTES: [usize; 2] = [128, 1024];
const FLOOR_LIMIT: f64 = 1.4;

/// Rates and the most bits per key a blocked filter may take there, at a measured rate no higher than asked.
fn bits_limits() -> Vec<(f64, f64)> {
    let classic = |rate: f64| -rate.log2() / std::f64::consts::LN_2;
    let mut limits = vec![(1e-2, 10.15), (1e-3, 15.9)];
    limits.extend([1e-4, 1e-5, 1e-6].map(|rate| (rate, 1.08 * classic(rate))));
    limits
}

/// What is measured of the targets.
struct Choice {
    max_n: usize,
    rounds: usize,
    passes: Option<usize>,
    only: Option<String>,
}

/// How many targets were kept, missed, and left out.
#[derive(Default)]
struct Tally {
    kept: usize,
    missed: usize,
    left_out: usize,
}

impl Tally {
    fn judge(&mut self, kept: bool) -> &'static str {
        if kept {
            self.kept += 1;
            "ok"
        } else {
            self.missed += 1;
            "MISSED"
        }
    }

    fn leave_out(&mut self, what: &str, why: &str) {
        self.left_out += 1;
        println!("{what}  left out: {why}");
    }
}

/// `scripts/bench targets`.
pub fn run(args: &mut Args) -> Result<(), Fault> {
    let mut choice = Choice { max_n: 1_000_000, rounds: 3, passes: None, only: None };
    while let Some(option) = args.option()? {
        match option.as_str() {
            "--max-n" => choice.max_n = args.number(&option)?,
            "--rounds" => choice.rounds = args.number(&option)?,
            "--passes" => choice.passes = Some(args.number(&option)?),
            "--only" => choice.only = Some(args.value(&option)?),
            _ => return Err(args.unknown(&option)),
        }
    }
    if choice.rounds == 0 || choice.passes == Some(0) {
        return Err(Fault("--rounds and --passes take at least 1".to_string()));
    }
    println!("{}", crate::machine());
    println!("ratio = peer's ns/key over ours, median of {} rounds; up to {} keys\n", choice.rounds, choice.max_n);
    println!(
        "{:<64} {:>8} {:>9} {:>7}  {:<17} verdict",
        "peer, kind, keys, threads, op (how we are called)", "target", "measured", "peer ns", "our ns (spread)"
    );
    let mut tally = Tally::default();
    for target in &TARGETS {
        measure(target, &choice, &mut tally)?;
    }
    for megabytes in FLOOR_MEGABYTES {
        beside_floor(megabytes, &choice, &mut tally)?;
    }
    built_on_two(&choice, &mut tally)?;
    for (kind, n, rate, most) in SIZES {
        size_of(kind, n, rate, most, &choice, &mut tally)?;
    }
    beyond_the_filter(&choice, &mut tally)?;
    for (rate, limit) in bits_limits() {
        bits_at(rate, limit, &choice, &mut tally)?;
    }
    println!("\n{} kept, {} missed, {} left out", tally.kept, tally.missed, tally.left_out);
    Ok(())
}

impl Choice {
    /// Why a target called `what` over `n` keys is not run, if it is not.
    fn skips(&self, what: &str, n: usize) -> Option<String> {
        if self.only.as_ref().is_some_and(|only| !what.contains(only.as_str())) {
            return Some("not asked for".to_string());
        }
        (n > self.max_n).then(|| format!("more than --max-n {}", self.max_n))
    }
}

fn measure(target: &Target, choice: &Choice, tally: &mut Tally) -> Result<(), Fault> {
    let keys = if target.texts { "str" } else { "u64" };
    let rate = if target.rate == 0.01 { String::new() } else { format!(" {:.2} %", target.rate * 100.0) };
    let what = format!("{}, {}{rate}, {} {keys}, {} t", target.peer, target.kind.name(), target.n, target.threads);
    if let Some(why) = choice.skips(&what, target.n) {
        tally.leave_out(&what, &why);
        return Ok(());
    }
    let plan = Plan {
        texts: target.texts,
        kind: target.kind,
        peers: vec![target.peer.to_string()],
        threads: target.threads,
        passes: choice.passes,
        keyed: target.peer == "unkeyed",
        rate: target.rate,
        ..Plan::default()
    };
    let form = Form { shared: target.threads > 1, keyed: plan.keyed };
    if let Err(fault) = ours::build::<u64>(target.kind, 1000, plan.rate, form) {
        tally.leave_out(&what, &fault.0);
        return Ok(());
    }
    let mut rounds: Vec<Vec<Row>> = Vec::new();
    let all = |rounds: &mut Vec<Vec<Row>>| -> Result<(), Fault> {
        if target.texts {
            peers::with_texts(target.n, |members, absent| {
                (0..choice.rounds)
                    .try_for_each(|_| one_round(rounds, |each| peers::compare(&plan, members, absent, each)))
            })
        } else {
            peers::with_numbers(target.n, |members, absent| {
                (0..choice.rounds)
                    .try_for_each(|_| one_round(rounds, |each| peers::compare(&plan, members, absent, each)))
            })
        }
    };
    all(&mut rounds)?;
    for (op, least) in OPS.iter().zip(target.least) {
        if least == 0.0 {
            continue;
        }
        let best: Vec<&Row> = rounds.iter().filter_map(|rows| best_row(rows, op, target.call)).collect();
        report(&what, op, least, &best, tally);
    }
    if let (true, Some(row)) = (target.fewer_bits, rounds.last().and_then(|rows| rows.first())) {
        let kept = row.our_bits < row.peer_bits && row.our_rate <= row.peer_rate.map(|rate| rate * 1.03);
        println!(
            "{:<64} {:>8} {:>8.2}b {:>6.2}b  {:<17} {}",
            format!("{what}, bits at the rate"),
            "fewer",
            row.our_bits,
            row.peer_bits,
            format!("{:.3} / {:.3} %", percent(row.our_rate), percent(row.peer_rate)),
            tally.judge(kept)
        );
    }
    Ok(())
}

fn percent(rate: Option<f64>) -> f64 {
    rate.unwrap_or(f64::NAN) * 100.0
}

fn one_round(
    rounds: &mut Vec<Vec<Row>>,
    compare: impl FnOnce(&mut dyn FnMut(Row)) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut rows = Vec::new();
    compare(&mut |row| rows.push(row))?;
    rounds.push(rows);
    Ok(())
}

/// The row of `op` that counts under `call`.
fn best_row<'a>(rows: &'a [Row], op: &str, call: Call) -> Option<&'a Row> {
    rows.iter()
        .filter(|row| row.op == op && call.is_of(row.mode))
        .min_by(|one, other| one.our_ns.total_cmp(&other.our_ns))
}

fn report(what: &str, op: &str, least: f64, best: &[&Row], tally: &mut Tally) {
    let ratios: Vec<f64> = best.iter().map(|row| row.ratio()).collect();
    let ours: Vec<f64> = best.iter().map(|row| row.our_ns).collect();
    let theirs: Vec<f64> = best.iter().map(|row| row.peer_ns).collect();
    let ratio = clock::median(&ratios);
    let spread = ours.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &ns| (low.min(ns), high.max(ns)));
    println!(
        "{:<64} {:>7.2}x {:>8.2}x {:>7.2}  {:<17} {}",
        format!("{what}, {op} ({})", best.first().map_or("-", |row| row.mode.name())),
        least,
        ratio,
        clock::median(&theirs),
        format!("{:.2} ({:.2}-{:.2})", clock::median(&ours), spread.0, spread.1),
        tally.judge(ratio >= least)
    );
}

/// Keys asked over a big table: enough to touch most of its lines, few enough to hold in memory beside it.
const FLOOR_KEYS: usize = 20_000_000;

fn beside_floor(megabytes: usize, choice: &Choice, tally: &mut Tally) -> Result<(), Fault> {
    let what = format!("floor, blocked, {megabytes} MB");
    // The keys that would fill such a table at 1 %.
    let n = (megabytes << 20) * 8 * 100 / 1013;
    if let Some(why) = choice.skips(&what, n) {
        tally.leave_out(&what, &why);
        return Ok(());
    }
    let (members, absent) = (keys::members(FLOOR_KEYS), keys::absent(FLOOR_KEYS));
    let mut ours = ours::build::<u64>(Kind::Blocked, n, 0.01, Form::default())?;
    let mut floor = sides::peer::<u64>("floor", n, 0.01, ours.bytes())?;
    let passes = choice.passes.unwrap_or(3);
    let course = Course { members: &members, absent: &absent, strangers: &[], threads: 1, passes };
    let (mut ratios, mut last) = ([Vec::new(), Vec::new()], [(0.0, 0.0); 2]);
    for _ in 0..choice.rounds {
        let figures = race::race(
            course,
            &mut [
                Runner { name: "floor", side: &mut *floor, modes: &[Mode::Batch] },
                Runner { name: "bloomgate", side: &mut *ours, modes: &[Mode::Batch] },
            ],
        )?;
        for op in 0..2 {
            last[op] = (figures[0][0].ns[op + 1], figures[1][0].ns[op + 1]);
            ratios[op].push(last[op].1 / last[op].0);
        }
    }
    for op in 0..2 {
        let over = clock::median(&ratios[op]);
        println!(
            "{:<64} {:>8} {:>8.2}x {:>7.2}  {:<17.2} {}",
            format!("{what}, {} (batch), our time over the floor's", OPS[op + 1]),
            format!("<={FLOOR_LIMIT}x"),
            over,
            last[op].0,
            last[op].1,
            tally.judge(over <= FLOOR_LIMIT)
        );
    }
    Ok(())
}

/// A guard's "no" beside its filter's own: nanoseconds beyond it.
fn beyond_the_filter(choice: &Choice, tally: &mut Tally) -> Result<(), Fault> {
    for (n, texts) in [(20_000, false), (1_000_000, true)] {
        let what =
            format!("blocked alone, blocked in a guard, {n} {}, miss, beyond", if texts { "str" } else { "u64" });
        if let Some(why) = choice.skips(&what, n) {
            tally.leave_out(&what, &why);
            continue;
        }
        let cost = guard::cost(n, texts, 33 * choice.rounds)?;
        let most = format!("<={}ns", guard::MOST);
        println!(
            "{what:<64} {most:>8} {:>7.2}ns {:>7.2}  {:<17.2} {}",
            cost.beyond,
            cost.filter,
            cost.guard,
            tally.judge(cost.beyond <= guard::MOST)
        );
    }
    Ok(())
}

fn bits_at(rate: f64, limit: f64, choice: &Choice, tally: &mut Tally) -> Result<(), Fault> {
    let (n, probes) = (1_000_000usize, ((2000.0 / rate) as usize).clamp(100_000_000, 2_000_000_000));
    let what = format!("bits, blocked, {n} u64, {rate:e} asked");
    if let Some(why) = choice.skips(&what, n) {
        tally.leave_out(&what, &why);
        return Ok(());
    }
    let mut ours = ours::build::<u64>(Kind::Blocked, n, rate, Form::default())?;
    ours.insert(Mode::Batch, &keys::members(n));
    let (mut found, mut answers) = (0usize, [false; race::CALL]);
    let mut asked = 0;
    while asked < probes {
        let keys = keys::absent_from(asked, race::CALL);
        ours.contains(Mode::Batch, &keys, &mut answers);
        found += answers.iter().filter(|&&answer| answer).count();
        asked += race::CALL;
    }
    let (bits, measured) = (ours.bytes() as f64 * 8.0 / n as f64, found as f64 / asked as f64);
    // Four and a half standard deviations of the count above the rate asked.
    let most = rate + 4.5 * (rate / asked as f64).sqrt();
    println!(
        "{:<64} {:>7.2}b {:>8.2}b {:>7}  {:<17} {}",
        what,
        limit,
        bits,
        "-",
        format!("{measured:.3e} measured"),
        tally.judge(bits <= limit && measured <= most)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_follow_the_classic_formula_below_one_in_ten_thousand() {
        let limits = bits_limits();
        assert_eq!(limits.len(), 5);
        assert!((limits[2].1 - 1.08 * 19.17).abs() < 0.01);
        assert!((limits[4].1 - 1.08 * 28.755).abs() < 0.01);
    }

    #[test]
    fn the_better_call_counts_unless_batches_are_meant() {
        let row = |mode, our_ns| Row {
            peer: "p".to_string(),
            kind: "blocked",
            op: "hit",
            mode,
            n: 1,
            rate: 0.01,
            keys: "u64",
            peer_ns: 10.0,
            our_ns,
            peer_bits: 1.0,
            our_bits: 1.0,
            peer_rate: None,
            our_rate: None,
            threads: 1,
        };
        let rows = [row(Mode::Single, 2.0), row(Mode::Batch, 4.0)];
        assert_eq!(best_row(&rows, "hit", Call::Best).unwrap().ratio(), 5.0);
        assert_eq!(best_row(&rows, "hit", Call::Batch).unwrap().ratio(), 2.5);
        assert_eq!(best_row(&rows, "hit", Call::Single).unwrap().ratio(), 5.0);
        assert!(best_row(&rows, "miss", Call::Best).is_none());
    }
}
