//! `scripts/bench server`: `bloomgate serve` beside Debian's redis-server in the same run, every promised figure judged.
//!
//! Both run here, on empty folders and free ports, in turns of about a second. The figure is items per second of server
//! CPU, summed over all threads of the server, or of the wall where a row says so.

mod by_hand;
mod disturbance;
mod groups;
mod http;
mod load;
mod probe;
pub mod process;
mod replies;
mod restart;
mod small;
mod stage;
mod table;
mod traffic;
mod wire;

use crate::args::{Args, Fault};
use crate::shared_machine;
use std::path::PathBuf;
use std::process::ExitCode;
use table::Table;
use traffic::Dialect;

/// How ours is started unless `--server` says otherwise.
const SERVER: &str = "bloomgate serve --resp 127.0.0.1:{port} --data {folder} --threads {threads} --fsync {fsync}";

/// What is measured, and how.
struct Choice {
    server: Vec<String>,
    dialect: Dialect,
    connections: usize,
    rounds: Option<usize>,
    seconds: f64,
    max_n: u64,
    only: Option<String>,
    quick: bool,
    folder: PathBuf,
    cores: Vec<usize>,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            server: wire::words(SERVER),
            dialect: Dialect::Filters,
            connections: 50,
            rounds: None,
            seconds: 1.0,
            max_n: 100_000_000,
            only: None,
            quick: false,
            folder: std::env::temp_dir().join(format!("bench-server-{}", std::process::id())),
            cores: shared_machine::cores(),
        }
    }
}

impl Choice {
    /// The CPU of the client: the second one, away from the server's.
    fn client(&self) -> &[usize] {
        let at = usize::from(self.cores.len() > 1);
        &self.cores[at..=at]
    }

    /// The two CPUs that everything runs on.
    fn both(&self) -> Vec<usize> {
        self.cores.iter().copied().take(2).collect()
    }

    /// Why a row called `what` over a filter of `n` items is not measured, if it is not.
    fn skips(&self, what: &str, n: u64) -> Option<String> {
        if self.only.as_ref().is_some_and(|only| !what.contains(only.as_str())) {
            return Some("not asked for".to_string());
        }
        (n > self.max_n).then(|| format!("more than --max-n {}", self.max_n))
    }
}

/// `scripts/bench server`.
pub fn run(args: &mut Args) -> Result<ExitCode, Fault> {
    let mut choice = Choice::default();
    let (mut binary, mut json, mut folder) = (None, None::<PathBuf>, None::<PathBuf>);
    let mut own_server = false;
    let mut by_hand = by_hand::Load {
        command: String::new(),
        address: "127.0.0.1:6479".to_string(),
        pipeline: 1,
        connections: 50,
        threads: 1,
        seconds: 5.0,
    };
    while let Some(option) = args.option()? {
        match option.as_str() {
            "--server" => {
                choice.server = wire::words(&args.value(&option)?);
                own_server = true;
            }
            "--binary" => binary = Some(args.value(&option)?),
            "--calibrate" => choice.dialect = Dialect::Redis,
            "--rounds" => choice.rounds = Some(args.number(&option)?),
            "--seconds" => choice.seconds = args.number(&option)?,
            "--max-n" => choice.max_n = args.number(&option)?,
            "--only" => choice.only = Some(args.value(&option)?),
            "--folder" => folder = Some(args.value(&option)?.into()),
            "--json" => json = Some(args.value(&option)?.into()),
            "--quick" => choice.quick = true,
            "--load" => by_hand.command = args.value(&option)?,
            "--address" => by_hand.address = args.value(&option)?,
            "--threads" | "-t" => by_hand.threads = args.number(&option)?,
            "--pipeline" | "-P" => by_hand.pipeline = args.number(&option)?,
            "--connections" | "-c" => by_hand.connections = args.number(&option)?,
            "--duration" | "-d" => by_hand.seconds = args.number(&option)?,
            _ => return Err(args.unknown(&option)),
        }
    }
    let counts = [by_hand.pipeline, by_hand.connections, by_hand.threads, choice.rounds.unwrap_or(1)];
    let times = [by_hand.seconds, choice.seconds];
    if counts.contains(&0) || !times.iter().all(|&seconds| seconds > 0.0 && seconds < 86_400.0) {
        return Err(Fault("rounds, connections, threads, pipeline and seconds take more than 0".to_string()));
    }
    if !by_hand.command.is_empty() {
        by_hand::run(&by_hand)?;
        return Ok(ExitCode::SUCCESS);
    }
    if choice.quick {
        choice.seconds = choice.seconds.min(0.15);
        choice.rounds = choice.rounds.or(Some(1));
        choice.max_n = choice.max_n.min(1_000_000);
    }
    if let Some(program) = choice.server.first_mut() {
        match (binary, own_server) {
            (Some(path), _) => *program = path,
            // Built beside this program by scripts/bench.
            (None, false) => *program = std::env::current_exe()?.with_file_name("bloomgate").display().to_string(),
            (None, true) => {}
        }
    }
    if let Some(folder) = folder {
        choice.folder = folder.join(format!("bench-server-{}", std::process::id()));
    }
    std::fs::create_dir_all(&choice.folder)?;
    let done = judge(&choice, json);
    std::fs::remove_dir_all(&choice.folder)?;
    let missed = done?;
    Ok(if missed == 0 || choice.quick { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Measures everything; how many promises were not kept.
fn judge(choice: &Choice, json: Option<PathBuf>) -> Result<usize, Fault> {
    let machine = crate::machine();
    let setting = format!(
        "{} over {}; {} connections, {} s a cell, {} rounds",
        if choice.dialect == Dialect::Filters { choice.server.join(" ") } else { "redis-server".to_string() },
        redis_version()?,
        choice.connections,
        choice.seconds,
        choice.rounds.map_or("5 to 9".to_string(), |rounds| rounds.to_string()),
    );
    println!("{machine}\n{setting}");
    println!("items per server-CPU-second (wall where it says so); medians of rounds in which the sides take turns");
    if choice.dialect == Dialect::Redis {
        println!("redis-server in our place, where BF.EXISTS is GET, BF.ADD SET, BF.MEXISTS MGET and BF.MADD MSET:");
        println!("what is the same command on both sides should come out as 1.00");
    }
    println!();
    let mut table = Table::default();
    table.head();
    for group in groups::all(choice) {
        stage::run(group, choice, &mut table)?;
    }
    disturbance::run(choice, &mut table)?;
    restart::run(choice, &mut table)?;
    small::run(choice, &mut table)?;
    http::run(choice, &mut table)?;
    println!("\n{}", table.summary());
    if let Some(path) = json {
        table.write_json(&path, &machine, &setting)?;
    }
    Ok(table.missed())
}

fn redis_version() -> Result<String, Fault> {
    let said = std::process::Command::new("redis-server").arg("--version").output();
    let said = said.map_err(|error| Fault(format!("redis-server: {error}; apt-get install redis-server")))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Ok(format!("redis-server {}", version.unwrap_or("of unknown version")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_left_out_by_size_and_by_name() {
        let choice = Choice { max_n: 1_000_000, only: Some("PING".to_string()), ..Choice::default() };
        assert!(choice.skips("P=64, PING over GET", 1_000_000).is_none());
        assert!(choice.skips("P=64, PING over GET", 1_000_001).is_some());
        assert!(choice.skips("P=1, BF.ADD", 0).is_some());
        assert_eq!(choice.client().len(), 1);
    }
}
