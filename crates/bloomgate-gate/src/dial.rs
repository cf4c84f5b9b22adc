//! Connections to HTTP services, what is behind a proxy or a source: HTTP/1.1 over TCP, or over TLS.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::http::uri::Scheme;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tower::Service;

use crate::authorities::roots;
use crate::error::{Error, ErrorKind, Result};

/// The name that the certificate of a host must have.
pub(crate) fn name(host: &str) -> Result<ServerName<'static>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerName::try_from(bare)
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("the host has no name for TLS: {error}")))
}

/// What checks servers by the authorities of a PEM file, or by the system's. `setting` is what names the file.
pub(crate) fn tls(authorities: Option<&Path>, setting: &str) -> Result<TlsConnector> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("TLS cannot be set up: {error}")))?
        .with_root_certificates(roots(authorities, setting)?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Dial {
    http: HttpConnector,
    tls: Option<TlsConnector>,
    patience: Duration,
}

impl Dial {
    /// One that waits so long for a connection, and as long again for a handshake. Without TLS it makes none to `https`.
    pub fn new(tls: Option<TlsConnector>, patience: Duration) -> Self {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(patience));
        http.set_keepalive(Some(Duration::from_secs(60)));
        http.enforce_http(false);
        Self { http, tls, patience }
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Stream>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
        self.http.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let secured = uri.scheme() == Some(&Scheme::HTTPS);
        let name = secured.then(|| name(uri.host().unwrap_or_default()));
        let (connecting, tls, patience) = (self.http.call(uri), self.tls.clone(), self.patience);
        Box::pin(async move {
            let Some(name) = name else { return Ok(TokioIo::new(Stream::Plain(Heard::new(connecting.await?)))) };
            let connector = tls.ok_or("https, and no authorities were given to check it by")?;
            let (name, stream) = (name?, Heard::new(connecting.await?));
            let secured = tokio::time::timeout(patience, connector.connect(name, stream))
                .await
                .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake did not end in time"))??;
            Ok(TokioIo::new(Stream::Secured(Box::new(secured))))
        })
    }
}

/// A connection, plain or secured.
pub(crate) enum Stream {
    Plain(Heard),
    Secured(Box<TlsStream<Heard>>),
}

/// A connection of which everything is heard that was said before it was closed. A service that refuses a long request by its head
/// answers, and closes with the rest of the request unread; then nothing more can be sent, though the answer is here already.
/// That would be the end of the request without one, and of a write nobody would know what became of it: so what cannot
/// be sent any more is dropped, and the end is what reading finds.
pub(crate) struct Heard {
    stream: TcpStream,
    takes_nothing: bool,
}

impl Heard {
    fn new(stream: TokioIo<TcpStream>) -> Self {
        Self { stream: stream.into_inner(), takes_nothing: false }
    }

    /// What became of an attempt to send; `dropped` if nothing can be sent any more.
    fn sent<T>(&mut self, sent: Poll<io::Result<T>>, dropped: T) -> Poll<io::Result<T>> {
        match sent {
            Poll::Ready(Err(error))
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                self.takes_nothing = true;
                Poll::Ready(Ok(dropped))
            }
            sent => sent,
        }
    }
}

impl AsyncRead for Heard {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

impl AsyncWrite for Heard {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.takes_nothing {
            return Poll::Ready(Ok(bytes.len()));
        }
        let sent = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.sent(sent, bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let all = || pieces.iter().map(|piece| piece.len()).sum();
        if this.takes_nothing {
            return Poll::Ready(Ok(all()));
        }
        let sent = Pin::new(&mut this.stream).poll_write_vectored(context, pieces);
        this.sent(sent, all())
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let ended = Pin::new(&mut this.stream).poll_shutdown(context);
        this.sent(ended, ())
    }
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
