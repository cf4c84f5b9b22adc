//! Drills. Of durability: a server is loaded, something is taken away from under it, and everything it acknowledged is
//! asked for again. Of abuse: it is attacked while an honest client asks on. A drill that cannot fail proves nothing, so each has a control run in which it must.

mod abuse;
mod adds;
mod attacks;
mod counts;
mod faults;
mod flips;
mod full;
mod honest;
mod kill;
mod load;
mod meaning;
mod options;
mod power;
mod random;
mod report;
mod server;
// Those that the benchmarks measure by too.
#[path = "../../bench/src/shared_machine.rs"]
mod shared_machine;
#[path = "../../bench/src/stolen.rs"]
mod stolen;
mod structure;
mod subject;
mod system;
mod tenants;
mod trace;
mod web_attacks;
mod wire;

use std::process::ExitCode;

use options::{Options, USAGE};
use report::Row;
use subject::Policy;

type Drill = fn(&Options, Policy) -> Result<Row, String>;

/// The drills, with the policies each runs under unless told otherwise, and under which its control runs.
const DRILLS: [(&str, Drill, &[Policy], Policy); 7] = [
    ("power", power::drill, &[Policy::Always, Policy::EverySecond], Policy::Never),
    ("kill", kill::drill, &[Policy::Always, Policy::EverySecond, Policy::Never], Policy::Always),
    ("faults", faults::drill, &[Policy::Always, Policy::EverySecond], Policy::EverySecond),
    ("disk-full", full::drill, &[Policy::Always, Policy::EverySecond], Policy::EverySecond),
    ("flips", flips::drill, &[Policy::Always], Policy::Always),
    ("abuse", abuse::drill, &[Policy::EverySecond], Policy::EverySecond),
    ("tenants", tenants::drill, &[Policy::EverySecond], Policy::EverySecond),
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    if matches!(name.as_str(), "-h" | "--help" | "help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(drill) = DRILLS.iter().find(|drill| drill.0 == name) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match Options::parse(words).and_then(|options| run(drill, options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("drill {name}: {what}");
            ExitCode::FAILURE
        }
    }
}

fn run(drill: &(&str, Drill, &[Policy], Policy), mut options: Options) -> Result<(), String> {
    let &(name, drill, policies, control) = drill;
    if options.policies.is_empty() {
        options.policies = if options.control { vec![control] } else { policies.to_vec() };
    }
    let (seed, work, subject) = (options.seed, options.work.clone(), options.subject.version());
    println!("{name}{}: {subject}, seed {seed}", if options.control { " (control)" } else { "" });
    let mut rows = Vec::new();
    for &policy in &options.policies {
        system::empty_folder(&work)?;
        let kept = format!("seed {seed}, --fsync {}; everything is in {}", policy.name(), work.display());
        let row = drill(&options, policy).map_err(|what| format!("FAILED: {what}\n{kept}"))?;
        match (options.control, row.found) {
            (true, 0) => {
                let table = report::table(&[row]);
                return Err(format!(
                    "FAILED: the control run found nothing, so the drill proves nothing\n{table}{kept}"
                ));
            }
            (true, found) => println!("control: found what was broken on purpose ({found})"),
            (false, _) => {}
        }
        rows.push(row);
    }
    print!("{}", report::table(&rows));
    std::fs::remove_dir_all(&work).map_err(|error| format!("remove {}: {error}", work.display()))
}
