//! Where a server is: a connection string, completed as libpq would, and a name for it without its password.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::{Check, Tls};
use crate::error::{Error, ErrorKind, Result};

/// How long connecting may take if the address does not say.
const CONNECT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(15);

/// When a connection on which nothing moves is asked whether the other end is still there, and how often then. A count says
/// nothing for minutes, and waits for ever for a server that vanished.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);
/// What the driver takes if the address does not say.
const DRIVERS_IDLE: Duration = Duration::from_secs(7200);

/// Where a server is.
#[derive(Clone)]
pub(super) struct Address {
    pub config: Config,
    /// `user@host:port/database`.
    pub name: String,
    pub tls: Tls,
}

impl Address {
    pub fn parse(url: &str) -> Result<Self> {
        // The driver knows neither where authorities are nor that a server can be checked.
        let (url, [mode, authorities]) = take_options(url, ["sslmode", "sslrootcert"]);
        let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mode = mode.or_else(|| said("PGSSLMODE")).unwrap_or_else(|| "prefer".into());
        let authorities = authorities.or_else(|| said("PGSSLROOTCERT"));
        let (mode, check) = match (mode.as_str(), &authorities) {
            ("disable", _) => (SslMode::Disable, Check::Nothing),
            ("prefer" | "allow", _) => (SslMode::Prefer, Check::Nothing),
            ("require", None) => (SslMode::Require, Check::Nothing),
            ("require", Some(_)) | ("verify-ca", _) => (SslMode::Require, Check::Authority),
            ("verify-full", _) => (SslMode::Require, Check::AuthorityAndName),
            _ => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "the sslmode of the address is none: write disable, prefer, require, verify-ca or verify-full",
                ));
            }
        };
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            // Other causes repeat parts of the address, and with them perhaps of a password.
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let cause = if cause.starts_with("invalid value for option") { format!(" ({cause})") } else { String::new() };
            Error::new(
                ErrorKind::Invalid,
                format!(
                    "this is no address of a PostgreSQL server{cause}: write postgres://user@host:port/database, with % \
                     escapes for signs in it such as %40 for @"
                ),
            )
        })?;
        config.ssl_mode(mode);
        complete(&mut config);
        // An address of numbers alone has no name that TLS could greet.
        if config.get_hosts().is_empty() && mode == SslMode::Prefer {
            config.ssl_mode(SslMode::Disable);
        }
        Ok(Self { name: name(&config), config, tls: Tls::new(check, authorities.as_deref())? })
    }
}

/// Takes options out of an address, written `?name=value&…` or, without `://`, `name=value …`.
fn take_options<const N: usize>(address: &str, names: [&str; N]) -> (String, [Option<String>; N]) {
    let mut found = [const { None }; N];
    let mut keep = |option: &&str| {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let Some(at) = names.iter().position(|&known| known == name) else { return true };
        found[at] = Some(value.replace("%2F", "/").replace("%2f", "/"));
        false
    };
    let rest = if address.contains("://") {
        // A ? before the last @ belongs to a password that was not escaped.
        match address.rsplit_once('?').filter(|(_, options)| !options.contains('@')) {
            Some((place, options)) => {
                let kept: Vec<&str> = options.split('&').filter(&mut keep).collect();
                if kept.is_empty() { place.to_string() } else { format!("{place}?{}", kept.join("&")) }
            }
            None => address.to_string(),
        }
    } else {
        address.split(' ').filter(&mut keep).collect::<Vec<_>>().join(" ")
    };
    (rest, found)
}

impl std::fmt::Debug for Address {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_tuple("Address").field(&self.name).finish()
    }
}

/// What the address leaves out, as libpq would find it.
fn complete(config: &mut Config) {
    let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if config.get_password().is_none()
        && let Some(password) = said("PGPASSWORD")
    {
        config.password(password);
    }
    if config.get_user().is_none()
        && let Some(user) = said("PGUSER")
    {
        config.user(user);
    }
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let socket = "/var/run/postgresql";
        let usual = if std::path::Path::new(socket).is_dir() { socket } else { "localhost" };
        config.host(said("PGHOST").as_deref().unwrap_or(usual));
    }
    if config.get_application_name().is_none() {
        config.application_name("bloomgate");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE);
    }
    let (idle, interval, retries) = KEEPALIVE;
    if config.get_keepalives_idle() == DRIVERS_IDLE {
        config.keepalives_idle(idle);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(interval);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(retries);
    }
}

fn name(config: &Config) -> String {
    let ports = config.get_ports();
    let host = |(at, host): (usize, &Host)| {
        let host = match host {
            Host::Tcp(host) => host.clone(),
            #[cfg(unix)]
            Host::Unix(folder) => folder.display().to_string(),
        };
        match ports.get(at).or(ports.first()) {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    };
    let hosts: Vec<String> = if config.get_hosts().is_empty() {
        config.get_hostaddrs().iter().map(ToString::to_string).collect()
    } else {
        config.get_hosts().iter().enumerate().map(host).collect()
    };
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let database = config.get_dbname().map(|database| format!("/{database}")).unwrap_or_default();
    format!("{user}{}{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_tls_are_taken_out() {
        let taken = |address| take_options(address, ["sslmode", "sslrootcert"]);
        for (address, rest, mode, file) in [
            ("postgres://h/d", "postgres://h/d", None, None),
            ("postgres://h/d?sslmode=require", "postgres://h/d", Some("require"), None),
            ("postgres://h/d?a=b&sslrootcert=%2Fx%2fy&c=d&sslmode=", "postgres://h/d?a=b&c=d", Some(""), Some("/x/y")),
            ("postgres://u:p?sslmode=x@h/d", "postgres://u:p?sslmode=x@h/d", None, None),
            ("host=h sslmode=verify-ca password='a  b'", "host=h password='a  b'", Some("verify-ca"), None),
        ] {
            assert_eq!(taken(address), (rest.into(), [mode.map(String::from), file.map(String::from)]));
        }
    }

    #[test]
    fn a_server_that_vanished_is_noticed_in_half_a_minute_unless_the_address_says_otherwise() {
        let kept = |url: &str| {
            let config = Address::parse(url).unwrap().config;
            assert!(config.get_keepalives());
            let (idle, interval) = (config.get_keepalives_idle(), config.get_keepalives_interval());
            (idle.as_secs(), interval.map(|interval| interval.as_secs()), config.get_keepalives_retries())
        };
        assert_eq!(kept("postgres://me@host/db"), (15, Some(5), Some(3)));
        let said = "postgres://me@host/db?keepalives_idle=100&keepalives_interval=20&keepalives_retries=7";
        assert_eq!(kept(said), (100, Some(20), Some(7)));
    }

    #[test]
    fn names_and_refusals_hold_no_password() {
        for (url, name) in [
            ("postgres://me:hidden@host:5433/db", "me@host:5433/db"),
            ("postgresql://me:hidden@a,b/db", "me@a:5432,b:5432/db"),
            ("host=/tmp/x user=me password='hidden' dbname=db", "me@/tmp/x/db"),
            ("postgres://me@host/db?password=hidden", "me@host:5432/db"),
            ("hostaddr=127.0.0.1 user=me password=hidden", "me@127.0.0.1"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.name, name);
            assert!(!format!("{address:?}").contains("hidden"));
            assert!(address.config.get_connect_timeout().is_some());
        }
        for (url, said) in [
            ("postgres://me:hidden@host:99999/db", "port"),
            ("postgres://me:hidden@host/db?hidden=1", "%40"),
            ("password=hidden hidden", "write postgres://"),
            ("postgres://me:hidden@host/db?sslmode=hidden", "verify-full"),
            ("postgres://me:hidden@host/db?sslrootcert=/no/such&sslmode=require", "/no/such"),
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("hid"), "{error}");
        }
    }
}
