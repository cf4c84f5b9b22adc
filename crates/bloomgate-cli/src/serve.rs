//! `bloomgate serve`: filters for every program that speaks the Redis protocol.

use std::path::PathBuf;

use bloomgate_server::settings::table::{self, Setting, TABLE};
use bloomgate_server::{Ready, Settings, serve};

use crate::failure::{DONE, Failure, Outcome};
use crate::number::{bytes, counted, duration};
use crate::screen;
use crate::told::{self, Named};

/// The folder that keeps the filters when none is named.
const DATA: &str = "bloomgate-data";

/// Serve filters to programs that speak the Redis protocol
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate serve                                      127.0.0.1:6479, filters in ./bloomgate-data
  bloomgate serve --resp 127.0.0.1:0 --data none       any free port, nothing is kept
  bloomgate serve --data /var/lib/bloomgate --fsync always

  redis-cli -p 6479 BF.RESERVE seen 0.001 1000000
  redis-cli -p 6479 BF.MADD seen alice bob

The commands are RedisBloom's BF.* and CF.*, Redis's own for names, connections and transactions, and BG.*; BG.HELP lists \
ours. Every client for Redis works. Keys are hashed under a secret that is made at the first start (DATA/master.key): \
without it the filters cannot answer, so keep a copy of it apart from the data.

--fsync says when a write is acknowledged: always waits for the disk; every-second (the default) can lose the last second \
when the power fails, and nothing when only the program ends; never leaves it to the operating system.

A setting is told by its flag, else by its variable (BLOOMGATE_MAX_MEMORY for --max-memory), else by its line in the file \
of --config (max-memory = \"8GB\"), else it is as the help says. An unknown name is an error. Without a flag, so by variable \
or file only: password (what clients give with AUTH), slower-than (microseconds, for SLOWLOG), probe, feedback-entries, \
feedback-ttl and feedback-settle (how the server watches its filters, see docs/operations.md), bf-error-rate, \
bf-initial-size, bf-expansion-factor and cf-initial-size (of filters that BF.ADD and CF.ADD make by themselves).

There is no encryption and, without a password, no login: who reaches the address can do everything. It is reached from this \
machine alone unless --resp says otherwise.

It stops on SIGTERM, SIGINT or SHUTDOWN, after every write that was acknowledged is on the disk.

Exit codes: 0 stopped as asked, 2 error.")]
pub struct Args {
    /// Where clients connect: HOST:PORT, or a port of this machine; port 0 takes any that is free [default: 127.0.0.1:6479]
    #[arg(long, value_name = "ADDR")]
    resp: Option<String>,
    /// The folder that keeps the filters; `none` keeps nothing [default: bloomgate-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// When a write counts as safe: always, every-second or never [default: every-second]
    #[arg(long, value_name = "POLICY")]
    fsync: Option<String>,
    /// Threads that serve connections [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<String>,
    /// A TOML file of settings
    #[arg(long, value_name = "FILE", env = "BLOOMGATE_CONFIG")]
    config: Option<PathBuf>,
    /// Memory for all filters together [default: three quarters of the machine's]
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<String>,
    /// Memory for one filter [default: as --max-memory]
    #[arg(long, value_name = "SIZE")]
    max_filter_memory: Option<String>,
    /// How many filters there may be [default: 10000000]
    #[arg(long, value_name = "N")]
    max_filters: Option<String>,
    /// Connections at once [default: 10000]
    #[arg(long, value_name = "N")]
    max_clients: Option<String>,
    /// The file of the master secret [default: master.key in the data folder]
    #[arg(long, value_name = "FILE")]
    master_key: Option<String>,
    /// The folder whose files BG.BUILD may read [default: none]
    #[arg(long, value_name = "DIR")]
    import_dir: Option<String>,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    /// What a flag says about a setting.
    fn flag(&self, name: &str) -> Option<&str> {
        let flag = match name {
            "resp" => &self.resp,
            "data" => &self.data,
            "fsync" => &self.fsync,
            "threads" => &self.threads,
            "max-memory" => &self.max_memory,
            "max-filter-memory" => &self.max_filter_memory,
            "max-filters" => &self.max_filters,
            "max-clients" => &self.max_clients,
            "master-key" => &self.master_key,
            "import-dir" => &self.import_dir,
            // Passwords would be seen by everybody who lists processes; the rest is for files.
            _ => &None,
        };
        flag.as_deref()
    }
}

impl Named for Setting {
    fn name(&self) -> &'static str {
        self.name
    }
}

fn settings(args: &Args) -> Result<Settings, Failure> {
    let mut settings = Settings { data: Some(DATA.into()), ..Settings::default() };
    for (by, name, value) in told::all(TABLE, |name| args.flag(name), args.config.as_deref())? {
        table::set(&mut settings, name, &value).map_err(|why| Failure::Message(format!("{by}: {why}")))?;
    }
    told::unknown_variables(TABLE, is_of_gate)?;
    Ok(settings)
}

#[cfg(feature = "gate")]
fn is_of_gate(name: &str) -> bool {
    crate::gate::is_setting(name)
}

#[cfg(not(feature = "gate"))]
fn is_of_gate(_: &str) -> bool {
    false
}

/// Whether this is a setting of `serve`: its variable is no mistake beside another verb.
#[cfg(feature = "gate")]
pub fn is_setting(name: &str) -> bool {
    TABLE.iter().any(|setting| setting.name == name)
}

fn tell(ready: &Ready, settings: &Settings) {
    let mut line = format!("bloomgate: ready on {}", ready.address);
    match &settings.data {
        Some(data) => line.push_str(&format!(
            ", {} in {}, fsync {}, {}",
            counted(ready.found.filters as u64, "filter"),
            data.display(),
            settings.fsync,
            counted(settings.threads as u64, "thread"),
        )),
        None => line.push_str(", nothing is kept"),
    }
    if ready.found.batches > 0 {
        line.push_str(&format!(
            " (read {} of the log in {})",
            counted(ready.found.batches, "write"),
            duration(ready.took)
        ));
    }
    screen::tell(&line);
    if ready.found.torn_bytes > 0 {
        screen::tell(format!(
            "bloomgate: left out {} of a write that was not finished when the server ended; it was never acknowledged as safe",
            bytes(ready.found.torn_bytes)
        ));
    }
}

/// Serves until it is told to stop.
pub fn run(args: &Args) -> Outcome {
    let settings = settings(args)?;
    let quiet = args.quiet;
    if !quiet {
        settings.warnings().iter().for_each(screen::note);
    }
    let stopped = serve(&settings, |ready| {
        if !quiet {
            tell(ready, &settings);
        }
        // What clients will get, without the word that only their protocol needs.
        ready.found.unavailable.iter().for_each(|why| screen::complain(why.strip_prefix("ERR ").unwrap_or(why)));
    })
    .map_err(Failure::Message)?;
    for job in &stopped.abandoned {
        screen::note(format!("{job} was still running and is given up: its client was told nothing, give it again"));
    }
    Ok(DONE)
}
