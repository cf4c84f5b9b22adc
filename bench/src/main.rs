//! Bloomgate beside its peers: one process, the same keys, the thread's CPU time.

mod args;
mod clock;
mod floor;
mod keys;
mod lines;
mod memory;

use args::{Args, Fault};

/// What `--help` prints.
const HELP: &str = "todo";

/// The processor this runs on, in one line.
fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpu.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_string())
    };
    let model = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_string());
    let cache = field("cache size").map_or(String::new(), |size| format!(", {size} of cache per core"));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    format!("CPU: {model}, {cores} cores{cache}")
}

fn run(mut args: Args) -> Result<(), Fault> {
    match args.word().as_deref() {
        Some("lines") => lines::run(&mut args),
        Some("floor") => floor::run(&mut args),
        Some("--help" | "-h" | "help") => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => Err(Fault(format!("unknown command {other:?}; see --help"))),
        None => Err(Fault(format!("no command\n{HELP}"))),
    }
}

fn main() -> std::process::ExitCode {
    match run(Args::new(std::env::args().skip(1).collect())) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("bench: {fault}");
            std::process::ExitCode::from(2)
        }
    }
}
