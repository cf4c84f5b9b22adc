//! TLS to a PostgreSQL server, by rustls: as much of it as `sslmode` asks for.
//!
//! | sslmode | encrypted | the server is checked |
//! |---|---|---|
//! | `disable` | no | no |
//! | `prefer` (if nothing is said) | if the server can | no |
//! | `require` | yes | its authority, if `sslrootcert` is given |
//! | `verify-ca` | yes | its authority |
//! | `verify-full` | yes | its authority and its name |
//!
//! The authorities are those of `sslrootcert` (a PEM file), or the system's.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use tokio_rustls::rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme};

use crate::authorities::roots;
use crate::error::{Error, ErrorKind, Result};

/// What of a server is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Nothing,
    Authority,
    AuthorityAndName,
}

/// Makes sessions to servers.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Sessions with a check against the authorities of a file, or of the system.
    pub fn new(check: Check, authorities: Option<&str>) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let chain = match check {
            Check::Nothing => None,
            _ => {
                let file = authorities.filter(|&file| file != "system").map(Path::new);
                let roots = Arc::new(roots(file, "sslrootcert")?);
                let built = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
                Some(built.map_err(|error| refuse(format!("the authorities of TLS cannot be used: {error}")))?)
            }
        };
        let by_name = check == Check::AuthorityAndName;
        let checking = Arc::new(Checking { chain, by_name, provider: Arc::clone(&provider) });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| refuse(format!("TLS cannot be set up: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(checking)
            .with_no_client_auth();
        Ok(Self { config: Arc::new(config) })
    }
}

fn refuse(why: String) -> Error {
    Error::new(ErrorKind::Invalid, why)
}

/// Checks what was asked for; that the server holds the certificate's key is always checked.
#[derive(Debug)]
struct Checking {
    chain: Option<Arc<WebPkiServerVerifier>>,
    by_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Checking {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(certificate, between, name, ocsp, now) {
            // The name comes last: all else was right.
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.by_name => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Tls")
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Session;
    type TlsConnect = Handshake;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> std::result::Result<Handshake, InvalidDnsNameError> {
        // A socket file has no name, and no TLS either.
        let host = if host.is_empty() { "localhost" } else { host };
        Ok(Handshake { config: Arc::clone(&self.config), name: ServerName::try_from(host)?.to_owned() })
    }
}

/// A session to come.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Session;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Session>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let session = TlsConnector::from(self.config).connect(self.name, socket).await?;
            Ok(Session(Box::new(session)))
        })
    }
}

/// A session. In a box: it is large, and a connection without TLS would carry its size.
pub(super) struct Session(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Session {
    fn channel_binding(&self) -> ChannelBinding {
        // The password is proven without it, as libpq does where OpenSSL cannot tell the hash.
        ChannelBinding::none()
    }
}

impl AsyncRead for Session {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, to)
    }
}

impl AsyncWrite for Session {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
