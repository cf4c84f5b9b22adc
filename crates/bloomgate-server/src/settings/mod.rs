//! How a server is started.

pub mod table;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::engine::watch::WatchSettings;
use crate::engine::{Defaults, Limits};
use crate::store::Fsync;

/// Everything a server is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where clients of the Redis protocol connect; port 0 is any that is free.
    pub resp: SocketAddr,
    /// The folder that keeps the filters; none keeps nothing.
    pub data: Option<PathBuf>,
    /// When a write counts as safe.
    pub fsync: Fsync,
    /// Threads that serve connections.
    pub threads: usize,
    /// Limits of the filters.
    pub limits: Limits,
    /// Connections at once.
    pub max_clients: usize,
    /// A password that clients have to give.
    pub password: Option<String>,
    /// The file of the master secret; in the data folder if not said.
    pub master_key: Option<PathBuf>,
    /// The folder whose files BG.BUILD may read.
    pub import_dir: Option<PathBuf>,
    /// What filters are like when a command makes one and says nothing.
    pub defaults: Defaults,
    /// Commands that take longer are noted in the slow log, in microseconds.
    pub slow_micros: u64,
    /// How the server watches itself.
    pub watch: WatchSettings,
}

impl Default for Settings {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let memory = machine_memory() / 4 * 3;
        Self {
            resp: SocketAddr::from(([127, 0, 0, 1], 6479)),
            data: None,
            fsync: Fsync::default(),
            threads,
            limits: Limits { max_memory: memory, max_filter_memory: memory, max_filters: 10_000_000 },
            max_clients: 10_000,
            password: None,
            master_key: None,
            import_dir: None,
            defaults: Defaults::default(),
            slow_micros: 10_000,
            watch: WatchSettings::default(),
        }
    }
}

impl Settings {
    /// What whoever starts a server with these settings should know, though nothing is wrong with them.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        if self.resp.ip().is_loopback() || self.password.is_some() {
            return Vec::new();
        }
        vec![format!(
            "{} is reached from other machines and there is no password: whoever connects can read, change and delete \
             every filter and stop the server. Set one (BLOOMGATE_PASSWORD, or password in the file of --config), or \
             listen on 127.0.0.1",
            self.resp
        )]
    }
}

/// The memory of this machine; 4 GB where the system does not tell.
fn machine_memory() -> u64 {
    let pages = rustix::system::sysinfo();
    let bytes = (pages.totalram as u64).saturating_mul(u64::from(pages.mem_unit));
    if bytes == 0 { 4 << 30 } else { bytes }
}

impl Settings {
    /// The settings with their names, for CONFIG GET.
    #[must_use]
    pub fn rows(&self, bound: SocketAddr) -> Vec<(&'static str, String)> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        vec![
            ("resp", bound.to_string()),
            ("port", bound.port().to_string()),
            ("bind", bound.ip().to_string()),
            ("data", path(&self.data)),
            ("dir", path(&self.data)),
            ("fsync", self.fsync.to_string()),
            ("threads", self.threads.to_string()),
            ("max-memory", self.limits.max_memory.to_string()),
            ("max-filter-memory", self.limits.max_filter_memory.to_string()),
            ("max-filters", self.limits.max_filters.to_string()),
            ("max-clients", self.max_clients.to_string()),
            ("import-dir", path(&self.import_dir)),
            ("probe", if self.watch.share > 0.0 { self.watch.share.to_string() } else { "off".to_owned() }),
            ("feedback-entries", self.watch.feedback_entries.to_string()),
            ("feedback-ttl", self.watch.feedback_ttl.to_string()),
            ("feedback-settle", self.watch.feedback_settle.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_door_without_a_lock_is_told() {
        let told = |resp: &str, password: Option<&str>| {
            let password = password.map(str::to_owned);
            Settings { resp: resp.parse().unwrap(), password, ..Settings::default() }.warnings()
        };
        for open in ["0.0.0.0:6479", "192.0.2.7:6479", "[::]:6479"] {
            let warnings = told(open, None);
            assert!(warnings.len() == 1 && warnings[0].contains(open) && warnings[0].contains("BLOOMGATE_PASSWORD"));
            assert!(told(open, Some("secret")).is_empty());
        }
        assert!(told("127.0.0.1:6479", None).is_empty() && told("[::1]:6479", None).is_empty());
    }
}
