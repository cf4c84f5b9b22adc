//! `serve --demo`: the real server on a folder of its own, with filters of every kind, clients that use them, and a gate in
//! front of a small shop, so that every page of the dashboard has something to show.
//!
//! Nothing of it is pretended: the clients are connections to the server's own port, the gate stands before a SQLite file, and
//! both stop with the server. They ask for a few thousand keys a second, which is a few hundredths of a core.

mod filters;
#[cfg(feature = "gate")]
mod shop;
mod talk;
mod traffic;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use bloomgate_server::settings::HttpAt;
use bloomgate_server::{Ready, Settings};

use crate::failure::Failure;
use crate::screen;

/// Commands that take longer are in the slow log, unless somebody says otherwise: half a millisecond, so that there are some.
const SLOW_MICROS: u64 = 500;

/// A demo before its server runs: where it happens.
pub struct Demo {
    /// A folder that goes with it; none where one was named.
    folder: Option<tempfile::TempDir>,
    /// Where its gate is, if that is free; nowhere without a dashboard.
    gate: Option<SocketAddr>,
}

impl Demo {
    /// Makes settings those of a demo, or says why they cannot be. `told` are the settings that somebody told.
    pub fn prepare(settings: &mut Settings, told: &[&str]) -> Result<Self, Failure> {
        let refused = |why: String| Err(Failure::Message(format!("--demo: {why}")));
        // Its clients have no password and no certificate.
        match settings.resp {
            Some(address) if address.ip().is_loopback() => {}
            Some(address) => {
                return refused(format!("{address} is reached from other machines: listen on 127.0.0.1"));
            }
            None => return refused("its clients speak plain RESP: leave out --resp none".to_owned()),
        }
        if settings.password.is_some() || settings.access.is_some() {
            return refused("its clients do not log in: leave out password and access".to_owned());
        }
        let folder = match &settings.data {
            Some(data) if told.contains(&"data") => {
                if let Some(why) = occupied(data) {
                    return refused(why);
                }
                None
            }
            None => None,
            Some(_) => {
                let folder = tempfile::Builder::new().prefix("bloomgate-demo-").tempdir();
                let folder =
                    folder.map_err(|error| Failure::Message(format!("--demo: no temporary folder: {error}")))?;
                settings.data = Some(folder.path().join("data"));
                Some(folder)
            }
        };
        if !told.contains(&"slower-than") {
            settings.slow_micros = SLOW_MICROS;
        }
        let gate = match settings.http {
            HttpAt::None => None,
            // Who names a port for the dashboard names none for the gate: any that is free.
            HttpAt::At(_) => Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            HttpAt::IfFree(_) => Some(SocketAddr::from(([127, 0, 0, 1], 8480))),
        };
        Ok(Self { folder, gate })
    }

    /// Begins, once the server is ready: what is told of it, and what ends it.
    pub fn begin(&self, ready: &Ready) -> (Vec<String>, Running) {
        let mut running = Running { stop: Arc::default(), threads: Vec::new() };
        let (address, stop) = (ready.address, running.stop.clone());
        running.spawn("demo-clients", move || traffic::run(address, &stop));
        let mut told = Vec::new();
        if let Some(gate) = self.gate.filter(|_| ready.http.is_some()) {
            told.extend(running.gate(gate));
        }
        let stays = match &self.folder {
            Some(folder) => format!("in {}, gone when it stops", folder.path().display()),
            None => "kept".to_owned(),
        };
        told.push(format!("  Demo             {} filters with live traffic, {stays}", filters::ALL.len()));
        (told, running)
    }
}

/// Why a folder is none for a demo: whatever is in it is somebody's.
fn occupied(folder: &Path) -> Option<String> {
    let name = folder.display();
    match std::fs::read_dir(folder) {
        Ok(mut inside) => inside.next().map(|_| {
            format!("{name} is not empty, and what is in it is not touched: name a new folder, or leave out --data")
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("{name}: {error}")),
    }
}

/// A demo at work. It stops when this is dropped.
pub struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) {
        match std::thread::Builder::new().name(name.to_owned()).spawn(work) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => screen::note(format_args!("no thread for {name}: {error}")),
        }
    }

    /// Opens the shop with its gate there, or on any port that is free; what is told of it.
    #[cfg(feature = "gate")]
    fn gate(&mut self, preferred: SocketAddr) -> Vec<String> {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let bound = std::net::TcpListener::bind(preferred).or_else(|_| std::net::TcpListener::bind(anywhere));
        let listener = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
        match listener {
            Ok((address, listener)) => {
                let stop = self.stop.clone();
                self.spawn("demo-shop", move || shop::run(listener, address, &stop));
                vec![format!("  Gate             http://{address}/ (before a small shop; start the attack there)")]
            }
            Err(error) => vec![format!("  Gate             none: {error}")],
        }
    }

    #[cfg(not(feature = "gate"))]
    fn gate(&mut self, _: SocketAddr) -> Vec<String> {
        Vec::new()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn refused(settings: &mut Settings, told: &[&str], says: &str) {
        let Err(Failure::Message(why)) = Demo::prepare(settings, told) else { panic!("{says}") };
        assert!(why.starts_with("--demo: ") && why.contains(says), "{why}");
    }

    #[test]
    fn a_folder_of_somebody_is_refused_and_an_empty_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let with = |path: PathBuf| Settings { data: Some(path), ..Settings::default() };
        assert!(Demo::prepare(&mut with(folder.path().into()), &["data"]).is_ok());
        assert!(Demo::prepare(&mut with(folder.path().join("new")), &["data"]).is_ok());
        std::fs::write(folder.path().join("MANIFEST"), "").unwrap();
        refused(&mut with(folder.path().into()), &["data"], "is not empty");
        refused(&mut with(folder.path().join("MANIFEST")), &["data"], "MANIFEST: ");
        // The folder of before is not named, so it is not used: a temporary one is.
        let mut settings = with(folder.path().into());
        let demo = Demo::prepare(&mut settings, &[]).unwrap();
        let data = settings.data.unwrap();
        assert!(data.starts_with(demo.folder.as_ref().unwrap().path()) && !data.starts_with(folder.path()));
    }

    #[test]
    fn what_its_clients_cannot_reach_is_refused() {
        let plain = Settings::default;
        refused(&mut Settings { resp: None, ..plain() }, &[], "plain RESP");
        refused(&mut Settings { resp: "192.0.2.1:1".parse().ok(), ..plain() }, &[], "listen on 127.0.0.1");
        refused(&mut Settings { access: Some("access.toml".into()), ..plain() }, &["access"], "do not log in");
    }

    #[test]
    fn what_was_told_stays() {
        let mut settings = Settings { data: None, slow_micros: 7, ..Settings::default() };
        let demo = Demo::prepare(&mut settings, &["data", "slower-than"]).unwrap();
        assert_eq!((settings.data, settings.slow_micros, demo.gate), (None, 7, None));
        assert!(demo.folder.is_none());
        let mut settings = Settings::default();
        Demo::prepare(&mut settings, &[]).unwrap();
        assert_eq!(settings.slow_micros, SLOW_MICROS);
    }
}
