//! Who the server is to clients of TLS: its certificate and key, read again when their files change.
//!
//! New files that are wrong change nothing, nor does a certificate that has ended: the one that was good goes on, and the log
//! says why. One that is about to end is told every day.

use std::fmt::Write;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bloomgate_http::Tls;
use bloomgate_http::tls::rustls::ServerConfig;

use crate::logging::{Level, now, time};

/// So many seconds before its end a certificate is told every day: most are renewed 30 days before it, so somebody has to
/// look.
const SOON: u64 = 14 * DAY;
const DAY: u64 = 86_400;
/// No file of certificates that can be used is longer.
const MOST_BYTES: u64 = 4 << 20;

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
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.client_authorities)
    }

    fn stamps(&self) -> Vec<Stamp> {
        // Links are followed: tools that renew certificates turn a link round.
        let stamp = |path: &PathBuf| {
            let known = std::fs::metadata(path).ok()?;
            Some((known.dev(), known.ino(), known.size(), known.mtime(), known.mtime_nsec()))
        };
        self.all().map(stamp).collect()
    }

    /// What they hold, by a sum: a file that was touched or written anew may be the same.
    fn sums(&self) -> Vec<Option<blake3::Hash>> {
        let sum = |path: &PathBuf| {
            let mut bytes = Vec::new();
            std::fs::File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
            Some(blake3::hash(&bytes))
        };
        self.all().map(sum).collect()
    }

    fn read(&self) -> Result<Tls, String> {
        Tls::for_unnamed(&self.certificate, &self.key, self.client_authorities.as_deref())
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
    tls: Tls,
    /// The same for HTTP.
    http: Tls,
    stamps: Vec<Stamp>,
    /// Of the files that `tls` was made of.
    sums: Vec<Option<blake3::Hash>>,
    /// The day on which its end was told last.
    told: Option<u64>,
}

/// What there is to say of a certificate's end.
#[derive(Debug, PartialEq, Eq)]
pub struct Ending {
    /// How much it matters.
    pub level: Level,
    /// The event.
    pub name: &'static str,
    /// When it ends, as a time of day.
    pub not_after: String,
    /// The sentence.
    pub message: String,
}

impl Identity {
    /// Reads the files. A certificate that has ended is taken: without it the server could not be reached at all.
    pub fn read(files: Files) -> Result<Self, String> {
        // Before the files: what is changed while they are read is seen as a change.
        let (stamps, sums) = (files.stamps(), files.sums());
        let tls = files.read()?;
        let http = tls.for_http();
        Ok(Self { files, held: Mutex::new(Held { tls, http, stamps, sums, told: None }) })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next connection of the Redis protocol is begun with.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.held().tls.config()
    }

    /// What the next connection of HTTP is begun with.
    #[must_use]
    pub fn http(&self) -> Tls {
        self.held().http.clone()
    }

    /// The file of the certificate, for messages.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.files.certificate.display().to_string()
    }

    /// What is to be said where others than its owner and its group may read the key.
    #[must_use]
    pub fn loose_key(&self) -> Option<String> {
        let (file, mode) = (&self.files.key, std::fs::metadata(&self.files.key).ok()?.mode());
        (mode & 0o004 != 0).then(|| {
            let file = file.display();
            format!(
                "everybody on this machine may read the key {file} (mode {:o}), and then pass for this server: chmod o= {file}",
                mode & 0o777
            )
        })
    }

    /// When the certificate in use ends, in seconds since 1970, if it says so.
    #[must_use]
    pub fn not_after(&self) -> Option<u64> {
        self.held().tls.not_after()
    }

    /// Reads the files again; those that hold something else than before. When they are wrong, or the certificate has ended,
    /// what was there before stays.
    pub fn renew(&self) -> Result<Vec<String>, String> {
        let (stamps, sums) = (self.files.stamps(), self.files.sums());
        let read = self.files.read();
        let mut held = self.held();
        // Also of wrong files: they are told once, and tried again when they change.
        held.stamps = stamps;
        let tls = read?;
        if held.sums == sums {
            return Ok(Vec::new());
        }
        if let Some(end) = tls.not_after().filter(|&end| end <= now().as_secs()) {
            return Err(format!("{} ended on {}", self.certificate(), time(Duration::from_secs(end))));
        }
        let changed = self.files.all().zip(held.sums.iter().zip(&sums)).filter(|(_, (before, now))| before != now);
        let changed = changed.map(|(path, _)| path.display().to_string()).collect();
        held.http = tls.for_http();
        (held.tls, held.sums, held.told) = (tls, sums, None);
        Ok(changed)
    }

    /// Reads the files again if they are not those of before; nothing if they are.
    pub fn renew_if_changed(&self) -> Option<Result<Vec<String>, String>> {
        let stamps = self.files.stamps();
        if self.held().stamps == stamps { None } else { Some(self.renew()) }
    }

    /// What is to be said of the certificate's end now: once a day.
    #[must_use]
    pub fn ending(&self, now_s: u64) -> Option<Ending> {
        let mut held = self.held();
        let ending = ending(held.tls.not_after()?, now_s, &self.certificate())?;
        let day = Some(now_s / DAY);
        if held.told == day {
            return None;
        }
        held.told = day;
        Some(ending)
    }
}

fn ending(not_after: u64, now_s: u64, file: &str) -> Option<Ending> {
    let left = not_after.saturating_sub(now_s);
    if left > SOON {
        return None;
    }
    let mut message = format!("the certificate {file} ");
    let not_after = time(Duration::from_secs(not_after));
    let (level, name) = match left {
        0 => (Level::Error, "certificate-ended"),
        _ => (Level::Warn, "certificate-ends"),
    };
    // Writing to a string does not fail.
    let _ = match left / DAY {
        _ if left == 0 => write!(message, "ended on {not_after}: clients refuse it. Renew it"),
        0 => write!(message, "ends within a day, on {not_after}: renew it"),
        1 => write!(message, "ends in a day, on {not_after}: renew it"),
        days => write!(message, "ends in {days} days, on {not_after}: renew it"),
    };
    message.push_str("; the new one is read by itself");
    Some(Ending { level, name, not_after, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_two_weeks_before_and_when_it_has_come() {
        let said = |left: i64| {
            let end = 1_767_225_600;
            ending(end, (end as i64 - left) as u64, "c.pem").map(|ending| (ending.level, ending.name, ending.message))
        };
        let day = DAY as i64;
        assert_eq!(said(14 * day + 1), None);
        let (level, name, message) = said(14 * day).unwrap();
        assert_eq!((level, name), (Level::Warn, "certificate-ends"));
        assert!(message.contains("c.pem ends in 14 days, on 2026-01-01T00:00:00.000Z"), "{message}");
        assert!(said(day).unwrap().2.contains("ends in a day"));
        assert!(said(1).unwrap().2.contains("ends within a day"));
        let (level, name, message) = said(0).unwrap();
        assert_eq!((level, name), (Level::Error, "certificate-ended"));
        assert!(message.contains("ended on 2026-01-01"), "{message}");
        assert_eq!(said(-400 * day).unwrap().1, "certificate-ended");
    }
}
