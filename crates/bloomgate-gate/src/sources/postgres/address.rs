//! Where a server is: a connection string, completed as libpq would, and a name for it without its password.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::{Error, ErrorKind, Result};

/// How long connecting may take if the address does not say.
const CONNECT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(15);

/// Where a server is.
#[derive(Clone)]
pub(super) struct Address {
    pub config: Config,
    /// `user@host:port/database`.
    pub name: String,
}

impl Address {
    pub fn parse(url: &str) -> Result<Self> {
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
        complete(&mut config);
        let name = name(&config);
        if config.get_ssl_mode() == SslMode::Require {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{name}: sslmode=require asks for TLS, which is not built in: use a socket file, a tunnel (stunnel, \
                     ssh -L) or a private network, with sslmode=disable"
                ),
            ));
        }
        Ok(Self { config, name })
    }
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
            ("postgres://me:hidden@host/db?sslmode=require", "me@host:5432/db: sslmode=require asks for TLS"),
            ("postgres://me:hidden@host/db?sslmode=hidden", "sslmode"),
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("hid"), "{error}");
        }
    }
}
