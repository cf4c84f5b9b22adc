//! How a server is started.

pub mod files;
pub mod memory;
pub mod rewriting;
pub mod table;

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use bloomgate_http::webhook::Receiver;

use crate::access::Sealed;
use crate::engine::watch::WatchSettings;
use crate::engine::{Defaults, Limits};
use crate::logging::{Format, Level};
use crate::net::identity::Files;
use crate::store::Fsync;

/// Everything a server is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where clients of the Redis protocol connect; port 0 is any that is free.
    pub resp: Option<SocketAddr>,
    /// Where clients of the Redis protocol over TLS connect.
    pub tls: Option<SocketAddr>,
    /// Where the HTTP side is reached.
    pub http: HttpAt,
    /// Whether the HTTP side is served over TLS, by the certificate of `tls_cert`.
    pub http_tls: bool,
    /// Names beside this machine's own under which the HTTP side may be asked for without a login.
    pub http_hosts: Vec<String>,
    /// The file of the certificate, with the chain behind it.
    pub tls_cert: Option<PathBuf>,
    /// The file of its key.
    pub tls_key: Option<PathBuf>,
    /// The file of the authorities whose clients are let in over TLS; none lets in all.
    pub tls_client_ca: Option<PathBuf>,
    /// The folder that keeps the filters; none keeps nothing.
    pub data: Option<PathBuf>,
    /// When a write counts as safe.
    pub fsync: Fsync,
    /// Bytes of log below which no snapshot is made by itself.
    pub snapshot_log: u64,
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
    /// Connections at once from one address; 0 is as many as there may be.
    pub max_clients_per_address: usize,
    /// A connection on which nothing is asked for so long is closed; zero never does.
    pub idle_timeout: Duration,
    /// A request that has begun must be whole within this time, and a second more for each 64 KB of it.
    pub request_deadline: Duration,
    /// A client that takes none of its replies for so long is dropped.
    pub output_stall: Duration,
    /// Bytes that the replies of one client may take at once.
    pub output_limit: usize,
    /// Bytes that all clients together may make the server hold.
    pub client_memory: u64,
    /// The file of the master secret; in the data folder if not said.
    pub master_key: Option<PathBuf>,
    /// The folder whose files BG.BUILD may read.
    pub import_dir: Option<PathBuf>,
    /// What filters are like when a command makes one and says nothing.
    pub defaults: Defaults,
    /// Commands that take longer are noted in the slow log, in microseconds; `u64::MAX` for none.
    pub slow_micros: u64,
    /// What is told on standard error.
    pub log_level: Level,
    /// How it is told.
    pub log_format: Format,
    /// The file that the settings came from, for CONFIG REWRITE. No setting itself.
    pub config: Option<PathBuf>,
    /// How the server watches itself.
    pub watch: WatchSettings,
    /// Who is told when an alert begins or ends.
    pub alert_webhook: Option<Receiver>,
}

/// Where the HTTP side is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpAt {
    /// Nowhere.
    #[default]
    None,
    /// There, or the server does not start.
    At(SocketAddr),
    /// There if nobody else is: where nobody named an address.
    IfFree(SocketAddr),
}

impl HttpAt {
    /// The port that is taken where nobody names one.
    pub const PORT: u16 = 8479;

    /// The address.
    #[must_use]
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::None => None,
            Self::At(address) | Self::IfFree(address) => Some(address),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        // The system reads files to tell it: once is enough.
        static CORES: OnceLock<usize> = OnceLock::new();
        let threads = *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
        let memory = memory::limit().bytes / 4 * 3;
        Self {
            resp: Some(SocketAddr::from(([127, 0, 0, 1], 6479))),
            tls: None,
            http: HttpAt::None,
            http_tls: false,
            http_hosts: Vec::new(),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            data: None,
            fsync: Fsync::default(),
            snapshot_log: 64 << 20,
            threads,
            limits: Limits { max_memory: memory, max_filter_memory: memory, max_filters: 10_000_000 },
            max_clients: 10_000,
            max_clients_per_address: 1_000,
            idle_timeout: Duration::ZERO,
            request_deadline: Duration::from_secs(30),
            output_stall: Duration::from_secs(10),
            output_limit: 64 << 20,
            client_memory: memory::for_clients(memory::limit().bytes),
            password: None,
            access: None,
            protected_mode: true,
            master_key: None,
            import_dir: None,
            defaults: Defaults::default(),
            slow_micros: 10_000,
            log_level: Level::default(),
            log_format: Format::default(),
            config: None,
            watch: WatchSettings::default(),
            alert_webhook: None,
        }
    }
}

impl Settings {
    /// Where certificate and key lie, or what is missing.
    pub fn tls_files(&self) -> Result<Files, String> {
        let missing = |name: &str| format!("TLS needs a certificate and its key, and {name} names no file");
        Ok(Files {
            certificate: self.tls_cert.clone().ok_or_else(|| missing("tls-cert"))?,
            key: self.tls_key.clone().ok_or_else(|| missing("tls-key"))?,
            client_authorities: self.tls_client_ca.clone(),
        })
    }

    /// What is to be said if everybody on this machine can read the password in the file of settings.
    #[must_use]
    pub fn readable_password(&self) -> Option<String> {
        let path = self.config.as_ref().filter(|_| self.password.is_some())?;
        // A file that cannot be read now said nothing.
        let mode = std::fs::metadata(path).ok()?.mode() & 0o777;
        let has = || std::fs::read_to_string(path).is_ok_and(|text| rewriting::has_value(&text, "password"));
        (mode & 0o004 != 0 && has()).then(|| {
            let path = path.display();
            format!("{path} has the password in it and mode {mode:03o}: everybody on this machine can read it, run `chmod 600 {path}`")
        })
    }

    /// What is only known once the server listens, under the names CONFIG GET tells it by.
    #[must_use]
    pub fn rows(
        &self,
        resp: Option<SocketAddr>,
        tls: Option<SocketAddr>,
        http: Option<SocketAddr>,
    ) -> Vec<(&'static str, String)> {
        let address = |address: Option<SocketAddr>| address.map_or("none".to_owned(), |address| address.to_string());
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| address.port()).to_string();
        vec![
            ("resp", address(resp)),
            ("port", port(resp)),
            ("bind", resp.or(tls).map(|address| address.ip().to_string()).unwrap_or_default()),
            ("tls", address(tls)),
            ("tls-port", port(tls)),
            ("http", address(http)),
            ("dir", self.data.as_ref().map(|path| path.display().to_string()).unwrap_or_default()),
            ("threads", self.threads.to_string()),
            ("fsync", self.fsync.to_string()),
        ]
    }
}
