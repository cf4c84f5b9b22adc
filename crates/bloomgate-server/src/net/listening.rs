//! Where clients come in: sockets that are bound here, or handed over by the service manager.
//!
//! systemd binds the sockets of a `.socket` unit and hands them over as file descriptors from 3 on, with `LISTEN_PID`,
//! `LISTEN_FDS` and, by `FileDescriptorName=`, `LISTEN_FDNAMES`. Those named `resp`, `tls` and `http` are taken in place of
//! the addresses of the settings; without names the first is `resp` and the second `tls`.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use listenfd::ListenFd;

use super::identity::Identity;
use crate::settings::{HttpAt, Settings};

/// Bytes of answers that the kernel takes beyond what is on its way to the client.
///
/// Left to itself it takes up to 4 MB for each client that does not read (`tcp_wmem`; all of it on the loopback), which no limit of ours
/// counts; and says that there is room again only when a third of that has gone. A client that read 130 KB a second was dropped for
/// that, after ten seconds of what looked like nothing. With this, room is told of after 64 KB.
#[cfg(any(target_os = "android", target_os = "linux"))]
const AHEAD: u32 = 128 << 10;

/// More sockets than three are a mistake, and a number beyond this one nonsense.
const MOST_HANDED: usize = 16;

/// The sockets and what TLS needs.
#[derive(Debug)]
pub struct Listening {
    /// For the plain protocol.
    pub resp: Option<TcpListener>,
    /// For the protocol over TLS.
    pub tls: Option<TcpListener>,
    /// For HTTP, over TLS if the settings say so.
    pub http: Option<TcpListener>,
    /// The certificate, if anything is served over TLS.
    pub identity: Option<Arc<Identity>>,
    /// Why there is none for HTTP, where nobody asked for one by name and its place is taken.
    pub http_taken: Option<String>,
}

impl Listening {
    /// Takes what was handed over and binds the rest.
    pub fn begin(settings: &Settings) -> Result<Self, String> {
        let handed = Handed::take()?;
        let any = handed.resp.is_some() || handed.tls.is_some();
        // What the service manager does not hand over is not wanted: the addresses of the settings are the default's.
        let resp = match handed.resp {
            Some(listener) => Some(listener),
            None if any => None,
            None => settings.resp.map(|address| bind(address, "resp")).transpose()?,
        };
        let tls_handed = handed.tls.is_some();
        let tls = match handed.tls {
            Some(listener) => Some(listener),
            None => settings.tls.map(|address| bind(address, "tls")).transpose()?,
        };
        if tls.is_none()
            && !settings.http_tls
            && let Some(name) = [
                ("tls-cert", &settings.tls_cert),
                ("tls-key", &settings.tls_key),
                ("tls-client-ca", &settings.tls_client_ca),
            ]
            .into_iter()
            .find_map(|(name, file)| file.as_ref().map(|_| name))
        {
            return Err(format!(
                "{name} is set and tls is not: set tls to the address for TLS, or http-tls to yes, or leave out {name}"
            ));
        }
        if resp.is_none() && tls.is_none() {
            return Err("there is nowhere to connect: set resp or tls to an address".to_owned());
        }
        let mut http_taken = None;
        let http = match (handed.http, settings.http) {
            (Some(listener), _) => Some(listener),
            (None, HttpAt::None) => None,
            (None, HttpAt::At(address)) => Some(bind(address, "http")?),
            (None, HttpAt::IfFree(address)) => bind(address, "http").map_err(|why| http_taken = Some(why)).ok(),
        };
        if settings.http_tls && http.is_none() && http_taken.is_none() {
            return Err("http-tls is yes and http is none: set http to an address, or leave out http-tls".to_owned());
        }
        for listener in resp.iter().chain(&tls).chain(&http) {
            listener.set_nonblocking(true).map_err(|error| format!("a socket cannot be listened on: {error}"))?;
            // Connections have it from their listener. One that is handed over and is no TCP socket goes without.
            #[cfg(any(target_os = "android", target_os = "linux"))]
            let _ = socket2::SockRef::from(listener).set_tcp_notsent_lowat(AHEAD);
        }
        let files = (tls.is_some() || settings.http_tls).then(|| settings.tls_files()).transpose();
        let files = files.map_err(|why| match tls_handed {
            true => format!(
                "the service manager hands over a socket for TLS (FileDescriptorName=tls), and {why}: set it, or disable \
                 that socket (systemctl disable --now bloomgate-tls.socket)"
            ),
            false if tls.is_none() => format!("{why}: set both, or leave out http-tls"),
            false => format!("{why}: set both, or leave out tls"),
        })?;
        let identity = files.map(Identity::read).transpose()?.map(Arc::new);
        Ok(Self { resp, tls, http, identity, http_taken })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        let address = |listener: &TcpListener| listener.local_addr().ok();
        Addresses {
            resp: self.resp.as_ref().and_then(address),
            tls: self.tls.as_ref().and_then(address),
            http: self.http.as_ref().and_then(address),
        }
    }
}

/// Where a server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Addresses {
    /// The plain protocol.
    pub resp: Option<SocketAddr>,
    /// The protocol over TLS.
    pub tls: Option<SocketAddr>,
    /// HTTP.
    pub http: Option<SocketAddr>,
}

fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, String> {
    TcpListener::bind(address)
        .map_err(|error| format!("cannot listen on {address}: {error}; --{setting} names another address"))
}

/// Sockets that the service manager handed over.
#[derive(Debug, Default)]
struct Handed {
    resp: Option<TcpListener>,
    tls: Option<TcpListener>,
    http: Option<TcpListener>,
}

impl Handed {
    fn take() -> Result<Self, String> {
        let mut handed = Self::default();
        let Ok(count) = std::env::var("LISTEN_FDS") else { return Ok(handed) };
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        if count.parse::<usize>().is_ok_and(|count| count > MOST_HANDED) {
            return Err(format!(
                "{count} sockets were handed over (LISTEN_FDS); there is use for three: resp, tls and http"
            ));
        }
        // Those for another process are left alone.
        let mut sockets = ListenFd::from_env();
        for number in 0..sockets.len() {
            let name = names.split(':').nth(number).unwrap_or_default();
            let place = match (name, number) {
                ("resp", _) => &mut handed.resp,
                ("tls", _) => &mut handed.tls,
                ("http", _) => &mut handed.http,
                // systemd calls a socket without a name after its unit, and one whose name is lost "unknown".
                (_, 0) => &mut handed.resp,
                (_, 1) => &mut handed.tls,
                _ => {
                    return Err(format!(
                        "socket {number} that was handed over is called '{name}': resp, tls or http is expected"
                    ));
                }
            };
            let wrong =
                |why: &dyn std::fmt::Display| format!("socket {number} that was handed over cannot be used: {why}");
            let socket = sockets.take_tcp_listener(number).map_err(|error| wrong(&error))?;
            if place.is_some() {
                return Err(wrong(&"there are two of its name"));
            }
            *place = socket;
        }
        Ok(handed)
    }
}
