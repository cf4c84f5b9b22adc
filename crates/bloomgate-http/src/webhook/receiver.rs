//! Where messages go: a URL, and one POST to it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::Error;

/// Where systems keep the authorities they trust: Debian and Alpine, Fedora, the BSDs and macOS, SUSE.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// A URL that takes messages. It is shown without its path, which may hold a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Receiver {
    secure: bool,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    authority: String,
    target: String,
}

impl fmt::Display for Receiver {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Receiver({self})")
    }
}

impl FromStr for Receiver {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let how = "write it like http://alerts.example:9000/hook or https://alerts.example/hook";
        // Not repeated: its path may be a secret.
        let refused = |why: &str| Error::new(format!("the URL {why}: {how}"));
        let secure = match text.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => false,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => true,
            _ => return Err(refused("is neither http nor https")),
        };
        let uri = Uri::try_from(text).map_err(|error| refused(&format!("is none ({error})")))?;
        let authority = uri.authority().ok_or_else(|| refused("names no host"))?.as_str();
        if authority.contains('@') {
            return Err(refused("has a user's name in it, which is never sent; a token may be in its path"));
        }
        let host = uri.host().unwrap_or_default();
        let port = match authority.strip_prefix(host) {
            Some("") if secure => 443,
            Some("") => 80,
            _ => uri.port_u16().filter(|&port| port > 0).ok_or_else(|| refused("has a port that is none"))?,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(refused("names no host"));
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(Self { secure, host, port, authority: authority.to_owned(), target })
    }
}

impl Receiver {
    /// Whether messages could be sent there at all: over TLS, the system has authorities.
    pub fn check(&self) -> Result<(), Error> {
        self.dial().map(drop)
    }

    pub(super) fn dial(&self) -> Result<Dial, Error> {
        let tls = if self.secure { Some(connector(&system()?)?) } else { None };
        Ok(Dial { to: self.clone(), tls })
    }

    /// The same with authorities of its own.
    #[cfg(test)]
    pub(super) fn dial_trusting(&self, authorities: &Path) -> Result<Dial, Error> {
        Ok(Dial { to: self.clone(), tls: Some(connector(authorities)?) })
    }
}

fn system() -> Result<PathBuf, Error> {
    SYSTEM.iter().map(PathBuf::from).find(|file| file.is_file()).ok_or_else(|| {
        Error::new("the system has no file of authorities for TLS: install ca-certificates, or use an http URL")
    })
}

fn connector(authorities: &Path) -> Result<TlsConnector, Error> {
    let name = authorities.display();
    let read = || -> Result<Vec<CertificateDer<'static>>, _> { CertificateDer::pem_file_iter(authorities)?.collect() };
    let certificates = read().map_err(|error| Error::new(format!("{name} cannot be read: {error}")))?;
    let mut roots = RootCertStore::empty();
    // A system's collection may have a strange one among hundreds of good ones.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(Error::new(format!("{name} has no certificate in it")));
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(format!("TLS cannot be set up: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Reaches a receiver.
pub(super) struct Dial {
    to: Receiver,
    tls: Option<TlsConnector>,
}

impl fmt::Display for Dial {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to.fmt(to)
    }
}

impl Dial {
    /// One POST on a connection of its own. Redirections are not followed: what is told goes where it was to go.
    pub(super) async fn post(&self, message: Bytes) -> Result<StatusCode, String> {
        let to = &self.to;
        let stream = TcpStream::connect((to.host.as_str(), to.port))
            .await
            .map_err(|error| format!("it cannot be reached: {error}"))?;
        match &self.tls {
            None => self.ask(stream, message).await,
            Some(connector) => {
                let name =
                    ServerName::try_from(to.host.clone()).map_err(|error| format!("no name for TLS: {error}"))?;
                let secured = connector.connect(name, stream).await;
                self.ask(secured.map_err(|error| format!("no TLS: {error}"))?, message).await
            }
        }
    }

    async fn ask<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        message: Bytes,
    ) -> Result<StatusCode, String> {
        let failed = |error: hyper::Error| format!("it did not answer: {error}");
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.to.target)
            .header(HOST, &self.to.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("bloomgate/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(message))
            .map_err(|error| format!("no request can be made: {error}"))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // The connection works while the answer is waited for, and ends with it: nothing is read but the status.
        let working = Working(tokio::spawn(connection));
        let answer = sender.send_request(request).await.map_err(failed)?;
        drop(working);
        Ok(answer.status())
    }
}

/// A connection that ends with whoever waits for it, in time or not.
struct Working(tokio::task::JoinHandle<Result<(), hyper::Error>>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_a_wrong_one_says_why() {
        let read = |text: &str| {
            let receiver: Receiver = text.parse().unwrap();
            (receiver.secure, receiver.host, receiver.port, receiver.target)
        };
        assert_eq!(read("http://alerts:9000/hook?a=1"), (false, "alerts".into(), 9000, "/hook?a=1".into()));
        assert_eq!(read("http://alerts"), (false, "alerts".into(), 80, "/".into()));
        assert_eq!(read("https://alerts.example/T0/B1"), (true, "alerts.example".into(), 443, "/T0/B1".into()));
        assert_eq!(read("http://[::1]:9000/"), (false, "::1".into(), 9000, "/".into()));
        assert_eq!(read("http://[::1]/"), (false, "::1".into(), 80, "/".into()));
        for (text, says) in [
            ("ftp://alerts/SECRET", "neither http nor https"),
            ("alerts:9000", "neither http nor https"),
            ("/SECRET", "neither http nor https"),
            ("http://me:SECRET@alerts/", "never sent"),
            ("http://alerts:0/SECRET", "a port that is none"),
            ("http://alerts:99999/SECRET", "is none"),
            ("http://", "is none"),
            ("", "neither http nor https"),
            ("alerts.example/SECRET", "neither http nor https"),
            ("http://alerts/a b", "is none"),
        ] {
            let error = text.parse::<Receiver>().unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("https://alerts.example/hook"), "{text}: {error}");
            assert!(!error.contains("SECRET"), "{text}: {error}");
        }
        let receiver: Receiver = "https://alerts.example/SECRET".parse().unwrap();
        assert_eq!(receiver.to_string(), "https://alerts.example");
        assert!(!format!("{receiver:?}").contains("SECRET"));
    }
}
