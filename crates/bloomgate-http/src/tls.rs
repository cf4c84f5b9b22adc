//! The certificate of a service, from two PEM files, with errors that say which of them is wrong.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;

/// A certificate with its key, ready to serve TLS 1.2 and 1.3 with HTTP/2 or HTTP/1.1.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Tls { .. }")
    }
}

impl Tls {
    /// Reads the certificate (with the chain behind it, if there is one) and the key.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let read = |what: &str, path: &Path| {
            std::fs::read(path).map_err(|error| {
                Error::new(format!("the {what} {} cannot be read: {error}; give a PEM file", path.display()))
            })
        };
        let (certificates, secret) = (read("certificate", certificate)?, read("key", key)?);
        Self::from_pem(&certificates, &secret, &certificate.display().to_string(), &key.display().to_string())
    }

    /// The same from the files' content; the names are for errors.
    pub fn from_pem(certificates: &[u8], key: &[u8], certificate_name: &str, key_name: &str) -> Result<Self, Error> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| Error::new(format!("{certificate_name} is no PEM file of certificates: {error}")))?;
        if chain.is_empty() {
            return Err(Error::new(format!(
                "{certificate_name} holds no certificate: it needs a block BEGIN CERTIFICATE, the server's own first"
            )));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            Error::new(format!("{key_name} holds no private key ({error}): it needs a block BEGIN PRIVATE KEY"))
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = versions
            .map_err(|error| Error::new(format!("no version of TLS can be served: {error}")))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => Error::new(format!(
                    "the certificate {certificate_name} and the key {key_name} do not belong together: give the key the \
                     certificate was made for"
                )),
                other => Error::new(format!("{certificate_name} with {key_name} cannot be used: {other}")),
            })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config) })
    }

    pub(crate) fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        tokio_rustls::TlsAcceptor::from(self.config.clone())
    }
}
