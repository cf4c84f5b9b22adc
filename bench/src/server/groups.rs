//! The promised ratios as data: which cell over which, and at least how much.

use super::Choice;
use super::stage::{Adds, By, Cell, Group, Program, Row, Side, Stock};
use super::table::Promise;
use super::traffic::{Dialect, Items, Traffic};

const SMALL: u64 = 1_000_000;
const BIG: u64 = 100_000_000;
/// Items from here on are in no filter that was filled from 0.
const STRANGERS: u64 = 100_000_000_000;

fn filter(name: &'static str, n: u64) -> Stock {
    Stock::Filter { name, capacity: n, filled: n, hash: None }
}

/// A million items, and room for what is added to them in a round.
fn roomy() -> Stock {
    Stock::Filter { name: "fresh", capacity: BIG / 4, filled: SMALL, hash: None }
}

fn side(program: Program, stock: Vec<Stock>) -> Side {
    Side { program, threads: 1, fsync: "every-second", pinned: true, stock }
}

fn cell(side: usize, traffic: Traffic) -> Cell {
    Cell { side, traffic, client_on_both: false, before: None }
}

fn row(what: &str, ours: usize, peer: usize, least: f64, by: By) -> Row {
    let promise = if least > 0.0 { Promise::AtLeast(least) } else { Promise::None };
    Row { what: what.to_string(), ours, peer, promise, by, adds: Adds::Any, even: false }
}

/// Every group, in the order in which they run.
pub fn all(choice: &Choice) -> Vec<Group> {
    let mut groups = vec![pipelined(choice.dialect), one_by_one(choice.dialect)];
    if choice.dialect == Dialect::Filters {
        groups.extend([pipelined_big(), hashing(), two_threads(choice.both().len())]);
    }
    groups.push(always(choice.dialect));
    groups
}

/// Over redis-server's GET at pipeline 64, all keys present, on a filter of a million items.
fn pipelined(ours: Dialect) -> Group {
    let cells = vec![
        cell(0, Dialect::Redis.exists("", SMALL, 64)),
        cell(1, ours.ping(64)),
        cell(1, ours.exists("small", SMALL, 64)),
        cell(1, ours.add("small", Items::Random(SMALL), 64)),
        cell(1, ours.exists_many("small", SMALL, 64)),
        cell(1, ours.add_many("small", Items::Random(SMALL), 64)),
        cell(0, Dialect::Redis.ping(64)),
        // Beside a million items, with room for those of a measured second, so that it does not grow meanwhile: 30 MB of bits
        // that no cache holds, where those of a million are 1.2.
        Cell { before: Some(roomy()), ..cell(1, ours.add("fresh", Items::new_from(STRANGERS), 64)) },
    ];
    let new = if ours == Dialect::Filters { Adds::New } else { Adds::Any };
    let rows = vec![
        row("P=64, PING over GET", 1, 0, 4.0, By::Cpu),
        row("P=64, PING over redis-server's PING", 1, 6, 0.0, By::Cpu),
        row("P=64, BF.EXISTS over GET, 1 M", 2, 0, 3.0, By::Cpu),
        Row { adds: Adds::Repeats, ..row("P=64, BF.ADD repeats over GET, 1 M", 3, 0, 3.0, By::Cpu) },
        Row { adds: new, ..row("P=64, BF.ADD new over GET, 1 M", 7, 0, 3.0, By::Cpu) },
        row("P=64, BF.MEXISTS x100 over GET, 1 M", 4, 0, 25.0, By::Cpu),
        Row { adds: Adds::Repeats, ..row("P=64, BF.MADD x100 repeats over GET, 1 M", 5, 0, 20.0, By::Cpu) },
    ];
    let sides = vec![side(Program::Redis, vec![Stock::Keys(SMALL)]), side(Program::Ours, vec![filter("small", SMALL)])];
    Group { name: "pipelined", rounds: 5, n: SMALL, sides, cells, rows }
}

/// The same on a filter of a hundred million items, which no cache holds.
fn pipelined_big() -> Group {
    let ours = Dialect::Filters;
    let fresh = Stock::Filter { name: "fresh", capacity: BIG, filled: BIG / 10, hash: None };
    let cells = vec![
        cell(0, Dialect::Redis.exists("", SMALL, 64)),
        cell(1, ours.exists("big", BIG, 64)),
        cell(1, ours.add("big", Items::Random(BIG), 64)),
        cell(1, ours.exists_many("big", BIG, 64)),
        cell(1, ours.add_many("big", Items::Random(BIG), 64)),
        // Made anew in each round, with a tenth inside so that all its memory was touched: it must not grow meanwhile.
        Cell { before: Some(fresh.clone()), ..cell(1, ours.add_many("fresh", Items::new_from(STRANGERS), 64)) },
        Cell { before: Some(fresh), ..cell(1, ours.add("fresh", Items::new_from(STRANGERS), 64)) },
    ];
    let rows = vec![
        row("P=64, BF.EXISTS over GET, 100 M", 1, 0, 2.8, By::Cpu),
        Row { adds: Adds::Repeats, ..row("P=64, BF.ADD repeats over GET, 100 M", 2, 0, 2.8, By::Cpu) },
        Row { adds: Adds::New, ..row("P=64, BF.ADD new over GET, 100 M", 6, 0, 2.8, By::Cpu) },
        row("P=64, BF.MEXISTS x100 over GET, 100 M", 3, 0, 18.0, By::Cpu),
        Row { adds: Adds::Repeats, ..row("P=64, BF.MADD x100 repeats over GET, 100 M", 4, 0, 20.0, By::Cpu) },
        Row { adds: Adds::New, ..row("P=64, BF.MADD x100 new over GET, 100 M", 5, 0, 12.0, By::Cpu) },
    ];
    let sides = vec![side(Program::Redis, vec![Stock::Keys(SMALL)]), side(Program::Ours, vec![filter("big", BIG)])];
    Group { name: "big", rounds: 5, n: BIG, sides, cells, rows }
}

/// One command at a time, where the kernel has nine tenths of the bill and parity is all there is.
fn one_by_one(ours: Dialect) -> Group {
    let cells = vec![
        cell(0, Dialect::Redis.ping(1)),
        cell(1, ours.ping(1)),
        cell(0, Dialect::Redis.exists("", SMALL, 1)),
        cell(1, ours.exists("small", SMALL, 1)),
        cell(0, Dialect::Redis.add("", Items::Random(SMALL), 1)),
        cell(1, ours.add("small", Items::Random(SMALL), 1)),
    ];
    let rows = vec![
        row("P=1, PING over PING, wall", 1, 0, 0.95, By::Wall),
        row("P=1, BF.EXISTS over GET, wall, 1 M", 3, 2, 0.95, By::Wall),
        Row { adds: Adds::Repeats, ..row("P=1, BF.ADD repeats over SET, wall, 1 M", 5, 4, 0.95, By::Wall) },
    ];
    let sides = vec![side(Program::Redis, vec![Stock::Keys(SMALL)]), side(Program::Ours, vec![filter("small", SMALL)])];
    Group { name: "single", rounds: 7, n: SMALL, sides, cells, rows }
}

/// Two reactors over one: items per CPU-second, where 0.80 means a quarter more CPU an item; and items per second.
///
/// Server and client share the two CPUs in both settings, so nothing can double: with s of server's and c of client's CPU an
/// item, one reactor gives the lesser of 1/s and 2/(s + c), two give 2/(s' + c). That is never less unless a second reactor makes
/// items dearer (s' > s), and more where the one was the narrow place (s > c), as with single commands. So single commands may
/// not be slower by the clock. Of batches the client has most of the work, c > s, and both come to 2/(s + c): there 0.95 is the
/// same but for the noise of wall figures.
fn two_threads(cores: usize) -> Group {
    let ours = Dialect::Filters;
    let growth = || Items::new_from(STRANGERS);
    let repeats = || Items::Random(SMALL);
    let traffics: [(&str, f64, Adds, [Traffic; 2]); 5] = [
        ("BF.EXISTS", 1.0, Adds::Any, [0, 1].map(|_| ours.exists("small", SMALL, 64))),
        ("BF.ADD repeats", 1.0, Adds::Repeats, [0, 1].map(|_| ours.add("small", repeats(), 64))),
        ("BF.ADD new", 1.0, Adds::New, [0, 1].map(|_| ours.add("fresh", growth(), 64))),
        ("BF.MEXISTS x100", 0.95, Adds::Any, [0, 1].map(|_| ours.exists_many("small", SMALL, 64))),
        ("BF.MADD x100 repeats", 0.95, Adds::Repeats, [0, 1].map(|_| ours.add_many("small", repeats(), 64))),
    ];
    let (mut cells, mut rows) = (Vec::new(), Vec::new());
    for (name, wall, adds, pair) in traffics {
        let first = cells.len();
        for (side, traffic) in pair.into_iter().enumerate() {
            let before = (adds == Adds::New).then(roomy);
            cells.push(Cell { client_on_both: true, before, ..cell(side, traffic) });
        }
        let what = format!("P=64, {name}, two reactors over one, 1 M");
        rows.push(Row { adds, even: cores > 1, ..row(&what, first + 1, first, 0.8, By::Cpu) });
        let what = format!("P=64, {name}, two reactors over one, wall, 1 M");
        // On one CPU there is nothing to rise.
        let wall = if cores > 1 { wall } else { 0.0 };
        rows.push(Row { adds, ..row(&what, first + 1, first, wall, By::Wall) });
    }
    let side = |threads| Side { threads, pinned: false, ..side(Program::Ours, vec![filter("small", SMALL)]) };
    Group { name: "threads", rounds: 9, n: SMALL, sides: vec![side(1), side(2)], cells, rows }
}

/// Every reply held until its write is on disk: ours, and redis-server with its log synced for each turn.
fn always(ours: Dialect) -> Group {
    let (mut cells, mut rows) = (Vec::new(), Vec::new());
    let (theirs, own) = (Items::new_from(STRANGERS), Items::new_from(STRANGERS));
    for (pipeline, least) in [(1, 1.0), (16, 2.0), (64, 2.0)] {
        let first = cells.len();
        cells.push(cell(0, Dialect::Redis.add("", theirs.clone(), pipeline)));
        cells.push(cell(1, ours.add("fresh", own.clone(), pipeline)));
        let what = format!("fsync always, P={pipeline}, BF.ADD new over SET new, wall");
        let adds = if ours == Dialect::Filters { Adds::New } else { Adds::Any };
        rows.push(Row { adds, ..row(&what, first + 1, first, least, By::Wall) });
    }
    let fresh = Stock::Filter { name: "fresh", capacity: BIG / 2, filled: SMALL, hash: None };
    let side = |program, stock| Side { fsync: "always", pinned: false, ..side(program, stock) };
    let sides = vec![side(Program::Redis, vec![Stock::Keys(SMALL)]), side(Program::Ours, vec![fresh])];
    Group { name: "always", rounds: 5, n: SMALL, sides, cells, rows }
}

/// What the secret costs: keyed hashing over XXH3 on the same server.
fn hashing() -> Group {
    let ours = Dialect::Filters;
    let traffic = |name: &str| {
        [
            ours.exists(name, SMALL, 64),
            ours.add(name, Items::Random(SMALL), 64),
            ours.exists_many(name, SMALL, 64),
            ours.add_many(name, Items::Random(SMALL), 64),
        ]
    };
    let names =
        [("BF.EXISTS", 0.92), ("BF.ADD repeats", 0.92), ("BF.MEXISTS x100", 0.8), ("BF.MADD x100 repeats", 0.8)];
    let (mut cells, mut rows) = (Vec::new(), Vec::new());
    for ((keyed, open), (name, least)) in traffic("keyed").into_iter().zip(traffic("open")).zip(names) {
        let first = cells.len();
        cells.extend([cell(0, open), cell(0, keyed)]);
        rows.push(row(&format!("P=64, {name}, keyed over XXH3, 1 M"), first + 1, first, least, By::Cpu));
    }
    let open = Stock::Filter { name: "open", capacity: SMALL, filled: SMALL, hash: Some("xxh3") };
    let sides = vec![side(Program::Ours, vec![filter("keyed", SMALL), open])];
    Group { name: "hashing", rounds: 7, n: SMALL, sides, cells, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_cells_and_every_cell_a_server() {
        for dialect in [Dialect::Filters, Dialect::Redis] {
            for group in all(&Choice { dialect, ..Choice::default() }) {
                for row in &group.rows {
                    assert!(row.ours < group.cells.len() && row.peer < group.cells.len(), "{}", row.what);
                }
                assert!(group.cells.iter().all(|cell| cell.side < group.sides.len()), "{}", group.name);
            }
        }
    }

    #[test]
    fn sizes_are_whole_fills() {
        // A fill sends 50 commands of 100 items at once: what does not divide would stay out or spill over.
        assert!([SMALL, BIG, BIG / 10].iter().all(|n| n % 5_000 == 0));
    }
}
