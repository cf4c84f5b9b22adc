//! Runs a group of rows: starts its servers, fills them, and measures all cells turn by turn, round after round.
//!
//! The same GET moved by 28 % within half an hour on a virtual machine, so only figures of one round are divided, and a
//! row is the median of these ratios.

use super::Choice;
use super::load::{self, Plan, Sample};
use super::process::{Launch, Process};
use super::table::{Line, Promise, Table, rate, spread};
use super::traffic::{Dialect, Items, Traffic};
use crate::args::Fault;
use crate::clock;
use std::time::Duration;

/// Which program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// Debian's redis-server.
    Redis,
    /// The one under test.
    Ours,
}

/// What a server holds before it is measured.
#[derive(Clone, Debug)]
pub enum Stock {
    /// So many keys in redis-server.
    Keys(u64),
    /// A filter.
    Filter {
        /// Its name.
        name: &'static str,
        /// The items it is made for.
        capacity: u64,
        /// The items put into it: 0, 1, 2 and so on.
        filled: u64,
        /// Another hash than the keyed one.
        hash: Option<&'static str>,
    },
}

/// A server of a group.
#[derive(Clone, Debug)]
pub struct Side {
    /// Which.
    pub program: Program,
    /// Reactors of ours.
    pub threads: usize,
    /// `always`, `every-second` or `no` (redis-server keeps no log).
    pub fsync: &'static str,
    /// Kept on the first CPU, away from the client, or free.
    pub pinned: bool,
    /// What it holds.
    pub stock: Vec<Stock>,
}

/// One thing to measure.
pub struct Cell {
    /// Index of its server.
    pub side: usize,
    /// What is sent.
    pub traffic: Traffic,
    /// The client on both CPUs, or on the last one alone.
    pub client_on_both: bool,
    /// A filter made anew before each round, not timed.
    pub before: Option<Stock>,
}

/// What of a cell counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Items a second of server CPU.
    Cpu,
    /// Items a second.
    Wall,
}

/// What the adds of a row must be, else the row says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adds {
    /// No adds, or whatever.
    Any,
    /// New ones: at least 97 % answered `:1` (a full filter takes 1 % of the new for old).
    New,
    /// Old ones: none answered `:1`.
    Repeats,
}

/// One promise: a cell over another.
pub struct Row {
    /// In words.
    pub what: String,
    /// The cell on top.
    pub ours: usize,
    /// The cell below.
    pub peer: usize,
    /// The promised ratio.
    pub promise: Promise,
    /// Of which figures.
    pub by: By,
    /// What its adds must be.
    pub adds: Adds,
    /// Whether the busier of two reactors may have 60 % of the work at most, as a row of its own.
    pub even: bool,
}

/// Rows that are measured together.
pub struct Group {
    /// For the folder.
    pub name: &'static str,
    /// Rounds unless `--rounds` says otherwise.
    pub rounds: usize,
    /// Items in its largest filter.
    pub n: u64,
    /// Its servers.
    pub sides: Vec<Side>,
    /// What is measured.
    pub cells: Vec<Cell>,
    /// What is promised.
    pub rows: Vec<Row>,
}

/// Measures a group and judges its rows.
pub fn run(mut group: Group, choice: &Choice, table: &mut Table) -> Result<(), Fault> {
    group.rows.retain(|row| match choice.skips(&row.what, group.n) {
        Some(why) => {
            table.leave_out(&row.what, &why);
            false
        }
        None => true,
    });
    if group.rows.is_empty() {
        return Ok(());
    }
    if choice.dialect == Dialect::Redis {
        // What redis-server does in our place promises nothing.
        group.rows.iter_mut().for_each(|row| (row.promise, row.adds) = (Promise::None, Adds::Any));
    }
    let mut servers = Vec::new();
    for (at, side) in group.sides.iter().enumerate() {
        let server = start(side, &format!("{}-{at}", group.name), choice)?;
        for stock in &side.stock {
            put(&server, stock, choice)?;
        }
        servers.push(server);
    }
    let rounds = choice.rounds.unwrap_or(group.rounds);
    let mut samples: Vec<Vec<Sample>> = group.cells.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..group.cells.len()).collect();
        // Forth and back: what drifts during a round, or is left over by the cell before, falls on both sides alike.
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let (cell, row) = (&group.cells[at], group.rows.iter().find(|row| row.ours == at || row.peer == at));
            let Some(row) = row else { continue };
            let server = &servers[cell.side];
            if let Some(stock) = &cell.before {
                put(server, stock, choice)?;
            }
            let side = if row.ours == at { "ours" } else { "the peer" };
            let sample = measure(server, cell, choice);
            samples[at].push(sample.map_err(|fault| Fault(format!("{}, {side}: {fault}", row.what)))?);
        }
    }
    drop(servers);
    for at in 0..group.sides.len() {
        // Logs of a hundred million items add up; what cannot be removed now goes with the whole folder.
        let _ = std::fs::remove_dir_all(choice.folder.join(format!("{}-{at}", group.name)));
    }
    for row in &group.rows {
        report(row, &group, &samples, table);
    }
    Ok(())
}

/// Starts one server of a group.
pub fn start(side: &Side, name: &str, choice: &Choice) -> Result<Process, Fault> {
    Process::start(&launch(side, name, choice))
}

/// How one server of a group is started.
pub fn launch(side: &Side, name: &str, choice: &Choice) -> Launch {
    let words = match side.program {
        Program::Ours if choice.dialect == Dialect::Filters => choice.server.clone(),
        _ => redis(side.fsync),
    };
    let cores = if side.pinned { choice.cores[..1].to_vec() } else { choice.both() };
    Launch { words, folder: choice.folder.join(name), cores, threads: side.threads, fsync: side.fsync }
}

/// redis-server without snapshots, and without rewriting its log in the middle of a measurement.
fn redis(fsync: &str) -> Vec<String> {
    let (log, policy) = match fsync {
        "always" => ("yes", "always"),
        _ => ("no", "everysec"),
    };
    let line = format!(
        "redis-server --port {{port}} --bind 127.0.0.1 --dir {{folder}} --save '' --appendonly {log} --appendfsync {policy} \
         --auto-aof-rewrite-percentage 0 --daemonize no --loglevel warning"
    );
    super::wire::words(&line)
}

/// 50 commands of 100 items: divides every size used here, so that nothing beyond it is sent.
const FILL_PIPELINE: usize = 50;

/// Brings a server to hold `stock`.
pub fn put(server: &Process, stock: &Stock, choice: &Choice) -> Result<(), Fault> {
    let mut talk = server.talk()?;
    match stock {
        Stock::Keys(count) => {
            let traffic = Dialect::Redis.add_many("", Items::span(0, *count), FILL_PIPELINE);
            load::run_out(server, &traffic, choice.client())?;
        }
        Stock::Filter { name, capacity, filled, hash } => {
            if choice.dialect == Dialect::Filters {
                let capacity = capacity.to_string();
                talk.must(&["DEL", name])?;
                match hash {
                    Some(hash) => {
                        let kind = ["KIND", "scalable", "CAPACITY", &capacity, "RATE", "0.01", "HASH", hash];
                        talk.must(&[&["BG.CREATE", name][..], &kind].concat())?
                    }
                    None => talk.must(&["BF.RESERVE", name, "0.01", &capacity])?,
                };
            }
            let traffic = choice.dialect.add_many(name, Items::span(0, *filled), FILL_PIPELINE);
            let (sent, new) = load::run_out(server, &traffic, choice.client())?;
            if choice.dialect == Dialect::Filters && (new as f64) < 0.97 * sent as f64 {
                return Err(Fault(format!("of {sent} items put into the empty filter {name} only {new} were new")));
            }
        }
    }
    Ok(())
}

fn measure(server: &Process, cell: &Cell, choice: &Choice) -> Result<Sample, Fault> {
    let both = choice.both();
    let plan = Plan {
        address: server.address,
        traffic: &cell.traffic,
        connections: choice.connections,
        cores: if cell.client_on_both { &both } else { choice.client() },
    };
    let time = Duration::from_secs_f64(choice.seconds);
    let warm = (time / 10).max(Duration::from_millis(50));
    Ok(load::run_for(plan, Some(server.id()), warm, time)?.0)
}

fn report(row: &Row, group: &Group, samples: &[Vec<Sample>], table: &mut Table) {
    let figure = |sample: &Sample| match row.by {
        By::Cpu => sample.per_cpu(),
        By::Wall => sample.wall(),
    };
    let (ours, peer) = (&samples[row.ours], &samples[row.peer]);
    let ratios: Vec<f64> = ours.iter().zip(peer).map(|(one, other)| figure(one) / figure(other)).collect();
    let own: Vec<f64> = ours.iter().map(figure).collect();
    let middle = |side: &[Sample], of: fn(&Sample) -> f64| clock::median(&side.iter().map(of).collect::<Vec<_>>());
    let (low, high) = spread(&own);
    let scale = if low >= 1e6 { 1e6 } else { 1e3 };
    let ones = middle(ours, Sample::ones);
    let void = match row.adds {
        Adds::New if ones < 0.97 => Some(format!("only {:.1} % of the adds were new", ones * 100.0)),
        Adds::Repeats if ones > 0.0 => Some(format!("{:.3} % of the repeated adds were new", ones * 100.0)),
        _ => None,
    };
    // The other figure beside the one that is judged: each row tells both.
    let (other, name): (fn(&Sample) -> f64, _) = match row.by {
        By::Cpu => (Sample::wall, "wall"),
        By::Wall => (Sample::per_cpu, "per CPU-s"),
    };
    let others: Vec<f64> = ours.iter().zip(peer).map(|(one, two)| other(one) / other(two)).collect();
    let (theirs, own_other) = (rate(middle(peer, other)), rate(middle(ours, other)));
    let note = format!("{name} {:.2}x: {theirs} / {own_other}", clock::median(&others));
    table.add(Line {
        what: row.what.clone(),
        promise: row.promise,
        figure: clock::median(&ratios),
        unit: "x",
        peer: rate(clock::median(&peer.iter().map(figure).collect::<Vec<_>>())),
        ours: format!("{} ({:.1}-{:.1})", rate(clock::median(&own)), low / scale, high / scale),
        note,
        void,
    });
    if row.even {
        let threads = group.sides[group.cells[row.ours].side].threads;
        let shares: Vec<f64> = ours.iter().map(|sample| sample.busiest(threads) * 100.0).collect();
        let (low, high) = spread(&shares);
        table.add(Line {
            what: format!("{}, share of the busier", row.what),
            promise: Promise::AtMost(60.0),
            figure: clock::median(&shares),
            unit: "%",
            peer: String::new(),
            ours: format!("({low:.0}-{high:.0})"),
            note: String::new(),
            void: None,
        });
    }
}
