//! Bloomgate beside its peers: one process, the same keys, the thread's CPU time.

mod args;
mod bare_proxy;
mod clock;
mod floor;
mod gate;
mod guard;
mod hashes;
mod keys;
mod kinds;
mod lines;
mod memory;
mod ours;
mod peers;
mod promise;
mod race;
mod relatives;
mod server;
mod shared_machine;
mod sides;
mod stolen;
mod targets;

use args::{Args, Fault};
use std::process::ExitCode;

/// What `--help` prints.
const HELP: &str = "\
Bloomgate beside its peers: one process, the same keys, the thread's CPU time, minimum over passes.

scripts/bench peers [options]     our filters beside the peers
    --n N[,N..]      numbers of keys (20000,1000000)
    --rate P         false-positive rate asked of everyone (0.01)
    --keys u64|str   whole numbers, or texts of 16 to 40 bytes (u64)
    --kind K         our side: any of ours but stable (blocked)
    --peer A[,B..]   fastbloom, fastbloom+foldhash, fastbloom-atomic+foldhash, bloomfilter, sbbf-rs-safe, hashset,
                     floor; growable-bloom-filter, cuckoofilter, scalable_cuckoo_filter, qfilter, xorf8, xorf16,
                     ribbon-filter; four of these also with +foldhash; or unkeyed, our own batch without a secret (those that do what the kind does)
    --threads T      threads at once; only shared filters take part from 2 on (1)
    --passes R       passes, of which the best counts (by the number of keys)
    --keyed          our side hashes with SipHash-1-3 under a secret
    --json           one JSON object a line and nothing else
scripts/bench targets [options]   every promised figure, measured and judged
    --max-n N        leave out what needs more keys (1000000)
    --rounds R       ratios are the median of R rounds (3)
    --passes R       passes in a round
    --only TEXT      only targets whose line contains TEXT
scripts/bench promise [--n N[,N..]] [--rate P[,P..]] [--kind K[,K..]] [--probes M] [--json]
                                  zero lost keys and the rate that was asked, at any size
scripts/bench kinds [--n N[,N..]] [--rate P] [--kind K[,K..]] [--passes R]
                                  every kind of ours in one table: bits, build, hit, miss, single and batched
scripts/bench floor [--mb N[,N..]] [--passes R] [--json]
                                  random 64-byte reads, 32 in flight: what the memory allows (128,1024)
scripts/bench lines [--n N[,N..]] [--bits B] [--passes R] [--json]
                                  the two layouts of a 512-bit line side by side
scripts/bench hashes [--rounds R]  what the secret costs: batches under SipHash-1-3 beside XXH3, keys of many lengths
scripts/bench guard [--rounds R]   what a guard adds to the lookup of an absent key
scripts/bench gate [--binary PATH] [--rounds R] [--seconds S] [--quick]
                                  what the gate adds to a lookup, in one process, over HTTP beside a bare axum handler
                                  and as a proxy beside a bare one of hyper, under wrk; exit 1 if a promised figure is
                                  missed (--quick judges nothing)
scripts/bench server [options]    `bloomgate serve` beside redis-server, every promised figure judged; exit 1 if one
                                  is missed
    --binary PATH    the bloomgate to use (built for the run)
    --server CMD     another way to start it, with {port}, {folder}, {threads} and {fsync}
    --rounds R       medians of R rounds (5; pipeline 1 and hashing 7; two threads 9; log replay 3)
    --seconds S      of each cell; lookups beside something big take four times that (1)
    --max-n N        leave out larger filters (100000000)
    --only TEXT      only rows whose line contains TEXT
    --folder DIR     where the servers keep their data meanwhile: fsync is as fast as its disk (TMPDIR or /tmp)
    --json FILE      the table as one JSON object
    --quick          all rows once and briefly, no filter above a million items; judges nothing
    --calibrate      redis-server in our place: what the noise alone does
scripts/bench server --load CMD [--address HOST:PORT] [-P DEPTH] [-c CONNECTIONS] [-t THREADS] [-d SECONDS]
                                  load on a running server (127.0.0.1:6479): 'BF.EXISTS f {random 1000000}',
                                  'BF.MADD f {new x100}'";

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

fn run(mut args: Args) -> Result<ExitCode, Fault> {
    match args.word().as_deref() {
        Some("server") => return server::run(&mut args),
        Some("gate") => return gate::run(&mut args),
        Some("bare") => gate::bare(&mut args),
        Some("bare-proxy") => bare_proxy::run(&mut args),
        Some("peers") => peers::run(&mut args),
        Some("promise") => promise::run(&mut args),
        Some("targets") => targets::run(&mut args),
        Some("lines") => lines::run(&mut args),
        Some("kinds") => kinds::run(&mut args),
        Some("floor") => floor::run(&mut args),
        Some("hashes") => hashes::run(&mut args),
        Some("guard") => guard::run(&mut args),
        Some("--help" | "-h" | "help") => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => Err(Fault(format!("unknown command {other:?}; see --help"))),
        None => Err(Fault(format!("no command\n{HELP}"))),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    match run(Args::new(std::env::args().skip(1).collect())) {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("bench: {fault}");
            ExitCode::from(2)
        }
    }
}
