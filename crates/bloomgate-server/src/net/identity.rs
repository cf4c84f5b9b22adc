//! Who the server is to clients of TLS: its certificate and key, read again when their files change.
//!
//! A new file that is wrong changes nothing: the certificate that was good goes on, and the log says why.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bloomgate_http::Tls;
use bloomgate_http::tls::rustls::ServerConfig;

/// Where certificate and key lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate, with the chain behind it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities whose clients are let in; none lets in all.
    pub client_authorities: Option<PathBuf>,
}

/// What tells a file from the one that was there before: device, number, length and time of change.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

impl Files {
    fn stamps(&self) -> Vec<Stamp> {
        let all = [&self.certificate, &self.key].into_iter().chain(&self.client_authorities);
        // Links are followed: tools that renew certificates turn a link round.
        let stamp = |path: &PathBuf| {
            let known = std::fs::metadata(path).ok()?;
            Some((known.dev(), known.ino(), known.size(), known.mtime(), known.mtime_nsec()))
        };
        all.map(stamp).collect()
    }

    fn read(&self) -> Result<Arc<ServerConfig>, String> {
        Tls::for_unnamed(&self.certificate, &self.key, self.client_authorities.as_deref())
            .map(|tls| tls.config())
            .map_err(|error| error.to_string())
    }
}

/// The certificate in use.
#[derive(Debug)]
pub struct Identity {
    files: Files,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    config: Arc<ServerConfig>,
    stamps: Vec<Stamp>,
}

impl Identity {
    /// Reads the files.
    pub fn read(files: Files) -> Result<Self, String> {
        // Before the files: what is changed while they are read is seen as a change.
        let stamps = files.stamps();
        let config = files.read()?;
        Ok(Self { files, held: Mutex::new(Held { config, stamps }) })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next connection is begun with.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.held().config.clone()
    }

    /// The file of the certificate, for messages.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.files.certificate.display().to_string()
    }

    /// Reads the files again. When they are wrong, what was there before stays.
    pub fn renew(&self) -> Result<(), String> {
        let stamps = self.files.stamps();
        let read = self.files.read();
        let mut held = self.held();
        // Also of wrong files: they are told once, and tried again when they change.
        held.stamps = stamps;
        held.config = read?;
        Ok(())
    }

    /// Reads the files again if they are not those of before; nothing if they are.
    pub fn renew_if_changed(&self) -> Option<Result<(), String>> {
        let stamps = self.files.stamps();
        if self.held().stamps == stamps { None } else { Some(self.renew()) }
    }
}
