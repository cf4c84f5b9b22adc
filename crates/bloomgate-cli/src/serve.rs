//! `bloomgate serve`: filters for every program that speaks the Redis protocol.

mod demo;

use std::net::SocketAddr;
use std::path::PathBuf;

use bloomgate_server::logging::{self, Format, Level};
use bloomgate_server::settings::HttpAt;
use bloomgate_server::settings::table::{self, Setting, TABLE};
use bloomgate_server::{Ready, Settings, serve};

use crate::cores;
use crate::failure::{DONE, ERROR, Failure, Outcome};
use crate::screen;
use crate::told::{self, Named};
use demo::Demo;

/// The folder that keeps the filters when none is named.
pub const DATA: &str = "bloomgate-data";

/// Serve filters to programs that speak the Redis protocol
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate serve                                      127.0.0.1:6479, HTTP on 127.0.0.1:8479, filters in ./bloomgate-data
  bloomgate serve --demo                               the same with filters and live traffic, in a folder that goes with it
  bloomgate serve --resp 127.0.0.1:0 --data none       any free port, nothing is kept
  bloomgate serve --data /var/lib/bloomgate --fsync always
  bloomgate serve --config bloomgate.toml --check      is everything right? Serves nothing
  bloomgate serve --resp none --tls 0.0.0.0:6480 --tls-cert cert.pem --tls-key key.pem --tls-client-ca ca.pem

  redis-cli -p 6479 BF.RESERVE seen 0.001 1000000
  redis-cli -p 6479 BF.MADD seen alice bob
  curl http://127.0.0.1:8479/v1/filters/seen/keys/alice

The commands are RedisBloom's BF.* and CF.*, Redis's own for names, connections and transactions, and BG.*; BG.HELP lists \
ours. Every client for Redis works. Keys are hashed under a secret that is made at the first start (DATA/master.key): \
without it the filters cannot answer, so keep a copy of it apart from the data.

--fsync says when a write is acknowledged: always waits for the disk; every-second (the default) can lose the last second \
when the power fails, and nothing when only the program ends; never leaves it to the operating system.

A setting is told by its flag, else by its variable (BLOOMGATE_MAX_MEMORY for --max-memory), else by its line in the file \
of --config (max-memory = \"8GB\"), else it is as the help says. An unknown name is an error. Without a flag, so by variable \
or file only: password (what clients give with AUTH), slower-than (microseconds, for SLOWLOG), snapshot-log (when the log is compacted), limits on clients \
(max-clients-per-address, idle-timeout, request-deadline, output-stall, output-limit, client-memory), http-hosts (names for --http \
without a login), probe, feedback-entries, feedback-ttl \
and feedback-settle (how the server watches its filters, see docs/operations.md), bf-* and cf-* (what filters are like that \
BF.ADD and CF.ADD make by themselves). CONFIG SET changes limits and defaults while it runs, CONFIG REWRITE writes them back to \
the file of --config.

Until there is a password or a user there is no login, and without --tls no encryption. It is reached from this machine \
alone unless --resp or --tls says otherwise, and in protected mode it refuses clients of other machines until there is one, or \
they have a certificate of --tls-client-ca. Users have passwords and roles (read, write, delete, admin): redis-cli -p 6479 ACL \
SETUSER shop on '>PASSWORD' +@read +@write. They are kept in DATA/access.toml; ACL LOAD or SIGHUP reads it again after a change \
by hand.

It stops on SIGTERM, SIGINT or SHUTDOWN, after every write that was acknowledged is on the disk; a second signal, a second \
later or more, ends it at once. On SIGHUP it reads certificate and users again, not the settings: those need CONFIG SET or a restart. What it says goes to standard error, with --log-format json an object a line.

Exit codes: 0 stopped as asked (--check: nothing is wrong), 2 error, or ended by a second signal.")]
pub struct Args {
    /// Where clients connect: HOST:PORT, or a port of this machine; port 0 takes any that is free, `none` none [default: 127.0.0.1:6479]
    #[arg(long, value_name = "ADDR")]
    resp: Option<String>,
    /// Where clients connect over TLS; `--resp none` leaves this one alone [default: none]
    #[arg(long, value_name = "ADDR")]
    tls: Option<String>,
    /// Where the HTTP API, the metrics and the dashboard are; `none` for nowhere [default: 127.0.0.1:8479, if that is free]
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Whether --http is served over TLS, with the certificate of --tls-cert [default: no]
    #[arg(long, value_name = "yes|no")]
    http_tls: Option<String>,
    /// The certificate for --tls and --http-tls, with the chain behind it (PEM); read again when it changes
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Authorities (PEM): over --tls and --http-tls only clients with a certificate of one of them are let in
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
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
    /// Memory for all filters together [default: three quarters of the machine's, or its control group's]
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
    /// The file of users and namespaces [default: access.toml in the data folder]
    #[arg(long, value_name = "FILE")]
    access: Option<String>,
    /// Whether clients of other machines are refused as long as there is no password and no user [default: yes]
    #[arg(long, value_name = "yes|no")]
    protected_mode: Option<String>,
    /// The folder whose files BG.BUILD may read [default: none]
    #[arg(long, value_name = "DIR")]
    import_dir: Option<String>,
    /// A URL that is told when an alert begins or ends; with a token in it rather by variable or file [default: none]
    #[arg(long, value_name = "URL")]
    alert_webhook: Option<String>,
    /// What is told on standard error: error, warn, info or debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// How it is told: text, or json with an object a line [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Show everything at work: filters of every kind with live traffic, and a gate, in a temporary folder or a new one of --data
    #[arg(long)]
    demo: bool,
    /// Read the settings, the users and the certificates, say what is wrong with them, and serve nothing
    #[arg(long)]
    check: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// What is to be said about a flag that is none because its setting has none: flags are seen by everybody, and some settings
/// are for files. Nothing where a flag is what was meant.
pub fn without_flag(given: &str) -> Option<String> {
    let name = given.strip_prefix("--")?.split('=').next()?;
    let known = <Args as clap::Args>::augment_args(clap::Command::new("serve"));
    let flags: Vec<&str> = known.get_arguments().filter_map(|flag| flag.get_long()).collect();
    let settings = TABLE.iter().map(|setting| setting.name).filter(|setting| !flags.contains(setting));
    let meant = table::near(name, settings.chain(flags.iter().copied())).filter(|meant| !flags.contains(meant))?;
    let otherwise =
        format!("set the variable {}, or the line `{meant} = ...` in the file of --config", told::variable(meant));
    Some(match name == meant {
        true => format!("the setting {meant} has no flag: {otherwise}"),
        false => {
            format!("unexpected argument '--{name}'; did you mean the setting '{meant}'? It has no flag: {otherwise}")
        }
    })
}

impl Args {
    /// What a flag says about a setting.
    fn flag(&self, name: &str) -> Option<&str> {
        let flag = match name {
            "resp" => &self.resp,
            "tls" => &self.tls,
            "http" => &self.http,
            "http-tls" => &self.http_tls,
            "tls-cert" => &self.tls_cert,
            "tls-key" => &self.tls_key,
            "tls-client-ca" => &self.tls_client_ca,
            "log-level" => &self.log_level,
            "log-format" => &self.log_format,
            "data" => &self.data,
            "fsync" => &self.fsync,
            "threads" => &self.threads,
            "max-memory" => &self.max_memory,
            "max-filter-memory" => &self.max_filter_memory,
            "max-filters" => &self.max_filters,
            "max-clients" => &self.max_clients,
            "master-key" => &self.master_key,
            "access" => &self.access,
            "protected-mode" => &self.protected_mode,
            "import-dir" => &self.import_dir,
            "alert-webhook" => &self.alert_webhook,
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

/// The settings, and the names of those that somebody told.
fn settings(args: &Args) -> Result<(Settings, Vec<&'static str>), Failure> {
    let http = HttpAt::IfFree(SocketAddr::from(([127, 0, 0, 1], HttpAt::PORT)));
    let mut settings = Settings { data: Some(DATA.into()), config: args.config.clone(), http, ..Settings::default() };
    let mut told = Vec::new();
    for (by, name, value) in told::all(TABLE, |name| args.flag(name), args.config.as_deref())? {
        told.push(name);
        table::set(&mut settings, name, &value).map_err(|why| Failure::Message(format!("{by}: {why}")))?;
    }
    told::unknown_variables(TABLE, is_of_gate)?;
    if args.quiet {
        settings.log_level = Level::Error;
    }
    Ok((settings, told))
}

/// What whoever starts it for the first time can do now; behind the addresses what there is of a demo.
fn greeting(ready: &Ready, demo: Option<Vec<String>>) -> String {
    let port = ready.address.port();
    let tls = if ready.tls == Some(ready.address) { " --tls" } else { "" };
    let mut lines = vec![format!("  Redis protocol   {}", ready.address)];
    let scheme = if ready.https { "https" } else { "http" };
    lines.extend(ready.http.map(|http| format!("  Dashboard        {scheme}://{http}/")));
    // Two commands, and what they are about as HTTP has it, or a third one.
    let (commands, path, instead) = match demo {
        None => (["BF.ADD seen alice", "BF.EXISTS seen mallory"], "filters/seen/keys/alice", "BG.INFO seen"),
        Some(told) => {
            lines.extend(told);
            (["BF.EXISTS users mallory", "BG.STATS mail:suppressed"], "advice", "BG.INFO users")
        }
    };
    lines.push("  Try".to_owned());
    lines.extend(commands.map(|command| format!("    redis-cli{tls} -p {port} {command}")));
    lines.push(match ready.http {
        Some(http) => format!("    curl {scheme}://{http}/v1/{path}"),
        None => format!("    redis-cli{tls} -p {port} {instead}"),
    });
    lines.join("\n")
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

/// Serves until it is told to stop.
pub fn run(args: &Args) -> Outcome {
    // Before any secret is read.
    cores::leave_none();
    let (mut settings, told) = settings(args)?;
    let demo = if args.demo { Some(Demo::prepare(&mut settings, &told)?) } else { None };
    if args.check {
        for note in bloomgate_server::serve::check(&settings)? {
            screen::tell(format_args!("warning: {note}"));
        }
        if !args.quiet {
            screen::tell("the settings are right, and so are the files that they name");
        }
        return Ok(DONE);
    }
    // Whoever names no folder tries it out.
    let tries = demo.is_some() || !told.contains(&"data");
    let greets = tries && settings.log_format == Format::Text && settings.log_level >= Level::Info;
    let mut running = None;
    // What clients made it hold, and what snapshots took, goes back when they are done.
    bloomgate::bits::give_back_large();
    let served = serve(&settings, |ready| {
        let begun = demo.as_ref().map(|demo| {
            let (told, begun) = demo.begin(ready);
            running = Some(begun);
            told
        });
        if greets {
            screen::tell(greeting(ready, begun));
        }
    });
    // Its clients and its gate end before its folder goes.
    drop((running, demo));
    match served {
        Ok(_) => Ok(DONE),
        Err(why) if settings.log_format == Format::Json => {
            screen::tell(logging::line(Format::Json, Level::Error, "failed", format_args!("{why}"), &[]).trim_end());
            Ok(ERROR)
        }
        Err(why) => Err(Failure::Message(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The example in packaging/ with every line, also those that are commented out.
    #[test]
    fn every_line_of_the_example_is_understood() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/bloomgate.toml");
        let folder = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(example).unwrap();
        let text = text.replace("/var/lib/bloomgate/import", folder.path().to_str().unwrap());
        // A setting begins a line, perhaps behind "# "; sentences have their = nowhere or further on.
        let is_setting = |line: &&str| {
            let key = line.split_once(" = ").map_or("", |(key, _)| key);
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        };
        let lines: Vec<&str> =
            text.lines().map(|line| line.strip_prefix("# ").unwrap_or(line)).filter(is_setting).collect();
        let file = folder.path().join("all.toml");
        std::fs::write(&file, lines.join("\n")).unwrap();
        let told = told::all(TABLE, |_| None, Some(&file)).unwrap_or_else(|_| panic!("{}", lines.join("\n")));
        let names: Vec<&str> = told.iter().map(|(_, name, _)| *name).collect();
        let missing: Vec<&str> =
            TABLE.iter().map(|setting| setting.name).filter(|name| !names.contains(name)).collect();
        assert!(missing.is_empty(), "the example does not show {missing:?}");
        assert_eq!(lines.len(), TABLE.len(), "{lines:?}");
        // What is not said to be an example is what holds without the line.
        const EXAMPLES: [&str; 16] = [
            "access",
            "alert-webhook",
            "http",
            "http-hosts",
            "tls",
            "tls-cert",
            "tls-key",
            "tls-client-ca",
            "password",
            "data",
            "master-key",
            "import-dir",
            "threads",
            "max-memory",
            "max-filter-memory",
            "client-memory",
        ];
        for (by, name, value) in told {
            let mut settings = Settings::default();
            table::set(&mut settings, name, &value).unwrap_or_else(|why| panic!("{by}: {why}"));
            if !EXAMPLES.contains(&name) {
                assert_eq!(settings, Settings::default(), "{name} = {value} is not the default");
            }
        }
    }
}
