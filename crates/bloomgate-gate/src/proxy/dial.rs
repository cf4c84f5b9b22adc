//! Connections to what is behind the proxy: HTTP/1.1 over TCP, or over TLS.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bloomgate_http::Service;
use hyper::Uri;
use hyper::http::uri::{Authority, Scheme};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;

use super::body::ToUpstream;
use crate::authorities::roots;
use crate::error::{Error, ErrorKind, Result};

/// How long a connection that nobody uses is kept. Shorter than most servers keep it (5 s in Node.js and uvicorn): a write
/// that meets a connection which is just being closed cannot be sent again.
const KEPT: Duration = Duration::from_secs(4);
/// How many are kept.
const MOST_KEPT: usize = 1024;

/// The clients that ask what is behind the proxy.
pub(super) type Asking = Client<Dial, ToUpstream>;

/// Where it is: its scheme and its authority.
pub(super) fn parse(url: &str) -> Result<(Scheme, Authority)> {
    let how = "write it like http://catalog:8080 or https://catalog.example";
    // Not repeated whole: it may hold a password.
    let refused = |why: &str| Error::new(ErrorKind::Invalid, format!("the upstream {why}: {how}"));
    let uri = Uri::try_from(url).map_err(|error| refused(&format!("is no URL ({error})")))?;
    let scheme = match uri.scheme_str() {
        Some("http") => Scheme::HTTP,
        Some("https") => Scheme::HTTPS,
        _ => return Err(refused("is neither http nor https")),
    };
    let authority = uri.authority().cloned().ok_or_else(|| refused("names no host"))?;
    if authority.as_str().contains('@') {
        return Err(refused("has a user's name in it, which is never sent"));
    }
    if !matches!(uri.path_and_query().map_or("", |path| path.as_str()), "" | "/") {
        return Err(refused("has a path, and paths are passed on as they are: leave it out"));
    }
    Ok((scheme, authority))
}

/// The client for it.
pub(super) fn client(scheme: &Scheme, authority: &Authority, ca: Option<&Path>, patience: Duration) -> Result<Asking> {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    http.set_connect_timeout(Some(patience));
    http.set_keepalive(Some(Duration::from_secs(60)));
    http.enforce_http(false);
    let tls = match (*scheme == Scheme::HTTPS, ca) {
        (true, ca) => Some(tls(authority, ca)?),
        (false, None) => None,
        (false, Some(_)) => {
            let message = "authorities are given, and the upstream is http: nothing is checked there; write https://";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    };
    let dial = Dial { http, tls, patience };
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(KEPT).pool_max_idle_per_host(MOST_KEPT).set_host(false);
    Ok(builder.build(dial))
}

fn tls(authority: &Authority, ca: Option<&Path>) -> Result<(TlsConnector, ServerName<'static>)> {
    let refuse = |why: String| Error::new(ErrorKind::Invalid, why);
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(format!("TLS cannot be set up: {error}")))?
        .with_root_certificates(roots(ca, "upstream-ca")?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let name =
        ServerName::try_from(host).map_err(|error| refuse(format!("the upstream has no name for TLS: {error}")))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// Makes connections.
#[derive(Clone)]
pub(super) struct Dial {
    http: HttpConnector,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    patience: Duration,
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Stream>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
        self.http.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, tls, patience) = (self.http.call(uri), self.tls.clone(), self.patience);
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            let Some((connector, name)) = tls else { return Ok(TokioIo::new(Stream::Plain(stream))) };
            let secured = tokio::time::timeout(patience, connector.connect(name, stream))
                .await
                .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake did not end in time"))??;
            Ok(TokioIo::new(Stream::Secured(Box::new(secured))))
        })
    }
}

/// A connection, plain or secured.
pub(super) enum Stream {
    Plain(TcpStream),
    Secured(Box<TlsStream<TcpStream>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Plain($stream) => $call,
            Stream::Secured($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(context, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Secured(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_scheme_and_a_host() {
        for url in ["http://catalog:8080", "http://catalog:8080/", "https://catalog.example", "http://[::1]:8080"] {
            assert!(parse(url).is_ok(), "{url}");
        }
        for (url, says) in [
            ("catalog:8080", "neither http nor https"),
            ("ftp://catalog", "neither http nor https"),
            ("http://me:secret@catalog", "user's name"),
            ("http://catalog/base", "paths are passed on"),
            ("http://catalog?x=1", "paths are passed on"),
            ("http://", "no URL"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
