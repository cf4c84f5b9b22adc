//! What the service manager is told: that the server is ready, reloads, stops, and that it is alive (`sd_notify(3)`).

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The way to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct ServiceManager {
    way: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Watchdog>,
}

/// When a sign of life is due.
#[derive(Debug)]
struct Watchdog {
    period: Duration,
    last: Instant,
    /// How often each reactor had turned at the last sign.
    turns: Vec<u64>,
}

impl ServiceManager {
    /// From the environment that systemd makes: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    #[must_use]
    pub fn from_environment() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Self::default() };
        let way = (|| -> io::Result<_> {
            let address = match name.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name)?,
                None => SocketAddr::from_pathname(&name)?,
            };
            let socket = UnixDatagram::unbound()?;
            // A service manager that takes nothing holds up nobody.
            socket.set_nonblocking(true)?;
            Ok((socket, address))
        })();
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|&micros| ours && micros > 0).map(|micros| Watchdog {
            // Twice as often as is asked for, as the manual recommends.
            period: Duration::from_micros(micros) / 2,
            last: Instant::now(),
            turns: Vec::new(),
        });
        Self { way: way.ok(), watchdog }
    }

    /// Tells a state, in lines like `READY=1`. Nobody to tell is no reason to stop.
    pub fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.way {
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }

    /// Tells that the settings are read again, with the time that `Type=notify-reload` asks for.
    pub fn tell_reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// Gives a sign of life when one is due and every reactor has turned since the last: one that hangs is as good as dead.
    pub fn live(&mut self, turns: impl Iterator<Item = u64>, now: Instant) {
        let Some(watchdog) = &mut self.watchdog else { return };
        if now.duration_since(watchdog.last) < watchdog.period {
            return;
        }
        let turns: Vec<u64> = turns.collect();
        let stuck = turns.iter().zip(&watchdog.turns).any(|(now, before)| now == before);
        if !stuck {
            (watchdog.last, watchdog.turns) = (now, turns);
            self.tell("WATCHDOG=1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reactor_that_hangs_gives_no_sign_of_life() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let told = UnixDatagram::bind(&path).unwrap();
        told.set_nonblocking(true).unwrap();
        let begin = Instant::now();
        let way = (UnixDatagram::unbound().unwrap(), SocketAddr::from_pathname(&path).unwrap());
        let watchdog = Watchdog { period: Duration::from_secs(1), last: begin, turns: Vec::new() };
        let mut system = ServiceManager { way: Some(way), watchdog: Some(watchdog) };
        let mut is_told = |turns: [u64; 2], seconds: f64| {
            system.live(turns.into_iter(), begin + Duration::from_secs_f64(seconds));
            let mut state = [0; 64];
            told.recv(&mut state).is_ok_and(|length| &state[..length] == b"WATCHDOG=1")
        };
        assert!(!is_told([5, 5], 0.5), "not due");
        assert!(is_told([9, 9], 1.0));
        assert!(!is_told([12, 12], 1.5), "not due");
        assert!(is_told([19, 19], 2.0));
        assert!(!is_told([29, 19], 3.0), "the second hangs");
        assert!(!is_told([39, 19], 4.0));
        assert!(is_told([40, 20], 4.1), "it turns again, and the sign is overdue");
    }
}
