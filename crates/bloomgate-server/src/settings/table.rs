//! Every setting by name: what the command line, the environment, a file and the documentation agree on.
//!
//! A setting is told, first come first served, by its flag (`--max-memory`), by its variable in the environment
//! (`BLOOMGATE_MAX_MEMORY`), by its line in the file (`max-memory = "8GB"`), or stays as it is. A name that is not here
//! is an error that says which one is near.

use std::path::PathBuf;

use super::Settings;
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
    set: fn(&mut Settings, &str) -> Result<(), String>,
}

/// All settings.
pub static TABLE: &[Setting] = &[
    Setting {
        name: "resp",
        value: "ADDR",
        about: "where clients of the Redis protocol connect; port 0 takes any that is free",
        set: |settings, text| {
            settings.resp = address(text)?;
            Ok(())
        },
    },
    Setting {
        name: "data",
        value: "DIR",
        about: "the folder that keeps the filters; `none` keeps nothing",
        set: |settings, text| {
            settings.data = if text == "none" { None } else { Some(PathBuf::from(text)) };
            Ok(())
        },
    },
    Setting {
        name: "fsync",
        value: "POLICY",
        about: "when a write counts as safe: always, every-second or never",
        set: |settings, text| {
            settings.fsync = text.parse::<Fsync>().map_err(|error| error.to_string())?;
            Ok(())
        },
    },
    Setting {
        name: "threads",
        value: "N",
        about: "threads that serve connections; one for each core unless said",
        set: |settings, text| {
            settings.threads = number(text, 1, 1_024)? as usize;
            Ok(())
        },
    },
    Setting {
        name: "max-memory",
        value: "SIZE",
        about: "memory for all filters together; three quarters of the machine's unless said",
        set: |settings, text| {
            settings.limits.max_memory = size(text)?;
            settings.limits.max_filter_memory = settings.limits.max_filter_memory.min(settings.limits.max_memory);
            Ok(())
        },
    },
    Setting {
        name: "max-filter-memory",
        value: "SIZE",
        about: "memory for one filter",
        set: |settings, text| {
            settings.limits.max_filter_memory = size(text)?;
            Ok(())
        },
    },
    Setting {
        name: "max-filters",
        value: "N",
        about: "how many filters there may be",
        set: |settings, text| {
            settings.limits.max_filters = number(text, 1, 1 << 40)?;
            Ok(())
        },
    },
    Setting {
        name: "max-clients",
        value: "N",
        about: "connections at once",
        set: |settings, text| {
            settings.max_clients = number(text, 1, 1 << 20)? as usize;
            Ok(())
        },
    },
    Setting {
        name: "password",
        value: "TEXT",
        about: "a password that clients have to give with AUTH; in a file or the environment, never a flag",
        set: |settings, text| {
            if text.is_empty() {
                return Err("a password has at least one character; leave the setting out for none".to_owned());
            }
            settings.password = Some(text.to_owned());
            Ok(())
        },
    },
    Setting {
        name: "master-key",
        value: "FILE",
        about: "the file of the master secret (64 hexadecimal digits, mode 0600); made in the data folder unless said",
        set: |settings, text| {
            settings.master_key = Some(PathBuf::from(text));
            Ok(())
        },
    },
    Setting {
        name: "import-dir",
        value: "DIR",
        about: "the folder whose files BG.BUILD may read; none unless said",
        set: |settings, text| {
            let folder = PathBuf::from(text);
            if !folder.is_dir() {
                return Err(format!("'{text}' is no folder: make it, or leave the setting out"));
            }
            settings.import_dir = Some(folder);
            Ok(())
        },
    },
    Setting {
        name: "slower-than",
        value: "MICROSECONDS",
        about: "commands that take longer are noted in the slow log",
        set: |settings, text| {
            settings.slow_micros = number(text, 0, u64::MAX)?;
            Ok(())
        },
    },
    Setting {
        name: "probe",
        value: "SHARE",
        about: "measures each filter's rate in the background: on, off, or the share of a core that it may take (0.01)",
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
    },
    Setting {
        name: "feedback-entries",
        value: "N",
        about: "items that BG.FEEDBACK keeps for all filters, 20 bytes each and charged with the first; 0 takes none",
        set: |settings, text| {
            settings.watch.feedback_entries = number(text, 0, 1 << 32)?;
            Ok(())
        },
    },
    Setting {
        name: "feedback-ttl",
        value: "SECONDS",
        about: "how long an item that was reported absent is answered with no",
        set: |settings, text| {
            settings.watch.feedback_ttl = number(text, 1, 365 * 86_400)?;
            Ok(())
        },
    },
    Setting {
        name: "feedback-settle",
        value: "SECONDS",
        about: "how long an item that was added cannot be reported: longer than any write to your database takes",
        set: |settings, text| {
            settings.watch.feedback_settle = number(text, 0, 86_400)?;
            Ok(())
        },
    },
    Setting {
        name: "bf-error-rate",
        value: "P",
        about: "the rate of filters that BF.ADD makes by itself",
        set: |settings, text| {
            let rate: f64 = text.parse().map_err(|_| format!("'{text}' is no rate; 1 % is 0.01"))?;
            if !(rate > 0.0 && rate < 1.0) {
                return Err(format!("a rate lies between 0 and 1, both excluded, not {rate}; 1 % is 0.01"));
            }
            settings.defaults.bf_error_rate = rate.min(0.25);
            Ok(())
        },
    },
    Setting {
        name: "bf-initial-size",
        value: "N",
        about: "the capacity of filters that BF.ADD makes by itself",
        set: |settings, text| {
            settings.defaults.bf_initial_size = number(text, 1, 1 << 30)?;
            Ok(())
        },
    },
    Setting {
        name: "bf-expansion-factor",
        value: "N",
        about: "how much larger each next stage of a filter is; 0 for filters that do not grow",
        set: |settings, text| {
            settings.defaults.bf_expansion_factor = number(text, 0, 32_768)? as u32;
            Ok(())
        },
    },
    Setting {
        name: "cf-initial-size",
        value: "N",
        about: "the capacity of filters that CF.ADD makes by itself",
        set: |settings, text| {
            settings.defaults.cf_initial_size = number(text, 4, 1 << 30)?;
            Ok(())
        },
    },
];

/// Sets one setting by its name. The error does not name it: who calls knows whether a flag, a variable or a file said so.
pub fn set(settings: &mut Settings, name: &str, text: &str) -> Result<(), String> {
    (find(name)?.set)(settings, text)
}

/// The setting of a name, or which one is near.
pub fn find(name: &str) -> Result<&'static Setting, String> {
    TABLE.iter().find(|setting| setting.name == name).ok_or_else(|| {
        let near = TABLE.iter().map(|setting| (distance(name, setting.name), setting.name)).min();
        match near {
            Some((steps, near)) if steps <= 3.max(name.len() / 3) => {
                format!("there is no setting '{name}'; did you mean '{near}'?")
            }
            _ => {
                let names: Vec<&str> = TABLE.iter().map(|setting| setting.name).collect();
                format!("there is no setting '{name}'; there are {}", names.join(", "))
            }
        }
    })
}

/// The variable of a setting in the environment.
#[must_use]
pub fn variable(name: &str) -> String {
    format!("BLOOMGATE_{}", name.replace('-', "_").to_ascii_uppercase())
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

fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number: u64 = text.replace('_', "").parse().map_err(|_| format!("'{text}' is no whole number"))?;
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(format!("{number} is not between {least} and {most}")),
    }
}

/// Bytes with a unit: 512MB, 8GiB, 1000000.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size; give one like 512MB, 8GiB or 1000000");
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let amount: f64 = digits.parse().map_err(|_| wrong())?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes = amount * factor;
    if bytes < 1.0 || bytes > (1u64 << 60) as f64 { Err(wrong()) } else { Ok(bytes as u64) }
}

/// How many letters have to be changed, left out or put in.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, &b) in other.iter().enumerate() {
            let change = before + usize::from(a != b);
            before = row[j + 1];
            row[j + 1] = change.min(before + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
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
        assert_eq!(settings.resp.to_string(), "127.0.0.1:7000");
        assert_eq!(settings.limits.max_memory, 1_500_000_000);
        assert!(settings.limits.max_filter_memory <= 1_500_000_000);
        assert_eq!((settings.fsync, settings.data.clone()), (Fsync::EverySecond, None));
        for (name, text, says) in [
            ("resp", "nowhere", "no address"),
            ("threads", "0", "not between 1 and 1024"),
            ("max-memory", "lots", "512MB"),
            ("bf-error-rate", "1", "between 0 and 1"),
            ("fsync", "sometimes", "always"),
            ("probe", "2", "a share from 0.0001 to 0.5"),
            ("feedback-ttl", "0", "not between 1 and 31536000"),
            ("import-dir", "/nowhere/at/all", "'/nowhere/at/all' is no folder"),
            ("max-memry", "1", "did you mean 'max-memory'"),
            ("colour", "1", "there are resp, data"),
        ] {
            let error = set(&mut settings, name, text).unwrap_err();
            assert!(error.contains(says), "{name} {text}: {error}");
        }
        assert_eq!(variable("max-filter-memory"), "BLOOMGATE_MAX_FILTER_MEMORY");
    }
}
