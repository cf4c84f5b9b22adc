//! Every setting by name: what the command line, the environment, a file, CONFIG and the documentation agree on.
//!
//! A setting is told, first come first served, by its flag (`--max-memory`), by its variable in the environment
//! (`BLOOMGATE_MAX_MEMORY`), by its line in the file (`max-memory = "8GB"`), or stays as it is. A name that is not here
//! is an error that says which one is near. CONFIG SET changes those that are [`live`](Setting::live).

use std::path::PathBuf;
use std::time::Duration;

use super::{HttpAt, Settings};
use crate::access::Sealed;
use crate::engine::watch::WatchSettings;
use crate::store::Fsync;

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What its value is called in help.
    pub value: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Whether it may change while the server runs.
    pub live: bool,
    set: fn(&mut Settings, &str) -> Result<(), String>,
    /// Its value as a text that `set` takes; empty for none. Nothing for secrets.
    get: Option<fn(&Settings) -> String>,
}

/// All settings.
pub static TABLE: &[Setting] = &[
    Setting {
        name: "resp",
        value: "ADDR",
        about: "where clients of the Redis protocol connect; port 0 takes any that is free, `none` leaves TLS alone",
        live: false,
        set: |settings, text| {
            settings.resp = if text == "none" { None } else { Some(address(text)?) };
            Ok(())
        },
        get: Some(|settings| settings.resp.map_or("none".to_owned(), |address| address.to_string())),
    },
    Setting {
        name: "tls",
        value: "ADDR",
        about: "where clients of the Redis protocol connect over TLS; none unless said",
        live: false,
        set: |settings, text| {
            settings.tls = if text == "none" { None } else { Some(address(text)?) };
            Ok(())
        },
        get: Some(|settings| settings.tls.map_or("none".to_owned(), |address| address.to_string())),
    },
    Setting {
        name: "http",
        value: "ADDR",
        about: "where the HTTP API, the metrics and the dashboard are; `none` for nowhere",
        live: false,
        set: |settings, text| {
            settings.http = if text == "none" { HttpAt::None } else { HttpAt::At(address(text)?) };
            Ok(())
        },
        get: Some(|settings| settings.http.address().map_or("none".to_owned(), |address| address.to_string())),
    },
    Setting {
        name: "http-tls",
        value: "yes|no",
        about: "whether http is served over TLS, with the certificate, key and authorities of tls",
        live: false,
        set: |settings, text| {
            settings.http_tls = truth(text)?;
            Ok(())
        },
        get: Some(|settings| if settings.http_tls { "yes" } else { "no" }.to_owned()),
    },
    Setting {
        name: "http-hosts",
        value: "NAMES",
        about: "names, separated by commas, under which http may be asked for without a login, beside this machine's own",
        live: false,
        set: |settings, text| {
            settings.http_hosts = hosts(text)?;
            Ok(())
        },
        get: Some(|settings| settings.http_hosts.join(",")),
    },
    Setting {
        name: "tls-cert",
        value: "FILE",
        about: "the certificate for tls and http-tls, with the chain behind it (PEM); read again when it changes",
        live: false,
        set: |settings, text| {
            settings.tls_cert = file(text)?;
            Ok(())
        },
        get: Some(|settings| shown(&settings.tls_cert)),
    },
    Setting {
        name: "tls-key",
        value: "FILE",
        about: "the key of tls-cert (PEM)",
        live: false,
        set: |settings, text| {
            settings.tls_key = file(text)?;
            Ok(())
        },
        get: Some(|settings| shown(&settings.tls_key)),
    },
    Setting {
        name: "tls-client-ca",
        value: "FILE",
        about: "authorities (PEM): over tls and http-tls only clients with a certificate of one of them are let in",
        live: false,
        set: |settings, text| {
            settings.tls_client_ca = file(text)?;
            Ok(())
        },
        get: Some(|settings| shown(&settings.tls_client_ca)),
    },
    Setting {
        name: "data",
        value: "DIR",
        about: "the folder that keeps the filters; `none` keeps nothing",
        live: false,
        set: |settings, text| {
            settings.data = if text == "none" { None } else { Some(PathBuf::from(text)) };
            Ok(())
        },
        get: Some(|settings| shown(&settings.data)),
    },
    Setting {
        name: "fsync",
        value: "POLICY",
        about: "when a write counts as safe: always, every-second or never",
        live: false,
        set: |settings, text| {
            settings.fsync = text.parse::<Fsync>().map_err(|error| error.to_string())?;
            Ok(())
        },
        get: Some(|settings| settings.fsync.to_string()),
    },
    Setting {
        name: "snapshot-log",
        value: "SIZE",
        about: "the log that makes a snapshot by itself: as large as all filters, and this at least",
        live: false,
        set: |settings, text| {
            let bytes = size(text)?;
            if !(1 << 20..=1 << 40).contains(&bytes) {
                return Err(format!("'{text}' is not between 1MiB and 1TiB"));
            }
            settings.snapshot_log = bytes;
            Ok(())
        },
        get: Some(|settings| settings.snapshot_log.to_string()),
    },
    Setting {
        name: "threads",
        value: "N",
        about: "threads that serve connections; one for each core unless said",
        live: false,
        set: |settings, text| {
            settings.threads = number(text, 1, 1_024)? as usize;
            Ok(())
        },
        get: Some(|settings| settings.threads.to_string()),
    },
    Setting {
        name: "max-memory",
        value: "SIZE",
        about: "memory for all filters together; three quarters of the machine's, or of its control group's, unless said",
        live: true,
        set: |settings, text| {
            let (most, limits) = (size(text)?, &mut settings.limits);
            // Nothing said about one filter means that it may have all.
            let follows = limits.max_filter_memory == limits.max_memory;
            limits.max_filter_memory = if follows { most } else { limits.max_filter_memory.min(most) };
            limits.max_memory = most;
            Ok(())
        },
        get: Some(|settings| settings.limits.max_memory.to_string()),
    },
    Setting {
        name: "max-filter-memory",
        value: "SIZE",
        about: "memory for one filter",
        live: true,
        set: |settings, text| {
            settings.limits.max_filter_memory = size(text)?;
            Ok(())
        },
        get: Some(|settings| settings.limits.max_filter_memory.to_string()),
    },
    Setting {
        name: "max-filters",
        value: "N",
        about: "how many filters there may be",
        live: true,
        set: |settings, text| {
            settings.limits.max_filters = number(text, 1, 1 << 40)?;
            Ok(())
        },
        get: Some(|settings| settings.limits.max_filters.to_string()),
    },
    Setting {
        name: "max-clients",
        value: "N",
        about: "connections at once",
        live: true,
        set: |settings, text| {
            settings.max_clients = number(text, 1, 1 << 20)? as usize;
            Ok(())
        },
        get: Some(|settings| settings.max_clients.to_string()),
    },
    Setting {
        name: "max-clients-per-address",
        value: "N",
        about: "connections at once from one address (of IPv6: one /64), this machine's own excepted; 0 for no such limit",
        live: true,
        set: |settings, text| {
            settings.max_clients_per_address = number(text, 0, 1 << 20)? as usize;
            Ok(())
        },
        get: Some(|settings| settings.max_clients_per_address.to_string()),
    },
    Setting {
        name: "idle-timeout",
        value: "TIME",
        about: "connections on which nothing is asked for so long are closed, 100ms or more; 0 never does",
        live: true,
        set: |settings, text| {
            let never = time(text, Duration::ZERO)?.is_zero();
            settings.idle_timeout = time(text, if never { Duration::ZERO } else { SHORTEST })?;
            Ok(())
        },
        get: Some(|settings| time_text(settings.idle_timeout)),
    },
    Setting {
        name: "request-deadline",
        value: "TIME",
        about: "a request that has begun must be whole within this time, and a second more for each 64 KB",
        live: true,
        set: |settings, text| {
            settings.request_deadline = time(text, SHORTEST)?;
            Ok(())
        },
        get: Some(|settings| time_text(settings.request_deadline)),
    },
    Setting {
        name: "output-stall",
        value: "TIME",
        about: "a client that takes none of its replies for so long is dropped",
        live: true,
        set: |settings, text| {
            settings.output_stall = time(text, SHORTEST)?;
            Ok(())
        },
        get: Some(|settings| time_text(settings.output_stall)),
    },
    Setting {
        name: "output-limit",
        value: "SIZE",
        about: "bytes that the reply to one command may take; of a transaction, after which its other commands are not run",
        live: true,
        set: |settings, text| {
            let bytes = size(text)?;
            if !(1 << 20..=1 << 32).contains(&bytes) {
                return Err(format!("'{text}' is not between 1MiB and 4GiB"));
            }
            settings.output_limit = bytes as usize;
            Ok(())
        },
        get: Some(|settings| settings.output_limit.to_string()),
    },
    Setting {
        name: "client-memory",
        value: "SIZE",
        about: "memory for what all clients make the server hold: requests that are not whole, transactions, replies not taken",
        live: true,
        set: |settings, text| {
            let bytes = size(text)?;
            if !(1 << 20..=1 << 40).contains(&bytes) {
                return Err(format!("'{text}' is not between 1MiB and 1TiB"));
            }
            settings.client_memory = bytes;
            Ok(())
        },
        get: Some(|settings| settings.client_memory.to_string()),
    },
    Setting {
        name: "password",
        value: "TEXT",
        about: "a password that clients have to give with AUTH; in a file or the environment, never a flag",
        live: false,
        set: |settings, text| {
            if text.is_empty() {
                return Err("a password has at least one character; leave the setting out for none".to_owned());
            }
            settings.password = Some(Sealed::new(text)?);
            Ok(())
        },
        get: None,
    },
    Setting {
        name: "access",
        value: "FILE",
        about: "the file of users and namespaces (TOML, mode 0600); access.toml in the data folder unless said",
        live: false,
        set: |settings, text| {
            settings.access = file(text)?;
            Ok(())
        },
        get: Some(|settings| {
            let in_data = settings.data.as_ref().map(|data| data.join("access.toml"));
            shown(&settings.access.clone().or(in_data))
        }),
    },
    Setting {
        name: "protected-mode",
        value: "yes|no",
        about: "whether clients of other machines are refused as long as there is no password and no user",
        live: false,
        set: |settings, text| {
            settings.protected_mode = truth(text)?;
            Ok(())
        },
        get: Some(|settings| if settings.protected_mode { "yes" } else { "no" }.to_owned()),
    },
    Setting {
        name: "master-key",
        value: "FILE",
        about: "the file of the master secret (64 hexadecimal digits, mode 0600); made in the data folder unless said",
        live: false,
        set: |settings, text| {
            settings.master_key = file(text)?;
            Ok(())
        },
        get: Some(|settings| shown(&settings.master_key)),
    },
    Setting {
        name: "import-dir",
        value: "DIR",
        about: "the folder whose files BG.BUILD may read; none unless said",
        live: false,
        set: |settings, text| {
            let folder = PathBuf::from(text);
            if !folder.is_dir() {
                return Err(format!("'{text}' is no folder: make it, or leave the setting out"));
            }
            settings.import_dir = Some(folder);
            Ok(())
        },
        get: Some(|settings| shown(&settings.import_dir)),
    },
    Setting {
        name: "slower-than",
        value: "MICROSECONDS",
        about: "commands that take longer are noted in the slow log; -1 for none",
        live: true,
        set: |settings, text| {
            settings.slow_micros = if text == "-1" { u64::MAX } else { number(text, 0, i64::MAX as u64)? };
            Ok(())
        },
        get: Some(|settings| match settings.slow_micros {
            u64::MAX => "-1".to_owned(),
            micros => micros.to_string(),
        }),
    },
    Setting {
        name: "log-level",
        value: "LEVEL",
        about: "what is told on standard error: error, warn, info or debug",
        live: true,
        set: |settings, text| {
            settings.log_level = text.parse()?;
            Ok(())
        },
        get: Some(|settings| settings.log_level.name().to_owned()),
    },
    Setting {
        name: "log-format",
        value: "FORMAT",
        about: "how it is told: text, or json with an object a line",
        live: false,
        set: |settings, text| {
            settings.log_format = text.parse()?;
            Ok(())
        },
        get: Some(|settings| settings.log_format.name().to_owned()),
    },
    Setting {
        name: "probe",
        value: "SHARE",
        about: "measures each filter's rate in the background: on, off, or the share of a core that it may take (0.01)",
        live: false,
        set: |settings, text| {
            settings.watch.share = match text {
                "on" => WatchSettings::default().share,
                "off" => 0.0,
                _ => {
                    let share = text.parse().ok().filter(|share| (1e-4..=0.5).contains(share));
                    share
                        .ok_or_else(|| format!("'{text}' is not on, off or a share from 0.0001 to 0.5; 1 % is 0.01"))?
                }
            };
            Ok(())
        },
        get: Some(|settings| match settings.watch.share > 0.0 {
            true => settings.watch.share.to_string(),
            false => "off".to_owned(),
        }),
    },
    Setting {
        name: "alert-webhook",
        value: "URL",
        about: "http:// or https:// URL that is told when an alert begins or ends, as Alertmanager would; none unless said",
        live: false,
        set: |settings, text| {
            settings.alert_webhook = match text {
                "none" => None,
                _ => Some(text.parse().map_err(|error: bloomgate_http::Error| error.to_string())?),
            };
            Ok(())
        },
        // Its path may hold a token.
        get: None,
    },
    Setting {
        name: "feedback-entries",
        value: "N",
        about: "items that BG.FEEDBACK keeps for all filters, 20 bytes each and charged with the first; 0 takes none",
        live: false,
        set: |settings, text| {
            settings.watch.feedback_entries = number(text, 0, 1 << 32)?;
            Ok(())
        },
        get: Some(|settings| settings.watch.feedback_entries.to_string()),
    },
    Setting {
        name: "feedback-ttl",
        value: "SECONDS",
        about: "how long an item that was reported absent is answered with no",
        live: false,
        set: |settings, text| {
            settings.watch.feedback_ttl = number(text, 1, 365 * 86_400)?;
            Ok(())
        },
        get: Some(|settings| settings.watch.feedback_ttl.to_string()),
    },
    Setting {
        name: "feedback-settle",
        value: "SECONDS",
        about: "how long an item that was added cannot be reported: longer than any write to your database takes",
        live: false,
        set: |settings, text| {
            settings.watch.feedback_settle = number(text, 0, 86_400)?;
            Ok(())
        },
        get: Some(|settings| settings.watch.feedback_settle.to_string()),
    },
    Setting {
        name: "bf-error-rate",
        value: "P",
        about: "the rate of filters that BF.ADD makes by itself",
        live: true,
        set: |settings, text| {
            settings.defaults.bf_error_rate = rate(text)?;
            Ok(())
        },
        get: Some(|settings| settings.defaults.bf_error_rate.to_string()),
    },
    Setting {
        name: "bf-initial-size",
        value: "N",
        about: "the capacity of filters that BF.ADD makes by itself",
        live: true,
        set: |settings, text| {
            settings.defaults.bf_initial_size = number(text, 1, 1 << 30)?;
            Ok(())
        },
        get: Some(|settings| settings.defaults.bf_initial_size.to_string()),
    },
    Setting {
        name: "bf-expansion-factor",
        value: "N",
        about: "how much larger each next stage of a filter is; 0 for filters that do not grow",
        live: true,
        set: |settings, text| {
            settings.defaults.bf_expansion_factor = number(text, 0, 32_768)? as u32;
            Ok(())
        },
        get: Some(|settings| settings.defaults.bf_expansion_factor.to_string()),
    },
    Setting {
        name: "cf-bucket-size",
        value: "N",
        about: "the bucket size that is told of filters that CF.ADD makes by itself",
        live: true,
        set: |settings, text| {
            settings.defaults.cf_bucket_size = number(text, 1, 255)? as u16;
            Ok(())
        },
        get: Some(|settings| settings.defaults.cf_bucket_size.to_string()),
    },
    Setting {
        name: "cf-initial-size",
        value: "N",
        about: "the capacity of filters that CF.ADD makes by itself",
        live: true,
        set: |settings, text| {
            settings.defaults.cf_initial_size = number(text, 4, 1 << 30)?;
            Ok(())
        },
        get: Some(|settings| settings.defaults.cf_initial_size.to_string()),
    },
    Setting {
        name: "cf-max-iterations",
        value: "N",
        about: "the iterations that are told of filters that CF.ADD makes by itself",
        live: true,
        set: |settings, text| {
            settings.defaults.cf_max_iterations = number(text, 1, 65_535)? as u16;
            Ok(())
        },
        get: Some(|settings| settings.defaults.cf_max_iterations.to_string()),
    },
    Setting {
        name: "cf-expansion-factor",
        value: "N",
        about: "how much larger each next table of a filter of CF.ADD is; 0 for filters that do not grow",
        live: true,
        set: |settings, text| {
            settings.defaults.cf_expansion_factor = number(text, 0, 32_768)? as u16;
            Ok(())
        },
        get: Some(|settings| settings.defaults.cf_expansion_factor.to_string()),
    },
    Setting {
        name: "cf-error-rate",
        value: "P",
        about: "the rate of filters that CF.ADD makes by itself",
        live: true,
        set: |settings, text| {
            settings.defaults.cf_error_rate = rate(text)?;
            Ok(())
        },
        get: Some(|settings| settings.defaults.cf_error_rate.to_string()),
    },
];

/// The least that a limit on the time of a client may be: less would cut honest ones.
const SHORTEST: Duration = Duration::from_millis(100);
/// The most.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

impl Setting {
    /// Its value in these settings; nothing for secrets.
    #[must_use]
    pub fn text(&self, settings: &Settings) -> Option<String> {
        self.get.map(|get| get(settings))
    }
}

/// Sets one setting by its name. The error does not name it: who calls knows whether a flag, a variable or a file said so.
pub fn set(settings: &mut Settings, name: &str, text: &str) -> Result<(), String> {
    (find(name)?.set)(settings, text)
}

/// The setting of a name, or which one is near.
pub fn find(name: &str) -> Result<&'static Setting, String> {
    TABLE.iter().find(|setting| setting.name == name).ok_or_else(|| {
        match near(name, TABLE.iter().map(|setting| setting.name)) {
            Some(near) => format!("there is no setting '{name}'; did you mean '{near}'?"),
            None => {
                let names: Vec<&str> = TABLE.iter().map(|setting| setting.name).collect();
                format!("there is no setting '{name}'; there are {}", names.join(", "))
            }
        }
    })
}

/// The name that is nearest to a wrong one, if it is near.
pub fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (steps, near) = known.map(|known| (strsim::levenshtein(name, known), known)).min()?;
    (steps <= (name.len() / 2).min(3.max(name.len() / 3))).then_some(near)
}

fn address(text: &str) -> Result<std::net::SocketAddr, String> {
    use std::net::ToSocketAddrs;
    // A port alone is one of this machine, and seen from this machine only.
    let full =
        if text.bytes().all(|byte| byte.is_ascii_digit()) { format!("127.0.0.1:{text}") } else { text.to_owned() };
    let mut found = full
        .to_socket_addrs()
        .map_err(|error| format!("'{text}' is no address ({error}); give one like 127.0.0.1:6479"))?;
    found.next().ok_or_else(|| format!("'{text}' names no address"))
}

/// Names of hosts, without ports.
fn hosts(text: &str) -> Result<Vec<String>, String> {
    let name = |name: &str| {
        let is_name = |name: &str| {
            (1..=253).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        };
        let is_address = |name: &str| name.parse::<std::net::IpAddr>().is_ok();
        match is_name(name) || is_address(name) {
            true => Ok(name.to_owned()),
            false => Err(format!("'{name}' is no name of a host; give one like filters.example.com, without a port")),
        }
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(name).collect()
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err(format!("'{text}' is neither yes nor no")),
    }
}

fn file(text: &str) -> Result<Option<PathBuf>, String> {
    match text.is_empty() {
        true => Err("the name of a file has at least one character; leave the setting out for none".to_owned()),
        false => Ok(Some(PathBuf::from(text))),
    }
}

fn shown(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("'{text}' is no rate; 1 % is 0.01"))?;
    match rate > 0.0 && rate < 1.0 {
        true => Ok(rate.min(0.25)),
        false => Err(format!("a rate lies between 0 and 1, both excluded, not {rate}; 1 % is 0.01")),
    }
}

/// A time with a unit: 500ms, 30s, 5m, 1h; without one it is in seconds.
fn time(text: &str, least: Duration) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no time; give one like 500ms, 30s, 5m or 1h");
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let amount: u64 = digits.parse().map_err(|_| wrong())?;
    let factor = match unit.trim() {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let time =
        amount.checked_mul(factor).map(Duration::from_millis).filter(|time| *time <= LONGEST).ok_or_else(wrong)?;
    match time >= least {
        true => Ok(time),
        false => Err(format!("'{text}' is too short: {} at least", time_text(least))),
    }
}

/// A time as [`time`] reads it.
fn time_text(time: Duration) -> String {
    match time.as_millis() {
        0 => "0".to_owned(),
        millis if millis % 1_000 == 0 => format!("{}s", millis / 1_000),
        millis => format!("{millis}ms"),
    }
}

fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number: u64 = text.replace('_', "").parse().map_err(|_| format!("'{text}' is no whole number"))?;
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(format!("{number} is not between {least} and {most}")),
    }
}

/// Bytes with a unit: 512MB, 8GiB, 1000000.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    bloomgate_command::size(text).ok_or_else(|| format!("'{text}' is no size; give one like 512MB, 8GiB or 1000000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_say_why() {
        let mut settings = Settings::default();
        set(&mut settings, "resp", "7000").unwrap();
        set(&mut settings, "max-memory", "1.5GB").unwrap();
        set(&mut settings, "fsync", "everysec").unwrap();
        set(&mut settings, "data", "none").unwrap();
        assert_eq!(settings.resp, "127.0.0.1:7000".parse().ok());
        assert_eq!(settings.limits.max_memory, 1_500_000_000);
        assert!(settings.limits.max_filter_memory <= 1_500_000_000);
        assert_eq!((settings.fsync, settings.data.clone()), (Fsync::EverySecond, None));
        for (name, text, says) in [
            ("resp", "nowhere", "no address"),
            ("threads", "0", "not between 1 and 1024"),
            ("max-memory", "lots", "512MB"),
            ("bf-error-rate", "1", "between 0 and 1"),
            ("fsync", "sometimes", "always"),
            ("protected-mode", "perhaps", "neither yes nor no"),
            ("probe", "2", "a share from 0.0001 to 0.5"),
            ("feedback-ttl", "0", "not between 1 and 31536000"),
            ("import-dir", "/nowhere/at/all", "'/nowhere/at/all' is no folder"),
            ("max-memry", "1", "did you mean 'max-memory'"),
            ("colour", "1", "there are resp, tls"),
            ("idle-timeout", "soon", "500ms, 30s, 5m or 1h"),
            ("idle-timeout", "18446744073709551615h", "is no time"),
            ("output-stall", "0", "100ms at least"),
            ("idle-timeout", "1ms", "100ms at least"),
            ("output-limit", "5GiB", "between 1MiB and 4GiB"),
            ("client-memory", "1000", "between 1MiB and 1TiB"),
            ("snapshot-log", "1000", "between 1MiB and 1TiB"),
            ("tls-cert", "", "at least one character"),
            ("http", "everywhere", "no address"),
            ("http-tls", "perhaps", "neither yes nor no"),
            ("http-hosts", "filters.example.com:80", "without a port"),
            ("log-level", "loud", "error, warn, info and debug"),
            ("log-format", "xml", "text and json"),
            ("cf-error-rate", "nan", "between 0 and 1"),
            ("alert-webhook", "ftp://alerts.example/hook", "neither http nor https"),
        ] {
            let error = set(&mut settings, name, text).unwrap_err();
            assert!(error.contains(says), "{name} {text}: {error}");
        }
    }

    #[test]
    fn what_a_setting_tells_is_what_it_takes() {
        let mut told = Settings::default();
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("resp", "none"),
            ("tls", "[::1]:7001"),
            ("http", "[::1]:7002"),
            ("http-tls", "yes"),
            ("http-hosts", "filters.example.com,192.0.2.7"),
            ("tls-cert", "cert.pem"),
            ("import-dir", folder.path().to_str().unwrap()),
            ("max-memory", "1000000"),
            ("max-clients-per-address", "0"),
            ("idle-timeout", "1500ms"),
            ("request-deadline", "60s"),
            ("output-limit", "1048576"),
            ("client-memory", "33554432"),
            ("snapshot-log", "2097152"),
            ("slower-than", "-1"),
            ("log-level", "debug"),
            ("bf-error-rate", "0.001"),
            ("cf-expansion-factor", "4"),
        ] {
            set(&mut told, name, text).unwrap();
            assert_eq!(find(name).unwrap().text(&told).as_deref(), Some(text), "{name}");
        }
        assert_eq!(told.limits.max_filter_memory, 1_000_000, "one filter may have all unless it is said");
        set(&mut told, "max-filter-memory", "5000").unwrap();
        set(&mut told, "max-memory", "2000000").unwrap();
        assert_eq!(told.limits.max_filter_memory, 5_000);
        // Everything that is told can be told again, and comes to the same.
        let mut again = Settings { import_dir: None, ..Settings::default() };
        for setting in TABLE {
            let text = setting.text(&told);
            assert_eq!(text.is_none(), matches!(setting.name, "password" | "alert-webhook"), "{}", setting.name);
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                set(&mut again, setting.name, &text).unwrap();
            }
        }
        assert_eq!(again, told);
    }
}
