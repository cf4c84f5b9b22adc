//! The certificate of a service, from PEM files, with errors that say which of them is wrong.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The TLS that is served, for those who drive it over their own sockets.
pub use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::error::Error;
use crate::validity;

/// A chain with its key takes 2 to 10 KB, all authorities of a browser 250 KB.
const MOST_BYTES: u64 = 4 << 20;
/// Sessions that clients may take up again, as many as rustls keeps by itself.
const SESSIONS: usize = 256;

/// A certificate with its key, ready to serve TLS 1.2 and 1.3.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    not_after: Option<u64>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Tls { .. }")
    }
}

impl Tls {
    /// Reads the certificate (with the chain behind it, if there is one) and the key, for HTTP/2 and HTTP/1.1.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let (certificates, secret) = (read("certificate", certificate)?, read("key", key)?);
        Self::from_pem(&certificates, &secret, &certificate.display().to_string(), &key.display().to_string())
    }

    /// The same from the files' content; the names are for errors.
    pub fn from_pem(certificates: &[u8], key: &[u8], certificate_name: &str, key_name: &str) -> Result<Self, Error> {
        let (mut config, not_after) = config(certificates, key, certificate_name, key_name, None)?;
        config.alpn_protocols = protocols_of_http();
        Ok(Self { config: Arc::new(config), not_after })
    }

    /// For a protocol that has no name in TLS, such as Redis's: whatever clients call it is accepted. With authorities,
    /// only clients that show a certificate of one of them are let in.
    pub fn for_unnamed(certificate: &Path, key: &Path, client_authorities: Option<&Path>) -> Result<Self, Error> {
        let (certificates, secret) = (read("certificate", certificate)?, read("key", key)?);
        let authorities = client_authorities.map(authorities).transpose()?;
        let (certificate_name, key_name) = (certificate.display().to_string(), key.display().to_string());
        let (config, not_after) = config(&certificates, &secret, &certificate_name, &key_name, authorities)?;
        Ok(Self { config: Arc::new(config), not_after })
    }

    /// The same certificate, and the same authorities of clients, for HTTP/2 and HTTP/1.1. Sessions of the other protocol are
    /// not taken up here.
    #[must_use]
    pub fn for_http(&self) -> Self {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = protocols_of_http();
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        Self { config: Arc::new(config), not_after: self.not_after }
    }

    /// What a connection is begun with.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// When the certificate itself ends, in seconds since 1970, if it says so. Those behind it in the chain may end before:
    /// clients may know another way to an authority they believe.
    #[must_use]
    pub fn not_after(&self) -> Option<u64> {
        self.not_after
    }

    pub(crate) fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        tokio_rustls::TlsAcceptor::from(self.config.clone())
    }
}

/// Where connections get the certificate from that they are begun with: one that stays, or the one of that moment.
#[derive(Clone)]
pub struct Certificates(Arc<dyn Fn() -> Tls + Send + Sync>);

impl std::fmt::Debug for Certificates {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Certificates { .. }")
    }
}

impl Certificates {
    /// The one of the moment: asked for each connection.
    pub fn of_the_moment(now: impl Fn() -> Tls + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Tls {
        (self.0)()
    }
}

impl From<Tls> for Certificates {
    fn from(tls: Tls) -> Self {
        Self::of_the_moment(move || tls.clone())
    }
}

fn protocols_of_http() -> Vec<Vec<u8>> {
    vec![b"h2".to_vec(), b"http/1.1".to_vec()]
}

fn read(what: &str, path: &Path) -> Result<Vec<u8>, Error> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::new(format!("the {what} {} cannot be read: {why}; give a PEM file", path.display()))
    };
    let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    match bytes.len() as u64 > MOST_BYTES {
        true => Err(wrong(&format_args!("it has more than {MOST_BYTES} bytes"))),
        false => Ok(bytes),
    }
}

/// The certificates of a PEM file, at least one.
fn certificates(pem: &[u8], name: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| Error::new(format!("{name} is no PEM file of certificates: {error}")))?;
    match chain.is_empty() {
        true => Err(Error::new(format!(
            "{name} holds no certificate: it needs a block BEGIN CERTIFICATE, the server's own first"
        ))),
        false => Ok(chain),
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, Error> {
    let name = path.display().to_string();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&read("file of authorities", path)?, &name)? {
        roots.add(certificate).map_err(|error| Error::new(format!("{name} holds no authority: {error}")))?;
    }
    Ok(roots)
}

fn config(
    pem: &[u8],
    key: &[u8],
    certificate_name: &str,
    key_name: &str,
    clients: Option<RootCertStore>,
) -> Result<(ServerConfig, Option<u64>), Error> {
    let chain = certificates(pem, certificate_name)?;
    let not_after = chain.first().and_then(|own| validity::not_after(own));
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        Error::new(format!("{key_name} holds no private key ({error}): it needs a block BEGIN PRIVATE KEY"))
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(format!("no version of TLS can be served: {error}")))?;
    let config = match clients {
        None => versions.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            let verifier = verifier
                .map_err(|error| Error::new(format!("clients cannot be checked by these authorities: {error}")))?;
            versions.with_client_cert_verifier(verifier)
        }
    };
    let config = config.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => Error::new(format!(
            "the certificate {certificate_name} and the key {key_name} do not belong together: give the key the certificate \
             was made for"
        )),
        other => Error::new(format!("{certificate_name} with {key_name} cannot be used: {other}")),
    })?;
    Ok((config, not_after))
}
