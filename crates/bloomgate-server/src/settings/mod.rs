//! How a server is started.

pub mod table;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::access::Sealed;
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
    /// The password of the default user; only its seal is kept.
    pub password: Option<Sealed>,
    /// The file of users and namespaces; access.toml in the data folder if not said.
    pub access: Option<PathBuf>,
    /// Whether clients of other machines need a password whatever the default user needs.
    pub protected_mode: bool,
    /// The file of the master secret; in the data folder if not said.
    pub master_key: Option<PathBuf>,
    /// The folder whose files BG.BUILD may read.
    pub import_dir: Option<PathBuf>,
    /// What filters are like when a command makes one and says nothing.
    pub defaults: Defaults,
    /// Commands that take longer are noted in the slow log, in microseconds.
    pub slow_micros: u64,
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
            access: None,
            protected_mode: true,
            master_key: None,
            import_dir: None,
            defaults: Defaults::default(),
            slow_micros: 10_000,
        }
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
            ("access", path(&self.access.clone().or(self.data.as_ref().map(|data| data.join("access.toml"))))),
            ("import-dir", path(&self.import_dir)),
        ]
    }
}
